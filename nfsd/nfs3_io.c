/*
 * nfs3_io.c - READ, WRITE, COMMIT (RFC 1813 3.3.6, 3.3.7, 3.3.21). READ lends the cache's buffers
 * to the socket; WRITE hands the receive buffer down. The one copy is from the receive buffer into
 * the block.
 */
#include "nfsd/nfs3.h"

#define READ_HEAD_BYTES (4u + 4u + NFS3_FATTR_BYTES + 4u + 4u + 4u)

/* Room for the slices a READ of len bytes may need. */
static int
read_slices(struct request *r, uint32_t len, uint32_t *out_max)
{
	uint32_t worst = len / SECTOR_BYTES + 2;
	if (worst <= REQUEST_SLICES_INLINE) {
		*out_max = REQUEST_SLICES_INLINE;
		return 0;
	}
	if (r->slice_buf != NULL) {
		*out_max = worst; /* the call runs again */
		return 0;
	}
	int err =
	    iobuf_try_alloc(worst * (uint32_t)sizeof(struct pool_slice), ARENA_SEND, &r->slice_buf);
	if (err != 0) {
		r->slice_buf = NULL;
		return err;
	}
	r->slices = (struct pool_slice *)(void *)r->slice_buf->data;
	*out_max = worst;
	return 0;
}

void
nfs3_read(struct nfs3_op *op)
{
	struct request *r = op->r;
	struct xdr_out *x = nfs3_out(op);
	struct nfs3_fh fh;
	struct fs_node *node;
	nfs3_get_fh(nfs3_args(op), &fh);
	uint64_t off = xdr_get_u64(nfs3_args(op));
	uint32_t count = xdr_get_u32(nfs3_args(op));
	if (nfs3_args(op)->bad) {
		nfs3_garbage(op);
		return;
	}
	uint32_t want = MIN(count, NFSD_WTMAX), max, len = 0;
	bool eof = false;
	struct fs_attr attr;
	/* before anything is held: what waits here for a client that doesn't read must not keep a
	 * pool from being exported */
	conn_pin(r, want);
	int err = nfs3_node(op, &fh, false, &node);
	if (err != 0) {
		nfs3_fail(op, err, 1);
		return;
	}
	err = read_slices(r, want, &max);
	if (err == 0) {
		err = fs_read(
		    node, &op->cred, off, want, r->slices, max, &r->slice_count, &len, &eof, &attr);
	}
	if (err != 0) {
		r->slice_count = 0;
		xdr_put_u32(x, nfs3_status(err));
		nfs3_put_post_op_of(x, node);
		fs_node_put(node);
		return;
	}
	fs_node_put(node);
	r->slice_bytes = len;
	r->slice_pad = (uint8_t)(xdr_padded(len) - len);
	xdr_put_u32(x, NFS3_OK);
	nfs3_put_post_op(x, &attr);
	xdr_put_u32(x, len);
	xdr_put_u32(x, eof);
	xdr_put_u32(x, len);
}

static void
write_encode(struct nfs3_op *op, const struct fs_result *res, struct xdr_out *x)
{
	xdr_put_u32(x, NFS3_OK);
	nfs3_put_wcc(x, &res->wcc);
	xdr_put_u32(x, res->written);
	xdr_put_u32(x, res->stable ? FS_FILE_SYNC : FS_UNSTABLE);
	xdr_put_fixed(x, op->write_verf, sizeof(op->write_verf));
}

/* One of the service's start and of the dataset's incarnation: both a restart and a rollback may
 * have lost what wasn't committed, and the client must notice. */
static void
io_write_verf(struct nfs3_op *op, struct fs_node *node)
{
	uint64_t verf;
	memcpy(&verf, op->e->pool->write_verf, sizeof(verf));
	if (DELIBERATE_BUG("nfsd-verf-of-the-past")) {
		verf ^= 1;
		memcpy(op->write_verf, &verf, sizeof(op->write_verf));
		return;
	}
	verf ^= (fs_ds_incarnation(fs_node_ds(node)) - 1) * 0x9e3779b97f4a7c15ull;
	memcpy(op->write_verf, &verf, sizeof(op->write_verf));
}

void
nfs3_write(struct nfs3_op *op)
{
	struct xdr_in *args = nfs3_args(op);
	struct nfs3_fh fh;
	struct fs_result res = {0};
	struct fs_node *node;
	uint32_t len;
	nfs3_get_fh(args, &fh);
	uint64_t off = xdr_get_u64(args);
	uint32_t count = xdr_get_u32(args);
	uint32_t how = xdr_get_u32(args);
	const uint8_t *data = xdr_get_opaque(args, CONN_RECORD_MAX, &len);
	if (args->bad || how > FS_FILE_SYNC || count != len) {
		nfs3_garbage(op);
		return;
	}
	op->encode = write_encode;
	int err = nfs3_node(op, &fh, true, &node);
	if (err == 0) {
		uint32_t take = MIN(len, NFSD_WTMAX);
		if (DELIBERATE_BUG("nfsd-write-short") && take > 1) {
			take--;
		}
		struct iovec iov = {(void *)(uintptr_t)data, take};
		io_write_verf(op, node);
		err = off > (uint64_t)INT64_MAX - take ? -EFBIG
						       : fs_write(node, &op->req, off, &iov, 1,
							     op->r->rx, (enum fs_stable)how, &res);
		fs_node_put(node);
	}
	nfs3_finish(op, err, &res, NFS3_FAIL_WCC);
}

static void
commit_encode(struct nfs3_op *op, const struct fs_result *res, struct xdr_out *x)
{
	xdr_put_u32(x, NFS3_OK);
	nfs3_put_wcc(x, &res->wcc);
	xdr_put_fixed(x, op->write_verf, sizeof(op->write_verf));
}

void
nfs3_commit(struct nfs3_op *op)
{
	struct nfs3_fh fh;
	struct fs_result res = {0};
	struct fs_node *node;
	nfs3_get_fh(nfs3_args(op), &fh);
	(void)xdr_get_u64(nfs3_args(op)); /* offset and count: the whole file is committed */
	(void)xdr_get_u32(nfs3_args(op));
	if (nfs3_args(op)->bad) {
		nfs3_garbage(op);
		return;
	}
	op->encode = commit_encode;
	int err = nfs3_node(op, &fh, false, &node);
	if (err == 0) {
		io_write_verf(op, node);
		err = fs_commit(node, &res);
		fs_node_put(node);
	}
	nfs3_finish(op, err, &res, NFS3_FAIL_WCC);
}
