/*
 * nfs_calls.h - one NFS call, one line: each returns the NFS status, or RIG_CALL_FAILED when there
 * was no such reply.
 */
#ifndef AGATE_TESTS_NFS_CALLS_H
#define AGATE_TESTS_NFS_CALLS_H

#include "tests/lib/nfsclient.h"

#define RIG_CALL_FAILED 100000u
/* A handle with its bytes. */
struct rig_fh {
	uint32_t len;
	uint8_t bytes[NFS3_FHSIZE];
};
static inline nfs_fh3
rig_fh3(const struct rig_fh *fh)
{
	union {
		const uint8_t *in;
		char *out;
	} u = {.in = fh->bytes};
	return (nfs_fh3){.data = {.data_len = fh->len, .data_val = u.out}};
}

uint32_t rig_getattr(struct nfsc *c, const struct rig_fh *fh, fattr3 *out);
uint32_t rig_lookup(struct nfsc *c, const struct rig_fh *dir, const char *name, struct rig_fh *out);
uint32_t rig_create(struct nfsc *c, const struct rig_fh *dir, const char *name, createmode3 how,
    uint32_t mode, struct rig_fh *out);
uint32_t rig_create_excl(struct nfsc *c, const struct rig_fh *dir, const char *name,
    const char verf[8], struct rig_fh *out);
uint32_t rig_mkdir(
    struct nfsc *c, const struct rig_fh *dir, const char *name, uint32_t mode, struct rig_fh *out);
uint32_t rig_symlink(struct nfsc *c, const struct rig_fh *dir, const char *name, const char *target,
    struct rig_fh *out);
uint32_t rig_remove(struct nfsc *c, const struct rig_fh *dir, const char *name);
uint32_t rig_rmdir(struct nfsc *c, const struct rig_fh *dir, const char *name);
uint32_t rig_rename(struct nfsc *c, const struct rig_fh *from_dir, const char *from,
    const struct rig_fh *to_dir, const char *to);
uint32_t rig_link(
    struct nfsc *c, const struct rig_fh *file, const struct rig_fh *dir, const char *name);
uint32_t rig_write(struct nfsc *c, const struct rig_fh *fh, uint64_t off, const void *data,
    uint32_t len, stable_how how, WRITE3resok *out);
uint32_t rig_commit(struct nfsc *c, const struct rig_fh *fh, char verf[8]);
/* Up to cap bytes into out; *out_len of them, *out_eof. */
uint32_t rig_read(struct nfsc *c, const struct rig_fh *fh, uint64_t off, void *out, uint32_t cap,
    uint32_t *out_len, bool *out_eof);
uint32_t rig_setattr(
    struct nfsc *c, const struct rig_fh *fh, const sattr3 *set, const nfstime3 *guard);
uint32_t rig_set_mode(struct nfsc *c, const struct rig_fh *fh, uint32_t mode);
uint32_t rig_set_size(struct nfsc *c, const struct rig_fh *fh, uint64_t size);

#endif
