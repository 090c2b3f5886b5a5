/*
 * sync.h - locks and waits between fibers, also across reactors. They park the fiber, never the
 * thread. Mutexes barge: a released lock may be taken by a running fiber before a waiting one, until
 * a waiter has starved for 1 ms; then it is handed over.
 *
 * Lock order: enum lock_rank below, from first taken to last taken; with AGATE_DEBUG a fiber that
 * takes a lock of a rank not above all it holds stops the program. Two locks of the same rank may be
 * taken only with mutex_lock_nested/rwlock_*_nested, in an order the room documents (by address or number).
 */
#ifndef AGATE_BASE_SYNC_H
#define AGATE_BASE_SYNC_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include "base/compiler.h"
#include "base/list.h"

enum lock_rank {
	RANK_ADMIN = 10,      /* admin: one configuration command at a time */
	RANK_ADMIN_DRIVES,    /* admin: one at a time gives drives to pools in service */
	RANK_NFSD_EXPORTS,    /* nfsd: publishing a new export table */
	RANK_NFSD_DRC,        /* nfsd: an entry of the duplicate-request cache in progress */
	RANK_NFSD_CONN,       /* nfsd: sending on a connection */
	RANK_FS_RENAME,       /* fs: renames of directories within a dataset */
	RANK_FS_INODE,        /* fs: an inode; several by ascending object number */
	RANK_FS_TABLE,        /* fs: inode table */
	RANK_POOL_SHAPE,      /* pool: sets being added, or counted by a check */
	RANK_POOL_SPARE,      /* pool: who comes to be a spare, and who is used */
	RANK_POOL_CONFIG,     /* pool: membership and configuration */
	RANK_POOL_TXG,        /* pool: txg state */
	RANK_POOL_DATASET,    /* pool: dataset list, object numbers */
	RANK_POOL_OBJECT,     /* pool: dirty lists of an object */
	RANK_POOL_SPACE,      /* pool: a segment or set of the allocator */
	RANK_POOL_CACHE,      /* pool: a cache shard */
	RANK_ILOG,            /* intentlog: batch under construction */
	RANK_RAIDZ,           /* raidz: group state */
	RANK_KB,              /* kernel-bypass: a drive */
	RANK_LEAF,            /* anything that takes no other lock inside */
};

/* ---- spin lock: for a few instructions, never across a park ---- */
struct spin {
	atomic_flag held;
};
void spin_init(struct spin *s);
void spin_lock(struct spin *s);
void spin_unlock(struct spin *s);

/* ---- mutex ---- */
struct mutex {
	struct spin guard;
	struct fiber *owner;
	struct list waiters;
	uint16_t rank;
	bool handoff;
};
void mutex_init(struct mutex *m, enum lock_rank rank);
void mutex_lock(struct mutex *m) MAY_PARK;
void mutex_lock_nested(struct mutex *m) MAY_PARK;
bool mutex_trylock(struct mutex *m);
void mutex_unlock(struct mutex *m);
bool mutex_held(const struct mutex *m); /* by the calling fiber; for ASSERT */

/* ---- reader/writer lock; writers are preferred, so readers must not nest ---- */
struct rwlock {
	struct spin guard;
	uint32_t readers;
	struct fiber *writer;
	struct list waiters;
	uint32_t writers_waiting;
	uint16_t rank;
};
void rwlock_init(struct rwlock *l, enum lock_rank rank);
void rwlock_rdlock(struct rwlock *l) MAY_PARK;
void rwlock_wrlock(struct rwlock *l) MAY_PARK;
void rwlock_rdlock_nested(struct rwlock *l) MAY_PARK;
void rwlock_wrlock_nested(struct rwlock *l) MAY_PARK;
void rwlock_rdunlock(struct rwlock *l);
void rwlock_wrunlock(struct rwlock *l);
bool rwlock_wrheld(const struct rwlock *l);

/* ---- condition variable ---- */
struct cond {
	struct spin guard;
	struct list waiters;
};
void cond_init(struct cond *c);
void cond_wait(struct cond *c, struct mutex *m) MAY_PARK;
int cond_wait_until(struct cond *c, struct mutex *m, uint64_t deadline_ns) MAY_PARK; /* 0 or -ETIMEDOUT */
void cond_signal(struct cond *c);
void cond_broadcast(struct cond *c);

/* ---- wait group: wg_add before the work starts, wg_done from anywhere, wg_wait until zero ---- */
struct waitgroup {
	struct spin guard;
	uint32_t count;
	struct list waiters;
};
void wg_init(struct waitgroup *w);
void wg_add(struct waitgroup *w, uint32_t n);
void wg_done(struct waitgroup *w);
void wg_wait(struct waitgroup *w) MAY_PARK;
int wg_wait_until(struct waitgroup *w, uint64_t deadline_ns) MAY_PARK;

/* ---- counting semaphore, first come first served ---- */
struct sem {
	struct spin guard;
	uint64_t units;
	struct list waiters;
};
void sem_init_units(struct sem *s, uint64_t units);
void sem_take(struct sem *s, uint64_t n) MAY_PARK;
bool sem_try_take(struct sem *s, uint64_t n);
int sem_take_until(struct sem *s, uint64_t n, uint64_t deadline_ns) MAY_PARK;
void sem_give(struct sem *s, uint64_t n);

/* ---- bounded channel of pointers ---- */
struct chan {
	struct spin guard;
	void **slots;
	uint32_t cap, head, len;
	bool closed;
	struct list senders, receivers;
};
int chan_init(struct chan *c, uint32_t cap) WARN_UNUSED; /* -ENOMEM */
void chan_destroy(struct chan *c);
int chan_send(struct chan *c, void *item) MAY_PARK;      /* 0; -EPIPE when closed */
int chan_try_send(struct chan *c, void *item) WARN_UNUSED; /* 0; -EAGAIN full; -EPIPE */
int chan_recv(struct chan *c, void **out_item) MAY_PARK; /* 0; -EPIPE when closed and empty */
void chan_close(struct chan *c);

#endif
