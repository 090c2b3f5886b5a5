/* block_int.h - shared by block.c, block_write.c, block_read.c and gang.c. */
#ifndef AGATE_POOL_BLOCK_INT_H
#define AGATE_POOL_BLOCK_INT_H

#include "pool/block.h"
#include "pool/cache.h"
#include "pool/codec.h"
#include "pool/pool_int.h"

/* One run of sectors to write. */
struct extent {
	struct bp_addr addr;
	struct iobuf *buf;
	uint32_t off_bytes, len_bytes; /* sector multiples */
};
/* Writes them all, set by set; a set that lost too many drives suspends the pool and is tried again until
 * they return, or the pool is closed: -EIO. */
int extents_write(struct pool *p, const struct extent *e, uint32_t count) WARN_UNUSED MAY_PARK;

struct cache_key block_cache_key(const struct pool *p, const struct bp *bp);
/* A scratch buffer for the syncing txg. */
int block_sync_buf(uint32_t len_bytes, struct iobuf **out) WARN_UNUSED MAY_PARK;
/* One address in use, with the checksum that scrub compares. */
void block_record(struct pool *p, uint64_t txg, const struct bp_addr *a, uint32_t stored_bytes, enum bp_cksum kind, const uint8_t cksum[32]);
/* Gangs cost memory and reads; the simulation makes them common. */
int block_alloc(struct pool *p, uint64_t txg, enum space_class cls, uint32_t len_bytes, uint64_t avoid_sets, struct bp_addr *out) WARN_UNUSED MAY_PARK;

/*
 * gang_write - write [off, off + len) of buf in pieces, and a header that names them. out_addr: the header's address, marked as a gang.
 * out_sectors: everything taken. -ENOSPC: nothing is taken. May park.
 */
struct gang_source {
	struct iobuf *buf;
	uint32_t off_bytes, len_bytes;
};
int gang_write(struct pool *p, uint64_t txg, const struct gang_source *src, enum space_class cls, uint64_t avoid_sets,
    struct bp_addr *out_addr, uint64_t *out_sectors) WARN_UNUSED MAY_PARK;
/* Reads what the gang at a, written in txg birth, stands for into *buf (len bytes); the caller verifies the whole. */
int gang_read(struct pool *p, const struct bp_addr *a, uint64_t birth, struct iobuf *buf, uint32_t len_bytes) WARN_UNUSED MAY_PARK;
/* A validated header in a buffer of its own: this pool's, of this place and of txg birth (phys_birth of the bp that holds a). */
int gang_header_read(struct pool *p, const struct bp_addr *a, uint64_t birth, struct iobuf **out) WARN_UNUSED MAY_PARK;
/* Frees, in txg, the children of the gang at a (not its header). Returns their sectors. */
uint64_t gang_free_children(struct pool *p, uint64_t txg, const struct bp_addr *a, uint64_t birth) MAY_PARK;

/* What must be at an address: cksum is over the first stored bytes of len (whole sectors). */
struct block_want {
	uint32_t len_bytes, stored_bytes;
	enum bp_cksum kind;
	const uint8_t *cksum;
	uint64_t birth; /* phys_birth */
};
int block_read_addr(struct pool *p, const struct bp_addr *a, const struct block_want *want, struct iobuf **buf) WARN_UNUSED MAY_PARK;
bool block_cksum_ok(enum bp_cksum kind, const void *data, uint32_t len, const uint8_t *want);

/* Is more of some set gone than it tolerates, declared out or not? */
bool block_sets_are_away(const struct pool *p);
/* Can each set lose a drive now without losing a block of one copy? */
bool block_sets_are_redundant(const struct pool *p);

#endif
