/* golden.c - see golden.h. */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <zstd.h>

#include "tests/lib/golden.h"
#include "base/check.h"

const struct golden goldens[GOLDENS] = {
    {"v1", 9, 7, 64 * MIB}, {"v2", 9, 7, 64 * MIB}, {"v3", 9, 7, 64 * MIB}};

const struct golden *
golden_find(const char *name)
{
	for (size_t k = 0; k < GOLDENS; k++) {
		if (strcmp(goldens[k].name, name) == 0) {
			return &goldens[k];
		}
	}
	return NULL;
}

void
golden_path(const struct golden *g, char *out, size_t len, const char *suffix)
{
	(void)snprintf(out, len, "%s/tests/golden/%s.%s", SOURCE_DIR, g->name, suffix);
}

static bool
is_zero(const uint8_t *b, size_t len)
{
	return b[0] == 0 && memcmp(b, b + 1, len - 1) == 0;
}

static void
put(const struct golden *g, const char *dir, const uint8_t *bytes, size_t len, uint64_t at)
{
	while (len > 0) {
		uint64_t in = at % g->drive_bytes;
		size_t part = MIN(len, (size_t)(g->drive_bytes - in));
		char path[128];

		(void)snprintf(path, sizeof(path), "%s/d%llu.img", dir,
		    (unsigned long long)(at / g->drive_bytes));
		int fd = open(path, O_WRONLY | O_CREAT, 0600);
		ASSERT(fd >= 0 && ftruncate(fd, (off_t)g->drive_bytes) == 0);
		if (!is_zero(bytes, part)) {
			ASSERT(pwrite(fd, bytes, part, (off_t)in) == (ssize_t)part);
		}
		(void)close(fd);
		bytes += part;
		len -= part;
		at += part;
	}
}

static void
unpack(const struct golden *g, const char *dir)
{
	static uint8_t in[65536], out[1u << 20];
	ZSTD_DStream *z = ZSTD_createDStream();
	uint64_t at = 0;
	char path[1024];

	golden_path(g, path, sizeof(path), "img.zst");
	FILE *f = fopen(path, "r");
	ASSERT(f != NULL && z != NULL);
	for (size_t n; (n = fread(in, 1, sizeof(in), f)) > 0;) {
		ZSTD_inBuffer src = {in, n, 0};

		while (src.pos < src.size) {
			ZSTD_outBuffer dst = {out, sizeof(out), 0};

			ASSERT(!ZSTD_isError(ZSTD_decompressStream(z, &dst, &src)));
			put(g, dir, out, dst.pos, at);
			at += dst.pos;
		}
	}
	ASSERT(at == g->drives * g->drive_bytes);
	(void)fclose(f);
	(void)ZSTD_freeDStream(z);
}

void
golden_unpack(const struct golden *g, char dir[GOLDEN_DIR])
{
	(void)snprintf(dir, GOLDEN_DIR, "%s/agate-golden-XXXXXX",
	    access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp");
	ASSERT(mkdtemp(dir) != NULL && chdir(dir) == 0);
	unpack(g, dir);
}

void
golden_clean_up(const struct golden *g, const char *dir)
{
	for (uint32_t i = 0; i < g->drives; i++) {
		char path[16];

		(void)snprintf(path, sizeof(path), "d%u.img", i);
		(void)unlink(path);
	}
	ASSERT(chdir("/") == 0);
	(void)rmdir(dir);
}
