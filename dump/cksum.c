/* cksum.c - checksums and decompression, by way of the libraries that define them. */
#define XXH_INLINE_ALL
#include <xxhash.h>

#include <lz4.h>
#include <sodium.h>
#include <zstd.h>

#include "dump/dump.h"

enum { COMPRESS_LZ4 = 1, COMPRESS_ZSTD = 2 };

static void
canonical(XXH128_hash_t h, uint8_t out[16])
{
	XXH128_canonical_t c;

	XXH128_canonicalFromHash(&c, h);
	memcpy(out, c.digest, sizeof(c.digest));
}

void
dump_cksum(uint32_t kind, const void *data, uint64_t len, uint8_t out[32])
{
	memset(out, 0, 32);
	if (kind == CKSUM_XXH3) {
		canonical(XXH3_128bits(data, len), out);
	} else if (kind == CKSUM_BLAKE2B) {
		(void)crypto_generichash(out, 32, data, len, NULL, 0);
	}
}

bool
dump_self_cksum_ok(const uint8_t *bytes, uint64_t len, uint32_t at)
{
	static const uint8_t zero[16];
	XXH3_state_t state;
	uint8_t sum[16];

	(void)XXH3_128bits_reset(&state);
	(void)XXH3_128bits_update(&state, bytes, at);
	(void)XXH3_128bits_update(&state, zero, sizeof(zero));
	(void)XXH3_128bits_update(&state, bytes + at + sizeof(zero), len - at - sizeof(zero));
	canonical(XXH3_128bits_digest(&state), sum);
	return memcmp(sum, bytes + at, sizeof(sum)) == 0;
}

int
dump_expand(uint32_t kind, const uint8_t *stored, uint32_t stored_len, uint8_t *out, uint32_t len)
{
	uint32_t stream;
	size_t got = 0;

	if (stored_len <= 4) {
		return -ERR_CORRUPT;
	}
	stream = b32(stored, 0);
	if (stream == 0 || stream > stored_len - 4) {
		return -ERR_CORRUPT;
	}
	if (kind == COMPRESS_LZ4) {
		int n = LZ4_decompress_safe(
		    (const char *)stored + 4, (char *)out, (int)stream, (int)len);

		got = n > 0 ? (size_t)n : 0;
	} else if (kind == COMPRESS_ZSTD) {
		got = ZSTD_decompress(out, len, stored + 4, stream);
	}
	return !ZSTD_isError(got) && got == len ? 0 : -ERR_CORRUPT;
}
