/*
 * pool_drive_test.c - drives that vanish and return while a pool is in use: one is survived and
 * comes back stale; two suspend the pool; when they return it goes on whole, or, when unflushed
 * blocks went with them, stays suspended until it is imported anew. Whatever was synced is there in
 * the end.
 */
#include "pool/space_int.h"
#include "pool/pool_log.h"
#include "tests/unit/pool_files.h"

/* As a hot-plug event would: the medium is back and is opened anew. */
static int
give_back(struct pool *p, uint32_t drive)
{
	int err;

	kb_sim_return(rig.media[drive]);
	err = kb_sim_open(rig.media[drive], &rig.drives[drive]);
	ASSERT(err == 0);
	err = pool_drive_return(p, rig.drives[drive]);
	if (err != 0) {
		printf("\n    return of drive %u: %s\n", drive, err_str(err));
	}
	return err;
}

/* leave, when a medium is still unplugged. */
static void
leave_with(struct pool *p, uint32_t drive)
{
	kb_sim_return(rig.media[drive]);
	leave(p);
}

static void
run_one(void *arg)
{
	uint32_t c = *(uint32_t *)arg;
	struct pool_import_result result;
	struct pool_import_spec spec = {0};
	struct pool_status st;
	struct kb_drive *stranger;
	struct pool *p;
	int err;

	rig_open(&rig);
	p = make_pool(&one_set, "tank");
	for (uint32_t i = 0; i < 4; i++) {
		err = write_file(p, 200000, i + 1);
		UNIT_CHECK(err == 0);
	}
	err = pool_drive_return(p, rig.drives[c]);
	UNIT_CHECK(err == -EBUSY);
	kb_sim_vanish(rig.media[c]);
	for (uint32_t i = 4; i < 8; i++) {
		err = write_file(p, 200000, i + 1);
		UNIT_CHECK(err == 0);
		err = pool_sync(p);
		UNIT_CHECK(err == 0);
	}
	check_files(p);
	err = pool_get_status(p, &st);
	UNIT_CHECK(err == 0);
	UNIT_CHECK(st.health == POOL_DEGRADED);
	pool_status_free(&st);
	err = kb_sim_open(rig.media[7], &stranger);
	UNIT_CHECK(err == 0);
	err = pool_drive_return(p, stranger);
	UNIT_CHECK(err == -ENOENT);
	kb_close(stranger);
	err = give_back(p, c);
	UNIT_CHECK(err == 0);
	err = write_file(p, 200000, 9);
	UNIT_CHECK(err == 0);
	err = pool_sync(p);
	UNIT_CHECK(err == 0);
	check_files(p);
	wait_scan(p);
	UNIT_CHECK(p->v.drives[c].dirty_from == 0);
	check_files(p);
	check_pool(p);
	/* it can stand in for any other now */
	kb_sim_vanish(rig.media[(c + 1) % 7]);
	check_files(p);
	err = write_file(p, 200000, 10);
	UNIT_CHECK(err == 0);
	err = pool_sync(p);
	UNIT_CHECK(err == 0);
	leave_with(p, (c + 1) % 7);
	err = take(&spec, NULL, &p, &result);
	UNIT_CHECK(err == 0);
	wait_scan(p);
	UNIT_CHECK(vdev_column(&p->v, 0, c)->dirty_from == 0);
	UNIT_CHECK(vdev_column(&p->v, 0, (c + 1) % 7)->dirty_from == 0);
	check_files(p);
	check_pool(p);
	leave(p);
	rig_close(&rig);
}

static void
test_one(void)
{
	rng = unit_seed(1) * 2 + 1;
	for (uint32_t c = 0; c < 7; c++) {
		rig_make(&rig, 8, 128 * MIB);
		in_sim(run_one, &c, c + 1);
		rig_unmake(&rig);
	}
}

/* ---- two at once ---- */

struct two {
	bool fresh;   /* just imported: no segment is loaded when the drives go */
	bool early;   /* the drives go before the first block is written */
	bool resumed; /* out */
	bool bad;     /* out: resumed, and something is wrong */
	struct pool *p;
};

static void
syncer(void *arg)
{
	struct two *t = arg;

	/* fails when the pool suspends meanwhile, whatever becomes of it */
	(void)!pool_sync(t->p);
	t->p = NULL;
}

static void
run_two(void *arg)
{
	struct two *t = arg;
	struct pool_import_result result;
	struct pool_import_spec spec = {0};
	uint32_t a = (uint32_t)rnd(7), b = (a + 1 + (uint32_t)rnd(6)) % 7, kept;
	struct pool *p;
	int err;

	rig_open(&rig);
	p = make_pool(&one_set, "tank");
	for (uint32_t i = 0; i < 4; i++) {
		err = write_file(p, 200000, i + 1);
		UNIT_CHECK(err == 0);
	}
	err = pool_sync(p);
	UNIT_CHECK(err == 0);
	if (t->fresh) {
		leave(p);
		err = take(&spec, NULL, &p, &result);
		UNIT_CHECK(err == 0);
	}
	kept = want.count;
	for (uint32_t i = 0; i < 8; i++) {
		err = write_file(p, 300000, 10 + i);
		UNIT_CHECK(err == 0);
	}
	if (t->early) {
		kb_sim_vanish(rig.media[a]);
		kb_sim_vanish(rig.media[b]);
	}
	t->p = p;
	fiber_spawn_wait(0, FIBER_ADMIN, "test-sync", syncer, t);
	fiber_sleep(rnd(3 * NSEC_PER_MSEC));
	if (!t->early) {
		kb_sim_vanish(rig.media[a]);
		fiber_sleep(rnd(2 * NSEC_PER_MSEC));
		kb_sim_vanish(rig.media[b]);
	}
	fiber_sleep(3 * NSEC_PER_SEC);
	if (t->p != NULL) {
		UNIT_CHECK(pool_is_suspended(p));
		err = write_file(p, 1000, 99);
		UNIT_CHECK(err == -ERR_SUSPENDED);
	}
	(void)give_back(p, a);
	(void)give_back(p, b);
	fiber_sleep(20 * NSEC_PER_SEC);
	t->resumed = !pool_is_suspended(p);
	if (t->resumed) {
		uint64_t problems = 0;

		/* nothing may be missing: of what was written before and of what waited */
		err = pool_check(p, problem, NULL, &problems);
		t->bad = err != 0 || problems != 0;
		if (!t->bad) {
			check_files(p);
			leave(p);
		}
	} else {
		/* the txg's blocks went with the drives: what was synced is still there */
		struct pool_status st;

		err = pool_get_status(p, &st);
		UNIT_CHECK(err == 0);
		UNIT_CHECK(st.reimport);
		pool_status_free(&st);
		want.count = kept;
		memset(rig.drives, 0, sizeof(rig.drives));
		err = pool_export(p);
		UNIT_CHECK(err == -ERR_SUSPENDED);
		while (t->p != NULL) {
			fiber_sleep(NSEC_PER_SEC);
		}
		rig_open(&rig);
		err = take(&spec, NULL, &p, &result);
		UNIT_CHECK(err == 0);
		check_files(p);
		check_pool(p);
		leave(p);
	}
	if (t->bad) {
		rt_sim_crash();
	}
	rig_close(&rig);
}

static unsigned
try_two(uint64_t seed, unsigned runs, unsigned *out_resumed)
{
	unsigned bad = 0;

	for (unsigned i = 0; i < runs; i++) {
		struct rt_options opt = sim_options(seed + i);
		struct two t = {.fresh = i % 2 != 0, .early = i % 4 == 3};
		int err;

		rng = (seed + i) * 0x9e3779b97f4a7c15ull + 1;
		rig_make(&rig, 7, 128 * MIB);
		err = rt_run(&opt, run_two, &t);
		CU_ASSERT(err == 0 || t.bad);
		bad += t.bad;
		*out_resumed += t.resumed;
		if (err != 0) {
			rig_power_cut(&rig, seed);
		}
		rig_unmake(&rig);
	}
	return bad;
}

static void
test_two(void)
{
	uint64_t seed = unit_seed(100);
	unsigned resumed = 0, bad = try_two(seed, 40, &resumed);

	printf("resumed %u of 40 ", resumed);
	CU_ASSERT_EQUAL(bad, 0);
	CU_ASSERT_EQUAL(resumed, 40);
}

#ifdef AGATE_DEBUG
static void
test_bugs_are_seen(void)
{
	unsigned resumed = 0;

	bug_set_deliberate(
	    "pool-resume-unverified,pool-return-trusted"); /* either alone makes up for the other */
	CU_ASSERT(try_two(100, 40, &resumed) > 0);
	bug_set_deliberate(NULL);
}
#endif

/* ---- given up ---- */

static void
watchdog(void *arg)
{
	const bool *ended = arg;

	fiber_sleep(60 * NSEC_PER_SEC);
	if (!*ended) {
		rt_sim_crash();
	}
}

/* Two drives go and don't return: the pool is closed all the same, and soon; when they are back an
 * import finds what was synced. */
static void
run_given_up(void *arg)
{
	bool *ended = arg;
	struct pool_import_result result;
	struct pool_import_spec spec = {0};
	uint32_t a = (uint32_t)rnd(7), b = (a + 1 + (uint32_t)rnd(6)) % 7, kept;
	struct pool *p;
	int err;

	rig_open(&rig);
	p = make_pool(&one_set, "tank");
	for (uint32_t i = 0; i < 4; i++) {
		err = write_file(p, 200000, i + 1);
		UNIT_CHECK(err == 0);
	}
	err = pool_sync(p);
	UNIT_CHECK(err == 0);
	kept = want.count;
	err = write_file(p, 300000, 10);
	UNIT_CHECK(err == 0);
	kb_sim_vanish(rig.media[a]);
	kb_sim_vanish(rig.media[b]);
	fiber_sleep(10 * NSEC_PER_SEC);
	UNIT_CHECK(pool_is_suspended(p));
	fiber_spawn_wait(0, FIBER_ADMIN, "test-watchdog", watchdog, ended);
	memset(rig.drives, 0, sizeof(rig.drives));
	err = pool_release(p);
	*ended = true;
	UNIT_CHECK(err == -ERR_SUSPENDED);
	kb_sim_return(rig.media[a]);
	kb_sim_return(rig.media[b]);
	rig_open(&rig);
	want.count = kept; /* nobody was told that the last one is safe */
	err = take(&spec, NULL, &p, &result);
	UNIT_CHECK(err == 0);
	check_files(p);
	check_pool(p);
	leave(p);
	rig_close(&rig);
	fiber_sleep(60 * NSEC_PER_SEC); /* the watchdog's end */
}

static bool
is_given_up(uint64_t seed)
{
	struct rt_options opt = sim_options(seed);
	bool ended = false;
	int err;

	rng = seed * 2 + 1;
	rig_make(&rig, 7, 128 * MIB);
	err = rt_run(&opt, run_given_up, &ended);
	CU_ASSERT(err == 0 || !ended);
	if (err != 0) {
		rig_power_cut(&rig, seed);
	}
	rig_unmake(&rig);
	return ended;
}

static void
test_given_up(void)
{
	uint64_t seed = unit_seed(200);

	for (unsigned i = 0; i < 10; i++) {
		CU_ASSERT(is_given_up(seed + i));
	}
#ifdef AGATE_DEBUG
	bug_set_deliberate("pool-closing-waits");
	CU_ASSERT(!is_given_up(seed));
	bug_set_deliberate(NULL);
#endif
}

/* ---- scrub, replace ---- */

static void
run_scrub(void *arg UNUSED)
{
	struct pool_import_result result;
	struct pool_import_spec spec = {0};
	struct pool_scan_status st;
	struct guid old;
	struct pool *p;
	char why[200];
	int err;

	rig_open(&rig);
	p = make_pool(&one_set, "tank");
	for (uint32_t i = 0; i < 20; i++) {
		err = write_file(p, 300000, i + 1);
		UNIT_CHECK(err == 0);
	}
	err = pool_sync(p);
	UNIT_CHECK(err == 0);
	UNIT_CHECK(pool_scan(p, POOL_SCAN_PAUSE) == -ENOENT);
	/* one drive lies from the first to the last sector: found, repaired, counted */
	kb_sim_rot_range(
	    rig.media[4], p->v.sets[0].cfg.base_bytes, p->v.sets[0].cfg.column_bytes, 9);
	err = pool_scan(p, POOL_SCAN_START);
	UNIT_CHECK(err == 0);
	st = wait_scan(p);
	UNIT_CHECK(st.kind == SCAN_SCRUB && st.repaired > 0 && st.errors == 0 && st.percent == 100);
	UNIT_CHECK(p->v.drives[4].cksum_errors > 0 && p->v.drives[4].repaired > 0);
	UNIT_CHECK(p->v.drives[3].cksum_errors == 0);
	check_pool(p);
	err = pool_scan(p, POOL_SCAN_START);
	UNIT_CHECK(err == 0);
	st = wait_scan(p);
	UNIT_CHECK(st.repaired == 0);
	/* paused, it is paused after an import too, and goes on */
	err = pool_scan(p, POOL_SCAN_START);
	UNIT_CHECK(err == 0);
	err = pool_scan(p, POOL_SCAN_PAUSE);
	UNIT_CHECK(err == 0);
	leave(p);
	err = take(&spec, NULL, &p, &result);
	UNIT_CHECK(err == 0);
	pool_get_scan(p, &st);
	UNIT_CHECK(st.kind == SCAN_SCRUB && st.state == SCAN_PAUSED);
	err = pool_scan(p, POOL_SCAN_RESUME);
	UNIT_CHECK(err == 0);
	(void)wait_scan(p);
	/* a new drive for column 2, then one that was out */
	old = vdev_column(&p->v, 0, 2)->guid;
	err = pool_drive_replace(p, &old, rig.drives[8], why, sizeof(why));
	UNIT_CHECK(err == -EINVAL);
	UNIT_CHECK(strstr(why, "smaller") != NULL);
	err = pool_drive_replace(p, &old, rig.drives[7], why, sizeof(why));
	UNIT_CHECK(err == 0);
	rig.drives[2] = NULL;
	err = pool_scan(p, POOL_SCAN_STOP);
	UNIT_CHECK(err == -EBUSY || err == -ENOENT);
	fiber_sleep(NSEC_PER_MSEC);
	(void)wait_scan(p);
	UNIT_CHECK(vdev_column(&p->v, 0, 2)->dirty_from == 0);
	check_files(p);
	check_pool(p);
	kb_sim_vanish(rig.media[5]);
	check_files(p);
	leave_with(p, 5);
	/* the old one is nobody's any more */
	err = take(&spec, NULL, &p, &result);
	UNIT_CHECK(err == 0);
	UNIT_CHECK(result.missing_drives == 0);
	UNIT_CHECK(vdev_column(&p->v, 0, 2)->kb == rig.drives[7]);
	wait_scan(p);
	check_files(p);
	check_pool(p);
	leave(p);
	rig_close(&rig);
}

static void
test_scrub(void)
{
	rng = unit_seed(4) * 2 + 1;
	rig_make(&rig, 9, 128 * MIB);
	kb_sim_medium_destroy(rig.media[8]);
	rig.media[8] = kb_sim_medium_create("small", 96 * MIB);
	in_sim(run_scrub, NULL, 4);
	rig_unmake(&rig);
}

/* ---- spares ---- */

static struct pool *
make_with_spare(const char *name, struct kb_drive **drives, struct kb_drive *spare)
{
	struct pool_set_spec set = {RAIDZ_KIND_PARITY, 1, 3, drives};
	struct pool_create_spec spec = {.name = name,
	    .sets = &set,
	    .set_count = 1,
	    .spares = &spare,
	    .spare_count = 1,
	    .host_name = "here",
	    .host_id = 1};
	char why[256] = "";
	struct pool *p = NULL;
	int err = pool_create(&spec, &p, why, sizeof(why));

	UNIT_CHECK(err == 0);
	want.count = 0;
	want.guid = pool_guid(p);
	return p;
}

static bool
took_spare(const struct pool *p)
{
	for (uint32_t i = 0; i < p->v.drive_count; i++) {
		if (p->v.drives[i].role == DRIVE_ROLE_SPARE) {
			return false;
		}
	}
	return true;
}

/* Two pools share a spare and lose a drive each at the same moment: one of them gets it, and is
 * whole again. */
static void
run_spares(void *arg)
{
	bool *hit = arg; /* out: the labels of the winner's new member */
	struct kb_drive *again;
	struct pool *p[2];
	unsigned winner;
	int err;

	rig_open(&rig);
	err = kb_sim_open(rig.media[6], &again);
	UNIT_CHECK(err == 0);
	p[0] = make_with_spare("one", rig.drives, rig.drives[6]);
	p[1] = make_with_spare("two", rig.drives + 3, again);
	err = write_file(p[1], 300000, 1);
	UNIT_CHECK(err == 0);
	kb_sim_vanish(rig.media[1]);
	kb_sim_vanish(rig.media[4]);
	for (unsigned i = 0; i < 2; i++) {
		err = pool_sync(p[i]);
		UNIT_CHECK(err == 0);
	}
	fiber_sleep(60 * NSEC_PER_SEC);
	UNIT_CHECK(took_spare(p[0]) != took_spare(p[1]));
	winner = took_spare(p[1]);
	(void)wait_scan(p[winner]);
	UNIT_CHECK(vdev_lacking(&p[winner]->v, 0) == 0);
	UNIT_CHECK(vdev_lacking(&p[!winner]->v, 0) == 1);
	check_files(p[1]);
	check_pool(p[winner]);
	/* the other one's configurations don't touch what is a member there */
	{
		struct pool_label_info info;

		for (unsigned i = 0; i < 2; i++) {
			mutex_lock(&p[!winner]->config_lock);
			err = log_membership_write(p[!winner]);
			mutex_unlock(&p[!winner]->config_lock);
			UNIT_CHECK(err == 0);
		}
		err = pool_label_probe(rig.drives[6], &info);
		*hit = *hit || err != 0 || info.role != DRIVE_ROLE_DATA;
	}
	for (unsigned i = 0; i < 2; i++) {
		err = pool_export(p[i]);
		UNIT_CHECK(err == 0);
	}
	memset(rig.drives, 0, sizeof(rig.drives));
}

/* Power cuts have left one label of a spare: it is written when others are whole again. */
static struct {
	uint64_t off[LABEL_COUNT];
	uint8_t first[SECTOR_BYTES]; /* label 0 as it was */
	uint8_t torn[LABEL_COUNT][SECTOR_BYTES];
	bool bare; /* out: for a moment no label was sure */
} spare_labels;

static bool
look_at_spare(void *arg)
{
	struct kb_sim_medium *m = arg;
	static uint8_t now[SECTOR_BYTES];
	unsigned torn = 0;

	for (unsigned k = 1; k < LABEL_COUNT; k++) {
		kb_sim_peek(m, spare_labels.off[k], now, sizeof(now));
		torn += memcmp(now, spare_labels.torn[k], sizeof(now)) == 0;
	}
	kb_sim_peek(m, spare_labels.off[0], now, sizeof(now));
	spare_labels.bare =
	    spare_labels.bare || (torn == 3 && memcmp(now, spare_labels.first, sizeof(now)) != 0);
	return false;
}

static void
run_spare_torn(void *arg UNUSED)
{
	struct pool *p;
	int err;

	rig_open(&rig);
	p = make_with_spare("one", rig.drives, rig.drives[3]);
	for (unsigned k = 0; k < LABEL_COUNT; k++) {
		uint8_t *to = k == 0 ? spare_labels.first : spare_labels.torn[k];

		spare_labels.off[k] = label_offset(kb_pool_bytes(kb_size(rig.drives[3])), k);
		if (k > 0) {
			kb_sim_rot_range(rig.media[3], spare_labels.off[k], SECTOR_BYTES, k);
		}
		kb_sim_peek(rig.media[3], spare_labels.off[k], to, SECTOR_BYTES);
	}
	kb_sim_vanish(rig.media[1]);
	err = pool_sync(p);
	UNIT_CHECK(err == 0);
	kb_sim_before_write(look_at_spare, rig.media[3]);
	fiber_sleep(60 * NSEC_PER_SEC);
	kb_sim_before_write(NULL, NULL);
	UNIT_CHECK(took_spare(p));
	UNIT_CHECK(!spare_labels.bare);
	kb_sim_return(rig.media[1]);
	leave(p);
	rig_close(&rig);
}

static void
test_spares(void)
{
	uint64_t seed = unit_seed(5);
	bool hit = false;

	for (unsigned i = 0; i < 8; i++) {
		rng = (seed + i) * 2 + 1;
		rig_make(&rig, 7, 128 * MIB);
		in_sim(run_spares, &hit, seed + i);
		rig_unmake(&rig);
	}
	CU_ASSERT(!hit);
#ifdef AGATE_DEBUG
	bug_set_deliberate("pool-labels-to-spares");
	rig_make(&rig, 7, 128 * MIB);
	in_sim(run_spares, &hit, seed);
	rig_unmake(&rig);
	bug_set_deliberate(NULL);
	CU_ASSERT(hit);
#endif
	rig_make(&rig, 4, 128 * MIB);
	in_sim(run_spare_torn, NULL, seed);
	rig_unmake(&rig);
}

/* ---- by the administrator ---- */

static void
run_offline(void *arg UNUSED)
{
	struct pool_import_result result;
	struct pool_import_spec spec = {0};
	struct guid one, two, none = {{1}};
	struct pool *p;
	int err;

	rig_open(&rig);
	p = make_pool(&one_set, "tank");
	one = p->v.drives[2].guid;
	two = p->v.drives[5].guid;
	UNIT_CHECK(pool_drive_offline(p, &none, false) == -ENOENT);
	err = pool_drive_offline(p, &one, false);
	UNIT_CHECK(err == 0);
	UNIT_CHECK(pool_drive_offline(p, &two, false) == -EBUSY);
	err = write_file(p, 300000, 1);
	UNIT_CHECK(err == 0);
	err = pool_sync(p);
	UNIT_CHECK(err == 0);
	leave(p);
	/* it stays out over an import */
	err = take(&spec, NULL, &p, &result);
	UNIT_CHECK(err == 0);
	UNIT_CHECK(vdev_column(&p->v, 0, 2)->state == DRIVE_STATE_OFFLINE);
	check_files(p);
	err = pool_drive_online(p, &one);
	UNIT_CHECK(err == 0);
	UNIT_CHECK(vdev_column(&p->v, 0, 2)->dirty_from != 0);
	/* stale ones count: the set can't do without another until it has caught up */
	UNIT_CHECK(pool_drive_offline(p, &two, false) == -EBUSY);
	err = pool_drive_offline(p, &one, false);
	UNIT_CHECK(err == 0);
	err = pool_drive_online(p, &one);
	UNIT_CHECK(err == 0);
	fiber_sleep(NSEC_PER_MSEC);
	wait_scan(p);
	err = pool_drive_offline(p, &two, false);
	UNIT_CHECK(err == 0);
	err = pool_drive_online(p, &two);
	UNIT_CHECK(err == 0);
	check_files(p);
	check_pool(p);
	leave(p);
	rig_close(&rig);
}

static void
test_offline(void)
{
	rng = unit_seed(3) * 2 + 1;
	rig_make(&rig, 7, 128 * MIB);
	in_sim(run_offline, NULL, 3);
	rig_unmake(&rig);
}

/* ---- sets more ---- */

/*
 * A set is added while the pool is in use; files go there; everything is there after an import, and
 * after a power cut at some moment of it: with the set, or as if it had never been added.
 */
static const struct shape two_parities = {6, 1, 0, 2, RAIDZ_KIND_PARITY};

static void
fill_pool(struct pool *p, uint32_t count, uint64_t seed)
{
	for (uint32_t i = 0; i < count; i++) {
		int err = write_file(p, 300000, seed + i);

		UNIT_CHECK(err == 0);
	}
}

static void
run_add(void *arg UNUSED)
{
	struct pool_set_spec set = {RAIDZ_KIND_PARITY, 2, 6, rig.drives + 6};
	struct pool_add_spec spec = {.sets = &set, .set_count = 1, .dry_run = true};
	struct pool_import_result result;
	struct pool_import_spec import = {0};
	struct pool_status before, after;
	struct pool_plan plan;
	struct pool *p;
	char why[200];
	int err;

	rig_open(&rig);
	p = make_pool(&two_parities, "tank");
	fill_pool(p, 8, 1);
	err = pool_get_status(p, &before);
	UNIT_CHECK(err == 0);
	err = pool_add(p, &spec, &plan, why, sizeof(why));
	UNIT_CHECK(err == 0 && plan.tolerates == 2 && plan.raw_bytes > 0);
	spec.dry_run = false;
	set.width = 5;
	err = pool_add(p, &spec, &plan, why, sizeof(why));
	UNIT_CHECK(err == -EINVAL && strstr(why, "differs") != NULL);
	set.width = 6;
	err = pool_scan(p, POOL_SCAN_START); /* it sees the new set's segments, too */
	UNIT_CHECK(err == 0);
	err = pool_add(p, &spec, &plan, why, sizeof(why));
	UNIT_CHECK(err == 0);
	err = pool_get_status(p, &after);
	UNIT_CHECK(err == 0);
	UNIT_CHECK(after.raw_bytes == before.raw_bytes + plan.raw_bytes);
	pool_status_free(&before);
	pool_status_free(&after);
	fill_pool(p, 30, 100);
	err = pool_sync(p);
	UNIT_CHECK(err == 0);
	UNIT_CHECK(p->space->set_count == 2 && p->space->sets[1].used > 0);
	check_files(p);
	(void)wait_scan(p);
	check_pool(p);
	leave(p);
	err = take(&import, NULL, &p, &result);
	UNIT_CHECK(err == 0);
	check_files(p);
	check_pool(p);
	/* the new set loses two drives like the old one */
	kb_sim_vanish(rig.media[7]);
	kb_sim_vanish(rig.media[10]);
	fill_pool(p, 4, 200);
	err = pool_sync(p);
	UNIT_CHECK(err == 0);
	check_files(p);
	kb_sim_return(rig.media[7]);
	leave_with(p, 10);
	rig_close(&rig);
}

struct starved {
	uint64_t at; /* the allocation that fails */
	bool failed; /* out */
};

/* Two sets at once, and memory runs out at some point of it: both join or none. */
static void
run_add_starved(void *arg)
{
	struct starved *st = arg;
	struct pool_set_spec sets[2] = {
	    {RAIDZ_KIND_PARITY, 2, 6, rig.drives + 6}, {RAIDZ_KIND_PARITY, 2, 6, rig.drives + 12}};
	struct pool_add_spec spec = {.sets = sets, .set_count = 2};
	struct pool_plan plan;
	struct pool *p;
	char why[200];
	int err;

	rig_open(&rig);
	p = make_pool(&two_parities, "tank");
	mem_fail_at(st->at, false);
	err = pool_add(p, &spec, &plan, why, sizeof(why));
	mem_fail_at(0, false);
	st->failed = err != 0;
	UNIT_CHECK(p->v.set_count == (err == 0 ? 3u : 1u));
	UNIT_CHECK(p->v.drive_count == (err == 0 ? 18u : 6u));
	if (p->v.set_count != 2) {
		fill_pool(p, 3, 1);
		check_pool(p);
		leave(p);
		rig_close(&rig);
	} else {
		rt_sim_crash(); /* whose the drives are is anybody's guess */
	}
}

/* How many allocations in a row there are that the add can't do without. */
static unsigned
add_starved(uint64_t seed)
{
	struct starved st = {.failed = true};

	while (st.failed && st.at < 30) {
		st.at++;
		rng = seed * 2 + 1;
		rig_make(&rig, 18, 128 * MIB);
		in_sim(run_add_starved, &st, seed);
		rig_unmake(&rig);
	}
	return (unsigned)st.at - 1;
}

static void
cutter(void *arg UNUSED)
{
	fiber_sleep(rnd(12 * NSEC_PER_MSEC));
	rt_sim_crash();
}

static void
adder(void *arg UNUSED)
{
	struct pool_set_spec set = {RAIDZ_KIND_PARITY, 2, 6, rig.drives + 6};
	struct pool_add_spec spec = {.sets = &set, .set_count = 1};
	struct pool_plan plan;
	struct pool *p;
	char why[200];
	int err;

	rig_open(&rig);
	p = make_pool(&two_parities, "tank");
	fill_pool(p, 8, 1);
	err = pool_sync(p);
	UNIT_CHECK(err == 0);
	/* a few milliseconds into what follows */
	fiber_spawn_wait(0, FIBER_ADMIN, "test-cut", cutter, NULL);
	err = pool_add(p, &spec, &plan, why, sizeof(why));
	UNIT_CHECK(err == 0);
	for (uint32_t i = 0;; i++) {
		/* whether the cut takes them doesn't matter */
		(void)!pool_sync(p);
		fiber_sleep(NSEC_PER_MSEC);
	}
}

static void
after_cut(void *arg)
{
	bool *with = arg;
	struct pool_import_result result;
	struct pool_import_spec import = {0};
	struct pool *p;
	int err;

	rig_open(&rig);
	err = take(&import, NULL, &p, &result);
	UNIT_CHECK(err == 0);
	if (err != 0) {
		printf("\n    import: %s (%s)\n", err_str(err), result.why);
		return;
	}
	*with = p->v.set_count == 2;
	check_files(p);
	err = pool_sync(p);
	UNIT_CHECK(err == 0);
	UNIT_CHECK(p->space->set_count == p->v.set_count);
	fill_pool(p, 20, 100);
	err = pool_sync(p);
	UNIT_CHECK(err == 0);
	check_files(p);
	check_pool(p);
	leave(p);
	rig_close(&rig);
}

static void
test_add(void)
{
	uint64_t seed = unit_seed(7);
	unsigned with = 0, cuts = 40;

	rng = seed * 2 + 1;
	rig_make(&rig, 12, 128 * MIB);
	in_sim(run_add, NULL, seed);
	rig_unmake(&rig);
	for (unsigned i = 0; i < cuts; i++) {
		struct rt_options opt = sim_options(seed + i);
		bool has = false;
		int err;

		rng = (seed + i) * 2 + 1;
		rig_make(&rig, 12, 128 * MIB);
		err = rt_run(&opt, adder, NULL);
		CU_ASSERT_EQUAL(err, -ERR_CRASHED);
		rig_power_cut(&rig, seed + i);
		in_sim(after_cut, &has, seed + i);
		with += has;
		rig_unmake(&rig);
	}
	CU_ASSERT(add_starved(seed) >= 3);
	printf("%u of %u cuts with the set ", with, cuts);
	CU_ASSERT(with > 0 && with < cuts);
}

/* A drive that hangs is out; it isn't taken back while it may still do what it was told. */
static void
run_late(void *arg UNUSED)
{
	struct kb_sim_faults hang = {.hang = 1000000}, none = {0};
	struct pool_status st;
	struct pool *p;
	int err;

	rig_open(&rig);
	p = make_pool(&one_set, "tank");
	err = write_file(p, 200000, 1);
	UNIT_CHECK(err == 0);
	kb_sim_set_faults(rig.media[2], &hang);
	err = write_file(p, 200000, 2);
	UNIT_CHECK(err == 0);
	err = pool_sync(p);
	UNIT_CHECK(err == 0);
	kb_sim_set_faults(rig.media[2], &none);
	UNIT_CHECK(kb_late_writes(p->v.drives[2].kb) > 0);
	err = pool_drive_clear(p, NULL);
	UNIT_CHECK(err == -EAGAIN);
	err = pool_get_status(p, &st);
	UNIT_CHECK(err == 0 && st.drives[2].state == DRIVE_STATE_FAULTED);
	pool_status_free(&st);
	kb_sim_unhang(rig.media[2]);
	fiber_sleep(NSEC_PER_SEC);
	err = pool_drive_clear(p, NULL);
	UNIT_CHECK(err == 0);
	(void)wait_scan(p);
	check_files(p);
	leave(p);
	rig_close(&rig);
}

static void
test_late(void)
{
	rng = unit_seed(8) * 2 + 1;
	rig_make(&rig, 8, 128 * MIB);
	bug_set_deliberate(getenv("AGATE_BUGS"));
	in_sim(run_late, NULL, 8);
	bug_set_deliberate(NULL);
	rig_unmake(&rig);
}

int
main(int argc, char **argv)
{
	static const struct unit_test tests[] = {
	    {"one", test_one},
	    {"two", test_two},
	    {"given_up", test_given_up},
	    {"offline", test_offline},
	    {"scrub", test_scrub},
	    {"spares", test_spares},
	    {"add", test_add},
	    {"late", test_late},
#ifdef AGATE_DEBUG
	    {"bugs_are_seen", test_bugs_are_seen},
#endif
	};

	return unit_main("pool_drive", tests, ARRAY_LEN(tests), argc, argv);
}
