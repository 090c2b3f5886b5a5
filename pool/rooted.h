/*
 * rooted.h - read objects below a committed root by block pointers alone: no object is held, no lock
 * taken. For what must not depend on the object layer: loading segments in the middle of a sync,
 * check, import. The caller is inside space_read_enter, or the root can't move. Private to pool/.
 */
#ifndef AGATE_POOL_ROOTED_H
#define AGATE_POOL_ROOTED_H

#include "pool/block.h"

/* The objset root block behind bp, checked, in a buffer. -ERR_CORRUPT; errors of block_read. */
int rooted_objset(struct pool *p, const struct bp *bp, struct iobuf **out) WARN_UNUSED MAY_PARK;
/* Slot of an object in the objset behind bp. -ENOENT: beyond the table, or free. */
int rooted_slot(struct pool *p, const struct bp *objset, uint64_t object,
    struct object_slot *out) WARN_UNUSED MAY_PARK;
/* Block pointer of data block `block` of slot; a hole when there is none. */
int rooted_bp(struct pool *p, const struct object_slot *slot, uint64_t block,
    struct bp *out) WARN_UNUSED MAY_PARK;
/* Bytes [off, off + len) of slot's data; zeros where nothing was written. */
int rooted_read(struct pool *p, const struct object_slot *slot, uint64_t off, void *out,
    uint64_t len) WARN_UNUSED MAY_PARK;
/* Levels and block size of a slot that came from a drive. */
int rooted_slot_check(const struct object_slot *slot) WARN_UNUSED;

#endif
