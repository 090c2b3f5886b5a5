/* Fibers, time, timers, messages, pollers, descriptors, helpers and reclamation, in both runtimes.
 */
#include <fcntl.h>
#include <pthread.h>
#include <sys/epoll.h>
#include "base/base.h"
#include "base/rt_int.h"
#include "tests/lib/unit.h"

#define SEEDS 10u

static void
run_sim(fiber_fn *fn, void *arg, size_t arg_len, unsigned reactors)
{
	uint64_t seed = unit_seed(1);
	for (unsigned i = 0; i < SEEDS; i++) {
		struct rt_options sim = unit_rt(true, reactors, seed + i);
		memset(arg, 0, arg_len);
		CU_ASSERT(rt_run(&sim, fn, arg) == 0);
	}
}

static void
run_real(fiber_fn *fn, void *arg, size_t arg_len, unsigned reactors)
{
	struct rt_options real = unit_rt(false, reactors, 0);
	memset(arg, 0, arg_len);
	CU_ASSERT(rt_run(&real, fn, arg) == 0);
}

static void
run_both(fiber_fn *fn, void *arg, size_t arg_len)
{
	uint64_t live = mem_live_count();
	run_sim(fn, arg, arg_len, 3);
	run_real(fn, arg, arg_len, 3);
	CU_ASSERT(mem_live_count() == live);
}

/* ---- options ---- */

static void
nothing_main(void *arg)
{
	(void)arg;
	UNIT_CHECK(fiber_self() != NULL);
	UNIT_CHECK(rt_reactor_self() == 0);
}

static void
test_options(void)
{
	struct rt_options opt = unit_rt(true, 65, 1);
	CU_ASSERT(rt_run(&opt, nothing_main, NULL) == -EINVAL);
	opt = unit_rt(true, 1, 1);
	opt.arena_bytes = (size_t)31 << 20;
	CU_ASSERT(rt_run(&opt, nothing_main, NULL) == -EINVAL);
	opt.arena_bytes = ((size_t)32 << 20) + 4096;
	CU_ASSERT(rt_run(&opt, nothing_main, NULL) == -EINVAL);
	opt = unit_rt(false, 0, 0);
	opt.helpers = 1;
	CU_ASSERT(rt_run(&opt, nothing_main, NULL) == 0);
	CU_ASSERT(fiber_self() == NULL);
	CU_ASSERT(!rt_is_sim());
	CU_ASSERT(rt_wall_ns() > 1600000000 * NSEC_PER_SEC);
}

/* ---- tokens and time ---- */

struct token_world {
	struct fiber *sleeper;
	struct waitgroup wg;
	atomic_uint rounds;
};

static void
waking_fiber(void *arg)
{
	struct token_world *w = arg;
	for (unsigned i = 1; i <= 500; i++) {
		atomic_store(&w->rounds, i);
		fiber_wake(w->sleeper);
		if (i % 3 == 0) {
			fiber_yield();
		}
	}
	wg_done(&w->wg);
}

static void
token_main(void *arg)
{
	struct token_world *w = arg;
	uint64_t before = rt_now_ns();
	UNIT_CHECK(fiber_park_until(before + 1000) == -ETIMEDOUT);
	UNIT_CHECK(rt_now_ns() >= before + 1000);
	UNIT_CHECK(fiber_park_until(0) == -ETIMEDOUT);
	fiber_wake(fiber_self());
	fiber_wake(fiber_self());
	fiber_park();
	UNIT_CHECK(fiber_park_until(rt_now_ns() + 1000) == -ETIMEDOUT);
	/* The token outlives a yield and a sleep. */
	fiber_wake(fiber_self());
	fiber_yield();
	fiber_sleep(5000);
	UNIT_CHECK(fiber_park_until(RT_FOREVER) == 0);
	fiber_maybe_yield();

	w->sleeper = fiber_self();
	wg_init(&w->wg);
	wg_add(&w->wg, 1);
	fiber_spawn_wait(1, FIBER_SYNC, "waker", waking_fiber, w);
	while (atomic_load(&w->rounds) != 500) {
		fiber_park();
	}
	wg_wait(&w->wg);
}

static void
test_tokens(void)
{
	struct token_world w;
	run_both(token_main, &w, sizeof(w));
}

struct nap {
	struct waitgroup *wg;
	atomic_uint *awake;
};

static void
napping_fiber(void *arg)
{
	struct nap *nap = arg;
	for (unsigned i = 0; i < 20; i++) {
		uint64_t ns = rt_random_u64() % 50000;
		uint64_t before = rt_now_ns();
		fiber_sleep(ns);
		UNIT_CHECK(rt_now_ns() >= before + ns);
	}
	atomic_fetch_add(nap->awake, 1);
	wg_done(nap->wg);
}

static void
nap_main(void *arg)
{
	atomic_uint *awake = arg;
	struct waitgroup wg;
	struct nap nap = {&wg, awake};
	wg_init(&wg);
	wg_add(&wg, 100);
	for (unsigned i = 0; i < 100; i++) {
		fiber_spawn_wait(i % 3, FIBER_REQUEST, "napper", napping_fiber, &nap);
	}
	wg_wait(&wg);
	UNIT_CHECK(atomic_load(awake) == 100);
}

static void
test_naps(void)
{
	atomic_uint awake;
	run_both(nap_main, &awake, sizeof(awake));
}

/* ---- stacks ---- */

struct spawn_world {
	struct waitgroup wg;
	bool open;
	struct mutex mu;
	struct cond cond;
	atomic_uint ended;
};

static void
gated_fiber(void *arg)
{
	struct spawn_world *w = arg;
	mutex_lock(&w->mu);
	while (!w->open) {
		cond_wait(&w->cond, &w->mu);
	}
	mutex_unlock(&w->mu);
	atomic_fetch_add(&w->ended, 1);
	wg_done(&w->wg);
}

static void
gate_opener(void *arg)
{
	struct spawn_world *w = arg;
	fiber_sleep(10000);
	mutex_lock(&w->mu);
	w->open = true;
	cond_broadcast(&w->cond);
	mutex_unlock(&w->mu);
	wg_done(&w->wg);
}

/* A class has a fixed number of stacks on a reactor: then spawning refuses, or waits. */
static void
spawn_main(void *arg)
{
	struct spawn_world *w = arg;
	mutex_init(&w->mu, RANK_LEAF);
	cond_init(&w->cond);
	wg_init(&w->wg);
	unsigned spawned = 0;
	wg_add(&w->wg, 1000);
	while (fiber_spawn(1, FIBER_REPAIR, "gated", gated_fiber, w) == 0) {
		spawned++;
	}
	UNIT_CHECK(spawned == 32);
	UNIT_CHECK(fiber_spawn(1, FIBER_REPAIR, "gated", gated_fiber, w) == -EAGAIN);
	UNIT_CHECK(fiber_spawn(0, FIBER_SYNC, "opener", gate_opener, w) == 0);
	for (unsigned i = 0; i < 100; i++) {
		fiber_spawn_wait(1, FIBER_REPAIR, "gated", gated_fiber, w);
		spawned++;
	}
	for (unsigned i = spawned + 1; i < 1000; i++) {
		wg_done(&w->wg);
	}
	wg_wait(&w->wg);
	UNIT_CHECK(atomic_load(&w->ended) == spawned);
}

static void
test_spawn_limits(void)
{
	struct spawn_world w;
	run_both(spawn_main, &w, sizeof(w));
}

/* Calls itself until its frames reach depth bytes below top; frames differ much between builds. */
__attribute__((noinline)) static unsigned
stack_eat(const volatile unsigned char *above, uintptr_t top, size_t depth)
{
	volatile unsigned char frame[512];
	for (size_t i = 0; i < sizeof(frame); i++) {
		frame[i] = (unsigned char)(depth + i);
	}
	unsigned sum = above != NULL ? above[1] : 0;
	if (top - (uintptr_t)frame < depth) {
		sum += stack_eat(frame, top, depth);
	}
	return sum + frame[0];
}

static volatile unsigned eaten;

static uintptr_t
stack_here(void)
{
	return (uintptr_t)__builtin_frame_address(0);
}

static void
eat_much_main(void *arg)
{
	(void)arg;
	eaten = stack_eat(NULL, stack_here(), FIBER_STACK_BYTES / 2);
}

static void
eat_all_main(void *arg)
{
	(void)arg;
	eaten = stack_eat(NULL, stack_here(), FIBER_STACK_BYTES * 2);
}

static void
eat_all(void)
{
	struct rt_options opt = unit_rt(true, 1, 1);
	(void)!rt_run(&opt, eat_all_main, NULL);
}

#ifdef AGATE_DEBUG
static void
eat_margin_main(void *arg)
{
	(void)arg;
	eaten = stack_eat(NULL, stack_here(), FIBER_STACK_BYTES / 16 * 15);
}

static void
eat_margin(void)
{
	struct rt_options opt = unit_rt(true, 1, 1);
	(void)!rt_run(&opt, eat_margin_main, NULL);
}
#endif

static void
test_stack_guard(void)
{
	struct rt_options opt = unit_rt(true, 1, 1);
	CU_ASSERT(rt_run(&opt, eat_much_main, NULL) == 0);
	CU_ASSERT(unit_dies(eat_all, NULL));
#ifdef AGATE_DEBUG
	CU_ASSERT(unit_dies(eat_margin, "fiber_stack_unused"));
#endif
}

/* ---- timers ---- */

#define TIMERS 300u

struct timer_world {
	struct rt_timer timers[TIMERS];
	uint64_t order[TIMERS];
	bool cancelled[TIMERS];
	unsigned fired;
	uint64_t last_deadline, last_order;
};

static struct timer_world *timer_world;

static void
timer_fired(struct rt_timer *t)
{
	struct timer_world *w = timer_world;
	size_t i = (size_t)(t - w->timers);
	UNIT_CHECK(!w->cancelled[i]);
	UNIT_CHECK(t->heap_index == 0 && rt_now_ns() >= t->deadline_ns);
	UNIT_CHECK(fiber_self() == NULL && rt_reactor_self() == t->reactor);
	UNIT_CHECK(t->deadline_ns > w->last_deadline ||
		   (t->deadline_ns == w->last_deadline && w->order[i] > w->last_order));
	w->last_deadline = t->deadline_ns;
	w->last_order = w->order[i];
	w->fired++;
}

static void
timer_main(void *arg)
{
	struct timer_world *w = arg;
	timer_world = w;
	unsigned expected = TIMERS;
	uint64_t order = 0;
	uint64_t now = rt_now_ns();
	/* Far enough away that none fires before all are armed. */
	now += 20 * NSEC_PER_MSEC;
	for (unsigned i = 0; i < TIMERS; i++) {
		w->order[i] = ++order;
		rt_timer_arm(&w->timers[i], now + rt_random_u64() % 50 * 100, timer_fired);
	}
	for (unsigned i = 0; i < TIMERS; i++) {
		switch (rt_random_u64() % 4) {
		case 0:
			UNIT_CHECK(rt_timer_cancel(&w->timers[i]));
			UNIT_CHECK(!rt_timer_cancel(&w->timers[i]));
			w->cancelled[i] = true;
			expected--;
			break;
		case 1:
			w->order[i] = ++order;
			rt_timer_arm(&w->timers[i], now + rt_random_u64() % 50 * 100, timer_fired);
			break;
		default:
			break;
		}
	}
	fiber_sleep_until(now + 100 * NSEC_PER_USEC);
	UNIT_CHECK(w->fired == expected);
}

static void
test_timers(void)
{
	static struct timer_world w;
	run_both(timer_main, &w, sizeof(w));
}

/* ---- messages and pollers ---- */

struct post_world {
	struct rt_msg msgs[3][100];
	unsigned next[3];
	struct waitgroup wg;
};

static struct post_world *post_world;

static void
msg_arrived(struct rt_msg *m)
{
	struct post_world *w = post_world;
	unsigned to = rt_reactor_self();
	UNIT_CHECK(m == &w->msgs[to][w->next[to]]);
	w->next[to]++;
	wg_done(&w->wg);
}

static void
post_main(void *arg)
{
	struct post_world *w = arg;
	post_world = w;
	wg_init(&w->wg);
	wg_add(&w->wg, 300);
	for (unsigned i = 0; i < 100; i++) {
		for (unsigned to = 0; to < 3; to++) {
			w->msgs[to][i].fn = msg_arrived;
			rt_post(to, &w->msgs[to][i]);
		}
		if (i % 10 == 0) {
			fiber_sleep(20000); /* lets the others fall asleep */
		}
	}
	wg_wait(&w->wg);
}

static void
test_posts(void)
{
	static struct post_world w;
	run_both(post_main, &w, sizeof(w));
}

struct device {
	struct rt_poller poller;
	struct fiber *waiting;
	unsigned polls_left;
};

static unsigned
device_poll(struct rt_poller *p)
{
	struct device *d = container_of(p, struct device, poller);
	if (d->polls_left == 0 || --d->polls_left > 0) {
		return 0;
	}
	fiber_wake(d->waiting);
	return 1;
}

static bool
device_wants_poll(struct rt_poller *p)
{
	return container_of(p, struct device, poller)->polls_left > 0;
}

static uint64_t
device_nap_ns(struct rt_poller *p)
{
	(void)p;
	return rt_random_u64() % (60 * NSEC_PER_USEC); /* also less than a nap is worth */
}

/* A device whose completion is found only by looking often enough; how late each look may be, it
 * says for the second half. */
static void
poller_main(void *arg)
{
	struct device *d = arg;
	d->poller.poll = device_poll;
	d->poller.wants_poll = device_wants_poll;
	d->waiting = fiber_self();
	rt_poller_add(&d->poller);
	for (unsigned i = 0; i < 40; i++) {
		d->poller.nap_ns = i < 20 ? NULL : device_nap_ns;
		d->polls_left = 1 + (unsigned)(rt_random_u64() % 100);
		while (d->polls_left > 0) {
			fiber_park();
		}
	}
	rt_poller_remove(&d->poller);
}

static void
test_pollers(void)
{
	struct device d;
	run_both(poller_main, &d, sizeof(d));
}

/* ---- descriptors ---- */

struct fd_world {
	struct rt_fdwatch a, b;
	struct fiber *waiting;
	unsigned ready;
	int pipe_a[2], pipe_b[2];
};

static struct fd_world *fd_world;

/* Whichever comes first removes both: the other must not be called any more. */
static void
fd_ready(struct rt_fdwatch *w, uint32_t events)
{
	struct fd_world *f = fd_world;
	UNIT_CHECK((events & EPOLLIN) != 0);
	UNIT_CHECK(w == &f->a || w == &f->b);
	f->ready++;
	rt_fdwatch_remove(&f->a);
	rt_fdwatch_remove(&f->b);
	fiber_wake(f->waiting);
}

static void
fd_main(void *arg)
{
	struct fd_world *f = arg;
	fd_world = f;
	f->waiting = fiber_self();
	ASSERT(pipe(f->pipe_a) == 0 && pipe(f->pipe_b) == 0);
	f->a = (struct rt_fdwatch){.fd = f->pipe_a[0], .events = EPOLLIN, .ready = fd_ready};
	f->b = (struct rt_fdwatch){.fd = f->pipe_b[0], .events = EPOLLIN, .ready = fd_ready};
	for (unsigned i = 1; i <= 50; i++) {
		UNIT_CHECK(rt_fdwatch_add(&f->a) == 0);
		UNIT_CHECK(rt_fdwatch_add(&f->b) == 0);
		UNIT_CHECK(rt_fdwatch_add(&f->a) == -EEXIST);
		if (i % 2 == 0) {
			fiber_sleep(100 * NSEC_PER_USEC);
		}
		UNIT_CHECK(write(f->pipe_a[1], "a", 1) == 1);
		UNIT_CHECK(write(f->pipe_b[1], "b", 1) == 1);
		while (f->ready < i) {
			fiber_park();
		}
		fiber_yield();
		UNIT_CHECK(f->ready == i);
	}
	for (unsigned i = 0; i < 2; i++) {
		close(f->pipe_a[i]);
		close(f->pipe_b[i]);
	}
}

static void
test_fdwatches(void)
{
	struct fd_world f;
	run_real(fd_main, &f, sizeof(f), 2);
}

/* ---- helpers ---- */

struct offload_world {
	int fds[2];
	pthread_t reactor;
	atomic_uint done;
	struct waitgroup wg;
};

static void
blocking_read(void *arg)
{
	struct offload_world *w = arg;
	char byte;
	UNIT_CHECK(fiber_self() == NULL);
	UNIT_CHECK(!pthread_equal(pthread_self(), w->reactor));
	UNIT_CHECK(read(w->fds[0], &byte, 1) == 1);
	atomic_fetch_add(&w->done, 1);
}

static void
offloading_fiber(void *arg)
{
	struct offload_world *w = arg;
	offload(blocking_read, w);
	wg_done(&w->wg);
}

/* More blocking calls than helpers; the reactor runs on, and it is what unblocks them. */
static void
offload_main(void *arg)
{
	struct offload_world *w = arg;
	w->reactor = pthread_self();
	ASSERT(pipe(w->fds) == 0);
	wg_init(&w->wg);
	wg_add(&w->wg, 10);
	for (unsigned i = 0; i < 10; i++) {
		fiber_spawn_wait(0, FIBER_REQUEST, "offloader", offloading_fiber, w);
	}
	fiber_sleep(NSEC_PER_MSEC);
	UNIT_CHECK(atomic_load(&w->done) == 0);
	for (unsigned i = 0; i < 10; i++) {
		UNIT_CHECK(write(w->fds[1], "x", 1) == 1);
		fiber_yield();
	}
	wg_wait(&w->wg);
	UNIT_CHECK(atomic_load(&w->done) == 10);
	close(w->fds[0]);
	close(w->fds[1]);
}

static void
count_up(void *arg)
{
	++*(unsigned *)arg;
}

static void
offload_sim_main(void *arg)
{
	for (unsigned i = 0; i < 10; i++) {
		offload(count_up, arg);
	}
	UNIT_CHECK(*(unsigned *)arg == 10);
}

static void
test_offload(void)
{
	struct offload_world w;
	unsigned count;
	run_real(offload_main, &w, sizeof(w), 1);
	run_both(offload_sim_main, &count, sizeof(count));
}

/* ---- reclamation ---- */

#define NODE_MAGIC 0x4e4f4445u

struct node {
	struct qsbr_node retired;
	uint32_t magic;
	uint64_t value, twice;
};

struct qsbr_world {
	_Atomic(struct node *) published;
	struct waitgroup wg;
	atomic_uint freed;
	atomic_bool stop;
};

static struct qsbr_world *qsbr_world;

static void
node_free(struct qsbr_node *q)
{
	struct node *n = container_of(q, struct node, retired);
	UNIT_CHECK(n->magic == NODE_MAGIC);
	n->magic = 0;
	n->twice = 1;
	atomic_fetch_add(&qsbr_world->freed, 1);
	mem_free(n);
}

static void
qsbr_reader(void *arg)
{
	struct qsbr_world *w = arg;
	while (!atomic_load(&w->stop)) {
		for (unsigned i = 0; i < 50; i++) {
			struct node *n = atomic_load_explicit(&w->published, memory_order_acquire);
			UNIT_CHECK(n->magic == NODE_MAGIC && n->twice == 2 * n->value);
		}
		fiber_yield();
	}
	wg_done(&w->wg);
}

static void
qsbr_writer(void *arg)
{
	struct qsbr_world *w = arg;
	for (uint64_t i = 1; i <= 300; i++) {
		struct node *n = mem_zalloc(sizeof(*n));
		ASSERT(n != NULL);
		n->magic = NODE_MAGIC;
		n->value = i;
		n->twice = 2 * i;
		struct node *old = atomic_exchange(&w->published, n);
		if (old != NULL) {
			qsbr_retire(&old->retired, node_free);
		}
		if (i % 5 == 0) {
			fiber_yield();
		}
		if (i % 50 == 0) {
			fiber_sleep(100 * NSEC_PER_USEC);
		}
	}
	wg_done(&w->wg);
}

static void
qsbr_main(void *arg)
{
	struct qsbr_world *w = arg;
	struct waitgroup writers;
	qsbr_world = w;
	wg_init(&writers);
	wg_init(&w->wg);
	wg_add(&w->wg, 1);
	qsbr_writer(w);
	wg_add(&w->wg, 6);
	for (unsigned i = 0; i < 3; i++) {
		fiber_spawn_wait(i, FIBER_REQUEST, "reader", qsbr_reader, w);
	}
	for (unsigned i = 0; i < 3; i++) {
		fiber_spawn_wait(i, FIBER_SYNC, "writer", qsbr_writer, w);
	}
	/* All but the last node are retired; those of this life are freed without anybody's help.
	 */
	while (atomic_load(&w->freed) < 4 * 300 - 1) {
		fiber_sleep(100 * NSEC_PER_USEC);
	}
	atomic_store(&w->stop, true);
	wg_wait(&w->wg);
	/* The last one is retired as the runtime ends. */
	qsbr_retire(&atomic_load(&w->published)->retired, node_free);
}

static void
test_qsbr(void)
{
	struct qsbr_world w;
	run_both(qsbr_main, &w, sizeof(w));
	CU_ASSERT(atomic_load(&w.freed) == 4 * 300);
}

/* ---- everything at once, between reactors ---- */

struct stress_world {
	struct mutex mu[4];
	struct sem sem;
	struct chan chan;
	struct waitgroup wg, sinks;
	atomic_uint received;
	uint64_t sum[4];
};

static void
stress_leaf(void *arg)
{
	struct stress_world *w = arg;
	(void)chan_send(&w->chan, w);
	wg_done(&w->wg);
}

static void
stress_fiber(void *arg)
{
	struct stress_world *w = arg;
	for (unsigned i = 0; i < 100; i++) {
		uint64_t dice = rt_random_u64();
		unsigned which = dice >> 8 & 3;
		mutex_lock(&w->mu[which]);
		uint64_t seen = w->sum[which];
		if ((dice & 7) == 0) {
			fiber_yield();
		} else if ((dice & 7) == 1) {
			fiber_sleep(dice >> 16 & 4095);
		}
		w->sum[which] = seen + 1;
		mutex_unlock(&w->mu[which]);
		sem_take(&w->sem, 1 + (dice >> 32 & 1));
		wg_add(&w->wg, 1);
		fiber_spawn_wait((unsigned)(dice >> 40) % rt_reactor_count(), FIBER_REQUEST, "leaf",
		    stress_leaf, w);
		sem_give(&w->sem, 1 + (dice >> 32 & 1));
	}
	wg_done(&w->wg);
}

static void
stress_sink(void *arg)
{
	struct stress_world *w = arg;
	void *item;
	while (chan_recv(&w->chan, &item) == 0) {
		atomic_fetch_add(&w->received, 1);
	}
	wg_done(&w->sinks);
}

static void
stress_main(void *arg)
{
	struct stress_world *w = arg;
	for (unsigned i = 0; i < 4; i++) {
		mutex_init(&w->mu[i], RANK_LEAF);
	}
	sem_init_units(&w->sem, 6);
	ASSERT(chan_init(&w->chan, 5) == 0);
	wg_init(&w->wg);
	wg_init(&w->sinks);
	wg_add(&w->wg, 40);
	wg_add(&w->sinks, 2);
	fiber_spawn_wait(0, FIBER_ADMIN, "sink", stress_sink, w);
	fiber_spawn_wait(1, FIBER_ADMIN, "sink", stress_sink, w);
	for (unsigned i = 0; i < 40; i++) {
		fiber_spawn_wait(i % 3, FIBER_SYNC, "stress", stress_fiber, w);
	}
	wg_wait(&w->wg);
	chan_close(&w->chan);
	wg_wait(&w->sinks);
	UNIT_CHECK(atomic_load(&w->received) == 4000);
	UNIT_CHECK(w->sum[0] + w->sum[1] + w->sum[2] + w->sum[3] == 4000);
	chan_destroy(&w->chan);
}

static void
test_stress(void)
{
	static struct stress_world w;
	run_both(stress_main, &w, sizeof(w));
}

static const struct unit_test tests[] = {
    {"options", test_options},
    {"tokens", test_tokens},
    {"naps", test_naps},
    {"spawn limits", test_spawn_limits},
    {"stack guard", test_stack_guard},
    {"timers", test_timers},
    {"posts", test_posts},
    {"pollers", test_pollers},
    {"fdwatches", test_fdwatches},
    {"offload", test_offload},
    {"qsbr", test_qsbr},
    {"stress", test_stress},
};

int
main(int argc, char **argv)
{
	return unit_main("base_rt", tests, ARRAY_LEN(tests), argc, argv);
}
