/* txg.h - transaction groups. Private to pool/. Theory: txg.c. */
#ifndef AGATE_POOL_TXG_H
#define AGATE_POOL_TXG_H

#include "pool/pool_int.h"

#define TXG_SLOTS 4u
#define TXG_OBJECT_BYTES 1024u /* of memory, that an object takes which waits to be written */
#define TXG_SLOT(txg) ((txg) & (TXG_SLOTS - 1))
/* Roots an import may fall back to, besides the newest: what the log needs to redo them is kept. */
#define TXG_FALLBACK 2u
/* For what is kept so long. */
#define DEFERRED_SLOTS 8u
#define DEFERRED_SLOT(txg) ((txg) & (DEFERRED_SLOTS - 1))
STATIC_ASSERT(DEFERRED_SLOTS >= TXG_SLOTS + TXG_FALLBACK);

/* Writers are slowed down when so much of the dirty limit is used. */
#define TXG_THROTTLE_PERCENT 60u

struct txg_holds {
	atomic_uint n[TXG_SLOTS]; /* [r] raised and lowered by one reactor, read by the syncing fiber */
	uint8_t pad[64 - TXG_SLOTS * sizeof(atomic_uint)];
};

struct txgs {
	struct pool *p;
	atomic_ullong open;       /* transactions join this one */
	atomic_bool gate_closed;  /* quiescing: nobody joins */
	atomic_ullong syncing;    /* 0 = none */
	atomic_ullong committed;
	atomic_ullong wanted;     /* every txg up to here is to be committed soon */
	struct txg_holds *holds;  /* by reactor */
	atomic_ullong first_use_ns[TXG_SLOTS]; /* 0 = nobody has joined yet */
	atomic_ullong dirty_bytes[TXG_SLOTS];  /* buffers that became dirty */
	atomic_ullong dirty_sectors[TXG_SLOTS]; /* reserved for them until the txg has landed */
	atomic_ullong reserved_bytes; /* promised to transactions that have not ended */
	uint64_t dirty_limit;
	atomic_ullong synced_ns, synced_bytes; /* the last sync: how long it took, for how much */
	atomic_ullong replay_seq[TXG_SLOTS]; /* highest log record whose effect is in this txg */
	struct mutex mu;
	struct cond gate_cond;    /* the gate opened */
	struct cond committed_cond; /* committed advanced, or the pool was suspended */
	struct fiber *fiber;      /* the syncing one; NULL: not started */
	struct waitgroup running;
	atomic_bool stop;
	atomic_bool settling;     /* empty txgs bring back space */
	bool held;                /* [s] readers hold back space that is due */
	atomic_bool background;   /* there is work left for the next txg: free queue, log switch */
};

struct account;

struct pool_tx {
	struct pool *p;
	struct pool_ds *ds;
	uint64_t txg;
	unsigned reactor;
	bool syncing;              /* made by the syncing fiber: no holds, no reservations */
	struct ilog *ring;         /* where its records go; NULL: nowhere, whoever waits waits for the txg */
	struct ilog_reservation log_space;
	uint32_t log_overhead;     /* bytes of it that each record takes beside its payload */
	bool frees;                /* what it cuts off will be in the map log */
	uint32_t need_bytes;
	uint64_t need_sectors;
	uint64_t dirtied_bytes, dirtied_sectors;
	struct limit_chain *chain; /* whose quotas it counts against; NULL: nobody's */
	struct account *account[2]; /* the same of users and groups; by enum pool_account_kind */
	uint64_t moved_sectors;
	uint32_t new_objects;
	uint32_t uid, gid;         /* whose it will be, with moves */
	bool moves;                /* objects are made or change hands */
};

/* Is there room for an administrative change? Waits for what is coming back, like a transaction. -ENOSPC, -ERR_SUSPENDED. tx.c */
int tx_room_check(struct pool *p, uint64_t sectors, enum space_level level) WARN_UNUSED MAY_PARK;

int txgs_open(struct pool *p, uint64_t first_txg) WARN_UNUSED;
int txgs_start(struct pool *p) WARN_UNUSED; /* the syncing fiber */
void txgs_stop(struct pool *p) MAY_PARK;    /* commits what is open (unless closing), then ends the fiber */
void txgs_close(struct pool *p);

void txg_hold_open(struct txgs *t, unsigned reactor, uint64_t *out_txg) MAY_PARK;
void txg_hold_drop(struct txgs *t, unsigned reactor, uint64_t txg);
/* Has txg, an open one, so much to write that it should be closed? */
bool txg_is_full(struct txgs *t, uint64_t txg);
/* Ask for the commit of txg; never waits. */
void txg_want(struct txgs *t, uint64_t txg);
/* Parks until txg is committed. 0; -ERR_SUSPENDED. */
int txg_wait(struct txgs *t, uint64_t txg) WARN_UNUSED MAY_PARK;
uint64_t txg_open(struct txgs *t);
uint64_t txg_committed(struct txgs *t);
/* A buffer of so many bytes became dirty under tx; it will be written so many times. */
void txg_count_dirty(struct pool_tx *tx, uint32_t bytes, uint32_t copies);
/* An object is to be written, perhaps with a block of the object table that wasn't to be. */
void txg_count_object(struct pool_tx *tx, bool new_table_block, uint32_t copies);
/* So many blocks of accounts more. */
void txg_count_accounts(struct pool_tx *tx, unsigned blocks);
/* Everybody who waits looks again. */
void txg_wake_all(struct txgs *t);

/* Transactions of the syncing fiber. */
void tx_init_syncing(struct pool_tx *tx, struct pool_ds *ds, uint64_t txg);

/* One pass: everything of txg, then the uberblock. flags: UBER_CLEAN. 0; -EIO: the pool closes. sync.c */
int sync_txg(struct pool *p, uint64_t txg, uint32_t flags) WARN_UNUSED MAY_PARK;

#endif
