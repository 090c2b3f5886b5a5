/*
 * arena_map.c - the memory behind the arena: one region for the buffers, aligned to 2 MiB, and one
 * for the bookkeeping (struct arena, the side table of pages, two byte tables). Both are mapped
 * directly, not taken from mem.h: a power cut in the simulation unmaps them in one go, whatever
 * points into them, and huge tables stay untouched (and cost nothing) where no small buffer lives.
 *
 * The shares below are in percent, rounded down to whole chunks, but never under the floor: the
 * smallest arena (32 MiB, 16 chunks) is then exactly the sum of all floors. The cache takes what
 * the others leave. Why these floors: a use must fit two buffers of the largest size or its
 * pipeline runs with no overlap (log, receive, send, repair); the syncing txg holds a block, its
 * compressed copy and its parity at once (sync: three); dirty data needs one more than what is
 * being synced.
 */
#include "base/arena_int.h"

#include <errno.h>
#include <string.h>
#include <sys/mman.h>
#include "base/check.h"
#include "base/log.h"

#define ARENA_BYTES_MAX ((uint64_t)8 << 40) /* pages are counted in 32 bits */

static const struct {
	uint32_t percent;
	uint32_t chunks_min;
} shares[ARENA_USES] = {
    [ARENA_CACHE] = {60, 2}, /* what is left */
    [ARENA_DIRTY] = {15, 3},
    [ARENA_RECV] = {7, 2},
    [ARENA_SEND] = {3, 2},
    [ARENA_LOG] = {5, 2},
    [ARENA_SYNC] = {8, 3},
    [ARENA_REPAIR] = {2, 2},
};

void
arena_share(uint64_t size_bytes, uint64_t out_limit_bytes[ARENA_USES])
{
	uint64_t chunks = size_bytes / ARENA_CHUNK_BYTES;
	uint64_t left = chunks;

	for (unsigned use = ARENA_CACHE + 1; use < ARENA_USES; use++) {
		uint64_t n = MAX(chunks * shares[use].percent / 100, shares[use].chunks_min);

		ASSERT(n < left);
		left -= n;
		out_limit_bytes[use] = n * ARENA_CHUNK_BYTES;
	}
	ASSERT(left >= shares[ARENA_CACHE].chunks_min);
	out_limit_bytes[ARENA_CACHE] = left * ARENA_CHUNK_BYTES;
}

static void *
map_anonymous(size_t bytes, int flags)
{
	void *p =
	    mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | flags, -1, 0);

	return p == MAP_FAILED ? NULL : p;
}

/* The buffers: huge pages when asked for and there are enough, else ordinary ones, aligned by hand.
 */
static uint8_t *
map_buffers(size_t bytes, bool hugepages)
{
	uint8_t *raw, *base;
	size_t before;

	if (hugepages) {
		base = map_anonymous(bytes, MAP_HUGETLB | (21 << MAP_HUGE_SHIFT));
		if (base != NULL) {
			return base;
		}
		log_notice("arena_no_hugepages bytes=%zu errno=%d", bytes, errno);
	}
	raw = map_anonymous(bytes + ARENA_CHUNK_BYTES, MAP_NORESERVE);
	if (raw == NULL) {
		return NULL;
	}
	before = ALIGN_UP((uintptr_t)raw, (uintptr_t)ARENA_CHUNK_BYTES) - (uintptr_t)raw;
	base = raw + before;
	if (before > 0) {
		munmap(raw, before);
	}
	if (before < ARENA_CHUNK_BYTES) {
		munmap(base + bytes, ARENA_CHUNK_BYTES - before);
	}
	if (hugepages) {
		/* Only advice: without it the arena works, with more TLB misses. */
		(void)madvise(base, bytes, MADV_HUGEPAGE);
	}
	return base;
}

int
arena_map(size_t bytes, bool hugepages, struct arena **out)
{
	size_t pages = bytes / IOBUF_BYTES_MIN;
	size_t table_at = ALIGN_UP(sizeof(struct arena), (size_t)ARENA_CACHE_LINE);
	size_t order_at = table_at + pages * sizeof(struct arena_page);
	size_t use_at = order_at + pages;
	size_t map_bytes = use_at + bytes / ARENA_CHUNK_BYTES;
	uint8_t *tables;
	struct arena *a;

	if (bytes % ARENA_CHUNK_BYTES != 0 || bytes < ARENA_BYTES_MIN || bytes > ARENA_BYTES_MAX) {
		return -EINVAL;
	}
	tables = map_anonymous(map_bytes, MAP_NORESERVE);
	if (tables == NULL) {
		return -ENOMEM;
	}
	a = (struct arena *)(void *)tables;
	a->base = map_buffers(bytes, hugepages);
	if (a->base == NULL) {
		munmap(tables, map_bytes);
		return -ENOMEM;
	}
	/* A core file is for the bookkeeping; it should not hold all user data. */
	(void)madvise(a->base, bytes, MADV_DONTDUMP);
	a->size_bytes = bytes;
	a->map_bytes = map_bytes;
	a->page_count = (uint32_t)pages;
	a->pages = (struct arena_page *)(void *)(tables + table_at);
	a->free_order = tables + order_at;
	a->chunk_use = tables + use_at;
	*out = a;
	return 0;
}

void
arena_unmap(struct arena *a)
{
	ARENA_UNPOISON(a->base, a->size_bytes); /* the addresses will be used for something else */
	munmap(a->base, a->size_bytes);
	munmap(a, a->map_bytes);
}
