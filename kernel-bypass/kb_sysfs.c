/*
 * kb_sysfs.c - what the kernel says of a block device: who it is and what it can. Everything blocks
 * a little, so callers are on helper threads. Nothing here is trusted further than as text: it is
 * cut to length and cleaned of what doesn't print.
 *
 * Identity, the first that is there: the WWN (wwid), model and serial number, the file behind a
 * loop device, the place in the machine (stable while nobody moves the drive). A partition adds its
 * number.
 */
#include <ctype.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/sysmacros.h>
#include <unistd.h>
#include "kernel-bypass/kb_int.h"

#define SYS_TIMEOUT_NVME_MS 2000u

/* Blanks at both ends go; inside, and for anything odd, '_' when it is to be one word. */
static void
text_clean(char *s, bool one_word)
{
	size_t from = strspn(s, " \t\r\n");
	size_t len = strlen(s + from);

	memmove(s, s + from, len + 1);
	while (len > 0 && isspace((unsigned char)s[len - 1])) {
		s[--len] = '\0';
	}
	for (size_t i = 0; i < len; i++) {
		if ((!isprint((unsigned char)s[i]) && s[i] != '\n') || (one_word && s[i] == ' ')) {
			s[i] = '_';
		}
	}
}

bool
kb_sysfs_read(const char *dir, const char *name, char *out, size_t out_len)
{
	char path[256];
	bool ok = false;

	out[0] = '\0';
	if (snprintf(path, sizeof(path), "%s/%s", dir, name) >= (int)sizeof(path)) {
		return false;
	}
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0) {
		return false;
	}
	ssize_t n = read(fd, out, out_len - 1);
	if (n > 0) {
		out[n] = '\0';
		text_clean(out, false);
		ok = out[0] != '\0';
	} else {
		out[0] = '\0';
	}
	close(fd);
	return ok;
}

uint64_t
kb_sysfs_number(const char *dir, const char *name)
{
	char text[32];

	return kb_sysfs_read(dir, name, text, sizeof(text)) ? strtoull(text, NULL, 10) : 0;
}

/* The unit serial number page of SCSI: 4 bytes of header, length in the last two, then the text. */
static bool
read_vpd_serial(const char *dir, char *out, size_t out_len)
{
	char path[256];
	uint8_t page[256];

	snprintf(path, sizeof(path), "%.200s/device/vpd_pg80", dir);
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0) {
		return false;
	}
	ssize_t n = read(fd, page, sizeof(page));
	close(fd);
	if (n <= 4) {
		return false;
	}
	size_t len = MIN((size_t)(page[2] << 8 | page[3]), (size_t)n - 4);
	len = MIN(len, out_len - 1);
	memcpy(out, page + 4, len);
	out[len] = '\0';
	text_clean(out, false);
	return out[0] != '\0';
}

static void
read_serial(const char *dir, char *out, size_t out_len)
{
	if (kb_sysfs_read(dir, "serial", out, out_len) ||
	    kb_sysfs_read(dir, "device/serial", out, out_len) ||
	    read_vpd_serial(dir, out, out_len)) {
		return;
	}
	out[0] = '\0';
}

static void
make_id(const char *dir, struct kb_info *info)
{
	char text[256];
	char link[256];

	if (kb_sysfs_read(dir, "wwid", text, sizeof(text)) ||
	    kb_sysfs_read(dir, "device/wwid", text, sizeof(text))) {
		snprintf(info->id, sizeof(info->id), "wwn:%.110s", text);
	} else if (info->serial[0] != '\0') {
		snprintf(
		    info->id, sizeof(info->id), "serial:%.50s:%.60s", info->model, info->serial);
	} else if (kb_sysfs_read(dir, "loop/backing_file", text, sizeof(text))) {
		snprintf(info->id, sizeof(info->id), "file:%.110s", text);
	} else {
		ssize_t n = readlink(dir, link, sizeof(link) - 1);
		link[n > 0 ? n : 0] = '\0';
		const char *tail = strstr(link, "/devices/");
		tail = tail != NULL ? tail + 8 : link;
		size_t len = strlen(tail);
		snprintf(
		    info->id, sizeof(info->id), "path:%.110s", len > 110 ? tail + len - 110 : tail);
	}
	text_clean(info->id, true);
}

static void
add_partition_number(const char *dir, struct kb_info *info)
{
	uint64_t part = kb_sysfs_number(dir, "partition");
	size_t len = strlen(info->id);

	if (part != 0 && len < sizeof(info->id) - 12) {
		snprintf(info->id + len, sizeof(info->id) - len, "-part%u", (unsigned)part);
	}
}

void
kb_sysfs_identify(uint64_t dev, struct kb_info *info)
{
	char dir[64];
	char disk[80];
	char text[64];
	char uevent[256];

	snprintf(dir, sizeof(dir), "/sys/dev/block/%u:%u", major(dev), minor(dev));
	bool part = kb_sysfs_number(dir, "partition") != 0;
	snprintf(disk, sizeof(disk), "%s%s", dir, part ? "/.." : "");
	kb_sysfs_read(disk, "device/model", info->model, sizeof(info->model));
	read_serial(disk, info->serial, sizeof(info->serial));
	info->rotational = kb_sysfs_number(disk, "queue/rotational") != 0;
	info->optimal_io_bytes = (uint32_t)kb_sysfs_number(disk, "queue/optimal_io_size");
	info->discard = kb_sysfs_number(disk, "queue/discard_max_bytes") != 0;
	kb_sysfs_read(disk, "queue/write_cache", text, sizeof(text));
	info->volatile_cache = strcmp(text, "write through") != 0;
	make_id(disk, info);
	add_partition_number(dir, info);
	if (kb_sysfs_read(disk, "uevent", uevent, sizeof(uevent)) &&
	    strstr(uevent, "DEVNAME=nvme") != NULL) {
		info->timeout_ms = SYS_TIMEOUT_NVME_MS;
	}
}
