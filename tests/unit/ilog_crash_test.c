/*
 * ilog_crash_test.c - a log under fibers of several reactors, with faulty sides, cut off at any
 * write, replayed, and compared with what its owner had been promised; several epochs in one ring.
 *
 * The oracle. The owner remembers the highest acknowledged sequence number and, for each of the
 * last three roots, its txg and the position it wrote into the uberblock. After the cut it imports
 * from any of these, from all sides that are not declared out or from a single one of them, and
 * must get an unbroken run of sequence numbers, whole, that starts no later than the first
 * acknowledged record which that root lacks, and ends no earlier than the last acknowledged one;
 * twice the same.
 *
 * Imports are cut too, at their repairs, and one side of several may have rotted.
 *
 * Each deliberate bug of the room must turn a run red within a bounded number of seeds.
 */
#include "tests/lib/ilog_rig.h"

#if defined(__SANITIZE_THREAD__)
#define CRASH_SEEDS 10u
#elif defined(__SANITIZE_ADDRESS__)
#define CRASH_SEEDS 25u
#else
#define CRASH_SEEDS 60u
#endif
#define CRASH_RECORDS_MAX 60000u
#define CRASH_APPENDERS 12u
#define CRASH_ROOTS 3u

struct root {
	uint64_t txg;
	struct ilog_position pos;
};

struct world {
	struct rig rig;
	uint64_t seed;
	bool faulty, big;
	/* what the owner knows of this epoch */
	uint64_t acked_seq, last_seq;
	uint64_t txg_of[CRASH_RECORDS_MAX]; /* by seq */
	struct root roots[CRASH_ROOTS];     /* newest first */
	unsigned root_count;
	/* of one life */
	struct ilog *log;
	uint64_t open_txg;
	bool stop;
	struct waitgroup wg;
	uint32_t without;
	const char *fault; /* what the oracle objects to */
	unsigned cuts, import_cuts;
	uint64_t digest;
};

struct appender {
	struct world *w;
	unsigned id;
};

static struct world world;

static uint64_t
pick(uint64_t n)
{
	return rt_random_u64() % n;
}

static uint32_t
record_len(const struct world *w)
{
	uint64_t kind = pick(100);
	uint64_t len = 32 + pick(400);

	if (kind < 20) {
		len = 32 + pick(20000);
	}
	if (kind < 6 && w->big) {
		len = 32 + pick(300000);
	}
	if (kind < 2 && w->big) {
		len = ILOG_PAYLOAD_MAX - pick(3) * 4096;
	}
	return (uint32_t)len;
}

static void
appender_fiber(void *arg)
{
	struct appender *a = arg;
	struct world *w = a->w;
	uint8_t *buf = mem_zalloc(ILOG_PAYLOAD_MAX);
	struct rig_payload p = {.appender = a->id};

	while (!w->stop && buf != NULL) {
		uint64_t seq = 0;
		int err;

		p.counter++;
		p.len_bytes = record_len(w);
		p.txg = w->open_txg - (pick(8) == 0 && w->open_txg > 1 ? 1 : 0);
		err = rig_append(w->log, &p, buf, &seq);
		if (err != 0 || seq >= CRASH_RECORDS_MAX) {
			break;
		}
		w->txg_of[seq] = p.txg;
		w->last_seq = MAX(w->last_seq, seq);
		if (pick(4) != 0) {
			err = ilog_commit(w->log, seq);
			if (err != 0) {
				break;
			}
			w->acked_seq = MAX(w->acked_seq, seq);
		}
		if (pick(16) == 0) {
			fiber_sleep(pick(500000));
		}
	}
	mem_free(buf);
	mem_free(a);
	wg_done(&w->wg);
}

/* Commits txgs: the root takes over what is in it, and what two later roots have is trimmed. */
static void
txg_fiber(void *arg)
{
	struct world *w = arg;

	while (!w->stop) {
		struct root root = {.txg = w->open_txg};

		fiber_sleep(200000 + pick(3000000));
		w->open_txg++;
		ilog_tail(w->log, root.txg, &root.pos);
		fiber_sleep(pick(300000)); /* the uberblock is on its way */
		memmove(w->roots + 1, w->roots, sizeof(root) * (CRASH_ROOTS - 1));
		w->roots[0] = root;
		w->root_count = MIN(w->root_count + 1, CRASH_ROOTS);
		if (root.txg > 2) {
			ilog_trim(w->log, root.txg - 2);
		}
	}
	wg_done(&w->wg);
}

static void
fault_fiber(void *arg)
{
	struct world *w = arg;
	struct kb_sim_medium *m = w->rig.media[pick(w->rig.sides)];
	struct kb_sim_faults f = {.latency_ns_min = 20000, .latency_ns_max = 200000};

	fiber_sleep(pick(20000000));
	switch (pick(4)) {
	case 0:
		f.write_error = 200000;
		break;
	case 1:
		f.hang = 100000;
		break;
	case 2:
		f.late = 100000;
		break;
	default:
		kb_sim_vanish(m);
		break;
	}
	kb_sim_set_faults(m, &f);
	wg_done(&w->wg);
}

static void
life_write(void *arg)
{
	struct world *w = arg;

	w->open_txg = 1;
	w->stop = false;
	w->fault = "the log could not be created";
	if (!rig_open(&w->rig, 0) || ilog_create(&w->rig.cfg, &w->log) != 0) {
		return;
	}
	w->fault = NULL;
	w->root_count = 1;
	w->roots[0] = (struct root){.txg = 0};
	ilog_tail(w->log, 0, &w->roots[0].pos);
	wg_init(&w->wg);
	w->rig.lost_takes_ns = pick(2) == 0 ? pick(5000000) : 0;
	kb_sim_crash_after_writes(1 + pick(pick(4) == 0 ? 2500 : 300));
	wg_add(&w->wg, CRASH_APPENDERS + 1);
	for (unsigned i = 0; i < CRASH_APPENDERS; i++) {
		struct appender *a = mem_zalloc(sizeof(*a));

		*a = (struct appender){.w = w, .id = i + 1};
		fiber_spawn_wait(
		    i % rt_reactor_count(), FIBER_REQUEST, "appender", appender_fiber, a);
	}
	fiber_spawn_wait(0, FIBER_SYNC, "txg", txg_fiber, w);
	if (w->faulty && pick(2) == 0) {
		wg_add(&w->wg, 1);
		fiber_spawn_wait(0, FIBER_SYNC, "fault", fault_fiber, w);
	}
	fiber_sleep(NSEC_PER_SEC * 4 + pick(NSEC_PER_SEC));
	/* Not cut: a clean export. Nothing is needed any more, whoever waits for space ends. */
	kb_sim_crash_after_writes(0);
	w->stop = true;
	w->root_count = 0;
	ilog_trim(w->log, UINT64_MAX);
	wg_wait(&w->wg);
	w->root_count = 0;
	ilog_destroy(w->log);
	rig_close(&w->rig);
}

/* What a replay from the root must and may have delivered. NULL: it is right. */
static const char *
oracle(const struct world *w, const struct root *root, const struct rig_seen *seen)
{
	if (seen->bad) {
		return "a record is damaged or out of order";
	}
	if (seen->count > 0 && seen->last_seq > w->last_seq) {
		return "a record was never appended";
	}
	for (uint64_t seq = 1; seq <= w->acked_seq; seq++) {
		if (w->txg_of[seq] > root->txg &&
		    (seen->count == 0 || seq < seen->first_seq || seq > seen->last_seq)) {
			return "an acknowledged record is missing";
		}
	}
	return NULL;
}

static void
life_replay(void *arg)
{
	struct world *w = arg;
	const struct root *root = &w->roots[pick(w->root_count)];
	struct ilog_position from = root->pos;
	struct rig_seen seen = {.count = 0};
	struct ilog_replay_result res;
	int err;

	if (pick(8) == 0) {
		from.batch_seq = 0;
		from.off_bytes = 0;
	}
	if (!rig_open(&w->rig, w->without)) {
		w->fault = "a side could not be opened";
		return;
	}
	w->rig.cfg.epoch = w->rig.epoch + 1;
	err = ilog_replay(&w->rig.cfg, &from, rig_deliver, &seen, &res);
	rig_close(&w->rig);
	w->fault = err != 0 ? "replay failed" : oracle(w, root, &seen);
	if (w->fault == NULL && res.acked_lost) {
		w->fault = "replay claims a loss";
	}
	w->digest = seen.digest ^ seen.count;
}

/* The import itself is cut, at one of its repairs. */
static void
life_replay_cut(void *arg)
{
	kb_sim_crash_after_writes(1 + pick(3));
	life_replay(arg);
	kb_sim_crash_after_writes(0);
}

static int
life(struct world *w, fiber_fn *fn, uint64_t salt)
{
	struct rt_options opt = unit_rt(true, 3, w->seed * 1000 + salt);

	return rt_run(&opt, fn, w);
}

static void
heal(struct world *w)
{
	struct kb_sim_faults none = {.latency_ns_min = 20000, .latency_ns_max = 200000};

	for (unsigned s = 0; s < w->rig.sides; s++) {
		kb_sim_return(w->rig.media[s]);
		kb_sim_set_faults(w->rig.media[s], &none);
	}
}

/* Which sides the import finds: all that are in, or one of them. */
static uint32_t
missing_sides(const struct world *w, uint64_t salt)
{
	uint32_t in = ~w->rig.out & ((1u << w->rig.sides) - 1);
	unsigned one = (unsigned)(salt % w->rig.sides);

	if (salt % 3 == 0 || (in & 1u << one) == 0) {
		return 0;
	}
	return in & ~(1u << one);
}

/* One of several sides, all of them there, has rotted here and there. */
static void
rot_one(struct world *w, uint64_t salt)
{
	uint32_t in = ~w->rig.out & ((1u << w->rig.sides) - 1);
	unsigned side = (unsigned)(salt % w->rig.sides);

	if (w->without != 0 || (in & 1u << side) == 0 || (in & (in - 1)) == 0) {
		return;
	}
	for (unsigned i = 0; i < salt % 9; i++) {
		uint64_t off = w->roots[i % w->root_count].pos.off_bytes / SECTOR_BYTES +
			       (salt >> (8 + i)) % 100;

		off %= w->rig.ring_bytes / SECTOR_BYTES;
		kb_sim_rot_range(
		    w->rig.media[side], RIG_OFF + off * SECTOR_BYTES, SECTOR_BYTES, salt + i);
	}
}

/* NULL or what is wrong. */
static const char *
epoch_run(struct world *w, unsigned nth)
{
	uint64_t salt = nth * 10u;
	uint64_t first;
	int err;

	w->acked_seq = w->last_seq = 0;
	w->root_count = 0;
	memset(w->txg_of, 0, sizeof(w->txg_of));
	err = life(w, life_write, salt);
	kb_sim_crash_after_writes(0);
	if ((err != 0 && err != -ERR_CRASHED) || w->fault != NULL) {
		return w->fault != NULL ? w->fault : "the life ended badly";
	}
	heal(w);
	rig_power_cut(&w->rig, w->seed + salt);
	w->cuts += err == -ERR_CRASHED;
	w->without = missing_sides(w, (w->seed + salt) * 0x9e3779b97f4a7c15ull >> 33);
	if (w->root_count == 0) {
		return NULL; /* cut before there was a log, or not at all */
	}
	rot_one(w, (w->seed + salt) * 0xd1342543de82ef95ull >> 20);
	if ((w->seed + nth) % 3 == 0) {
		err = life(w, life_replay_cut, salt + 2);
		kb_sim_crash_after_writes(0);
		if (err == -ERR_CRASHED) {
			w->import_cuts++;
			rig_power_cut(&w->rig, w->seed + salt + 2);
		}
	}
	err = life(w, life_replay, salt + 1);
	if (err != 0 || w->fault != NULL) {
		return w->fault != NULL ? w->fault : "the replaying life ended badly";
	}
	first = w->digest;
	err = life(w, life_replay, salt + 1); /* the same seed: the same choices */
	if (err == 0 && w->fault == NULL && w->digest != first) {
		w->fault = "a second replay is different";
	}
	/* The import that follows: absent sides are out, the next epoch begins. */
	w->rig.out |= w->without;
	if (w->rig.out != 0 && w->seed % 2 == 0) {
		w->rig.out = 0; /* they were replaced in time */
	}
	return err != 0 ? "the second replaying life ended badly" : w->fault;
}

static const char *
seed_run(uint64_t seed, bool faulty)
{
	struct world *w = &world;
	const char *wrong = NULL;

	w->seed = seed;
	w->faulty = faulty;
	w->big = seed % 2 == 1;
	w->fault = NULL;
	bug_set_buggify(seed % 3 == 0 ? 0 : 50);
	if (!rig_init(&w->rig, 1 + (unsigned)(seed / 2 % 3), (uint64_t)4 << 20)) {
		return "no memory";
	}
	for (unsigned nth = 0; nth < 4 && wrong == NULL; nth++) {
		wrong = epoch_run(w, nth);
		w->rig.epoch++;
	}
	rig_fini(&w->rig);
	bug_set_buggify(0);
	return wrong;
}

static void
seeds(uint64_t base, unsigned count, bool faulty)
{
	for (unsigned i = 0; i < count; i++) {
		const char *wrong = seed_run(base + i, faulty);

		if (wrong != NULL) {
			printf("\n    seed %llu: %s ", (unsigned long long)(base + i), wrong);
			CU_FAIL("the oracle objects");
			return;
		}
	}
	printf("%u cuts, %u of imports ", world.cuts, world.import_cuts);
	CU_ASSERT(world.cuts > count);
	CU_ASSERT(world.import_cuts > 0);
	world.cuts = world.import_cuts = 0;
}

static void
crash_healthy(void)
{
	seeds(unit_seed(1), CRASH_SEEDS, false);
}

static void
crash_faulty(void)
{
	seeds(unit_seed(1000), CRASH_SEEDS, true);
}

#ifdef AGATE_DEBUG
/* Some seed must notice. */
static void
bug_is_noticed(const char *name)
{
	const char *wrong = NULL;

	bug_set_deliberate(name);
	for (uint64_t seed = 2000; seed < 2120 && wrong == NULL; seed++) {
		wrong = seed_run(seed, true);
	}
	bug_set_deliberate(NULL);
	printf("\n    %s: %s ", name, wrong == NULL ? "went unnoticed" : wrong);
	CU_ASSERT_PTR_NOT_NULL(wrong);
}

static void
crash_bugs(void)
{
	bug_is_noticed("ilog-ack-early");
	bug_is_noticed("ilog-ignore-side");
	bug_is_noticed("ilog-skip-fua");
	bug_is_noticed("ilog-trim-by-position");
}
#endif

static const struct unit_test tests[] = {
    {"crash_healthy", crash_healthy},
    {"crash_faulty", crash_faulty},
#ifdef AGATE_DEBUG
    {"crash_bugs", crash_bugs},
#endif
};

int
main(int argc, char **argv)
{
	return unit_main("ilog_crash", tests, ARRAY_LEN(tests), argc, argv);
}
