/*
 * replay.c - after an import: what the log has and the root lacks.
 *
 * Records up to log_floor (txg) or log_replayed (sequence) are in the root and are delivered for
 * information only. Each of the others is redone in transactions that note its sequence number with
 * their txg; the root of that txg says log_replayed = that number and otherwise names the old ring
 * as before. So a crash at any point repeats exactly what is missing.
 *
 * When all is delivered a new ring starts in a new epoch. The first root that names it also
 * contains the effect of every record; nothing is written to the ring, and nothing acknowledged by
 * it, before LOG_ROOTS such roots are committed, which pool_replay waits for.
 */
#include "pool/pool_log.h"
#include "pool/scan.h"

struct replay {
	struct pool *p;
	pool_deliver_fn *deliver;
	void *arg;
	struct pool_replay_result result;
};

static bool
dataset_wants(struct pool *p, uint64_t guid, uint64_t incarnation)
{
	struct pool_ds *ds;
	bool same;

	if (pool_ds_open_guid(p, guid, &ds) != 0) {
		return false;
	}
	same = atomic_load(&ds->incarnation) == incarnation;
	pool_ds_close(ds);
	return same;
}

static int
replay_one(void *arg, const struct ilog_record *rec, const void *payload)
{
	struct replay *r = arg;
	struct pool_log_state *s = r->p->log;
	struct pool_record out = {
	    .type = rec->type,
	    .flags = rec->flags,
	    .seq = rec->seq,
	    .txg = rec->txg,
	    .dataset = rec->dataset,
	    .incarnation = rec->incarnation,
	    .object = rec->object,
	    .generation = rec->generation,
	    .payload = payload,
	    .len_bytes = rec->len_bytes,
	};
	int err;

	out.in_root = (rec->txg <= s->floor && !DELIBERATE_BUG("pool-replay-floor-ignored")) ||
		      rec->seq <= s->replayed;
	if (out.in_root || !dataset_wants(r->p, rec->dataset, rec->incarnation)) {
		r->result.skipped++;
		return out.in_root ? r->deliver(r->arg, &out) : 0;
	}
	atomic_store(&s->delivering, rec->seq);
	err = r->deliver(r->arg, &out);
	if (err == 0) {
		r->result.delivered++;
	}
	return err;
}

static bool
guid_is_zero(const struct guid *g)
{
	static const struct guid zero;

	return memcmp(g, &zero, sizeof(zero)) == 0;
}

/* A side that couldn't be brought up to date must not be used by a later replay. */
static int
sides_out(struct pool *p, const struct ilog_config *cfg, uint32_t mask)
{
	int err = 0;

	if (mask == 0) {
		return 0;
	}
	mutex_lock(&p->config_lock);
	for (uint32_t i = 0; i < p->v.drive_count; i++) {
		struct vdev_drive *d = &p->v.drives[i];

		for (unsigned side = 0; side < cfg->side_count; side++) {
			if ((mask >> side & 1) != 0 && d->kb != NULL &&
			    d->kb == cfg->sides[side].drive) {
				vdev_drive_out(
				    &p->v, d, DRIVE_STATE_FAULTED, p->v.committed_txg + 1);
			}
		}
	}
	err = log_membership_write(p);
	mutex_unlock(&p->config_lock);
	return err;
}

static int
replay_ring(struct replay *r)
{
	struct pool *p = r->p;
	struct pool_log_state *s = p->log;
	struct ilog_replay_result got = {0};
	struct ilog_config cfg;
	bool in_pool = memcmp(&s->old_guid, &p->v.ring_guid, sizeof(s->old_guid)) == 0;
	int err;

	if ((le32_get(p->ub.flags) & UBER_CLEAN) != 0 || guid_is_zero(&s->old_guid)) {
		return 0;
	}
	err = vdev_log_config(&p->v, in_pool, s->old_position.epoch, &cfg);
	if (err == -ENODEV) {
		log_warn("replay_no_log pool=%s", p->name); /* import has asked whether to go on */
		return 0;
	}
	if (err == 0) {
		err = ilog_replay(&cfg, &s->old_position, replay_one, r, &got);
	}
	if (got.acked_lost) {
		log_error("replay_incomplete pool=%s last_seq=%llu", p->name,
		    (unsigned long long)got.last_seq);
	}
	return err != 0 ? err : sides_out(p, &cfg, got.sides_unrepaired);
}

int
pool_replay(struct pool *p, pool_deliver_fn *deliver, void *arg, struct pool_replay_result *out)
{
	struct replay r = {.p = p, .deliver = deliver, .arg = arg};
	bool rejoined;
	int err;

	if (p->readonly) {
		return -EROFS;
	}
	if (atomic_load(&p->log->from_txg) != UINT64_MAX) {
		*out = r.result; /* just created, or replayed before: starting a ring anew would
				    leave this one */
		return 0;
	}
	err = replay_ring(&r);
	if (err != 0) {
		return err;
	}
	mutex_lock(&p->config_lock);
	rejoined = vdev_log_rejoin(&p->v);
	mutex_unlock(&p->config_lock);
	log_ring_start(p, txg_open(p->txgs)); /* what was redone is in txgs up to this one */
	for (unsigned i = 0; i < LOG_ROOTS && err == 0; i++) {
		err = pool_sync(p);
	}
	if (rejoined) {
		/* only now: no root that an import may fall back to needs the old epoch's sides any
		 * more */
		atomic_store(&p->config_dirty, true);
	}
	if (err == 0) {
		scan_poke(p);
	}
	*out = r.result;
	log_notice("replayed pool=%s delivered=%llu skipped=%llu", p->name,
	    (unsigned long long)r.result.delivered, (unsigned long long)r.result.skipped);
	return err;
}
