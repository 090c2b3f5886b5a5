/*
 * txg.c - transaction groups: open, quiescing, syncing.
 *
 * Transactions join the open txg by raising their reactor's count of holds. The syncing fiber
 * closes a txg so: it shuts the gate (nobody joins), waits until the holds are gone, names the next
 * txg open, opens the gate. So transactions of two txgs never run side by side; otherwise a
 * transaction of the older one could come to an object's lock behind one of the newer, and the
 * older txg would need a change that builds on the newer. What waits at the gate holds no lock
 * (pool_tx_begin's rule), so the holders finish. Then the closed txg is synced while the next one
 * fills.
 *
 * A txg is closed when somebody wants it committed, 5 s after it was first used, when it is full,
 * or when there is background work. A pool that falls idle commits a few empty txgs, until freed
 * space is allocatable again; then an unused txg without wishes stays open: an idle pool sleeps.
 *
 * A block that is written again within a txg goes to the drives once. So a txg stays open as long
 * as it can: it is full when what will come in while it is written, at the rate at which it filled
 * itself and if the drives are as quick as last time, would reach the throttle; but not below a
 * quarter of the limit.
 */
#include "pool/txg.h"

#include "pool/dataset.h"
#include "pool/figures.h"
#include "pool/pool_log.h"
#include "pool/suspend.h"

#define TXG_NS (5 * NSEC_PER_SEC)
#define BACKGROUND_NS (200 * NSEC_PER_MSEC)
#define LOOK_AGAIN_NS (500 * NSEC_PER_MSEC) /* a waiter notices suspension at the latest then */
#define DIRTY_LIMIT_MAX (4 * GIB)

static uint64_t
dirty_limit(struct pool *p)
{
	struct arena_info arena;
	uint64_t ring = log_ring_bytes(p);
	uint64_t limit;

	arena_get_info(&arena);
	limit = MIN(arena.budget_bytes[ARENA_DIRTY], DIRTY_LIMIT_MAX);
	if (ring > 0) {
		limit = MIN(limit, ring / 5);
	}
	return MAX(limit, MIB);
}

int
txgs_open(struct pool *p, uint64_t first_txg)
{
	struct txgs *t = mem_zalloc(sizeof(*t));

	if (t == NULL) {
		return -ENOMEM;
	}
	t->p = p;
	atomic_store(&t->open, first_txg);
	atomic_store(&t->committed, first_txg - 1);
	t->holds = mem_zalloc_array(rt_reactor_count(), sizeof(*t->holds));
	if (t->holds == NULL) {
		mem_free(t);
		return -ENOMEM;
	}
	mutex_init(&t->mu, RANK_POOL_TXG);
	cond_init(&t->gate_cond);
	cond_init(&t->committed_cond);
	wg_init(&t->running);
	t->dirty_limit = dirty_limit(p);
	p->txgs = t;
	return 0;
}

void
txgs_close(struct pool *p)
{
	if (p->txgs != NULL) {
		mem_free(p->txgs->holds);
		mem_free(p->txgs);
		p->txgs = NULL;
	}
}

/* ---- joining ---- */

static void
fiber_nudge(struct txgs *t)
{
	struct fiber *f = __atomic_load_n(&t->fiber, __ATOMIC_ACQUIRE);

	if (f != NULL) {
		fiber_wake(f);
	}
}

static void
gate_wait(struct txgs *t)
{
	mutex_lock(&t->mu);
	while (atomic_load(&t->gate_closed)) {
		cond_wait(&t->gate_cond, &t->mu);
	}
	mutex_unlock(&t->mu);
}

void
txg_hold_open(struct txgs *t, unsigned reactor, uint64_t *out_txg)
{
	for (;;) {
		uint64_t txg = atomic_load(&t->open);
		atomic_uint *n = &t->holds[reactor].n[TXG_SLOT(txg)];

		atomic_fetch_add(n, 1);
		if (!atomic_load(&t->gate_closed) && atomic_load(&t->open) == txg) {
			*out_txg = txg;
			break;
		}
		atomic_fetch_sub(n, 1);
		fiber_nudge(t);
		gate_wait(t);
	}
	if (atomic_load_explicit(&t->first_use_ns[TXG_SLOT(*out_txg)], memory_order_relaxed) == 0) {
		atomic_store(&t->first_use_ns[TXG_SLOT(*out_txg)], MAX(rt_now_ns(), (uint64_t)1));
		fiber_nudge(t);
	}
}

void
txg_hold_drop(struct txgs *t, unsigned reactor, uint64_t txg)
{
	atomic_fetch_sub(&t->holds[reactor].n[TXG_SLOT(txg)], 1);
	if (unlikely(atomic_load(&t->gate_closed))) {
		fiber_nudge(t);
	}
}

static bool
txg_is_held(const struct txgs *t, uint64_t txg)
{
	for (unsigned i = 0; i < rt_reactor_count(); i++) {
		if (atomic_load(&t->holds[i].n[TXG_SLOT(txg)]) != 0) {
			return true;
		}
	}
	return false;
}

/* ---- wishes ---- */

uint64_t
txg_open(struct txgs *t)
{
	return atomic_load(&t->open);
}

uint64_t
txg_committed(struct txgs *t)
{
	return atomic_load(&t->committed);
}

void
txg_want(struct txgs *t, uint64_t txg)
{
	unsigned long long wanted = atomic_load(&t->wanted);

	while (wanted < txg) {
		if (atomic_compare_exchange_weak(&t->wanted, &wanted, txg)) {
			fiber_nudge(t);
			return;
		}
	}
}

int
txg_wait(struct txgs *t, uint64_t txg)
{
	int err = 0;

	if (atomic_load(&t->committed) >= txg) {
		return 0;
	}
	txg_want(t, txg);
	mutex_lock(&t->mu);
	while (atomic_load(&t->committed) < txg) {
		if (atomic_load(&t->p->suspended) || atomic_load(&t->p->closing)) {
			err = pool_suspended_error(t->p);
			break;
		}
		(void)cond_wait_until(&t->committed_cond, &t->mu, rt_now_ns() + LOOK_AGAIN_NS);
	}
	mutex_unlock(&t->mu);
	return err;
}

void
txg_wake_all(struct txgs *t)
{
	mutex_lock(&t->mu);
	cond_broadcast(&t->committed_cond);
	mutex_unlock(&t->mu);
}

int
pool_sync(struct pool *p)
{
	if (p->readonly) {
		return 0;
	}
	return txg_wait(p->txgs, txg_open(p->txgs));
}

/* ---- the syncing fiber ---- */

/* How long a txg of so many bytes will take to be written. */
static uint64_t
sync_estimate_ns(const struct txgs *t, uint64_t bytes)
{
	uint64_t last_kib = MAX(atomic_load(&t->synced_bytes), MIB) / KIB;
	uint64_t ns = MIN(atomic_load(&t->synced_ns), TXG_NS);

	return MIN(ns * MAX(bytes / KIB, last_kib) / last_kib, TXG_NS);
}

bool
txg_is_full(struct txgs *t, uint64_t txg)
{
	uint64_t dirty = atomic_load(&t->dirty_bytes[TXG_SLOT(txg)]);
	uint64_t throttle = t->dirty_limit * TXG_THROTTLE_PERCENT / 100;
	uint64_t sync_us, age_us;

	if (dirty < t->dirty_limit / 4 || dirty >= throttle || atomic_load(&t->synced_ns) == 0) {
		return dirty >= t->dirty_limit / 4;
	}
	sync_us = sync_estimate_ns(t, dirty) / NSEC_PER_USEC;
	age_us = (rt_now_ns() - atomic_load(&t->first_use_ns[TXG_SLOT(txg)])) / NSEC_PER_USEC;
	return dirty + dirty / KIB * sync_us / MAX(age_us, 1u) * KIB >= throttle;
}

/* When the open txg is to be closed, seen at `since`: 0 = now, RT_FOREVER = not yet known. */
static uint64_t
close_time(struct txgs *t, uint64_t since)
{
	uint64_t open = atomic_load(&t->open);
	uint64_t first = atomic_load(&t->first_use_ns[TXG_SLOT(open)]);
	uint64_t at = RT_FOREVER;

	if (atomic_load(&t->wanted) >= open || txg_is_full(t, open)) {
		return 0;
	}
	if (first != 0) {
		at = first + TXG_NS;
	}
	if (atomic_load(&t->background) || (first == 0 && atomic_load(&t->settling))) {
		at = MIN(at, since + BACKGROUND_NS);
	}
	return at;
}

/* Freed space that only readers held back needs no txg to be free. */
static uint64_t
held_look(struct txgs *t, uint64_t at)
{
	if (!t->held) {
		return at;
	}
	if (!space_release_held(t->p->space)) {
		t->held = false;
		atomic_store(&t->settling, space_is_settling(t->p->space));
		figures_update(t->p, txg_committed(t));
	}
	return MIN(at, rt_now_ns() + BACKGROUND_NS);
}

static void
close_wait(struct txgs *t)
{
	uint64_t since = rt_now_ns();

	while (!atomic_load(&t->stop)) {
		uint64_t at = close_time(t, since);

		if (at <= rt_now_ns()) {
			return;
		}
		at = held_look(t, at);
		if (at == RT_FOREVER) {
			fiber_park();
		} else {
			(void)fiber_park_until(at);
		}
	}
}

static uint64_t
quiesce(struct txgs *t)
{
	uint64_t txg = atomic_load(&t->open);

	atomic_store(&t->gate_closed, true);
	while (txg_is_held(t, txg)) {
		fiber_park();
	}
	atomic_store(&t->open, txg + 1);
	mutex_lock(&t->mu);
	atomic_store(&t->gate_closed, false);
	cond_broadcast(&t->gate_cond);
	mutex_unlock(&t->mu);
	return txg;
}

/* What the txg had reserved is used now, or never will be. */
static void
txg_landed(struct txgs *t, uint64_t txg)
{
	unsigned slot = TXG_SLOT(txg);

	space_unreserve(t->p->space, atomic_exchange(&t->dirty_sectors[slot], 0));
	atomic_store(&t->dirty_bytes[slot], 0);
	atomic_store(&t->first_use_ns[slot], 0);
	atomic_store(&t->replay_seq[slot], 0);
	mutex_lock(&t->mu);
	atomic_store(&t->committed, txg);
	atomic_store(&t->syncing, 0);
	cond_broadcast(&t->committed_cond);
	mutex_unlock(&t->mu);
}

static int
sync_next(struct txgs *t, uint32_t flags)
{
	uint64_t txg = quiesce(t);
	uint64_t began_ns = rt_now_ns();
	int err;

	atomic_store(&t->syncing, txg);
	err = sync_txg(t->p, txg, flags);
	if (err == 0) {
		atomic_store(&t->synced_ns, rt_now_ns() - began_ns);
		atomic_store(&t->synced_bytes, atomic_load(&t->dirty_bytes[TXG_SLOT(txg)]));
		txg_landed(t, txg);
		log_committed(t->p, txg);
	}
	return err;
}

static void
sync_fiber(void *arg)
{
	struct txgs *t = arg;
	int err = 0;

	__atomic_store_n(&t->fiber, fiber_self(), __ATOMIC_RELEASE);
	while (err == 0) {
		close_wait(t);
		if (atomic_load(&t->stop)) {
			break;
		}
		err = sync_next(t, 0);
	}
	/* The last two: what is open, and a root that says that the log is empty. */
	if (err == 0 && !atomic_load(&t->p->closing)) {
		err = sync_next(t, 0);
	}
	if (err == 0 && !atomic_load(&t->p->closing)) {
		err = sync_next(t, UBER_CLEAN);
	}
	if (err != 0 && !atomic_load(&t->p->closing)) {
		pool_suspend_for_good(t->p, err);
	}
	__atomic_store_n(&t->fiber, NULL, __ATOMIC_RELEASE);
	wg_done(&t->running);
}

int
txgs_start(struct pool *p)
{
	int err;

	wg_add(&p->txgs->running, 1);
	err = fiber_spawn(rt_reactor_self(), FIBER_SYNC, "pool-sync", sync_fiber, p->txgs);
	if (err != 0) {
		wg_done(&p->txgs->running);
	}
	return err;
}

void
txgs_stop(struct pool *p)
{
	atomic_store(&p->txgs->stop, true);
	fiber_nudge(p->txgs);
	while (wg_wait_until(&p->txgs->running, rt_now_ns() + LOOK_AGAIN_NS) != 0) {
		if (atomic_load(&p->suspended)) {
			/* nobody brings drives back to a pool that is being closed: the log has
			 * what was acknowledged */
			atomic_store(&p->closing, true);
			fiber_nudge(p->txgs);
		}
	}
}
