/*
 * nfs3.c - NFSv3: the table of procedures, and what they share: handles, attributes, the
 * duplicate-request cache around calls that must not run twice.
 */
#include <xxhash.h>
#include "nfsd/nfs3.h"

struct nfs3_proc {
	nfs3_proc_fn *run;
	bool cached; /* not idempotent: answered from the cache when it comes again */
};

static void
nfs3_null(struct nfs3_op *op)
{
	(void)op;
}

static const struct nfs3_proc procs[22] = {
    {nfs3_null, false},
    {nfs3_getattr, false},
    {nfs3_setattr, true},
    {nfs3_lookup, false},
    {nfs3_access, false},
    {nfs3_readlink, false},
    {nfs3_read, false},
    {nfs3_write, false},
    {nfs3_create, true},
    {nfs3_mkdir, true},
    {nfs3_symlink, true},
    {nfs3_mknod, true},
    {nfs3_remove, true},
    {nfs3_rmdir, true},
    {nfs3_rename, true},
    {nfs3_link, true},
    {nfs3_readdir, false},
    {nfs3_readdirplus, false},
    {nfs3_fsstat, false},
    {nfs3_fsinfo, false},
    {nfs3_pathconf, false},
    {nfs3_commit, false},
};

/* ---- arguments ---- */

void
nfs3_get_fh(struct xdr_in *x, struct nfs3_fh *out)
{
	const uint8_t *bytes = xdr_get_opaque(x, sizeof(out->bytes), &out->len);
	if (bytes != NULL) {
		memcpy(out->bytes, bytes, out->len);
	}
}

/* The rules of the handle's export, for this client. */
static int
nfs3_admit(struct nfs3_op *op, struct export *e)
{
	switch (export_check(e, &op->r->peer, &op->access)) {
	case EXPORT_OK:
		op->cred = op->r->call.cred;
		export_squash(e, &op->access, &op->cred);
		return 0;
	case EXPORT_NO_RULE:
	case EXPORT_BAD_PORT:
		break;
	}
	return -EACCES;
}

/* From the bytes of a handle to what it names and whether this client may use it. */
static int
nfs3_enter(struct nfs3_op *op, const struct nfs3_fh *fh, struct fh_parts *parts)
{
	int err = fh_decode(fh->bytes, fh->len, parts);
	if (err != 0) {
		return err;
	}
	if (op->r->table == NULL) {
		op->r->table = export_table_get(op->r->n);
	}
	struct export *e = export_find(op->r->table, parts->dataset_guid, parts->share);
	if (e == NULL) {
		/* a pool that is about to be back in service: the client asks again */
		return atomic_load(&op->r->n->pools_changing) > 0 ? -ERR_SUSPENDED : -ESTALE;
	}
	err = fh_verify(e, fh->bytes);
	if (err != 0) {
		return err;
	}
	if (op->e != NULL) {
		return op->e == e ? 0 : -EXDEV;
	}
	err = nfs3_admit(op, e);
	if (err == 0) {
		op->e = e;
		op->req.cred = op->cred;
	}
	return err;
}

int
nfs3_place(struct nfs3_op *op, const struct nfs3_fh *fh, bool modify, struct nfs3_place *out)
{
	struct fh_parts parts;
	*out = (struct nfs3_place){0};
	int err = nfs3_enter(op, fh, &parts);
	if (err == 0 && modify && op->access.readonly) {
		err = -EROFS;
	}
	if (err != 0) {
		return err;
	}
	err = nfs3_place_hold(op->e, &parts, out);
	if (err == 0 && modify && (out->snap != NULL || out->snapdir)) {
		nfs3_place_put(out);
		err = -EROFS;
	}
	return err;
}

int
nfs3_node(struct nfs3_op *op, const struct nfs3_fh *fh, bool modify, struct fs_node **out)
{
	struct nfs3_place p;
	int err = nfs3_place(op, fh, modify, &p);
	*out = NULL;
	if (err == 0 && p.snapdir) {
		nfs3_place_put(&p);
		err = -EINVAL; /* not a file, not a link */
	}
	if (err == 0) {
		/* only calls that change something have two handles, and these are refused in
		 * snapshots */
		ASSERT(p.snap == NULL || op->snap == NULL);
		op->snap = p.snap != NULL ? p.snap : op->snap;
		*out = p.node;
	}
	return err;
}

static bool
nfs3_get_set_time(struct xdr_in *x, enum fs_set_time *how, struct fs_time *t, int *out_err)
{
	uint32_t kind = xdr_get_u32(x);
	switch (kind) {
	case 0:
		*how = FS_TIME_KEEP;
		return true;
	case 1:
		*how = FS_TIME_SERVER;
		return true;
	case 2:
		*how = FS_TIME_CLIENT;
		t->sec = xdr_get_u32(x);
		t->nsec = xdr_get_u32(x);
		if (t->nsec >= NSEC_PER_SEC) {
			*out_err = -EINVAL;
		}
		return true;
	default:
		return false;
	}
}

bool
nfs3_get_sattr(struct xdr_in *x, struct fs_sattr *out, int *out_err)
{
	*out = (struct fs_sattr){0};
	*out_err = 0;
	if ((out->set_mode = xdr_get_bool(x))) {
		out->mode = xdr_get_u32(x) & 07777u;
	}
	if ((out->set_uid = xdr_get_bool(x))) {
		out->uid = xdr_get_u32(x);
	}
	if ((out->set_gid = xdr_get_bool(x))) {
		out->gid = xdr_get_u32(x);
	}
	if ((out->set_size = xdr_get_bool(x))) {
		out->size = xdr_get_u64(x);
		if (out->size > INT64_MAX) {
			*out_err = -EFBIG;
		}
	}
	bool good = nfs3_get_set_time(x, &out->atime_how, &out->atime, out_err) &&
		    nfs3_get_set_time(x, &out->mtime_how, &out->mtime, out_err);
	return good && !x->bad;
}

/* ---- results ---- */

/* nfstime3 is unsigned 32 bits of seconds: what doesn't fit is clamped, not wrapped. */
void
nfs3_put_time(struct xdr_out *x, const struct fs_time *t)
{
	int64_t sec = t->sec < 0 ? 0 : t->sec > UINT32_MAX ? UINT32_MAX : t->sec;
	xdr_put_u32(x, (uint32_t)sec);
	xdr_put_u32(x, t->nsec);
}

void
nfs3_put_attr(struct xdr_out *x, const struct fs_attr *a)
{
	xdr_put_u32(x, a->type);
	xdr_put_u32(x, a->mode);
	xdr_put_u32(x, a->nlink);
	xdr_put_u32(x, a->uid);
	xdr_put_u32(x, a->gid);
	xdr_put_u64(x, a->size);
	xdr_put_u64(x, a->used_bytes);
	xdr_put_u32(x, a->rdev_major);
	xdr_put_u32(x, a->rdev_minor);
	xdr_put_u64(x, a->fsid);
	xdr_put_u64(x, a->object);
	nfs3_put_time(x, &a->atime);
	nfs3_put_time(x, &a->mtime);
	nfs3_put_time(x, &a->ctime);
}

void
nfs3_put_post_op(struct xdr_out *x, const struct fs_attr *a)
{
	xdr_put_u32(x, a != NULL);
	if (a != NULL) {
		nfs3_put_attr(x, a);
	}
}

void
nfs3_put_post_op_of(struct xdr_out *x, struct fs_node *n)
{
	struct fs_attr a;
	if (n != NULL) {
		fs_getattr(n, &a);
	}
	nfs3_put_post_op(x, n != NULL ? &a : NULL);
}

void
nfs3_put_wcc(struct xdr_out *x, const struct fs_wcc *w)
{
	xdr_put_u32(x, w->has_before);
	if (w->has_before) {
		xdr_put_u64(x, w->before_size);
		nfs3_put_time(x, &w->before_mtime);
		nfs3_put_time(x, &w->before_ctime);
	}
	nfs3_put_post_op(x, w->has_after ? &w->after : NULL);
}

void
nfs3_put_fh(struct xdr_out *x, const struct export *e, uint64_t object, uint64_t generation)
{
	uint8_t fh[FH_BYTES];
	fh_encode(e, object, generation, fh);
	xdr_put_opaque(x, fh, sizeof(fh));
}

void
nfs3_put_post_fh(struct xdr_out *x, const struct export *e, uint64_t object, uint64_t generation)
{
	xdr_put_u32(x, 1);
	nfs3_put_fh(x, e, object, generation);
}

static void
nfs3_restart(struct nfs3_op *op)
{
	op->r->out.pos = op->r->head + RPC_REPLY_HEAD_BYTES;
	op->r->out.full = false;
}

void
nfs3_fail(struct nfs3_op *op, int err, uint32_t absent_attrs)
{
	nfs3_restart(op);
	xdr_put_u32(nfs3_out(op), nfs3_status(err));
	for (uint32_t i = 0; i < absent_attrs; i++) {
		xdr_put_u32(nfs3_out(op), 0);
	}
}

/* fs calls this while it logs the change; the bytes go to the log, and to the client. */
static uint32_t
nfs3_encode_reply(void *arg, const struct fs_result *res, uint8_t *out, uint32_t cap)
{
	struct nfs3_op *op = arg;
	struct xdr_out x = {.pos = out, .end = out + cap};
	op->encode(op, res, &x);
	if (x.full) {
		return 0;
	}
	uint32_t len = (uint32_t)(x.pos - out);
	nfs3_restart(op);
	xdr_put_fixed(nfs3_out(op), out, len);
	op->encoded = true;
	return len;
}

void
nfs3_finish(struct nfs3_op *op, int err, const struct fs_result *res, enum nfs3_fail shape)
{
	struct xdr_out *x = nfs3_out(op);
	if (err == 0 && op->encoded) {
		return;
	}
	nfs3_restart(op);
	if (err == 0) {
		op->encode(op, res, x);
		return;
	}
	xdr_put_u32(x, nfs3_status(err));
	if (shape == NFS3_FAIL_ATTR_WCC) {
		nfs3_put_post_op(x, res->wcc.has_after ? &res->wcc.after : NULL);
		nfs3_put_wcc(x, &res->wcc2);
		return;
	}
	nfs3_put_wcc(x, &res->wcc);
	if (shape == NFS3_FAIL_TWO_WCC) {
		nfs3_put_wcc(x, &res->wcc2);
	}
}

/* ---- one call ---- */

/* Of the dataset that the first handle names: what was answered before it was rolled back is no
 * answer afterwards. */
static uint64_t
nfs3_incarnation(struct nfs3_op *op)
{
	struct xdr_in args = op->r->call.args;
	struct nfs3_fh fh;
	struct fh_parts parts;
	nfs3_get_fh(&args, &fh);
	if (args.bad || fh_decode(fh.bytes, fh.len, &parts) != 0) {
		return 1;
	}
	if (op->r->table == NULL) {
		op->r->table = export_table_get(op->r->n);
	}
	const struct export *e = export_find(op->r->table, parts.dataset_guid, parts.share);
	return e == NULL || DELIBERATE_BUG("nfsd-replies-of-the-past") ? 1
								       : fs_ds_incarnation(e->ds);
}

static void
nfs3_make_origin(struct nfs3_op *op)
{
	const struct rpc_call *call = &op->r->call;
	op->origin = (struct fs_origin){
	    .xid = call->xid, .prog = call->prog, .vers = call->vers, .proc = call->proc};
	memcpy(op->origin.addr, op->r->peer.ip, sizeof(op->origin.addr));
	XXH128_canonical_t hash;
	XXH128_canonicalFromHash(&hash,
	    XXH3_128bits_withSeed(call->args.pos, xdr_left(&call->args), nfs3_incarnation(op) - 1));
	memcpy(op->origin.arg_hash, hash.digest, sizeof(op->origin.arg_hash));
	op->has_origin = true;
	op->req.origin = &op->origin;
}

/* Whether the first handle of the call, with which all cached procedures begin, lets this client
 * in: the calls of others aren't remembered, so that they push out nobody's reply. */
static bool
nfs3_is_admitted(struct nfs3_op *op)
{
	struct xdr_in ahead = *nfs3_args(op);
	struct nfs3_fh fh;
	struct fh_parts parts;
	nfs3_get_fh(&ahead, &fh);
	return !ahead.bad && nfs3_enter(op, &fh, &parts) == 0;
}

#define MOVES_MAX 8u

static bool
nfs3_is_stale(const struct nfs3_op *op)
{
	const uint8_t *body = op->r->head + RPC_REPLY_HEAD_BYTES;
	return op->r->accept == RPC_SUCCESS && op->r->out.pos - body >= 4 &&
	       xdr_load32(body) == NFS3ERR_STALE;
}

/* Runs the procedure. Stale because the dataset is being rolled back isn't said to the client: the
 * call runs again on what takes its place. It did nothing the first time, or it would not have been
 * stale. */
static void
nfs3_call(struct nfs3_op *op, nfs3_proc_fn *run)
{
	const struct xdr_in args = op->r->call.args;
	for (unsigned tries = 0;; tries++) {
		run(op);
		if (op->snap != NULL) {
			fs_ds_close(op->snap);
			op->snap = NULL;
		}
		if (op->e == NULL || !fs_ds_is_moving(op->e->ds) || !nfs3_is_stale(op) ||
		    tries == MOVES_MAX || DELIBERATE_BUG("nfsd-stale-while-moving")) {
			return;
		}
		uint64_t guid = op->e->dataset_guid;
		if (export_settle(op->r, guid, op->e->handle_share) != 0) {
			/* the rest of a failure looks the same */
			xdr_store32(op->r->head + RPC_REPLY_HEAD_BYTES, NFS3ERR_JUKEBOX);
			return;
		}
		nfs3_restart(op);
		op->e = NULL;
		op->encoded = false;
		op->r->call.args = args;
	}
}

static void
nfs3_run_cached(struct nfs3_op *op, nfs3_proc_fn *run)
{
	struct drc *drc = op->r->n->drc;
	uint8_t known[FS_REPLY_MAX];
	uint32_t known_len;
	if (!nfs3_is_admitted(op)) {
		nfs3_call(op, run);
		return;
	}
	nfs3_make_origin(op);
	struct drc_entry *entry = drc_begin(drc, &op->origin, known, &known_len);
	if (known_len > 0) {
		atomic_fetch_add_explicit(&op->r->n->drc_hits, 1, memory_order_relaxed);
		xdr_put_fixed(nfs3_out(op), known, known_len);
		return;
	}
	nfs3_call(op, run);
	if (entry == NULL) {
		return;
	}
	const uint8_t *body = op->r->head + RPC_REPLY_HEAD_BYTES;
	uint32_t len = (uint32_t)(op->r->out.pos - body);
	bool keep = op->r->accept == RPC_SUCCESS && !op->r->out.full && len >= 4 &&
		    xdr_load32(body) != NFS3ERR_JUKEBOX;
	drc_end(drc, entry, body, keep ? len : 0);
}

void
nfs3_run(struct request *r)
{
	if (r->call.proc >= ARRAY_LEN(procs)) {
		r->accept = RPC_PROC_UNAVAIL;
		return;
	}
	const struct nfs3_proc *proc = &procs[r->call.proc];
	struct nfs3_op op = {.r = r};
	op.req.reply = nfs3_encode_reply;
	op.req.reply_arg = &op;
	if (proc->cached && !DELIBERATE_BUG("nfsd-no-duplicate-cache")) {
		nfs3_run_cached(&op, proc->run);
	} else {
		nfs3_call(&op, proc->run);
	}
	if (r->table != NULL) {
		export_table_put(r->table);
		r->table = NULL;
	}
	atomic_fetch_add_explicit(&r->n->proc_calls[r->call.proc], 1, memory_order_relaxed);
	const uint8_t *body = r->head + RPC_REPLY_HEAD_BYTES;
	if (r->call.proc != 0 &&
	    (r->accept != RPC_SUCCESS || r->out.pos - body < 4 || xdr_load32(body) != NFS3_OK)) {
		atomic_fetch_add_explicit(
		    &r->n->proc_errors[r->call.proc], 1, memory_order_relaxed);
	}
}
