/*
 * space_alloc.c - the hot path: find a run, note what was allocated and freed, count readers.
 *
 * Each reactor has one active segment per set and class (data, metadata), claimed by a
 * compare-and-swap of its owner. Ownership is a preference that keeps reactors out of each other's
 * way; what makes it safe is the segment's spin lock, which on the hot path nobody else takes. When
 * nothing else is left a reactor allocates in the segments of others.
 *
 * Inside a segment: next fit from the cursor while it is less than 7/8 full (sequential blocks make
 * long I/Os), best fit afterwards. run_max remembers a failed search, so that a segment without
 * long runs isn't searched for them again until something is freed in it.
 */
#include "pool/pool_int.h"
#include "pool/space_int.h"

#define SET_ROTATE_BYTES ((uint64_t)512 << 10)

/* ---- bitmaps ---- */

static void
bits_mask(uint64_t *bits, uint32_t from, uint32_t count, bool set)
{
	while (count > 0) {
		uint32_t in = from % 64;
		uint32_t part = MIN(count, 64 - in);
		uint64_t mask = (part == 64 ? UINT64_MAX : (((uint64_t)1 << part) - 1)) << in;

		ASSERT_SLOW(set ? (bits[from / 64] & mask) == 0 : (bits[from / 64] & mask) == mask);
		bits[from / 64] = set ? bits[from / 64] | mask : bits[from / 64] & ~mask;
		from += part;
		count -= part;
	}
}

void
bits_set(uint64_t *bits, uint32_t from, uint32_t count)
{
	bits_mask(bits, from, count, true);
}

void
bits_clear(uint64_t *bits, uint32_t from, uint32_t count)
{
	bits_mask(bits, from, count, false);
}

/* First bit >= from whose value is `value`; nbits when there is none. */
static uint32_t
bits_next(const uint64_t *bits, uint32_t nbits, uint32_t from, bool value)
{
	uint64_t flip = value ? 0 : UINT64_MAX;

	while (from < nbits) {
		uint64_t word = (bits[from / 64] ^ flip) >> (from % 64);

		if (word != 0) {
			return MIN(nbits, from + (uint32_t)__builtin_ctzll(word));
		}
		from = (from / 64 + 1) * 64;
	}
	return nbits;
}

struct run_search {
	uint32_t want;
	bool best;
	uint32_t at, len; /* best so far; len 0 = none */
	uint32_t max;     /* longest run seen */
};

/* Looks at the runs that begin in [from, to). */
static bool
search_runs(struct run_search *rs, const uint64_t *bits, uint32_t nbits, uint32_t from, uint32_t to)
{
	for (;;) {
		uint32_t start = bits_next(bits, nbits, from, false);
		uint32_t end, len;

		if (start >= to) {
			return false;
		}
		end = bits_next(bits, nbits, start, true);
		len = end - start;
		rs->max = MAX(rs->max, len);
		if (len >= rs->want && (rs->len == 0 || len < rs->len)) {
			rs->at = start;
			rs->len = len;
			if (!rs->best || len == rs->want) {
				return true;
			}
		}
		from = end;
	}
}

int
bits_find(const uint64_t *bits, uint32_t nbits, uint32_t cursor, uint32_t want, bool best,
    uint32_t *out, uint32_t *out_max)
{
	struct run_search rs = {.want = want, .best = best};

	if (best || !search_runs(&rs, bits, nbits, cursor, nbits)) {
		(void)search_runs(&rs, bits, nbits, 0, best ? nbits : cursor);
	}
	if (rs.len == 0) {
		*out_max = rs.max;
		return -ENOSPC;
	}
	*out = rs.at;
	return 0;
}

/* ---- allocation ---- */

struct take {
	uint32_t granules, sectors;
	uint64_t out_sector;
};

static void
account(struct space *s, struct space_seg *seg, uint64_t add)
{
	atomic_fetch_add(&seg->used, add);
	atomic_fetch_add(&s->sets[seg->set].used, add);
	atomic_fetch_add(&s->used, add);
}

static bool
seg_take(struct space *s, struct space_seg *seg, struct take *t)
{
	uint32_t granule = s->sets[seg->set].granule;
	uint32_t nbits = (uint32_t)(seg->sectors / granule);
	uint32_t at = 0, longest = 0;
	bool ok = false;

	if (seg->state != SEG_LOADED || seg->run_max < t->granules) {
		return false;
	}
	spin_lock(&seg->lock);
	if (seg->state == SEG_LOADED && seg->run_max >= t->granules) {
		bool best = seg->used > seg->sectors / 8 * 7;

		ok =
		    bits_find(seg->bits, nbits, seg->cursor, t->granules, best, &at, &longest) == 0;
		if (ok) {
			bits_set(seg->bits, at, t->granules);
			seg->cursor = at + t->granules < nbits ? at + t->granules : 0;
			account(s, seg, t->sectors);
		} else {
			seg->run_max = longest;
		}
	}
	spin_unlock(&seg->lock);
	if (ok) {
		t->out_sector = seg->start + (uint64_t)at * granule;
	}
	return ok;
}

/* A segment worth trying for this run: the emptiest, loaded ones first. others: also active ones of
 * other reactors. */
static struct space_seg *
seg_pick(struct space_set *set, unsigned me, uint32_t granules, bool others)
{
	struct space_seg *best = NULL;
	uint64_t best_score = 0;

	for (uint32_t i = 0; i < set->seg_count; i++) {
		struct space_seg *seg = &set->segs[i];
		uint64_t used = seg->used;
		uint64_t free = seg->sectors > used ? seg->sectors - used : 0;
		unsigned owner = seg->owner;
		enum seg_state state = seg->state;

		if (state == SEG_BAD || free < (uint64_t)granules * set->granule ||
		    seg->run_max < granules || (owner != 0 && owner != me && !others) ||
		    (state == SEG_LOADING && !others)) {
			continue;
		}
		if (state != SEG_LOADED) {
			free -= free / 4;
		}
		if (best == NULL || free > best_score) {
			best = seg;
			best_score = free;
		}
	}
	return best;
}

static void
seg_claim(struct space_seg **active, struct space_seg *seg, unsigned me)
{
	unsigned nobody = 0;

	if (*active == seg || !atomic_compare_exchange_strong(&seg->owner, &nobody, me)) {
		return;
	}
	if (*active != NULL) {
		unsigned mine = me;

		(void)atomic_compare_exchange_strong(&(*active)->owner, &mine, 0);
	}
	*active = seg;
}

/* The active segment had no such run: look in the others of the set. */
static bool
set_take_slow(
    struct space *s, struct space_set *set, struct space_seg **active, unsigned me, struct take *t)
{
	/* each turn succeeds, loads a segment, or lowers a segment's run_max below the run */
	for (uint64_t turn = 0; turn < (uint64_t)set->seg_count * 4 + 16; turn++) {
		struct space_seg *seg = seg_pick(set, me, t->granules, false);

		if (seg == NULL) {
			seg = seg_pick(set, me, t->granules, true);
		}
		if (seg == NULL) {
			return false;
		}
		if (seg->state != SEG_LOADED) {
			if (seg_load(s, seg) == -EAGAIN) {
				seg_load_wait(s, seg);
			}
			continue;
		}
		seg_claim(active, seg, me);
		if (seg_take(s, seg, t)) {
			return true;
		}
	}
	return false;
}

static bool
set_take(struct space *s, uint32_t index, enum space_class cls, uint32_t len_bytes, struct take *t)
{
	struct space_set *set = &s->sets[index];
	unsigned self = rt_reactor_self();
	struct space_seg **active = &s->cores[self].active[index * SPACE_CLASSES + cls];

	t->sectors = raidz_alloc_sectors(set->cfg, len_bytes);
	t->granules = t->sectors / set->granule;
	if (*active != NULL && seg_take(s, *active, t)) {
		return true;
	}
	return set_take_slow(s, set, active, self * SPACE_CLASSES + cls + 1, t);
}

/* Is the set so much fuller than the pool that others should be filled first? */
static bool
set_is_full(const struct space *s, const struct space_set *set)
{
	uint64_t free = set->sectors - MIN(set->used, set->sectors);
	uint64_t pool_free = s->total - MIN(s->used, s->total);

	return (double)free / (double)set->sectors < (double)pool_free / (double)s->total / 2;
}

static int
alloc_once(struct space *s, uint64_t txg, enum space_class cls, uint32_t len_bytes,
    uint64_t avoid_sets, struct bp_addr *out)
{
	struct space_core *core = &s->cores[rt_reactor_self()];
	struct take t = {0};

	if (core->set_bytes >= SET_ROTATE_BYTES) {
		core->set_bytes = 0;
		core->set_rotor = (core->set_rotor + 1) % s->set_count;
	}
	/* first the sets that should be filled, then any that isn't to be avoided, then any */
	for (unsigned round = 0; round < 3; round++) {
		for (uint32_t i = 0; i < s->set_count; i++) {
			uint32_t index = (core->set_rotor + i) % s->set_count;
			bool avoid = index < 64 && ((avoid_sets >> index) & 1) != 0;

			if ((round < 2 && avoid) ||
			    (round == 0 && set_is_full(s, &s->sets[index])) ||
			    !set_take(s, index, cls, len_bytes, &t)) {
				continue;
			}
			core->set_bytes += len_bytes;
			if (cls == SPACE_META) {
				atomic_fetch_add(&s->txg_meta[txg % SPACE_TXG_SLOTS], t.sectors);
			}
			*out = bp_addr_make((uint16_t)index, t.sectors, t.out_sector, false);
			return 0;
		}
	}
	return -ENOSPC;
}

int
space_alloc(struct space *s, uint64_t txg, enum space_class cls, uint32_t len_bytes,
    uint64_t avoid_sets, struct bp_addr *out)
{
	int err;

	ASSERT(len_bytes > 0 && len_bytes % SECTOR_BYTES == 0);
	if (len_bytes > SECTOR_BYTES && BUGGIFY("space-no-run")) {
		return -ENOSPC;
	}
	err = alloc_once(s, txg, cls, len_bytes, avoid_sets, out);
	while (err == -ENOSPC && space_trim_give_back(s)) {
		err = alloc_once(s, txg, cls, len_bytes, avoid_sets, out);
	}
	return err;
}

void
space_unalloc(struct space *s, const struct bp_addr *a)
{
	struct space_seg *seg = space_seg_of(s, bp_addr_set(a), bp_addr_sector(a));
	uint32_t granule = s->sets[seg->set].granule;
	uint32_t asize = bp_addr_asize(a);

	spin_lock(&seg->lock);
	ASSERT(seg->state == SEG_LOADED);
	bits_clear(
	    seg->bits, (uint32_t)((bp_addr_sector(a) - seg->start) / granule), asize / granule);
	seg->run_max = (unsigned)(seg->sectors / granule);
	account(s, seg, -(uint64_t)asize);
	spin_unlock(&seg->lock);
}

/* ---- records ---- */

static struct space_rec *
record_push(struct space *s, uint64_t txg)
{
	struct space_rec *r =
	    rec_list_push(&s->cores[rt_reactor_self()].recs[txg % SPACE_TXG_SLOTS]);

	if (r == NULL) {
		/* the caller can't fail; the txg can: space_sync_log sees it */
		s->records_lost = true;
	}
	return r;
}

void
space_record_alloc(struct space *s, uint64_t txg, const struct bp *bp)
{
	struct bp_prop prop;
	int err = bp_decode(bp, s->set_count, &prop);

	ASSERT(err == 0);
	if (DELIBERATE_BUG("pool-alloc-unrecorded") && txg % 8 == 0) {
		return;
	}
	for (uint32_t i = 0; i < bp_copies(bp); i++) {
		const struct bp_addr *a = &bp->addr[i];
		struct space_rec *r = record_push(s, txg);
		bool gang = bp_addr_is_gang(a);

		if (r == NULL) {
			return;
		}
		/* a gang's address holds its header, which carries its own checksum */
		*r = (struct space_rec){
		    .sector = bp_addr_sector(a),
		    .birth = le64_get(bp->phys_birth),
		    .txg = txg,
		    .set = bp_addr_set(a),
		    .asize = (uint16_t)bp_addr_asize(a),
		    .psize =
			(uint16_t)((gang ? SECTOR_BYTES : prop.stored_bytes) / BP_SIZE_UNIT - 1),
		    .op = MAP_ALLOC,
		    .cksum_kind = (uint8_t)(gang ? BP_CKSUM_NONE : prop.cksum),
		};
		if (!gang) {
			memcpy(r->cksum, bp->cksum, sizeof(r->cksum));
		}
	}
}

void
space_free(struct space *s, uint64_t txg, const struct bp *bp)
{
	if (DELIBERATE_BUG("pool-free-unrecorded") && txg % 8 == 0) {
		return;
	}
	for (uint32_t i = 0; i < bp_copies(bp); i++) {
		const struct bp_addr *a = &bp->addr[i];
		struct space_rec *r = record_push(s, txg);

		if (r == NULL) {
			return;
		}
		*r = (struct space_rec){
		    .sector = bp_addr_sector(a),
		    .txg = txg,
		    .set = bp_addr_set(a),
		    .asize = (uint16_t)bp_addr_asize(a),
		    .op = MAP_FREE,
		};
		atomic_fetch_add(&s->deferred, bp_addr_asize(a));
	}
}

/* ---- readers ---- */

/*
 * A reader counts itself into the current epoch and looks again: either it sees that the epoch has
 * moved, or the sync fiber, which moves the epoch first and then adds up the counters, sees the
 * reader.
 */
uint64_t
space_read_enter(struct space *s)
{
	unsigned self = rt_reactor_self();

	for (;;) {
		uint64_t epoch = atomic_load(&s->epoch);
		uint64_t slot = epoch % SPACE_EPOCH_SLOTS;

		atomic_fetch_add(&s->cores[self].readers[slot], 1);
		if (atomic_load(&s->epoch) == epoch) {
			return (uint64_t)self * SPACE_EPOCH_SLOTS + slot;
		}
		atomic_fetch_sub(&s->cores[self].readers[slot], 1);
	}
}

void
space_read_exit(struct space *s, uint64_t token)
{
	atomic_uint *readers =
	    &s->cores[token / SPACE_EPOCH_SLOTS].readers[token % SPACE_EPOCH_SLOTS];
	unsigned before = atomic_fetch_sub(readers, 1);

	ASSERT(before > 0);
}
