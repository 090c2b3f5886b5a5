/*
 * snap.c - snapshots as datasets of their own, and what changes which of them there are: taking,
 * destroying, renaming, rolling back, cloning, promoting.
 *
 * Rolling back. The pool puts a new dataset in the place of the old one, under the same guid; of
 * the old one every call is stale from the moment the pool chose. Here a new fs_ds takes the place
 * of the old fs_ds. It has another number in the name cache, its nodes are made anew from the
 * snapshot's inodes, and its incarnation is part of what the rooms above remember (replies, write
 * verifier): no cache can show what was discarded. The old fs_ds is marked as moving before the
 * pool begins, so that who gets -ESTALE from it knows that this is no answer for a client, and asks
 * again.
 */
#include <stdio.h>
#include "fs/fs_int.h"

/* ---- opening ---- */

/* Takes over the handle. */
static int
snap_serve(struct fs_pool *fp, struct pool_ds *pds, struct fs_ds **out)
{
	struct fs_ds *ds = fs_ds_find_get(fp, pool_ds_snap_guid(pds));
	int err = 0;
	if (ds == NULL) {
		err = fs_ds_load(fp, pds, &ds);
		if (err == 0) {
			ds = fs_ds_publish_snap(fp, ds);
		}
	}
	pool_ds_close(pds);
	if (err == 0) {
		*out = ds;
	}
	return err;
}

int
fs_snap_open(struct fs_pool *fp, const char *name, struct fs_ds **out)
{
	struct pool_ds *pds;
	const char *snap = strchr(name, '@');
	if (snap != NULL && pool_snap_is_hidden(snap + 1)) {
		return -ENOENT;
	}
	int err = pool_snap_open(fp->pool, name, &pds);
	return err == 0 ? snap_serve(fp, pds, out) : err;
}

int
fs_snap_open_guid(struct fs_pool *fp, uint64_t ds_guid, uint64_t snap_guid, struct fs_ds **out)
{
	struct fs_ds *ds = fs_ds_find_get(fp, snap_guid);
	if (ds != NULL) {
		*out = ds;
		return 0;
	}
	struct pool_ds *pds;
	int err = pool_snap_open_guid(fp->pool, ds_guid, snap_guid, &pds);
	return err == 0 ? snap_serve(fp, pds, out) : err;
}

uint64_t
fs_ds_snap_guid(const struct fs_ds *ds)
{
	return ds->snap_guid;
}

/* ---- coming and going ---- */

int
fs_snap_create(struct fs_pool *fp, const char *const *names, uint32_t count, uint32_t *out_bad)
{
	mutex_lock(&fp->lock);
	int err = pool_snap_create(fp->pool, names, count, out_bad);
	mutex_unlock(&fp->lock);
	return err;
}

/* The guids that the names stand for, 0 where there is none. */
static void
snap_guids(struct fs_pool *fp, const char *const *names, uint32_t count, uint64_t *out)
{
	for (uint32_t i = 0; i < count; i++) {
		struct pool_snap_info info;
		out[i] = pool_snap_get(fp->pool, names[i], 0, &info) == 0 ? info.guid : 0;
	}
}

/* hidden: what they are called instead; NULL: destroyed. */
static int
snaps_leave(struct fs_pool *fp, const char *const *names, const char *const *hidden, uint32_t count,
    uint32_t *out_bad)
{
	uint64_t *guids = mem_zalloc_array(MAX(count, 1u), sizeof(*guids));
	if (guids == NULL) {
		return -ENOMEM;
	}
	mutex_lock(&fp->lock);
	snap_guids(fp, names, count, guids);
	int err = hidden != NULL
		      ? pool_snap_rename_all(fp->pool, names, hidden, count, true, out_bad)
		      : pool_snap_destroy(fp->pool, names, count, out_bad);
	for (uint32_t i = 0; err == 0 && i < count; i++) {
		struct fs_ds *ds = guids[i] != 0 ? fs_ds_find_get(fp, guids[i]) : NULL;
		if (ds != NULL) {
			fs_ds_withdraw(ds);
			fs_ds_close(ds);
		}
	}
	mutex_unlock(&fp->lock);
	mem_free(guids);
	return err;
}

int
fs_snap_destroy(struct fs_pool *fp, const char *const *names, uint32_t count, uint32_t *out_bad)
{
	return snaps_leave(fp, names, NULL, count, out_bad);
}

int
fs_snap_rename_all(struct fs_pool *fp, const char *const *names, const char *const *hidden,
    uint32_t count, uint32_t *out_bad)
{
	return snaps_leave(fp, names, hidden, count, out_bad);
}

int
fs_snap_rename(struct fs_pool *fp, const char *name, const char *new_snap)
{
	mutex_lock(&fp->lock);
	int err = pool_snap_rename(fp->pool, name, new_snap);
	mutex_unlock(&fp->lock);
	return err;
}

/* ---- rolling back ---- */

bool
fs_ds_is_moving(const struct fs_ds *ds)
{
	return atomic_load_explicit(&ds->moving, memory_order_acquire);
}

uint64_t
fs_ds_incarnation(const struct fs_ds *ds)
{
	return pool_ds_incarnation(ds->pds);
}

/* Under fp->lock. What the pool has under path now, in service. */
static int
ds_serve(struct fs_pool *fp, const char *path)
{
	struct pool_ds *pds;
	struct fs_ds *ds;
	int err = pool_ds_open(fp->pool, path, &pds);
	if (err != 0) {
		return err;
	}
	err = fs_ds_load(fp, pds, &ds);
	pool_ds_close(pds);
	if (err == 0) {
		fs_ds_publish(fp, ds);
	}
	return err;
}

/* Under fp->lock, old held. */
static int
rollback_locked(
    struct fs_pool *fp, const char *path, struct fs_ds *old, const char *snap, const char *keep_as)
{
	atomic_store(&old->moving, true);
	int err = pool_ds_rollback(fp->pool, snap, keep_as);
	if (err != 0) {
		atomic_store(&old->moving, false);
		return err;
	}
	err = ds_serve(fp, path);
	fs_ds_withdraw(old);
	if (err == 0 && keep_as != NULL) {
		err = ds_serve(fp, keep_as);
	}
	if (err != 0) {
		log_error("fs-rollback-not-served path=%s error=%s", path, err_str(err));
	}
	return err;
}

int
fs_ds_rollback(struct fs_pool *fp, const char *snap, const char *keep_as)
{
	char path[DATASET_NAME_MAX + 1];
	struct fs_ds *old;
	(void)snprintf(path, sizeof(path), "%.*s", (int)strcspn(snap, "@"), snap);
	mutex_lock(&fp->lock);
	int err = fs_ds_open(fp, path, &old);
	if (err == 0) {
		err = rollback_locked(fp, path, old, snap, keep_as);
		fs_ds_close(old);
	}
	mutex_unlock(&fp->lock);
	return err;
}

/* ---- clones ---- */

int
fs_ds_clone(struct fs_pool *fp, const char *snap, const char *path, const char *const *props,
    uint32_t prop_count, char *why, size_t why_len)
{
	struct prop_setting set[PROPS_MAX];
	struct pool_ds *pds;
	int err = props_parse(props, prop_count, set, why, why_len);
	if (err != 0) {
		return err;
	}
	mutex_lock(&fp->lock);
	err = pool_ds_clone(fp->pool, snap, path, &pds);
	if (err == 0) {
		err = props_set(pds, set, prop_count);
		pool_ds_close(pds);
		if (err == 0) {
			err = ds_serve(fp, path);
		}
		if (err != 0) {
			int undo = pool_ds_destroy(fp->pool, path);
			log_error("fs-clone-failed path=%s error=%s undo=%s", path, err_str(err),
			    undo == 0 ? "ok" : err_str(undo));
		}
	}
	mutex_unlock(&fp->lock);
	return err;
}

int
fs_ds_promote(struct fs_pool *fp, const char *path, char *why, size_t why_len)
{
	mutex_lock(&fp->lock);
	int err = pool_ds_promote(fp->pool, path, why, why_len);
	mutex_unlock(&fp->lock);
	return err;
}
