/* snapshots_test.c - snapshots over NFS: .snapshot, handles, listings while snapshots come and go,
 * shares of a directory, and rolling back under clients (cases.md B29, E07). */
#include <stdio.h>
#include <stdlib.h>
#include "base/bug.h"
#include "tests/lib/nfs_rig.h"

#define SEEDS_EACH 3u

#define MANY 150u

static int
take(struct nfs_rig *r, const char *name)
{
	uint32_t bad;
	return fs_snap_create(r->fp, &name, 1, &bad);
}

static int
destroy(struct nfs_rig *r, const char *name)
{
	uint32_t bad;
	return fs_snap_destroy(r->fp, &name, 1, &bad);
}

static bool
same_fh(const struct rig_fh *a, const struct rig_fh *b)
{
	return a->len == b->len && memcmp(a->bytes, b->bytes, a->len) == 0;
}

static void
put_file(struct nfsc *c, const struct rig_fh *dir, const char *name, const char *text,
    struct rig_fh *out)
{
	struct rig_fh f;
	CU_ASSERT(rig_create(c, dir, name, UNCHECKED, 0644, &f) == NFS3_OK);
	CU_ASSERT(rig_set_size(c, &f, 0) == NFS3_OK);
	CU_ASSERT(rig_write(c, &f, 0, text, (uint32_t)strlen(text), FILE_SYNC, NULL) == NFS3_OK);
	if (out != NULL) {
		*out = f;
	}
}

static bool
holds(struct nfsc *c, const struct rig_fh *fh, const char *text)
{
	char buf[64];
	uint32_t len = 0;
	bool eof = false;
	return rig_read(c, fh, 0, buf, sizeof(buf), &len, &eof) == NFS3_OK && eof &&
	       len == strlen(text) && memcmp(buf, text, len) == 0;
}

/* ".snapshot/<snap>" below dir. */
static uint32_t
enter(struct nfsc *c, const struct rig_fh *dir, const char *snap, struct rig_fh *out)
{
	struct rig_fh sd;
	uint32_t st = rig_lookup(c, dir, ".snapshot", &sd);
	return st == NFS3_OK ? rig_lookup(c, &sd, snap, out) : st;
}

/* How often name is listed in dir, by pages of so many bytes. *out_count: all names. */
static uint32_t
listed(
    struct nfsc *c, const struct rig_fh *dir, const char *name, uint32_t bytes, uint32_t *out_count)
{
	struct nfsc_dirres res = {.eof = FALSE};
	uint64_t cookie = 0;
	uint32_t found = 0, all = 0;
	for (uint32_t pages = 0; !res.eof && pages < 5000; pages++) {
		READDIR3args args = {.dir = rig_fh3(dir), .cookie = cookie, .count = bytes};
		ASSERT(nfsc_call(c, NFSC_READDIR, &args, &res) == 0 && res.status == NFS3_OK);
		for (uint32_t i = 0; i < res.count; i++) {
			CU_ASSERT(res.entries[i].cookie > cookie);
			cookie = res.entries[i].cookie;
			found += strcmp(res.entries[i].name, name) == 0;
			all++;
		}
		bool_t eof = res.eof;
		nfsc_free(NFSC_READDIR, &res);
		res.eof = eof;
	}
	if (out_count != NULL) {
		*out_count = all;
	}
	return found;
}

static void
refused(struct nfsc *c, const struct rig_fh *dir, const struct rig_fh *f)
{
	CU_ASSERT(rig_write(c, f, 0, "x", 1, FILE_SYNC, NULL) == NFS3ERR_ROFS);
	CU_ASSERT(rig_set_mode(c, f, 0600) == NFS3ERR_ROFS);
	CU_ASSERT(rig_create(c, dir, "new", GUARDED, 0644, NULL) == NFS3ERR_ROFS);
	CU_ASSERT(rig_mkdir(c, dir, "new", 0755, NULL) == NFS3ERR_ROFS);
	CU_ASSERT(rig_remove(c, dir, "f") == NFS3ERR_ROFS);
	CU_ASSERT(rig_rename(c, dir, "f", dir, "g") == NFS3ERR_ROFS);
	CU_ASSERT(rig_link(c, f, dir, "g") == NFS3ERR_ROFS);
}

static void
b29_snapdir(struct nfs_rig *r)
{
	struct rig_fh root = rig_root(r), f, d, sd, s1, s2, old, at, up;
	fattr3 a, b, c;
	CU_ASSERT(rig_mkdir(&r->c, &root, "d", 0755, &d) == NFS3_OK);
	put_file(&r->c, &root, "f", "one", &f);
	put_file(&r->c, &d, "in", "deep", NULL);
	CU_ASSERT(take(r, "tank@s1") == 0);
	CU_ASSERT(take(r, "tank@s1") == -EEXIST);
	put_file(&r->c, &root, "f", "two!", &f);
	CU_ASSERT(rig_mkdir(&r->c, &root, "later", 0755, &at) == NFS3_OK);
	CU_ASSERT(take(r, "tank@s2") == 0);
	CU_ASSERT(rig_lookup(&r->c, &root, ".snapshot", &sd) == NFS3_OK);
	CU_ASSERT(rig_lookup(&r->c, &sd, "s1", &s1) == NFS3_OK);
	CU_ASSERT(rig_lookup(&r->c, &sd, "s2", &s2) == NFS3_OK);
	CU_ASSERT(rig_lookup(&r->c, &sd, "s3", NULL) == NFS3ERR_NOENT);
	/* each a file system of its own, with the old data and times */
	CU_ASSERT(rig_getattr(&r->c, &root, &a) == NFS3_OK);
	CU_ASSERT(rig_getattr(&r->c, &s1, &b) == NFS3_OK);
	CU_ASSERT(rig_getattr(&r->c, &s2, &c) == NFS3_OK);
	CU_ASSERT(a.fsid != b.fsid && b.fsid != c.fsid && a.fsid != c.fsid);
	CU_ASSERT(a.fileid == b.fileid && c.fileid == a.fileid);
	CU_ASSERT(rig_lookup(&r->c, &s1, "f", &old) == NFS3_OK);
	CU_ASSERT(holds(&r->c, &old, "one") && holds(&r->c, &f, "two!"));
	CU_ASSERT(rig_lookup(&r->c, &s1, "later", NULL) == NFS3ERR_NOENT);
	CU_ASSERT(rig_lookup(&r->c, &s2, "later", NULL) == NFS3_OK);
	refused(&r->c, &s1, &old);
	refused(&r->c, &sd, &old);
	/* nothing of it below itself */
	CU_ASSERT(rig_lookup(&r->c, &s1, ".snapshot", NULL) == NFS3ERR_NOENT);
	/* up again */
	CU_ASSERT(rig_lookup(&r->c, &s1, "..", &up) == NFS3_OK && same_fh(&up, &sd));
	CU_ASSERT(rig_lookup(&r->c, &sd, "..", &up) == NFS3_OK && same_fh(&up, &root));
	CU_ASSERT(rig_lookup(&r->c, &sd, ".", &up) == NFS3_OK && same_fh(&up, &sd));
	/* from any directory; only those snapshots in which it was there */
	CU_ASSERT(enter(&r->c, &d, "s1", &up) == NFS3_OK);
	CU_ASSERT(rig_lookup(&r->c, &up, "in", NULL) == NFS3_OK);
	CU_ASSERT(enter(&r->c, &at, "s1", NULL) == NFS3ERR_NOENT);
	CU_ASSERT(enter(&r->c, &at, "s2", &up) == NFS3_OK);
	CU_ASSERT(rig_lookup(&r->c, &at, ".snapshot", &up) == NFS3_OK);
	CU_ASSERT(listed(&r->c, &up, "s1", 4096, NULL) == 0);
	CU_ASSERT(listed(&r->c, &up, "s2", 4096, NULL) == 1);
	CU_ASSERT(rig_lookup(&r->c, &f, ".snapshot", NULL) == NFS3ERR_NOTDIR);
	/* the name is taken */
	CU_ASSERT(rig_mkdir(&r->c, &root, ".snapshot", 0755, NULL) == NFS3ERR_EXIST);
	CU_ASSERT(rig_create(&r->c, &d, ".snapshot", UNCHECKED, 0644, NULL) == NFS3ERR_EXIST);
	CU_ASSERT(rig_symlink(&r->c, &d, ".snapshot", "x", NULL) == NFS3ERR_EXIST);
	CU_ASSERT(rig_link(&r->c, &f, &d, ".snapshot") == NFS3ERR_EXIST);
	CU_ASSERT(rig_rename(&r->c, &root, "f", &d, ".snapshot") == NFS3ERR_ROFS);
	CU_ASSERT(rig_rename(&r->c, &root, ".snapshot", &d, "x") == NFS3ERR_ROFS);
	CU_ASSERT(rig_rmdir(&r->c, &root, ".snapshot") == NFS3ERR_ROFS);
	CU_ASSERT(rig_remove(&r->c, &root, ".snapshot") == NFS3ERR_ROFS);
	/* no permission to enter the host, none for its snapshots */
	struct nfsc other = nfs_rig_client(r, 1001, 100);
	CU_ASSERT(rig_set_mode(&r->c, &d, 0700) == NFS3_OK);
	CU_ASSERT(rig_lookup(&other, &d, ".snapshot", NULL) == NFS3ERR_ACCES);
	nfsc_disconnect(&other);
}

static void
b29_visible(struct nfs_rig *r)
{
	struct rig_fh root = rig_root(r), d;
	char why[128];
	CU_ASSERT(rig_mkdir(&r->c, &root, "d", 0755, &d) == NFS3_OK);
	CU_ASSERT(listed(&r->c, &root, ".snapshot", 512, NULL) == 0);
	CU_ASSERT(fs_prop_set(r->fp, "tank", "snapdir", "visible", why, sizeof(why)) == 0);
	CU_ASSERT(listed(&r->c, &root, ".snapshot", 512, NULL) == 1);
	CU_ASSERT(listed(&r->c, &d, ".snapshot", 512, NULL) == 0);
	READDIRPLUS3args args = {.dir = rig_fh3(&root), .dircount = 4096, .maxcount = 8192};
	struct nfsc_dirres res;
	struct rig_fh sd;
	CU_ASSERT(rig_lookup(&r->c, &root, ".snapshot", &sd) == NFS3_OK);
	ASSERT(nfsc_call(&r->c, NFSC_READDIRPLUS, &args, &res) == 0 && res.status == NFS3_OK);
	for (uint32_t i = 0; i < res.count; i++) {
		const struct nfsc_dirent *e = &res.entries[i];
		if (strcmp(e->name, ".snapshot") == 0) {
			CU_ASSERT(e->has_fh && e->fh_len == sd.len &&
				  memcmp(e->fh, sd.bytes, sd.len) == 0);
			CU_ASSERT(e->has_attr && e->attr.fileid == e->fileid);
		}
	}
	nfsc_free(NFSC_READDIRPLUS, &res);
	CU_ASSERT(fs_prop_set(r->fp, "tank", "snapdir", NULL, why, sizeof(why)) == 0);
	CU_ASSERT(listed(&r->c, &root, ".snapshot", 512, NULL) == 0);
}

/* Snapshots come and go while others are listed, by small pages: those that stay are listed once.
 */
static void
b29_listing(struct nfs_rig *r)
{
	static uint8_t seen[MANY];
	struct rig_fh root = rig_root(r), sd;
	struct nfsc_dirres res = {.eof = FALSE};
	char name[32];
	uint64_t cookie = 0;
	uint32_t step = 0;
	fattr3 a, b;
	memset(seen, 0, sizeof(seen));
	for (uint32_t i = 0; i < MANY; i++) {
		snprintf(name, sizeof(name), "tank@n%u", i);
		CU_ASSERT(take(r, name) == 0);
	}
	CU_ASSERT(rig_lookup(&r->c, &root, ".snapshot", &sd) == NFS3_OK);
	CU_ASSERT(rig_getattr(&r->c, &sd, &a) == NFS3_OK);
	while (!res.eof && step < 5000) {
		READDIR3args args = {.dir = rig_fh3(&sd), .cookie = cookie, .count = 300};
		ASSERT(nfsc_call(&r->c, NFSC_READDIR, &args, &res) == 0 && res.status == NFS3_OK);
		for (uint32_t i = 0; i < res.count; i++) {
			cookie = res.entries[i].cookie;
			if (res.entries[i].name[0] == 'n') {
				seen[strtoul(res.entries[i].name + 1, NULL, 10) % MANY]++;
			}
		}
		bool_t eof = res.eof;
		nfsc_free(NFSC_READDIR, &res);
		res.eof = eof;
		snprintf(name, sizeof(name), "tank@n%u", 7 * step % MANY);
		if (7 * step < MANY) {
			CU_ASSERT(destroy(r, name) == 0);
		}
		snprintf(name, sizeof(name), "tank@x%u", step++);
		if (step < 20) {
			CU_ASSERT(take(r, name) == 0);
		}
	}
	CU_ASSERT(step < 5000);
	for (uint32_t i = 0; i < MANY; i++) {
		CU_ASSERT(seen[i] == 1 || (seen[i] == 0 && i % 7 == 0));
	}
	CU_ASSERT(rig_getattr(&r->c, &sd, &b) == NFS3_OK);
	CU_ASSERT(memcmp(&a.mtime, &b.mtime, sizeof(a.mtime)) != 0);
	CU_ASSERT(memcmp(&a.ctime, &b.ctime, sizeof(a.ctime)) != 0);
	CU_ASSERT(a.fileid == b.fileid && a.fileid != 0);
}

static void
b29_destroy(struct nfs_rig *r)
{
	struct rig_fh root = rig_root(r), s1, f, live;
	put_file(&r->c, &root, "f", "one", &live);
	CU_ASSERT(take(r, "tank@s1") == 0);
	CU_ASSERT(enter(&r->c, &root, "s1", &s1) == NFS3_OK);
	CU_ASSERT(rig_lookup(&r->c, &s1, "f", &f) == NFS3_OK);
	CU_ASSERT(holds(&r->c, &f, "one"));
	/* handles survive a restart of the service and a rename of the snapshot */
	nfs_rig_restart(r);
	r->c = nfs_rig_client(r, 0, 0);
	CU_ASSERT(fs_snap_rename(r->fp, "tank@s1", "renamed") == 0);
	CU_ASSERT(holds(&r->c, &f, "one"));
	CU_ASSERT(enter(&r->c, &root, "s1", NULL) == NFS3ERR_NOENT);
	CU_ASSERT(enter(&r->c, &root, "renamed", NULL) == NFS3_OK);
	CU_ASSERT(destroy(r, "tank@renamed") == 0);
	CU_ASSERT(rig_getattr(&r->c, &f, NULL) == NFS3ERR_STALE);
	CU_ASSERT(rig_getattr(&r->c, &s1, NULL) == NFS3ERR_STALE);
	CU_ASSERT(rig_write(&r->c, &f, 0, "x", 1, FILE_SYNC, NULL) == NFS3ERR_STALE);
	CU_ASSERT(enter(&r->c, &root, "renamed", NULL) == NFS3ERR_NOENT);
	/* another one of the same name is another one */
	CU_ASSERT(take(r, "tank@renamed") == 0);
	CU_ASSERT(enter(&r->c, &root, "renamed", NULL) == NFS3_OK);
	CU_ASSERT(rig_getattr(&r->c, &f, NULL) == NFS3ERR_STALE);
	CU_ASSERT(holds(&r->c, &live, "one"));
}

static void
b29_mount(struct nfs_rig *r)
{
	struct rig_fh root = rig_root(r), d, s1, at;
	struct nfsc m;
	nfs_fh3 fh;
	uint8_t bytes[64];
	CU_ASSERT(rig_mkdir(&r->c, &root, "d", 0755, &d) == NFS3_OK);
	CU_ASSERT(take(r, "tank@s1") == 0);
	CU_ASSERT(enter(&r->c, &root, "s1", &s1) == NFS3_OK);
	nfsc_init(&m, "127.0.0.1", r->mount_port);
	CU_ASSERT(nfsc_mnt(&m, 3, "/tank/.snapshot/s1", &fh, bytes) == 0);
	CU_ASSERT(fh.data.data_len == s1.len && memcmp(bytes, s1.bytes, s1.len) == 0);
	CU_ASSERT(nfsc_mnt(&m, 3, "/tank/d/.snapshot/s1", &fh, bytes) == 0);
	CU_ASSERT(rig_lookup(&r->c, &s1, "d", &at) == NFS3_OK);
	CU_ASSERT(memcmp(bytes, at.bytes, at.len) == 0);
	CU_ASSERT(nfsc_mnt(&m, 3, "/tank/.snapshot/s1/d", &fh, bytes) == 0);
	CU_ASSERT(memcmp(bytes, at.bytes, at.len) == 0);
	CU_ASSERT(nfsc_mnt(&m, 3, "/tank/.snapshot", &fh, bytes) == 0);
	CU_ASSERT(nfsc_mnt(&m, 3, "/tank/.snapshot/none", &fh, bytes) == MNT3ERR_NOENT);
	CU_ASSERT(nfsc_mnt(&m, 3, "/tank/.snapshot/s1/none", &fh, bytes) == MNT3ERR_NOENT);
	nfsc_disconnect(&m);
	FSSTAT3args args = {rig_fh3(&s1)};
	FSSTAT3res res;
	CU_ASSERT(nfsc_call(&r->c, NFSC_FSSTAT, &args, &res) == 0 && res.status == NFS3_OK);
	CU_ASSERT(res.FSSTAT3res_u.resok.abytes == 0 && res.FSSTAT3res_u.resok.tbytes > 0);
	nfsc_free(NFSC_FSSTAT, &res);
}

/* A share of a directory ends at that directory in snapshots too. */
static void
b29_subshare(struct nfs_rig *r)
{
	static struct nfsd_rule rules[2];
	static struct nfsd_export e[2];
	struct rig_fh root = rig_root(r), top, in, out_fh, s1, up, at;
	nfs_fh3 fh;
	struct nfsc m;
	CU_ASSERT(rig_mkdir(&r->c, &root, "top", 0755, &top) == NFS3_OK);
	CU_ASSERT(rig_mkdir(&r->c, &top, "moved", 0755, &in) == NFS3_OK);
	CU_ASSERT(rig_mkdir(&r->c, &root, "other", 0755, &out_fh) == NFS3_OK);
	CU_ASSERT(rig_rename(&r->c, &top, "moved", &root, "moved") == NFS3_OK);
	CU_ASSERT(take(r, "tank@s1") == 0);
	CU_ASSERT(rig_rename(&r->c, &root, "moved", &top, "moved") == NFS3_OK);
	nfs_rig_export(&e[0], 1, "/tank", "tank", &rules[0]);
	nfs_rig_export(&e[1], 2, "/top", "tank", &rules[1]);
	snprintf(e[1].subdir, sizeof(e[1].subdir), "top");
	ASSERT(nfsd_publish(r->nfsd, e, 2) == 0);
	nfsc_init(&m, "127.0.0.1", r->mount_port);
	CU_ASSERT(nfsc_mnt(&m, 3, "/top", &fh, top.bytes) == 0);
	top.len = fh.data.data_len;
	CU_ASSERT(enter(&r->c, &top, "s1", &s1) == NFS3_OK);
	CU_ASSERT(rig_lookup(&r->c, &s1, "..", &up) == NFS3_OK);
	CU_ASSERT(rig_lookup(&r->c, &up, "..", &at) == NFS3_OK && same_fh(&at, &top));
	CU_ASSERT(rig_lookup(&r->c, &top, "..", &at) == NFS3_OK && same_fh(&at, &top));
	/* what is in the share now, but wasn't then */
	CU_ASSERT(rig_lookup(&r->c, &top, "moved", &in) == NFS3_OK);
	CU_ASSERT(enter(&r->c, &in, "s1", NULL) == NFS3ERR_NOENT);
	CU_ASSERT(nfsc_mnt(&m, 3, "/top/.snapshot/s1", &fh, at.bytes) == 0);
	nfsc_disconnect(&m);
}

/* ---- rolling back ---- */

struct storm {
	struct nfs_rig *r;
	struct rig_fh root;
	struct waitgroup done;
	bool stop;
	uint32_t wrong, calls;
};

/* What a busy client hears: OK, or that the file is gone which it made after the snapshot. Never
 * that one is stale that the snapshot has. */
static void
storm_client(void *arg)
{
	struct storm *s = arg;
	struct nfsc c = nfs_rig_client(s->r, 0, 0);
	char name[32];
	c.jukebox_tries = 20;
	for (uint32_t i = 0; !s->stop; i++) {
		struct rig_fh f, kept;
		uint32_t st = rig_lookup(&c, &s->root, "kept", &kept);
		s->wrong += st != NFS3_OK;
		st = rig_write(&c, &kept, 0, "garbage", 7, i % 2 == 0 ? UNSTABLE : FILE_SYNC, NULL);
		s->wrong += st != NFS3_OK;
		snprintf(name, sizeof(name), "new%u", (unsigned)(rt_random_u64() % 50));
		st = rig_create(&c, &s->root, name, UNCHECKED, 0600, &f);
		s->wrong += st != NFS3_OK;
		st = rig_write(&c, &f, 0, name, 8, UNSTABLE, NULL);
		s->wrong += st != NFS3_OK && st != NFS3ERR_STALE;
		st = rig_getattr(&c, &s->root, NULL);
		s->wrong += st != NFS3_OK;
		s->calls += 5;
	}
	nfsc_disconnect(&c);
	wg_done(&s->done);
}

static void
e07_rollback(struct nfs_rig *r)
{
	struct rig_fh root = rig_root(r), f, d, late, kept, again;
	fattr3 was, is;
	char before[8], after[8];
	WRITE3resok w;
	uint32_t all;
	put_file(&r->c, &root, "f", "old", &f);
	CU_ASSERT(rig_mkdir(&r->c, &root, "d", 0755, &d) == NFS3_OK);
	put_file(&r->c, &root, "kept", "kept", &kept);
	CU_ASSERT(rig_set_mode(&r->c, &f, 0640) == NFS3_OK);
	put_file(&r->c, &root, "a", "a", NULL);
	CU_ASSERT(rig_getattr(&r->c, &f, &was) == NFS3_OK);
	CU_ASSERT(take(r, "tank@s1") == 0);
	CU_ASSERT(rig_rename(&r->c, &root, "a", &root, "b") == NFS3_OK);
	CU_ASSERT(rig_lookup(&r->c, &root, "b", NULL) == NFS3_OK);
	CU_ASSERT(enter(&r->c, &root, "s1", &again) == NFS3_OK);
	CU_ASSERT(rig_lookup(&r->c, &again, "b", NULL) == NFS3ERR_NOENT);
	CU_ASSERT(rig_lookup(&r->c, &again, "a", NULL) == NFS3_OK);
	CU_ASSERT(rig_lookup(&r->c, &root, "a", NULL) == NFS3ERR_NOENT);
	put_file(&r->c, &root, "f", "newer", NULL);
	CU_ASSERT(rig_set_mode(&r->c, &f, 0777) == NFS3_OK);
	put_file(&r->c, &root, "late", "late", &late);
	CU_ASSERT(rig_rmdir(&r->c, &root, "d") == NFS3_OK);
	CU_ASSERT(rig_lookup(&r->c, &root, "d", NULL) == NFS3ERR_NOENT);
	CU_ASSERT(rig_write(&r->c, &f, 0, "lost", 4, UNSTABLE, &w) == NFS3_OK);
	CU_ASSERT(rig_commit(&r->c, &f, before) == NFS3_OK);
	CU_ASSERT(memcmp(before, w.verf, 8) == 0);
	CU_ASSERT(rig_write(&r->c, &f, 0, "lost", 4, UNSTABLE, &w) == NFS3_OK);
	struct storm s = {.r = r, .root = root};
	wg_init(&s.done);
	for (unsigned i = 0; i < 4; i++) {
		wg_add(&s.done, 1);
		fiber_spawn_wait(i % 3, FIBER_ADMIN, "storm", storm_client, &s);
	}
	fiber_sleep(20 * NSEC_PER_MSEC);
	CU_ASSERT(fs_ds_rollback(r->fp, "tank@s1", NULL) == 0);
	CU_ASSERT(nfsd_refresh(r->nfsd) == 0);
	fiber_sleep(20 * NSEC_PER_MSEC);
	s.stop = true;
	wg_wait(&s.done);
	CU_ASSERT(s.wrong == 0 && s.calls > 20);
	CU_ASSERT(take(r, "tank@busy") == 0); /* not the newest any more */
	CU_ASSERT(fs_ds_rollback(r->fp, "tank@s1", NULL) == -EBUSY);
	CU_ASSERT(rig_getattr(&r->c, &f, &is) == NFS3_OK);
	CU_ASSERT(destroy(r, "tank@busy") == 0);
	CU_ASSERT(fs_ds_rollback(r->fp, "tank@s1", NULL) == 0);
	CU_ASSERT(nfsd_refresh(r->nfsd) == 0);
	/* handles of what the snapshot has are good, the others stale; all is as it was */
	CU_ASSERT(holds(&r->c, &f, "old") && holds(&r->c, &kept, "kept"));
	CU_ASSERT(rig_getattr(&r->c, &f, &is) == NFS3_OK);
	CU_ASSERT(memcmp(&was, &is, sizeof(was)) == 0);
	CU_ASSERT(rig_getattr(&r->c, &late, NULL) == NFS3ERR_STALE);
	CU_ASSERT(rig_lookup(&r->c, &root, "late", NULL) == NFS3ERR_NOENT);
	CU_ASSERT(rig_lookup(&r->c, &root, "d", &again) == NFS3_OK && same_fh(&again, &d));
	CU_ASSERT(rig_lookup(&r->c, &root, "b", NULL) == NFS3ERR_NOENT);
	CU_ASSERT(listed(&r->c, &root, "f", 512, &all) == 1 && all == 6);
	/* what was lost is known to be lost */
	CU_ASSERT(rig_commit(&r->c, &f, after) == NFS3_OK && memcmp(after, w.verf, 8) != 0);
	/* the number of a discarded file may come back; its handle doesn't */
	for (unsigned i = 0; i < 100; i++) {
		char name[16];
		snprintf(name, sizeof(name), "n%u", i);
		CU_ASSERT(rig_create(&r->c, &root, name, GUARDED, 0644, NULL) == NFS3_OK);
		CU_ASSERT(rig_getattr(&r->c, &late, NULL) == NFS3ERR_STALE);
	}
}

/* A retransmission from before is no reason to show what was discarded. */
static void
e07_rollback_replies(struct nfs_rig *r)
{
	struct rig_fh root = rig_root(r);
	struct nfsc_msg call, first, second;
	CREATE3args args = {.where = {rig_fh3(&root), nfsc_name("x")}, .how = {.mode = GUARDED}};
	CU_ASSERT(take(r, "tank@s1") == 0);
	ASSERT(nfsc_encode(&r->c, NFSC_PROG_NFS, 3, NFSC_CREATE, &args, &call) == 0);
	ASSERT(nfsc_transact(&r->c, &call, &first) == 0);
	CU_ASSERT(rig_lookup(&r->c, &root, "x", NULL) == NFS3_OK);
	CU_ASSERT(fs_ds_rollback(r->fp, "tank@s1", "tank/kept") == 0);
	CU_ASSERT(nfsd_refresh(r->nfsd) == 0);
	CU_ASSERT(rig_lookup(&r->c, &root, "x", NULL) == NFS3ERR_NOENT);
	ASSERT(nfsc_transact(&r->c, &call, &second) == 0);
	CU_ASSERT(rig_lookup(&r->c, &root, "x", NULL) == NFS3_OK);
	CU_ASSERT(first.len != second.len || memcmp(first.bytes, second.bytes, first.len) != 0);
	nfsc_msg_free(&call);
	nfsc_msg_free(&first);
	nfsc_msg_free(&second);
	struct fs_ds *kept;
	CU_ASSERT(fs_ds_open(r->fp, "tank/kept", &kept) == 0);
	fs_ds_close(kept);
}

static void
run(void (*fn)(struct nfs_rig *r))
{
	for (unsigned i = 0; i < SEEDS_EACH; i++) {
		nfs_rig_run(unit_seed(1) + i, fn);
	}
}

#define CASE(name) \
	static void run_##name(void) \
	{ \
		run(name); \
	}
CASE(b29_snapdir)
CASE(b29_visible)
CASE(b29_listing)
CASE(b29_destroy)
CASE(b29_mount)
CASE(b29_subshare)
CASE(e07_rollback)
CASE(e07_rollback_replies)

int
main(int argc, char **argv)
{
	static const struct unit_test tests[] = {{"b29_snapdir", run_b29_snapdir},
	    {"b29_visible", run_b29_visible}, {"b29_listing", run_b29_listing},
	    {"b29_destroy", run_b29_destroy}, {"b29_mount", run_b29_mount},
	    {"b29_subshare", run_b29_subshare}, {"e07_rollback", run_e07_rollback},
	    {"e07_rollback_replies", run_e07_rollback_replies}};
	bug_set_deliberate(getenv("AGATE_BUGS"));
	return unit_main("nfs_snapshots", tests, ARRAY_LEN(tests), argc, argv);
}
