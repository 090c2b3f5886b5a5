/*
 * pool_pair_test.c - a drive that can be read is replaced: meanwhile another one of its set may go,
 * the old one, the new one, the power; the pool may be exported, the replacement called off. Nothing
 * is lost, and in the end the column has one drive with everything.
 */
#include "tests/unit/pool_members.h"

#define OLD 2u /* column that is replaced */
#define NEW 7u /* medium of the new drive */

static const struct shape single = {1, 1, 0, 0, RAIDZ_KIND_MIRROR};

static int
replace(struct pool *p, uint32_t column, uint32_t medium)
{
	struct guid old = vdev_column(&p->v, 0, column)->guid;
	char why[200];
	int err = pool_drive_replace(p, &old, rig.drives[medium], why, sizeof(why));

	if (err == 0) {
		rig.drives[medium] = NULL; /* the pool's */
	}
	return err;
}

static bool
has_twin(const struct pool *p)
{
	return vdev_twin(&p->v, 0, OLD) != NULL || vdev_twin(&p->v, 0, 0) != NULL;
}

static void
wait_single(struct pool *p)
{
	for (unsigned i = 0; i < 600 && (has_twin(p) || vdev_lacking(&p->v, 0) > 0); i++) {
		fiber_sleep(NSEC_PER_SEC / 10);
	}
	UNIT_CHECK(!has_twin(p));
	UNIT_CHECK(vdev_lacking(&p->v, 0) == 0);
}

/* Everything is there without any one drive but the new one. */
static void
check_new(struct pool *p)
{
	check_files(p);
	check_pool(p);
	kb_sim_vanish(rig.media[5]);
	check_files(p);
	fill_pool(p, 1, 900);
	sync_pool(p);
	give_back(p, 5);
	wait_single(p);
	check_pool(p);
}

static struct pool *
begin(uint32_t files)
{
	struct pool *p;
	int err;

	rig_open(&rig);
	p = make(&one_set);
	fill_pool(p, files, 1);
	sync_pool(p);
	err = replace(p, OLD, NEW);
	UNIT_CHECK(err == 0);
	return p;
}

/* The resilver stands still. */
static struct pool *
begin_paused(void)
{
	struct pool *p = begin(20);

	for (unsigned i = 0; i < 100 && pool_scan(p, POOL_SCAN_PAUSE) != 0; i++) {
		fiber_sleep(NSEC_PER_MSEC / 10);
	}
	return p;
}

static void
resume(struct pool *p)
{
	(void)!pool_scan(p, POOL_SCAN_RESUME);
}

/* ---- one after the other ---- */

static void
run_other_goes(void *arg)
{
	bool *bad = arg;
	struct pool *p = begin_paused();

	kb_sim_vanish(rig.media[4]);
	fill_pool(p, 3, 100);
	(void)!pool_sync(p);
	*bad = pool_is_suspended(p);
	if (*bad) {
		rt_sim_crash();
	}
	check_files(p);
	give_back(p, 4);
	resume(p);
	fiber_sleep(NSEC_PER_SEC);
	wait_single(p);
	check_new(p);
	close_pool(p);
	UNIT_CHECK(!has_label(OLD) && has_label(NEW));
	p = take_up();
	check_files(p);
	check_pool(p);
	close_pool(p);
	rig_close(&rig);
}

static bool
suffers(fiber_fn *fn, uint64_t seed)
{
	struct rt_options opt = sim_options(seed);
	bool bad = false;
	int err;

	rng = seed * 2 + 1;
	rig_make(&rig, 8, 128 * MIB);
	err = rt_run(&opt, fn, &bad);
	CU_ASSERT(err == 0 || bad);
	if (err != 0) {
		rig_power_cut(&rig, seed);
	}
	rig_unmake(&rig);
	return bad;
}

static void
test_other_goes(void)
{
	uint64_t seed = unit_seed(1);

	for (unsigned i = 0; i < 5; i++) {
		CU_ASSERT(!suffers(run_other_goes, seed + i));
	}
}

static void
run_cancel(void *arg UNUSED)
{
	struct pool *p = begin_paused();
	struct guid old = vdev_column(&p->v, 0, OLD)->guid, new;
	char why[200];
	int err;

	UNIT_CHECK(has_twin(p));
	new = vdev_twin(&p->v, 0, OLD)->guid;
	err = pool_drive_detach(p, &old, why, sizeof(why));
	UNIT_CHECK(err == -EBUSY && strstr(why, "being replaced") != NULL);
	rig_open(&rig);
	err = pool_drive_replace(p, &old, rig.drives[OLD], why, sizeof(why));
	UNIT_CHECK(err == -EBUSY && strstr(why, "on the way to replace it") != NULL);
	err = pool_drive_replace(p, &new, rig.drives[OLD], why, sizeof(why));
	UNIT_CHECK(err == -EBUSY);
	rig_close(&rig);
	err = pool_drive_detach(p, &new, why, sizeof(why));
	UNIT_CHECK(err == 0);
	UNIT_CHECK(!has_twin(p));
	fill_pool(p, 3, 100);
	sync_pool(p);
	check_pool(p);
	kb_sim_vanish(rig.media[4]);
	check_files(p);
	give_back(p, 4);
	fiber_sleep(NSEC_PER_SEC);
	wait_single(p);
	close_pool(p);
	UNIT_CHECK(has_label(OLD) && !has_label(NEW));
	p = take_up();
	UNIT_CHECK(p->v.feat_incompat == 0);
	check_files(p);
	check_pool(p);
	close_pool(p);
	rig_close(&rig);
}

static void
run_over_import(void *arg UNUSED)
{
	struct pool *p = begin_paused();

	fill_pool(p, 3, 100);
	close_pool(p);
	p = take_up();
	UNIT_CHECK(has_twin(p));
	fill_pool(p, 3, 200);
	resume(p);
	wait_single(p);
	check_new(p);
	close_pool(p);
	rig_close(&rig);
}

/* The old one goes: the new one is filled from the others, whether or not the old one returns. */
static void
run_old_goes(void *arg)
{
	const bool *returns = arg;
	struct pool *p = begin_paused();

	kb_sim_vanish(rig.media[OLD]);
	fill_pool(p, 3, 100);
	sync_pool(p);
	check_files(p);
	UNIT_CHECK(has_twin(p));
	if (*returns) {
		give_back(p, OLD);
		fill_pool(p, 3, 200);
	}
	resume(p);
	fiber_sleep(NSEC_PER_SEC);
	wait_single(p);
	check_new(p);
	kb_sim_return(rig.media[OLD]);
	close_pool(p);
	p = take_up();
	check_files(p);
	check_pool(p);
	close_pool(p);
	rig_close(&rig);
}

/* The new one goes: nobody is worse off; it returns, and has everything in the end. */
static void
run_new_goes(void *arg UNUSED)
{
	struct pool *p = begin_paused();
	struct pool_status st;
	int err;

	kb_sim_vanish(rig.media[NEW]);
	fill_pool(p, 3, 100);
	sync_pool(p);
	err = pool_get_status(p, &st);
	UNIT_CHECK(err == 0 && st.health == POOL_ONLINE && strstr(st.why, "replace") != NULL);
	pool_status_free(&st);
	kb_sim_vanish(rig.media[4]);
	fill_pool(p, 3, 200);
	sync_pool(p);
	check_files(p);
	give_back(p, 4);
	give_back(p, NEW);
	fill_pool(p, 3, 300);
	resume(p);
	fiber_sleep(NSEC_PER_SEC);
	wait_single(p);
	check_new(p);
	close_pool(p);
	rig_close(&rig);
}

/* A single drive: its log must move along. */
static void
run_single(void *arg UNUSED)
{
	struct pool *p;
	int err;

	rig_open(&rig);
	p = make(&single);
	fill_pool(p, 10, 1);
	sync_pool(p);
	err = replace(p, 0, 1);
	UNIT_CHECK(err == 0);
	fill_pool(p, 3, 100);
	wait_single(p);
	fill_pool(p, 3, 200);
	sync_pool(p);
	check_files(p);
	check_pool(p);
	UNIT_CHECK(p->v.drives[0].role == 0 || p->v.drives[1].role == 0);
	close_pool(p);
	UNIT_CHECK(!has_label(0) && has_label(1));
	p = take_up();
	check_files(p);
	check_pool(p);
	close_pool(p);
	rig_close(&rig);
}

static void
in_rig(fiber_fn *fn, void *arg, uint64_t seed)
{
	for (unsigned i = 0; i < 4; i++) {
		rng = (seed + i) * 2 + 1;
		rig_make(&rig, 8, 128 * MIB);
		in_sim(fn, arg, seed + i);
		rig_unmake(&rig);
	}
}

static void
test_cancel(void)
{
	in_rig(run_cancel, NULL, unit_seed(11));
}

static void
test_over_import(void)
{
	in_rig(run_over_import, NULL, unit_seed(21));
}

static void
test_old_goes(void)
{
	bool returns = false;

	in_rig(run_old_goes, &returns, unit_seed(31));
	returns = true;
	in_rig(run_old_goes, &returns, unit_seed(41));
}

static void
test_new_goes(void)
{
	in_rig(run_new_goes, NULL, unit_seed(51));
}

static void
test_single(void)
{
	in_rig(run_single, NULL, unit_seed(61));
}

/* ---- the power goes at some moment of it ---- */

static void
cutter(void *arg)
{
	const uint64_t *within_ns = arg;

	fiber_sleep(rnd(*within_ns));
	rt_sim_crash();
}

static void
replacer(void *arg)
{
	struct pool *p;
	int err;

	rig_open(&rig);
	p = make(&one_set);
	fill_pool(p, 6, 1);
	sync_pool(p);
	fiber_spawn_wait(0, FIBER_ADMIN, "test-cut", cutter, arg);
	err = replace(p, OLD, NEW);
	UNIT_CHECK(err == 0);
	for (;;) {
		(void)!pool_sync(p);
		fiber_sleep(NSEC_PER_MSEC);
	}
}

struct after {
	bool old, twin, done; /* out: what the import found */
};

static void
after_cut(void *arg)
{
	struct after *a = arg;
	struct pool *p;

	rig_open(&rig);
	p = take_up();
	a->twin = has_twin(p);
	a->done = strcmp(strrchr(vdev_column(&p->v, 0, OLD)->path, '/') + 1, "drive7") == 0;
	a->old = !a->twin && !a->done;
	check_files(p);
	fill_pool(p, 2, 100);
	wait_single(p);
	sync_pool(p);
	check_files(p);
	check_pool(p);
	kb_sim_vanish(rig.media[5]);
	check_files(p);
	give_back(p, 5);
	close_pool(p);
	rig_close(&rig);
}

static void
test_cuts(void)
{
	uint64_t seed = unit_seed(71), within = 30 * NSEC_PER_MSEC;
	unsigned old = 0, twin = 0, done = 0;

	for (unsigned i = 0; i < 60; i++) {
		struct rt_options opt = sim_options(seed + i);
		struct after a = {0};
		int err;

		rng = (seed + i) * 2 + 1;
		rig_make(&rig, 8, 128 * MIB);
		err = rt_run(&opt, replacer, &within);
		CU_ASSERT_EQUAL(err, -ERR_CRASHED);
		rig_power_cut(&rig, seed + i);
		in_sim(after_cut, &a, seed + i);
		old += a.old;
		twin += a.twin;
		done += a.done;
		rig_unmake(&rig);
	}
	printf("before it %u, in it %u, behind it %u ", old, twin, done);
	CU_ASSERT(old > 0 && twin > 0 && done > 0);
}

#ifdef AGATE_DEBUG
/* The new one lacks something: the first drive that goes afterwards shows it. */
static void
run_lacks(void *arg)
{
	bool *bad = arg;
	uint64_t problems = 0;
	struct pool *p = begin_paused();
	int err;

	fill_pool(p, 5, 100);
	sync_pool(p);
	resume(p);
	fiber_sleep(20 * NSEC_PER_SEC);
	err = pool_check(p, NULL, NULL, &problems);
	*bad = err != 0 || problems != 0 || has_twin(p);
	close_pool(p);
	rig_close(&rig);
}

static void
test_bugs_are_seen(void)
{
	CU_ASSERT(!suffers(run_lacks, 5));
	bug_set_deliberate("pool-replace-at-once");
	CU_ASSERT(suffers(run_other_goes, 5));
	bug_set_deliberate("raidz-twin-unwritten");
	CU_ASSERT(suffers(run_lacks, 5));
	bug_set_deliberate("pool-twin-clean");
	CU_ASSERT(suffers(run_lacks, 5));
	bug_set_deliberate(NULL);
}
#endif

int
main(int argc, char **argv)
{
	static const struct unit_test tests[] = {
	    {"other_goes", test_other_goes},
	    {"cancel", test_cancel},
	    {"over_import", test_over_import},
	    {"old_goes", test_old_goes},
	    {"new_goes", test_new_goes},
	    {"single", test_single},
	    {"cuts", test_cuts},
#ifdef AGATE_DEBUG
	    {"bugs_are_seen", test_bugs_are_seen},
#endif
	};

	return unit_main("pool_pair", tests, ARRAY_LEN(tests), argc, argv);
}
