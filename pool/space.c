/*
 * space.c - the state of the allocator: made fresh, loaded from a root, asked for figures.
 *
 * What a segment's sectors can be, and who moves them
 *	free      -> allocated   space_alloc (bitmap, used)
 *	allocated -> recorded    space_record_alloc, space_sync_log (map log, pending)
 *	allocated -> free        space_unalloc: the write failed, nobody knows of it
 *	recorded  -> deferred    space_free in txg N, space_sync_log (map log, pending, batch N)
 *	deferred  -> free        space_committed(N + 2 or later) once no reader of N or before is
 *left
 *
 * Invariants
 *  1. used = allocated + recorded + deferred, in the segment, its set and the pool; total = used +
 *free.
 *  2. A loaded segment's bitmap has used / granule bits set.
 *  3. pending holds every record later than folded_txg, and every free later than released_txg: the
 *map of the committed root and pending together give the bitmap, at any time.
 *  4. The map log of a root R holds every record that its segment maps lack, and all of txgs R - 1
 *and R.
 *
 * Locks: a spin lock a segment; nothing is shared between reactors but counters. The sync fiber
 *alone changes pending, batches and the log.
 */
#include <stdlib.h>

#include "pool/pool_int.h"
#include "pool/space_int.h"

static void
segs_init(struct space_set *set, uint32_t index, uint32_t from, uint32_t to)
{
	for (uint32_t i = from; i < to; i++) {
		struct space_seg *seg = &set->segs[i];

		spin_init(&seg->lock);
		seg->set = index;
		seg->index = i;
		seg->start = i * set->seg_sectors;
		seg->sectors = MIN(set->seg_sectors, set->sectors - seg->start);
		seg->run_max = (unsigned)(seg->sectors / set->granule);
	}
}

static int
set_init(struct space *s, uint32_t index)
{
	struct vdev_set *vs = &s->p->v.sets[index];
	struct space_set *set = &s->sets[index];
	uint64_t capacity = raidz_capacity_sectors(&vs->cfg);

	set->cfg = &vs->cfg;
	set->granule = raidz_tolerates(&vs->cfg) + 1;
	if (vs->cfg.kind == RAIDZ_KIND_MIRROR) {
		set->granule = 1;
	}
	set->sectors = capacity - capacity % set->granule;
	set->seg_sectors = vs->segment_sectors;
	set->seg_count = (uint32_t)vs->segment_count;
	if (set->seg_sectors == 0 || set->seg_sectors % set->granule != 0 ||
	    set->seg_count != DIV_UP(set->sectors, set->seg_sectors) ||
	    (uint64_t)set->seg_count * sizeof(struct segment_entry) > SEGMENT_TABLE_BYTES) {
		return -ERR_CORRUPT;
	}
	set->seg_room = (uint32_t)MIN((uint64_t)set->seg_count * SPACE_SEG_ROOM,
	    SEGMENT_TABLE_BYTES / sizeof(struct segment_entry));
	set->segs = mem_zalloc_array(set->seg_room, sizeof(*set->segs));
	if (set->segs == NULL) {
		return -ENOMEM;
	}
	segs_init(set, index, 0, set->seg_count);
	return 0;
}

/* The sets known from the root, or all of a new pool. */
static int
sets_open(struct space *s)
{
	struct space_seg **all;
	uint32_t seg_count = 0;

	for (uint32_t i = 0; i < s->set_count; i++) {
		int err = set_init(s, i);

		if (err != 0) {
			return err;
		}
		seg_count += s->sets[i].seg_count;
		s->total += s->sets[i].sectors;
	}
	all = mem_zalloc_array(seg_count, sizeof(*all));
	if (all == NULL) {
		return -ENOMEM;
	}
	for (uint32_t i = 0, n = 0; i < s->set_count; i++) {
		for (uint32_t k = 0; k < s->sets[i].seg_count; k++) {
			all[n++] = &s->sets[i].segs[k];
		}
	}
	s->segs_all = all;
	s->seg_count = seg_count;
	for (uint32_t i = 0; i < s->core_count; i++) {
		s->cores[i].set_rotor = i % s->set_count;
	}
	s->log_limit = maplog_limit(seg_count);
	return 0;
}

/* Without sets: how many of them the root knows is still to be found out. */
static int
state_alloc(struct pool *p, const struct space_store *store, struct space **out)
{
	struct space *s = mem_zalloc(sizeof(*s));

	if (s == NULL) {
		return -ENOMEM;
	}
	s->p = p;
	s->store = store;
	list_init(&s->batches);
	list_init(&s->recent);
	mutex_init(&s->recent_mu, RANK_LEAF);
	list_init(&s->log_blocks);
	mutex_init(&s->load_lock, RANK_POOL_SPACE);
	cond_init(&s->load_done);
	spin_init(&s->root_lock);
	s->epoch = s->epoch_oldest = 1;
	s->gang_percent = 100;
	s->set_count = p->v.set_count;
	s->core_count = rt_reactor_count();
	s->sets = mem_zalloc_array(POOL_SETS_MAX, sizeof(*s->sets));
	s->cores = mem_zalloc_array(s->core_count, sizeof(*s->cores));
	if (s->sets == NULL || s->cores == NULL) {
		goto destroy;
	}
	for (uint32_t i = 0; i < s->core_count; i++) {
		struct space_core *core = &s->cores[i];

		core->active =
		    mem_zalloc_array((size_t)POOL_SETS_MAX * SPACE_CLASSES, sizeof(*core->active));
		if (core->active == NULL) {
			goto destroy;
		}
	}
	*out = s;
	return 0;
destroy:
	space_destroy(s);
	return -ENOMEM;
}

int
space_alloc_state(struct pool *p, const struct space_store *store, struct space **out)
{
	struct space *s;
	int err = state_alloc(p, store, &s);

	if (err == 0) {
		err = sets_open(s);
		if (err != 0) {
			space_destroy(s);
		}
	}
	if (err == 0) {
		*out = s;
	}
	return err;
}

int
space_create(struct pool *p, struct space **out)
{
	return space_alloc_state(p, &space_store_pool, out);
}

static void
list_free_batches(struct space *s)
{
	list_for_each_safe(l, tmp, &s->batches)
	{
		struct space_batch *b = list_entry(l, struct space_batch, link);

		mem_free(b->ranges);
		mem_free(b);
	}
	list_for_each_safe(l, tmp, &s->log_blocks)
	{
		mem_free(list_entry(l, struct space_log_block, link));
	}
}

void
space_destroy(struct space *s)
{
	if (s == NULL) {
		return;
	}
	list_free_batches(s);
	space_trim_forget(s);
	rec_list_free(&s->txg_recs);
	rec_list_free(&s->written);
	for (uint32_t i = 0; s->sets != NULL && i < POOL_SETS_MAX; i++) {
		for (uint32_t k = 0; s->sets[i].segs != NULL && k < s->sets[i].seg_count; k++) {
			mem_free(s->sets[i].segs[k].bits);
			rec_list_free(&s->sets[i].segs[k].pending);
		}
		mem_free(s->sets[i].segs);
	}
	for (uint32_t i = 0; s->cores != NULL && i < s->core_count; i++) {
		for (unsigned k = 0; k < SPACE_TXG_SLOTS; k++) {
			rec_list_free(&s->cores[i].recs[k]);
		}
		mem_free(s->cores[i].active);
	}
	for (uint32_t i = 0; i < POOL_SETS_MAX; i++) {
		mem_free(s->segs_old[i]);
	}
	for (uint32_t i = 0; i < s->grown_count; i++) {
		mem_free(s->segs_grown[i]);
	}
	mem_free(s->sets);
	mem_free(s->cores);
	mem_free(s->segs_all);
	mem_free(s);
}

/* ---- loading ---- */

/* Frees of the last two txgs of the root: not reusable yet. */
static int
load_deferred(struct space *s, const struct space_rec *r)
{
	struct space_batch *b = NULL;
	struct space_range *ranges;

	list_for_each(l, &s->batches)
	{
		struct space_batch *it = list_entry(l, struct space_batch, link);

		if (it->txg == r->txg) {
			b = it;
		}
	}
	ASSERT(b != NULL);
	if ((b->count & (b->count - 1)) == 0) {
		ranges = mem_realloc(b->ranges, MAX(16u, b->count * 2) * sizeof(*ranges));
		if (ranges == NULL) {
			return -ENOMEM;
		}
		b->ranges = ranges;
	}
	b->ranges[b->count++] =
	    (struct space_range){.sector = r->sector, .set = r->set, .asize = r->asize};
	b->sectors += r->asize;
	s->deferred += r->asize;
	return 0;
}

static int
load_record(void *arg, const struct space_rec *r)
{
	struct space *s = arg;
	struct space_seg *seg = space_seg_of(s, r->set, r->sector);
	bool folded = r->txg <= seg->folded_txg;
	bool deferred = r->op == MAP_FREE && r->txg > s->released_txg;
	struct space_rec *slot;

	if (!folded) {
		/* may pass below zero on the way, as records come newest first */
		seg->used += r->op == MAP_ALLOC ? (uint64_t)r->asize : -(uint64_t)r->asize;
	}
	if (deferred) {
		int err = load_deferred(s, r);

		if (err != 0) {
			return err;
		}
		seg->used += r->asize;
	}
	if (folded && !deferred) {
		return 0;
	}
	slot = rec_list_push(&seg->pending);
	if (slot == NULL) {
		return -ENOMEM;
	}
	*slot = *r;
	return 0;
}

static int
load_table(struct space *s, uint32_t index)
{
	struct space_set *set = &s->sets[index];
	uint64_t len = (uint64_t)set->seg_count * sizeof(struct segment_entry);
	struct segment_entry *table = mem_zalloc(len);
	int err;

	if (table == NULL) {
		return -ENOMEM;
	}
	err = s->store->map_read(s, &s->root, index, 0, table, len);
	for (uint32_t k = 0; err == 0 && k < set->seg_count; k++) {
		struct space_seg *seg = &set->segs[k];

		err = seg_entry_check(seg, &table[k]);
		seg->folded_txg = seg->folding_txg = le64_get(table[k].folded_txg);
		seg->used = le64_get(table[k].used_sectors);
	}
	mem_free(table);
	return err;
}

static int
load_batches(struct space *s, uint64_t root_txg)
{
	for (uint64_t txg = root_txg > 1 ? root_txg - 1 : 1; txg <= root_txg; txg++) {
		struct space_batch *b = mem_zalloc(sizeof(*b));

		if (b == NULL) {
			return -ENOMEM;
		}
		b->txg = txg;
		b->committed = true;
		list_push_back(&s->batches, &b->link);
	}
	s->released_txg = root_txg > 2 ? root_txg - 2 : 0;
	s->busy_txg = s->committed_txg = root_txg;
	return 0;
}

static int
range_cmp(const void *va, const void *vb)
{
	const struct space_range *a = va, *b = vb;

	if (a->set != b->set) {
		return a->set < b->set ? -1 : 1;
	}
	return a->sector < b->sector ? -1 : a->sector > b->sector;
}

/* The chain came newest first: put pending into order of txg, and add up. */
static int
load_settle(struct space *s)
{
	for (uint32_t i = 0; i < s->set_count; i++) {
		struct space_set *set = &s->sets[i];

		for (uint32_t k = 0; k < set->seg_count; k++) {
			struct space_seg *seg = &set->segs[k];
			struct rec_list *l = &seg->pending;

			for (uint32_t a = 0, b = l->count; a + 1 < b; a++) {
				struct space_rec tmp = l->items[a];

				l->items[a] = l->items[--b];
				l->items[b] = tmp;
			}
			while (seg->unfolded_from < l->count &&
			       l->items[seg->unfolded_from].txg <= seg->folded_txg) {
				seg->unfolded_from++;
			}
			seg->released_txg = s->released_txg;
			if (seg->used > seg->sectors) {
				return -ERR_CORRUPT;
			}
			set->used += seg->used;
		}
		s->used += set->used;
	}
	list_for_each(l, &s->batches)
	{
		struct space_batch *b = list_entry(l, struct space_batch, link);

		if (b->count > 1) {
			qsort(b->ranges, b->count, sizeof(*b->ranges), range_cmp);
		}
	}
	return 0;
}

int
space_load_from(
    struct pool *p, const struct space_store *store, const struct uberblock *ub, struct space **out)
{
	struct space *s;
	int err = state_alloc(p, store, &s);

	if (err != 0) {
		return err;
	}
	s->root = ub->root;
	s->log_tail = ub->maplog;
	err = store->attach(s, &s->root);
	err = err != 0 ? err : sets_open(s);
	if (err == 0) {
		err = load_batches(s, le64_get(ub->txg));
	}
	for (uint32_t i = 0; err == 0 && i < s->set_count; i++) {
		err = load_table(s, i);
	}
	if (err == 0) {
		err = maplog_read(s, &s->log_tail, load_record, s, &s->log_blocks);
	}
	if (err == 0) {
		err = load_settle(s);
	}
	if (err == 0 && (s->used != le64_get(ub->used_sectors) ||
			    s->deferred != le64_get(ub->deferred_sectors))) {
		log_error(
		    "space.mismatch used=%llu root_used=%llu deferred=%llu root_deferred=%llu",
		    (unsigned long long)s->used, (unsigned long long)le64_get(ub->used_sectors),
		    (unsigned long long)s->deferred,
		    (unsigned long long)le64_get(ub->deferred_sectors));
		err = -ERR_CORRUPT;
	}
	if (err != 0) {
		space_destroy(s);
		return err;
	}
	list_for_each(l, &s->log_blocks)
	{
		s->log_records += list_entry(l, struct space_log_block, link)->count;
		s->log_room += list_entry(l, struct space_log_block, link)->room;
	}
	s->release = s->deferred;
	s->committed_txg = s->fresh_txg = le64_get(ub->txg);
	*out = s;
	return 0;
}

int
space_load(struct pool *p, const struct uberblock *ub, struct space **out)
{
	return space_load_from(p, &space_store_pool, ub, out);
}

/* ---- growing ---- */

/* A set that was added: its segments behind the others'. */
static int
segs_append(struct space *s, const struct space_set *set)
{
	uint32_t old_count = s->seg_count;
	struct space_seg **old = s->segs_all;
	struct space_seg **all = mem_zalloc_array(old_count + set->seg_count, sizeof(*all));

	if (all == NULL) {
		return -ENOMEM;
	}
	memcpy(all, old, old_count * sizeof(*all));
	for (uint32_t k = 0; k < set->seg_count; k++) {
		all[old_count + k] = &set->segs[k];
	}
	s->segs_old[s->set_count] = old;
	s->segs_all = all;
	s->seg_count = old_count + set->seg_count;
	return 0;
}

/*
 * A set whose drives are larger now (expand.c): segments more. Their maps are what was never
 * written, that is empty. What was the last one keeps its length until the next import, though it
 * may have been a short one. All are in the order of the sets, which a scan counts by: so it meets
 * some again, and none of those that were there is passed over.
 */
static int
set_extend(struct space *s, uint32_t index, uint32_t count)
{
	struct space_set *set = &s->sets[index];
	uint64_t capacity = raidz_capacity_sectors(set->cfg);
	uint32_t old = set->seg_count, at = 0;
	struct space_seg **all;

	if (s->grown_count == SPACE_GROWTHS_MAX || count > set->seg_room) {
		return 0; /* expand.c asks for no more than that; an import takes the rest */
	}
	all = mem_zalloc_array(s->seg_count + count - old, sizeof(*all));
	if (all == NULL) {
		return -ENOMEM;
	}
	set->sectors = capacity - capacity % set->granule;
	segs_init(set, index, old, count);
	for (uint32_t i = 0; i < s->set_count; i++) {
		uint32_t n = i == index ? count : s->sets[i].seg_count;

		for (uint32_t k = 0; k < n; k++) {
			all[at++] = &s->sets[i].segs[k];
		}
	}
	s->segs_grown[s->grown_count++] = s->segs_all;
	s->segs_all = all;
	s->seg_count = at;
	__atomic_store_n(&set->seg_count, count, __ATOMIC_RELEASE);
	s->total += set->sectors - (uint64_t)old * set->seg_sectors;
	return 0;
}

static int
sets_extend(struct space *s)
{
	int err = 0;

	for (uint32_t i = 0; err == 0 && i < s->set_count; i++) {
		uint64_t want = __atomic_load_n(&s->p->v.sets[i].segment_count, __ATOMIC_ACQUIRE);

		if (want > s->sets[i].seg_count) {
			err = set_extend(s, i, (uint32_t)want);
		}
	}
	return err;
}

int
space_grow(struct space *s, struct pool_tx *tx, struct pool_phys *phys, bool *out_grown)
{
	*out_grown = false;
	while (s->set_count < __atomic_load_n(&s->p->v.set_count, __ATOMIC_ACQUIRE)) {
		struct space_set *set = &s->sets[s->set_count];
		int err = set->segs == NULL ? set_init(s, s->set_count) : 0;

		if (err == 0 && set->object == 0) {
			err = s->store->create(s, tx, s->set_count, phys);
		}
		err = err != 0 ? err : segs_append(s, set);
		if (err != 0) {
			return err;
		}
		set->fresh = true;
		s->total += set->sectors;
		s->set_count++;
		*out_grown = !DELIBERATE_BUG("pool-add-forgotten");
	}
	return sets_extend(s);
}
