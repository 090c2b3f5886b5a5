/* logdev.h - see logdev.c. Private to pool/. */
#ifndef AGATE_POOL_LOGDEV_H
#define AGATE_POOL_LOGDEV_H

#include "pool/pool.h"

/* Heartbeat: log drives that are back, or a log that could be on its drives and isn't. */
void logdev_look(struct pool *p) MAY_PARK;
/* A ring in the pool is left for a new one there, of which all drives that are well are sides. Harmless when the log is elsewhere. Under no lock. */
int logdev_renew(struct pool *p) WARN_UNUSED MAY_PARK;
/* pool_drive_replace of a log drive. */
int logdev_replace(struct pool *p, const struct guid *old, struct kb_drive *d, char *why, size_t why_len) WARN_UNUSED MAY_PARK;

#endif
