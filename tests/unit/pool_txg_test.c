/*
 * pool_txg_test.c - what a txg is charged with, when it is full, which one a commit waits for, and
 * the last one in a pool whose drives are gone.
 */
#include "pool/cache.h"
#include "pool/object.h"
#include "pool/pool_log.h"
#include "pool/txg.h"
#include "tests/unit/pool_rig.h"

#define DRIVE_BYTES (96 * MIB)
#define STEP 4096u
#define BLOCK (32 * STEP)

static struct pool_rig rig;
static struct pool *pool;
static struct pool_ds *ds;

/* ---- full ---- */

/* A txg that became dirty in so many ms; the one before took so long for so much. */
static bool
full(uint64_t dirty_mib, uint64_t age_ms, uint64_t synced_mib, uint64_t synced_ms)
{
	struct txgs t = {.dirty_limit = 100 * MIB};

	atomic_store(&t.dirty_bytes[TXG_SLOT(7)], dirty_mib * MIB);
	atomic_store(&t.first_use_ns[TXG_SLOT(7)], rt_now_ns() - age_ms * NSEC_PER_MSEC);
	atomic_store(&t.synced_bytes, synced_mib * MIB);
	atomic_store(&t.synced_ns, synced_ms * NSEC_PER_MSEC);
	return txg_is_full(&t, 7);
}

static void
run_full(void *arg UNUSED)
{
	fiber_sleep(20 * NSEC_PER_SEC); /* so that there is a past */
	/* nothing is known of the drives: a quarter */
	CU_ASSERT(!full(24, 1000, 0, 0) && full(26, 1000, 0, 0));
	/* quick drives: until the throttle is near; never beyond */
	CU_ASSERT(!full(50, 1000, 25, 10) && full(59, 1000, 25, 10) && full(61, 4000, 25, 1));
	/* filled in no time, or drives that take long: a quarter, not less */
	CU_ASSERT(full(26, 1, 25, 10) && full(26, 1000, 25, 4000) && !full(24, 1, 25, 4000));
	/* as long as it fills slowly there is time */
	CU_ASSERT(!full(40, 4000, 25, 300) && full(40, 400, 25, 300));
	/* what took long was large */
	CU_ASSERT(!full(40, 4000, 20, 400) && full(40, 4000, 1, 400));
}

static void
test_full(void)
{
	struct rt_options opt = unit_rt(true, 1, unit_seed(1));

	CU_ASSERT_EQUAL(rt_run(&opt, run_full, NULL), 0);
}

/* ---- charged ---- */

static uint64_t
dirty_of(const struct pool_tx *tx)
{
	return atomic_load(&pool->txgs->dirty_bytes[TXG_SLOT(pool_tx_txg(tx))]);
}

/* A file with one step of data, not committed yet. */
static struct pool_obj *
file_make(void)
{
	struct pool_need need = {.dirty_bytes = 2 * MIB};
	static uint8_t data[STEP] = {1};
	struct iovec iov = {data, sizeof(data)};
	struct pool_obj *obj;
	struct pool_tx *tx;
	int err = pool_tx_begin(ds, &need, &tx);

	ASSERT(err == 0);
	err = pool_obj_create(tx, ds, OBJ_FILE, BLOCK, 0, 0, &obj);
	ASSERT(err == 0);
	err = pool_write(tx, obj, 0, &iov, 1);
	ASSERT(err == 0);
	pool_tx_end(tx);
	return obj;
}

/* However small the steps in which a block is written, it is charged with its size. */
static void
charge(void)
{
	struct pool_need need = {.dirty_bytes = 2 * MIB};
	static uint8_t data[STEP] = {1};
	struct iovec iov = {data, sizeof(data)};
	struct pool_obj *obj;
	struct pool_tx *tx;
	int err = pool_tx_begin(ds, &need, &tx);

	ASSERT(err == 0);
	err = pool_obj_create(tx, ds, OBJ_FILE, BLOCK, 0, 0, &obj);
	ASSERT(err == 0);
	for (uint64_t at = 0; at < BLOCK; at += STEP) {
		err = pool_write(tx, obj, at, &iov, 1);
		ASSERT(err == 0);
	}
	CU_ASSERT_EQUAL(dirty_of(tx), BLOCK + TXG_OBJECT_BYTES);
	CU_ASSERT(tx->dirtied_sectors >= space_sectors_for(pool, BLOCK, BLOCK));
	err = pool_write(tx, obj, STEP, &iov, 1);
	ASSERT(err == 0);
	CU_ASSERT_EQUAL(dirty_of(tx), BLOCK + TXG_OBJECT_BYTES); /* once */
	pool_tx_end(tx);
	err = pool_sync(pool);
	ASSERT(err == 0);
	pool_obj_release(obj);
}

static void
pool_make(void)
{
	struct pool_set_spec set = {RAIDZ_KIND_PARITY, 1, 4, rig.drives};
	struct pool_create_spec spec = {
	    .name = "tank", .sets = &set, .set_count = 1, .host_name = "here", .host_id = 1};
	char why[200];
	int err;

	rig_open(&rig);
	err = pool_create(&spec, &pool, why, sizeof(why));
	ASSERT(err == 0);
	err = pool_ds_open(pool, "tank", &ds);
	ASSERT(err == 0);
}

static void
run_charge(void *arg UNUSED)
{
	int err;

	pool_make();
	charge();
	pool_ds_close(ds);
	err = pool_export(pool);
	ASSERT(err == 0);
	memset(rig.drives, 0, sizeof(rig.drives));
}

static void
on_rig(fiber_fn *run)
{
	struct rt_options opt = unit_rt(true, 2, unit_seed(1));

	opt.arena_bytes = 64 * MIB;
	rig_make(&rig, 4, DRIVE_BYTES);
	CU_ASSERT_EQUAL(rt_run(&opt, run, NULL), 0);
	rig_unmake(&rig);
}

static void
test_charge(void)
{
	on_rig(run_charge);
}

/* ---- waited for ---- */

/* A change with a record that waits with its object, or without one; its txg. */
static uint64_t
change(struct pool_obj *obj, bool recorded)
{
	struct pool_need need = {
	    .dirty_bytes = 64 * KIB, .log_bytes = recorded ? 4096 : 0, .log_records = recorded};
	struct pool_log_rec rec = {
	    .type = 5, .object = pool_obj_number(obj), .generation = pool_obj_generation(obj)};
	struct pool_tx *tx;
	uint64_t txg;
	int err = pool_tx_begin(ds, &need, &tx);

	ASSERT(err == 0);
	txg = pool_tx_txg(tx);
	ASSERT((tx->ring != NULL) == recorded);
	++*(uint8_t *)pool_obj_bonus_dirty(tx, obj);
	pool_log_defer(tx, obj, &rec);
	pool_tx_end(tx);
	return txg;
}

/* A record waits, then something is changed without one: that is what a commit waits for. */
static void
run_commit(void *arg UNUSED)
{
	struct pool_obj *obj;
	uint64_t first, second;
	int err = 0;

	pool_make();
	obj = file_make();
	for (unsigned i = 0; err == 0 && i < 2 * LOG_ROOTS; i++) {
		err = pool_sync(pool);
	}
	ASSERT(err == 0);
	first = change(obj, true);
	err = pool_sync(pool);
	ASSERT(err == 0);
	second = change(obj, false);
	CU_ASSERT(second > first);
	err = pool_commit_object(obj);
	ASSERT(err == 0);
	CU_ASSERT(txg_committed(pool->txgs) >= second + TXG_FALLBACK);
	pool_obj_release(obj);
	pool_ds_close(ds);
	err = pool_export(pool);
	ASSERT(err == 0);
	memset(rig.drives, 0, sizeof(rig.drives));
}

static void
test_commit(void)
{
	on_rig(run_commit);
}

/* A change of obj whose record waits and keeps a buffer of 256 KiB for 4 KiB of data. */
static void
change_with_data(struct pool_obj *obj)
{
	struct pool_need need = {.dirty_bytes = 64 * KIB, .log_bytes = 4096, .log_records = 1};
	struct pool_log_rec rec = {.type = 5,
	    .object = pool_obj_number(obj),
	    .generation = pool_obj_generation(obj),
	    .data_len = 4096};
	struct pool_tx *tx;
	int err = iobuf_alloc(256 * KIB, ARENA_CACHE, &rec.data);

	ASSERT(err == 0);
	memset(rec.data->data, 1, rec.data_len);
	err = pool_tx_begin(ds, &need, &tx);
	ASSERT(err == 0 && tx->ring != NULL);
	++*(uint8_t *)pool_obj_bonus_dirty(tx, obj);
	pool_log_defer(tx, obj, &rec);
	pool_tx_end(tx);
	iobuf_unref(rec.data);
}

/* However much is written without a commit, records that wait leave the cache most of its memory.
 */
static void
run_defer(void *arg UNUSED)
{
	struct pool_obj *objs[2];
	uint64_t most = 0;
	int err = 0;

	pool_make();
	objs[0] = file_make();
	objs[1] = file_make();
	for (unsigned i = 0; err == 0 && i < 2 * LOG_ROOTS; i++) {
		err = pool_sync(pool);
	}
	ASSERT(err == 0);
	for (unsigned i = 0; i < 80; i++) {
		change_with_data(objs[i % 2]);
		most = MAX(most, atomic_load(&pool->log->deferred_bytes));
	}
	CU_ASSERT(most > cache_keep_bytes(pool->cache) / 2); /* they do wait */
	CU_ASSERT(most <= cache_keep_bytes(pool->cache) + 256 * KIB);
	for (unsigned i = 0; i < 2; i++) {
		err = pool_commit_object(objs[i]);
		ASSERT(err == 0);
		pool_obj_release(objs[i]);
	}
	CU_ASSERT_EQUAL(atomic_load(&pool->log->deferred_bytes), 0);
	pool_ds_close(ds);
	err = pool_export(pool);
	ASSERT(err == 0);
	memset(rig.drives, 0, sizeof(rig.drives));
}

static void
test_defer(void)
{
	on_rig(run_defer);
}

/* ---- closed ---- */

static int export_err;

static void
export_fiber(void *wg)
{
	export_err = pool_export(pool);
	wg_done(wg);
}

/* The drives go while a pool is closed: nobody will bring them back to it. */
static void
run_close(void *arg UNUSED)
{
	static struct waitgroup wg;

	pool_make();
	pool_obj_release(file_make());
	pool_ds_close(ds);
	for (uint32_t i = 0; i < rig.count; i++) {
		kb_sim_vanish(rig.media[i]);
	}
	wg_init(&wg);
	wg_add(&wg, 1);
	fiber_spawn_wait(0, FIBER_ADMIN, "export", export_fiber, &wg);
	ASSERT(wg_wait_until(&wg, rt_now_ns() + 30 * NSEC_PER_SEC) == 0);
	CU_ASSERT_EQUAL(export_err, -ERR_SUSPENDED);
	memset(rig.drives, 0, sizeof(rig.drives));
}

static void
test_close(void)
{
	on_rig(run_close);
}

static const struct unit_test tests[] = {
    {"when a txg is full", test_full},
    {"a block is charged with its size", test_charge},
    {"a commit waits for the last change, recorded or not", test_commit},
    {"records that wait don't take all memory", test_defer},
    {"closing gives up on drives that went", test_close},
};

int
main(int argc, char **argv)
{
	bug_set_deliberate(getenv("AGATE_BUGS"));
	return unit_main("pool_txg", tests, ARRAY_LEN(tests), argc, argv);
}
