/* damage.h - see damage.c. Private to pool/. */
#ifndef AGATE_POOL_DAMAGE_H
#define AGATE_POOL_DAMAGE_H

#include "pool/pool.h"

struct damage;

int damage_open(struct damage **out) WARN_UNUSED;
void damage_close(struct damage *d);
/* A block of an object could not be read. Never waits; not while drives are away, since it is there
 * again when they are. */
void damage_note(struct pool *p, uint64_t dataset, uint64_t object, uint64_t block);

/* An address that a scan found bad beyond repair. */
struct damage_addr {
	uint64_t sector;
	uint32_t set;
};
/* Walks all trees of the committed root for who has these blocks, and notes them. Long. */
void damage_name(struct pool *p, const struct damage_addr *bad, uint32_t count) MAY_PARK;

#endif
