/*
 * rt.c - start and stop. The runtime is the one piece of process-wide state of the engine: struct
 * rt.
 *
 * Start: reserve everything (arrays, heaps, stacks, arena), start helpers and reactor threads,
 * queue main_fn on reactor 0, which is the calling thread. Stop: main_fn has returned, the other
 * fibers have run to their ends, reactors leave their loops, the last messages and with them all
 * retired nodes are handled, everything is unmapped. The runtime's own memory is mapped, not taken
 * from mem.h: it belongs to no life, and tests that fail the n-th allocation count only those of
 * the code under test.
 */
#include <inttypes.h>
#include <sys/mman.h>
#include <sched.h>
#include <signal.h>
#include <string.h>
#include <time.h>
#include <unistd.h>
#include "base/arena_int.h"
#include "base/check.h"
#include "base/err.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/mem_int.h"
#include "base/net_int.h"
#include "base/rt_int.h"

/* The simulated world begins on 2026-01-01. */
#define SIM_EPOCH_NS (1767225600 * NSEC_PER_SEC)

struct rt rt;
_Thread_local struct reactor *rt_cur;

struct rt_main {
	fiber_fn *fn;
	void *arg;
};

void *
rt_map(size_t len)
{
	void *p = mmap(
	    NULL, len, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	return p != MAP_FAILED ? p : NULL;
}

void
rt_unmap(void *p, size_t len)
{
	if (p != NULL) {
		munmap(p, len);
	}
}

static uint64_t
clock_ns(clockid_t id)
{
	struct timespec now;
	clock_gettime(id, &now);
	return (uint64_t)now.tv_sec * NSEC_PER_SEC + (uint64_t)now.tv_nsec;
}

uint64_t
rt_now_ns(void)
{
	return rt.sim ? rt.sim_now_ns : clock_ns(CLOCK_MONOTONIC);
}

uint64_t
rt_turn_ns(void)
{
	return rt.sim || rt_cur == NULL ? rt_now_ns() : rt_cur->turn_ns;
}

uint64_t
rt_wall_ns(void)
{
	return rt.sim ? SIM_EPOCH_NS + rt.sim_now_ns : clock_ns(CLOCK_REALTIME);
}

bool
rt_is_sim(void)
{
	return rt.sim;
}

unsigned
rt_reactor_count(void)
{
	return rt.count;
}

unsigned
rt_reactor_self(void)
{
	return rt_cur != NULL ? rt_cur->id : 0;
}

static unsigned
rt_cores(void)
{
	cpu_set_t set;
	if (sched_getaffinity(0, sizeof(set), &set) != 0) {
		return 1;
	}
	unsigned cores = (unsigned)CPU_COUNT(&set);
	return MIN(MAX(cores, 1u), RT_REACTORS_MAX);
}

static int
reactor_start(struct reactor *r, unsigned id)
{
	r->id = id;
	r->epoll_fd = r->event_fd = -1;
	list_init(&r->runq);
	list_init(&r->pollers);
	r->retired_tail = &r->retired;
	int err = fiber_pools_start(r);
	if (err == 0) {
		err = timers_start(&r->timers);
	}
	if (err == 0 && !rt.sim) {
		err = reactor_open(r);
	}
	return err;
}

static void
reactor_stop(struct reactor *r)
{
	fiber_pools_stop(r);
	timers_stop(&r->timers);
	reactor_close(r);
}

static int
rt_start(const struct rt_options *opt)
{
	ASSERT(!rt.running);
	memset(&rt, 0, sizeof(rt));
	rt.sim = opt->sim;
	rt.seed = opt->seed;
	rt.sim_now_ns = NSEC_PER_SEC;
	rt.count = opt->reactors != 0 ? opt->reactors : rt_cores();
	rt.reactors = rt_map(rt.count * sizeof(struct reactor));
	if (rt.reactors == NULL) {
		return -ENOMEM;
	}
	rt.running = true;
	int err = 0;
	for (unsigned i = 0; i < rt.count; i++) {
		/* All of them, also after an error: stopping undoes what reactor_start began. */
		int one = reactor_start(&rt.reactors[i], i);
		err = err != 0 ? err : one;
	}
	return err;
}

static void
rt_stop(void)
{
	for (unsigned i = 0; i < rt.count; i++) {
		reactor_stop(&rt.reactors[i]);
	}
	rt_unmap(rt.reactors, rt.count * sizeof(struct reactor));
	rt.reactors = NULL;
	rt.count = 0;
	rt.running = false;
	rt.sim = false;
}

static void *
reactor_thread(void *arg)
{
	reactor_run(arg);
	return NULL;
}

static void
reactors_join(unsigned count)
{
	for (unsigned i = 1; i < count; i++) {
		ASSERT(pthread_join(rt.reactors[i].thread, NULL) == 0);
	}
}

static int
reactors_run(void)
{
	/* Signals are for the thread that called rt_run. */
	sigset_t all, before;
	sigfillset(&all);
	ASSERT(pthread_sigmask(SIG_SETMASK, &all, &before) == 0);
	int err = 0;
	unsigned started = 1;
	while (started < rt.count && err == 0) {
		struct reactor *r = &rt.reactors[started];
		err = -pthread_create(&r->thread, NULL, reactor_thread, r);
		started += err == 0;
	}
	ASSERT(pthread_sigmask(SIG_SETMASK, &before, NULL) == 0);
	if (err == 0) {
		reactor_run(&rt.reactors[0]);
	} else {
		atomic_store(&rt.stopping, true);
		for (unsigned i = 1; i < started; i++) {
			reactor_kick(&rt.reactors[i]);
		}
	}
	reactors_join(started);
	return err;
}

static void
rt_main_fiber(void *arg)
{
	struct rt_main *m = arg;
	m->fn(m->arg);
	rt.main_done = true;
}

static int
rt_run_real(unsigned helpers)
{
	int err = helpers_start(helpers != 0 ? helpers : RT_HELPERS_DEFAULT);
	if (err == 0) {
		err = reactors_run();
		helpers_stop();
	}
	return err;
}

/* The reactors have left their loops: handles what was still posted, which may be connections to
 * free or rounds of reclamation, until nothing posts any more. */
static void
rt_settle(void)
{
	bool any;
	do {
		any = false;
		for (unsigned i = 0; i < rt.count; i++) {
			rt_cur = &rt.reactors[i];
			any |= inbox_run(rt_cur) > 0;
		}
	} while (any);
	rt_cur = NULL;
}

static int
rt_run_started(const struct rt_options *opt, fiber_fn *main_fn, void *arg)
{
	struct rt_main m = {.fn = main_fn, .arg = arg};
	struct fiber *f = fiber_pool_take(&rt.reactors[0], FIBER_ADMIN);
	if (f == NULL) {
		return -ENOMEM;
	}
	fiber_start(f, "main", rt_main_fiber, &m);
	int err = rt.sim ? sim_run() : rt_run_real(opt->helpers);
	if (err == 0) {
		if (fiber_pools_used() > 0) {
			fiber_pools_name("fiber_left_over");
			ASSERT(fiber_pools_used() == 0);
		}
		rt_settle();
	}
	return err;
}

int
rt_run(const struct rt_options *opt, fiber_fn *main_fn, void *arg)
{
	if (opt->reactors > RT_REACTORS_MAX || opt->helpers > RT_HELPERS_MAX ||
	    opt->arena_bytes < ARENA_BYTES_MIN || opt->arena_bytes % ARENA_CHUNK_BYTES != 0) {
		return -EINVAL;
	}
	int err = rt_start(opt);
	if (err == 0) {
		err = arena_create(opt->arena_bytes, opt->hugepages);
	}
	if (err == 0) {
		if (opt->sim) {
			mem_life_begin();
		}
		net_create();
		err = rt_run_started(opt, main_fn, arg);
		net_destroy(err == -ERR_CRASHED);
		if (opt->sim && err == -ERR_CRASHED) {
			(void)mem_life_drop();
		} else if (opt->sim) {
			(void)mem_life_end();
		}
		uint64_t left_bytes = arena_destroy();
		if (left_bytes > 0 && err == 0) {
			log_error("arena_left_over bytes=%" PRIu64, left_bytes);
		}
	}
	rt_stop();
	return err;
}
