/*
 * kb_int.h - what the files of this room share: the drive, its lanes, and the requests in flight.
 *
 * A drive has one lane per reactor. Everything of a lane, and every request of it, is touched only
 * by its reactor: submit, completion and deadline of one request all run there, so that they need
 * no lock and cannot race. A backend that learns of a completion elsewhere brings it home first.
 *
 * A request (struct kb_req) is ours, a struct kb_io is the caller's. The request holds the
 * references on the buffers. States of a request:
 *
 *   free   -> active  request_start: io set, buffers referenced, handed to the backend
 *   active -> free    kb_req_complete: the io gets its status, buffers are let go
 *   active -> late    the deadline came: the io gets -ETIMEDOUT and is forgotten; buffers stay
 *   late   -> free    kb_req_complete, at last
 *
 * An inline backend (ops->run) has no requests at all for reads, writes and flushes: the I/O is
 * over before kb_submit returns, and the group never hears of it.
 *
 * Fields: [c] constant after open, [r] the lane's reactor only, [a] atomic.
 */
#ifndef AGATE_KERNEL_BYPASS_KB_INT_H
#define AGATE_KERNEL_BYPASS_KB_INT_H

#include <sys/uio.h>
#include "kernel-bypass/kb.h"

struct kb_lane;

struct kb_req {
	struct list link;     /* [r] free, active or late */
	struct kb_lane *lane; /* [c] */
	struct kb_io *io;     /* [r] NULL: late */
	uint64_t start_ns;
	uint64_t deadline_ns;
	uint64_t off_bytes;
	uint64_t len_bytes; /* sum of the segments, or what to discard */
	enum kb_op op;
	uint32_t flags;
	uint32_t seg_count;
	struct iobuf *bufs[KB_SEGS_MAX]; /* one reference each */
	struct iovec iov[KB_SEGS_MAX];
};

/* Single writer, many readers. */
struct kb_lane_counters {
	_Atomic uint64_t ios[4]; /* by enum kb_op */
	_Atomic uint64_t read_bytes, write_bytes, errors, timeouts, read_ns, slow;
};

struct kb_lane {
	struct kb_drive *drive; /* [c] */
	unsigned reactor;       /* [c] */
	struct list free;       /* [r] struct kb_req */
	struct list active;     /* [r] struct kb_req, oldest first */
	struct list late;       /* [r] struct kb_req */
	struct list starved;    /* [r] struct kb_io that found no memory for a request */
	struct list held;       /* [r] struct kb_io that a fault on purpose keeps back until kb_io_due */
	struct rt_timer timer;  /* [r] fires at or before the earliest deadline */
	uint64_t armed_ns;      /* [r] RT_FOREVER: the timer is not armed */
	bool feeding;           /* [r] the starved are being served */
	bool closing;           /* [r] */
	bool drained;           /* [r] closing, and no request is active any more */
	bool stopping;          /* [r] ops->lane_stop has been called */
	struct rt_msg close_msg;
	struct kb_lane_counters count; /* [a] */
};

/* How a backend does things. All but run, reserve, closing and destroy are called on the lane's reactor. */
struct kb_ops {
	size_t drive_bytes; /* of the backend's drive; struct kb_drive is its first member */
	size_t lane_bytes;  /* of the backend's lane; struct kb_lane is its first member */
	size_t req_bytes;   /* of the backend's request; struct kb_req is its first member */
	/* NULL, or read, write or flush now, without parking; returns the status. Any reactor. */
	int (*run)(struct kb_drive *d, const struct kb_io *io);
	/* NULL, or kb_reserve; on the caller's fiber. */
	void (*reserve)(struct kb_drive *d, uint64_t off_bytes, uint64_t len_bytes);
	/* Begin; ends in kb_req_complete, now or later. Must not park. */
	void (*start)(struct kb_req *req);
	/* NULL, or take back what has not been handed to the drive yet: true when it is ours again.
	 */
	bool (*cancel)(struct kb_req *req);
	/* NULL, or be told that kb_close has begun; on its fiber. Must not park. */
	void (*closing)(struct kb_drive *d);
	/* NULL, or make the drive let go of everything, late requests included: they complete. */
	void (*reset)(struct kb_lane *lane);
	/* NULL, or end what the lane holds; no request is left. Calls kb_lane_stopped, now or
	 * later. */
	void (*lane_stop)(struct kb_lane *lane);
	/* NULL, or give back what the drive holds, without its memory; nothing refers to it any
	 * more. */
	void (*destroy)(struct kb_drive *d);
};

struct kb_drive {
	const struct kb_ops *ops; /* [c] */
	_Atomic(struct kb_faults *) armed; /* NULL: no faults on purpose */
	struct kb_faults *faults; /* the reference behind it, until the drive goes */
	struct kb_info info;      /* [c] */
	int lock_fd;              /* [c] kb_claim locks it; -1 = there is nothing to lock */
	unsigned lane_count;      /* [c] */
	size_t lane_stride;       /* [c] */
	uint8_t *lanes;           /* [c] */
	atomic_uint refs;         /* one of the opener, one of each lane until it has stopped */
	atomic_bool gone;
	_Atomic uint64_t late_writes;
	_Atomic uint64_t slow_ns; /* what takes longer is counted as slow */
	struct waitgroup draining; /* kb_close waits here for the lanes */
};

static inline struct kb_lane *
kb_lane_at(const struct kb_drive *d, unsigned reactor)
{
	return (struct kb_lane *)(void *)(d->lanes + reactor * d->lane_stride);
}

/* kb.c: for backends */

/* A drive with its lanes and info copied; one reference, the opener's. -ENOMEM. */
int kb_drive_create(
    const struct kb_ops *ops, const struct kb_info *info, struct kb_drive **out) WARN_UNUSED;
/* Undo kb_drive_create for a drive no I/O has been sent to and that has no backend state yet. */
void kb_drive_free(struct kb_drive *d);
/* The request is over and the drive will not touch its buffers again. On the lane's reactor. */
void kb_req_complete(struct kb_req *req, int status);
void kb_lane_stopped(struct kb_lane *lane);
/* The drive has vanished; new I/O fails with -ERR_GONE from now on. Any thread. */
void kb_drive_set_gone(struct kb_drive *d);
/* Close a descriptor, which may block; from a fiber or from a reactor's loop. */
void kb_close_fd(int fd) MAY_PARK;
/* What of the kernel's errno goes up: -EIO, -ENODATA or -ERR_GONE. err: positive or negative. */
int kb_status_of_errno(int err) WARN_UNUSED;

/* kb_inject.c: faults on purpose */

#define KB_IO_CORRUPT (1u << 31) /* in kb_io.flags: what is read is to be made wrong */
/* When an io that is kept back is due; its latency is written when that is over. */
static inline uint64_t *
kb_io_due(struct kb_io *io)
{
	return &io->latency_ns;
}

/* What is to happen to an io that was submitted. status: it ends so, at once. */
struct kb_verdict {
	int status;
	uint64_t delay_ns; /* begin it so much later; UINT64_MAX: let it miss its deadline */
	bool corrupt;
};
struct kb_verdict kb_faults_judge(struct kb_faults *f, const struct kb_io *io, uint64_t len_bytes);
void kb_faults_corrupt(const struct kb_io *io); /* what was read */

/* kb_worker.c: blocking calls on helper threads, for backends that need them */

struct kb_worker_set {
	struct kb_lane *lane;
	int (*work)(struct kb_req *req); /* blocks; runs on a helper thread; returns the status */
	struct list queue;               /* [r] struct kb_worker_req, not begun */
	struct fiber *idle;              /* [r] the kept worker, when it has nothing to do */
	unsigned live;                   /* [r] worker fibers */
	unsigned live_max;               /* [c] */
	bool keep_one;                   /* [c] one worker never ends before the lane */
	bool stop;                       /* [r] */
};

struct kb_worker_req {
	struct kb_req req;
	struct list queue_link; /* on kb_worker_set.queue */
};

void kb_worker_set_init(
    struct kb_worker_set *ws, struct kb_lane *lane, int (*work)(struct kb_req *req));
/* Start the worker that never ends, so that progress does not depend on a free stack later. */
void kb_worker_set_keep_one(struct kb_worker_set *ws) MAY_PARK;
void kb_worker_start(struct kb_worker_set *ws, struct kb_worker_req *wr); /* as kb_ops.start */
bool kb_worker_cancel(struct kb_worker_req *wr);                          /* as kb_ops.cancel */
void kb_worker_stop(struct kb_worker_set *ws);                            /* as kb_ops.lane_stop */

/* kb_sysfs.c: what the kernel says of a block device */

/* The text of dir/name without blanks around it; false (and "") when there is none. Blocks. */
bool kb_sysfs_read(const char *dir, const char *name, char *out, size_t out_len);
uint64_t kb_sysfs_number(const char *dir, const char *name); /* 0 when there is none. Blocks. */

/* Fills in id, model, serial, rotational, ... of the block device dev. Blocks. */
void kb_sysfs_identify(uint64_t dev, struct kb_info *info);

/* kb_open.c: what kind of drive an open descriptor is; fills in info. Blocks. -EINVAL: it is none.
 */
int kb_look(const char *path, int fd, struct kb_info *info, bool *out_in_memory) WARN_UNUSED;

/* kb_gpt.c, kb_content.c: what is on a drive */

#define KB_EDGE_BYTES (1u << 20) /* first and last so much of a drive is not the pool's */
struct kb_edges {
	const uint8_t *head; /* KB_EDGE_BYTES from the start */
	const uint8_t *tail; /* KB_EDGE_BYTES to the end */
	uint64_t size_bytes; /* of the drive, >= 2 * KB_EDGE_BYTES */
};
enum kb_gpt_look { KB_GPT_NONE, KB_GPT_OURS, KB_GPT_FOREIGN };
enum kb_gpt_look kb_gpt_look(const struct kb_edges *e);
enum kb_content kb_content_of(const struct kb_edges *e, char *out_what, size_t what_len);

/* The backends' own open: fd becomes the drive's (closed by it, also on failure). */
int kb_aio_open(int fd, const struct kb_info *info, struct kb_drive **out) WARN_UNUSED;
int kb_file_open(
    int fd, const struct kb_info *info, bool in_memory, struct kb_drive **out) WARN_UNUSED MAY_PARK;

#endif
