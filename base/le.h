/*
 * le.h - little-endian integers for on-disk structures. They are byte arrays, so that arithmetic on
 * the raw field doesn't compile and a structure of them has no padding and no alignment.
 */
#ifndef AGATE_BASE_LE_H
#define AGATE_BASE_LE_H

#include <endian.h>
#include <stdint.h>
#include <string.h>

struct le16 {
	uint8_t b[2];
};
struct le32 {
	uint8_t b[4];
};
struct le64 {
	uint8_t b[8];
};

static inline uint16_t
le16_get(struct le16 v)
{
	uint16_t raw;
	memcpy(&raw, v.b, sizeof(raw));
	return le16toh(raw);
}

static inline uint32_t
le32_get(struct le32 v)
{
	uint32_t raw;
	memcpy(&raw, v.b, sizeof(raw));
	return le32toh(raw);
}

static inline uint64_t
le64_get(struct le64 v)
{
	uint64_t raw;
	memcpy(&raw, v.b, sizeof(raw));
	return le64toh(raw);
}

static inline struct le16
le16_of(uint16_t n)
{
	struct le16 v;
	n = htole16(n);
	memcpy(v.b, &n, sizeof(n));
	return v;
}

static inline struct le32
le32_of(uint32_t n)
{
	struct le32 v;
	n = htole32(n);
	memcpy(v.b, &n, sizeof(n));
	return v;
}

static inline struct le64
le64_of(uint64_t n)
{
	struct le64 v;
	n = htole64(n);
	memcpy(v.b, &n, sizeof(n));
	return v;
}

#endif
