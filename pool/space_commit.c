/*
 * space_commit.c - what follows a commit: space that was freed becomes allocatable when nobody can
 * ask for its contents any more.
 *
 * The frees of txg N are a batch. It belongs to the epoch that was current when N was committed:
 * who entered in that epoch or before may have found a block there. It is released when N + 2 is
 * committed (the two roots before the newest need what they reach) and all those have left.
 */
#include "pool/pool_int.h"
#include "pool/space_int.h"

#define QUIET_SECTORS 128u
#define GANG_PERCENT_MAX ((uint64_t)400)
#define META_DECAY 8u /* of the worst txg, this part is forgotten with each later one */

static void
range_release(struct space *s, struct space_seg *seg, const struct space_range *r)
{
	uint32_t granule = s->sets[seg->set].granule;

	if (seg->state == SEG_LOADED) {
		bits_clear(
		    seg->bits, (uint32_t)((r->sector - seg->start) / granule), r->asize / granule);
		seg->run_max = (unsigned)(seg->sectors / granule);
	}
	atomic_fetch_add(&seg->untrimmed, r->asize);
	atomic_fetch_sub(&seg->used, r->asize);
	atomic_fetch_sub(&s->sets[seg->set].used, r->asize);
	atomic_fetch_sub(&s->used, r->asize);
	atomic_fetch_sub(&s->deferred, r->asize);
}

/* All ranges of a segment at once: a loader sees either none or all of the batch as free. */
static void
batch_release(struct space *s, const struct space_batch *b)
{
	for (uint32_t i = 0; i < b->count;) {
		struct space_seg *seg = space_seg_of(s, b->ranges[i].set, b->ranges[i].sector);

		spin_lock(&seg->lock);
		while (
		    i < b->count && space_seg_of(s, b->ranges[i].set, b->ranges[i].sector) == seg) {
			range_release(s, seg, &b->ranges[i++]);
		}
		seg->released_txg = b->txg;
		seg->change++;
		spin_unlock(&seg->lock);
		fiber_maybe_yield();
	}
}

static bool
epoch_is_empty(const struct space *s, uint64_t epoch)
{
	for (uint32_t i = 0; i < s->core_count; i++) {
		if (atomic_load(&s->cores[i].readers[epoch % SPACE_EPOCH_SLOTS]) != 0) {
			return false;
		}
	}
	return true;
}

/* The batch of txg belongs to the readers that have entered until now. */
static void
epoch_advance(struct space *s, uint64_t txg)
{
	list_for_each(l, &s->batches)
	{
		struct space_batch *b = list_entry(l, struct space_batch, link);

		if (!b->committed && b->txg <= txg) {
			b->committed = true;
			b->epoch = s->epoch;
		}
	}
	while (s->epoch_oldest < s->epoch && epoch_is_empty(s, s->epoch_oldest)) {
		s->epoch_oldest++;
	}
	/* a slot may not be shared by two epochs: while old readers linger, the epoch stands */
	if (s->epoch + 1 - s->epoch_oldest < SPACE_EPOCH_SLOTS) {
		atomic_fetch_add(&s->epoch, 1);
	}
	while (s->epoch_oldest < s->epoch && epoch_is_empty(s, s->epoch_oldest)) {
		s->epoch_oldest++;
	}
}

static bool
batch_is_due(const struct space *s, const struct space_batch *b, uint64_t committed_txg)
{
	if (DELIBERATE_BUG("pool-early-reuse")) {
		return true;
	}
	return b->txg + 2 <= committed_txg &&
	       (b->epoch < s->epoch_oldest || DELIBERATE_BUG("pool-reuse-under-reader"));
}

/* Deferred by txgs that did something; what empty txgs free, the next one takes. */
static uint64_t
release_sum(const struct space *s)
{
	uint64_t sum = 0;

	list_for_each(l, &s->batches)
	{
		const struct space_batch *b = list_entry(l, struct space_batch, link);

		if (b->txg <= s->busy_txg) {
			sum += b->sectors;
		}
	}
	return sum;
}

/* Did a txg that began without work give back more than its root and its log block? */
static void
note_busy_batch(struct space *s, uint64_t txg)
{
	list_for_each(l, &s->batches)
	{
		const struct space_batch *b = list_entry(l, struct space_batch, link);

		if (b->txg == txg && b->sectors > QUIET_SECTORS) {
			s->busy_txg = txg;
		}
	}
}

/* Up at once, down by and by. */
static void
note_pieces(struct space *s, uint64_t txg)
{
	uint64_t plain = atomic_exchange(&s->placed_plain[txg % SPACE_TXG_SLOTS], 0);
	uint64_t placed = atomic_exchange(&s->placed[txg % SPACE_TXG_SLOTS], 0);
	uint64_t percent = plain > 0 ? DIV_UP(placed * 100, plain) : 100;
	uint64_t falling = s->gang_percent - DIV_UP(s->gang_percent - 100, META_DECAY);

	s->gang_percent =
	    (unsigned)MIN(MAX(MAX(percent, falling), (uint64_t)100), GANG_PERCENT_MAX);
}

/* What is due and not held by a reader. */
static void
release_due(struct space *s)
{
	s->held = false;
	list_for_each_safe(l, tmp, &s->batches)
	{
		struct space_batch *b = list_entry(l, struct space_batch, link);

		if (!batch_is_due(s, b, s->committed_txg)) {
			s->held = b->txg + 2 <= s->committed_txg;
			break;
		}
		batch_release(s, b);
		s->released_txg = b->txg;
		list_remove(&b->link);
		space_trim_released(s, b);
	}
	s->release = release_sum(s);
}

bool
space_release_held(struct space *s)
{
	while (s->epoch_oldest < s->epoch && epoch_is_empty(s, s->epoch_oldest)) {
		s->epoch_oldest++;
	}
	release_due(s);
	return s->held;
}

void
space_committed(struct space *s, uint64_t txg)
{
	uint64_t meta = atomic_exchange(&s->txg_meta[txg % SPACE_TXG_SLOTS], 0);

	rec_list_free(&s->written);
	s->meta_worst = MAX(meta, s->meta_worst - s->meta_worst / META_DECAY);
	s->meta_last = meta;
	note_pieces(s, txg);
	s->committed_txg = txg;
	spin_lock(&s->root_lock);
	s->root = s->p->ub.root;
	spin_unlock(&s->root_lock);
	epoch_advance(s, txg);
	note_busy_batch(s, txg);
	release_due(s);
	for (uint32_t i = 0; i < s->seg_count; i++) {
		struct space_seg *seg = s->segs_all[i];

		if (seg->folded_txg != seg->folding_txg) {
			spin_lock(&seg->lock);
			seg->folded_txg = seg->folding_txg;
			seg->change++;
			spin_unlock(&seg->lock);
		}
		if (seg->pending.count > 0) {
			seg_trim(s, seg);
		}
	}
}
