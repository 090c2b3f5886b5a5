/* label.h - encoding and decoding of labels and configurations, and what a drive says of itself.
 * Private to pool/. */
#ifndef AGATE_POOL_LABEL_H
#define AGATE_POOL_LABEL_H

#include "pool/vdev.h"

/* A label header that was found valid, with a valid configuration behind it (or none on a spare).
 */
struct label {
	struct guid pool_guid, drive_guid;
	enum drive_role role;
	uint32_t set_index, column, config_bytes;
	uint64_t config_txg, region_bytes, claim_txg;
};

/* Byte offset on the drive of label `index` of a region of region_bytes. */
uint64_t label_offset(uint64_t region_bytes, unsigned index);
bool guid_equal(const struct guid *a, const struct guid *b);
bool guid_is_zero(const struct guid *g);

/* XXH3-128 over bytes[0..len) with the 16 bytes at `at` zero. */
void self_cksum_set(void *bytes, uint32_t len, uint32_t at);
bool self_cksum_ok(const void *bytes, uint32_t len, uint32_t at);

/* v as configuration config_txg. -ENOSPC: longer than cap. */
int config_encode(const struct vdevs *v, uint64_t config_txg, void *out, uint32_t cap,
    uint32_t *out_len) WARN_UNUSED;
/* Validates every field and their relations. v: no drives present, no groups. -ERR_CORRUPT,
 * -ERR_FEATURE (version, incompatible features, flags), -ENOMEM. */
int config_decode(const void *bytes, uint32_t len, struct vdevs *out) WARN_UNUSED;

/* Header (and configuration, already at LABEL_CONFIG_OFF of out) of label `index` of drive d. */
void label_encode(const struct vdevs *v, const struct vdev_drive *d, unsigned index,
    uint64_t config_txg, uint32_t config_len, uint8_t *out);
/* bytes: the first len of a label that was read at own_offset. -ENOENT no label; -ERR_CORRUPT;
 * -ERR_FEATURE. */
int label_decode(const uint8_t *bytes, uint32_t len, uint64_t own_offset, unsigned index,
    struct label *out) WARN_UNUSED;

/* What is on one drive. */
struct probe {
	struct kb_drive *kb;
	uint32_t candidate; /* index in the caller's array */
	bool valid[LABEL_COUNT];
	struct label label[LABEL_COUNT];
	struct label id;     /* the label that speaks for the drive */
	uint64_t config_max; /* newest config_txg on it */
	uint64_t region_bytes;
	bool has_uber;
	struct uberblock *uber; /* best one; NULL when has_uber is false */
};
/* -ENOENT nothing of ours; -ERR_CORRUPT labels, none valid; -EIO; -ENOMEM. probe_free after 0. */
int probe_drive(struct kb_drive *kb, struct probe *out) WARN_UNUSED MAY_PARK;
void probe_free(struct probe *pr);
/* The pair of labels to be rewritten first (vdev_drive.label_pair): never the one that keeps
 * config_txg, or else the drive's name, when the other was torn. */
unsigned probe_label_pair(const struct probe *pr, uint64_t config_txg);

/* Is (timeline, txg) of a before b? config_txg and heartbeat break ties between rewritten copies.
 */
int uber_cmp(const struct uberblock *a, const struct uberblock *b);
/* Looks through the ring of one label (UBER_SLOTS * UBER_BYTES in ring) for the best uberblock
 * below `below`. */
void uber_scan_ring(const uint8_t *ring, uint64_t ring_offset, const struct guid *pool_guid,
    const struct guid *drive_guid, const struct uber_key *below, struct uberblock *best,
    bool *found);

#endif
