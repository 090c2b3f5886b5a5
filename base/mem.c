/*
 * mem.c - the heap's one door.
 *
 * Each block is preceded by a 16-byte head (size, magic, flags). While a life is on (simulation
 * only, one thread), a block also has a list link before its head, so that mem_life_drop can free
 * all that a power cut left behind. The flag in the head, not the present state, tells which kind a
 * block is: blocks may be freed after their life has ended, and outlive it when it ended cleanly.
 *
 * The count of live blocks is kept in stripes, one a thread as far as they go, so that the hot path
 * writes no shared cache line; a stripe may go negative when another thread frees.
 */
#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include "base/mem.h"
#include "base/check.h"
#include "base/list.h"
#include "base/mem_int.h"

/* The alignment's type must not narrow the result. */
STATIC_ASSERT(ALIGN_DOWN(((uint64_t)5 << 32) + 1, 4096u) == (uint64_t)5 << 32);
STATIC_ASSERT(ALIGN_UP(((uint64_t)5 << 32) - 1, 4096u) == (uint64_t)5 << 32);

#define MEM_MAGIC_LIVE 0x6d656d21u
#define MEM_MAGIC_FREE 0xdeadfeedu
#define MEM_IN_LIFE 1u
#define MEM_STRIPES 64u

struct mem_head {
	size_t len;
	uint32_t magic;
	uint32_t flags;
};
STATIC_ASSERT(sizeof(struct mem_head) == 16);

struct mem_life_block {
	struct list link;
	struct mem_head head;
};
STATIC_ASSERT(sizeof(struct mem_life_block) == 32);

struct mem_stripe {
	_Alignas(64) _Atomic int64_t live;
};

static struct mem_stripe stripes[MEM_STRIPES];
static atomic_uint stripe_next;
static _Thread_local unsigned stripe_mine; /* index + 1; 0 = none yet */
static _Atomic uint64_t fail_left;
static atomic_bool fail_persistent;
static struct list life_blocks;
static bool life_on;

static void
mem_count(int64_t by)
{
	if (unlikely(stripe_mine == 0)) {
		stripe_mine = atomic_fetch_add(&stripe_next, 1) % MEM_STRIPES + 1;
	}
	atomic_fetch_add_explicit(&stripes[stripe_mine - 1].live, by, memory_order_relaxed);
}

static bool
mem_must_fail(void)
{
	uint64_t left = atomic_load_explicit(&fail_left, memory_order_relaxed);
	for (;;) {
		if (likely(left == 0)) {
			return false;
		}
		if (left == 1 && atomic_load(&fail_persistent)) {
			return true;
		}
		if (atomic_compare_exchange_weak(&fail_left, &left, left - 1)) {
			return left == 1;
		}
	}
}

static void *
mem_zalloc_in(size_t len, bool in_life)
{
	size_t before = in_life ? sizeof(struct mem_life_block) : sizeof(struct mem_head);
	if (unlikely(mem_must_fail()) || len > SIZE_MAX / 2) {
		return NULL;
	}
	char *block = calloc(1, before + len);
	if (block == NULL) {
		return NULL;
	}
	struct mem_head *head = (struct mem_head *)(void *)(block + before) - 1;
	head->len = len;
	head->magic = MEM_MAGIC_LIVE;
	head->flags = in_life ? MEM_IN_LIFE : 0;
	if (in_life) {
		list_push_back(&life_blocks, &((struct mem_life_block *)(void *)block)->link);
	}
	mem_count(1);
	return head + 1;
}

void *
mem_zalloc(size_t len)
{
	return mem_zalloc_in(len, life_on);
}

void *
mem_zalloc_lasting(size_t len)
{
	return mem_zalloc_in(len, false);
}

void *
mem_zalloc_array(size_t count, size_t item_len)
{
	size_t len;
	if (__builtin_mul_overflow(count, item_len, &len)) {
		return NULL;
	}
	return mem_zalloc(len);
}

static struct mem_head *
mem_head_of(void *p)
{
	struct mem_head *head = (struct mem_head *)p - 1;
	ASSERT(head->magic == MEM_MAGIC_LIVE);
	return head;
}

void *
mem_realloc(void *old, size_t len)
{
	if (old == NULL) {
		return mem_zalloc(len);
	}
	if (unlikely(mem_must_fail()) || len > SIZE_MAX / 2) {
		return NULL;
	}
	struct mem_head *head = mem_head_of(old);
	if ((head->flags & MEM_IN_LIFE) == 0) {
		head = realloc(head, sizeof(*head) + len);
		if (head == NULL) {
			return NULL;
		}
		head->len = len;
		return head + 1;
	}
	struct mem_life_block *block = container_of(head, struct mem_life_block, head);
	struct list *prev = block->link.prev;
	list_remove(&block->link);
	struct mem_life_block *moved = realloc(block, sizeof(*moved) + len);
	struct mem_life_block *kept = moved != NULL ? moved : block;
	list_init(&kept->link);
	if (prev != &block->link) {
		list_push_front(prev, &kept->link);
	}
	if (moved == NULL) {
		return NULL;
	}
	moved->head.len = len;
	return &moved->head + 1;
}

char *
mem_strdup(const char *s)
{
	size_t len = strlen(s) + 1;
	char *copy = mem_zalloc(len);
	if (copy != NULL) {
		memcpy(copy, s, len);
	}
	return copy;
}

void
mem_free(void *p)
{
	if (p == NULL) {
		return;
	}
	struct mem_head *head = mem_head_of(p);
	head->magic = MEM_MAGIC_FREE;
	mem_count(-1);
	if ((head->flags & MEM_IN_LIFE) == 0) {
		free(head);
		return;
	}
	struct mem_life_block *block = container_of(head, struct mem_life_block, head);
	list_remove(&block->link);
	free(block);
}

void
mem_fail_at(uint64_t n, bool persistent)
{
	atomic_store(&fail_persistent, persistent);
	atomic_store(&fail_left, n);
}

uint64_t
mem_live_count(void)
{
	int64_t sum = 0;
	for (unsigned i = 0; i < MEM_STRIPES; i++) {
		sum += atomic_load_explicit(&stripes[i].live, memory_order_relaxed);
	}
	ASSERT(sum >= 0);
	return (uint64_t)sum;
}

void
mem_life_begin(void)
{
	ASSERT(!life_on);
	list_init(&life_blocks);
	life_on = true;
}

uint64_t
mem_life_drop(void)
{
	uint64_t dropped = 0;
	ASSERT(life_on);
	while (!list_empty(&life_blocks)) {
		mem_free(&list_first(&life_blocks, struct mem_life_block, link)->head + 1);
		dropped++;
	}
	life_on = false;
	return dropped;
}

uint64_t
mem_life_end(void)
{
	uint64_t left = 0;
	ASSERT(life_on);
	list_for_each_safe(item, next, &life_blocks)
	{
		list_remove(item);
		left++;
	}
	life_on = false;
	return left;
}
