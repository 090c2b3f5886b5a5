/* names.c - names that can't be, in every call that takes one; and who may make devices. */
#include "tests/nfs/cases.h"

struct bad_name {
	const char *bytes;
	uint32_t len;
};

static diropargs3
at(const struct rig_fh *dir, const struct bad_name *n)
{
	diropargs3 a = {.dir = rig_fh3(dir), .name = nfsc_name(n->bytes)};
	a.name.filename3_len = n->len;
	return a;
}

/* The status of a call, whatever its result is otherwise. */
static uint32_t
status_of(struct nfs_rig *r, enum nfsc_proc proc, const void *args)
{
	struct nfsc_msg call, reply;
	uint32_t status;
	CU_ASSERT(nfsc_encode(&r->c, NFSC_PROG_NFS, 3, proc, args, &call) == 0);
	ASSERT(nfsc_transact(&r->c, &call, &reply) == 0);
	CU_ASSERT(reply.len >= 28);
	memcpy(&status, reply.bytes + 24, 4);
	nfsc_msg_free(&call);
	nfsc_msg_free(&reply);
	return be32toh(status);
}

static void
expect_refused(uint32_t status, const struct bad_name *n)
{
	bool dots = n->len > 0 && n->len <= 2 && n->bytes[0] == '.';
	if (n->len > 255) {
		CU_ASSERT(status == NFS3ERR_NAMETOOLONG);
	} else if (dots) {
		CU_ASSERT(status == NFS3ERR_EXIST || status == NFS3ERR_INVAL ||
			  status == NFS3ERR_ISDIR || status == NFS3ERR_NOTEMPTY);
	} else {
		CU_ASSERT(status == NFS3ERR_ACCES || status == NFS3ERR_INVAL);
	}
}

static void
try_name(
    struct nfs_rig *r, const struct rig_fh *d, const struct rig_fh *f, const struct bad_name *n)
{
	static const struct bad_name good = {"good", 4};
	CREATE3args create = {.where = at(d, n)};
	MKDIR3args mkdir = {.where = at(d, n)};
	SYMLINK3args symlink = {.where = at(d, n)};
	symlink.symlink.symlink_data =
	    (nfspath3){.nfspath3_len = 4, .nfspath3_val = create.where.name.filename3_val};
	MKNOD3args mknod = {.where = at(d, n), .what = {.type = NF3FIFO}};
	REMOVE3args remove = {at(d, n)};
	RENAME3args from = {.from = at(d, n), .to = at(d, &good)};
	RENAME3args to = {.from = at(d, &good), .to = at(d, n)};
	LINK3args link = {.file = rig_fh3(f), .link = at(d, n)};
	for (createmode3 how = UNCHECKED; how <= EXCLUSIVE; how++) {
		create.how.mode = how;
		expect_refused(status_of(r, NFSC_CREATE, &create), n);
	}
	expect_refused(status_of(r, NFSC_MKDIR, &mkdir), n);
	if (n->len >= 4) {
		expect_refused(status_of(r, NFSC_SYMLINK, &symlink), n);
	}
	expect_refused(status_of(r, NFSC_MKNOD, &mknod), n);
	expect_refused(status_of(r, NFSC_REMOVE, &remove), n);
	expect_refused(status_of(r, NFSC_RMDIR, &remove), n);
	expect_refused(status_of(r, NFSC_RENAME, &from), n);
	expect_refused(status_of(r, NFSC_RENAME, &to), n);
	expect_refused(status_of(r, NFSC_LINK, &link), n);
}

void
names_in_every_call(struct nfs_rig *r)
{
	static char longest[256];
	static const struct bad_name bad[] = {{"", 0}, {".", 1}, {"..", 2}, {"a/b", 3}, {"/", 1},
	    {"a\0b", 3}, {"\0", 1}, {"name/", 5}, {longest, 256}};
	struct rig_fh root = rig_root(r), d, f;
	fattr3 before, after;
	memset(longest, 'n', sizeof(longest));
	CU_ASSERT(rig_mkdir(&r->c, &root, "d", 0755, &d) == NFS3_OK);
	CU_ASSERT(rig_create(&r->c, &d, "good", GUARDED, 0644, &f) == NFS3_OK);
	CU_ASSERT(rig_getattr(&r->c, &d, &before) == NFS3_OK);
	for (unsigned i = 0; i < ARRAY_LEN(bad); i++) {
		try_name(r, &d, &f, &bad[i]);
	}
	CU_ASSERT(rig_getattr(&r->c, &d, &after) == NFS3_OK);
	CU_ASSERT(memcmp(&before, &after, sizeof(before)) == 0); /* nothing has happened */
	CU_ASSERT(rig_lookup(&r->c, &d, "good", NULL) == NFS3_OK);
	/* 127 letters of two bytes are a name */
	static char greek[255];
	for (unsigned i = 0; i < 127; i++) {
		memcpy(greek + 2 * i, "\xce\xb1", 2);
	}
	CU_ASSERT(rig_mkdir(&r->c, &d, greek, 0755, NULL) == NFS3_OK);
	CU_ASSERT(rig_lookup(&r->c, &d, greek, NULL) == NFS3_OK);
}

static uint32_t
mknod_device(struct nfsc *c, const struct rig_fh *dir, const char *name, ftype3 type)
{
	MKNOD3args args = {.where = {.dir = rig_fh3(dir), .name = nfsc_name(name)}};
	args.what.type = type;
	if (type == NF3CHR || type == NF3BLK) {
		args.what.mknoddata3_u.chr_device.spec = (specdata3){1, 5};
	}
	NEW3res res;
	if (nfsc_call(c, NFSC_MKNOD, &args, &res) != 0) {
		return RIG_CALL_FAILED;
	}
	uint32_t status = res.status;
	nfsc_free(NFSC_MKNOD, &res);
	return status;
}

/* A device node would be a device of the client that looks at it: uid 0 only, and not a squashed
 * one. */
void
devices_for_root_only(struct nfs_rig *r)
{
	static struct nfsd_export e[2];
	struct nfsd_rule rules[2];
	struct rig_fh root = rig_root(r);
	struct nfsc user = nfs_rig_client(r, 1001, 100);
	CU_ASSERT(rig_set_mode(&r->c, &root, 0777) == NFS3_OK);
	CU_ASSERT(mknod_device(&r->c, &root, "null", NF3CHR) == NFS3_OK);
	CU_ASSERT(mknod_device(&r->c, &root, "disk", NF3BLK) == NFS3_OK);
	CU_ASSERT(mknod_device(&user, &root, "mine", NF3CHR) == NFS3ERR_PERM);
	CU_ASSERT(mknod_device(&user, &root, "mine", NF3BLK) == NFS3ERR_PERM);
	CU_ASSERT(mknod_device(&user, &root, "pipe", NF3FIFO) == NFS3_OK);
	CU_ASSERT(mknod_device(&user, &root, "sock", NF3SOCK) == NFS3_OK);
	CU_ASSERT(rig_lookup(&r->c, &root, "mine", NULL) == NFS3ERR_NOENT);
	nfs_rig_export(&e[0], 1, "/tank", "tank", &rules[0]);
	rules[0].squash = NFSD_ROOT_SQUASH;
	case_publish(r, e, 1);
	CU_ASSERT(mknod_device(&r->c, &root, "mine", NF3CHR) == NFS3ERR_PERM);
	/* nor may a squashed root make a file that is root's */
	CREATE3args args = {.where = {.dir = rig_fh3(&root), .name = nfsc_name("root's")}};
	args.how.createhow3_u.unchecked_attributes.uid =
	    (set_uid3){.set_it = TRUE, .set_uid3_u = {.uid = 0}};
	NEW3res res;
	CU_ASSERT(nfsc_call(&r->c, NFSC_CREATE, &args, &res) == 0 && res.status == NFS3ERR_PERM);
	nfsc_free(NFSC_CREATE, &res);
	nfsc_disconnect(&user);
}

/* Two filesystems: what has no name in both can't be linked or moved between them. */
void
two_filesystems(struct nfs_rig *r)
{
	static struct nfsd_export e[2];
	struct nfsd_rule rules[2];
	struct rig_fh root = rig_root(r), other = {0}, f;
	char why[128] = "";
	nfs_fh3 fh;
	CU_ASSERT(fs_ds_create(r->fp, "tank/other", NULL, 0, why, sizeof(why)) == 0);
	nfs_rig_export(&e[0], 1, "/tank", "tank", &rules[0]);
	nfs_rig_export(&e[1], 2, "/tank/other", "tank/other", &rules[1]);
	case_publish(r, e, 2);
	struct nfsc m = nfs_rig_client(r, 0, 0);
	m.port = r->mount_port;
	CU_ASSERT(nfsc_mnt(&m, 3, "/tank/other", &fh, other.bytes) == 0);
	other.len = fh.data.data_len;
	nfsc_disconnect(&m);
	CU_ASSERT(rig_create(&r->c, &root, "f", GUARDED, 0644, &f) == NFS3_OK);
	CU_ASSERT(rig_link(&r->c, &f, &other, "f") == NFS3ERR_XDEV);
	CU_ASSERT(rig_rename(&r->c, &root, "f", &other, "f") == NFS3ERR_XDEV);
	CU_ASSERT(rig_lookup(&r->c, &root, "f", NULL) == NFS3_OK);
	CU_ASSERT(rig_lookup(&r->c, &other, "f", NULL) == NFS3ERR_NOENT);
	fattr3 a, b;
	CU_ASSERT(rig_getattr(&r->c, &root, &a) == NFS3_OK);
	CU_ASSERT(rig_getattr(&r->c, &other, &b) == NFS3_OK);
	CU_ASSERT(a.fsid != b.fsid);
	CU_ASSERT(fs_ds_destroy(r->fp, "tank/other") == 0);
	CU_ASSERT(rig_getattr(&r->c, &other, NULL) == NFS3ERR_STALE);
	CU_ASSERT(rig_mkdir(&r->c, &other, "d", 0755, NULL) == NFS3ERR_STALE);
}
