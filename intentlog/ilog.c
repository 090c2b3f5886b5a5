/*
 * ilog.c - making, ending and looking at a log. The theory of the whole is in README.md.
 */
#include "intentlog/ilog_int.h"

int
ilog_config_check(const struct ilog_config *cfg)
{
	bool any = false;

	if (cfg->side_count == 0 || cfg->side_count > ILOG_SIDES_MAX ||
	    cfg->region_bytes < ILOG_REGION_BYTES_MIN || cfg->region_bytes % SECTOR_BYTES != 0) {
		return -EINVAL;
	}
	for (uint32_t i = 0; i < cfg->side_count; i++) {
		const struct ilog_side *side = &cfg->sides[i];
		uint64_t size;

		if (side->drive == NULL) {
			continue;
		}
		size = kb_size(side->drive);
		if (side->off_bytes % SECTOR_BYTES != 0 || side->off_bytes > size ||
		    cfg->region_bytes > size - side->off_bytes) {
			return -EINVAL;
		}
		any = true;
	}
	return any ? 0 : -EINVAL;
}

static void
log_init(struct ilog *l, const struct ilog_config *cfg)
{
	l->cfg = *cfg;
	l->cap_bytes = ilog_ring_capacity(cfg->region_bytes);
	mutex_init(&l->mu, RANK_ILOG);
	list_init(&l->reserve_queue);
	l->head.batch_seq = l->acked.batch_seq = l->tail.batch_seq = 1;
	l->next_batch = l->next_seal = l->next_rec = 1;
	cond_init(&l->slot_cond);
	cond_init(&l->writer_cond);
	cond_init(&l->warden_cond);
	wg_init(&l->fibers);
	for (uint32_t i = 0; i < ILOG_SLOTS; i++) {
		wg_init(&l->slots[i].copying);
		list_init(&l->slots[i].waiters);
	}
	for (uint32_t i = 0; i < cfg->side_count; i++) {
		if (cfg->sides[i].drive == NULL) {
			l->sides_out |= 1u << i;
		}
	}
	atomic_store(&l->info_out, l->sides_out);
	atomic_store(&l->state, l->sides_out == 0 ? ILOG_OK : ILOG_DEGRADED);
}

static void
log_stop(struct ilog *l)
{
	mutex_lock(&l->mu);
	l->stopping = true;
	cond_broadcast(&l->writer_cond);
	cond_broadcast(&l->warden_cond);
	mutex_unlock(&l->mu);
	wg_wait(&l->fibers);
}

int
ilog_create(const struct ilog_config *cfg, struct ilog **out)
{
	struct ilog *l;
	int err = ilog_config_check(cfg);

	if (err == 0 && cfg->epoch == 0) {
		err = -EINVAL;
	}
	if (err != 0) {
		return err;
	}
	l = mem_zalloc(sizeof(*l));
	if (l == NULL) {
		return -ENOMEM;
	}
	log_init(l, cfg);
	wg_add(&l->fibers, 1);
	err = fiber_spawn(rt_reactor_self(), FIBER_SYNC, "ilog-writer", ilog_writer_fiber, l);
	if (err != 0) {
		wg_done(&l->fibers);
		goto stop;
	}
	wg_add(&l->fibers, 1);
	err = fiber_spawn(rt_reactor_self(), FIBER_SYNC, "ilog-warden", ilog_warden_fiber, l);
	if (err != 0) {
		wg_done(&l->fibers);
		goto stop;
	}
	*out = l;
	return 0;
stop:
	log_stop(l);
	mem_free(l);
	return -ENOMEM;
}

void
ilog_destroy(struct ilog *l)
{
	log_stop(l);
	ASSERT(list_empty(&l->reserve_queue));
	for (uint32_t i = 0; i < ILOG_SLOTS; i++) {
		ASSERT(list_empty(&l->slots[i].waiters));
		ilog_batch_free_chunks(&l->slots[i]);
	}
	while (l->spare_count > 0) {
		iobuf_unref(l->spares[--l->spare_count]);
	}
	mem_free(l);
}

void
ilog_get_info(const struct ilog *l, struct ilog_info *out)
{
	*out = (struct ilog_info){
	    .state = (enum ilog_state)atomic_load(&l->state),
	    .sides_out = atomic_load(&l->info_out),
	    .ring_bytes = l->cap_bytes,
	    .used_bytes = atomic_load(&l->claimed_bytes),
	    .batches = atomic_load(&l->batches),
	    .records = atomic_load(&l->records),
	    .record_bytes = atomic_load(&l->record_bytes),
	    .commit_ns_total = atomic_load(&l->commit_ns_total),
	    .commits = atomic_load(&l->commits),
	};
}
