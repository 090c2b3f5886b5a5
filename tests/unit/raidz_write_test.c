/*
 * raidz_write_test.c - writes of a group on simulated drives: what was written reads back, batches
 * cost as few I/Os as they should, and each block of a batch learns its own fate.
 */
#include <CUnit/Basic.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "tests/unit/raidz_rig.h"

static uint64_t seed = 20;

static void
run_roundtrip(void *arg UNUSED)
{
	static const uint32_t shapes[][2] = {{3, 1}, {7, 1}, {16, 1}, {4, 2}, {9, 2}, {5, 3},
	    {16, 3}, {1, 0}, {2, 0}, {3, 0}, {16, 0}};
	static const uint32_t lens[] = {4096, 8192, 12288, 24576, 28672, 131072, 135168, 1048576};
	for (size_t i = 0; i < ARRAY_LEN(shapes); i++) {
		struct rig r;
		rig_open(&r, shapes[i][0], shapes[i][1]);
		uint64_t at = 3;
		for (size_t k = 0; k < ARRAY_LEN(lens); k++) {
			struct rig_block b;
			struct raidz_report rep;
			rig_block_init(&r, &b, at, lens[k], at);
			CU_ASSERT_EQUAL(rig_write(&r, &b, &rep), 0);
			CU_ASSERT(rig_same(rep.unwritten | rep.io_error | rep.late, 0));
			CU_ASSERT_EQUAL(rig_read(&r, &b, &rep), 0);
			CU_ASSERT(rig_same(rep.cksum_bad | rep.io_error | rep.rewritten, 0));
			CU_ASSERT_EQUAL(b.verify_calls, 1);
			CU_ASSERT_EQUAL(rig_scrub(&r, &b, &rep), 0);
			CU_ASSERT(rig_same(rep.cksum_bad | rep.io_error | rep.rewritten, 0));
			at += raidz_alloc_sectors(&r.cfg, lens[k]);
			rig_block_done(&b);
		}
		uint32_t failed = 99;
		CU_ASSERT_EQUAL(raidz_flush(r.rg, &failed), 0);
		CU_ASSERT(rig_same(failed, 0));
		rig_close(&r);
	}
}

/* A healthy read is one I/O for each data column; a batch of neighbours is one I/O a drive. */
static void
run_io_counts(void *arg UNUSED)
{
	struct rig r;
	static struct rig_block b[30];
	static struct raidz_block blk[30];
	struct raidz_report rep;
	rig_open(&r, 7, 1);
	uint64_t at = 70;
	for (uint32_t i = 0; i < 30; i++) {
		/* odd sizes too: their padding must not split the runs */
		rig_block_init(&r, &b[i], at, SECTOR_BYTES * (1 + i % 9), i);
		struct iobuf *buf;
		CU_ASSERT_EQUAL(iobuf_alloc(b[i].len_bytes, ARENA_SYNC, &buf), 0);
		memcpy(buf->data, b[i].want, b[i].len_bytes);
		blk[(i * 7) % 30] =
		    (struct raidz_block){.sector = at, .len_bytes = b[i].len_bytes, .buf = buf};
		at += raidz_alloc_sectors(&r.cfg, b[i].len_bytes);
	}
	CU_ASSERT_EQUAL(raidz_write(r.rg, blk, 30, ARENA_SYNC), 0);
	CU_ASSERT_EQUAL(rig_count_io(&r, true), 7);
	for (uint32_t i = 0; i < 30; i++) {
		uint64_t before = rig_count_io(&r, false);
		CU_ASSERT_EQUAL(blk[i].status, 0);
		iobuf_unref(blk[i].buf);
		CU_ASSERT_EQUAL(rig_read(&r, &b[i], &rep), 0);
		CU_ASSERT_EQUAL(rig_count_io(&r, false) - before, b[i].map.col_count - 1);
		rig_block_done(&b[i]);
	}
	rig_close(&r);
}

static uint64_t
count_written_sectors(struct rig *r)
{
	uint64_t n = 0;
	for (uint32_t c = 0; c < r->cfg.width; c++) {
		struct kb_counters k;
		kb_get_counters(r->drive[c], &k);
		n += k.write_bytes / SECTOR_BYTES;
	}
	return n;
}

/* Padding is written only where it joins two columns. */
static void
run_padding(void *arg UNUSED)
{
	struct rig r;
	struct iobuf *buf;
	rig_open(&r, 7, 1);
	/* 7 of data, 2 of parity, 1 of padding each, far apart; the padding lies below a column */
	const uint32_t len = 7 * SECTOR_BYTES;
	struct raidz_block blk[3] = {
	    {.sector = 7, .len_bytes = len},
	    {.sector = 70, .len_bytes = len},
	    {.sector = 140, .len_bytes = len},
	};
	CU_ASSERT_EQUAL(iobuf_alloc(len, ARENA_DIRTY, &buf), 0);
	memset(buf->data, 7, buf->cap_bytes);
	for (uint32_t i = 0; i < 3; i++) {
		blk[i].buf = buf;
	}
	CU_ASSERT_EQUAL(raidz_write(r.rg, blk, 3, ARENA_SYNC), 0);
	CU_ASSERT_EQUAL(count_written_sectors(&r), 3 * 9);
	CU_ASSERT_EQUAL(rig_count_io(&r, true), 3 * 7);
	iobuf_unref(buf);
	rig_close(&r);
}

/* Some I/Os of one drive fail in a batch: each block knows for itself. */
static void
run_partial_failure(void *arg UNUSED)
{
	struct rig r;
	static struct rig_block b[32];
	static struct raidz_block blk[32];
	struct raidz_report rep;
	uint32_t degraded = 0;
	rig_open(&r, 7, 1);
	for (uint32_t i = 0; i < 32; i++) {
		rig_block_init(&r, &b[i], i * 100, 6 * SECTOR_BYTES, i); /* apart from each other */
		struct iobuf *buf;
		CU_ASSERT_EQUAL(iobuf_alloc(b[i].len_bytes, ARENA_DIRTY, &buf), 0);
		memcpy(buf->data, b[i].want, b[i].len_bytes);
		blk[i] = (struct raidz_block){
		    .sector = i * 100, .len_bytes = b[i].len_bytes, .buf = buf};
	}
	rig_faults_set(&r, 3, (struct kb_sim_faults){.write_error = 500000});
	CU_ASSERT_EQUAL(raidz_write(r.rg, blk, 32, ARENA_SYNC), 0);
	rig_faults_set(&r, 3, (struct kb_sim_faults){0});
	rig_column_set(&r, 5, RAIDZ_COL_MISSING); /* now drive 3 is needed */
	for (uint32_t i = 0; i < 32; i++) {
		bool lost = blk[i].status == -ERR_DEGRADED;
		degraded += lost;
		CU_ASSERT(rig_same(blk[i].report.unwritten, lost ? 1u << 3 : 0));
		int err = rig_read(&r, &b[i], &rep);
		CU_ASSERT(err == 0 || (lost && err == -ERR_CKSUM));
		iobuf_unref(blk[i].buf);
		rig_block_done(&b[i]);
	}
	CU_ASSERT(degraded > 0 && degraded < 32);
	rig_close(&r);
}

/* A batch larger than a wave, with blocks that must be refused among good ones. */
static void
run_batch(void *arg UNUSED)
{
	struct rig r;
	static struct rig_block b[100];
	static struct raidz_block blk[100];
	struct raidz_report rep;
	rig_open(&r, 5, 3);
	uint64_t at = 0;
	for (uint32_t i = 0; i < 100; i++) {
		rig_block_init(&r, &b[i], at, SECTOR_BYTES * (1 + (i * 5) % 40), i);
		struct iobuf *buf;
		CU_ASSERT_EQUAL(iobuf_alloc(b[i].len_bytes, ARENA_DIRTY, &buf), 0);
		memcpy(buf->data, b[i].want, b[i].len_bytes);
		blk[i] = (struct raidz_block){.sector = i == 50 ? UINT64_MAX - 7 : at,
		    .len_bytes = i == 60 ? 100 : b[i].len_bytes,
		    .buf = buf,
		    .off_bytes = i == 70 ? buf->cap_bytes : 0};
		at += raidz_alloc_sectors(&r.cfg, b[i].len_bytes);
	}
	CU_ASSERT_EQUAL(raidz_write(r.rg, blk, 100, ARENA_SYNC), -EIO);
	for (uint32_t i = 0; i < 100; i++) {
		bool refused = i == 50 || i == 60 || i == 70;
		CU_ASSERT_EQUAL(blk[i].status, refused ? -EINVAL : 0);
		iobuf_unref(blk[i].buf);
		CU_ASSERT_EQUAL(rig_read(&r, &b[i], &rep), refused ? -ERR_CKSUM : 0);
		rig_block_done(&b[i]);
	}
	rig_close(&r);
}

static const struct rig_scenario scenarios[] = {
    {"roundtrip", run_roundtrip},
    {"I/O counts", run_io_counts},
    {"padding", run_padding},
    {"partial failure", run_partial_failure},
    {"batch", run_batch},
};

static void
test_scenarios(void)
{
	CU_ASSERT_EQUAL(rig_run_scenarios(scenarios, ARRAY_LEN(scenarios), seed), 0);
}

int
main(int argc, char **argv)
{
	if (argc > 1) {
		seed = strtoull(argv[1], NULL, 0);
	}
	printf("seed=%" PRIu64 "\n", seed);
	CU_initialize_registry();
	CU_pSuite s = CU_add_suite("raidz_write", NULL, NULL);
	CU_add_test(s, "scenarios", test_scenarios);
	CU_basic_set_mode(CU_BRM_VERBOSE);
	CU_basic_run_tests();
	unsigned failed = CU_get_number_of_failures();
	CU_cleanup_registry();
	return failed != 0;
}
