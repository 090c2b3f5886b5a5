/* nfs3_remove.c - REMOVE, RMDIR, RENAME, LINK (RFC 1813 3.3.12 to 3.3.15). */
#include "nfsd/nfs3.h"

static void
wcc_encode(struct nfs3_op *op, const struct fs_result *res, struct xdr_out *x)
{
	(void)op;
	xdr_put_u32(x, NFS3_OK);
	nfs3_put_wcc(x, &res->wcc);
}

typedef int remove_fn(struct fs_node *dir, const struct fs_req *req, const char *name, uint32_t len,
    struct fs_result *res);

static void
remove_run(struct nfs3_op *op, remove_fn *remove)
{
	struct xdr_in *x = nfs3_args(op);
	struct fs_result res = {0};
	struct nfs3_fh fh;
	struct fs_node *dir;
	uint32_t len;
	nfs3_get_fh(x, &fh);
	const uint8_t *name = xdr_get_opaque(x, UINT32_MAX, &len);
	if (x->bad) {
		nfs3_garbage(op);
		return;
	}
	op->encode = wcc_encode;
	int err = nfs3_node(op, &fh, true, &dir);
	if (err == 0) {
		err = remove(dir, &op->req, (const char *)name, len, &res);
		fs_node_put(dir);
	}
	nfs3_finish(op, err, &res, NFS3_FAIL_WCC);
}

void
nfs3_remove(struct nfs3_op *op)
{
	remove_run(op, fs_remove);
}

void
nfs3_rmdir(struct nfs3_op *op)
{
	remove_run(op, fs_rmdir);
}

static void
rename_encode(struct nfs3_op *op, const struct fs_result *res, struct xdr_out *x)
{
	wcc_encode(op, res, x);
	nfs3_put_wcc(x, &res->wcc2);
}

void
nfs3_rename(struct nfs3_op *op)
{
	struct xdr_in *x = nfs3_args(op);
	struct fs_result res = {0};
	struct nfs3_fh from_fh, to_fh;
	struct fs_node *from_dir, *to_dir = NULL;
	uint32_t from_len, to_len;
	nfs3_get_fh(x, &from_fh);
	const uint8_t *from = xdr_get_opaque(x, UINT32_MAX, &from_len);
	nfs3_get_fh(x, &to_fh);
	const uint8_t *to = xdr_get_opaque(x, UINT32_MAX, &to_len);
	if (x->bad) {
		nfs3_garbage(op);
		return;
	}
	op->encode = rename_encode;
	int err = nfs3_node(op, &from_fh, true, &from_dir);
	if (err == 0) {
		err = nfs3_node(op, &to_fh, true, &to_dir);
		if (err == 0) {
			err = fs_rename(from_dir, (const char *)from, from_len, to_dir,
			    (const char *)to, to_len, &op->req, &res);
			fs_node_put(to_dir);
		}
		fs_node_put(from_dir);
	}
	nfs3_finish(op, err, &res, NFS3_FAIL_TWO_WCC);
}

static void
link_encode(struct nfs3_op *op, const struct fs_result *res, struct xdr_out *x)
{
	(void)op;
	xdr_put_u32(x, NFS3_OK);
	nfs3_put_post_op(x, &res->attr);
	nfs3_put_wcc(x, &res->wcc2);
}

void
nfs3_link(struct nfs3_op *op)
{
	struct xdr_in *x = nfs3_args(op);
	struct fs_result res = {0};
	struct nfs3_fh fh, dir_fh;
	struct fs_node *node, *dir = NULL;
	uint32_t len;
	nfs3_get_fh(x, &fh);
	nfs3_get_fh(x, &dir_fh);
	const uint8_t *name = xdr_get_opaque(x, UINT32_MAX, &len);
	if (x->bad) {
		nfs3_garbage(op);
		return;
	}
	op->encode = link_encode;
	int err = nfs3_node(op, &fh, true, &node);
	if (err == 0) {
		err = nfs3_node(op, &dir_fh, true, &dir);
		if (err == 0) {
			err = fs_link(node, dir, (const char *)name, len, &op->req, &res);
			fs_node_put(dir);
		}
		fs_node_put(node);
	}
	nfs3_finish(op, err, &res, NFS3_FAIL_ATTR_WCC);
}
