/* drive.h - shared by drive.c, drive_admin.c and spare.c. Private to pool/. */
#ifndef AGATE_POOL_DRIVE_H
#define AGATE_POOL_DRIVE_H

#include "pool/vdev.h"

/* By its guid; NULL. Under config_lock. */
struct vdev_drive *drive_member(struct pool *p, const struct guid *guid);
/* -EINVAL with why: it is too small for a column of the set. */
int drive_check_room(const struct pool *p, uint32_t set_index, struct kb_drive *d, char *why, size_t why_len) WARN_UNUSED;
/* No block is read from or written to the old descriptor of a column any more when this returns; m has none. Under config_lock. */
void drive_let_go(struct pool *p, struct vdev_drive *m) MAY_PARK;
/* d: new to the pool, there, lacking everything. Its place is the caller's. Under config_lock. */
void drive_blank(struct pool *p, struct vdev_drive *d, struct kb_drive *kb, const struct guid *guid);
/* What becomes of a drive that is no member any more (a copy of its entry; durable: nobody finds it as one): a spare again, or its labels are
 * erased. Its descriptor, for drive_give_free, which has to follow; NULL. Under config_lock. */
struct kb_drive *drive_dismiss(struct pool *p, const struct vdev_drive *gone, bool durable) MAY_PARK;
/* It may be used for something else, once the ring doesn't write to it. Under no lock. */
void drive_give_free(struct pool *p, struct kb_drive *kb) MAY_PARK;
/* Closes descriptors that were retired and that nobody uses any more. On the heartbeat's fiber. */
void retired_look(struct pool *p) MAY_PARK;
/* GPT, and nothing where labels are. */
int drive_wipe(struct kb_drive *d, const struct guid *guid, uint64_t region_bytes) WARN_UNUSED MAY_PARK;

/* spare.c: a former member waits as a spare. Under config_lock; the pool owns d in any case. */
void spare_give(struct pool *p, struct kb_drive *d) MAY_PARK;

#endif
