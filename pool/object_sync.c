/*
 * object_sync.c - what a txg changed of one dataset goes to the drives.
 *
 * Steps (README "Transactions", 1): the data blocks of all dirty objects, in batches that cross
 * objects, by one worker a reactor; each object's tree; what was cut off (free_queue.c); then the
 * object table with the new slots; then the objset root. An object's new tree is published, and its
 * versions of this txg taken off, in one step under its lock; it leaves the dirty list only when
 * the table that holds its slot is published too.
 */
#include "pool/object.h"

#include "pool/accounts.h"

#include <stdlib.h>

#define GROUP_OBJECTS 64u
#define WRITE_CHUNK 128u
#define TABLE_BATCH 64u
#define SLOTS_PER_BLOCK (OBJECT_TABLE_BLOCK_BYTES / OBJECT_SLOT_BYTES)

/* One object of a group. */
struct obj_job {
	struct pool_obj *o;
	struct tree_leaf *leaves;
	struct iobuf **bufs; /* a reference each */
	uint32_t *lens;
	uint32_t leaf_count;
	struct block_range *ranges;
	uint32_t range_count;
	bool destroyed;
};

struct ds_job {
	struct pool_ds *ds;
	uint64_t txg;
	struct spin lock;
	struct pool_obj *done;          /* by sync_next: their slots go to the table */
	struct account_deltas accounts; /* the table's changes, by owner */
	int err;
	struct waitgroup wg;
};

/* ---- collecting ---- */

static int
leaf_order(const void *a, const void *b)
{
	const struct pool_buf *x = *(struct pool_buf *const *)a;
	const struct pool_buf *y = *(struct pool_buf *const *)b;

	return x->block < y->block ? -1 : x->block > y->block;
}

/* Under o->lock; v has room for all. */
static uint32_t
bufs_collect(struct pool_obj *o, unsigned slot, struct pool_buf **v, uint32_t cap)
{
	uint32_t n = 0;

	list_for_each(l, &o->live[slot].bufs)
	{
		if (n == cap) {
			break;
		}
		v[n++] = dbuf_of_version(list_entry(l, struct dbuf_version, link), slot);
	}
	return n;
}

static uint32_t
bufs_count(struct pool_obj *o, unsigned slot)
{
	uint32_t n = 0;

	spin_lock(&o->lock);
	list_for_each(l, &o->live[slot].bufs)
	{
		n++;
	}
	spin_unlock(&o->lock);
	return n;
}

/* The txg is closed: its versions and ranges don't change any more, only the newest ones do. */
static void
job_collect(struct obj_job *j, struct pool_obj *o, uint64_t txg)
{
	unsigned slot = TXG_SLOT(txg);
	uint32_t count = bufs_count(o, slot);
	struct pool_buf **v = pool_must_alloc((count + 1) * sizeof(struct pool_buf *));

	*j =
	    (struct obj_job){.o = o, .leaf_count = count, .range_count = o->live[slot].range_count};
	j->leaves = pool_must_alloc((count + 1) * sizeof(*j->leaves));
	j->bufs = pool_must_alloc((count + 1) * sizeof(struct iobuf *));
	j->lens = pool_must_alloc((count + 1) * sizeof(*j->lens));
	j->ranges = pool_must_alloc((j->range_count + 2) * sizeof(*j->ranges));
	spin_lock(&o->lock);
	(void)bufs_collect(o, slot, v, count);
	if (j->range_count > 0) {
		memcpy(j->ranges, o->live[slot].ranges, j->range_count * sizeof(*j->ranges));
	}
	j->destroyed = o->destroy_txg == txg;
	spin_unlock(&o->lock);
	qsort(v, count, sizeof(struct pool_buf *), leaf_order);
	for (uint32_t i = 0; i < count; i++) {
		j->leaves[i].block = v[i]->block;
		j->bufs[i] = iobuf_ref(v[i]->v[slot].buf);
		j->lens[i] = v[i]->v[slot].len_bytes;
	}
	mem_free(v);
	if (j->destroyed) {
		ASSERT(count == 0);
		j->ranges[0] = (struct block_range){0, UINT64_MAX};
		j->range_count = 1;
	}
}

static void
job_free(struct obj_job *j)
{
	for (uint32_t i = 0; i < j->leaf_count; i++) {
		iobuf_unref(j->bufs[i]);
	}
	mem_free(j->leaves);
	mem_free(j->bufs);
	mem_free(j->lens);
	mem_free(j->ranges);
}

/* ---- writing ---- */

/* Pool-wide blocks are written three times, other metadata twice; deadlists, which grow with what
 * is removed in a full pool, twice, too. */
uint8_t
obj_copies(const struct pool_obj *o)
{
	if (o->ds->is_mos) {
		return o->slot.type == OBJ_DEADLIST ? 2 : 3;
	}
	return o->slot.type == OBJ_UNLINKED || o->slot.type == OBJ_DIR ? 2 : 1;
}

static void
leaf_write_fill(const struct obj_job *j, uint32_t i, struct block_write *w)
{
	struct pool_ds *ds = j->o->ds;
	bool is_meta = obj_copies(j->o) > 1;
	/* a quarter of what LZ4 leaves of them: a block of 128 pointers fits into a sector */
	enum bp_compress meta =
	    j->o->slot.type == OBJ_DEADLIST ? BP_COMPRESS_ZSTD : BP_COMPRESS_LZ4;

	*w = (struct block_write){
	    .data = j->bufs[i],
	    .logical_bytes = j->lens[i],
	    .type = j->o->slot.type,
	    .compress = is_meta ? meta : ds->policy.compress,
	    .zstd_level = ds->policy.zstd_level,
	    .cksum = ds->policy.cksum,
	    .copies = obj_copies(j->o),
	    .may_embed = true,
	    .fill = 1,
	    .out = &j->leaves[i].bp,
	};
}

static int
chunk_write(struct ds_job *d, struct block_write *w, struct tree_leaf **leaf, uint32_t n)
{
	int err = block_write(d->ds->p, d->txg, w, n);

	for (uint32_t i = 0; i < n && err == 0; i++) {
		leaf[i]->sectors = w[i].sectors;
		if (!bp_is_hole(w[i].out)) {
			atomic_fetch_add(&d->ds->data_bytes, w[i].logical_bytes);
		}
	}
	return err;
}

/* The data blocks of a group of objects, as few and large batches as can be. */
static int
group_write(struct ds_job *d, struct obj_job *jobs, uint32_t count)
{
	struct block_write *w = pool_must_alloc(WRITE_CHUNK * sizeof(*w));
	struct tree_leaf **leaf = pool_must_alloc(WRITE_CHUNK * sizeof(struct tree_leaf *));
	uint32_t n = 0;
	int err = 0;

	for (uint32_t i = 0; i < count && err == 0; i++) {
		for (uint32_t k = 0; k < jobs[i].leaf_count && err == 0; k++) {
			leaf_write_fill(&jobs[i], k, &w[n]);
			leaf[n++] = &jobs[i].leaves[k];
			if (n == WRITE_CHUNK) {
				err = chunk_write(d, w, leaf, n);
				n = 0;
			}
		}
	}
	if (err == 0 && n > 0) {
		err = chunk_write(d, w, leaf, n);
	}
	mem_free(w);
	mem_free(leaf);
	return err;
}

static int
job_update_tree(struct ds_job *d, struct obj_job *j, struct tree *tree)
{
	struct tree_owner owner = {
	    .ds = d->ds,
	    .txg = d->txg,
	    .object = j->o->number,
	    .generation = j->o->generation,
	    .type = j->o->slot.type,
	    .copies = d->ds->is_mos ? 3 : 2,
	    .cksum = d->ds->policy.cksum,
	    .unshared = le64_get(j->o->slot.birth) > d->ds->prev_snap_txg,
	};

	*tree = j->o->tree; /* only we change it */
	if (j->leaf_count == 0 && j->range_count == 0) {
		return 0;
	}
	return tree_update(&owner, tree, j->leaves, j->leaf_count, j->ranges, j->range_count);
}

/* Under no lock: the versions of txg, one lock hold for each few. */
static void
versions_done(struct pool_obj *o, uint64_t txg)
{
	struct list *bufs = &o->live[TXG_SLOT(txg)].bufs;

	for (;;) {
		struct iobuf *old[2] = {NULL, NULL};
		bool more;

		spin_lock(&o->lock);
		more = !list_empty(bufs);
		if (more) {
			dbuf_version_done(
			    dbuf_of_version(
				list_first(bufs, struct dbuf_version, link), TXG_SLOT(txg)),
			    txg, old);
		}
		spin_unlock(&o->lock);
		if (!more) {
			return;
		}
		iobuf_unref(old[0]);
		iobuf_unref(old[1]);
	}
}

static void
job_publish(struct ds_job *d, struct obj_job *j, const struct tree *tree)
{
	struct pool_obj *o = j->o;
	struct obj_live *live = &o->live[TXG_SLOT(d->txg)];

	spin_lock(&o->lock);
	o->tree = *tree;
	atomic_store_explicit(&o->used_sectors, tree->used_sectors, memory_order_relaxed);
	o->tree_seq++;
	o->range_total -= live->range_count;
	live->range_count = 0;
	spin_unlock(&o->lock);
	versions_done(o, d->txg);
}

/* Whatever became of it: the object waits for the end of the pass. */
static void
job_done(struct ds_job *d, struct pool_obj *o)
{
	spin_lock(&d->lock);
	o->sync_next = d->done;
	d->done = o;
	spin_unlock(&d->lock);
}

static int
group_sync(struct ds_job *d, struct pool_obj **objs, uint32_t count)
{
	struct obj_job *jobs = pool_must_alloc(count * sizeof(*jobs));
	int err;

	for (uint32_t i = 0; i < count; i++) {
		job_collect(&jobs[i], objs[i], d->txg);
	}
	err = group_write(d, jobs, count);
	for (uint32_t i = 0; i < count; i++) {
		struct tree tree;

		if (err == 0) {
			err = job_update_tree(d, &jobs[i], &tree);
		}
		if (err == 0) {
			job_publish(d, &jobs[i], &tree);
		}
		job_free(&jobs[i]);
		job_done(d, objs[i]);
	}
	mem_free(jobs);
	return err;
}

/* The next objects of the dirty list; they keep its reference. */
static uint32_t
group_take(struct ds_job *d, struct pool_obj **out)
{
	struct list *dirty = &d->ds->dirty[TXG_SLOT(d->txg)];
	uint32_t n = 0;

	spin_lock(&d->ds->lock);
	while (n < GROUP_OBJECTS && !list_empty(dirty)) {
		struct obj_live *live = list_first(dirty, struct obj_live, link);

		list_remove(&live->link);
		out[n++] = container_of(live - TXG_SLOT(d->txg), struct pool_obj, live);
	}
	spin_unlock(&d->ds->lock);
	return n;
}

static void
ds_worker(void *arg)
{
	struct ds_job *d = arg;
	struct pool_obj **objs = pool_must_alloc(GROUP_OBJECTS * sizeof(struct pool_obj *));
	int err = 0;
	uint32_t n;

	while (err == 0 && (n = group_take(d, objs)) > 0) {
		err = group_sync(d, objs, n);
	}
	mem_free(objs);
	if (err != 0) {
		spin_lock(&d->lock);
		d->err = err;
		spin_unlock(&d->lock);
	}
	wg_done(&d->wg);
}

/* One worker a reactor, as far as memory for their buffers goes; none beside us for a handful. */
static int
objects_sync(struct ds_job *d)
{
	struct arena_info arena;
	unsigned workers;

	arena_get_info(&arena);
	workers = (unsigned)MIN(
	    (uint64_t)rt_reactor_count(), arena.budget_bytes[ARENA_SYNC] / (12 * MIB));
	if (d->ds->is_mos) {
		workers = 1;
	}
	for (unsigned i = 1; i < workers; i++) {
		wg_add(&d->wg, 1);
		if (fiber_spawn((rt_reactor_self() + i) % rt_reactor_count(), FIBER_SYNC,
			"pool-write", ds_worker, d) != 0) {
			wg_done(&d->wg);
		}
	}
	wg_add(&d->wg, 1);
	ds_worker(d);
	wg_wait(&d->wg);
	return d->err;
}

/* ---- the object table ---- */

/* What txg has to say about the slot. false: nothing of it changed but used_sectors (and newer txgs
 * have changed more). */
static bool
slot_image(struct pool_obj *o, uint64_t txg, struct object_slot *out)
{
	bool whole = true;

	spin_lock(&o->lock);
	if (o->saved != NULL && o->saved_txg == txg) {
		*out = *o->saved;
	} else if (o->slot_txg == 0 || o->slot_txg <= txg) {
		*out = o->slot;
	} else {
		whole = false;
	}
	if (o->destroy_txg == txg) {
		memset(out, 0, sizeof(*out));
		out->generation = le64_of(o->generation);
		whole = true;
	} else if ((out->flags & OBJECT_INLINE) == 0 && whole) {
		out->data = o->tree.root;
	}
	out->levels = o->destroy_txg == txg ? 0 : o->tree.levels;
	out->used_sectors = le64_of(o->destroy_txg == txg ? 0 : o->tree.used_sectors);
	spin_unlock(&o->lock);
	return whole;
}

static int
number_order(const void *a, const void *b)
{
	const struct pool_obj *x = *(struct pool_obj *const *)a;
	const struct pool_obj *y = *(struct pool_obj *const *)b;

	if (x->number != y->number) {
		return x->number < y->number ? -1 : 1;
	}
	/* of a number destroyed and made again, the older one first */
	return x->generation < y->generation ? -1 : x->generation > y->generation;
}

static void
slot_put(struct ds_job *d, struct pool_obj *o, uint8_t *table_block)
{
	struct object_slot *at =
	    (struct object_slot *)(void *)(table_block +
					   o->number % SLOTS_PER_BLOCK * OBJECT_SLOT_BYTES);
	struct object_slot image = *at;
	struct object_slot old = *at;
	bool was_free = at->type == OBJ_FREE;

	if (slot_image(o, d->txg, &image)) {
		*at = image;
	} else if (!was_free && le64_get(at->generation) == o->generation) {
		at->used_sectors = image.used_sectors;
		at->levels = image.levels;
		if ((at->flags & OBJECT_INLINE) == 0) {
			at->data = o->tree.root;
		}
	}
	if (was_free && at->type != OBJ_FREE) {
		atomic_fetch_add(&d->ds->object_count, 1);
	} else if (!was_free && at->type == OBJ_FREE) {
		atomic_fetch_sub(&d->ds->object_count, 1);
	}
	accounts_note(d->ds, &d->accounts, o->number, &old, at);
}

/* The old contents of a table block in a new buffer. */
static int
table_block_open(struct ds_job *d, uint64_t block, struct iobuf **out)
{
	struct pool *p = d->ds->p;
	struct iobuf *buf, *old;
	struct bp bp;
	int err = sync_tree_lookup(p, &d->ds->table, 0, block, &bp);

	if (err != 0) {
		return err;
	}
	err = iobuf_alloc(OBJECT_TABLE_BLOCK_BYTES, ARENA_SYNC, &buf);
	if (err != 0) {
		return err;
	}
	if (bp_is_hole(&bp)) {
		memset(buf->data, 0, OBJECT_TABLE_BLOCK_BYTES);
	} else {
		err = sync_block_read(p, &bp, &old);
		if (err != 0) {
			iobuf_unref(buf);
			return err;
		}
		memcpy(buf->data, old->data, OBJECT_TABLE_BLOCK_BYTES);
		iobuf_unref(old);
	}
	*out = buf;
	return 0;
}

static void
table_write_fill(struct ds_job *d, struct iobuf *buf, struct bp *out, struct block_write *w)
{
	*w = (struct block_write){
	    .data = buf,
	    .logical_bytes = OBJECT_TABLE_BLOCK_BYTES,
	    .type = OBJ_TABLE,
	    .compress = BP_COMPRESS_LZ4,
	    .cksum = BP_CKSUM_XXH3,
	    .copies = d->ds->is_mos ? 3 : 2,
	    .fill = 1,
	    .out = out,
	};
}

static bool
table_block_is_empty(const uint8_t *table_block)
{
	for (uint32_t i = 0; i < SLOTS_PER_BLOCK; i++) {
		if (table_block[i * OBJECT_SLOT_BYTES] != OBJ_FREE) {
			return false;
		}
	}
	return true;
}

/* Up to TABLE_BATCH table blocks from objs[*pos] on. One without any object becomes a hole:
 * generations of free slots are no longer needed, since new ones are later than all. */
static int
table_batch(struct ds_job *d, struct pool_obj **objs, uint32_t count, uint32_t *pos,
    struct tree_leaf *leaves, uint32_t *leaf_count)
{
	struct block_write *w = pool_must_alloc(TABLE_BATCH * sizeof(*w));
	struct tree_leaf *to[TABLE_BATCH];
	uint32_t n = 0;
	int err = 0;

	while (n < TABLE_BATCH && *pos < count && err == 0) {
		uint64_t block = objs[*pos]->number / SLOTS_PER_BLOCK;
		struct tree_leaf *leaf;
		struct iobuf *buf;

		err = table_block_open(d, block, &buf);
		if (err != 0) {
			break;
		}
		while (*pos < count && objs[*pos]->number / SLOTS_PER_BLOCK == block) {
			slot_put(d, objs[(*pos)++], buf->data);
		}
		leaf = &leaves[(*leaf_count)++];
		leaf->block = block;
		if (table_block_is_empty(buf->data)) {
			bp_set_hole(&leaf->bp, d->txg);
			iobuf_unref(buf);
			continue;
		}
		table_write_fill(d, buf, &leaf->bp, &w[n]);
		to[n++] = leaf;
	}
	if (err == 0) {
		err = block_write(d->ds->p, d->txg, w, n);
	}
	for (uint32_t i = 0; i < n; i++) {
		to[i]->sectors = w[i].sectors;
		iobuf_unref(w[i].data);
	}
	mem_free(w);
	return err;
}

static int
table_sync(struct ds_job *d, struct pool_obj **objs, uint32_t count)
{
	struct tree_owner owner = {
	    .ds = d->ds,
	    .txg = d->txg,
	    .type = OBJ_TABLE,
	    .copies = d->ds->is_mos ? 3 : 2,
	    .cksum = BP_CKSUM_XXH3,
	};
	struct tree_leaf *leaves = pool_must_alloc((count + 1) * sizeof(*leaves));
	struct tree table = d->ds->table;
	uint32_t pos = 0, leaf_count = 0;
	int err = 0;

	qsort(objs, count, sizeof(struct pool_obj *), number_order);
	while (pos < count && err == 0) {
		err = table_batch(d, objs, count, &pos, leaves, &leaf_count);
	}
	if (err == 0 && leaf_count > 0) {
		err = tree_update(&owner, &table, leaves, leaf_count, NULL, 0);
	}
	if (err == 0) {
		spin_lock(&d->ds->table_lock);
		d->ds->table = table;
		spin_unlock(&d->ds->table_lock);
	}
	mem_free(leaves);
	return err;
}

/* The object has landed with its table: it is clean as far as this txg goes. */
static void
obj_landed(struct ds_job *d, struct pool_obj *o)
{
	bool destroyed = o->destroy_txg == d->txg;

	obj_live_drop(o, d->txg);
	if (destroyed && d->err == 0) {
		obj_number_give(d->ds, o->number, d->txg);
	}
	pool_obj_release(o);
}

/* ---- the objset root ---- */

static void
root_fill(struct ds_job *d, struct objset_phys *r)
{
	struct pool_ds *ds = d->ds;

	memset(r, 0, sizeof(*r));
	r->magic = le64_of(OBJSET_MAGIC);
	r->txg = le64_of(d->txg);
	spin_lock(&ds->number_lock);
	r->next_object = le64_of(ds->next_object);
	r->last_generation = le64_of(ds->last_generation);
	spin_unlock(&ds->number_lock);
	r->object_count = le64_of(atomic_load(&ds->object_count));
	r->used_sectors = le64_of(atomic_load(&ds->used_sectors));
	r->data_bytes = le64_of(atomic_load(&ds->data_bytes));
	r->unlinked = le64_of(ds->unlinked_object);
	r->dying_count = le64_of(ds->dying_count);
	r->pending_sectors = le64_of(atomic_load(&ds->pending_sectors));
	r->guid = le64_of(ds->guid);
	r->table.type = OBJ_TABLE;
	r->table.levels = ds->table.levels;
	r->table.block_bytes = le32_of(OBJECT_TABLE_BLOCK_BYTES);
	r->table.used_sectors = le64_of(ds->table.used_sectors);
	r->table.data = ds->table.root;
	accounts_fill_root(ds, r);
	spin_lock(&ds->lock);
	if (ds->saved_txg == d->txg) {
		r->root_object = le64_of(ds->saved.root_object);
		memcpy(r->owner, ds->saved.owner, sizeof(r->owner));
		ds->saved_txg = 0;
	} else {
		r->root_object = le64_of(ds->open.root_object);
		memcpy(r->owner, ds->open.owner, sizeof(r->owner));
		ds->open_txg = ds->open_txg == d->txg ? 0 : ds->open_txg;
	}
	ds->root_dirty[TXG_SLOT(d->txg)] = false;
	spin_unlock(&ds->lock);
}

static int
root_sync(struct ds_job *d, struct bp *out)
{
	struct iobuf *buf;
	struct bp fresh;
	struct block_write w;
	int err = iobuf_alloc(sizeof(struct objset_phys), ARENA_SYNC, &buf);

	if (err != 0) {
		return err;
	}
	root_fill(d, (struct objset_phys *)(void *)buf->data);
	w = (struct block_write){
	    .data = buf,
	    .logical_bytes = sizeof(struct objset_phys),
	    .type = OBJ_OBJSET,
	    .compress = BP_COMPRESS_OFF,
	    .cksum = BP_CKSUM_XXH3,
	    .copies = d->ds->is_mos ? 3 : 2,
	    .fill = 1,
	    .out = &fresh,
	};
	err = block_write(d->ds->p, d->txg, &w, 1);
	iobuf_unref(buf);
	if (err == 0) {
		ds_free_root(d->ds, d->txg, &d->ds->root);
		atomic_store(&d->ds->root_sectors, w.sectors);
		atomic_store(&d->ds->own_root, w.sectors);
		d->ds->root = fresh;
		*out = fresh;
	}
	return err;
}

/* ---- the whole ---- */

static struct pool_obj **
done_collect(struct ds_job *d, uint32_t *out_count)
{
	struct pool_obj **v;
	uint32_t n = 0;

	for (struct pool_obj *o = d->done; o != NULL; o = o->sync_next) {
		n++;
	}
	v = pool_must_alloc((n + 1) * sizeof(struct pool_obj *));
	n = 0;
	for (struct pool_obj *o = d->done; o != NULL; o = o->sync_next) {
		v[n++] = o;
	}
	*out_count = n;
	return v;
}

/* Frees in slices; objects whose figures that changed join the list, the queue's own object is
 * written. */
static int
ds_sync_cuts(struct ds_job *d)
{
	struct pool_tx tx;
	bool left = false;
	int err;

	tx_init_syncing(&tx, d->ds, d->txg);
	accounts_begin_txg(d->ds, d->txg);
	err = cuts_sync(d->ds, &tx, &left);
	if (err == 0) {
		err = objects_sync(d);
	}
	if (left) {
		atomic_store(&d->ds->p->txgs->background, true);
	}
	return err;
}

int
ds_sync(struct pool_ds *ds, uint64_t txg, struct bp *out_root)
{
	struct ds_job d = {.ds = ds, .txg = txg};
	struct pool_obj **objs;
	uint32_t count;
	bool left = false;
	int err;

	spin_init(&d.lock);
	wg_init(&d.wg);
	err = objects_sync(&d);
	if (err == 0) {
		err = ds_sync_cuts(&d);
	}
	objs = done_collect(&d, &count);
	if (err == 0) {
		err = table_sync(&d, objs, count);
	}
	if (err == 0) {
		err = accounts_sync(ds, txg, &d.accounts, &left);
	}
	mem_free(d.accounts.v);
	if (left) {
		atomic_store(&ds->p->txgs->background, true);
	}
	for (uint32_t i = 0; i < count; i++) {
		obj_landed(&d, objs[i]);
	}
	mem_free(objs);
	return err != 0 ? err : root_sync(&d, out_root);
}

void
ds_sync_drop(struct pool_ds *ds, uint64_t txg)
{
	struct ds_job d = {.ds = ds, .txg = txg};
	struct pool_obj **objs = pool_must_alloc(GROUP_OBJECTS * sizeof(struct pool_obj *));
	uint32_t n;

	while ((n = group_take(&d, objs)) > 0) {
		for (uint32_t i = 0; i < n; i++) {
			obj_live_drop(objs[i], txg);
			pool_obj_release(objs[i]);
		}
	}
	mem_free(objs);
}
