/*
 * nfs3_dir.c - READDIR, READDIRPLUS (RFC 1813 3.3.16, 3.3.17). Cookies are stored keys that stay
 * valid for ever, so the cookie verifier is constant and none is ever refused. The whole result
 * stays within the client's count; at least one entry or NFS3ERR_TOOSMALL.
 */
#include "nfsd/nfs3.h"

#define DIR_RESULT_MAX 61440u /* with the rest of the message it fits 64 KiB */
#define DIR_HEAD_BYTES \
	(4u + 4u + NFS3_FATTR_BYTES + NFS3_COOKIEVERF_BYTES) /* status, attributes, verifier */
#define DIR_TAIL_BYTES 8u                                    /* no more entries, eof */

struct listing {
	struct nfs3_op *op;
	bool plus;
	const struct nfs3_place *dir;
	uint64_t top_object; /* the share's top: its ".." is itself */
	uint64_t dir_object;
	uint32_t dir_left; /* READDIRPLUS: dircount still to spend */
	uint8_t *limit;    /* entries must end here */
	uint32_t count;
};

static uint64_t
listing_fileid(const struct listing *l, const struct fs_dirent *e)
{
	bool dotdot = e->name_len == 2 && memcmp(e->name, "..", 2) == 0;
	if (!dotdot || l->dir_object != l->top_object || l->dir->snapdir) {
		return e->object;
	}
	return l->dir->snap == NULL ? l->dir_object : fs_snapdir_fileid(l->dir_object);
}

static void
listing_put_fh(const struct listing *l, const struct fs_dirent *e)
{
	struct fh_parts parts = {.type = e->snapdir ? FH_SNAPDIR : FH_NODE,
	    .snapshot = l->dir->snap != NULL ? fs_ds_snap_guid(l->dir->snap) : 0,
	    .object = e->snapdir ? l->dir_object : e->object,
	    .generation = e->generation};
	uint8_t fh[FH_BYTES];
	fh_encode_parts(l->op->e, &parts, fh);
	xdr_put_opaque(nfs3_out(l->op), fh, sizeof(fh));
}

static bool
listing_emit(void *arg, const struct fs_dirent *e)
{
	struct listing *l = arg;
	struct xdr_out *x = nfs3_out(l->op);
	uint8_t *start = x->pos;
	uint32_t dir_bytes = 8 + 4 + xdr_padded(e->name_len) + 8;
	if (l->plus && dir_bytes > l->dir_left && l->count > 0) {
		return false;
	}
	xdr_put_u32(x, 1);
	xdr_put_u64(x, listing_fileid(l, e));
	xdr_put_opaque(x, e->name, e->name_len);
	xdr_put_u64(x, e->cookie);
	if (l->plus) {
		/* ".." of the share's top would be a way out: its attributes and handle are left
		 * away */
		bool give = e->attr != NULL && listing_fileid(l, e) == e->object;
		nfs3_put_post_op(x, give ? e->attr : NULL);
		xdr_put_u32(x, give);
		if (give) {
			listing_put_fh(l, e);
		}
	}
	if (x->full || x->pos > l->limit) {
		x->full = false;
		x->pos = start;
		return false;
	}
	l->dir_left -= MIN(l->dir_left, dir_bytes);
	l->count++;
	return true;
}

static int
listing_fill(struct nfs3_op *op, struct listing *l, uint64_t cookie, bool *out_eof)
{
	const struct nfs3_place *dir = l->dir;
	int err = dir->snapdir
		      ? fs_snapdir_readdir(dir->node, &op->cred, cookie, listing_emit, l, out_eof)
		      : fs_readdir(dir->node, &op->cred, cookie, l->plus, listing_emit, l, out_eof);
	return err == 0 && l->count == 0 && !*out_eof ? -ERR_TOOSMALL : err;
}

static void
listing_run(struct nfs3_op *op, const struct nfs3_fh *fh, uint64_t cookie, struct listing *l,
    uint32_t max_bytes)
{
	struct xdr_out *x = nfs3_out(op);
	struct nfs3_place dir;
	bool eof = false;
	int err = nfs3_place(op, fh, false, &dir);
	if (err != 0) {
		nfs3_fail(op, err, 1);
		return;
	}
	/* the result is counted without the status word */
	uint32_t bytes = MIN(max_bytes, DIR_RESULT_MAX);
	if (bytes < DIR_HEAD_BYTES - 4 + DIR_TAIL_BYTES) {
		err = -ERR_TOOSMALL;
	} else {
		err = request_grow(op->r, bytes + 4);
	}
	if (err == 0) {
		uint8_t *body = x->pos;
		l->op = op;
		l->dir = &dir;
		l->dir_object = fs_node_object(dir.node);
		l->top_object = op->e->top_object;
		l->limit = body + 4 + bytes - DIR_TAIL_BYTES;
		xdr_put_u32(x, NFS3_OK);
		nfs3_put_post_op_place(x, &dir);
		xdr_put_u64(x, 0);
		err = listing_fill(op, l, cookie, &eof);
	}
	if (err != 0) {
		nfs3_fail(op, err, 0);
		nfs3_put_post_op_place(x, &dir);
	} else {
		xdr_put_u32(x, 0);
		xdr_put_u32(x, eof);
	}
	nfs3_place_put(&dir);
}

void
nfs3_readdir(struct nfs3_op *op)
{
	struct xdr_in *args = nfs3_args(op);
	struct nfs3_fh fh;
	struct listing l = {.plus = false};
	nfs3_get_fh(args, &fh);
	uint64_t cookie = xdr_get_u64(args);
	(void)xdr_get_u64(args); /* verifier: see above */
	uint32_t count = xdr_get_u32(args);
	if (args->bad) {
		nfs3_garbage(op);
		return;
	}
	listing_run(op, &fh, cookie, &l, count);
}

void
nfs3_readdirplus(struct nfs3_op *op)
{
	struct xdr_in *args = nfs3_args(op);
	struct nfs3_fh fh;
	struct listing l = {.plus = true};
	nfs3_get_fh(args, &fh);
	uint64_t cookie = xdr_get_u64(args);
	(void)xdr_get_u64(args);
	l.dir_left = xdr_get_u32(args);
	uint32_t count = xdr_get_u32(args);
	if (args->bad) {
		nfs3_garbage(op);
		return;
	}
	listing_run(op, &fh, cookie, &l, count);
}
