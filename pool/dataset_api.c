/*
 * dataset_api.c - what the rooms above ask of datasets. Changes of the tree happen in memory under
 * datasets.lock and are durable when the call returns: it waits for a txg that began after them.
 */
#include <stdio.h>

#include "pool/figures.h"
#include "pool/snap.h"

/* Raw space that an administrative change may need: a description and the way to it, three times.
 */
#define ADMIN_SECTORS 256u

/* ---- names ---- */

bool
ds_component_is_valid(const char *name, size_t len)
{
	if (len == 0 || (name[0] == '.' && (len == 1 || (len == 2 && name[1] == '.')))) {
		return false;
	}
	for (size_t i = 0; i < len; i++) {
		char c = name[i];
		bool ok = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
			  (c >= '0' && c <= '9') || strchr("_-.: ", c) != NULL;

		if (!ok) {
			return false;
		}
	}
	return true;
}

struct pool_ds *
ds_child_find(struct pool_ds *parent, const char *name, size_t len)
{
	list_for_each(l, &parent->children)
	{
		struct pool_ds *ds = list_entry(l, struct pool_ds, sibling);

		if (strncmp(ds->name, name, len) == 0 && ds->name[len] == '\0') {
			return ds;
		}
	}
	return NULL;
}

/* Under the lock. The dataset of path, or NULL. */
struct pool_ds *
ds_path_find(struct pool *p, const char *path)
{
	size_t len = strlen(p->name);
	struct pool_ds *ds = p->datasets->root;

	if (strncmp(path, p->name, len) != 0 || (path[len] != '\0' && path[len] != '/')) {
		return NULL;
	}
	path += len;
	while (ds != NULL && *path == '/') {
		path++;
		len = strcspn(path, "/");
		ds = ds_child_find(ds, path, len);
		path += len;
	}
	return ds;
}

/* Splits at the last slash: the parent's path into out (cap DATASET_NAME_MAX + 1). NULL: no parent,
 * or a bad name. */
const char *
ds_path_split(const char *path, char *out)
{
	const char *slash = strrchr(path, '/');

	if (slash == NULL || strlen(path) > DATASET_NAME_MAX ||
	    !ds_component_is_valid(slash + 1, strlen(slash + 1))) {
		return NULL;
	}
	memcpy(out, path, (size_t)(slash - path));
	out[slash - path] = '\0';
	return slash + 1;
}

/* Under the lock. */
size_t
ds_path_of(const struct pool_ds *ds, char *out)
{
	size_t len;

	if (ds->parent == NULL) {
		len = strlen(ds->p->name);
		memcpy(out, ds->p->name, len + 1);
		return len;
	}
	len = ds_path_of(ds->parent, out);
	if (len + 1 + strlen(ds->name) > DATASET_NAME_MAX) {
		return len; /* renames keep paths short enough; a pool's new name may not */
	}
	out[len++] = '/';
	memcpy(out + len, ds->name, strlen(ds->name) + 1);
	return len + strlen(ds->name);
}

/* ---- opening ---- */

int
pool_ds_open(struct pool *p, const char *path, struct pool_ds **out)
{
	struct pool_ds *ds;

	mutex_lock(&p->datasets->lock);
	ds = ds_path_find(p, path);
	if (ds != NULL) {
		*out = pool_ds_ref(ds);
	}
	mutex_unlock(&p->datasets->lock);
	return ds != NULL ? 0 : -ENOENT;
}

static struct pool_ds *
guid_find(struct pool_ds *ds, uint64_t guid)
{
	struct pool_ds *found = ds->guid == guid ? ds : NULL;

	list_for_each(l, &ds->children)
	{
		if (found != NULL) {
			break;
		}
		found = guid_find(list_entry(l, struct pool_ds, sibling), guid);
	}
	return found;
}

int
pool_ds_open_guid(struct pool *p, uint64_t guid, struct pool_ds **out)
{
	struct pool_ds *ds;

	mutex_lock(&p->datasets->lock);
	ds = guid_find(p->datasets->root, guid);
	if (ds != NULL) {
		*out = pool_ds_ref(ds);
	}
	mutex_unlock(&p->datasets->lock);
	return ds != NULL ? 0 : -ENOENT;
}

/* Under the lock: handles of ds and what is below, in order of name. */
static uint32_t
handles_take(struct pool_ds *ds, bool recursive, struct pool_ds **v, uint32_t at)
{
	v[at++] = pool_ds_ref(ds);
	if (recursive) {
		list_for_each(l, &ds->children)
		{
			at = handles_take(list_entry(l, struct pool_ds, sibling), true, v, at);
		}
	}
	return at;
}

int
pool_ds_each(struct pool *p, const char *path, bool recursive,
    int (*each)(void *arg, struct pool_ds *ds), void *arg)
{
	struct datasets *d = p->datasets;
	struct pool_ds **v, *ds;
	uint32_t count = 0;
	int err = 0;

	mutex_lock(&d->lock);
	ds = ds_path_find(p, path);
	v = ds == NULL ? NULL : mem_zalloc_array((size_t)d->count, sizeof(struct pool_ds *));
	if (v != NULL) {
		count = handles_take(ds, recursive, v, 0);
	}
	mutex_unlock(&d->lock);
	if (v == NULL) {
		return ds == NULL ? -ENOENT : -ENOMEM;
	}
	for (uint32_t i = 0; i < count; i++) {
		if (err == 0) {
			err = each(arg, v[i]);
		}
		pool_ds_close(v[i]);
	}
	mem_free(v);
	return err;
}

/* ---- changing the tree ---- */

int
ds_admin_check(struct pool *p, enum space_level level)
{
	if (p->readonly) {
		return -EROFS;
	}
	if (atomic_load(&p->suspended)) {
		return -ERR_SUSPENDED;
	}
	return tx_room_check(p, ADMIN_SECTORS, level);
}

int
ds_place(struct pool *p, const char *parent_path, const char *name, struct pool_ds *ds)
{
	struct pool_ds *parent = ds_path_find(p, parent_path);

	if (parent == NULL) {
		return -ENOENT;
	}
	if (ds_child_find(parent, name, strlen(name)) != NULL) {
		return -EEXIST;
	}
	memcpy(ds->name, name, strlen(name) + 1);
	ds->guid = ds_guid_make();
	ds->create_time = rt_wall_ns() / NSEC_PER_SEC;
	ds->create_txg = txg_open(p->txgs);
	ds->phys_dirty = true;
	ds->policy = parent->policy;
	ds_attach(parent, ds);
	atomic_store(&ds->accept_txg, txg_open(p->txgs) + TXG_FALLBACK);
	return 0;
}

int
ds_wait_safe(struct pool *p, uint64_t txg)
{
	int err = 0;

	for (unsigned i = 0; i <= TXG_FALLBACK && err == 0; i++) {
		err = txg_wait(p->txgs, txg + i);
	}
	return err;
}

int
pool_ds_create(struct pool *p, const char *path, struct pool_ds **out)
{
	char parent_path[DATASET_NAME_MAX + 1];
	const char *name = ds_path_split(path, parent_path);
	struct pool_ds *ds;
	int err = name == NULL ? -EINVAL : ds_admin_check(p, SPACE_ADMIN);

	if (err != 0) {
		return err;
	}
	ds = ds_make(p, false);
	if (ds == NULL) {
		return -ENOMEM;
	}
	mutex_lock(&p->datasets->lock);
	err = ds_place(p, parent_path, name, ds);
	if (err == 0) {
		(void)pool_ds_ref(ds);
	}
	mutex_unlock(&p->datasets->lock);
	err = err != 0 ? err : ds_wait_safe(p, txg_open(p->txgs));
	if (err != 0) {
		pool_ds_close(ds);
		return err;
	}
	*out = ds;
	return 0;
}

/*
 * The flag first, then a hold: whoever joined before it was seen is in the txg of the hold or an
 * older one, so nothing of the dataset is changed in a later one.
 */
static void
destroy_locked(struct pool *p, struct pool_ds *ds)
{
	struct datasets *d = p->datasets;

	list_remove(&ds->sibling);
	list_push_back(&d->zombies, &ds->zombie);
	d->count--;
	d->phys_dirty = true;
	ds->destroy_txg = UINT64_MAX; /* until it is known */
	atomic_store(&ds->destroyed, true);
	atomic_fetch_add(&ds->incarnation, 1);
}

int
pool_ds_destroy(struct pool *p, const char *path)
{
	unsigned reactor = rt_reactor_self();
	struct pool_ds *ds;
	uint64_t txg;
	int err = ds_admin_check(p, SPACE_ALL);

	if (err != 0) {
		return err;
	}
	mutex_lock(&p->datasets->lock);
	ds = ds_path_find(p, path);
	if (ds == NULL) {
		err = -ENOENT;
	} else if (ds->parent == NULL || !list_empty(&ds->children) ||
		   chain_owner(ds)->snap_count > 0 || ds->not_yet) {
		err = -EBUSY;
	} else {
		(void)pool_ds_ref(ds);
		destroy_locked(p, ds);
	}
	mutex_unlock(&p->datasets->lock);
	if (err != 0) {
		return err;
	}
	txg_hold_open(p->txgs, reactor, &txg);
	mutex_lock(&p->datasets->lock);
	ds->destroy_txg = txg;
	mutex_unlock(&p->datasets->lock);
	txg_hold_drop(p->txgs, reactor, txg);
	pool_ds_close(ds);
	return txg_wait(p->txgs, txg);
}

static bool
is_below(const struct pool_ds *ds, const struct pool_ds *top)
{
	while (ds != NULL && ds != top) {
		ds = ds->parent;
	}
	return ds != NULL;
}

static int
rename_locked(struct pool *p, const char *path, const char *parent_path, const char *name)
{
	struct pool_ds *ds = ds_path_find(p, path);
	struct pool_ds *parent = ds_path_find(p, parent_path);
	struct pool_ds *there;

	if (ds == NULL || parent == NULL) {
		return -ENOENT;
	}
	if (ds->parent == NULL || is_below(parent, ds)) {
		return -EINVAL;
	}
	there = ds_child_find(parent, name, strlen(name));
	if (there != NULL) {
		return there == ds ? 0 : -EEXIST;
	}
	list_remove(&ds->sibling);
	p->datasets->count--;
	memset(ds->name, 0, sizeof(ds->name));
	memcpy(ds->name, name, strlen(name) + 1);
	ds_attach(parent, ds);
	ds->phys_dirty = true;
	return 0;
}

int
pool_ds_rename(struct pool *p, const char *path, const char *new_path)
{
	char parent_path[DATASET_NAME_MAX + 1];
	const char *name = ds_path_split(new_path, parent_path);
	int err = name == NULL ? -EINVAL : ds_admin_check(p, SPACE_ADMIN);

	if (err != 0) {
		return err;
	}
	mutex_lock(&p->datasets->lock);
	err = rename_locked(p, path, parent_path, name);
	mutex_unlock(&p->datasets->lock);
	return err != 0 ? err : pool_sync(p);
}

/* ---- asking ---- */

/* Under the lock. */
static void
snap_path_of(const struct snap *s, char *out)
{
	size_t len = ds_path_of(s->head, out);

	(void)snprintf(out + len, DATASET_NAME_MAX + 1 - len, "@%s", s->name);
}

/* Under the lock: what depends on the tree and the chain. */
static void
info_fill_tree(struct pool_ds *ds, struct pool_ds_info *out)
{
	struct pool_ds *chain = ds->not_yet && ds->rollback != NULL ? ds->rollback->old : ds;

	if (pool_ds_is_snap(ds)) {
		out->referenced_bytes = space_data_bytes(ds->p, atomic_load(&ds->used_sectors));
		if (ds->snap != NULL) {
			out->written_bytes = space_data_bytes(ds->p, ds->snap->written);
			snap_path_of(ds->snap, out->path);
		}
		return;
	}
	(void)ds_path_of(ds, out->path);
	out->parent_guid = ds->parent != NULL ? ds->parent->guid : 0;
	figures_info(ds, out);
	out->snapshot_count = chain_shown(chain);
	if (chain->origin != NULL) {
		out->origin_guid = chain->origin->guid;
		snap_path_of(chain->origin, out->origin);
	}
}

void
pool_ds_get_info(struct pool_ds *ds, struct pool_ds_info *out)
{
	struct pool *p = ds->p;

	memset(out, 0, sizeof(*out));
	mutex_lock(&p->datasets->lock);
	info_fill_tree(ds, out);
	mutex_unlock(&p->datasets->lock);
	out->guid = pool_ds_guid(ds);
	out->incarnation = atomic_load(&ds->incarnation);
	out->create_time = ds->create_time;
	out->object_count = atomic_load(&ds->object_count);
	out->logical_bytes = atomic_load(&ds->data_bytes);
	out->destroyed = atomic_load(&ds->destroyed);
}

struct pool *
pool_ds_pool(struct pool_ds *ds)
{
	return ds->p;
}

uint64_t
pool_ds_guid(const struct pool_ds *ds)
{
	return pool_ds_is_snap(ds) ? atomic_load(&ds->head_guid) : ds->guid;
}

uint64_t
pool_ds_incarnation(const struct pool_ds *ds)
{
	return atomic_load(&ds->incarnation);
}

void
pool_ds_set_policy(struct pool_ds *ds, const struct pool_ds_policy *policy)
{
	spin_lock(&ds->lock);
	ds->policy = *policy;
	if (ds->policy.cksum == BP_CKSUM_NONE) {
		ds->policy.cksum = BP_CKSUM_XXH3; /* nothing is written unverifiable */
	}
	spin_unlock(&ds->lock);
}

/* ---- the owner's part of the root ---- */

/* Under ds->lock: it may be changed under tx. */
static void
open_dirty(struct pool_tx *tx, struct pool_ds *ds)
{
	if (ds->open_txg != 0 && ds->open_txg < tx->txg && ds->saved_txg == 0) {
		ds->saved = ds->open;
		ds->saved_txg = ds->open_txg;
	}
	ds->open_txg = tx->txg;
	ds->root_dirty[TXG_SLOT(tx->txg)] = true;
}

void
pool_ds_owner_get(struct pool_ds *ds, void *out, uint32_t len)
{
	ASSERT(len <= sizeof(ds->open.owner));
	spin_lock(&ds->lock);
	memcpy(out, ds->open.owner, len);
	spin_unlock(&ds->lock);
}

void
pool_ds_owner_set(struct pool_tx *tx, struct pool_ds *ds, const void *data, uint32_t len)
{
	ASSERT(len <= sizeof(ds->open.owner));
	spin_lock(&ds->lock);
	open_dirty(tx, ds);
	memcpy(ds->open.owner, data, len);
	spin_unlock(&ds->lock);
}

uint64_t
pool_ds_root_object(const struct pool_ds *ds)
{
	return __atomic_load_n(&ds->open.root_object, __ATOMIC_RELAXED);
}

void
pool_ds_set_root_object(struct pool_tx *tx, struct pool_ds *ds, uint64_t object)
{
	spin_lock(&ds->lock);
	open_dirty(tx, ds);
	__atomic_store_n(&ds->open.root_object, object, __ATOMIC_RELAXED);
	spin_unlock(&ds->lock);
}
