/*
 * block_share.c - who wants a block that somebody is reading already waits for that read.
 *
 * A read is in the table from share_join by its owner until share_finish by the same fiber, which
 * always comes: an owner waits for nothing but drives and memory, never for those who wait for him.
 * What he got, data or error, is everybody's who joined; who comes later finds the block in the
 * cache, or reads it anew: an error is not remembered.
 *
 * The owner puts the block into the cache before he finishes. So whoever missed the cache and then
 * becomes an owner looks there once more, and no block is read twice at once.
 *
 * Lifetime: a reference each of the owner and of all who joined; the last one frees.
 */
#include "pool/block_share.h"

#define SHARDS 64u

struct shared_read {
	struct list link; /* shard; under its lock */
	struct cache_key key;
	struct waitgroup done;
	atomic_uint refs;
	int err;           /* [c] once done */
	struct iobuf *buf; /* [c] once done; a reference, or NULL */
};

struct share_shard {
	struct spin lock;
	struct list reads;
	uint8_t pad[64 - sizeof(struct spin) - sizeof(struct list)];
};

struct shares {
	struct share_shard shards[SHARDS];
};

int
shares_open(struct shares **out)
{
	struct shares *t = mem_zalloc(sizeof(*t));

	if (t == NULL) {
		return -ENOMEM;
	}
	for (uint32_t i = 0; i < SHARDS; i++) {
		spin_init(&t->shards[i].lock);
		list_init(&t->shards[i].reads);
	}
	*out = t;
	return 0;
}

void
shares_close(struct shares *t)
{
	for (uint32_t i = 0; t != NULL && i < SHARDS; i++) {
		ASSERT(list_empty(&t->shards[i].reads));
	}
	mem_free(t);
}

static struct share_shard *
shard_of(struct shares *t, const struct cache_key *key)
{
	uint64_t h = (key->sector + (key->set << 32)) * 0x9e3779b97f4a7c15ull;

	return &t->shards[(h >> 40) % SHARDS];
}

/* Under the lock: few are under way at any time. */
static struct shared_read *
shard_find(struct share_shard *s, const struct cache_key *key)
{
	list_for_each(l, &s->reads)
	{
		struct shared_read *r = list_entry(l, struct shared_read, link);

		if (cache_key_equal(&r->key, key)) {
			return r;
		}
	}
	return NULL;
}

static void
share_put(struct shared_read *r)
{
	if (atomic_fetch_sub(&r->refs, 1) == 1) {
		iobuf_unref(r->buf);
		mem_free(r);
	}
}

static struct shared_read *
share_make(const struct cache_key *key)
{
	struct shared_read *r = mem_zalloc(sizeof(*r));

	if (r != NULL) {
		list_init(&r->link);
		r->key = *key;
		wg_init(&r->done);
		wg_add(&r->done, 1);
		atomic_store(&r->refs, 1);
	}
	return r;
}

struct shared_read *
share_join(struct shares *t, const struct cache_key *key, bool *out_mine)
{
	struct share_shard *s = shard_of(t, key);
	struct shared_read *fresh = share_make(key), *r;

	if (fresh == NULL) {
		return NULL;
	}
	spin_lock(&s->lock);
	r = shard_find(s, key);
	*out_mine = r == NULL;
	if (r == NULL) {
		r = fresh;
		list_push_back(&s->reads, &r->link);
	} else {
		atomic_fetch_add(&r->refs, 1);
	}
	spin_unlock(&s->lock);
	if (!*out_mine) {
		mem_free(fresh);
	}
	return r;
}

void
share_finish(struct shares *t, struct shared_read *r, int err, struct iobuf *buf)
{
	struct share_shard *s = shard_of(t, &r->key);

	spin_lock(&s->lock);
	list_remove(&r->link);
	spin_unlock(&s->lock);
	r->err = err;
	r->buf = err == 0 ? iobuf_ref(buf) : NULL;
	wg_done(&r->done);
	share_put(r);
}

int
share_await(struct shared_read *r, struct iobuf **out)
{
	int err;

	wg_wait(&r->done);
	err = r->err;
	if (err == 0) {
		*out = iobuf_ref(r->buf);
	}
	share_put(r);
	return err;
}
