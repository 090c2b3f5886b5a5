/*
 * pool_accounts_damage_test.c - accounts that can't be read: nobody is kept from writing, they are
 * counted anew, and a root written before that says so; a table that can't be read keeps nobody
 * waiting. Then the ends: the smallest quota, the largest ids, a crowd of askers, replay.
 */
#include "pool/accounts.h"
#include "pool/dataset.h"
#include "tests/unit/space_rig.h"

#define ANN 1000u
#define BOB 70000u
#define FILES 300u

static uint64_t found_wrong;

static void
found(void *arg UNUSED, const char *what)
{
	if (strstr(what, "the account of") != NULL || getenv("AGATE_LOG") != NULL) {
		fprintf(stderr, "check: %s\n", what);
	}
	found_wrong += strstr(what, "the account of") != NULL;
}

/* What can't be read may be told; accounts that are wrong may not be there. */
static void
check_sums(struct pool *p)
{
	uint64_t count;
	int err = pool_check(p, found, NULL, &count);

	ASSERT(err == 0);
	UNIT_CHECK(found_wrong == 0);
}

static void
limit_all(struct pool_ds *ds, uint64_t bytes)
{
	int err = pool_ds_set_account_limits(
	    ds, &(struct pool_account_limits){.default_bytes = {bytes, 0}});

	ASSERT(err == 0);
}

static int
begin(struct pool_ds *ds, uint32_t uid, uint32_t len, struct pool_tx **out)
{
	struct pool_need need = {.dirty_bytes = len + 2 * SPACE_OBJ_BYTES,
	    .grow_bytes = len,
	    .owned = POOL_OWNED_UID | POOL_OWNED_GID,
	    .uid = uid,
	    .gid = uid,
	    .new_objects = 1};

	return pool_tx_begin(ds, &need, out);
}

static int
put(struct pool_ds *ds, struct pool_tx *tx, uint32_t uid, uint32_t len)
{
	static uint8_t data[MIB];
	struct iovec iov = {data, len};
	struct pool_obj *o;
	const uint32_t who[2] = {uid, uid};
	int err = pool_obj_create(tx, ds, OBJ_FILE, 128 * KIB, 0, 0, &o);

	ASSERT(err == 0);
	space_random(data, len);
	memcpy((uint8_t *)pool_obj_bonus_dirty(tx, o) + ACCOUNT_UID_OFF, who, sizeof(who));
	err = pool_write(tx, o, 0, &iov, 1);
	pool_tx_end(tx);
	pool_obj_release(o);
	return err;
}

/* A file of len bytes. */
static int
file_of(struct pool_ds *ds, uint32_t uid, uint32_t len)
{
	struct pool_tx *tx;
	int err = begin(ds, uid, len, &tx);

	return err != 0 ? err : put(ds, tx, uid, len);
}

static struct pool_account
has(struct pool_ds *ds, uint32_t id)
{
	struct pool_account a;
	int err = pool_account_get(ds, POOL_ACCOUNT_USER, id, &a);

	ASSERT(err == 0);
	return a;
}

/* Until all are counted; false: the pool waits for something. */
static bool
counted(struct pool *p, struct pool_ds *ds)
{
	unsigned percent;

	for (unsigned i = 0; i < 100 && !atomic_load(&p->suspended); i++) {
		if (pool_accounts_state(ds, &percent) == 0) {
			return true;
		}
		fiber_sleep(NSEC_PER_SEC);
	}
	return false;
}

static void
rot_address(struct pool *p, const struct bp_addr *a)
{
	const struct vdev_set *set = &p->v.sets[bp_addr_set(a)];
	uint64_t row = bp_addr_sector(a) / set->cfg.width;

	for (uint32_t d = 0; d < set->cfg.width; d++) {
		kb_sim_rot_range(space_rig.media[d], set->cfg.base_bytes + row * SECTOR_BYTES,
		    2 * SECTOR_BYTES, 5);
	}
}

/* All copies of a block, on all drives. */
static void
rot(struct pool *p, const struct bp *bp)
{
	ASSERT(!bp_is_hole(bp) && bp_copies(bp) > 0);
	for (unsigned i = 0; i < bp_copies(bp); i++) {
		rot_address(p, &bp->addr[i]);
	}
}

/* A dataset with accounts in two levels, and a table in two. */
static struct pool_ds *
crowded(struct pool *p)
{
	struct pool_ds *ds;
	int err = pool_ds_create(p, "tank/a", &ds);

	for (uint32_t i = 0; i < FILES && err == 0; i++) {
		/* ANN's block has many, so that it is a block and not in its pointer */
		err = file_of(
		    ds, i % 2 == 0 ? 768 + i * 7 % 256 : BOB + i * 1000, 4096 * (1 + i % 5));
	}
	err = err != 0 ? err : file_of(ds, ANN, 900 * KIB);
	err = err != 0 ? err : pool_sync(p);
	ASSERT(err == 0 && ds->accounts.levels > 1 && ds->table.levels > 1);
	return ds;
}

static struct pool_ds *
open_again(struct pool **p, struct pool_ds *ds)
{
	int err;

	pool_ds_close(ds);
	*p = space_reimport(*p);
	err = pool_ds_open(*p, "tank/a", &ds);
	ASSERT(err == 0);
	return ds;
}

static void
rot_account(struct pool *p, struct pool_ds *ds, uint32_t id)
{
	struct bp bp;
	int err = tree_lookup(p, &ds->accounts, 0, id / ACCOUNTS_PER_BLOCK, NULL, &bp);

	ASSERT(err == 0);
	rot(p, &bp);
}

static void
run_unreadable(void *arg UNUSED)
{
	struct pool *p = space_pool();
	struct pool_ds *ds = crowded(p);
	struct pool_account before = has(ds, ANN);

	rot_account(p, ds, ANN);
	ds = open_again(&p, ds);
	limit_all(ds, MIB);
	UNIT_CHECK(file_of(ds, ANN, 64 * KIB) == 0); /* no quota holds */
	UNIT_CHECK(counted(p, ds));
	UNIT_CHECK(has(ds, ANN).objects == before.objects + 1);
	UNIT_CHECK(has(ds, ANN).bytes >= before.bytes + 64 * KIB);
	UNIT_CHECK(file_of(ds, ANN, 64 * KIB) == -EDQUOT); /* now it does */
	check_sums(p);
	pool_ds_close(ds);
	space_export(p);
}

static void
test_unreadable(void)
{
	found_wrong = 0;
	space_run(run_unreadable, 41, 7, 128 * MIB);
}

/* The txg that finds them damaged can't write them down: its root, and a snapshot of it, must say
 * so. */
static void
run_given_up(void *arg UNUSED)
{
	const char *snap = "tank/a@s";
	struct pool *p = space_pool();
	struct pool_ds *ds = crowded(p), *clone;
	uint64_t objects = has(ds, ANN).objects;
	uint32_t bad;
	int err;

	rot_account(p, ds, ANN);
	ds = open_again(&p, ds);
	err = file_of(ds, ANN, 4096);
	err = err != 0 ? err : pool_snap_create(p, &snap, 1, &bad);
	err = err != 0 ? err : pool_sync(p);
	ASSERT(err == 0);
	UNIT_CHECK(counted(p, ds) && has(ds, ANN).objects == objects + 1);
	err = pool_ds_clone(p, snap, "tank/c", &clone);
	ASSERT(err == 0);
	UNIT_CHECK(file_of(clone, ANN, 4096) == 0);
	UNIT_CHECK(counted(p, clone));
	err = pool_sync(p);
	ASSERT(err == 0);
	UNIT_CHECK(has(clone, ANN).objects == objects + 2);
	err = pool_sync(p);
	ASSERT(err == 0);
	check_sums(p);
	pool_ds_close(clone);
	pool_ds_close(ds);
	space_export(p);
}

static void
test_given_up(void)
{
	found_wrong = 0;
	space_run(run_given_up, 42, 7, 128 * MIB);
}

/* Counting goes past a part of the table that can't be read; the pool is not held up. */
static void
run_table(void *arg UNUSED)
{
	struct pool *p = space_pool();
	struct pool_ds *ds = crowded(p);
	int err;

	rot(p, &ds->table.root);
	ds = open_again(&p, ds);
	accounts_spoil(ds, "test");
	err = pool_sync(p);
	UNIT_CHECK(err == 0 && counted(p, ds));
	UNIT_CHECK(!atomic_load(&p->suspended));
	/* nor when it is destroyed */
	pool_ds_close(ds);
	err = pool_ds_destroy(p, "tank/a");
	ASSERT(err == 0);
	fiber_sleep(20 * NSEC_PER_SEC);
	UNIT_CHECK(!atomic_load(&p->suspended));
	space_export(p);
}

static void
test_table(void)
{
	space_run(run_table, 43, 7, 128 * MIB);
}

static void
run_ends(void *arg UNUSED)
{
	struct pool_need need = {.dirty_bytes = MIB + 2 * SPACE_OBJ_BYTES,
	    .grow_bytes = MIB,
	    .owned = POOL_OWNED_UID | POOL_OWNED_GID,
	    .uid = UINT32_MAX,
	    .gid = UINT32_MAX,
	    .new_objects = 1};
	struct pool *p = space_pool();
	struct pool_ds *ds;
	struct pool_tx *tx;
	int err = pool_ds_create(p, "tank/a", &ds);

	ASSERT(err == 0);
	UNIT_CHECK(file_of(ds, UINT32_MAX, 8192) == 0 && file_of(ds, UINT32_MAX - 1, 8192) == 0);
	err = pool_sync(p);
	ASSERT(err == 0);
	UNIT_CHECK(has(ds, UINT32_MAX).objects == 1 && has(ds, UINT32_MAX - 1).objects == 1);
	limit_all(ds, 1); /* less than a sector is a quota all the same */
	UNIT_CHECK(file_of(ds, UINT32_MAX, 8192) == -EDQUOT);
	UNIT_CHECK(file_of(ds, ANN, 8192) == -EDQUOT);
	UNIT_CHECK(file_of(ds, 0, 8192) == 0);
	/* what was acknowledged is done again, whatever the quotas are now */
	err = pool_tx_begin_replay(ds, &need, &tx);
	UNIT_CHECK(err == 0);
	UNIT_CHECK(err == 0 && put(ds, tx, UINT32_MAX, MIB) == 0);
	err = pool_sync(p);
	ASSERT(err == 0);
	UNIT_CHECK(has(ds, UINT32_MAX).objects == 2);
	space_check(p);
	pool_ds_close(ds);
	space_export(p);
}

static void
test_ends(void)
{
	space_run(run_ends, 44, 7, 128 * MIB);
}

#define ASKERS 60000u

/* Anybody may ask what is left to anybody, also of a pool at rest. */
static void
run_askers(void *arg UNUSED)
{
	struct pool *p = space_pool();
	struct pool_ds *ds;
	uint64_t live;
	uint64_t bytes, objects;
	int err = pool_ds_create(p, "tank/a", &ds);

	err = err != 0 ? err : pool_sync(p);
	ASSERT(err == 0);
	limit_all(ds, MIB);
	live = mem_live_count();
	for (uint32_t i = 1; i < ASKERS; i++) {
		err = pool_account_left(ds, POOL_ACCOUNT_USER, i * 7919, &bytes, &objects);
		ASSERT(err == 0 && bytes > 0);
	}
	UNIT_CHECK(mem_live_count() - live < 6000);
	pool_ds_close(ds);
	space_export(p);
}

static void
test_askers(void)
{
	space_run(run_askers, 45, 7, 128 * MIB);
}

static const struct unit_test tests[] = {
    {"unreadable", test_unreadable},
    {"given up", test_given_up},
    {"a table that can't be read", test_table},
    {"the smallest quota, the largest ids, replay", test_ends},
    {"a crowd of askers", test_askers},
};

int
main(int argc, char **argv)
{
	return unit_main("pool_accounts_damage", tests, ARRAY_LEN(tests), argc, argv);
}
