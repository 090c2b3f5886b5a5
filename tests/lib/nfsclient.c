/*
 * nfsclient.c - connections, records, and the table of NFSv3 procedures. MOUNT: nfsclient_mount.c.
 */
#include <stdio.h>
#include <stdlib.h>
#include "base/net_sim.h"
#include "tests/lib/nfsclient_int.h"

#define LAST_FRAGMENT 0x80000000u
#define REPLY_BYTES_MAX ((2u << 20) + 65536u)

struct proc_codec {
	xdrproc_t args, res;
	size_t res_size;
};

#define CODEC(args, res) \
	{ \
		(xdrproc_t)(void (*)(void)) xdr_##args, (xdrproc_t)(void (*)(void))xdr_##res, \
		    sizeof(res) \
	}

static bool_t xdr_dirres(XDR *x, struct nfsc_dirres *res);
static bool_t xdr_dirplusres(XDR *x, struct nfsc_dirres *res);
#define xdr_READDIR3res xdr_dirres
#define xdr_READDIRPLUS3res xdr_dirplusres
typedef struct nfsc_dirres READDIR3res, READDIRPLUS3res;

static const struct proc_codec codecs[NFSC_PROCS] = {
    [NFSC_GETATTR] = CODEC(GETATTR3args, GETATTR3res),
    [NFSC_SETATTR] = CODEC(SETATTR3args, SETATTR3res),
    [NFSC_LOOKUP] = CODEC(LOOKUP3args, LOOKUP3res),
    [NFSC_ACCESS] = CODEC(ACCESS3args, ACCESS3res),
    [NFSC_READLINK] = CODEC(READLINK3args, READLINK3res),
    [NFSC_READ] = CODEC(READ3args, READ3res),
    [NFSC_WRITE] = CODEC(WRITE3args, WRITE3res),
    [NFSC_CREATE] = CODEC(CREATE3args, NEW3res),
    [NFSC_MKDIR] = CODEC(MKDIR3args, NEW3res),
    [NFSC_SYMLINK] = CODEC(SYMLINK3args, NEW3res),
    [NFSC_MKNOD] = CODEC(MKNOD3args, NEW3res),
    [NFSC_REMOVE] = CODEC(REMOVE3args, REMOVE3res),
    [NFSC_RMDIR] = CODEC(REMOVE3args, REMOVE3res),
    [NFSC_RENAME] = CODEC(RENAME3args, RENAME3res),
    [NFSC_LINK] = CODEC(LINK3args, LINK3res),
    [NFSC_READDIR] = CODEC(READDIR3args, READDIR3res),
    [NFSC_READDIRPLUS] = CODEC(READDIRPLUS3args, READDIRPLUS3res),
    [NFSC_FSSTAT] = CODEC(FSSTAT3args, FSSTAT3res),
    [NFSC_FSINFO] = CODEC(FSSTAT3args, FSINFO3res),
    [NFSC_PATHCONF] = CODEC(FSSTAT3args, PATHCONF3res),
    [NFSC_COMMIT] = CODEC(COMMIT3args, COMMIT3res),
};

void
nfsc_msg_free(struct nfsc_msg *m)
{
	mem_free(m->bytes);
	*m = (struct nfsc_msg){0};
}

/* ---- connection ---- */

void
nfsc_init(struct nfsc *c, const char *host, uint16_t port)
{
	*c = (struct nfsc){.port = port, .timeout_ns = 60 * NSEC_PER_SEC};
	snprintf(c->host, sizeof(c->host), "%s", host);
	c->next_xid = (uint32_t)rt_random_u64() | 1u;
}

int
nfsc_connect(struct nfsc *c)
{
	nfsc_disconnect(c);
	if (c->from[0] != '\0') {
		int err = net_sim_set_client(c->from);
		if (err != 0) {
			return err;
		}
	}
	return net_connect(c->host, c->port, rt_now_ns() + c->timeout_ns, &c->conn);
}

void
nfsc_disconnect(struct nfsc *c)
{
	if (c->conn != NULL) {
		net_conn_close(c->conn);
		c->conn = NULL;
	}
}

/* ---- records ---- */

static int
send_iov(struct nfsc *c, struct iovec *iov, int count)
{
	if (c->conn == NULL) {
		return -EPIPE;
	}
	return net_writev(c->conn, iov, count, rt_now_ns() + c->timeout_ns);
}

int
nfsc_send_bytes(struct nfsc *c, const void *bytes, uint32_t len)
{
	struct iovec iov = {(void *)(uintptr_t)bytes, len};
	return send_iov(c, &iov, 1);
}

static void
store32(uint8_t *p, uint32_t v)
{
	v = htobe32(v);
	memcpy(p, &v, 4);
}

static uint32_t
load32(const uint8_t *p)
{
	uint32_t v;
	memcpy(&v, p, 4);
	return be32toh(v);
}

int
nfsc_send(struct nfsc *c, const struct nfsc_msg *m)
{
	uint32_t step = c->fragment_bytes != 0 ? c->fragment_bytes : m->len;
	for (uint32_t at = 0; at < m->len;) {
		uint32_t len = MIN(step, m->len - at);
		uint8_t mark[4];
		store32(mark, len | (at + len == m->len ? LAST_FRAGMENT : 0));
		struct iovec iov[2] = {{mark, 4}, {m->bytes + at, len}};
		int err = send_iov(c, iov, 2);
		if (err != 0) {
			return err;
		}
		at += len;
	}
	return 0;
}

static int
recv_exactly(struct nfsc *c, uint8_t *out, uint32_t len)
{
	uint32_t got = 0;
	while (got < len) {
		int64_t n = net_read(c->conn, out + got, len - got, rt_now_ns() + c->timeout_ns);
		if (n <= 0) {
			return n == 0 ? -EPIPE : (int)n;
		}
		got += (uint32_t)n;
	}
	return 0;
}

int
nfsc_recv(struct nfsc *c, struct nfsc_msg *out)
{
	struct nfsc_msg m = {0};
	bool last = false;
	int err = c->conn == NULL ? -EPIPE : 0;
	while (err == 0 && !last) {
		uint8_t mark[4];
		err = recv_exactly(c, mark, 4);
		if (err != 0) {
			break;
		}
		last = (load32(mark) & LAST_FRAGMENT) != 0;
		uint32_t len = load32(mark) & ~LAST_FRAGMENT;
		uint8_t *more =
		    len <= REPLY_BYTES_MAX - m.len ? mem_realloc(m.bytes, m.len + len + 1) : NULL;
		if (more == NULL) {
			err = -EBADMSG;
			break;
		}
		m.bytes = more;
		err = recv_exactly(c, m.bytes + m.len, len);
		m.len += len;
	}
	if (err != 0) {
		nfsc_msg_free(&m);
		return err;
	}
	*out = m;
	return 0;
}

/* ---- encoding ---- */

static bool
encode_header(struct nfsc *c, XDR *x, uint32_t prog, uint32_t vers, uint32_t proc)
{
	char body[MAX_AUTH_BYTES];
	char machine[] = "client";
	struct authunix_parms parms = {.aup_time = 0,
	    .aup_machname = machine,
	    .aup_uid = c->uid,
	    .aup_gid = c->gid,
	    .aup_len = c->group_count,
	    .aup_gids = c->groups};
	struct rpc_msg msg = {.rm_xid = c->next_xid, .rm_direction = CALL};
	msg.rm_call.cb_rpcvers = RPC_MSG_VERSION;
	msg.rm_call.cb_prog = prog;
	msg.rm_call.cb_vers = vers;
	msg.rm_call.cb_proc = proc;
	msg.rm_call.cb_verf.oa_flavor = AUTH_NONE;
	msg.rm_call.cb_cred.oa_flavor = AUTH_NONE;
	if (!c->auth_none) {
		XDR cred;
		xdrmem_create(&cred, body, sizeof(body), XDR_ENCODE);
		if (!xdr_authunix_parms(&cred, &parms)) {
			return false;
		}
		msg.rm_call.cb_cred.oa_flavor = AUTH_SYS;
		msg.rm_call.cb_cred.oa_base = body;
		msg.rm_call.cb_cred.oa_length = xdr_getpos(&cred);
	}
	return xdr_callmsg(x, &msg);
}

int
nfsc_encode_with(struct nfsc *c, uint32_t prog, uint32_t vers, uint32_t proc, xdrproc_t codec,
    const void *args, struct nfsc_msg *out)
{
	void *in = (void *)(uintptr_t)args; /* encoding only reads */
	size_t cap = 2048 + (codec != NULL ? xdr_sizeof(codec, in) : 0);
	struct nfsc_msg m = {.bytes = mem_zalloc(cap)};
	if (m.bytes == NULL) {
		return -ENOMEM;
	}
	XDR x;
	xdrmem_create(&x, (char *)m.bytes, (u_int)cap, XDR_ENCODE);
	if (!encode_header(c, &x, prog, vers, proc) || (codec != NULL && !codec(&x, in))) {
		nfsc_msg_free(&m);
		return -EINVAL;
	}
	m.len = xdr_getpos(&x);
	c->xid = c->next_xid++;
	*out = m;
	return 0;
}

int
nfsc_encode(struct nfsc *c, uint32_t prog, uint32_t vers, uint32_t proc, const void *args,
    struct nfsc_msg *out)
{
	bool nfs = prog == NFSC_PROG_NFS && proc < NFSC_PROCS && args != NULL;
	return nfsc_encode_with(c, prog, vers, proc, nfs ? codecs[proc].args : NULL, args, out);
}

/* ---- decoding ---- */

/* The reply's header; 0 when a result follows. */
static int
decode_header(struct nfsc *c, XDR *x)
{
	uint32_t kind, stat, flavor, len;
	if (!xdr_uint32(x, &c->xid) || !xdr_uint32(x, &kind) || kind != REPLY ||
	    !xdr_uint32(x, &stat)) {
		return -EBADMSG;
	}
	c->denied = stat == MSG_DENIED;
	if (c->denied) {
		if (!xdr_uint32(x, &c->reject_stat)) {
			return -EBADMSG;
		}
		bool good = c->reject_stat == AUTH_ERROR
				? xdr_uint32(x, &c->auth_stat)
				: xdr_uint32(x, &c->low) && xdr_uint32(x, &c->high);
		return good ? -EPROTO : -EBADMSG;
	}
	if (stat != MSG_ACCEPTED || !xdr_uint32(x, &flavor) || !xdr_uint32(x, &len) ||
	    len > MAX_AUTH_BYTES || !xdr_setpos(x, xdr_getpos(x) + RNDUP(len)) ||
	    !xdr_uint32(x, &c->accept_stat)) {
		return -EBADMSG;
	}
	if (c->accept_stat == PROG_MISMATCH &&
	    (!xdr_uint32(x, &c->low) || !xdr_uint32(x, &c->high))) {
		return -EBADMSG;
	}
	return c->accept_stat == SUCCESS ? 0 : -EPROTO;
}

int
nfsc_decode_with(
    struct nfsc *c, const struct nfsc_msg *reply, xdrproc_t codec, void *res, size_t res_size)
{
	XDR x;
	xdrmem_create(&x, (char *)reply->bytes, reply->len, XDR_DECODE);
	int err = decode_header(c, &x);
	if (err == -EPROTO && xdr_getpos(&x) != reply->len) {
		err = -EBADMSG;
	}
	if (err != 0) {
		return err;
	}
	if (codec != NULL) {
		memset(res, 0, res_size);
		if (!codec(&x, res)) {
			xdr_free(codec, res);
			return -EBADMSG;
		}
	}
	if (xdr_getpos(&x) != reply->len) {
		if (codec != NULL) {
			xdr_free(codec, res);
		}
		return -EBADMSG;
	}
	return 0;
}

int
nfsc_decode(struct nfsc *c, const struct nfsc_msg *reply, uint32_t prog, uint32_t proc, void *res)
{
	bool nfs = prog == NFSC_PROG_NFS && proc < NFSC_PROCS && res != NULL;
	return nfsc_decode_with(
	    c, reply, nfs ? codecs[proc].res : NULL, res, nfs ? codecs[proc].res_size : 0);
}

void
nfsc_free(enum nfsc_proc proc, void *res)
{
	xdr_free(codecs[proc].res, res);
}

/* ---- one call ---- */

int
nfsc_transact(struct nfsc *c, const struct nfsc_msg *m, struct nfsc_msg *out_reply)
{
	int err = c->conn == NULL ? nfsc_connect(c) : 0;
	if (err == 0) {
		err = nfsc_send(c, m);
	}
	while (err == 0) {
		err = nfsc_recv(c, out_reply);
		if (err == 0 && out_reply->len >= 4 && memcmp(out_reply->bytes, m->bytes, 4) == 0) {
			return 0;
		}
		if (err == 0) {
			nfsc_msg_free(out_reply);
		}
	}
	nfsc_disconnect(c);
	return err;
}

#define JUKEBOX_PAUSE_NS NSEC_PER_MSEC
#define REPLY_HEAD_BYTES 24u

static bool
is_jukebox(const struct nfsc_msg *reply)
{
	return reply->len >= REPLY_HEAD_BYTES + 4 &&
	       load32(reply->bytes + REPLY_HEAD_BYTES) == NFS3ERR_JUKEBOX;
}

int
nfsc_call(struct nfsc *c, enum nfsc_proc proc, const void *args, void *res)
{
	for (uint32_t tries = 0;; tries++) {
		struct nfsc_msg call, reply;
		int err = nfsc_encode(c, NFSC_PROG_NFS, 3, proc, args, &call);
		if (err != 0) {
			c->err = err;
			return err;
		}
		err = nfsc_transact(c, &call, &reply);
		nfsc_msg_free(&call);
		if (err == 0 && tries < c->jukebox_tries && is_jukebox(&reply)) {
			nfsc_msg_free(&reply);
			fiber_sleep(JUKEBOX_PAUSE_NS);
			continue;
		}
		if (err == 0) {
			err = nfsc_decode(c, &reply, NFSC_PROG_NFS, proc, res);
			nfsc_msg_free(&reply);
		}
		c->err = err;
		return err;
	}
}

/* ---- directory listings ---- */

static bool_t
dirres_add(struct nfsc_dirres *res, const entryplus3 *e)
{
	if ((res->count & (res->count - 1)) == 0) {
		struct nfsc_dirent *more =
		    realloc(res->entries, MAX(res->count * 2, 8u) * sizeof(*more));
		if (more == NULL) {
			return FALSE;
		}
		res->entries = more;
	}
	struct nfsc_dirent *out = &res->entries[res->count++];
	*out = (struct nfsc_dirent){.fileid = e->entry.fileid,
	    .cookie = e->entry.cookie,
	    .name_len = e->entry.name.filename3_len,
	    .has_attr = e->name_attributes.attributes_follow,
	    .has_fh = e->name_handle.handle_follows};
	memcpy(out->name, e->entry.name.filename3_val, MIN(out->name_len, 255u));
	if (out->has_attr) {
		out->attr = e->name_attributes.post_op_attr_u.attributes;
	}
	if (out->has_fh) {
		const nfs_fh3 *fh = &e->name_handle.post_op_fh3_u.handle;
		out->fh_len = fh->data.data_len;
		memcpy(out->fh, fh->data.data_val, fh->data.data_len);
	}
	return TRUE;
}

static bool_t
dirres_list(XDR *x, struct nfsc_dirres *res, bool plus)
{
	bool_t more;
	while (xdr_bool(x, &more)) {
		if (!more) {
			return xdr_bool(x, &res->eof);
		}
		entryplus3 e = {0};
		bool_t good = plus ? xdr_entryplus3(x, &e) : xdr_entry3(x, &e.entry);
		good = good && dirres_add(res, &e);
		xdr_free((xdrproc_t)(void (*)(void))xdr_entryplus3, &e);
		if (!good) {
			return FALSE;
		}
	}
	return FALSE;
}

static bool_t
dirres_any(XDR *x, struct nfsc_dirres *res, bool plus)
{
	if (x->x_op == XDR_FREE) {
		free(res->entries);
		res->entries = NULL;
		return TRUE;
	}
	if (!xdr_nfsstat3(x, &res->status)) {
		return FALSE;
	}
	if (res->status != NFS3_OK) {
		return xdr_post_op_attr(x, &res->head.dir_attributes);
	}
	return xdr_READDIR3head(x, &res->head) && dirres_list(x, res, plus);
}

static bool_t
xdr_dirres(XDR *x, struct nfsc_dirres *res)
{
	return dirres_any(x, res, false);
}

static bool_t
xdr_dirplusres(XDR *x, struct nfsc_dirres *res)
{
	return dirres_any(x, res, true);
}
