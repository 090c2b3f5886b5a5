/* b25_b28.c - handles for an object's life, mode bits, and what clients can take. */
#include "tests/nfs/cases.h"

void
b25_handles(struct nfs_rig *r)
{
	struct rig_fh root = rig_root(r), d, e, f;
	CU_ASSERT(rig_mkdir(&r->c, &root, "d", 0755, &d) == NFS3_OK);
	CU_ASSERT(rig_mkdir(&r->c, &root, "e", 0755, &e) == NFS3_OK);
	CU_ASSERT(rig_rename(&r->c, &root, "d", &e, "moved") == NFS3_OK);
	CU_ASSERT(rig_mkdir(&r->c, &d, "inside", 0755, NULL) == NFS3_OK);
	CU_ASSERT(rig_create(&r->c, &d, "f", GUARDED, 0644, &f) == NFS3_OK);
	nfs_rig_restart(r);
	r->c = nfs_rig_client(r, 0, 0);
	CU_ASSERT(rig_getattr(&r->c, &f, NULL) == NFS3_OK);
	CU_ASSERT(rig_lookup(&r->c, &d, "inside", NULL) == NFS3_OK);
	for (unsigned i = 0; i < f.len; i++) {
		struct rig_fh forged = f;
		forged.bytes[i] ^= 0x10;
		uint32_t st = rig_getattr(&r->c, &forged, NULL);
		CU_ASSERT(st == NFS3ERR_BADHANDLE || st == NFS3ERR_STALE);
	}
	for (uint32_t len = 0; len < 64; len++) {
		struct rig_fh cut = f;
		cut.len = len;
		CU_ASSERT(len == f.len || rig_getattr(&r->c, &cut, NULL) == NFS3ERR_BADHANDLE);
	}
}

void
b25_stale(struct nfs_rig *r)
{
	struct rig_fh root = rig_root(r), f, g, again;
	uint8_t buf[8];
	uint32_t len;
	bool eof;
	fattr3 a, b;
	CU_ASSERT(rig_create(&r->c, &root, "f", GUARDED, 0644, &f) == NFS3_OK);
	CU_ASSERT(rig_create(&r->c, &root, "g", GUARDED, 0644, &g) == NFS3_OK);
	CU_ASSERT(rig_getattr(&r->c, &f, &a) == NFS3_OK);
	CU_ASSERT(rig_rename(&r->c, &root, "g", &root, "f") == NFS3_OK);
	CU_ASSERT(rig_read(&r->c, &f, 0, buf, 8, &len, &eof) == NFS3ERR_STALE);
	CU_ASSERT(rig_write(&r->c, &f, 0, buf, 8, UNSTABLE, NULL) == NFS3ERR_STALE);
	CU_ASSERT(rig_commit(&r->c, &f, NULL) == NFS3ERR_STALE);
	CU_ASSERT(rig_set_mode(&r->c, &f, 0600) == NFS3ERR_STALE);
	CU_ASSERT(rig_link(&r->c, &f, &root, "l") == NFS3ERR_STALE);
	CU_ASSERT(rig_getattr(&r->c, &g, NULL) == NFS3_OK);
	/* the number may be used again: the old handle stays dead */
	for (unsigned i = 0; i < 200; i++) {
		CU_ASSERT(rig_create(&r->c, &root, "x", GUARDED, 0644, &again) == NFS3_OK);
		CU_ASSERT(rig_getattr(&r->c, &again, &b) == NFS3_OK);
		CU_ASSERT(rig_getattr(&r->c, &f, NULL) == NFS3ERR_STALE);
		CU_ASSERT(rig_remove(&r->c, &root, "x") == NFS3_OK);
		CU_ASSERT(rig_getattr(&r->c, &again, NULL) == NFS3ERR_STALE);
	}
	/* a directory that is gone */
	struct rig_fh d;
	CU_ASSERT(rig_mkdir(&r->c, &root, "d", 0755, &d) == NFS3_OK);
	CU_ASSERT(rig_rmdir(&r->c, &root, "d") == NFS3_OK);
	CU_ASSERT(rig_create(&r->c, &d, "in", GUARDED, 0644, NULL) == NFS3ERR_STALE);
	CU_ASSERT(rig_lookup(&r->c, &d, "in", NULL) == NFS3ERR_STALE);
	CU_ASSERT(rig_rename(&r->c, &root, "f", &d, "f") == NFS3ERR_STALE);
	CU_ASSERT(rig_lookup(&r->c, &root, "f", NULL) == NFS3_OK);
}

void
b27_sticky(struct nfs_rig *r)
{
	struct rig_fh root = rig_root(r), d;
	struct nfsc a = nfs_rig_client(r, 1001, 100), b = nfs_rig_client(r, 1002, 100);
	CU_ASSERT(rig_mkdir(&r->c, &root, "tmp", 01777, &d) == NFS3_OK);
	CU_ASSERT(rig_set_mode(&r->c, &d, 01777) == NFS3_OK);
	CU_ASSERT(rig_create(&a, &d, "f", GUARDED, 0666, NULL) == NFS3_OK);
	CU_ASSERT(rig_create(&b, &d, "g", GUARDED, 0666, NULL) == NFS3_OK);
	uint32_t st = rig_remove(&b, &d, "f");
	CU_ASSERT(st == NFS3ERR_ACCES || st == NFS3ERR_PERM);
	st = rig_rename(&b, &d, "f", &d, "h");
	CU_ASSERT(st == NFS3ERR_ACCES || st == NFS3ERR_PERM);
	st = rig_rename(&b, &d, "g", &d, "f"); /* the one it would replace */
	CU_ASSERT(st == NFS3ERR_ACCES || st == NFS3ERR_PERM);
	CU_ASSERT(rig_rename(&a, &d, "f", &d, "h") == NFS3_OK);
	CU_ASSERT(rig_remove(&a, &d, "h") == NFS3_OK);
	CU_ASSERT(rig_remove(&r->c, &d, "g") == NFS3_OK);
	nfsc_disconnect(&a);
	nfsc_disconnect(&b);
}

void
b27_set_ids(struct nfs_rig *r)
{
	struct rig_fh root = rig_root(r), d, f, sub;
	struct nfsc own = nfs_rig_client(r, 1001, 100), other = nfs_rig_client(r, 1002, 100);
	fattr3 a;
	own.group_count = 1;
	own.groups[0] = 300;
	CU_ASSERT(rig_mkdir(&r->c, &root, "d", 0777, &d) == NFS3_OK);
	sattr3 set = {.mode = {.set_it = TRUE, .set_mode3_u = {.mode = 02777}},
	    .gid = {.set_it = TRUE, .set_gid3_u = {.gid = 555}}};
	CU_ASSERT(rig_setattr(&r->c, &d, &set, NULL) == NFS3_OK);
	CU_ASSERT(rig_set_mode(&r->c, &d, 02777) == NFS3_OK);
	CU_ASSERT(rig_create(&own, &d, "f", GUARDED, 0666, &f) == NFS3_OK);
	CU_ASSERT(rig_getattr(&r->c, &f, &a) == NFS3_OK && a.gid == 555);
	CU_ASSERT(rig_mkdir(&own, &d, "sub", 0755, &sub) == NFS3_OK);
	CU_ASSERT(rig_getattr(&r->c, &sub, &a) == NFS3_OK && a.gid == 555 && (a.mode & 02000) != 0);
	/* set-uid goes with a write by somebody else, stays with root's */
	CU_ASSERT(rig_set_mode(&r->c, &f, 06777) == NFS3_OK);
	CU_ASSERT(rig_write(&r->c, &f, 0, "x", 1, FILE_SYNC, NULL) == NFS3_OK);
	CU_ASSERT(rig_getattr(&r->c, &f, &a) == NFS3_OK && (a.mode & 06000) == 06000);
	CU_ASSERT(rig_write(&other, &f, 0, "x", 1, FILE_SYNC, NULL) == NFS3_OK);
	CU_ASSERT(rig_getattr(&r->c, &f, &a) == NFS3_OK && (a.mode & 06000) == 0);
	CU_ASSERT(rig_set_mode(&r->c, &f, 06777) == NFS3_OK);
	CU_ASSERT(rig_set_size(&other, &f, 0) == NFS3_OK);
	CU_ASSERT(rig_getattr(&r->c, &f, &a) == NFS3_OK && (a.mode & 06000) == 0);
	/* groups: the one it has, one of mine, one that isn't */
	set = (sattr3){.gid = {.set_it = TRUE, .set_gid3_u = {.gid = 555}}};
	CU_ASSERT(rig_setattr(&own, &f, &set, NULL) == NFS3_OK);
	set.gid.set_gid3_u.gid = 300;
	CU_ASSERT(rig_setattr(&own, &f, &set, NULL) == NFS3_OK);
	set.gid.set_gid3_u.gid = 999;
	CU_ASSERT(rig_setattr(&own, &f, &set, NULL) == NFS3ERR_PERM);
	nfsc_disconnect(&own);
	nfsc_disconnect(&other);
}

void
b28_limits(struct nfs_rig *r)
{
	struct rig_fh root = rig_root(r), f, s;
	fattr3 a;
	CU_ASSERT(root.len <= 56);
	for (unsigned i = 0; i < 300; i++) {
		char name[16];
		snprintf(name, sizeof(name), "f%u", i);
		CU_ASSERT(rig_create(&r->c, &root, name, GUARDED, 0644, &f) == NFS3_OK);
		CU_ASSERT(f.len <= 56 && rig_getattr(&r->c, &f, &a) == NFS3_OK);
		CU_ASSERT(a.fileid != 0 && (a.fileid & UINT32_MAX) != 0 && a.fsid != 0);
	}
	SYMLINK3args args = {.where = {.dir = rig_fh3(&root), .name = nfsc_name("s")}};
	filename3 to = nfsc_name("nowhere/at/all");
	args.symlink.symlink_data =
	    (nfspath3){.nfspath3_len = to.filename3_len, .nfspath3_val = to.filename3_val};
	args.symlink.symlink_attributes.mode =
	    (set_mode3){.set_it = TRUE, .set_mode3_u = {.mode = 0755}};
	NEW3res made;
	CU_ASSERT(nfsc_call(&r->c, NFSC_SYMLINK, &args, &made) == 0 && made.status == NFS3_OK);
	nfsc_free(NFSC_SYMLINK, &made);
	CU_ASSERT(rig_lookup(&r->c, &root, "s", &s) == NFS3_OK);
	FSSTAT3args fsargs = {rig_fh3(&f)}; /* a file's handle will do */
	FSINFO3res fi;
	CU_ASSERT(nfsc_call(&r->c, NFSC_FSINFO, &fsargs, &fi) == 0 && fi.status == NFS3_OK);
	const FSINFO3resok *ok = &fi.FSINFO3res_u.resok;
	CU_ASSERT(
	    ok->properties == (FSF3_LINK | FSF3_SYMLINK | FSF3_HOMOGENEOUS | FSF3_CANSETTIME));
	CU_ASSERT(ok->rtmax >= ok->rtpref && ok->wtmax >= ok->wtpref && ok->rtmax == 1u << 20);
	CU_ASSERT(ok->time_delta.seconds == 0 && ok->time_delta.nseconds == 1);
	CU_ASSERT(ok->maxfilesize == 1ull << 60);
	nfsc_free(NFSC_FSINFO, &fi);
	PATHCONF3res pc;
	CU_ASSERT(nfsc_call(&r->c, NFSC_PATHCONF, &fsargs, &pc) == 0 && pc.status == NFS3_OK);
	CU_ASSERT(pc.PATHCONF3res_u.resok.name_max == 255 && pc.PATHCONF3res_u.resok.no_trunc);
	nfsc_free(NFSC_PATHCONF, &pc);
	fsargs.fsroot = rig_fh3(&root);
	FSSTAT3res st;
	CU_ASSERT(nfsc_call(&r->c, NFSC_FSSTAT, &fsargs, &st) == 0 && st.status == NFS3_OK);
	CU_ASSERT(st.FSSTAT3res_u.resok.tbytes >= st.FSSTAT3res_u.resok.fbytes);
	nfsc_free(NFSC_FSSTAT, &st);
}
