/* dataset.h - datasets in memory: the MOS and those that hold files. Private to pool/. Theory: dataset.c. */
#ifndef AGATE_POOL_DATASET_H
#define AGATE_POOL_DATASET_H

#include "pool/limits.h"
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
	uint64_t referenced, own, snapshots; /* without what is pending */
	uint64_t pending;
	uint64_t written;          /* born after the newest snapshot */
	uint64_t children, live;   /* below it: what counts as used; what is really there, it included */
	uint64_t unused, refslack; /* reservations: what is kept for it and those below; for itself */
};

struct ds_numbers {
	uint64_t *v;
	uint32_t count, cap;
};

/* ---- deadlists; theory: deadlist.c ---- */

struct dead_list {
	uint64_t key;    /* of a bucket */
	uint64_t object; /* 0: none, and empty */
	uint64_t count, sectors;
};

/* The deadlist of a head or a snapshot; the syncing fiber's. */
struct deads {
	struct dead_list recent;   /* not sorted */
	uint64_t recent_young;
	struct dead_list *v;       /* buckets by key; valid when loaded */
	uint32_t count, cap;
	bool loaded, map_dirty;
	uint64_t map_object;
	uint64_t map_sectors, map_young; /* sums of the buckets */
};

#define DEAD_CHUNK_BPS 126u
struct dead_chunk {
	struct dead_chunk *next;
	uint32_t count;
	struct bp v[DEAD_CHUNK_BPS];
};

/* What gathers while a txg is written. */
struct dead_stage {
	struct spin lock;
	struct dead_chunk *chunks;
	uint64_t sectors, young;
};

/* ---- a snapshot in memory; theory: snap.c ---- */
struct snap {
	struct list by_guid, by_name; /* tables of struct snaps; under datasets.lock, as the rest unless told */
	struct pool_ds *head;         /* whose chain it is in */
	uint64_t guid, create_txg, create_time; /* [c] */
	uint64_t mos_object;
	struct bp root;               /* [c] */
	uint64_t referenced;          /* [c] set sectors, root block included */
	uint64_t data_bytes, object_count; /* [c] */
	uint64_t written;             /* of referenced, born after the one before */
	struct deads dead;            /* the syncing fiber's */
	char *name;                   /* behind the @ */
	char *tags;                   /* tag NUL time NUL ..., sorted */
	uint32_t tags_bytes, holds, clones;
	bool dying;                   /* to be destroyed: nobody finds it any more */
	struct list dirty;            /* of datasets.dirty_snaps: the description isn't in the MOS */
	struct pool_ds *ds;           /* opened: a reference */
	struct list opened;           /* of datasets.opened, oldest first */
	uint32_t pins;                /* openers that read its root */
};

struct account_limits;

struct pool_ds {
	struct pool *p;            /* [c] */
	bool is_mos;               /* [c] */
	uint64_t guid;             /* [c] */
	uint64_t snap_guid;        /* [c] of a snapshot's; 0: a head */
	atomic_ullong head_guid;   /* of a snapshot's: whose chain it is in now */
	struct snap *snap;         /* the same, under datasets.lock; NULL once it is destroyed */
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
	struct ds_limits limits;
	struct list zombie;        /* destroyed, not yet synced */
	struct snap *origin;       /* NULL: not a clone. As the chain: changed by the syncing fiber only (a clone's is set before it is there) */
	struct snap **snaps;       /* its chain, oldest first */
	uint32_t snap_count, snap_cap;
	uint32_t shown_count;      /* of them not hidden and not dying, as of ... */
	uint64_t shown_seq;        /* ... list_seq + 1 */
	atomic_ullong list_seq, list_time; /* of the list of snapshots that can be seen */
	struct rollback *rollback; /* on both the one that takes over and the zombie */
	bool not_yet;              /* takes over at a rollback: not synced before */
	atomic_ullong accept_txg;  /* transactions wait until this is committed */

	struct pool_ds_policy policy; /* under lock; read by sync */
	struct spin objects_lock;
	struct list objects;       /* of a snapshot: all that are in memory */
	atomic_uint objects_count; /* each has a reference */
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
	/* accounts.c, account_limits.c */
	struct spin account_lock;  /* accounts, for readers; quotas */
	struct tree accounts;
	uint64_t accounts_seen[TXG_SLOTS][DS_TABLE_SEEN]; /* under lock; blocks of them that will be written, as table_seen */
	atomic_ullong accounts_next; /* objects below are counted */
	atomic_bool accounts_spoilt; /* count anew */
	atomic_bool accounts_limited; /* there are quotas, and accounts to go by */
	struct account_limits *account_limits; /* under account_lock; NULL: there never were any */
	atomic_ullong object_count, used_sectors, data_bytes;
	atomic_ullong pending_sectors; /* of used_sectors: cut off, and no snapshot's; of the MOS: of what was destroyed, exactly */
	atomic_ullong own_sectors; /* of used_sectors, what was born after the origin */
	atomic_ullong root_sectors; /* of the root block */
	atomic_ullong own_root;     /* the same, if it was born after the origin, else 0 */
	atomic_ullong dead_young, snaps_dead_young; /* of its deadlist, of those of its snapshots: born after the origin */

	/* the syncing fiber and its workers */
	uint64_t mos_object;       /* 0: not created yet */
	struct bp root;            /* newest synced */
	uint64_t prev_snap_txg;    /* blocks born later are nobody else's */
	uint64_t origin_txg;       /* blocks born later are nobody's outside of the chain */
	struct deads dead;
	struct dead_stage stage;
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
	struct snaps *snaps;       /* snap.c */
	struct list dirty_snaps, opened;
	uint32_t opened_count;
	uint32_t hidden_snaps;     /* with names that pool_snap_is_hidden */
	struct list requests;      /* to the syncing fiber: struct snap_req, oldest first */
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
/* A description: what must be so (-ERR_CORRUPT, -ERR_FEATURE), and its fields. */
int ds_phys_check(const struct pool *p, const struct dataset_phys *phys) WARN_UNUSED;
int ds_phys_decode(const struct dataset_phys *phys, struct pool_ds *ds) WARN_UNUSED;
/* dataset_load.c: the tree and the chains. */
int datasets_load(struct pool *p) WARN_UNUSED MAY_PARK;
/* All datasets of the pool, or a fresh root dataset. */
int datasets_open(struct pool *p) WARN_UNUSED MAY_PARK;
int datasets_create(struct pool *p) WARN_UNUSED MAY_PARK;
void datasets_close(struct pool *p);
/* Step 1 and 2 of a txg: every dataset, then their descriptions in the MOS. */
int datasets_sync(struct pool *p, struct pool_tx *tx) WARN_UNUSED MAY_PARK;
/* Under datasets.lock, or before anybody else is there. */
void ds_attach(struct pool_ds *parent, struct pool_ds *ds);
uint64_t ds_guid_make(void);
/* A dataset's or a snapshot's description, as bytes, to its MOS object; made if *object is 0. */
int description_put(struct pool *p, struct pool_tx *tx, uint64_t *object, const uint8_t *bytes, uint32_t len) WARN_UNUSED MAY_PARK;
/* [off, off + len) of an object, copied. */
int obj_bytes_read(struct pool_obj *o, uint64_t off, uint32_t len, uint8_t *out) WARN_UNUSED MAY_PARK;
void ds_root_dirty(struct pool_tx *tx, struct pool_ds *ds);
/* Is there anything of txg to write? */
bool ds_is_dirty(struct pool_ds *ds, uint64_t txg);
/* The pool closes without a commit: what is dirty anywhere is forgotten. */
void datasets_abandon(struct pool *p) MAY_PARK;

/* The tree's change came to so many sectors more. */
void ds_count_added(struct pool_ds *ds, uint64_t sectors);
/* Is the pool's feature enabled? */
bool pool_has_snapshots(const struct pool *p);

/* ---- deadlist.c: where a block goes that ds no longer uses ---- */
/* Returns the set sectors that ds no longer counts. */
uint64_t ds_free(struct pool_ds *ds, uint64_t txg, const struct bp *bp) MAY_PARK;
/* The objset root block that a new one replaces. */
void ds_free_root(struct pool_ds *ds, uint64_t txg, const struct bp *bp) MAY_PARK;

/* ---- free_queue.c ---- */
void cuts_add(struct pool_ds *ds, const struct bp *bp, uint64_t object, uint64_t generation) MAY_PARK;
/* To the MOS's queue: what of a destroyed dataset or snapshot below bp was born after min_txg; flags: UNLINKED_*. added: set sectors that the
 * MOS counts from now on; pending: those that come back. */
struct pending {
	uint64_t min_txg;
	uint32_t flags;
	uint64_t added, pending;
};
void cuts_add_pending(struct pool *p, const struct bp *bp, const struct pending *what) MAY_PARK;
/* Frees a bounded part of what was cut off; what is left is durable with this txg. *out_left: there is more. */
int cuts_sync(struct pool_ds *ds, struct pool_tx *tx, bool *out_left) WARN_UNUSED MAY_PARK;
void cuts_drop(struct pool_ds *ds);

/* ---- blob.c ---- */
int blobs_open(struct pool *p) WARN_UNUSED MAY_PARK;
void blobs_close(struct pool *p);
int blobs_sync(struct pool *p, struct pool_tx *tx) WARN_UNUSED MAY_PARK;

#endif
