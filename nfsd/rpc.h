/*
 * rpc.h - ONC RPC messages (RFC 5531): decoding a call, its credential, and the headers of replies.
 * Private to nfsd/.
 */
#ifndef AGATE_NFSD_RPC_H
#define AGATE_NFSD_RPC_H

#include "base/net.h"
#include "fs/fs.h"
#include "nfsd/xdr.h"

enum rpc_accept_stat { /* RFC 5531 9 */
	RPC_SUCCESS = 0,
	RPC_PROG_UNAVAIL = 1,
	RPC_PROG_MISMATCH = 2,
	RPC_PROC_UNAVAIL = 3,
	RPC_GARBAGE_ARGS = 4,
	RPC_SYSTEM_ERR = 5,
};
enum rpc_auth_stat {
	RPC_AUTH_OK = 0,
	RPC_AUTH_BADCRED = 1,
	RPC_AUTH_REJECTEDCRED = 2,
	RPC_AUTH_BADVERF = 3,
	RPC_AUTH_TOOWEAK = 5
};
enum rpc_flavor { RPC_AUTH_NONE = 0, RPC_AUTH_SYS = 1 };

#define RPC_AUTH_BYTES_MAX 400u /* opaque_auth body, RFC 5531 8.2 */
#define RPC_MACHINE_MAX 255u    /* authsys_parms, RFC 5531 appendix A */
#define RPC_GIDS_MAX 16u
#define RPC_REPLY_HEAD_BYTES \
	28u /* record mark, xid, REPLY, accepted, null verifier (8), accept_stat */

struct rpc_call {
	uint32_t xid, prog, vers, proc;
	enum rpc_flavor flavor;
	struct fs_cred cred; /* AUTH_NONE: uid and gid 65534 */
	struct xdr_in args;
};

enum rpc_decode {
	RPC_DECODE_OK,
	RPC_DECODE_DROP,         /* not a call, or too short to answer: close the connection */
	RPC_DECODE_RPC_MISMATCH, /* xid is valid: answer with rpc_put_mismatch */
	RPC_DECODE_AUTH_ERROR,   /* xid is valid: answer with rpc_put_auth_error */
};
/* Decodes the message of len bytes. out_auth on AUTH_ERROR. Nothing is allocated, args point into
 * msg. */
enum rpc_decode rpc_decode_call(
    const uint8_t *msg, uint32_t len, struct rpc_call *out, enum rpc_auth_stat *out_auth);

/* Each writes a whole reply header from the record mark on; rpc_put_mark sets the mark when the
 * length is known. */
void rpc_put_accepted(struct xdr_out *x, uint32_t xid, enum rpc_accept_stat stat);
void rpc_put_prog_mismatch(struct xdr_out *x, uint32_t xid, uint32_t low, uint32_t high);
void rpc_put_rpc_mismatch(struct xdr_out *x, uint32_t xid);
void rpc_put_auth_error(struct xdr_out *x, uint32_t xid, enum rpc_auth_stat stat);
void rpc_put_mark(uint8_t *start, uint32_t message_bytes); /* one last fragment */

#endif
