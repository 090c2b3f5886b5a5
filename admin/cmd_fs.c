/* cmd_fs.c - fs create, destroy, rename, get, set. */
#include <stdio.h>
#include "admin/snap_names.h"

#define PROPS_MAX 32u

static int
fs_cmd_create(struct adm *a, json_t *args, json_t **out, struct adm_error *e)
{
	const char *name = adm_arg_string(args, "name", e);
	struct adm_pool *ap = name != NULL ? adm_pool_of(a, name, e) : NULL;
	const char *props[PROPS_MAX];
	uint32_t count = 0;
	size_t i;
	json_t *prop;
	char why[256] = "";
	(void)out;
	adm_fail_untouched(e, "Nothing was created.");
	if (ap == NULL) {
		return -e->code;
	}
	json_array_foreach(json_object_get(args, "props"), i, prop)
	{
		if (count == PROPS_MAX || !json_is_string(prop)) {
			return adm_fail(e, EINVAL, "a property is given as name=value");
		}
		props[count++] = json_string_value(prop);
	}
	if (trash_is_inside(name)) {
		return adm_fail(e, EINVAL, "'%.100s' is where destroyed filesystems are", name);
	}
	bool is_pool = strchr(name, '/') == NULL;
	int err = is_pool ? -EEXIST : fs_ds_create(ap->fp, name, props, count, why, sizeof(why));
	if (err == -EEXIST) {
		return adm_fail(e, err, "a filesystem '%.100s' exists", name);
	}
	if (err != 0) {
		return adm_fail(e, err, "'%.100s' was not created: %s", name,
		    why[0] != '\0' ? why : err_str(err));
	}
	return shares_publish(a, e);
}

const char *
fs_shared(const struct adm_pool *ap, const char *name, bool below)
{
	size_t i, len = strlen(name);
	json_t *share;
	json_array_foreach(json_object_get(ap->shares, "shares"), i, share)
	{
		const char *ds = json_string_value(json_object_get(share, "dataset"));
		if (ds != NULL && strncmp(ds, name, len) == 0 &&
		    (ds[len] == '\0' || (below && ds[len] == '/'))) {
			return json_string_value(json_object_get(share, "path"));
		}
	}
	return NULL;
}

struct protected
{
	struct adm_pool *ap;
	char name[DATASET_NAME_MAX + 1];
};

static int
protected_find(void *arg, struct pool_ds *ds)
{
	struct protected *p = arg;
	struct pool_ds_info info;
	struct fs_prop prop;
	pool_ds_get_info(ds, &info);
	if (fs_prop_get(p->ap->fp, info.path, "protected", &prop) != 0 || prop.number == 0) {
		return 0;
	}
	memcpy(p->name, info.path, sizeof(p->name));
	return 1;
}

int
fs_check_protected(struct adm_pool *ap, const char *name, bool below, struct adm_error *e)
{
	struct protected p = {.ap = ap};
	if (pool_ds_each(ap->pool, name, below, protected_find, &p) <= 0) {
		return 0;
	}
	adm_fail_next(e, "fs set protected=off %.250s", p.name);
	return adm_fail(e, EPERM, "'%.250s' is protected", p.name);
}

struct below {
	uint32_t count; /* with the one asked for */
	char first[DATASET_NAME_MAX + 1];
};

static int
count_below(void *arg, struct pool_ds *ds)
{
	struct below *b = arg;
	struct pool_ds_info info;
	pool_ds_get_info(ds, &info);
	if (++b->count == 2) {
		memcpy(b->first, info.path, sizeof(b->first));
	}
	return 0;
}

/* What keeps a filesystem from being destroyed, and what to type. */
static int
destroy_in_the_way(
    struct adm_pool *ap, const char *name, bool recursive, uint64_t snapshots, struct adm_error *e)
{
	struct below b = {0};
	int err = pool_ds_each(ap->pool, name, true, count_below, &b);
	if (strchr(name, '/') == NULL) {
		adm_fail_next(e, "pool destroy %.63s   destroys all of it.", name);
		return adm_fail(e, EBUSY, "'%.63s' is the pool's own filesystem", name);
	}
	if (err == 0 && !recursive && (snapshots > 0 || b.count > 1)) {
		char below[DATASET_NAME_MAX + 64] = "";
		adm_fail_next(e, "fs destroy -r %.100s   destroys them with it.", name);
		if (b.count > 1) {
			(void)snprintf(below, sizeof(below), "%s%u filesystems below it ('%s')",
			    snapshots > 0 ? " and " : "", b.count - 1, b.first);
		}
		return snapshots > 0 ? adm_fail(e, EBUSY, "'%.100s' has %llu snapshots%s", name,
					   (unsigned long long)snapshots, below)
				     : adm_fail(e, EBUSY, "'%.100s' has %s", name, below);
	}
	return err != 0 ? err : trash_check(ap, name, e);
}

/* What would go. */
static int
destroy_figures(
    struct adm_pool *ap, const char *name, bool recursive, json_t **out, struct adm_error *e)
{
	struct fs_ds *ds;
	int err = fs_ds_open(ap->fp, name, &ds);
	if (err != 0) {
		adm_fail_next(e, "'fs list' shows the filesystems.");
		return adm_fail(e, err, "there is no filesystem '%.100s'", name);
	}
	struct pool_ds_info info;
	pool_ds_get_info(fs_ds_pool_ds(ds), &info);
	fs_ds_close(ds);
	err = destroy_in_the_way(ap, name, recursive, info.snapshot_count, e);
	if (err != 0) {
		return err;
	}
	*out = json_pack("{s:I, s:I, s:I}", "used", (json_int_t)info.used_bytes, "objects",
	    (json_int_t)info.object_count, "snapshots", (json_int_t)info.snapshot_count);
	return 0;
}

static int
fs_destroy(struct adm_pool *ap, const char *name, json_t *out, struct adm_error *e)
{
	bool kept = false;
	int err = trash_destroy(ap, name, &kept, e);
	if (err != 0) {
		return e->code != 0
			   ? -e->code
			   : adm_fail(e, err, "'%.100s' was not destroyed: %s", name, err_str(err));
	}
	json_object_set_new(out, "undo_s", json_integer(kept ? (json_int_t)trash_keeps_s(ap) : 0));
	if (!kept) {
		sched_follow(ap, name, NULL);
	}
	return 0;
}

static int
fs_cmd_destroy(struct adm *a, json_t *args, json_t **out, struct adm_error *e)
{
	const char *name = adm_arg_string(args, "name", e);
	struct adm_pool *ap = name != NULL ? adm_pool_of(a, name, e) : NULL;
	bool recursive = adm_arg_flag(args, "recursive");
	adm_fail_untouched(e, "Nothing was destroyed.");
	if (ap == NULL) {
		return -e->code;
	}
	if (strchr(name, '@') != NULL) {
		return snap_cmd_destroy(ap, args, out, e);
	}
	const char *share = fs_shared(ap, name, true);
	if (share != NULL) {
		adm_fail_next(e, "share remove %s", share);
		return adm_fail(e, EBUSY, "'%.100s' is shared as %s", name, share);
	}
	int err = destroy_figures(ap, name, recursive, out, e);
	if (err == 0) {
		err = fs_check_protected(ap, name, true, e);
	}
	if (err == 0 && !adm_arg_flag(args, "dry_run")) {
		err = fs_destroy(ap, name, *out, e);
	}
	return err;
}

static const char *
fs_source_name(enum fs_prop_source s)
{
	switch (s) {
	case FS_PROP_DEFAULT:
		return "default";
	case FS_PROP_LOCAL:
		return "local";
	case FS_PROP_INHERITED:
		return "inherited";
	case FS_PROP_READONLY:
		return "-";
	}
	return "-";
}

static json_t *
fs_prop_json(const struct fs_prop *p)
{
	json_t *o = json_pack("{s:s, s:s, s:s}", "name", p->name, "value", p->value, "source",
	    fs_source_name(p->source));
	if (p->is_number) {
		json_object_set_new(o, "number", json_integer((json_int_t)p->number));
	}
	if (p->source == FS_PROP_INHERITED) {
		json_object_set_new(o, "from", json_string(p->inherited_from));
	}
	return o;
}

struct fs_listing {
	struct adm_pool *ap;
	json_t *names;
};

static int
fs_collect(void *arg, struct pool_ds *ds)
{
	struct fs_listing *l = arg;
	struct pool_ds_info info;
	pool_ds_get_info(ds, &info);
	if (!trash_is_inside(info.path)) {
		json_array_append_new(l->names, json_string(info.path));
	}
	return 0;
}

/* The datasets asked for: those named (with what is below, when recursive), or all. */
static int
fs_names(struct adm *a, json_t *args, bool recursive, json_t **out, struct adm_error *e)
{
	const char *name = json_string_value(json_object_get(args, "name"));
	struct fs_listing l = {.names = json_array()};
	int err = 0;
	if (name != NULL) {
		l.ap = adm_pool_of(a, name, e);
		err = l.ap == NULL ? -e->code
				   : pool_ds_each(l.ap->pool, name, recursive, fs_collect, &l);
		if (err == -ENOENT && l.ap != NULL) {
			adm_fail_next(e, "'fs list' shows the filesystems.");
			adm_fail(e, ENOENT, "there is no filesystem '%.100s'", name);
		}
	}
	for (uint32_t i = 0; name == NULL && err == 0 && i < a->pool_count; i++) {
		l.ap = &a->pools[i];
		err = pool_ds_each(l.ap->pool, pool_name(l.ap->pool), true, fs_collect, &l);
	}
	if (err != 0) {
		json_decref(l.names);
		return e->code != 0
			   ? -e->code
			   : adm_fail(e, err, "the filesystems can't be listed: %s", err_str(err));
	}
	*out = l.names;
	return 0;
}

/* Without a type: filesystems. */
static bool
fs_type_has(json_t *args, const char *which)
{
	const char *type = json_string_value(json_object_get(args, "type"));
	return strcmp(type != NULL ? type : "filesystem", which) == 0 ||
	       (type != NULL && strcmp(type, "all") == 0);
}

static int
fs_prop_failed(const char *name, const char *prop, int err, struct adm_error *e)
{
	if (err == -ENOENT || prop == NULL) {
		adm_fail_next(e, "'fs get all %.100s' shows the properties.", name);
		return adm_fail(e, err, "there is no property '%.60s'", prop != NULL ? prop : "");
	}
	return adm_fail(e, err, "%s of '%s' can't be told: %s", prop, name, err_str(err));
}

static int
fs_props_of(struct adm *a, const char *name, json_t *args, json_t **out, struct adm_error *e)
{
	json_t *wanted = json_object_get(args, "props");
	bool mixed = fs_type_has(args, "snapshot");
	struct adm_pool *ap = adm_pool_of(a, name, e);
	if (ap == NULL) {
		return -e->code;
	}
	size_t count = json_array_size(wanted);
	bool all = count == 0;
	json_t *list = json_array();
	for (size_t i = 0; i < (all ? fs_prop_count() : count); i++) {
		struct fs_prop p;
		const char *prop =
		    all ? fs_prop_name((uint32_t)i) : json_string_value(json_array_get(wanted, i));
		int err = prop != NULL ? fs_prop_get(ap->fp, name, prop, &p) : -EINVAL;
		if (err == -ENOENT && mixed && snap_prop_is_known(prop)) {
			json_array_append_new(list, json_pack("{s:s, s:s, s:s}", "name", prop,
							"value", "-", "source", "-"));
			continue;
		}
		if (err != 0) {
			json_decref(list);
			return fs_prop_failed(name, prop, err, e);
		}
		json_array_append_new(list, fs_prop_json(&p));
	}
	*out = list;
	return 0;
}

/* A filesystem and its snapshots, as far as the type asks for them. */
static int
fs_get_one(struct adm *a, const char *name, json_t *args, json_t *list, struct adm_error *e)
{
	bool filesystem = fs_type_has(args, "filesystem");
	json_t *props = NULL;
	if (filesystem) {
		int err = fs_props_of(a, name, args, &props, e);
		if (err != 0) {
			return err;
		}
		json_array_append_new(list, json_pack("{s:s, s:o}", "name", name, "props", props));
	}
	struct adm_pool *ap = fs_type_has(args, "snapshot") ? adm_pool_of(a, name, e) : NULL;
	return ap == NULL
		   ? -e->code
		   : snap_props_of(ap, name, json_object_get(args, "props"), filesystem, list, e);
}

static int
fs_cmd_get(struct adm *a, json_t *args, json_t **out, struct adm_error *e)
{
	json_t *names = NULL, *name;
	size_t i;
	const char *one = json_string_value(json_object_get(args, "name"));
	const char *type = json_string_value(json_object_get(args, "type"));
	if (type != NULL && !fs_type_has(args, "snapshot") && !fs_type_has(args, "filesystem")) {
		return adm_fail(
		    e, EINVAL, "'%.60s' is no type: use filesystem, snapshot or all", type);
	}
	if (one != NULL && strchr(one, '@') != NULL) {
		return snap_cmd_get(a, args, out, e);
	}
	int err = fs_names(a, args, adm_arg_flag(args, "recursive"), &names, e);
	if (err != 0) {
		return err;
	}
	json_t *list = json_array();
	json_array_foreach(names, i, name)
	{
		err = fs_get_one(a, json_string_value(name), args, list, e);
		if (err != 0) {
			break;
		}
	}
	json_decref(names);
	if (err != 0) {
		json_decref(list);
		return err;
	}
	*out = list;
	return 0;
}

static int
fs_cmd_set(struct adm *a, json_t *args, json_t **out, struct adm_error *e)
{
	const char *name = adm_arg_string(args, "name", e);
	const char *prop = name != NULL ? adm_arg_string(args, "prop", e) : NULL;
	struct adm_pool *ap = prop != NULL ? adm_pool_of(a, name, e) : NULL;
	char why[256] = "";
	(void)out;
	adm_fail_untouched(e, "Nothing was changed.");
	if (ap == NULL) {
		return -e->code;
	}
	const char *value =
	    json_string_value(json_object_get(args, "value")); /* absent: inherit again */
	int err = fs_prop_set(ap->fp, name, prop, value, why, sizeof(why));
	return err != 0 ? adm_fail(e, err, "%.60s of '%.100s' was not set: %s", prop, name,
			      why[0] != '\0' ? why : err_str(err))
			: 0;
}

static int
fs_move(struct adm_pool *ap, const char *name, const char *to, struct adm_error *e)
{
	const char *share = fs_shared(ap, name, true);
	if (share != NULL) {
		adm_fail_next(e, "share remove %s", share);
		return adm_fail(e, EBUSY, "'%.100s' is shared as %s", name, share);
	}
	if (trash_is_inside(name) || trash_is_inside(to)) {
		adm_fail_next(e, "fs undestroy brings one back.");
		return adm_fail(e, EINVAL, "that is where destroyed filesystems are");
	}
	int err = fs_ds_rename(ap->fp, name, to);
	if (err == 0) {
		sched_follow(ap, name, to);
	}
	return err == 0
		   ? 0
		   : adm_fail(e, err, "'%.100s' was not renamed to '%.200s': %s", name, to,
			 err == -EEXIST ? "there is one already"
			 : err == -ENOENT
			     ? "one of them, or the filesystem above the new one, doesn't exist"
			 : err == -EINVAL ? "not a valid name"
			 : err == -EBUSY  ? "it is the pool's own, or would be below itself"
					  : err_str(err));
}

static int
fs_cmd_rename(struct adm *a, json_t *args, json_t **out, struct adm_error *e)
{
	const char *name = adm_arg_string(args, "name", e);
	const char *to = name != NULL ? adm_arg_string(args, "to", e) : NULL;
	struct adm_pool *ap = to != NULL ? adm_pool_of(a, name, e) : NULL;
	(void)out;
	adm_fail_untouched(e, "Nothing was renamed.");
	if (ap == NULL) {
		return -e->code;
	}
	if (strchr(name, '@') != NULL) {
		return snap_cmd_rename(ap, name, to, e);
	}
	if (strchr(to, '@') != NULL) {
		return adm_fail(e, EINVAL, "'%.200s' is no name of a filesystem", to);
	}
	if (adm_pool_of(a, to, e) != ap) {
		return e->code != 0 ? -e->code
				    : adm_fail(e, EXDEV, "a filesystem stays in its pool");
	}
	return fs_move(ap, name, to, e);
}

const struct adm_command adm_fs_commands[] = {
    {"fs create", fs_cmd_create, ADM_CHANGE},
    {"fs destroy", fs_cmd_destroy, ADM_CHANGE},
    {"fs rename", fs_cmd_rename, ADM_CHANGE},
    {"fs undestroy", trash_cmd_undestroy, ADM_CHANGE},
    {"fs list", fs_cmd_list, ADM_LOOK},
    {"fs userspace", fs_cmd_userspace, ADM_LOOK},
    {"fs groupspace", fs_cmd_groupspace, ADM_LOOK},
    {"fs get", fs_cmd_get, ADM_LOOK},
    {"fs diff", diff_cmd, ADM_LOOK_PRIVILEGED},
    {"fs set", fs_cmd_set, ADM_CHANGE},
    {NULL, NULL, ADM_LOOK},
};
