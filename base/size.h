/* size.h - sizes as people type them. */
#ifndef AGATE_BASE_SIZE_H
#define AGATE_BASE_SIZE_H

#include <stdint.h>

/* "131072", "64M", "64m", "64MB", "64MiB", with units K to E, all powers of 1024. At most 2^63 - 1.
 * 0 or -EINVAL (*out untouched). */
int size_parse(const char *text, uint64_t *out) __attribute__((warn_unused_result));

#endif
