/*
 * log_ring.c - which ring the log is in, and since when it may be relied on.
 *
 * A ring is used in one epoch. Before anything is acknowledged by it, LOG_ROOTS committed roots
 * name it, so that falling back by one or two roots still finds it; the syncing fiber commits them
 * one after the other. From then on the transactions of the next txg (on_txg) use it. What was done
 * in txgs before on_txg has no record, so an acknowledgement by the ring also waits until those
 * have landed (pool_commit).
 *
 * A ring that is well is left in the same way, when log drives come or go (logdev.c): moving says
 * where to. What was acknowledged by it before is in txgs up to the one that was open; the first
 * root that names the next ring has them all.
 *
 * When a ring has failed for good nothing is appended or acknowledged by it any more: whoever
 * waits, waits for the txg. The syncing fiber makes the in-pool ring, in a new epoch, and the same
 * begins anew.
 *
 * A side that is lost is made durable as out (labels, then the last uberblock again with the new
 * config_txg) before the ring acknowledges anything without it.
 */
#include "pool/event.h"
#include "pool/pool_log.h"
#include "pool/scan.h"

#define SIDE_LOST_TRIES 3u

static void
log_use_nothing(struct pool_log_state *s)
{
	atomic_store(&s->on_txg, UINT64_MAX);
}

int
log_open(struct pool *p)
{
	struct pool_log_state *s = mem_zalloc(sizeof(*s));

	if (s == NULL) {
		return -ENOMEM;
	}
	s->p = p;
	spin_init(&s->lock);
	for (unsigned i = 0; i < DEFERRED_SLOTS; i++) {
		list_init(&s->deferred[i]);
	}
	log_use_nothing(s);
	s->epoch = le64_get(p->ub.log_epoch);
	atomic_store(&s->from_txg, le64_get(p->ub.txg) != 0 ? UINT64_MAX : 0);
	s->old_guid = p->ub.log_guid;
	s->old_position.epoch = s->epoch;
	s->old_position.batch_seq = le64_get(p->ub.log_batch);
	s->old_position.off_bytes = le64_get(p->ub.log_off);
	s->floor = le64_get(p->ub.log_floor);
	s->replayed = le64_get(p->ub.log_replayed);
	p->log = s;
	return 0;
}

void
log_close(struct pool *p)
{
	struct pool_log_state *s = p->log;

	if (s == NULL) {
		return;
	}
	if (atomic_load(&s->ring) != NULL) {
		ilog_destroy(atomic_load(&s->ring));
	}
	mem_free(s->sides);
	while (s->retired_count > 0) {
		s->retired_count--;
		ilog_destroy(s->retired[s->retired_count]);
		mem_free(s->retired_sides[s->retired_count]);
	}
	mem_free(s);
	p->log = NULL;
}

uint64_t
log_ring_bytes(struct pool *p)
{
	bool has_drives = false;

	for (uint32_t i = 0; i < p->v.drive_count; i++) {
		has_drives = has_drives || p->v.drives[i].role == DRIVE_ROLE_LOG;
	}
	return vdev_log_ring_bytes(&p->v, !has_drives);
}

/* ---- a side is lost ---- */

static void
look_for_sides(struct pool *p)
{
	if (p->log != NULL && __atomic_load_n(&p->log->sides, __ATOMIC_ACQUIRE) != NULL &&
	    log_sides_without(p, NULL) == 0 && !DELIBERATE_BUG("pool-log-sides-unseen")) {
		log_note_failed(p);
	}
}

int
log_config_write(struct pool *p)
{
	bool failed = true;
	int err = 0;

	for (uint32_t turn = 0; err == 0 && failed && turn <= p->v.drive_count; turn++) {
		look_for_sides(p);
		err = vdev_write_labels_once(&p->v, vdev_next_config(&p->v), &failed);
	}
	return err;
}

int
log_membership_write(struct pool *p)
{
	struct uberblock *ub = pool_must_alloc(sizeof(*ub));
	bool changed = true;
	int err = 0;

	for (unsigned i = 0; err == 0 && changed && i < SIDE_LOST_TRIES; i++) {
		changed = false;
		err = log_config_write(p);
		if (err == 0 && le64_get(p->ub.txg) != 0) {
			*ub = p->ub;
			ub->config_txg = le64_of(p->v.config_txg);
			scan_fill_uber(p, ub);
			err = uber_write(&p->v, ub, &changed);
		}
		if (err == 0) {
			p->ub.config_txg = le64_of(p->v.config_txg);
			p->ub.scan = ub->scan;
			scan_written(p, &p->ub);
		}
	}
	mem_free(ub);
	return err == 0 && changed ? -EIO : err;
}

/* On how many drives, without one of them, would an import find the ring? Not on one that has been
 * replaced or was out since the ring began, however well the ring still gets there. */
static uint32_t
found_without(const struct log_sides *sides, const struct vdev_drive *gone)
{
	uint32_t count = 0;

	for (uint32_t i = 0; i < sides->cfg.side_count; i++) {
		const struct vdev_drive *d = &sides->p->v.drives[sides->drive[i]];

		count += d != gone && d->kb == sides->cfg.sides[i].drive && !d->ring_stale &&
			 d->state == DRIVE_STATE_ONLINE;
	}
	return count;
}

/* The drive behind a side may have returned or been replaced since the ring began: then it isn't
 * out, but no side either. */
static int
side_lost(void *arg, unsigned side)
{
	struct log_sides *sides = arg;
	struct pool *p = sides->p;
	struct vdev_drive *d = &p->v.drives[sides->drive[side]];
	int err = -ERR_GONE;
	bool found;

	mutex_lock(&p->config_lock);
	log_warn("log_side_out pool=%s side=%u", p->name, side);
	found = found_without(sides, d) > 0 || DELIBERATE_BUG("pool-log-any-side-counts");
	if (d->kb == sides->cfg.sides[side].drive && d->state == DRIVE_STATE_ONLINE &&
	    (d->role != DRIVE_ROLE_DATA || d->twin ||
		vdev_can_spare(&p->v, d->set_index, 1u << d->column))) {
		vdev_drive_out(&p->v, d, DRIVE_STATE_FAULTED, p->v.committed_txg + 1);
	}
	d->ring_stale = d->role == DRIVE_ROLE_DATA;
	if (found) {
		err = log_membership_write(p);
	}
	mutex_unlock(&p->config_lock);
	return err;
}

static bool
has_side(const struct log_sides *sides, const struct kb_drive *kb)
{
	for (uint32_t i = 0; sides != NULL && i < sides->cfg.side_count; i++) {
		if (sides->cfg.sides[i].drive == kb) {
			return true;
		}
	}
	return false;
}

bool
log_is_side(const struct pool *p, const struct kb_drive *kb)
{
	return p->log != NULL && has_side(__atomic_load_n(&p->log->sides, __ATOMIC_ACQUIRE), kb);
}

bool
log_knows(const struct pool *p, const struct kb_drive *kb)
{
	bool known = log_is_side(p, kb);

	for (uint32_t i = 0; p->log != NULL && i < atomic_load(&p->log->retired_count); i++) {
		known = known || has_side(p->log->retired_sides[i], kb);
	}
	return known;
}

uint32_t
log_sides_without(struct pool *p, const struct vdev_drive *gone)
{
	const struct pool_log_state *s = p->log;
	const struct log_sides *sides = __atomic_load_n(&s->sides, __ATOMIC_ACQUIRE);

	if (!s->in_pool || atomic_load(&s->ring) == NULL) {
		return UINT32_MAX;
	}
	/* NULL: another ring is being made just now */
	return sides != NULL ? found_without(sides, gone) : 0;
}

uint32_t
log_sides_wanted(const struct pool *p)
{
	return MIN(raidz_tolerates(&p->v.sets[0].cfg) + 1, (uint32_t)ILOG_SIDES_MAX);
}

/* ---- a new ring ---- */

/* Under config_lock. */
static int
sides_find(struct pool *p, bool in_pool, uint64_t epoch, struct log_sides *out)
{
	int err = vdev_log_config(&p->v, in_pool, epoch, &out->cfg);

	for (uint32_t i = 0; err == 0 && i < out->cfg.side_count; i++) {
		for (uint32_t k = 0; k < p->v.drive_count; k++) {
			if (p->v.drives[k].kb != NULL &&
			    p->v.drives[k].kb == out->cfg.sides[i].drive) {
				out->drive[i] = k;
			}
		}
	}
	return err;
}

static int
ring_make(struct pool_log_state *s, bool in_pool, struct ilog **out)
{
	struct pool *p = s->p;
	struct log_sides *sides = mem_zalloc(sizeof(*sides));
	uint64_t epoch =
	    s->epoch + 1 + (rt_random_u64() >> 40); /* an abandoned future may have used the next */
	int err;

	if (sides == NULL) {
		return -ENOMEM;
	}
	mutex_lock(&p->config_lock);
	err = sides_find(p, in_pool, epoch, sides);
	mutex_unlock(&p->config_lock);
	if (err == 0) {
		sides->p = p;
		sides->cfg.side_lost = side_lost;
		sides->cfg.arg = sides;
		err = ilog_create(&sides->cfg, out);
	}
	if (err != 0) {
		mem_free(sides);
		return err;
	}
	__atomic_store_n(&s->sides, sides, __ATOMIC_RELEASE);
	s->in_pool = in_pool;
	s->epoch = epoch;
	memcpy(s->guid.b, sides->cfg.guid, sizeof(s->guid.b));
	return 0;
}

void
log_ring_start(struct pool *p, uint64_t from_txg)
{
	struct pool_log_state *s = p->log;
	struct ilog *ring = NULL, *old = atomic_load(&s->ring);
	bool moving = atomic_load(&s->moving);
	bool to_pool = moving ? !s->to_drives : old != NULL;

	log_use_nothing(s);
	s->failures += old != NULL && !moving;
	if (old != NULL &&
	    (s->retired_count == ARRAY_LEN(s->retired) || s->failures > LOG_FAILURES_MAX)) {
		return; /* all rings have failed: commits wait for their txg from now on */
	}
	if (old != NULL) {
		s->retired_sides[s->retired_count] = s->sides;
		s->retired[s->retired_count] = old;
		/* in this order: log_knows must find it in one of the two */
		atomic_fetch_add(&s->retired_count, 1);
		__atomic_store_n(&s->sides, NULL, __ATOMIC_RELEASE);
	}
	if (to_pool || ring_make(s, false, &ring) != 0) {
		if (ring_make(s, true, &ring) != 0) {
			log_warn("log_none pool=%s", p->name);
		}
	}
	s->roots_named = 0;
	atomic_store(&s->ring, ring);
	atomic_store(&s->failed, false);
	atomic_store(&s->from_txg, from_txg);
	atomic_store(&s->moving, false);
}

bool
log_ring_is_current(const struct pool_log_state *s, const struct ilog *ring)
{
	return ring == atomic_load(&s->ring) && !atomic_load(&s->failed);
}

void
log_note_failed(struct pool *p)
{
	if (!atomic_exchange(&p->log->failed, true)) {
		log_error("log_failed pool=%s in_pool=%d", p->name, p->log->in_pool);
		events_add(p->v.events, POOL_EVENT_WARNING, "log.failed", "%s",
		    p->log->in_pool ? "the intent log on the pool's own drives has failed: commits "
				      "wait for whole "
				      "transaction groups"
				    : "the log drives have failed: the pool's own drives take over "
				      "the intent log");
		txg_want(p->txgs, txg_open(p->txgs));
	}
}

bool
log_wants_txg(struct pool *p)
{
	struct pool_log_state *s = p->log;

	return atomic_load(&s->ring) != NULL && s->roots_named < LOG_ROOTS;
}

/* ---- with each root ---- */

/* Until replay is over the roots go on naming the old ring, and how far of it they contain. */
static void
fill_replaying(struct pool_log_state *s, uint64_t txg, struct uberblock *ub)
{
	uint64_t seq = atomic_load(&s->p->txgs->replay_seq[TXG_SLOT(txg)]);

	s->replayed = MAX(s->replayed, seq);
	ub->log_guid = s->old_guid;
	ub->log_epoch = le64_of(s->old_position.epoch);
	ub->log_batch = le64_of(s->old_position.batch_seq);
	ub->log_off = le64_of(s->old_position.off_bytes);
	ub->log_floor = le64_of(DELIBERATE_BUG("pool-replay-floor-moves") ? txg : s->floor);
	ub->log_replayed = le64_of(s->replayed);
}

void
log_fill_uber(struct pool *p, uint64_t txg, uint32_t flags, struct uberblock *ub)
{
	struct pool_log_state *s = p->log;
	struct ilog *ring = atomic_load(&s->ring);
	struct ilog_position tail = {0};

	if (txg < atomic_load(&s->from_txg)) {
		fill_replaying(s, txg, ub);
		return;
	}
	ub->flags = le32_of(le32_get(ub->flags) | flags);
	if (ring != NULL) {
		ilog_tail(ring, txg, &tail);
	}
	/* a root from before the ring was in use must not be brought up to date by it: there is a
	 * gap */
	if (txg + 1 >= atomic_load(&s->on_txg) || DELIBERATE_BUG("pool-log-gap-replayed")) {
		ub->log_guid = s->guid;
	} else {
		ub->log_guid = (struct guid){{0}};
	}
	ub->log_epoch = le64_of(s->epoch);
	ub->log_batch = le64_of(tail.batch_seq);
	ub->log_off = le64_of(tail.off_bytes);
	ub->log_floor = le64_of(txg);
	ub->log_replayed = le64_of(0);
}

void
log_committed(struct pool *p, uint64_t txg)
{
	struct pool_log_state *s = p->log;
	struct ilog *ring = atomic_load(&s->ring);

	if (txg > TXG_FALLBACK) {
		log_drop_deferred(p, txg - TXG_FALLBACK);
	}
	if (txg < atomic_load(&s->from_txg)) {
		return;
	}
	if (atomic_load(&s->failed)) {
		log_ring_start(p, txg + 1);
		txg_want(p->txgs, txg_open(p->txgs));
		return;
	}
	if (ring == NULL) {
		return;
	}
	if (txg > TXG_FALLBACK) {
		ilog_trim(
		    ring, DELIBERATE_BUG("pool-log-trim-early") ? txg + 1 : txg - TXG_FALLBACK);
	}
	if (s->roots_named < LOG_ROOTS) {
		s->roots_named++;
		if (s->roots_named == LOG_ROOTS) {
			atomic_store(&s->on_txg, txg_open(p->txgs) + 1);
		} else {
			txg_want(p->txgs, txg_open(p->txgs));
		}
	}
}

void
pool_log_figures(
    struct pool *p, uint64_t *out_ring_bytes, uint64_t *out_used_bytes, bool *out_in_pool)
{
	struct pool_log_state *s = p->log;
	struct ilog *ring = s != NULL ? atomic_load(&s->ring) : NULL;
	struct ilog_info info = {0};

	if (ring != NULL) {
		ilog_get_info(ring, &info);
	}
	*out_ring_bytes = info.ring_bytes;
	*out_used_bytes = info.used_bytes;
	*out_in_pool = ring != NULL && s->in_pool;
}
