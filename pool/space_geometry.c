/*
 * space_geometry.c - between data bytes and set sectors: arithmetic on the layout alone, also for
 * pools that don't exist yet. What a block may need is what it costs on the set where it costs
 * most; what is shown follows one rule, space_data_bytes.
 */
#include "pool/pool_int.h"

#define RESERVE_PER_MILLE 36u

uint64_t
space_reserve_of(uint64_t total_sectors)
{
	return total_sectors / 1000 * RESERVE_PER_MILLE;
}

/* Sectors of one block on the set where it takes the most. */
uint32_t
space_block_sectors(const struct vdevs *v, uint32_t len_bytes)
{
	uint32_t most = 0;

	for (uint32_t i = 0; i < v->set_count; i++) {
		most = MAX(most, raidz_alloc_sectors(&v->sets[i].cfg, len_bytes));
	}
	return most;
}

uint64_t
space_sectors_for(struct pool *p, uint64_t data_bytes, uint32_t record_bytes)
{
	uint32_t tail = (uint32_t)(data_bytes % record_bytes);
	uint64_t sectors = data_bytes / record_bytes * space_block_sectors(&p->v, record_bytes);

	if (tail != 0) {
		sectors += space_block_sectors(&p->v, ALIGN_UP(tail, SECTOR_BYTES));
	}
	return sectors;
}

/*
 * The share of set sectors that is data when a block fills its rows: no block of n data sectors
 * takes fewer than n / share. By the widest set, where that share is largest.
 */
static void
data_share(const struct vdevs *v, uint64_t *out_data, uint64_t *out_all)
{
	*out_data = *out_all = 1;
	for (uint32_t i = 0; i < v->set_count; i++) {
		const struct raidz_config *cfg = &v->sets[i].cfg;
		uint64_t data = cfg->width - cfg->parity;

		if (cfg->kind == RAIDZ_KIND_MIRROR) {
			*out_data = *out_all = 1;
			return;
		}
		if (i == 0 || data * *out_all > *out_data * cfg->width) {
			*out_data = data;
			*out_all = cfg->width;
		}
	}
}

uint64_t
space_geometry_bytes(const struct vdevs *v, uint64_t sectors)
{
	uint64_t data, all;

	data_share(v, &data, &all);
	return sectors / all * data * SECTOR_BYTES + sectors % all * data * SECTOR_BYTES / all;
}

uint64_t
space_data_bytes(const struct pool *p, uint64_t sectors)
{
	return space_geometry_bytes(&p->v, sectors);
}

uint64_t
space_data_sectors(const struct pool *p, uint64_t bytes)
{
	uint64_t whole = bytes / SECTOR_BYTES, data, all;

	data_share(&p->v, &data, &all);
	return whole / data * all + whole % data * all / data;
}

uint64_t
space_limit_sectors(const struct pool *p, uint64_t bytes)
{
	return bytes == 0 ? 0 : MAX(space_data_sectors(p, bytes), (uint64_t)1);
}
