/*
 * pool_expand_test.c - sets that grow when all their drives were replaced by larger ones: not
 * before, while the pool is in use, and whole after a power cut at any moment of it.
 */
#include "pool/space_int.h"
#include "tests/unit/pool_members.h"

#define SMALL (128 * MIB)
#define LARGE (256 * MIB)

static const struct shape shapes[] = {
    {2, 1, 0, 0, RAIDZ_KIND_MIRROR}, {3, 2, 0, 1, RAIDZ_KIND_PARITY}};

static uint32_t
drive_count(const struct shape *sh)
{
	return sh->width * sh->sets;
}

static void
make_media(const struct shape *sh)
{
	char name[32];

	rig_make(&rig, drive_count(sh), SMALL);
	for (uint32_t i = 0; i < sh->width; i++) {
		(void)snprintf(name, sizeof(name), "large%u", i);
		rig.media[rig.count++] = kb_sim_medium_create(name, LARGE);
	}
}

/* Set 0 gets a larger drive in each column. */
static void
replace_all(struct pool *p, const struct shape *sh)
{
	char why[200];

	for (uint32_t c = 0; c < sh->width; c++) {
		struct guid old = vdev_column(&p->v, 0, c)->guid;
		int err;

		UNIT_CHECK(pool_expandable_bytes(p) == 0);
		UNIT_CHECK(pool_expand(p, &old, why, sizeof(why)) == -ENOSPC);
		err =
		    pool_drive_replace(p, &old, rig.drives[drive_count(sh) + c], why, sizeof(why));
		UNIT_CHECK(err == 0);
		rig.drives[drive_count(sh) + c] = NULL;
		UNIT_CHECK(pool_expand(p, NULL, why, sizeof(why)) == -EBUSY);
		for (unsigned i = 0; i < 600 && vdev_twin(&p->v, 0, c) != NULL; i++) {
			fiber_sleep(NSEC_PER_SEC / 10);
		}
	}
}

static void
figures(struct pool *p, uint64_t *out_raw, uint64_t *out_usable)
{
	struct pool_status st;
	int err = pool_get_status(p, &st);

	UNIT_CHECK(err == 0);
	*out_raw = st.raw_bytes;
	*out_usable = st.usable_bytes;
	pool_status_free(&st);
}

static void
expect_more(struct pool *p, uint64_t raw, uint64_t usable)
{
	uint64_t raw_now, usable_now;

	figures(p, &raw_now, &usable_now);
	UNIT_CHECK(raw_now > raw);
	UNIT_CHECK(usable_now > usable);
}

static void
run_grow(void *arg)
{
	const struct shape *sh = arg;
	uint64_t more, raw, usable;
	struct pool *p;
	char why[200];
	int err;

	rig_open(&rig);
	p = make(sh);
	fill_pool(p, 8, 1);
	replace_all(p, sh);
	more = pool_expandable_bytes(p);
	UNIT_CHECK(more > SMALL / 2);
	figures(p, &raw, &usable);
	(void)!pool_scan(p, POOL_SCAN_START); /* it meets the new segments, too */
	err = pool_expand(p, NULL, why, sizeof(why));
	UNIT_CHECK(err == 0);
	UNIT_CHECK(pool_expandable_bytes(p) == 0);
	raw += SMALL / 2;
	expect_more(p, raw, usable);
	/* more than there was room for */
	for (uint32_t i = 0; i < 40; i++) {
		err = write_file(p, 4u << 20, 100 + i);
		UNIT_CHECK(err == 0);
	}
	sync_pool(p);
	check_files(p);
	check_pool(p);
	close_pool(p);
	p = take_up();
	check_files(p);
	check_pool(p);
	UNIT_CHECK(pool_expandable_bytes(p) == 0);
	close_pool(p);
	rig_close(&rig);
}

static void
test_grow(void)
{
	uint64_t seed = unit_seed(1);

	for (unsigned i = 0; i < 4; i++) {
		struct shape sh = shapes[i % 2];

		rng = (seed + i) * 2 + 1;
		make_media(&sh);
		in_sim(run_grow, &sh, seed + i);
		rig_unmake(&rig);
	}
}

/* ---- the power goes ---- */

struct cut {
	struct shape shape;
	bool told;       /* out: that it has grown */
	bool grown, bad; /* out: what the import found */
};

static uint64_t cut_within_ns = NSEC_PER_MSEC;

static void
cutter(void *arg UNUSED)
{
	fiber_sleep(rnd(cut_within_ns));
	rt_sim_crash();
}

static void
grower(void *arg)
{
	struct cut *c = arg;
	struct pool *p;
	char why[200];

	rig_open(&rig);
	p = make(&c->shape);
	fill_pool(p, 4, 1);
	replace_all(p, &c->shape);
	sync_pool(p);
	fiber_spawn_wait(0, FIBER_ADMIN, "test-cut", cutter, NULL);
	c->told = pool_expand(p, NULL, why, sizeof(why)) == 0;
	for (uint32_t i = 0;; i++) {
		/* whether the cut takes them doesn't matter */
		(void)!write_file(p, 1u << 20, 100 + i);
		want.count--;
		(void)!pool_sync(p);
	}
}

static void
after_cut(void *arg)
{
	struct cut *a = arg;
	struct pool_import_result result;
	struct pool_import_spec spec = {0};
	uint64_t problems = 0;
	struct pool *p = NULL;
	char why[200];
	int err;

	rig_open(&rig);
	err = take(&spec, NULL, &p, &result);
	a->bad = err != 0;
	if (a->bad) {
		rt_sim_crash();
	}
	a->grown = pool_expandable_bytes(p) == 0;
	a->bad = a->told && !a->grown;
	if (a->bad) {
		rt_sim_crash();
	}
	check_files(p);
	err = pool_check(p, NULL, NULL, &problems);
	a->bad = err != 0 || problems != 0;
	if (a->bad) {
		rt_sim_crash();
	}
	for (unsigned i = 0; i < 300 && pool_expand(p, NULL, why, sizeof(why)) != 0; i++) {
		fiber_sleep(NSEC_PER_SEC / 10);
	}
	for (uint32_t i = 0; i < 10; i++) {
		err = write_file(p, 4u << 20, 300 + i);
		UNIT_CHECK(err == 0);
	}
	sync_pool(p);
	check_files(p);
	check_pool(p);
	leave(p);
	rig_close(&rig);
}

static unsigned
cuts(uint64_t seed, unsigned count, unsigned *out_grown)
{
	unsigned bad = 0;

	for (unsigned i = 0; i < count; i++) {
		struct rt_options opt = sim_options(seed + i);
		struct cut a = {.shape = shapes[i % 2]};
		int err;

		rng = (seed + i) * 2 + 1;
		make_media(&a.shape);
		err = rt_run(&opt, grower, &a);
		CU_ASSERT_EQUAL(err, -ERR_CRASHED);
		rig_power_cut(&rig, seed + i);
		err = rt_run(&opt, after_cut, &a);
		CU_ASSERT(err == 0 || a.bad);
		if (err != 0) {
			rig_power_cut(&rig, seed + i);
		}
		bad += a.bad;
		*out_grown += a.grown;
		rig_unmake(&rig);
	}
	return bad;
}

static void
test_cuts(void)
{
	unsigned grown = 0, bad = cuts(unit_seed(31), 20, &grown);

	printf("%u of 20 cuts behind it ", grown);
	CU_ASSERT_EQUAL(bad, 0);
	CU_ASSERT(grown > 0 && grown < 20);
}

#ifdef AGATE_DEBUG
static void
test_bugs_are_seen(void)
{
	unsigned grown = 0;

	cut_within_ns = 20 * NSEC_PER_MSEC;
	bug_set_deliberate("pool-expand-undurable");
	CU_ASSERT(cuts(31, 8, &grown) > 0);
	bug_set_deliberate(NULL);
}
#endif

int
main(int argc, char **argv)
{
	static const struct unit_test tests[] = {
	    {"grow", test_grow},
	    {"cuts", test_cuts},
#ifdef AGATE_DEBUG
	    {"bugs_are_seen", test_bugs_are_seen},
#endif
	};

	return unit_main("pool_expand", tests, ARRAY_LEN(tests), argc, argv);
}
