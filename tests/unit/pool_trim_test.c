/*
 * pool_trim_test.c - discard: drives that answer with junk for what was discarded. Whatever is
 * live, of any root that one may go back to, of a snapshot, or allocated at that moment, stays as
 * it is; what is free for long goes, once; pause, cancel, an import in the middle; drives that
 * don't know how, or don't answer.
 */
#include "tests/unit/pool_files.h"

#define MANY 40u

static uint64_t
discards(void)
{
	uint64_t n = 0;

	for (uint32_t i = 0; i < rig.count; i++) {
		struct kb_counters c;

		if (rig.drives[i] != NULL) {
			kb_get_counters(rig.drives[i], &c);
			n += c.discards;
		}
	}
	return n;
}

static void
write_many(struct pool *p, uint32_t count, uint64_t seed)
{
	for (uint32_t i = 0; i < count; i++) {
		int err = write_file(p, 50000 + (uint32_t)rnd(500000), seed + i);

		UNIT_CHECK(err == 0);
	}
}

static void
sync_often(struct pool *p, uint32_t count)
{
	for (uint32_t i = 0; i < count; i++) {
		int err = pool_sync(p);

		UNIT_CHECK(err == 0);
	}
}

static struct pool_trim_status
wait_trim(struct pool *p)
{
	struct pool_trim_status st;

	for (unsigned i = 0; i < 6000; i++) {
		pool_get_trim(p, &st);
		if (st.state != TRIM_RUNNING) {
			return st;
		}
		fiber_sleep(NSEC_PER_SEC / 10);
	}
	UNIT_CHECK(!"the trim doesn't end");
	return st;
}

/* ---- by command ---- */

static void
run_command(void *arg)
{
	const struct shape *sh = arg;
	struct pool_import_result result;
	struct pool_import_spec spec = {0};
	struct pool_trim_status st;
	struct pool *p;
	uint64_t before;
	int err;

	rig_open(&rig);
	p = make_pool(sh, "tank");
	write_many(p, MANY, 1);
	sync_often(p, 3);
	for (uint32_t i = 0; i < MANY / 2; i++) {
		err = remove_file(p, (uint32_t)rnd(want.count));
		UNIT_CHECK(err == 0);
	}
	sync_often(p, 70);
	before = discards();
	err = pool_trim(p, POOL_TRIM_PAUSE, NULL, 0);
	UNIT_CHECK(err == -ENOENT);
	err = pool_trim(p, POOL_TRIM_START, NULL, 0);
	UNIT_CHECK(err == 0);
	err = pool_trim(p, POOL_TRIM_START, NULL, 0);
	UNIT_CHECK(err == -EBUSY);
	write_many(p, 4, 100); /* beside it */
	st = wait_trim(p);
	UNIT_CHECK(st.state == TRIM_DONE && st.percent == 100);
	UNIT_CHECK(st.trimmed_bytes > 20 * MIB);
	UNIT_CHECK(discards() > before);
	check_files(p);
	check_pool(p);
	write_many(p, 10, 200); /* into what was discarded */
	sync_often(p, 3);
	check_files(p);
	leave(p);
	err = take(&spec, NULL, &p, &result);
	UNIT_CHECK(err == 0);
	fiber_sleep(6 * NSEC_PER_SEC);
	pool_get_trim(p, &st);
	UNIT_CHECK(st.state == TRIM_DONE);
	check_files(p);
	check_pool(p);
	leave(p);
	rig_close(&rig);
}

static void
in_rig(fiber_fn *fn, void *arg, uint32_t drives, uint64_t seed)
{
	rng = seed * 2 + 1;
	rig_make(&rig, drives, 256 * MIB);
	in_sim(fn, arg, seed);
	rig_unmake(&rig);
}

static void
test_command(void)
{
	static const struct shape shapes[] = {{7, 1, 0, 1, RAIDZ_KIND_PARITY},
	    {5, 1, 0, 2, RAIDZ_KIND_PARITY}, {2, 2, 0, 0, RAIDZ_KIND_MIRROR},
	    {1, 1, 0, 0, RAIDZ_KIND_MIRROR}};
	uint64_t seed = unit_seed(1);

	for (size_t i = 0; i < ARRAY_LEN(shapes); i++) {
		struct shape sh = shapes[i];

		in_rig(run_command, &sh, 7, seed + i);
	}
}

/* ---- older roots ---- */

#define PLACES_MAX 8192u

/* The first sector of every block in use, and what was in it. */
static struct {
	uint64_t sector;
	uint8_t was[64];
} place[PLACES_MAX];
static uint32_t places;

static void
place_look(struct pool *p, uint64_t sector, uint8_t out[64])
{
	static uint8_t page[SECTOR_BYTES];
	uint32_t width = p->v.sets[0].cfg.width, i;
	struct kb_drive *kb = vdev_column(&p->v, 0, (uint32_t)(sector % width))->kb;

	for (i = 0; rig.drives[i] != kb; i++) {
		ASSERT(i < rig.count);
	}
	kb_sim_peek(rig.media[i], p->v.sets[0].cfg.base_bytes + sector / width * SECTOR_BYTES, page,
	    SECTOR_BYTES);
	memcpy(out, page, 64);
}

static int
place_add(void *arg, const struct map_record *r)
{
	if (places < PLACES_MAX) {
		place[places].sector = le64_get(r->sector);
		place_look(arg, place[places].sector, place[places].was);
		places++;
	}
	return 0;
}

static uint32_t
places_changed(struct pool *p)
{
	uint8_t now[64];
	uint32_t n = 0;

	for (uint32_t i = 0; i < places; i++) {
		place_look(p, place[i].sector, now);
		n += memcmp(now, place[i].was, sizeof(now)) != 0;
	}
	return n;
}

/* What was freed less than 64 txgs ago is on the drives as it was, but for what has been written
 * there since. Later it goes. */
static void
run_fresh(void *arg)
{
	struct pool_trim_status st;
	uint32_t changed, later;
	struct pool *p;
	int err;

	(void)arg;
	rig_open(&rig);
	p = make_pool(&one_set, "tank");
	write_many(p, MANY, 1);
	sync_often(p, 70);
	places = 0;
	err = space_each_block(p->space, place_add, p);
	UNIT_CHECK(err == 0);
	while (want.count > 0) {
		err = remove_file(p, 0);
		UNIT_CHECK(err == 0);
	}
	sync_often(p, 40);
	err = pool_trim(p, POOL_TRIM_START, NULL, 0);
	UNIT_CHECK(err == 0);
	st = wait_trim(p);
	changed = places_changed(p);
	UNIT_CHECK(st.fresh_bytes > 5 * MIB);
	sync_often(p, 70);
	for (uint32_t i = 0; i < 4; i++) {
		err = pool_trim(
		    p, POOL_TRIM_START, NULL, 0); /* drives may ignore it, but not each time */
		UNIT_CHECK(err == 0);
		(void)wait_trim(p);
	}
	later = places_changed(p);
	printf("\n    of %u blocks %u changed before, %u after 64 txgs ", places, changed, later);
	UNIT_CHECK(later > places / 8 && changed < later / 8);
	check_pool(p);
	leave(p);
	rig_close(&rig);
}

static void
test_fresh(void)
{
	in_rig(run_fresh, NULL, 7, unit_seed(10));
}

/* ---- by itself, beside all else ---- */

static void
run_automatic(void *arg)
{
	struct pool_import_result result;
	struct pool_import_spec spec = {0};
	struct pool_trim_status st;
	struct pool *p;
	int err;

	(void)arg;
	rig_open(&rig);
	p = make_pool(&one_set, "tank");
	pool_set_autotrim(p, true, 0);
	for (uint32_t round = 0; round < 60; round++) {
		while (want.count > 30) {
			err = remove_file(p, (uint32_t)rnd(want.count));
			UNIT_CHECK(err == 0);
		}
		write_many(p, 12, round * 100 + 1);
		err = pool_sync(p);
		UNIT_CHECK(err == 0);
		fiber_sleep(2 * NSEC_PER_SEC);
		if (round % 20 == 19) {
			check_files(p);
		}
	}
	sync_often(p, 80);
	fiber_sleep(30 * NSEC_PER_SEC);
	pool_get_trim(p, &st);
	printf("\n    %llu MiB by itself ", (unsigned long long)(st.auto_bytes / MIB));
	UNIT_CHECK(st.auto_bytes > 10 * MIB);
	check_files(p);
	check_pool(p);
	leave(p);
	err = take(&spec, NULL, &p, &result);
	UNIT_CHECK(err == 0);
	check_files(p);
	check_pool(p);
	leave(p);
	rig_close(&rig);
}

static void
test_automatic(void)
{
	uint64_t seed = unit_seed(20);

	for (uint64_t i = 0; i < 3; i++) {
		in_rig(run_automatic, NULL, 7, seed + i);
	}
}

/* ---- pause, cancel, an import in the middle, one drive, a rate ---- */

static void
run_steps(void *arg)
{
	struct pool_import_result result;
	struct pool_import_spec spec = {0};
	struct pool_trim_status st;
	struct guid one, none = {{7}};
	struct kb_counters c;
	struct pool *p;
	uint64_t began;
	int err;

	(void)arg;
	rig_open(&rig);
	p = make_pool(&one_set, "tank");
	write_many(p, 10, 1);
	sync_often(p, 70);
	err = pool_trim(p, POOL_TRIM_START, &none, 0);
	UNIT_CHECK(err == -ENOENT);
	err = pool_trim(p, POOL_TRIM_START, NULL, MIB);
	UNIT_CHECK(err == 0);
	fiber_sleep(20 * NSEC_PER_SEC);
	pool_get_trim(p, &st);
	UNIT_CHECK(st.state == TRIM_RUNNING && st.trimmed_bytes > 0);
	UNIT_CHECK(st.trimmed_bytes < 7 * 30 * MIB);
	err = pool_trim(p, POOL_TRIM_PAUSE, NULL, 0);
	UNIT_CHECK(err == 0);
	fiber_sleep(NSEC_PER_SEC);
	pool_get_trim(p, &st);
	UNIT_CHECK(st.state == TRIM_PAUSED);
	leave(p);
	err = take(&spec, NULL, &p, &result);
	UNIT_CHECK(err == 0);
	fiber_sleep(6 * NSEC_PER_SEC);
	pool_get_trim(p, &st);
	UNIT_CHECK(st.state == TRIM_PAUSED && st.trimmed_bytes > 0);
	err = pool_trim(p, POOL_TRIM_START, NULL, 4 * MIB);
	UNIT_CHECK(err == 0);
	began = st.trimmed_bytes;
	fiber_sleep(40 * NSEC_PER_SEC); /* made ready by empty txgs */
	leave(p);                       /* while it runs */
	err = take(&spec, NULL, &p, &result);
	UNIT_CHECK(err == 0);
	fiber_sleep(6 * NSEC_PER_SEC);
	pool_get_trim(p, &st);
	UNIT_CHECK(st.state == TRIM_RUNNING && st.trimmed_bytes > began);
	err = pool_trim(p, POOL_TRIM_CANCEL, NULL, 0);
	UNIT_CHECK(err == 0);
	fiber_sleep(NSEC_PER_SEC);
	pool_get_trim(p, &st);
	UNIT_CHECK(st.state == TRIM_CANCELLED);
	one = vdev_column(&p->v, 0, 2)->guid;
	err = pool_trim(p, POOL_TRIM_START, &one, 0);
	UNIT_CHECK(err == 0);
	st = wait_trim(p);
	UNIT_CHECK(st.state == TRIM_DONE);
	for (uint32_t i = 0; i < 7; i++) {
		struct vdev_drive *d = vdev_column(&p->v, 0, i);

		kb_get_counters(d->kb, &c);
		UNIT_CHECK((c.discards > 0) == (i == 2 || began == 0) || i != 2);
	}
	check_files(p);
	check_pool(p);
	leave(p);
	rig_close(&rig);
}

static void
test_steps(void)
{
	in_rig(run_steps, NULL, 7, unit_seed(30));
}

/* ---- a full pool ---- */

/* Writers get every sector there is, however much of it is being discarded. */
static void
run_full(void *arg)
{
	struct pool *p;
	uint32_t rounds = 0;
	int err = 0;

	(void)arg;
	rig_open(&rig);
	p = make_pool(&one_set, "tank");
	sync_often(p, 70);
	err = pool_trim(p, POOL_TRIM_START, NULL, 0);
	UNIT_CHECK(err == 0);
	while ((err = write_file(p, 3000000, 1 + rounds)) == 0 && rounds++ < 600) {
		want.count = MIN(want.count, 40u);
	}
	UNIT_CHECK(err == -ENOSPC);
	(void)wait_trim(p);
	check_files(p);
	check_pool(p);
	leave(p);
	rig_close(&rig);
}

static void
test_full(void)
{
	in_rig(run_full, NULL, 7, unit_seed(40));
}

/* ---- a drive that doesn't answer ---- */

static void
run_hang(void *arg)
{
	struct pool_import_result result;
	struct pool_import_spec spec = {0};
	struct pool_trim_status st;
	struct pool *p;
	int err;

	(void)arg;
	rig_open(&rig);
	p = make_pool(&one_set, "tank");
	write_many(p, 10, 1);
	sync_often(p, 70);
	err = pool_trim(p, POOL_TRIM_START, NULL, MIB);
	UNIT_CHECK(err == 0);
	fiber_sleep(20 * NSEC_PER_SEC);
	kb_sim_set_faults(rig.media[3], &(struct kb_sim_faults){.hang = 1000000});
	st = wait_trim(p);
	UNIT_CHECK(st.state == TRIM_PAUSED);
	kb_sim_set_faults(rig.media[3], &(struct kb_sim_faults){0});
	kb_sim_unhang(rig.media[3]);
	err = pool_sync(p);
	UNIT_CHECK(err == 0);
	check_files(p);
	leave(p);
	err = take(&spec, NULL, &p, &result);
	UNIT_CHECK(err == 0);
	check_files(p);
	check_pool(p);
	leave(p);
	rig_close(&rig);
}

static void
test_hang(void)
{
	in_rig(run_hang, NULL, 7, unit_seed(50));
}

int
main(int argc, char **argv)
{
	static const struct unit_test tests[] = {
	    {"command", test_command},
	    {"fresh", test_fresh},
	    {"automatic", test_automatic},
	    {"steps", test_steps},
	    {"full", test_full},
	    {"hang", test_hang},
	};

	bug_set_deliberate(getenv("AGATE_BUGS"));
	return unit_main("pool_trim", tests, ARRAY_LEN(tests), argc, argv);
}
