/*
 * readdir.c - listing a directory. The cookie of an entry is its key, which it keeps as long as it
 * lives, so going on behind a cookie means: entries with a greater key. A leaf at a time is copied
 * under the shared lock and handed out without it, since attributes of the entries may have to be
 * read from the drives.
 */
#include "fs/dir.h"

#define COOKIE_DOT 1u
#define COOKIE_DOTDOT 2u
#define COOKIE_SNAPDIR 3u

struct listing {
	struct fs_node *dir;
	bool plus;
	bool (*emit)(void *arg, const struct fs_dirent *e);
	void *arg;
};

/* false: the caller has enough. */
static bool
emit_entry(const struct listing *l, struct fs_dirent *e)
{
	struct fs_node *n = NULL;
	struct fs_attr a;
	if (l->plus && fs_node_get(fs_node_ds(l->dir), e->object, e->generation, &n) == 0) {
		fs_getattr(n, &a);
		e->attr = &a;
		e->generation = a.generation; /* that of ".." isn't in the directory */
		if (e->cookie > COOKIE_DOTDOT) {
			node_seen_in(n, l->dir);
		}
	}
	bool more = l->emit(l->arg, e);
	fs_node_put(n);
	return more;
}

/* In the root of a dataset, by its property. */
static bool
emit_snapdir(const struct listing *l)
{
	struct fs_ds *ds = fs_node_ds(l->dir);
	struct fs_attr a;
	if (ds->snap_guid != 0 || fs_node_object(l->dir) != ds->root_object ||
	    !atomic_load_explicit(&ds->snapdir, memory_order_relaxed)) {
		return true;
	}
	struct fs_dirent e = {.name = FS_SNAPDIR_NAME,
	    .name_len = sizeof(FS_SNAPDIR_NAME) - 1,
	    .object = fs_snapdir_fileid(ds->root_object),
	    .generation = fs_node_generation(l->dir),
	    .cookie = COOKIE_SNAPDIR,
	    .type = FS_DIR,
	    .snapdir = true};
	fs_snapdir_getattr(l->dir, &a);
	e.attr = l->plus ? &a : NULL;
	return l->emit(l->arg, &e);
}

static bool
emit_dots(const struct listing *l, uint64_t cookie)
{
	struct fs_ds *ds = fs_node_ds(l->dir);
	uint64_t self = fs_node_object(l->dir);
	if (cookie < COOKIE_DOT) {
		struct fs_dirent e = {.name = ".",
		    .name_len = 1,
		    .object = self,
		    .generation = fs_node_generation(l->dir),
		    .cookie = COOKIE_DOT,
		    .type = FS_DIR};
		if (!emit_entry(l, &e)) {
			return false;
		}
	}
	if (cookie < COOKIE_DOTDOT) {
		uint64_t parent = atomic_load_explicit(&l->dir->parent, memory_order_relaxed);
		bool root = self == ds->root_object || parent == 0;
		struct fs_dirent e = {.name = "..",
		    .name_len = 2,
		    .object = !root                ? parent
			      : ds->snap_guid == 0 ? self
						   : fs_snapdir_fileid(self),
		    .cookie = COOKIE_DOTDOT,
		    .type = FS_DIR};
		if (!emit_entry(l, &e)) {
			return false;
		}
	}
	return cookie >= COOKIE_SNAPDIR || emit_snapdir(l);
}

/* Everything of the copied leaf from key on. 1: the caller has enough. */
static int
emit_leaf(const struct listing *l, const void *leaf, uint64_t from)
{
	for (uint32_t i = leaf_find(leaf, from); i < dnode_count(leaf); i++) {
		struct dir_ent e;
		struct fs_dirent out = {0};
		int err = leaf_get(leaf, i, &e, &out.name, &out.name_len);
		if (err != 0) {
			return err;
		}
		out.object = e.object;
		out.generation = e.generation;
		out.cookie = e.key;
		out.type = e.type;
		if (!emit_entry(l, &out)) {
			return 1;
		}
	}
	return 0;
}

static int
list_leaves(const struct listing *l, uint64_t from, void *leaf)
{
	while (from != 0) {
		uint64_t next = 0;
		rwlock_rdlock(&l->dir->lock);
		int err =
		    node_is_stale(l->dir) ? -ESTALE : dir_leaf_copy(l->dir, from, leaf, &next);
		rwlock_rdunlock(&l->dir->lock);
		if (err == 0) {
			err = emit_leaf(l, leaf, from);
		}
		if (err != 0) {
			return err;
		}
		from = next;
		fiber_maybe_yield();
	}
	return 0;
}

int
fs_readdir(struct fs_node *dir, const struct fs_cred *cred, uint64_t cookie, bool plus,
    bool (*emit)(void *arg, const struct fs_dirent *e), void *arg, bool *out_eof)
{
	struct fs_attr a;
	fs_getattr(dir, &a);
	int err = node_is_stale(dir) ? -ESTALE
		  : a.type != FS_DIR ? -ENOTDIR
				     : perm_check(&a, cred, PERM_READ);
	if (err != 0) {
		return err;
	}
	struct listing l = {.dir = dir, .plus = plus, .emit = emit, .arg = arg};
	if (cookie >= (uint64_t)INT64_MAX) {
		*out_eof = true;
		return 0;
	}
	void *leaf = mem_zalloc(DIR_NODE_BYTES);
	if (leaf == NULL) {
		return -ENOMEM;
	}
	err = emit_dots(&l, cookie) ? list_leaves(&l, MAX(cookie + 1, DIR_KEY_MIN), leaf) : 1;
	mem_free(leaf);
	if (err < 0) {
		return err;
	}
	*out_eof = err == 0;
	if (atomic_load_explicit(&fs_node_ds(dir)->atime, memory_order_relaxed) != FS_ATIME_OFF) {
		file_touch_atime(dir);
	}
	return 0;
}
