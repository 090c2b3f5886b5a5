/* fs_rig.c - see fs_rig.h. */
#include <stdarg.h>
#include <stdio.h>
#include "tests/lib/fs_rig.h"

void
rig_attach(struct rig *r, struct pool *pool, fs_reply_found_fn *found, void *arg)
{
	memset(r, 0, sizeof(*r));
	r->pool = pool;
	int err = fs_pool_open(pool, found, arg, &r->fp);
	ASSERT(err == 0);
	err = fs_ds_open(r->fp, pool_name(pool), &r->ds);
	ASSERT(err == 0);
	err = fs_root(r->ds, &r->root);
	ASSERT(err == 0);
}

void
rig_detach(struct rig *r)
{
	fs_node_put(r->root);
	fs_ds_close(r->ds);
	fs_pool_close(r->fp);
}

struct fs_cred
rig_cred(uint32_t uid, uint32_t gid)
{
	return (struct fs_cred){.uid = uid, .gid = gid};
}

struct fs_req
rig_as(uint32_t uid, uint32_t gid)
{
	return (struct fs_req){.cred = rig_cred(uid, gid)};
}

int
rig_create_as(const struct fs_req *req, struct fs_node *dir, const char *name, enum fs_type type,
    uint32_t mode, struct fs_node **out)
{
	struct fs_result res;
	struct fs_create_args args = {
	    .type = type, .how = FS_CREATE_GUARDED, .set = {.set_mode = true, .mode = mode}};
	return fs_create(dir, req, name, (uint32_t)strlen(name), &args, out, &res);
}

int
rig_create(
    struct fs_node *dir, const char *name, enum fs_type type, uint32_t mode, struct fs_node **out)
{
	struct fs_req req = rig_as(0, 0);
	return rig_create_as(&req, dir, name, type, mode, out);
}

int
rig_symlink(struct fs_node *dir, const char *name, const char *target)
{
	struct fs_result res;
	struct fs_req req = rig_as(0, 0);
	struct fs_create_args args = {.type = FS_LNK,
	    .how = FS_CREATE_GUARDED,
	    .target = target,
	    .target_len = (uint32_t)strlen(target)};
	return fs_create(dir, &req, name, (uint32_t)strlen(name), &args, NULL, &res);
}

int
rig_remove(struct fs_node *dir, const char *name)
{
	struct fs_result res;
	struct fs_req req = rig_as(0, 0);
	return fs_remove(dir, &req, name, (uint32_t)strlen(name), &res);
}

int
rig_rmdir(struct fs_node *dir, const char *name)
{
	struct fs_result res;
	struct fs_req req = rig_as(0, 0);
	return fs_rmdir(dir, &req, name, (uint32_t)strlen(name), &res);
}

int
rig_rename(struct fs_node *from_dir, const char *from, struct fs_node *to_dir, const char *to)
{
	struct fs_result res;
	struct fs_req req = rig_as(0, 0);
	return fs_rename(
	    from_dir, from, (uint32_t)strlen(from), to_dir, to, (uint32_t)strlen(to), &req, &res);
}

int
rig_link(struct fs_node *n, struct fs_node *dir, const char *name)
{
	struct fs_result res;
	struct fs_req req = rig_as(0, 0);
	return fs_link(n, dir, name, (uint32_t)strlen(name), &req, &res);
}

int
rig_lookup(struct fs_node *dir, const char *name, struct fs_node **out)
{
	struct fs_cred cred = rig_cred(0, 0);
	return fs_lookup(dir, &cred, name, (uint32_t)strlen(name), out);
}

bool
rig_exists(struct fs_node *dir, const char *name)
{
	struct fs_node *n;
	int err = rig_lookup(dir, name, &n);
	if (err == 0) {
		fs_node_put(n);
	}
	return err == 0;
}

int
rig_write(struct fs_node *n, uint64_t off, const void *data, uint32_t len, enum fs_stable how)
{
	struct fs_result res;
	struct fs_req req = rig_as(0, 0);
	struct iovec iov = {.iov_base = (void *)(uintptr_t)data, .iov_len = len};
	return fs_write(n, &req, off, &iov, 1, NULL, how, &res);
}

int
rig_truncate(struct fs_node *n, uint64_t size)
{
	struct fs_result res;
	struct fs_req req = rig_as(0, 0);
	struct fs_sattr set = {.set_size = true, .size = size};
	return fs_setattr(n, &req, &set, NULL, &res);
}

int64_t
rig_read(struct fs_node *n, uint64_t off, void *out, uint32_t len, bool *out_eof)
{
	struct fs_cred cred = rig_cred(0, 0);
	struct pool_slice *slices = mem_zalloc_array(POOL_READ_SLICES_MAX, sizeof(*slices));
	ASSERT(slices != NULL);
	struct fs_attr a;
	uint32_t count = 0, got = 0, at = 0;
	bool eof;
	memset(out, 0, len);
	int err = fs_read(n, &cred, off, len, slices, POOL_READ_SLICES_MAX, &count, &got, &eof, &a);
	for (uint32_t i = 0; err == 0 && i < count; i++) {
		if (slices[i].buf != NULL) {
			memcpy((uint8_t *)out + at, slices[i].buf->data + slices[i].off_bytes,
			    slices[i].len_bytes);
			iobuf_unref(slices[i].buf);
		}
		at += slices[i].len_bytes;
	}
	mem_free(slices);
	if (err != 0) {
		return err;
	}
	ASSERT(at == got);
	if (out_eof != NULL) {
		*out_eof = eof;
	}
	return got;
}

struct fs_attr
rig_attr(struct fs_node *n)
{
	struct fs_attr a;
	fs_getattr(n, &a);
	return a;
}

/* ---- a dataset as text ---- */

struct text {
	char *buf;
	size_t len, cap;
};

static void PRINTF_LIKE(2, 3) text_add(struct text *t, const char *fmt, ...)
{
	if (t->cap - t->len < 2048) {
		t->cap = t->cap * 2 + 8192;
		t->buf = mem_realloc(t->buf, t->cap);
		ASSERT(t->buf != NULL);
	}
	va_list ap;
	va_start(ap, fmt);
	int n = vsnprintf(t->buf + t->len, t->cap - t->len, fmt, ap);
	va_end(ap);
	ASSERT(n >= 0 && (size_t)n < t->cap - t->len);
	t->len += (size_t)n;
}

static void
dump_attr(struct text *t, const struct fs_attr *a)
{
	text_add(t,
	    " type=%d mode=%o nlink=%u uid=%u gid=%u size=%llu rdev=%u,%u obj=%llu gen=%llu "
	    "change=%llu"
	    " m=%lld.%09u c=%lld.%09u b=%lld.%09u",
	    (int)a->type, a->mode, a->nlink, a->uid, a->gid,
	    (unsigned long long)(a->type == FS_DIR ? 0 : a->size), a->rdev_major, a->rdev_minor,
	    (unsigned long long)a->object, (unsigned long long)a->generation,
	    (unsigned long long)a->change, (long long)a->mtime.sec, a->mtime.nsec,
	    (long long)a->ctime.sec, a->ctime.nsec, (long long)a->btime.sec, a->btime.nsec);
}

static void
dump_data(struct text *t, struct fs_node *n, uint64_t size)
{
	static uint8_t buf[65536];
	uint64_t sum = 14695981039346656037ull;
	for (uint64_t off = 0; off < MIN(size, 8 * MIB); off += sizeof(buf)) {
		int64_t got = rig_read(n, off, buf, sizeof(buf), NULL);
		ASSERT(got >= 0);
		for (int64_t i = 0; i < got; i++) {
			sum = (sum ^ buf[i]) * 1099511628211ull;
		}
	}
	text_add(t, " data=%016llx", (unsigned long long)sum);
}

struct dump_entry {
	uint64_t object, generation, cookie;
	char name[FS_NAME_MAX + 1];
	struct dump_entry *next;
};

struct dump_list {
	struct dump_entry *first, **last;
};

static bool
dump_collect(void *arg, const struct fs_dirent *e)
{
	struct dump_list *l = arg;
	struct dump_entry *d = mem_zalloc(sizeof(*d));
	ASSERT(d != NULL);
	d->object = e->object;
	d->generation = e->generation;
	d->cookie = e->cookie;
	memcpy(d->name, e->name, e->name_len);
	*l->last = d;
	l->last = &d->next;
	return true;
}

static void dump_node(
    struct text *t, struct fs_ds *ds, struct fs_node *n, const char *path, uint64_t cookie);

static void
dump_dir(struct text *t, struct fs_ds *ds, struct fs_node *dir, const char *path)
{
	struct fs_cred cred = rig_cred(0, 0);
	struct dump_list l = {.first = NULL, .last = &l.first};
	bool eof = false;
	int err = fs_readdir(dir, &cred, 0, false, dump_collect, &l, &eof);
	ASSERT(err == 0 && eof);
	while (l.first != NULL) {
		struct dump_entry *d = l.first;
		l.first = d->next;
		if (strcmp(d->name, "..") == 0) {
			text_add(t, "%s/.. obj=%llu\n", path, (unsigned long long)d->object);
		} else if (strcmp(d->name, ".") != 0) {
			struct fs_node *n;
			char *sub = mem_zalloc(strlen(path) + sizeof(d->name) + 2);
			ASSERT(sub != NULL);
			sprintf(sub, "%s/%s", path, d->name);
			err = fs_node_get(ds, d->object, d->generation, &n);
			ASSERT(err == 0);
			dump_node(t, ds, n, sub, d->cookie);
			fs_node_put(n);
			mem_free(sub);
		}
		mem_free(d);
	}
}

static void
dump_node(struct text *t, struct fs_ds *ds, struct fs_node *n, const char *path, uint64_t cookie)
{
	struct fs_attr a = rig_attr(n);
	text_add(t, "%s cookie=%llu", path, (unsigned long long)cookie);
	dump_attr(t, &a);
	if (a.type == FS_REG) {
		dump_data(t, n, a.size);
	} else if (a.type == FS_LNK) {
		static char target[FS_SYMLINK_MAX + 1];
		uint32_t len = 0, sum = 0;
		int err = fs_readlink(n, target, sizeof(target), &len);
		ASSERT(err == 0);
		for (uint32_t i = 0; i < len; i++) {
			sum = sum * 31 + (uint8_t)target[i];
		}
		text_add(t, " target=%u:%08x", len, sum);
	}
	text_add(t, "\n");
	if (a.type == FS_DIR) {
		dump_dir(t, ds, n, path);
	}
}

char *
rig_dump(struct fs_ds *ds)
{
	struct text t = {0};
	struct fs_node *root;
	int err = fs_root(ds, &root);
	ASSERT(err == 0);
	dump_node(&t, ds, root, "", 0);
	fs_node_put(root);
	return t.buf;
}

bool
rig_same(const char *a, const char *b)
{
	while (*a != 0 && *b != 0) {
		size_t la = strcspn(a, "\n"), lb = strcspn(b, "\n");
		if (la != lb || memcmp(a, b, la) != 0) {
			break;
		}
		a += la + (a[la] == '\n');
		b += lb + (b[lb] == '\n');
	}
	if (*a == 0 && *b == 0) {
		return true;
	}
	fprintf(stderr, "\n  first : %.*s\n  second: %.*s\n", (int)strcspn(a, "\n"), a,
	    (int)strcspn(b, "\n"), b);
	return false;
}

static void
print_problem(void *arg, const char *what)
{
	(void)arg;
	fprintf(stderr, "\n  fs_check: %s", what);
}

uint64_t
rig_check(struct fs_pool *fp)
{
	uint64_t count = 0;
	int err = fs_check(fp, print_problem, NULL, &count);
	ASSERT(err == 0);
	return count;
}
