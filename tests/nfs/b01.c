/* b01.c - a call that comes again is answered as the first time, and done once (RFC 1813 4.5). */
#include "tests/nfs/cases.h"

/* Sends one call three times: on its connection, again, and by a new one. All answers are the same
 * and good. */
static void
thrice(struct nfs_rig *r, enum nfsc_proc proc, const void *args)
{
	struct nfsc_msg call, first = {0}, again;
	CU_ASSERT(nfsc_encode(&r->c, NFSC_PROG_NFS, 3, proc, args, &call) == 0);
	for (unsigned i = 0; i < 3; i++) {
		if (i == 2) {
			nfsc_disconnect(&r->c);
		}
		ASSERT(nfsc_transact(&r->c, &call, &again) == 0);
		if (i == 0) {
			first = again;
			CU_ASSERT(again.len >= 28 &&
				  memcmp(again.bytes + 20, "\0\0\0\0\0\0\0\0", 8) == 0);
			continue;
		}
		CU_ASSERT(
		    again.len == first.len && memcmp(again.bytes, first.bytes, first.len) == 0);
		nfsc_msg_free(&again);
	}
	nfsc_msg_free(&first);
	nfsc_msg_free(&call);
}

static diropargs3
in(const struct rig_fh *dir, const char *name)
{
	return (diropargs3){.dir = rig_fh3(dir), .name = nfsc_name(name)};
}

void
b01_retransmission(struct nfs_rig *r)
{
	struct rig_fh root = rig_root(r), f;
	fattr3 a;
	CREATE3args create = {.where = in(&root, "f"), .how = {.mode = GUARDED}};
	thrice(r, NFSC_CREATE, &create);
	MKDIR3args mkdir = {.where = in(&root, "d")};
	thrice(r, NFSC_MKDIR, &mkdir);
	SYMLINK3args symlink = {.where = in(&root, "s")};
	symlink.symlink.symlink_data =
	    (nfspath3){.nfspath3_len = 1, .nfspath3_val = symlink.where.name.filename3_val};
	thrice(r, NFSC_SYMLINK, &symlink);
	MKNOD3args mknod = {.where = in(&root, "p"), .what = {.type = NF3FIFO}};
	thrice(r, NFSC_MKNOD, &mknod);
	CU_ASSERT(rig_lookup(&r->c, &root, "f", &f) == NFS3_OK);
	LINK3args link = {.file = rig_fh3(&f), .link = in(&root, "l")};
	thrice(r, NFSC_LINK, &link);
	RENAME3args rename = {.from = in(&root, "l"), .to = in(&root, "m")};
	thrice(r, NFSC_RENAME, &rename);
	REMOVE3args remove = {in(&root, "m")};
	thrice(r, NFSC_REMOVE, &remove);
	REMOVE3args rmdir = {in(&root, "d")};
	thrice(r, NFSC_RMDIR, &rmdir);
	CU_ASSERT(rig_getattr(&r->c, &f, &a) == NFS3_OK && a.nlink == 1);
	SETATTR3args setattr = {.object = rig_fh3(&f), .guard = {.check = TRUE}};
	setattr.guard.sattrguard3_u.ctime = a.ctime;
	setattr.new_attributes.mode = (set_mode3){.set_it = TRUE, .set_mode3_u = {.mode = 0600}};
	thrice(r, NFSC_SETATTR, &setattr);
	struct nfsd_counters n;
	nfsd_get_counters(r->nfsd, &n);
	CU_ASSERT(n.drc_hits == 18);
}

struct sender {
	struct nfsc c;
	const struct nfsc_msg *call;
	struct nfsc_msg reply;
	struct waitgroup *done;
};

static void
send_one(void *arg)
{
	struct sender *s = arg;
	ASSERT(nfsc_transact(&s->c, s->call, &s->reply) == 0);
	nfsc_disconnect(&s->c);
	wg_done(s->done);
}

/* Copies on several connections while the first still runs. */
void
b01_in_progress(struct nfs_rig *r)
{
	static struct sender s[5];
	struct rig_fh root = rig_root(r);
	struct nfsc_msg call;
	struct waitgroup done;
	wg_init(&done);
	MKDIR3args args = {.where = in(&root, "once")};
	CU_ASSERT(nfsc_encode(&r->c, NFSC_PROG_NFS, 3, NFSC_MKDIR, &args, &call) == 0);
	for (unsigned i = 0; i < ARRAY_LEN(s); i++) {
		s[i] = (struct sender){.c = nfs_rig_client(r, 0, 0), .call = &call, .done = &done};
		wg_add(&done, 1);
		fiber_spawn_wait(i % rt_reactor_count(), FIBER_ADMIN, "sender", send_one, &s[i]);
	}
	wg_wait(&done);
	for (unsigned i = 0; i < ARRAY_LEN(s); i++) {
		CU_ASSERT(s[i].reply.len == s[0].reply.len);
		CU_ASSERT(memcmp(s[i].reply.bytes, s[0].reply.bytes, s[0].reply.len) == 0);
		CU_ASSERT(memcmp(s[i].reply.bytes + 24, "\0\0\0\0", 4) == 0);
	}
	for (unsigned i = 0; i < ARRAY_LEN(s); i++) {
		nfsc_msg_free(&s[i].reply);
	}
	nfsc_msg_free(&call);
}

void
b01_xid_reuse(struct nfs_rig *r)
{
	struct rig_fh root = rig_root(r);
	r->c.next_xid = 77;
	CU_ASSERT(rig_mkdir(&r->c, &root, "a", 0755, NULL) == NFS3_OK);
	r->c.next_xid = 77;
	CU_ASSERT(rig_mkdir(&r->c, &root, "b", 0755, NULL) == NFS3_OK); /* another body */
	CU_ASSERT(rig_lookup(&r->c, &root, "b", NULL) == NFS3_OK);
	CU_ASSERT(rig_mkdir(&r->c, &root, "b", 0755, NULL) == NFS3ERR_EXIST); /* another xid */
}
