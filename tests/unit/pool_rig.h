/* pool_rig.h - simulated drives for the tests of pool/. */
#ifndef AGATE_TESTS_POOL_RIG_H
#define AGATE_TESTS_POOL_RIG_H

#include "kernel-bypass/kb_sim.h"
#include "pool/pool_int.h"
#include "tests/lib/unit.h"

#define RIG_DRIVES_MAX 80u

struct pool_rig {
	struct kb_sim_medium *media[RIG_DRIVES_MAX];
	struct kb_drive *drives[RIG_DRIVES_MAX];
	uint32_t count;
};

static inline void
rig_make(struct pool_rig *r, uint32_t count, uint64_t bytes)
{
	char name[32];

	memset(r, 0, sizeof(*r));
	for (uint32_t i = 0; i < count; i++) {
		(void)snprintf(name, sizeof(name), "drive%u", i);
		r->media[i] = kb_sim_medium_create(name, bytes);
		ASSERT(r->media[i] != NULL);
	}
	r->count = count;
}

static inline void
rig_unmake(struct pool_rig *r)
{
	for (uint32_t i = 0; i < r->count; i++) {
		kb_sim_medium_destroy(r->media[i]);
	}
}

/* In a fiber: opens what isn't open. */
static inline void
rig_open(struct pool_rig *r)
{
	for (uint32_t i = 0; i < r->count; i++) {
		int err = r->drives[i] == NULL ? kb_sim_open(r->media[i], &r->drives[i]) : 0;

		ASSERT(err == 0);
	}
}

static inline void
rig_close(struct pool_rig *r)
{
	for (uint32_t i = 0; i < r->count; i++) {
		if (r->drives[i] != NULL) {
			kb_close(r->drives[i]);
			r->drives[i] = NULL;
		}
	}
}

/* After a run that ended with -ERR_CRASHED. */
static inline void
rig_power_cut(struct pool_rig *r, uint64_t seed)
{
	for (uint32_t i = 0; i < r->count; i++) {
		kb_sim_power_cut(r->media[i], seed * 1000 + i);
		r->drives[i] = NULL;
	}
}

#endif
