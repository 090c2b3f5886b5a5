/*
 * ilog_ring.c - the ring's space: places of batches, reservations, trimming by txg, throttling.
 *
 * Positions count bytes since the epoch began and never turn back; a position modulo the ring is
 * the place on the drive. A batch that doesn't fit before the end of the ring skips what is left.
 * With W = the longest skip (a little less than the longest batch), capacity = ring - 2 W, and
 *
 *     claimed = reservations + records in batches without a place + batches placed and not trimmed
 *
 * the rule `claimed <= capacity` is kept by ilog_reserve alone and makes every later step safe:
 *  - A record is charged as if it had a batch of its own (header, padding to the sector), so a
 * batch of n records is never longer than their charges. Placing a batch turns its charges into its
 * length and gives back the rest; claimed never grows by it.
 *  - Between tail and head lie the placed batches and the skips between them. A window of at most
 * one ring holds at most one skip, and placing a batch adds at most one more: head - tail <=
 * claimed + 2 W <= ring. So a new batch never reaches what is not trimmed. ilog_ring_place asserts
 * it.
 *
 * Trimming. A mark says: from this batch on, up to the next mark, the highest txg of all batches
 * since the tail is txg. Marks ascend in both, so the first mark with a txg above the trimmed one
 * is the first batch that must stay. There is a mark for each live txg, about five; if ever more
 * than ILOG_MARKS_MAX, the newest takes over the higher txg and keeps its earlier place: space
 * comes back later, never too early. What isn't acknowledged is never trimmed, its writer still
 * needs it. So while somebody waits for space no batch stays open: records that nobody commits
 * would hold their space for ever.
 *
 * A position given out for a root of txg N must name a batch that stays for as long as that root
 * may be used, which is until more than N is trimmed. When it is the head, the batch that comes
 * there may hold nothing but late records of N, and would be trimmed with N while those after it
 * are needed; so the head gets a mark as if it held N + 1.
 *
 * The lock-free fast path of reserve and give, and why no wake-up is lost: a waiter raises
 * reserve_waiters, then looks at claimed; whoever gives lowers claimed, then looks at
 * reserve_waiters. Both orders are sequentially consistent, so at least one sees the other.
 */
#include "intentlog/ilog_int.h"

#define ILOG_SKIP_MAX (ILOG_BATCH_BYTES_MAX - SECTOR_BYTES)
STATIC_ASSERT(ILOG_REGION_BYTES_MIN > 3 * ILOG_BATCH_BYTES_MAX);

uint64_t
ilog_ring_capacity(uint64_t region_bytes)
{
	return region_bytes - 2 * ILOG_SKIP_MAX;
}

/* Claims need_bytes if the ring isn't over the throttle and has that much. */
static bool
ring_try_claim(struct ilog *l, uint64_t need_bytes)
{
	uint64_t limit = l->cap_bytes / 100 * ILOG_THROTTLE_PERCENT;
	uint64_t claimed = atomic_load(&l->claimed_bytes);

	do {
		if (claimed > limit || need_bytes > l->cap_bytes - claimed) {
			return false;
		}
	} while (!atomic_compare_exchange_weak(&l->claimed_bytes, &claimed, claimed + need_bytes));
	return true;
}

int
ilog_reserve(struct ilog *l, uint32_t payload_bytes, uint32_t record_count, uint64_t deadline_ns,
    struct ilog_reservation *out)
{
	struct ilog_waiter w = {
	    .need_bytes = payload_bytes + (uint64_t)record_count * ILOG_RECORD_COST};
	int err = 0;

	if (w.need_bytes > l->cap_bytes) {
		return -EMSGSIZE;
	}
	if (atomic_load(&l->state) == ILOG_FAILED) {
		return -EIO;
	}
	if (atomic_load(&l->reserve_waiters) == 0 && ring_try_claim(l, w.need_bytes)) {
		out->bytes = w.need_bytes;
		return 0;
	}
	cond_init(&w.cond);
	list_init(&w.link);
	mutex_lock(&l->mu);
	list_push_back(&l->reserve_queue, &w.link);
	atomic_fetch_add(&l->reserve_waiters, 1);
	ilog_ring_grant(l);
	ilog_close_open(l);
	while (!w.woken && !l->failed && err == 0) {
		err = cond_wait_until(&w.cond, &l->mu, deadline_ns);
	}
	if (w.woken) {
		out->bytes = w.need_bytes;
		err = 0;
	} else {
		list_remove(&w.link);
		atomic_fetch_sub(&l->reserve_waiters, 1);
		err = l->failed ? -EIO : -ETIMEDOUT;
		/* A smaller one behind this one may fit. */
		ilog_ring_grant(l);
	}
	mutex_unlock(&l->mu);
	return err;
}

void
ilog_ring_grant(struct ilog *l)
{
	ASSERT_SLOW(mutex_held(&l->mu));
	while (!list_empty(&l->reserve_queue)) {
		struct ilog_waiter *w = list_first(&l->reserve_queue, struct ilog_waiter, link);

		if (!ring_try_claim(l, w->need_bytes)) {
			break;
		}
		atomic_fetch_sub(&l->reserve_waiters, 1);
		ilog_waiter_wake(w);
	}
}

void
ilog_ring_give(struct ilog *l, uint64_t bytes)
{
	uint64_t before = atomic_fetch_sub(&l->claimed_bytes, bytes);

	ASSERT(before >= bytes);
	if (atomic_load(&l->reserve_waiters) != 0) {
		mutex_lock(&l->mu);
		ilog_ring_grant(l);
		mutex_unlock(&l->mu);
	}
}

void
ilog_unreserve(struct ilog *l, struct ilog_reservation *r)
{
	uint64_t bytes = r->bytes;

	r->bytes = 0;
	if (bytes != 0) {
		ilog_ring_give(l, bytes);
	}
}

static void
ring_mark(struct ilog *l, uint64_t txg, const struct ilog_cursor *at)
{
	struct ilog_mark *last = l->mark_count == 0 ? NULL : &l->marks[l->mark_count - 1];

	if (last != NULL && txg <= last->txg) {
		return;
	}
	/* Roots of an idle log name one place again and again: one mark, or the table would fill
	 * with them and the last mark, raised with each root, keep the tail from ever moving. */
	if (l->mark_count == ILOG_MARKS_MAX ||
	    (last != NULL && last->at.batch_seq == at->batch_seq)) {
		last->txg = txg;
		return;
	}
	l->marks[l->mark_count++] = (struct ilog_mark){.txg = txg, .at = *at};
}

void
ilog_ring_place(struct ilog *l, struct ilog_batch *b)
{
	uint64_t left = l->cfg.region_bytes - l->head.pos % l->cfg.region_bytes;

	ASSERT(b->len_bytes <= b->charge_bytes && b->seq == l->head.batch_seq);
	b->start = l->head;
	if (b->len_bytes > left || (left <= ILOG_SKIP_MAX && BUGGIFY("ilog-early-wrap"))) {
		b->start.pos += left;
	}
	l->head.batch_seq++;
	l->head.pos = b->start.pos + b->len_bytes;
	l->head.net += b->len_bytes;
	ASSERT(l->head.pos - l->tail.pos <= l->cfg.region_bytes);
	ring_mark(l, b->max_txg, &b->start);
	atomic_fetch_sub(&l->claimed_bytes, b->charge_bytes - b->len_bytes);
	ilog_ring_grant(l);
}

/* The first batch that must stay when everything up to txg may go, acknowledged or not. */
static const struct ilog_cursor *
ring_first_after(const struct ilog *l, uint64_t txg)
{
	uint32_t i = 0;

	while (i < l->mark_count && l->marks[i].txg <= txg) {
		i++;
	}
	return i < l->mark_count ? &l->marks[i].at : &l->head;
}

void
ilog_ring_advance_tail(struct ilog *l)
{
	const struct ilog_cursor *to = ring_first_after(l, l->trimmed_txg);
	uint32_t gone = 0;

	if (DELIBERATE_BUG("ilog-trim-by-position")) {
		to = &l->acked;
	}
	if (to->batch_seq > l->acked.batch_seq) {
		to = &l->acked;
	}
	if (to->batch_seq <= l->tail.batch_seq) {
		return;
	}
	atomic_fetch_sub(&l->claimed_bytes, to->net - l->tail.net);
	l->tail = *to;
	/* A mark is gone when it is trimmed and the next one starts at or before the tail. */
	while (gone < l->mark_count && l->marks[gone].txg <= l->trimmed_txg) {
		const struct ilog_cursor *end =
		    gone + 1 < l->mark_count ? &l->marks[gone + 1].at : &l->head;

		if (end->batch_seq > l->tail.batch_seq) {
			break;
		}
		gone++;
	}
	l->mark_count -= gone;
	memmove(l->marks, l->marks + gone, l->mark_count * sizeof(l->marks[0]));
	ilog_ring_grant(l);
}

void
ilog_trim(struct ilog *l, uint64_t txg)
{
	mutex_lock(&l->mu);
	if (txg > l->trimmed_txg) {
		l->trimmed_txg = txg;
		ilog_ring_advance_tail(l);
	}
	mutex_unlock(&l->mu);
}

void
ilog_tail(struct ilog *l, uint64_t root_txg, struct ilog_position *out)
{
	const struct ilog_cursor *at;

	mutex_lock(&l->mu);
	at = ring_first_after(l, root_txg);
	if (at == &l->head) {
		ring_mark(l, root_txg + 1, at);
	}
	if (at->batch_seq < l->tail.batch_seq) {
		at = &l->tail;
	}
	out->epoch = l->cfg.epoch;
	out->batch_seq = at->batch_seq;
	out->off_bytes = at->pos % l->cfg.region_bytes;
	mutex_unlock(&l->mu);
}

uint32_t
ilog_fill_percent(const struct ilog *l)
{
	return (uint32_t)(atomic_load(&l->claimed_bytes) * 100 / l->cap_bytes);
}
