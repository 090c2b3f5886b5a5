/* export.h - the compiled export table and file handles. Private to nfsd/. */
#ifndef AGATE_NFSD_EXPORT_H
#define AGATE_NFSD_EXPORT_H

#include "nfsd/nfsd_int.h"

struct export
{
	struct nfsd_export spec; /* owned copy */
	struct nfsd_pool *pool;  /* NULL: dataset not in service */
	struct fs_ds *ds;        /* reference; NULL as above */
	uint64_t dataset_guid;
	uint32_t handle_share; /* what handles carry: 0 for the oldest export of a whole dataset,
				  else share_id. Handles with share_id are taken of any export:
				  when the oldest goes, the next gives out other ones */
	uint64_t top_object;   /* subdir's object, or 0 = the dataset's root */
	uint64_t top_generation;
};

/* Immutable but for refs. A request holds the table for as long as it runs, so a published change
 * takes effect with the next call, and removing a pool can wait for the last call that saw it. */
struct export_table {
	atomic_uint refs;
	struct export *exports;
	uint32_t count;
	uint32_t *index; /* open addressing by (dataset_guid, share_id or 0): position + 1, 0 =
			    empty */
	uint32_t index_mask;
	struct nfsd *n;
};

struct export_table *export_table_get(
    struct nfsd *n); /* a reference; never NULL after nfsd_start */
void export_table_put(struct export_table *t) MAY_PARK;
struct export *export_find(struct export_table *t, uint64_t dataset_guid, uint32_t handle_share);
/* Compiles n->published against the pools in service and swaps it in. config_lock held. Waits until
 * the old table is unused when wait. */
int export_republish(struct nfsd *n, bool wait) WARN_UNUSED MAY_PARK;

#define NFSD_MAPPED_BITS 96u /* an IPv4 address is the last 32 bits of ::ffff:0:0/96 */
static inline bool
nfsd_is_mapped(const uint8_t ip[16])
{
	static const uint8_t mapped[12] = {[10] = 0xff, [11] = 0xff};
	return memcmp(ip, mapped, sizeof(mapped)) == 0;
}

/*
 * While a dataset is rolled back, what runs on the old one hears that it is stale; that is no
 * answer for a client. Lets the request's table go and takes the newest one, as soon as the export
 * with this key in it isn't of a dataset that moves. -EAGAIN: it takes too long.
 */
int export_settle(
    struct request *r, uint64_t dataset_guid, uint32_t handle_share) WARN_UNUSED MAY_PARK;

/* What one client may do through one export, and as whom. */
enum export_verdict { EXPORT_OK, EXPORT_NO_RULE, EXPORT_BAD_PORT };
struct export_access {
	bool readonly;
	enum nfsd_squash squash;
};
enum export_verdict export_check(
    const struct export *e, const struct net_addr *peer, struct export_access *out);
/* Applies the squash to uid, gid and the whole group list. */
void export_squash(const struct export *e, const struct export_access *a, struct fs_cred *cred);

/* ---- file handles: 48 bytes, authenticated (DESIGN 10.8) ---- */
#define FH_BYTES 48u
#define FH_VERSION 1u
enum fh_type { FH_NODE = 0, FH_SNAPDIR = 1 /* the .snapshot of the directory named */ };
struct fh_parts {
	enum fh_type type;
	uint32_t share;
	uint64_t dataset_guid, snapshot, object, generation; /* snapshot 0: the dataset itself */
};
/* What the export says of itself (share, guid, key) is put in place of parts->share and
 * dataset_guid. */
void fh_encode_parts(const struct export *e, const struct fh_parts *parts, uint8_t out[FH_BYTES]);
void fh_encode(const struct export *e, uint64_t object, uint64_t generation, uint8_t out[FH_BYTES]);
/* Shape only; -ERR_BADHANDLE. */
int fh_decode(const uint8_t *bytes, uint32_t len, struct fh_parts *out) WARN_UNUSED;
/* -ERR_BADHANDLE: not made by this pool's keys. */
int fh_verify(const struct export *e, const uint8_t bytes[FH_BYTES]) WARN_UNUSED;
/* Loads the pool's handle keys from its blob, or makes the first one. */
int fh_keys_load(struct nfsd_pool *np) WARN_UNUSED MAY_PARK;

#endif
