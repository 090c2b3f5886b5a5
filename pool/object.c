/*
 * object.c - objects in memory: one struct for each (dataset, number), shared by all who hold it.
 *
 * States: loading -> live -> dying (destroyed in txg T; found as stale until T has been synced, so
 * that nobody reads the old slot) -> unhashed. An object nobody holds is idle: it stays, as a cache
 * of its slot, until there are too many. A dirty object is held by its dataset's dirty list; so an
 * idle one is clean.
 *
 * The slot is versioned by value: slot is the newest; when a txg changes it for the first time
 * while an older live txg has still to write it, the old one is kept in `saved` (two txgs live at
 * once at most: open and syncing or quiescing). The tree's fields live in obj->tree, which only the
 * syncing fiber changes.
 *
 * Locks: shard -> nothing; obj->lock -> ds->lock. Both are spin locks.
 */
#include "pool/object.h"

#include "pool/accounts.h"

#define SHARDS 64u
#define SHARD_BUCKETS_MIN 16u
#define IDLE_MIN 4096u
#define FORGET_BATCH 32u

struct obj_shard {
	struct spin lock;
	struct pool_obj **buckets;
	uint32_t bucket_count, count;
	struct list idle; /* oldest first */
	uint32_t idle_count;
};

struct objects {
	uint32_t idle_max; /* per shard */
	struct waitgroup fetches;
	struct obj_shard shards[SHARDS];
};

static uint64_t
obj_hash(const struct pool_ds *ds, uint64_t number)
{
	uint64_t h = (number + ds->guid) * 0x9e3779b97f4a7c15ull;

	return h ^ (h >> 29);
}

static struct obj_shard *
shard_of(struct pool_ds *ds, uint64_t hash)
{
	return &ds->p->objects->shards[(hash >> 40) % SHARDS];
}

static bool
obj_is_of(const struct pool_obj *o, const struct pool_ds *ds)
{
	return o->ds == ds || (DELIBERATE_BUG("pool-rollback-keeps-cache") &&
				  o->ds->guid == ds->guid && o->ds->snap_guid == ds->snap_guid);
}

static struct pool_obj **
obj_slot_of(struct obj_shard *s, struct pool_ds *ds, uint64_t number, uint64_t hash)
{
	struct pool_obj **at = &s->buckets[hash & (s->bucket_count - 1)];

	while (*at != NULL && ((*at)->number != number || !obj_is_of(*at, ds))) {
		at = &(*at)->next;
	}
	return at;
}

int
objects_open(struct pool *p)
{
	struct arena_info arena;
	struct objects *t = mem_zalloc(sizeof(*t));

	if (t == NULL) {
		return -ENOMEM;
	}
	arena_get_info(&arena);
	t->idle_max = (uint32_t)MAX(arena.size_bytes / (64 * KIB), (uint64_t)IDLE_MIN) / SHARDS;
	wg_init(&t->fetches);
	p->objects = t;
	for (uint32_t i = 0; i < SHARDS; i++) {
		struct obj_shard *s = &t->shards[i];

		spin_init(&s->lock);
		list_init(&s->idle);
		s->bucket_count = SHARD_BUCKETS_MIN;
		s->buckets = mem_zalloc_array(s->bucket_count, sizeof(struct pool_obj *));
		if (s->buckets == NULL) {
			objects_close(p);
			return -ENOMEM;
		}
	}
	return 0;
}

struct waitgroup *
objects_fetches(struct pool *p)
{
	return &p->objects->fetches;
}

/* ---- making and freeing the struct ---- */

static struct pool_obj *
obj_make(struct pool_ds *ds, uint64_t number)
{
	struct pool_obj *o = mem_zalloc(sizeof(*o));

	if (o == NULL) {
		return NULL;
	}
	o->ds = pool_ds_ref(ds);
	o->number = number;
	list_init(&o->idle);
	list_init(&o->of_snap);
	atomic_store(&o->refs, 1);
	wg_init(&o->loaded);
	spin_init(&o->lock);
	mutex_init(&o->log_mu, RANK_POOL_OBJECT);
	list_init(&o->deferred);
	for (unsigned i = 0; i < TXG_SLOTS; i++) {
		list_init(&o->live[i].link);
		list_init(&o->live[i].bufs);
	}
	for (unsigned i = 0; i < DEFERRED_SLOTS; i++) {
		list_init(&o->deferred_link[i]);
	}
	o->tree.levels = 1;
	if (ds->snap_guid != 0) {
		spin_lock(&ds->objects_lock);
		list_push_back(&ds->objects, &o->of_snap);
		atomic_fetch_add(&ds->objects_count, 1);
		spin_unlock(&ds->objects_lock);
	}
	return o;
}

static void
obj_free(struct pool_obj *o)
{
	void *owner = (void *)atomic_load(&o->owner);
	struct pool_ds *ds = o->ds;

	if (owner != NULL) {
		o->drop(owner);
	}
	if (!list_empty(&o->of_snap)) {
		spin_lock(&ds->objects_lock);
		list_remove(&o->of_snap);
		atomic_fetch_sub(&ds->objects_count, 1);
		spin_unlock(&ds->objects_lock);
	}
	ASSERT(o->buf_count == 0 && list_empty(&o->deferred));
	for (unsigned i = 0; i < TXG_SLOTS; i++) {
		ASSERT(!o->live[i].dirty);
		mem_free(o->live[i].ranges);
	}
	mem_free(o->saved);
	mem_free(o->buckets);
	mem_free(o);
	pool_ds_close(ds);
}

/* ---- the table ---- */

/* Under the shard's lock. Without memory the chains just get longer. */
static void
shard_grow(struct obj_shard *s)
{
	uint32_t count = s->bucket_count * 4;
	struct pool_obj **fresh;

	if (s->count < 2 * s->bucket_count) {
		return;
	}
	fresh = mem_zalloc_array(count, sizeof(struct pool_obj *));
	if (fresh == NULL) {
		return;
	}
	for (uint32_t i = 0; i < s->bucket_count; i++) {
		struct pool_obj *o = s->buckets[i];

		while (o != NULL) {
			struct pool_obj *next = o->next;
			struct pool_obj **at = &fresh[obj_hash(o->ds, o->number) & (count - 1)];

			o->next = *at;
			*at = o;
			o = next;
		}
	}
	mem_free(s->buckets);
	s->buckets = fresh;
	s->bucket_count = count;
}

/* Under the shard's lock. */
static void
obj_unhash(struct obj_shard *s, struct pool_obj *o)
{
	if (o->hashed) {
		*obj_slot_of(s, o->ds, o->number, obj_hash(o->ds, o->number)) = o->next;
		o->hashed = false;
		s->count--;
	}
}

static void
obj_ref_locked(struct obj_shard *s, struct pool_obj *o)
{
	if (atomic_fetch_add(&o->refs, 1) == 0) {
		list_remove(&o->idle);
		s->idle_count--;
	}
}

struct pool_obj *
obj_find(struct pool_ds *ds, uint64_t object)
{
	uint64_t hash = obj_hash(ds, object);
	struct obj_shard *s = shard_of(ds, hash);
	struct pool_obj *o;

	spin_lock(&s->lock);
	o = *obj_slot_of(s, ds, object, hash);
	if (o != NULL) {
		obj_ref_locked(s, o);
	}
	spin_unlock(&s->lock);
	return o;
}

/* Puts fresh (one reference, the caller's) into the table, in the place of a dying object. false:
 * there is a live one. */
static bool
obj_insert(struct pool_obj *fresh)
{
	uint64_t hash = obj_hash(fresh->ds, fresh->number);
	struct obj_shard *s = shard_of(fresh->ds, hash);
	struct pool_obj *old;
	bool ok;

	spin_lock(&s->lock);
	old = *obj_slot_of(s, fresh->ds, fresh->number, hash);
	ok = old == NULL || atomic_load(&old->dying);
	if (ok) {
		if (old != NULL) {
			ASSERT(atomic_load(&old->refs) > 0); /* its dirty list holds it */
			obj_unhash(s, old);
		}
		shard_grow(s);
		fresh->next = s->buckets[hash & (s->bucket_count - 1)];
		s->buckets[hash & (s->bucket_count - 1)] = fresh;
		fresh->hashed = true;
		s->count++;
	}
	spin_unlock(&s->lock);
	return ok;
}

struct pool_obj *
pool_obj_ref(struct pool_obj *o)
{
	unsigned before = atomic_fetch_add(&o->refs, 1);

	ASSERT(before > 0);
	return o;
}

/* Oldest idle objects beyond the limit, unhashed, chained by next. */
static struct pool_obj *
shard_trim(struct obj_shard *s, uint32_t idle_max)
{
	struct pool_obj *gone = NULL;

	while (s->idle_count > idle_max) {
		struct pool_obj *o = list_first(&s->idle, struct pool_obj, idle);

		list_remove(&o->idle);
		s->idle_count--;
		obj_unhash(s, o);
		o->next = gone;
		gone = o;
	}
	return gone;
}

void
pool_obj_release(struct pool_obj *o)
{
	struct objects *t = o->ds->p->objects;
	struct obj_shard *s = shard_of(o->ds, obj_hash(o->ds, o->number));
	unsigned refs = atomic_load(&o->refs);
	struct pool_obj *gone = NULL;

	while (refs > 1) {
		if (atomic_compare_exchange_weak(&o->refs, &refs, refs - 1)) {
			return;
		}
	}
	spin_lock(&s->lock);
	if (atomic_fetch_sub(&o->refs, 1) == 1) {
		if (o->hashed && !pool_obj_is_stale(o) && o->load_err == 0) {
			list_push_back(&s->idle, &o->idle);
			s->idle_count++;
			gone = shard_trim(s, t->idle_max);
		} else {
			obj_unhash(s, o);
			o->next = NULL;
			gone = o;
		}
	}
	spin_unlock(&s->lock);
	while (gone != NULL) {
		struct pool_obj *next = gone->next;

		obj_free(gone);
		gone = next;
	}
}

static void
shard_forget(struct obj_shard *s, struct pool_ds *ds)
{
	struct pool_obj *gone = NULL;

	spin_lock(&s->lock);
	list_for_each_safe(l, tmp, &s->idle)
	{
		struct pool_obj *o = list_entry(l, struct pool_obj, idle);

		if (ds == NULL || o->ds == ds) {
			list_remove(&o->idle);
			s->idle_count--;
			obj_unhash(s, o);
			o->next = gone;
			gone = o;
		}
	}
	spin_unlock(&s->lock);
	while (gone != NULL) {
		struct pool_obj *next = gone->next;

		obj_free(gone);
		gone = next;
	}
}

/* Some of a snapshot's objects, each of which goes to the end of the list. */
static uint32_t
snap_numbers_take(struct pool_ds *ds, uint32_t max, uint64_t *out)
{
	uint32_t n = 0;

	spin_lock(&ds->objects_lock);
	while (n < max && !list_empty(&ds->objects)) {
		struct pool_obj *o = list_first(&ds->objects, struct pool_obj, of_snap);

		list_remove(&o->of_snap);
		list_push_back(&ds->objects, &o->of_snap);
		out[n++] = o->number;
	}
	spin_unlock(&ds->objects_lock);
	return n;
}

static void
number_forget(struct pool_ds *ds, uint64_t number)
{
	uint64_t hash = obj_hash(ds, number);
	struct obj_shard *s = shard_of(ds, hash);
	struct pool_obj *o;

	spin_lock(&s->lock);
	o = *obj_slot_of(s, ds, number, hash);
	if (o != NULL && !list_empty(&o->idle)) {
		list_remove(&o->idle);
		s->idle_count--;
		obj_unhash(s, o);
	} else {
		o = NULL;
	}
	spin_unlock(&s->lock);
	if (o != NULL) {
		obj_free(o);
	}
}

/* The whole table is too much to look through for each of many snapshots that are opened in turn.
 */
static void
snap_forget(struct pool_ds *ds)
{
	uint64_t numbers[FORGET_BATCH];

	for (uint32_t left = atomic_load(&ds->objects_count); left > 0;) {
		uint32_t n = snap_numbers_take(ds, MIN(left, FORGET_BATCH), numbers);

		for (uint32_t i = 0; i < n; i++) {
			number_forget(ds, numbers[i]);
		}
		left = n == 0 ? 0 : left - n;
	}
}

void
objects_forget(struct pool_ds *ds)
{
	if (ds->snap_guid != 0) {
		snap_forget(ds);
		return;
	}
	for (uint32_t i = 0; i < SHARDS; i++) {
		shard_forget(&ds->p->objects->shards[i], ds);
	}
}

void
objects_close(struct pool *p)
{
	struct objects *t = p->objects;

	if (t == NULL) {
		return;
	}
	wg_wait(&t->fetches);
	for (uint32_t i = 0; i < SHARDS; i++) {
		if (t->shards[i].buckets != NULL) {
			shard_forget(&t->shards[i], NULL);
			ASSERT(t->shards[i].count == 0);
			mem_free(t->shards[i].buckets);
		}
	}
	mem_free(t);
	p->objects = NULL;
}

/* ---- loading ---- */

static bool
slot_is_valid(struct pool *p, const struct object_slot *slot)
{
	uint32_t bb = le32_get(slot->block_bytes);

	if ((slot->flags & ~OBJECT_INLINE) != 0) {
		return false;
	}
	if (bb < SECTOR_BYTES || bb > RAIDZ_BLOCK_BYTES_MAX || (bb & (bb - 1)) != 0) {
		return false;
	}
	if ((slot->flags & OBJECT_INLINE) != 0) {
		return le16_get(slot->inline_len) <= OBJECT_INLINE_MAX && slot->levels == 1;
	}
	return tree_is_valid(p, &slot->data, slot->levels);
}

static int
obj_load(struct pool_obj *o)
{
	struct object_slot *slot = &o->slot;
	uint64_t token = space_read_enter(o->ds->p->space);
	int err = obj_slot_read(o->ds, o->number, slot);

	space_read_exit(o->ds->p->space, token);
	if (err != 0) {
		return err;
	}
	if (slot->type == OBJ_FREE) {
		return -ENOENT;
	}
	if (!slot_is_valid(o->ds->p, slot)) {
		return -ERR_CORRUPT;
	}
	o->generation = le64_get(slot->generation);
	o->tree.used_sectors = le64_get(slot->used_sectors);
	atomic_store_explicit(&o->used_sectors, o->tree.used_sectors, memory_order_relaxed);
	o->tree.levels = slot->levels;
	if ((slot->flags & OBJECT_INLINE) == 0) {
		o->tree.root = slot->data;
	}
	return 0;
}

/* The struct of object, loaded if need be; the caller's reference. */
static int
obj_get(struct pool_ds *ds, uint64_t object, struct pool_obj **out)
{
	struct pool_obj *o, *fresh;
	int err;

	for (;;) {
		o = obj_find(ds, object);
		if (o != NULL) {
			break;
		}
		fresh = obj_make(ds, object);
		if (fresh == NULL) {
			return -ENOMEM;
		}
		wg_add(&fresh->loaded, 1);
		if (!obj_insert(fresh)) {
			wg_done(&fresh->loaded);
			obj_free(fresh);
			continue;
		}
		fresh->load_err = obj_load(fresh);
		wg_done(&fresh->loaded);
		o = fresh;
		break;
	}
	wg_wait(&o->loaded);
	err = o->load_err;
	if (err != 0) {
		pool_obj_release(o);
		return err;
	}
	*out = o;
	return 0;
}

int
pool_obj_hold(struct pool_ds *ds, uint64_t object, uint64_t generation, struct pool_obj **out)
{
	if (atomic_load(&ds->destroyed)) {
		return object == 0 ? -ENOENT : -ESTALE;
	}
	return obj_hold_syncing(ds, object, generation, out);
}

int
obj_hold_syncing(struct pool_ds *ds, uint64_t object, uint64_t generation, struct pool_obj **out)
{
	struct pool_obj *o;
	int err;

	if (object == 0) {
		return -ENOENT;
	}
	err = obj_get(ds, object, &o);
	if (err != 0) {
		return err;
	}
	if (atomic_load(&o->dying) || (generation != 0 && generation != o->generation)) {
		pool_obj_release(o);
		return -ESTALE;
	}
	*out = o;
	return 0;
}

/* ---- creating and destroying ---- */

/* Is the number free? One that is being destroyed is only for replay, which knows what it does. */
static int
obj_create_check(struct pool_ds *ds, uint64_t number, bool dying_is_free)
{
	struct object_slot slot;
	struct pool_obj *o = obj_find(ds, number);
	bool dying;
	uint64_t token;
	int err;

	if (o != NULL) {
		wg_wait(&o->loaded);
		dying = (dying_is_free && atomic_load(&o->dying)) || o->load_err == -ENOENT;
		pool_obj_release(o);
		return dying ? 0 : -EEXIST;
	}
	token = space_read_enter(ds->p->space);
	err = obj_slot_read(ds, number, &slot);
	space_read_exit(ds->p->space, token);
	if (err == -ENOENT) {
		return 0;
	}
	if (err != 0) {
		return err;
	}
	return slot.type == OBJ_FREE ? 0 : -EEXIST;
}

/* A number nobody uses. Fresh ones need no look at the table; reused ones are checked. */
static int
obj_create_number(struct pool_ds *ds, uint64_t wanted, uint64_t generation, uint64_t *out)
{
	int err;

	if (wanted != 0) {
		err = obj_create_check(ds, wanted, true);
		if (err == 0) {
			obj_number_note(ds, wanted, generation);
			*out = wanted;
		}
		return err;
	}
	for (;;) {
		*out = obj_number_pick(ds);
		err = obj_create_check(ds, *out, false);
		if (err != -EEXIST) {
			return err;
		}
	}
}

int
pool_obj_create(struct pool_tx *tx, struct pool_ds *ds, enum object_type type, uint32_t block_bytes,
    uint64_t number, uint64_t generation, struct pool_obj **out)
{
	uint64_t wanted = number;
	struct pool_obj *o;
	int err;

	ASSERT(block_bytes >= SECTOR_BYTES && block_bytes <= RAIDZ_BLOCK_BYTES_MAX);
	ASSERT((block_bytes & (block_bytes - 1)) == 0);
	for (;;) {
		err = obj_create_number(ds, wanted, generation, &number);
		if (err != 0) {
			return err;
		}
		o = obj_make(ds, number);
		if (o == NULL) {
			return -ENOMEM;
		}
		o->generation = generation != 0 ? generation : obj_generation_next(ds);
		o->slot.type = (uint8_t)type;
		o->slot.block_bytes = le32_of(block_bytes);
		o->slot.generation = le64_of(o->generation);
		o->slot.birth = le64_of(tx->txg);
		if (obj_insert(o)) {
			break;
		}
		obj_free(o); /* somebody looked for it just now, or made it */
		fiber_yield();
	}
	obj_slot_dirty(tx, o);
	*out = o;
	return 0;
}

/* Everything this txg would have written of the blocks. Under the lock: collects what to let go. */
static struct iobuf *
bufs_take_one(struct pool_obj *o, uint64_t txg, struct iobuf **out_second)
{
	struct iobuf *old[2] = {NULL, NULL};
	struct list *bufs = &o->live[TXG_SLOT(txg)].bufs;

	if (!list_empty(bufs)) {
		struct dbuf_version *v = list_first(bufs, struct dbuf_version, link);

		dbuf_clear(dbuf_of_version(v, TXG_SLOT(txg)), txg, old);
	}
	*out_second = old[1];
	return old[0];
}

static void
obj_drop_bufs(struct pool_obj *o, uint64_t txg)
{
	for (;;) {
		struct iobuf *a, *b;

		spin_lock(&o->lock);
		a = bufs_take_one(o, txg, &b);
		spin_unlock(&o->lock);
		if (b == NULL) {
			return;
		}
		iobuf_unref(a);
		iobuf_unref(b);
	}
}

void
pool_obj_destroy(struct pool_tx *tx, struct pool_obj *o)
{
	obj_slot_dirty(tx, o);
	spin_lock(&o->lock);
	o->destroy_txg = tx->txg;
	atomic_store(&o->dying, true);
	spin_unlock(&o->lock);
	obj_drop_bufs(o, tx->txg);
}

/* ---- dirtiness ---- */

/* Under ds->lock: is o the first to change its table block in this txg? As far as a few blocks are
 * remembered. */
static bool
table_block_note(struct pool_ds *ds, uint64_t txg, uint64_t number)
{
	uint64_t block = number / (OBJECT_TABLE_BLOCK_BYTES / OBJECT_SLOT_BYTES);
	uint64_t key = block << 16 | (txg & 0xffff);
	uint64_t *seen = &ds->table_seen[TXG_SLOT(txg)][block % DS_TABLE_SEEN];
	bool first = *seen != key;

	*seen = key;
	return first;
}

/* Under ds->lock: the same of a block of the accounts. */
static unsigned
account_block_note(struct pool_ds *ds, uint64_t txg, uint32_t id)
{
	uint64_t block = id / ACCOUNTS_PER_BLOCK;
	uint64_t key = (block + 1) << 16 | (txg & 0xffff);
	uint64_t *seen = &ds->accounts_seen[TXG_SLOT(txg)][block % DS_TABLE_SEEN];
	bool first = *seen != key;

	*seen = key;
	return first;
}

/* Under ds->lock. */
static unsigned
account_blocks_note(struct pool_ds *ds, uint64_t txg, uint32_t uid, uint32_t gid)
{
	if (ds->is_mos || !pool_has_accounts(ds->p)) {
		return 0;
	}
	return account_block_note(ds, txg, uid) + account_block_note(ds, txg, gid);
}

void
obj_accounts_dirty(struct pool_tx *tx, uint32_t uid, uint32_t gid)
{
	unsigned blocks;

	spin_lock(&tx->ds->lock);
	blocks = account_blocks_note(tx->ds, tx->txg, uid, gid);
	spin_unlock(&tx->ds->lock);
	txg_count_accounts(tx, blocks);
}

void
obj_dirty(struct pool_tx *tx, struct pool_obj *o)
{
	struct obj_live *live = &o->live[TXG_SLOT(tx->txg)];
	struct pool_ds *ds = o->ds;
	unsigned accounts = 0;
	bool fresh, first = false;

	spin_lock(&o->lock);
	fresh = !live->dirty;
	if (fresh) {
		live->dirty = true;
		atomic_fetch_add(&o->refs, 1);
		spin_lock(&ds->lock);
		list_push_back(&ds->dirty[TXG_SLOT(tx->txg)], &live->link);
		first = table_block_note(ds, tx->txg, o->number);
		if (!tx->syncing) { /* else others may be changing the bonus */
			accounts = account_blocks_note(
			    ds, tx->txg, account_uid(&o->slot), account_gid(&o->slot));
		}
		spin_unlock(&ds->lock);
	}
	spin_unlock(&o->lock);
	if (fresh) {
		txg_count_object(tx, first, ds->is_mos ? 3 : 2);
		txg_count_accounts(tx, accounts);
	}
}

void
obj_slot_dirty(struct pool_tx *tx, struct pool_obj *o)
{
	struct object_slot *copy = NULL;

	obj_dirty(tx, o);
	for (;;) {
		bool need;

		spin_lock(&o->lock);
		need = o->slot_txg != 0 && o->slot_txg < tx->txg && o->saved == NULL;
		if (!need || copy != NULL) {
			if (need) {
				*copy = o->slot;
				o->saved = copy;
				o->saved_txg = o->slot_txg;
				copy = NULL;
			}
			ASSERT(o->slot_txg <= tx->txg);
			o->slot_txg = tx->txg;
			spin_unlock(&o->lock);
			mem_free(copy);
			return;
		}
		spin_unlock(&o->lock);
		copy = pool_must_alloc(sizeof(*copy));
	}
}

void
obj_block_count_raise(struct pool_tx *tx, struct pool_obj *o, uint64_t count)
{
	if (le64_get(o->slot.block_count) < count) {
		obj_slot_dirty(tx, o);
		o->slot.block_count = le64_of(count);
	}
}

void
obj_live_drop(struct pool_obj *o, uint64_t txg)
{
	struct obj_live *live = &o->live[TXG_SLOT(txg)];
	struct object_slot *saved = NULL;

	obj_drop_bufs(o, txg);
	spin_lock(&o->lock);
	o->range_total -= live->range_count;
	live->range_count = 0;
	if (o->saved_txg == txg) {
		saved = o->saved;
		o->saved = NULL;
		o->saved_txg = 0;
	}
	if (o->slot_txg == txg) {
		o->slot_txg = 0;
	}
	o->tree_seq++;
	live->dirty = false;
	spin_unlock(&o->lock);
	mem_free(saved);
}

/* ---- what holders ask ---- */

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
	return (enum object_type)o->slot.type;
}

bool
pool_obj_is_stale(const struct pool_obj *o)
{
	return atomic_load_explicit(&o->dying, memory_order_acquire) ||
	       atomic_load_explicit(&o->ds->destroyed, memory_order_acquire);
}

struct pool_ds *
pool_obj_ds(const struct pool_obj *o)
{
	return o->ds;
}

uint32_t
pool_obj_block_bytes(const struct pool_obj *o)
{
	return le32_get(o->slot.block_bytes);
}

uint64_t
pool_obj_used_bytes(const struct pool_obj *o)
{
	uint64_t sectors = atomic_load_explicit(&o->used_sectors, memory_order_relaxed);

	return space_data_bytes(o->ds->p, sectors);
}

void *
pool_obj_owner(const struct pool_obj *o)
{
	return (void *)atomic_load_explicit(&o->owner, memory_order_acquire);
}

void *
pool_obj_set_owner(struct pool_obj *o, void *owner, void (*drop)(void *owner))
{
	uintptr_t none = 0;

	/* Everybody passes the same function, so who sets it doesn't matter. */
	__atomic_store_n(&o->drop, drop, __ATOMIC_RELAXED);
	if (atomic_compare_exchange_strong(&o->owner, &none, (uintptr_t)owner)) {
		return owner;
	}
	return (void *)none;
}
