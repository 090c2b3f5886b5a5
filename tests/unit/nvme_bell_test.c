/*
 * nvme_bell_test.c - doorbells, rung and in memory; completion entries that are given back late; a
 * write cache that is turned off, and on again by a reset from outside; the queues' end.
 */
#include "tests/lib/nvme_rig.h"

#define FIBERS 24u
#define ROUNDS 40u

struct storm {
	struct nvme_rig *r;
	struct waitgroup done;
	unsigned next;
};

/* Writes and reads back, in a range of its own. */
static void
storm_fiber(void *arg)
{
	struct storm *s = arg;
	uint64_t base = 64u * s->next++;
	struct kb_drive *d = s->r->d[0];

	for (uint64_t i = 0; i < ROUNDS; i++) {
		UNIT_CHECK(rig_write(d, base + i % 64, base + i, i % 8 == 0 ? KB_FUA : 0) == 0);
		UNIT_CHECK(rig_check(d, base + i % 64, base + i) == 0);
		if (i % 16 == 15) { /* until it doesn't look by itself any more */
			fiber_sleep(rt_random_u64() % (40 * NSEC_PER_MSEC));
		}
	}
	wg_done(&s->done);
}

static void
life_storm(struct nvme_rig *r)
{
	struct storm s = {.r = r};

	rig_open(r);
	uint64_t bells = rig_count(r).doorbells;
	wg_init(&s.done);
	wg_add(&s.done, FIBERS);
	for (unsigned i = 0; i < FIBERS; i++) {
		fiber_spawn_wait(i % 2, FIBER_REQUEST, "storm", storm_fiber, &s);
	}
	wg_wait(&s.done);
	struct nvme_model_counters c = rig_count(r);
	uint64_t commands = c.reads + c.writes;
	CU_ASSERT(commands == 2u * FIBERS * ROUNDS);
	CU_ASSERT((c.shadow_looks > commands / 10) == r->opt.shadow_bells);
	CU_ASSERT(c.doorbells - bells < commands * 2);
	/* nothing waited for a deadline or a reset */
	struct kb_nvme_counters n;
	kb_nvme_get_counters(r->d[0], &n);
	CU_ASSERT(n.resets == 0 && n.aborts == 0 && n.offences == 0);
	rig_close(r);
	CU_ASSERT(rig_count(r).queues_deleted == 4 && rig_count(r).shutdowns == 1);
}

static void
test_storm(void)
{
	struct nvme_rig r = {.opt = rig_options()};
	uint64_t seed = unit_seed(1);

	for (unsigned i = 0; i < 24; i++) {
		r.opt.shadow_bells = i % 2 != 0;
		r.opt.stride = (uint8_t)(i / 2 % 3);
		r.opt.mqes = i % 3 == 0 ? 7 : i % 3 == 1 ? 2 : 0; /* queues that fill up */
		r.opt.no_interrupts = i % 5 == 0;
		bug_set_buggify(i % 4 == 3 ? 20 : 0);
		rig_live(&r, seed + i, life_storm);
	}
	bug_set_buggify(0);
}

struct slow {
	struct nvme_rig *r;
	struct waitgroup done;
	uint64_t next;
};

static void
slow_fiber(void *arg)
{
	struct slow *s = arg;
	uint64_t at = s->next++;

	UNIT_CHECK(rig_write(s->r->d[0], at, at, 0) == 0);
	wg_done(&s->done);
}

/* A controller that is busy with slow commands and doesn't look into memory any more still learns
 * of a new one soon. */
static void
life_slow(struct nvme_rig *r)
{
	struct slow s = {.r = r};

	rig_open(r);
	r->faults.latency_ns_min = r->faults.latency_ns_max = 500 * NSEC_PER_MSEC;
	rig_fault(r);
	wg_init(&s.done);
	wg_add(&s.done, FIBERS);
	for (unsigned i = 0; i < FIBERS; i++) {
		fiber_spawn_wait(0, FIBER_REQUEST, "slow", slow_fiber, &s);
	}
	fiber_sleep(50 * NSEC_PER_MSEC);
	r->faults.latency_ns_min = r->faults.latency_ns_max = 10 * NSEC_PER_USEC;
	rig_fault(r);
	for (uint64_t i = 0; i < 20; i++) {
		uint64_t start_ns = rt_now_ns();
		CU_ASSERT(rig_write(r->d[0], 100 + i, i, 0) == 0);
		CU_ASSERT(rt_now_ns() - start_ns < 10 * NSEC_PER_MSEC);
		fiber_sleep(rt_random_u64() % (4 * NSEC_PER_MSEC));
	}
	wg_wait(&s.done);
	rig_close(r);
}

static void
test_slow(void)
{
	struct nvme_rig r = {.opt = rig_options()};

	for (unsigned i = 0; i < 8; i++) {
		r.opt.shadow_bells = i % 2 != 0;
		r.opt.no_interrupts = i % 4 > 1;
		rig_live(&r, unit_seed(40) + i, life_slow);
	}
}

/* A reset, and the page of shadows is as new: no old value is taken for a new one. */
static void
life_reset(struct nvme_rig *r)
{
	rig_open(r);
	for (uint64_t i = 0; i < 100; i++) {
		CU_ASSERT(rig_write(r->d[0], i, i, 0) == 0);
		if (i % 25 == 20 || i == 0) { /* 0: as many as there will have been after it */
			nvme_model_fatal(r->model);
			fiber_sleep(1500 * NSEC_PER_MSEC);
		}
	}
	for (uint64_t i = 0; i < 100; i++) {
		CU_ASSERT(rig_check(r->d[0], i, i) == 0);
	}
	CU_ASSERT(rig_count(r).enables == 6);
	rig_close(r);
}

static void
test_reset(void)
{
	struct nvme_rig r = {.opt = rig_options()};

	r.opt.shadow_bells = true;
	rig_live(&r, unit_seed(7), life_reset);
}

/* What it says of how far it has looked is junk: then commands may wait for ever, and a reset ends
 * that. Nobody gets a wrong answer. */
static void
life_liar(struct nvme_rig *r)
{
	unsigned failed = 0;

	rig_open(r);
	for (uint64_t i = 0; i < 200; i++) {
		nvme_model_junk_events(r->model, (uint32_t)rt_random_u64());
		int err = rig_write(r->d[0], i % 50, i, 0);
		failed += err != 0;
		CU_ASSERT(err == 0 || err == -ETIMEDOUT || err == -ERR_GONE);
		fiber_sleep(100 * NSEC_PER_USEC);
	}
	CU_ASSERT(failed < 200);
	fiber_sleep(20 * NSEC_PER_SEC);
	CU_ASSERT(kb_late_writes(r->d[0]) == 0);
	rig_close(r);
}

static void
test_liar(void)
{
	struct nvme_rig r = {.opt = rig_options()};

	r.opt.shadow_bells = true;
	for (uint64_t i = 0; i < 4; i++) {
		rig_live(&r, unit_seed(20) + i, life_liar);
	}
}

/* With its cache off nothing needs a flush. A reset from outside turns it on, and the driver
 * notices. */
static void
life_cache(struct nvme_rig *r)
{
	rig_open(r);
	CU_ASSERT(rig_write(r->d[0], 1, 1, KB_FUA) == 0);
	CU_ASSERT(kb_flush(r->d[0]) == 0);
	CU_ASSERT(rig_count(r).flushes == 0 && rig_count(r).fua_writes == 0);
	nvme_model_reset(r->model);
	CU_ASSERT(rig_write(r->d[0], 2, 2, 0) == 0); /* sent again after our own reset */
	CU_ASSERT(rig_count(r).enables == 2);
	CU_ASSERT(kb_flush(r->d[0]) == 0);
	CU_ASSERT(rig_write(r->d[0], 3, 3, KB_FUA) == 0);
	CU_ASSERT(rig_count(r).flushes == 1 && rig_count(r).fua_writes == 1);
	rig_close(r);
}

static void
test_cache(void)
{
	struct nvme_rig r = {.opt = rig_options()};

	r.opt.cache_off = true;
	rig_live(&r, 1, life_cache);
}

int
main(int argc, char **argv)
{
	static const struct unit_test tests[] = {
	    {"storm", test_storm},
	    {"slow", test_slow},
	    {"reset", test_reset},
	    {"liar", test_liar},
	    {"cache", test_cache},
	};
	return unit_main("nvme_bell", tests, ARRAY_LEN(tests), argc, argv);
}
