/*
 * ilog_replay_int.h - private to the three files of replay: ilog_replay.c (the chain),
 * ilog_window.c (reading one side), ilog_scan.c (looking for batches without knowing where they
 * are).
 */
#ifndef AGATE_INTENTLOG_ILOG_REPLAY_INT_H
#define AGATE_INTENTLOG_ILOG_REPLAY_INT_H

#include "intentlog/ilog_int.h"

#define REPLAY_WINDOW_BYTES (256u << 10)

/* A piece of a side, read ahead. */
struct window {
	struct iobuf *buf; /* NULL: this side is out or absent */
	uint64_t off_bytes;
	uint32_t len_bytes;
	uint64_t small_until; /* a large read failed: below this, read sector by sector */
};

struct replay {
	const struct ilog_config *cfg;
	uint64_t epoch;
	ilog_deliver_fn *deliver;
	void *arg;
	struct ilog_replay_result *result;
	struct window win[ILOG_SIDES_MAX];
	struct iobuf *scratch; /* for repairs */
	uint8_t *best;         /* heap, ILOG_BATCH_BYTES_MAX: the batch found */
	uint8_t *other;        /* the same: the copy that is being compared */
	uint32_t live;         /* mask of sides */

	uint64_t off_bytes, batch_seq; /* what is expected next */
	uint64_t first_seq;            /* of its first record; 0: not known */
	struct ilog_cksum prev_cksum;
	bool prev_known;
};

/* Pointer to the sector at off_bytes of a side and how much follows it in memory; valid until the
 * next call for this side. 0 or the error of the read. */
int replay_window(struct replay *r, unsigned side, uint64_t off_bytes, const uint8_t **out,
    uint32_t *out_len) WARN_UNUSED MAY_PARK;
/* One side's copy of a batch into buf. 0; -ERR_CORRUPT there is no such batch; else the error of
 * the read. */
int replay_side(struct replay *r, unsigned side, const struct ilog_expect *want, uint8_t *buf,
    struct ilog_batch_info *out) WARN_UNUSED MAY_PARK;

/* Set off_bytes and batch_seq to the oldest batch that is still needed. False: there is nothing to
 * replay. */
bool replay_search(struct replay *r) MAY_PARK;
/* After the first hole: report it if the missing batch had been acknowledged. */
void replay_witness(struct replay *r) MAY_PARK;

#endif
