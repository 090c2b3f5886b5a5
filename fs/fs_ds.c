/*
 * fs_ds.c - datasets and snapshots in service.
 *
 * An fs_ds is found in a hash table by the guid of its dataset or, when it is a snapshot, by that
 * of the snapshot alone, because a promotion gives snapshots to another dataset. Readers take no
 * lock: an entry is published with a release store, and one that was taken out keeps its link and
 * its memory until every reactor has passed through its loop (qsbr). The table holds one reference,
 * each user another one; who finds an entry whose count is 0 already hasn't found it. A node is
 * valid as long as its user holds the fs_ds it got it from.
 *
 * Datasets are in the table from fs_pool_open or their creation on; they leave it when they are
 * destroyed, and a rollback puts a new one in the place of the old. A snapshot comes into it when
 * somebody looks for it the first time, and leaves it when it is destroyed, or when SNAPS_MAX
 * others came after it and nobody uses it.
 */
#include <stdio.h>
#include "fs/dir.h"

#define SNAPS_MAX 1024u

static _Atomic(struct fs_ds *) *
bucket_of(struct fs_pool *fp, uint64_t key)
{
	return &fp->buckets[key % FS_DS_BUCKETS];
}

/* Between two parks. */
static struct fs_ds *
table_find(struct fs_pool *fp, uint64_t key)
{
	struct fs_ds *ds = atomic_load_explicit(bucket_of(fp, key), memory_order_acquire);
	while (ds != NULL &&
	       (ds->key != key || atomic_load_explicit(&ds->gone, memory_order_relaxed))) {
		ds = atomic_load_explicit(&ds->hash_next, memory_order_acquire);
	}
	return ds;
}

struct fs_ds *
fs_ds_find(struct fs_pool *fp, uint64_t guid)
{
	return table_find(fp, guid);
}

static bool
ref_if_used(struct fs_ds *ds)
{
	unsigned refs = atomic_load_explicit(&ds->refs, memory_order_relaxed);
	while (refs != 0) {
		if (atomic_compare_exchange_weak_explicit(
			&ds->refs, &refs, refs + 1, memory_order_acq_rel, memory_order_relaxed)) {
			return true;
		}
	}
	return false;
}

struct fs_ds *
fs_ds_find_get(struct fs_pool *fp, uint64_t key)
{
	struct fs_ds *ds = table_find(fp, key);
	return ds != NULL && ref_if_used(ds) ? ds : NULL;
}

/* Distinct for each dataset and snapshot (the steps can be undone, so no two guids meet) and never
 * 0. */
static uint64_t
fsid_of(uint64_t guid)
{
	uint64_t x = guid ^ (guid >> 31);
	x *= 0xbf58476d1ce4e5b9ull;
	x ^= x >> 27;
	x *= 0x94d049bb133111ebull;
	x ^= x >> 31;
	return x == 0 ? 1 : x;
}

static int
owner_load(struct fs_ds *ds)
{
	struct fs_owner_phys o;
	pool_ds_owner_get(ds->pds, &o, sizeof(o));
	uint32_t bits = le32_get(o.hash_bits);
	if (le64_get(o.magic) == FS_OWNER_MAGIC && le32_get(o.version) != 1) {
		return -ERR_FEATURE;
	}
	if (le64_get(o.magic) != FS_OWNER_MAGIC || bits == 0 || bits > DIR_HASH_BITS) {
		return -ERR_CORRUPT;
	}
	ds->hash_bits = bits;
	memcpy(ds->hash_key, o.hash_key, sizeof(ds->hash_key));
	return 0;
}

int
fs_ds_load(struct fs_pool *fp, struct pool_ds *pds, struct fs_ds **out)
{
	struct fs_ds *ds = mem_zalloc(sizeof(*ds));
	if (ds == NULL) {
		return -ENOMEM;
	}
	ds->fp = fp;
	ds->pds = pool_ds_ref(pds);
	ds->guid = pool_ds_guid(pds);
	ds->snap_guid = pool_ds_snap_guid(pds);
	ds->key = ds->snap_guid != 0 ? ds->snap_guid : ds->guid;
	ds->fsid = fsid_of(ds->key);
	ds->cache_id = DELIBERATE_BUG("fs-names-of-the-past")
			   ? ds->guid
			   : atomic_fetch_add_explicit(&fp->next_cache_id, 1, memory_order_relaxed);
	atomic_init(&ds->refs, 1);
	ds->hash_bits = DIR_HASH_BITS;
	ds->root_object = pool_ds_root_object(pds);
	mutex_init(&ds->tree_lock, RANK_FS_RENAME);
	list_init(&ds->link);
	int err = ds->root_object != 0 ? owner_load(ds) : 0;
	if (err != 0) {
		log_error("fs-dataset-damaged ds=%016llx what=owner", (unsigned long long)ds->guid);
		fs_ds_free(ds);
		return err;
	}
	if (ds->snap_guid != 0) {
		atomic_store(&ds->readonly, true);
		atomic_store(&ds->atime, FS_ATIME_OFF);
	} else {
		fs_ds_refresh(ds);
	}
	*out = ds;
	return 0;
}

/* ---- the table ---- */

static void
ds_reclaim(struct qsbr_node *n)
{
	mem_free(container_of(n, struct fs_ds, retired));
}

static void
ds_end(struct fs_ds *ds)
{
	pool_ds_close(ds->pds);
	qsbr_retire(&ds->retired, ds_reclaim);
}

void
fs_ds_close(struct fs_ds *ds)
{
	if (atomic_fetch_sub_explicit(&ds->refs, 1, memory_order_acq_rel) == 1) {
		ds_end(ds);
	}
}

/* One that was never in the table. */
void
fs_ds_free(struct fs_ds *ds)
{
	ASSERT(list_empty(&ds->link) && atomic_load(&ds->refs) == 1);
	pool_ds_close(ds->pds);
	mem_free(ds);
}

/* Under the spin lock. */
static void
table_add(struct fs_pool *fp, struct fs_ds *ds)
{
	_Atomic(struct fs_ds *) *bucket = bucket_of(fp, ds->key);
	atomic_init(&ds->hash_next, atomic_load_explicit(bucket, memory_order_relaxed));
	list_push_back(&fp->datasets, &ds->link);
	fp->snap_count += ds->snap_guid != 0;
	atomic_store_explicit(bucket, ds, memory_order_release);
}

/* Under the spin lock. Its own link stays, for those who stand on it. */
static void
table_take_out(struct fs_ds *ds)
{
	struct fs_pool *fp = ds->fp;
	_Atomic(struct fs_ds *) *at = bucket_of(fp, ds->key);
	struct fs_ds *have;
	while ((have = atomic_load_explicit(at, memory_order_relaxed)) != ds) {
		at = &have->hash_next;
	}
	atomic_store_explicit(
	    at, atomic_load_explicit(&ds->hash_next, memory_order_relaxed), memory_order_release);
	list_remove(&ds->link);
	fp->snap_count -= ds->snap_guid != 0;
}

void
fs_ds_publish(struct fs_pool *fp, struct fs_ds *ds)
{
	spin_lock(&fp->table);
	table_add(fp, ds);
	spin_unlock(&fp->table);
}

void
fs_ds_withdraw(struct fs_ds *ds)
{
	struct fs_pool *fp = ds->fp;
	atomic_store(&ds->gone, true);
	spin_lock(&fp->table);
	bool there = !list_empty(&ds->link);
	if (there) {
		table_take_out(ds);
	}
	spin_unlock(&fp->table);
	if (there) {
		fs_ds_close(ds);
	}
}

/* Under the spin lock: the oldest snapshot that nobody uses, taken out, for ds_end. Its count is 0
 * before it leaves, so that there are never two of one snapshot in use, and a node's ds is always
 * one that is held. */
static struct fs_ds *
table_spare(struct fs_pool *fp)
{
	list_for_each(it, &fp->datasets)
	{
		struct fs_ds *ds = list_entry(it, struct fs_ds, link);
		unsigned unused = 1;
		if (ds->snap_guid != 0 && atomic_compare_exchange_strong(&ds->refs, &unused, 0)) {
			table_take_out(ds);
			return ds;
		}
	}
	return NULL;
}

struct fs_ds *
fs_ds_publish_snap(struct fs_pool *fp, struct fs_ds *mine)
{
	struct fs_ds *spare = NULL;
	spin_lock(&fp->table);
	struct fs_ds *ds = table_find(fp, mine->key);
	if (ds == NULL || !ref_if_used(ds)) {
		ds = mine;
		atomic_store(&mine->refs, 2);
		spare = fp->snap_count >= SNAPS_MAX ? table_spare(fp) : NULL;
		table_add(fp, mine);
	}
	spin_unlock(&fp->table);
	if (ds != mine) {
		fs_ds_free(mine);
	}
	if (spare != NULL) {
		ds_end(spare);
	}
	return ds;
}

bool
fs_ds_is_readonly(const struct fs_ds *ds)
{
	return atomic_load_explicit(&ds->readonly, memory_order_relaxed);
}

/* The root directory: 0755, root:root, its own parent. */
static int
root_create(struct fs_ds *ds, struct pool_tx *tx)
{
	struct pool_obj *obj;
	int err = pool_obj_create(tx, ds->pds, OBJ_DIR, DIR_NODE_BYTES, 0, 0, &obj);
	if (err != 0) {
		return err;
	}
	struct fs_time now = fs_time_now();
	struct fs_inode ino = {.type = FS_DIR,
	    .mode = 0755,
	    .nlink = 2,
	    .change = 1,
	    .parent = pool_obj_number(obj),
	    .parent_gen = pool_obj_generation(obj),
	    .atime = now,
	    .mtime = now,
	    .ctime = now,
	    .btime = now};
	struct fs_node *n;
	err = node_make(ds, obj, &ino, &n);
	if (err != 0) {
		pool_obj_destroy(tx, obj);
		pool_obj_release(obj);
		return err;
	}
	node_store(tx, n);
	struct fs_owner_phys o = {.magic = le64_of(FS_OWNER_MAGIC),
	    .version = le32_of(1),
	    .hash_bits = le32_of(ds->hash_bits)};
	rt_random_bytes(o.hash_key, sizeof(o.hash_key));
	memcpy(ds->hash_key, o.hash_key, sizeof(ds->hash_key));
	pool_ds_owner_set(tx, ds->pds, &o, sizeof(o));
	pool_ds_set_root_object(tx, ds->pds, pool_obj_number(obj));
	ds->root_object = pool_obj_number(obj);
	fs_node_put(n);
	return 0;
}

int
fs_ds_make_root(struct fs_ds *ds)
{
	struct pool_need need = {.dirty_bytes = 2 * OBJ_DIRTY_BYTES, .frees = true};
	struct pool_tx *tx;
	int err = pool_tx_begin(ds->pds, &need, &tx);
	if (err != 0) {
		return err;
	}
	err = root_create(ds, tx);
	pool_tx_end(tx);
	return err;
}

/* ================= the public calls ================= */

int
props_parse(
    const char *const *props, uint32_t count, struct prop_setting *out, char *why, size_t why_len)
{
	if (count > PROPS_MAX) {
		(void)snprintf(why, why_len, "too many properties");
		return -EINVAL;
	}
	for (uint32_t i = 0; i < count; i++) {
		const struct prop_def *def = NULL;
		int err = prop_parse_pair(
		    props[i], &def, out[i].value, sizeof(out[i].value), why, why_len);
		if (err != 0) {
			return err;
		}
		out[i].name = def->name;
	}
	return 0;
}

int
props_set(struct pool_ds *pds, const struct prop_setting *set, uint32_t count)
{
	int err = 0;
	for (uint32_t i = 0; err == 0 && i < count; i++) {
		err = prop_set_local(pds, set[i].name, set[i].value);
	}
	return err;
}

/* Until its root is durable a dataset isn't published, so nobody logs anything that relies on it.
 */
static int
ds_fill(struct fs_pool *fp, struct pool_ds *pds, const struct prop_setting *set, uint32_t count)
{
	struct fs_ds *ds;
	int err = props_set(pds, set, count);
	if (err == 0) {
		err = fs_ds_load(fp, pds, &ds);
	}
	if (err != 0) {
		return err;
	}
	err = fs_ds_make_root(ds);
	if (err == 0) {
		err = pool_sync(fp->pool);
	}
	if (err != 0) {
		fs_ds_free(ds);
		return err;
	}
	fs_ds_publish(fp, ds);
	return 0;
}

int
fs_ds_create(struct fs_pool *fp, const char *path, const char *const *props, uint32_t prop_count,
    char *why, size_t why_len)
{
	struct prop_setting set[PROPS_MAX];
	int err = props_parse(props, prop_count, set, why, why_len);
	if (err != 0) {
		return err;
	}
	mutex_lock(&fp->lock);
	struct pool_ds *pds;
	err = pool_ds_create(fp->pool, path, &pds);
	if (err == 0) {
		err = ds_fill(fp, pds, set, prop_count);
		pool_ds_close(pds);
		if (err != 0) {
			/* of the properties, parsed already, only limits are refused so */
			(void)snprintf(why, why_len, "%s: %s", path,
			    err == -EINVAL || err == -ERR_FEATURE ? prop_limit_refusal(err)
								  : err_str(err));
			int undo = pool_ds_destroy(fp->pool, path);
			log_error("fs-dataset-create-failed path=%s error=%s undo=%s", path,
			    err_str(err), undo == 0 ? "ok" : err_str(undo));
		}
	} else {
		(void)snprintf(why, why_len, "%s: %s", path,
		    err == -EEXIST   ? "there is one already"
		    : err == -ENOENT ? "its parent doesn't exist"
		    : err == -EINVAL ? "not a valid name"
				     : err_str(err));
	}
	mutex_unlock(&fp->lock);
	return err;
}

int
fs_ds_destroy(struct fs_pool *fp, const char *path)
{
	mutex_lock(&fp->lock);
	struct pool_ds *pds;
	int err = pool_ds_open(fp->pool, path, &pds);
	if (err == 0) {
		struct fs_ds *ds = fs_ds_find(fp, pool_ds_guid(pds));
		err = pool_ds_destroy(fp->pool, path);
		if (err == 0 && ds != NULL) {
			fs_ds_withdraw(ds);
		}
		pool_ds_close(pds);
	}
	mutex_unlock(&fp->lock);
	return err;
}

static int
refresh_each(void *arg, struct pool_ds *pds)
{
	struct fs_ds *ds = fs_ds_find(arg, pool_ds_guid(pds));
	if (ds != NULL) {
		fs_ds_refresh(ds);
	}
	return 0;
}

int
fs_ds_rename(struct fs_pool *fp, const char *path, const char *new_path)
{
	mutex_lock(&fp->lock);
	int err = pool_ds_rename(fp->pool, path, new_path);
	if (err == 0) {
		/* another parent may mean other inherited properties */
		err = pool_ds_each(fp->pool, new_path, true, refresh_each, fp);
	}
	mutex_unlock(&fp->lock);
	return err;
}

int
fs_ds_open_guid(struct fs_pool *fp, uint64_t guid, struct fs_ds **out)
{
	struct fs_ds *ds = fs_ds_find_get(fp, guid);
	if (ds == NULL) {
		return -ENOENT;
	}
	*out = ds;
	return 0;
}

int
fs_ds_open(struct fs_pool *fp, const char *path, struct fs_ds **out)
{
	struct pool_ds *pds;
	int err = pool_ds_open(fp->pool, path, &pds);
	if (err != 0) {
		return err;
	}
	uint64_t guid = pool_ds_guid(pds);
	pool_ds_close(pds);
	return fs_ds_open_guid(fp, guid, out);
}

uint64_t
fs_ds_guid(const struct fs_ds *ds)
{
	return ds->guid;
}

struct pool_ds *
fs_ds_pool_ds(struct fs_ds *ds)
{
	return ds->pds;
}

/* A file takes at least its slot; nobody can promise more of them than that. */
#define BYTES_PER_FILE OBJECT_SLOT_BYTES

/* What a quota leaves to him is all that there is. */
static void
statfs_account(struct fs_ds *ds, enum pool_account_kind kind, uint32_t id, struct fs_statfs *out)
{
	uint64_t bytes, objects;
	int err = pool_account_left(ds->pds, kind, id, &bytes, &objects);
	if (err != 0) {
		return; /* whoever writes gets the error */
	}
	out->avail_bytes = MIN(out->avail_bytes, bytes);
	if (out->free_bytes > bytes) {
		out->total_bytes -= out->free_bytes - bytes;
		out->free_bytes = bytes;
	}
	out->free_files = MIN(out->free_files, MIN(objects, bytes / BYTES_PER_FILE));
}

void
fs_statfs(struct fs_ds *ds, const struct fs_cred *cred, struct fs_statfs *out)
{
	struct pool_ds_info info;
	pool_ds_get_info(ds->pds, &info);
	memset(out, 0, sizeof(*out));
	if (ds->snap_guid != 0) {
		out->total_bytes = info.referenced_bytes;
		out->total_files = info.object_count;
		return;
	}
	out->free_bytes = info.free_bytes;
	out->avail_bytes = info.available_bytes;
	out->total_bytes = info.size_bytes;
	out->free_files = info.available_bytes / BYTES_PER_FILE;
	if (cred != NULL) {
		statfs_account(ds, POOL_ACCOUNT_USER, cred->uid, out);
		statfs_account(ds, POOL_ACCOUNT_GROUP, cred->gid, out);
	}
	out->total_files = info.object_count + out->free_files;
}
