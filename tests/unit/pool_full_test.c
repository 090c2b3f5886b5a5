/*
 * pool_full_test.c - pools filled until nothing more fits, by small files, by one file, by empty
 * ones: what frees always works, nothing but "no space" is ever said, and the space is back within
 * seconds. The smallest pool there is, and one of 7 times 512 MiB.
 */
#include "tests/unit/space_rig.h"

#define SMALL (64 * MIB)
#define LARGE SPACE_LARGE
#define WRITES_PER_MIB_MAX 1500u
#define FILES_MAX 1500000u

static uint64_t numbers[FILES_MAX];

static struct pool_ds_info
info_of(struct pool_ds *ds)
{
	struct pool_ds_info info = {0};

	pool_ds_get_info(ds, &info);
	return info;
}

/* As many files of len bytes as there is room for. */
static uint32_t
fill_files(struct pool_ds *ds, uint32_t len)
{
	uint32_t n = 0;
	int err = 0;

	while (n < FILES_MAX && (err = space_small_file(ds, len, &numbers[n])) == 0) {
		n++;
	}
	if (err != -ENOSPC) {
		printf("(after %u files: %s) ", n, err_str(err));
	}
	ASSERT(err == -ENOSPC);
	/* and it stays so, whoever tries */
	for (unsigned i = 0; i < 20; i++) {
		err = space_small_file(ds, len, &numbers[n]);
		ASSERT(err == -ENOSPC || err == 0);
		n += err == 0;
	}
	return n;
}

/* In a full pool: everything that isn't growth works. */
static void
check_administration(struct pool *p, struct pool_ds *ds)
{
	uint64_t start = rt_now_ns();
	int err = pool_ds_prop_set(ds, "recordsize", "64K");

	ASSERT(err == 0);
	err = pool_ds_rename(p, "tank/spare", "tank/other");
	ASSERT(err == 0);
	err = pool_ds_destroy(p, "tank/other");
	ASSERT(err == 0);
	err = pool_ds_prop_set(ds, "recordsize", NULL);
	ASSERT(err == 0);
	ASSERT(rt_now_ns() - start < 30 * NSEC_PER_SEC);
}

static struct pool *
full_pool(struct pool_ds **out)
{
	struct pool *p = space_pool();
	struct pool_ds *spare;
	int err = pool_ds_create(p, "tank/spare", &spare);

	ASSERT(err == 0);
	pool_ds_close(spare);
	*out = space_root(p);
	space_thin = false;
	if (p->space->total > LARGE / SECTOR_BYTES) {
		space_thin_on(*out);
	}
	return p;
}

/* Within seconds all of it is there again, but for a little of the pool's own. */
static void
check_returns(struct pool *p, struct pool_ds *ds, uint64_t before)
{
	struct pool_ds_info info = {0};
	uint64_t start = rt_now_ns();

	do {
		ASSERT(rt_now_ns() - start < 15 * NSEC_PER_SEC);
		fiber_sleep(100 * NSEC_PER_MSEC);
		info = info_of(ds);
	} while (info.available_bytes < before - before / 64);
	ASSERT(info.referenced_bytes < before / 100);
	space_check(p);
}

static void
files_round(struct pool *p, struct pool_ds *ds, uint32_t len, uint32_t *out_count)
{
	uint64_t before = info_of(ds).available_bytes;
	uint32_t n = fill_files(ds, len);
	struct pool_ds_info info = {0};
	int err = pool_sync(p);

	ASSERT(err == 0);
	info = info_of(ds);
	ASSERT(info.available_bytes < before / 10);
	ASSERT(info.referenced_bytes >= (uint64_t)n * len);
	if (out_count != NULL) {
		check_administration(p, ds);
		*out_count = n;
	}
	for (uint32_t i = 0; i < n; i++) {
		space_remove_number(ds, numbers[i]);
	}
	err = pool_sync(p);
	ASSERT(err == 0);
	check_returns(p, ds, before);
}

static void
run_files(void *arg)
{
	uint32_t len = *(const uint32_t *)arg, n;
	struct pool_ds *ds;
	struct pool *p = full_pool(&ds);

	files_round(p, ds, len, &n);
	printf("(%u files of %u bytes) ", n, len);
	files_round(p, ds, len, NULL);
	pool_ds_close(ds);
	p = space_reimport(p);
	space_check(p);
	space_export(p);
}

static void
run_small(void *arg UNUSED)
{
	static const uint32_t len = 4096;

	run_files((void *)(uintptr_t)&len);
}

static void
run_inodes(void *arg UNUSED)
{
	static const uint32_t len = 256;

	run_files((void *)(uintptr_t)&len);
}

/* One file of all that there is; it is cut, and cut to nothing, and removed. */
static void
run_one(void *arg UNUSED)
{
	struct pool_ds *ds;
	struct pool *p = full_pool(&ds);
	uint64_t before = info_of(ds).available_bytes, len;
	struct pool_obj *o = space_file(ds, 128 * KIB);
	int err;

	for (unsigned round = 0; round < (before > GIB ? 1 : 3); round++) {
		len = space_fill(ds, o, UINT64_MAX);
		while (space_write(ds, o, len, 64 * KIB) == 0) {
			len += 64 * KIB;
		}
		err = pool_sync(p);
		ASSERT(err == 0);
		/* what was promised is what one gets, but for the last records and the tree */
		ASSERT(len + len / 20 >= before);
		if (round == 0) {
			check_administration(p, ds);
			printf("(%llu of %llu bytes) ", (unsigned long long)len,
			    (unsigned long long)before);
		}
		space_truncate(ds, o, len / 2 + 1);
		space_truncate(ds, o, round == 1 ? 4096 : 0);
		if (round == 1) {
			space_truncate(ds, o, 0);
		}
		check_returns(p, ds, before);
	}
	if (before < GIB) {
		(void)space_fill(ds, o, UINT64_MAX);
	}
	space_remove(ds, o);
	check_returns(p, ds, before);
	pool_ds_close(ds);
	space_export(p);
}

/* Who writes while much is being freed waits, and isn't refused. */
static void
run_replace(void *arg UNUSED)
{
	struct pool_ds *ds;
	struct pool *p = full_pool(&ds);

	for (unsigned round = 0; round < 4; round++) {
		struct pool_obj *o = space_file(ds, 128 * KIB);
		uint64_t len = space_fill(ds, o, UINT64_MAX), again;
		struct pool_obj *next;

		space_remove(ds, o);
		next = space_file(ds, 128 * KIB);
		again = space_fill(ds, next, len - len / 10);
		ASSERT(again == len - len / 10);
		space_remove(ds, next);
	}
	pool_ds_close(ds);
	space_export(p);
}

/* The same with a filled pool's neighbour: a dataset goes, and its space is there. */
static void
run_destroy(void *arg UNUSED)
{
	struct pool_ds *ds, *child;
	struct pool *p = full_pool(&ds);
	uint64_t before = info_of(ds).available_bytes;
	struct pool_obj *o;
	int err;

	for (unsigned round = 0; round < 2; round++) {
		err = pool_ds_create(p, "tank/child", &child);
		ASSERT(err == 0);
		o = space_file(child, 16 * KIB);
		(void)space_fill(child, o, UINT64_MAX);
		pool_obj_release(o);
		pool_ds_close(child);
		err = pool_ds_destroy(p, "tank/child");
		ASSERT(err == 0);
		ASSERT(space_write(ds, o = space_file(ds, 4096), 0, MIB) == 0);
		space_remove(ds, o);
		check_returns(p, ds, before);
	}
	pool_ds_close(ds);
	space_export(p);
}

/*
 * Nine tenths of the pool are files of 4 KiB, of which every second goes: what is free are holes
 * for one sector of data each. Writes of 1 MiB into blocks of 1 MiB, stable ones of 4 KiB between
 * them, go on until half of the holes' space is used (a block in pieces of one sector takes twice
 * as much as in one); then there is no space, and nothing else is wrong.
 */
static void
run_fragmented(void *arg UNUSED)
{
	struct pool_ds *ds;
	struct pool *p = full_pool(&ds);
	uint64_t before = info_of(ds).available_bytes, left, len = 0, longest = 0;
	uint64_t writes = 0, dearest = 0;
	uint32_t n = fill_files(ds, 4096);
	struct pool_obj *o, *small;
	int err;

	for (uint32_t i = n / 10 * 9; i < n; i++) {
		space_remove_number(ds, numbers[i]);
	}
	n = n / 10 * 9;
	for (uint32_t i = 0; i < n; i += 2) {
		space_remove_number(ds, numbers[i]);
	}
	/* the tenth that is in one piece is used up first */
	o = space_file(ds, MIB);
	small = space_file(ds, 4096);
	fiber_sleep(20 * NSEC_PER_SEC);
	left = info_of(ds).available_bytes;
	ASSERT(left > before / 3);
	for (err = 0; err == 0;) {
		uint64_t start = rt_now_ns();

		err = space_write(ds, o, len, MIB);
		len += err == 0 ? MIB : 0;
		if (err == 0) {
			err = space_write(ds, small, len / MIB % 64 * 4096, 4096);
		}
		longest = MAX(longest, rt_now_ns() - start);
		if (len / MIB % 8 == 0 && err == 0) {
			err = pool_sync(p);
			dearest = MAX(dearest, writes == 0 ? 0 : kb_sim_write_count() - writes);
			writes = kb_sim_write_count();
		}
	}
	ASSERT(err == -ENOSPC);
	printf("(%llu of %llu bytes, at most %llu ms, %llu writes to drives for a MiB) ",
	    (unsigned long long)len, (unsigned long long)left,
	    (unsigned long long)(longest / NSEC_PER_MSEC), (unsigned long long)(dearest / 8));
	ASSERT(len >= left / 2);
	ASSERT(longest < 5 * NSEC_PER_SEC);
	/* 256 pieces of two sectors each, their headers, and a share of the group's own */
	ASSERT(dearest / 8 < WRITES_PER_MIB_MAX);
	space_check(p);
	space_remove(ds, o);
	space_remove(ds, small);
	for (uint32_t i = 1; i < n; i += 2) {
		space_remove_number(ds, numbers[i]);
	}
	err = pool_sync(p);
	ASSERT(err == 0);
	check_returns(p, ds, before);
	pool_ds_close(ds);
	space_export(p);
}

static void
test_fragmented(void)
{
	space_run(run_fragmented, 18, 7, SMALL);
}

static void
test_small(void)
{
	space_run(run_small, 11, 7, SMALL);
}

static void
test_small_large(void)
{
	space_run(run_small, 12, 7, LARGE);
}

static void
test_inodes(void)
{
	space_run(run_inodes, 13, 7, SMALL);
}

static void
test_one(void)
{
	space_run(run_one, 14, 7, SMALL);
}

static void
test_one_large(void)
{
	space_run(run_one, 15, 7, LARGE);
}

static void
test_replace(void)
{
	space_run(run_replace, 16, 7, SMALL);
}

static void
test_destroy(void)
{
	space_run(run_destroy, 17, 7, SMALL);
}

static const struct unit_test tests[] = {
    {"small files", test_small},
    {"files in a larger pool", test_small_large},
    {"inodes", test_inodes},
    {"one file", test_one},
    {"one large file", test_one_large},
    {"replace", test_replace},
    {"destroy", test_destroy},
    {"e02 fragmented", test_fragmented},
};

int
main(int argc, char **argv)
{
	return unit_main("pool_full", tests, ARRAY_LEN(tests), argc, argv);
}
