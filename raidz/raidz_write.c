/*
 * raidz_write.c - writing a batch of blocks.
 *
 * A batch is cut into waves of at most WAVE_BLOCKS. A wave sorts its blocks by address, makes their
 * parity, and appends every column to the run of its drive: as long as the next column begins where
 * the run ends, it is one more segment of the same I/O. Blocks that lie one after the other thus
 * cost about one I/O a drive, not one a column. Where only padding (which holds nothing) separates
 * two columns, the run writes a sector of parity there rather than start a new I/O.
 *
 * A wave needs one buffer: its own bookkeeping, then the parity of its blocks. One, so that a fiber
 * never holds a buffer while it waits for another. Drives keep a reference to it for as long as a
 * late write may read from it.
 */
#include "raidz/raidz_int.h"

#define WAVE_BLOCKS 32
/* A block has at most one column and one padding sector on a drive. */
#define WAVE_SEGS (2 * WAVE_BLOCKS)
#define NO_IO 0xff

STATIC_ASSERT(WAVE_SEGS <= KB_SEGS_MAX);

struct run { /* of one drive: its I/Os of the wave */
	uint32_t io_count, seg_count;
	uint32_t pads;       /* trailing padding segments of the last I/O */
	uint64_t end_sector; /* where the last I/O ends, on the drive */
	uint64_t len_bytes;  /* of the last I/O */
};

struct wave {
	struct raidz_group *rg;
	struct raidz_cols cols;
	struct kb_group group;
	struct iobuf *buf;   /* holds this struct and the parity */
	uint32_t parity_off; /* where in buf the next block's parity goes */
	uint32_t count;
	struct raidz_block *block[WAVE_BLOCKS]; /* by address */
	uint8_t io_of[WAVE_BLOCKS]
		     [RAIDZ_WIDTH_MAX]; /* the I/O that carries a block's column, by drive */
	struct run run[RAIDZ_WIDTH_MAX];
	struct kb_io io[RAIDZ_WIDTH_MAX][WAVE_BLOCKS];
	struct kb_seg seg[RAIDZ_WIDTH_MAX][WAVE_SEGS];
};

#define WAVE_HEAD_BYTES ALIGN_UP((uint32_t)sizeof(struct wave), SECTOR_BYTES)
/* The most parity one block can have: two data columns to each row, three parities. */
STATIC_ASSERT(WAVE_HEAD_BYTES + RAIDZ_BLOCK_BYTES_MAX / 2 * 3 <= IOBUF_BYTES_MAX);

static uint32_t
parity_bytes(const struct raidz_config *cfg, uint32_t len_bytes)
{
	if (cfg->kind == RAIDZ_KIND_MIRROR) {
		return 0;
	}
	uint32_t rows = DIV_UP(len_bytes >> SECTOR_SHIFT, cfg->width - cfg->parity);
	return cfg->parity * rows * SECTOR_BYTES;
}

static int
block_check(const struct raidz_group *rg, const struct raidz_block *b)
{
	struct raidz_config cfg = raidz_cfg_now(rg);
	if (!raidz_block_fits(&cfg, b->sector, b->len_bytes) || b->off_bytes % SECTOR_BYTES != 0 ||
	    b->off_bytes > b->buf->cap_bytes || b->len_bytes > b->buf->cap_bytes - b->off_bytes) {
		return -EINVAL;
	}
	return 0;
}

/* Inserts by address; waves are short and mostly in order already. */
static void
wave_insert(struct wave *w, struct raidz_block *b)
{
	uint32_t at = w->count++;
	for (; at > 0 && w->block[at - 1]->sector > b->sector; at--) {
		w->block[at] = w->block[at - 1];
	}
	w->block[at] = b;
}

/* The number of blocks, from the first, that a wave takes, and the buffer they need. */
static uint32_t
wave_measure(const struct raidz_group *rg, const struct raidz_block *blocks, uint32_t count,
    uint32_t *out_bytes)
{
	uint32_t bytes = WAVE_HEAD_BYTES;
	uint32_t n = 0;
	while (n < count && n < WAVE_BLOCKS) {
		uint32_t more =
		    blocks[n].status == 0 ? parity_bytes(&rg->cfg, blocks[n].len_bytes) : 0;
		if (bytes + more > IOBUF_BYTES_MAX) {
			break;
		}
		bytes += more;
		n++;
	}
	*out_bytes = bytes;
	return n;
}

/* Appends to the run of a drive: a segment of the current I/O when it continues it, else a new I/O.
 */
static void
run_append(struct wave *w, uint32_t drive, uint64_t sector, struct kb_seg seg, bool pad)
{
	struct run *r = &w->run[drive];
	struct kb_io *io = r->io_count > 0 ? &w->io[drive][r->io_count - 1] : NULL;
	bool joins = io != NULL && r->end_sector == sector &&
		     r->len_bytes + seg.len_bytes <= KB_IO_BYTES_MAX;
	if (pad && !joins) {
		return;
	}
	if (!joins) {
		if (io != NULL) {
			io->seg_count -= r->pads;
		}
		io = &w->io[drive][r->io_count++];
		*io = (struct kb_io){.op = KB_WRITE,
		    .off_bytes = w->rg->cfg.base_bytes + (sector << SECTOR_SHIFT),
		    .segs = &w->seg[drive][r->seg_count]};
		r->len_bytes = 0;
	}
	w->seg[drive][r->seg_count++] = seg;
	io->seg_count++;
	r->pads = pad ? r->pads + 1 : 0;
	r->len_bytes += seg.len_bytes;
	r->end_sector = sector + (seg.len_bytes >> SECTOR_SHIFT);
}

/* By its drive, or by a twin. */
static bool
is_written(const struct wave *w, uint32_t drive)
{
	return w->cols.drive[drive] != NULL || w->cols.twin[drive] != NULL;
}

static void
block_append(struct wave *w, uint32_t index, const struct raidz_map *m, uint32_t parity_off)
{
	const struct raidz_block *b = w->block[index];
	uint32_t width = w->cols.cfg.width;
	memset(w->io_of[index], NO_IO, sizeof(w->io_of[index]));
	for (uint32_t c = 0; c < m->col_count; c++) {
		uint32_t drive = m->col[c].drive;
		bool parity = c < m->parity;
		struct kb_seg seg = {
		    .buf = parity ? w->buf : b->buf,
		    .off_bytes = parity ? parity_off + c * m->rows * SECTOR_BYTES
					: b->off_bytes + m->col[c].data_off_bytes,
		    .len_bytes = m->col[c].rows * SECTOR_BYTES,
		};
		if (is_written(w, drive)) {
			run_append(w, drive, m->col[c].drive_sector, seg, false);
			w->io_of[index][drive] = (uint8_t)(w->run[drive].io_count - 1);
		}
	}
	uint64_t pad_at =
	    b->sector + raidz_alloc_sectors(&w->cols.cfg, b->len_bytes) - m->pad_count;
	for (uint32_t i = 0; i < m->pad_count; i++, pad_at++) {
		uint32_t drive = (uint32_t)(pad_at % width);
		struct kb_seg seg = {
		    .buf = w->buf, .off_bytes = parity_off, .len_bytes = SECTOR_BYTES};
		if (is_written(w, drive)) {
			run_append(w, drive, pad_at / width, seg, true);
		}
	}
}

/* Makes the parity of one block and appends its columns. */
static void
block_prepare(struct wave *w, uint32_t index)
{
	const struct raidz_block *b = w->block[index];
	struct raidz_map m;
	uint8_t *mem[RAIDZ_WIDTH_MAX];
	uint32_t parity_off = w->parity_off;
	raidz_map_block(&w->cols.cfg, b->sector, b->len_bytes, &m);
	if (m.parity > 0) {
		for (uint32_t c = 0; c < m.col_count; c++) {
			mem[c] = c < m.parity
				     ? w->buf->data + parity_off + (size_t)c * m.rows * SECTOR_BYTES
				     : b->buf->data + b->off_bytes + m.col[c].data_off_bytes;
		}
		stripe_gen(&m, mem);
		w->parity_off += m.parity * m.rows * SECTOR_BYTES;
	}
	block_append(w, index, &m, parity_off);
}

static void
wave_submit(struct wave *w)
{
	kb_group_init(&w->group);
	for (uint32_t d = 0; d < w->cols.cfg.width; d++) {
		struct run *r = &w->run[d];
		if (r->io_count > 0) {
			w->io[d][r->io_count - 1].seg_count -= r->pads;
		}
		for (uint32_t i = 0; i < r->io_count && w->cols.drive[d] != NULL; i++) {
			kb_submit(w->cols.drive[d], &w->io[d][i], &w->group, 0);
		}
	}
	kb_group_wait(&w->group);
}

/* The same for the twins, when the drives' own I/Os have been judged: it takes their place. */
static void
twins_submit(struct wave *w)
{
	kb_group_init(&w->group);
	for (uint32_t d = 0; d < w->cols.cfg.width; d++) {
		for (uint32_t i = 0; i < w->run[d].io_count && w->cols.twin[d] != NULL; i++) {
			const struct kb_io done = w->io[d][i];
			w->io[d][i] = (struct kb_io){.op = KB_WRITE,
			    .off_bytes = done.off_bytes,
			    .segs = done.segs,
			    .seg_count = done.seg_count};
			kb_submit(w->cols.twin[d], &w->io[d][i], &w->group, 0);
		}
	}
	kb_group_wait(&w->group);
}

/* A twin that was missed makes no block worse. */
static void
twins_settle(struct wave *w, uint32_t index)
{
	struct raidz_report *r = &w->block[index]->report;
	for (uint32_t d = 0; d < w->cols.cfg.width; d++) {
		uint32_t bit = 1u << RAIDZ_TWIN << d;
		if (w->cols.twin[d] == NULL || w->io_of[index][d] == NO_IO) {
			continue;
		}
		int status = w->io[d][w->io_of[index][d]].status;
		if (status != 0) {
			r->unwritten |= bit;
			r->io_error |= bit;
			r->late |= status == -ETIMEDOUT ? bit : 0;
		}
	}
}

/* What became of the columns of one block. */
static void
block_settle(struct wave *w, uint32_t index)
{
	struct raidz_block *b = w->block[index];
	struct raidz_map m;
	raidz_map_block(&w->cols.cfg, b->sector, b->len_bytes, &m);
	for (uint32_t c = 0; c < m.col_count; c++) {
		uint32_t drive = m.col[c].drive;
		uint32_t bit = 1u << drive;
		if (w->io_of[index][drive] == NO_IO || w->cols.drive[drive] == NULL) {
			b->report.unwritten |= bit;
			continue;
		}
		int status = w->io[drive][w->io_of[index][drive]].status;
		if (status != 0) {
			b->report.unwritten |= bit;
			b->report.io_error |= bit;
			b->report.late |= status == -ETIMEDOUT ? bit : 0;
		}
	}
	uint32_t lost = (uint32_t)__builtin_popcount(b->report.unwritten);
	b->status = lost == 0 ? 0 : lost <= raidz_tolerates(&w->cols.cfg) ? -ERR_DEGRADED : -EIO;
}

/* Writes count blocks, those with a status already excepted. */
static int
wave_write(struct raidz_group *rg, struct raidz_block *blocks, uint32_t count, struct iobuf *buf)
{
	struct wave *w = (struct wave *)(void *)buf->data;
	memset(w, 0, offsetof(struct wave, io));
	w->rg = rg;
	w->buf = buf;
	w->parity_off = WAVE_HEAD_BYTES;
	for (uint32_t i = 0; i < count; i++) {
		if (blocks[i].status == 0) {
			wave_insert(w, &blocks[i]);
		}
	}
	raidz_enter(rg, &w->cols);
	if (w->cols.readonly) {
		raidz_leave(rg, &w->cols);
		return -EROFS;
	}
	for (uint32_t i = 0; i < w->count; i++) {
		block_prepare(w, i);
		fiber_maybe_yield();
	}
	wave_submit(w);
	for (uint32_t i = 0; i < w->count; i++) {
		block_settle(w, i);
	}
	if (w->cols.twins != 0 && !DELIBERATE_BUG("raidz-twin-unwritten")) {
		twins_submit(w);
		for (uint32_t i = 0; i < w->count; i++) {
			twins_settle(w, i);
		}
	}
	raidz_leave(rg, &w->cols);
	return 0;
}

int
raidz_write(struct raidz_group *rg, struct raidz_block *blocks, uint32_t count, enum arena_use use)
{
	int result = 0;
	for (uint32_t i = 0; i < count; i++) {
		blocks[i].report = (struct raidz_report){0};
		blocks[i].status = block_check(rg, &blocks[i]);
	}
	uint32_t n;
	for (uint32_t done = 0; done < count; done += n) {
		struct iobuf *buf;
		uint32_t bytes;
		n = wave_measure(rg, blocks + done, count - done, &bytes);
		int err = iobuf_alloc(bytes, use, &buf);
		if (err == 0) {
			err = wave_write(rg, blocks + done, n, buf);
			iobuf_unref(buf);
		}
		for (uint32_t i = done; i < done + n; i++) {
			if (blocks[i].status == 0) {
				blocks[i].status = err;
			}
			bool good = blocks[i].status == 0 || blocks[i].status == -ERR_DEGRADED;
			result = good ? result : -EIO;
		}
	}
	return result;
}
