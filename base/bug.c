/*
 * bug.c - which BUGGIFY points are active is a pure function of seed and name, so that adding a
 * point changes no other; whether an active one fires this time comes from a stream of its own, so
 * that it doesn't shift what rt_random_u64 gives.
 */
#include <stdio.h>
#include <string.h>
#include "base/bug.h"
#include "base/check.h"
#include "base/rand.h"
#include "base/rt.h"
#include "base/rt_int.h"

#define BUG_NAMES_BYTES_MAX 256
#define BUGGIFY_FIRE_PERCENT 25u

bool bug_buggify(const char *name);
bool bug_deliberate(const char *name);

static unsigned buggify_percent;
static char deliberate_names[BUG_NAMES_BYTES_MAX]; /* "" or ",name,name," */

bool
bug_buggify(const char *name)
{
	if (!rt_is_sim() || buggify_percent == 0) {
		return false;
	}
	uint64_t hash = rand_mix(rt.seed);
	for (const char *c = name; *c != '\0'; c++) {
		hash = rand_mix(hash ^ (unsigned char)*c);
	}
	if (hash % 100 >= buggify_percent) {
		return false;
	}
	return rand_next(&rt.rand_bug) % 100 < BUGGIFY_FIRE_PERCENT;
}

bool
bug_deliberate(const char *name)
{
	if (likely(deliberate_names[0] == '\0')) {
		return false;
	}
	char wanted[BUG_NAMES_BYTES_MAX];
	snprintf(wanted, sizeof(wanted), ",%s,", name);
	return strstr(deliberate_names, wanted) != NULL;
}

void
bug_set_buggify(unsigned percent)
{
	ASSERT(percent <= 100);
	buggify_percent = percent;
}

void
bug_set_deliberate(const char *names)
{
	if (names == NULL || names[0] == '\0') {
		deliberate_names[0] = '\0';
		return;
	}
	ASSERT(strlen(names) + 3 <= sizeof(deliberate_names));
	snprintf(deliberate_names, sizeof(deliberate_names), ",%s,", names);
}
