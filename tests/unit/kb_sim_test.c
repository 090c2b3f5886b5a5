/*
 * kb_sim_test.c - the simulated drives: what flush and FUA promise, what a power cut may do, every
 * fault, and what the room makes of late answers.
 */
#include "base/base.h"
#include "kernel-bypass/kb_sim.h"
#include "tests/lib/unit.h"

#define MEDIUM_BYTES (64 * MIB)
#define PAGE SECTOR_BYTES
#define ALWAYS_HIT 1000000u

struct life {
	uint64_t seed;
	struct kb_sim_medium *medium;
	void (*fn)(struct life *l);
	uint64_t number; /* of the test's own */
};

static void
life_main(void *arg)
{
	struct life *l = arg;
	l->fn(l);
}

/* One life of a simulated machine. */
static int
live(struct life *l, void (*fn)(struct life *))
{
	struct rt_options opt = {
	    .reactors = 2, .sim = true, .seed = l->seed, .arena_bytes = 32 * MIB};
	l->fn = fn;
	return rt_run(&opt, life_main, l);
}

static struct iobuf *
buf_get(uint32_t len)
{
	struct iobuf *b = NULL;
	CU_ASSERT_FATAL(iobuf_alloc(len, ARENA_SYNC, &b) == 0);
	return b;
}

static struct kb_drive *
open_medium(struct kb_sim_medium *m)
{
	struct kb_drive *d = NULL;
	CU_ASSERT_FATAL(kb_sim_open(m, &d) == 0);
	return d;
}

static int
write_fill(struct kb_drive *d, uint64_t sector, uint8_t fill, uint32_t flags)
{
	struct iobuf *b = buf_get(PAGE);
	memset(b->data, fill, PAGE);
	int err = kb_write(d, sector * PAGE, b, PAGE, flags);
	iobuf_unref(b);
	return err;
}

/* The byte that fills the sector, or -1 when it isn't uniform. */
static int
peek_fill(struct kb_sim_medium *m, uint64_t sector)
{
	static uint8_t page[PAGE];
	kb_sim_peek(m, sector * PAGE, page, PAGE);
	for (uint32_t i = 1; i < PAGE; i++) {
		if (page[i] != page[0]) {
			return -1;
		}
	}
	return page[0];
}

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
		lost += peek_fill(l.medium, 0) == 0;
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

/* ---- faults ---- */

static void
faults_life(struct life *l)
{
	struct kb_drive *d = open_medium(l->medium);
	struct iobuf *b = buf_get(PAGE);
	struct kb_counters c;
	int err;

	CU_ASSERT(write_fill(d, 5, 0x11, 0) == 0);
	kb_sim_set_faults(l->medium, &(struct kb_sim_faults){.read_error = ALWAYS_HIT});
	err = kb_read(d, 5 * PAGE, b, PAGE);
	CU_ASSERT(err == -EIO || err == -ENODATA);
	kb_sim_set_faults(l->medium, &(struct kb_sim_faults){.write_error = ALWAYS_HIT});
	CU_ASSERT(write_fill(d, 6, 0x22, 0) == -EIO);
	kb_sim_set_faults(l->medium, &(struct kb_sim_faults){.flush_error = ALWAYS_HIT});
	CU_ASSERT(kb_flush(d) == -EIO);
	kb_sim_set_faults(l->medium, &(struct kb_sim_faults){.dropped = ALWAYS_HIT});
	CU_ASSERT(write_fill(d, 5, 0x33, KB_FUA) == 0);
	kb_sim_set_faults(l->medium, &(struct kb_sim_faults){0});
	CU_ASSERT(kb_read(d, 5 * PAGE, b, PAGE) == 0);
	CU_ASSERT(b->data[0] == 0x11);
	kb_sim_set_faults(l->medium, &(struct kb_sim_faults){.misdirected = ALWAYS_HIT});
	CU_ASSERT(write_fill(d, 5, 0x44, 0) == 0);
	CU_ASSERT(peek_fill(l->medium, 5) == 0x11);
	uint64_t strayed = 0;
	for (uint64_t s = 0; s < MEDIUM_BYTES / PAGE; s++) {
		strayed += peek_fill(l->medium, s) == 0x44;
	}
	CU_ASSERT(strayed == 1);
	kb_get_counters(d, &c);
	CU_ASSERT(c.errors == 3);
	iobuf_unref(b);
	kb_close(d);
}

static void
rot_life(struct life *l)
{
	struct kb_drive *d = open_medium(l->medium);
	struct iobuf *b = buf_get(PAGE);
	struct iobuf *again = buf_get(PAGE);
	unsigned flipped = 0;

	CU_ASSERT(write_fill(d, 5, 0x11, KB_FUA) == 0);
	kb_sim_set_faults(l->medium, &(struct kb_sim_faults){.rot = ALWAYS_HIT});
	CU_ASSERT(kb_read(d, 5 * PAGE, b, PAGE) == 0);
	kb_sim_set_faults(l->medium, &(struct kb_sim_faults){0});
	for (uint32_t i = 0; i < PAGE; i++) {
		flipped += (unsigned)__builtin_popcount(b->data[i] ^ 0x11u);
	}
	CU_ASSERT(flipped == 1);
	CU_ASSERT(kb_read(d, 5 * PAGE, again, PAGE) == 0);
	CU_ASSERT(memcmp(b->data, again->data, PAGE) == 0);
	kb_sim_rot_range(l->medium, 5 * PAGE + 100, 50, 77);
	CU_ASSERT(kb_read(d, 5 * PAGE, again, PAGE) == 0);
	CU_ASSERT(memcmp(b->data, again->data, 100) == 0);
	CU_ASSERT(memcmp(b->data + 100, again->data + 100, 50) != 0);
	CU_ASSERT(memcmp(b->data + 150, again->data + 150, PAGE - 150) == 0);
	iobuf_unref(b);
	iobuf_unref(again);
	kb_close(d);
}

static void
test_faults(void)
{
	for (uint64_t seed = 1; seed <= 5; seed++) {
		struct life l = {.seed = seed, .medium = kb_sim_medium_create("f", MEDIUM_BYTES)};
		CU_ASSERT(live(&l, faults_life) == 0);
		CU_ASSERT(live(&l, rot_life) == 0);
		kb_sim_medium_destroy(l.medium);
	}
}

/* ---- late answers ---- */

static void
late_life(struct life *l)
{
	struct kb_drive *d = open_medium(l->medium);
	struct iobuf *b = buf_get(PAGE);
	struct kb_counters c;

	memset(b->data, 0x55, PAGE);
	kb_sim_set_faults(l->medium, &(struct kb_sim_faults){.late = ALWAYS_HIT});
	uint64_t start = rt_now_ns();
	CU_ASSERT(kb_write(d, 0, b, PAGE, 0) == -ETIMEDOUT);
	uint64_t took = rt_now_ns() - start;
	CU_ASSERT(took >= 2000 * NSEC_PER_MSEC && took < 2001 * NSEC_PER_MSEC);
	CU_ASSERT(kb_late_writes(d) == 1);
	CU_ASSERT(atomic_load(&b->refs) == 2); /* quarantined */
	CU_ASSERT(peek_fill(l->medium, 0) == 0);
	fiber_sleep(10 * NSEC_PER_SEC);
	CU_ASSERT(kb_late_writes(d) == 0);
	CU_ASSERT(atomic_load(&b->refs) == 1);
	CU_ASSERT(peek_fill(l->medium, 0) == 0x55); /* it did happen */
	/* a late read is no late write, but its buffer is held all the same */
	CU_ASSERT(kb_read(d, 0, b, PAGE) == -ETIMEDOUT);
	CU_ASSERT(kb_late_writes(d) == 0);
	CU_ASSERT(atomic_load(&b->refs) == 2);
	kb_get_counters(d, &c);
	CU_ASSERT(c.timeouts == 2 && c.errors == 0);
	kb_close(d); /* the reset ends it */
	CU_ASSERT(atomic_load(&b->refs) == 1);
	iobuf_unref(b);
}

static void
hang_life(struct life *l)
{
	struct kb_drive *d = open_medium(l->medium);
	struct iobuf *b = buf_get(PAGE);
	struct kb_seg seg = {b, 0, PAGE};
	struct kb_io io[3];
	struct kb_group g;

	memset(b->data, 0x66, PAGE);
	kb_sim_set_faults(l->medium, &(struct kb_sim_faults){.hang = ALWAYS_HIT});
	kb_group_init(&g);
	for (uint64_t i = 0; i < 3; i++) {
		io[i] = (struct kb_io){
		    .op = KB_WRITE, .off_bytes = i * PAGE, .segs = &seg, .seg_count = 1};
		kb_submit(d, &io[i], &g, rt_now_ns() + (3 - i) * NSEC_PER_SEC);
	}
	uint64_t start = rt_now_ns();
	kb_group_wait(&g);
	CU_ASSERT(rt_now_ns() - start >= 3 * NSEC_PER_SEC);
	CU_ASSERT(rt_now_ns() - start < 4 * NSEC_PER_SEC);
	for (uint64_t i = 0; i < 3; i++) {
		CU_ASSERT(io[i].status == -ETIMEDOUT);
		uint64_t want = (3 - i) * NSEC_PER_SEC;
		CU_ASSERT(io[i].latency_ns >= want && io[i].latency_ns < want + NSEC_PER_SEC);
	}
	fiber_sleep(100 * NSEC_PER_SEC);
	CU_ASSERT(kb_late_writes(d) == 3);
	CU_ASSERT(atomic_load(&b->refs) == 4);
	kb_sim_unhang(l->medium);
	kb_sim_set_faults(l->medium, &(struct kb_sim_faults){0});
	while (kb_late_writes(d) != 0) {
		fiber_yield();
	}
	CU_ASSERT(atomic_load(&b->refs) == 1);
	CU_ASSERT(peek_fill(l->medium, 2) == 0x66);
	/* unhang in time: no timeout at all */
	kb_sim_set_faults(l->medium, &(struct kb_sim_faults){.hang = ALWAYS_HIT});
	kb_submit(d, &io[0], &g, 0);
	fiber_sleep(NSEC_PER_SEC);
	kb_sim_unhang(l->medium);
	kb_group_wait(&g);
	CU_ASSERT(io[0].status == 0);
	/* close with hanging and with late ones */
	CU_ASSERT(kb_write(d, 0, b, PAGE, 0) == -ETIMEDOUT);
	CU_ASSERT(atomic_load(&b->refs) == 2);
	kb_sim_unhang(l->medium);
	kb_close(d);
	CU_ASSERT(atomic_load(&b->refs) == 1);
	iobuf_unref(b);
}

static void
test_late(void)
{
	uint64_t before = mem_live_count();
	for (uint64_t seed = 1; seed <= 8; seed++) {
		struct life l = {
		    .seed = seed, .medium = kb_sim_medium_create("late", MEDIUM_BYTES)};
		CU_ASSERT(live(&l, late_life) == 0);
		kb_sim_medium_destroy(l.medium);
		l.medium = kb_sim_medium_create("hang", MEDIUM_BYTES);
		CU_ASSERT(live(&l, hang_life) == 0);
		kb_sim_medium_destroy(l.medium);
		CU_ASSERT(mem_live_count() == before);
	}
}

static void
vanish_life(struct life *l)
{
	struct kb_drive *d = open_medium(l->medium);
	struct kb_drive *again = NULL;
	struct iobuf *b = buf_get(PAGE);
	struct kb_seg seg = {b, 0, PAGE};
	struct kb_io io = {.op = KB_READ, .segs = &seg, .seg_count = 1};
	struct kb_group g;

	CU_ASSERT(write_fill(d, 0, 1, KB_FUA) == 0);
	kb_sim_set_faults(l->medium, &(struct kb_sim_faults){.hang = ALWAYS_HIT});
	kb_group_init(&g);
	kb_submit(d, &io, &g, 0);
	kb_sim_vanish(l->medium); /* ends what hangs, too */
	kb_sim_set_faults(l->medium, &(struct kb_sim_faults){0});
	kb_group_wait(&g);
	CU_ASSERT(io.status == -ERR_GONE && io.latency_ns < NSEC_PER_SEC);
	CU_ASSERT(kb_is_gone(d));
	CU_ASSERT(write_fill(d, 0, 2, 0) == -ERR_GONE);
	CU_ASSERT(kb_flush(d) == -ERR_GONE);
	CU_ASSERT(kb_sim_open(l->medium, &again) == -ERR_GONE);
	kb_sim_return(l->medium);
	CU_ASSERT(write_fill(d, 0, 3, 0) == -ERR_GONE);
	CU_ASSERT_FATAL(kb_sim_open(l->medium, &again) == 0);
	kb_close(d);
	CU_ASSERT(kb_read(again, 0, b, PAGE) == 0 && b->data[0] == 1);
	kb_close(again);
	iobuf_unref(b);
}

static void
test_vanish(void)
{
	struct life l = {.seed = 3, .medium = kb_sim_medium_create("v", MEDIUM_BYTES)};
	CU_ASSERT(live(&l, vanish_life) == 0);
	kb_sim_medium_destroy(l.medium);
}

/* ---- memory and determinism ---- */

/* A drive that finds no memory for another request makes the I/O wait, and loses none. */
static void
starve_life(struct life *l)
{
	struct kb_drive *d = open_medium(l->medium);
	struct iobuf *b = buf_get(PAGE);
	struct kb_seg seg = {b, 0, PAGE};
	static struct kb_io io[20];
	struct kb_group g;

	memset(b->data, 0x77, PAGE);
	kb_group_init(&g);
	mem_fail_at(1, true);
	for (uint64_t i = 0; i < 20; i++) {
		io[i] = (struct kb_io){
		    .op = KB_WRITE, .off_bytes = i * PAGE, .segs = &seg, .seg_count = 1};
		kb_submit(d, &io[i], &g, 0);
	}
	kb_group_wait(&g);
	for (uint64_t i = 0; i < 20; i++) {
		CU_ASSERT(io[i].status == 0);
		CU_ASSERT(peek_fill(l->medium, i) == 0x77);
	}
	kb_sim_set_faults(l->medium, &(struct kb_sim_faults){.hang = ALWAYS_HIT});
	for (uint64_t i = 0; i < 20; i++) {
		kb_submit(d, &io[i], &g, 0);
	}
	kb_group_wait(&g);
	for (uint64_t i = 0; i < 20; i++) {
		CU_ASSERT(io[i].status == -ETIMEDOUT);
	}
	mem_fail_at(0, false);
	kb_close(d);
	CU_ASSERT(atomic_load(&b->refs) == 1);
	iobuf_unref(b);
}

static void
test_starved(void)
{
	struct life l = {.seed = 4, .medium = kb_sim_medium_create("s", MEDIUM_BYTES)};
	CU_ASSERT(live(&l, starve_life) == 0);
	kb_sim_medium_destroy(l.medium);
}

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
	    {"faults", test_faults},
	    {"late", test_late},
	    {"vanish", test_vanish},
	    {"starved", test_starved},
	    {"same_seed_same_run", test_same_seed_same_run},
	};
	return unit_main("kb_sim", tests, ARRAY_LEN(tests), argc, argv);
}
