/* figures.h - what is shown of space. Private to pool/. Theory: figures.c, docs/space.md. */
#ifndef AGATE_POOL_FIGURES_H
#define AGATE_POOL_FIGURES_H

#include "pool/pool_int.h"

/* The syncing fiber, when txg is committed (and once before it runs): takes down what is shown from now on. */
void figures_update(struct pool *p, uint64_t txg) MAY_PARK;
/* Under datasets.lock: sectors that ds could still use. */
uint64_t figures_free(const struct pool_ds *ds);
/* Under datasets.lock: the figures of out. */
void figures_info(struct pool_ds *ds, struct pool_ds_info *out);
/* Never waits. */
void figures_status(struct pool *p, struct pool_status *out);
/* Sectors that were cut off and are still to be freed. */
uint64_t figures_freeing(struct pool *p);

/* A sub-tree of ds was cut off, of about so many sectors that nobody else refers to; some of what was cut off is free now. */
void figures_cut(struct pool_ds *ds, uint64_t sectors);
void figures_cut_freed(struct pool_ds *ds, uint64_t sectors);

#endif
