/*
 * arena_int.h - private to base/: how the arena is laid out, and the calls of rt_run that make and
 * drop it. Theory: arena.c (budgets and waiting), arena_buddy.c (where a buffer comes from).
 */
#ifndef AGATE_BASE_ARENA_INT_H
#define AGATE_BASE_ARENA_INT_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "base/arena.h"
#include "base/compiler.h"
#include "base/list.h"
#include "base/sync.h"

#define ARENA_BYTES_MIN (32u << 20)
#define ARENA_ORDERS 10u /* 4 KiB << 0 .. 4 KiB << 9 */
#define ARENA_ORDER_WHOLE (ARENA_ORDERS - 1)
#define ARENA_CHUNK_PAGES (1u << ARENA_ORDER_WHOLE)
#define ARENA_CHUNK_BYTES IOBUF_BYTES_MAX
#define ARENA_FRONT_ORDERS 6u /* 4 KiB .. 128 KiB are kept in front caches */
#define ARENA_FRONTS 64u      /* as many as rt.h allows reactors */
#define ARENA_GROUPS 4u       /* the uses that share the general zone */
#define ARENA_NONE UINT32_MAX
#define ARENA_CACHE_LINE 64

#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/asan_interface.h>
#define ARENA_POISON(p, len) __asan_poison_memory_region(p, len)
#define ARENA_UNPOISON(p, len) __asan_unpoison_memory_region(p, len)
#else
#define ARENA_POISON(p, len) ((void)(p), (void)(len))
#define ARENA_UNPOISON(p, len) ((void)(p), (void)(len))
#endif

STATIC_ASSERT(IOBUF_BYTES_MIN << ARENA_ORDER_WHOLE == IOBUF_BYTES_MAX);
STATIC_ASSERT(ARENA_CACHE == 0 && ARENA_DIRTY == 1 && ARENA_RECV == 2 && ARENA_SEND == 3);

/* What the side table holds for each page; only the first page of a block means anything. */
struct arena_page {
	struct iobuf buf; /* [c] data; the rest belongs to whoever holds the block */
	uint32_t next;    /* free list of the zone or front cache that holds the block */
	uint32_t prev;
};
STATIC_ASSERT(sizeof(struct arena_page) == 32);

/* Physically separate parts of the arena, each with its own lock. See arena_buddy.c. */
enum arena_zone_id { ZONE_GENERAL, ZONE_LOG, ZONE_SYNC, ZONE_REPAIR, ARENA_ZONES };

struct arena_zone {
	_Alignas(ARENA_CACHE_LINE) struct spin guard;
	uint64_t free_bytes;                               /* [guard] */
	uint32_t whole;                                    /* [guard] free 2 MiB chunks */
	uint32_t partial[ARENA_GROUPS][ARENA_ORDER_WHOLE]; /* [guard] smaller free blocks */
};

/* The free blocks a reactor keeps for itself. The lock is contended only while it is being drained.
 */
struct arena_front {
	_Alignas(ARENA_CACHE_LINE) struct spin guard;
	struct arena_front_list {
		uint32_t head;
		uint32_t count;
	} list[ARENA_USES][ARENA_FRONT_ORDERS]; /* [guard] */
};

struct arena_budget {
	_Alignas(ARENA_CACHE_LINE) atomic_uint_least64_t used;
	uint64_t limit_bytes; /* [c] */
	atomic_uint waiting;  /* length of waiters; changed under guard */
	struct spin guard;
	struct list waiters; /* [guard] first come first served */
};

struct arena {
	uint8_t *base; /* [c] */
	uint64_t size_bytes;
	size_t map_bytes; /* [c] of this struct and the tables behind it */
	uint32_t page_count;
	uint32_t front_max[ARENA_FRONT_ORDERS]; /* [c] blocks a front cache may keep, 0 = none */
	struct arena_page *pages;               /* [c] one for each page */
	uint8_t *
	    free_order; /* [zone guard] one for each page: order + 1 of a free block, 0 = no such */
	uint8_t *chunk_use; /* [zone guard] one for each chunk: the use it was last opened for */

	atomic_uint pressure; /* > 0: somebody is short of memory, front caches are bypassed */
	struct spin short_guard;
	struct list
	    short_waiters; /* [short_guard] waiting for a block although the budget allows it */

	atomic_uint reclaim_busy; /* calls of reclaim in progress */
	atomic_bool trimming;
	_Atomic(uint64_t (*)(void *, uint64_t)) reclaim;
	_Atomic(void *) reclaim_arg;

	struct arena_budget budget[ARENA_USES];
	struct arena_zone zone[ARENA_ZONES];
	struct arena_front front[ARENA_FRONTS];
};

/* ---- for rt_run ---- */
/* Makes the arena of this runtime; the number of reactors must be known already. 0; -EINVAL when
 * bytes is no multiple of 2 MiB, below 32 MiB or above 8 TiB; -ENOMEM; -EEXIST when there is one.
 */
int arena_create(size_t bytes, bool hugepages) WARN_UNUSED;
/* Unmaps everything, whoever still holds buffers: a power cut looks like this. Harmless when there
 * is none. Returns how many bytes were in use. */
uint64_t arena_destroy(void);

/* ---- arena_map.c ---- */
int arena_map(size_t bytes, bool hugepages, struct arena **out) WARN_UNUSED;
void arena_unmap(struct arena *a);
void arena_share(uint64_t size_bytes, uint64_t out_limit_bytes[ARENA_USES]);

/* ---- arena_buddy.c ---- */
void arena_zones_init(struct arena *a);
/* A free block of the order for this use, or NULL. Never parks. */
struct iobuf *arena_block_get(struct arena *a, enum arena_use use, unsigned order);
/* The same without looking at this reactor's front cache. */
struct iobuf *arena_block_get_shared(struct arena *a, enum arena_use use, unsigned order);
/* Gives a block back. Returns the order of the free block it has become part of, or -1 when a front
 * cache kept it. */
int arena_block_put(struct arena *a, struct iobuf *b);
void arena_fronts_drain(struct arena *a);
uint64_t arena_free_bytes(struct arena *a); /* in the zones; for tests */

static inline unsigned
arena_order(uint32_t cap_bytes)
{
	return (unsigned)__builtin_ctz(cap_bytes / IOBUF_BYTES_MIN);
}

#endif
