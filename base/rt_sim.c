/*
 * rt_sim.c - the simulated runtime: the calling thread plays all reactors.
 *
 * One step: timers that are due fire, in exact order; then a runnable reactor is drawn, and on it
 * either its messages are handled or one of its first few runnable fibers runs. How far from the
 * head of the queue it may pick is itself drawn from the seed, so that some runs are in order and
 * some wild. Each step costs a little random virtual time; when nothing can run, the clock jumps to
 * the next timer. If there is none either, all wait for each other: every parked fiber is named and
 * the program stops.
 *
 * Every decision is folded into a trace hash: two runs of a seed must agree on it.
 *
 * A power cut leaves the fiber (or jumps out of the timer) to sim_run and never comes back: stacks,
 * timers, messages are dropped as they are, and so is all memory of the life.
 */
#include "base/bug.h"
#include "base/check.h"
#include "base/err.h"
#include "base/log.h"
#include "base/rt_int.h"

#define SIM_WINDOW_MAX 16u
#define SIM_STEP_NS_MIN 50u
#define SIM_STEP_NS_SPREAD 2000u
#define SIM_STALL_ONE_IN 64u
#define SIM_STALL_NS_MAX (2 * NSEC_PER_MSEC)
/* After main_fn has returned the others may run so many steps to their ends. */
#define SIM_STEPS_TO_END_MAX 1000000u

void
rt_sim_trace_add(uint64_t what)
{
	rt.sim_trace = rand_mix(rt.sim_trace ^ what);
}

uint64_t
rt_sim_trace(void)
{
	return rt.sim_trace;
}

static void
sim_fire_timers(void)
{
	struct timer_heap *h = timers_of(&rt.reactors[0]);
	struct rt_timer *t;
	uint64_t before = h->next_order;
	while ((t = timers_pop_due(h, rt.sim_now_ns, before)) != NULL) {
		rt_sim_trace_add(t->deadline_ns);
		rt_cur = &rt.reactors[t->reactor];
		t->fn(t);
	}
}

/* Work that only polling finds counts as well, until the end: then it is nobody's any more. */
static bool
sim_runnable(struct reactor *r)
{
	return r->runq_len > 0 || !inbox_empty(r) || (!rt.main_done && reactor_wants_poll(r));
}

/* Now and then one reactor stands still for a while, as when its core is taken away: the others run
 * far ahead of it. */
static void
sim_stall(uint64_t draw)
{
	if (rt.sim_stalled != NULL && rt.sim_now_ns >= rt.sim_stalled_until_ns) {
		rt.sim_stalled = NULL;
	}
	if (rt.sim_stalled == NULL && draw % SIM_STALL_ONE_IN == 0 &&
	    BUGGIFY("base_reactor_stall")) {
		uint64_t more = rand_next(&rt.rand_sched);
		rt.sim_stalled = &rt.reactors[more % rt.count];
		rt.sim_stalled_until_ns = rt.sim_now_ns + (more >> 32) % SIM_STALL_NS_MAX;
	}
}

static bool
sim_can_draw(struct reactor *r, bool stalled_too)
{
	return (stalled_too || r != rt.sim_stalled) && sim_runnable(r);
}

/* One of the runnable reactors, each as likely; NULL: none. */
static struct reactor *
sim_pick_reactor(void)
{
	unsigned count = 0;
	for (unsigned i = 0; i < rt.count; i++) {
		count += sim_can_draw(&rt.reactors[i], false);
	}
	bool stalled_too = count == 0;
	if (stalled_too) {
		if (rt.sim_stalled == NULL || !sim_runnable(rt.sim_stalled)) {
			return NULL;
		}
		count = 1;
	}
	uint64_t skip = count > 1 ? rand_next(&rt.rand_sched) % count : 0;
	for (unsigned i = 0;; i++) {
		if (sim_can_draw(&rt.reactors[i], stalled_too) && skip-- == 0) {
			return &rt.reactors[i];
		}
	}
}

static struct fiber *
sim_pick_fiber(struct reactor *r)
{
	uint64_t choice = MIN(r->runq_len, rt.sim_window);
	uint64_t skip = choice > 1 ? rand_next(&rt.rand_sched) % choice : 0;
	struct list *item = r->runq.next;
	while (skip-- > 0) {
		item = item->next;
	}
	list_remove(item);
	r->runq_len--;
	return list_entry(item, struct fiber, link);
}

static void
sim_step(struct reactor *r)
{
	rt_cur = r;
	uint64_t draw = rand_next(&rt.rand_sched);
	sim_stall(draw >> 32);
	rt.sim_now_ns += SIM_STEP_NS_MIN + draw % SIM_STEP_NS_SPREAD;
	if (!inbox_empty(r) && (r->runq_len == 0 || draw >> 63 != 0)) {
		rt_sim_trace_add(r->id);
		inbox_run(r);
	}
	reactor_poll_all(r);
	if (r->runq_len > 0) {
		struct fiber *f = sim_pick_fiber(r);
		rt_sim_trace_add(f->serial << 8 | r->id);
		fiber_resume(r, f);
	}
}

/* Nothing can run: let time pass. */
static void
sim_advance(void)
{
	uint64_t next = timers_next(timers_of(&rt.reactors[0]));
	if (next == RT_FOREVER) {
		fiber_pools_name("sim_deadlock");
		check_failed(
		    __FILE__, __LINE__, "simulation: fibers wait for each other and nothing else");
	}
	rt.sim_now_ns = MAX(rt.sim_now_ns, next);
	rt_sim_trace_add(rt.sim_now_ns);
}

static void
sim_loop(void)
{
	unsigned steps_to_end = 0;
	while (!rt.sim_crashed) {
		sim_fire_timers();
		struct reactor *r = sim_pick_reactor();
		if (r != NULL) {
			sim_step(r);
		} else if (!rt.main_done) {
			sim_advance();
		}
		if (rt.main_done && (r == NULL || ++steps_to_end > SIM_STEPS_TO_END_MAX)) {
			return;
		}
	}
}

int
sim_run(void)
{
	rand_seed(&rt.rand_sched, rt.seed, 1);
	rand_seed(&rt.rand_app, rt.seed, 2);
	rand_seed(&rt.rand_bug, rt.seed, 3);
	rt.sim_window = 1 + (unsigned)(rand_next(&rt.rand_sched) % SIM_WINDOW_MAX);
	for (unsigned i = 0; i < rt.count; i++) {
		fiber_ctx_init_loop(&rt.reactors[i].loop);
	}
	if (setjmp(rt.sim_out) == 0) {
		sim_loop();
	}
	rt_cur = NULL;
	return rt.sim_crashed ? -ERR_CRASHED : 0;
}

void
rt_sim_crash(void)
{
	ASSERT(rt.sim);
	rt.sim_crashed = true;
#ifdef AGATE_DEBUG
	spins_held = 0;
#endif
	if (rt_cur->current != NULL) {
		fiber_suspend(rt_cur);
	}
	longjmp(rt.sim_out, 1);
}
