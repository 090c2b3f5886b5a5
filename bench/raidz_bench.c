/*
 * raidz_bench.c - how fast parity is made and data columns are rebuilt, by width and parity count,
 * on one core, in GB of block data a second. It looks inside raidz/ on purpose: with drives in
 * between, the drives would be measured.
 *
 * Usage: raidz_bench [block KiB (default 128) [ms per measurement (default 50)]]
 */
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "raidz/stripe.h"

#define BLOCKS 64 /* different ones in turn, so that not all comes from the innermost cache */

static uint64_t
now_ns(void)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * NSEC_PER_SEC + (uint64_t)t.tv_nsec;
}

struct bench {
	struct raidz_map map;
	uint32_t len_bytes;
	uint64_t duration_ns;
	uint8_t *memory;
	size_t stride;
	uint32_t missing, use;
};

static void
columns_of(const struct bench *b, uint32_t block, uint8_t *mem[RAIDZ_WIDTH_MAX])
{
	uint8_t *base = b->memory + block * b->stride;
	for (uint32_t c = 0; c < b->map.col_count; c++) {
		mem[c] = c < b->map.parity
			     ? base + b->len_bytes + (size_t)c * b->map.rows * SECTOR_BYTES
			     : base + b->map.col[c].data_off_bytes;
	}
}

static void
step_gen(const struct bench *b, uint8_t *mem[RAIDZ_WIDTH_MAX])
{
	stripe_gen(&b->map, mem);
}

static void
step_rebuild(const struct bench *b, uint8_t *mem[RAIDZ_WIDTH_MAX])
{
	stripe_rebuild(&b->map, mem, b->missing, b->use);
}

static double
measure(const struct bench *b, void (*step)(const struct bench *, uint8_t **))
{
	uint8_t *mem[RAIDZ_WIDTH_MAX];
	uint64_t start = now_ns();
	uint64_t end;
	uint64_t blocks = 0;
	do {
		for (uint32_t i = 0; i < BLOCKS; i++) {
			columns_of(b, i, mem);
			step(b, mem);
		}
		blocks += BLOCKS;
		end = now_ns();
	} while (end - start < b->duration_ns);
	return (double)(blocks * b->len_bytes) / (double)(end - start);
}

static void
bench_shape(struct bench *b, uint32_t width, uint32_t parity)
{
	struct raidz_config cfg = {
	    .kind = RAIDZ_KIND_PARITY, .width = width, .parity = parity, .column_bytes = 1 << 30};
	raidz_map_block(&cfg, 0, b->len_bytes, &b->map);
	printf("%2u+%u   %8.2f", width - parity, parity, measure(b, step_gen));
	for (uint32_t n = 1; n <= MIN(parity, width - parity); n++) {
		/* The last data columns, from the last parity columns: the dearest way. */
		b->missing = ((1u << n) - 1) << (b->map.col_count - n);
		b->use = ((1u << n) - 1) << (parity - n);
		printf("   %8.2f", measure(b, step_rebuild));
	}
	printf("\n");
}

int
main(int argc, char **argv)
{
	unsigned long kib = argc > 1 ? strtoul(argv[1], NULL, 0) : 128;
	unsigned long ms = argc > 2 ? strtoul(argv[2], NULL, 0) : 50;
	if (kib < 64 || kib > 1024 || kib % 4 != 0 || ms == 0) {
		fprintf(stderr, "usage: raidz_bench [block KiB, 64..1024 [ms]]\n");
		return 2;
	}
	struct bench b = {.len_bytes = (uint32_t)kib << 10, .duration_ns = ms * NSEC_PER_MSEC};
	b.stride = (size_t)b.len_bytes * 3;
	b.memory = aligned_alloc(SECTOR_BYTES, b.stride * BLOCKS);
	if (b.memory == NULL) {
		fprintf(stderr, "raidz_bench: no memory\n");
		return 1;
	}
	for (size_t i = 0; i < b.stride * BLOCKS; i++) {
		b.memory[i] = (uint8_t)(i * 2654435761u >> 13);
	}
	printf("block %lu KiB, one core, GB/s of block data\n", kib);
	printf("set    generate   lost 1     lost 2     lost 3\n");
	for (uint32_t p = 1; p <= RAIDZ_PARITY_MAX; p++) {
		for (uint32_t w = p + 2; w <= RAIDZ_WIDTH_MAX; w++) {
			bench_shape(&b, w, p);
		}
	}
	free(b.memory);
	return 0;
}
