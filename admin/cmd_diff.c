/*
 * cmd_diff.c - fs diff: what happened between two snapshots, or between a snapshot and a filesystem
 * as it is now.
 *
 * A comparison belongs to its session and ends with it. The first request begins it, each further
 * one ({"more": true}) gets the next changes; between them no lock is held, so an answer that is
 * printed slowly keeps nobody waiting. For a filesystem that is in use a hidden snapshot is taken,
 * which goes when the comparison ends; one that a crash left is found by diff_look.
 */
#include <stdio.h>
#include "admin/snap_names.h"

#define ROWS_MAX 500u

struct adm_diff {
	struct list link; /* adm->diffs, under diff_lock */
	uint64_t session;
	struct guid pool;
	struct fs_diff *d; /* NULL: not begun yet */
	char from[2 * DATASET_NAME_MAX + 2], to[2 * DATASET_NAME_MAX + 2];
	bool own; /* to is the hidden snapshot */
};

static struct adm_diff *
diff_find(struct adm *a, uint64_t session)
{
	struct adm_diff *found = NULL;
	mutex_lock(&a->diff_lock);
	list_for_each(l, &a->diffs)
	{
		struct adm_diff *x = list_entry(l, struct adm_diff, link);
		found = x->session == session ? x : found;
	}
	mutex_unlock(&a->diff_lock);
	return found;
}

static struct adm_pool *
diff_pool(struct adm *a, const struct adm_diff *x)
{
	for (uint32_t i = 0; i < a->pool_count; i++) {
		struct guid g = pool_guid(a->pools[i].pool);
		if (memcmp(&g, &x->pool, sizeof(g)) == 0) {
			return &a->pools[i];
		}
	}
	return NULL;
}

static void
diff_drop_snapshot(struct adm_pool *ap, const char *name)
{
	uint32_t bad;
	int err = fs_snap_destroy(ap->fp, &name, 1, &bad);
	if (err != 0 && err != -ENOENT) {
		log_warn("diff-snapshot-left name=%s error=%s", name, err_str(err));
	}
}

/* Under adm->lock, shared. */
static void
diff_end(struct adm *a, struct adm_diff *x)
{
	struct adm_pool *ap = diff_pool(a, x);
	if (x->own && ap != NULL) {
		diff_drop_snapshot(ap, x->to);
	}
	mutex_lock(&a->diff_lock);
	list_remove(&x->link);
	mutex_unlock(&a->diff_lock);
	fs_diff_close(x->d);
	mem_free(x);
}

void
diff_session_ends(struct adm *a, uint64_t session)
{
	struct adm_diff *x = diff_find(a, session);
	if (x != NULL) {
		rwlock_rdlock(&a->lock);
		diff_end(a, x);
		rwlock_rdunlock(&a->lock);
	}
}

/* ---- hidden snapshots that a crash left ---- */

static bool
diff_uses(struct adm *a, const char *name)
{
	bool used = false;
	mutex_lock(&a->diff_lock);
	list_for_each(l, &a->diffs)
	{
		const struct adm_diff *x = list_entry(l, struct adm_diff, link);
		used = used || strcmp(x->to, name) == 0;
	}
	mutex_unlock(&a->diff_lock);
	return used;
}

void
diff_look(struct adm *a, struct adm_pool *ap)
{
	struct snap_names names = {0};
	if (pool_is_readonly(ap->pool) || pool_is_suspended(ap->pool) ||
	    snap_names_hidden(ap, POOL_SNAP_DIFF, &names) != 0) {
		return;
	}
	for (uint32_t i = 0; i < names.count; i++) {
		if (!diff_uses(a, names.v[i])) {
			diff_drop_snapshot(ap, names.v[i]);
		}
	}
	snap_names_free(&names);
}

/* ---- rows ---- */

/* Bytes that a terminal or a line can't have, as \ooo. */
static json_t *
diff_text(const char *s)
{
	size_t len = strlen(s), at = 0;
	char *out = mem_zalloc(4 * len + 1);
	json_t *text = json_string(s);
	bool utf8 = text != NULL;
	json_decref(text);
	for (size_t i = 0; i < len && out != NULL; i++) {
		unsigned char c = (unsigned char)s[i];
		if (c < 0x20 || c == 0x7f || c == '\\' || (c > 0x7f && !utf8)) {
			at += (size_t)snprintf(out + at, 5, "\\%03o", c);
		} else {
			out[at++] = (char)c;
		}
	}
	text = out != NULL ? json_string(out) : NULL;
	mem_free(out);
	return text;
}

struct diff_rows {
	json_t *list;
	bool no_memory;
};

static void
diff_row(void *arg, const struct fs_change *c)
{
	static const char *const types[] = {
	    "?", "file", "directory", "block", "character", "symlink", "socket", "fifo"};
	struct diff_rows *rows = arg;
	char what[2] = {c->what, '\0'};
	json_t *row = json_pack("{s:s, s:s, s:o*, s:o*, s:I}", "change", what, "type",
	    types[c->type < ARRAY_LEN(types) ? c->type : 0], "path",
	    c->path != NULL ? diff_text(c->path) : NULL, "old_path",
	    c->old_path != NULL ? diff_text(c->old_path) : NULL, "object", (json_int_t)c->object);
	if (row != NULL && c->what == 'M') {
		json_object_set_new(row, "modified", json_boolean(c->modified));
		json_object_set_new(row, "links", json_integer(c->links));
	}
	if (json_array_append_new(rows->list, row) != 0) {
		rows->no_memory = true;
	}
}

static int
diff_failed(const struct adm_diff *x, int err, struct adm_error *e)
{
	const char *to = x->own ? "the filesystem as it was when this began" : x->to;
	switch (-err) {
	case ESTALE:
		return adm_fail(
		    e, err, "'%.200s' or '%.200s' was destroyed meanwhile", x->from, to);
	case EINVAL:
		adm_fail_next(e,
		    "The older one comes first, and both are of one filesystem, or of a "
		    "clone and its origin.");
		return adm_fail(e, err, "'%.200s' doesn't come before '%.200s'", x->from, to);
	case EROFS:
	case ENOSPC:
	case ERR_FEATURE:
		adm_fail_next(e, "Two snapshots can be compared: fs diff FS@A FS@B");
		return adm_fail(e, err,
		    "a snapshot of the filesystem as it is now can't be taken: %s", err_str(err));
	default:
		return adm_fail(e, err, "the comparison was given up: %s", err_str(err));
	}
}

static int
diff_continue(struct adm *a, struct adm_diff *x, json_t **out, struct adm_error *e)
{
	struct diff_rows rows = {.list = json_array()};
	struct adm_pool *ap = diff_pool(a, x);
	bool done = false;
	int err = ap == NULL ? -ESTALE : rows.list == NULL ? -ENOMEM : 0;
	if (err == 0) {
		err = fs_diff_step(ap->fp, x->d, ROWS_MAX, diff_row, &rows, &done);
	}
	err = err == 0 && rows.no_memory ? -ENOMEM : err;
	if (err != 0) {
		json_decref(rows.list);
		err = diff_failed(x, err, e);
	} else {
		*out = json_pack("{s:o, s:b}", "changes", rows.list, "done", done);
	}
	if (err != 0 || done) {
		diff_end(a, x);
	}
	return err;
}

/* ---- beginning ---- */

/* What is compared with: a snapshot, or a hidden one of the filesystem. */
static int
diff_other(
    struct adm *a, struct adm_pool *ap, json_t *args, struct adm_diff *x, struct adm_error *e)
{
	const char *to = json_string_value(json_object_get(args, "to"));
	char path[DATASET_NAME_MAX + 1];
	(void)snprintf(path, sizeof(path), "%.*s", (int)strcspn(x->from, "@"), x->from);
	to = to != NULL ? to : path;
	if (strlen(to) >= sizeof(x->to) || adm_pool_of(a, to, e) != ap) {
		return e->code != 0 ? -e->code : adm_fail(e, EXDEV, "both are to be in one pool");
	}
	const char *snap = strchr(to, '@');
	if (snap != NULL && !snap_name_split(to, path, &snap)) {
		return adm_fail(e, EINVAL, "'%.100s' is no name of a snapshot", to);
	}
	x->own = snap == NULL;
	(void)snprintf(x->to, sizeof(x->to), x->own ? "%s@" POOL_SNAP_DIFF "%016llx" : "%s", to,
	    (unsigned long long)rt_random_u64());
	return 0;
}

/* Is there a snapshot of that name? */
static int
diff_need(struct adm_pool *ap, const char *name, struct adm_error *e)
{
	struct pool_snap_info info;
	int err = pool_snap_get(ap->pool, name, 0, &info);
	if (err == 0) {
		return 0;
	}
	adm_fail_next(e, "'fs list -t snapshot' shows the snapshots.");
	return adm_fail(e, err, "there is no snapshot '%.250s'", name);
}

/* A snapshot of what is there now. */
static int
diff_take(struct adm_pool *ap, struct adm_diff *x, struct adm_error *e)
{
	const char *name = x->to;
	uint32_t bad;
	int err = fs_snap_create(ap->fp, &name, 1, &bad);
	if (err == -ENOENT || err == -EINVAL) {
		adm_fail_next(e, "'fs list' shows the filesystems.");
		return adm_fail(e, ENOENT, "there is no filesystem '%.*s'",
		    (int)MIN(strcspn(name, "@"), (size_t)200), name);
	}
	return err != 0 ? diff_failed(x, err, e) : 0;
}

static int
diff_start(struct adm_pool *ap, struct adm_diff *x, struct adm_error *e)
{
	int err = diff_need(ap, x->from, e);
	if (err == 0) {
		err = x->own ? diff_take(ap, x, e) : diff_need(ap, x->to, e);
	}
	if (err != 0) {
		return err;
	}
	err = fs_diff_open(ap->fp, x->from, x->to, &x->d);
	return err != 0 ? diff_failed(x, err == -ENOENT ? -ESTALE : err, e) : 0;
}

static int
diff_begin(
    struct adm *a, json_t *args, uint64_t session, struct adm_diff **out, struct adm_error *e)
{
	const char *name = adm_arg_string(args, "name", e), *snap;
	char path[DATASET_NAME_MAX + 1];
	struct adm_pool *ap = name != NULL ? adm_pool_of(a, name, e) : NULL;
	if (ap == NULL) {
		return -e->code;
	}
	if (!snap_name_split(name, path, &snap) || strlen(name) > 2 * DATASET_NAME_MAX) {
		adm_fail_next(e, "fs diff FS@A   tells what happened since; fs diff FS@A FS@B");
		return adm_fail(e, EINVAL, "'%.100s' is no name of a snapshot", name);
	}
	struct adm_diff *x = mem_zalloc(sizeof(*x));
	if (x == NULL) {
		return adm_fail(e, ENOMEM, "out of memory");
	}
	x->session = session;
	x->pool = pool_guid(ap->pool);
	(void)snprintf(x->from, sizeof(x->from), "%s", name);
	int err = diff_other(a, ap, args, x, e);
	x->own = x->own && err == 0;
	mutex_lock(&a->diff_lock);
	list_push_back(&a->diffs, &x->link);
	mutex_unlock(&a->diff_lock);
	err = err != 0 ? err : diff_start(ap, x, e);
	if (err != 0) {
		diff_end(a, x);
	}
	*out = x;
	return err;
}

int
diff_cmd(struct adm *a, json_t *args, json_t **out, struct adm_error *e)
{
	uint64_t session = (uint64_t)json_integer_value(json_object_get(args, ADM_ARG_SESSION));
	struct adm_diff *x = diff_find(a, session);
	if (adm_arg_flag(args, "more")) {
		return x != NULL ? diff_continue(a, x, out, e)
				 : adm_fail(e, ENOENT, "no comparison was begun here");
	}
	if (x != NULL) {
		diff_end(a, x);
	}
	int err = diff_begin(a, args, session, &x, e);
	return err != 0 ? err : diff_continue(a, x, out, e);
}
