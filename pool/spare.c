/*
 * spare.c - a spare takes the place of a drive that has been out for SPARE_DELAY_NS.
 *
 * Spares are shared by pools, and by hosts that see the same drives. A claim is on the spare's own
 * label (pool_guid), durable before anything else is written to it: look that nobody has it, write
 * the claim, wait, look again. Of several that claim at once the last writer finds its own claim
 * and the others don't. A claim that its pool didn't follow up (a crash) remains that pool's.
 *
 * Runs on the heartbeat's fiber.
 */
#include "pool/heartbeat.h"
#include "pool/label.h"
#include "pool/pool_int.h"

#define CLAIM_WAIT_NS (2 * NSEC_PER_SEC)

static bool
is_due(const struct vdev_drive *d)
{
	return d->role == DRIVE_ROLE_DATA && d->out_ns != 0 &&
	       rt_now_ns() - d->out_ns >= SPARE_DELAY_NS &&
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

/* owner: our guid, or zero to give it back. */
static int
claim_write(struct pool *p, const struct vdev_drive *spare, const struct guid *owner)
{
	struct iobuf *buf;
	int err = iobuf_alloc(SECTOR_BYTES, ARENA_REPAIR, &buf);

	if (err != 0) {
		return err;
	}
	for (unsigned i = 0; err == 0 && i < LABEL_COUNT; i++) {
		unsigned index = i * 2 % LABEL_COUNT + i / 2; /* 0, 2, 1, 3 */
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

/* The spare is a member from now on: its entry among the spares goes. Under config_lock. */
static struct kb_drive *
entry_remove(struct vdevs *v, struct vdev_drive *spare)
{
	uint32_t index = (uint32_t)(spare - v->drives);
	struct kb_drive *kb = spare->kb;

	memmove(spare, spare + 1, (v->drive_count - index - 1) * sizeof(*spare));
	v->drive_count--;
	return kb;
}

static void
entry_restore(struct vdevs *v, const struct vdev_drive *spare)
{
	v->drives[v->drive_count++] = *spare;
}

/* 0: spare took the place of the drive with that guid. */
static int
use_spare(struct pool *p, struct vdev_drive *spare, const struct guid *failed)
{
	const struct guid nobody = {{0}};
	struct vdev_drive copy;
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
	kb = entry_remove(&p->v, spare);
	mutex_unlock(&p->config_lock);
	err = pool_drive_replace(p, failed, kb, why, sizeof(why));
	if (err == 0) {
		return 0;
	}
	log_warn(
	    "spare.refused pool=%s path=%s error=%s why=%s", p->name, copy.path, err_str(err), why);
	mutex_lock(&p->config_lock);
	entry_restore(&p->v, &copy);
	mutex_unlock(&p->config_lock);
	return claim_write(p, &copy, &nobody) != 0 ? -EIO : err;
}

void
spare_look(struct pool *p)
{
	struct guid failed = {{0}};

	if (p->suspended) {
		return;
	}
	mutex_lock(&p->config_lock);
	for (uint32_t i = 0; i < p->v.drive_count; i++) {
		if (is_due(&p->v.drives[i])) {
			failed = p->v.drives[i].guid;
		}
	}
	mutex_unlock(&p->config_lock);
	/* nobody but this fiber adds or removes entries */
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
}
