/*
 * dataset.c - datasets and snapshots: objects of the MOS. They are found by looking at every slot
 * of its table, and their paths are put together from the names and the parents' object numbers. A
 * snapshot's parent is the dataset from which the pointers to the snapshot before, up to the
 * origin, lead to it.
 */
#include <stdlib.h>

#include "dump/dump.h"

#define PROPS_AT 0x1000u
#define PROPS_MAX (1u << 20)
#define DATASETS_MAX (1u << 20)
#define DEPTH_MAX 128u
#define SLOTS_PER_BLOCK 32u
#define FLAG_SNAPSHOT ((uint64_t)1 << 32)

int
dump_mos(struct dump_pool *p, struct dump_objset *out)
{
	struct dump_bp root;

	if (dump_bp_decode(p->uber.root, p->config.set_count, &root) != NULL) {
		return -ERR_CORRUPT;
	}
	return dump_objset_read(p, &root, out);
}

static const char *
dataset_decode(const uint8_t *raw, uint64_t object, uint32_t set_count, struct dump_dataset *ds)
{
	if (memcmp(raw, "1AGTASES", 8) != 0) {
		return "no dataset";
	}
	*ds = (struct dump_dataset){
	    .object = object,
	    .guid = b64(raw, 0x08),
	    .parent = b64(raw, 0x10),
	    .incarnation = b64(raw, 0x18),
	    .create_txg = b64(raw, 0x20),
	    .create_time = b64(raw, 0x28),
	    .flags = b64(raw, 0x30),
	    .prev_snap = b64(raw, 0x38),
	    .prev_txg = b64(raw, 0x40),
	    .origin = b64(raw, 0x50),
	    .used_sectors = b64(raw, 0x60),
	    .props_bytes = b64(raw, 0x98),
	    .ref_sectors = b64(raw, 0xa0),
	    .dead_sectors = b64(raw, 0xb8),
	};
	ds->is_snap = (ds->flags & FLAG_SNAPSHOT) != 0;
	for (unsigned i = 0; i < 4; i++) {
		ds->limit[i] = b64(raw, 0x70 + 8 * i);
	}
	memcpy(ds->name, raw + 0x300, sizeof(ds->name));
	if (ds->guid == 0 || ds->name[sizeof(ds->name) - 1] != '\0' ||
	    ds->props_bytes > PROPS_MAX) {
		return "impossible values";
	}
	if ((ds->flags & ~FLAG_SNAPSHOT) >> 32 != 0) {
		return "it uses features that this program doesn't know";
	}
	return dump_bp_decode(raw + 0x200, set_count, &ds->root);
}

static int
dataset_read(
    struct dump_pool *p, const struct dump_objset *mos, uint64_t object, struct dump_dataset *out)
{
	uint8_t raw[PROPS_AT];
	struct dump_slot slot;
	const char *why;
	int err = dump_slot_read(p, mos, object, &slot);

	if (err == 0 && slot.type != TYPE_DATASET) {
		err = -ENOENT;
	}
	if (err == 0) {
		err = dump_object_read(p, &slot, 0, raw, sizeof(raw));
	}
	if (err != 0) {
		return err;
	}
	why = dataset_decode(raw, object, p->config.set_count, out);
	if (why != NULL) {
		out_error("dataset %llu: %s", (unsigned long long)object, why);
		return -ERR_CORRUPT;
	}
	return 0;
}

/* ---- paths ---- */

/* v is in order of object. */
static struct dump_dataset *
by_object(struct dump_dataset *v, uint32_t count, uint64_t object)
{
	uint32_t lo = 0, hi = count;

	while (lo < hi) {
		uint32_t mid = lo + (hi - lo) / 2;

		if (v[mid].object < object) {
			lo = mid + 1;
		} else {
			hi = mid;
		}
	}
	return lo < count && v[lo].object == object ? &v[lo] : NULL;
}

/* The chain of a dataset: its snapshots learn whose they are. */
static void
chain_mark(struct dump_dataset *v, uint32_t count, const struct dump_dataset *head)
{
	uint64_t at = head->prev_snap;

	for (uint32_t steps = 0; at != 0 && at != head->origin && steps < count; steps++) {
		struct dump_dataset *s = by_object(v, count, at);

		if (s == NULL || !s->is_snap || s->parent != 0) {
			out_error("dataset %llu: its snapshot %llu isn't there, or another's",
			    (unsigned long long)head->object, (unsigned long long)at);
			return;
		}
		s->parent = head->object;
		at = s->prev_snap;
	}
}

/* Puts the names of ds and those above it before what is at *start of path. False: no root is
 * reached. */
static bool
path_build(
    const struct dump_pool *p, struct dump_dataset *v, uint32_t count, struct dump_dataset *ds)
{
	char path[PATH_MAX_DATASET];
	size_t start = sizeof(path) - 1;
	const struct dump_dataset *at = ds;

	path[start] = '\0';
	for (uint32_t depth = 0; at != NULL && depth < DEPTH_MAX; depth++) {
		const char *name = at->parent == 0 ? p->config.name : at->name;
		size_t len = strlen(name);

		if (len + 1 > start) {
			return false;
		}
		start -= len;
		memcpy(path + start, name, len);
		if (at->parent == 0 && at->is_snap) {
			return false;
		}
		if (at->parent == 0) {
			memcpy(ds->path, path + start, sizeof(path) - start);
			return true;
		}
		path[--start] = at->is_snap ? '@' : '/';
		at = by_object(v, count, at->parent);
	}
	return false;
}

static int
path_order(const void *a, const void *b)
{
	const struct dump_dataset *x = a, *y = b;

	return strcmp(x->path, y->path);
}

struct collection {
	struct dump_pool *p;
	struct dump_objset mos;
	struct dump_dataset *v;
	uint32_t count, cap;
};

static int
collect_object(struct collection *c, uint64_t object)
{
	struct dump_dataset ds;
	int err = dataset_read(c->p, &c->mos, object, &ds);

	if (err != 0) {
		if (err != -ENOENT) {
			out_error(
			    "object %llu of the MOS: %s", (unsigned long long)object, err_str(err));
		}
		return 0;
	}
	if (c->count == c->cap) {
		struct dump_dataset *more = mem_realloc(c->v, MAX(c->cap * 2, 16u) * sizeof(*more));

		if (more == NULL || c->count == DATASETS_MAX) {
			return -ENOMEM;
		}
		c->v = more;
		c->cap = MAX(c->cap * 2, 16u);
	}
	c->v[c->count++] = ds;
	return 0;
}

/* The objects of one block of the MOS's table. */
static int
collect_block(void *arg, uint32_t level, uint64_t index, const struct dump_bp *bp)
{
	int err = 0;

	(void)bp;
	for (uint64_t i = 0; level == 0 && err == 0 && i < SLOTS_PER_BLOCK; i++) {
		err = collect_object(arg, index * SLOTS_PER_BLOCK + i);
	}
	return err;
}

int
dump_datasets(struct dump_pool *p, struct dump_dataset **out, uint32_t *out_count)
{
	struct collection c = {.p = p};
	int err = dump_mos(p, &c.mos);

	if (err == 0) {
		err = dump_tree_each(p, &c.mos.table, collect_block, &c);
	}
	if (err != 0) {
		mem_free(c.v);
		return err;
	}
	for (uint32_t i = 0; i < c.count; i++) {
		if (!c.v[i].is_snap) {
			chain_mark(c.v, c.count, &c.v[i]);
		}
	}
	for (uint32_t i = 0; i < c.count; i++) {
		struct dump_dataset *ds = &c.v[i];

		if (!path_build(p, c.v, c.count, ds)) {
			(void)snprintf(ds->path, sizeof(ds->path), "%s/?%llu", p->config.name,
			    (unsigned long long)ds->object);
			out_error(
			    "dataset %llu: no way up to the root", (unsigned long long)ds->object);
		}
	}
	if (c.count > 1) {
		qsort(c.v, c.count, sizeof(*c.v), path_order);
	}
	*out = c.v;
	*out_count = c.count;
	return 0;
}

int
dump_dataset_find(struct dump_pool *p, const char *path, struct dump_dataset *out)
{
	struct dump_dataset *v;
	uint32_t count;
	int err = dump_datasets(p, &v, &count);

	if (err != 0) {
		out_error("the list of datasets: %s", err_str(err));
		return err;
	}
	err = -ENOENT;
	for (uint32_t i = 0; i < count && err != 0; i++) {
		if (strcmp(v[i].path, path) == 0) {
			*out = v[i];
			err = 0;
		}
	}
	mem_free(v);
	if (err != 0) {
		out_error("there is no dataset %s; `datasets` lists them", path);
	}
	return err;
}

int
dump_dataset_props(
    struct dump_pool *p, const struct dump_dataset *ds, char **out, uint32_t *out_len)
{
	uint32_t len = (uint32_t)ds->props_bytes, strings = 0;
	char *text = mem_zalloc(len + 1);
	struct dump_objset mos;
	struct dump_slot slot;
	int err = text != NULL ? dump_mos(p, &mos) : -ENOMEM;

	if (err == 0) {
		err = dump_slot_read(p, &mos, ds->object, &slot);
	}
	if (err == 0) {
		err = dump_object_read(p, &slot, PROPS_AT, text, len);
	}
	for (uint32_t i = 0; err == 0 && i < len; i++) {
		strings += text[i] == '\0';
	}
	if (err == 0 && len > 0 && (text[len - 1] != '\0' || strings % 2 != 0)) {
		err = -ERR_CORRUPT;
	}
	if (err != 0) {
		mem_free(text);
		return err;
	}
	*out = text;
	*out_len = len;
	return 0;
}
