/*
 * trash_snap.c - destroyed snapshots that can be had back for a while.
 *
 * Destroying gives them hidden names, ".destroyed-TIME-NUMBER-NAME", all in one change: they stay
 * in their chain, where their space is, but nobody sees or reads them, and their names are free.
 * They go for good as destroyed filesystems do (trash.c): when their time is over, and the oldest
 * first when space is short, in the pool or by a quota of their filesystem; and when the
 * filesystem goes back to an older snapshot. What is held or has clones can't get here; what a
 * schedule destroys doesn't.
 */
#include <stdio.h>
#include <stdlib.h>
#include "admin/snap_names.h"

#define LOW_SPACE_PART 16u

/* ---- destroying ---- */

static int
hide(struct adm_pool *ap, const struct snap_names *names, uint32_t *out_bad)
{
	struct snap_names hidden = {0};
	int64_t now = (int64_t)(rt_wall_ns() / NSEC_PER_SEC);
	int err = 0;
	*out_bad = 0;
	for (uint32_t i = 0; i < names->count; i++) {
		char name[2 * DATASET_NAME_MAX + 64];
		(void)snprintf(name, sizeof(name), POOL_SNAP_DESTROYED "%lld-%08x-%s",
		    (long long)now, (uint32_t)rt_random_u64(), strchr(names->v[i], '@') + 1);
		snap_names_add_text(&hidden, name);
	}
	err = hidden.no_memory ? -ENOMEM
			       : fs_snap_rename_all(ap->fp, (const char *const *)names->v,
				     (const char *const *)hidden.v, names->count, out_bad);
	snap_names_free(&hidden);
	return err;
}

int
trash_snaps_destroy(
    struct adm_pool *ap, const struct snap_names *names, bool *out_kept, struct adm_error *e)
{
	uint32_t bad;
	*out_kept = trash_keeps_s(ap) > 0 && names->count > 0 && !trash_is_inside(names->v[0]) &&
		    !snap_name_is_hidden(names->v[0]);
	if (*out_kept) {
		int err = hide(ap, names, &bad);
		if (err == 0) {
			return 0;
		}
		if (err == -EBUSY) {
			return snap_busy(ap, names->v[bad], e);
		}
		if (err != -EINVAL && err != -ENOSPC) {
			return adm_fail(
			    e, err, "'%.200s' was not destroyed: %s", names->v[bad], err_str(err));
		}
		*out_kept = false; /* names too long, a full pool: there is no way back */
	}
	return snap_destroy_named(ap, names, e);
}

/* ---- what there is ---- */

struct item_walk {
	struct adm_pool *ap;
	int (*each)(void *arg, const struct trash_snap *s);
	void *arg;
	uint32_t flags;
	struct trash_snap s;
};

static int
item_snap(void *arg, const struct pool_snap_info *info)
{
	struct item_walk *w = arg;
	if (!trash_snap_parse(info->name, &w->s.time, &w->s.was)) {
		return 0;
	}
	w->s.info = info;
	return w->each(w->arg, &w->s);
}

static int
item_ds(void *arg, struct pool_ds *ds)
{
	struct item_walk *w = arg;
	struct pool_ds_info info;
	pool_ds_get_info(ds, &info);
	if (trash_is_inside(info.path)) {
		return 0;
	}
	w->s.ds = &info;
	int err = pool_snap_each(w->ap->pool, info.path, w->flags | POOL_SNAP_HIDDEN, item_snap, w);
	w->s.ds = NULL;
	return err == -ENOENT ? 0 : err;
}

/* Those of path, and with recursive of what is below it. */
static int
items_each(struct adm_pool *ap, const char *path, bool recursive, uint32_t flags,
    int (*each)(void *arg, const struct trash_snap *s), void *arg)
{
	struct item_walk w = {.ap = ap, .each = each, .arg = arg, .flags = flags};
	if (pool_snap_hidden_count(ap->pool) == 0) {
		return 0;
	}
	return pool_ds_each(ap->pool, path, recursive, item_ds, &w);
}

struct rows {
	struct adm_pool *ap;
	json_t *list;
};

static int
row_add(void *arg, const struct trash_snap *s)
{
	struct rows *r = arg;
	char name[2 * DATASET_NAME_MAX + 2], path[2 * DATASET_NAME_MAX + 2];
	(void)snprintf(name, sizeof(name), "%s@%s", s->ds->path, s->was);
	(void)snprintf(path, sizeof(path), "%s@%s", s->ds->path, s->info->name);
	return json_array_append_new(r->list,
	    json_pack("{s:s, s:s, s:s, s:I, s:I, s:I, s:I}", "name", name, "type", "destroyed",
		"path", path, "used", (json_int_t)s->info->unique_bytes, "destroyed",
		(json_int_t)s->time, "until", (json_int_t)(s->time + trash_keeps_s(r->ap)), "guid",
		(json_int_t)s->info->guid));
}

int
trash_snaps_json(struct adm_pool *ap, json_t *rows)
{
	struct rows r = {ap, rows};
	return items_each(ap, pool_name(ap->pool), true, POOL_SNAP_UNIQUE, row_add, &r);
}

/* ---- having them back ---- */

struct back {
	const char *was;                /* looked for */
	struct snap_names hidden, full; /* at most one of each filesystem: the one destroyed last */
	int64_t time;                   /* of the last of them */
	uint32_t settled;               /* so many were found before for other names */
};

static int
back_add(void *arg, const struct trash_snap *s)
{
	struct back *b = arg;
	struct snap_names *n = &b->hidden;
	size_t len = strlen(s->ds->path);
	if (strcmp(s->was, b->was) != 0 && strcmp(s->info->name, b->was) != 0) {
		return 0;
	}
	bool again = n->count > b->settled && strncmp(n->v[n->count - 1], s->ds->path, len) == 0 &&
		     n->v[n->count - 1][len] == '@';
	if (again && s->time < b->time) {
		return 0;
	}
	if (again) {
		mem_free(n->v[--n->count]);
		mem_free(b->full.v[--b->full.count]);
	}
	b->time = s->time;
	snap_names_add(n, s->ds->path, s->info->name);
	snap_names_add(&b->full, s->ds->path, s->was);
	return n->no_memory || b->full.no_memory ? -ENOMEM : 0;
}

static int
back_rename(struct adm_pool *ap, struct back *b, const char *to, struct adm_error *e)
{
	struct snap_names names = {0};
	uint32_t bad = 0;
	for (uint32_t i = 0; i < b->full.count; i++) {
		snap_names_add_text(&names, to != NULL ? to : strchr(b->full.v[i], '@') + 1);
	}
	int err = names.no_memory ? -ENOMEM
				  : fs_snap_rename_all(ap->fp, (const char *const *)b->hidden.v,
					(const char *const *)names.v, names.count, &bad);
	snap_names_free(&names);
	if (err == 0) {
		return 0;
	}
	adm_fail_next(e, "fs undestroy %.200s ANOTHER-NAME", b->full.v[bad]);
	return adm_fail(e, err, "'%.200s' can't be had back: %s", b->full.v[bad],
	    err == -EEXIST   ? "there is a snapshot of that name again"
	    : err == -EINVAL ? "not a valid name"
			     : err_str(err));
}

/* to: NULL, "NAME", or "PATH@NAME" of the same filesystem. */
static int
back_name(const char *path, const char **to, struct adm_error *e)
{
	size_t len = strlen(path);
	if (*to != NULL && strchr(*to, '@') != NULL) {
		if (strncmp(*to, path, len) != 0 || (*to)[len] != '@') {
			return adm_fail(e, EXDEV, "a snapshot stays one of '%.200s'", path);
		}
		*to += len + 1;
	}
	return *to != NULL && pool_snap_is_hidden(*to)
		   ? adm_fail(e, EINVAL, "'%.100s' is no name of a snapshot", *to)
		   : 0;
}

/* Those that a list or range means. */
static int
back_range(
    struct adm_pool *ap, const char *spec, bool recursive, struct back *b, struct adm_error *e)
{
	struct snap_names names = {0};
	int err = snap_names_expand_destroyed(ap, spec, recursive, &names, e);
	for (uint32_t i = 0; err == 0 && i < names.count; i++) {
		char path[DATASET_NAME_MAX + 1];
		if (!snap_name_split(names.v[i], path, &b->was)) {
			continue;
		}
		b->settled = b->hidden.count;
		err = items_each(ap, path, false, 0, back_add, b);
	}
	b->was = NULL; /* it was in names */
	snap_names_free(&names);
	return err;
}

int
trash_snaps_undestroy(struct adm_pool *ap, json_t *args, json_t **out, struct adm_error *e)
{
	const char *name = json_string_value(json_object_get(args, "name"));
	const char *to = json_string_value(json_object_get(args, "to"));
	struct back b = {.was = strchr(name, '@') + 1};
	char path[DATASET_NAME_MAX + 1];
	(void)snprintf(path, sizeof(path), "%.*s", (int)strcspn(name, "@"), name);
	bool recursive = adm_arg_flag(args, "recursive");
	bool several = strpbrk(b.was, "%,") != NULL;
	int err = back_name(path, &to, e);
	if (err == 0 && several && to != NULL) {
		err = adm_fail(
		    e, EINVAL, "'%.200s' means several: they can't have one new name", name);
	}
	if (err == 0) {
		err = several ? back_range(ap, name, recursive, &b, e)
			      : items_each(ap, path, recursive, 0, back_add, &b);
	}
	if (e->code == 0 && (err == -ENOENT || (err == 0 && b.hidden.count == 0))) {
		adm_fail_next(e, "'fs list -t destroyed' shows what can be had back.");
		err = adm_fail(e, ENOENT, "no destroyed snapshot was '%.200s'", name);
	} else if (err != 0 && e->code == 0) {
		err = adm_fail(e, err, "'%.200s' can't be had back: %s", name, err_str(err));
	}
	if (err == 0 && !adm_arg_flag(args, "dry_run")) {
		err = back_rename(ap, &b, to, e);
	}
	if (err == 0) {
		*out = json_pack("{s:o}", "snapshots", snap_names_json(&b.full));
		if (to != NULL) {
			json_object_set_new(*out, "as", adm_text(to));
		}
	}
	snap_names_free(&b.hidden);
	snap_names_free(&b.full);
	return err;
}

/* ---- by themselves ---- */

struct look {
	int64_t before; /* destroyed up to then: their time is over */
	bool all_low;   /* the pool is short of space */
	int64_t oldest; /* of those whose space is needed; INT64_MAX: none */
	struct snap_names over, needed;
};

static int
look_add(void *arg, const struct trash_snap *s)
{
	struct look *l = arg;
	uint64_t room = (s->ds->used_bytes + s->ds->available_bytes) / LOW_SPACE_PART;
	if (s->time <= l->before) {
		snap_names_add(&l->over, s->ds->path, s->info->name);
	} else if ((l->all_low || s->ds->available_bytes < room) && s->time <= l->oldest) {
		if (s->time < l->oldest) {
			snap_names_free(&l->needed);
		}
		l->oldest = s->time;
		snap_names_add(&l->needed, s->ds->path, s->info->name);
	}
	return l->over.no_memory || l->needed.no_memory ? -ENOMEM : 0;
}

static void
look_destroy(struct adm_pool *ap, const struct snap_names *names)
{
	struct adm_error bad = {0};
	if (names->count == 0) {
		return;
	}
	int err = snap_destroy_named(ap, names, &bad);
	if (err == 0) {
		log_notice("destroyed-for-good pool=%s snapshots=%u first=%s", pool_name(ap->pool),
		    names->count, names->v[0]);
		diary_add(ap, DIARY_HISTORY, "agated", "fs destroy", names->v[0]);
	} else {
		log_warn("not-destroyed-for-good first=%s reason=\"%s\"", names->v[0], bad.message);
	}
}

int64_t
trash_snaps_look(struct adm_pool *ap, bool low, int64_t oldest)
{
	struct look l = {.before = (int64_t)(rt_wall_ns() / NSEC_PER_SEC) - trash_keeps_s(ap),
	    .all_low = low,
	    .oldest = INT64_MAX};
	int err = items_each(ap, pool_name(ap->pool), true, 0, look_add, &l);
	if (err == 0) {
		look_destroy(ap, &l.over);
		/* older filesystems go first */
		if (l.oldest <= oldest) {
			look_destroy(ap, &l.needed);
		}
	}
	snap_names_free(&l.over);
	snap_names_free(&l.needed);
	return l.oldest;
}
