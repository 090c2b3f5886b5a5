/*
 * pool_snap_model_test.c - short histories of datasets and snapshots against a model, on the way to
 * the long ones of tests/histories/pool-histories; one of them cut at each single write; and that
 * deliberate bugs are noticed.
 */
#include "tests/histories/history.h"

#define SEEDS 4u /* one of each layout */
#define STEPS 300u

static void
run_seeds(uint64_t first, unsigned buggify)
{
	static struct history_counts counts;

	memset(&counts, 0, sizeof(counts));
	for (uint64_t s = first; s < first + SEEDS; s++) {
		struct history_spec spec = {
		    .seed = s, .steps = STEPS, .buggify = buggify, .counts = &counts};

		history_run(&spec);
	}
	printf("(%llu transactions, %llu cuts, %llu snapshots, %llu objects compared, %llu checks) ",
	    (unsigned long long)counts.steps, (unsigned long long)counts.kind[HK_CUT],
	    (unsigned long long)counts.kind[HK_SNAP], (unsigned long long)counts.kind[HK_COMPARE],
	    (unsigned long long)(counts.kind[HK_CHECK] + counts.kind[HK_CHECK_ALL]));
	fflush(stdout);
}

static void
test_histories(void)
{
	run_seeds(unit_seed(1), 0);
}

static void
test_histories_buggify(void)
{
	run_seeds(unit_seed(1001), 25);
}

/* The same on threads, without cuts. */
static void
test_histories_real(void)
{
	struct history_spec spec = {.seed = unit_seed(2001), .steps = STEPS, .real = true};

	history_run(&spec);
}

#ifdef AGATE_DEBUG
#define BUG_SEEDS 8u

static const char *bug_name;
static uint64_t bug_seed;

static void
bug_child(void)
{
	struct history_spec spec = {.seed = bug_seed, .steps = 2 * STEPS};

	(void)setenv("AGATE_BUGS", bug_name, 1);
	(void)alarm(60);
	history_run(&spec);
}

/* Each of these bugs shows within a few seeds; else the test wouldn't be worth much. */
static void
test_bugs_are_seen(void)
{
	static const char *const bugs[] = {
	    "snap-free-too-young",
	    "deadlist-bucket-wrong",
	    "snap-destroy-frees-shared",
	    "root-block-double-free",
	    "pool-rollback-keeps-cache",
	    "pool-account-chown-forgotten",
	    "pool-account-walk-skips",
	};

	for (size_t i = 0; i < ARRAY_LEN(bugs); i++) {
		bool noticed = false;

		bug_name = bugs[i];
		for (bug_seed = 1; bug_seed <= BUG_SEEDS && !noticed; bug_seed++) {
			noticed = unit_dies(bug_child, NULL);
		}
		if (!noticed) {
			fprintf(stderr, "not seen: %s\n", bug_name);
		}
		CU_ASSERT(noticed);
	}
}
#endif

static const struct unit_test tests[] = {
    {"histories", test_histories},
    {"rare paths", test_histories_buggify},
    {"threads", test_histories_real},
#ifdef AGATE_DEBUG
    {"bugs are seen", test_bugs_are_seen},
#endif
};

int
main(int argc, char **argv)
{
	return unit_main("pool_snap_model", tests, ARRAY_LEN(tests), argc, argv);
}
