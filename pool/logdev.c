/*
 * logdev.c - log drives that come, go and return while the pool is in use.
 *
 * A ring keeps its sides for its whole epoch. So the sides are changed between two epochs: the log
 * moves to the in-pool ring (if it isn't there), the configuration is changed and made durable, the
 * log moves to a new epoch on the drives there are now. A move is what happens when a ring fails,
 * without the failure: commits wait for their txg until LOG_ROOTS roots name the new ring. That
 * many roots also lie between two epochs in one place, so that no root one may fall back to needs
 * what a new epoch overwrites.
 *
 * logdev_mu: one change at a time. Whatever ends a change in the middle (a suspended pool) leaves a
 * log that works; the heartbeat brings it back to its drives.
 */
#include "pool/logdev.h"

#include <stdio.h>

#include "pool/drive.h"
#include "pool/event.h"
#include "pool/pool_log.h"
#include "pool/vdev.h"

#define MOVE_LOOK_NS (5 * NSEC_PER_MSEC)
#define MOVE_WAIT_NS (30 * NSEC_PER_SEC)

static bool
is_settled(const struct pool_log_state *s)
{
	return !atomic_load(&s->moving) && !atomic_load(&s->failed) &&
	       (atomic_load(&s->ring) == NULL || atomic_load(&s->roots_named) >= LOG_ROOTS);
}

static int
settle(struct pool *p)
{
	uint64_t deadline = rt_now_ns() + MOVE_WAIT_NS;

	while (!is_settled(p->log)) {
		int err = pool_sync(p);

		if (err != 0 || rt_now_ns() >= deadline) {
			return err != 0 ? err : -ETIMEDOUT;
		}
		fiber_sleep(MOVE_LOOK_NS);
	}
	return 0;
}

/* 0: the log is there and in use. */
static int
move(struct pool *p, bool to_drives)
{
	struct pool_log_state *s = p->log;
	int err = settle(p);

	if (err != 0 || (atomic_load(&s->ring) != NULL && s->in_pool != to_drives)) {
		return err;
	}
	/* room is left for rings that fail */
	if (s->retired_count + LOG_FAILURES_MAX + 1 >= LOG_RINGS_MAX) {
		return -EBUSY;
	}
	s->to_drives = to_drives;
	atomic_store(&s->moving, true);
	atomic_store(&s->failed, true);
	return settle(p);
}

/* As after a replay: who joins is durable only when no root needs the old epoch's sides. */
static int
renew_locked(struct pool *p)
{
	struct pool_log_state *s = p->log;
	int err = settle(p);

	if (err != 0 || atomic_load(&s->ring) == NULL || !s->in_pool) {
		return err;
	}
	if (s->retired_count + LOG_FAILURES_MAX + 1 >= LOG_RINGS_MAX) {
		return -EBUSY;
	}
	mutex_lock(&p->config_lock);
	(void)vdev_log_rejoin(&p->v);
	mutex_unlock(&p->config_lock);
	s->to_drives = false;
	atomic_store(&s->moving, true);
	atomic_store(&s->failed, true);
	err = settle(p);
	atomic_store(&p->config_dirty, true);
	return err;
}

int
logdev_renew(struct pool *p)
{
	int err;

	mutex_lock(&p->logdev_mu);
	err = p->suspended ? -ERR_SUSPENDED : renew_locked(p);
	mutex_unlock(&p->logdev_mu);
	return err;
}

bool
logdev_renew_without(struct pool *p, const struct vdev_drive *gone, uint32_t enough, bool *renewed)
{
	int err;

	if (*renewed || p->suspended || log_sides_without(p, gone) >= enough) {
		return false;
	}
	*renewed = true;
	mutex_unlock(&p->config_lock);
	err = logdev_renew(p);
	mutex_lock(&p->config_lock);
	if (err != 0) {
		log_warn("log_not_renewed pool=%s error=%s", p->name, err_str(err));
	}
	return true;
}

static bool
is_usable(const struct vdev_drive *d)
{
	return d->role == DRIVE_ROLE_LOG && d->kb != NULL && !kb_is_gone(d->kb) &&
	       d->state == DRIVE_STATE_ONLINE;
}

/* Was out, and is there again, with nothing of its former life under way. */
static bool
is_back(const struct vdev_drive *d)
{
	return d->role == DRIVE_ROLE_LOG && d->kb != NULL && !kb_is_gone(d->kb) &&
	       d->dirty_from != 0 && kb_late_writes(d->kb) == 0;
}

/* Under config_lock, while the log is in the pool: no root needs what is on the drives any more. */
static bool
rejoin(struct pool *p)
{
	bool changed = false;

	for (uint32_t i = 0; i < p->v.drive_count; i++) {
		struct vdev_drive *d = &p->v.drives[i];

		if (is_back(d)) {
			vdev_drive_back(&p->v, d, p->v.committed_txg);
			vdev_drive_clean(&p->v, d);
			events_add(p->v.events, POOL_EVENT_INFO, "log.rejoined",
			    "log drive %s is in use again", d->path);
			changed = true;
		}
	}
	return changed;
}

struct change {
	int (*run)(struct pool *p,
	    struct change *c); /* under config_lock; NULL: only take back who is there */
	struct guid drive;
	struct kb_drive *kb;
	uint64_t log_bytes;
	char *why;
	size_t why_len;
};

/* Under logdev_mu. */
static int
rearrange(struct pool *p, struct change *c)
{
	bool usable = false, rejoined;
	int err = p->suspended ? -ERR_SUSPENDED : move(p, false);

	if (err != 0) {
		return err;
	}
	mutex_lock(&p->config_lock);
	rejoined = rejoin(p);
	if (c->run != NULL) {
		err = c->run(p, c);
	}
	if ((err == 0 || rejoined) && log_membership_write(p) != 0) {
		atomic_store(&p->config_dirty, true);
	}
	for (uint32_t i = 0; i < p->v.drive_count; i++) {
		usable = usable || is_usable(&p->v.drives[i]);
	}
	mutex_unlock(&p->config_lock);
	if (usable && move(p, true) != 0) {
		log_warn("log_stays_in_pool pool=%s", p->name); /* the heartbeat tries again */
	}
	return err;
}

void
logdev_look(struct pool *p)
{
	struct change none = {0};
	bool back = false, usable = false;

	if (p->suspended || p->log == NULL || atomic_load(&p->log->from_txg) == UINT64_MAX) {
		return;
	}
	mutex_lock(&p->config_lock);
	for (uint32_t i = 0; i < p->v.drive_count; i++) {
		back = back || is_back(&p->v.drives[i]);
		usable = usable || is_usable(&p->v.drives[i]);
	}
	mutex_unlock(&p->config_lock);
	if (!back && (!usable || !p->log->in_pool)) {
		return;
	}
	mutex_lock(&p->logdev_mu);
	if (rearrange(p, &none) != 0) {
		log_warn("log_not_rearranged pool=%s", p->name);
	}
	mutex_unlock(&p->logdev_mu);
}

/* ---- by the administrator ---- */

static uint64_t
room_of(struct kb_drive *kb)
{
	uint64_t region = kb_pool_bytes(kb_size(kb));

	return region > LABEL_FRONT_BYTES + LABEL_BACK_BYTES
		   ? region - LABEL_FRONT_BYTES - LABEL_BACK_BYTES
		   : 0;
}

/* The first drive says how large the log is; others need as much room. */
static int
check_room(struct pool *p, const struct change *c)
{
	uint64_t room = room_of(c->kb);
	uint64_t need = p->v.log_bytes != 0 ? p->v.log_bytes
			: c->log_bytes != 0 ? c->log_bytes
					    : ILOG_REGION_BYTES_MIN;

	if (room < need || need < ILOG_REGION_BYTES_MIN) {
		(void)snprintf(c->why, c->why_len,
		    "%s has room for a log of %llu MiB, and %llu MiB are needed", kb_path(c->kb),
		    (unsigned long long)(room / MIB), (unsigned long long)DIV_UP(need, MIB));
		return -EINVAL;
	}
	return 0;
}

static int
free_side(const struct vdevs *v)
{
	uint32_t used = 0;

	for (uint32_t i = 0; i < v->drive_count; i++) {
		used |= v->drives[i].role == DRIVE_ROLE_LOG ? 1u << v->drives[i].column : 0;
	}
	for (int side = 0; side < ILOG_SIDES_MAX; side++) {
		if ((used >> side & 1) == 0) {
			return side;
		}
	}
	return -1;
}

static int
run_add(struct pool *p, struct change *c)
{
	struct vdevs *v = &p->v;
	int side = free_side(v);

	if (side < 0 || !vdev_layout_drive(v, c->kb, DRIVE_ROLE_LOG, 0, (uint32_t)side)) {
		(void)snprintf(c->why, c->why_len, "a log has at most %u drives", ILOG_SIDES_MAX);
		return -ENOSPC;
	}
	if (v->log_bytes == 0) {
		rt_random_bytes(&v->log_guid, sizeof(v->log_guid));
		v->log_bytes =
		    c->log_bytes != 0 ? ALIGN_DOWN(c->log_bytes, LABEL_BYTES) : room_of(c->kb);
	}
	events_add(
	    v->events, POOL_EVENT_INFO, "log.added", "%s is a log drive now", kb_path(c->kb));
	return 0;
}

static int
run_remove(struct pool *p, struct change *c)
{
	struct vdevs *v = &p->v;
	struct vdev_drive *d = drive_member(p, &c->drive);
	bool last = true;

	if (d == NULL || d->role != DRIVE_ROLE_LOG) {
		return d == NULL ? -ENOENT : -EINVAL;
	}
	events_add(
	    v->events, POOL_EVENT_INFO, "log.removed", "%s is no log drive any more", d->path);
	if (d->kb != NULL) {
		kb_unclaim(d->kb);
		vdev_retire(v, d->kb); /* a former ring may look at it still */
	}
	vdev_entry_drop(d);
	for (uint32_t i = 0; i < v->drive_count; i++) {
		last = last && v->drives[i].role != DRIVE_ROLE_LOG;
	}
	if (last) {
		memset(&v->log_guid, 0, sizeof(v->log_guid));
		v->log_bytes = 0;
	}
	return 0;
}

static int
run_replace(struct pool *p, struct change *c)
{
	uint64_t log_bytes = p->v.log_bytes;
	struct guid guid = p->v.log_guid;
	int err = run_remove(p, c);

	if (err == 0) {
		p->v.log_bytes = log_bytes;
		p->v.log_guid = guid;
		err = run_add(p, c);
	}
	return err;
}

static int
prepare(struct pool *p, struct change *c)
{
	struct guid guid;
	int err = p->readonly ? -EROFS : p->suspended ? -ERR_SUSPENDED : check_room(p, c);

	rt_random_bytes(&guid, sizeof(guid));
	err = err != 0 ? err : kb_claim(c->kb, false);
	err = err != 0 ? err : drive_wipe(c->kb, &guid, kb_pool_bytes(kb_size(c->kb)));
	if (err != 0 && c->why[0] == 0) {
		(void)snprintf(
		    c->why, c->why_len, "%s can't be written: %s", kb_path(c->kb), err_str(err));
	}
	return err;
}

static int
change_run(struct pool *p, struct change *c)
{
	int err = 0;

	mutex_lock(&p->logdev_mu);
	if (c->kb != NULL) {
		err = prepare(p, c);
	}
	err = err != 0 ? err : rearrange(p, c);
	mutex_unlock(&p->logdev_mu);
	return err;
}

int
pool_log_add(struct pool *p, struct kb_drive *d, uint64_t log_bytes, char *out_why, size_t why_len)
{
	struct change c = {
	    .run = run_add, .kb = d, .log_bytes = log_bytes, .why = out_why, .why_len = why_len};

	out_why[0] = 0;
	return change_run(p, &c);
}

int
pool_log_remove(struct pool *p, const struct guid *drive)
{
	char why[8] = "";
	struct change c = {.run = run_remove, .drive = *drive, .why = why, .why_len = sizeof(why)};

	return p->readonly ? -EROFS : change_run(p, &c);
}

int
logdev_replace(
    struct pool *p, const struct guid *old, struct kb_drive *d, char *why, size_t why_len)
{
	struct change c = {
	    .run = run_replace, .drive = *old, .kb = d, .why = why, .why_len = why_len};

	why[0] = 0;
	return change_run(p, &c);
}
