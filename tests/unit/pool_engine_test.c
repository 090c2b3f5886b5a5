/*
 * pool_engine_test.c - the engine end to end on simulated drives: create, write, commit, export,
 * import, read back; the log and its replay.
 */
#include "tests/unit/pool_rig.h"

#define DRIVE_BYTES (96 * MIB)
#define HERE "here"

static struct pool_rig rig;

static void
in_sim(fiber_fn *fn, uint64_t seed, int expected)
{
	struct rt_options opt = unit_rt(true, 2, seed);
	int err;

	opt.arena_bytes = 64 * MIB;
	log_set_level(getenv("AGATE_LOG") != NULL ? LOG_DEBUG : LOG_ERROR);
	bug_set_deliberate(getenv("AGATE_BUGS"));
	err = rt_run(&opt, fn, NULL);
	CU_ASSERT_EQUAL(err, expected);
}

static struct pool *
make_pool(void)
{
	struct pool_set_spec set = {RAIDZ_KIND_PARITY, 1, 7, rig.drives};
	struct pool_create_spec spec = {
	    .name = "tank",
	    .sets = &set,
	    .set_count = 1,
	    .logs = rig.drives + 7,
	    .log_count = 2,
	    .host_name = HERE,
	    .host_id = 1,
	};
	struct pool *p = NULL;
	char why[200];
	int err;

	rig_open(&rig);
	err = pool_create(&spec, &p, why, sizeof(why));
	if (err != 0) {
		fprintf(stderr, "create: %s: %s\n", err_str(err), why);
	}
	ASSERT(err == 0);
	return p;
}

static void
export_pool(struct pool *p)
{
	int err = pool_export(p);

	ASSERT(err == 0);
	memset(rig.drives, 0, sizeof(rig.drives));
}

static struct pool *
import_pool(void)
{
	struct pool_import_spec spec = {
	    .drives = rig.drives,
	    .host_name = HERE,
	    .host_id = 1,
	};
	struct pool_import_result result = {0};
	struct pool_label_info info;
	struct pool *p = NULL;
	int err;

	rig_open(&rig);
	err = pool_label_probe(rig.drives[0], &info);
	ASSERT(err == 0);
	spec.pool_guid = info.pool_guid;
	spec.drive_count = rig.count;
	err = pool_import(&spec, &p, &result);
	if (err != 0) {
		fprintf(stderr, "import: %s: %s\n", err_str(err), result.why);
	}
	ASSERT(err == 0);
	return p;
}

static int
deliver_none(void *arg UNUSED, const struct pool_record *rec UNUSED)
{
	ASSERT(false);
	return 0;
}

static void
problem(void *arg UNUSED, const char *what)
{
	fprintf(stderr, "check: %s\n", what);
}

static void
check_pool(struct pool *p)
{
	uint64_t count = 99;
	int err = pool_check(p, problem, NULL, &count);

	ASSERT(err == 0);
	ASSERT(count == 0);
}

static struct pool_tx *
begin(struct pool_ds *ds, uint32_t bytes)
{
	struct pool_need need = {
	    .dirty_bytes = bytes + 48 * 1024, .log_bytes = 4096, .log_records = 1};
	struct pool_tx *tx;
	int err = pool_tx_begin(ds, &need, &tx);

	ASSERT(err == 0);
	return tx;
}

static void
fill(uint8_t *data, size_t len, uint64_t seed)
{
	for (size_t i = 0; i < len; i++) {
		seed = seed * 6364136223846793005ull + 1442695040888963407ull;
		data[i] = (uint8_t)(seed >> 56);
	}
}

static void
read_back(struct pool_obj *o, uint64_t off, uint8_t *out, uint32_t len)
{
	static struct pool_slice s[POOL_READ_SLICES_MAX];
	uint32_t count;
	int err = pool_read(o, off, len, s, POOL_READ_SLICES_MAX, &count);

	ASSERT(err == 0);
	for (uint32_t i = 0; i < count; i++) {
		if (s[i].buf != NULL) {
			memcpy(out, s[i].buf->data + s[i].off_bytes, s[i].len_bytes);
		} else {
			memset(out, 0, s[i].len_bytes);
		}
		out += s[i].len_bytes;
		iobuf_unref(s[i].buf);
	}
}

static uint8_t want[3000000], got[3000000];

static void
write_all(struct pool_ds *ds, struct pool_obj *o, uint64_t off, const uint8_t *data, uint32_t len)
{
	while (len > 0) {
		uint32_t n = MIN(len, 500000u);
		struct pool_tx *tx = begin(ds, n + 131072);
		struct iovec iov = {(void *)(uintptr_t)data, n};
		int err = pool_write(tx, o, off, &iov, 1);

		ASSERT(err == 0);
		pool_tx_end(tx);
		off += n;
		data += n;
		len -= n;
	}
}

static void
run_round_trip(void *arg UNUSED)
{
	struct pool_replay_result rr;
	struct pool *p = make_pool();
	struct pool_ds *ds, *root;
	struct pool_obj *o;
	struct pool_tx *tx;
	uint64_t number, generation;
	int err;

	err = pool_ds_open(p, "tank", &root);
	ASSERT(err == 0);
	err = pool_ds_create(p, "tank/home", &ds);
	ASSERT(err == 0);
	err = pool_ds_prop_set(ds, "colour", "green");
	ASSERT(err == 0);
	tx = begin(ds, 0);
	err = pool_obj_create(tx, ds, OBJ_FILE, 131072, 0, 0, &o);
	ASSERT(err == 0);
	memset(pool_obj_bonus_dirty(tx, o), 7, OBJECT_BONUS_BYTES);
	pool_ds_set_root_object(tx, ds, pool_obj_number(o));
	pool_tx_end(tx);
	fill(want, sizeof(want), 1);
	write_all(ds, o, 0, want, sizeof(want));
	read_back(o, 0, got, sizeof(got));
	ASSERT(memcmp(want, got, sizeof(want)) == 0);
	err = pool_sync(p);
	ASSERT(err == 0);
	read_back(o, 0, got, sizeof(got));
	ASSERT(memcmp(want, got, sizeof(want)) == 0);
	err = pool_blob_put(p, "shares", "abc", 3);
	ASSERT(err == 0);
	check_pool(p);
	number = pool_obj_number(o);
	generation = pool_obj_generation(o);
	pool_obj_release(o);
	pool_ds_close(ds);
	pool_ds_close(root);
	export_pool(p);

	p = import_pool();
	err = pool_replay(p, deliver_none, NULL, &rr);
	ASSERT(err == 0);
	err = pool_ds_open(p, "tank/home", &ds);
	ASSERT(err == 0);
	char value[16];
	err = pool_ds_prop_get(ds, "colour", value, sizeof(value));
	ASSERT(err == 0 && strcmp(value, "green") == 0);
	ASSERT(pool_ds_root_object(ds) == number);
	err = pool_obj_hold(ds, number, generation, &o);
	ASSERT(err == 0);
	ASSERT(((const uint8_t *)pool_obj_bonus(o))[191] == 7);
	memset(got, 0, sizeof(got));
	read_back(o, 0, got, sizeof(got));
	ASSERT(memcmp(want, got, sizeof(want)) == 0);
	void *blob;
	uint32_t blob_len;
	err = pool_blob_get(p, "shares", &blob, &blob_len);
	ASSERT(err == 0 && blob_len == 3);
	mem_free(blob);
	check_pool(p);
	pool_obj_release(o);
	pool_ds_close(ds);
	export_pool(p);
}

static void
test_round_trip(void)
{
	uint64_t seed = unit_seed(1);

	rig_make(&rig, 9, DRIVE_BYTES);
	in_sim(run_round_trip, seed, 0);
	rig_unmake(&rig);
}

/* ---- drives that go ---- */

static struct pool_obj *
make_file(struct pool_ds *ds, uint32_t block_bytes)
{
	struct pool_tx *tx = begin(ds, 0);
	struct pool_obj *o;
	int err = pool_obj_create(tx, ds, OBJ_FILE, block_bytes, 0, 0, &o);

	ASSERT(err == 0);
	pool_tx_end(tx);
	return o;
}

static void
compare_all(struct pool_obj *o)
{
	memset(got, 0, sizeof(got));
	read_back(o, 0, got, sizeof(got));
	ASSERT(memcmp(want, got, sizeof(want)) == 0);
}

static void
run_one_gone(void *arg UNUSED)
{
	struct pool *p = make_pool();
	struct pool_status st;
	struct pool_ds *ds;
	struct pool_obj *o;
	int err = pool_ds_open(p, "tank", &ds);

	ASSERT(err == 0);
	o = make_file(ds, 131072);
	fill(want, sizeof(want), 2);
	write_all(ds, o, 0, want, 1000000);
	kb_sim_vanish(rig.media[3]);
	write_all(ds, o, 1000000, want + 1000000, sizeof(want) - 1000000);
	err = pool_sync(p);
	ASSERT(err == 0);
	compare_all(o);
	err = pool_get_status(p, &st);
	ASSERT(err == 0);
	ASSERT(st.health == POOL_DEGRADED);
	pool_status_free(&st);
	check_pool(p);
	pool_obj_release(o);
	pool_ds_close(ds);
	export_pool(p);
}

static void
give_back(struct pool *p, unsigned i)
{
	int err;

	kb_sim_return(rig.media[i]);
	err = kb_sim_open(rig.media[i], &rig.drives[i]);
	ASSERT(err == 0);
	err = pool_drive_return(p, rig.drives[i]);
	ASSERT(err == 0);
}

static void
run_two_gone(void *arg UNUSED)
{
	struct pool_need need = {.dirty_bytes = 4096};
	struct pool *p = make_pool();
	struct pool_ds *ds;
	struct pool_obj *o, *o2;
	struct pool_tx *tx;
	uint64_t start;
	int err = pool_ds_open(p, "tank", &ds);

	ASSERT(err == 0);
	o = make_file(ds, 131072);
	fill(want, sizeof(want), 3);
	write_all(ds, o, 0, want, sizeof(want));
	kb_sim_vanish(rig.media[2]);
	kb_sim_vanish(rig.media[5]);
	start = rt_now_ns();
	err = pool_sync(p);
	ASSERT(err == -ERR_SUSPENDED);
	ASSERT(pool_is_suspended(p));
	ASSERT(rt_now_ns() - start < 2 * NSEC_PER_SEC);
	err = pool_tx_begin(ds, &need, &tx);
	ASSERT(err == -ERR_SUSPENDED);
	err = pool_obj_hold(ds, 5000, 0, &o2);
	ASSERT(err == -ERR_SUSPENDED || err == -ENOENT); /* read or cached */
	fiber_sleep(3 * NSEC_PER_SEC);
	give_back(p, 2);
	ASSERT(pool_is_suspended(p));
	give_back(p, 5);
	fiber_sleep(3 * NSEC_PER_SEC);
	ASSERT(!pool_is_suspended(p));
	err = pool_sync(p);
	ASSERT(err == 0);
	compare_all(o);
	check_pool(p);
	pool_obj_release(o);
	pool_ds_close(ds);
	export_pool(p);
	p = import_pool();
	check_pool(p);
	export_pool(p);
}

/* Two drives go in the middle of a commit, lose what they had not flushed, and return. */
static void
sync_in_background(void *arg)
{
	(void)!pool_sync(arg);
}

static void
run_gone_in_commit(void *arg UNUSED)
{
	struct pool *p = make_pool();
	struct pool_ds *ds;
	struct pool_obj *o;
	uint64_t number;
	int err = pool_ds_open(p, "tank", &ds);

	ASSERT(err == 0);
	o = make_file(ds, 131072);
	number = pool_obj_number(o);
	for (unsigned round = 0; round < 12; round++) {
		unsigned a = round % 7, b = (round + 3) % 7;

		fill(want, sizeof(want), round);
		write_all(ds, o, 0, want, sizeof(want));
		err = fiber_spawn(1, FIBER_REQUEST, "sync", sync_in_background, p);
		ASSERT(err == 0);
		fiber_sleep((round + 1) * 150 * NSEC_PER_USEC);
		kb_sim_vanish(rig.media[a]);
		kb_sim_vanish(rig.media[b]);
		fiber_sleep(NSEC_PER_SEC);
		give_back(p, a);
		give_back(p, b);
		fiber_sleep(NSEC_PER_SEC);
		err = pool_sync(p);
		ASSERT(err == 0);
		compare_all(o);
		check_pool(p);
	}
	pool_obj_release(o);
	pool_ds_close(ds);
	export_pool(p);
	p = import_pool();
	check_pool(p);
	err = pool_ds_open(p, "tank", &ds);
	ASSERT(err == 0);
	err = pool_obj_hold(ds, number, 0, &o);
	ASSERT(err == 0);
	compare_all(o);
	pool_obj_release(o);
	pool_ds_close(ds);
	export_pool(p);
}

static void
run_closed_suspended(void *arg UNUSED)
{
	struct pool *p = make_pool();
	struct pool_ds *ds;
	struct pool_obj *o;
	int err = pool_ds_open(p, "tank", &ds);

	ASSERT(err == 0);
	o = make_file(ds, 131072);
	err = pool_sync(p);
	ASSERT(err == 0);
	fill(want, sizeof(want), 3);
	write_all(ds, o, 0, want, sizeof(want));
	kb_sim_vanish(rig.media[0]);
	kb_sim_vanish(rig.media[6]);
	err = pool_sync(p);
	ASSERT(err == -ERR_SUSPENDED);
	pool_obj_release(o);
	pool_ds_close(ds);
	err = pool_export(p);
	ASSERT(err == -ERR_SUSPENDED);
	memset(rig.drives, 0, sizeof(rig.drives));
	kb_sim_return(rig.media[0]);
	kb_sim_return(rig.media[6]);
	p = import_pool();
	check_pool(p);
	export_pool(p);
}

/* Records go on in the pool's own ring when the log drives have gone; a cut later they are redone.
 */
static struct pool_commit last_commit;
static uint64_t redone;

static void
log_one(struct pool *p, struct pool_ds *ds, struct pool_obj *o, uint8_t value)
{
	struct pool_tx *tx = begin(ds, 0);
	struct iovec head = {&value, 1};
	struct pool_log_rec rec = {.type = 9,
	    .object = pool_obj_number(o),
	    .generation = pool_obj_generation(o),
	    .head = &head,
	    .head_count = 1};
	int err;

	*(uint8_t *)pool_obj_bonus_dirty(tx, o) = value;
	pool_log(tx, &o, 1, &rec, &last_commit);
	pool_tx_end(tx);
	err = pool_commit(p, &last_commit);
	ASSERT(err == 0);
}

static void
run_log_gone(void *arg UNUSED)
{
	struct pool *p = make_pool();
	struct pool_status st;
	struct pool_ds *ds;
	struct pool_obj *o;
	int err = pool_ds_open(p, "tank", &ds);

	ASSERT(err == 0);
	o = make_file(ds, 4096);
	err = pool_sync(p);
	ASSERT(err == 0);
	for (uint8_t i = 1; i < 40; i++) {
		if (i == 10) {
			kb_sim_vanish(rig.media[7]);
		}
		if (i == 20) {
			kb_sim_vanish(rig.media[8]);
		}
		log_one(p, ds, o, i);
		fiber_sleep(NSEC_PER_MSEC);
	}
	err = pool_get_status(p, &st);
	ASSERT(err == 0);
	ASSERT(st.log_in_pool);
	pool_status_free(&st);
	ASSERT(last_commit.seq != 0); /* the ring is in use again */
	rt_sim_crash();
}

static int
redo_bonus(void *arg, const struct pool_record *rec)
{
	struct pool_need need = {.dirty_bytes = 4096};
	struct pool_ds *ds = arg;
	struct pool_obj *o;
	struct pool_tx *tx;
	int err;

	if (rec->in_root) {
		return 0;
	}
	err = pool_tx_begin_replay(ds, &need, &tx);
	ASSERT(err == 0);
	err = pool_obj_hold(ds, rec->object, rec->generation, &o);
	ASSERT(err == 0);
	memcpy(pool_obj_bonus_dirty(tx, o), rec->payload, 1);
	pool_tx_end(tx);
	pool_obj_release(o);
	redone++;
	return 0;
}

static void
run_log_gone_after(void *arg UNUSED)
{
	struct pool_replay_result rr;
	struct pool_ds *ds;
	struct pool_obj *o;
	struct pool *p = import_pool();
	int err = pool_ds_open(p, "tank", &ds);

	ASSERT(err == 0);
	err = pool_replay(p, redo_bonus, ds, &rr);
	ASSERT(err == 0);
	ASSERT(redone > 0);
	err = pool_obj_hold(ds, 2, 0, &o);
	ASSERT(err == 0);
	ASSERT(*(const uint8_t *)pool_obj_bonus(o) == 39);
	pool_obj_release(o);
	pool_ds_close(ds);
	export_pool(p);
}

/* ---- a full pool ---- */

#define FULL_FILES 64u

/* Until nothing more fits; returns how many files there are. */
static unsigned
fill_up(struct pool_ds *ds, struct pool_obj **files)
{
	static uint8_t data[MIB];
	unsigned n = 0;
	int err = 0;

	for (unsigned round = 0; err == 0; round++) {
		struct pool_need need = {.dirty_bytes = MIB + 48 * 1024};
		struct iovec iov = {data, sizeof(data)};
		struct pool_tx *tx;

		fill(data, sizeof(data), round);
		err = pool_tx_begin(ds, &need, &tx);
		if (err != 0) {
			break;
		}
		if (round % 10 == 0 && n < FULL_FILES) {
			err = pool_obj_create(tx, ds, OBJ_FILE, 4096, 0, 0, &files[n]);
			ASSERT(err == 0);
			n++;
		}
		err = pool_write(tx, files[n - 1], (round % 10) * MIB, &iov, 1);
		ASSERT(err == 0);
		pool_tx_end(tx);
	}
	ASSERT(err == -ENOSPC);
	return n;
}

static void
run_full(void *arg UNUSED)
{
	static struct pool_obj *files[FULL_FILES];
	struct pool *p = make_pool();
	struct pool_need need = {.dirty_bytes = 48 * 1024, .frees = true};
	struct pool_ds_info before, after;
	struct space_info space;
	struct pool_ds *ds;
	unsigned n = 0;
	int err = pool_ds_open(p, "tank", &ds);

	ASSERT(err == 0);
	pool_ds_get_info(ds, &before);
	for (unsigned round = 0; round < 3; round++) {
		n = fill_up(ds, files);
		ASSERT(n >= 4);
		err = pool_sync(p);
		ASSERT(err == 0);
		for (unsigned i = 0; i < n; i++) {
			struct pool_tx *tx;

			err = pool_tx_begin(ds, &need, &tx);
			ASSERT(err == 0);
			pool_obj_destroy(tx, files[i]);
			pool_tx_end(tx);
			pool_obj_release(files[i]);
		}
		for (unsigned i = 0; i < 10; i++) {
			err = pool_sync(p);
			ASSERT(err == 0);
		}
	}
	pool_ds_get_info(ds, &after);
	ASSERT(after.object_count <= before.object_count + 1); /* the unlinked set */
	space_get_info(p->space, &space);
	printf("(%u files, reserve %llu of %llu sectors, used %llu, deferred %llu) ", n,
	    (unsigned long long)space.reserve_sectors, (unsigned long long)space.total_sectors,
	    (unsigned long long)space.used_sectors, (unsigned long long)space.deferred_sectors);
	/* the reserve has grown with the worst txg */
	ASSERT(space.used_sectors < space.total_sectors / 10);
	check_pool(p);
	pool_ds_close(ds);
	export_pool(p);
}

static void
test_full(void)
{
	rig_make(&rig, 9, DRIVE_BYTES);
	in_sim(run_full, unit_seed(16), 0);
	rig_unmake(&rig);
}

/* A full pool of small files: each of them is metadata and records of the map log above all. */
#define SMALL_FILES_MAX 120000u
#define REFUSALS 200u

static int
small_file(struct pool_ds *ds, unsigned round, uint64_t *out_number)
{
	static uint8_t data[4096];
	struct pool_need need = {.dirty_bytes = sizeof(data) + 48 * 1024};
	struct iovec iov = {data, sizeof(data)};
	struct pool_obj *o;
	struct pool_tx *tx;
	int err;

	err = pool_tx_begin(ds, &need, &tx);
	if (err != 0) {
		return err;
	}
	fill(data, sizeof(data), round);
	err = pool_obj_create(tx, ds, OBJ_FILE, 4096, 0, 0, &o);
	ASSERT(err == 0);
	err = pool_write(tx, o, 0, &iov, 1);
	ASSERT(err == 0);
	pool_tx_end(tx);
	*out_number = pool_obj_number(o);
	pool_obj_release(o);
	return 0;
}

static void
run_full_small(void *arg UNUSED)
{
	static uint64_t numbers[SMALL_FILES_MAX];
	struct pool *p = make_pool();
	struct pool_need need = {.dirty_bytes = 96 * 1024, .frees = true};
	struct space_info full, refused;
	struct pool_ds *ds;
	unsigned n = 0;
	int err = pool_ds_open(p, "tank", &ds);

	ASSERT(err == 0);
	while (n < SMALL_FILES_MAX && (err = small_file(ds, n, &numbers[n])) == 0) {
		n++;
	}
	ASSERT(err == -ENOSPC);
	space_get_info(p->space, &full);
	for (unsigned i = 0; i < REFUSALS; i++) {
		uint64_t number;

		/* now and then one fits in, when the last txgs have brought something back */
		err = small_file(ds, i, &number);
		ASSERT(err == 0 || err == -ENOSPC);
	}
	space_get_info(p->space, &refused);
	printf("(%u files, %llu sectors used, after %u refusals %llu) ", n,
	    (unsigned long long)full.used_sectors, REFUSALS,
	    (unsigned long long)refused.used_sectors);
	/* the txgs that every refusal forces don't eat up the reserve that removing needs */
	ASSERT(refused.used_sectors < full.used_sectors + full.reserve_sectors / 2);
	for (unsigned i = 0; i < n; i++) {
		struct pool_obj *o;
		struct pool_tx *tx;

		err = pool_obj_hold(ds, numbers[i], 0, &o);
		ASSERT(err == 0);
		err = pool_tx_begin(ds, &need, &tx);
		ASSERT(err == 0);
		pool_obj_destroy(tx, o);
		pool_tx_end(tx);
		pool_obj_release(o);
	}
	for (unsigned i = 0; i < 10; i++) {
		err = pool_sync(p);
		ASSERT(err == 0);
	}
	space_get_info(p->space, &full);
	ASSERT(full.used_sectors < full.total_sectors / 4);
	check_pool(p);
	pool_ds_close(ds);
	export_pool(p);
}

static void
test_full_small(void)
{
	rig_make(&rig, 9, DRIVE_BYTES);
	in_sim(run_full_small, unit_seed(17), 0);
	rig_unmake(&rig);
}

/* ---- datasets ---- */

static void
run_datasets(void *arg UNUSED)
{
	struct pool_replay_result rr;
	struct pool *p = make_pool();
	struct pool_ds *a, *b;
	struct pool_ds_info info, empty;
	struct pool_obj *o;
	uint64_t guid;
	int err = pool_ds_create(p, "tank/a", &a);

	ASSERT(err == 0);
	err = pool_ds_create(p, "tank/a/b", &b);
	ASSERT(err == 0);
	ASSERT(pool_ds_create(p, "tank/a", &b) == -EEXIST);
	ASSERT(pool_ds_create(p, "tank/x/y", &b) == -ENOENT);
	ASSERT(pool_ds_create(p, "tank/a//y", &b) == -ENOENT);
	ASSERT(pool_ds_create(p, "tank/..", &b) == -EINVAL);
	ASSERT(pool_ds_destroy(p, "tank/a") == -EBUSY);
	ASSERT(pool_ds_destroy(p, "tank") == -EBUSY);
	ASSERT(pool_ds_rename(p, "tank/a", "tank/a/b/c") == -EINVAL);
	err = pool_ds_rename(p, "tank/a", "tank/z");
	ASSERT(err == 0);
	pool_ds_get_info(b, &info);
	ASSERT(strcmp(info.path, "tank/z/b") == 0);
	guid = info.guid;
	fill(want, sizeof(want), 5);
	pool_ds_get_info(b, &empty);
	o = make_file(b, 4096);
	write_all(b, o, 0, want, sizeof(want));
	err = pool_sync(p);
	ASSERT(err == 0);
	pool_ds_get_info(b, &info);
	ASSERT(info.logical_bytes >= sizeof(want) && info.object_count == 1);
	write_all(b, o, 0, want, 100000); /* dirty when it goes */
	err = pool_ds_destroy(p, "tank/z/b");
	ASSERT(err == 0);
	ASSERT(pool_obj_is_stale(o));
	pool_obj_release(o);
	pool_ds_close(b);
	ASSERT(pool_ds_open_guid(p, guid, &b) == -ENOENT);
	for (unsigned i = 0; i < 6; i++) {
		err = pool_sync(p);
		ASSERT(err == 0);
	}
	pool_ds_get_info(a, &info);
	ASSERT(info.available_bytes + MIB > empty.available_bytes);
	check_pool(p);
	pool_ds_close(a);
	export_pool(p);
	p = import_pool();
	err = pool_replay(p, deliver_none, NULL, &rr);
	ASSERT(err == 0);
	err = pool_ds_open(p, "tank/z", &a);
	ASSERT(err == 0);
	ASSERT(pool_ds_open(p, "tank/z/b", &b) == -ENOENT);
	pool_ds_close(a);
	check_pool(p);
	export_pool(p);
}

static void
test_datasets(void)
{
	rig_make(&rig, 9, DRIVE_BYTES);
	in_sim(run_datasets, unit_seed(17), 0);
	rig_unmake(&rig);
}

static void
test_one_gone(void)
{
	rig_make(&rig, 9, DRIVE_BYTES);
	in_sim(run_one_gone, unit_seed(11), 0);
	rig_unmake(&rig);
}

static void
test_two_gone(void)
{
	rig_make(&rig, 9, DRIVE_BYTES);
	in_sim(run_two_gone, unit_seed(12), 0);
	rig_unmake(&rig);
}

static void
test_gone_in_commit(void)
{
	rig_make(&rig, 9, DRIVE_BYTES);
	in_sim(run_gone_in_commit, unit_seed(15), 0);
	rig_unmake(&rig);
}

static void
test_closed_suspended(void)
{
	rig_make(&rig, 9, DRIVE_BYTES);
	in_sim(run_closed_suspended, unit_seed(13), 0);
	rig_unmake(&rig);
}

static void
test_log_gone(void)
{
	uint64_t seed = unit_seed(14);

	rig_make(&rig, 9, DRIVE_BYTES);
	redone = 0;
	in_sim(run_log_gone, seed, -ERR_CRASHED);
	rig_power_cut(&rig, seed);
	kb_sim_return(rig.media[7]); /* stale: the pool must not replay from them */
	kb_sim_return(rig.media[8]);
	in_sim(run_log_gone_after, seed, 0);
	rig_unmake(&rig);
}

static const struct unit_test tests[] = {
    {"round trip", test_round_trip},
    {"datasets", test_datasets},
    {"full", test_full},
    {"full_small", test_full_small},
    {"one drive gone", test_one_gone},
    {"two drives gone and back", test_two_gone},
    {"two drives gone in the middle of a commit", test_gone_in_commit},
    {"closed while suspended", test_closed_suspended},
    {"log drives gone", test_log_gone},
};

int
main(int argc, char **argv)
{
	return unit_main("pool_engine", tests, ARRAY_LEN(tests), argc, argv);
}
