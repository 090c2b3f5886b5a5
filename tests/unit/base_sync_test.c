/* Locks and waits between fibers: each rule of sync.h, in the simulation and on real reactors. */
#include "base/base.h"
#include "tests/lib/unit.h"

#define SEEDS 20u

/* Runs fn under some seeds of the simulation, then on real reactors. */
static void
run_both(fiber_fn *fn, void *arg, size_t arg_len)
{
	uint64_t seed = unit_seed(1);
	uint64_t live = mem_live_count();
	for (unsigned i = 0; i < SEEDS; i++) {
		struct rt_options sim = unit_rt(true, 1 + i % 4, seed + i);
		memset(arg, 0, arg_len);
		/* Half of them with wakes without reason and reactors that stand still. */
		bug_set_buggify(i % 2 == 0 ? 0 : 100);
		CU_ASSERT(rt_run(&sim, fn, arg) == 0);
	}
	bug_set_buggify(0);
	struct rt_options real = unit_rt(false, 3, 0);
	memset(arg, 0, arg_len);
	CU_ASSERT(rt_run(&real, fn, arg) == 0);
	CU_ASSERT(mem_live_count() == live);
}

static void
spawn_many(unsigned count, const char *name, fiber_fn *fn, void *arg)
{
	for (unsigned i = 0; i < count; i++) {
		fiber_spawn_wait(i % rt_reactor_count(), FIBER_REQUEST, name, fn, arg);
	}
}

/* ---- mutex ---- */

struct mutex_world {
	struct mutex mu;
	struct waitgroup wg;
	uint64_t inside, total, tries;
};

static void
mutex_fiber(void *arg)
{
	struct mutex_world *w = arg;
	for (unsigned i = 0; i < 50; i++) {
		if (i % 5 == 0 && !mutex_trylock(&w->mu)) {
			continue;
		}
		if (i % 5 != 0) {
			mutex_lock(&w->mu);
		}
		UNIT_CHECK(w->inside == 0);
		w->inside = 1;
		if (i % 3 == 0) {
			fiber_yield();
		}
		w->inside = 0;
		w->total++;
		UNIT_CHECK(mutex_held(&w->mu));
		mutex_unlock(&w->mu);
	}
	wg_done(&w->wg);
}

static void
mutex_main(void *arg)
{
	struct mutex_world *w = arg;
	mutex_init(&w->mu, RANK_POOL_TXG);
	wg_init(&w->wg);
	wg_add(&w->wg, 60);
	spawn_many(60, "locker", mutex_fiber, w);
	wg_wait(&w->wg);
	UNIT_CHECK(w->total >= 60 * 40 && w->total <= 60 * 50);
	UNIT_CHECK(!mutex_held(&w->mu));
}

static void
test_mutex(void)
{
	struct mutex_world w;
	run_both(mutex_main, &w, sizeof(w));
}

struct starve_world {
	struct mutex mu;
	struct waitgroup wg;
	unsigned relocks;
	bool served;
};

static void
starving_fiber(void *arg)
{
	struct starve_world *w = arg;
	mutex_lock(&w->mu);
	w->served = true;
	mutex_unlock(&w->mu);
	wg_done(&w->wg);
}

/* Lets go and takes again without ever parking in between: only a hand-over serves the other. */
static void
starve_main(void *arg)
{
	struct starve_world *w = arg;
	mutex_init(&w->mu, RANK_LEAF);
	wg_init(&w->wg);
	wg_add(&w->wg, 1);
	mutex_lock(&w->mu);
	fiber_spawn_wait(0, FIBER_SYNC, "starving", starving_fiber, w);
	while (!w->served && w->relocks < 1000) {
		fiber_sleep(100 * NSEC_PER_USEC);
		mutex_unlock(&w->mu);
		mutex_lock(&w->mu);
		w->relocks++;
	}
	mutex_unlock(&w->mu);
	wg_wait(&w->wg);
}

static void
test_mutex_handoff(void)
{
	for (uint64_t seed = 0; seed < SEEDS; seed++) {
		struct starve_world w = {0};
		struct rt_options sim = unit_rt(true, 2, seed);
		CU_ASSERT(rt_run(&sim, starve_main, &w) == 0);
		/* It starves for 1 ms = ten sleeps, so barging happens first, then the hand-over.
		 */
		CU_ASSERT(w.relocks >= 5 && w.relocks <= 20);
	}
}

/* ---- rwlock ---- */

struct rw_world {
	struct rwlock l;
	struct waitgroup wg;
	atomic_uint readers, readers_max, writers, late_reads;
	atomic_bool writer_waits;
	uint64_t value[2];
};

static void
reader_fiber(void *arg)
{
	struct rw_world *w = arg;
	for (unsigned i = 0; i < 40; i++) {
		rwlock_rdlock(&w->l);
		unsigned now = atomic_fetch_add(&w->readers, 1) + 1;
		unsigned max = atomic_load(&w->readers_max);
		while (now > max && !atomic_compare_exchange_weak(&w->readers_max, &max, now)) {
		}
		UNIT_CHECK(atomic_load(&w->writers) == 0);
		uint64_t seen = w->value[0];
		fiber_yield();
		UNIT_CHECK(w->value[0] == seen && w->value[1] == seen);
		atomic_fetch_sub(&w->readers, 1);
		rwlock_rdunlock(&w->l);
		if (i % 4 == 0) {
			fiber_yield();
		}
	}
	wg_done(&w->wg);
}

static void
writer_fiber(void *arg)
{
	struct rw_world *w = arg;
	for (unsigned i = 0; i < 40; i++) {
		rwlock_wrlock(&w->l);
		UNIT_CHECK(rwlock_wrheld(&w->l));
		UNIT_CHECK(atomic_fetch_add(&w->writers, 1) == 0);
		UNIT_CHECK(atomic_load(&w->readers) == 0);
		w->value[0]++;
		fiber_yield();
		w->value[1]++;
		atomic_fetch_sub(&w->writers, 1);
		rwlock_wrunlock(&w->l);
		UNIT_CHECK(!rwlock_wrheld(&w->l));
	}
	wg_done(&w->wg);
}

static void
rw_main(void *arg)
{
	struct rw_world *w = arg;
	rwlock_init(&w->l, RANK_FS_INODE);
	wg_init(&w->wg);
	wg_add(&w->wg, 15);
	spawn_many(10, "reader", reader_fiber, w);
	spawn_many(5, "writer", writer_fiber, w);
	wg_wait(&w->wg);
	UNIT_CHECK(w->value[0] == 5 * 40 && w->value[1] == 5 * 40);
	UNIT_CHECK(atomic_load(&w->readers_max) > 1);
}

static void
test_rwlock(void)
{
	struct rw_world w;
	run_both(rw_main, &w, sizeof(w));
}

static void
waiting_writer(void *arg)
{
	struct rw_world *w = arg;
	atomic_store(&w->writer_waits, true);
	rwlock_wrlock(&w->l);
	UNIT_CHECK(atomic_load(&w->late_reads) == 0);
	rwlock_wrunlock(&w->l);
	wg_done(&w->wg);
}

static void
late_reader(void *arg)
{
	struct rw_world *w = arg;
	rwlock_rdlock(&w->l);
	atomic_fetch_add(&w->late_reads, 1);
	rwlock_rdunlock(&w->l);
	wg_done(&w->wg);
}

/* A reader that comes after a waiting writer waits behind it. */
static void
prefer_main(void *arg)
{
	struct rw_world *w = arg;
	rwlock_init(&w->l, RANK_LEAF);
	wg_init(&w->wg);
	wg_add(&w->wg, 4);
	rwlock_rdlock(&w->l);
	fiber_spawn_wait(0, FIBER_SYNC, "writer", waiting_writer, w);
	while (!atomic_load(&w->writer_waits)) {
		fiber_yield();
	}
	spawn_many(3, "late", late_reader, w);
	fiber_sleep(NSEC_PER_MSEC);
	UNIT_CHECK(atomic_load(&w->late_reads) == 0);
	rwlock_rdunlock(&w->l);
	wg_wait(&w->wg);
	UNIT_CHECK(atomic_load(&w->late_reads) == 3);
}

static void
test_rwlock_prefers_writers(void)
{
	struct rw_world w;
	run_both(prefer_main, &w, sizeof(w));
}

/* ---- condition, wait group ---- */

struct cond_world {
	struct mutex mu;
	struct cond filled, emptied;
	struct waitgroup wg;
	unsigned full, taken;
};

static void
taker_fiber(void *arg)
{
	struct cond_world *w = arg;
	for (unsigned i = 0; i < 50; i++) {
		mutex_lock(&w->mu);
		while (w->full == 0) {
			cond_wait(&w->filled, &w->mu);
		}
		w->full--;
		w->taken++;
		cond_signal(&w->emptied);
		mutex_unlock(&w->mu);
	}
	wg_done(&w->wg);
}

static void
cond_main(void *arg)
{
	struct cond_world *w = arg;
	mutex_init(&w->mu, RANK_LEAF);
	cond_init(&w->filled);
	cond_init(&w->emptied);
	wg_init(&w->wg);
	wg_add(&w->wg, 8);
	spawn_many(8, "taker", taker_fiber, w);
	mutex_lock(&w->mu);
	for (unsigned i = 0; i < 8 * 50; i++) {
		while (w->full == 3) {
			cond_wait(&w->emptied, &w->mu);
		}
		w->full++;
		if (i % 2 == 0) {
			cond_signal(&w->filled);
		} else {
			cond_broadcast(&w->filled);
		}
	}
	UNIT_CHECK(cond_wait_until(&w->filled, &w->mu, rt_now_ns() + 1000) == -ETIMEDOUT);
	UNIT_CHECK(mutex_held(&w->mu));
	cond_broadcast(&w->filled);
	mutex_unlock(&w->mu);
	UNIT_CHECK(wg_wait_until(&w->wg, RT_FOREVER) == 0);
	UNIT_CHECK(w->taken == 8 * 50 && w->full == 0);
	wg_add(&w->wg, 1);
	UNIT_CHECK(wg_wait_until(&w->wg, rt_now_ns() + 1000) == -ETIMEDOUT);
	wg_done(&w->wg);
	wg_wait(&w->wg);
}

static void
test_cond(void)
{
	struct cond_world w;
	run_both(cond_main, &w, sizeof(w));
}

/* ---- semaphore ---- */

struct sem_world {
	struct sem s;
	struct waitgroup wg;
	atomic_uint used, timeouts;
	atomic_uint order;
	unsigned place[4];
	atomic_uint next;
};

static void
sem_fiber(void *arg)
{
	struct sem_world *w = arg;
	for (unsigned i = 0; i < 40; i++) {
		unsigned n = 1 + (unsigned)(rt_random_u64() % 5);
		if (i % 4 == 0) {
			if (sem_take_until(&w->s, n, rt_now_ns() + 2000) != 0) {
				atomic_fetch_add(&w->timeouts, 1);
				continue;
			}
		} else if (i % 4 != 1 || !sem_try_take(&w->s, n)) {
			sem_take(&w->s, n);
		}
		UNIT_CHECK(atomic_fetch_add(&w->used, n) + n <= 8);
		fiber_yield();
		atomic_fetch_sub(&w->used, n);
		sem_give(&w->s, n);
	}
	wg_done(&w->wg);
}

static void
sem_main(void *arg)
{
	struct sem_world *w = arg;
	sem_init_units(&w->s, 8);
	wg_init(&w->wg);
	wg_add(&w->wg, 12);
	spawn_many(12, "taker", sem_fiber, w);
	wg_wait(&w->wg);
	UNIT_CHECK(sem_try_take(&w->s, 8));
	UNIT_CHECK(!sem_try_take(&w->s, 1));
}

static void
test_sem(void)
{
	struct sem_world w;
	run_both(sem_main, &w, sizeof(w));
}

static void
ordered_fiber(void *arg)
{
	struct sem_world *w = arg;
	unsigned me = atomic_fetch_add(&w->next, 1);
	sem_take(&w->s, me == 0 ? 5 : 1);
	w->place[me] = atomic_fetch_add(&w->order, 1);
	wg_done(&w->wg);
}

/* The first wants more than there is; those behind it must not overtake. */
static void
sem_order_main(void *arg)
{
	struct sem_world *w = arg;
	sem_init_units(&w->s, 3);
	wg_init(&w->wg);
	wg_add(&w->wg, 4);
	for (unsigned i = 0; i < 4; i++) {
		fiber_spawn_wait(0, FIBER_SYNC, "ordered", ordered_fiber, w);
		while (atomic_load(&w->next) != i + 1) {
			fiber_yield();
		}
	}
	UNIT_CHECK(!sem_try_take(&w->s, 1));
	UNIT_CHECK(atomic_load(&w->order) == 0);
	sem_give(&w->s, 2);
	while (atomic_load(&w->order) == 0) {
		fiber_yield();
	}
	UNIT_CHECK(atomic_load(&w->order) == 1);
	sem_give(&w->s, 3);
	wg_wait(&w->wg);
	UNIT_CHECK(w->place[0] == 0);
}

static void
giving_up_fiber(void *arg)
{
	struct sem_world *w = arg;
	atomic_fetch_add(&w->next, 1);
	UNIT_CHECK(sem_take_until(&w->s, 5, rt_now_ns() + 50000) == -ETIMEDOUT);
	wg_done(&w->wg);
}

/* When the large one in front gives up, the small one behind it is served at once. */
static void
sem_give_up_main(void *arg)
{
	struct sem_world *w = arg;
	sem_init_units(&w->s, 3);
	wg_init(&w->wg);
	wg_add(&w->wg, 1);
	fiber_spawn_wait(0, FIBER_SYNC, "giving up", giving_up_fiber, w);
	while (atomic_load(&w->next) == 0) {
		fiber_yield();
	}
	sem_take(&w->s, 3);
	wg_wait(&w->wg);
}

static void
test_sem_give_up(void)
{
	struct sem_world w;
	run_both(sem_give_up_main, &w, sizeof(w));
}

static void
test_sem_order(void)
{
	struct sem_world w;
	run_both(sem_order_main, &w, sizeof(w));
}

/* ---- channel ---- */

#define CHAN_ITEMS 200u
#define CHAN_SENDERS 5u

struct chan_world {
	struct chan c;
	struct waitgroup senders, receivers;
	atomic_uint sender_next;
	atomic_uint got[CHAN_SENDERS * CHAN_ITEMS];
};

static void
chan_sender(void *arg)
{
	struct chan_world *w = arg;
	unsigned me = atomic_fetch_add(&w->sender_next, 1);
	for (unsigned i = 0; i < CHAN_ITEMS; i++) {
		void *item = &w->got[me * CHAN_ITEMS + i];
		int err = i % 3 == 0 ? chan_try_send(&w->c, item) : -EAGAIN;
		UNIT_CHECK(err == 0 || err == -EAGAIN);
		if (err != 0) {
			UNIT_CHECK(chan_send(&w->c, item) == 0);
		}
	}
	wg_done(&w->senders);
}

static void
chan_receiver(void *arg)
{
	struct chan_world *w = arg;
	/* What one receiver gets of one sender comes in the order it was sent. */
	atomic_uint *last[CHAN_SENDERS] = {0};
	void *item;
	while (chan_recv(&w->c, &item) == 0) {
		atomic_uint *got = item;
		size_t sender = (size_t)(got - w->got) / CHAN_ITEMS;
		UNIT_CHECK(last[sender] == NULL || got > last[sender]);
		last[sender] = got;
		atomic_fetch_add(got, 1);
	}
	wg_done(&w->receivers);
}

static void
chan_main(void *arg)
{
	struct chan_world *w = arg;
	ASSERT(chan_init(&w->c, 7) == 0);
	wg_init(&w->senders);
	wg_init(&w->receivers);
	wg_add(&w->senders, CHAN_SENDERS);
	wg_add(&w->receivers, 3);
	spawn_many(3, "receiver", chan_receiver, w);
	spawn_many(CHAN_SENDERS, "sender", chan_sender, w);
	wg_wait(&w->senders);
	chan_close(&w->c);
	wg_wait(&w->receivers);
	UNIT_CHECK(chan_send(&w->c, w) == -EPIPE);
	UNIT_CHECK(chan_try_send(&w->c, w) == -EPIPE);
	for (unsigned i = 0; i < CHAN_SENDERS * CHAN_ITEMS; i++) {
		UNIT_CHECK(atomic_load(&w->got[i]) == 1);
	}
	chan_destroy(&w->c);
}

static void
test_chan(void)
{
	static struct chan_world w;
	run_both(chan_main, &w, sizeof(w));
}

static void
refused_sender(void *arg)
{
	struct chan_world *w = arg;
	UNIT_CHECK(chan_send(&w->c, w) == -EPIPE);
	wg_done(&w->senders);
}

/* Closing refuses senders that wait; what was let in before is still received. */
static void
chan_close_main(void *arg)
{
	struct chan_world *w = arg;
	void *item = NULL;
	ASSERT(chan_init(&w->c, 1) == 0);
	wg_init(&w->senders);
	wg_add(&w->senders, 4);
	UNIT_CHECK(chan_try_send(&w->c, w) == 0);
	UNIT_CHECK(chan_try_send(&w->c, w) == -EAGAIN);
	spawn_many(4, "refused", refused_sender, w);
	fiber_sleep(1000);
	chan_close(&w->c);
	wg_wait(&w->senders);
	UNIT_CHECK(chan_recv(&w->c, &item) == 0 && item == w);
	UNIT_CHECK(chan_recv(&w->c, &item) == -EPIPE);
	chan_destroy(&w->c);
	mem_fail_at(1, false);
	UNIT_CHECK(chan_init(&w->c, 1) == -ENOMEM);
}

static void
test_chan_close(void)
{
	static struct chan_world w;
	run_both(chan_close_main, &w, sizeof(w));
}

/* ---- lock order, and what must stop the program ---- */

#ifdef AGATE_DEBUG

static void
sim_run_of(fiber_fn *fn)
{
	struct rt_options opt = unit_rt(true, 1, 1);
	if (rt_run(&opt, fn, NULL) != 0) {
		_exit(EXIT_SUCCESS); /* not the death that was wanted */
	}
}

static void
order_main(void *arg)
{
	(void)arg;
	struct mutex low, high, high2;
	struct rwlock middle;
	mutex_init(&low, RANK_FS_INODE);
	rwlock_init(&middle, RANK_POOL_TXG);
	mutex_init(&high, RANK_KB);
	mutex_init(&high2, RANK_KB);
	mutex_lock(&low);
	rwlock_rdlock(&middle);
	mutex_lock(&high);
	mutex_lock_nested(&high2);
	mutex_unlock(&low);
	mutex_unlock(&high2);
	mutex_unlock(&high);
	rwlock_rdunlock(&middle);
	/* Against the order, but trying can't deadlock. */
	mutex_lock(&high);
	UNIT_CHECK(mutex_trylock(&low));
	mutex_unlock(&low);
	mutex_unlock(&high);
}

static void
wrong_order_main(void *arg)
{
	(void)arg;
	struct mutex high;
	struct rwlock low;
	mutex_init(&high, RANK_KB);
	rwlock_init(&low, RANK_FS_INODE);
	mutex_lock(&high);
	rwlock_wrlock(&low);
}

static void
same_rank_main(void *arg)
{
	(void)arg;
	struct mutex a, b;
	mutex_init(&a, RANK_KB);
	mutex_init(&b, RANK_KB);
	mutex_lock(&a);
	mutex_lock(&b);
}

static void
twice_main(void *arg)
{
	(void)arg;
	struct mutex a;
	mutex_init(&a, RANK_KB);
	mutex_lock(&a);
	mutex_lock_nested(&a);
}

static void
spin_over_park_main(void *arg)
{
	(void)arg;
	struct spin s;
	spin_init(&s);
	spin_lock(&s);
	fiber_yield();
}

static void
not_mine_main(void *arg)
{
	(void)arg;
	struct mutex a;
	mutex_init(&a, RANK_KB);
	mutex_unlock(&a);
}

static void
wrong_order(void)
{
	sim_run_of(wrong_order_main);
}

static void
same_rank(void)
{
	sim_run_of(same_rank_main);
}

static void
twice(void)
{
	sim_run_of(twice_main);
}

static void
spin_over_park(void)
{
	sim_run_of(spin_over_park_main);
}

static void
not_mine(void)
{
	sim_run_of(not_mine_main);
}

static void
test_lock_order(void)
{
	struct rt_options opt = unit_rt(true, 1, 1);
	CU_ASSERT(rt_run(&opt, order_main, NULL) == 0);
	CU_ASSERT(unit_dies(wrong_order, "lock_order fiber=main"));
	CU_ASSERT(unit_dies(same_rank, "lock_order fiber=main"));
	CU_ASSERT(unit_dies(twice, "assertion_failed"));
	CU_ASSERT(unit_dies(spin_over_park, "spins_held"));
	CU_ASSERT(unit_dies(not_mine, "assertion_failed"));
}
#endif

static const struct unit_test tests[] = {
    {"mutex", test_mutex},
    {"mutex hand-over", test_mutex_handoff},
    {"rwlock", test_rwlock},
    {"rwlock prefers writers", test_rwlock_prefers_writers},
    {"cond and waitgroup", test_cond},
    {"sem", test_sem},
    {"sem order", test_sem_order},
    {"sem give up", test_sem_give_up},
    {"chan", test_chan},
    {"chan close", test_chan_close},
#ifdef AGATE_DEBUG
    {"lock order", test_lock_order},
#endif
};

int
main(int argc, char **argv)
{
	return unit_main("base_sync", tests, ARRAY_LEN(tests), argc, argv);
}
