/*
 * fs_quota_test.c - quotas of users and groups as clients meet them, on the real pool: whom
 * writing, creating and chown ask; what never asks; FSSTAT by who looks; a rollback.
 */
#include "fs/fs.h"
#include "kernel-bypass/kb_sim.h"
#include "tests/lib/fs_rig.h"
#include "tests/lib/unit.h"

#define DRIVES 3u
#define PIECE 65536u
#define ANN 1000u
#define BOB 1001u
#define STAFF 50u

static struct kb_sim_medium *media[DRIVES];
static struct kb_drive *drives[DRIVES];
static struct pool *pool;
static struct fs_pool *fp;
static struct fs_ds *ds;
static struct fs_node *root;

static void
must(int err)
{
	ASSERT(err == 0);
}

static void
set(const char *path, const char *name, const char *value)
{
	char why[256] = "";

	must(fs_prop_set(fp, path, name, value, why, sizeof(why)));
}

static int
write_at(struct fs_node *n, uint64_t off)
{
	static uint8_t data[PIECE];

	for (size_t i = 0; i < sizeof(data); i += 8) {
		uint64_t x = rt_random_u64();

		memcpy(data + i, &x, 8);
	}
	return rig_write(n, off, data, sizeof(data), FS_FILE_SYNC);
}

/* Up to len bytes, by uid 0 to somebody's file; how many there was room for. */
static uint64_t
fill(struct fs_node *n, uint64_t len)
{
	uint64_t off = 0;
	int err = 0;

	while (off < len && err == 0) {
		err = write_at(n, off);
		off += err == 0 ? PIECE : 0;
	}
	ASSERT(err == 0 || err == -EDQUOT);
	return off;
}

static int
file(uint32_t uid, const char *name, struct fs_node **out)
{
	struct fs_req req = rig_as(uid, STAFF);

	return rig_create_as(&req, root, name, FS_REG, 0644, out);
}

static int
chown_to(struct fs_node *n, uint32_t uid)
{
	struct fs_req req = rig_as(0, 0);
	struct fs_sattr s = {.set_uid = true, .uid = uid};
	struct fs_result res;

	return fs_setattr(n, &req, &s, NULL, &res);
}

static uint64_t
left(uint32_t uid)
{
	struct fs_cred cred = rig_cred(uid, STAFF);
	struct fs_statfs st;

	must(pool_sync(pool));
	fs_statfs(ds, &cred, &st);
	ASSERT(st.free_bytes >= st.avail_bytes && st.total_bytes >= st.free_bytes);
	return st.avail_bytes;
}

static struct pool_account
account(const char *path, enum pool_account_kind kind, uint32_t id)
{
	struct pool_account a;
	struct pool_ds *p;

	must(pool_ds_open(pool, path, &p));
	must(pool_account_get(p, kind, id, &a));
	pool_ds_close(p);
	return a;
}

static void
begin(void)
{
	struct pool_set_spec one = {RAIDZ_KIND_PARITY, 1, DRIVES, drives};
	struct pool_create_spec spec = {
	    .name = "tank", .sets = &one, .set_count = 1, .host_name = "here", .host_id = 1};
	char why[256];

	for (uint32_t i = 0; i < DRIVES; i++) {
		must(kb_sim_open(media[i], &drives[i]));
	}
	must(pool_create(&spec, &pool, why, sizeof(why)));
	must(fs_pool_open(pool, NULL, NULL, &fp));
	must(fs_ds_open(fp, "tank", &ds));
	must(fs_root(ds, &root));
	struct fs_req req = rig_as(0, 0);
	struct fs_sattr s = {.set_mode = true, .mode = 0777};
	struct fs_result res;
	must(fs_setattr(root, &req, &s, NULL, &res));
}

static void
let_go(void)
{
	fs_node_put(root);
	fs_ds_close(ds);
}

static void
users(void)
{
	struct fs_node *a, *b;

	set("tank", "userquota@1000", "2M");
	ASSERT(left(ANN) <= 2 * MIB && left(BOB) > 20 * MIB);
	must(file(ANN, "a", &a));
	must(file(BOB, "b", &b));
	uint64_t got = fill(a, 8 * MIB);
	ASSERT(got <= 2 * MIB && got + 4 * PIECE >= 2 * MIB && left(ANN) < 2 * PIECE);
	ASSERT(account("tank", POOL_ACCOUNT_USER, ANN).bytes <= 2 * MIB);
	ASSERT(fill(b, MIB) == MIB && left(BOB) > 20 * MIB);
	must(pool_sync(pool));
	ASSERT(chown_to(b, ANN) == -EDQUOT && rig_attr(b).uid == BOB);
	must(chown_to(a, BOB));
	must(chown_to(b, ANN));
	must(rig_truncate(b, 0));
	must(chown_to(a, ANN));
	set("tank", "userquota@1000", "64K");
	ASSERT(write_at(a, 0) == -EDQUOT && left(ANN) == 0);
	ASSERT(rig_truncate(a, 8 * MIB) == -EDQUOT); /* it grows */
	must(rig_truncate(a, 1000));
	must(rig_remove(root, "a"));
	set("tank", "userquota@1000", "none");
	ASSERT(fill(b, 3 * MIB) == 3 * MIB);
	fs_node_put(a);
	fs_node_put(b);
}

static void
objects(void)
{
	struct fs_node *n;

	set("tank", "groupobjquota@50", "3"); /* b is one */
	must(file(ANN, "x", &n));
	fs_node_put(n);
	must(file(BOB, "y", &n));
	fs_node_put(n);
	ASSERT(file(ANN, "z", NULL) == -EDQUOT);
	must(rig_remove(root, "x"));
	must(file(ANN, "z", &n));
	fs_node_put(n);
	set("tank", "groupobjquota@50", "none");
}

/* A rollback takes the accounts back, and keeps the quotas. */
static void
chains(void)
{
	const char *snap = "tank@s";
	struct fs_node *n;
	uint32_t bad;

	set("tank", "defaultuserquota", "4M");
	must(pool_sync(pool));
	struct pool_account before = account("tank", POOL_ACCOUNT_USER, ANN);
	must(pool_snap_create(pool, &snap, 1, &bad));
	must(rig_lookup(root, "b", &n));
	must(rig_truncate(n, 0));
	fs_node_put(n);
	let_go();
	must(fs_ds_rollback(fp, "tank@s", NULL));
	must(fs_ds_open(fp, "tank", &ds));
	must(fs_root(ds, &root));
	struct pool_account after = account("tank", POOL_ACCOUNT_USER, ANN);
	ASSERT(after.bytes == before.bytes && after.objects == before.objects);
	must(rig_lookup(root, "b", &n));
	ASSERT(fill(n, 8 * MIB) <= 4 * MIB);
	fs_node_put(n);
}

static void
problem(void *arg UNUSED, const char *what)
{
	(void)fprintf(stderr, "\n  %s", what);
}

static void
quota_main(void *arg UNUSED)
{
	uint64_t count = 0;

	begin();
	users();
	objects();
	chains();
	must(pool_sync(pool));
	UNIT_CHECK(rig_check(fp) == 0);
	UNIT_CHECK(pool_check(pool, problem, NULL, &count) == 0 && count == 0);
	let_go();
	fs_pool_close(fp);
	must(pool_export(pool));
}

static void
test_quota(void)
{
	struct rt_options opt = unit_rt(true, 2, unit_seed(1));

	opt.arena_bytes = 128 * MIB;
	bug_set_deliberate(getenv("AGATE_BUGS"));
	for (uint32_t i = 0; i < DRIVES; i++) {
		char name[16];

		(void)snprintf(name, sizeof(name), "drive%u", i);
		media[i] = kb_sim_medium_create(name, 64 * MIB);
		ASSERT(media[i] != NULL);
	}
	CU_ASSERT_EQUAL(rt_run(&opt, quota_main, NULL), 0);
	for (uint32_t i = 0; i < DRIVES; i++) {
		kb_sim_medium_destroy(media[i]);
	}
}

int
main(int argc, char **argv)
{
	static const struct unit_test tests[] = {{"users, groups, rollback", test_quota}};

	return unit_main("fs_quota", tests, ARRAY_LEN(tests), argc, argv);
}
