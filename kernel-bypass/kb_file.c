/*
 * kb_file.c - image files.
 *
 * In memory (tmpfs, ramfs): read and write are copies inside the kernel that never wait for a
 * drive, so they are made at once, on the reactor, before kb_submit returns. Nothing is to be
 * flushed: such a file does not outlive the machine, and against a crash of the program it is
 * durable at once.
 *
 * On a disk file system: everything may block, so everything goes to worker fibers and helper
 * threads. The file is opened with O_DIRECT where the file system can, so that data is not cached
 * twice. A flush is fdatasync, FUA is RWF_DSYNC.
 *
 * An image that was deleted, renamed or made shorter is a drive that was pulled out: it is gone
 * from then on. Nothing tells, so every FILE_LOOK_NS one of the I/Os looks.
 *
 * Discard is a punched hole in both kinds, made by a worker in small steps: a step holds the file's
 * lock in the kernel, and writes of the reactor would wait for it.
 */
#include <fcntl.h>
#include <linux/falloc.h>
#include <sys/stat.h>
#include <unistd.h>
#include "kernel-bypass/kb_file_int.h"

#define FILE_PUNCH_STEP (4u << 20)
#define FILE_LOOK_NS (20 * NSEC_PER_MSEC)

struct kb_file {
	struct kb_drive drive;
	int fd;
	struct kb_file_map map; /* in memory only */
	atomic_ullong looked_ns;
};

struct kb_file_lane {
	struct kb_lane lane;
	struct kb_worker_set workers;
};

static struct kb_file *
file_of(struct kb_drive *d)
{
	return container_of(d, struct kb_file, drive);
}

static struct kb_worker_set *
workers_of(struct kb_lane *lane)
{
	return &container_of(lane, struct kb_file_lane, lane)->workers;
}

/* Moves iov forward by done bytes; returns the segments left, from *io_iov on. */
static int
iov_advance(struct iovec **io_iov, int count, size_t done)
{
	struct iovec *v = *io_iov;

	while (count > 0 && done >= v->iov_len) {
		done -= v->iov_len;
		v++;
		count--;
	}
	if (count > 0) {
		v->iov_base = (char *)v->iov_base + done;
		v->iov_len -= done;
	}
	*io_iov = v;
	return count;
}

/* Reads or writes all of iov, which it uses up. A file that has become shorter reads as -EIO. */
static int
file_move(int fd, enum kb_op op, struct iovec *iov, int count, uint64_t off_bytes, int rwf)
{
	while (count > 0) {
		ssize_t n = op == KB_READ ? preadv2(fd, iov, count, (off_t)off_bytes, rwf)
					  : pwritev2(fd, iov, count, (off_t)off_bytes, rwf);
		if (n < 0 && errno == EINTR) {
			continue;
		}
		if (n <= 0) {
			return n < 0 ? kb_status_of_errno(errno) : -EIO;
		}
		off_bytes += (uint64_t)n;
		count = iov_advance(&iov, count, (size_t)n);
	}
	return 0;
}

static int
file_punch(int fd, uint64_t off_bytes, uint64_t len_bytes)
{
	while (len_bytes > 0) {
		uint64_t step = MIN(len_bytes, (uint64_t)FILE_PUNCH_STEP);
		if (fallocate(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, (off_t)off_bytes,
			(off_t)step) != 0) {
			return kb_status_of_errno(errno);
		}
		off_bytes += step;
		len_bytes -= step;
	}
	return 0;
}

/* Discard is a hint: of a mapped file only whole granules go. */
static int
file_discard(struct kb_file *f, uint64_t off_bytes, uint64_t len_bytes)
{
	uint64_t start = off_bytes;
	uint64_t end = off_bytes + len_bytes;

	if (f->map.base != NULL) {
		start = ALIGN_UP(start, KB_FILE_GRANULE);
		end = ALIGN_DOWN(end, KB_FILE_GRANULE);
		if (start >= end) {
			return 0;
		}
		kb_file_map_forget(&f->map, start, end - start);
	}
	return file_punch(f->fd, start, end - start);
}

static bool
file_is_pulled(struct kb_file *f)
{
	uint64_t now = rt_now_ns();
	struct stat st, named;

	if (atomic_load(&f->map.torn)) {
		return true;
	}
	if (now - atomic_load_explicit(&f->looked_ns, memory_order_relaxed) < FILE_LOOK_NS) {
		return false;
	}
	atomic_store_explicit(&f->looked_ns, now, memory_order_relaxed);
	if (fstat(f->fd, &st) == 0 &&
	    (st.st_nlink == 0 || (uint64_t)st.st_size < f->drive.info.size_bytes)) {
		return true;
	}
	return stat(f->drive.info.path, &named) != 0
		   ? errno == ENOENT
		   : named.st_ino != st.st_ino || named.st_dev != st.st_dev;
}

/* The status of an I/O, unless the drive turns out to have been pulled meanwhile. */
static int
file_status(struct kb_file *f, int status)
{
	if (!file_is_pulled(f)) {
		return status;
	}
	kb_drive_set_gone(&f->drive);
	return -ERR_GONE;
}

/* ---- in memory ---- */

static void
file_copy(uint8_t *at, const struct kb_io *io)
{
	for (uint32_t i = 0; i < io->seg_count; i++) {
		const struct kb_seg *s = &io->segs[i];
		if (io->op == KB_READ) {
			memcpy(s->buf->data + s->off_bytes, at, s->len_bytes);
		} else {
			memcpy(at, s->buf->data + s->off_bytes, s->len_bytes);
		}
		at += s->len_bytes;
	}
}

static int
file_run(struct kb_drive *d, const struct kb_io *io)
{
	struct kb_file *f = file_of(d);
	struct iovec iov[KB_SEGS_MAX];
	uint64_t len = 0;

	if (io->op == KB_FLUSH) {
		return file_status(f, 0);
	}
	for (uint32_t i = 0; i < io->seg_count; i++) {
		const struct kb_seg *s = &io->segs[i];
		iov[i].iov_base = s->buf->data + s->off_bytes;
		iov[i].iov_len = s->len_bytes;
		len += s->len_bytes;
	}
	if (kb_file_map_ready(&f->map, io->op, io->off_bytes, len)) {
		file_copy(f->map.base + io->off_bytes, io);
		return file_status(f, 0);
	}
	return file_status(f, file_move(f->fd, io->op, iov, (int)io->seg_count, io->off_bytes,
				  (io->flags & KB_FUA) != 0 ? RWF_DSYNC : 0));
}

struct file_range {
	struct kb_file *f;
	uint64_t off_bytes, len_bytes;
};

static void
file_reserve_blocking(void *arg)
{
	struct file_range *r = arg;

	kb_file_map_reserve(&r->f->map, r->f->fd, r->off_bytes, r->len_bytes);
}

static void
file_reserve(struct kb_drive *d, uint64_t off_bytes, uint64_t len_bytes)
{
	struct file_range r = {file_of(d), off_bytes, len_bytes};

	offload(file_reserve_blocking, &r);
}

/* ---- on a disk ---- */

static int
file_try(struct kb_req *req)
{
	int fd = file_of(req->lane->drive)->fd;

	switch (req->op) {
	case KB_FLUSH:
		return fdatasync(fd) == 0 ? 0 : kb_status_of_errno(errno);
	case KB_DISCARD:
		return file_discard(file_of(req->lane->drive), req->off_bytes, req->len_bytes);
	case KB_READ:
	case KB_WRITE:
		break;
	}
	return file_move(fd, req->op, req->iov, (int)req->seg_count, req->off_bytes,
	    (req->flags & KB_FUA) != 0 ? RWF_DSYNC : 0);
}

static int
file_work(struct kb_req *req)
{
	return file_status(file_of(req->lane->drive), file_try(req));
}

static void
file_start(struct kb_req *req)
{
	struct kb_worker_req *wr = container_of(req, struct kb_worker_req, req);

	list_init(&wr->queue_link);
	kb_worker_start(workers_of(req->lane), wr);
}

static bool
file_cancel(struct kb_req *req)
{
	return kb_worker_cancel(container_of(req, struct kb_worker_req, req));
}

static void
file_lane_stop(struct kb_lane *lane)
{
	kb_worker_stop(workers_of(lane));
}

static void
file_destroy(struct kb_drive *d)
{
	kb_file_map_close(&file_of(d)->map);
	kb_close_fd(file_of(d)->fd);
}

static const struct kb_ops file_memory_ops = {
    .drive_bytes = sizeof(struct kb_file),
    .lane_bytes = sizeof(struct kb_file_lane),
    .req_bytes = sizeof(struct kb_worker_req),
    .run = file_run,
    .reserve = file_reserve,
    .start = file_start,
    .cancel = file_cancel,
    .lane_stop = file_lane_stop,
    .destroy = file_destroy,
};

static const struct kb_ops file_disk_ops = {
    .drive_bytes = sizeof(struct kb_file),
    .lane_bytes = sizeof(struct kb_file_lane),
    .req_bytes = sizeof(struct kb_worker_req),
    .start = file_start,
    .cancel = file_cancel,
    .lane_stop = file_lane_stop,
    .destroy = file_destroy,
};

static void
file_map_blocking(void *arg)
{
	struct kb_file *f = arg;

	kb_file_map_open(&f->map, f->fd, f->drive.info.size_bytes);
}

int
kb_file_open(int fd, const struct kb_info *info, bool in_memory, struct kb_drive **out)
{
	struct kb_drive *d;
	int err = kb_drive_create(in_memory ? &file_memory_ops : &file_disk_ops, info, &d);

	if (err != 0) {
		close(fd);
		return err;
	}
	file_of(d)->fd = fd;
	d->lock_fd = fd;
	if (in_memory) {
		offload(file_map_blocking, file_of(d));
	}
	for (unsigned i = 0; i < d->lane_count; i++) {
		struct kb_lane *lane = kb_lane_at(d, i);
		kb_worker_set_init(workers_of(lane), lane, file_work);
		if (!in_memory) {
			kb_worker_set_keep_one(workers_of(lane));
		}
	}
	*out = d;
	return 0;
}
