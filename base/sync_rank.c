/*
 * sync_rank.c - the order of locks, checked while the code runs (debug): each fiber keeps the locks
 * it holds; taking one whose rank is not above all of them stops the program with both names of
 * rank. Deadlocks between two orders thus show without the unlucky timing.
 */
#include "base/check.h"
#include "base/log.h"
#include "base/rt_int.h"
#include "base/sync_int.h"

#ifdef AGATE_DEBUG

void
rank_check(const void *lock, unsigned rank, bool nested)
{
	const struct fiber *f = fiber_self();
	ASSERT(f != NULL); /* locks are for fibers */
	for (uint32_t i = 0; i < f->held_count; i++) {
		const struct held_lock *held = &f->held[i];
		ASSERT(held->lock != lock);
		if (held->rank > rank || (held->rank == rank && !nested)) {
			log_error("lock_order fiber=%s held_rank=%u wanted_rank=%u", f->name,
			    held->rank, rank);
			check_failed(__FILE__, __LINE__, "lock rank above all that are held");
		}
	}
}

void
rank_push(const void *lock, unsigned rank)
{
	struct fiber *f = fiber_self();
	ASSERT(f->held_count < FIBER_LOCKS_HELD_MAX);
	f->held[f->held_count++] = (struct held_lock){.lock = lock, .rank = rank};
}

void
rank_pop(const void *lock)
{
	struct fiber *f = fiber_self();
	ASSERT(f != NULL);
	for (uint32_t i = f->held_count; i-- > 0;) {
		if (f->held[i].lock == lock) {
			f->held[i] = f->held[--f->held_count];
			return;
		}
	}
	check_failed(__FILE__, __LINE__, "unlocked by a fiber that holds the lock");
}

#else

void
rank_check(const void *lock, unsigned rank, bool nested)
{
	(void)lock;
	(void)rank;
	(void)nested;
}

void
rank_push(const void *lock, unsigned rank)
{
	(void)lock;
	(void)rank;
}

void
rank_pop(const void *lock)
{
	(void)lock;
}

#endif
