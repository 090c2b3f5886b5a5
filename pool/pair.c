/*
 * pair.c - a drive that can still be read is replaced: until the new one has everything, both are
 *in use.
 *
 * The column has its drive and a *twin*: what is written goes to both, what is read comes from the
 * first, as long as it is there; the twin stands in when it isn't. The set counts the first alone:
 * so losing another drive of the set meanwhile loses nothing, and losing the twin changes nothing.
 *
 *	none -> FILLING		pool_drive_replace; the twin is blank, and durable as such
 *	FILLING -> FULL		a resilver gave it everything (settle_drives in scan.c)
 *	FULL -> FILLING		it missed a write
 *	FULL -> none		pairs_finish: the twin is the column's drive, the old one no member
 *	FILLING, FULL -> none	pair_cancel: the old one stays
 *
 * The old one may go or fail at any time: its column counts as missing then, and the twin is filled
 * from the others. It may come back, too.
 *
 * A configuration with a twin has FEATURE_IN_TWINS, so that a firmware that doesn't know of them
 * keeps off; the bit goes with the last twin.
 *
 * When the old one has the last copy of the log in the pool, that is left for a new ring, of which
 *a twin that is full is a side, before it may go.
 */
#include "pool/pair.h"

#include "pool/drive.h"
#include "pool/event.h"
#include "pool/logdev.h"
#include "pool/pool_int.h"
#include "pool/pool_log.h"

bool
pair_may_begin(const struct vdev_drive *m)
{
	return m->role == DRIVE_ROLE_DATA && m->kb != NULL && !kb_is_gone(m->kb) &&
	       m->state == DRIVE_STATE_ONLINE && m->dirty_from != 1;
}

int
pair_begin(struct pool *p, struct vdev_drive *m, struct kb_drive *kb, const struct guid *guid)
{
	struct vdev_drive *d = vdev_entry_new(&p->v);

	if (d == NULL) {
		return -ENOSPC;
	}
	drive_blank(p, d, kb, guid);
	d->set_index = m->set_index;
	d->column = m->column;
	d->twin = true;
	d->role = DRIVE_ROLE_DATA; /* from here on others see it */
	raidz_group_set_twin(p->v.sets[d->set_index].rg, d->column, kb);
	if (DELIBERATE_BUG("pool-twin-clean")) {
		vdev_drive_clean(&p->v, d);
	}
	atomic_store(&p->verify_txg, true);
	if (log_membership_write(p) != 0) {
		atomic_store(&p->config_dirty, true); /* the next commit takes it along */
	}
	return 0;
}

static struct kb_drive *
entry_leave(struct pool *p, struct vdev_drive *d)
{
	struct vdev_drive gone = *d;
	int err;

	vdev_entry_drop(d);
	err = log_membership_write(p);
	if (err != 0) {
		atomic_store(&p->config_dirty, true);
	}
	return drive_dismiss(p, &gone, err == 0);
}

struct kb_drive *
pair_cancel(struct pool *p, struct vdev_drive *twin)
{
	struct raidz_group *rg = p->v.sets[twin->set_index].rg;

	log_notice("drive.replace_cancelled pool=%s new=%s", p->name, twin->path);
	events_add(p->v.events, POOL_EVENT_INFO, "drive.replace_cancelled",
	    "%s doesn't take the place of another drive after all", twin->path);
	raidz_group_set_twin(rg, twin->column, NULL);
	raidz_group_quiesce(rg);
	return entry_leave(p, twin);
}

/* Under config_lock. */
static struct vdev_drive *
full_twin(struct pool *p, struct vdev_drive **out_old)
{
	for (uint32_t i = 0; i < p->v.drive_count; i++) {
		struct vdev_drive *d = &p->v.drives[i];

		if (d->role == DRIVE_ROLE_DATA && d->twin && d->state == DRIVE_STATE_ONLINE &&
		    d->dirty_from == 0 && d->kb != NULL && !kb_is_gone(d->kb) &&
		    kb_late_writes(d->kb) == 0) {
			*out_old = vdev_column(&p->v, d->set_index, d->column);
			return d;
		}
	}
	return NULL;
}

/* The twin is the column's drive from here on. Under config_lock. */
static struct kb_drive *
succeed(struct pool *p, struct vdev_drive *twin, struct vdev_drive *old)
{
	struct raidz_group *rg = p->v.sets[twin->set_index].rg;

	log_notice("drive.replaced pool=%s old=%s new=%s set=%u column=%u", p->name, old->path,
	    twin->path, twin->set_index, twin->column);
	events_add(p->v.events, POOL_EVENT_INFO, "drive.replaced", "%s has taken the place of %s",
	    twin->path, old->path);
	/* what a write that is under way says of the twin comes too late */
	atomic_store(&p->verify_txg, true);
	/* in this order: no write may miss it */
	raidz_group_set_column(rg, twin->column, twin->kb, RAIDZ_COL_ONLINE);
	raidz_group_set_twin(rg, twin->column, NULL);
	twin->twin = false;
	twin->returned_ns = rt_now_ns();
	raidz_group_quiesce(rg);
	return entry_leave(p, old);
}

bool
pairs_finish(struct pool *p)
{
	struct vdev_drive *twin, *old = NULL;
	struct kb_drive *freed = NULL;
	bool left, renewed;

	do {
		freed = NULL;
		renewed = DELIBERATE_BUG("pool-pair-log-left");
		mutex_lock(&p->config_lock);
		do {
			twin = full_twin(p, &old);
		} while (
		    twin != NULL && logdev_renew_without(p, old, log_sides_wanted(p), &renewed));
		left = twin != NULL && (p->suspended || (log_sides_without(p, old) == 0 &&
							    !DELIBERATE_BUG("pool-pair-log-left")));
		if (twin != NULL && !left) {
			freed = succeed(p, twin, old);
		}
		mutex_unlock(&p->config_lock);
		if (freed != NULL) {
			drive_give_free(p, freed);
		}
	} while (twin != NULL && !left);
	return left;
}
