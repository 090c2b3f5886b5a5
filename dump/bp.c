/* bp.c - block pointers: 128 bytes to a struct all of whose fields are possible. */
#include "dump/dump.h"

#define COMPRESS_MAX 2u
#define LEVELS_MAX 8u

static uint32_t
field(uint64_t prop, unsigned shift, unsigned width)
{
	return (uint32_t)(prop >> shift & (((uint64_t)1 << width) - 1));
}

/* Addresses fill from the first; the others are zero. */
static const char *
addrs_decode(const uint8_t *raw, uint32_t set_count, struct dump_bp *bp)
{
	for (uint32_t i = 0; i < 3; i++) {
		const uint8_t *b = raw + i * 16;
		uint64_t sector = b64(b, 8);

		if (b32(b, 4) != 0) {
			return "reserved bits of an address are set";
		}
		if (b16(b, 2) == 0) {
			if (sector != 0) {
				return "an address without a size";
			}
			continue;
		}
		if (bp->copies != i || b16(b, 0) >= set_count) {
			return "an address of no set, or behind a gap";
		}
		bp->addr[bp->copies++] = (struct dump_addr){
		    .set = b16(b, 0),
		    .asize = b16(b, 2),
		    .sector = sector & ~((uint64_t)1 << 63),
		    .gang = sector >> 63 != 0,
		};
	}
	return NULL;
}

static const char *
sizes_check(const struct dump_bp *bp)
{
	if (bp->logical % SECTOR != 0 || bp->logical > BLOCK_MAX || bp->stored > bp->logical) {
		return "impossible sizes";
	}
	if (bp->compress > COMPRESS_MAX || bp->cksum_kind > CKSUM_BLAKE2B ||
	    bp->level >= LEVELS_MAX) {
		return "unknown compression, checksum or level";
	}
	if (bp->embedded) {
		return bp->compress == 0 ? "embedded, but not compressed" : NULL;
	}
	if (bp->cksum_kind == CKSUM_NONE) {
		return "no checksum";
	}
	return bp->stored < bp->logical && bp->compress == 0 ? "shorter, but not compressed" : NULL;
}

const char *
dump_bp_decode(const uint8_t raw[128], uint32_t set_count, struct dump_bp *out)
{
	uint64_t prop = b64(raw, 0x30);
	struct dump_bp bp = {
	    .stored = (field(prop, 0, 16) + 1) * 512,
	    .logical = (field(prop, 16, 16) + 1) * 512,
	    .compress = field(prop, 32, 7),
	    .embedded = field(prop, 39, 1) != 0,
	    .cksum_kind = field(prop, 40, 8),
	    .type = field(prop, 48, 8),
	    .level = field(prop, 56, 5),
	    .birth = b64(raw, 0x38),
	    .phys_birth = b64(raw, 0x40),
	    .fill = b64(raw, 0x48),
	};
	const char *why = NULL;

	if (field(prop, 61, 3) != 0) {
		return "shared, encrypted or unknown: not of this version";
	}
	if (bp.embedded) {
		memcpy(bp.payload, raw, 48);
		memcpy(bp.payload + 48, raw + 0x50, 32);
		memcpy(bp.payload + 80, raw + 0x70, 16);
	} else {
		memcpy(bp.cksum, raw + 0x50, 32);
		why = addrs_decode(raw, set_count, &bp);
		bp.hole = bp.copies == 0;
	}
	if (why == NULL && bp.hole) {
		bp.stored = bp.logical = 0;
	} else if (why == NULL) {
		why = sizes_check(&bp);
	}
	if (why == NULL) {
		*out = bp;
	}
	return why;
}

const char *
dump_type_name(uint32_t type)
{
	static const struct {
		uint32_t type;
		const char *name;
	} names[] = {
	    {TYPE_FREE, "free"},
	    {TYPE_OBJSET, "objset"},
	    {TYPE_TABLE, "table"},
	    {TYPE_MAPLOG, "map-log"},
	    {TYPE_GANG, "gang"},
	    {TYPE_POOL, "pool"},
	    {TYPE_SEGMENTS, "segments"},
	    {TYPE_DATASET, "dataset"},
	    {19, "deadmap"},
	    {20, "deadlist"},
	    {21, "blob"}, {23, "replies"},
	    {22, "unlinked"},
	    {TYPE_FILE, "file"},
	    {TYPE_DIR, "directory"},
	    {TYPE_SYMLINK, "symlink"},
	    {TYPE_SPECIAL, "special"},
	    {TYPE_XATTR, "xattr"},
	};

	for (size_t i = 0; i < ARRAY_LEN(names); i++) {
		if (names[i].type == type) {
			return names[i].name;
		}
	}
	return "unknown";
}

void
dump_bp_show(FILE *to, const struct dump_bp *bp)
{
	static const char *const compress[] = {"-", "lz4", "zstd"};
	static const char *const cksum[] = {"-", "xxh3", "blake2b"};

	if (bp->hole) {
		(void)fprintf(to, "hole birth=%llu", (unsigned long long)bp->birth);
		return;
	}
	(void)fprintf(to, "%s level=%u logical=%u stored=%u %s %s birth=%llu/%llu fill=%llu",
	    dump_type_name(bp->type), bp->level, bp->logical, bp->embedded ? 0 : bp->stored,
	    compress[bp->compress], cksum[bp->cksum_kind], (unsigned long long)bp->birth,
	    (unsigned long long)bp->phys_birth, (unsigned long long)bp->fill);
	if (bp->embedded) {
		(void)fputs(" embedded", to);
		return;
	}
	for (uint32_t i = 0; i < bp->copies; i++) {
		(void)fprintf(to, " %u:%llu:%u%s", bp->addr[i].set,
		    (unsigned long long)bp->addr[i].sector, bp->addr[i].asize,
		    bp->addr[i].gang ? "(gang)" : "");
	}
	(void)fputs(" ", to);
	out_hex(to, bp->cksum, bp->cksum_kind == CKSUM_XXH3 ? 16 : 32);
}
