/* scan_int.h - shared by scan*.c. */
#ifndef AGATE_POOL_SCAN_INT_H
#define AGATE_POOL_SCAN_INT_H

#include "pool/damage.h"
#include "pool/pool_int.h"
#include "pool/scan.h"

struct progress {
	enum scan_kind kind;
	enum scan_state state;
	uint64_t next, examined, repaired, errors, unreached, started, ended, dirty_sum;
	uint64_t shown; /* hundredths of a percent, never lowered; see pace */
};
#define SHOWN_MAX 10000u

/* Work is what a run has to look at: see scan_pace.c. */
struct pace_work {
	uint64_t sectors, blocks;
};
#define PACE_SAMPLES 32u
struct pace_sample {
	uint64_t at_ns;
	struct pace_work done;
};
struct scan_pace {
	struct pace_work *work; /* of each segment, then of the map log; NULL: not measured */
	uint64_t count;         /* of work */
	struct pace_work left, done; /* of this run */
	uint64_t at;                 /* the entry of work that is under way */
	struct pace_work at_left;    /* what that has left */
	uint64_t base;               /* hundredths of a percent that were shown before this run */
	uint64_t began_ns;           /* 0: nothing runs */
	struct pace_sample samples[PACE_SAMPLES];
	uint32_t sample_count; /* ever */
	double n, s, t, ss, st; /* of blocks: how many, their sectors, what they took, products */
};

static inline bool
progress_is_active(const struct progress *at)
{
	return at->state == SCAN_RUNNING || at->state == SCAN_PAUSED;
}

#define SCAN_BAD_MAX 256u

struct scan {
	struct pool *p;
	struct damage_addr bad[SCAN_BAD_MAX]; /* of the fiber: what nothing could repair in this run */
	uint32_t bad_count;
	struct mutex mu;
	struct cond wake;
	struct progress at;     /* mu */
	struct progress written; /* mu; what the newest uberblock says, on all drives */
	struct scan_pace pace;  /* mu; work: of the fiber */
	bool open, poked, stop; /* mu */
	bool wrote;             /* since the last flush; the fiber's */
	struct waitgroup done;
};

/* scan_pace.c. pace_begin: what a run that begins now has to do; takes over work. Under no lock. */
void pace_begin(struct scan *sc, struct pace_work *work, uint64_t count, uint64_t next) MAY_PARK;
/* The others under mu. An entry of work is begun, and is so much after all. */
void pace_entry(struct scan *sc, uint64_t index, struct pace_work work);
/* A block of it has been looked at, which took so long. */
void pace_block(struct scan *sc, uint64_t sectors, uint64_t ns);
void pace_entry_done(struct scan *sc, uint64_t index);
void pace_end(struct scan *sc);
void pace_tell(const struct scan *sc, struct pool_scan_status *out);

/* One scan is told from the next one by when it began: so no two begin in the same second. */
static inline uint64_t
scan_started_now(const struct progress *before)
{
	return MAX(rt_wall_ns() / NSEC_PER_SEC, before->started + 1);
}

#endif
