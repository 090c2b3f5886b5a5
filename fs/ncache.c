/*
 * ncache.c - remembers what names lead to, so that LOOKUP of a known name takes no lock, allocates
 * nothing and reads no directory node. One table for a pool, direct-mapped; a newer name simply
 * takes the slot.
 *
 * A dataset is known by a number of its struct fs_ds: a snapshot has another one than its dataset,
 * and so has a dataset that was rolled back, so what it held before can't be found.
 *
 * A name is known by its 127-bit keyed hash (nobody outside has the key), so the slot needn't hold
 * it. Slots are filled under the directory's shared lock and emptied under its exclusive one before
 * the change is over, so a hit is what the directory held at some moment of the look-up. A new name
 * goes in only after its record was logged: what others then do to the object comes behind it in
 * the log. A slot has
 * a sequence count like a node's attributes; who finds it odd while filling gives up, who must
 * empty it waits the few instructions.
 */
#include "fs/fs_int.h"

#define NCACHE_SLOTS 65536u

struct ncache_slot {
	atomic_uint seq;
	_Atomic uint64_t ds, dir, key, tag, object, generation;
};

struct ncache {
	struct ncache_slot slot[NCACHE_SLOTS];
};

struct ncache *
ncache_create(void)
{
	return mem_zalloc(sizeof(struct ncache));
}

void
ncache_destroy(struct ncache *c)
{
	mem_free(c);
}

static struct ncache_slot *
slot_of(struct ncache *c, const struct fs_node *dir, const struct fs_name *name)
{
	uint64_t mix =
	    (name->tag ^ fs_node_object(dir) * 0x9e3779b97f4a7c15ull) ^ fs_node_ds(dir)->cache_id;
	return &c->slot[(mix >> 20) % NCACHE_SLOTS];
}

static bool
matches(struct ncache_slot *s, const struct fs_node *dir, const struct fs_name *name)
{
	return atomic_load_explicit(&s->tag, memory_order_relaxed) == name->tag &&
	       atomic_load_explicit(&s->key, memory_order_relaxed) == name->key &&
	       atomic_load_explicit(&s->dir, memory_order_relaxed) == fs_node_object(dir) &&
	       atomic_load_explicit(&s->ds, memory_order_relaxed) == fs_node_ds(dir)->cache_id;
}

bool
ncache_get(struct ncache *c, const struct fs_node *dir, const struct fs_name *name,
    uint64_t *out_object, uint64_t *out_generation)
{
	struct ncache_slot *s = slot_of(c, dir, name);
	unsigned seq = atomic_load_explicit(&s->seq, memory_order_acquire);
	if ((seq & 1) != 0 || !matches(s, dir, name)) {
		return false;
	}
	uint64_t object = atomic_load_explicit(&s->object, memory_order_relaxed);
	uint64_t generation = atomic_load_explicit(&s->generation, memory_order_relaxed);
	atomic_thread_fence(memory_order_acquire);
	if (object == 0 || atomic_load_explicit(&s->seq, memory_order_relaxed) != seq) {
		return false;
	}
	*out_object = object;
	*out_generation = generation;
	return true;
}

static bool
try_open(struct ncache_slot *s, unsigned *out_seq)
{
	unsigned seq = atomic_load_explicit(&s->seq, memory_order_relaxed);
	*out_seq = seq;
	return (seq & 1) == 0 && atomic_compare_exchange_strong_explicit(&s->seq, &seq, seq + 1,
				     memory_order_acq_rel, memory_order_relaxed);
}

void
ncache_put(struct ncache *c, const struct fs_node *dir, const struct fs_name *name, uint64_t object,
    uint64_t generation)
{
	struct ncache_slot *s = slot_of(c, dir, name);
	unsigned seq;
	if (!try_open(s, &seq)) {
		return;
	}
	atomic_thread_fence(memory_order_release);
	atomic_store_explicit(&s->ds, fs_node_ds(dir)->cache_id, memory_order_relaxed);
	atomic_store_explicit(&s->dir, fs_node_object(dir), memory_order_relaxed);
	atomic_store_explicit(&s->key, name->key, memory_order_relaxed);
	atomic_store_explicit(&s->tag, name->tag, memory_order_relaxed);
	atomic_store_explicit(&s->object, object, memory_order_relaxed);
	atomic_store_explicit(&s->generation, generation, memory_order_relaxed);
	atomic_store_explicit(&s->seq, seq + 2, memory_order_release);
}

void
ncache_drop(struct ncache *c, const struct fs_node *dir, const struct fs_name *name)
{
	struct ncache_slot *s = slot_of(c, dir, name);
	unsigned seq;
	while (!try_open(s, &seq)) {
	}
	atomic_thread_fence(memory_order_release);
	if (matches(s, dir, name)) {
		atomic_store_explicit(&s->object, 0, memory_order_relaxed);
	}
	atomic_store_explicit(&s->seq, seq + 2, memory_order_release);
}
