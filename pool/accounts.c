/*
 * accounts.c - what each user and group has in an objset.
 *
 *	account(u) = sum of used_sectors of all slots of the object table that belong to u, and
 *	             how many they are
 *
 * That is a function of the object table alone, and both change in one step: while the syncing
 * fiber puts the new slots of a txg into table blocks it has the old ones before it, so the
 * difference is known exactly, whatever the operation was. It gathers by owner and is then written
 * once for each, to a tree of its own beside the table's in the objset root; so snapshots, clones,
 * rollback and promotion have it like everything else below a root. A destroyed object leaves its
 * account at once, a truncated range when it is freed: the same as its used_sectors say.
 *
 * Objsets from before there were accounts: accounts_next is the number up to which slots are
 * counted (not including it). Each txg counts the slots of a few more table blocks, after its own
 * changes; a change of a slot behind that isn't noted. So every root has the invariant for slots
 * below its accounts_next, and counting goes on where the newest root says, after a crash or in a
 * clone of an older snapshot too.
 *
 * A block of the tree that can't be read any more, or a sum that would fall below zero, means that
 * all is counted anew: the tree is cut off at the beginning of the next txg. A root written before
 * that says so: it has a tree of which nothing is counted (accounts_next 0).
 */
#include "pool/accounts.h"

#include <stdlib.h>

#include "pool/object.h"

#define SLOTS_PER_BLOCK (OBJECT_TABLE_BLOCK_BYTES / OBJECT_SLOT_BYTES)
#define WALK_BUDGET \
	32768 /* a txg: of table blocks that aren't there, or 64 times fewer that are \
	       */
#define WALK_BLOCK_COST 64
#define WRITE_BATCH 32u
#define DELTAS_MIN 64u

bool
pool_has_accounts(const struct pool *p)
{
	return (p->v.feat_rocompat & FEATURE_RO_ACCOUNTS) != 0;
}

uint64_t
accounts_first(const struct pool *p, bool is_mos)
{
	return !is_mos && pool_has_accounts(p) ? ACCOUNTS_ALL : 0;
}

bool
accounts_load(struct pool_ds *ds, const struct objset_phys *r)
{
	const struct object_slot *slot = &r->accounts;

	ds->accounts = (struct tree){.levels = 1};
	atomic_store(&ds->accounts_next,
	    pool_has_accounts(ds->p) && !ds->is_mos ? le64_get(r->accounts_next) : 0);
	if (slot->type == OBJ_FREE) {
		return true;
	}
	if (ds->is_mos || !pool_has_accounts(ds->p) || slot->type != OBJ_ACCOUNTS ||
	    le32_get(slot->block_bytes) != ACCOUNT_BLOCK_BYTES ||
	    !tree_is_valid(ds->p, &slot->data, slot->levels)) {
		return false;
	}
	ds->accounts = (struct tree){.root = slot->data,
	    .levels = slot->levels,
	    .used_sectors = le64_get(slot->used_sectors)};
	atomic_store(
	    &ds->accounts_spoilt, !bp_is_hole(&slot->data) && atomic_load(&ds->accounts_next) == 0);
	return true;
}

void
accounts_fill_root(struct pool_ds *ds, struct objset_phys *r)
{
	r->accounts_next =
	    le64_of(atomic_load(&ds->accounts_spoilt) ? 0 : atomic_load(&ds->accounts_next));
	if (bp_is_hole(&ds->accounts.root)) {
		return;
	}
	r->accounts.type = OBJ_ACCOUNTS;
	r->accounts.levels = ds->accounts.levels;
	r->accounts.block_bytes = le32_of(ACCOUNT_BLOCK_BYTES);
	r->accounts.used_sectors = le64_of(ds->accounts.used_sectors);
	r->accounts.data = ds->accounts.root;
}

bool
accounts_are_behind(struct pool_ds *ds)
{
	return !ds->is_mos && pool_has_accounts(ds->p) &&
	       (atomic_load(&ds->accounts_spoilt) ||
		   atomic_load(&ds->accounts_next) != ACCOUNTS_ALL);
}

void
accounts_spoil(struct pool_ds *ds, const char *why)
{
	if (ds->p->readonly || pool_ds_is_snap(ds) || atomic_exchange(&ds->accounts_spoilt, true)) {
		return;
	}
	log_error("accounts_spoilt pool=%s dataset=%016llx why=%s", ds->p->name,
	    (unsigned long long)ds->guid, why);
	account_limits_pause(ds);
	txg_want(ds->p->txgs, txg_open(ds->p->txgs));
}

static bool
is_damage(int err)
{
	return err == -ERR_CKSUM || err == -ERR_CORRUPT;
}

/* ---- what a txg changes ---- */

static uint32_t
delta_hash(uint32_t id)
{
	return (id * 0x9e3779b1u) >> 7;
}

static struct account_delta *
delta_slot(struct account_delta *v, uint32_t cap, uint32_t id)
{
	uint32_t at = delta_hash(id) & (cap - 1);

	while (v[at].used && v[at].id != id) {
		at = (at + 1) & (cap - 1);
	}
	return &v[at];
}

static void
deltas_grow(struct account_deltas *d)
{
	uint32_t cap = MAX(d->cap * 2, DELTAS_MIN);
	struct account_delta *v = pool_must_alloc(cap * sizeof(*v));

	for (uint32_t i = 0; i < d->cap; i++) {
		if (d->v[i].used) {
			*delta_slot(v, cap, d->v[i].id) = d->v[i];
		}
	}
	mem_free(d->v);
	d->v = v;
	d->cap = cap;
}

static struct account_delta *
delta_of(struct account_deltas *d, uint32_t id)
{
	struct account_delta *at;

	if (d->count * 2 >= d->cap) {
		deltas_grow(d);
	}
	at = delta_slot(d->v, d->cap, id);
	if (!at->used) {
		at->used = true;
		at->id = id;
		d->count++;
	}
	return at;
}

struct charge {
	uint32_t uid, gid;
	int64_t sectors, objects;
};

static struct charge
charge_of(const struct object_slot *s)
{
	struct charge c = {0};

	if (s->type >= OBJ_FILE) {
		c.uid = account_uid(s);
		c.gid = account_gid(s);
		c.sectors = (int64_t)le64_get(s->used_sectors);
		c.objects = 1;
	}
	return c;
}

static void
delta_add(struct account_deltas *d, uint32_t uid, uint32_t gid, int64_t sectors, int64_t objects)
{
	struct account_delta *at;

	if (sectors == 0 && objects == 0) {
		return;
	}
	at = delta_of(d, uid);
	at->by[0] += sectors;
	at->by[1] += objects;
	at = delta_of(d, gid);
	at->by[2] += sectors;
	at->by[3] += objects;
}

static void
slots_note(struct account_deltas *d, const struct object_slot *old, const struct object_slot *fresh)
{
	struct charge was = charge_of(old), is = charge_of(fresh);

	if (was.objects > 0 && is.objects > 0 &&
	    ((was.uid == is.uid && was.gid == is.gid) ||
		DELIBERATE_BUG("pool-account-chown-forgotten"))) {
		delta_add(d, was.uid, was.gid, is.sectors - was.sectors, 0);
		return;
	}
	delta_add(d, was.uid, was.gid, -was.sectors, -was.objects);
	delta_add(d, is.uid, is.gid, is.sectors, is.objects);
}

void
accounts_note(struct pool_ds *ds, struct account_deltas *d, uint64_t number,
    const struct object_slot *old, const struct object_slot *fresh)
{
	if (number < atomic_load(&ds->accounts_next) && !ds->is_mos && pool_has_accounts(ds->p)) {
		slots_note(d, old, fresh);
	}
}

void
accounts_count_slot(struct account_deltas *d, const struct object_slot *slot)
{
	static const struct object_slot none;

	slots_note(d, &none, slot);
}

void
accounts_count_block(struct account_deltas *d, uint64_t block, const struct account_entry *e)
{
	for (uint32_t i = 0; i < ACCOUNTS_PER_BLOCK; i++) {
		uint64_t f[4] = {le64_get(e[i].user_sectors), le64_get(e[i].user_objects),
		    le64_get(e[i].group_sectors), le64_get(e[i].group_objects)};
		struct account_delta *at;

		if ((f[0] | f[1] | f[2] | f[3]) == 0) {
			continue;
		}
		at = delta_of(d, (uint32_t)(block * ACCOUNTS_PER_BLOCK + i));
		for (unsigned k = 0; k < 4; k++) {
			at->by[k] -= (int64_t)f[k];
		}
	}
}

/* ---- counting what was there before ---- */

/* One table block. */
static int
walk_block(struct pool_ds *ds, const struct bp *bp, struct account_deltas *d)
{
	const struct object_slot *slots;
	struct iobuf *buf;
	int err = sync_block_try(ds->p, bp, OBJECT_TABLE_BLOCK_BYTES, &buf);

	if (err != 0) {
		return err;
	}
	slots = (const struct object_slot *)(const void *)buf->data;
	for (uint32_t i = DELIBERATE_BUG("pool-account-walk-skips") ? 4 : 0; i < SLOTS_PER_BLOCK;
	     i++) {
		accounts_count_slot(d, &slots[i]);
	}
	iobuf_unref(buf);
	fiber_maybe_yield();
	return 0;
}

/* The next one; what nobody can read counts for nobody. */
static int
walk_step(struct pool_ds *ds, uint64_t block, struct account_deltas *d, int *budget)
{
	struct bp bp;
	int err = sync_tree_try(ds->p, &ds->table, block, &bp);

	--*budget;
	if (err == 0 && bp_is_hole(&bp)) {
		return 0;
	}
	*budget -= WALK_BLOCK_COST;
	err = err != 0 ? err : walk_block(ds, &bp, d);
	if (is_damage(err)) {
		log_limited(LOG_ERROR, "accounts_table_unreadable pool=%s dataset=%016llx",
		    ds->p->name, (unsigned long long)ds->guid);
		err = 0;
	}
	return err;
}

/* From *next on, which moves. Numbers at or behind the end were made in a txg still open. */
static int
walk(struct pool_ds *ds, struct account_deltas *d, uint64_t *next)
{
	int budget = BUGGIFY("pool-accounts-slowly") ? WALK_BLOCK_COST : WALK_BUDGET;
	uint64_t end;
	int err = 0;

	spin_lock(&ds->number_lock);
	end = ds->next_object;
	spin_unlock(&ds->number_lock);
	while (err == 0 && budget > 0 && *next < end) {
		err = walk_step(ds, *next / SLOTS_PER_BLOCK, d, &budget);
		*next += SLOTS_PER_BLOCK;
	}
	if (*next >= end) {
		*next = ACCOUNTS_ALL;
	}
	return err;
}

/* ---- writing ---- */

void
accounts_begin_txg(struct pool_ds *ds, uint64_t txg)
{
	struct tree none = {.levels = 1};

	if (!atomic_exchange(&ds->accounts_spoilt, false)) {
		return;
	}
	cuts_add(ds, &ds->accounts.root, 0, 0);
	bp_set_hole(&none.root, txg);
	account_limits_publish(ds, &none, 0, NULL);
}

/* The old contents of a block in a new buffer. -ERR_CORRUPT: they are lost. */
static int
block_open(struct pool_ds *ds, uint64_t block, struct iobuf **out)
{
	struct iobuf *buf, *old = NULL;
	struct bp bp;
	int err = sync_tree_try(ds->p, &ds->accounts, block, &bp);

	if (err == 0 && !bp_is_hole(&bp)) {
		err = sync_block_try(ds->p, &bp, ACCOUNT_BLOCK_BYTES, &old);
	}
	if (err != 0) {
		return is_damage(err) ? -ERR_CORRUPT : err;
	}
	err = iobuf_alloc(ACCOUNT_BLOCK_BYTES, ARENA_SYNC, &buf);
	if (err == 0 && old == NULL) {
		memset(buf->data, 0, ACCOUNT_BLOCK_BYTES);
	} else if (err == 0) {
		memcpy(buf->data, old->data, ACCOUNT_BLOCK_BYTES);
	}
	iobuf_unref(old);
	*out = buf;
	return err;
}

static bool
field_add(struct le64 *field, int64_t by)
{
	uint64_t was = le64_get(*field), is = was + (uint64_t)by;

	*field = le64_of(is);
	return by < 0 ? is < was : is >= was;
}

static bool
entry_add(struct account_entry *e, const struct account_delta *d)
{
	return field_add(&e->user_sectors, d->by[0]) && field_add(&e->user_objects, d->by[1]) &&
	       field_add(&e->group_sectors, d->by[2]) && field_add(&e->group_objects, d->by[3]);
}

static void
write_fill(struct iobuf *buf, struct bp *out, struct block_write *w)
{
	*w = (struct block_write){
	    .data = buf,
	    .logical_bytes = ACCOUNT_BLOCK_BYTES,
	    .type = OBJ_ACCOUNTS,
	    .compress = BP_COMPRESS_LZ4,
	    .cksum = BP_CKSUM_XXH3,
	    .copies = 2,
	    .may_embed = true,
	    .fill = 1,
	    .out = out,
	};
}

/* Blocks for v[*pos...], sorted by id, at most WRITE_BATCH. */
static int
batch_write(struct pool_ds *ds, uint64_t txg, const struct account_deltas *d, uint32_t *pos,
    struct tree_leaf *leaves, uint32_t *leaf_count)
{
	struct block_write *w = pool_must_alloc(WRITE_BATCH * sizeof(*w));
	struct tree_leaf *first = &leaves[*leaf_count];
	uint32_t n = 0;
	int err = 0;

	while (n < WRITE_BATCH && *pos < d->count && err == 0) {
		uint64_t block = d->v[*pos].id / ACCOUNTS_PER_BLOCK;
		struct account_entry *e;
		struct iobuf *buf;

		err = block_open(ds, block, &buf);
		if (err != 0) {
			break;
		}
		e = (struct account_entry *)(void *)buf->data;
		while (*pos < d->count && d->v[*pos].id / ACCOUNTS_PER_BLOCK == block) {
			const struct account_delta *one = &d->v[(*pos)++];

			err = entry_add(&e[one->id % ACCOUNTS_PER_BLOCK], one) ? err : -ERR_CORRUPT;
		}
		first[n].block = block;
		write_fill(buf, &first[n].bp, &w[n]);
		n++;
	}
	if (err == 0) {
		err = block_write(ds->p, txg, w, n);
		*leaf_count += n;
	}
	for (uint32_t i = 0; i < n; i++) {
		first[i].sectors = w[i].sectors;
		iobuf_unref(w[i].data);
	}
	mem_free(w);
	return err;
}

static int
delta_order(const void *a, const void *b)
{
	const struct account_delta *x = a, *y = b;

	return x->id < y->id ? -1 : x->id > y->id;
}

/* Without the empty places, by id. */
static void
deltas_sort(struct account_deltas *d)
{
	uint32_t n = 0;

	for (uint32_t i = 0; i < d->cap; i++) {
		if (d->v[i].used &&
		    (d->v[i].by[0] | d->v[i].by[1] | d->v[i].by[2] | d->v[i].by[3]) != 0) {
			d->v[n++] = d->v[i];
		}
	}
	d->count = n;
	if (n > 0) {
		qsort(d->v, n, sizeof(*d->v), delta_order);
	}
}

/* Nothing is changed when a block can't be: what was written meanwhile is given back. */
static int
deltas_write(struct pool_ds *ds, uint64_t txg, const struct account_deltas *d, struct tree *fresh)
{
	struct tree_owner owner = {
	    .ds = ds, .txg = txg, .type = OBJ_ACCOUNTS, .copies = 2, .cksum = BP_CKSUM_XXH3};
	struct tree_leaf *leaves = pool_must_alloc((d->count + 1) * sizeof(*leaves));
	uint32_t pos = 0, count = 0;
	int err = 0;

	while (pos < d->count && err == 0) {
		err = batch_write(ds, txg, d, &pos, leaves, &count);
	}
	if (err == 0 && count > 0) {
		err = tree_update(&owner, fresh, leaves, count, NULL, 0);
	} else if (err == -ERR_CORRUPT) {
		for (uint32_t i = 0; i < count; i++) {
			(void)block_free(ds->p, txg, &leaves[i].bp);
		}
	}
	mem_free(leaves);
	return err;
}

int
accounts_sync(struct pool_ds *ds, uint64_t txg, struct account_deltas *d, bool *out_left)
{
	uint64_t next = atomic_load(&ds->accounts_next);
	struct tree fresh = ds->accounts;
	int err = 0;

	*out_left = false;
	if (ds->is_mos || !pool_has_accounts(ds->p)) {
		return 0;
	}
	if (next != ACCOUNTS_ALL) {
		err = walk(ds, d, &next);
	}
	deltas_sort(d);
	err = err != 0 ? err : deltas_write(ds, txg, d, &fresh);
	if (err == 0) {
		account_limits_publish(ds, &fresh, next, d);
	} else if (err == -ERR_CORRUPT) {
		accounts_spoil(ds, "damaged");
		err = 0;
	}
	mem_free(d->v);
	*d = (struct account_deltas){0};
	*out_left = accounts_are_behind(ds);
	return err;
}

/* ---- reading ---- */

static struct tree
tree_now(struct pool_ds *ds)
{
	struct tree t;

	spin_lock(&ds->account_lock);
	t = ds->accounts;
	spin_unlock(&ds->account_lock);
	return t;
}

int
accounts_read(struct pool_ds *ds, uint32_t id, struct account_entry *out)
{
	uint64_t token = space_read_enter(ds->p->space);
	struct tree t = tree_now(ds);
	struct iobuf *buf;
	struct bp bp;
	int err = tree_lookup(ds->p, &t, 0, id / ACCOUNTS_PER_BLOCK, NULL, &bp);

	memset(out, 0, sizeof(*out));
	if (err == 0 && !bp_is_hole(&bp)) {
		err = block_read_sized(ds->p, &bp, ACCOUNT_BLOCK_BYTES, &buf);
		if (err == 0) {
			*out = ((const struct account_entry *)(const void *)
				    buf->data)[id % ACCOUNTS_PER_BLOCK];
			iobuf_unref(buf);
		}
	}
	space_read_exit(ds->p->space, token);
	if (is_damage(err)) {
		accounts_spoil(ds, "unreadable");
	}
	return err;
}

int
pool_accounts_state(struct pool_ds *ds, unsigned *out_percent)
{
	uint64_t next = atomic_load(&ds->accounts_next), end;

	*out_percent = 100;
	if (!pool_has_accounts(ds->p)) {
		return -ERR_FEATURE;
	}
	if (atomic_load(&ds->accounts_spoilt)) {
		next = 0;
	}
	if (next == ACCOUNTS_ALL) {
		return 0;
	}
	spin_lock(&ds->number_lock);
	end = MAX(ds->next_object, (uint64_t)1);
	spin_unlock(&ds->number_lock);
	*out_percent = (unsigned)(MIN(next, end) * 99 / end);
	return -EAGAIN;
}

int
pool_account_get(
    struct pool_ds *ds, enum pool_account_kind kind, uint32_t id, struct pool_account *out)
{
	struct account_entry e;
	int err = accounts_read(ds, id, &e);
	bool group = kind == POOL_ACCOUNT_GROUP;

	*out = (struct pool_account){.id = id,
	    .bytes = space_data_bytes(ds->p, le64_get(group ? e.group_sectors : e.user_sectors)),
	    .objects = le64_get(group ? e.group_objects : e.user_objects)};
	return err;
}

struct each {
	struct pool_ds *ds;
	enum pool_account_kind kind;
	int (*fn)(void *arg, const struct pool_account *a);
	void *arg;
};

static int
each_entry(const struct each *x, const struct iobuf *buf, uint64_t block)
{
	const struct account_entry *e = (const struct account_entry *)(const void *)buf->data;
	bool group = x->kind == POOL_ACCOUNT_GROUP;
	int err = 0;

	for (uint32_t i = 0; i < ACCOUNTS_PER_BLOCK && err == 0; i++) {
		uint64_t sectors = le64_get(group ? e[i].group_sectors : e[i].user_sectors);
		struct pool_account a = {.id = (uint32_t)(block * ACCOUNTS_PER_BLOCK + i),
		    .bytes = space_data_bytes(x->ds->p, sectors),
		    .objects = le64_get(group ? e[i].group_objects : e[i].user_objects)};

		if ((sectors | a.objects) != 0) {
			err = x->fn(x->arg, &a);
		}
	}
	return err;
}

static int
each_node(const struct each *x, const struct bp *bp, unsigned level, uint64_t index)
{
	const struct bp *kids;
	struct bp_prop prop;
	struct iobuf *buf;
	int err;

	if (bp_is_hole(bp)) {
		return 0;
	}
	err = bp_decode(bp, x->ds->p->v.set_count, &prop);
	if (err != 0 || prop.level != level ||
	    prop.logical_bytes != (level > 0 ? INDIRECT_BYTES : ACCOUNT_BLOCK_BYTES)) {
		return -ERR_CORRUPT;
	}
	err = block_read(x->ds->p, bp, BLOCK_READ_META, &buf);
	if (err != 0) {
		return err;
	}
	kids = (const struct bp *)(const void *)buf->data;
	if (level == 0) {
		err = each_entry(x, buf, index);
	}
	for (uint64_t i = 0; level > 0 && i < INDIRECT_FANOUT && err == 0; i++) {
		err = each_node(x, &kids[i], level - 1, (index << INDIRECT_SHIFT) + i);
	}
	iobuf_unref(buf);
	fiber_maybe_yield();
	return err;
}

int
pool_accounts_each(struct pool_ds *ds, enum pool_account_kind kind,
    int (*fn)(void *arg, const struct pool_account *a), void *arg)
{
	struct each x = {.ds = ds, .kind = kind, .fn = fn, .arg = arg};
	uint64_t token = space_read_enter(ds->p->space);
	struct tree t = tree_now(ds);
	int err = each_node(&x, &t.root, t.levels - 1u, 0);

	space_read_exit(ds->p->space, token);
	if (is_damage(err)) {
		accounts_spoil(ds, "unreadable");
	}
	return err;
}
