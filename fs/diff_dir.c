/*
 * diff_dir.c - comparing the entries of a directory, and finding names by object.
 *
 * Both trees are ordered by key, and an entry keeps its key as long as it lives. A leaf whose block
 * wasn't written since the earlier snapshot is the same leaf on both sides, at the same keys: it
 * isn't read. (Had it been taken off its tree, its block would have been written.) Step by step the
 * leaves that hold the key reached so far are compared, up to where the first of them ends.
 */
#include <stdlib.h>
#include "fs/diff.h"

int
diff_node(struct diff_step *s, enum diff_side side, uint64_t object, uint64_t generation,
    struct fs_node **out)
{
	int err = fs_node_get(s->ds[side], object, generation, out);
	if (err == 0 && (*out)->ino.type != FS_DIR) {
		fs_node_put(*out);
		err = -ERR_CORRUPT;
	}
	return err;
}

/* One side's part of the interval at hand. */
struct side {
	struct fs_node *n; /* NULL: not there */
	uint8_t *leaf;
	uint64_t next; /* key behind the leaf; 0: it is the last */
	uint32_t i, count;
};

/* Was the leaf's block written between the two? */
static int
leaf_is_old(const struct diff_step *s, const struct side *sides, uint64_t block, bool *out)
{
	uint64_t birth = 0;
	*out = false;
	if (sides[DIFF_FROM].n == NULL || sides[DIFF_TO].n == NULL) {
		return 0;
	}
	int err = pool_obj_block_birth(sides[DIFF_TO].n->obj, block, &birth);
	*out = birth != 0 && birth <= pool_ds_create_txg(s->ds[DIFF_FROM]->pds);
	return err;
}

static int
side_read(struct diff_step *s, struct side *sides, unsigned which, uint64_t key)
{
	struct side *x = &sides[which];
	uint64_t block;
	bool old = true;
	if (x->n == NULL || x->n->ino.dir_height == 0) {
		return 0;
	}
	rwlock_rdlock(&x->n->lock);
	int err = dir_leaf_find(x->n, key, &block, &x->next);
	if (err == 0) {
		err = leaf_is_old(s, sides, block, &old);
	}
	if (err == 0 && !old) {
		err = dir_leaf_copy(x->n, key, x->leaf, &x->next);
		x->i = err == 0 ? leaf_find(x->leaf, key) : 0;
		x->count = err == 0 ? dnode_count(x->leaf) : 0;
	}
	rwlock_rdunlock(&x->n->lock);
	return err;
}

static int
name_add(struct fs_diff *d, uint64_t dir, const struct side *x, enum rec_kind kind)
{
	struct dir_ent e;
	const char *name;
	uint32_t len;
	int err = leaf_get(x->leaf, x->i, &e, &name, &len);
	if (err != 0) {
		return err;
	}
	struct diff_rec r = {.object = e.object,
	    .generation = e.generation,
	    .dir = dir,
	    .key = e.key,
	    .kind = (uint8_t)kind,
	    .type = (uint8_t)e.type};
	return diff_rec_add(d, &r);
}

/* Two entries of one key. */
static int
pair_compare(struct fs_diff *d, uint64_t dir, const struct side *a, const struct side *b)
{
	struct dir_ent e, f;
	const char *name, *name2;
	uint32_t len, len2;
	int err = leaf_get(a->leaf, a->i, &e, &name, &len);
	if (err == 0) {
		err = leaf_get(b->leaf, b->i, &f, &name2, &len2);
	}
	if (err != 0 || (e.object == f.object && e.generation == f.generation && len == len2 &&
			    memcmp(name, name2, len) == 0)) {
		return err;
	}
	err = name_add(d, dir, a, REC_OLD);
	return err != 0 ? err : name_add(d, dir, b, REC_NEW);
}

/* The entries of both sides before end. */
static int
merge(struct fs_diff *d, uint64_t dir, struct side *a, struct side *b, uint64_t end)
{
	int err = 0;
	while (err == 0) {
		uint64_t x = a->i < a->count ? leaf_key(a->leaf, a->i) : UINT64_MAX;
		uint64_t y = b->i < b->count ? leaf_key(b->leaf, b->i) : UINT64_MAX;
		if (MIN(x, y) >= end) {
			return 0;
		}
		err = x == y  ? pair_compare(d, dir, a, b)
		      : x < y ? name_add(d, dir, a, REC_OLD)
			      : name_add(d, dir, b, REC_NEW);
		a->i += x <= y;
		b->i += y <= x;
	}
	return err;
}

int
diff_dir_step(struct diff_step *s)
{
	struct fs_diff *d = s->d;
	const struct diff_dir *dir = &d->dirs[0];
	struct side sides[2] = {{.leaf = d->leaf[0]}, {.leaf = d->leaf[1]}};
	int err = 0;
	for (unsigned i = 0; i < 2 && err == 0; i++) {
		if (dir->generation[i] != 0) {
			err = diff_node(s, i, dir->object, dir->generation[i], &sides[i].n);
		}
	}
	for (unsigned i = 0; i < 2 && err == 0; i++) {
		err = side_read(s, sides, i, d->dir_key);
	}
	if (err == 0) {
		uint64_t end = MIN(sides[0].next - 1, sides[1].next - 1) + 1; /* 0 is the end */
		err = merge(d, dir->object, &sides[0], &sides[1], end == 0 ? UINT64_MAX : end);
		d->dir_key = end;
	}
	fs_node_put(sides[0].n);
	fs_node_put(sides[1].n);
	if (err == 0 && d->dir_key == 0) {
		d->dirs[0] = d->dirs[1];
		d->dir_count--;
		d->dir_key = DIR_KEY_MIN;
	}
	return err;
}

/* ---- a name for those whose names haven't changed ---- */

static int
wanted_order(const void *x, const void *y, void *arg)
{
	const struct diff_rec *recs = arg;
	const struct diff_rec *a = &recs[*(const uint32_t *)x], *b = &recs[*(const uint32_t *)y];
	if (a->dir != b->dir) {
		return a->dir < b->dir ? -1 : 1;
	}
	return a->object < b->object ? -1 : a->object > b->object;
}

/* A change of a slot wants a name when no new one of the same object follows. */
static bool
is_nameless(const struct fs_diff *d, uint32_t i)
{
	const struct diff_rec *r = &d->recs[i];
	for (uint32_t k = i + 1; k < d->rec_count; k++) {
		const struct diff_rec *o = &d->recs[k];
		if (o->object != r->object || o->generation != r->generation) {
			return true;
		}
		if (o->kind == REC_NEW) {
			return false;
		}
	}
	return true;
}

int
diff_names_begin(struct fs_diff *d, uint64_t root)
{
	mem_free(d->wanted);
	d->wanted = mem_zalloc_array(MAX(d->rec_count, 1u), sizeof(*d->wanted));
	d->wanted_count = d->wanted_at = 0;
	d->wanted_key = DIR_KEY_MIN;
	if (d->wanted == NULL) {
		return -ENOMEM;
	}
	for (uint32_t i = 0; i < d->rec_count; i++) {
		struct diff_rec *r = &d->recs[i];
		if (r->kind == REC_SLOT && r->object != root && r->dir != 0 && is_nameless(d, i)) {
			r->flags |= REC_WANTED;
			d->wanted[d->wanted_count++] = i;
		}
	}
	qsort_r(d->wanted, d->wanted_count, sizeof(*d->wanted), wanted_order, d->recs);
	return 0;
}

/* Of those that are looked for in this directory, [wanted_at, end), the one that e leads to. */
static struct diff_rec *
wanted_find(const struct fs_diff *d, uint32_t end, const struct dir_ent *e)
{
	uint32_t lo = d->wanted_at, hi = end;
	while (lo < hi) {
		uint32_t mid = lo + (hi - lo) / 2;
		if (d->recs[d->wanted[mid]].object < e->object) {
			lo = mid + 1;
		} else {
			hi = mid;
		}
	}
	struct diff_rec *r = lo < end ? &d->recs[d->wanted[lo]] : NULL;
	return r != NULL && r->object == e->object && r->generation == e->generation ? r : NULL;
}

/* How many are still looked for after this leaf. */
static int
wanted_leaf(struct fs_diff *d, uint32_t end, uint32_t *out_left)
{
	for (uint32_t i = 0; i < dnode_count(d->leaf[0]); i++) {
		struct dir_ent e;
		const char *name;
		uint32_t len;
		int err = leaf_get(d->leaf[0], i, &e, &name, &len);
		if (err != 0) {
			return err;
		}
		struct diff_rec *r = wanted_find(d, end, &e);
		if (r != NULL && r->key == 0) {
			r->key = e.key;
			r->flags &= (uint8_t)~REC_WANTED;
		}
	}
	*out_left = 0;
	for (uint32_t i = d->wanted_at; i < end; i++) {
		*out_left += (d->recs[d->wanted[i]].flags & REC_WANTED) != 0;
	}
	return 0;
}

int
diff_names_step(struct diff_step *s)
{
	struct fs_diff *d = s->d;
	uint64_t dir = d->recs[d->wanted[d->wanted_at]].dir, next = 0;
	uint32_t end = d->wanted_at, left = 0;
	struct fs_node *n;
	while (end < d->wanted_count && d->recs[d->wanted[end]].dir == dir) {
		end++;
	}
	int err = diff_node(s, DIFF_TO, dir, 0, &n);
	if (err == 0) {
		rwlock_rdlock(&n->lock);
		err = dir_leaf_copy(n, d->wanted_key, d->leaf[0], &next);
		rwlock_rdunlock(&n->lock);
		err = err != 0 ? err : wanted_leaf(d, end, &left);
		fs_node_put(n);
	} else if (err == -ESTALE && !atomic_load(&s->ds[DIFF_TO]->gone)) {
		err = 0; /* its parent went: one of its other names is left somewhere */
	}
	d->wanted_key = next;
	if (err == 0 && (next == 0 || left == 0)) {
		d->wanted_at = end;
		d->wanted_key = DIR_KEY_MIN;
	}
	return err;
}
