/*
 * codec.c - LZ4 and zstd with their memory kept per reactor.
 *
 * What runs on a reactor runs to its end without a park, so one set of contexts a reactor is
 * enough. Blocks over 128 KiB and zstd above level 3 would hold the reactor for too long: they go
 * to a helper, with contexts of their own for the call.
 */
#define ZSTD_STATIC_LINKING_ONLY
#include <lz4.h>
#include <zstd.h>

#include "pool/codec.h"

#define CODEC_INLINE_BYTES_MAX (128u << 10)
#define CODEC_INLINE_LEVEL_MAX 3

struct codec_lane {
	void *lz4; /* LZ4_sizeofState() bytes */
	ZSTD_CCtx *zc;
	ZSTD_DCtx *zd;
};

struct codec {
	uint32_t lane_count;
	struct codec_lane lanes[];
};

static void *
zstd_alloc(void *opaque, size_t len)
{
	(void)opaque;
	return mem_zalloc(len);
}

static void
zstd_free(void *opaque, void *p)
{
	(void)opaque;
	mem_free(p);
}

static const ZSTD_customMem zstd_mem = {zstd_alloc, zstd_free, NULL};

static void
lane_close(struct codec_lane *lane)
{
	mem_free(lane->lz4);
	(void)ZSTD_freeCCtx(lane->zc);
	(void)ZSTD_freeDCtx(lane->zd);
}

static int
lane_open(struct codec_lane *lane)
{
	lane->lz4 = mem_zalloc((size_t)LZ4_sizeofState());
	lane->zc = ZSTD_createCCtx_advanced(zstd_mem);
	lane->zd = ZSTD_createDCtx_advanced(zstd_mem);
	if (lane->lz4 == NULL || lane->zc == NULL || lane->zd == NULL) {
		lane_close(lane);
		*lane = (struct codec_lane){0};
		return -ENOMEM;
	}
	return 0;
}

int
codec_open(struct codec **out)
{
	uint32_t count = rt_reactor_count();
	struct codec *c = mem_zalloc(sizeof(*c) + count * sizeof(c->lanes[0]));

	if (c == NULL) {
		return -ENOMEM;
	}
	for (; c->lane_count < count; c->lane_count++) {
		if (lane_open(&c->lanes[c->lane_count]) != 0) {
			codec_close(c);
			return -ENOMEM;
		}
	}
	*out = c;
	return 0;
}

void
codec_close(struct codec *c)
{
	if (c == NULL) {
		return;
	}
	for (uint32_t i = 0; i < c->lane_count; i++) {
		lane_close(&c->lanes[i]);
	}
	mem_free(c);
}

/* One piece of work, for this reactor or for a helper. */
struct codec_job {
	struct codec_lane *lane; /* NULL: open one for the call */
	enum bp_compress kind;
	int level; /* of zstd */
	int haste; /* of LZ4 */
	const uint8_t *src;
	uint8_t *dst;
	uint32_t src_len, dst_cap;
	uint32_t out_len; /* 0: failed */
};

static uint32_t
lane_compress(struct codec_lane *lane, const struct codec_job *j)
{
	size_t n;

	if (j->kind == BP_COMPRESS_LZ4) {
		int got = LZ4_compress_fast_extState(lane->lz4, (const char *)j->src,
		    (char *)j->dst, (int)j->src_len, (int)j->dst_cap, j->haste);

		return got > 0 ? (uint32_t)got : 0;
	}
	n = ZSTD_compressCCtx(lane->zc, j->dst, j->dst_cap, j->src, j->src_len, j->level);
	return ZSTD_isError(n) ? 0 : (uint32_t)n;
}

static uint32_t
lane_expand(struct codec_lane *lane, const struct codec_job *j)
{
	size_t n;

	if (j->kind == BP_COMPRESS_LZ4) {
		int got = LZ4_decompress_safe(
		    (const char *)j->src, (char *)j->dst, (int)j->src_len, (int)j->dst_cap);

		return got > 0 ? (uint32_t)got : 0;
	}
	n = ZSTD_decompressDCtx(lane->zd, j->dst, j->dst_cap, j->src, j->src_len);
	return ZSTD_isError(n) ? 0 : (uint32_t)n;
}

static void
job_run(struct codec_job *j, uint32_t (*work)(struct codec_lane *, const struct codec_job *))
{
	struct codec_lane own = {0};

	if (j->lane != NULL) {
		j->out_len = work(j->lane, j);
		return;
	}
	if (lane_open(&own) == 0) {
		j->out_len = work(&own, j);
		lane_close(&own);
	}
}

static void
job_compress(void *arg)
{
	job_run(arg, lane_compress);
}

static void
job_expand(void *arg)
{
	job_run(arg, lane_expand);
}

static void
job_start(struct codec *c, struct codec_job *j, void (*fn)(void *arg), uint32_t logical)
{
	if (logical > CODEC_INLINE_BYTES_MAX || j->level > CODEC_INLINE_LEVEL_MAX) {
		offload(fn, j);
		return;
	}
	j->lane = &c->lanes[rt_reactor_self()];
	fn(j);
}

uint32_t
codec_compress(struct codec *c, enum bp_compress kind, int level, const void *src, uint32_t len,
    void *dst, uint32_t cap, uint32_t *out_exact)
{
	struct le32 header;
	struct codec_job j = {
	    .kind = kind,
	    .level = kind == BP_COMPRESS_ZSTD ? level : 0,
	    .haste = level,
	    .src = src,
	    .dst = (uint8_t *)dst + BP_STREAM_HEADER_BYTES,
	    .src_len = len,
	    .dst_cap = cap - BP_STREAM_HEADER_BYTES,
	};
	uint32_t used, padded;

	ASSERT(kind != BP_COMPRESS_OFF && cap > BP_STREAM_HEADER_BYTES);
	job_start(c, &j, job_compress, len);
	if (j.out_len == 0) {
		return 0;
	}
	header = le32_of(j.out_len);
	memcpy(dst, &header, sizeof(header));
	used = j.out_len + BP_STREAM_HEADER_BYTES;
	padded = ALIGN_UP(used, BP_SIZE_UNIT);
	if (padded > cap) {
		return 0;
	}
	memset((uint8_t *)dst + used, 0, padded - used);
	*out_exact = used;
	return padded;
}

int
codec_expand(struct codec *c, enum bp_compress kind, const void *src, uint32_t stored, void *dst,
    uint32_t len)
{
	struct le32 header;
	struct codec_job j = {
	    .kind = kind,
	    .src = (const uint8_t *)src + BP_STREAM_HEADER_BYTES,
	    .dst = dst,
	    .dst_cap = len,
	};

	if (stored <= BP_STREAM_HEADER_BYTES) {
		return -ERR_CORRUPT;
	}
	memcpy(&header, src, sizeof(header));
	j.src_len = le32_get(header);
	if (j.src_len == 0 || j.src_len > stored - BP_STREAM_HEADER_BYTES) {
		return -ERR_CORRUPT;
	}
	job_start(c, &j, job_expand, len);
	return j.out_len == len ? 0 : -ERR_CORRUPT;
}
