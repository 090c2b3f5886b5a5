/*
 * arena.c - budgets, waiting and giving way. Where a block comes from is arena_buddy.c's matter.
 *
 * An allocation goes through two gates. First the budget of its use: `used` is raised by the
 * capacity, never above the limit, or the fiber queues. Then a block: since the limits sum up to
 * the arena there normally is one, but it may be in another reactor's front cache, in pieces, or
 * held by the cache, which iobuf_recount may have pushed over its limit. Then the fronts are
 * drained and the reclaim hook is asked for more and more until a large enough block is free; if
 * the cache has nothing left to give, the fiber waits for buffers to be freed.
 *
 * Invariants
 *   1. used of a use is the sum of the capacities of the buffers counted against it (plus what
 *      allocations between the two gates hold). Only iobuf_recount takes it above the limit.
 *   2. While a use has waiters nobody passes them: fast path and try variant fail, and what is
 * freed is handed to the head of the queue (budget_grant), under the guard, before the head runs.
 *   3. Nobody sleeps at the second gate for longer than SHORT_RETRY_NS: a cached block that its
 * last reader let go of can be evicted, but nothing in here sees that moment.
 *   4. The hook is called with no lock held. It frees through iobuf_unref.
 *
 * Waiters at the first gate are woken by what frees memory of the same use: sync for dirty, replies
 * for receive, the log for log. For the cache that is the hook, asked again every SHORT_RETRY_NS.
 */
#include "base/arena_int.h"

#include <errno.h>
#include "base/bug.h"
#include "base/check.h"
#include "base/log.h"
#include "base/rt_int.h"

#define SHORT_RETRY_NS (5 * NSEC_PER_MSEC)
#define RECLAIM_ROUNDS_MAX 64

struct budget_waiter {
	struct list link;
	struct fiber *fiber;
	uint64_t bytes;
	bool granted; /* under the budget's guard */
};

struct short_waiter {
	struct list link;
	struct fiber *fiber;
	unsigned order;
	bool woken; /* under short_guard */
};

/* The arena of the runtime: made before its first fiber, dropped after its last one. */
static struct arena *the_arena;

/* ---- first gate: the budget ---- */

static bool
budget_try_raise(struct arena_budget *u, uint64_t bytes)
{
	uint64_t used = atomic_load_explicit(&u->used, memory_order_relaxed);

	do {
		if (used + bytes > u->limit_bytes) {
			return false;
		}
	} while (!atomic_compare_exchange_weak(&u->used, &used, used + bytes));
	return true;
}

static bool
budget_try(struct arena_budget *u, uint64_t bytes)
{
	return atomic_load(&u->waiting) == 0 && budget_try_raise(u, bytes);
}

/* Serves the queue from its head for as long as the budget lasts. Holds the guard. */
static void
budget_grant(struct arena_budget *u)
{
	while (!list_empty(&u->waiters)) {
		struct budget_waiter *w = list_first(&u->waiters, struct budget_waiter, link);

		if (!budget_try_raise(u, w->bytes)) {
			return;
		}
		list_remove(&w->link);
		atomic_fetch_sub(&u->waiting, 1);
		w->granted = true;
		fiber_wake(w->fiber);
	}
}

static void
budget_lower(struct arena_budget *u, uint64_t bytes)
{
	atomic_fetch_sub(&u->used, bytes);
	/* Pairs with budget_queue: it announces itself first and looks at used afterwards. */
	if (atomic_load(&u->waiting) > 0) {
		spin_lock(&u->guard);
		budget_grant(u);
		spin_unlock(&u->guard);
	}
}

static void
budget_queue(struct arena_budget *u, struct budget_waiter *w, uint64_t bytes)
{
	*w = (struct budget_waiter){.fiber = fiber_self(), .bytes = bytes};
	ASSERT(w->fiber != NULL);
	spin_lock(&u->guard);
	list_push_back(&u->waiters, &w->link);
	atomic_fetch_add(&u->waiting, 1);
	budget_grant(u);
	spin_unlock(&u->guard);
}

static bool
budget_is_granted(struct arena_budget *u, struct budget_waiter *w)
{
	bool granted;

	spin_lock(&u->guard);
	granted = w->granted;
	spin_unlock(&u->guard);
	return granted;
}

/* ---- the cache gives way ---- */

static uint64_t
reclaim(struct arena *a, uint64_t want_bytes)
{
	uint64_t (*fn)(void *, uint64_t), freed = 0;

	atomic_fetch_add(&a->reclaim_busy, 1);
	fn = atomic_load(&a->reclaim);
	if (fn != NULL) {
		freed = fn(atomic_load(&a->reclaim_arg), want_bytes);
	}
	atomic_fetch_sub(&a->reclaim_busy, 1);
	return freed;
}

void
arena_set_reclaim(uint64_t (*fn)(void *arg, uint64_t want_bytes), void *arg)
{
	struct arena *a = the_arena;

	ASSERT(a != NULL);
	atomic_store(&a->reclaim, NULL);
	/* The old one may be running on another reactor; it neither parks nor allocates. */
	while (atomic_load(&a->reclaim_busy) > 0) {
		cpu_relax();
	}
	atomic_store(&a->reclaim_arg, arg);
	atomic_store(&a->reclaim, fn);
}

void *
arena_reclaim_arg(void)
{
	struct arena *a = the_arena;

	ASSERT(a != NULL);
	return atomic_load(&a->reclaim) != NULL ? atomic_load(&a->reclaim_arg) : NULL;
}

/* Recounting may take the cache above its limit; the next allocation of anything brings it back. */
static void
cache_trim(struct arena *a)
{
	struct arena_budget *u = &a->budget[ARENA_CACHE];
	uint64_t used = atomic_load_explicit(&u->used, memory_order_relaxed);

	if (likely(used <= u->limit_bytes) || atomic_exchange(&a->trimming, true)) {
		return;
	}
	(void)reclaim(a, used - u->limit_bytes);
	atomic_store(&a->trimming, false);
}

/* The first gate for clean blocks: old ones go before new ones wait. */
static bool
cache_budget_try(struct arena *a, uint64_t bytes)
{
	struct arena_budget *u = &a->budget[ARENA_CACHE];

	for (unsigned round = 0; round < RECLAIM_ROUNDS_MAX; round++) {
		if (budget_try(u, bytes)) {
			return true;
		}
		if (reclaim(a, bytes) == 0) {
			break;
		}
	}
	return budget_try(u, bytes);
}

static bool
budget_enter(struct arena *a, enum arena_use use, uint64_t bytes)
{
	if (use == ARENA_CACHE) {
		return cache_budget_try(a, bytes);
	}
	cache_trim(a);
	return budget_try(&a->budget[use], bytes);
}

static void
budget_wait(struct arena *a, enum arena_use use, uint64_t bytes)
{
	struct arena_budget *u = &a->budget[use];
	struct budget_waiter w;

	budget_queue(u, &w, bytes);
	while (!budget_is_granted(u, &w)) {
		if (use != ARENA_CACHE) {
			fiber_park();
		} else if (fiber_park_until(rt_now_ns() + SHORT_RETRY_NS) != 0) {
			(void)reclaim(a, bytes);
		}
	}
}

/* ---- second gate: a block ---- */

/* A free block of order merged has appeared: wakes those it may serve, first come first, no more
 * than its bytes are good for. */
static void
short_wake(struct arena *a, unsigned merged)
{
	uint64_t pages = (uint64_t)1 << merged;

	spin_lock(&a->short_guard);
	list_for_each(l, &a->short_waiters)
	{
		struct short_waiter *w = list_entry(l, struct short_waiter, link);

		if (pages == 0) {
			break;
		}
		if (!w->woken && (uint64_t)1 << w->order <= pages) {
			pages -= (uint64_t)1 << w->order;
			w->woken = true;
			fiber_wake(w->fiber);
		}
	}
	spin_unlock(&a->short_guard);
}

/* All that can be done without waiting. What is asked of the cache doubles each round: evicting a
 * few scattered blocks makes bytes, but not one large block. */
static struct iobuf *
block_get_hard(struct arena *a, enum arena_use use, unsigned order)
{
	uint64_t want = (uint64_t)IOBUF_BYTES_MIN << order;
	struct iobuf *b = NULL;

	atomic_fetch_add(&a->pressure, 1);
	for (unsigned round = 0; round < RECLAIM_ROUNDS_MAX; round++) {
		arena_fronts_drain(a);
		b = arena_block_get_shared(a, use, order);
		if (b != NULL || reclaim(a, want) == 0) {
			break;
		}
		want = MIN(want * 2, a->size_bytes / 8);
	}
	if (b == NULL) {
		b = arena_block_get_shared(a, use, order);
	}
	atomic_fetch_sub(&a->pressure, 1);
	return b;
}

static struct iobuf *
block_wait(struct arena *a, enum arena_use use, unsigned order)
{
	struct short_waiter w = {.fiber = fiber_self(), .order = order};
	struct iobuf *b = NULL;

	ASSERT(w.fiber != NULL);
	atomic_fetch_add(&a->pressure, 1);
	spin_lock(&a->short_guard);
	list_push_back(&a->short_waiters, &w.link);
	spin_unlock(&a->short_guard);
	while ((b = block_get_hard(a, use, order)) == NULL) {
		(void)fiber_park_until(rt_now_ns() + SHORT_RETRY_NS);
		spin_lock(&a->short_guard);
		w.woken = false;
		spin_unlock(&a->short_guard);
	}
	spin_lock(&a->short_guard);
	list_remove(&w.link);
	spin_unlock(&a->short_guard);
	atomic_fetch_sub(&a->pressure, 1);
	return b;
}

static struct iobuf *
block_get(struct arena *a, enum arena_use use, unsigned order)
{
	struct iobuf *b = arena_block_get(a, use, order);

	return likely(b != NULL) ? b : block_get_hard(a, use, order);
}

/* ---- the calls ---- */

static unsigned
order_for(uint32_t len_bytes)
{
	unsigned order = 0;

	while (IOBUF_BYTES_MIN << order < len_bytes) {
		order++;
	}
	return order;
}

static struct iobuf *
iobuf_open(struct iobuf *b, enum arena_use use)
{
	__atomic_store_n(&b->use, (uint16_t)use, __ATOMIC_RELAXED);
	atomic_store_explicit(&b->refs, 1, memory_order_relaxed);
	return b;
}

/* Passes the first gate, however long it takes. */
static void
budget_pass(struct arena *a, enum arena_use use, uint64_t bytes)
{
	if (!budget_enter(a, use, bytes)) {
		budget_wait(a, use, bytes);
	}
}

/* Passes the second one. */
static struct iobuf *
block_pass(struct arena *a, enum arena_use use, unsigned order)
{
	struct iobuf *b = block_get(a, use, order);

	return iobuf_open(likely(b != NULL) ? b : block_wait(a, use, order), use);
}

int
iobuf_alloc(uint32_t len_bytes, enum arena_use use, struct iobuf **out)
{
	struct arena *a = the_arena;
	unsigned order;

	ASSERT(a != NULL && use < ARENA_USES);
	if (len_bytes > IOBUF_BYTES_MAX) {
		return -EINVAL;
	}
	order = order_for(len_bytes);
	budget_pass(a, use, (uint64_t)IOBUF_BYTES_MIN << order);
	*out = block_pass(a, use, order);
	return 0;
}

int
iobuf_alloc_many(const uint32_t *len_bytes, unsigned count, enum arena_use use, struct iobuf **out)
{
	struct arena *a = the_arena;
	uint64_t sum = 0;

	ASSERT(a != NULL && use < ARENA_USES);
	for (unsigned i = 0; i < count; i++) {
		if (len_bytes[i] > IOBUF_BYTES_MAX) {
			return -EINVAL;
		}
		sum += (uint64_t)IOBUF_BYTES_MIN << order_for(len_bytes[i]);
	}
	if (sum > a->budget[use].limit_bytes) {
		return -EINVAL;
	}
	budget_pass(a, use, sum);
	for (unsigned i = 0; i < count; i++) {
		out[i] = block_pass(a, use, order_for(len_bytes[i]));
	}
	return 0;
}

int
iobuf_try_alloc(uint32_t len_bytes, enum arena_use use, struct iobuf **out)
{
	struct arena *a = the_arena;
	struct iobuf *b;
	unsigned order;

	ASSERT(a != NULL && use < ARENA_USES);
	if (len_bytes > IOBUF_BYTES_MAX) {
		return -EINVAL;
	}
	order = order_for(len_bytes);
	if (BUGGIFY("arena_try_alloc_fails") ||
	    !budget_enter(a, use, (uint64_t)IOBUF_BYTES_MIN << order)) {
		return -ENOMEM;
	}
	b = block_get(a, use, order);
	if (b == NULL) {
		budget_lower(&a->budget[use], (uint64_t)IOBUF_BYTES_MIN << order);
		return -ENOMEM;
	}
	*out = iobuf_open(b, use);
	return 0;
}

struct iobuf *
iobuf_ref(struct iobuf *b)
{
	unsigned before = atomic_fetch_add_explicit(&b->refs, 1, memory_order_relaxed);

	ASSERT(before > 0);
	return b;
}

void
iobuf_unref(struct iobuf *b)
{
	struct arena *a = the_arena;
	unsigned before;
	uint64_t bytes;
	uint16_t use;
	int merged;

	if (b == NULL) {
		return;
	}
	before = atomic_fetch_sub_explicit(&b->refs, 1, memory_order_acq_rel);
	ASSERT(before > 0);
	if (before > 1) {
		return;
	}
	bytes = b->cap_bytes;
	use = __atomic_load_n(&b->use, __ATOMIC_RELAXED);
	/* The block first: whoever gets the budget then finds memory for it. */
	merged = arena_block_put(a, b);
	budget_lower(&a->budget[use], bytes);
	if (merged >= 0 && unlikely(atomic_load(&a->pressure) > 0)) {
		short_wake(a, (unsigned)merged);
	}
}

void
iobuf_recount(struct iobuf *b, enum arena_use use)
{
	struct arena *a = the_arena;
	uint16_t old;

	ASSERT(use < ARENA_USES && atomic_load_explicit(&b->refs, memory_order_relaxed) > 0);
	atomic_fetch_add(&a->budget[use].used, b->cap_bytes);
	old = __atomic_exchange_n(&b->use, (uint16_t)use, __ATOMIC_RELAXED);
	budget_lower(&a->budget[old], b->cap_bytes);
}

void
arena_get_info(struct arena_info *out)
{
	struct arena *a = the_arena;

	ASSERT(a != NULL);
	out->base = a->base;
	out->size_bytes = a->size_bytes;
	for (unsigned use = 0; use < ARENA_USES; use++) {
		out->budget_bytes[use] = a->budget[use].limit_bytes;
		out->used_bytes[use] = atomic_load(&a->budget[use].used);
	}
}

/* ---- for rt_run ---- */

static void
budgets_init(struct arena *a)
{
	uint64_t limit_bytes[ARENA_USES];

	arena_share(a->size_bytes, limit_bytes);
	for (unsigned use = 0; use < ARENA_USES; use++) {
		struct arena_budget *u = &a->budget[use];

		u->limit_bytes = limit_bytes[use];
		spin_init(&u->guard);
		list_init(&u->waiters);
	}
}

int
arena_create(size_t bytes, bool hugepages)
{
	struct arena *a;
	int err;

	if (the_arena != NULL) {
		return -EEXIST;
	}
	err = arena_map(bytes, hugepages, &a);
	if (err != 0) {
		return err;
	}
	budgets_init(a);
	spin_init(&a->short_guard);
	list_init(&a->short_waiters);
	arena_zones_init(a);
	the_arena = a;
	return 0;
}

uint64_t
arena_destroy(void)
{
	struct arena *a = the_arena;
	uint64_t used = 0;

	if (a == NULL) {
		return 0;
	}
	for (unsigned use = 0; use < ARENA_USES; use++) {
		used += atomic_load(&a->budget[use].used);
	}
	the_arena = NULL;
	arena_unmap(a);
	return used;
}
