/* shares.c - shares that come and go beside others, and the write verifier of a pool that does. */
#include "tests/nfs/cases.h"

static struct rig_fh
mounted(struct nfs_rig *r, const char *path)
{
	struct nfsc m = nfs_rig_client(r, 0, 0);
	struct rig_fh out = {0};
	nfs_fh3 fh;
	m.port = r->mount_port;
	CU_ASSERT(nfsc_mnt(&m, 3, path, &fh, out.bytes) == 0);
	out.len = fh.data.data_len;
	nfsc_disconnect(&m);
	return out;
}

/* Two shares of one filesystem: when the older is removed, or they are published in another order,
 * the clients of the younger notice nothing. */
void
share_beside_another(struct nfs_rig *r)
{
	static struct nfsd_export e[2];
	struct nfsd_rule rules[2];
	struct rig_fh root = rig_root(r), f;
	nfs_rig_export(&e[0], 1, "/tank", "tank", &rules[0]);
	nfs_rig_export(&e[1], 2, "/again", "tank", &rules[1]);
	rules[0].squash = NFSD_ALL_SQUASH;
	case_publish(r, e, 2);
	struct rig_fh again = mounted(r, "/again");
	CU_ASSERT(memcmp(again.bytes, root.bytes, root.len) != 0);
	CU_ASSERT(rig_create(&r->c, &again, "f", GUARDED, 0600, &f) == NFS3_OK);
	CU_ASSERT(rig_create(&r->c, &root, "g", GUARDED, 0600, NULL) == NFS3ERR_ACCES);
	static struct nfsd_export turned[2];
	turned[0] = e[1];
	turned[1] = e[0];
	case_publish(r, turned, 2);
	CU_ASSERT(rig_set_mode(&r->c, &f, 0644) == NFS3_OK);
	CU_ASSERT(rig_create(&r->c, &root, "g", GUARDED, 0600, NULL) == NFS3ERR_ACCES);
	case_publish(r, &e[1], 1);
	CU_ASSERT(rig_getattr(&r->c, &again, NULL) == NFS3_OK);
	CU_ASSERT(rig_set_mode(&r->c, &f, 0600) == NFS3_OK);
	case_publish(r, e, 2);
	CU_ASSERT(rig_set_mode(&r->c, &f, 0644) == NFS3_OK);
	case_publish(r, &e[0], 1);
	CU_ASSERT(rig_getattr(&r->c, &again, NULL) == NFS3ERR_STALE);
	CU_ASSERT(rig_getattr(&r->c, &root, NULL) == NFS3_OK);
}

/* A pool that is closed and taken up again while the server runs may have lost unstable data (it
 * could have been suspended): its verifier is another one. */
void
verifier_of_returning_pool(struct nfs_rig *r)
{
	struct rig_fh root = rig_root(r), f;
	WRITE3resok w;
	char verf[8];
	CU_ASSERT(rig_create(&r->c, &root, "f", GUARDED, 0644, &f) == NFS3_OK);
	CU_ASSERT(rig_write(&r->c, &f, 0, "data", 4, UNSTABLE, &w) == NFS3_OK);
	nfsd_remove_pool(r->nfsd, r->pool);
	CU_ASSERT(rig_getattr(&r->c, &f, NULL) == NFS3ERR_STALE);
	ASSERT(nfsd_add_pool(r->nfsd, r->pool, &r->fp) == 0);
	CU_ASSERT(rig_commit(&r->c, &f, verf) == NFS3_OK);
	CU_ASSERT(memcmp(w.verf, verf, 8) != 0);
}

/* The handle of ".." in a listing is the handle of that directory: it dies with it. */
void
parent_in_listing(struct nfs_rig *r)
{
	struct rig_fh root = rig_root(r), a, b, c, up = {0};
	CU_ASSERT(rig_mkdir(&r->c, &root, "a", 0755, &a) == NFS3_OK);
	CU_ASSERT(rig_mkdir(&r->c, &a, "b", 0755, &b) == NFS3_OK);
	CU_ASSERT(rig_mkdir(&r->c, &root, "c", 0755, &c) == NFS3_OK);
	READDIRPLUS3args args = {.dir = rig_fh3(&b), .dircount = 4096, .maxcount = 8192};
	struct nfsc_dirres res;
	CU_ASSERT(nfsc_call(&r->c, NFSC_READDIRPLUS, &args, &res) == 0 && res.status == NFS3_OK);
	CU_ASSERT(res.count == 2);
	for (uint32_t i = 0; i < res.count; i++) {
		const struct nfsc_dirent *e = &res.entries[i];
		const struct rig_fh *want = strcmp(e->name, "..") == 0 ? &a : &b;
		CU_ASSERT(e->has_fh && e->fh_len == want->len);
		CU_ASSERT(memcmp(e->fh, want->bytes, want->len) == 0);
		if (want == &a) {
			up.len = e->fh_len;
			memcpy(up.bytes, e->fh, up.len);
		}
	}
	nfsc_free(NFSC_READDIRPLUS, &res);
	CU_ASSERT(rig_rename(&r->c, &a, "b", &c, "b") == NFS3_OK);
	CU_ASSERT(rig_rmdir(&r->c, &root, "a") == NFS3_OK);
	for (unsigned i = 0; i < 20; i++) {
		char name[16];
		snprintf(name, sizeof(name), "n%u", i);
		CU_ASSERT(rig_mkdir(&r->c, &root, name, 0755, NULL) == NFS3_OK);
	}
	CU_ASSERT(rig_getattr(&r->c, &up, NULL) == NFS3ERR_STALE);
}
