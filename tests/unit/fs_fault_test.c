/*
 * What waits for the log by the sync policy; that an operation which fails half-way, whatever it is
 * that fails, has done nothing; and what still works when the pool is full.
 */
#include "fs/dir.h"
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

static struct fs_node *
make(struct fs_node *dir, const char *name, enum fs_type type)
{
	struct fs_node *n;
	int err = rig_create(dir, name, type, type == FS_DIR ? 0755 : 0644, &n);
	ASSERT(err == 0);
	return n;
}

static void
sync_run(void *arg)
{
	(void)arg;
	struct rig r;
	char why[200];
	struct fs_result res;
	struct fs_req req = rig_as(0, 0);
	struct iovec iov = {.iov_base = (void *)(uintptr_t) "data", .iov_len = 4};
	rig_open(&r);
	struct fs_node *n = make(r.root, "f", FS_REG);
	static const char *const policies[] = {"standard", "always", "disabled"};
	for (uint32_t i = 0; i < 3; i++) {
		UNIT_CHECK(fs_prop_set(r.fp, "tank", "sync", policies[i], why, sizeof(why)) == 0);
		for (int how = FS_UNSTABLE; how <= FS_FILE_SYNC; how++) {
			uint64_t logged = fakepool_log_count(r.pool);
			uint32_t waits = fakepool_waits(r.pool);
			UNIT_CHECK(
			    fs_write(n, &req, 0, &iov, 1, NULL, (enum fs_stable)how, &res) == 0);
			bool at_once = i == 1 || how != FS_UNSTABLE;
			UNIT_CHECK((fakepool_log_count(r.pool) > logged) == at_once);
			UNIT_CHECK((fakepool_waits(r.pool) > waits) == (at_once && i != 2));
			UNIT_CHECK(res.stable == (at_once || i == 2));
			UNIT_CHECK(res.written == 4 && res.attr.size == 4);
		}
	}
	fs_node_put(n);
	rig_close(&r);
}

static void
test_sync(void)
{
	run_in_sim(sync_run);
}

struct scene {
	struct rig r;
	struct fs_node *d, *e, *f;
	uint32_t step;
};

static int
scene_step(struct scene *s)
{
	static uint8_t big[5000];
	struct fs_result res;
	struct fs_req req = rig_as(0, 0);
	struct fs_create_args unchecked = {.type = FS_REG, .set = {.set_size = true}};
	static char target[1000];
	memset(target, 't', sizeof(target) - 1);
	switch (s->step) {
	case 0:
		return rig_create(s->d, "new", FS_REG, 0600, NULL);
	case 1:
		return rig_create(s->d, "newdir", FS_DIR, 0700, NULL);
	case 2:
		return rig_symlink(s->d, "short", "target");
	case 3:
		return rig_symlink(s->d, "long", target);
	case 4:
		return rig_link(s->f, s->d, "linked");
	case 5:
		return rig_write(s->f, 3, "small", 5, FS_FILE_SYNC);
	case 6:
		return rig_write(s->f, 100, big, sizeof(big), FS_UNSTABLE);
	case 7:
		return rig_write(s->f, 0, "again", 5, FS_UNSTABLE);
	case 8:
		return rig_truncate(s->f, 100);
	case 9:
		return fs_create(s->d, &req, "linked", 6, &unchecked, NULL, &res);
	case 10:
		return rig_rename(s->d, "new", s->d, "newer");
	case 11:
		return rig_rename(s->d, "newer", s->e, "newest");
	case 12:
		return rig_rename(s->d, "newdir", s->e, "dir");
	case 13:
		return rig_rename(s->e, "newest", s->d, "linked");
	case 14:
		return rig_remove(s->d, "linked");
	case 15:
		return rig_rmdir(s->e, "dir");
	case 16:
		return rig_create(s->d, "splits", FS_REG, 0600, NULL);
	case 17:
		return rig_remove(s->d, "n1");
	default:
		return 1;
	}
}

static void
scene_open(struct scene *s)
{
	memset(s, 0, sizeof(*s));
	rig_open(&s->r);
	fakepool_set_parking(s->r.pool, false);
	s->d = make(s->r.root, "d", FS_DIR);
	s->e = make(s->r.root, "e", FS_DIR);
	s->f = make(s->r.root, "f", FS_REG);
	for (uint32_t i = 0; i < 800; i++) {
		char name[16];
		sprintf(name, "n%u", i);
		ASSERT(rig_create(s->d, name, FS_REG, 0600, NULL) == 0);
	}
}

static void
scene_close(struct scene *s)
{
	fs_node_put(s->d);
	fs_node_put(s->e);
	fs_node_put(s->f);
	rig_close(&s->r);
}

/* Fails the n-th fallible thing of each operation, n = 1, 2, ... until nothing is left to fail. */
static void
faults_run(void *arg)
{
	bool memory = arg != NULL;
	struct scene s;
	uint32_t failures = 0;
	scene_open(&s);
	for (s.step = 0;; s.step++) {
		char *before = rig_dump(s.r.ds);
		bool failed = true;
		int err = 0;
		for (uint32_t n = 1; failed; n++) {
			if (memory) {
				mem_fail_at(n, false);
			} else {
				(void)fakepool_fail_at(s.r.pool, n);
			}
			err = scene_step(&s);
			mem_fail_at(0, false);
			bool hit = fakepool_fail_at(s.r.pool, 0);
			failed = memory ? err == -ENOMEM : hit && err != 0;
			if (failed) {
				failures++;
				UNIT_CHECK(err == (memory ? -ENOMEM : -EIO));
				char *after = rig_dump(s.r.ds);
				UNIT_CHECK(rig_same(before, after));
				mem_free(after);
			}
		}
		mem_free(before);
		if (err == 1) {
			break;
		}
		UNIT_CHECK(err == 0);
		UNIT_CHECK(rig_check(s.r.fp) == 0);
	}
	UNIT_CHECK(failures >= (memory ? 4 : 60));
	scene_close(&s);
}

static void
test_faults(void)
{
	run_in_sim(faults_run);
}

static void
test_no_memory(void)
{
	struct rt_options opt = unit_rt(true, 1, unit_seed(1));
	CU_ASSERT(rt_run(&opt, faults_run, &opt) == 0);
}

/* B30, as far as fs/ decides it: what frees or changes nothing in size works when the pool is full.
 */
static void
full_run(void *arg)
{
	(void)arg;
	struct rig r;
	rig_open(&r);
	struct fs_node *f = make(r.root, "f", FS_REG);
	UNIT_CHECK(rig_write(f, 0, "0123456789", 10, FS_FILE_SYNC) == 0);
	fakepool_set_full(r.pool, true);
	UNIT_CHECK(rig_create(r.root, "g", FS_REG, 0600, NULL) == -ENOSPC);
	UNIT_CHECK(rig_create(r.root, "f", FS_REG, 0600, NULL) == -EEXIST);
	UNIT_CHECK(rig_write(f, 10, "x", 1, FS_FILE_SYNC) == -ENOSPC);
	UNIT_CHECK(rig_truncate(f, 100) == -ENOSPC && rig_truncate(f, 4) == 0);
	struct fs_result res;
	struct fs_req req = rig_as(0, 0);
	struct fs_sattr chmod = {.set_mode = true, .mode = 0600};
	UNIT_CHECK(fs_setattr(f, &req, &chmod, NULL, &res) == 0);
	UNIT_CHECK(rig_rename(r.root, "f", r.root, "h") == 0 && rig_remove(r.root, "h") == 0);
	fs_node_put(f);
	rig_close(&r);
}

static void
test_full(void)
{
	run_in_sim(full_run);
}

int
main(int argc, char **argv)
{
	static const struct unit_test tests[] = {
	    {"sync policy", test_sync},
	    {"a failing step leaves nothing behind", test_faults},
	    {"so does running out of memory", test_no_memory},
	    {"a full pool", test_full},
	};
	return unit_main("fs_fault", tests, ARRAY_LEN(tests), argc, argv);
}
