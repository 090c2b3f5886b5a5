/*
 * pool_scan_test.c - what scrub and resilver say of themselves, by a virtual clock: percent never
 * falls while one runs, over power cuts, export and import, a second failure and snapshots that
 * come and go; the time left is right.
 */
#include "tests/unit/pool_files.h"

#define DRIVES 9u
#define FILE_BYTES (4u << 20)
#define FILES 30u
#define SAMPLE_NS (100 * NSEC_PER_MSEC)
#define SAMPLES_MAX 4096u
#define LATENCY_NS (40 * NSEC_PER_MSEC)
#define CUTS 4u

static const struct shape two_parity = {7, 1, 0, 2, RAIDZ_KIND_PARITY};

/* Of the scan that is being watched. */
struct sample {
	uint64_t at_ns, left_s;
};
static struct {
	uint64_t started;
	enum scan_kind kind;
	uint32_t percent;
	bool fell;
	struct sample at[SAMPLES_MAX];
	uint32_t count;
} seen;

static void
slow_down(uint64_t latency_ns)
{
	struct kb_sim_faults f = {.latency_ns_min = latency_ns, .latency_ns_max = latency_ns};

	for (uint32_t i = 0; i < rig.count; i++) {
		kb_sim_set_faults(rig.media[i], &f);
	}
}

static struct pool *
make_full(void)
{
	struct pool *p;
	int err = 0;

	rig_open(&rig);
	p = make_pool(&two_parity, "tank");
	for (uint32_t i = 0; err == 0 && i < FILES; i++) {
		err = write_file(p, FILE_BYTES, i + 1);
	}
	err = err == 0 ? pool_sync(p) : err;
	UNIT_CHECK(err == 0);
	memset(&seen, 0, sizeof(seen));
	return p;
}

/* One look; false: it has ended. */
static bool
look(struct pool *p)
{
	struct pool_scan_status st;

	pool_get_scan(p, &st);
	if (seen.kind == st.kind && seen.started == st.started && st.percent < seen.percent) {
		printf("\n    %u %% after %u %%\n", st.percent, seen.percent);
		seen.fell = true;
	}
	seen.kind = st.kind;
	seen.started = st.started;
	seen.percent = st.percent;
	if (seen.count < SAMPLES_MAX) {
		seen.at[seen.count++] = (struct sample){rt_now_ns(), st.left_s};
	}
	return st.state == SCAN_RUNNING;
}

/* Until one of this kind runs. */
static void
await(struct pool *p, enum scan_kind kind)
{
	struct pool_scan_status st = {0};

	for (unsigned i = 0; i < 10000; i++) {
		pool_get_scan(p, &st);
		if (st.kind == kind && st.state == SCAN_RUNNING) {
			break;
		}
		fiber_sleep(NSEC_PER_MSEC);
	}
	UNIT_CHECK(st.kind == kind && st.state == SCAN_RUNNING);
	memset(&seen, 0, sizeof(seen));
}

static void
watch_to_end(struct pool *p)
{
	while (look(p)) {
		fiber_sleep(SAMPLE_NS);
	}
	UNIT_CHECK(seen.percent == 100);
	UNIT_CHECK(!seen.fell);
}

static void
watch_until(struct pool *p, uint32_t percent)
{
	while (look(p) && seen.percent < percent) {
		fiber_sleep(SAMPLE_NS);
	}
	UNIT_CHECK(!seen.fell);
}

/* ---- the time left ---- */

/* What was said when so much of the time was over, against what it took. */
static void
judge_left(unsigned quarter)
{
	uint64_t begin = seen.at[0].at_ns, end = seen.at[seen.count - 1].at_ns;
	uint64_t when = begin + (end - begin) * quarter / 4;
	uint32_t i = 0;

	while (seen.at[i].at_ns < when) {
		i++;
	}
	double left = (double)(end - seen.at[i].at_ns) / 1e9, said = (double)seen.at[i].left_s;
	/* half a second is what whole seconds round away */
	bool right = said < left * 1.2 + 0.5 && said > left * 0.8 - 0.5;

	if (!right || getenv("AGATE_LOUD") != NULL) {
		printf("\n    at %u %%: %.1f s left, said %.0f\n", quarter * 25, left, said);
	}
	UNIT_CHECK(right);
}

static void
judge_time(void)
{
	UNIT_CHECK(seen.count > 20 && seen.count < SAMPLES_MAX);
	for (unsigned quarter = 1; quarter <= 3; quarter++) {
		judge_left(quarter);
	}
}

static void
replace_third(struct pool *p)
{
	struct guid old = vdev_column(&p->v, 0, 3)->guid;
	char why[200];
	int err = pool_drive_replace(p, &old, rig.drives[7], why, sizeof(why));

	UNIT_CHECK(err == 0);
}

static void
run_time(void *arg UNUSED)
{
	struct pool *p = make_full();
	int err;

	slow_down(LATENCY_NS);
	err = pool_scan(p, POOL_SCAN_START);
	UNIT_CHECK(err == 0);
	await(p, SCAN_SCRUB);
	watch_to_end(p);
	judge_time();
	replace_third(p);
	await(p, SCAN_RESILVER);
	watch_to_end(p);
	rig.drives[3] = NULL; /* the pool has closed it */
	judge_time();
	slow_down(NSEC_PER_MSEC);
	check_files(p);
	leave(p);
	rig_close(&rig);
}

static void
test_time(void)
{
	rng = unit_seed(1) * 2 + 1;
	rig_make(&rig, DRIVES, 128 * MIB);
	in_sim(run_time, NULL, 1);
	rig_unmake(&rig);
}

/* ---- power cuts ---- */

/* One life: takes the pool up (makes it, in the first), looks for a while, and is cut short. In the
 * last ones a drive fails with the power. */
static void
run_cut(void *arg)
{
	struct pool_import_result result;
	struct pool_import_spec spec = {0};
	uint32_t life = *(const uint32_t *)arg;
	bool out[DRIVES] = {[0] = life >= 3};
	struct pool *p;

	if (life == 0) {
		p = make_full();
		slow_down(20 * NSEC_PER_MSEC);
		replace_third(p);
		await(p, SCAN_RESILVER);
	} else {
		rig_open(&rig);
		int err = take(&spec, out, &p, &result);

		UNIT_CHECK(err == 0);
	}
	if (life < CUTS) {
		uint64_t until = rt_now_ns() + 8 * NSEC_PER_SEC + rnd(4 * NSEC_PER_SEC);

		while (look(p) && rt_now_ns() < until) {
			fiber_sleep(SAMPLE_NS);
		}
		UNIT_CHECK(!seen.fell && seen.percent > life * 5 && seen.percent < 100);
		rt_sim_crash();
	}
	watch_to_end(p);
	(void)wait_scan(p);
	slow_down(NSEC_PER_MSEC);
	check_files(p);
	check_pool(p);
	leave(p);
	rig_close(&rig);
}

static void
test_cut(void)
{
	rng = unit_seed(3) * 2 + 1;
	rig_make(&rig, DRIVES, 128 * MIB);
	for (uint32_t life = 0; life <= CUTS; life++) {
		struct rt_options opt = sim_options(3 + life);
		int err = rt_run(&opt, run_cut, &life);

		CU_ASSERT_EQUAL(err, life < CUTS ? -ERR_CRASHED : 0);
		if (err == -ERR_CRASHED) {
			rig_power_cut(&rig, life + 1);
		}
	}
	rig_unmake(&rig);
}

/* ---- percent ---- */

static void
go_and_come(struct pool **p)
{
	struct pool_import_result result;
	struct pool_import_spec spec = {0};
	int err;

	leave(*p);
	err = take(&spec, NULL, p, &result);
	UNIT_CHECK(err == 0);
}

static void
churn(struct pool *p, uint32_t n)
{
	char name[64];
	const char *names[] = {name};
	uint32_t bad;
	int err;

	(void)snprintf(name, sizeof(name), "%s@s%u", pool_name(p), n);
	err = pool_snap_create(p, names, 1, &bad);
	UNIT_CHECK(err == 0);
	err = remove_file(p, 0);
	err = err == 0 ? write_file(p, FILE_BYTES, 1000 + n) : err;
	UNIT_CHECK(err == 0);
	(void)snprintf(name, sizeof(name), "%s@s%u", pool_name(p), n - n % 2);
	err = pool_snap_destroy(p, names, 1, &bad);
	UNIT_CHECK(err == 0 || n % 2 == 1);
}

static void
second_failure(struct pool *p, uint32_t drive)
{
	int err;

	kb_sim_vanish(rig.media[drive]);
	pool_drives_look(p);
	look(p);
	fiber_sleep(NSEC_PER_SEC);
	look(p);
	kb_sim_return(rig.media[drive]);
	err = kb_sim_open(rig.media[drive], &rig.drives[drive]);
	UNIT_CHECK(err == 0);
	err = pool_drive_return(p, rig.drives[drive]);
	UNIT_CHECK(err == 0);
	look(p);
}

/* Through all of it, from the beginning to the end of the scan that runs. */
static void
disturb(struct pool **p)
{
	watch_until(*p, 20);
	go_and_come(p);
	watch_until(*p, 30);
	for (uint32_t i = 0; i < 4; i++) {
		churn(*p, i);
		look(*p);
	}
	watch_until(*p, 45);
	second_failure(*p, 5);
	watch_until(*p, 60);
	go_and_come(p);
	watch_to_end(*p);
}

static void
run_percent(void *arg UNUSED)
{
	struct pool *p = make_full();
	struct guid old;
	char why[200];
	int err;

	slow_down(20 * NSEC_PER_MSEC);
	old = vdev_column(&p->v, 0, 3)->guid;
	err = pool_drive_replace(p, &old, rig.drives[7], why, sizeof(why));
	UNIT_CHECK(err == 0);
	await(p, SCAN_RESILVER);
	disturb(&p);
	(void)wait_scan(p);
	err = pool_scan(p, POOL_SCAN_START);
	UNIT_CHECK(err == 0);
	await(p, SCAN_SCRUB);
	watch_until(p, 20);
	go_and_come(&p);
	for (uint32_t i = 4; i < 8; i++) {
		churn(p, i);
		look(p);
	}
	watch_to_end(p);
	check_files(p);
	check_pool(p);
	leave(p);
	rig_close(&rig);
}

static void
test_percent(void)
{
	rng = unit_seed(2) * 2 + 1;
	rig_make(&rig, DRIVES, 128 * MIB);
	in_sim(run_percent, NULL, 2);
	rig_unmake(&rig);
}

int
main(int argc, char **argv)
{
	static const struct unit_test tests[] = {
	    {"the time left of scrub and resilver", test_time},
	    {"percent never falls", test_percent},
	    {"percent over power cuts", test_cut},
	};

	return unit_main("pool_scan", tests, ARRAY_LEN(tests), argc, argv);
}
