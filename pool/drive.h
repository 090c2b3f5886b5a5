/* drive.h - shared by drive.c, drive_admin.c and spare.c. Private to pool/. */
#ifndef AGATE_POOL_DRIVE_H
#define AGATE_POOL_DRIVE_H

#include "pool/vdev.h"

/* By its guid; NULL. Under config_lock. */
struct vdev_drive *drive_member(struct pool *p, const struct guid *guid);
/* GPT, and nothing where labels are. */
int drive_wipe(struct kb_drive *d, const struct guid *guid, uint64_t region_bytes) WARN_UNUSED MAY_PARK;

/* spare.c: a former member waits as a spare. Under config_lock; the pool owns d in any case. */
void spare_give(struct pool *p, struct kb_drive *d) MAY_PARK;

#endif
