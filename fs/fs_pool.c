/*
 * fs_pool.c - bringing a pool's file systems into service.
 *
 * Order: know all datasets, find the replies that the root has, replay the log, then give datasets
 * without a root directory one (a new pool's root dataset, or one whose creation was cut short by a
 * crash).
 */
#include "fs/fs_int.h"

static int
adopt(void *arg, struct pool_ds *pds)
{
	struct fs_ds *ds;
	int err = fs_ds_load(arg, pds, &ds);
	if (err == 0) {
		fs_ds_publish(arg, ds);
	}
	return err;
}

static int
make_roots(struct fs_pool *fp)
{
	if (pool_is_readonly(fp->pool)) {
		return 0;
	}
	bool made = false;
	list_for_each(it, &fp->datasets)
	{
		struct fs_ds *ds = list_entry(it, struct fs_ds, link);
		if (ds->root_object != 0) {
			continue;
		}
		int err = fs_ds_make_root(ds);
		if (err != 0) {
			return err;
		}
		made = true;
	}
	return made ? pool_sync(fp->pool) : 0;
}

int
fs_pool_open(struct pool *p, fs_reply_found_fn *found, void *arg, struct fs_pool **out)
{
	struct fs_pool *fp = mem_zalloc(sizeof(*fp));
	if (fp == NULL) {
		return -ENOMEM;
	}
	fp->pool = p;
	fp->found = found;
	fp->found_arg = arg;
	mutex_init(&fp->lock, RANK_FS_RENAME); /* never held together with a tree_lock */
	spin_init(&fp->table);
	list_init(&fp->datasets);
	atomic_init(&fp->next_cache_id, 1);
	fp->ncache = ncache_create();
	int err = fp->ncache == NULL ? -ENOMEM : pool_ds_each(p, pool_name(p), true, adopt, fp);
	if (err == 0) {
		fs_replay_notes(fp);
	}
	if (err == 0 && !pool_is_readonly(p)) {
		err = fs_replay(fp);
	}
	if (err == 0) {
		err = make_roots(fp);
	}
	if (err != 0) {
		fs_pool_close(fp);
		return err;
	}
	fp->found = NULL;
	*out = fp;
	return 0;
}

void
fs_pool_close(struct fs_pool *fp)
{
	while (!list_empty(&fp->datasets)) {
		struct fs_ds *ds = list_first(&fp->datasets, struct fs_ds, link);
		ASSERT(atomic_load(&ds->refs) == 1);
		fs_ds_withdraw(ds);
	}
	ncache_destroy(fp->ncache);
	mem_free(fp);
}

struct pool *
fs_pool_pool(struct fs_pool *fp)
{
	return fp->pool;
}
