/*
 * pool_bytes.h - what tests that compare objects with a model share: random numbers, patterns,
 * parts of an object's bytes that the model keeps, reading.
 */
#ifndef AGATE_TESTS_POOL_BYTES_H
#define AGATE_TESTS_POOL_BYTES_H

#include "base/base.h"
#include "pool/pool.h"

static inline uint64_t
bytes_rnd(uint64_t *state, uint64_t below)
{
	*state ^= *state << 13;
	*state ^= *state >> 7;
	*state ^= *state << 17;
	return *state % below;
}

/* Every generator begins like this: seeds that are neighbours have nothing in common. */
static inline uint64_t
bytes_rnd_begin(uint64_t seed)
{
	return seed * 2654435761u + 88172645463325252ull;
}

/* A third of all patterns compresses. */
static inline void
bytes_pattern(uint8_t *out, uint32_t len, uint64_t seed)
{
	uint64_t x = seed | 1;

	for (uint32_t i = 0; i < len; i++) {
		if (seed % 3 != 0 || i % 8 == 0) {
			x = x * 6364136223846793005ull + 1442695040888963407ull;
		}
		out[i] = (uint8_t)(x >> 56);
	}
}

static inline bool
bytes_are_zero(const uint8_t *b, size_t len)
{
	return b[0] == 0 && memcmp(b, b + 1, len - 1) == 0;
}

/* A part of an object: len bytes at base. Zero what [off, off + n) has of it; n UINT64_MAX: to the
 * end of the object. */
static inline void
bytes_part_free(uint8_t *part, uint64_t base, uint64_t len, uint64_t off, uint64_t n)
{
	uint64_t end = n == UINT64_MAX ? UINT64_MAX : off + n;
	uint64_t from = MAX(off, base), to = MIN(end, base + len);

	if (from < to) {
		memset(part + (from - base), 0, to - from);
	}
}

/* [off, off + len), which must be readable; each(arg, where in the range, bytes or NULL for zeros,
 * how many). */
static inline void
bytes_read(struct pool_obj *o, uint64_t off, uint32_t len,
    void (*each)(void *arg, uint32_t at, const uint8_t *bytes, uint32_t n), void *arg)
{
	struct pool_slice *s = mem_zalloc_array(POOL_READ_SLICES_MAX, sizeof(*s));
	uint32_t count, at = 0;
	int err;

	ASSERT(s != NULL);
	err = pool_read(o, off, len, s, POOL_READ_SLICES_MAX, &count);
	ASSERT(err == 0);
	for (uint32_t i = 0; i < count; i++) {
		each(arg, at, s[i].buf != NULL ? s[i].buf->data + s[i].off_bytes : NULL,
		    s[i].len_bytes);
		iobuf_unref(s[i].buf);
		at += s[i].len_bytes;
	}
	ASSERT(at == len);
	mem_free(s);
}

/* each: copies to the buffer arg. */
static inline void
bytes_copy(void *arg, uint32_t at, const uint8_t *bytes, uint32_t n)
{
	uint8_t *out = arg;

	if (bytes != NULL) {
		memcpy(out + at, bytes, n);
	} else {
		memset(out + at, 0, n);
	}
}

#endif
