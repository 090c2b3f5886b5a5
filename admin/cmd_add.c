/* cmd_add.c - pool add: more sets and spares for a pool in service. */
#include <stdio.h>
#include "admin/layout.h"

static int
add_sets(struct adm_pool *ap, struct layout *l, bool dry_run, json_t **out, struct adm_error *e)
{
	struct pool_add_spec spec = {
	    .sets = l->sets, .set_count = l->spec.set_count, .mixed = l->force, .dry_run = dry_run};
	struct pool_plan plan = {0};
	char why[256];
	int err = pool_add(ap->pool, &spec, &plan, why, sizeof(why));
	json_t *answer =
	    layout_plan_json(&plan, l); /* the drives are open still, whosever they are */
	if (err != 0) {
		json_decref(answer);
		if (strstr(why, "differs") != NULL) {
			adm_fail_next(e, "Data sets can't be removed again. If you want that all "
					 "the same, add -f.");
		}
		return adm_fail(e, err, "nothing can be added to pool '%s': %s",
		    pool_name(ap->pool), why[0] != '\0' ? why : err_str(err));
	}
	if (!dry_run) {
		for (uint32_t i = 0; i < l->spec.set_count; i++) {
			l->sets[i].width = 0; /* the pool owns the drives now */
		}
	}
	*out = answer;
	return 0;
}

/* The first one says how large the log is. */
static int
add_logs(struct adm_pool *ap, struct layout *l, struct adm_error *e)
{
	char why[256];
	while (l->spec.log_count > 0) {
		struct kb_drive *d = l->logs[l->spec.log_count - 1];
		int err = pool_log_add(ap->pool, d, l->spec.log_bytes, why, sizeof(why));
		if (err != 0) {
			return adm_fail(e, err, "drive %.160s can't be a log drive: %s", kb_path(d),
			    why[0] != '\0' ? why : err_str(err));
		}
		l->spec.log_count--;
		adm_fail_untouched(e, "What was added before stays.");
	}
	return 0;
}

static int
add_spares(struct adm_pool *ap, struct layout *l, struct adm_error *e)
{
	char why[256];
	while (l->spec.spare_count > 0) {
		struct kb_drive *d = l->spares[l->spec.spare_count - 1];
		int err = pool_spare_add(ap->pool, d, why, sizeof(why));
		if (err != 0) {
			return adm_fail(e, err, "drive %.160s can't be a spare: %s", kb_path(d),
			    why[0] != '\0' ? why : err_str(err));
		}
		l->spec.spare_count--;
		adm_fail_untouched(e, "What was added before stays.");
	}
	return 0;
}

static int
add_run(struct adm *a, struct adm_pool *ap, json_t *args, struct layout *l, json_t **out,
    struct adm_error *e)
{
	bool dry_run = adm_arg_flag(args, "dry_run");
	int err = layout_parse(a, args, l, e);
	if (err == 0) {
		err = layout_check_drives(a, l, e);
	}
	if (err == 0 && l->spec.set_count + l->spec.spare_count + l->spec.log_count == 0) {
		err = adm_fail(e, EINVAL, "no drives to add");
	}
	if (err == 0 && l->spec.set_count == 0 && l->spec.log_count > 0) {
		struct pool_plan none = {.tolerates = 1};
		*out =
		    layout_plan_json(&none, l); /* for what is to be said against the log drives */
	}
	if (err == 0 && l->spec.set_count > 0) {
		err = add_sets(ap, l, dry_run, out, e);
	}
	if (err == 0 && !dry_run) {
		err = add_logs(ap, l, e);
	}
	return err == 0 && !dry_run ? add_spares(ap, l, e) : err;
}

int
pool_cmd_add(struct adm *a, json_t *args, json_t **out, struct adm_error *e)
{
	struct adm_pool *ap = adm_arg_pool(a, args, e);
	struct layout *l = ap != NULL ? mem_zalloc(sizeof(*l)) : NULL;
	if (ap == NULL) {
		return -e->code;
	}
	if (l == NULL) {
		return adm_fail(e, ENOMEM, "out of memory");
	}
	int err = add_run(a, ap, args, l, out, e);
	layout_close(l);
	mem_free(l);
	return err;
}
