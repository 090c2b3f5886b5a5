/*
 * fiber_pool.c - stacks by class and reactor.
 *
 * The whole range of a class is reserved at start and costs nothing until a stack is first used. A
 * freed stack is the next one taken, so that a quiet reactor stays on few, warm stacks. The page
 * below each stack is a guard: an overflow faults instead of reaching the neighbour. Where the
 * kernel has guard markers they are used, since they don't split the mapping: with mprotect the
 * full number of stacks of 16 reactors would exceed the default limit of mappings of a process, in
 * which case a class simply has fewer stacks (backpressure).
 *
 * Invariants: a fiber is FREE exactly while it is untouched or on the free list; used counts the
 * others; a waiter is given a fiber directly, so that nobody overtakes it.
 */
#include <sys/mman.h>
#include <string.h>
#include "base/check.h"
#include "base/log.h"
#include "base/rt_int.h"

#ifndef MADV_GUARD_INSTALL
#define MADV_GUARD_INSTALL 102
#endif
/* Debug: a fiber that ends with fewer than this many bytes of its stack never used is stopped. */
#define FIBER_MARGIN_BYTES (FIBER_STACK_BYTES / 8)
#ifdef AGATE_DEBUG
#define FIBER_CHECK_MARGIN true
#else
#define FIBER_CHECK_MARGIN false
#endif
/* Stack tops are spread over this many cache-line groups. */
#define FIBER_COLOURS 16u
#define FIBER_COLOUR_BYTES 192u

static const uint32_t class_limit[FIBER_CLASSES] = {
    [FIBER_REQUEST] = 4096,
    [FIBER_SYNC] = 64,
    [FIBER_REPAIR] = 32,
    [FIBER_ADMIN] = 16,
};

struct spawn_waiter {
	struct list link;
	struct fiber *waiting;
	struct fiber *given;
};

static uint8_t *
fiber_stack(const struct fiber_pool *p, uint32_t index)
{
	return p->stacks + index * (FIBER_STACK_BYTES + FIBER_GUARD_BYTES) + FIBER_GUARD_BYTES;
}

static size_t
fiber_stacks_bytes(uint32_t limit)
{
	return limit * (FIBER_STACK_BYTES + FIBER_GUARD_BYTES);
}

static bool
fiber_guard_install(uint8_t *guard)
{
	return madvise(guard, FIBER_GUARD_BYTES, MADV_GUARD_INSTALL) == 0 ||
	       mprotect(guard, FIBER_GUARD_BYTES, PROT_NONE) == 0;
}

/* The entry of every fiber, for the life of its stack: runs one birth after the other. */
static void
fiber_live(void *arg)
{
	struct fiber *f = arg;
	fiber_ctx_arrived(&f->ctx, &rt.reactors[f->reactor].loop);
	for (;;) {
		f->fn(f->arg);
#ifdef AGATE_DEBUG
		ASSERT(f->held_count == 0);
#endif
		f->ended = true;
		fiber_suspend(&rt.reactors[f->reactor]);
	}
}

int
fiber_pools_start(struct reactor *r)
{
	for (unsigned cls = 0; cls < FIBER_CLASSES; cls++) {
		struct fiber_pool *p = &r->pools[cls];
		spin_init(&p->guard);
		list_init(&p->free);
		list_init(&p->waiters);
		p->limit = class_limit[cls];
		p->fibers = rt_map(p->limit * sizeof(struct fiber));
		p->stacks = rt_map(fiber_stacks_bytes(p->limit));
		if (p->fibers == NULL || p->stacks == NULL) {
			return -ENOMEM;
		}
		/* A huge page under one stack would be 31 stacks of memory for nothing. Advice
		 * only. */
		(void)madvise(p->stacks, fiber_stacks_bytes(p->limit), MADV_NOHUGEPAGE);
	}
	return 0;
}

/* Bytes at the low end of the stack that were never used; fresh memory is zero. Looks at no more
 * than limit_bytes. Reads what frames left behind, which the sanitizers would take for an error. */
__attribute__((no_sanitize("address", "thread"))) static size_t
fiber_stack_unused(const struct fiber_pool *p, uint32_t index, size_t limit_bytes)
{
	const uint64_t *word = (const uint64_t *)(const void *)fiber_stack(p, index);
	size_t words = limit_bytes / sizeof(*word);
	size_t i = 0;
	while (i < words && word[i] == 0) {
		i++;
	}
	return i * sizeof(*word);
}

static void
fiber_pool_report(const struct reactor *r, unsigned cls)
{
	const struct fiber_pool *p = &r->pools[cls];
	size_t unused = FIBER_STACK_BYTES;
	for (uint32_t i = 0; i < p->touched; i++) {
		unused = MIN(unused, fiber_stack_unused(p, i, FIBER_STACK_BYTES));
	}
	log_debug("fiber_stacks reactor=%u class=%u stacks=%u deepest_bytes=%zu", r->id, cls,
	    p->touched, FIBER_STACK_BYTES - unused);
}

void
fiber_pools_stop(struct reactor *r)
{
	for (unsigned cls = 0; cls < FIBER_CLASSES; cls++) {
		struct fiber_pool *p = &r->pools[cls];
		if (p->touched > 0 && log_enabled(LOG_DEBUG)) {
			fiber_pool_report(r, cls);
		}
		for (uint32_t i = 0; i < p->touched; i++) {
			fiber_ctx_destroy(&p->fibers[i].ctx);
		}
		rt_unmap(p->fibers, p->limit * sizeof(struct fiber));
		rt_unmap(p->stacks, fiber_stacks_bytes(p->limit));
		memset(p, 0, sizeof(*p));
	}
}

/* The first use of a stack; under the guard, since it happens once a stack. */
static struct fiber *
fiber_pool_touch(struct reactor *r, struct fiber_pool *p)
{
	uint32_t index = p->touched;
	if (index == p->limit) {
		return NULL;
	}
	uint8_t *stack = fiber_stack(p, index);
	if (!fiber_guard_install(stack - FIBER_GUARD_BYTES)) {
		return NULL;
	}
	struct fiber *f = &p->fibers[index];
	f->reactor = (uint16_t)r->id;
	f->cls = (uint8_t)(p - r->pools);
	f->index = index;
	size_t colour = (index % FIBER_COLOURS) * FIBER_COLOUR_BYTES;
	fiber_ctx_init(&f->ctx, stack, colour, fiber_live, f);
	p->touched++;
	return f;
}

static struct fiber *
fiber_pool_take_locked(struct reactor *r, struct fiber_pool *p)
{
	struct fiber *f;
	if (!list_empty(&p->free)) {
		f = list_first(&p->free, struct fiber, link);
		list_remove(&f->link);
	} else {
		f = fiber_pool_touch(r, p);
	}
	p->used += f != NULL;
	return f;
}

struct fiber *
fiber_pool_take(struct reactor *r, enum fiber_class cls)
{
	struct fiber_pool *p = &r->pools[cls];
	spin_lock(&p->guard);
	struct fiber *f = fiber_pool_take_locked(r, p);
	spin_unlock(&p->guard);
	return f;
}

struct fiber *
fiber_pool_take_wait(struct reactor *r, enum fiber_class cls)
{
	struct fiber_pool *p = &r->pools[cls];
	spin_lock(&p->guard);
	struct fiber *f = fiber_pool_take_locked(r, p);
	if (f != NULL) {
		spin_unlock(&p->guard);
		return f;
	}
	ASSERT(p->used > 0); /* else nobody would ever give one */
	struct spawn_waiter w = {.waiting = fiber_self()};
	list_push_back(&p->waiters, &w.link);
	while (w.given == NULL) {
		spin_unlock(&p->guard);
		fiber_park();
		spin_lock(&p->guard);
	}
	spin_unlock(&p->guard);
	return w.given;
}

void
fiber_pool_give(struct reactor *r, struct fiber *f)
{
	struct fiber_pool *p = &r->pools[f->cls];
	if (FIBER_CHECK_MARGIN) {
		ASSERT(fiber_stack_unused(p, f->index, FIBER_MARGIN_BYTES) == FIBER_MARGIN_BYTES);
	}
	atomic_store_explicit(&f->state, FIBER_FREE, memory_order_release);
	struct fiber *waiting = NULL;
	spin_lock(&p->guard);
	if (list_empty(&p->waiters)) {
		list_push_front(&p->free, &f->link);
		p->used--;
	} else {
		struct spawn_waiter *w = list_first(&p->waiters, struct spawn_waiter, link);
		list_remove(&w->link);
		w->given = f;
		waiting = w->waiting;
	}
	spin_unlock(&p->guard);
	if (waiting != NULL) {
		fiber_wake(waiting);
	}
}

unsigned
fiber_pools_used(void)
{
	unsigned used = 0;
	for (unsigned i = 0; i < rt.count; i++) {
		for (unsigned cls = 0; cls < FIBER_CLASSES; cls++) {
			struct fiber_pool *p = &rt.reactors[i].pools[cls];
			spin_lock(&p->guard);
			used += p->used;
			spin_unlock(&p->guard);
		}
	}
	return used;
}

static void
fiber_pool_name(const char *event, const struct reactor *r, const struct fiber_pool *p)
{
	static const char *const state_text[] = {
	    [FIBER_FREE] = "free",
	    [FIBER_QUEUED] = "queued",
	    [FIBER_RUNNING] = "running",
	    [FIBER_NOTIFIED] = "notified",
	    [FIBER_PARKED] = "parked",
	};
	for (uint32_t i = 0; i < p->touched; i++) {
		const struct fiber *f = &p->fibers[i];
		uint32_t state = atomic_load(&f->state);
		if (state != FIBER_FREE) {
			log_error("%s fiber=%s reactor=%u state=%s", event, f->name, r->id,
			    state_text[state]);
		}
	}
}

void
fiber_pools_name(const char *event)
{
	for (unsigned i = 0; i < rt.count; i++) {
		const struct reactor *r = &rt.reactors[i];
		for (unsigned cls = 0; cls < FIBER_CLASSES; cls++) {
			fiber_pool_name(event, r, &r->pools[cls]);
		}
	}
}
