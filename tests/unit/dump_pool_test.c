/*
 * agate-dump reads what the firmware has written: pools of several shapes are filled at random in
 * the simulation, with its rare paths on (gangs, small pieces, early folds), exported, and their
 * media written to image files. What the independent reader finds in these must be what fs/ said,
 * also with drives missing and with junk on some.
 */
#include <sys/stat.h>

#include "fs/fs.h"
#include "kernel-bypass/kb_sim.h"
#include "tests/lib/dump_text.h"
#include "tests/lib/fs_rig.h"
#include "tests/lib/fs_storm.h"
#include "tests/lib/unit.h"

#define DRIVES_MAX 14u
#define DRIVE_BYTES (64 * MIB)
#define OPS 250u
#define CHUNK 65536u

struct shape {
	const char *name;
	enum raidz_kind kind;
	uint32_t sets, width, parity, logs;
	const char *record;
};

struct world {
	const struct shape *shape;
	uint32_t count; /* drives */
	struct kb_sim_medium *media[DRIVES_MAX];
	struct kb_drive *drives[DRIVES_MAX];
	struct pool *pool;
	struct fs_pool *fp;
	struct storm storm;
	char *tank, *kid; /* the datasets as fs/ has them */
	char dir[64];
	char *paths[DRIVES_MAX];
};
static struct world w;

/* ---- making a pool ---- */

static void
pool_make(void)
{
	const struct shape *s = w.shape;
	struct pool_set_spec sets[4];
	struct pool_create_spec spec = {.name = "tank",
	    .sets = sets,
	    .set_count = s->sets,
	    .logs = w.drives + s->sets * s->width,
	    .log_count = s->logs,
	    .host_name = "here",
	    .host_id = 1};
	char why[256];

	for (uint32_t i = 0; i < w.count; i++) {
		int err = kb_sim_open(w.media[i], &w.drives[i]);
		ASSERT(err == 0);
	}
	for (uint32_t i = 0; i < s->sets; i++) {
		sets[i] =
		    (struct pool_set_spec){s->kind, s->parity, s->width, w.drives + i * s->width};
	}
	int err = pool_create(&spec, &w.pool, why, sizeof(why));
	ASSERT(err == 0);
}

/* A file of `len` bytes with holes, longer than one indirect block maps. */
static void
big_file(struct fs_node *root, uint32_t len)
{
	static uint8_t data[48 * 1024];
	struct fs_node *n;
	int err = rig_create(root, "big", FS_REG, 0644, &n);

	ASSERT(err == 0);
	for (uint32_t off = 0; off < len; off += 3 * (uint32_t)sizeof(data)) {
		for (size_t i = 0; i < sizeof(data); i++) {
			data[i] = (uint8_t)(off % 2 == 0 ? rt_random_u64() : i / 64);
		}
		err = rig_write(n, off, data, sizeof(data), FS_UNSTABLE);
		ASSERT(err == 0);
	}
	err = rig_truncate(n, len - 100000);
	ASSERT(err == 0);
	fs_node_put(n);
}

static void
fill(const char *dataset, uint32_t ops, char **out_text)
{
	int err = fs_ds_open(w.fp, dataset, &w.storm.ds);

	ASSERT(err == 0);
	err = fs_root(w.storm.ds, &w.storm.root);
	ASSERT(err == 0);
	for (uint32_t i = 0; i < ops; i++) {
		storm_op(&w.storm);
	}
	if (rig_exists(w.storm.root, "big")) {
		err = rig_remove(w.storm.root, "big");
		ASSERT(err == 0);
	}
	big_file(w.storm.root, 3u << 20);
	*out_text = rig_dump(w.storm.ds);
	fs_node_put(w.storm.root);
	fs_ds_close(w.storm.ds);
}

static void
world_main(void *arg)
{
	const char *const props[] = {"compression=zstd-3", "checksum=blake2b"};
	char why[200];

	(void)arg;
	pool_make();
	int err = fs_pool_open(w.pool, NULL, NULL, &w.fp);
	ASSERT(err == 0);
	err = fs_prop_set(w.fp, "tank", "recordsize", w.shape->record, why, sizeof(why));
	ASSERT(err == 0);
	err = fs_ds_create(w.fp, "tank/kid", props, 2, why, sizeof(why));
	ASSERT(err == 0);
	err = fs_ds_create(w.fp, "tank/gone", NULL, 0, why, sizeof(why));
	ASSERT(err == 0);
	char *gone;
	fill("tank", OPS, &w.tank);
	fill("tank/kid", OPS, &w.kid);
	fill("tank/gone", 20, &gone);
	mem_free(gone);
	err = fs_ds_destroy(w.fp, "tank/gone");
	ASSERT(err == 0);
	fs_pool_close(w.fp);
	err = pool_export(w.pool);
	ASSERT(err == 0);
}

/* ---- images ---- */

static void
image_write(uint32_t i)
{
	static uint8_t buf[CHUNK], zero[CHUNK];
	char path[128];
	FILE *f;

	(void)snprintf(path, sizeof(path), "%s/d%u.img", w.dir, i);
	w.paths[i] = mem_strdup(path);
	f = fopen(path, "w");
	ASSERT(w.paths[i] != NULL && f != NULL);
	for (uint64_t off = 0; off < DRIVE_BYTES; off += CHUNK) {
		kb_sim_peek(w.media[i], off, buf, CHUNK);
		if (memcmp(buf, zero, CHUNK) != 0) {
			ASSERT(pwrite(fileno(f), buf, CHUNK, (off_t)off) == (ssize_t)CHUNK);
		}
	}
	ASSERT(ftruncate(fileno(f), (off_t)DRIVE_BYTES) == 0);
	(void)fclose(f);
}

/* Junk over the middle of a drive: labels stay, columns go. */
static void
image_spoil(uint32_t i, uint64_t seed)
{
	static uint8_t junk[MIB];
	FILE *f = fopen(w.paths[i], "r+");

	ASSERT(f != NULL);
	for (uint64_t at = 3; at < DRIVE_BYTES / MIB - 3; at++) {
		for (size_t k = 0; k < sizeof(junk); k++) {
			seed = seed * 6364136223846793005ull + 1442695040888963407ull;
			junk[k] = (uint8_t)(seed >> 56);
		}
		ASSERT(pwrite(fileno(f), junk, sizeof(junk), (off_t)(at * MIB)) ==
		       (ssize_t)sizeof(junk));
	}
	(void)fclose(f);
}

static void
world_make(const struct shape *s, uint64_t seed)
{
	struct rt_options opt = unit_rt(true, 2, seed);

	memset(&w, 0, sizeof(w));
	w.shape = s;
	w.count = s->sets * s->width + s->logs;
	ASSERT(w.count <= DRIVES_MAX);
	opt.arena_bytes = 128 * MIB;
	bug_set_buggify(60);
	log_set_level(LOG_ERROR);
	for (uint32_t i = 0; i < w.count; i++) {
		char name[16];

		(void)snprintf(name, sizeof(name), "drive%u", i);
		w.media[i] = kb_sim_medium_create(name, DRIVE_BYTES);
		ASSERT(w.media[i] != NULL);
	}
	CU_ASSERT_EQUAL(rt_run(&opt, world_main, NULL), 0);
	w.tank = dump_text_of_rig(w.tank);
	w.kid = dump_text_of_rig(w.kid);
	(void)snprintf(w.dir, sizeof(w.dir), "%s/agate-dump-XXXXXX",
	    access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp");
	ASSERT(mkdtemp(w.dir) != NULL);
	for (uint32_t i = 0; i < w.count; i++) {
		image_write(i);
		kb_sim_medium_destroy(w.media[i]);
	}
}

static void
world_end(void)
{
	for (uint32_t i = 0; i < w.count; i++) {
		(void)unlink(w.paths[i]);
		mem_free(w.paths[i]);
	}
	(void)rmdir(w.dir);
	mem_free(w.tank);
	mem_free(w.kid);
}

/* ---- comparing ---- */

static void
same(char *const *paths, uint32_t count, const char *dataset, const char *want)
{
	char *got = dump_text_quietly(paths, count, dataset);

	CU_ASSERT_PTR_NOT_NULL(got);
	CU_ASSERT(got != NULL && rig_same(want, got));
	mem_free(got);
}

/* All images but those in `without`, in another order. */
static uint32_t
paths_without(uint32_t without, char *out[DRIVES_MAX])
{
	uint32_t n = 0;

	for (uint32_t i = w.count; i > 0; i--) {
		if ((without >> (i - 1) & 1) == 0) {
			out[n++] = w.paths[i - 1];
		}
	}
	return n;
}

static void
check_missing(void)
{
	const struct shape *s = w.shape;
	uint32_t may = s->kind == RAIDZ_KIND_MIRROR ? s->width - 1 : s->parity;
	char *paths[DRIVES_MAX];
	uint32_t n;

	for (uint32_t first = 0; first < s->width && may > 0; first++) {
		uint32_t mask = 0;

		for (uint32_t k = 0; k < may; k++) {
			mask |= 1u << (first + k) % s->width;
		}
		n = paths_without(mask << (s->sets - 1) * s->width | mask, paths);
		same(paths, n, "tank", w.tank);
		same(paths, n, "tank/kid", w.kid);
	}
	/* one more is too many: something must be missing, and be said */
	n = paths_without((1u << (may + 1)) - 1, paths);
	char *got = n > 0 ? dump_text_quietly(paths, n, "tank") : NULL;
	CU_ASSERT(got == NULL || strcmp(w.tank, got) != 0);
	mem_free(got);
}

static void
check_world(const struct shape *s, uint64_t seed)
{
	char *paths[DRIVES_MAX];
	uint32_t may = s->kind == RAIDZ_KIND_MIRROR ? s->width - 1 : s->parity;

	world_make(s, seed);
	CU_ASSERT(dump_text_space_agrees(w.paths, w.count));
	same(w.paths, w.count, "tank", w.tank);
	same(w.paths, w.count, "tank/kid", w.kid);
	/* invariant 3 of pool/README: the two roots before the newest are whole, too */
	uint64_t txg = dump_text_newest(w.paths, w.count);
	CU_ASSERT(txg > 3 && dump_text_is_whole(w.paths, w.count, "tank", txg - 1));
	CU_ASSERT(dump_text_is_whole(w.paths, w.count, "tank/kid", txg - 2));
	dump_text_everything(w.paths, w.count, "tank");
	check_missing();
	for (uint32_t i = 0; i < may; i++) {
		image_spoil(i, seed + i);
	}
	same(paths, paths_without(0, paths), "tank", w.tank);
	same(paths, paths_without(0, paths), "tank/kid", w.kid);
	world_end();
}

static const struct shape single = {"single", RAIDZ_KIND_MIRROR, 1, 1, 0, 0, "16K"};
static const struct shape mirrors = {"mirrors", RAIDZ_KIND_MIRROR, 2, 2, 0, 1, "4K"};
static const struct shape six_one = {"6+1", RAIDZ_KIND_PARITY, 1, 7, 1, 2, "128K"};
static const struct shape three_two = {"3+2", RAIDZ_KIND_PARITY, 2, 5, 2, 0, "4K"};
static const struct shape five_three = {"5+3", RAIDZ_KIND_PARITY, 1, 8, 3, 0, "1M"};

static void
test_single(void)
{
	check_world(&single, unit_seed(1));
}

static void
test_mirrors(void)
{
	check_world(&mirrors, unit_seed(2));
}

static void
test_six_one(void)
{
	check_world(&six_one, unit_seed(3));
}

static void
test_three_two(void)
{
	check_world(&three_two, unit_seed(4));
}

static void
test_five_three(void)
{
	check_world(&five_three, unit_seed(5));
}

/* The tests before have met what they are there for. */
static void
test_rare_paths(void)
{
	CU_ASSERT(dump_text_gangs() > 0);
}

int
main(int argc, char **argv)
{
	static const struct unit_test tests[] = {
	    {"a single drive", test_single},
	    {"two mirrors and a log", test_mirrors},
	    {"6+1 and a mirrored log", test_six_one},
	    {"two sets of 3+2", test_three_two},
	    {"5+3", test_five_three},
	    {"gangs were among what was read", test_rare_paths},
	};

	return unit_main("dump_pool", tests, ARRAY_LEN(tests), argc, argv);
}
