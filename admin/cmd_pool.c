/* cmd_pool.c - pool create, destroy, export, import, check: which pools there are. */
#include <stdio.h>
#include <stdlib.h>
#include "admin/admin_int.h"

#define SETS_MAX 32u
#define SET_WIDTH_MAX RAIDZ_WIDTH_MAX
#define SPARES_MAX 32u
#define LOGS_MAX 4u

/* A create request taken apart; owns the drives until pool_create takes them. */
struct create {
	struct pool_create_spec spec;
	struct pool_set_spec sets[SETS_MAX];
	struct kb_drive *set_drives[SETS_MAX][SET_WIDTH_MAX];
	struct kb_drive *logs[LOGS_MAX];
	struct kb_drive *spares[SPARES_MAX];
	bool force;
};

static void
create_close(struct create *c)
{
	for (uint32_t s = 0; s < SETS_MAX; s++) {
		for (uint32_t i = 0; i < c->sets[s].width; i++) {
			kb_close(c->set_drives[s][i]);
		}
	}
	for (uint32_t i = 0; i < c->spec.log_count; i++) {
		kb_close(c->logs[i]);
	}
	for (uint32_t i = 0; i < c->spec.spare_count; i++) {
		kb_close(c->spares[i]);
	}
}

/* Opens the drives of one list. *out_count grows with each that is open, so that create_close
 * knows. */
static int
create_open(struct adm *a, const struct create *c, json_t *names, struct kb_drive **out,
    uint32_t *out_count, struct adm_error *e)
{
	size_t i;
	json_t *name;
	uint32_t max = out == c->logs ? LOGS_MAX : out == c->spares ? SPARES_MAX : SET_WIDTH_MAX;
	if (json_array_size(names) > max) {
		return adm_fail(e, EINVAL, "%zu drives in one group; there can be at most %u",
		    json_array_size(names), max);
	}
	json_array_foreach(names, i, name)
	{
		const char *text = json_string_value(name);
		if (text == NULL) {
			return adm_fail(e, EINVAL, "a drive's name is missing");
		}
		int err = drives_open(a, text, c->force, &out[i], e);
		if (err != 0) {
			return err;
		}
		*out_count = (uint32_t)i + 1;
	}
	return 0;
}

static int
create_bad_kind(const char *kind, struct adm_error *e)
{
	return adm_fail(e, EINVAL,
	    "'%.60s' is no kind of set; there are raidz1, raidz2, raidz3, mirror",
	    kind != NULL ? kind : "");
}

static int
create_set(struct adm *a, struct create *c, json_t *set, struct adm_error *e)
{
	const char *kind = json_string_value(json_object_get(set, "kind"));
	struct pool_set_spec *s = &c->sets[c->spec.set_count];
	s->drives = c->set_drives[c->spec.set_count];
	c->spec.set_count++;
	if (kind != NULL && strncmp(kind, "raidz", 5) == 0) {
		s->kind = RAIDZ_KIND_PARITY;
		s->parity = kind[5] == '\0' ? 1 : (uint32_t)(kind[5] - '0');
		if (s->parity < 1 || s->parity > RAIDZ_PARITY_MAX ||
		    (kind[5] != '\0' && kind[6] != '\0')) {
			return create_bad_kind(kind, e);
		}
	} else if (kind != NULL && (strcmp(kind, "mirror") == 0 || strcmp(kind, "single") == 0)) {
		s->kind = RAIDZ_KIND_MIRROR;
	} else {
		return create_bad_kind(kind, e);
	}
	size_t width = json_array_size(json_object_get(set, "drives"));
	if (kind[0] == 's' ? width != 1 : width == 0) {
		return adm_fail(e, EINVAL, "a %s set of %zu drives can't be", kind, width);
	}
	return create_open(a, c, json_object_get(set, "drives"), s->drives, &s->width, e);
}

static int
create_parse(struct adm *a, json_t *args, struct create *c, struct adm_error *e)
{
	json_t *sets = json_object_get(args, "sets");
	size_t i;
	json_t *set;
	c->spec.name = adm_arg_string(args, "name", e);
	if (c->spec.name == NULL) {
		return -e->code;
	}
	if (json_array_size(sets) == 0 || json_array_size(sets) > SETS_MAX) {
		return adm_fail(e, EINVAL, "a pool has 1 to %u sets of drives", SETS_MAX);
	}
	c->spec.sets = c->sets;
	c->spec.logs = c->logs;
	c->spec.spares = c->spares;
	json_int_t log_bytes = json_integer_value(json_object_get(args, "log_bytes"));
	if (log_bytes < 0) {
		return adm_fail(e, EINVAL, "a log of %lld bytes can't be", (long long)log_bytes);
	}
	c->spec.log_bytes = (uint64_t)log_bytes;
	c->force = adm_arg_flag(args, "force");
	c->spec.host_name = a->host_name;
	c->spec.host_id = a->host_id;
	json_array_foreach(sets, i, set)
	{
		int err = create_set(a, c, set, e);
		if (err != 0) {
			return err;
		}
	}
	int err = create_open(a, c, json_object_get(args, "logs"), c->logs, &c->spec.log_count, e);
	if (err == 0) {
		err = create_open(
		    a, c, json_object_get(args, "spares"), c->spares, &c->spec.spare_count, e);
	}
	return err;
}

static int
create_check_drives(struct adm *a, const struct create *c, struct adm_error *e)
{
	int err = 0;
	for (uint32_t s = 0; s < c->spec.set_count; s++) {
		for (uint32_t i = 0; err == 0 && i < c->sets[s].width; i++) {
			err = drives_check_free(a, c->set_drives[s][i], false, c->force, e);
		}
	}
	for (uint32_t i = 0; err == 0 && i < c->spec.log_count; i++) {
		err = drives_check_free(a, c->logs[i], false, c->force, e);
	}
	for (uint32_t i = 0; err == 0 && i < c->spec.spare_count; i++) {
		err = drives_check_free(a, c->spares[i], true, c->force, e);
	}
	return err;
}

static json_t *
create_plan_json(const struct pool_plan *plan)
{
	return json_pack("{s:I, s:I, s:I, s:i}", "raw", (json_int_t)plan->raw_bytes, "usable",
	    (json_int_t)plan->usable_bytes, "log", (json_int_t)plan->log_ring_bytes,
	    "small_record_percent", (int)plan->small_record_percent);
}

static int
create_run(struct adm *a, json_t *args, struct create *c, json_t **out, struct adm_error *e)
{
	struct pool_plan plan;
	char why[256] = "";
	int err = create_parse(a, args, c, e);
	if (err != 0) {
		return err;
	}
	if (adm_find_pool(a, c->spec.name, strlen(c->spec.name)) != NULL) {
		return adm_fail(e, EEXIST, "a pool named '%.63s' exists", c->spec.name);
	}
	err = pool_plan_create(&c->spec, &plan, why, sizeof(why));
	if (err != 0) {
		return adm_fail(e, err, "%s", why[0] != '\0' ? why : err_str(err));
	}
	err = create_check_drives(a, c, e);
	if (err != 0) {
		return err;
	}
	if (adm_arg_flag(args, "dry_run")) {
		*out = create_plan_json(&plan);
		return 0;
	}
	struct pool *p;
	err = pool_create(&c->spec, &p, why, sizeof(why));
	if (err != 0) {
		adm_fail_untouched(e, "No pool was created; its drives may have been erased.");
		return adm_fail(e, err, "pool '%s' was not created: %s", c->spec.name,
		    why[0] != '\0' ? why : err_str(err));
	}
	memset(c, 0, sizeof(*c)); /* the pool owns the drives now */
	adm_fail_untouched(e, "The pool is on its drives; 'pool import' lists it.");
	err = adm_add_pool(a, p, e);
	if (err == 0) {
		*out = create_plan_json(&plan);
	}
	return err;
}

static int
pool_cmd_create(struct adm *a, json_t *args, json_t **out, struct adm_error *e)
{
	struct create *c = mem_zalloc(sizeof(*c));
	if (c == NULL) {
		return adm_fail(e, ENOMEM, "out of memory");
	}
	adm_fail_untouched(e, "No pool was created, no drive was written.");
	int err = create_run(a, args, c, out, e);
	create_close(c);
	mem_free(c);
	return err;
}

/* Out of service, then end(pool): export, release or destroy. */
int
adm_pool_close(struct adm *a, struct adm_pool *ap, int (*end)(struct pool *p), struct adm_error *e)
{
	struct pool *p = ap->pool;
	struct adm_pool gone = *ap;
	adm_fail_untouched(e, "The pool is out of service.");
	if (end != pool_destroy) {
		diary_gather(ap);
		diary_store(ap);
	}
	nfsd_remove_pool(a->nfsd, p);
	a->pool_count--;
	for (struct adm_pool *last = &a->pools[a->pool_count]; ap < last; ap++) {
		ap[0] = ap[1];
	}
	adm_pool_free(&gone);
	int err = shares_publish(a, e);
	int end_err = end(p);
	if (end_err != 0) {
		return adm_fail(
		    e, end_err, "the pool was closed, but not cleanly: %s", err_str(end_err));
	}
	return err;
}

static int
pool_cmd_destroy(struct adm *a, json_t *args, json_t **out, struct adm_error *e)
{
	struct adm_pool *ap = adm_arg_pool(a, args, e);
	if (ap == NULL) {
		return -e->code;
	}
	if (adm_arg_flag(args, "dry_run")) {
		struct pool_status st;
		int err = pool_get_status(ap->pool, &st);
		if (err != 0) {
			return adm_fail(e, err, "%s", err_str(err));
		}
		*out = json_pack("{s:i, s:I, s:i}", "drives", (int)st.drive_count, "used",
		    (json_int_t)st.raw_used_bytes, "shares",
		    (int)json_array_size(json_object_get(ap->shares, "shares")));
		pool_status_free(&st);
		return 0;
	}
	return adm_pool_close(a, ap, pool_destroy, e);
}

static int
pool_cmd_export(struct adm *a, json_t *args, json_t **out, struct adm_error *e)
{
	struct adm_pool *ap = adm_arg_pool(a, args, e);
	(void)out;
	return ap == NULL ? -e->code : adm_pool_close(a, ap, pool_release, e);
}

static int
pool_cmd_import(struct adm *a, json_t *args, json_t **out, struct adm_error *e)
{
	if (json_object_get(args, "pool") == NULL) {
		return imports_list(a, out, e);
	}
	return imports_run(a, args, out, e);
}

#define PROBLEMS_SHOWN 100u

static void
check_problem(void *arg, const char *what)
{
	json_t *list = arg;
	if (json_array_size(list) < PROBLEMS_SHOWN) {
		json_array_append_new(list, adm_text(what));
	}
}

static int
pool_cmd_check(struct adm *a, json_t *args, json_t **out, struct adm_error *e)
{
	struct adm_pool *ap = adm_arg_pool(a, args, e);
	if (ap == NULL) {
		return -e->code;
	}
	uint64_t blocks = 0, files = 0;
	json_t *problems = json_array();
	int err = pool_check(ap->pool, check_problem, problems, &blocks);
	if (err == 0) {
		err = fs_check(ap->fp, check_problem, problems, &files);
	}
	if (err != 0) {
		json_decref(problems);
		return adm_fail(e, err, "the check could not be finished: %s", err_str(err));
	}
	*out = json_pack("{s:I, s:o}", "problems", (json_int_t)(blocks + files), "list", problems);
	return 0;
}

const struct adm_command adm_pool_commands[] = {
    {"pool create", pool_cmd_create, ADM_CHANGE},
    {"pool destroy", pool_cmd_destroy, ADM_CHANGE},
    {"pool export", pool_cmd_export, ADM_CHANGE},
    {"pool import", pool_cmd_import, ADM_CHANGE},
    {"pool list", pool_cmd_list, ADM_LOOK},
    {"pool status", pool_cmd_status, ADM_LOOK},
    {"pool check", pool_cmd_check, ADM_LOOK_PRIVILEGED},
    {NULL, NULL, ADM_LOOK},
};
