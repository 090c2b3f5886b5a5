/* lists.c - MOUNT and the port mapper by datagrams, and thousands of shares and of clients. */
#include "tests/nfs/cases.h"

static uint32_t
word(const uint8_t *bytes, uint32_t off)
{
	uint32_t v;
	memcpy(&v, bytes + off, 4);
	return be32toh(v);
}

struct datagrams {
	struct net_udp *u;
	struct net_addr to;
	uint8_t reply[65536];
	int64_t len; /* of the reply */
	struct waitgroup done;
};

static void
datagram_wait(void *arg)
{
	struct datagrams *d = arg;
	struct net_addr from;
	d->len = net_udp_recv(d->u, d->reply, sizeof(d->reply), &from);
	wg_done(&d->done);
}

/* One call; false: no answer within two seconds of any of ten tries, since datagrams may be lost.
 */
static bool
datagram(struct nfs_rig *r, struct datagrams *d, uint16_t port, const struct nfsc_msg *call)
{
	(void)r;
	for (unsigned i = 0; i < 10; i++) {
		ASSERT(net_udp_open("127.0.0.1", 0, &d->u) == 0);
		ASSERT(net_addr_parse("127.0.0.1", port, &d->to) == 0);
		wg_init(&d->done);
		wg_add(&d->done, 1);
		fiber_spawn_wait(0, FIBER_ADMIN, "datagram", datagram_wait, d);
		CU_ASSERT(net_udp_send(d->u, call->bytes, call->len, &d->to) == call->len);
		fiber_sleep(2 * NSEC_PER_SEC);
		net_udp_close(d->u);
		wg_wait(&d->done);
		if (d->len >= 24) {
			CU_ASSERT(memcmp(d->reply, call->bytes, 4) == 0);
			return true;
		}
	}
	return false;
}

/* A call without arguments but these words. */
static struct nfsc_msg
call_of(
    struct nfs_rig *r, uint32_t prog, uint32_t vers, uint32_t proc, const void *args, uint32_t len)
{
	struct nfsc_msg m;
	ASSERT(nfsc_encode(&r->c, prog, vers, proc, NULL, &m) == 0);
	uint8_t *more = mem_realloc(m.bytes, m.len + len + 1);
	ASSERT(more != NULL);
	if (len > 0) {
		memcpy(more + m.len, args, len);
	}
	m.bytes = more;
	m.len += len;
	return m;
}

void
mount_by_datagrams(struct nfs_rig *r)
{
	static struct datagrams d;
	static const uint8_t path[] = "\0\0\0\5/tank\0\0";
	static const uint32_t portmap = 100000;
	struct rig_fh root = rig_root(r);
	const uint8_t mount_udp[16] = {0, 1, 0x86, 0xa5, 0, 0, 0, 3, 0, 0, 0, 17};
	struct nfsc_msg call = call_of(r, portmap, 2, 3, mount_udp, 16);
	CU_ASSERT(datagram(r, &d, r->portmap_port, &call));
	CU_ASSERT(d.len == 28 && word(d.reply, 24) == r->mount_port);
	nfsc_msg_free(&call);
	call = call_of(r, NFSC_PROG_MOUNT, 3, NFSC_MNT, path, 12);
	CU_ASSERT(datagram(r, &d, r->mount_port, &call));
	CU_ASSERT(
	    word(d.reply, 20) == 0 && word(d.reply, 24) == 0 && word(d.reply, 28) == root.len);
	CU_ASSERT(memcmp(d.reply + 32, root.bytes, root.len) == 0);
	nfsc_msg_free(&call);
	for (uint32_t proc = NFSC_MNT_NULL; proc <= NFSC_EXPORT; proc++) {
		for (uint32_t vers = 1; vers <= 3; vers += 2) {
			call = call_of(r, NFSC_PROG_MOUNT, vers, proc, path, 12);
			CU_ASSERT(datagram(r, &d, r->mount_port, &call));
			CU_ASSERT(word(d.reply, 20) == 0);
			nfsc_msg_free(&call);
		}
	}
	call = call_of(r, NFSC_PROG_NFS, 3, 0, NULL, 0); /* NFS itself isn't served so */
	CU_ASSERT(datagram(r, &d, r->mount_port, &call) && word(d.reply, 20) == PROG_UNAVAIL);
	nfsc_msg_free(&call);
	call = call_of(r, NFSC_PROG_MOUNT, 3, NFSC_MNT, "\xff\xff\xff\xff" "/tank\0\0", 12);
	CU_ASSERT(datagram(r, &d, r->mount_port, &call) && word(d.reply, 20) == GARBAGE_ARGS);
	nfsc_msg_free(&call);
}

#define SHARES 5000u

void
thousands_of_shares(struct nfs_rig *r)
{
	static struct datagrams d;
	struct nfsd_rule rule;
	struct nfsd_export *e = mem_zalloc_array(SHARES, sizeof(*e));
	struct rig_fh root = rig_root(r);
	uint32_t count = 0;
	struct nfsc m = nfs_rig_client(r, 0, 0);
	ASSERT(e != NULL);
	m.port = r->mount_port;
	for (uint32_t i = 0; i < SHARES; i++) {
		char path[32];
		snprintf(path, sizeof(path), "/tank%u", i);
		nfs_rig_export(&e[i], i + 1, path, "tank", &rule);
	}
	case_publish(r, e, SHARES);
	CU_ASSERT(nfsc_mount_list(&m, 3, NFSC_EXPORT, NULL, NULL, &count) == 0);
	CU_ASSERT(count == SHARES);
	for (uint32_t i = 0; i < SHARES; i += 499) {
		nfs_fh3 fh;
		uint8_t bytes[64];
		CU_ASSERT(nfsc_mnt(&m, 3, e[i].path, &fh, bytes) == 0);
	}
	CU_ASSERT(rig_getattr(&r->c, &root, NULL) == NFS3_OK);
	nfsc_disconnect(&m);
	mem_free(e);
	/* too long for a datagram: no answer, so that the client asks by a connection */
	struct nfsc_msg call = call_of(r, NFSC_PROG_MOUNT, 3, NFSC_EXPORT, NULL, 0);
	CU_ASSERT(!datagram(r, &d, r->mount_port, &call));
	nfsc_msg_free(&call);
	CU_ASSERT(rig_getattr(&r->c, &root, NULL) == NFS3_OK);
}

/* Far more bytes said than sent, or than there may be. */
void
long_paths(struct nfs_rig *r)
{
	struct rig_fh root = rig_root(r), s;
	static char target[(1u << 20) + 1];
	memset(target, 't', sizeof(target) - 1);
	CU_ASSERT(rig_symlink(&r->c, &root, "s", target, NULL) == NFS3ERR_NAMETOOLONG);
	target[4096] = '\0';
	CU_ASSERT(rig_symlink(&r->c, &root, "s", target, NULL) == NFS3ERR_NAMETOOLONG);
	CU_ASSERT(rig_lookup(&r->c, &root, "s", NULL) == NFS3ERR_NOENT);
	target[4095] = '\0';
	CU_ASSERT(rig_symlink(&r->c, &root, "s", target, &s) == NFS3_OK);
	READLINK3args args = {rig_fh3(&s)};
	READLINK3res res;
	CU_ASSERT(nfsc_call(&r->c, NFSC_READLINK, &args, &res) == 0 && res.status == NFS3_OK);
	CU_ASSERT(res.READLINK3res_u.resok.data.nfspath3_len == 4095);
	CU_ASSERT(memcmp(res.READLINK3res_u.resok.data.nfspath3_val, target, 4095) == 0);
	nfsc_free(NFSC_READLINK, &res);
}
