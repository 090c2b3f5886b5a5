/*
 * parity_isal.c - parity through ISA-L, which picks the widest instructions of this processor at
 * run time. The code is that of gf256.c: ISA-L works in the same field (0x11d), its P+Q generator
 * weighs strip j with 2^j, and for the rest it takes coefficients, which gf256.c gives.
 *
 * ISA-L wants at least two sources for XOR and P+Q. With one data strip every weight is 2^0 = 1, so
 * each parity strip is a copy.
 */
#include "raidz/gf256.h"

#include <string.h>
#include <isa-l/erasure_code.h>
#include <isa-l/raid.h>

#define TABLE_BYTES 32 /* ISA-L's multiplication table of one coefficient */

/* array: the sources, then the target. */
static void
strips_xor(void **array, uint32_t count, size_t len)
{
	int err = xor_gen((int)count, (int)len, array);
	ASSERT(err == 0);
}

static void
strips_check(const struct parity_strips *s)
{
	ASSERT(s->data_count >= 1 && s->data_count <= PARITY_DATA_MAX);
	ASSERT(s->parity_count >= 1 && s->parity_count <= PARITY_ROWS_MAX);
	ASSERT(s->len_bytes % 64 == 0 && s->len_bytes <= INT32_MAX);
}

static void
gen_three(const struct parity_strips *s)
{
	uint8_t coef[PARITY_ROWS_MAX * PARITY_DATA_MAX];
	uint8_t tables[PARITY_ROWS_MAX * PARITY_DATA_MAX * TABLE_BYTES];
	uint8_t *src[PARITY_DATA_MAX];
	uint8_t *dst[PARITY_ROWS_MAX];
	uint32_t k = s->data_count;
	for (uint32_t i = 0; i < s->parity_count; i++) {
		dst[i] = s->parity[i];
		for (uint32_t j = 0; j < k; j++) {
			coef[i * k + j] = gf256_coef(i, j);
		}
	}
	memcpy(src, s->data, sizeof(src));
	ec_init_tables((int)k, (int)s->parity_count, coef, tables);
	ec_encode_data((int)s->len_bytes, (int)k, (int)s->parity_count, tables, src, dst);
}

void
parity_gen(const struct parity_strips *s)
{
	strips_check(s);
	uint32_t k = s->data_count;
	if (k == 1) {
		for (uint32_t i = 0; i < s->parity_count; i++) {
			memcpy(s->parity[i], s->data[0], s->len_bytes);
		}
		return;
	}
	if (s->parity_count == PARITY_ROWS_MAX) {
		gen_three(s);
		return;
	}
	void *array[PARITY_DATA_MAX + 2];
	for (uint32_t j = 0; j < k; j++) {
		array[j] = s->data[j];
	}
	array[k] = s->parity[0];
	if (s->parity_count == 1) {
		strips_xor(array, k + 1, s->len_bytes);
		return;
	}
	array[k + 1] = s->parity[1];
	int err = pq_gen((int)k + 2, (int)s->len_bytes, array);
	ASSERT(err == 0);
}

static void
rebuild_solved(const struct parity_strips *s, uint32_t missing, uint32_t use, uint8_t **src)
{
	struct gf256_solution sol;
	uint8_t coef[PARITY_ROWS_MAX * PARITY_DATA_MAX];
	uint8_t tables[PARITY_ROWS_MAX * PARITY_DATA_MAX * TABLE_BYTES];
	uint8_t *dst[PARITY_ROWS_MAX];
	uint32_t n = parity_targets(s, missing, dst);
	gf256_solve(s->data_count, missing, use, &sol);
	for (uint32_t i = 0; i < n; i++) {
		memcpy(coef + i * sol.sources, sol.coef[i], sol.sources);
	}
	ec_init_tables((int)sol.sources, (int)n, coef, tables);
	ec_encode_data((int)s->len_bytes, (int)sol.sources, (int)n, tables, src, dst);
}

void
parity_rebuild(const struct parity_strips *s, uint32_t missing, uint32_t use)
{
	uint8_t *src[PARITY_DATA_MAX];
	strips_check(s);
	if (missing == 0) {
		return;
	}
	parity_sources(s, missing, use, src);
	if (s->data_count == 1) {
		memcpy(s->data[0], src[0], s->len_bytes);
		return;
	}
	/* One strip from row 0 is the XOR of everything else, whichever strip it is. */
	if (use == 1) {
		void *array[PARITY_DATA_MAX + 1];
		for (uint32_t j = 0; j < s->data_count; j++) {
			array[j] = src[j];
		}
		array[s->data_count] = s->data[__builtin_ctz(missing)];
		strips_xor(array, s->data_count + 1, s->len_bytes);
		return;
	}
	rebuild_solved(s, missing, use, src);
}
