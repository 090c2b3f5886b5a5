/*
 * diff_path.c - from records to changes with paths.
 *
 * A path is put together from its end: an entry's name lies in its directory under its key; where a
 * directory is, its parent knows, in which the entry has to be looked for. Places of directories
 * are remembered, and with one that is looked for all that lie in front of it.
 */
#include "fs/diff.h"

#define STEPS_MAX 4096u
#define CUT "..."

/* ---- places ---- */

static struct diff_place *
place_slot(struct fs_diff *d, enum diff_side side, uint64_t object)
{
	return &d->places[((object * 2 + side) * 0x9e3779b97f4a7c15ull >> 40) % DIFF_PLACES];
}

static void
place_put(struct fs_diff *d, enum diff_side side, uint64_t object, uint64_t parent, uint64_t key)
{
	*place_slot(d, side, object) = (struct diff_place){object, parent, key, side};
}

/* Puts the directories of a leaf into the places. 1: object is among them. */
static int
places_of_leaf(struct fs_diff *d, enum diff_side side, uint64_t parent, uint64_t object)
{
	for (uint32_t i = 0; i < dnode_count(d->leaf[0]); i++) {
		struct dir_ent e;
		const char *name;
		uint32_t len;
		int err = leaf_get(d->leaf[0], i, &e, &name, &len);
		if (err != 0) {
			return err;
		}
		if (e.type == FS_DIR) {
			place_put(d, side, e.object, parent, e.key);
		}
		if (e.object == object) {
			return 1;
		}
	}
	return 0;
}

/* The parent of a directory, held. */
static int
parent_hold(struct diff_step *s, enum diff_side side, uint64_t object, struct fs_node **out)
{
	struct fs_node *n;
	int err = diff_node(s, side, object, 0, &n);
	if (err == 0) {
		err = diff_node(s, side, n->ino.parent, 0, out);
		fs_node_put(n);
	}
	return err;
}

static int
place_find(struct diff_step *s, enum diff_side side, uint64_t object)
{
	uint64_t key = DIR_KEY_MIN;
	struct fs_node *up;
	int err = parent_hold(s, side, object, &up);
	if (err != 0) {
		return err;
	}
	while (err == 0 && key != 0) {
		rwlock_rdlock(&up->lock);
		err = dir_leaf_copy(up, key, s->d->leaf[0], &key);
		rwlock_rdunlock(&up->lock);
		err = err != 0 ? err : places_of_leaf(s->d, side, fs_node_object(up), object);
		fiber_maybe_yield();
	}
	fs_node_put(up);
	return err == 1 ? 0 : err == 0 ? -ERR_CORRUPT : err;
}

static int
place_get(struct diff_step *s, enum diff_side side, uint64_t object, struct diff_place *out)
{
	struct diff_place *p = place_slot(s->d, side, object);
	int err = 0;
	if (p->object != object || p->side != side) {
		err = place_find(s, side, object);
	}
	*out = *p;
	return err;
}

/* ---- paths ---- */

/* In front of what is there. false: no room, the beginning is left out. */
static bool
prepend(char *buf, uint32_t *at, const char *name, uint32_t len)
{
	if (*at < len + 1 + sizeof(CUT)) {
		*at -= (uint32_t)sizeof(CUT) - 1;
		memcpy(buf + *at, CUT, sizeof(CUT) - 1);
		return false;
	}
	*at -= len;
	memcpy(buf + *at, name, len);
	buf[--*at] = '/';
	return true;
}

/* The name of an entry, in front of what is there. 1: no room. */
static int
prepend_entry(
    struct diff_step *s, enum diff_side side, uint64_t dir, uint64_t key, char *buf, uint32_t *at)
{
	struct fs_node *n;
	struct dir_path p;
	int err = diff_node(s, side, dir, 0, &n);
	if (err != 0) {
		return err;
	}
	rwlock_rdlock(&n->lock);
	err = n->ino.dir_height > 0 ? dir_descend(n, key, &p) : -ERR_CORRUPT;
	if (err == 0) {
		const void *leaf = pool_buf_data(p.buf[p.depth - 1]);
		uint32_t i = leaf_find(leaf, key), len;
		struct dir_ent e;
		const char *name;
		bool is = i < dnode_count(leaf) && leaf_key(leaf, i) == key;
		err = is ? leaf_get(leaf, i, &e, &name, &len) : -ERR_CORRUPT;
		if (err == 0 && !prepend(buf, at, name, len)) {
			err = 1;
		}
		dir_path_release(&p);
	}
	rwlock_rdunlock(&n->lock);
	fs_node_put(n);
	return err;
}

int
diff_path(struct diff_step *s, enum diff_side side, uint64_t dir, uint64_t key, uint32_t which,
    const char **out)
{
	char *buf = s->d->path[which];
	uint32_t at = DIFF_PATH_BYTES - 1;
	int err = 0;
	buf[at] = '\0';
	for (uint32_t step = 0; err == 0; step++) {
		struct diff_place place;
		err = prepend_entry(s, side, dir, key, buf, &at);
		if (err != 0 || dir == s->ds[side]->root_object) {
			break;
		}
		err = step < STEPS_MAX ? place_get(s, side, dir, &place) : -ERR_CORRUPT;
		dir = place.parent;
		key = place.key;
	}
	*out = buf + at;
	return err < 0 ? err : 0;
}

/* ---- changes ---- */

static void
group_find(struct fs_diff *d)
{
	const struct diff_rec *first = &d->recs[d->emit_at];
	struct diff_group *g = &d->group;
	*g = (struct diff_group){0};
	for (uint32_t i = d->emit_at; i < d->rec_count; i++, g->count++) {
		const struct diff_rec *r = &d->recs[i];
		if (r->object != first->object || r->generation != first->generation) {
			break;
		}
		if (r->kind == REC_SLOT) {
			g->slot = r;
		} else if (r->kind == REC_OLD) {
			g->old = g->old_count++ == 0 ? r : g->old;
		} else {
			g->new = g->new_count++ == 0 ? r : g->new;
		}
	}
}

static void
tell(struct diff_step *s, struct fs_change *c, const struct diff_rec *r)
{
	c->type = r->type;
	c->object = r->object;
	c->generation = r->generation;
	s->emit(s->arg, c);
	s->rows++;
}

/* The row-th name that went, came, or is another one. */
static int
emit_name(struct diff_step *s, const struct diff_group *g, uint32_t row)
{
	struct fs_change c = {0};
	const struct diff_rec *old = row < g->old_count ? &g->old[row] : NULL;
	const struct diff_rec *new = row < g->new_count ? &g->new[row] : NULL;
	int err = 0;
	if (old != NULL) {
		err = diff_path(
		    s, DIFF_FROM, old->dir, old->key, 0, new != NULL ? &c.old_path : &c.path);
	}
	if (new != NULL && err == 0) {
		err = diff_path(s, DIFF_TO, new->dir, new->key, 1, &c.path);
	}
	if (err != 0) {
		return err;
	}
	c.what = old == NULL ? '+' : new == NULL ? '-' : 'R';
	/* taken away and made again: under another key, but the name is the same */
	if (c.what != 'R' || old->dir != new->dir || strcmp(c.path, c.old_path) != 0) {
		tell(s, &c, new != NULL ? new : old);
	}
	return 0;
}

static int
emit_slot(struct diff_step *s, const struct diff_group *g)
{
	const struct diff_rec *r = g->slot, *name = g->new_count > 0 ? g->new : r;
	struct fs_change c = {
	    .what = 'M', .modified = (r->flags & REC_MODIFIED) != 0, .links = r->links};
	int err = 0;
	if (r->object == s->ds[DIFF_TO]->root_object) {
		c.path = "/";
	} else if (name->key != 0) {
		err = diff_path(s, DIFF_TO, name->dir, name->key, 1, &c.path);
	}
	if (err == 0) {
		tell(s, &c, r);
	}
	return err;
}

int
diff_emit_step(struct diff_step *s)
{
	struct fs_diff *d = s->d;
	const struct diff_group *g = &d->group;
	int err = 0;
	if (d->emit_row == 0) {
		group_find(d);
	}
	if (d->emit_row < MAX(g->old_count, g->new_count)) {
		return emit_name(s, g, d->emit_row++);
	}
	if (g->slot != NULL) {
		err = emit_slot(s, g);
	}
	d->emit_at += g->count;
	d->emit_row = 0;
	return err;
}
