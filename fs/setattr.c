/*
 * setattr.c - SETATTR: everything asked for is allowed and done, or nothing is.
 *
 * Who: mode and exact times: the owner. uid: uid 0. gid: the owner, to a group of his. Size and
 * "times of the server": whoever may write. chown of anything but a directory takes set-uid and
 * set-gid away, also from uid 0; so does a new size set by somebody else.
 */
#include "fs/fs_int.h"

int
setattr_valid(const struct fs_sattr *set)
{
	bool ok =
	    (!set->set_mode || set->mode <= 07777) && (!set->set_size || set->size <= FS_SIZE_MAX);
	ok = ok && (set->atime_how != FS_TIME_CLIENT || set->atime.nsec <= NSEC_MAX);
	ok = ok && (set->mtime_how != FS_TIME_CLIENT || set->mtime.nsec <= NSEC_MAX);
	return ok ? 0 : -EINVAL;
}

static bool
sets_time(const struct fs_sattr *set, enum fs_set_time how)
{
	return set->atime_how == how || set->mtime_how == how;
}

static bool
sets_nothing(const struct fs_sattr *set)
{
	return !set->set_mode && !set->set_uid && !set->set_gid && !set->set_size &&
	       set->atime_how == FS_TIME_KEEP && set->mtime_how == FS_TIME_KEEP;
}

static int
owner_permitted(const struct fs_attr *a, const struct fs_cred *cred, const struct fs_sattr *set)
{
	bool root = cred->uid == 0, owner = root || cred->uid == a->uid;
	if ((set->set_mode || set->set_uid || set->set_gid || sets_time(set, FS_TIME_CLIENT)) &&
	    !owner) {
		return -EPERM;
	}
	if (set->set_uid && !root && set->uid != a->uid) {
		return -EPERM;
	}
	if (set->set_gid && !root && set->gid != a->gid && !cred_in_group(cred, set->gid)) {
		return -EPERM;
	}
	return 0;
}

static int
setattr_permitted(const struct fs_attr *a, const struct fs_cred *cred, const struct fs_sattr *set)
{
	int err = owner_permitted(a, cred, set);
	if (err == 0 && sets_time(set, FS_TIME_SERVER) && cred->uid != a->uid) {
		err = perm_check(a, cred, PERM_WRITE);
	}
	if (err == 0 && set->set_size) {
		err = a->type == FS_REG   ? perm_check(a, cred, PERM_WRITE | PERM_OWNER)
		      : a->type == FS_DIR ? -EISDIR
					  : -EINVAL;
	}
	return err;
}

static void
apply_mode(struct fs_inode *i, const struct fs_cred *cred, const struct fs_sattr *set)
{
	if (set->set_mode) {
		i->mode = set->mode;
		uint32_t gid = set->set_gid ? set->gid : i->gid;
		if (cred->uid != 0 && i->type != FS_DIR && !cred_in_group(cred, gid)) {
			i->mode &= ~MODE_SGID;
		}
	}
	if ((set->set_uid || set->set_gid) && i->type != FS_DIR) {
		i->mode &= ~MODE_SUID;
		i->mode &= (i->mode & 010) != 0 ? ~MODE_SGID : ~0u;
	}
	i->uid = set->set_uid ? set->uid : i->uid;
	i->gid = set->set_gid ? set->gid : i->gid;
}

static void
apply_time(
    struct fs_time *t, enum fs_set_time how, const struct fs_time *given, const struct fs_time *now)
{
	if (how != FS_TIME_KEEP) {
		*t = how == FS_TIME_CLIENT ? *given : *now;
	}
}

/* The changes of set to n, checked before; the caller logs. Can fail only before anything has
 * changed. */
int
setattr_apply(struct fs_op *op, struct fs_node *n, const struct fs_sattr *set)
{
	if (set->set_size && set->size < n->ino.size) {
		int err = file_truncate(op->tx, n, set->size);
		if (err != 0) {
			return err;
		}
	}
	struct fs_inode *i = &n->ino;
	apply_mode(i, &op->req->cred, set);
	fs_op_touch(op, n, set->set_size);
	if (set->set_size) {
		i->size = set->size;
		if (!set->set_mode) {
			i->mode = mode_after_write(i->mode, &op->req->cred);
		}
	}
	apply_time(&i->atime, set->atime_how, &set->atime, &op->now);
	apply_time(&i->mtime, set->mtime_how, &set->mtime, &op->now);
	node_store(op->tx, n);
	return 0;
}

static void
setattr_log(struct fs_op *op, struct fs_node *n, bool truncated)
{
	struct log_rec r = {.op = LOG_OP_SETATTR,
	    .steps = truncated ? LOG_STEP_TRUNCATE : 0,
	    .object = fs_node_object(n),
	    .generation = fs_node_generation(n),
	    .off = n->ino.size,
	    .type = n->ino.type,
	    .nodes = {n},
	    .node_count = 1};
	log_queue(op, &r);
}

static int
setattr_locked(
    struct fs_op *op, struct fs_node *n, const struct fs_sattr *set, const struct fs_time *guard)
{
	struct fs_result *res = op->res;
	struct fs_attr a;
	fs_getattr(n, &a);
	wcc_before(&res->wcc, n);
	int err = guard != NULL && fs_time_cmp(guard, &a.ctime) != 0 ? -ERR_NOTSYNC : 0;
	if (err == 0) {
		err = setattr_permitted(&a, &op->req->cred, set);
	}
	if (err == 0 && !sets_nothing(set)) {
		err = setattr_apply(op, n, set);
	}
	wcc_after(&res->wcc, n);
	res->attr = res->wcc.after;
	if (err == 0 && !sets_nothing(set)) {
		setattr_log(op, n, set->set_size && set->size < a.size);
	}
	return err;
}

/* What changes hands counts for who gets it; who gives it away is never asked. */
static void
setattr_owned(
    const struct fs_attr *a, const struct fs_sattr *set, bool grows, struct pool_need *need)
{
	bool uid = set->set_uid && set->uid != a->uid, gid = set->set_gid && set->gid != a->gid;
	if ((uid || gid) && !DELIBERATE_BUG("fs-chown-unasked")) {
		need_owned(
		    need, set->set_uid ? set->uid : a->uid, set->set_gid ? set->gid : a->gid);
		need->owned = (uint8_t)((uid ? POOL_OWNED_UID : 0) | (gid ? POOL_OWNED_GID : 0));
		need->new_objects = 1;
		need->moved_bytes = a->used_bytes;
	} else if (grows) {
		need_owned(need, a->uid, a->gid);
	}
}

/* A cut writes what it leaves of the block that it goes through. More mustn't be asked for: of a
 * small pool removing may use little more than a large block. */
static uint32_t
cut_dirty_bytes(const struct fs_node *n, const struct fs_attr *a, const struct fs_sattr *set)
{
	uint32_t block = pool_obj_block_bytes(n->obj);
	bool cuts = set->set_size && set->size < a->size;
	return cuts ? ALIGN_UP((uint32_t)(set->size & (block - 1)), SECTOR_BYTES) : 0;
}

int
fs_setattr(struct fs_node *n, const struct fs_req *req, const struct fs_sattr *set,
    const struct fs_time *guard, struct fs_result *res)
{
	memset(res, 0, sizeof(*res));
	int err = setattr_valid(set);
	if (err != 0) {
		return err;
	}
	struct fs_attr a;
	fs_getattr(n, &a);
	bool grows = set->set_size && set->size > a.size;
	struct fs_op op = {.ds = fs_node_ds(n), .req = req, .res = res};
	struct pool_need need = {.dirty_bytes = OBJ_DIRTY_BYTES + cut_dirty_bytes(n, &a, set),
	    .log_bytes = LOG_RECORD_BYTES,
	    .log_records = 1,
	    .frees = !grows};
	setattr_owned(&a, set, grows, &need);
	err = fs_op_start(&op, &need, &n, 1);
	return err == 0 ? fs_op_finish(&op, setattr_locked(&op, n, set, guard)) : err;
}
