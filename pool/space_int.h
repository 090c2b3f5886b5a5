/* space_int.h - state shared by space.c, space_alloc.c, segment.c and maplog.c. */
#ifndef AGATE_POOL_SPACE_INT_H
#define AGATE_POOL_SPACE_INT_H

#include "pool/space.h"

struct pool;

/* A map record in memory; the same 64 bytes, native. */
struct space_rec {
	uint64_t sector, birth, txg;
	uint16_t set, asize, psize;
	uint8_t op, cksum_kind;
	uint8_t cksum[32];
};
STATIC_ASSERT(sizeof(struct space_rec) == 64);

struct rec_list {
	struct space_rec *items;
	uint32_t count, cap;
};

enum seg_state { SEG_UNLOADED, SEG_LOADING, SEG_LOADED, SEG_BAD };

/*
 * One segment. [c] const, [l] under lock, [a] atomic, [s] sync fiber changes it under lock, so that
 * the sync fiber may read it without.
 */
struct space_seg {
	struct spin lock;
	uint32_t set, index;     /* [c] */
	uint64_t start, sectors; /* [c] set sectors */
	atomic_ullong
	    used; /* [a] sectors that can't be allocated: live, deferred, not yet recorded */
	atomic_uint owner;             /* [a] whose active segment it is; 0 = nobody's */
	atomic_uint run_max;           /* [a] no free run is longer, in granules */
	_Atomic(enum seg_state) state; /* [l] to change */
	uint32_t cursor;               /* [l] granule where the next search starts */
	uint64_t *bits;                /* [l] one per granule; set: can't be allocated */
	uint64_t folded_txg;     /* [s] every change up to it is in the map of the committed root */
	uint64_t folding_txg;    /* [s] the same for the root that is being written */
	uint64_t released_txg;   /* [s] frees up to it are allocatable */
	uint64_t change;         /* [s] counts changes of the fields above and below */
	struct rec_list pending; /* [s] changes that folding or a load still needs, by txg */
	uint32_t unfolded_from;  /* [s] first of pending that no fold has taken in */
	uint32_t incoming;       /* [s] scratch */
	bool no_fold;            /* [s] its map can't be read */
	atomic_ullong untrimmed; /* [a] sectors released since it was last trimmed, or since the import */
};

struct space_set {
	const struct raidz_config *cfg; /* [c] */
	uint32_t granule;              /* [c] sectors; parity + 1: every allocation is a multiple */
	uint32_t seg_count;            /* [a] grows, [s] changes it */
	uint32_t seg_room;             /* [c] of segs: it can't grow beyond in this life of the pool */
	uint64_t seg_sectors;          /* [c] */
	uint64_t sectors;              /* [a] grows before seg_count does */
	uint64_t object;               /* [c] after creation: OBJ_SEGMENTS object of the MOS */
	atomic_ullong used;            /* [a] */
	atomic_bool fresh; /* [s] added in this life of the pool: below roots that don't have its object its maps are empty */
	struct space_seg *segs;
};

#define SPACE_CLASSES 2
#define SPACE_GROWTHS_MAX 32u /* of sets, in one life of the pool */
#define SPACE_SEG_ROOM 4u     /* times as many segments as there are may come to be */
#define SPACE_EPOCH_SLOTS 8
#define SPACE_TXG_SLOTS 4

/* What one reactor has of its own. [r] */
struct space_core {
	atomic_uint readers[SPACE_EPOCH_SLOTS]; /* [a] */
	struct rec_list recs[SPACE_TXG_SLOTS];  /* of a txg that syncs */
	struct space_seg **active;              /* [set * SPACE_CLASSES + class] */
	uint32_t set_rotor;
	uint64_t set_bytes; /* allocated since the rotor moved */
};

struct space_range {
	uint64_t sector;
	uint32_t set, asize;
};

/* The frees of one txg, until they may be reused. [s] */
struct space_batch {
	struct list link;
	uint64_t txg, epoch, sectors;
	bool committed;
	uint32_t count;
	struct space_range *ranges; /* by set and sector */
};

/* A block of the map log that the newest root reaches. [s] */
struct space_log_block {
	struct list link;
	struct bp bp;
	uint64_t txg;
	uint32_t count;
	uint32_t room; /* records that fit */
};

/* Where maps and log blocks are kept: MOS objects and the block pipeline, or memory in tests. */
struct space_store {
	/* Finds the OBJ_SEGMENTS objects below a committed root. */
	int (*attach)(struct space *s, const struct bp *mos_root);
	/* Makes the object of a set. */
	int (*create)(struct space *s, struct pool_tx *tx, uint32_t set, struct pool_phys *phys);
	/* Bytes of the OBJ_SEGMENTS object of a set, below a committed root. */
	int (*map_read)(struct space *s, const struct bp *mos_root, uint32_t set, uint64_t off,
	    void *out, uint64_t len);
	int (*map_write)(struct space *s, struct pool_tx *tx, uint32_t set, uint64_t off,
	    const void *data, uint64_t len);
	/* What lies behind [off, off + len) is no longer needed. */
	int (*map_drop)(
	    struct space *s, struct pool_tx *tx, uint32_t set, uint64_t off, uint64_t len);
	int (*log_write)(
	    struct space *s, uint64_t txg, struct iobuf *buf, uint32_t len, struct bp *bp);
	int (*log_read)(struct space *s, const struct bp *bp, struct iobuf **out);
	uint64_t (*tx_txg)(const struct pool_tx *tx);
};
extern const struct space_store space_store_pool;

struct space {
	struct pool *p;
	const struct space_store *store;
	atomic_uint set_count; /* [a] grows: space_grow */
	uint32_t core_count;
	struct space_set *sets; /* room for POOL_SETS_MAX */
	struct space_core *cores;
	atomic_ullong total;                     /* [a] */
	atomic_ullong used, deferred, reserved;  /* [a] */
	atomic_ullong txg_meta[SPACE_TXG_SLOTS]; /* [a] sectors of metadata allocated in a txg */
	atomic_ullong meta_worst;  /* decays: see space_admit.c */
	atomic_ullong meta_last;
	atomic_ullong rewrite;     /* what removing everything may allocate first: see space_admit.c */
	atomic_ullong placed_plain[SPACE_TXG_SLOTS], placed[SPACE_TXG_SLOTS]; /* see space_note_placed */
	atomic_uint gang_percent;  /* what blocks take in pieces, of what they would in one */
	atomic_ullong overhead;    /* what figures show as the pool's own */
	atomic_ullong release;     /* deferred sectors of txgs up to busy_txg */
	atomic_bool records_lost; /* no memory for a record: this txg can't commit */

	struct mutex load_lock; /* fibers waiting for a segment that another one loads */
	struct cond load_done;
	atomic_uint load_waiters; /* fibers that wait so */

	struct mutex recent_mu;  /* space_trim.c: the next three */
	struct list recent;      /* space_batch, by txg */
	uint64_t recent_count, fresh_txg;
	atomic_bool trim_out;    /* something free is being discarded */
	atomic_ullong trim_wanted_ns;

	struct spin root_lock;
	struct bp root; /* committed MOS root; hole: none yet */

	atomic_ullong epoch;   /* readers that enter now */
	uint64_t epoch_oldest; /* [s] no reader is left of the epochs before */

	/* sync fiber only */
	struct list batches; /* space_batch, by txg */
	uint64_t released_txg;
	atomic_ullong committed_txg; /* others read it */
	atomic_bool held;         /* a reader holds back what is due */
	uint64_t busy_txg;        /* newest txg with more to do than the root; 0 = none */
	struct rec_list txg_recs; /* gathered for the log, kept until it is written */
	uint64_t txg_recs_txg;
	struct rec_list written;        /* the records of the txg that waits for its uberblock */
	struct list log_blocks; /* oldest first */
	uint64_t log_records, log_room, log_limit; /* records in the chain; that fit into it; may fit */
	struct bp log_tail;
	struct space_seg **_Atomic segs_all; /* [a] of all sets, in order; a larger one when there is a set more, published before seg_count */
	struct space_seg **segs_old[POOL_SETS_MAX]; /* the ones before, which somebody may still look at */
	struct space_seg **segs_grown[SPACE_GROWTHS_MAX]; /* likewise, when a set grew */
	uint32_t grown_count;  /* [s] */
	atomic_uint seg_count; /* [a] */
	uint32_t fold_next;
};

#define MAP_IO_BYTES ((uint64_t)1 << 20) /* of a map at once */

/* ---- record lists ---- */
int rec_list_reserve(struct rec_list *l, uint32_t more) WARN_UNUSED;
struct space_rec *rec_list_push(struct rec_list *l); /* NULL: no memory */
void rec_list_free(struct rec_list *l);
void rec_list_sort(struct rec_list *l) MAY_PARK; /* by set, sector, txg, op */
void rec_encode(const struct space_rec *r, struct map_record *out);
/* Against the pool's geometry: -ERR_CORRUPT. */
int rec_decode(
    const struct space *s, const struct map_record *raw, struct space_rec *out) WARN_UNUSED;

/* ---- segment.c ---- */
struct space_seg *space_seg_of(struct space *s, uint32_t set, uint64_t sector);
/* Live blocks of a segment below mos_root plus those of changes that its map lacks, by sector,
 * checked for overlaps. */
int seg_image(struct space *s, const struct bp *mos_root, const struct space_seg *seg,
    const struct rec_list *changes, struct rec_list *out,
    uint64_t *out_folded) WARN_UNUSED MAY_PARK;
/* Live blocks of a segment as of now; of the caller's read section none is reused. -ESTALE: it changes too fast, try later. */
int seg_image_now(struct space *s, struct space_seg *seg, struct rec_list *out) WARN_UNUSED MAY_PARK;
int seg_entry_check(const struct space_seg *seg, const struct segment_entry *e) WARN_UNUSED;
int seg_entry_read(struct space *s, const struct bp *mos_root, uint32_t set, uint32_t index,
    struct segment_entry *out) WARN_UNUSED MAY_PARK;
/* Makes its bitmap. 0; -EAGAIN another fiber loads it; -ENOMEM; -EIO...: it is bad from now on. */
int seg_load(struct space *s, struct space_seg *seg) WARN_UNUSED MAY_PARK;
/* Sets the bits of what can't be allocated in a segment that we hold in LOADING. bits: zeros. Errors of reading its map; -ERR_CORRUPT. */
int seg_bits_now(struct space *s, struct space_seg *seg, uint64_t *bits) WARN_UNUSED MAY_PARK;
void seg_load_wait(struct space *s, struct space_seg *seg) MAY_PARK;
/* Drops from pending what neither folding nor a load needs. */
void seg_trim(struct space *s, struct space_seg *seg);
void space_root_get(struct space *s, struct bp *out);

/* ---- maplog.c ---- */
/* Reads the chain from tail on, newest first: each(record, block's txg). out_blocks, when not NULL,
 * gets the blocks, oldest first. */
int maplog_read(struct space *s, const struct bp *tail,
    int (*each)(void *arg, const struct space_rec *r), void *arg,
    struct list *out_blocks) WARN_UNUSED MAY_PARK;
uint32_t maplog_block_cap(uint32_t len_bytes); /* records in a block */
uint64_t maplog_limit(uint64_t segments);      /* records that the chain may have room for */
uint64_t maplog_full_sectors(const struct vdevs *v, uint64_t segments); /* what it takes then */

/* ---- space_verify.c ---- */
/* Every column of the block behind a record: verified, and rewritten where wrong or stale. Errors of raidz_scrub_block. */
int space_verify_log_block(struct space *s, const struct space_log_block *b, struct raidz_report *out_report) WARN_UNUSED MAY_PARK;
int space_verify_record(struct pool *p, struct space_rec *r, struct raidz_report *out_report) WARN_UNUSED MAY_PARK;

/* ---- space_trim.c ---- */
void space_trim_released(struct space *s, struct space_batch *b); /* takes the batch over; sync fiber */
void space_trim_forget(struct space *s);

/* ---- space_alloc.c ---- */
void bits_set(uint64_t *bits, uint32_t from, uint32_t count);
void bits_clear(uint64_t *bits, uint32_t from, uint32_t count);
/* Finds a run of `want` clear bits. 0 or -ENOSPC; *out_max: no run is longer (only on -ENOSPC). */
int bits_find(const uint64_t *bits, uint32_t nbits, uint32_t cursor, uint32_t want, bool best,
    uint32_t *out, uint32_t *out_max) WARN_UNUSED;

/* ---- space.c ---- */
int space_alloc_state(
    struct pool *p, const struct space_store *store, struct space **out) WARN_UNUSED;
int space_load_from(struct pool *p, const struct space_store *store, const struct uberblock *ub,
    struct space **out) WARN_UNUSED MAY_PARK;

#endif
