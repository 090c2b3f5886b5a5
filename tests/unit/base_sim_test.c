/* The simulation itself: same seed, same run; power cuts; what it must refuse to hide. */
#include "base/base.h"
#include "tests/lib/unit.h"

#define SEEDS 40u

struct sim_world {
	struct mutex mu;
	struct rwlock rw;
	struct cond cond;
	struct sem sem;
	struct chan chan;
	struct waitgroup wg, sinks;
	uint64_t log; /* hash over what the fibers saw, in their order */
	uint64_t crash_at;
	unsigned steps;
};

static void
sim_note(struct sim_world *w, uint64_t what)
{
	w->log = w->log * 0x100000001b3u ^ what;
	w->steps++;
}

static void
node_free(struct qsbr_node *n)
{
	mem_free(n);
}

static void
offloaded(void *arg)
{
	sim_note(arg, 1);
}

static void
sim_act(struct sim_world *w, uint64_t dice)
{
	struct qsbr_node *n;
	switch (dice % 7) {
	case 0:
		rwlock_rdlock(&w->rw);
		fiber_yield();
		rwlock_rdunlock(&w->rw);
		break;
	case 1:
		rwlock_wrlock(&w->rw);
		fiber_sleep(dice >> 8 & 1023);
		rwlock_wrunlock(&w->rw);
		break;
	case 2:
		mutex_lock(&w->mu);
		(void)cond_wait_until(&w->cond, &w->mu, rt_now_ns() + (dice >> 8 & 4095));
		mutex_unlock(&w->mu);
		break;
	case 3:
		cond_signal(&w->cond);
		offload(offloaded, w);
		break;
	case 4:
		if (sem_take_until(&w->sem, 2, rt_now_ns() + 3000) == 0) {
			fiber_yield();
			sem_give(&w->sem, 2);
		}
		break;
	case 5:
		n = mem_zalloc(sizeof(*n) + 100);
		ASSERT(n != NULL);
		qsbr_retire(n, node_free);
		break;
	default:
		(void)chan_send(&w->chan, w);
		break;
	}
}

static void
sim_fiber(void *arg)
{
	struct sim_world *w = arg;
	void *scratch = mem_zalloc(1000);
	ASSERT(scratch != NULL);
	for (unsigned i = 0; i < 50; i++) {
		uint64_t dice = rt_random_u64();
		sim_act(w, dice);
		sim_note(w, rt_reactor_self() ^ dice ^ rt_now_ns());
		if (w->crash_at != 0 && w->steps >= w->crash_at) {
			rt_sim_crash();
			CU_FAIL("ran after the power cut");
		}
		fiber_maybe_yield();
	}
	mem_free(scratch);
	wg_done(&w->wg);
}

static void
sim_sink(void *arg)
{
	struct sim_world *w = arg;
	void *item;
	while (chan_recv(&w->chan, &item) == 0) {
		sim_note(w, 2);
	}
	wg_done(&w->sinks);
}

static void
sim_main(void *arg)
{
	struct sim_world *w = arg;
	mutex_init(&w->mu, RANK_POOL_TXG);
	rwlock_init(&w->rw, RANK_POOL_CONFIG);
	cond_init(&w->cond);
	sem_init_units(&w->sem, 5);
	ASSERT(chan_init(&w->chan, 2) == 0);
	wg_init(&w->wg);
	wg_add(&w->wg, 12);
	for (unsigned i = 0; i < 12; i++) {
		fiber_spawn_wait(i % rt_reactor_count(), FIBER_REQUEST, "sim", sim_fiber, w);
	}
	wg_init(&w->sinks);
	wg_add(&w->sinks, 1);
	fiber_spawn_wait(0, FIBER_SYNC, "sink", sim_sink, w);
	wg_wait(&w->wg);
	chan_close(&w->chan);
	wg_wait(&w->sinks);
	chan_destroy(&w->chan);
	rt_sim_trace_add(w->log);
}

struct outcome {
	uint64_t log, trace;
};

static struct outcome
sim_once(uint64_t seed)
{
	struct sim_world w = {0};
	struct rt_options opt = unit_rt(true, 3, seed);
	CU_ASSERT(rt_run(&opt, sim_main, &w) == 0);
	return (struct outcome){.log = w.log, .trace = rt_sim_trace()};
}

static void
test_determinism(void)
{
	struct outcome last = {0};
	uint64_t seed = unit_seed(1000);
	for (unsigned i = 0; i < SEEDS; i++) {
		bug_set_buggify(i % 2 == 0 ? 0 : 60);
		struct outcome a = sim_once(seed + i);
		struct outcome b = sim_once(seed + i);
		CU_ASSERT(a.log == b.log);
		CU_ASSERT(a.trace == b.trace);
		CU_ASSERT(a.log != last.log && a.trace != last.trace);
		last = a;
	}
	bug_set_buggify(0);
}

static void
test_crash_midway(void)
{
	uint64_t seed = unit_seed(2000);
	uint64_t live = mem_live_count();
	for (unsigned i = 0; i < SEEDS; i++) {
		struct sim_world w = {.crash_at = 1 + i * 10};
		struct rt_options opt = unit_rt(true, 1 + i % 3, seed + i);
		CU_ASSERT(rt_run(&opt, sim_main, &w) == -ERR_CRASHED);
		CU_ASSERT(mem_live_count() == live);
		CU_ASSERT(w.steps >= 1 + i * 10);
	}
}

static void
crash_timer(struct rt_timer *t)
{
	(void)t;
	rt_sim_crash();
	CU_FAIL("ran after the power cut");
}

static void
crash_by_timer_main(void *arg)
{
	static struct rt_timer timer;
	memset(&timer, 0, sizeof(timer));
	rt_timer_arm(&timer, rt_now_ns() + 100000, crash_timer);
	sim_main(arg);
}

static void
test_crash_by_timer(void)
{
	uint64_t seed = unit_seed(3000);
	uint64_t live = mem_live_count();
	for (unsigned i = 0; i < SEEDS; i++) {
		struct sim_world w = {0};
		struct rt_options opt = unit_rt(true, 2, seed + i);
		CU_ASSERT(rt_run(&opt, crash_by_timer_main, &w) == -ERR_CRASHED);
		CU_ASSERT(mem_live_count() == live);
	}
	/* And the next life starts as if nothing had been. */
	struct outcome a = sim_once(1);
	struct outcome b = sim_once(1);
	CU_ASSERT(a.trace == b.trace);
}

struct keep_world {
	char *lasting, *lost, *result;
};

static void
keep_main(void *arg)
{
	struct keep_world *k = arg;
	k->lasting = mem_zalloc_lasting(16);
	k->result = mem_strdup("kept");
	ASSERT(k->lasting != NULL && k->result != NULL);
	k->lasting[0] = 'L';
}

static void
keep_crash_main(void *arg)
{
	keep_main(arg);
	rt_sim_crash();
}

/* A clean end leaves results to the caller; a power cut leaves only what lasts. */
static void
test_what_lasts(void)
{
	struct keep_world k = {0};
	struct rt_options opt = unit_rt(true, 1, 1);
	uint64_t live = mem_live_count();
	CU_ASSERT(rt_run(&opt, keep_main, &k) == 0);
	CU_ASSERT(mem_live_count() == live + 2);
	CU_ASSERT_STRING_EQUAL(k.result, "kept");
	mem_free(k.result);
	mem_free(k.lasting);
	CU_ASSERT(rt_run(&opt, keep_crash_main, &k) == -ERR_CRASHED);
	CU_ASSERT(mem_live_count() == live + 1);
	CU_ASSERT(k.lasting[0] == 'L');
	mem_free(k.lasting);
}

static void
time_main(void *arg)
{
	(void)arg;
	uint64_t now = rt_now_ns();
	uint64_t wall = rt_wall_ns();
	fiber_sleep(3600 * NSEC_PER_SEC);
	CU_ASSERT(rt_now_ns() - now >= 3600 * NSEC_PER_SEC);
	CU_ASSERT(rt_now_ns() - now < 3601 * NSEC_PER_SEC);
	CU_ASSERT(rt_wall_ns() - wall == rt_now_ns() - now);
	unsigned char bytes[13] = {0};
	rt_random_bytes(bytes, sizeof(bytes));
	unsigned sum = 0;
	for (unsigned i = 0; i < sizeof(bytes); i++) {
		sum += bytes[i];
	}
	CU_ASSERT(sum != 0);
}

static void
test_virtual_time(void)
{
	struct rt_options opt = unit_rt(true, 1, 1);
	CU_ASSERT(rt_run(&opt, time_main, NULL) == 0);
}

/* ---- trouble on purpose ---- */

#ifdef AGATE_DEBUG

struct trouble {
	struct waitgroup wg;
	unsigned refused, spurious, spawned;
	uint64_t done;
};

static void
trouble_fiber(void *arg)
{
	struct trouble *t = arg;
	t->done++;
	wg_done(&t->wg);
}

static void
trouble_main(void *arg)
{
	struct trouble *t = arg;
	wg_init(&t->wg);
	for (unsigned i = 0; i < 200; i++) {
		wg_add(&t->wg, 1);
		if (fiber_spawn(i % 3, FIBER_REQUEST, "trouble", trouble_fiber, t) != 0) {
			t->refused++;
			wg_done(&t->wg);
		} else {
			t->spawned++;
		}
		wg_add(&t->wg, 1);
		ASSERT(fiber_spawn(i % 3, FIBER_REPAIR, "trouble", trouble_fiber, t) == 0);
		t->spawned++;
		t->spurious += fiber_park_until(rt_now_ns() + 10000) == 0;
		wg_wait(&t->wg);
	}
}

static void
test_trouble(void)
{
	struct trouble t = {0};
	struct rt_options opt = unit_rt(true, 3, unit_seed(1));
	CU_ASSERT(rt_run(&opt, trouble_main, &t) == 0);
	CU_ASSERT(t.refused == 0 && t.spurious == 0 && t.done == 400);
	t = (struct trouble){0};
	bug_set_buggify(100);
	CU_ASSERT(rt_run(&opt, trouble_main, &t) == 0);
	bug_set_buggify(0);
	CU_ASSERT(t.refused > 0 && t.spurious > 0);
	CU_ASSERT(t.done == t.spawned && t.refused + t.spawned == 400);
}
#endif

/* ---- deaths ---- */

static void
park_for_ever(void *arg)
{
	(void)arg;
	fiber_park();
}

static void
deadlock_main(void *arg)
{
	(void)arg;
	fiber_spawn_wait(1, FIBER_SYNC, "forgotten", park_for_ever, NULL);
	fiber_park();
}

static void
left_over_main(void *arg)
{
	(void)arg;
	fiber_spawn_wait(1, FIBER_SYNC, "forgotten", park_for_ever, NULL);
	fiber_sleep(NSEC_PER_MSEC);
}

static void
deadlock(void)
{
	struct rt_options opt = unit_rt(true, 2, 1);
	(void)!rt_run(&opt, deadlock_main, NULL);
}

static void
left_over(void)
{
	struct rt_options opt = unit_rt(true, 2, 1);
	(void)!rt_run(&opt, left_over_main, NULL);
}

static void
test_deaths(void)
{
	CU_ASSERT(unit_dies(deadlock, "sim_deadlock fiber=forgotten reactor=1 state=parked"));
	CU_ASSERT(unit_dies(deadlock, "sim_deadlock fiber=main"));
	CU_ASSERT(unit_dies(left_over, "fiber_left_over fiber=forgotten"));
}

static const struct unit_test tests[] = {
    {"determinism", test_determinism},
    {"crash midway", test_crash_midway},
    {"crash by timer", test_crash_by_timer},
    {"what lasts", test_what_lasts},
    {"virtual time", test_virtual_time},
#ifdef AGATE_DEBUG
    {"trouble", test_trouble},
#endif
    {"deaths", test_deaths},
};

int
main(int argc, char **argv)
{
	return unit_main("base_sim", tests, ARRAY_LEN(tests), argc, argv);
}
