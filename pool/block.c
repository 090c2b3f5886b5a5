/*
 * block.c - what block_write.c, block_read.c and gang.c have in common: getting runs of sectors
 * onto the sets, and what happens when that fails.
 *
 * A column that a write didn't reach is tried once more (rewriting a block that nothing refers to
 * yet is harmless). If it fails again its drive is out from this txg on, and config_dirty makes the
 * commit write that down before the uberblock; but only if the set can spare it. Else the pool is
 * suspended (suspend.c): the writer keeps its data and tries again until the drives return. sync.c
 * resumes when a txg commits.
 */
#include "pool/block_int.h"
#include "pool/suspend.h"

#define EXTENTS_CHUNK 64u

struct cache_key
block_cache_key(const struct pool *p, const struct bp *bp)
{
	struct cache_key key = {
	    .owner = p->cache_owner,
	    .set = bp_addr_set(&bp->addr[0]),
	    .sector = le64_get(bp->addr[0].sector),
	    .birth = le64_get(bp->phys_birth),
	};

	return key;
}

int
block_sync_buf(uint32_t len_bytes, struct iobuf **out)
{
	return iobuf_alloc(len_bytes, ARENA_SYNC, out);
}

void
block_record(struct pool *p, uint64_t txg, const struct bp_addr *a, uint32_t stored_bytes,
    enum bp_cksum kind, const uint8_t cksum[32])
{
	struct bp_prop prop = {
	    .stored_bytes = stored_bytes,
	    .logical_bytes = ALIGN_UP(stored_bytes, SECTOR_BYTES),
	    .cksum = kind,
	    .compress = stored_bytes % SECTOR_BYTES != 0 ? BP_COMPRESS_LZ4 : BP_COMPRESS_OFF,
	    .type = OBJ_GANG,
	};
	struct bp bp = {.birth = le64_of(txg), .phys_birth = le64_of(txg)};

	bp.addr[0] = bp_addr_make(bp_addr_set(a), bp_addr_asize(a), bp_addr_sector(a), false);
	bp_set_prop(&bp, &prop);
	memcpy(bp.cksum, cksum, sizeof(bp.cksum));
	space_record_alloc(p->space, txg, &bp);
}

int
block_alloc(struct pool *p, uint64_t txg, enum space_class cls, uint32_t len_bytes,
    uint64_t avoid_sets, struct bp_addr *out)
{
	if (len_bytes > SECTOR_BYTES && BUGGIFY("pool-force-gang")) {
		return -ENOSPC;
	}
	return space_alloc(p->space, txg, cls, len_bytes, avoid_sets, out);
}

static void
drives_out(struct pool *p, uint32_t set_index, uint32_t columns, uint64_t began_ns)
{
	mutex_lock(&p->config_lock);
	for (uint32_t i = 0; i < p->v.drive_count; i++) {
		struct vdev_drive *d = &p->v.drives[i];

		if (d->role != DRIVE_ROLE_DATA || d->set_index != set_index ||
		    (columns & vdev_bit(d)) == 0 || d->state != DRIVE_STATE_ONLINE) {
			continue;
		}
		/* what the write missed was the drive before its return; the stale one that came
		 * back is given the block when the txg is verified */
		if (d->returned_ns >= began_ns) {
			continue;
		}
		log_warn("drive_out pool=%s set=%u column=%u reason=write", p->name, set_index,
		    d->column);
		vdev_drive_out(&p->v, d, DRIVE_STATE_FAULTED, p->v.committed_txg + 1);
		atomic_store(&p->config_dirty, true);
	}
	mutex_unlock(&p->config_lock);
}

/* Takes what was written off the list; returns how many are left, and the columns that missed what
 * was. What misses more columns than the set can spare, those of other blocks counted, is left. */
static uint32_t
blocks_keep_failed(struct pool *p, uint32_t set_index, struct raidz_block *blocks, uint32_t count,
    uint32_t *out_unwritten)
{
	uint32_t left = 0;

	for (uint32_t i = 0; i < count; i++) {
		uint32_t missed = *out_unwritten | blocks[i].report.unwritten;

		if (blocks[i].status == 0) {
			*out_unwritten = missed; /* a twin, if anybody */
			continue;
		}
		if (blocks[i].status == -ERR_DEGRADED && vdev_can_spare(&p->v, set_index, missed)) {
			*out_unwritten = missed;
			continue;
		}
		blocks[left++] = blocks[i];
	}
	return left;
}

/* The first try: only what reached every column, and twin, is done. */
static uint32_t
blocks_keep_degraded(struct raidz_block *blocks, uint32_t count)
{
	uint32_t left = 0;

	for (uint32_t i = 0; i < count; i++) {
		if (blocks[i].status != 0 || blocks[i].report.unwritten != 0) {
			blocks[left++] = blocks[i];
		}
	}
	return left;
}

/* Every column that was missed is out anyway. */
static bool
second_try_is_vain(const struct vdev_set *set, const struct raidz_block *blocks, uint32_t count)
{
	uint32_t missed = 0;
	enum raidz_col_state state;

	for (uint32_t i = 0; i < count; i++) {
		missed |= blocks[i].report.unwritten;
	}
	if (missed >> RAIDZ_TWIN != 0) {
		return false;
	}
	for (uint32_t c = 0; c < set->cfg.width; c++) {
		(void)raidz_group_column(set->rg, c, &state);
		if ((missed >> c & 1) != 0 && state != RAIDZ_COL_MISSING) {
			return false; /* a second try may reach it */
		}
	}
	return true;
}

static int
set_write(struct pool *p, uint32_t set_index, struct raidz_block *blocks, uint32_t count)
{
	struct vdev_set *set = &p->v.sets[set_index];

	for (unsigned try = 0;; try++) {
		uint64_t began_ns = rt_now_ns();
		uint32_t unwritten = 0, shape = atomic_load(&set->shape);

		(void)!raidz_write(
		    set->rg, blocks, count, ARENA_SYNC); /* each block says for itself */
		if (shape != atomic_load(&set->shape)) {
			continue; /* the columns have got other numbers: what was missed isn't known */
		}
		for (uint32_t i = 0; i < count; i++) {
			vdev_count_write(&p->v, set_index, &blocks[i].report);
		}
		if (try == 0 && !second_try_is_vain(set, blocks, count)) {
			count = blocks_keep_degraded(blocks, count);
			if (count > 0) {
				continue;
			}
		}
		count = blocks_keep_failed(p, set_index, blocks, count, &unwritten);
		if (unwritten != 0) {
			drives_out(p, set_index, unwritten, began_ns);
		}
		if (count == 0) {
			return 0;
		}
		if (pool_suspend_wait(p, "write") != 0) {
			return -EIO;
		}
	}
}

/* As many as fit in a chunk and belong to the set, from *pos on. */
static int
set_write_all(struct pool *p, uint32_t set_index, const struct extent *e, uint32_t count)
{
	struct raidz_block *blocks;
	uint32_t pos = 0, n = 0;
	int err = 0;

	blocks = pool_must_alloc(MIN(count, EXTENTS_CHUNK) * sizeof(*blocks));
	while (err == 0 && (pos < count || n > 0)) {
		if (pos == count || n == EXTENTS_CHUNK) {
			err = set_write(p, set_index, blocks, n);
			n = 0;
			continue;
		}
		if (bp_addr_set(&e[pos].addr) == set_index) {
			blocks[n++] = (struct raidz_block){
			    .sector = bp_addr_sector(&e[pos].addr),
			    .len_bytes = e[pos].len_bytes,
			    .buf = e[pos].buf,
			    .off_bytes = e[pos].off_bytes,
			};
		}
		pos++;
	}
	mem_free(blocks);
	return err;
}

int
extents_write(struct pool *p, const struct extent *e, uint32_t count)
{
	uint64_t sets = 0;

	for (uint32_t i = 0; i < count; i++) {
		sets |= (uint64_t)1 << bp_addr_set(&e[i].addr);
	}
	for (uint32_t s = 0; s < p->v.set_count; s++) {
		if ((sets >> s & 1) != 0) {
			int err = set_write_all(p, s, e, count);

			if (err != 0) {
				return err;
			}
		}
	}
	for (uint32_t i = 0; i < count; i++) {
		int err = unflushed_add(p, &e[i]);

		if (err != 0) {
			return err;
		}
	}
	return 0;
}

uint64_t
block_free(struct pool *p, uint64_t txg, const struct bp *bp)
{
	uint64_t sectors = bp_sectors(bp);
	uint32_t copies = bp_copies(bp);
	struct cache_key key;

	if (copies == 0) {
		return 0;
	}
	for (uint32_t i = 0; i < copies; i++) {
		if (bp_addr_is_gang(&bp->addr[i])) {
			sectors +=
			    gang_free_children(p, txg, &bp->addr[i], le64_get(bp->phys_birth));
		}
	}
	key = block_cache_key(p, bp);
	cache_drop(p->cache, &key);
	space_free(p->space, txg, bp);
	return sectors;
}

/* What the gang at a takes besides its header. */
static uint64_t
gang_children_sectors(struct pool *p, const struct bp_addr *a, uint64_t birth)
{
	const struct gang_header *h;
	struct iobuf *hbuf;
	uint64_t sectors = 0;
	int err = gang_header_read(p, a, birth, &hbuf);

	while (err != 0 && err != -ERR_CKSUM && err != -ERR_CORRUPT &&
	       pool_suspend_wait(p, "metadata") == 0) {
		err = gang_header_read(p, a, birth, &hbuf);
	}
	if (err != 0) {
		return 0;
	}
	h = (const struct gang_header *)(const void *)hbuf->data;
	for (uint32_t i = 0; i < le32_get(h->child_count); i++) {
		sectors += block_sectors(p, &h->child[i]);
	}
	iobuf_unref(hbuf);
	return sectors;
}

uint64_t
block_sectors(struct pool *p, const struct bp *bp)
{
	uint64_t sectors = bp_sectors(bp);
	uint32_t copies = bp_copies(bp);

	for (uint32_t i = 0; i < copies; i++) {
		if (bp_addr_is_gang(&bp->addr[i])) {
			sectors += gang_children_sectors(p, &bp->addr[i], le64_get(bp->phys_birth));
		}
	}
	return sectors;
}
