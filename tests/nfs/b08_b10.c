/* b08_b10.c - the ends of files, and counts that lie (RFC 1813 3.3.6, 3.3.7). */
#include <stdlib.h>
#include "tests/nfs/cases.h"

static void
expect_read(struct nfs_rig *r, const struct rig_fh *f, uint64_t off, uint32_t count, uint32_t want,
    bool want_eof)
{
	static uint8_t buf[8192];
	uint32_t len = 99;
	bool eof = !want_eof;
	CU_ASSERT(rig_read(&r->c, f, off, buf, count, &len, &eof) == NFS3_OK);
	CU_ASSERT(len == want && eof == want_eof);
	for (uint32_t i = 0; i < len && i < sizeof(buf); i++) {
		CU_ASSERT(buf[i] == (uint8_t)((off + i) * 7));
	}
}

void
b08_read_at_eof(struct nfs_rig *r)
{
	struct rig_fh root = rig_root(r), f, e;
	uint8_t data[139];
	for (uint32_t i = 0; i < sizeof(data); i++) {
		data[i] = (uint8_t)(i * 7);
	}
	CU_ASSERT(rig_create(&r->c, &root, "f", GUARDED, 0644, &f) == NFS3_OK);
	CU_ASSERT(rig_write(&r->c, &f, 0, data, sizeof(data), FILE_SYNC, NULL) == NFS3_OK);
	expect_read(r, &f, 0, 512, 139, true);
	expect_read(r, &f, 0, 139, 139, true);
	expect_read(r, &f, 0, 138, 138, false);
	expect_read(r, &f, 139, 1, 0, true);
	expect_read(r, &f, 140, 10, 0, true);
	expect_read(r, &f, 1ull << 40, 10, 0, true);
	for (uint32_t n = 1; n <= 9; n++) {
		expect_read(r, &f, 3, n, n, false);
		expect_read(r, &f, 139 - n, n, n, true);
	}
	expect_read(r, &f, 5, 0, 0, false);
	CU_ASSERT(rig_create(&r->c, &root, "e", GUARDED, 0644, &e) == NFS3_OK);
	expect_read(r, &e, 0, 4096, 0, true);
}

/* A WRITE whose count and data differ. */
static int
write_lie(struct nfs_rig *r, const struct rig_fh *f, uint32_t count, uint32_t len, uint32_t how,
    uint32_t *status)
{
	static uint8_t data[200];
	WRITE3args args = {.file = rig_fh3(f),
	    .count = count,
	    .stable = (stable_how)(how % 3),
	    .data = {len, (char *)data}};
	struct nfsc_msg call, reply;
	WRITE3res res;
	CU_ASSERT(nfsc_encode(&r->c, NFSC_PROG_NFS, 3, NFSC_WRITE, &args, &call) == 0);
	if (how > 2) { /* stable_how is the word before the opaque */
		uint32_t at = call.len - ((len + 3) & ~3u) - 8;
		call.bytes[at + 3] = (uint8_t)how;
	}
	ASSERT(nfsc_transact(&r->c, &call, &reply) == 0);
	int err = nfsc_decode(&r->c, &reply, NFSC_PROG_NFS, NFSC_WRITE, &res);
	if (err == 0) {
		*status = res.status;
		CU_ASSERT(res.status != NFS3_OK || res.WRITE3res_u.resok.count == count);
		nfsc_free(NFSC_WRITE, &res);
	}
	nfsc_msg_free(&call);
	nfsc_msg_free(&reply);
	return err;
}

void
b10_counts_that_lie(struct nfs_rig *r)
{
	struct rig_fh root = rig_root(r), f;
	uint32_t st = 0;
	fattr3 a;
	CU_ASSERT(rig_create(&r->c, &root, "f", GUARDED, 0644, &f) == NFS3_OK);
	CU_ASSERT(write_lie(r, &f, 100, 10, 0, &st) == -EPROTO && r->c.accept_stat == GARBAGE_ARGS);
	CU_ASSERT(write_lie(r, &f, 10, 100, 0, &st) == -EPROTO && r->c.accept_stat == GARBAGE_ARGS);
	CU_ASSERT(write_lie(r, &f, 10, 10, 3, &st) == -EPROTO && r->c.accept_stat == GARBAGE_ARGS);
	CU_ASSERT(rig_getattr(&r->c, &f, &a) == NFS3_OK && a.size == 0);
	for (uint32_t how = 0; how < 3; how++) {
		CU_ASSERT(write_lie(r, &f, 0, 0, how, &st) == 0 && st == NFS3_OK);
	}
	const uint32_t big = (1u << 20) + 512;
	uint8_t *data = mem_zalloc(big);
	ASSERT(data != NULL);
	WRITE3resok ok = {.count = 0};
	CU_ASSERT(rig_write(&r->c, &f, 0, data, big, UNSTABLE, &ok) == NFS3_OK);
	CU_ASSERT(ok.count > 0 && ok.count <= big);
	uint32_t len = 0;
	bool eof;
	CU_ASSERT(rig_read(&r->c, &f, 0, data, big, &len, &eof) == NFS3_OK && len == ok.count);
	mem_free(data);
	READ3args args = {.file = rig_fh3(&f), .count = UINT32_MAX};
	READ3res res;
	CU_ASSERT(nfsc_call(&r->c, NFSC_READ, &args, &res) == 0 && res.status == NFS3_OK);
	CU_ASSERT(res.READ3res_u.resok.count <= 1u << 20);
	nfsc_free(NFSC_READ, &res);
}
