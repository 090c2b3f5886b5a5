/*
 * drive.c - members that go and come while the pool is open.
 *
 * A drive that vanished stays gone for the one who had it open; the same drive, opened anew, is
 * recognized by its label. If it had been declared out it comes back ONLINE and stale: written from
 * now on, read only when nothing else can give the data; its dirty range ends with the txg that is
 * being written, parts of which it has missed. If not (the pool was suspended before anything was
 * accepted without it), it is whole.
 *
 * What it had not flushed of the txg that is being written may be lost, and so may other drives'
 * share of the same blocks: they are written again before the next flush (pool.drive_returned,
 * suspend.c), and the txg is verified before its uberblock (pool.verify_txg, space_verify.c).
 */
#include <stdio.h>

#include "pool/drive.h"
#include "pool/event.h"
#include "pool/health.h"
#include "pool/label.h"
#include "pool/logdev.h"
#include "pool/pair.h"
#include "pool/pool_int.h"
#include "pool/pool_log.h"
#include "pool/scan.h"

struct vdev_drive *
drive_member(struct pool *p, const struct guid *guid)
{
	for (uint32_t i = 0; i < p->v.drive_count; i++) {
		if (p->v.drives[i].role != 0 && guid_equal(&p->v.drives[i].guid, guid)) {
			return &p->v.drives[i];
		}
	}
	return NULL;
}

void
drive_let_go(struct pool *p, struct vdev_drive *m)
{
	struct kb_drive *old = m->kb;

	m->kb = NULL;
	if (m->role == DRIVE_ROLE_DATA) {
		if (m->twin) {
			raidz_group_set_twin(p->v.sets[m->set_index].rg, m->column, NULL);
		} else {
			raidz_group_set_column(
			    p->v.sets[m->set_index].rg, m->column, NULL, RAIDZ_COL_MISSING);
		}
		raidz_group_quiesce(p->v.sets[m->set_index].rg);
	}
	/* the in-pool ring may have it as a side until its epoch ends */
	if (old != NULL) {
		/* nobody else may have it while the ring writes to it */
		if (kb_is_gone(old) || !log_is_side(p, old)) {
			kb_unclaim(old);
		}
		vdev_retire(&p->v, old);
	}
}

/* A member that comes with kb: what does it replace? */
static int
may_return(const struct pool *p, const struct vdev_drive *m, const struct probe *pr)
{
	bool ours = guid_equal(&pr->id.pool_guid, &p->v.pool_guid);

	/* a spare that waits is nobody's by its label */
	if (m == NULL || m->role != pr->id.role || m->region_bytes != pr->region_bytes ||
	    (!ours && !(m->role == DRIVE_ROLE_SPARE && guid_is_zero(&pr->id.pool_guid)))) {
		return -ENOENT;
	}
	return m->kb != NULL && m->state == DRIVE_STATE_ONLINE && !kb_is_gone(m->kb) ? -EBUSY : 0;
}

int
pool_drive_return(struct pool *p, struct kb_drive *d)
{
	struct vdev_drive *m;
	struct probe pr;
	int err = p->readonly ? -EROFS : probe_drive(d, &pr);

	if (err != 0) {
		return err;
	}
	mutex_lock(&p->config_lock);
	m = drive_member(p, &pr.id.drive_guid);
	err = may_return(p, m, &pr);
	if (err == 0) {
		drive_let_go(p, m);
		err = m->role != DRIVE_ROLE_SPARE ? kb_claim(d, false) : 0;
	}
	if (err == 0) {
		m->kb = d;
		m->label_pair = probe_label_pair(&pr, p->v.config_txg);
		p->v.config_used = MAX(p->v.config_used, pr.config_max);
		m->returned_ns = rt_now_ns();
		if (m->role == DRIVE_ROLE_DATA && m->state != DRIVE_STATE_OFFLINE) {
			/* one that was never declared out has no dirty range: nothing was accepted
			 * without it */
			vdev_drive_back(&p->v, m, p->v.committed_txg + 1);
			if (DELIBERATE_BUG("pool-return-clean")) {
				vdev_drive_clean(&p->v, m);
			}
			atomic_store(&p->drive_returned, true);
			atomic_store(&p->verify_txg, true);
			atomic_store(&p->config_dirty, true);
		}
		if (m->role == DRIVE_ROLE_SPARE) {
			m->state = DRIVE_STATE_ONLINE;
		}
		if (m->role == DRIVE_ROLE_LOG) {
			/* out, whether the ring has noticed or not: it joins with the next epoch
			 * (logdev.c) */
			vdev_drive_out(&p->v, m, DRIVE_STATE_REMOVED, p->v.committed_txg + 1);
			if (log_membership_write(p) != 0) {
				atomic_store(&p->config_dirty, true);
			}
		}
		(void)snprintf(m->path, sizeof(m->path), "%s", kb_path(d));
		(void)snprintf(m->id, sizeof(m->id), "%s", kb_id(d));
		log_notice("drive.back pool=%s path=%s set=%u column=%u dirty_from=%llu", p->name,
		    m->path, m->set_index, m->column, (unsigned long long)m->dirty_from);
		events_add(p->v.events, POOL_EVENT_INFO, "drive.back", "%s is there again%s",
		    m->path, m->dirty_from != 0 ? " and is being brought up to date" : "");
	}
	mutex_unlock(&p->config_lock);
	probe_free(&pr);
	scan_poke(p);
	return err;
}

/* ---- replacing ---- */

int
drive_check_room(
    const struct pool *p, uint32_t set_index, struct kb_drive *d, char *why, size_t why_len)
{
	uint64_t need = vdev_region_need(&p->v.sets[set_index]);

	if (kb_pool_bytes(kb_size(d)) >= need) {
		return 0;
	}
	(void)snprintf(why, why_len,
	    "%.80s is smaller than what set %u has of each drive: it has %llu bytes, and "
	    "%llu are needed",
	    kb_path(d), set_index, (unsigned long long)kb_size(d),
	    (unsigned long long)kb_bytes_for_pool(need));
	return -EINVAL;
}

static int
may_replace(struct pool *p, const struct vdev_drive *m, struct kb_drive *new_drive, char *why,
    size_t why_len)
{
	const struct vdev_set *set;

	if (m == NULL) {
		return -ENOENT;
	}
	if (m->role != DRIVE_ROLE_DATA) {
		(void)snprintf(why, why_len, "%s is a spare", m->path);
		return -EINVAL;
	}
	set = &p->v.sets[m->set_index];
	if (drive_check_room(p, m->set_index, new_drive, why, why_len) != 0) {
		return -EINVAL;
	}
	if (p->suspended) {
		return -ERR_SUSPENDED;
	}
	if (m->twin || vdev_twin(&p->v, m->set_index, m->column) != NULL) {
		(void)snprintf(why, why_len, "%s; detach that first",
		    m->twin ? "it is on the way to replace another one"
			    : "another drive is on the way to replace it");
		return -EBUSY;
	}
	if (pair_may_begin(m)) {
		return 0; /* nothing has to do without it */
	}
	/* the new one counts as lacking until it has been filled */
	if (vdev_lacking(&p->v, m->set_index) -
		(m->state != DRIVE_STATE_ONLINE || m->dirty_from != 0) >=
	    raidz_tolerates(&set->cfg)) {
		(void)snprintf(why, why_len,
		    "set %u can't do without %s now: another drive of it is out or stale",
		    m->set_index, m->path);
		return -EBUSY;
	}
	return 0;
}

/* Nothing of an earlier pool may be on it, least of all labels. */
int
drive_wipe(struct kb_drive *d, const struct guid *guid, uint64_t region_bytes)
{
	struct iobuf *zero;
	int err = iobuf_alloc(LABEL_BYTES, ARENA_REPAIR, &zero);

	if (err != 0) {
		return err;
	}
	memset(zero->data, 0, LABEL_BYTES);
	err = kb_gpt_write(d, guid->b, "agate");
	for (unsigned k = 0; err == 0 && k < LABEL_COUNT; k++) {
		err = kb_write(d, label_offset(region_bytes, k), zero, LABEL_BYTES, 0);
	}
	iobuf_unref(zero);
	return err == 0 ? kb_flush(d) : err;
}

static int
replace_locked(struct pool *p, struct vdev_drive *m, struct kb_drive *d, const struct guid *guid,
    uint64_t region_bytes)
{
	struct kb_drive *freed = m->was_spare && m->kb != NULL && !kb_is_gone(m->kb) ? m->kb : NULL;
	int err;

	if (freed != NULL) {
		kb_unclaim(freed);
		m->kb = NULL; /* it stays open: a spare from now on */
	}
	drive_let_go(p, m);
	m->guid = *guid;
	m->kb = d;
	m->region_bytes = region_bytes;
	m->returned_ns = rt_now_ns();
	m->dirty_from = 1;
	m->dirty_to = UINT64_MAX;
	m->in_pass = false;
	m->ring_stale = true;
	m->read_errors = m->write_errors = m->cksum_errors = m->repaired = 0;
	health_forget(p, m);
	(void)snprintf(m->id, sizeof(m->id), "%s", kb_id(d));
	(void)snprintf(m->path, sizeof(m->path), "%s", kb_path(d));
	vdev_drive_back(&p->v, m, p->v.committed_txg + 1);
	atomic_store(&p->verify_txg, true);
	m->was_spare = false;
	err = log_membership_write(p);
	if (freed != NULL) {
		/* only now that nobody needs it as a member */
		spare_give(p, freed);
		err = log_membership_write(p);
	}
	return err;
}

static int
replace_or_pair(struct pool *p, struct vdev_drive *m, struct kb_drive *d, const struct guid *guid)
{
	if (pair_may_begin(m) && !DELIBERATE_BUG("pool-replace-at-once")) {
		return pair_begin(p, m, d, guid);
	}
	if (replace_locked(p, m, d, guid, kb_pool_bytes(kb_size(d))) != 0) {
		/* it is the pool's all the same: the configuration goes out with the next commit */
		atomic_store(&p->config_dirty, true);
	}
	return 0;
}

int
pool_drive_replace(struct pool *p, const struct guid *old, struct kb_drive *new_drive,
    char *out_why, size_t why_len)
{
	uint64_t region_bytes = kb_pool_bytes(kb_size(new_drive));
	struct vdev_drive *m;
	struct guid guid;
	bool renewed = DELIBERATE_BUG("pool-replace-with-the-log");
	int err;

	if (why_len > 0) {
		out_why[0] = 0;
	}
	if (p->readonly) {
		return -EROFS;
	}
	rt_random_bytes(&guid, sizeof(guid));
	mutex_lock(&p->config_lock);
	m = drive_member(p, old);
	if (m != NULL && m->role == DRIVE_ROLE_LOG) {
		mutex_unlock(&p->config_lock);
		return logdev_replace(p, old, new_drive, out_why, why_len);
	}
	do {
		m = drive_member(p, old);
		err = may_replace(p, m, new_drive, out_why, why_len);
	} while (err == 0 && !pair_may_begin(m) && logdev_renew_without(p, m, 1, &renewed));
	if (err == 0 && !pair_may_begin(m) && log_sides_without(p, m) == 0 &&
	    !DELIBERATE_BUG("pool-replace-with-the-log")) {
		(void)snprintf(out_why, why_len,
		    "%s has the last copy of this session's intent log, which can't be laid "
		    "elsewhere now",
		    m->path);
		err = -EBUSY;
	}
	if (err == 0) {
		err = drive_wipe(new_drive, &guid, region_bytes);
		if (err != 0) {
			(void)snprintf(out_why, why_len, "%s can't be written: %s",
			    kb_path(new_drive), err_str(err));
		}
	}
	if (err == 0) {
		log_notice("drive.replace pool=%s old=%s new=%s set=%u column=%u", p->name, m->path,
		    kb_path(new_drive), m->set_index, m->column);
		events_add(p->v.events, POOL_EVENT_INFO, "drive.replace",
		    "%s takes the place of %s and is being filled", kb_path(new_drive), m->path);
		err = replace_or_pair(p, m, new_drive, &guid);
	}
	mutex_unlock(&p->config_lock);
	scan_poke(p);
	return err;
}
