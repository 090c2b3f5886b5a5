/*
 * nfs_rig.h - the NFS service in one simulated process, for the tests of tests/nfs: a pool "tank"
 * with its root dataset shared as /tank, and a client mounted on it.
 */
#ifndef AGATE_TESTS_NFS_RIG_H
#define AGATE_TESTS_NFS_RIG_H

#include "nfsd/nfsd.h"
#include "tests/lib/nfsclient.h"
#include "tests/lib/unit.h"

struct nfs_rig {
	struct pool *pool;
	struct fs_pool *fp;
	struct nfsd *nfsd;
	uint16_t nfs_port, mount_port, portmap_port;
	struct nfsc c; /* uid 0, no squash */
	nfs_fh3 root;
	uint8_t root_bytes[NFS3_FHSIZE];
};

/* Runs body in the simulation with a rig that is up; afterwards nothing may be left. */
void nfs_rig_run(uint64_t seed, void (*body)(struct nfs_rig *r));
/* An export of dataset for everyone, no squash, any source port; change it before publishing. */
void nfs_rig_export(struct nfsd_export *e, uint32_t share_id, const char *path, const char *dataset,
    struct nfsd_rule *rule);
/* Stop and start the service on the same pool, as after a restart of the daemon. */
void nfs_rig_restart(struct nfs_rig *r);
/* A further client of the same server. */
struct nfsc nfs_rig_client(const struct nfs_rig *r, uint32_t uid, uint32_t gid);

/* ---- calls as one line each: the NFS status, or 100000 when the call itself failed ---- */
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
struct rig_fh rig_root(const struct nfs_rig *r);

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
