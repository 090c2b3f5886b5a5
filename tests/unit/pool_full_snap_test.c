/*
 * pool_full_snap_test.c - full pools with snapshots, and full quotas, of drives of 64 MiB and of
 * 512 MiB. With a snapshot of everything a removal gives nothing back and costs a little; it works
 * all the same, for every file there is, and so does everything an administrator does. The space is
 * back within seconds when the snapshot is destroyed.
 */
#include "tests/unit/space_rig.h"

#define SMALL (64 * MIB)
#define LARGE SPACE_LARGE
#define FILES_MAX 600000u
#define SECONDS_MAX 15u

static uint64_t numbers[FILES_MAX];

static struct pool_ds_info
info_of(struct pool_ds *ds)
{
	struct pool_ds_info info;

	pool_ds_get_info(ds, &info);
	return info;
}

static void
must(int err)
{
	ASSERT(err == 0);
}

static void
snap(struct pool *p, const char *name)
{
	must(pool_snap_create(p, &name, 1, NULL));
}

static void
unsnap(struct pool *p, const char *name)
{
	must(pool_snap_destroy(p, &name, 1, NULL));
}

static struct pool_ds *
start(struct pool **out)
{
	struct pool *p = space_pool();
	struct pool_ds *ds;

	must(pool_ds_create(p, "tank/fs", &ds));
	space_thin_on(ds);
	*out = p;
	return ds;
}

static uint32_t
fill_files_of(struct pool_ds *ds, uint32_t n, uint32_t bytes, int want)
{
	int err = 0;

	while (n < FILES_MAX && (err = space_small_file(ds, bytes, &numbers[n])) == 0) {
		n++;
	}
	ASSERT(err == want);
	return n;
}

static uint32_t
fill_files(struct pool_ds *ds, uint32_t n, int want)
{
	return fill_files_of(ds, n, 4096, want);
}

static void
remove_files(struct pool_ds *ds, uint32_t from, uint32_t to)
{
	for (uint32_t i = from; i < to; i++) {
		space_remove_number(ds, numbers[i]);
	}
}

static void
wait_for(struct pool *p, struct pool_ds *ds, uint64_t available)
{
	uint64_t begin = rt_now_ns();

	while (info_of(ds).available_bytes < available) {
		ASSERT(rt_now_ns() - begin < SECONDS_MAX * NSEC_PER_SEC);
		fiber_sleep(100 * NSEC_PER_MSEC);
	}
	space_check(p);
}

/* Nothing of this may be refused for want of space. */
static void
check_administration(struct pool *p, struct pool_ds *ds)
{
	uint64_t begin = rt_now_ns();
	struct pool_ds *more;
	char why[200];
	int err;

	must(pool_ds_prop_set(ds, "recordsize", "64K"));
	must(pool_ds_prop_set(ds, "recordsize", NULL));
	snap(p, "tank/fs@brim");
	must(pool_snap_rename(p, "tank/fs@brim", "edge"));
	must(pool_snap_hold(p, "tank/fs@edge", "me"));
	must(pool_snap_release(p, "tank/fs@edge", "me"));
	must(pool_ds_clone(p, "tank/fs@edge", "tank/clone", &more));
	pool_ds_close(more);
	/* promoting sorts deadlists, and may be refused where there are long ones: not half done */
	err = pool_ds_promote(p, "tank/clone", why, sizeof(why));
	ASSERT(err == 0 || err == -ENOSPC);
	if (err == 0) {
		must(pool_ds_promote(p, "tank/fs", why, sizeof(why)));
	}
	must(pool_ds_rename(p, "tank/clone", "tank/other"));
	must(pool_ds_destroy(p, "tank/other"));
	unsnap(p, "tank/fs@edge");
	must(pool_ds_create(p, "tank/new", &more));
	pool_ds_close(more);
	must(pool_ds_destroy(p, "tank/new"));
	ASSERT(rt_now_ns() - begin < 60 * NSEC_PER_SEC);
}

static void
finish(struct pool *p, struct pool_ds *ds)
{
	pool_ds_close(ds);
	space_export(p);
	space_thin = false;
}

/*
 * Files up to the brim, a snapshot of half of them and one of all; every file goes, one by one.
 * What is written afterwards is refused, in a pool that was exported and imported too.
 */
static void
run_files(void *arg UNUSED)
{
	struct pool *p;
	struct pool_ds *ds = start(&p);
	uint64_t before = info_of(ds).available_bytes;
	uint32_t half, n, more;

	for (half = 0; info_of(ds).available_bytes > before / 2; half++) {
		must(space_small_file(ds, 4096, &numbers[half]));
		if (half % 4096 == 4095) {
			must(pool_sync(p));
		}
	}
	snap(p, "tank/fs@half");
	n = fill_files(ds, half, -ENOSPC);
	snap(p, "tank/fs@full");
	printf("(%u files) ", n);
	check_administration(p, ds);
	remove_files(ds, 0, n / 3);
	must(pool_sync(p));
	pool_ds_close(ds);
	p = space_reimport(p);
	must(pool_ds_open(p, "tank/fs", &ds));
	space_thin_on(ds);
	/* there are fewer blocks of inodes to rewrite now; nothing else has come back */
	more = fill_files(ds, n, -ENOSPC);
	ASSERT(more - n < n / 20);
	remove_files(ds, n / 3, more);
	must(pool_sync(p));
	ASSERT(info_of(ds).referenced_bytes < before / 50);
	ASSERT(info_of(ds).available_bytes < before / 10);
	check_administration(p, ds);
	/* the younger one gives back what came after the older one */
	unsnap(p, "tank/fs@full");
	wait_for(p, ds, before / 10 * 4);
	unsnap(p, "tank/fs@half");
	wait_for(p, ds, before - before / 50);
	finish(p, ds);
}

/* As clients remove: in an order of its own, with nothing done in between. */
static void
run_shuffled(uint32_t bytes)
{
	struct pool *p;
	struct pool_ds *ds = start(&p);
	uint64_t before = info_of(ds).available_bytes;
	uint32_t n = fill_files_of(ds, 0, bytes, -ENOSPC);

	snap(p, "tank/fs@full");
	for (uint32_t i = n; i > 1; i--) {
		uint32_t k = (uint32_t)(rt_random_u64() % i);
		uint64_t number = numbers[k];

		numbers[k] = numbers[i - 1];
		numbers[i - 1] = number;
	}
	printf("(%u files of %u) ", n, bytes);
	remove_files(ds, 0, n);
	must(pool_sync(p));
	ASSERT(info_of(ds).available_bytes < before / 10);
	check_administration(p, ds);
	unsnap(p, "tank/fs@full");
	wait_for(p, ds, before - before / 50);
	finish(p, ds);
}

static void
run_shuffled_4k(void *arg UNUSED)
{
	run_shuffled(4096);
}

static void
run_shuffled_16k(void *arg UNUSED)
{
	run_shuffled(16384);
}

/* One file of all there is, kept by a snapshot: cut, cut to nothing, removed; over again by rolling
 * back. */
static void
run_one(void *arg UNUSED)
{
	struct pool *p;
	struct pool_ds *ds = start(&p);
	uint64_t before = info_of(ds).available_bytes, len, number;
	struct pool_obj *o = space_file(ds, 128 * KIB);

	len = space_fill(ds, o, UINT64_MAX);
	while (space_write(ds, o, len, 64 * KIB) == 0) {
		len += 64 * KIB;
	}
	number = pool_obj_number(o);
	snap(p, "tank/fs@full");
	printf("(%llu bytes) ", (unsigned long long)len);
	check_administration(p, ds);
	/* what is there can't be overwritten, since it would be there twice */
	ASSERT(space_fill(ds, o, before / 10) < before / 20);
	space_truncate(ds, o, len / 2 + 1);
	space_truncate(ds, o, 0);
	space_remove(ds, o);
	must(pool_sync(p));
	ASSERT(info_of(ds).available_bytes < before / 10);
	pool_ds_close(ds);
	must(pool_ds_rollback(p, "tank/fs@full", NULL));
	must(pool_ds_open(p, "tank/fs", &ds));
	space_thin_on(ds);
	must(pool_obj_hold(ds, number, 0, &o));
	ASSERT(pool_obj_used_bytes(o) >= len);
	space_truncate(ds, o, 0);
	pool_obj_release(o);
	pool_ds_close(ds);
	must(pool_ds_rollback(p, "tank/fs@full", "tank/kept"));
	must(pool_ds_open(p, "tank/fs", &ds));
	space_thin_on(ds);
	must(pool_obj_hold(ds, number, 0, &o));
	space_remove(ds, o);
	must(pool_sync(p));
	space_check(p);
	ASSERT(info_of(ds).available_bytes < before / 10);
	must(pool_ds_destroy(p, "tank/kept"));
	unsnap(p, "tank/fs@full");
	wait_for(p, ds, before - before / 50);
	finish(p, ds);
}

/* A refquota used up to the last file, with and without a snapshot; a quota, which a snapshot keeps
 * full. */
static void
run_quota(void *arg UNUSED)
{
	struct pool_limits limit = {.refquota = 16 * MIB};
	struct pool *p;
	struct pool_ds *ds = start(&p);
	uint32_t n;

	must(pool_ds_set_limits(ds, &limit));
	for (unsigned round = 0; round < 2; round++) {
		n = fill_files(ds, 0, -EDQUOT);
		if (round == 1) {
			snap(p, "tank/fs@full");
		}
		check_administration(p, ds);
		remove_files(ds, 0, n);
		/* a refquota doesn't count what only snapshots refer to */
		wait_for(p, ds, 15 * MIB);
	}
	unsnap(p, "tank/fs@full");
	limit = (struct pool_limits){.quota = 16 * MIB};
	must(pool_ds_set_limits(ds, &limit));
	n = fill_files(ds, 0, -EDQUOT);
	snap(p, "tank/fs@full");
	check_administration(p, ds);
	remove_files(ds, 0, n);
	must(pool_sync(p));
	fiber_sleep(5 * NSEC_PER_SEC);
	ASSERT(info_of(ds).available_bytes < 2 * MIB);
	ASSERT(space_small_file(ds, 4096, NULL) == -EDQUOT || info_of(ds).available_bytes > 0);
	unsnap(p, "tank/fs@full");
	wait_for(p, ds, 15 * MIB);
	finish(p, ds);
}

static void
test_files(void)
{
	space_run(run_files, 31, 7, SMALL);
}

static void
test_files_large(void)
{
	space_run(run_files, 32, 7, LARGE);
}

static void
test_shuffled_4k(void)
{
	space_run(run_shuffled_4k, 36, 7, SMALL);
}

static void
test_shuffled_16k(void)
{
	space_run(run_shuffled_16k, 37, 7, SMALL);
}

/* A set that can lose no drive has all its metadata twice in the reserve, too. */
static void
test_shuffled_alone(void)
{
	space_run(run_shuffled_4k, 38, 1, 4 * SMALL);
}

static void
test_one(void)
{
	space_run(run_one, 33, 7, SMALL);
}

static void
test_one_large(void)
{
	space_run(run_one, 34, 7, LARGE);
}

static void
test_quota(void)
{
	space_run(run_quota, 35, 7, SMALL);
}

static const struct unit_test tests[] = {
    {"files", test_files},
    {"files on large drives", test_files_large},
    {"files in any order", test_shuffled_4k},
    {"files of 16 KiB in any order", test_shuffled_16k},
    {"files in any order on one drive", test_shuffled_alone},
    {"one file", test_one},
    {"one file on large drives", test_one_large},
    {"quotas", test_quota},
};

int
main(int argc, char **argv)
{
	return unit_main("pool_full_snap", tests, ARRAY_LEN(tests), argc, argv);
}
