/*
 * space_trim.c - free space that may be discarded: what has been free since TRIM_TXGS txgs, so that
 * no root that anybody could go back to reaches it, and what nobody can allocate while a drive is
 * at it.
 *
 * Since when something is free nobody has written down. So the ranges that were released lately are
 * kept (`recent`, a batch a txg) until they are old enough, and are taken out of what is free now.
 * What is not among them, free now, and in a pool that has been open for as many txgs has been free
 * all that time: for if it had been allocated meanwhile it would have been released meanwhile too.
 * Where batches had to be dropped for want of memory, and at an import, the time begins anew
 * (fresh_txg).
 *
 * While it is discarded a range is nobody's. In a segment that is loaded its bits are set, without
 * being counted as used. One that isn't loaded is held in the state LOADING, in which nobody
 * allocates from it; a list of what is free in it is made from its map, so that a trim of the whole
 * pool needs the memory of one segment. Whoever finds no space, or waits for that segment, says so
 * (trim_wanted), and has it back after the discard under way at the latest.
 *
 * A range whose discard may still happen, though the drive was given up, stays nobody's until the
 * pool is imported again (SPACE_TRIM_LOST).
 */
#include "pool/pool_int.h"
#include "pool/space_int.h"

#define RECENT_MAX (1u << 21) /* ranges */
#define RUN_MIN_ROWS 8u       /* shorter runs aren't worth a command */
#define WAIT_NS NSEC_PER_MSEC
#define WANTED_NS (5 * NSEC_PER_SEC) /* who needs space is left alone for so long */

/* ---- what was released lately ---- */

static uint64_t
trim_age(void)
{
	return DELIBERATE_BUG("pool-trim-early") ? 0 : BUGGIFY("pool-trim-soon") ? 4 : TRIM_TXGS;
}

/* Neighbours become one. */
static void
batch_merge(struct space_batch *b)
{
	uint32_t n = 0;

	for (uint32_t i = 1; i < b->count; i++) {
		struct space_range *last = &b->ranges[n], *r = &b->ranges[i];

		if (last->set == r->set && last->sector + last->asize == r->sector &&
		    last->asize <= UINT32_MAX - r->asize) {
			last->asize += r->asize;
		} else {
			b->ranges[++n] = *r;
		}
	}
	b->count = b->count > 0 ? n + 1 : 0;
}

static void
recent_drop(struct space *s, struct space_batch *b)
{
	s->recent_count -= b->count;
	list_remove(&b->link);
	mem_free(b->ranges);
	mem_free(b);
}

void
space_trim_released(struct space *s, struct space_batch *b)
{
	batch_merge(b);
	mutex_lock(&s->recent_mu);
	list_push_back(&s->recent, &b->link);
	s->recent_count += b->count;
	list_for_each_safe(l, tmp, &s->recent)
	{
		struct space_batch *old = list_entry(l, struct space_batch, link);

		if (old->txg + TRIM_TXGS <= s->committed_txg) {
			recent_drop(s, old);
		} else if (s->recent_count > RECENT_MAX) {
			s->fresh_txg = old->txg;
			recent_drop(s, old);
		} else {
			break;
		}
	}
	mutex_unlock(&s->recent_mu);
}

void
space_trim_forget(struct space *s)
{
	list_for_each_safe(l, tmp, &s->recent)
	{
		recent_drop(s, list_entry(l, struct space_batch, link));
	}
}

bool
space_trim_is_ready(struct space *s)
{
	bool ready;

	mutex_lock(&s->recent_mu);
	ready = s->committed_txg >= s->fresh_txg + trim_age();
	mutex_unlock(&s->recent_mu);
	return ready;
}

/* The first of a batch that ends behind the sector. */
static uint32_t
batch_seek(const struct space_batch *b, uint32_t set, uint64_t sector)
{
	uint32_t low = 0, high = b->count;

	while (low < high) {
		uint32_t mid = low + (high - low) / 2;
		const struct space_range *r = &b->ranges[mid];

		if (r->set < set || (r->set == set && r->sector + r->asize <= sector)) {
			low = mid + 1;
		} else {
			high = mid;
		}
	}
	return low;
}

/* Calls fn for what was released too lately of [sector, sector + count). */
static void
recent_each(struct space *s, uint32_t set, uint64_t sector, uint64_t count,
    void (*fn)(void *arg, uint64_t sector, uint64_t count), void *arg)
{
	uint64_t age = trim_age();

	mutex_lock(&s->recent_mu);
	list_for_each(l, &s->recent)
	{
		const struct space_batch *b = list_entry(l, struct space_batch, link);

		if (b->txg + age <= s->committed_txg) {
			continue;
		}
		for (uint32_t i = batch_seek(b, set, sector); i < b->count; i++) {
			const struct space_range *r = &b->ranges[i];
			uint64_t from = MAX(r->sector, sector);
			uint64_t to = MIN(r->sector + r->asize, sector + count);

			if (r->set != set || r->sector >= sector + count) {
				break;
			}
			fn(arg, from, to - from);
		}
	}
	mutex_unlock(&s->recent_mu);
}

/* ---- one segment ---- */

struct seg_trim {
	struct space *s;
	struct space_seg *seg;
	const struct space_trim *how;
	uint64_t *bits; /* set: not to be discarded */
	uint32_t nbits, granule;
	uint64_t fresh; /* sectors that are too fresh */
	bool loaded;    /* its bitmap is there; else we hold it in LOADING */
	bool lost;      /* a discard may happen yet */
};

static void
mark_fresh(void *arg, uint64_t sector, uint64_t count)
{
	struct seg_trim *t = arg;
	uint64_t g = (sector - t->seg->start) / t->granule;
	uint64_t end = (sector + count - t->seg->start) / t->granule;

	for (; g < end; g++) {
		t->fresh += (t->bits[g / 64] >> (g % 64) & 1) == 0 ? t->granule : 0;
		t->bits[g / 64] |= (uint64_t)1 << (g % 64);
	}
}

static void
note_fresh(void *arg, uint64_t sector UNUSED, uint64_t count)
{
	*(uint64_t *)arg += count;
}

/* What is free in it now. 0; -EAGAIN another fiber loads it; errors of reading its map. */
static int
bits_get(struct seg_trim *t)
{
	struct space_seg *seg = t->seg;
	uint64_t words = DIV_UP(t->nbits, 64u);
	enum seg_state state;

	spin_lock(&seg->lock);
	state = seg->state;
	if (state == SEG_UNLOADED) {
		seg->state = SEG_LOADING;
	} else if (state == SEG_LOADED) {
		memcpy(t->bits, seg->bits, words * sizeof(*t->bits));
	}
	spin_unlock(&seg->lock);
	if (state == SEG_LOADING || state == SEG_BAD) {
		return -EAGAIN;
	}
	t->loaded = state == SEG_LOADED;
	return t->loaded ? 0 : seg_bits_now(t->s, seg, t->bits);
}

/* Nobody may allocate the run from now on, and nobody has. */
static bool
run_take(struct seg_trim *t, uint32_t at, uint32_t count)
{
	uint64_t fresh = 0;
	bool free = true;

	atomic_store(&t->s->trim_out, true);
	if (!t->loaded || DELIBERATE_BUG("pool-trim-unheld")) {
		return true;
	}
	spin_lock(&t->seg->lock);
	for (uint32_t g = at; g < at + count && free; g++) {
		free = (t->seg->bits[g / 64] >> (g % 64) & 1) == 0;
	}
	if (free) {
		bits_set(t->seg->bits, at, count);
	}
	spin_unlock(&t->seg->lock);
	if (!free) {
		return false;
	}
	/* allocated and released again since we looked? */
	recent_each(t->s, t->seg->set, t->seg->start + (uint64_t)at * t->granule,
	    (uint64_t)count * t->granule, note_fresh, &fresh);
	if (fresh != 0) {
		t->fresh += fresh;
		spin_lock(&t->seg->lock);
		bits_clear(t->seg->bits, at, count);
		spin_unlock(&t->seg->lock);
	}
	return fresh == 0;
}

static void
run_give(struct seg_trim *t, uint32_t at, uint32_t count)
{
	if (!t->loaded || t->lost || DELIBERATE_BUG("pool-trim-unheld")) {
		return;
	}
	spin_lock(&t->seg->lock);
	bits_clear(t->seg->bits, at, count);
	t->seg->run_max = t->nbits;
	spin_unlock(&t->seg->lock);
}

static int
run_trim(struct seg_trim *t, uint32_t at, uint32_t count)
{
	uint64_t wanted = atomic_load(&t->s->trim_wanted_ns);
	int err = 0;

	if (wanted != 0 && rt_now_ns() - wanted < WANTED_NS) {
		return -EBUSY;
	}
	if (run_take(t, at, count)) {
		err = t->how->discard(t->how->arg, t->seg->set,
		    t->seg->start + (uint64_t)at * t->granule, (uint64_t)count * t->granule);
		t->lost = err == SPACE_TRIM_LOST;
		run_give(t, at, count);
	}
	atomic_store(&t->s->trim_out, false);
	return err;
}

static int
runs_trim(struct seg_trim *t)
{
	const struct raidz_config *cfg = t->s->sets[t->seg->set].cfg;
	uint32_t row = cfg->kind == RAIDZ_KIND_MIRROR ? 1 : cfg->width;
	uint32_t least = MAX(RUN_MIN_ROWS * row / t->granule, 1u);
	uint32_t most = (uint32_t)MAX(t->how->column_sectors * row / t->granule, (uint64_t)least);
	uint32_t at = 0;
	int err = 0;

	while (err == 0 && at < t->nbits) {
		uint32_t end;

		if ((t->bits[at / 64] >> (at % 64) & 1) != 0) {
			at++;
			continue;
		}
		for (end = at + 1; end < t->nbits && end - at < most; end++) {
			if ((t->bits[end / 64] >> (end % 64) & 1) != 0) {
				break;
			}
		}
		err = end - at >= least ? run_trim(t, at, end - at) : 0;
		at = end;
		if (err == 0 && !t->loaded && atomic_load(&t->s->load_waiters) != 0) {
			err = -EBUSY;
		}
		fiber_maybe_yield();
	}
	return err;
}

static void
seg_give(struct seg_trim *t)
{
	if (t->loaded) {
		return;
	}
	spin_lock(&t->seg->lock);
	t->seg->state = t->lost ? SEG_BAD : SEG_UNLOADED;
	spin_unlock(&t->seg->lock);
	mutex_lock(&t->s->load_lock);
	cond_broadcast(&t->s->load_done);
	mutex_unlock(&t->s->load_lock);
}

int
space_trim_segment(
    struct space *s, uint32_t index, const struct space_trim *how, uint64_t *out_fresh)
{
	struct seg_trim t = {.s = s, .seg = s->segs_all[index], .how = how};
	uint64_t released = atomic_exchange(&t.seg->untrimmed, 0);
	int err;

	*out_fresh = 0;
	t.granule = s->sets[t.seg->set].granule;
	t.nbits = (uint32_t)(t.seg->sectors / t.granule);
	t.bits = mem_zalloc_array(DIV_UP(t.nbits, 64u), sizeof(*t.bits));
	if (t.bits == NULL) {
		atomic_fetch_add(&t.seg->untrimmed, released);
		return -ENOMEM;
	}
	err = bits_get(&t);
	if (err == -EAGAIN) {
		mem_free(t.bits);
		atomic_fetch_add(&t.seg->untrimmed, released);
		return 0; /* in use, or lost */
	}
	if (err == 0) {
		recent_each(s, t.seg->set, t.seg->start, t.seg->sectors, mark_fresh, &t);
		err = runs_trim(&t);
	}
	seg_give(&t);
	mem_free(t.bits);
	atomic_fetch_add(&t.seg->untrimmed, err != 0 ? released : t.fresh);
	*out_fresh = t.fresh;
	return err;
}

/* ---- others ---- */

bool
space_trim_give_back(struct space *s)
{
	if (!atomic_load(&s->trim_out)) {
		return false;
	}
	while (atomic_load(&s->trim_out)) {
		atomic_store(&s->trim_wanted_ns, rt_now_ns());
		fiber_sleep(WAIT_NS); /* a discard has a deadline */
	}
	return true;
}

uint32_t
space_trim_next(struct space *s, uint32_t from)
{
	for (uint32_t i = 0; i < s->seg_count; i++) {
		uint32_t index = (from + i) % s->seg_count;
		const struct space_seg *seg = s->segs_all[index];

		if (atomic_load(&seg->untrimmed) > seg->sectors / 16) {
			return index;
		}
	}
	return UINT32_MAX;
}

uint32_t
space_segment_count(struct space *s)
{
	return s->seg_count;
}
