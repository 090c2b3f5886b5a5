/*
 * parity.h - parity over strips of equal length: generate, and get missing data strips back.
 * Private to raidz/. Two implementations with the same results: scalar (gf256.c) and ISA-L
 * (parity_isal.c). Includes base/ types only; runs without drives and without the runtime.
 */
#ifndef AGATE_RAIDZ_PARITY_H
#define AGATE_RAIDZ_PARITY_H

#include <stddef.h>
#include <stdint.h>
#include "base/check.h"
#include "base/compiler.h"

#define PARITY_ROWS_MAX 3
#define PARITY_DATA_MAX 15

/* Strips are aligned to 64 bytes; len_bytes is a multiple of 64. */
struct parity_strips {
	uint32_t data_count;   /* 1..PARITY_DATA_MAX */
	uint32_t parity_count; /* 1..PARITY_ROWS_MAX */
	size_t len_bytes;
	uint8_t *data[PARITY_DATA_MAX];
	uint8_t *parity[PARITY_ROWS_MAX];
};

/* Fills parity[] from data[]. */
void parity_gen(const struct parity_strips *s);
void parity_gen_scalar(const struct parity_strips *s);

/*
 * parity_rebuild - fill the data strips in missing (bit j = strip j) from the other data strips and
 * the parity strips in use (bit i = row i; as many bits as missing has). Parity strips not in use
 * are not read.
 */
void parity_rebuild(const struct parity_strips *s, uint32_t missing, uint32_t use);
void parity_rebuild_scalar(const struct parity_strips *s, uint32_t missing, uint32_t use);

/* The data_count strips that gf256_solution's coefficients refer to: data strips that aren't
 * missing, ascending, then the parity strips in use, ascending. */
static inline void
parity_sources(const struct parity_strips *s, uint32_t missing, uint32_t use, uint8_t **out)
{
	uint32_t n = 0;
	for (uint32_t j = 0; j < s->data_count; j++) {
		if ((missing & (1u << j)) == 0) {
			out[n++] = s->data[j];
		}
	}
	for (uint32_t i = 0; i < s->parity_count; i++) {
		if ((use & (1u << i)) != 0) {
			out[n++] = s->parity[i];
		}
	}
	ASSERT(n == s->data_count);
}

/* The missing strips, ascending. Returns how many. */
static inline uint32_t
parity_targets(const struct parity_strips *s, uint32_t missing, uint8_t **out)
{
	uint32_t n = 0;
	for (uint32_t j = 0; j < s->data_count; j++) {
		if ((missing & (1u << j)) != 0) {
			out[n++] = s->data[j];
		}
	}
	return n;
}

#endif
