/*
 * trash.c - destroyed filesystems that can be had back for a while.
 *
 * Destroying renames the filesystem, with its snapshots and all below it, to
 * POOL/.destroyed/TIME-NAME, after where it was and when was written into its properties: if the
 * daemon ends between the two, nothing has happened. Nobody has a share there, so handles are stale
 * at once. It is really destroyed when the pool's property "undo" says so, or before, the oldest
 * first, when less than a sixteenth of the pool is free. What is kept by a hold or a clone
 * somewhere else can't get here.
 */
#include <stdio.h>
#include <stdlib.h>
#include "admin/snap_names.h"

#define PROP_FROM "trash:from"
#define PROP_TIME "trash:time"
#define PROP_RESERVED "trash:reserved"
#define LOW_SPACE_PART 16u

static int64_t
now_s(void)
{
	return (int64_t)(rt_wall_ns() / NSEC_PER_SEC);
}

int64_t
trash_keeps_s(const struct adm_pool *ap)
{
	const char *undo = props_get(ap, "undo");
	return strcmp(undo, "off") == 0   ? 0
	       : strcmp(undo, "1h") == 0  ? 3600
	       : strcmp(undo, "7d") == 0  ? 7 * 24 * 3600
	       : strcmp(undo, "30d") == 0 ? 30 * 24 * 3600
					  : 24 * 3600;
}

/* ---- a filesystem and what is below it ---- */

struct paths {
	char (*v)[DATASET_NAME_MAX + 1];
	uint32_t count;
};

static int
paths_add(void *arg, struct pool_ds *ds)
{
	struct paths *p = arg;
	struct pool_ds_info info;
	char(*v)[DATASET_NAME_MAX + 1] = mem_realloc(p->v, (p->count + 1) * sizeof(*v));
	if (v == NULL) {
		return -ENOMEM;
	}
	pool_ds_get_info(ds, &info);
	memcpy(v[p->count++], info.path, sizeof(info.path));
	p->v = v;
	return 0;
}

static int
purge_one(struct adm_pool *ap, const char *path)
{
	struct snap_names names = {0};
	struct adm_error bad = {0};
	int err = snap_names_of(ap, path, NULL, false, &names);
	if (err == 0 && names.count > 0) {
		err = snap_destroy_named(ap, &names, &bad);
	}
	snap_names_free(&names);
	return err != 0 ? err : fs_ds_destroy(ap->fp, path);
}

/*
 * Really. The deepest first; what has a clone among those that remain has to wait for that, so it
 * takes as many rounds as there are such.
 */
int
trash_purge(struct adm_pool *ap, const char *path)
{
	struct paths all = {0};
	uint32_t before = 0;
	int err = pool_ds_each(ap->pool, path, true, paths_add, &all);
	while (err == 0 && all.count > 0 && all.count != before) {
		before = all.count;
		for (uint32_t i = all.count; err == 0 && i-- > 0;) {
			err = purge_one(ap, all.v[i]);
			if (err == 0) {
				all.count--;
				memmove(
				    &all.v[i], &all.v[i + 1], (all.count - i) * sizeof(all.v[0]));
			} else if (err == -EBUSY) {
				err = 0;
			}
		}
	}
	err = err == 0 && all.count > 0 ? -EBUSY : err;
	mem_free(all.v);
	return err;
}

struct keeper {
	struct adm_pool *ap;
	const char *top, *path;
	char name[2 * DATASET_NAME_MAX + 2], by[DATASET_NAME_MAX + 1];
	bool hold;
};

static int
keeper_clone(void *arg, const char *path)
{
	struct keeper *k = arg;
	size_t len = strlen(k->top);
	if (strncmp(path, k->top, len) == 0 && (path[len] == '\0' || path[len] == '/')) {
		return 0; /* goes with it */
	}
	(void)snprintf(k->by, sizeof(k->by), "%s", path);
	return 1;
}

static int
keeper_snap(void *arg, const struct pool_snap_info *s)
{
	struct keeper *k = arg;
	(void)snprintf(k->name, sizeof(k->name), "%s@%s", k->path, s->name);
	k->hold = s->holds > 0;
	return k->hold          ? 1
	       : s->clones == 0 ? 0
				: pool_snap_clones_each(k->ap->pool, k->name, keeper_clone, k);
}

static int
keeper_ds(void *arg, struct pool_ds *ds)
{
	struct keeper *k = arg;
	struct pool_ds_info info;
	pool_ds_get_info(ds, &info);
	k->path = info.path;
	int found = pool_snap_each(k->ap->pool, info.path, 0, keeper_snap, k);
	k->path = NULL;
	return found;
}

int
trash_check(struct adm_pool *ap, const char *path, struct adm_error *e)
{
	struct keeper k = {.ap = ap, .top = path};
	int found = pool_ds_each(ap->pool, path, true, keeper_ds, &k);
	if (found <= 0) {
		return found;
	}
	if (k.hold) {
		adm_fail_next(e, "fs holds %.250s", k.name);
		return adm_fail(e, EBUSY, "its snapshot '%.250s' is held", k.name);
	}
	adm_fail_next(e, "fs promote %.250s, or destroy it first.", k.by);
	return adm_fail(e, EBUSY, "its snapshot '%.200s' has a clone: '%.200s'", k.name, k.by);
}

/* ---- destroying ---- */

static int
mark(struct adm_pool *ap, const char *path)
{
	char time[24];
	struct pool_ds *ds;
	int err = pool_ds_open(ap->pool, path, &ds);
	if (err != 0) {
		return err;
	}
	(void)snprintf(time, sizeof(time), "%lld", (long long)now_s());
	err = pool_ds_prop_set(ds, PROP_FROM, path);
	if (err == 0) {
		err = pool_ds_prop_set(ds, PROP_TIME, time);
	}
	pool_ds_close(ds);
	return err;
}

/* What may be purged for space keeps none for itself: reservations are remembered until it is had
 * back. Only when it is there: what ends between the two must not take them from a filesystem that
 * is still in use. */
static int
reservation_drop(void *arg, struct pool_ds *ds)
{
	struct pool_limits l;
	char text[48];
	(void)arg;
	pool_ds_get_limits(ds, &l);
	if ((l.reservation | l.refreservation) == 0) {
		return 0;
	}
	(void)snprintf(text, sizeof(text), "%llu %llu", (unsigned long long)l.reservation,
	    (unsigned long long)l.refreservation);
	int err = pool_ds_prop_set(ds, PROP_RESERVED, text);
	l.reservation = l.refreservation = 0;
	err = err != 0 ? err : pool_ds_set_limits(ds, &l);
	if (err != 0) {
		log_warn("reservation-kept ds=%016llx error=%s",
		    (unsigned long long)pool_ds_guid(ds), err_str(err));
	}
	return 0;
}

static int
reservation_back(void *arg, struct pool_ds *ds)
{
	struct pool_limits l;
	char text[48], *end;
	(void)arg;
	if (pool_ds_prop_get(ds, PROP_RESERVED, text, sizeof(text)) != 0) {
		return 0;
	}
	pool_ds_get_limits(ds, &l);
	l.reservation = strtoull(text, &end, 10);
	l.refreservation = strtoull(end, NULL, 10);
	int err = pool_ds_set_limits(ds, &l);
	if (err == 0) {
		err = pool_ds_prop_set(ds, PROP_RESERVED, NULL);
	}
	if (err != 0) {
		log_warn("reservation-not-restored ds=%016llx error=%s",
		    (unsigned long long)pool_ds_guid(ds), err_str(err));
	}
	return 0;
}

static int
put_away(struct adm_pool *ap, const char *path)
{
	char dir[POOL_NAME_MAX + sizeof(TRASH_DIR) + 2], to[DATASET_NAME_MAX + 1], why[160];
	const char *last = strrchr(path, '/') + 1;
	(void)snprintf(dir, sizeof(dir), "%s/%s", pool_name(ap->pool), TRASH_DIR);
	int err = fs_ds_create(ap->fp, dir, NULL, 0, why, sizeof(why));
	if (err != 0 && err != -EEXIST) {
		return err;
	}
	err = mark(ap, path);
	for (unsigned i = 0; err == 0 && i < 1000; i++) {
		(void)snprintf(
		    to, sizeof(to), "%s/%lld-%u-%.100s", dir, (long long)now_s(), i, last);
		err = fs_ds_rename(ap->fp, path, to);
		if (err == 0) {
			sched_follow(ap, path, to); /* asleep there */
			err = pool_ds_each(ap->pool, to, true, reservation_drop, NULL);
			if (err != 0) {
				log_warn("reservations-kept path=%s error=%s", to, err_str(err));
			}
			return 0;
		}
		if (err != -EEXIST) {
			return err;
		}
		err = 0;
	}
	return err == 0 ? -EEXIST : err;
}

int
trash_destroy(struct adm_pool *ap, const char *path, bool *out_kept, struct adm_error *e)
{
	int err = trash_check(ap, path, e);
	*out_kept = trash_keeps_s(ap) > 0 && !trash_is_inside(path);
	if (err == 0) {
		err = *out_kept ? put_away(ap, path) : trash_purge(ap, path);
		/* paths too long for the other place, a full pool: then there is no way back */
		if (*out_kept && (err == -EINVAL || err == -ENAMETOOLONG || err == -ENOSPC)) {
			*out_kept = false;
			err = trash_purge(ap, path);
		}
	}
	return err;
}

/* ---- what is there ---- */

struct trash_item {
	char path[DATASET_NAME_MAX + 1], from[DATASET_NAME_MAX + 1];
	int64_t time;
	uint64_t used, guid;
};

struct trash_list {
	struct trash_item *v;
	uint32_t count;
	size_t depth; /* slashes of an item's path */
};

static int
trash_add(void *arg, struct pool_ds *ds)
{
	struct trash_list *l = arg;
	struct pool_ds_info info;
	char time[24] = "0";
	size_t depth = 0;
	pool_ds_get_info(ds, &info);
	for (const char *c = info.path; *c != '\0'; c++) {
		depth += *c == '/';
	}
	if (depth != 2) {
		return 0; /* the place itself, or below an item */
	}
	struct trash_item *v = mem_realloc(l->v, (l->count + 1) * sizeof(*v));
	if (v == NULL) {
		return -ENOMEM;
	}
	l->v = v;
	struct trash_item *it = &v[l->count++];
	*it = (struct trash_item){.used = info.used_bytes, .guid = info.guid};
	memcpy(it->path, info.path, sizeof(it->path));
	if (pool_ds_prop_get(ds, PROP_FROM, it->from, sizeof(it->from)) != 0) {
		(void)snprintf(it->from, sizeof(it->from), "?");
	}
	if (pool_ds_prop_get(ds, PROP_TIME, time, sizeof(time)) == 0) {
		it->time = strtoll(time, NULL, 10);
	}
	return 0;
}

/* Free v. None when nothing was ever destroyed. */
static int
trash_gather(struct adm_pool *ap, struct trash_list *out)
{
	char dir[POOL_NAME_MAX + sizeof(TRASH_DIR) + 2];
	(void)snprintf(dir, sizeof(dir), "%s/%s", pool_name(ap->pool), TRASH_DIR);
	*out = (struct trash_list){0};
	int err = pool_ds_each(ap->pool, dir, true, trash_add, out);
	return err == -ENOENT ? 0 : err;
}

int
trash_json(struct adm_pool *ap, json_t *rows)
{
	struct trash_list l;
	int err = trash_gather(ap, &l);
	int64_t keeps = trash_keeps_s(ap);
	for (uint32_t i = 0; err == 0 && i < l.count; i++) {
		const struct trash_item *it = &l.v[i];
		json_array_append_new(
		    rows, json_pack("{s:s, s:s, s:s, s:I, s:I, s:I, s:I}", "name", it->from, "type",
			      "destroyed", "path", it->path, "used", (json_int_t)it->used,
			      "destroyed", (json_int_t)it->time, "until",
			      (json_int_t)(it->time + keeps), "guid", (json_int_t)it->guid));
	}
	mem_free(l.v);
	return err == 0 ? trash_snaps_json(ap, rows) : err;
}

int
trash_used(struct adm_pool *ap, uint64_t *out)
{
	struct snap_names names = {0};
	struct trash_list l = {0};
	uint64_t bytes = 0;
	int err = pool_is_suspended(ap->pool) || pool_is_readonly(ap->pool)
		      ? -EROFS
		      : snap_names_hidden(ap, POOL_SNAP_DESTROYED, &names);
	for (uint32_t i = names.count; i-- > 0;) {
		if (trash_is_inside(names.v[i])) { /* of a destroyed filesystem: goes with it */
			mem_free(names.v[i]);
			names.v[i] = names.v[--names.count];
		}
	}
	if (err == 0 && names.count > 0) {
		err =
		    pool_snap_reclaim(ap->pool, (const char *const *)names.v, names.count, &bytes);
	}
	snap_names_free(&names);
	err = err != 0 ? err : trash_gather(ap, &l);
	for (uint32_t i = 0; err == 0 && i < l.count; i++) {
		bytes += l.v[i].used;
	}
	mem_free(l.v);
	if (err == 0) {
		*out = bytes;
	}
	return err;
}

/* What was a filesystem of that name, the last one if there were several. NULL: none. */
static const struct trash_item *
item_find(const struct trash_list *l, const char *name)
{
	const struct trash_item *it = NULL;
	for (uint32_t i = 0; i < l->count; i++) {
		bool is = strcmp(l->v[i].from, name) == 0 || strcmp(l->v[i].path, name) == 0;
		it = is && (it == NULL || l->v[i].time >= it->time) ? &l->v[i] : it;
	}
	return it;
}

static int
take_back(struct adm_pool *ap, const struct trash_item *it, const char *name, const char *to,
    struct adm_error *e)
{
	int err = trash_is_inside(to) ? -EINVAL : fs_ds_rename(ap->fp, it->path, to);
	if (err != 0) {
		adm_fail_next(e, "fs undestroy %.120s ANOTHER-PATH", name);
		return adm_fail(e, err, "it can't be '%.200s' again: %s", to,
		    err == -EEXIST   ? "there is one already"
		    : err == -ENOENT ? "the filesystem above it doesn't exist"
		    : err == -EINVAL ? "not a valid name"
				     : err_str(err));
	}
	sched_follow(ap, it->path, to);
	return pool_ds_each(ap->pool, to, true, reservation_back, NULL);
}

/* What comes back, for people and programs. */
static json_t *
item_json(struct adm_pool *ap, const struct trash_item *it, const char *to)
{
	struct paths all = {0};
	json_t *names = json_array();
	if (pool_ds_each(ap->pool, it->path, true, paths_add, &all) == 0) {
		for (uint32_t i = 0; i < all.count; i++) {
			char name[2 * DATASET_NAME_MAX + 2];
			(void)snprintf(name, sizeof(name), "%s%s", to, all.v[i] + strlen(it->path));
			json_array_append_new(names, adm_text(name));
		}
	}
	mem_free(all.v);
	return json_pack("{s:s, s:I, s:o, s:i}", "name", to, "used", (json_int_t)it->used,
	    "filesystems", names, "schedules", (int)sched_count(ap, it->path));
}

int
trash_cmd_undestroy(struct adm *a, json_t *args, json_t **out, struct adm_error *e)
{
	const char *name = adm_arg_string(args, "name", e);
	struct adm_pool *ap = name != NULL ? adm_pool_of(a, name, e) : NULL;
	const char *to = json_string_value(json_object_get(args, "to"));
	struct trash_list l;
	if (ap == NULL) {
		return -e->code;
	}
	if (strchr(name, '@') != NULL) {
		return trash_snaps_undestroy(ap, args, out, e);
	}
	int err = trash_gather(ap, &l);
	const struct trash_item *it = err == 0 ? item_find(&l, name) : NULL;
	if (err == 0 && it == NULL) {
		adm_fail_next(e, "'fs list -t destroyed' shows what can be had back.");
		err = adm_fail(e, ENOENT, "no destroyed filesystem was '%.200s'", name);
	} else if (err == 0) {
		to = to != NULL ? to : it->from;
		*out = item_json(ap, it, to);
		err = adm_arg_flag(args, "dry_run") ? 0 : take_back(ap, it, name, to, e);
	}
	mem_free(l.v);
	return err == 0 ? shares_publish(a, e) : err;
}

/* ---- by itself ---- */

static bool
space_is_low(struct adm_pool *ap)
{
	struct pool_status st;
	if (pool_get_status(ap->pool, &st) != 0) {
		return false;
	}
	bool low = st.usable_free_bytes < st.usable_bytes / LOW_SPACE_PART;
	pool_status_free(&st);
	return low;
}

static void
item_purge(struct adm_pool *ap, const struct trash_item *it)
{
	int err = trash_purge(ap, it->path);
	if (err == 0) {
		sched_follow(ap, it->path, NULL);
		diary_add(ap, DIARY_HISTORY, "agated", "fs destroy", it->from);
		log_notice("destroyed-for-good pool=%s path=%s", pool_name(ap->pool), it->from);
	} else if (err != -EBUSY) {
		log_warn("not-destroyed-for-good path=%s error=%s", it->path, err_str(err));
	}
}

void
trash_look(struct adm_pool *ap)
{
	struct trash_list l;
	const struct trash_item *oldest = NULL;
	if (pool_is_readonly(ap->pool) || pool_is_suspended(ap->pool) ||
	    trash_gather(ap, &l) != 0) {
		return;
	}
	for (uint32_t i = 0; i < l.count; i++) {
		oldest = oldest == NULL || l.v[i].time < oldest->time ? &l.v[i] : oldest;
	}
	bool low = space_is_low(ap);
	/* a filesystem's own quota isn't helped by what goes elsewhere */
	int64_t time = oldest != NULL && low ? oldest->time : INT64_MAX;
	int64_t snaps = trash_snaps_look(ap, low, time);
	if (oldest != NULL &&
	    (now_s() >= oldest->time + trash_keeps_s(ap) || (low && time < snaps))) {
		item_purge(ap, oldest);
	}
	mem_free(l.v);
}
