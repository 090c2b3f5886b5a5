/*
 * diff.h - comparing two snapshots. Private to fs/. Theory: diff.c.
 */
#ifndef AGATE_FS_DIFF_H
#define AGATE_FS_DIFF_H

#include "fs/dir.h"

enum diff_side { DIFF_FROM, DIFF_TO };

/* Of one object (and generation): that it changed, or a name that it had or has. */
enum rec_kind { REC_SLOT, REC_OLD, REC_NEW };
#define REC_MODIFIED 1u
#define REC_WANTED 2u /* a name of it is looked for */
struct diff_rec {
	uint64_t object, generation;
	uint64_t dir;  /* where the name is; 0: not known */
	uint64_t key;  /* the name's; 0: not found */
	int32_t links; /* REC_SLOT: by how much the link count differs */
	uint8_t kind, type, flags;
};

/* The records of one object: [slot] [old names] [new names]. */
struct diff_group {
	const struct diff_rec *slot, *old, *new;
	uint32_t old_count, new_count, count;
};

/* Where a directory is: kept so that paths cost little. */
struct diff_place {
	uint64_t object, parent, key;
	uint32_t side;
};
#define DIFF_PLACES 4096u
#define DIFF_PATH_BYTES 16384u

/* A directory that is compared: generation 0, there is none on that side. */
struct diff_dir {
	uint64_t object, generation[2];
};

struct fs_diff {
	uint64_t guid[2];           /* of the snapshots */
	enum { DIFF_GATHER, DIFF_NAMES, DIFF_EMIT, DIFF_DONE } phase;
	uint64_t lo, hi;            /* objects of this round: [lo, hi) */
	uint32_t rec_limit;

	/* gathering */
	uint64_t object;            /* the next stretch of the table begins here */
	bool has_stretch, table_end;
	uint32_t slot;              /* of the stretch, the next one */
	struct diff_dir dirs[2];
	uint32_t dir_count;
	uint64_t dir_key;           /* dirs[0] has been compared up to here */

	struct diff_rec *recs;
	uint32_t rec_count, rec_cap;

	/* looking for names */
	uint32_t *wanted;           /* of recs, by directory and object */
	uint32_t wanted_count, wanted_at;
	uint64_t wanted_key;

	struct diff_group group;    /* the one at hand */
	uint32_t emit_at, emit_row; /* its first record; names of it that were told */
	uint64_t steps;

	struct pool_diff *stretch;
	struct diff_place *places;
	uint8_t *leaf[2];
	char *path[2];
};

/* While a step runs. */
struct diff_step {
	struct fs_diff *d;
	struct fs_ds *ds[2];
	fs_change_fn *emit;
	void *arg;
	uint32_t rows;
};

/* ---- diff.c ---- */
int diff_rec_add(struct fs_diff *d, const struct diff_rec *r) WARN_UNUSED;

/* ---- diff_dir.c ---- */
/* A part of comparing d->dirs[0]; takes it off when that is done. */
int diff_dir_step(struct diff_step *s) WARN_UNUSED MAY_PARK;
/* Which changed objects need a name that hasn't changed; by directory. */
int diff_names_begin(struct fs_diff *d, uint64_t root) WARN_UNUSED;
/* Looks through a leaf of the next directory. */
int diff_names_step(struct diff_step *s) WARN_UNUSED MAY_PARK;

/* ---- diff_path.c ---- */
/* The path of an entry into d->path[which]; where it begins. */
int diff_path(struct diff_step *s, enum diff_side side, uint64_t dir, uint64_t key, uint32_t which,
    const char **out) WARN_UNUSED MAY_PARK;
int diff_node(struct diff_step *s, enum diff_side side, uint64_t object, uint64_t generation,
    struct fs_node **out) WARN_UNUSED MAY_PARK;
/* The next changes of the records. */
int diff_emit_step(struct diff_step *s) WARN_UNUSED MAY_PARK;

#endif
