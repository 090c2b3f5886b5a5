/*
 * kb_sim_fault_test.c - simulated drives that fail, lie, hang, answer late and vanish, and what the
 * room makes of it: deadlines, quarantine of buffers, close.
 */
#include "base/base.h"
#include "kernel-bypass/kb_sim.h"
#include "tests/lib/kb_sim_life.h"

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

/* ---- no memory ---- */

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

/* ---- simulated drives under real reactors: for the thread sanitizer ---- */

struct threads {
	struct kb_drive *d;
	struct waitgroup done;
	_Atomic unsigned odd; /* statuses that nothing explains */
};

static void
threads_fiber(void *arg)
{
	struct threads *t = arg;
	struct iobuf *b = buf_get(2 * PAGE);

	for (int i = 0; i < 60; i++) {
		uint64_t at = rt_random_u64() % 200 * PAGE;
		int err = i % 7 == 0   ? kb_flush(t->d)
			  : i % 3 == 0 ? kb_read(t->d, at, b, 2 * PAGE)
				       : kb_write(t->d, at, b, PAGE, i % 5 == 0 ? KB_FUA : 0);
		t->odd += err != 0 && err != -EIO && err != -ENODATA && err != -ETIMEDOUT &&
			  err != -ERR_GONE;
		if (err == -ETIMEDOUT) {
			iobuf_unref(b);
			b = buf_get(2 * PAGE);
		}
	}
	iobuf_unref(b);
	wg_done(&t->done);
}

static void
threads_main(void *arg)
{
	struct life *l = arg;
	struct threads t = {.d = open_medium(l->medium)};

	kb_sim_set_faults(l->medium,
	    &(struct kb_sim_faults){.read_error = 10000, .write_error = 10000, .hang = 50000});
	wg_init(&t.done);
	wg_add(&t.done, 8);
	for (unsigned i = 0; i < 8; i++) {
		fiber_spawn_wait(i % 2, FIBER_REQUEST, "threads", threads_fiber, &t);
	}
	while (wg_wait_until(&t.done, rt_now_ns() + 5 * NSEC_PER_MSEC) != 0) {
		kb_sim_unhang(l->medium);
		if (l->number != 0) {
			kb_sim_vanish(l->medium);
		}
	}
	CU_ASSERT(t.odd == 0);
	kb_sim_unhang(l->medium); /* under way while the lanes close */
	kb_close(t.d);
}

static void
test_real_reactors(void)
{
	struct rt_options opt = {.reactors = 2, .arena_bytes = 32 * MIB};
	uint64_t before = mem_live_count();

	for (uint64_t round = 0; round < 4; round++) {
		struct life l = {
		    .number = round % 2, .medium = kb_sim_medium_create("threads", MEDIUM_BYTES)};
		CU_ASSERT(rt_run(&opt, threads_main, &l) == 0);
		CU_ASSERT(mem_live_count() == before);
		kb_sim_medium_destroy(l.medium);
	}
}

int
main(int argc, char **argv)
{
	static const struct unit_test tests[] = {
	    {"faults", test_faults},
	    {"late", test_late},
	    {"vanish", test_vanish},
	    {"starved", test_starved},
	    {"real_reactors", test_real_reactors},
	};
	return unit_main("kb_sim_fault", tests, ARRAY_LEN(tests), argc, argv);
}
