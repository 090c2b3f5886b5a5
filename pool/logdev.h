/* logdev.h - see logdev.c. Private to pool/. */
#ifndef AGATE_POOL_LOGDEV_H
#define AGATE_POOL_LOGDEV_H

#include "pool/vdev.h"

/* Heartbeat: log drives that are back, or a log that could be on its drives and isn't. */
void logdev_look(struct pool *p) MAY_PARK;
/* A ring in the pool is left for a new one there, of which all drives that are well are sides. Harmless when the log is elsewhere. Under no lock. */
int logdev_renew(struct pool *p) WARN_UNUSED MAY_PARK;
/* Under config_lock, which is let go if it renews. Such a ring is renewed when an import would find it on fewer than `enough` drives without that
 * one (NULL: as they are). True: whoever looked must look again; whether that helped is seen then. *renewed: once is enough. */
bool logdev_renew_without(struct pool *p, const struct vdev_drive *gone, uint32_t enough, bool *renewed) WARN_UNUSED MAY_PARK;
/* pool_drive_replace of a log drive. */
int logdev_replace(struct pool *p, const struct guid *old, struct kb_drive *d, char *why, size_t why_len) WARN_UNUSED MAY_PARK;

#endif
