/*
 * pool_attach_test.c - mirrors that become wider and narrower in use: a single drive gets a second
 * side and loses its first; nothing relies on a side that isn't filled; after a power cut at any
 * moment of it everything is there.
 */
#include "pool/space_int.h"
#include "tests/unit/pool_members.h"

static const struct shape single = {1, 1, 0, 0, RAIDZ_KIND_MIRROR};
static const struct shape triple = {3, 1, 0, 0, RAIDZ_KIND_MIRROR};

static int
attach(struct pool *p, uint32_t column, uint32_t medium, char *why)
{
	struct guid to = vdev_column(&p->v, 0, column)->guid;
	int err = pool_drive_attach(p, &to, rig.drives[medium], why, 200);

	if (err == 0) {
		rig.drives[medium] = NULL; /* the pool's */
	}
	return err;
}

static int
detach(struct pool *p, uint32_t column, char *why)
{
	struct guid drive = vdev_column(&p->v, 0, column)->guid;

	return pool_drive_detach(p, &drive, why, 200);
}

/* ---- a single drive becomes a mirror, and another single drive ---- */

static void
run_move(void *arg UNUSED)
{
	struct guid none = {{1}};
	struct pool *p;
	char why[200];
	int err;

	rig_open(&rig);
	p = make(&single);
	fill_pool(p, 10, 1);
	sync_pool(p);
	UNIT_CHECK(pool_drive_attach(p, &none, rig.drives[1], why, sizeof(why)) == -ENOENT);
	UNIT_CHECK(pool_drive_detach(p, &none, why, sizeof(why)) == -ENOENT);
	err = detach(p, 0, why);
	UNIT_CHECK(err == -EINVAL && strstr(why, "last drive") != NULL);
	err = attach(p, 0, 3, why);
	UNIT_CHECK(
	    err == -EINVAL && strstr(why, "it has 100663296 bytes, and 134217728 are") != NULL);
	err = attach(p, 0, 1, why);
	UNIT_CHECK(err == 0);
	UNIT_CHECK(vdev_lacking(&p->v, 0) == 1);
	/* not before the new one has everything */
	err = detach(p, 0, why);
	UNIT_CHECK(err == -EBUSY && strstr(why, "last whole copy") != NULL);
	fill_pool(p, 5, 100);
	(void)wait_scan(p);
	UNIT_CHECK(vdev_lacking(&p->v, 0) == 0);
	sync_pool(p);
	check_files(p);
	check_pool(p);
	kb_sim_vanish(rig.media[0]);
	fill_pool(p, 3, 200);
	sync_pool(p);
	check_files(p);
	give_back(p, 0);
	err = detach(p, 1, why); /* the first one isn't whole again yet */
	UNIT_CHECK(err == -EBUSY);
	(void)wait_scan(p);
	err = detach(p, 0, why);
	UNIT_CHECK(err == 0);
	UNIT_CHECK(p->v.sets[0].cfg.width == 1);
	fill_pool(p, 3, 300);
	sync_pool(p);
	check_files(p);
	check_pool(p);
	close_pool(p);
	UNIT_CHECK(!has_label(0) && has_label(1));
	p = take_up();
	check_files(p);
	check_pool(p);
	close_pool(p);
	rig_close(&rig);
}

static void
make_media(void)
{
	rig_make(&rig, 4, 128 * MIB);
	kb_sim_medium_destroy(rig.media[3]);
	rig.media[3] = kb_sim_medium_create("small", 96 * MIB);
}

static void
test_move(void)
{
	uint64_t seed = unit_seed(1);

	for (unsigned i = 0; i < 5; i++) {
		rng = (seed + i) * 2 + 1;
		make_media();
		in_sim(run_move, NULL, seed + i);
		rig_unmake(&rig);
	}
}

/* ---- a side of the middle leaves; another joins; the numbers close up ---- */

static void
run_middle(void *arg UNUSED)
{
	struct pool *p;
	char why[200];
	int err;

	rig_open(&rig);
	p = make(&triple);
	fill_pool(p, 10, 1);
	err = detach(p, 0, why);
	UNIT_CHECK(err == 0);
	UNIT_CHECK(p->v.sets[0].cfg.width == 2);
	fill_pool(p, 5, 100);
	sync_pool(p);
	check_files(p);
	check_pool(p);
	rig_open(&rig);
	err = attach(p, 1, 3, why);
	UNIT_CHECK(err == 0);
	(void)wait_scan(p);
	kb_sim_vanish(rig.media[1]);
	kb_sim_vanish(rig.media[2]);
	fill_pool(p, 3, 200);
	sync_pool(p);
	check_files(p);
	give_back(p, 1);
	give_back(p, 2);
	(void)wait_scan(p);
	check_pool(p);
	close_pool(p);
	p = take_up();
	check_files(p);
	check_pool(p);
	close_pool(p);
	rig_close(&rig);
}

static void
test_middle(void)
{
	uint64_t seed = unit_seed(11);

	for (unsigned i = 0; i < 5; i++) {
		rng = (seed + i) * 2 + 1;
		rig_make(&rig, 4, 128 * MIB);
		in_sim(run_middle, NULL, seed + i);
		rig_unmake(&rig);
	}
}

/* ---- the old side goes before the new one is filled ---- */

static void
run_blank(void *arg)
{
	bool *bad = arg;
	struct pool *p;
	char why[200];
	int err;

	rig_open(&rig);
	p = make(&single);
	fill_pool(p, 30, 1);
	sync_pool(p);
	err = attach(p, 0, 1, why);
	UNIT_CHECK(err == 0);
	kb_sim_vanish(rig.media[0]);
	(void)!write_file(p, 300000, 200);
	fiber_sleep(20 * NSEC_PER_SEC);
	*bad = !pool_is_suspended(p);
	if (*bad) {
		rt_sim_crash();
	}
	give_back(p, 0);
	fiber_sleep(5 * NSEC_PER_SEC);
	*bad = pool_is_suspended(p);
	UNIT_CHECK(!*bad);
	(void)wait_scan(p);
	check_files(p);
	check_pool(p);
	close_pool(p);
	rig_close(&rig);
}

static bool
blank_is_trusted(void)
{
	struct rt_options opt = sim_options(21);
	bool bad = false;
	int err;

	rng = 43;
	rig_make(&rig, 2, 128 * MIB);
	err = rt_run(&opt, run_blank, &bad);
	if (err != 0) {
		rig_power_cut(&rig, 1);
	}
	rig_unmake(&rig);
	return bad;
}

static void
test_blank(void)
{
	CU_ASSERT(!blank_is_trusted());
}

/* ---- the power goes at some moment ---- */

struct cut {
	uint32_t width_before, width_after;
	bool attach;
	uint32_t width; /* out */
	bool bad;       /* out */
};

static void
cutter(void *arg UNUSED)
{
	fiber_sleep(rnd(3 * NSEC_PER_MSEC));
	rt_sim_crash();
}

static void
changer(void *arg)
{
	struct cut *c = arg;
	struct pool *p;
	char why[200];
	int err;

	rig_open(&rig);
	p = make(c->attach ? &single : &triple);
	fill_pool(p, 8, 1);
	sync_pool(p);
	fill_pool(p, 2, 100);
	want.count -= 2; /* whether the cut takes them doesn't matter */
	fiber_spawn_wait(0, FIBER_ADMIN, "test-cut", cutter, NULL);
	err = c->attach ? attach(p, 0, 3, why) : detach(p, (uint32_t)rnd(3), why);
	UNIT_CHECK(err == 0);
	for (;;) {
		(void)!pool_sync(p);
		fiber_sleep(NSEC_PER_MSEC);
	}
}

static void
after_cut(void *arg)
{
	struct cut *c = arg;
	uint64_t problems = 0;
	struct pool *p;
	int err;

	rig_open(&rig);
	p = take_up();
	c->width = p->v.sets[0].cfg.width;
	check_files(p);
	for (unsigned i = 0; i < 600 && vdev_lacking(&p->v, 0) > 0; i++) {
		fiber_sleep(NSEC_PER_SEC / 10);
	}
	UNIT_CHECK(vdev_lacking(&p->v, 0) == 0);
	check_files(p);
	err = pool_check(p, problem, NULL, &problems);
	UNIT_CHECK(err == 0 && problems == 0);
	fill_pool(p, 5, 200);
	sync_pool(p);
	check_files(p);
	close_pool(p);
	rig_close(&rig);
}

static void
cuts(bool attached, uint64_t seed)
{
	unsigned after = 0, count = 40;

	for (unsigned i = 0; i < count; i++) {
		struct rt_options opt = sim_options(seed + i);
		struct cut c = {.attach = attached};
		int err;

		rng = (seed + i) * 2 + 1;
		rig_make(&rig, 4, 128 * MIB);
		err = rt_run(&opt, changer, &c);
		CU_ASSERT_EQUAL(err, -ERR_CRASHED);
		rig_power_cut(&rig, seed + i);
		in_sim(after_cut, &c, seed + i);
		CU_ASSERT(c.width == (attached ? 1u : 3u) || c.width == 2);
		after += c.width == 2;
		rig_unmake(&rig);
	}
	printf("%u of %u cuts behind it ", after, count);
	CU_ASSERT(after > 0 && after < count);
}

static void
test_cut_attach(void)
{
	cuts(true, unit_seed(31));
}

static void
test_cut_detach(void)
{
	cuts(false, unit_seed(71));
}

#ifdef AGATE_DEBUG
/* A side that was attached counts as whole at once: its first reader shows it. */
static void
run_clean(void *arg)
{
	bool *bad = arg;
	uint64_t problems = 0;
	struct pool *p;
	char why[200];
	int err;

	rig_open(&rig);
	p = make(&single);
	fill_pool(p, 10, 1);
	sync_pool(p);
	err = attach(p, 0, 1, why);
	UNIT_CHECK(err == 0);
	fiber_sleep(10 * NSEC_PER_SEC);
	err = pool_check(p, NULL, NULL, &problems);
	*bad = err != 0 || problems != 0;
	close_pool(p);
	rig_close(&rig);
}

static const struct shape logged = {1, 1, 1, 0, RAIDZ_KIND_MIRROR};

static void
run_last_copy(void *arg)
{
	bool *bad = arg;
	struct pool *p;
	char why[200];
	int err;

	rig_open(&rig);
	p = make_pool(
	    &logged, "tank"); /* a log in the pool would go with it: refused for that too */
	rig.drives[0] = rig.drives[1] = NULL;
	fill_pool(p, 10, 1);
	sync_pool(p);
	err = attach(p, 0, 2, why);
	UNIT_CHECK(err == 0);
	*bad = detach(p, 0, why) == 0;
	rt_sim_crash();
}

static bool
goes_wrong(fiber_fn *fn)
{
	struct rt_options opt = sim_options(5);
	bool bad = false;
	int err;

	rng = 11;
	rig_make(&rig, 3, 128 * MIB);
	err = rt_run(&opt, fn, &bad);
	if (err != 0) {
		rig_power_cut(&rig, 1);
	}
	rig_unmake(&rig);
	return bad;
}

static void
test_bugs_are_seen(void)
{
	bug_set_deliberate("pool-blank-counts");
	CU_ASSERT(blank_is_trusted());
	bug_set_deliberate(NULL);
	CU_ASSERT(!goes_wrong(run_clean));
	CU_ASSERT(!goes_wrong(run_last_copy));
	bug_set_deliberate("pool-attach-clean");
	CU_ASSERT(goes_wrong(run_clean));
	bug_set_deliberate("pool-detach-last-copy");
	CU_ASSERT(goes_wrong(run_last_copy));
	bug_set_deliberate(NULL);
}
#endif

int
main(int argc, char **argv)
{
	static const struct unit_test tests[] = {
	    {"move", test_move},
	    {"middle", test_middle},
	    {"blank", test_blank},
	    {"cut_attach", test_cut_attach},
	    {"cut_detach", test_cut_detach},
#ifdef AGATE_DEBUG
	    {"bugs_are_seen", test_bugs_are_seen},
#endif
	};

	return unit_main("pool_attach", tests, ARRAY_LEN(tests), argc, argv);
}
