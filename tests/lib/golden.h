/* golden.h - the golden images (tests/golden/README.md), unpacked for a test. */
#ifndef AGATE_TESTS_GOLDEN_H
#define AGATE_TESTS_GOLDEN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/compiler.h"

struct golden {
	const char *name;
	uint32_t drives, set_drives;
	uint64_t drive_bytes;
};
#define GOLDENS 3
extern const struct golden goldens[GOLDENS];
#define GOLDEN_DIR 64

const struct golden *golden_find(const char *name); /* NULL */
/* .../tests/golden/NAME.suffix */
void golden_path(const struct golden *g, char *out, size_t len, const char *suffix);
/* Makes a directory with d0.img, d1.img ... and makes it the current one. */
void golden_unpack(const struct golden *g, char dir[GOLDEN_DIR]);
void golden_clean_up(const struct golden *g, const char *dir);

#endif
