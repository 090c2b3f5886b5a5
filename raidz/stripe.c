/*
 * stripe.c - a block is at most two rectangles: the full rows, and the last row with fewer data
 * columns. Each is a set of strips of equal length for parity.h. Where a column has no sector in
 * the last row it takes no part in that row's parity (the same as a sector of zeroes).
 */
#include "raidz/stripe.h"
#include "raidz/parity.h"

STATIC_ASSERT(RAIDZ_PARITY_MAX == PARITY_ROWS_MAX);
STATIC_ASSERT(RAIDZ_WIDTH_MAX - 1 == PARITY_DATA_MAX);

static void
strips_of(const struct raidz_map *m, uint8_t *const mem[RAIDZ_WIDTH_MAX], bool tail,
    struct parity_strips *out)
{
	size_t skip = tail ? (size_t)m->full_rows * SECTOR_BYTES : 0;
	*out = (struct parity_strips){
	    .data_count = tail ? m->tail_count : m->col_count - m->parity,
	    .parity_count = m->parity,
	    .len_bytes = (tail ? 1 : (size_t)m->full_rows) * SECTOR_BYTES,
	};
	for (uint32_t i = 0; i < m->parity; i++) {
		out->parity[i] = mem[i] + skip;
	}
	for (uint32_t j = 0; j < out->data_count; j++) {
		out->data[j] = mem[m->parity + j] + skip;
	}
}

void
stripe_gen(const struct raidz_map *m, uint8_t *const mem[RAIDZ_WIDTH_MAX])
{
	struct parity_strips s;
	ASSERT(m->parity > 0);
	if (m->full_rows > 0) {
		strips_of(m, mem, false, &s);
		parity_gen(&s);
	}
	if (m->tail_count > 0) {
		strips_of(m, mem, true, &s);
		parity_gen(&s);
	}
}

/* The lowest count bits of mask. */
static uint32_t
lowest_bits(uint32_t mask, uint32_t count)
{
	uint32_t out = 0;
	for (; count > 0; count--) {
		uint32_t bit = mask & -mask;
		out |= bit;
		mask &= ~bit;
	}
	return out;
}

void
stripe_rebuild(
    const struct raidz_map *m, uint8_t *const mem[RAIDZ_WIDTH_MAX], uint32_t missing, uint32_t use)
{
	struct parity_strips s;
	ASSERT((missing & ~raidz_map_data_mask(m)) == 0 && (use & ~raidz_map_parity_mask(m)) == 0);
	ASSERT(__builtin_popcount(missing) == __builtin_popcount(use));
	missing >>= m->parity;
	if (m->full_rows > 0) {
		strips_of(m, mem, false, &s);
		parity_rebuild(&s, missing, use);
	}
	if (m->tail_count > 0) {
		strips_of(m, mem, true, &s);
		missing &= (1u << m->tail_count) - 1;
		use = lowest_bits(use, (uint32_t)__builtin_popcount(missing));
		parity_rebuild(&s, missing, use);
	}
}
