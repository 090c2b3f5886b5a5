/*
 * golden_make DIR - makes the pool of a golden image in the simulation: seven drives in a 6+1 set
 * and two log drives, files of every kind, snapshots (with sorted and unsorted deadlists, one held,
 * one between destroyed ones), a clone, and a few changes that are in the log only. Writes
 * DIR/d0.img ... DIR/d8.img as they would be found after a power cut. See tests/golden/README.md.
 */
#include "fs/fs.h"
#include "kernel-bypass/kb_sim.h"
#include "tests/lib/fs_rig.h"
#include "tests/lib/unit.h"

#define SET_DRIVES 7u
#define DRIVES 9u
#define DRIVE_BYTES (64 * MIB)
#define CHUNK 65536u
#define SEED 20260101u

static struct kb_sim_medium *media[DRIVES];
static struct kb_drive *drives[DRIVES];
static struct pool *pool;
static struct fs_pool *fp;
static const char *out_dir;

static void
must(int err)
{
	ASSERT(err == 0);
}

static uint32_t
reply(void *arg UNUSED, const struct fs_result *res UNUSED, uint8_t *out, uint32_t cap)
{
	ASSERT(cap >= 8);
	memcpy(out, "reply to", 8);
	return 8;
}

/* A file that a client asked for, whose reply is kept. */
static struct fs_node *
asked_file(struct fs_node *dir, const char *name, uint32_t xid)
{
	struct fs_origin origin = {
	    .addr = {0xfd, 1}, .xid = xid, .prog = 100003, .vers = 3, .proc = 8, .arg_hash = {7}};
	struct fs_req req = rig_as(0, 0);
	struct fs_node *n;

	req.origin = &origin;
	req.reply = reply;
	must(rig_create_as(&req, dir, name, FS_REG, 0644, &n));
	return n;
}

/* A little of each sector is random, the rest a pattern. */
static void
contents(struct fs_node *n, uint64_t off, uint32_t len)
{
	static uint8_t data[65536];

	for (uint32_t done = 0; done < len;) {
		uint32_t part = (uint32_t)MIN(len - done, sizeof(data));

		for (uint32_t i = 0; i < part; i++) {
			data[i] = (uint8_t)(i % 4096 < 64 ? rt_random_u64() : i / 4096);
		}
		must(rig_write(n, off + done, data, part, FS_UNSTABLE));
		done += part;
	}
}

static struct fs_node *
file(struct fs_node *dir, const char *name, uint32_t len)
{
	struct fs_node *n;

	must(rig_create(dir, name, FS_REG, 0640, &n));
	if (len > 0) {
		contents(n, 0, len);
	}
	return n;
}

static void
odd_attributes(struct fs_node *n)
{
	struct fs_req req = rig_as(0, 0);
	struct fs_sattr set = {.set_mode = true,
	    .mode = 06755,
	    .set_uid = true,
	    .uid = 4294967294u,
	    .set_gid = true,
	    .gid = 1000,
	    .atime_how = FS_TIME_CLIENT,
	    .atime = {-300000000, 1},
	    .mtime_how = FS_TIME_CLIENT,
	    .mtime = {16725225600, 999999999}};
	struct fs_result res;

	must(fs_setattr(n, &req, &set, NULL, &res));
}

static void
special_files(struct fs_node *root)
{
	struct fs_req req = rig_as(0, 0);
	struct fs_create_args args = {.type = FS_CHR,
	    .how = FS_CREATE_GUARDED,
	    .set = {.set_mode = true, .mode = 0600},
	    .rdev_major = 4,
	    .rdev_minor = 65};
	struct fs_result res;

	must(fs_create(root, &req, "tty", 3, &args, NULL, &res));
	args.type = FS_FIFO;
	must(fs_create(root, &req, "fifo", 4, &args, NULL, &res));
	must(rig_symlink(root, "link", "files/../hello"));
	must(rig_symlink(root, "odd \n\\ \xff name", "there is no such place"));
}

/* Enough names for a tree of two levels, and some removed again. */
static void
large_directory(struct fs_node *root)
{
	struct fs_node *dir, *n;
	char name[256];

	must(rig_create(root, "many", FS_DIR, 0755, &dir));
	for (unsigned i = 0; i < 400; i++) {
		(void)snprintf(name, sizeof(name), "entry-%03u-%0*u", i, (int)(i % 90) + 1, i);
		n = file(dir, name, 0);
		fs_node_put(n);
	}
	for (unsigned i = 0; i < 400; i += 7) {
		(void)snprintf(name, sizeof(name), "entry-%03u-%0*u", i, (int)(i % 90) + 1, i);
		must(rig_remove(dir, name));
	}
	fs_node_put(dir);
}

static void
fill_root(struct fs_node *root)
{
	struct fs_node *dir, *n = file(root, "hello", 0);

	must(rig_write(n, 0, "Hello, reader.\n", 15, FS_FILE_SYNC));
	must(rig_create(root, "files", FS_DIR, 02775, &dir));
	must(rig_link(n, dir, "hello again"));
	fs_node_put(n);
	n = file(dir, "block", 5000);
	odd_attributes(n);
	fs_node_put(n);
	fs_node_put(file(dir, "records", 400000));
	n = file(dir, "holes", 10);
	contents(n, 1 << 20, 4096);
	must(rig_truncate(n, (uint64_t)1 << 40));
	fs_node_put(n);
	fs_node_put(dir);
	fs_node_put(asked_file(root, "asked", 77));
	special_files(root);
	large_directory(root);
}

static void
in_dataset(const char *path, void (*fill)(struct fs_node *root))
{
	struct fs_node *root;
	struct fs_ds *ds;

	must(fs_ds_open(fp, path, &ds));
	must(fs_root(ds, &root));
	fill(root);
	fs_node_put(root);
	fs_ds_close(ds);
}

/* Small records: a tree with indirect blocks. */
static void
fill_small(struct fs_node *root)
{
	struct fs_node *n = file(root, "tree", 0);

	for (uint64_t off = 0; off < 3000000; off += 90000) {
		contents(n, off, 9000);
	}
	must(rig_truncate(n, 2500000));
	fs_node_put(n);
}

/* What only the log knows. */
static void
fill_late(struct fs_node *root)
{
	struct fs_node *n = asked_file(root, "late", 78);

	must(rig_write(n, 0, "only in the log\n", 16, FS_FILE_SYNC));
	fs_node_put(n);
	must(rig_rename(root, "hello", root, "hello there"));
}

/* ---- snapshots ---- */

static void
snap(const char *a, const char *b)
{
	const char *names[] = {a, b};
	uint32_t bad;

	must(pool_snap_create(pool, names, b != NULL ? 2 : 1, &bad));
}

static void
snap_gone(const char *name)
{
	const char *names[] = {name};
	uint32_t bad;

	must(pool_snap_destroy(pool, names, 1, &bad));
}

/* Old contents go; the first time a file, and its number is used again. */
static void
change_first(struct fs_node *root)
{
	struct fs_node *dir, *n;

	must(rig_lookup(root, "files", &dir));
	must(rig_lookup(dir, "records", &n));
	contents(n, 131072, 131072);
	must(rig_truncate(n, 300000));
	fs_node_put(n);
	if (rig_exists(dir, "block")) {
		must(rig_remove(dir, "block"));
		must(pool_sync(pool));
		fs_node_put(file(dir, "instead of block", 20000));
	}
	fs_node_put(dir);
}

static void
change_small(struct fs_node *root)
{
	struct fs_node *n;

	must(rig_lookup(root, "tree", &n));
	for (uint64_t off = 0; off < 2000000; off += 270000) {
		contents(n, off, 4096);
	}
	fs_node_put(n);
}

static void
change_clone(struct fs_node *root)
{
	struct fs_node *n = file(root, "only in the clone", 9000);

	fs_node_put(n);
	must(rig_remove(root, "asked"));
}

static int
ignore(void *arg UNUSED, const struct pool_snap_info *s UNUSED)
{
	return 0;
}

/* One way through all of it; the last changes are in recent lists, not sorted. */
static void
snapshots(void)
{
	struct pool_ds *clone;

	snap("golden@first", "golden/small@first");
	in_dataset("golden", change_first);
	in_dataset("golden/small", change_small);
	must(pool_sync(pool));
	snap("golden@gone", NULL);
	in_dataset("golden", change_first);
	must(pool_sync(pool));
	snap("golden@second", "golden/small@second");
	in_dataset("golden", change_first);
	must(pool_sync(pool));
	snap_gone("golden@gone");
	must(pool_snap_each(pool, "golden", POOL_SNAP_UNIQUE, ignore, NULL));
	must(pool_snap_hold(pool, "golden@second", "a tag"));
	must(pool_ds_clone(pool, "golden@first", "golden/clone", &clone));
	pool_ds_close(clone);
	fs_pool_close(fp);
	must(fs_pool_open(pool, NULL, NULL, &fp));
	in_dataset("golden/clone", change_clone);
	in_dataset("golden/small", change_small);
	must(pool_sync(pool));
}

static void
image_write(uint32_t i)
{
	static uint8_t buf[CHUNK], zero[CHUNK];
	char path[1024];
	FILE *f;

	(void)snprintf(path, sizeof(path), "%s/d%u.img", out_dir, i);
	f = fopen(path, "w");
	ASSERT(f != NULL);
	for (uint64_t off = 0; off < DRIVE_BYTES; off += CHUNK) {
		kb_sim_peek(media[i], off, buf, CHUNK);
		if (memcmp(buf, zero, CHUNK) != 0) {
			ASSERT(pwrite(fileno(f), buf, CHUNK, (off_t)off) == (ssize_t)CHUNK);
		}
	}
	ASSERT(ftruncate(fileno(f), (off_t)DRIVE_BYTES) == 0);
	(void)fclose(f);
}

static void
golden_main(void *arg UNUSED)
{
	static const char *const props[] = {
	    "recordsize=4K", "compression=zstd-3", "checksum=blake2b"};
	struct pool_set_spec set = {RAIDZ_KIND_PARITY, 1, SET_DRIVES, drives};
	struct pool_create_spec spec = {.name = "golden",
	    .sets = &set,
	    .set_count = 1,
	    .logs = drives + SET_DRIVES,
	    .log_count = DRIVES - SET_DRIVES,
	    .host_name = "maker",
	    .host_id = 1};
	char why[256] = "";

	for (uint32_t i = 0; i < DRIVES; i++) {
		must(kb_sim_open(media[i], &drives[i]));
	}
	int err = pool_create(&spec, &pool, why, sizeof(why));
	if (err != 0) {
		(void)fprintf(stderr, "golden_make: %s\n", why);
	}
	must(err);
	must(fs_pool_open(pool, NULL, NULL, &fp));
	must(fs_prop_set(fp, "golden", "compression", "lz4", why, sizeof(why)));
	must(fs_ds_create(fp, "golden/small", props, 3, why, sizeof(why)));
	must(fs_prop_set(fp, "golden", "userquota@4294967294", "10M", why, sizeof(why)));
	must(fs_prop_set(fp, "golden", "defaultgroupobjquota", "100000", why, sizeof(why)));
	/* so that the log isn't full of what the root has */
	must(fs_prop_set(fp, "golden", "sync", "disabled", why, sizeof(why)));
	in_dataset("golden", fill_root);
	in_dataset("golden/small", fill_small);
	snapshots();
	must(fs_prop_set(fp, "golden", "sync", NULL, why, sizeof(why)));
	must(pool_sync(pool));
	in_dataset("golden", fill_late);
	for (uint32_t i = 0; i < DRIVES; i++) {
		image_write(i);
	}
	fs_pool_close(fp);
	must(pool_export(pool));
}

int
main(int argc, char **argv)
{
	struct rt_options opt = unit_rt(true, 1, SEED);

	if (argc != 2) {
		(void)fprintf(stderr, "usage: golden_make DIR\n");
		return 2;
	}
	out_dir = argv[1];
	opt.arena_bytes = 128 * MIB;
	for (uint32_t i = 0; i < DRIVES; i++) {
		char name[16];

		(void)snprintf(name, sizeof(name), "drive%u", i);
		media[i] = kb_sim_medium_create(name, DRIVE_BYTES);
		ASSERT(media[i] != NULL);
	}
	return rt_run(&opt, golden_main, NULL) == 0 ? 0 : 1;
}
