/*
 * pool_import_test.c - the life of a pool on simulated drives: create, write, export, import in any
 * order of drives, with missing, stale, damaged and returned ones; older roots; another host; a
 * lost log; power cuts at any write. After each import the contents are compared and pool_check
 * finds nothing.
 */
#include "tests/unit/pool_files.h"

/* ---- create, export, import ---- */

static void
run_life(void *arg)
{
	const struct shape *sh = arg;
	struct pool_import_result result;
	struct pool_import_spec spec = {0};
	struct pool *p;
	int err;

	rig_open(&rig);
	p = make_pool(sh, "tank");
	for (uint32_t i = 0; i < 10; i++) {
		err = write_file(p, 1000 + (uint32_t)rnd(300000), i + 1);
		UNIT_CHECK(err == 0);
	}
	err = pool_sync(p);
	UNIT_CHECK(err == 0);
	check_files(p);
	check_pool(p);
	leave(p);
	for (unsigned round = 0; round < 4; round++) {
		err = take(&spec, NULL, &p, &result);
		UNIT_CHECK(err == 0);
		UNIT_CHECK(result.missing_drives == 0 && result.roots_skipped == 0);
		if (err != 0) {
			printf("\n    import: %s\n", result.why);
			break;
		}
		check_files(p);
		check_pool(p);
		for (uint32_t i = 0; i < 4; i++) {
			err = rnd(2) == 0
				  ? remove_file(p, (uint32_t)rnd(want.count))
				  : write_file(p, 1000 + (uint32_t)rnd(300000), round * 100 + i);
			UNIT_CHECK(err == 0);
		}
		leave(p);
	}
	rig_close(&rig);
}

static void
test_life(void)
{
	static const struct shape shapes[] = {
	    {7, 1, 0, 1, RAIDZ_KIND_PARITY},
	    {7, 1, 2, 1, RAIDZ_KIND_PARITY},
	    {5, 2, 1, 2, RAIDZ_KIND_PARITY},
	    {2, 3, 0, 0, RAIDZ_KIND_MIRROR},
	    {1, 1, 0, 0, RAIDZ_KIND_MIRROR},
	};

	rng = unit_seed(1) * 2 + 1;
	for (uint32_t i = 0; i < ARRAY_LEN(shapes); i++) {
		struct shape sh = shapes[i];

		rig_make(&rig, sh.width * sh.sets + sh.logs, 128 * MIB);
		in_sim(run_life, &sh, i + 1);
		rig_unmake(&rig);
	}
}

/* ---- missing and stale drives ---- */

static void
run_missing(void *arg)
{
	uint32_t c = *(uint32_t *)arg;
	struct pool_import_result result;
	struct pool_import_spec spec = {0};
	struct pool_status st;
	struct pool *p;
	bool out[RIG_DRIVES_MAX] = {false};
	int err;

	rig_open(&rig);
	p = make_pool(&one_set, "tank");
	for (uint32_t i = 0; i < 8; i++) {
		err = write_file(p, 200000, i + 1);
		UNIT_CHECK(err == 0);
	}
	leave(p);
	/* one away: fine; what is written now it lacks */
	out[c] = true;
	err = take(&spec, out, &p, &result);
	UNIT_CHECK(err == 0);
	UNIT_CHECK(result.missing_drives == 1);
	check_files(p);
	err = write_file(p, 300000, 100 + c);
	UNIT_CHECK(err == 0);
	check_pool(p);
	leave(p);
	/* two away: refused, naming them */
	out[(c + 1) % 7] = true;
	err = take(&spec, out, &p, &result);
	UNIT_CHECK(err == -EIO);
	UNIT_CHECK(strstr(result.why, "lacks 2 of its 7 drives") != NULL);
	/* the first is back but stale, the other still away: it goes on, and says what can't be
	 * read */
	out[c] = false;
	err = take(&spec, out, &p, &result);
	UNIT_CHECK(err == 0);
	UNIT_CHECK(strstr(result.why, "1 more are stale") != NULL);
	leave(p);
	/* all back: everything can be read, and the ones that were away catch up */
	err = take(&spec, NULL, &p, &result);
	UNIT_CHECK(err == 0);
	check_files(p);
	(void)wait_scan(p);
	check_files(p);
	err = pool_get_status(p, &st);
	UNIT_CHECK(err == 0);
	UNIT_CHECK(st.health == POOL_ONLINE);
	for (uint32_t i = 0; i < 7; i++) {
		UNIT_CHECK(st.drives[i].present && !st.drives[i].stale);
	}
	pool_status_free(&st);
	leave(p);
	rig_close(&rig);
}

static void
test_missing(void)
{
	rng = unit_seed(2) * 2 + 1;
	for (uint32_t c = 0; c < 7; c++) {
		rig_make(&rig, 7, 128 * MIB);
		in_sim(run_missing, &c, 2 + c);
		rig_unmake(&rig);
	}
}

/* ---- does check find things? ---- */

struct damage {
	const char *bug;   /* or NULL: rot */
	uint64_t problems; /* out */
};

static void
count_problem(void *arg, const char *what)
{
	if (getenv("AGATE_LOUD") != NULL) {
		printf("\n    %s", what);
	}
	(*(uint64_t *)arg)++;
}

static void
run_check(void *arg)
{
	struct damage *d = arg;
	uint64_t count = 0, told = 0;
	struct pool *p;
	int err;

	rig_open(&rig);
	p = make_pool(&one_set, "tank");
	bug_set_deliberate(d->bug);
	for (uint32_t i = 0; i < 12; i++) {
		err = i % 3 == 2 ? remove_file(p, 0) : write_file(p, 200000, i + 1);
		UNIT_CHECK(err == 0);
		err = pool_sync(p);
		UNIT_CHECK(err == 0);
	}
	if (d->bug == NULL) {
		/* one whole column, data and parity: everything is rebuilt, and told */
		kb_sim_rot_range(rig.media[3], p->v.sets[0].cfg.base_bytes, 2 * MIB, 5);
	}
	err = pool_check(p, count_problem, &told, &count);
	UNIT_CHECK(err == 0);
	UNIT_CHECK(told == count);
	d->problems = count;
	bug_set_deliberate(NULL);
	if (d->bug == NULL) {
		/* and it has been repaired */
		check_pool(p);
		check_files(p);
	}
	/* what the bugs did to the pool may make the rest fail: it isn't needed */
	rt_sim_crash();
}

static void
test_check(void)
{
	static const char *const bugs[] = {
	    NULL,
#ifdef AGATE_DEBUG
	    "pool-alloc-unrecorded",
	    "pool-free-unrecorded",
#endif
	};

	rng = unit_seed(7) * 2 + 1;
	for (uint32_t i = 0; i < ARRAY_LEN(bugs); i++) {
		struct rt_options opt = sim_options(70 + i);
		struct damage d = {.bug = bugs[i]};

		rig_make(&rig, 7, 128 * MIB);
		CU_ASSERT_EQUAL(rt_run(&opt, run_check, &d), -ERR_CRASHED);
		CU_ASSERT(d.problems > 0);
		rig_power_cut(&rig, i);
		rig_unmake(&rig);
	}
}

/* ---- older roots ---- */

static void
run_rewind(void *arg UNUSED)
{
	struct pool_import_result result;
	struct pool_import_spec spec = {0};
	struct pool *p;
	bool out[RIG_DRIVES_MAX] = {false};
	uint32_t kept;
	uint64_t txg, timeline;
	int err;

	rig_open(&rig);
	p = make_pool(&one_set, "tank");
	err = write_file(p, 200000, 1);
	UNIT_CHECK(err == 0);
	err = pool_sync(p);
	UNIT_CHECK(err == 0);
	kept = want.count;
	err = write_file(p, 200000, 2);
	UNIT_CHECK(err == 0);
	txg = p->v.committed_txg;
	timeline = p->timeline;
	leave(p);
	/* far enough back that the second file isn't there; one drive stays away with the future */
	out[2] = true;
	err = take(&spec, NULL, &p, &result);
	UNIT_CHECK(err == 0);
	spec.rewind_txgs = (uint32_t)(p->v.committed_txg - txg);
	leave(p);
	err = take(&spec, out, &p, &result);
	UNIT_CHECK(err == 0);
	if (err != 0) {
		printf("\n    rewind: %s\n", result.why);
		rig_close(&rig);
		return;
	}
	UNIT_CHECK(p->timeline > timeline);
	want.count = kept;
	check_files(p);
	check_pool(p);
	err = write_file(p, 100000, 3);
	UNIT_CHECK(err == 0);
	timeline = p->timeline;
	leave(p);
	/* the one with the abandoned future is back: it doesn't win, and is stale */
	spec.rewind_txgs = 0;
	err = take(&spec, NULL, &p, &result);
	UNIT_CHECK(err == 0);
	UNIT_CHECK(p->timeline == timeline);
	UNIT_CHECK(vdev_column(&p->v, 0, 2)->dirty_from != 0);
	check_files(p);
	leave(p);
	rig_close(&rig);
}

/* The newest root's MOS block is gone on all drives: the one before it is taken, and says so. */
static void
run_fallback(void *arg)
{
	static struct uberblock ub_copy;
	unsigned spoil = *(unsigned *)arg;
	struct uber_key below;
	struct uberblock *ub = &ub_copy;
	struct pool *p;
	int err;

	rig_open(&rig);
	p = make_pool(&one_set, "tank");
	for (uint32_t i = 0; i < 4; i++) {
		err = write_file(p, 200000, i + 1);
		UNIT_CHECK(err == 0);
	}
	for (unsigned i = 0; i < 3; i++) {
		err = pool_sync(p);
		UNIT_CHECK(err == 0);
	}
	*ub = p->ub;
	below = (struct uber_key){le64_get(ub->timeline), le64_get(ub->txg)};
	for (unsigned n = 0; n < spoil; n++) {
		for (uint32_t i = 0; i < bp_copies(&ub->root); i++) {
			for (uint32_t c = 0; c < 7; c++) {
				uint64_t row = bp_addr_sector(&ub->root.addr[i]) / 7;

				kb_sim_rot_range(rig.media[c],
				    p->v.sets[0].cfg.base_bytes + row * SECTOR_BYTES,
				    2 * SECTOR_BYTES, 7);
			}
		}
		err = uber_find(&p->v, &below, ub);
		UNIT_CHECK(err == 0);
		below.txg = le64_get(ub->txg);
	}
	/* crash rather than export: forget the pool */
	rt_sim_crash();
}

static void
run_after_fallback(void *arg)
{
	unsigned spoil = *(unsigned *)arg;
	struct pool_import_result result;
	struct pool_import_spec spec = {0};
	struct pool *p;
	int err;

	rig_open(&rig);
	err = take(&spec, NULL, &p, &result);
	if (spoil > 2) {
		UNIT_CHECK(err == -ERR_CKSUM || err == -ERR_CORRUPT || err == -EIO);
		UNIT_CHECK(strstr(result.why, "can't be read") != NULL);
	} else {
		UNIT_CHECK(err == 0);
		UNIT_CHECK(result.roots_skipped == spoil);
		if (err == 0) {
			leave(p);
		}
	}
	rig_close(&rig);
}

static void
test_roots(void)
{
	rng = unit_seed(3) * 2 + 1;
	rig_make(&rig, 7, 128 * MIB);
	in_sim(run_rewind, NULL, 3);
	rig_unmake(&rig);
	for (unsigned spoil = 1; spoil <= 3; spoil++) {
		struct rt_options opt = sim_options(30 + spoil);

		rig_make(&rig, 7, 128 * MIB);
		CU_ASSERT_EQUAL(rt_run(&opt, run_fallback, &spoil), -ERR_CRASHED);
		rig_power_cut(&rig, spoil);
		in_sim(run_after_fallback, &spoil, 40 + spoil);
		rig_unmake(&rig);
	}
}

/* ---- other hosts, names, logs ---- */

static void
run_crash_now(void *arg)
{
	struct pool *p;
	int err;

	rig_open(&rig);
	p = make_pool(arg, "tank");
	err = write_file(p, 100000, 1);
	UNIT_CHECK(err == 0);
	err = pool_sync(p);
	UNIT_CHECK(err == 0);
	rt_sim_crash();
}

static void
run_other_host(void *arg UNUSED)
{
	struct pool_import_result result;
	struct pool_import_spec spec = {.host_name = "there", .host_id = 2, .new_name = "basin"};
	struct pool *p;
	uint64_t before;
	int err;

	rig_open(&rig);
	/* the last host crashed: nothing moves, so after a look it is taken */
	before = rt_now_ns();
	err = take(&spec, NULL, &p, &result);
	UNIT_CHECK(err == 0);
	UNIT_CHECK(rt_now_ns() - before >= 10 * NSEC_PER_SEC);
	UNIT_CHECK(strcmp(pool_name(p), "basin") == 0);
	check_files(p);
	leave(p);
	/* exported: no look is needed */
	before = rt_now_ns();
	spec.host_id = 3;
	spec.new_name = "1st";
	err = take(&spec, NULL, &p, &result);
	UNIT_CHECK(err == -EINVAL);
	spec.new_name = NULL;
	err = take(&spec, NULL, &p, &result);
	UNIT_CHECK(err == 0);
	UNIT_CHECK(rt_now_ns() - before < 10 * NSEC_PER_SEC);
	UNIT_CHECK(strcmp(pool_name(p), "basin") == 0);
	leave(p);
	rig_close(&rig);
}

/* Two lives in one process: the drives of one are opened a second time. */
static void
run_active(void *arg UNUSED)
{
	struct pool_import_result result;
	struct kb_drive *mine[7];
	struct pool_import_spec spec = {.host_name = "there", .host_id = 2};
	struct pool *p, *q;
	int err;

	rig_open(&rig);
	p = make_pool(&one_set, "tank");
	memcpy(mine, rig.drives, sizeof(mine));
	memset(rig.drives, 0, sizeof(rig.drives));
	rig_open(&rig);
	err = take(&spec, NULL, &q, &result);
	UNIT_CHECK(err == -ERR_ACTIVE);
	UNIT_CHECK(strstr(result.why, "in use by host here") != NULL);
	rig_close(&rig);
	memcpy(rig.drives, mine, sizeof(mine));
	leave(p);
	rig_close(&rig);
}

static void
run_lost_log(void *arg UNUSED)
{
	struct pool_import_result result;
	struct pool_import_spec spec = {0};
	struct pool *p;
	bool out[RIG_DRIVES_MAX] = {false};
	int err;

	rig_open(&rig);
	out[7] = out[8] = true;
	err = take(&spec, out, &p, &result);
	UNIT_CHECK(err == -ENODEV);
	UNIT_CHECK(strstr(result.why, "log drive") != NULL);
	out[7] = false;
	spec.readonly = true;
	err = take(&spec, out, &p, &result);
	UNIT_CHECK(err == 0);
	UNIT_CHECK(result.log_pending);
	check_files(p);
	leave(p);
	spec.readonly = false;
	out[7] = true;
	spec.missing_log = true;
	err = take(&spec, out, &p, &result);
	UNIT_CHECK(err == 0);
	check_files(p);
	check_pool(p);
	leave(p);
	/* exported cleanly: the log's absence loses nothing, and its return is welcome */
	spec.missing_log = false;
	err = take(&spec, out, &p, &result);
	UNIT_CHECK(err == 0);
	leave(p);
	err = take(&spec, NULL, &p, &result);
	UNIT_CHECK(err == 0);
	check_files(p);
	leave(p);
	rig_close(&rig);
}

static void
test_hosts_and_logs(void)
{
	struct rt_options opt = sim_options(50);

	rng = unit_seed(4) * 2 + 1;
	rig_make(&rig, 7, 128 * MIB);
	CU_ASSERT_EQUAL(rt_run(&opt, run_crash_now, (void *)(uintptr_t)&one_set), -ERR_CRASHED);
	rig_power_cut(&rig, 50);
	in_sim(run_other_host, NULL, 51);
	rig_unmake(&rig);
	rig_make(&rig, 7, 128 * MIB);
	in_sim(run_active, NULL, 52);
	rig_unmake(&rig);
	rig_make(&rig, 9, 128 * MIB);
	CU_ASSERT_EQUAL(rt_run(&opt, run_crash_now, (void *)(uintptr_t)&with_log), -ERR_CRASHED);
	rig_power_cut(&rig, 53);
	in_sim(run_lost_log, NULL, 54);
	rig_unmake(&rig);
}

/* ---- the smallest pool, and the appliance's ---- */

static void
run_small(void *arg UNUSED)
{
	struct pool_import_result result;
	struct pool_import_spec spec = {0};
	struct pool_status st;
	struct pool *p;
	int err = 0;
	uint64_t free_before;

	rig_open(&rig);
	p = make_pool(&one_set, "tiny");
	err = pool_get_status(p, &st);
	UNIT_CHECK(err == 0);
	free_before = st.usable_free_bytes;
	pool_status_free(&st);
	for (unsigned round = 0; round < 2; round++) {
		unsigned files = 0;

		err = 0;
		while (err == 0 && want.count < FILES_MAX) {
			err = write_file(p, 8u << 20, files++);
		}
		UNIT_CHECK(err == -ENOSPC);
		check_files(p);
		while (want.count > 0) {
			err = remove_file(p, 0);
			UNIT_CHECK(err == 0);
		}
		for (unsigned i = 0; i < 8; i++) {
			err = pool_sync(p);
			UNIT_CHECK(err == 0);
		}
		check_pool(p);
	}
	err = pool_get_status(p, &st);
	UNIT_CHECK(err == 0);
	/* all of it came back, but for the few blocks that an older pool's maps take */
	UNIT_CHECK(st.usable_free_bytes + 16 * MIB > free_before);
	pool_status_free(&st);
	leave(p);
	err = take(&spec, NULL, &p, &result);
	UNIT_CHECK(err == 0);
	check_pool(p);
	leave(p);
	rig_close(&rig);
}

/* What a create says it would give is what the pool has then. */
static void
run_plan_kept(void)
{
	struct pool_set_spec set = {RAIDZ_KIND_PARITY, 1, 7, rig.drives};
	struct pool_create_spec spec = {
	    .name = "tank", .sets = &set, .set_count = 1, .host_name = "here", .host_id = 1};
	struct pool_plan plan;
	struct pool_status st;
	struct pool *p;
	char why[256];
	int err = pool_plan_create(&spec, &plan, why, sizeof(why));

	ASSERT(err == 0);
	err = pool_create(&spec, &p, why, sizeof(why));
	ASSERT(err == 0);
	memset(rig.drives, 0, 7 * sizeof(rig.drives[0]));
	err = pool_get_status(p, &st);
	ASSERT(err == 0);
	UNIT_CHECK(st.usable_bytes == plan.usable_bytes && st.raw_bytes == plan.raw_bytes);
	pool_status_free(&st);
	err = pool_export(p);
	ASSERT(err == 0);
}

static void
run_plan(void *arg UNUSED)
{
	struct pool_set_spec set = {RAIDZ_KIND_PARITY, 1, 7, rig.drives};
	struct pool_create_spec spec = {.name = "tank", .sets = &set, .set_count = 1};
	struct pool_plan plan;
	char why[256];
	int err;

	rig_open(&rig);
	err = pool_plan_create(&spec, &plan, why, sizeof(why));
	UNIT_CHECK(err == 0);
	UNIT_CHECK(plan.small_record_percent == 200);
	UNIT_CHECK(plan.usable_bytes > 0 && plan.usable_bytes < plan.raw_bytes);
	set.width = 8;
	err = pool_plan_create(&spec, &plan, why, sizeof(why));
	UNIT_CHECK(err == -EINVAL);
	UNIT_CHECK(strstr(why, "needs at least 67108864 bytes (64 MiB)") != NULL);
	set.width = 2;
	err = pool_plan_create(&spec, &plan, why, sizeof(why));
	UNIT_CHECK(err == -EINVAL);
	set.width = 7;
	set.drives = rig.drives;
	spec.logs = rig.drives + 3;
	spec.log_count = 1;
	err = pool_plan_create(&spec, &plan, why, sizeof(why));
	UNIT_CHECK(err == -EINVAL);
	UNIT_CHECK(strstr(why, "twice") != NULL);
	spec.log_count = 0;
	spec.name = "-x";
	err = pool_plan_create(&spec, &plan, why, sizeof(why));
	UNIT_CHECK(err == -EINVAL);
	run_plan_kept();
	rig_close(&rig);
}

static void
run_appliance(void *arg UNUSED)
{
	static const char *const names[3] = {"apool", "bpool", "cpool"};
	static const struct shape three = {7, 3, 2, 1, RAIDZ_KIND_PARITY};
	struct pool *p[3];
	struct pool_rig all = rig;
	int err;

	rig_open(&all);
	for (unsigned i = 0; i < 3; i++) {
		memset(&rig, 0, sizeof(rig));
		memcpy(rig.drives, all.drives + i * 23, 23 * sizeof(rig.drives[0]));
		p[i] = make_pool(&three, names[i]);
		err = write_file(p[i], 1000000, i + 1);
		UNIT_CHECK(err == 0);
		check_files(p[i]);
		err = pool_sync(p[i]);
		UNIT_CHECK(err == 0);
		check_pool(p[i]);
	}
	for (unsigned i = 0; i < 3; i++) {
		err = pool_export(p[i]);
		UNIT_CHECK(err == 0);
	}
	for (unsigned i = 69; i < 72; i++) {
		kb_close(all.drives[i]);
	}
	rig = all;
	memset(rig.drives, 0, sizeof(rig.drives));
}

static void
test_sizes(void)
{
	rng = unit_seed(5) * 2 + 1;
	rig_make(&rig, 7, 64 * MIB);
	in_sim(run_small, NULL, 60);
	rig_unmake(&rig);
	rig_make(&rig, 8, 64 * MIB);
	kb_sim_medium_destroy(rig.media[7]);
	rig.media[7] = kb_sim_medium_create("small", 64 * MIB - SECTOR_BYTES);
	in_sim(run_plan, NULL, 61);
	rig_unmake(&rig);
	rig_make(&rig, 72, 64 * MIB);
	in_sim(run_appliance, NULL, 62);
	rig_unmake(&rig);
}

/* ---- power cuts ---- */

static void
run_cut(void *arg)
{
	uint64_t cut_after = *(uint64_t *)arg;
	struct pool *p;
	int err;

	rig_open(&rig);
	p = make_pool(&with_log, "tank");
	err = write_file(p, 150000, 1);
	UNIT_CHECK(err == 0);
	err = pool_sync(p);
	UNIT_CHECK(err == 0);
	kb_sim_crash_after_writes(cut_after);
	for (uint32_t i = 0; i < 6; i++) {
		uint32_t count = want.count;

		err = i == 4 ? remove_file(p, 0) : write_file(p, 50000, 10 + i);
		UNIT_CHECK(err == 0);
		/* only what was synced must be there; the first file's removal may or may not have
		 * landed */
		want.count = i >= 4 ? 0 : count;
		err = pool_sync(p);
		UNIT_CHECK(err == 0);
		want.count = i >= 4 ? 0 : count + 1;
	}
	kb_sim_crash_after_writes(0);
	leave(p);
	rig_close(&rig);
}

static void
run_after_cut(void *arg UNUSED)
{
	struct pool_import_result result;
	struct pool_import_spec spec = {0};
	struct pool *p;
	int err;

	rig_open(&rig);
	err = take(&spec, NULL, &p, &result);
	UNIT_CHECK(err == 0);
	if (err != 0) {
		printf("\n    import: %s\n", result.why);
		want.failed = true;
		rig_close(&rig);
		return;
	}
	check_files(p);
	check_pool(p);
	leave(p);
	rig_close(&rig);
}

static void
test_cuts(void)
{
	uint64_t seed = unit_seed(6);
	unsigned cuts = 0;

	rng = seed * 2 + 1;
	want.failed = false;
	for (uint64_t n = 1; n < 4000 && !want.failed; n += 1 + rnd(40)) {
		struct rt_options opt = sim_options(seed + n);
		int err;

		/* every other one with rare paths made common: gangs, early folding, small pieces
		 */
		bug_set_buggify(cuts % 2 == 0 ? 0 : 40);

		rig_make(&rig, 9, 128 * MIB);
		err = rt_run(&opt, run_cut, &n);
		kb_sim_crash_after_writes(0);
		if (err != -ERR_CRASHED) {
			rig_unmake(&rig);
			break;
		}
		cuts++;
		rig_power_cut(&rig, seed + n);
		in_sim(run_after_cut, NULL, seed + n);
		rig_unmake(&rig);
	}
	bug_set_buggify(0);
	printf("cuts %u ", cuts);
	CU_ASSERT(cuts > 5);
}

int
main(int argc, char **argv)
{
	static const struct unit_test tests[] = {
	    {"life", test_life},
	    {"missing", test_missing},
	    {"check", test_check},
	    {"roots", test_roots},
	    {"hosts_and_logs", test_hosts_and_logs},
	    {"sizes", test_sizes},
	    {"cuts", test_cuts},
	};

	return unit_main("pool_import", tests, ARRAY_LEN(tests), argc, argv);
}
