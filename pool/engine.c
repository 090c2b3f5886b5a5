/*
 * engine.c - the engine's life: from an uberblock to running datasets and back.
 *
 * States of a pool: opened (datasets readable; read-only pools stay here) -> running (syncing
 * fiber; after an import pool_replay comes next) -> closed. The order of opening is the order of
 * dependence: what comes later may use what came before; closing goes the other way round.
 */
#include "pool/block_share.h"
#include "pool/cache.h"
#include "pool/codec.h"
#include "pool/dataset.h"
#include "pool/figures.h"
#include "pool/notes.h"
#include "pool/pool_log.h"
#include "pool/suspend.h"

#define ALLOC_RETRY_NS NSEC_PER_MSEC

void *
pool_must_alloc(size_t len)
{
	void *p;

	while ((p = mem_zalloc(len)) == NULL) {
		fiber_sleep(ALLOC_RETRY_NS);
	}
	return p;
}

/* Everything but the space maps and the datasets. */
static int
engine_base_open(struct pool *p)
{
	int err;

	atomic_store(&p->suspended, false);
	atomic_store(&p->closing, false);
	atomic_store(&p->txg_err, 0);
	atomic_store(&p->drive_returned, false);
	err = cache_open(&p->cache, &p->cache_owner);
	err = err != 0 ? err : codec_open(&p->codec);
	err = err != 0 ? err : shares_open(&p->shares);
	err = err != 0 ? err : unflushed_open(p);
	err = err != 0 ? err : objects_open(p);
	err = err != 0 ? err : log_open(p);
	err = err != 0 ? err : notes_open(p);
	return err != 0 ? err : txgs_open(p, le64_get(p->ub.txg) + 1);
}

static void
engine_free(struct pool *p)
{
	if (p->log != NULL) {
		for (unsigned i = 0; i < DEFERRED_SLOTS; i++) {
			log_drop_deferred(p, UINT64_MAX - i);
		}
	}
	if (p->datasets != NULL && p->datasets->mos != NULL) {
		datasets_abandon(p);
	}
	objects_close(p);
	datasets_close(p);
	txgs_close(p);
	notes_close(p);
	log_close(p);
	if (p->space != NULL) {
		space_destroy(p->space);
		p->space = NULL;
	}
	unflushed_close(p);
	shares_close(p->shares);
	p->shares = NULL;
	codec_close(p->codec);
	p->codec = NULL;
	if (p->cache != NULL) {
		cache_close(p->cache, p->cache_owner);
		p->cache = NULL;
	}
}

/* The MOS's first objects, before the syncing fiber runs: as if it had made them in the first txg.
 */
static int
first_objects_create(struct pool *p)
{
	struct pool_tx tx;

	tx_init_syncing(&tx, p->datasets->mos, txg_open(p->txgs));
	return space_create_objects(p->space, &tx, &p->datasets->phys);
}

int
pool_engine_create(struct pool *p)
{
	int err = engine_base_open(p);

	err = err != 0 ? err : space_create(p, &p->space);
	err = err != 0 ? err : datasets_create(p);
	err = err != 0 ? err : first_objects_create(p);
	if (err == 0) {
		figures_update(p, le64_get(p->ub.txg));
		log_ring_start(p, 0);
		err = txgs_start(p);
	}
	for (unsigned i = 0; i < LOG_ROOTS && err == 0; i++) {
		err = pool_sync(p);
	}
	if (err != 0) {
		(void)pool_engine_close(p, false);
	}
	return err;
}

int
pool_engine_open(struct pool *p)
{
	int err = engine_base_open(p);

	err = err != 0 ? err : space_load(p, &p->ub, &p->space);
	err = err != 0 ? err : datasets_open(p);
	if (err == 0) {
		figures_update(p, le64_get(p->ub.txg));
	}
	if (err == 0 && !p->readonly) {
		notes_load(p);
		err = txgs_start(p);
	}
	if (err != 0) {
		engine_free(p);
	}
	return err;
}

int
pool_engine_close(struct pool *p, bool clean)
{
	bool suspended = atomic_load(&p->suspended);

	if (!clean || suspended) {
		atomic_store(&p->closing, true);
	}
	if (p->txgs != NULL) {
		txgs_stop(p);
	}
	suspended = suspended || atomic_load(&p->suspended);
	engine_free(p);
	return suspended ? -ERR_SUSPENDED : 0;
}
