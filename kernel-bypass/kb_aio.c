/*
 * kb_aio.c - block devices of the kernel, through libaio and O_DIRECT.
 *
 * Each lane has its own context of the kernel, made at its first I/O. Requests gather in the lane's
 * queue and go out in one io_submit per turn of the reactor. Completions lie in a ring that is
 * mapped here, so looking for them costs no system call when there are none: a busy reactor polls
 * it each turn. When nothing has come for a while the reactor may sleep; then the eventfd, which
 * the kernel rings at each completion, wakes it.
 *
 * FUA is RWF_DSYNC, which the kernel turns into a FUA write or a write and a flush; a flush is
 * an asynchronous fdatasync. Discard is a blocking ioctl and goes to the workers.
 *
 * depth bounds what a lane has in the kernel, so that io_submit doesn't wait for a free slot of the
 * device's queue. The rest waits in our queue, where a deadline can still take it back.
 */
#include <libaio.h>
#include <linux/fs.h>
#include <stdio.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>
#include "kernel-bypass/kb_int.h"

#define AIO_DEPTH_MAX 64u
#define AIO_DEPTH_MIN 4u
#define AIO_BATCH 32u
#define AIO_POLL_NS (100 * NSEC_PER_USEC) /* how long after the last event polling is worth it */

struct kb_aio {
	struct kb_drive drive;
	int fd;
	dev_t dev;
};

struct kb_aio_lane {
	struct kb_lane lane;
	struct kb_worker_set workers; /* discard */
	struct list queue;            /* [r] struct kb_worker_req, to be submitted */
	io_context_t ctx;             /* [r] NULL: not started */
	int event_fd;
	struct rt_fdwatch watch;
	struct rt_poller poller; /* on the reactor while there is anything to find */
	unsigned depth;          /* [r] */
	unsigned in_kernel;      /* [r] */
	uint64_t event_ns;       /* [r] last submission or completion */
};

struct kb_aio_req {
	struct kb_worker_req w;
	struct iocb iocb;
};

static struct kb_aio *
aio_of(struct kb_drive *d)
{
	return container_of(d, struct kb_aio, drive);
}

static struct kb_aio_lane *
aio_lane_of(struct kb_lane *lane)
{
	return container_of(lane, struct kb_aio_lane, lane);
}

/* The kernel forgets a device it has lost; an error of a lost device is no error of the medium. */
static int
aio_status(struct kb_lane *lane, long res)
{
	int status = kb_status_of_errno((int)res);
	dev_t dev = aio_of(lane->drive)->dev;
	char path[64];

	if (status == -EIO) {
		snprintf(path, sizeof(path), "/sys/dev/block/%u:%u", major(dev), minor(dev));
		status = access(path, F_OK) == 0 ? -EIO : -ERR_GONE;
	}
	if (status == -ERR_GONE) {
		kb_drive_set_gone(lane->drive);
	}
	return status;
}

/* ---- completions ---- */

static void
aio_event(struct kb_aio_lane *al, const struct io_event *ev)
{
	struct kb_req *req = ev->data;
	long res = (long)ev->res;
	int status = 0;

	al->in_kernel--;
	if (res < 0) {
		status = aio_status(&al->lane, res);
	} else if (req->op != KB_FLUSH && (uint64_t)res != req->len_bytes) {
		status = -EIO;
	}
	kb_req_complete(req, status);
}

static unsigned
aio_reap(struct kb_aio_lane *al)
{
	struct io_event ev[AIO_BATCH];
	struct timespec now = {0};
	unsigned total = 0;
	int n = AIO_BATCH;

	while (al->in_kernel > 0 && n == (int)AIO_BATCH) {
		n = io_getevents(al->ctx, 0, AIO_BATCH, ev, &now);
		for (int i = 0; i < n; i++) {
			aio_event(al, &ev[i]);
		}
		total += n > 0 ? (unsigned)n : 0;
	}
	return total;
}

/* ---- submission ---- */

static void
aio_fill_iocb(struct kb_aio_lane *al, struct kb_aio_req *ar)
{
	struct kb_req *req = &ar->w.req;
	struct iocb *cb = &ar->iocb;
	int fd = aio_of(al->lane.drive)->fd;

	if (req->op == KB_FLUSH) {
		io_prep_fdsync(cb, fd);
	} else if (req->op == KB_READ) {
		io_prep_preadv(cb, fd, req->iov, (int)req->seg_count, (long long)req->off_bytes);
	} else {
		io_prep_pwritev(cb, fd, req->iov, (int)req->seg_count, (long long)req->off_bytes);
		cb->aio_rw_flags = (req->flags & KB_FUA) != 0 ? RWF_DSYNC : 0;
	}
	io_set_eventfd(cb, al->event_fd);
	cb->data = req;
}

/* One io_submit. Returns how many requests left the queue, failed ones included. */
static unsigned
aio_submit_batch(struct kb_aio_lane *al)
{
	struct iocb *cbs[AIO_BATCH];
	unsigned n = 0;

	list_for_each(l, &al->queue)
	{
		if (n == AIO_BATCH || al->in_kernel + n == al->depth) {
			break;
		}
		cbs[n++] = &list_entry(l, struct kb_aio_req, w.queue_link)->iocb;
	}
	if (n == 0) {
		return 0;
	}
	int done = io_submit(al->ctx, (long)n, cbs);
	if (done == -EAGAIN || done == -EINTR) {
		return 0;
	}
	for (int i = 0; i < done; i++) {
		list_remove(al->queue.next);
		al->in_kernel++;
	}
	if (done < 0) {
		struct kb_aio_req *ar = list_first(&al->queue, struct kb_aio_req, w.queue_link);
		list_remove(&ar->w.queue_link);
		kb_req_complete(&ar->w.req, aio_status(&al->lane, done));
		return 1;
	}
	return (unsigned)done;
}

static unsigned
aio_poll(struct rt_poller *p)
{
	struct kb_aio_lane *al = container_of(p, struct kb_aio_lane, poller);
	unsigned events = 0;
	unsigned n;

	do {
		n = aio_submit_batch(al);
		events += n;
	} while (n > 0 && !list_empty(&al->queue));
	events += aio_reap(al);
	if (events > 0) {
		al->event_ns = rt_now_ns();
	}
	if (al->in_kernel == 0 && list_empty(&al->queue)) {
		rt_poller_remove(p);
	}
	return events;
}

static bool
aio_wants_poll(struct rt_poller *p)
{
	struct kb_aio_lane *al = container_of(p, struct kb_aio_lane, poller);

	return !list_empty(&al->queue) || rt_now_ns() - al->event_ns < AIO_POLL_NS;
}

/* Edge-triggered: each ring of the kernel is an edge, so the counter needs no reading. */
static void
aio_ready(struct rt_fdwatch *w, uint32_t events)
{
	struct kb_aio_lane *al = container_of(w, struct kb_aio_lane, watch);

	(void)events;
	if (aio_reap(al) > 0) {
		al->event_ns = rt_now_ns();
	}
}

/* ---- start and stop ---- */

/* The system has a limit on all contexts together (fs.aio-max-nr): take less rather than nothing.
 */
static int
aio_setup(struct kb_aio_lane *al)
{
	int err = -EAGAIN;

	for (al->depth = AIO_DEPTH_MAX; al->depth >= AIO_DEPTH_MIN && err == -EAGAIN;) {
		err = io_setup((int)al->depth, &al->ctx);
		if (err == -EAGAIN) {
			al->depth /= 2;
		}
	}
	return err;
}

static int
aio_lane_begin(struct kb_aio_lane *al)
{
	int err = aio_setup(al);

	if (err != 0) {
		al->ctx = NULL;
		return err;
	}
	al->event_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (al->event_fd < 0) {
		err = -errno;
		goto destroy_ctx;
	}
	al->watch.fd = al->event_fd;
	al->watch.events = EPOLLIN;
	al->watch.ready = aio_ready;
	err = rt_fdwatch_add(&al->watch);
	if (err != 0) {
		goto close_event_fd;
	}
	return 0;

close_event_fd:
	close(al->event_fd);
destroy_ctx:
	io_destroy(al->ctx);
	al->ctx = NULL;
	return err;
}

static void
aio_start(struct kb_req *req)
{
	struct kb_aio_lane *al = aio_lane_of(req->lane);
	struct kb_aio_req *ar = container_of(req, struct kb_aio_req, w.req);

	list_init(&ar->w.queue_link);
	if (req->op == KB_DISCARD) {
		kb_worker_start(&al->workers, &ar->w);
		return;
	}
	int err = al->ctx == NULL ? aio_lane_begin(al) : 0;
	if (err != 0) {
		log_error("drive_no_aio path=%s error=%d hint=fs.aio-max-nr",
		    req->lane->drive->info.path, -err);
		kb_req_complete(req, -EIO);
		return;
	}
	aio_fill_iocb(al, ar);
	list_push_back(&al->queue, &ar->w.queue_link);
	if (list_empty(&al->poller.link)) {
		rt_poller_add(&al->poller);
	}
}

static bool
aio_cancel(struct kb_req *req)
{
	return kb_worker_cancel(&container_of(req, struct kb_aio_req, w.req)->w);
}

static int
aio_work(struct kb_req *req)
{
	uint64_t range[2] = {req->off_bytes, req->len_bytes};

	if (ioctl(aio_of(req->lane->drive)->fd, BLKDISCARD, range) == 0) {
		return 0;
	}
	return kb_status_of_errno(errno);
}

static void
aio_destroy_ctx(void *arg)
{
	io_destroy((io_context_t)arg);
}

/* io_destroy waits for a grace period of the kernel. */
static void
aio_end(void *arg)
{
	struct kb_aio_lane *al = arg;

	offload(aio_destroy_ctx, al->ctx);
	kb_worker_stop(&al->workers);
}

static void
aio_lane_stop(struct kb_lane *lane)
{
	struct kb_aio_lane *al = aio_lane_of(lane);

	if (al->ctx == NULL) {
		kb_worker_stop(&al->workers);
		return;
	}
	rt_poller_remove(&al->poller);
	rt_fdwatch_remove(&al->watch);
	close(al->event_fd);
	if (fiber_spawn(lane->reactor, FIBER_ADMIN, "kb-aio-end", aio_end, al) != 0) {
		aio_destroy_ctx(al->ctx);
		kb_worker_stop(&al->workers);
	}
}

static void
aio_destroy(struct kb_drive *d)
{
	kb_close_fd(aio_of(d)->fd);
}

static const struct kb_ops aio_ops = {
    .drive_bytes = sizeof(struct kb_aio),
    .lane_bytes = sizeof(struct kb_aio_lane),
    .req_bytes = sizeof(struct kb_aio_req),
    .start = aio_start,
    .cancel = aio_cancel,
    .lane_stop = aio_lane_stop,
    .destroy = aio_destroy,
};

int
kb_aio_open(int fd, const struct kb_info *info, struct kb_drive **out)
{
	struct kb_drive *d;
	struct stat st;
	int err = rt_is_sim() ? -EINVAL : 0;

	if (err == 0 && fstat(fd, &st) != 0) {
		err = -errno;
	}
	if (err == 0) {
		err = kb_drive_create(&aio_ops, info, &d);
	}
	if (err != 0) {
		close(fd);
		return err;
	}
	aio_of(d)->fd = fd;
	d->lock_fd = fd;
	aio_of(d)->dev = st.st_rdev;
	for (unsigned i = 0; i < d->lane_count; i++) {
		struct kb_aio_lane *al = aio_lane_of(kb_lane_at(d, i));
		kb_worker_set_init(&al->workers, &al->lane, aio_work);
		list_init(&al->queue);
		list_init(&al->poller.link);
		al->poller.poll = aio_poll;
		al->poller.wants_poll = aio_wants_poll;
	}
	*out = d;
	return 0;
}
