/* scan_int.h - shared by scan.c and scan_state.c. */
#ifndef AGATE_POOL_SCAN_INT_H
#define AGATE_POOL_SCAN_INT_H

#include "pool/damage.h"
#include "pool/pool_int.h"
#include "pool/scan.h"

struct progress {
	enum scan_kind kind;
	enum scan_state state;
	uint64_t next, examined, repaired, errors, unreached, started, ended, dirty_sum;
};

/*
 * How fast it goes: work is what a run has to look at, in allocated sectors; it is measured anew
 * whenever a run begins or goes on.
 */
struct scan_pace {
	uint64_t *work;        /* of each segment; 0: nothing to do there. NULL: not measured */
	uint64_t count; /* of work: the segments that there were */
	uint64_t left, done;   /* sectors; of this run */
	uint64_t segment_done; /* of the segment being worked on */
	uint64_t began_ns;     /* 0: nothing runs */
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
	struct scan_pace pace;  /* mu; work: of the fiber */
	bool open, poked, stop; /* mu */
	bool wrote;             /* since the last flush; the fiber's */
	struct waitgroup done;
};

/* Sets what a run that begins now has to do, and starts its clock. Takes over work. Under no lock.
 */
void pace_begin(struct scan *sc, uint64_t *work, uint64_t count, uint64_t next) MAY_PARK;
/* One block of a segment has been looked at. Under mu. */
void pace_block(struct scan *sc, uint64_t sectors);
/* A segment is done. Under mu. */
void pace_segment(struct scan *sc, uint64_t index);
void pace_end(struct scan *sc) MAY_PARK;

#endif
