/*
 * arena.h - the one source of I/O buffers. One region, fixed at start, aligned to 2 MiB, so that a
 * drive backend can map it for DMA once. Buffers are power-of-two sized from 4 KiB to 2 MiB, aligned
 * to 4 KiB at least, reference counted, and counted against the budget of their use.
 *
 * Budgets never add up to more than the arena; ARENA_SYNC, ARENA_LOG and ARENA_REPAIR are reserves:
 * what frees memory (sync, log, reconstruction) never waits for what it is about to free.
 */
#ifndef AGATE_BASE_ARENA_H
#define AGATE_BASE_ARENA_H

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include "base/compiler.h"

#define IOBUF_BYTES_MIN 4096u
#define IOBUF_BYTES_MAX (2u << 20)

enum arena_use {
	ARENA_CACHE,  /* clean blocks; gives way when any other use needs memory */
	ARENA_DIRTY,  /* blocks changed in a live txg */
	ARENA_RECV,   /* bytes from the network; may wait while it holds no other buffer */
	ARENA_SEND,   /* requests being served and their replies; never waits for ARENA_RECV */
	ARENA_LOG,    /* log batches; reserve */
	ARENA_SYNC,   /* compressed blocks, parity, metadata of the syncing txg; reserve */
	ARENA_REPAIR, /* reconstruction; reserve */
	ARENA_USES
};

struct iobuf {
	uint8_t *data;      /* [c] */
	uint32_t cap_bytes; /* [c] power of two */
	uint16_t use;       /* [a] enum arena_use it is counted against */
	atomic_uint refs;
};

/* Returns 0 and a buffer with one reference and undefined contents; -EINVAL len > IOBUF_BYTES_MAX.
 * Waits while the budget of use is spent. May park. */
int iobuf_alloc(uint32_t len_bytes, enum arena_use use, struct iobuf **out) WARN_UNUSED MAY_PARK;
/*
 * Several buffers whose budget is taken at once. Who needs a second buffer of a use while holding the
 * first must ask this way: fibers that each hold one and wait for another may wait for each other.
 * -EINVAL also when the sum of the capacities exceeds the budget of use. May park.
 */
int iobuf_alloc_many(const uint32_t *len_bytes, unsigned count, enum arena_use use,
    struct iobuf **out) WARN_UNUSED MAY_PARK;
/* The same as iobuf_alloc without waiting: -ENOMEM instead. */
int iobuf_try_alloc(uint32_t len_bytes, enum arena_use use, struct iobuf **out) WARN_UNUSED;
struct iobuf *iobuf_ref(struct iobuf *b);
void iobuf_unref(struct iobuf *b); /* any thread; the last one returns it; NULL is fine */
/* Count b against another use from now on (a dirty block that became clean); never fails, may overshoot. */
void iobuf_recount(struct iobuf *b, enum arena_use use);

/* Asks the holder of evictable clean buffers to let go of at least want_bytes; runs on the allocating
 * fiber, must not park or allocate. One hook; the pool's cache sets it. */
void arena_set_reclaim(uint64_t (*reclaim)(void *arg, uint64_t want_bytes), void *arg);
/* The arg of the hook that is set now, NULL when none is: how several pools find the cache they share. */
void *arena_reclaim_arg(void);

struct arena_info {
	uint8_t *base;
	uint64_t size_bytes;
	uint64_t budget_bytes[ARENA_USES];
	uint64_t used_bytes[ARENA_USES];
};
void arena_get_info(struct arena_info *out);

#endif
