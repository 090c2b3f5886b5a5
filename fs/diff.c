/*
 * diff.c - what happened between two snapshots: names that came, went or moved, objects that were
 * changed.
 *
 * The pool says which objects' slots differ. A directory among them is compared entry by entry
 * (diff_dir.c); each name that is on one side only becomes a record, and so does each object that
 * is on both sides and was changed. Sorted by object and generation, the records of one object
 * tell its story (diff_path.c): an old and a new name are a renaming, and a number that is used
 * again has another generation. Of an object whose names haven't changed one is looked for in its
 * parent.
 *
 * Memory is bounded: only records of objects in [lo, hi) are kept. When there are too many, hi
 * comes down and those beyond are dropped; the next round begins there, with the table anew.
 *
 * Nothing of the pool is held between steps, and a step is short. So whoever asks may wait as long
 * as he likes between two of them, the pool may go, and a snapshot may be destroyed (-ESTALE).
 */
#include <stdlib.h>
#include "fs/diff.h"

#define STEP_NS (50 * NSEC_PER_MSEC)
#define REC_LIMIT (256u << 10)
#define REC_CAP_FIRST 1024u

/* ---- records ---- */

static int
rec_order(const void *x, const void *y)
{
	const struct diff_rec *a = x, *b = y;
	if (a->object != b->object) {
		return a->object < b->object ? -1 : 1;
	}
	if (a->generation != b->generation) {
		return a->generation < b->generation ? -1 : 1;
	}
	if (a->kind != b->kind) {
		return a->kind < b->kind ? -1 : 1;
	}
	if (a->dir != b->dir) {
		return a->dir < b->dir ? -1 : 1;
	}
	return a->key < b->key ? -1 : a->key > b->key;
}

/* The upper half goes, to be gathered again later. Not when it is all of one object. */
static void
recs_halve(struct fs_diff *d)
{
	uint32_t keep = d->rec_count / 2;
	qsort(d->recs, d->rec_count, sizeof(*d->recs), rec_order);
	while (keep > 0 && d->recs[keep].object == d->recs[keep - 1].object) {
		keep--;
	}
	if (keep == 0) {
		d->rec_limit *= 2;
		return;
	}
	d->hi = d->recs[keep].object;
	d->rec_count = keep;
}

int
diff_rec_add(struct fs_diff *d, const struct diff_rec *r)
{
	if (d->rec_count == d->rec_limit) {
		recs_halve(d);
	}
	if (r->object < d->lo || r->object >= d->hi) {
		return 0;
	}
	if (d->rec_count == d->rec_cap) {
		uint32_t cap = MAX(d->rec_cap * 2, REC_CAP_FIRST);
		struct diff_rec *recs = mem_realloc(d->recs, cap * sizeof(*recs));
		if (recs == NULL) {
			return -ENOMEM;
		}
		d->recs = recs;
		d->rec_cap = cap;
	}
	d->recs[d->rec_count++] = *r;
	return 0;
}

/* ---- slots ---- */

static bool
is_file(const struct object_slot *slot)
{
	return slot->type >= OBJ_FILE && slot->type <= OBJ_SPECIAL;
}

static bool
is_same_time(const struct fs_time *a, const struct fs_time *b)
{
	return a->sec == b->sec && a->nsec == b->nsec;
}

/* What a user calls a change: contents, size, owner, mode, mtime. Not: when it was read, how many
 * links it has, where it is. */
static bool
is_modified(const struct fs_inode *a, const struct fs_inode *b, const struct object_slot *from,
    const struct object_slot *to)
{
	return a->mode != b->mode || a->uid != b->uid || a->gid != b->gid || a->size != b->size ||
	       a->rdev_major != b->rdev_major || a->rdev_minor != b->rdev_minor ||
	       a->project != b->project || a->xattr_object != b->xattr_object ||
	       !is_same_time(&a->mtime, &b->mtime) || from->flags != to->flags ||
	       le16_get(from->inline_len) != le16_get(to->inline_len) ||
	       memcmp(from->inl, to->inl, sizeof(from->inl)) != 0;
}

static int
compare_both(struct fs_diff *d, uint64_t object, const struct object_slot *from,
    const struct object_slot *to)
{
	struct fs_inode a, b;
	int err = inode_decode(from->bonus, (enum object_type)from->type, &a);
	if (err == 0) {
		err = inode_decode(to->bonus, (enum object_type)to->type, &b);
	}
	if (err != 0) {
		return err;
	}
	struct diff_rec r = {.object = object,
	    .generation = le64_get(to->generation),
	    .dir = b.parent,
	    .kind = REC_SLOT,
	    .type = (uint8_t)b.type};
	r.flags = is_modified(&a, &b, from, to) ? REC_MODIFIED : 0;
	r.links = b.type != FS_DIR ? (int32_t)((int64_t)b.nlink - (int64_t)a.nlink) : 0;
	if (b.type == FS_DIR) {
		d->dirs[d->dir_count++] = (struct diff_dir){object, {r.generation, r.generation}};
	}
	return r.flags != 0 || r.links != 0 ? diff_rec_add(d, &r) : 0;
}

static int
compare_slot(struct fs_diff *d, uint32_t i)
{
	const struct object_slot *from = &d->stretch->from[i], *to = &d->stretch->to[i];
	uint64_t object = d->stretch->first + i;
	bool before = is_file(from), after = is_file(to);
	if (before && after && le64_get(from->generation) == le64_get(to->generation)) {
		bool same = memcmp(from->bonus, to->bonus, sizeof(from->bonus)) == 0 &&
			    memcmp(from->inl, to->inl, sizeof(from->inl)) == 0;
		return same ? 0 : compare_both(d, object, from, to);
	}
	if (before && from->type == OBJ_DIR) {
		d->dirs[d->dir_count++] =
		    (struct diff_dir){object, {le64_get(from->generation), 0}};
	}
	if (after && to->type == OBJ_DIR) {
		d->dirs[d->dir_count++] = (struct diff_dir){object, {0, le64_get(to->generation)}};
	}
	return 0;
}

/* ---- phases ---- */

static void
round_begin(struct fs_diff *d)
{
	d->phase = DIFF_GATHER;
	d->object = 0;
	d->has_stretch = d->table_end = false;
	d->dir_count = 0;
	d->rec_count = 0;
	d->hi = UINT64_MAX;
	d->rec_limit = MAX(d->rec_limit, 2u);
}

static int
gather_step(struct diff_step *s)
{
	struct fs_diff *d = s->d;
	if (d->dir_count > 0) {
		return diff_dir_step(s);
	}
	if (d->has_stretch) {
		int err = compare_slot(d, d->slot++);
		d->dir_key = DIR_KEY_MIN;
		d->has_stretch = d->slot < POOL_DIFF_SLOTS;
		return err;
	}
	int err = pool_diff_next(s->ds[DIFF_FROM]->pds, s->ds[DIFF_TO]->pds, d->object, d->stretch);
	if (err == 0) {
		d->has_stretch = true;
		d->slot = 0;
		d->object = d->stretch->first + POOL_DIFF_SLOTS;
		return 0;
	}
	if (err != -ENOENT) {
		return err;
	}
	if (d->rec_count > 0) {
		qsort(d->recs, d->rec_count, sizeof(*d->recs), rec_order);
	}
	d->phase = DIFF_NAMES;
	return diff_names_begin(d, s->ds[DIFF_TO]->root_object);
}

static int
phase_step(struct diff_step *s)
{
	struct fs_diff *d = s->d;
	switch (d->phase) {
	case DIFF_GATHER:
		return gather_step(s);
	case DIFF_NAMES:
		if (d->wanted_at < d->wanted_count) {
			return diff_names_step(s);
		}
		d->phase = DIFF_EMIT;
		d->emit_at = d->emit_row = 0;
		return 0;
	case DIFF_EMIT:
		if (d->emit_at < d->rec_count) {
			return diff_emit_step(s);
		}
		if (d->hi == UINT64_MAX) {
			d->phase = DIFF_DONE;
			return 0;
		}
		d->lo = d->hi;
		round_begin(d);
		return 0;
	case DIFF_DONE:
		break;
	}
	return 0;
}

/* ---- for others ---- */

static int
sides_open(struct fs_pool *fp, struct diff_step *s)
{
	int err = 0;
	for (unsigned i = 0; i < 2 && err == 0; i++) {
		err = fs_snap_open_guid(fp, 0, s->d->guid[i], &s->ds[i]);
	}
	return err == -ENOENT ? -ESTALE : err;
}

static void
sides_close(struct diff_step *s)
{
	for (unsigned i = 0; i < 2; i++) {
		if (s->ds[i] != NULL) {
			fs_ds_close(s->ds[i]);
		}
	}
}

static int
diff_memory(struct fs_diff *d)
{
	d->stretch = mem_zalloc(sizeof(*d->stretch));
	d->places = mem_zalloc_array(DIFF_PLACES, sizeof(*d->places));
	bool ok = d->stretch != NULL && d->places != NULL;
	for (unsigned i = 0; i < 2; i++) {
		d->leaf[i] = mem_zalloc(DIR_NODE_BYTES);
		d->path[i] = mem_zalloc(DIFF_PATH_BYTES);
		ok = ok && d->leaf[i] != NULL && d->path[i] != NULL;
	}
	return ok ? 0 : -ENOMEM;
}

int
fs_diff_open(struct fs_pool *fp, const char *from, const char *to, struct fs_diff **out)
{
	struct pool_snap_info a, b;
	struct fs_diff *d = mem_zalloc(sizeof(*d));
	struct diff_step s = {.d = d};
	int err = d == NULL ? -ENOMEM : pool_snap_get(fp->pool, from, 0, &a);
	if (err == 0) {
		err = pool_snap_get(fp->pool, to, 0, &b);
	}
	if (err == 0) {
		d->guid[DIFF_FROM] = a.guid;
		d->guid[DIFF_TO] = b.guid;
		err = sides_open(fp, &s);
	}
	if (err == 0) {
		err = pool_diff_check(s.ds[DIFF_FROM]->pds, s.ds[DIFF_TO]->pds);
	}
	sides_close(&s);
	if (err == 0) {
		err = diff_memory(d);
	}
	if (err != 0) {
		fs_diff_close(d);
		return err;
	}
	d->rec_limit = REC_LIMIT;
	round_begin(d);
	*out = d;
	return 0;
}

void
fs_diff_limit(struct fs_diff *d, uint32_t records)
{
	d->rec_limit = MAX(records, 2u);
}

uint64_t
fs_diff_steps(const struct fs_diff *d)
{
	return d->steps;
}

int
fs_diff_step(
    struct fs_pool *fp, struct fs_diff *d, uint32_t max, fs_change_fn *emit, void *arg, bool *done)
{
	struct diff_step s = {.d = d, .emit = emit, .arg = arg};
	uint64_t end = rt_now_ns() + STEP_NS;
	int err = sides_open(fp, &s);
	while (err == 0 && d->phase != DIFF_DONE && s.rows < max && rt_now_ns() < end) {
		err = phase_step(&s);
		d->steps++;
		fiber_maybe_yield();
	}
	bool gone = s.ds[DIFF_FROM] == NULL || s.ds[DIFF_TO] == NULL ||
		    atomic_load(&s.ds[DIFF_FROM]->gone) || atomic_load(&s.ds[DIFF_TO]->gone);
	sides_close(&s);
	*done = d->phase == DIFF_DONE;
	return err != 0 && gone ? -ESTALE : err;
}

void
fs_diff_close(struct fs_diff *d)
{
	if (d == NULL) {
		return;
	}
	for (unsigned i = 0; i < 2; i++) {
		mem_free(d->leaf[i]);
		mem_free(d->path[i]);
	}
	mem_free(d->stretch);
	mem_free(d->places);
	mem_free(d->recs);
	mem_free(d->wanted);
	mem_free(d);
}
