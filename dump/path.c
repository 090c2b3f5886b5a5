/*
 * path.c - from a dataset's root to a file, and everything below one. The walk keeps its own stack
 * of directories and never enters one twice, however damaged the tree is.
 */
#include <stdlib.h>

#include "dump/dump.h"

/* What a dataset shares with a snapshot may have been written by another. */
static bool
root_is_of(const struct dump_dataset *ds, const struct dump_objset *os)
{
	return ds->is_snap || os->guid == ds->guid || ds->root.birth <= ds->prev_txg;
}

int
dump_fs_open(struct dump_pool *p, const char *dataset, struct dump_fs *out)
{
	int err;

	memset(out, 0, sizeof(*out));
	out->p = p;
	err = dump_dataset_find(p, dataset, &out->ds);
	if (err != 0) {
		return err;
	}
	if (out->ds.root.hole) {
		return 0; /* never written: no root directory, see dump_path_find */
	}
	err = dump_objset_read(p, &out->ds.root, &out->os);
	if (err != 0) {
		out_error("dataset %s: its root can't be read: %s", dataset, err_str(err));
	} else if (!root_is_of(&out->ds, &out->os) ||
		   (out->os.root_object != 0 && memcmp(out->os.owner, "1GAGATFS", 8) != 0)) {
		out_error(
		    "dataset %s: its root isn't that of a file system, or another's", dataset);
		err = -ERR_CORRUPT;
	}
	return err;
}

int
dump_file_get(struct dump_fs *fs, uint64_t object, uint64_t generation, struct dump_file *out)
{
	const char *why;
	int err = dump_slot_read(fs->p, &fs->os, object, &out->slot);

	if (err != 0) {
		return err;
	}
	if (generation != 0 && out->slot.generation != generation) {
		return -ESTALE;
	}
	out->object = object;
	why = dump_inode_decode(out->slot.bonus, out->slot.type, &out->inode);
	if (why != NULL) {
		out_error("object %llu: %s", (unsigned long long)object, why);
		return -ERR_CORRUPT;
	}
	return 0;
}

/* ---- look-up ---- */

struct want {
	const char *name;
	size_t len;
	uint64_t object, generation;
};

static int
entry_is(void *arg, const struct dump_entry *e)
{
	struct want *w = arg;

	if (e->name_len != w->len || memcmp(e->name, w->name, w->len) != 0) {
		return 0;
	}
	w->object = e->object;
	w->generation = e->generation;
	return 1;
}

int
dump_path_find(struct dump_fs *fs, const char *path, struct dump_file *out)
{
	struct dump_file at;
	int err = fs->ds.root.hole || fs->os.root_object == 0
		      ? -ENOENT
		      : dump_file_get(fs, fs->os.root_object, 0, &at);

	while (err == 0) {
		struct want w = {0};
		int found;

		path += strspn(path, "/");
		if (*path == '\0') {
			*out = at;
			return 0;
		}
		w.name = path;
		w.len = strcspn(path, "/");
		path += w.len;
		if (w.len == 1 && w.name[0] == '.') {
			continue;
		}
		found = dump_dir_each(fs->p, &at, entry_is, &w);
		err = found == 1   ? dump_file_get(fs, w.object, w.generation, &at)
		      : found == 0 ? -ENOENT
				   : found;
	}
	return err;
}

/* ---- everything below ---- */

struct todo {
	struct todo *next;
	uint64_t object, generation;
	char path[];
};

struct walk {
	struct dump_fs *fs;
	int (*each)(void *arg, const char *path, const struct dump_file *f);
	void *arg;
	const struct todo *at;
	struct todo *stack;
	struct dump_numbers seen; /* directories */
	bool recursive;
	int stop;
};

static int
push(struct walk *w, uint64_t object, uint64_t generation, const char *path)
{
	size_t len = strlen(path) + 1;
	int fresh = dump_set_add(&w->seen, object);
	struct todo *t;

	if (fresh < 0) {
		return fresh;
	}
	if (fresh == 0) {
		out_error("directory %llu is in more than one place: %s",
		    (unsigned long long)object, path);
		return 0;
	}
	t = mem_zalloc(sizeof(*t) + len);
	if (t == NULL) {
		return -ENOMEM;
	}
	t->object = object;
	t->generation = generation;
	memcpy(t->path, path, len);
	t->next = w->stack;
	w->stack = t;
	return 0;
}

static int
walk_entry(void *arg, const struct dump_entry *e)
{
	struct walk *w = arg;
	size_t above = strlen(w->at->path);
	char *path = mem_zalloc(above + 1 + e->name_len + 1);
	struct dump_file f;
	int err;

	if (path == NULL) {
		return -ENOMEM;
	}
	memcpy(path, w->at->path, above);
	path[above] = '/';
	memcpy(path + above + (above > 0), e->name, e->name_len);
	err = dump_file_get(w->fs, e->object, e->generation, &f);
	if (err == 0 && f.inode.type != e->type) {
		err = -ERR_CORRUPT;
	}
	if (err != 0) {
		out_error(
		    "%s (object %llu): %s", path, (unsigned long long)e->object, err_str(err));
		err = 0;
	} else {
		w->stop = w->each(w->arg, path, &f);
		err = w->stop;
		if (err == 0 && w->recursive && f.inode.type == INO_DIR) {
			err = push(w, f.object, f.slot.generation, path);
		}
	}
	mem_free(path);
	return err;
}

static int
walk_dir(struct walk *w, struct todo *t)
{
	struct dump_file dir;
	int err = dump_file_get(w->fs, t->object, t->generation, &dir);

	w->at = t;
	if (err == 0) {
		err = dump_dir_each(w->fs->p, &dir, walk_entry, w);
	}
	if (err != 0 && w->stop == 0 && err != -ENOMEM) {
		out_error("%s: %s", t->path, err_str(err));
		err = 0; /* the rest may be whole */
	}
	return err;
}

int
dump_walk(struct dump_fs *fs, const struct dump_file *start, bool recursive,
    int (*each)(void *arg, const char *path, const struct dump_file *f), void *arg)
{
	struct walk w = {.fs = fs, .each = each, .arg = arg, .recursive = recursive};
	int err = 0;

	if (recursive || start->inode.type != INO_DIR) {
		err = each(arg, "", start);
	}
	if (err == 0 && start->inode.type == INO_DIR) {
		err = push(&w, start->object, start->slot.generation, "");
	}
	while (w.stack != NULL) {
		struct todo *t = w.stack;

		w.stack = t->next;
		err = err == 0 ? walk_dir(&w, t) : err;
		mem_free(t);
	}
	dump_set_free(&w.seen);
	return err;
}
