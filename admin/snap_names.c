/* snap_names.c - which snapshots a command means: "tank/home@a,c%f". */
#include <stdio.h>
#include <stdlib.h>
#include "admin/snap_names.h"

#define DESTROYED_LEN (sizeof(POOL_SNAP_DESTROYED) - 1)

bool
trash_is_inside(const char *path)
{
	size_t pool = strcspn(path, "/"), len = sizeof(TRASH_DIR) - 1;
	const char *rest = path + pool;
	return rest[0] == '/' && strncmp(rest + 1, TRASH_DIR, len) == 0 &&
	       (rest[1 + len] == '\0' || rest[1 + len] == '/' || rest[1 + len] == '@');
}

bool
trash_snap_parse(const char *name, int64_t *out_time, const char **out_was)
{
	char *end;
	if (strncmp(name, POOL_SNAP_DESTROYED, DESTROYED_LEN) != 0) {
		return false;
	}
	*out_time = strtoll(name + DESTROYED_LEN, &end, 10);
	if (end[0] != '-' || strlen(end) < 11 || end[9] != '-') {
		return false;
	}
	*out_was = end + 10;
	return true;
}

const char *
trash_snap_was(const char *name)
{
	int64_t time;
	const char *was;
	return trash_snap_parse(name, &time, &was) ? was : NULL;
}

void
snap_names_add_text(struct snap_names *n, const char *text)
{
	if (n->count == n->cap) {
		uint32_t cap = MAX(n->cap * 2, 16u);
		char **v = mem_realloc(n->v, cap * sizeof(*v));
		if (v == NULL) {
			n->no_memory = true;
			return;
		}
		n->v = v;
		n->cap = cap;
	}
	char *copy = mem_strdup(text);
	if (copy == NULL) {
		n->no_memory = true;
		return;
	}
	n->v[n->count++] = copy;
}

void
snap_names_add(struct snap_names *n, const char *path, const char *snap)
{
	char name[2 * DATASET_NAME_MAX + 2];
	(void)snprintf(name, sizeof(name), "%s@%s", path, snap);
	snap_names_add_text(n, name);
}

bool
snap_name_is_hidden(const char *name)
{
	const char *at = strchr(name, '@');
	return at != NULL && pool_snap_is_hidden(at + 1);
}

void
snap_names_free(struct snap_names *n)
{
	for (uint32_t i = 0; i < n->count; i++) {
		mem_free(n->v[i]);
	}
	mem_free(n->v);
	*n = (struct snap_names){0};
}

json_t *
snap_names_json(const struct snap_names *n)
{
	json_t *list = json_array();
	for (uint32_t i = 0; i < n->count; i++) {
		json_array_append_new(list, adm_text(n->v[i]));
	}
	return list;
}

bool
snap_name_split(const char *name, char path[DATASET_NAME_MAX + 1], const char **out_snap)
{
	size_t len = strcspn(name, "@");
	if (name[len] == '\0' || len == 0 || len > DATASET_NAME_MAX || name[len + 1] == '\0' ||
	    strpbrk(name + len + 1, "@/") != NULL || pool_snap_is_hidden(name + len + 1)) {
		return false;
	}
	memcpy(path, name, len);
	path[len] = '\0';
	*out_snap = name + len + 1;
	return true;
}

struct below {
	struct snap_names *out;
	const char *snap;
};

static int
below_add(void *arg, struct pool_ds *ds)
{
	struct below *b = arg;
	struct pool_ds_info info;
	pool_ds_get_info(ds, &info);
	if (!trash_is_inside(info.path)) {
		snap_names_add(b->out, info.path, b->snap);
	}
	return b->out->no_memory ? -ENOMEM : 0;
}

static int
names_failed(const char *name, int err, struct adm_error *e)
{
	if (err == -ENOENT) {
		adm_fail_next(e, "'fs list -t all' shows filesystems and snapshots.");
		return adm_fail(e, err, "there is no filesystem '%.100s'", name);
	}
	return adm_fail(e, err, "'%.100s': %s", name, err_str(err));
}

static int
names_no_shape(const char *name, struct adm_error *e)
{
	adm_fail_next(e, "A snapshot is named FILESYSTEM@NAME: tank/home@monday");
	return adm_fail(e, EINVAL, "'%.100s' is no name of a snapshot", name);
}

int
snap_names_each_below(struct adm_pool *ap, const char *name, bool recursive, struct snap_names *out,
    struct adm_error *e)
{
	char path[DATASET_NAME_MAX + 1];
	struct below b = {.out = out};
	if (!snap_name_split(name, path, &b.snap)) {
		return names_no_shape(name, e);
	}
	int err = pool_ds_each(ap->pool, path, recursive, below_add, &b);
	return err != 0 ? names_failed(path, err, e) : 0;
}

/* ---- all of one filesystem ---- */

struct all_of {
	struct snap_names *out;
	const char *path, *after; /* after: NULL once it has been passed */
	bool only_hidden;
};

static int
all_of_add(void *arg, const struct pool_snap_info *s)
{
	struct all_of *x = arg;
	if (x->after != NULL) {
		x->after = strcmp(s->name, x->after) == 0 ? NULL : x->after;
	} else if (!x->only_hidden || pool_snap_is_hidden(s->name)) {
		snap_names_add(x->out, x->path, s->name);
	}
	return x->out->no_memory ? -ENOMEM : 0;
}

int
snap_names_of(struct adm_pool *ap, const char *path, const char *after, bool only_hidden,
    struct snap_names *out)
{
	struct all_of x = {.out = out,
	    .path = path,
	    .after = after != NULL ? strchr(after, '@') + 1 : NULL,
	    .only_hidden = only_hidden};
	return pool_snap_each(ap->pool, path, POOL_SNAP_HIDDEN, all_of_add, &x);
}

/* ---- hidden ones ---- */

struct hidden {
	struct adm_pool *ap;
	struct snap_names *out;
	const char *prefix, *path;
};

static int
hidden_add(void *arg, const struct pool_snap_info *s)
{
	struct hidden *h = arg;
	if (strncmp(s->name, h->prefix, strlen(h->prefix)) == 0) {
		snap_names_add(h->out, h->path, s->name);
	}
	return h->out->no_memory ? -ENOMEM : 0;
}

static int
hidden_of(void *arg, struct pool_ds *ds)
{
	struct hidden *h = arg;
	struct pool_ds_info info;
	pool_ds_get_info(ds, &info);
	h->path = info.path;
	int err = pool_snap_each(h->ap->pool, info.path, POOL_SNAP_HIDDEN, hidden_add, h);
	h->path = NULL;
	return err == -ENOENT ? 0 : err;
}

int
snap_names_hidden(struct adm_pool *ap, const char *prefix, struct snap_names *out)
{
	struct hidden h = {.ap = ap, .out = out, .prefix = prefix};
	if (pool_snap_hidden_count(ap->pool) == 0) {
		return 0;
	}
	int err = pool_ds_each(ap->pool, pool_name(ap->pool), true, hidden_of, &h);
	if (err != 0) {
		snap_names_free(out);
	}
	return err;
}

/* ---- ranges ---- */

/* The snapshots of one dataset, oldest first, and which of them are wanted. */
struct expansion {
	struct snap_names have; /* as "@name" */
	bool *wanted;
	bool destroyed; /* those that can be had back */
};

static int64_t expansion_find(const struct expansion *x, const char *name, size_t len);

static int
expansion_add(void *arg, const struct pool_snap_info *s)
{
	struct expansion *x = arg;
	const char *name = x->destroyed ? trash_snap_was(s->name) : s->name;
	/* several may have been called the same */
	if (name != NULL && !(x->destroyed && expansion_find(x, name, strlen(name)) >= 0)) {
		snap_names_add(&x->have, "", name);
	}
	return x->have.no_memory ? -ENOMEM : 0;
}

/* Names are held as "@name". Position, or -1. */
static int64_t
expansion_find(const struct expansion *x, const char *name, size_t len)
{
	for (uint32_t i = 0; i < x->have.count; i++) {
		if (strlen(x->have.v[i]) == len + 1 && strncmp(x->have.v[i] + 1, name, len) == 0) {
			return i;
		}
	}
	return -1;
}

/* One of the parts between commas. strict: every name in it must exist. */
static int
expansion_part(struct expansion *x, const char *path, const char *part, size_t len, bool strict,
    struct adm_error *e)
{
	const char *percent = memchr(part, '%', len);
	size_t first_len = percent != NULL ? (size_t)(percent - part) : len;
	const char *second = percent != NULL ? percent + 1 : part;
	size_t second_len = percent != NULL ? len - first_len - 1 : len;
	int64_t from = first_len == 0 ? 0 : expansion_find(x, part, first_len);
	int64_t to =
	    second_len == 0 ? (int64_t)x->have.count - 1 : expansion_find(x, second, second_len);
	bool from_missing = from<0, to_missing = second_len> 0 && to < 0;
	if (len == 0 || (percent != NULL && memchr(second, '%', second_len) != NULL)) {
		return adm_fail(
		    e, EINVAL, "'%.*s' is no list of snapshots", (int)MIN(len, (size_t)99), part);
	}
	if (from_missing || to_missing) {
		if (!strict) {
			return 0;
		}
		const char *bad = from_missing ? part : second;
		adm_fail_next(e, "fs list -t %s %s", x->destroyed ? "destroyed" : "snapshot", path);
		return adm_fail(e, ENOENT, "%s '%.100s@%.*s'",
		    x->destroyed ? "no destroyed snapshot was" : "there is no snapshot", path,
		    (int)MIN(from_missing ? first_len : second_len, (size_t)99), bad);
	}
	if (strict && from > to && first_len > 0 && second_len > 0) {
		return adm_fail(e, EINVAL,
		    "'%.*s' ends before it begins: the older one comes first",
		    (int)MIN(len, (size_t)99), part);
	}
	for (int64_t i = from; i <= to; i++) {
		x->wanted[i] = true;
	}
	return 0;
}

static int
expansion_parts(struct expansion *x, const char *path, const char *parts, bool strict,
    struct snap_names *out, struct adm_error *e)
{
	x->wanted = mem_zalloc_array(MAX(x->have.count, 1u), sizeof(bool));
	int err = x->wanted == NULL ? adm_fail(e, ENOMEM, "out of memory") : 0;
	for (const char *at = parts; err == 0; at++) {
		size_t len = strcspn(at, ",");
		err = expansion_part(x, path, at, len, strict, e);
		at += len;
		if (*at == '\0') {
			break;
		}
	}
	for (uint32_t i = 0; err == 0 && i < x->have.count; i++) {
		if (x->wanted[i]) {
			snap_names_add(out, path, x->have.v[i] + 1);
		}
	}
	mem_free(x->wanted);
	return err == 0 && out->no_memory ? adm_fail(e, ENOMEM, "out of memory") : err;
}

struct expand_each {
	struct adm_pool *ap;
	const char *top, *parts;
	struct snap_names *out;
	struct adm_error *e;
	bool destroyed;
};

static int
expand_one(void *arg, struct pool_ds *ds)
{
	struct expand_each *all = arg;
	struct pool_ds_info info;
	struct expansion x = {.destroyed = all->destroyed};
	uint32_t flags = x.destroyed ? POOL_SNAP_HIDDEN : 0;
	pool_ds_get_info(ds, &info);
	if (trash_is_inside(info.path) && !trash_is_inside(all->top)) {
		return 0;
	}
	int err = pool_snap_each(all->ap->pool, info.path, flags, expansion_add, &x);
	if (err == -ENOENT) {
		err = 0; /* destroyed meanwhile */
	} else if (err != 0) {
		err = names_failed(info.path, err, all->e);
	} else {
		err = expansion_parts(
		    &x, info.path, all->parts, strcmp(info.path, all->top) == 0, all->out, all->e);
	}
	snap_names_free(&x.have);
	return err;
}

static int
expand(struct expand_each *all, const char *spec, bool recursive)
{
	char path[DATASET_NAME_MAX + 1];
	struct adm_error *e = all->e;
	if (!snap_name_split(spec, path, &all->parts)) {
		return names_no_shape(spec, e);
	}
	all->top = path;
	int err = pool_ds_each(all->ap->pool, path, recursive, expand_one, all);
	if (err != 0 && e->code == 0) {
		return names_failed(path, err, e);
	}
	if (err == 0 && all->out->count == 0) {
		err = adm_fail(e, ENOENT, "no %ssnapshot is meant by '%.100s'",
		    all->destroyed ? "destroyed " : "", spec);
	}
	return err;
}

int
snap_names_expand(struct adm_pool *ap, const char *spec, bool recursive, struct snap_names *out,
    struct adm_error *e)
{
	struct expand_each all = {.ap = ap, .out = out, .e = e};
	return expand(&all, spec, recursive);
}

int
snap_names_expand_destroyed(struct adm_pool *ap, const char *spec, bool recursive,
    struct snap_names *out, struct adm_error *e)
{
	struct expand_each all = {.ap = ap, .out = out, .e = e, .destroyed = true};
	return expand(&all, spec, recursive);
}
