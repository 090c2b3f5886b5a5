/*
 * object_io.c - changing byte ranges of an object, its inline data and the owner's bytes.
 *
 * A block holds its first len_bytes (4 KiB steps); what is behind, up to the object's block size,
 * is zero. So the last block is as short as what was written to it. A write makes its blocks ready
 * first (pin, load what is partly overwritten), which may fail, and changes them afterwards, which
 * may not.
 */
#include "pool/object.h"

/* ---- writing ---- */

struct iov_cursor {
	const struct iovec *iov;
	uint32_t count;
	size_t off; /* within iov[0] */
};

static void
iov_copy(struct iov_cursor *c, uint8_t *to, uint32_t len)
{
	while (len > 0) {
		size_t n = MIN(c->iov[0].iov_len - c->off, (size_t)len);

		memcpy(to, (const uint8_t *)c->iov[0].iov_base + c->off, n);
		to += n;
		len -= (uint32_t)n;
		c->off += n;
		if (c->off == c->iov[0].iov_len) {
			c->iov++;
			c->count--;
			c->off = 0;
		}
	}
}

static uint64_t
iov_bytes(const struct iovec *iov, uint32_t count)
{
	uint64_t sum = 0;

	for (uint32_t i = 0; i < count; i++) {
		sum += iov[i].iov_len;
	}
	return sum;
}

static void
picked_release(struct pool_buf *b)
{
	while (b != NULL) {
		struct pool_buf *next = b->picked;

		dbuf_unpin(b);
		b = next;
	}
}

/* Pins the blocks of [off, off + len), loaded where bytes outside of the range are to be kept. */
static int
blocks_pick(struct pool_obj *o, uint64_t off, uint64_t len, struct pool_buf **out)
{
	uint32_t bb = le32_get(o->slot.block_bytes);
	struct pool_buf *head = NULL, **tail = &head;
	int err = 0;

	while (len > 0 && err == 0) {
		uint32_t within = (uint32_t)(off & (bb - 1));
		uint32_t n = (uint32_t)MIN(len, (uint64_t)(bb - within));
		struct pool_buf *b = dbuf_pin(o, off / bb);

		b->picked = NULL;
		*tail = b;
		tail = &b->picked;
		if (n < bb && b->newest == NULL && off / bb < le64_get(o->slot.block_count)) {
			err = dbuf_load(b, true);
		}
		off += n;
		len -= n;
	}
	if (err != 0) {
		picked_release(head);
		return err;
	}
	*out = head;
	return 0;
}

/* Makes [within, within + n) of a picked block writable; bytes that become part of the block are
 * zeroed. */
static uint8_t *
block_open(struct pool_tx *tx, struct pool_buf *b, uint32_t within, uint32_t n)
{
	uint32_t had = b->newest != NULL ? b->len_bytes : 0;
	uint32_t len = MAX(had, ALIGN_UP(within + n, SECTOR_BYTES));
	uint32_t keep = within == 0 && n >= had ? 0 : had;
	uint8_t *data = dbuf_make_writable(tx, b, keep, len);

	if (within > had) {
		memset(data + had, 0, within - had);
	}
	if (len > MAX(within + n, had)) {
		memset(data + MAX(within + n, had), 0, len - MAX(within + n, had));
	}
	return data + within;
}

int
pool_write(struct pool_tx *tx, struct pool_obj *o, uint64_t off, const struct iovec *iov,
    uint32_t iov_count)
{
	uint32_t bb = le32_get(o->slot.block_bytes);
	uint64_t len = iov_bytes(iov, iov_count);
	struct iov_cursor from = {iov, iov_count, 0};
	struct pool_buf *picked;
	int err;

	ASSERT((o->slot.flags & OBJECT_INLINE) == 0);
	if (len == 0) {
		return 0;
	}
	if (off + len < off || (off + len - 1) / bb >= tree_reach(OBJECT_LEVELS_MAX - 1)) {
		return -EFBIG;
	}
	while (from.count > 0 && from.iov[0].iov_len == 0) {
		from.iov++;
		from.count--;
	}
	err = blocks_pick(o, off, len, &picked);
	if (err != 0) {
		return err;
	}
	obj_block_count_raise(tx, o, (off + len - 1) / bb + 1);
	while (len > 0) {
		uint32_t within = (uint32_t)(off & (bb - 1));
		uint32_t n = (uint32_t)MIN(len, (uint64_t)(bb - within));
		struct pool_buf *next = picked->picked;

		iov_copy(&from, block_open(tx, picked, within, n), n);
		dbuf_unpin(picked);
		picked = next;
		off += n;
		len -= n;
	}
	return 0;
}

/* ---- freeing ---- */

/* Zeroes [within, to) of a picked block. What is behind `to` and zero anyway is cut off. */
static void
block_zero(struct pool_tx *tx, struct pool_buf *b, uint32_t within, uint32_t to)
{
	uint32_t had = b->len_bytes;
	uint32_t len = to >= had ? ALIGN_UP(within, SECTOR_BYTES) : had;
	uint8_t *data;

	if (b->newest == NULL || within >= had) {
		return;
	}
	ASSERT(within > 0 || to < had);
	data = dbuf_make_writable(tx, b, len, MAX(len, SECTOR_BYTES));
	memset(data + within, 0, MIN(to, len) - within);
}

static int
ranges_make_room(struct pool_obj *o, uint64_t txg)
{
	struct obj_live *live = &o->live[TXG_SLOT(txg)];
	struct block_range *more = NULL, *old = NULL;
	uint32_t cap;

	if (live->range_count < live->range_cap) {
		return 0; /* only we add to it */
	}
	cap = MAX(live->range_cap * 2, 4u);
	more = mem_zalloc_array(cap, sizeof(*more));
	if (more == NULL) {
		return -ENOMEM;
	}
	spin_lock(&o->lock);
	if (live->range_count > 0) {
		memcpy(more, live->ranges, live->range_count * sizeof(*more));
	}
	old = live->ranges;
	live->ranges = more;
	live->range_cap = cap;
	spin_unlock(&o->lock);
	mem_free(old);
	return 0;
}

/* Under the lock: notes the range; true when it only prolongs the last one. */
static void
range_push(struct pool_obj *o, uint64_t txg, uint64_t from, uint64_t to)
{
	struct obj_live *live = &o->live[TXG_SLOT(txg)];

	if (live->range_count > 0) {
		struct block_range *last = &live->ranges[live->range_count - 1];

		if (from <= last->to && to >= last->from) {
			last->from = MIN(last->from, from);
			last->to = MAX(last->to, to);
			return;
		}
	}
	live->ranges[live->range_count++] = (struct block_range){from, to};
	o->range_total++;
}

/* Under the lock: the next entry of [from, to) that has something in memory; NULL when none is
 * left. */
static struct pool_buf *
range_next_buf(struct pool_obj *o, uint64_t from, uint64_t to)
{
	for (uint32_t i = 0; i < o->bucket_count; i++) {
		for (struct pool_buf *b = o->buckets[i]; b != NULL; b = b->next) {
			if (b->block >= from && b->block < to && b->newest != NULL) {
				return b;
			}
		}
	}
	return NULL;
}

static void
range_clear_bufs(struct pool_obj *o, uint64_t txg, uint64_t from, uint64_t to)
{
	for (;;) {
		struct iobuf *old[2] = {NULL, NULL};
		struct pool_buf *b = NULL;

		spin_lock(&o->lock);
		if (to - from == 1) {
			b = dbuf_find(o, from);
			b = b != NULL && b->newest != NULL ? b : NULL;
		} else if (o->buf_count > 0) {
			b = range_next_buf(o, from, to);
		}
		if (b != NULL) {
			dbuf_clear(b, txg, old);
		}
		spin_unlock(&o->lock);
		if (b == NULL) {
			return;
		}
		iobuf_unref(old[0]);
		iobuf_unref(old[1]);
	}
}

/* Whole blocks [from, to) become holes. */
static void
blocks_free(struct pool_tx *tx, struct pool_obj *o, uint64_t from, uint64_t to)
{
	if (from >= to) {
		return;
	}
	obj_dirty(tx, o);
	spin_lock(&o->lock);
	range_push(o, tx->txg, from, to);
	spin_unlock(&o->lock);
	range_clear_bufs(o, tx->txg, from, to);
	if (to >= le64_get(o->slot.block_count) && from < le64_get(o->slot.block_count)) {
		obj_slot_dirty(tx, o);
		o->slot.block_count = le64_of(from);
	}
}

/* A partly freed block at an edge: loaded and pinned, or NULL when there is nothing to keep. */
static int
edge_pick(struct pool_obj *o, uint64_t block, struct pool_buf **out)
{
	struct pool_buf *b = dbuf_pin(o, block);
	int err = b->newest == NULL ? dbuf_load(b, true) : 0;

	if (err != 0) {
		dbuf_unpin(b);
		return err;
	}
	*out = b;
	return 0;
}

int
pool_free_range(struct pool_tx *tx, struct pool_obj *o, uint64_t off, uint64_t len)
{
	uint32_t bb = le32_get(o->slot.block_bytes);
	uint64_t limit = le64_get(o->slot.block_count) * bb; /* nothing is behind */
	uint64_t end = len >= limit || off >= limit - len ? limit : off + len;
	uint64_t first, last;
	struct pool_buf *head = NULL, *tail = NULL;
	int err;

	if (off >= end) {
		return 0;
	}
	first = DIV_UP(off, (uint64_t)bb);
	last = end / bb;
	obj_dirty(tx, o);
	err = ranges_make_room(o, tx->txg);
	if (err == 0 && (off & (bb - 1)) != 0) {
		err = edge_pick(o, off / bb, &head);
	}
	if (err == 0 && (end & (bb - 1)) != 0 && (head == NULL || end / bb != off / bb)) {
		err = edge_pick(o, last, &tail);
	}
	if (err == 0) {
		if (head != NULL) {
			uint64_t start = off / bb * bb;

			block_zero(tx, head, (uint32_t)(off - start),
			    (uint32_t)MIN(end - start, (uint64_t)bb));
		}
		blocks_free(tx, o, first, last);
		if (tail != NULL && tail->newest != NULL) {
			uint32_t to = (uint32_t)(end & (bb - 1));

			if (to >= tail->len_bytes) {
				blocks_free(tx, o, last, last + 1);
			} else {
				block_zero(tx, tail, 0, to);
			}
		}
	}
	if (head != NULL) {
		dbuf_unpin(head);
	}
	if (tail != NULL) {
		dbuf_unpin(tail);
	}
	return err;
}

/* ---- the owner's bytes and inline data ---- */

const void *
pool_obj_bonus(const struct pool_obj *o)
{
	return o->slot.bonus;
}

void *
pool_obj_bonus_dirty(struct pool_tx *tx, struct pool_obj *o)
{
	obj_slot_dirty(tx, o);
	return o->slot.bonus;
}

int
pool_obj_inline_set(struct pool_tx *tx, struct pool_obj *o, const void *data, uint32_t len)
{
	if (len > OBJECT_INLINE_MAX || le64_get(o->slot.block_count) > 0) {
		return -EFBIG;
	}
	obj_slot_dirty(tx, o);
	memset(o->slot.inl, 0, sizeof(o->slot.inl));
	memcpy(o->slot.inl, data, len);
	o->slot.inline_len = le16_of((uint16_t)len);
	o->slot.flags |= OBJECT_INLINE;
	return 0;
}

int
pool_obj_inline_get(const struct pool_obj *o, void *out, uint32_t cap, uint32_t *out_len)
{
	uint32_t len = le16_get(o->slot.inline_len);

	if ((o->slot.flags & OBJECT_INLINE) == 0) {
		return -ENOENT;
	}
	memcpy(out, o->slot.inl, MIN(len, cap));
	*out_len = len;
	return 0;
}

void
pool_obj_inline_clear(struct pool_tx *tx, struct pool_obj *o)
{
	if ((o->slot.flags & OBJECT_INLINE) == 0) {
		return;
	}
	obj_slot_dirty(tx, o);
	o->slot.flags &= (uint8_t)~OBJECT_INLINE;
	o->slot.inline_len = le16_of(0);
	memset(o->slot.inl, 0, sizeof(o->slot.inl));
}
