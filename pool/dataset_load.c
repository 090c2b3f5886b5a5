/*
 * dataset_load.c - datasets and snapshots as the MOS has them, at import.
 *
 * Every OBJ_DATASET object is read; then the tree is built of the datasets' parents, and the chains
 * by following prev_snap from each head up to its origin. Whatever doesn't fit together is
 * corruption: a parent or origin that isn't there, a circle, a snapshot in no chain or in two. Of
 * snapshots only the description is read: their roots when they are opened.
 */
#include <stdlib.h>

#include "pool/snap.h"

struct loading {
	uint64_t mos_object;
	struct pool_ds *ds; /* or */
	struct snap *snap;
	uint64_t parent, prev_snap, prev_txg, origin;
	bool placed;
};

struct loader {
	struct pool *p;
	struct loading *v; /* by mos_object */
	uint32_t count;
};

static struct loading *
loading_find(const struct loader *l, uint64_t mos_object)
{
	uint32_t lo = 0, hi = l->count;

	while (lo < hi) {
		uint32_t mid = lo + (hi - lo) / 2;

		if (l->v[mid].mos_object < mos_object) {
			lo = mid + 1;
		} else {
			hi = mid;
		}
	}
	return lo < l->count && l->v[lo].mos_object == mos_object ? &l->v[lo] : NULL;
}

/* ---- reading ---- */

/* Is the list what it claims: pairs of strings? */
static bool
pairs_are_valid(const char *pairs, uint32_t len, uint32_t *out_count)
{
	uint32_t strings = 0;

	for (uint32_t i = 0; i < len; i++) {
		strings += pairs[i] == '\0';
	}
	*out_count = strings / 2;
	return len == 0 || (pairs[len - 1] == '\0' && strings % 2 == 0);
}

static int
pairs_load(struct pool_obj *o, uint32_t len, char **out, uint32_t *out_count)
{
	int err;

	*out_count = 0;
	if (len == 0) {
		return 0;
	}
	*out = mem_zalloc(len);
	if (*out == NULL) {
		return -ENOMEM;
	}
	err = obj_bytes_read(o, DATASET_PROPS_OFF, len, (uint8_t *)*out);
	return err != 0 || pairs_are_valid(*out, len, out_count) ? err : -ERR_CORRUPT;
}

static int
head_load(struct pool *p, struct pool_obj *o, const struct dataset_phys *phys, struct loading *out)
{
	struct pool_ds *ds = ds_make(p, false);
	uint32_t pairs;
	int err = ds == NULL ? -ENOMEM : ds_phys_decode(phys, ds);

	if (err == 0) {
		/* the root's figures depend on whether there is an origin; its txg comes later */
		ds->origin_txg = le64_get(phys->origin) != 0 ? UINT64_MAX : 0;
		err = pairs_load(o, ds->props_bytes, &ds->props, &pairs);
	}
	err = err != 0 ? err : ds_load_root(ds, &phys->root);
	if (err != 0) {
		if (ds != NULL) {
			ds_free_memory(ds);
		}
		return err;
	}
	ds->mos_object = pool_obj_number(o);
	out->ds = ds;
	return 0;
}

static int
snap_load(struct pool_obj *o, const struct dataset_phys *phys, struct loading *out)
{
	struct snap *s = snap_make((const char *)phys->name);
	int err = s == NULL ? -ENOMEM : snap_decode(phys, s);

	err = err != 0 ? err : pairs_load(o, s->tags_bytes, &s->tags, &s->holds);
	if (err != 0) {
		if (s != NULL) {
			snap_free(s);
		}
		return err;
	}
	s->mos_object = pool_obj_number(o);
	out->snap = s;
	return 0;
}

static int
one_load(struct pool *p, uint64_t number, struct loading *out)
{
	struct dataset_phys *phys = mem_zalloc(sizeof(*phys));
	struct pool_obj *o = NULL;
	int err = phys == NULL ? -ENOMEM : pool_obj_hold(p->datasets->mos, number, 0, &o);

	err = err != 0 ? err : obj_bytes_read(o, 0, sizeof(*phys), (uint8_t *)phys);
	err = err != 0 ? err : ds_phys_check(p, phys);
	if (err == 0) {
		*out = (struct loading){
		    .mos_object = number,
		    .parent = le64_get(phys->parent),
		    .prev_snap = le64_get(phys->prev_snap),
		    .prev_txg = le64_get(phys->prev_snap_txg),
		    .origin = le64_get(phys->origin),
		};
		err = (le64_get(phys->flags) & DATASET_SNAPSHOT) != 0 ? snap_load(o, phys, out)
								      : head_load(p, o, phys, out);
	}
	if (o != NULL) {
		pool_obj_release(o);
	}
	mem_free(phys);
	return err;
}

/* ---- the tree ---- */

/* Does the chain of parents end at a root? */
static bool
is_rooted(const struct loader *l, const struct loading *from)
{
	for (uint32_t steps = 0; steps <= l->count && from != NULL && from->ds != NULL; steps++) {
		if (from->parent == 0) {
			return true;
		}
		from = loading_find(l, from->parent);
	}
	return false;
}

static int
tree_build(struct loader *l)
{
	struct datasets *d = l->p->datasets;

	for (uint32_t i = 0; i < l->count; i++) {
		struct loading *x = &l->v[i];

		if (x->ds == NULL) {
			continue;
		}
		if (!is_rooted(l, x) || (x->parent == 0 && d->root != NULL)) {
			return -ERR_CORRUPT;
		}
		ds_attach(x->parent != 0 ? loading_find(l, x->parent)->ds : NULL, x->ds);
		x->placed = true;
	}
	d->phys_dirty = false;
	return d->root != NULL ? 0 : -ERR_CORRUPT;
}

/* ---- the chains ---- */

/* The snapshot that x names as the one before it; NULL: it doesn't fit. */
static struct loading *
before(const struct loader *l, const struct loading *x)
{
	struct loading *prev = loading_find(l, x->prev_snap);

	if (prev == NULL || prev->snap == NULL || prev->snap->create_txg != x->prev_txg ||
	    (x->snap != NULL && prev->snap->create_txg >= x->snap->create_txg)) {
		return NULL;
	}
	return prev;
}

/* From the head to its origin, then in the other order. */
static int
chain_build(struct loader *l, struct loading *head)
{
	struct pool_ds *ds = head->ds;
	struct loading *x = head;
	uint32_t count = 0;

	while (x->prev_snap != head->origin) {
		x = before(l, x);
		if (x == NULL || x->placed) {
			return -ERR_CORRUPT;
		}
		x->placed = true;
		chain_grow(ds, count + 1);
		ds->snaps[count++] = x->snap;
		ds->snap_count = count;
	}
	if (head->origin != 0 && before(l, x) == NULL) {
		return -ERR_CORRUPT;
	}
	for (uint32_t i = 0; i < count / 2; i++) {
		struct snap *s = ds->snaps[i];

		ds->snaps[i] = ds->snaps[count - 1 - i];
		ds->snaps[count - 1 - i] = s;
	}
	for (uint32_t i = 0; i < count; i++) {
		ds->snaps[i]->head = ds;
		snap_hash(l->p, ds->snaps[i]);
	}
	return 0;
}

static int
origins_set(struct loader *l)
{
	for (uint32_t i = 0; i < l->count; i++) {
		struct loading *x = &l->v[i];

		if (x->ds == NULL || x->origin == 0) {
			continue;
		}
		x->ds->origin = loading_find(l, x->origin)->snap;
		x->ds->origin_txg = x->ds->origin->create_txg;
		x->ds->origin->clones++;
	}
	/* From origin to origin it becomes older, so there is no circle, unless snapshots lie. */
	for (uint32_t i = 0; i < l->count; i++) {
		struct pool_ds *ds = l->v[i].ds;

		if (l->v[i].snap != NULL && !l->v[i].placed) {
			return -ERR_CORRUPT;
		}
		if (ds != NULL && ds->snap_count > 0 &&
		    ds->snaps[0]->create_txg <= ds->origin_txg) {
			return -ERR_CORRUPT;
		}
		if (ds != NULL) {
			ds_own_root_set(ds);
			chain_recount(ds);
		}
		if (l->v[i].snap != NULL) {
			snap_count_written(l->v[i].snap);
		}
	}
	return 0;
}

static int
chains_build(struct loader *l)
{
	for (uint32_t i = 0; i < l->count; i++) {
		int err = l->v[i].ds != NULL ? chain_build(l, &l->v[i]) : 0;

		if (err != 0) {
			return err;
		}
	}
	return origins_set(l);
}

/* ---- all together ---- */

/* The numbers of all objects of the MOS with that type, ascending. */
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
			uint64_t *more = mem_realloc(v, (cap * 2 + 64) * sizeof(*v));

			if (more == NULL) {
				mem_free(v);
				return -ENOMEM;
			}
			v = more;
			cap = cap * 2 + 64;
		}
		v[n++] = number;
	}
	*out = v;
	*out_count = n;
	return 0;
}

/* What has found no place in the tree or a chain yet is nobody else's to free. */
static void
loader_free(struct loader *l, bool failed)
{
	for (uint32_t i = 0; failed && i < l->count; i++) {
		if (l->v[i].placed) {
			continue;
		}
		if (l->v[i].ds != NULL) {
			pool_ds_close(l->v[i].ds);
		} else if (l->v[i].snap != NULL) {
			snap_free(l->v[i].snap);
		}
	}
	mem_free(l->v);
}

int
datasets_load(struct pool *p)
{
	struct loader l = {.p = p};
	uint64_t *numbers = NULL;
	uint32_t count = 0;
	int err = mos_find(p, OBJ_DATASET, &numbers, &count);

	if (err != 0) {
		return err;
	}
	l.v = mem_zalloc_array(count + 1, sizeof(*l.v));
	err = l.v == NULL ? -ENOMEM : 0;
	for (uint32_t i = 0; i < count && err == 0; i++) {
		err = one_load(p, numbers[i], &l.v[i]);
		l.count += err == 0;
		if (err != 0) {
			log_error("dataset_unreadable pool=%s object=%llu err=%s", p->name,
			    (unsigned long long)numbers[i], err_str(err));
		}
	}
	err = err != 0 ? err : tree_build(&l);
	err = err != 0 ? err : chains_build(&l);
	loader_free(&l, err != 0);
	mem_free(numbers);
	return err;
}
