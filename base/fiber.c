/*
 * fiber.c - the life of a fiber: birth, token, park, wake, sleep. States and movers: rt_int.h.
 *
 * Why no wake is lost: a fiber becomes PARKED with one compare-and-swap that fails when the token
 * is there; whoever finds it PARKED makes it QUEUED and is alone in handing it to its reactor. That
 * may happen before the fiber has left its stack, but only its own reactor can resume it, and that
 * one is still busy leaving. A wake of a QUEUED fiber merges with the one that queued it: the fiber
 * hasn't looked at its condition yet.
 */
#include "base/bug.h"
#include "base/check.h"
#include "base/rt_int.h"

struct fiber *
fiber_self(void)
{
	return rt_cur != NULL ? rt_cur->current : NULL;
}

const char *
fiber_self_name(void)
{
	const struct fiber *f = fiber_self();
	return f != NULL ? f->name : "-";
}

void
fiber_start(struct fiber *f, const char *name, fiber_fn *fn, void *arg)
{
	f->name = name;
	f->fn = fn;
	f->arg = arg;
	f->ended = false;
	f->slice_start_ns = 0;
	if (rt.sim) {
		f->serial = ++rt.sim_serial;
	}
	atomic_store_explicit(&f->state, FIBER_QUEUED, memory_order_relaxed);
	fiber_enqueue(f);
}

int
fiber_spawn(unsigned reactor, enum fiber_class cls, const char *name, fiber_fn *fn, void *arg)
{
	ASSERT(reactor < rt.count);
	/* Requests are what comes in numbers; who starts the few of other classes may count on
	 * them. */
	if (cls == FIBER_REQUEST && BUGGIFY("base_spawn_refused")) {
		return -EAGAIN;
	}
	struct fiber *f = fiber_pool_take(&rt.reactors[reactor], cls);
	if (f == NULL) {
		return -EAGAIN;
	}
	fiber_start(f, name, fn, arg);
	return 0;
}

void
fiber_spawn_wait(unsigned reactor, enum fiber_class cls, const char *name, fiber_fn *fn, void *arg)
{
	ASSERT(reactor < rt.count);
	fiber_start(fiber_pool_take_wait(&rt.reactors[reactor], cls), name, fn, arg);
}

static void
fiber_queue_local(struct reactor *r, struct fiber *f)
{
	list_push_back(&r->runq, &f->link);
	r->runq_len++;
}

static void
fiber_wake_arrived(struct rt_msg *m)
{
	fiber_queue_local(rt_cur, container_of(m, struct fiber, wake_msg));
}

void
fiber_enqueue(struct fiber *f)
{
	struct reactor *r = rt_cur;
	if (r != NULL && r->id == f->reactor) {
		fiber_queue_local(r, f);
		return;
	}
	f->wake_msg.fn = fiber_wake_arrived;
	rt_post(f->reactor, &f->wake_msg);
}

void
fiber_wake(struct fiber *f)
{
	uint32_t state = atomic_load_explicit(&f->state, memory_order_relaxed);
	for (;;) {
		uint32_t next = state;
		if (state == FIBER_PARKED) {
			next = FIBER_QUEUED;
		} else if (state == FIBER_RUNNING) {
			next = FIBER_NOTIFIED;
		}
		/* Also when nothing changes, so that what the waker wrote is seen by the woken. */
		if (atomic_compare_exchange_weak_explicit(
			&f->state, &state, next, memory_order_acq_rel, memory_order_relaxed)) {
			break;
		}
	}
	if (state == FIBER_PARKED) {
		fiber_enqueue(f);
	}
}

void
fiber_resume(struct reactor *r, struct fiber *f)
{
	ASSERT_SLOW(f->reactor == r->id && r->current == NULL);
	uint32_t state = FIBER_QUEUED;
	/* Fails for one that yielded: it is RUNNING, or NOTIFIED and keeps its token. */
	(void)atomic_compare_exchange_strong_explicit(
	    &f->state, &state, FIBER_RUNNING, memory_order_acq_rel, memory_order_acquire);
	r->current = f;
	fiber_ctx_switch(&r->loop, &f->ctx);
	r->current = NULL;
	if (f->ended) {
		fiber_pool_give(r, f);
	}
}

void
fiber_suspend(struct reactor *r)
{
#ifdef AGATE_DEBUG
	ASSERT(spins_held == 0);
#endif
	struct fiber *f = r->current;
	f->slice_start_ns = 0;
	fiber_ctx_switch(&f->ctx, &r->loop);
}

/* True when the token was there (and is taken now); else the fiber has been parked and resumed.
 * Some simulations return without reason: callers loop. */
static bool
fiber_park_once(struct fiber *f)
{
	uint32_t state = FIBER_RUNNING;
	if (BUGGIFY("base_spurious_wake")) {
		fiber_yield();
		return true;
	}
	if (!atomic_compare_exchange_strong_explicit(
		&f->state, &state, FIBER_PARKED, memory_order_acq_rel, memory_order_acquire)) {
		ASSERT(state == FIBER_NOTIFIED);
		atomic_store_explicit(&f->state, FIBER_RUNNING, memory_order_relaxed);
		return true;
	}
	fiber_suspend(rt_cur);
	return false;
}

void
fiber_park(void)
{
	(void)fiber_park_once(rt_cur->current);
}

static void
fiber_timer_fired(struct rt_timer *t)
{
	struct fiber *f = container_of(t, struct fiber, timer);
	uint32_t state = FIBER_PARKED;
	/* Lost to a waker on another reactor: then the deadline did not come first. */
	if (atomic_compare_exchange_strong(&f->state, &state, FIBER_QUEUED)) {
		f->timer_fired = true;
		fiber_enqueue(f);
	}
}

int
fiber_park_until(uint64_t deadline_ns)
{
	struct fiber *f = rt_cur->current;
	if (deadline_ns == RT_FOREVER) {
		(void)fiber_park_once(f);
		return 0;
	}
	f->timer_fired = false;
	rt_timer_arm(&f->timer, deadline_ns, fiber_timer_fired);
	(void)fiber_park_once(f);
	if (f->timer_fired) {
		return -ETIMEDOUT;
	}
	rt_timer_cancel(&f->timer);
	return 0;
}

void
fiber_yield(void)
{
	/* It stays RUNNING or NOTIFIED in the queue: a wake leaves the token, and queues nothing.
	 */
	struct reactor *r = rt_cur;
	fiber_queue_local(r, r->current);
	fiber_suspend(r);
}

void
fiber_maybe_yield(void)
{
	struct fiber *f = rt_cur->current;
	if (rt.sim) {
		/* A run takes no virtual time, so chance decides. */
		if (rand_next(&rt.rand_sched) % 4 == 0) {
			fiber_yield();
		}
		return;
	}
	uint64_t now = rt_now_ns();
	if (f->slice_start_ns == 0) {
		f->slice_start_ns = now;
	} else if (now - f->slice_start_ns > RT_SLICE_NS_MAX) {
		fiber_yield();
	}
}

void
fiber_sleep_until(uint64_t deadline_ns)
{
	bool token = false;
	while (rt_now_ns() < deadline_ns) {
		/* A wake meant for a later park must not be eaten here. */
		token |= fiber_park_until(deadline_ns) == 0;
	}
	if (token) {
		fiber_wake(rt_cur->current);
	}
}

void
fiber_sleep(uint64_t ns)
{
	uint64_t now = rt_now_ns();
	fiber_sleep_until(ns < RT_FOREVER - now ? now + ns : RT_FOREVER);
}
