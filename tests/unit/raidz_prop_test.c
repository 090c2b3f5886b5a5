/*
 * raidz_prop_test.c - properties of the parity mathematics and of the geometry, exhaustively where
 * that is small: every width, parity count and erasure set, block sizes around row boundaries,
 * ISA-L against the scalar code, the map against a model that places sector by sector. No drives.
 */
#include <CUnit/Basic.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "raidz/gf256.h"
#include "raidz/stripe.h"

static uint64_t rng_state = 0x9e3779b97f4a7c15u;

static uint64_t
rng_next(void)
{
	rng_state ^= rng_state << 13;
	rng_state ^= rng_state >> 7;
	rng_state ^= rng_state << 17;
	return rng_state;
}

static void
fill_random(uint8_t *p, size_t len)
{
	for (size_t i = 0; i < len; i += 8) {
		uint64_t v = rng_next();
		memcpy(p + i, &v, 8);
	}
}

static uint8_t *
page_alloc(size_t len)
{
	uint8_t *p = aligned_alloc(SECTOR_BYTES, len);
	ASSERT(p != NULL);
	memset(p, 0x5a, len);
	return p;
}

static struct raidz_config
config_of(uint32_t width, uint32_t parity)
{
	return (struct raidz_config){.kind = RAIDZ_KIND_PARITY,
	    .width = width,
	    .parity = parity,
	    .base_bytes = 1 << 20,
	    .column_bytes = 64 << 20};
}

/* ---- the field ---- */

static void
test_field(void)
{
	CU_ASSERT_EQUAL(gf256_mul(0x80, 2), 0x1d);
	CU_ASSERT_EQUAL(gf256_coef(0, 14), 1);
	CU_ASSERT_EQUAL(gf256_coef(1, 3), 8);
	CU_ASSERT_EQUAL(gf256_coef(2, 3), 64);
	CU_ASSERT_EQUAL(gf256_coef(1, 8), 0x1d);
	uint32_t bad = 0;
	for (uint32_t a = 0; a < 256; a++) {
		for (uint32_t b = 0; b < 256; b++) {
			uint8_t ab = gf256_mul((uint8_t)a, (uint8_t)b);
			uint8_t c = (uint8_t)(a * 7 + b * 13 + 1);
			bad += ab != gf256_mul((uint8_t)b, (uint8_t)a);
			bad += (uint8_t)(ab ^ gf256_mul((uint8_t)a, c)) !=
			       gf256_mul((uint8_t)a, (uint8_t)(b ^ c));
			bad += gf256_mul(ab, c) != gf256_mul((uint8_t)a, gf256_mul((uint8_t)b, c));
			bad += (ab == 0) != (a == 0 || b == 0);
		}
		bad += a != 0 && gf256_mul((uint8_t)a, gf256_inv((uint8_t)a)) != 1;
	}
	CU_ASSERT_EQUAL(bad, 0);
}

/* ---- strips: ISA-L against scalar, all erasures ---- */

#define STRIP_BYTES 192

struct strips_pool {
	uint8_t *base;
	struct parity_strips s;
};

static struct strips_pool
strips_new(uint32_t k, uint32_t p)
{
	struct strips_pool out = {.base = page_alloc(SECTOR_BYTES)};
	out.s =
	    (struct parity_strips){.data_count = k, .parity_count = p, .len_bytes = STRIP_BYTES};
	for (uint32_t i = 0; i < k + p; i++) {
		uint8_t *at = out.base + (size_t)i * STRIP_BYTES;
		*(i < k ? &out.s.data[i] : &out.s.parity[i - k]) = at;
	}
	fill_random(out.base, SECTOR_BYTES);
	return out;
}

/* Rebuilds missing from use with both codes and compares with the original. */
static uint32_t
check_rebuild(const struct strips_pool *a, const uint8_t *want, uint32_t missing, uint32_t use)
{
	uint32_t bad = 0;
	for (uint32_t simd = 0; simd < 2; simd++) {
		for (uint32_t j = 0; j < a->s.data_count; j++) {
			if ((missing & (1u << j)) != 0) {
				memset(a->s.data[j], 0xee, STRIP_BYTES);
			}
		}
		for (uint32_t i = 0; i < a->s.parity_count; i++) {
			if ((use & (1u << i)) == 0) {
				memset(a->s.parity[i], 0xee, STRIP_BYTES);
			}
		}
		(simd ? parity_rebuild : parity_rebuild_scalar)(&a->s, missing, use);
		size_t data_len = (size_t)a->s.data_count * STRIP_BYTES;
		bad += memcmp(a->base, want, data_len) != 0;
		memcpy(a->base, want, SECTOR_BYTES);
	}
	return bad;
}

static uint32_t
check_strips(uint32_t k, uint32_t p)
{
	static uint8_t want[SECTOR_BYTES];
	struct strips_pool a = strips_new(k, p);
	uint32_t bad = 0;
	parity_gen_scalar(&a.s);
	memcpy(want, a.base, SECTOR_BYTES);
	for (uint32_t i = 0; i < p; i++) {
		memset(a.s.parity[i], 0x77, STRIP_BYTES);
	}
	parity_gen(&a.s);
	bad += memcmp(want, a.base, SECTOR_BYTES) != 0;
	for (uint32_t missing = 1; missing < (1u << k); missing++) {
		for (uint32_t use = 1; use < (1u << p); use++) {
			if (__builtin_popcount(missing) == __builtin_popcount(use)) {
				bad += check_rebuild(&a, want, missing, use);
			}
		}
	}
	free(a.base);
	return bad;
}

static void
test_strips(void)
{
	for (uint32_t p = 1; p <= PARITY_ROWS_MAX; p++) {
		for (uint32_t k = 1; k + p <= RAIDZ_WIDTH_MAX; k++) {
			CU_ASSERT_EQUAL(check_strips(k, p), 0);
		}
	}
}

/* ---- geometry against a model ---- */

/* Places a block sector by sector as raidz.h says, and checks every claim of the map. */
static uint32_t
check_map(const struct raidz_config *cfg, uint64_t start, uint32_t n)
{
	struct raidz_map m;
	uint32_t p = cfg->parity;
	uint32_t w = cfg->width;
	uint32_t seen_rows[RAIDZ_WIDTH_MAX] = {0};
	uint32_t bad = 0;
	raidz_map_block(cfg, start, n * SECTOR_BYTES, &m);

	uint32_t left = n;
	uint64_t at = start;
	for (uint32_t row = 0; left > 0; row++) {
		uint32_t here = MIN(left, w - p);
		for (uint32_t c = 0; c < p + here; c++, at++) {
			bad += c >= m.col_count;
			bad += at % w != m.col[c].drive;
			bad += at / w != m.col[c].drive_sector + row;
			seen_rows[c]++;
		}
		left -= here;
	}
	uint32_t off = 0;
	for (uint32_t c = 0; c < m.col_count; c++) {
		bad += seen_rows[c] != m.col[c].rows;
		bad += c >= p && m.col[c].data_off_bytes != off;
		bad += c > p && m.col[c].rows > m.col[c - 1].rows;
		off += c >= p ? m.col[c].rows * SECTOR_BYTES : 0;
	}
	bad += off != n * SECTOR_BYTES;
	uint32_t alloc = raidz_alloc_sectors(cfg, n * SECTOR_BYTES);
	bad += alloc % (p + 1) != 0 || alloc != at - start + m.pad_count || m.pad_count > p;
	return bad;
}

static void
test_map(void)
{
	uint32_t bad = 0;
	for (uint32_t w = 3; w <= RAIDZ_WIDTH_MAX; w++) {
		for (uint32_t p = 1; p <= RAIDZ_PARITY_MAX && p < w - 1; p++) {
			struct raidz_config cfg = config_of(w, p);
			CU_ASSERT_TRUE(raidz_config_valid(&cfg));
			for (uint32_t n = 1; n <= 256; n += n < 70 ? 1 : 31) {
				for (uint64_t s = 0; s < w + 2; s++) {
					bad += check_map(&cfg, s + 1000, n);
				}
			}
		}
	}
	CU_ASSERT_EQUAL(bad, 0);
}

static void
test_config(void)
{
	struct raidz_config cfg = config_of(7, 1);
	CU_ASSERT_EQUAL(raidz_capacity_sectors(&cfg), 7 * (64u << 20) / SECTOR_BYTES);
	CU_ASSERT_EQUAL(raidz_tolerates(&cfg), 1);
	/* DESIGN section 10: what a block costs on 6+1, in sectors for 2, 4, 8 and 32 of data. */
	CU_ASSERT_EQUAL(raidz_alloc_sectors(&cfg, 8 << 10), 4);
	CU_ASSERT_EQUAL(raidz_alloc_sectors(&cfg, 16 << 10), 6);
	CU_ASSERT_EQUAL(raidz_alloc_sectors(&cfg, 32 << 10), 10);
	CU_ASSERT_EQUAL(raidz_alloc_sectors(&cfg, 128 << 10), 38);
	CU_ASSERT_EQUAL(raidz_alloc_sectors(&cfg, 1), 2);
	CU_ASSERT_FALSE(raidz_block_fits(&cfg, 0, 0));
	CU_ASSERT_FALSE(raidz_block_fits(&cfg, 0, 100));
	CU_ASSERT_FALSE(raidz_block_fits(&cfg, 0, RAIDZ_BLOCK_BYTES_MAX + SECTOR_BYTES));
	uint64_t cap = raidz_capacity_sectors(&cfg);
	CU_ASSERT_TRUE(raidz_block_fits(&cfg, cap - 2, SECTOR_BYTES));
	CU_ASSERT_FALSE(raidz_block_fits(&cfg, cap - 1, SECTOR_BYTES));
	CU_ASSERT_FALSE(raidz_block_fits(&cfg, UINT64_MAX, SECTOR_BYTES));

	struct raidz_config wrong[] = {
	    config_of(2, 1), config_of(17, 1), config_of(4, 3), config_of(5, 0), config_of(9, 4)};
	for (size_t i = 0; i < ARRAY_LEN(wrong); i++) {
		CU_ASSERT_FALSE(raidz_config_valid(&wrong[i]));
	}
	cfg.base_bytes = 100;
	CU_ASSERT_FALSE(raidz_config_valid(&cfg));

	struct raidz_config mirror = {
	    .kind = RAIDZ_KIND_MIRROR, .width = 3, .column_bytes = 1 << 20};
	CU_ASSERT_TRUE(raidz_config_valid(&mirror));
	CU_ASSERT_EQUAL(raidz_capacity_sectors(&mirror), 256);
	CU_ASSERT_EQUAL(raidz_tolerates(&mirror), 2);
	CU_ASSERT_EQUAL(raidz_alloc_sectors(&mirror, 12 << 10), 3);
}

/* ---- whole blocks: every erasure of up to p columns ---- */

struct block_mem {
	uint8_t *all, *copy;
	size_t len;
	uint8_t *mem[RAIDZ_WIDTH_MAX];
};

static void
block_mem_init(struct block_mem *b, const struct raidz_map *m, uint32_t n)
{
	b->len = (size_t)(n + m->parity * m->rows) * SECTOR_BYTES;
	b->all = page_alloc(b->len);
	b->copy = page_alloc(b->len);
	fill_random(b->all, b->len);
	for (uint32_t c = 0; c < m->col_count; c++) {
		size_t off = c < m->parity
				 ? (size_t)n * SECTOR_BYTES + (size_t)c * m->rows * SECTOR_BYTES
				 : m->col[c].data_off_bytes;
		b->mem[c] = b->all + off;
	}
	stripe_gen(m, b->mem);
	memcpy(b->copy, b->all, b->len);
}

/* Erase the columns, rebuild from the lowest surviving parity, make the parity again, compare all.
 */
static uint32_t
check_erasure(const struct raidz_map *m, struct block_mem *b, uint32_t erased)
{
	uint32_t lost_data = erased & raidz_map_data_mask(m);
	uint32_t good_parity = raidz_map_parity_mask(m) & ~erased;
	uint32_t use = 0;
	for (uint32_t c = 0; c < m->col_count; c++) {
		if ((erased & (1u << c)) != 0) {
			memset(b->mem[c], 0xa5, (size_t)m->col[c].rows * SECTOR_BYTES);
		}
		bool more = __builtin_popcount(use) < __builtin_popcount(lost_data);
		use |= more ? good_parity & (1u << c) : 0;
	}
	stripe_rebuild(m, b->mem, lost_data, use);
	stripe_gen(m, b->mem);
	uint32_t bad = memcmp(b->all, b->copy, b->len) != 0;
	memcpy(b->all, b->copy, b->len);
	return bad;
}

static uint32_t
check_block(const struct raidz_config *cfg, uint32_t n)
{
	struct raidz_map m;
	struct block_mem b;
	uint32_t bad = 0;
	raidz_map_block(cfg, rng_next() % 40000, n * SECTOR_BYTES, &m);
	block_mem_init(&b, &m, n);
	for (uint32_t erased = 0; erased < (1u << m.col_count); erased++) {
		if (__builtin_popcount(erased) <= (int)m.parity) {
			bad += check_erasure(&m, &b, erased);
		}
	}
	free(b.all);
	free(b.copy);
	return bad;
}

static void
test_blocks(void)
{
	for (uint32_t w = 3; w <= RAIDZ_WIDTH_MAX; w++) {
		for (uint32_t p = 1; p <= RAIDZ_PARITY_MAX && p < w - 1; p++) {
			struct raidz_config cfg = config_of(w, p);
			uint32_t d = w - p;
			uint32_t sizes[] = {1, 2, d - 1, d, d + 1, 2 * d - 1, 2 * d};
			uint32_t bad = 0;
			for (size_t i = 0; i < ARRAY_LEN(sizes); i++) {
				bad += check_block(&cfg, sizes[i]);
			}
			CU_ASSERT_EQUAL(bad, 0);
		}
	}
}

/* Parity of an all-equal erasure pattern is only as good as the row chosen: all rows must agree. */
static void
test_every_row(void)
{
	struct raidz_config cfg = config_of(9, 3);
	struct raidz_map m;
	struct block_mem b;
	uint32_t n = 16;
	uint32_t bad = 0;
	raidz_map_block(&cfg, 12345, n * SECTOR_BYTES, &m);
	block_mem_init(&b, &m, n);
	for (uint32_t lost = 0; lost < (1u << m.col_count); lost += 1u << m.parity) {
		for (uint32_t use = 1; use < (1u << m.parity); use++) {
			if (__builtin_popcount(lost) != __builtin_popcount(use)) {
				continue;
			}
			for (uint32_t c = 0; c < m.col_count; c++) {
				if ((lost & (1u << c)) != 0) {
					memset(b.mem[c], 0, (size_t)m.col[c].rows * SECTOR_BYTES);
				}
			}
			stripe_rebuild(&m, b.mem, lost, use);
			bad += memcmp(b.all, b.copy, b.len) != 0;
			memcpy(b.all, b.copy, b.len);
		}
	}
	CU_ASSERT_EQUAL(bad, 0);
	free(b.all);
	free(b.copy);
}

int
main(void)
{
	printf("seed=%#" PRIx64 "\n", rng_state);
	CU_initialize_registry();
	CU_pSuite s = CU_add_suite("raidz_prop", NULL, NULL);
	CU_add_test(s, "field", test_field);
	CU_add_test(s, "strips", test_strips);
	CU_add_test(s, "map", test_map);
	CU_add_test(s, "config", test_config);
	CU_add_test(s, "blocks", test_blocks);
	CU_add_test(s, "every row", test_every_row);
	CU_basic_run_tests();
	unsigned failed = CU_get_number_of_failures();
	CU_cleanup_registry();
	return failed != 0;
}
