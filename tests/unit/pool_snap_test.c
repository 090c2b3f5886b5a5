/*
 * pool_snap_test.c - what the calls about snapshots refuse and tell, one by one; whole histories
 * are pool_snap_model_test's.
 */
#include "pool/dataset.h"
#include "tests/unit/pool_files.h"

static int
create(struct pool *p, const char *name)
{
	const char *names[] = {name};
	uint32_t bad;

	return pool_snap_create(p, names, 1, &bad);
}

static int
destroy(struct pool *p, const char *name)
{
	const char *names[] = {name};
	uint32_t bad;

	return pool_snap_destroy(p, names, 1, &bad);
}

static void
must(int err)
{
	UNIT_CHECK(err == 0);
}

/* Until the next call. */
static const struct pool_ds_info *
info_of(struct pool *p, const char *path)
{
	static struct pool_ds_info info;
	struct pool_ds *ds;

	memset(&info, 0, sizeof(info));
	if (pool_ds_open(p, path, &ds) == 0) {
		pool_ds_get_info(ds, &info);
		pool_ds_close(ds);
	}
	return &info;
}

static struct pool *
begin(void)
{
	rig_open(&rig);
	return make_pool(&one_set, "tank");
}

static void
end(struct pool *p)
{
	check_pool(p);
	leave(p);
	rig_close(&rig);
}

/* ---- refusals ---- */

static void
refusals_main(void *arg UNUSED)
{
	struct pool *p = begin();
	const char *twice[] = {"tank@c", "tank@d"}, *half[] = {"tank/a@x", "tank@first"};
	struct pool_ds *ds;
	uint32_t bad = 9;

	must(pool_ds_create(p, "tank/a", &ds));
	pool_ds_close(ds);
	UNIT_CHECK(create(p, "tank") == -EINVAL);
	UNIT_CHECK(create(p, "tank@") == -EINVAL);
	UNIT_CHECK(create(p, "tank@a/b") == -EINVAL);
	UNIT_CHECK(create(p, "tank@a@b") == -EINVAL);
	UNIT_CHECK(create(p, "tank@..") == -EINVAL);
	UNIT_CHECK(create(p, "tank/none@a") == -ENOENT);
	must(create(p, "tank@first"));
	UNIT_CHECK(create(p, "tank@first") == -EEXIST);
	/* all or none; and no dataset twice */
	UNIT_CHECK(pool_snap_create(p, half, 2, &bad) == -EEXIST && bad == 1);
	UNIT_CHECK(info_of(p, "tank/a")->snapshot_count == 0);
	UNIT_CHECK(pool_snap_create(p, twice, 2, &bad) == -EEXIST && bad == 1);
	UNIT_CHECK(destroy(p, "tank@none") == -ENOENT);
	UNIT_CHECK(pool_snap_destroy(p, half, 2, &bad) == -ENOENT && bad == 0);
	must(pool_snap_hold(p, "tank@first", "tag"));
	UNIT_CHECK(pool_snap_hold(p, "tank@first", "tag") == -EEXIST);
	UNIT_CHECK(pool_snap_hold(p, "tank@first", "") == -EINVAL);
	UNIT_CHECK(destroy(p, "tank@first") == -EBUSY);
	UNIT_CHECK(pool_snap_release(p, "tank@first", "other") == -ENOENT);
	must(pool_snap_release(p, "tank@first", "tag"));
	must(create(p, "tank@second"));
	UNIT_CHECK(pool_snap_rename(p, "tank@first", "second") == -EEXIST);
	UNIT_CHECK(pool_snap_rename(p, "tank@first", "a/b") == -EINVAL);
	UNIT_CHECK(pool_snap_rename(p, "tank@none", "third") == -ENOENT);
	must(pool_snap_rename(p, "tank@first", "renamed"));
	UNIT_CHECK(pool_ds_rollback(p, "tank@renamed", NULL) == -EBUSY); /* not the newest */
	UNIT_CHECK(pool_ds_rollback(p, "tank@first", NULL) == -ENOENT);
	UNIT_CHECK(pool_ds_rollback(p, "tank@second", "tank/a") == -EEXIST);
	UNIT_CHECK(pool_ds_clone(p, "tank@none", "tank/b", &ds) == -ENOENT);
	UNIT_CHECK(pool_ds_clone(p, "tank@renamed", "tank/a", &ds) == -EEXIST);
	must(destroy(p, "tank@renamed"));
	must(destroy(p, "tank@second"));
	end(p);
}

/* ---- hidden ones ---- */

static int
count_one(void *arg, const struct pool_snap_info *s)
{
	(void)s;
	++*(uint32_t *)arg;
	return 0;
}

static uint32_t
count_of(struct pool *p, uint32_t flags)
{
	uint32_t count = 0;

	must(pool_snap_each(p, "tank", flags, count_one, &count));
	return count;
}

static void
hidden_main(void *arg UNUSED)
{
	static const char *const names[] = {"tank@a", "tank@b"};
	static const char *const hidden[] = {".destroyed-1-00000001-a", ".destroyed-1-00000002-b"};
	static const char *const half[] = {"x", "c"}, *const same[] = {"x", "x"};
	struct pool *p = begin();
	struct pool_snap_info a;
	struct pool_ds *ds;
	uint32_t bad = 9;

	must(create(p, "tank@a"));
	must(create(p, "tank@b"));
	must(create(p, "tank@c"));
	must(pool_snap_get(p, "tank@a", 0, &a));
	UNIT_CHECK(pool_snap_rename_all(p, names, half, 2, false, &bad) == -EEXIST && bad == 1);
	UNIT_CHECK(pool_snap_rename_all(p, names, same, 2, false, &bad) == -EEXIST && bad == 1);
	UNIT_CHECK(pool_snap_get(p, "tank@x", 0, &a) == -ENOENT);
	must(pool_snap_get(p, "tank@a", 0, &a));
	must(pool_snap_hold(p, "tank@b", "tag"));
	UNIT_CHECK(pool_snap_rename_all(p, names, hidden, 2, true, &bad) == -EBUSY && bad == 1);
	must(pool_snap_release(p, "tank@b", "tag"));
	UNIT_CHECK(pool_snap_hidden_count(p) == 0);
	must(pool_snap_rename_all(p, names, hidden, 2, true, &bad));
	UNIT_CHECK(pool_snap_hidden_count(p) == 2);
	UNIT_CHECK(info_of(p, "tank")->snapshot_count == 1);
	UNIT_CHECK(count_of(p, 0) == 1 && count_of(p, POOL_SNAP_HIDDEN) == 3);
	UNIT_CHECK(pool_snap_open_guid(p, 0, a.guid, &ds) == -ENOENT);
	must(create(p, "tank@a"));
	must(destroy(p, "tank@.destroyed-1-00000001-a"));
	UNIT_CHECK(pool_snap_hidden_count(p) == 1);
	must(pool_snap_rename(p, "tank@.destroyed-1-00000002-b", "b"));
	UNIT_CHECK(pool_snap_hidden_count(p) == 0 && count_of(p, 0) == 3);
	end(p);
}

/* ---- handles ---- */

static void
handles_main(void *arg UNUSED)
{
	struct pool_need need = {.dirty_bytes = 65536};
	struct pool *p = begin();
	struct pool_ds *ds, *again;
	struct pool_obj *o;
	struct pool_tx *tx;
	uint64_t guid, seq, time, time2;

	must(write_file(p, 300000, 7));
	must(create(p, "tank@s"));
	must(pool_snap_open(p, "tank@s", &ds));
	guid = pool_ds_snap_guid(ds);
	UNIT_CHECK(pool_ds_is_snap(ds) && guid != 0);
	UNIT_CHECK(pool_tx_begin(ds, &need, &tx) == -EROFS);
	UNIT_CHECK(file_is_right(ds, 0));
	must(pool_snap_open_guid(p, pool_ds_guid(ds), guid, &again));
	UNIT_CHECK(again == ds); /* shared */
	pool_ds_close(again);
	UNIT_CHECK(pool_snap_open_guid(p, 1, guid, &again) == -ENOENT);
	UNIT_CHECK(pool_snap_open(p, "tank@t", &again) == -ENOENT);
	must(pool_obj_hold(ds, want.object[0], 0, &o));
	must(pool_ds_open(p, "tank", &again));
	seq = pool_snap_list_seq(again, &time);
	must(destroy(p, "tank@s"));
	UNIT_CHECK(pool_snap_list_seq(again, &time2) > seq && time2 > time);
	pool_ds_close(again);
	UNIT_CHECK(pool_obj_is_stale(o));
	UNIT_CHECK(!file_is_right(ds, 0));
	pool_obj_release(o);
	pool_ds_close(ds);
	UNIT_CHECK(pool_snap_open_guid(p, 0, guid, &ds) == -ENOENT);
	end(p);
}

/* ---- what comes back ---- */

static void
settle(struct pool *p)
{
	must(pool_sync(p));
	while (pool_pending_free_bytes(p) > 0) {
		must(pool_sync(p));
	}
	must(pool_sync(p));
}

static void
space_main(void *arg UNUSED)
{
	struct pool *p = begin();
	const char *both[] = {"tank@b", "tank@a"};
	static struct pool_ds_info before, after;
	struct pool_snap_info s;
	uint64_t alone, together;
	uint32_t bad;

	must(write_file(p, 1 << 20, 1));
	must(write_file(p, 2 << 20, 2));
	must(create(p, "tank@a"));
	must(remove_file(p, 0));
	settle(p);
	must(create(p, "tank@b"));
	must(remove_file(p, 0)); /* the other one */
	settle(p);
	before = *info_of(p, "tank");
	UNIT_CHECK(before.snapshots_bytes >= 3u << 20);
	UNIT_CHECK(before.used_bytes == before.own_bytes + before.snapshots_bytes);
	must(pool_snap_get(p, "tank@a", POOL_SNAP_UNIQUE, &s));
	UNIT_CHECK(s.unique_bytes >= 1u << 20 && s.unique_bytes < 3u << 19);
	must(pool_snap_reclaim(p, both + 1, 1, &alone));
	UNIT_CHECK(alone == s.unique_bytes);
	must(pool_snap_reclaim(p, both, 2, &together));
	UNIT_CHECK(together == before.snapshots_bytes);
	must(pool_snap_destroy(p, both + 1, 1, &bad));
	settle(p);
	after = *info_of(p, "tank");
	/* sectors are told as bytes rounded down */
	UNIT_CHECK(before.snapshots_bytes - after.snapshots_bytes - alone <= 1);
	must(pool_snap_destroy(p, both, 1, &bad));
	settle(p);
	after = *info_of(p, "tank");
	UNIT_CHECK(after.snapshots_bytes == 0 && after.snapshot_count == 0);
	end(p);
}

static uint64_t
written_of(struct pool *p, const char *name)
{
	struct pool_snap_info s;

	if (strchr(name, '@') == NULL) {
		return info_of(p, name)->written_bytes;
	}
	must(pool_snap_get(p, name, 0, &s));
	UNIT_CHECK(s.written_bytes <= s.referenced_bytes);
	return s.written_bytes;
}

/* Within what the tree above takes. */
static bool
is_about(uint64_t bytes, uint64_t least)
{
	return bytes >= least && bytes <= least + least / 8 + (200u << 10);
}

static struct pool *
again(struct pool *p)
{
	struct pool_import_spec spec = {0};
	struct pool_import_result result;

	leave(p);
	must(take(&spec, NULL, &p, &result));
	return p;
}

/* What came since, whoever else went meanwhile; the same after an import. */
static void
written_main(void *arg UNUSED)
{
	struct pool *p = begin();
	const char *a = "tank@a";
	struct pool_ds *clone;
	struct pool_snap_info s;
	uint64_t was;
	uint32_t bad;

	must(write_file(p, 1 << 20, 1));
	settle(p);
	UNIT_CHECK(written_of(p, "tank") == info_of(p, "tank")->referenced_bytes);
	must(create(p, "tank@a"));
	UNIT_CHECK(is_about(written_of(p, "tank@a"), 1 << 20));
	UNIT_CHECK(written_of(p, "tank") == 0);
	must(create(p, "tank@same"));
	UNIT_CHECK(written_of(p, "tank@same") == 0);
	must(write_file(p, 2 << 20, 2));
	must(remove_file(p, 0));
	settle(p);
	UNIT_CHECK(is_about(written_of(p, "tank"), 2 << 20));
	must(create(p, "tank@b"));
	UNIT_CHECK(is_about(written_of(p, "tank@b"), 2 << 20) && written_of(p, "tank") == 0);
	must(pool_ds_clone(p, "tank@b", "tank/clone", &clone));
	pool_ds_close(clone);
	settle(p);
	UNIT_CHECK(written_of(p, "tank/clone") < 100u << 10);
	was = written_of(p, "tank@b");
	p = again(p);
	UNIT_CHECK(written_of(p, "tank@b") == was && written_of(p, "tank@same") == 0);
	/* without those before it everything of it came since */
	must(pool_snap_destroy(p, &a, 1, &bad));
	UNIT_CHECK(is_about(written_of(p, "tank@same"), 1 << 20));
	UNIT_CHECK(written_of(p, "tank@b") == was);
	a = "tank@same";
	must(pool_snap_destroy(p, &a, 1, &bad));
	must(pool_snap_get(p, "tank@b", 0, &s));
	UNIT_CHECK(s.written_bytes == s.referenced_bytes);
	end(p);
}

/* ---- roles ---- */

static int
path_is(void *arg, const char *path)
{
	return strcmp(arg, path) == 0 ? 0 : -EINVAL;
}

static void
roles_main(void *arg UNUSED)
{
	char name[] = "tank/c", why[200] = "";
	struct pool *p = begin();
	struct pool_ds *ds;

	must(pool_ds_create(p, "tank/a", &ds));
	pool_ds_close(ds);
	must(create(p, "tank/a@one"));
	must(pool_ds_clone(p, "tank/a@one", name, &ds));
	UNIT_CHECK(pool_ds_promote(p, "tank/a", why, sizeof(why)) == -EINVAL && why[0] != '\0');
	UNIT_CHECK(strcmp(info_of(p, name)->origin, "tank/a@one") == 0);
	must(pool_snap_clones_each(p, "tank/a@one", path_is, name));
	UNIT_CHECK(destroy(p, "tank/a@one") == -EBUSY);
	UNIT_CHECK(pool_ds_destroy(p, "tank/a") == -EBUSY);
	must(create(p, "tank/c@one"));
	UNIT_CHECK(pool_ds_promote(p, name, why, sizeof(why)) == -EEXIST);
	UNIT_CHECK(strstr(why, "one") != NULL);
	must(pool_snap_rename(p, "tank/c@one", "two"));
	must(pool_ds_promote(p, name, why, sizeof(why)));
	UNIT_CHECK(info_of(p, name)->snapshot_count == 2 && info_of(p, name)->origin[0] == '\0');
	UNIT_CHECK(strcmp(info_of(p, "tank/a")->origin, "tank/c@one") == 0);
	/* what it came from can go now */
	must(pool_ds_destroy(p, "tank/a"));
	must(pool_ds_rollback(p, "tank/c@two", "tank/kept"));
	UNIT_CHECK(pool_ds_incarnation(ds) == 0);
	UNIT_CHECK(strcmp(info_of(p, "tank/kept")->origin, "tank/c@two") == 0);
	UNIT_CHECK(info_of(p, name)->incarnation == 1);
	pool_ds_close(ds);
	must(pool_ds_destroy(p, "tank/kept"));
	must(destroy(p, "tank/c@two"));
	must(destroy(p, "tank/c@one"));
	must(pool_ds_destroy(p, name));
	end(p);
}

/* ---- a pool from before ---- */

static void
upgrade_main(void *arg UNUSED)
{
	struct pool *p = begin();
	struct pool_import_spec spec = {0};
	struct pool_import_result result;
	uint64_t fresh = 9;
	int err;

	p->v.feat_rocompat = 0;
	atomic_store(&p->config_dirty, true);
	must(pool_sync(p));
	leave(p);
	err = take(&spec, NULL, &p, &result);
	UNIT_CHECK(err == 0 && pool_features(p) == 0);
	UNIT_CHECK(create(p, "tank@a") == -ERR_FEATURE);
	must(pool_upgrade(p, &fresh));
	UNIT_CHECK((fresh & FEATURE_RO_SNAPSHOTS) != 0);
	must(create(p, "tank@a"));
	must(pool_upgrade(p, &fresh));
	UNIT_CHECK(fresh == 0);
	leave(p);
	err = take(&spec, NULL, &p, &result);
	UNIT_CHECK(err == 0 && info_of(p, "tank")->snapshot_count == 1);
	end(p);
}

/* ---- a dataset that is destroyed while its unlinked set is worked off ---- */

static void
sync_fiber_main(void *arg)
{
	struct waitgroup *wg = ((void **)arg)[1];

	must(pool_sync(((void **)arg)[0]));
	wg_done(wg);
}

/* It once suspended the pool: its objects were stale for the syncing fiber, too. */
static void
destroyed_main(void *arg UNUSED)
{
	struct pool *p = begin();
	struct waitgroup wg;
	void *args[] = {p, &wg};

	wg_init(&wg);
	for (uint32_t i = 0; i < 24; i++) {
		struct pool_need need = {.dirty_bytes = 4 << 20, .frees = true};
		static uint8_t data[3 << 20];
		struct iovec iov = {data, sizeof(data)};
		struct pool_obj *o;
		struct pool_tx *tx;
		struct pool_ds *ds;

		must(pool_ds_create(p, "tank/a", &ds));
		fill(data, sizeof(data), i);
		must(pool_tx_begin(ds, &need, &tx));
		must(pool_obj_create(tx, ds, OBJ_FILE, 4096, 0, 0, &o));
		must(pool_write(tx, o, 0, &iov, 1));
		pool_tx_end(tx);
		must(pool_sync(p));
		must(pool_tx_begin(ds, &need, &tx));
		pool_obj_destroy(tx, o);
		pool_tx_end(tx);
		pool_obj_release(o);
		pool_ds_close(ds);
		must(write_file(p, 300000, i)); /* is written first, so the flag comes in between */
		wg_add(&wg, 1);
		fiber_spawn_wait(0, FIBER_REQUEST, "sync", sync_fiber_main, args);
		fiber_sleep(i * NSEC_PER_MSEC / 8);
		must(pool_ds_destroy(p, "tank/a"));
		wg_wait(&wg);
	}
	UNIT_CHECK(!pool_is_suspended(p));
	end(p);
}

/* ---- running them ---- */

static void
run(fiber_fn *fn, uint64_t seed)
{
	rig_make(&rig, 7, 128 * MIB);
	rng = 88172645463325252ull;
	in_sim(fn, NULL, seed);
	rig_unmake(&rig);
}

static void
test_hidden(void)
{
	run(hidden_main, 7);
}

static void
test_refusals(void)
{
	run(refusals_main, 1);
}

static void
test_handles(void)
{
	run(handles_main, 1);
}

static void
test_space(void)
{
	run(space_main, 1);
}

static void
test_written(void)
{
	run(written_main, 1);
}

static void
test_roles(void)
{
	run(roles_main, 1);
}

static void
test_upgrade(void)
{
	run(upgrade_main, 1);
}

static void
test_destroyed(void)
{
	for (uint64_t seed = 1; seed <= 4; seed++) {
		bug_set_buggify(50); /* slowly, with some of the seeds */
		run(destroyed_main, seed);
	}
	bug_set_buggify(0);
}

static const struct unit_test tests[] = {
    {"what is refused", test_refusals},
    {"hidden ones", test_hidden},
    {"handles", test_handles},
    {"what comes back", test_space},
    {"what came since", test_written},
    {"clones, promotion, rollback", test_roles},
    {"a pool from before", test_upgrade},
    {"destroyed while it is being freed", test_destroyed},
};

int
main(int argc, char **argv)
{
	return unit_main("pool_snap", tests, ARRAY_LEN(tests), argc, argv);
}
