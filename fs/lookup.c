/* lookup.c - LOOKUP: "." and "..", the name cache, then the directory under its shared lock. */
#include "fs/dir.h"

static int
lookup_cached(struct fs_node *dir, const struct fs_name *name, struct fs_node **out)
{
	struct fs_ds *ds = fs_node_ds(dir);
	uint64_t object, generation;
	if (!ncache_get(ds->fp->ncache, dir, name, &object, &generation)) {
		return -ENOENT;
	}
	/* gone meanwhile: the directory knows better */
	return fs_node_get(ds, object, generation, out) == 0 ? 0 : -ENOENT;
}

int
lookup_entry(struct fs_node *dir, const char *name, uint32_t len, struct fs_node **out)
{
	struct fs_ds *ds = fs_node_ds(dir);
	struct fs_name wanted;
	name_init(ds, name, len, &wanted);
	if (lookup_cached(dir, &wanted, out) == 0) {
		return 0;
	}
	struct dir_ent e;
	rwlock_rdlock(&dir->lock);
	int err = node_is_stale(dir) ? -ESTALE : dir_find(dir, &wanted, &e);
	if (err == 0) {
		err = fs_node_get(ds, e.object, e.generation, out);
		err = err == -ESTALE && !node_is_stale(dir) ? -ERR_CORRUPT
							    : err; /* an entry leads to something */
	}
	if (err == 0) {
		ncache_put(ds->fp->ncache, dir, &wanted, e.object, e.generation);
	}
	rwlock_rdunlock(&dir->lock);
	return err;
}

static int
lookup_dots(struct fs_node *dir, uint32_t len, struct fs_node **out)
{
	struct fs_ds *ds = fs_node_ds(dir);
	if (len == 1 || fs_node_object(dir) == ds->root_object) {
		*out = node_ref(dir);
		return 0;
	}
	return fs_node_get(ds, atomic_load_explicit(&dir->parent, memory_order_relaxed), 0, out);
}

int
fs_lookup(struct fs_node *dir, const struct fs_cred *cred, const char *name, uint32_t len,
    struct fs_node **out)
{
	struct fs_attr a;
	fs_getattr(dir, &a);
	if (node_is_stale(dir)) {
		return -ESTALE;
	}
	if (a.type != FS_DIR) {
		return -ENOTDIR;
	}
	int err = perm_check(&a, cred, PERM_EXEC);
	if (err == 0) {
		err = name_check(name, len);
	}
	if (err != 0) {
		return err;
	}
	if (name_is_dots(name, len)) {
		return lookup_dots(dir, len, out);
	}
	err = lookup_entry(dir, name, len, out);
	if (err == 0) {
		node_seen_in(*out, dir);
	}
	return err;
}
