/*
 * pool_label_test.c - what is in the labels: encoding and decoding, junk, torn and misplaced
 * copies; assembling drives in any order with some missing or stale; power cuts at every write of a
 * configuration update and of a rewritten uberblock. No engine: roots are block pointers that
 * nobody follows.
 */
#include "pool/label.h"
#include "tests/unit/pool_rig.h"

#define DRIVE_BYTES (64 * MIB)

static struct pool_rig rig;
static uint64_t rng;

static uint64_t
rnd(uint64_t below)
{
	rng ^= rng << 13;
	rng ^= rng >> 7;
	rng ^= rng << 17;
	return rng % below;
}

static void
in_sim(fiber_fn *fn, void *arg, uint64_t seed, int expected)
{
	struct rt_options opt = unit_rt(true, 2, seed);
	int err;

	log_set_level(LOG_ERROR);
	err = rt_run(&opt, fn, arg);

	CU_ASSERT_EQUAL(err, expected);
}

/* One set of 7, two log drives, one spare: rig drives 0..9. */
static struct pool_create_spec
spec_of(struct pool_set_spec *set)
{
	*set = (struct pool_set_spec){RAIDZ_KIND_PARITY, 1, 7, rig.drives};
	return (struct pool_create_spec){
	    .name = "tank",
	    .sets = set,
	    .set_count = 1,
	    .logs = rig.drives + 7,
	    .log_count = 2,
	    .spares = rig.drives + 9,
	    .spare_count = 1,
	    .host_name = "here",
	    .host_id = 1,
	};
}

static void
make_root(const struct vdevs *v, uint64_t timeline, uint64_t txg, struct uberblock *out)
{
	struct bp_prop prop = {.stored_bytes = 4096,
	    .logical_bytes = 4096,
	    .cksum = BP_CKSUM_XXH3,
	    .type = OBJ_OBJSET};

	memset(out, 0, sizeof(*out));
	out->magic = le64_of(UBER_MAGIC);
	out->version = le32_of(POOL_FORMAT_VERSION);
	out->pool_guid = v->pool_guid;
	out->timeline = le64_of(timeline);
	out->txg = le64_of(txg);
	out->config_txg = le64_of(v->config_txg);
	out->host_id = le64_of(1);
	out->root.addr[0] = bp_addr_make(0, 2, 8, false);
	out->root.birth = out->root.phys_birth = le64_of(txg);
	out->maplog = out->root;
	bp_set_prop(&out->root, &prop);
	prop.type = OBJ_MAPLOG;
	bp_set_prop(&out->maplog, &prop);
}

static void
write_root(struct vdevs *v, uint64_t timeline, uint64_t txg)
{
	static struct uberblock ub;
	bool changed = false;
	int err;

	make_root(v, timeline, txg, &ub);
	err = uber_write(v, &ub, &changed);
	ASSERT(err == 0);
	ASSERT(!changed);
}

/* Labels and a first root on the rig's drives. */
static void
make_pool(struct vdevs *v)
{
	struct pool_set_spec set;
	struct pool_create_spec spec;
	char why[200] = "";
	int err;

	rig_open(&rig);
	spec = spec_of(&set);
	err = vdev_layout(&spec, v, why, sizeof(why));
	ASSERT(err == 0);
	err = vdev_open_groups(v, false);
	ASSERT(err == 0);
	err = vdev_write_labels(v, 1);
	ASSERT(err == 0);
	write_root(v, 1, 1);
}

static int
assemble(const struct guid *guid, const bool *leave_out, struct vdevs *v,
    struct pool_import_result *result)
{
	struct kb_drive *drives[RIG_DRIVES_MAX];
	struct pool_import_spec spec = {.pool_guid = *guid, .drives = drives};

	memset(result, 0, sizeof(*result));
	for (uint32_t i = 0; i < rig.count; i++) {
		if (leave_out == NULL || !leave_out[i]) {
			drives[spec.drive_count++] = rig.drives[i];
		}
	}
	for (uint32_t i = spec.drive_count; i > 1; i--) {
		uint32_t k = (uint32_t)rnd(i);
		struct kb_drive *d = drives[i - 1];

		drives[i - 1] = drives[k];
		drives[k] = d;
	}
	return vdev_assemble(&spec, v, result);
}

/* ---- encoding ---- */

static void
run_config(void *arg UNUSED)
{
	static uint8_t a[16384], b[16384];
	struct vdevs v, again;
	uint32_t len, len2;
	int err;

	make_pool(&v);
	v.drives[3].dirty_from = 17;
	v.drives[3].dirty_to = UINT64_MAX;
	v.drives[3].state = DRIVE_STATE_REMOVED;
	err = config_encode(&v, 5, a, sizeof(a), &len);
	ASSERT(err == 0);
	CU_ASSERT_EQUAL(config_encode(&v, 5, b, len - 1, &len2), -ENOSPC);
	err = config_decode(a, len, &again);
	ASSERT(err == 0);
	CU_ASSERT_EQUAL(again.config_txg, 5);
	CU_ASSERT_STRING_EQUAL(again.name, "tank");
	CU_ASSERT_EQUAL(again.drives[3].dirty_from, 17);
	err = config_encode(&again, 5, b, sizeof(b), &len2);
	ASSERT(err == 0);
	CU_ASSERT_EQUAL(len, len2);
	CU_ASSERT(memcmp(a, b, len) == 0);
	vdev_free(&again, false);
	/* junk: an error, or something whose encoding is stable; never out of bounds */
	for (unsigned i = 0; i < 20000; i++) {
		memcpy(b, a, len);
		for (uint64_t k = 1 + rnd(4); k > 0; k--) {
			b[rnd(len)] = (uint8_t)rnd(256);
		}
		err = config_decode(b, rnd(8) == 0 ? (uint32_t)rnd(len + 1) : len, &again);
		if (err == 0) {
			vdev_free(&again, false);
		}
	}
	for (uint32_t cut = 0; cut < len; cut += 13) {
		CU_ASSERT(config_decode(a, cut, &again) != 0);
	}
	/* features of a later firmware are seen before what they may have changed */
	memcpy(b, a, len);
	((struct config_header *)(void *)b)->feat_incompat = le64_of(2);
	((struct config_header *)(void *)b)->set_count = le32_of(1000);
	CU_ASSERT_EQUAL(config_decode(b, len, &again), -ERR_FEATURE);
	memcpy(b, a, len);
	((struct config_set *)(void *)(b + sizeof(struct config_header)))->flags = le32_of(1);
	CU_ASSERT_EQUAL(config_decode(b, len, &again), -ERR_FEATURE);
	vdev_free(&v, false);
	rig_close(&rig);
}

static void
test_config(void)
{
	rng = unit_seed(3) * 2 + 1;
	rig_make(&rig, 10, DRIVE_BYTES);
	in_sim(run_config, NULL, 3, 0);
	rig_unmake(&rig);
}

static void
run_label(void *arg UNUSED)
{
	static uint8_t a[LABEL_UBER_OFF], b[LABEL_UBER_OFF];
	struct vdevs v;
	struct label l;
	uint64_t off;
	uint32_t len;
	int err;

	make_pool(&v);
	err = config_encode(&v, 5, a + LABEL_CONFIG_OFF, LABEL_CONFIG_BYTES_MAX, &len);
	ASSERT(err == 0);
	off = label_offset(v.drives[2].region_bytes, 2);
	label_encode(&v, &v.drives[2], 2, 5, len, a);
	CU_ASSERT_EQUAL(label_decode(a, sizeof(a), off, 2, &l), 0);
	CU_ASSERT(guid_equal(&l.drive_guid, &v.drives[2].guid));
	CU_ASSERT_EQUAL(l.column, 2);
	CU_ASSERT_EQUAL(l.config_txg, 5);
	/* elsewhere on the drive, or under another index */
	CU_ASSERT_EQUAL(label_decode(a, sizeof(a), off + 4096, 2, &l), -ERR_CORRUPT);
	CU_ASSERT_EQUAL(label_decode(a, sizeof(a), off, 3, &l), -ERR_CORRUPT);
	CU_ASSERT_EQUAL(
	    label_decode(a, sizeof(a), label_offset(v.drives[2].region_bytes, 0), 0, &l),
	    -ERR_CORRUPT);
	/* any bit, also of the configuration */
	for (unsigned i = 0; i < 5000; i++) {
		uint32_t at = (uint32_t)rnd(LABEL_CONFIG_OFF + len);
		uint8_t bit = (uint8_t)(1u << rnd(8));

		a[at] ^= bit;
		CU_ASSERT(label_decode(a, sizeof(a), off, 2, &l) != 0);
		a[at] ^= bit;
	}
	/* torn: the first part of one, the rest of the next */
	memcpy(b, a, sizeof(b));
	v.drives[4].state = DRIVE_STATE_REMOVED;
	err = config_encode(&v, 6, b + LABEL_CONFIG_OFF, LABEL_CONFIG_BYTES_MAX, &len);
	ASSERT(err == 0);
	label_encode(&v, &v.drives[2], 2, 6, len, b);
	for (uint32_t cut = 512; cut < LABEL_CONFIG_OFF + len; cut += 512) {
		static uint8_t keep[512 * 64];

		ASSERT(cut <= sizeof(keep));
		memcpy(keep, a, cut);
		memcpy(a, b, cut);
		CU_ASSERT(label_decode(a, sizeof(a), off, 2, &l) != 0 || l.config_txg == 6);
		memcpy(a, keep, cut);
	}
	for (unsigned i = 0; i < 3000; i++) {
		memcpy(b, a, 4096);
		b[rnd(4096)] = (uint8_t)rnd(256);
		self_cksum_set(b, 4096, offsetof(struct label_header, cksum));
		err = label_decode(b, sizeof(b), off, 2, &l);
		CU_ASSERT(err == 0 || err == -ERR_CORRUPT || err == -ENOENT || err == -ERR_FEATURE);
	}
	vdev_free(&v, false);
	rig_close(&rig);
}

static void
test_label(void)
{
	rng = unit_seed(4) * 2 + 1;
	rig_make(&rig, 10, DRIVE_BYTES);
	in_sim(run_label, NULL, 4, 0);
	rig_unmake(&rig);
}

static void
run_uber(void *arg UNUSED)
{
	struct uberblock *ub = calloc(1, sizeof(*ub)), *out = calloc(1, sizeof(*out));
	struct uber_key below = {1, 5};
	struct iobuf *buf;
	struct vdevs v;
	uint64_t off0, off1;
	int err;

	make_pool(&v);
	for (uint64_t txg = 2; txg <= 300; txg++) {
		write_root(&v, 1, txg);
	}
	CU_ASSERT_EQUAL(uber_find(&v, NULL, out), 0);
	CU_ASSERT_EQUAL(le64_get(out->txg), 300);
	below.txg = 300;
	CU_ASSERT_EQUAL(uber_find(&v, &below, out), 0);
	CU_ASSERT_EQUAL(le64_get(out->txg), 299);
	below.txg = 300 - UBER_SLOTS + 1;
	CU_ASSERT_EQUAL(uber_find(&v, &below, out), -ENOENT);
	/* an older txg on a newer timeline wins */
	write_root(&v, 2, 250);
	CU_ASSERT_EQUAL(uber_find(&v, NULL, out), 0);
	CU_ASSERT_EQUAL(le64_get(out->txg), 250);
	/* a copy in another slot, or on another drive, is nobody's */
	err = iobuf_alloc(UBER_BYTES, ARENA_SYNC, &buf);
	ASSERT(err == 0);
	off0 = label_offset(v.drives[0].region_bytes, 0) + LABEL_UBER_OFF +
	       250 % UBER_SLOTS * UBER_BYTES;
	off1 = label_offset(v.drives[0].region_bytes, 1) + LABEL_UBER_OFF +
	       250 % UBER_SLOTS * UBER_BYTES;
	err = kb_read(rig.drives[0], off0, buf, UBER_BYTES);
	ASSERT(err == 0);
	CU_ASSERT_EQUAL(uber_decode(buf->data, off0, &v.pool_guid, out), 0);
	CU_ASSERT_EQUAL(uber_decode(buf->data, off1, &v.pool_guid, out), -ERR_CORRUPT);
	make_root(&v, 9, 250, ub);
	ub->own_offset = le64_of(off0);
	ub->drive_guid = v.drives[1].guid;
	self_cksum_set(ub, sizeof(*ub), offsetof(struct uberblock, cksum));
	memcpy(buf->data, ub, sizeof(*ub));
	err = kb_write(rig.drives[0], off0, buf, UBER_BYTES, KB_FUA);
	ASSERT(err == 0);
	CU_ASSERT_EQUAL(uber_find(&v, NULL, out), 0);
	CU_ASSERT_EQUAL(le64_get(out->timeline), 2);
	for (unsigned i = 0; i < 5000; i++) {
		uint8_t *bytes = (uint8_t *)ub;
		uint32_t at = (uint32_t)rnd(sizeof(*ub));
		uint8_t was = bytes[at];

		bytes[at] = (uint8_t)rnd(256);
		if (rnd(2) == 0) {
			self_cksum_set(ub, sizeof(*ub), offsetof(struct uberblock, cksum));
		}
		err = uber_decode(ub, off0, &v.pool_guid, out);
		CU_ASSERT(err == 0 || err == -ERR_CORRUPT || err == -ENOENT || err == -ERR_FEATURE);
		bytes[at] = was;
	}
	iobuf_unref(buf);
	free(ub);
	free(out);
	vdev_free(&v, false);
	rig_close(&rig);
}

static void
test_uber(void)
{
	rng = unit_seed(5) * 2 + 1;
	rig_make(&rig, 10, DRIVE_BYTES);
	in_sim(run_uber, NULL, 5, 0);
	rig_unmake(&rig);
}

/* ---- assembling ---- */

static void
run_assemble(void *arg UNUSED)
{
	struct pool_import_result result;
	struct pool_label_info info;
	struct vdevs v, w;
	struct guid guid;
	bool out[RIG_DRIVES_MAX] = {false};
	int err;

	make_pool(&v);
	guid = v.pool_guid;
	write_root(&v, 1, 2);
	err = pool_label_probe(rig.drives[4], &info);
	CU_ASSERT_EQUAL(err, 0);
	CU_ASSERT_STRING_EQUAL(info.pool_name, "tank");
	CU_ASSERT_EQUAL(info.column, 4);
	CU_ASSERT_EQUAL(info.txg, 2);
	CU_ASSERT_EQUAL(info.drive_count, 10);
	CU_ASSERT_EQUAL(pool_label_probe(rig.drives[9], &info), 0);
	CU_ASSERT_EQUAL(info.role, DRIVE_ROLE_SPARE);
	CU_ASSERT_EQUAL(pool_label_probe(rig.drives[10], &info), -ENOENT);
	for (unsigned i = 0; i < 5; i++) {
		err = assemble(&guid, NULL, &w, &result);
		CU_ASSERT_EQUAL(err, 0);
		CU_ASSERT_EQUAL(result.missing_drives, 0);
		CU_ASSERT_EQUAL(w.committed_txg, 2);
		for (uint32_t c = 0; c < 7; c++) {
			CU_ASSERT(vdev_column(&w, 0, c)->kb == rig.drives[c]);
			CU_ASSERT_EQUAL(vdev_column(&w, 0, c)->dirty_from, 0);
		}
		vdev_free(&w, false);
	}
	for (uint32_t c = 0; c < 7; c++) {
		out[c] = true;
		err = assemble(&guid, out, &w, &result);
		CU_ASSERT_EQUAL(err, 0);
		CU_ASSERT_EQUAL(result.missing_drives, 1);
		vdev_free(&w, false);
		out[(c + 2) % 7] = true;
		err = assemble(&guid, out, &w, &result);
		CU_ASSERT_EQUAL(err, -EIO);
		CU_ASSERT(strstr(result.why, "lacks 2 of its 7 drives") != NULL);
		out[c] = out[(c + 2) % 7] = false;
	}
	memset(&guid, 1, sizeof(guid));
	CU_ASSERT_EQUAL(assemble(&guid, NULL, &w, &result), -ENOENT);
	vdev_free(&v, false);
	rig_close(&rig);
}

/* A drive that misses a configuration and some roots is stale afterwards; one root behind is not.
 */
static void
run_stale(void *arg UNUSED)
{
	struct pool_import_result result;
	struct vdevs v, w;
	struct vdev_drive *d;
	static struct uberblock ub;
	bool changed = false;
	int err;

	make_pool(&v);
	write_root(&v, 1, 2);
	kb_sim_set_faults(rig.media[5], &(struct kb_sim_faults){.write_error = 1000000});
	make_root(&v, 1, 3, &ub);
	err = uber_write(&v, &ub, &changed);
	CU_ASSERT_EQUAL(err, 0);
	CU_ASSERT(changed);
	CU_ASSERT_EQUAL(v.drives[5].state, DRIVE_STATE_FAULTED);
	/* the power goes here: the others are one root ahead, which says nothing against it */
	err = assemble(&v.pool_guid, NULL, &w, &result);
	CU_ASSERT_EQUAL(err, 0);
	CU_ASSERT_EQUAL(w.committed_txg, 3);
	CU_ASSERT_EQUAL(vdev_column(&w, 0, 5)->dirty_from, 0);
	vdev_free(&w, false);
	/* or the pool goes on without it */
	err = vdev_write_labels(&v, vdev_next_config(&v));
	CU_ASSERT_EQUAL(err, 0);
	write_root(&v, 1, 3);
	write_root(&v, 1, 4);
	kb_sim_set_faults(rig.media[5], &(struct kb_sim_faults){0});
	err = assemble(&v.pool_guid, NULL, &w, &result);
	CU_ASSERT_EQUAL(err, 0);
	d = vdev_column(&w, 0, 5);
	CU_ASSERT_EQUAL(d->state, DRIVE_STATE_ONLINE);
	CU_ASSERT_EQUAL(d->dirty_from, 3);
	CU_ASSERT_EQUAL(d->dirty_to, 4);
	{
		enum raidz_col_state state;

		(void)raidz_group_column(w.sets[0].rg, 5, &state);
		CU_ASSERT_EQUAL(state, RAIDZ_COL_STALE);
	}
	vdev_free(&w, false);
	vdev_free(&v, false);
	rig_close(&rig);
}

static void
test_assemble(void)
{
	rng = unit_seed(6) * 2 + 1;
	rig_make(&rig, 11, DRIVE_BYTES);
	in_sim(run_assemble, NULL, 6, 0);
	rig_unmake(&rig);
	rig_make(&rig, 10, DRIVE_BYTES);
	in_sim(run_stale, NULL, 6, 0);
	rig_unmake(&rig);
}

/* A log drive that was away while the configuration moved on is no side any more. */
static void
run_stale_log(void *arg UNUSED)
{
	struct pool_import_result result;
	struct ilog_config cfg;
	struct vdevs v, w;
	int err;

	make_pool(&v);
	CU_ASSERT_EQUAL(vdev_log_config(&v, false, 1, &cfg), 0);
	CU_ASSERT_EQUAL(cfg.side_count, 2);
	CU_ASSERT(cfg.sides[0].drive == rig.drives[7] && cfg.sides[1].drive == rig.drives[8]);
	CU_ASSERT_EQUAL(vdev_log_config(&v, true, 1, &cfg), 0);
	CU_ASSERT_EQUAL(cfg.side_count, 2);
	CU_ASSERT(cfg.sides[0].drive == rig.drives[0] && cfg.sides[1].drive == rig.drives[1]);
	vdev_drive_out(&v, &v.drives[7], DRIVE_STATE_FAULTED, 2);
	err = vdev_write_labels(&v, vdev_next_config(&v));
	CU_ASSERT_EQUAL(err, 0);
	write_root(&v, 1, 2);
	err = assemble(&v.pool_guid, NULL, &w, &result);
	CU_ASSERT_EQUAL(err, 0);
	CU_ASSERT_EQUAL(vdev_log_config(&w, false, 1, &cfg), 0);
	CU_ASSERT(cfg.sides[0].drive == NULL && cfg.sides[1].drive == rig.drives[8]);
	vdev_free(&w, false);
	vdev_free(&v, false);
	rig_close(&rig);
}

static void
test_stale_log(void)
{
	rng = unit_seed(8) * 2 + 1;
	rig_make(&rig, 10, DRIVE_BYTES);
	in_sim(run_stale_log, NULL, 8, 0);
	rig_unmake(&rig);
}

/* ---- numbers of configurations ---- */

#define ODD_ONE 6u

/* An update of which only one drive got something. */
static void
tear(struct vdevs *v)
{
	struct kb_drive *kb[RIG_DRIVES_MAX];
	uint64_t number = vdev_next_config(v);
	int err;

	for (uint32_t i = 0; i < v->drive_count; i++) {
		kb[i] = v->drives[i].kb;
		v->drives[i].kb = i == ODD_ONE ? kb[i] : NULL;
	}
	v->create_time = 111;
	err = vdev_write_labels(v, number);
	CU_ASSERT_EQUAL(err, -EIO);
	CU_ASSERT(vdev_next_config(v) > number); /* by whoever tries again */
	for (uint32_t i = 0; i < v->drive_count; i++) {
		v->drives[i].kb = kb[i];
	}
}

/* The import after it, seeing that drive or not, writes another; the drive isn't believed then. */
static void
run_numbers(void *arg)
{
	const bool *leave_out = arg;
	struct pool_import_result result;
	struct vdevs v, w;
	uint64_t torn;
	int err;

	make_pool(&v);
	torn = vdev_next_config(&v);
	tear(&v);
	err = assemble(&v.pool_guid, leave_out, &w, &result);
	CU_ASSERT_EQUAL(err, 0);
	CU_ASSERT(w.create_time != 111);
	CU_ASSERT(vdev_next_config(&w) > torn);
	w.create_time = 222;
	vdev_drive_out(&w, &w.drives[ODD_ONE], DRIVE_STATE_REMOVED, 2);
	err = vdev_write_labels(&w, vdev_next_config(&w));
	CU_ASSERT_EQUAL(err, 0);
	write_root(&w, 1, 2);
	vdev_free(&w, false);
	for (unsigned i = 0; i < 20; i++) { /* whatever the order of the drives */
		err = assemble(&v.pool_guid, NULL, &w, &result);
		CU_ASSERT_EQUAL(err, 0);
		CU_ASSERT_EQUAL(w.create_time, 222);
		CU_ASSERT_EQUAL(w.drives[ODD_ONE].dirty_from, 2);
		vdev_free(&w, false);
	}
	vdev_free(&v, false);
	rig_close(&rig);
}

/* The only drive that got it was to join with it, and isn't seen: no member is missing. */
static void
run_number_of_new_drive(void *arg)
{
	const bool *leave_out = arg;
	struct pool_import_result result;
	struct vdevs v, w;
	int err;

	make_pool(&v);
	ASSERT(vdev_layout_drive(&v, rig.drives[10], DRIVE_ROLE_LOG, 0, 2));
	for (uint32_t i = 0; i < 10; i++) {
		v.drives[i].kb = NULL;
	}
	v.create_time = 111;
	err = vdev_write_labels(&v, vdev_next_config(&v));
	CU_ASSERT_EQUAL(err, -EIO);
	err = assemble(&v.pool_guid, leave_out, &w, &result);
	CU_ASSERT_EQUAL(err, 0);
	w.create_time = 222;
	err = vdev_write_labels(&w, vdev_next_config(&w));
	CU_ASSERT_EQUAL(err, 0);
	write_root(&w, 1, 2);
	vdev_free(&w, false);
	for (unsigned i = 0; i < 60; i++) {
		err = assemble(&v.pool_guid, NULL, &w, &result);
		CU_ASSERT_EQUAL(err, 0);
		CU_ASSERT_EQUAL(w.create_time, 222);
		vdev_free(&w, false);
	}
	vdev_free(&v, false);
	rig_close(&rig);
}

static void
test_numbers(void)
{
	bool without_new[RIG_DRIVES_MAX] = {[10] = true};
	bool leave_out[RIG_DRIVES_MAX] = {[ODD_ONE] = true};

	bug_set_deliberate(getenv("AGATE_BUGS"));
	rng = unit_seed(11) * 2 + 1;
	rig_make(&rig, 10, DRIVE_BYTES);
	in_sim(run_numbers, NULL, 11, 0);
	rig_unmake(&rig);
	rig_make(&rig, 10, DRIVE_BYTES);
	in_sim(run_numbers, leave_out, 11, 0);
	rig_unmake(&rig);
	rig_make(&rig, 11, DRIVE_BYTES);
	in_sim(run_number_of_new_drive, without_new, 11, 0);
	rig_unmake(&rig);
	bug_set_deliberate(NULL);
}

/* ---- power cuts ---- */

static struct guid crash_guid;
static bool crash_config; /* update the configuration, or rewrite the newest root */

static void
run_cut(void *arg)
{
	uint64_t cut_after = *(uint64_t *)arg;
	struct vdevs v;
	int err;

	make_pool(&v);
	write_root(&v, 1, 2);
	crash_guid = v.pool_guid;
	kb_sim_crash_after_writes(cut_after);
	if (crash_config) {
		vdev_drive_out(&v, &v.drives[6], DRIVE_STATE_REMOVED, 3);
		err = vdev_write_labels(&v, vdev_next_config(&v));
		ASSERT(err == 0);
	}
	write_root(&v, 1, 2);
	kb_sim_crash_after_writes(0);
	vdev_free(&v, false);
	rig_close(&rig);
}

static void
run_after_cut(void *arg)
{
	bool *ok = arg;
	struct pool_import_result result;
	static struct uberblock ub;
	struct vdevs w;
	int err;

	rig_open(&rig);
	err = assemble(&crash_guid, NULL, &w, &result);
	*ok = err == 0;
	if (err == 0) {
		*ok = uber_find(&w, NULL, &ub) == 0 && le64_get(ub.txg) == 2 &&
		      w.config_txg >= le64_get(ub.config_txg) && w.config_txg <= 3;
		/* who is out is out in the configuration that the root names */
		*ok = *ok && (le64_get(ub.config_txg) == 1 || w.drives[6].dirty_from == 3);
		vdev_free(&w, false);
	} else {
		printf("\n    %s\n", result.why);
	}
	rig_close(&rig);
}

static bool
cut_everywhere(bool config, uint64_t seed, unsigned *out_cuts)
{
	for (uint64_t n = 1; n < 1000; n++) {
		struct rt_options opt = unit_rt(true, 2, seed + n);
		bool ok = false;
		int err;

		log_set_level(LOG_ERROR);
		crash_config = config;
		rig_make(&rig, 10, DRIVE_BYTES);
		err = rt_run(&opt, run_cut, &n);
		kb_sim_crash_after_writes(0);
		if (err != -ERR_CRASHED) {
			rig_unmake(&rig);
			return err == 0;
		}
		(*out_cuts)++;
		rig_power_cut(&rig, seed + n);
		err = rt_run(&opt, run_after_cut, &ok);
		rig_unmake(&rig);
		if (err != 0 || !ok) {
			return false;
		}
	}
	return false;
}

static void
test_cuts(void)
{
	uint64_t seed = unit_seed(9);
	unsigned cuts = 0;

	rng = seed * 2 + 1;
	for (unsigned round = 0; round < 4; round++) {
		CU_ASSERT(cut_everywhere(true, seed + round * 100, &cuts));
		CU_ASSERT(cut_everywhere(false, seed + round * 100, &cuts));
	}
	printf("cuts %u ", cuts);
	CU_ASSERT(cuts > 200);
}

/* ---- one power cut after the other ---- */

static void
run_next_cut(void *arg)
{
	uint64_t cut_after = *(uint64_t *)arg;
	struct pool_import_result result;
	struct vdevs w;
	int err;

	rig_open(&rig);
	err = assemble(&crash_guid, NULL, &w, &result);
	ASSERT(err == 0);
	if (result.missing_drives == 0) {
		w.create_time = rnd(UINT64_MAX); /* what is written differs from what is there */
		kb_sim_crash_after_writes(cut_after);
		err = vdev_write_labels(&w, vdev_next_config(&w));
		ASSERT(err == 0);
	}
	rt_sim_crash();
}

static void
run_count_missing(void *arg)
{
	uint32_t *missing = arg;
	struct pool_import_result result;
	struct vdevs w;
	int err;

	rig_open(&rig);
	err = assemble(&crash_guid, NULL, &w, &result);
	*missing = err == 0 ? result.missing_drives : UINT32_MAX;
	if (err == 0) {
		vdev_free(&w, false);
	}
	rig_close(&rig);
}

/* How many drives have no label any more after cuts at random writes of configurations. */
static uint32_t
cut_again_and_again(uint64_t seed)
{
	uint32_t missing = 0;

	rig_make(&rig, 10, DRIVE_BYTES);
	crash_config = true;
	for (unsigned life = 0; life < 6; life++) {
		uint64_t cut_after = 1 + rnd(36);

		in_sim(life == 0 ? run_cut : run_next_cut, &cut_after, seed + life, -ERR_CRASHED);
		kb_sim_crash_after_writes(0);
		rig_power_cut(&rig, seed + life);
	}
	in_sim(run_count_missing, &missing, seed, 0);
	rig_unmake(&rig);
	return missing;
}

static void
test_many_cuts(void)
{
	uint64_t seed = unit_seed(13);

	rng = seed * 2 + 1;
	for (unsigned round = 0; round < 40; round++) {
		CU_ASSERT_EQUAL(cut_again_and_again(seed + round * 10), 0);
	}
}

#ifdef AGATE_DEBUG
static bool
cuts_take_labels(void)
{
	uint32_t missing = 0;

	rng = 27;
	for (unsigned round = 0; round < 40; round++) {
		missing += cut_again_and_again(13 + round * 10) != 0;
	}
	return missing > 0;
}

/* All labels of a single mirrored-nowhere drive torn at once lose the root: the tests above would
 * see it. */
static void
run_torn(void *arg)
{
	struct vdevs v;
	static struct uberblock ub;
	bool *lost = arg;
	int err;

	rig_open(&rig);
	{
		struct pool_set_spec set = {RAIDZ_KIND_MIRROR, 0, 1, rig.drives};
		struct pool_create_spec spec = {.name = "solo", .sets = &set, .set_count = 1};
		char why[200];

		err = vdev_layout(&spec, &v, why, sizeof(why));
		ASSERT(err == 0);
		err = vdev_open_groups(&v, false);
		ASSERT(err == 0);
		err = vdev_write_labels(&v, 1);
		ASSERT(err == 0);
		write_root(&v, 1, 1);
		make_root(&v, 1, 1, &ub);
		ub.heartbeat = le64_of(7);
	}
	{
		struct kb_counters before, after;
		bool changed = false;

		kb_get_counters(rig.drives[0], &before);
		kb_sim_set_faults(rig.media[0], &(struct kb_sim_faults){.write_error = 1000000});
		err = uber_write(&v, &ub, &changed);
		kb_get_counters(rig.drives[0], &after);
		/* a drive that fails the even labels is left alone from then on */
		*lost = after.writes - before.writes != 2;
	}
	vdev_free(&v, false);
	rig_close(&rig);
}

static bool
odd_labels_touched(void)
{
	bool lost = false;

	rig_make(&rig, 1, DRIVE_BYTES);
	in_sim(run_torn, &lost, 11, 0);
	rig_unmake(&rig);
	return lost;
}

static void
test_bugs_are_seen(void)
{
	CU_ASSERT(!odd_labels_touched());
	bug_set_deliberate("pool-uber-again-at-once");
	CU_ASSERT(odd_labels_touched());
	bug_set_deliberate("pool-labels-even-first");
	CU_ASSERT(cuts_take_labels());
	bug_set_deliberate(NULL);
}
#endif

int
main(int argc, char **argv)
{
	static const struct unit_test tests[] = {
	    {"config", test_config},
	    {"label", test_label},
	    {"uber", test_uber},
	    {"assemble", test_assemble},
	    {"stale_log", test_stale_log},
	    {"a number isn't used twice", test_numbers},
	    {"cuts", test_cuts},
	    {"many_cuts", test_many_cuts},
#ifdef AGATE_DEBUG
	    {"bugs_are_seen", test_bugs_are_seen},
#endif
	};

	return unit_main("pool_label", tests, ARRAY_LEN(tests), argc, argv);
}
