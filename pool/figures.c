/*
 * figures.c - what is shown of space: one snapshot of all figures, taken when a txg is committed,
 * so that those of datasets and of the pool add up whenever somebody asks.
 *
 *	pool	total = reserve + overhead + live + pending + free
 *	live	what datasets refer to and, once for each block, what only snapshots do
 *	pending	what was cut off and is being freed (exact for removed files and datasets, in
 *		proportion to its blocks for a cut range), and what is deferred by txgs that are
 *		worth waiting for: it is told as free, since who needs it waits for it
 *	overhead	the MOS, the map log, objset roots of datasets: what is left over of used
 *
 * A dataset's size is what it refers to and what it could still write; it doesn't change while
 * something moves between the two.
 */
#include "pool/figures.h"

#include "pool/accounts.h"
#include "pool/snap.h"

void
figures_cut(struct pool_ds *ds, uint64_t sectors)
{
	atomic_fetch_add(&ds->pending_sectors, sectors);
}

void
figures_cut_freed(struct pool_ds *ds, uint64_t sectors)
{
	unsigned long long have = atomic_load(&ds->pending_sectors);

	while (!atomic_compare_exchange_weak(
	    &ds->pending_sectors, &have, have - MIN(have, (unsigned long long)sectors))) {
	}
}

uint64_t
figures_freeing(struct pool *p)
{
	return atomic_load(&p->datasets->freeing);
}

struct sums {
	uint64_t live, pending, used, table_blocks;
};

/* Under datasets.lock. Returns what ds takes of its parent, with everything below it. */
static uint64_t
take(struct pool_ds *ds, struct sums *sums, uint64_t txg)
{
	const struct pool_ds *chain = chain_owner(ds);
	uint64_t used = atomic_load(&ds->used_sectors), own = atomic_load(&ds->own_sectors);
	uint64_t pending = MIN(atomic_load(&ds->pending_sectors), own);
	uint64_t snapshots =
	    atomic_load(&chain->dead_young) + atomic_load(&chain->snaps_dead_young);
	struct limit_figures fig = {
	    .referenced = used - pending, .own_and_dead = own - pending + snapshots};
	uint64_t charge;

	sums->live += fig.own_and_dead;
	sums->pending += pending;
	sums->used += own + snapshots;
	sums->table_blocks += le64_get(ds->table.root.fill);
	fig.live = fig.own_and_dead;
	list_for_each(l, &ds->children)
	{
		struct pool_ds *child = list_entry(l, struct pool_ds, sibling);

		fig.children += take(child, sums, txg);
		fig.live += child->shown.live;
	}
	ds->shown = (struct ds_figures){
	    .referenced = fig.referenced,
	    .own = own - pending,
	    .snapshots = snapshots,
	    .pending = pending,
	    .written = MIN(chain_written(ds), fig.referenced),
	    .children = fig.children,
	    .live = fig.live,
	};
	charge = limits_take_up(ds, &fig);
	account_limits_landed(ds, txg);
	limits_landed(ds, txg); /* not before: between the two it counts twice */
	return charge;
}

void
figures_update(struct pool *p, uint64_t txg)
{
	struct datasets *d = p->datasets;
	struct space_info info;
	struct sums sums = {0};
	uint64_t buried;

	mutex_lock(&d->lock);
	(void)take(d->root, &sums, txg);
	limits_take_down(d->root);
	list_for_each(l, &d->zombies)
	{
		const struct pool_ds *ds = list_entry(l, struct pool_ds, zombie);
		uint64_t used = atomic_load(&ds->own_sectors);

		sums.pending += used;
		sums.used += used;
	}
	/* of the MOS itself nothing that matters is ever cut off: these were datasets */
	buried = MIN(atomic_load(&d->mos->pending_sectors), atomic_load(&d->mos->used_sectors));
	sums.pending += buried;
	sums.used += buried;
	d->shown_live = sums.live;
	d->shown_pending = sums.pending;
	atomic_store(&d->freeing, sums.pending);
	space_rewrite_set(p->space, sums.table_blocks, block_spare_copies(p));
	space_get_info(p->space, &info);
	space_overhead_set(
	    p->space, info.used_sectors - MIN(info.used_sectors, info.release_sectors + sums.used));
	mutex_unlock(&d->lock);
}

/* Sectors for data beyond what is live, with the given reserve. */
static uint64_t
free_sectors(const struct space_info *info, uint64_t reserve, uint64_t live)
{
	uint64_t taken = reserve + info->overhead_sectors + live;

	return info->total_sectors - MIN(taken, info->total_sectors);
}

/* What ds could use with the given reserve: of the pool, and of what its quotas leave. */
static uint64_t
free_for(const struct pool_ds *ds, const struct space_info *info, uint64_t reserve)
{
	uint64_t blocked = atomic_load(&ds->limits.blocked);
	uint64_t all = free_sectors(info, reserve, ds->p->datasets->shown_live);

	return MIN(all - MIN(all, blocked), limits_left(ds));
}

uint64_t
figures_free(const struct pool_ds *ds)
{
	struct space_info info;

	space_get_info(ds->p->space, &info);
	return free_for(ds, &info, info.reserve_sectors);
}

void
figures_info(struct pool_ds *ds, struct pool_ds_info *out)
{
	const struct pool *p = ds->p;
	const struct ds_figures *f = &ds->shown;
	struct space_info info;

	space_get_info(p->space, &info);
	out->referenced_bytes = space_data_bytes(p, f->referenced);
	out->own_bytes = space_data_bytes(p, f->own);
	out->snapshots_bytes = space_data_bytes(p, f->snapshots);
	out->children_bytes = space_data_bytes(p, f->children);
	out->reserved_bytes = space_data_bytes(p, f->refslack);
	out->used_bytes =
	    out->own_bytes + out->snapshots_bytes + out->children_bytes + out->reserved_bytes;
	out->written_bytes = space_data_bytes(p, f->written);
	out->pending_bytes = space_data_bytes(p, f->pending);
	out->available_bytes = space_data_bytes(p, free_for(ds, &info, info.reserve_sectors));
	out->size_bytes =
	    space_data_bytes(p, f->referenced + free_for(ds, &info, info.reserve_min_sectors));
	out->free_bytes = out->size_bytes - out->referenced_bytes;
}

void
figures_status(struct pool *p, struct pool_status *out)
{
	struct datasets *d = p->datasets;
	struct space_info info;
	uint64_t live, pending;

	mutex_lock(&d->lock);
	live = d->shown_live;
	pending = d->shown_pending;
	mutex_unlock(&d->lock);
	space_get_info(p->space, &info);
	out->raw_bytes = info.total_sectors * SECTOR_BYTES;
	out->raw_used_bytes = info.used_sectors * SECTOR_BYTES;
	out->raw_pending_free_bytes = (info.release_sectors + pending) * SECTOR_BYTES;
	out->usable_bytes = space_data_bytes(p, free_sectors(&info, info.reserve_min_sectors, 0));
	out->usable_free_bytes =
	    space_data_bytes(p, free_sectors(&info, info.reserve_sectors, live));
}
