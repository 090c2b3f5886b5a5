/* nfs3_info.c - FSSTAT, FSINFO, PATHCONF (RFC 1813 3.3.18 to 3.3.20). */
#include "nfsd/nfs3.h"

#define FSINFO_PROPERTIES 0x1bu /* LINK, SYMLINK, HOMOGENEOUS, CANSETTIME */
#define LINK_MAX_SHOWN 65000u
#define FILE_MAX_SHOWN ((uint64_t)1 << 60) /* what a file of the smallest records reaches */

/* Handle in, place out; answers the failure itself. */
static bool
info_begin(struct nfs3_op *op, struct nfs3_place *out)
{
	struct nfs3_fh fh;
	nfs3_get_fh(nfs3_args(op), &fh);
	if (nfs3_args(op)->bad) {
		nfs3_garbage(op);
		return false;
	}
	int err = nfs3_place(op, &fh, false, out);
	if (err != 0) {
		nfs3_fail(op, err, 1);
		return false;
	}
	xdr_put_u32(nfs3_out(op), NFS3_OK);
	nfs3_put_post_op_place(nfs3_out(op), out);
	return true;
}

void
nfs3_fsstat(struct nfs3_op *op)
{
	struct xdr_out *x = nfs3_out(op);
	struct nfs3_place place;
	if (!info_begin(op, &place)) {
		return;
	}
	struct fs_statfs s;
	fs_statfs(fs_node_ds(place.node), &op->cred, &s);
	nfs3_place_put(&place);
	xdr_put_u64(x, s.total_bytes);
	xdr_put_u64(x, s.free_bytes);
	xdr_put_u64(x, s.avail_bytes);
	xdr_put_u64(x, s.total_files);
	xdr_put_u64(x, s.free_files);
	xdr_put_u64(x, s.free_files);
	xdr_put_u32(x, 0); /* invarsec: may change at any time */
}

void
nfs3_fsinfo(struct nfs3_op *op)
{
	struct xdr_out *x = nfs3_out(op);
	struct nfs3_place place;
	if (!info_begin(op, &place)) {
		return;
	}
	nfs3_place_put(&place);
	for (int i = 0; i < 2; i++) { /* read, then write: maximum, preferred, multiple */
		xdr_put_u32(x, NFSD_WTMAX);
		xdr_put_u32(x, NFSD_WTMAX);
		xdr_put_u32(x, SECTOR_BYTES);
	}
	xdr_put_u32(x, 65536); /* preferred READDIR size */
	xdr_put_u64(x, FILE_MAX_SHOWN);
	xdr_put_u32(x, 0); /* time_delta: 1 ns */
	xdr_put_u32(x, 1);
	xdr_put_u32(x, FSINFO_PROPERTIES);
}

void
nfs3_pathconf(struct nfs3_op *op)
{
	struct xdr_out *x = nfs3_out(op);
	struct nfs3_place place;
	if (!info_begin(op, &place)) {
		return;
	}
	nfs3_place_put(&place);
	xdr_put_u32(x, LINK_MAX_SHOWN);
	xdr_put_u32(x, FS_NAME_MAX);
	xdr_put_u32(x, 1); /* no_trunc */
	xdr_put_u32(x, 1); /* chown_restricted */
	xdr_put_u32(x, 0); /* case_insensitive */
	xdr_put_u32(x, 1); /* case_preserving */
}
