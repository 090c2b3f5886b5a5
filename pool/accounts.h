/* accounts.h - what each user and group has in an objset, and their quotas. Private to pool/. Theory: accounts.c, account_limits.c. */
#ifndef AGATE_POOL_ACCOUNTS_H
#define AGATE_POOL_ACCOUNTS_H

#include "pool/dataset.h"

#define ACCOUNTS_ALL UINT64_MAX

/* One entry's change in a txg; by position in struct account_entry: sectors and objects of the user, of the group. */
struct account_delta {
	uint32_t id;
	bool used;
	int64_t by[4];
};

/* What a txg changes; the syncing fiber's. A hash table. */
struct account_deltas {
	struct account_delta *v;
	uint32_t count, cap;
};

static inline uint32_t
account_uid(const struct object_slot *s)
{
	return le32_get(*(const struct le32 *)(const void *)(s->bonus + ACCOUNT_UID_OFF));
}

static inline uint32_t
account_gid(const struct object_slot *s)
{
	return le32_get(*(const struct le32 *)(const void *)(s->bonus + ACCOUNT_GID_OFF));
}

bool pool_has_accounts(const struct pool *p);
/* Where a dataset without contents begins. */
uint64_t accounts_first(const struct pool *p, bool is_mos);
/* What a root says. false: it contradicts itself. */
bool accounts_load(struct pool_ds *ds, const struct objset_phys *r) WARN_UNUSED;
void accounts_fill_root(struct pool_ds *ds, struct objset_phys *r);
/* Somebody found them damaged: no quota holds until they are counted anew, from the next txg on. Nothing where there is no next txg. */
void accounts_spoil(struct pool_ds *ds, const char *why);
/* Is there something to be done though nothing has changed? */
bool accounts_are_behind(struct pool_ds *ds);

/* The syncing fiber, in this order. Before what was cut off is freed: accounts found damaged are given up, to be counted anew. */
void accounts_begin_txg(struct pool_ds *ds, uint64_t txg) MAY_PARK;
/* A slot of the table becomes another one. */
void accounts_note(struct pool_ds *ds, struct account_deltas *d, uint64_t number, const struct object_slot *old,
    const struct object_slot *fresh) MAY_PARK;
/* For a check: what a slot has, and what a block of the accounts says of that, taken away. */
void accounts_count_slot(struct account_deltas *d, const struct object_slot *slot) MAY_PARK;
void accounts_count_block(struct account_deltas *d, uint64_t block, const struct account_entry *e) MAY_PARK;
/* The new table is there: counts on where counting isn't done, writes all changes down. Empties d. *out_left: there is more to count. */
int accounts_sync(struct pool_ds *ds, uint64_t txg, struct account_deltas *d, bool *out_left) WARN_UNUSED MAY_PARK;

/* One entry as of the newest table; zeros where there is none. 0; errors of reading (after damage they are counted anew). */
int accounts_read(struct pool_ds *ds, uint32_t id, struct account_entry *out) WARN_UNUSED MAY_PARK;

/* ---- account_limits.c ---- */
void account_limits_free(struct pool_ds *ds);
/* The new tree is published together with what it changes in memory. Under no lock. */
void account_limits_publish(struct pool_ds *ds, const struct tree *fresh, uint64_t next, const struct account_deltas *d);
/* They were found damaged: no quota holds until the next table. Under no lock. */
void account_limits_pause(struct pool_ds *ds);
/* May tx, which begins, grow? Only while accounts_limited. Then it counts until it has landed. 0; -EDQUOT; errors of reading; -ERR_SUSPENDED. */
int account_limits_begin(struct pool_tx *tx, const struct pool_need *need) WARN_UNUSED MAY_PARK;
void account_limits_cancel(struct pool_tx *tx);
void account_limits_end(struct pool_tx *tx, uint64_t dirtied);
/* The syncing fiber: txg is committed. */
void account_limits_landed(struct pool_ds *ds, uint64_t txg);

#endif
