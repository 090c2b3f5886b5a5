/* nfs3_lookup.c - LOOKUP, READLINK (RFC 1813 3.3.3, 3.3.5). */
#include "nfsd/nfs3.h"

void
nfs3_lookup(struct nfs3_op *op)
{
	struct xdr_in *args = nfs3_args(op);
	struct xdr_out *x = nfs3_out(op);
	struct nfs3_fh fh;
	struct nfs3_place dir, found;
	uint32_t len;
	nfs3_get_fh(args, &fh);
	const uint8_t *name = xdr_get_opaque(args, UINT32_MAX, &len);
	if (args->bad) {
		nfs3_garbage(op);
		return;
	}
	int err = nfs3_place(op, &fh, false, &dir);
	if (err != 0) {
		nfs3_fail(op, err, 1);
		return;
	}
	err = nfs3_place_lookup(op->e, &dir, &op->cred, (const char *)name, len, &found);
	xdr_put_u32(x, nfs3_status(err));
	if (err == 0) {
		nfs3_put_place_fh(x, op->e, &found);
		nfs3_put_post_op_place(x, &found);
		nfs3_place_put(&found);
	}
	nfs3_put_post_op_place(x, &dir);
	nfs3_place_put(&dir);
}

void
nfs3_readlink(struct nfs3_op *op)
{
	struct xdr_out *x = nfs3_out(op);
	struct nfs3_fh fh;
	struct fs_node *node;
	nfs3_get_fh(nfs3_args(op), &fh);
	if (nfs3_args(op)->bad) {
		nfs3_garbage(op);
		return;
	}
	int err = nfs3_node(op, &fh, false, &node);
	if (err != 0) {
		nfs3_fail(op, err, 1);
		return;
	}
	struct iobuf *target;
	err = iobuf_try_alloc(FS_SYMLINK_MAX + 1, ARENA_SEND, &target);
	uint32_t len = 0;
	if (err == 0) {
		err = fs_readlink(node, (char *)target->data, target->cap_bytes, &len);
		if (err == 0) {
			err = request_grow(op->r, 4 + 4 + NFS3_FATTR_BYTES + 4 + xdr_padded(len));
		}
	} else {
		target = NULL;
	}
	xdr_put_u32(x, nfs3_status(err));
	nfs3_put_post_op_of(x, node);
	if (err == 0) {
		xdr_put_opaque(x, target->data, len);
	}
	iobuf_unref(target);
	fs_node_put(node);
}
