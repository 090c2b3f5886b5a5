/*
 * pool_limits_test.c - quotas and reservations: never passed, never short by more than a write,
 * refused with the right error, and no hindrance to whoever frees.
 */
#include "tests/unit/space_rig.h"

static struct pool_ds_info
info_of(struct pool_ds *ds)
{
	struct pool_ds_info info;

	pool_ds_get_info(ds, &info);
	return info;
}

static struct pool_ds *
child(struct pool *p, const char *path)
{
	struct pool_ds *ds;
	int err = pool_ds_create(p, path, &ds);

	ASSERT(err == 0);
	return ds;
}

static void
limit(struct pool_ds *ds, struct pool_limits l)
{
	int err = pool_ds_set_limits(ds, &l);

	ASSERT(err == 0);
}

/* Writes until refused; the error. */
static int
write_all(struct pool_ds *ds, struct pool_obj *o, uint32_t step, uint64_t *out_len)
{
	uint64_t len = 0;
	int err;

	while ((err = space_write(ds, o, len, step)) == 0) {
		len += step;
	}
	*out_len = len;
	return err;
}

static void
run_refquota(void *arg UNUSED)
{
	struct pool *p = space_pool();
	struct pool_ds *ds = child(p, "tank/a"), *below = child(p, "tank/a/b");
	struct pool_obj *o = space_file(ds, 128 * KIB), *other = space_file(below, 128 * KIB);
	const uint64_t quota = 32 * MIB;
	uint64_t len, more;
	int err;

	limit(ds, (struct pool_limits){.refquota = quota});
	ASSERT(info_of(ds).available_bytes <= quota);
	ASSERT(info_of(ds).size_bytes <= quota);
	err = write_all(ds, o, MIB, &len);
	ASSERT(err == -EDQUOT);
	while ((err = space_write(ds, o, len, 4096)) == 0) {
		len += 4096;
	}
	ASSERT(err == -EDQUOT);
	err = pool_sync(p);
	ASSERT(err == 0);
	printf("(%llu of %llu) ", (unsigned long long)info_of(ds).referenced_bytes,
	    (unsigned long long)quota);
	ASSERT(info_of(ds).referenced_bytes <= quota);
	ASSERT(info_of(ds).referenced_bytes + 64 * KIB >= quota);
	ASSERT(len + len / 32 >= quota);
	/* nor new files; but what is below isn't concerned */
	ASSERT(space_small_file(ds, 0, NULL) == -EDQUOT || info_of(ds).available_bytes > 0);
	ASSERT(space_fill(below, other, 4 * MIB) == 4 * MIB);
	/* below what is used: only deletes; they are felt at once */
	limit(ds, (struct pool_limits){.refquota = quota / 2});
	ASSERT(info_of(ds).available_bytes == 0);
	ASSERT(space_write(ds, o, len, 4096) == -EDQUOT);
	space_truncate(ds, o, 8 * MIB);
	ASSERT(space_write(ds, o, 8 * MIB, MIB) == 0);
	space_remove(ds, o);
	o = space_file(ds, 128 * KIB);
	more = space_fill(ds, o, 15 * MIB);
	ASSERT(more == 15 * MIB);
	limit(ds, (struct pool_limits){0});
	ASSERT(space_fill(ds, o, 40 * MIB) == 40 * MIB);
	space_remove(ds, o);
	space_remove(below, other);
	pool_ds_close(ds);
	pool_ds_close(below);
	space_export(p);
}

static void
test_refquota(void)
{
	space_run(run_refquota, 21, 7, 128 * MIB);
}

/* A quota above: several datasets share it, and an import knows it. */
static void
run_quota(void *arg UNUSED)
{
	struct pool *p = space_pool();
	struct pool_ds *top = child(p, "tank/a"), *x = child(p, "tank/a/x"), *y;
	const uint64_t quota = 24 * MIB;
	struct pool_limits l = {0};
	struct pool_obj *o, *q;
	uint64_t len;
	int err;

	limit(top, (struct pool_limits){.quota = quota});
	y = child(p, "tank/a/y");
	o = space_file(x, 128 * KIB);
	q = space_file(y, 128 * KIB);
	ASSERT(space_fill(x, o, 12 * MIB) == 12 * MIB);
	err = write_all(y, q, MIB / 4, &len);
	ASSERT(err == -EDQUOT);
	ASSERT(len > 10 * MIB && len < 12 * MIB);
	ASSERT(space_write(x, o, 12 * MIB, MIB) == -EDQUOT);
	while ((err = space_small_file(top, 64 * KIB, NULL)) == 0) {
	}
	ASSERT(err == -EDQUOT);
	ASSERT(info_of(top).used_bytes <= quota);
	space_remove(x, o);
	ASSERT(space_write(y, q, len, MIB) == 0);
	pool_obj_release(q);
	pool_ds_close(x);
	pool_ds_close(y);
	pool_ds_close(top);
	p = space_reimport(p);
	space_check(p);
	err = pool_ds_open(p, "tank/a/y", &y);
	ASSERT(err == 0);
	err = pool_ds_open(p, "tank/a", &top);
	ASSERT(err == 0);
	pool_ds_get_limits(top, &l);
	ASSERT(l.quota == quota && l.refquota == 0 && l.reservation == 0);
	o = space_file(y, 128 * KIB);
	err = write_all(y, o, MIB / 4, &len);
	ASSERT(err == -EDQUOT && len > 10 * MIB && len < 12 * MIB);
	/* it goes with the dataset, wherever that goes */
	err = pool_ds_rename(p, "tank/a/y", "tank/y");
	ASSERT(err == 0);
	err = pool_sync(p);
	ASSERT(err == 0);
	ASSERT(space_write(y, o, len, MIB) == 0);
	pool_obj_release(o);
	pool_ds_close(y);
	pool_ds_close(top);
	space_export(p);
}

static void
test_quota(void)
{
	space_run(run_quota, 22, 7, 128 * MIB);
}

static void
run_reservation(void *arg UNUSED)
{
	struct pool *p = space_pool();
	struct pool_ds *root = space_root(p), *a = child(p, "tank/a"), *b = child(p, "tank/a/b");
	uint64_t all = info_of(root).available_bytes, len, more, want = all / 2;
	struct pool_limits too_much = {.reservation = all + MIB};
	struct pool_obj *o = space_file(root, 128 * KIB), *q = space_file(b, 128 * KIB),
			*r = space_file(b, 128 * KIB);
	int err = pool_ds_set_limits(a, &too_much);

	ASSERT(err == -ENOSPC);
	err = pool_ds_set_limits(a, &(struct pool_limits){.quota = MIB, .reservation = 2 * MIB});
	ASSERT(err == -EINVAL);
	limit(a, (struct pool_limits){.reservation = want});
	ASSERT(info_of(root).used_bytes >= want - MIB);
	ASSERT(info_of(root).available_bytes <= all - want + MIB);
	ASSERT(info_of(b).available_bytes + MIB >= all);
	err = write_all(root, o, MIB, &len);
	ASSERT(err == -ENOSPC);
	ASSERT(len <= all - want && len + 4 * MIB >= all - want - len / 32);
	/* what is kept is there, for the dataset below, too */
	ASSERT(space_fill(b, q, want - want / 16) == want - want / 16);
	/* no more than that */
	err = write_all(b, q, MIB, &len);
	ASSERT(err == -ENOSPC);
	space_remove(b, q);
	err = pool_sync(p);
	ASSERT(err == 0);
	err = write_all(root, o, MIB, &more);
	ASSERT(err == -ENOSPC && more <= all - want);
	/* refreservation: for itself alone, not for those below */
	limit(a, (struct pool_limits){.refreservation = want});
	ASSERT(info_of(a).reserved_bytes + MIB >= want);
	q = space_file(a, 128 * KIB);
	ASSERT(space_fill(a, q, want / 2) == want / 2);
	err = pool_sync(p);
	ASSERT(err == 0);
	ASSERT(info_of(a).reserved_bytes < want / 2);
	err = write_all(b, r, MIB, &more);
	ASSERT(err == -ENOSPC);
	ASSERT(info_of(a).available_bytes > info_of(b).available_bytes + want / 4);
	limit(a, (struct pool_limits){0});
	ASSERT(space_write(root, o, len, MIB) == 0);
	space_remove(a, q);
	space_remove(b, r);
	space_remove(root, o);
	pool_ds_close(a);
	pool_ds_close(b);
	pool_ds_close(root);
	space_export(p);
}

static void
test_reservation(void)
{
	space_run(run_reservation, 23, 7, 96 * MIB);
}

/* Many at once: whoever is refused is refused for a reason, and the quota holds. */
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
	uint64_t len = space_fill(c->ds, c->o[me], 8 * MIB);

	atomic_fetch_add(&c->refused, len < 8 * MIB);
	wg_done(&c->wg);
}

static void
run_crowd(void *arg UNUSED)
{
	struct pool *p = space_pool();
	struct crowd c = {.ds = child(p, "tank/a")};
	const uint64_t quota = 64 * MIB;
	int err;

	limit(c.ds, (struct pool_limits){.quota = quota});
	wg_init(&c.wg);
	for (unsigned i = 0; i < WRITERS; i++) {
		c.o[i] = space_file(c.ds, 128 * KIB);
	}
	for (unsigned i = 0; i < WRITERS; i++) {
		wg_add(&c.wg, 1);
		err = fiber_spawn(i % 2, FIBER_REQUEST, "writer", writer, &c);
		ASSERT(err == 0);
	}
	wg_wait(&c.wg);
	err = pool_sync(p);
	ASSERT(err == 0);
	ASSERT(atomic_load(&c.refused) > 0);
	ASSERT(info_of(c.ds).used_bytes <= quota);
	ASSERT(info_of(c.ds).used_bytes + 2 * MIB >= quota);
	for (unsigned i = 0; i < WRITERS; i++) {
		space_remove(c.ds, c.o[i]);
	}
	pool_ds_close(c.ds);
	space_export(p);
}

static void
test_crowd(void)
{
	space_run(run_crowd, 24, 7, 128 * MIB);
}

static const struct unit_test tests[] = {
    {"refquota", test_refquota},
    {"quota", test_quota},
    {"reservation", test_reservation},
    {"crowd", test_crowd},
};

int
main(int argc, char **argv)
{
	return unit_main("pool_limits", tests, ARRAY_LEN(tests), argc, argv);
}
