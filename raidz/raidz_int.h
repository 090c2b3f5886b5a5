/*
 * raidz_int.h - what the I/O files of raidz/ share: the group, one block under way, its I/O.
 *
 * Two kinds of masks. A drive mask has bit d for drive d of the group, as in struct raidz_report. A
 * column mask has bit c for column c of one block's map (parity first). Inside the room everything
 * is a column mask until it goes into the report.
 */
#ifndef AGATE_RAIDZ_INT_H
#define AGATE_RAIDZ_INT_H

#include "raidz/geometry.h"
#include "raidz/stripe.h"

#define RAIDZ_REACTORS_MAX 64

/* I/O under way, counted by the reactor it runs on; a cache line each, so that reads don't contend.
 */
struct raidz_inflight {
	atomic_uint count[2]; /* [a] by epoch parity; see raidz_group.c */
	uint8_t pad[56];
};

struct raidz_group {
	struct raidz_config cfg; /* [c] as it was created; raidz_cfg_now has the width and length of now */
	atomic_uintptr_t col[RAIDZ_WIDTH_MAX]; /* [a] drive pointer, state in the low bits */
	_Atomic(struct kb_drive *) twin[RAIDZ_WIDTH_MAX]; /* [a] NULL: none */
	atomic_uint width;         /* [a] of a mirror, which may change; else cfg.width */
	atomic_ullong column_bytes; /* [a] grows */
	atomic_bool readonly;                  /* [a] */
	atomic_uint sit_out;                   /* [a] drive mask */
	atomic_uint epoch;                     /* [a] changed under quiesce */
	struct mutex quiesce;                  /* one quiescer at a time */
	struct raidz_inflight inflight[RAIDZ_REACTORS_MAX];
};

/* The drives as one operation sees them, from its start to its end. */
struct raidz_cols {
	struct raidz_config cfg;
	struct kb_drive *drive[RAIDZ_WIDTH_MAX]; /* NULL: missing */
	struct kb_drive *twin[RAIDZ_WIDTH_MAX];  /* NULL: none */
	uint32_t twins;                          /* which columns have one */
	uint32_t stand_ins;                      /* of a read: columns whose drive is the twin */
	uint32_t online, stale;                  /* drive masks, disjoint */
	uint32_t sit_out;                        /* of online: better not read */
	bool readonly;
	uint32_t epoch; /* for raidz_leave */
};
void raidz_enter(struct raidz_group *rg, struct raidz_cols *out);
void raidz_leave(struct raidz_group *rg, const struct raidz_cols *cols);
/* The configuration as it is now. */
struct raidz_config raidz_cfg_now(const struct raidz_group *rg);

/* ---- raidz_io.c ---- */

struct raidz_place {
	struct iobuf *buf;
	uint32_t off_bytes;
};

/* One block being read or scrubbed. */
struct raidz_job {
	struct raidz_group *rg;
	struct raidz_cols cols;
	struct raidz_map map;
	struct raidz_place place[RAIDZ_WIDTH_MAX]; /* where the memory of each column is */

	struct iobuf **buf; /* the data; a scrub points it into its side memory */
	uint32_t off_bytes, len_bytes;
	bool poisoned; /* a late drive may write into *buf: exchange it first */
	raidz_verify_fn *verify;
	void *verify_arg;
	bool scrub;

	uint32_t online, stale; /* column masks */
	uint32_t sit_out;       /* of online; a scrub reads them all the same */
	uint32_t have;          /* read well in this round */
	uint32_t failed;        /* answered with an error in this round */
	uint32_t lost;          /* gone or late: not asked again by this job */
	uint32_t tries;         /* calls of verify */
	struct raidz_report report;
};

struct raidz_result {                    /* column masks */
	uint32_t ok, failed, lost, late; /* failed includes lost, lost includes late */
};

void raidz_job_init(struct raidz_job *j, struct raidz_group *rg, uint64_t sector, uint32_t len);
/* Column mask to drive mask. */
uint32_t raidz_job_drives(const struct raidz_job *j, uint32_t columns);
uint8_t *raidz_job_mem(const struct raidz_job *j, uint32_t column);
/* Points the data columns at *buf (again). */
void raidz_job_place_data(struct raidz_job *j);
/* One I/O for each column in mask, all at once. May park. */
void raidz_job_io(struct raidz_job *j, enum kb_op op, uint32_t mask, struct raidz_result *out);
/* Reads columns: keeps have, failed, lost and report.io_error. True: no drive was late, whose
 * buffer would have to be given up. May park. */
bool raidz_job_read(struct raidz_job *j, uint32_t mask) WARN_UNUSED;
bool raidz_job_verify(struct raidz_job *j) WARN_UNUSED;

/*
 * Side memory of a job, from ARENA_REPAIR: count regions. As a rule they share one buffer, so that
 * a fiber never holds one while it waits for another. Where they are too long for that it is all
 * buffers or none. 0, or -ENOMEM after two seconds (the second case only). May park.
 */
#define RAIDZ_REGIONS_MAX (1 + 2 * RAIDZ_PARITY_MAX)
struct raidz_space {
	struct iobuf *buf[RAIDZ_REGIONS_MAX]; /* some NULL */
	struct raidz_place at[RAIDZ_REGIONS_MAX];
};
int raidz_space_get(struct raidz_space *s, const uint32_t *lens, uint32_t count) WARN_UNUSED;
void raidz_space_put(struct raidz_space *s);
/* Gives a poisoned read another data buffer, of the same use; not while the job has side memory.
 * 0, or -ENOMEM after two seconds. May park. */
int raidz_job_exchange(struct raidz_job *j) WARN_UNUSED;

/* ---- raidz_repair.c, raidz_mirror.c ---- */

/* Read, verify, reconstruct, repair; attempts >= 1 rounds before giving up. May park. */
int raidz_parity_run(struct raidz_job *j, uint32_t attempts) WARN_UNUSED;
int raidz_mirror_run(struct raidz_job *j, uint32_t attempts) WARN_UNUSED;
/* Writes the columns back from their places and reads the repaired ones again into spare (not the
 * STALE ones, for which this is an ordinary write). Only for what verify has approved. May park. */
void raidz_job_rewrite(struct raidz_job *j, uint32_t columns, struct raidz_place spare);
/* Scrub, when every column's place holds what is right: gives the twins theirs. May park. */
void raidz_job_write_twins(struct raidz_job *j);

#endif
