/* attributes.c - attributes around a change, times that don't fit, and handles of what is gone in
 * every call. */
#include "tests/nfs/cases.h"

static bool
same_time(nfstime3 a, nfstime3 b)
{
	return a.seconds == b.seconds && a.nseconds == b.nseconds;
}

/* What a change says it was before and is after, against what GETATTR says. */
struct bracket {
	struct nfs_rig *r;
	const struct rig_fh *fh;
	fattr3 before;
};

static void
bracket_begin(struct bracket *b, struct nfs_rig *r, const struct rig_fh *fh)
{
	*b = (struct bracket){.r = r, .fh = fh};
	CU_ASSERT(rig_getattr(&r->c, fh, &b->before) == NFS3_OK);
}

static void
bracket_end(const struct bracket *b, const wcc_data *w, bool changed)
{
	fattr3 now;
	CU_ASSERT(rig_getattr(&b->r->c, b->fh, &now) == NFS3_OK);
	CU_ASSERT(w->before.attributes_follow && w->after.attributes_follow);
	const wcc_attr *pre = &w->before.pre_op_attr_u.attributes;
	const fattr3 *post = &w->after.post_op_attr_u.attributes;
	CU_ASSERT(pre->size == b->before.size && same_time(pre->mtime, b->before.mtime));
	CU_ASSERT(same_time(pre->ctime, b->before.ctime));
	CU_ASSERT(post->size == now.size && post->nlink == now.nlink && post->mode == now.mode);
	CU_ASSERT(same_time(post->mtime, now.mtime) && same_time(post->ctime, now.ctime));
	CU_ASSERT(same_time(pre->ctime, post->ctime) == !changed);
}

static diropargs3
in(const struct rig_fh *dir, const char *name)
{
	return (diropargs3){.dir = rig_fh3(dir), .name = nfsc_name(name)};
}

static void
brackets_of_new(struct nfs_rig *r, const struct rig_fh *d)
{
	struct bracket b;
	NEW3res res;
	CREATE3args create = {.where = in(d, "f"), .how = {.mode = GUARDED}};
	for (unsigned again = 0; again < 2; again++) {
		bracket_begin(&b, r, d);
		CU_ASSERT(nfsc_call(&r->c, NFSC_CREATE, &create, &res) == 0);
		CU_ASSERT(res.status == (again ? NFS3ERR_EXIST : NFS3_OK));
		bracket_end(
		    &b, again ? &res.NEW3res_u.dir_wcc : &res.NEW3res_u.resok.dir_wcc, !again);
		nfsc_free(NFSC_CREATE, &res);
	}
	MKDIR3args mkdir = {.where = in(d, "d")};
	bracket_begin(&b, r, d);
	CU_ASSERT(nfsc_call(&r->c, NFSC_MKDIR, &mkdir, &res) == 0 && res.status == NFS3_OK);
	bracket_end(&b, &res.NEW3res_u.resok.dir_wcc, true);
	nfsc_free(NFSC_MKDIR, &res);
}

static void
brackets_of_names(struct nfs_rig *r, const struct rig_fh *d, const struct rig_fh *f)
{
	struct bracket b, to;
	struct rig_fh other;
	LINK3res linked;
	RENAME3res renamed;
	REMOVE3res removed;
	CU_ASSERT(rig_lookup(&r->c, d, "d", &other) == NFS3_OK);
	LINK3args link = {.file = rig_fh3(f), .link = in(d, "l")};
	bracket_begin(&b, r, d);
	CU_ASSERT(nfsc_call(&r->c, NFSC_LINK, &link, &linked) == 0 && linked.status == NFS3_OK);
	bracket_end(&b, &linked.linkdir_wcc, true);
	nfsc_free(NFSC_LINK, &linked);
	RENAME3args rename = {.from = in(d, "l"), .to = in(&other, "m")};
	bracket_begin(&b, r, d);
	bracket_begin(&to, r, &other);
	CU_ASSERT(nfsc_call(&r->c, NFSC_RENAME, &rename, &renamed) == 0);
	CU_ASSERT(renamed.status == NFS3_OK);
	bracket_end(&b, &renamed.fromdir_wcc, true);
	bracket_end(&to, &renamed.todir_wcc, true);
	nfsc_free(NFSC_RENAME, &renamed);
	static const char *const names[] = {"m", "nobody"};
	for (unsigned i = 0; i < 2; i++) {
		REMOVE3args remove = {in(&other, names[i])};
		bracket_begin(&b, r, &other);
		CU_ASSERT(nfsc_call(&r->c, NFSC_REMOVE, &remove, &removed) == 0);
		CU_ASSERT(removed.status == (i == 0 ? NFS3_OK : NFS3ERR_NOENT));
		if (i == 0) {
			bracket_end(&b, &removed.dir_wcc, true);
		}
		nfsc_free(NFSC_REMOVE, &removed);
	}
	REMOVE3args rmdir = {in(d, "d")};
	bracket_begin(&b, r, d);
	CU_ASSERT(nfsc_call(&r->c, NFSC_RMDIR, &rmdir, &removed) == 0);
	CU_ASSERT(removed.status == NFS3_OK);
	bracket_end(&b, &removed.dir_wcc, true);
	nfsc_free(NFSC_RMDIR, &removed);
}

static void
brackets_of_file(struct nfs_rig *r, const struct rig_fh *f)
{
	struct bracket b;
	WRITE3args write = {.file = rig_fh3(f), .offset = 5, .count = 4, .stable = UNSTABLE};
	char data[] = "data";
	write.data.data_len = 4;
	write.data.data_val = data;
	WRITE3res written;
	bracket_begin(&b, r, f);
	CU_ASSERT(nfsc_call(&r->c, NFSC_WRITE, &write, &written) == 0);
	CU_ASSERT(written.status == NFS3_OK);
	bracket_end(&b, &written.WRITE3res_u.resok.file_wcc, true);
	nfsc_free(NFSC_WRITE, &written);
	SETATTR3args setattr = {.object = rig_fh3(f)};
	setattr.new_attributes.mode = (set_mode3){.set_it = TRUE, .set_mode3_u = {.mode = 0640}};
	SETATTR3res set;
	for (unsigned again = 0; again < 2; again++) {
		setattr.guard.check = again != 0; /* by a ctime of 1970 */
		bracket_begin(&b, r, f);
		CU_ASSERT(nfsc_call(&r->c, NFSC_SETATTR, &setattr, &set) == 0);
		CU_ASSERT(set.status == (again ? NFS3ERR_NOT_SYNC : NFS3_OK));
		bracket_end(&b, &set.wcc, !again);
		nfsc_free(NFSC_SETATTR, &set);
	}
	COMMIT3args commit = {.file = rig_fh3(f)};
	COMMIT3res committed;
	bracket_begin(&b, r, f);
	CU_ASSERT(nfsc_call(&r->c, NFSC_COMMIT, &commit, &committed) == 0);
	CU_ASSERT(committed.status == NFS3_OK);
	bracket_end(&b, &committed.COMMIT3res_u.resok.file_wcc, false);
	nfsc_free(NFSC_COMMIT, &committed);
}

/* Weak cache consistency: a client may trust its cache as long as the attributes before a change
 * are those it had. */
void
attributes_around_changes(struct nfs_rig *r)
{
	struct rig_fh root = rig_root(r), d, f;
	CU_ASSERT(rig_mkdir(&r->c, &root, "t", 0755, &d) == NFS3_OK);
	brackets_of_new(r, &d);
	CU_ASSERT(rig_lookup(&r->c, &d, "f", &f) == NFS3_OK);
	brackets_of_names(r, &d, &f);
	brackets_of_file(r, &f);
}

/* Times from elsewhere (a stream, another server) that 32 bits without a sign can't say are shown
 * as the nearest that they can. */
void
times_that_dont_fit(struct nfs_rig *r)
{
	static const struct {
		int64_t sec;
		uint32_t shown;
	} cases[] = {{-1, 0}, {INT64_MIN, 0}, {0, 0}, {UINT32_MAX, UINT32_MAX},
	    {(int64_t)UINT32_MAX + 1, UINT32_MAX}, {INT64_MAX, UINT32_MAX}};
	static const struct fs_cred cred = {0};
	struct rig_fh root = rig_root(r), f;
	struct fs_ds *ds;
	struct fs_node *top, *n;
	CU_ASSERT(rig_create(&r->c, &root, "f", GUARDED, 0644, &f) == NFS3_OK);
	ASSERT(fs_ds_open(r->fp, "tank", &ds) == 0);
	ASSERT(fs_root(ds, &top) == 0);
	ASSERT(fs_lookup(top, &cred, "f", 1, &n) == 0);
	for (unsigned i = 0; i < ARRAY_LEN(cases); i++) {
		struct fs_sattr set = {.mtime_how = FS_TIME_CLIENT, .mtime = {cases[i].sec, 5}};
		struct fs_req req = {.cred = cred};
		struct fs_result res;
		fattr3 a;
		CU_ASSERT(fs_setattr(n, &req, &set, NULL, &res) == 0);
		CU_ASSERT(rig_getattr(&r->c, &f, &a) == NFS3_OK);
		CU_ASSERT(a.mtime.seconds == cases[i].shown);
	}
	fs_node_put(n);
	fs_node_put(top);
	fs_ds_close(ds);
}

/* The status of each call on that handle alone. */
static void
every_call(struct nfs_rig *r, const struct rig_fh *fh, uint32_t want)
{
	for (uint32_t proc = NFSC_GETATTR; proc < NFSC_PROCS; proc++) {
		struct nfsc_msg call, reply;
		uint8_t rest[80] = {0};
		uint32_t status;
		rest[3] = 1; /* a name of one letter, a count, a mask: all begin with a word */
		rest[4] = 'x';
		GETATTR3args args = {rig_fh3(fh)};
		CU_ASSERT(nfsc_encode(&r->c, NFSC_PROG_NFS, 3, NFSC_GETATTR, &args, &call) == 0);
		call.bytes[23] = (uint8_t)proc;
		if (proc == NFSC_SETATTR || proc == NFSC_WRITE || proc == NFSC_LINK) {
			memset(rest, 0, sizeof(rest));
		}
		if (proc == NFSC_MKNOD) {
			rest[11] = NF3FIFO;
		}
		if (proc == NFSC_LINK || proc == NFSC_RENAME) {
			nfsc_msg_free(&call); /* two handles: rig_link and rig_rename below */
			continue;
		}
		uint8_t *more = mem_realloc(call.bytes, call.len + sizeof(rest));
		ASSERT(more != NULL);
		call.bytes = more;
		memcpy(call.bytes + call.len, rest, sizeof(rest));
		call.len += (uint32_t)sizeof(rest);
		ASSERT(nfsc_transact(&r->c, &call, &reply) == 0);
		CU_ASSERT(reply.len >= 28 && memcmp(reply.bytes + 20, "\0\0\0\0", 4) == 0);
		memcpy(&status, reply.bytes + 24, 4);
		if (be32toh(status) != want) {
			printf("\nprocedure %u: %u\n", proc, be32toh(status));
		}
		CU_ASSERT(be32toh(status) == want);
		nfsc_msg_free(&call);
		nfsc_msg_free(&reply);
	}
}

void
dead_handle_in_every_call(struct nfs_rig *r)
{
	struct rig_fh root = rig_root(r), f, d, forged = root;
	CU_ASSERT(rig_create(&r->c, &root, "f", GUARDED, 0644, &f) == NFS3_OK);
	CU_ASSERT(rig_mkdir(&r->c, &root, "d", 0755, &d) == NFS3_OK);
	CU_ASSERT(rig_remove(&r->c, &root, "f") == NFS3_OK);
	CU_ASSERT(rig_rmdir(&r->c, &root, "d") == NFS3_OK);
	forged.bytes[40] ^= 1;
	every_call(r, &f, NFS3ERR_STALE);
	every_call(r, &d, NFS3ERR_STALE);
	every_call(r, &forged, NFS3ERR_BADHANDLE);
	CU_ASSERT(rig_link(&r->c, &f, &root, "l") == NFS3ERR_STALE);
	CU_ASSERT(rig_rename(&r->c, &d, "a", &root, "b") == NFS3ERR_STALE);
	CU_ASSERT(rig_link(&r->c, &forged, &root, "l") == NFS3ERR_BADHANDLE);
	CU_ASSERT(rig_rename(&r->c, &root, "a", &forged, "b") == NFS3ERR_BADHANDLE);
}
