/*
 * tx.c - transactions: what is promised before the first lock is taken.
 *
 * pool_tx_begin reserves, in this order: dirty memory (waits while the pool has too much of it),
 * raw space (refuses; before that it forces txgs, because space may be about to come back), log
 * space (waits until the ring is trimmed), and then joins the open txg. Each buffer that becomes
 * dirty moves from the promise to the txg's own account; pool_tx_end gives the rest back.
 */
#include "pool/accounts.h"
#include "pool/dataset.h"
#include "pool/figures.h"
#include "pool/limits.h"
#include "pool/object.h"
#include "pool/pool_log.h"
#include "pool/txg.h"

#define THROTTLE_STEP_NS (200 * NSEC_PER_USEC)
#define THROTTLE_NS_MAX (100 * NSEC_PER_MSEC)
#define DIRTY_WAIT_NS (100 * NSEC_PER_MSEC)
#define NOSPC_TXGS 3u /* to see whether there is really no room */
#define NOSPC_SLEEP_NS (100 * NSEC_PER_MSEC)
#define NOSPC_TXGS_MAX 100u            /* while enough is coming back */
#define SPACE_RECORD_BYTES (16u * KIB) /* what a need is taken to consist of: dear enough */
#define LOG_FULL_PERCENT 50u
/* For a block's records in the map log, of its own and of the one it replaces, three times; and for
 * its part of the indirect blocks above. */
#define MAP_SECTORS_PER_BLOCK 1u

static uint64_t
dirty_total(struct txgs *t)
{
	uint64_t sum = atomic_load_explicit(&t->reserved_bytes, memory_order_relaxed);

	for (unsigned i = 0; i < TXG_SLOTS; i++) {
		sum += atomic_load_explicit(&t->dirty_bytes[i], memory_order_relaxed);
	}
	return sum;
}

/* Slower and slower from TXG_THROTTLE_PERCENT on, and at the limit until a txg has landed. */
static int
dirty_reserve(struct pool *p, uint32_t bytes)
{
	struct txgs *t = p->txgs;
	uint64_t limit = t->dirty_limit;
	uint64_t start = limit * TXG_THROTTLE_PERCENT / 100;
	uint64_t total = dirty_total(t);

	while (total > 0 && total + bytes > limit) {
		if (atomic_load(&p->suspended) || atomic_load(&p->closing)) {
			return pool_suspended_error(p);
		}
		txg_want(t, txg_open(t));
		mutex_lock(&t->mu);
		if (dirty_total(t) + bytes > limit) {
			(void)cond_wait_until(
			    &t->committed_cond, &t->mu, rt_now_ns() + DIRTY_WAIT_NS);
		}
		mutex_unlock(&t->mu);
		total = dirty_total(t);
	}
	if (total > start && total < limit) {
		fiber_sleep(
		    MIN(THROTTLE_STEP_NS * (total - start) / (limit - total), THROTTLE_NS_MAX));
	}
	atomic_fetch_add(&t->reserved_bytes, bytes);
	return 0;
}

/* Until something may have come back. Not by using up what removing needs: then by itself. */
static int
nospc_wait(struct pool *p)
{
	if (space_may_force(p->space)) {
		return txg_wait(p->txgs, txg_open(p->txgs));
	}
	fiber_sleep(NOSPC_SLEEP_NS);
	return atomic_load(&p->suspended) || atomic_load(&p->closing) ? -ERR_SUSPENDED : 0;
}

/*
 * What only others' reservations hold comes back when they land, however often somebody else is
 * quicker: that isn't a full pool. Nor is one in which enough is being freed; but somebody may take
 * it, so that the turns are counted. Each turn takes a txg in which what was reserved is used or
 * given back, and freed space comes nearer.
 */
static int
sectors_reserve(struct pool *p, const struct space_ask *ask)
{
	int err = space_reserve(p->space, ask);
	unsigned turns = 0, coming_turns = 0;

	while (err == -ENOSPC && turns < NOSPC_TXGS) {
		bool promised = space_is_only_promised(p->space, ask);
		bool coming = coming_turns < NOSPC_TXGS_MAX &&
			      space_is_coming(p->space, ask, figures_freeing(p));
		int wait = nospc_wait(p);

		if (wait != 0) {
			return wait;
		}
		err = space_reserve(p->space, ask);
		coming_turns += !promised && coming;
		turns += !promised && !coming;
	}
	return err;
}

int
tx_room_check(struct pool *p, uint64_t sectors, enum space_level level)
{
	int err = sectors_reserve(p, &(struct space_ask){.sectors = sectors, .level = level});

	if (err == 0) {
		space_unreserve(p->space, sectors);
	}
	return err;
}

static int
tx_may_begin(struct pool_ds *ds)
{
	struct pool *p = ds->p;

	if (p->readonly || pool_ds_is_snap(ds)) {
		return -EROFS;
	}
	if (atomic_load_explicit(&p->suspended, memory_order_relaxed) ||
	    atomic_load_explicit(&p->closing, memory_order_relaxed)) {
		return pool_suspended_error(p);
	}
	return atomic_load(&ds->destroyed) ? -ESTALE : 0;
}

/* What has just been made or rolled back may still be taken back with its txg. */
static int
tx_wait_accept(struct pool_ds *ds)
{
	struct pool *p = ds->p;
	uint64_t txg;

	while ((txg = atomic_load_explicit(&ds->accept_txg, memory_order_relaxed)) != 0) {
		int err = 0;

		if (txg == UINT64_MAX) {
			fiber_sleep(NSEC_PER_MSEC); /* it isn't known yet */
			err = atomic_load(&p->suspended) || atomic_load(&p->closing)
				  ? -ERR_SUSPENDED
				  : 0;
		} else {
			err = txg_wait(p->txgs, txg);
		}
		if (err != 0) {
			return err;
		}
		if (txg != UINT64_MAX) {
			atomic_store(&ds->accept_txg, 0);
		}
	}
	return 0;
}

/* Of datasets, then of users and groups. */
static int
quotas_begin(struct pool_tx *tx, const struct pool_need *need, enum space_level level)
{
	int err = 0;

	if (level == SPACE_GROWS) {
		err = limits_begin(
		    tx, space_sectors_for(tx->p, need->grow_bytes, SPACE_RECORD_BYTES));
	}
	if (err == 0 && level != SPACE_ALL && need->owned != 0 &&
	    atomic_load_explicit(&tx->ds->accounts_limited, memory_order_relaxed)) {
		err = account_limits_begin(tx, need);
		if (err != 0) {
			limits_cancel(tx);
		}
	}
	return err;
}

static int
tx_begin_level(struct pool_ds *ds, const struct pool_need *need, enum space_level level, bool log,
    struct pool_tx **out)
{
	struct pool *p = ds->p;
	struct pool_tx *tx;
	int err = tx_may_begin(ds);

	err = err != 0 ? err : tx_wait_accept(ds);
	if (err != 0) {
		return err;
	}
	tx = mem_zalloc(sizeof(*tx));
	if (tx == NULL) {
		return -ENOMEM;
	}
	tx->p = p;
	tx->ds = ds;
	tx->reactor = rt_reactor_self();
	tx->frees = need->frees;
	tx->need_bytes = need->dirty_bytes;
	tx->moves = (need->new_objects | need->moved_bytes) != 0;
	tx->uid = need->uid, tx->gid = need->gid;
	tx->need_sectors =
	    space_in_pieces(p->space, space_sectors_for(p, need->dirty_bytes, SPACE_RECORD_BYTES));
	err = dirty_reserve(p, need->dirty_bytes);
	if (err != 0) {
		goto free_tx;
	}
	err = quotas_begin(tx, need, level);
	if (err != 0) {
		goto undirty;
	}
	err = sectors_reserve(p, &(struct space_ask){.sectors = tx->need_sectors,
				     .level = level,
				     .blocked = DELIBERATE_BUG("pool-reservation-ignored")
						    ? 0
						    : atomic_load(&ds->limits.blocked)});
	if (err != 0) {
		goto unlimit;
	}
	if (log) {
		err = log_reserve(tx, need);
		if (err != 0) {
			goto unreserve;
		}
	}
	txg_hold_open(p->txgs, tx->reactor, &tx->txg);
	if (atomic_load(&ds->destroyed)) {
		err = -ESTALE;
		goto leave;
	}
	log_tx_joined(tx);
	*out = tx;
	return 0;
leave:
	txg_hold_drop(p->txgs, tx->reactor, tx->txg);
	log_unreserve(tx);
unreserve:
	space_unreserve(p->space, tx->need_sectors);
unlimit:
	account_limits_cancel(tx);
	limits_cancel(tx);
undirty:
	atomic_fetch_sub(&p->txgs->reserved_bytes, need->dirty_bytes);
free_tx:
	mem_free(tx);
	return err;
}

int
pool_tx_begin(struct pool_ds *ds, const struct pool_need *need, struct pool_tx **out)
{
	return tx_begin_level(ds, need, need->frees ? SPACE_FREES : SPACE_GROWS, true, out);
}

int
pool_tx_begin_replay(struct pool_ds *ds, const struct pool_need *need, struct pool_tx **out)
{
	int err = tx_begin_level(ds, need, SPACE_ALL, false, out);

	if (err == 0) {
		log_replay_joined(*out);
	}
	return err;
}

void
txg_count_dirty(struct pool_tx *tx, uint32_t bytes, uint32_t copies)
{
	struct txgs *t = tx->p->txgs;

	atomic_fetch_add(&t->dirty_bytes[TXG_SLOT(tx->txg)], bytes);
	if (!tx->syncing) {
		tx->dirtied_bytes += bytes;
		tx->dirtied_sectors +=
		    copies * space_sectors_for(tx->p, bytes, bytes) + MAP_SECTORS_PER_BLOCK;
	}
}

/* Without this a txg of nothing but small inodes would have no end, and no space. */
void
txg_count_object(struct pool_tx *tx, bool new_table_block, uint32_t copies)
{
	if (tx->syncing || DELIBERATE_BUG("pool-inode-uncounted")) {
		return;
	}
	atomic_fetch_add(&tx->p->txgs->dirty_bytes[TXG_SLOT(tx->txg)], TXG_OBJECT_BYTES);
	tx->dirtied_bytes += TXG_OBJECT_BYTES;
	if (new_table_block) {
		tx->dirtied_sectors += MAP_SECTORS_PER_BLOCK +
				       copies * space_sectors_for(tx->p, OBJECT_TABLE_BLOCK_BYTES,
						    OBJECT_TABLE_BLOCK_BYTES);
	}
}

/* A block of them and, as it may be far from others, one above it. */
void
txg_count_accounts(struct pool_tx *tx, unsigned blocks)
{
	if (tx->syncing || blocks == 0) {
		return;
	}
	tx->dirtied_sectors +=
	    blocks * 2 *
	    (MAP_SECTORS_PER_BLOCK +
		2 * space_sectors_for(tx->p, ACCOUNT_BLOCK_BYTES, ACCOUNT_BLOCK_BYTES));
}

/* The space of what became dirty stays reserved until the txg has landed. */
static void
tx_settle_space(struct pool_tx *tx)
{
	struct pool *p = tx->p;
	uint64_t used;

	if (tx->moves) {
		obj_accounts_dirty(tx, tx->uid, tx->gid);
	}
	used = space_in_pieces(p->space, tx->dirtied_sectors) +
	       (tx->frees ? MAP_SECTORS_PER_BLOCK : 0);

	if (used > tx->need_sectors) {
		space_reserve_anyway(p->space, used - tx->need_sectors);
	} else {
		space_unreserve(p->space, tx->need_sectors - used);
	}
	atomic_fetch_add(&p->txgs->dirty_sectors[TXG_SLOT(tx->txg)], used);
	limits_end(tx, used);
	account_limits_end(tx, used);
}

void
pool_tx_end(struct pool_tx *tx)
{
	struct txgs *t = tx->p->txgs;

	atomic_fetch_sub(&t->reserved_bytes, tx->need_bytes);
	tx_settle_space(tx);
	if (txg_is_full(t, tx->txg) ||
	    (tx->ring != NULL && ilog_fill_percent(tx->ring) > LOG_FULL_PERCENT)) {
		txg_want(t, tx->txg);
	}
	log_unreserve(tx);
	txg_hold_drop(t, tx->reactor, tx->txg);
	mem_free(tx);
}

uint64_t
pool_tx_txg(const struct pool_tx *tx)
{
	return tx->txg;
}

void
tx_init_syncing(struct pool_tx *tx, struct pool_ds *ds, uint64_t txg)
{
	*tx = (struct pool_tx){.p = ds->p, .ds = ds, .txg = txg, .syncing = true};
}
