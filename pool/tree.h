/*
 * tree.h - the tree of block pointers of one object: look-up by anybody, update by the syncing fiber.
 * Private to pool/. Theory: tree.c (look-up), tree_update.c (update).
 */
#ifndef AGATE_POOL_TREE_H
#define AGATE_POOL_TREE_H

#include "pool/block.h"
#include "pool/pool_int.h"

#define INDIRECT_FANOUT 256u
STATIC_ASSERT(INDIRECT_FANOUT == 1u << INDIRECT_SHIFT);
STATIC_ASSERT(INDIRECT_BYTES == INDIRECT_FANOUT * sizeof(struct bp));

struct tree {
	struct bp root;
	uint8_t levels;        /* 1: root points to block 0 */
	uint64_t used_sectors; /* of all its blocks, gang children included */
};

/* Remembers the level-1 block of the last look-up. Zero it first; drop it at the end. Valid for one state of the tree. */
struct tree_cursor {
	struct iobuf *leaf;
	uint64_t index; /* block >> INDIRECT_SHIFT that leaf covers */
};
void tree_cursor_drop(struct tree_cursor *c);

/* Largest block number + 1 that so many levels reach. */
uint64_t tree_reach(uint8_t levels);
/* The bp of node `index` of `level` (0: data). A hole where nothing is. cur may be NULL; used for level 0. flags as for block_read. The caller is
 * inside space_read_enter or is the syncing fiber. 0; errors of block_read; -ERR_CORRUPT. */
int tree_lookup(struct pool *p, const struct tree *t, uint8_t level, uint64_t index, struct tree_cursor *cur, struct bp *out) WARN_UNUSED MAY_PARK;
/* The same for data when every block on the way is in the cache: 0, or -EAGAIN. Never parks. */
int tree_lookup_cached(struct pool *p, const struct tree *t, uint64_t block, struct bp *out) WARN_UNUSED;
/* Does an object slot or objset that came from a drive have a possible tree? */
bool tree_is_valid(struct pool *p, const struct bp *root, uint8_t levels);

struct block_range {
	uint64_t from, to; /* blocks [from, to) */
};
/* A new bp for a data block; sorted by block, each once. */
struct tree_leaf {
	uint64_t block;
	struct bp bp;
	uint64_t sectors;
};
struct tree_owner {        /* whose tree: where frees are counted and cut sub-trees go */
	struct pool_ds *ds;
	uint64_t txg;
	uint64_t object, generation;
	uint8_t type;
	uint8_t copies;        /* of indirect blocks */
	enum bp_cksum cksum;
	bool unshared;         /* no snapshot can have a block of it: what is cut off comes back */
};
/*
 * tree_update - t without the blocks of ranges, then with leaves. ranges before leaves: a leaf inside a range stays. Frees what is replaced
 * (ds_free), cuts off what is removed (cuts_add). Only the syncing fiber and its workers. -EIO: the pool closes.
 */
int tree_update(const struct tree_owner *o, struct tree *t, const struct tree_leaf *leaves, uint32_t leaf_count,
    const struct block_range *ranges, uint32_t range_count) WARN_UNUSED MAY_PARK;

/* tree_lookup and block_read for the syncing fiber, which has nobody to report to: suspends the pool and tries again until it works. -EIO: the pool closes. */
int sync_tree_lookup(struct pool *p, const struct tree *t, uint8_t level, uint64_t index, struct bp *out) WARN_UNUSED MAY_PARK;
int sync_block_read(struct pool *p, const struct bp *bp, struct iobuf **out) WARN_UNUSED MAY_PARK;
/* The same where what is damaged may be done without: waits for drives, not for damage. -ERR_CKSUM, -ERR_CORRUPT (also: a hole, another size). */
int sync_tree_try(struct pool *p, const struct tree *t, uint64_t block, struct bp *out) WARN_UNUSED MAY_PARK;
int sync_block_try(struct pool *p, const struct bp *bp, uint32_t logical_bytes, struct iobuf **out) WARN_UNUSED MAY_PARK;
/* block_read of a block that must have that size: else -ERR_CORRUPT. */
int block_read_sized(struct pool *p, const struct bp *bp, uint32_t logical_bytes, struct iobuf **out) WARN_UNUSED MAY_PARK;

#endif
