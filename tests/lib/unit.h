/*
 * unit.h - what the unit-test programs share: a table of tests run by CUnit, with an exit status
 * that tells. Arguments are substrings of test names; without any, all run.
 */
#ifndef AGATE_TESTS_UNIT_H
#define AGATE_TESTS_UNIT_H

#include <CUnit/Basic.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>
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
unit_main(
    const char *suite_name, const struct unit_test *tests, size_t count, int argc, char **argv)
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

/* CU_ASSERT for code that runs on several reactors: CUnit itself is for one thread. The FATAL kinds
 * of CUnit jump out of the test function and must not be used in fibers at all; use ASSERT there.
 */
#define UNIT_CHECK(cond) unit_check((cond), __FILE__, __LINE__, #cond)

static inline void
unit_check(bool ok, const char *file, int line, const char *what)
{
	static atomic_flag busy = ATOMIC_FLAG_INIT;
	if (ok) {
		return; /* passed ones are not counted, which spares the lock */
	}
	while (atomic_flag_test_and_set(&busy)) {
	}
	CU_assertImplementation(CU_FALSE, (unsigned)line, what, file, "", CU_FALSE);
	atomic_flag_clear(&busy);
}

/* Whether fn dies of a failed assertion (or any other way of not returning), run in a child; and,
 * unless wanted is NULL, whether its last words on stderr contain that text. */
static inline bool
unit_dies(void (*fn)(void), const char *wanted)
{
	static char text[65536];
	size_t len = 0;
	int fds[2];
	if (pipe(fds) != 0) {
		return false;
	}
	fflush(NULL);
	pid_t pid = fork();
	if (pid == 0) {
		dup2(fds[1], STDERR_FILENO);
		close(fds[0]);
		close(fds[1]);
		fn();
		_exit(EXIT_SUCCESS);
	}
	close(fds[1]);
	ssize_t n;
	while (
	    len < sizeof(text) - 1 && (n = read(fds[0], text + len, sizeof(text) - 1 - len)) > 0) {
		len += (size_t)n;
	}
	text[len] = '\0';
	close(fds[0]);
	int status = 0;
	if (pid < 0 || waitpid(pid, &status, 0) != pid) {
		return false;
	}
	bool died = !WIFEXITED(status) || WEXITSTATUS(status) != EXIT_SUCCESS;
	return died && (wanted == NULL || strstr(text, wanted) != NULL);
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
