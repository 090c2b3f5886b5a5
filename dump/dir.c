/*
 * dir.c - directories: B+trees of 16 KiB nodes. Every node says which block of which directory it
 * is. The walk visits each block at most once, so that a tree with a loop in it ends.
 */
#include "dump/dump.h"

#define NODE 16384u
#define HEADER 0x40u
#define LEAF_SLOT 32u
#define INNER_SLOT 16u
#define KEY_MIN 16u
#define TYPE_LAST INO_FIFO

const char *
dump_node_check(
    const uint8_t *node, uint32_t level, uint64_t block, uint64_t object, uint64_t generation)
{
	uint32_t count = b16(node, 0x06);

	if (memcmp(node, level == 0 ? "AGDF" : "AGDI", 4) != 0 || b16(node, 0x04) != level) {
		return "a node of another kind";
	}
	if (b64(node, 0x08) != block || b64(node, 0x10) != object ||
	    b64(node, 0x18) != generation) {
		return "a node of another place";
	}
	if (level > 0) {
		return count >= 1 && count <= (NODE - HEADER) / INNER_SLOT ? NULL
									   : "impossible count";
	}
	if (b16(node, 0x28) > NODE || HEADER + count * LEAF_SLOT > b16(node, 0x28)) {
		return "impossible count";
	}
	return NULL;
}

struct walk {
	struct dump_pool *p;
	const struct dump_file *dir;
	struct dump_numbers seen; /* block numbers + 1 */
	uint64_t last_key;
	int (*each)(void *arg, const struct dump_entry *e);
	void *arg;
};

static const char *
entry_decode(const uint8_t *node, uint32_t i, uint64_t last_key, struct dump_entry *out)
{
	const uint8_t *b = node + HEADER + i * LEAF_SLOT;
	uint32_t off = b16(b, 0x18);
	struct dump_entry e = {
	    .key = b64(b, 0x00),
	    .object = b64(b, 0x08),
	    .generation = b64(b, 0x10),
	    .name_len = b[0x1a],
	    .type = b[0x1b],
	    .name = (const char *)node + off,
	};

	if (e.name_len == 0 || off < b16(node, 0x28) || off + e.name_len > NODE ||
	    memchr(e.name, '/', e.name_len) != NULL || memchr(e.name, 0, e.name_len) != NULL) {
		return "an impossible name";
	}
	if ((e.name_len == 1 && e.name[0] == '.') ||
	    (e.name_len == 2 && e.name[0] == '.' && e.name[1] == '.')) {
		return "an entry named . or ..";
	}
	if (e.key < KEY_MIN || e.key > INT64_MAX || e.key <= last_key || e.object == 0 ||
	    e.type < INO_REG || e.type > TYPE_LAST) {
		return "an impossible entry";
	}
	*out = e;
	return NULL;
}

static int
damage(const struct walk *w, uint64_t block, const char *why)
{
	out_error("directory %llu block %llu: %s", (unsigned long long)w->dir->object,
	    (unsigned long long)block, why);
	return -ERR_CORRUPT;
}

static int
leaf_each(struct walk *w, const uint8_t *node, uint64_t block)
{
	for (uint32_t i = 0; i < b16(node, 0x06); i++) {
		struct dump_entry e;
		const char *why = entry_decode(node, i, w->last_key, &e);
		int err = why != NULL ? damage(w, block, why) : w->each(w->arg, &e);

		if (err != 0) {
			return err;
		}
		w->last_key = e.key;
	}
	return 0;
}

static int
node_each(struct walk *w, uint32_t level, uint64_t block)
{
	uint8_t *node;
	const char *why;
	int err = block < w->dir->inode.dir_blocks ? dump_set_add(&w->seen, block + 1) : 0;

	if (err <= 0) {
		return err < 0 ? err
			       : damage(w, block, "in two places of the tree, or outside of it");
	}
	node = mem_zalloc(NODE);
	if (node == NULL) {
		return -ENOMEM;
	}
	err = dump_object_read(w->p, &w->dir->slot, block * NODE, node, NODE);
	if (err != 0) {
		err = damage(w, block, err_str(err));
		goto out;
	}
	why = dump_node_check(node, level, block, w->dir->object, w->dir->slot.generation);
	if (why != NULL) {
		err = damage(w, block, why);
	} else if (level == 0) {
		err = leaf_each(w, node, block);
	}
	for (uint32_t i = 0; err == 0 && level > 0 && i < b16(node, 0x06); i++) {
		err = node_each(w, level - 1, b64(node, HEADER + i * INNER_SLOT + 8));
	}
out:
	mem_free(node);
	return err;
}

int
dump_dir_each(struct dump_pool *p, const struct dump_file *dir,
    int (*each)(void *arg, const struct dump_entry *e), void *arg)
{
	struct walk w = {.p = p, .dir = dir, .each = each, .arg = arg};
	int err;

	if (dir->inode.type != INO_DIR) {
		return -ENOTDIR;
	}
	if (dir->inode.dir_height == 0) {
		return 0;
	}
	if (dir->slot.block_bytes != NODE) {
		return damage(&w, 0, "blocks of another size");
	}
	err = node_each(&w, dir->inode.dir_height - 1, dir->inode.dir_root);
	dump_set_free(&w.seen);
	return err;
}
