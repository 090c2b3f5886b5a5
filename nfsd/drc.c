/*
 * drc.c - replies of calls that must not run twice. Key: client address without port, xid, program,
 * version, procedure and a hash of the arguments; so a client that comes back by another port is
 * known, and an xid used again for another call is not mistaken.
 *
 * States of an entry: RUNNING (drc_begin) -> DONE (drc_end with a reply) -> reused; RUNNING -> gone
 * (drc_end without). A second copy of a RUNNING call waits for the first.
 *
 * When there is no room, the client that has most entries gives up its oldest one: who sends a
 * thousand changes while another waits for his one reply can't push that one out. A reply is good
 * for DRC_AGE_NS, longer than clients wait before they ask again; after that the same xid is
 * a client that counts from the beginning, and its call is a new one.
 */
#include "nfsd/drc.h"
#include "base/net.h"

#define DRC_SHARDS 16u
#define DRC_BUCKETS 1024u /* per shard */
#define DRC_CLIENTS 64u   /* per shard: lists of clients, by a hash of their addresses */
#define DRC_AGE_NS (1800 * NSEC_PER_SEC)

enum drc_state { DRC_RUNNING, DRC_DONE };

struct drc_entry {
	struct drc_entry *next; /* bucket */
	struct list age;        /* shard->done[] of its client while DONE */
	struct fs_origin key;
	enum drc_state state;
	uint64_t done_ns;
	uint32_t waiters;
	bool dropped; /* ended without a reply; the last waiter frees it */
	uint32_t reply_len;
	uint8_t reply[FS_REPLY_MAX];
};

struct drc_shard {
	struct mutex lock;
	struct cond changed;
	struct list done[DRC_CLIENTS]; /* oldest first */
	uint32_t done_count[DRC_CLIENTS];
	uint32_t count;
	struct drc_entry *buckets[DRC_BUCKETS];
};

struct drc {
	uint32_t per_shard_max;
	struct drc_shard shards[DRC_SHARDS];
};

int
drc_create(uint32_t entries_max, struct drc **out)
{
	struct drc *d = mem_zalloc(sizeof(*d));
	if (d == NULL) {
		return -ENOMEM;
	}
	d->per_shard_max = MAX(entries_max / DRC_SHARDS, 1u);
	for (uint32_t i = 0; i < DRC_SHARDS; i++) {
		mutex_init(&d->shards[i].lock, RANK_NFSD_DRC);
		cond_init(&d->shards[i].changed);
		for (uint32_t k = 0; k < DRC_CLIENTS; k++) {
			list_init(&d->shards[i].done[k]);
		}
	}
	*out = d;
	return 0;
}

void
drc_destroy(struct drc *d)
{
	for (uint32_t i = 0; i < DRC_SHARDS; i++) {
		for (uint32_t b = 0; b < DRC_BUCKETS; b++) {
			struct drc_entry *e = d->shards[i].buckets[b];
			while (e != NULL) {
				struct drc_entry *next = e->next;
				mem_free(e);
				e = next;
			}
		}
	}
	mem_free(d);
}

static uint64_t
drc_hash(const struct fs_origin *key)
{
	uint64_t h;
	memcpy(&h, key->arg_hash, sizeof(h));
	return h ^ ((uint64_t)key->xid * 0x9e3779b97f4a7c15ull);
}

static struct drc_shard *
drc_shard_of(struct drc *d, const struct fs_origin *key)
{
	return &d->shards[drc_hash(key) % DRC_SHARDS];
}

static struct drc_entry **
drc_bucket_of(struct drc_shard *s, const struct fs_origin *key)
{
	return &s->buckets[(drc_hash(key) >> 8) % DRC_BUCKETS];
}

static uint32_t
drc_client_of(const struct fs_origin *key)
{
	return net_ip_hash(key->addr) % DRC_CLIENTS;
}

static bool
drc_same(const struct fs_origin *a, const struct fs_origin *b)
{
	return a->xid == b->xid && a->prog == b->prog && a->vers == b->vers && a->proc == b->proc &&
	       memcmp(a->addr, b->addr, sizeof(a->addr)) == 0 &&
	       memcmp(a->arg_hash, b->arg_hash, sizeof(a->arg_hash)) == 0;
}

static struct drc_entry *
drc_find(struct drc_shard *s, const struct fs_origin *key)
{
	struct drc_entry *e = *drc_bucket_of(s, key);
	while (e != NULL && !drc_same(&e->key, key)) {
		e = e->next;
	}
	return e;
}

static void
drc_unlink(struct drc_shard *s, struct drc_entry *e)
{
	struct drc_entry **at = drc_bucket_of(s, &e->key);
	while (*at != e) {
		at = &(*at)->next;
	}
	*at = e->next;
	if (e->state == DRC_DONE) {
		list_remove(&e->age);
		s->done_count[drc_client_of(&e->key)]--;
	}
	s->count--;
}

static void
drc_link_done(struct drc_shard *s, struct drc_entry *e)
{
	uint32_t client = drc_client_of(&e->key);
	e->state = DRC_DONE;
	e->done_ns = rt_now_ns();
	list_push_back(&s->done[client], &e->age);
	s->done_count[client]++;
}

/* The oldest reply of the client that has most of them; NULL when none can be given up. */
static struct drc_entry *
drc_take_oldest(struct drc_shard *s)
{
	uint32_t most = 0;
	for (uint32_t i = 1; i < DRC_CLIENTS; i++) {
		if (s->done_count[i] > s->done_count[most]) {
			most = i;
		}
	}
	list_for_each(item, &s->done[most])
	{
		struct drc_entry *oldest = list_entry(item, struct drc_entry, age);
		if (oldest->waiters == 0) {
			drc_unlink(s, oldest);
			return oldest;
		}
	}
	return NULL;
}

/* A new RUNNING entry; NULL when there is no room. */
static struct drc_entry *
drc_insert(struct drc *d, struct drc_shard *s, const struct fs_origin *key)
{
	struct drc_entry *e = s->count < d->per_shard_max ? mem_zalloc(sizeof(*e)) : NULL;
	if (e == NULL) {
		e = drc_take_oldest(s);
	}
	if (e == NULL) {
		return NULL;
	}
	*e = (struct drc_entry){.key = *key, .state = DRC_RUNNING};
	list_init(&e->age);
	struct drc_entry **bucket = drc_bucket_of(s, key);
	e->next = *bucket;
	*bucket = e;
	s->count++;
	return e;
}

static bool
drc_is_too_old(const struct drc_entry *e)
{
	return e->state == DRC_DONE && e->waiters == 0 && rt_now_ns() - e->done_ns > DRC_AGE_NS;
}

/* Waits for the first copy. True: its reply is in out. */
static bool
drc_wait(struct drc_shard *s, struct drc_entry *e, uint8_t *out, uint32_t *out_len)
{
	e->waiters++;
	while (e->state == DRC_RUNNING && !e->dropped) {
		cond_wait(
		    &s->changed, &s->lock); /* ended by the request that runs: it always ends */
	}
	e->waiters--;
	bool found = !e->dropped;
	if (found) {
		memcpy(out, e->reply, e->reply_len);
		*out_len = e->reply_len;
	} else if (e->waiters == 0) {
		mem_free(e);
	}
	return found;
}

struct drc_entry *
drc_begin(struct drc *d, const struct fs_origin *key, uint8_t out[FS_REPLY_MAX], uint32_t *out_len)
{
	struct drc_shard *s = drc_shard_of(d, key);
	struct drc_entry *e;
	*out_len = 0;
	mutex_lock(&s->lock);
	while ((e = drc_find(s, key)) != NULL) {
		if (drc_is_too_old(e)) {
			drc_unlink(s, e);
			mem_free(e);
			break;
		}
		if (drc_wait(s, e, out, out_len)) {
			mutex_unlock(&s->lock);
			return NULL;
		}
	}
	e = drc_insert(d, s, key);
	mutex_unlock(&s->lock);
	return e;
}

void
drc_end(struct drc *d, struct drc_entry *e, const void *reply, uint32_t len)
{
	struct drc_shard *s = drc_shard_of(d, &e->key);
	mutex_lock(&s->lock);
	if (len > 0 && len <= FS_REPLY_MAX) {
		memcpy(e->reply, reply, len);
		e->reply_len = len;
		drc_link_done(s, e);
		cond_broadcast(&s->changed);
	} else {
		drc_unlink(s, e);
		e->dropped = true;
		if (e->waiters == 0) {
			mem_free(e);
		} else {
			cond_broadcast(&s->changed);
		}
	}
	mutex_unlock(&s->lock);
}

/* An older reply to the same key makes room. A call in progress can't be: nobody is served yet. */
static void
drc_forget(struct drc *d, const struct fs_origin *key)
{
	struct drc_shard *s = drc_shard_of(d, key);
	mutex_lock(&s->lock);
	struct drc_entry *e = drc_find(s, key);
	if (e != NULL && e->state == DRC_DONE && e->waiters == 0) {
		drc_unlink(s, e);
		mem_free(e);
	}
	mutex_unlock(&s->lock);
}

void
drc_restore(void *drc, const struct fs_origin *key, const void *reply, uint32_t len)
{
	uint8_t known[FS_REPLY_MAX];
	uint32_t known_len;
	drc_forget(drc, key);
	if (DELIBERATE_BUG("nfsd-replies-not-restored")) {
		return;
	}
	struct drc_entry *e = drc_begin(drc, key, known, &known_len);
	if (e != NULL) {
		drc_end(drc, e, reply, len);
	}
}
