/* b02_b03.c - exclusive create, and who may write what he just made (RFC 1813 3.3.8, 4.4). */
#include "tests/nfs/cases.h"

void
b02_exclusive_create(struct nfs_rig *r)
{
	static const char all[8] = {-1, -1, -1, -1, -1, -1, -1, -1};
	struct rig_fh root = rig_root(r), first, second;
	char other[8];
	CU_ASSERT(rig_create_excl(&r->c, &root, "f", all, &first) == NFS3_OK);
	CU_ASSERT(rig_create_excl(&r->c, &root, "f", all, &second) == NFS3_OK);
	CU_ASSERT(first.len == second.len && memcmp(first.bytes, second.bytes, first.len) == 0);
	for (unsigned i = 0; i < 8; i++) {
		memcpy(other, all, 8);
		other[i] ^= 1;
		CU_ASSERT(rig_create_excl(&r->c, &root, "f", other, NULL) == NFS3ERR_EXIST);
	}
	nfs_rig_restart(r);
	r->c = nfs_rig_client(r, 0, 0);
	CU_ASSERT(rig_create_excl(&r->c, &root, "f", all, &second) == NFS3_OK);
	CU_ASSERT(memcmp(first.bytes, second.bytes, first.len) == 0);
	fattr3 a;
	CU_ASSERT(rig_getattr(&r->c, &first, &a) == NFS3_OK);
	CU_ASSERT(a.mtime.seconds > 1000000 ||
		  a.mtime.seconds == a.ctime.seconds); /* no verifier in it */
	struct rig_fh none = root;
	none.bytes[47] ^= 1;
	CU_ASSERT(rig_create_excl(&r->c, &none, "g", all, NULL) == NFS3ERR_BADHANDLE);
}

void
b03_read_only_file(struct nfs_rig *r)
{
	struct rig_fh root = rig_root(r), d, f;
	struct nfsc owner = nfs_rig_client(r, 1001, 100), stranger = nfs_rig_client(r, 1002, 100);
	uint8_t buf[64] = {1};
	uint32_t len;
	bool eof;
	CU_ASSERT(rig_mkdir(&r->c, &root, "d", 0777, &d) == NFS3_OK);
	CU_ASSERT(rig_set_mode(&r->c, &d, 0777) == NFS3_OK);
	CU_ASSERT(rig_create(&owner, &d, "a", UNCHECKED, 0444, &f) == NFS3_OK);
	CU_ASSERT(rig_write(&owner, &f, 0, buf, 64, FILE_SYNC, NULL) == NFS3_OK);
	CU_ASSERT(rig_write(&stranger, &f, 0, buf, 64, FILE_SYNC, NULL) == NFS3ERR_ACCES);
	CU_ASSERT(rig_read(&stranger, &f, 0, buf, 64, &len, &eof) == NFS3_OK && len == 64);
	CREATE3args args = {.where = {.dir = rig_fh3(&d), .name = nfsc_name("b")}};
	sattr3 *set = &args.how.createhow3_u.unchecked_attributes;
	set->mode = (set_mode3){.set_it = TRUE, .set_mode3_u = {.mode = 0}};
	set->size = (set_size3){.set_it = TRUE, .set_size3_u = {.size = 0}};
	NEW3res res;
	CU_ASSERT(nfsc_call(&owner, NFSC_CREATE, &args, &res) == 0 && res.status == NFS3_OK);
	nfsc_free(NFSC_CREATE, &res);
	CU_ASSERT(rig_create(&owner, &d, "c", UNCHECKED, 0644, &f) == NFS3_OK);
	CU_ASSERT(rig_set_mode(&owner, &f, 0400) == NFS3_OK);
	CU_ASSERT(rig_write(&owner, &f, 0, buf, 64, FILE_SYNC, NULL) == NFS3_OK);
	CU_ASSERT(rig_set_mode(&owner, &f, 0111) == NFS3_OK);
	CU_ASSERT(
	    rig_read(&stranger, &f, 0, buf, 64, &len, &eof) == NFS3_OK); /* may run, so may read */
	CU_ASSERT(rig_set_mode(&owner, &f, 0) == NFS3_OK);
	CU_ASSERT(rig_read(&stranger, &f, 0, buf, 64, &len, &eof) == NFS3ERR_ACCES);
	nfsc_disconnect(&owner);
	nfsc_disconnect(&stranger);
}
