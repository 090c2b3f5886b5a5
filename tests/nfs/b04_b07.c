/* b04_b07.c - listings: while names go, with any verifier, in any size (RFC 1813 3.3.16, 3.3.17).
 */
#include <stdlib.h>
#include "tests/nfs/cases.h"

#define MANY 700u

static struct rig_fh
make_many(struct nfs_rig *r, uint32_t count)
{
	struct rig_fh root = rig_root(r), d;
	CU_ASSERT(rig_mkdir(&r->c, &root, "many", 0755, &d) == NFS3_OK);
	for (uint32_t i = 0; i < count; i++) {
		char name[16];
		snprintf(name, sizeof(name), "f%u", i);
		CU_ASSERT(rig_create(&r->c, &d, name, GUARDED, 0644, NULL) == NFS3_OK);
	}
	return d;
}

static int
page(struct nfsc *c, const struct rig_fh *d, uint64_t cookie, uint64_t verf, uint32_t count,
    struct nfsc_dirres *res)
{
	READDIR3args args = {.dir = rig_fh3(d), .cookie = cookie, .count = count};
	memcpy(args.cookieverf, &verf, 8);
	return nfsc_call(c, NFSC_READDIR, &args, res);
}

void
b04_list_while_deleting(struct nfs_rig *r)
{
	static uint8_t seen[MANY];
	struct rig_fh d = make_many(r, MANY);
	struct nfsc_dirres res = {.eof = FALSE};
	uint64_t cookie = 0;
	uint32_t pages = 0, added = 0;
	memset(seen, 0, sizeof(seen));
	while (!res.eof && pages++ < 5000) {
		char names[64][16];
		uint32_t n = 0;
		ASSERT(page(&r->c, &d, cookie, 0, 1024, &res) == 0 && res.status == NFS3_OK);
		for (uint32_t i = 0; i < res.count; i++) {
			cookie = res.entries[i].cookie;
			if (res.entries[i].name[0] == 'f' && n < 64) {
				snprintf(names[n++], 16, "%.15s", res.entries[i].name);
			}
		}
		bool_t eof = res.eof;
		nfsc_free(NFSC_READDIR, &res);
		res.eof = eof;
		for (uint32_t i = 0; i < n; i++) {
			uint32_t at = (uint32_t)strtoul(names[i] + 1, NULL, 10);
			CU_ASSERT(at < MANY);
			seen[at % MANY]++;
			CU_ASSERT(rig_remove(&r->c, &d, names[i]) == NFS3_OK);
		}
		if (added < 50) { /* somebody else makes files meanwhile */
			char name[16];
			snprintf(name, sizeof(name), "g%u", added++);
			CU_ASSERT(rig_create(&r->c, &d, name, GUARDED, 0644, NULL) == NFS3_OK);
		}
	}
	CU_ASSERT(res.eof);
	for (uint32_t i = 0; i < MANY; i++) {
		CU_ASSERT(seen[i] == 1);
	}
	/* behind the end: nothing, and the end */
	CU_ASSERT(page(&r->c, &d, UINT64_MAX >> 1, 0, 1024, &res) == 0 && res.status == NFS3_OK);
	CU_ASSERT(res.count == 0 && res.eof);
	nfsc_free(NFSC_READDIR, &res);
}

void
b05_cookie_verifier(struct nfs_rig *r)
{
	struct rig_fh d = make_many(r, 200);
	struct nfsc_dirres res, next;
	static const uint64_t verfs[] = {0, 1, UINT64_MAX};
	CU_ASSERT(page(&r->c, &d, 0, UINT64_MAX, 1024, &res) == 0 && res.status == NFS3_OK);
	ASSERT(res.count > 0);
	uint64_t cookie = res.entries[res.count - 1].cookie, after = 0;
	nfsc_free(NFSC_READDIR, &res);
	for (unsigned i = 0; i < 4; i++) {
		if (i == 1) {
			CU_ASSERT(rig_create(&r->c, &d, "new", GUARDED, 0644, NULL) == NFS3_OK);
		}
		if (i == 3) {
			nfs_rig_restart(r);
			r->c = nfs_rig_client(r, 0, 0);
		}
		CU_ASSERT(page(&r->c, &d, cookie, verfs[i % 3], 512, &next) == 0);
		CU_ASSERT(next.status == NFS3_OK && next.count > 0);
		uint64_t first = next.count > 0 ? next.entries[0].fileid : 0;
		CU_ASSERT(i == 0 || first == after || strcmp(next.entries[0].name, "new") == 0);
		after = i == 0 ? first : after;
		nfsc_free(NFSC_READDIR, &next);
	}
}

/* The result of a whole reply, without status and RPC header. */
static void
check_size(struct nfs_rig *r, enum nfsc_proc proc, const void *args, uint32_t max)
{
	struct nfsc_msg call, reply;
	struct nfsc_dirres res;
	CU_ASSERT(nfsc_encode(&r->c, NFSC_PROG_NFS, 3, proc, args, &call) == 0);
	ASSERT(nfsc_transact(&r->c, &call, &reply) == 0);
	CU_ASSERT(nfsc_decode(&r->c, &reply, NFSC_PROG_NFS, proc, &res) == 0);
	CU_ASSERT(res.status == NFS3_OK || res.status == NFS3ERR_TOOSMALL);
	if (res.status == NFS3_OK) {
		CU_ASSERT(reply.len - 24 - 4 <= max);
		CU_ASSERT(res.count > 0 || res.eof);
	}
	nfsc_free(proc, &res);
	nfsc_msg_free(&call);
	nfsc_msg_free(&reply);
}

void
b07_listing_limits(struct nfs_rig *r)
{
	static const uint32_t sizes[] = {
	    0, 16, 64, 96, 128, 160, 200, 512, 4096, 65536, 1u << 20, UINT32_MAX};
	struct rig_fh root = rig_root(r), d, empty;
	char name[256];
	CU_ASSERT(rig_mkdir(&r->c, &root, "empty", 0755, &empty) == NFS3_OK);
	CU_ASSERT(rig_mkdir(&r->c, &root, "d", 0755, &d) == NFS3_OK);
	for (char c = 'a'; c <= 'z'; c++) {
		memset(name, c, 255);
		name[255] = '\0';
		CU_ASSERT(rig_create(&r->c, &d, name, GUARDED, 0644, NULL) == NFS3_OK);
	}
	const struct rig_fh *dirs[] = {&empty, &d};
	for (unsigned k = 0; k < 2; k++) {
		for (unsigned i = 0; i < ARRAY_LEN(sizes); i++) {
			READDIR3args rd = {.dir = rig_fh3(dirs[k]), .count = sizes[i]};
			check_size(r, NFSC_READDIR, &rd, sizes[i]);
			READDIRPLUS3args rp = {
			    .dir = rig_fh3(dirs[k]), .dircount = sizes[i], .maxcount = 1u << 20};
			check_size(r, NFSC_READDIRPLUS, &rp, 1u << 20);
			rp.dircount = 1u << 20;
			rp.maxcount = sizes[i];
			check_size(r, NFSC_READDIRPLUS, &rp, sizes[i]);
		}
	}
}
