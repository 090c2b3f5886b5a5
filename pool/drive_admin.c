/*
 * drive_admin.c - what an administrator may do to the drives of an open pool, and the look whether
 * they are all there.
 *
 * Whatever changes who is out is in the labels before the call returns. No drive is taken out that
 * its set can't spare: then the pool would be suspended by a command.
 */
#include <stdio.h>

#include "pool/drive.h"
#include "pool/event.h"
#include "pool/health.h"
#include "pool/heartbeat.h"
#include "pool/label.h"
#include "pool/logdev.h"
#include "pool/pool_int.h"
#include "pool/pool_log.h"
#include "pool/scan.h"

static int
may_offline(struct pool *p, const struct vdev_drive *m)
{
	if (m == NULL) {
		return -ENOENT;
	}
	if (m->role != DRIVE_ROLE_DATA) {
		return -EINVAL;
	}
	if (p->suspended) {
		return -ERR_SUSPENDED;
	}
	return m->state == DRIVE_STATE_ONLINE && !m->twin &&
		       vdev_lacking(&p->v, m->set_index) - (m->dirty_from != 0) >=
			   raidz_tolerates(&p->v.sets[m->set_index].cfg)
		   ? -EBUSY
		   : 0;
}

int
pool_drive_offline(struct pool *p, const struct guid *drive, bool until_import)
{
	struct vdev_drive *m;
	bool renewed = DELIBERATE_BUG("pool-offline-with-the-log");
	int err;

	if (p->readonly) {
		return -EROFS;
	}
	mutex_lock(&p->config_lock);
	do {
		m = drive_member(p, drive);
		err = may_offline(p, m);
	} while (
	    err == 0 && m->state == DRIVE_STATE_ONLINE && logdev_renew_without(p, m, 1, &renewed));
	if (err == 0 && m->state == DRIVE_STATE_ONLINE && log_sides_without(p, m) == 0 &&
	    !DELIBERATE_BUG("pool-offline-with-the-log")) {
		err = -EBUSY;
	}
	if (err == 0 && (m->state != DRIVE_STATE_OFFLINE || m->until_import != until_import)) {
		m->until_import = until_import;
		vdev_drive_out(&p->v, m, DRIVE_STATE_OFFLINE, p->v.committed_txg + 1);
		err = log_membership_write(p);
	}
	mutex_unlock(&p->config_lock);
	return err;
}

/* Under config_lock. What it was told before it was out and hasn't answered yet could land on what
 * is written to the same place from now on. */
static int
take_back(struct pool *p, struct vdev_drive *m)
{
	if (m->kb == NULL || kb_is_gone(m->kb)) {
		return -ENODEV;
	}
	if (kb_late_writes(m->kb) != 0 && !DELIBERATE_BUG("pool-clear-while-late")) {
		return -EAGAIN;
	}
	vdev_drive_back(&p->v, m, p->v.committed_txg + 1);
	if (DELIBERATE_BUG("pool-online-clean")) {
		vdev_drive_clean(&p->v, m);
	}
	health_restart(p, m); /* who takes it back gives it a chance */
	atomic_store(&p->drive_returned, true);
	atomic_store(&p->verify_txg, true);
	events_add(p->v.events, POOL_EVENT_INFO, "drive.online", "%s was taken back", m->path);
	return log_membership_write(p);
}

int
pool_drive_online(struct pool *p, const struct guid *drive)
{
	struct vdev_drive *m;
	int err = 0;

	if (p->readonly) {
		return -EROFS;
	}
	mutex_lock(&p->config_lock);
	m = drive_member(p, drive);
	if (m == NULL) {
		err = -ENOENT;
	} else if (m->role != DRIVE_ROLE_DATA) {
		err = -EINVAL;
	} else if (m->state != DRIVE_STATE_ONLINE || m->kb == NULL || kb_is_gone(m->kb)) {
		err = take_back(p, m);
	}
	mutex_unlock(&p->config_lock);
	scan_poke(p);
	return err;
}

int
pool_drive_clear(struct pool *p, const struct guid *drive)
{
	bool found = drive == NULL;
	int err = 0;

	if (p->readonly) {
		return -EROFS;
	}
	mutex_lock(&p->config_lock);
	for (uint32_t i = 0; i < p->v.drive_count; i++) {
		struct vdev_drive *d = &p->v.drives[i];

		if (d->role == 0 || (drive != NULL && !guid_equal(&d->guid, drive))) {
			continue;
		}
		found = true;
		d->read_errors = d->write_errors = d->cksum_errors = d->repaired = 0;
		health_forget(p, d);
		if (d->role == DRIVE_ROLE_DATA && d->state == DRIVE_STATE_FAULTED &&
		    d->kb != NULL && !kb_is_gone(d->kb)) {
			int one = take_back(p, d);

			err = err != 0 ? err : one;
		}
	}
	mutex_unlock(&p->config_lock);
	scan_poke(p);
	return found ? err : -ENOENT;
}

void
pool_drive_inject(
    struct pool *p, const struct guid *drive, struct kb_faults *f, bool armed, const char *what)
{
	struct vdev_drive *m;

	mutex_lock(&p->config_lock);
	m = drive_member(p, drive);
	if (m != NULL && m->kb != NULL) {
		kb_faults_attach(m->kb, f, armed);
	}
	if (m != NULL) {
		events_add(p->v.events, armed ? POOL_EVENT_WARNING : POOL_EVENT_INFO,
		    armed ? "inject.set" : "inject.cleared", "%s: %s", m->path, what);
	}
	mutex_unlock(&p->config_lock);
}

/* ---- are they there? ---- */

struct look {
	struct kb_drive *kb;
	struct iobuf *buf;
	struct kb_seg seg;
	struct kb_io io;
};

/* One sector of every member at once. The drives stay open though they be exchanged meanwhile
 * (retire.c), as long as looking says so. */
static uint32_t
look_at_all(struct pool *p, struct look *looks)
{
	struct kb_group g;
	uint32_t count = 0;

	mutex_lock(&p->config_lock);
	atomic_fetch_add(&p->looking, 1);
	for (uint32_t i = 0; i < p->v.drive_count; i++) {
		const struct vdev_drive *d = &p->v.drives[i];

		if (d->role == 0 || d->kb == NULL || kb_is_gone(d->kb)) {
			continue;
		}
		if (iobuf_alloc(SECTOR_BYTES, ARENA_REPAIR, &looks[count].buf) == 0) {
			looks[count++].kb = d->kb;
		}
	}
	mutex_unlock(&p->config_lock);
	kb_group_init(&g);
	for (uint32_t i = 0; i < count; i++) {
		looks[i].seg = (struct kb_seg){looks[i].buf, 0, SECTOR_BYTES};
		looks[i].io = (struct kb_io){.op = KB_READ,
		    .off_bytes = KB_POOL_START,
		    .segs = &looks[i].seg,
		    .seg_count = 1};
		kb_submit(looks[i].kb, &looks[i].io, &g, 0);
	}
	kb_group_wait(&g);
	atomic_fetch_sub(&p->looking, 1);
	for (uint32_t i = 0; i < count; i++) {
		iobuf_unref(looks[i].buf);
	}
	return count;
}

/* Whom its set can't spare isn't declared out: the pool is suspended by the next commit. Under
 * config_lock. */
static bool
note_vanished(struct pool *p, struct vdev_drive *d)
{
	if (d->kb == NULL || !kb_is_gone(d->kb) || d->state == DRIVE_STATE_OFFLINE ||
	    d->state == DRIVE_STATE_REMOVED) {
		return false;
	}
	if (d->role == DRIVE_ROLE_SPARE) {
		events_add(p->v.events, POOL_EVENT_WARNING, "spare.vanished",
		    "spare %s has vanished", d->path);
		d->state = DRIVE_STATE_REMOVED;
		return false;
	}
	if (d->role == DRIVE_ROLE_DATA && !d->twin && d->state == DRIVE_STATE_ONLINE &&
	    !vdev_can_spare(&p->v, d->set_index, 1u << d->column)) {
		return false;
	}
	vdev_drive_out(&p->v, d, DRIVE_STATE_REMOVED, p->v.committed_txg + 1);
	return true;
}

void
pool_drives_look(struct pool *p)
{
	struct look *looks = mem_zalloc_array(VDEV_DRIVES_MAX, sizeof(*looks));
	bool changed = false;

	if (looks == NULL || p->readonly) {
		mem_free(looks);
		return;
	}
	(void)look_at_all(p, looks);
	mem_free(looks);
	mutex_lock(&p->config_lock);
	for (uint32_t i = 0; i < p->v.drive_count && !p->suspended; i++) {
		if (p->v.drives[i].role != 0) {
			changed |= note_vanished(p, &p->v.drives[i]);
		}
	}
	if (changed && log_membership_write(p) != 0) {
		atomic_store(&p->config_dirty, true);
	}
	mutex_unlock(&p->config_lock);
}
