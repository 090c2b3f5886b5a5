/* codec.h - compression of blocks. Private to pool/. */
#ifndef AGATE_POOL_CODEC_H
#define AGATE_POOL_CODEC_H

#include "pool/bp.h"

struct codec;

int codec_open(struct codec **out) WARN_UNUSED;
void codec_close(struct codec *c);
/*
 * Compresses len bytes into dst (cap bytes): stream header and stream; the rest up to the next 512 is zeroed. Returns
 * the bytes used, a multiple of 512, or 0 when it takes more than cap. level: of zstd, 1..19;
 * of LZ4 how hastily, 1 the least. Large blocks and
 * slow levels run on a helper. *out_exact: without the padding. May park.
 */
uint32_t codec_compress(struct codec *c, enum bp_compress kind, int level, const void *src, uint32_t len, void *dst, uint32_t cap,
    uint32_t *out_exact) MAY_PARK;
/* dst gets exactly len bytes. -ERR_CORRUPT: src isn't what compresses to that. Parks for large blocks. */
int codec_expand(struct codec *c, enum bp_compress kind, const void *src, uint32_t stored, void *dst, uint32_t len) WARN_UNUSED MAY_PARK;

#endif
