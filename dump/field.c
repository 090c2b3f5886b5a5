/*
 * field.c - the field of 256 elements, polynomials modulo x^8+x^4+x^3+x^2+1. 2 generates all
 * elements but 0, so products are sums of logarithms.
 */
#include "dump/dump.h"

struct tables {
	bool made;
	uint8_t log[256], exp[510];
};

static const struct tables *
tables(void)
{
	static struct tables t;

	if (!t.made) {
		uint32_t x = 1;

		for (uint32_t i = 0; i < 255; i++) {
			t.exp[i] = t.exp[i + 255] = (uint8_t)x;
			t.log[x] = (uint8_t)i;
			x = x << 1;
			x = x > 255 ? x ^ 0x11d : x;
		}
		t.made = true;
	}
	return &t;
}

uint8_t
field_mul(uint8_t a, uint8_t b)
{
	const struct tables *t = tables();

	return a == 0 || b == 0 ? 0 : t->exp[t->log[a] + t->log[b]];
}

static uint8_t
field_inverse(uint8_t a)
{
	const struct tables *t = tables();

	return t->exp[255 - t->log[a]];
}

uint8_t
field_power_of_2(uint32_t n)
{
	return tables()->exp[n % 255];
}

void
field_add_scaled(uint8_t *out, const uint8_t *in, uint8_t factor, size_t len)
{
	uint8_t product[256];

	for (uint32_t i = 0; i < 256; i++) {
		product[i] = field_mul(factor, (uint8_t)i);
	}
	for (size_t i = 0; i < len; i++) {
		out[i] ^= product[in[i]];
	}
}

/* row of m and of inv += factor * from */
static void
row_add(uint8_t m[PARITY_MAX][PARITY_MAX], uint8_t inv[PARITY_MAX][PARITY_MAX], uint32_t row,
    uint32_t from, uint8_t factor)
{
	for (uint32_t c = 0; c < PARITY_MAX; c++) {
		m[row][c] ^= field_mul(factor, m[from][c]);
		inv[row][c] ^= field_mul(factor, inv[from][c]);
	}
}

bool
field_invert(uint8_t m[PARITY_MAX][PARITY_MAX], uint32_t n)
{
	uint8_t inv[PARITY_MAX][PARITY_MAX] = {{0}};

	for (uint32_t i = 0; i < n; i++) {
		inv[i][i] = 1;
	}
	for (uint32_t i = 0; i < n; i++) {
		/* a pivot that is zero gets a row from below added */
		for (uint32_t r = i + 1; m[i][i] == 0 && r < n; r++) {
			row_add(m, inv, i, r, 1);
		}
		if (m[i][i] == 0) {
			return false;
		}
		/* scaled to one: x + (1/p - 1) x, and minus is plus */
		row_add(m, inv, i, i, field_inverse(m[i][i]) ^ 1);
		for (uint32_t r = 0; r < n; r++) {
			if (r != i) {
				row_add(m, inv, r, i, m[r][i]);
			}
		}
	}
	memcpy(m, inv, sizeof(inv));
	return true;
}
