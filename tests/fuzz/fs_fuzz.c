/*
 * fs_fuzz.c - the decoders of fs/ against anything a drive may hold: inodes, log records, directory
 * nodes. The first byte chooses which, and for nodes how much is put right, so that the slots are
 * reached too. A node that passes the deep check must bear being changed: insert, delete, split and
 * join leave nodes that pass it again.
 *
 * Built by --enable-fuzz as a libFuzzer target; in make check, FS_FUZZ_JUNK gives it a main of its
 * own that feeds junk, and good bytes with a few changed, from a fixed seed.
 */
#include <stdio.h>
#include <stdlib.h>
#include "fs/dir.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const struct dir_where where = {.object = 7, .generation = 9, .block = 3, .blocks = 100};

static void
require(bool ok, const char *what)
{
	if (!ok) {
		fprintf(stderr, "fs_fuzz: %s\n", what);
		abort();
	}
}

static void
fuzz_inode(const uint8_t *data, size_t size)
{
	uint8_t bonus[OBJECT_BONUS_BYTES] = {0}, again[OBJECT_BONUS_BYTES];
	struct fs_inode i, j;
	memcpy(bonus, data, MIN(size, sizeof(bonus)));
	for (int type = OBJ_FILE; type <= OBJ_SPECIAL; type++) {
		if (inode_decode(bonus, (enum object_type)type, &i) == 0) {
			inode_encode(&i, again);
			require(inode_decode(again, (enum object_type)type, &j) == 0,
			    "an inode that came from us");
			require(i.dir_height <= DIR_HEIGHT_MAX && i.size <= FS_SIZE_MAX,
			    "an inode out of bounds");
		}
	}
}

static void
fuzz_record(const uint8_t *data, size_t size)
{
	struct log_decoded d;
	for (uint16_t type = 0; type < 8; type++) {
		if (log_decode(data, (uint32_t)size, type, &d) == 0) {
			const uint8_t *end = (const uint8_t *)d.data + d.data_len;
			require(end == data + size, "a record with another length");
			require(d.inodes >= data && (const uint8_t *)d.name >= d.inodes,
			    "a record out of order");
		}
	}
}

/* ---- nodes ---- */

static void
put_right(uint8_t *node, uint8_t how, uint32_t level)
{
	struct dir_node_phys *h = (struct dir_node_phys *)(void *)node;
	if ((how & 8) != 0) {
		h->magic = le32_of(level == 0 ? DIR_LEAF_MAGIC : DIR_INNER_MAGIC);
		h->level = le16_of((uint16_t)level);
		h->block = le64_of(where.block);
		h->object = le64_of(where.object);
		h->generation = le64_of(where.generation);
	}
	if ((how & 16) != 0) {
		uint32_t count = le16_get(h->count) % 64, heap = DIR_NODE_BYTES;
		struct dir_slot_phys *s = (struct dir_slot_phys *)(void *)(node + sizeof(*h));
		for (uint32_t i = 0; level == 0 && i < count; i++) {
			s[i].name_len = (uint8_t)MAX(s[i].name_len, 1u);
			heap -= s[i].name_len;
			s[i].key = le64_of(DIR_KEY_MIN + i * 10);
			s[i].name_off = le16_of((uint16_t)heap);
		}
		struct dir_child_phys *c = (struct dir_child_phys *)(void *)(node + sizeof(*h));
		for (uint32_t i = 0; level > 0 && i < count; i++) {
			c[i].key = le64_of(le64_get(c[i].key) % 100 + i * 100);
			c[i].block = le64_of(4 + le64_get(c[i].block) % 96);
		}
		h->count = le16_of((uint16_t)count);
		h->heap = le16_of((uint16_t)heap);
	}
}

static void
change_leaf(uint8_t *node, const struct dir_where *w)
{
	static uint8_t right[DIR_NODE_BYTES];
	struct dir_ent e = {.key = DIR_KEY_MIN + 5, .object = 1, .generation = 1, .type = FS_REG};
	struct dir_where r = *w;
	uint32_t at = leaf_find(node, e.key);
	bool there = at < dnode_count(node) && leaf_key(node, at) == e.key;
	if (!there && leaf_has_room(node, 4)) {
		leaf_insert(node, at, &e, "name", 4);
		require(dnode_check_deep(node, w) == 0, "insert spoiled a leaf");
	}
	if (dnode_count(node) >= 2) {
		uint32_t before = leaf_used(node);
		r.block = 4;
		dnode_init(right, &r, DIR_LEAF_MAGIC);
		uint64_t sep = leaf_split(node, right);
		require(dnode_check_deep(node, w) == 0 && dnode_check_deep(right, &r) == 0,
		    "split spoiled a leaf");
		require(leaf_key(node, dnode_count(node) - 1) < sep, "a wrong separator");
		leaf_join(node, right);
		require(dnode_check_deep(node, w) == 0 && leaf_used(node) == before,
		    "join spoiled a leaf");
	}
	while (dnode_count(node) > 0) {
		leaf_delete(node, dnode_count(node) / 2);
		require(dnode_check_deep(node, w) == 0, "delete spoiled a leaf");
	}
}

static void
change_inner(uint8_t *node, const struct dir_where *w)
{
	static uint8_t right[DIR_NODE_BYTES];
	struct dir_where r = *w;
	uint32_t at = inner_find(node, 1000);
	require(
	    at < dnode_count(node) && inner_block(node, at) < w->blocks, "a child out of bounds");
	if (dnode_count(node) >= 2) {
		r.block = 4;
		dnode_init(right, &r, DIR_INNER_MAGIC);
		uint64_t sep = inner_split(node, right);
		require(dnode_check(node, w) == 0 && dnode_check(right, &r) == 0,
		    "split spoiled an inner node");
		require(inner_key(right, 0) == sep, "a wrong separator");
	}
}

static void
fuzz_node(uint8_t how, const uint8_t *data, size_t size)
{
	static uint8_t node[DIR_NODE_BYTES];
	struct dir_where w = where;
	memset(node, 0, sizeof(node));
	memcpy(node, data, MIN(size, sizeof(node)));
	w.level = how >> 5 & 1;
	put_right(node, how, w.level);
	if (dnode_check(node, &w) != 0) {
		return;
	}
	for (uint32_t i = 0; w.level == 0 && i < dnode_count(node); i++) {
		struct dir_ent e;
		const char *name;
		uint32_t len;
		if (leaf_get(node, i, &e, &name, &len) == 0) {
			require((const uint8_t *)name + len <= node + sizeof(node),
			    "a name out of bounds");
		}
	}
	if (dnode_check_deep(node, &w) == 0) {
		if (w.level == 0) {
			change_leaf(node, &w);
		} else {
			change_inner(node, &w);
		}
	}
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	if (size < 1) {
		return 0;
	}
	switch (data[0] % 4) {
	case 0:
		fuzz_inode(data + 1, size - 1);
		break;
	case 1:
		fuzz_record(data + 1, size - 1);
		break;
	default:
		fuzz_node(data[0], data + 1, size - 1);
		break;
	}
	return 0;
}

#ifdef FS_FUZZ_JUNK
static uint64_t
next(uint64_t *state)
{
	*state = *state * 6364136223846793005ull + 1442695040888963407ull;
	return *state >> 33;
}

int
main(void)
{
	static uint8_t buf[1 + DIR_NODE_BYTES];
	uint64_t state = 0x13198a2e03707344ull;
	for (uint32_t i = 0; i < 6000; i++) {
		size_t len = 1 + (size_t)(next(&state) % (i % 2 == 0 ? 400 : DIR_NODE_BYTES));
		for (size_t k = 0; k < len; k++) {
			buf[k] = (uint8_t)next(&state);
		}
		buf[0] = (uint8_t)next(&state);
		(void)LLVMFuzzerTestOneInput(buf, len);
		buf[0] = (uint8_t)(2 | 8 | 16 | (next(&state) & 32)); /* a node, put right */
		(void)LLVMFuzzerTestOneInput(buf, len);
	}
	return 0;
}
#endif
