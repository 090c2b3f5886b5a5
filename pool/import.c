/*
 * import.c - take up a pool: which drives, is anybody else using it, which root.
 *
 * The newest root is tried first; when it can't be opened, the two before it are: what they need is
 * still there, and so are the log records that bring them to the same state (pool/README.md,
 * invariants 3 and 4). Older ones only when the caller says so (rewind), since they may have been
 * overwritten in part. Whatever but the newest root is taken begins a new timeline, so that a drive
 * that is away now and has the abandoned future can never win.
 *
 * Nothing is written before a root is open. Then the labels get a new configuration: who is missing
 * is durably out, from the root's next txg on, before that txg.
 */
#include <stdio.h>

#include "pool/event.h"
#include "pool/heartbeat.h"
#include "pool/label.h"
#include "pool/pool_int.h"
#include "pool/scan.h"

#define ROOTS_BACK_MAX 2u

/* Another host that has the pool moves its newest uberblock at least every HEARTBEAT_NS. */
static int
check_active(const struct pool_import_spec *spec, struct vdevs *v, const struct uberblock *newest,
    struct pool_import_result *result)
{
	struct uberblock *again;
	int err;

	if (spec->force || (le32_get(newest->flags) & UBER_CLEAN) != 0 ||
	    le64_get(newest->host_id) == spec->host_id) {
		return 0;
	}
	again = mem_zalloc(sizeof(*again));
	if (again == NULL) {
		return -ENOMEM;
	}
	fiber_sleep(HEARTBEAT_WAIT_NS);
	err = uber_find(v, NULL, again);
	if (err == 0 && uber_cmp(again, newest) != 0) {
		(void)snprintf(result->why, sizeof(result->why),
		    "the pool is in use by host %.63s; export it there, or force the import if "
		    "that host is gone",
		    (const char *)again->host_name);
		err = -ERR_ACTIVE;
	}
	mem_free(again);
	return err;
}

static int
check_log(const struct pool_import_spec *spec, struct vdevs *v, const struct uberblock *ub,
    struct pool_import_result *result)
{
	bool clean = (le32_get(ub->flags) & UBER_CLEAN) != 0;
	struct ilog_config cfg;

	result->log_pending = !clean;
	if (guid_is_zero(&v->log_guid) || !guid_equal(&ub->log_guid, &v->log_guid) ||
	    vdev_log_config(v, false, le64_get(ub->log_epoch), &cfg) == 0) {
		return 0;
	}
	if (clean) {
		log_warn("pool.log_missing name=%s pending=no", v->name);
		return 0;
	}
	if (!spec->missing_log) {
		(void)snprintf(result->why, sizeof(result->why),
		    "no up-to-date log drive is there, and the pool wasn't exported: changes "
		    "acknowledged after txg %llu may be only on it",
		    (unsigned long long)le64_get(ub->txg));
		return -ENODEV;
	}
	log_error("pool.log_missing name=%s pending=given_up", v->name);
	result->log_pending = false;
	return 0;
}

static bool
is_unreadable(int err)
{
	return err == -EIO || err == -ERR_CKSUM || err == -ERR_CORRUPT;
}

/* Opens the newest root at or below the one asked for. p->ub is the newest of all on entry. */
static int
open_root(const struct pool_import_spec *spec, struct pool *p, struct pool_import_result *result)
{
	uint64_t newest_timeline = le64_get(p->ub.timeline);
	uint64_t newest_txg = le64_get(p->ub.txg);
	uint32_t back_max = spec->rewind_txgs != 0 ? UBER_SLOTS : ROOTS_BACK_MAX;
	int err = 0;

	if (spec->rewind_txgs != 0) {
		struct uber_key below = {newest_timeline,
		    newest_txg > spec->rewind_txgs ? newest_txg - spec->rewind_txgs + 1 : 1};

		err = uber_find(&p->v, &below, &p->ub);
		if (err == -ENOENT) {
			(void)snprintf(result->why, sizeof(result->why),
			    "no root is %u txgs older than the newest, %llu", spec->rewind_txgs,
			    (unsigned long long)newest_txg);
		}
	}
	while (err == 0) {
		struct uber_key key = {le64_get(p->ub.timeline), le64_get(p->ub.txg)};

		p->timeline = key.timeline;
		if (key.txg != newest_txg || key.timeline != newest_timeline) {
			p->timeline = newest_timeline + 1;
		}
		p->v.committed_txg = key.txg;
		err = pool_engine_open(p);
		if (!is_unreadable(err)) {
			break;
		}
		log_error("pool.root_unreadable name=%s txg=%llu error=%s", p->name,
		    (unsigned long long)key.txg, err_str(-err));
		if (result->roots_skipped == back_max || uber_find(&p->v, &key, &p->ub) != 0) {
			(void)snprintf(result->why, sizeof(result->why),
			    "the newest %u root(s), down to txg %llu, can't be read (%s); older "
			    "ones only by rewinding",
			    result->roots_skipped + 1, (unsigned long long)key.txg, err_str(-err));
			break;
		}
		result->roots_skipped++;
		err = 0;
	}
	return err;
}

/*
 * The older root, on its new timeline, beats the abandoned ones from here on. Before anything else
 * is written: what they refer to and it doesn't is free space now.
 */
static int
timeline_begin(struct pool *p)
{
	bool changed = true;
	int err = 0;

	if (DELIBERATE_BUG("pool-rewind-not-durable")) {
		return 0;
	}
	mutex_lock(&p->config_lock);
	for (uint32_t turn = 0; err == 0 && changed && turn <= p->v.drive_count; turn++) {
		changed = false;
		p->ub.timeline = le64_of(p->timeline);
		p->ub.config_txg = le64_of(p->v.config_txg);
		p->ub.flags = le32_of(0);
		err = uber_write(&p->v, &p->ub, &changed);
		if (err == 0 && changed) {
			err = vdev_write_labels(&p->v, vdev_next_config(&p->v));
		}
	}
	mutex_unlock(&p->config_lock);
	return err;
}

/* What an import changes about the membership, and its being durable. */
static int
settle(struct pool *p)
{
	struct vdevs *v = &p->v;
	int err;

	for (uint32_t i = 0; i < v->drive_count; i++) {
		struct vdev_drive *d = &v->drives[i];

		if (d->kb == NULL && (d->role == DRIVE_ROLE_DATA || d->role == DRIVE_ROLE_LOG) &&
		    d->state == DRIVE_STATE_ONLINE) {
			vdev_drive_out(v, d, DRIVE_STATE_REMOVED, v->committed_txg + 1);
		}
		/* out before this import already: the time until a spare is used begins anew */
		if (d->kb == NULL && d->role == DRIVE_ROLE_DATA && d->out_ns == 0) {
			d->out_ns = rt_now_ns();
			d->out_wall_s = rt_wall_ns() / NSEC_PER_SEC;
		}
	}
	err = vdev_write_labels(v, vdev_next_config(v));
	return err == 0 && p->timeline != le64_get(p->ub.timeline) ? timeline_begin(p) : err;
}

static int
rename_pool(const struct pool_import_spec *spec, struct pool *p, struct pool_import_result *result)
{
	if (spec->new_name != NULL) {
		int err = plan_check_name(spec->new_name, result->why, sizeof(result->why));

		if (err != 0) {
			return err;
		}
		(void)snprintf(p->v.name, sizeof(p->v.name), "%s", spec->new_name);
	}
	(void)snprintf(p->name, sizeof(p->name), "%s", p->v.name);
	return 0;
}

static int
take_up(const struct pool_import_spec *spec, struct pool *p, struct pool_import_result *result)
{
	int err = rename_pool(spec, p, result);

	if (err == 0) {
		err = uber_find(&p->v, NULL, &p->ub);
	}
	if (err == 0) {
		err = check_active(spec, &p->v, &p->ub, result);
	}
	if (err == 0) {
		err = check_log(spec, &p->v, &p->ub, result);
	}
	if (err == 0) {
		err = open_root(spec, p, result);
	}
	if (err != 0 || p->readonly) {
		return err;
	}
	scan_take_up(p);
	err = settle(p);
	if (err == 0) {
		err = pool_start_fibers(p);
	}
	if (err != 0) {
		(void)snprintf(result->why, sizeof(result->why),
		    "the drives' labels can't be updated: %s", err_str(-err));
		/* the pool wasn't changed: there is nothing to be marked clean */
		(void)pool_engine_close(p, false);
		scan_free(p);
	}
	return err;
}

int
pool_import(
    const struct pool_import_spec *spec, struct pool **out, struct pool_import_result *result)
{
	struct pool *p = pool_alloc(spec->host_name, spec->host_id);
	bool *used = result->drive_used;
	int err;

	*result = (struct pool_import_result){.drive_used = used};
	for (uint32_t i = 0; used != NULL && i < spec->drive_count; i++) {
		used[i] = false;
	}
	if (p == NULL) {
		return -ENOMEM;
	}
	p->readonly = spec->readonly;
	err = vdev_assemble(spec, &p->v, result);
	if (err == 0) {
		err = events_open(&p->v.events);
		if (err == 0) {
			err = vdev_claim(&p->v, spec->readonly, result->why, sizeof(result->why));
		}
		if (err == 0) {
			err = take_up(spec, p, result);
		}
		if (err != 0) {
			vdev_free(&p->v, false);
		}
	}
	if (err != 0) {
		for (uint32_t i = 0; used != NULL && i < spec->drive_count; i++) {
			used[i] = false;
		}
		if (result->why[0] == 0) {
			(void)snprintf(result->why, sizeof(result->why), "%s", err_str(-err));
		}
		pool_free(p);
		return err;
	}
	result->txg = le64_get(p->ub.txg);
	if (result->roots_skipped > 0) {
		(void)snprintf(result->why, sizeof(result->why),
		    "the newest %u root(s) can't be read; took up txg %llu", result->roots_skipped,
		    (unsigned long long)result->txg);
	}
	log_notice("pool.import name=%s txg=%llu timeline=%llu missing=%u roots_skipped=%u",
	    p->name, (unsigned long long)result->txg, (unsigned long long)p->timeline,
	    result->missing_drives, result->roots_skipped);
	*out = p;
	return 0;
}
