/* b21_b23.c - SETATTR, and the write verifier (RFC 1813 3.3.2, 3.3.7, 3.3.21). */
#include "tests/nfs/cases.h"

static bool
same(nfstime3 a, nfstime3 b)
{
	return a.seconds == b.seconds && a.nseconds == b.nseconds;
}

void
b21_setattr(struct nfs_rig *r)
{
	struct rig_fh root = rig_root(r), f, d, s;
	fattr3 a, b;
	CU_ASSERT(rig_create(&r->c, &root, "f", GUARDED, 0644, &f) == NFS3_OK);
	CU_ASSERT(rig_mkdir(&r->c, &root, "d", 0755, &d) == NFS3_OK);
	CU_ASSERT(rig_symlink(&r->c, &root, "s", "f", &s) == NFS3_OK);
	CU_ASSERT(rig_getattr(&r->c, &f, &a) == NFS3_OK);
	sattr3 mode = {.mode = {.set_it = TRUE, .set_mode3_u = {.mode = 0600}}};
	CU_ASSERT(rig_setattr(&r->c, &f, &mode, &a.ctime) == NFS3_OK);
	CU_ASSERT(rig_getattr(&r->c, &f, &b) == NFS3_OK);
	CU_ASSERT(b.mode == 0600 && !same(a.ctime, b.ctime) && same(a.mtime, b.mtime));
	mode.mode.set_mode3_u.mode = 0777;
	CU_ASSERT(rig_setattr(&r->c, &f, &mode, &a.ctime) == NFS3ERR_NOT_SYNC);
	CU_ASSERT(
	    rig_getattr(&r->c, &f, &a) == NFS3_OK && a.mode == 0600 && same(a.ctime, b.ctime));
	uint32_t st = rig_set_size(&r->c, &d, 10);
	CU_ASSERT(st == NFS3ERR_INVAL || st == NFS3ERR_ISDIR);
	CU_ASSERT(rig_set_size(&r->c, &s, 10) == NFS3ERR_INVAL);
	CU_ASSERT(rig_set_mode(&r->c, &s, 0123) == NFS3_OK); /* the link, not what it points to */
	CU_ASSERT(rig_getattr(&r->c, &f, &a) == NFS3_OK && a.mode == 0600);
	/* several at once, one denied: none */
	struct nfsc owner = nfs_rig_client(r, 1001, 100);
	sattr3 give = {.uid = {.set_it = TRUE, .set_uid3_u = {.uid = 1001}}};
	CU_ASSERT(rig_setattr(&r->c, &f, &give, NULL) == NFS3_OK);
	sattr3 both = mode;
	both.uid = (set_uid3){.set_it = TRUE, .set_uid3_u = {.uid = 1002}};
	CU_ASSERT(rig_setattr(&owner, &f, &both, NULL) == NFS3ERR_PERM);
	CU_ASSERT(rig_getattr(&r->c, &f, &a) == NFS3_OK && a.mode == 0600 && a.uid == 1001);
	/* the same size again still counts as a change */
	CU_ASSERT(rig_set_size(&owner, &f, 0) == NFS3_OK);
	CU_ASSERT(rig_getattr(&r->c, &f, &b) == NFS3_OK && !same(a.ctime, b.ctime));
	nfsc_disconnect(&owner);
}

static sattr3
client_time(uint32_t sec, uint32_t nsec)
{
	return (sattr3){
	    .mtime = {.set_it = SET_TO_CLIENT_TIME, .set_time3_u = {.time = {sec, nsec}}}};
}

void
b21_times(struct nfs_rig *r)
{
	static const uint32_t secs[] = {0, 1, INT32_MAX, 0x80000000u, UINT32_MAX};
	struct rig_fh root = rig_root(r), f;
	fattr3 a;
	CU_ASSERT(rig_create(&r->c, &root, "f", GUARDED, 0666, &f) == NFS3_OK);
	for (unsigned i = 0; i < ARRAY_LEN(secs); i++) {
		sattr3 set = client_time(secs[i], 999999999);
		CU_ASSERT(rig_setattr(&r->c, &f, &set, NULL) == NFS3_OK);
		CU_ASSERT(rig_getattr(&r->c, &f, &a) == NFS3_OK);
		CU_ASSERT(a.mtime.seconds == secs[i] && a.mtime.nseconds == 999999999);
	}
	sattr3 bad = client_time(5, 1000000000);
	CU_ASSERT(rig_setattr(&r->c, &f, &bad, NULL) == NFS3ERR_INVAL);
	struct nfsc other = nfs_rig_client(r, 1002, 100);
	sattr3 now = {.mtime = {.set_it = SET_TO_SERVER_TIME}}, theirs = client_time(7, 0);
	CU_ASSERT(rig_set_mode(&r->c, &f, 0666) == NFS3_OK);
	CU_ASSERT(rig_setattr(&other, &f, &now, NULL) == NFS3_OK);
	uint32_t st = rig_setattr(&other, &f, &theirs, NULL);
	CU_ASSERT(st == NFS3ERR_PERM || st == NFS3ERR_ACCES);
	nfsc_disconnect(&other);
}

void
b23_write_verifier(struct nfs_rig *r)
{
	struct rig_fh root = rig_root(r), f;
	WRITE3resok w;
	char seen[4][8], verf[8];
	CU_ASSERT(rig_create(&r->c, &root, "f", GUARDED, 0644, &f) == NFS3_OK);
	for (unsigned i = 0; i < 4; i++) {
		for (stable_how how = UNSTABLE; how <= FILE_SYNC; how++) {
			CU_ASSERT(rig_write(&r->c, &f, 0, "data", 4, how, &w) == NFS3_OK);
			CU_ASSERT(w.committed >= how);
			CU_ASSERT(rig_commit(&r->c, &f, verf) == NFS3_OK);
			CU_ASSERT(memcmp(w.verf, verf, 8) == 0);
		}
		memcpy(seen[i], verf, 8);
		for (unsigned k = 0; k < i; k++) {
			CU_ASSERT(memcmp(seen[k], verf, 8) != 0);
		}
		nfs_rig_restart(r); /* at once: no second has passed */
		r->c = nfs_rig_client(r, 0, 0);
	}
}
