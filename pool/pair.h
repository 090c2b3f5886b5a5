/* pair.h - see pair.c. Private to pool/. */
#ifndef AGATE_POOL_PAIR_H
#define AGATE_POOL_PAIR_H

#include "pool/vdev.h"

/* Can m go on being used while another drive takes its place? Under config_lock. */
bool pair_may_begin(const struct vdev_drive *m);
/* kb, which was wiped with that guid, is on the way to replace m. -ENOSPC. Under config_lock. */
int pair_begin(struct pool *p, struct vdev_drive *m, struct kb_drive *kb, const struct guid *guid) WARN_UNUSED MAY_PARK;
/* m stays, the twin goes; for drive_give_free. Under config_lock. */
struct kb_drive *pair_cancel(struct pool *p, struct vdev_drive *twin) MAY_PARK;
/* Twins that have everything take their place. True: one couldn't now. Under no lock. */
bool pairs_finish(struct pool *p) MAY_PARK;

#endif
