/* bytes.h - little-endian integers at a byte offset, as docs/on-disk-format.md gives them. Private to dump/. */
#ifndef AGATE_DUMP_BYTES_H
#define AGATE_DUMP_BYTES_H

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

static inline uint16_t
b16(const uint8_t *b, uint32_t at)
{
	return (uint16_t)(b[at] | b[at + 1] << 8);
}

static inline uint32_t
b32(const uint8_t *b, uint32_t at)
{
	return b16(b, at) | (uint32_t)b16(b, at + 2) << 16;
}

static inline uint64_t
b64(const uint8_t *b, uint32_t at)
{
	return b32(b, at) | (uint64_t)b32(b, at + 4) << 32;
}

static inline bool
bytes_are_zero(const uint8_t *b, uint64_t len)
{
	return len == 0 || (b[0] == 0 && memcmp(b, b + 1, len - 1) == 0);
}

#endif
