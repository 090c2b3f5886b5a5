/*
 * object.c - objsets, their tables, and the trees of objects.
 *
 * A tree of L levels: the slot's pointer is of level L - 1; a pointer of level l > 0 leads to an
 * indirect block of 256 pointers of level l - 1; level 0 is data. A hole stands for holes all
 * below. Pointers that aren't of the level and size that their place asks for are refused.
 */
#include "dump/dump.h"

#define INDIRECT_SIZE 32768u
#define LEVELS_MAX 8u
#define TABLE_BLOCK 16384u
#define FLAG_INLINE 1u
#define INLINE_MAX 256u

const char *
dump_slot_decode(const uint8_t raw[SLOT_SIZE], uint32_t set_count, struct dump_slot *out)
{
	struct dump_slot s = {
	    .type = raw[0],
	    .levels = raw[1],
	    .is_inline = (raw[2] & FLAG_INLINE) != 0,
	    .block_bytes = b32(raw, 0x04),
	    .generation = b64(raw, 0x08),
	    .block_count = b64(raw, 0x10),
	    .used_sectors = b64(raw, 0x18),
	    .birth = b64(raw, 0x20),
	    .inline_len = b16(raw, 0x28),
	};
	const char *why = NULL;

	memcpy(s.bonus, raw + 0x40, sizeof(s.bonus));
	memcpy(s.inl, raw + 0x100, sizeof(s.inl));
	if ((raw[2] & ~FLAG_INLINE) != 0) {
		return "unknown flags";
	}
	if (s.is_inline) {
		s.data = (struct dump_bp){.hole = true};
		why = s.inline_len > INLINE_MAX ? "inline data too long" : NULL;
	} else if (s.levels < 1 || s.levels > LEVELS_MAX || s.block_bytes < SECTOR ||
		   s.block_bytes > BLOCK_MAX || (s.block_bytes & (s.block_bytes - 1)) != 0) {
		why = "impossible levels or block size";
	} else {
		why = dump_bp_decode(raw + 0x100, set_count, &s.data);
		if (why == NULL && !s.data.hole && s.data.level != s.levels - 1) {
			why = "the root of the tree is of another level";
		}
	}
	if (why == NULL) {
		*out = s;
	}
	return why;
}

static bool
child_is_possible(const struct dump_slot *slot, const struct dump_bp *bp, uint32_t level)
{
	return bp->hole || (bp->level == level && bp->type == slot->type &&
			       bp->logical <= (level > 0 ? INDIRECT_SIZE : slot->block_bytes) &&
			       (level == 0 || bp->logical == INDIRECT_SIZE));
}

int
dump_tree_lookup(
    struct dump_pool *p, const struct dump_slot *slot, uint64_t block, struct dump_bp *out)
{
	struct dump_bp bp = slot->data;
	uint8_t *node;
	int err = 0;

	if (slot->is_inline ||
	    (slot->levels < LEVELS_MAX && block >> (8 * (slot->levels - 1)) != 0)) {
		*out = (struct dump_bp){.hole = true};
		return 0;
	}
	if (!child_is_possible(slot, &bp, slot->levels - 1)) {
		return -ERR_CORRUPT;
	}
	node = mem_zalloc(INDIRECT_SIZE);
	if (node == NULL) {
		return -ENOMEM;
	}
	for (uint32_t level = slot->levels - 1; level > 0 && !bp.hole && err == 0; level--) {
		uint32_t child = (uint32_t)(block >> (8 * (level - 1))) & 255;

		err = dump_block_read(p, &bp, node);
		if (err == 0 &&
		    (dump_bp_decode(node + child * 128, p->config.set_count, &bp) != NULL ||
			!child_is_possible(slot, &bp, level - 1))) {
			err = -ERR_CORRUPT;
		}
	}
	mem_free(node);
	if (err == 0) {
		*out = bp;
	}
	return err;
}

/* [off, off + len) of block `block`. */
static int
part_read(struct dump_pool *p, const struct dump_slot *slot, uint64_t block, uint32_t off,
    uint8_t *out, uint32_t len)
{
	struct dump_bp bp;
	uint8_t *buf;
	int err = dump_tree_lookup(p, slot, block, &bp);

	memset(out, 0, len);
	if (err != 0 || bp.hole || off >= bp.logical) {
		return err;
	}
	buf = mem_zalloc(bp.logical);
	if (buf == NULL) {
		return -ENOMEM;
	}
	err = dump_block_read(p, &bp, buf);
	if (err == 0) {
		memcpy(out, buf + off, MIN(len, bp.logical - off));
	}
	mem_free(buf);
	return err;
}

int
dump_object_read(
    struct dump_pool *p, const struct dump_slot *slot, uint64_t off, void *out, uint64_t len)
{
	uint8_t *to = out;

	if (slot->is_inline) {
		memset(out, 0, len);
		if (off < slot->inline_len) {
			memcpy(out, slot->inl + off, MIN(len, slot->inline_len - off));
		}
		return 0;
	}
	while (len > 0) {
		uint32_t in = (uint32_t)(off % slot->block_bytes);
		uint32_t part = (uint32_t)MIN(len, (uint64_t)(slot->block_bytes - in));
		int err = part_read(p, slot, off / slot->block_bytes, in, to, part);

		if (err != 0) {
			return err;
		}
		to += part;
		off += part;
		len -= part;
	}
	return 0;
}

static const char *
objset_decode(const uint8_t *raw, uint32_t set_count, struct dump_objset *os)
{
	const char *why;

	if (memcmp(raw, "1AGTSET\0", 8) != 0) {
		return "no objset root";
	}
	*os = (struct dump_objset){
	    .txg = b64(raw, 0x08),
	    .next_object = b64(raw, 0x10),
	    .object_count = b64(raw, 0x18),
	    .used_sectors = b64(raw, 0x20),
	    .data_bytes = b64(raw, 0x28),
	    .unlinked = b64(raw, 0x30),
	    .root_object = b64(raw, 0x38),
	    .dying_count = b64(raw, 0x40),
	    .guid = b64(raw, 0x50),
	    .accounts_next = b64(raw, 0x60),
	};
	memcpy(os->owner, raw + 0x400, sizeof(os->owner));
	why = dump_slot_decode(raw + 0x200, set_count, &os->table);
	if (why == NULL && (os->table.type != TYPE_TABLE || os->table.is_inline ||
			       os->table.block_bytes != TABLE_BLOCK)) {
		why = "no object table";
	}
	if (why == NULL && raw[0x600] != TYPE_FREE) {
		why = dump_slot_decode(raw + 0x600, set_count, &os->accounts);
		if (why == NULL && (os->accounts.type != TYPE_ACCOUNTS || os->accounts.is_inline ||
				       os->accounts.block_bytes != DUMP_ACCOUNT_BLOCK)) {
			why = "impossible accounts";
		}
	}
	return why;
}

int
dump_objset_read(struct dump_pool *p, const struct dump_bp *root, struct dump_objset *out)
{
	const char *why;
	uint8_t *raw;
	int err;

	if (root->hole || root->type != TYPE_OBJSET || root->level != 0 ||
	    root->logical != SECTOR) {
		return -ERR_CORRUPT;
	}
	raw = mem_zalloc(SECTOR);
	if (raw == NULL) {
		return -ENOMEM;
	}
	err = dump_block_read(p, root, raw);
	if (err == 0) {
		why = objset_decode(raw, p->config.set_count, out);
		if (why != NULL) {
			out_error("objset root: %s", why);
			err = -ERR_CORRUPT;
		}
	}
	mem_free(raw);
	return err;
}

int
dump_slot_read(
    struct dump_pool *p, const struct dump_objset *os, uint64_t object, struct dump_slot *out)
{
	uint8_t raw[SLOT_SIZE];
	const char *why;
	int err;

	if (object > UINT64_MAX / SLOT_SIZE) {
		return -ENOENT;
	}
	err = dump_object_read(p, &os->table, object * SLOT_SIZE, raw, sizeof(raw));
	if (err != 0) {
		return err;
	}
	if (raw[0] == TYPE_FREE) {
		return -ENOENT;
	}
	why = dump_slot_decode(raw, p->config.set_count, out);
	if (why != NULL) {
		out_error("object %llu: %s", (unsigned long long)object, why);
		return -ERR_CORRUPT;
	}
	return 0;
}
