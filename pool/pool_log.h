/* pool_log.h - the log as the rest of the engine sees it. Private to pool/. Theory: log.c, log_ring.c, replay.c. */
#ifndef AGATE_POOL_POOL_LOG_H
#define AGATE_POOL_POOL_LOG_H

#include "pool/object.h"

#define LOG_RINGS_MAX 24u /* in one life of the pool */
#define LOG_FAILURES_MAX 2u /* after these a pool goes without a ring until it is imported again */
#define LOG_ROOTS 3u /* roots that must name a ring before anything is acknowledged by it */

/* Where a ring is; kept as long as the ring. */
struct log_sides {
	struct pool *p;
	struct ilog_config cfg;
	uint32_t drive[ILOG_SIDES_MAX]; /* index of each side's drive in pool.v.drives */
};

struct pool_log_state {
	struct pool *p;
	_Atomic(struct ilog *) ring;    /* the newest one; NULL: none could be made */
	atomic_ullong on_txg;           /* transactions from this txg on use it; UINT64_MAX: none yet */
	atomic_bool failed;             /* ring has failed; the syncing fiber makes another */
	struct ilog *retired[LOG_RINGS_MAX]; /* former ones: somebody may still look at them */
	atomic_uint retired_count;
	uint32_t failures;              /* rings that have failed */
	atomic_bool moving;             /* logdev.c wants another ring, though this one is well */
	bool to_drives;                 /* where to */
	struct log_sides *sides;        /* of ring */
	struct log_sides *retired_sides[LOG_RINGS_MAX];
	bool in_pool;
	struct guid guid;
	uint64_t epoch;
	atomic_uint roots_named;        /* committed roots that name ring */

	/* replay: what the roots say until it is over */
	atomic_ullong from_txg;         /* roots before this one name the old ring: they may lack effects */
	struct guid old_guid;
	struct ilog_position old_position;
	uint64_t floor, replayed;
	atomic_ullong delivering;       /* seq of the record being redone */

	atomic_ullong deferred_bytes;   /* memory behind the data of records that wait */
	struct spin lock;
	struct list deferred[DEFERRED_SLOTS]; /* pool_obj.deferred_link */
};

int log_open(struct pool *p) WARN_UNUSED;   /* reads p->ub; makes no ring yet */
void log_close(struct pool *p) MAY_PARK;
/* A new ring in a new epoch, used once LOG_ROOTS roots name it. Without a ring commits wait for their txg. */
void log_ring_start(struct pool *p, uint64_t from_txg) MAY_PARK;
uint64_t log_ring_bytes(struct pool *p);

int log_reserve(struct pool_tx *tx, const struct pool_need *need) WARN_UNUSED MAY_PARK;
void log_unreserve(struct pool_tx *tx);
/* tx knows its txg now: may it use the ring? */
void log_tx_joined(struct pool_tx *tx);
void log_replay_joined(struct pool_tx *tx);
/* The next configuration on all labels. Before each attempt, since the one before may have taken drives out: an in-pool ring without a side
 * that an import would look at acknowledges nothing more. config_lock held. */
int log_config_write(struct pool *p) WARN_UNUSED MAY_PARK;
int log_membership_write(struct pool *p) WARN_UNUSED MAY_PARK; /* the same and the uberblock; config_lock held */
void log_note_failed(struct pool *p);
/* May something be appended to this ring, and acknowledged by it? */
bool log_ring_is_current(const struct pool_log_state *s, const struct ilog *ring);
/* Does the ring in use write to this drive? config_lock held. */
bool log_is_side(const struct pool *p, const struct kb_drive *kb);
/* Does any ring of this life of the pool know the drive, in use or not? */
bool log_knows(const struct pool *p, const struct kb_drive *kb);
/* In-pool ring: sides that an import could still replay if that drive were gone; UINT32_MAX: the ring isn't in the pool. config_lock held. */
uint32_t log_sides_without(struct pool *p, const struct vdev_drive *gone);
uint32_t log_sides_wanted(const struct pool *p); /* of the in-pool ring, when all is well */

/* On the syncing fiber. flags: UBER_CLEAN, set unless there are records to replay. */
void log_fill_uber(struct pool *p, uint64_t txg, uint32_t flags, struct uberblock *ub);
void log_committed(struct pool *p, uint64_t txg) MAY_PARK;
void log_drop_deferred(struct pool *p, uint64_t txg) MAY_PARK;
bool log_wants_txg(struct pool *p);

#endif
