/*
 * rename.c - RENAME: one record moves the entry, frees what it replaces and changes up to four
 * inodes.
 *
 * A directory that moves to another parent holds the dataset's tree_lock, so that the way from the
 * target directory up to the root stands still while it is searched for the directory itself. All
 * nodes are locked by ascending number. The removal is applied first and, within one directory,
 * without tidying (dir_change.c).
 */
#include "fs/dir.h"

#define RENAME_TRIES_MAX 100u
#define RENAME_DEPTH_MAX 100000u

struct renaming {
	struct fs_op op;
	struct fs_node *from_dir, *to_dir;
	struct fs_node *child, *target; /* target: what the new name leads to, or NULL */
	struct fs_name from, to;
	uint64_t from_key, to_key;
};

/* Is to_dir the child or below it? */
static int
moves_into_itself(const struct renaming *m, bool *out)
{
	struct fs_ds *ds = m->op.ds;
	uint64_t child = fs_node_object(m->child), at = fs_node_object(m->to_dir);
	for (uint32_t depth = 0; depth < RENAME_DEPTH_MAX; depth++) {
		if (at == child || at == ds->root_object || at == 0) {
			*out = at == child;
			return 0;
		}
		struct fs_node *n;
		int err = fs_node_get(ds, at, 0, &n);
		if (err != 0) {
			return err;
		}
		at = atomic_load_explicit(&n->parent, memory_order_relaxed);
		fs_node_put(n);
	}
	return -ERR_CORRUPT;
}

static int
rename_permitted(const struct renaming *m)
{
	const struct fs_cred *cred = &m->op.req->cred;
	struct fs_attr from_dir, to_dir, child, target;
	fs_getattr(m->from_dir, &from_dir);
	fs_getattr(m->to_dir, &to_dir);
	fs_getattr(m->child, &child);
	int err = perm_delete(&from_dir, &child, cred);
	if (err == 0) {
		err = perm_dir_change(&to_dir, cred);
	}
	if (err == 0 && child.type == FS_DIR && m->from_dir != m->to_dir) {
		err = perm_check(&child, cred, PERM_WRITE); /* its ".." changes */
	}
	if (err == 0 && m->target != NULL) {
		fs_getattr(m->target, &target);
		err = perm_delete(&to_dir, &target, cred);
	}
	return err;
}

static int
rename_types_fit(const struct renaming *m)
{
	bool dir = m->child->ino.type == FS_DIR;
	if (dir && m->from_dir != m->to_dir && !DELIBERATE_BUG("fs-rename-into-itself")) {
		bool into = false;
		int err = moves_into_itself(m, &into);
		if (err != 0 || into) {
			return err != 0 ? err : -EINVAL;
		}
	}
	if (m->target == NULL) {
		return dir && m->to_dir->ino.nlink >= FS_LINKS_MAX ? -EMLINK : 0;
	}
	bool target_dir = m->target->ino.type == FS_DIR;
	if (dir != target_dir) {
		return dir ? -ENOTDIR : -EISDIR;
	}
	return target_dir && m->target->ino.dir_entries > 0 ? -ENOTEMPTY : 0;
}

static void
rename_log(struct renaming *m, bool target_gone)
{
	struct log_rec r = {.op = LOG_OP_RENAME,
	    .steps = LOG_STEP_REMOVE | (m->target != NULL ? LOG_STEP_REPLACE : LOG_STEP_INSERT) |
		     (target_gone ? LOG_STEP_DESTROY : 0),
	    .name = m->from.bytes,
	    .name_len = m->from.len,
	    .name2 = m->to.bytes,
	    .name2_len = m->to.len,
	    .dir = fs_node_object(m->from_dir),
	    .key = m->from_key,
	    .dir2 = fs_node_object(m->to_dir),
	    .key2 = m->to_key,
	    .object = fs_node_object(m->child),
	    .generation = fs_node_generation(m->child),
	    .gone = target_gone ? fs_node_object(m->target) : 0,
	    .gone_gen = target_gone ? fs_node_generation(m->target) : 0,
	    .type = m->child->ino.type};
	r.nodes[r.node_count++] = m->from_dir;
	if (m->to_dir != m->from_dir) {
		r.nodes[r.node_count++] = m->to_dir;
	}
	r.nodes[r.node_count++] = m->child;
	if (m->target != NULL && !target_gone) {
		r.nodes[r.node_count++] = m->target;
	}
	log_queue(&m->op, &r);
}

static void
apply_entries(struct renaming *m, struct dir_path *out, struct dir_path *in)
{
	struct pool_tx *tx = m->op.tx;
	struct dir_ent e = {.key = m->to_key,
	    .object = fs_node_object(m->child),
	    .generation = fs_node_generation(m->child),
	    .type = m->child->ino.type};
	dir_remove_apply(tx, m->from_dir, out, m->from_key, m->from_dir != m->to_dir);
	if (m->target != NULL) {
		dir_replace_apply(tx, m->to_dir, in, &e);
	} else {
		dir_insert_apply(tx, m->to_dir, in, &e, &m->to);
	}
	ncache_drop(m->op.ds->fp->ncache, m->from_dir, &m->from);
	ncache_drop(m->op.ds->fp->ncache, m->to_dir, &m->to);
}

/* Link counts, parents, times. Returns whether the target is gone. */
static bool
apply_inodes(struct renaming *m)
{
	struct fs_op *op = &m->op;
	bool dir = m->child->ino.type == FS_DIR, gone = false;
	if (dir && m->from_dir != m->to_dir) {
		m->from_dir->ino.nlink--;
		m->to_dir->ino.nlink++;
		op->ds->tree_txg = pool_tx_txg(op->tx);
	}
	if (m->target != NULL) {
		m->to_dir->ino.nlink -= dir;
		gone = dir || m->target->ino.nlink == 1;
		if (gone) {
			pool_obj_destroy(op->tx, m->target->obj);
		} else {
			m->target->ino.nlink--;
			fs_op_touch(op, m->target, false);
			node_store(op->tx, m->target);
		}
	}
	node_left_dir(m->child, m->from_dir);
	m->child->ino.parent = fs_node_object(m->to_dir);
	m->child->ino.parent_gen = fs_node_generation(m->to_dir);
	fs_op_touch(op, m->child, false);
	node_store(op->tx, m->child);
	fs_op_touch(op, m->from_dir, true);
	if (m->to_dir != m->from_dir) {
		fs_op_touch(op, m->to_dir, true);
		node_store(op->tx, m->to_dir);
	}
	node_store(op->tx, m->from_dir);
	return gone;
}

static void
rename_wcc_after(struct renaming *m)
{
	wcc_after(&m->op.res->wcc, m->from_dir);
	wcc_after(&m->op.res->wcc2, m->to_dir);
}

static int
rename_apply(struct renaming *m)
{
	struct dir_path out, in;
	int err = dir_remove_prepare(m->from_dir, m->from_key, &out);
	if (err != 0) {
		return err;
	}
	err = m->target != NULL ? dir_replace_prepare(m->to_dir, m->to_key, &in)
				: dir_insert_prepare(m->to_dir, &m->to, 0, &in, &m->to_key);
	if (err == 0) {
		apply_entries(m, &out, &in);
		dir_path_release(&in);
	}
	dir_path_release(&out);
	if (err != 0) {
		return err;
	}
	bool gone = apply_inodes(m);
	rename_wcc_after(m);
	rename_log(m, gone);
	ncache_put(m->op.ds->fp->ncache, m->to_dir, &m->to, fs_node_object(m->child),
	    fs_node_generation(m->child));
	return 0;
}

/* Do both names still lead where they led when we looked? */
static int
rename_entries_hold(struct renaming *m)
{
	struct dir_ent e;
	int err = dir_find(m->from_dir, &m->from, &e);
	bool moved = err == 0 && (e.object != fs_node_object(m->child) || node_is_stale(m->child));
	if (err == -ENOENT || moved) {
		return -EAGAIN;
	}
	if (err != 0) {
		return err;
	}
	m->from_key = e.key;
	err = dir_find(m->to_dir, &m->to, &e);
	if (err == -ENOENT) {
		return m->target == NULL ? 0 : -EAGAIN;
	}
	if (err == 0 && (m->target == NULL || e.object != fs_node_object(m->target) ||
			    node_is_stale(m->target))) {
		return -EAGAIN;
	}
	m->to_key = e.key;
	return err;
}

static int
rename_locked(struct renaming *m)
{
	struct fs_result *res = m->op.res;
	wcc_before(&res->wcc, m->from_dir);
	wcc_before(&res->wcc2, m->to_dir);
	int err = node_is_stale(m->to_dir) ? -ESTALE : rename_entries_hold(m);
	if (err == 0) {
		err = rename_permitted(m);
	}
	if (err == 0 && m->target == m->child) {
		rename_wcc_after(m);
		return 0; /* two names of one file: POSIX leaves both */
	}
	if (err == 0) {
		err = rename_types_fit(m);
	}
	if (err == 0) {
		err = rename_apply(m);
	}
	if (err != 0) {
		rename_wcc_after(m);
	}
	return err;
}

static int
rename_try(struct renaming *m)
{
	m->target = NULL;
	int err = lookup_entry(m->from_dir, m->from.bytes, m->from.len, &m->child);
	if (err != 0) {
		return err;
	}
	err = lookup_entry(m->to_dir, m->to.bytes, m->to.len, &m->target);
	if (err == 0 || err == -ENOENT) {
		struct fs_attr a;
		fs_getattr(m->child, &a);
		m->op.tree = a.type == FS_DIR && m->from_dir != m->to_dir;
		struct fs_node *nodes[] = {m->from_dir, m->to_dir, m->child, m->target};
		struct pool_need need = {.dirty_bytes = 4 * OBJ_DIRTY_BYTES,
		    .log_bytes = LOG_RECORD_BYTES,
		    .log_records = 1,
		    .frees = true};
		err = fs_op_start(&m->op, &need, nodes, ARRAY_LEN(nodes));
		if (err == 0) {
			err = fs_op_finish(&m->op, rename_locked(m));
		}
		fs_node_put(m->target);
	}
	fs_node_put(m->child);
	return err;
}

static int
rename_check(const struct renaming *m)
{
	struct fs_attr from, to;
	fs_getattr(m->from_dir, &from);
	fs_getattr(m->to_dir, &to);
	if (node_is_stale(m->from_dir) || node_is_stale(m->to_dir)) {
		return -ESTALE;
	}
	if (from.type != FS_DIR || to.type != FS_DIR) {
		return -ENOTDIR;
	}
	if (fs_node_ds(m->from_dir) != fs_node_ds(m->to_dir)) {
		return -EXDEV;
	}
	int err = name_check(m->from.bytes, m->from.len);
	if (err == 0) {
		err = name_check(m->to.bytes, m->to.len);
	}
	if (err == 0 &&
	    (name_is_dots(m->from.bytes, m->from.len) || name_is_dots(m->to.bytes, m->to.len))) {
		err = -EINVAL; /* RFC 1813 3.3.14 */
	}
	if (err == 0 && fs_name_is_snapdir(m->to.bytes, m->to.len)) {
		err = -EROFS;
	}
	if (err == 0) {
		err = perm_check(&from, &m->op.req->cred, PERM_EXEC);
	}
	return err == 0 ? perm_check(&to, &m->op.req->cred, PERM_EXEC) : err;
}

int
fs_rename(struct fs_node *from_dir, const char *from, uint32_t from_len, struct fs_node *to_dir,
    const char *to, uint32_t to_len, const struct fs_req *req, struct fs_result *res)
{
	memset(res, 0, sizeof(*res));
	struct renaming m = {.op = {.ds = fs_node_ds(from_dir), .req = req, .res = res},
	    .from_dir = from_dir,
	    .to_dir = to_dir,
	    .from = {.bytes = from, .len = from_len},
	    .to = {.bytes = to, .len = to_len}};
	int err = rename_check(&m);
	if (err != 0) {
		return err;
	}
	name_init(m.op.ds, from, from_len, &m.from);
	name_init(m.op.ds, to, to_len, &m.to);
	err = -EAGAIN;
	for (uint32_t tries = 0; err == -EAGAIN && tries < RENAME_TRIES_MAX; tries++) {
		err = rename_try(&m);
	}
	if (err == -ENOENT && fs_name_is_snapdir(from, from_len)) {
		err = -EROFS;
	}
	return err;
}
