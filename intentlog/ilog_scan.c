/*
 * ilog_scan.c - replay's looks at parts of the ring where batches may be anywhere.
 *
 * What lies behind the hole is never delivered: not now, and not later, since the next import
 * writes in a new epoch. It is only looked at: a batch behind the hole that says, under its
 * checksum, that the missing one had been acknowledged proves a loss. At most ILOG_IN_FLIGHT_MAX
 * batches are in flight, so such a witness can be no further than that many of the longest batches
 * away.
 *
 * Without a position, the batch to start with is the highest tail_batch that any good batch of the
 * epoch names: what its writer still needed. Starting at the oldest batch that can be found would
 * deliver the same and more, but might stop at a hole among batches that were needed no more.
 */
#include "intentlog/ilog_replay_int.h"

#define REPLAY_WITNESS_BYTES ((uint64_t)ILOG_BATCH_BYTES_MAX * (ILOG_IN_FLIGHT_MAX + 2))

struct scan {
	uint64_t min_durable; /* witness: names a batch from here on as acknowledged */
	uint64_t best_tail;   /* highest tail_batch seen */
	uint64_t seek_seq;    /* batch looked for */
	uint64_t found_off;
	bool witness, found;
};

static bool
scan_wants(const struct scan *sc, const struct ilog_batch_info *info)
{
	return (sc->min_durable != 0 && info->durable_batch >= sc->min_durable) ||
	       info->tail_batch > sc->best_tail ||
	       (sc->seek_seq != 0 && info->batch_seq == sc->seek_seq);
}

/* One sector of one side. Only batches that would change the outcome are verified whole. */
static void
scan_sector(struct replay *r, unsigned side, uint64_t off, struct scan *sc)
{
	struct ilog_expect want = {
	    .guid = r->cfg->guid,
	    .epoch = r->epoch,
	    .off_bytes = off,
	};
	struct ilog_batch_info info;
	const uint8_t *at;
	uint32_t len;

	if (replay_window(r, side, off, &at, &len) != 0 ||
	    ilog_header_decode(at, want.guid, want.epoch, off, &info) != 0 ||
	    !scan_wants(sc, &info)) {
		return;
	}
	want.batch_seq = info.batch_seq;
	if (replay_side(r, side, &want, r->other, &info) != 0) {
		return;
	}
	sc->witness |= sc->min_durable != 0 && info.durable_batch >= sc->min_durable;
	sc->best_tail = MAX(sc->best_tail, info.tail_batch);
	if (info.batch_seq == sc->seek_seq) {
		sc->found = true;
		sc->found_off = off;
	}
}

static void
scan_range(struct replay *r, uint64_t from, uint64_t to, struct scan *sc)
{
	for (unsigned s = 0; s < r->cfg->side_count; s++) {
		if ((r->live & 1u << s) == 0) {
			continue;
		}
		for (uint64_t off = from; off < to && !sc->witness && !sc->found;
		     off += SECTOR_BYTES) {
			scan_sector(r, s, off, sc);
			fiber_maybe_yield();
		}
	}
}

/* Reports it when a good batch in this range says that the batch expected next was acknowledged. */
static void
scan_witness(struct replay *r, uint64_t from, uint64_t to)
{
	struct scan sc = {.min_durable = r->batch_seq, .best_tail = UINT64_MAX};

	scan_range(r, from, to, &sc);
	if (sc.witness) {
		r->result->acked_lost = true;
		log_error("ilog_acked_lost epoch=%llu batch=%llu", (unsigned long long)r->epoch,
		    (unsigned long long)r->batch_seq);
	}
}

bool
replay_search(struct replay *r)
{
	struct scan sc = {.best_tail = 0};
	uint64_t start;

	scan_range(r, 0, r->cfg->region_bytes, &sc);
	if (sc.best_tail == 0) {
		return false;
	}
	start = sc.best_tail;
	sc = (struct scan){.best_tail = UINT64_MAX, .seek_seq = start};
	scan_range(r, 0, r->cfg->region_bytes, &sc);
	r->batch_seq = start;
	if (!sc.found) {
		/* It need not have been acknowledged: then nothing had to be replayed. */
		scan_witness(r, 0, r->cfg->region_bytes);
		return false;
	}
	r->off_bytes = sc.found_off;
	return true;
}

void
replay_witness(struct replay *r)
{
	uint64_t ring = r->cfg->region_bytes;
	uint64_t end = r->off_bytes + MIN(REPLAY_WITNESS_BYTES, ring);

	scan_witness(r, r->off_bytes, MIN(end, ring));
	if (end > ring && !r->result->acked_lost) {
		scan_witness(r, 0, end - ring);
	}
}
