/* Properties: what is accepted, inheritance, what is reported; datasets; atime; inodes and log
 * records as bytes. */
#include "fs/fs_int.h"
#include "tests/lib/fakepool.h"
#include "tests/lib/fs_rig.h"
#include "tests/lib/unit.h"

static void
run_in_sim(fiber_fn *fn)
{
	struct rt_options opt = unit_rt(true, 1, unit_seed(1));
	CU_ASSERT(rt_run(&opt, fn, NULL) == 0);
	CU_ASSERT(mem_live_count() == 0);
}

struct value_case {
	const char *name, *text, *canonical; /* canonical NULL: refused */
	uint64_t number;
};

static const struct value_case value_cases[] = {
    {"recordsize", "128K", "128K", 131072},
    {"recordsize", "131072", "128K", 131072},
    {"recordsize", "4k", "4K", 4096},
    {"recordsize", "1M", "1M", 1048576},
    {"recordsize", "1MiB", "1M", 1048576},
    {"recordsize", "2M", NULL, 0},
    {"recordsize", "2K", NULL, 0},
    {"recordsize", "96K", NULL, 0},
    {"recordsize", "-4K", NULL, 0},
    {"recordsize", "", NULL, 0},
    {"recordsize", "4Kx", NULL, 0},
    {"recordsize", "99999999999999999999", NULL, 0},
    {"compression", "on", "on", 0x100},
    {"compression", "lz4", "lz4", 0x100},
    {"compression", "off", "off", 0},
    {"compression", "zstd", "zstd", 0x203},
    {"compression", "zstd-19", "zstd-19", 0x213},
    {"compression", "zstd-20", NULL, 0},
    {"compression", "zstd-0", NULL, 0},
    {"compression", "zstd-", NULL, 0},
    {"compression", "gzip", NULL, 0},
    {"checksum", "blake2b", "blake2b", 2},
    {"checksum", "off", NULL, 0},
    {"atime", "relatime", "relatime", 2},
    {"atime", "yes", NULL, 0},
    {"sync", "always", "always", 1},
    {"sync", "never", NULL, 0},
    {"readonly", "on", "on", 1},
    {"quota", "10G", "10.0G", 10 * GIB},
    {"quota", "none", "none", 0},
    {"quota", "-1", NULL, 0},
    {"quota", "", NULL, 0},
    {"refquota", "3145728", "3.00M", 3 * MIB},
    {"refquota", "0", "none", 0},
    {"refquota", "1.5G", NULL, 0},
    {"reservation", "100MiB", "100M", 100 * MIB},
    {"refreservation", "4K", "4.00K", 4 * KIB},
    {"refreservation", "nothing", NULL, 0},
    {"userquota@1000", "10G", "10.0G", 10 * GIB},
    {"userquota@1000", "none", "none", 0},
    {"userquota@4294967294", "5", "5B", 5},
    {"groupobjquota@0", "250000", "250000", 250000},
    {"groupobjquota@0", "some", NULL, 0},
    {"defaultuserquota", "1M", "1.00M", MIB},
    {"defaultgroupobjquota", "77", "77", 77},
};

static void
values_run(void *arg)
{
	(void)arg;
	struct rig r;
	char why[200];
	struct fs_prop p;
	rig_open(&r);
	for (uint32_t i = 0; i < ARRAY_LEN(value_cases); i++) {
		const struct value_case *c = &value_cases[i];
		memset(why, 0, sizeof(why));
		int err = fs_prop_set(r.fp, "tank", c->name, c->text, why, sizeof(why));
		UNIT_CHECK(err == (c->canonical != NULL ? 0 : -EINVAL));
		UNIT_CHECK(err == 0 || strstr(why, c->text) != NULL);
		if (err == 0) {
			UNIT_CHECK(fs_prop_get(r.fp, "tank", c->name, &p) == 0);
			UNIT_CHECK(strcmp(p.value, c->canonical) == 0 && p.number == c->number);
			UNIT_CHECK(p.source == FS_PROP_LOCAL || strcmp(p.value, "none") == 0);
		}
	}
	UNIT_CHECK(fs_prop_set(r.fp, "tank", "recordsise", "4K", why, sizeof(why)) == -ENOENT);
	UNIT_CHECK(strstr(why, "'recordsize'") != NULL);
	UNIT_CHECK(fs_prop_set(r.fp, "tank", "used", "0", why, sizeof(why)) == -EINVAL);
	UNIT_CHECK(fs_prop_set(r.fp, "tank/none", "atime", "on", why, sizeof(why)) == -ENOENT);
	for (uint32_t i = 0; i < fs_prop_count(); i++) {
		UNIT_CHECK(fs_prop_get(r.fp, "tank", fs_prop_name(i), &p) == 0 && p.value[0] != 0);
	}
	UNIT_CHECK(fs_prop_name(fs_prop_count()) == NULL);
	UNIT_CHECK(
	    fs_prop_get(r.fp, "tank", "compressratio", &p) == 0 && strcmp(p.value, "1.50x") == 0);
	UNIT_CHECK(
	    fs_prop_get(r.fp, "tank", "available", &p) == 0 && strcmp(p.value, "1.00G") == 0);
	rig_close(&r);
}

static void
inherit_run(void *arg)
{
	(void)arg;
	struct rig r;
	char why[200];
	struct fs_prop p;
	struct fs_ds *ds;
	static const char *const props[] = {"sync=always", "recordsize=16K"};
	static const char *const bad[] = {"sync=always", "recordsize=17K"};
	rig_open(&r);
	UNIT_CHECK(fs_ds_create(r.fp, "tank/a", bad, 2, why, sizeof(why)) == -EINVAL &&
		   strstr(why, "17K") != NULL);
	UNIT_CHECK(fs_ds_open(r.fp, "tank/a", &ds) == -ENOENT); /* nothing was made */
	UNIT_CHECK(fs_ds_create(r.fp, "tank/a", props, 2, why, sizeof(why)) == 0);
	UNIT_CHECK(fs_ds_create(r.fp, "tank/a", props, 2, why, sizeof(why)) == -EEXIST);
	UNIT_CHECK(fs_ds_create(r.fp, "tank/x/b", NULL, 0, why, sizeof(why)) == -ENOENT);
	UNIT_CHECK(fs_ds_create(r.fp, "tank/a/b", NULL, 0, why, sizeof(why)) == 0);
	UNIT_CHECK(fs_prop_get(r.fp, "tank/a/b", "recordsize", &p) == 0 && p.number == 16384);
	UNIT_CHECK(p.source == FS_PROP_INHERITED && strcmp(p.inherited_from, "tank/a") == 0);
	UNIT_CHECK(fs_ds_open(r.fp, "tank/a/b", &ds) == 0);
	UNIT_CHECK(
	    atomic_load(&ds->sync) == FS_SYNC_ALWAYS && atomic_load(&ds->record_bytes) == 16384);
	UNIT_CHECK(fs_prop_set(r.fp, "tank/a", "recordsize", NULL, why, sizeof(why)) == 0);
	UNIT_CHECK(
	    fs_prop_get(r.fp, "tank/a/b", "recordsize", &p) == 0 && p.source == FS_PROP_DEFAULT);
	UNIT_CHECK(atomic_load(&ds->record_bytes) == 131072);
	UNIT_CHECK(fs_prop_set(r.fp, "tank", "readonly", "on", why, sizeof(why)) == 0);
	struct fs_node *root;
	UNIT_CHECK(fs_root(ds, &root) == 0);
	UNIT_CHECK(rig_create(root, "f", FS_REG, 0644, NULL) == -EROFS);
	UNIT_CHECK(rig_remove(r.root, "f") == -ENOENT);
	UNIT_CHECK(fs_prop_set(r.fp, "tank/a/b", "readonly", "off", why, sizeof(why)) == 0);
	UNIT_CHECK(rig_create(root, "f", FS_REG, 0644, NULL) == 0);
	/* datasets are worlds of their own */
	struct fs_node *f;
	UNIT_CHECK(rig_lookup(root, "f", &f) == 0);
	UNIT_CHECK(
	    rig_link(f, r.root, "f") == -EXDEV && rig_rename(root, "f", r.root, "f") == -EXDEV);
	struct fs_attr a = rig_attr(f), b = rig_attr(r.root);
	UNIT_CHECK(a.fsid != b.fsid && a.fsid != 0);
	fs_node_put(f);
	UNIT_CHECK(fs_ds_destroy(r.fp, "tank/a") == -EBUSY);
	UNIT_CHECK(fs_ds_destroy(r.fp, "tank/a/b") == 0);
	UNIT_CHECK(fs_node_get(ds, fs_node_object(root), 0, &f) == -ESTALE);
	UNIT_CHECK(rig_create(root, "g", FS_REG, 0644, NULL) == -ESTALE);
	UNIT_CHECK(rig_lookup(root, "f", &f) == -ESTALE);
	uint64_t guid = fs_ds_guid(ds);
	fs_node_put(root);
	fs_ds_close(ds);
	UNIT_CHECK(fs_ds_open_guid(r.fp, guid, &ds) == -ENOENT);
	UNIT_CHECK(fs_ds_destroy(r.fp, "tank") == -EBUSY);
	rig_close(&r);
}

static void
atime_run(void *arg)
{
	(void)arg;
	struct rig r;
	char why[200];
	uint8_t byte;
	rig_open(&r);
	struct fs_node *n;
	UNIT_CHECK(rig_create(r.root, "f", FS_REG, 0644, &n) == 0);
	UNIT_CHECK(rig_write(n, 0, "x", 1, FS_FILE_SYNC) == 0);
	struct fs_attr a = rig_attr(n), b;
	UNIT_CHECK(rig_read(n, 0, &byte, 1, NULL) == 1);
	b = rig_attr(n);
	UNIT_CHECK(fs_time_cmp(&a.atime, &b.atime) == 0);
	UNIT_CHECK(fs_prop_set(r.fp, "tank", "atime", "relatime", why, sizeof(why)) == 0);
	fiber_sleep(10);
	UNIT_CHECK(rig_read(n, 0, &byte, 1, NULL) == 1);
	b = rig_attr(n);
	UNIT_CHECK(fs_time_cmp(&b.atime, &a.atime) > 0 && fs_time_cmp(&b.ctime, &a.ctime) == 0);
	UNIT_CHECK(b.change == a.change);
	fiber_sleep(10);
	UNIT_CHECK(rig_read(n, 0, &byte, 1, NULL) == 1);
	a = rig_attr(n);
	UNIT_CHECK(fs_time_cmp(&b.atime, &a.atime) == 0);
	fiber_sleep(25ull * 3600 * NSEC_PER_SEC);
	UNIT_CHECK(rig_read(n, 0, &byte, 1, NULL) == 1);
	b = rig_attr(n);
	UNIT_CHECK(fs_time_cmp(&b.atime, &a.atime) > 0);
	UNIT_CHECK(fs_prop_set(r.fp, "tank", "atime", "on", why, sizeof(why)) == 0);
	fiber_sleep(10);
	UNIT_CHECK(rig_read(n, 0, &byte, 1, NULL) == 1);
	a = rig_attr(n);
	UNIT_CHECK(fs_time_cmp(&a.atime, &b.atime) > 0);
	fs_node_put(n);
	rig_close(&r);
}

/* ---- bytes ---- */

static void
inode_run(void *arg)
{
	(void)arg;
	uint8_t bonus[OBJECT_BONUS_BYTES], again[OBJECT_BONUS_BYTES];
	struct fs_inode in, out;
	uint32_t good = 0;
	for (uint32_t i = 0; i < 20000; i++) {
		memset(&in, 0, sizeof(in));
		in.type = (enum fs_type)(1 + rt_random_u64() % 7);
		in.mode = (uint32_t)(rt_random_u64() % 010000);
		in.nlink = 1 + (uint32_t)(rt_random_u64() % FS_LINKS_MAX);
		in.uid = (uint32_t)rt_random_u64();
		in.size = rt_random_u64() >> 1;
		in.change = rt_random_u64();
		in.mtime = (struct fs_time){
		    (int64_t)rt_random_u64(), (uint32_t)(rt_random_u64() % 1000000000)};
		rt_random_bytes(in.verf, sizeof(in.verf));
		inode_encode(&in, bonus);
		UNIT_CHECK(inode_decode(bonus, inode_object_type(in.type), &out) == 0);
		inode_encode(&out, again);
		UNIT_CHECK(memcmp(bonus, again, sizeof(bonus)) == 0);
		UNIT_CHECK(inode_decode(bonus, OBJ_TABLE, &out) == -ERR_CORRUPT);
		bonus[rt_random_u64() % sizeof(bonus)] = (uint8_t)rt_random_u64();
		good += inode_decode(bonus, inode_object_type(in.type), &out) == 0;
	}
	UNIT_CHECK(good > 0 && good < 20000);
}

static void
records_run(void *arg)
{
	(void)arg;
	struct rig r;
	rig_open(&r);
	struct fs_node *n;
	UNIT_CHECK(rig_create(r.root, "file", FS_REG, 0644, &n) == 0);
	UNIT_CHECK(rig_write(n, 7, "contents", 8, FS_FILE_SYNC) == 0);
	UNIT_CHECK(rig_rename(r.root, "file", r.root, "other") == 0);
	UNIT_CHECK(rig_symlink(r.root, "link", "target") == 0);
	UNIT_CHECK(rig_truncate(n, 2) == 0 && rig_remove(r.root, "other") == 0);
	fs_node_put(n);
	uint8_t *copy = mem_zalloc(8192);
	ASSERT(copy != NULL);
	for (uint64_t i = 0; i < fakepool_log_count(r.pool); i++) {
		uint16_t type;
		uint32_t len;
		struct log_decoded d;
		const void *payload = fakepool_log_payload(r.pool, i, &type, &len);
		UNIT_CHECK(log_decode(payload, len, type, &d) == 0);
		for (uint32_t cut = 0; cut < len; cut++) {
			UNIT_CHECK(log_decode(payload, cut, type, &d) == -ERR_CORRUPT);
		}
		UNIT_CHECK(log_decode(payload, len, (uint16_t)(type + 1), &d) == -ERR_CORRUPT);
		for (uint32_t round = 0; round < 5000; round++) {
			memcpy(copy, payload, len);
			copy[rt_random_u64() % len] = (uint8_t)rt_random_u64();
			if (log_decode(copy, len, type, &d) == 0) {
				const uint8_t *end = (const uint8_t *)d.data + d.data_len;
				UNIT_CHECK(end <= copy + len && d.inode_count <= LOG_INODES_MAX);
			}
		}
	}
	mem_free(copy);
	rig_close(&r);
}

static void
test_values(void)
{
	run_in_sim(values_run);
}

static void
test_inherit(void)
{
	run_in_sim(inherit_run);
}

static void
test_atime(void)
{
	run_in_sim(atime_run);
}

static void
test_inode(void)
{
	run_in_sim(inode_run);
}

static void
test_records(void)
{
	run_in_sim(records_run);
}

int
main(int argc, char **argv)
{
	static const struct unit_test tests[] = {
	    {"property values", test_values},
	    {"inheritance and datasets", test_inherit},
	    {"atime", test_atime},
	    {"inodes as bytes", test_inode},
	    {"log records as bytes", test_records},
	};
	return unit_main("fs_prop", tests, ARRAY_LEN(tests), argc, argv);
}
