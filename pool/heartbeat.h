/* heartbeat.h - see heartbeat.c. Private to pool/. */
#ifndef AGATE_POOL_HEARTBEAT_H
#define AGATE_POOL_HEARTBEAT_H

#include "base/base.h"

struct pool;

#define HEARTBEAT_NS (5 * NSEC_PER_SEC)
#define HEARTBEAT_WAIT_NS (12 * NSEC_PER_SEC)

#define SPARE_DELAY_NS (30 * NSEC_PER_SEC) /* a drive has that long to come back */

/* spare.c: has a drive been out for long enough, and is there a spare? */
void spare_look(struct pool *p) MAY_PARK;

int heartbeat_start(struct pool *p) WARN_UNUSED MAY_PARK;
void heartbeat_stop(struct pool *p) MAY_PARK; /* harmless when it doesn't run */

#endif
