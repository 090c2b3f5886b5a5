/* cmd_pool.c - pool create, destroy, export, import, check: which pools there are. */
#include <stdio.h>
#include <stdlib.h>
#include "admin/layout.h"

static int
create_run(struct adm *a, json_t *args, struct layout *c, json_t **out, struct adm_error *e)
{
	struct pool_plan plan;
	char why[256] = "";
	c->spec.name = adm_arg_string(args, "name", e);
	if (c->spec.name == NULL) {
		return -e->code;
	}
	int err = layout_parse(a, args, c, e);
	if (err != 0) {
		return err;
	}
	if (c->spec.set_count == 0) {
		return adm_fail(e, EINVAL, "a pool has 1 to %u sets of drives", LAYOUT_SETS_MAX);
	}
	if (adm_find_pool(a, c->spec.name, strlen(c->spec.name)) != NULL) {
		return adm_fail(e, EEXIST, "a pool named '%.63s' exists", c->spec.name);
	}
	err = pool_plan_create(&c->spec, &plan, why, sizeof(why));
	if (err != 0) {
		return adm_fail(e, err, "%s", why[0] != '\0' ? why : err_str(err));
	}
	err = layout_check_drives(a, c, e);
	if (err != 0) {
		return err;
	}
	json_t *answer = layout_plan_json(&plan, c);
	if (adm_arg_flag(args, "dry_run")) {
		*out = answer;
		return 0;
	}
	struct pool *p;
	err = pool_create(&c->spec, &p, why, sizeof(why));
	if (err != 0) {
		json_decref(answer);
		adm_fail_untouched(e, "No pool was created; its drives may have been erased.");
		return adm_fail(e, err, "pool '%s' was not created: %s", c->spec.name,
		    why[0] != '\0' ? why : err_str(err));
	}
	memset(c, 0, sizeof(*c)); /* the pool owns the drives now */
	adm_fail_untouched(e, "The pool is on its drives; 'pool import' lists it.");
	err = adm_add_pool(a, p, e);
	if (err == 0) {
		*out = answer;
	} else {
		json_decref(answer);
	}
	return err;
}

static int
pool_cmd_create(struct adm *a, json_t *args, json_t **out, struct adm_error *e)
{
	struct layout *c = mem_zalloc(sizeof(*c));
	if (c == NULL) {
		return adm_fail(e, ENOMEM, "out of memory");
	}
	adm_fail_untouched(e, "No pool was created, no drive was written.");
	int err = create_run(a, args, c, out, e);
	layout_close(c);
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
	int err = fs_check_protected(ap, pool_name(ap->pool), true, e);
	return err != 0 ? err : adm_pool_close(a, ap, pool_destroy, e);
}

static int
pool_cmd_export(struct adm *a, json_t *args, json_t **out, struct adm_error *e)
{
	struct adm_pool *ap = adm_arg_pool(a, args, e);
	(void)out;
	if (ap == NULL) {
		return -e->code;
	}
	const char *name = pool_name(ap->pool);
	bool suspended = pool_is_suspended(ap->pool);
	if (suspended && !adm_arg_flag(args, "force")) {
		adm_fail_next(
		    e, "Reconnect its drives, or give it up for now: pool export -f %s", name);
		return adm_fail(e, ERR_SUSPENDED,
		    "pool '%s' is suspended: what its clients wait for can't be written", name);
	}
	int err = adm_pool_close(a, ap, pool_release, e);
	if (err == -ERR_SUSPENDED && suspended) {
		/* as was wished: what is in its log is replayed when it is taken up again */
		*e = (struct adm_error){0};
		err = 0;
		arrivals_expect(a);
	}
	return err;
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
