/*
 * dir.h - directories as B+trees. Private to fs/. Every call is made under the directory's lock:
 * shared for looking, exclusive for preparing and applying. prepare does all that can fail and
 * holds what apply needs; apply can't fail. The counters live in n->ino; the caller stores it.
 */
#ifndef AGATE_FS_DIR_H
#define AGATE_FS_DIR_H

#include "fs/fs_int.h"

struct dir_ent {
	uint64_t key, object, generation;
	enum fs_type type;
};

struct dir_fresh {
	struct pool_buf *buf;
	uint64_t block;
	uint64_t free_after, blocks_after; /* ino.dir_free and dir_blocks once this one is taken */
};

struct dir_path {
	uint32_t depth;                           /* buffers held; buf[depth - 1] is the leaf */
	struct pool_buf *buf[DIR_HEIGHT_MAX];
	uint64_t block[DIR_HEIGHT_MAX];
	uint32_t index[DIR_HEIGHT_MAX];           /* inner nodes: which child was followed */
	uint64_t next_key;                        /* smallest key behind the leaf; 0 = it is the last */
	struct dir_fresh fresh[DIR_HEIGHT_MAX + 1];
	uint32_t fresh_count, fresh_used;
	struct pool_buf *next;                    /* neighbour to join the leaf with, or NULL */
	uint64_t next_block;
	bool next_is_right;
};

int dir_find(struct fs_node *n, const struct fs_name *name, struct dir_ent *out) WARN_UNUSED MAY_PARK;
/* key 0: choose one. -EEXIST: the name (or, given a key, the key) is there. -ENOSPC: too many or too deep. */
int dir_insert_prepare(struct fs_node *n, const struct fs_name *name, uint64_t key, struct dir_path *p,
    uint64_t *out_key) WARN_UNUSED MAY_PARK;
void dir_insert_apply(struct pool_tx *tx, struct fs_node *n, struct dir_path *p, const struct dir_ent *e, const struct fs_name *name) MAY_PARK;
/* -ENOENT: no such key. */
int dir_replace_prepare(struct fs_node *n, uint64_t key, struct dir_path *p) WARN_UNUSED MAY_PARK;
int dir_remove_prepare(struct fs_node *n, uint64_t key, struct dir_path *p) WARN_UNUSED MAY_PARK;
/* tidy: join thin nodes, give empty ones back; not while another path into the same directory is prepared. */
void dir_remove_apply(struct pool_tx *tx, struct fs_node *n, struct dir_path *p, uint64_t key, bool tidy) MAY_PARK;
void dir_replace_apply(struct pool_tx *tx, struct fs_node *n, struct dir_path *p, const struct dir_ent *e) MAY_PARK;
void dir_path_release(struct dir_path *p);
/* Holds the nodes from the root to the leaf for key; height > 0. Nothing is held on failure. */
int dir_descend(struct fs_node *n, uint64_t key, struct dir_path *p) WARN_UNUSED MAY_PARK;

/* Copies the leaf that holds the first key >= from to leaf (DIR_NODE_BYTES). out_count 0: it is empty. */
int dir_leaf_copy(struct fs_node *n, uint64_t from, void *leaf, uint64_t *out_next_key) WARN_UNUSED MAY_PARK;
/* The block of that leaf, and the same next key, without reading the leaf; height > 0. */
int dir_leaf_find(struct fs_node *n, uint64_t key, uint64_t *out_block, uint64_t *out_next_key) WARN_UNUSED MAY_PARK;
/* Deep check of the whole tree: order, bounds, counters. Sentences to problem. Returns problems or -errno. */
int dir_verify(struct fs_node *n, void (*problem)(void *arg, const char *what), void *arg) WARN_UNUSED MAY_PARK;

/* ---- one node (dir_node.c): bytes only, no I/O ---- */
struct dir_where {
	uint64_t object, generation, block, blocks; /* blocks: of the directory, bound for children */
	uint32_t level;
};
int dnode_check(const void *node, const struct dir_where *w) WARN_UNUSED;      /* header and bounds: -ERR_CORRUPT */
int dnode_check_deep(const void *node, const struct dir_where *w) WARN_UNUSED; /* and every slot */
void dnode_init(void *node, const struct dir_where *w, uint32_t magic);
uint32_t dnode_count(const void *node);

uint32_t leaf_find(const void *node, uint64_t key); /* first slot with a key >= key; may be count */
uint64_t leaf_key(const void *node, uint32_t i);
/* -ERR_CORRUPT when the slot points outside. name lies in node. */
int leaf_get(const void *node, uint32_t i, struct dir_ent *out, const char **out_name, uint32_t *out_len) WARN_UNUSED;
bool leaf_has_room(const void *node, uint32_t name_len);
void leaf_insert(void *node, uint32_t i, const struct dir_ent *e, const char *name, uint32_t len);
void leaf_set(void *node, uint32_t i, const struct dir_ent *e);
void leaf_delete(void *node, uint32_t i);
uint64_t leaf_split(void *left, void *right); /* right: initialised, empty. Returns right's smallest key */
void leaf_join(void *left, const void *right); /* right's entries, all greater, go to the end of left */
/* Bytes of slots and names. */
uint32_t leaf_used(const void *node);

uint32_t inner_find(const void *node, uint64_t key); /* the child to follow */
uint64_t inner_key(const void *node, uint32_t i);
uint64_t inner_block(const void *node, uint32_t i);
bool inner_has_room(const void *node);
void inner_insert(void *node, uint32_t i, uint64_t key, uint64_t block);
void inner_delete(void *node, uint32_t i);
uint64_t inner_split(void *left, void *right);

#endif
