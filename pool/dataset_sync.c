/*
 * dataset_sync.c - all datasets of a txg, and their descriptions in the MOS.
 *
 * First what is asked of snapshots (snap_sync.c), then each dataset's changes, destroyed ones last,
 * new snapshots, and at the end descriptions: of snapshots first, then parents before children, so
 * that whoever is named has its object. Descriptions are taken from memory at the moment of the
 * sync: a change made during the next txg may land one txg early (README "The MOS").
 */
#include "pool/figures.h"
#include "pool/notes.h"
#include "pool/snap.h"

#define RECENT_MAX 65536u /* longer deadlists are sorted, so that no destroy has to sort more */

/* The datasets to look at, each with a reference, parents first. Zombies last. */
struct ds_list {
	struct pool_ds **v;
	uint32_t count;
};

static uint32_t
subtree_collect(struct pool_ds *ds, struct pool_ds **v, uint32_t at)
{
	v[at++] = pool_ds_ref(ds);
	list_for_each(l, &ds->children)
	{
		at = subtree_collect(list_entry(l, struct pool_ds, sibling), v, at);
	}
	return at;
}

static void
collect(struct datasets *d, struct ds_list *out)
{
	uint32_t cap;

	mutex_lock(&d->lock);
	cap = (uint32_t)d->count + 2;
	list_for_each(l, &d->zombies)
	{
		cap++;
	}
	out->v = pool_must_alloc(cap * sizeof(struct pool_ds *));
	out->count = d->root != NULL ? subtree_collect(d->root, out->v, 0) : 0;
	list_for_each(l, &d->zombies)
	{
		out->v[out->count++] = pool_ds_ref(list_entry(l, struct pool_ds, zombie));
	}
	ASSERT(out->count <= cap);
	mutex_unlock(&d->lock);
}

static void
phys_fill_chain(struct pool_ds *ds, struct dataset_phys *phys)
{
	const struct snap *prev = ds->snap_count > 0 ? ds->snaps[ds->snap_count - 1] : ds->origin;

	if (prev != NULL) {
		phys->prev_snap = le64_of(prev->mos_object);
		phys->prev_snap_txg = le64_of(prev->create_txg);
	}
	phys->origin = le64_of(ds->origin != NULL ? ds->origin->mos_object : 0);
	phys->ref_sectors =
	    le64_of(atomic_load(&ds->used_sectors) + atomic_load(&ds->root_sectors));
	phys->data_bytes = le64_of(atomic_load(&ds->data_bytes));
	phys->object_count = le64_of(atomic_load(&ds->object_count));
	deads_to_phys(&ds->dead, phys);
}

/* Under d->lock: what the MOS shall say about ds. */
static void
phys_fill(struct pool_ds *ds, struct dataset_phys *phys)
{
	memset(phys, 0, sizeof(*phys));
	phys->magic = le64_of(DATASET_MAGIC);
	phys->guid = le64_of(ds->guid);
	phys->parent = le64_of(ds->parent != NULL ? ds->parent->mos_object : 0);
	phys->incarnation = le64_of(atomic_load(&ds->incarnation));
	phys->create_txg = le64_of(ds->create_txg);
	phys->create_time = le64_of(ds->create_time);
	phys->used_sectors = le64_of(atomic_load(&ds->own_sectors));
	phys->props_bytes = le64_of(ds->props_bytes);
	phys->quota = le64_of(ds->limits.told.quota);
	phys->refquota = le64_of(ds->limits.told.refquota);
	phys->reservation = le64_of(ds->limits.told.reservation);
	phys->refreservation = le64_of(ds->limits.told.refreservation);
	phys->root = ds->root;
	memcpy(phys->name, ds->name, sizeof(phys->name));
	if (pool_has_snapshots(ds->p)) {
		phys_fill_chain(ds, phys);
	}
}

/* A copy of the description and its properties; *out_len its length. */
static uint8_t *
description_take(struct pool_ds *ds, uint32_t *out_len)
{
	struct datasets *d = ds->p->datasets;
	uint8_t *bytes = NULL;
	uint32_t cap = 0;

	for (;;) {
		uint32_t len;

		mutex_lock(&d->lock);
		len = DATASET_PROPS_OFF + ds->props_bytes;
		if (len <= cap) {
			phys_fill(ds, (struct dataset_phys *)(void *)bytes);
			if (ds->props_bytes > 0) {
				memcpy(bytes + DATASET_PROPS_OFF, ds->props, ds->props_bytes);
			}
			ds->phys_dirty = false;
			mutex_unlock(&d->lock);
			*out_len = len;
			return bytes;
		}
		mutex_unlock(&d->lock);
		mem_free(bytes);
		cap = ALIGN_UP(len, SECTOR_BYTES);
		bytes = pool_must_alloc(cap);
	}
}

int
description_put(
    struct pool *p, struct pool_tx *tx, uint64_t *object, const uint8_t *bytes, uint32_t len)
{
	struct pool_ds *mos = p->datasets->mos;
	struct iovec iov = {(void *)(uintptr_t)bytes, len};
	struct pool_obj *o;
	int err;

	if (*object == 0) {
		err = pool_obj_create(tx, mos, OBJ_DATASET, DATASET_BLOCK_BYTES, 0, 0, &o);
	} else {
		err = pool_obj_hold(mos, *object, 0, &o);
	}
	if (err != 0) {
		return err;
	}
	*object = pool_obj_number(o);
	err = pool_write(tx, o, 0, &iov, 1);
	pool_obj_release(o);
	return err;
}

/* If it has changed; a zombie has none in its last txg. */
static int
description_write(struct pool_ds *ds, struct pool_tx *tx)
{
	uint8_t *bytes;
	uint32_t len;
	bool changed;
	int err;

	mutex_lock(&ds->p->datasets->lock);
	changed = ds->phys_dirty && !ds->not_yet;
	mutex_unlock(&ds->p->datasets->lock);
	if (!changed || (atomic_load(&ds->destroyed) && ds->destroy_txg <= tx->txg)) {
		return 0;
	}
	err = deads_write(ds->p, tx, &ds->dead);
	if (err != 0) {
		return err;
	}
	bytes = description_take(ds, &len);
	err = description_put(ds->p, tx, &ds->mos_object, bytes, len);
	mem_free(bytes);
	return err;
}

static int
ds_sync_one(struct pool_ds *ds, struct pool_tx *tx)
{
	struct bp root;
	int err;

	if (!ds_is_dirty(ds, tx->txg) || ds->not_yet) {
		return 0;
	}
	err = ds_sync(ds, tx->txg, &root);
	err = err != 0 ? err : deads_flush(ds, tx);
	if (err == 0 &&
	    ds->dead.recent.count > (BUGGIFY("pool-deadlist-short") ? 16 : RECENT_MAX)) {
		err = deads_sort(ds, tx, &ds->dead, UINT64_MAX);
	}
	atomic_store(&ds->dead_young, deads_young(&ds->dead));
	mutex_lock(&ds->p->datasets->lock);
	ds->phys_dirty = true;
	mutex_unlock(&ds->p->datasets->lock);
	return err;
}

int
ds_bury_root(struct pool_ds *ds, struct pool_tx *tx, uint64_t min_txg, uint64_t sectors)
{
	struct pool *p = ds->p;

	if (min_txg == 0) {
		atomic_fetch_add(&p->datasets->mos->data_bytes, atomic_load(&ds->data_bytes));
	}
	cuts_add_pending(p, &ds->root,
	    &(struct pending){.min_txg = min_txg, .added = sectors, .pending = sectors});
	bp_set_hole(&ds->root, tx->txg);
	return deads_remove(p, tx, &ds->dead);
}

/* The state and description of a destroyed dataset. */
static int
ds_bury_state(struct pool_ds *ds, struct pool_tx *tx)
{
	struct datasets *d = ds->p->datasets;
	struct pool_obj *o;
	int err;

	if (ds->mos_object != 0) {
		err = pool_obj_hold(d->mos, ds->mos_object, 0, &o);
		if (err != 0) {
			return err;
		}
		pool_obj_destroy(tx, o);
		pool_obj_release(o);
	}
	err = ds_bury_root(ds, tx, ds->origin_txg, atomic_load(&ds->own_sectors));
	if (err == 0 && ds->origin != NULL) {
		mutex_lock(&d->lock);
		ds->origin->clones--;
		ds->origin = NULL;
		mutex_unlock(&d->lock);
	}
	return err;
}

/* The zombie's last txg: what it has becomes the MOS's to free. */
static int
ds_bury(struct pool_ds *ds, struct pool_tx *tx)
{
	struct datasets *d = ds->p->datasets;
	int err;

	if (ds->rollback != NULL && ds->rollback->kept != NULL) {
		err = ds_sync_one(ds, tx); /* all that was done before the call is kept */
		err = err != 0 ? err : rollback_sync(ds, tx);
	} else {
		ds_sync_drop(ds, tx->txg);
		err = ds->rollback != NULL ? rollback_sync(ds, tx) : ds_bury_state(ds, tx);
	}
	if (err != 0) {
		return err;
	}
	mutex_lock(&d->lock);
	list_remove(&ds->zombie);
	mutex_unlock(&d->lock);
	objects_forget(ds);
	pool_ds_close(ds);
	return 0;
}

static int
pool_phys_write(struct pool *p, struct pool_tx *tx)
{
	struct datasets *d = p->datasets;
	struct iovec iov = {&d->phys, sizeof(d->phys)};
	struct pool_obj *o;
	int err;

	mutex_lock(&d->lock);
	d->phys.dataset_count = le64_of(d->count);
	d->phys.root_dataset = le64_of(d->root->mos_object);
	d->phys.blob_object = le64_of(d->blob_object);
	d->phys_dirty = false;
	mutex_unlock(&d->lock);
	err = pool_obj_hold(d->mos, MOS_OBJECT_POOL, 0, &o);
	if (err == -ENOENT) {
		err = pool_obj_create(tx, d->mos, OBJ_POOL, SECTOR_BYTES, MOS_OBJECT_POOL, 0, &o);
	}
	if (err != 0) {
		return err;
	}
	err = pool_write(tx, o, 0, &iov, 1);
	pool_obj_release(o);
	return err;
}

static int
descriptions_write(struct ds_list *list, struct pool *p, struct pool_tx *tx)
{
	int err = snaps_describe(p, tx);

	for (uint32_t i = 0; i < list->count && err == 0; i++) {
		err = description_write(list->v[i], tx);
	}
	return err;
}

int
datasets_sync(struct pool *p, struct pool_tx *tx)
{
	struct datasets *d = p->datasets;
	struct ds_list list;
	bool phys_dirty;
	int err = snaps_sync_early(p, tx);

	collect(d, &list);
	for (uint32_t i = 0; i < list.count; i++) {
		struct pool_ds *ds = list.v[i];

		if (err == 0 && atomic_load(&ds->destroyed) && ds->destroy_txg <= tx->txg) {
			err = ds_bury(ds, tx);
		} else if (err == 0) {
			err = ds_sync_one(ds, tx);
		}
	}
	err = err != 0 ? err : snaps_sync_late(p, tx);
	err = err != 0 ? err : descriptions_write(&list, p, tx);
	for (uint32_t i = 0; i < list.count; i++) {
		pool_ds_close(list.v[i]);
	}
	mem_free(list.v);
	err = err != 0 ? err : blobs_sync(p, tx);
	err = err != 0 ? err : notes_sync(p, tx);
	mutex_lock(&d->lock);
	phys_dirty = d->phys_dirty;
	mutex_unlock(&d->lock);
	return err == 0 && phys_dirty ? pool_phys_write(p, tx) : err;
}

void
datasets_abandon(struct pool *p)
{
	struct ds_list list;

	collect(p->datasets, &list);
	list.v[list.count++] = pool_ds_ref(p->datasets->mos);
	for (uint32_t i = 0; i < list.count; i++) {
		for (uint64_t slot = 0; slot < TXG_SLOTS; slot++) {
			ds_sync_drop(list.v[i], slot);
		}
		pool_ds_close(list.v[i]);
	}
	mem_free(list.v);
}
