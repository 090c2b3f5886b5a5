/* basic_test.c - every procedure of NFSv3 and MOUNT once, as a client uses them. */
#include "tests/lib/nfs_rig.h"

static void
files(struct nfs_rig *r)
{
	struct rig_fh root = rig_root(r), f, g, d;
	static uint8_t buf[5000], back[8192];
	uint32_t len = 0;
	bool eof = false;
	fattr3 a;
	char verf[8];
	WRITE3resok w;

	CU_ASSERT(nfsc_call(&r->c, NFSC_NULL, NULL, NULL) == 0);
	CU_ASSERT(rig_mkdir(&r->c, &root, "d", 0755, &d) == NFS3_OK);
	CU_ASSERT(rig_create(&r->c, &d, "f", GUARDED, 0644, &f) == NFS3_OK);
	CU_ASSERT(rig_create(&r->c, &d, "f", GUARDED, 0644, NULL) == NFS3ERR_EXIST);
	memset(buf, 'x', sizeof(buf));
	CU_ASSERT(rig_write(&r->c, &f, 0, buf, sizeof(buf), UNSTABLE, &w) == NFS3_OK);
	CU_ASSERT(w.count == sizeof(buf));
	CU_ASSERT(rig_write(&r->c, &f, 5000, "end", 3, FILE_SYNC, &w) == NFS3_OK);
	CU_ASSERT(w.committed == FILE_SYNC);
	CU_ASSERT(rig_commit(&r->c, &f, verf) == NFS3_OK);
	CU_ASSERT(memcmp(verf, w.verf, 8) == 0);
	CU_ASSERT(rig_read(&r->c, &f, 0, back, sizeof(back), &len, &eof) == NFS3_OK);
	CU_ASSERT(len == 5003 && eof && memcmp(back, buf, 5000) == 0);
	CU_ASSERT(memcmp(back + 5000, "end", 3) == 0);
	CU_ASSERT(rig_getattr(&r->c, &f, &a) == NFS3_OK);
	CU_ASSERT(a.size == 5003 && a.mode == 0644 && a.type == NF3REG && a.nlink == 1);
	CU_ASSERT(rig_lookup(&r->c, &d, "f", &g) == NFS3_OK);
	CU_ASSERT(g.len == f.len && memcmp(g.bytes, f.bytes, f.len) == 0);
	CU_ASSERT(rig_link(&r->c, &f, &root, "l") == NFS3_OK);
	CU_ASSERT(rig_rename(&r->c, &d, "f", &root, "m") == NFS3_OK);
	CU_ASSERT(rig_lookup(&r->c, &d, "f", &g) == NFS3ERR_NOENT);
	CU_ASSERT(rig_set_size(&r->c, &f, 10) == NFS3_OK);
	CU_ASSERT(rig_set_mode(&r->c, &f, 0600) == NFS3_OK);
	CU_ASSERT(rig_getattr(&r->c, &f, &a) == NFS3_OK);
	CU_ASSERT(a.size == 10 && a.mode == 0600 && a.nlink == 2);
	CU_ASSERT(rig_rmdir(&r->c, &root, "d") == NFS3_OK);
	CU_ASSERT(rig_remove(&r->c, &root, "l") == NFS3_OK);
	CU_ASSERT(rig_remove(&r->c, &root, "m") == NFS3_OK);
	CU_ASSERT(rig_getattr(&r->c, &f, &a) == NFS3ERR_STALE);
}

static void
others(struct nfs_rig *r)
{
	struct rig_fh root = rig_root(r), s;
	CU_ASSERT(rig_symlink(&r->c, &root, "s", "some/where", &s) == NFS3_OK);
	READLINK3args rl = {rig_fh3(&s)};
	READLINK3res rlr;
	CU_ASSERT(nfsc_call(&r->c, NFSC_READLINK, &rl, &rlr) == 0);
	CU_ASSERT(rlr.status == NFS3_OK && rlr.READLINK3res_u.resok.data.nfspath3_len == 10);
	nfsc_free(NFSC_READLINK, &rlr);

	ACCESS3args ac = {.object = rig_fh3(&root), .access = 0x3f};
	ACCESS3res acr;
	CU_ASSERT(nfsc_call(&r->c, NFSC_ACCESS, &ac, &acr) == 0 && acr.status == NFS3_OK);
	nfsc_free(NFSC_ACCESS, &acr);

	MKNOD3args mk = {.where = {.dir = rig_fh3(&root), .name = nfsc_name("p")}};
	mk.what.type = NF3FIFO;
	NEW3res nr;
	CU_ASSERT(nfsc_call(&r->c, NFSC_MKNOD, &mk, &nr) == 0 && nr.status == NFS3_OK);
	nfsc_free(NFSC_MKNOD, &nr);

	FSSTAT3args fsargs = {rig_fh3(&root)};
	FSSTAT3res st;
	CU_ASSERT(nfsc_call(&r->c, NFSC_FSSTAT, &fsargs, &st) == 0 && st.status == NFS3_OK);
	nfsc_free(NFSC_FSSTAT, &st);
	FSINFO3res fi;
	CU_ASSERT(nfsc_call(&r->c, NFSC_FSINFO, &fsargs, &fi) == 0 && fi.status == NFS3_OK);
	nfsc_free(NFSC_FSINFO, &fi);
	PATHCONF3res pc;
	CU_ASSERT(nfsc_call(&r->c, NFSC_PATHCONF, &fsargs, &pc) == 0 && pc.status == NFS3_OK);
	CU_ASSERT(pc.PATHCONF3res_u.resok.name_max == 255);
	nfsc_free(NFSC_PATHCONF, &pc);
}

static void
listings(struct nfs_rig *r)
{
	struct rig_fh root = rig_root(r);
	for (unsigned i = 0; i < 40; i++) {
		char name[16];
		snprintf(name, sizeof(name), "f%u", i);
		CU_ASSERT(rig_create(&r->c, &root, name, UNCHECKED, 0644, NULL) == NFS3_OK);
	}
	READDIR3args args = {.dir = rig_fh3(&root), .count = 512};
	struct nfsc_dirres res = {.eof = FALSE};
	uint32_t seen = 0;
	while (!res.eof) {
		ASSERT(nfsc_call(&r->c, NFSC_READDIR, &args, &res) == 0);
		ASSERT(res.status == NFS3_OK && (res.count > 0 || res.eof));
		seen += res.count;
		args.cookie = res.count > 0 ? res.entries[res.count - 1].cookie : args.cookie;
		nfsc_free(NFSC_READDIR, &res);
	}
	CU_ASSERT(seen == 42);
	READDIRPLUS3args plus = {.dir = rig_fh3(&root), .dircount = 8192, .maxcount = 32768};
	CU_ASSERT(nfsc_call(&r->c, NFSC_READDIRPLUS, &plus, &res) == 0);
	CU_ASSERT(res.status == NFS3_OK && res.count == 42 && res.eof);
	CU_ASSERT(res.count > 3 && res.entries[3].has_attr && res.entries[3].has_fh);
	nfsc_free(NFSC_READDIRPLUS, &res);
}

static void
mounts(struct nfs_rig *r)
{
	struct nfsc m;
	nfs_fh3 fh;
	uint8_t bytes[64];
	uint32_t count = 0;
	nfsc_init(&m, "127.0.0.1", r->mount_port);
	CU_ASSERT(nfsc_mnt(&m, 3, "/tank/nothere", &fh, bytes) == MNT3ERR_NOENT);
	CU_ASSERT(nfsc_mnt(&m, 3, "/tank", &fh, bytes) == 0);
	CU_ASSERT(nfsc_mount_list(&m, 3, NFSC_MNT_DUMP, NULL, NULL, &count) == 0 && count >= 1);
	CU_ASSERT(nfsc_mount_list(&m, 3, NFSC_EXPORT, NULL, NULL, &count) == 0 && count == 1);
	CU_ASSERT(nfsc_mount_call(&m, 3, NFSC_UMNT, "/tank") == 0);
	CU_ASSERT(nfsc_mount_call(&m, 3, NFSC_UMNTALL, NULL) == 0);
	CU_ASSERT(nfsc_mount_list(&m, 3, NFSC_MNT_DUMP, NULL, NULL, &count) == 0 && count == 0);
	nfsc_disconnect(&m);
}

static void
run_files(void)
{
	for (uint64_t i = 0; i < 5; i++) {
		nfs_rig_run(unit_seed(1) + i, files);
	}
}

static void
run_others(void)
{
	nfs_rig_run(unit_seed(2), others);
}

static void
run_listings(void)
{
	nfs_rig_run(unit_seed(3), listings);
}

static void
run_mounts(void)
{
	nfs_rig_run(unit_seed(4), mounts);
}

int
main(int argc, char **argv)
{
	static const struct unit_test tests[] = {
	    {"files", run_files},
	    {"others", run_others},
	    {"listings", run_listings},
	    {"mounts", run_mounts},
	};
	return unit_main("nfs_basic", tests, ARRAY_LEN(tests), argc, argv);
}
