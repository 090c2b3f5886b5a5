/* trim.h - see trim.c. Private to pool/. */
#ifndef AGATE_POOL_TRIM_H
#define AGATE_POOL_TRIM_H

#include "pool/pool_int.h"

int trim_start(struct pool *p) WARN_UNUSED MAY_PARK;
void trim_stop(
    struct pool *p) MAY_PARK; /* harmless when it doesn't run; before the engine is closed */
void trim_free(struct pool *p);

#endif
