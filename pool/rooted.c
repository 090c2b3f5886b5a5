/*
 * rooted.c - the shape of a tree, as pool_format.h draws it:
 *
 *	objset_phys.table -> object table (16 KiB blocks of 32 slots) -> slot.data -> indirect
 *blocks of 256 block pointers -> data blocks
 *
 * A slot with `levels` L has L - 1 levels of indirect blocks; with L = 1 its bp is the only data
 *block. Block b is child (b >> 8 * (l - 1)) & 255 of the indirect block of level l above it. A data
 *block may be shorter than the object's block size: the rest reads as zeros.
 */
#include "pool/rooted.h"

int
rooted_slot_check(const struct object_slot *slot)
{
	uint32_t bs = le32_get(slot->block_bytes);

	if (slot->flags & OBJECT_INLINE) {
		return le16_get(slot->inline_len) <= OBJECT_INLINE_MAX ? 0 : -ERR_CORRUPT;
	}
	if (slot->levels < 1 || slot->levels > OBJECT_LEVELS_MAX) {
		return -ERR_CORRUPT;
	}
	if (bs < SECTOR_BYTES || bs > (1u << 20) || (bs & (bs - 1)) != 0) {
		return -ERR_CORRUPT;
	}
	return 0;
}

int
rooted_objset(struct pool *p, const struct bp *bp, struct iobuf **out)
{
	const struct objset_phys *os;
	struct iobuf *buf;
	int err = block_read(p, bp, BLOCK_READ_META, &buf);

	if (err != 0) {
		return err == -ENOENT ? -ERR_CORRUPT : err;
	}
	os = (const struct objset_phys *)(const void *)buf->data;
	if (le64_get(os->magic) != OBJSET_MAGIC || rooted_slot_check(&os->table) != 0 ||
	    os->table.type != OBJ_TABLE || (os->table.flags & OBJECT_INLINE) ||
	    le32_get(os->table.block_bytes) != OBJECT_TABLE_BLOCK_BYTES) {
		iobuf_unref(buf);
		return -ERR_CORRUPT;
	}
	*out = buf;
	return 0;
}

int
rooted_bp(struct pool *p, const struct object_slot *slot, uint64_t block, struct bp *out)
{
	struct bp bp = slot->data;

	if (slot->levels < OBJECT_LEVELS_MAX &&
	    (block >> (INDIRECT_SHIFT * (slot->levels - 1u))) != 0) {
		memset(out, 0, sizeof(*out));
		return 0;
	}
	for (unsigned level = slot->levels - 1u; level > 0; level--) {
		uint64_t child = (block >> (INDIRECT_SHIFT * (level - 1))) & 255;
		struct iobuf *buf;
		int err;

		if (bp_is_hole(&bp)) {
			break;
		}
		err = block_read(p, &bp, BLOCK_READ_META, &buf);
		if (err != 0) {
			return err;
		}
		if (buf->cap_bytes < INDIRECT_BYTES) {
			iobuf_unref(buf);
			return -ERR_CORRUPT;
		}
		memcpy(&bp, buf->data + child * sizeof(bp), sizeof(bp));
		iobuf_unref(buf);
	}
	*out = bp;
	return 0;
}

/* Bytes [off, off + len) of one data block. */
static int
read_block_part(struct pool *p, const struct bp *bp, uint32_t off, uint8_t *out, uint32_t len)
{
	struct bp_prop prop;
	struct iobuf *buf;
	uint32_t have;
	int err;

	memset(out, 0, len);
	if (bp_is_hole(bp)) {
		return 0;
	}
	err = bp_decode(bp, POOL_SETS_MAX, &prop);
	if (err != 0) {
		return err;
	}
	err = block_read(p, bp, BLOCK_READ_META, &buf);
	if (err != 0) {
		return err;
	}
	have = MIN(prop.logical_bytes, buf->cap_bytes);
	if (off < have) {
		memcpy(out, buf->data + off, MIN(len, have - off));
	}
	iobuf_unref(buf);
	return 0;
}

int
rooted_read(struct pool *p, const struct object_slot *slot, uint64_t off, void *out, uint64_t len)
{
	uint32_t bs = le32_get(slot->block_bytes);
	uint8_t *to = out;

	if (slot->flags & OBJECT_INLINE) {
		uint32_t have = MIN(le16_get(slot->inline_len), OBJECT_INLINE_MAX);

		memset(out, 0, len);
		if (off < have) {
			memcpy(out, slot->inl + off, MIN(len, have - off));
		}
		return 0;
	}
	while (len > 0) {
		uint32_t in = (uint32_t)(off % bs);
		uint32_t part = (uint32_t)MIN(len, (uint64_t)(bs - in));
		struct bp bp;
		int err = rooted_bp(p, slot, off / bs, &bp);

		if (err == 0) {
			err = read_block_part(p, &bp, in, to, part);
		}
		if (err != 0) {
			return err;
		}
		to += part;
		off += part;
		len -= part;
	}
	return 0;
}

int
rooted_slot(struct pool *p, const struct bp *objset, uint64_t object, struct object_slot *out)
{
	struct object_slot table, slot;
	struct iobuf *buf;
	int err = rooted_objset(p, objset, &buf);

	if (err != 0) {
		return err;
	}
	table = ((const struct objset_phys *)(const void *)buf->data)->table;
	iobuf_unref(buf);
	err = rooted_read(p, &table, object * OBJECT_SLOT_BYTES, &slot, sizeof(slot));
	if (err != 0) {
		return err;
	}
	if (slot.type == OBJ_FREE) {
		return -ENOENT;
	}
	err = rooted_slot_check(&slot);
	if (err == 0) {
		*out = slot;
	}
	return err;
}
