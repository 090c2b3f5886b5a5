/* raidz_rig.h - a group on simulated drives, for the tests of raidz/. */
#ifndef AGATE_TESTS_UNIT_RAIDZ_RIG_H
#define AGATE_TESTS_UNIT_RAIDZ_RIG_H

#include "kernel-bypass/kb_sim.h"
#include "raidz/geometry.h"

#define RIG_BASE_BYTES (1u << 20)
#define RIG_COLUMN_BYTES (16u << 20)

struct rig {
	struct raidz_config cfg;
	struct raidz_group *rg;
	struct kb_sim_medium *medium[RAIDZ_WIDTH_MAX];
	struct kb_drive *drive[RAIDZ_WIDTH_MAX];
};

/* A fresh group, all columns ONLINE. parity 0: a mirror. In a fiber. */
void rig_open(struct rig *r, uint32_t width, uint32_t parity);
void rig_close(struct rig *r);

/* A block of known contents. */
struct rig_block {
	uint64_t sector;
	uint32_t len_bytes;
	uint8_t *want;
	uint32_t verify_calls;
	struct raidz_map map;
};
void rig_block_init(
    struct rig *r, struct rig_block *b, uint64_t sector, uint32_t len, uint64_t seed);
void rig_block_done(struct rig_block *b);
bool rig_verify(void *arg, const uint8_t *data, uint32_t len_bytes);
/* Writes it; the status of the block. */
int rig_write(struct rig *r, struct rig_block *b, struct raidz_report *out);
/* Reads into a fresh buffer. 0 and contents equal to want; or the error; -EBADMSG: 0, but wrong
 * data. */
int rig_read(struct rig *r, struct rig_block *b, struct raidz_report *out);
int rig_scrub(struct rig *r, struct rig_block *b, struct raidz_report *out);

/* Puts random bytes into what a drive holds of the block; false when it holds nothing of it. */
bool rig_rot(struct rig *r, const struct rig_block *b, uint32_t drive, uint64_t seed);
/* A copy of what all drives hold of the block, column after column; free() it. */
uint8_t *rig_snapshot(struct rig *r, const struct rig_block *b, size_t *out_len);
uint32_t rig_drives(const struct rig_block *b); /* drives the block lies on */
uint64_t rig_random(uint64_t *state);
void rig_faults_set(struct rig *r, uint32_t drive, struct kb_sim_faults f);
void rig_column_set(struct rig *r, uint32_t col, enum raidz_col_state state);
/* Compares masks and prints them when they differ. */
bool rig_same(uint32_t got, uint32_t want);
/* I/Os of all drives so far. */
uint64_t rig_count_io(struct rig *r, bool writes);

/* Runs fn(arg) in the simulation with two reactors; a failed start is a failed assertion. */
void rig_sim(uint64_t seed, fiber_fn *fn, void *arg);

struct rig_scenario {
	const char *name;
	fiber_fn *fn;
};
/* Each in a runtime of its own; prints name and seed of those that fail. Returns how many. */
unsigned rig_run_scenarios(const struct rig_scenario *list, size_t count, uint64_t seed);

#endif
