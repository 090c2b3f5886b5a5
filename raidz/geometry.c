/*
 * geometry.c - the map from a block to columns.
 *
 * A block with n data sectors takes the set sectors start .. start + n + p * rows - 1, without a
 * gap: row r of column c is set sector start + c + r * width. It follows that
 * - every row but the last is as wide as the set, and the last has the parity columns and the first
 *   tail_count data columns;
 * - a column is contiguous on its drive, from drive sector (start + c) / width on;
 * - no two columns of a block share a drive, so a lost drive costs a block at most one column;
 * - when n <= width - p there is only the last row: a short block uses fewer drives, and its parity
 *   covers the columns it has.
 * In the block, data column after data column is contiguous: a read of an undamaged block is one
 * transfer a drive, straight to where the data belongs.
 *
 * Padding: allocations are multiples of p + 1 sectors, the smallest block there is. Whatever is
 * freed can therefore be used again, which a hole of p sectors could not.
 */
#include "raidz/geometry.h"

bool
raidz_config_valid(const struct raidz_config *cfg)
{
	if (cfg->base_bytes % SECTOR_BYTES != 0 || cfg->column_bytes % SECTOR_BYTES != 0) {
		return false;
	}
	switch (cfg->kind) {
	case RAIDZ_KIND_PARITY:
		return cfg->width >= 3 && cfg->width <= RAIDZ_WIDTH_MAX && cfg->parity >= 1 &&
		       cfg->parity <= RAIDZ_PARITY_MAX && cfg->parity < cfg->width - 1;
	case RAIDZ_KIND_MIRROR:
		return cfg->width >= 1 && cfg->width <= RAIDZ_WIDTH_MAX;
	}
	return false;
}

uint64_t
raidz_capacity_sectors(const struct raidz_config *cfg)
{
	uint64_t sectors = cfg->column_bytes >> SECTOR_SHIFT;
	return cfg->kind == RAIDZ_KIND_MIRROR ? sectors : sectors * cfg->width;
}

uint32_t
raidz_tolerates(const struct raidz_config *cfg)
{
	return cfg->kind == RAIDZ_KIND_MIRROR ? cfg->width - 1 : cfg->parity;
}

/* Data and parity, without padding. */
static uint32_t
used_sectors(const struct raidz_config *cfg, uint32_t len_bytes)
{
	uint32_t n = DIV_UP(len_bytes, SECTOR_BYTES);
	if (cfg->kind == RAIDZ_KIND_MIRROR) {
		return n;
	}
	return n + cfg->parity * DIV_UP(n, cfg->width - cfg->parity);
}

uint32_t
raidz_alloc_sectors(const struct raidz_config *cfg, uint32_t len_bytes)
{
	uint32_t used = used_sectors(cfg, len_bytes);
	if (cfg->kind == RAIDZ_KIND_MIRROR) {
		return used;
	}
	return DIV_UP(used, cfg->parity + 1) * (cfg->parity + 1);
}

bool
raidz_block_fits(const struct raidz_config *cfg, uint64_t sector, uint32_t len_bytes)
{
	if (len_bytes == 0 || len_bytes > RAIDZ_BLOCK_BYTES_MAX || len_bytes % SECTOR_BYTES != 0) {
		return false;
	}
	uint64_t capacity = raidz_capacity_sectors(cfg);
	return sector < capacity && raidz_alloc_sectors(cfg, len_bytes) <= capacity - sector;
}

static void
map_mirror(const struct raidz_config *cfg, uint64_t sector, uint32_t n, struct raidz_map *out)
{
	*out = (struct raidz_map){.col_count = cfg->width, .rows = n, .full_rows = n};
	for (uint32_t c = 0; c < cfg->width; c++) {
		out->col[c] =
		    (struct raidz_map_col){.drive = (uint8_t)c, .rows = n, .drive_sector = sector};
	}
}

void
raidz_map_block(
    const struct raidz_config *cfg, uint64_t sector, uint32_t len_bytes, struct raidz_map *out)
{
	ASSERT(raidz_block_fits(cfg, sector, len_bytes));
	uint32_t n = len_bytes >> SECTOR_SHIFT;
	if (cfg->kind == RAIDZ_KIND_MIRROR) {
		map_mirror(cfg, sector, n, out);
		return;
	}
	uint32_t p = cfg->parity;
	uint32_t data_width = cfg->width - p;
	uint32_t full = n / data_width;
	uint32_t tail = n % data_width;
	*out = (struct raidz_map){
	    .col_count = full > 0 ? cfg->width : p + tail,
	    .parity = p,
	    .rows = full + (tail > 0),
	    .full_rows = full,
	    .tail_count = tail,
	    .pad_count = raidz_alloc_sectors(cfg, len_bytes) - used_sectors(cfg, len_bytes),
	};
	uint32_t off = 0;
	for (uint32_t c = 0; c < out->col_count; c++) {
		bool in_tail = c < p + tail && tail > 0;
		out->col[c] = (struct raidz_map_col){
		    .drive = (uint8_t)((sector + c) % cfg->width),
		    .rows = full + in_tail,
		    .data_off_bytes = off,
		    .drive_sector = (sector + c) / cfg->width,
		};
		off += c < p ? 0 : out->col[c].rows * SECTOR_BYTES;
	}
	ASSERT(off == len_bytes);
}
