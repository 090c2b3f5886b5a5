/*
 * ilog_commit.c - batches become durable, and are acknowledged in order.
 *
 * There is no log thread. Whoever waits for a record leads: closes the batch, seals it (place, chain
 * of checksums), hands it to the drives, waits for them, and marks it written. One sealer at a
 * time, since each checksum covers the one before; up to ILOG_IN_FLIGHT_MAX batches with the
 * drives. An idle log so writes at once; when a few small batches are in flight, records gather in
 * the open one until one of those is back; and a fiber that is about to lead lets the others of its
 * reactor append first when that has lately been worth it (commit_gather). The writer fiber leads
 * batches that became full and that nobody waits for.
 *
 * ilog_wake_leader is called whenever somebody may have become able to lead: a sealer is done, a
 * batch was closed, or one was acknowledged. It wakes one waiter of the oldest batch that has any;
 * a waiter that wakes and finds another leader at work loses nothing, for that one calls
 * ilog_wake_leader in turn.
 *
 * Acknowledgement of batch n needs: all before n acknowledged, n written, every side that isn't out
 * has n, and no side is on its way out. A side whose write failed is out at once in memory (no
 * batch goes to it, its answers don't count) and is named in sides_lost until the owner's
 * side_lost, called by the warden fiber, has made that durable; meanwhile nothing is acknowledged,
 * since an import at this moment would still trust the side. So every acknowledged batch is on
 * every side that an import may trust. When the last side fails there is nothing to declare: the
 * log fails, acknowledges nothing more, and what it had acknowledged is on that last side.
 */
#include "intentlog/ilog_int.h"

/* mu held: may the oldest unsealed batch go to the drives now? */
static bool
lead_possible(const struct ilog *l)
{
	const struct ilog_batch *b = &l->slots[l->next_seal % ILOG_SLOTS];
	uint64_t limit = ILOG_IN_FLIGHT_MAX;

	if (l->failed || l->sealing || l->next_seal >= l->next_batch || b->record_count == 0) {
		return false;
	}
	if (!b->closed && b->fill_bytes < ILOG_SMALL_BYTES) {
		limit = ILOG_IN_FLIGHT_SMALL;
	}
	return ilog_in_flight(l) < limit;
}

void
ilog_wake_leader(struct ilog *l)
{
	ASSERT_SLOW(mutex_held(&l->mu));
	if (!lead_possible(l)) {
		return;
	}
	for (uint64_t seq = l->next_seal; seq < l->next_batch; seq++) {
		struct ilog_batch *b = ilog_slot(l, seq);

		if (!list_empty(&b->waiters)) {
			ilog_waiter_wake(list_first(&b->waiters, struct ilog_waiter, link));
			return;
		}
	}
	if (ilog_slot(l, l->next_seal)->closed) {
		cond_signal(&l->writer_cond);
	}
}

static void
batch_wake_all(struct ilog_batch *b)
{
	while (!list_empty(&b->waiters)) {
		ilog_waiter_wake(list_first(&b->waiters, struct ilog_waiter, link));
	}
}

void
ilog_fail(struct ilog *l, const char *why)
{
	ASSERT_SLOW(mutex_held(&l->mu));
	if (l->failed) {
		return;
	}
	l->failed = true;
	atomic_store(&l->state, ILOG_FAILED);
	log_error("ilog_failed epoch=%llu batch=%llu sides_out=%#x why=\"%s\"",
	    (unsigned long long)l->cfg.epoch, (unsigned long long)l->acked.batch_seq, l->sides_out,
	    why);
	for (uint32_t i = 0; i < ILOG_SLOTS; i++) {
		batch_wake_all(&l->slots[i]);
	}
	cond_broadcast(&l->slot_cond);
	list_for_each(link, &l->reserve_queue)
	{
		cond_signal(&list_entry(link, struct ilog_waiter, link)->cond);
	}
}

void
ilog_batch_free_chunks(struct ilog_batch *b)
{
	for (uint32_t i = 0; i < b->chunk_count; i++) {
		iobuf_unref(b->segs[i].buf);
	}
	b->chunk_count = 0;
}

/* mu held. */
static void
ack_ready(struct ilog *l)
{
	bool any = false;

	while (!l->failed && l->sides_lost == 0 && l->acked.batch_seq < l->next_seal) {
		struct ilog_batch *b = ilog_slot(l, l->acked.batch_seq);

		if (!b->written) {
			break;
		}
		l->acked.batch_seq++;
		l->acked.pos = b->start.pos + b->len_bytes;
		l->acked.net = b->start.net + b->len_bytes;
		atomic_store(&l->acked_rec, b->last_rec);
		atomic_fetch_add_explicit(&l->batches, 1, memory_order_relaxed);
		ilog_batch_free_chunks(b);
		batch_wake_all(b);
		any = true;
	}
	if (any) {
		cond_broadcast(&l->slot_cond);
		ilog_ring_advance_tail(l);
		ilog_wake_leader(l);
	}
}

/* mu held. */
static void
side_out(struct ilog *l, unsigned side, int status)
{
	uint32_t all = (1u << l->cfg.side_count) - 1;

	l->sides_out |= 1u << side;
	atomic_store(&l->info_out, l->sides_out);
	log_warn("ilog_side_out side=%u epoch=%llu error=\"%s\"", side,
	    (unsigned long long)l->cfg.epoch, err_str(status));
	if (l->sides_out == all) {
		ilog_fail(l, "no side is left");
		return;
	}
	l->sides_lost |= 1u << side;
	atomic_store(&l->state, ILOG_DEGRADED);
	cond_signal(&l->warden_cond);
}

/* mu held: the drives have answered. */
static void
batch_written(struct ilog *l, struct ilog_batch *b)
{
	b->written = true;
	for (unsigned s = 0; s < l->cfg.side_count && !l->failed; s++) {
		uint32_t bit = 1u << s;

		if ((b->sides & ~l->sides_out & bit) == 0 || b->ios[s].status == 0 ||
		    DELIBERATE_BUG("ilog-ignore-side")) {
			continue;
		}
		side_out(l, s, b->ios[s].status);
	}
	if (l->failed) {
		ilog_batch_free_chunks(b);
		return;
	}
	ack_ready(l);
}

/* Fills in header, padding and lengths of the segments. No lock; the copiers are done. */
static void
batch_seal(struct ilog *l, struct ilog_batch *b, uint64_t tail_batch, uint64_t durable_batch)
{
	struct ilog_batch_header h = {
	    .magic = le32_of(ILOG_BATCH_MAGIC),
	    .version = le16_of(ILOG_FORMAT_VERSION),
	    .epoch = le64_of(l->cfg.epoch),
	    .batch_seq = le64_of(b->seq),
	    .off_bytes = le64_of(b->start.pos % l->cfg.region_bytes),
	    .len_bytes = le32_of(b->len_bytes),
	    .record_count = le32_of(b->record_count),
	    .min_txg = le64_of(b->min_txg),
	    .max_txg = le64_of(b->max_txg),
	    .first_seq = le64_of(b->first_rec),
	    .tail_batch = le64_of(tail_batch),
	    .durable_batch = le64_of(durable_batch),
	    .prev_cksum = l->prev_cksum,
	};
	uint32_t segs = DIV_UP(b->len_bytes, ILOG_CHUNK_BYTES);
	uint32_t from = b->fill_bytes;

	while (from < b->len_bytes) {
		uint32_t within = from % ILOG_CHUNK_BYTES;
		uint32_t n = MIN(b->len_bytes - from, ILOG_CHUNK_BYTES - within);

		memset(b->segs[from / ILOG_CHUNK_BYTES].buf->data + within, 0, n);
		from += n;
	}
	for (uint32_t i = 0; i < segs; i++) {
		b->segs[i].off_bytes = 0;
		b->segs[i].len_bytes = MIN(ILOG_CHUNK_BYTES, b->len_bytes - i * ILOG_CHUNK_BYTES);
	}
	memcpy(h.guid, l->cfg.guid, sizeof(h.guid));
	memcpy(b->segs[0].buf->data, &h, sizeof(h));
	ilog_cksum_chunks(b->segs, segs, &h.cksum);
	memcpy(b->segs[0].buf->data, &h, sizeof(h));
	l->prev_cksum = h.cksum;
}

static void
batch_submit(struct ilog *l, struct ilog_batch *b)
{
	kb_group_init(&b->group);
	for (unsigned s = 0; s < l->cfg.side_count; s++) {
		const struct ilog_side *side = &l->cfg.sides[s];

		if ((b->sides & 1u << s) == 0) {
			continue;
		}
		b->ios[s] = (struct kb_io){
		    .op = KB_WRITE,
		    .flags = DELIBERATE_BUG("ilog-skip-fua") ? 0 : KB_FUA,
		    .off_bytes = side->off_bytes + b->start.pos % l->cfg.region_bytes,
		    .segs = b->segs,
		    .seg_count = DIV_UP(b->len_bytes, ILOG_CHUNK_BYTES),
		};
		kb_submit(side->drive, &b->ios[s], &b->group, 0);
	}
}

/* mu held, released meanwhile: the next batch gets its place and goes to the drives. */
static struct ilog_batch *
lead_one(struct ilog *l)
{
	struct ilog_batch *b = ilog_slot(l, l->next_seal);
	uint64_t tail_batch, durable_batch;

	l->sealing = true;
	if (b->record_count > 1) {
		atomic_store_explicit(&l->gather, ILOG_GATHER_MAX, memory_order_relaxed);
	} else if (atomic_load_explicit(&l->gather, memory_order_relaxed) > 0) {
		atomic_fetch_sub_explicit(&l->gather, 1, memory_order_relaxed);
	}
	if (b == l->open) {
		b->closed = true;
		l->open = NULL;
	}
	b->len_bytes = ALIGN_UP(b->fill_bytes, SECTOR_BYTES);
	b->sides = ~l->sides_out & ((1u << l->cfg.side_count) - 1);
	ilog_ring_place(l, b);
	l->next_seal++;
	tail_batch = l->tail.batch_seq;
	durable_batch = l->acked.batch_seq - 1;
	mutex_unlock(&l->mu);

	wg_wait(&b->copying);
	batch_seal(l, b, tail_batch, durable_batch);
	batch_submit(l, b);

	mutex_lock(&l->mu);
	l->sealing = false;
	if (DELIBERATE_BUG("ilog-ack-early")) {
		atomic_store(&l->acked_rec, b->last_rec);
		batch_wake_all(b);
	}
	return b;
}

/*
 * mu held, released meanwhile: write the batches up to `upto`, as many as may be in flight at once,
 * and wait for them. At least one can go (lead_possible).
 */
static void
lead(struct ilog *l, uint64_t upto)
{
	struct ilog_batch *mine[ILOG_IN_FLIGHT_MAX];
	uint32_t n = 0;

	do {
		mine[n++] = lead_one(l);
	} while (n < ILOG_IN_FLIGHT_MAX && l->next_seal <= upto && lead_possible(l));
	ilog_wake_leader(l);
	for (uint32_t i = 0; i < n; i++) {
		mutex_unlock(&l->mu);
		kb_group_wait(&mine[i]->group);
		mutex_lock(&l->mu);
		batch_written(l, mine[i]);
	}
}

/* mu held: the batch of a record that is not acknowledged. */
static struct ilog_batch *
commit_find(struct ilog *l, uint64_t rec_seq)
{
	uint64_t seq = l->acked.batch_seq;

	while (ilog_slot(l, seq)->last_rec < rec_seq) {
		seq++;
		ASSERT(seq < l->next_batch);
	}
	return ilog_slot(l, seq);
}

/* mu held, released meanwhile. */
static void
commit_wait(struct ilog *l, struct ilog_batch *b)
{
	struct ilog_waiter w = {.woken = false};

	cond_init(&w.cond);
	list_push_back(&b->waiters, &w.link);
	while (!w.woken) {
		cond_wait(&w.cond, &l->mu);
	}
}

/*
 * Let the other fibers of this reactor append first, when that has lately been worth it. With
 * drives that answer at once nothing else would gather: each commit would be over before the next
 * record is there.
 */
static void
commit_gather(struct ilog *l)
{
	if (atomic_load_explicit(&l->gather, memory_order_relaxed) > 0 ||
	    atomic_load_explicit(&l->commits, memory_order_relaxed) % ILOG_GATHER_PROBE == 0) {
		fiber_yield();
	}
}

int
ilog_commit(struct ilog *l, uint64_t seq)
{
	uint64_t start_ns;
	int err = 0;

	if (seq <= atomic_load(&l->acked_rec)) {
		return 0;
	}
	start_ns = rt_now_ns();
	commit_gather(l);
	mutex_lock(&l->mu);
	seq = MIN(seq, l->next_rec - 1);
	while (seq > atomic_load(&l->acked_rec)) {
		struct ilog_batch *b;

		if (l->failed) {
			err = -EIO;
			break;
		}
		b = commit_find(l, seq);
		if (b->seq >= l->next_seal && lead_possible(l)) {
			lead(l, b->seq);
		} else {
			commit_wait(l, b);
		}
	}
	mutex_unlock(&l->mu);
	atomic_fetch_add_explicit(
	    &l->commit_ns_total, rt_now_ns() - start_ns, memory_order_relaxed);
	atomic_fetch_add_explicit(&l->commits, 1, memory_order_relaxed);
	return err;
}

void
ilog_writer_fiber(void *arg)
{
	struct ilog *l = arg;

	mutex_lock(&l->mu);
	while (!l->stopping) {
		if (lead_possible(l) && ilog_slot(l, l->next_seal)->closed) {
			lead(l, l->open == NULL ? l->next_batch - 1 : l->open->seq - 1);
		} else {
			cond_wait(&l->writer_cond, &l->mu);
		}
	}
	mutex_unlock(&l->mu);
	wg_done(&l->fibers);
}

/* mu held, released meanwhile. */
static void
warden_declare(struct ilog *l, unsigned side)
{
	int err = -EIO;

	mutex_unlock(&l->mu);
	if (l->cfg.side_lost != NULL) {
		err = l->cfg.side_lost(l->cfg.arg, side);
	}
	mutex_lock(&l->mu);
	l->sides_lost &= ~(1u << side);
	if (err != 0) {
		ilog_fail(l, "the loss of a side could not be made durable");
		return;
	}
	ack_ready(l);
}

void
ilog_warden_fiber(void *arg)
{
	struct ilog *l = arg;

	mutex_lock(&l->mu);
	while (!l->stopping) {
		if (l->sides_lost != 0 && !l->failed) {
			warden_declare(l, (unsigned)__builtin_ctz(l->sides_lost));
		} else {
			cond_wait(&l->warden_cond, &l->mu);
		}
	}
	mutex_unlock(&l->mu);
	wg_done(&l->fibers);
}
