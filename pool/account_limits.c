/*
 * account_limits.c - quotas of users and groups.
 *
 * The same reasoning as for datasets (limits.c): what an account has is known when a txg is synced;
 * what has begun since counts as in flight, with what it might need at most, until its txg has
 * landed; near the limit whoever is refused waits for a txg first, to know exactly. So a quota is
 * never passed but by what metadata was estimated too low, and by a write whose file changes hands
 * between its admission and its turn. Replay asks nobody.
 *
 * Only accounts that a quota applies to and somebody asked for are in memory, in a table of the
 * dataset under account_lock. A dataset without quotas (accounts_limited is false) is told from
 * others by one load. `loaded` accounts follow the tree: the syncing fiber publishes the tree and
 * adds what it changes in one step, so whoever reads the tree to load an account looks at seq
 * afterwards.
 */
#include <stdlib.h>

#include "pool/accounts.h"

#define DQUOT_TXGS 3u
#define RECORD_BYTES (16u * KIB)
#define BUCKETS 1024u
#define KEEP_MAX 4096u /* accounts in memory that nobody uses */

struct account {
	struct account *next;
	enum pool_account_kind kind;
	uint32_t id;
	uint32_t refs;
	bool loaded;
	uint64_t sectors, objects;
	uint64_t quota_sectors, quota_objects; /* 0: none */
	uint64_t inflight, inflight_objects;
	uint64_t landing[TXG_SLOTS], landing_objects[TXG_SLOTS]; /* of inflight: by txg */
};

/* In sectors and objects. */
struct account_limit {
	enum pool_account_kind kind;
	uint32_t id;
	uint64_t sectors, objects;
};

struct account_limits {
	struct account_limit *v; /* by kind and id */
	uint32_t count;
	uint64_t default_sectors[2], default_objects[2];
	uint64_t seq; /* of the tree */
	uint32_t account_count;
	struct account *buckets[BUCKETS];
};

/* ---- the table; under account_lock ---- */

static struct account **
account_at(struct account_limits *l, enum pool_account_kind kind, uint32_t id)
{
	struct account **at = &l->buckets[(id * 2 + (uint32_t)kind) % BUCKETS];

	while (*at != NULL && ((*at)->id != id || (*at)->kind != kind)) {
		at = &(*at)->next;
	}
	return at;
}

static int
limit_order(const void *a, const void *b)
{
	const struct account_limit *x = a, *y = b;

	if (x->kind != y->kind) {
		return x->kind < y->kind ? -1 : 1;
	}
	return x->id < y->id ? -1 : x->id > y->id;
}

/* What applies to an account. id 0 has no default: services of the system go on. */
static struct account_limit
limit_of(const struct account_limits *l, enum pool_account_kind kind, uint32_t id)
{
	struct account_limit want = {.kind = kind, .id = id};
	const struct account_limit *own =
	    l->count > 0 ? bsearch(&want, l->v, l->count, sizeof(want), limit_order) : NULL;

	if (own != NULL) {
		want = *own;
	}
	if (id != 0) {
		want.sectors = want.sectors != 0 ? want.sectors : l->default_sectors[kind];
		want.objects = want.objects != 0 ? want.objects : l->default_objects[kind];
	}
	return want;
}

static void
account_limit_set(const struct account_limits *l, struct account *a)
{
	struct account_limit limit = limit_of(l, a->kind, a->id);

	a->quota_sectors = limit.sectors;
	a->quota_objects = limit.objects;
}

static bool
has_any(const struct account_limits *l)
{
	return l->count > 0 || (l->default_sectors[0] | l->default_sectors[1] |
				   l->default_objects[0] | l->default_objects[1]) != 0;
}

static void
limited_update(struct pool_ds *ds)
{
	bool limited = ds->account_limits != NULL && has_any(ds->account_limits) &&
		       atomic_load(&ds->accounts_next) == ACCOUNTS_ALL &&
		       !atomic_load(&ds->accounts_spoilt) && !ds->is_mos;

	atomic_store(&ds->accounts_limited, limited);
}

void
account_limits_free(struct pool_ds *ds)
{
	struct account_limits *l = ds->account_limits;

	for (uint32_t i = 0; l != NULL && i < BUCKETS; i++) {
		while (l->buckets[i] != NULL) {
			struct account *a = l->buckets[i];

			l->buckets[i] = a->next;
			mem_free(a);
		}
	}
	if (l != NULL) {
		mem_free(l->v);
	}
	mem_free(l);
	ds->account_limits = NULL;
}

/* ---- what the syncing fiber says ---- */

static void
account_follow(struct account_limits *l, const struct account_delta *d)
{
	for (unsigned kind = 0; kind < 2; kind++) {
		struct account *a = *account_at(l, (enum pool_account_kind)kind, d->id);

		if (a != NULL && a->loaded) {
			a->sectors += (uint64_t)d->by[2 * kind];
			a->objects += (uint64_t)d->by[2 * kind + 1];
		}
	}
}

void
account_limits_publish(
    struct pool_ds *ds, const struct tree *fresh, uint64_t next, const struct account_deltas *d)
{
	struct account_limits *l;

	spin_lock(&ds->account_lock);
	ds->accounts = *fresh;
	atomic_store(&ds->accounts_next, next);
	l = ds->account_limits;
	if (l != NULL) {
		l->seq++;
		for (uint32_t i = 0; d != NULL && i < d->count; i++) {
			account_follow(l, &d->v[i]);
		}
		for (uint32_t i = 0; d == NULL && i < BUCKETS; i++) {
			for (struct account *a = l->buckets[i]; a != NULL; a = a->next) {
				a->loaded = false;
			}
		}
	}
	limited_update(ds);
	spin_unlock(&ds->account_lock);
}

void
account_limits_pause(struct pool_ds *ds)
{
	spin_lock(&ds->account_lock);
	limited_update(ds);
	spin_unlock(&ds->account_lock);
}

static void
account_landed(struct account *a, unsigned slot)
{
	a->inflight -= a->landing[slot];
	a->inflight_objects -= a->landing_objects[slot];
	a->landing[slot] = a->landing_objects[slot] = 0;
}

void
account_limits_landed(struct pool_ds *ds, uint64_t txg)
{
	struct account_limits *l;

	spin_lock(&ds->account_lock);
	l = ds->account_limits;
	for (uint32_t i = 0; l != NULL && l->account_count > 0 && i < BUCKETS; i++) {
		struct account **at = &l->buckets[i];

		while (*at != NULL) {
			struct account *a = *at;

			account_landed(a, TXG_SLOT(txg));
			if (l->account_count > KEEP_MAX && a->refs == 0 && a->inflight == 0 &&
			    a->inflight_objects == 0) {
				*at = a->next;
				l->account_count--;
				mem_free(a);
			} else {
				at = &a->next;
			}
		}
	}
	spin_unlock(&ds->account_lock);
}

/* ---- an account, loaded ---- */

static void
account_put(struct pool_ds *ds, struct account *a)
{
	spin_lock(&ds->account_lock);
	a->refs--;
	spin_unlock(&ds->account_lock);
}

static int
account_load(struct pool_ds *ds, struct account *a)
{
	for (;;) {
		struct account_limits *l = ds->account_limits;
		struct account_entry e;
		bool group = a->kind == POOL_ACCOUNT_GROUP;
		uint64_t seq;
		bool loaded;
		int err;

		spin_lock(&ds->account_lock);
		loaded = a->loaded;
		seq = l->seq;
		spin_unlock(&ds->account_lock);
		if (loaded) {
			return 0;
		}
		err = accounts_read(ds, a->id, &e);
		if (err != 0) {
			return err;
		}
		spin_lock(&ds->account_lock);
		if (!a->loaded && l->seq == seq) {
			a->sectors = le64_get(group ? e.group_sectors : e.user_sectors);
			a->objects = le64_get(group ? e.group_objects : e.user_objects);
			a->loaded = true;
		}
		spin_unlock(&ds->account_lock);
	}
}

/* Room for one more in a chain: those that nobody uses go, once there are too many. A pool at rest
 * has no txg that lands, and whoever asks may have a new number each time. Under account_lock. */
static void
chain_trim(struct account_limits *l, struct account **at)
{
	while (*at != NULL && l->account_count >= KEEP_MAX) {
		struct account *a = *at;

		if (a->refs == 0 && a->inflight == 0 && a->inflight_objects == 0) {
			*at = a->next;
			l->account_count--;
			mem_free(a);
		} else {
			at = &a->next;
		}
	}
}

/* A reference; NULL: no quota applies. */
static int
account_get(struct pool_ds *ds, enum pool_account_kind kind, uint32_t id, struct account **out)
{
	struct account *fresh = mem_zalloc(sizeof(*fresh)), *a = NULL;
	struct account_limits *l;
	struct account_limit limit;
	int err = 0;

	*out = NULL;
	if (fresh == NULL) {
		return -ENOMEM;
	}
	*fresh = (struct account){.kind = kind, .id = id};
	spin_lock(&ds->account_lock);
	l = ds->account_limits;
	limit = limit_of(l, kind, id);
	if ((limit.sectors | limit.objects) != 0) {
		struct account **at = account_at(l, kind, id);

		if (*at == NULL) {
			chain_trim(l, &l->buckets[(id * 2 + (uint32_t)kind) % BUCKETS]);
			at = account_at(l, kind, id);
			account_limit_set(l, fresh);
			*at = fresh;
			l->account_count++;
			fresh = NULL;
		}
		a = *at;
		a->refs++;
	}
	spin_unlock(&ds->account_lock);
	mem_free(fresh);
	if (a != NULL) {
		err = account_load(ds, a);
		if (err != 0) {
			account_put(ds, a);
			a = NULL;
			/* damaged: no quota holds until they are counted anew */
			err = atomic_load(&ds->accounts_spoilt) ? 0 : err;
		}
	}
	*out = a;
	return err;
}

/* ---- transactions; under account_lock ---- */

static void
charge(const struct pool_tx *tx, uint64_t sectors, bool back)
{
	for (unsigned i = 0; i < 2; i++) {
		struct account *a = tx->account[i];

		if (a != NULL) {
			a->inflight += back ? -sectors : sectors;
			a->inflight_objects +=
			    back ? -(uint64_t)tx->new_objects : (uint64_t)tx->new_objects;
		}
	}
}

/* mine: what of the in-flight figures is tx's own. */
static bool
fits_one(const struct account *a, const struct pool_tx *tx, uint64_t grow, bool settled)
{
	bool blind = settled || DELIBERATE_BUG("pool-account-quota-unseen");
	uint64_t mine = tx->need_sectors + tx->moved_sectors;
	uint64_t others = blind ? 0 : a->inflight - mine;
	uint64_t other_objects = blind ? 0 : a->inflight_objects - tx->new_objects;

	if (a->quota_sectors != 0 && a->sectors + others + grow > a->quota_sectors) {
		return false;
	}
	return a->quota_objects == 0 || tx->new_objects == 0 ||
	       a->objects + other_objects + tx->new_objects <= a->quota_objects;
}

static bool
fits(const struct pool_tx *tx, uint64_t grow, bool settled)
{
	for (unsigned i = 0; i < 2; i++) {
		if (tx->account[i] != NULL && !fits_one(tx->account[i], tx, grow, settled)) {
			return false;
		}
	}
	return true;
}

static bool
is_busy(const struct pool_tx *tx)
{
	return (tx->account[0] != NULL && tx->account[0]->inflight > 0) ||
	       (tx->account[1] != NULL && tx->account[1]->inflight > 0);
}

static void
accounts_put(struct pool_tx *tx)
{
	for (unsigned i = 0; i < 2; i++) {
		if (tx->account[i] != NULL) {
			account_put(tx->ds, tx->account[i]);
			tx->account[i] = NULL;
		}
	}
}

/* As wait_to_know of limits.c. */
static int
wait_to_know(struct pool_tx *tx, bool busy, bool settled, unsigned *turns)
{
	struct txgs *t = tx->p->txgs;
	uint64_t open = txg_open(t);
	bool used =
	    atomic_load(&t->first_use_ns[TXG_SLOT(open)]) != 0 || atomic_load(&t->syncing) != 0;

	if (*turns >= DQUOT_TXGS || (!used && !busy)) {
		return -EDQUOT;
	}
	*turns += !settled;
	return txg_wait(t, open);
}

int
account_limits_begin(struct pool_tx *tx, const struct pool_need *need)
{
	struct pool_ds *ds = tx->ds;
	uint64_t grow = space_sectors_for(tx->p, need->grow_bytes, RECORD_BYTES);
	unsigned turns = 0;
	int err = 0;

	tx->new_objects = need->new_objects;
	tx->moved_sectors = space_data_sectors(tx->p, need->moved_bytes);
	if ((need->owned & POOL_OWNED_UID) != 0) {
		err = account_get(ds, POOL_ACCOUNT_USER, need->uid, &tx->account[0]);
	}
	if (err == 0 && (need->owned & POOL_OWNED_GID) != 0) {
		err = account_get(ds, POOL_ACCOUNT_GROUP, need->gid, &tx->account[1]);
	}
	grow += tx->moved_sectors;
	while (err == 0) {
		bool ok, busy, settled;

		spin_lock(&ds->account_lock);
		charge(tx, tx->need_sectors + tx->moved_sectors, false);
		ok = fits(tx, grow, false);
		if (!ok) {
			charge(tx, tx->need_sectors + tx->moved_sectors, true);
		}
		busy = is_busy(tx);
		settled = ok || fits(tx, grow, true);
		spin_unlock(&ds->account_lock);
		if (ok) {
			return 0;
		}
		err = wait_to_know(tx, busy, settled, &turns);
	}
	accounts_put(tx);
	return err;
}

void
account_limits_cancel(struct pool_tx *tx)
{
	if (tx->account[0] == NULL && tx->account[1] == NULL) {
		return;
	}
	spin_lock(&tx->ds->account_lock);
	charge(tx, tx->need_sectors + tx->moved_sectors, true);
	spin_unlock(&tx->ds->account_lock);
	accounts_put(tx);
}

void
account_limits_end(struct pool_tx *tx, uint64_t dirtied)
{
	unsigned slot = TXG_SLOT(tx->txg);

	if (tx->account[0] == NULL && tx->account[1] == NULL) {
		return;
	}
	spin_lock(&tx->ds->account_lock);
	charge(tx, tx->need_sectors + tx->moved_sectors, true);
	/* whatever became of it: too much for a txg is no harm */
	charge(tx, dirtied + tx->moved_sectors, false);
	for (unsigned i = 0; i < 2; i++) {
		if (tx->account[i] != NULL) {
			tx->account[i]->landing[slot] += dirtied + tx->moved_sectors;
			tx->account[i]->landing_objects[slot] += tx->new_objects;
		}
	}
	spin_unlock(&tx->ds->account_lock);
	accounts_put(tx);
}

/* ---- asking and setting ---- */

static int
limits_copy(const struct pool *p, const struct pool_account_limits *from, struct account_limits *to)
{
	to->v = mem_zalloc_array(from->count + 1, sizeof(*to->v));
	if (to->v == NULL) {
		return -ENOMEM;
	}
	to->count = from->count;
	for (uint32_t i = 0; i < from->count; i++) {
		to->v[i] = (struct account_limit){.kind = from->v[i].kind,
		    .id = from->v[i].id,
		    .sectors = space_limit_sectors(p, from->v[i].bytes),
		    .objects = from->v[i].objects};
	}
	for (unsigned kind = 0; kind < 2; kind++) {
		to->default_sectors[kind] = space_limit_sectors(p, from->default_bytes[kind]);
		to->default_objects[kind] = from->default_objects[kind];
	}
	return 0;
}

/* Under account_lock; the accounts in memory stay. Returns what to free. */
static struct account_limit *
limits_replace(struct account_limits *l, struct account_limits *fresh)
{
	struct account_limit *old = l->v;

	l->v = fresh->v;
	l->count = fresh->count;
	memcpy(l->default_sectors, fresh->default_sectors, sizeof(l->default_sectors));
	memcpy(l->default_objects, fresh->default_objects, sizeof(l->default_objects));
	for (uint32_t i = 0; i < BUCKETS; i++) {
		for (struct account *a = l->buckets[i]; a != NULL; a = a->next) {
			account_limit_set(l, a);
		}
	}
	return old;
}

int
pool_ds_set_account_limits(struct pool_ds *ds, const struct pool_account_limits *limits)
{
	struct account_limits *fresh = mem_zalloc(sizeof(*fresh));
	struct account_limit *old = NULL;
	int err = fresh == NULL ? -ENOMEM : limits_copy(ds->p, limits, fresh);

	if (err != 0) {
		mem_free(fresh);
		return err;
	}
	spin_lock(&ds->account_lock);
	if (ds->account_limits != NULL) {
		old = limits_replace(ds->account_limits, fresh);
	} else if (has_any(fresh)) {
		ds->account_limits = fresh;
		fresh = NULL;
	} else {
		old = fresh->v;
	}
	limited_update(ds);
	spin_unlock(&ds->account_lock);
	mem_free(old);
	mem_free(fresh);
	return 0;
}

int
pool_account_left(struct pool_ds *ds, enum pool_account_kind kind, uint32_t id, uint64_t *out_bytes,
    uint64_t *out_objects)
{
	struct account *a;
	int err;

	*out_bytes = *out_objects = UINT64_MAX;
	if (!atomic_load(&ds->accounts_limited)) {
		return 0;
	}
	err = account_get(ds, kind, id, &a);
	if (err != 0 || a == NULL) {
		return err;
	}
	spin_lock(&ds->account_lock);
	if (a->quota_sectors != 0) {
		*out_bytes =
		    space_data_bytes(ds->p, a->quota_sectors - MIN(a->quota_sectors, a->sectors));
	}
	if (a->quota_objects != 0) {
		*out_objects = a->quota_objects - MIN(a->quota_objects, a->objects);
	}
	a->refs--;
	spin_unlock(&ds->account_lock);
	return 0;
}
