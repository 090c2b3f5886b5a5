/*
 * kb.c - the part of a drive that every backend shares: submit, groups, deadlines, quarantine of
 * late I/O, counters, close. The states of a request are told in kb_int.h.
 *
 * Invariants
 *  1. An io is pending in its group from kb_submit until its status is written, then never touched
 *     again: the fiber that waits may return and the io may be gone.
 *  2. A buffer has our reference from the start of its request until kb_req_complete, whatever the
 *     caller was told meanwhile.
 *  3. late_writes counts the writes and discards on the late lists. A write leaves its late list
 * only when the drive has answered, so late_writes == 0 means that nothing can change behind our
 * back.
 *  4. A closing lane on which nothing is active any more stops, or, when something is late, is
 * called drained and stops when that has ended. kb_close waits for stopped or drained; the drive's
 * memory goes with the last lane.
 *
 * One timer per lane rather than one per request: I/O nearly always ends in time, so the timer is
 * set once and, when it fires, looks through the active requests and sets itself again.
 */
#include "kernel-bypass/kb_int.h"

#define KB_REQS_RESERVED 2u /* requests a lane has from the start; more come as needed */

static void lane_fire(struct rt_timer *t);
static void lane_feed(struct kb_lane *lane);
static void lane_check_closed(struct kb_lane *lane);
static void io_finish(struct kb_lane *lane, struct kb_io *io, int status);

static inline void
count_add(_Atomic uint64_t *c, uint64_t n)
{
	atomic_store_explicit(
	    c, atomic_load_explicit(c, memory_order_relaxed) + n, memory_order_relaxed);
}

/* ---- groups ---- */

void
kb_group_init(struct kb_group *g)
{
	spin_init(&g->guard);
	g->pending = 0;
	g->waiter = NULL;
}

static void
group_add(struct kb_group *g)
{
	spin_lock(&g->guard);
	g->pending++;
	spin_unlock(&g->guard);
}

/* The wake is inside the lock: once it is released the group may be gone. */
static void
group_done(struct kb_group *g)
{
	spin_lock(&g->guard);
	ASSERT(g->pending > 0);
	g->pending--;
	if (g->pending == 0 && g->waiter != NULL) {
		fiber_wake(g->waiter);
		g->waiter = NULL;
	}
	spin_unlock(&g->guard);
}

void
kb_group_wait(struct kb_group *g)
{
	for (;;) {
		spin_lock(&g->guard);
		if (g->pending == 0) {
			g->waiter = NULL;
			spin_unlock(&g->guard);
			return;
		}
		g->waiter = fiber_self();
		spin_unlock(&g->guard);
		fiber_park();
	}
}

/* ---- submit ---- */

static uint64_t
io_len(const struct kb_io *io)
{
	if (io->op == KB_DISCARD) {
		return io->len_bytes;
	}
	uint64_t len = 0;
	for (uint32_t i = 0; i < io->seg_count; i++) {
		len += io->segs[i].len_bytes;
	}
	return len;
}

static int
check_segs(const struct kb_io *io)
{
	if (io->seg_count == 0 || io->seg_count > KB_SEGS_MAX) {
		return -EINVAL;
	}
	for (uint32_t i = 0; i < io->seg_count; i++) {
		const struct kb_seg *s = &io->segs[i];
		if ((s->off_bytes | s->len_bytes) % SECTOR_BYTES != 0 || s->len_bytes == 0 ||
		    s->off_bytes > s->buf->cap_bytes ||
		    s->len_bytes > s->buf->cap_bytes - s->off_bytes) {
			return -EINVAL;
		}
	}
	return 0;
}

static int
check_io(const struct kb_drive *d, const struct kb_io *io)
{
	if (io->op == KB_FLUSH) {
		return 0;
	}
	if (io->op != KB_DISCARD) {
		int err = check_segs(io);
		if (err != 0) {
			return err;
		}
	}
	uint64_t len = io_len(io);
	if ((io->off_bytes | len) % SECTOR_BYTES != 0 || len == 0 ||
	    io->off_bytes > d->info.size_bytes || len > d->info.size_bytes - io->off_bytes) {
		return -EINVAL;
	}
	return io->op != KB_DISCARD && len > KB_IO_BYTES_MAX ? -EINVAL : 0;
}

static void
count_io(struct kb_lane *lane, enum kb_op op, uint64_t len, int status)
{
	struct kb_lane_counters *c = &lane->count;

	count_add(&c->ios[op], 1);
	if (status == -ETIMEDOUT) {
		count_add(&c->timeouts, 1);
	} else if (status != 0) {
		count_add(&c->errors, 1);
	} else if (op == KB_READ) {
		count_add(&c->read_bytes, len);
	} else if (op == KB_WRITE) {
		count_add(&c->write_bytes, len);
	}
}

static void
count_time(struct kb_lane *lane, enum kb_op op, uint64_t took_ns)
{
	if (op == KB_READ) {
		count_add(&lane->count.read_ns, took_ns);
	}
	if (unlikely(took_ns > atomic_load_explicit(&lane->drive->slow_ns, memory_order_relaxed)) &&
	    op != KB_DISCARD) {
		count_add(&lane->count.slow, 1);
	}
}

static void
run_inline(struct kb_lane *lane, struct kb_io *io)
{
	struct kb_drive *d = lane->drive;
	uint64_t start_ns = rt_now_ns();

	io->status = kb_is_gone(d) ? -ERR_GONE : d->ops->run(d, io);
	if (unlikely((io->flags & KB_IO_CORRUPT) != 0) && io->status == 0) {
		kb_faults_corrupt(io);
	}
	io->latency_ns = rt_now_ns() - start_ns;
	count_io(lane, io->op, io_len(io), io->status);
	count_time(lane, io->op, io->latency_ns);
}

static void
lane_arm(struct kb_lane *lane, uint64_t deadline_ns)
{
	if (deadline_ns >= lane->armed_ns) {
		return;
	}
	if (lane->armed_ns != RT_FOREVER) {
		rt_timer_cancel(&lane->timer);
	}
	lane->armed_ns = deadline_ns;
	rt_timer_arm(&lane->timer, deadline_ns, lane_fire);
}

static struct kb_req *
req_create(struct kb_lane *lane)
{
	struct kb_req *req = mem_zalloc(lane->drive->ops->req_bytes);
	if (req != NULL) {
		list_init(&req->link);
		req->lane = lane;
	}
	return req;
}

static struct kb_req *
req_take(struct kb_lane *lane)
{
	if (list_empty(&lane->free)) {
		return req_create(lane);
	}
	struct kb_req *req = list_first(&lane->free, struct kb_req, link);
	list_remove(&req->link);
	return req;
}

static void
req_begin(struct kb_req *req, struct kb_io *io)
{
	struct kb_lane *lane = req->lane;

	req->io = io;
	req->start_ns = io->start_ns;
	req->deadline_ns = io->deadline_ns;
	req->off_bytes = io->off_bytes;
	req->op = io->op;
	req->flags = io->flags;
	req->seg_count = io->op == KB_READ || io->op == KB_WRITE ? io->seg_count : 0;
	req->len_bytes = io->op == KB_FLUSH ? 0 : io_len(io);
	for (uint32_t i = 0; i < req->seg_count; i++) {
		const struct kb_seg *s = &io->segs[i];
		req->bufs[i] = iobuf_ref(s->buf);
		req->iov[i].iov_base = s->buf->data + s->off_bytes;
		req->iov[i].iov_len = s->len_bytes;
	}
	list_push_back(&lane->active, &req->link);
	lane_arm(lane, req->deadline_ns);
	if (kb_is_gone(lane->drive)) {
		kb_req_complete(req, -ERR_GONE);
		return;
	}
	lane->drive->ops->start(req);
}

static bool
is_inline(const struct kb_drive *d, const struct kb_io *io)
{
	return d->ops->run != NULL && io->op != KB_DISCARD;
}

/* The group waits for it from now on. */
static void
io_enter(struct kb_lane *lane, struct kb_io *io, uint64_t deadline_ns)
{
	ASSERT(!lane->closing);
	group_add(io->group);
	io->start_ns = rt_turn_ns();
	io->deadline_ns = deadline_ns;
	if (deadline_ns == 0) {
		io->deadline_ns = io->start_ns + lane->drive->info.timeout_ms * NSEC_PER_MSEC;
	}
}

static void
io_begin(struct kb_lane *lane, struct kb_io *io)
{
	if (likely(list_empty(&lane->starved) && !list_empty(&lane->free))) {
		req_begin(req_take(lane), io); /* nobody is before it in the line */
		return;
	}
	list_push_back(&lane->starved, &io->link);
	lane_feed(lane);
	if (!list_empty(&lane->starved)) {
		lane_arm(lane, io->deadline_ns);
	}
}

/* True: a fault on purpose has taken it, for now or for good. */
static bool
io_divert(struct kb_lane *lane, struct kb_io *io, struct kb_faults *f, uint64_t deadline_ns)
{
	uint64_t len = io->op == KB_FLUSH ? 0 : io_len(io);
	struct kb_verdict v = kb_faults_judge(f, io, len);

	io->flags |= v.corrupt ? KB_IO_CORRUPT : 0;
	if (v.status != 0) {
		io->status = v.status;
		count_io(lane, io->op, len, v.status);
		return true;
	}
	if (v.delay_ns == 0) {
		return false;
	}
	io_enter(lane, io, deadline_ns);
	*kb_io_due(io) = v.delay_ns == UINT64_MAX ? UINT64_MAX : rt_now_ns() + v.delay_ns;
	list_push_back(&lane->held, &io->link);
	lane_arm(lane, MIN(*kb_io_due(io), io->deadline_ns));
	return true;
}

void
kb_submit(struct kb_drive *d, struct kb_io *io, struct kb_group *g, uint64_t deadline_ns)
{
	struct kb_lane *lane = kb_lane_at(d, rt_reactor_self());
	struct kb_faults *faults = atomic_load_explicit(&d->armed, memory_order_acquire);

	io->group = g;
	io->latency_ns = 0;
	io->flags &= ~KB_IO_CORRUPT;
	io->status = check_io(d, io);
	if (unlikely(io->status != 0) ||
	    (unlikely(faults != NULL) && io_divert(lane, io, faults, deadline_ns))) {
		return;
	}
	if (is_inline(d, io)) {
		run_inline(lane, io);
		return;
	}
	io_enter(lane, io, deadline_ns);
	io_begin(lane, io);
}

/* What a fault on purpose has kept back long enough. */
static void
lane_let_go(struct kb_lane *lane, uint64_t now_ns)
{
	list_for_each_safe(l, next, &lane->held)
	{
		struct kb_io *io = list_entry(l, struct kb_io, link);

		if (*kb_io_due(io) > now_ns) {
			continue;
		}
		list_remove(&io->link);
		if (is_inline(lane->drive, io)) {
			io_finish(lane, io,
			    kb_is_gone(lane->drive) ? -ERR_GONE
						    : lane->drive->ops->run(lane->drive, io));
		} else {
			io_begin(lane, io);
		}
	}
}

/* Gives requests to the ios that wait for one, in order. Not recursive: a start may complete at
 * once. */
static void
lane_feed(struct kb_lane *lane)
{
	if (lane->feeding) {
		return;
	}
	lane->feeding = true;
	while (!list_empty(&lane->starved)) {
		struct kb_req *req = req_take(lane);
		if (req == NULL) {
			break;
		}
		struct kb_io *io = list_first(&lane->starved, struct kb_io, link);
		list_remove(&io->link);
		req_begin(req, io);
	}
	lane->feeding = false;
}

/* ---- the end of an I/O ---- */

/* The last touch of io. */
static void
io_finish(struct kb_lane *lane, struct kb_io *io, int status)
{
	if (unlikely((io->flags & KB_IO_CORRUPT) != 0) && status == 0) {
		kb_faults_corrupt(io);
	}
	count_io(lane, io->op, io->op == KB_FLUSH ? 0 : io_len(io), status);
	io->latency_ns = rt_turn_ns() - io->start_ns;
	count_time(lane, io->op, io->latency_ns);
	io->status = status;
	group_done(io->group);
}

static bool
req_changes_drive(const struct kb_req *req)
{
	return req->op == KB_WRITE || req->op == KB_DISCARD;
}

void
kb_req_complete(struct kb_req *req, int status)
{
	struct kb_lane *lane = req->lane;
	struct kb_io *io = req->io;

	ASSERT_SLOW(lane->reactor == rt_reactor_self());
	for (uint32_t i = 0; i < req->seg_count; i++) {
		iobuf_unref(req->bufs[i]);
		req->bufs[i] = NULL;
	}
	list_remove(&req->link);
	if (io == NULL && req_changes_drive(req)) {
		atomic_fetch_sub(&lane->drive->late_writes, 1);
	}
	req->io = NULL;
	list_push_back(&lane->free, &req->link);
	if (io != NULL) {
		io_finish(lane, io, status);
	}
	if (unlikely(!list_empty(&lane->starved))) {
		lane_feed(lane);
	}
	if (unlikely(lane->closing)) {
		lane_check_closed(lane);
	}
}

/* The deadline came first: the io is answered, the request goes into quarantine. */
static void
req_expire(struct kb_req *req)
{
	struct kb_lane *lane = req->lane;
	struct kb_io *io = req->io;

	if (lane->drive->ops->cancel != NULL && lane->drive->ops->cancel(req)) {
		kb_req_complete(req, -ETIMEDOUT);
		return;
	}
	req->io = NULL;
	list_remove(&req->link);
	list_push_back(&lane->late, &req->link);
	if (req_changes_drive(req)) {
		atomic_fetch_add(&lane->drive->late_writes, 1);
	}
	io_finish(lane, io, -ETIMEDOUT);
}

/* Of those that no drive has seen yet. */
static void
ios_expire(struct kb_lane *lane, struct list *ios, uint64_t now_ns)
{
	list_for_each_safe(l, next, ios)
	{
		struct kb_io *io = list_entry(l, struct kb_io, link);
		if (io->deadline_ns <= now_ns) {
			list_remove(&io->link);
			io_finish(lane, io, -ETIMEDOUT);
		}
	}
}

static void
lane_expire(struct kb_lane *lane, uint64_t now_ns)
{
	list_for_each_safe(l, next, &lane->active)
	{
		struct kb_req *req = list_entry(l, struct kb_req, link);
		if (req->deadline_ns <= now_ns) {
			req_expire(req);
		}
	}
	ios_expire(lane, &lane->starved, now_ns);
	ios_expire(lane, &lane->held, now_ns);
}

static void
lane_fire(struct rt_timer *t)
{
	struct kb_lane *lane = container_of(t, struct kb_lane, timer);

	lane->armed_ns = RT_FOREVER;
	lane_expire(lane, rt_now_ns());
	lane_let_go(lane, rt_now_ns());
	list_for_each(l, &lane->active)
	{
		lane_arm(lane, list_entry(l, struct kb_req, link)->deadline_ns);
	}
	list_for_each(l, &lane->starved)
	{
		lane_arm(lane, list_entry(l, struct kb_io, link)->deadline_ns);
	}
	list_for_each(l, &lane->held)
	{
		struct kb_io *io = list_entry(l, struct kb_io, link);
		lane_arm(lane, MIN(*kb_io_due(io), io->deadline_ns));
	}
	if (lane->closing) {
		lane_check_closed(lane);
	}
}

/* ---- open and close ---- */

static void
lane_init(struct kb_drive *d, struct kb_lane *lane, unsigned reactor)
{
	lane->drive = d;
	lane->reactor = reactor;
	list_init(&lane->free);
	list_init(&lane->active);
	list_init(&lane->late);
	list_init(&lane->starved);
	list_init(&lane->held);
	lane->armed_ns = RT_FOREVER;
}

static int
lane_reserve(struct kb_lane *lane)
{
	unsigned want = lane->drive->ops->run == NULL ? KB_REQS_RESERVED : 1;

	for (unsigned i = 0; i < want; i++) {
		struct kb_req *req = req_create(lane);
		if (req == NULL) {
			return -ENOMEM;
		}
		list_push_back(&lane->free, &req->link);
	}
	return 0;
}

static void
lane_free_reqs(struct kb_lane *lane)
{
	while (!list_empty(&lane->free)) {
		struct kb_req *req = list_first(&lane->free, struct kb_req, link);
		list_remove(&req->link);
		mem_free(req);
	}
}

void
kb_drive_free(struct kb_drive *d)
{
	for (unsigned i = 0; d->lanes != NULL && i < d->lane_count; i++) {
		lane_free_reqs(kb_lane_at(d, i));
	}
	if (d->faults != NULL) {
		kb_faults_put(d->faults);
	}
	mem_free(d->lanes);
	mem_free(d);
}

int
kb_drive_create(const struct kb_ops *ops, const struct kb_info *info, struct kb_drive **out)
{
	struct kb_drive *d = mem_zalloc(ops->drive_bytes);
	int err = 0;

	if (d == NULL) {
		return -ENOMEM;
	}
	d->ops = ops;
	d->info = *info;
	d->lock_fd = -1;
	atomic_init(&d->slow_ns, NSEC_PER_SEC);
	d->lane_count = rt_reactor_count();
	d->lane_stride = ALIGN_UP(ops->lane_bytes, (size_t)64);
	d->lanes = mem_zalloc_array(d->lane_count, d->lane_stride);
	if (d->lanes == NULL) {
		mem_free(d);
		return -ENOMEM;
	}
	atomic_init(&d->refs, d->lane_count + 1);
	wg_init(&d->draining);
	for (unsigned i = 0; i < d->lane_count; i++) {
		lane_init(d, kb_lane_at(d, i), i);
	}
	for (unsigned i = 0; i < d->lane_count && err == 0; i++) {
		err = lane_reserve(kb_lane_at(d, i));
	}
	if (err != 0) {
		kb_drive_free(d);
		return err;
	}
	*out = d;
	return 0;
}

static void
drive_unref(struct kb_drive *d)
{
	if (atomic_fetch_sub(&d->refs, 1) != 1) {
		return;
	}
	if (d->ops->destroy != NULL) {
		d->ops->destroy(d);
	}
	kb_drive_free(d);
}

static void
lane_report_drained(struct kb_lane *lane)
{
	if (!lane->drained) {
		lane->drained = true;
		wg_done(&lane->drive->draining);
	}
}

void
kb_lane_stopped(struct kb_lane *lane)
{
	if (lane->armed_ns != RT_FOREVER) {
		rt_timer_cancel(&lane->timer);
		lane->armed_ns = RT_FOREVER;
	}
	lane_free_reqs(lane);
	lane_report_drained(lane);
	drive_unref(lane->drive);
}

static void
lane_check_closed(struct kb_lane *lane)
{
	if (!list_empty(&lane->active) || !list_empty(&lane->starved) || !list_empty(&lane->held) ||
	    lane->stopping) {
		return;
	}
	if (!list_empty(&lane->late)) {
		lane_report_drained(lane);
		return;
	}
	lane->stopping = true;
	if (lane->drive->ops->lane_stop != NULL) {
		lane->drive->ops->lane_stop(lane);
	} else {
		kb_lane_stopped(lane);
	}
}

static void
lane_close(struct rt_msg *m)
{
	struct kb_lane *lane = container_of(m, struct kb_lane, close_msg);
	uint64_t last_ns = rt_now_ns() + lane->drive->info.timeout_ms * NSEC_PER_MSEC;

	list_for_each(l, &lane->active)
	{
		struct kb_req *req = list_entry(l, struct kb_req, link);
		req->deadline_ns = MIN(req->deadline_ns, last_ns);
		lane_arm(lane, req->deadline_ns);
	}
	list_for_each(l, &lane->held)
	{
		struct kb_io *io = list_entry(l, struct kb_io, link);
		io->deadline_ns = MIN(io->deadline_ns, last_ns);
		lane_arm(lane, io->deadline_ns);
	}
	if (lane->drive->ops->reset != NULL) {
		lane->drive->ops->reset(lane);
	}
	lane->closing = true;
	lane_check_closed(lane);
}

void
kb_close(struct kb_drive *d)
{
	if (d->ops->closing != NULL) {
		d->ops->closing(d);
	}
	wg_add(&d->draining, d->lane_count);
	for (unsigned i = 0; i < d->lane_count; i++) {
		struct kb_lane *lane = kb_lane_at(d, i);
		lane->close_msg.fn = lane_close;
		rt_post(i, &lane->close_msg);
	}
	wg_wait(&d->draining);
	drive_unref(d);
}
