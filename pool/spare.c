/*
 * spare.c - a spare takes the place of a drive that has been out, or degraded, for SPARE_DELAY_NS.
 *
 * Spares are shared by pools, and by hosts that see the same drives. A claim is on the spare's own
 * label (pool_guid), durable before anything else is written to it: look that nobody has it, write
 * the claim, wait, look again. Of several that claim at once the last writer finds its own claim
 * and the others don't. A claim that its pool didn't follow up (a crash) remains that pool's.
 *
 * A spare that is used is a member like others, until the administrator puts another drive in its
 * place: then it waits as a spare again.
 *
 * The look runs on the heartbeat's fiber. spare_mu: one that makes or drops entries of spares at a
 * time.
 */
#include <stdio.h>

#include "pool/drive.h"
#include "pool/event.h"
#include "pool/heartbeat.h"
#include "pool/label.h"
#include "pool/pool_int.h"
#include "pool/pool_log.h"

#define CLAIM_WAIT_NS (2 * NSEC_PER_SEC)

/* One that is degraded is replaced as long as the set is whole but for it: what it holds is no
 * worse until then. */
static bool
degraded_due(const struct pool *p, const struct vdev_drive *d)
{
	return d->role == DRIVE_ROLE_DATA && atomic_load(&d->degraded) != DRIVE_WELL &&
	       d->state == DRIVE_STATE_ONLINE &&
	       rt_wall_ns() / NSEC_PER_SEC >=
		   atomic_load(&d->degraded_s) + SPARE_DELAY_NS / NSEC_PER_SEC &&
	       vdev_lacking(&p->v, d->set_index) == 0 &&
	       raidz_tolerates(&p->v.sets[d->set_index].cfg) > 0;
}

static bool
is_due(const struct pool *p, const struct vdev_drive *d)
{
	if (d->role != DRIVE_ROLE_DATA || d->twin ||
	    vdev_twin(&p->v, d->set_index, d->column) != NULL) {
		return false; /* its place will be taken */
	}
	if (degraded_due(p, d)) {
		return true;
	}
	return d->out_ns != 0 && rt_now_ns() - d->out_ns >= SPARE_DELAY_NS &&
	       (d->state == DRIVE_STATE_FAULTED || d->state == DRIVE_STATE_REMOVED);
}

/* Whose is the spare by its label: nobody's or ours? */
static bool
is_free(struct pool *p, const struct vdev_drive *spare, bool ours_only)
{
	struct pool_label_info have;

	if (pool_label_probe(spare->kb, &have) != 0 || have.role != DRIVE_ROLE_SPARE ||
	    !guid_equal(&have.drive_guid, &spare->guid)) {
		return false;
	}
	return guid_equal(&have.pool_guid, &p->v.pool_guid) ||
	       (!ours_only && guid_is_zero(&have.pool_guid));
}

/* Labels 0, 2, 1, 3, but first those that can't be read: with every other order power cuts, one
 * after the other, could tear all. So one is torn at most. */
static void
claim_order(const struct vdev_drive *spare, unsigned order[LABEL_COUNT])
{
	bool valid[LABEL_COUNT] = {false};
	unsigned n = 0;
	struct probe pr;

	if (probe_drive(spare->kb, &pr) == 0) {
		memcpy(valid, pr.valid, sizeof(valid));
		probe_free(&pr);
	}
	for (unsigned turn = 0; turn < 2; turn++) {
		for (unsigned i = 0; i < LABEL_COUNT; i++) {
			unsigned index = i * 2 % LABEL_COUNT + i / 2;

			if (valid[index] == (turn == 1)) {
				order[n++] = index;
			}
		}
	}
}

/* owner: our guid, or zero to give it back. */
static int
claim_write(struct pool *p, const struct vdev_drive *spare, const struct guid *owner)
{
	unsigned order[LABEL_COUNT];
	struct iobuf *buf;
	int err = iobuf_alloc(SECTOR_BYTES, ARENA_REPAIR, &buf);

	if (err != 0) {
		return err;
	}
	claim_order(spare, order);
	for (unsigned i = 0; err == 0 && i < LABEL_COUNT; i++) {
		unsigned index = order[i];
		struct label_header *h = (struct label_header *)(void *)buf->data;

		label_encode(&p->v, spare, index, p->v.config_txg, 0, buf->data);
		h->pool_guid = *owner;
		h->claim_txg = le64_of(p->v.committed_txg);
		self_cksum_set(h, sizeof(*h), offsetof(struct label_header, cksum));
		err = kb_write(
		    spare->kb, label_offset(spare->region_bytes, index), buf, SECTOR_BYTES, KB_FUA);
	}
	iobuf_unref(buf);
	return err;
}

/* When it is replaced it is a spare again. */
static void
note_was_spare(struct pool *p, const struct kb_drive *kb)
{
	mutex_lock(&p->config_lock);
	for (uint32_t i = 0; i < p->v.drive_count; i++) {
		if (p->v.drives[i].role == DRIVE_ROLE_DATA && p->v.drives[i].kb == kb) {
			p->v.drives[i].was_spare = true;
		}
	}
	if (log_membership_write(p) != 0) {
		atomic_store(&p->config_dirty, true);
	}
	mutex_unlock(&p->config_lock);
}

/* 0: spare took the place of the drive with that guid. */
static int
use_spare(struct pool *p, struct vdev_drive *spare, const struct guid *failed)
{
	const struct guid nobody = {{0}};
	struct vdev_drive copy, *slot;
	struct kb_drive *kb;
	char why[160];
	int err = claim_write(p, spare, &p->v.pool_guid);

	if (err != 0) {
		return err;
	}
	fiber_sleep(CLAIM_WAIT_NS);
	if (!is_free(p, spare, true)) {
		return -EBUSY;
	}
	mutex_lock(&p->config_lock);
	copy = *spare;
	kb = spare->kb;
	vdev_entry_drop(spare); /* it is a member from now on */
	mutex_unlock(&p->config_lock);
	err = pool_drive_replace(p, failed, kb, why, sizeof(why));
	if (err == 0) {
		note_was_spare(p, kb);
		events_add(p->v.events, POOL_EVENT_WARNING, "spare.used",
		    "spare %s takes the place of a drive that has been out or degraded for %llu s",
		    copy.path, (unsigned long long)(SPARE_DELAY_NS / NSEC_PER_SEC));
		return 0;
	}
	log_warn(
	    "spare.refused pool=%s path=%s error=%s why=%s", p->name, copy.path, err_str(err), why);
	mutex_lock(&p->config_lock);
	slot = vdev_entry_new(&p->v); /* others may have taken the old one */
	if (slot != NULL) {
		*slot = copy;
	} else {
		vdev_retire(&p->v, kb);
	}
	mutex_unlock(&p->config_lock);
	return claim_write(p, &copy, &nobody) != 0 ? -EIO : err;
}

/* Spares that others have taken, for the status. */
static void
note_claims(struct pool *p)
{
	for (uint32_t i = 0; i < p->v.drive_count; i++) {
		struct vdev_drive *d = &p->v.drives[i];

		if (d->role == DRIVE_ROLE_SPARE && d->kb != NULL && !kb_is_gone(d->kb)) {
			d->claimed = !is_free(p, d, false);
		}
	}
}

static void
look_locked(struct pool *p)
{
	struct guid failed = {{0}};

	mutex_lock(&p->config_lock);
	for (uint32_t i = 0; i < p->v.drive_count; i++) {
		if (is_due(p, &p->v.drives[i])) {
			failed = p->v.drives[i].guid;
		}
	}
	mutex_unlock(&p->config_lock);
	for (uint32_t i = 0; !guid_is_zero(&failed) && i < p->v.drive_count; i++) {
		struct vdev_drive *d = &p->v.drives[i];

		if (d->role == DRIVE_ROLE_SPARE && d->kb != NULL && !kb_is_gone(d->kb) &&
		    is_free(p, d, false)) {
			log_notice("spare.use pool=%s path=%s", p->name, d->path);
			if (use_spare(p, d, &failed) == 0) {
				return;
			}
		}
	}
	note_claims(p);
}

void
spare_look(struct pool *p)
{
	if (p->suspended) {
		return;
	}
	mutex_lock(&p->spare_mu);
	look_locked(p);
	mutex_unlock(&p->spare_mu);
}

void
spare_give(struct pool *p, struct kb_drive *kb)
{
	const struct guid nobody = {{0}};
	struct vdev_drive *slot = vdev_entry_new(&p->v);
	struct vdev_drive d = {
	    .kb = kb,
	    .role = DRIVE_ROLE_SPARE,
	    .state = DRIVE_STATE_ONLINE,
	    .region_bytes = kb_pool_bytes(kb_size(kb)),
	};
	int err;

	rt_random_bytes(&d.guid, sizeof(d.guid));
	(void)snprintf(d.id, sizeof(d.id), "%s", kb_id(kb));
	(void)snprintf(d.path, sizeof(d.path), "%s", kb_path(kb));
	err = slot == NULL ? -ENOSPC : drive_wipe(kb, &d.guid, d.region_bytes);
	err = err != 0 ? err : claim_write(p, &d, &nobody);
	if (err != 0) {
		log_warn(
		    "spare.not_given_back pool=%s path=%s error=%s", p->name, d.path, err_str(err));
		vdev_retire(&p->v, kb);
		return;
	}
	*slot = d;
	events_add(p->v.events, POOL_EVENT_INFO, "spare.free", "%s waits as a spare again", d.path);
}

/* ---- by the administrator ---- */

/* A drive that is a spare already keeps its identity, by which other pools find it. */
static int
spare_label(struct pool *p, struct vdev_drive *d, char *why, size_t why_len)
{
	const struct guid nobody = {{0}};
	struct pool_label_info have;
	int err;

	if (pool_label_probe(d->kb, &have) == 0 && have.role == DRIVE_ROLE_SPARE) {
		d->guid = have.drive_guid;
		return 0;
	}
	rt_random_bytes(&d->guid, sizeof(d->guid));
	err = drive_wipe(d->kb, &d->guid, d->region_bytes);
	err = err != 0 ? err : claim_write(p, d, &nobody);
	if (err != 0) {
		(void)snprintf(why, why_len, "%s can't be written: %s", d->path, err_str(err));
	}
	return err;
}

static int
spare_list(struct pool *p, const struct vdev_drive *d, char *why, size_t why_len)
{
	struct vdev_drive *slot;
	int err = 0;

	mutex_lock(&p->config_lock);
	slot = drive_member(p, &d->guid) == NULL ? vdev_entry_new(&p->v) : NULL;
	if (drive_member(p, &d->guid) != NULL) {
		(void)snprintf(why, why_len, "%s is a spare of this pool already", d->path);
		err = -EINVAL;
	} else if (slot == NULL) {
		(void)snprintf(why, why_len, "the pool has as many drives as there can be");
		err = -ENOSPC;
	} else {
		*slot = *d;
		events_add(
		    p->v.events, POOL_EVENT_INFO, "spare.added", "%s is a spare now", d->path);
		err = log_membership_write(p);
		if (err != 0) {
			vdev_entry_drop(slot);
		}
	}
	mutex_unlock(&p->config_lock);
	return err;
}

int
pool_spare_add(struct pool *p, struct kb_drive *kb, char *out_why, size_t why_len)
{
	struct vdev_drive d = {
	    .kb = kb,
	    .role = DRIVE_ROLE_SPARE,
	    .state = DRIVE_STATE_ONLINE,
	    .region_bytes = kb_pool_bytes(kb_size(kb)),
	};
	int err;

	if (why_len > 0) {
		out_why[0] = 0;
	}
	if (p->readonly || p->suspended) {
		return p->readonly ? -EROFS : -ERR_SUSPENDED;
	}
	(void)snprintf(d.id, sizeof(d.id), "%s", kb_id(kb));
	(void)snprintf(d.path, sizeof(d.path), "%s", kb_path(kb));
	err = plan_check_spare(kb, out_why, why_len);
	if (err != 0) {
		return err;
	}
	mutex_lock(&p->spare_mu);
	err = spare_label(p, &d, out_why, why_len);
	err = err != 0 ? err : spare_list(p, &d, out_why, why_len);
	mutex_unlock(&p->spare_mu);
	return err;
}

int
pool_spare_remove(struct pool *p, const struct guid *drive)
{
	struct vdev_drive *d, copy;
	int err = 0;

	if (p->readonly || p->suspended) {
		return p->readonly ? -EROFS : -ERR_SUSPENDED;
	}
	mutex_lock(&p->spare_mu);
	mutex_lock(&p->config_lock);
	d = drive_member(p, drive);
	err = d == NULL ? -ENOENT : d->role != DRIVE_ROLE_SPARE ? -EINVAL : 0;
	if (err == 0) {
		copy = *d;
		vdev_entry_drop(d);
		err = log_membership_write(p);
		if (err != 0) {
			*d = copy;
		} else if (copy.kb != NULL) {
			events_add(p->v.events, POOL_EVENT_INFO, "spare.removed",
			    "%s is no spare any more", copy.path);
			vdev_retire(
			    &p->v, copy.kb); /* who looks at the drives may be at it still */
		}
	}
	mutex_unlock(&p->config_lock);
	mutex_unlock(&p->spare_mu);
	return err;
}
