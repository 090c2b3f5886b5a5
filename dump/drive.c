/*
 * drive.c - an image file or a block device, opened for reading only, and where on it the pool's
 * region lies. Labels are looked for in this order: at the front; at the back of the region that a
 * label at the front names, else of the one that the partition table names, else of the one that
 * the size gives. A partition (an image of the region alone) is taken as well; offsets are always
 * those of the whole drive.
 */
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "dump/dump.h"

#define GPT_ENTRIES_SHOWN 128u
static const uint8_t gpt_type[16] = {
    0x52, 0x7d, 0x0e, 0x6f, 0x64, 0x1c, 0x8f, 0x4b, 0xa6, 0xd1, 0x0a, 0x9a, 0x7e, 0x5b, 0x21, 0xc3};

int
dump_drive_read(const struct dump_drive *d, uint64_t off, void *out, uint64_t len)
{
	uint8_t *to = out;

	if (off < d->shift || off - d->shift > d->size_bytes ||
	    len > d->size_bytes - (off - d->shift)) {
		return -EIO;
	}
	off -= d->shift;
	while (len > 0) {
		ssize_t n = pread(d->fd, to, len, (off_t)off);

		if (n < 0 && errno == EINTR) {
			continue;
		}
		if (n <= 0) {
			return -EIO;
		}
		to += n;
		off += (uint64_t)n;
		len -= (uint64_t)n;
	}
	return 0;
}

uint64_t
dump_region_by_size(uint64_t size_bytes)
{
	uint64_t unit = size_bytes < 16 * GIB ? MIB : 256 * MIB;

	return size_bytes < 2 * MIB ? 0 : ALIGN_DOWN(size_bytes - 2 * MIB, unit);
}

uint64_t
dump_label_offset(uint64_t region_bytes, unsigned index)
{
	uint64_t start = REGION_START;

	if (index >= 2) {
		start += region_bytes - LABELS * (uint64_t)LABEL_SIZE;
	}
	return start + index * (uint64_t)LABEL_SIZE;
}

/* Length of the partition of our type, by the table at the front, in blocks of lba_bytes. 0: none.
 */
static uint64_t
region_by_table(const struct dump_drive *d, uint32_t lba_bytes)
{
	uint8_t header[92], entry[128];
	uint64_t lba;

	if (dump_drive_read(d, lba_bytes, header, sizeof(header)) != 0 ||
	    memcmp(header, "EFI PART", 8) != 0) {
		return 0;
	}
	lba = b64(header, 0x48);
	if (lba > d->size_bytes / lba_bytes) {
		return 0;
	}
	for (uint32_t i = 0; i < MIN(b32(header, 0x50), GPT_ENTRIES_SHOWN); i++) {
		uint64_t at = lba * lba_bytes + i * sizeof(entry), first, last;

		if (dump_drive_read(d, at, entry, sizeof(entry)) != 0) {
			return 0;
		}
		first = b64(entry, 0x20);
		last = b64(entry, 0x28);
		if (memcmp(entry, gpt_type, sizeof(gpt_type)) == 0 &&
		    first == REGION_START / lba_bytes && last >= first &&
		    last < d->size_bytes / lba_bytes) {
			return (last - first + 1) * lba_bytes;
		}
	}
	return 0;
}

static void
label_look(struct dump_drive *d, uint64_t region_bytes, unsigned index, uint8_t *buf)
{
	struct dump_label *l = &d->label[index];
	uint64_t off = dump_label_offset(region_bytes, index);

	if (dump_drive_read(d, off, buf, UBER_AT) != 0) {
		l->why = "can't be read";
		return;
	}
	l->why = dump_label_decode(buf, off, index, l);
	if (l->why == NULL && d->id < 0) {
		d->id = (int)index;
		d->region_bytes = l->region_bytes;
	}
}

static void
labels_look(struct dump_drive *d, uint8_t *buf)
{
	uint64_t guess[3];

	d->id = -1;
	label_look(d, LABELS * (uint64_t)LABEL_SIZE, 0, buf);
	label_look(d, LABELS * (uint64_t)LABEL_SIZE, 1, buf);
	guess[0] = region_by_table(d, 512);
	guess[1] = region_by_table(d, 4096);
	guess[2] = dump_region_by_size(d->size_bytes + (d->shift > 0 ? 2 * MIB : 0));
	for (unsigned i = 0; i < ARRAY_LEN(guess) && d->id < 0; i++) {
		if (guess[i] >= LABELS * (uint64_t)LABEL_SIZE) {
			label_look(d, guess[i], 2, buf);
			label_look(d, guess[i], 3, buf);
		}
	}
	if (d->id == 0 || d->id == 1) {
		label_look(d, d->region_bytes, 2, buf);
		label_look(d, d->region_bytes, 3, buf);
	}
	for (unsigned i = 2; i < LABELS; i++) {
		if (d->label[i].why == NULL && d->id < 0) {
			d->label[i].why = "its place is not known";
		}
	}
}

static int
size_of(int fd, uint64_t *out)
{
	struct stat st;
	off_t end;

	if (fstat(fd, &st) != 0) {
		return -errno;
	}
	if (!S_ISREG(st.st_mode) && !S_ISBLK(st.st_mode)) {
		return -EINVAL;
	}
	end = lseek(fd, 0, SEEK_END);
	if (end < 0) {
		return -errno;
	}
	*out = (uint64_t)end;
	return 0;
}

int
dump_drive_open(const char *path, struct dump_drive *out)
{
	struct dump_drive d = {.path = path, .fd = open(path, O_RDONLY | O_CLOEXEC)};
	uint8_t *buf;
	int err;

	if (d.fd < 0) {
		return -errno;
	}
	err = size_of(d.fd, &d.size_bytes);
	buf = err == 0 ? mem_zalloc(UBER_AT) : NULL;
	if (err == 0 && buf == NULL) {
		err = -ENOMEM;
	}
	if (err != 0) {
		(void)close(d.fd);
		return err;
	}
	labels_look(&d, buf);
	if (d.id < 0) {
		struct dump_drive part = d;

		part.shift = REGION_START;
		labels_look(&part, buf);
		d = part.id >= 0 ? part : d;
	}
	mem_free(buf);
	*out = d;
	return 0;
}

void
dump_drive_close(struct dump_drive *d)
{
	(void)close(d->fd);
}
