/*
 * dataset.c - datasets in memory and in the MOS.
 *
 * The MOS is a dataset of its own without a name; each other dataset is an OBJ_DATASET object of it
 * (struct dataset_phys and the properties). At import the MOS's table is searched for them and the
 * tree is built from their parents; from then on memory is the truth, and the syncing fiber writes
 * down whose phys_dirty is set.
 *
 * A dataset's references: one of the tree (or of the zombie list), one for each handle, one for
 * each of its objects in memory. Destroyed in txg T it is a zombie: up to T - 1 it is synced as
 * usual; T hands its root to the MOS's free queue.
 */
#include "pool/accounts.h"
#include "pool/snap.h"

#define SLOTS_PER_BLOCK (OBJECT_TABLE_BLOCK_BYTES / OBJECT_SLOT_BYTES)
#define PROPS_BYTES_MAX (256u << 10)

/* ---- memory ---- */

struct pool_ds *
ds_make(struct pool *p, bool is_mos)
{
	struct pool_ds *ds = mem_zalloc(sizeof(*ds));

	if (ds == NULL) {
		return NULL;
	}
	ds->p = p;
	ds->is_mos = is_mos;
	atomic_store(&ds->refs, 1);
	list_init(&ds->sibling);
	list_init(&ds->children);
	list_init(&ds->zombie);
	list_init(&ds->cuts);
	spin_init(&ds->objects_lock);
	list_init(&ds->objects);
	spin_init(&ds->lock);
	spin_init(&ds->number_lock);
	spin_init(&ds->table_lock);
	spin_init(&ds->cut_lock);
	spin_init(&ds->stage.lock);
	ds->dead.loaded = true;
	atomic_store(&ds->list_time, rt_wall_ns());
	atomic_store(&ds->list_seq, atomic_load(&ds->list_time));
	for (unsigned i = 0; i < TXG_SLOTS; i++) {
		list_init(&ds->dirty[i]);
	}
	ds->table.levels = 1;
	ds->accounts.levels = 1;
	atomic_store(&ds->accounts_next, accounts_first(p, is_mos));
	spin_init(&ds->account_lock);
	ds->next_object = is_mos ? MOS_OBJECT_POOL + 1 : OBJSET_OBJECT_UNLINKED + 1;
	ds->policy = (struct pool_ds_policy){.compress = BP_COMPRESS_LZ4,
	    .zstd_level = 3,
	    .cksum = BP_CKSUM_XXH3,
	    .record_bytes = 128u << 10};
	return ds;
}

void
ds_free_memory(struct pool_ds *ds)
{
	if (ds->rollback != NULL && !ds->not_yet) {
		rollback_close(ds->rollback);
	}
	cuts_drop(ds);
	stage_drop(ds);
	deads_free_memory(&ds->dead);
	mem_free(ds->snaps);
	mem_free(ds->props);
	mem_free(ds->freed.v);
	mem_free(ds->landed.v);
	limits_free(ds);
	account_limits_free(ds);
	mem_free(ds);
}

struct pool_ds *
pool_ds_ref(struct pool_ds *ds)
{
	atomic_fetch_add(&ds->refs, 1);
	return ds;
}

void
pool_ds_close(struct pool_ds *ds)
{
	if (atomic_fetch_sub(&ds->refs, 1) == 1) {
		ds_free_memory(ds);
	}
}

struct pool_ds *
pool_mos(struct pool *p)
{
	return p->datasets->mos;
}

/* ---- reading ---- */

void
ds_own_root_set(struct pool_ds *ds)
{
	bool own = bp_birth(&ds->root) > ds->origin_txg;

	atomic_store(&ds->own_root, own ? atomic_load(&ds->root_sectors) : 0);
}

/* A root says which dataset wrote it; what a dataset shares with a snapshot may be another's. */
static bool
root_guid_is_right(const struct pool_ds *ds, const struct objset_phys *r, const struct bp *root)
{
	return pool_ds_is_snap(ds) || le64_get(r->guid) == ds->guid ||
	       bp_birth(root) <= ds->prev_snap_txg;
}

int
ds_load_root(struct pool_ds *ds, const struct bp *root)
{
	const struct objset_phys *r;
	struct iobuf *buf;
	int err;

	if (bp_is_hole(root)) {
		return 0;
	}
	err = block_read(ds->p, root, BLOCK_READ_META, &buf);
	if (err != 0) {
		return err;
	}
	r = (const struct objset_phys *)(const void *)buf->data;
	if (le64_get(r->magic) != OBJSET_MAGIC || r->table.type != OBJ_TABLE ||
	    le32_get(r->table.block_bytes) != OBJECT_TABLE_BLOCK_BYTES ||
	    le64_get(r->next_object) == 0 || !root_guid_is_right(ds, r, root) ||
	    !tree_is_valid(ds->p, &r->table.data, r->table.levels) || !accounts_load(ds, r)) {
		iobuf_unref(buf);
		return -ERR_CORRUPT;
	}
	ds->root = *root;
	atomic_store(&ds->root_sectors, block_sectors(ds->p, root));
	ds->table = (struct tree){
	    .root = r->table.data,
	    .levels = r->table.levels,
	    .used_sectors = le64_get(r->table.used_sectors),
	};
	ds->next_object = le64_get(r->next_object);
	ds->scan_end = ds->next_object / SLOTS_PER_BLOCK;
	atomic_store(&ds->object_count, le64_get(r->object_count));
	atomic_store(&ds->used_sectors, le64_get(r->used_sectors));
	if (ds->origin_txg == 0) {
		atomic_store(&ds->own_sectors, le64_get(r->used_sectors));
	}
	atomic_store(&ds->data_bytes, le64_get(r->data_bytes));
	ds->unlinked_object = le64_get(r->unlinked);
	ds->dying_count = le64_get(r->dying_count);
	atomic_store(&ds->pending_sectors, le64_get(r->pending_sectors));
	ds->last_generation = le64_get(r->last_generation);
	ds->open.root_object = le64_get(r->root_object);
	memcpy(ds->open.owner, r->owner, sizeof(ds->open.owner));
	iobuf_unref(buf);
	return 0;
}

int
obj_bytes_read(struct pool_obj *o, uint64_t off, uint32_t len, uint8_t *out)
{
	while (len > 0) {
		struct pool_slice s[2];
		uint32_t n = MIN(len, 64u << 10), count;
		int err = pool_read(o, off, n, s, ARRAY_LEN(s), &count);

		if (err == -E2BIG) {
			n = MIN(len, DATASET_BLOCK_BYTES);
			err = pool_read(o, off, n, s, ARRAY_LEN(s), &count);
		}
		if (err != 0) {
			return err;
		}
		for (uint32_t i = 0; i < count; i++) {
			if (s[i].buf != NULL) {
				memcpy(out, s[i].buf->data + s[i].off_bytes, s[i].len_bytes);
			} else {
				memset(out, 0, s[i].len_bytes);
			}
			iobuf_unref(s[i].buf);
			out += s[i].len_bytes;
		}
		off += n;
		len -= n;
	}
	return 0;
}

bool
pool_has_snapshots(const struct pool *p)
{
	return (p->v.feat_rocompat & FEATURE_RO_SNAPSHOTS) != 0;
}

/* Does a description have what this firmware doesn't keep, or what the pool's features don't allow?
 */
static bool
phys_is_newer(const struct pool *p, const struct dataset_phys *phys)
{
	bool plain = le64_get(phys->flags) == 0 && le64_get(phys->prev_snap) == 0 &&
		     le64_get(phys->prev_snap_txg) == 0 && le64_get(phys->origin) == 0 &&
		     le64_get(phys->deadmap) == 0 && le64_get(phys->recent) == 0;
	bool limited = (le64_get(phys->quota) | le64_get(phys->refquota) |
			   le64_get(phys->reservation) | le64_get(phys->refreservation)) != 0;

	return (le64_get(phys->flags) & ~DATASET_SNAPSHOT) >> DATASET_FLAGS_INCOMPAT_SHIFT != 0 ||
	       le64_get(phys->next_snap) != 0 || le64_get(phys->pending) != 0 ||
	       (!plain && !pool_has_snapshots(p)) ||
	       (limited && (p->v.feat_rocompat & FEATURE_RO_LIMITS) == 0);
}

int
ds_phys_check(const struct pool *p, const struct dataset_phys *phys)
{
	const char *name = (const char *)phys->name;

	if (le64_get(phys->magic) != DATASET_MAGIC || le64_get(phys->guid) == 0 ||
	    le64_get(phys->props_bytes) > PROPS_BYTES_MAX ||
	    memchr(name, 0, sizeof(phys->name)) == NULL || strchr(name, '/') != NULL ||
	    (le64_get(phys->prev_snap) == 0) != (le64_get(phys->prev_snap_txg) == 0)) {
		return -ERR_CORRUPT;
	}
	return phys_is_newer(p, phys) ? -ERR_FEATURE : 0;
}

int
ds_phys_decode(const struct dataset_phys *phys, struct pool_ds *ds)
{
	ds->guid = le64_get(phys->guid);
	atomic_store(&ds->incarnation, le64_get(phys->incarnation));
	ds->create_txg = le64_get(phys->create_txg);
	ds->create_time = le64_get(phys->create_time);
	ds->prev_snap_txg = le64_get(phys->prev_snap_txg);
	ds->props_bytes = (uint32_t)le64_get(phys->props_bytes);
	ds->limits.told = (struct pool_limits){.quota = le64_get(phys->quota),
	    .refquota = le64_get(phys->refquota),
	    .reservation = le64_get(phys->reservation),
	    .refreservation = le64_get(phys->refreservation)};
	memcpy(ds->name, phys->name, sizeof(phys->name));
	atomic_store(&ds->own_sectors, le64_get(phys->used_sectors));
	return deads_from_phys(phys, &ds->dead);
}

/* ---- the tree ---- */

static void
ds_insert_sorted(struct pool_ds *parent, struct pool_ds *ds)
{
	struct list *at = &parent->children;

	list_for_each(l, &parent->children)
	{
		if (strcmp(list_entry(l, struct pool_ds, sibling)->name, ds->name) > 0) {
			at = l;
			break;
		}
	}
	ds->parent = parent;
	list_push_back(at, &ds->sibling); /* before at */
}

void
ds_attach(struct pool_ds *parent, struct pool_ds *ds)
{
	if (parent == NULL) {
		ds->p->datasets->root = ds;
	} else {
		ds_insert_sorted(parent, ds);
	}
	ds->p->datasets->count++;
	ds->p->datasets->phys_dirty = true;
}

static int
pool_phys_load(struct pool *p)
{
	struct pool_phys *phys = &p->datasets->phys;
	struct pool_obj *o;
	int err = pool_obj_hold(p->datasets->mos, MOS_OBJECT_POOL, 0, &o);

	if (err != 0) {
		return err == -ENOENT ? -ERR_CORRUPT : err;
	}
	err = obj_bytes_read(o, 0, sizeof(*phys), (uint8_t *)phys);
	if (err == 0 && le64_get(phys->magic) != POOL_PHYS_MAGIC) {
		err = -ERR_CORRUPT;
	}
	pool_obj_release(o);
	return err;
}

static int
datasets_make(struct pool *p)
{
	struct datasets *d = mem_zalloc(sizeof(*d));

	if (d == NULL) {
		return -ENOMEM;
	}
	mutex_init(&d->lock, RANK_POOL_DATASET);
	mutex_init(&d->blob_lock, RANK_POOL_DATASET);
	list_init(&d->zombies);
	list_init(&d->blobs);
	p->datasets = d;
	d->mos = ds_make(p, true);
	return d->mos != NULL ? snaps_open(p) : -ENOMEM;
}

int
datasets_open(struct pool *p)
{
	int err = datasets_make(p);

	err = err != 0 ? err : ds_load_root(p->datasets->mos, &p->ub.root);
	err = err != 0 ? err : pool_phys_load(p);
	err = err != 0 ? err : datasets_load(p);
	return err != 0 ? err : blobs_open(p);
}

uint64_t
ds_guid_make(void)
{
	uint64_t guid;

	do {
		guid = rt_random_u64();
	} while (guid == 0);
	return guid;
}

int
datasets_create(struct pool *p)
{
	struct pool_ds *root;
	int err = datasets_make(p);

	if (err != 0) {
		return err;
	}
	root = ds_make(p, false);
	if (root == NULL) {
		return -ENOMEM;
	}
	root->guid = ds_guid_make();
	root->create_time = rt_wall_ns() / NSEC_PER_SEC;
	root->create_txg = 1;
	root->phys_dirty = true;
	p->datasets->phys.magic = le64_of(POOL_PHYS_MAGIC);
	ds_attach(NULL, root);
	return 0;
}

static void
chain_close(struct pool_ds *ds)
{
	while (ds->snap_count > 0) {
		struct snap *s = ds->snaps[--ds->snap_count];

		if (s->ds != NULL) {
			s->ds->snap = NULL;
		}
		snap_free(s);
	}
}

static void
subtree_close(struct pool_ds *ds)
{
	chain_close(ds);
	while (!list_empty(&ds->children)) {
		struct pool_ds *child = list_first(&ds->children, struct pool_ds, sibling);

		list_remove(&child->sibling);
		subtree_close(child);
	}
	pool_ds_close(ds);
}

void
datasets_close(struct pool *p)
{
	struct datasets *d = p->datasets;

	if (d == NULL) {
		return;
	}
	blobs_close(p);
	if (d->root != NULL) {
		subtree_close(d->root);
	}
	while (!list_empty(&d->zombies)) {
		struct pool_ds *ds = list_first(&d->zombies, struct pool_ds, zombie);

		list_remove(&ds->zombie);
		chain_close(ds);
		pool_ds_close(ds);
	}
	snaps_close(p);
	if (d->mos != NULL) {
		pool_ds_close(d->mos);
	}
	mem_free(d);
	p->datasets = NULL;
}

bool
ds_is_dirty(struct pool_ds *ds, uint64_t txg)
{
	bool dirty;

	spin_lock(&ds->lock);
	dirty = !list_empty(&ds->dirty[TXG_SLOT(txg)]) || ds->root_dirty[TXG_SLOT(txg)];
	spin_unlock(&ds->lock);
	return dirty || ds->dying_count > 0 || ds->cut_count > 0 || bp_is_hole(&ds->root) ||
	       accounts_are_behind(ds);
}
