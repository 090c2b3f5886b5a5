/* fs_list.c - fs list: filesystems and snapshots with their figures, as rows. What to show of them,
 * and in which order, is the business of who asked. */
#include <stdio.h>
#include "admin/snap_names.h"

struct fs_listing {
	struct adm_pool *ap;
	json_t *rows;
	bool filesystems, snapshots, recursive;
	uint32_t flags;   /* of pool_snap_each */
	const char *path; /* whose snapshots these are */
};

static int
list_snapshot(void *arg, const struct pool_snap_info *s)
{
	struct fs_listing *l = arg;
	char name[2 * DATASET_NAME_MAX + 2];
	(void)snprintf(name, sizeof(name), "%s@%s", l->path, s->name);
	json_t *row = json_pack("{s:s, s:s, s:I, s:I, s:I, s:I, s:i, s:i, s:I}", "name", name,
	    "type", "snapshot", "referenced", (json_int_t)s->referenced_bytes, "written",
	    (json_int_t)s->written_bytes, "logical", (json_int_t)s->logical_bytes, "creation",
	    (json_int_t)s->create_time, "holds", (int)s->holds, "clones", (int)s->clones, "guid",
	    (json_int_t)s->guid);
	if ((l->flags & POOL_SNAP_UNIQUE) != 0) {
		json_object_set_new(row, "used", json_integer((json_int_t)s->unique_bytes));
	}
	return json_array_append_new(l->rows, row) == 0 ? 0 : -ENOMEM;
}

static void
list_filesystem(struct fs_listing *l, const struct pool_ds_info *info)
{
	const char *share = fs_shared(l->ap, info->path, false);
	json_t *row = json_pack("{s:s, s:s, s:I, s:I, s:I, s:I, s:I, s:s}", "name", info->path,
	    "type", "filesystem", "used", (json_int_t)info->used_bytes, "available",
	    (json_int_t)info->available_bytes, "referenced", (json_int_t)info->referenced_bytes,
	    "logical", (json_int_t)info->logical_bytes, "creation", (json_int_t)info->create_time,
	    "share", share != NULL ? share : "");
	json_t *more = json_pack("{s:I, s:I, s:I, s:I, s:I, s:s, s:I}", "own",
	    (json_int_t)info->own_bytes, "written", (json_int_t)info->written_bytes, "snapshots",
	    (json_int_t)info->snapshots_bytes, "children", (json_int_t)info->children_bytes,
	    "snapshot_count", (json_int_t)info->snapshot_count, "origin", info->origin, "guid",
	    (json_int_t)info->guid);
	json_object_update(row, more);
	json_decref(more);
	json_array_append_new(l->rows, row);
}

static int
list_dataset(void *arg, struct pool_ds *ds)
{
	struct fs_listing *l = arg;
	struct pool_ds_info info;
	pool_ds_get_info(ds, &info);
	if (trash_is_inside(info.path)) {
		return 0;
	}
	if (l->filesystems) {
		list_filesystem(l, &info);
	}
	if (!l->snapshots) {
		return 0;
	}
	l->path = info.path;
	int err = pool_snap_each(l->ap->pool, info.path, l->flags, list_snapshot, l);
	l->path = NULL;
	return err == -ENOENT ? 0 : err; /* gone meanwhile */
}

static int
list_named(struct adm *a, struct fs_listing *l, const char *name, struct adm_error *e)
{
	char path[DATASET_NAME_MAX + 1];
	const char *snap;
	if (strchr(name, '@') == NULL) {
		l->ap = adm_pool_of(a, name, e);
		return l->ap == NULL
			   ? -e->code
			   : pool_ds_each(l->ap->pool, name, l->recursive, list_dataset, l);
	}
	if (!snap_name_split(name, path, &snap)) {
		return adm_fail(e, EINVAL, "'%.100s' is no name of a snapshot", name);
	}
	l->ap = adm_pool_of(a, path, e);
	if (l->ap == NULL) {
		return -e->code;
	}
	struct pool_snap_info info;
	int err = pool_snap_get(l->ap->pool, name, l->flags, &info);
	if (err == 0) {
		l->path = path;
		err = list_snapshot(l, &info);
		l->path = NULL;
	}
	return err;
}

/* What is path, one of its snapshots, or below it. */
static json_t *
rows_of(json_t *rows, const char *path)
{
	json_t *some = json_array(), *row;
	size_t i, len = strlen(path);
	json_array_foreach(rows, i, row)
	{
		const char *name = json_string_value(json_object_get(row, "name"));
		if (strncmp(name, path, len) == 0 && strchr("/@", name[len]) != NULL) {
			json_array_append(some, row);
		}
	}
	json_decref(rows);
	return some;
}

static int
list_destroyed(struct adm *a, const char *name, json_t **out, struct adm_error *e)
{
	json_t *rows = json_array();
	for (uint32_t i = 0; i < a->pool_count; i++) {
		int err = trash_json(&a->pools[i], rows);
		if (err != 0) {
			json_decref(rows);
			return adm_fail(
			    e, err, "what was destroyed can't be listed: %s", err_str(err));
		}
	}
	*out = name != NULL ? rows_of(rows, name) : rows;
	return 0;
}

int
fs_cmd_list(struct adm *a, json_t *args, json_t **out, struct adm_error *e)
{
	const char *name = json_string_value(json_object_get(args, "name"));
	const char *type = json_string_value(json_object_get(args, "type"));
	struct fs_listing l = {.recursive = adm_arg_flag(args, "recursive"),
	    .flags = adm_arg_flag(args, "unique") ? POOL_SNAP_UNIQUE : 0};
	type = type != NULL ? type : "filesystem";
	l.filesystems = strcmp(type, "filesystem") == 0 || strcmp(type, "all") == 0;
	l.snapshots = strcmp(type, "snapshot") == 0 || strcmp(type, "all") == 0;
	if (strcmp(type, "destroyed") == 0) {
		return list_destroyed(a, name, out, e);
	}
	if (!l.filesystems && !l.snapshots) {
		return adm_fail(e, EINVAL,
		    "'%.60s' is no type: use filesystem, snapshot, destroyed or all", type);
	}
	l.rows = json_array();
	int err = name != NULL ? list_named(a, &l, name, e) : 0;
	l.recursive = true;
	for (uint32_t i = 0; name == NULL && err == 0 && i < a->pool_count; i++) {
		l.ap = &a->pools[i];
		err = pool_ds_each(l.ap->pool, pool_name(l.ap->pool), true, list_dataset, &l);
	}
	if (err == 0) {
		*out = l.rows;
		return 0;
	}
	json_decref(l.rows);
	if (e->code != 0) {
		return -e->code;
	}
	if (err == -ENOENT && name != NULL) {
		adm_fail_next(e, "'fs list -t all' shows what there is.");
		return adm_fail(e, err, "there is no %s '%.100s'",
		    strchr(name, '@') != NULL ? "snapshot" : "filesystem", name);
	}
	return adm_fail(e, err, "the filesystems can't be listed: %s", err_str(err));
}
