/*
 * gf256.h - arithmetic in GF(2^8) and the scalar parity code. Private to raidz/. It is the
 * reference that parity_isal.c is compared with, and it works out the coefficients that both use.
 */
#ifndef AGATE_RAIDZ_GF256_H
#define AGATE_RAIDZ_GF256_H

#include "raidz/parity.h"

uint8_t gf256_mul(uint8_t a, uint8_t b);
uint8_t gf256_inv(uint8_t a); /* a != 0 */

/* The factor of data strip `index` in parity strip `row`: 2^(row * index). */
uint8_t gf256_coef(uint32_t row, uint32_t index);

/* out[i][j] times source j, summed over j, is the i-th missing strip (see parity_sources). */
struct gf256_solution {
	uint32_t rows;    /* missing strips */
	uint32_t sources; /* = data_count */
	uint8_t coef[PARITY_ROWS_MAX][PARITY_DATA_MAX];
};

/*
 * gf256_solve - how to get the data strips in missing from the others and the parity strips in use.
 * As many bits in use as in missing, at most PARITY_ROWS_MAX; always solvable.
 */
void gf256_solve(uint32_t data_count, uint32_t missing, uint32_t use, struct gf256_solution *out);

#endif
