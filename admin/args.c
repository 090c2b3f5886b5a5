/* args.c - what the commands share: arguments, pools by name. */
#include <stdio.h>
#include "admin/admin_int.h"

const char *
adm_arg_string(json_t *args, const char *key, struct adm_error *e)
{
	const char *s = json_string_value(json_object_get(args, key));
	if (s == NULL || s[0] == '\0') {
		adm_fail(e, EINVAL, "the argument '%s' is missing", key);
		return NULL;
	}
	return s;
}

bool
adm_arg_flag(json_t *args, const char *key)
{
	return json_is_true(json_object_get(args, key));
}

struct adm_pool *
adm_find_pool(struct adm *a, const char *name, size_t len)
{
	for (uint32_t i = 0; i < a->pool_count; i++) {
		const char *have = pool_name(a->pools[i].pool);
		if (strlen(have) == len && strncmp(have, name, len) == 0) {
			return &a->pools[i];
		}
	}
	return NULL;
}

struct adm_pool *
adm_arg_pool(struct adm *a, json_t *args, struct adm_error *e)
{
	const char *name = adm_arg_string(args, "pool", e);
	if (name == NULL) {
		return NULL;
	}
	struct adm_pool *ap = adm_find_pool(a, name, strlen(name));
	if (ap == NULL) {
		adm_fail_untouched(e, "Nothing was changed.");
		adm_fail_next(e, "'pool list' shows the pools in service.");
		adm_fail(e, ENOENT, "there is no pool '%.100s' in service", name);
	}
	return ap;
}

void
adm_pool_free(struct adm_pool *ap)
{
	json_decref(ap->shares);
	json_decref(ap->props);
	diary_free(ap->diary);
	damages_free(ap->damages);
	sched_free(ap);
}

struct adm_pool *
adm_pool_of(struct adm *a, const char *dataset, struct adm_error *e)
{
	size_t len = strcspn(dataset, "/@");
	struct adm_pool *ap = adm_find_pool(a, dataset, len);
	if (ap == NULL) {
		adm_fail_next(e,
		    "'pool list' shows the pools in service, 'pool import' those that could be.");
		adm_fail(e, ENOENT, "there is no pool '%.*s' in service", (int)MIN(len, (size_t)64),
		    dataset);
	}
	return ap;
}

int
adm_add_pool(struct adm *a, struct pool *p, struct adm_error *e)
{
	if (a->pool_count == ADM_POOLS_MAX) {
		(void)pool_export(p);
		return adm_fail(e, ENOSPC, "there are %u pools in service already", ADM_POOLS_MAX);
	}
	struct adm_pool fresh = {.pool = p};
	int err = nfsd_add_pool(a->nfsd, p, &fresh.fp);
	if (err != 0) {
		adm_fail(e, err, "pool '%s' can't be brought into service: %s", pool_name(p),
		    err_str(err));
		(void)pool_export(p);
		return err;
	}
	/* by name, which is the order of every list */
	uint32_t at = a->pool_count++;
	while (at > 0 && strcmp(pool_name(a->pools[at - 1].pool), pool_name(p)) > 0) {
		a->pools[at] = a->pools[at - 1];
		at--;
	}
	struct adm_pool *ap = &a->pools[at];
	*ap = fresh;
	/* a damaged list of shares doesn't keep the pool away: it is said, and only shares fail */
	struct adm_error bad = {0};
	if (shares_load(a, ap, &bad) != 0) {
		log_error("shares-not-loaded pool=%s reason=\"%s\"", pool_name(p), bad.message);
	}
	if (sched_load(ap, &bad) != 0) {
		log_error("schedules-not-loaded pool=%s reason=\"%s\"", pool_name(p), bad.message);
		sched_free(ap);
	}
	if (props_load(ap, &bad) != 0) {
		log_error("properties-not-loaded pool=%s reason=\"%s\"", pool_name(p), bad.message);
	}
	if (diary_load(ap, &bad) != 0) {
		log_error("history-not-loaded pool=%s reason=\"%s\"", pool_name(p), bad.message);
	}
	if (damages_load(ap) != 0) {
		log_error("damages-not-loaded pool=%s", pool_name(p));
	}
	props_apply(ap);
	return shares_publish(a, e);
}

void
adm_guid_text(const struct guid *g, char out[33])
{
	for (size_t i = 0; i < sizeof(g->b); i++) {
		snprintf(out + i * 2, 3, "%02x", g->b[i]);
	}
}
