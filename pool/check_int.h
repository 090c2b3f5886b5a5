/* check_int.h - shared by check.c and check_walk.c. */
#ifndef AGATE_POOL_CHECK_INT_H
#define AGATE_POOL_CHECK_INT_H

#include "pool/accounts.h"
#include "pool/space_int.h"

/* One address that something reachable names. */
struct claim {
	uint64_t sector, birth;
	uint64_t cksum;    /* its first 8 bytes; 0 with kind NONE */
	uint16_t set, asize, psize;
	uint8_t cksum_kind, type;
};
STATIC_ASSERT(sizeof(struct claim) == 32);

/* Trees cut off an object that its used_sectors still counts, or (negative) what a slot counts too much. */
struct count_diff {
	uint64_t object, generation;
	int64_t sectors;
};

/* An entry of a deadlist: what it names must be in use. */
struct dead_claim {
	uint64_t sector, birth;
	uint16_t set;
};

struct check {
	struct pool *p;
	struct space *s;
	struct uberblock *ub;
	void (*problem)(void *arg, const char *what);
	void *arg;
	uint64_t problems;
	struct claim *claims;
	uint64_t claim_count, claim_cap;
	struct dead_claim *deads;
	uint64_t dead_count, dead_cap;
	bool contents;     /* also every block of the maps, on every column */
	int err;           /* the check itself can't go on: -ENOMEM */
	/* of the objset being walked */
	char where[64];
	uint64_t shared_until; /* blocks born until here are a snapshot's: counted, not claimed */
	uint64_t own_from; /* own: born later */
	uint64_t objects, data_bytes, sectors;
	uint64_t own, born, pending; /* sectors: born after own_from; after shared_until, root block included; of the MOS's queue */
	struct count_diff *diffs;
	uint32_t diff_count, diff_cap;
	struct account_deltas *accounts; /* what slots have, less what the accounts say; NULL: not compared */
	uint64_t accounts_next;
};

/* pool_check; without contents it reads only what trees, maps and deadlists are made of. */
int check_pool(struct pool *p, bool contents, void (*problem)(void *arg, const char *what), void *arg, uint64_t *out_count) WARN_UNUSED MAY_PARK;
void check_problem(struct check *c, const char *fmt, ...) PRINTF_LIKE(2, 3);
/* Claims everything reachable from the root: the MOS, datasets, trees being freed. */
void check_walk_all(struct check *c) MAY_PARK;
/* Addresses of one bp, gang children included. Returns their sectors. */
uint64_t check_claim(struct check *c, const struct bp *bp, const struct bp_prop *prop, bool claim) MAY_PARK;

/* The objset behind bp: claims what was born after c->shared_until. whole: looks at everything, and compares all figures; else only at what it claims. */
void check_walk_objset(struct check *c, const struct bp *bp, bool is_mos, bool whole) MAY_PARK;
/* ---- check_snap.c: datasets, snapshots, deadlists. os: the MOS. ---- */
void check_datasets(struct check *c) MAY_PARK;
/* After the claims are sorted. */
void check_dead_claims(struct check *c);

#endif
