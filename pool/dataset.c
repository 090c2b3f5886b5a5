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
#include "pool/object.h"

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
	spin_init(&ds->lock);
	spin_init(&ds->number_lock);
	spin_init(&ds->table_lock);
	spin_init(&ds->cut_lock);
	for (unsigned i = 0; i < TXG_SLOTS; i++) {
		list_init(&ds->dirty[i]);
	}
	ds->table.levels = 1;
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
	cuts_drop(ds);
	mem_free(ds->props);
	mem_free(ds->freed.v);
	mem_free(ds->landed.v);
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
	    le64_get(r->next_object) == 0 || le64_get(r->guid) != ds->guid ||
	    !tree_is_valid(ds->p, &r->table.data, r->table.levels)) {
		iobuf_unref(buf);
		return -ERR_CORRUPT;
	}
	ds->root = *root;
	ds->table = (struct tree){
	    .root = r->table.data,
	    .levels = r->table.levels,
	    .used_sectors = le64_get(r->table.used_sectors),
	};
	ds->next_object = le64_get(r->next_object);
	ds->scan_end = ds->next_object / SLOTS_PER_BLOCK;
	atomic_store(&ds->object_count, le64_get(r->object_count));
	atomic_store(&ds->used_sectors, le64_get(r->used_sectors));
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

/* Is the property list what it claims: pairs of strings? */
static bool
props_are_valid(const char *props, uint32_t len)
{
	uint32_t strings = 0;

	for (uint32_t i = 0; i < len; i++) {
		strings += props[i] == '\0';
	}
	return len == 0 || (props[len - 1] == '\0' && strings % 2 == 0);
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

/* Does a dataset have what this firmware doesn't keep: it would free a snapshot's blocks, and write
 * the description without these fields. */
static bool
phys_is_newer(const struct dataset_phys *phys)
{
	return le64_get(phys->flags) >> DATASET_FLAGS_INCOMPAT_SHIFT != 0 ||
	       le64_get(phys->prev_snap) != 0 || le64_get(phys->prev_snap_txg) != 0 ||
	       le64_get(phys->next_snap) != 0 || le64_get(phys->origin) != 0 ||
	       le64_get(phys->deadmap) != 0 || le64_get(phys->pending) != 0;
}

static int
phys_decode(const struct dataset_phys *phys, struct pool_ds *ds)
{
	const char *name = (const char *)phys->name;

	if (le64_get(phys->magic) != DATASET_MAGIC || le64_get(phys->guid) == 0 ||
	    le64_get(phys->props_bytes) > PROPS_BYTES_MAX ||
	    memchr(name, 0, sizeof(phys->name)) == NULL || strchr(name, '/') != NULL) {
		return -ERR_CORRUPT;
	}
	if (phys_is_newer(phys)) {
		return -ERR_FEATURE;
	}
	ds->guid = le64_get(phys->guid);
	atomic_store(&ds->incarnation, le64_get(phys->incarnation));
	ds->create_txg = le64_get(phys->create_txg);
	ds->create_time = le64_get(phys->create_time);
	ds->prev_snap_txg = le64_get(phys->prev_snap_txg);
	ds->props_bytes = (uint32_t)le64_get(phys->props_bytes);
	memcpy(ds->name, name, sizeof(phys->name));
	return 0;
}

static int
props_load(struct pool_ds *ds, struct pool_obj *o)
{
	int err;

	if (ds->props_bytes == 0) {
		return 0;
	}
	ds->props = mem_zalloc(ds->props_bytes);
	if (ds->props == NULL) {
		return -ENOMEM;
	}
	err = obj_bytes_read(o, DATASET_PROPS_OFF, ds->props_bytes, (uint8_t *)ds->props);
	if (err == 0 && !props_are_valid(ds->props, ds->props_bytes)) {
		err = -ERR_CORRUPT;
	}
	return err;
}

/* One dataset from its object; *out_parent: MOS object of its parent. */
static int
ds_load(struct pool *p, uint64_t number, struct pool_ds **out, uint64_t *out_parent)
{
	struct dataset_phys *phys = mem_zalloc(sizeof(*phys));
	struct pool_ds *ds = ds_make(p, false);
	struct pool_obj *o = NULL;
	int err = phys == NULL || ds == NULL ? -ENOMEM : 0;

	err = err != 0 ? err : pool_obj_hold(p->datasets->mos, number, 0, &o);
	err = err != 0 ? err : obj_bytes_read(o, 0, sizeof(*phys), (uint8_t *)phys);
	err = err != 0 ? err : phys_decode(phys, ds);
	err = err != 0 ? err : props_load(ds, o);
	err = err != 0 ? err : ds_load_root(ds, &phys->root);
	if (err == 0) {
		ds->mos_object = number;
		*out_parent = le64_get(phys->parent);
		*out = ds;
	} else if (ds != NULL) {
		ds_free_memory(ds);
	}
	if (o != NULL) {
		pool_obj_release(o);
	}
	mem_free(phys);
	return err;
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

struct loading {
	struct pool_ds *ds;
	uint64_t parent;
};

static struct pool_ds *
loading_find(const struct loading *v, uint32_t count, uint64_t mos_object)
{
	for (uint32_t i = 0; i < count; i++) {
		if (v[i].ds->mos_object == mos_object) {
			return v[i].ds;
		}
	}
	return NULL;
}

/* Does the chain of parents end? */
static bool
loading_is_rooted(const struct loading *v, uint32_t count, const struct loading *from)
{
	for (uint32_t steps = 0; steps <= count; steps++) {
		const struct pool_ds *parent;

		if (from->parent == 0) {
			return true;
		}
		parent = loading_find(v, count, from->parent);
		if (parent == NULL) {
			return false;
		}
		for (uint32_t i = 0; i < count; i++) {
			if (v[i].ds == parent) {
				from = &v[i];
			}
		}
	}
	return false;
}

static int
tree_build(struct pool *p, const struct loading *v, uint32_t count)
{
	for (uint32_t i = 0; i < count; i++) {
		struct pool_ds *parent = NULL;

		if (!loading_is_rooted(v, count, &v[i]) ||
		    (v[i].parent == 0 && p->datasets->root != NULL)) {
			return -ERR_CORRUPT;
		}
		if (v[i].parent != 0) {
			parent = loading_find(v, count, v[i].parent);
		}
		ds_attach(parent, v[i].ds);
	}
	p->datasets->phys_dirty = false;
	return p->datasets->root != NULL ? 0 : -ERR_CORRUPT;
}

/* Calls for each object of the MOS with that type. */
static int
mos_find(struct pool *p, enum object_type type, uint64_t **out, uint32_t *out_count)
{
	struct pool_ds *mos = p->datasets->mos;
	uint64_t *v = NULL;
	uint32_t n = 0, cap = 0;

	for (uint64_t number = 1; number < mos->next_object; number++) {
		struct object_slot slot;
		int err = obj_slot_read(mos, number, &slot);

		if (err != 0 && err != -ENOENT) {
			mem_free(v);
			return err;
		}
		if (err == -ENOENT || slot.type != type) {
			continue;
		}
		if (n == cap) {
			uint64_t *more = mem_realloc(v, (cap + 64) * sizeof(*v));

			if (more == NULL) {
				mem_free(v);
				return -ENOMEM;
			}
			v = more;
			cap += 64;
		}
		v[n++] = number;
	}
	*out = v;
	*out_count = n;
	return 0;
}

static int
datasets_load(struct pool *p)
{
	struct loading *v = NULL;
	uint64_t *numbers = NULL;
	uint32_t count = 0, loaded = 0;
	int err = mos_find(p, OBJ_DATASET, &numbers, &count);

	if (err != 0) {
		return err;
	}
	v = mem_zalloc_array(count + 1, sizeof(*v));
	if (v == NULL) {
		mem_free(numbers);
		return -ENOMEM;
	}
	for (; loaded < count && err == 0; loaded++) {
		err = ds_load(p, numbers[loaded], &v[loaded].ds, &v[loaded].parent);
		if (err != 0) {
			log_error("dataset_unreadable pool=%s object=%llu err=%s", p->name,
			    (unsigned long long)numbers[loaded], err_str(err));
			break;
		}
	}
	if (err == 0) {
		err = tree_build(p, v, count);
	}
	if (err != 0 && p->datasets->root == NULL) {
		for (uint32_t i = 0; i < loaded; i++) {
			pool_ds_close(v[i].ds);
		}
	}
	mem_free(v);
	mem_free(numbers);
	return err;
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
	return d->mos != NULL ? 0 : -ENOMEM;
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
subtree_close(struct pool_ds *ds)
{
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
		pool_ds_close(ds);
	}
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
	return dirty || ds->dying_count > 0 || ds->cut_count > 0 || bp_is_hole(&ds->root);
}
