/*
 * kb_sim_test.c - the simulated drives: what flush and FUA promise, what a power cut may do, and
 * that a seed tells the whole run.
 */
#include "base/base.h"
#include "kernel-bypass/kb_sim.h"
#include "tests/lib/kb_sim_life.h"

/* ---- plain ---- */

static void
plain_life(struct life *l)
{
	struct kb_drive *d = open_medium(l->medium);
	struct iobuf *b = buf_get(64 * 1024);
	struct kb_counters c;

	CU_ASSERT(kb_size(d) == MEDIUM_BYTES);
	CU_ASSERT(strcmp(kb_id(d), "sim:plain") == 0);
	memset(b->data, 0xff, 64 * 1024);
	CU_ASSERT(kb_read(d, 0, b, 64 * 1024) == 0);
	CU_ASSERT(b->data[0] == 0 && b->data[65535] == 0);
	rt_random_bytes(b->data, 64 * 1024);
	CU_ASSERT(kb_write(d, 1 * MIB - 8192, b, 64 * 1024, 0) == 0);
	CU_ASSERT(kb_flush(d) == 0);
	struct iobuf *r = buf_get(64 * 1024);
	CU_ASSERT(kb_read(d, 1 * MIB - 8192, r, 64 * 1024) == 0);
	CU_ASSERT(memcmp(b->data, r->data, 64 * 1024) == 0);
	/* scattered segments see the same bytes in order */
	struct kb_seg segs[2] = {{r, 8192, 4096}, {r, 0, 8192}};
	struct kb_io io = {
	    .op = KB_READ, .off_bytes = 1 * MIB - 8192, .segs = segs, .seg_count = 2};
	struct kb_group g;
	kb_group_init(&g);
	kb_submit(d, &io, &g, 0);
	kb_group_wait(&g);
	CU_ASSERT(io.status == 0 && io.latency_ns >= 20000);
	CU_ASSERT(memcmp(r->data + 8192, b->data, 4096) == 0);
	CU_ASSERT(memcmp(r->data, b->data + 4096, 8192) == 0);
	/* what is malformed is refused */
	CU_ASSERT(kb_read(d, 512, r, 4096) == -EINVAL);
	CU_ASSERT(kb_read(d, 0, r, 512) == -EINVAL);
	CU_ASSERT(kb_read(d, 0, r, 0) == -EINVAL);
	CU_ASSERT(kb_read(d, 0, r, 128 * 1024) == -EINVAL);
	CU_ASSERT(kb_read(d, MEDIUM_BYTES - 4096, r, 8192) == -EINVAL);
	CU_ASSERT(kb_read(d, UINT64_MAX - 4095, r, 4096) == -EINVAL);
	CU_ASSERT(kb_discard(d, 0, MEDIUM_BYTES + 4096) == -EINVAL);
	CU_ASSERT(kb_discard(d, 4 * MIB, 1 * MIB) == 0);
	kb_get_counters(d, &c);
	CU_ASSERT(c.reads == 3 && c.writes == 1 && c.flushes == 1 && c.discards == 1);
	CU_ASSERT(c.read_bytes == 64 * 1024 * 2 + 12288 && c.write_bytes == 64 * 1024);
	CU_ASSERT(c.errors == 0 && c.timeouts == 0);
	iobuf_unref(b);
	iobuf_unref(r);
	kb_close(d);
}

static void
test_plain(void)
{
	uint64_t before = mem_live_count();
	struct life l = {.seed = 1, .medium = kb_sim_medium_create("plain", MEDIUM_BYTES)};
	CU_ASSERT(live(&l, plain_life) == 0);
	CU_ASSERT(mem_live_count() == before);
	kb_sim_medium_destroy(l.medium);
}

/* ---- flush, FUA, power cut ---- */

#define CUT_SECTORS 64u

/* Sectors: 0..63 written and flushed as 1; 64..127 FUA as 2; then 0..31 overwritten as 3,
 * unflushed; 128..191 written as 4, unflushed. */
static void
cut_life(struct life *l)
{
	struct kb_drive *d = open_medium(l->medium);
	for (uint64_t i = 0; i < CUT_SECTORS; i++) {
		CU_ASSERT(write_fill(d, i, 1, 0) == 0);
	}
	CU_ASSERT(kb_flush(d) == 0);
	for (uint64_t i = 64; i < 64 + CUT_SECTORS; i++) {
		CU_ASSERT(write_fill(d, i, 9, 0) == 0);
		CU_ASSERT(write_fill(d, i, 2, KB_FUA) == 0);
	}
	for (uint64_t i = 0; i < CUT_SECTORS / 2; i++) {
		CU_ASSERT(write_fill(d, i, 3, 0) == 0);
	}
	for (uint64_t i = 128; i < 128 + CUT_SECTORS; i++) {
		CU_ASSERT(write_fill(d, i, 4, 0) == 0);
		CU_ASSERT(write_fill(d, i, 5, 0) == 0);
	}
	rt_sim_crash();
}

struct cut_tally {
	unsigned kept, lost, older, torn;
};

static void
cut_check(struct kb_sim_medium *m, struct cut_tally *t)
{
	unsigned torn = 0;
	for (uint64_t i = 0; i < CUT_SECTORS; i++) {
		int got = peek_fill(m, i);
		CU_ASSERT(got == 1 || (i < CUT_SECTORS / 2 && (got == 3 || got == -1)));
		torn += got == -1;
		CU_ASSERT(peek_fill(m, 64 + i) == 2);
		got = peek_fill(m, 128 + i);
		CU_ASSERT(got == 0 || got == 4 || got == 5 || got == -1);
		t->kept += got == 5;
		t->older += got == 4;
		t->lost += got == 0;
		torn += got == -1;
	}
	CU_ASSERT(torn <= 1);
	t->torn += torn;
}

static void
test_power_cut(void)
{
	struct cut_tally t = {0};
	for (uint64_t seed = 1; seed <= 60; seed++) {
		struct life l = {.seed = seed, .medium = kb_sim_medium_create("cut", MEDIUM_BYTES)};
		CU_ASSERT(live(&l, cut_life) == -ERR_CRASHED);
		kb_sim_power_cut(l.medium, seed);
		cut_check(l.medium, &t);
		kb_sim_medium_destroy(l.medium);
	}
	printf("kept %u older %u lost %u torn %u ", t.kept, t.older, t.lost, t.torn);
	CU_ASSERT(t.kept > 0 && t.older > 0 && t.lost > 0 && t.torn > 0);
}

static void
plp_life(struct life *l)
{
	struct kb_drive *d = open_medium(l->medium);
	struct kb_info info;
	kb_get_info(d, &info);
	CU_ASSERT(!info.volatile_cache);
	for (uint64_t i = 0; i < CUT_SECTORS; i++) {
		CU_ASSERT(write_fill(d, i, 7, 0) == 0);
	}
	rt_sim_crash();
}

static void
test_power_cut_plp(void)
{
	for (uint64_t seed = 1; seed <= 10; seed++) {
		struct life l = {.seed = seed, .medium = kb_sim_medium_create("plp", MEDIUM_BYTES)};
		kb_sim_set_plp(l.medium, true);
		CU_ASSERT(live(&l, plp_life) == -ERR_CRASHED);
		kb_sim_power_cut(l.medium, seed);
		for (uint64_t i = 0; i < CUT_SECTORS; i++) {
			CU_ASSERT(peek_fill(l.medium, i) == 7);
		}
		kb_sim_medium_destroy(l.medium);
	}
}

/* A write that had not completed when the flush was submitted isn't covered by it, though it
 * completes first. */
static void
overtaken_life(struct life *l)
{
	struct kb_drive *d = open_medium(l->medium);
	struct iobuf *b = buf_get(PAGE);
	struct kb_seg seg = {b, 0, PAGE};
	struct kb_io w = {.op = KB_WRITE, .segs = &seg, .seg_count = 1};
	struct kb_io f = {.op = KB_FLUSH};
	struct kb_group g;

	memset(b->data, 6, PAGE);
	kb_group_init(&g);
	kb_submit(d, &w, &g, 0);
	kb_submit(d, &f, &g, 0);
	kb_group_wait(&g);
	CU_ASSERT(w.status == 0 && f.status == 0);
	l->number = w.latency_ns < f.latency_ns;
	rt_sim_crash();
}

static void
test_flush_covers_completed_only(void)
{
	unsigned lost = 0;
	for (uint64_t seed = 1; seed <= 40; seed++) {
		struct life l = {.seed = seed, .medium = kb_sim_medium_create("o", MEDIUM_BYTES)};
		CU_ASSERT(live(&l, overtaken_life) == -ERR_CRASHED);
		kb_sim_power_cut(l.medium, seed);
		lost += l.number != 0 && peek_fill(l.medium, 0) == 0;
		kb_sim_medium_destroy(l.medium);
	}
	CU_ASSERT(lost > 0);
}

/* Power cuts between any two writes: of a chain, each link written with FUA after the one before.
 */
static void
chain_life(struct life *l)
{
	struct kb_drive *d = open_medium(l->medium);
	for (uint64_t i = 0; i < 100; i++) {
		CU_ASSERT(write_fill(d, i, 8, KB_FUA) == 0);
	}
	kb_close(d);
}

static void
test_crash_after_writes(void)
{
	for (uint64_t n = 1; n <= 100; n += 9) {
		struct life l = {.seed = n, .medium = kb_sim_medium_create("chain", MEDIUM_BYTES)};
		uint64_t before = kb_sim_write_count();
		kb_sim_crash_after_writes(n);
		CU_ASSERT(live(&l, chain_life) == -ERR_CRASHED);
		CU_ASSERT(kb_sim_write_count() == before + n);
		kb_sim_power_cut(l.medium, n);
		for (uint64_t i = 0; i < 100; i++) {
			int got = peek_fill(l.medium, i);
			CU_ASSERT(i + 1 < n ? got == 8 : i + 1 == n || got == 0);
		}
		/* the next life finds it */
		CU_ASSERT(live(&l, chain_life) == 0);
		CU_ASSERT(peek_fill(l.medium, 99) == 8);
		kb_sim_medium_destroy(l.medium);
	}
}

/* ---- determinism ---- */

static void
mixed_fiber(void *arg)
{
	struct kb_drive *d = arg;
	struct iobuf *b = buf_get(4 * PAGE);
	for (int i = 0; i < 50; i++) {
		uint64_t at = rt_random_u64() % 200 * PAGE;
		uint64_t kind = rt_random_u64() % 10;
		memset(b->data, (int)(rt_random_u64() & 0xff), 4 * PAGE);
		int err = kind == 0   ? kb_flush(d)
			  : kind == 1 ? kb_discard(d, at, 8 * PAGE)
			  : kind < 5  ? kb_read(d, at, b, 2 * PAGE)
				      : kb_write(d, at, b, 4 * PAGE, kind == 9 ? KB_FUA : 0);
		rt_sim_trace_add((uint64_t)(int64_t)err);
	}
	iobuf_unref(b);
}

static void
mixed_life(struct life *l)
{
	struct kb_drive *d = open_medium(l->medium);
	kb_sim_set_faults(l->medium, &(struct kb_sim_faults){.read_error = 20000,
					 .write_error = 20000,
					 .rot = 20000,
					 .dropped = 10000,
					 .misdirected = 10000,
					 .hang = 5000,
					 .late = 20000});
	for (unsigned i = 0; i < 8; i++) {
		fiber_spawn_wait(i % 2, FIBER_REQUEST, "mixed", mixed_fiber, d);
	}
	fiber_sleep(3000 * NSEC_PER_SEC);
	if (l->number == 0) {
		rt_sim_crash();
	}
	kb_close(d);
}

static uint64_t
mixed_run(uint64_t seed, bool crash)
{
	struct life l = {.seed = seed, .number = !crash};
	uint8_t *all = malloc(16 * MIB);
	uint64_t hash = 14695981039346656037u;

	l.medium = kb_sim_medium_create("mixed", 16 * MIB);
	CU_ASSERT(live(&l, mixed_life) == (crash ? -ERR_CRASHED : 0));
	kb_sim_power_cut(l.medium, seed);
	kb_sim_peek(l.medium, 0, all, 16 * MIB);
	for (size_t i = 0; i < 16 * MIB; i++) {
		hash = (hash ^ all[i]) * 1099511628211u;
	}
	free(all);
	kb_sim_medium_destroy(l.medium);
	return hash ^ rt_sim_trace();
}

static void
test_same_seed_same_run(void)
{
	for (uint64_t seed = 1; seed <= 4; seed++) {
		uint64_t first = mixed_run(seed, seed % 2 == 0);
		CU_ASSERT(first == mixed_run(seed, seed % 2 == 0));
		CU_ASSERT(first != mixed_run(seed + 100, seed % 2 == 0));
	}
}

int
main(int argc, char **argv)
{
	static const struct unit_test tests[] = {
	    {"plain", test_plain},
	    {"power_cut", test_power_cut},
	    {"power_cut_plp", test_power_cut_plp},
	    {"flush_covers_completed_only", test_flush_covers_completed_only},
	    {"crash_after_writes", test_crash_after_writes},
	    {"same_seed_same_run", test_same_seed_same_run},
	};
	return unit_main("kb_sim", tests, ARRAY_LEN(tests), argc, argv);
}
