/*
 * snap_roles.c - clones, promotion, rollback.
 *
 * A clone is a head whose root is a snapshot's and whose origin is that snapshot; nothing is
 * written but its description. All three wait until falling back by two roots can't take back what
 * they did, since records logged for what they made must find it at replay.
 *
 * Promotion moves the snapshots up to the origin from one chain to the other. Deadlists stay as
 * they are: each is about a snapshot and the one before it, and these pairs don't change. What does
 * change is which blocks are older than the chain's origin, so the figures that depend on it
 * are counted anew from sorted deadlists.
 *
 * Rollback: at once the tree has a new struct pool_ds (fresh: not_yet, readable, transactions on it
 * wait), and the old one is a zombie. In the zombie's last txg T (what was changed in T is dropped,
 * or written once more if it is kept) the chain moves to the fresh one, and what the old one had of
 * its own goes to the MOS's queue, or to a clone (kept). The deadlist of the old one names blocks
 * of the snapshot that are in use again: the lists go, the blocks stay; with a clone, the list is
 * the clone's.
 */
#include <stdio.h>

#include "pool/snap.h"

#define SETTLE_LOOK_NS NSEC_PER_MSEC

/* ---- clone ---- */

/* Under the lock. */
static struct snap *
snap_of(struct pool *p, const char *full, struct pool_ds **out_head)
{
	char path[DATASET_NAME_MAX + 1];
	const char *at = strchr(full, '@');

	if (at == NULL || (size_t)(at - full) > DATASET_NAME_MAX) {
		return NULL;
	}
	memcpy(path, full, (size_t)(at - full));
	path[at - full] = '\0';
	*out_head = ds_path_find(p, path);
	return *out_head != NULL ? snap_find(p, *out_head, at + 1) : NULL;
}

static int
roles_check(struct pool *p)
{
	int err = ds_admin_check(p, SPACE_ADMIN);

	return err == 0 && !pool_has_snapshots(p) ? -ERR_FEATURE : err;
}

/* s can't go while it has a clone more. */
static int
origin_take(struct pool *p, const char *name, struct snap **out)
{
	struct pool_ds *head;
	struct snap *s;

	mutex_lock(&p->datasets->lock);
	s = snap_of(p, name, &head);
	if (s != NULL) {
		s->clones++;
		*out = s;
	}
	mutex_unlock(&p->datasets->lock);
	return s != NULL ? 0 : -ENOENT;
}

static void
origin_give(struct pool *p, struct snap *s)
{
	mutex_lock(&p->datasets->lock);
	s->clones--;
	mutex_unlock(&p->datasets->lock);
}

/* ds becomes what the snapshot says; it has no guid yet to compare with. */
static int
state_load(struct pool_ds *ds, struct snap *s)
{
	int err;

	ds->origin_txg = ds->prev_snap_txg = s->create_txg;
	err = ds_load_root(ds, &s->root);
	if (err == 0) {
		ds_own_root_set(ds);
		atomic_store(&ds->pending_sectors, 0); /* the snapshot keeps it */
	}
	return err;
}

int
pool_ds_clone(struct pool *p, const char *snap, const char *path, struct pool_ds **out)
{
	char parent_path[DATASET_NAME_MAX + 1];
	const char *name = ds_path_split(path, parent_path);
	struct snap *s = NULL;
	struct pool_ds *ds;
	int err = name == NULL ? -EINVAL : roles_check(p);

	err = err != 0 ? err : origin_take(p, snap, &s);
	if (err != 0) {
		return err;
	}
	ds = ds_make(p, false);
	err = ds == NULL ? -ENOMEM : state_load(ds, s);
	if (err == 0) {
		ds->origin = s;
		mutex_lock(&p->datasets->lock);
		err = ds_place(p, parent_path, name, ds);
		if (err == 0) {
			(void)pool_ds_ref(ds);
		}
		mutex_unlock(&p->datasets->lock);
	}
	if (err != 0) {
		origin_give(p, s);
		if (ds != NULL) {
			pool_ds_close(ds);
		}
		return err;
	}
	err = ds_wait_safe(p, txg_open(p->txgs));
	if (err != 0) {
		pool_ds_close(ds);
		return err;
	}
	*out = ds;
	return 0;
}

/* Under the lock: paths of the heads below ds that come from s. */
static void
clones_collect(const struct pool_ds *ds, const struct snap *s, char (*v)[DATASET_NAME_MAX + 1],
    uint32_t cap, uint32_t *n)
{
	if (ds->origin == s && *n < cap) {
		(void)ds_path_of(ds, v[(*n)++]);
	}
	list_for_each(l, &ds->children)
	{
		clones_collect(list_entry(l, struct pool_ds, sibling), s, v, cap, n);
	}
}

int
pool_snap_clones_each(
    struct pool *p, const char *name, int (*each)(void *arg, const char *path), void *arg)
{
	char(*v)[DATASET_NAME_MAX + 1] = NULL;
	struct pool_ds *head;
	struct snap *s;
	uint32_t n = 0;
	int err;

	mutex_lock(&p->datasets->lock);
	s = snap_of(p, name, &head);
	err = s == NULL ? -ENOENT : 0;
	if (err == 0) {
		v = mem_zalloc_array(s->clones + 1, sizeof(*v));
		err = v == NULL ? -ENOMEM : 0;
	}
	if (err == 0) {
		clones_collect(p->datasets->root, s, v, s->clones, &n);
	}
	mutex_unlock(&p->datasets->lock);
	for (uint32_t i = 0; i < n && err == 0; i++) {
		err = each(arg, v[i]);
	}
	mem_free(v);
	return err;
}

/* ---- promote ---- */

/* Under the lock. */
static int
promote_check(struct pool *p, struct pool_ds *clone, char *why, size_t why_len)
{
	struct snap *s = clone->origin;

	if (s == NULL) {
		(void)snprintf(why, why_len, "it is not a clone");
		return -EINVAL;
	}
	for (uint32_t i = 0; i <= chain_index(s); i++) {
		const char *name = s->head->snaps[i]->name;

		if (!s->head->snaps[i]->dying && snap_find(p, clone, name) != NULL) {
			(void)snprintf(why, why_len, "both have a snapshot named \"%.200s\"", name);
			return -EEXIST;
		}
	}
	return 0;
}

/* All deadlists of a chain, so that they can be counted. */
static int
chain_sort(struct pool *p, struct pool_tx *tx, struct pool_ds *ds)
{
	int err = deads_sort(ds, tx, &ds->dead, UINT64_MAX);

	for (uint32_t i = 0; i < ds->snap_count && err == 0; i++) {
		bool sorted = ds->snaps[i]->dead.recent.count == 0;

		err = deads_sort(ds, tx, &ds->snaps[i]->dead, UINT64_MAX);
		if (!sorted) {
			mutex_lock(&p->datasets->lock);
			snap_dirty(p, ds->snaps[i]);
			mutex_unlock(&p->datasets->lock);
		}
		fiber_maybe_yield();
	}
	return err;
}

/* After the chain's origin has changed: the parts of deadlists that are young, and the head's own
 * sectors: what it refers to but for what it still has of its origin's. */
static void
chain_count_again(struct pool *p, struct pool_ds *ds)
{
	uint64_t old = 0, ref = atomic_load(&ds->used_sectors) + atomic_load(&ds->root_sectors);

	ds->origin_txg = ds->origin != NULL ? ds->origin->create_txg : 0;
	for (uint32_t i = 0; i < ds->snap_count; i++) {
		struct deads *d = &ds->snaps[i]->dead;
		uint64_t young = deads_young(d);
		bool dirty = d->map_dirty;

		deads_recount(d, ds->origin_txg);
		d->map_dirty = dirty;
		old += deads_sectors(d) - deads_young(d);
		if (young != deads_young(d)) {
			snap_dirty(p, ds->snaps[i]);
		}
	}
	deads_recount(&ds->dead, ds->origin_txg);
	old += deads_sectors(&ds->dead) - deads_young(&ds->dead);
	ds_own_root_set(ds);
	atomic_store(&ds->own_sectors, ref + old -
					   (ds->origin != NULL ? ds->origin->referenced : 0) -
					   atomic_load(&ds->own_root));
	chain_recount(ds);
	ds->phys_dirty = true;
	chain_touch(ds);
}

/* Under the lock: the snapshots of `from` up to s become the oldest ones of `to`. */
static void
chain_move(struct pool *p, struct pool_ds *from, struct pool_ds *to, struct snap *s)
{
	uint32_t n = chain_index(s) + 1;

	chain_grow(to, to->snap_count + n);
	memmove(to->snaps + n, to->snaps, to->snap_count * sizeof(struct snap *));
	memcpy(to->snaps, from->snaps, n * sizeof(struct snap *));
	memmove(from->snaps, from->snaps + n, (from->snap_count - n) * sizeof(struct snap *));
	to->snap_count += n;
	from->snap_count -= n;
	for (uint32_t i = 0; i < n; i++) {
		struct snap *m = to->snaps[i];

		if (!m->dying) {
			snap_unhash(m);
		}
		m->head = to;
		if (!m->dying) {
			snap_hash(p, m);
		}
		if (m->ds != NULL) {
			atomic_store(&m->ds->head_guid, to->guid);
		}
	}
}

int
promote_sync(struct pool *p, struct pool_tx *tx, struct snap_req *r)
{
	struct pool_ds *clone = r->items[0].ds, *other;
	struct snap *s;
	int err;

	mutex_lock(&p->datasets->lock);
	r->err = atomic_load(&clone->destroyed) ? -ENOENT
						: promote_check(p, clone, r->why, sizeof(r->why));
	s = clone->origin;
	mutex_unlock(&p->datasets->lock);
	if (r->err != 0) {
		return 0;
	}
	other = s->head;
	err = chain_sort(p, tx, clone);
	err = err != 0 ? err : chain_sort(p, tx, other);
	if (err != 0) {
		return err;
	}
	mutex_lock(&p->datasets->lock);
	chain_move(p, other, clone, s);
	clone->origin = other->origin; /* the counts of clones stay: one for the other */
	other->origin = s;
	chain_count_again(p, clone);
	chain_count_again(p, other);
	mutex_unlock(&p->datasets->lock);
	return 0;
}

int
pool_ds_promote(struct pool *p, const char *path, char *why, size_t why_len)
{
	struct snap_req *r = snap_req_make(SNAP_PROMOTE, 1);
	struct pool_ds *ds;
	uint64_t txg = 0;
	int err = r == NULL ? -ENOMEM : roles_check(p);

	while (err == 0) {
		bool pending;

		mutex_lock(&p->datasets->lock);
		ds = ds_path_find(p, path);
		err = ds == NULL ? -ENOENT : 0;
		pending =
		    ds != NULL &&
		    (ds->not_yet || (ds->origin != NULL && ds->origin->head->rollback != NULL));
		if (err == 0 && !pending) {
			err = promote_check(p, ds, why, why_len);
		}
		if (err == 0 && !pending) {
			r->items[0].ds = pool_ds_ref(ds);
			snap_req_queue(p, r);
		}
		mutex_unlock(&p->datasets->lock);
		if (!pending) {
			break;
		}
		err = atomic_load(&p->suspended) ? -ERR_SUSPENDED : 0;
		fiber_sleep(SETTLE_LOOK_NS);
	}
	if (err == 0) {
		err = snap_req_wait(p, r);
		txg = r->txg;
	}
	if (r != NULL && r->why[0] != '\0') {
		(void)snprintf(why, why_len, "%s", r->why);
	}
	if (r != NULL) {
		snap_req_close(r);
	}
	return err != 0 ? err : ds_wait_safe(p, txg);
}

/* ---- rollback ---- */

void
rollback_close(struct rollback *r)
{
	if (atomic_fetch_sub(&r->refs, 1) != 1) {
		return;
	}
	if (r->fresh != NULL) {
		pool_ds_close(r->fresh);
	}
	if (r->kept != NULL) {
		pool_ds_close(r->kept);
	}
	mem_free(r);
}

/* The new struct gets everything of the old one that isn't contents. Under the lock. */
static void
fresh_take_place(struct pool_ds *old, struct pool_ds *fresh)
{
	memcpy(fresh->name, old->name, sizeof(fresh->name));
	fresh->create_time = old->create_time;
	fresh->create_txg = old->create_txg;
	fresh->policy = old->policy;
	fresh->mos_object = old->mos_object;
	fresh->parent = old->parent;
	atomic_store(&fresh->list_seq, atomic_load(&old->list_seq));
	atomic_store(&fresh->list_time, atomic_load(&old->list_time));
	atomic_store(&fresh->incarnation, atomic_load(&old->incarnation) + 1);
	fresh->props = old->props;
	fresh->props_bytes = old->props_bytes;
	fresh->limits.told = old->limits.told;
	list_splice_back(&fresh->children, &old->children);
	list_for_each(l, &fresh->children)
	{
		list_entry(l, struct pool_ds, sibling)->parent = fresh;
	}
	if (old->parent == NULL) {
		old->p->datasets->root = fresh;
	} else {
		list_push_back(&old->sibling, &fresh->sibling); /* before old */
		list_remove(&old->sibling);
	}
	chain_touch(fresh);
}

/* A copy, since the old one's description is written with its properties until its last txg. */
static char *
props_copy(const struct pool_ds *ds)
{
	char *copy = pool_must_alloc(MAX(ds->props_bytes, 1u));

	if (ds->props_bytes > 0) {
		memcpy(copy, ds->props, ds->props_bytes);
	}
	return copy;
}

/* Under the lock. -EAGAIN: another rollback is under way. */
static int
rollback_start(struct pool *p, const char *snap, const char *keep_as, struct rollback *r)
{
	char parent_path[DATASET_NAME_MAX + 1];
	const char *keep_name = keep_as != NULL ? ds_path_split(keep_as, parent_path) : NULL;
	struct pool_ds *old;
	struct snap *s = snap_of(p, snap, &old);
	int err = 0;

	if (s == NULL || s != r->snap) {
		return -ENOENT;
	}
	if (old->not_yet) {
		return -EAGAIN;
	}
	if (old->snaps[old->snap_count - 1] != s) {
		return -EBUSY;
	}
	r->fresh->guid = old->guid;
	if (r->kept != NULL) {
		err = keep_name == NULL ? -EINVAL : ds_place(p, parent_path, keep_name, r->kept);
	}
	if (err != 0) {
		return err;
	}
	r->old = old;
	atomic_fetch_add(&r->refs, 1); /* old's */
	fresh_take_place(old, r->fresh);
	old->props = props_copy(r->fresh);
	r->fresh->not_yet = true;
	atomic_store(&r->fresh->accept_txg, UINT64_MAX);
	r->fresh->rollback = r;
	old->rollback = r;
	if (r->kept != NULL) {
		(void)pool_ds_ref(r->kept); /* the tree's and ours */
		r->kept->not_yet = true;
		atomic_store(&r->kept->accept_txg, UINT64_MAX);
	}
	(void)pool_ds_ref(r->fresh); /* the same */
	list_push_back(&p->datasets->zombies, &old->zombie);
	old->destroy_txg = UINT64_MAX;
	atomic_store(&old->destroyed, true);
	return 0;
}

/* Both structs, not there yet. */
static int
rollback_make(struct pool *p, struct snap *s, bool keep, struct rollback **out)
{
	struct rollback *r = mem_zalloc(sizeof(*r));
	int err;

	if (r == NULL) {
		return -ENOMEM;
	}
	atomic_store(&r->refs, 1);
	r->snap = s;
	r->fresh = ds_make(p, false);
	r->kept = keep ? ds_make(p, false) : NULL;
	err = r->fresh == NULL || (keep && r->kept == NULL) ? -ENOMEM : 0;
	if (err == 0) {
		err = state_load(r->fresh, s);
	}
	if (err == 0 && keep) {
		err = state_load(r->kept, s); /* until its turn it looks like any clone */
	}
	if (err != 0) {
		rollback_close(r);
		return err;
	}
	*out = r;
	return 0;
}

/* As for a destroyed dataset (dataset_api.c): the flag was first, now the txg. */
static uint64_t
rollback_set_txg(struct pool *p, struct rollback *r)
{
	unsigned reactor = rt_reactor_self();
	uint64_t txg;

	txg_hold_open(p->txgs, reactor, &txg);
	mutex_lock(&p->datasets->lock);
	r->old->destroy_txg = txg;
	mutex_unlock(&p->datasets->lock);
	atomic_store(&r->fresh->accept_txg, txg + TXG_FALLBACK);
	if (r->kept != NULL) {
		atomic_store(&r->kept->accept_txg, txg + TXG_FALLBACK);
	}
	txg_hold_drop(p->txgs, reactor, txg);
	return txg;
}

int
pool_ds_rollback(struct pool *p, const char *snap, const char *keep_as)
{
	struct rollback *r;
	struct snap *s = NULL;
	uint64_t txg;
	int err = roles_check(p);

	err = err != 0 ? err : origin_take(p, snap, &s);
	if (err != 0) {
		return err;
	}
	err = rollback_make(p, s, keep_as != NULL, &r);
	if (err != 0) {
		origin_give(p, s);
		return err;
	}
	do {
		mutex_lock(&p->datasets->lock);
		err = rollback_start(p, snap, keep_as, r);
		mutex_unlock(&p->datasets->lock);
		if (err == -EAGAIN) {
			fiber_sleep(SETTLE_LOOK_NS);
		}
	} while (err == -EAGAIN && !atomic_load(&p->suspended) && !atomic_load(&p->closing));
	if (err != 0) {
		origin_give(p, s);
		rollback_close(r);
		return err == -EAGAIN ? -ERR_SUSPENDED : err;
	}
	txg = rollback_set_txg(p, r);
	rollback_close(r);
	return ds_wait_safe(p, txg);
}

/* ---- its txg ---- */

/* The discarded state as a clone. sectors: born after the snapshot, root block excluded. */
static int
kept_take_over(struct pool_ds *old, struct rollback *r, struct pool_tx *tx, uint64_t sectors)
{
	struct pool_ds *kept = r->kept;
	struct bp root;
	int err;

	kept->prev_snap_txg =
	    UINT64_MAX; /* the root names the other dataset, until the next line but one */
	err = ds_load_root(kept, &old->root);
	kept->prev_snap_txg = r->snap->create_txg;
	if (err != 0) {
		return err;
	}
	ds_own_root_set(kept);
	atomic_store(&kept->own_sectors, sectors);
	kept->dead = old->dead;
	kept->dead.recent_young = kept->dead.map_young = 0; /* its origin has all of it */
	old->dead = (struct deads){.loaded = true};
	bp_set_hole(&old->root, tx->txg);
	mutex_lock(&old->p->datasets->lock);
	kept->origin = r->snap;
	kept->phys_dirty = true;
	kept->not_yet = false;
	mutex_unlock(&old->p->datasets->lock);
	err = ds_sync(kept, tx->txg, &root); /* a root of its own */
	err = err != 0 ? err : deads_flush(kept, tx);
	atomic_store(&kept->dead_young, deads_young(&kept->dead));
	return err;
}

/* Under the lock. */
static void
fresh_take_over(struct pool_ds *old, struct pool_ds *fresh)
{
	uint64_t before;

	fresh->snaps = old->snaps;
	fresh->snap_count = old->snap_count;
	fresh->snap_cap = old->snap_cap;
	old->snaps = NULL;
	old->snap_count = old->snap_cap = 0;
	fresh->origin = old->origin;
	old->origin = NULL;
	fresh->origin_txg = old->origin_txg;
	before = fresh->origin != NULL ? fresh->origin->referenced : 0;
	for (uint32_t i = 0; i < fresh->snap_count; i++) {
		const struct deads *d = &fresh->snaps[i]->dead;

		fresh->snaps[i]->head = fresh;
		before -= deads_sectors(d) - deads_young(d);
	}
	ds_own_root_set(fresh);
	/* referenced less what it still has of its origin's; modulo 2^64 on the way */
	atomic_store(&fresh->own_sectors, atomic_load(&fresh->used_sectors) +
					      atomic_load(&fresh->root_sectors) - before -
					      atomic_load(&fresh->own_root));
	fresh->rollback = NULL;
	fresh->not_yet = false;
	fresh->phys_dirty = true;
	chain_recount(fresh);
	chain_touch(fresh);
}

int
rollback_sync(struct pool_ds *old, struct pool_tx *tx)
{
	struct rollback *r = old->rollback;
	struct pool *p = old->p;
	struct snap *s = r->snap;
	bool own_root = bp_birth(&old->root) > s->create_txg;
	uint64_t sectors = atomic_load(&old->used_sectors) + atomic_load(&old->root_sectors) +
			   deads_sectors(&old->dead) - s->referenced -
			   (own_root ? atomic_load(&old->root_sectors) : 0);
	int err;

	if (r->kept != NULL) {
		err = kept_take_over(old, r, tx, sectors);
	} else {
		err = ds_bury_root(old, tx, s->create_txg, sectors);
	}
	if (err != 0) {
		return err;
	}
	mutex_lock(&p->datasets->lock);
	fresh_take_over(old, r->fresh);
	s->clones -= r->kept != NULL ? 0 : 1;
	mutex_unlock(&p->datasets->lock);
	return 0;
}
