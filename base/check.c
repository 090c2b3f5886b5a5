/*
 * check.c - what happens when an assertion fails: say where, in which fiber, with a backtrace, on
 * stderr and without touching locks or the heap of mem.h; then abort, so that the parent sees a
 * crash.
 */
#include <execinfo.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>
#include "base/check.h"
#include "base/rt_int.h"

#define BACKTRACE_FRAMES 48

void
check_failed(const char *file, int line, const char *what)
{
	static atomic_flag failing = ATOMIC_FLAG_INIT;
	if (atomic_flag_test_and_set(&failing)) {
		/* A second failure, perhaps in the lines below: the first report is the one to
		 * read. */
		abort();
	}
	dprintf(STDERR_FILENO, "assertion_failed file=%s line=%d fiber=%s cond=%s\n", file, line,
	    fiber_self_name(), what);
	void *frames[BACKTRACE_FRAMES];
	backtrace_symbols_fd(frames, backtrace(frames, BACKTRACE_FRAMES), STDERR_FILENO);
	abort();
}
