/* load.h - shared by the files of the load. */
#ifndef AGATE_TESTS_SIM_LOAD_H
#define AGATE_TESTS_SIM_LOAD_H

#include "tests/sim/sim.h"

struct sim_client {
	struct sim *s;
	uint32_t index;
	struct nfsc c;
	struct m_rand rng;
};

/* load_pick.c: one call, or none when what was drawn is busy. */
void load_step(struct sim_client *cl) MAY_PARK;
/* load.c */
bool load_encode(struct sim_client *cl, struct m_op *op, const void *args) WARN_UNUSED;
void load_run(struct sim_client *cl, struct m_op *op) MAY_PARK;
bool load_is_cached(enum nfsc_proc proc);

#endif
