/* fakepool.c - datasets, transactions and the log of the pool without drives. */
#include <stdio.h>
#include "tests/lib/fakepool_int.h"

void *
fake_alloc(size_t len)
{
	void *m = calloc(1, len);
	ASSERT(m != NULL);
	return m;
}

/* Where the real pool may park, let others run now and then, and let time pass. */
void
fake_park(struct pool *p)
{
	if (p->no_parking || fiber_self() == NULL) {
		return;
	}
	uint64_t r = rt_random_u64() % 16;
	if (r < 3) {
		fiber_yield();
	} else if (r == 3) {
		fiber_sleep(1 + rt_random_u64() % 1000);
	}
}

int
fake_fails(struct pool *p)
{
	if (p->fail_at == 0 || --p->fail_at > 0) {
		return 0;
	}
	p->failed = true;
	return -EIO;
}

bool
fakepool_fail_at(struct pool *p, uint64_t n)
{
	bool failed = p->failed;
	p->failed = false;
	p->fail_at = n;
	return failed;
}

void
fakepool_set_full(struct pool *p, bool full)
{
	p->full = full;
}

void
fakepool_set_parking(struct pool *p, bool on)
{
	p->no_parking = !on;
}

uint32_t
fakepool_waits(const struct pool *p)
{
	return p->waits;
}

void
fakepool_next_txg(struct pool *p)
{
	p->txg++;
}

/* ---- life ---- */

struct pool_ds *
fake_ds_make(struct pool *p, const char *path, uint64_t guid)
{
	struct pool_ds *ds = fake_alloc(sizeof(*ds));
	ds->pool = p;
	ds->guid = guid;
	ds->refs = 1;
	ds->incarnation = 1;
	list_init(&ds->link);
	(void)snprintf(ds->path, sizeof(ds->path), "%s", path);
	ds->slot_cap = 64;
	ds->slots = fake_alloc(ds->slot_cap * sizeof(*ds->slots));
	ds->generations = fake_alloc(ds->slot_cap * sizeof(*ds->generations));
	return ds;
}

struct pool_ds *
fake_ds_new(struct pool *p, const char *path, uint64_t guid)
{
	struct pool_ds *ds = fake_ds_make(p, path, guid);
	list_push_back(&p->datasets, &ds->link);
	return ds;
}

void
fake_ds_copy(struct pool_ds *to, const struct pool_ds *from)
{
	to->root_object = from->root_object;
	to->object_count = from->object_count;
	memcpy(to->owner, from->owner, sizeof(to->owner));
	memcpy(to->props, from->props, sizeof(to->props));
	to->prop_count = from->prop_count;
	free(to->slots);
	free(to->generations);
	to->slot_cap = from->slot_cap;
	to->slots = fake_alloc(from->slot_cap * sizeof(*from->slots));
	to->generations = fake_alloc(from->slot_cap * sizeof(*from->generations));
	memcpy(to->generations, from->generations, from->slot_cap * sizeof(*from->generations));
	for (uint64_t i = 0; i < from->slot_cap; i++) {
		if (from->slots[i] != NULL && !from->slots[i]->stale) {
			to->slots[i] = fake_obj_clone(to, from->slots[i]);
		}
	}
}

void
fake_ds_free(struct pool_ds *ds)
{
	for (uint64_t i = 0; i < ds->slot_cap; i++) {
		if (ds->slots[i] != NULL) {
			fake_obj_free(ds->slots[i]);
		}
	}
	free(ds->slots);
	free(ds->generations);
	free(ds);
}

static struct pool *
pool_new(const char *name)
{
	struct pool *p = fake_alloc(sizeof(*p));
	(void)snprintf(p->name, sizeof(p->name), "%s", name);
	list_init(&p->datasets);
	list_init(&p->snaps);
	list_init(&p->blobs);
	p->txg = 4;
	p->next_guid = 0x1000;
	return p;
}

struct pool *
fakepool_create(const char *name)
{
	struct pool *p = pool_new(name);
	(void)fake_ds_new(p, name, p->next_guid++);
	return p;
}

void
fakepool_free(struct pool *p)
{
	ASSERT(p->live_tx == 0);
	list_for_each_safe(it, next, &p->datasets)
	{
		fake_ds_free(list_entry(it, struct pool_ds, link));
	}
	list_for_each_safe(it, next, &p->snaps)
	{
		fake_ds_free(list_entry(it, struct pool_ds, link));
	}
	for (uint64_t i = 0; i < p->log_count; i++) {
		fake_record_free(p->log[i]);
	}
	fake_blobs_free(p);
	free(p->log);
	free(p);
}

struct pool *
fakepool_clone(struct pool *p)
{
	ASSERT(p->live_tx == 0);
	struct pool *c = pool_new(p->name);
	c->txg = ++p->txg;
	c->next_guid = p->next_guid;
	c->base_records = p->log_count;
	fake_blobs_clone(c, p);
	list_for_each(it, &p->datasets)
	{
		const struct pool_ds *ds = list_entry(it, struct pool_ds, link);
		if (ds->destroyed) {
			continue;
		}
		struct pool_ds *copy = fake_ds_new(c, ds->path, ds->guid);
		copy->incarnation = ds->incarnation;
		copy->origin_guid = ds->origin_guid;
		fake_ds_copy(copy, ds);
	}
	fake_snaps_clone(c, p);
	return c;
}

/* ---- the log ---- */

void
fake_record_free(struct fake_record *r)
{
	free(r->payload);
	free(r);
}

void
fake_log_append(struct pool *p, struct fake_record *r)
{
	if (p->log_count == p->log_cap) {
		p->log_cap = MAX(p->log_cap * 2, (uint64_t)64);
		p->log = realloc(p->log, p->log_cap * sizeof(struct fake_record *));
		ASSERT(p->log != NULL);
	}
	r->next = NULL;
	r->rec.seq = p->log_count + 1;
	p->log[p->log_count++] = r;
}

uint64_t
fakepool_log_count(const struct pool *p)
{
	return p->log_count;
}

const void *
fakepool_log_payload(const struct pool *p, uint64_t index, uint16_t *out_type, uint32_t *out_len)
{
	*out_type = p->log[index]->rec.type;
	*out_len = p->log[index]->rec.len_bytes;
	return p->log[index]->payload;
}

void
fakepool_give_log(struct pool *clone, const struct pool *p, uint64_t max)
{
	clone->given = p;
	clone->given_from = clone->base_records;
	clone->given_to = clone->base_records + MIN(max, p->log_count - clone->base_records);
}

static struct fake_record *
record_make(struct pool_tx *tx, const struct pool_log_rec *rec)
{
	struct fake_record *r = fake_alloc(sizeof(*r));
	uint32_t len = rec->data != NULL ? rec->data_len : 0, at = 0;
	ASSERT(rec->head_count <= 4 && rec->type > 0);
	for (uint32_t i = 0; i < rec->head_count; i++) {
		len += (uint32_t)rec->head[i].iov_len;
	}
	r->payload = fake_alloc(len + 1);
	for (uint32_t i = 0; i < rec->head_count; i++) {
		memcpy(r->payload + at, rec->head[i].iov_base, rec->head[i].iov_len);
		at += (uint32_t)rec->head[i].iov_len;
	}
	if (rec->data != NULL) {
		memcpy(r->payload + at, rec->data->data + rec->data_off, rec->data_len);
	}
	r->rec = (struct pool_record){.type = rec->type,
	    .flags = rec->flags,
	    .txg = tx->txg,
	    .dataset = tx->ds->guid,
	    .incarnation = tx->ds->incarnation,
	    .object = rec->object,
	    .generation = rec->generation,
	    .payload = r->payload,
	    .len_bytes = len};
	return r;
}

static void
flush_deferred(struct pool_obj *o)
{
	while (o->deferred != NULL) {
		struct fake_record *r = o->deferred;
		o->deferred = r->next;
		fake_log_append(o->ds->pool, r);
	}
}

void
pool_log(struct pool_tx *tx, struct pool_obj *const *objs, uint32_t obj_count,
    const struct pool_log_rec *rec, struct pool_commit *out)
{
	fake_park(tx->ds->pool);
	for (uint32_t i = 0; i < obj_count; i++) {
		flush_deferred(objs[i]);
	}
	struct fake_record *r = record_make(tx, rec);
	fake_log_append(tx->ds->pool, r);
	*out = (struct pool_commit){.seq = r->rec.seq, .txg = tx->txg, .epoch = 1};
}

void
pool_log_defer(struct pool_tx *tx, struct pool_obj *obj, const struct pool_log_rec *rec)
{
	struct fake_record **at = &obj->deferred;
	while (*at != NULL) {
		at = &(*at)->next;
	}
	*at = record_make(tx, rec);
}

int
pool_commit(struct pool *p, const struct pool_commit *c)
{
	p->waits += c->seq != 0;
	fake_park(p);
	return 0;
}

int
pool_commit_object(struct pool_obj *obj)
{
	fake_park(obj->ds->pool);
	flush_deferred(obj);
	return 0;
}

void
fakepool_commit_all(struct pool *p)
{
	list_for_each(it, &p->datasets)
	{
		struct pool_ds *ds = list_entry(it, struct pool_ds, link);
		for (uint64_t i = 0; i < ds->slot_cap; i++) {
			if (ds->slots[i] != NULL) {
				flush_deferred(ds->slots[i]);
			}
		}
	}
}

int
pool_replay(struct pool *p, pool_deliver_fn *deliver, void *arg, struct pool_replay_result *out)
{
	memset(out, 0, sizeof(*out));
	for (uint64_t i = p->given_from; i < p->given_to; i++) {
		int err = deliver(arg, &p->given->log[i]->rec);
		if (err != 0) {
			return err;
		}
		out->delivered++;
	}
	p->given = NULL;
	p->given_from = p->given_to = 0;
	return 0;
}

/* Replies are found in the records here. */
void
pool_tx_note(struct pool_tx *tx, const void *data, uint32_t len)
{
	(void)tx;
	(void)data;
	ASSERT(len > 0 && len <= POOL_NOTE_MAX);
}

void
pool_notes_each(struct pool *p, pool_note_fn *fn, void *arg)
{
	(void)p;
	(void)fn;
	(void)arg;
}

/* ---- the pool ---- */

const char *
pool_name(const struct pool *p)
{
	return p->name;
}

bool
pool_is_readonly(const struct pool *p)
{
	(void)p;
	return false;
}

bool
pool_is_suspended(const struct pool *p)
{
	(void)p;
	return false;
}

int
pool_sync(struct pool *p)
{
	fake_park(p);
	p->txg++;
	return 0;
}

/* ---- transactions ---- */

static int
tx_begin(struct pool_ds *ds, struct pool_tx **out)
{
	while (ds->pool->quiet) {
		fiber_yield();
	}
	if (ds->destroyed) {
		return -ESTALE;
	}
	int err = ds->head != NULL ? -EROFS : fake_fails(ds->pool);
	if (err != 0) {
		return err;
	}
	struct pool_tx *tx = fake_alloc(sizeof(*tx));
	tx->ds = ds;
	tx->txg = ds->pool->txg;
	ds->pool->live_tx++;
	*out = tx;
	return 0;
}

int
pool_tx_begin(struct pool_ds *ds, const struct pool_need *need, struct pool_tx **out)
{
	if (ds->pool->full && !need->frees) {
		return -ENOSPC;
	}
	int err = tx_begin(ds, out);
	if (err == 0) {
		if (!ds->pool->no_parking && rt_random_u64() % 4 == 0) {
			ds->pool->txg++;
		}
		fake_park(ds->pool);
	}
	return err;
}

int
pool_tx_begin_replay(struct pool_ds *ds, const struct pool_need *need, struct pool_tx **out)
{
	(void)need;
	return tx_begin(ds, out);
}

void
pool_tx_end(struct pool_tx *tx)
{
	tx->ds->pool->live_tx--;
	free(tx);
}

uint64_t
pool_tx_txg(const struct pool_tx *tx)
{
	return tx->txg;
}
