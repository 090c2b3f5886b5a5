/*
 * limits.c - quotas and reservations.
 *
 *	used(d)    = what d and its snapshots take + what its refreservation still lacks
 *	             + charge of each child
 *	charge(d)  = max(used(d), reservation(d))       what it takes of its parent
 *	quota      bounds used(d); refquota bounds what d itself refers to
 *	slack      = charge - used, refslack = what refreservation lacks: promised, not taken
 *	blocked(d) = the slack of all that d can't use: the children's of d and of its ancestors
 *(but for the branch that leads to d), and its ancestors' refslack
 *
 * used is known when a txg is committed (figures.c walks the datasets then). What has begun since
 * counts as in flight, with what it might need at most, until its txg has landed. So a quota is
 * never passed, except by what was estimated too low for lack of knowledge (metadata); and near
 * the limit whoever is refused waits for a txg first, to know exactly. Nothing is checked for what
 * only frees, nor in replay: a quota may be set below what is used, then nothing grows.
 *
 * Each dataset below a limit has a chain: itself and its ancestors that have limits, nearest first.
 * A transaction keeps the chain that it was charged to. Chains are made by the walk; when datasets
 * move, transactions under way count where they did.
 */
#include "pool/limits.h"

#include "pool/dataset.h"
#include "pool/figures.h"

#define DQUOT_TXGS 3u
#define HOLDERS_MAX (DATASET_NAME_MAX / 2 + 1)

struct limit_chain {
	atomic_uint refs;
	uint32_t count;
	struct pool_ds *v[]; /* a reference each; but for the dataset whose chain it is */
};

/* ---- chains ---- */

static void
chain_unref(struct limit_chain *c, const struct pool_ds *self)
{
	if (c == NULL || atomic_fetch_sub(&c->refs, 1) != 1) {
		return;
	}
	for (uint32_t i = 0; i < c->count; i++) {
		if (c->v[i] != self) {
			pool_ds_close(c->v[i]);
		}
	}
	mem_free(c);
}

static struct limit_chain *
chain_get(struct pool_ds *ds)
{
	struct limit_chain *c;

	spin_lock(&ds->lock);
	c = ds->limits.chain;
	if (c != NULL) {
		atomic_fetch_add(&c->refs, 1);
	}
	spin_unlock(&ds->lock);
	return c;
}

static bool
chain_is(const struct limit_chain *c, struct pool_ds *const *v, uint32_t count)
{
	if (c == NULL || c->count != count) {
		return c == NULL && count == 0;
	}
	return memcmp(c->v, v, count * sizeof(struct pool_ds *)) == 0;
}

static void
chain_set(struct pool_ds *ds, struct pool_ds *const *v, uint32_t count)
{
	struct limit_chain *fresh = NULL, *old;

	if (chain_is(ds->limits.chain, v, count)) {
		return;
	}
	if (count > 0) {
		fresh = pool_must_alloc(sizeof(*fresh) + count * sizeof(struct pool_ds *));
		atomic_store(&fresh->refs, 1);
		fresh->count = count;
		for (uint32_t i = 0; i < count; i++) {
			fresh->v[i] = v[i] == ds ? ds : pool_ds_ref(v[i]);
		}
	}
	spin_lock(&ds->lock);
	old = ds->limits.chain;
	ds->limits.chain = fresh;
	spin_unlock(&ds->lock);
	chain_unref(old, ds);
}

void
limits_free(struct pool_ds *ds)
{
	chain_unref(ds->limits.chain, ds);
	ds->limits.chain = NULL;
}

/* ---- the walk ---- */

uint64_t
limits_take_up(struct pool_ds *ds, const struct limit_figures *fig)
{
	struct ds_limits *l = &ds->limits;
	const struct pool *p = ds->p;
	uint64_t refreserved = space_data_sectors(p, l->told.refreservation);
	uint64_t refslack = refreserved - MIN(refreserved, fig->referenced);
	uint64_t used = fig->own_and_dead + refslack + fig->children;
	uint64_t charge = MAX(used, space_data_sectors(p, l->told.reservation));

	atomic_store(&l->quota, space_limit_sectors(p, l->told.quota));
	atomic_store(&l->refquota, space_limit_sectors(p, l->told.refquota));
	atomic_store(&l->used, used);
	atomic_store(&l->referenced, fig->referenced);
	atomic_store(&l->refslack, refslack);
	atomic_store(&l->slack, charge - used);
	ds->shown.unused = charge - fig->live;
	ds->shown.refslack = refslack;
	return charge;
}

static bool
has_limits(const struct pool_ds *ds)
{
	const struct pool_limits *l = &ds->limits.told;

	return (l->quota | l->refquota | l->reservation | l->refreservation) != 0;
}

/* What the children's reservations keep from ds and from each other. */
static uint64_t
children_unused(const struct pool_ds *ds)
{
	uint64_t sum = 0;

	list_for_each(l, &ds->children)
	{
		sum += list_entry(l, struct pool_ds, sibling)->shown.unused;
	}
	return sum;
}

static void
take_down(struct pool_ds *ds, uint64_t blocked, struct pool_ds **holders, uint32_t count)
{
	uint64_t below = children_unused(ds);
	bool has = has_limits(ds);

	atomic_store(&ds->limits.blocked, blocked + below);
	/* holders end with the nearest: the chain begins at the front of what is left of the array
	 */
	if (has) {
		count++;
		holders[HOLDERS_MAX - count] = ds;
	}
	chain_set(ds, holders + HOLDERS_MAX - count, count);
	list_for_each(l, &ds->children)
	{
		struct pool_ds *child = list_entry(l, struct pool_ds, sibling);

		take_down(child, blocked + ds->shown.refslack + below - child->shown.unused,
		    holders, count);
	}
}

void
limits_take_down(struct pool_ds *root)
{
	struct pool_ds **holders = pool_must_alloc(HOLDERS_MAX * sizeof(struct pool_ds *));

	take_down(root, 0, holders, 0);
	mem_free(holders);
}

static void
charge_landed(struct limit_charge *c, uint64_t txg)
{
	atomic_fetch_sub(&c->inflight, atomic_exchange(&c->landing[TXG_SLOT(txg)], 0));
}

void
limits_landed(struct pool_ds *ds, uint64_t txg)
{
	charge_landed(&ds->limits.below, txg);
	charge_landed(&ds->limits.own, txg);
}

/* ---- transactions ---- */

/*
 * Does so much more fit below all quotas of the chain, whatever `mine` counts already? slack: what
 * reservations on the way have been counted for. settled: as if nothing were in flight.
 */
static bool
chain_fits(const struct limit_chain *c, const struct pool_tx *tx, uint64_t grow, bool settled)
{
	const struct pool_ds *ds = tx->ds;
	uint64_t slack = atomic_load(&ds->limits.refslack);

	for (uint32_t i = 0; i < c->count; i++) {
		const struct ds_limits *l = &c->v[i]->limits;
		uint64_t quota = atomic_load(&l->quota), refquota = atomic_load(&l->refquota);
		bool blind = settled || DELIBERATE_BUG("pool-quota-unseen");
		uint64_t below = blind ? 0 : atomic_load(&l->below.inflight) - tx->need_sectors;
		uint64_t own = blind ? 0 : atomic_load(&l->own.inflight) - tx->need_sectors;

		if (c->v[i] == ds && refquota != 0 &&
		    atomic_load(&l->referenced) + own + grow > refquota) {
			return false;
		}
		if (quota != 0 && atomic_load(&l->used) + below + grow > quota + slack) {
			return false;
		}
		slack += atomic_load(&l->slack);
	}
	return true;
}

static bool
chain_is_busy(const struct limit_chain *c)
{
	for (uint32_t i = 0; i < c->count; i++) {
		if (atomic_load(&c->v[i]->limits.below.inflight) > 0) {
			return true;
		}
	}
	return false;
}

static void
chain_charge(const struct limit_chain *c, struct pool_ds *ds, uint64_t sectors)
{
	for (uint32_t i = 0; i < c->count; i++) {
		atomic_fetch_add(&c->v[i]->limits.below.inflight, sectors);
	}
	atomic_fetch_add(&ds->limits.own.inflight, sectors);
}

static void
chain_uncharge(const struct limit_chain *c, struct pool_ds *ds, uint64_t sectors)
{
	for (uint32_t i = 0; i < c->count; i++) {
		atomic_fetch_sub(&c->v[i]->limits.below.inflight, sectors);
	}
	atomic_fetch_sub(&ds->limits.own.inflight, sectors);
}

/*
 * A refusal is certain when nothing is under way that may turn out smaller, or give something back:
 * the open txg is looked at too, for what was removed in it isn't known yet. What only others have
 * been promised doesn't count as a turn (see sectors_reserve).
 */
static int
wait_to_know(struct pool_tx *tx, const struct limit_chain *c, uint64_t grow, unsigned *turns)
{
	struct txgs *t = tx->p->txgs;
	uint64_t open = txg_open(t);
	bool used =
	    atomic_load(&t->first_use_ns[TXG_SLOT(open)]) != 0 || atomic_load(&t->syncing) != 0;

	if (*turns >= DQUOT_TXGS || (!used && !chain_is_busy(c))) {
		return -EDQUOT;
	}
	*turns += !chain_fits(c, tx, grow, true);
	return txg_wait(t, open);
}

int
limits_begin(struct pool_tx *tx, uint64_t grow)
{
	struct pool_ds *ds = tx->ds;
	struct limit_chain *c = chain_get(ds);
	unsigned turns = 0;
	int err = 0;

	if (c == NULL) {
		return 0;
	}
	while (err == 0) {
		/* counted first, then looked at: of two that don't fit together one must see the
		 * other */
		chain_charge(c, ds, tx->need_sectors);
		if (chain_fits(c, tx, grow, false)) {
			tx->chain = c;
			return 0;
		}
		chain_uncharge(c, ds, tx->need_sectors);
		err = wait_to_know(tx, c, grow, &turns);
	}
	chain_unref(c, ds);
	return err;
}

void
limits_cancel(struct pool_tx *tx)
{
	if (tx->chain != NULL) {
		chain_uncharge(tx->chain, tx->ds, tx->need_sectors);
		chain_unref(tx->chain, tx->ds);
		tx->chain = NULL;
	}
}

static void
charge_settle(struct limit_charge *c, uint64_t txg, uint64_t asked, uint64_t dirtied)
{
	atomic_fetch_add(&c->inflight, dirtied);
	atomic_fetch_add(&c->landing[TXG_SLOT(txg)], dirtied);
	atomic_fetch_sub(&c->inflight, asked);
}

void
limits_end(struct pool_tx *tx, uint64_t dirtied)
{
	struct limit_chain *c = tx->chain;

	if (c == NULL) {
		return;
	}
	for (uint32_t i = 0; i < c->count; i++) {
		charge_settle(&c->v[i]->limits.below, tx->txg, tx->need_sectors, dirtied);
	}
	charge_settle(&tx->ds->limits.own, tx->txg, tx->need_sectors, dirtied);
	chain_unref(c, tx->ds);
	tx->chain = NULL;
}

/* ---- asking and setting ---- */

uint64_t
limits_left(const struct pool_ds *ds)
{
	const struct limit_chain *c = ds->limits.chain;
	uint64_t slack = atomic_load(&ds->limits.refslack), left = UINT64_MAX;

	for (uint32_t i = 0; c != NULL && i < c->count; i++) {
		const struct ds_limits *l = &c->v[i]->limits;
		uint64_t quota = atomic_load(&l->quota), refquota = atomic_load(&l->refquota);

		if (c->v[i] == ds && refquota != 0) {
			left = MIN(left, refquota - MIN(refquota, atomic_load(&l->referenced)));
		}
		if (quota != 0) {
			left = MIN(left, quota + slack - MIN(quota + slack, atomic_load(&l->used)));
		}
		slack += atomic_load(&l->slack);
	}
	return left;
}

void
pool_ds_get_limits(struct pool_ds *ds, struct pool_limits *out)
{
	mutex_lock(&ds->p->datasets->lock);
	*out = ds->limits.told;
	mutex_unlock(&ds->p->datasets->lock);
}

/* Under datasets.lock: may ds take so much more of its parent? */
static bool
reservation_fits(const struct pool_ds *ds, const struct pool_limits *l)
{
	const struct pool *p = ds->p;
	const struct ds_limits *now = &ds->limits;
	uint64_t refreserved = space_data_sectors(p, l->refreservation);
	uint64_t base = now->used - now->refslack;
	uint64_t used = base + (refreserved - MIN(refreserved, now->referenced));
	uint64_t charge = MAX(used, space_data_sectors(p, l->reservation));
	uint64_t have = now->used + now->slack;

	if (charge <= have) {
		return true;
	}
	return charge - have <=
	       MIN(figures_free(ds), ds->parent != NULL ? limits_left(ds->parent) : UINT64_MAX);
}

/* Under datasets.lock. */
static int
limits_check(const struct pool_ds *ds, const struct pool_limits *l)
{
	if (atomic_load(&ds->destroyed)) {
		return -ESTALE;
	}
	if ((l->quota != 0 && MAX(l->reservation, l->refreservation) > l->quota) ||
	    (l->refquota != 0 && l->refreservation > l->refquota)) {
		return -EINVAL;
	}
	return reservation_fits(ds, l) ? 0 : -ENOSPC;
}

int
pool_ds_set_limits(struct pool_ds *ds, const struct pool_limits *l)
{
	struct pool *p = ds->p;
	int err;

	if (p->readonly) {
		return -EROFS;
	}
	if (atomic_load(&p->suspended)) {
		return -ERR_SUSPENDED;
	}
	if ((p->v.feat_rocompat & FEATURE_RO_LIMITS) == 0) {
		return -ERR_FEATURE;
	}
	mutex_lock(&p->datasets->lock);
	err = limits_check(ds, l);
	if (err == 0) {
		ds->limits.told = *l;
		ds->phys_dirty = true;
	}
	mutex_unlock(&p->datasets->lock);
	return err != 0 ? err : pool_sync(p);
}
