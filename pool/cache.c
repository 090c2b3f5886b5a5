/*
 * cache.c - S3-FIFO over the clean blocks of all pools of the process.
 *
 * Each shard has a small queue (a tenth of its bytes) where new blocks start, a main queue for what
 * was asked for again, and a ghost table of fingerprints of what left the small queue unasked: a
 * block that comes back while its ghost is there goes to the main queue at once. So a scan passes
 * through the small queue and leaves the main one alone. A hit is one relaxed store of a counter
 * (0..3); queues are touched only when something is added or must go.
 *
 * How much there may be is the arena's business (budget of ARENA_CACHE): it calls cache_reclaim
 * when any use needs memory. A block somebody else holds a reference to gives no memory back; it is
 * passed over.
 *
 * Invariants: an entry is in its shard's hash and in exactly one queue; bytes[q] is the sum over
 * queue q; the buffer of an entry never changes. A shard's lock is a leaf; buffers are let go
 * outside of it.
 */
#include "pool/cache.h"

#define SHARDS_MAX 64u
#define SHARD_BYTES_MIN (4 * MIB)
#define SMALL_PERCENT 10u
#define FREQ_MAX 3u
#define BUCKETS_MIN 64u
#define GHOSTS_MIN 256u
#define KEEP_PART 8u
#define EVICT_SCAN_MAX 64u /* entries looked at in one turn of a shard */

enum queue { QUEUE_SMALL, QUEUE_MAIN, QUEUES };

struct entry {
	struct entry *next; /* hash chain */
	struct list link;   /* queue */
	struct cache_key key;
	struct iobuf *buf;
	enum queue queue;
	atomic_uchar freq;
};

struct shard {
	struct spin lock;
	struct entry **buckets;
	uint32_t bucket_count; /* power of two */
	uint32_t entry_count;
	struct list queue[QUEUES]; /* front: newest */
	uint64_t bytes[QUEUES];
	uint32_t *ghosts; /* direct mapped; 0 = none */
	uint32_t ghost_count;
	uint64_t hits, misses;
};

struct cache {
	struct spin lock; /* users, next_owner */
	uint32_t users;
	uint64_t next_owner;
	atomic_uint_least64_t keep_bytes; /* see cache_keep_bytes */
	uint32_t shard_count;             /* power of two */
	atomic_uint hand;                 /* shard that gives way next */
	struct shard *shards;
};

static uint64_t
key_hash(const struct cache_key *k)
{
	uint64_t h = k->sector * 0x9e3779b97f4a7c15ull;

	h ^= (k->birth + (k->set << 48) + (k->owner << 56)) * 0xc2b2ae3d27d4eb4full;
	h ^= h >> 29;
	h *= 0x165667b19e3779f9ull;
	return h ^ (h >> 32);
}

static struct shard *
shard_of(struct cache *c, uint64_t hash)
{
	return &c->shards[(hash >> 56) & (c->shard_count - 1)];
}

static struct entry **
entry_slot(struct shard *s, uint64_t hash, const struct cache_key *key)
{
	struct entry **at = &s->buckets[hash & (s->bucket_count - 1)];

	while (*at != NULL && !cache_key_equal(&(*at)->key, key)) {
		at = &(*at)->next;
	}
	return at;
}

/* ---- life ---- */

static int
shard_init(struct shard *s, uint64_t bytes)
{
	spin_init(&s->lock);
	list_init(&s->queue[QUEUE_SMALL]);
	list_init(&s->queue[QUEUE_MAIN]);
	s->bucket_count = BUCKETS_MIN;
	s->buckets = mem_zalloc_array(s->bucket_count, sizeof(struct entry *));
	s->ghost_count = GHOSTS_MIN;
	while ((uint64_t)s->ghost_count * 32 * KIB < bytes) {
		s->ghost_count *= 2;
	}
	s->ghosts = mem_zalloc_array(s->ghost_count, sizeof(uint32_t));
	return s->buckets != NULL && s->ghosts != NULL ? 0 : -ENOMEM;
}

static void
cache_free(struct cache *c)
{
	for (uint32_t i = 0; c->shards != NULL && i < c->shard_count; i++) {
		mem_free(c->shards[i].buckets);
		mem_free(c->shards[i].ghosts);
	}
	mem_free(c->shards);
	mem_free(c);
}

static uint64_t cache_reclaim(void *arg, uint64_t want_bytes);

/* Under the lock: users has changed. */
static void
cache_share_out(struct cache *c)
{
	struct arena_info arena;

	arena_get_info(&arena);
	atomic_store(
	    &c->keep_bytes, arena.budget_bytes[ARENA_CACHE] / KEEP_PART / MAX(c->users, 1u));
}

uint64_t
cache_keep_bytes(struct cache *c)
{
	return atomic_load_explicit(&c->keep_bytes, memory_order_relaxed);
}

static struct cache *
cache_make(void)
{
	struct arena_info arena;
	struct cache *c = mem_zalloc(sizeof(*c));
	uint64_t limit;

	if (c == NULL) {
		return NULL;
	}
	arena_get_info(&arena);
	limit = arena.budget_bytes[ARENA_CACHE];
	spin_init(&c->lock);
	c->shard_count = 1;
	while (c->shard_count < SHARDS_MAX && limit / c->shard_count > 2 * SHARD_BYTES_MIN) {
		c->shard_count *= 2;
	}
	c->shards = mem_zalloc_array(c->shard_count, sizeof(struct shard));
	for (uint32_t i = 0; c->shards != NULL && i < c->shard_count; i++) {
		if (shard_init(&c->shards[i], limit / c->shard_count) != 0) {
			cache_free(c);
			return NULL;
		}
	}
	if (c->shards == NULL) {
		cache_free(c);
		return NULL;
	}
	return c;
}

int
cache_open(struct cache **out, uint64_t *out_owner)
{
	struct cache *c = arena_reclaim_arg();

	if (c == NULL) {
		c = cache_make();
		if (c == NULL) {
			return -ENOMEM;
		}
		arena_set_reclaim(cache_reclaim, c);
	}
	spin_lock(&c->lock);
	c->users++;
	cache_share_out(c);
	*out_owner = ++c->next_owner;
	spin_unlock(&c->lock);
	*out = c;
	return 0;
}

/* Under the shard's lock. The entry is the caller's afterwards. */
static void
entry_unlink(struct shard *s, struct entry **at)
{
	struct entry *e = *at;

	*at = e->next;
	list_remove(&e->link);
	s->bytes[e->queue] -= e->buf->cap_bytes;
	s->entry_count--;
}

static void
entry_free(struct entry *e)
{
	iobuf_unref(e->buf);
	mem_free(e);
}

static void
shard_drop_owner(struct shard *s, uint64_t owner)
{
	struct entry *gone = NULL;

	spin_lock(&s->lock);
	for (uint32_t i = 0; i < s->bucket_count; i++) {
		struct entry **at = &s->buckets[i];

		while (*at != NULL) {
			struct entry *e = *at;

			if (e->key.owner != owner) {
				at = &e->next;
				continue;
			}
			entry_unlink(s, at);
			e->next = gone;
			gone = e;
		}
	}
	spin_unlock(&s->lock);
	while (gone != NULL) {
		struct entry *next = gone->next;

		entry_free(gone);
		gone = next;
	}
}

void
cache_close(struct cache *c, uint64_t owner)
{
	bool last;

	for (uint32_t i = 0; i < c->shard_count; i++) {
		shard_drop_owner(&c->shards[i], owner);
	}
	spin_lock(&c->lock);
	last = --c->users == 0;
	cache_share_out(c);
	spin_unlock(&c->lock);
	if (last) {
		arena_set_reclaim(NULL, NULL);
		cache_free(c);
	}
}

/* ---- use ---- */

/* Under the lock: a reference to what e holds. */
static struct iobuf *
entry_hit(struct entry *e)
{
	unsigned char freq = atomic_load_explicit(&e->freq, memory_order_relaxed);

	if (freq < FREQ_MAX) {
		atomic_store_explicit(&e->freq, (unsigned char)(freq + 1), memory_order_relaxed);
	}
	return iobuf_ref(e->buf);
}

struct iobuf *
cache_get(struct cache *c, const struct cache_key *key)
{
	uint64_t hash = key_hash(key);
	struct shard *s = shard_of(c, hash);
	struct iobuf *buf = NULL;
	struct entry *e;

	spin_lock(&s->lock);
	e = *entry_slot(s, hash, key);
	if (e != NULL) {
		buf = entry_hit(e);
		s->hits++;
	} else {
		s->misses++;
	}
	spin_unlock(&s->lock);
	return buf;
}

struct iobuf *
cache_get_again(struct cache *c, const struct cache_key *key)
{
	uint64_t hash = key_hash(key);
	struct shard *s = shard_of(c, hash);
	struct iobuf *buf;
	struct entry *e;

	spin_lock(&s->lock);
	e = *entry_slot(s, hash, key);
	buf = e != NULL ? entry_hit(e) : NULL;
	spin_unlock(&s->lock);
	return buf;
}

/* Under the lock. Without memory the chains just get longer. */
static void
shard_grow(struct shard *s)
{
	uint32_t count = s->bucket_count * 4;
	struct entry **fresh = mem_zalloc_array(count, sizeof(struct entry *));

	if (fresh == NULL) {
		return;
	}
	for (uint32_t i = 0; i < s->bucket_count; i++) {
		struct entry *e = s->buckets[i];

		while (e != NULL) {
			struct entry *next = e->next;
			struct entry **at = &fresh[key_hash(&e->key) & (count - 1)];

			e->next = *at;
			*at = e;
			e = next;
		}
	}
	mem_free(s->buckets);
	s->buckets = fresh;
	s->bucket_count = count;
}

static uint32_t
ghost_mark(uint64_t hash)
{
	return (uint32_t)(hash >> 20) | 1;
}

static uint32_t *
ghost_slot(struct shard *s, uint64_t hash)
{
	return &s->ghosts[hash & (s->ghost_count - 1)];
}

void
cache_put(struct cache *c, const struct cache_key *key, struct iobuf *buf)
{
	uint64_t hash = key_hash(key);
	struct shard *s = shard_of(c, hash);
	struct entry *e = mem_zalloc(sizeof(*e));
	struct entry **at;
	uint32_t *ghost;

	if (e == NULL) {
		return;
	}
	e->key = *key;
	e->buf = iobuf_ref(buf);
	list_init(&e->link);
	iobuf_recount(buf, ARENA_CACHE);
	spin_lock(&s->lock);
	at = entry_slot(s, hash, key);
	if (*at != NULL) {
		spin_unlock(&s->lock);
		entry_free(e);
		return;
	}
	if (s->entry_count >= 2 * s->bucket_count) {
		shard_grow(s);
		at = entry_slot(s, hash, key);
	}
	*at = e;
	s->entry_count++;
	ghost = ghost_slot(s, hash);
	e->queue = *ghost == ghost_mark(hash) ? QUEUE_MAIN : QUEUE_SMALL;
	*ghost = e->queue == QUEUE_MAIN ? 0 : *ghost;
	list_push_front(&s->queue[e->queue], &e->link);
	s->bytes[e->queue] += buf->cap_bytes;
	spin_unlock(&s->lock);
}

void
cache_drop(struct cache *c, const struct cache_key *key)
{
	uint64_t hash = key_hash(key);
	struct shard *s = shard_of(c, hash);
	struct entry **at, *e;

	spin_lock(&s->lock);
	at = entry_slot(s, hash, key);
	e = *at;
	if (e != NULL) {
		entry_unlink(s, at);
	}
	spin_unlock(&s->lock);
	if (e != NULL) {
		entry_free(e);
	}
}

/* ---- giving way ---- */

static void
entry_requeue(struct shard *s, struct entry *e, enum queue to)
{
	list_remove(&e->link);
	s->bytes[e->queue] -= e->buf->cap_bytes;
	e->queue = to;
	s->bytes[to] += e->buf->cap_bytes;
	list_push_front(&s->queue[to], &e->link);
}

/* Under the lock: looks at the oldest entry of a queue; true when it should go. */
static bool
entry_should_go(struct shard *s, struct entry *e)
{
	unsigned char freq = atomic_load_explicit(&e->freq, memory_order_relaxed);

	if (atomic_load_explicit(&e->buf->refs, memory_order_relaxed) > 1) {
		entry_requeue(s, e, QUEUE_MAIN);
		return false;
	}
	if (freq == 0) {
		return true;
	}
	if (e->queue == QUEUE_SMALL) {
		atomic_store_explicit(&e->freq, 0, memory_order_relaxed);
	} else {
		atomic_store_explicit(&e->freq, (unsigned char)(freq - 1), memory_order_relaxed);
	}
	entry_requeue(s, e, QUEUE_MAIN);
	return false;
}

/* Takes the next victim out of the shard, or NULL. */
static struct entry *
shard_evict(struct shard *s)
{
	struct entry *victim = NULL;

	spin_lock(&s->lock);
	for (uint32_t i = 0; i < EVICT_SCAN_MAX && victim == NULL; i++) {
		uint64_t total = s->bytes[QUEUE_SMALL] + s->bytes[QUEUE_MAIN];
		bool small = !list_empty(&s->queue[QUEUE_SMALL]) &&
			     (s->bytes[QUEUE_SMALL] * 100 >= total * SMALL_PERCENT ||
				 list_empty(&s->queue[QUEUE_MAIN]));
		struct list *q = &s->queue[small ? QUEUE_SMALL : QUEUE_MAIN];
		struct entry *e;

		if (list_empty(q)) {
			break;
		}
		e = list_entry(q->prev, struct entry, link);
		if (entry_should_go(s, e)) {
			uint64_t hash = key_hash(&e->key);

			if (e->queue == QUEUE_SMALL) {
				*ghost_slot(s, hash) = ghost_mark(hash);
			}
			entry_unlink(s, entry_slot(s, hash, &e->key));
			victim = e;
		}
	}
	spin_unlock(&s->lock);
	return victim;
}

/* The arena's hook: parks and allocates nothing. */
static uint64_t
cache_reclaim(void *arg, uint64_t want_bytes)
{
	struct cache *c = arg;
	uint64_t freed = 0;
	uint32_t idle = 0;

	while (freed < want_bytes && idle < 2 * c->shard_count) {
		uint32_t i = atomic_fetch_add_explicit(&c->hand, 1, memory_order_relaxed);
		struct entry *e = shard_evict(&c->shards[i & (c->shard_count - 1)]);

		if (e == NULL) {
			idle++;
			continue;
		}
		idle = 0;
		freed += e->buf->cap_bytes;
		entry_free(e);
	}
	return freed;
}

void
cache_get_info(struct cache *c, struct cache_info *out)
{
	*out = (struct cache_info){0};
	for (uint32_t i = 0; i < c->shard_count; i++) {
		struct shard *s = &c->shards[i];

		spin_lock(&s->lock);
		out->hits += s->hits;
		out->misses += s->misses;
		out->entries += s->entry_count;
		out->bytes += s->bytes[QUEUE_SMALL] + s->bytes[QUEUE_MAIN];
		spin_unlock(&s->lock);
	}
}
