/*
 * Who may do what (cases B03, B27): tables of modes, owners, groups and operations; sticky
 * directories, set-id bits, chown, group inheritance, ACCESS.
 */
#include "tests/lib/fakepool.h"
#include "tests/lib/fs_rig.h"
#include "tests/lib/unit.h"

#define OWNER 1001u
#define MEMBER 1002u
#define OTHER 1003u
#define GROUP 50u

static struct fs_req
as(uint32_t uid)
{
	struct fs_req req = rig_as(uid, uid == OTHER ? 99 : 98);
	if (uid == OWNER || uid == MEMBER) {
		req.cred.group_count = 2;
		req.cred.groups[0] = 7;
		req.cred.groups[1] = GROUP;
	}
	return req;
}

static int
set_attr(struct fs_node *n, uint32_t uid, struct fs_sattr set)
{
	struct fs_result res;
	struct fs_req req = as(uid);
	return fs_setattr(n, &req, &set, NULL, &res);
}

/* A node of OWNER and GROUP with this mode. */
static struct fs_node *
owned(struct fs_node *dir, const char *name, enum fs_type type, uint32_t mode)
{
	struct fs_node *n;
	ASSERT(rig_create(dir, name, type, 0, &n) == 0);
	struct fs_sattr own = {.set_uid = true, .uid = OWNER, .set_gid = true, .gid = GROUP};
	ASSERT(set_attr(n, 0, own) == 0);
	struct fs_sattr chmod = {.set_mode = true, .mode = mode};
	ASSERT(set_attr(n, 0, chmod) == 0);
	return n;
}

static uint32_t
mode_of(struct fs_node *n)
{
	struct fs_attr a;
	fs_getattr(n, &a);
	return a.mode;
}

static int
write_as(struct fs_node *n, uint32_t uid)
{
	struct fs_result res;
	struct fs_req req = as(uid);
	struct iovec iov = {.iov_base = (void *)(uintptr_t) "x", .iov_len = 1};
	return fs_write(n, &req, 0, &iov, 1, NULL, FS_FILE_SYNC, &res);
}

static int
read_as(struct fs_node *n, uint32_t uid)
{
	struct fs_req req = as(uid);
	struct pool_slice slices[4];
	struct fs_attr a;
	uint32_t count = 0, len = 0;
	bool eof;
	int err = fs_read(n, &req.cred, 0, 1, slices, 4, &count, &len, &eof, &a);
	for (uint32_t i = 0; err == 0 && i < count; i++) {
		iobuf_unref(slices[i].buf);
	}
	return err;
}

struct io_case {
	uint32_t mode, uid;
	int read, write;
	uint32_t access; /* of READ, MODIFY, EXECUTE */
};

static const struct io_case io_cases[] = {
    {0444, OWNER, 0, 0, FS_ACCESS_READ},
    {0000, OWNER, 0, 0, 0},
    {0400, OWNER, 0, 0, FS_ACCESS_READ},
    {0644, MEMBER, 0, -EACCES, FS_ACCESS_READ},
    {0660, MEMBER, 0, 0, FS_ACCESS_READ | FS_ACCESS_MODIFY},
    {0660, OTHER, -EACCES, -EACCES, 0},
    {0606, MEMBER, -EACCES, -EACCES, 0},
    {0606, OTHER, 0, 0, FS_ACCESS_READ | FS_ACCESS_MODIFY},
    {0111, OTHER, 0, -EACCES, FS_ACCESS_EXECUTE},
    {0111, MEMBER, 0, -EACCES, FS_ACCESS_EXECUTE},
    {0222, OTHER, -EACCES, 0, FS_ACCESS_MODIFY},
    {0000, 0, 0, 0, FS_ACCESS_READ | FS_ACCESS_MODIFY},
    {0010, 0, 0, 0, FS_ACCESS_READ | FS_ACCESS_MODIFY | FS_ACCESS_EXECUTE},
};

static void
io_run(void *arg)
{
	(void)arg;
	struct rig r;
	rig_open(&r);
	for (uint32_t i = 0; i < ARRAY_LEN(io_cases); i++) {
		const struct io_case *c = &io_cases[i];
		struct fs_node *n = owned(r.root, "f", FS_REG, c->mode);
		struct fs_req req = as(c->uid);
		UNIT_CHECK(write_as(n, c->uid) == c->write);
		UNIT_CHECK(write_as(n, 0) == 0);
		UNIT_CHECK(read_as(n, c->uid) == c->read);
		uint32_t want =
		    FS_ACCESS_READ | FS_ACCESS_MODIFY | FS_ACCESS_EXECUTE | FS_ACCESS_LOOKUP;
		UNIT_CHECK(fs_access(n, &req.cred, want) == c->access);
		fs_node_put(n);
		UNIT_CHECK(rig_remove(r.root, "f") == 0);
	}
	struct fs_node *d = owned(r.root, "d", FS_DIR, 0750);
	struct fs_req member = as(MEMBER), other = as(OTHER), root = as(0);
	UNIT_CHECK(fs_access(d, &member.cred, 0x3f) == (FS_ACCESS_READ | FS_ACCESS_LOOKUP));
	UNIT_CHECK(fs_access(d, &other.cred, 0x3f) == 0);
	UNIT_CHECK(fs_access(d, &root.cred, 0x3f) == 0x1f);
	fs_node_put(d);
	rig_close(&r);
}

/* ---- sticky directories ---- */

static int
remove_as(struct fs_node *dir, const char *name, uint32_t uid)
{
	struct fs_result res;
	struct fs_req req = as(uid);
	return fs_remove(dir, &req, name, (uint32_t)strlen(name), &res);
}

static int
rename_as(struct fs_node *dir, const char *from, const char *to, uint32_t uid)
{
	struct fs_result res;
	struct fs_req req = as(uid);
	return fs_rename(
	    dir, from, (uint32_t)strlen(from), dir, to, (uint32_t)strlen(to), &req, &res);
}

static void
sticky_run(void *arg)
{
	(void)arg;
	struct rig r;
	struct fs_req other = as(OTHER);
	rig_open(&r);
	struct fs_node *d = owned(r.root, "tmp", FS_DIR, 01777);
	fs_node_put(owned(d, "a", FS_REG, 0666));
	UNIT_CHECK(remove_as(d, "a", OTHER) == -EPERM);
	UNIT_CHECK(rename_as(d, "a", "b", OTHER) == -EPERM);
	UNIT_CHECK(rig_create_as(&other, d, "mine", FS_REG, 0644, NULL) == 0);
	UNIT_CHECK(rename_as(d, "mine", "a", OTHER) == -EPERM); /* the replaced one counts too */
	UNIT_CHECK(rename_as(d, "mine", "own", OTHER) == 0);
	UNIT_CHECK(remove_as(d, "own", MEMBER) == -EPERM);
	UNIT_CHECK(remove_as(d, "own", OWNER) == 0); /* the directory is his */
	UNIT_CHECK(rename_as(d, "a", "b", OWNER) == 0 && remove_as(d, "b", 0) == 0);
	fs_node_put(d);
	d = owned(r.root, "ro", FS_DIR, 0555);
	UNIT_CHECK(rig_create_as(&other, d, "x", FS_REG, 0644, NULL) == -EACCES);
	UNIT_CHECK(rig_create(d, "x", FS_REG, 0644, NULL) == 0);
	UNIT_CHECK(remove_as(d, "x", OWNER) == -EACCES); /* no override here: this isn't I/O */
	fs_node_put(d);
	d = owned(r.root, "shut", FS_DIR, 0666);
	struct fs_node *n;
	UNIT_CHECK(fs_lookup(d, &other.cred, "x", 1, &n) == -EACCES);
	UNIT_CHECK(rig_create_as(&other, d, "x", FS_REG, 0644, NULL) == -EACCES);
	fs_node_put(d);
	rig_close(&r);
}

/* ---- set-id bits ---- */

static void
setid_run(void *arg)
{
	(void)arg;
	struct rig r;
	rig_open(&r);
	struct fs_sattr mode = {.set_mode = true, .mode = 06777}, size = {.set_size = true};
	struct fs_node *n = owned(r.root, "f", FS_REG, 06777);
	UNIT_CHECK(write_as(n, 0) == 0 && mode_of(n) == 06777);
	UNIT_CHECK(write_as(n, OTHER) == 0 && mode_of(n) == 0777);
	UNIT_CHECK(
	    set_attr(n, 0, mode) == 0 && set_attr(n, OTHER, size) == 0 && mode_of(n) == 0777);
	UNIT_CHECK(set_attr(n, 0, mode) == 0 && set_attr(n, 0, size) == 0 && mode_of(n) == 06777);
	/* without group execute set-gid isn't privilege */
	mode.mode = 06767;
	UNIT_CHECK(set_attr(n, 0, mode) == 0 && write_as(n, OTHER) == 0 && mode_of(n) == 02767);
	mode.mode = 06777;
	struct fs_sattr chown = {.set_uid = true, .uid = MEMBER};
	UNIT_CHECK(set_attr(n, 0, mode) == 0 && set_attr(n, 0, chown) == 0 && mode_of(n) == 0777);
	fs_node_put(n);
	/* the owner sets set-gid only for a group of his */
	n = owned(r.root, "g", FS_REG, 0644);
	struct fs_sattr sgid = {.set_mode = true, .mode = 02755};
	UNIT_CHECK(set_attr(n, OWNER, sgid) == 0 && mode_of(n) == 02755);
	struct fs_sattr foreign = {.set_gid = true, .gid = 4711};
	UNIT_CHECK(
	    set_attr(n, 0, foreign) == 0 && set_attr(n, OWNER, sgid) == 0 && mode_of(n) == 0755);
	fs_node_put(n);
	rig_close(&r);
}

static void
inherit_run(void *arg)
{
	(void)arg;
	struct rig r;
	rig_open(&r);
	struct fs_node *d = owned(r.root, "d", FS_DIR, 02777), *n;
	struct fs_req other = as(OTHER);
	struct fs_attr a;
	ASSERT(rig_create_as(&other, d, "f", FS_REG, 02755, &n) == 0);
	fs_getattr(n, &a);
	UNIT_CHECK(a.gid == GROUP && a.uid == OTHER && a.mode == 0755);
	fs_node_put(n);
	ASSERT(rig_create_as(&other, d, "sub", FS_DIR, 0755, &n) == 0);
	fs_getattr(n, &a);
	UNIT_CHECK(a.gid == GROUP && a.mode == 02755);
	fs_node_put(n);
	fs_node_put(d);
	d = owned(r.root, "plain", FS_DIR, 0777);
	ASSERT(rig_create_as(&other, d, "f", FS_REG, 0644, &n) == 0);
	fs_getattr(n, &a);
	UNIT_CHECK(a.gid == 99 && a.mode == 0644);
	fs_node_put(n);
	fs_node_put(d);
	rig_close(&r);
}

/* ---- chown, chmod ---- */

struct own_case {
	uint32_t as;
	bool set_uid, set_gid;
	uint32_t uid, gid;
	int expect;
};

static const struct own_case own_cases[] = {
    {OWNER, false, true, 0, GROUP, 0},      /* the group it has, whether his or not */
    {OWNER, false, true, 0, 7, 0},          /* another of his */
    {OWNER, false, true, 0, 4711, -EPERM},  /* none of his */
    {OWNER, true, false, OWNER, 0, 0},      /* himself */
    {OWNER, true, false, OTHER, 0, -EPERM}, /* nobody gives files away */
    {OTHER, true, false, OTHER, 0, -EPERM},
    {OTHER, false, true, 0, GROUP, -EPERM},
    {MEMBER, false, true, 0, GROUP, -EPERM},
    {0, true, true, 5, 4711, 0},
};

static void
chown_run(void *arg)
{
	(void)arg;
	struct rig r;
	rig_open(&r);
	for (uint32_t i = 0; i < ARRAY_LEN(own_cases); i++) {
		const struct own_case *c = &own_cases[i];
		struct fs_node *n = owned(r.root, "f", FS_REG, 0644);
		struct fs_sattr set = {
		    .set_uid = c->set_uid, .uid = c->uid, .set_gid = c->set_gid, .gid = c->gid};
		UNIT_CHECK(set_attr(n, c->as, set) == c->expect);
		struct fs_attr a;
		fs_getattr(n, &a);
		bool done = c->expect == 0;
		UNIT_CHECK(a.uid == (done && c->set_uid ? c->uid : OWNER));
		UNIT_CHECK(a.gid == (done && c->set_gid ? c->gid : GROUP));
		struct fs_sattr mode = {.set_mode = true, .mode = 0600};
		UNIT_CHECK(set_attr(n, OTHER, mode) == -EPERM);
		fs_node_put(n);
		ASSERT(rig_remove(r.root, "f") == 0);
	}
	/* a create may not give the new file away either */
	struct fs_result res;
	struct fs_req other = as(OTHER);
	struct fs_node *d = owned(r.root, "d", FS_DIR, 0777);
	struct fs_create_args args = {
	    .type = FS_REG, .how = FS_CREATE_GUARDED, .set = {.set_uid = true, .uid = 0}};
	UNIT_CHECK(fs_create(d, &other, "x", 1, &args, NULL, &res) == -EPERM);
	UNIT_CHECK(!rig_exists(d, "x"));
	args.set = (struct fs_sattr){.set_gid = true, .gid = 4711};
	UNIT_CHECK(fs_create(d, &other, "x", 1, &args, NULL, &res) == -EPERM);
	fs_node_put(d);
	rig_close(&r);
}

static void
run_in_sim(fiber_fn *fn)
{
	struct rt_options opt = unit_rt(true, 1, unit_seed(1));
	CU_ASSERT(rt_run(&opt, fn, NULL) == 0);
	CU_ASSERT(mem_live_count() == 0);
}

static void
test_io(void)
{
	run_in_sim(io_run);
}

static void
test_sticky(void)
{
	run_in_sim(sticky_run);
}

static void
test_setid(void)
{
	run_in_sim(setid_run);
}

static void
test_inherit(void)
{
	run_in_sim(inherit_run);
}

static void
test_chown(void)
{
	run_in_sim(chown_run);
}

int
main(int argc, char **argv)
{
	static const struct unit_test tests[] = {
	    {"reading, writing, ACCESS", test_io},
	    {"sticky and read-only directories", test_sticky},
	    {"set-id bits", test_setid},
	    {"group inheritance", test_inherit},
	    {"chown and chmod", test_chown},
	};
	bug_set_deliberate(getenv("AGATE_BUGS"));
	return unit_main("fs_perm", tests, ARRAY_LEN(tests), argc, argv);
}
