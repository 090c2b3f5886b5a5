/*
 * pool_histories.c - runs histories of many seeds, each in a process of its own; says what they
 * contained, and fails when a seed did, or when a kind of event was absent from all of them.
 * README.md.
 */
#include <getopt.h>
#include <inttypes.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "tests/histories/history.h"

#define JOBS_MAX 64u
#define SEEDS_MIN 12u /* however slow the machine: all kinds happen in so many */

struct job {
	pid_t pid;
	uint64_t seed;
};

static struct {
	uint64_t first, last;
	uint32_t steps, jobs, seconds, every_cut, seed_seconds;
	bool all_kinds;
	struct history_counts *counts; /* shared; one a place */
	struct job job[JOBS_MAX];
	struct history_counts sum;
	uint64_t done, failed, cuts;
	const char *bug;
} run = {.first = 1, .last = 1, .steps = 10000, .jobs = 1, .seed_seconds = 900};

static uint64_t
now_ms(void)
{
	struct timespec ts;

	(void)clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * 1000 + (uint64_t)ts.tv_nsec / 1000000;
}

/* Every fourth seed runs without rare paths made common; the rest with more or fewer of them. */
static unsigned
buggify_of(uint64_t seed)
{
	return (unsigned)(seed / 4 % 4) * 15;
}

static void
log_name(uint64_t seed, char *out, size_t len)
{
	(void)snprintf(out, len, "pool-history-%" PRIu64 ".log", seed);
}

/* In the child. */
static void
seed_run(uint64_t seed, struct history_counts *counts)
{
	struct history_spec spec = {.seed = seed,
	    .steps = run.steps,
	    .buggify = buggify_of(seed),
	    .every_cut = run.every_cut,
	    .counts = counts};
	char name[64];

	log_name(seed, name, sizeof(name));
	if (freopen(name, "w", stderr) == NULL) {
		_exit(EXIT_FAILURE);
	}
	(void)setvbuf(stderr, NULL, _IONBF, 0);
	(void)alarm(run.seed_seconds);
	history_run(&spec);
	if (spec.every_cut > 0) {
		printf("seed %" PRIu64 ": %u cuts, %u went wrong\n", seed, spec.cuts, spec.bad);
		fflush(stdout);
	}
	_exit(spec.bad == 0 ? EXIT_SUCCESS : EXIT_FAILURE);
}

static void
seed_start(uint32_t place, uint64_t seed)
{
	fflush(NULL);
	memset(&run.counts[place], 0, sizeof(run.counts[place]));
	run.job[place] = (struct job){fork(), seed};
	ASSERT(run.job[place].pid >= 0);
	if (run.job[place].pid == 0) {
		seed_run(seed, &run.counts[place]);
	}
}

static void
last_words(uint64_t seed)
{
	char name[64], line[512];
	uint32_t shown = 0;
	FILE *f;

	log_name(seed, name, sizeof(name));
	f = fopen(name, "r");
	while (f != NULL && shown++ < 12 && fgets(line, sizeof(line), f) != NULL) {
		printf("    %s", line);
	}
	if (f != NULL) {
		(void)fclose(f);
	}
}

static void
seed_end(uint32_t place, int status)
{
	const struct job *j = &run.job[place];
	const uint64_t *from = (const uint64_t *)&run.counts[place];
	uint64_t *to = (uint64_t *)&run.sum;
	char name[64];

	for (size_t i = 0; i < sizeof(run.sum) / sizeof(*to); i++) {
		to[i] += from[i];
	}
	run.done++;
	log_name(j->seed, name, sizeof(name));
	if (status != 0) {
		run.failed++;
		printf("FAILED: seed %" PRIu64 " (%s %d); again: pool-histories --seed %" PRIu64
		       " --steps %u\n",
		    j->seed, WIFSIGNALED(status) ? "signal" : "exit",
		    WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status), j->seed,
		    run.steps);
		last_words(j->seed);
		fflush(stdout);
	} else {
		(void)unlink(name);
	}
	run.job[place].pid = 0;
}

static bool
wait_one(void)
{
	int status;
	pid_t pid = wait(&status);

	for (uint32_t i = 0; pid > 0 && i < run.jobs; i++) {
		if (run.job[i].pid == pid) {
			seed_end(i, status);
		}
	}
	return pid > 0;
}

static void
run_all(void)
{
	uint64_t began = now_ms();

	for (uint64_t seed = run.first; seed <= run.last; seed++) {
		uint32_t place = 0;

		if (run.seconds > 0 && seed - run.first >= SEEDS_MIN &&
		    now_ms() - began > (uint64_t)run.seconds * 1000) {
			break;
		}
		while (place < run.jobs && run.job[place].pid != 0) {
			place++;
		}
		if (place == run.jobs) {
			(void)wait_one();
			seed--;
			continue;
		}
		seed_start(place, seed);
	}
	while (wait_one()) {
	}
	printf("%" PRIu64 " seeds x %u steps in %" PRIu64 " s, %.1f seeds a minute; %" PRIu64
	       " transactions, %" PRIu64 " writes of drives; %" PRIu64 " seeds failed\n",
	    run.done, run.steps, (now_ms() - began) / 1000,
	    (double)run.done * 60000 / (double)MAX(now_ms() - began, 1u), run.sum.steps,
	    run.sum.writes, run.failed);
}

/* How many kinds were absent. */
static uint32_t
tell_kinds(void)
{
	uint32_t absent = 0;

	for (uint32_t i = 0; i < HISTORY_KIND_COUNT; i++) {
		printf("  %-40s %" PRIu64 "%s\n", history_kind_names[i], run.sum.kind[i],
		    run.sum.kind[i] == 0 && run.all_kinds ? "  ABSENT" : "");
		absent += run.sum.kind[i] == 0;
	}
	return absent;
}

static void
usage(void)
{
	printf("pool-histories [--seed N | --seeds A..B] [--steps N] [--jobs N] [--seconds N] "
	       "[--all-kinds]\n"
	       "               [--every-cut N]\n"
	       "  --seconds N    no new seed after so long, but twelve at least\n"
	       "  --all-kinds    fail when a kind of event happened in no seed\n"
	       "  --every-cut N  the power is cut at every single write, and in every N-th such "
	       "case at every write of\n"
	       "                 taking up the pool afterwards\n");
}

static uint64_t
number(const char *text, char **end)
{
	uint64_t n = strtoull(text, end, 0);

	if (*end == text) {
		usage();
		exit(2);
	}
	return n;
}

static void
seeds_parse(const char *text)
{
	char *end;

	run.first = run.last = number(text, &end);
	if (strncmp(end, "..", 2) == 0) {
		run.last = number(end + 2, &end);
	}
}

static void
options(int argc, char **argv)
{
	static const struct option known[] = {
	    {"seed", required_argument, NULL, 's'},
	    {"seeds", required_argument, NULL, 's'},
	    {"steps", required_argument, NULL, 'n'},
	    {"jobs", required_argument, NULL, 'j'},
	    {"seconds", required_argument, NULL, 't'},
	    {"all-kinds", no_argument, NULL, 'a'},
	    {"every-cut", required_argument, NULL, 'c'},
	    {NULL, 0, NULL, 0},
	};
	char *end;
	int c;

	while ((c = getopt_long(argc, argv, "", known, NULL)) != -1) {
		switch (c) {
		case 's':
			seeds_parse(optarg);
			break;
		case 'n':
			run.steps = (uint32_t)number(optarg, &end);
			break;
		case 'j':
			run.jobs = (uint32_t)MIN(MAX(number(optarg, &end), 1u), JOBS_MAX);
			break;
		case 't':
			run.seconds = (uint32_t)number(optarg, &end);
			break;
		case 'a':
			run.all_kinds = true;
			break;
		case 'c':
			run.every_cut = (uint32_t)number(optarg, &end);
			break;
		default:
			usage();
			exit(2);
		}
	}
}

int
main(int argc, char **argv)
{
	uint32_t absent;

	options(argc, argv);
	run.counts = mmap(NULL, run.jobs * sizeof(*run.counts), PROT_READ | PROT_WRITE,
	    MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	ASSERT(run.counts != MAP_FAILED);
	run_all();
	absent = tell_kinds();
	if (run.failed > 0 || run.done == 0 || (run.all_kinds && absent > 0)) {
		return EXIT_FAILURE;
	}
	return EXIT_SUCCESS;
}
