/*
 * file.c - the bytes of files. Up to 256 bytes of a file that has no blocks live in its slot
 * (inline); when it grows beyond, they move into a block. inline and blocks never hold data at the
 * same time; what lies between the end of either and the size reads as zeros, so what a smaller
 * size cuts off must be cleared there and then.
 *
 * file_write and file_truncate leave the contents as they were when they fail. Size and times are
 * the caller's.
 */
#include "fs/fs_int.h"

static uint64_t
iov_copy_out(const struct iovec *iov, uint32_t count, uint8_t *out)
{
	uint64_t at = 0;
	for (uint32_t i = 0; i < count; i++) {
		memcpy(out + at, iov[i].iov_base, iov[i].iov_len);
		at += iov[i].iov_len;
	}
	return at;
}

/* The inline data as a block. Contents don't change, only where they are. */
static int
move_out(struct pool_tx *tx, struct fs_node *n, uint8_t *data, uint32_t len)
{
	pool_obj_inline_clear(tx, n->obj);
	if (len == 0) {
		return 0;
	}
	struct iovec iov = {.iov_base = data, .iov_len = len};
	int err = pool_write(tx, n->obj, 0, &iov, 1);
	if (err != 0) {
		int back = pool_obj_inline_set(tx, n->obj, data, len);
		ASSERT(back == 0);
	}
	return err;
}

int
file_write(struct pool_tx *tx, struct fs_node *n, uint64_t off, const struct iovec *iov,
    uint32_t iov_count, uint32_t len)
{
	uint8_t data[OBJECT_INLINE_MAX] = {0};
	uint32_t have = 0;
	int err = pool_obj_inline_get(n->obj, data, sizeof(data), &have);
	bool is_inline = err == 0;
	bool fits = off <= OBJECT_INLINE_MAX && off + len <= OBJECT_INLINE_MAX;
	if (fits && (is_inline || n->ino.size == 0)) {
		uint8_t next[OBJECT_INLINE_MAX];
		memcpy(next, data, sizeof(next));
		(void)iov_copy_out(iov, iov_count, next + off);
		uint32_t end = MAX(have, (uint32_t)off + len);
		if (pool_obj_inline_set(tx, n->obj, next, end) == 0) {
			return 0;
		}
	}
	if (is_inline) {
		err = move_out(tx, n, data, have);
		if (err != 0) {
			return err;
		}
	}
	return pool_write(tx, n->obj, off, iov, iov_count);
}

int
file_truncate(struct pool_tx *tx, struct fs_node *n, uint64_t size)
{
	uint8_t data[OBJECT_INLINE_MAX];
	uint32_t have = 0;
	if (pool_obj_inline_get(n->obj, data, sizeof(data), &have) == 0) {
		return size < have ? pool_obj_inline_set(tx, n->obj, data, (uint32_t)size) : 0;
	}
	return pool_free_range(tx, n->obj, size, UINT64_MAX);
}

/* ---- reading ---- */

struct lent {
	struct pool_slice *slices;
	uint32_t max, count;
};

static int
read_inline(const uint8_t *data, uint32_t have, uint64_t off, uint32_t len, struct lent *out)
{
	uint32_t got = off < have ? (uint32_t)MIN((uint64_t)len, have - off) : 0;
	out->count = 0;
	if (out->max < 2) {
		return -E2BIG;
	}
	if (got > 0) {
		struct iobuf *buf;
		int err = iobuf_alloc(IOBUF_BYTES_MIN, ARENA_CACHE, &buf);
		if (err != 0) {
			return err;
		}
		memcpy(buf->data, data + off, got);
		out->slices[out->count++] = (struct pool_slice){.buf = buf, .len_bytes = got};
	}
	if (got < len) {
		out->slices[out->count++] = (struct pool_slice){.len_bytes = len - got};
	}
	return 0;
}

static int
read_locked(struct fs_node *n, uint64_t off, uint32_t len, struct lent *out)
{
	uint8_t data[OBJECT_INLINE_MAX];
	uint32_t have = 0;
	if (pool_obj_inline_get(n->obj, data, sizeof(data), &have) == 0) {
		return read_inline(data, have, off, len, out);
	}
	return pool_read(n->obj, off, len, out->slices, out->max, &out->count);
}

static int
read_permitted(const struct fs_attr *a, const struct fs_cred *cred)
{
	if (a->type != FS_REG) {
		return a->type == FS_DIR ? -EISDIR : -EINVAL;
	}
	/* what may be executed may be read: the server can't tell paging from reading (RFC
	 * 1813 4.4) */
	int err = perm_check(a, cred, PERM_READ | PERM_OWNER);
	return err == 0 ? 0 : perm_check(a, cred, PERM_EXEC);
}

int
fs_read(struct fs_node *n, const struct fs_cred *cred, uint64_t off, uint32_t len,
    struct pool_slice *slices, uint32_t max, uint32_t *out_count, uint32_t *out_len, bool *out_eof,
    struct fs_attr *out_attr)
{
	struct fs_attr a;
	rwlock_rdlock(&n->lock);
	fs_getattr(n, &a);
	int err = node_is_stale(n) ? -ESTALE : read_permitted(&a, cred);
	struct lent lent = {.slices = slices, .max = max};
	uint32_t got = 0;
	if (err == 0 && off < a.size) {
		got = (uint32_t)MIN((uint64_t)MIN(len, FS_IO_BYTES_MAX), a.size - off);
	}
	if (got > 0) {
		err = read_locked(n, off, got, &lent);
	}
	rwlock_rdunlock(&n->lock);
	if (err != 0) {
		return err;
	}
	if (atomic_load_explicit(&fs_node_ds(n)->atime, memory_order_relaxed) != FS_ATIME_OFF) {
		file_touch_atime(n);
		fs_getattr(n, &a);
	}
	*out_count = lent.count;
	*out_len = got;
	*out_eof = off >= a.size || off + got >= a.size;
	*out_attr = a;
	return 0;
}

int
fs_readlink(struct fs_node *n, char *out, uint32_t cap, uint32_t *out_len)
{
	struct pool_slice slices[4];
	struct lent lent = {.slices = slices, .max = ARRAY_LEN(slices)};
	uint32_t at = 0;
	rwlock_rdlock(&n->lock);
	uint32_t len = (uint32_t)MIN(n->ino.size, (uint64_t)FS_SYMLINK_MAX);
	int err = node_is_stale(n)        ? -ESTALE
		  : n->ino.type != FS_LNK ? -EINVAL
		  : len > cap             ? -ENAMETOOLONG
					  : 0;
	if (err == 0) {
		err = read_locked(n, 0, len, &lent);
	}
	rwlock_rdunlock(&n->lock);
	if (err != 0) {
		return err;
	}
	for (uint32_t i = 0; i < lent.count; i++) {
		const struct pool_slice *s = &slices[i];
		if (s->buf != NULL) {
			memcpy(out + at, s->buf->data + s->off_bytes, s->len_bytes);
		} else {
			memset(out + at, 0, s->len_bytes);
		}
		at += s->len_bytes;
		iobuf_unref(s->buf);
	}
	*out_len = at;
	return 0;
}

#define RELATIME_NS (24ull * 3600 * NSEC_PER_SEC)

static bool
atime_is_due(const struct fs_attr *a, const struct fs_time *now, unsigned how)
{
	if (how == FS_ATIME_ON) {
		return fs_time_cmp(now, &a->atime) > 0;
	}
	return fs_time_cmp(&a->atime, &a->mtime) <= 0 || fs_time_cmp(&a->atime, &a->ctime) <= 0 ||
	       now->sec - a->atime.sec >= (int64_t)(RELATIME_NS / NSEC_PER_SEC);
}

/*
 * Remembers a read. Not logged, not a change for NFS (ctime stays), and no reason to fail the read
 * that is done already: when there is no room or the pool is read-only, it is left out.
 */
void
file_touch_atime(struct fs_node *n)
{
	struct fs_ds *ds = fs_node_ds(n);
	struct fs_attr a;
	struct fs_time now = fs_time_now();
	fs_getattr(n, &a);
	if (!atime_is_due(&a, &now, atomic_load_explicit(&ds->atime, memory_order_relaxed))) {
		return;
	}
	struct fs_op op = {.ds = ds};
	struct pool_need need = {.dirty_bytes = OBJ_DIRTY_BYTES, .frees = true};
	if (fs_op_start(&op, &need, &n, 1) != 0) {
		return;
	}
	n->ino.atime = now;
	node_store(op.tx, n);
	int err = fs_op_finish(&op, 0);
	ASSERT(err == 0); /* nothing was logged, so nothing was waited for */
}
