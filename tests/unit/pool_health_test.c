/*
 * pool_health_test.c - drives that are ill: too many errors in a while fault or degrade them, and a
 * spare takes their place; few errors don't. One that is much slower than its siblings isn't read,
 * so that reads are as quick as before, all of them verified; after a while it is tried again.
 */
#include "pool/event.h"
#include "pool/health.h"
#include "tests/unit/pool_files.h"

#define FILES 60u
#define FILE_BYTES (1024u << 10)
#define ILL 3u /* the column that is */

static uint32_t reading; /* the next file to be read, none twice, since they stay in the cache */

static struct pool *
make_full_pool(uint32_t spares)
{
	struct pool_import_result result;
	struct pool_import_spec spec = {0};
	char why[160];
	struct pool *p;
	int err;

	rig_open(&rig);
	p = make_pool(&one_set, "tank");
	for (uint32_t i = 0; i < spares; i++) {
		err = pool_spare_add(p, rig.drives[7 + i], why, sizeof(why));
		UNIT_CHECK(err == 0);
	}
	for (uint32_t i = 0; i < FILES; i++) {
		err = write_file(p, FILE_BYTES, i + 1);
		UNIT_CHECK(err == 0);
		if (i % 8 == 7) {
			err = pool_sync(p);
			UNIT_CHECK(err == 0);
		}
	}
	err = pool_sync(p);
	UNIT_CHECK(err == 0);
	leave(p);
	err = take(&spec, NULL, &p, &result); /* with a cold cache */
	UNIT_CHECK(err == 0);
	reading = 0;
	return p;
}

static struct vdev_drive *
ill_drive(struct pool *p)
{
	return vdev_column(&p->v, 0, ILL);
}

static bool
has_event(struct pool *p, const char *name)
{
	static struct pool_event e[256];
	uint32_t n = pool_events_get(p, 0, e, 256);

	for (uint32_t i = 0; i < n; i++) {
		if (strcmp(e[i].name, name) == 0) {
			return true;
		}
	}
	return false;
}

/* ---- slow ---- */

/* Reads a block that isn't in the cache, verified against what was written. How long it took. */
static uint64_t
timed_read(struct pool *p, uint32_t file, uint32_t block)
{
	static struct pool_slice slices[POOL_READ_SLICES_MAX];
	uint8_t *data = malloc(FILE_BYTES);
	uint32_t count = 0, done = block * RECORD_BYTES;
	uint64_t begun = rt_now_ns();
	struct pool_obj *o;
	struct pool_ds *ds;
	int err = pool_ds_open(p, pool_name(p), &ds);

	ASSERT(err == 0);
	err = pool_obj_hold(ds, want.object[file], 0, &o);
	ASSERT(err == 0);
	begun = rt_now_ns();
	err = pool_read(o, done, RECORD_BYTES, slices, POOL_READ_SLICES_MAX, &count);
	begun = rt_now_ns() - begun;
	UNIT_CHECK(err == 0);
	fill(data, FILE_BYTES, want.seed[file]);
	for (uint32_t i = 0; err == 0 && i < count; i++) {
		bool same = memcmp(slices[i].buf->data + slices[i].off_bytes, data + done,
				slices[i].len_bytes) == 0;
		UNIT_CHECK(same);
		done += slices[i].len_bytes;
		iobuf_unref(slices[i].buf);
	}
	pool_obj_release(o);
	pool_ds_close(ds);
	free(data);
	return begun;
}

static int
by_size(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return x < y ? -1 : x > y;
}

/* The median of some reads, 20 ms apart: a file takes a sixth of a second. */
static uint64_t
median_read(struct pool *p, uint32_t files)
{
	static uint64_t took[FILES * FILE_BYTES / RECORD_BYTES];
	uint32_t n = 0;

	for (uint32_t i = 0; i < files; i++) {
		/* backwards: nothing is read ahead */
		for (uint32_t b = FILE_BYTES / RECORD_BYTES; b-- > 0;) {
			took[n++] = timed_read(p, reading, b);
			fiber_sleep(20 * NSEC_PER_MSEC);
		}
		reading++;
	}
	qsort(took, n, sizeof(took[0]), by_size);
	return took[n / 2];
}

static void
run_slow(void *arg)
{
	struct pool *p = make_full_pool(0);
	uint64_t normal, slow, after;
	struct pool_status st;
	uint64_t until;
	int err;

	(void)arg;
	normal = median_read(p, 10);
	UNIT_CHECK(ill_drive(p)->sit_until_ns == 0);
	kb_sim_set_faults(rig.media[ILL], &(struct kb_sim_faults){.latency_ns_min = NSEC_PER_MSEC,
					      .latency_ns_max = 10 * NSEC_PER_MSEC});
	slow = median_read(p, 2);
	(void)median_read(p, 16); /* that is three seconds */
	UNIT_CHECK(ill_drive(p)->sit_until_ns != 0);
	UNIT_CHECK(ill_drive(p)->sit_outs == 1);
	UNIT_CHECK(has_event(p, "drive.slow"));
	after = median_read(p, 10);
	printf("\n    a read took %llu us, with the slow drive %llu us, when it sat out %llu us ",
	    (unsigned long long)(normal / 1000), (unsigned long long)(slow / 1000),
	    (unsigned long long)(after / 1000));
	UNIT_CHECK(slow > normal * 10);
	UNIT_CHECK(after < normal * 2);
	err = pool_get_status(p, &st);
	UNIT_CHECK(err == 0);
	UNIT_CHECK(st.health == POOL_ONLINE);
	pool_status_free(&st);
	/* writes still go there */
	err = write_file(p, 200000, 99);
	UNIT_CHECK(err == 0);
	err = pool_sync(p);
	UNIT_CHECK(err == 0);
	check_pool(p);
	/* after its time it is tried again, and one comparison is enough */
	until = ill_drive(p)->sit_until_ns;
	fiber_sleep_until(until + 2 * NSEC_PER_SEC);
	UNIT_CHECK(ill_drive(p)->sit_until_ns == 0);
	UNIT_CHECK(has_event(p, "drive.read_again"));
	(void)median_read(p, 10);
	UNIT_CHECK(ill_drive(p)->sit_outs == 2);
	/* and when it has become well it stays */
	kb_sim_set_faults(rig.media[ILL], &(struct kb_sim_faults){0});
	until = ill_drive(p)->sit_until_ns;
	fiber_sleep_until(until + 2 * NSEC_PER_SEC);
	(void)median_read(p, 12);
	UNIT_CHECK(ill_drive(p)->sit_until_ns == 0);
	check_files(p);
	leave(p);
	rig_close(&rig);
}

/* No drive may sit out beside one that is missing; nor when it is switched off. */
static void
run_slow_alone(void *arg)
{
	struct pool *p = make_full_pool(0);
	struct pool_health_config off = POOL_HEALTH_DEFAULTS;

	(void)arg;
	kb_sim_set_faults(rig.media[ILL], &(struct kb_sim_faults){.latency_ns_min = NSEC_PER_MSEC,
					      .latency_ns_max = 10 * NSEC_PER_MSEC});
	off.sit_out_s = 0;
	pool_set_health(p, &off);
	(void)median_read(p, 20);
	UNIT_CHECK(ill_drive(p)->sit_outs == 0);
	pool_set_health(p, &POOL_HEALTH_DEFAULTS);
	kb_sim_vanish(rig.media[ILL + 1]);
	fiber_sleep(6 * NSEC_PER_SEC); /* that is noticed */
	(void)median_read(p, 20);
	UNIT_CHECK(ill_drive(p)->sit_outs == 0);
	kb_sim_set_faults(rig.media[ILL], &(struct kb_sim_faults){0});
	check_files(p);
	kb_sim_return(rig.media[ILL + 1]);
	leave(p);
	rig_close(&rig);
}

static void
in_rig(fiber_fn *fn, void *arg, uint32_t drives)
{
	uint64_t seed = unit_seed(1);

	rng = seed * 2 + 1;
	rig_make(&rig, drives, 256 * MIB);
	in_sim(fn, arg, seed);
	rig_unmake(&rig);
}

static void
test_slow(void)
{
	in_rig(run_slow, NULL, 7);
}

static void
test_slow_alone(void)
{
	in_rig(run_slow_alone, NULL, 7);
}

/* ---- thresholds ---- */

static void
arm(struct pool *p, struct kb_faults *f, const struct kb_fault_spec *spec)
{
	kb_faults_set(f, spec);
	kb_faults_attach(ill_drive(p)->kb, f, true);
}

/* A spare has taken the place, and is filled. */
static void
check_spare_used(struct pool *p, struct kb_drive *ill)
{
	for (uint32_t i = 0; i < 60 && ill_drive(p)->kb == ill; i++) {
		fiber_sleep(NSEC_PER_SEC);
	}
	UNIT_CHECK(ill_drive(p)->kb != ill);
	UNIT_CHECK(has_event(p, "spare.used"));
	for (uint32_t i = 0; i < rig.count; i++) {
		rig.drives[i] =
		    rig.drives[i] == ill ? NULL : rig.drives[i]; /* the pool closes it */
	}
	(void)wait_scan(p);
	UNIT_CHECK(ill_drive(p)->degraded == DRIVE_WELL);
	check_files(p);
	check_pool(p);
}

/* Too many errors in a short time. */
static void
run_ill(void *arg)
{
	const struct kb_fault_spec *spec = arg;
	struct pool *p = make_full_pool(1);
	struct kb_faults *f = kb_faults_create();
	struct kb_drive *ill = ill_drive(p)->kb;
	struct pool_status st;
	int err;

	ASSERT(f != NULL);
	if (spec->corrupt) {
		/* what was repaired is read back, and fails its write when that is a lie too */
		struct pool_health_config cfg = POOL_HEALTH_DEFAULTS;

		cfg.io.count = 0;
		pool_set_health(p, &cfg);
	}
	arm(p, f, spec);
	check_files(p);
	fiber_sleep(3 * NSEC_PER_SEC);
	UNIT_CHECK(has_event(p, "drive.errors"));
	err = pool_get_status(p, &st);
	UNIT_CHECK(err == 0);
	UNIT_CHECK(st.health == POOL_DEGRADED);
	pool_status_free(&st);
	if (spec->corrupt) {
		UNIT_CHECK(ill_drive(p)->state == DRIVE_STATE_ONLINE);
		UNIT_CHECK(ill_drive(p)->degraded == DRIVE_DEGRADED_CKSUM);
		UNIT_CHECK(has_event(p, "drive.degraded"));
	} else {
		UNIT_CHECK(ill_drive(p)->state == DRIVE_STATE_FAULTED);
		UNIT_CHECK(has_event(p, "drive.faulted"));
	}
	check_spare_used(p, ill);
	leave(p);
	kb_faults_put(f);
	rig_close(&rig);
}

static void
test_ill(void)
{
	struct kb_fault_spec errors = {.errors = 1u << KB_READ, .status = -ENODATA};
	struct kb_fault_spec lies = {.corrupt = true, .one_in = 2};

	in_rig(run_ill, &errors, 8);
	in_rig(run_ill, &lies, 8);
}

/* As many errors, but over a long time; and none that a clear has forgotten. */
static void
run_seldom(void *arg)
{
	struct pool *p = make_full_pool(1);
	struct kb_faults *f = kb_faults_create();
	struct kb_drive *ill = ill_drive(p)->kb;
	int err;

	(void)arg;
	ASSERT(f != NULL);
	for (uint32_t i = 0; i < 14; i++) {
		arm(p, f,
		    &(struct kb_fault_spec){.errors = 1u << KB_READ, .status = -EIO, .count = 1});
		(void)median_read(p, 2);
		fiber_sleep(100 * NSEC_PER_SEC);
	}
	UNIT_CHECK(ill_drive(p)->read_errors >= 10);
	UNIT_CHECK(ill_drive(p)->state == DRIVE_STATE_ONLINE && ill_drive(p)->kb == ill);
	for (uint32_t i = 0; i < 3; i++) {
		arm(p, f,
		    &(struct kb_fault_spec){.errors = 1u << KB_READ, .status = -EIO, .count = 5});
		(void)median_read(p, 4);
		fiber_sleep(2 * NSEC_PER_SEC);
		err = pool_drive_clear(p, NULL);
		UNIT_CHECK(err == 0);
		UNIT_CHECK(ill_drive(p)->read_errors == 0);
	}
	fiber_sleep(5 * NSEC_PER_SEC);
	UNIT_CHECK(ill_drive(p)->state == DRIVE_STATE_ONLINE && ill_drive(p)->kb == ill);
	leave(p);
	kb_faults_put(f);
	rig_close(&rig);
}

static void
test_seldom(void)
{
	in_rig(run_seldom, NULL, 8);
}

/* Slow answers, of one drive and of all. */
static void
run_slow_ios(void *arg)
{
	bool all = *(bool *)arg;
	struct pool *p = make_full_pool(1);
	struct kb_drive *ill = ill_drive(p)->kb;

	for (uint32_t c = 0; c < 7; c++) {
		if (all || c == ILL) {
			kb_sim_set_faults(rig.media[c],
			    &(struct kb_sim_faults){.latency_ns_min = 1100 * NSEC_PER_MSEC,
				.latency_ns_max = 1200 * NSEC_PER_MSEC});
		}
	}
	for (uint32_t i = 0; i < 30; i++) {
		int err = write_file(p, 20000, 100 + i);

		UNIT_CHECK(err == 0 || want.count >= FILES_MAX);
		err = pool_sync(p);
		UNIT_CHECK(err == 0);
		want.count = FILES;
	}
	UNIT_CHECK(!all || ill_drive(p)->slow_ios > 20);
	UNIT_CHECK(has_event(p, "drive.degraded") == !all);
	for (uint32_t c = 0; c < 7; c++) {
		kb_sim_set_faults(rig.media[c], &(struct kb_sim_faults){0});
	}
	if (!all) {
		check_spare_used(p, ill);
	}
	leave(p);
	rig_close(&rig);
}

static void
test_slow_ios(void)
{
	bool all = false;

	in_rig(run_slow_ios, &all, 8);
	all = true;
	in_rig(run_slow_ios, &all, 8);
}

/* ---- events ---- */

static void
run_burst(void *arg)
{
	static struct pool_event e[256];
	struct pool *p = make_full_pool(0);
	uint32_t n, kept = 0;

	(void)arg;
	for (uint32_t i = 0; i < 100; i++) {
		events_add(p->v.events, POOL_EVENT_INFO, "test.often", "number %u", i);
	}
	events_add(p->v.events, POOL_EVENT_INFO, "test.other", "once");
	n = pool_events_get(p, 0, e, 256);
	for (uint32_t i = 0; i < n; i++) {
		kept += strcmp(e[i].name, "test.often") == 0;
	}
	UNIT_CHECK(kept == 20);
	UNIT_CHECK(has_event(p, "test.other"));
	fiber_sleep(70 * NSEC_PER_SEC);
	events_add(p->v.events, POOL_EVENT_INFO, "test.often", "later");
	n = pool_events_get(p, 0, e, 256);
	UNIT_CHECK(strstr(e[n - 1].text, "80 more") != NULL);
	leave(p);
	rig_close(&rig);
}

static void
test_burst(void)
{
	in_rig(run_burst, NULL, 7);
}

int
main(int argc, char **argv)
{
	static const struct unit_test tests[] = {
	    {"slow reads", test_slow},
	    {"slow beside a missing one", test_slow_alone},
	    {"too many errors", test_ill},
	    {"few errors", test_seldom},
	    {"slow answers", test_slow_ios},
	    {"bursts of events", test_burst},
	};

	bug_set_deliberate(getenv("AGATE_BUGS"));
	return unit_main("pool_health", tests, ARRAY_LEN(tests), argc, argv);
}
