/*
 * pool_hole_test.c - births of holes: a hole is born when its range became one, and keeps that
 * birth whatever is written beside it (docs/on-disk-format.md 8). What asks "what changed since txg
 * N" relies on it.
 */
#include "pool/object.h"
#include "tests/unit/pool_rig.h"

#define DRIVE_BYTES (96 * MIB)
#define BLOCK 4096u
#define BLOCKS 300u /* two levels */

static struct pool_rig rig;
static struct pool *pool;
static struct pool_ds *ds;
static struct pool_obj *obj;

static struct pool_tx *
begin(void)
{
	struct pool_need need = {.dirty_bytes = 2 * MIB, .frees = true};
	struct pool_tx *tx;
	int err = pool_tx_begin(ds, &need, &tx);

	ASSERT(err == 0);
	return tx;
}

static uint64_t
end(struct pool_tx *tx)
{
	uint64_t txg = pool_tx_txg(tx);
	int err;

	pool_tx_end(tx);
	err = pool_sync(pool);
	ASSERT(err == 0);
	return txg;
}

/* Writes blocks [from, to); returns the txg, committed. */
static uint64_t
put(uint64_t from, uint64_t to)
{
	static uint8_t data[BLOCKS * BLOCK];
	struct iovec iov = {data, (size_t)((to - from) * BLOCK)};
	struct pool_tx *tx = begin();
	int err;

	for (uint32_t i = 0; i < sizeof(data); i++) {
		data[i] = (uint8_t)(i % 251 + pool_tx_txg(tx)); /* never a block of zeros */
	}
	err = pool_write(tx, obj, from * BLOCK, &iov, 1);
	ASSERT(err == 0);
	return end(tx);
}

static uint64_t
punch(uint64_t from, uint64_t len)
{
	struct pool_tx *tx = begin();
	int err =
	    pool_free_range(tx, obj, from * BLOCK, len == UINT64_MAX ? UINT64_MAX : len * BLOCK);

	ASSERT(err == 0);
	return end(tx);
}

static struct bp
look(uint64_t block)
{
	uint64_t token = space_read_enter(pool->space);
	struct bp bp;
	int err = tree_lookup(pool, &obj->tree, 0, block, NULL, &bp);

	ASSERT(err == 0);
	space_read_exit(pool->space, token);
	return bp;
}

static void
expect(uint64_t from, uint64_t to, bool hole, uint64_t birth)
{
	for (uint64_t b = from; b < to; b++) {
		struct bp bp = look(b);

		if (bp_is_hole(&bp) != hole || bp_birth(&bp) != birth) {
			printf("block %llu: hole %d, birth %llu, expected %llu\n",
			    (unsigned long long)b, bp_is_hole(&bp),
			    (unsigned long long)bp_birth(&bp), (unsigned long long)birth);
			CU_ASSERT(false);
			return;
		}
	}
}

static void
run_births(void *arg UNUSED)
{
	uint64_t written = put(0, BLOCKS), punched, leaf, again, cut, far;

	expect(0, BLOCKS, false, written);
	/* a few blocks of one leaf; one of them is written again */
	punched = punch(10, 10);
	ASSERT(punched > written);
	expect(0, 10, false, written);
	expect(10, 20, true, punched);
	again = put(15, 16);
	ASSERT(again > punched);
	expect(10, 15, true, punched);
	expect(15, 16, false, again);
	expect(16, 20, true, punched);
	expect(20, BLOCKS, false, written);
	/* a whole leaf: its hole is one level up, and splits */
	leaf = punch(0, 256);
	expect(0, 256, true, leaf);
	expect(256, BLOCKS, false, written);
	again = put(7, 8);
	expect(0, 7, true, leaf);
	expect(7, 8, false, again);
	expect(8, 256, true, leaf);
	expect(256, BLOCKS, false, written);
	/* everything, and then the last block: what is before it isn't older than the cut */
	cut = punch(0, UINT64_MAX);
	ASSERT(cut > again);
	far = put(BLOCKS - 1, BLOCKS);
	expect(BLOCKS - 1, BLOCKS, false, far);
	for (uint64_t b = 0; b < BLOCKS - 1; b++) {
		struct bp bp = look(b);

		CU_ASSERT(bp_is_hole(&bp) && bp_birth(&bp) >= cut && bp_birth(&bp) <= far);
	}
}

/* Cut and extended in one txg: nothing may look older than that. */
static void
run_same_txg(void *arg UNUSED)
{
	static uint8_t data[BLOCK];
	struct iovec iov = {data, sizeof(data)};
	uint64_t written = put(0, BLOCKS), txg;
	struct pool_tx *tx = begin();
	int err = pool_free_range(tx, obj, 0, UINT64_MAX);

	ASSERT(err == 0);
	memset(data, 3, sizeof(data));
	err = pool_write(tx, obj, (BLOCKS - 1) * BLOCK, &iov, 1);
	ASSERT(err == 0);
	txg = end(tx);
	ASSERT(txg > written);
	expect(0, BLOCKS - 1, true, txg);
	expect(BLOCKS - 1, BLOCKS, false, txg);
}

static void
run_on_pool(void *run)
{
	struct pool_set_spec set = {RAIDZ_KIND_PARITY, 1, 4, rig.drives};
	struct pool_create_spec spec = {
	    .name = "tank", .sets = &set, .set_count = 1, .host_name = "here", .host_id = 1};
	uint64_t problems = 1;
	struct pool_tx *tx;
	char why[200];
	int err;

	rig_open(&rig);
	err = pool_create(&spec, &pool, why, sizeof(why));
	ASSERT(err == 0);
	err = pool_ds_open(pool, "tank", &ds);
	ASSERT(err == 0);
	tx = begin();
	err = pool_obj_create(tx, ds, OBJ_FILE, BLOCK, 0, 0, &obj);
	ASSERT(err == 0);
	(void)end(tx);
	(*(fiber_fn **)run)(NULL);
	pool_obj_release(obj);
	pool_ds_close(ds);
	err = pool_check(pool, NULL, NULL, &problems);
	CU_ASSERT(err == 0 && problems == 0);
	err = pool_export(pool);
	ASSERT(err == 0);
	memset(rig.drives, 0, sizeof(rig.drives));
}

static void
in_sim(fiber_fn *run)
{
	struct rt_options opt = unit_rt(true, 2, unit_seed(1));
	int err;

	opt.arena_bytes = 64 * MIB;
	rig_make(&rig, 4, DRIVE_BYTES);
	err = rt_run(&opt, run_on_pool, &run);
	CU_ASSERT_EQUAL(err, 0);
	rig_unmake(&rig);
}

static void
test_births(void)
{
	in_sim(run_births);
}

static void
test_same_txg(void)
{
	in_sim(run_same_txg);
}

static const struct unit_test tests[] = {
    {"punched, written again, cut, extended", test_births},
    {"cut and extended in one txg", test_same_txg},
};

int
main(int argc, char **argv)
{
	return unit_main("pool_hole", tests, ARRAY_LEN(tests), argc, argv);
}
