/*
 * kb_gpt_test.c - partition tables: written, damaged, cut by power; whose content a drive has.
 */
#include "base/base.h"
#include "kernel-bypass/kb.h"
#include "kernel-bypass/kb_int.h"
#include "kernel-bypass/kb_sim.h"
#include "tests/lib/unit.h"

#define IMAGE_BYTES (64 * MIB)

static void
gpt_sim_main(void *arg)
{
	struct kb_sim_medium *m = arg;
	static const uint8_t guid[16] = {1, 2, 3, 4};
	struct kb_drive *d = NULL;
	enum kb_content content;
	char what[64];

	CU_ASSERT_FATAL(kb_sim_open(m, &d) == 0);
	CU_ASSERT(kb_gpt_probe(d, &content, what, sizeof(what)) == 0);
	CU_ASSERT(content == KB_CONTENT_BLANK);
	CU_ASSERT(kb_gpt_write(d, guid, "agate data") == 0);
	CU_ASSERT(kb_gpt_probe(d, &content, what, sizeof(what)) == 0);
	CU_ASSERT(content == KB_CONTENT_OURS);
	/* the primary lost: the backup speaks */
	kb_sim_rot_range(m, 512, 512, 3);
	CU_ASSERT(kb_gpt_probe(d, &content, what, sizeof(what)) == 0);
	CU_ASSERT(content == KB_CONTENT_OURS);
	/* both lost */
	kb_sim_rot_range(m, IMAGE_BYTES - 512, 512, 3);
	CU_ASSERT(kb_gpt_probe(d, &content, what, sizeof(what)) == 0);
	CU_ASSERT(content == KB_CONTENT_FOREIGN);
	CU_ASSERT(kb_gpt_write(d, guid, "agate data") == 0);
	/* an entry that doesn't match its checksum is no entry: the backup again */
	kb_sim_rot_range(m, 1024 + 60, 4, 3);
	CU_ASSERT(kb_gpt_probe(d, &content, what, sizeof(what)) == 0);
	CU_ASSERT(content == KB_CONTENT_OURS);
	CU_ASSERT(kb_gpt_clear(d) == 0);
	CU_ASSERT(kb_gpt_probe(d, &content, what, sizeof(what)) == 0);
	CU_ASSERT(content == KB_CONTENT_BLANK);
	kb_close(d);
}

/* A power cut at each write of writing the table over a blank drive: ours or not, never confused.
 */
static void
gpt_crash_main(void *arg)
{
	static const uint8_t guid[16] = {1};
	struct kb_drive *d = NULL;

	CU_ASSERT_FATAL(kb_sim_open(arg, &d) == 0);
	CU_ASSERT(kb_gpt_write(d, guid, "x") == 0);
	kb_close(d);
}

static void
gpt_cut(uint64_t seed, uint64_t n, uint8_t *edges)
{
	struct rt_options opt = {.reactors = 1, .sim = true, .seed = seed, .arena_bytes = 32 * MIB};
	struct kb_sim_medium *m = kb_sim_medium_create("cut", IMAGE_BYTES);
	struct kb_edges e = {edges, edges + KB_EDGE_BYTES, IMAGE_BYTES};
	char what[64];

	kb_sim_crash_after_writes(n);
	CU_ASSERT(rt_run(&opt, gpt_crash_main, m) == -ERR_CRASHED);
	kb_sim_power_cut(m, seed);
	kb_sim_peek(m, 0, edges, KB_EDGE_BYTES);
	kb_sim_peek(m, IMAGE_BYTES - KB_EDGE_BYTES, edges + KB_EDGE_BYTES, KB_EDGE_BYTES);
	enum kb_content content = kb_content_of(&e, what, sizeof(what));
	if (n == 2) { /* the first write, of the backup, was durable */
		CU_ASSERT(content == KB_CONTENT_OURS);
	}
	kb_sim_medium_destroy(m);
}

static void
test_gpt(void)
{
	struct rt_options opt = {.reactors = 1, .sim = true, .seed = 9, .arena_bytes = 32 * MIB};
	struct kb_sim_medium *m = kb_sim_medium_create("gpt", IMAGE_BYTES);
	uint8_t *edges = malloc(2 * KB_EDGE_BYTES);

	CU_ASSERT(rt_run(&opt, gpt_sim_main, m) == 0);
	kb_sim_medium_destroy(m);
	for (uint64_t seed = 1; seed <= 20; seed++) {
		gpt_cut(seed, 1 + seed % 2, edges);
	}
	free(edges);
}

static void
test_pool_bytes(void)
{
	CU_ASSERT(kb_pool_bytes(0) == 0);
	CU_ASSERT(kb_pool_bytes(2 * MIB) == 0);
	CU_ASSERT(kb_pool_bytes(3 * MIB) == MIB);
	CU_ASSERT(kb_pool_bytes(3 * MIB + 5000) == MIB);
	CU_ASSERT(kb_pool_bytes(GIB) == GIB - 2 * MIB);
	CU_ASSERT(kb_pool_bytes(100 * GIB) == 100 * GIB - 256 * MIB);
	CU_ASSERT(kb_pool_bytes(100 * GIB - 200 * MIB) == 100 * GIB - 256 * MIB);
	for (uint64_t size = MIB; size < 40 * GIB; size += 77 * MIB) {
		uint64_t pool = kb_pool_bytes(size);
		CU_ASSERT(pool % MIB == 0 && (pool == 0 || pool + 2 * MIB <= size));
	}
}

/* Junk never reads out of bounds and is never taken for ours. */
static void
test_content_of_junk(void)
{
	uint8_t *edges = calloc(2, KB_EDGE_BYTES);
	struct kb_edges e = {edges, edges + KB_EDGE_BYTES, IMAGE_BYTES};
	char what[64];
	uint64_t x = 88172645463325252u;

	CU_ASSERT(kb_content_of(&e, what, sizeof(what)) == KB_CONTENT_BLANK);
	edges[2 * KB_EDGE_BYTES - 1] = 1;
	CU_ASSERT(kb_content_of(&e, what, sizeof(what)) == KB_CONTENT_FOREIGN);
	CU_ASSERT(strcmp(what, "data of an unknown kind") == 0);
	memcpy(edges + 1080, "\x53\xef", 2);
	CU_ASSERT(kb_content_of(&e, what, sizeof(what)) == KB_CONTENT_FOREIGN);
	CU_ASSERT(strcmp(what, "ext2/3/4 file system") == 0);
	for (int round = 0; round < 200; round++) {
		for (size_t i = 0; i < 2 * KB_EDGE_BYTES; i += 8 * 97) {
			x ^= x << 13;
			x ^= x >> 7;
			x ^= x << 17;
			memcpy(edges + i, &x, 8);
		}
		memcpy(edges + 512, "EFI PART", 8);
		memcpy(edges + 2 * KB_EDGE_BYTES - 512, "EFI PART", 8);
		CU_ASSERT(kb_content_of(&e, what, sizeof(what)) == KB_CONTENT_FOREIGN);
	}
	free(edges);
}

int
main(int argc, char **argv)
{
	static const struct unit_test tests[] = {
	    {"pool_bytes", test_pool_bytes},
	    {"content_of_junk", test_content_of_junk},
	    {"gpt", test_gpt},
	};
	return unit_main("kb_gpt", tests, ARRAY_LEN(tests), argc, argv);
}
