/*
 * dataset_prop.c - local properties: one list of strings, sorted by key, replaced as a whole.
 */
#include "pool/dataset.h"

#define KEY_MAX 255u
#define VALUE_MAX 4096u
#define PROPS_MAX (256u << 10)

/* Under datasets.lock. The pair at or behind where key belongs; *found: it is key's. */
static uint32_t
pair_find(const struct pool_ds *ds, const char *key, bool *found)
{
	uint32_t at = 0;

	*found = false;
	while (at < ds->props_bytes) {
		int order = strcmp(ds->props + at, key);

		if (order >= 0) {
			*found = order == 0;
			break;
		}
		at += (uint32_t)strlen(ds->props + at) + 1;
		at += (uint32_t)strlen(ds->props + at) + 1;
	}
	return at;
}

static uint32_t
pair_bytes(const struct pool_ds *ds, uint32_t at)
{
	uint32_t key = (uint32_t)strlen(ds->props + at) + 1;

	return key + (uint32_t)strlen(ds->props + at + key) + 1;
}

int
pool_ds_prop_get(struct pool_ds *ds, const char *key, char *out, size_t len)
{
	const char *value;
	bool found;
	uint32_t at;
	int err = 0;

	mutex_lock(&ds->p->datasets->lock);
	at = pair_find(ds, key, &found);
	if (!found) {
		err = -ENOENT;
	} else {
		value = ds->props + at + strlen(key) + 1;
		if (strlen(value) >= len) {
			err = -ENAMETOOLONG;
		} else {
			memcpy(out, value, strlen(value) + 1);
		}
	}
	mutex_unlock(&ds->p->datasets->lock);
	return err;
}

/* Under the lock: the list without key, and with the new pair unless value is NULL. */
static int
props_replace(struct pool_ds *ds, const char *key, const char *value)
{
	bool found;
	uint32_t at = pair_find(ds, key, &found);
	uint32_t gone = found ? pair_bytes(ds, at) : 0;
	uint32_t key_len = (uint32_t)strlen(key) + 1;
	uint32_t fresh_len = value != NULL ? key_len + (uint32_t)strlen(value) + 1 : 0;
	uint32_t total = ds->props_bytes - gone + fresh_len;
	char *list;

	if (total > PROPS_MAX) {
		return -ENOSPC;
	}
	list = mem_zalloc(MAX(total, 1u));
	if (list == NULL) {
		return -ENOMEM;
	}
	if (at > 0) {
		memcpy(list, ds->props, at);
	}
	if (value != NULL) {
		memcpy(list + at, key, key_len);
		memcpy(list + at + key_len, value, fresh_len - key_len);
	}
	if (at + gone < ds->props_bytes) {
		memcpy(list + at + fresh_len, ds->props + at + gone, ds->props_bytes - at - gone);
	}
	mem_free(ds->props);
	ds->props = list;
	ds->props_bytes = total;
	ds->phys_dirty = true;
	return 0;
}

int
pool_ds_prop_set(struct pool_ds *ds, const char *key, const char *value)
{
	struct pool *p = ds->p;
	int err;

	if (key[0] == '\0' || strlen(key) > KEY_MAX ||
	    (value != NULL && strlen(value) > VALUE_MAX)) {
		return -EINVAL;
	}
	if (p->readonly) {
		return -EROFS;
	}
	if (atomic_load(&p->suspended)) {
		return -ERR_SUSPENDED;
	}
	mutex_lock(&p->datasets->lock);
	err = atomic_load(&ds->destroyed) ? -ESTALE : props_replace(ds, key, value);
	mutex_unlock(&p->datasets->lock);
	return err != 0 ? err : pool_sync(p);
}

int
pool_ds_prop_each(
    struct pool_ds *ds, int (*each)(void *arg, const char *key, const char *value), void *arg)
{
	char *copy;
	uint32_t len, at = 0;
	int err = 0;

	mutex_lock(&ds->p->datasets->lock);
	len = ds->props_bytes;
	copy = mem_zalloc(len + 1);
	if (copy != NULL && len > 0) {
		memcpy(copy, ds->props, len);
	}
	mutex_unlock(&ds->p->datasets->lock);
	if (copy == NULL) {
		return -ENOMEM;
	}
	while (at < len && err == 0) {
		const char *key = copy + at;
		const char *value = key + strlen(key) + 1;

		err = each(arg, key, value);
		at += (uint32_t)(strlen(key) + 1 + strlen(value) + 1);
	}
	mem_free(copy);
	return err;
}
