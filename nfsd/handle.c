/*
 * handle.c - file handles. 48 bytes: version, type, key id, flags; share 4; dataset guid 8;
 * guid of the snapshot 8 (0: the dataset itself); object 8; generation 8; 8 bytes of a SipHash-128
 * over all before it with a key that lives in the pool. So a client can't make a handle that leaves
 * its export, and a handle survives restart, export and import. Integers are little-endian; a
 * client must not look inside.
 */
#include <sodium.h>
#include "nfsd/export.h"

#define FH_MAC_OFF 40u
#define FH_KEYS_BLOB "nfsd.handle-keys"

struct fh_wire {
	uint8_t version, type, key_id, flags; /* 0x00 */
	struct le32 share;                    /* 0x04 */
	struct le64 dataset_guid;             /* 0x08 */
	struct le64 snapshot;                 /* 0x10 */
	struct le64 object;                   /* 0x18 */
	struct le64 generation;               /* 0x20 */
	uint8_t mac[8];                       /* 0x28 */
};
STATIC_ASSERT(sizeof(struct fh_wire) == FH_BYTES);
STATIC_ASSERT(offsetof(struct fh_wire, mac) == FH_MAC_OFF);

/* The keys as kept in the pool: newest first. */
struct fh_keys_blob {
	uint8_t version, newest_id, count, spare;
	uint8_t keys[4][16];
};

static void
fh_mac(const struct fh_wire *w, const uint8_t key[16], uint8_t out[8])
{
	uint8_t full[crypto_shorthash_siphashx24_BYTES];
	crypto_shorthash_siphashx24(full, (const uint8_t *)w, FH_MAC_OFF, key);
	memcpy(out, full, 8);
}

void
fh_encode_parts(const struct export *e, const struct fh_parts *parts, uint8_t out[FH_BYTES])
{
	struct fh_wire w = {
	    .version = FH_VERSION,
	    .type = (uint8_t)parts->type,
	    .key_id = e->pool->key_id,
	    .share = le32_of(e->handle_share),
	    .dataset_guid = le64_of(e->dataset_guid),
	    .snapshot = le64_of(parts->snapshot),
	    .object = le64_of(parts->object),
	    .generation = le64_of(parts->generation),
	};
	fh_mac(&w, e->pool->keys[0], w.mac);
	memcpy(out, &w, FH_BYTES);
}

void
fh_encode(const struct export *e, uint64_t object, uint64_t generation, uint8_t out[FH_BYTES])
{
	struct fh_parts parts = {.object = object, .generation = generation};
	fh_encode_parts(e, &parts, out);
}

int
fh_decode(const uint8_t *bytes, uint32_t len, struct fh_parts *out)
{
	struct fh_wire w;
	if (len != FH_BYTES) {
		return -ERR_BADHANDLE;
	}
	memcpy(&w, bytes, sizeof(w));
	if (w.version != FH_VERSION || w.type > FH_SNAPDIR || w.flags != 0) {
		return -ERR_BADHANDLE;
	}
	out->type = (enum fh_type)w.type;
	out->share = le32_get(w.share);
	out->dataset_guid = le64_get(w.dataset_guid);
	out->snapshot = le64_get(w.snapshot);
	out->object = le64_get(w.object);
	out->generation = le64_get(w.generation);
	return 0;
}

int
fh_verify(const struct export *e, const uint8_t bytes[FH_BYTES])
{
	struct fh_wire w;
	uint8_t mac[8];
	memcpy(&w, bytes, sizeof(w));
	uint8_t age = (uint8_t)(e->pool->key_id - w.key_id);
	if (age >= e->pool->key_count) {
		return -ERR_BADHANDLE;
	}
	fh_mac(&w, e->pool->keys[age], mac);
	return sodium_memcmp(mac, w.mac, sizeof(mac)) == 0 ? 0 : -ERR_BADHANDLE;
}

static int
fh_keys_make(struct nfsd_pool *np)
{
	struct fh_keys_blob blob = {.version = 1, .newest_id = 1, .count = 1};
	rt_random_bytes(blob.keys[0], sizeof(blob.keys[0]));
	int err = pool_is_readonly(np->pool)
		      ? 0
		      : pool_blob_put(np->pool, FH_KEYS_BLOB, &blob, sizeof(blob));
	if (err == 0) {
		np->key_id = blob.newest_id;
		np->key_count = 1;
		memcpy(np->keys, blob.keys, sizeof(np->keys));
	}
	return err;
}

int
fh_keys_load(struct nfsd_pool *np)
{
	void *data;
	uint32_t len;
	int err = pool_blob_get(np->pool, FH_KEYS_BLOB, &data, &len);
	if (err == -ENOENT) {
		return fh_keys_make(np);
	}
	if (err != 0) {
		return err;
	}
	struct fh_keys_blob blob = {0};
	if (len == sizeof(blob)) {
		memcpy(&blob, data, sizeof(blob));
	}
	mem_free(data);
	if (len != sizeof(blob) || blob.version != 1 || blob.count < 1 ||
	    blob.count > ARRAY_LEN(blob.keys)) {
		return -ERR_CORRUPT;
	}
	np->key_id = blob.newest_id;
	np->key_count = blob.count;
	memcpy(np->keys, blob.keys, sizeof(np->keys));
	return 0;
}
