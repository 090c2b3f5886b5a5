/* space_rig.h - pools of small simulated drives, filled and emptied: for the tests of space. */
#ifndef AGATE_TESTS_SPACE_RIG_H
#define AGATE_TESTS_SPACE_RIG_H

#include "pool/space_int.h"
#include "pool/txg.h"
#include "tests/unit/pool_rig.h"

#define SPACE_OBJ_BYTES (48u * 1024u) /* as fs/ counts for each object that it changes */

/* The larger of two sizes of drives. The address sanitizer makes everything five times slower. */
#ifdef __SANITIZE_ADDRESS__
#define SPACE_LARGE (128 * MIB)
#else
#define SPACE_LARGE (512 * MIB)
#endif

static struct pool_rig space_rig;
static uint64_t space_random_state;
/* What is written has a few random bytes in each sector and zeros else, and isn't compressed: so
 * that simulated drives of 512 MiB full of it fit into memory (space_thin_on). */
static bool space_thin;

static inline void
space_run(fiber_fn *fn, uint64_t seed, uint32_t drives, uint64_t drive_bytes)
{
	struct rt_options opt = unit_rt(true, 2, unit_seed(seed));
	int err;

	opt.arena_bytes = 96 * MIB;
	space_random_state = seed;
	log_set_level(getenv("AGATE_LOG") != NULL ? LOG_DEBUG : LOG_ERROR);
	bug_set_deliberate(getenv("AGATE_BUGS"));
	rig_make(&space_rig, drives, drive_bytes);
	err = rt_run(&opt, fn, NULL);
	CU_ASSERT_EQUAL(err, 0);
	rig_unmake(&space_rig);
}

static inline struct pool *
space_pool(void)
{
	enum raidz_kind kind = space_rig.count > 2 ? RAIDZ_KIND_PARITY : RAIDZ_KIND_MIRROR;
	struct pool_set_spec set = {kind, 1, space_rig.count, space_rig.drives};
	struct pool_create_spec spec = {
	    .name = "tank", .sets = &set, .set_count = 1, .host_name = "here", .host_id = 1};
	struct pool *p = NULL;
	char why[200];
	int err;

	rig_open(&space_rig);
	err = pool_create(&spec, &p, why, sizeof(why));
	if (err != 0) {
		fprintf(stderr, "create: %s: %s\n", err_str(err), why);
	}
	ASSERT(err == 0);
	return p;
}

static inline void
space_export(struct pool *p)
{
	int err = pool_export(p);

	ASSERT(err == 0);
	memset(space_rig.drives, 0, sizeof(space_rig.drives));
}

static inline int
space_deliver(void *arg UNUSED, const struct pool_record *rec UNUSED)
{
	return 0;
}

static inline struct pool *
space_reimport(struct pool *p)
{
	struct pool_import_spec spec = {.pool_guid = pool_guid(p),
	    .drives = space_rig.drives,
	    .host_name = "here",
	    .host_id = 1};
	struct pool_import_result result = {0};
	struct pool_replay_result replay;
	int err;

	space_export(p);
	rig_open(&space_rig);
	spec.drive_count = space_rig.count;
	err = pool_import(&spec, &p, &result);
	ASSERT(err == 0);
	err = pool_replay(p, space_deliver, NULL, &replay);
	ASSERT(err == 0);
	return p;
}

static inline struct pool_ds *
space_root(struct pool *p)
{
	struct pool_ds *ds;
	int err = pool_ds_open(p, "tank", &ds);

	ASSERT(err == 0);
	return ds;
}

static inline void
space_thin_on(struct pool_ds *ds)
{
	struct pool_ds_policy policy = {.compress = BP_COMPRESS_OFF,
	    .zstd_level = 3,
	    .cksum = BP_CKSUM_XXH3,
	    .record_bytes = 128 * KIB};

	space_thin = true;
	pool_ds_set_policy(ds, &policy);
}

static inline void
space_problem(void *arg UNUSED, const char *what)
{
	fprintf(stderr, "check: %s\n", what);
}

static inline void
space_check(struct pool *p)
{
	uint64_t count = 99;
	int err = pool_check(p, space_problem, NULL, &count);

	ASSERT(err == 0);
	ASSERT(count == 0);
}

static inline void
space_random(uint8_t *data, size_t len)
{
	size_t step = space_thin ? SECTOR_BYTES : 8;

	for (size_t i = 0; i + 8 <= len; i += step) {
		uint64_t x = space_random_state += 0x9e3779b97f4a7c15ull;

		x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ull;
		x = (x ^ (x >> 27)) * 0x94d049bb133111ebull;
		memcpy(data + i, &x, 8);
	}
}

/* A new file of blocks of so many bytes. */
static inline int
space_file_try(struct pool_ds *ds, uint32_t block_bytes, struct pool_obj **out)
{
	struct pool_need need = {.dirty_bytes = 2 * SPACE_OBJ_BYTES, .grow_bytes = SECTOR_BYTES};
	struct pool_tx *tx;
	int err = pool_tx_begin(ds, &need, &tx);

	if (err == 0) {
		err = pool_obj_create(tx, ds, OBJ_FILE, block_bytes, 0, 0, out);
		ASSERT(err == 0);
		pool_tx_end(tx);
	}
	return err;
}

static inline struct pool_obj *
space_file(struct pool_ds *ds, uint32_t block_bytes)
{
	struct pool_obj *o;
	int err = space_file_try(ds, block_bytes, &o);

	ASSERT(err == 0);
	return o;
}

/* Random bytes at off, which nobody can compress. */
static inline int
space_write(struct pool_ds *ds, struct pool_obj *o, uint64_t off, uint32_t len)
{
	static uint8_t data[MIB];
	struct pool_need need = {.dirty_bytes = len + SPACE_OBJ_BYTES, .grow_bytes = len};
	struct iovec iov = {data, len};
	struct pool_tx *tx;
	int err = pool_tx_begin(ds, &need, &tx);

	if (err == 0) {
		space_random(data, len);
		err = pool_write(tx, o, off, &iov, 1);
		pool_tx_end(tx);
	}
	return err;
}

/* Up to len bytes; returns how many there was room for. */
static inline uint64_t
space_fill(struct pool_ds *ds, struct pool_obj *o, uint64_t len)
{
	uint64_t off = 0;
	int err = 0;

	while (off < len && err == 0) {
		err = space_write(ds, o, off, (uint32_t)MIN(len - off, MIB));
		off += err == 0 ? MIN(len - off, MIB) : 0;
	}
	ASSERT(err == 0 || err == -ENOSPC || err == -EDQUOT);
	return off;
}

/* Up to OBJECT_INLINE_MAX bytes are kept in the slot. 0 (and its number), -ENOSPC, -EDQUOT. */
static inline int
space_small_file(struct pool_ds *ds, uint32_t len, uint64_t *out_number)
{
	static uint8_t data[64 * KIB];
	struct pool_need need = {
	    .dirty_bytes = len + 2 * SPACE_OBJ_BYTES, .grow_bytes = MAX(len, SECTOR_BYTES)};
	struct iovec iov = {data, len};
	struct pool_obj *o;
	struct pool_tx *tx;
	int err = pool_tx_begin(ds, &need, &tx);

	if (err != 0) {
		return err;
	}
	space_random(data, len);
	err = pool_obj_create(tx, ds, OBJ_FILE, MAX(len, 4096u), 0, 0, &o);
	ASSERT(err == 0);
	if (len <= OBJECT_INLINE_MAX) {
		err = pool_obj_inline_set(tx, o, data, len);
	} else {
		err = pool_write(tx, o, 0, &iov, 1);
	}
	ASSERT(err == 0);
	pool_tx_end(tx);
	if (out_number != NULL) {
		*out_number = pool_obj_number(o);
	}
	pool_obj_release(o);
	return 0;
}

/* These must always work. */
static inline void
space_remove(struct pool_ds *ds, struct pool_obj *o)
{
	struct pool_need need = {.dirty_bytes = 2 * SPACE_OBJ_BYTES, .frees = true};
	struct pool_tx *tx;
	int err = pool_tx_begin(ds, &need, &tx);

	ASSERT(err == 0);
	pool_obj_destroy(tx, o);
	pool_tx_end(tx);
	pool_obj_release(o);
}

static inline void
space_remove_number(struct pool_ds *ds, uint64_t number)
{
	struct pool_obj *o;
	int err = pool_obj_hold(ds, number, 0, &o);

	ASSERT(err == 0);
	space_remove(ds, o);
}

static inline void
space_truncate(struct pool_ds *ds, struct pool_obj *o, uint64_t size)
{
	struct pool_need need = {
	    .dirty_bytes = SPACE_OBJ_BYTES + 2 * pool_obj_block_bytes(o), .frees = true};
	struct pool_tx *tx;
	int err = pool_tx_begin(ds, &need, &tx);

	ASSERT(err == 0);
	err = pool_free_range(tx, o, size, UINT64_MAX);
	ASSERT(err == 0);
	pool_tx_end(tx);
}

#endif
