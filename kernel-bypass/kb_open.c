/*
 * kb_open.c - from a path or a descriptor to a drive: what kind of thing it is decides the backend.
 * Everything that may block in the kernel runs on a helper thread, in one go.
 */
#include <fcntl.h>
#include <linux/fs.h>
#include <linux/magic.h>
#include <stdio.h>
#include <sys/ioctl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>
#include <xxhash.h>
#include "kernel-bypass/kb_int.h"

#define OPEN_TIMEOUT_MS 8000u

struct open_call {
	const char *path;
	int fd;
	bool exclusive;
	bool in_memory;
	int err;
	struct kb_info info;
};

/* The absolute path; a long one keeps its end, and a hash of the whole for the rest. */
static void
open_set_id_file(struct kb_info *info, int fd)
{
	char link[64];
	char real[1024];

	snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
	ssize_t n = readlink(link, real, sizeof(real) - 1);
	if (n <= 0) {
		n = snprintf(real, sizeof(real), "%s", info->path);
	}
	size_t len = MIN((size_t)n, sizeof(real) - 1);
	real[len] = '\0';
	if (len <= 120) {
		snprintf(info->id, sizeof(info->id), "file:%.120s", real);
		return;
	}
	snprintf(info->id, sizeof(info->id), "file:%016llx:%.100s",
	    (unsigned long long)XXH3_64bits(real, len), real + len - 100);
}

/* Data should not be in the page cache as well; where the file system can't, so be it. */
static void
open_set_direct(int fd)
{
	int flags = fcntl(fd, F_GETFL);

	if (flags >= 0 && (flags & O_DIRECT) == 0) {
		(void)fcntl(fd, F_SETFL, flags | O_DIRECT);
	}
}

static int
look_at_file(int fd, const struct stat *st, struct kb_info *info, bool *out_in_memory)
{
	struct statfs fs;

	if (fstatfs(fd, &fs) != 0) {
		return -errno;
	}
	*out_in_memory = fs.f_type == TMPFS_MAGIC || fs.f_type == RAMFS_MAGIC;
	info->backend = KB_BACKEND_FILE;
	info->size_bytes = ALIGN_DOWN((uint64_t)st->st_size, (uint64_t)SECTOR_BYTES);
	info->physical_sector_bytes = SECTOR_BYTES;
	info->logical_sector_bytes = 512;
	info->volatile_cache = !*out_in_memory;
	info->discard = true;
	snprintf(info->model, sizeof(info->model), "image file");
	open_set_id_file(info, fd);
	return 0;
}

static int
look_at_device(int fd, const struct stat *st, struct kb_info *info)
{
	uint64_t size = 0;
	unsigned physical = 0;
	int logical = 0;

	if (ioctl(fd, BLKGETSIZE64, &size) != 0 || ioctl(fd, BLKPBSZGET, &physical) != 0 ||
	    ioctl(fd, BLKSSZGET, &logical) != 0) {
		return -errno;
	}
	info->backend = KB_BACKEND_AIO;
	info->size_bytes = ALIGN_DOWN(size, (uint64_t)SECTOR_BYTES);
	info->physical_sector_bytes = physical;
	info->logical_sector_bytes = (uint32_t)logical;
	kb_sysfs_identify(st->st_rdev, info);
	if (!info->rotational) {
		/* flash that says 512 means that it can, not that it should */
		info->physical_sector_bytes = MAX(info->physical_sector_bytes, SECTOR_BYTES);
	}
	return logical == 512 || logical == 4096 ? 0 : -EINVAL;
}

int
kb_look(const char *path, int fd, struct kb_info *info, bool *out_in_memory)
{
	struct stat st;
	int err = -EINVAL;

	memset(info, 0, sizeof(*info));
	snprintf(info->path, sizeof(info->path), "%s", path);
	info->timeout_ms = OPEN_TIMEOUT_MS;
	*out_in_memory = false;
	if (fstat(fd, &st) != 0) {
		return -errno;
	}
	if (S_ISREG(st.st_mode)) {
		err = look_at_file(fd, &st, info, out_in_memory);
	} else if (S_ISBLK(st.st_mode)) {
		err = look_at_device(fd, &st, info);
	}
	return err == 0 && info->size_bytes == 0 ? -EINVAL : err;
}

/* O_EXCL without O_CREAT means something for block devices only: not mounted, not held. */
static int
open_path(const char *path, bool exclusive)
{
	struct stat st;

	if (stat(path, &st) != 0) {
		return -errno;
	}
	if (!S_ISREG(st.st_mode) && !S_ISBLK(st.st_mode)) {
		return -EINVAL;
	}
	int excl = exclusive && S_ISBLK(st.st_mode) ? O_EXCL : 0;
	int fd = open(path, O_RDWR | O_CLOEXEC | O_NONBLOCK | excl);
	return fd >= 0 ? fd : -errno;
}

static void
open_blocking(void *arg)
{
	struct open_call *c = arg;

	if (c->fd < 0) {
		c->fd = open_path(c->path, c->exclusive);
		if (c->fd < 0) {
			c->err = c->fd;
			return;
		}
	}
	c->err = kb_look(c->path, c->fd, &c->info, &c->in_memory);
	if (c->err != 0) {
		close(c->fd);
	} else if (!c->in_memory) {
		open_set_direct(c->fd);
	}
}

static int
open_error(int err)
{
	switch (-err) {
	case ENOENT:
	case EACCES:
	case EBUSY:
	case ENOMEM:
	case EINVAL:
		return err;
	case EPERM:
	case EROFS:
		return -EACCES;
	case ENOTDIR:
	case ENXIO:
	case ENODEV:
		return -ENOENT;
	default:
		return -EINVAL;
	}
}

int
kb_open(const char *path, int fd, bool exclusive, struct kb_drive **out)
{
	struct open_call c = {.path = path, .fd = fd, .exclusive = exclusive};

	offload(open_blocking, &c);
	if (c.err != 0) {
		return open_error(c.err);
	}
	log_debug("drive_open path=%s id=%s bytes=%llu", path, c.info.id,
	    (unsigned long long)c.info.size_bytes);
	if (c.info.backend == KB_BACKEND_FILE) {
		return kb_file_open(c.fd, &c.info, c.in_memory, out);
	}
	return kb_aio_open(c.fd, &c.info, out);
}

/* Others lock a drive for a moment to look at it (udev does so whenever one has changed). */
#define CLAIM_WAIT_NS (2 * NSEC_PER_SEC)
#define CLAIM_AGAIN_NS (50 * NSEC_PER_MSEC)

int
kb_claim(struct kb_drive *d, bool shared)
{
	uint64_t deadline = rt_now_ns() + CLAIM_WAIT_NS;

	if (d->lock_fd < 0) {
		return 0;
	}
	while (flock(d->lock_fd, (shared ? LOCK_SH : LOCK_EX) | LOCK_NB) != 0) {
		if (errno != EWOULDBLOCK) {
			return -errno;
		}
		if (rt_now_ns() >= deadline) {
			return -EBUSY;
		}
		fiber_sleep(CLAIM_AGAIN_NS);
	}
	return 0;
}

void
kb_unclaim(struct kb_drive *d)
{
	if (d->lock_fd >= 0 && flock(d->lock_fd, LOCK_UN) != 0) {
		log_warn("drive-not-unlocked path=%s reason=%s", d->info.path, err_str(errno));
	}
}
