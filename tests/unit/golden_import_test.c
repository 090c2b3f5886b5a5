/*
 * The firmware takes up pools that earlier firmware wrote, replays their logs, finds every file as
 * it was, and leaves nothing to complain about: the golden images, put onto simulated drives.
 */
#include <fcntl.h>

#include "kernel-bypass/kb_sim.h"
#include "tests/lib/fs_rig.h"
#include "tests/lib/golden.h"
#include "tests/lib/unit.h"

#define DRIVES_MAX 16u
#define CHUNK (64 * KIB)

static const struct golden *g;
static struct kb_sim_medium *media[DRIVES_MAX];

static void
must(int err)
{
	ASSERT(err == 0);
}

static void
print_problem(void *arg UNUSED, const char *what)
{
	(void)fprintf(stderr, "\n  %s", what);
}

/* xid 77 is in the root, 78 in the log. */
static void
reply_found(void *arg, const struct fs_origin *o, const void *reply, uint32_t len)
{
	uint32_t *found = arg;

	UNIT_CHECK((o->xid == 77 || o->xid == 78) && o->addr[0] == 0xfd && o->arg_hash[0] == 7);
	UNIT_CHECK(len == 8 && memcmp(reply, "reply to", 8) == 0);
	*found |= 1u << (o->xid & 1);
}

static void
image_load(uint32_t i, struct kb_drive *d)
{
	static uint8_t zero[CHUNK];
	struct iobuf *buf;
	char path[16];

	(void)snprintf(path, sizeof(path), "d%u.img", i);
	int fd = open(path, O_RDONLY);
	ASSERT(fd >= 0);
	must(iobuf_alloc(CHUNK, ARENA_REPAIR, &buf));
	for (uint64_t off = 0; off < g->drive_bytes; off += CHUNK) {
		ASSERT(pread(fd, buf->data, CHUNK, (off_t)off) == (ssize_t)CHUNK);
		if (memcmp(buf->data, zero, CHUNK) != 0) {
			must(kb_write(d, off, buf, CHUNK, 0));
		}
	}
	must(kb_flush(d));
	iobuf_unref(buf);
	(void)close(fd);
}

static void
look(struct fs_ds *ds)
{
	struct fs_node *root, *n;
	char text[64] = {0};

	must(fs_root(ds, &root));
	/* only the log knew of these */
	UNIT_CHECK(!rig_exists(root, "hello"));
	must(rig_lookup(root, "hello there", &n));
	UNIT_CHECK(rig_read(n, 0, text, sizeof(text), NULL) == 15);
	UNIT_CHECK(strcmp(text, "Hello, reader.\n") == 0);
	fs_node_put(n);
	must(rig_lookup(root, "late", &n));
	memset(text, 0, sizeof(text));
	UNIT_CHECK(rig_read(n, 0, text, sizeof(text), NULL) == 16);
	UNIT_CHECK(strcmp(text, "only in the log\n") == 0);
	fs_node_put(n);
	fs_node_put(root);
}

static int
count_snap(void *arg, const struct pool_snap_info *s UNUSED)
{
	++*(uint32_t *)arg;
	return 0;
}

/* Snapshots are there, can be read, and can go: all space of theirs comes back. */
static void
look_snapshots(struct pool *pool)
{
	const char *free_ones[] = {"golden/small@first", "golden/small@second"};
	const char *held[] = {"golden@second"};
	struct pool_ds_info info;
	struct pool_ds *ds;
	uint32_t count = 0, bad;

	must(pool_snap_each(pool, "golden", 0, count_snap, &count));
	UNIT_CHECK(count == 2);
	must(pool_snap_open(pool, "golden@first", &ds));
	UNIT_CHECK(pool_ds_root_object(ds) != 0);
	pool_ds_close(ds);
	must(pool_ds_open(pool, "golden/clone", &ds));
	pool_ds_get_info(ds, &info);
	UNIT_CHECK(strcmp(info.origin, "golden@first") == 0);
	pool_ds_close(ds);
	UNIT_CHECK(pool_snap_destroy(pool, held, 1, &bad) == -EBUSY);
	must(pool_snap_destroy(pool, free_ones, 2, &bad));
	must(pool_ds_open(pool, "golden/small", &ds));
	must(pool_sync(pool));
	pool_ds_get_info(ds, &info);
	UNIT_CHECK(info.snapshots_bytes == 0 && info.snapshot_count == 0);
	pool_ds_close(ds);
	must(pool_snap_release(pool, held[0], "a tag"));
	must(pool_snap_destroy(pool, held, 1, &bad));
}

/* Everything an old image has is counted, and right. */
static void
upgrade(struct pool *pool)
{
	struct pool_ds *ds;
	uint64_t fresh, count = 0;
	unsigned percent;

	must(pool_upgrade(pool, &fresh));
	must(pool_ds_open(pool, "golden", &ds));
	while (pool_accounts_state(ds, &percent) == -EAGAIN) {
		must(pool_sync(pool));
	}
	must(pool_accounts_state(ds, &percent));
	struct pool_account a;
	must(pool_account_get(ds, POOL_ACCOUNT_GROUP, 1000, &a));
	UNIT_CHECK(a.objects == 1 || g != &goldens[0]); /* "block" */
	must(pool_account_get(ds, POOL_ACCOUNT_USER, 0, &a));
	UNIT_CHECK(a.objects > 300 && a.bytes > 30000);
	pool_ds_close(ds);
	UNIT_CHECK(pool_check(pool, print_problem, NULL, &count) == 0 && count == 0);
}

static void
import_main(void *arg UNUSED)
{
	struct kb_drive *drives[DRIVES_MAX];
	struct pool_import_spec spec = {
	    .drives = drives, .drive_count = g->drives, .host_name = "other", .host_id = 2};
	struct pool_import_result result;
	struct pool_label_info info;
	struct pool *pool;
	struct fs_pool *fp;
	struct fs_ds *ds;
	uint64_t count = 0;
	uint32_t replies = 0;

	for (uint32_t i = 0; i < g->drives; i++) {
		must(kb_sim_open(media[i], &drives[i]));
		image_load(i, drives[i]);
	}
	must(pool_label_probe(drives[0], &info));
	spec.pool_guid = info.pool_guid;
	int err = pool_import(&spec, &pool, &result);
	if (err != 0) {
		(void)fprintf(stderr, "\n  import: %s", result.why);
	}
	must(err);
	UNIT_CHECK(result.roots_skipped == 0 && result.missing_drives == 0 && result.log_pending);
	must(fs_pool_open(pool, reply_found, &replies, &fp));
	UNIT_CHECK(replies == 3);
	must(fs_ds_open(fp, "golden", &ds));
	look(ds);
	char *text = rig_dump(ds); /* every block is read */
	mem_free(text);
	fs_ds_close(ds);
	if ((pool_features(pool) & FEATURE_RO_SNAPSHOTS) != 0) {
		look_snapshots(pool);
	}
	must(pool_sync(pool));
	UNIT_CHECK(fs_check(fp, print_problem, NULL, &count) == 0 && count == 0);
	UNIT_CHECK(pool_check(pool, print_problem, NULL, &count) == 0 && count == 0);
	upgrade(pool);
	fs_pool_close(fp);
	must(pool_export(pool));
}

static void
test_import(void)
{
	for (size_t k = 0; k < GOLDENS; k++) {
		struct rt_options opt = unit_rt(true, 2, 1);
		char dir[GOLDEN_DIR];

		g = &goldens[k];
		ASSERT(g->drives <= DRIVES_MAX);
		opt.arena_bytes = 128 * MIB;
		log_set_level(LOG_ERROR);
		golden_unpack(g, dir);
		for (uint32_t i = 0; i < g->drives; i++) {
			char name[16];

			(void)snprintf(name, sizeof(name), "drive%u", i);
			media[i] = kb_sim_medium_create(name, g->drive_bytes);
			ASSERT(media[i] != NULL);
		}
		CU_ASSERT_EQUAL(rt_run(&opt, import_main, NULL), 0);
		for (uint32_t i = 0; i < g->drives; i++) {
			kb_sim_medium_destroy(media[i]);
		}
		golden_clean_up(g, dir);
	}
}

int
main(int argc, char **argv)
{
	static const struct unit_test tests[] = {{"golden images are taken up", test_import}};

	return unit_main("golden_import", tests, ARRAY_LEN(tests), argc, argv);
}
