/*
 * What each operation does and refuses: names, exclusive create, guards and times, sparse and small
 * files, rename in all its combinations, links, handles.
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

/* ---- names (B17) ---- */

static int
create_bytes(struct fs_node *dir, const char *name, uint32_t len, enum fs_type type)
{
	struct fs_result res;
	struct fs_req req = rig_as(0, 0);
	struct fs_create_args args = {.type = type, .how = FS_CREATE_GUARDED};
	return fs_create(dir, &req, name, len, &args, NULL, &res);
}

static int
remove_bytes(struct fs_node *dir, const char *name, uint32_t len, bool rmdir)
{
	struct fs_result res;
	struct fs_req req = rig_as(0, 0);
	return rmdir ? fs_rmdir(dir, &req, name, len, &res) : fs_remove(dir, &req, name, len, &res);
}

static void
names_run(void *arg)
{
	(void)arg;
	struct rig r;
	struct fs_cred cred = rig_cred(0, 0);
	struct fs_node *n;
	char name[256];
	rig_open(&r);
	struct fs_node *sub = make(r.root, "sub", FS_DIR);
	UNIT_CHECK(create_bytes(r.root, "", 0, FS_REG) == -EACCES);
	UNIT_CHECK(create_bytes(r.root, "a/b", 3, FS_REG) == -EACCES);
	UNIT_CHECK(create_bytes(r.root, "a\0b", 3, FS_REG) == -EACCES);
	UNIT_CHECK(create_bytes(r.root, ".", 1, FS_DIR) == -EEXIST);
	UNIT_CHECK(create_bytes(r.root, "..", 2, FS_DIR) == -EEXIST);
	UNIT_CHECK(remove_bytes(r.root, ".", 1, true) == -EINVAL);
	UNIT_CHECK(remove_bytes(r.root, "..", 2, true) == -EEXIST);
	UNIT_CHECK(remove_bytes(r.root, "..", 2, false) == -EISDIR);
	UNIT_CHECK(rig_rename(r.root, ".", r.root, "x") == -EINVAL);
	UNIT_CHECK(rig_rename(r.root, "sub", r.root, "..") == -EINVAL);
	memset(name, 'n', sizeof(name));
	UNIT_CHECK(create_bytes(r.root, name, 256, FS_REG) == -ENAMETOOLONG);
	UNIT_CHECK(create_bytes(r.root, name, 255, FS_REG) == 0);
	UNIT_CHECK(fs_lookup(r.root, &cred, name, 256, &n) == -ENAMETOOLONG);
	UNIT_CHECK(create_bytes(r.root, "\xff\xfe", 2, FS_REG) == 0);
	UNIT_CHECK(create_bytes(r.root, "\xc3\xa9", 2, FS_REG) == 0); /* one letter */
	UNIT_CHECK(create_bytes(r.root, "e\xcc\x81", 3, FS_REG) ==
		   0); /* the same, composed: another name */
	UNIT_CHECK(fs_lookup(r.root, &cred, "\xff\xfe", 2, &n) == 0);
	UNIT_CHECK(fs_lookup(n, &cred, "x", 1, &sub) == -ENOTDIR);
	fs_node_put(n);
	UNIT_CHECK(fs_lookup(r.root, &cred, "..", 2, &n) == 0 && n == r.root);
	fs_node_put(n);
	UNIT_CHECK(fs_lookup(sub, &cred, "..", 2, &n) == 0 && n == r.root);
	fs_node_put(n);
	UNIT_CHECK(fs_lookup(sub, &cred, ".", 1, &n) == 0 && n == sub);
	fs_node_put(n);
	fs_node_put(sub);
	UNIT_CHECK(rig_check(r.fp) == 0);
	rig_close(&r);
}

static void
test_names(void)
{
	run_in_sim(names_run);
}

/* ---- exclusive create (B02) ---- */

static int
exclusive(struct rig *r, const uint8_t *verf, uint64_t *out_object)
{
	struct fs_result res;
	struct fs_req req = rig_as(0, 0);
	struct fs_create_args args = {.type = FS_REG, .how = FS_CREATE_EXCLUSIVE};
	memcpy(args.verf, verf, 8);
	int err = fs_create(r->root, &req, "x", 1, &args, NULL, &res);
	UNIT_CHECK(err != 0 || res.has_node);
	UNIT_CHECK(res.wcc.has_before && res.wcc.has_after);
	*out_object = res.object;
	return err;
}

static void
exclusive_run(void *arg)
{
	(void)arg;
	struct rig r;
	uint64_t first = 0, again = 0;
	uint8_t verf[8];
	rig_open(&r);
	memset(verf, 0xff, sizeof(verf));
	UNIT_CHECK(exclusive(&r, verf, &first) == 0);
	UNIT_CHECK(exclusive(&r, verf, &again) == 0 && again == first);
	for (uint32_t i = 0; i < 8; i++) {
		verf[i] ^= 0x80;
		UNIT_CHECK(exclusive(&r, verf, &again) == -EEXIST);
		verf[i] ^= 0x80;
	}
	/* the verifier is in the file, also after an import that only has the log */
	struct pool *late = fakepool_clone(r.pool);
	rig_detach(&r);
	fakepool_free(r.pool);
	rig_attach(&r, late, NULL, NULL);
	UNIT_CHECK(exclusive(&r, verf, &again) == 0 && again == first);
	struct fs_node *n;
	UNIT_CHECK(rig_lookup(r.root, "x", &n) == 0);
	struct fs_attr a = rig_attr(n);
	UNIT_CHECK(a.mtime.sec > 1700000000 && a.atime.sec == a.mtime.sec && a.size == 0);
	fs_node_put(n);
	rig_close(&r);
}

static void
test_exclusive(void)
{
	run_in_sim(exclusive_run);
}

/* ---- guards and times (B21) ---- */

static int
setattr(
    struct fs_node *n, struct fs_req req, const struct fs_sattr *set, const struct fs_time *guard)
{
	struct fs_result res;
	int err = fs_setattr(n, &req, set, guard, &res);
	UNIT_CHECK(err == -EINVAL || (res.wcc.has_before && res.wcc.has_after));
	return err;
}

static int
setattr_root(struct fs_node *n, const struct fs_sattr *set, const struct fs_time *guard)
{
	return setattr(n, rig_as(0, 0), set, guard);
}

static int
setattr_user(struct fs_node *n, const struct fs_sattr *set)
{
	return setattr(n, rig_as(1001, 1), set, NULL);
}

static void
guard_checks(struct fs_node *n)
{
	struct fs_attr a = rig_attr(n), b;
	struct fs_sattr chmod = {.set_mode = true, .mode = 0640};
	UNIT_CHECK(setattr_root(n, &chmod, &a.ctime) == 0);
	fs_getattr(n, &b);
	UNIT_CHECK(fs_time_cmp(&b.ctime, &a.ctime) > 0 && fs_time_cmp(&b.mtime, &a.mtime) == 0);
	UNIT_CHECK(b.change > a.change && b.mode == 0640);
	chmod.mode = 0777;
	UNIT_CHECK(setattr_root(n, &chmod, &a.ctime) == -ERR_NOTSYNC);
	fs_getattr(n, &a);
	UNIT_CHECK(a.mode == 0640 && a.change == b.change);
}

static void
time_checks(struct fs_node *n)
{
	static const int64_t seconds[] = {
	    0, 1, INT32_MAX, (int64_t)INT32_MAX + 1, UINT32_MAX, (int64_t)1 << 40, -1};
	struct fs_attr a, b;
	for (uint32_t i = 0; i < ARRAY_LEN(seconds); i++) {
		struct fs_sattr set = {
		    .mtime_how = FS_TIME_CLIENT, .mtime = {.sec = seconds[i], .nsec = 999999999}};
		UNIT_CHECK(setattr_root(n, &set, NULL) == 0);
		fs_getattr(n, &a);
		UNIT_CHECK(a.mtime.sec == seconds[i] && a.mtime.nsec == 999999999);
	}
	struct fs_sattr bad = {
	    .mtime_how = FS_TIME_CLIENT, .mtime = {.sec = 1, .nsec = 1000000000}};
	UNIT_CHECK(setattr_root(n, &bad, NULL) == -EINVAL);
	/* the same size again is a change of the times; nothing at all is none */
	struct fs_sattr size = {.set_size = true, .size = a.size};
	UNIT_CHECK(setattr_root(n, &size, NULL) == 0);
	fs_getattr(n, &b);
	UNIT_CHECK(fs_time_cmp(&b.mtime, &a.mtime) > 0 && fs_time_cmp(&b.ctime, &a.ctime) > 0);
	struct fs_sattr nothing = {.set_mode = false};
	UNIT_CHECK(setattr_root(n, &nothing, NULL) == 0);
	fs_getattr(n, &a);
	UNIT_CHECK(a.change == b.change);
}

static void
denied_checks(struct fs_node *n)
{
	struct fs_sattr chmod = {.set_mode = true, .mode = 0666};
	UNIT_CHECK(setattr_root(n, &chmod, NULL) == 0);
	struct fs_sattr both = {
	    .set_size = true, .size = 77, .mtime_how = FS_TIME_CLIENT, .mtime = {.sec = 5}};
	UNIT_CHECK(setattr_user(n, &both) == -EPERM);
	UNIT_CHECK(rig_attr(n).size == 0);
	struct fs_sattr touch = {.mtime_how = FS_TIME_SERVER, .atime_how = FS_TIME_SERVER};
	UNIT_CHECK(setattr_user(n, &touch) == 0);
	touch.atime_how = FS_TIME_CLIENT;
	UNIT_CHECK(setattr_user(n, &touch) == -EPERM);
}

static void
times_run(void *arg)
{
	(void)arg;
	struct rig r;
	rig_open(&r);
	struct fs_node *n = make(r.root, "f", FS_REG);
	guard_checks(n);
	time_checks(n);
	denied_checks(n);
	fs_node_put(n);
	struct fs_sattr size = {.set_size = true}, chmod = {.set_mode = true, .mode = 0666};
	UNIT_CHECK(setattr_root(r.root, &size, NULL) == -EISDIR);
	UNIT_CHECK(rig_symlink(r.root, "l", "nowhere") == 0);
	UNIT_CHECK(rig_lookup(r.root, "l", &n) == 0);
	UNIT_CHECK(setattr_root(n, &size, NULL) == -EINVAL);
	UNIT_CHECK(setattr_root(n, &chmod, NULL) == 0 && rig_attr(n).mode == 0666);
	fs_node_put(n);
	rig_close(&r);
}

static void
test_times(void)
{
	run_in_sim(times_run);
}

/* ---- contents: against an array ---- */

#define FILE_MAX 70000u

struct shadow {
	uint8_t bytes[FILE_MAX];
	uint32_t size;
};

static void
shadow_compare(struct fs_node *n, const struct shadow *s)
{
	static uint8_t got[FILE_MAX + 10];
	bool eof = false;
	UNIT_CHECK(rig_attr(n).size == s->size);
	int64_t len = rig_read(n, 0, got, sizeof(got), &eof);
	UNIT_CHECK(len == s->size && eof);
	UNIT_CHECK(memcmp(got, s->bytes, s->size) == 0);
}

static void
shadow_step(struct fs_node *n, struct shadow *s, uint32_t reach)
{
	static uint8_t data[5000];
	uint32_t what = (uint32_t)(rt_random_u64() % 4), off = (uint32_t)(rt_random_u64() % reach);
	uint32_t len = (uint32_t)(rt_random_u64() % MIN(reach, 5000)) + 1;
	if (what == 0) {
		UNIT_CHECK(rig_truncate(n, off) == 0);
		memset(s->bytes + MIN(s->size, off), 0, FILE_MAX - MIN(s->size, off));
		s->size = off;
		return;
	}
	rt_random_bytes(data, len);
	UNIT_CHECK(rig_write(n, off, data, len, (enum fs_stable)(what - 1)) == 0);
	memcpy(s->bytes + off, data, len);
	s->size = MAX(s->size, off + len);
}

static void
contents_run(void *arg)
{
	(void)arg;
	struct rig r;
	static struct shadow s;
	rig_open(&r);
	static const uint32_t reaches[] = {200, 256, 300, 1000, 60000};
	for (uint32_t round = 0; round < 100; round++) {
		struct fs_node *n = make(r.root, "f", FS_REG);
		memset(&s, 0, sizeof(s));
		for (uint32_t i = 0; i < 30; i++) {
			shadow_step(n, &s, reaches[round % 5]);
			shadow_compare(n, &s);
		}
		fs_node_put(n);
		UNIT_CHECK(rig_check(r.fp) == 0);
		UNIT_CHECK(rig_remove(r.root, "f") == 0);
	}
	rig_close(&r);
}

static void
test_contents(void)
{
	run_in_sim(contents_run);
}

static void
sparse_run(void *arg)
{
	(void)arg;
	struct rig r;
	uint8_t got[512];
	bool eof;
	rig_open(&r);
	struct fs_node *n = make(r.root, "f", FS_REG);
	UNIT_CHECK(rig_write(n, 0, "hello", 5, FS_FILE_SYNC) == 0);
	UNIT_CHECK(rig_attr(n).used_bytes == 0); /* in the slot */
	UNIT_CHECK(rig_truncate(n, 139) == 0);
	UNIT_CHECK(
	    rig_read(n, 0, got, 512, &eof) == 139 && eof && memcmp(got, "hello\0\0", 7) == 0);
	UNIT_CHECK(rig_read(n, 0, got, 139, &eof) == 139 && eof);
	UNIT_CHECK(rig_read(n, 0, got, 138, &eof) == 138 && !eof);
	UNIT_CHECK(rig_read(n, 139, got, 1, &eof) == 0 && eof);
	UNIT_CHECK(rig_read(n, (uint64_t)1 << 40, got, 10, &eof) == 0 && eof);
	UNIT_CHECK(rig_read(n, 5, got, 0, &eof) == 0 && !eof);
	UNIT_CHECK(rig_truncate(n, INT64_MAX) == 0);
	UNIT_CHECK(rig_read(n, (uint64_t)1 << 62, got, 512, &eof) == 512 && !eof && got[511] == 0);
	UNIT_CHECK(rig_write(n, (uint64_t)INT64_MAX - 4, "tail", 4, FS_UNSTABLE) == 0);
	UNIT_CHECK(rig_write(n, (uint64_t)INT64_MAX - 3, "tail", 4, FS_UNSTABLE) == -EFBIG);
	UNIT_CHECK(rig_write(n, UINT64_MAX, "t", 1, FS_UNSTABLE) == -EFBIG);
	UNIT_CHECK(rig_read(n, (uint64_t)INT64_MAX - 4, got, 512, &eof) == 4 && eof &&
		   memcmp(got, "tail", 4) == 0);
	UNIT_CHECK(rig_read(n, 0, got, 7, &eof) == 7 && memcmp(got, "hello\0\0", 7) == 0);
	UNIT_CHECK(rig_attr(n).used_bytes <= 2 * 128 * KIB);
	struct fs_attr a = rig_attr(n);
	UNIT_CHECK(rig_write(n, 10, "", 0, FS_FILE_SYNC) == 0 && rig_attr(n).change == a.change);
	fs_node_put(n);
	UNIT_CHECK(rig_write(r.root, 0, "x", 1, FS_UNSTABLE) == -EISDIR);
	n = make(r.root, "fifo", FS_FIFO);
	UNIT_CHECK(rig_write(n, 0, "x", 1, FS_UNSTABLE) == -EINVAL);
	fs_node_put(n);
	rig_close(&r);
}

static void
test_sparse(void)
{
	run_in_sim(sparse_run);
}

static void
symlink_run(void *arg)
{
	(void)arg;
	struct rig r;
	static char target[FS_SYMLINK_MAX + 2], got[FS_SYMLINK_MAX + 1];
	rig_open(&r);
	static const uint32_t lens[] = {1, 255, 256, 257, 4095};
	for (uint32_t i = 0; i < ARRAY_LEN(lens); i++) {
		struct fs_node *n;
		uint32_t len = 0;
		char name[16];
		memset(target, 0, sizeof(target));
		memset(target, 'a' + (int)i, lens[i]);
		sprintf(name, "l%u", i);
		UNIT_CHECK(rig_symlink(r.root, name, target) == 0);
		UNIT_CHECK(rig_lookup(r.root, name, &n) == 0);
		UNIT_CHECK(fs_readlink(n, got, sizeof(got), &len) == 0 && len == lens[i]);
		UNIT_CHECK(memcmp(got, target, len) == 0 && rig_attr(n).size == len);
		UNIT_CHECK(fs_readlink(n, got, len - 1, &len) == -ENAMETOOLONG);
		fs_node_put(n);
	}
	memset(target, 'x', FS_SYMLINK_MAX + 1);
	UNIT_CHECK(rig_symlink(r.root, "long", target) == -ENAMETOOLONG);
	UNIT_CHECK(rig_symlink(r.root, "empty", "") == -EINVAL);
	uint32_t len;
	UNIT_CHECK(fs_readlink(r.root, got, sizeof(got), &len) == -EINVAL);
	UNIT_CHECK(rig_check(r.fp) == 0);
	rig_close(&r);
}

static void
test_symlinks(void)
{
	run_in_sim(symlink_run);
}

/* ---- rename: each kind onto each kind, in one directory and across two ---- */

enum kind { NONE, FILE_, LINKED, DIR_EMPTY, DIR_FULL, KINDS };

static void
put_kind(struct fs_node *dir, const char *name, enum kind kind, struct fs_node *root)
{
	struct fs_node *n;
	if (kind == NONE) {
		return;
	}
	n = make(dir, name, kind >= DIR_EMPTY ? FS_DIR : FS_REG);
	if (kind == DIR_FULL) {
		fs_node_put(make(n, "inside", FS_REG));
	}
	if (kind == LINKED) {
		ASSERT(rig_link(n, root, "second") == 0);
	}
	fs_node_put(n);
}

static int
rename_expect(enum kind from, enum kind to)
{
	if (from == NONE) {
		return -ENOENT;
	}
	if (to == NONE) {
		return 0;
	}
	bool from_dir = from >= DIR_EMPTY, to_dir = to >= DIR_EMPTY;
	if (from_dir != to_dir) {
		return from_dir ? -ENOTDIR : -EISDIR;
	}
	return to == DIR_FULL ? -ENOTEMPTY : 0;
}

static void
rename_case(enum kind from, enum kind to, bool across)
{
	struct rig r;
	rig_open(&r);
	struct fs_node *a = make(r.root, "a", FS_DIR), *b = make(r.root, "b", FS_DIR),
		       *moved = NULL, *old = NULL;
	struct fs_node *target = across ? b : a;
	put_kind(a, "x", from, r.root);
	if (from != LINKED || to != LINKED) {
		put_kind(target, "y", to, r.root);
	} else {
		put_kind(target, "y", FILE_, r.root);
	}
	(void)(from != NONE && rig_lookup(a, "x", &moved));
	(void)(to != NONE && rig_lookup(target, "y", &old));
	struct pool *before = fakepool_clone(r.pool);
	int err = rig_rename(a, "x", target, "y"), expect = rename_expect(from, to);
	UNIT_CHECK(err == expect);
	if (err == 0) {
		struct fs_node *found;
		UNIT_CHECK(!rig_exists(a, "x"));
		UNIT_CHECK(rig_lookup(target, "y", &found) == 0 && found == moved);
		fs_node_put(found);
		bool below = false;
		UNIT_CHECK(fs_node_is_below(moved, fs_node_object(target), &below) == 0 && below);
		bool gone = to == FILE_ || to == DIR_EMPTY || (from == LINKED && to == LINKED);
		UNIT_CHECK(old == NULL || node_is_stale(old) == gone);
	} else {
		UNIT_CHECK(old == NULL || !node_is_stale(old));
	}
	UNIT_CHECK(rig_check(r.fp) == 0);
	char *now = rig_dump(r.ds);
	struct rig again;
	fakepool_give_log(before, r.pool, UINT64_MAX);
	rig_attach(&again, before, NULL, NULL);
	char *then = rig_dump(again.ds);
	UNIT_CHECK(rig_same(now, then));
	UNIT_CHECK(rig_check(again.fp) == 0);
	rig_close(&again);
	mem_free(now);
	mem_free(then);
	fs_node_put(moved);
	fs_node_put(old);
	fs_node_put(a);
	fs_node_put(b);
	rig_close(&r);
}

static void
rename_run(void *arg)
{
	(void)arg;
	for (int from = NONE; from < KINDS; from++) {
		for (int to = NONE; to < KINDS; to++) {
			rename_case((enum kind)from, (enum kind)to, false);
			rename_case((enum kind)from, (enum kind)to, true);
		}
	}
	struct rig r;
	rig_open(&r);
	struct fs_node *a = make(r.root, "a", FS_DIR), *b = make(a, "b", FS_DIR),
		       *c = make(b, "c", FS_DIR);
	UNIT_CHECK(rig_rename(r.root, "a", a, "x") == -EINVAL);
	UNIT_CHECK(rig_rename(r.root, "a", c, "x") == -EINVAL);
	UNIT_CHECK(rig_rename(b, "c", r.root, "a") == -ENOTEMPTY);
	UNIT_CHECK(rig_rename(a, "b", a, "b") == 0);
	struct fs_attr root = rig_attr(r.root);
	UNIT_CHECK(
	    rig_rename(b, "c", r.root, "c") == 0 && rig_attr(r.root).nlink == root.nlink + 1);
	UNIT_CHECK(rig_rename(r.root, "a", c, "a") == 0);
	UNIT_CHECK(rig_rename(r.root, "c", b, "c") == -EINVAL);
	/* two names of one file: nothing happens */
	struct fs_node *f = make(r.root, "f", FS_REG);
	UNIT_CHECK(rig_link(f, r.root, "g") == 0);
	UNIT_CHECK(rig_rename(r.root, "f", r.root, "g") == 0);
	UNIT_CHECK(rig_exists(r.root, "f") && rig_exists(r.root, "g") && rig_attr(f).nlink == 2);
	UNIT_CHECK(rig_link(a, r.root, "h") == -EISDIR);
	UNIT_CHECK(rig_link(f, r.root, "g") == -EEXIST);
	UNIT_CHECK(rig_check(r.fp) == 0);
	fs_node_put(a);
	fs_node_put(b);
	fs_node_put(c);
	fs_node_put(f);
	rig_close(&r);
}

static void
test_rename(void)
{
	run_in_sim(rename_run);
}

/* ---- handles (B25) ---- */

/* For exports of sub-directories: what is below what, also for files of several names. */
static bool
below(struct fs_node *n, struct fs_node *top)
{
	bool is = false;
	UNIT_CHECK(fs_node_is_below(n, fs_node_object(top), &is) == 0);
	return is;
}

static void
below_run(void *arg)
{
	(void)arg;
	struct rig r;
	struct fs_node *found;
	rig_open(&r);
	struct fs_node *a = make(r.root, "a", FS_DIR), *b = make(r.root, "b", FS_DIR);
	struct fs_node *sub = make(a, "sub", FS_DIR), *f = make(sub, "f", FS_REG);
	UNIT_CHECK(below(f, f) && below(f, sub) && below(f, a) && below(f, r.root) && !below(f, b));
	UNIT_CHECK(below(a, a) && !below(a, sub) && below(sub, a));
	UNIT_CHECK(rig_link(f, b, "g") == 0);
	UNIT_CHECK(rig_lookup(b, "g", &found) == 0);
	fs_node_put(found);
	UNIT_CHECK(below(f, a) && below(f, b));
	UNIT_CHECK(rig_remove(sub, "f") == 0);
	UNIT_CHECK(!below(f, a) && below(f, b));
	UNIT_CHECK(rig_rename(b, "g", a, "h") == 0);
	UNIT_CHECK(below(f, a) && !below(f, b));
	UNIT_CHECK(rig_rename(r.root, "a", b, "a") == 0);
	UNIT_CHECK(below(f, b) && below(sub, b) && !below(b, a));
	fs_node_put(a);
	fs_node_put(b);
	fs_node_put(sub);
	fs_node_put(f);
	rig_close(&r);
}

static void
test_below(void)
{
	run_in_sim(below_run);
}

static void
handles_run(void *arg)
{
	(void)arg;
	struct rig r;
	struct fs_result res;
	struct fs_cred cred = rig_cred(0, 0);
	struct fs_node *n;
	uint8_t byte;
	bool eof;
	rig_open(&r);
	struct fs_node *d = make(r.root, "d", FS_DIR), *e = make(r.root, "e", FS_DIR);
	UNIT_CHECK(rig_rename(r.root, "d", e, "d2") == 0);
	fs_node_put(make(d, "still", FS_DIR)); /* the handle of a moved directory works */
	struct fs_node *f = make(r.root, "f", FS_REG), *g = make(r.root, "g", FS_REG);
	uint64_t object = fs_node_object(f), generation = fs_node_generation(f);
	UNIT_CHECK(rig_rename(r.root, "g", r.root, "f") == 0);
	UNIT_CHECK(fs_node_get(r.ds, object, generation, &n) == -ESTALE);
	UNIT_CHECK(rig_read(f, 0, &byte, 1, &eof) == -ESTALE);
	UNIT_CHECK(rig_write(f, 0, "x", 1, FS_UNSTABLE) == -ESTALE);
	UNIT_CHECK(rig_truncate(f, 0) == -ESTALE);
	UNIT_CHECK(rig_link(f, r.root, "again") == -ESTALE);
	UNIT_CHECK(fs_commit(f, &res) == -ESTALE);
	fs_node_put(f);
	for (uint32_t i = 0; i < 200; i++) {
		char name[16];
		sprintf(name, "r%u", i);
		f = make(r.root, name, FS_REG);
		if (fs_node_object(f) == object) {
			UNIT_CHECK(fs_node_generation(f) != generation);
		}
		fs_node_put(f);
		UNIT_CHECK(fs_node_get(r.ds, object, generation, &n) == -ESTALE);
	}
	UNIT_CHECK(rig_rmdir(e, "d2") == -ENOTEMPTY);
	UNIT_CHECK(rig_rmdir(d, "still") == 0 && rig_rmdir(e, "d2") == 0);
	UNIT_CHECK(fs_lookup(d, &cred, "x", 1, &n) == -ESTALE);
	UNIT_CHECK(create_bytes(d, "x", 1, FS_REG) == -ESTALE);
	UNIT_CHECK(rig_remove(r.root, "e") == -EISDIR && rig_rmdir(r.root, "f") == -ENOTDIR);
	UNIT_CHECK(rig_remove(r.root, "none") == -ENOENT);
	UNIT_CHECK(fs_node_get(r.ds, 0, 0, &n) == -ESTALE);
	UNIT_CHECK(fs_node_get(r.ds, (uint64_t)1 << 50, 1, &n) == -ESTALE);
	fs_node_put(d);
	fs_node_put(e);
	fs_node_put(g);
	rig_close(&r);
}

static void
test_handles(void)
{
	run_in_sim(handles_run);
}

int
main(int argc, char **argv)
{
	static const struct unit_test tests[] = {
	    {"names", test_names},
	    {"exclusive create", test_exclusive},
	    {"guards and times", test_times},
	    {"contents against an array", test_contents},
	    {"sparse and small files", test_sparse},
	    {"symbolic links", test_symlinks},
	    {"rename of everything onto everything", test_rename},
	    {"handles", test_handles},
	    {"what is below what", test_below},
	};
	bug_set_deliberate(getenv("AGATE_BUGS"));
	return unit_main("fs_ops", tests, ARRAY_LEN(tests), argc, argv);
}
