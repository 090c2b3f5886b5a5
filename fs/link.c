/* link.c - LINK: another name for what is no directory. */
#include "fs/dir.h"

struct linking {
	struct fs_op op;
	struct fs_node *node, *dir;
	struct fs_name name;
};

static void
link_log(struct linking *l, uint64_t key)
{
	struct log_rec r = {.op = LOG_OP_LINK,
	    .steps = LOG_STEP_INSERT,
	    .name2 = l->name.bytes,
	    .name2_len = l->name.len,
	    .dir2 = fs_node_object(l->dir),
	    .key2 = key,
	    .object = fs_node_object(l->node),
	    .generation = fs_node_generation(l->node),
	    .type = l->node->ino.type,
	    .nodes = {l->dir, l->node},
	    .node_count = 2};
	log_queue(&l->op, &r);
}

static int
link_apply(struct linking *l)
{
	struct fs_op *op = &l->op;
	struct fs_node *n = l->node, *dir = l->dir;
	struct dir_path path;
	uint64_t key;
	int err = n->ino.nlink >= FS_LINKS_MAX ? -EMLINK : 0;
	if (err == 0) {
		err = dir_insert_prepare(dir, &l->name, 0, &path, &key);
	}
	if (err != 0) {
		return err;
	}
	struct dir_ent e = {.key = key,
	    .object = fs_node_object(n),
	    .generation = fs_node_generation(n),
	    .type = n->ino.type};
	dir_insert_apply(op->tx, dir, &path, &e, &l->name);
	dir_path_release(&path);
	n->ino.nlink++;
	if (n->ino.parent == 0) {
		n->ino.parent = fs_node_object(dir);
		n->ino.parent_gen = fs_node_generation(dir);
	}
	fs_op_touch(op, n, false);
	fs_op_touch(op, dir, true);
	node_store(op->tx, n);
	node_store(op->tx, dir);
	wcc_after(&op->res->wcc, n);
	wcc_after(&op->res->wcc2, dir);
	op->res->attr = op->res->wcc.after;
	link_log(l, key);
	ncache_put(op->ds->fp->ncache, dir, &l->name, e.object, e.generation);
	return 0;
}

static int
link_locked(struct linking *l)
{
	struct fs_result *res = l->op.res;
	struct fs_attr dir;
	fs_getattr(l->dir, &dir);
	wcc_before(&res->wcc, l->node);
	wcc_before(&res->wcc2, l->dir);
	int err = node_is_stale(l->dir) ? -ESTALE : perm_dir_change(&dir, &l->op.req->cred);
	if (err == 0) {
		err = link_apply(l);
	}
	if (err != 0) {
		wcc_after(&res->wcc, l->node);
		wcc_after(&res->wcc2, l->dir);
		res->attr = res->wcc.after;
	}
	return err;
}

int
fs_link(struct fs_node *n, struct fs_node *dir, const char *name, uint32_t len,
    const struct fs_req *req, struct fs_result *res)
{
	memset(res, 0, sizeof(*res));
	struct fs_attr file, parent;
	fs_getattr(n, &file);
	fs_getattr(dir, &parent);
	int err = node_is_stale(n) || node_is_stale(dir) ? -ESTALE : 0;
	if (err == 0) {
		err = parent.type != FS_DIR              ? -ENOTDIR
		      : fs_node_ds(n) != fs_node_ds(dir) ? -EXDEV
		      : file.type == FS_DIR              ? -EISDIR
							 : name_check_new(name, len);
	}
	if (err != 0) {
		return err;
	}
	struct linking l = {
	    .op = {.ds = fs_node_ds(dir), .req = req, .res = res}, .node = n, .dir = dir};
	name_init(l.op.ds, name, len, &l.name);
	struct fs_node *nodes[] = {n, dir};
	struct pool_need need = {
	    .dirty_bytes = 2 * OBJ_DIRTY_BYTES, .log_bytes = LOG_RECORD_BYTES, .log_records = 1};
	err = fs_op_start(&l.op, &need, nodes, 2);
	return err == 0 ? fs_op_finish(&l.op, link_locked(&l)) : err;
}
