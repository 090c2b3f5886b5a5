/*
 * snap_sync.c - what the syncing fiber does about snapshots.
 *
 * Who wants a chain changed queues a request; the first txg that is closed after that does it, so
 * that everything done before the request is in that txg, and a request's parts are in one. Within
 * a txg:
 *
 *	early	snapshots are destroyed, in each chain the oldest first (many of one request in
 *		several txgs); then promotions
 *	(then the datasets' own changes and destroyed datasets: dataset_sync.c)
 *	late	snapshots are created; questions are answered
 *	then	descriptions
 *
 * Oldest first, and nothing before it: so a deadlist that goes with its contents has not been
 * appended to in this txg. (What an earlier destroy of this txg merges or sorts into the deadlist
 *of the next snapshot is as old as the one before both, and that stays.)
 *
 * Two snapshots of one chain never have the same txg: the later request waits for the next one.
 */
#include <stdlib.h>

#include "pool/snap.h"

#define DESTROYS_PER_TXG \
	512u /* more than that go on in the next one: nobody waits long for a txg */
#define PRESORT_COUNT (BUGGIFY("pool-presort-short") ? 16u : 2048u)

/* ---- requests ---- */

struct snap_req *
snap_req_make(enum snap_op op, uint32_t count)
{
	struct snap_req *r = mem_zalloc(sizeof(*r) + count * sizeof(r->items[0]));

	if (r != NULL) {
		list_init(&r->link);
		r->op = op;
		r->count = count;
		atomic_store(&r->refs, 1);
	}
	return r;
}

void
snap_req_close(struct snap_req *r)
{
	if (atomic_fetch_sub(&r->refs, 1) != 1) {
		return;
	}
	for (uint32_t i = 0; i < r->count; i++) {
		if (r->op == SNAP_CREATE && r->items[i].snap != NULL) {
			snap_free(r->items[i].snap);
		}
		if (r->items[i].ds != NULL) {
			pool_ds_close(r->items[i].ds);
		}
	}
	mem_free(r);
}

void
snap_req_queue(struct pool *p, struct snap_req *r)
{
	atomic_fetch_add(&r->refs, 1);
	r->txg = txg_open(p->txgs);
	list_push_back(&p->datasets->requests, &r->link);
}

int
snap_req_wait(struct pool *p, struct snap_req *r)
{
	for (;;) {
		uint64_t txg;
		bool done;
		int err;

		mutex_lock(&p->datasets->lock);
		txg = r->txg;
		mutex_unlock(&p->datasets->lock);
		err = txg_wait(p->txgs, txg);
		if (err != 0) {
			return err;
		}
		mutex_lock(&p->datasets->lock);
		done = r->done;
		mutex_unlock(&p->datasets->lock);
		if (done) {
			return r->err;
		}
	}
}

/* Under the lock. */
static void
req_done(struct snap_req *r, int err)
{
	r->err = err;
	r->done = true;
	list_remove(&r->link);
}

/* The next request of that kind for this txg, from at on; the queue's reference stays. */
static struct snap_req *
req_next(struct pool *p, uint64_t txg, enum snap_op op)
{
	struct snap_req *found = NULL;

	mutex_lock(&p->datasets->lock);
	list_for_each(l, &p->datasets->requests)
	{
		struct snap_req *r = list_entry(l, struct snap_req, link);

		if (r->op == op && r->txg <= txg) {
			found = r;
			break;
		}
	}
	mutex_unlock(&p->datasets->lock);
	return found;
}

static void
req_finish(struct pool *p, struct snap_req *r, int err)
{
	mutex_lock(&p->datasets->lock);
	req_done(r, err);
	mutex_unlock(&p->datasets->lock);
	snap_req_close(r);
}

/* ---- what changed ---- */

void
snap_dirty(struct pool *p, struct snap *s)
{
	if (list_empty(&s->dirty)) {
		list_push_back(&p->datasets->dirty_snaps, &s->dirty);
	}
}

/* ---- sorting ---- */

/* The deadlist behind the one at place `at` of the chain. */
static struct deads *
deads_behind(struct pool_ds *head, uint32_t at)
{
	return at + 1 < head->snap_count ? &head->snaps[at + 1]->dead : &head->dead;
}

/* Sorts; the description of whose deadlist it is will have to be written. */
static int
behind_sort(struct pool *p, struct pool_tx *tx, struct pool_ds *head, uint32_t at)
{
	struct deads *d = deads_behind(head, at);
	bool sorted = d->recent.count == 0;
	int err = deads_sort(head, tx, d, UINT64_MAX);

	if (err == 0 && !sorted) {
		mutex_lock(&p->datasets->lock);
		if (at + 1 < head->snap_count) {
			snap_dirty(p, head->snaps[at + 1]);
		} else {
			head->phys_dirty = true;
		}
		mutex_unlock(&p->datasets->lock);
	}
	return err;
}

/* ---- destroying ---- */

static int
object_destroy(struct pool *p, struct pool_tx *tx, uint64_t object)
{
	struct pool_obj *o;
	int err = object != 0 ? pool_obj_hold(p->datasets->mos, object, 0, &o) : 0;

	if (err == 0 && object != 0) {
		pool_obj_destroy(tx, o);
		pool_obj_release(o);
	}
	return err;
}

static int
snap_bury(struct pool *p, struct pool_tx *tx, struct snap *s)
{
	struct pool_ds *head = s->head;
	uint32_t at = chain_index(s);
	struct snap *next = at + 1 < head->snap_count ? head->snaps[at + 1] : NULL;
	uint64_t before = at > 0 ? head->snaps[at - 1]->create_txg : head->origin_txg;
	struct deads *heir = next != NULL ? &next->dead : &head->dead;
	int err;

	err = deads_free_after(head, tx, heir, before);
	err = err != 0 ? err : deads_merge(head, tx, heir, &s->dead);
	err = err != 0 ? err : object_destroy(p, tx, s->mos_object);
	if (err != 0) {
		return err;
	}
	snap_let_go(p, s);
	mutex_lock(&p->datasets->lock);
	chain_remove(s);
	if (next != NULL) {
		snap_count_written(next);
		snap_dirty(p, next);
	} else {
		head->prev_snap_txg = before;
	}
	head->phys_dirty = true;
	while (s->pins > 0) {
		mutex_unlock(&p->datasets->lock);
		fiber_sleep(NSEC_PER_MSEC);
		mutex_lock(&p->datasets->lock);
	}
	mutex_unlock(&p->datasets->lock);
	snap_free(s);
	return 0;
}

static int
age_order(const void *va, const void *vb)
{
	const struct snap *a = *(struct snap *const *)va, *b = *(struct snap *const *)vb;

	if (a->head != b->head) {
		return (uintptr_t)a->head < (uintptr_t)b->head ? -1 : 1;
	}
	return a->create_txg < b->create_txg ? -1 : a->create_txg > b->create_txg;
}

/* The next ones that requests want destroyed. */
static struct snap **
doomed_collect(struct pool *p, uint64_t txg, uint32_t *out_count)
{
	struct snap **v = pool_must_alloc(DESTROYS_PER_TXG * sizeof(struct snap *));
	uint32_t n = 0;

	mutex_lock(&p->datasets->lock);
	list_for_each(l, &p->datasets->requests)
	{
		struct snap_req *r = list_entry(l, struct snap_req, link);

		if (r->op != SNAP_DESTROY || r->txg > txg) {
			continue;
		}
		while (n < DESTROYS_PER_TXG && r->taken < r->count) {
			v[n++] = r->items[r->taken++].snap;
		}
		if (r->taken < r->count) {
			r->txg = txg + 1;
			atomic_store(&p->txgs->background, true);
		}
	}
	mutex_unlock(&p->datasets->lock);
	*out_count = n;
	return v;
}

/* Whose deadlists will be needed, in order, for one round. */
static struct snap **
presort_collect(struct pool *p, uint64_t txg, uint32_t *out_count)
{
	struct snap **v = pool_must_alloc(DESTROYS_PER_TXG * sizeof(struct snap *));
	uint32_t n = 0;

	mutex_lock(&p->datasets->lock);
	list_for_each(l, &p->datasets->requests)
	{
		struct snap_req *r = list_entry(l, struct snap_req, link);

		if (r->op != SNAP_DESTROY || r->txg > txg || r->presorted) {
			continue;
		}
		for (uint32_t i = r->taken; i < r->count && n < DESTROYS_PER_TXG; i++) {
			v[n++] = r->items[i].snap;
		}
	}
	mutex_unlock(&p->datasets->lock);
	*out_count = n;
	return v;
}

/* The destroys of this txg wait for the next one, once. */
static void
presort_postpone(struct pool *p, uint64_t txg)
{
	mutex_lock(&p->datasets->lock);
	list_for_each(l, &p->datasets->requests)
	{
		struct snap_req *r = list_entry(l, struct snap_req, link);

		if (r->op == SNAP_DESTROY && r->txg <= txg && !r->presorted) {
			r->presorted = true;
			r->txg = txg + 1;
		}
	}
	mutex_unlock(&p->datasets->lock);
	atomic_store(&p->txgs->background, true);
}

/*
 * Long lists are sorted in a txg before the one that destroys, which then hands on whole buckets.
 * Else each of their blocks would be an entry of the free queue, and there is no room for so many
 * in a full pool.
 */
static int
destroys_presort(struct pool *p, struct pool_tx *tx)
{
	bool sorted = false;
	uint32_t count;
	struct snap **v = presort_collect(p, tx->txg, &count);
	int err = 0;

	for (uint32_t i = 0; i < count && err == 0; i++) {
		uint32_t at = chain_index(v[i]);

		if (deads_behind(v[i]->head, at)->recent.count > PRESORT_COUNT) {
			err = behind_sort(p, tx, v[i]->head, at);
			sorted = true;
		}
	}
	mem_free(v);
	if (err == 0 && sorted) {
		presort_postpone(p, tx->txg);
	}
	return err;
}

static int
destroys_sync(struct pool *p, struct pool_tx *tx)
{
	struct snap_req *r;
	uint32_t count;
	int err = destroys_presort(p, tx);
	struct snap **v = doomed_collect(p, tx->txg, &count);

	if (count > 1) {
		qsort(v, count, sizeof(struct snap *), age_order);
	}
	for (uint32_t i = 0; i < count && err == 0; i++) {
		struct pool_ds *head = v[i]->head;
		bool last = i + 1 == count || v[i + 1]->head != head;

		err = snap_bury(p, tx, v[i]);
		if (err == 0 && last) {
			chain_recount(head);
		}
		fiber_maybe_yield();
	}
	mem_free(v);
	while (err == 0 && (r = req_next(p, tx->txg, SNAP_DESTROY)) != NULL) {
		req_finish(p, r, 0);
	}
	return err;
}

int
snaps_sync_early(struct pool *p, struct pool_tx *tx)
{
	struct snap_req *r;
	int err = destroys_sync(p, tx);

	while (err == 0 && (r = req_next(p, tx->txg, SNAP_PROMOTE)) != NULL) {
		err = promote_sync(p, tx, r);
		if (err == 0) {
			req_finish(p, r, r->err);
		}
	}
	return err;
}

/* ---- creating ---- */

/* Whom the request means now: a rollback may have put another in its place. NULL: it is gone. */
static struct pool_ds *
item_head(const struct snap_item *i)
{
	struct pool_ds *ds = i->ds;

	while (atomic_load(&ds->destroyed)) {
		if (ds->rollback == NULL) {
			return NULL;
		}
		ds = ds->rollback->fresh;
	}
	return ds;
}

/* 0; -EAGAIN: in the next txg. Under the lock. */
static int
create_check(struct pool *p, struct pool_tx *tx, const struct snap_req *r)
{
	for (uint32_t i = 0; i < r->count; i++) {
		struct pool_ds *ds = item_head(&r->items[i]);

		if (ds == NULL) {
			return -ENOENT;
		}
		if (snap_find(p, ds, r->items[i].snap->name) != NULL) {
			return -EEXIST;
		}
		if (ds->not_yet || bp_is_hole(&ds->root) || ds->prev_snap_txg >= tx->txg) {
			return -EAGAIN;
		}
	}
	return 0;
}

/* Under the lock. */
static void
create_one(struct pool *p, struct pool_tx *tx, struct snap_item *item)
{
	struct pool_ds *ds = item_head(item);
	struct snap *s = item->snap;

	ASSERT(ds != NULL); /* create_check */
	s->create_txg = tx->txg;
	s->root = ds->root;
	s->referenced = atomic_load(&ds->used_sectors) + atomic_load(&ds->root_sectors);
	s->data_bytes = atomic_load(&ds->data_bytes);
	s->object_count = atomic_load(&ds->object_count);
	s->dead = ds->dead;
	ds->dead = (struct deads){.loaded = true};
	chain_append(ds, s);
	snap_count_written(s);
	ds->prev_snap_txg = tx->txg;
	atomic_store(&ds->pending_sectors, 0); /* what is cut off isn't freed any more */
	atomic_fetch_add(&ds->snaps_dead_young, deads_young(&s->dead));
	atomic_store(&ds->dead_young, 0);
	ds->phys_dirty = true;
	snap_dirty(p, s);
	item->snap = NULL;
}

static void
create_sync(struct pool *p, struct pool_tx *tx, struct snap_req *r)
{
	int err;

	mutex_lock(&p->datasets->lock);
	err = create_check(p, tx, r);
	if (err == -EAGAIN) {
		r->txg = tx->txg + 1;
		mutex_unlock(&p->datasets->lock);
		atomic_store(&p->txgs->background, true);
		return;
	}
	for (uint32_t i = 0; i < r->count && err == 0; i++) {
		create_one(p, tx, &r->items[i]);
	}
	req_done(r, err);
	mutex_unlock(&p->datasets->lock);
	snap_req_close(r);
}

/* ---- questions ---- */

static struct snap *
item_snap(struct pool *p, const struct snap_item *i)
{
	struct snap *s;

	mutex_lock(&p->datasets->lock);
	s = snap_find_guid(p, i->guid);
	mutex_unlock(&p->datasets->lock);
	return s; /* only we would free it */
}

static int
unique_sync(struct pool *p, struct pool_tx *tx, struct snap_req *r)
{
	int err = 0;

	for (uint32_t i = 0; i < r->count && err == 0; i++) {
		struct snap *s = item_snap(p, &r->items[i]);
		uint32_t at;

		if (s == NULL) {
			continue;
		}
		at = chain_index(s);
		err = behind_sort(p, tx, s->head, at);
		if (err == 0) {
			r->items[i].sectors = deads_after(deads_behind(s->head, at),
			    at > 0 ? s->head->snaps[at - 1]->create_txg : s->head->origin_txg);
		}
		fiber_maybe_yield();
	}
	return err;
}

/* Each run of neighbours: all deadlists behind the first, as far as younger than the one before it.
 */
static int
reclaim_sum(struct pool *p, struct pool_tx *tx, struct snap **v, uint32_t count, uint64_t *out)
{
	uint64_t before = 0;
	int err = 0;

	for (uint32_t i = 0; i < count && err == 0; i++) {
		struct pool_ds *head = v[i]->head;
		uint32_t at = chain_index(v[i]);

		if (i == 0 || v[i - 1]->head != head || at == 0 ||
		    head->snaps[at - 1] != v[i - 1]) {
			before = at > 0 ? head->snaps[at - 1]->create_txg : head->origin_txg;
		}
		err = behind_sort(p, tx, head, at);
		if (err == 0) {
			*out += deads_after(deads_behind(head, at), before);
		}
	}
	return err;
}

static int
reclaim_sync(struct pool *p, struct pool_tx *tx, struct snap_req *r)
{
	struct snap **v = pool_must_alloc((r->count + 1) * sizeof(struct snap *));
	uint32_t n = 0;
	int err;

	for (uint32_t i = 0; i < r->count; i++) {
		v[n] = item_snap(p, &r->items[i]);
		n += v[n] != NULL;
	}
	qsort(v, n, sizeof(struct snap *), age_order);
	err = reclaim_sum(p, tx, v, n, &r->sectors);
	mem_free(v);
	return err;
}

int
snaps_sync_late(struct pool *p, struct pool_tx *tx)
{
	struct snap_req *r;
	int err = 0;

	while ((r = req_next(p, tx->txg, SNAP_CREATE)) != NULL) {
		create_sync(p, tx, r);
	}
	while (err == 0 && (r = req_next(p, tx->txg, SNAP_UNIQUE)) != NULL) {
		err = unique_sync(p, tx, r);
		if (err == 0) {
			req_finish(p, r, 0);
		}
	}
	while (err == 0 && (r = req_next(p, tx->txg, SNAP_RECLAIM)) != NULL) {
		err = reclaim_sync(p, tx, r);
		if (err == 0) {
			req_finish(p, r, 0);
		}
	}
	return err;
}

/* ---- descriptions ---- */

/* Under the lock. */
static void
snap_to_phys(const struct snap *s, struct dataset_phys *phys)
{
	const struct pool_ds *head = s->head;
	uint32_t at = chain_index(s);
	const struct snap *prev = at > 0 ? head->snaps[at - 1] : head->origin;

	memset(phys, 0, sizeof(*phys));
	phys->magic = le64_of(DATASET_MAGIC);
	phys->guid = le64_of(s->guid);
	phys->flags = le64_of(DATASET_SNAPSHOT);
	phys->create_txg = le64_of(s->create_txg);
	phys->create_time = le64_of(s->create_time);
	if (prev != NULL) {
		phys->prev_snap = le64_of(prev->mos_object);
		phys->prev_snap_txg = le64_of(prev->create_txg);
	}
	phys->props_bytes = le64_of(s->tags_bytes);
	phys->ref_sectors = le64_of(s->referenced);
	phys->data_bytes = le64_of(s->data_bytes);
	phys->object_count = le64_of(s->object_count);
	phys->root = s->root;
	deads_to_phys(&s->dead, phys);
	memcpy(phys->name, s->name, MIN(strlen(s->name), sizeof(phys->name) - 1));
}

static int
snap_describe(struct pool *p, struct pool_tx *tx, struct snap *s)
{
	struct datasets *d = p->datasets;
	uint8_t *bytes = NULL;
	uint32_t len = 0, cap = 0;
	int err = deads_write(p, tx, &s->dead);

	while (err == 0) {
		mutex_lock(&d->lock);
		len = DATASET_PROPS_OFF + s->tags_bytes;
		if (len <= cap) {
			break;
		}
		mutex_unlock(&d->lock);
		mem_free(bytes);
		cap = ALIGN_UP(len, SECTOR_BYTES);
		bytes = pool_must_alloc(cap);
	}
	if (err != 0) {
		return err;
	}
	snap_to_phys(s, (struct dataset_phys *)(void *)bytes);
	if (s->tags_bytes > 0) {
		memcpy(bytes + DATASET_PROPS_OFF, s->tags, s->tags_bytes);
	}
	mutex_unlock(&d->lock);
	err = description_put(p, tx, &s->mos_object, bytes, len);
	mem_free(bytes);
	return err;
}

/* In the order in which they became dirty: so a new one has its object before the one behind it
 * names it. */
int
snaps_describe(struct pool *p, struct pool_tx *tx)
{
	struct datasets *d = p->datasets;
	int err = 0;

	while (err == 0) {
		struct snap *s = NULL;

		mutex_lock(&d->lock);
		if (!list_empty(&d->dirty_snaps)) {
			s = list_first(&d->dirty_snaps, struct snap, dirty);
			list_remove(&s->dirty);
		}
		mutex_unlock(&d->lock);
		if (s == NULL) {
			break;
		}
		err = snap_describe(p, tx, s);
	}
	return err;
}
