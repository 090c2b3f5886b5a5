/*
 * object_alloc.c - numbers and generations.
 *
 * A reactor takes numbers from a chunk of DS_CHUNK_NUMBERS of its own. A new chunk comes from above
 * every number ever used. Numbers whose destruction is committed are used again first (not before:
 * a record of the new object could reach the log while the root still has the old one); those of
 * earlier lives are found by searching the table, a block at a time, once an eighth of the numbers
 * below next_object seems to be free. A number from either list is only a proposal: the caller
 * checks that nobody has it (obj_create_number).
 *
 * A generation is the wall clock in nanoseconds, made strictly ascending: it grows with every
 * reuse, and a number that a crash took back never meets an old handle's generation again.
 */
#include "pool/object.h"

#define FREED_MAX (1u << 16)
#define SLOTS_PER_BLOCK (OBJECT_TABLE_BLOCK_BYTES / OBJECT_SLOT_BYTES)

uint64_t
obj_generation_next(struct pool_ds *ds)
{
	uint64_t now = rt_wall_ns(), got;

	spin_lock(&ds->number_lock);
	ds->last_generation = MAX(ds->last_generation + 1, now);
	got = ds->last_generation;
	spin_unlock(&ds->number_lock);
	return got;
}

/* Under number_lock. Best effort: a number without room is found by a later search. */
static void
numbers_push(struct ds_numbers *l, uint64_t number)
{
	if (l->count == l->cap) {
		uint32_t cap = MAX(l->cap * 2, 64u);
		uint64_t *more;

		if (cap > FREED_MAX) {
			return;
		}
		more = mem_realloc(l->v, cap * sizeof(*more));
		if (more == NULL) {
			return;
		}
		l->v = more;
		l->cap = cap;
	}
	l->v[l->count++] = number;
}

/* Under number_lock: numbers whose destruction is committed by now may be used. */
static void
landed_take(struct pool_ds *ds)
{
	if (ds->landed_txg > txg_committed(ds->p->txgs) &&
	    !DELIBERATE_BUG("pool-number-reused-early")) {
		return;
	}
	while (ds->landed.count > 0) {
		numbers_push(&ds->freed, ds->landed.v[--ds->landed.count]);
	}
}

void
obj_number_give(struct pool_ds *ds, uint64_t number, uint64_t txg)
{
	spin_lock(&ds->number_lock);
	landed_take(ds);
	ds->landed_txg = txg;
	numbers_push(&ds->landed, number);
	spin_unlock(&ds->number_lock);
}

void
obj_number_note(struct pool_ds *ds, uint64_t number, uint64_t generation)
{
	spin_lock(&ds->number_lock);
	ds->last_generation = MAX(ds->last_generation, generation);
	ds->next_object = MAX(ds->next_object, number + 1);
	for (unsigned i = 0; i < DS_NUMBER_LANES; i++) {
		if (number >= ds->lane[i].next && number < ds->lane[i].end) {
			ds->lane[i].next = ds->lane[i].end;
		}
	}
	spin_unlock(&ds->number_lock);
}

int
obj_slot_read(struct pool_ds *ds, uint64_t object, struct object_slot *out)
{
	uint64_t block = object / SLOTS_PER_BLOCK;
	struct iobuf *buf;
	struct tree table;
	struct bp bp;
	int err;

	spin_lock(&ds->table_lock);
	table = ds->table;
	spin_unlock(&ds->table_lock);
	err = tree_lookup(ds->p, &table, 0, block, NULL, &bp);
	if (err != 0) {
		return err;
	}
	if (bp_is_hole(&bp)) {
		return -ENOENT;
	}
	err = block_read(ds->p, &bp, BLOCK_READ_META, &buf);
	if (err != 0) {
		return err;
	}
	if (buf->cap_bytes < OBJECT_TABLE_BLOCK_BYTES) {
		iobuf_unref(buf);
		return -ERR_CORRUPT;
	}
	memcpy(out, buf->data + object % SLOTS_PER_BLOCK * OBJECT_SLOT_BYTES, sizeof(*out));
	iobuf_unref(buf);
	return 0;
}

/* Takes the next table block to search, when it is worth it. */
static bool
search_take(struct pool_ds *ds, uint64_t *out_block)
{
	bool take;

	spin_lock(&ds->number_lock);
	take = ds->freed.count == 0 && ds->scan_next < ds->scan_end &&
	       atomic_load(&ds->object_count) < ds->next_object - ds->next_object / 8;
	if (take) {
		*out_block = ds->scan_next++;
	}
	spin_unlock(&ds->number_lock);
	return take;
}

static void
search_block(struct pool_ds *ds, uint64_t block)
{
	struct object_slot slot;

	for (uint64_t i = 0; i < SLOTS_PER_BLOCK; i++) {
		uint64_t number = block * SLOTS_PER_BLOCK + i;
		uint64_t token = space_read_enter(ds->p->space);
		int err =
		    number <= OBJSET_OBJECT_UNLINKED ? -EINVAL : obj_slot_read(ds, number, &slot);

		space_read_exit(ds->p->space, token);
		if (err == -ENOENT || (err == 0 && slot.type == OBJ_FREE)) {
			spin_lock(&ds->number_lock);
			numbers_push(&ds->freed, number);
			spin_unlock(&ds->number_lock);
		}
	}
}

uint64_t
obj_number_pick(struct pool_ds *ds)
{
	unsigned lane = rt_reactor_self() % DS_NUMBER_LANES;
	uint64_t block, number;

	if (search_take(ds, &block)) {
		search_block(ds, block);
	}
	spin_lock(&ds->number_lock);
	landed_take(ds);
	if (ds->freed.count > 0) {
		number = ds->freed.v[--ds->freed.count];
		spin_unlock(&ds->number_lock);
		return number;
	}
	if (ds->lane[lane].next == ds->lane[lane].end) {
		ds->lane[lane].next = ds->next_object;
		ds->next_object =
		    ALIGN_DOWN(ds->next_object + DS_CHUNK_NUMBERS, (uint64_t)DS_CHUNK_NUMBERS);
		ds->lane[lane].end = ds->next_object;
	}
	number = ds->lane[lane].next++;
	spin_unlock(&ds->number_lock);
	return number;
}
