/*
 * deadlist.c - where a block goes that a dataset no longer refers to.
 *
 * A block born after the newest snapshot belongs to the dataset alone and is freed. An older one is
 * the snapshot's: it is not freed but noted in the deadlist of the dataset, by birth. There are no
 * snapshots yet, so prev_snap_txg is 0 everywhere and everything is freed.
 */
#include "pool/dataset.h"

uint64_t
ds_free(struct pool_ds *ds, uint64_t txg, const struct bp *bp)
{
	struct bp_prop prop;
	uint64_t sectors;

	if (bp_is_hole(bp)) {
		return 0;
	}
	if (bp_decode(bp, ds->p->v.set_count, &prop) != 0) {
		log_error("free_refused pool=%s dataset=%016llx reason=bp", ds->p->name,
		    (unsigned long long)ds->guid);
		return 0;
	}
	ASSERT(bp_birth(bp) > ds->prev_snap_txg);
	sectors = block_free(ds->p, txg, bp);
	atomic_fetch_sub(&ds->used_sectors, sectors);
	if (prop.level == 0 && prop.type != OBJ_TABLE && prop.type != OBJ_OBJSET) {
		atomic_fetch_sub(&ds->data_bytes, prop.logical_bytes);
	}
	return sectors;
}
