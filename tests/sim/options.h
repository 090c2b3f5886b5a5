/* options.h - shared by agate_sim.c and overnight.c. */
#ifndef AGATE_TESTS_SIM_OPTIONS_H
#define AGATE_TESTS_SIM_OPTIONS_H

#include "tests/sim/sim.h"

struct sim_mode {
	bool faults, operator;
};

struct options {
	uint64_t first, count, crashes;
	const char *bug;
	bool verbose, twice, expect_bug, mix, overnight;
	struct sim_mode mode;
};

struct totals {
	struct sim_stats stats;
	uint64_t lost, wrong, failed_seeds, first_failed;
	char first_problem[256];
};

/* With --mix by the seed: of five two have both, one each has only ill drives, only an operator, neither. */
struct sim_mode sim_mode_of(const struct options *o, uint64_t seed);
/* Its trace. */
uint64_t sim_run_one(const struct options *o, uint64_t seed, struct totals *t);
double sim_clock_s(void);
int sim_overnight(const struct options *o); /* an exit status */

#endif
