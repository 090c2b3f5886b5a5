/*
 * log.c - records: into the ring at once, or waiting with their object.
 *
 * Order is per object: obj->log_mu is held while its records are appended, and what was deferred
 * goes first. Several objects are locked by ascending address. The mutex is held over ilog_append
 * (which waits for memory at most), never over a commit.
 *
 * A deferred record holds the reservation that its transaction made for it, and a reference to its
 * object and data. It ends in the ring, or is dropped when its txg and TXG_FALLBACK later ones have
 * landed: a COMMIT, or a stable record of its object, between these may have to be redone from a
 * root that lacks it. For the same reason what is in the ring is waited for there until then.
 * All that wait together keep as much memory as cache_keep_bytes; beyond it a record goes into the
 * ring at once, with those of its object before it: a client that never commits must not take the
 * memory that the syncing fiber reads into.
 *
 * A change without a record (no ring, or more than was reserved) makes everything later on that
 * object wait for txgs, not for the ring, until it has landed: else the ring could acknowledge what
 * builds on it.
 */
#include "pool/pool_log.h"

#include "pool/cache.h"

#define LOG_OBJS_MAX 8u
#define LOG_SEGS_MAX 5u
#define RESERVE_LOOK_NS NSEC_PER_SEC
#define RESERVE_FIRST_LOOK_NS (10 * NSEC_PER_MSEC)
#define RING_TIGHT_PERCENT 75u

struct deferred {
	struct list link; /* pool_obj.deferred, oldest first */
	struct ilog *ring;
	struct ilog_reservation space;
	struct ilog_record rec;
	struct iobuf *data;
	uint32_t data_off, data_len;
	uint32_t head_len;
	uint8_t head[];
};

/* ---- space ---- */

int
log_reserve(struct pool_tx *tx, const struct pool_need *need)
{
	struct pool *p = tx->p;
	struct pool_log_state *s = p->log;
	struct ilog *ring = atomic_load(&s->ring);

	if (need->log_records == 0 || ring == NULL || atomic_load(&s->on_txg) == UINT64_MAX) {
		return 0;
	}
	for (bool waited = false;; waited = true) {
		uint64_t look = waited ? RESERVE_LOOK_NS : RESERVE_FIRST_LOOK_NS;
		int err;

		/* What is in the ring, and what deferred records hold of it, goes two txgs later.
		 * None may come by itself: perhaps nothing is dirty but what waits here. */
		if (waited || ilog_fill_percent(ring) > RING_TIGHT_PERCENT) {
			txg_want(p->txgs, txg_open(p->txgs) + 2);
		}
		err = ilog_reserve(
		    ring, need->log_bytes, need->log_records, rt_now_ns() + look, &tx->log_space);
		if (err == 0) {
			tx->ring = ring;
			tx->log_overhead =
			    (uint32_t)((tx->log_space.bytes - need->log_bytes) / need->log_records);
			return 0;
		}
		if (err == -EIO) {
			log_note_failed(p);
		}
		if (err != -ETIMEDOUT) {
			return 0; /* without the ring, then */
		}
		if (atomic_load(&p->suspended) || atomic_load(&p->closing)) {
			return pool_suspended_error(p);
		}
	}
}

void
log_unreserve(struct pool_tx *tx)
{
	if (tx->ring != NULL) {
		ilog_unreserve(tx->ring, &tx->log_space);
		tx->ring = NULL;
	}
}

void
log_tx_joined(struct pool_tx *tx)
{
	struct pool_log_state *s = tx->p->log;

	if (tx->ring != NULL &&
	    (tx->ring != atomic_load(&s->ring) || tx->txg < atomic_load(&s->on_txg))) {
		log_unreserve(tx);
	}
}

void
log_replay_joined(struct pool_tx *tx)
{
	struct pool_log_state *s = tx->p->log;

	atomic_store(&tx->p->txgs->replay_seq[TXG_SLOT(tx->txg)], atomic_load(&s->delivering));
}

/* ---- appending; obj->log_mu held ---- */

static bool
obj_has_unlogged(const struct pool_obj *o)
{
	return o->last.txg != 0 && o->last.seq == 0 &&
	       o->last.txg + TXG_FALLBACK > txg_committed(o->ds->p->txgs);
}

static int
record_append(struct ilog *ring, struct ilog_reservation *space, struct ilog_record *rec,
    const struct ilog_seg *segs, uint32_t count)
{
	rec->len_bytes = 0;
	for (uint32_t i = 0; i < count; i++) {
		rec->len_bytes += segs[i].len_bytes;
	}
	return ilog_append(ring, space, rec, segs, count);
}

static void
deferred_free(struct pool_log_state *s, struct deferred *d)
{
	ilog_unreserve(d->ring, &d->space);
	atomic_fetch_sub(&s->deferred_bytes, d->data != NULL ? d->data->cap_bytes : 0);
	iobuf_unref(d->data);
	mem_free(d);
}

/* What a commit of o waits for, now that d is in the ring, or will never be. */
static void
deferred_note(struct pool_obj *o, const struct deferred *d, bool appended)
{
	struct pool_log_state *s = o->ds->p->log;
	struct pool_commit last = {.txg = d->rec.txg};

	if (appended && !obj_has_unlogged(o)) {
		last.epoch = s->epoch;
		/* if the ring was left meanwhile, the epoch may be another one's */
		last.seq = log_ring_is_current(s, d->ring) ? d->rec.seq : 0;
	} else if (!DELIBERATE_BUG("pool-defer-forgets-later")) {
		/* a change behind d may have had no record */
		last.txg = MAX(last.txg, o->last.txg);
	}
	o->last = last;
}

/* What waits with o goes into the ring. */
static void
deferred_flush(struct pool_obj *o)
{
	struct pool_log_state *s = o->ds->p->log;

	while (!list_empty(&o->deferred)) {
		struct deferred *d = list_first(&o->deferred, struct deferred, link);
		struct ilog_seg segs[2];
		uint32_t n = 0;
		int err = -EIO;

		if (d->head_len > 0) {
			segs[n++] = (struct ilog_seg){d->head, d->head_len};
		}
		if (d->data_len > 0) {
			segs[n++] = (struct ilog_seg){d->data->data + d->data_off, d->data_len};
		}
		if (log_ring_is_current(s, d->ring)) {
			err = record_append(d->ring, &d->space, &d->rec, segs, n);
		}
		if (err == -EIO && d->ring == atomic_load(&s->ring)) {
			log_note_failed(o->ds->p);
		}
		deferred_note(o, d, err == 0);
		list_remove(&d->link);
		deferred_free(s, d);
	}
}

static void
record_fill(const struct pool_tx *tx, const struct pool_log_rec *rec, struct ilog_record *out)
{
	*out = (struct ilog_record){
	    .type = rec->type,
	    .flags = rec->flags,
	    .txg = tx->txg,
	    .dataset = tx->ds->guid,
	    .incarnation = atomic_load(&tx->ds->incarnation),
	    .object = rec->object,
	    .generation = rec->generation,
	};
}

static uint32_t
record_segs(const struct pool_log_rec *rec, struct ilog_seg segs[LOG_SEGS_MAX])
{
	uint32_t n = 0;

	ASSERT(rec->head_count <= LOG_SEGS_MAX - 1);
	for (uint32_t i = 0; i < rec->head_count; i++) {
		if (rec->head[i].iov_len > 0) {
			segs[n++] = (struct ilog_seg){
			    rec->head[i].iov_base, (uint32_t)rec->head[i].iov_len};
		}
	}
	if (rec->data != NULL && rec->data_len > 0) {
		segs[n++] = (struct ilog_seg){rec->data->data + rec->data_off, rec->data_len};
	}
	return n;
}

/* Sorts a copy of objs by address, each once. */
static uint32_t
objs_order(struct pool_obj *const *objs, uint32_t count, struct pool_obj *out[LOG_OBJS_MAX])
{
	uint32_t n = 0;

	ASSERT(count <= LOG_OBJS_MAX);
	for (uint32_t i = 0; i < count; i++) {
		uint32_t at = n;
		bool twice = false;

		for (uint32_t j = 0; j < n; j++) {
			twice = twice || out[j] == objs[i];
		}
		if (twice) {
			continue;
		}
		while (at > 0 && (uintptr_t)out[at - 1] > (uintptr_t)objs[i]) {
			out[at] = out[at - 1];
			at--;
		}
		out[at] = objs[i];
		n++;
	}
	return n;
}

void
pool_log(struct pool_tx *tx, struct pool_obj *const *objs, uint32_t obj_count,
    const struct pool_log_rec *rec, struct pool_commit *out)
{
	struct pool_obj *order[LOG_OBJS_MAX];
	struct ilog_seg segs[LOG_SEGS_MAX];
	uint32_t n = objs_order(objs, obj_count, order);
	struct ilog_record r;
	bool unlogged = false;
	int err = -ENOSPC;

	for (uint32_t i = 0; i < n; i++) {
		if (i == 0) {
			mutex_lock(&order[i]->log_mu);
		} else {
			mutex_lock_nested(&order[i]->log_mu);
		}
		deferred_flush(order[i]);
		unlogged = unlogged || obj_has_unlogged(order[i]);
	}
	record_fill(tx, rec, &r);
	if (tx->ring != NULL && log_ring_is_current(tx->p->log, tx->ring)) {
		err = record_append(tx->ring, &tx->log_space, &r, segs, record_segs(rec, segs));
		if (err == -EIO) {
			log_note_failed(tx->p);
		}
	}
	*out = (struct pool_commit){.txg = tx->txg};
	if (err == 0 && !unlogged) {
		out->epoch = tx->p->log->epoch;
		/* if the ring was left meanwhile, the epoch may be another one's */
		out->seq = log_ring_is_current(tx->p->log, tx->ring) ? r.seq : 0;
	}
	for (uint32_t i = n; i > 0; i--) {
		order[i - 1]->last = *out;
		mutex_unlock(&order[i - 1]->log_mu);
	}
}

/* ---- deferring ---- */

static void
deferred_list(struct pool_obj *o, uint64_t txg)
{
	struct pool_log_state *s = o->ds->p->log;
	unsigned slot = DEFERRED_SLOT(txg);

	spin_lock(&s->lock);
	if (!o->deferred_in[slot]) {
		o->deferred_in[slot] = true;
		(void)pool_obj_ref(o);
		list_push_back(&s->deferred[slot], &o->deferred_link[slot]);
	}
	spin_unlock(&s->lock);
}

/* d has joined them. */
static bool
deferred_are_many(struct pool *p, const struct deferred *d)
{
	uint64_t more = d->data != NULL ? d->data->cap_bytes : 0;
	uint64_t before = atomic_fetch_add(&p->log->deferred_bytes, more);

	return before + more > cache_keep_bytes(p->cache);
}

void
pool_log_defer(struct pool_tx *tx, struct pool_obj *obj, const struct pool_log_rec *rec)
{
	struct deferred *d;
	uint32_t head_len = 0, at = 0;
	uint64_t cost;

	for (uint32_t i = 0; i < rec->head_count; i++) {
		head_len += (uint32_t)rec->head[i].iov_len;
	}
	mutex_lock(&obj->log_mu);
	if (tx->ring == NULL || DELIBERATE_BUG("pool-log-defer-drops")) {
		obj->last = (struct pool_commit){
		    .txg = DELIBERATE_BUG("pool-log-defer-drops") ? 0 : tx->txg};
		mutex_unlock(&obj->log_mu);
		return;
	}
	d = pool_must_alloc(sizeof(*d) + head_len);
	record_fill(tx, rec, &d->rec);
	for (uint32_t i = 0; i < rec->head_count; i++) {
		memcpy(d->head + at, rec->head[i].iov_base, rec->head[i].iov_len);
		at += (uint32_t)rec->head[i].iov_len;
	}
	d->ring = tx->ring;
	d->head_len = head_len;
	d->data_off = rec->data_off;
	d->data_len = rec->data != NULL ? rec->data_len : 0;
	d->data = rec->data != NULL ? iobuf_ref(rec->data) : NULL;
	cost = MIN((uint64_t)head_len + d->data_len + tx->log_overhead, tx->log_space.bytes);
	d->space.bytes = cost;
	tx->log_space.bytes -= cost;
	list_push_back(&obj->deferred, &d->link);
	deferred_list(obj, tx->txg);
	if (deferred_are_many(tx->p, d) && !DELIBERATE_BUG("pool-defer-without-end")) {
		deferred_flush(obj);
	}
	mutex_unlock(&obj->log_mu);
}

static void
deferred_drop_landed(struct pool_obj *o, uint64_t txg)
{
	mutex_lock(&o->log_mu);
	while (!list_empty(&o->deferred)) {
		struct deferred *d = list_first(&o->deferred, struct deferred, link);

		if (d->rec.txg > txg) {
			break;
		}
		list_remove(&d->link);
		deferred_free(o->ds->p->log, d);
	}
	mutex_unlock(&o->log_mu);
}

void
log_drop_deferred(struct pool *p, uint64_t txg)
{
	struct pool_log_state *s = p->log;
	struct list *l = &s->deferred[DEFERRED_SLOT(txg)];

	for (;;) {
		struct pool_obj *o = NULL;

		spin_lock(&s->lock);
		if (!list_empty(l)) {
			o = container_of(
			    l->next - DEFERRED_SLOT(txg), struct pool_obj, deferred_link);
			list_remove(&o->deferred_link[DEFERRED_SLOT(txg)]);
			o->deferred_in[DEFERRED_SLOT(txg)] = false;
		}
		spin_unlock(&s->lock);
		if (o == NULL) {
			return;
		}
		deferred_drop_landed(o, txg);
		pool_obj_release(o);
	}
}

/* ---- waiting ---- */

int
pool_commit(struct pool *p, const struct pool_commit *c)
{
	struct pool_log_state *s = p->log;
	struct ilog *ring = atomic_load(&s->ring);
	uint64_t on_txg = atomic_load(&s->on_txg);
	int err;

	/* no root that one may fall back to lacks it then */
	uint64_t enough = c->txg + TXG_FALLBACK;

	if (c->txg == 0 || txg_committed(p->txgs) >= enough) {
		return 0;
	}
	if (c->seq != 0 && ring != NULL && c->epoch == s->epoch && on_txg != UINT64_MAX &&
	    !atomic_load(&s->failed)) {
		err = ilog_commit(ring, c->seq);
		if (err == 0) {
			/* what was done in txgs before on_txg has no record */
			uint64_t base = on_txg - 1 + TXG_FALLBACK;

			return txg_committed(p->txgs) >= base ? 0 : txg_wait(p->txgs, base);
		}
		log_note_failed(p);
	}
	return txg_wait(p->txgs, DELIBERATE_BUG("pool-commit-one-txg") ? c->txg : enough);
}

int
pool_commit_object(struct pool_obj *obj)
{
	struct pool_commit last;

	mutex_lock(&obj->log_mu);
	deferred_flush(obj);
	last = obj->last;
	mutex_unlock(&obj->log_mu);
	return pool_commit(obj->ds->p, &last);
}
