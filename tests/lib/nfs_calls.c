/* nfs_calls.c - one NFS call, one line. */
#include "tests/lib/nfs_calls.h"

static void
fh_take(struct rig_fh *out, const nfs_fh3 *fh)
{
	if (out != NULL) {
		out->len = fh->data.data_len;
		memcpy(out->bytes, fh->data.data_val, fh->data.data_len);
	}
}

static diropargs3
dirop(const struct rig_fh *dir, const char *name)
{
	return (diropargs3){.dir = rig_fh3(dir), .name = nfsc_name(name)};
}

uint32_t
rig_getattr(struct nfsc *c, const struct rig_fh *fh, fattr3 *out)
{
	GETATTR3args args = {rig_fh3(fh)};
	GETATTR3res res;
	if (nfsc_call(c, NFSC_GETATTR, &args, &res) != 0) {
		return RIG_CALL_FAILED;
	}
	if (res.status == NFS3_OK && out != NULL) {
		*out = res.GETATTR3res_u.attributes;
	}
	nfsc_free(NFSC_GETATTR, &res);
	return res.status;
}

uint32_t
rig_lookup(struct nfsc *c, const struct rig_fh *dir, const char *name, struct rig_fh *out)
{
	LOOKUP3args args = {dirop(dir, name)};
	LOOKUP3res res;
	if (nfsc_call(c, NFSC_LOOKUP, &args, &res) != 0) {
		return RIG_CALL_FAILED;
	}
	if (res.status == NFS3_OK) {
		fh_take(out, &res.LOOKUP3res_u.resok.object);
	}
	nfsc_free(NFSC_LOOKUP, &res);
	return res.status;
}

static uint32_t
call_new(struct nfsc *c, enum nfsc_proc proc, const void *args, struct rig_fh *out)
{
	NEW3res res;
	if (nfsc_call(c, proc, args, &res) != 0) {
		return RIG_CALL_FAILED;
	}
	if (res.status == NFS3_OK && res.NEW3res_u.resok.obj.handle_follows) {
		fh_take(out, &res.NEW3res_u.resok.obj.post_op_fh3_u.handle);
	}
	nfsc_free(proc, &res);
	return res.status;
}

static sattr3
with_mode(uint32_t mode)
{
	return (sattr3){.mode = {.set_it = TRUE, .set_mode3_u = {.mode = mode}}};
}

uint32_t
rig_create(struct nfsc *c, const struct rig_fh *dir, const char *name, createmode3 how,
    uint32_t mode, struct rig_fh *out)
{
	CREATE3args args = {.where = dirop(dir, name), .how = {.mode = how}};
	args.how.createhow3_u.unchecked_attributes = with_mode(mode);
	return call_new(c, NFSC_CREATE, &args, out);
}

uint32_t
rig_create_excl(struct nfsc *c, const struct rig_fh *dir, const char *name, const char verf[8],
    struct rig_fh *out)
{
	CREATE3args args = {.where = dirop(dir, name), .how = {.mode = EXCLUSIVE}};
	memcpy(args.how.createhow3_u.verf, verf, 8);
	return call_new(c, NFSC_CREATE, &args, out);
}

uint32_t
rig_mkdir(
    struct nfsc *c, const struct rig_fh *dir, const char *name, uint32_t mode, struct rig_fh *out)
{
	MKDIR3args args = {.where = dirop(dir, name), .attributes = with_mode(mode)};
	return call_new(c, NFSC_MKDIR, &args, out);
}

uint32_t
rig_symlink(struct nfsc *c, const struct rig_fh *dir, const char *name, const char *target,
    struct rig_fh *out)
{
	filename3 t = nfsc_name(target);
	SYMLINK3args args = {.where = dirop(dir, name)};
	args.symlink.symlink_data =
	    (nfspath3){.nfspath3_len = t.filename3_len, .nfspath3_val = t.filename3_val};
	return call_new(c, NFSC_SYMLINK, &args, out);
}

static uint32_t
call_remove(struct nfsc *c, enum nfsc_proc proc, const struct rig_fh *dir, const char *name)
{
	REMOVE3args args = {dirop(dir, name)};
	REMOVE3res res;
	if (nfsc_call(c, proc, &args, &res) != 0) {
		return RIG_CALL_FAILED;
	}
	nfsc_free(proc, &res);
	return res.status;
}

uint32_t
rig_remove(struct nfsc *c, const struct rig_fh *dir, const char *name)
{
	return call_remove(c, NFSC_REMOVE, dir, name);
}

uint32_t
rig_rmdir(struct nfsc *c, const struct rig_fh *dir, const char *name)
{
	return call_remove(c, NFSC_RMDIR, dir, name);
}

uint32_t
rig_rename(struct nfsc *c, const struct rig_fh *from_dir, const char *from,
    const struct rig_fh *to_dir, const char *to)
{
	RENAME3args args = {.from = dirop(from_dir, from), .to = dirop(to_dir, to)};
	RENAME3res res;
	if (nfsc_call(c, NFSC_RENAME, &args, &res) != 0) {
		return RIG_CALL_FAILED;
	}
	nfsc_free(NFSC_RENAME, &res);
	return res.status;
}

uint32_t
rig_link(struct nfsc *c, const struct rig_fh *file, const struct rig_fh *dir, const char *name)
{
	LINK3args args = {.file = rig_fh3(file), .link = dirop(dir, name)};
	LINK3res res;
	if (nfsc_call(c, NFSC_LINK, &args, &res) != 0) {
		return RIG_CALL_FAILED;
	}
	nfsc_free(NFSC_LINK, &res);
	return res.status;
}

uint32_t
rig_write(struct nfsc *c, const struct rig_fh *fh, uint64_t off, const void *data, uint32_t len,
    stable_how how, WRITE3resok *out)
{
	WRITE3args args = {.file = rig_fh3(fh), .offset = off, .count = len, .stable = how};
	args.data.data_len = len;
	args.data.data_val = (char *)(uintptr_t)data;
	WRITE3res res;
	if (nfsc_call(c, NFSC_WRITE, &args, &res) != 0) {
		return RIG_CALL_FAILED;
	}
	if (res.status == NFS3_OK && out != NULL) {
		*out = res.WRITE3res_u.resok;
	}
	nfsc_free(NFSC_WRITE, &res);
	return res.status;
}

uint32_t
rig_commit(struct nfsc *c, const struct rig_fh *fh, char verf[8])
{
	COMMIT3args args = {.file = rig_fh3(fh)};
	COMMIT3res res;
	if (nfsc_call(c, NFSC_COMMIT, &args, &res) != 0) {
		return RIG_CALL_FAILED;
	}
	if (res.status == NFS3_OK && verf != NULL) {
		memcpy(verf, res.COMMIT3res_u.resok.verf, 8);
	}
	nfsc_free(NFSC_COMMIT, &res);
	return res.status;
}

uint32_t
rig_read(struct nfsc *c, const struct rig_fh *fh, uint64_t off, void *out, uint32_t cap,
    uint32_t *out_len, bool *out_eof)
{
	READ3args args = {.file = rig_fh3(fh), .offset = off, .count = cap};
	READ3res res;
	if (nfsc_call(c, NFSC_READ, &args, &res) != 0) {
		return RIG_CALL_FAILED;
	}
	if (res.status == NFS3_OK) {
		READ3resok *ok = &res.READ3res_u.resok;
		bool good = ok->count == ok->data.data_len && ok->count <= cap;
		if (good && ok->count > 0) {
			memcpy(out, ok->data.data_val, ok->count);
		}
		*out_len = ok->count;
		*out_eof = ok->eof;
		nfsc_free(NFSC_READ, &res);
		return good ? (uint32_t)NFS3_OK : RIG_CALL_FAILED;
	}
	nfsc_free(NFSC_READ, &res);
	return res.status;
}

uint32_t
rig_setattr(struct nfsc *c, const struct rig_fh *fh, const sattr3 *set, const nfstime3 *guard)
{
	SETATTR3args args = {.object = rig_fh3(fh), .new_attributes = *set};
	if (guard != NULL) {
		args.guard.check = TRUE;
		args.guard.sattrguard3_u.ctime = *guard;
	}
	SETATTR3res res;
	if (nfsc_call(c, NFSC_SETATTR, &args, &res) != 0) {
		return RIG_CALL_FAILED;
	}
	nfsc_free(NFSC_SETATTR, &res);
	return res.status;
}

uint32_t
rig_set_mode(struct nfsc *c, const struct rig_fh *fh, uint32_t mode)
{
	sattr3 set = with_mode(mode);
	return rig_setattr(c, fh, &set, NULL);
}

uint32_t
rig_set_size(struct nfsc *c, const struct rig_fh *fh, uint64_t size)
{
	sattr3 set = {.size = {.set_it = TRUE, .set_size3_u = {.size = size}}};
	return rig_setattr(c, fh, &set, NULL);
}
