/* dataset.h - datasets in memory: the MOS and those that hold files. Private to pool/. Theory: dataset.c. */
#ifndef AGATE_POOL_DATASET_H
#define AGATE_POOL_DATASET_H

#include "pool/tree.h"
#include "pool/txg.h"

#define DS_CHUNK_NUMBERS 64u
#define DS_NUMBER_LANES 64u
#define DS_TABLE_SEEN 16u

/* The owner's part of an objset root: by value, one copy kept for an older live txg. */
struct ds_open {
	uint64_t root_object;
	uint8_t owner[512];
};

/* A sub-tree that was cut off; see free_queue.c. */
struct cut {
	struct list link;
	struct unlinked_entry e;
};

/* What is shown of a dataset, in set sectors, as of the last commit. figures.c */
struct ds_figures {
	uint64_t referenced, pending, children;
};

struct ds_numbers {
	uint64_t *v;
	uint32_t count, cap;
};

struct pool_ds {
	struct pool *p;            /* [c] */
	bool is_mos;               /* [c] */
	uint64_t guid;             /* [c] */
	atomic_uint refs;
	atomic_bool destroyed;
	atomic_ullong incarnation;

	/* under datasets.lock */
	struct pool_ds *parent;    /* NULL: root */
	struct list sibling, children;
	char name[DATASET_NAME_MAX + 1]; /* last component; the root's is empty */
	uint64_t create_time, create_txg;
	char *props;               /* key NUL value NUL ..., keys sorted */
	uint32_t props_bytes;
	bool phys_dirty;           /* something above isn't in the MOS yet */
	uint64_t destroy_txg;
	struct ds_figures shown;
	struct list zombie;        /* destroyed, not yet synced */

	struct pool_ds_policy policy; /* under lock; read by sync */
	struct spin lock;
	struct ds_open open;
	uint64_t open_txg;         /* newest txg that changed it; 0 = clean */
	struct ds_open saved;
	uint64_t saved_txg;        /* saved is what this one must write; 0 = none */
	struct list dirty[TXG_SLOTS]; /* of obj_live.link */
	bool root_dirty[TXG_SLOTS];
	uint64_t table_seen[TXG_SLOTS][DS_TABLE_SEEN]; /* table blocks that will be written: block << 16 | txg */

	/* numbers */
	struct spin number_lock;
	uint64_t next_object;      /* above it none was ever used */
	struct {
		uint64_t next, end;
	} lane[DS_NUMBER_LANES];
	struct ds_numbers freed;   /* to use again */
	struct ds_numbers landed;  /* destroyed in landed_txg: to use again when that is committed */
	uint64_t landed_txg;
	uint64_t scan_next, scan_end; /* table blocks not yet searched for free slots */
	uint64_t last_generation;

	struct spin table_lock;    /* table, for readers */
	struct tree table;
	atomic_ullong object_count, used_sectors, data_bytes;
	atomic_ullong pending_sectors; /* of used_sectors: cut off, and no snapshot's */

	/* the syncing fiber and its workers */
	uint64_t mos_object;       /* 0: not created yet */
	struct bp root;            /* newest synced */
	uint64_t prev_snap_txg;    /* blocks born later are nobody else's */
	uint64_t unlinked_object, dying_count;
	struct spin cut_lock;
	struct list cuts;          /* of struct cut: newest first */
	uint64_t cut_count;
};

struct datasets {
	struct mutex lock;         /* the tree of datasets, names, properties */
	struct pool_ds *mos;
	struct pool_ds *root;
	struct list zombies;
	uint64_t count;            /* datasets that are not destroyed */
	bool phys_dirty;           /* phys isn't in the MOS yet */
	uint64_t shown_live, shown_pending; /* sums of all datasets' figures; pending: with destroyed ones */
	atomic_ullong freeing;     /* shown_pending, without the lock */
	struct pool_phys phys;
	/* blobs, see blob.c */
	struct mutex blob_lock;
	struct list blobs;
	uint64_t blob_object;
	bool blobs_dirty;
};

struct pool_ds *ds_make(struct pool *p, bool is_mos) WARN_UNUSED;
void ds_free_memory(struct pool_ds *ds);
/* Takes over what an objset root says. -EIO, -ERR_CKSUM, -ERR_CORRUPT. */
int ds_load_root(struct pool_ds *ds, const struct bp *root) WARN_UNUSED MAY_PARK;
/* All datasets of the pool, or a fresh root dataset. */
int datasets_open(struct pool *p) WARN_UNUSED MAY_PARK;
int datasets_create(struct pool *p) WARN_UNUSED MAY_PARK;
void datasets_close(struct pool *p);
/* Step 1 and 2 of a txg: every dataset, then their descriptions in the MOS. */
int datasets_sync(struct pool *p, struct pool_tx *tx) WARN_UNUSED MAY_PARK;
/* Under datasets.lock, or before anybody else is there. */
void ds_attach(struct pool_ds *parent, struct pool_ds *ds);
uint64_t ds_guid_make(void);
/* [off, off + len) of an object, copied. */
int obj_bytes_read(struct pool_obj *o, uint64_t off, uint32_t len, uint8_t *out) WARN_UNUSED MAY_PARK;
void ds_root_dirty(struct pool_tx *tx, struct pool_ds *ds);
/* Is there anything of txg to write? */
bool ds_is_dirty(struct pool_ds *ds, uint64_t txg);
/* The pool closes without a commit: what is dirty anywhere is forgotten. */
void datasets_abandon(struct pool *p) MAY_PARK;

/* ---- deadlist.c: where a block goes that ds no longer uses ---- */
/* Returns the set sectors that ds no longer counts. */
uint64_t ds_free(struct pool_ds *ds, uint64_t txg, const struct bp *bp) MAY_PARK;

/* ---- free_queue.c ---- */
void cuts_add(struct pool_ds *ds, const struct bp *bp, uint64_t object, uint64_t generation) MAY_PARK;
/* Frees a bounded part of what was cut off; what is left is durable with this txg. *out_left: there is more. */
int cuts_sync(struct pool_ds *ds, struct pool_tx *tx, bool *out_left) WARN_UNUSED MAY_PARK;
void cuts_drop(struct pool_ds *ds);

/* ---- blob.c ---- */
int blobs_open(struct pool *p) WARN_UNUSED MAY_PARK;
void blobs_close(struct pool *p);
int blobs_sync(struct pool *p, struct pool_tx *tx) WARN_UNUSED MAY_PARK;

#endif
