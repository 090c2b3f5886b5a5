/*
 * snapdir.c - the directory .snapshot: nothing of it is stored. It is named by the directory it is
 * in (the host), and every directory of a dataset has one. Its entries are the snapshots in which
 * the host exists - same object, same generation -, oldest first; the cookie of one is made of the
 * txg it was taken in, which no other of this dataset has, so listing goes on rightly while
 * snapshots come and go. Its times are those of the last such change.
 */
#include <stdio.h>
#include "fs/dir.h"

#define SNAPDIR_FILEID (1ull << 62) /* no object has such a number */
#define COOKIE_DOT 1u
#define COOKIE_DOTDOT 2u
#define COOKIE_FIRST 3u
#define BATCH 64u

bool
fs_name_is_snapdir(const char *name, uint32_t len)
{
	return len == sizeof(FS_SNAPDIR_NAME) - 1 && memcmp(name, FS_SNAPDIR_NAME, len) == 0;
}

uint64_t
fs_snapdir_fileid(uint64_t dir_object)
{
	return dir_object | SNAPDIR_FILEID;
}

int
fs_snapdir_enter(struct fs_node *dir, const struct fs_cred *cred)
{
	struct fs_attr a;
	fs_getattr(dir, &a);
	if (node_is_stale(dir)) {
		return -ESTALE;
	}
	if (a.type != FS_DIR) {
		return -ENOTDIR;
	}
	int err = perm_check(&a, cred, PERM_EXEC);
	return err == 0 && fs_node_ds(dir)->snap_guid != 0 ? -ENOENT : err;
}

void
fs_snapdir_getattr(struct fs_node *dir, struct fs_attr *out)
{
	struct fs_ds *ds = fs_node_ds(dir);
	uint64_t ns, seq = pool_snap_list_seq(ds->pds, &ns);
	fs_getattr(dir, out);
	struct fs_time t = {
	    .sec = (int64_t)(ns / NSEC_PER_SEC), .nsec = (uint32_t)(ns % NSEC_PER_SEC)};
	out->mode &= 0555;
	out->nlink = 2;
	out->size = 0;
	out->used_bytes = 0;
	out->object = fs_snapdir_fileid(out->object);
	out->change = seq;
	out->atime = out->mtime = out->ctime = out->btime = t;
}

uint32_t
fs_snapdir_access(struct fs_node *dir, const struct fs_cred *cred, uint32_t want)
{
	return fs_access(dir, cred, want & (FS_ACCESS_READ | FS_ACCESS_LOOKUP));
}

/* The host as it was in the snapshot. -ENOENT: it wasn't there. */
static int
host_in(struct fs_ds *snap, const struct fs_node *dir, struct fs_node **out)
{
	struct fs_node *n;
	int err = fs_node_get(snap, fs_node_object(dir), fs_node_generation(dir), &n);
	if (err == 0 && n->ino.type != FS_DIR) {
		fs_node_put(n);
		err = -ERR_CORRUPT;
	}
	if (err == 0) {
		*out = n;
	}
	return err == -ESTALE ? -ENOENT : err;
}

int
fs_snapdir_lookup(struct fs_node *dir, const struct fs_cred *cred, const char *name, uint32_t len,
    struct fs_ds **out_snap, struct fs_node **out)
{
	struct fs_ds *ds = fs_node_ds(dir), *snap;
	struct pool_ds_info info;
	char full[2 * DATASET_NAME_MAX + 2];
	int err = fs_snapdir_enter(dir, cred);
	if (err == 0) {
		err = name_check(name, len);
	}
	if (err != 0) {
		return err;
	}
	if (memchr(name, '@', len) != NULL) {
		return -ENOENT;
	}
	pool_ds_get_info(ds->pds, &info);
	(void)snprintf(full, sizeof(full), "%s@%.*s", info.path, (int)len, name);
	err = fs_snap_open(ds->fp, full, &snap);
	if (err != 0) {
		return err == -EINVAL ? -ENOENT : err;
	}
	err = host_in(snap, dir, out);
	if (err != 0) {
		fs_ds_close(snap);
		return err;
	}
	*out_snap = snap;
	return 0;
}

/* ---- listing ---- */

struct batch_entry {
	uint64_t guid, cookie;
	char name[DATASET_NAME_MAX + 1];
};

struct batch {
	uint64_t behind; /* cookies up to this one were handed out */
	uint32_t count;
	struct batch_entry v[BATCH];
};

static int
batch_add(void *arg, const struct pool_snap_info *s)
{
	struct batch *b = arg;
	struct batch_entry *e = &b->v[b->count++];
	e->guid = s->guid;
	e->cookie = s->create_txg + COOKIE_FIRST;
	(void)snprintf(e->name, sizeof(e->name), "%s", s->name);
	return 0;
}

/* Does the host exist in it? When that can't be told, it is listed. The root always does. */
static bool
is_listed(struct fs_node *dir, uint64_t snap_guid)
{
	struct fs_ds *ds = fs_node_ds(dir), *snap;
	struct fs_node *n;
	if (fs_node_object(dir) == ds->root_object) {
		return true;
	}
	int err = fs_snap_open_guid(ds->fp, ds->guid, snap_guid, &snap);
	if (err == 0) {
		err = host_in(snap, dir, &n);
		if (err == 0) {
			fs_node_put(n);
		}
		fs_ds_close(snap);
	}
	return err != -ENOENT && err != -ESTALE;
}

/* 0: all were handed out; 1: the caller has enough. */
static int
batch_emit(struct batch *b, struct fs_node *dir, bool (*emit)(void *arg, const struct fs_dirent *e),
    void *arg)
{
	for (uint32_t i = 0; i < b->count; i++) {
		const struct batch_entry *e = &b->v[i];
		struct fs_dirent out = {.name = e->name,
		    .name_len = (uint32_t)strlen(e->name),
		    .object = fs_node_object(dir),
		    .generation = fs_node_generation(dir),
		    .cookie = e->cookie,
		    .type = FS_DIR};
		b->behind = e->cookie;
		if (is_listed(dir, e->guid) && !emit(arg, &out)) {
			return 1;
		}
	}
	return 0;
}

static int
list_snapshots(struct fs_node *dir, struct batch *b,
    bool (*emit)(void *arg, const struct fs_dirent *e), void *arg)
{
	struct fs_ds *ds = fs_node_ds(dir);
	struct pool_ds_info info;
	for (;;) {
		b->count = 0;
		pool_ds_get_info(ds->pds, &info);
		uint64_t txg = b->behind - MIN(b->behind, (uint64_t)COOKIE_FIRST);
		int err = node_is_stale(dir) ? -ESTALE
					     : pool_snap_each_after(ds->fp->pool, info.path, txg,
						   BATCH, batch_add, b);
		if (err < 0) {
			return err;
		}
		if (b->count == 0) {
			return 0;
		}
		err = batch_emit(b, dir, emit, arg);
		if (err != 0) {
			return err;
		}
		fiber_maybe_yield();
	}
}

static bool
emit_dots(struct fs_node *dir, uint64_t cookie, bool (*emit)(void *arg, const struct fs_dirent *e),
    void *arg)
{
	uint64_t host = fs_node_object(dir);
	struct fs_dirent dot = {.name = ".",
	    .name_len = 1,
	    .object = fs_snapdir_fileid(host),
	    .cookie = COOKIE_DOT,
	    .type = FS_DIR};
	struct fs_dirent dotdot = {
	    .name = "..", .name_len = 2, .object = host, .cookie = COOKIE_DOTDOT, .type = FS_DIR};
	return (cookie >= COOKIE_DOT || emit(arg, &dot)) &&
	       (cookie >= COOKIE_DOTDOT || emit(arg, &dotdot));
}

int
fs_snapdir_readdir(struct fs_node *dir, const struct fs_cred *cred, uint64_t cookie,
    bool (*emit)(void *arg, const struct fs_dirent *e), void *arg, bool *out_eof)
{
	struct fs_attr a;
	fs_getattr(dir, &a);
	int err = node_is_stale(dir) ? -ESTALE
		  : a.type != FS_DIR ? -ENOTDIR
				     : perm_check(&a, cred, PERM_READ);
	if (err != 0) {
		return err;
	}
	struct batch *b = mem_zalloc(sizeof(*b));
	if (b == NULL) {
		return -ENOMEM;
	}
	b->behind = MAX(cookie, (uint64_t)COOKIE_DOTDOT);
	err = emit_dots(dir, cookie, emit, arg) ? list_snapshots(dir, b, emit, arg) : 1;
	mem_free(b);
	if (err < 0) {
		return err;
	}
	*out_eof = err == 0;
	return 0;
}
