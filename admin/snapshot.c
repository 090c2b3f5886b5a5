/*
 * snapshot.c - fs snapshot, rename, hold, release, holds, rollback, clone, promote; and the part of
 * fs destroy that is about snapshots.
 */
#include <stdio.h>
#include "admin/snap_names.h"

/* What a failed call of pool/ means for these names. */
static int
snap_failed(const char *what, const char *name, int err, struct adm_error *e)
{
	switch (-err) {
	case EEXIST:
		return adm_fail(e, err, "a snapshot '%.200s' exists", name);
	case ENOENT:
		adm_fail_next(e, "'fs list -t snapshot' shows the snapshots.");
		return adm_fail(e, err, "there is no snapshot '%.200s'", name);
	case EINVAL:
		if (strchr(name, '@') == NULL && strcmp(what, "renamed") != 0) {
			adm_fail_next(e, "A snapshot is named FILESYSTEM@NAME: tank/home@monday");
			return adm_fail(e, err, "'%.200s' is no name of a snapshot", name);
		}
		adm_fail_next(e, "Letters, digits, and any of _-.: make a name.");
		return adm_fail(e, err, "'%.200s' is no name of a snapshot", name);
	case ENOSPC:
		return adm_fail(e, err, "'%.200s' was not %s: the pool is full", name, what);
	case ERR_FEATURE:
		adm_fail_next(e, "pool upgrade %.*s",
		    (int)MIN(strcspn(name, "/@"), (size_t)POOL_NAME_MAX), name);
		return adm_fail(e, err, "the pool was made before snapshots existed");
	default:
		return adm_fail(e, err, "'%.200s' was not %s: %s", name, what, err_str(err));
	}
}

static const char *
bad_name(const struct snap_names *n, uint32_t bad)
{
	return n->count == 0 ? "" : n->v[MIN(bad, n->count - 1)];
}

static int
snap_cmd_create(struct adm *a, json_t *args, json_t **out, struct adm_error *e)
{
	const char *name = adm_arg_string(args, "name", e);
	struct adm_pool *ap = name != NULL ? adm_pool_of(a, name, e) : NULL;
	struct snap_names names = {0};
	uint32_t bad = 0;
	adm_fail_untouched(e, "Nothing was created.");
	if (ap == NULL) {
		return -e->code;
	}
	int err = snap_names_each_below(ap, name, adm_arg_flag(args, "recursive"), &names, e);
	if (err == 0) {
		err = fs_snap_create(ap->fp, (const char *const *)names.v, names.count, &bad);
		if (err != 0) {
			err = snap_failed("taken", bad_name(&names, bad), err, e);
		}
	}
	if (err == 0) {
		*out = json_pack("{s:o}", "snapshots", snap_names_json(&names));
	}
	snap_names_free(&names);
	return err;
}

/* ---- destroying ---- */

struct first_text {
	char text[DATASET_NAME_MAX + 1];
};

static int
take_clone(void *arg, const char *path)
{
	struct first_text *f = arg;
	(void)snprintf(f->text, sizeof(f->text), "%s", path);
	return 1;
}

static int
take_tag(void *arg, const char *tag, uint64_t time)
{
	(void)time;
	return take_clone(arg, tag);
}

int
snap_busy(struct adm_pool *ap, const char *name, struct adm_error *e)
{
	struct first_text f = {{0}};
	if (pool_snap_holds_each(ap->pool, name, take_tag, &f) > 0) {
		adm_fail_next(e, "fs release '%.60s' %.200s", f.text, name);
		return adm_fail(e, EBUSY, "'%.200s' is held by '%.60s'", name, f.text);
	}
	if (pool_snap_clones_each(ap->pool, name, take_clone, &f) > 0 && trash_is_inside(f.text)) {
		adm_fail_next(e, "fs destroy --yes '%.200s'   destroys it for good.", f.text);
		return adm_fail(e, EBUSY,
		    "'%.100s' has a clone that was destroyed, but can be had back: '%.200s'", name,
		    f.text);
	}
	if (f.text[0] != '\0') {
		adm_fail_next(e, "fs promote %.200s, or destroy it first.", f.text);
		return adm_fail(e, EBUSY, "'%.100s' has a clone: '%.200s'", name, f.text);
	}
	return adm_fail(e, EBUSY, "'%.200s' is in use", name);
}

int
snap_destroy_named(struct adm_pool *ap, const struct snap_names *names, struct adm_error *e)
{
	uint32_t bad = 0;
	int err = fs_snap_destroy(ap->fp, (const char *const *)names->v, names->count, &bad);
	if (err == -EBUSY) {
		return snap_busy(ap, bad_name(names, bad), e);
	}
	return err != 0 ? snap_failed("destroyed", bad_name(names, bad), err, e) : 0;
}

/* The ones that are meant, all of which could be destroyed. A hidden one is named whole. */
static int
destroy_names(struct adm_pool *ap, const char *spec, bool recursive, struct snap_names *out,
    struct adm_error *e)
{
	struct pool_snap_info info;
	int err = 0;
	if (snap_name_is_hidden(spec)) {
		snap_names_add_text(out, spec);
	} else {
		err = snap_names_expand(ap, spec, recursive, out, e);
	}
	for (uint32_t i = 0; err == 0 && i < out->count; i++) {
		err = pool_snap_get(ap->pool, out->v[i], 0, &info);
		if (err != 0) {
			err = snap_failed("destroyed", out->v[i], err, e);
		} else if (info.holds > 0 || info.clones > 0) {
			err = snap_busy(ap, out->v[i], e);
		}
	}
	return err;
}

int
snap_cmd_destroy(struct adm_pool *ap, json_t *args, json_t **out, struct adm_error *e)
{
	const char *spec = json_string_value(json_object_get(args, "name"));
	bool recursive = adm_arg_flag(args, "recursive"), kept = false;
	struct snap_names names = {0};
	uint64_t bytes = 0;
	char path[DATASET_NAME_MAX + 1];
	(void)snprintf(path, sizeof(path), "%.*s", (int)strcspn(spec, "@"), spec);
	int err = destroy_names(ap, spec, recursive, &names, e);
	if (err == 0) {
		err = fs_check_protected(ap, path, recursive, e);
	}
	if (err == 0) {
		err =
		    pool_snap_reclaim(ap->pool, (const char *const *)names.v, names.count, &bytes);
		if (err != 0) {
			err = snap_failed("looked at", bad_name(&names, 0), err, e);
		}
	}
	if (err == 0 && !adm_arg_flag(args, "dry_run")) {
		err = trash_snaps_destroy(ap, &names, &kept, e);
	}
	if (err == 0) {
		*out = json_pack("{s:o, s:I, s:I}", "snapshots", snap_names_json(&names), "reclaim",
		    (json_int_t)bytes, "undo_s",
		    kept ? (json_int_t)trash_keeps_s(ap) : (json_int_t)0);
	}
	snap_names_free(&names);
	return err;
}

/* ---- names and holds ---- */

int
snap_cmd_rename(struct adm_pool *ap, const char *name, const char *to, struct adm_error *e)
{
	char path[DATASET_NAME_MAX + 1], to_path[DATASET_NAME_MAX + 1];
	const char *snap, *to_snap = to;
	if (!snap_name_split(name, path, &snap)) {
		return snap_failed("renamed", name, -EINVAL, e);
	}
	if (to[0] == '@') {
		to_snap = to + 1;
	} else if (strchr(to, '@') != NULL &&
		   (!snap_name_split(to, to_path, &to_snap) || strcmp(path, to_path) != 0)) {
		return adm_fail(e, EXDEV, "a snapshot stays one of '%.200s'", path);
	}
	if (pool_snap_is_hidden(to_snap) || strchr(to_snap, '@') != NULL) {
		return snap_failed("renamed", to, -EINVAL, e);
	}
	int err = fs_snap_rename(ap->fp, name, to_snap);
	return err == 0
		   ? 0
		   : snap_failed("renamed", err == -EEXIST || err == -EINVAL ? to : name, err, e);
}

/* The snapshots of the request's "names". */
static int
snap_arg_names(struct adm *a, json_t *args, const char **out_name, struct adm_pool **out_ap,
    struct adm_error *e)
{
	char path[DATASET_NAME_MAX + 1];
	const char *snap, *name = adm_arg_string(args, "name", e);
	if (name == NULL) {
		return -e->code;
	}
	if (!snap_name_split(name, path, &snap)) {
		return snap_failed("found", name, -EINVAL, e);
	}
	*out_ap = adm_pool_of(a, path, e);
	*out_name = name;
	return *out_ap != NULL ? 0 : -e->code;
}

static int
snap_cmd_hold(struct adm *a, json_t *args, json_t **out, struct adm_error *e)
{
	const char *name, *tag = adm_arg_string(args, "tag", e);
	struct adm_pool *ap;
	(void)out;
	int err = tag != NULL ? snap_arg_names(a, args, &name, &ap, e) : -e->code;
	if (err != 0) {
		return err;
	}
	if (strlen(tag) > 63) {
		return adm_fail(e, EINVAL, "a tag has at most 63 bytes");
	}
	err = pool_snap_hold(ap->pool, name, tag);
	if (err == -EEXIST) {
		return adm_fail(e, err, "'%.200s' is held by '%.63s' already", name, tag);
	}
	return err != 0 ? snap_failed("held", name, err, e) : 0;
}

static int
snap_cmd_release(struct adm *a, json_t *args, json_t **out, struct adm_error *e)
{
	const char *name, *tag = adm_arg_string(args, "tag", e);
	struct adm_pool *ap;
	struct pool_snap_info info;
	(void)out;
	int err = tag != NULL ? snap_arg_names(a, args, &name, &ap, e) : -e->code;
	if (err != 0) {
		return err;
	}
	err = pool_snap_get(ap->pool, name, 0, &info);
	if (err == 0) {
		err = pool_snap_release(ap->pool, name, tag);
		if (err == -ENOENT) {
			adm_fail_next(e, "fs holds %.200s", name);
			return adm_fail(e, err, "'%.200s' isn't held by '%.63s'", name, tag);
		}
	}
	return err != 0 ? snap_failed("released", name, err, e) : 0;
}

struct hold_list {
	json_t *rows;
	const char *name;
};

static int
hold_add(void *arg, const char *tag, uint64_t time)
{
	struct hold_list *l = arg;
	json_array_append_new(l->rows, json_pack("{s:o, s:o, s:I}", "name", adm_text(l->name),
					   "tag", adm_text(tag), "time", (json_int_t)time));
	return 0;
}

static int
snap_cmd_holds(struct adm *a, json_t *args, json_t **out, struct adm_error *e)
{
	struct hold_list l = {0};
	struct adm_pool *ap;
	int err = snap_arg_names(a, args, &l.name, &ap, e);
	if (err != 0) {
		return err;
	}
	l.rows = json_array();
	err = pool_snap_holds_each(ap->pool, l.name, hold_add, &l);
	if (err != 0) {
		json_decref(l.rows);
		return snap_failed("looked at", l.name, err, e);
	}
	*out = l.rows;
	return 0;
}

/* ---- going back ---- */

/* Those of name's dataset that are newer than it. */
static int
snap_newer(struct adm_pool *ap, const char *name, struct snap_names *out, struct adm_error *e)
{
	char path[DATASET_NAME_MAX + 1], spec[2 * DATASET_NAME_MAX + 4];
	const char *snap;
	if (!snap_name_split(name, path, &snap)) {
		return snap_failed("found", name, -EINVAL, e);
	}
	(void)snprintf(spec, sizeof(spec), "%s%%", name);
	int err = snap_names_expand(ap, spec, false, out, e);
	if (err == 0) {
		mem_free(out->v[0]); /* itself */
		memmove(&out->v[0], &out->v[1], (out->count - 1) * sizeof(out->v[0]));
		out->count--;
	}
	return err;
}

/* Newer ones that were destroyed and could be had back: they are in the way, too. */
static int
snap_newer_hidden(
    struct adm_pool *ap, const char *name, struct snap_names *out, struct adm_error *e)
{
	char path[DATASET_NAME_MAX + 1];
	(void)snprintf(path, sizeof(path), "%.*s", (int)strcspn(name, "@"), name);
	int err = snap_names_of(ap, path, name, true, out);
	return err != 0 ? snap_failed("gone back to", name, err, e) : 0;
}

static int
rollback_failed(const char *name, const char *keep, int err, struct adm_error *e)
{
	if (keep != NULL && (err == -EEXIST || err == -EINVAL)) {
		return adm_fail(e, err, "what is there now can't be kept as '%.200s': %s", keep,
		    err == -EEXIST ? "there is one already" : "not a valid name");
	}
	return snap_failed("gone back to", name, err, e);
}

static int
snap_cmd_rollback(struct adm *a, json_t *args, json_t **out, struct adm_error *e)
{
	const char *name, *keep = json_string_value(json_object_get(args, "keep_as"));
	struct adm_pool *ap;
	struct snap_names newer = {0}, hidden = {0};
	int err = snap_arg_names(a, args, &name, &ap, e);
	adm_fail_untouched(e, "Nothing was rolled back.");
	if (err == 0) {
		err = snap_newer(ap, name, &newer, e);
	}
	if (err == 0 && (keep == NULL || newer.count > 0)) {
		char path[DATASET_NAME_MAX + 1];
		(void)snprintf(path, sizeof(path), "%.*s", (int)strcspn(name, "@"), name);
		err = fs_check_protected(ap, path, false, e);
	}
	if (err == 0 && newer.count > 0 && !adm_arg_flag(args, "recursive")) {
		adm_fail_next(e, "fs rollback -r %.200s   destroys those first.", name);
		err = adm_fail(e, EBUSY, "there %s %u newer snapshot%s, the next is '%.200s'",
		    newer.count == 1 ? "is" : "are", newer.count, newer.count == 1 ? "" : "s",
		    newer.v[0]);
	}
	if (err == 0) {
		err = snap_newer_hidden(ap, name, &hidden, e);
	}
	if (err == 0 && !adm_arg_flag(args, "dry_run")) {
		err = newer.count > 0 ? snap_destroy_named(ap, &newer, e) : 0;
		if (err == 0 && hidden.count > 0) {
			err = snap_destroy_named(ap, &hidden, e);
		}
		if (err == 0) {
			if (newer.count > 0) {
				adm_fail_untouched(
				    e, "Newer snapshots were destroyed; the files are untouched.");
			}
			err = fs_ds_rollback(ap->fp, name, keep);
			int again = nfsd_refresh(a->nfsd);
			err = err != 0     ? rollback_failed(name, keep, err, e)
			      : again != 0 ? adm_fail(e, again,
						 "rolled back, but the shares weren't told: %s",
						 err_str(again))
					   : 0;
		}
	}
	if (err == 0) {
		*out = json_pack("{s:o, s:i}", "snapshots", snap_names_json(&newer), "forgotten",
		    (int)hidden.count);
	}
	snap_names_free(&newer);
	snap_names_free(&hidden);
	return err;
}

/* ---- clones ---- */

#define PROPS_MAX 16u

static int
snap_cmd_clone(struct adm *a, json_t *args, json_t **out, struct adm_error *e)
{
	const char *name, *to = adm_arg_string(args, "to", e), *props[PROPS_MAX];
	struct adm_pool *ap;
	uint32_t count = 0;
	size_t i;
	json_t *prop;
	char why[256] = "";
	(void)out;
	int err = to != NULL ? snap_arg_names(a, args, &name, &ap, e) : -e->code;
	adm_fail_untouched(e, "Nothing was created.");
	if (err != 0) {
		return err;
	}
	if (adm_pool_of(a, to, e) != ap) {
		return e->code != 0 ? -e->code
				    : adm_fail(e, EXDEV, "a clone is in the pool of its snapshot");
	}
	if (trash_is_inside(to)) {
		return adm_fail(e, EINVAL, "'%.100s' is where destroyed filesystems are", to);
	}
	json_array_foreach(json_object_get(args, "props"), i, prop)
	{
		if (count == PROPS_MAX || !json_is_string(prop)) {
			return adm_fail(e, EINVAL, "a property is given as name=value");
		}
		props[count++] = json_string_value(prop);
	}
	struct pool_snap_info info;
	err = pool_snap_get(ap->pool, name, 0, &info);
	if (err != 0) {
		return snap_failed("cloned", name, err, e);
	}
	err = fs_ds_clone(ap->fp, name, to, props, count, why, sizeof(why));
	if (err != 0) {
		return adm_fail(e, err, "'%.200s' was not created: %s", to,
		    why[0] != '\0'   ? why
		    : err == -EEXIST ? "there is one already"
		    : err == -ENOENT ? "the filesystem above it doesn't exist"
		    : err == -EINVAL ? "not a valid name"
				     : err_str(err));
	}
	return shares_publish(a, e);
}

static int
snap_cmd_promote(struct adm *a, json_t *args, json_t **out, struct adm_error *e)
{
	const char *name = adm_arg_string(args, "name", e);
	struct adm_pool *ap = name != NULL ? adm_pool_of(a, name, e) : NULL;
	char why[256] = "";
	(void)out;
	if (ap == NULL) {
		return -e->code;
	}
	int err = fs_ds_promote(ap->fp, name, why, sizeof(why));
	if (err == -ENOENT) {
		adm_fail_next(e, "'fs list' shows the filesystems.");
		return adm_fail(e, err, "there is no filesystem '%.200s'", name);
	}
	return err != 0 ? adm_fail(e, err, "'%.200s' was not promoted: %s", name,
			      why[0] != '\0'   ? why
			      : err == -EINVAL ? "it isn't a clone"
					       : err_str(err))
			: 0;
}

static int
snap_cmd_upgrade(struct adm *a, json_t *args, json_t **out, struct adm_error *e)
{
	const char *name = adm_arg_string(args, "name", e);
	struct adm_pool *ap = name != NULL ? adm_find_pool(a, name, strlen(name)) : NULL;
	uint64_t enabled = 0;
	if (name != NULL && ap == NULL) {
		adm_fail_next(e, "'pool list' shows the pools in service.");
		return adm_fail(e, ENOENT, "there is no pool '%.63s' in service", name);
	}
	if (ap == NULL) {
		return -e->code;
	}
	int err = pool_upgrade(ap->pool, &enabled);
	if (err != 0) {
		return adm_fail(e, err, "'%.63s' was not upgraded: %s", name, err_str(err));
	}
	*out = json_pack("{s:I, s:I}", "enabled", (json_int_t)enabled, "features",
	    (json_int_t)pool_features(ap->pool));
	return 0;
}

const struct adm_command adm_snap_commands[] = {
    {"fs snapshot", snap_cmd_create, ADM_CHANGE},
    {"fs hold", snap_cmd_hold, ADM_CHANGE},
    {"fs release", snap_cmd_release, ADM_CHANGE},
    {"fs holds", snap_cmd_holds, ADM_LOOK},
    {"fs rollback", snap_cmd_rollback, ADM_CHANGE},
    {"fs clone", snap_cmd_clone, ADM_CHANGE},
    {"fs promote", snap_cmd_promote, ADM_CHANGE},
    {"pool upgrade", snap_cmd_upgrade, ADM_CHANGE},
    {NULL, NULL, ADM_LOOK},
};
