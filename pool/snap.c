/*
 * snap.c - snapshots in memory: chains, looking them up, handles.
 *
 * A snapshot is a light struct in the array of its head (oldest first) and in two hash tables (by
 * guid, by head and name). All of it is under datasets.lock; only the syncing fiber changes chains
 * and deadlists, so it may read them without the lock. A struct pool_ds is made when the
 * snapshot is opened, and shared; it stays until the snapshot is destroyed or too many are open.
 *
 * Life: made by whoever wants it created -> in the chain (its txg is being written) -> dying (a
 * destroy is wanted: nobody finds it, its handle is stale) -> freed by the syncing fiber.
 */
#include "pool/snap.h"

#define BUCKETS 1024u
#define OPENED_MAX 256u
#define TRIM_LOOKS 4u

struct snaps {
	struct list by_guid[BUCKETS], by_name[BUCKETS];
};

static uint64_t
mix(uint64_t x)
{
	x *= 0x9e3779b97f4a7c15ull;
	return x ^ (x >> 31);
}

static struct list *
guid_bucket(struct pool *p, uint64_t guid)
{
	return &p->datasets->snaps->by_guid[mix(guid) % BUCKETS];
}

static struct list *
name_bucket(struct pool *p, const struct pool_ds *head, const char *name)
{
	uint64_t h = head->guid;

	for (; *name != '\0'; name++) {
		h = mix(h + (uint8_t)*name);
	}
	return &p->datasets->snaps->by_name[h % BUCKETS];
}

int
snaps_open(struct pool *p)
{
	struct snaps *t = mem_zalloc(sizeof(*t));

	if (t == NULL) {
		return -ENOMEM;
	}
	for (uint32_t i = 0; i < BUCKETS; i++) {
		list_init(&t->by_guid[i]);
		list_init(&t->by_name[i]);
	}
	p->datasets->snaps = t;
	list_init(&p->datasets->dirty_snaps);
	list_init(&p->datasets->opened);
	list_init(&p->datasets->requests);
	return 0;
}

void
snaps_close(struct pool *p)
{
	struct datasets *d = p->datasets;

	while (!list_empty(&d->requests)) {
		struct snap_req *r = list_first(&d->requests, struct snap_req, link);

		list_remove(&r->link);
		snap_req_close(r);
	}
	mem_free(d->snaps);
	d->snaps = NULL;
}

/* ---- one snapshot ---- */

struct snap *
snap_make(const char *name)
{
	struct snap *s = mem_zalloc(sizeof(*s));
	size_t len = strlen(name) + 1;

	if (s == NULL) {
		return NULL;
	}
	s->name = mem_zalloc(len);
	if (s->name == NULL) {
		mem_free(s);
		return NULL;
	}
	memcpy(s->name, name, len);
	list_init(&s->by_guid);
	list_init(&s->by_name);
	list_init(&s->dirty);
	list_init(&s->opened);
	return s;
}

void
snap_free(struct snap *s)
{
	if (s->ds != NULL) {
		pool_ds_close(s->ds);
	}
	deads_free_memory(&s->dead);
	mem_free(s->name);
	mem_free(s->tags);
	mem_free(s);
}

int
snap_decode(const struct dataset_phys *phys, struct snap *s)
{
	struct bp_prop prop;

	if (bp_is_hole(&phys->root) || bp_decode(&phys->root, POOL_SETS_MAX, &prop) != 0 ||
	    prop.type != OBJ_OBJSET) {
		return -ERR_CORRUPT;
	}
	s->guid = le64_get(phys->guid);
	s->create_txg = le64_get(phys->create_txg);
	s->create_time = le64_get(phys->create_time);
	s->root = phys->root;
	s->referenced = le64_get(phys->ref_sectors);
	s->data_bytes = le64_get(phys->data_bytes);
	s->object_count = le64_get(phys->object_count);
	s->tags_bytes = (uint32_t)le64_get(phys->props_bytes);
	return deads_from_phys(phys, &s->dead);
}

/* ---- chains ---- */

void
chain_grow(struct pool_ds *ds, uint32_t count)
{
	uint32_t cap = MAX(count, ds->snap_cap + ds->snap_cap / 2);
	struct snap **v;

	if (count <= ds->snap_cap) {
		return;
	}
	v = pool_must_alloc(cap * sizeof(struct snap *));
	if (ds->snap_count > 0) {
		memcpy(v, ds->snaps, ds->snap_count * sizeof(struct snap *));
	}
	mem_free(ds->snaps);
	ds->snaps = v;
	ds->snap_cap = cap;
}

void
chain_touch(struct pool_ds *ds)
{
	uint64_t now = rt_wall_ns(), last = atomic_load(&ds->list_time);

	atomic_store(&ds->list_time, MAX(last + 1, now));
	atomic_fetch_add(&ds->list_seq, 1);
}

void
snap_hash(struct pool *p, struct snap *s)
{
	list_push_back(guid_bucket(p, s->guid), &s->by_guid);
	list_push_back(name_bucket(p, s->head, s->name), &s->by_name);
	p->datasets->hidden_snaps += pool_snap_is_hidden(s->name);
}

void
snap_unhash(struct snap *s)
{
	if (!list_empty(&s->by_name) && pool_snap_is_hidden(s->name)) {
		s->head->p->datasets->hidden_snaps--;
	}
	list_remove(&s->by_guid);
	list_remove(&s->by_name);
}

void
chain_append(struct pool_ds *ds, struct snap *s)
{
	chain_grow(ds, ds->snap_count + 1);
	s->head = ds;
	ds->snaps[ds->snap_count++] = s;
	snap_hash(ds->p, s);
	chain_touch(ds);
}

uint32_t
chain_at(const struct pool_ds *ds, uint64_t txg)
{
	uint32_t lo = 0, hi = ds->snap_count;

	while (lo < hi) {
		uint32_t mid = lo + (hi - lo) / 2;

		if (ds->snaps[mid]->create_txg < txg) {
			lo = mid + 1;
		} else {
			hi = mid;
		}
	}
	return lo;
}

uint32_t
chain_shown(struct pool_ds *ds)
{
	uint64_t seq = atomic_load(&ds->list_seq) + 1;

	if (ds->shown_seq != seq) {
		ds->shown_seq = seq;
		ds->shown_count = 0;
		for (uint32_t i = 0; i < ds->snap_count; i++) {
			const struct snap *s = ds->snaps[i];

			ds->shown_count += !s->dying && !pool_snap_is_hidden(s->name);
		}
	}
	return ds->shown_count;
}

uint32_t
pool_snap_hidden_count(struct pool *p)
{
	uint32_t count;

	mutex_lock(&p->datasets->lock);
	count = p->datasets->hidden_snaps;
	mutex_unlock(&p->datasets->lock);
	return count;
}

uint32_t
chain_index(const struct snap *s)
{
	uint32_t at = chain_at(s->head, s->create_txg);

	ASSERT(at < s->head->snap_count && s->head->snaps[at] == s);
	return at;
}

void
chain_remove(struct snap *s)
{
	struct pool_ds *ds = s->head;
	uint32_t at = chain_index(s);

	memmove(
	    &ds->snaps[at], &ds->snaps[at + 1], (ds->snap_count - at - 1) * sizeof(struct snap *));
	ds->snap_count--;
	snap_unhash(s);
	list_remove(&s->dirty);
}

uint64_t
chain_key(const struct pool_ds *ds, uint64_t birth)
{
	uint32_t at;

	if (DELIBERATE_BUG("deadlist-bucket-wrong")) {
		birth++;
	}
	while (ds->origin != NULL && birth <= ds->origin->create_txg) {
		ds = ds->origin->head;
	}
	at = chain_at(ds, birth);
	/* born after the newest one: not for a deadlist of this chain, but an answer all the same
	 */
	return at < ds->snap_count ? ds->snaps[at]->create_txg : UINT64_MAX;
}

void
chain_recount(struct pool_ds *ds)
{
	uint64_t young = 0;

	for (uint32_t i = 0; i < ds->snap_count; i++) {
		young += deads_young(&ds->snaps[i]->dead);
	}
	atomic_store(&ds->snaps_dead_young, young);
	atomic_store(&ds->dead_young, deads_young(&ds->dead));
}

/* By what referenced, with its root block, and the deadlist say (check_snap.c). Roots aren't told.
 */
static uint64_t
born_after(
    const struct snap *prev, uint64_t referenced, const struct deads *dead, uint64_t young_root)
{
	uint64_t more = referenced + deads_sectors(dead);
	uint64_t less = (prev != NULL ? prev->referenced : 0) + young_root;

	return more - MIN(more, less);
}

void
snap_count_written(struct snap *s)
{
	const struct pool_ds *head = s->head;
	uint32_t at = chain_index(s);
	const struct snap *prev = at > 0 ? head->snaps[at - 1] : head->origin;
	bool young = prev == NULL || bp_birth(&s->root) > prev->create_txg;

	s->written = born_after(prev, s->referenced, &s->dead, young ? bp_sectors(&s->root) : 0);
}

uint64_t
chain_written(const struct pool_ds *ds)
{
	const struct pool_ds *chain = chain_owner(ds);
	const struct snap *prev =
	    chain->snap_count > 0 ? chain->snaps[chain->snap_count - 1] : chain->origin;
	uint64_t root = atomic_load(&ds->root_sectors);
	bool young = prev == NULL || bp_birth(&ds->root) > prev->create_txg;

	return born_after(
	    prev, atomic_load(&ds->used_sectors) + root, &chain->dead, young ? root : 0);
}

/* ---- looking up ---- */

const struct pool_ds *
chain_owner(const struct pool_ds *head)
{
	return head->not_yet && head->rollback != NULL ? head->rollback->old : head;
}

struct snap *
snap_find(struct pool *p, const struct pool_ds *head, const char *name)
{
	head = chain_owner(head);
	list_for_each(l, name_bucket(p, head, name))
	{
		struct snap *s = list_entry(l, struct snap, by_name);

		if (s->head == head && strcmp(s->name, name) == 0) {
			return s;
		}
	}
	return NULL;
}

struct snap *
snap_find_guid(struct pool *p, uint64_t guid)
{
	list_for_each(l, guid_bucket(p, guid))
	{
		struct snap *s = list_entry(l, struct snap, by_guid);

		if (s->guid == guid) {
			return s;
		}
	}
	return NULL;
}

void
snap_vanish(struct snap *s)
{
	s->dying = true;
	snap_unhash(s);
	if (s->ds != NULL) {
		atomic_store(&s->ds->destroyed, true);
	}
	chain_touch(s->head);
}

/* Under the lock; the reference is the caller's now. */
static struct pool_ds *
handle_take(struct snap *s)
{
	struct pool_ds *ds = s->ds;

	if (ds != NULL) {
		list_remove(&s->opened);
		s->head->p->datasets->opened_count--;
		s->ds = NULL;
	}
	return ds;
}

void
snap_let_go(struct pool *p, struct snap *s)
{
	struct pool_ds *ds;

	mutex_lock(&p->datasets->lock);
	ds = handle_take(s);
	if (ds != NULL) {
		ds->snap = NULL;
	}
	mutex_unlock(&p->datasets->lock);
	if (ds != NULL) {
		objects_forget(ds);
		pool_ds_close(ds);
	}
}

/* ---- handles ---- */

/* The handle that was used longest ago, with a reference, if nobody uses it and it has to go. */
static struct pool_ds *
opened_oldest(struct datasets *d, bool *out_more)
{
	struct pool_ds *ds = NULL;

	mutex_lock(&d->lock);
	*out_more = d->opened_count > OPENED_MAX;
	if (*out_more) {
		struct snap *s = list_first(&d->opened, struct snap, opened);

		list_remove(&s->opened);
		list_push_back(&d->opened, &s->opened);
		/* the snapshot's own, and one for each object in memory */
		if (atomic_load(&s->ds->refs) <= 1 + atomic_load(&s->ds->objects_count)) {
			ds = pool_ds_ref(s->ds);
		}
	}
	mutex_unlock(&d->lock);
	return ds;
}

static void
handle_drop_unused(struct datasets *d, struct pool_ds *ds)
{
	objects_forget(ds);
	mutex_lock(&d->lock);
	/* ours and the snapshot's; more come only from here, under the lock, or from one of them */
	if (ds->snap != NULL && ds->snap->ds == ds && atomic_load(&ds->refs) == 2) {
		(void)handle_take(ds->snap);
		pool_ds_close(ds);
	}
	mutex_unlock(&d->lock);
	pool_ds_close(ds);
}

/* More than OPENED_MAX are open: those go that nobody uses. Each time some are looked at, more than
 * one, so that they get fewer though most are in use. */
static void
opened_trim(struct pool *p)
{
	bool more = true;

	for (unsigned i = 0; i < TRIM_LOOKS && more; i++) {
		struct pool_ds *ds = opened_oldest(p->datasets, &more);

		if (ds != NULL) {
			handle_drop_unused(p->datasets, ds);
		}
	}
}

/* Under the lock: fresh becomes the handle unless somebody was quicker. */
static int
handle_install(struct pool *p, struct snap *s, struct pool_ds *fresh, struct pool_ds **out)
{
	struct datasets *d = p->datasets;

	if (s->dying) {
		return -ENOENT;
	}
	if (s->ds == NULL) {
		s->ds = pool_ds_ref(fresh);
		fresh->snap = s;
		atomic_store(&fresh->head_guid, s->head->guid);
		list_push_back(&d->opened, &s->opened);
		d->opened_count++;
	}
	*out = pool_ds_ref(s->ds);
	return 0;
}

/* Pinned by the caller, so that s stays; and counted as a reader, so that its blocks do. */
static int
handle_make(struct pool *p, struct snap *s, struct pool_ds **out)
{
	struct pool_ds *fresh = ds_make(p, false);
	uint64_t token;
	int err = fresh == NULL ? -ENOMEM : 0;

	if (err == 0) {
		fresh->guid = s->guid; /* objects are hashed by it */
		fresh->snap_guid = s->guid;
		fresh->create_txg = s->create_txg;
		fresh->create_time = s->create_time;
		token = space_read_enter(p->space);
		err = ds_load_root(fresh, &s->root);
		space_read_exit(p->space, token);
	}
	mutex_lock(&p->datasets->lock);
	s->pins--;
	err = s->dying ? -ENOENT : err;
	err = err != 0 ? err : handle_install(p, s, fresh, out);
	mutex_unlock(&p->datasets->lock);
	if (fresh != NULL) {
		pool_ds_close(fresh);
	}
	if (err == 0) {
		opened_trim(p);
	}
	return err;
}

/* Under the lock, which it gives up. */
static int
open_found(struct pool *p, struct snap *s, struct pool_ds **out)
{
	if (s == NULL) {
		mutex_unlock(&p->datasets->lock);
		return -ENOENT;
	}
	if (s->ds != NULL) {
		*out = pool_ds_ref(s->ds);
		list_remove(&s->opened);
		list_push_back(&p->datasets->opened, &s->opened);
		mutex_unlock(&p->datasets->lock);
		return 0;
	}
	s->pins++;
	mutex_unlock(&p->datasets->lock);
	return handle_make(p, s, out);
}

int
pool_snap_open(struct pool *p, const char *name, struct pool_ds **out)
{
	char path[DATASET_NAME_MAX + 1];
	const char *at = strchr(name, '@');
	struct pool_ds *head;

	if (at == NULL || (size_t)(at - name) > DATASET_NAME_MAX) {
		return -ENOENT;
	}
	memcpy(path, name, (size_t)(at - name));
	path[at - name] = '\0';
	mutex_lock(&p->datasets->lock);
	head = ds_path_find(p, path);
	return open_found(p, head != NULL ? snap_find(p, head, at + 1) : NULL, out);
}

int
pool_snap_open_guid(struct pool *p, uint64_t ds_guid, uint64_t snap_guid, struct pool_ds **out)
{
	struct snap *s;

	mutex_lock(&p->datasets->lock);
	s = snap_find_guid(p, snap_guid);
	if (s != NULL &&
	    strncmp(s->name, POOL_SNAP_DESTROYED, sizeof(POOL_SNAP_DESTROYED) - 1) == 0) {
		s = NULL;
	}
	if (s != NULL && ds_guid != 0 && s->head->guid != ds_guid) {
		s = NULL;
	}
	return open_found(p, s, out);
}

bool
pool_ds_is_snap(const struct pool_ds *ds)
{
	return ds->snap_guid != 0;
}

uint64_t
pool_ds_snap_guid(const struct pool_ds *ds)
{
	return ds->snap_guid;
}

uint64_t
pool_ds_create_txg(const struct pool_ds *ds)
{
	return ds->create_txg;
}

uint64_t
pool_snap_list_seq(struct pool_ds *ds, uint64_t *out_time)
{
	if (out_time != NULL) {
		*out_time = atomic_load(&ds->list_time);
	}
	return atomic_load(&ds->list_seq);
}
