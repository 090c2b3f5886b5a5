/*
 * kb_sim_int.h - the medium of a simulated drive, as kb_sim.c uses it. All calls but create and
 * destroy are made with the medium's guard held.
 */
#ifndef AGATE_KERNEL_BYPASS_KB_SIM_INT_H
#define AGATE_KERNEL_BYPASS_KB_SIM_INT_H

#include "kernel-bypass/kb_int.h"
#include "kernel-bypass/kb_sim.h"

struct sim_chunk;

/* A write that is not yet durable, for one sector. */
struct sim_version {
	struct sim_version *older;
	uint8_t *data;         /* NULL: zeros */
	uint64_t write_id;     /* of the request that made it */
	uint64_t completed_at; /* medium clock; 0 = its request is still in flight */
};

struct sim_sector {
	struct list dirty_link;       /* on medium->dirty while it has versions */
	uint8_t *durable;             /* the first durable_bytes of it, zeros follow; or NULL */
	struct sim_version *versions; /* newest first; NULL: nothing unflushed */
	uint32_t durable_bytes;
};

struct kb_sim_medium {
	struct spin guard;
	char name[64];
	uint64_t size_bytes;
	uint64_t chunk_count;
	struct sim_chunk **chunks; /* NULL where nothing was ever written */
	struct list dirty;         /* sectors with versions, in order of their first write */
	uint64_t dirty_count;
	uint8_t *spare;         /* free pages */
	struct sim_version *spare_versions;
	uint64_t clock;         /* counts completed writes, from 1 */
	uint64_t next_write_id; /* from 1 */
	uint64_t prng;          /* state; seeded from the runtime at each open */
	struct kb_sim_faults faults;
	bool plp;
	bool vanished;
	struct list drives; /* open ones, of this life */
};

/* The medium's own random numbers. */
uint64_t sim_random(uint64_t *state);
/* True with a chance of so many millionths. */
bool sim_chance(uint64_t *state, uint32_t millionths);

/* Put iov into the cache at off_bytes, as the newest versions, in the name of write_id. */
void sim_write(struct kb_sim_medium *m, uint64_t off_bytes, const struct iovec *iov,
    uint32_t iov_count, uint64_t write_id);
/* The same with zeros or junk; sectors that were never written are left alone. */
void sim_discard(struct kb_sim_medium *m, uint64_t off_bytes, uint64_t len_bytes, uint64_t write_id);
/* The request write_id on this range has completed: a later flush covers it. durable: it is durable
 * now. */
void sim_write_completed(struct kb_sim_medium *m, uint64_t off_bytes, uint64_t len_bytes,
    uint64_t write_id, bool durable);
void sim_read(
    struct kb_sim_medium *m, uint64_t off_bytes, const struct iovec *iov, uint32_t iov_count);
/* Make durable what had completed by clock value upto; a sector is skipped with a chance of skip
 * millionths. */
void sim_flush(struct kb_sim_medium *m, uint64_t upto, uint32_t skip);
/* Lose, keep or tear everything unflushed. */
void sim_settle(struct kb_sim_medium *m, uint64_t seed);
/* Flip one bit of what the range reads as now. */
void sim_flip_bit(struct kb_sim_medium *m, uint64_t off_bytes, uint64_t len_bytes);

#endif
