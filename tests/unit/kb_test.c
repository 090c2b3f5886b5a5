/*
 * kb_test.c - real drives: image files in memory and on a disk, loop devices where root may make
 * them, discovery.
 */
#include <fcntl.h>
#include <linux/loop.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>
#include "base/base.h"
#include "kernel-bypass/kb.h"
#include "tests/lib/unit.h"

#define IMAGE_BYTES (64 * MIB)
#define PAGE SECTOR_BYTES

static char work_dir[64];   /* on disk */
static char memory_dir[64]; /* in memory; empty: there is none */

static void
run_real(fiber_fn *fn, void *arg)
{
	struct rt_options opt = {.reactors = 2, .arena_bytes = 64 * MIB};
	CU_ASSERT(rt_run(&opt, fn, arg) == 0);
}

static void
make_image(char *out_path, size_t len, const char *dir, const char *name, uint64_t bytes)
{
	snprintf(out_path, len, "%s/%s", dir, name);
	int fd = open(out_path, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
	CU_ASSERT_FATAL(fd >= 0);
	CU_ASSERT_FATAL(ftruncate(fd, (off_t)bytes) == 0);
	close(fd);
}

/* ---- any drive: concurrent traffic from two reactors, compared with what was written ---- */

#define TRAFFIC_FIBERS 8u
#define TRAFFIC_ROUNDS 40u
#define TRAFFIC_BYTES (4 * MIB) /* each fiber's own part of the drive */

struct traffic {
	struct kb_drive *d;
	struct waitgroup done;
	_Atomic unsigned next;
	_Atomic unsigned wrong;
};

static void
fill_pattern(uint8_t *p, uint64_t seed)
{
	uint64_t x = seed * 0x9e3779b97f4a7c15u + 1;
	for (size_t i = 0; i < PAGE; i += 8) {
		x ^= x << 13;
		x ^= x >> 7;
		x ^= x << 17;
		memcpy(p + i, &x, 8);
	}
}

static void
traffic_round(struct traffic *t, uint64_t base, uint64_t round, struct iobuf *b, struct iobuf *want)
{
	struct kb_seg segs[4];
	struct kb_io io[4];
	struct kb_group g;
	uint64_t slot = rt_random_u64() % 200;

	kb_group_init(&g);
	for (uint32_t i = 0; i < 4; i++) {
		fill_pattern(want->data + i * PAGE, base + round * 1000 + i);
		memcpy(b->data + i * PAGE, want->data + i * PAGE, PAGE);
		segs[i] = (struct kb_seg){b, i * PAGE, PAGE};
		io[i] = (struct kb_io){.op = KB_WRITE,
		    .flags = i == 0 ? KB_FUA : 0,
		    .off_bytes = base + (slot + i) * PAGE,
		    .segs = &segs[i],
		    .seg_count = 1};
		kb_submit(t->d, &io[i], &g, 0);
	}
	kb_group_wait(&g);
	for (uint32_t i = 0; i < 4; i++) {
		t->wrong += io[i].status != 0;
	}
	if (round % 8 == 0) {
		t->wrong += kb_flush(t->d) != 0;
	}
	struct kb_io all = {
	    .op = KB_READ, .off_bytes = base + slot * PAGE, .segs = segs, .seg_count = 4};
	memset(b->data, 0, 4 * PAGE);
	kb_submit(t->d, &all, &g, 0);
	kb_group_wait(&g);
	t->wrong += all.status != 0 || memcmp(b->data, want->data, 4 * PAGE) != 0;
}

static void
traffic_fiber(void *arg)
{
	struct traffic *t = arg;
	uint64_t base = atomic_fetch_add(&t->next, 1) * TRAFFIC_BYTES;
	struct iobuf *b;
	struct iobuf *want;

	if (iobuf_alloc(4 * PAGE, ARENA_SYNC, &b) != 0 ||
	    iobuf_alloc(4 * PAGE, ARENA_SYNC, &want) != 0) {
		abort();
	}
	for (uint64_t round = 0; round < TRAFFIC_ROUNDS; round++) {
		traffic_round(t, base, round, b, want);
	}
	iobuf_unref(b);
	iobuf_unref(want);
	wg_done(&t->done);
}

static void
drive_traffic(struct kb_drive *d)
{
	struct traffic t = {.d = d};
	struct kb_counters c;

	wg_init(&t.done);
	wg_add(&t.done, TRAFFIC_FIBERS);
	for (unsigned i = 0; i < TRAFFIC_FIBERS; i++) {
		fiber_spawn_wait(i % 2, FIBER_REQUEST, "traffic", traffic_fiber, &t);
	}
	wg_wait(&t.done);
	CU_ASSERT(t.wrong == 0);
	kb_get_counters(d, &c);
	CU_ASSERT(c.writes == TRAFFIC_FIBERS * TRAFFIC_ROUNDS * 4);
	CU_ASSERT(c.reads == TRAFFIC_FIBERS * TRAFFIC_ROUNDS);
	CU_ASSERT(c.errors == 0 && c.timeouts == 0);
}

static void
drive_discard(struct kb_drive *d)
{
	struct iobuf *b;

	CU_ASSERT_FATAL(iobuf_alloc(PAGE, ARENA_SYNC, &b) == 0);
	memset(b->data, 0xab, PAGE);
	CU_ASSERT(kb_write(d, 8 * MIB, b, PAGE, KB_FUA) == 0);
	CU_ASSERT(kb_discard(d, 6 * MIB, 10 * MIB) == 0);
	CU_ASSERT(kb_read(d, 8 * MIB, b, PAGE) == 0);
	CU_ASSERT(b->data[0] == 0); /* a hole in a file reads as zeros */
	CU_ASSERT(kb_read(d, kb_size(d), b, PAGE) == -EINVAL);
	iobuf_unref(b);
}

/* Deadlines that pass at once: what has not begun is taken back, what has begun ends late; either
 * way every buffer comes back, and what was not reported as timed out is on the drive. */
#define HURRIED 40u
static void
drive_deadlines(struct kb_drive *d)
{
	static struct kb_io io[HURRIED];
	struct kb_seg seg = {.len_bytes = PAGE};
	struct kb_group g;
	unsigned timeouts = 0;

	CU_ASSERT_FATAL(iobuf_alloc(PAGE, ARENA_SYNC, &seg.buf) == 0);
	memset(seg.buf->data, 0x5a, PAGE);
	kb_group_init(&g);
	for (uint64_t i = 0; i < HURRIED; i++) {
		io[i] = (struct kb_io){
		    .op = KB_WRITE, .off_bytes = 40 * MIB + i * PAGE, .segs = &seg, .seg_count = 1};
		kb_submit(d, &io[i], &g, i % 4 == 0 ? 0 : rt_now_ns() + 1);
	}
	kb_group_wait(&g);
	for (uint64_t i = 0; i < HURRIED; i++) {
		CU_ASSERT(io[i].status == 0 || (i % 4 != 0 && io[i].status == -ETIMEDOUT));
		timeouts += io[i].status == -ETIMEDOUT;
	}
	while (kb_late_writes(d) != 0 || atomic_load(&seg.buf->refs) != 1) {
		fiber_sleep(NSEC_PER_MSEC);
	}
	printf("(%u of %u timed out) ", timeouts, HURRIED);
	for (uint64_t i = 0; i < HURRIED; i++) {
		memset(seg.buf->data, 0, PAGE);
		CU_ASSERT(kb_read(d, io[i].off_bytes, seg.buf, PAGE) == 0);
		CU_ASSERT(io[i].status != 0 || seg.buf->data[PAGE - 1] == 0x5a);
	}
	iobuf_unref(seg.buf);
}

struct image_case {
	const char *path;
	enum kb_backend backend;
	const char *id_prefix;
};

static void
image_main(void *arg)
{
	const struct image_case *c = arg;
	struct kb_drive *d = NULL;
	struct kb_info info;

	CU_ASSERT_FATAL(kb_open(c->path, -1, true, &d) == 0);
	kb_get_info(d, &info);
	CU_ASSERT(info.size_bytes == IMAGE_BYTES);
	CU_ASSERT(info.backend == c->backend);
	CU_ASSERT(strncmp(info.id, c->id_prefix, strlen(c->id_prefix)) == 0);
	CU_ASSERT(strcmp(kb_path(d), c->path) == 0);
	drive_traffic(d);
	if (info.discard) {
		drive_discard(d);
	}
	drive_deadlines(d);
	kb_close(d);
}

static void
test_image_in_memory(void)
{
	char path[128];
	uint64_t before = mem_live_count();

	if (memory_dir[0] == '\0') {
		printf("(no tmpfs: skipped) ");
		return;
	}
	make_image(path, sizeof(path), memory_dir, "a.img", IMAGE_BYTES);
	run_real(image_main, &(struct image_case){path, KB_BACKEND_FILE, "file:/dev/shm/"});
	CU_ASSERT(mem_live_count() == before);
	unlink(path);
}

static void
test_image_on_disk(void)
{
	char path[128];
	uint64_t before = mem_live_count();

	make_image(path, sizeof(path), work_dir, "b.img", IMAGE_BYTES);
	run_real(image_main, &(struct image_case){path, KB_BACKEND_FILE, "file:"});
	CU_ASSERT(mem_live_count() == before);
	unlink(path);
}

/* ---- a block device of the kernel, when we may make one ---- */

static int
loop_attach(const char *image, char *out_path, size_t len)
{
	int control = open("/dev/loop-control", O_RDWR | O_CLOEXEC);
	int number = control < 0 ? -1 : ioctl(control, LOOP_CTL_GET_FREE);
	int file = open(image, O_RDWR | O_CLOEXEC);
	int fd = -1;

	if (number >= 0) {
		snprintf(out_path, len, "/dev/loop%d", number);
		fd = open(out_path, O_RDWR | O_CLOEXEC);
	}
	if (fd >= 0 && ioctl(fd, LOOP_SET_FD, file) != 0) {
		close(fd);
		fd = -1;
	}
	if (control >= 0) {
		close(control);
	}
	close(file);
	return fd;
}

static void
test_block_device(void)
{
	char image[128];
	char path[64];
	uint64_t before = mem_live_count();

	make_image(image, sizeof(image), memory_dir[0] != '\0' ? memory_dir : work_dir, "c.img",
	    IMAGE_BYTES);
	int fd = loop_attach(image, path, sizeof(path));
	if (fd < 0) {
		printf("(no loop device: skipped) ");
		unlink(image);
		return;
	}
	run_real(image_main, &(struct image_case){path, KB_BACKEND_AIO, "file:"});
	CU_ASSERT(mem_live_count() == before);
	CU_ASSERT(ioctl(fd, LOOP_CLR_FD) == 0);
	close(fd);
	unlink(image);
}

/* ---- errors of open ---- */

static void
open_errors_main(void *arg)
{
	struct kb_drive *d = NULL;
	char path[128];

	(void)arg;
	CU_ASSERT(kb_open("/nonexistent/x.img", -1, true, &d) == -ENOENT);
	CU_ASSERT(kb_open(work_dir, -1, true, &d) == -EINVAL);
	CU_ASSERT(kb_open("/dev/null", -1, true, &d) == -EINVAL);
	make_image(path, sizeof(path), work_dir, "empty.img", 4095);
	CU_ASSERT(kb_open(path, -1, true, &d) == -EINVAL);
	/* a descriptor is taken as it is */
	make_image(path, sizeof(path), work_dir, "empty.img", 4 * MIB + 100);
	int fd = open(path, O_RDWR | O_CLOEXEC);
	CU_ASSERT_FATAL(kb_open("as told", fd, true, &d) == 0);
	CU_ASSERT(kb_size(d) == 4 * MIB);
	CU_ASSERT(strcmp(kb_path(d), "as told") == 0);
	kb_close(d);
	CU_ASSERT(fcntl(fd, F_GETFD) == -1);
	unlink(path);
}

static void
test_open_errors(void)
{
	run_real(open_errors_main, NULL);
}

/* Two that open one image: the first to claim it keeps the other out until it closes. */
static void
claim_main(void *arg)
{
	struct kb_drive *one = NULL, *two = NULL;
	char path[128];

	(void)arg;
	make_image(path, sizeof(path), work_dir, "a.img", 4 * MIB);
	CU_ASSERT_FATAL(kb_open(path, -1, true, &one) == 0);
	CU_ASSERT_FATAL(kb_open(path, -1, true, &two) == 0);
	CU_ASSERT(kb_claim(one, false) == 0);
	CU_ASSERT(kb_claim(two, false) == -EBUSY);
	CU_ASSERT(kb_claim(two, true) == -EBUSY);
	kb_close(one);
	CU_ASSERT(kb_claim(two, true) == 0);
	CU_ASSERT_FATAL(kb_open(path, -1, true, &one) == 0);
	CU_ASSERT(kb_claim(one, true) == 0);
	CU_ASSERT(kb_claim(one, false) == -EBUSY);
	kb_close(one);
	kb_close(two);
	unlink(path);
}

static void
test_claim(void)
{
	run_real(claim_main, NULL);
}

/* A file that shrinks under us, or is deleted, is a drive that was pulled: gone, not wrong data. */
struct pulled {
	const char *path;
	bool shrink;
};

static void
pulled_main(void *arg)
{
	struct pulled *p = arg;
	struct kb_drive *d = NULL;
	struct iobuf *b;

	CU_ASSERT_FATAL(kb_open(p->path, -1, true, &d) == 0);
	CU_ASSERT_FATAL(iobuf_alloc(PAGE, ARENA_SYNC, &b) == 0);
	memset(b->data, 'x', PAGE);
	CU_ASSERT(kb_write(d, 2 * MIB, b, PAGE, 0) == 0);
	CU_ASSERT(kb_read(d, 2 * MIB, b, PAGE) == 0);
	if (p->shrink) {
		CU_ASSERT_FATAL(truncate(p->path, MIB) == 0);
	} else {
		CU_ASSERT_FATAL(unlink(p->path) == 0);
	}
	fiber_sleep(50 * NSEC_PER_MSEC);
	CU_ASSERT(kb_read(d, 2 * MIB, b, PAGE) == -ERR_GONE);
	CU_ASSERT(kb_read(d, 0, b, PAGE) == -ERR_GONE);
	CU_ASSERT(kb_write(d, 0, b, PAGE, KB_FUA) == -ERR_GONE);
	CU_ASSERT(kb_flush(d) == -ERR_GONE);
	CU_ASSERT(kb_is_gone(d));
	iobuf_unref(b);
	kb_close(d);
}

/* At once: the mapping's pages vanish between two looks. */
static void
torn_main(void *arg)
{
	struct pulled *p = arg;
	struct kb_drive *d = NULL;
	struct iobuf *b;

	CU_ASSERT_FATAL(kb_open(p->path, -1, true, &d) == 0);
	CU_ASSERT_FATAL(iobuf_alloc(PAGE, ARENA_SYNC, &b) == 0);
	memset(b->data, 'x', PAGE);
	CU_ASSERT(kb_write(d, 2 * MIB, b, PAGE, 0) == 0);
	CU_ASSERT_FATAL(truncate(p->path, MIB) == 0);
	CU_ASSERT(kb_read(d, 2 * MIB, b, PAGE) < 0);
	iobuf_unref(b);
	kb_close(d);
}

static void
test_pulled(void)
{
	char path[128];
	const char *const dirs[] = {work_dir, memory_dir};

	for (size_t i = 0; i < ARRAY_LEN(dirs); i++) {
		for (int how = 0; how < 3 && dirs[i][0] != '\0'; how++) {
			make_image(path, sizeof(path), dirs[i], "s.img", 4 * MIB);
			run_real(
			    how == 2 ? torn_main : pulled_main, &(struct pulled){path, how == 1});
			unlink(path);
		}
	}
}

/* ---- a file system in memory that is full: errors, no signal, and nothing lost that was told as
 * written ---- */

#define FULL_IMAGE_BYTES (8 * MIB)

struct full {
	const char *path;
	bool written[FULL_IMAGE_BYTES / (64 * 1024)];
};

static void
full_write(struct full *f, struct kb_drive *d, struct iobuf *b)
{
	unsigned ok = 0;

	for (uint64_t i = 0; i < ARRAY_LEN(f->written); i++) {
		memset(b->data, (int)i + 1, PAGE);
		int err = kb_write(d, i * 64 * 1024, b, PAGE, 0);
		CU_ASSERT(err == 0 || err == -EIO);
		f->written[i] = err == 0;
		ok += err == 0;
	}
	CU_ASSERT(ok > 0 && ok < ARRAY_LEN(f->written));
}

static void
full_read(struct full *f, struct kb_drive *d, struct iobuf *b)
{
	for (uint64_t i = 0; i < ARRAY_LEN(f->written); i++) {
		CU_ASSERT(kb_read(d, i * 64 * 1024, b, PAGE) == 0);
		CU_ASSERT(b->data[PAGE - 1] == (f->written[i] ? (uint8_t)(i + 1) : 0));
	}
}

static void
full_main(void *arg)
{
	struct full *f = arg;
	struct kb_drive *d = NULL;
	struct iobuf *b;

	CU_ASSERT_FATAL(iobuf_alloc(PAGE, ARENA_SYNC, &b) == 0);
	CU_ASSERT_FATAL(kb_open(f->path, -1, true, &d) == 0);
	full_write(f, d, b);
	full_read(f, d, b);
	kb_close(d);
	CU_ASSERT_FATAL(kb_open(f->path, -1, true, &d) == 0);
	full_read(f, d, b);
	CU_ASSERT(kb_discard(d, 0, FULL_IMAGE_BYTES) == 0);
	memset(f->written, 0, sizeof(f->written));
	full_read(f, d, b);
	memset(b->data, 3, PAGE);
	CU_ASSERT(kb_write(d, FULL_IMAGE_BYTES - PAGE, b, PAGE, KB_FUA) == 0);
	kb_close(d);
	iobuf_unref(b);
}

/* An image of FULL_IMAGE_BYTES on a file system of its own in memory, of so many bytes. */
static void
run_on_small(const char *size, fiber_fn *fn, void *arg, char *path, size_t path_len)
{
	char dir[96];

	snprintf(dir, sizeof(dir), "%s/full", work_dir);
	CU_ASSERT_FATAL(mkdir(dir, 0700) == 0);
	if (mount("none", dir, "tmpfs", 0, size) != 0) {
		printf("(no mount: skipped) ");
		rmdir(dir);
		return;
	}
	make_image(path, path_len, dir, "f.img", FULL_IMAGE_BYTES);
	run_real(fn, arg);
	CU_ASSERT(umount(dir) == 0);
	rmdir(dir);
}

static void
test_memory_full(void)
{
	char path[128];
	struct full f = {.path = path};

	run_on_small("size=2m", full_main, &f, path, sizeof(path));
}

static uint64_t
allocated_bytes(const char *path)
{
	struct stat st;

	CU_ASSERT_FATAL(stat(path, &st) == 0);
	return (uint64_t)st.st_blocks * 512;
}

static void
reserve_main(void *arg)
{
	const char *path = arg;
	struct kb_drive *d = NULL;
	struct iobuf *b;

	CU_ASSERT_FATAL(iobuf_alloc(PAGE, ARENA_SYNC, &b) == 0);
	CU_ASSERT_FATAL(kb_open(path, -1, true, &d) == 0);
	memset(b->data, 5, PAGE);
	CU_ASSERT(kb_write(d, MIB, b, PAGE, 0) == 0);
	kb_reserve(d, MIB, MIB);
	CU_ASSERT_EQUAL(allocated_bytes(path), MIB);
	kb_reserve(d, 4 * MIB, 3 * MIB); /* too much of what is left */
	CU_ASSERT_EQUAL(allocated_bytes(path), MIB);
	memset(b->data, 0, PAGE);
	CU_ASSERT(kb_read(d, MIB, b, PAGE) == 0 && b->data[9] == 5);
	CU_ASSERT(kb_read(d, 2 * MIB - PAGE, b, PAGE) == 0 && b->data[9] == 0);
	kb_close(d);
	iobuf_unref(b);
}

static void
test_memory_reserve(void)
{
	char path[128];

	run_on_small("size=16m", reserve_main, path, path, sizeof(path));
}

/* ---- discovery ---- */

struct seen {
	unsigned count;
	unsigned ours;
	unsigned foreign;
	char first[256];
};

static void
note_found(void *arg, const struct kb_found *f)
{
	struct seen *s = arg;

	if (s->count++ == 0) {
		snprintf(s->first, sizeof(s->first), "%s", f->info.path);
	}
	s->ours += f->used_by[0] == '\0';
	s->foreign += f->used_by[0] != '\0';
	CU_ASSERT(f->info.id[0] != '\0');
}

static void
scan_main(void *arg)
{
	static const uint8_t guid[16] = {7};
	struct kb_drive *d = NULL;
	struct seen s = {0};
	char path[128];
	struct iobuf *b;

	(void)arg;
	make_image(path, sizeof(path), work_dir, "d10.img", 4 * MIB);
	make_image(path, sizeof(path), work_dir, "d9.raw", 4 * MIB);
	CU_ASSERT_FATAL(kb_open(path, -1, true, &d) == 0);
	CU_ASSERT(kb_gpt_write(d, guid, "scan") == 0);
	kb_close(d);
	make_image(path, sizeof(path), work_dir, "tiny.img", MIB);
	make_image(path, sizeof(path), work_dir, "ignored.txt", 4 * MIB);
	make_image(path, sizeof(path), work_dir, "foreign.img", 4 * MIB);
	CU_ASSERT_FATAL(kb_open(path, -1, true, &d) == 0);
	CU_ASSERT_FATAL(iobuf_alloc(PAGE, ARENA_SYNC, &b) == 0);
	memset(b->data, 0, PAGE);
	memcpy(b->data, "XFSB", 4);
	CU_ASSERT(kb_write(d, 0, b, PAGE, KB_FUA) == 0);
	iobuf_unref(b);
	kb_close(d);
	CU_ASSERT(kb_scan(work_dir, note_found, &s) == 0);
	CU_ASSERT(s.count == 4 && s.ours == 2 && s.foreign == 2);
	CU_ASSERT(strstr(s.first, "/d9.raw") != NULL); /* by number, not by letters */
	CU_ASSERT(kb_scan("/nonexistent", note_found, &s) == -ENOENT);
	s = (struct seen){0};
	CU_ASSERT(kb_scan(NULL, note_found, &s) == 0);
	printf("(%u drives here, %u free) ", s.count, s.ours);
}

static void
test_scan(void)
{
	run_real(scan_main, NULL);
}

/* ---- main ---- */

static void
remove_files(const char *dir)
{
	static const char *const names[] = {"a.img", "b.img", "c.img", "s.img", "d10.img", "d9.raw",
	    "tiny.img", "ignored.txt", "foreign.img", "empty.img"};
	char path[128];

	for (size_t i = 0; i < ARRAY_LEN(names); i++) {
		snprintf(path, sizeof(path), "%s/%s", dir, names[i]);
		unlink(path);
	}
	rmdir(dir);
}

int
main(int argc, char **argv)
{
	static const struct unit_test tests[] = {
	    {"open_errors", test_open_errors},
	    {"claim", test_claim},
	    {"image_in_memory", test_image_in_memory},
	    {"image_on_disk", test_image_on_disk},
	    {"block_device", test_block_device},
	    {"pulled", test_pulled},
	    {"memory_full", test_memory_full},
	    {"memory_reserve", test_memory_reserve},
	    {"scan", test_scan},
	};

	snprintf(work_dir, sizeof(work_dir), "/tmp/kb_test.XXXXXX");
	snprintf(memory_dir, sizeof(memory_dir), "/dev/shm/kb_test.XXXXXX");
	if (mkdtemp(work_dir) == NULL) {
		perror(work_dir);
		return EXIT_FAILURE;
	}
	if (mkdtemp(memory_dir) == NULL) {
		memory_dir[0] = '\0';
	}
	int status = unit_main("kb", tests, ARRAY_LEN(tests), argc, argv);
	remove_files(work_dir);
	if (memory_dir[0] != '\0') {
		remove_files(memory_dir);
	}
	return status;
}
