/*
 * overnight.c - agate-sim --overnight: seed after seed until it is told to stop, each in a process
 * of its own, so that one that stops at an assertion or never ends costs that seed only. Says every
 * minute how many it does, and of each that failed how to repeat it.
 */
#include <signal.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>
#include "tests/sim/options.h"

#define SEED_SECONDS_MAX 600u
#define TELL_SECONDS 60.0

static volatile sig_atomic_t stopped;

static void
stop(int sig)
{
	(void)sig;
	stopped = 1;
}

/* 0 well; 1 failed; 2 stopped by an assertion or never ended. t is shared with the child. */
static int
run_apart(const struct options *o, uint64_t seed, struct totals *t)
{
	int status = 0;
	pid_t child = fork();
	if (child == 0) {
		(void)signal(SIGINT, SIG_IGN);
		(void)signal(SIGTERM, SIG_IGN);
		(void)alarm(SEED_SECONDS_MAX);
		uint64_t failed = t->failed_seeds;
		(void)sim_run_one(o, seed, t);
		fflush(stdout);
		_exit(t->failed_seeds != failed);
	}
	if (child < 0) {
		return 2;
	}
	while (waitpid(child, &status, 0) < 0 && !stopped) {
	}
	return WIFEXITED(status) ? WEXITSTATUS(status) : 2;
}

static void
tell(const struct totals *t, uint64_t died, double seconds)
{
	printf("%llu seeds in %.0f s, %.0f seeds/min, %llu power cuts, %llu illnesses, %llu "
	       "operations, "
	       "%llu failed, %llu stopped\n",
	    (unsigned long long)t->stats.runs, seconds, 60.0 * (double)t->stats.runs / seconds,
	    (unsigned long long)t->stats.crashes, (unsigned long long)t->stats.faulty_drives,
	    (unsigned long long)t->stats.operations, (unsigned long long)t->failed_seeds,
	    (unsigned long long)died);
	fflush(stdout);
}

int
sim_overnight(const struct options *o)
{
	struct totals *t =
	    mmap(NULL, sizeof(*t), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	uint64_t died = 0;
	double begin = sim_clock_s(), told = begin;
	if (t == MAP_FAILED) {
		return 2;
	}
	(void)signal(SIGINT, stop);
	(void)signal(SIGTERM, stop);
	printf("from seed %llu on; each failure is told with how to repeat it\n",
	    (unsigned long long)o->first);
	fflush(stdout);
	for (uint64_t i = 0; i < o->count && !stopped; i++) {
		struct sim_mode mode = sim_mode_of(o, o->first + i);
		int bad = run_apart(o, o->first + i, t);
		if (bad != 0) {
			died += bad == 2;
			printf("%s: agate-sim%s%s --seed %llu\n", bad == 2 ? "STOPPED" : "FAILED",
			    mode.faults ? " --faults" : "", mode.operator? " --operator" : "",
			    (unsigned long long)(o->first + i));
			fflush(stdout);
		}
		if (sim_clock_s() - told >= TELL_SECONDS) {
			told = sim_clock_s();
			tell(t, died, told - begin);
		}
	}
	tell(t, died, sim_clock_s() - begin);
	return t->failed_seeds + died > 0 ? 1 : 0;
}
