/* pool_int.h - the pool's private state, shared by the files of pool/. */
#ifndef AGATE_POOL_INT_H
#define AGATE_POOL_INT_H

#include "pool/pool.h"
#include "pool/block.h"
#include "pool/space.h"
#include "pool/vdev.h"

struct cache;     /* cache.c */
struct codec;     /* codec.c */
struct shares;    /* block_share.c */
struct txgs;      /* txg.c */
struct datasets;  /* dataset.c */
struct objects;   /* object.c */
struct unflushed; /* suspend.c */
struct pool_log_state; /* log.c */
struct notes;     /* notes.c */
struct heartbeat; /* heartbeat.c */
struct health;    /* health.c */
struct scan;      /* scan.c */
struct damage;    /* damage.c */
struct trim;      /* trim.c */

struct pool {
	struct vdevs v;            /* membership changes under config_lock */
	struct mutex config_lock;
	struct mutex shape_mu;     /* before all others; see add.c */
	struct mutex logdev_mu;    /* before config_lock; see logdev.c */
	struct mutex spare_mu;     /* before config_lock; see spare.c */
	struct uberblock ub;       /* last committed; sync fiber writes, under config_lock */
	struct space *space;
	struct cache *cache;
	uint64_t cache_owner;      /* this pool's part of its keys */
	struct codec *codec;
	struct shares *shares;     /* blocks that are being read */
	struct txgs *txgs;
	struct datasets *datasets; /* the MOS and all datasets */
	struct objects *objects;
	struct pool_log_state *log;
	struct notes *notes;
	struct health *health;
	struct heartbeat *heartbeat; /* create/import start it, export stops it */
	struct scan *scan;           /* the same; NULL on read-only pools */
	struct damage *damage;
	struct trim *trim;           /* pool_start_fibers makes it; NULL on read-only pools */
	char name[POOL_NAME_MAX + 1];
	uint64_t timeline, host_id;
	char host_name[64];
	struct mutex gang_lock;    /* one gang is read at a time: it takes several buffers of a reserve */
	bool readonly;
	atomic_bool released;      /* the clean uberblock, when it comes, names no host */
	atomic_bool suspended;     /* nothing commits until drives return; block.c and sync.c */
	atomic_bool fail_now;      /* while suspended requests get -EIO, not -ERR_SUSPENDED: failmode */
	atomic_bool closing;       /* give up what waits for drives */
	atomic_bool verify_txg;    /* drives came back while a txg was written: space_verify_txg before its uberblock */
	atomic_bool txg_lost;      /* blocks of the syncing txg are gone: only an import goes on, from the last root */
	atomic_int txg_err;        /* why a txg could not be written, drives aside; 0 = it could */
	struct unflushed *unflushed;
	atomic_bool drive_returned; /* one that may have lost what was not flushed */
	atomic_uint looking;       /* fibers in pool_drives_look, which use descriptors without config_lock */
	atomic_bool config_dirty;  /* membership changed: labels go out with the next commit */
	atomic_ullong data_errors;
	atomic_ullong gangs;       /* blocks written in pieces since it was taken up */
};

/* A pool without drives. NULL: no memory. */
struct pool *pool_alloc(const char *host_name, uint64_t host_id);
void pool_free(struct pool *p);

/* Heartbeat and scan; on failure neither runs, but scan_free remains to be called after the engine. */
int pool_start_fibers(struct pool *p) WARN_UNUSED MAY_PARK;

/* Between create/import (store side) and the engine (objects, txg side). */
/* pool_engine_start: v, ub (decoded, root known; a fresh pool: ub.txg 0 and hole root) are set; builds cache, space, txgs, MOS, datasets; no sync fiber yet. */
int pool_engine_create(struct pool *p) WARN_UNUSED MAY_PARK; /* fresh pool: MOS, pool_phys, segment objects, root dataset; commits the first txg */
int pool_engine_open(struct pool *p) WARN_UNUSED MAY_PARK;   /* from p->ub: reads MOS, space, datasets; -EIO, -ERR_CKSUM, -ERR_CORRUPT: the caller tries an older root */
int pool_engine_close(struct pool *p, bool clean) MAY_PARK;  /* syncs, marks clean when asked, stops fibers, frees everything but v */

/* What requests of a suspended pool get. */
static inline int
pool_suspended_error(const struct pool *p)
{
	return atomic_load(&p->fail_now) ? -EIO : -ERR_SUSPENDED;
}

/* Zeroed memory past the point where an operation may fail: waits for it. May park. */
void *pool_must_alloc(size_t len) MAY_PARK;

/* For status; never waits. */
void pool_log_figures(struct pool *p, uint64_t *out_ring_bytes, uint64_t *out_used_bytes, bool *out_in_pool);

/* The MOS as a dataset handle (borrowed; alive until pool_engine_close): its objects are written with pool_write, pool_buf_*. dataset.c */
struct pool_ds *pool_mos(struct pool *p);

#endif
