/*
 * object.h - objects in memory and their dirty blocks. Private to pool/. Theory: object.c, dbuf.c.
 */
#ifndef AGATE_POOL_OBJECT_H
#define AGATE_POOL_OBJECT_H

#include "pool/dataset.h"
#include "pool/tree.h"
#include "pool/txg.h"

/* What one live txg must write of a block. */
struct dbuf_version {
	struct iobuf *buf; /* NULL: nothing */
	uint32_t len_bytes;
	struct list link;  /* pool_obj.live[].bufs */
};

/* A block in memory that is dirty or pinned (README "Dirty data"); all under obj->lock but for the bytes. */
struct pool_buf {
	struct pool_obj *obj;
	uint64_t block;
	struct pool_buf *next;   /* hash chain */
	struct pool_buf *picked; /* list of the fiber that prepares a change */
	struct iobuf *newest;    /* NULL: a hole, or not loaded */
	uint32_t len_bytes;      /* of newest; what is behind is zero */
	uint32_t pins;
	struct dbuf_version v[TXG_SLOTS];
};

static inline struct pool_buf *
dbuf_of_version(struct dbuf_version *v, unsigned slot)
{
	return container_of(v - slot, struct pool_buf, v);
}

#define OBJ_BUCKETS_MIN 4u

/* What a live txg must write of an object. Under obj->lock. */
struct obj_live {
	bool dirty;              /* on ds->dirty[slot], with a reference */
	struct list link;
	struct list bufs;
	struct block_range *ranges; /* freed in this txg; sorted by time, may overlap */
	uint32_t range_count, range_cap;
};

struct pool_obj {
	struct pool_ds *ds;      /* [c] */
	uint64_t number;         /* [c] */
	uint64_t generation;     /* [c] once loaded */
	struct pool_obj *next;   /* table chain, under the shard's lock */
	struct list idle;        /* shard's list of objects nobody holds */
	struct list of_snap;     /* of ds->objects, under its objects_lock; a snapshot's only */
	atomic_uint refs;        /* 0 -> 1 only under the shard's lock */
	bool hashed;             /* under the shard's lock */
	struct waitgroup loaded;
	int load_err;            /* valid once loaded */

	struct spin lock;
	struct object_slot slot; /* newest; of the tree's fields only block_bytes and block_count are used */
	uint64_t slot_txg;       /* newest txg that changed it; 0 = clean */
	struct object_slot *saved; /* what saved_txg must write, when slot is newer */
	uint64_t saved_txg;
	struct tree tree;
	atomic_ullong used_sectors; /* the tree's, for who asks without the lock */
	uint64_t tree_seq;       /* changes with tree and when ranges go */
	atomic_bool dying;
	atomic_ullong destroy_txg;
	struct obj_live live[TXG_SLOTS];
	struct pool_buf **buckets;
	uint32_t bucket_count, buf_count;
	uint32_t range_total;    /* of all live txgs */

	uint64_t read_next;      /* where a sequential reader goes on; a hint */
	uint64_t read_ahead;     /* blocks before this one have been fetched for him; a hint */

	atomic_uintptr_t owner;
	void (*drop)(void *owner);

	struct mutex log_mu;     /* order of this object's records; log.c */
	struct list deferred;
	struct list deferred_link[DEFERRED_SLOTS];
	bool deferred_in[DEFERRED_SLOTS];
	struct pool_commit last; /* newest thing to wait for */

	/* the syncing fiber only */
	struct pool_obj *sync_next;
};

/* ---- object.c: the table of objects ---- */
int objects_open(struct pool *p) WARN_UNUSED;
void objects_close(struct pool *p) MAY_PARK; /* nobody holds anything */
/* Every object of ds that nobody holds leaves memory (its dataset goes). Of a snapshot, it costs as much as those are. */
void objects_forget(struct pool_ds *ds);
/* Counts fetches that nobody waits for; objects_close does. */
struct waitgroup *objects_fetches(struct pool *p);
struct pool_obj *obj_find(struct pool_ds *ds, uint64_t object); /* a reference, or NULL; may be dying or loading */
/* As pool_obj_hold, for the syncing fiber: a dataset that is being destroyed is written until its last txg. */
int obj_hold_syncing(struct pool_ds *ds, uint64_t object, uint64_t generation, struct pool_obj **out) WARN_UNUSED MAY_PARK;
/* tx makes o dirty. */
void obj_dirty(struct pool_tx *tx, struct pool_obj *o);
uint8_t obj_copies(const struct pool_obj *o); /* how many times its blocks are written */
/* tx gives something to the accounts of uid and gid: their blocks are counted as dirty. */
void obj_accounts_dirty(struct pool_tx *tx, uint32_t uid, uint32_t gid);
/* The slot may be changed under tx. */
void obj_slot_dirty(struct pool_tx *tx, struct pool_obj *o) MAY_PARK;
/* Takes txg off o: what was to be written is gone (written, or dropped with its dataset). Under no lock. */
void obj_live_drop(struct pool_obj *o, uint64_t txg);
void obj_block_count_raise(struct pool_tx *tx, struct pool_obj *o, uint64_t count) MAY_PARK;

/* ---- object_alloc.c ---- */
uint64_t obj_number_pick(struct pool_ds *ds);
void obj_number_note(struct pool_ds *ds, uint64_t number, uint64_t generation); /* in use, chosen by replay */
void obj_number_give(struct pool_ds *ds, uint64_t number, uint64_t txg); /* its destruction lands with txg */
uint64_t obj_generation_next(struct pool_ds *ds);
/* The slot of object as the newest table has it. -ENOENT beyond the table. */
int obj_slot_read(struct pool_ds *ds, uint64_t object, struct object_slot *out) WARN_UNUSED MAY_PARK;

/* ---- dbuf.c ---- */
/* Finds or makes the entry of block and pins it; may be empty (newest NULL). */
struct pool_buf *dbuf_pin(struct pool_obj *o, uint64_t block) MAY_PARK;
void dbuf_unpin(struct pool_buf *b);
/* As pool_buf_hold, for the syncing fiber (obj_hold_syncing). */
int dbuf_hold_syncing(struct pool_obj *o, uint64_t block, bool create, struct pool_buf **out) WARN_UNUSED MAY_PARK;
/* Under o->lock: the entry, or NULL. */
struct pool_buf *dbuf_find(struct pool_obj *o, uint64_t block);
/* Under o->lock: is the block freed in a live txg (and not written since)? */
bool obj_range_covers(const struct pool_obj *o, uint64_t block);
/* Fills an empty pinned entry with what is on the drives; stays empty for a hole. to_change: and takes it from the cache. */
int dbuf_load(struct pool_buf *b, bool to_change) WARN_UNUSED MAY_PARK;
/*
 * Makes the contents writable for tx: keep_bytes of the old contents are kept, the length becomes len_bytes; what is between
 * is undefined. The caller has the block to itself. Waits for memory if it must.
 */
uint8_t *dbuf_make_writable(struct pool_tx *tx, struct pool_buf *b, uint32_t keep_bytes, uint32_t len_bytes) MAY_PARK;
/* The block becomes a hole for tx: what tx's txg would have written is dropped. Under o->lock. buffers to drop go to out (<= 2). */
void dbuf_clear(struct pool_buf *b, uint64_t txg, struct iobuf *out[2]);
/* Under o->lock: takes version txg off. Frees the entry when nothing needs it. Buffers to drop go to out (<= 2). */
void dbuf_version_done(struct pool_buf *b, uint64_t txg, struct iobuf *out[2]);

/* ---- object_sync.c ---- */
/* Writes what txg changed of ds and its new root: contents of *out_root. Freed numbers are given back. -EIO: the pool closes. */
int ds_sync(struct pool_ds *ds, uint64_t txg, struct bp *out_root) WARN_UNUSED MAY_PARK;
/* Drops what txg changed of a destroyed dataset. */
void ds_sync_drop(struct pool_ds *ds, uint64_t txg) MAY_PARK;

#endif
