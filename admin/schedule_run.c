/*
 * schedule_run.c - what a pool's schedules do when it is time.
 *
 * Time is cut into slots (an hour, a day...). A schedule is due when the slot of now is later than
 * the last one it took a snapshot of. The snapshot is named after the slot, so that a slot has one,
 * also when the daemon ends between taking it and writing that down. Slots in which nothing ran are
 * not made up for: after a downtime of a week there is one snapshot, of now. When the clock is set
 * back, nothing is taken until it has caught up; if it was wrong by more than a slot, the schedule
 * follows it.
 *
 * Behind each snapshot those of the same kind that are more than the schedule keeps go, oldest
 * first. Only snapshots with names of this kind are ever touched; held ones and those with clones
 * stay, and count. When several schedules of one kind reach a filesystem (its own, a recursive one
 * above), the one that keeps most counts there.
 */
#include <stdio.h>
#include "admin/schedule.h"
#include "admin/snap_names.h"

#define RETRY_S 60

struct run {
	struct adm_pool *ap;
	struct sched *s;
	char name[SCHED_NAME_BYTES];
	struct snap_names take, drop;
	uint32_t keep;
	const char *path; /* under consideration */
};

static bool
covers(const struct sched *s, const char *path)
{
	size_t len = strlen(s->path);
	return strcmp(s->path, path) == 0 ||
	       (s->recursive && strncmp(s->path, path, len) == 0 && path[len] == '/');
}

/* ---- taking ---- */

static int
run_add(void *arg, struct pool_ds *ds)
{
	struct run *r = arg;
	struct pool_ds_info info;
	struct pool_snap_info have;
	char full[DATASET_NAME_MAX + SCHED_NAME_BYTES + 2];
	pool_ds_get_info(ds, &info);
	if (trash_is_inside(info.path)) {
		return 0;
	}
	(void)snprintf(full, sizeof(full), "%s@%s", info.path, r->name);
	if (pool_snap_get(r->ap->pool, full, 0, &have) == -ENOENT) {
		snap_names_add(&r->take, info.path, r->name);
	}
	return r->take.no_memory ? -ENOMEM : 0;
}

static int
run_take(struct run *r)
{
	uint32_t bad = 0;
	int err = pool_ds_each(r->ap->pool, r->s->path, r->s->recursive, run_add, r);
	if (err == 0 && r->take.count > 0) {
		err =
		    fs_snap_create(r->ap->fp, (const char *const *)r->take.v, r->take.count, &bad);
	}
	return err;
}

/* ---- what is too much ---- */

struct oldest {
	struct run *r;
	uint32_t count, spare; /* of this kind; how many of them may go */
};

static int
count_kind(void *arg, const struct pool_snap_info *s)
{
	struct oldest *o = arg;
	o->count += sched_name_is(o->r->s->every, s->name);
	return 0;
}

static int
drop_oldest(void *arg, const struct pool_snap_info *s)
{
	struct oldest *o = arg;
	if (o->spare > 0 && sched_name_is(o->r->s->every, s->name)) {
		o->spare--;
		if (s->holds == 0 && s->clones == 0) {
			snap_names_add(&o->r->drop, o->r->path, s->name);
		}
	}
	return 0;
}

static uint32_t
keep_at(const struct adm_sched *t, enum sched_every every, const char *path)
{
	uint32_t keep = 0;
	for (uint32_t i = 0; i < t->count; i++) {
		if (t->v[i].every == every && covers(&t->v[i], path)) {
			keep = MAX(keep, t->v[i].keep);
		}
	}
	return keep;
}

static int
run_prune_one(void *arg, struct pool_ds *ds)
{
	struct run *r = arg;
	struct pool_ds_info info;
	struct oldest o = {.r = r};
	pool_ds_get_info(ds, &info);
	uint32_t keep = keep_at(r->ap->sched, r->s->every, info.path);
	int err = pool_snap_each(r->ap->pool, info.path, 0, count_kind, &o);
	if (err == 0 && o.count > keep) {
		o.spare = o.count - keep;
		r->path = info.path;
		err = pool_snap_each(r->ap->pool, info.path, 0, drop_oldest, &o);
		r->path = NULL;
	}
	return err == -ENOENT ? 0 : err;
}

static int
run_prune(struct run *r)
{
	uint32_t bad = 0;
	int err = pool_ds_each(r->ap->pool, r->s->path, r->s->recursive, run_prune_one, r);
	if (err != 0 || r->drop.count == 0) {
		return err;
	}
	err = fs_snap_destroy(r->ap->fp, (const char *const *)r->drop.v, r->drop.count, &bad);
	/* somebody held one meanwhile: the others can go all the same */
	for (uint32_t i = 0; err == -EBUSY && i < r->drop.count; i++) {
		const char *one = r->drop.v[i];
		int each = fs_snap_destroy(r->ap->fp, &one, 1, &bad);
		if (each != 0 && each != -EBUSY && each != -ENOENT) {
			return each;
		}
	}
	return err == -EBUSY ? 0 : err;
}

/* ---- one schedule ---- */

static void
run_failed(
    struct run *r, int64_t now, int err, void (*note)(void *arg, const char *text), void *arg)
{
	char text[sizeof(r->s->error)];
	(void)snprintf(text, sizeof(text), "%s",
	    err == -ENOENT ? "there is no such filesystem" : err_str(err));
	r->s->retry = now + RETRY_S;
	if (strcmp(text, r->s->error) != 0) {
		char line[512];
		memcpy(r->s->error, text, sizeof(text));
		(void)snprintf(
		    line, sizeof(line), "%s@%s was not taken: %s", r->s->path, r->name, text);
		note(arg, line);
	}
}

static void
run_one(struct run *r, int64_t now, void (*note)(void *arg, const char *text), void *arg)
{
	char line[512];
	int64_t slot = sched_slot(r->s->every, now);
	sched_name(r->s->every, slot, r->name);
	int err = run_take(r);
	if (err == 0) {
		r->s->last = slot;
		r->s->error[0] = '\0';
		r->ap->sched->dirty = true;
		err = run_prune(r);
		(void)snprintf(line, sizeof(line), "%s@%s: %u taken, %u destroyed", r->s->path,
		    r->name, r->take.count, err == 0 ? r->drop.count : 0);
		note(arg, line);
		if (err != 0) {
			log_warn(
			    "schedule-prune-failed path=%s error=%s", r->s->path, err_str(err));
		}
	} else {
		run_failed(r, now, err, note, arg);
	}
	snap_names_free(&r->take);
	snap_names_free(&r->drop);
}

void
sched_run(struct adm_pool *ap, int64_t now, void (*note)(void *arg, const char *text), void *arg)
{
	struct adm_sched *t = ap->sched;
	if (t == NULL || pool_is_readonly(ap->pool) || pool_is_suspended(ap->pool)) {
		return;
	}
	mutex_lock(&t->lock);
	for (uint32_t i = 0; i < t->count; i++) {
		struct run r = {.ap = ap, .s = &t->v[i]};
		int64_t slot = sched_slot(r.s->every, now);
		if (r.s->last > sched_next(r.s->every, slot)) {
			r.s->last = slot; /* the clock was wrong then */
			t->dirty = true;
		}
		if (sched_is_due(r.s, now) && !trash_is_inside(r.s->path)) {
			run_one(&r, now, note, arg);
		}
	}
	if (t->dirty) {
		int err = sched_store(ap);
		if (err != 0) {
			log_warn("schedules-not-stored pool=%s error=%s", pool_name(ap->pool),
			    err_str(err));
		}
	}
	mutex_unlock(&t->lock);
}
