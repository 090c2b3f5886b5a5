/*
 * agate_sim.c - runs the simulation of the whole appliance: agate-sim --seed N, --seeds A..B,
 * --count N [--seed FIRST], --bug NAME[,NAME], --expect-bug, --faults (ill drives as well),
 * --operator (somebody works on the drives), both, or --mix (by the seed), --twice, --verbose,
 * --crashes N, --overnight.
 *
 * Exit status: 0 nothing lost, nothing wrong (with --expect-bug: something was); 1 otherwise; 2
 * usage.
 */
#include <getopt.h>
#include <signal.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>
#include "tests/sim/options.h"

#define EXIT_SKIPPED 77

static void
usage(void)
{
	fprintf(stderr,
	    "usage: agate-sim [--seed N | --seeds A..B] [--count N] [--crashes N]\n"
	    "                 [--bug NAME] [--expect-bug] [--faults] [--operator] [--mix]\n"
	    "                 [--twice] [--verbose] [--overnight]\n");
	exit(2);
}

static bool
parse_range(const char *text, struct options *o)
{
	char *end;
	o->first = strtoull(text, &end, 10);
	if (strncmp(end, "..", 2) != 0) {
		return false;
	}
	uint64_t last = strtoull(end + 2, &end, 10);
	o->count = last - o->first + 1;
	return *end == '\0' && last >= o->first;
}

static struct options
parse(int argc, char **argv)
{
	static const struct option longs[] = {{"seed", required_argument, NULL, 's'},
	    {"seeds", required_argument, NULL, 'r'}, {"count", required_argument, NULL, 'c'},
	    {"crashes", required_argument, NULL, 'n'}, {"bug", required_argument, NULL, 'b'},
	    {"expect-bug", no_argument, NULL, 'e'}, {"faults", no_argument, NULL, 'f'},
	    {"operator", no_argument, NULL, 'o'}, {"twice", no_argument, NULL, 't'},
	    {"verbose", no_argument, NULL, 'v'}, {"mix", no_argument, NULL, 'm'},
	    {"overnight", no_argument, NULL, 'O'}, {NULL, 0, NULL, 0}};
	struct options o = {.first = 1, .count = 1};
	int c;
	while ((c = getopt_long(argc, argv, "v", longs, NULL)) != -1) {
		switch (c) {
		case 's':
			o.first = strtoull(optarg, NULL, 10);
			break;
		case 'c':
			o.count = strtoull(optarg, NULL, 10);
			break;
		case 'n':
			o.crashes = strtoull(optarg, NULL, 10);
			o.count = UINT64_MAX;
			break;
		case 'b':
			o.bug = optarg;
			break;
		case 'e':
			o.expect_bug = true;
			break;
		case 'f':
			o.mode.faults = true;
			break;
		case 'o':
			o.mode.operator= true;
			break;
		case 't':
			o.twice = true;
			break;
		case 'v':
			o.verbose = true;
			break;
		case 'm':
			o.mix = true;
			break;
		case 'O':
			o.overnight = o.mix = true;
			o.count = UINT64_MAX;
			break;
		case 'r':
			if (parse_range(optarg, &o)) {
				break;
			}
			usage();
			break;
		default:
			usage();
		}
	}
	if (optind < argc) {
		usage();
	}
	return o;
}

static void
add_stats(struct sim_stats *to, const struct sim_stats *s)
{
	uint64_t *t = (uint64_t *)to;
	const uint64_t *f = (const uint64_t *)s;
	for (size_t i = 0; i < sizeof(*to) / sizeof(*t); i++) {
		t[i] += f[i];
	}
}

/* So that an assertion names its seed. */
static char running[128];

static void
tell_running(int sig)
{
	(void)sig; /* the next time it is fatal */
	if (write(STDOUT_FILENO, running, strlen(running)) < 0) {
		return;
	}
}

static void
name_running(uint64_t seed, struct sim_mode mode)
{
	struct sigaction act = {.sa_handler = tell_running, .sa_flags = (int)SA_RESETHAND};
	snprintf(running, sizeof(running), "STOPPED in agate-sim%s%s --seed %llu\n",
	    mode.faults ? " --faults" : "", mode.operator? " --operator" : "",
	    (unsigned long long)seed);
	(void)sigaction(SIGABRT, &act, NULL);
	(void)sigaction(SIGSEGV, &act, NULL);
}

struct sim_mode
sim_mode_of(const struct options *o, uint64_t seed)
{
	if (!o->mix) {
		return o->mode;
	}
	uint64_t n = seed % 5;
	return (struct sim_mode){.faults = n == 1 || n >= 3, .operator= n >= 2 };
}

uint64_t
sim_run_one(const struct options *o, uint64_t seed, struct totals *t)
{
	struct sim *s = calloc(1, sizeof(*s));
	struct sim_mode mode = sim_mode_of(o, seed);
	if (s == NULL) {
		exit(2);
	}
	name_running(seed, mode);
	s->verbose = o->verbose;
	s->faults = mode.faults;
	s->operator= mode.operator;
	sim_run_seed(s, seed);
	uint64_t trace = s->trace;
	add_stats(&t->stats, &s->stats);
	t->lost += s->lost;
	t->wrong += s->wrong;
	if (sim_bad(s)) {
		if (t->failed_seeds++ == 0) {
			t->first_failed = seed;
			memcpy(t->first_problem, s->first_problem, sizeof(t->first_problem));
		}
	}
	sim_fini(s);
	free(s);
	return trace;
}

static void
print_totals(const struct options *o, const struct totals *t, double seconds)
{
	const struct sim_stats *s = &t->stats;
	printf(
	    "%llu seeds, %llu lives, %llu crashes (%llu before the service was up), %llu exports, "
	    "%llu rewinds\n",
	    (unsigned long long)s->runs, (unsigned long long)s->lives,
	    (unsigned long long)s->crashes, (unsigned long long)s->crashes_early,
	    (unsigned long long)s->exports, (unsigned long long)s->rewinds);
	printf("%llu calls, %llu sent again (after a crash: %llu same answer, %llu another legal "
	       "one); in flight at a crash %llu, of them done %llu; UNSTABLE "
	       "changes gone %llu\n",
	    (unsigned long long)s->calls, (unsigned long long)s->resent,
	    (unsigned long long)s->resent_same, (unsigned long long)s->resent_other,
	    (unsigned long long)s->inflight, (unsigned long long)s->inflight_done,
	    (unsigned long long)s->unstable_lost);
	printf("snapshots taken %llu, read again after an import %llu, gone back to %llu\n",
	    (unsigned long long)s->snapshots, (unsigned long long)s->snapshots_read,
	    (unsigned long long)s->rollbacks);
	printf("drives fell ill %llu times; blocks repaired by checks %llu; the operator did %llu "
	       "things; whole without as many drives as may be missing: %llu\n",
	    (unsigned long long)s->faulty_drives, (unsigned long long)s->repaired,
	    (unsigned long long)s->operations, (unsigned long long)s->proofs);
	printf("LOST %llu WRONG %llu  (%.1f s, %.0f seeds/min)\n", (unsigned long long)t->lost,
	    (unsigned long long)t->wrong, seconds,
	    seconds > 0 ? 60.0 * (double)s->runs / seconds : 0.0);
	if (t->failed_seeds > 0) {
		struct sim_mode mode = sim_mode_of(o, t->first_failed);
		printf("first failed: agate-sim%s%s --seed %llu  (%s)\n",
		    mode.faults ? " --faults" : "", mode.operator? " --operator" : "",
		    (unsigned long long)t->first_failed, t->first_problem);
	}
}

double
sim_clock_s(void)
{
	struct timespec ts;
	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (double)ts.tv_sec + (double)ts.tv_nsec / 1e9;
}

int
main(int argc, char **argv)
{
	struct options o = parse(argc, argv);
	struct totals t = {0};
	double start = sim_clock_s();
#ifndef AGATE_DEBUG
	if (o.bug != NULL) {
		fprintf(stderr, "agate-sim: deliberate bugs need --enable-debug\n");
		return EXIT_SKIPPED;
	}
#endif
	bug_set_deliberate(o.bug);
	if (o.overnight) {
		return sim_overnight(&o);
	}
	for (uint64_t i = 0; i < o.count; i++) {
		uint64_t trace = sim_run_one(&o, o.first + i, &t);
		if (o.twice && t.failed_seeds == 0 && sim_run_one(&o, o.first + i, &t) != trace) {
			printf("seed %llu gives two traces\n", (unsigned long long)(o.first + i));
			t.wrong++;
			t.failed_seeds++;
		}
		if (t.failed_seeds > 0 && (o.expect_bug || o.count == UINT64_MAX)) {
			break;
		}
		if (o.crashes > 0 && t.stats.crashes >= o.crashes) {
			break;
		}
	}
	print_totals(&o, &t, sim_clock_s() - start);
	bool bad = t.lost + t.wrong > 0;
	return bad == o.expect_bug ? EXIT_SUCCESS : EXIT_FAILURE;
}
