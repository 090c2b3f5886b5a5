/*
 * dir.c - finding things in a directory's tree.
 *
 * A directory of no nodes (height 0) is empty. A path is held from the root to a leaf; every node
 * is checked when it is read (dnode_check: it is the node that its parent meant, and its counters
 * are sane). Depth is bounded by the height in the inode and each level must be one less than the
 * last, so junk can't make a loop. Nodes have no sibling links: whoever goes on to the next leaf
 * comes down again for the smallest key behind it, which the way down has noted.
 */
#include "fs/dir.h"

void
dir_path_release(struct dir_path *p)
{
	for (uint32_t i = 0; i < p->depth; i++) {
		pool_buf_release(p->buf[i]);
	}
	for (uint32_t i = 0; i < p->fresh_count; i++) {
		pool_buf_release(p->fresh[i].buf);
	}
	if (p->next != NULL) {
		pool_buf_release(p->next);
	}
	memset(p, 0, sizeof(*p));
}

/* Holds the nodes from the root to the leaf for key. Nothing is held on failure. */
int
dir_descend(struct fs_node *n, uint64_t key, struct dir_path *p)
{
	memset(p, 0, sizeof(*p));
	struct dir_where w = {.object = fs_node_object(n),
	    .generation = fs_node_generation(n),
	    .block = n->ino.dir_root,
	    .blocks = n->ino.dir_blocks};
	for (uint32_t level = n->ino.dir_height; level-- > 0;) {
		w.level = level;
		struct pool_buf *buf = NULL;
		int err = pool_buf_hold(n->obj, w.block, false, &buf);
		if (err != 0) {
			dir_path_release(p);
			return err == -ENOENT ? -ERR_CORRUPT : err;
		}
		p->buf[p->depth] = buf;
		p->block[p->depth++] = w.block;
		const void *node = pool_buf_data(buf);
		err = dnode_check(node, &w);
		if (err != 0) {
			dir_path_release(p);
			return err;
		}
		if (level == 0) {
			return 0;
		}
		uint32_t i = inner_find(node, key);
		p->index[p->depth - 1] = i;
		if (i + 1 < dnode_count(node)) {
			p->next_key = inner_key(node, i + 1);
		}
		w.block = inner_block(node, i);
	}
	return 0;
}

/* The next leaf must lie further on, or a wrong key in a node would send a reader round for ever.
 */
static int
next_key_check(uint64_t next, uint64_t from)
{
	return next == 0 || next > from ? 0 : -ERR_CORRUPT;
}

/* Looks for the name among the keys [from, last]. 0, -ENOENT. */
static int
find_in_range(struct fs_node *n, uint64_t from, uint64_t last, const struct fs_name *name,
    struct dir_ent *out)
{
	while (from != 0 && from <= last) {
		struct dir_path p;
		int err = dir_descend(n, from, &p);
		if (err != 0) {
			return err;
		}
		const void *leaf = pool_buf_data(p.buf[p.depth - 1]);
		uint32_t count = dnode_count(leaf);
		for (uint32_t i = leaf_find(leaf, from); i < count; i++) {
			const char *got;
			uint32_t got_len;
			struct dir_ent e;
			err = leaf_key(leaf, i) > last ? -ENOENT
						       : leaf_get(leaf, i, &e, &got, &got_len);
			if (err == 0 && got_len == name->len &&
			    memcmp(got, name->bytes, got_len) == 0) {
				*out = e;
				dir_path_release(&p);
				return 0;
			}
			if (err != 0) {
				dir_path_release(&p);
				return err;
			}
		}
		err = next_key_check(p.next_key, from);
		from = p.next_key;
		dir_path_release(&p);
		if (err != 0) {
			return err;
		}
	}
	return -ENOENT;
}

int
dir_find(struct fs_node *n, const struct fs_name *name, struct dir_ent *out)
{
	if (n->ino.dir_height == 0) {
		return -ENOENT;
	}
	return find_in_range(n, name->key, name->key + n->ino.dir_probe, name, out);
}

int
dir_leaf_copy(struct fs_node *n, uint64_t from, void *leaf, uint64_t *out_next_key)
{
	if (n->ino.dir_height == 0) {
		struct dir_where w = {0};
		dnode_init(leaf, &w, DIR_LEAF_MAGIC);
		*out_next_key = 0;
		return 0;
	}
	struct dir_path p;
	int err = dir_descend(n, from, &p);
	if (err != 0) {
		return err;
	}
	err = next_key_check(p.next_key, from);
	if (err == 0) {
		memcpy(leaf, pool_buf_data(p.buf[p.depth - 1]), DIR_NODE_BYTES);
		*out_next_key = p.next_key;
	}
	dir_path_release(&p);
	return err;
}

int
dir_leaf_find(struct fs_node *n, uint64_t key, uint64_t *out_block, uint64_t *out_next_key)
{
	struct dir_where w = {.object = fs_node_object(n),
	    .generation = fs_node_generation(n),
	    .block = n->ino.dir_root,
	    .blocks = n->ino.dir_blocks};
	*out_next_key = 0;
	for (uint32_t level = n->ino.dir_height; --level > 0;) {
		struct pool_buf *buf = NULL;
		w.level = level;
		int err = pool_buf_hold(n->obj, w.block, false, &buf);
		if (err != 0) {
			return err == -ENOENT ? -ERR_CORRUPT : err;
		}
		const void *node = pool_buf_data(buf);
		err = dnode_check(node, &w);
		if (err == 0) {
			uint32_t i = inner_find(node, key);
			if (i + 1 < dnode_count(node)) {
				*out_next_key = inner_key(node, i + 1);
			}
			w.block = inner_block(node, i);
		}
		pool_buf_release(buf);
		if (err != 0) {
			return err;
		}
	}
	*out_block = w.block;
	return next_key_check(*out_next_key, key);
}
