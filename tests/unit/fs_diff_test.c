/*
 * fs_diff on the real pool, simulated: random histories with snapshots and clones; what the diff of
 * A and B says, done to the names of A, must give exactly the names of B. AGATE_SEED repeats one.
 */
#include "fs/fs.h"
#include "kernel-bypass/kb_sim.h"
#include "tests/lib/fs_rig.h"
#include "tests/lib/fs_storm.h"
#include "tests/lib/unit.h"

#define DRIVES 3u
#define SNAPS 6u
#define ENTRIES_MAX 4000u
#define CHANGES_MAX 8000u

/* ---- a file system as a list of names ---- */

struct entry {
	uint64_t dir, object, generation; /* dir 0: its name was taken away */
	char name[FS_NAME_MAX + 1];
	struct fs_attr attr;
	uint64_t sum; /* of contents */
};
struct listing {
	struct fs_ds *ds;
	uint64_t root;
	struct entry *v;
	uint32_t count;
};

static bool
list_entry_add(void *arg, const struct fs_dirent *e)
{
	struct listing *l = arg;
	bool dots = e->name_len <= 2 && memcmp(e->name, "..", e->name_len) == 0;
	if (!dots) {
		ASSERT(l->count < ENTRIES_MAX);
		struct entry *x = &l->v[l->count++];
		*x = (struct entry){
		    .dir = l->root, .object = e->object, .generation = e->generation};
		memcpy(x->name, e->name, e->name_len);
	}
	return true;
}

static uint64_t
contents(struct fs_node *n, const struct fs_attr *a)
{
	static char buf[65536];
	uint64_t sum = 7;
	uint32_t link = 0;
	int64_t got = 0;
	if (a->type == FS_LNK) {
		got = fs_readlink(n, buf, sizeof(buf), &link) == 0 ? link : 0;
	}
	for (uint64_t off = 0; off == 0 || (a->type == FS_REG && off < a->size); off += 65536) {
		got = a->type == FS_REG ? rig_read(n, off, buf, sizeof(buf), NULL) : got;
		for (int64_t i = 0; i < got; i++) {
			sum = (sum ^ (uint8_t)buf[i]) * 1099511628211ull;
		}
	}
	return sum;
}

static void
list_dir(struct listing *l, uint64_t dir, uint64_t top)
{
	struct fs_cred cred = rig_cred(0, 0);
	struct fs_node *n;
	bool eof;
	uint32_t first = l->count;
	int err = fs_node_get(l->ds, dir, 0, &n);
	ASSERT(err == 0);
	l->root = dir;
	err = fs_readdir(n, &cred, 0, false, list_entry_add, l, &eof);
	ASSERT(err == 0 && eof);
	fs_node_put(n);
	l->root = top;
	for (uint32_t i = first, end = l->count; i < end; i++) {
		err = fs_node_get(l->ds, l->v[i].object, l->v[i].generation, &n);
		ASSERT(err == 0);
		l->v[i].attr = rig_attr(n);
		l->v[i].sum = contents(n, &l->v[i].attr);
		fs_node_put(n);
		if (l->v[i].attr.type == FS_DIR) {
			list_dir(l, l->v[i].object, top);
		}
	}
}

static struct listing
listing_make(struct fs_pool *fp, const char *snap)
{
	struct listing l = {.v = mem_zalloc_array(ENTRIES_MAX, sizeof(struct entry))};
	struct fs_node *root;
	ASSERT(l.v != NULL);
	int err = fs_snap_open(fp, snap, &l.ds);
	ASSERT(err == 0);
	err = fs_root(l.ds, &root);
	ASSERT(err == 0);
	uint64_t top = fs_node_object(root);
	fs_node_put(root);
	list_dir(&l, top, top);
	l.root = top;
	fs_ds_close(l.ds);
	return l;
}

static struct entry *
find_in(struct listing *l, uint64_t dir, const char *name, size_t len)
{
	for (uint32_t i = 0; i < l->count; i++) {
		if (l->v[i].dir == dir && strlen(l->v[i].name) == len &&
		    memcmp(l->v[i].name, name, len) == 0) {
			return &l->v[i];
		}
	}
	return NULL;
}

/* The directory that the last part of path is in, and that part. 0: none. */
static uint64_t
resolve_dir(struct listing *l, const char *path, const char **out_last)
{
	uint64_t dir = l->root;
	for (;;) {
		const char *end = strchr(++path, '/');
		if (end == NULL) {
			*out_last = path;
			return dir;
		}
		struct entry *e = find_in(l, dir, path, (size_t)(end - path));
		if (e == NULL) {
			return 0;
		}
		dir = e->object;
		path = end;
	}
}

static struct entry *
resolve(struct listing *l, const char *path)
{
	const char *last = path;
	uint64_t dir = resolve_dir(l, path, &last);
	return dir != 0 ? find_in(l, dir, last, strlen(last)) : NULL;
}

/* ---- the diff ---- */

struct change {
	struct fs_change c;
	char *path, *old_path;
};
struct changes {
	struct change *v;
	uint32_t count;
};

static char *
copy_text(const char *s)
{
	char *c = s != NULL ? mem_zalloc(strlen(s) + 1) : NULL;
	return c != NULL ? strcpy(c, s) : NULL;
}

static void
take_change(void *arg, const struct fs_change *c)
{
	struct changes *all = arg;
	ASSERT(all->count < CHANGES_MAX);
	all->v[all->count++] = (struct change){*c, copy_text(c->path), copy_text(c->old_path)};
}

static struct changes
changes_make(struct fs_pool *fp, const char *from, const char *to, uint32_t limit)
{
	struct changes all = {.v = mem_zalloc_array(CHANGES_MAX, sizeof(struct change))};
	struct fs_diff *d;
	bool done = false;
	ASSERT(all.v != NULL);
	int err = fs_diff_open(fp, from, to, &d);
	ASSERT(err == 0);
	if (limit != 0) {
		fs_diff_limit(d, limit);
	}
	while (!done) {
		err = fs_diff_step(
		    fp, d, 1 + (uint32_t)(rt_random_u64() % 9), take_change, &all, &done);
		ASSERT(err == 0);
	}
	fs_diff_close(d);
	return all;
}

static void
changes_free(struct changes *all)
{
	for (uint32_t i = 0; i < all->count; i++) {
		mem_free(all->v[i].path);
		mem_free(all->v[i].old_path);
	}
	mem_free(all->v);
}

static uint32_t
depth_of(const char *path)
{
	uint32_t depth = 0;
	for (; *path != '\0'; path++) {
		depth += *path == '/';
	}
	return depth;
}

/* Old names are looked for in A as it was, then all go; then new ones come, parents first. */
static void
apply(struct listing *a, const struct changes *all)
{
	struct entry **gone = mem_zalloc_array(CHANGES_MAX, sizeof(*gone));
	ASSERT(gone != NULL);
	for (uint32_t i = 0; i < all->count; i++) {
		const struct change *x = &all->v[i];
		const char *old = x->c.what == '-' ? x->path : x->old_path;
		if (old != NULL) {
			gone[i] = resolve(a, old);
			UNIT_CHECK(gone[i] != NULL && gone[i]->object == x->c.object &&
				   gone[i]->generation == x->c.generation);
		}
	}
	for (uint32_t i = 0; i < all->count; i++) {
		if (gone[i] != NULL) {
			UNIT_CHECK(gone[i]->dir != 0);
			gone[i]->dir = 0;
		}
	}
	mem_free(gone);
	for (uint32_t depth = 1, left = all->count; left > 0 && depth < 64; depth++) {
		left = 0;
		for (uint32_t i = 0; i < all->count; i++) {
			const struct change *x = &all->v[i];
			const char *last = "";
			if ((x->c.what != '+' && x->c.what != 'R') || depth_of(x->path) < depth) {
				continue;
			}
			left++;
			if (depth_of(x->path) > depth) {
				continue;
			}
			uint64_t dir = resolve_dir(a, x->path, &last);
			UNIT_CHECK(dir != 0 && find_in(a, dir, last, strlen(last)) == NULL);
			ASSERT(a->count < ENTRIES_MAX);
			struct entry *e = &a->v[a->count++];
			*e = (struct entry){.dir = dir,
			    .object = x->c.object,
			    .generation = x->c.generation,
			    .attr.type = (enum fs_type)x->c.type};
			(void)snprintf(e->name, sizeof(e->name), "%s", last);
		}
	}
}

static void
same_names(struct listing *a, struct listing *b)
{
	uint32_t names = 0;
	for (uint32_t i = 0; i < a->count; i++) {
		struct entry *e = &a->v[i];
		struct entry *f = e->dir != 0 ? find_in(b, e->dir, e->name, strlen(e->name)) : NULL;
		names += e->dir != 0;
		UNIT_CHECK(e->dir == 0 ||
			   (f != NULL && f->object == e->object && f->generation == e->generation &&
			       f->attr.type == e->attr.type));
	}
	UNIT_CHECK(names == b->count);
}

static const struct entry *
by_object(const struct listing *l, const struct entry *e)
{
	for (uint32_t i = 0; i < l->count; i++) {
		if (l->v[i].object == e->object && l->v[i].generation == e->generation) {
			return &l->v[i];
		}
	}
	return NULL;
}

static const struct change *
modified(const struct changes *all, uint64_t object)
{
	for (uint32_t i = 0; i < all->count; i++) {
		if (all->v[i].c.what == 'M' && all->v[i].c.object == object) {
			return &all->v[i];
		}
	}
	return NULL;
}

/* Every object of both that was changed is told, and nothing else. */
static void
same_changes(const struct listing *a, struct listing *b, const struct changes *all)
{
	for (uint32_t i = 0; i < b->count; i++) {
		const struct entry *f = &b->v[i], *e = by_object(a, f);
		const struct change *m = modified(all, f->object);
		if (e == NULL) {
			UNIT_CHECK(m == NULL);
			continue;
		}
		const struct fs_attr *x = &e->attr, *y = &f->attr;
		bool differs = x->mode != y->mode || x->uid != y->uid || x->gid != y->gid ||
			       (x->type != FS_DIR && x->size != y->size) || e->sum != f->sum ||
			       x->mtime.sec != y->mtime.sec || x->mtime.nsec != y->mtime.nsec;
		int32_t links =
		    x->type != FS_DIR ? (int32_t)((int64_t)y->nlink - (int64_t)x->nlink) : 0;
		UNIT_CHECK(!differs || (m != NULL && m->c.modified));
		UNIT_CHECK(links == (m != NULL ? m->c.links : 0));
		UNIT_CHECK(m == NULL || x->change != y->change);
		if (m != NULL && m->path != NULL) {
			const struct entry *at = resolve(b, m->path);
			UNIT_CHECK(at != NULL && at->object == f->object);
		}
		UNIT_CHECK(m == NULL || m->path != NULL || y->type != FS_DIR);
	}
}

static void
compare(struct fs_pool *fp, const char *from, const char *to, uint32_t limit)
{
	struct listing a = listing_make(fp, from), b = listing_make(fp, to);
	struct changes all = changes_make(fp, from, to, limit);
	same_changes(&a, &b, &all);
	apply(&a, &all);
	same_names(&a, &b);
	changes_free(&all);
	mem_free(a.v);
	mem_free(b.v);
}

/* ---- histories ---- */

static struct kb_sim_medium *media[DRIVES];

static struct pool *
pool_make(void)
{
	struct kb_drive *drives[DRIVES];
	struct pool *p;
	char why[200];
	for (uint32_t i = 0; i < DRIVES; i++) {
		int err = kb_sim_open(media[i], &drives[i]);
		ASSERT(err == 0);
	}
	struct pool_set_spec set = {RAIDZ_KIND_PARITY, 1, DRIVES, drives};
	struct pool_create_spec spec = {
	    .name = "tank", .sets = &set, .set_count = 1, .host_name = "here", .host_id = 1};
	int err = pool_create(&spec, &p, why, sizeof(why));
	ASSERT(err == 0);
	return p;
}

static void
snap_take(struct fs_pool *fp, const char *path, uint32_t i)
{
	char name[40];
	const char *names[1] = {name};
	uint32_t bad;
	(void)snprintf(name, sizeof(name), "%s@s%u", path, i);
	int err = fs_snap_create(fp, names, 1, &bad);
	ASSERT(err == 0);
}

static void
storm_run(struct fs_pool *fp, const char *path, uint32_t ops)
{
	struct storm s = {.next_xid = 1};
	int err = fs_ds_open(fp, path, &s.ds);
	ASSERT(err == 0);
	err = fs_root(s.ds, &s.root);
	ASSERT(err == 0);
	for (uint32_t i = 0; i < ops; i++) {
		storm_op(&s);
	}
	fs_node_put(s.root);
	fs_ds_close(s.ds);
}

static void
history_main(void *arg)
{
	struct pool *p = pool_make();
	struct fs_pool *fp;
	char why[160];
	(void)arg;
	int err = fs_pool_open(p, NULL, NULL, &fp);
	ASSERT(err == 0);
	for (uint32_t i = 0; i < SNAPS; i++) {
		storm_run(fp, "tank", 20u << i);
		snap_take(fp, "tank", i);
	}
	err = fs_ds_clone(fp, "tank@s3", "tank/clone", NULL, 0, why, sizeof(why));
	ASSERT(err == 0);
	storm_run(fp, "tank/clone", 200);
	snap_take(fp, "tank/clone", 9);
	compare(fp, "tank@s0", "tank@s5", 0);
	compare(fp, "tank@s4", "tank@s5", 5);
	compare(fp, "tank@s1", "tank@s4", 40);
	compare(fp, "tank@s2", "tank@s2", 0);
	compare(fp, "tank@s3", "tank/clone@s9", 2);
	compare(fp, "tank@s1", "tank/clone@s9", 0);
	struct fs_diff *d = NULL;
	UNIT_CHECK(fs_diff_open(fp, "tank@s5", "tank@s1", &d) == -EINVAL);
	UNIT_CHECK(fs_diff_open(fp, "tank@s4", "tank/clone@s9", &d) == -EINVAL);
	UNIT_CHECK(fs_diff_open(fp, "tank@none", "tank@s1", &d) == -ENOENT);
	fs_pool_close(fp);
	err = pool_export(p);
	ASSERT(err == 0);
}

static void
run_sim(void (*run)(void *arg), uint64_t seed)
{
	struct rt_options opt = unit_rt(true, 2, seed);
	opt.arena_bytes = 128 * MIB;
	log_set_level(LOG_ERROR);
	for (uint32_t i = 0; i < DRIVES; i++) {
		char name[16];
		sprintf(name, "drive%u", i);
		media[i] = kb_sim_medium_create(name, 256 * MIB);
		ASSERT(media[i] != NULL);
	}
	CU_ASSERT(rt_run(&opt, run, NULL) == 0);
	for (uint32_t i = 0; i < DRIVES; i++) {
		kb_sim_medium_destroy(media[i]);
	}
	CU_ASSERT(mem_live_count() == 0);
}

static void
test_histories(void)
{
	const char *given = getenv("AGATE_SEED"), *many = getenv("AGATE_DIFF_SEEDS");
	uint64_t seed = given != NULL ? strtoull(given, NULL, 10) : 1;
	for (uint64_t i = 0, n = many != NULL ? strtoull(many, NULL, 10) : 4; i < n; i++) {
		unsigned before = CU_get_number_of_failures();
		run_sim(history_main, seed + i);
		if (CU_get_number_of_failures() != before) {
			fprintf(stderr, "\n  AGATE_SEED=%llu", (unsigned long long)(seed + i));
			return;
		}
	}
}

/* ---- what it costs ---- */

static uint64_t
steps_of(struct fs_pool *fp, const char *from, const char *to, uint32_t *out_changes)
{
	struct changes all = {.v = mem_zalloc_array(CHANGES_MAX, sizeof(struct change))};
	struct fs_diff *d;
	bool done = false;
	int err = fs_diff_open(fp, from, to, &d);
	ASSERT(err == 0 && all.v != NULL);
	while (!done) {
		err = fs_diff_step(fp, d, 1000, take_change, &all, &done);
		ASSERT(err == 0);
	}
	uint64_t steps = fs_diff_steps(d);
	*out_changes = all.count;
	fs_diff_close(d);
	changes_free(&all);
	return steps;
}

static void
many_files(struct fs_node *root, uint32_t from, uint32_t to)
{
	for (uint32_t i = from; i < to; i++) {
		char name[16];
		struct fs_node *dir = NULL;
		sprintf(name, "dir%u", i / 100);
		if (i % 100 == 0) {
			int err = rig_create(root, name, FS_DIR, 0755, NULL);
			ASSERT(err == 0);
		}
		int err = rig_lookup(root, name, &dir);
		ASSERT(err == 0);
		sprintf(name, "file%u", i);
		err = rig_create(dir, name, FS_REG, 0644, NULL);
		ASSERT(err == 0);
		fs_node_put(dir);
	}
}

static void
cost_main(void *arg)
{
	struct pool *p = pool_make();
	struct rig r;
	struct fs_node *dir;
	uint32_t few = 0, many = 0, all = 0;
	(void)arg;
	rig_attach(&r, p, NULL, NULL);
	many_files(r.root, 0, 400);
	snap_take(r.fp, "tank", 0);
	int err = rig_lookup(r.root, "dir1", &dir);
	ASSERT(err == 0);
	err = rig_rename(dir, "file101", dir, "other\tname");
	ASSERT(err == 0);
	snap_take(r.fp, "tank", 1);
	many_files(r.root, 400, 4000);
	snap_take(r.fp, "tank", 2);
	err = rig_rename(dir, "file102", dir, "another name");
	ASSERT(err == 0);
	snap_take(r.fp, "tank", 3);
	fs_node_put(dir);
	uint64_t small = steps_of(r.fp, "tank@s0", "tank@s1", &few);
	uint64_t large = steps_of(r.fp, "tank@s2", "tank@s3", &many);
	uint64_t whole = steps_of(r.fp, "tank@s1", "tank@s2", &all);
	UNIT_CHECK(few == 2 && many == 2); /* the directory, and the name in it */
	UNIT_CHECK(all == 3600 + 36 + 1);
	UNIT_CHECK(large <= small + 8);
	UNIT_CHECK(whole > 10 * large);
	rig_detach(&r);
	err = pool_export(p);
	ASSERT(err == 0);
}

static void
test_cost(void)
{
	run_sim(cost_main, 5);
}

/* A snapshot goes while it is compared. */
static void
gone_main(void *arg)
{
	struct pool *p = pool_make();
	struct rig r;
	struct changes all = {.v = mem_zalloc_array(CHANGES_MAX, sizeof(struct change))};
	struct fs_diff *d;
	const char *names[1] = {"tank@s0"};
	bool done = false;
	uint32_t bad;
	(void)arg;
	rig_attach(&r, p, NULL, NULL);
	snap_take(r.fp, "tank", 0);
	many_files(r.root, 0, 300);
	snap_take(r.fp, "tank", 1);
	int err = fs_diff_open(r.fp, "tank@s0", "tank@s1", &d);
	ASSERT(err == 0 && all.v != NULL);
	UNIT_CHECK(fs_diff_step(r.fp, d, 10, take_change, &all, &done) == 0 && !done);
	UNIT_CHECK(all.count == 10);
	UNIT_CHECK(fs_snap_destroy(r.fp, names, 1, &bad) == 0);
	UNIT_CHECK(fs_diff_step(r.fp, d, 10, take_change, &all, &done) == -ESTALE);
	fs_diff_close(d);
	changes_free(&all);
	rig_detach(&r);
	err = pool_export(p);
	ASSERT(err == 0);
}

static void
test_gone(void)
{
	run_sim(gone_main, 6);
}

int
main(int argc, char **argv)
{
	static const struct unit_test tests[] = {
	    {"random histories: what is told makes B of A", test_histories},
	    {"it costs what was changed", test_cost},
	    {"a snapshot goes meanwhile", test_gone},
	};
	return unit_main("fs_diff", tests, ARRAY_LEN(tests), argc, argv);
}
