/*
 * pool_figures_test.c - what is shown of space: figures that agree with each other, sizes that
 * stand still while space moves from used to free, and an idle pool that gives everything back and
 * then is quiet.
 */
#include "tests/unit/space_rig.h"

static struct pool_ds_info
info_of(struct pool_ds *ds)
{
	struct pool_ds_info info;

	pool_ds_get_info(ds, &info);
	return info;
}

/* The one dataset of a pool has all of it, and both say so. */
static void
check_agreement(struct pool *p, struct pool_ds *ds)
{
	struct pool_ds_info info = info_of(ds);
	struct pool_status st;
	int err = pool_get_status(p, &st);

	ASSERT(err == 0);
	ASSERT(st.usable_free_bytes == info.available_bytes);
	ASSERT(info.size_bytes == info.referenced_bytes + info.free_bytes);
	ASSERT(info.size_bytes == st.usable_bytes);
	ASSERT(info.available_bytes <= info.free_bytes);
	ASSERT(st.raw_pending_free_bytes <= st.raw_used_bytes);
	pool_status_free(&st);
}

static uint64_t
txg_now(struct pool *p)
{
	return le64_get(p->ub.txg);
}

/* Whoever waits without doing anything gets all of it back, soon; then nothing is written. */
static void
check_comes_back(
    struct pool *p, struct pool_ds *ds, uint64_t size, uint64_t slack, uint64_t available)
{
	struct space_info space;
	uint64_t txg;

	for (unsigned i = 0; i < 100; i++) {
		check_agreement(p, ds);
		ASSERT(info_of(ds).size_bytes <= size + slack);
		ASSERT(info_of(ds).size_bytes + slack >= size);
		fiber_sleep(100 * NSEC_PER_MSEC);
	}
	space_get_info(p->space, &space);
	ASSERT(space.release_sectors == 0);
	ASSERT(space.reserve_sectors == space.reserve_min_sectors);
	ASSERT(info_of(ds).pending_bytes == 0);
	/* the unlinked set, and what the table has grown by, remain */
	ASSERT(info_of(ds).available_bytes + MIB + slack >= available);
	txg = txg_now(p);
	fiber_sleep(600 * NSEC_PER_SEC);
	ASSERT(txg_now(p) == txg);
}

static void
run_remove(void *arg UNUSED)
{
	struct pool *p = space_pool();
	struct pool_ds *ds = space_root(p);
	struct pool_ds_info before = info_of(ds), full;
	struct pool_obj *o = space_file(ds, 128 * KIB);
	uint64_t len = space_fill(ds, o, 64 * MIB);
	int err = pool_sync(p);

	ASSERT(err == 0 && len == 64 * MIB);
	full = info_of(ds);
	ASSERT(full.size_bytes == before.size_bytes);
	ASSERT(full.referenced_bytes >= len && full.referenced_bytes < len + len / 16);
	ASSERT(full.used_bytes == full.referenced_bytes);
	ASSERT(full.available_bytes + full.referenced_bytes <= before.size_bytes);
	check_agreement(p, ds);

	space_truncate(ds, o, 16 * MIB);
	err = pool_sync(p);
	ASSERT(err == 0);
	ASSERT(info_of(ds).referenced_bytes < full.referenced_bytes - 40 * MIB);
	check_comes_back(p, ds, before.size_bytes, 0, before.available_bytes - 17 * MIB);

	space_remove(ds, o);
	err = pool_sync(p);
	ASSERT(err == 0);
	/* gone for the user at once, though its blocks go one by one */
	ASSERT(info_of(ds).referenced_bytes < MIB);
	check_comes_back(p, ds, before.size_bytes, 0, before.available_bytes);
	space_check(p);
	pool_ds_close(ds);
	space_export(p);
}

static void
test_remove(void)
{
	space_run(run_remove, 1, 7, 128 * MIB);
}

/* Whatever raised the reserve, it doesn't stay there. */
static void
run_reserve(void *arg UNUSED)
{
	struct pool *p = space_pool();
	struct pool_ds *ds = space_root(p);
	struct pool_ds_info before = info_of(ds), raised;
	struct space_info space;
	int err;

	space_get_info(p->space, &space);
	p->space->meta_worst = space.reserve_min_sectors;
	err = space_small_file(ds, 256, NULL);
	ASSERT(err == 0);
	err = pool_sync(p);
	ASSERT(err == 0);
	space_get_info(p->space, &space);
	ASSERT(space.reserve_sectors > 2 * space.reserve_min_sectors);
	raised = info_of(ds);
	ASSERT(raised.size_bytes == before.size_bytes);
	ASSERT(raised.available_bytes < raised.free_bytes);
	check_comes_back(p, ds, before.size_bytes, 0, before.available_bytes - MIB);
	pool_ds_close(ds);
	space_export(p);
}

static void
test_reserve(void)
{
	space_run(run_reserve, 2, 7, 64 * MIB);
}

/* A destroyed dataset is free for the others at once, and an import half-way knows what is pending.
 */
static void
run_destroy(void *arg UNUSED)
{
	struct pool *p = space_pool();
	struct pool_ds *root = space_root(p), *ds;
	struct pool_ds_info before = info_of(root), full;
	struct pool_status st;
	struct pool_obj *o;
	int err = pool_ds_create(p, "tank/a", &ds);

	ASSERT(err == 0);
	o = space_file(ds, 4096);
	ASSERT(space_fill(ds, o, 48 * MIB) == 48 * MIB);
	err = pool_sync(p);
	ASSERT(err == 0);
	full = info_of(root);
	ASSERT(full.used_bytes == full.referenced_bytes + full.children_bytes);
	ASSERT(full.children_bytes == info_of(ds).used_bytes);
	ASSERT(full.children_bytes >= 48 * MIB);
	pool_obj_release(o);
	pool_ds_close(ds);
	bug_set_buggify(100);
	err = pool_ds_destroy(p, "tank/a");
	ASSERT(err == 0);
	ASSERT(info_of(root).children_bytes == 0);
	ASSERT(info_of(root).free_bytes + 4 * MIB >= before.free_bytes);
	err = pool_get_status(p, &st);
	ASSERT(err == 0 && st.raw_pending_free_bytes > 48 * MIB);
	pool_status_free(&st);
	bug_set_buggify(0);
	pool_ds_close(root);
	p = space_reimport(p);
	root = space_root(p);
	check_comes_back(
	    p, root, before.size_bytes, before.size_bytes / 50, before.available_bytes);
	space_check(p);
	pool_ds_close(root);
	space_export(p);
}

static void
test_destroy(void)
{
	space_run(run_destroy, 3, 7, 128 * MIB);
}

/* A reader that stays keeps space from coming back. That is no reason to commit on and on, each
 * time with a little more that can't be reused; and when it leaves no commit is needed. */
static void
run_reader(void *arg UNUSED)
{
	struct pool *p = space_pool();
	struct pool_ds *ds = space_root(p);
	struct pool_obj *o = space_file(ds, 128 * KIB);
	struct space_info space;
	uint64_t token, txg;
	int err;

	ASSERT(space_fill(ds, o, 16 * MIB) == 16 * MIB);
	err = pool_sync(p);
	ASSERT(err == 0);
	token = space_read_enter(p->space);
	space_remove(ds, o);
	err = pool_sync(p);
	ASSERT(err == 0);
	txg = txg_now(p);
	fiber_sleep(600 * NSEC_PER_SEC);
	ASSERT(txg_now(p) < txg + 20);
	space_get_info(p->space, &space);
	ASSERT(space.release_sectors * SECTOR_BYTES > 16 * MIB);
	txg = txg_now(p);
	space_read_exit(p->space, token);
	fiber_sleep(NSEC_PER_SEC);
	space_get_info(p->space, &space);
	ASSERT(space.release_sectors == 0);
	ASSERT(txg_now(p) == txg);
	pool_ds_close(ds);
	space_export(p);
}

static void
test_reader(void)
{
	space_run(run_reader, 4, 7, 64 * MIB);
}

/* E01: whatever the size of records, used and referenced are never less than the data, and not much
 * more than the rule says. */
struct record_case {
	uint32_t record;
	uint32_t permille; /* of the data, docs/space.md */
};

static void
run_records(void *arg)
{
	static const struct record_case cases[] = {
	    {4096, 1715}, {16 * KIB, 1286}, {128 * KIB, 1018}, {MIB, 1005}};
	bool large = arg != NULL;
	const uint64_t len = large ? 2 * SPACE_LARGE : 24 * MIB;
	struct pool *p = space_pool();
	const uint64_t slack = large ? len / 16 : 4 * MIB;
	struct pool_ds *ds = space_root(p);

	if (large) {
		space_thin_on(ds);
	}
	for (unsigned i = 0; i < ARRAY_LEN(cases); i++) {
		struct pool_obj *o = space_file(ds, cases[i].record);
		struct pool_ds_info info, before = info_of(ds);
		uint64_t most = len / 1000 * cases[i].permille, more;
		int err;

		ASSERT(space_fill(ds, o, len) == len);
		err = pool_sync(p);
		ASSERT(err == 0);
		info = info_of(ds);
		check_agreement(p, ds);
		more = info.referenced_bytes - before.referenced_bytes;
		printf("(%uK: %llu permille) ", cases[i].record / 1024,
		    (unsigned long long)(more * 1000 / len));
		ASSERT(
		    pool_obj_used_bytes(o) >= len && pool_obj_used_bytes(o) <= more + SECTOR_BYTES);
		ASSERT(more >= len && more <= most + len / 25);
		ASSERT(info.logical_bytes >= len);
		ASSERT(info.used_bytes == info.referenced_bytes);
		ASSERT(info.size_bytes + slack >= before.size_bytes);
		ASSERT(before.free_bytes - info.free_bytes + slack >= more);
		space_remove(ds, o);
		fiber_sleep(10 * NSEC_PER_SEC);
	}
	pool_ds_close(ds);
	space_export(p);
	space_thin = false;
}

static void
test_records(void)
{
	space_run(run_records, 5, 7, 96 * MIB);
}

/* A GiB of each. */
static void
run_records_large(void *arg UNUSED)
{
	bool large = true;

	run_records(&large);
}

static void
test_records_large(void)
{
	space_run(run_records_large, 6, 7, SPACE_LARGE);
}

static const struct unit_test tests[] = {
    {"remove", test_remove},
    {"reserve", test_reserve},
    {"destroy", test_destroy},
    {"reader", test_reader},
    {"e01 records", test_records},
    {"e01 a GiB of each size of records", test_records_large},
};

int
main(int argc, char **argv)
{
	return unit_main("pool_figures", tests, ARRAY_LEN(tests), argc, argv);
}
