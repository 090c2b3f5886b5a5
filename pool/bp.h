/* bp.h - reading and making block pointers. Private to pool/. */
#ifndef AGATE_POOL_BP_H
#define AGATE_POOL_BP_H

#include "pool/pool.h"

/* Decoded properties of a bp. */
struct bp_prop {
	uint32_t stored_bytes;  /* after compression; 512 B steps */
	uint32_t logical_bytes; /* 512 B steps */
	enum bp_compress compress;
	enum bp_cksum cksum;
	uint8_t type;           /* enum object_type */
	uint8_t level;
	bool embedded, shared, encrypted;
};

bool bp_is_hole(const struct bp *bp);       /* no address, not embedded */
bool bp_is_embedded(const struct bp *bp);
uint32_t bp_copies(const struct bp *bp);    /* addresses, 0..3 */
uint64_t bp_birth(const struct bp *bp);
uint64_t bp_sectors(const struct bp *bp);   /* sum of asize over its addresses; of a gang only its headers */
/* Decodes and validates every field of a bp that came from a drive: -ERR_CORRUPT. set_count: sets of the pool. */
int bp_decode(const struct bp *bp, uint32_t set_count, struct bp_prop *out) WARN_UNUSED;
void bp_set_prop(struct bp *bp, const struct bp_prop *prop);
void bp_set_hole(struct bp *bp, uint64_t birth_txg);
int bp_set_embedded(struct bp *bp, const struct bp_prop *prop, const void *payload, uint32_t len, uint64_t birth_txg) WARN_UNUSED;
uint32_t bp_get_embedded(const struct bp *bp, void *out); /* bytes copied, <= BP_EMBEDDED_MAX */

uint16_t bp_addr_set(const struct bp_addr *a);
uint32_t bp_addr_asize(const struct bp_addr *a);
uint64_t bp_addr_sector(const struct bp_addr *a);
bool bp_addr_is_gang(const struct bp_addr *a);
struct bp_addr bp_addr_make(uint16_t set, uint32_t asize, uint64_t sector, bool gang);

/* XXH3-128 or BLAKE2b-256 of data into out (32 bytes, rest zero). */
void cksum_compute(enum bp_cksum kind, const void *data, uint32_t len, uint8_t out[32]);

#endif
