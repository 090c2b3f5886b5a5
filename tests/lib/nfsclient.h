/*
 * nfsclient.h - an NFSv3 and MOUNT client for fibers, over base/net.h: on the simulated network and
 * on real sockets. Encodes through rpcgen's types and libtirpc, apart from nfsd/'s own XDR.
 *
 * A connection has one user at a time. Calls may be sent ahead (nfsc_send) and their replies taken
 * in any order of arrival (nfsc_recv); nfsc_call does both for one call.
 */
#ifndef AGATE_TESTS_NFSCLIENT_H
#define AGATE_TESTS_NFSCLIENT_H

#include "base/base.h"
#include "base/net.h"
#include <rpc/rpc.h>
#undef mem_alloc /* libtirpc's macros are in the way of base/mem.h's functions */
#undef mem_free
#include "tests/lib/mount3.h"
#include "tests/lib/nfs3.h"

enum nfsc_proc {
	NFSC_NULL,
	NFSC_GETATTR,
	NFSC_SETATTR,
	NFSC_LOOKUP,
	NFSC_ACCESS,
	NFSC_READLINK,
	NFSC_READ,
	NFSC_WRITE,
	NFSC_CREATE,
	NFSC_MKDIR,
	NFSC_SYMLINK,
	NFSC_MKNOD,
	NFSC_REMOVE,
	NFSC_RMDIR,
	NFSC_RENAME,
	NFSC_LINK,
	NFSC_READDIR,
	NFSC_READDIRPLUS,
	NFSC_FSSTAT,
	NFSC_FSINFO,
	NFSC_PATHCONF,
	NFSC_COMMIT,
	NFSC_PROCS
};
#define NFSC_PROG_NFS 100003u
#define NFSC_PROG_MOUNT 100005u

enum nfsc_mount_proc {
	NFSC_MNT_NULL,
	NFSC_MNT,
	NFSC_MNT_DUMP,
	NFSC_UMNT,
	NFSC_UMNTALL,
	NFSC_EXPORT
};

struct nfsc {
	char host[64];
	uint16_t port;
	char from[64]; /* simulation: the address it comes from; "" = the network's default */
	struct net_conn *conn; /* NULL: not connected */
	/* of calls encoded from now on */
	uint32_t next_xid;
	uint32_t uid, gid, group_count, groups[16];
	bool auth_none;
	uint64_t timeout_ns;
	uint32_t jukebox_tries;  /* nfsc_call: how often to try again after NFS3ERR_JUKEBOX */
	uint32_t fragment_bytes; /* cut records into fragments of so many; 0 = one fragment */
	/* of the last reply */
	uint32_t xid, accept_stat, reject_stat, auth_stat, low, high;
	bool denied;
	int err; /* of the last nfsc_call */
};

/* A call or a reply as bytes, without the record mark. Memory of mem.h. */
struct nfsc_msg {
	uint8_t *bytes;
	uint32_t len;
};
void nfsc_msg_free(struct nfsc_msg *m);

/* Remembers where to; connects at the first use. */
void nfsc_init(struct nfsc *c, const char *host, uint16_t port);
/* 0, or the error of net_connect. */
int nfsc_connect(struct nfsc *c) WARN_UNUSED MAY_PARK;
void nfsc_disconnect(struct nfsc *c);

/* args NULL: none. */
int nfsc_encode(struct nfsc *c, uint32_t prog, uint32_t vers, uint32_t proc, const void *args,
    struct nfsc_msg *out) WARN_UNUSED;
/* As it is, behind a record mark. */
int nfsc_send(struct nfsc *c, const struct nfsc_msg *m) WARN_UNUSED MAY_PARK;
int nfsc_send_bytes(struct nfsc *c, const void *bytes, uint32_t len) WARN_UNUSED MAY_PARK;
/* The next whole record. -ECONNRESET, -EPIPE (end of stream), -ETIMEDOUT. */
int nfsc_recv(struct nfsc *c, struct nfsc_msg *out) WARN_UNUSED MAY_PARK;
/* Reply header into c, body into res (res NULL: none). 0; -EPROTO: not accepted or not successful
 * (c says how); -EBADMSG: isn't an RPC reply, or the body doesn't decode to its last byte. */
int nfsc_decode(struct nfsc *c, const struct nfsc_msg *reply, uint32_t prog, uint32_t proc,
    void *res) WARN_UNUSED;
/*
 * One call from encoding to decoding; reconnects when not connected. What res points to is
 * malloc'ed by libtirpc: give it to nfsc_free before the next call that parks, since a power cut
 * would leak it.
 */
int nfsc_call(
    struct nfsc *c, enum nfsc_proc proc, const void *args, void *res) WARN_UNUSED MAY_PARK;
/* Sends m and waits for the reply to it; others are dropped. */
int nfsc_transact(
    struct nfsc *c, const struct nfsc_msg *m, struct nfsc_msg *out_reply) WARN_UNUSED MAY_PARK;
void nfsc_free(enum nfsc_proc proc, void *res);

/* READDIR and READDIRPLUS decode to this. */
struct nfsc_dirent {
	uint64_t fileid, cookie;
	char name[256];
	uint32_t name_len; /* > 255: cut off */
	bool has_attr, has_fh;
	fattr3 attr;
	uint8_t fh[NFS3_FHSIZE];
	uint32_t fh_len;
};
struct nfsc_dirres {
	nfsstat3 status;
	READDIR3head head;           /* on failure: dir_attributes only */
	struct nfsc_dirent *entries; /* malloc */
	uint32_t count;
	bool_t eof;
};

/* MOUNT over TCP at c's port. MNT: 0 and fh, or -EPROTO, or the status as a positive number. */
int nfsc_mnt(struct nfsc *c, uint32_t vers, const char *path, nfs_fh3 *out_fh,
    uint8_t bytes[64]) WARN_UNUSED MAY_PARK;
/* UMNT, UMNTALL. */
int nfsc_mount_call(struct nfsc *c, uint32_t vers, enum nfsc_mount_proc proc,
    const char *path) WARN_UNUSED MAY_PARK;
/* DUMP, EXPORT: counts what is listed and whether it decodes; each may be NULL. */
int nfsc_mount_list(struct nfsc *c, uint32_t vers, enum nfsc_mount_proc proc,
    void (*each)(void *arg, const char *host, const char *dir), void *arg,
    uint32_t *out_count) WARN_UNUSED MAY_PARK;

static inline filename3
nfsc_name(const char *s)
{
	union {
		const char *in;
		char *out;
	} u = {.in = s};
	return (filename3){.filename3_len = (u_int)strlen(s), .filename3_val = u.out};
}

#endif
