/*
 * nfsd.h - the NFS service: ONC RPC over TCP (and UDP for MOUNT and the port mapper), NFSv3, MOUNT
 * v1 and v3, port mapper v2 and rpcbind v3/v4 look-ups; exports, file handles, the
 * duplicate-request cache. Knows nothing of configuration files or the command line.
 */
#ifndef AGATE_NFSD_H
#define AGATE_NFSD_H

#include "base/base.h"
#include "base/net.h"
#include "fs/fs.h"

struct nfsd;

struct nfsd_config {
	const char *host;      /* address to listen on; NULL = all */
	uint16_t nfs_port;     /* 0 = any free one; default 2049 */
	uint16_t mount_port;   /* may equal nfs_port; default 20048 */
	uint16_t portmap_port; /* default 111 */
	bool portmap; /* false: no port mapper. When its port is taken the service starts all the
			 same and says so */
	uint32_t conn_max;       /* connections; default 4096 */
	uint32_t idle_timeout_s; /* a connection without a request; default 600 */
	bool wait; /* listen, but answer nobody before nfsd_serve: who calls while pools are being
		      taken up has to wait, not to hear that its handle is stale */
};

/* Starts listening. May park. */
int nfsd_start(const struct nfsd_config *cfg, struct nfsd **out) WARN_UNUSED MAY_PARK;
void nfsd_serve(struct nfsd *n) MAY_PARK; /* once, after nfsd_start with wait */
/* Stop accepting, let running requests finish for at most drain_ns, close everything. */
void nfsd_stop(struct nfsd *n, uint64_t drain_ns) MAY_PARK;
void nfsd_ports(
    const struct nfsd *n, uint16_t *out_nfs, uint16_t *out_mount, uint16_t *out_portmap);

/* Opens the pool's file systems (replay included, so that the duplicate-request cache is rebuilt)
 * and serves handles of it from now on, with a write verifier that is new each time; owns fp. */
int nfsd_add_pool(struct nfsd *n, struct pool *p, struct fs_pool **out) WARN_UNUSED MAY_PARK;
/* No request touches the pool when it returns; fs_pool is closed; handles answer NFS3ERR_STALE
 * until it is added again. */
void nfsd_remove_pool(struct nfsd *n, struct pool *p) MAY_PARK;
/* From true until false handles of pools that aren't in service get NFS3ERR_JUKEBOX: one of them is
 * about to come back. */
void nfsd_pools_changing(struct nfsd *n, bool changing);

/* ---- exports: one compiled, immutable table; publishing a new one is atomic and takes effect on
 * the next call of every client ---- */
enum nfsd_squash { NFSD_ROOT_SQUASH, NFSD_NO_ROOT_SQUASH, NFSD_ALL_SQUASH };
struct nfsd_rule {           /* first match wins; no match = no access */
	uint8_t ip[16];      /* IPv6 or IPv4-mapped */
	uint8_t prefix_bits; /* 0..128, of the 128-bit form; 0 = everyone */
	bool readonly;
	enum nfsd_squash squash;
};
struct nfsd_export {
	uint32_t share_id; /* never reused within a pool */
	char path[1025];   /* what clients mount: "/tank/share" */
	char dataset[DATASET_NAME_MAX + 1];
	char subdir[1025]; /* below the dataset's root; "" = all of it */
	struct nfsd_rule *rules;
	uint32_t rule_count;
	uint32_t anon_uid, anon_gid; /* default 65534 */
	bool insecure;               /* accept source ports above 1023 */
};
/* Copies everything. Datasets not found are listed but answer MNT3ERR_NOENT. */
int nfsd_publish(
    struct nfsd *n, const struct nfsd_export *exports, uint32_t count) WARN_UNUSED MAY_PARK;
/* "10.0.0.0/24", "fd00::/64", "[fd00::1]", "*", a host address. -EINVAL: out_why quotes the bad
 * token. Never falls back to everyone. */
int nfsd_rule_parse(
    const char *text, struct nfsd_rule *out, char *out_why, size_t why_len) WARN_UNUSED;

/* After a rollback, and after datasets came or went: looks again what the exports lead to. */
int nfsd_refresh(struct nfsd *n) WARN_UNUSED MAY_PARK;

struct nfsd_counters {
	uint64_t proc_calls[22], proc_errors[22];
	uint64_t connections, connections_total, bytes_in, bytes_out;
	uint64_t drc_hits, bad_rpc;
};
void nfsd_get_counters(struct nfsd *n, struct nfsd_counters *out);
struct nfsd_client {
	struct net_addr addr;
	uint64_t calls, bytes_in, bytes_out, last_ns;
};
/* Connected clients, at most max; returns how many there are. */
uint32_t nfsd_clients(struct nfsd *n, struct nfsd_client *out, uint32_t max);

#endif
