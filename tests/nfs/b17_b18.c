/* b17_b18.c - names as they come, and who one is through a share. */
#include "tests/nfs/cases.h"

static uint32_t
mkdir_bytes(struct nfs_rig *r, const struct rig_fh *dir, const char *name, uint32_t len)
{
	MKDIR3args args = {.where = {.dir = rig_fh3(dir), .name = nfsc_name(name)}};
	args.where.name.filename3_len = len;
	NEW3res res;
	if (nfsc_call(&r->c, NFSC_MKDIR, &args, &res) != 0) {
		return RIG_CALL_FAILED;
	}
	nfsc_free(NFSC_MKDIR, &res);
	return res.status;
}

static bool
refused(uint32_t st)
{
	return st == NFS3ERR_ACCES || st == NFS3ERR_INVAL;
}

void
b17_names(struct nfs_rig *r)
{
	struct rig_fh root = rig_root(r), d, at;
	fattr3 a, b;
	CU_ASSERT(rig_mkdir(&r->c, &root, "d", 0755, &d) == NFS3_OK);
	CU_ASSERT(
	    rig_lookup(&r->c, &d, ".", &at) == NFS3_OK && memcmp(at.bytes, d.bytes, d.len) == 0);
	CU_ASSERT(rig_lookup(&r->c, &d, "..", &at) == NFS3_OK &&
		  memcmp(at.bytes, root.bytes, d.len) == 0);
	CU_ASSERT(rig_lookup(&r->c, &root, "..", &at) == NFS3_OK &&
		  memcmp(at.bytes, root.bytes, d.len) == 0);
	CU_ASSERT(refused(rig_lookup(&r->c, &root, "", &at)));
	CU_ASSERT(refused(mkdir_bytes(r, &root, "", 0)));
	CU_ASSERT(refused(mkdir_bytes(r, &root, "a/b", 3)));
	CU_ASSERT(refused(mkdir_bytes(r, &root, "a\0b", 3)));
	CU_ASSERT(mkdir_bytes(r, &root, ".", 1) == NFS3ERR_EXIST);
	CU_ASSERT(mkdir_bytes(r, &root, "..", 2) == NFS3ERR_EXIST);
	CU_ASSERT(rig_rmdir(&r->c, &root, ".") == NFS3ERR_INVAL);
	uint32_t st = rig_rmdir(&r->c, &d, "..");
	CU_ASSERT(st == NFS3ERR_NOTEMPTY || st == NFS3ERR_EXIST || st == NFS3ERR_INVAL);
	CU_ASSERT(refused(rig_rename(&r->c, &root, "d", &root, ".")) ||
		  rig_lookup(&r->c, &root, "d", NULL) == NFS3_OK);
	CU_ASSERT(mkdir_bytes(r, &root, "\xff\xfe", 2) == NFS3_OK);
	CU_ASSERT(rig_lookup(&r->c, &root, "\xff\xfe", NULL) == NFS3_OK);
	CU_ASSERT(mkdir_bytes(r, &root, "\xc3\xa9", 2) == NFS3_OK);  /* one code point */
	CU_ASSERT(mkdir_bytes(r, &root, "e\xcc\x81", 3) == NFS3_OK); /* two: another name */
	CU_ASSERT(rig_lookup(&r->c, &root, "\xc3\xa9", &at) == NFS3_OK &&
		  rig_getattr(&r->c, &at, &a) == NFS3_OK);
	CU_ASSERT(rig_lookup(&r->c, &root, "e\xcc\x81", &at) == NFS3_OK &&
		  rig_getattr(&r->c, &at, &b) == NFS3_OK);
	CU_ASSERT(a.fileid != b.fileid);
}

/* Share 1 doesn't squash, share 2 does; 3 makes everyone 1001. All of one filesystem. */
static void
three_shares(struct nfs_rig *r, struct rig_fh *a, struct rig_fh *b, struct rig_fh *c)
{
	static struct nfsd_export e[3];
	struct nfsd_rule rules[3];
	struct rig_fh root = rig_root(r);
	static const char *const names[] = {"a", "b", "c"};
	struct rig_fh *const out[] = {a, b, c};
	for (uint32_t i = 0; i < 3; i++) {
		char path[16];
		CU_ASSERT(rig_mkdir(&r->c, &root, names[i], 0777, NULL) == NFS3_OK);
		CU_ASSERT(rig_lookup(&r->c, &root, names[i], out[i]) == NFS3_OK);
		CU_ASSERT(rig_set_mode(&r->c, out[i], 0777) == NFS3_OK);
		snprintf(path, sizeof(path), "/%s", names[i]);
		nfs_rig_export(&e[i], i + 1, path, "tank", &rules[i]);
		snprintf(e[i].subdir, sizeof(e[i].subdir), "%s", names[i]);
		e[i].anon_uid = e[i].anon_gid = 1001;
	}
	rules[1].squash = NFSD_ROOT_SQUASH;
	rules[2].squash = NFSD_ALL_SQUASH;
	case_publish(r, e, 3);
	for (uint32_t i = 0; i < 3; i++) {
		struct nfsc m = nfs_rig_client(r, 0, 0);
		nfs_fh3 fh;
		m.port = r->mount_port;
		CU_ASSERT(nfsc_mnt(&m, 3, e[i].path, &fh, out[i]->bytes) == 0);
		out[i]->len = fh.data.data_len;
		nfsc_disconnect(&m);
	}
}

void
b18_two_shares(struct nfs_rig *r)
{
	struct rig_fh a, b, c, f, g;
	fattr3 at;
	three_shares(r, &a, &b, &c);
	CU_ASSERT(rig_getattr(&r->c, &a, &at) == NFS3_OK);
	struct rig_fh root = rig_root(r);
	CU_ASSERT(rig_getattr(&r->c, &root, NULL) == NFS3ERR_STALE); /* no share of it any more */
	CU_ASSERT(rig_create(&r->c, &a, "f", GUARDED, 0600, &f) == NFS3_OK);
	CU_ASSERT(rig_link(&r->c, &f, &b, "f") == NFS3ERR_XDEV);
	CU_ASSERT(rig_rename(&r->c, &a, "f", &b, "f") == NFS3ERR_XDEV);
	CU_ASSERT(rig_create(&r->c, &b, "g", GUARDED, 0644, &g) == NFS3_OK);
	CU_ASSERT(rig_getattr(&r->c, &g, &at) == NFS3_OK && at.uid == 1001 && at.gid == 1001);
	CU_ASSERT(rig_rename(&r->c, &b, "g", &a, "g") == NFS3ERR_XDEV);
	sattr3 set = {.uid = {.set_it = TRUE, .set_uid3_u = {.uid = 0}}};
	CU_ASSERT(rig_setattr(&r->c, &g, &set, NULL) == NFS3ERR_PERM);
	CU_ASSERT(rig_getattr(&r->c, &g, &at) == NFS3_OK && at.uid == 1001);
	/* a group list with 0 in it is squashed as well */
	struct nfsc sly = nfs_rig_client(r, 2000, 2000);
	sly.group_count = 1;
	sly.groups[0] = 0;
	CU_ASSERT(rig_create(&sly, &b, "h", GUARDED, 0644, &g) == NFS3_OK);
	set = (sattr3){.gid = {.set_it = TRUE, .set_gid3_u = {.gid = 0}}};
	CU_ASSERT(rig_setattr(&sly, &g, &set, NULL) == NFS3ERR_PERM);
	/* a handle of one share presented with another's number isn't ours */
	struct rig_fh forged = g;
	memcpy(forged.bytes + 4, a.bytes + 4, 4);
	CU_ASSERT(rig_getattr(&r->c, &forged, NULL) == NFS3ERR_BADHANDLE);
	nfsc_disconnect(&sly);
}

void
b18_all_squash(struct nfs_rig *r)
{
	struct rig_fh a, b, c, f;
	fattr3 at;
	three_shares(r, &a, &b, &c);
	struct nfsc who = nfs_rig_client(r, 4242, 4242);
	CU_ASSERT(rig_create(&who, &c, "f", GUARDED, 0600, &f) == NFS3_OK);
	CU_ASSERT(rig_getattr(&who, &f, &at) == NFS3_OK && at.uid == 1001 && at.gid == 1001);
	CU_ASSERT(rig_mkdir(&r->c, &c, "d", 0700, &f) == NFS3_OK);
	CU_ASSERT(rig_getattr(&who, &f, &at) == NFS3_OK && at.uid == 1001);
	nfsc_disconnect(&who);
}
