/* dir_check.c - a directory's tree from top to bottom: every node, every key, the free list and the
 * counters. */
#include <stdio.h>
#include "fs/dir.h"

struct dir_walk {
	struct fs_node *n;
	void (*problem)(void *arg, const char *what);
	void *arg;
	uint64_t entries, nodes;
	int problems;
};

static void
complain(struct dir_walk *w, const char *what, uint64_t block)
{
	char text[160];
	(void)snprintf(text, sizeof(text), "directory %llu, block %llu: %s",
	    (unsigned long long)fs_node_object(w->n), (unsigned long long)block, what);
	w->problem(w->arg, text);
	w->problems++;
}

static void
check_entries(struct dir_walk *w, const void *leaf, uint64_t block)
{
	uint64_t probe = w->n->ino.dir_probe;
	for (uint32_t i = 0; i < dnode_count(leaf); i++) {
		struct dir_ent e;
		const char *name;
		uint32_t len;
		struct fs_name h;
		if (leaf_get(leaf, i, &e, &name, &len) != 0) {
			complain(w, "an entry is damaged", block);
			continue;
		}
		name_init(fs_node_ds(w->n), name, len, &h);
		if (e.key < h.key || e.key - h.key > probe) {
			complain(w, "a name has the wrong key", block);
		}
		w->entries++;
	}
}

static bool
keys_within(const void *node, uint32_t level, uint64_t lo, uint64_t hi)
{
	uint32_t count = dnode_count(node);
	if (count == 0) {
		return true;
	}
	uint64_t first = level == 0 ? leaf_key(node, 0) : inner_key(node, 0);
	uint64_t last = level == 0 ? leaf_key(node, count - 1) : inner_key(node, count - 1);
	return (level > 0 || first >= lo) && last < hi;
}

/* Recursion is as deep as the tree, at most DIR_HEIGHT_MAX. Keys below must lie in [lo, hi). */
static int
check_node(struct dir_walk *w, uint64_t block, uint32_t level, uint64_t lo, uint64_t hi)
{
	struct dir_where where = {.object = fs_node_object(w->n),
	    .generation = fs_node_generation(w->n),
	    .block = block,
	    .blocks = w->n->ino.dir_blocks,
	    .level = level};
	if (w->nodes++ >= where.blocks) {
		complain(w, "more nodes than blocks: one is used twice", block);
		return 0;
	}
	struct pool_buf *buf;
	int err = pool_buf_hold(w->n->obj, block, false, &buf);
	if (err != 0) {
		complain(w, "a node can't be read", block);
		return err == -ENOENT ? 0 : err;
	}
	const void *node = pool_buf_data(buf);
	if (dnode_check_deep(node, &where) != 0 || !keys_within(node, level, lo, hi)) {
		complain(w, "a node is damaged", block);
	} else if (level == 0) {
		check_entries(w, node, block);
	} else {
		uint32_t count = dnode_count(node);
		for (uint32_t i = 0; i < count && err == 0; i++) {
			uint64_t from = i == 0 ? lo : inner_key(node, i);
			uint64_t to = i + 1 < count ? inner_key(node, i + 1) : hi;
			err = check_node(w, inner_block(node, i), level - 1, from, to);
		}
	}
	pool_buf_release(buf);
	fiber_maybe_yield();
	return err;
}

static int
check_free_list(struct dir_walk *w)
{
	uint64_t at = w->n->ino.dir_free;
	while (at != 0) {
		struct pool_buf *buf;
		if (w->nodes++ >= w->n->ino.dir_blocks) {
			complain(w, "the free list holds more than there is", at - 1);
			return 0;
		}
		int err = pool_buf_hold(w->n->obj, at - 1, false, &buf);
		if (err != 0) {
			complain(w, "a free block can't be read", at - 1);
			return err == -ENOENT ? 0 : err;
		}
		const struct dir_node_phys *h = pool_buf_data(buf);
		bool ok = le32_get(h->magic) == DIR_FREE_MAGIC && le64_get(h->block) == at - 1 &&
			  le64_get(h->next_free) <= w->n->ino.dir_blocks;
		if (!ok) {
			complain(w, "a free block is damaged", at - 1);
		}
		at = ok ? le64_get(h->next_free) : 0;
		pool_buf_release(buf);
	}
	return 0;
}

int
dir_verify(struct fs_node *n, void (*problem)(void *arg, const char *what), void *arg)
{
	struct dir_walk w = {.n = n, .problem = problem, .arg = arg};
	int err = 0;
	if (n->ino.dir_height > 0) {
		err = check_node(&w, n->ino.dir_root, n->ino.dir_height - 1, 0, UINT64_MAX);
	}
	if (err == 0) {
		err = check_free_list(&w);
	}
	if (err == 0 && w.problems == 0 && w.nodes != n->ino.dir_blocks) {
		complain(&w, "blocks are neither in the tree nor free", n->ino.dir_blocks);
	}
	if (err == 0 && w.problems == 0 && w.entries != n->ino.dir_entries) {
		complain(&w, "the count of entries is wrong", n->ino.dir_root);
	}
	return err != 0 ? err : w.problems;
}
