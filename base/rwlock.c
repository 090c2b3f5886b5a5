/*
 * rwlock.c - many readers or one writer. New readers queue behind a waiting writer. The lock is
 * given away directly, in turns: what a writer leaves goes to all readers that wait, what the last
 * reader leaves goes to the first writer; so neither kind starves. Without waiting readers it goes
 * from writer to writer.
 */
#include "base/check.h"
#include "base/rt_int.h"
#include "base/sync_int.h"

void
rwlock_init(struct rwlock *l, enum lock_rank rank)
{
	spin_init(&l->guard);
	l->readers = 0;
	l->writer = NULL;
	list_init(&l->waiters);
	l->writers_waiting = 0;
	l->rank = (uint16_t)rank;
}

/* Changed under the guard only, but looked at without it by rwlock_wrheld. */
static void
rwlock_set_writer(struct rwlock *l, struct fiber *f)
{
	__atomic_store_n(&l->writer, f, __ATOMIC_RELAXED);
}

static void
rwlock_wait(struct rwlock *l, bool exclusive)
{
	struct waiter w;
	waiter_init(&w);
	w.exclusive = exclusive;
	l->writers_waiting += exclusive;
	list_push_back(&l->waiters, &w.link);
	waiter_park(&l->guard, &w);
}

static void
rwlock_rdlock_checked(struct rwlock *l, bool nested)
{
	rank_check(l, l->rank, nested);
	spin_lock(&l->guard);
	if (l->writer == NULL && l->writers_waiting == 0) {
		l->readers++;
	} else {
		rwlock_wait(l, false);
	}
	spin_unlock(&l->guard);
	rank_push(l, l->rank);
}

static void
rwlock_wrlock_checked(struct rwlock *l, bool nested)
{
	struct fiber *f = fiber_self();
	rank_check(l, l->rank, nested);
	spin_lock(&l->guard);
	ASSERT(l->writer != f);
	if (l->writer == NULL && l->readers == 0) {
		rwlock_set_writer(l, f);
	} else {
		rwlock_wait(l, true);
	}
	spin_unlock(&l->guard);
	rank_push(l, l->rank);
}

static void
rwlock_grant_readers(struct rwlock *l)
{
	list_for_each_safe(item, next, &l->waiters)
	{
		struct waiter *w = list_entry(item, struct waiter, link);
		if (!w->exclusive) {
			l->readers++;
			waiter_grant(w);
		}
	}
}

static void
rwlock_grant_writer(struct rwlock *l)
{
	list_for_each(item, &l->waiters)
	{
		struct waiter *w = list_entry(item, struct waiter, link);
		if (w->exclusive) {
			rwlock_set_writer(l, w->fiber);
			l->writers_waiting--;
			waiter_grant(w);
			return;
		}
	}
}

void
rwlock_rdunlock(struct rwlock *l)
{
	rank_pop(l);
	spin_lock(&l->guard);
	ASSERT(l->readers > 0 && l->writer == NULL);
	l->readers--;
	if (l->readers == 0) {
		rwlock_grant_writer(l);
	}
	spin_unlock(&l->guard);
}

void
rwlock_wrunlock(struct rwlock *l)
{
	rank_pop(l);
	spin_lock(&l->guard);
	ASSERT(l->writer == fiber_self() && l->readers == 0);
	rwlock_set_writer(l, NULL);
	rwlock_grant_readers(l);
	if (l->readers == 0) {
		rwlock_grant_writer(l);
	}
	spin_unlock(&l->guard);
}

void
rwlock_rdlock(struct rwlock *l)
{
	rwlock_rdlock_checked(l, false);
}

void
rwlock_rdlock_nested(struct rwlock *l)
{
	rwlock_rdlock_checked(l, true);
}

void
rwlock_wrlock(struct rwlock *l)
{
	rwlock_wrlock_checked(l, false);
}

void
rwlock_wrlock_nested(struct rwlock *l)
{
	rwlock_wrlock_checked(l, true);
}

bool
rwlock_wrheld(const struct rwlock *l)
{
	return __atomic_load_n(&l->writer, __ATOMIC_RELAXED) == fiber_self() &&
	       fiber_self() != NULL;
}
