/*
 * mutex.c - the mutex and the condition variable.
 *
 * Unlocking makes the mutex free and wakes the first waiter, which keeps its place in the queue
 * until it has the lock: a running fiber may barge in meanwhile, which saves a switch for each
 * short section. A first waiter that has been overtaken for 1 ms asks for a hand-over; the next
 * unlock then makes it the owner directly. While handoff is set nobody else may take a free mutex.
 */
#include "base/check.h"
#include "base/rt_int.h"
#include "base/sync_int.h"

#define MUTEX_STARVED_NS NSEC_PER_MSEC

/* Changed under the guard only, but looked at without it by mutex_held. */
static void
mutex_set_owner(struct mutex *m, struct fiber *f)
{
	__atomic_store_n(&m->owner, f, __ATOMIC_RELAXED);
}

void
mutex_init(struct mutex *m, enum lock_rank rank)
{
	spin_init(&m->guard);
	m->owner = NULL;
	list_init(&m->waiters);
	m->rank = (uint16_t)rank;
	m->handoff = false;
}

/* guard is held; waits until f owns m. */
static void
mutex_wait(struct mutex *m, struct fiber *f)
{
	struct waiter w;
	waiter_init(&w);
	list_push_back(&m->waiters, &w.link);
	uint64_t since = rt_now_ns();
	while (m->owner != f) {
		bool first = m->waiters.next == &w.link;
		if (m->owner == NULL && first) {
			mutex_set_owner(m, f);
			break;
		}
		if (first && rt_now_ns() - since > MUTEX_STARVED_NS) {
			m->handoff = true;
		}
		spin_unlock(&m->guard);
		fiber_park();
		spin_lock(&m->guard);
	}
	list_remove(&w.link);
}

static void
mutex_lock_checked(struct mutex *m, bool nested)
{
	struct fiber *f = fiber_self();
	rank_check(m, m->rank, nested);
	spin_lock(&m->guard);
	ASSERT(m->owner != f);
	if (m->owner == NULL && !m->handoff) {
		mutex_set_owner(m, f);
	} else {
		mutex_wait(m, f);
	}
	spin_unlock(&m->guard);
	rank_push(m, m->rank);
}

void
mutex_lock(struct mutex *m)
{
	mutex_lock_checked(m, false);
}

void
mutex_lock_nested(struct mutex *m)
{
	mutex_lock_checked(m, true);
}

bool
mutex_trylock(struct mutex *m)
{
	struct fiber *f = fiber_self();
	ASSERT(f != NULL);
	spin_lock(&m->guard);
	bool taken = m->owner == NULL && !m->handoff;
	if (taken) {
		mutex_set_owner(m, f);
	}
	spin_unlock(&m->guard);
	if (taken) {
		rank_push(m, m->rank);
	}
	return taken;
}

void
mutex_unlock(struct mutex *m)
{
	struct fiber *next = NULL;
	rank_pop(m);
	spin_lock(&m->guard);
	ASSERT(m->owner == fiber_self());
	mutex_set_owner(m, NULL);
	struct waiter *w = waiter_first(&m->waiters);
	if (w != NULL) {
		next = w->fiber;
		if (m->handoff) {
			mutex_set_owner(m, next);
			m->handoff = false;
		}
	}
	spin_unlock(&m->guard);
	/* m may be gone by now: its next owner may free it. */
	if (next != NULL) {
		fiber_wake(next);
	}
}

bool
mutex_held(const struct mutex *m)
{
	/* Only its own fiber can make this true or untrue, so the plain look is sound for its
	 * purpose. */
	return __atomic_load_n(&m->owner, __ATOMIC_RELAXED) == fiber_self() && fiber_self() != NULL;
}

void
cond_init(struct cond *c)
{
	spin_init(&c->guard);
	list_init(&c->waiters);
}

int
cond_wait_until(struct cond *c, struct mutex *m, uint64_t deadline_ns)
{
	struct waiter w;
	waiter_init(&w);
	spin_lock(&c->guard);
	list_push_back(&c->waiters, &w.link);
	spin_unlock(&c->guard);
	mutex_unlock(m);
	spin_lock(&c->guard);
	int err = waiter_park_until(&c->guard, &w, deadline_ns);
	spin_unlock(&c->guard);
	mutex_lock_nested(m);
	return err;
}

void
cond_wait(struct cond *c, struct mutex *m)
{
	/* Without a deadline it can't time out. */
	(void)cond_wait_until(c, m, RT_FOREVER);
}

void
cond_signal(struct cond *c)
{
	spin_lock(&c->guard);
	struct waiter *w = waiter_first(&c->waiters);
	if (w != NULL) {
		waiter_grant(w);
	}
	spin_unlock(&c->guard);
}

void
cond_broadcast(struct cond *c)
{
	struct waiter *w;
	spin_lock(&c->guard);
	while ((w = waiter_first(&c->waiters)) != NULL) {
		waiter_grant(w);
	}
	spin_unlock(&c->guard);
}
