/*
 * attach.c - mirrors that get a side more, or give one up; a single drive is a mirror of one.
 *
 * All sides of a mirror hold the same in the same places, so it may become wider and narrower while
 * it is in use: the configuration says how many columns there are, nothing else on the drives
 * depends on it. A side that joins is blank: stale from txg 1 on, filled by a resilver like a drive
 * that replaced another; until then the set relies on it for nothing (vdev_blank).
 *
 * Columns are numbered without gaps, so when a side leaves, the last one gets its number. I/O that
 * began before may report the old numbers: what it says of a drive is not taken at its word
 * (returned_ns), and the txg that is being written is verified block by block before it counts.
 *
 * Before a side leaves the configuration without it is durable; then its labels are erased, so that
 * it can't be taken for the pool later. Log drives: the same words for what logdev.c
 * does; so is detaching the new drive of a replacement (pair.c).
 */
#include <stdio.h>

#include "pool/drive.h"
#include "pool/event.h"
#include "pool/label.h"
#include "pool/logdev.h"
#include "pool/pair.h"
#include "pool/pool_int.h"
#include "pool/pool_log.h"
#include "pool/scan.h"

static int
may_attach(
    struct pool *p, const struct vdev_drive *m, struct kb_drive *kb, char *why, size_t why_len)
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
	if (set->cfg.kind != RAIDZ_KIND_MIRROR) {
		(void)snprintf(why, why_len,
		    "%s belongs to a set with parity: only mirrors and single drives get sides "
		    "more",
		    m->path);
		return -EINVAL;
	}
	if (set->cfg.width == RAIDZ_WIDTH_MAX) {
		(void)snprintf(why, why_len, "a mirror has at most %u drives", RAIDZ_WIDTH_MAX);
		return -ENOSPC;
	}
	if (drive_check_room(p, m->set_index, kb, why, why_len) != 0) {
		return -EINVAL;
	}
	return p->suspended ? -ERR_SUSPENDED : 0;
}

void
drive_blank(struct pool *p, struct vdev_drive *d, struct kb_drive *kb, const struct guid *guid)
{
	d->guid = *guid;
	d->kb = kb;
	d->region_bytes = kb_pool_bytes(kb_size(kb));
	d->returned_ns = rt_now_ns();
	d->dirty_from = 1;
	d->dirty_to = p->v.committed_txg + 1;
	d->ring_stale = true;
	d->state = DRIVE_STATE_ONLINE;
	(void)snprintf(d->id, sizeof(d->id), "%s", kb_id(kb));
	(void)snprintf(d->path, sizeof(d->path), "%s", kb_path(kb));
}

/* Under config_lock. */
static int
join(struct pool *p, uint32_t set_index, struct kb_drive *kb, const struct guid *guid)
{
	struct vdev_set *set = &p->v.sets[set_index];
	struct vdev_drive *d = vdev_entry_new(&p->v);
	uint32_t column = set->cfg.width;

	if (d == NULL) {
		return -ENOSPC;
	}
	drive_blank(p, d, kb, guid);
	d->set_index = set_index;
	d->column = column;
	raidz_group_set_column(set->rg, column, kb, RAIDZ_COL_STALE);
	raidz_group_set_width(set->rg, column + 1);
	/* who looks without a lock must not see a side too many that is blank */
	__atomic_store_n(&set->cfg.width, column + 1, __ATOMIC_RELEASE);
	d->role = DRIVE_ROLE_DATA; /* from here on others see it */
	if (DELIBERATE_BUG("pool-attach-clean")) {
		vdev_drive_clean(&p->v, d);
	}
	atomic_store(&p->verify_txg, true);
	if (log_membership_write(p) != 0) {
		atomic_store(&p->config_dirty, true); /* the next commit takes it along */
	}
	return 0;
}

int
pool_drive_attach(
    struct pool *p, const struct guid *drive, struct kb_drive *kb, char *out_why, size_t why_len)
{
	struct vdev_drive *m;
	struct guid guid;
	int err;

	out_why[0] = 0;
	if (p->readonly) {
		return -EROFS;
	}
	rt_random_bytes(&guid, sizeof(guid));
	mutex_lock(&p->config_lock);
	m = drive_member(p, drive);
	if (m != NULL && m->role == DRIVE_ROLE_LOG) {
		mutex_unlock(&p->config_lock);
		return pool_log_add(p, kb, 0, out_why, why_len);
	}
	err = may_attach(p, m, kb, out_why, why_len);
	if (err == 0) {
		err = drive_wipe(kb, &guid, kb_pool_bytes(kb_size(kb)));
		if (err != 0) {
			(void)snprintf(
			    out_why, why_len, "%s can't be written: %s", kb_path(kb), err_str(err));
		}
	}
	if (err == 0) {
		err = join(p, m->set_index, kb, &guid);
	}
	if (err == 0) {
		log_notice("drive.attach pool=%s path=%s set=%u width=%u", p->name, kb_path(kb),
		    m->set_index, p->v.sets[m->set_index].cfg.width);
		events_add(p->v.events, POOL_EVENT_INFO, "drive.attached",
		    "%s mirrors %s from now on, and is being filled", kb_path(kb), m->path);
	}
	mutex_unlock(&p->config_lock);
	scan_poke(p);
	return err;
}

/* ---- a side less ---- */

/* Sides that have everything and are there, without one. */
static uint32_t
whole_sides_without(const struct vdevs *v, const struct vdev_drive *gone)
{
	uint32_t count = 0;

	for (uint32_t i = 0; i < v->drive_count; i++) {
		const struct vdev_drive *d = &v->drives[i];

		count += d != gone && d->role == DRIVE_ROLE_DATA && !d->twin &&
			 d->set_index == gone->set_index && d->state == DRIVE_STATE_ONLINE &&
			 d->kb != NULL && !kb_is_gone(d->kb) && d->dirty_from == 0 &&
			 kb_late_writes(d->kb) == 0;
	}
	return count;
}

/* Which moves neither of the two when columns change their numbers. */
static bool
set_has_twin(const struct vdevs *v, uint32_t set_index)
{
	bool has = false;

	for (uint32_t i = 0; i < v->drive_count; i++) {
		const struct vdev_drive *d = &v->drives[i];

		has = has || (d->role == DRIVE_ROLE_DATA && d->twin && d->set_index == set_index);
	}
	return has;
}

static int
may_detach(struct pool *p, const struct vdev_drive *m, char *why, size_t why_len)
{
	const struct raidz_config *cfg;

	if (m == NULL) {
		return -ENOENT;
	}
	if (m->role != DRIVE_ROLE_DATA) {
		(void)snprintf(why, why_len, "%s is a spare", m->path);
		return -EINVAL;
	}
	cfg = &p->v.sets[m->set_index].cfg;
	if (set_has_twin(&p->v, m->set_index)) {
		(void)snprintf(why, why_len,
		    "a drive of set %u is being replaced: wait for it, or detach the new one first",
		    m->set_index);
		return -EBUSY;
	}
	if (cfg->kind != RAIDZ_KIND_MIRROR) {
		(void)snprintf(why, why_len,
		    "%s belongs to a set with parity, which needs all its drives; another can take "
		    "its place",
		    m->path);
		return -EINVAL;
	}
	if (cfg->width == 1) {
		(void)snprintf(why, why_len, "%s is the last drive of its set", m->path);
		return -EINVAL;
	}
	if (p->suspended) {
		return -ERR_SUSPENDED;
	}
	if (whole_sides_without(&p->v, m) == 0 && !DELIBERATE_BUG("pool-detach-last-copy")) {
		(void)snprintf(why, why_len,
		    "no other drive of set %u is there and up to date: %s has the last whole copy",
		    m->set_index, m->path);
		return -EBUSY;
	}
	return 0;
}

/* The last side gets the number of the one that leaves, whose entry is dropped. Under config_lock;
 * doesn't park before the group has its new shape. */
static struct vdev_drive
leave_columns(struct pool *p, struct vdev_drive *m)
{
	struct vdev_set *set = &p->v.sets[m->set_index];
	uint32_t last = set->cfg.width - 1;
	struct vdev_drive *d = vdev_column(&p->v, m->set_index, last);
	struct vdev_drive gone = *m;
	enum raidz_col_state state;

	atomic_store(&p->verify_txg, true);
	vdev_entry_drop(m); /* before the set is narrower: see join */
	if (d != NULL && d != m) {
		struct kb_drive *kb = raidz_group_column(set->rg, last, &state);

		raidz_group_set_column(set->rg, gone.column, kb, state);
		d->returned_ns = rt_now_ns();
		/* which sides the in-pool ring has is known by their numbers at its beginning */
		d->ring_stale = d->ring_stale || (log_sides_without(p, NULL) != UINT32_MAX &&
						     !log_is_side(p, d->kb));
		d->column = gone.column;
	}
	raidz_group_set_width(set->rg, last);
	raidz_group_set_column(set->rg, last, NULL, RAIDZ_COL_MISSING);
	__atomic_store_n(&set->cfg.width, last, __ATOMIC_RELEASE);
	atomic_fetch_add(&set->shape, 1);
	raidz_group_quiesce(set->rg);
	return gone;
}

/* It must not look like a drive of the pool any more. The ring may write to it still: between the
 * labels. */
static void
labels_erase(struct pool *p, struct kb_drive *kb, uint64_t region_bytes)
{
	struct iobuf *zero;
	int err = iobuf_alloc(LABEL_BYTES, ARENA_REPAIR, &zero);

	if (err == 0) {
		memset(zero->data, 0, LABEL_BYTES);
		for (unsigned k = 0; err == 0 && k < LABEL_COUNT; k++) {
			err = kb_write(kb, label_offset(region_bytes, k), zero, LABEL_BYTES, 0);
		}
		iobuf_unref(zero);
	}
	err = err != 0 ? err : kb_gpt_clear(kb);
	err = err != 0 ? err : kb_flush(kb);
	if (err != 0) {
		log_warn("drive.labels_left pool=%s path=%s error=%s", p->name, kb_path(kb),
		    err_str(err));
	}
}

/* A drive that is no member any more may be used for something else once the ring doesn't write to
 * it. Under no lock; kb is retired here. */
void
drive_give_free(struct pool *p, struct kb_drive *kb)
{
	bool side;

	mutex_lock(&p->config_lock);
	side = log_is_side(p, kb);
	mutex_unlock(&p->config_lock);
	if (side && logdev_renew(p) != 0) {
		log_warn("log_not_renewed pool=%s", p->name);
	}
	mutex_lock(&p->config_lock);
	/* else it stays claimed until it is closed */
	if (!log_is_side(p, kb) && kb_late_writes(kb) == 0) {
		kb_unclaim(kb);
	}
	vdev_retire(&p->v, kb);
	mutex_unlock(&p->config_lock);
}

struct kb_drive *
drive_dismiss(struct pool *p, const struct vdev_drive *gone, bool durable)
{
	struct kb_drive *kb = gone->kb;

	if (kb == NULL) {
		return NULL;
	}
	if (durable && gone->was_spare && !kb_is_gone(kb) && !log_is_side(p, kb)) {
		kb_unclaim(kb);
		spare_give(p, kb);
		if (log_membership_write(p) != 0) {
			atomic_store(&p->config_dirty, true);
		}
		return NULL;
	}
	if (durable && !kb_is_gone(kb)) {
		labels_erase(p, kb, gone->region_bytes);
	}
	return kb;
}

/* Under config_lock. The descriptor of the drive, for drive_give_free; NULL: nothing is left to do.
 */
static struct kb_drive *
leave(struct pool *p, struct vdev_drive *m)
{
	struct vdev_drive gone;
	int err;

	gone = leave_columns(p, m);
	err = log_membership_write(p);
	if (err != 0) {
		atomic_store(&p->config_dirty, true);
	}
	return drive_dismiss(p, &gone, err == 0);
}

static int
log_detach(struct pool *p, const struct guid *drive, char *why, size_t why_len)
{
	uint32_t sides = 0;

	mutex_lock(&p->config_lock);
	for (uint32_t i = 0; i < p->v.drive_count; i++) {
		sides += p->v.drives[i].role == DRIVE_ROLE_LOG;
	}
	mutex_unlock(&p->config_lock);
	if (sides < 2) {
		(void)snprintf(
		    why, why_len, "it is the log's only drive; 'pool remove' gives the log up");
		return -EINVAL;
	}
	return pool_log_remove(p, drive);
}

int
pool_drive_detach(struct pool *p, const struct guid *drive, char *out_why, size_t why_len)
{
	struct vdev_drive *m;
	struct kb_drive *freed = NULL;
	bool renewed = false;
	int err = 0;

	out_why[0] = 0;
	if (p->readonly) {
		return -EROFS;
	}
	mutex_lock(&p->config_lock);
	m = drive_member(p, drive);
	if (m != NULL && m->role == DRIVE_ROLE_LOG) {
		mutex_unlock(&p->config_lock);
		return log_detach(p, drive, out_why, why_len);
	}
	if (m != NULL && m->role == DRIVE_ROLE_DATA && m->twin) {
		freed = pair_cancel(p, m);
		goto out;
	}
	do {
		m = drive_member(p, drive);
		err = may_detach(p, m, out_why, why_len);
	} while (err == 0 && logdev_renew_without(p, m, 1, &renewed));
	if (err == 0 && log_sides_without(p, m) == 0) {
		err = -EBUSY;
	}
	if (err == 0) {
		log_notice("drive.detach pool=%s path=%s set=%u", p->name, m->path, m->set_index);
		events_add(p->v.events, POOL_EVENT_INFO, "drive.detached",
		    "%s is no side of its mirror any more", m->path);
		freed = leave(p, m);
	}
out:
	mutex_unlock(&p->config_lock);
	if (freed != NULL) {
		drive_give_free(p, freed);
	}
	scan_poke(p);
	return err;
}
