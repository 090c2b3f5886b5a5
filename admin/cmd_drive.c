/*
 * cmd_drive.c - what administrators do to the drives of a pool in service: scrub, offline, online,
 * clear, replace, attach, detach, spares; and the pool's history and events. Under adm->lock shared
 * and drives_lock: pools can't go, and nobody else gives drives away.
 */
#include <stdio.h>
#include "admin/layout.h"

/* ---- which drive ---- */

/* How well a name fits a member: 0 not at all, 1 the file's name without its ending, 2 exactly. */
static int
member_match(const struct pool_drive_status *d, const char *name)
{
	const char *base = strrchr(d->path, '/');
	char guid[33];
	base = base != NULL ? base + 1 : d->path;
	size_t stem = strcspn(base, ".");
	adm_guid_text(&d->guid, guid);
	if (strcmp(d->path, name) == 0 || strcmp(base, name) == 0 || strcmp(d->id, name) == 0 ||
	    strcmp(guid, name) == 0) {
		return 2;
	}
	return strlen(name) == stem && strncmp(base, name, stem) == 0 ? 1 : 0;
}

/* A drive that has gone is named by where it was last seen, by its identity or its guid. */
static int
member_find(
    struct adm_pool *ap, const char *name, struct pool_drive_status *out, struct adm_error *e)
{
	struct pool_status st;
	int best = 0, fits = 0;
	int err = pool_get_status(ap->pool, &st);
	if (err != 0) {
		return adm_fail(e, err, "the pool's drives can't be told: %s", err_str(err));
	}
	for (uint32_t i = 0; i < st.drive_count; i++) {
		int match = member_match(&st.drives[i], name);
		fits = match > best ? 1 : fits + (match != 0 && match == best);
		if (match > best) {
			best = match;
			*out = st.drives[i];
		}
	}
	pool_status_free(&st);
	if (fits == 1) {
		return 0;
	}
	adm_fail_next(e, "'pool status %s' shows its drives.", pool_name(ap->pool));
	return fits == 0 ? adm_fail(e, ENOENT, "pool '%s' has no drive '%.200s'",
			       pool_name(ap->pool), name)
			 : adm_fail(e, ENOTUNIQ, "several drives of pool '%s' are named '%.200s'",
			       pool_name(ap->pool), name);
}

/* The pool and one of its drives. NULL and an error. */
static struct adm_pool *
member_arg(struct adm *a, json_t *args, struct pool_drive_status *out, struct adm_error *e)
{
	struct adm_pool *ap = adm_arg_pool(a, args, e);
	const char *name = ap != NULL ? adm_arg_string(args, "drive", e) : NULL;
	return name != NULL && member_find(ap, name, out, e) == 0 ? ap : NULL;
}

static int
fail_common(struct adm_pool *ap, int err, const char *what, const char *path, struct adm_error *e)
{
	const char *pool = pool_name(ap->pool);
	switch (err) {
	case -ERR_SUSPENDED:
		adm_fail_next(e, "'pool status %s' says what it waits for.", pool);
		return adm_fail(
		    e, err, "pool '%s' is suspended: too many of its drives are gone", pool);
	case -EROFS:
		return adm_fail(e, err, "pool '%s' was imported read-only", pool);
	case -EAGAIN:
		adm_fail_next(e, "Again when it has answered, or replace it; pulled and returned, "
				 "it begins anew.");
		return adm_fail(e, err,
		    "drive %.200s could not be %s: it hasn't answered writes from before", path,
		    what);
	default:
		return adm_fail(
		    e, err, "drive %.200s could not be %s: %s", path, what, err_str(err));
	}
}

/* ---- offline, online, clear ---- */

static int
pool_cmd_offline(struct adm *a, json_t *args, json_t **out, struct adm_error *e)
{
	struct pool_drive_status d;
	struct adm_pool *ap = member_arg(a, args, &d, e);
	(void)out;
	if (ap == NULL) {
		return -e->code;
	}
	int err = pool_drive_offline(ap->pool, &d.guid, adm_arg_flag(args, "until_import"));
	switch (err) {
	case 0:
		return 0;
	case -EBUSY:
		adm_fail_next(e,
		    "'pool status %s' shows who else is out or being brought up to date.",
		    pool_name(ap->pool));
		return adm_fail(e, err, "the pool can't do without drive %.200s now", d.path);
	case -EINVAL:
		return adm_fail(e, err,
		    "drive %.200s holds no data: only data drives can be taken offline", d.path);
	default:
		return fail_common(ap, err, "taken offline", d.path, e);
	}
}

static int
pool_cmd_online(struct adm *a, json_t *args, json_t **out, struct adm_error *e)
{
	struct pool_drive_status d;
	struct adm_pool *ap = member_arg(a, args, &d, e);
	(void)out;
	if (ap == NULL) {
		return -e->code;
	}
	int err = pool_drive_online(ap->pool, &d.guid);
	if (err == 0 && adm_arg_flag(args, "expand")) {
		char why[200];
		err = pool_expand(ap->pool, &d.guid, why, sizeof(why));
		if (err != 0 && why[0] != '\0') {
			return adm_fail(
			    e, err, "the set of drive %.120s can't grow: %s", d.path, why);
		}
	}
	switch (err) {
	case 0:
		return 0;
	case -ENODEV:
		adm_fail_next(e, "Reconnect it, or: pool replace %s %.160s NEWDRIVE",
		    pool_name(ap->pool), d.path);
		return adm_fail(e, err, "drive %.200s isn't there", d.path);
	case -EINVAL:
		return adm_fail(e, err,
		    "drive %.200s holds no data: only data drives are taken off and on line",
		    d.path);
	default:
		return fail_common(ap, err, "taken back", d.path, e);
	}
}

static int
pool_cmd_clear(struct adm *a, json_t *args, json_t **out, struct adm_error *e)
{
	struct pool_drive_status d = {.path = "(all)"};
	bool one = json_object_get(args, "drive") != NULL;
	struct adm_pool *ap = one ? member_arg(a, args, &d, e) : adm_arg_pool(a, args, e);
	(void)out;
	if (ap == NULL) {
		return -e->code;
	}
	int err = pool_drive_clear(ap->pool, one ? &d.guid : NULL);
	return err == 0 ? 0 : fail_common(ap, err, "cleared", d.path, e);
}

/* ---- drives that are new to the pool ---- */

/* Opened, and nobody's: NULL and an error otherwise. */
static struct kb_drive *
new_drive(struct adm *a, json_t *args, const char *key, bool as_spare, struct adm_error *e)
{
	const char *name = adm_arg_string(args, key, e);
	bool force = adm_arg_flag(args, "force");
	struct kb_drive *d = NULL;
	if (name == NULL || drives_open(a, name, force, &d, e) != 0) {
		return NULL;
	}
	if (drives_check_free(a, d, as_spare, force, e) != 0) {
		kb_close(d);
		return NULL;
	}
	return d;
}

static int
pool_cmd_replace(struct adm *a, json_t *args, json_t **out, struct adm_error *e)
{
	struct pool_drive_status old;
	struct adm_pool *ap = member_arg(a, args, &old, e);
	char why[256], warning[400];
	if (ap == NULL) {
		return -e->code;
	}
	/* without a new one: another drive is where the old one was */
	if (json_object_get(args, "new") == NULL) {
		json_object_set_new(args, "new", adm_text(old.path));
	}
	struct kb_drive *d = new_drive(a, args, "new", false, e);
	if (d == NULL) {
		return -e->code;
	}
	if (old.role == DRIVE_ROLE_LOG) {
		layout_log_warning(d, warning, sizeof(warning));
	} else {
		layout_replace_warning(old.physical_sector_bytes, d, warning, sizeof(warning));
	}
	int err = kb_claim(d, false);
	if (err != 0) {
		adm_fail(e, err, "drive %.200s is in use by another process", kb_path(d));
	} else {
		err = pool_drive_replace(ap->pool, &old.guid, d, why, sizeof(why));
		if (err != 0 && why[0] != '\0') {
			adm_fail(e, err, "drive %.160s can't be replaced: %s", old.path, why);
		} else if (err != 0) {
			fail_common(ap, err, "replaced", old.path, e);
		}
	}
	if (err != 0) {
		kb_close(d);
	} else {
		*out = json_pack("{s:o}", "warning", adm_text(warning));
	}
	return err;
}

static int
pool_cmd_attach(struct adm *a, json_t *args, json_t **out, struct adm_error *e)
{
	struct pool_drive_status d;
	struct adm_pool *ap = member_arg(a, args, &d, e);
	char why[256];
	(void)out;
	struct kb_drive *kb = ap != NULL ? new_drive(a, args, "new", false, e) : NULL;
	if (kb == NULL) {
		return -e->code;
	}
	int err = kb_claim(kb, false);
	if (err != 0) {
		adm_fail(e, err, "drive %.200s is in use by another process", kb_path(kb));
	} else {
		err = pool_drive_attach(ap->pool, &d.guid, kb, why, sizeof(why));
		if (err != 0 && why[0] != '\0') {
			adm_fail(e, err, "drive %.120s can't be mirrored: %s", d.path, why);
		} else if (err != 0) {
			fail_common(ap, err, "mirrored", d.path, e);
		}
	}
	if (err != 0) {
		kb_close(kb);
	}
	return err;
}

static int
pool_cmd_detach(struct adm *a, json_t *args, json_t **out, struct adm_error *e)
{
	struct pool_drive_status d;
	struct adm_pool *ap = member_arg(a, args, &d, e);
	char why[256];
	(void)out;
	if (ap == NULL) {
		return -e->code;
	}
	int err = pool_drive_detach(ap->pool, &d.guid, why, sizeof(why));
	if (err != 0 && why[0] != '\0') {
		adm_fail_next(e, "'pool status %s' shows who is up to date.", pool_name(ap->pool));
		return adm_fail(e, err, "drive %.120s can't be detached: %s", d.path, why);
	}
	return err == 0 ? 0 : fail_common(ap, err, "detached", d.path, e);
}

static int
pool_cmd_spare_add(struct adm *a, json_t *args, json_t **out, struct adm_error *e)
{
	struct adm_pool *ap = adm_arg_pool(a, args, e);
	char why[256];
	(void)out;
	struct kb_drive *d = ap != NULL ? new_drive(a, args, "drive", true, e) : NULL;
	if (d == NULL) {
		return -e->code;
	}
	int err = pool_spare_add(ap->pool, d, why, sizeof(why));
	if (err != 0) {
		if (why[0] != '\0') {
			adm_fail(e, err, "%s", why);
		} else {
			fail_common(ap, err, "made a spare", kb_path(d), e);
		}
		kb_close(d);
	}
	return err;
}

static int
pool_cmd_spare_remove(struct adm *a, json_t *args, json_t **out, struct adm_error *e)
{
	struct pool_drive_status d;
	struct adm_pool *ap = member_arg(a, args, &d, e);
	(void)out;
	if (ap == NULL) {
		return -e->code;
	}
	int err = pool_spare_remove(ap->pool, &d.guid);
	if (err == -EINVAL || err == -ENOENT) {
		return adm_fail(e, EINVAL, "drive %.200s is no spare", d.path);
	}
	return err == 0 ? 0 : fail_common(ap, err, "removed", d.path, e);
}

static int
pool_cmd_remove(struct adm *a, json_t *args, json_t **out, struct adm_error *e)
{
	struct pool_drive_status d;
	struct adm_pool *ap = member_arg(a, args, &d, e);
	(void)out;
	if (ap == NULL) {
		return -e->code;
	}
	if (d.role == DRIVE_ROLE_DATA) {
		adm_fail_next(e,
		    "Another drive can take its place: pool replace %s %.160s NEWDRIVE",
		    pool_name(ap->pool), d.path);
		return adm_fail(e, EINVAL,
		    "drive %.200s holds data: only log drives and spares can be removed", d.path);
	}
	int err = d.role == DRIVE_ROLE_LOG ? pool_log_remove(ap->pool, &d.guid)
					   : pool_spare_remove(ap->pool, &d.guid);
	if (err == -EBUSY) {
		adm_fail_next(
		    e, "pool export %s, pool import %s", pool_name(ap->pool), pool_name(ap->pool));
		return adm_fail(e, err, "the log was moved too often since the pool was imported");
	}
	return err == 0 ? 0 : fail_common(ap, err, "removed", d.path, e);
}

/* ---- scrub ---- */

static int
scrub_action(const char *text, enum pool_scan_action *out)
{
	static const char *const names[] = {"start", "pause", "resume", "stop"};
	static const enum pool_scan_action actions[] = {
	    POOL_SCAN_START, POOL_SCAN_PAUSE, POOL_SCAN_RESUME, POOL_SCAN_STOP};
	for (size_t i = 0; text != NULL && i < ARRAY_LEN(names); i++) {
		if (strcmp(text, names[i]) == 0) {
			*out = actions[i];
			return 0;
		}
	}
	return -EINVAL;
}

static int
pool_cmd_scrub(struct adm *a, json_t *args, json_t **out, struct adm_error *e)
{
	struct adm_pool *ap = adm_arg_pool(a, args, e);
	enum pool_scan_action action = POOL_SCAN_START;
	(void)out;
	if (ap == NULL) {
		return -e->code;
	}
	if (json_object_get(args, "action") != NULL &&
	    scrub_action(json_string_value(json_object_get(args, "action")), &action) != 0) {
		return adm_fail(e, EINVAL, "a scrub is started, paused, resumed or stopped");
	}
	int err = pool_is_suspended(ap->pool) ? -ERR_SUSPENDED : pool_scan(ap->pool, action);
	switch (err) {
	case 0:
		return 0;
	case -EBUSY:
		adm_fail_next(e, "'pool status %s' shows how far it is.", pool_name(ap->pool));
		return adm_fail(e, err, "a resilver is running: it goes first");
	case -ENOENT:
		return adm_fail(
		    e, err, "nothing is running that could be paused, resumed or stopped");
	default:
		return fail_common(ap, err, "scrubbed", "", e);
	}
}

/* ---- trim ---- */

static int
trim_refused(struct adm_pool *ap, int err, bool one, struct adm_error *e)
{
	switch (err) {
	case -EBUSY:
		adm_fail_next(e, "'pool status %s' shows how far it is; 'pool trim -c %s' ends it.",
		    pool_name(ap->pool), pool_name(ap->pool));
		return adm_fail(e, err, "the pool is being trimmed already");
	case -ENOENT:
		return adm_fail(e, err,
		    one ? "only data drives that are there are trimmed"
			: "nothing is running that could be paused or cancelled");
	case -EOPNOTSUPP:
		return adm_fail(e, err,
		    one ? "the drive can't be told what is free (no discard)"
			: "no drive of the pool can be told what is free (no discard)");
	default:
		return fail_common(ap, err, "trimmed", "", e);
	}
}

static int
pool_cmd_trim(struct adm *a, json_t *args, json_t **out, struct adm_error *e)
{
	static const char *const names[] = {"start", "pause", "cancel"};
	static const enum pool_trim_action actions[] = {
	    POOL_TRIM_START, POOL_TRIM_PAUSE, POOL_TRIM_CANCEL};
	bool one = json_object_get(args, "drive") != NULL;
	json_t *rate = json_object_get(args, "rate");
	const char *action = json_string_value(json_object_get(args, "action"));
	struct pool_drive_status d;
	struct adm_pool *ap = one ? member_arg(a, args, &d, e) : adm_arg_pool(a, args, e);
	struct pool_trim_status st;
	if (ap == NULL) {
		return -e->code;
	}
	if (rate != NULL && (!json_is_integer(rate) || json_integer_value(rate) < 1)) {
		return adm_fail(e, EINVAL, "a rate is bytes a second, more than none");
	}
	for (size_t i = 0; action != NULL && i < ARRAY_LEN(names); i++) {
		if (strcmp(action, names[i]) == 0) {
			int err = pool_trim(ap->pool, actions[i], one ? &d.guid : NULL,
			    (uint64_t)json_integer_value(rate));
			pool_get_trim(ap->pool, &st);
			*out = json_pack("{s:i}", "drives_without", (int)st.drives_without);
			return err == 0 ? 0 : trim_refused(ap, err, one, e);
		}
	}
	return adm_fail(e, EINVAL, "a trim is started, paused or cancelled");
}

/* ---- what happened ---- */

static int
diary_show(struct adm *a, json_t *args, enum diary_kind kind, json_t **out, struct adm_error *e)
{
	struct adm_pool *one = NULL;
	if (json_object_get(args, "pool") != NULL && (one = adm_arg_pool(a, args, e)) == NULL) {
		return -e->code;
	}
	json_t *list = json_array();
	for (uint32_t i = 0; i < a->pool_count; i++) {
		size_t k;
		json_t *line, *lines;
		if (one != NULL && one != &a->pools[i]) {
			continue;
		}
		lines = diary_json(&a->pools[i], kind);
		json_array_foreach(lines, k, line)
		{
			json_object_set_new(line, "pool", json_string(pool_name(a->pools[i].pool)));
			json_array_append(list, line);
		}
		json_decref(lines);
	}
	*out = list;
	return 0;
}

static int
pool_cmd_history(struct adm *a, json_t *args, json_t **out, struct adm_error *e)
{
	return diary_show(a, args, DIARY_HISTORY, out, e);
}

static int
pool_cmd_events(struct adm *a, json_t *args, json_t **out, struct adm_error *e)
{
	return diary_show(a, args, DIARY_EVENTS, out, e);
}

const struct adm_command adm_drive_commands[] = {
    {"pool add", pool_cmd_add, ADM_DRIVES},
    {"pool remove", pool_cmd_remove, ADM_DRIVES},
    {"pool scrub", pool_cmd_scrub, ADM_DRIVES},
    {"pool trim", pool_cmd_trim, ADM_DRIVES},
    {"pool offline", pool_cmd_offline, ADM_DRIVES},
    {"pool online", pool_cmd_online, ADM_DRIVES},
    {"pool clear", pool_cmd_clear, ADM_DRIVES},
    {"pool replace", pool_cmd_replace, ADM_DRIVES},
    {"pool attach", pool_cmd_attach, ADM_DRIVES},
    {"pool detach", pool_cmd_detach, ADM_DRIVES},
    {"pool spare add", pool_cmd_spare_add, ADM_DRIVES},
    {"pool spare remove", pool_cmd_spare_remove, ADM_DRIVES},
    {"pool set", pool_cmd_set, ADM_DRIVES},
    {"pool get", pool_cmd_get, ADM_LOOK},
    {"pool history", pool_cmd_history, ADM_LOOK_PRIVILEGED},
    {"pool events", pool_cmd_events, ADM_LOOK},
    {NULL, NULL, ADM_LOOK},
};
