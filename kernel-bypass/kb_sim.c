/*
 * kb_sim.c - a simulated drive: a medium opened in one life, with latency and faults.
 *
 * Each request draws its fate when it starts and has its effect when its timer fires, on its own
 * reactor. A write may also reach the cache already at the start (a coin decides), so that a power
 * cut finds writes in flight in both states. Data is copied from or to the caller's buffers at the
 * moment of the effect: a late request uses them after its deadline, as a drive would.
 *
 * Everything that happens during a life draws from the medium's generator, which each open seeds
 * from the runtime: the same seed, the same run.
 */
#include <stdio.h>
#include "kernel-bypass/kb_sim_int.h"

#define SIM_TIMEOUT_MS 2000u

enum sim_fate {
	FATE_WELL,
	FATE_ERROR,
	FATE_HANG,
	FATE_LATE,
	FATE_ROT,         /* read */
	FATE_DROPPED,     /* write */
	FATE_MISDIRECTED, /* write */
};

struct sim_drive {
	struct kb_drive drive;
	struct kb_sim_medium *medium;
	struct list link; /* medium->drives, under its guard */
};

struct sim_lane {
	struct kb_lane lane;
	struct list hung; /* [r] struct sim_req */
	atomic_bool kick_posted;
	struct rt_msg kick_msg; /* let the hanging ones go */
	bool stop_after_kick;   /* [r] the lane is to stop, but kick_msg is still under way */
};

struct sim_req {
	struct kb_req req;
	struct rt_timer timer;
	struct list hung_link;
	enum sim_fate fate;
	bool applied;          /* the write is in the cache already */
	uint64_t write_id;     /* 0: never applied */
	uint64_t target_bytes; /* where a write really goes */
	uint64_t flush_upto;
};

/* Of the whole process, on purpose: a test counts over all drives and lives. */
static _Atomic uint64_t sim_writes;
static _Atomic uint64_t sim_crash_at; /* value of sim_writes; 0 = never */
static bool (*sim_ask)(void *arg);
static void *sim_ask_arg;

static struct kb_sim_medium *
medium_of(const struct kb_req *req)
{
	return container_of(req->lane->drive, struct sim_drive, drive)->medium;
}

static struct sim_req *
sim_req_of(struct kb_req *req)
{
	return container_of(req, struct sim_req, req);
}

/* ---- effects; the medium's guard is held ---- */

static void
write_apply(struct kb_sim_medium *m, struct sim_req *sr)
{
	struct kb_req *req = &sr->req;

	sr->applied = true;
	sr->write_id = m->next_write_id++;
	if (req->op == KB_WRITE) {
		sim_write(m, sr->target_bytes, req->iov, req->seg_count, sr->write_id);
	} else {
		sim_discard(m, sr->target_bytes, req->len_bytes, sr->write_id);
	}
}

/* What a later flush must cover, or what is durable at once. */
static void
write_apply_now(struct kb_sim_medium *m, struct sim_req *sr, bool durable)
{
	if (!sr->applied) {
		write_apply(m, sr);
	}
	sim_write_completed(m, sr->target_bytes, sr->req.len_bytes, sr->write_id, durable);
}

static int
effect_write(struct kb_sim_medium *m, struct sim_req *sr)
{
	const struct kb_req *req = &sr->req;
	bool durable = m->plp || (req->flags & KB_FUA) != 0;

	if (sr->fate == FATE_DROPPED) {
		return 0;
	}
	if (sr->fate == FATE_ERROR) {
		if (sim_random(&m->prng) % 2 == 0) {
			write_apply_now(m, sr, false);
		}
		return -EIO;
	}
	write_apply_now(m, sr, durable);
	return 0;
}

static int
effect_read(struct kb_sim_medium *m, struct sim_req *sr)
{
	const struct kb_req *req = &sr->req;

	if (sr->fate == FATE_ERROR) {
		return sim_random(&m->prng) % 2 == 0 ? -ENODATA : -EIO;
	}
	if (sr->fate == FATE_ROT) {
		sim_flip_bit(m, req->off_bytes, req->len_bytes);
	}
	sim_read(m, req->off_bytes, req->iov, req->seg_count);
	return 0;
}

/* Half the discards leave everything as it was, the others leave zeros or junk: nobody may count on
 * anything. */
static int
effect_discard(struct kb_sim_medium *m, struct sim_req *sr)
{
	if (sr->fate == FATE_ERROR) {
		return -EIO;
	}
	if (sim_random(&m->prng) % 2 == 0) {
		write_apply_now(m, sr, m->plp);
	}
	return 0;
}

static int
effect(struct kb_sim_medium *m, struct sim_req *sr)
{
	if (kb_is_gone(sr->req.lane->drive)) {
		return -ERR_GONE;
	}
	switch (sr->req.op) {
	case KB_READ:
		return effect_read(m, sr);
	case KB_WRITE:
		return effect_write(m, sr);
	case KB_DISCARD:
		return effect_discard(m, sr);
	case KB_FLUSH:
		break;
	}
	sim_flush(m, sr->flush_upto, sr->fate == FATE_ERROR ? 500000 : 0);
	return sr->fate == FATE_ERROR ? -EIO : 0;
}

static void
sim_finish(struct sim_req *sr)
{
	struct kb_sim_medium *m = medium_of(&sr->req);

	spin_lock(&m->guard);
	int status = effect(m, sr);
	spin_unlock(&m->guard);
	kb_req_complete(&sr->req, status);
}

static void
sim_timer(struct rt_timer *t)
{
	sim_finish(container_of(t, struct sim_req, timer));
}

/* ---- start ---- */

static uint32_t
error_chance(const struct kb_sim_faults *f, enum kb_op op)
{
	switch (op) {
	case KB_READ:
		return f->read_error;
	case KB_WRITE:
	case KB_DISCARD:
		return f->write_error;
	case KB_FLUSH:
		break;
	}
	return f->flush_error;
}

static enum sim_fate
fate_draw(struct kb_sim_medium *m, enum kb_op op)
{
	const struct kb_sim_faults *f = &m->faults;

	if (sim_chance(&m->prng, f->hang)) {
		return FATE_HANG;
	}
	if (sim_chance(&m->prng, f->late)) {
		return FATE_LATE;
	}
	if (sim_chance(&m->prng, error_chance(f, op))) {
		return FATE_ERROR;
	}
	if (op == KB_READ && sim_chance(&m->prng, f->rot)) {
		return FATE_ROT;
	}
	if (op == KB_WRITE && sim_chance(&m->prng, f->dropped)) {
		return FATE_DROPPED;
	}
	if (op == KB_WRITE && sim_chance(&m->prng, f->misdirected)) {
		return FATE_MISDIRECTED;
	}
	return FATE_WELL;
}

static uint64_t
latency_draw(struct kb_sim_medium *m)
{
	uint64_t min = m->faults.latency_ns_min;
	uint64_t max = MAX(min, m->faults.latency_ns_max);

	return min + sim_random(&m->prng) % (max - min + 1);
}

static uint64_t
end_draw(struct kb_sim_medium *m, const struct sim_req *sr)
{
	uint64_t now_ns = rt_now_ns();
	uint64_t end_ns = now_ns + latency_draw(m);

	if (sr->fate != FATE_LATE) {
		return end_ns;
	}
	uint64_t after_ns = sr->req.deadline_ns;
	if (after_ns == RT_FOREVER) {
		after_ns = now_ns + SIM_TIMEOUT_MS * NSEC_PER_MSEC;
	}
	return after_ns + 1 + sim_random(&m->prng) % (2 * SIM_TIMEOUT_MS * NSEC_PER_MSEC);
}

/* True when this was the write before which the power is to be cut. */
static bool
write_counts_down(void)
{
	uint64_t n = atomic_fetch_add(&sim_writes, 1) + 1;
	uint64_t at = atomic_load(&sim_crash_at);

	if (sim_ask != NULL && sim_ask(sim_ask_arg)) {
		return true;
	}
	return at != 0 && n >= at && atomic_compare_exchange_strong(&sim_crash_at, &at, 0);
}

static void
sim_prepare(struct kb_sim_medium *m, struct sim_req *sr)
{
	struct kb_req *req = &sr->req;

	sr->fate = fate_draw(m, req->op);
	sr->applied = false;
	sr->write_id = 0;
	sr->target_bytes = req->off_bytes;
	sr->flush_upto = m->clock;
	if (sr->fate == FATE_MISDIRECTED) {
		uint64_t places = (m->size_bytes - req->len_bytes) / SECTOR_BYTES + 1;
		sr->target_bytes = sim_random(&m->prng) % places * SECTOR_BYTES;
	}
	if (sr->fate != FATE_WELL || sim_random(&m->prng) % 2 != 0) {
		return;
	}
	if (req->op == KB_WRITE) {
		write_apply(m, sr);
	} else if (req->op == KB_FLUSH) {
		sim_flush(m, sr->flush_upto, 0);
	}
}

static void
sim_start(struct kb_req *req)
{
	struct kb_sim_medium *m = medium_of(req);
	struct sim_req *sr = sim_req_of(req);
	struct sim_lane *sl = container_of(req->lane, struct sim_lane, lane);

	list_init(&sr->hung_link);
	spin_lock(&m->guard);
	sim_prepare(m, sr);
	uint64_t end_ns = end_draw(m, sr);
	spin_unlock(&m->guard);
	if (req->op == KB_WRITE && write_counts_down()) {
		rt_sim_crash();
		return;
	}
	if (sr->fate == FATE_HANG) {
		list_push_back(&sl->hung, &sr->hung_link);
		return;
	}
	rt_timer_arm(&sr->timer, end_ns, sim_timer);
}

/* ---- letting go ---- */

static void
hung_finish(struct sim_lane *sl)
{
	struct list hung;

	list_init(&hung);
	list_splice_back(&hung, &sl->hung);
	while (!list_empty(&hung)) {
		struct sim_req *sr = list_first(&hung, struct sim_req, hung_link);
		list_remove(&sr->hung_link);
		sim_finish(sr);
	}
}

static void
lane_kick(struct rt_msg *msg)
{
	struct sim_lane *sl = container_of(msg, struct sim_lane, kick_msg);

	atomic_store(&sl->kick_posted, false);
	hung_finish(sl);
	if (sl->stop_after_kick) {
		kb_lane_stopped(&sl->lane);
	}
}

/* Any thread of the runtime; the guard is held, so that no drive leaves the list meanwhile. */
static void
drives_kick(struct kb_sim_medium *m)
{
	list_for_each(l, &m->drives)
	{
		struct kb_drive *d = &list_entry(l, struct sim_drive, link)->drive;
		for (unsigned i = 0; i < d->lane_count; i++) {
			struct sim_lane *sl = container_of(kb_lane_at(d, i), struct sim_lane, lane);
			if (!atomic_exchange(&sl->kick_posted, true)) {
				rt_post(i, &sl->kick_msg);
			}
		}
	}
}

/* A hanging or late request ends at the reset; whether its write happened is a coin's choice. */
static void
reset_one(struct sim_req *sr)
{
	struct kb_sim_medium *m = medium_of(&sr->req);

	list_remove(&sr->hung_link);
	rt_timer_cancel(&sr->timer);
	spin_lock(&m->guard);
	if (sr->req.op == KB_WRITE && !kb_is_gone(sr->req.lane->drive) &&
	    sim_random(&m->prng) % 2 == 0) {
		write_apply_now(m, sr, false);
	}
	spin_unlock(&m->guard);
	kb_req_complete(&sr->req, -EIO);
}

static void
sim_reset(struct kb_lane *lane)
{
	struct sim_lane *sl = container_of(lane, struct sim_lane, lane);

	while (!list_empty(&sl->hung)) {
		reset_one(list_first(&sl->hung, struct sim_req, hung_link));
	}
	while (!list_empty(&lane->late)) {
		reset_one(sim_req_of(list_first(&lane->late, struct kb_req, link)));
	}
}

/* From here on nobody posts a kick. */
static void
sim_closing(struct kb_drive *d)
{
	struct sim_drive *sd = container_of(d, struct sim_drive, drive);

	spin_lock(&sd->medium->guard);
	list_remove(&sd->link);
	spin_unlock(&sd->medium->guard);
}

static void
sim_lane_stop(struct kb_lane *lane)
{
	struct sim_lane *sl = container_of(lane, struct sim_lane, lane);

	if (atomic_load(&sl->kick_posted)) {
		sl->stop_after_kick = true;
	} else {
		kb_lane_stopped(lane);
	}
}

static const struct kb_ops sim_ops = {
    .drive_bytes = sizeof(struct sim_drive),
    .lane_bytes = sizeof(struct sim_lane),
    .req_bytes = sizeof(struct sim_req),
    .start = sim_start,
    .closing = sim_closing,
    .reset = sim_reset,
    .lane_stop = sim_lane_stop,
};

/* ---- public ---- */

int
kb_sim_open(struct kb_sim_medium *m, struct kb_drive **out)
{
	struct kb_info info = {
	    .backend = KB_BACKEND_SIM,
	    .size_bytes = m->size_bytes,
	    .physical_sector_bytes = SECTOR_BYTES,
	    .logical_sector_bytes = 512,
	    .discard = true,
	    .timeout_ms = SIM_TIMEOUT_MS,
	};
	struct kb_drive *d;

	spin_lock(&m->guard);
	bool vanished = m->vanished;
	info.volatile_cache = !m->plp;
	spin_unlock(&m->guard);
	if (vanished) {
		return -ERR_GONE;
	}
	snprintf(info.path, sizeof(info.path), "sim/%s", m->name);
	snprintf(info.id, sizeof(info.id), "sim:%s", m->name);
	snprintf(info.model, sizeof(info.model), "simulated drive");
	snprintf(info.serial, sizeof(info.serial), "%s", m->name);
	int err = kb_drive_create(&sim_ops, &info, &d);
	if (err != 0) {
		return err;
	}
	struct sim_drive *sd = container_of(d, struct sim_drive, drive);
	sd->medium = m;
	for (unsigned i = 0; i < d->lane_count; i++) {
		struct sim_lane *sl = container_of(kb_lane_at(d, i), struct sim_lane, lane);
		list_init(&sl->hung);
		sl->kick_msg.fn = lane_kick;
	}
	uint64_t seed = rt_random_u64();
	spin_lock(&m->guard);
	m->prng = seed;
	list_push_back(&m->drives, &sd->link);
	spin_unlock(&m->guard);
	*out = d;
	return 0;
}

void
kb_sim_set_faults(struct kb_sim_medium *m, const struct kb_sim_faults *f)
{
	spin_lock(&m->guard);
	m->faults = *f;
	if (f->latency_ns_max == 0) {
		m->faults.latency_ns_min = 20 * NSEC_PER_USEC;
		m->faults.latency_ns_max = 200 * NSEC_PER_USEC;
	}
	spin_unlock(&m->guard);
}

void
kb_sim_set_plp(struct kb_sim_medium *m, bool plp)
{
	spin_lock(&m->guard);
	m->plp = plp;
	spin_unlock(&m->guard);
}

void
kb_sim_vanish(struct kb_sim_medium *m)
{
	spin_lock(&m->guard);
	m->vanished = true;
	sim_settle(m, sim_random(&m->prng));
	list_for_each(l, &m->drives)
	{
		kb_drive_set_gone(&list_entry(l, struct sim_drive, link)->drive);
	}
	drives_kick(m);
	spin_unlock(&m->guard);
}

void
kb_sim_return(struct kb_sim_medium *m)
{
	spin_lock(&m->guard);
	m->vanished = false;
	spin_unlock(&m->guard);
}

void
kb_sim_unhang(struct kb_sim_medium *m)
{
	spin_lock(&m->guard);
	drives_kick(m);
	spin_unlock(&m->guard);
}

void
kb_sim_power_cut(struct kb_sim_medium *m, uint64_t seed)
{
	spin_lock(&m->guard);
	list_init(&m->drives);
	sim_settle(m, seed);
	spin_unlock(&m->guard);
}

uint64_t
kb_sim_write_count(void)
{
	return atomic_load(&sim_writes);
}

void
kb_sim_crash_after_writes(uint64_t n)
{
	atomic_store(&sim_crash_at, n == 0 ? 0 : atomic_load(&sim_writes) + n);
}

void
kb_sim_before_write(bool (*ask)(void *arg), void *arg)
{
	sim_ask = ask;
	sim_ask_arg = arg;
}
