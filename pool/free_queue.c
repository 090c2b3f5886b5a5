/*
 * free_queue.c - sub-trees that were cut off, freed a bounded number of blocks a txg.
 *
 * During a txg cuts gather in memory (ds->cuts); then cuts_sync works them off: from memory first,
 * then from the stack in the OBJ_UNLINKED object. An indirect block of level 1 frees its data at
 * once; a higher one becomes cuts of the level below, on top of the stack, so the stack stays as
 * deep as the tree, not as wide as the file. What the budget leaves over is on the stack, in the
 * same txg, so every root accounts for every block.
 *
 * The MOS's queue also takes whole datasets: an objset root becomes its table and its own unlinked
 * entries; a table block becomes the trees of its objects. Of what shares blocks with an origin
 * only what is younger than min_txg is the entry's; a parent is never older than its children.
 * Deadlists of destroyed snapshots come with their contents. Blocks freed count against the object
 * they came from while it lives, and what came of datasets and snapshots (object 0) is the pool's
 * "pending".
 *
 * A sub-tree whose top can't be read any more is given up: its space is lost until a check, nothing
 * else.
 */
#include "pool/figures.h"
#include "pool/object.h"

#define BLOCKS_PER_TXG 16384u
#define BLOCKS_PER_TXG_MIN 512u
#define SLOTS_PER_BLOCK (OBJECT_TABLE_BLOCK_BYTES / OBJECT_SLOT_BYTES)

struct freer {
	struct pool_ds *ds;
	struct pool *p;
	struct pool_tx *tx;
	int64_t budget;
	/* the object that the last blocks belonged to */
	uint64_t object, generation, sectors;
};

static void
cut_push(struct pool_ds *ds, struct cut *c)
{
	spin_lock(&ds->cut_lock);
	list_push_front(&ds->cuts, &c->link);
	ds->cut_count++;
	spin_unlock(&ds->cut_lock);
}

static struct cut *
cut_pop(struct pool_ds *ds)
{
	struct cut *c = NULL;

	spin_lock(&ds->cut_lock);
	if (!list_empty(&ds->cuts)) {
		c = list_first(&ds->cuts, struct cut, link);
		list_remove(&c->link);
		ds->cut_count--;
	}
	spin_unlock(&ds->cut_lock);
	return c;
}

void
cuts_add(struct pool_ds *ds, const struct bp *bp, uint64_t object, uint64_t generation)
{
	struct cut *c;

	if (bp_is_hole(bp)) {
		return;
	}
	c = pool_must_alloc(sizeof(*c));
	c->e.bp = *bp;
	c->e.object = le64_of(object);
	c->e.generation = le64_of(generation);
	cut_push(ds, c);
}

void
cuts_add_pending(struct pool *p, const struct bp *bp, const struct pending *what)
{
	struct pool_ds *mos = p->datasets->mos;
	struct cut *c;

	if (bp_is_hole(bp) || bp_birth(bp) <= what->min_txg) {
		return;
	}
	atomic_fetch_add(&mos->used_sectors, what->added);
	atomic_fetch_add(&mos->own_sectors, what->added);
	figures_cut(mos, what->pending);
	c = pool_must_alloc(sizeof(*c));
	c->e.bp = *bp;
	c->e.min_txg = le64_of(what->min_txg);
	c->e.flags = le32_of(what->flags);
	cut_push(mos, c);
}

/* Part of what e is; what is too old isn't. */
static void
cuts_add_below(struct pool_ds *ds, const struct bp *bp, const struct unlinked_entry *e)
{
	struct cut *c;

	if (bp_is_hole(bp) || bp_birth(bp) <= le64_get(e->min_txg)) {
		return;
	}
	c = pool_must_alloc(sizeof(*c));
	c->e = *e;
	c->e.bp = *bp;
	cut_push(ds, c);
}

void
cuts_drop(struct pool_ds *ds)
{
	struct cut *c;

	while ((c = cut_pop(ds)) != NULL) {
		mem_free(c);
	}
}

/* ---- whom it counts for ---- */

static void
owner_settle(struct freer *f)
{
	struct pool_obj *o = NULL;

	if (f->object == 0 || f->sectors == 0) {
		return;
	}
	o = obj_find(f->ds, f->object);
	if (o == NULL && obj_hold_syncing(f->ds, f->object, f->generation, &o) != 0) {
		o = NULL; /* it is gone, and its figures with it */
	}
	if (o != NULL) {
		wg_wait(&o->loaded);
		if (o->load_err == 0 && o->generation == f->generation &&
		    (o->destroy_txg == 0 || o->destroy_txg > f->tx->txg)) {
			spin_lock(&o->lock);
			o->tree.used_sectors -= f->sectors;
			atomic_store_explicit(
			    &o->used_sectors, o->tree.used_sectors, memory_order_relaxed);
			spin_unlock(&o->lock);
			obj_dirty(f->tx, o);
		}
		pool_obj_release(o);
	}
	f->sectors = 0;
}

static void
owner_count(struct freer *f, const struct unlinked_entry *e, uint64_t sectors)
{
	if (f->object != le64_get(e->object) || f->generation != le64_get(e->generation)) {
		owner_settle(f);
		f->object = le64_get(e->object);
		f->generation = le64_get(e->generation);
	}
	f->sectors += sectors;
}

static void
free_one(struct freer *f, const struct unlinked_entry *e, const struct bp *bp)
{
	uint64_t sectors = ds_free(f->ds, f->tx->txg, bp);

	owner_count(f, e, sectors);
	if (!f->ds->is_mos || le64_get(e->object) == 0) {
		figures_cut_freed(f->ds, sectors);
	}
	f->budget--;
}

/* The block of a destroyed dataset or snapshot that the MOS counts by its sectors only. */
static void
free_counted(struct freer *f, const struct bp *bp)
{
	uint64_t sectors = block_free(f->p, f->tx->txg, bp);

	atomic_fetch_sub(&f->ds->used_sectors, sectors);
	atomic_fetch_sub(&f->ds->own_sectors, sectors);
	figures_cut_freed(f->ds, sectors);
	f->budget--;
}

/* A block of a tree: who counts its data depends on what the tree was part of. */
static void
free_node(struct freer *f, const struct unlinked_entry *e, const struct bp *bp)
{
	if (le64_get(e->min_txg) != 0) {
		free_counted(f, bp);
	} else {
		free_one(f, e, bp);
	}
}

/* ---- taking one cut apart ---- */

/* 0; -ERR_CORRUPT, -ERR_CKSUM: lost; -EIO: the pool closes. */
static int
top_read(struct freer *f, const struct bp *bp, struct iobuf **out)
{
	struct bp_prop prop;
	int err = bp_decode(bp, f->p->v.set_count, &prop);

	return err != 0 ? -ERR_CORRUPT : sync_block_try(f->p, bp, prop.logical_bytes, out);
}

static int
expand_indirect(struct freer *f, const struct unlinked_entry *e, const struct bp_prop *prop)
{
	struct iobuf *node;
	const struct bp *child;
	int err = prop->logical_bytes == INDIRECT_BYTES ? top_read(f, &e->bp, &node) : -ERR_CORRUPT;

	if (err != 0) {
		return err;
	}
	child = (const struct bp *)(const void *)node->data;
	for (uint32_t i = 0; i < INDIRECT_FANOUT; i++) {
		if (bp_is_hole(&child[i]) || bp_birth(&child[i]) <= le64_get(e->min_txg)) {
			continue;
		}
		if (prop->level == 1 && prop->type != OBJ_TABLE && prop->type != OBJ_DEADLIST) {
			free_node(f, e, &child[i]);
		} else {
			cuts_add_below(f->ds, &child[i], e);
		}
	}
	iobuf_unref(node);
	free_node(f, e, &e->bp);
	return 0;
}

/* A block of a deadlist, with or without what it names. */
static int
expand_deadlist(struct freer *f, const struct unlinked_entry *e, const struct bp_prop *prop)
{
	bool contents = (le32_get(e->flags) & UNLINKED_CONTENTS) != 0;
	struct iobuf *block;
	const struct bp *bps;
	int err = contents ? top_read(f, &e->bp, &block) : 0;

	if (err != 0) {
		return err;
	}
	if (contents) {
		bps = (const struct bp *)(const void *)block->data;
		for (uint32_t i = 0; i < prop->logical_bytes / sizeof(*bps); i++) {
			struct bp_prop dead;

			if (!bp_is_hole(&bps[i]) &&
			    bp_decode(&bps[i], f->p->v.set_count, &dead) == 0) {
				free_counted(f, &bps[i]);
			}
		}
		iobuf_unref(block);
	}
	free_one(f, e, &e->bp);
	return 0;
}

static int
expand_table(struct freer *f, const struct unlinked_entry *e)
{
	struct iobuf *block;
	int err = sync_block_try(f->p, &e->bp, OBJECT_TABLE_BLOCK_BYTES, &block);

	if (err != 0) {
		return err;
	}
	for (uint32_t i = 0; i < SLOTS_PER_BLOCK; i++) {
		const struct object_slot *slot =
		    (const struct object_slot *)(const void *)(block->data + i * OBJECT_SLOT_BYTES);

		if (slot->type != OBJ_FREE && (slot->flags & OBJECT_INLINE) == 0 &&
		    tree_is_valid(f->p, &slot->data, slot->levels)) {
			cuts_add_below(f->ds, &slot->data, e);
		}
	}
	iobuf_unref(block);
	free_node(f, e, &e->bp);
	return 0;
}

/* The entries of a destroyed dataset's own unlinked set. */
static int
expand_unlinked(struct freer *f, const struct unlinked_entry *whole, const struct objset_phys *root,
    const struct tree *table)
{
	uint64_t number = le64_get(root->unlinked);
	struct object_slot slot;
	struct iobuf *block;
	struct tree tree;
	struct bp bp;
	int err;

	if (number == 0 || le64_get(root->dying_count) == 0) {
		return 0;
	}
	err = sync_tree_try(f->p, table, number / SLOTS_PER_BLOCK, &bp);
	err = err != 0 ? err : sync_block_try(f->p, &bp, OBJECT_TABLE_BLOCK_BYTES, &block);
	if (err != 0) {
		return err;
	}
	memcpy(&slot, block->data + number % SLOTS_PER_BLOCK * OBJECT_SLOT_BYTES, sizeof(slot));
	iobuf_unref(block);
	if (!tree_is_valid(f->p, &slot.data, slot.levels)) {
		return -ERR_CORRUPT;
	}
	tree = (struct tree){.root = slot.data, .levels = slot.levels};
	for (uint64_t i = 0; i < le64_get(root->dying_count); i++) {
		const struct unlinked_entry *e;

		err = sync_tree_try(f->p, &tree, i / UNLINKED_PER_BLOCK, &bp);
		err = err != 0 ? err : sync_block_try(f->p, &bp, UNLINKED_BLOCK_BYTES, &block);
		if (err != 0) {
			return err;
		}
		e = (const struct unlinked_entry *)(const void *)block->data +
		    i % UNLINKED_PER_BLOCK;
		cuts_add_below(f->ds, &e->bp, whole);
		iobuf_unref(block);
	}
	return 0;
}

static int
expand_objset(struct freer *f, const struct unlinked_entry *e)
{
	const struct objset_phys *root;
	struct iobuf *block;
	struct tree table;
	int err = top_read(f, &e->bp, &block);

	if (err != 0) {
		return err;
	}
	root = (const struct objset_phys *)(const void *)block->data;
	err = -ERR_CORRUPT;
	if (le64_get(root->magic) == OBJSET_MAGIC &&
	    tree_is_valid(f->p, &root->table.data, root->table.levels) &&
	    (root->accounts.type == OBJ_FREE ||
		tree_is_valid(f->p, &root->accounts.data, root->accounts.levels))) {
		table = (struct tree){.root = root->table.data, .levels = root->table.levels};
		err = expand_unlinked(f, e, root, &table);
		cuts_add_below(f->ds, &root->table.data, e);
		if (root->accounts.type != OBJ_FREE) {
			cuts_add_below(f->ds, &root->accounts.data, e);
		}
	}
	iobuf_unref(block);
	(void)block_free(f->p, f->tx->txg, &e->bp); /* counted by nobody */
	f->budget--;
	return err;
}

static int
cut_expand(struct freer *f, const struct unlinked_entry *e)
{
	struct bp_prop prop;
	int err = bp_decode(&e->bp, f->p->v.set_count, &prop);

	if (err == 0 && (le32_get(e->flags) & UNLINKED_ALONE) != 0) {
		free_counted(f, &e->bp);
	} else if (err == 0 && prop.level > 0) {
		err = expand_indirect(f, e, &prop);
	} else if (err == 0 && prop.type == OBJ_TABLE) {
		err = expand_table(f, e);
	} else if (err == 0 && prop.type == OBJ_OBJSET) {
		err = expand_objset(f, e);
	} else if (err == 0 && prop.type == OBJ_DEADLIST) {
		err = expand_deadlist(f, e, &prop);
	} else if (err == 0) {
		free_node(f, e, &e->bp);
	}
	if (err == -ERR_CKSUM || err == -ERR_CORRUPT) {
		log_error("free_leaked pool=%s dataset=%016llx err=%s", f->p->name,
		    (unsigned long long)f->ds->guid, err_str(err));
		return 0;
	}
	return err;
}

/* ---- the stack on the drives ---- */

static int
stack_open(struct freer *f, bool create, struct pool_obj **out)
{
	struct pool_ds *ds = f->ds;
	int err;

	if (ds->unlinked_object != 0) {
		return obj_hold_syncing(ds, ds->unlinked_object, 0, out);
	}
	if (!create) {
		return -ENOENT;
	}
	err = pool_obj_create(
	    f->tx, ds, OBJ_UNLINKED, UNLINKED_BLOCK_BYTES, OBJSET_OBJECT_UNLINKED, 0, out);
	if (err == 0) {
		ds->unlinked_object = pool_obj_number(*out);
	}
	return err;
}

static int
stack_pop(struct freer *f, struct pool_obj *stack, struct unlinked_entry *out)
{
	uint64_t i = f->ds->dying_count - 1;
	struct pool_buf *b;
	int err = dbuf_hold_syncing(stack, i / UNLINKED_PER_BLOCK, false, &b);

	if (err != 0) {
		return err;
	}
	memcpy(out, (const struct unlinked_entry *)pool_buf_data(b) + i % UNLINKED_PER_BLOCK,
	    sizeof(*out));
	pool_buf_release(b);
	f->ds->dying_count--;
	return 0;
}

static int
stack_push(struct freer *f, struct pool_obj *stack, const struct unlinked_entry *e)
{
	uint64_t i = f->ds->dying_count;
	struct pool_buf *b;
	int err = dbuf_hold_syncing(stack, i / UNLINKED_PER_BLOCK, true, &b);

	if (err != 0) {
		return err;
	}
	((struct unlinked_entry *)pool_buf_dirty(f->tx, b))[i % UNLINKED_PER_BLOCK] = *e;
	pool_buf_release(b);
	f->ds->dying_count++;
	return 0;
}

static int
work_off(struct freer *f, struct pool_obj *stack)
{
	int err = 0;

	while (f->budget > 0 && err == 0) {
		struct cut *c = cut_pop(f->ds);
		struct unlinked_entry e;

		if (c != NULL) {
			e = c->e;
			mem_free(c);
		} else if (stack != NULL && f->ds->dying_count > 0) {
			err = stack_pop(f, stack, &e);
		} else {
			break;
		}
		err = err != 0 ? err : cut_expand(f, &e);
		fiber_maybe_yield();
	}
	owner_settle(f);
	return err;
}

/* Oldest first, so that the newest (deepest) are on top again. */
static int
put_back(struct freer *f, struct pool_obj *stack)
{
	int err = 0;

	while (err == 0 && !list_empty(&f->ds->cuts)) {
		struct cut *c = list_entry(f->ds->cuts.prev, struct cut, link);

		list_remove(&c->link);
		f->ds->cut_count--;
		err = stack_push(f, stack, &c->e);
		mem_free(c);
	}
	return err;
}

/* How many blocks a txg frees: each is a record in the map log, which takes room before any of it
 * is back. So in a full pool there are fewer. */
static int64_t
txg_budget(struct pool *p)
{
	struct space_info info;
	uint64_t most;

	if (BUGGIFY("pool-free-slowly")) {
		return 3;
	}
	space_get_info(p->space, &info);
	most = 2 * (info.total_sectors - MIN(info.used_sectors, info.total_sectors));
	return (int64_t)MIN(MAX(most, (uint64_t)BLOCKS_PER_TXG_MIN), (uint64_t)BLOCKS_PER_TXG);
}

int
cuts_sync(struct pool_ds *ds, struct pool_tx *tx, bool *out_left)
{
	struct freer f = {.ds = ds, .p = ds->p, .tx = tx, .budget = txg_budget(ds->p)};
	struct pool_obj *stack = NULL;
	int err = 0;

	*out_left = false;
	if (ds->cut_count == 0 && ds->dying_count == 0) {
		return 0;
	}
	if (ds->unlinked_object != 0) {
		err = stack_open(&f, false, &stack);
	}
	err = err != 0 ? err : work_off(&f, stack);
	if (err == 0 && ds->cut_count > 0) {
		err = stack == NULL ? stack_open(&f, true, &stack) : 0;
		err = err != 0 ? err : put_back(&f, stack);
	}
	if (stack != NULL) {
		pool_obj_release(stack);
	}
	*out_left = ds->dying_count > 0;
	if (err == 0 && !*out_left) {
		atomic_store(&ds->pending_sectors, 0); /* what was estimated too high */
	}
	return err;
}
