/*
 * sync_count.c - wait group and semaphore. A semaphore serves in order: a small request doesn't
 * overtake a large one that waits, else the large one might wait for ever.
 */
#include "base/check.h"
#include "base/rt_int.h"
#include "base/sync_int.h"

void
wg_init(struct waitgroup *w)
{
	spin_init(&w->guard);
	w->count = 0;
	list_init(&w->waiters);
}

void
wg_add(struct waitgroup *w, uint32_t n)
{
	spin_lock(&w->guard);
	ASSERT(w->count <= UINT32_MAX - n);
	w->count += n;
	spin_unlock(&w->guard);
}

void
wg_done(struct waitgroup *w)
{
	struct waiter *waiting;
	spin_lock(&w->guard);
	ASSERT(w->count > 0);
	w->count--;
	while (w->count == 0 && (waiting = waiter_first(&w->waiters)) != NULL) {
		waiter_grant(waiting);
	}
	spin_unlock(&w->guard);
}

int
wg_wait_until(struct waitgroup *w, uint64_t deadline_ns)
{
	int err = 0;
	spin_lock(&w->guard);
	if (w->count > 0) {
		struct waiter self;
		waiter_init(&self);
		list_push_back(&w->waiters, &self.link);
		err = waiter_park_until(&w->guard, &self, deadline_ns);
	}
	spin_unlock(&w->guard);
	return err;
}

void
wg_wait(struct waitgroup *w)
{
	(void)wg_wait_until(w, RT_FOREVER);
}

void
sem_init_units(struct sem *s, uint64_t units)
{
	spin_init(&s->guard);
	s->units = units;
	list_init(&s->waiters);
}

static void
sem_grant(struct sem *s)
{
	struct waiter *w;
	while ((w = waiter_first(&s->waiters)) != NULL && w->units <= s->units) {
		s->units -= w->units;
		waiter_grant(w);
	}
}

bool
sem_try_take(struct sem *s, uint64_t n)
{
	spin_lock(&s->guard);
	bool taken = list_empty(&s->waiters) && s->units >= n;
	if (taken) {
		s->units -= n;
	}
	spin_unlock(&s->guard);
	return taken;
}

int
sem_take_until(struct sem *s, uint64_t n, uint64_t deadline_ns)
{
	int err = 0;
	spin_lock(&s->guard);
	if (list_empty(&s->waiters) && s->units >= n) {
		s->units -= n;
	} else {
		struct waiter w;
		waiter_init(&w);
		w.units = n;
		list_push_back(&s->waiters, &w.link);
		err = waiter_park_until(&s->guard, &w, deadline_ns);
		if (err != 0) {
			sem_grant(s); /* those behind may want less */
		}
	}
	spin_unlock(&s->guard);
	return err;
}

void
sem_take(struct sem *s, uint64_t n)
{
	(void)sem_take_until(s, n, RT_FOREVER);
}

void
sem_give(struct sem *s, uint64_t n)
{
	spin_lock(&s->guard);
	ASSERT(s->units <= UINT64_MAX - n);
	s->units += n;
	sem_grant(s);
	spin_unlock(&s->guard);
}
