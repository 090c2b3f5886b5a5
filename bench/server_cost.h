/* server_cost.h - what a server's process pays while a load runs. */
#ifndef AGATE_BENCH_SERVER_COST_H
#define AGATE_BENCH_SERVER_COST_H

#include <stdint.h>

#define SERVER_THREADS_MAX 256u

/* One process with all the threads it has at the beginning; those that come later are in cpu_us only. */
struct server_cost {
	const char *pid;
	double cpu_us;         /* user and system */
	uint64_t instructions; /* the same; 0: this machine doesn't count them, or doesn't let us */
	int counters[SERVER_THREADS_MAX];
	unsigned counter_count;
};

void server_cost_begin(struct server_cost *c, const char *pid);
/* cpu_us and instructions become what was spent since the beginning. */
void server_cost_end(struct server_cost *c);

#endif
