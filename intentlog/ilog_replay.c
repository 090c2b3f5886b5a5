/*
 * ilog_replay.c - an old epoch, from a position to its first hole.
 *
 * Batch n is looked for where n - 1 ended, and, when it could not have fitted there, at offset 0.
 * It is what it should be if one side has a copy whose header says guid, epoch, n, this offset and
 * the checksum of n - 1, whose own checksum agrees and whose records all parse. Any one good copy
 * will do: also a batch that was never acknowledged because the other side didn't get it counts,
 * but then it must count next time too, even if only the other side is left. So before a batch is
 * delivered, every side without a good copy of it gets one, with FUA. A side that refuses is
 * reported: the owner may not rely on it.
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
#include "intentlog/ilog_int.h"

#define REPLAY_WINDOW_BYTES IOBUF_BYTES_MAX
STATIC_ASSERT(REPLAY_WINDOW_BYTES >= ILOG_BATCH_BYTES_MAX);
#define REPLAY_WITNESS_BYTES ((uint64_t)ILOG_BATCH_BYTES_MAX * (ILOG_IN_FLIGHT_MAX + 2))

struct window {
	struct iobuf *buf; /* NULL: this side is out or absent */
	uint64_t off_bytes;
	uint32_t len_bytes;
	uint64_t small_until; /* a large read failed below this: read only what is needed */
};

struct replay {
	const struct ilog_config *cfg;
	ilog_deliver_fn *deliver;
	void *arg;
	struct ilog_replay_result *result;
	struct window win[ILOG_SIDES_MAX];
	uint32_t live; /* mask of sides */
	uint64_t epoch;
	uint64_t off_bytes, batch_seq;
	uint64_t first_seq; /* expected of the next batch; 0: not known */
	struct ilog_cksum prev_cksum;
	bool prev_known;
};

/* A batch found: where each side stands. */
struct found {
	uint32_t good, unreadable; /* masks */
	unsigned best;             /* a side with a good copy */
	struct ilog_batch_info info;
};

static const uint8_t *
window_at(const struct replay *r, unsigned side, uint64_t off_bytes)
{
	const struct window *w = &r->win[side];

	return w->buf->data + (off_bytes - w->off_bytes);
}

static uint32_t
window_left(const struct replay *r, unsigned side, uint64_t off_bytes)
{
	const struct window *w = &r->win[side];

	return (uint32_t)(w->off_bytes + w->len_bytes - off_bytes);
}

/* After 0 the window of the side holds at least need_bytes from off_bytes on. */
static int
window_load(struct replay *r, unsigned side, uint64_t off_bytes, uint32_t need_bytes)
{
	struct window *w = &r->win[side];
	const struct ilog_side *from = &r->cfg->sides[side];
	uint64_t len = MIN(REPLAY_WINDOW_BYTES, r->cfg->region_bytes - off_bytes);
	int err = -EIO;

	ASSERT(need_bytes <= len);
	if (off_bytes >= w->off_bytes && off_bytes + need_bytes <= w->off_bytes + w->len_bytes) {
		return 0;
	}
	w->len_bytes = 0;
	if (off_bytes >= w->small_until) {
		err = kb_read(from->drive, from->off_bytes + off_bytes, w->buf, (uint32_t)len);
		if (err != 0) {
			w->small_until = off_bytes + len;
		}
	}
	if (err != 0) {
		len = need_bytes;
		err = kb_read(from->drive, from->off_bytes + off_bytes, w->buf, need_bytes);
	}
	if (err == 0) {
		w->off_bytes = off_bytes;
		w->len_bytes = (uint32_t)len;
	}
	return err;
}

/* One side's copy. 0; -ERR_CORRUPT there is no such batch; else the error of the read. */
static int
side_decode(
    struct replay *r, unsigned side, const struct ilog_expect *want, struct ilog_batch_info *out)
{
	uint64_t off = want->off_bytes;
	int err = window_load(r, side, off, SECTOR_BYTES);

	if (err != 0) {
		return err;
	}
	err = ilog_batch_decode(window_at(r, side, off), window_left(r, side, off), want, out);
	if (err != -ERR_TOOSMALL) {
		return err;
	}
	if (out->len_bytes > r->cfg->region_bytes - off) {
		return -ERR_CORRUPT;
	}
	err = window_load(r, side, off, out->len_bytes);
	if (err != 0) {
		return err;
	}
	return ilog_batch_decode(window_at(r, side, off), window_left(r, side, off), want, out);
}

/* The next batch at off_bytes on any side. */
static void
batch_look(struct replay *r, uint64_t off_bytes, struct found *f)
{
	struct ilog_expect want = {
	    .guid = r->cfg->guid,
	    .epoch = r->epoch,
	    .batch_seq = r->batch_seq,
	    .off_bytes = off_bytes,
	    .prev_cksum = r->prev_known ? &r->prev_cksum : NULL,
	};

	*f = (struct found){.good = 0};
	for (unsigned s = 0; s < r->cfg->side_count; s++) {
		struct ilog_batch_info info;
		int err;

		if ((r->live & 1u << s) == 0) {
			continue;
		}
		err = side_decode(r, s, &want, &info);
		if (err != 0) {
			f->unreadable |= err == -ERR_CORRUPT ? 0 : 1u << s;
			continue;
		}
		if (r->first_seq != 0 && info.first_seq != r->first_seq) {
			continue;
		}
		if (f->good == 0) {
			f->best = s;
			f->info = info;
		} else if (memcmp(&info.cksum, &f->info.cksum, sizeof(info.cksum)) != 0) {
			continue;
		}
		f->good |= 1u << s;
	}
}

/* 0 and *f; -ENOENT the epoch ends here; -EIO nobody can say. */
static int
batch_find(struct replay *r, struct found *f)
{
	if (r->off_bytes < r->cfg->region_bytes) {
		batch_look(r, r->off_bytes, f);
		if (f->good != 0) {
			return 0;
		}
		if (f->unreadable == r->live) {
			return -EIO;
		}
	}
	if (r->off_bytes != 0 && r->cfg->region_bytes - r->off_bytes < ILOG_BATCH_BYTES_MAX) {
		batch_look(r, 0, f);
		if (f->good != 0) {
			return 0;
		}
		if (f->unreadable == r->live) {
			return -EIO;
		}
	}
	return -ENOENT;
}

static void
batch_repair(struct replay *r, const struct found *f)
{
	bool any = false;

	for (unsigned s = 0; s < r->cfg->side_count; s++) {
		const struct ilog_side *to = &r->cfg->sides[s];
		struct kb_seg seg = {
		    .buf = r->win[f->best].buf,
		    .off_bytes = (uint32_t)(f->info.off_bytes - r->win[f->best].off_bytes),
		    .len_bytes = f->info.len_bytes,
		};
		struct kb_io io = {
		    .op = KB_WRITE,
		    .flags = KB_FUA,
		    .off_bytes = to->off_bytes + f->info.off_bytes,
		    .segs = &seg,
		    .seg_count = 1,
		};
		struct kb_group g;
		uint32_t bit = 1u << s;

		if ((r->live & ~f->good & ~r->result->sides_unrepaired & bit) == 0) {
			continue;
		}
		kb_group_init(&g);
		kb_submit(to->drive, &io, &g, 0);
		kb_group_wait(&g);
		if (io.status != 0) {
			r->result->sides_unrepaired |= bit;
			log_warn("ilog_repair_failed side=%u batch=%llu error=\"%s\"", s,
			    (unsigned long long)f->info.batch_seq, err_str(io.status));
		} else {
			any = true;
		}
	}
	r->result->repaired_batches += any;
}

static int
batch_deliver(struct replay *r, const struct found *f)
{
	const uint8_t *buf = window_at(r, f->best, f->info.off_bytes);
	uint32_t pos = ILOG_BATCH_HEADER_BYTES;

	for (uint32_t i = 0; i < f->info.record_count; i++) {
		struct ilog_record rec;
		const void *payload;
		int err = ilog_record_decode(buf, f->info.len_bytes, &pos, &rec, &payload);

		ASSERT(err == 0);
		err = r->deliver(r->arg, &rec, payload);
		if (err != 0) {
			return err;
		}
		r->result->records++;
		r->result->bytes += rec.len_bytes;
		r->result->last_seq = rec.seq;
	}
	r->result->batches++;
	return 0;
}

static int
replay_run(struct replay *r)
{
	for (;;) {
		struct found f;
		int err = batch_find(r, &f);

		if (err != 0) {
			return err == -ENOENT ? 0 : err;
		}
		batch_repair(r, &f);
		err = batch_deliver(r, &f);
		if (err != 0) {
			return err;
		}
		r->off_bytes = f.info.off_bytes + f.info.len_bytes;
		r->batch_seq++;
		r->first_seq = f.info.first_seq + f.info.record_count;
		r->prev_cksum = f.info.cksum;
		r->prev_known = true;
	}
}

/* ---- looking at all batches of a part of the ring ---- */

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

/* One sector of one side. Only batches that would change the outcome are read and verified whole.
 */
static void
scan_sector(struct replay *r, unsigned side, uint64_t off, struct scan *sc)
{
	struct ilog_expect want = {
	    .guid = r->cfg->guid,
	    .epoch = r->epoch,
	    .off_bytes = off,
	};
	struct ilog_batch_info info;

	if (window_load(r, side, off, SECTOR_BYTES) != 0 ||
	    ilog_header_decode(window_at(r, side, off), want.guid, want.epoch, off, &info) != 0 ||
	    !scan_wants(sc, &info)) {
		return;
	}
	want.batch_seq = info.batch_seq;
	if (side_decode(r, side, &want, &info) != 0) {
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

/* The position is not known: find it. False: there is nothing to replay. */
static bool
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
	if (!sc.found) {
		r->result->acked_lost = true;
		return false;
	}
	r->off_bytes = sc.found_off;
	r->batch_seq = start;
	return true;
}

/* After the first hole: was the missing batch acknowledged? */
static void
replay_witness(struct replay *r)
{
	struct scan sc = {.min_durable = r->batch_seq, .best_tail = UINT64_MAX};
	uint64_t ring = r->cfg->region_bytes;
	uint64_t end = r->off_bytes + MIN(REPLAY_WITNESS_BYTES, ring);

	scan_range(r, r->off_bytes, MIN(end, ring), &sc);
	if (end > ring) {
		scan_range(r, 0, end - ring, &sc);
	}
	if (sc.witness) {
		r->result->acked_lost = true;
		log_error("ilog_acked_lost epoch=%llu batch=%llu", (unsigned long long)r->epoch,
		    (unsigned long long)r->batch_seq);
	}
}

static int
windows_alloc(struct replay *r)
{
	for (unsigned s = 0; s < r->cfg->side_count; s++) {
		int err;

		if (r->cfg->sides[s].drive == NULL) {
			continue;
		}
		err = iobuf_alloc(REPLAY_WINDOW_BYTES, ARENA_LOG, &r->win[s].buf);
		if (err != 0) {
			return err;
		}
		r->live |= 1u << s;
	}
	return 0;
}

int
ilog_replay(const struct ilog_config *cfg, const struct ilog_position *from,
    ilog_deliver_fn *deliver, void *arg, struct ilog_replay_result *out_result)
{
	struct replay r = {
	    .cfg = cfg,
	    .deliver = deliver,
	    .arg = arg,
	    .result = out_result,
	    .epoch = from->epoch,
	    .off_bytes = from->off_bytes,
	    .batch_seq = from->batch_seq,
	    .prev_known = from->batch_seq == 1, /* before the first there are zeros */
	};
	int err = ilog_config_check(cfg);

	*out_result = (struct ilog_replay_result){.batches = 0};
	if (err != 0) {
		return err;
	}
	if (from->epoch == 0 || from->off_bytes >= cfg->region_bytes ||
	    from->off_bytes % SECTOR_BYTES != 0) {
		return -EINVAL;
	}
	err = windows_alloc(&r);
	if (err != 0) {
		goto free;
	}
	if (from->batch_seq != 0 || replay_search(&r)) {
		err = replay_run(&r);
		if (err == 0) {
			replay_witness(&r);
		}
	}
free:
	for (unsigned s = 0; s < cfg->side_count; s++) {
		iobuf_unref(r.win[s].buf);
	}
	return err;
}
