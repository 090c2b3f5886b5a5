/*
 * tree_update.c - the syncing fiber's change of one tree, level by level from the data upwards.
 *
 * Input are new pointers of data blocks (leaves) and ranges that are gone. A range is split into
 * pieces per level ("cuts"): what doesn't fill a node of level 1 is cut at level 0, what of the
 * rest doesn't fill a node of level 2 at level 1, and so on; so a range costs at most two partly
 * filled nodes a level, however long it is. A node that is cut goes away with everything below:
 * data is freed at once, a sub-tree goes to the dataset's free queue.
 *
 * At each level, the parents of all new nodes and of all cuts are rebuilt: old contents (nothing,
 * if the parent itself lies in a cut of a higher level), minus the cuts, plus the new nodes. They
 * are the new nodes of the next level. A parent without children becomes a hole. When the tree
 * grows, the old root becomes child 0 of the first node above it.
 *
 * Nothing in place changes: *t is set at the very end, so a reader with the old struct tree sees
 * the old tree, whose blocks are freed in this txg but not reused before the reader has left.
 */
#include "pool/dataset.h"
#include "pool/figures.h"

#include <stdlib.h>

#define BATCH_NODES 16u

struct node {
	uint64_t index;
	struct bp bp;
	uint64_t sectors;
};

struct nodes {
	struct node *v;
	uint32_t count;
};

struct update {
	const struct tree_owner *o;
	struct pool *p;
	struct tree old;
	uint8_t levels; /* of the new tree */
	struct block_range *cuts[OBJECT_LEVELS_MAX];
	uint32_t cut_count[OBJECT_LEVELS_MAX];
	uint64_t added, freed; /* set sectors */
	uint64_t cut_fill;     /* blocks of data below what was cut off */
};

/* ---- cuts ---- */

static void
cut_push(struct update *u, uint8_t level, uint64_t from, uint64_t to)
{
	if (from < to) {
		u->cuts[level][u->cut_count[level]++] = (struct block_range){from, to};
	}
}

static void
range_split(struct update *u, struct block_range r)
{
	uint8_t top = (uint8_t)(u->old.levels - 1);

	r.to = MIN(r.to, tree_reach(u->old.levels));
	for (uint8_t level = 0; r.from < r.to; level++) {
		uint64_t up = ALIGN_UP(r.from, (uint64_t)INDIRECT_FANOUT);
		uint64_t down = ALIGN_DOWN(r.to, (uint64_t)INDIRECT_FANOUT);

		if (level == top || up > down) {
			cut_push(u, level, r.from, r.to);
			return;
		}
		cut_push(u, level, r.from, up);
		cut_push(u, level, down, r.to);
		r.from = up >> INDIRECT_SHIFT;
		r.to = down >> INDIRECT_SHIFT;
	}
}

static bool
cut_has(const struct update *u, uint8_t level, uint64_t index)
{
	for (uint32_t i = 0; i < u->cut_count[level]; i++) {
		if (index >= u->cuts[level][i].from && index < u->cuts[level][i].to) {
			return true;
		}
	}
	return false;
}

/* Does node `index` of `level` go away as a whole, by a cut there or above? */
static bool
cut_covers(const struct update *u, uint8_t level, uint64_t index)
{
	for (uint8_t at = level; at < u->old.levels; at++) {
		if (cut_has(u, at, index >> (INDIRECT_SHIFT * (unsigned)(at - level)))) {
			return true;
		}
	}
	return false;
}

/* ---- what goes ---- */

static void
node_free(struct update *u, const struct bp *old)
{
	if (!bp_is_hole(old)) {
		u->freed += ds_free(u->o->ds, u->o->txg, old);
	}
}

static void
node_cut(struct update *u, uint8_t level, const struct bp *old)
{
	if (level == 0) {
		node_free(u, old);
	} else if (!bp_is_hole(old)) {
		u->cut_fill += le64_get(old->fill);
		cuts_add(u->o->ds, old, u->o->object, u->o->generation);
	}
}

/* ---- one parent ---- */

/* A parent made anew stands for what was one hole: its children are holes of the same birth. */
static void
parent_fill(struct bp *bps, uint64_t birth)
{
	for (uint32_t c = 0; c < INDIRECT_BYTES / sizeof(*bps); c++) {
		bp_set_hole(&bps[c], birth);
	}
}

/* Old contents of parent `index` at `level` into bps. */
static int
parent_read(struct update *u, uint8_t level, uint64_t index, struct bp *bps)
{
	struct iobuf *node;
	struct bp bp;
	int err;

	if (level >= u->old.levels) {
		/* what height the object had before is forgotten: all may have been something until
		 * now */
		parent_fill(bps, u->o->txg);
		if (level == u->old.levels && index == 0) {
			bps[0] = u->old.root;
		}
		return 0;
	}
	if (cut_covers(u, level, index)) {
		parent_fill(bps, u->o->txg);
		return 0;
	}
	err = sync_tree_lookup(u->p, &u->old, level, index, &bp);
	if (err != 0) {
		return err;
	}
	if (bp_is_hole(&bp)) {
		parent_fill(bps, bp_birth(&bp));
		return 0;
	}
	err = sync_block_read(u->p, &bp, &node);
	if (err == 0) {
		memcpy(bps, node->data, INDIRECT_BYTES);
		iobuf_unref(node);
	}
	return err;
}

/* Cuts first, then the new nodes from *pos on that belong to this parent. Returns the new fill. */
static uint64_t
parent_apply(struct update *u, uint8_t child_level, uint64_t index, struct bp *bps,
    const struct nodes *kids, uint32_t *pos)
{
	uint64_t first = index << INDIRECT_SHIFT;
	uint64_t fill = 0;

	for (uint32_t i = 0; i < u->cut_count[child_level]; i++) {
		uint64_t from = MAX(u->cuts[child_level][i].from, first);
		uint64_t to = MIN(u->cuts[child_level][i].to, first + INDIRECT_FANOUT);

		for (uint64_t c = from; c < to; c++) {
			node_cut(u, child_level, &bps[c - first]);
			bp_set_hole(&bps[c - first], u->o->txg);
		}
	}
	while (*pos < kids->count && kids->v[*pos].index >> INDIRECT_SHIFT == index) {
		const struct node *kid = &kids->v[(*pos)++];

		node_free(u, &bps[kid->index - first]);
		bps[kid->index - first] = kid->bp;
		u->added += kid->sectors;
	}
	for (uint32_t c = 0; c < INDIRECT_FANOUT; c++) {
		fill += le64_get(bps[c].fill);
	}
	return fill;
}

/* ---- one level ---- */

static int
index_order(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return x < y ? -1 : x > y;
}

/* Indexes of the parents to rebuild, sorted, each once. */
static uint64_t *
parents_of(
    const struct update *u, uint8_t child_level, const struct nodes *kids, uint32_t *out_count)
{
	uint64_t *v =
	    pool_must_alloc((kids->count + 2 * u->cut_count[child_level] + 1) * sizeof(*v));
	uint32_t n = 0, unique = 0;

	for (uint32_t i = 0; i < kids->count; i++) {
		v[n++] = kids->v[i].index >> INDIRECT_SHIFT;
	}
	for (uint32_t i = 0; i < u->cut_count[child_level]; i++) {
		v[n++] = u->cuts[child_level][i].from >> INDIRECT_SHIFT;
		v[n++] = (u->cuts[child_level][i].to - 1) >> INDIRECT_SHIFT;
	}
	if (child_level + 1 == u->old.levels && !bp_is_hole(&u->old.root)) {
		v[n++] = 0; /* the old root finds its place */
	}
	qsort(v, n, sizeof(*v), index_order);
	for (uint32_t i = 0; i < n; i++) {
		if (unique == 0 || v[unique - 1] != v[i]) {
			v[unique++] = v[i];
		}
	}
	*out_count = unique;
	return v;
}

static void
parent_prepare_write(const struct update *u, uint8_t level, uint64_t fill, struct iobuf *buf,
    struct node *to, struct block_write *w)
{
	*w = (struct block_write){
	    .data = buf,
	    .logical_bytes = INDIRECT_BYTES,
	    .type = u->o->type,
	    .level = level,
	    .compress = BP_COMPRESS_LZ4,
	    .cksum = u->o->cksum,
	    .copies = u->o->copies,
	    .fill = fill,
	    .out = &to->bp,
	};
}

/* Up to BATCH_NODES parents from idx on; the new nodes go to out. */
static int
parents_write(struct update *u, uint8_t level, const uint64_t *idx, uint32_t count,
    const struct nodes *kids, uint32_t *pos, struct node *out)
{
	struct block_write w[BATCH_NODES];
	struct node *target[BATCH_NODES];
	uint32_t n = 0;
	int err = 0;

	for (uint32_t i = 0; i < count && err == 0; i++) {
		struct iobuf *buf;
		uint64_t fill;

		out[i].index = idx[i];
		err = iobuf_alloc(INDIRECT_BYTES, ARENA_SYNC, &buf);
		if (err != 0) {
			break;
		}
		err = parent_read(u, level, idx[i], (struct bp *)(void *)buf->data);
		if (err != 0) {
			iobuf_unref(buf);
			break;
		}
		fill = parent_apply(
		    u, (uint8_t)(level - 1), idx[i], (struct bp *)(void *)buf->data, kids, pos);
		if (fill == 0) {
			bp_set_hole(&out[i].bp, u->o->txg);
			iobuf_unref(buf);
			continue;
		}
		target[n] = &out[i];
		parent_prepare_write(u, level, fill, buf, &out[i], &w[n++]);
	}
	if (err == 0) {
		err = block_write(u->p, u->o->txg, w, n);
	}
	for (uint32_t i = 0; i < n; i++) {
		target[i]->sectors = w[i].sectors;
		iobuf_unref(w[i].data);
	}
	return err;
}

/* Rebuilds the parents (of `level`) of kids, which become the kids of the next level. */
static int
level_update(struct update *u, uint8_t level, struct nodes *kids)
{
	struct nodes up = {0};
	uint32_t count, pos = 0;
	uint64_t *idx = parents_of(u, (uint8_t)(level - 1), kids, &count);
	int err = 0;

	up.v = pool_must_alloc((count + 1) * sizeof(*up.v));
	while (up.count < count && err == 0) {
		uint32_t n = MIN(count - up.count, BATCH_NODES);

		err = parents_write(u, level, idx + up.count, n, kids, &pos, up.v + up.count);
		up.count += n;
	}
	mem_free(idx);
	mem_free(kids->v);
	*kids = up;
	return err;
}

/* ---- the whole ---- */

static uint8_t
levels_for(uint8_t levels, uint64_t block)
{
	while (block >= tree_reach(levels)) {
		levels++;
	}
	return levels;
}

/* The new root, when the tree has as many levels as before and so the old root is still one. */
static void
root_replace(struct update *u, const struct nodes *top, struct tree *t)
{
	uint8_t level = (uint8_t)(u->old.levels - 1);

	if (u->levels == u->old.levels) {
		if (cut_has(u, level, 0)) {
			node_cut(u, level, &u->old.root);
			bp_set_hole(&t->root, u->o->txg);
		} else if (top->count > 0) {
			node_free(u, &u->old.root);
		}
	}
	if (top->count > 0) {
		ASSERT(top->count == 1 && top->v[0].index == 0);
		t->root = top->v[0].bp;
		u->added += top->v[0].sectors;
		t->levels = u->levels;
	}
	if (bp_is_hole(&t->root)) {
		t->levels = 1;
	}
}

/* What was cut off still counts as the object's: its part, by the number of blocks. */
static void
note_cut(const struct update *u, const struct tree *t)
{
	uint64_t left = bp_is_hole(&t->root) ? 0 : le64_get(t->root.fill);

	if (u->cut_fill > 0 && u->o->unshared && !u->o->ds->is_mos) {
		figures_cut(u->o->ds, (uint64_t)((double)t->used_sectors * (double)u->cut_fill /
						 (double)(u->cut_fill + left)));
	}
}

int
tree_update(const struct tree_owner *o, struct tree *t, const struct tree_leaf *leaves,
    uint32_t leaf_count, const struct block_range *ranges, uint32_t range_count)
{
	struct update u = {.o = o, .p = o->ds->p, .old = *t, .levels = t->levels};
	struct nodes kids = {0};
	int err = 0;

	for (uint8_t i = 0; i < OBJECT_LEVELS_MAX; i++) {
		u.cuts[i] =
		    range_count > 0 ? pool_must_alloc(2 * range_count * sizeof(*u.cuts[i])) : NULL;
	}
	for (uint32_t i = 0; i < range_count; i++) {
		range_split(&u, ranges[i]);
	}
	kids.v = pool_must_alloc((leaf_count + 1) * sizeof(*kids.v));
	for (uint32_t i = 0; i < leaf_count; i++) {
		kids.v[i] = (struct node){leaves[i].block, leaves[i].bp, leaves[i].sectors};
	}
	kids.count = leaf_count;
	if (leaf_count > 0) {
		u.levels = levels_for(t->levels, leaves[leaf_count - 1].block);
	}
	for (uint8_t level = 1; level < u.levels && err == 0; level++) {
		err = level_update(&u, level, &kids);
	}
	if (err == 0) {
		root_replace(&u, &kids, t);
		t->used_sectors = t->used_sectors + u.added - u.freed;
		ds_count_added(o->ds, u.added);
		note_cut(&u, t);
	}
	for (uint8_t i = 0; i < OBJECT_LEVELS_MAX; i++) {
		mem_free(u.cuts[i]);
	}
	mem_free(kids.v);
	return err;
}
