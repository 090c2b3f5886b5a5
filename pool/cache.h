/* cache.h - clean blocks in memory, by where and when they were written. Private to pool/. Theory: cache.c. */
#ifndef AGATE_POOL_CACHE_H
#define AGATE_POOL_CACHE_H

#include "base/base.h"

struct cache;

/* No two contents ever have the same key: an address is written once in a txg. */
struct cache_key {
	uint64_t owner;  /* from cache_open */
	uint64_t set;
	uint64_t sector;
	uint64_t birth;
};

static inline bool
cache_key_equal(const struct cache_key *a, const struct cache_key *b)
{
	return a->sector == b->sector && a->birth == b->birth && a->set == b->set && a->owner == b->owner;
}

/* The cache that all pools of this process share; the first one makes it. out_owner: this user's part of its keys. -ENOMEM. */
int cache_open(struct cache **out, uint64_t *out_owner) WARN_UNUSED;
/* Everything of owner goes; the last user takes the cache with it. Nobody of owner may be using it. */
void cache_close(struct cache *c, uint64_t owner);

/* A reference to the block, or NULL. Never parks. */
struct iobuf *cache_get(struct cache *c, const struct cache_key *key);
/* For who has just missed the block: counts neither as a hit nor as a miss. */
struct iobuf *cache_get_again(struct cache *c, const struct cache_key *key);
/* Keeps a reference of its own to buf, whose contents never change any more. Best effort: without memory nothing is kept. */
void cache_put(struct cache *c, const struct cache_key *key, struct iobuf *buf);
/* The block is free: it will not be asked for again. */
void cache_drop(struct cache *c, const struct cache_key *key);

/* How much of the cache's budget each pool may keep from eviction for each of two reasons (what isn't flushed; data of records that wait),
 * since what isn't evictable must leave room for reads: an eighth, by the number of pools. */
uint64_t cache_keep_bytes(struct cache *c);

struct cache_info {
	uint64_t hits, misses, entries, bytes;
};
void cache_get_info(struct cache *c, struct cache_info *out);

#endif
