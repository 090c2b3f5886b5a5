/*
 * gf256.c - the field algebra behind parity, and a scalar implementation that favours being
 * obvious.
 *
 * The field. A byte is a polynomial over GF(2) of degree below 8; addition is XOR, multiplication
 * is polynomial multiplication modulo x^8 + x^4 + x^3 + x^2 + 1 (0x11d). 2 (the polynomial x)
 * generates all 255 non-zero elements, and a^254 is the inverse of a.
 *
 * The code. With data strips d[0..k-1], parity row r is   p[r] = sum over j of  2^(r*j) * d[j],
 * i.e. row 0 is plain XOR, row 1 weighs strip j with 2^j, row 2 with 4^j. The weights are powers 0,
 * 1 and 2 of the distinct points x[j] = 2^j (distinct for j < 255).
 *
 * Any m missing data strips can be had back from any m parity rows, because each square submatrix
 * of the weights is invertible. For m = 1 the only entry isn't zero. For m = 2 and points a != b:
 *   rows 0,1:  b + a                 rows 0,2:  b^2 + a^2 = (a + b)^2
 *   rows 1,2:  a*b^2 + b*a^2 = a*b*(a + b)
 * are determinants that aren't zero. For m = 3 it is the Vandermonde matrix of distinct points.
 *
 * Solving. Let M be the missing strips, U the parity rows in use, |M| = |U|. For r in U:
 *   sum over j in M of 2^(r*j) d[j]  =  p[r] + sum over j not in M of 2^(r*j) d[j]
 * With A the matrix on the left and B its inverse, missing strip i is
 *   sum over r of B[i][r] * p[r]   +   sum over j not in M of (sum over r of B[i][r] * 2^(r*j)) *
 * d[j] so every missing strip is one weighted sum over exactly k source strips.
 */
#include "raidz/gf256.h"

#include <string.h>

#define GF256_POLY 0x1du /* without x^8, which falls out of a byte */

uint8_t
gf256_mul(uint8_t a, uint8_t b)
{
	uint32_t sum = 0;
	uint32_t x = a;
	for (uint32_t bit = 0; bit < 8; bit++) {
		if ((b & (1u << bit)) != 0) {
			sum ^= x;
		}
		x = ((x << 1) & 0xffu) ^ ((x & 0x80u) != 0 ? GF256_POLY : 0);
	}
	return (uint8_t)sum;
}

static uint8_t
gf256_pow(uint8_t a, uint32_t n)
{
	uint8_t out = 1;
	for (; n != 0; n >>= 1) {
		if ((n & 1) != 0) {
			out = gf256_mul(out, a);
		}
		a = gf256_mul(a, a);
	}
	return out;
}

uint8_t
gf256_inv(uint8_t a)
{
	ASSERT(a != 0);
	return gf256_pow(a, 254);
}

uint8_t
gf256_coef(uint32_t row, uint32_t index)
{
	return gf256_pow(2, row * index);
}

struct square {
	uint32_t n;
	uint8_t at[PARITY_ROWS_MAX][2 * PARITY_ROWS_MAX];
};

/* row += factor * from */
static void
square_add_row(struct square *m, uint32_t row, uint32_t from, uint8_t factor)
{
	for (uint32_t c = 0; c < 2 * m->n; c++) {
		m->at[row][c] ^= gf256_mul(factor, m->at[from][c]);
	}
}

/* Gauss-Jordan on the matrix with the identity at its right; the right half becomes the inverse. */
static void
square_invert(struct square *m)
{
	for (uint32_t i = 0; i < m->n; i++) {
		for (uint32_t r = i + 1; m->at[i][i] == 0 && r < m->n; r++) {
			square_add_row(m, i, r, 1);
		}
		uint8_t scale = gf256_inv(m->at[i][i]);
		for (uint32_t c = 0; c < 2 * m->n; c++) {
			m->at[i][c] = gf256_mul(scale, m->at[i][c]);
		}
		for (uint32_t r = 0; r < m->n; r++) {
			if (r != i) {
				square_add_row(m, r, i, m->at[r][i]);
			}
		}
	}
}

static uint32_t
bits_list(uint32_t mask, uint32_t *out, uint32_t max)
{
	uint32_t n = 0;
	for (uint32_t i = 0; i < 32; i++) {
		if ((mask & (1u << i)) != 0) {
			ASSERT(n < max);
			out[n++] = i;
		}
	}
	return n;
}

void
gf256_solve(uint32_t data_count, uint32_t missing, uint32_t use, struct gf256_solution *out)
{
	uint32_t lost[PARITY_ROWS_MAX] = {0};
	uint32_t row[PARITY_ROWS_MAX] = {0};
	uint32_t n = bits_list(missing, lost, PARITY_ROWS_MAX);
	ASSERT(data_count <= PARITY_DATA_MAX);
	ASSERT(n >= 1 && (missing >> data_count) == 0);
	ASSERT(bits_list(use, row, PARITY_ROWS_MAX) == n);

	struct square m = {.n = n};
	for (uint32_t r = 0; r < n; r++) {
		for (uint32_t i = 0; i < n; i++) {
			m.at[r][i] = gf256_coef(row[r], lost[i]);
		}
		m.at[r][n + r] = 1;
	}
	square_invert(&m);

	*out = (struct gf256_solution){.rows = n, .sources = data_count};
	for (uint32_t i = 0; i < n; i++) {
		uint32_t src = 0;
		for (uint32_t j = 0; j < data_count; j++) {
			if ((missing & (1u << j)) != 0) {
				continue;
			}
			for (uint32_t r = 0; r < n; r++) {
				out->coef[i][src] ^=
				    gf256_mul(m.at[i][n + r], gf256_coef(row[r], j));
			}
			src++;
		}
		for (uint32_t r = 0; r < n; r++) {
			out->coef[i][src++] = m.at[i][n + r];
		}
	}
}

/* dst += factor * src */
static void
strip_add(uint8_t *dst, const uint8_t *src, uint8_t factor, size_t len)
{
	uint8_t product[256];
	for (uint32_t v = 0; v < 256; v++) {
		product[v] = gf256_mul(factor, (uint8_t)v);
	}
	for (size_t b = 0; b < len; b++) {
		dst[b] ^= product[src[b]];
	}
}

void
parity_gen_scalar(const struct parity_strips *s)
{
	for (uint32_t i = 0; i < s->parity_count; i++) {
		memset(s->parity[i], 0, s->len_bytes);
		for (uint32_t j = 0; j < s->data_count; j++) {
			strip_add(s->parity[i], s->data[j], gf256_coef(i, j), s->len_bytes);
		}
	}
}

void
parity_rebuild_scalar(const struct parity_strips *s, uint32_t missing, uint32_t use)
{
	struct gf256_solution sol;
	uint8_t *src[PARITY_DATA_MAX];
	uint8_t *dst[PARITY_ROWS_MAX];
	gf256_solve(s->data_count, missing, use, &sol);
	parity_sources(s, missing, use, src);
	uint32_t n = parity_targets(s, missing, dst);
	for (uint32_t i = 0; i < n; i++) {
		memset(dst[i], 0, s->len_bytes);
		for (uint32_t j = 0; j < sol.sources; j++) {
			strip_add(dst[i], src[j], sol.coef[i][j], s->len_bytes);
		}
	}
}
