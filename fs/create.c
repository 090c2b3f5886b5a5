/*
 * create.c - CREATE, MKDIR, SYMLINK, MKNOD: a new object and its name, in one record.
 *
 * UNCHECKED on an existing file is a SETATTR of its size; EXCLUSIVE finds the file it made before
 * by the verifier, all 8 bytes of which are kept with the file for good.
 */
#include "fs/dir.h"

#define CREATE_TRIES_MAX 100u

struct create {
	struct fs_op op;
	struct fs_node *dir, *node;
	struct fs_name name;
	const struct fs_create_args *args;
};

/* Owner, group and mode of a new object, by the rules of its directory. */
static int
new_owner(const struct create *c, const struct fs_attr *dir, struct fs_inode *ino)
{
	const struct fs_sattr *set = &c->args->set;
	const struct fs_cred *cred = &c->op.req->cred;
	bool root = cred->uid == 0;
	bool inherit = (dir->mode & MODE_SGID) != 0;
	ino->uid = set->set_uid ? set->uid : cred->uid;
	ino->gid = set->set_gid ? set->gid : inherit ? dir->gid : cred->gid;
	if (!root && ino->uid != cred->uid) {
		return -EPERM;
	}
	if (!root && set->set_gid && !cred_in_group(cred, set->gid) &&
	    !(inherit && set->gid == dir->gid)) {
		return -EPERM;
	}
	uint32_t fallback = c->args->type == FS_LNK ? 0777 : c->args->type == FS_DIR ? 0755 : 0644;
	bool exclusive = c->args->how == FS_CREATE_EXCLUSIVE;
	ino->mode = exclusive ? 0600 : set->set_mode ? set->mode : fallback;
	if (c->args->type == FS_DIR) {
		ino->mode |= inherit ? MODE_SGID : 0;
	} else if (!root && !cred_in_group(cred, ino->gid)) {
		ino->mode &= ~MODE_SGID;
	}
	return 0;
}

static void
new_times(const struct create *c, struct fs_inode *ino)
{
	const struct fs_sattr *set = &c->args->set;
	bool given = c->args->how != FS_CREATE_EXCLUSIVE;
	ino->btime = ino->ctime = ino->mtime = ino->atime = c->op.now;
	if (given && set->atime_how == FS_TIME_CLIENT) {
		ino->atime = set->atime;
	}
	if (given && set->mtime_how == FS_TIME_CLIENT) {
		ino->mtime = set->mtime;
	}
}

static int
new_inode(const struct create *c, const struct fs_attr *dir, struct fs_inode *ino)
{
	const struct fs_create_args *a = c->args;
	memset(ino, 0, sizeof(*ino));
	ino->type = a->type;
	ino->nlink = a->type == FS_DIR ? 2 : 1;
	ino->change = 1;
	ino->parent = fs_node_object(c->dir);
	ino->parent_gen = fs_node_generation(c->dir);
	if (a->type == FS_BLK || a->type == FS_CHR) {
		ino->rdev_major = a->rdev_major;
		ino->rdev_minor = a->rdev_minor;
	}
	if (a->type == FS_LNK) {
		ino->size = a->target_len;
	} else if (a->type == FS_REG && a->set.set_size && a->how != FS_CREATE_EXCLUSIVE) {
		ino->size = a->set.size;
	}
	if (a->type == FS_REG && a->how == FS_CREATE_EXCLUSIVE &&
	    !DELIBERATE_BUG("fs-verf-not-stored")) {
		ino->flags |= INODE_HAS_VERF;
		memcpy(ino->verf, a->verf, sizeof(ino->verf));
	}
	new_times(c, ino);
	return new_owner(c, dir, ino);
}

static uint32_t
new_block_bytes(const struct create *c)
{
	switch (c->args->type) {
	case FS_REG:
		return atomic_load_explicit(&c->op.ds->record_bytes, memory_order_relaxed);
	case FS_DIR:
		return DIR_NODE_BYTES;
	case FS_LNK:
	case FS_BLK:
	case FS_CHR:
	case FS_SOCK:
	case FS_FIFO:
		return SECTOR_BYTES;
	}
	return SECTOR_BYTES;
}

/* The object with its inode and, of a link, its target; not in the directory yet. */
static int
new_object(struct create *c, const struct fs_inode *ino, uint32_t block_bytes)
{
	struct pool_tx *tx = c->op.tx;
	struct pool_obj *obj;
	int err = pool_obj_create(
	    tx, c->op.ds->pds, inode_object_type(ino->type), block_bytes, 0, 0, &obj);
	if (err != 0) {
		return err;
	}
	err = node_make(c->op.ds, obj, ino, &c->node);
	if (err == 0 && ino->type == FS_LNK) {
		struct iovec iov = {
		    .iov_base = (void *)(uintptr_t)c->args->target, .iov_len = c->args->target_len};
		c->node->ino.size = 0; /* an empty file: the target may go inline */
		err = file_write(tx, c->node, 0, &iov, 1, c->args->target_len);
		c->node->ino.size = ino->size;
	}
	if (err != 0) {
		pool_obj_destroy(tx, obj);
		pool_obj_release(obj);
		c->node = NULL;
	}
	return err;
}

static void
create_log(struct create *c, uint64_t key, uint32_t block_bytes)
{
	bool link = c->args->type == FS_LNK;
	struct iovec target = {
	    .iov_base = (void *)(uintptr_t)c->args->target, .iov_len = c->args->target_len};
	struct log_rec r = {.op = LOG_OP_CREATE,
	    .steps = LOG_STEP_CREATE | LOG_STEP_INSERT | (link ? LOG_STEP_DATA : 0),
	    .name2 = c->name.bytes,
	    .name2_len = c->name.len,
	    .dir2 = fs_node_object(c->dir),
	    .key2 = key,
	    .object = fs_node_object(c->node),
	    .generation = fs_node_generation(c->node),
	    .type = c->args->type,
	    .block_bytes = block_bytes,
	    .nodes = {c->dir, c->node},
	    .node_count = 2,
	    .iov = &target,
	    .iov_count = link ? 1 : 0,
	    .data_len = link ? c->args->target_len : 0};
	log_queue(&c->op, &r);
}

static int
create_new(struct create *c, const struct fs_attr *dir_attr)
{
	struct fs_op *op = &c->op;
	struct fs_inode ino;
	struct dir_path path;
	uint64_t key;
	int err = c->dir->ino.nlink >= FS_LINKS_MAX ? -EMLINK : new_inode(c, dir_attr, &ino);
	if (err != 0) {
		return err;
	}
	err = dir_insert_prepare(c->dir, &c->name, 0, &path, &key);
	if (err != 0) {
		return err;
	}
	uint32_t block_bytes = new_block_bytes(c);
	err = new_object(c, &ino, block_bytes);
	if (err != 0) {
		dir_path_release(&path);
		return err;
	}
	struct dir_ent e = {.key = key,
	    .object = fs_node_object(c->node),
	    .generation = fs_node_generation(c->node),
	    .type = ino.type};
	dir_insert_apply(op->tx, c->dir, &path, &e, &c->name);
	dir_path_release(&path);
	c->dir->ino.nlink += ino.type == FS_DIR;
	fs_op_touch(op, c->dir, true);
	node_store(op->tx, c->dir);
	node_store(op->tx, c->node);
	op->res->has_node = true;
	op->res->object = e.object;
	op->res->generation = e.generation;
	fs_getattr(c->node, &op->res->attr);
	wcc_after(&op->res->wcc, c->dir);
	create_log(c, key, block_bytes);
	ncache_put(op->ds->fp->ncache, c->dir, &c->name, e.object, e.generation);
	return 0;
}

static int
create_locked(struct create *c)
{
	struct fs_attr dir_attr;
	fs_getattr(c->dir, &dir_attr);
	wcc_before(&c->op.res->wcc, c->dir);
	int err = perm_dir_change(&dir_attr, &c->op.req->cred);
	bool device = c->args->type == FS_BLK || c->args->type == FS_CHR;
	if (err == 0 && device && c->op.req->cred.uid != 0) {
		err = -EPERM; /* whoever opened it on a client would have that client's device */
	}
	if (err == 0) {
		err = create_new(c, &dir_attr);
	}
	if (err != 0) {
		wcc_after(&c->op.res->wcc, c->dir);
	}
	return err;
}

/* ---- the name is there already ---- */

static void
found(struct create *c, struct fs_node *n)
{
	struct fs_result *res = c->op.res;
	rwlock_rdlock(&c->dir->lock);
	wcc_before(&res->wcc, c->dir);
	wcc_after(&res->wcc, c->dir);
	rwlock_rdunlock(&c->dir->lock);
	res->has_node = true;
	res->object = fs_node_object(n);
	res->generation = fs_node_generation(n);
	fs_getattr(n, &res->attr);
}

static bool
verf_matches(struct fs_node *n, const uint8_t *verf)
{
	rwlock_rdlock(&n->lock);
	bool same = n->ino.type == FS_REG && (n->ino.flags & INODE_HAS_VERF) != 0 &&
		    memcmp(n->ino.verf, verf, sizeof(n->ino.verf)) == 0;
	rwlock_rdunlock(&n->lock);
	return same;
}

static int
create_existing(struct create *c, struct fs_node *n)
{
	const struct fs_create_args *a = c->args;
	struct fs_attr attr;
	fs_getattr(n, &attr);
	int err = 0;
	if (a->type != FS_REG || attr.type != FS_REG || a->how == FS_CREATE_GUARDED) {
		err = -EEXIST;
	} else if (a->how == FS_CREATE_EXCLUSIVE) {
		err = verf_matches(n, a->verf) ? 0 : -EEXIST;
	} else if (a->set.set_size) {
		struct fs_sattr size = {.set_size = true, .size = a->set.size};
		struct fs_req quiet = *c->op.req;
		quiet.reply =
		    NULL; /* its result is laid out for CREATE, and UNCHECKED may be repeated */
		struct fs_result ignored;
		err = fs_setattr(n, &quiet, &size, NULL, &ignored);
	}
	found(c, n);
	if (err != 0) {
		c->op.res->has_node = false;
		return err;
	}
	c->node = node_ref(n);
	return 0;
}

/* One attempt; -EEXIST may mean that somebody was faster than our look-up. */
static int
create_try(struct create *c)
{
	struct fs_node *n;
	int err = lookup_entry(c->dir, c->name.bytes, c->name.len, &n);
	if (err == 0) {
		err = create_existing(c, n);
		fs_node_put(n);
		return err;
	}
	if (err != -ENOENT) {
		return err;
	}
	struct pool_need need = {.dirty_bytes = 2 * OBJ_DIRTY_BYTES,
	    .log_bytes = LOG_RECORD_BYTES + c->args->target_len,
	    .log_records = 1,
	    .grow_bytes = SECTOR_BYTES,
	    .new_objects = 1};
	struct fs_attr dir;
	struct fs_inode ino;
	fs_getattr(c->dir, &dir);
	if (new_owner(c, &dir, &ino) == 0) {
		need_owned(&need, ino.uid, ino.gid);
	}
	err = fs_op_start(&c->op, &need, &c->dir, 1);
	if (err != 0) {
		return err;
	}
	err = create_locked(c);
	bool raced = err == -EEXIST;
	err = fs_op_finish(&c->op, err);
	return raced ? -EAGAIN : err;
}

static int
create_args_check(const char *name, uint32_t len, const struct fs_create_args *args)
{
	int err = name_check_new(name, len);
	if (err == 0 && args->how != FS_CREATE_EXCLUSIVE) {
		err = setattr_valid(&args->set);
	}
	if (err == 0 && args->type == FS_LNK) {
		err = args->target_len > FS_SYMLINK_MAX ? -ENAMETOOLONG
		      : args->target_len == 0 || memchr(args->target, 0, args->target_len) != NULL
			  ? -EINVAL
			  : 0;
	}
	return err;
}

int
fs_create(struct fs_node *dir, const struct fs_req *req, const char *name, uint32_t len,
    const struct fs_create_args *args, struct fs_node **out_node, struct fs_result *res)
{
	memset(res, 0, sizeof(*res));
	struct fs_attr a;
	fs_getattr(dir, &a);
	int err = node_is_stale(dir) ? -ESTALE : a.type != FS_DIR ? -ENOTDIR : 0;
	if (err == 0) {
		err = create_args_check(name, len, args);
	}
	if (err == 0) {
		err = perm_check(&a, &req->cred, PERM_EXEC);
	}
	struct create c = {
	    .op = {.ds = fs_node_ds(dir), .req = req, .res = res}, .dir = dir, .args = args};
	if (err == 0) {
		name_init(c.op.ds, name, len, &c.name);
		err = -EAGAIN;
	}
	for (uint32_t tries = 0; err == -EAGAIN && tries < CREATE_TRIES_MAX; tries++) {
		err = create_try(&c);
	}
	if (err == 0 && out_node != NULL) {
		*out_node = c.node;
	} else {
		fs_node_put(c.node);
	}
	return err;
}
