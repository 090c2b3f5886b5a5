/*
 * path.c - the path of an object, for people: names are looked for in the directories upwards, so
 * it takes as long as these are large. A file with several names gets one of them.
 */
#include <stdio.h>
#include "fs/fs_int.h"

#define STEPS_MAX 4096u

struct finder {
	uint64_t object;
	char name[256];
	bool found;
};

static bool
find_entry(void *arg, const struct fs_dirent *e)
{
	struct finder *f = arg;
	bool dots = (e->name_len == 1 && e->name[0] == '.') ||
		    (e->name_len == 2 && memcmp(e->name, "..", 2) == 0);
	if (dots || e->object != f->object || e->name_len >= sizeof(f->name)) {
		return true;
	}
	memcpy(f->name, e->name, e->name_len);
	f->name[e->name_len] = '\0';
	f->found = true;
	return false;
}

/* Puts "/name" in front of the text that begins at *at. */
static int
prepend(char *out, size_t *at, const char *name)
{
	size_t len = strlen(name);
	if (*at < len + 1) {
		return -ENAMETOOLONG;
	}
	*at -= len;
	memcpy(out + *at, name, len);
	out[--*at] = '/';
	return 0;
}

static int
name_in(struct fs_node *dir, uint64_t object, struct finder *f)
{
	static const struct fs_cred root = {0};
	bool eof = false;
	*f = (struct finder){.object = object};
	int err = fs_readdir(dir, &root, 0, false, find_entry, f, &eof);
	return err != 0 ? err : f->found ? 0 : -ENOENT;
}

/* From n up to the root of its dataset; takes over the reference. */
static int
climb(struct fs_node *n, char *out, size_t *at)
{
	struct finder *f = mem_zalloc(sizeof(*f));
	struct fs_ds *ds = fs_node_ds(n);
	int err = f == NULL ? -ENOMEM : 0;
	for (uint32_t step = 0; err == 0 && fs_node_object(n) != ds->root_object; step++) {
		struct fs_node *up = NULL;
		uint64_t parent = atomic_load_explicit(&n->parent, memory_order_relaxed);
		err = parent == 0 || step == STEPS_MAX ? -ENOENT : fs_node_get(ds, parent, 0, &up);
		if (err == 0) {
			err = name_in(up, fs_node_object(n), f);
			err = err != 0 ? err : prepend(out, at, f->name);
			fs_node_put(n);
			n = up;
		}
	}
	fs_node_put(n);
	mem_free(f);
	return err;
}

int
fs_object_path(struct fs_pool *fp, uint64_t ds_guid, uint64_t object, char *out, size_t len)
{
	struct pool_ds_info info;
	struct fs_node *n;
	struct fs_ds *ds;
	size_t at = len - 1;
	int err = fs_ds_open_guid(fp, ds_guid, &ds);
	if (err != 0) {
		return err;
	}
	out[at] = '\0';
	err = fs_node_get(ds, object, 0, &n);
	if (err == 0) {
		err = climb(n, out, &at);
	}
	if (err == 0) {
		pool_ds_get_info(fs_ds_pool_ds(ds), &info);
		err = prepend(out, &at, info.path);
	}
	fs_ds_close(ds);
	if (err == 0) {
		memmove(out, out + at, len - at);
	}
	return err == -ESTALE ? -ENOENT : err;
}
