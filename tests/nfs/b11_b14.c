/* b11_b14.c - record marking, broken calls, and errors of RPC itself (RFC 5531). */
#include "tests/nfs/cases.h"

static bool
alive(struct nfs_rig *r)
{
	return nfsc_call(&r->c, NFSC_NULL, NULL, NULL) == 0;
}

/* Sends bytes on a fresh connection; whether the server closes it (or keeps silent and then does).
 */
static bool
closed_after(struct nfs_rig *r, const void *bytes, uint32_t len)
{
	struct nfsc c = nfs_rig_client(r, 0, 0);
	struct nfsc_msg m;
	c.timeout_ns = 60 * NSEC_PER_SEC;
	CU_ASSERT(nfsc_connect(&c) == 0);
	int err = nfsc_send_bytes(&c, bytes, len);
	err = err != 0 ? err : nfsc_recv(&c, &m);
	if (err == 0) {
		nfsc_msg_free(&m);
	}
	nfsc_disconnect(&c);
	return err == -EPIPE || err == -ECONNRESET;
}

void
b11_record_marking(struct nfs_rig *r)
{
	static uint8_t junk[(2u << 20) + 4];
	struct rig_fh root = rig_root(r);
	r->c.fragment_bytes = 1;
	CU_ASSERT(rig_mkdir(&r->c, &root, "by-bytes", 0755, NULL) == NFS3_OK);
	r->c.fragment_bytes = 0;
	CU_ASSERT(alive(r));
	/* empty fragments, and then a call */
	struct nfsc_msg call, reply;
	memset(junk, 0, 40000);
	CU_ASSERT(nfsc_encode(&r->c, NFSC_PROG_NFS, 3, NFSC_NULL, NULL, &call) == 0);
	CU_ASSERT(nfsc_send_bytes(&r->c, junk, 40000) == 0);
	CU_ASSERT(nfsc_transact(&r->c, &call, &reply) == 0);
	nfsc_msg_free(&reply);
	/* two calls in one segment */
	uint8_t two[512];
	uint32_t each = 4 + call.len;
	memcpy(two, "\x80\0\0", 3);
	two[3] = (uint8_t)call.len;
	memcpy(two + 4, call.bytes, call.len);
	memcpy(two + each, two, each);
	CU_ASSERT(nfsc_send_bytes(&r->c, two, 2 * each) == 0);
	for (unsigned i = 0; i < 2; i++) {
		CU_ASSERT(nfsc_recv(&r->c, &reply) == 0);
		nfsc_msg_free(&reply);
	}
	nfsc_msg_free(&call);
	memcpy(junk, "\x80\x20\0\0", 4); /* a last fragment of 2 MiB */
	CU_ASSERT(closed_after(r, junk, sizeof(junk)));
	CU_ASSERT(closed_after(r, "\xff\xff\xff\xff", 4));
	CU_ASSERT(closed_after(r, "GET / HTTP/1.0\r\n\r\n", 18));
	CU_ASSERT(closed_after(r, "\x80\0", 2));           /* half a mark, and silence */
	CU_ASSERT(closed_after(r, "\x80\0\0\x64junk", 8)); /* half a record, and silence */
	CU_ASSERT(closed_after(r, "\x80\0\0\x04junk", 8)); /* no call */
	CU_ASSERT(alive(r));
}

/* Every call, cut at every byte: an answer or a closed connection, and nothing has happened. */
void
b12_truncated_calls(struct nfs_rig *r)
{
	struct rig_fh root = rig_root(r);
	struct nfsc c = nfs_rig_client(r, 0, 0);
	CREATE3args args = {
	    .where = {.dir = rig_fh3(&root), .name = nfsc_name("never")}, .how = {.mode = GUARDED}};
	struct nfsc_msg call, reply;
	c.timeout_ns = 30 * NSEC_PER_SEC;
	CU_ASSERT(nfsc_encode(&c, NFSC_PROG_NFS, 3, NFSC_CREATE, &args, &call) == 0);
	uint32_t whole = call.len;
	for (uint32_t proc = 1; proc < NFSC_PROCS; proc++) {
		call.bytes[23] = (uint8_t)proc;
		for (uint32_t len = proc == NFSC_CREATE ? 0 : 60; len < whole;
		     len += proc == NFSC_CREATE ? 1 : 7) {
			struct nfsc_msg cut = {.bytes = call.bytes, .len = len};
			if (c.conn == NULL) {
				CU_ASSERT(nfsc_connect(&c) == 0);
			}
			int err = nfsc_send(&c, &cut);
			err = err != 0 ? err : len == 0 ? -EPIPE : nfsc_recv(&c, &reply);
			if (err == 0) {
				nfsc_msg_free(&reply);
			} else {
				CU_ASSERT(err == -EPIPE || err == -ECONNRESET);
				nfsc_disconnect(&c);
			}
		}
	}
	nfsc_msg_free(&call);
	nfsc_disconnect(&c);
	CU_ASSERT(rig_lookup(&r->c, &root, "never", NULL) == NFS3ERR_NOENT);
	/* names and handles that are too long */
	static char long_name[300];
	memset(long_name, 'x', 299);
	CU_ASSERT(rig_create(&r->c, &root, long_name, GUARDED, 0644, NULL) == NFS3ERR_NAMETOOLONG);
	long_name[256] = '\0';
	CU_ASSERT(rig_create(&r->c, &root, long_name, GUARDED, 0644, NULL) == NFS3ERR_NAMETOOLONG);
	long_name[255] = '\0';
	CU_ASSERT(rig_create(&r->c, &root, long_name, GUARDED, 0644, NULL) == NFS3_OK);
}

static int
call_as(struct nfs_rig *r, uint32_t prog, uint32_t vers, uint32_t proc)
{
	struct nfsc_msg call, reply;
	CU_ASSERT(nfsc_encode(&r->c, prog, vers, proc, NULL, &call) == 0);
	ASSERT(nfsc_transact(&r->c, &call, &reply) == 0);
	int err = nfsc_decode(&r->c, &reply, prog, 0, NULL);
	nfsc_msg_free(&call);
	nfsc_msg_free(&reply);
	return err;
}

static int
call_patched(struct nfs_rig *r, uint32_t off, uint8_t value)
{
	struct nfsc_msg call, reply;
	CU_ASSERT(nfsc_encode(&r->c, NFSC_PROG_NFS, 3, 0, NULL, &call) == 0);
	call.bytes[off] = value;
	int err = nfsc_transact(&r->c, &call, &reply);
	if (err == 0) {
		err = nfsc_decode(&r->c, &reply, NFSC_PROG_NFS, 0, NULL);
		nfsc_msg_free(&reply);
	}
	nfsc_msg_free(&call);
	return err;
}

void
b14_rpc_errors(struct nfs_rig *r)
{
	static const uint32_t unknown[] = {100227, 100021, 200000, 0};
	CU_ASSERT(call_as(r, NFSC_PROG_NFS, 3, 0) == 0);
	for (uint32_t vers = 2; vers <= 4; vers += 2) {
		CU_ASSERT(call_as(r, NFSC_PROG_NFS, vers, 0) == -EPROTO);
		CU_ASSERT(r->c.accept_stat == PROG_MISMATCH && r->c.low == 3 && r->c.high == 3);
	}
	for (unsigned i = 0; i < ARRAY_LEN(unknown); i++) {
		CU_ASSERT(
		    call_as(r, unknown[i], 3, 0) == -EPROTO && r->c.accept_stat == PROG_UNAVAIL);
	}
	CU_ASSERT(call_as(r, NFSC_PROG_NFS, 3, 22) == -EPROTO && r->c.accept_stat == PROC_UNAVAIL);
	CU_ASSERT(call_as(r, NFSC_PROG_NFS, 3, 99) == -EPROTO && r->c.accept_stat == PROC_UNAVAIL);
	CU_ASSERT(call_as(r, NFSC_PROG_NFS, 3, 1) == -EPROTO && r->c.accept_stat == GARBAGE_ARGS);
	for (uint8_t vers = 1; vers <= 3; vers += 2) {
		CU_ASSERT(call_patched(r, 11, vers) == -EPROTO && r->c.denied);
		CU_ASSERT(r->c.reject_stat == RPC_MISMATCH && r->c.low == 2 && r->c.high == 2);
	}
	static const uint8_t flavors[] = {2, 3, 6};
	for (unsigned i = 0; i < ARRAY_LEN(flavors); i++) {
		CU_ASSERT(call_patched(r, 27, flavors[i]) == -EPROTO && r->c.denied);
		CU_ASSERT(r->c.reject_stat == AUTH_ERROR);
	}
	CU_ASSERT(call_patched(r, 7, 1) != 0); /* a REPLY sent to the server */
	r->c.auth_none = true;
	CU_ASSERT(alive(r));
	r->c.auth_none = false;
	for (unsigned i = 0; i < 100; i++) { /* a load balancer's probe */
		struct nfsc c = nfs_rig_client(r, 0, 0);
		CU_ASSERT(nfsc_connect(&c) == 0);
		nfsc_disconnect(&c);
	}
	CU_ASSERT(alive(r));
}
