/*
 * space.h - where blocks go, and what is free. Private to pool/. Theory: README "Space".
 *
 * Called by block.c (alloc, free), sync.c (fold, log, committed) and import/create. Numbers are set
 * sectors unless they say bytes.
 */
#ifndef AGATE_POOL_SPACE_H
#define AGATE_POOL_SPACE_H

#include "pool/bp.h"

struct space;

int space_create(struct pool *p, struct space **out) WARN_UNUSED;               /* all free */
/* Reads segment tables and map log below ub (block_read only: no object needs to be open). -ERR_CORRUPT, -EIO. */
int space_load(struct pool *p, const struct uberblock *ub, struct space **out) WARN_UNUSED MAY_PARK;
void space_destroy(struct space *s);

enum space_class { SPACE_DATA, SPACE_META }; /* metadata may use the rest of the reserve */
/*
 * One run for len_bytes (a sector multiple) in some set, not in those of avoid_sets (mask; ignored when nothing else is left).
 * 0; -ENOSPC no run is long enough (the caller gangs, or takes smaller pieces). May park to load a segment.
 */
int space_alloc(struct space *s, uint64_t txg, enum space_class cls, uint32_t len_bytes, uint64_t avoid_sets,
    struct bp_addr *out) WARN_UNUSED MAY_PARK;
/* Gives back what was allocated in this txg and never recorded (the write failed). */
void space_unalloc(struct space *s, const struct bp_addr *a);
/* Every address of bp is in use from txg on, with its checksum: goes to the map log. After the checksum is known. */
void space_record_alloc(struct space *s, uint64_t txg, const struct bp *bp);
/* Every address of bp is free from txg on: map log, and reuse by invariant 3. gang children are the caller's to free. */
void space_free(struct space *s, uint64_t txg, const struct bp *bp);

/* Readers: hold back reuse. enter returns a token for exit. Cheap, any reactor. */
uint64_t space_read_enter(struct space *s);
void space_read_exit(struct space *s, uint64_t token);

/* Sync, in this order, on the sync fiber. */
int space_sync_fold(struct space *s, struct pool_tx *tx) WARN_UNUSED MAY_PARK;            /* step 3: writes segment maps through MOS objects */
int space_sync_log(struct space *s, uint64_t txg, struct bp *out_tail) WARN_UNUSED MAY_PARK; /* step 4; may be repeated when it failed */
/*
 * After space_sync_log, when drives were lost and came back while this txg was written: is every block of it there? Whatever a returned drive
 * lacks is written to it. 0; -EIO, -ERR_CKSUM: blocks are gone that only the drives' caches had; this txg can never be committed.
 */
int space_verify_txg(struct space *s, uint64_t txg) WARN_UNUSED MAY_PARK;
/* Step 5, after space_sync_log: sets ub->maplog, used_sectors and deferred_sectors. */
void space_fill_uber(struct space *s, uint64_t txg, struct uberblock *ub);
/* Step 6. pool.ub is the uberblock just committed: segments are loaded from its root from here on. */
void space_committed(struct space *s, uint64_t txg) MAY_PARK;
/* Pool creation: make the OBJ_SEGMENTS objects in the MOS. */
int space_create_objects(struct space *s, struct pool_tx *tx, struct pool_phys *phys) WARN_UNUSED MAY_PARK;

/* Sync fiber: takes up sets that the pool has got since (pool.v), with an OBJ_SEGMENTS object each in phys; true when there were any. What it did before
 * it failed stands. */
int space_grow(struct space *s, struct pool_tx *tx, struct pool_phys *phys, bool *out_grown) WARN_UNUSED MAY_PARK;

struct space_info {
	uint64_t total_sectors, used_sectors, deferred_sectors; /* deferred is part of used until reusable */
	uint64_t release_sectors; /* of deferred: what comes back without new work */
	uint64_t reserve_sectors, reserve_min_sectors; /* now, and when nothing has happened for a while */
	uint64_t overhead_sectors; /* see space_overhead_set */
};
void space_get_info(struct space *s, struct space_info *out);
/* Set sectors that data_bytes at record_bytes take with parity and padding, by the pool's geometry (rounded up). */
uint64_t space_sectors_for(struct pool *p, uint64_t data_bytes, uint32_t record_bytes);
/* The one rule by which sectors are told to people as bytes (docs/space.md), and its inverse, rounded down. */
uint64_t space_data_bytes(const struct pool *p, uint64_t sectors);
uint64_t space_data_sectors(const struct pool *p, uint64_t bytes);
/* The same for a quota, where 0 is none: what is less than a sector is one. */
uint64_t space_limit_sectors(const struct pool *p, uint64_t bytes);
/* The same before there is a pool; and the reserve of a pool of so many sectors that has written nothing yet. */
struct vdevs;
uint64_t space_geometry_bytes(const struct vdevs *v, uint64_t sectors);
uint64_t space_reserve_of(uint64_t total_sectors);
/* What the structures of a pool with the sets from first_set on take when it holds little, the map log at its limit. */
uint64_t space_overhead_of(const struct vdevs *v, uint32_t first_set, uint64_t total_sectors);
/* One block on the set where it takes the most. */
uint32_t space_block_sectors(const struct vdevs *v, uint32_t len_bytes);

/* Who asks, by how far he may go into the reserve. */
enum space_level {
	SPACE_GROWS = 0,
	SPACE_FREES = 1, /* and what changes no size */
	SPACE_ADMIN = 2, /* the administrator, except destroying */
	SPACE_ALL = 3,   /* destroying, and replay */
};

/* ---- space_admit.c ---- */
/* blocked: what is reserved for others (SPACE_GROWS). */
struct space_ask {
	uint64_t sectors, blocked;
	enum space_level level;
};
int space_reserve(struct space *s, const struct space_ask *ask) WARN_UNUSED; /* 0 or -ENOSPC. Counts reservations. */
void space_unreserve(struct space *s, uint64_t sectors);
/* More than was asked for at first, when it is too late to refuse. */
void space_reserve_anyway(struct space *s, uint64_t sectors);
/* Would a reservation fit if nobody else had one? */
bool space_is_only_promised(const struct space *s, const struct space_ask *ask);
/* Would it if so many sectors that are being freed were back, and what is deferred? */
bool space_is_coming(const struct space *s, const struct space_ask *ask, uint64_t freeing_sectors);
/* A copy of a block of txg takes `sectors`, in one piece it would take `plain`. */
void space_note_placed(struct space *s, uint64_t txg, uint64_t plain, uint64_t sectors);
/* What `sectors` may come to in a pool as fragmented as it was last. */
uint64_t space_in_pieces(const struct space *s, uint64_t sectors);
/* The sync fiber: txg frees or allocates more than a root and its log. Before it is committed. */
void space_note_busy(struct space *s, uint64_t txg);
/* Is there something that empty txgs would bring back: deferred space, a reserve above its minimum? */
bool space_is_settling(const struct space *s);
/* Without a commit: releases what readers had held back and don't any more. Do they still? The sync fiber. */
bool space_release_held(struct space *s) MAY_PARK;
bool space_is_held(const struct space *s);
/* The object tables of all datasets have so many blocks, as of the last commit, which are written in so many copies when space is short. */
void space_rewrite_set(struct space *s, uint64_t blocks, unsigned copies);
/* Is so little left that writers have been stopped and what removing rewrites must be small? */
bool space_is_tight(const struct space *s);
/* Is there enough left that empty txgs can be afforded for somebody who has to wait? */
bool space_may_force(const struct space *s);
/* What neither datasets nor pending frees explain, as of the last commit: shown in steps, so that totals stand still. */
void space_overhead_set(struct space *s, uint64_t sectors);

/* ---- space_trim.c ---- */
#define TRIM_TXGS 64u /* what has been free for as many txgs no root reaches that one may go back to */
/* discard is called with free set sectors that nobody can allocate meanwhile: at most column_sectors of each drive, in order. 0: go on; SPACE_TRIM_LOST: that range may
 * yet be discarded at any time; other errors: enough. */
#define SPACE_TRIM_LOST (-ETIMEDOUT)
struct space_trim {
	uint64_t column_sectors;
	int (*discard)(void *arg, uint32_t set, uint64_t sector, uint64_t sectors);
	void *arg;
};
/* The free space of a segment (0 .. space_segment_count). out_fresh: sectors that haven't been free for long enough. 0; -EBUSY somebody needs the
 * segment: again later; what discard returned; -ENOMEM, errors of reading its map. */
int space_trim_segment(struct space *s, uint32_t index, const struct space_trim *how, uint64_t *out_fresh) WARN_UNUSED MAY_PARK;
uint32_t space_segment_count(struct space *s);
/* Has the pool been open for long enough? Empty txgs count. */
bool space_trim_is_ready(struct space *s);
/* A segment, from `from` on, round the end, in which more than a little has been released since it was last trimmed; UINT32_MAX: none. */
uint32_t space_trim_next(struct space *s, uint32_t from);
/* Somebody finds no space: waits until what is being discarded is back. False: nothing is. */
bool space_trim_give_back(struct space *s) MAY_PARK;

/* For check and scrub: calls each(record) for every block in use, segment by segment, in order. */
int space_each_block(struct space *s, int (*each)(void *arg, const struct map_record *r), void *arg) WARN_UNUSED MAY_PARK;

#endif
