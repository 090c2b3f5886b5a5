/* fs_storm.c - see fs_storm.h. */
#include "tests/lib/fs_storm.h"
#include "tests/lib/fs_rig.h"
#include "tests/lib/unit.h"

#define WRITE_MAX 20000u

struct actor {
	struct storm *s;
	struct fs_origin origin;
	struct fs_req req;
};

static uint32_t
rnd(uint32_t n)
{
	return (uint32_t)(rt_random_u64() % n);
}

static uint32_t
give_reply(void *arg, const struct fs_result *res, uint8_t *out, uint32_t cap)
{
	struct actor *a = arg;
	struct storm_reply r;
	memset(&r, 0, sizeof(r));
	r.xid = a->origin.xid;
	r.object = res->has_node ? res->object : 0;
	ASSERT(cap == FS_REPLY_MAX);
	if (a->s->replied != NULL) {
		a->s->replied(a->s, r.xid, r.object);
	}
	memcpy(out, &r, sizeof(r));
	return sizeof(r);
}

static void
actor_init(struct actor *a, struct storm *s)
{
	memset(a, 0, sizeof(*a));
	a->s = s;
	a->origin = (struct fs_origin){.addr = {0xfd},
	    .xid = 1 + atomic_fetch_add(&s->next_xid, 1),
	    .prog = 100003,
	    .vers = 3};
	a->req = (struct fs_req){.origin = &a->origin, .reply = give_reply, .reply_arg = a};
	a->req.cred.uid = rnd(4) == 0 ? 1000 : 0;
}

/* A directory some random steps below the root. */
static struct fs_node *
any_dir(struct storm *s)
{
	struct fs_node *at = s->root;
	int err = fs_node_get(s->ds, fs_node_object(at), 0, &at);
	ASSERT(err == 0);
	for (uint32_t depth = rnd(4); depth > 0; depth--) {
		char name[8];
		struct fs_node *next;
		sprintf(name, "d%u", rnd(4));
		if (rig_lookup(at, name, &next) != 0) {
			break;
		}
		fs_node_put(at);
		at = next;
		if (rig_attr(at).type != FS_DIR) {
			fs_node_put(at);
			return any_dir(s);
		}
	}
	return at;
}

static void
any_name(char *out)
{
	sprintf(out, rnd(3) == 0 ? "d%u" : "n%u", rnd(4));
	if (rnd(8) == 0) {
		sprintf(out, "a_rather_long_name_that_fills_leaves_sooner_%u", rnd(300));
	}
}

static void
op_create(struct actor *a, struct fs_node *dir, const char *name)
{
	char *target = mem_zalloc(FS_SYMLINK_MAX);
	ASSERT(target != NULL);
	memset(target, 't', FS_SYMLINK_MAX);
	struct fs_result res;
	struct fs_create_args args = {.how = rnd(2) ? FS_CREATE_GUARDED : FS_CREATE_UNCHECKED,
	    .set = {.set_mode = true, .mode = rnd(4096), .set_size = rnd(2) != 0},
	    .type = name[0] == 'd' && rnd(8) ? FS_DIR : FS_REG};
	if (args.type == FS_REG && rnd(4) == 0) {
		args.type = rnd(2) ? FS_LNK : FS_FIFO;
		args.target = target;
		args.target_len = 1 + rnd(rnd(2) ? 300 : FS_SYMLINK_MAX);
	}
	if (args.type == FS_REG && rnd(4) == 0) {
		args.how = FS_CREATE_EXCLUSIVE;
		memset(args.verf, (int)rnd(3), sizeof(args.verf));
	}
	if (args.type != FS_REG) {
		args.how = FS_CREATE_GUARDED;
	}
	int err = fs_create(dir, &a->req, name, (uint32_t)strlen(name), &args, NULL, &res);
	mem_free(target);
	UNIT_CHECK(err == 0 || err == -EEXIST || err == -ESTALE || err == -EACCES || err == -EPERM);
}

static void
op_write(struct actor *a, struct fs_node *n)
{
	uint8_t *data = mem_zalloc(WRITE_MAX);
	ASSERT(data != NULL);
	memset(data, (int)rnd(256), WRITE_MAX);
	struct fs_result res;
	uint32_t len = 1 + rnd(rnd(2) ? 100 : rnd(2) ? 400 : WRITE_MAX);
	uint64_t off = rnd(2) ? rnd(300) : rnd(200000);
	struct iovec iov[3] = {
	    {data, len / 3}, {data + len / 3, len / 3}, {data, len - 2 * (len / 3)}};
	uint32_t count = 3;
	struct iobuf *buf = NULL;
	if (rnd(2) == 0) {
		int err = iobuf_alloc(32768, ARENA_RECV, &buf);
		ASSERT(err == 0);
		memcpy(buf->data + 100, data, len);
		iov[0] = (struct iovec){.iov_base = buf->data + 100, .iov_len = len};
		count = 1;
	}
	int err =
	    fs_write(n, &a->req, off, iov, count, buf, rnd(3) ? FS_UNSTABLE : FS_FILE_SYNC, &res);
	UNIT_CHECK(err == 0 || err == -ESTALE || err == -EACCES);
	iobuf_unref(buf);
	mem_free(data);
}

static void
op_setattr(struct actor *a, struct fs_node *n)
{
	struct fs_result res;
	struct fs_attr attr = rig_attr(n);
	struct fs_sattr set = {.set_mode = rnd(2) != 0,
	    .mode = rnd(4096),
	    .set_uid = rnd(4) == 0,
	    .uid = rnd(2) * 1000,
	    .set_gid = rnd(4) == 0,
	    .gid = rnd(3),
	    .atime_how = (enum fs_set_time)rnd(3),
	    .mtime_how = (enum fs_set_time)rnd(3),
	    .mtime = {.sec = rnd(100000) - 500, .nsec = 999999999}};
	if (attr.type == FS_REG && rnd(2) == 0) {
		set.set_size = true;
		set.size = rnd(2) ? rnd(300) : rnd(200000);
	}
	int err = fs_setattr(n, &a->req, &set, rnd(4) ? NULL : &attr.ctime, &res);
	UNIT_CHECK(
	    err == 0 || err == -ESTALE || err == -EACCES || err == -EPERM || err == -ERR_NOTSYNC);
}

static void
op_on_file(struct actor *a, struct fs_node *dir, const char *name, uint32_t what)
{
	struct fs_node *n, *other;
	struct fs_result res;
	char to[64];
	if (rig_lookup(dir, name, &n) != 0) {
		return;
	}
	bool reg = rig_attr(n).type == FS_REG;
	if (what == 0 && rig_attr(n).type != FS_DIR) {
		other = any_dir(a->s);
		any_name(to);
		int err = fs_link(n, other, to, (uint32_t)strlen(to), &a->req, &res);
		UNIT_CHECK(err == 0 || err == -EEXIST || err == -ESTALE || err == -EACCES);
		fs_node_put(other);
	} else if (what == 1) {
		op_setattr(a, n);
	} else if (what == 2 && reg) {
		int err = fs_commit(n, &res);
		UNIT_CHECK(err == 0 || err == -ESTALE);
	} else if (what == 3 && reg) {
		uint8_t buf[1000];
		int64_t got = rig_read(n, rnd(1000), buf, sizeof(buf), NULL);
		UNIT_CHECK(got >= 0 || got == -ESTALE);
	} else if (reg) {
		op_write(a, n);
	}
	fs_node_put(n);
}

static void
op_rename(struct actor *a, struct fs_node *dir, const char *name)
{
	struct fs_result res;
	char to[64];
	struct fs_node *to_dir = rnd(3) == 0 ? NULL : any_dir(a->s);
	any_name(to);
	int err = fs_rename(dir, name, (uint32_t)strlen(name), to_dir != NULL ? to_dir : dir, to,
	    (uint32_t)strlen(to), &a->req, &res);
	UNIT_CHECK(err == 0 || err == -ENOENT || err == -ESTALE || err == -EACCES ||
		   err == -EPERM || err == -EISDIR || err == -ENOTDIR || err == -ENOTEMPTY ||
		   err == -EINVAL);
	fs_node_put(to_dir);
}

void
storm_op(struct storm *s)
{
	struct actor a;
	struct fs_result res;
	char name[64];
	actor_init(&a, s);
	struct fs_node *dir = any_dir(s);
	any_name(name);
	uint32_t what = rnd(16), len = (uint32_t)strlen(name);
	int err = 0;
	if (what < 4) {
		op_create(&a, dir, name);
	} else if (what < 6) {
		op_rename(&a, dir, name);
	} else if (what < 8) {
		err = fs_remove(dir, &a.req, name, len, &res);
	} else if (what == 8) {
		err = fs_rmdir(dir, &a.req, name, len, &res);
	} else {
		op_on_file(&a, dir, name, what - 9);
	}
	UNIT_CHECK(err == 0 || err == -ENOENT || err == -ESTALE || err == -EACCES ||
		   err == -EPERM || err == -EISDIR || err == -ENOTDIR || err == -ENOTEMPTY);
	fs_node_put(dir);
}
