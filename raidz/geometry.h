/*
 * geometry.h - where the sectors of a block lie. Pure; private to raidz/ (the sums that others may
 * use are in raidz.h).
 */
#ifndef AGATE_RAIDZ_GEOMETRY_H
#define AGATE_RAIDZ_GEOMETRY_H

#include "raidz/raidz.h"

struct raidz_map_col {
	uint8_t drive;           /* column of the group */
	uint32_t rows;           /* sectors, >= 1 */
	uint32_t data_off_bytes; /* data column: where in the block it starts */
	uint64_t drive_sector;   /* from the start of the group's space on that drive */
};

/*
 * The columns of one block: parity first, then data. Row r < full_rows exists on every column; when
 * rows > full_rows there is one more row, on the parity columns and the first tail_count data
 * columns. A mirror's columns are all data columns with the whole block.
 */
struct raidz_map {
	uint32_t col_count;
	uint32_t parity; /* 0 on a mirror */
	uint32_t rows;
	uint32_t full_rows;
	uint32_t tail_count;
	uint32_t pad_count; /* sectors at the end of the allocation that hold nothing */
	struct raidz_map_col col[RAIDZ_WIDTH_MAX];
};

bool raidz_config_valid(const struct raidz_config *cfg);
/* True when a block of that length may start there. */
bool raidz_block_fits(const struct raidz_config *cfg, uint64_t sector, uint32_t len_bytes);
/* sector and len_bytes as raidz_block_fits wants them. */
void raidz_map_block(
    const struct raidz_config *cfg, uint64_t sector, uint32_t len_bytes, struct raidz_map *out);

static inline uint32_t
raidz_map_parity_mask(const struct raidz_map *m)
{
	return (1u << m->parity) - 1;
}

static inline uint32_t
raidz_map_data_mask(const struct raidz_map *m)
{
	return ((1u << m->col_count) - 1) & ~raidz_map_parity_mask(m);
}

#endif
