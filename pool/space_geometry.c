/*
 * space_geometry.c - between data bytes and set sectors: arithmetic on the layout alone, also for
 * pools that don't exist yet. One rule everywhere: a record costs what it costs on the set where it
 * costs most.
 */
#include "pool/pool_int.h"

#define RESERVE_PER_MILLE 32u

uint64_t
space_reserve_of(uint64_t total_sectors)
{
	return total_sectors / 1000 * RESERVE_PER_MILLE;
}

/* Sectors of one block on the set where it takes the most. */
static uint32_t
sectors_of_block(const struct vdevs *v, uint32_t len_bytes)
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
	uint64_t sectors = data_bytes / record_bytes * sectors_of_block(&p->v, record_bytes);

	if (tail != 0) {
		sectors += sectors_of_block(&p->v, ALIGN_UP(tail, SECTOR_BYTES));
	}
	return sectors;
}

uint64_t
space_bytes_for(struct pool *p, uint64_t sectors, uint32_t record_bytes)
{
	return space_geometry_bytes(&p->v, sectors, record_bytes);
}

uint64_t
space_geometry_bytes(const struct vdevs *v, uint64_t sectors, uint32_t record_bytes)
{
	uint32_t each = sectors_of_block(v, record_bytes);

	/* whole blocks, and what fits into the rest pro rata: 100 % full shows as 0 bytes free */
	return sectors / each * record_bytes +
	       sectors % each * record_bytes / each / SECTOR_BYTES * SECTOR_BYTES;
}
