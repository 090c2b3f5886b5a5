/* b15_b16.c - the port mapper and MOUNT (RFC 1833 3, RFC 1813 5). */
#include "tests/nfs/cases.h"

static uint32_t
word(const struct nfsc_msg *m, uint32_t off)
{
	uint32_t v;
	ASSERT(off + 4 <= m->len);
	memcpy(&v, m->bytes + off, 4);
	return be32toh(v);
}

/* A call of the port mapper with plain words as arguments; the reply is the caller's. */
static int
pmap(struct nfs_rig *r, uint32_t vers, uint32_t proc, const uint32_t *words, uint32_t count,
    struct nfsc_msg *reply)
{
	struct nfsc c = nfs_rig_client(r, 0, 0);
	struct nfsc_msg call;
	c.port = r->portmap_port;
	c.auth_none = true;
	CU_ASSERT(nfsc_encode(&c, 100000, vers, proc, NULL, &call) == 0);
	uint8_t *more = mem_realloc(call.bytes, call.len + 4 * count);
	ASSERT(more != NULL);
	call.bytes = more;
	for (uint32_t i = 0; i < count; i++) {
		uint32_t v = htobe32(words[i]);
		memcpy(call.bytes + call.len, &v, 4);
		call.len += 4;
	}
	int err = nfsc_transact(&c, &call, reply);
	nfsc_msg_free(&call);
	nfsc_disconnect(&c);
	return err;
}

static uint32_t
getport(struct nfs_rig *r, uint32_t prog, uint32_t vers, uint32_t proto)
{
	const uint32_t args[] = {prog, vers, proto, 0};
	struct nfsc_msg reply;
	ASSERT(pmap(r, 2, 3, args, 4, &reply) == 0);
	CU_ASSERT(reply.len == 28);
	uint32_t port = word(&reply, 24);
	nfsc_msg_free(&reply);
	return port;
}

void
b15_portmapper(struct nfs_rig *r)
{
	struct nfsc_msg reply;
	CU_ASSERT(getport(r, 100003, 3, 6) == r->nfs_port);
	CU_ASSERT(getport(r, 100003, 3, 17) == 0);
	CU_ASSERT(getport(r, 100003, 2, 6) == 0);
	CU_ASSERT(getport(r, 100003, 4, 6) == 0);
	for (uint32_t vers = 1; vers <= 3; vers += 2) {
		CU_ASSERT(getport(r, 100005, vers, 6) == r->mount_port);
		CU_ASSERT(getport(r, 100005, vers, 17) == r->mount_port);
	}
	CU_ASSERT(getport(r, 100021, 4, 6) == 0);
	CU_ASSERT(getport(r, 100024, 1, 17) == 0);
	CU_ASSERT(getport(r, 12345, 1, 6) == 0);
	ASSERT(pmap(r, 2, 4, NULL, 0, &reply) == 0); /* DUMP */
	uint32_t at = 24, entries = 0;
	while (word(&reply, at) == 1 && entries < 100) {
		at += 20;
		entries++;
	}
	CU_ASSERT(entries >= 5 && word(&reply, at) == 0 && at + 4 == reply.len);
	nfsc_msg_free(&reply);
	/* SET is refused, and nothing changes */
	const uint32_t set[] = {100003, 3, 6, 666};
	ASSERT(pmap(r, 2, 1, set, 4, &reply) == 0);
	CU_ASSERT(reply.len == 28 && word(&reply, 24) == 0);
	nfsc_msg_free(&reply);
	CU_ASSERT(getport(r, 100003, 3, 6) == r->nfs_port);
	/* rpcbind v3 GETADDR of ("tcp"): a universal address; of what isn't served: "" */
	const uint32_t addr[] = {100003, 3, 3, 0x74637000, 0, 0};
	ASSERT(pmap(r, 3, 3, addr, 6, &reply) == 0);
	CU_ASSERT(word(&reply, 24) > 0 && memcmp(reply.bytes + 28, "127.0.0.1.8.1", 13) == 0);
	nfsc_msg_free(&reply);
	const uint32_t six[] = {100003, 3, 4, 0x74637036, 0, 0}; /* "tcp6": we listen on IPv4 */
	ASSERT(pmap(r, 4, 3, six, 6, &reply) == 0);
	CU_ASSERT(word(&reply, 20) == 0 && word(&reply, 24) == 0);
	nfsc_msg_free(&reply);
	const uint32_t odd[] = {100003, 3, 5, 0x7463706d, 0x65000000, 0, 0}; /* "tcpme" */
	ASSERT(pmap(r, 3, 3, odd, 7, &reply) == 0);
	CU_ASSERT(word(&reply, 20) == 0 && word(&reply, 24) == 0);
	nfsc_msg_free(&reply);
	ASSERT(pmap(r, 4, 4, NULL, 0, &reply) == 0); /* DUMP of version 4 */
	CU_ASSERT(word(&reply, 20) == 0 && word(&reply, 24) == 1);
	CU_ASSERT(word(&reply, reply.len - 4) == 0);
	nfsc_msg_free(&reply);
	const uint32_t none[] = {100003, 4, 3, 0x74637000, 0, 0};
	ASSERT(pmap(r, 4, 9, none, 6, &reply) == 0);
	CU_ASSERT(word(&reply, 20) == 0 && word(&reply, 24) == 0);
	nfsc_msg_free(&reply);
	ASSERT(pmap(r, 2, 77, NULL, 0, &reply) == 0);
	CU_ASSERT(word(&reply, 20) == PROC_UNAVAIL);
	nfsc_msg_free(&reply);
	ASSERT(pmap(r, 5, 0, NULL, 0, &reply) == 0);
	CU_ASSERT(
	    word(&reply, 20) == PROG_MISMATCH && word(&reply, 24) == 2 && word(&reply, 28) == 4);
	nfsc_msg_free(&reply);
}

static int
mnt(struct nfs_rig *r, uint32_t vers, const char *path, struct rig_fh *out)
{
	struct nfsc c = nfs_rig_client(r, 0, 0);
	nfs_fh3 fh;
	struct rig_fh got;
	c.port = r->mount_port;
	int st = nfsc_mnt(&c, vers, path, &fh, got.bytes);
	nfsc_disconnect(&c);
	if (st == 0 && out != NULL) {
		got.len = fh.data.data_len;
		*out = got;
	}
	return st;
}

void
b16_mount_paths(struct nfs_rig *r)
{
	static char path[1026];
	struct rig_fh root = rig_root(r), sub, f, top;
	CU_ASSERT(rig_mkdir(&r->c, &root, "sub", 0755, &sub) == NFS3_OK);
	CU_ASSERT(rig_create(&r->c, &root, "file", GUARDED, 0644, &f) == NFS3_OK);
	CU_ASSERT(mnt(r, 3, "/tank", &top) == 0 && memcmp(top.bytes, root.bytes, root.len) == 0);
	CU_ASSERT(mnt(r, 3, "/tank/", &top) == 0 && memcmp(top.bytes, root.bytes, root.len) == 0);
	CU_ASSERT(mnt(r, 3, "//tank", &top) == 0 && memcmp(top.bytes, root.bytes, root.len) == 0);
	CU_ASSERT(mnt(r, 3, "/tank/sub", &top) == 0 && memcmp(top.bytes, sub.bytes, sub.len) == 0);
	CU_ASSERT(mnt(r, 3, "/tank/missing", NULL) == MNT3ERR_NOENT);
	CU_ASSERT(mnt(r, 3, "/tank/file", NULL) == MNT3ERR_NOTDIR);
	CU_ASSERT(mnt(r, 3, "/tanker", NULL) == MNT3ERR_NOENT);
	CU_ASSERT(mnt(r, 3, "/tan", NULL) == MNT3ERR_NOENT);
	CU_ASSERT(mnt(r, 3, "", NULL) == MNT3ERR_NOENT);
	CU_ASSERT(mnt(r, 3, "tank", NULL) == MNT3ERR_NOENT);
	CU_ASSERT(mnt(r, 3, "/tank/../tank", NULL) == MNT3ERR_NOENT);
	CU_ASSERT(mnt(r, 3, "/tank/..", NULL) == MNT3ERR_NOENT);
	memset(path, 'p', 1025);
	path[0] = '/';
	CU_ASSERT(mnt(r, 3, path, NULL) == MNT3ERR_NAMETOOLONG);
	path[1024] = '\0';
	CU_ASSERT(mnt(r, 3, path, NULL) == MNT3ERR_NOENT);
	CU_ASSERT(mnt(r, 1, "/tank", NULL) == MNT3ERR_ACCES); /* our handles don't fit version 1 */
	/* a share for somebody else, and one for privileged ports only (the simulation has none) */
	static struct nfsd_export e[2];
	struct nfsd_rule rules[2];
	char why[128];
	nfs_rig_export(&e[0], 1, "/tank", "tank", &rules[0]);
	CU_ASSERT(nfsd_rule_parse("10.9.9.9", &rules[0], why, sizeof(why)) == 0);
	nfs_rig_export(&e[1], 2, "/tank/sub", "tank", &rules[1]);
	snprintf(e[1].subdir, sizeof(e[1].subdir), "sub");
	e[1].insecure = false;
	case_publish(r, e, 2);
	CU_ASSERT(mnt(r, 3, "/tank", NULL) == MNT3ERR_ACCES);
	CU_ASSERT(mnt(r, 3, "/tank/sub", NULL) == MNT3ERR_ACCES);
	CU_ASSERT(rig_getattr(&r->c, &root, NULL) == NFS3ERR_ACCES); /* on every call */
	e[1].insecure = true;
	case_publish(r, e, 2);
	CU_ASSERT(mnt(r, 3, "/tank/sub", &sub) == 0);
	CU_ASSERT(rig_lookup(&r->c, &sub, "..", &top) == NFS3_OK);
	CU_ASSERT(
	    memcmp(top.bytes, sub.bytes, sub.len) == 0); /* ".." of a share's top is the top */
}

void
b16_mount_list(struct nfs_rig *r)
{
	struct nfsc c = nfs_rig_client(r, 0, 0);
	uint32_t count = 99;
	c.port = r->mount_port;
	for (uint32_t vers = 1; vers <= 3; vers += 2) {
		CU_ASSERT(mnt(r, 3, "/tank", NULL) == 0);
		CU_ASSERT(nfsc_mount_call(&c, vers, NFSC_MNT_NULL, NULL) == 0);
		CU_ASSERT(nfsc_mount_list(&c, vers, NFSC_MNT_DUMP, NULL, NULL, &count) == 0 &&
			  count == 1);
		CU_ASSERT(nfsc_mount_call(&c, vers, NFSC_UMNT, "/tank/none") == 0);
		CU_ASSERT(nfsc_mount_list(&c, vers, NFSC_MNT_DUMP, NULL, NULL, &count) == 0 &&
			  count == 1);
		CU_ASSERT(nfsc_mount_call(&c, vers, NFSC_UMNT, "/tank") == 0);
		CU_ASSERT(nfsc_mount_list(&c, vers, NFSC_MNT_DUMP, NULL, NULL, &count) == 0 &&
			  count == 0);
		CU_ASSERT(nfsc_mount_call(&c, vers, NFSC_UMNTALL, NULL) == 0);
		CU_ASSERT(
		    nfsc_mount_list(&c, vers, NFSC_EXPORT, NULL, NULL, &count) == 0 && count == 1);
	}
	case_publish(r, NULL, 0);
	CU_ASSERT(nfsc_mount_list(&c, 3, NFSC_EXPORT, NULL, NULL, &count) == 0 && count == 0);
	nfsc_disconnect(&c);
}
