/*
 * space_store.c - where space.c keeps its maps and log: OBJ_SEGMENTS objects of the MOS, written as
 * part of the syncing txg and read below the committed root, and map-log blocks through the block
 * pipeline.
 */
#include "pool/pool_int.h"
#include "pool/space_int.h"
#include "pool/rooted.h"

#define MAP_BLOCK_SMALL (16u << 10)
#define MAP_BLOCK_LARGE (128u << 10)

static int
store_attach(struct space *s, const struct bp *mos_root)
{
	struct pool_phys *phys = mem_zalloc(sizeof(*phys));
	struct object_slot slot;
	int err = phys != NULL ? rooted_slot(s->p, mos_root, MOS_OBJECT_POOL, &slot) : -ENOMEM;

	if (err == 0) {
		err = rooted_read(s->p, &slot, 0, phys, sizeof(*phys));
	}
	if (err == -ENOENT || (err == 0 && le64_get(phys->magic) != POOL_PHYS_MAGIC)) {
		err = -ERR_CORRUPT;
	}
	/* a set without an object was added behind this root: space_grow takes it up with the next
	 * one */
	for (uint32_t i = 0; err == 0 && i < s->set_count; i++) {
		s->sets[i].object = le64_get(phys->segments[i]);
		if (s->sets[i].object == 0) {
			s->set_count = i;
			err = i == 0 ? -ERR_CORRUPT : 0;
		}
	}
	mem_free(phys);
	return err;
}

static int
store_map_read(
    struct space *s, const struct bp *mos_root, uint32_t set, uint64_t off, void *out, uint64_t len)
{
	struct object_slot slot;
	int err = rooted_slot(s->p, mos_root, s->sets[set].object, &slot);

	if (err == -ENOENT && s->sets[set].fresh) {
		memset(out, 0, len);
		return 0;
	}
	if (err == 0 && slot.type != OBJ_SEGMENTS) {
		err = -ERR_CORRUPT;
	}
	if (err == 0) {
		err = rooted_read(s->p, &slot, off, out, len);
	}
	return err == -ENOENT ? -ERR_CORRUPT : err;
}

static int
store_map_write(
    struct space *s, struct pool_tx *tx, uint32_t set, uint64_t off, const void *data, uint64_t len)
{
	struct iovec iov = {.iov_len = len};
	struct pool_obj *o;
	int err = pool_obj_hold(pool_mos(s->p), s->sets[set].object, 0, &o);

	if (err != 0) {
		return err;
	}
	memcpy(&iov.iov_base, &data, sizeof(data));
	err = pool_write(tx, o, off, &iov, 1);
	pool_obj_release(o);
	return err;
}

static int
store_map_drop(struct space *s, struct pool_tx *tx, uint32_t set, uint64_t off, uint64_t len)
{
	struct pool_obj *o;
	uint64_t bs, from, to;
	int err = pool_obj_hold(pool_mos(s->p), s->sets[set].object, 0, &o);

	if (err != 0) {
		return err;
	}
	bs = pool_obj_block_bytes(o);
	from = ALIGN_UP(off, bs);
	to = ALIGN_UP(off + len, bs);
	if (from < to) {
		err = pool_free_range(tx, o, from, to - from);
	}
	pool_obj_release(o);
	return err;
}

static int
store_log_write(struct space *s, uint64_t txg, struct iobuf *buf, uint32_t len, struct bp *bp)
{
	return block_write_at(s->p, txg, buf, len, bp);
}

static int
store_log_read(struct space *s, const struct bp *bp, struct iobuf **out)
{
	int err = block_read(s->p, bp, BLOCK_READ_META | BLOCK_READ_NOCACHE, out);

	return err == -ENOENT ? -ERR_CORRUPT : err;
}

static int
store_create(struct space *s, struct pool_tx *tx, uint32_t index, struct pool_phys *phys)
{
	struct space_set *set = &s->sets[index];
	uint32_t bs =
	    set->seg_sectors * SECTOR_BYTES < 256 * MIB ? MAP_BLOCK_SMALL : MAP_BLOCK_LARGE;
	struct pool_obj *o;
	int err = pool_obj_create(tx, pool_mos(s->p), OBJ_SEGMENTS, bs, 0, 0, &o);

	if (err != 0) {
		return err;
	}
	/* nothing to write: what was never written reads as zeros, which is the table of an
	 * empty set */
	set->object = pool_obj_number(o);
	phys->segments[index] = le64_of(set->object);
	pool_obj_release(o);
	return 0;
}

const struct space_store space_store_pool = {
    .attach = store_attach,
    .create = store_create,
    .map_read = store_map_read,
    .map_write = store_map_write,
    .map_drop = store_map_drop,
    .log_write = store_log_write,
    .log_read = store_log_read,
    .tx_txg = pool_tx_txg,
};

int
space_create_objects(struct space *s, struct pool_tx *tx, struct pool_phys *phys)
{
	int err = 0;

	for (uint32_t i = 0; err == 0 && i < s->set_count; i++) {
		err = store_create(s, tx, i, phys);
	}
	return err;
}
