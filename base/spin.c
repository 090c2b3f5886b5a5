/*
 * spin.c - the spin lock, and the waiters' common part. The holder is a few instructions from
 * letting go unless its thread was preempted, so after some tries the spinner gives its core away.
 * In the simulation nobody else can hold it: contention there is a lock held over a park.
 */
#include <sched.h>
#include "base/check.h"
#include "base/rt_int.h"
#include "base/sync_int.h"

#define SPIN_TRIES_BEFORE_YIELD 200u

#ifdef AGATE_DEBUG
_Thread_local unsigned spins_held;
#endif

void
spin_init(struct spin *s)
{
	atomic_flag_clear_explicit(&s->held, memory_order_relaxed);
}

static void
spin_wait(struct spin *s)
{
	ASSERT(!rt.sim);
	for (unsigned tries = 1; atomic_flag_test_and_set_explicit(&s->held, memory_order_acquire);
	     tries++) {
		if (tries % SPIN_TRIES_BEFORE_YIELD == 0) {
			sched_yield();
			continue;
		}
		cpu_relax();
	}
}

void
spin_lock(struct spin *s)
{
	if (unlikely(atomic_flag_test_and_set_explicit(&s->held, memory_order_acquire))) {
		spin_wait(s);
	}
#ifdef AGATE_DEBUG
	spins_held++;
#endif
}

void
spin_unlock(struct spin *s)
{
#ifdef AGATE_DEBUG
	ASSERT(spins_held > 0);
	spins_held--;
#endif
	atomic_flag_clear_explicit(&s->held, memory_order_release);
}

void
waiter_init(struct waiter *w)
{
	*w = (struct waiter){.fiber = fiber_self()};
	ASSERT(w->fiber != NULL);
	list_init(&w->link);
}

void
waiter_park(struct spin *guard, struct waiter *w)
{
	while (!w->granted) {
		spin_unlock(guard);
		fiber_park();
		spin_lock(guard);
	}
}

int
waiter_park_until(struct spin *guard, struct waiter *w, uint64_t deadline_ns)
{
	int err = 0;
	while (!w->granted && err == 0) {
		spin_unlock(guard);
		err = fiber_park_until(deadline_ns);
		spin_lock(guard);
	}
	if (w->granted) {
		return 0;
	}
	list_remove(&w->link);
	return err;
}

struct waiter *
waiter_first(const struct list *l)
{
	return list_empty(l) ? NULL : list_first(l, struct waiter, link);
}

void
waiter_grant(struct waiter *w)
{
	list_remove(&w->link);
	w->granted = true;
	fiber_wake(w->fiber);
}
