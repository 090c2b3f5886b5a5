/* snap_props.c - fs get of a snapshot: facts, none of which can be set. */
#include <stdio.h>
#include <time.h>
#include "admin/snap_names.h"

#define CLONES_TEXT_MAX 2048u

struct snap_facts {
	struct pool_snap_info info;
	char clones[CLONES_TEXT_MAX]; /* names, with commas between */
};

static int
clone_add(void *arg, const char *path)
{
	struct snap_facts *f = arg;
	size_t len = strlen(f->clones);
	(void)snprintf(f->clones + len, sizeof(f->clones) - len, "%s%s", len > 0 ? "," : "", path);
	return 0;
}

static json_t *
fact_text(const char *name, const char *value)
{
	return json_pack("{s:s, s:o, s:s}", "name", name, "value",
	    adm_text(value[0] != '\0' ? value : "-"), "source", "-");
}

static json_t *
fact_number(const char *name, uint64_t n, const char *value)
{
	json_t *o = fact_text(name, value);
	json_object_set_new(o, "number", json_integer((json_int_t)n));
	return o;
}

static json_t *
fact_count(const char *name, uint64_t n)
{
	char text[32];
	(void)snprintf(text, sizeof(text), "%llu", (unsigned long long)n);
	return fact_number(name, n, text);
}

static json_t *
fact_size(const char *name, uint64_t n)
{
	char text[64];
	fs_prop_size_text(n, text, sizeof(text));
	return fact_number(name, n, text);
}

static json_t *
fact_time(const char *name, uint64_t n)
{
	char text[64] = "-";
	time_t when = (time_t)n;
	struct tm tm;
	if (gmtime_r(&when, &tm) != NULL) {
		(void)strftime(text, sizeof(text), "%Y-%m-%d %H:%M:%S UTC", &tm);
	}
	return fact_number(name, n, text);
}

static json_t *
fact_ratio(const char *name, const struct pool_snap_info *s)
{
	char text[32];
	uint64_t used = MAX(s->referenced_bytes, (uint64_t)1);
	uint64_t percent = MAX(s->logical_bytes * 100 / used, (uint64_t)100);
	(void)snprintf(text, sizeof(text), "%llu.%02llux", (unsigned long long)(percent / 100),
	    (unsigned long long)(percent % 100));
	return fact_number(name, percent, text);
}

static const char *const names[] = {"type", "creation", "used", "referenced", "logicalused",
    "written", "compressratio", "userrefs", "clones", "createtxg", "guid"};

/* NULL: there is no such one. */
static json_t *
fact(const struct snap_facts *f, const char *name)
{
	const struct pool_snap_info *s = &f->info;
	return strcmp(name, "type") == 0            ? fact_text(name, "snapshot")
	       : strcmp(name, "creation") == 0      ? fact_time(name, s->create_time)
	       : strcmp(name, "used") == 0          ? fact_size(name, s->unique_bytes)
	       : strcmp(name, "referenced") == 0    ? fact_size(name, s->referenced_bytes)
	       : strcmp(name, "logicalused") == 0   ? fact_size(name, s->logical_bytes)
	       : strcmp(name, "written") == 0       ? fact_size(name, s->written_bytes)
	       : strcmp(name, "compressratio") == 0 ? fact_ratio(name, s)
	       : strcmp(name, "userrefs") == 0      ? fact_count(name, s->holds)
	       : strcmp(name, "clones") == 0        ? fact_text(name, f->clones)
	       : strcmp(name, "createtxg") == 0     ? fact_count(name, s->create_txg)
	       : strcmp(name, "guid") == 0          ? fact_count(name, s->guid)
						    : NULL;
}

bool
snap_prop_is_known(const char *name)
{
	for (size_t i = 0; i < ARRAY_LEN(names); i++) {
		if (strcmp(names[i], name) == 0) {
			return true;
		}
	}
	return false;
}

/* Of filesystems; userquota@NAME and its like are told by the @. */
static bool
fs_prop_is_known(const char *name)
{
	for (uint32_t i = 0; i < fs_prop_count(); i++) {
		if (strcmp(fs_prop_name(i), name) == 0) {
			return true;
		}
	}
	return strchr(name, '@') != NULL;
}

/* mixed: filesystems are shown beside; what only these have is "-". */
static json_t *
facts_json(const struct snap_facts *f, json_t *wanted, bool mixed, const char **out_bad)
{
	size_t count = json_array_size(wanted);
	bool all = count == 0;
	json_t *list = json_array();
	for (size_t i = 0; i < (all ? ARRAY_LEN(names) : count); i++) {
		const char *name = all ? names[i] : json_string_value(json_array_get(wanted, i));
		json_t *one = name != NULL ? fact(f, name) : NULL;
		if (one == NULL && name != NULL && mixed && fs_prop_is_known(name)) {
			one = fact_text(name, "-");
		}
		if (one == NULL) {
			*out_bad = name != NULL ? name : "";
			json_decref(list);
			return NULL;
		}
		json_array_append_new(list, one);
	}
	return list;
}

/* ---- those of a filesystem ---- */

struct facts_of {
	struct adm_pool *ap;
	const char *path, *bad;
	json_t *wanted, *list;
	bool mixed;
};

static int
facts_add(void *arg, const struct pool_snap_info *s)
{
	struct facts_of *x = arg;
	char name[2 * DATASET_NAME_MAX + 2];
	struct snap_facts *f = mem_zalloc(sizeof(*f));
	if (f == NULL) {
		return -ENOMEM;
	}
	(void)snprintf(name, sizeof(name), "%s@%s", x->path, s->name);
	f->info = *s;
	int err = pool_snap_clones_each(x->ap->pool, name, clone_add, f);
	json_t *props = err == 0 ? facts_json(f, x->wanted, x->mixed, &x->bad) : NULL;
	mem_free(f);
	if (err != 0) {
		return err == -ENOENT ? 0 : err; /* gone meanwhile */
	}
	return props == NULL ? -EINVAL
	       : json_array_append_new(
		     x->list, json_pack("{s:o, s:o}", "name", adm_text(name), "props", props)) == 0
		   ? 0
		   : -ENOMEM;
}

int
snap_props_of(struct adm_pool *ap, const char *path, json_t *wanted, bool mixed, json_t *list,
    struct adm_error *e)
{
	struct facts_of x = {
	    .ap = ap, .path = path, .wanted = wanted, .list = list, .mixed = mixed};
	bool unique = json_array_size(wanted) == 0;
	size_t i;
	json_t *one;
	json_array_foreach(wanted, i, one)
	{
		const char *name = json_string_value(one);
		unique = unique || (name != NULL && strcmp(name, "used") == 0);
	}
	int err = pool_snap_each(ap->pool, path, unique ? POOL_SNAP_UNIQUE : 0, facts_add, &x);
	if (x.bad != NULL) {
		adm_fail_next(e, "'fs get all %.200s@SNAPSHOT' shows the properties.", path);
		return adm_fail(e, ENOENT, "a snapshot has no property '%.60s'", x.bad);
	}
	return err == 0 || err == -ENOENT
		   ? 0
		   : adm_fail(e, err, "the snapshots of '%.200s' can't be looked at: %s", path,
			 err_str(err));
}

int
snap_cmd_get(struct adm *a, json_t *args, json_t **out, struct adm_error *e)
{
	const char *name = json_string_value(json_object_get(args, "name")), *bad = "", *snap;
	struct adm_pool *ap = adm_pool_of(a, name, e);
	char path[DATASET_NAME_MAX + 1];
	struct snap_facts *f = ap != NULL ? mem_zalloc(sizeof(*f)) : NULL;
	if (f == NULL) {
		return ap == NULL ? -e->code : adm_fail(e, ENOMEM, "out of memory");
	}
	int err = snap_name_split(name, path, &snap)
		      ? pool_snap_get(ap->pool, name, POOL_SNAP_UNIQUE, &f->info)
		      : -ENOENT;
	if (err == 0) {
		err = pool_snap_clones_each(ap->pool, name, clone_add, f);
	}
	json_t *props =
	    err == 0 ? facts_json(f, json_object_get(args, "props"), false, &bad) : NULL;
	mem_free(f);
	if (err != 0) {
		adm_fail_next(e, "'fs list -t snapshot' shows the snapshots.");
		return adm_fail(e, err,
		    err == -ENOENT ? "there is no snapshot '%.200s'"
				   : "'%.200s' can't be looked at",
		    name);
	}
	if (props == NULL) {
		adm_fail_next(e, "'fs get all %.200s' shows the properties.", name);
		return adm_fail(e, ENOENT, "a snapshot has no property '%.60s'", bad);
	}
	*out = json_pack("[{s:o, s:o}]", "name", adm_text(name), "props", props);
	return 0;
}
