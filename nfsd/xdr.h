/*
 * xdr.h - the hot path's XDR (RFC 4506): cursors over bytes that are there, without allocation. A
 * cursor that runs out, or meets a length it must not believe, turns bad and stays bad; callers
 * check once at the end. MOUNT and the port mapper, which are not hot, use libtirpc's XDR instead.
 */
#ifndef AGATE_NFSD_XDR_H
#define AGATE_NFSD_XDR_H

#include "base/base.h"

struct xdr_in {
	const uint8_t *pos, *end;
	bool bad;
};

struct xdr_out {
	uint8_t *pos, *end;
	bool full;
};

static inline uint32_t
xdr_padded(uint32_t len)
{
	return (len + 3u) & ~3u;
}

static inline size_t
xdr_left(const struct xdr_in *x)
{
	return (size_t)(x->end - x->pos);
}

static inline uint32_t
xdr_load32(const uint8_t *p)
{
	return (uint32_t)p[0] << 24 | (uint32_t)p[1] << 16 | (uint32_t)p[2] << 8 | p[3];
}

static inline void
xdr_store32(uint8_t *p, uint32_t v)
{
	p[0] = (uint8_t)(v >> 24);
	p[1] = (uint8_t)(v >> 16);
	p[2] = (uint8_t)(v >> 8);
	p[3] = (uint8_t)v;
}

static inline uint32_t
xdr_get_u32(struct xdr_in *x)
{
	if (unlikely(x->bad || xdr_left(x) < 4)) {
		x->bad = true;
		return 0;
	}
	uint32_t v = xdr_load32(x->pos);
	x->pos += 4;
	return v;
}

static inline uint64_t
xdr_get_u64(struct xdr_in *x)
{
	uint64_t hi = xdr_get_u32(x);
	return hi << 32 | xdr_get_u32(x);
}

/* A bool must be 0 or 1 (RFC 4506 4.4). */
static inline bool
xdr_get_bool(struct xdr_in *x)
{
	uint32_t v = xdr_get_u32(x);
	if (v > 1) {
		x->bad = true;
	}
	return v == 1;
}

/* len bytes and their padding; NULL when they aren't there. */
static inline const uint8_t *
xdr_get_fixed(struct xdr_in *x, uint32_t len)
{
	if (unlikely(x->bad || len > UINT32_MAX - 3 || xdr_left(x) < xdr_padded(len))) {
		x->bad = true;
		return NULL;
	}
	const uint8_t *p = x->pos;
	x->pos += xdr_padded(len);
	return p;
}

/* A counted opaque or string of at most max bytes. */
static inline const uint8_t *
xdr_get_opaque(struct xdr_in *x, uint32_t max, uint32_t *out_len)
{
	uint32_t len = xdr_get_u32(x);
	if (len > max) {
		x->bad = true;
	}
	*out_len = x->bad ? 0 : len;
	return xdr_get_fixed(x, x->bad ? 0 : len);
}

static inline uint8_t *
xdr_put_space(struct xdr_out *x, uint32_t len)
{
	if (unlikely(x->full || (size_t)(x->end - x->pos) < xdr_padded(len))) {
		x->full = true;
		return NULL;
	}
	uint8_t *p = x->pos;
	x->pos += xdr_padded(len);
	return p;
}

static inline void
xdr_put_u32(struct xdr_out *x, uint32_t v)
{
	uint8_t *p = xdr_put_space(x, 4);
	if (p != NULL) {
		xdr_store32(p, v);
	}
}

static inline void
xdr_put_u64(struct xdr_out *x, uint64_t v)
{
	xdr_put_u32(x, (uint32_t)(v >> 32));
	xdr_put_u32(x, (uint32_t)v);
}

/* len bytes, padded with zeros to a multiple of four. */
static inline void
xdr_put_fixed(struct xdr_out *x, const void *data, uint32_t len)
{
	uint8_t *p = xdr_put_space(x, len);
	if (p != NULL) {
		memcpy(p, data, len);
		memset(p + len, 0, xdr_padded(len) - len);
	}
}

static inline void
xdr_put_opaque(struct xdr_out *x, const void *data, uint32_t len)
{
	xdr_put_u32(x, len);
	xdr_put_fixed(x, data, len);
}

#endif
