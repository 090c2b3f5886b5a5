/*
 * raidz_io_prop_test.c - properties of reads and writes through drives: every set of lost columns
 * that a layout survives, for every width and parity count; and, by seeds, random damage of mixed
 * kinds, up to what the layout survives (the data must come back, and be whole on the drives
 * afterwards) and beyond (an error, or the data; never anything else).
 */
#include <CUnit/Basic.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "tests/unit/raidz_rig.h"

static uint64_t seed = 1;
static uint32_t runs = 60;

static void
columns_set(struct rig *r, uint32_t missing)
{
	for (uint32_t c = 0; c < r->cfg.width; c++) {
		bool gone = (missing & (1u << c)) != 0;
		raidz_group_set_column(
		    r->rg, c, r->drive[c], gone ? RAIDZ_COL_MISSING : RAIDZ_COL_ONLINE);
	}
}

/* Every set of at most p missing drives; the written ones also as written while they were missing.
 */
static uint32_t
check_shape(uint32_t width, uint32_t parity)
{
	struct rig r;
	struct rig_block b[3];
	struct raidz_report rep;
	uint32_t bad = 0;
	uint32_t d = width - parity;
	uint32_t sizes[] = {1, d + 1, 2 * d};
	rig_open(&r, width, parity);
	for (uint32_t i = 0; i < 3; i++) {
		rig_block_init(&r, &b[i], 100 * (i + 1) + i, sizes[i] * SECTOR_BYTES, i + width);
		bad += rig_write(&r, &b[i], &rep) != 0;
	}
	for (uint32_t lost = 0; lost < (1u << width); lost++) {
		if (__builtin_popcount(lost) > (int)parity) {
			continue;
		}
		columns_set(&r, lost);
		for (uint32_t i = 0; i < 3; i++) {
			bad += rig_read(&r, &b[i], &rep) != 0;
			bad += (rep.cksum_bad | rep.io_error | rep.rewritten) != 0;
			bad += b[i].verify_calls != 1;
		}
		uint32_t hit = lost & rig_drives(&b[1]);
		bad += rig_write(&r, &b[1], &rep) != (hit != 0 ? -ERR_DEGRADED : 0);
		bad += rep.unwritten != hit;
	}
	for (uint32_t i = 0; i < 3; i++) {
		rig_block_done(&b[i]);
	}
	rig_close(&r);
	return bad;
}

static void
run_missing(void *arg)
{
	uint32_t *bad = arg;
	for (uint32_t w = 3; w <= RAIDZ_WIDTH_MAX; w++) {
		for (uint32_t p = 1; p <= RAIDZ_PARITY_MAX && p < w - 1; p++) {
			*bad += check_shape(w, p);
		}
	}
}

static void
test_missing(void)
{
	uint32_t bad = 0;
	rig_sim(seed, run_missing, &bad);
	CU_ASSERT_EQUAL(bad, 0);
}

enum damage { DAMAGE_ROT, DAMAGE_ERROR, DAMAGE_MISSING, DAMAGE_STALE, DAMAGE_HANG, DAMAGE_KINDS };

struct damaged {
	struct rig r;
	struct rig_block b;
	uint32_t damaged, lies, hung; /* drive masks */
	uint64_t state;
};

static void
damage_drive(struct damaged *d, uint32_t drive)
{
	struct kb_sim_faults f = {0};
	uint32_t bit = 1u << drive;
	d->damaged |= bit;
	switch ((enum damage)(rig_random(&d->state) % DAMAGE_KINDS)) {
	case DAMAGE_ROT:
		d->lies |= rig_rot(&d->r, &d->b, drive, rig_random(&d->state)) ? bit : 0;
		return;
	case DAMAGE_ERROR:
		f.read_error = 1000000;
		kb_sim_set_faults(d->r.medium[drive], &f);
		return;
	case DAMAGE_MISSING:
		raidz_group_set_column(d->r.rg, drive, NULL, RAIDZ_COL_MISSING);
		return;
	case DAMAGE_STALE:
		rig_rot(&d->r, &d->b, drive, rig_random(&d->state));
		raidz_group_set_column(d->r.rg, drive, d->r.drive[drive], RAIDZ_COL_STALE);
		return;
	case DAMAGE_HANG:
		f.hang = 1000000;
		kb_sim_set_faults(d->r.medium[drive], &f);
		d->hung |= bit;
		return;
	case DAMAGE_KINDS:
		break;
	}
	ASSERT(false);
}

static void
heal(struct damaged *d)
{
	for (uint32_t c = 0; c < d->r.cfg.width; c++) {
		kb_sim_set_faults(d->r.medium[c], &(struct kb_sim_faults){0});
		kb_sim_unhang(d->r.medium[c]);
		if ((d->hung & (1u << c)) == 0 && (d->damaged & (1u << c)) != 0 &&
		    (d->lies & (1u << c)) == 0) {
			raidz_group_set_column(d->r.rg, c, d->r.drive[c], RAIDZ_COL_STALE);
		}
	}
	fiber_sleep(NSEC_PER_SEC);
}

/* Survivable: the data comes back, the liars are named, and a scrub leaves a perfect block. */
static void
check_survived(struct damaged *d, int err, const struct raidz_report *rep, const uint8_t *right)
{
	struct raidz_report scrub;
	size_t len;
	uint32_t seen = rep->cksum_bad;
	CU_ASSERT_EQUAL(err, 0);
	CU_ASSERT_EQUAL(rep->cksum_bad & ~d->lies, 0);
	CU_ASSERT_EQUAL(rep->rewritten & ~d->damaged, 0);
	heal(d);
	CU_ASSERT_EQUAL(rig_scrub(&d->r, &d->b, &scrub), 0);
	CU_ASSERT_EQUAL(seen | scrub.cksum_bad, d->lies);
	CU_ASSERT_EQUAL(scrub.unwritten, 0);
	uint8_t *now = rig_snapshot(&d->r, &d->b, &len);
	CU_ASSERT_EQUAL(memcmp(now, right, len), 0);
	free(now);
}

static void
run_damage(void *arg)
{
	struct damaged d = {.state = *(uint64_t *)arg};
	uint32_t parity = (uint32_t)(rig_random(&d.state) % 4);
	uint32_t width = parity == 0
			     ? 2 + (uint32_t)rig_random(&d.state) % 4
			     : parity + 2 + (uint32_t)(rig_random(&d.state) % (15 - parity));
	rig_open(&d.r, width, parity);
	uint32_t len = SECTOR_BYTES * (1 + (uint32_t)(rig_random(&d.state) % 64));
	rig_block_init(&d.r, &d.b, rig_random(&d.state) % 2000, len, d.state);
	struct raidz_report rep;
	CU_ASSERT_EQUAL(rig_write(&d.r, &d.b, &rep), 0);
	size_t snap_len;
	uint8_t *right = rig_snapshot(&d.r, &d.b, &snap_len);

	uint32_t most = raidz_tolerates(&d.r.cfg);
	uint32_t count = (uint32_t)(rig_random(&d.state) % (most + 2));
	for (uint32_t i = 0; i < count; i++) {
		uint32_t drive = (uint32_t)(rig_random(&d.state) % width);
		if ((d.damaged & (1u << drive)) == 0) {
			damage_drive(&d, drive);
		}
	}
	int err = rig_read(&d.r, &d.b, &rep);
	if ((uint32_t)__builtin_popcount(d.damaged & rig_drives(&d.b)) <= most) {
		check_survived(&d, err, &rep, right);
	} else {
		CU_ASSERT(err == 0 || err == -EIO || err == -ERR_CKSUM);
		CU_ASSERT(err == 0 || rep.rewritten == 0);
		heal(&d);
	}
	free(right);
	rig_block_done(&d.b);
	rig_close(&d.r);
}

static void
test_damage(void)
{
	for (uint64_t s = seed; s < seed + runs; s++) {
		unsigned before = CU_get_number_of_failures();
		uint64_t arg = s;
		rig_sim(s, run_damage, &arg);
		if (CU_get_number_of_failures() != before) {
			printf("seed %" PRIu64 "\n", s);
		}
	}
}

/* ---- many fibers on two reactors, while a drive comes and goes ---- */

#define WORKERS 8
#define WORKER_BLOCKS 12
#define FLAKY 3 /* the drive */

struct concurrent {
	struct rig r;
	struct waitgroup wg;
	atomic_uint bad, next;
};

/* Writes blocks of its own and reads them again; that drive may lack some of it, no other. */
static void
worker(void *arg)
{
	struct concurrent *t = arg;
	uint32_t self = atomic_fetch_add(&t->next, 1);
	uint32_t bad = 0;
	for (uint32_t i = 0; i < WORKER_BLOCKS; i++) {
		struct rig_block b;
		struct raidz_report rep;
		uint64_t sector = (self * WORKER_BLOCKS + i) * 100;
		rig_block_init(&t->r, &b, sector, SECTOR_BYTES * (1 + (self * 7 + i) % 60), sector);
		int err = rig_write(&t->r, &b, &rep);
		bad += err != 0 && err != -ERR_DEGRADED;
		bad += (rep.unwritten & ~(1u << FLAKY)) != 0;
		for (uint32_t k = 0; k < 3; k++) {
			bad += rig_read(&t->r, &b, &rep) != 0;
			bad += ((rep.cksum_bad | rep.io_error) & ~(1u << FLAKY)) != 0;
		}
		bad += rig_scrub(&t->r, &b, &rep) != 0;
		rig_block_done(&b);
	}
	atomic_fetch_add(&t->bad, bad);
	wg_done(&t->wg);
}

static void
run_concurrent(void *arg)
{
	struct concurrent t = {0};
	rig_open(&t.r, 8, 2);
	wg_init(&t.wg);
	wg_add(&t.wg, WORKERS);
	for (uint32_t i = 0; i < WORKERS; i++) {
		fiber_spawn_wait(i % 2, FIBER_REQUEST, "worker", worker, &t);
	}
	for (uint32_t i = 0; i < 20; i++) {
		raidz_group_set_column(t.r.rg, FLAKY, NULL, RAIDZ_COL_MISSING);
		raidz_group_quiesce(t.r.rg);
		/* Nobody has the drive any more. */
		kb_close(t.r.drive[FLAKY]);
		bool opened = kb_sim_open(t.r.medium[FLAKY], &t.r.drive[FLAKY]) == 0;
		ASSERT(opened);
		rig_column_set(&t.r, FLAKY, RAIDZ_COL_ONLINE);
		fiber_sleep(NSEC_PER_MSEC);
	}
	wg_wait(&t.wg);
	*(uint32_t *)arg = atomic_load(&t.bad);
	rig_close(&t.r);
}

static void
test_concurrent(void)
{
	for (uint64_t s = seed; s < seed + 10; s++) {
		uint32_t bad = 1;
		rig_sim(s, run_concurrent, &bad);
		CU_ASSERT_EQUAL(bad, 0);
	}
	uint32_t bad = 1;
	struct rt_options real = {.reactors = 2, .arena_bytes = 256 << 20};
	CU_ASSERT_EQUAL(rt_run(&real, run_concurrent, &bad), 0);
	CU_ASSERT_EQUAL(bad, 0);
}

/* Usage: raidz_io_prop_test [first seed [seeds]] */
int
main(int argc, char **argv)
{
	if (argc > 1) {
		seed = strtoull(argv[1], NULL, 0);
	}
	if (argc > 2) {
		runs = (uint32_t)strtoul(argv[2], NULL, 0);
	}
	printf("seed=%" PRIu64 "\n", seed);
	CU_initialize_registry();
	CU_pSuite s = CU_add_suite("raidz_io_prop", NULL, NULL);
	CU_add_test(s, "every set of missing drives", test_missing);
	CU_add_test(s, "random damage", test_damage);
	CU_add_test(s, "concurrent, also in the real runtime", test_concurrent);
	CU_basic_set_mode(CU_BRM_VERBOSE);
	CU_basic_run_tests();
	unsigned failed = CU_get_number_of_failures();
	CU_cleanup_registry();
	return failed != 0;
}
