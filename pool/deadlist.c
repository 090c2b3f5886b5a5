/*
 * deadlist.c - where a block goes that a dataset no longer refers to.
 *
 * A block born after the newest snapshot belongs to the dataset alone and is freed. An older one is
 * the snapshot's too: its bp is noted in the dataset's deadlist (README "Snapshots"). The moves:
 *
 *	ds_free (workers, side by side) -> stage, in memory
 *	end of the dataset's sync -> appended to `recent`, an OBJ_DEADLIST object, not sorted
 *	too long, or somebody must know -> buckets by birth (deads_sort)
 *	the next snapshot takes the whole deadlist over as it is
 *	the snapshot before is destroyed -> what is younger than the one before that goes to the
 *MOS's queue with its contents; what is left is merged with the destroyed one's deadlist
 *
 * A bucket's key is the txg of the oldest snapshot of the chain (that of the origin, and so on,
 * included) with txg >= birth. Snapshots only come at the young end and go anywhere, so the range
 * of a key never has to be split: it always lies between two neighbours of the chain.
 */
#include <stdlib.h>

#include "pool/snap.h"

#define SORT_CHUNK 8192u
#define MERGE_COUNT_MAX \
	4096u /* a list so short is appended to the other one; longer ones stay apart */

/* ---- what a dataset frees ---- */

static void
stage_put(struct pool_ds *ds, const struct bp *bp, uint64_t sectors)
{
	struct dead_stage *s = &ds->stage;
	struct dead_chunk *fresh = NULL;

	for (;;) {
		spin_lock(&s->lock);
		if (fresh != NULL && (s->chunks == NULL || s->chunks->count == DEAD_CHUNK_BPS)) {
			fresh->next = s->chunks;
			s->chunks = fresh;
			fresh = NULL;
		}
		if (s->chunks != NULL && s->chunks->count < DEAD_CHUNK_BPS) {
			break;
		}
		spin_unlock(&s->lock);
		fresh = pool_must_alloc(sizeof(*fresh));
	}
	s->chunks->v[s->chunks->count++] = *bp;
	s->sectors += sectors;
	s->young += bp_birth(bp) > ds->origin_txg ? sectors : 0;
	spin_unlock(&s->lock);
	mem_free(fresh);
}

/* Freed, or noted. Returns its sectors. */
static uint64_t
block_drop(struct pool_ds *ds, uint64_t txg, const struct bp *bp)
{
	uint64_t sectors;

	if (bp_birth(bp) > ds->prev_snap_txg || DELIBERATE_BUG("snap-free-too-young")) {
		return block_free(ds->p, txg, bp);
	}
	sectors = block_sectors(ds->p, bp);
	if (sectors > 0) {
		stage_put(ds, bp, sectors);
	}
	return sectors;
}

uint64_t
ds_free(struct pool_ds *ds, uint64_t txg, const struct bp *bp)
{
	struct bp_prop prop;
	uint64_t sectors;

	if (bp_is_hole(bp)) {
		return 0;
	}
	if (bp_decode(bp, ds->p->v.set_count, &prop) != 0) {
		log_error("free_refused pool=%s dataset=%016llx reason=bp", ds->p->name,
		    (unsigned long long)ds->guid);
		return 0;
	}
	sectors = block_drop(ds, txg, bp);
	atomic_fetch_sub(&ds->used_sectors, sectors);
	if (bp_birth(bp) > ds->origin_txg) {
		atomic_fetch_sub(&ds->own_sectors, sectors);
	}
	if (prop.level == 0 && prop.type != OBJ_TABLE && prop.type != OBJ_OBJSET &&
	    prop.type != OBJ_ACCOUNTS) {
		atomic_fetch_sub(&ds->data_bytes, prop.logical_bytes);
	}
	return sectors;
}

void
ds_free_root(struct pool_ds *ds, uint64_t txg, const struct bp *bp)
{
	if (bp_is_hole(bp)) {
		return;
	}
	if (DELIBERATE_BUG("root-block-double-free")) {
		(void)block_free(ds->p, txg, bp);
		return;
	}
	(void)block_drop(ds, txg, bp);
}

void
ds_count_added(struct pool_ds *ds, uint64_t sectors)
{
	atomic_fetch_add(&ds->used_sectors, sectors);
	atomic_fetch_add(&ds->own_sectors, sectors);
}

/* ---- lists on the drives ---- */

static int
list_append(struct pool *p, struct pool_tx *tx, struct dead_list *l, const struct bp *v, uint32_t n)
{
	struct pool_ds *mos = p->datasets->mos;
	struct iovec iov = {(void *)(uintptr_t)v, n * sizeof(*v)};
	struct pool_obj *o;
	int err;

	if (l->object == 0) {
		err = pool_obj_create(tx, mos, OBJ_DEADLIST, DEADLIST_BLOCK_BYTES, 0, 0, &o);
	} else {
		err = pool_obj_hold(mos, l->object, 0, &o);
	}
	if (err != 0) {
		return err;
	}
	err = pool_write(tx, o, l->count * sizeof(*v), &iov, 1);
	if (err == 0) {
		l->object = pool_obj_number(o);
		l->count += n;
	}
	pool_obj_release(o);
	return err;
}

static int
list_read(struct pool *p, const struct dead_list *l, uint64_t from, uint32_t n, struct bp *out)
{
	struct pool_obj *o;
	int err = pool_obj_hold(p->datasets->mos, l->object, 0, &o);

	if (err == 0) {
		err = obj_bytes_read(
		    o, from * sizeof(*out), n * (uint32_t)sizeof(*out), (uint8_t *)out);
		pool_obj_release(o);
	}
	return err;
}

static int
object_remove(struct pool *p, struct pool_tx *tx, uint64_t object)
{
	struct pool_obj *o;
	int err;

	if (object == 0) {
		return 0;
	}
	err = pool_obj_hold(p->datasets->mos, object, 0, &o);
	if (err == 0) {
		pool_obj_destroy(tx, o);
		pool_obj_release(o);
	}
	return err;
}

/* The list goes to the queue and takes with it the blocks that it names. */
static int
list_bury(struct pool *p, struct pool_tx *tx, const struct dead_list *l)
{
	struct pool_obj *o;
	struct tree tree;
	int err = pool_obj_hold(p->datasets->mos, l->object, 0, &o);

	if (err != 0) {
		return err;
	}
	ASSERT(!o->live[TXG_SLOT(tx->txg)].dirty); /* the order of snap_sync.c */
	spin_lock(&o->lock);
	tree = o->tree;
	o->tree = (struct tree){.levels = 1};
	o->tree_seq++;
	spin_unlock(&o->lock);
	cuts_add_pending(p, &tree.root,
	    &(struct pending){.flags = UNLINKED_CONTENTS,
		.added = l->sectors,
		.pending = l->sectors + tree.used_sectors});
	pool_obj_destroy(tx, o);
	pool_obj_release(o);
	return 0;
}

/* ---- the whole deadlist ---- */

uint64_t
deads_sectors(const struct deads *d)
{
	return d->recent.sectors + d->map_sectors;
}

uint64_t
deads_young(const struct deads *d)
{
	return d->recent_young + d->map_young;
}

void
deads_free_memory(struct deads *d)
{
	mem_free(d->v);
	d->v = NULL;
	d->count = d->cap = 0;
	d->loaded = false;
}

void
stage_drop(struct pool_ds *ds)
{
	while (ds->stage.chunks != NULL) {
		struct dead_chunk *c = ds->stage.chunks;

		ds->stage.chunks = c->next;
		mem_free(c);
	}
	ds->stage.sectors = ds->stage.young = 0;
}

int
deads_flush(struct pool_ds *ds, struct pool_tx *tx)
{
	struct deads *d = &ds->dead;

	for (struct dead_chunk *c = ds->stage.chunks; c != NULL; c = c->next) {
		int err = list_append(ds->p, tx, &d->recent, c->v, c->count);

		if (err != 0) {
			return err;
		}
	}
	d->recent.sectors += ds->stage.sectors;
	d->recent_young += ds->stage.young;
	stage_drop(ds);
	return 0;
}

int
deads_load(struct pool *p, struct deads *d)
{
	struct deadmap_entry *e;
	struct pool_obj *o;
	uint64_t last = 0;
	int err;

	if (d->loaded || d->count == 0) {
		d->loaded = true;
		return 0;
	}
	e = pool_must_alloc(d->count * sizeof(*e));
	d->v = pool_must_alloc(d->count * sizeof(*d->v));
	d->cap = d->count;
	err = pool_obj_hold(p->datasets->mos, d->map_object, 0, &o);
	if (err == 0) {
		err = obj_bytes_read(o, 0, d->count * (uint32_t)sizeof(*e), (uint8_t *)e);
		pool_obj_release(o);
	}
	for (uint32_t i = 0; i < d->count && err == 0; i++) {
		d->v[i] = (struct dead_list){le64_get(e[i].snap_txg), le64_get(e[i].list),
		    le64_get(e[i].count), le64_get(e[i].sectors)};
		if (d->v[i].key < last || d->v[i].key == 0 || d->v[i].object == 0) {
			err = -ERR_CORRUPT;
		}
		last = d->v[i].key;
	}
	mem_free(e);
	d->loaded = err == 0;
	return err;
}

static int
map_write(struct pool *p, struct pool_tx *tx, struct deads *d)
{
	struct pool_ds *mos = p->datasets->mos;
	uint32_t n = d->count;
	struct deadmap_entry *e;
	struct iovec iov;
	struct pool_obj *o;
	int err;

	d->map_dirty = false;
	if (n == 0) {
		err = object_remove(p, tx, d->map_object);
		d->map_object = 0;
		return err;
	}
	if (d->map_object == 0) {
		err = pool_obj_create(tx, mos, OBJ_DEADMAP, DEADLIST_BLOCK_BYTES, 0, 0, &o);
	} else {
		err = pool_obj_hold(mos, d->map_object, 0, &o);
	}
	if (err != 0) {
		return err;
	}
	d->map_object = pool_obj_number(o);
	e = pool_must_alloc((n + 1) * sizeof(*e)); /* and a key 0 that ends it */
	for (uint32_t i = 0; i < n; i++) {
		e[i] = (struct deadmap_entry){le64_of(d->v[i].key), le64_of(d->v[i].object),
		    le64_of(d->v[i].count), le64_of(d->v[i].sectors)};
	}
	iov = (struct iovec){e, (n + 1) * sizeof(*e)};
	err = pool_write(tx, o, 0, &iov, 1);
	mem_free(e);
	pool_obj_release(o);
	return err;
}

int
deads_write(struct pool *p, struct pool_tx *tx, struct deads *d)
{
	return d->map_dirty ? map_write(p, tx, d) : 0;
}

void
deads_recount(struct deads *d, uint64_t origin_txg)
{
	ASSERT(d->loaded);
	d->map_sectors = d->map_young = 0;
	for (uint32_t i = 0; i < d->count; i++) {
		d->map_sectors += d->v[i].sectors;
		d->map_young += d->v[i].key > origin_txg ? d->v[i].sectors : 0;
	}
	d->map_dirty = true;
}

/* First bucket with a key that isn't less. */
static uint32_t
bucket_at(const struct deads *d, uint64_t key)
{
	uint32_t lo = 0, hi = d->count;

	while (lo < hi) {
		uint32_t mid = lo + (hi - lo) / 2;

		if (d->v[mid].key < key) {
			lo = mid + 1;
		} else {
			hi = mid;
		}
	}
	return lo;
}

static struct dead_list *
bucket_insert(struct deads *d, const struct dead_list *l)
{
	uint32_t at = bucket_at(d, l->key);

	if (d->count == d->cap) {
		uint32_t cap = MAX(d->cap * 2, 8u);
		struct dead_list *more = pool_must_alloc(cap * sizeof(*more));

		if (d->count > 0) {
			memcpy(more, d->v, d->count * sizeof(*more));
		}
		mem_free(d->v);
		d->v = more;
		d->cap = cap;
	}
	memmove(&d->v[at + 1], &d->v[at], (d->count - at) * sizeof(*d->v));
	d->v[at] = *l;
	d->count++;
	return &d->v[at];
}

static struct dead_list *
bucket_get(struct deads *d, uint64_t key)
{
	uint32_t at = bucket_at(d, key);

	if (at < d->count && d->v[at].key == key) {
		return &d->v[at];
	}
	return bucket_insert(d, &(struct dead_list){.key = key});
}

/* ---- sorting ---- */

struct sort_item {
	uint64_t key, sectors;
	uint32_t at; /* in the chunk; last, so that the order is stable */
};

struct sorter {
	struct pool *p;
	struct pool_tx *tx;
	struct pool_ds *chain;
	struct deads *d;
	uint64_t free_after; /* younger ones are freed */
	struct bp *in, *run;
	struct sort_item *items;
	uint32_t count;
};

static int
item_order(const void *va, const void *vb)
{
	const struct sort_item *a = va, *b = vb;

	if (a->key != b->key) {
		return a->key < b->key ? -1 : 1;
	}
	return a->at < b->at ? -1 : a->at > b->at;
}

static void
items_sort(void *arg)
{
	struct sorter *s = arg;

	qsort(s->items, s->count, sizeof(*s->items), item_order);
}

/* Reads n entries; those to be freed go at once, the others become items. */
static int
chunk_take(struct sorter *s, uint64_t from, uint32_t n)
{
	int err = list_read(s->p, &s->d->recent, from, n, s->in);

	s->count = 0;
	for (uint32_t i = 0; i < n && err == 0; i++) {
		const struct bp *bp = &s->in[i];
		struct bp_prop prop;
		uint64_t sectors;

		if (bp_is_hole(bp) || bp_decode(bp, s->p->v.set_count, &prop) != 0) {
			return -ERR_CORRUPT;
		}
		sectors = block_sectors(s->p, bp);
		if (bp_birth(bp) > s->free_after) {
			cuts_add_pending(s->p, bp,
			    &(struct pending){
				.flags = UNLINKED_ALONE, .added = sectors, .pending = sectors});
			continue;
		}
		s->items[s->count++] =
		    (struct sort_item){chain_key(s->chain, bp_birth(bp)), sectors, i};
	}
	return err;
}

static int
chunk_put(struct sorter *s)
{
	int err = 0;

	offload(items_sort, s);
	for (uint32_t i = 0; i < s->count && err == 0;) {
		uint64_t key = s->items[i].key;
		struct dead_list *l = bucket_get(s->d, key);
		uint32_t n = 0;

		for (; i < s->count && s->items[i].key == key; i++) {
			s->run[n++] = s->in[s->items[i].at];
			l->sectors += s->items[i].sectors;
		}
		err = list_append(s->p, s->tx, l, s->run, n);
	}
	return err;
}

int
deads_sort(struct pool_ds *chain, struct pool_tx *tx, struct deads *d, uint64_t free_after)
{
	struct sorter s = {
	    .p = chain->p, .tx = tx, .chain = chain, .d = d, .free_after = free_after};
	int err = deads_load(chain->p, d);

	if (err != 0 || d->recent.count == 0) {
		return err;
	}
	s.in = pool_must_alloc(SORT_CHUNK * sizeof(*s.in));
	s.run = pool_must_alloc(SORT_CHUNK * sizeof(*s.run));
	s.items = pool_must_alloc(SORT_CHUNK * sizeof(*s.items));
	for (uint64_t at = 0; at < d->recent.count && err == 0; at += SORT_CHUNK) {
		err = chunk_take(&s, at, (uint32_t)MIN(d->recent.count - at, (uint64_t)SORT_CHUNK));
		err = err != 0 ? err : chunk_put(&s);
	}
	mem_free(s.in);
	mem_free(s.run);
	mem_free(s.items);
	err = err != 0 ? err : object_remove(chain->p, tx, d->recent.object);
	if (err == 0) {
		d->recent = (struct dead_list){0};
		d->recent_young = 0;
		deads_recount(d, chain->origin_txg);
	}
	return err;
}

uint64_t
deads_after(const struct deads *d, uint64_t txg)
{
	uint64_t sum = 0;

	ASSERT(d->loaded && d->recent.count == 0);
	for (uint32_t i = bucket_at(d, txg + 1); i < d->count; i++) {
		sum += d->v[i].sectors;
	}
	return sum;
}

/* ---- when snapshots go ---- */

int
deads_free_after(struct pool_ds *chain, struct pool_tx *tx, struct deads *d, uint64_t txg)
{
	int err = deads_sort(chain, tx, d, txg);
	uint32_t first;

	if (err != 0) {
		return err;
	}
	first =
	    bucket_at(d, DELIBERATE_BUG("snap-destroy-frees-shared") && txg > 0 ? txg : txg + 1);
	for (uint32_t i = first; i < d->count && err == 0; i++) {
		err = list_bury(chain->p, tx, &d->v[i]);
	}
	if (err == 0 && first < d->count) {
		d->count = first;
		deads_recount(d, chain->origin_txg);
	}
	return err;
}

/* One list to the end of another. */
static int
list_move(struct pool *p, struct pool_tx *tx, struct dead_list *to, const struct dead_list *from)
{
	struct bp *v = pool_must_alloc(from->count * sizeof(*v));
	int err = list_read(p, from, 0, (uint32_t)from->count, v);

	err = err != 0 ? err : list_append(p, tx, to, v, (uint32_t)from->count);
	err = err != 0 ? err : object_remove(p, tx, from->object);
	mem_free(v);
	to->sectors += from->sectors;
	return err;
}

/* A bucket of another deadlist of the chain: into one between the same neighbours, if that is
 * cheap. */
static int
bucket_merge(struct pool_ds *chain, struct pool_tx *tx, struct deads *d, const struct dead_list *l)
{
	uint32_t at = bucket_at(d, l->key);
	uint64_t place = chain_key(chain, l->key);
	struct dead_list *there = NULL;
	struct dead_list small;

	if (at < d->count && chain_key(chain, d->v[at].key) == place) {
		there = &d->v[at];
	} else if (at > 0 && chain_key(chain, d->v[at - 1].key) == place) {
		there = &d->v[at - 1];
	}
	if (there == NULL || MIN(there->count, l->count) > MERGE_COUNT_MAX) {
		(void)bucket_insert(d, l);
		return 0;
	}
	if (there->count >= l->count) {
		return list_move(chain->p, tx, there, l);
	}
	small = *there;
	there->object = l->object;
	there->count = l->count;
	there->sectors = l->sectors;
	return list_move(chain->p, tx, there, &small);
}

int
deads_merge(struct pool_ds *chain, struct pool_tx *tx, struct deads *to, struct deads *from)
{
	int err = deads_load(chain->p, from);

	err = err != 0 ? err : deads_load(chain->p, to);
	for (uint32_t i = 0; i < from->count && err == 0; i++) {
		err = bucket_merge(chain, tx, to, &from->v[i]);
	}
	if (err == 0 && from->recent.count > 0) {
		ASSERT(to->recent.count == 0); /* sorted a moment ago */
		to->recent = from->recent;
		to->recent_young = from->recent_young;
	}
	if (err == 0 && from->count > 0) {
		deads_recount(to, chain->origin_txg);
	}
	err = err != 0 ? err : object_remove(chain->p, tx, from->map_object);
	deads_free_memory(from);
	return err;
}

int
deads_remove(struct pool *p, struct pool_tx *tx, struct deads *d)
{
	int err = deads_load(p, d);

	for (uint32_t i = 0; i < d->count && err == 0; i++) {
		err = object_remove(p, tx, d->v[i].object);
	}
	err = err != 0 ? err : object_remove(p, tx, d->recent.object);
	err = err != 0 ? err : object_remove(p, tx, d->map_object);
	deads_free_memory(d);
	*d = (struct deads){0};
	return err;
}

/* ---- in the description ---- */

void
deads_to_phys(const struct deads *d, struct dataset_phys *phys)
{
	phys->deadmap = le64_of(d->map_object);
	phys->deadmap_count = le64_of(d->count);
	phys->dead_sectors = le64_of(deads_sectors(d));
	phys->dead_young = le64_of(deads_young(d));
	phys->recent = le64_of(d->recent.object);
	phys->recent_count = le64_of(d->recent.count);
	phys->recent_sectors = le64_of(d->recent.sectors);
	phys->recent_young = le64_of(d->recent_young);
}

int
deads_from_phys(const struct dataset_phys *phys, struct deads *d)
{
	uint64_t count = le64_get(phys->deadmap_count);

	if (count > UINT32_MAX / sizeof(struct deadmap_entry) - 1 ||
	    (count == 0) != (le64_get(phys->deadmap) == 0) ||
	    (le64_get(phys->recent_count) == 0) != (le64_get(phys->recent) == 0) ||
	    le64_get(phys->recent_sectors) > le64_get(phys->dead_sectors) ||
	    le64_get(phys->recent_young) > le64_get(phys->dead_young)) {
		return -ERR_CORRUPT;
	}
	*d = (struct deads){
	    .recent =
		{
		    .object = le64_get(phys->recent),
		    .count = le64_get(phys->recent_count),
		    .sectors = le64_get(phys->recent_sectors),
		},
	    .recent_young = le64_get(phys->recent_young),
	    .count = (uint32_t)count,
	    .map_object = le64_get(phys->deadmap),
	    .map_sectors = le64_get(phys->dead_sectors) - le64_get(phys->recent_sectors),
	    .map_young = le64_get(phys->dead_young) - le64_get(phys->recent_young),
	};
	return 0;
}
