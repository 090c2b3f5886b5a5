/*
 * check.c - fs_check: walks every dataset from its root and compares what it finds: trees of
 * directories, entries against inodes, parents, link counts, sizes. Each directory is looked at
 * under its shared lock; counts that span directories, and the count of objects, are exact only
 * while nobody changes anything.
 */
#include <stdio.h>
#include "fs/dir.h"

struct seen {
	uint64_t object; /* 0 = empty */
	uint32_t found, nlink;
	bool dir;
};

struct checking {
	struct fs_ds *ds;
	void (*problem)(void *arg, const char *what);
	void *arg;
	uint64_t problems;
	struct seen *seen; /* open addressing */
	uint64_t seen_cap, seen_count;
	uint64_t *todo; /* directories to look at */
	uint64_t todo_cap, todo_count;
	uint8_t *leaf;
};

static void
complain(struct checking *c, uint64_t object, const char *what)
{
	char text[160];
	(void)snprintf(text, sizeof(text), "dataset %016llx, object %llu: %s",
	    (unsigned long long)c->ds->guid, (unsigned long long)object, what);
	c->problem(c->arg, text);
	c->problems++;
}

static struct seen *
seen_slot(struct seen *table, uint64_t cap, uint64_t object)
{
	uint64_t i = (object * 0x9e3779b97f4a7c15ull >> 20) % cap;
	while (table[i].object != 0 && table[i].object != object) {
		i = (i + 1) % cap;
	}
	return &table[i];
}

static int
seen_grow(struct checking *c)
{
	if (c->seen_count * 2 < c->seen_cap) {
		return 0;
	}
	uint64_t cap = MAX(c->seen_cap * 2, (uint64_t)1024);
	struct seen *bigger = mem_zalloc_array(cap, sizeof(*bigger));
	if (bigger == NULL) {
		return -ENOMEM;
	}
	for (uint64_t i = 0; i < c->seen_cap; i++) {
		if (c->seen[i].object != 0) {
			*seen_slot(bigger, cap, c->seen[i].object) = c->seen[i];
		}
	}
	mem_free(c->seen);
	c->seen = bigger;
	c->seen_cap = cap;
	return 0;
}

static int
todo_push(struct checking *c, uint64_t object)
{
	if (c->todo_count == c->todo_cap) {
		uint64_t cap = MAX(c->todo_cap * 2, (uint64_t)256);
		uint64_t *bigger = mem_realloc(c->todo, cap * sizeof(*bigger));
		if (bigger == NULL) {
			return -ENOMEM;
		}
		c->todo = bigger;
		c->todo_cap = cap;
	}
	c->todo[c->todo_count++] = object;
	return 0;
}

static void
check_inode(struct checking *c, struct fs_node *n, const struct fs_inode *ino)
{
	uint8_t data[OBJECT_INLINE_MAX];
	uint32_t len;
	bool is_inline = pool_obj_inline_get(n->obj, data, sizeof(data), &len) == 0;
	if (is_inline && len > ino->size) {
		complain(c, fs_node_object(n), "more inline data than its size");
	}
	if (ino->type == FS_LNK && (ino->size == 0 || ino->size > FS_SYMLINK_MAX)) {
		complain(c, fs_node_object(n), "a symbolic link of impossible length");
	}
	if (ino->type != FS_DIR && ino->dir_height != 0) {
		complain(c, fs_node_object(n), "has a directory's tree but is none");
	}
}

/* One entry of dir: leads to an object of that kind; counts the link. */
static int
check_entry(struct checking *c, struct fs_node *dir, const struct dir_ent *e)
{
	struct fs_node *n;
	int err = fs_node_get(c->ds, e->object, e->generation, &n);
	if (err != 0) {
		complain(c, fs_node_object(dir), "an entry leads nowhere");
		return err == -ESTALE || err == -ERR_CORRUPT ? 0 : err;
	}
	rwlock_rdlock(&n->lock);
	struct fs_inode ino = n->ino;
	check_inode(c, n, &ino);
	rwlock_rdunlock(&n->lock);
	fs_node_put(n);
	if (ino.type != e->type) {
		complain(c, e->object, "its entry says another type");
	}
	err = seen_grow(c);
	if (err != 0) {
		return err;
	}
	struct seen *s = seen_slot(c->seen, c->seen_cap, e->object);
	bool first = s->object == 0;
	c->seen_count += first;
	*s = (struct seen){.object = e->object,
	    .found = s->found + 1,
	    .nlink = ino.nlink,
	    .dir = ino.type == FS_DIR};
	if (ino.type != FS_DIR) {
		return 0;
	}
	if (!first) {
		complain(c, e->object, "a directory with two names");
		return 0;
	}
	if (ino.parent != fs_node_object(dir) || ino.parent_gen != fs_node_generation(dir)) {
		complain(c, e->object, "a directory whose parent is another one");
	}
	return todo_push(c, e->object);
}

static int
check_leaf(struct checking *c, struct fs_node *dir, uint32_t *subdirs)
{
	for (uint32_t i = 0; i < dnode_count(c->leaf); i++) {
		struct dir_ent e;
		const char *name;
		uint32_t len;
		int err = leaf_get(c->leaf, i, &e, &name, &len);
		if (err == 0) {
			err = check_entry(c, dir, &e);
			*subdirs += e.type == FS_DIR;
		}
		if (err != 0 && err != -ERR_CORRUPT) {
			return err;
		}
	}
	return 0;
}

static void
sub_problem(void *arg, const char *what)
{
	struct checking *c = arg;
	c->problem(c->arg, what);
	c->problems++;
}

static int
check_dir(struct checking *c, uint64_t object)
{
	struct fs_node *dir;
	int err = fs_node_get(c->ds, object, 0, &dir);
	if (err != 0) {
		complain(c, object, "a directory can't be read");
		return 0;
	}
	rwlock_rdlock(&dir->lock);
	err = dir_verify(dir, sub_problem, c);
	uint32_t nlink = dir->ino.nlink;
	rwlock_rdunlock(&dir->lock);
	uint32_t subdirs = 0;
	uint64_t from = err == 0 ? DIR_KEY_MIN : 0;
	while (from != 0) {
		rwlock_rdlock(&dir->lock);
		err = dir_leaf_copy(dir, from, c->leaf, &from);
		rwlock_rdunlock(&dir->lock);
		if (err == 0) {
			err = check_leaf(c, dir, &subdirs);
		}
		if (err != 0) {
			break;
		}
	}
	if (err == 0 && nlink != subdirs + 2) {
		complain(c, object, "a directory with a wrong link count");
	}
	fs_node_put(dir);
	return err > 0 || err == -ERR_CORRUPT ? 0 : err; /* these have been complained about */
}

/* Objects that no name leads to. One that nobody names is the pool's own list of what is being
 * freed. */
static void
check_orphans(struct checking *c, uint64_t objects)
{
	struct pool_ds_info info;
	pool_ds_get_info(c->ds->pds, &info);
	if (info.object_count == objects && objects > c->seen_count + 2) {
		complain(c, 0, "there are objects that no name leads to");
	}
}

static int
check_ds(struct checking *c)
{
	struct pool_ds_info info;
	pool_ds_get_info(c->ds->pds, &info);
	int err = todo_push(c, c->ds->root_object);
	while (err == 0 && c->todo_count > 0) {
		err = check_dir(c, c->todo[--c->todo_count]);
	}
	for (uint64_t i = 0; err == 0 && i < c->seen_cap; i++) {
		const struct seen *s = &c->seen[i];
		if (s->object != 0 && !s->dir && s->found != s->nlink) {
			complain(c, s->object, "a link count that isn't the number of its names");
		}
	}
	if (err == 0) {
		check_orphans(c, info.object_count);
	}
	return err;
}

struct check_all {
	struct checking proto;
	struct fs_pool *fp;
	uint64_t problems;
};

static int
check_one(void *arg, struct pool_ds *pds)
{
	struct check_all *all = arg;
	struct checking c = all->proto;
	c.ds = fs_ds_find(all->fp, pool_ds_guid(pds));
	if (c.ds == NULL || c.ds->root_object == 0) {
		return 0;
	}
	int err = check_ds(&c);
	all->problems += c.problems;
	mem_free(c.seen);
	mem_free(c.todo);
	return err;
}

int
fs_check(struct fs_pool *fp, void (*problem)(void *arg, const char *what), void *arg,
    uint64_t *out_count)
{
	uint8_t *leaf = mem_zalloc(DIR_NODE_BYTES);
	struct check_all all = {.proto = {.problem = problem, .arg = arg, .leaf = leaf}, .fp = fp};
	int err = leaf == NULL ? -ENOMEM : pool_is_readonly(fp->pool) ? 0 : pool_sync(fp->pool);
	mutex_lock(&fp->lock);
	if (err == 0) {
		err = pool_ds_each(fp->pool, pool_name(fp->pool), true, check_one, &all);
	}
	mutex_unlock(&fp->lock);
	mem_free(leaf);
	*out_count = all.problems;
	return err;
}
