/*
 * tree.c - finding the block pointer of a block.
 *
 * With n levels the root points to one node of level n - 1; a node of level k > 0 is an indirect
 * block of 256 pointers to level k - 1; level 0 is data. Node i of level k covers blocks [i *
 * 256^k, (i + 1) * 256^k). A hole anywhere stands for holes all below it. Indirect blocks come
 * through the cache like any other block; who looks up works on a copy of struct tree, taken under
 * the object's lock.
 */
#include "pool/tree.h"

#include "pool/suspend.h"

uint64_t
tree_reach(uint8_t levels)
{
	return (uint64_t)1 << (INDIRECT_SHIFT * (levels - 1));
}

bool
tree_is_valid(struct pool *p, const struct bp *root, uint8_t levels)
{
	struct bp_prop prop;

	if (levels < 1 || levels > OBJECT_LEVELS_MAX ||
	    bp_decode(root, p->v.set_count, &prop) != 0) {
		return false;
	}
	return bp_is_hole(root) ||
	       (prop.level == levels - 1 && (levels == 1 || prop.logical_bytes == INDIRECT_BYTES));
}

void
tree_cursor_drop(struct tree_cursor *c)
{
	iobuf_unref(c->leaf);
	c->leaf = NULL;
}

static const struct bp *
child_of(const struct iobuf *node, uint64_t index)
{
	return &((const struct bp *)(const void *)node->data)[index & (INDIRECT_FANOUT - 1)];
}

/* A node's child must be a hole or a block of the level below; indirect blocks have one size. */
static bool
child_is_valid(struct pool *p, const struct bp *bp, uint8_t level)
{
	struct bp_prop prop;

	if (bp_decode(bp, p->v.set_count, &prop) != 0) {
		return false;
	}
	if (bp_is_hole(bp)) {
		return true;
	}
	return prop.level == level && (level == 0 || prop.logical_bytes == INDIRECT_BYTES);
}

static bool
cursor_hit(const struct tree_cursor *cur, const struct tree *t, uint8_t level, uint64_t index)
{
	return cur != NULL && cur->leaf != NULL && level == 0 && t->levels > 1 &&
	       cur->index == index >> INDIRECT_SHIFT;
}

int
tree_lookup(struct pool *p, const struct tree *t, uint8_t level, uint64_t index,
    struct tree_cursor *cur, struct bp *out)
{
	struct bp bp = t->root;

	if (level >= t->levels || index >= tree_reach((uint8_t)(t->levels - level))) {
		bp_set_hole(out, 0);
		return 0;
	}
	if (cursor_hit(cur, t, level, index)) {
		*out = *child_of(cur->leaf, index);
		return 0;
	}
	for (uint8_t at = (uint8_t)(t->levels - 1); at > level; at--) {
		struct iobuf *node;
		uint64_t child = index >> (INDIRECT_SHIFT * (unsigned)(at - 1 - level));
		int err;

		if (bp_is_hole(&bp)) {
			break;
		}
		err = block_read(p, &bp, BLOCK_READ_META, &node);
		if (err != 0) {
			return err;
		}
		bp = *child_of(node, child);
		if (!child_is_valid(p, &bp, (uint8_t)(at - 1))) {
			iobuf_unref(node);
			return -ERR_CORRUPT;
		}
		if (at == 1 && cur != NULL) {
			tree_cursor_drop(cur);
			cur->leaf = node;
			cur->index = index >> INDIRECT_SHIFT;
		} else {
			iobuf_unref(node);
		}
	}
	*out = bp;
	return 0;
}

int
tree_lookup_cached(struct pool *p, const struct tree *t, uint64_t block, struct bp *out)
{
	struct bp bp = t->root;

	if (block >= tree_reach(t->levels)) {
		bp_set_hole(out, 0);
		return 0;
	}
	for (uint8_t at = (uint8_t)(t->levels - 1); at > 0 && !bp_is_hole(&bp); at--) {
		struct iobuf *node = block_peek(p, &bp);

		if (node == NULL) {
			return -EAGAIN;
		}
		bp = *child_of(node, block >> (INDIRECT_SHIFT * (unsigned)(at - 1)));
		iobuf_unref(node);
		if (!child_is_valid(p, &bp, (uint8_t)(at - 1))) {
			return -EAGAIN; /* the careful way reports it */
		}
	}
	*out = bp;
	return 0;
}

int
sync_block_read(struct pool *p, const struct bp *bp, struct iobuf **out)
{
	int err = block_read(p, bp, BLOCK_READ_META, out);

	while (err != 0 && pool_suspend_wait(p, "metadata") == 0) {
		err = block_read(p, bp, BLOCK_READ_META, out);
	}
	return err;
}

int
sync_tree_lookup(
    struct pool *p, const struct tree *t, uint8_t level, uint64_t index, struct bp *out)
{
	int err = tree_lookup(p, t, level, index, NULL, out);

	while (err != 0 && pool_suspend_wait(p, "metadata") == 0) {
		err = tree_lookup(p, t, level, index, NULL, out);
	}
	return err;
}

static bool
is_damage(int err)
{
	return err == -ERR_CKSUM || err == -ERR_CORRUPT;
}

int
block_read_sized(struct pool *p, const struct bp *bp, uint32_t logical_bytes, struct iobuf **out)
{
	struct bp_prop prop;

	if (bp_is_hole(bp) || bp_decode(bp, p->v.set_count, &prop) != 0 ||
	    prop.logical_bytes != logical_bytes) {
		return -ERR_CORRUPT;
	}
	return block_read(p, bp, BLOCK_READ_META, out);
}

int
sync_tree_try(struct pool *p, const struct tree *t, uint64_t block, struct bp *out)
{
	int err = tree_lookup(p, t, 0, block, NULL, out);

	while (err != 0 && !is_damage(err) && pool_suspend_wait(p, "metadata") == 0) {
		err = tree_lookup(p, t, 0, block, NULL, out);
	}
	return err;
}

int
sync_block_try(struct pool *p, const struct bp *bp, uint32_t logical_bytes, struct iobuf **out)
{
	int err = block_read_sized(p, bp, logical_bytes, out);

	while (err != 0 && !is_damage(err) && pool_suspend_wait(p, "metadata") == 0) {
		err = block_read_sized(p, bp, logical_bytes, out);
	}
	return err;
}
