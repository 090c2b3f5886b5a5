/*
 * fiber_switch.c - what the runtime's primitives cost on this machine, in nanoseconds an operation.
 * Never part of make check.
 */
#include <stdio.h>
#include <stdlib.h>
#include "base/base.h"

#define ROUNDS 2000000u
#define ROUNDS_SLOW 100000u

struct game {
	struct sem ball[2];
	struct waitgroup wg;
	uint32_t rounds;
};

static void
report(const char *what, uint64_t begin_ns, uint64_t ops)
{
	printf("%-48s %9.1f ns\n", what, (double)(rt_now_ns() - begin_ns) / (double)ops);
}

static void
yielder(void *arg)
{
	struct game *g = arg;
	for (uint32_t i = 0; i < g->rounds; i++) {
		fiber_yield();
	}
	wg_done(&g->wg);
}

static void
bench_yield(void)
{
	struct game g = {.rounds = ROUNDS};
	wg_init(&g.wg);
	wg_add(&g.wg, 2);
	uint64_t begin = rt_now_ns();
	fiber_spawn_wait(0, FIBER_REQUEST, "yielder", yielder, &g);
	fiber_spawn_wait(0, FIBER_REQUEST, "yielder", yielder, &g);
	wg_wait(&g.wg);
	report("fiber switch (yield)", begin, 2ull * ROUNDS);
}

static void
returner(void *arg)
{
	struct game *g = arg;
	for (uint32_t i = 0; i < g->rounds; i++) {
		sem_take(&g->ball[0], 1);
		sem_give(&g->ball[1], 1);
	}
	wg_done(&g->wg);
}

/* Server and returner wait for each other in turns: two wakes and two parks a round. */
static void
bench_ball(const char *what, unsigned reactor, uint32_t rounds)
{
	struct game g = {.rounds = rounds};
	sem_init_units(&g.ball[0], 0);
	sem_init_units(&g.ball[1], 0);
	wg_init(&g.wg);
	wg_add(&g.wg, 1);
	fiber_spawn_wait(reactor, FIBER_REQUEST, "returner", returner, &g);
	uint64_t begin = rt_now_ns();
	for (uint32_t i = 0; i < rounds; i++) {
		sem_give(&g.ball[0], 1);
		sem_take(&g.ball[1], 1);
	}
	report(what, begin, 2ull * rounds);
	wg_wait(&g.wg);
}

static void
ender(void *arg)
{
	wg_done(arg);
}

static void
bench_spawn(void)
{
	struct waitgroup wg;
	wg_init(&wg);
	uint64_t begin = rt_now_ns();
	for (uint32_t i = 0; i < ROUNDS_SLOW * 4; i++) {
		wg_add(&wg, 1);
		fiber_spawn_wait(0, FIBER_REQUEST, "ender", ender, &wg);
		wg_wait(&wg);
	}
	report("spawn a fiber, let it run, wait for it", begin, ROUNDS_SLOW * 4);
}

static void
bench_mutex(void)
{
	struct mutex mu;
	mutex_init(&mu, RANK_LEAF);
	uint64_t begin = rt_now_ns();
	for (uint32_t i = 0; i < ROUNDS; i++) {
		mutex_lock(&mu);
		mutex_unlock(&mu);
	}
	report("mutex, lock and unlock, nobody else", begin, ROUNDS);
}

static void
bench_mem(void)
{
	uint64_t begin = rt_now_ns();
	for (uint32_t i = 0; i < ROUNDS; i++) {
		mem_free(mem_zalloc(100));
	}
	report("mem_zalloc and mem_free, 100 bytes", begin, ROUNDS);
}

static void
nothing(void *arg)
{
	(void)arg;
}

static void
bench_offload(void)
{
	uint64_t begin = rt_now_ns();
	for (uint32_t i = 0; i < ROUNDS_SLOW / 4; i++) {
		offload(nothing, NULL);
	}
	report("offload to a helper thread and back", begin, ROUNDS_SLOW / 4);
}

static void
bench_main(void *arg)
{
	(void)arg;
	bench_yield();
	bench_ball("wake and park, same reactor", 0, ROUNDS / 2);
	if (rt_reactor_count() > 1) {
		bench_ball("wake and park, other reactor", 1, ROUNDS_SLOW);
	}
	bench_spawn();
	bench_mutex();
	bench_mem();
	bench_offload();
}

static void
sim_main(void *arg)
{
	(void)arg;
	struct game g = {.rounds = ROUNDS / 2};
	wg_init(&g.wg);
	wg_add(&g.wg, 4);
	for (unsigned i = 0; i < 4; i++) {
		fiber_spawn_wait(i % rt_reactor_count(), FIBER_REQUEST, "yielder", yielder, &g);
	}
	wg_wait(&g.wg);
}

int
main(void)
{
	struct rt_options opt = {.reactors = 2, .arena_bytes = (size_t)32 << 20};
	int err = rt_run(&opt, bench_main, NULL);
	if (err == 0) {
		opt.sim = true;
		opt.seed = 1;
		uint64_t begin = rt_now_ns();
		err = rt_run(&opt, sim_main, NULL);
		report("simulation, one step", begin, 4ull * ROUNDS / 2);
	}
	if (err != 0) {
		fprintf(stderr, "fiber_switch: %s\n", err_str(err));
		return EXIT_FAILURE;
	}
	return EXIT_SUCCESS;
}
