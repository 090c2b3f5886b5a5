/*
 * bug.h - two kinds of switches for the simulation, both compiled to constant false in release.
 *
 * BUGGIFY(name): sometimes true, by the seed: makes rare paths common (tiny batches, early log wrap,
 * forced gang blocks, slow columns). Legal behaviour only.
 * DELIBERATE_BUG(name): true when the test asked for that bug by name: proves that the simulation
 * would notice it. Each use stands in docs/deliberate-bugs.md.
 */
#ifndef AGATE_BASE_BUG_H
#define AGATE_BASE_BUG_H

#include <stdbool.h>

#ifdef AGATE_DEBUG
bool bug_buggify(const char *name);
bool bug_deliberate(const char *name);
#define BUGGIFY(name) bug_buggify(name)
#define DELIBERATE_BUG(name) bug_deliberate(name)
#else
#define BUGGIFY(name) false
#define DELIBERATE_BUG(name) false
#endif

/* Percent (0..100) of BUGGIFY points that are active in a run, chosen by the seed; 0 outside the simulation. */
void bug_set_buggify(unsigned percent);
/* Comma-separated names of deliberate bugs to switch on; NULL = none. */
void bug_set_deliberate(const char *names);

#endif
