/*
 * bp.c - block pointers: field access, validation, checksums.
 *
 * A bp that was read from a drive is only used after bp_decode has said that every field of it is
 * possible; what this firmware makes itself needs no decoding.
 */
#include "pool/bp.h"

#include <sodium.h>

#include "base/xxh.h"

/* Layout of bp.prop, see pool_format.h. */
#define PROP_STORED_SHIFT 0
#define PROP_LOGICAL_SHIFT 16
#define PROP_COMPRESS_SHIFT 32
#define PROP_EMBEDDED_SHIFT 39
#define PROP_CKSUM_SHIFT 40
#define PROP_TYPE_SHIFT 48
#define PROP_LEVEL_SHIFT 56
#define PROP_SHARED_SHIFT 61
#define PROP_ENCRYPTED_SHIFT 62
#define PROP_SPARE_SHIFT 63

#define EMBEDDED_ADDR_BYTES 48u
#define EMBEDDED_CKSUM_BYTES 32u
#define EMBEDDED_CRYPTO_BYTES 16u
STATIC_ASSERT(
    EMBEDDED_ADDR_BYTES + EMBEDDED_CKSUM_BYTES + EMBEDDED_CRYPTO_BYTES == BP_EMBEDDED_MAX);

static uint64_t
prop_field(uint64_t prop, unsigned shift, unsigned bits)
{
	return (prop >> shift) & (((uint64_t)1 << bits) - 1);
}

bool
bp_is_embedded(const struct bp *bp)
{
	return prop_field(le64_get(bp->prop), PROP_EMBEDDED_SHIFT, 1) != 0;
}

uint32_t
bp_copies(const struct bp *bp)
{
	uint32_t n = 0;

	if (bp_is_embedded(bp)) {
		return 0;
	}
	while (n < ARRAY_LEN(bp->addr) && le16_get(bp->addr[n].asize) != 0) {
		n++;
	}
	return n;
}

bool
bp_is_hole(const struct bp *bp)
{
	return !bp_is_embedded(bp) && le16_get(bp->addr[0].asize) == 0;
}

uint64_t
bp_birth(const struct bp *bp)
{
	return le64_get(bp->birth);
}

uint64_t
bp_sectors(const struct bp *bp)
{
	uint64_t sum = 0;
	uint32_t copies = bp_copies(bp);

	for (uint32_t i = 0; i < copies; i++) {
		sum += le16_get(bp->addr[i].asize);
	}
	return sum;
}

static int
addr_validate(const struct bp *bp, uint32_t set_count)
{
	uint32_t copies = bp_copies(bp);

	for (uint32_t i = 0; i < ARRAY_LEN(bp->addr); i++) {
		const struct bp_addr *a = &bp->addr[i];

		if (le32_get(a->spare) != 0) {
			return -ERR_CORRUPT;
		}
		if (i < copies && le16_get(a->set) >= set_count) {
			return -ERR_CORRUPT;
		}
		if (i >= copies && (le16_get(a->asize) != 0 || le64_get(a->sector) != 0)) {
			return -ERR_CORRUPT;
		}
	}
	return 0;
}

int
bp_decode(const struct bp *bp, uint32_t set_count, struct bp_prop *out)
{
	uint64_t raw = le64_get(bp->prop);
	struct bp_prop prop = {
	    .stored_bytes = (uint32_t)(prop_field(raw, PROP_STORED_SHIFT, 16) + 1) * BP_SIZE_UNIT,
	    .logical_bytes = (uint32_t)(prop_field(raw, PROP_LOGICAL_SHIFT, 16) + 1) * BP_SIZE_UNIT,
	    .compress = (enum bp_compress)prop_field(raw, PROP_COMPRESS_SHIFT, 7),
	    .cksum = (enum bp_cksum)prop_field(raw, PROP_CKSUM_SHIFT, 8),
	    .type = (uint8_t)prop_field(raw, PROP_TYPE_SHIFT, 8),
	    .level = (uint8_t)prop_field(raw, PROP_LEVEL_SHIFT, 5),
	    .embedded = prop_field(raw, PROP_EMBEDDED_SHIFT, 1) != 0,
	    .shared = prop_field(raw, PROP_SHARED_SHIFT, 1) != 0,
	    .encrypted = prop_field(raw, PROP_ENCRYPTED_SHIFT, 1) != 0,
	};

	if (bp_is_hole(bp)) {
		*out = (struct bp_prop){0};
		return addr_validate(bp, set_count);
	}
	if (prop_field(raw, PROP_SPARE_SHIFT, 1) != 0 || prop.shared || prop.encrypted) {
		return -ERR_CORRUPT;
	}
	if (prop.compress > BP_COMPRESS_ZSTD || prop.cksum > BP_CKSUM_BLAKE2B ||
	    prop.level >= OBJECT_LEVELS_MAX) {
		return -ERR_CORRUPT;
	}
	if (prop.logical_bytes % SECTOR_BYTES != 0 || prop.logical_bytes > RAIDZ_BLOCK_BYTES_MAX ||
	    prop.stored_bytes > prop.logical_bytes) {
		return -ERR_CORRUPT;
	}
	if (prop.embedded &&
	    (prop.compress == BP_COMPRESS_OFF || prop.stored_bytes != BP_SIZE_UNIT)) {
		return -ERR_CORRUPT;
	}
	if (!prop.embedded) {
		if (prop.cksum == BP_CKSUM_NONE) {
			return -ERR_CORRUPT; /* nothing is used unverified */
		}
		if (prop.stored_bytes < prop.logical_bytes && prop.compress == BP_COMPRESS_OFF) {
			return -ERR_CORRUPT;
		}
		int err = addr_validate(bp, set_count);
		if (err != 0) {
			return err;
		}
	}
	*out = prop;
	return 0;
}

void
bp_set_prop(struct bp *bp, const struct bp_prop *prop)
{
	uint64_t raw = 0;

	ASSERT(prop->stored_bytes >= BP_SIZE_UNIT && prop->logical_bytes >= BP_SIZE_UNIT);
	raw |= (uint64_t)(prop->stored_bytes / BP_SIZE_UNIT - 1) << PROP_STORED_SHIFT;
	raw |= (uint64_t)(prop->logical_bytes / BP_SIZE_UNIT - 1) << PROP_LOGICAL_SHIFT;
	raw |= (uint64_t)prop->compress << PROP_COMPRESS_SHIFT;
	raw |= (uint64_t)prop->embedded << PROP_EMBEDDED_SHIFT;
	raw |= (uint64_t)prop->cksum << PROP_CKSUM_SHIFT;
	raw |= (uint64_t)prop->type << PROP_TYPE_SHIFT;
	raw |= (uint64_t)prop->level << PROP_LEVEL_SHIFT;
	raw |= (uint64_t)prop->shared << PROP_SHARED_SHIFT;
	raw |= (uint64_t)prop->encrypted << PROP_ENCRYPTED_SHIFT;
	bp->prop = le64_of(raw);
}

void
bp_set_hole(struct bp *bp, uint64_t birth_txg)
{
	memset(bp, 0, sizeof(*bp));
	bp->birth = le64_of(birth_txg);
}

int
bp_set_embedded(struct bp *bp, const struct bp_prop *prop, const void *payload, uint32_t len,
    uint64_t birth_txg)
{
	uint8_t padded[BP_EMBEDDED_MAX] = {0};
	struct bp_prop p = *prop;

	if (len > BP_EMBEDDED_MAX || p.compress == BP_COMPRESS_OFF) {
		return -EINVAL;
	}
	memcpy(padded, payload, len);
	memset(bp, 0, sizeof(*bp));
	p.embedded = true;
	p.stored_bytes = BP_SIZE_UNIT;
	p.cksum = BP_CKSUM_NONE;
	bp_set_prop(bp, &p);
	memcpy(bp->addr, padded, EMBEDDED_ADDR_BYTES);
	memcpy(bp->cksum, padded + EMBEDDED_ADDR_BYTES, EMBEDDED_CKSUM_BYTES);
	memcpy(
	    bp->crypto, padded + EMBEDDED_ADDR_BYTES + EMBEDDED_CKSUM_BYTES, EMBEDDED_CRYPTO_BYTES);
	bp->birth = le64_of(birth_txg);
	bp->phys_birth = le64_of(birth_txg);
	return 0;
}

uint32_t
bp_get_embedded(const struct bp *bp, void *out)
{
	uint8_t *to = out;

	memcpy(to, bp->addr, EMBEDDED_ADDR_BYTES);
	memcpy(to + EMBEDDED_ADDR_BYTES, bp->cksum, EMBEDDED_CKSUM_BYTES);
	memcpy(to + EMBEDDED_ADDR_BYTES + EMBEDDED_CKSUM_BYTES, bp->crypto, EMBEDDED_CRYPTO_BYTES);
	return BP_EMBEDDED_MAX;
}

uint16_t
bp_addr_set(const struct bp_addr *a)
{
	return le16_get(a->set);
}

uint32_t
bp_addr_asize(const struct bp_addr *a)
{
	return le16_get(a->asize);
}

uint64_t
bp_addr_sector(const struct bp_addr *a)
{
	return le64_get(a->sector) & ~BP_GANG;
}

bool
bp_addr_is_gang(const struct bp_addr *a)
{
	return (le64_get(a->sector) & BP_GANG) != 0;
}

struct bp_addr
bp_addr_make(uint16_t set, uint32_t asize, uint64_t sector, bool gang)
{
	struct bp_addr a = {
	    .set = le16_of(set),
	    .asize = le16_of((uint16_t)asize),
	    .sector = le64_of(sector | (gang ? BP_GANG : 0)),
	};

	ASSERT(asize > 0 && asize <= UINT16_MAX && (sector & BP_GANG) == 0);
	return a;
}

void
cksum_compute(enum bp_cksum kind, const void *data, uint32_t len, uint8_t out[32])
{
	switch (kind) {
	case BP_CKSUM_NONE:
		memset(out, 0, 32);
		break;
	case BP_CKSUM_XXH3: {
		XXH128_canonical_t c;

		XXH128_canonicalFromHash(&c, XXH3_128bits(data, len));
		memcpy(out, c.digest, sizeof(c.digest));
		memset(out + sizeof(c.digest), 0, 32 - sizeof(c.digest));
		break;
	}
	case BP_CKSUM_BLAKE2B:
		crypto_generichash(out, 32, data, len, NULL, 0);
		break;
	}
}
