/*
 * dbuf.c - blocks that are dirty or pinned.
 *
 * Invariants (under obj->lock)
 *   1. newest is what a reader sees. v[t].buf is what live txg t must write; if newest is dirty, it
 * is the same buffer as the newest txg's version. Each pointer holds a reference of its own.
 *   2. Bytes are changed in place only in a buffer that newest and exactly one version, the
 *      changer's txg, refer to (two references): nobody has it lent and no older txg writes it.
 *   3. An entry without versions and pins isn't in the table: clean blocks live in the cache only.
 *   4. A version is taken off only after the tree that names what was written is in obj->tree: a
 * reader that finds no entry finds the right block. Who changes a block has it to himself (the
 * owner's lock); the syncing fiber only takes versions off.
 */
#include "pool/object.h"

static struct pool_buf **
dbuf_slot(struct pool_obj *o, uint64_t block)
{
	struct pool_buf **at = &o->buckets[block & (o->bucket_count - 1)];

	while (*at != NULL && (*at)->block != block) {
		at = &(*at)->next;
	}
	return at;
}

struct pool_buf *
dbuf_find(struct pool_obj *o, uint64_t block)
{
	return o->buf_count == 0 ? NULL : *dbuf_slot(o, block);
}

bool
obj_range_covers(const struct pool_obj *o, uint64_t block)
{
	if (likely(o->range_total == 0)) {
		return false;
	}
	for (unsigned s = 0; s < TXG_SLOTS; s++) {
		const struct obj_live *live = &o->live[s];

		for (uint32_t i = 0; i < live->range_count; i++) {
			if (block >= live->ranges[i].from && block < live->ranges[i].to) {
				return true;
			}
		}
	}
	return false;
}

/* Under the lock; fresh has count entries. */
static void
dbuf_rehash(struct pool_obj *o, struct pool_buf **fresh, uint32_t count)
{
	for (uint32_t i = 0; i < o->bucket_count; i++) {
		struct pool_buf *b = o->buckets[i];

		while (b != NULL) {
			struct pool_buf *next = b->next;
			struct pool_buf **at = &fresh[b->block & (count - 1)];

			b->next = *at;
			*at = b;
			b = next;
		}
	}
	mem_free(o->buckets);
	o->buckets = fresh;
	o->bucket_count = count;
}

/* Under the lock. Without memory the chains just get longer, but the first table must be there. */
static bool
dbuf_make_room(struct pool_obj *o)
{
	uint32_t count = o->bucket_count == 0 ? OBJ_BUCKETS_MIN : o->bucket_count * 4;
	struct pool_buf **fresh;

	if (o->bucket_count > 0 && o->buf_count < 2 * o->bucket_count) {
		return true;
	}
	fresh = mem_zalloc_array(count, sizeof(struct pool_buf *));
	if (fresh == NULL) {
		return o->bucket_count > 0;
	}
	dbuf_rehash(o, fresh, count);
	return true;
}

struct pool_buf *
dbuf_pin(struct pool_obj *o, uint64_t block)
{
	struct pool_buf *fresh = NULL, *b;

	for (;;) {
		spin_lock(&o->lock);
		b = dbuf_find(o, block);
		if (b == NULL && fresh != NULL && dbuf_make_room(o)) {
			b = fresh;
			fresh = NULL;
			*dbuf_slot(o, block) = b;
			o->buf_count++;
		}
		if (b != NULL) {
			b->pins++;
			spin_unlock(&o->lock);
			mem_free(fresh);
			return b;
		}
		spin_unlock(&o->lock);
		if (fresh == NULL) {
			fresh = pool_must_alloc(sizeof(*fresh));
			fresh->obj = o;
			fresh->block = block;
		} else {
			fiber_sleep(NSEC_PER_MSEC); /* no memory for the table */
		}
	}
}

/* Under the lock: takes the entry out when nothing needs it; true: the caller frees it. */
static bool
dbuf_retire(struct pool_buf *b)
{
	struct pool_obj *o = b->obj;

	if (b->pins > 0) {
		return false;
	}
	for (unsigned s = 0; s < TXG_SLOTS; s++) {
		if (b->v[s].buf != NULL) {
			return false;
		}
	}
	*dbuf_slot(o, b->block) = b->next;
	o->buf_count--;
	return true;
}

void
dbuf_unpin(struct pool_buf *b)
{
	struct pool_obj *o = b->obj;
	struct iobuf *newest = NULL;
	bool gone;

	spin_lock(&o->lock);
	ASSERT(b->pins > 0);
	b->pins--;
	gone = dbuf_retire(b);
	if (gone) {
		newest = b->newest;
	}
	spin_unlock(&o->lock);
	if (gone) {
		iobuf_unref(newest);
		mem_free(b);
	}
}

int
dbuf_load(struct pool_buf *b, bool to_change)
{
	struct pool_obj *o = b->obj;
	struct pool *p = o->ds->p;
	struct iobuf *buf = NULL;
	struct bp_prop prop;
	struct tree tree;
	struct bp bp;
	uint64_t token;
	bool done;
	int err;

	token = space_read_enter(p->space);
	spin_lock(&o->lock);
	done = b->newest != NULL || obj_range_covers(o, b->block);
	tree = o->tree;
	spin_unlock(&o->lock);
	if (done) {
		space_read_exit(p->space, token);
		return 0;
	}
	err = tree_lookup(p, &tree, 0, b->block, NULL, &bp);
	if (err == 0 && !bp_is_hole(&bp)) {
		err = bp_decode(&bp, p->v.set_count, &prop);
		err = err != 0 ? err : block_read(p, &bp, 0, &buf);
	}
	space_read_exit(p->space, token);
	if (err != 0 || buf == NULL) {
		return err;
	}
	if (to_change) {
		block_forget(p, &bp);
	}
	if (prop.logical_bytes > le32_get(o->slot.block_bytes)) {
		iobuf_unref(buf);
		return -ERR_CORRUPT;
	}
	spin_lock(&o->lock);
	if (b->newest == NULL) {
		b->newest = buf;
		b->len_bytes = prop.logical_bytes;
		buf = NULL;
	}
	spin_unlock(&o->lock);
	iobuf_unref(buf);
	return 0;
}

/* Dirty memory may overshoot its budget (transactions were admitted by what they said they need);
 * when even the cache has nothing to give, the fiber waits. */
static struct iobuf *
dirty_alloc(uint32_t len_bytes)
{
	struct iobuf *buf;

	if (iobuf_try_alloc(len_bytes, ARENA_DIRTY, &buf) == 0) {
		return buf;
	}
	while (iobuf_try_alloc(len_bytes, ARENA_CACHE, &buf) != 0) {
		fiber_sleep(NSEC_PER_MSEC);
		if (iobuf_try_alloc(len_bytes, ARENA_DIRTY, &buf) == 0) {
			return buf;
		}
	}
	iobuf_recount(buf, ARENA_DIRTY);
	return buf;
}

/* Under the lock: may tx change newest where it is? A clean buffer that only newest knows becomes
 * tx's version. */
static bool
dbuf_in_place(const struct pool_buf *b, unsigned slot, uint32_t len_bytes)
{
	unsigned refs;

	if (b->newest == NULL || b->newest->cap_bytes < len_bytes) {
		return false;
	}
	if (DELIBERATE_BUG("pool-change-syncing-buffer")) {
		return true;
	}
	refs = atomic_load_explicit(&b->newest->refs, memory_order_acquire);
	return (b->v[slot].buf == b->newest && refs == 2) || (b->v[slot].buf == NULL && refs == 1);
}

/* Under the lock: fresh (one reference, ours) becomes newest and tx's version. Old references go to
 * out. */
static void
dbuf_install(struct pool_buf *b, unsigned slot, struct iobuf *fresh, struct iobuf *out[2])
{
	struct dbuf_version *v = &b->v[slot];

	out[0] = b->newest;
	out[1] = v->buf;
	if (v->buf == NULL) {
		list_push_back(&b->obj->live[slot].bufs, &v->link);
	}
	b->newest = fresh;
	v->buf = iobuf_ref(fresh);
}

/* Bytes of b that the txg of this slot has been charged with. */
static uint32_t
version_charge(const struct pool_buf *b, unsigned slot)
{
	return b->v[slot].buf != NULL ? b->v[slot].buf->cap_bytes : 0;
}

/* A block may grow within one txg: what it is charged with grows with it. */
static void
version_charge_raise(struct pool_tx *tx, const struct pool_buf *b, uint32_t charged, uint32_t now)
{
	if (now > charged) {
		txg_count_dirty(tx, now - charged, obj_copies(b->obj));
	}
}

/* Under the lock. */
static void
version_set_length(struct pool_buf *b, unsigned slot, uint32_t len_bytes)
{
	b->len_bytes = len_bytes;
	b->v[slot].len_bytes = len_bytes;
}

uint8_t *
dbuf_make_writable(struct pool_tx *tx, struct pool_buf *b, uint32_t keep_bytes, uint32_t len_bytes)
{
	struct pool_obj *o = b->obj;
	unsigned slot = TXG_SLOT(tx->txg);
	struct iobuf *fresh, *old[2] = {NULL, NULL};
	uint32_t charged;
	bool in_place;

	ASSERT(b->pins > 0 && len_bytes % SECTOR_BYTES == 0);
	obj_dirty(tx, o);
	spin_lock(&o->lock);
	in_place = dbuf_in_place(b, slot, len_bytes);
	charged = version_charge(b, slot);
	if (in_place) {
		if (charged == 0) {
			list_push_back(&o->live[slot].bufs, &b->v[slot].link);
			b->v[slot].buf = iobuf_ref(b->newest);
		}
		version_set_length(b, slot, len_bytes);
		spin_unlock(&o->lock);
		if (charged == 0) {
			iobuf_recount(b->newest, ARENA_DIRTY);
		}
		version_charge_raise(tx, b, charged, b->newest->cap_bytes);
		return b->newest->data;
	}
	spin_unlock(&o->lock);

	fresh = dirty_alloc(len_bytes);
	if (keep_bytes > 0) {
		memcpy(fresh->data, b->newest->data, MIN(keep_bytes, b->len_bytes));
	}
	spin_lock(&o->lock);
	dbuf_install(b, slot, fresh, old);
	version_set_length(b, slot, len_bytes);
	spin_unlock(&o->lock);
	iobuf_unref(old[0]);
	iobuf_unref(old[1]);
	version_charge_raise(tx, b, charged, fresh->cap_bytes);
	return fresh->data;
}

static void
version_take(struct pool_buf *b, uint64_t txg, struct iobuf **out)
{
	struct dbuf_version *v = &b->v[TXG_SLOT(txg)];

	if (v->buf != NULL) {
		list_remove(&v->link);
		*out = v->buf;
		v->buf = NULL;
	}
}

void
dbuf_clear(struct pool_buf *b, uint64_t txg, struct iobuf *out[2])
{
	out[0] = b->newest;
	b->newest = NULL;
	b->len_bytes = 0;
	version_take(b, txg, &out[1]);
	if (dbuf_retire(b)) {
		mem_free(b);
	}
}

void
dbuf_version_done(struct pool_buf *b, uint64_t txg, struct iobuf *out[2])
{
	version_take(b, txg, &out[1]);
	if (dbuf_retire(b)) {
		out[0] = b->newest;
		mem_free(b);
	}
}

/* ---- whole blocks for the owner ---- */

/* A short block (trimmed, or from a file) grows to the full size; in memory only, until somebody
 * changes it. */
static int
dbuf_widen(struct pool_buf *b, uint32_t full_bytes)
{
	struct pool_obj *o = b->obj;
	struct iobuf *wide, *old = NULL;

	if (b->newest == NULL || b->len_bytes >= full_bytes) {
		return 0;
	}
	wide = dirty_alloc(full_bytes);
	iobuf_recount(wide, ARENA_CACHE);
	spin_lock(&o->lock);
	if (b->newest != NULL && b->len_bytes < full_bytes) {
		bool clean = true;

		memcpy(wide->data, b->newest->data, b->len_bytes);
		memset(wide->data + b->len_bytes, 0, full_bytes - b->len_bytes);
		for (unsigned s = 0; s < TXG_SLOTS; s++) {
			clean = clean && b->v[s].buf != b->newest;
		}
		if (clean) {
			old = b->newest;
			b->newest = wide;
			b->len_bytes = full_bytes;
			wide = NULL;
		}
	}
	spin_unlock(&o->lock);
	iobuf_unref(wide);
	iobuf_unref(old);
	return b->len_bytes >= full_bytes ? 0 : -ERR_CORRUPT;
}

/* A block that was never written: zeros in memory, dirty once somebody says so. */
static void
dbuf_create_zero(struct pool_buf *b, uint32_t full_bytes)
{
	struct iobuf *zero = dirty_alloc(full_bytes);

	memset(zero->data, 0, full_bytes);
	spin_lock(&b->obj->lock);
	if (b->newest == NULL) {
		b->newest = zero;
		b->len_bytes = full_bytes;
		zero = NULL;
	}
	spin_unlock(&b->obj->lock);
	iobuf_unref(zero);
}

/* Another holder may be putting in what it has read. */
static bool
dbuf_is_loaded(struct pool_buf *b)
{
	bool loaded;

	spin_lock(&b->obj->lock);
	loaded = b->newest != NULL;
	spin_unlock(&b->obj->lock);
	return loaded;
}

int
pool_buf_hold(struct pool_obj *o, uint64_t block, bool create, struct pool_buf **out)
{
	return pool_obj_is_stale(o) ? -ESTALE : dbuf_hold_syncing(o, block, create, out);
}

int
dbuf_hold_syncing(struct pool_obj *o, uint64_t block, bool create, struct pool_buf **out)
{
	uint32_t full = le32_get(o->slot.block_bytes);
	struct pool_buf *b;
	int err;

	if (block >= tree_reach(OBJECT_LEVELS_MAX - 1)) {
		return -EFBIG;
	}
	b = dbuf_pin(o, block);
	err = dbuf_is_loaded(b) ? 0 : dbuf_load(b, false);
	if (err == 0 && !dbuf_is_loaded(b)) {
		if (create) {
			dbuf_create_zero(b, full);
		} else {
			err = -ENOENT;
		}
	}
	err = err != 0 ? err : dbuf_widen(b, full);
	if (err != 0) {
		dbuf_unpin(b);
		return err;
	}
	*out = b;
	return 0;
}

const void *
pool_buf_data(const struct pool_buf *b)
{
	return b->newest->data;
}

void *
pool_buf_dirty(struct pool_tx *tx, struct pool_buf *b)
{
	uint32_t full = le32_get(b->obj->slot.block_bytes);

	ASSERT(b->newest != NULL);
	obj_block_count_raise(tx, b->obj, b->block + 1);
	return dbuf_make_writable(tx, b, full, full);
}

void
pool_buf_release(struct pool_buf *b)
{
	dbuf_unpin(b);
}
