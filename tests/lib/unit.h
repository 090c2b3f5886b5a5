/*
 * unit.h - what the unit-test programs share: a table of tests run by CUnit, with an exit status
 * that tells. Arguments are substrings of test names; without any, all run.
 */
#ifndef AGATE_TESTS_UNIT_H
#define AGATE_TESTS_UNIT_H

#include <CUnit/Basic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "base/compiler.h"
#include "base/rt.h"

struct unit_test {
	const char *name;
	void (*run)(void);
};

static inline int
unit_wanted(const char *name, int argc, char **argv)
{
	int wanted = argc < 2;
	for (int i = 1; i < argc; i++) {
		wanted |= strstr(name, argv[i]) != NULL;
	}
	return wanted;
}

/* Runs what argv selects; returns the exit status of main: 0 only when every assertion held. */
static inline int
unit_main(const char *suite_name, const struct unit_test *tests, size_t count, int argc, char **argv)
{
	if (CU_initialize_registry() != CUE_SUCCESS) {
		return EXIT_FAILURE;
	}
	CU_pSuite suite = CU_add_suite(suite_name, NULL, NULL);
	int status = suite == NULL ? EXIT_FAILURE : EXIT_SUCCESS;
	for (size_t i = 0; i < count && status == EXIT_SUCCESS; i++) {
		if (unit_wanted(tests[i].name, argc, argv) &&
		    CU_add_test(suite, tests[i].name, tests[i].run) == NULL) {
			status = EXIT_FAILURE;
		}
	}
	if (status == EXIT_SUCCESS) {
		CU_basic_set_mode(CU_BRM_VERBOSE);
		CU_basic_run_tests();
		if (CU_get_number_of_tests_failed() > 0 || CU_get_number_of_tests_run() == 0) {
			status = EXIT_FAILURE;
		}
	}
	CU_cleanup_registry();
	return status;
}

/* AGATE_SEED in the environment, else fallback; printed, so that a failure can be repeated. */
static inline uint64_t
unit_seed(uint64_t fallback)
{
	const char *text = getenv("AGATE_SEED");
	uint64_t seed = text != NULL ? strtoull(text, NULL, 0) : fallback;
	printf("\n    seed %llu ", (unsigned long long)seed);
	return seed;
}

static inline struct rt_options
unit_rt(bool sim, unsigned reactors, uint64_t seed)
{
	return (struct rt_options){
	    .reactors = reactors, .sim = sim, .seed = seed, .arena_bytes = (size_t)32 << 20};
}

#endif
