/*
 * nfs_rig.h - the NFS service in one simulated process, for the tests of tests/nfs: a pool "tank"
 * with its root dataset shared as /tank, and a client mounted on it.
 */
#ifndef AGATE_TESTS_NFS_RIG_H
#define AGATE_TESTS_NFS_RIG_H

#include "nfsd/nfsd.h"
#include "tests/lib/nfs_calls.h"
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
/* The same with room for conn_max connections. */
void nfs_rig_restart_with(struct nfs_rig *r, uint32_t conn_max);
/* A further client of the same server. */
struct nfsc nfs_rig_client(const struct nfs_rig *r, uint32_t uid, uint32_t gid);

struct rig_fh rig_root(const struct nfs_rig *r);

#endif
