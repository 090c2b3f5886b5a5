/* limits.h - quotas and reservations of datasets. Private to pool/. Theory: limits.c. */
#ifndef AGATE_POOL_LIMITS_H
#define AGATE_POOL_LIMITS_H

#include "pool/pool_int.h"
#include "pool/txg.h"

struct limit_chain;

/* What reserved or begun work on something counts against. */
struct limit_charge {
	atomic_ullong inflight; /* sectors of transactions that aren't in `used` yet */
	atomic_ullong landing[TXG_SLOTS]; /* of inflight: dirty, by txg */
};

/* Of one dataset. Limits in set sectors; 0 = none. */
struct ds_limits {
	struct pool_limits told;   /* under datasets.lock: as they were set, in bytes */
	struct limit_chain *chain; /* under pool_ds.lock: who above, and itself, has limits; NULL: nobody */
	/* as of the last commit */
	atomic_ullong quota, refquota;
	atomic_ullong used, referenced; /* what the quotas are for */
	atomic_ullong slack, refslack;  /* unused part of the reservations */
	atomic_ullong blocked;          /* what others' reservations keep from its files */
	struct limit_charge below, own; /* everything at or below it; itself */
};

/* What the walk over all datasets knows of one (figures.c); in sectors. */
struct limit_figures {
	uint64_t referenced, own_and_dead; /* without what is pending */
	uint64_t children;                 /* out: used or reserved by those below */
	uint64_t live;                     /* out: own_and_dead of it and all below */
};

/* Under datasets.lock, bottom up: fig->children and fig->live are those of the children. Returns what it takes of its parent. */
uint64_t limits_take_up(struct pool_ds *ds, const struct limit_figures *fig);
/* Under datasets.lock, on the whole tree, when all are taken up: what is blocked, and who counts for whom. */
void limits_take_down(struct pool_ds *root);
/* The syncing fiber: txg is committed and in `used`. Under datasets.lock. */
void limits_landed(struct pool_ds *ds, uint64_t txg);
void limits_free(struct pool_ds *ds);

/*
 * Is there room below every quota for so many sectors more? Then they count until limits_end. Waits for what is under way. 0; -EDQUOT;
 * -ERR_SUSPENDED. tx: ds is set.
 */
int limits_begin(struct pool_tx *tx, uint64_t grow) WARN_UNUSED MAY_PARK;
void limits_cancel(struct pool_tx *tx);
/* Of what was asked for so much is dirty; it counts until its txg has landed. */
void limits_end(struct pool_tx *tx, uint64_t dirtied);
/* How many sectors the quotas leave to ds; UINT64_MAX: none applies. Under datasets.lock. */
uint64_t limits_left(const struct pool_ds *ds);

#endif
