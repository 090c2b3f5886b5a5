/*
 * Operations at random from several fibers, then what the log makes of the state before: redoing
 * all records on a copy from before must give the same tree, to the change counters and cookies;
 * redoing any first part must succeed and pass fs_check. Replies found in the log are the ones
 * given. Every fallible step of every operation is failed once: nothing half done is left.
 */
#include "fs/dir.h"
#include "tests/lib/fakepool.h"
#include "tests/lib/fs_rig.h"
#include "tests/lib/fs_storm.h"
#include "tests/lib/unit.h"

#define REPLIES_MAX 8192u

struct world {
	struct rig rig;
	struct waitgroup wg;
	uint32_t fibers, ops;
	struct storm storm;
	struct storm_reply given[REPLIES_MAX]; /* by order in the log */
	uint32_t given_count, found_count;
	bool counting, lose_unstable;
};

/* ---- replies ---- */

static void
replied(struct storm *s, uint32_t xid, uint64_t object)
{
	struct world *w = container_of(s, struct world, storm);
	if (w->counting) {
		ASSERT(w->given_count < REPLIES_MAX);
		w->given[w->given_count++] = (struct storm_reply){.xid = xid, .object = object};
	}
}

static void
reply_found(void *arg, const struct fs_origin *origin, const void *reply, uint32_t len)
{
	struct world *w = arg;
	struct storm_reply r;
	ASSERT(len == sizeof(r) && w->found_count < REPLIES_MAX);
	memcpy(&r, reply, sizeof(r));
	UNIT_CHECK(origin->xid == r.xid && origin->prog == 100003 && origin->addr[0] == 0xfd);
	bool known = false;
	for (uint32_t i = 0; i < w->given_count; i++) {
		known |= w->given[i].xid == r.xid && w->given[i].object == r.object;
	}
	UNIT_CHECK(known);
	w->found_count++;
}

/* ---- many of them at once ---- */

static void
actor_fiber(void *arg)
{
	struct world *w = arg;
	for (uint32_t i = 0; i < w->ops; i++) {
		storm_op(&w->storm);
	}
	wg_done(&w->wg);
}

static void
storm(struct world *w)
{
	w->storm.ds = w->rig.ds;
	w->storm.root = w->rig.root;
	w->storm.replied = replied;
	wg_init(&w->wg);
	wg_add(&w->wg, w->fibers);
	for (uint32_t i = 0; i < w->fibers; i++) {
		fiber_spawn_wait(i % rt_reactor_count(), FIBER_REQUEST, "actor", actor_fiber, w);
	}
	wg_wait(&w->wg);
}

/* So that names collide, also after the next import. */
static void
shorten_hash(struct fs_ds *ds, uint32_t bits)
{
	struct fs_owner_phys o;
	struct pool_need need = {0};
	struct pool_tx *tx;
	int err = pool_tx_begin(fs_ds_pool_ds(ds), &need, &tx);
	ASSERT(err == 0);
	pool_ds_owner_get(fs_ds_pool_ds(ds), &o, sizeof(o));
	o.hash_bits = le32_of(bits);
	pool_ds_owner_set(tx, fs_ds_pool_ds(ds), &o, sizeof(o));
	pool_tx_end(tx);
	ds->hash_bits = bits;
}

static void
world_run(void *arg)
{
	struct world *w = arg;
	struct pool *whole, *part;
	rig_open(&w->rig);
	if (rt_random_u64() % 3 == 0) {
		shorten_hash(w->rig.ds, 5);
	}
	storm(w);
	fakepool_commit_all(w->rig.pool);
	whole = fakepool_clone(w->rig.pool);
	part = fakepool_clone(w->rig.pool);
	w->counting = true;
	uint64_t before = fakepool_log_count(w->rig.pool);
	storm(w);
	if (!w->lose_unstable) {
		fakepool_commit_all(w->rig.pool);
	}
	uint64_t logged = fakepool_log_count(w->rig.pool) - before;
	UNIT_CHECK(rig_check(w->rig.fp) == 0);
	char *now = rig_dump(w->rig.ds);

	struct rig again;
	w->counting = false;
	fakepool_give_log(whole, w->rig.pool, UINT64_MAX);
	rig_attach(&again, whole, reply_found, w);
	char *then = rig_dump(again.ds);
	UNIT_CHECK(w->lose_unstable || rig_same(now, then));
	UNIT_CHECK(w->found_count <= logged && w->found_count > logged / 2);
	UNIT_CHECK(rig_check(again.fp) == 0);
	rig_close(&again);

	fakepool_give_log(part, w->rig.pool, rt_random_u64() % (logged + 1));
	rig_attach(&again, part, NULL, NULL);
	UNIT_CHECK(rig_check(again.fp) == 0);
	struct rig mine = w->rig;
	w->rig = again;
	w->ops = 20;
	storm(w);
	UNIT_CHECK(rig_check(again.fp) == 0);
	rig_close(&again);
	w->rig = mine;
	mem_free(now);
	mem_free(then);
	rig_close(&w->rig);
}

static void
run_worlds(uint64_t seed, uint32_t runs, uint32_t fibers, uint32_t ops, bool lose)
{
	static struct world w;
	for (uint32_t i = 0; i < runs; i++) {
		memset(&w, 0, sizeof(w));
		w.fibers = fibers;
		w.ops = ops;
		w.lose_unstable = lose;
		struct rt_options opt = unit_rt(true, fibers > 1 ? 3 : 1, seed + i);
		CU_ASSERT(rt_run(&opt, world_run, &w) == 0);
		if (CU_get_number_of_failures() > 0) {
			printf("\n    failed with seed %llu\n", (unsigned long long)(seed + i));
			return;
		}
		CU_ASSERT(mem_live_count() == 0);
	}
}

static void
test_one_fiber(void)
{
	run_worlds(unit_seed(1), 40, 1, 300, false);
}

static void
test_many_fibers(void)
{
	run_worlds(unit_seed(1000), 60, 12, 60, false);
}

static void
test_unstable_lost(void)
{
	run_worlds(unit_seed(2000), 30, 8, 80, true);
}

int
main(int argc, char **argv)
{
	static const struct unit_test tests[] = {
	    {"replay after one fiber", test_one_fiber},
	    {"replay after many fibers", test_many_fibers},
	    {"replay without what was unstable", test_unstable_lost},
	};
	const char *bugs = getenv("AGATE_BUGS");
	bug_set_deliberate(bugs);
	return unit_main("fs_replay", tests, ARRAY_LEN(tests), argc, argv);
}
