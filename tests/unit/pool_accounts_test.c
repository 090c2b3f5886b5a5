/*
 * pool_accounts_test.c - quotas of users and groups: never passed, also not by many at once; what
 * is moved to somebody counts for him; defaults; objects; nobody is kept from freeing. That the
 * accounts themselves are exact is what pool_snap_model_test and pool_check say.
 */
#include "pool/dataset.h"
#include "tests/unit/space_rig.h"

#define ANN 1000u
#define BOB 70000u

static struct pool_ds *
child(struct pool *p, const char *path)
{
	struct pool_ds *ds;
	int err = pool_ds_create(p, path, &ds);

	ASSERT(err == 0);
	return ds;
}

static void
limit(struct pool_ds *ds, const struct pool_account_limits *l)
{
	int err = pool_ds_set_account_limits(ds, l);

	ASSERT(err == 0);
}

static struct pool_account
has(struct pool_ds *ds, enum pool_account_kind kind, uint32_t id)
{
	struct pool_account a;
	int err = pool_sync(pool_ds_pool(ds));

	err = err != 0 ? err : pool_account_get(ds, kind, id, &a);
	ASSERT(err == 0);
	return a;
}

static void
own(struct pool_tx *tx, struct pool_obj *o, uint32_t uid, uint32_t gid)
{
	const uint32_t who[2] = {uid, gid};

	memcpy((uint8_t *)pool_obj_bonus_dirty(tx, o) + ACCOUNT_UID_OFF, who, sizeof(who));
}

/* 0: the user, 1: the group. Not aligned. */
static uint32_t
owner_of(const struct pool_obj *o, unsigned which)
{
	uint32_t who[2];

	memcpy(who, (const uint8_t *)pool_obj_bonus(o) + ACCOUNT_UID_OFF, sizeof(who));
	return who[which];
}

static int
file_of(struct pool_ds *ds, uint32_t uid, uint32_t gid, struct pool_obj **out)
{
	struct pool_need need = {.dirty_bytes = 2 * SPACE_OBJ_BYTES,
	    .grow_bytes = SECTOR_BYTES,
	    .owned = POOL_OWNED_UID | POOL_OWNED_GID,
	    .uid = uid,
	    .gid = gid,
	    .new_objects = 1};
	struct pool_tx *tx;
	int err = pool_tx_begin(ds, &need, &tx);

	if (err == 0) {
		err = pool_obj_create(tx, ds, OBJ_FILE, 128 * KIB, 0, 0, out);
		ASSERT(err == 0);
		own(tx, *out, uid, gid);
		pool_tx_end(tx);
	}
	return err;
}

static struct pool_obj *
file(struct pool_ds *ds, uint32_t uid, uint32_t gid)
{
	struct pool_obj *o;
	int err = file_of(ds, uid, gid, &o);

	ASSERT(err == 0);
	return o;
}

static int
write_at(struct pool_ds *ds, struct pool_obj *o, uint64_t off, uint32_t len)
{
	static uint8_t data[MIB];
	struct pool_need need = {.dirty_bytes = len + SPACE_OBJ_BYTES,
	    .grow_bytes = len,
	    .owned = POOL_OWNED_UID | POOL_OWNED_GID,
	    .uid = owner_of(o, 0),
	    .gid = owner_of(o, 1)};
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

static uint64_t
fill(struct pool_ds *ds, struct pool_obj *o, uint64_t len, uint32_t step)
{
	uint64_t off = 0;
	int err = 0;

	while (off < len && err == 0) {
		err = write_at(ds, o, off, step);
		off += err == 0 ? step : 0;
	}
	ASSERT(err == 0 || err == -EDQUOT);
	return off;
}

static int
give(struct pool_ds *ds, struct pool_obj *o, uint32_t uid)
{
	struct pool_need need = {.dirty_bytes = SPACE_OBJ_BYTES,
	    .frees = true,
	    .owned = POOL_OWNED_UID,
	    .uid = uid,
	    .new_objects = 1,
	    .moved_bytes = pool_obj_used_bytes(o)};
	struct pool_tx *tx;
	int err = pool_tx_begin(ds, &need, &tx);

	if (err == 0) {
		own(tx, o, uid, owner_of(o, 1));
		pool_tx_end(tx);
	}
	return err;
}

static void
run_user(void *arg UNUSED)
{
	struct pool_account_limit ann = {POOL_ACCOUNT_USER, ANN, 8 * MIB, 0};
	struct pool *p = space_pool();
	struct pool_ds *ds = child(p, "tank/a");
	struct pool_obj *o, *q, *r;
	uint64_t len, left, objects, sum;
	int err;

	limit(ds, &(struct pool_account_limits){.v = &ann, .count = 1});
	o = file(ds, ANN, 5);
	q = file(ds, BOB, 5);
	r = file(ds, BOB, 5);
	len = fill(ds, o, 20 * MIB, 64 * KIB);
	ASSERT(has(ds, POOL_ACCOUNT_USER, ANN).bytes <= 8 * MIB);
	ASSERT(has(ds, POOL_ACCOUNT_USER, ANN).bytes + 128 * KIB >= 8 * MIB);
	ASSERT(pool_account_left(ds, POOL_ACCOUNT_USER, ANN, &left, &objects) == 0);
	ASSERT(left <= 128 * KIB && objects == UINT64_MAX);
	ASSERT(pool_account_left(ds, POOL_ACCOUNT_USER, BOB, &left, &objects) == 0);
	ASSERT(left == UINT64_MAX);
	/* others go on; to him nothing comes, from him all */
	ASSERT(fill(ds, q, 4 * MIB, 256 * KIB) == 4 * MIB);
	ASSERT(fill(ds, r, 2 * MIB, 256 * KIB) == 2 * MIB);
	err = pool_sync(p);
	ASSERT(err == 0 && give(ds, q, ANN) == -EDQUOT);
	space_truncate(ds, o, 3 * MIB);
	ASSERT(give(ds, q, ANN) == 0);
	ASSERT(give(ds, r, ANN) == -EDQUOT);
	ASSERT(give(ds, q, BOB) == 0);
	ASSERT(give(ds, r, ANN) == 0);
	ASSERT(has(ds, POOL_ACCOUNT_USER, ANN).objects == 2);
	ASSERT(has(ds, POOL_ACCOUNT_USER, BOB).objects == 1);
	ASSERT(has(ds, POOL_ACCOUNT_GROUP, 5).objects == 3);
	sum = pool_obj_used_bytes(o) + pool_obj_used_bytes(q) + pool_obj_used_bytes(r);
	left = has(ds, POOL_ACCOUNT_GROUP, 5).bytes;
	ASSERT(left >= sum && left <= sum + 3); /* each is rounded down */
	/* below what is used: only freeing */
	ann.bytes = MIB;
	limit(ds, &(struct pool_account_limits){.v = &ann, .count = 1});
	ASSERT(write_at(ds, o, 0, 4096) == -EDQUOT && len > 7 * MIB);
	space_truncate(ds, o, 0);
	space_remove(ds, r);
	ASSERT(write_at(ds, o, 0, 256 * KIB) == 0);
	space_check(p);
	pool_obj_release(o);
	pool_obj_release(q);
	pool_ds_close(ds);
	p = space_reimport(p);
	err = pool_ds_open(p, "tank/a", &ds);
	ASSERT(err == 0 && has(ds, POOL_ACCOUNT_USER, ANN).objects == 1);
	pool_ds_close(ds);
	space_export(p);
}

static void
test_user(void)
{
	space_run(run_user, 31, 7, 128 * MIB);
}

static void
run_defaults(void *arg UNUSED)
{
	struct pool_account_limit v[] = {
	    {POOL_ACCOUNT_USER, ANN, 4 * MIB, 0}, {POOL_ACCOUNT_GROUP, 7, 0, 3}};
	struct pool_account_limits l = {.v = v, .count = 2, .default_bytes = {2 * MIB, 0}};
	struct pool *p = space_pool();
	struct pool_ds *ds = child(p, "tank/a");
	struct pool_obj *o[3], *zero = file(ds, 0, 0);
	int err;

	limit(ds, &l);
	o[0] = file(ds, ANN, 5);
	ASSERT(fill(ds, o[0], 3 * MIB, 64 * KIB) == 3 * MIB);
	o[1] = file(ds, BOB, 7);
	ASSERT(fill(ds, o[1], 3 * MIB, 64 * KIB) < 2 * MIB);
	ASSERT(fill(ds, zero, 3 * MIB, MIB) == 3 * MIB);
	/* of the group three, and no more until one is gone */
	for (unsigned i = 0; i < 2; i++) {
		pool_obj_release(file(ds, 1 + i, 7));
	}
	err = file_of(ds, 9, 7, &o[2]);
	ASSERT(err == -EDQUOT);
	space_remove(ds, o[1]);
	o[2] = file(ds, 9, 7);
	limit(ds, &(struct pool_account_limits){0});
	ASSERT(fill(ds, o[2], 4 * MIB, MIB) == 4 * MIB);
	pool_obj_release(o[0]);
	pool_obj_release(o[2]);
	pool_obj_release(zero);
	space_check(p);
	pool_ds_close(ds);
	space_export(p);
}

static void
test_defaults(void)
{
	space_run(run_defaults, 32, 7, 128 * MIB);
}

#define WRITERS 16u
struct crowd {
	struct pool_ds *ds;
	struct pool_obj *o[WRITERS];
	struct waitgroup wg;
	atomic_uint next, refused;
};

static void
writer(void *arg)
{
	struct crowd *c = arg;
	unsigned me = atomic_fetch_add(&c->next, 1);
	uint64_t len = fill(c->ds, c->o[me], 4 * MIB, MIB / 2);

	atomic_fetch_add(&c->refused, len < 4 * MIB);
	wg_done(&c->wg);
}

static void
run_crowd(void *arg UNUSED)
{
	struct pool_account_limit v = {POOL_ACCOUNT_GROUP, 5, 32 * MIB, 0};
	struct pool *p = space_pool();
	struct crowd c = {.ds = child(p, "tank/a")};
	struct pool_account a;
	int err;

	limit(c.ds, &(struct pool_account_limits){.v = &v, .count = 1});
	wg_init(&c.wg);
	for (unsigned i = 0; i < WRITERS; i++) {
		c.o[i] = file(c.ds, i, 5);
	}
	for (unsigned i = 0; i < WRITERS; i++) {
		wg_add(&c.wg, 1);
		err = fiber_spawn(i % 2, FIBER_REQUEST, "writer", writer, &c);
		ASSERT(err == 0);
	}
	wg_wait(&c.wg);
	a = has(c.ds, POOL_ACCOUNT_GROUP, 5);
	printf("(%llu of %llu) ", (unsigned long long)a.bytes, (unsigned long long)v.bytes);
	ASSERT(atomic_load(&c.refused) > 0);
	ASSERT(a.bytes <= v.bytes && a.bytes + MIB >= v.bytes);
	for (unsigned i = 0; i < WRITERS; i++) {
		space_remove(c.ds, c.o[i]);
	}
	pool_ds_close(c.ds);
	space_export(p);
}

static void
test_crowd(void)
{
	space_run(run_crowd, 33, 7, 128 * MIB);
}

/* Accounts that can't be read any more are counted anew, and no quota holds meanwhile. */
static void
run_spoilt(void *arg UNUSED)
{
	struct pool_account_limit ann = {POOL_ACCOUNT_USER, ANN, 2 * MIB, 0};
	struct pool *p = space_pool();
	struct pool_ds *ds = child(p, "tank/a");
	struct pool_obj *o = file(ds, ANN, 5);
	struct pool_account before, after;
	unsigned percent;
	int err;

	for (unsigned i = 0; i < 200; i++) {
		pool_obj_release(file(ds, i * 1000 + 1, BOB)); /* a tree of two levels */
	}
	ASSERT(fill(ds, o, 3 * MIB, MIB) == 3 * MIB);
	limit(ds, &(struct pool_account_limits){.v = &ann, .count = 1});
	before = has(ds, POOL_ACCOUNT_USER, ANN);
	ASSERT(write_at(ds, o, 0, 4096) == -EDQUOT);
	atomic_store(&ds->accounts_spoilt, true);
	err = pool_sync(p);
	while (err == 0 && (err = pool_accounts_state(ds, &percent)) == -EAGAIN) {
		err = pool_sync(p);
	}
	ASSERT(err == 0);
	after = has(ds, POOL_ACCOUNT_USER, ANN);
	ASSERT(after.bytes == before.bytes && after.objects == 1 && before.objects == 1);
	ASSERT(has(ds, POOL_ACCOUNT_GROUP, BOB).objects == 200);
	ASSERT(write_at(ds, o, 0, 4096) == -EDQUOT);
	space_check(p);
	pool_obj_release(o);
	pool_ds_close(ds);
	space_export(p);
}

static void
test_spoilt(void)
{
	space_run(run_spoilt, 34, 7, 128 * MIB);
}

static const struct unit_test tests[] = {
    {"user", test_user},
    {"defaults and objects", test_defaults},
    {"crowd", test_crowd},
    {"spoilt", test_spoilt},
};

int
main(int argc, char **argv)
{
	return unit_main("pool_accounts", tests, ARRAY_LEN(tests), argc, argv);
}
