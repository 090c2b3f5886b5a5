/* heartbeat.h - see heartbeat.c. Private to pool/. */
#ifndef AGATE_POOL_HEARTBEAT_H
#define AGATE_POOL_HEARTBEAT_H

#include "base/base.h"

struct pool;

#define HEARTBEAT_NS (5 * NSEC_PER_SEC)
#define HEARTBEAT_WAIT_NS (12 * NSEC_PER_SEC)

int heartbeat_start(struct pool *p) WARN_UNUSED MAY_PARK;
void heartbeat_stop(struct pool *p) MAY_PARK; /* harmless when it doesn't run */

#endif
