/* nfsclient_mount.c - the MOUNT program, versions 1 and 3. */
#include <stdlib.h>
#include "tests/lib/nfsclient_int.h"

#define V1_FH_BYTES 32u

static dirpath
as_dirpath(const char *path)
{
	return (dirpath){
	    .dirpath_len = (u_int)strlen(path), .dirpath_val = (char *)(uintptr_t)path};
}

/* One call; path NULL: none. */
static int
mount_transact(struct nfsc *c, uint32_t vers, uint32_t proc, const char *path, struct nfsc_msg *out)
{
	dirpath dir = as_dirpath(path != NULL ? path : "");
	struct nfsc_msg call;
	int err = nfsc_encode_with(c, NFSC_PROG_MOUNT, vers, proc,
	    path != NULL ? (xdrproc_t)(void (*)(void))xdr_dirpath : NULL, &dir, &call);
	if (err == 0) {
		err = nfsc_transact(c, &call, out);
		nfsc_msg_free(&call);
	}
	return err;
}

/* fhstatus of version 1: status, then 32 bytes. */
struct fhstatus {
	uint32_t status;
	uint8_t fh[V1_FH_BYTES];
};

static bool_t
xdr_fhstatus(XDR *x, struct fhstatus *s)
{
	return x->x_op == XDR_FREE ||
	       (xdr_uint32(x, &s->status) &&
		   (s->status != 0 || xdr_opaque(x, (char *)s->fh, sizeof(s->fh))));
}

int
nfsc_mnt(struct nfsc *c, uint32_t vers, const char *path, nfs_fh3 *out_fh, uint8_t bytes[64])
{
	struct nfsc_msg reply;
	int err = mount_transact(c, vers, NFSC_MNT, path, &reply);
	if (err != 0) {
		return err;
	}
	if (vers == 1) {
		struct fhstatus s;
		err = nfsc_decode_with(
		    c, &reply, (xdrproc_t)(void (*)(void))xdr_fhstatus, &s, sizeof(s));
		if (err == 0 && s.status == 0) {
			memcpy(bytes, s.fh, V1_FH_BYTES);
			out_fh->data.data_len = V1_FH_BYTES;
		}
		err = err != 0 ? err : (int)s.status;
	} else {
		mountres3 res;
		xdrproc_t codec = (xdrproc_t)(void (*)(void))xdr_mountres3;
		err = nfsc_decode_with(c, &reply, codec, &res, sizeof(res));
		if (err == 0 && res.fhs_status == MNT3_OK) {
			mountres3_ok *ok = &res.mountres3_u.mountinfo;
			memcpy(bytes, ok->fhandle.fhandle_val, ok->fhandle.fhandle_len);
			out_fh->data.data_len = ok->fhandle.fhandle_len;
		}
		if (err == 0) {
			err = (int)res.fhs_status;
			xdr_free(codec, &res);
		}
	}
	out_fh->data.data_val = (char *)bytes;
	nfsc_msg_free(&reply);
	return err;
}

int
nfsc_mount_call(struct nfsc *c, uint32_t vers, enum nfsc_mount_proc proc, const char *path)
{
	struct nfsc_msg reply;
	int err = mount_transact(c, vers, proc, path, &reply);
	if (err == 0) {
		err = nfsc_decode_with(c, &reply, NULL, NULL, 0);
		nfsc_msg_free(&reply);
	}
	return err;
}

/* ---- lists ---- */

struct mount_lister {
	bool exports;
	void (*each)(void *arg, const char *host, const char *dir);
	void *arg;
	uint32_t count;
};

/* groups of one export: a list of names, none remembered. */
static bool_t
skip_groups(XDR *x)
{
	bool_t more;
	while (xdr_bool(x, &more)) {
		if (!more) {
			return TRUE;
		}
		hostname name = NULL;
		bool_t good = xdr_hostname(x, &name);
		free(name);
		if (!good) {
			return FALSE;
		}
	}
	return FALSE;
}

static bool_t
lister_entry(XDR *x, struct mount_lister *l)
{
	mountbody body = {0};
	bool_t good = l->exports ? xdr_dirpath(x, &body.ml_directory) && skip_groups(x)
				 : xdr_mountbody(x, &body);
	if (good && l->each != NULL) {
		char *dir = strndup(body.ml_directory.dirpath_val, body.ml_directory.dirpath_len);
		l->each(l->arg, body.ml_hostname != NULL ? body.ml_hostname : "", dir);
		free(dir);
	}
	xdr_free((xdrproc_t)(void (*)(void))xdr_mountbody, &body);
	l->count++;
	return good;
}

static bool_t
xdr_mount_lister(XDR *x, struct mount_lister *l)
{
	bool_t more;
	if (x->x_op == XDR_FREE) {
		return TRUE;
	}
	while (xdr_bool(x, &more)) {
		if (!more) {
			return TRUE;
		}
		if (!lister_entry(x, l)) {
			return FALSE;
		}
	}
	return FALSE;
}

int
nfsc_mount_list(struct nfsc *c, uint32_t vers, enum nfsc_mount_proc proc,
    void (*each)(void *arg, const char *host, const char *dir), void *arg, uint32_t *out_count)
{
	struct nfsc_msg reply;
	int err = mount_transact(c, vers, proc, NULL, &reply);
	if (err != 0) {
		return err;
	}
	struct mount_lister l = {.exports = proc == NFSC_EXPORT, .each = each, .arg = arg};
	/* size 0: it comes initialized */
	err = nfsc_decode_with(c, &reply, (xdrproc_t)(void (*)(void))xdr_mount_lister, &l, 0);
	nfsc_msg_free(&reply);
	if (out_count != NULL) {
		*out_count = l.count;
	}
	return err;
}
