/*
 * remove.c - REMOVE and RMDIR. The last link takes the object with it: its handles are stale from
 * this moment, its blocks come back in the background.
 */
#include "fs/dir.h"

#define REMOVE_TRIES_MAX 100u

struct removal {
	struct fs_op op;
	struct fs_node *dir, *child;
	struct fs_name name;
	bool rmdir;
};

static int
removal_permitted(const struct removal *m)
{
	struct fs_attr dir, child;
	fs_getattr(m->dir, &dir);
	fs_getattr(m->child, &child);
	int err = perm_delete(&dir, &child, &m->op.req->cred);
	if (err == 0 && m->rmdir != (child.type == FS_DIR)) {
		err = m->rmdir ? -ENOTDIR : -EISDIR;
	}
	if (err == 0 && m->rmdir && m->child->ino.dir_entries > 0) {
		err = -ENOTEMPTY;
	}
	return err;
}

static void
removal_log(struct removal *m, uint64_t key, bool last)
{
	uint64_t object = fs_node_object(m->child), generation = fs_node_generation(m->child);
	struct log_rec r = {.op = LOG_OP_REMOVE,
	    .steps = LOG_STEP_REMOVE | (last ? LOG_STEP_DESTROY : 0),
	    .name = m->name.bytes,
	    .name_len = m->name.len,
	    .dir = fs_node_object(m->dir),
	    .key = key,
	    .object = object,
	    .generation = generation,
	    .gone = last ? object : 0,
	    .gone_gen = last ? generation : 0,
	    .type = m->child->ino.type,
	    .nodes = {m->dir, last ? NULL : m->child},
	    .node_count = last ? 1 : 2};
	log_queue(&m->op, &r);
}

static int
remove_apply(struct removal *m, uint64_t key)
{
	struct fs_op *op = &m->op;
	struct fs_node *dir = m->dir, *child = m->child;
	struct dir_path path;
	int err = dir_remove_prepare(dir, key, &path);
	if (err != 0) {
		return err;
	}
	dir_remove_apply(op->tx, dir, &path, key, true);
	dir_path_release(&path);
	ncache_drop(op->ds->fp->ncache, dir, &m->name);
	dir->ino.nlink -= m->rmdir;
	fs_op_touch(op, dir, true);
	node_store(op->tx, dir);
	bool last = m->rmdir || child->ino.nlink == 1;
	if (last) {
		pool_obj_destroy(op->tx, child->obj);
	} else {
		child->ino.nlink--;
		node_left_dir(child, dir);
		if (child->ino.parent == fs_node_object(dir)) {
			child->ino.parent =
			    atomic_load_explicit(&child->parent_seen, memory_order_relaxed);
			child->ino.parent_gen = 0;
		}
		fs_op_touch(op, child, false);
		node_store(op->tx, child);
	}
	wcc_after(&op->res->wcc, dir);
	removal_log(m, key, last);
	return 0;
}

static int
remove_locked(struct removal *m)
{
	struct dir_ent e;
	wcc_before(&m->op.res->wcc, m->dir);
	int err = dir_find(m->dir, &m->name, &e);
	if (err == -ENOENT ||
	    (err == 0 && (e.object != fs_node_object(m->child) || node_is_stale(m->child)))) {
		return -EAGAIN; /* renamed or removed since we looked */
	}
	if (err == 0) {
		err = removal_permitted(m);
	}
	if (err == 0) {
		err = remove_apply(m, e.key);
	}
	if (err != 0) {
		wcc_after(&m->op.res->wcc, m->dir);
	}
	return err;
}

static int
remove_try(struct removal *m)
{
	int err = lookup_entry(m->dir, m->name.bytes, m->name.len, &m->child);
	if (err != 0) {
		return err;
	}
	struct fs_node *nodes[] = {m->dir, m->child};
	struct pool_need need = {.dirty_bytes = 2 * OBJ_DIRTY_BYTES,
	    .log_bytes = LOG_RECORD_BYTES,
	    .log_records = 1,
	    .frees = true};
	err = fs_op_start(&m->op, &need, nodes, 2);
	if (err == 0) {
		err = fs_op_finish(&m->op, remove_locked(m));
	}
	fs_node_put(m->child);
	return err;
}

static int
dots_error(uint32_t len, bool rmdir)
{
	if (!rmdir) {
		return -EISDIR;
	}
	return len == 1 ? -EINVAL : -EEXIST; /* RFC 1813 3.3.13 */
}

static int
remove_entry(struct removal *m)
{
	struct fs_attr a;
	memset(m->op.res, 0, sizeof(*m->op.res));
	fs_getattr(m->dir, &a);
	int err = node_is_stale(m->dir) ? -ESTALE
		  : a.type != FS_DIR    ? -ENOTDIR
					: name_check(m->name.bytes, m->name.len);
	if (err == 0 && name_is_dots(m->name.bytes, m->name.len)) {
		err = dots_error(m->name.len, m->rmdir);
	}
	if (err == 0) {
		err = perm_check(&a, &m->op.req->cred, PERM_EXEC);
	}
	if (err != 0) {
		return err;
	}
	name_init(m->op.ds, m->name.bytes, m->name.len, &m->name);
	err = -EAGAIN;
	for (uint32_t tries = 0; err == -EAGAIN && tries < REMOVE_TRIES_MAX; tries++) {
		err = remove_try(m);
	}
	/* older pools may have a real one, and that can go */
	if (err == -ENOENT && fs_name_is_snapdir(m->name.bytes, m->name.len)) {
		err = -EROFS;
	}
	return err;
}

int
fs_remove(struct fs_node *dir, const struct fs_req *req, const char *name, uint32_t len,
    struct fs_result *res)
{
	struct removal m = {.op = {.ds = fs_node_ds(dir), .req = req, .res = res},
	    .dir = dir,
	    .name = {.bytes = name, .len = len}};
	return remove_entry(&m);
}

int
fs_rmdir(struct fs_node *dir, const struct fs_req *req, const char *name, uint32_t len,
    struct fs_result *res)
{
	struct removal m = {.op = {.ds = fs_node_ds(dir), .req = req, .res = res},
	    .dir = dir,
	    .name = {.bytes = name, .len = len},
	    .rmdir = true};
	return remove_entry(&m);
}
