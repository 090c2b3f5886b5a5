/*
 * nfs3.h - NFSv3 (RFC 1813): what the procedures share. Private to nfsd/.
 */
#ifndef AGATE_NFSD_NFS3_H
#define AGATE_NFSD_NFS3_H

#include "nfsd/drc.h"
#include "nfsd/export.h"

enum nfs3_stat { /* RFC 1813 2.6 */
	NFS3_OK = 0,
	NFS3ERR_PERM = 1,
	NFS3ERR_NOENT = 2,
	NFS3ERR_IO = 5,
	NFS3ERR_NXIO = 6,
	NFS3ERR_ACCES = 13,
	NFS3ERR_EXIST = 17,
	NFS3ERR_XDEV = 18,
	NFS3ERR_NODEV = 19,
	NFS3ERR_NOTDIR = 20,
	NFS3ERR_ISDIR = 21,
	NFS3ERR_INVAL = 22,
	NFS3ERR_FBIG = 27,
	NFS3ERR_NOSPC = 28,
	NFS3ERR_ROFS = 30,
	NFS3ERR_MLINK = 31,
	NFS3ERR_NAMETOOLONG = 63,
	NFS3ERR_NOTEMPTY = 66,
	NFS3ERR_DQUOT = 69,
	NFS3ERR_STALE = 70,
	NFS3ERR_BADHANDLE = 10001,
	NFS3ERR_NOT_SYNC = 10002,
	NFS3ERR_BAD_COOKIE = 10003,
	NFS3ERR_NOTSUPP = 10004,
	NFS3ERR_TOOSMALL = 10005,
	NFS3ERR_SERVERFAULT = 10006,
	NFS3ERR_BADTYPE = 10007,
	NFS3ERR_JUKEBOX = 10008,
};
/* The one translation of errors. */
enum nfs3_stat nfs3_status(int err);

#define NFS3_COOKIEVERF_BYTES 8u
#define NFS3_FATTR_BYTES 84u
#define NFS3_WCC_BYTES_MAX (4u + 24u + 4u + NFS3_FATTR_BYTES)

/* One call in progress. */
struct nfs3_op {
	struct request *r;
	struct export *e; /* of the first handle */
	struct export_access access;
	struct fs_cred cred;     /* squashed */
	struct fs_origin origin; /* cached procedures only */
	bool has_origin;
	bool encoded;          /* the reply was written while the change was logged */
	struct fs_ds *snap;    /* held for a node of nfs3_node that is in a snapshot, or NULL */
	uint8_t write_verf[8]; /* WRITE, COMMIT */
	void (*encode)(struct nfs3_op *op, const struct fs_result *res, struct xdr_out *x);
	struct fs_req req;
};

/* A procedure writes status and result to op->r->out; arguments that don't decode: nfs3_garbage. */
typedef void nfs3_proc_fn(struct nfs3_op *op);
nfs3_proc_fn nfs3_getattr, nfs3_setattr, nfs3_lookup, nfs3_access, nfs3_readlink, nfs3_read,
    nfs3_write, nfs3_create, nfs3_mkdir, nfs3_symlink, nfs3_mknod, nfs3_remove, nfs3_rmdir,
    nfs3_rename, nfs3_link, nfs3_readdir, nfs3_readdirplus, nfs3_fsstat, nfs3_fsinfo, nfs3_pathconf,
    nfs3_commit;

static inline struct xdr_in *
nfs3_args(struct nfs3_op *op)
{
	return &op->r->call.args;
}

static inline struct xdr_out *
nfs3_out(struct nfs3_op *op)
{
	return &op->r->out;
}

static inline void
nfs3_garbage(struct nfs3_op *op)
{
	op->r->accept = RPC_GARBAGE_ARGS;
}

/* Takes a handle from the arguments (bytes are copied; the cursor says whether they were there). */
struct nfs3_fh {
	uint8_t bytes[64];
	uint32_t len;
};
void nfs3_get_fh(struct xdr_in *x, struct nfs3_fh *out);
/* Authenticates the handle, applies the export's rules, squashes the credential, holds the node.
 * modify: refuse on a read-only share. A second handle of a call must lie in the same export (else
 * -EXDEV). */
int nfs3_node(struct nfs3_op *op, const struct nfs3_fh *fh, bool modify,
    struct fs_node **out) WARN_UNUSED MAY_PARK;

/* What a handle can name: a node of the dataset or of a snapshot, or the .snapshot in a directory.
 * See snapdir.c. */
struct nfs3_place {
	struct fs_ds *snap;   /* held; NULL: in the dataset itself */
	struct fs_node *node; /* held; of .snapshot the directory it is in */
	bool snapdir;
};
/* As nfs3_node, for the procedures that know what .snapshot is. */
int nfs3_place(struct nfs3_op *op, const struct nfs3_fh *fh, bool modify,
    struct nfs3_place *out) WARN_UNUSED MAY_PARK;
void nfs3_place_put(struct nfs3_place *p);
/* One name further, within the export. */
int nfs3_place_lookup(const struct export *e, const struct nfs3_place *dir,
    const struct fs_cred *cred, const char *name, uint32_t len,
    struct nfs3_place *out) WARN_UNUSED MAY_PARK;
/* Holds what an authenticated handle of the export names. -ESTALE. */
int nfs3_place_hold(const struct export *e, const struct fh_parts *parts,
    struct nfs3_place *out) WARN_UNUSED MAY_PARK;
void nfs3_place_attr(const struct nfs3_place *p, struct fs_attr *out);
void nfs3_put_place_fh(struct xdr_out *x, const struct export *e, const struct nfs3_place *p);
void nfs3_put_post_op_place(struct xdr_out *x, const struct nfs3_place *p);

void nfs3_put_time(struct xdr_out *x, const struct fs_time *t);
void nfs3_put_attr(struct xdr_out *x, const struct fs_attr *a);
void nfs3_put_post_op(struct xdr_out *x, const struct fs_attr *a); /* NULL: no attributes */
void nfs3_put_post_op_of(struct xdr_out *x, struct fs_node *n);    /* NULL: no attributes */
void nfs3_put_wcc(struct xdr_out *x, const struct fs_wcc *w);
void nfs3_put_fh(struct xdr_out *x, const struct export *e, uint64_t object, uint64_t generation);
void nfs3_put_post_fh(
    struct xdr_out *x, const struct export *e, uint64_t object, uint64_t generation);
/* sattr3. False: garbage. An nsec out of range is *out_err = -EINVAL. */
bool nfs3_get_sattr(struct xdr_in *x, struct fs_sattr *out, int *out_err);

/*
 * The end of a changing procedure: on success the body that was encoded under the lock (or is
 * encoded now), on failure the status and `wccs` wcc_data of res (RFC 1813's resfail of that
 * procedure).
 */
enum nfs3_fail { NFS3_FAIL_WCC, NFS3_FAIL_TWO_WCC, NFS3_FAIL_ATTR_WCC };
void nfs3_finish(struct nfs3_op *op, int err, const struct fs_result *res, enum nfs3_fail shape);
/* Status alone, for failures before anything was held. */
void nfs3_fail(struct nfs3_op *op, int err, uint32_t absent_attrs);

#endif
