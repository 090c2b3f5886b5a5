/*
 * fs/ on the real pool and real reactors: operations at random from many fibers in one directory,
 * with readers that take no locks beside them. For the thread sanitizer above all; at the end
 * everything must check, also after another import.
 */
#include "fs/fs.h"
#include "kernel-bypass/kb_sim.h"
#include "tests/lib/fs_storm.h"
#include "tests/lib/unit.h"

#define DRIVES 3u
#define STORMS 12u
#define READERS 4u
#define OPS 300u

struct world {
	struct kb_sim_medium *media[DRIVES];
	struct kb_drive *drives[DRIVES];
	struct pool *pool;
	struct fs_pool *fp;
	struct storm storm;
	struct waitgroup wg, readers;
	atomic_bool stop;
};

static void
print_problem(void *arg, const char *what)
{
	(void)arg;
	fprintf(stderr, "\n  %s", what);
}

static void
check(struct world *w)
{
	uint64_t count = 99;
	UNIT_CHECK(pool_sync(w->pool) == 0);
	UNIT_CHECK(fs_check(w->fp, print_problem, NULL, &count) == 0 && count == 0);
	UNIT_CHECK(pool_check(w->pool, print_problem, NULL, &count) == 0 && count == 0);
}

static void
storm_fiber(void *arg)
{
	struct world *w = arg;
	for (uint32_t i = 0; i < OPS; i++) {
		storm_op(&w->storm);
	}
	wg_done(&w->wg);
}

static bool
emit(void *arg, const struct fs_dirent *e)
{
	uint64_t *last = arg;
	UNIT_CHECK(e->cookie > *last);
	UNIT_CHECK(e->attr == NULL || e->attr->object == e->object);
	*last = e->cookie;
	return true;
}

/* Looks at everything by the ways that take no lock. ctimes never go back. */
static void
reader_fiber(void *arg)
{
	struct world *w = arg;
	struct fs_cred cred = {.uid = 0};
	struct fs_attr root, before = {.change = 0};
	while (!atomic_load(&w->stop)) {
		uint64_t last = 0;
		bool eof;
		struct fs_node *n;
		fs_getattr(w->storm.root, &root);
		UNIT_CHECK(root.change >= before.change && root.type == FS_DIR);
		before = root;
		(void)fs_access(w->storm.root, &cred, 0x3f);
		UNIT_CHECK(
		    fs_readdir(w->storm.root, &cred, 0, true, emit, &last, &eof) == 0 && eof);
		if (fs_lookup(w->storm.root, &cred, "n1", 2, &n) == 0) {
			fs_getattr(n, &root);
			UNIT_CHECK(root.object == fs_node_object(n));
			fs_node_put(n);
		}
		fiber_yield();
	}
	wg_done(&w->readers);
}

static void
open_fs(struct world *w)
{
	int err = fs_pool_open(w->pool, NULL, NULL, &w->fp);
	ASSERT(err == 0);
	err = fs_ds_open(w->fp, "tank", &w->storm.ds);
	ASSERT(err == 0);
	err = fs_root(w->storm.ds, &w->storm.root);
	ASSERT(err == 0);
}

static void
close_fs(struct world *w)
{
	fs_node_put(w->storm.root);
	fs_ds_close(w->storm.ds);
	fs_pool_close(w->fp);
}

static void
storm_and_readers(struct world *w)
{
	wg_init(&w->wg);
	wg_init(&w->readers);
	wg_add(&w->wg, STORMS);
	wg_add(&w->readers, READERS);
	atomic_store(&w->stop, false);
	for (uint32_t i = 0; i < STORMS + READERS; i++) {
		fiber_spawn_wait(i % rt_reactor_count(), FIBER_REQUEST, "storm",
		    i < STORMS ? storm_fiber : reader_fiber, w);
	}
	wg_wait(&w->wg);
	atomic_store(&w->stop, true);
	wg_wait(&w->readers);
}

static void
world_main(void *arg)
{
	struct world *w = arg;
	char why[200];
	for (uint32_t i = 0; i < DRIVES; i++) {
		int err = kb_sim_open(w->media[i], &w->drives[i]);
		ASSERT(err == 0);
	}
	struct pool_set_spec set = {RAIDZ_KIND_PARITY, 1, DRIVES, w->drives};
	struct pool_create_spec spec = {
	    .name = "tank", .sets = &set, .set_count = 1, .host_name = "here", .host_id = 1};
	int err = pool_create(&spec, &w->pool, why, sizeof(why));
	ASSERT(err == 0);
	open_fs(w);
	storm_and_readers(w);
	check(w);
	close_fs(w);
	open_fs(w); /* the objects are still in memory */
	check(w);
	close_fs(w);
	err = pool_export(w->pool);
	ASSERT(err == 0);
}

static void
test_storm(void)
{
	static struct world w;
	struct rt_options opt = unit_rt(false, 4, 0);
	opt.arena_bytes = 128 * MIB;
	log_set_level(LOG_ERROR);
	for (uint32_t i = 0; i < DRIVES; i++) {
		char name[16];
		sprintf(name, "drive%u", i);
		w.media[i] = kb_sim_medium_create(name, 256 * MIB);
		ASSERT(w.media[i] != NULL);
	}
	CU_ASSERT(rt_run(&opt, world_main, &w) == 0);
	for (uint32_t i = 0; i < DRIVES; i++) {
		kb_sim_medium_destroy(w.media[i]);
	}
	CU_ASSERT(mem_live_count() == 0);
}

int
main(int argc, char **argv)
{
	static const struct unit_test tests[] = {
	    {"operations and readers on four reactors", test_storm},
	};
	return unit_main("fs_real", tests, ARRAY_LEN(tests), argc, argv);
}
