/*
 * sync.c - one pass: everything of a txg, then the root.
 *
 * The order is what makes a root trustworthy (README invariants 2 and 5): every block is written;
 * all drives are flushed; a change of membership that this txg relies on is in the labels; only
 * then the uberblock, with FUA. A step that fails for lack of drives suspends the pool and is
 * repeated until they return: the flush too, since raidz counts a drive whose flush failed as out,
 * and what the others have is flushed by the next try.
 */
#include "pool/dataset.h"
#include "pool/figures.h"
#include "pool/pool_log.h"
#include "pool/scan.h"
#include "pool/suspend.h"

/* Under config_lock. */
static void
uber_fill(struct pool *p, uint64_t txg, uint32_t flags, struct uberblock *ub)
{
	ub->magic = le64_of(UBER_MAGIC);
	ub->version = le32_of(POOL_FORMAT_VERSION);
	ub->flags = le32_of(0);
	ub->pool_guid = p->v.pool_guid;
	ub->timeline = le64_of(p->timeline);
	ub->txg = le64_of(txg);
	ub->time = le64_of(rt_wall_ns());
	ub->config_txg = le64_of(p->v.config_txg);
	ub->host_id = le64_of(p->host_id);
	ub->heartbeat = le64_of(le64_get(p->ub.heartbeat) + 1);
	memcpy(ub->host_name, p->host_name, sizeof(ub->host_name));
	ub->root = p->datasets->mos->root;
	space_fill_uber(p->space, txg, ub);
	scan_fill_uber(p, ub);
	log_fill_uber(p, txg, flags, ub);
	if (atomic_load(&p->released) && (le32_get(ub->flags) & UBER_CLEAN) != 0) {
		ub->host_id = le64_of(0);
	}
}

/*
 * Every block is durable when this is 0. What drives lost that were away meanwhile has been written
 * again by the flush; that it worked is looked at, block by block. Should something be gone all the
 * same, the txg can't be committed in this life of the pool; another drive's return is a reason to
 * look again.
 */
static int
flush_blocks(struct pool *p, uint64_t txg, bool *lost)
{
	int err = unflushed_flush(p, lost);

	while (err == 0 && (atomic_load(&p->suspended) || atomic_load(&p->verify_txg)) &&
	       !DELIBERATE_BUG("pool-resume-unverified")) {
		if (!atomic_exchange(&p->verify_txg, false) && atomic_load(&p->txg_lost)) {
			return -EIO;
		}
		err = space_verify_txg(p->space, txg);
		atomic_store(&p->txg_lost, err == -ERR_CKSUM);
		err = err != 0 ? err : unflushed_flush(p, lost);
		if (err == 0 && !atomic_load(&p->verify_txg)) {
			break;
		}
	}
	return err;
}

/* Under config_lock: flush, labels if need be, uberblock; again while membership changes under it.
 */
static int
commit_once(struct pool *p, uint64_t txg, uint32_t flags)
{
	bool changed = atomic_exchange(&p->config_dirty, false);
	struct uberblock *ub = pool_must_alloc(sizeof(*ub));
	bool flush_lost = false;
	int err = flush_blocks(p, txg, &flush_lost);

	changed = changed || flush_lost;
	while (err == 0) {
		bool lost = false;

		if (changed) {
			err = log_config_write(p);
			if (err != 0) {
				break;
			}
		}
		uber_fill(p, txg, flags, ub);
		err = uber_write(&p->v, ub, &lost);
		if (err != 0 || !lost) {
			break;
		}
		changed = true;
	}
	if (err == 0) {
		p->ub = *ub;
		scan_written(p, ub);
	} else {
		atomic_store(&p->config_dirty, changed);
	}
	mem_free(ub);
	return err;
}

static int
commit(struct pool *p, uint64_t txg, uint32_t flags)
{
	for (;;) {
		int err;

		mutex_lock(&p->config_lock);
		err = commit_once(p, txg, flags);
		mutex_unlock(&p->config_lock);
		if (err == 0 || pool_suspend_wait(p, "commit") != 0) {
			return err;
		}
	}
}

static int
maplog_write(struct pool *p, uint64_t txg)
{
	struct bp tail;
	int err = space_sync_log(p->space, txg, &tail);

	while (err != 0 && pool_suspend_wait(p, "maplog") == 0) {
		err = space_sync_log(p->space, txg, &tail);
	}
	return err;
}

/* Sets that were added since: their objects are in the MOS before anything is allocated there. */
static int
grow(struct pool *p, struct pool_tx *tx)
{
	struct datasets *d = p->datasets;
	bool grown = false;
	int err = space_grow(p->space, tx, &d->phys, &grown);

	if (grown) {
		mutex_lock(&d->lock);
		d->phys_dirty = true;
		mutex_unlock(&d->lock);
	}
	return err;
}

int
sync_txg(struct pool *p, uint64_t txg, uint32_t flags)
{
	struct pool_ds *mos = p->datasets->mos;
	struct pool_tx tx;
	struct bp root;
	int err;

	tx_init_syncing(&tx, mos, txg);
	atomic_store(&p->txgs->background, false);
	err = grow(p, &tx);
	err = err != 0 ? err : datasets_sync(p, &tx);
	if (err == 0 && ds_is_dirty(mos, txg)) {
		space_note_busy(p->space, txg);
	}
	err = err != 0 ? err : space_sync_fold(p->space, &tx);
	if (err == 0 && DELIBERATE_BUG("pool-uberblock-before-data")) {
		err = commit(p, txg, flags);
	}
	err = err != 0 ? err : ds_sync(mos, txg, &root);
	err = err != 0 ? err : maplog_write(p, txg);
	err = err != 0 ? err : commit(p, txg, flags);
	if (err != 0) {
		log_error("txg_abandoned pool=%s txg=%llu err=%s", p->name, (unsigned long long)txg,
		    err_str(err));
		return err;
	}
	pool_resume(p);
	space_committed(p->space, txg);
	figures_update(p, txg);
	atomic_store(&p->txgs->settling, space_is_settling(p->space));
	p->txgs->held = space_is_held(p->space);
	return 0;
}
