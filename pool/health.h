/* health.h - see health.c. Private to pool/. */
#ifndef AGATE_POOL_HEALTH_H
#define AGATE_POOL_HEALTH_H

#include "pool/pool_int.h"

#define HEALTH_NS NSEC_PER_SEC /* how often the drives are looked at */

int health_open(struct pool *p) WARN_UNUSED;
void health_close(struct pool *p);
/* On the heartbeat's fiber. */
void health_look(struct pool *p) MAY_PARK;
/* From now on its errors are counted anew. Under config_lock, as the next. */
void health_restart(struct pool *p, struct vdev_drive *d);
/* The same, and it is taken for well. */
void health_forget(struct pool *p, struct vdev_drive *d);

#endif
