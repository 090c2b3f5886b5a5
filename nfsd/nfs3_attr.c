/* nfs3_attr.c - GETATTR, SETATTR, ACCESS (RFC 1813 3.3.1, 3.3.2, 3.3.4). */
#include "nfsd/nfs3.h"

void
nfs3_getattr(struct nfs3_op *op)
{
	struct nfs3_fh fh;
	struct nfs3_place place;
	nfs3_get_fh(nfs3_args(op), &fh);
	if (nfs3_args(op)->bad) {
		nfs3_garbage(op);
		return;
	}
	int err = nfs3_place(op, &fh, false, &place);
	if (err != 0) {
		nfs3_fail(op, err, 0);
		return;
	}
	struct fs_attr attr;
	nfs3_place_attr(&place, &attr);
	nfs3_place_put(&place);
	xdr_put_u32(nfs3_out(op), NFS3_OK);
	nfs3_put_attr(nfs3_out(op), &attr);
}

static void
setattr_encode(struct nfs3_op *op, const struct fs_result *res, struct xdr_out *x)
{
	(void)op;
	xdr_put_u32(x, NFS3_OK);
	nfs3_put_wcc(x, &res->wcc);
}

void
nfs3_setattr(struct nfs3_op *op)
{
	struct xdr_in *args = nfs3_args(op);
	struct nfs3_fh fh;
	struct fs_sattr set;
	struct fs_time guard = {0};
	struct fs_result res = {0};
	struct fs_node *node;
	int set_err;
	nfs3_get_fh(args, &fh);
	bool good = nfs3_get_sattr(args, &set, &set_err);
	bool guarded = xdr_get_bool(args);
	if (guarded) {
		guard.sec = xdr_get_u32(args);
		guard.nsec = xdr_get_u32(args);
	}
	if (!good || args->bad) {
		nfs3_garbage(op);
		return;
	}
	op->encode = setattr_encode;
	int err = nfs3_node(op, &fh, true, &node);
	if (err == 0) {
		err = set_err != 0
			  ? set_err
			  : fs_setattr(node, &op->req, &set, guarded ? &guard : NULL, &res);
		fs_node_put(node);
	}
	nfs3_finish(op, err, &res, NFS3_FAIL_WCC);
}

#define ACCESS_CHANGING (FS_ACCESS_MODIFY | FS_ACCESS_EXTEND | FS_ACCESS_DELETE)

void
nfs3_access(struct nfs3_op *op)
{
	struct nfs3_fh fh;
	struct nfs3_place place;
	nfs3_get_fh(nfs3_args(op), &fh);
	uint32_t want = xdr_get_u32(nfs3_args(op));
	if (nfs3_args(op)->bad) {
		nfs3_garbage(op);
		return;
	}
	int err = nfs3_place(op, &fh, false, &place);
	if (err != 0) {
		nfs3_fail(op, err, 1);
		return;
	}
	uint32_t have = place.snapdir ? fs_snapdir_access(place.node, &op->cred, want & 0x3fu)
				      : fs_access(place.node, &op->cred, want & 0x3fu);
	if (op->access.readonly) {
		have &= ~ACCESS_CHANGING;
	}
	xdr_put_u32(nfs3_out(op), NFS3_OK);
	nfs3_put_post_op_place(nfs3_out(op), &place);
	xdr_put_u32(nfs3_out(op), have);
	nfs3_place_put(&place);
}
