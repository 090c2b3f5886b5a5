/*
 * diff.c - which objects differ between two snapshots, of which one comes before the other.
 *
 * A block of the later one that was born up to the txg of the earlier one is the earlier one's too,
 * at the same place of the same tree: blocks don't move. A parent is never older than what is below
 * it, and a hole knows when it was made. So the walk over the later table of objects passes over
 * every sub-tree that is old enough, and costs what was changed.
 *
 * A step holds nothing when it returns. It is counted as a reader and has then looked whether both
 * are still there: what is freed later can't be used again before it is through.
 */
#include "pool/block_int.h"
#include "pool/rooted.h"
#include "pool/snap.h"

struct table_walk {
	struct pool *p;
	struct tree from, to;
	uint64_t min_txg;
	uint64_t at; /* the block to begin with */
};

static struct tree
table_of(struct pool_ds *ds)
{
	struct tree t;

	spin_lock(&ds->table_lock);
	t = ds->table;
	spin_unlock(&ds->table_lock);
	return t;
}

/* Is from to itself, or before it, in its chain or the one it was cloned from...? */
int
pool_diff_check(struct pool_ds *from, struct pool_ds *to)
{
	struct pool *p = to->p;
	const struct snap *a, *b;
	int err = -EINVAL;

	if (from->p != p || !pool_ds_is_snap(from) || !pool_ds_is_snap(to)) {
		return -EINVAL;
	}
	mutex_lock(&p->datasets->lock);
	a = from->snap;
	b = to->snap;
	if (a == NULL || b == NULL || a->dying || b->dying) {
		b = NULL;
		err = -ESTALE;
	}
	while (b != NULL && b->head != a->head) {
		b = chain_owner(b->head)->origin;
	}
	if (b != NULL && a->create_txg <= b->create_txg) {
		err = 0;
	}
	mutex_unlock(&p->datasets->lock);
	return err;
}

/* Child i of an indirect block. */
static int
kid_of(struct pool *p, const struct iobuf *node, uint64_t i, uint8_t level, struct bp *out)
{
	struct bp_prop prop;

	memcpy(out, node->data + i * sizeof(*out), sizeof(*out));
	if (bp_decode(out, p->v.set_count, &prop) != 0) {
		return -ERR_CORRUPT;
	}
	return bp_is_hole(out) || prop.level == level ? 0 : -ERR_CORRUPT;
}

static int
node_read(struct pool *p, const struct bp *bp, struct iobuf **out)
{
	int err = block_read(p, bp, BLOCK_READ_META, out);

	if (err == 0 && (*out)->cap_bytes < INDIRECT_BYTES) {
		iobuf_unref(*out);
		err = -ERR_CORRUPT;
	}
	return err;
}

/* The first block below bp, of [lo, hi), that isn't a hole. -ENOENT. Recursion ends with the
 * levels. */
static int
first_present(struct pool *p, const struct bp *bp, uint8_t level, uint64_t index,
    const struct block_range *r, uint64_t *out)
{
	struct iobuf *node;
	int err;

	if (bp_is_hole(bp)) {
		return -ENOENT;
	}
	if (level == 0) {
		*out = index;
		return 0;
	}
	err = node_read(p, bp, &node);
	if (err != 0) {
		return err;
	}
	err = -ENOENT;
	for (uint64_t i = 0; i < INDIRECT_FANOUT && err == -ENOENT; i++) {
		uint64_t child = (index << INDIRECT_SHIFT) + i;
		unsigned shift = INDIRECT_SHIFT * (level - 1u);
		struct bp kid;

		if ((child + 1) << shift <= r->from || child << shift >= r->to) {
			continue;
		}
		err = kid_of(p, node, i, (uint8_t)(level - 1), &kid);
		if (err == 0) {
			err = first_present(p, &kid, (uint8_t)(level - 1), child, r, out);
		}
	}
	iobuf_unref(node);
	return err;
}

/* The first block from w->at on below bp of the later table that may have changed. -ENOENT. */
static int
first_born(struct table_walk *w, const struct bp *bp, uint8_t level, uint64_t index, uint64_t *out)
{
	unsigned shift = INDIRECT_SHIFT * level;
	struct iobuf *node;
	int err;

	if (bp_birth(bp) <= w->min_txg || (index + 1) << shift <= w->at) {
		return -ENOENT;
	}
	if (level == 0) {
		*out = index;
		return 0;
	}
	if (bp_is_hole(bp)) {
		struct block_range r = {MAX(w->at, index << shift), (index + 1) << shift};

		return first_present(
		    w->p, &w->from.root, (uint8_t)(w->from.levels - 1), 0, &r, out);
	}
	err = node_read(w->p, bp, &node);
	if (err != 0) {
		return err;
	}
	err = -ENOENT;
	for (uint64_t i = 0; i < INDIRECT_FANOUT && err == -ENOENT; i++) {
		struct bp kid;

		err = kid_of(w->p, node, i, (uint8_t)(level - 1), &kid);
		if (err == 0) {
			err = first_born(
			    w, &kid, (uint8_t)(level - 1), (index << INDIRECT_SHIFT) + i, out);
		}
	}
	iobuf_unref(node);
	return err;
}

/* The slots of one block of a table; of a hole free ones. */
static int
slots_read(struct pool *p, const struct tree *table, uint64_t block,
    struct object_slot out[POOL_DIFF_SLOTS])
{
	struct iobuf *buf;
	struct bp bp;
	int err = tree_lookup(p, table, 0, block, NULL, &bp);

	memset(out, 0, POOL_DIFF_SLOTS * sizeof(*out));
	if (err != 0 || bp_is_hole(&bp)) {
		return err;
	}
	err = block_read(p, &bp, BLOCK_READ_META, &buf);
	if (err != 0) {
		return err;
	}
	if (buf->cap_bytes < OBJECT_TABLE_BLOCK_BYTES) {
		err = -ERR_CORRUPT;
	} else {
		memcpy(out, buf->data, OBJECT_TABLE_BLOCK_BYTES);
	}
	iobuf_unref(buf);
	for (uint32_t i = 0; i < POOL_DIFF_SLOTS && err == 0; i++) {
		err = out[i].type != OBJ_FREE ? rooted_slot_check(&out[i]) : 0;
	}
	return err;
}

STATIC_ASSERT(POOL_DIFF_SLOTS *OBJECT_SLOT_BYTES == OBJECT_TABLE_BLOCK_BYTES);

static int
diff_step(struct table_walk *w, struct pool_diff *out)
{
	uint64_t block = 0;
	int err = first_born(w, &w->to.root, (uint8_t)(w->to.levels - 1), 0, &block);

	if (err == 0) {
		out->first = block * POOL_DIFF_SLOTS;
		err = slots_read(w->p, &w->from, block, out->from);
	}
	return err != 0 ? err : slots_read(w->p, &w->to, block, out->to);
}

int
pool_diff_next(struct pool_ds *from, struct pool_ds *to, uint64_t object, struct pool_diff *out)
{
	struct table_walk w = {.p = to->p,
	    .from = table_of(from),
	    .to = table_of(to),
	    .min_txg = from->create_txg,
	    .at = (object + POOL_DIFF_SLOTS - 1) / POOL_DIFF_SLOTS};
	uint64_t token = space_read_enter(w.p->space);
	int err = atomic_load(&from->destroyed) || atomic_load(&to->destroyed) ? -ESTALE
									       : diff_step(&w, out);

	space_read_exit(w.p->space, token);
	return err;
}

int
pool_obj_block_birth(struct pool_obj *o, uint64_t block, uint64_t *out)
{
	struct pool *p = o->ds->p;
	uint64_t token = space_read_enter(p->space);
	struct tree t;
	struct bp bp;
	int err;

	spin_lock(&o->lock);
	t = o->tree;
	spin_unlock(&o->lock);
	err = pool_obj_is_stale(o) ? -ESTALE : tree_lookup(p, &t, 0, block, NULL, &bp);
	space_read_exit(p->space, token);
	if (err == 0) {
		*out = bp_is_hole(&bp) ? 0 : bp_birth(&bp);
	}
	return err;
}
