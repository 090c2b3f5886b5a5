/*
 * fs/ on the real pool and simulated drives, with power cuts. Each actor works in a directory of
 * its own and knows what it was told: after a cut the directory must be as it was when the last
 * reply came, or as the operation under way would have made it; a file must hold one of its states
 * since it was last stable. fs_check and pool_check find nothing. Cuts also hit import and replay.
 */
#include "fs/fs_int.h"
#include "kernel-bypass/kb_sim.h"
#include "tests/lib/fs_storm.h"
#include "tests/lib/unit.h"

#define ACTORS 4u
#define STORMS 3u /* fibers that do anything at all in one directory; only fs_check judges them */
#define NAMES 6u
#define FILES 256u /* of one actor between two lives; more than it can make */
#define FILE_BYTES 12288u
#define VERSIONS 24u
#define DRIVES 5u /* three of data, two of log */
#define DRIVE_BYTES (96 * MIB)
#define NO_FILE UINT32_MAX
#define OPS 200u

struct version {
	uint32_t size, mode;
	uint64_t sum;
};

struct file_model {
	uint8_t bytes[FILE_BYTES];
	uint32_t size, mode;
	struct version versions[VERSIONS]; /* from the last stable state to the newest */
	uint32_t count;
};

struct actor {
	uint32_t map[NAMES],
	    pending[NAMES]; /* name -> file, before and after the operation under way */
	struct file_model files[FILES];
	uint32_t file_count;
	uint64_t replies;
	bool made; /* its directory was acknowledged */
};

struct world {
	uint64_t seed;
	struct kb_sim_medium *media[DRIVES];
	struct kb_drive *drives[DRIVES];
	struct actor actors[ACTORS];
	bool created, last;
	uint32_t life;
	/* of one life */
	struct pool *pool;
	struct fs_pool *fp;
	struct fs_ds *ds;
	struct fs_node *root;
	struct storm storm;
	struct waitgroup wg;
};

static struct world world;

static uint32_t
rnd(uint32_t n)
{
	return (uint32_t)(rt_random_u64() % n);
}

/* ---- the model ---- */

static uint64_t
sum_of(const uint8_t *bytes, uint32_t len)
{
	uint64_t sum = 14695981039346656037ull;
	for (uint32_t i = 0; i < len; i++) {
		sum = (sum ^ bytes[i]) * 1099511628211ull;
	}
	return sum;
}

static void
version_add(struct file_model *f)
{
	ASSERT(f->count < VERSIONS);
	f->versions[f->count++] =
	    (struct version){.size = f->size, .mode = f->mode, .sum = sum_of(f->bytes, f->size)};
}

static void
version_stable(struct file_model *f)
{
	f->versions[0] = f->versions[f->count - 1];
	f->count = 1;
}

static bool
version_matches(const struct file_model *f, const struct fs_attr *a, const uint8_t *bytes)
{
	uint64_t sum = sum_of(bytes, (uint32_t)a->size);
	for (uint32_t i = 0; i < f->count; i++) {
		const struct version *v = &f->versions[i];
		if (v->size == a->size && v->mode == a->mode && v->sum == sum) {
			return true;
		}
	}
	return false;
}

/* ---- operations ---- */

static struct fs_req
request(void)
{
	return (struct fs_req){.cred = {.uid = 0}};
}

static uint32_t
name_text(uint32_t i, char *out)
{
	return (uint32_t)sprintf(out, "file%u", i);
}

static struct fs_node *
find(struct fs_node *dir, uint32_t i)
{
	char name[16];
	struct fs_cred cred = {.uid = 0};
	struct fs_node *n = NULL;
	int err = fs_lookup(dir, &cred, name, name_text(i, name), &n);
	ASSERT(err == 0 || err == -ENOENT);
	return err == 0 ? n : NULL;
}

static void
pending_settle(struct actor *a)
{
	memcpy(a->map, a->pending, sizeof(a->map));
	a->replies++;
}

static void
do_create(struct actor *a, struct fs_node *dir, uint32_t i)
{
	char name[16];
	struct fs_result res;
	struct fs_req req = request();
	struct fs_create_args args = {
	    .type = FS_REG, .how = FS_CREATE_GUARDED, .set = {.set_mode = true, .mode = rnd(512)}};
	struct file_model *f = &a->files[a->file_count];
	ASSERT(a->file_count < FILES);
	memset(f, 0, sizeof(*f));
	f->mode = args.set.mode;
	version_add(f);
	a->pending[i] = a->file_count++;
	int err = fs_create(dir, &req, name, name_text(i, name), &args, NULL, &res);
	ASSERT(err == 0);
	pending_settle(a);
}

static void
do_remove(struct actor *a, struct fs_node *dir, uint32_t i)
{
	char name[16];
	struct fs_result res;
	struct fs_req req = request();
	a->pending[i] = NO_FILE;
	int err = fs_remove(dir, &req, name, name_text(i, name), &res);
	ASSERT(err == 0);
	pending_settle(a);
}

static void
do_rename(struct actor *a, struct fs_node *dir, uint32_t i, uint32_t j)
{
	char from[16], to[16];
	struct fs_result res;
	struct fs_req req = request();
	if (i == j) {
		return;
	}
	struct file_model *f = &a->files[a->map[i]];
	a->pending[j] = a->map[i];
	a->pending[i] = NO_FILE;
	int err = fs_rename(dir, from, name_text(i, from), dir, to, name_text(j, to), &req, &res);
	ASSERT(err == 0);
	pending_settle(a);
	version_stable(f); /* the record names the file */
}

static void
do_write(struct actor *a, struct fs_node *n, struct file_model *f)
{
	uint32_t off = rnd(2) ? rnd(300) : rnd(FILE_BYTES / 2),
		 len = 1 + rnd(rnd(2) ? 200 : FILE_BYTES / 2);
	enum fs_stable how = rnd(3) ? FS_UNSTABLE : FS_FILE_SYNC;
	struct iobuf *buf;
	struct fs_result res;
	struct fs_req req = request();
	int err = iobuf_alloc(FILE_BYTES, ARENA_RECV, &buf);
	ASSERT(err == 0);
	memset(buf->data, 1 + (int)rnd(250), len);
	memcpy(f->bytes + off, buf->data, len);
	f->size = MAX(f->size, off + len);
	version_add(f);
	struct iovec iov = {.iov_base = buf->data, .iov_len = len};
	err = fs_write(n, &req, off, &iov, 1, rnd(2) ? buf : NULL, how, &res);
	ASSERT(err == 0);
	iobuf_unref(buf);
	ASSERT(res.stable == (how != FS_UNSTABLE));
	if (res.stable) {
		version_stable(f);
	}
	a->replies++;
}

static void
do_setattr(struct actor *a, struct fs_node *n, struct file_model *f)
{
	struct fs_sattr set = {.set_mode = true, .mode = rnd(512)};
	struct fs_result res;
	struct fs_req req = request();
	if (rnd(2)) {
		set = (struct fs_sattr){.set_size = true, .size = rnd(rnd(2) ? 300 : FILE_BYTES)};
		uint32_t keep = MIN(f->size, (uint32_t)set.size);
		memset(f->bytes + keep, 0, FILE_BYTES - keep);
		f->size = (uint32_t)set.size;
	} else {
		f->mode = set.mode;
	}
	version_add(f);
	int err = fs_setattr(n, &req, &set, NULL, &res);
	ASSERT(err == 0);
	version_stable(f);
	a->replies++;
}

static void
do_commit(struct actor *a, struct fs_node *n, struct file_model *f)
{
	struct fs_result res;
	int err = fs_commit(n, &res);
	ASSERT(err == 0);
	version_stable(f);
	a->replies++;
}

static void
do_something(struct actor *a, struct fs_node *dir)
{
	uint32_t i = rnd(NAMES), what = rnd(16);
	if (a->map[i] == NO_FILE) {
		if (a->file_count < FILES) {
			do_create(a, dir, i);
		}
		return;
	}
	struct file_model *f = &a->files[a->map[i]];
	if (what < 2) {
		do_remove(a, dir, i);
	} else if (what < 4) {
		do_rename(a, dir, i, rnd(NAMES));
	} else {
		struct fs_node *n = find(dir, i);
		ASSERT(n != NULL);
		if (f->count > VERSIONS - 2 || what == 4) {
			do_commit(a, n, f);
		} else if (what < 7) {
			do_setattr(a, n, f);
		} else {
			do_write(a, n, f);
		}
		fs_node_put(n);
	}
}

/* ---- after a cut ---- */

static void
read_all(struct fs_node *n, uint8_t *out, uint32_t cap)
{
	struct fs_cred cred = {.uid = 0};
	struct pool_slice slices[16];
	struct fs_attr a;
	uint32_t count = 0, len = 0, at = 0;
	bool eof;
	int err = fs_read(n, &cred, 0, cap, slices, ARRAY_LEN(slices), &count, &len, &eof, &a);
	ASSERT(err == 0);
	for (uint32_t i = 0; i < count; i++) {
		if (slices[i].buf != NULL) {
			memcpy(out + at, slices[i].buf->data + slices[i].off_bytes,
			    slices[i].len_bytes);
			iobuf_unref(slices[i].buf);
		} else {
			memset(out + at, 0, slices[i].len_bytes);
		}
		at += slices[i].len_bytes;
	}
}

/* Is the directory what map says? Prints nothing: there may be another hypothesis. */
static bool
dir_matches(struct actor *a, struct fs_node *dir, const uint32_t *map)
{
	static uint8_t bytes[FILE_BYTES];
	for (uint32_t i = 0; i < NAMES; i++) {
		struct fs_node *n = find(dir, i);
		bool ok = (n != NULL) == (map[i] != NO_FILE);
		if (n != NULL && ok) {
			struct fs_attr attr;
			fs_getattr(n, &attr);
			ok = attr.size <= FILE_BYTES;
			if (ok) {
				read_all(n, bytes, FILE_BYTES);
				ok = version_matches(&a->files[map[i]], &attr, bytes);
			}
		}
		fs_node_put(n);
		if (!ok) {
			return false;
		}
	}
	return true;
}

/* The model starts again from what there is. */
static void
actor_resync(struct actor *a, struct fs_node *dir)
{
	memset(a->files, 0, sizeof(a->files));
	a->file_count = 0;
	for (uint32_t i = 0; i < NAMES; i++) {
		struct fs_node *n = find(dir, i);
		a->map[i] = a->pending[i] = NO_FILE;
		if (n != NULL) {
			struct file_model *f = &a->files[a->file_count];
			struct fs_attr attr;
			fs_getattr(n, &attr);
			f->size = (uint32_t)attr.size;
			f->mode = attr.mode;
			read_all(n, f->bytes, FILE_BYTES);
			version_add(f);
			a->map[i] = a->pending[i] = a->file_count++;
			fs_node_put(n);
		}
	}
}

static void
print_problem(void *arg, const char *what)
{
	(void)arg;
	fprintf(stderr, "\n  %s", what);
}

static void
world_check(struct world *w)
{
	uint64_t count = 99;
	int err = fs_check(w->fp, print_problem, NULL, &count);
	ASSERT(err == 0);
	UNIT_CHECK(count == 0);
	err = pool_check(w->pool, print_problem, NULL, &count);
	ASSERT(err == 0);
	UNIT_CHECK(count == 0);
}

/* ---- a life ---- */

static void
drives_open(struct world *w)
{
	for (uint32_t i = 0; i < DRIVES; i++) {
		int err = kb_sim_open(w->media[i], &w->drives[i]);
		ASSERT(err == 0);
	}
}

static bool
world_create(struct world *w)
{
	struct pool_set_spec set = {RAIDZ_KIND_PARITY, 1, 3, w->drives};
	struct pool_create_spec spec = {.name = "tank",
	    .sets = &set,
	    .set_count = 1,
	    .logs = w->drives + 3,
	    .log_count = 2,
	    .host_name = "here",
	    .host_id = 1};
	char why[200];
	int err = pool_create(&spec, &w->pool, why, sizeof(why));
	ASSERT(err == 0);
	w->created = true;
	return true;
}

static bool
world_import(struct world *w)
{
	struct pool_label_info info;
	struct pool_import_result result;
	int err = pool_label_probe(w->drives[0], &info);
	if (err != 0 && !w->created) {
		return world_create(w); /* cut before the pool was */
	}
	ASSERT(err == 0);
	struct pool_import_spec spec = {.pool_guid = info.pool_guid,
	    .drives = w->drives,
	    .drive_count = DRIVES,
	    .host_name = "here",
	    .host_id = 1};
	err = pool_import(&spec, &w->pool, &result);
	if (err != 0 && !w->created) {
		return world_create(w);
	}
	if (err != 0) {
		fprintf(stderr, "\n  import: %s: %s", err_str(err), result.why);
	}
	ASSERT(err == 0);
	return true;
}

static void
actor_verify(struct world *w, uint32_t id)
{
	char name[16];
	struct actor *a = &w->actors[id];
	struct fs_cred cred = {.uid = 0};
	struct fs_req req = request();
	struct fs_node *dir;
	uint32_t len = (uint32_t)sprintf(name, "actor%u", id);
	int err = fs_lookup(w->root, &cred, name, len, &dir);
	if (err == -ENOENT) {
		struct fs_result res;
		struct fs_create_args args = {.type = FS_DIR, .how = FS_CREATE_GUARDED};
		UNIT_CHECK(!a->made);
		err = fs_create(w->root, &req, name, len, &args, &dir, &res);
	}
	ASSERT(err == 0);
	if (a->made) {
		bool before = dir_matches(a, dir, a->map), after = dir_matches(a, dir, a->pending);
		UNIT_CHECK(before || after);
	}
	actor_resync(a, dir);
	a->made = true;
	fs_node_put(dir);
}

static void
actor_fiber(void *arg)
{
	struct world *w = &world;
	struct actor *a = arg;
	struct fs_cred cred = {.uid = 0};
	struct fs_node *dir;
	char name[16];
	uint32_t len = (uint32_t)sprintf(name, "actor%u", (uint32_t)(a - w->actors));
	int err = fs_lookup(w->root, &cred, name, len, &dir);
	ASSERT(err == 0);
	for (uint32_t i = 0; i < OPS; i++) {
		do_something(a, dir);
		if (rnd(20) == 0) {
			fiber_sleep(rnd(400) * NSEC_PER_MSEC);
		}
	}
	fs_node_put(dir);
	wg_done(&w->wg);
}

static void
storm_fiber(void *arg)
{
	struct world *w = arg;
	for (uint32_t i = 0; i < OPS; i++) {
		storm_op(&w->storm);
		if (rnd(20) == 0) {
			fiber_sleep(rnd(400) * NSEC_PER_MSEC);
		}
	}
	wg_done(&w->wg);
}

static void
storm_prepare(struct world *w)
{
	struct fs_cred cred = {.uid = 0};
	int err = fs_lookup(w->root, &cred, "storm", 5, &w->storm.root);
	if (err == -ENOENT) {
		struct fs_result res;
		struct fs_req req = request();
		struct fs_create_args args = {.type = FS_DIR,
		    .how = FS_CREATE_GUARDED,
		    .set = {.set_mode = true, .mode = 0777}};
		err = fs_create(w->root, &req, "storm", 5, &args, &w->storm.root, &res);
	}
	ASSERT(err == 0);
	w->storm.ds = w->ds;
}

static void
life_main(void *arg)
{
	struct world *w = arg;
	if (!w->last) {
		kb_sim_crash_after_writes(1 + rnd(w->life % 2 == 0 ? 4000 : 1500));
	}
	drives_open(w);
	(void)(w->life == 0 ? world_create(w) : world_import(w));
	int err = fs_pool_open(w->pool, NULL, NULL, &w->fp);
	ASSERT(err == 0);
	err = fs_ds_open(w->fp, "tank", &w->ds);
	ASSERT(err == 0);
	err = fs_root(w->ds, &w->root);
	ASSERT(err == 0);
	for (uint32_t i = 0; i < ACTORS; i++) {
		actor_verify(w, i);
	}
	storm_prepare(w);
	world_check(w);
	wg_init(&w->wg);
	wg_add(&w->wg, ACTORS + STORMS);
	for (uint32_t i = 0; i < ACTORS; i++) {
		fiber_spawn_wait(
		    i % rt_reactor_count(), FIBER_REQUEST, "actor", actor_fiber, &w->actors[i]);
	}
	for (uint32_t i = 0; i < STORMS; i++) {
		fiber_spawn_wait(i % rt_reactor_count(), FIBER_REQUEST, "storm", storm_fiber, w);
	}
	wg_wait(&w->wg);
	fs_node_put(w->storm.root);
	err = pool_sync(w->pool);
	ASSERT(err == 0);
	world_check(w);
	kb_sim_crash_after_writes(0);
	fs_node_put(w->root);
	fs_ds_close(w->ds);
	fs_pool_close(w->fp);
	err = pool_export(w->pool);
	ASSERT(err == 0);
}

static uint32_t
run_world(uint64_t seed, uint32_t lives)
{
	struct world *w = &world;
	uint32_t cuts = 0;
	memset(w, 0, sizeof(*w));
	w->seed = seed;
	for (uint32_t i = 0; i < DRIVES; i++) {
		char name[16];
		sprintf(name, "drive%u", i);
		w->media[i] = kb_sim_medium_create(name, DRIVE_BYTES);
		ASSERT(w->media[i] != NULL);
	}
	for (w->life = 0; w->life < lives; w->life++) {
		struct rt_options opt = unit_rt(true, 2, seed * 100 + w->life);
		opt.arena_bytes = 64 * MIB;
		w->last = w->life + 1 == lives;
		int err = rt_run(&opt, life_main, w);
		CU_ASSERT(err == 0 || (err == -ERR_CRASHED && !w->last));
		if (err == -ERR_CRASHED) {
			cuts++;
			for (uint32_t i = 0; i < DRIVES; i++) {
				kb_sim_power_cut(w->media[i], seed * 1000 + w->life * 10 + i);
			}
		}
		if (CU_get_number_of_failures() > 0) {
			printf("\n    failed in world %llu, life %u\n", (unsigned long long)seed,
			    w->life);
			break;
		}
	}
	for (uint32_t i = 0; i < DRIVES; i++) {
		kb_sim_medium_destroy(w->media[i]);
	}
	return cuts;
}

static void
test_cuts(void)
{
	uint64_t seed = unit_seed(1);
	uint32_t cuts = 0;
	log_set_level(getenv("AGATE_LOG") != NULL ? LOG_DEBUG : LOG_ERROR);
	for (uint64_t i = 0; i < 8 && CU_get_number_of_failures() == 0; i++) {
		bug_set_buggify(i % 2 == 0 ? 0 : 30);
		cuts += run_world(seed + i, 6);
	}
	CU_ASSERT(cuts > 8);
	printf("%u cuts ", cuts);
}

int
main(int argc, char **argv)
{
	static const struct unit_test tests[] = {
	    {"power cuts at any write", test_cuts},
	};
	bug_set_deliberate(getenv("AGATE_BUGS"));
	return unit_main("fs_crash", tests, ARRAY_LEN(tests), argc, argv);
}
