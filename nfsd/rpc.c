/*
 * rpc.c - RPC call and reply headers. Every length is checked against its maximum and against the
 * bytes that are there before it is used; nothing is allocated before the credential has been read.
 */
#include "nfsd/rpc.h"

enum { RPC_CALL = 0, RPC_REPLY = 1, RPC_VERSION = 2, RPC_MSG_ACCEPTED = 0, RPC_MSG_DENIED = 1 };
enum { RPC_REJECT_MISMATCH = 0, RPC_REJECT_AUTH = 1 };
#define RPC_LAST_FRAGMENT 0x80000000u
#define NOBODY_ID 65534u

/* authsys_parms: stamp, machine name, uid, gid, gids<16>; must fill its body exactly. */
static bool
rpc_decode_authsys(const uint8_t *body, uint32_t len, struct fs_cred *cred)
{
	struct xdr_in x = {.pos = body, .end = body + len};
	uint32_t name_len;
	(void)xdr_get_u32(&x);
	(void)xdr_get_opaque(&x, RPC_MACHINE_MAX, &name_len);
	cred->uid = xdr_get_u32(&x);
	cred->gid = xdr_get_u32(&x);
	uint32_t count = xdr_get_u32(&x);
	if (x.bad || count > RPC_GIDS_MAX) {
		return false;
	}
	for (uint32_t i = 0; i < count; i++) {
		cred->groups[i] = xdr_get_u32(&x);
	}
	cred->group_count = count;
	return !x.bad && x.pos == x.end;
}

static enum rpc_auth_stat
rpc_decode_cred(struct xdr_in *x, struct rpc_call *out)
{
	uint32_t len;
	uint32_t flavor = xdr_get_u32(x);
	const uint8_t *body = xdr_get_opaque(x, RPC_AUTH_BYTES_MAX, &len);
	if (x->bad) {
		return RPC_AUTH_BADCRED;
	}
	(void)xdr_get_u32(x); /* the verifier's flavor means nothing with these credentials */
	uint32_t verf_len;
	(void)xdr_get_opaque(x, RPC_AUTH_BYTES_MAX, &verf_len);
	if (x->bad) {
		return RPC_AUTH_BADVERF;
	}
	out->cred = (struct fs_cred){.uid = NOBODY_ID, .gid = NOBODY_ID};
	switch (flavor) {
	case RPC_AUTH_NONE:
		out->flavor = RPC_AUTH_NONE;
		return RPC_AUTH_OK;
	case RPC_AUTH_SYS:
		out->flavor = RPC_AUTH_SYS;
		return rpc_decode_authsys(body, len, &out->cred) ? RPC_AUTH_OK : RPC_AUTH_BADCRED;
	default:
		return RPC_AUTH_REJECTEDCRED;
	}
}

enum rpc_decode
rpc_decode_call(
    const uint8_t *msg, uint32_t len, struct rpc_call *out, enum rpc_auth_stat *out_auth)
{
	struct xdr_in x = {.pos = msg, .end = msg + len};
	out->xid = xdr_get_u32(&x);
	uint32_t kind = xdr_get_u32(&x);
	uint32_t version = xdr_get_u32(&x);
	if (x.bad || kind != RPC_CALL) {
		return RPC_DECODE_DROP;
	}
	if (version != RPC_VERSION) {
		return RPC_DECODE_RPC_MISMATCH;
	}
	out->prog = xdr_get_u32(&x);
	out->vers = xdr_get_u32(&x);
	out->proc = xdr_get_u32(&x);
	if (x.bad) {
		return RPC_DECODE_DROP;
	}
	*out_auth = rpc_decode_cred(&x, out);
	if (*out_auth != RPC_AUTH_OK) {
		return RPC_DECODE_AUTH_ERROR;
	}
	out->args = x;
	return RPC_DECODE_OK;
}

void
rpc_put_accepted(struct xdr_out *x, uint32_t xid, enum rpc_accept_stat stat)
{
	xdr_put_u32(x, 0); /* record mark, set later */
	xdr_put_u32(x, xid);
	xdr_put_u32(x, RPC_REPLY);
	xdr_put_u32(x, RPC_MSG_ACCEPTED);
	xdr_put_u64(x, 0); /* AUTH_NONE verifier of length 0 */
	xdr_put_u32(x, stat);
}

void
rpc_put_prog_mismatch(struct xdr_out *x, uint32_t xid, uint32_t low, uint32_t high)
{
	rpc_put_accepted(x, xid, RPC_PROG_MISMATCH);
	xdr_put_u32(x, low);
	xdr_put_u32(x, high);
}

static void
rpc_put_denied(struct xdr_out *x, uint32_t xid, uint32_t reject)
{
	xdr_put_u32(x, 0);
	xdr_put_u32(x, xid);
	xdr_put_u32(x, RPC_REPLY);
	xdr_put_u32(x, RPC_MSG_DENIED);
	xdr_put_u32(x, reject);
}

void
rpc_put_rpc_mismatch(struct xdr_out *x, uint32_t xid)
{
	rpc_put_denied(x, xid, RPC_REJECT_MISMATCH);
	xdr_put_u32(x, RPC_VERSION);
	xdr_put_u32(x, RPC_VERSION);
}

void
rpc_put_auth_error(struct xdr_out *x, uint32_t xid, enum rpc_auth_stat stat)
{
	rpc_put_denied(x, xid, RPC_REJECT_AUTH);
	xdr_put_u32(x, stat);
}

void
rpc_put_mark(uint8_t *start, uint32_t message_bytes)
{
	xdr_store32(start, RPC_LAST_FRAGMENT | message_bytes);
}
