/*
 * rt_int.h - private to base/: the runtime's structures. Field legend: [c] constant once started,
 * [r] touched by the owning reactor's thread only, [g] under the struct's guard, [a] atomic.
 */
#ifndef AGATE_BASE_RT_INT_H
#define AGATE_BASE_RT_INT_H

#include <errno.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "base/compiler.h"
#include "base/list.h"
#include "base/rand.h"
#include "base/rt.h"
#include "base/sync.h"

#define RT_REACTORS_MAX 64u
#define RT_RAND_WORDS 32u
#define RT_TIMERS_MAX (1u << 20)
#define RT_EVENTS_PER_POLL 64
#define RT_HELPERS_DEFAULT 4u
#define RT_HELPERS_MAX 64u
#define RT_SLICE_NS_MAX (150 * NSEC_PER_USEC)
#define FIBER_LOCKS_HELD_MAX 32u

#if defined(__SANITIZE_ADDRESS__)
#define RT_ASAN 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define RT_ASAN 1
#endif
#endif
#if defined(__SANITIZE_THREAD__)
#define RT_TSAN 1
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define RT_TSAN 1
#endif
#endif

#if defined(RT_ASAN) || defined(RT_TSAN)
#define FIBER_STACK_BYTES ((size_t)256 << 10)
#else
#define FIBER_STACK_BYTES ((size_t)64 << 10)
#endif
#define FIBER_GUARD_BYTES ((size_t)4096)

/*
 * States of a fiber, and who moves it:
 *   FREE -> QUEUED        fiber_start, by whoever took it from the pool
 *   QUEUED -> RUNNING     its reactor, when it resumes it
 *   RUNNING -> NOTIFIED   fiber_wake while it runs: the token is there
 *   NOTIFIED -> RUNNING   itself in fiber_park: takes the token, doesn't park
 *   RUNNING -> PARKED     itself in fiber_park
 *   PARKED -> QUEUED      fiber_wake or its timer; this mover alone hands it to its reactor
 *   RUNNING, NOTIFIED -> FREE   its reactor, after fn returned, from the loop's stack
 */
enum fiber_state { FIBER_FREE, FIBER_QUEUED, FIBER_RUNNING, FIBER_NOTIFIED, FIBER_PARKED };

struct held_lock {
	const void *lock;
	unsigned rank;
};

/* What a stack needs to be switched to. */
struct fiber_ctx {
	void *sp;
	const void *stack_bottom; /* sanitizers only */
	size_t stack_bytes;
	void *asan_fake_stack;
	void *tsan_fiber;
};

struct fiber {
	struct list link;     /* [r] run queue; free list of the pool [g] */
	struct fiber_ctx ctx; /* [r] */
	_Atomic uint32_t state;
	uint16_t reactor; /* [c] */
	uint8_t cls;      /* [c] */
	bool ended;       /* [r] fn has returned */
	bool timer_fired; /* [r] */
	uint32_t index;   /* [c] in its pool */
	const char *name; /* set while FREE, as fn, arg and serial */
	fiber_fn *fn;
	void *arg;
	uint64_t serial;
	uint64_t slice_start_ns; /* [r] 0 = not yet looked */
	struct rt_timer timer;   /* [r] */
	struct rt_msg wake_msg;
#ifdef AGATE_DEBUG
	uint32_t held_count; /* [r] */
	struct held_lock held[FIBER_LOCKS_HELD_MAX];
#endif
};

/* Stacks and fibers of one class on one reactor. Memory is reserved at start and touched on first
 * use. */
struct fiber_pool {
	struct spin guard;
	struct fiber *fibers; /* [c] limit of them */
	uint8_t *stacks;      /* [c] limit times guard page and stack */
	uint32_t limit;       /* [c] */
	uint32_t touched;     /* [g] those below it have a stack that was used */
	uint32_t used;        /* [g] */
	struct list free;     /* [g] touched and not used; last in, first out: warm */
	struct list waiters;  /* [g] struct spawn_waiter */
};

struct timer_heap {
	struct rt_timer **slots; /* binary heap; slot 0 is unused */
	uint32_t len;
	uint64_t next_order;
};

struct reactor {
	unsigned id;           /* [c] */
	struct fiber *current; /* [r] */
	struct list runq;      /* [r] */
	uint32_t runq_len;     /* [r] */
	struct fiber_ctx loop; /* [r] */
	struct timer_heap timers;
	struct list pollers;
	struct qsbr_node *retired, **retired_tail; /* [r] waiting for the next round */
	struct qsbr_node *retiring;                /* [r] the round under way */
	struct rt_msg retire_msg;                  /* travels through all reactors */
	int epoll_fd, event_fd;                    /* [c] */
	struct epoll_event *events; /* [r] the batch being handled, for rt_fdwatch_remove */
	int event_next, event_count;
	uint64_t turn_ns;                              /* [r] when the current turn began */
	uint64_t polled_at_ns, idle_since_ns, spin_ns; /* [r] */
	/* [r] by how much a nap is longer than asked for, on average; when that last changed */
	uint64_t nap_late_ns, napped_at_ns;
	uint64_t rand_words[RT_RAND_WORDS];
	uint32_t rand_left;
	struct fiber_pool pools[FIBER_CLASSES];
	pthread_t thread;
	_Alignas(64) _Atomic(struct rt_msg *) inbox; /* [a] a stack, newest first */
	atomic_bool sleeping;                        /* [a] */
};

struct rt {
	bool running;
	bool sim;       /* [c] */
	unsigned count; /* [c] reactors */
	struct reactor *reactors;
	uint64_t seed;
	bool main_done; /* [r] of reactor 0 */
	atomic_bool stopping;
	/* simulation */
	uint64_t sim_now_ns;
	uint64_t sim_trace;
	uint64_t sim_serial;
	unsigned sim_window;         /* how far from the head of a run queue the scheduler picks */
	struct reactor *sim_stalled; /* not drawn while another can run, until then */
	uint64_t sim_stalled_until_ns;
	bool sim_crashed;
	jmp_buf sim_out;
	struct rand_stream rand_sched, rand_app, rand_bug;
};

extern struct rt rt;
extern _Thread_local struct reactor *rt_cur; /* NULL on threads that are no reactor */
#ifdef AGATE_DEBUG
extern _Thread_local unsigned spins_held;
#endif

/* Tells the core that this is a spin. */
static inline void
cpu_relax(void)
{
#if defined(__x86_64__)
	__builtin_ia32_pause();
#elif defined(__aarch64__)
	__asm__ volatile("yield");
#endif
}

const char *fiber_self_name(void); /* "-" outside fibers */

/* rt.c */
void *rt_map(size_t len); /* zeroed, page-aligned, not reserved; NULL */
void rt_unmap(void *p, size_t len);

/* fiber_pool.c */
int fiber_pools_start(struct reactor *r) WARN_UNUSED;
void fiber_pools_stop(struct reactor *r);
struct fiber *fiber_pool_take(struct reactor *r, enum fiber_class cls); /* NULL: none free */
struct fiber *fiber_pool_take_wait(struct reactor *r, enum fiber_class cls) MAY_PARK;
void fiber_pool_give(struct reactor *r, struct fiber *f);
unsigned fiber_pools_used(void);          /* fibers alive, all reactors */
void fiber_pools_name(const char *event); /* one error line for each live fiber */

/* fiber.c */
void fiber_start(struct fiber *f, const char *name, fiber_fn *fn, void *arg);
void fiber_resume(
    struct reactor *r, struct fiber *f); /* from the loop; returns when it parked or ended */
void fiber_suspend(struct reactor *r);   /* from the current fiber back to the loop */
void fiber_enqueue(struct fiber *f);     /* it is QUEUED now: hand it to its reactor */
void fiber_queue_yielded(struct fiber *f);

/* fiber_ctx.c, fiber_switch.S */
void fiber_ctx_init(
    struct fiber_ctx *c, uint8_t *stack, size_t colour, void (*entry)(void *), void *arg);
void fiber_ctx_destroy(struct fiber_ctx *c);
void fiber_ctx_init_loop(struct fiber_ctx *c);
void fiber_ctx_switch(struct fiber_ctx *from, struct fiber_ctx *to);
/* Right after arriving on a stack: self is its context, *from that of whence it came. */
void fiber_ctx_arrived(struct fiber_ctx *self, struct fiber_ctx *from);
void fiber_switch(void **save_sp, void *to_sp);
void fiber_switch_entry(void);

/* rt_timer.c */
int timers_start(struct timer_heap *h) WARN_UNUSED;
void timers_stop(struct timer_heap *h);
struct timer_heap *timers_of(struct reactor *r);
uint64_t timers_next(const struct timer_heap *h); /* RT_FOREVER: none */
/* The first timer if it is due and was armed when next_order was still below before_order; else
 * NULL. */
struct rt_timer *timers_pop_due(struct timer_heap *h, uint64_t now_ns, uint64_t before_order);

/* rt_post.c */
unsigned inbox_run(struct reactor *r);
bool inbox_empty(struct reactor *r);
void reactor_kick(struct reactor *r); /* wakes it from its sleep, whatever the reason */

/* rt_reactor.c, rt_fdwatch.c */
int reactor_open(struct reactor *r) WARN_UNUSED;
void reactor_close(struct reactor *r);
void reactor_run(struct reactor *r);
unsigned reactor_poll_all(struct reactor *r);
bool reactor_wants_poll(struct reactor *r);
unsigned reactor_events(struct reactor *r, uint64_t timeout_ns); /* RT_FOREVER: without limit */

/* rt_sim.c */
int sim_run(void) WARN_UNUSED; /* 0 or -ERR_CRASHED */

/* offload.c */
int helpers_start(unsigned count) WARN_UNUSED;
void helpers_stop(void);

#endif
