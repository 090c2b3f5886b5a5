/*
 * drive.c - members that go and come while the pool is open.
 *
 * A drive that vanished stays gone for the one who had it open; the same drive, opened anew, is
 * recognized by its label. It comes back ONLINE and stale: written from now on, read only when
 * nothing else can give the data. Its dirty range ends with the txg that is being written, parts of
 * which it has missed.
 *
 * That txg must be verified before its uberblock, since more than one drive may have lost unflushed
 * blocks of it (space_verify.c): pool.verify_txg.
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

	vdev_drive_out(&p->v, m, m->state == DRIVE_STATE_ONLINE ? DRIVE_STATE_REMOVED : m->state,
	    p->v.committed_txg + 1);
	m->kb = NULL;
	if (old == NULL) {
		return;
	}
	if (m->role == DRIVE_ROLE_DATA) {
		raidz_group_quiesce(p->v.sets[m->set_index].rg);
	}
	kb_close(old);
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
			vdev_drive_back(&p->v, m, p->v.committed_txg + 1);
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
		atomic_store(&p->verify_txg, true);
		err = log_membership_write(p);
	}
	mutex_unlock(&p->config_lock);
	return err;
}
