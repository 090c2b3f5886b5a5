/* scan.h - scrub and resilver, see scan.c. Private to pool/. */
#ifndef AGATE_POOL_SCAN_H
#define AGATE_POOL_SCAN_H

#include "pool/pool.h"

/* An import, before it settles who is out: is the resilver of p->ub about the drives that the configuration says? */
void scan_take_up(struct pool *p);
/* Runs the fiber; scan_start only. */
void scan_main(void *scan) MAY_PARK;
/* Takes up what p->ub says. The fiber waits until scan_poke. */
int scan_start(struct pool *p) WARN_UNUSED MAY_PARK;
void scan_stop(struct pool *p) MAY_PARK; /* harmless when it doesn't run */
/* After pool_engine_close. */
void scan_free(struct pool *p);
/* The pool may be changed from here on (after replay), or its drives have changed: look whether
 * there is something to do. */
void scan_poke(struct pool *p);
/* Progress into an uberblock about to be written. Under config_lock. */
void scan_fill_uber(struct pool *p, struct uberblock *ub);
/* This one is on all drives. Under config_lock. */
void scan_written(struct pool *p, const struct uberblock *ub);
/* The newest uberblock once more, with the progress; false: there was no need, or it couldn't be. Under config_lock. */
bool scan_progress_write(struct pool *p) MAY_PARK;

/* Has what was in the log been replayed? */
bool scan_is_open(struct pool *p);

#endif
