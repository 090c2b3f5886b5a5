/*
 * pool_files.h - a pool on simulated drives with objects of known contents, for the tests of its
 * life: make it, write, remove, compare, check, leave it, take it up again.
 */
#ifndef AGATE_TESTS_POOL_FILES_H
#define AGATE_TESTS_POOL_FILES_H

#include <inttypes.h>

#include "pool/label.h"
#include "tests/unit/pool_rig.h"

#define FILES_MAX 64u
#define RECORD_BYTES (128u << 10)

static struct pool_rig rig;
static uint64_t rng;

/* What the pool must hold: object numbers of the root dataset and the seed of their contents. */
static struct {
	struct guid guid;
	uint64_t object[FILES_MAX], seed[FILES_MAX];
	uint32_t len[FILES_MAX];
	uint32_t count;
	bool failed;
} want;

static inline uint64_t
rnd(uint64_t below)
{
	rng ^= rng << 13;
	rng ^= rng >> 7;
	rng ^= rng << 17;
	return rng % below;
}

static inline struct rt_options
sim_options(uint64_t seed)
{
	struct rt_options opt = unit_rt(true, 2, seed);

	opt.arena_bytes = (size_t)128 << 20;
	log_set_level(getenv("AGATE_LOUD") != NULL ? LOG_DEBUG : LOG_ERROR);
	return opt;
}

static inline void
in_sim(fiber_fn *fn, void *arg, uint64_t seed)
{
	struct rt_options opt = sim_options(seed);
	int err = rt_run(&opt, fn, arg);

	CU_ASSERT_EQUAL(err, 0);
}

/* ---- pools ---- */

struct shape {
	uint32_t width, sets, logs, parity;
	enum raidz_kind kind;
};

static const struct shape one_set UNUSED = {7, 1, 0, 1, RAIDZ_KIND_PARITY};
static const struct shape with_log UNUSED = {7, 1, 2, 1, RAIDZ_KIND_PARITY};

static inline struct pool *
make_pool(const struct shape *sh, const char *name)
{
	struct pool_set_spec sets[4];
	struct pool_create_spec spec = {.name = name,
	    .sets = sets,
	    .set_count = sh->sets,
	    .logs = rig.drives + sh->sets * sh->width,
	    .log_count = sh->logs,
	    .host_name = "here",
	    .host_id = 1};
	char why[256] = "";
	struct pool *p = NULL;
	int err;

	for (uint32_t i = 0; i < sh->sets; i++) {
		sets[i] = (struct pool_set_spec){
		    sh->kind, sh->parity, sh->width, rig.drives + i * sh->width};
	}
	err = pool_create(&spec, &p, why, sizeof(why));
	if (err != 0) {
		printf("\n    create: %s (%s)\n", err_str(err), why);
	}
	UNIT_CHECK(err == 0);
	want.count = 0;
	want.guid = p != NULL ? pool_guid(p) : want.guid;
	return p;
}

static inline void
problem(void *arg UNUSED, const char *what)
{
	printf("\n    check: %s", what);
}

static inline void
check_pool(struct pool *p)
{
	struct pool_status st;
	uint64_t count = 0;
	int err = pool_check(p, problem, NULL, &count);

	UNIT_CHECK(err == 0);
	UNIT_CHECK(count == 0);
	err = pool_get_status(p, &st);
	UNIT_CHECK(err == 0);
	UNIT_CHECK(st.raw_used_bytes <= st.raw_bytes);
	pool_status_free(&st);
}

static inline void
fill(uint8_t *out, uint32_t len, uint64_t seed)
{
	uint64_t x = seed * 0x9e3779b97f4a7c15ull + 1;

	for (uint32_t i = 0; i < len; i += 8) {
		x ^= x << 13;
		x ^= x >> 7;
		x ^= x << 17;
		memcpy(out + i, &x, MIN(8u, len - i));
	}
}

/* One file of random contents; 0, or why it could not be. */
static inline int
write_file(struct pool *p, uint32_t len, uint64_t seed)
{
	struct pool_need need = {.dirty_bytes = len + (64u << 10)};
	uint8_t *data = malloc(len);
	struct iovec iov = {data, len};
	struct pool_obj *o;
	struct pool_tx *tx;
	struct pool_ds *ds;
	int err;

	err = pool_ds_open(p, pool_name(p), &ds);
	UNIT_CHECK(err == 0);
	fill(data, len, seed);
	err = pool_tx_begin(ds, &need, &tx);
	if (err == 0) {
		int err2 = pool_obj_create(tx, ds, OBJ_FILE, RECORD_BYTES, 0, 0, &o);

		UNIT_CHECK(err2 == 0);
		err2 = pool_write(tx, o, 0, &iov, 1);
		UNIT_CHECK(err2 == 0);
		want.object[want.count] = pool_obj_number(o);
		want.seed[want.count] = seed;
		want.len[want.count] = len;
		want.count++;
		pool_obj_release(o);
		pool_tx_end(tx);
	}
	pool_ds_close(ds);
	free(data);
	return err;
}

static inline int
remove_file(struct pool *p, uint32_t index)
{
	struct pool_need need = {.dirty_bytes = 64u << 10, .frees = true};
	struct pool_obj *o;
	struct pool_tx *tx;
	struct pool_ds *ds;
	int err = pool_ds_open(p, pool_name(p), &ds);

	UNIT_CHECK(err == 0);
	err = pool_tx_begin(ds, &need, &tx);
	if (err == 0) {
		int err2 = pool_obj_hold(ds, want.object[index], 0, &o);

		UNIT_CHECK(err2 == 0);
		pool_obj_destroy(tx, o);
		pool_obj_release(o);
		pool_tx_end(tx);
		want.count--;
		want.object[index] = want.object[want.count];
		want.seed[index] = want.seed[want.count];
		want.len[index] = want.len[want.count];
	}
	pool_ds_close(ds);
	return err;
}

static inline bool
file_is_right(struct pool_ds *ds, uint32_t index)
{
	static struct pool_slice slices[POOL_READ_SLICES_MAX];
	uint32_t count = 0, done = 0, len = want.len[index];
	uint8_t *data = malloc(len);
	struct pool_obj *o;
	bool ok = true;
	int err = pool_obj_hold(ds, want.object[index], 0, &o);

	if (err != 0) {
		free(data);
		return false;
	}
	fill(data, len, want.seed[index]);
	err = pool_read(o, 0, len, slices, POOL_READ_SLICES_MAX, &count);
	for (uint32_t i = 0; err == 0 && i < count; i++) {
		ok = ok && slices[i].buf != NULL &&
		     memcmp(slices[i].buf->data + slices[i].off_bytes, data + done,
			 slices[i].len_bytes) == 0;
		done += slices[i].len_bytes;
		iobuf_unref(slices[i].buf);
	}
	pool_obj_release(o);
	free(data);
	return err == 0 && ok && done == len;
}

static inline void
check_files(struct pool *p)
{
	struct pool_ds *ds;
	int err = pool_ds_open(p, pool_name(p), &ds);

	UNIT_CHECK(err == 0);
	if (err != 0) {
		return;
	}
	for (uint32_t i = 0; i < want.count; i++) {
		bool ok = file_is_right(ds, i);

		UNIT_CHECK(ok);
	}
	pool_ds_close(ds);
}

static inline int
deliver(void *arg UNUSED, const struct pool_record *rec UNUSED)
{
	return 0;
}

/* Import from all drives but those left out, in random order; replay. */
static inline int
take(struct pool_import_spec *spec, const bool *leave_out, struct pool **out,
    struct pool_import_result *result)
{
	struct kb_drive *drives[RIG_DRIVES_MAX];
	struct pool_replay_result replayed;
	int err;

	spec->pool_guid = want.guid;
	spec->drives = drives;
	spec->drive_count = 0;
	spec->host_name = spec->host_name != NULL ? spec->host_name : "here";
	spec->host_id = spec->host_id != 0 ? spec->host_id : 1;
	for (uint32_t i = 0; i < rig.count; i++) {
		if (leave_out == NULL || !leave_out[i]) {
			drives[spec->drive_count++] = rig.drives[i];
		}
	}
	for (uint32_t i = spec->drive_count; i > 1; i--) {
		uint32_t k = (uint32_t)rnd(i);
		struct kb_drive *d = drives[i - 1];

		drives[i - 1] = drives[k];
		drives[k] = d;
	}
	memset(result, 0, sizeof(*result));
	err = pool_import(spec, out, result);
	if (err == 0 && !spec->readonly) {
		err = pool_replay(*out, deliver, NULL, &replayed);
		UNIT_CHECK(err == 0);
	}
	return err;
}

/* The pool closed its drives: open the media again. */
static inline void
leave(struct pool *p)
{
	int err;

	for (uint32_t i = 0; i < rig.count; i++) {
		for (uint32_t k = 0; k < p->v.drive_count; k++) {
			if (p->v.drives[k].kb == rig.drives[i]) {
				rig.drives[i] = NULL;
				break;
			}
		}
		for (uint32_t k = 0; k < p->v.retired_count; k++) {
			rig.drives[i] = p->v.retired[k].kb == rig.drives[i] ? NULL : rig.drives[i];
		}
	}
	err = pool_export(p);
	UNIT_CHECK(err == 0);
	rig_open(&rig);
}

/* Drives that lack something and are to be filled. */
static inline uint32_t
count_stale(const struct pool *p)
{
	uint32_t stale = 0;

	for (uint32_t i = 0; i < p->v.set_count; i++) {
		stale += vdev_lacking(&p->v, i) - vdev_missing(&p->v, i);
	}
	for (uint32_t i = 0; i < p->v.drive_count; i++) {
		stale += p->v.drives[i].role == DRIVE_ROLE_DATA && p->v.drives[i].twin;
	}
	return stale;
}

/* Until the resilver or scrub has ended. */
static inline struct pool_scan_status
wait_scan(struct pool *p)
{
	struct pool_scan_status st;

	for (unsigned i = 0; i < 600; i++) {
		pool_get_scan(p, &st);
		if (st.state == SCAN_DONE && count_stale(p) == 0) {
			return st;
		}
		fiber_sleep(NSEC_PER_SEC / 10);
	}
	UNIT_CHECK(!"the scan doesn't end");
	return st;
}

#endif
