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
	struct pool_import_result result;
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

static const struct unit_test tests[] = {
    {"round trip", test_round_trip},
};

int
main(int argc, char **argv)
{
	return unit_main("pool_engine", tests, ARRAY_LEN(tests), argc, argv);
}
