/*
 * dir_change.c - inserting into and removing from a directory's tree.
 *
 * prepare holds the path and, for a split, blocks for the new nodes, and checks deeply whatever
 * apply will move about. apply then only changes memory. Splits go upward along the held path. A
 * thin leaf joins a neighbour under the same parent when both fit into one node with room to
 * spare; an empty node is put on the free list and taken out of its parent. A directory that loses
 * its last entry gives back all of its blocks.
 *
 * RENAME within one directory prepares both paths, removes without tidying and then inserts: a
 * removal that doesn't tidy changes no node but its leaf, so the other path stays good, and the
 * leaf can only have got emptier.
 */
#include "fs/dir.h"

static struct dir_where
where_of(const struct fs_node *n, uint64_t block, uint32_t level)
{
	return (struct dir_where){.object = fs_node_object(n),
	    .generation = fs_node_generation(n),
	    .block = block,
	    .blocks = n->ino.dir_blocks,
	    .level = level};
}

static int
check_path_deep(const struct fs_node *n, const struct dir_path *p)
{
	for (uint32_t i = 0; i < p->depth; i++) {
		struct dir_where w = where_of(n, p->block[i], p->depth - 1 - i);
		int err = dnode_check_deep(pool_buf_data(p->buf[i]), &w);
		if (err != 0) {
			return err;
		}
	}
	return 0;
}

/* ---- blocks for new nodes ---- */

static int
hold_fresh(struct fs_node *n, struct dir_path *p)
{
	struct dir_fresh *f = &p->fresh[p->fresh_count];
	bool first = p->fresh_count == 0;
	uint64_t free_head = first ? n->ino.dir_free : f[-1].free_after;
	uint64_t blocks = first ? n->ino.dir_blocks : f[-1].blocks_after;
	f->free_after = free_head;
	f->blocks_after = blocks;
	if (free_head == 0) {
		f->block = blocks;
		f->blocks_after = blocks + 1;
		int err = pool_buf_hold(n->obj, f->block, true, &f->buf);
		p->fresh_count += err == 0;
		return err;
	}
	f->block = free_head - 1;
	int err = pool_buf_hold(n->obj, f->block, false, &f->buf);
	if (err != 0) {
		return err == -ENOENT ? -ERR_CORRUPT : err;
	}
	p->fresh_count++;
	const struct dir_node_phys *h = pool_buf_data(f->buf);
	f->free_after = le64_get(h->next_free);
	bool ok = le32_get(h->magic) == DIR_FREE_MAGIC && le64_get(h->block) == f->block &&
		  le64_get(h->object) == fs_node_object(n) && f->free_after <= blocks;
	return ok ? 0 : -ERR_CORRUPT;
}

static void *
take_fresh(
    struct pool_tx *tx, struct fs_node *n, struct dir_path *p, uint32_t level, uint64_t *out_block)
{
	ASSERT(p->fresh_used < p->fresh_count);
	struct dir_fresh *f = &p->fresh[p->fresh_used++];
	n->ino.dir_free = f->free_after;
	n->ino.dir_blocks = f->blocks_after;
	n->ino.size = MAX(n->ino.size, n->ino.dir_blocks * DIR_NODE_BYTES);
	struct dir_where w = where_of(n, f->block, level);
	void *node = pool_buf_dirty(tx, f->buf);
	dnode_init(node, &w, level == 0 ? DIR_LEAF_MAGIC : DIR_INNER_MAGIC);
	*out_block = f->block;
	return node;
}

/* ---- insert ---- */

/* How many new nodes a name of this length may ask for: one for each full node from the leaf up,
 * and a root. */
static int
hold_for_split(struct fs_node *n, struct dir_path *p, uint32_t name_len)
{
	uint32_t need = 0;
	if (p->depth == 0) {
		need = 1;
	} else if (!leaf_has_room(pool_buf_data(p->buf[p->depth - 1]), name_len)) {
		uint32_t d = p->depth - 1;
		need = 1;
		while (d > 0 && !inner_has_room(pool_buf_data(p->buf[d - 1]))) {
			need++;
			d--;
		}
		need += d == 0;
	}
	if (need > p->depth && p->depth == DIR_HEIGHT_MAX) {
		return -ENOSPC;
	}
	int err = 0;
	while (err == 0 && p->fresh_count < need) {
		err = hold_fresh(n, p);
	}
	return err;
}

/* The first key from h on that no entry has. */
static int
choose_key(struct fs_node *n, uint64_t from, uint64_t *out_key)
{
	uint64_t key = from, at = from;
	while (at != 0) {
		struct dir_path p;
		int err = dir_descend(n, at, &p);
		if (err != 0) {
			return err;
		}
		const void *leaf = pool_buf_data(p.buf[p.depth - 1]);
		uint32_t count = dnode_count(leaf), i = leaf_find(leaf, at);
		while (i < count && leaf_key(leaf, i) == key) {
			key++;
			i++;
		}
		bool ended = i < count;
		uint64_t next = p.next_key;
		dir_path_release(&p);
		if (next != 0 && next <= at) {
			return -ERR_CORRUPT;
		}
		at = ended || next > key ? 0 : next;
	}
	if (key - from > DIR_PROBE_MAX) {
		return -ENOSPC;
	}
	*out_key = key;
	return 0;
}

static int
descend_for_insert(struct fs_node *n, uint64_t key, uint32_t len, struct dir_path *p)
{
	if (n->ino.dir_height > 0) {
		int err = dir_descend(n, key, p);
		if (err != 0) {
			return err;
		}
		const void *leaf = pool_buf_data(p->buf[p->depth - 1]);
		uint32_t i = leaf_find(leaf, key);
		err = i < dnode_count(leaf) && leaf_key(leaf, i) == key ? -EEXIST
									: check_path_deep(n, p);
		if (err != 0) {
			dir_path_release(p);
			return err;
		}
	}
	int err = hold_for_split(n, p, len);
	if (err != 0) {
		dir_path_release(p);
	}
	return err;
}

int
dir_insert_prepare(struct fs_node *n, const struct fs_name *name, uint64_t key, struct dir_path *p,
    uint64_t *out_key)
{
	memset(p, 0, sizeof(*p));
	bool given = key != 0;
	if (!given) {
		key = name->key;
	}
	if (!given && n->ino.dir_height > 0) {
		struct dir_ent e;
		int err = dir_find(n, name, &e);
		if (err != -ENOENT) {
			return err == 0 ? -EEXIST : err;
		}
		err = choose_key(n, name->key, &key);
		if (err != 0) {
			return err;
		}
	}
	int err = descend_for_insert(n, key, name->len, p);
	if (err == 0) {
		*out_key = key;
	}
	return err;
}

/* Splits the full leaf at the end of the path and puts the entry into the right half of the two. */
static uint64_t
split_leaf(struct pool_tx *tx, struct fs_node *n, struct dir_path *p, const struct dir_ent *e,
    const struct fs_name *name, uint64_t *out_block)
{
	void *left = pool_buf_dirty(tx, p->buf[p->depth - 1]);
	void *right = take_fresh(tx, n, p, 0, out_block);
	uint64_t sep = leaf_split(left, right);
	void *half = e->key < sep ? left : right;
	leaf_insert(half, leaf_find(half, e->key), e, name->bytes, name->len);
	return sep;
}

/* Hands (sep, block), the new right neighbour of the node at depth d + 1, to the node at depth d
 * and up. */
static void
insert_upward(
    struct pool_tx *tx, struct fs_node *n, struct dir_path *p, uint64_t sep, uint64_t block)
{
	for (uint32_t d = p->depth - 1; d-- > 0;) {
		void *node = pool_buf_dirty(tx, p->buf[d]);
		uint32_t at = p->index[d] + 1;
		if (inner_has_room(node)) {
			inner_insert(node, at, sep, block);
			return;
		}
		uint64_t up_block;
		void *right = take_fresh(tx, n, p, p->depth - 1 - d, &up_block);
		uint64_t up_sep = inner_split(node, right);
		uint32_t left_count = dnode_count(node);
		if (at <= left_count) {
			inner_insert(node, at, sep, block);
		} else {
			inner_insert(right, at - left_count, sep, block);
		}
		sep = up_sep;
		block = up_block;
	}
	uint64_t root_block, old_root = n->ino.dir_root;
	void *root = take_fresh(tx, n, p, p->depth, &root_block);
	inner_insert(root, 0, 0, old_root);
	inner_insert(root, 1, sep, block);
	n->ino.dir_root = root_block;
	n->ino.dir_height++;
}

void
dir_insert_apply(struct pool_tx *tx, struct fs_node *n, struct dir_path *p, const struct dir_ent *e,
    const struct fs_name *name)
{
	n->ino.dir_entries++;
	n->ino.dir_probe = MAX(n->ino.dir_probe, (uint32_t)(e->key - name->key));
	if (p->depth == 0) {
		void *leaf = take_fresh(tx, n, p, 0, &n->ino.dir_root);
		n->ino.dir_height = 1;
		leaf_insert(leaf, 0, e, name->bytes, name->len);
		return;
	}
	if (leaf_has_room(pool_buf_data(p->buf[p->depth - 1]), name->len)) {
		void *leaf = pool_buf_dirty(tx, p->buf[p->depth - 1]);
		leaf_insert(leaf, leaf_find(leaf, e->key), e, name->bytes, name->len);
		return;
	}
	uint64_t block;
	uint64_t sep = split_leaf(tx, n, p, e, name, &block);
	insert_upward(tx, n, p, sep, block);
}

/* ---- remove ---- */

static int
locate(struct fs_node *n, uint64_t key, struct dir_path *p)
{
	memset(p, 0, sizeof(*p));
	if (n->ino.dir_height == 0) {
		return -ENOENT;
	}
	int err = dir_descend(n, key, p);
	if (err != 0) {
		return err;
	}
	const void *leaf = pool_buf_data(p->buf[p->depth - 1]);
	uint32_t i = leaf_find(leaf, key);
	err = i < dnode_count(leaf) && leaf_key(leaf, i) == key ? check_path_deep(n, p) : -ENOENT;
	if (err != 0) {
		dir_path_release(p);
	}
	return err;
}

int
dir_replace_prepare(struct fs_node *n, uint64_t key, struct dir_path *p)
{
	return locate(n, key, p);
}

/*
 * Holds a neighbour under the same parent when the leaf is thin and both fit into one node with
 * some room to spare. Joining them is a favour: when the neighbour can't be had, the leaf stays as
 * it is.
 */
static void
hold_neighbour(struct fs_node *n, struct dir_path *p)
{
	uint32_t used = leaf_used(pool_buf_data(p->buf[p->depth - 1]));
	if (p->depth < 2 || used > DIR_NODE_BYTES / 4) {
		return;
	}
	uint32_t d = p->depth - 2, i = p->index[d];
	const void *parent = pool_buf_data(p->buf[d]);
	p->next_is_right = i + 1 < dnode_count(parent);
	if (!p->next_is_right && i == 0) {
		return;
	}
	p->next_block = inner_block(parent, p->next_is_right ? i + 1 : i - 1);
	struct dir_where w = where_of(n, p->next_block, 0);
	if (pool_buf_hold(n->obj, p->next_block, false, &p->next) != 0) {
		p->next = NULL;
		return;
	}
	const void *next = pool_buf_data(p->next);
	if (dnode_check_deep(next, &w) != 0 || used + leaf_used(next) > DIR_NODE_BYTES / 4 * 3) {
		pool_buf_release(p->next);
		p->next = NULL;
	}
}

int
dir_remove_prepare(struct fs_node *n, uint64_t key, struct dir_path *p)
{
	int err = locate(n, key, p);
	if (err == 0) {
		hold_neighbour(n, p);
	}
	return err;
}

static void
free_node(struct pool_tx *tx, struct fs_node *n, struct pool_buf *buf, uint64_t block)
{
	struct dir_where w = where_of(n, block, 0);
	struct dir_node_phys *h = pool_buf_dirty(tx, buf);
	dnode_init(h, &w, DIR_FREE_MAGIC);
	h->next_free = le64_of(n->ino.dir_free);
	n->ino.dir_free = block + 1;
}

/* Takes child i out of the inner node at depth d, and every inner node that has no child left out
 * of its parent. */
static void
take_child_out(struct pool_tx *tx, struct fs_node *n, struct dir_path *p, uint32_t d, uint32_t i)
{
	for (;;) {
		void *node = pool_buf_dirty(tx, p->buf[d]);
		inner_delete(node, i);
		uint32_t left = dnode_count(node);
		if (left == 1 && d == 0) {
			n->ino.dir_root = inner_block(node, 0);
			n->ino.dir_height--;
			free_node(tx, n, p->buf[0], p->block[0]);
		}
		if (left > 0) {
			return;
		}
		free_node(tx, n, p->buf[d], p->block[d]);
		if (d == 0) {
			n->ino.dir_root = 0;
			n->ino.dir_height = 0;
			return;
		}
		i = p->index[--d];
	}
}

/* The entries of the right one of two neighbours go to the left one. */
static void
join(struct pool_tx *tx, struct fs_node *n, struct dir_path *p)
{
	uint32_t d = p->depth - 1, i = p->index[d - 1];
	void *leaf = pool_buf_dirty(tx, p->buf[d]), *next = pool_buf_dirty(tx, p->next);
	leaf_join(p->next_is_right ? leaf : next, p->next_is_right ? next : leaf);
	if (p->next_is_right) {
		free_node(tx, n, p->next, p->next_block);
		take_child_out(tx, n, p, d - 1, i + 1);
	} else {
		free_node(tx, n, p->buf[d], p->block[d]);
		take_child_out(tx, n, p, d - 1, i);
	}
}

static void
tidy_leaf(struct pool_tx *tx, struct fs_node *n, struct dir_path *p)
{
	uint32_t d = p->depth - 1;
	if (d == 0) {
		return;
	}
	if (dnode_count(pool_buf_data(p->buf[d])) == 0) {
		free_node(tx, n, p->buf[d], p->block[d]);
		take_child_out(tx, n, p, d - 1, p->index[d - 1]);
	} else if (p->next != NULL) {
		join(tx, n, p);
	}
}

/* Without entries the blocks are only ballast. When they can't be freed now, the free list keeps
 * them. */
static void
drop_blocks(struct pool_tx *tx, struct fs_node *n)
{
	if (n->ino.dir_blocks > 1 && pool_free_range(tx, n->obj, 0, UINT64_MAX) == 0) {
		n->ino.dir_root = n->ino.dir_free = n->ino.dir_blocks = 0;
		n->ino.dir_height = 0;
		n->ino.size = 0;
	}
}

void
dir_remove_apply(struct pool_tx *tx, struct fs_node *n, struct dir_path *p, uint64_t key, bool tidy)
{
	void *leaf = pool_buf_dirty(tx, p->buf[p->depth - 1]);
	leaf_delete(leaf, leaf_find(leaf, key));
	n->ino.dir_entries--;
	if (!tidy) {
		return;
	}
	tidy_leaf(tx, n, p);
	if (n->ino.dir_entries == 0) {
		n->ino.dir_probe = 0;
		dir_path_release(p);
		drop_blocks(tx, n);
	}
}

void
dir_replace_apply(
    struct pool_tx *tx, struct fs_node *n, struct dir_path *p, const struct dir_ent *e)
{
	(void)n;
	void *leaf = pool_buf_dirty(tx, p->buf[p->depth - 1]);
	leaf_set(leaf, leaf_find(leaf, e->key), e);
}
