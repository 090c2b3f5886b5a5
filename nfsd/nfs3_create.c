/* nfs3_create.c - CREATE, MKDIR, SYMLINK, MKNOD (RFC 1813 3.3.8 to 3.3.11). */
#include "nfsd/nfs3.h"

struct where {
	struct nfs3_fh dir;
	const uint8_t *name;
	uint32_t len;
};

static void
create_get_where(struct xdr_in *x, struct where *w)
{
	nfs3_get_fh(x, &w->dir);
	w->name = xdr_get_opaque(x, UINT32_MAX, &w->len);
}

static void
create_encode(struct nfs3_op *op, const struct fs_result *res, struct xdr_out *x)
{
	xdr_put_u32(x, NFS3_OK);
	nfs3_put_post_fh(x, op->e, res->object, res->generation);
	nfs3_put_post_op(x, &res->attr);
	nfs3_put_wcc(x, &res->wcc);
}

static void
create_run(
    struct nfs3_op *op, const struct where *w, const struct fs_create_args *args, int args_err)
{
	struct fs_result res = {0};
	struct fs_node *dir;
	op->encode = create_encode;
	int err = nfs3_node(op, &w->dir, true, &dir);
	if (err == 0) {
		err = args_err != 0 ? args_err
				    : fs_create(dir, &op->req, (const char *)w->name, w->len, args,
					  NULL, &res);
		fs_node_put(dir);
	}
	nfs3_finish(op, err, &res, NFS3_FAIL_WCC);
}

void
nfs3_create(struct nfs3_op *op)
{
	struct xdr_in *x = nfs3_args(op);
	struct where w;
	struct fs_create_args args = {.type = FS_REG};
	int err = 0;
	bool good = true;
	create_get_where(x, &w);
	uint32_t how = xdr_get_u32(x);
	if (how == FS_CREATE_EXCLUSIVE) {
		const uint8_t *verf = xdr_get_fixed(x, sizeof(args.verf));
		if (verf != NULL) {
			memcpy(args.verf, verf, sizeof(args.verf));
		}
	} else {
		good = how <= FS_CREATE_GUARDED && nfs3_get_sattr(x, &args.set, &err);
	}
	if (x->bad || !good) {
		nfs3_garbage(op);
		return;
	}
	args.how = (enum fs_create_how)how;
	create_run(op, &w, &args, err);
}

void
nfs3_mkdir(struct nfs3_op *op)
{
	struct xdr_in *x = nfs3_args(op);
	struct where w;
	struct fs_create_args args = {.type = FS_DIR, .how = FS_CREATE_GUARDED};
	int err;
	create_get_where(x, &w);
	if (!nfs3_get_sattr(x, &args.set, &err)) {
		nfs3_garbage(op);
		return;
	}
	create_run(op, &w, &args, err);
}

void
nfs3_symlink(struct nfs3_op *op)
{
	struct xdr_in *x = nfs3_args(op);
	struct where w;
	struct fs_create_args args = {.type = FS_LNK, .how = FS_CREATE_GUARDED};
	int err;
	create_get_where(x, &w);
	bool good = nfs3_get_sattr(x, &args.set, &err);
	args.target = (const char *)xdr_get_opaque(x, UINT32_MAX, &args.target_len);
	if (!good || x->bad) {
		nfs3_garbage(op);
		return;
	}
	if (args.target_len > FS_SYMLINK_MAX) {
		err = -ENAMETOOLONG;
	}
	create_run(op, &w, &args, err);
}

static void
mknod_fail_badtype(struct nfs3_op *op)
{
	struct xdr_out *x = nfs3_out(op);
	xdr_put_u32(x, NFS3ERR_BADTYPE);
	xdr_put_u64(x, 0); /* no attributes before, none after */
}

void
nfs3_mknod(struct nfs3_op *op)
{
	struct xdr_in *x = nfs3_args(op);
	struct where w;
	struct fs_create_args args = {.how = FS_CREATE_GUARDED};
	int err = 0;
	bool good = true;
	create_get_where(x, &w);
	uint32_t type = xdr_get_u32(x);
	bool device = type == FS_BLK || type == FS_CHR;
	bool known = device || type == FS_SOCK || type == FS_FIFO;
	if (known) {
		good = nfs3_get_sattr(x, &args.set, &err);
	}
	if (device) {
		args.rdev_major = xdr_get_u32(x);
		args.rdev_minor = xdr_get_u32(x);
	}
	if (!good || x->bad || type < FS_REG || type > FS_FIFO) {
		nfs3_garbage(op);
		return;
	}
	if (!known) {
		mknod_fail_badtype(op);
		return;
	}
	args.type = (enum fs_type)type;
	create_run(op, &w, &args, err);
}
