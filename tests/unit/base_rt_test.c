/* Fibers, time, timers, posts, offload and reclamation, in both runtimes. */
#include "base/base.h"
#include "tests/lib/unit.h"

#define FIBERS 200

static struct rt_options
both(unsigned turn)
{
	return unit_rt(turn == 0, turn == 0 ? 3 : 2, 42);
}

struct shared {
	struct waitgroup wg;
	struct mutex mu;
	struct cond cond;
	struct sem sem;
	struct chan chan;
	uint64_t counter;
	uint64_t turns;
};

static void
counting_fiber(void *arg)
{
	struct shared *s = arg;
	for (unsigned i = 0; i < 100; i++) {
		mutex_lock(&s->mu);
		uint64_t seen = s->counter;
		if (i % 7 == 0) {
			fiber_yield();
		}
		CU_ASSERT(seen == s->counter);
		s->counter = seen + 1;
		CU_ASSERT(mutex_held(&s->mu));
		mutex_unlock(&s->mu);
	}
	wg_done(&s->wg);
}

static void
counting_main(void *arg)
{
	struct shared *s = arg;
	mutex_init(&s->mu, RANK_LEAF);
	wg_init(&s->wg);
	wg_add(&s->wg, FIBERS);
	for (unsigned i = 0; i < FIBERS; i++) {
		fiber_spawn_wait(i % rt_reactor_count(), i % 2 == 0 ? FIBER_REQUEST : FIBER_REPAIR,
		    "counter", counting_fiber, s);
	}
	wg_wait(&s->wg);
	CU_ASSERT(s->counter == FIBERS * 100);
}

static void
test_mutex_counts(void)
{
	for (unsigned turn = 0; turn < 2; turn++) {
		struct shared s = {0};
		struct rt_options opt = both(turn);
		CU_ASSERT(rt_run(&opt, counting_main, &s) == 0);
		CU_ASSERT(s.counter == FIBERS * 100);
	}
}

static void
sleeping_main(void *arg)
{
	uint64_t *slept = arg;
	uint64_t before = rt_now_ns();
	fiber_sleep(2 * NSEC_PER_MSEC);
	*slept = rt_now_ns() - before;
	CU_ASSERT(fiber_park_until(rt_now_ns() + 1000) == -ETIMEDOUT);
	fiber_wake(fiber_self());
	fiber_park();
	fiber_wake(fiber_self());
	CU_ASSERT(fiber_park_until(rt_now_ns() + NSEC_PER_SEC) == 0);
}

static void
test_sleep(void)
{
	for (unsigned turn = 0; turn < 2; turn++) {
		uint64_t slept = 0;
		struct rt_options opt = both(turn);
		CU_ASSERT(rt_run(&opt, sleeping_main, &slept) == 0);
		CU_ASSERT(slept >= 2 * NSEC_PER_MSEC);
	}
}

static void
ping_fiber(void *arg)
{
	struct shared *s = arg;
	void *item;
	while (chan_recv(&s->chan, &item) == 0) {
		mutex_lock(&s->mu);
		s->counter += (uintptr_t)item;
		cond_signal(&s->cond);
		mutex_unlock(&s->mu);
	}
	wg_done(&s->wg);
}

static void
chan_main(void *arg)
{
	struct shared *s = arg;
	mutex_init(&s->mu, RANK_LEAF);
	cond_init(&s->cond);
	wg_init(&s->wg);
	CU_ASSERT_FATAL(chan_init(&s->chan, 4) == 0);
	wg_add(&s->wg, 3);
	for (unsigned i = 0; i < 3; i++) {
		fiber_spawn_wait((i + 1) % rt_reactor_count(), FIBER_SYNC, "ping", ping_fiber, s);
	}
	uint64_t sum = 0;
	for (uintptr_t i = 1; i <= 1000; i++) {
		sum += i;
		CU_ASSERT(chan_send(&s->chan, (void *)i) == 0);
	}
	mutex_lock(&s->mu);
	while (s->counter != sum) {
		cond_wait(&s->cond, &s->mu);
	}
	mutex_unlock(&s->mu);
	chan_close(&s->chan);
	CU_ASSERT(chan_send(&s->chan, NULL) == -EPIPE);
	wg_wait(&s->wg);
	chan_destroy(&s->chan);
}

static void
test_chan(void)
{
	for (unsigned turn = 0; turn < 2; turn++) {
		struct shared s = {0};
		struct rt_options opt = both(turn);
		uint64_t live = mem_live_count();
		CU_ASSERT(rt_run(&opt, chan_main, &s) == 0);
		CU_ASSERT(mem_live_count() == live);
	}
}

static void
crash_fiber(void *arg)
{
	(void)arg;
	void *leak = mem_zalloc(100);
	CU_ASSERT(leak != NULL);
	fiber_sleep(NSEC_PER_MSEC);
	rt_sim_crash();
	CU_FAIL("ran after the crash");
}

static void
crash_main(void *arg)
{
	struct waitgroup wg;
	wg_init(&wg);
	wg_add(&wg, 1);
	void *leak = mem_zalloc(5000);
	CU_ASSERT(leak != NULL);
	fiber_spawn_wait(1, FIBER_SYNC, "crasher", crash_fiber, arg);
	wg_wait(&wg);
	CU_FAIL("ran after the crash");
}

static void
test_crash(void)
{
	struct rt_options opt = unit_rt(true, 2, 7);
	uint64_t live = mem_live_count();
	CU_ASSERT(rt_run(&opt, crash_main, NULL) == -ERR_CRASHED);
	CU_ASSERT(mem_live_count() == live);
}

static const struct unit_test tests[] = {
    {"mutex counts", test_mutex_counts},
    {"sleep", test_sleep},
    {"chan", test_chan},
    {"crash", test_crash},
};

int
main(int argc, char **argv)
{
	return unit_main("base_rt", tests, ARRAY_LEN(tests), argc, argv);
}
