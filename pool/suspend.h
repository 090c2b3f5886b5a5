/* suspend.h - when drives are missing: waiting, what to write again, taking drives back. Private to pool/. Theory: suspend.c. */
#ifndef AGATE_POOL_SUSPEND_H
#define AGATE_POOL_SUSPEND_H

#include "pool/block_int.h"

struct unflushed;

int unflushed_open(struct pool *p) WARN_UNUSED;
void unflushed_close(struct pool *p);
/* e has been written and may still be in a volatile cache: keep what it takes to write it again. May flush early. -EIO: the pool closes. */
int unflushed_add(struct pool *p, const struct extent *e) WARN_UNUSED MAY_PARK;
/* Under config_lock: everything written so far is durable when it returns 0; what a drive that went and returned may have lost is written again
 * first. -EIO: not yet. */
int unflushed_flush(struct pool *p, bool *out_membership_changed) WARN_UNUSED MAY_PARK;

/* A txg can't be written, and no drive is to blame: nothing commits any more until an import. */
void pool_suspend_for_good(struct pool *p, int err);
/* Something the syncing fiber needs doesn't work: the pool is suspended; try again after 0. -EIO: the pool closes. */
int pool_suspend_wait(struct pool *p, const char *reason) WARN_UNUSED MAY_PARK;
void pool_resume(struct pool *p);

#endif
