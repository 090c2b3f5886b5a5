/*
 * arena_buddy.c - where a buffer comes from.
 *
 * The arena is cut into zones, each a run of whole 2 MiB chunks with its own lock: one for each of
 * the reserves (log, sync, repair) exactly as large as its budget, and the general one for cache,
 * dirty and receive buffers. Within a chunk it is a buddy system of ten orders. The reason for
 * zones: by counting alone a reserve would still have its bytes, but scattered 4 KiB buffers of
 * other uses could pin a piece of every larger block, and then the sync that frees them would wait
 * for them.
 *
 * Inside the general zone a chunk belongs to the use it was opened for (chunk_use) and small blocks
 * of a use come from its own chunks first, then from a fresh chunk, and only then from another
 * use's chunks, so that long-lived dirty pages do not sprinkle the chunks that eviction could free.
 * A reserve whose zone is spent (its buffers may have been recounted to the cache) looks in the
 * general zone too, where it counts as receive memory: it will be gone soon.
 *
 * A block is in exactly one place:
 *   held by a user     refs > 0, free_order 0
 *   in a front cache   refs 0, free_order 0, linked by next        (arena_block_put -> front_put)
 *   in a zone          refs 0, free_order = order + 1, linked both ways   (zone_insert/zone_remove)
 * Front caches keep small blocks per reactor and per chunk_use; arena_fronts_drain empties all of
 * them from any thread. Locks: front before zone; nothing else is taken inside.
 *
 * Free memory is poisoned for the address sanitizer; a held buffer is open up to its capacity.
 */
#include "base/arena_int.h"

#include "base/check.h"
#include "base/rt_int.h"

/* ---- lists of free blocks; the caller holds the zone's guard ---- */

static enum arena_zone_id
zone_of_use(unsigned use)
{
	switch (use) {
	case ARENA_LOG:
		return ZONE_LOG;
	case ARENA_SYNC:
		return ZONE_SYNC;
	case ARENA_REPAIR:
		return ZONE_REPAIR;
	default:
		return ZONE_GENERAL;
	}
}

static unsigned
group_of_use(unsigned use)
{
	return use < ARENA_GROUPS ? use : 0;
}

/* The list head a free block at page of this order belongs to. */
static uint32_t *
zone_list(struct arena *a, struct arena_zone *z, uint32_t page, unsigned order)
{
	if (order == ARENA_ORDER_WHOLE) {
		return &z->whole;
	}
	return &z->partial[group_of_use(a->chunk_use[page / ARENA_CHUNK_PAGES])][order];
}

static void
zone_insert(struct arena *a, struct arena_zone *z, uint32_t page, unsigned order)
{
	uint32_t *head = zone_list(a, z, page, order);
	struct arena_page *p = &a->pages[page];

	p->prev = ARENA_NONE;
	p->next = *head;
	if (*head != ARENA_NONE) {
		a->pages[*head].prev = page;
	}
	*head = page;
	a->free_order[page] = (uint8_t)(order + 1);
}

static void
zone_remove(struct arena *a, struct arena_zone *z, uint32_t page, unsigned order)
{
	struct arena_page *p = &a->pages[page];

	ASSERT(a->free_order[page] == order + 1);
	a->free_order[page] = 0;
	if (p->prev != ARENA_NONE) {
		a->pages[p->prev].next = p->next;
	} else {
		*zone_list(a, z, page, order) = p->next;
	}
	if (p->next != ARENA_NONE) {
		a->pages[p->next].prev = p->prev;
	}
}

/* ---- buddy; the caller holds the zone's guard ---- */

static uint32_t
zone_find_partial(const struct arena_zone *z, unsigned group, unsigned order, unsigned *out_order)
{
	for (unsigned o = order; o < ARENA_ORDER_WHOLE; o++) {
		if (z->partial[group][o] != ARENA_NONE) {
			*out_order = o;
			return z->partial[group][o];
		}
	}
	return ARENA_NONE;
}

/* The best free block of at least the order for this use; see the top for the sequence. */
static uint32_t
zone_find(const struct arena_zone *z, unsigned group, unsigned order, unsigned *out_order)
{
	uint32_t page = zone_find_partial(z, group, order, out_order);

	if (page != ARENA_NONE) {
		return page;
	}
	if (z->whole != ARENA_NONE) {
		*out_order = ARENA_ORDER_WHOLE;
		return z->whole;
	}
	for (unsigned g = 0; g < ARENA_GROUPS && page == ARENA_NONE; g++) {
		page = zone_find_partial(z, g, order, out_order);
	}
	return page;
}

static uint32_t
zone_take(struct arena *a, struct arena_zone *z, unsigned use, unsigned order)
{
	unsigned have;
	uint32_t page = zone_find(z, group_of_use(use), order, &have);

	if (page == ARENA_NONE) {
		return ARENA_NONE;
	}
	zone_remove(a, z, page, have);
	if (have == ARENA_ORDER_WHOLE) {
		a->chunk_use[page / ARENA_CHUNK_PAGES] = (uint8_t)use;
	}
	while (have > order) {
		have--;
		zone_insert(a, z, page + (1u << have), have);
	}
	z->free_bytes -= (uint64_t)IOBUF_BYTES_MIN << order;
	return page;
}

/* Returns the order of the block after merging with its free buddies. */
static unsigned
zone_give(struct arena *a, struct arena_zone *z, uint32_t page, unsigned order)
{
	ASSERT(a->free_order[page] == 0);
	z->free_bytes += (uint64_t)IOBUF_BYTES_MIN << order;
	while (order < ARENA_ORDER_WHOLE) {
		uint32_t buddy = page ^ (1u << order);

		if (a->free_order[buddy] != order + 1) {
			break;
		}
		zone_remove(a, z, buddy, order);
		page = MIN(page, buddy);
		order++;
	}
	zone_insert(a, z, page, order);
	return order;
}

/* ---- front caches ---- */

/* Whose memory the block is: says in which zone and on which front list it lives. Stable while
 * the block is not in its zone. */
static unsigned
block_use(const struct arena *a, uint32_t page)
{
	return a->chunk_use[page / ARENA_CHUNK_PAGES];
}

/* Helper threads have none. */
static struct arena_front *
front_self(struct arena *a)
{
	return rt_cur != NULL ? &a->front[rt_cur->id] : NULL;
}

/* Moves n blocks, or as many as there are, from the list back to their zone. Holds the front's
 * guard. */
static void
front_spill(struct arena *a, struct arena_front_list *l, unsigned use, unsigned order, uint32_t n)
{
	struct arena_zone *z = &a->zone[zone_of_use(use)];

	spin_lock(&z->guard);
	for (; n > 0 && l->count > 0; n--) {
		uint32_t page = l->head;

		l->head = a->pages[page].next;
		l->count--;
		(void)zone_give(a, z, page, order);
	}
	spin_unlock(&z->guard);
}

/* Fetches half a list at once, so that the zone's lock is taken once for several buffers. A block
 * of another use's chunk is fine; it goes home when it is freed. */
static void
front_fill(struct arena *a, struct arena_front_list *l, unsigned use, unsigned order)
{
	struct arena_zone *z = &a->zone[zone_of_use(use)];
	uint32_t want = MAX(a->front_max[order] / 2, 1u);

	spin_lock(&z->guard);
	for (; want > 0; want--) {
		uint32_t page = zone_take(a, z, use, order);

		if (page == ARENA_NONE) {
			break;
		}
		a->pages[page].next = l->head;
		l->head = page;
		l->count++;
	}
	spin_unlock(&z->guard);
}

static uint32_t
front_take(struct arena *a, unsigned use, unsigned order)
{
	struct arena_front *f = front_self(a);
	struct arena_front_list *l;
	uint32_t page = ARENA_NONE;

	if (f == NULL || order >= ARENA_FRONT_ORDERS || a->front_max[order] == 0) {
		return ARENA_NONE;
	}
	l = &f->list[use][order];
	spin_lock(&f->guard);
	if (l->count == 0) {
		front_fill(a, l, use, order);
	}
	if (l->count > 0) {
		page = l->head;
		l->head = a->pages[page].next;
		l->count--;
	}
	spin_unlock(&f->guard);
	return page;
}

static bool
front_give(struct arena *a, uint32_t page, unsigned order)
{
	struct arena_front *f = front_self(a);
	unsigned use = block_use(a, page);
	struct arena_front_list *l;

	if (f == NULL || order >= ARENA_FRONT_ORDERS || a->front_max[order] == 0) {
		return false;
	}
	l = &f->list[use][order];
	spin_lock(&f->guard);
	if (l->count >= a->front_max[order]) {
		front_spill(a, l, use, order, DIV_UP(l->count, 2u));
	}
	a->pages[page].next = l->head;
	l->head = page;
	l->count++;
	spin_unlock(&f->guard);
	return true;
}

void
arena_fronts_drain(struct arena *a)
{
	for (unsigned i = 0; i < rt_reactor_count(); i++) {
		struct arena_front *f = &a->front[i];

		spin_lock(&f->guard);
		for (unsigned n = 0; n < ARENA_USES * ARENA_FRONT_ORDERS; n++) {
			unsigned use = n / ARENA_FRONT_ORDERS, order = n % ARENA_FRONT_ORDERS;
			struct arena_front_list *l = &f->list[use][order];

			if (l->count > 0) {
				front_spill(a, l, use, order, l->count);
			}
		}
		spin_unlock(&f->guard);
	}
}

/* ---- blocks ---- */

static struct iobuf *
block_open(struct arena *a, uint32_t page, unsigned order)
{
	struct iobuf *b = &a->pages[page].buf;
	uint32_t cap = IOBUF_BYTES_MIN << order;

	ASSERT(atomic_load_explicit(&b->refs, memory_order_relaxed) == 0);
	b->data = a->base + (uint64_t)page * IOBUF_BYTES_MIN;
	b->cap_bytes = cap;
	ARENA_UNPOISON(b->data, cap);
	return b;
}

static uint32_t
zone_take_locked(struct arena *a, enum arena_zone_id id, unsigned use, unsigned order)
{
	struct arena_zone *z = &a->zone[id];
	uint32_t page;

	spin_lock(&z->guard);
	page = zone_take(a, z, use, order);
	spin_unlock(&z->guard);
	return page;
}

struct iobuf *
arena_block_get_shared(struct arena *a, enum arena_use use, unsigned order)
{
	enum arena_zone_id id = zone_of_use(use);
	uint32_t page = zone_take_locked(a, id, use, order);

	if (page == ARENA_NONE && id != ZONE_GENERAL) {
		page = zone_take_locked(a, ZONE_GENERAL, ARENA_RECV, order);
	}
	return page == ARENA_NONE ? NULL : block_open(a, page, order);
}

struct iobuf *
arena_block_get(struct arena *a, enum arena_use use, unsigned order)
{
	uint32_t page = front_take(a, use, order);

	return page == ARENA_NONE ? arena_block_get_shared(a, use, order)
				  : block_open(a, page, order);
}

int
arena_block_put(struct arena *a, struct iobuf *b)
{
	uint32_t page = (uint32_t)((uint64_t)(b->data - a->base) / IOBUF_BYTES_MIN);
	unsigned order = arena_order(b->cap_bytes);
	struct arena_zone *z = &a->zone[zone_of_use(block_use(a, page))];
	unsigned merged;

	ASSERT(b == &a->pages[page].buf);
	ARENA_POISON(b->data, b->cap_bytes);
	if (atomic_load(&a->pressure) == 0 && front_give(a, page, order)) {
		return -1;
	}
	spin_lock(&z->guard);
	merged = zone_give(a, z, page, order);
	spin_unlock(&z->guard);
	return (int)merged;
}

/* ---- start ---- */

static void
zone_init(struct arena *a, enum arena_zone_id id, uint32_t first_chunk, uint64_t chunk_count)
{
	static const enum arena_use uses[ARENA_ZONES] = {
	    ARENA_CACHE, ARENA_LOG, ARENA_SYNC, ARENA_REPAIR};
	struct arena_zone *z = &a->zone[id];

	spin_init(&z->guard);
	z->whole = ARENA_NONE;
	for (unsigned i = 0; i < ARENA_GROUPS * ARENA_ORDER_WHOLE; i++) {
		z->partial[i / ARENA_ORDER_WHOLE][i % ARENA_ORDER_WHOLE] = ARENA_NONE;
	}
	z->free_bytes = chunk_count * ARENA_CHUNK_BYTES;
	/* Backwards: the list then starts with the lowest address. */
	for (uint32_t c = first_chunk + (uint32_t)chunk_count; c > first_chunk; c--) {
		a->chunk_use[c - 1] = (uint8_t)uses[id];
		zone_insert(a, z, (c - 1) * ARENA_CHUNK_PAGES, ARENA_ORDER_WHOLE);
	}
	ARENA_POISON(a->base + (uint64_t)first_chunk * ARENA_CHUNK_BYTES, z->free_bytes);
}

/* A front list keeps at most 256 KiB, and all of them together only a small part of the zone. */
static void
fronts_init(struct arena *a, unsigned reactors)
{
	uint64_t share = a->size_bytes / (128 * (uint64_t)reactors);
	uint64_t keep = MIN(share, (uint64_t)256 << 10);

	for (unsigned order = 0; order < ARENA_FRONT_ORDERS; order++) {
		a->front_max[order] = (uint32_t)(keep / ((uint64_t)IOBUF_BYTES_MIN << order));
	}
	for (unsigned i = 0; i < ARENA_FRONTS; i++) {
		spin_init(&a->front[i].guard);
	}
}

void
arena_zones_init(struct arena *a)
{
	static const enum arena_use reserve[ARENA_ZONES] = {
	    [ZONE_LOG] = ARENA_LOG, [ZONE_SYNC] = ARENA_SYNC, [ZONE_REPAIR] = ARENA_REPAIR};
	uint32_t chunks = a->page_count / ARENA_CHUNK_PAGES;
	uint32_t end = chunks;

	for (unsigned id = ARENA_ZONES - 1; id > ZONE_GENERAL; id--) {
		uint32_t n = (uint32_t)(a->budget[reserve[id]].limit_bytes / ARENA_CHUNK_BYTES);

		end -= n;
		zone_init(a, id, end, n);
	}
	zone_init(a, ZONE_GENERAL, 0, end);
	fronts_init(a, rt_reactor_count());
}

uint64_t
arena_free_bytes(struct arena *a)
{
	uint64_t total = 0;

	for (unsigned id = 0; id < ARENA_ZONES; id++) {
		spin_lock(&a->zone[id].guard);
		total += a->zone[id].free_bytes;
		spin_unlock(&a->zone[id].guard);
	}
	return total;
}
