/*
 * account_prop.c - quotas of users and groups as properties.
 *
 * userquota@ID, groupquota@ID (bytes), userobjquota@ID, groupobjquota@ID (files, directories and
 * so on) are local properties of a dataset with that very name; defaultuserquota and so on are for
 * everybody else. Neither is inherited, nor does a snapshot have any. The pool is told the whole
 * list when the dataset comes into service and whenever it changes.
 */
#include <stdio.h>
#include <stdlib.h>
#include "base/size.h"
#include "fs/fs_int.h"

static const struct {
	const char *name; /* "default" in front: the default */
	enum pool_account_kind kind;
	bool objects;
} kinds[] = {{"userquota", POOL_ACCOUNT_USER, false}, {"groupquota", POOL_ACCOUNT_GROUP, false},
    {"userobjquota", POOL_ACCOUNT_USER, true}, {"groupobjquota", POOL_ACCOUNT_GROUP, true}};

#define DEFAULT "default"

bool
prop_is_account_default(const char *name)
{
	if (strncmp(name, DEFAULT, strlen(DEFAULT)) != 0) {
		return false;
	}
	for (size_t i = 0; i < ARRAY_LEN(kinds); i++) {
		if (strcmp(name + strlen(DEFAULT), kinds[i].name) == 0) {
			return true;
		}
	}
	return false;
}

/* "userquota@7": which kind and whose; ARRAY_LEN(kinds): it isn't one. */
static size_t
name_parse(const char *name, uint32_t *out_id)
{
	const char *at = strchr(name, '@');
	size_t i = 0;
	char *end;
	if (at == NULL || at[1] < '0' || at[1] > '9' || (at[1] == '0' && at[2] != '\0')) {
		return ARRAY_LEN(kinds);
	}
	unsigned long long id = strtoull(at + 1, &end, 10);
	if (*end != '\0' || id > UINT32_MAX - 1) {
		return ARRAY_LEN(kinds);
	}
	while (i < ARRAY_LEN(kinds) && (strlen(kinds[i].name) != (size_t)(at - name) ||
					   memcmp(kinds[i].name, name, (size_t)(at - name)) != 0)) {
		i++;
	}
	*out_id = (uint32_t)id;
	return i;
}

bool
prop_is_account(const char *name)
{
	return strchr(name, '@') != NULL;
}

int
prop_account_check(const char *name, char *why, size_t why_len)
{
	uint32_t id;
	if (name_parse(name, &id) < ARRAY_LEN(kinds)) {
		return 0;
	}
	if (why == NULL) {
		return -ENOENT;
	}
	(void)snprintf(why, why_len,
	    "there is no property '%.60s'; use userquota@, groupquota@, userobjquota@ or "
	    "groupobjquota@ and a number from 0 to 4294967294",
	    name);
	return -ENOENT;
}

/* ---- the list for the pool ---- */

struct gather {
	struct pool_account_limit *v;
	uint32_t count, cap;
	struct pool_account_limits limits;
};

/* One property's; those of one account are joined when all are there. */
static struct pool_account_limit *
gather_one(struct gather *g, enum pool_account_kind kind, uint32_t id)
{
	if (g->count == g->cap) {
		uint32_t cap = g->cap * 2 + 16;
		struct pool_account_limit *v = mem_realloc(g->v, cap * sizeof(*v));
		if (v == NULL) {
			return NULL;
		}
		g->v = v;
		g->cap = cap;
	}
	g->v[g->count] = (struct pool_account_limit){.kind = kind, .id = id};
	return &g->v[g->count++];
}

static int
gather_each(void *arg, const char *key, const char *value)
{
	struct gather *g = arg;
	uint64_t n;
	uint32_t id;
	size_t k = name_parse(key, &id);
	if (size_parse(value, &n) != 0) {
		return 0;
	}
	if (k < ARRAY_LEN(kinds)) {
		struct pool_account_limit *l = gather_one(g, kinds[k].kind, id);
		if (l == NULL) {
			return -ENOMEM;
		}
		*(kinds[k].objects ? &l->objects : &l->bytes) = n;
		return 0;
	}
	for (k = 0; k < ARRAY_LEN(kinds) && prop_is_account_default(key); k++) {
		if (strcmp(key + strlen(DEFAULT), kinds[k].name) == 0) {
			uint64_t *by_kind =
			    kinds[k].objects ? g->limits.default_objects : g->limits.default_bytes;
			by_kind[kinds[k].kind] = n;
		}
	}
	return 0;
}

static int
limit_order(const void *a, const void *b)
{
	const struct pool_account_limit *x = a, *y = b;
	if (x->kind != y->kind) {
		return x->kind < y->kind ? -1 : 1;
	}
	return x->id < y->id ? -1 : x->id > y->id;
}

/* In order, each account once. */
static void
gather_join(struct gather *g)
{
	uint32_t n = 0;
	if (g->count > 1) {
		qsort(g->v, g->count, sizeof(*g->v), limit_order);
	}
	for (uint32_t i = 0; i < g->count; i++) {
		struct pool_account_limit *last = n > 0 ? &g->v[n - 1] : NULL;
		if (last != NULL && limit_order(last, &g->v[i]) == 0) {
			last->bytes |= g->v[i].bytes; /* one of both is 0 */
			last->objects |= g->v[i].objects;
		} else {
			g->v[n++] = g->v[i];
		}
	}
	g->count = n;
}

int
fs_account_limits(struct pool_ds *pds, struct pool_account_limits *out)
{
	struct gather g = {0};
	int err = pool_ds_prop_each(pds, gather_each, &g);
	if (err != 0) {
		mem_free(g.v);
		return err;
	}
	gather_join(&g);
	*out = g.limits;
	out->v = g.v;
	out->count = g.count;
	return 0;
}

void
account_limits_refresh(struct fs_ds *ds)
{
	struct pool_account_limits limits;
	int err = fs_account_limits(ds->pds, &limits);
	if (err == 0) {
		err = pool_ds_set_account_limits(ds->pds, &limits);
		mem_free((void *)(uintptr_t)limits.v);
	}
	if (err != 0) {
		log_error("fs-quotas-not-in-force ds=%016llx error=%s",
		    (unsigned long long)ds->guid, err_str(err));
	}
}

/* ---- set and told ---- */

int
prop_account_set(struct pool_ds *pds, const char *name, const char *value)
{
	if ((pool_features(pool_ds_pool(pds)) & FEATURE_RO_ACCOUNTS) == 0) {
		return -ERR_FEATURE;
	}
	bool none = value == NULL || strcmp(value, "none") == 0;
	return pool_ds_prop_set(pds, name, none ? NULL : value);
}

void
prop_account_reported(
    const struct prop_def *def, const char *name, struct pool_ds *pds, struct fs_prop *out)
{
	char text[64], why[160];
	memset(out, 0, sizeof(*out));
	out->name = name;
	out->is_number = true;
	if (pool_ds_prop_get(pds, name, text, sizeof(text)) != 0 ||
	    def->parse(text, out->value, sizeof(out->value), &out->number, why, sizeof(why)) != 0) {
		out->number = 0;
	}
	out->source = out->number != 0 ? FS_PROP_LOCAL : FS_PROP_DEFAULT;
	if (out->number == 0) {
		(void)snprintf(out->value, sizeof(out->value), "none");
	} else if (strstr(name, "objquota") == NULL) {
		fs_prop_size_text(out->number, out->value, sizeof(out->value));
	}
}

/* ---- what transactions say ---- */

void
need_owned(struct pool_need *need, uint32_t uid, uint32_t gid)
{
	need->owned = POOL_OWNED_UID | POOL_OWNED_GID;
	need->uid = uid;
	need->gid = gid;
}
