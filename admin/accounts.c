/* accounts.c - fs userspace, fs groupspace: what each user or group has, and his quotas. Numbers
 * only; names are the business of who asked. */
#include <stdio.h>
#include "admin/snap_names.h"

struct listing {
	enum pool_account_kind kind;
	struct pool_account_limits limits;
	uint32_t next; /* of limits.v: not told yet */
	json_t *rows;
};

static void
row_put(struct listing *l, const struct pool_account *a)
{
	const struct pool_account_limit *own = NULL;
	uint64_t bytes = 0, objects = 0;
	json_t *row = json_pack("{s:s, s:I, s:I, s:I}", "type",
	    l->kind == POOL_ACCOUNT_USER ? "user" : "group", "id", (json_int_t)a->id, "used",
	    (json_int_t)a->bytes, "objused", (json_int_t)a->objects);
	if (l->next < l->limits.count && l->limits.v[l->next].kind == l->kind &&
	    l->limits.v[l->next].id == a->id) {
		own = &l->limits.v[l->next++];
		bytes = own->bytes;
		objects = own->objects;
	}
	if (a->id != 0) {
		bytes = bytes != 0 ? bytes : l->limits.default_bytes[l->kind];
		objects = objects != 0 ? objects : l->limits.default_objects[l->kind];
	}
	if (bytes != 0) {
		json_object_set_new(row, "quota", json_integer((json_int_t)bytes));
	}
	if (objects != 0) {
		json_object_set_new(row, "objquota", json_integer((json_int_t)objects));
	}
	json_array_append_new(l->rows, row);
}

/* Those with a quota that have nothing yet, up to id. */
static void
rows_before(struct listing *l, uint64_t id)
{
	while (l->next < l->limits.count &&
	       (l->limits.v[l->next].kind < l->kind ||
		   (l->limits.v[l->next].kind == l->kind && l->limits.v[l->next].id < id))) {
		if (l->limits.v[l->next].kind < l->kind) {
			l->next++;
		} else {
			row_put(l, &(struct pool_account){.id = l->limits.v[l->next].id});
		}
	}
}

static int
row_each(void *arg, const struct pool_account *a)
{
	rows_before(arg, a->id);
	row_put(arg, a);
	return 0;
}

static int
space_open(struct adm_pool *ap, const char *name, struct pool_ds **out, struct adm_error *e)
{
	bool snap = strchr(name, '@') != NULL;
	int err = snap ? pool_snap_open(ap->pool, name, out) : pool_ds_open(ap->pool, name, out);
	if (err == 0) {
		return 0;
	}
	adm_fail_next(e, "'fs list -t all' shows what there is.");
	return adm_fail(e, err, "there is no %s '%.200s'", snap ? "snapshot" : "filesystem", name);
}

static int
space_list(
    struct adm *a, json_t *args, enum pool_account_kind kind, json_t **out, struct adm_error *e)
{
	const char *name = adm_arg_string(args, "name", e), *snap;
	char path[DATASET_NAME_MAX + 1];
	if (name == NULL) {
		return -e->code;
	}
	if (strchr(name, '@') != NULL && !snap_name_split(name, path, &snap)) {
		return adm_fail(e, EINVAL, "'%.100s' is no name of a snapshot", name);
	}
	struct adm_pool *ap = adm_pool_of(a, strchr(name, '@') != NULL ? path : name, e);
	struct listing l = {.kind = kind};
	struct pool_ds *ds;
	unsigned percent;
	if (ap == NULL || space_open(ap, name, &ds, e) != 0) {
		return -e->code;
	}
	int state = pool_accounts_state(ds, &percent);
	int err = state == -ERR_FEATURE ? state : 0;
	if (err == 0 && !pool_ds_is_snap(ds)) {
		err = fs_account_limits(ds, &l.limits);
	}
	l.rows = json_array();
	err = err != 0 ? err : pool_accounts_each(ds, kind, row_each, &l);
	pool_ds_close(ds);
	if (err == 0) {
		rows_before(&l, UINT64_MAX);
		*out = json_pack("{s:b, s:i, s:O}", "complete", state == 0, "percent", (int)percent,
		    "rows", l.rows);
	}
	json_decref(l.rows);
	mem_free((void *)(uintptr_t)l.limits.v);
	if (err == -ERR_FEATURE) {
		adm_fail_next(
		    e, "pool upgrade %s   counts them from then on.", pool_name(ap->pool));
		return adm_fail(e, err, "the pool was made before users and groups were counted");
	}
	return err == 0 ? 0
			: adm_fail(e, err, "the accounts of '%.200s' can't be read: %s", name,
			      err_str(err));
}

int
fs_cmd_userspace(struct adm *a, json_t *args, json_t **out, struct adm_error *e)
{
	return space_list(a, args, POOL_ACCOUNT_USER, out, e);
}

int
fs_cmd_groupspace(struct adm *a, json_t *args, json_t **out, struct adm_error *e)
{
	return space_list(a, args, POOL_ACCOUNT_GROUP, out, e);
}
