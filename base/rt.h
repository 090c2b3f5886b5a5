/*
 * rt.h - the runtime: reactors, fibers, time, randomness, timers, file-descriptor events, helper
 * threads. A process (or a simulated machine) has one runtime.
 *
 * Real: one thread per reactor, each with an epoll set, timers and the fibers pinned to it. An idle
 * reactor sleeps, a busy one polls. Simulated: the calling thread plays all reactors; a seeded
 * scheduler picks the next runnable fiber; the clock is virtual and jumps to the next timer when
 * nothing can run. The same seed and the same binary give the same run.
 *
 * Code above base/ runs only in fibers and is written as if it were synchronous.
 */
#ifndef AGATE_BASE_RT_H
#define AGATE_BASE_RT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "base/compiler.h"
#include "base/list.h"

struct fiber;

struct rt_options {
	unsigned reactors;    /* 1..64; 0 = one per core */
	bool sim;             /* deterministic simulation */
	uint64_t seed;        /* simulation: everything random derives from it */
	size_t arena_bytes;   /* size of the I/O buffer arena, a multiple of 2 MiB, at least 32 MiB */
	unsigned helpers;     /* helper threads; 0 = 4. Simulation: helpers run inline */
	bool hugepages;       /* try huge pages for the arena */
};

typedef void fiber_fn(void *arg);

/*
 * rt_run - start the runtime, run main_fn as a fiber on reactor 0, and return when it has returned
 * (0), when the simulated power was cut (-ERR_CRASHED), or when it couldn't start (-ENOMEM, -EINVAL,
 * -errno of the system). On 0 all other fibers must have ended; one that hasn't is named in the log
 * and is a bug (ASSERT). Blocks the calling thread. Only one runtime at a time in a process.
 */
int rt_run(const struct rt_options *opt, fiber_fn *main_fn, void *arg) WARN_UNUSED;

/* Simulation: cut the power now. Nothing of this life runs again; rt_run returns -ERR_CRASHED. All
 * memory of mem.h that the life held is dropped. Callable from a fiber or a timer. */
void rt_sim_crash(void);
bool rt_is_sim(void);
/* Simulation: hash over every decision of the scheduler so far, after rt_run that of the last run: equal
 * for equal seeds. rt_sim_trace_add folds in what the caller wants compared too. */
uint64_t rt_sim_trace(void);
void rt_sim_trace_add(uint64_t what);

unsigned rt_reactor_count(void);
unsigned rt_reactor_self(void);

/* ---- time and randomness ---- */
uint64_t rt_now_ns(void);      /* monotonic; virtual in the simulation */
/* When the reactor's loop began its current turn: no call of the system, and good enough for deadlines and for how long
 * something took. On other threads, and in the simulation, the same as rt_now_ns. */
uint64_t rt_turn_ns(void);
uint64_t rt_wall_ns(void);     /* since 1970, UTC; virtual in the simulation */
uint64_t rt_random_u64(void);  /* seeded in the simulation, from the system otherwise */
void rt_random_bytes(void *out, size_t len);
#define RT_FOREVER UINT64_MAX  /* a deadline that never comes; only with a named owner that ends the wait */

/* ---- fibers ---- */
enum fiber_class { FIBER_REQUEST, FIBER_SYNC, FIBER_REPAIR, FIBER_ADMIN, FIBER_CLASSES };

/*
 * fiber_spawn - run fn(arg) as a new fiber of reactor. name is static, for logs. May be called from
 * fibers, timers and fd watches of any reactor. Returns 0, or -EAGAIN when the class has no free stack
 * on that reactor (backpressure: the caller waits or refuses). Never parks.
 */
int fiber_spawn(unsigned reactor, enum fiber_class cls, const char *name, fiber_fn *fn, void *arg) WARN_UNUSED;
/* The same, but waits for a free stack. May park. */
void fiber_spawn_wait(unsigned reactor, enum fiber_class cls, const char *name, fiber_fn *fn, void *arg) MAY_PARK;
void fiber_yield(void) MAY_PARK;                    /* let the others of this reactor run */
void fiber_sleep_until(uint64_t deadline_ns) MAY_PARK;
void fiber_sleep(uint64_t ns) MAY_PARK;
/* For long computations: yields when the fiber has run for more than 150 us. */
void fiber_maybe_yield(void) MAY_PARK;

/*
 * The primitive below locks and drives: a fiber has one wake token. fiber_park returns at once if
 * the token is there, and takes it; callers loop on their own condition. fiber_wake may be called
 * from any thread, also before the park. Waits of sync.h use the same token: whoever awaits a completion
 * checks for it before each park, and doesn't count on a token that came before another wait.
 */
struct fiber *fiber_self(void); /* NULL outside fibers */
void fiber_park(void) MAY_PARK;
int fiber_park_until(uint64_t deadline_ns) MAY_PARK; /* 0, or -ETIMEDOUT when the deadline came first */
void fiber_wake(struct fiber *f);

/* ---- below the fibers: only for base/ itself, for drive backends and for the simulator ---- */

/* A timer of the reactor that armed it; zeroed before its first use. Arming one that is armed moves it. fn
 * runs on the reactor's loop, not in a fiber; never parks; may arm and free t. */
struct rt_timer {
	uint64_t deadline_ns;
	void (*fn)(struct rt_timer *t);
	unsigned reactor;
	uint32_t heap_index; /* 0 = not armed */
	uint64_t order;      /* ties are broken by arming order, so that the simulation is exact */
};
void rt_timer_arm(struct rt_timer *t, uint64_t deadline_ns, void (*fn)(struct rt_timer *));
bool rt_timer_cancel(struct rt_timer *t); /* true when it was armed; same reactor only */

/* Run fn on a reactor's loop; from any thread. msg is the caller's until fn is called. */
struct rt_msg {
	struct rt_msg *next;
	void (*fn)(struct rt_msg *m);
};
void rt_post(unsigned reactor, struct rt_msg *m);

/* Something to poll each turn of the current reactor; poll returns how many events it handled.
 * wants_poll: true while there is work outstanding that only polling finds (keeps the reactor awake,
 * at first spinning, after 100 us in naps of 20 us). nap_ns: NULL, or how late a look may be without harm, 0 when it
 * should be at once: with more than a wake-up takes the reactor naps so long and doesn't spin first. All run on the loop
 * and never park. poll may remove its own poller, no other; added and removed on the same reactor. */
struct rt_poller {
	struct list link;
	unsigned (*poll)(struct rt_poller *p);
	bool (*wants_poll)(struct rt_poller *p);
	uint64_t (*nap_ns)(struct rt_poller *p);
};
void rt_poller_add(struct rt_poller *p);
void rt_poller_remove(struct rt_poller *p);

/* Edge-triggered epoll on the current reactor; ready() runs on its loop. Not in the simulation. */
struct rt_fdwatch {
	int fd;
	uint32_t events;
	unsigned reactor;
	void (*ready)(struct rt_fdwatch *w, uint32_t events);
};
int rt_fdwatch_add(struct rt_fdwatch *w) WARN_UNUSED;
void rt_fdwatch_remove(struct rt_fdwatch *w);

/*
 * offload - run fn(arg), which may block, on a helper thread; the fiber parks until it has returned.
 * In the simulation fn runs inline.
 */
void offload(void (*fn)(void *arg), void *arg) MAY_PARK;

/* ---- quiescent-state reclamation ---- */
/* Readers: between two parks a fiber may follow pointers published with release stores. retire calls
 * fn(node) once every reactor has passed through its loop, i.e. when no such reader can be left. */
struct qsbr_node {
	struct qsbr_node *next;
	void (*fn)(struct qsbr_node *n);
};
void qsbr_retire(struct qsbr_node *n, void (*fn)(struct qsbr_node *n));

#endif
