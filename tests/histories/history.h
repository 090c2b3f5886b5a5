/* history.h - a pool with its datasets and snapshots, and what the model knows of them. Theory: README.md. */
#ifndef AGATE_TESTS_HISTORY_H
#define AGATE_TESTS_HISTORY_H

#include "pool/object.h"
#include "tests/unit/pool_rig.h"

#define HISTORY_OBJS 5u
#define HISTORY_HEADS 5u
#define HISTORY_SNAPS 40u
#define HISTORY_TXGS 2048u
#define HISTORY_SEG_BYTES (64u * 1024)
#define HISTORY_PAGES (HISTORY_SEG_BYTES / SECTOR_BYTES)

/* ---- what is counted ---- */
#define HISTORY_KINDS(K) \
	K(WRITE, "writes") \
	K(TRUNCATE, "truncations") \
	K(HOLE, "holes") \
	K(INLINE, "inline data") \
	K(BONUS, "bonus changes") \
	K(OBJ_CREATE, "objects made") \
	K(OBJ_DESTROY, "objects destroyed") \
	K(REUSE, "numbers used again") \
	K(MIB_RECORDS, "objects of 1 MiB records") \
	K(RECORD_SIZE, "record sizes changed") \
	K(COMPRESS, "compression changed") \
	K(SNAP, "snapshots") \
	K(SNAP_DESTROY, "snapshots destroyed") \
	K(SNAP_RENAME, "snapshots renamed") \
	K(HOLD, "holds") \
	K(CLONE, "clones") \
	K(PROMOTE, "promotions") \
	K(ROLLBACK, "rollbacks") \
	K(ROLLBACK_KEPT, "rollbacks that keep the old state") \
	K(ROLLING_BACK, "objects read while a rollback was under way") \
	K(DS_DESTROY, "datasets destroyed") \
	K(DS_RENAME, "datasets renamed") \
	K(LIMITS, "quotas and reservations") \
	K(ACCOUNTS, "accounts of snapshots compared") \
	K(UPGRADE, "pools upgraded") \
	K(NO_SPACE, "refused: no space") \
	K(NO_QUOTA, "refused: quota") \
	K(CUT, "power cuts") \
	K(CUT_TAKE_UP, "power cuts while a pool is taken up") \
	K(BACK, "older roots") \
	K(EXPORT, "exports") \
	K(DRIVE_GONE, "drives lost") \
	K(DRIVE_BACK, "drives returned") \
	K(DRIVE_MISSING, "imports without a drive") \
	K(GANG, "blocks in pieces") \
	K(RAIDZ1, "pools: one parity") \
	K(RAIDZ2, "pools: two parities") \
	K(MIRROR, "pools: mirrors") \
	K(FULL, "pools: nearly full") \
	K(ROOTS, "roots of snapshots compared") \
	K(COMPARE, "objects compared") \
	K(CHECK, "checks of trees and maps") \
	K(CHECK_ALL, "checks with contents")

enum history_kind {
#define HISTORY_ENUM(name, text) HK_##name,
	HISTORY_KINDS(HISTORY_ENUM)
#undef HISTORY_ENUM
	HISTORY_KIND_COUNT
};
extern const char *const history_kind_names[HISTORY_KIND_COUNT];

struct history_counts {
	uint64_t steps, writes; /* of drives */
	uint64_t kind[HISTORY_KIND_COUNT];
};

/* ---- what a run is told ---- */
struct history_spec {
	uint64_t seed;
	uint32_t steps;
	unsigned buggify;   /* percent */
	bool real;          /* on threads, without cuts */
	uint32_t every_cut; /* > 0: a child goes on from a cut at each write, and each n-th cuts its own taking up so too */
	uint32_t cuts, bad; /* out: of these */
	struct history_counts *counts;
};
/* One seed: lives until its steps are done. Dies of what is wrong. */
void history_run(struct history_spec *spec);

/* ---- the model ---- */

/* What an object is, for comparing. */
struct ostate {
	uint64_t number, generation; /* 0: doesn't exist */
	uint64_t hash;
};

/* What the datasets of a txg were. */
struct entry {
	uint64_t txg;
	struct ostate o[HISTORY_OBJS];
};

/* Two parts of an object: its first bytes, and some on both sides of a border of records of any size. */
struct bytes {
	uint32_t bonus[4]; /* with user and group at 1 and 2 */
	uint32_t inline_len;
	uint8_t inl[OBJECT_INLINE_MAX];
	uint64_t page[2][HISTORY_PAGES]; /* hashes */
	uint8_t seg[2][HISTORY_SEG_BYTES];
};
extern const uint64_t history_seg_at[2];

struct head {
	bool exists, busy;
	char path[64];
	uint64_t guid, incarnation;
	uint64_t top_number; /* largest object number seen */
	struct ostate now[HISTORY_OBJS];
	struct bytes b[HISTORY_OBJS];
	struct entry history[HISTORY_TXGS];
	uint32_t count;
};

struct msnap {
	bool exists; /* else what it was, should the pool go back to an older root */
	uint64_t guid, create_txg;
	uint32_t holds;
	struct bp root; /* by its checksum it stands for all that is below */
	struct ostate o[HISTORY_OBJS];
};

enum admin_kind {
	ADM_NONE,
	ADM_CREATE,
	ADM_DESTROY,
	ADM_CLONE,
	ADM_PROMOTE,
	ADM_ROLLBACK,
	ADM_GONE,
	ADM_RENAME,
};

/* The operation that runs beside, or did when the power was cut. */
struct admin {
	enum admin_kind kind;
	bool running, started;
	uint32_t head;                          /* clone: where to; rollback, promote, gone, rename: whom */
	uint32_t kept;                          /* rollback: where to; HISTORY_HEADS: nowhere */
	uint32_t snap;                          /* clone, rollback */
	uint32_t heads[HISTORY_HEADS], count;   /* create: of whom */
	uint32_t snaps[HISTORY_SNAPS];          /* destroy, gone: count of them */
	char name[64];                          /* create, rename */
};

struct layout {
	enum raidz_kind kind;
	uint32_t parity, width, sets, tolerates;
	uint64_t drive_bytes;
	bool full;
	enum history_kind counted;
};

struct history {
	struct history_spec *spec;
	struct history_counts *counts;
	const struct layout *layout;
	struct pool_rig rig;
	struct head heads[HISTORY_HEADS];
	struct msnap snaps[HISTORY_SNAPS];
	struct admin adm;
	struct pool *pool;
	struct guid pool_guid;
	uint64_t rng, life, checked_txg;
	bool created, served, went_back, taking_up, old; /* old: made without accounts */
	uint32_t steps_left, name_count, snap_next, rolling;
};
extern struct history hs;

static inline void
history_count(enum history_kind k)
{
	hs.counts->kind[k]++;
}
uint64_t history_rnd(uint64_t below);
bool history_trace(void); /* wanted? */

/* ---- model.c: the past, and comparing ---- */
void history_push(struct head *h, uint64_t txg);
const struct ostate *history_at(const struct head *h, uint64_t txg);
void history_begin(struct head *h);
void bytes_clear(struct bytes *b);
void bytes_touch(struct bytes *b, unsigned seg, uint64_t at, uint64_t len);
uint64_t bytes_hash(const struct bytes *b);
/* Is the object as the model says? Its bytes go to out, if wanted. */
bool object_matches(struct pool_ds *ds, const struct ostate *want, struct bytes *out);
struct pool_ds *head_open(const struct head *h);
void head_identify(struct head *h);
/* The objects of a snapshot; the bytes to b (HISTORY_OBJS of them), if wanted. */
void snap_compare(const struct msnap *s, struct bytes *b);
/* One object of one snapshot, each in its turn; and the roots of all. */
void compare_some(void);
/* Exactly the snapshots of the model are there; everything is as it says. No operation is running. */
void compare_all(void);
/* Space is exact. */
void check(bool contents);

/* ---- objects.c: changing them ---- */
void step_object(struct head *h);
void step_limits(void);

/* ---- accounts.c ---- */
void accounts_none(void);
void accounts_compare(struct pool_ds *ds);
void step_upgrade(void);

/* ---- admin.c: operations in a fiber beside ---- */
void step_admin(void);
void step_tag(void);
void admin_wait(void);
uint32_t pick_head(bool exists);
uint32_t pick_snap(void);
bool snap_full_name(uint64_t guid, char out[DATASET_NAME_MAX + 1]);
void snap_learn(const struct head *h, const char *full);

/* ---- settle.c: what a crash left of the operation; falling back ---- */
void settle(void);
void go_back(uint64_t txg);
void heads_find(void);

/* ---- drives.c: pools of each kind, drives that go and come ---- */
void layout_choose(void);
void drives_make(void);
void drives_open(void);
void pool_make(void);
void step_drives(void);
/* All are there and up to date. */
void drives_heal(void);
void drives_forget(void);
void filler_step(void);

#endif
