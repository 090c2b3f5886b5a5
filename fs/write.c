/*
 * write.c - WRITE and COMMIT.
 *
 * UNSTABLE data waits with its object (pool_log_defer) until a COMMIT, the next stable record of
 * that object, or its txg. With sync=always every WRITE is logged at once; with sync=disabled
 * nothing waits, and the answer says stable because that is what was asked for.
 */
#include "fs/fs_int.h"

#define WRITE_LOG_IOV_MAX 2u

/* The data as the log takes it: by reference to the caller's buffer, by a few pieces, or gathered
 * in a buffer of ours. */
struct write_data {
	const struct iovec *iov;
	uint32_t iov_count, len;
	struct iobuf *buf; /* a reference of ours, or NULL */
	uint32_t buf_off;
};

static bool
write_waits(const struct fs_ds *ds, enum fs_stable how)
{
	bool always = atomic_load_explicit(&ds->sync, memory_order_relaxed) == FS_SYNC_ALWAYS;
	return how == FS_UNSTABLE && (!always || DELIBERATE_BUG("fs-always-as-standard"));
}

static int
iov_length(const struct iovec *iov, uint32_t count, uint32_t *out_len)
{
	uint64_t len = 0;
	for (uint32_t i = 0; i < count; i++) {
		len += iov[i].iov_len;
		if (len > FS_IO_BYTES_MAX) {
			return -EINVAL;
		}
	}
	*out_len = (uint32_t)len;
	return 0;
}

static int
write_gather(struct write_data *w)
{
	int err = iobuf_alloc(w->len, ARENA_CACHE, &w->buf);
	uint32_t at = 0;
	for (uint32_t i = 0; i < w->iov_count && err == 0; i++) {
		memcpy(w->buf->data + at, w->iov[i].iov_base, w->iov[i].iov_len);
		at += (uint32_t)w->iov[i].iov_len;
	}
	return err;
}

/*
 * A record that goes into the ring at once is copied there and may point to anything. One that
 * waits keeps its buffer for seconds: a buffer much larger than the data isn't worth that, so the
 * data moves to one of its size.
 */
static int
write_data_init(struct write_data *w, struct iobuf *buf, bool waits)
{
	int err = iov_length(w->iov, w->iov_count, &w->len);
	if (err != 0 || w->len == 0) {
		return err;
	}
	if (buf != NULL && w->iov_count == 1 && (!waits || w->len >= buf->cap_bytes / 2)) {
		const uint8_t *base = w->iov[0].iov_base;
		ASSERT(base >= buf->data && base + w->len <= buf->data + buf->cap_bytes);
		w->buf = iobuf_ref(buf);
		w->buf_off = (uint32_t)(base - buf->data);
		return 0;
	}
	if (w->iov_count <= WRITE_LOG_IOV_MAX && (!waits || w->len <= IOBUF_BYTES_MIN)) {
		return 0;
	}
	return write_gather(w);
}

static int
write_permitted(struct fs_node *n, const struct fs_req *req, uint64_t off, uint32_t len)
{
	struct fs_attr a;
	fs_getattr(n, &a);
	if (a.type != FS_REG) {
		return a.type == FS_DIR ? -EISDIR : -EINVAL;
	}
	if (off > FS_SIZE_MAX || len > FS_SIZE_MAX - off) {
		return -EFBIG;
	}
	return perm_check(&a, &req->cred, PERM_WRITE | PERM_OWNER);
}

/* Blocks that become dirty: the only one of a small file is as long as the file, others are whole.
 */
static uint32_t
write_dirty_bytes(const struct fs_node *n, const struct fs_attr *a, uint64_t off, uint32_t len)
{
	uint32_t block = pool_obj_block_bytes(n->obj);
	uint64_t size = MAX(a->size, off + len);
	return size <= block ? ALIGN_UP((uint32_t)size, SECTOR_BYTES) : len + 2 * block;
}

/* Overwriting a file that has all its blocks makes it no larger. */
static uint32_t
write_grow_bytes(const struct fs_attr *a, uint64_t off, uint32_t len)
{
	return off + len <= a->size && a->used_bytes >= a->size ? 0 : len;
}

static void
write_log(struct fs_op *op, struct fs_node *n, uint64_t off, const struct write_data *w, bool defer)
{
	bool by_buf = w->buf != NULL;
	if (defer && by_buf) {
		iobuf_recount(w->buf, ARENA_CACHE); /* it is the network's no longer */
	}
	struct log_rec r = {.op = LOG_OP_WRITE,
	    .steps = LOG_STEP_DATA,
	    .object = fs_node_object(n),
	    .generation = fs_node_generation(n),
	    .off = off,
	    .type = FS_REG,
	    .nodes = {n},
	    .node_count = 1,
	    .iov = w->iov,
	    .iov_count = by_buf ? 0 : w->iov_count,
	    .buf = w->buf,
	    .buf_off = w->buf_off,
	    .data_len = w->len,
	    .defer = defer};
	log_queue(op, &r);
}

static int
write_locked(struct fs_op *op, struct fs_node *n, uint64_t off, const struct write_data *w,
    enum fs_stable how)
{
	struct fs_result *res = op->res;
	wcc_before(&res->wcc, n);
	int err = write_permitted(n, op->req, off, w->len);
	if (err == 0) {
		err = file_write(op->tx, n, off, w->iov, w->iov_count, w->len);
	}
	if (err != 0) {
		wcc_after(&res->wcc, n);
		return err;
	}
	n->ino.size = MAX(n->ino.size, off + w->len);
	n->ino.mode = mode_after_write(n->ino.mode, &op->req->cred);
	fs_op_touch(op, n, true);
	node_store(op->tx, n);
	bool defer = write_waits(op->ds, how);
	wcc_after(&res->wcc, n);
	res->attr = res->wcc.after;
	res->written = w->len;
	res->stable = !defer || DELIBERATE_BUG("fs-unstable-says-stable") ||
		      atomic_load_explicit(&op->ds->sync, memory_order_relaxed) == FS_SYNC_DISABLED;
	write_log(op, n, off, w, defer);
	return 0;
}

int
fs_write(struct fs_node *n, const struct fs_req *req, uint64_t off, const struct iovec *iov,
    uint32_t iov_count, struct iobuf *buf, enum fs_stable how, struct fs_result *res)
{
	memset(res, 0, sizeof(*res));
	struct fs_op op = {.ds = fs_node_ds(n), .req = req, .res = res};
	struct write_data w = {.iov = iov, .iov_count = iov_count};
	int err = write_data_init(&w, buf, write_waits(op.ds, how));
	if (err != 0) {
		return err;
	}
	err = node_is_stale(n) ? -ESTALE : write_permitted(n, req, off, w.len);
	if (err == 0 && fs_ds_is_readonly(op.ds)) {
		err = -EROFS;
	}
	if (err == 0 && w.len == 0) {
		fs_getattr(n, &res->attr);
		res->wcc.has_after = true;
		res->wcc.after = res->attr;
		res->stable = true;
		return 0;
	}
	if (err == 0) {
		struct fs_attr a;
		fs_getattr(n, &a);
		struct pool_need need = {
		    .dirty_bytes = write_dirty_bytes(n, &a, off, w.len) + OBJ_DIRTY_BYTES,
		    .log_bytes = w.len + LOG_RECORD_BYTES,
		    .log_records = 1,
		    .grow_bytes = write_grow_bytes(&a, off, w.len)};
		need_owned(&need, a.uid, a.gid);
		err = fs_op_start(&op, &need, &n, 1);
		if (err == 0) {
			err = fs_op_finish(&op, write_locked(&op, n, off, &w, how));
		}
	}
	iobuf_unref(w.buf);
	return err;
}

int
fs_commit(struct fs_node *n, struct fs_result *res)
{
	memset(res, 0, sizeof(*res));
	struct fs_ds *ds = fs_node_ds(n);
	rwlock_rdlock(&n->lock);
	wcc_before(&res->wcc, n);
	wcc_after(&res->wcc, n);
	rwlock_rdunlock(&n->lock);
	res->attr = res->wcc.after;
	if (node_is_stale(n)) {
		return -ESTALE;
	}
	if (ds->snap_guid != 0 ||
	    atomic_load_explicit(&ds->sync, memory_order_relaxed) == FS_SYNC_DISABLED) {
		return 0;
	}
	return DELIBERATE_BUG("fs-commit-skipped") ? 0 : pool_commit_object(n->obj);
}
