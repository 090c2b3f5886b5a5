/*
 * raidz_test.c - reads, writes, repair and scrub of a group on simulated drives: one failure at a
 * time, on each column, then combinations at and beyond what the layout survives.
 */
#include <CUnit/Basic.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "tests/unit/raidz_rig.h"

#define BLOCK_BYTES (128u << 10)

static uint64_t seed = 20;

static void
run_missing(void *arg UNUSED)
{
	struct rig r;
	struct rig_block b;
	struct raidz_report rep;
	rig_open(&r, 7, 1);
	rig_block_init(&r, &b, 1000, BLOCK_BYTES, 1);
	for (uint32_t c = 0; c < 7; c++) {
		rig_column_set(&r, c, RAIDZ_COL_MISSING);
		CU_ASSERT_EQUAL(rig_write(&r, &b, &rep), -ERR_DEGRADED);
		CU_ASSERT(rig_same(rep.unwritten, 1u << c));
		CU_ASSERT(rig_same(rep.io_error, 0));
		CU_ASSERT_EQUAL(rig_read(&r, &b, &rep), 0);
		CU_ASSERT(rig_same(rep.cksum_bad | rep.io_error | rep.rewritten, 0));
		CU_ASSERT(b.verify_calls == 1);
		uint32_t other = (c + 3) % 7;
		rig_column_set(&r, other, RAIDZ_COL_MISSING);
		CU_ASSERT_EQUAL(rig_read(&r, &b, &rep), -EIO);
		CU_ASSERT_EQUAL(rig_scrub(&r, &b, &rep), -EIO);
		CU_ASSERT_EQUAL(rig_write(&r, &b, &rep), -EIO);
		CU_ASSERT(rig_same(rep.unwritten, (1u << c) | (1u << other)));
		uint32_t failed;
		CU_ASSERT_EQUAL(raidz_flush(r.rg, &failed), -EIO);
		rig_column_set(&r, c, RAIDZ_COL_ONLINE);
		rig_column_set(&r, other, RAIDZ_COL_ONLINE);
		CU_ASSERT_EQUAL(rig_write(&r, &b, &rep), 0);
	}
	rig_block_done(&b);
	rig_close(&r);
}

/* An error or a vanished drive on each column, reading and writing. */
static void
run_errors(void *arg UNUSED)
{
	struct rig r;
	struct rig_block b;
	struct raidz_report rep;
	rig_open(&r, 7, 1);
	rig_block_init(&r, &b, 501, BLOCK_BYTES, 1);
	CU_ASSERT_EQUAL(rig_write(&r, &b, &rep), 0);
	uint32_t parity_drive = b.map.col[0].drive;
	for (uint32_t c = 0; c < 7; c++) {
		uint32_t bit = 1u << c;
		rig_faults_set(&r, c, (struct kb_sim_faults){.read_error = 1000000});
		CU_ASSERT_EQUAL(rig_read(&r, &b, &rep), 0);
		CU_ASSERT(rig_same(rep.io_error, c == parity_drive ? 0 : bit));
		CU_ASSERT(rig_same(rep.cksum_bad | rep.rewritten, 0));
		CU_ASSERT_EQUAL(rig_scrub(&r, &b, &rep), 0);
		CU_ASSERT(rig_same(rep.io_error, bit));

		rig_faults_set(&r, c, (struct kb_sim_faults){.write_error = 1000000});
		CU_ASSERT_EQUAL(rig_write(&r, &b, &rep), -ERR_DEGRADED);
		CU_ASSERT(rig_same(rep.unwritten, bit));
		CU_ASSERT(rig_same(rep.io_error, bit));
		CU_ASSERT(rig_same(rep.late, 0));
		rig_faults_set(&r, c, (struct kb_sim_faults){.flush_error = 1000000});
		uint32_t failed;
		CU_ASSERT_EQUAL(raidz_flush(r.rg, &failed), 0);
		CU_ASSERT(rig_same(failed, bit));
		rig_faults_set(&r, c, (struct kb_sim_faults){0});
		CU_ASSERT_EQUAL(rig_write(&r, &b, &rep), 0);

		kb_sim_vanish(r.medium[c]);
		CU_ASSERT_EQUAL(rig_read(&r, &b, &rep), 0);
		CU_ASSERT(rig_same(rep.io_error, c == parity_drive ? 0 : bit));
		CU_ASSERT(rig_same(rep.rewritten | rep.unwritten, 0));
		kb_sim_return(r.medium[c]);
		kb_close(r.drive[c]);
		CU_ASSERT_EQUAL(kb_sim_open(r.medium[c], &r.drive[c]), 0);
		rig_column_set(&r, c, RAIDZ_COL_ONLINE);
		/* It has lost what was in its cache. */
		CU_ASSERT_EQUAL(rig_write(&r, &b, &rep), 0);
	}
	rig_block_done(&b);
	rig_close(&r);
}

/* Wrong data on each column: right data comes back, the liar is named and mended. */
static void
check_rot(uint32_t width, uint32_t parity, uint32_t len)
{
	struct rig r;
	struct rig_block b;
	struct raidz_report rep;
	rig_open(&r, width, parity);
	rig_block_init(&r, &b, 1234, len, 2);
	CU_ASSERT_EQUAL(rig_write(&r, &b, &rep), 0);
	size_t snap_len;
	uint8_t *before = rig_snapshot(&r, &b, &snap_len);
	for (uint32_t i = 0; i < b.map.col_count; i++) {
		uint32_t drive = b.map.col[i].drive;
		bool is_parity = i < b.map.parity;
		CU_ASSERT_TRUE(rig_rot(&r, &b, drive, i));
		CU_ASSERT_EQUAL(rig_read(&r, &b, &rep), 0);
		if (!is_parity && parity > 0) {
			CU_ASSERT(rig_same(rep.cksum_bad, 1u << drive));
			CU_ASSERT(rig_same(rep.rewritten, 1u << drive));
		}
		CU_ASSERT_EQUAL(rig_scrub(&r, &b, &rep), 0);
		CU_ASSERT(rig_same(rep.cksum_bad, is_parity ? 1u << drive : rep.cksum_bad));
		CU_ASSERT(rig_same(rep.rewritten, rep.cksum_bad));
		uint8_t *after = rig_snapshot(&r, &b, &snap_len);
		CU_ASSERT_EQUAL(memcmp(before, after, snap_len), 0);
		free(after);
		CU_ASSERT_EQUAL(rig_scrub(&r, &b, &rep), 0);
		CU_ASSERT(rig_same(rep.cksum_bad | rep.rewritten, 0));
	}
	free(before);
	rig_block_done(&b);
	rig_close(&r);
}

static void
run_rot(void *arg UNUSED)
{
	check_rot(7, 1, BLOCK_BYTES);
	check_rot(7, 1, SECTOR_BYTES);
	check_rot(3, 1, 5 * SECTOR_BYTES);
	check_rot(16, 1, 1 << 20);
	check_rot(8, 2, BLOCK_BYTES);
	check_rot(9, 3, BLOCK_BYTES);
	check_rot(5, 3, 1 << 20);
	check_rot(2, 0, BLOCK_BYTES);
	check_rot(4, 0, 1 << 20);
}

/* A repair counts only when it reads back. */
static void
run_unrepairable(void *arg UNUSED)
{
	static const uint32_t shapes[][2] = {{7, 1}, {3, 0}};
	static const struct kb_sim_faults faults[] = {
	    {.dropped = 1000000}, {.write_error = 1000000}};
	for (size_t i = 0; i < ARRAY_LEN(shapes) * ARRAY_LEN(faults); i++) {
		struct rig r;
		struct rig_block b;
		struct raidz_report rep;
		rig_open(&r, shapes[i / 2][0], shapes[i / 2][1]);
		rig_block_init(&r, &b, 1000, BLOCK_BYTES, 1);
		CU_ASSERT_EQUAL(rig_write(&r, &b, &rep), 0);
		uint32_t drive = b.map.col[1].drive;
		rig_rot(&r, &b, drive, 3);
		rig_faults_set(&r, drive, faults[i % 2]);
		CU_ASSERT_EQUAL(rig_scrub(&r, &b, &rep), 0);
		CU_ASSERT(rig_same(rep.cksum_bad, 1u << drive));
		CU_ASSERT(rig_same(rep.unwritten, 1u << drive));
		CU_ASSERT(rig_same(rep.rewritten, 0));
		rig_block_done(&b);
		rig_close(&r);
	}
}

/* More lies than parity: an error, never wrong data, and nothing written. */
static void
check_lies(uint32_t width, uint32_t parity, uint32_t lies)
{
	struct rig r;
	struct rig_block b;
	struct raidz_report rep;
	rig_open(&r, width, parity);
	uint64_t state = seed;
	for (uint32_t run = 0; run < 40; run++) {
		rig_block_init(&r, &b, rig_random(&state) % 9000, 16 * SECTOR_BYTES, run);
		CU_ASSERT_EQUAL(rig_write(&r, &b, &rep), 0);
		uint32_t drives = 0;
		while ((uint32_t)__builtin_popcount(drives) < lies) {
			uint32_t d = b.map.parity + (uint32_t)rig_random(&state) % (width - parity);
			drives |= 1u << b.map.col[d].drive;
		}
		for (uint32_t d = 0; d < width; d++) {
			if ((drives & (1u << d)) != 0) {
				rig_rot(&r, &b, d, rig_random(&state));
			}
		}
		size_t len;
		uint8_t *before = rig_snapshot(&r, &b, &len);
		int err = rig_read(&r, &b, &rep);
		uint8_t *after = rig_snapshot(&r, &b, &len);
		if (lies > parity) {
			CU_ASSERT_EQUAL(err, -ERR_CKSUM);
			CU_ASSERT(rig_same(rep.cksum_bad | rep.rewritten, 0));
			CU_ASSERT_EQUAL(memcmp(before, after, len), 0);
			CU_ASSERT_EQUAL(rig_scrub(&r, &b, &rep), -ERR_CKSUM);
		} else {
			CU_ASSERT_EQUAL(err, 0);
			CU_ASSERT(rig_same(rep.cksum_bad, drives));
			CU_ASSERT(rig_same(rep.rewritten, drives));
		}
		CU_ASSERT(b.verify_calls <= RAIDZ_TRIES_MAX);
		free(before);
		free(after);
		rig_block_done(&b);
	}
	rig_close(&r);
}

static void
run_lies(void *arg UNUSED)
{
	check_lies(7, 1, 1);
	check_lies(7, 1, 2);
	check_lies(8, 2, 2);
	check_lies(8, 2, 3);
	check_lies(9, 3, 3);
	check_lies(9, 3, 4);
	check_lies(16, 3, 3);
	check_lies(16, 3, 4);
}

/* A drive that doesn't answer in time must not be able to touch what the caller got. */
static void
run_hang(void *arg UNUSED)
{
	static const uint32_t shapes[][2] = {{7, 1}, {6, 2}, {3, 0}};
	for (size_t i = 0; i < ARRAY_LEN(shapes); i++) {
		for (uint32_t c = 0; c < shapes[i][0]; c++) {
			struct rig r;
			struct rig_block b;
			struct raidz_report rep;
			rig_open(&r, shapes[i][0], shapes[i][1]);
			rig_block_init(&r, &b, 77, BLOCK_BYTES, 5);
			CU_ASSERT_EQUAL(rig_write(&r, &b, &rep), 0);
			rig_rot(&r, &b, c, 9); /* what it will give, late, is wrong as well */
			rig_faults_set(&r, c, (struct kb_sim_faults){.hang = 1000000});
			struct iobuf *buf;
			CU_ASSERT_EQUAL(iobuf_alloc(BLOCK_BYTES, ARENA_CACHE, &buf), 0);
			CU_ASSERT_EQUAL(
			    raidz_read(r.rg, 77, BLOCK_BYTES, &buf, 0, rig_verify, &b, &rep), 0);
			CU_ASSERT(rig_same(rep.io_error & ~(1u << c), 0));
			CU_ASSERT(rig_same(rep.rewritten | rep.unwritten | rep.late, 0));
			rig_faults_set(&r, c, (struct kb_sim_faults){0});
			kb_sim_unhang(r.medium[c]);
			fiber_sleep(NSEC_PER_SEC);
			CU_ASSERT_EQUAL(memcmp(buf->data, b.want, BLOCK_BYTES), 0);
			CU_ASSERT_EQUAL(buf->use, ARENA_CACHE);
			iobuf_unref(buf);
			rig_block_done(&b);
			rig_close(&r);
		}
	}
}

/* Late answers arrive while slow drives are still being read: nothing may be judged by them. */
static void
check_late_reads(uint32_t width, uint32_t parity, uint32_t missing)
{
	const struct kb_sim_faults slow = {
	    .latency_ns_min = 1800 * NSEC_PER_MSEC, .latency_ns_max = 1900 * NSEC_PER_MSEC};
	const struct kb_sim_faults late = {.late = 1000000};
	for (uint32_t c = missing; c < width; c++) {
		struct rig r;
		struct rig_block b;
		struct raidz_report rep;
		rig_open(&r, width, parity);
		rig_block_init(&r, &b, 2 * width + 1, BLOCK_BYTES, 5); /* drive 0 has data */
		CU_ASSERT_EQUAL(rig_write(&r, &b, &rep), 0);
		if (missing != 0) {
			rig_column_set(&r, 0, RAIDZ_COL_MISSING);
		}
		rig_rot(&r, &b, c, 9);
		for (uint32_t d = 0; d < width; d++) {
			rig_faults_set(&r, d, d == c ? late : slow);
		}
		struct iobuf *buf;
		CU_ASSERT_EQUAL(iobuf_alloc(BLOCK_BYTES, ARENA_CACHE, &buf), 0);
		CU_ASSERT_EQUAL(
		    raidz_read(r.rg, b.sector, BLOCK_BYTES, &buf, 0, rig_verify, &b, &rep), 0);
		CU_ASSERT(rig_same((rep.cksum_bad | rep.rewritten), 0));
		fiber_sleep(10 * NSEC_PER_SEC);
		CU_ASSERT_EQUAL(memcmp(buf->data, b.want, BLOCK_BYTES), 0);
		iobuf_unref(buf);
		CU_ASSERT_EQUAL(rig_scrub(&r, &b, &rep), 0);
		CU_ASSERT(rig_same(rep.io_error, 1u << c));
		CU_ASSERT(rig_same((rep.cksum_bad | rep.rewritten), 0));
		rig_block_done(&b);
		rig_close(&r);
	}
}

static void
run_late_reads(void *arg UNUSED)
{
	for (uint32_t i = 0; i < 3; i++) {
		check_late_reads(7, 1, 0);
		check_late_reads(6, 2, 1);
		check_late_reads(2, 0, 0);
		check_late_reads(4, 0, 1);
	}
}

static void
run_late_write(void *arg UNUSED)
{
	struct rig r;
	struct rig_block b;
	struct raidz_report rep;
	rig_open(&r, 7, 1);
	rig_block_init(&r, &b, 77, BLOCK_BYTES, 5);
	rig_faults_set(&r, 4, (struct kb_sim_faults){.hang = 1000000});
	CU_ASSERT_EQUAL(rig_write(&r, &b, &rep), -ERR_DEGRADED);
	CU_ASSERT(rig_same(rep.unwritten, 1u << 4));
	CU_ASSERT(rig_same(rep.late, 1u << 4));
	rig_faults_set(&r, 4, (struct kb_sim_faults){0});
	/* While it has late writes it isn't asked, although it is ONLINE and would answer. */
	CU_ASSERT_EQUAL(rig_read(&r, &b, &rep), 0);
	CU_ASSERT(rig_same(rep.io_error | rep.cksum_bad, 0));
	CU_ASSERT_EQUAL(b.verify_calls, 1);
	kb_sim_unhang(r.medium[4]);
	fiber_sleep(NSEC_PER_SEC);
	CU_ASSERT_EQUAL(kb_late_writes(r.drive[4]), 0);
	rig_block_done(&b);
	rig_close(&r);
}

/* A STALE column is written, read only for want of anything else, and rebuilt by a scrub. */
static void
check_stale(uint32_t width, uint32_t parity)
{
	struct rig r;
	struct rig_block b;
	struct raidz_report rep;
	rig_open(&r, width, parity);
	rig_block_init(&r, &b, 300, BLOCK_BYTES, 6);
	for (uint32_t c = 0; c < width; c++) {
		rig_column_set(&r, c, RAIDZ_COL_STALE);
		CU_ASSERT_EQUAL(rig_write(&r, &b, &rep), 0);
		size_t len;
		uint8_t *right = rig_snapshot(&r, &b, &len);
		rig_rot(&r, &b, c, c);
		CU_ASSERT_EQUAL(rig_read(&r, &b, &rep), 0);
		CU_ASSERT(rig_same(rep.cksum_bad | rep.rewritten, 0));
		CU_ASSERT_EQUAL(b.verify_calls, 1);
		CU_ASSERT_EQUAL(rig_scrub(&r, &b, &rep), 0);
		CU_ASSERT(rig_same(rep.cksum_bad | rep.unwritten, 0));
		CU_ASSERT(rig_same(rep.rewritten, 1u << c));
		uint8_t *now = rig_snapshot(&r, &b, &len);
		CU_ASSERT_EQUAL(memcmp(right, now, len), 0);
		/* Now it has the data; as the last hope it is good enough. */
		uint32_t out = 0;
		for (uint32_t d = 0; d < width && out < raidz_tolerates(&r.cfg); d++) {
			if (d != c) {
				rig_column_set(&r, d, RAIDZ_COL_MISSING);
				out++;
			}
		}
		CU_ASSERT_EQUAL(rig_read(&r, &b, &rep), 0);
		for (uint32_t d = 0; d < width; d++) {
			rig_column_set(&r, d, RAIDZ_COL_ONLINE);
		}
		free(right);
		free(now);
	}
	rig_block_done(&b);
	rig_close(&r);
}

static void
run_stale(void *arg UNUSED)
{
	check_stale(7, 1);
	check_stale(7, 2);
	check_stale(8, 3);
	check_stale(2, 0);
	check_stale(3, 0);
}

static void
run_readonly(void *arg UNUSED)
{
	static const uint32_t shapes[][2] = {{7, 1}, {2, 0}};
	for (size_t i = 0; i < ARRAY_LEN(shapes); i++) {
		struct rig r;
		struct rig_block b;
		struct raidz_report rep;
		rig_open(&r, shapes[i][0], shapes[i][1]);
		rig_block_init(&r, &b, 300, BLOCK_BYTES, 6);
		CU_ASSERT_EQUAL(rig_write(&r, &b, &rep), 0);
		raidz_group_set_readonly(r.rg, true);
		uint32_t bad = b.map.col[shapes[i][1]].drive;
		rig_rot(&r, &b, bad, 1);
		uint64_t writes = rig_count_io(&r, true);
		CU_ASSERT_EQUAL(rig_read(&r, &b, &rep), 0);
		CU_ASSERT_EQUAL(rig_scrub(&r, &b, &rep), 0);
		CU_ASSERT(rig_same(rep.cksum_bad, 1u << bad));
		CU_ASSERT(rig_same(rep.rewritten, 0));
		CU_ASSERT_EQUAL(rig_write(&r, &b, &rep), -EROFS);
		uint32_t late;
		CU_ASSERT(raidz_discard(r.rg, 0, 10000 / 7 * 7, UINT32_MAX, &late) == 0);
		CU_ASSERT_EQUAL(rig_count_io(&r, true), writes);
		raidz_group_set_readonly(r.rg, false);
		CU_ASSERT_EQUAL(rig_scrub(&r, &b, &rep), 0);
		CU_ASSERT(rig_same(rep.rewritten, 1u << bad));
		rig_block_done(&b);
		rig_close(&r);
	}
}

/* Discard passes on whole rows and leaves the neighbours alone. */
static void
run_discard(void *arg UNUSED)
{
	uint32_t late;
	struct rig r;
	struct rig_block before, after, gone;
	struct raidz_report rep;
	rig_open(&r, 7, 1);
	rig_block_init(&r, &before, 1000, BLOCK_BYTES, 1); /* 38 sectors each */
	rig_block_init(&r, &gone, 1038, BLOCK_BYTES, 2);
	rig_block_init(&r, &after, 1076, BLOCK_BYTES, 3);
	CU_ASSERT_EQUAL(rig_write(&r, &before, &rep), 0);
	CU_ASSERT_EQUAL(rig_write(&r, &gone, &rep), 0);
	CU_ASSERT_EQUAL(rig_write(&r, &after, &rep), 0);
	for (uint32_t i = 0; i < 20; i++) {
		/* a drive may ignore it, but not each time */
		CU_ASSERT(raidz_discard(r.rg, 1038, 38, 0x7f, &late) == 0x7f);
		CU_ASSERT(late == 0);
	}
	CU_ASSERT_EQUAL(rig_read(&r, &before, &rep), 0);
	CU_ASSERT_EQUAL(rig_read(&r, &after, &rep), 0);
	CU_ASSERT_EQUAL(rig_read(&r, &gone, &rep), -ERR_CKSUM);
	CU_ASSERT(raidz_discard(r.rg, UINT64_MAX, 2, 0x7f, &late) == 0);
	CU_ASSERT(raidz_discard(r.rg, 5, UINT64_MAX, 0x7f, &late) == 0);
	CU_ASSERT(raidz_discard(r.rg, 1038, 38, 0x11, &late) == 0x11);
	CU_ASSERT_EQUAL(rig_read(&r, &before, &rep), 0);
	rig_block_done(&before);
	rig_block_done(&gone);
	rig_block_done(&after);
	rig_close(&r);
}

struct quiesce_arg {
	struct rig *r;
	struct rig_block *b;
	bool done;
	int err;
};

static void
quiesce_reader(void *arg)
{
	struct quiesce_arg *q = arg;
	struct raidz_report rep;
	q->err = rig_read(q->r, q->b, &rep);
	q->done = true;
}

static void
run_quiesce(void *arg UNUSED)
{
	struct rig r;
	struct rig_block b;
	struct raidz_report rep;
	rig_open(&r, 7, 1);
	rig_block_init(&r, &b, 300, BLOCK_BYTES, 6);
	CU_ASSERT_EQUAL(rig_write(&r, &b, &rep), 0);
	raidz_group_quiesce(r.rg);
	rig_faults_set(&r, 2, (struct kb_sim_faults){.hang = 1000000});
	struct quiesce_arg q = {.r = &r, .b = &b};
	CU_ASSERT_EQUAL(fiber_spawn(1, FIBER_REQUEST, "reader", quiesce_reader, &q), 0);
	fiber_sleep(100 * NSEC_PER_MSEC);
	CU_ASSERT_FALSE(q.done);
	rig_column_set(&r, 2, RAIDZ_COL_MISSING);
	raidz_group_quiesce(r.rg);
	fiber_sleep(100 * NSEC_PER_MSEC);
	CU_ASSERT_TRUE(q.done);
	CU_ASSERT_EQUAL(q.err, 0);
	enum raidz_col_state state;
	CU_ASSERT_PTR_EQUAL(raidz_group_column(r.rg, 2, &state), r.drive[2]);
	CU_ASSERT_EQUAL(state, RAIDZ_COL_MISSING);
	CU_ASSERT_EQUAL(raidz_group_config(r.rg)->width, 7);
	rig_faults_set(&r, 2, (struct kb_sim_faults){0});
	kb_sim_unhang(r.medium[2]);
	fiber_sleep(NSEC_PER_SEC);
	rig_block_done(&b);
	rig_close(&r);
}

static void
run_invalid(void *arg UNUSED)
{
	struct rig r;
	struct raidz_report rep;
	struct iobuf *buf;
	struct rig_block b;
	rig_open(&r, 7, 1);
	rig_block_init(&r, &b, 0, BLOCK_BYTES, 6);
	CU_ASSERT_EQUAL(iobuf_alloc(BLOCK_BYTES, ARENA_CACHE, &buf), 0);
	uint64_t cap = raidz_capacity_sectors(&r.cfg);
	CU_ASSERT_EQUAL(
	    raidz_read(r.rg, cap - 37, BLOCK_BYTES, &buf, 0, rig_verify, &b, &rep), -EINVAL);
	CU_ASSERT_EQUAL(raidz_read(r.rg, 0, 100, &buf, 0, rig_verify, &b, &rep), -EINVAL);
	CU_ASSERT_EQUAL(raidz_read(r.rg, 0, 0, &buf, 0, rig_verify, &b, &rep), -EINVAL);
	CU_ASSERT_EQUAL(
	    raidz_read(r.rg, 0, BLOCK_BYTES, &buf, 4096, rig_verify, &b, &rep), -EINVAL);
	CU_ASSERT_EQUAL(raidz_read(r.rg, 0, 4096, &buf, 100, rig_verify, &b, &rep), -EINVAL);
	CU_ASSERT_EQUAL(raidz_scrub_block(r.rg, cap, 4096, rig_verify, &b, &rep), -EINVAL);
	struct raidz_group *none;
	struct raidz_config wrong = {.kind = RAIDZ_KIND_PARITY, .width = 2, .parity = 1};
	CU_ASSERT_EQUAL(raidz_group_create(&wrong, &none), -EINVAL);
	iobuf_unref(buf);
	rig_block_done(&b);
	rig_close(&r);
}

static uint64_t
drive_reads(const struct rig *r, uint32_t c)
{
	struct kb_counters n;
	kb_get_counters(r->drive[c], &n);
	return n.reads;
}

/* One that sits out isn't read as long as the others suffice, is written as ever, and a scrub looks
 * at it too. */
static void
check_sit_out(uint32_t width, uint32_t parity, uint32_t c)
{
	struct rig r;
	struct rig_block b;
	struct raidz_report rep;
	uint32_t other = (c + 1) % width;
	rig_open(&r, width, parity);
	rig_block_init(&r, &b, 501, BLOCK_BYTES, 1);
	raidz_group_sit_out(r.rg, 1u << c);
	CU_ASSERT_EQUAL(rig_write(&r, &b, &rep), 0);
	CU_ASSERT(rig_same(rep.unwritten, 0));
	uint64_t before = drive_reads(&r, c);
	CU_ASSERT_EQUAL(rig_read(&r, &b, &rep), 0);
	CU_ASSERT(rig_same(rep.io_error | rep.cksum_bad | rep.rewritten, 0));
	CU_ASSERT(drive_reads(&r, c) == before);
	/* the others don't suffice: an error, a lie */
	rig_faults_set(&r, other, (struct kb_sim_faults){.read_error = 1000000});
	CU_ASSERT_EQUAL(rig_read(&r, &b, &rep), 0);
	rig_faults_set(&r, other, (struct kb_sim_faults){0});
	CU_ASSERT(rig_rot(&r, &b, other, 7));
	CU_ASSERT_EQUAL(rig_read(&r, &b, &rep), 0);
	CU_ASSERT_EQUAL(rig_scrub(&r, &b, &rep), 0);
	/* no parity to spare: it is read like others */
	rig_column_set(&r, other, RAIDZ_COL_MISSING);
	CU_ASSERT_EQUAL(rig_read(&r, &b, &rep), 0);
	CU_ASSERT(b.verify_calls == 1);
	rig_column_set(&r, other, RAIDZ_COL_ONLINE);
	CU_ASSERT(rig_rot(&r, &b, c, 8));
	CU_ASSERT_EQUAL(rig_scrub(&r, &b, &rep), 0);
	CU_ASSERT(rig_same(rep.cksum_bad, 1u << c));
	CU_ASSERT(rig_same(rep.rewritten, 1u << c));
	raidz_group_sit_out(r.rg, 0);
	before = drive_reads(&r, c);
	for (uint32_t i = 0; i < 2 && drive_reads(&r, c) == before; i++) {
		CU_ASSERT_EQUAL(rig_read(&r, &b, &rep), 0);
		CU_ASSERT_EQUAL(rig_scrub(&r, &b, &rep), 0);
	}
	CU_ASSERT(drive_reads(&r, c) > before);
	rig_block_done(&b);
	rig_close(&r);
}

static void
run_sit_out(void *arg UNUSED)
{
	for (uint32_t c = 0; c < 7; c++) {
		check_sit_out(7, 1, c);
		check_sit_out(7, 2, c);
	}
	check_sit_out(2, 0, 0);
	check_sit_out(2, 0, 1);
}

static const struct rig_scenario scenarios[] = {
    {"sit out", run_sit_out},
    {"missing", run_missing},
    {"errors", run_errors},
    {"rot", run_rot},
    {"unrepairable", run_unrepairable},
    {"lies", run_lies},
    {"hang", run_hang},
    {"late reads", run_late_reads},
    {"late write", run_late_write},
    {"stale", run_stale},
    {"read-only", run_readonly},
    {"discard", run_discard},
    {"quiesce", run_quiesce},
    {"invalid", run_invalid},
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
	bug_set_deliberate(getenv("AGATE_BUGS"));
	printf("seed=%" PRIu64 "\n", seed);
	CU_initialize_registry();
	CU_pSuite s = CU_add_suite("raidz", NULL, NULL);
	CU_add_test(s, "scenarios", test_scenarios);
	CU_basic_set_mode(CU_BRM_VERBOSE);
	CU_basic_run_tests();
	unsigned failed = CU_get_number_of_failures();
	CU_cleanup_registry();
	return failed != 0;
}
