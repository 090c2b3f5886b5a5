/* fakepool_ds.c - datasets of the pool without drives. */
#include <stdio.h>
#include "tests/lib/fakepool_int.h"

struct pool_ds *
fake_ds_find(struct pool *p, const char *path)
{
	list_for_each(it, &p->datasets)
	{
		struct pool_ds *ds = list_entry(it, struct pool_ds, link);
		if (!ds->destroyed && strcmp(ds->path, path) == 0) {
			return ds;
		}
	}
	return NULL;
}

static bool
is_below(const char *path, const char *top)
{
	size_t len = strlen(top);
	return strncmp(path, top, len) == 0 && path[len] == '/';
}

int
pool_ds_create(struct pool *p, const char *path, struct pool_ds **out)
{
	char parent[DATASET_NAME_MAX + 1];
	(void)snprintf(parent, sizeof(parent), "%s", path);
	char *slash = strrchr(parent, '/');
	if (slash == NULL || slash[1] == 0) {
		return -EINVAL;
	}
	*slash = 0;
	if (fake_ds_find(p, path) != NULL) {
		return -EEXIST;
	}
	if (fake_ds_find(p, parent) == NULL) {
		return -ENOENT;
	}
	*out = pool_ds_ref(fake_ds_new(p, path, p->next_guid++));
	return 0;
}

int
pool_ds_destroy(struct pool *p, const char *path)
{
	struct pool_ds *ds = fake_ds_find(p, path);
	if (ds == NULL) {
		return -ENOENT;
	}
	list_for_each(it, &p->datasets)
	{
		struct pool_ds *other = list_entry(it, struct pool_ds, link);
		if (strcmp(path, p->name) == 0 ||
		    (!other->destroyed && is_below(other->path, path))) {
			return -EBUSY;
		}
	}
	ds->destroyed = true;
	return 0;
}

int
pool_ds_rename(struct pool *p, const char *path, const char *new_path)
{
	struct pool_ds *ds = fake_ds_find(p, path);
	if (ds == NULL) {
		return -ENOENT;
	}
	if (fake_ds_find(p, new_path) != NULL) {
		return -EEXIST;
	}
	(void)snprintf(ds->path, sizeof(ds->path), "%s", new_path);
	return 0;
}

int
pool_ds_open(struct pool *p, const char *path, struct pool_ds **out)
{
	struct pool_ds *ds = fake_ds_find(p, path);
	if (ds == NULL) {
		return -ENOENT;
	}
	*out = pool_ds_ref(ds);
	return 0;
}

struct pool_ds *
pool_ds_ref(struct pool_ds *ds)
{
	ds->refs++;
	return ds;
}

void
pool_ds_close(struct pool_ds *ds)
{
	ASSERT(ds->refs > 1);
	ds->refs--;
}

int
pool_ds_each(struct pool *p, const char *path, bool recursive,
    int (*each)(void *arg, struct pool_ds *ds), void *arg)
{
	if (fake_ds_find(p, path) == NULL) {
		return -ENOENT;
	}
	list_for_each(it, &p->datasets)
	{
		struct pool_ds *ds = list_entry(it, struct pool_ds, link);
		bool wanted =
		    strcmp(ds->path, path) == 0 || (recursive && is_below(ds->path, path));
		int err = wanted && !ds->destroyed ? each(arg, ds) : 0;
		if (err != 0) {
			return err;
		}
	}
	return 0;
}

void
pool_ds_get_info(struct pool_ds *ds, struct pool_ds_info *out)
{
	memset(out, 0, sizeof(*out));
	memcpy(out->path, ds->path, sizeof(out->path));
	out->guid = ds->guid;
	out->incarnation = ds->incarnation;
	out->create_time = 1700000000;
	out->object_count = ds->object_count;
	out->used_bytes = 3 * MIB;
	out->referenced_bytes = 2 * MIB;
	out->logical_bytes = 3 * MIB;
	out->available_bytes = out->free_bytes = GIB;
	out->size_bytes = out->free_bytes + out->referenced_bytes;
	out->destroyed = ds->destroyed;
}

void
pool_ds_get_limits(struct pool_ds *ds, struct pool_limits *out)
{
	*out = ds->limits;
}

int
pool_ds_set_limits(struct pool_ds *ds, const struct pool_limits *l)
{
	if (l->reservation > GIB) {
		return -ENOSPC;
	}
	ds->limits = *l;
	return 0;
}

int
pool_ds_prop_each(
    struct pool_ds *ds, int (*each)(void *arg, const char *key, const char *value), void *arg)
{
	int err = 0;

	for (uint32_t i = 0; i < ds->prop_count && err == 0; i++) {
		err = each(arg, ds->props[i].key, ds->props[i].value);
	}
	return err;
}

uint64_t
pool_features(struct pool *p UNUSED)
{
	return FEATURE_RO_SNAPSHOTS | FEATURE_RO_LIMITS | FEATURE_RO_ACCOUNTS;
}

struct pool *
pool_ds_pool(struct pool_ds *ds)
{
	return ds->pool;
}

/* ---- accounts: nobody has anything, and no quota holds ---- */

int
pool_accounts_state(struct pool_ds *ds UNUSED, unsigned *out_percent)
{
	*out_percent = 100;
	return 0;
}

int
pool_accounts_each(struct pool_ds *ds UNUSED, enum pool_account_kind kind UNUSED,
    int (*fn)(void *arg, const struct pool_account *a) UNUSED, void *arg UNUSED)
{
	return 0;
}

int
pool_ds_set_account_limits(struct pool_ds *ds, const struct pool_account_limits *l)
{
	ds->account_limits = l->count;
	ds->account_limit = l->count > 0 ? l->v[0] : (struct pool_account_limit){0};
	ds->account_default = l->default_bytes[POOL_ACCOUNT_USER];
	return 0;
}

int
pool_account_left(struct pool_ds *ds UNUSED, enum pool_account_kind kind UNUSED, uint32_t id UNUSED,
    uint64_t *out_bytes, uint64_t *out_objects)
{
	*out_bytes = *out_objects = UINT64_MAX;
	return 0;
}

uint64_t
pool_ds_guid(const struct pool_ds *ds)
{
	return ds->guid;
}

uint64_t
pool_ds_incarnation(const struct pool_ds *ds)
{
	return ds->incarnation;
}

static struct fake_prop *
prop_of(struct pool_ds *ds, const char *key)
{
	for (uint32_t i = 0; i < ds->prop_count; i++) {
		if (strcmp(ds->props[i].key, key) == 0) {
			return &ds->props[i];
		}
	}
	return NULL;
}

int
pool_ds_prop_set(struct pool_ds *ds, const char *key, const char *value)
{
	struct fake_prop *prop = prop_of(ds, key);
	if (value == NULL) {
		if (prop != NULL) {
			*prop = ds->props[--ds->prop_count];
		}
		return 0;
	}
	if (prop == NULL) {
		ASSERT(ds->prop_count < ARRAY_LEN(ds->props));
		prop = &ds->props[ds->prop_count++];
	}
	(void)snprintf(prop->key, sizeof(prop->key), "%s", key);
	(void)snprintf(prop->value, sizeof(prop->value), "%s", value);
	return 0;
}

int
pool_ds_prop_get(struct pool_ds *ds, const char *key, char *out, size_t len)
{
	const struct fake_prop *prop = prop_of(ds, key);
	if (prop == NULL) {
		return -ENOENT;
	}
	(void)snprintf(out, len, "%s", prop->value);
	return 0;
}

void
pool_ds_set_policy(struct pool_ds *ds, const struct pool_ds_policy *policy)
{
	(void)ds;
	ASSERT(policy->record_bytes >= SECTOR_BYTES && policy->record_bytes <= MIB);
	ASSERT(policy->zstd_level >= 1 && policy->zstd_level <= 19);
}

void
pool_ds_owner_get(struct pool_ds *ds, void *out, uint32_t len)
{
	memcpy(out, ds->owner, len);
}

void
pool_ds_owner_set(struct pool_tx *tx, struct pool_ds *ds, const void *data, uint32_t len)
{
	(void)tx;
	memcpy(ds->owner, data, len);
}

uint64_t
pool_ds_root_object(const struct pool_ds *ds)
{
	return ds->root_object;
}

void
pool_ds_set_root_object(struct pool_tx *tx, struct pool_ds *ds, uint64_t object)
{
	(void)tx;
	ds->root_object = object;
}
