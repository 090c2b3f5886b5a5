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
#include "pool/label.h"
#include "pool/pool_int.h"
#include "pool/pool_log.h"

static struct vdev_drive *
member(struct pool *p, const struct guid *guid)
{
	for (uint32_t i = 0; i < p->v.drive_count; i++) {
		if (guid_equal(&p->v.drives[i].guid, guid)) {
			return &p->v.drives[i];
		}
	}
	return NULL;
}

/* Nobody uses the old descriptor any more when this returns. */
static void
let_go(struct pool *p, struct vdev_drive *m)
{
	struct kb_drive *old = m->kb;

	m->kb = NULL;
	if (m->role == DRIVE_ROLE_DATA) {
		raidz_group_set_column(
		    p->v.sets[m->set_index].rg, m->column, NULL, RAIDZ_COL_MISSING);
		raidz_group_quiesce(p->v.sets[m->set_index].rg);
	}
	if (old != NULL) {
		kb_close(old);
	}
}

/* A member that comes with kb: what does it replace? */
static int
may_return(const struct pool *p, const struct vdev_drive *m, const struct probe *pr)
{
	if (!guid_equal(&pr->id.pool_guid, &p->v.pool_guid) || m == NULL ||
	    m->role != pr->id.role || m->region_bytes != pr->region_bytes) {
		return -ENOENT;
	}
	/* the ring holds its sides' descriptors for a whole epoch: one that has vanished comes back
	 * with the next import */
	if (m->role == DRIVE_ROLE_LOG && m->kb != NULL) {
		return -EBUSY;
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
	m = member(p, &pr.id.drive_guid);
	err = may_return(p, m, &pr);
	if (err == 0) {
		let_go(p, m);
		m->kb = d;
		if (m->role == DRIVE_ROLE_DATA && m->state != DRIVE_STATE_OFFLINE) {
			/* one that was never declared out has no dirty range: nothing was accepted
			 * without it */
			vdev_drive_back(&p->v, m, p->v.committed_txg + 1);
			atomic_store(&p->drive_returned, true);
			atomic_store(&p->verify_txg, true);
			atomic_store(&p->config_dirty, true);
		}
		log_notice("drive.back pool=%s path=%s set=%u column=%u dirty_from=%llu", p->name,
		    m->path, m->set_index, m->column, (unsigned long long)m->dirty_from);
	}
	mutex_unlock(&p->config_lock);
	probe_free(&pr);
	return err;
}

int
pool_drive_offline(struct pool *p, const struct guid *drive)
{
	struct vdev_drive *m;
	int err = 0;

	mutex_lock(&p->config_lock);
	m = member(p, drive);
	if (m == NULL) {
		err = -ENOENT;
	} else if (m->role != DRIVE_ROLE_DATA) {
		err = -EINVAL;
	} else if (p->suspended) {
		err = -ERR_SUSPENDED;
	} else if (m->state == DRIVE_STATE_ONLINE &&
		   vdev_lacking(&p->v, m->set_index) - (m->dirty_from != 0) >=
		       raidz_tolerates(&p->v.sets[m->set_index].cfg)) {
		err = -EBUSY;
	}
	if (err == 0 && m->state != DRIVE_STATE_OFFLINE) {
		vdev_drive_out(&p->v, m, DRIVE_STATE_OFFLINE, p->v.committed_txg + 1);
		err = log_membership_write(p);
	}
	mutex_unlock(&p->config_lock);
	return err;
}

int
pool_drive_online(struct pool *p, const struct guid *drive)
{
	struct vdev_drive *m;
	int err = 0;

	mutex_lock(&p->config_lock);
	m = member(p, drive);
	if (m == NULL) {
		err = -ENOENT;
	} else if (m->role != DRIVE_ROLE_DATA) {
		err = -EINVAL;
	} else if (m->kb == NULL || kb_is_gone(m->kb)) {
		err = -ENODEV;
	}
	if (err == 0 && m->state != DRIVE_STATE_ONLINE) {
		vdev_drive_back(&p->v, m, p->v.committed_txg + 1);
		atomic_store(&p->drive_returned, true);
		atomic_store(&p->verify_txg, true);
		err = log_membership_write(p);
	}
	mutex_unlock(&p->config_lock);
	return err;
}
