/*
 * block.h - the block pipeline: compress, checksum, allocate, write; read, verify, repair, decompress,
 * cache. Private to pool/. Logical sizes are 4 KiB steps up to 1 MiB.
 */
#ifndef AGATE_POOL_BLOCK_H
#define AGATE_POOL_BLOCK_H

#include "pool/bp.h"

/* One block to write in the syncing txg. */
struct block_write {
	struct iobuf *data;      /* borrowed for the call; logical contents from 0 on */
	uint32_t logical_bytes;
	uint8_t type, level;
	enum bp_compress compress;
	int zstd_level;
	enum bp_cksum cksum;
	uint8_t copies;          /* 1 data, 2 metadata, 3 pool-wide */
	bool may_embed;          /* <= 96 stored bytes go into the bp */
	uint64_t fill;           /* for bp.fill */
	struct bp *out;          /* filled in on success */
	uint64_t sectors;        /* out: set sectors taken, gang children included */
	int status;              /* out */
};
/* Writes a batch; allocations are recorded in the map log; blocks of zeros become holes. Not durable until vdev_flush_all. 0, or the
 * first error (-EIO lost: too many drives, the txg can't commit; -ENOSPC not even a gang fits). Compression above zstd 3 runs on helpers. */
int block_write(struct pool *p, uint64_t txg, struct block_write *w, uint32_t count) WARN_UNUSED MAY_PARK;
/* Uncompressed write to addresses already allocated by the caller (map log). Computes the checksum into bp. */
int block_write_at(struct pool *p, uint64_t txg, struct iobuf *data, uint32_t len_bytes, struct bp *bp) WARN_UNUSED MAY_PARK;

#define BLOCK_READ_NOCACHE 1u  /* scrub, check: what is on the drives; the cache is neither asked nor filled */
#define BLOCK_READ_META 2u
/* Logical contents of bp in a buffer of at least logical_bytes (a reference; never write to it). Through the cache; copies are tried in turn,
 * the bad ones are rewritten and counted. Hole: -ENOENT. 0; -EIO; -ERR_SUSPENDED (too many drives are away); -ERR_CKSUM; -ERR_CORRUPT (bp or compressed data contradict themselves).
 * The caller is inside space_read_enter. */
int block_read(struct pool *p, const struct bp *bp, uint32_t flags, struct iobuf **out) WARN_UNUSED MAY_PARK;
/* Is it in the cache? A reference, or NULL. Never parks. */
struct iobuf *block_peek(struct pool *p, const struct bp *bp);
/* What bp names is about to be replaced: the cache lets go of it, so that who has the only reference may change it in place. */
void block_forget(struct pool *p, const struct bp *bp);
/* Free bp (and gang children) in txg. Holes and embedded ones cost nothing. May park only for gangs. Returns the set sectors given
 * back (bp_sectors knows only a gang's headers). */
uint64_t block_free(struct pool *p, uint64_t txg, const struct bp *bp) MAY_PARK;
/* The set sectors that block_free would give back. For the syncing fiber and its workers. */
uint64_t block_sectors(struct pool *p, const struct bp *bp) MAY_PARK;

/* How many copies of metadata are written when space is short: one where each set can lose a drive now without losing a block. */
uint8_t block_spare_copies(const struct pool *p);

#endif
