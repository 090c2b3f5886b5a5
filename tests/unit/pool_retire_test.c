/*
 * pool_retire_test.c - a drive that comes and goes, for weeks: its former descriptors are closed,
 * but none that a late write or a ring of the log may still use.
 */
#include "tests/unit/pool_members.h"

#define FLAPS 12u
#define FLAPPER 3u /* no side of a log in the pool */

/* Away until its pool has noticed, and back until it is whole again. */
static void
flap(struct pool *p, uint32_t medium, uint32_t n)
{
	kb_sim_vanish(rig.media[medium]);
	fiber_sleep(6 * NSEC_PER_SEC);
	fill_pool(p, 1, 10 + n);
	sync_pool(p);
	give_back(p, medium);
	(void)wait_scan(p);
}

static void
run_flaps(void *arg)
{
	const struct shape *sh = arg;
	uint32_t most = 0;
	struct pool *p;

	rig_open(&rig);
	p = make(sh);
	fill_pool(p, 4, 1);
	for (uint32_t i = 0; i < FLAPS; i++) {
		flap(p, FLAPPER, i);
		UNIT_CHECK(p->v.retired_count > 0);
		fiber_sleep(10 * NSEC_PER_SEC);
		most = MAX(most, p->v.retired_count);
	}
	UNIT_CHECK(most < FLAPS / 2);
	fiber_sleep(80 * NSEC_PER_SEC);
	UNIT_CHECK(p->v.retired_count == 0);
	check_files(p);
	check_pool(p);
	close_pool(p);
	p = take_up();
	check_files(p);
	close_pool(p);
	rig_close(&rig);
}

static void
test_flaps(void)
{
	static const struct shape *const shapes[] = {&one_set, &with_log};

	rng = unit_seed(1) * 2 + 1;
	for (uint32_t i = 0; i < ARRAY_LEN(shapes); i++) {
		rig_make(&rig, 9, 128 * MIB);
		in_sim(run_flaps, (void *)(uintptr_t)shapes[i], i + 1);
		rig_unmake(&rig);
	}
}

/* Replaced while it hangs: what it was told may happen yet. */
static void
run_late(void *arg UNUSED)
{
	struct kb_sim_faults hang = {.hang = 1000000}, none = {0};
	struct guid old;
	struct pool *p;
	char why[200];
	int err;

	rig_open(&rig);
	p = make(&with_log);
	fill_pool(p, 2, 1);
	old = p->v.drives[FLAPPER].guid;
	kb_sim_set_faults(rig.media[FLAPPER], &hang);
	fill_pool(p, 2, 3);
	sync_pool(p);
	UNIT_CHECK(kb_late_writes(p->v.drives[FLAPPER].kb) > 0);
	err = pool_drive_replace(p, &old, rig.drives[9], why, sizeof(why));
	UNIT_CHECK(err == 0);
	rig.drives[9] = NULL;
	(void)wait_scan(p);
	UNIT_CHECK(p->v.retired_count == 1);
	fiber_sleep(300 * NSEC_PER_SEC);
	UNIT_CHECK(p->v.retired_count == 1);
	kb_sim_set_faults(rig.media[FLAPPER], &none);
	kb_sim_unhang(rig.media[FLAPPER]);
	fiber_sleep(10 * NSEC_PER_SEC);
	UNIT_CHECK(p->v.retired_count == 0);
	check_files(p);
	check_pool(p);
	close_pool(p);
	rig_close(&rig);
}

static void
test_late(void)
{
	rng = unit_seed(2) * 2 + 1;
	rig_make(&rig, 10, 128 * MIB);
	in_sim(run_late, NULL, 2);
	rig_unmake(&rig);
}

int
main(int argc, char **argv)
{
	static const struct unit_test tests[] = {
	    {"flaps", test_flaps},
	    {"late", test_late},
	};

	return unit_main("pool_retire", tests, ARRAY_LEN(tests), argc, argv);
}
