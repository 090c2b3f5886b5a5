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
 * writes in a new epoch. It is only looked at (ilog_scan.c).
 */
#include "intentlog/ilog_replay_int.h"

/* A batch found: where each side stands. */
struct found {
	uint32_t good, unreadable; /* masks */
	struct ilog_batch_info info;
};

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
		err = replay_side(r, s, &want, f->good == 0 ? r->best : r->other, &info);
		if (err != 0) {
			f->unreadable |= err == -ERR_CORRUPT ? 0 : 1u << s;
			continue;
		}
		if (r->first_seq != 0 && info.first_seq != r->first_seq) {
			continue;
		}
		if (f->good == 0) {
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

static int
side_write(struct replay *r, unsigned side, const struct ilog_batch_info *info)
{
	const struct ilog_side *to = &r->cfg->sides[side];
	uint32_t done = 0;

	while (done < info->len_bytes) {
		uint32_t n = MIN(info->len_bytes - done, REPLAY_WINDOW_BYTES);
		int err;

		memcpy(r->scratch->data, r->best + done, n);
		err = kb_write(
		    to->drive, to->off_bytes + info->off_bytes + done, r->scratch, n, KB_FUA);
		if (err != 0) {
			return err;
		}
		done += n;
	}
	return 0;
}

static void
batch_repair(struct replay *r, const struct found *f)
{
	bool any = false;

	for (unsigned s = 0; s < r->cfg->side_count; s++) {
		uint32_t bit = 1u << s;
		int err;

		if ((r->live & ~f->good & ~r->result->sides_unrepaired & bit) == 0) {
			continue;
		}
		err = side_write(r, s, &f->info);
		if (err != 0) {
			r->result->sides_unrepaired |= bit;
			log_warn("ilog_repair_failed side=%u batch=%llu error=\"%s\"", s,
			    (unsigned long long)f->info.batch_seq, err_str(err));
		} else {
			any = true;
		}
	}
	r->result->repaired_batches += any;
}

static int
batch_deliver(struct replay *r, const struct found *f)
{
	uint32_t pos = ILOG_BATCH_HEADER_BYTES;

	for (uint32_t i = 0; i < f->info.record_count; i++) {
		struct ilog_record rec;
		const void *payload;
		int err = ilog_record_decode(r->best, f->info.len_bytes, &pos, &rec, &payload);

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

static int
replay_alloc(struct replay *r)
{
	int err;

	r->best = mem_zalloc(ILOG_BATCH_BYTES_MAX);
	r->other = mem_zalloc(ILOG_BATCH_BYTES_MAX);
	if (r->best == NULL || r->other == NULL) {
		return -ENOMEM;
	}
	err = iobuf_alloc(REPLAY_WINDOW_BYTES, ARENA_LOG, &r->scratch);
	if (err != 0) {
		return err;
	}
	for (unsigned s = 0; s < r->cfg->side_count; s++) {
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
	err = replay_alloc(&r);
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
	iobuf_unref(r.scratch);
	mem_free(r.other);
	mem_free(r.best);
	return err;
}
