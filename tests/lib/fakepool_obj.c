/* fakepool_obj.c - objects of the pool without drives. */
#include "tests/lib/fakepool_int.h"

/* Any change must come in the order of txgs; the real pool's buffers per txg rely on it. */
static void
changing(struct pool_tx *tx, struct pool_obj *o)
{
	ASSERT(tx->ds == o->ds);
	ASSERT(tx->txg >= o->txg);
	o->txg = tx->txg;
}

static uint64_t
block_index(const struct pool_obj *o, uint64_t number)
{
	uint64_t lo = 0, hi = o->block_count;
	while (lo < hi) {
		uint64_t mid = (lo + hi) / 2;
		if (o->blocks[mid].number < number) {
			lo = mid + 1;
		} else {
			hi = mid;
		}
	}
	return lo;
}

static struct fake_block *
block_find(struct pool_obj *o, uint64_t number)
{
	uint64_t i = block_index(o, number);
	return i < o->block_count && o->blocks[i].number == number ? &o->blocks[i] : NULL;
}

uint8_t *
fakepool_block(struct pool_obj *o, uint64_t number)
{
	struct fake_block *b = block_find(o, number);
	return b == NULL ? NULL : b->data;
}

static struct fake_block *
block_make(struct pool_obj *o, uint64_t number)
{
	struct fake_block *found = block_find(o, number);
	if (found != NULL) {
		return found;
	}
	ASSERT(!o->is_inline);
	if (o->block_count == o->block_cap) {
		o->block_cap = MAX(o->block_cap * 2, (uint64_t)4);
		o->blocks = realloc(o->blocks, o->block_cap * sizeof(*o->blocks));
		ASSERT(o->blocks != NULL);
	}
	uint64_t i = block_index(o, number);
	memmove(&o->blocks[i + 1], &o->blocks[i], (o->block_count - i) * sizeof(*o->blocks));
	o->blocks[i] = (struct fake_block){.number = number, .data = fake_alloc(o->block_bytes)};
	o->block_count++;
	return &o->blocks[i];
}

/* ---- life ---- */

static void
owner_drop(struct pool_obj *o)
{
	if (o->owner != NULL && o->drop != NULL) {
		o->drop(o->owner);
	}
	o->owner = NULL;
}

static void
contents_free(struct pool_obj *o)
{
	for (uint64_t i = 0; i < o->block_count; i++) {
		free(o->blocks[i].data);
	}
	free(o->blocks);
	o->blocks = NULL;
	o->block_count = o->block_cap = 0;
}

void
fake_obj_free(struct pool_obj *o)
{
	ASSERT(o->holds == 0);
	owner_drop(o);
	contents_free(o);
	while (o->deferred != NULL) {
		struct fake_record *r = o->deferred;
		o->deferred = r->next;
		fake_record_free(r);
	}
	free(o);
}

struct pool_obj *
fake_obj_clone(struct pool_ds *ds, const struct pool_obj *o)
{
	struct pool_obj *c = fake_alloc(sizeof(*c));
	*c = *o;
	c->ds = ds;
	c->txg = 0;
	c->holds = 0;
	c->owner = NULL;
	c->deferred = NULL;
	c->blocks = fake_alloc(MAX(o->block_count, (uint64_t)1) * sizeof(*c->blocks));
	c->block_cap = c->block_count;
	for (uint64_t i = 0; i < o->block_count; i++) {
		c->blocks[i].number = o->blocks[i].number;
		c->blocks[i].data = fake_alloc(o->block_bytes);
		memcpy(c->blocks[i].data, o->blocks[i].data, o->block_bytes);
	}
	return c;
}

int
pool_obj_hold(struct pool_ds *ds, uint64_t object, uint64_t generation, struct pool_obj **out)
{
	fake_park(ds->pool);
	int err = fake_fails(ds->pool);
	if (err != 0) {
		return err;
	}
	if (ds->destroyed) {
		return -ESTALE;
	}
	struct pool_obj *o = object < ds->slot_cap ? ds->slots[object] : NULL;
	if (o == NULL) {
		return -ENOENT;
	}
	if (o->stale || (generation != 0 && o->generation != generation)) {
		return -ESTALE;
	}
	o->holds++;
	*out = o;
	return 0;
}

struct pool_obj *
pool_obj_ref(struct pool_obj *o)
{
	ASSERT(o->holds > 0);
	o->holds++;
	return o;
}

void
pool_obj_release(struct pool_obj *o)
{
	ASSERT(o->holds > 0);
	if (--o->holds > 0) {
		return;
	}
	if (o->stale) {
		ASSERT(o->ds->slots[o->number] == o);
		o->ds->slots[o->number] = NULL;
		fake_obj_free(o);
	} else if (!o->ds->pool->no_parking && rt_random_u64() % 4 == 0 &&
		   o->ds->pool->live_tx == 0) {
		owner_drop(o); /* it left memory */
	}
}

static void
slots_grow(struct pool_ds *ds, uint64_t number)
{
	while (number >= ds->slot_cap) {
		uint64_t cap = ds->slot_cap * 2;
		struct pool_obj **slots = fake_alloc(cap * sizeof(*slots));
		uint64_t *generations = fake_alloc(cap * sizeof(*generations));
		memcpy(slots, ds->slots, ds->slot_cap * sizeof(*slots));
		memcpy(generations, ds->generations, ds->slot_cap * sizeof(*generations));
		free(ds->slots);
		free(ds->generations);
		ds->slots = slots;
		ds->generations = generations;
		ds->slot_cap = cap;
	}
}

/* Numbers are reused soon, so that stale handles meet new objects. Looking for one starts near the
 * count. */
static uint64_t
free_number(struct pool_ds *ds)
{
	uint64_t n = ds->object_count / 2 + 2;
	while (n < ds->slot_cap && ds->slots[n] != NULL) {
		n++;
	}
	return n;
}

int
pool_obj_create(struct pool_tx *tx, struct pool_ds *ds, enum object_type type, uint32_t block_bytes,
    uint64_t number, uint64_t generation, struct pool_obj **out)
{
	fake_park(ds->pool);
	int err = fake_fails(ds->pool);
	if (err != 0) {
		return err;
	}
	if (number == 0) {
		number = free_number(ds);
	}
	slots_grow(ds, number);
	if (ds->slots[number] != NULL) {
		return -EEXIST;
	}
	struct pool_obj *o = fake_alloc(sizeof(*o));
	o->ds = ds;
	o->number = number;
	o->generation = generation != 0 ? generation : ds->generations[number] + 1;
	ds->generations[number] = o->generation;
	o->type = type;
	o->block_bytes = block_bytes;
	o->holds = 1;
	changing(tx, o);
	ds->slots[number] = o;
	ds->object_count++;
	*out = o;
	return 0;
}

void
pool_obj_destroy(struct pool_tx *tx, struct pool_obj *o)
{
	changing(tx, o);
	ASSERT(!o->stale && o->holds > 0);
	o->stale = true;
	o->ds->object_count--;
}

uint64_t
pool_obj_number(const struct pool_obj *o)
{
	return o->number;
}

uint64_t
pool_obj_generation(const struct pool_obj *o)
{
	return o->generation;
}

enum object_type
pool_obj_type(const struct pool_obj *o)
{
	return o->type;
}

bool
pool_obj_is_stale(const struct pool_obj *o)
{
	return o->stale || o->ds->destroyed;
}

uint64_t
pool_obj_used_bytes(const struct pool_obj *o)
{
	return o->block_count * o->block_bytes;
}

uint32_t
pool_obj_block_bytes(const struct pool_obj *o)
{
	return o->block_bytes;
}

void *
pool_obj_owner(const struct pool_obj *o)
{
	return o->owner;
}

void *
pool_obj_set_owner(struct pool_obj *o, void *owner, void (*drop)(void *owner))
{
	if (o->owner == NULL) {
		o->owner = owner;
		o->drop = drop;
	}
	return o->owner;
}

const void *
pool_obj_bonus(const struct pool_obj *o)
{
	return o->bonus;
}

void *
pool_obj_bonus_dirty(struct pool_tx *tx, struct pool_obj *o)
{
	changing(tx, o);
	return o->bonus;
}

/* ---- data in the slot ---- */

int
pool_obj_inline_set(struct pool_tx *tx, struct pool_obj *o, const void *data, uint32_t len)
{
	if (o->block_count > 0 || len > OBJECT_INLINE_MAX) {
		return -EFBIG;
	}
	changing(tx, o);
	memset(o->inl, 0, sizeof(o->inl));
	memcpy(o->inl, data, len);
	o->inline_len = len;
	o->is_inline = true;
	return 0;
}

int
pool_obj_inline_get(const struct pool_obj *o, void *out, uint32_t cap, uint32_t *out_len)
{
	if (!o->is_inline) {
		return -ENOENT;
	}
	memcpy(out, o->inl, MIN(cap, o->inline_len));
	*out_len = MIN(cap, o->inline_len);
	return 0;
}

void
pool_obj_inline_clear(struct pool_tx *tx, struct pool_obj *o)
{
	changing(tx, o);
	o->is_inline = false;
	o->inline_len = 0;
}

/* ---- byte ranges ---- */

int
pool_read(struct pool_obj *o, uint64_t off, uint32_t len, struct pool_slice *out, uint32_t max,
    uint32_t *out_count)
{
	fake_park(o->ds->pool);
	int err = fake_fails(o->ds->pool);
	uint32_t count = 0;
	while (err == 0 && len > 0) {
		uint64_t number = off / o->block_bytes;
		uint32_t in = (uint32_t)(off % o->block_bytes),
			 part = MIN(len, o->block_bytes - in);
		if (count == max) {
			err = -E2BIG;
			break;
		}
		struct fake_block *b = block_find(o, number);
		out[count] = (struct pool_slice){.len_bytes = part};
		if (b != NULL) {
			err = iobuf_alloc(part, ARENA_CACHE, &out[count].buf);
			ASSERT(err == 0);
			memcpy(out[count].buf->data, b->data + in, part);
		}
		count++;
		off += part;
		len -= part;
	}
	for (uint32_t i = 0; err != 0 && i < count; i++) {
		iobuf_unref(out[i].buf);
	}
	if (err == 0) {
		*out_count = count;
	}
	return err;
}

int
pool_write(struct pool_tx *tx, struct pool_obj *o, uint64_t off, const struct iovec *iov,
    uint32_t iov_count)
{
	fake_park(o->ds->pool);
	int err = fake_fails(o->ds->pool);
	if (err != 0) {
		return err;
	}
	changing(tx, o);
	for (uint32_t i = 0; i < iov_count; i++) {
		const uint8_t *from = iov[i].iov_base;
		size_t left = iov[i].iov_len;
		while (left > 0) {
			struct fake_block *b = block_make(o, off / o->block_bytes);
			size_t in = off % o->block_bytes, part = MIN(left, o->block_bytes - in);
			memcpy(b->data + in, from, part);
			from += part;
			off += part;
			left -= part;
		}
	}
	return 0;
}

int
pool_free_range(struct pool_tx *tx, struct pool_obj *o, uint64_t off, uint64_t len)
{
	fake_park(o->ds->pool);
	int err = fake_fails(o->ds->pool);
	if (err != 0) {
		return err;
	}
	changing(tx, o);
	uint64_t end = len > UINT64_MAX - off ? UINT64_MAX : off + len, kept = 0;
	for (uint64_t i = 0; i < o->block_count; i++) {
		struct fake_block *b = &o->blocks[i];
		uint64_t start = b->number * o->block_bytes, stop = start + o->block_bytes;
		if (start >= off && stop <= end) {
			free(b->data);
			continue;
		}
		uint64_t from = MAX(start, off), to = MIN(stop, end);
		if (from < to) {
			memset(b->data + (from - start), 0, to - from);
		}
		o->blocks[kept++] = *b;
	}
	o->block_count = kept;
	return 0;
}

/* ---- whole blocks ---- */

struct pool_buf {
	struct pool_obj *obj;
	uint64_t block;
};

int
pool_buf_hold(struct pool_obj *o, uint64_t block, bool create, struct pool_buf **out)
{
	fake_park(o->ds->pool);
	int err = fake_fails(o->ds->pool);
	if (err == 0 && !create && block_find(o, block) == NULL) {
		err = -ENOENT;
	}
	if (err != 0) {
		return err;
	}
	struct pool_buf *b = fake_alloc(sizeof(*b));
	b->obj = o;
	b->block = block;
	*out = b;
	return 0;
}

const void *
pool_buf_data(const struct pool_buf *b)
{
	struct fake_block *f = block_find(b->obj, b->block);
	ASSERT(f != NULL);
	return f->data;
}

void *
pool_buf_dirty(struct pool_tx *tx, struct pool_buf *b)
{
	fake_park(b->obj->ds->pool);
	changing(tx, b->obj);
	struct fake_block *f = block_make(b->obj, b->block);
	uint8_t *moved = fake_alloc(b->obj->block_bytes);
	memcpy(moved, f->data, b->obj->block_bytes);
	free(f->data);
	f->data = moved;
	return moved;
}

void
pool_buf_release(struct pool_buf *b)
{
	free(b);
}
