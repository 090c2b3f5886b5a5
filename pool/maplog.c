/*
 * maplog.c - the map log: a chain of blocks, newest first, with every change of the space maps that
 * folding hasn't taken in.
 *
 * A txg's blocks hold its records sorted by set and sector, the ALLOC records of these very blocks
 * included: their addresses are known before their contents. They carry no checksum
 * (BP_CKSUM_NONE): a block's is in the next one's `prev`, the newest one's in the uberblock.
 *
 * The newest block's oldest_txg says where a reader stops. It is never later than txg - 1: the
 * frees of the last two txgs must be found by an import though they are folded, since they may not
 * be reused yet. A block that lies wholly before oldest_txg is freed like any other, so that the
 * roots an import may fall back to still reach theirs.
 *
 * space_sync_log changes nothing before its last block is written; it may be called again after a
 * failure.
 */
#include "pool/pool_int.h"
#include "pool/space_int.h"

#define CHAIN_BLOCKS_MAX ((uint64_t)1 << 20)
#define LOG_COPIES 3u
#define LOG_RECORDS_PER_SEGMENT ((uint64_t)256)
#define LOG_RECORDS_MIN ((uint64_t)4096)
#define LOG_RECORDS_MAX ((uint64_t)8 << 20)

uint32_t
maplog_block_cap(uint32_t len_bytes)
{
	return (len_bytes - (uint32_t)sizeof(struct maplog_header)) /
	       (uint32_t)sizeof(struct map_record);
}

static uint32_t
maplog_block_len(uint64_t records)
{
	uint64_t len = sizeof(struct maplog_header) + records * sizeof(struct map_record);

	return (uint32_t)MIN(ALIGN_UP(len, (uint64_t)SECTOR_BYTES), (uint64_t)MAPLOG_BLOCK_BYTES);
}

uint64_t
maplog_limit(uint64_t segments)
{
	return MIN(MAX(segments * LOG_RECORDS_PER_SEGMENT, LOG_RECORDS_MIN), LOG_RECORDS_MAX);
}

/* Of blocks of one sector, which is what txgs of few changes write. */
uint64_t
maplog_full_sectors(const struct vdevs *v, uint64_t segments)
{
	uint64_t blocks = DIV_UP(maplog_limit(segments), (uint64_t)maplog_block_cap(SECTOR_BYTES));

	return blocks * LOG_COPIES * space_block_sectors(v, SECTOR_BYTES);
}

/* ---- reading ---- */

static int
header_check(const struct space *s, const struct iobuf *buf, const struct bp *bp, uint32_t len)
{
	const struct maplog_header *h = (const struct maplog_header *)(const void *)buf->data;

	if (le64_get(h->magic) != MAPLOG_MAGIC || le64_get(h->txg) != le64_get(bp->phys_birth) ||
	    le64_get(h->count) > maplog_block_cap(len) ||
	    le64_get(h->oldest_txg) > le64_get(h->txg) ||
	    memcmp(&h->pool_guid, &s->p->v.pool_guid, sizeof(h->pool_guid)) != 0) {
		return -ERR_CORRUPT;
	}
	return 0;
}

static int
block_each(struct space *s, const struct iobuf *buf,
    int (*each)(void *arg, const struct space_rec *r), void *arg)
{
	const struct maplog_header *h = (const struct maplog_header *)(const void *)buf->data;
	const struct map_record *raw =
	    (const struct map_record *)(const void *)(buf->data + sizeof(*h));
	int err = 0;

	for (uint64_t i = le64_get(h->count); err == 0 && i > 0; i--) {
		struct space_rec r;

		err = rec_decode(s, &raw[i - 1], &r);
		if (err == 0 && r.txg != le64_get(h->txg)) {
			err = -ERR_CORRUPT;
		}
		if (err == 0) {
			err = each(arg, &r);
		}
	}
	return err;
}

static struct space_log_block *
log_block_new(const struct bp *bp, uint64_t txg, uint32_t count)
{
	struct space_log_block *b = mem_zalloc(sizeof(*b));

	if (b != NULL) {
		b->bp = *bp;
		b->txg = txg;
		b->count = count;
	}
	return b;
}

int
maplog_read(struct space *s, const struct bp *tail,
    int (*each)(void *arg, const struct space_rec *r), void *arg, struct list *out_blocks)
{
	struct bp bp = *tail;
	uint64_t oldest = 0, newer = UINT64_MAX;

	for (uint64_t n = 0; !bp_is_hole(&bp); n++) {
		const struct maplog_header *h;
		uint64_t txg = le64_get(bp.phys_birth);
		struct space_log_block *b;
		struct bp_prop prop;
		struct iobuf *buf;
		int err;

		if (n > 0 && txg < oldest) {
			break;
		}
		if (n >= CHAIN_BLOCKS_MAX || txg > newer ||
		    bp_decode(&bp, s->set_count, &prop) != 0 || prop.logical_bytes < SECTOR_BYTES ||
		    prop.logical_bytes > MAPLOG_BLOCK_BYTES) {
			return -ERR_CORRUPT;
		}
		err = s->store->log_read(s, &bp, &buf);
		if (err != 0) {
			return err;
		}
		h = (const struct maplog_header *)(const void *)buf->data;
		err = header_check(s, buf, &bp, prop.logical_bytes);
		if (err == 0) {
			err = block_each(s, buf, each, arg);
		}
		if (err == 0 && out_blocks != NULL) {
			b = log_block_new(&bp, txg, (uint32_t)le64_get(h->count));
			err = b != NULL ? 0 : -ENOMEM;
			if (b != NULL) {
				b->room = maplog_block_cap(prop.logical_bytes);
				list_push_front(out_blocks, &b->link);
			}
		}
		oldest = n == 0 ? le64_get(h->oldest_txg) : oldest;
		newer = txg;
		bp = h->prev;
		iobuf_unref(buf);
		if (err != 0) {
			return err;
		}
		fiber_maybe_yield();
	}
	return 0;
}

/* ---- writing ---- */

/* The blocks of one txg under construction. */
struct log_job {
	uint64_t txg, oldest;
	struct rec_list recs; /* the txg's and the log's own */
	struct list blocks;   /* space_log_block: addresses, no checksum yet */
	struct bp tail;
};

static int
gather(struct space *s, uint64_t txg)
{
	uint32_t more = 0;
	int err;

	if (s->records_lost) {
		return -ENOMEM;
	}
	if (s->txg_recs_txg != txg) {
		ASSERT(s->txg_recs.count == 0);
		s->txg_recs_txg = txg;
	}
	for (uint32_t i = 0; i < s->core_count; i++) {
		more += s->cores[i].recs[txg % SPACE_TXG_SLOTS].count;
	}
	err = rec_list_reserve(&s->txg_recs, more);
	if (err != 0) {
		return err;
	}
	for (uint32_t i = 0; i < s->core_count; i++) {
		struct rec_list *l = &s->cores[i].recs[txg % SPACE_TXG_SLOTS];

		if (l->count > 0) {
			memcpy(s->txg_recs.items + s->txg_recs.count, l->items,
			    l->count * sizeof(*l->items));
			s->txg_recs.count += l->count;
		}
		l->count = 0;
	}
	return 0;
}

/* First txg whose records the chain must keep for root txg. */
static uint64_t
oldest_needed(const struct space *s, uint64_t txg)
{
	uint64_t oldest = txg > 1 ? txg - 1 : 1;

	for (uint32_t i = 0; i < s->seg_count; i++) {
		const struct space_seg *seg = s->segs_all[i];

		if (seg->unfolded_from < seg->pending.count) {
			oldest = MIN(oldest, seg->pending.items[seg->unfolded_from].txg);
		}
	}
	return oldest;
}

static int
job_push(struct log_job *job, const struct bp *bp, enum map_op op)
{
	int err = rec_list_reserve(&job->recs, LOG_COPIES);

	for (uint32_t i = 0; err == 0 && i < bp_copies(bp); i++) {
		job->recs.items[job->recs.count++] = (struct space_rec){
		    .sector = bp_addr_sector(&bp->addr[i]),
		    .birth = op == MAP_ALLOC ? job->txg : 0,
		    .txg = job->txg,
		    .set = bp_addr_set(&bp->addr[i]),
		    .asize = (uint16_t)bp_addr_asize(&bp->addr[i]),
		    /* the stored size, by which the columns are found again (resilver) */
		    .psize = op == MAP_ALLOC ? (uint16_t)le64_get(bp->prop) : 0,
		    .op = (uint8_t)op,
		    .cksum_kind = BP_CKSUM_NONE,
		};
	}
	return err;
}

/* One block of up to len bytes, on as many sets as there are, at most LOG_COPIES. */
static int
job_alloc_block(struct space *s, struct log_job *job, uint32_t len, uint32_t *out_len)
{
	struct bp_prop prop = {.cksum = BP_CKSUM_XXH3, .type = OBJ_MAPLOG};
	struct space_log_block *b;
	uint64_t avoid = 0;
	struct bp bp = {0};
	uint32_t copies = 0;
	int err;

	for (;;) {
		struct bp_addr a;

		err = space_alloc(s, job->txg, SPACE_META, len, avoid, &a);
		if (err == 0) {
			bp.addr[copies++] = a;
			avoid |= (uint64_t)1 << (bp_addr_set(&a) % 64);
		}
		if (copies == LOG_COPIES || (err != 0 && copies > 0)) {
			break;
		}
		if (err != 0 && len == SECTOR_BYTES) {
			return err;
		}
		if (err != 0) {
			len = ALIGN_UP(len / 2, SECTOR_BYTES);
		}
	}
	prop.stored_bytes = prop.logical_bytes = len;
	bp_set_prop(&bp, &prop);
	bp.birth = bp.phys_birth = le64_of(job->txg);
	b = log_block_new(&bp, job->txg, 0);
	err = b != NULL ? job_push(job, &bp, MAP_ALLOC) : -ENOMEM;
	if (err != 0) {
		for (uint32_t i = 0; i < copies; i++) {
			space_unalloc(s, &bp.addr[i]);
		}
		mem_free(b);
		return err;
	}
	list_push_back(&job->blocks, &b->link);
	*out_len = len;
	return 0;
}

/* Everything that must be known before the first block is written. */
static int
job_prepare(struct space *s, struct log_job *job)
{
	uint64_t cap = 0;
	int err = rec_list_reserve(&job->recs, s->txg_recs.count);

	if (err != 0) {
		return err;
	}
	if (s->txg_recs.count > 0) {
		memcpy(job->recs.items, s->txg_recs.items,
		    s->txg_recs.count * sizeof(*job->recs.items));
		job->recs.count = s->txg_recs.count;
	}
	job->oldest = oldest_needed(s, job->txg);
	list_for_each(l, &s->log_blocks)
	{
		struct space_log_block *b = list_entry(l, struct space_log_block, link);

		if (b->txg >= job->oldest) {
			break;
		}
		err = job_push(job, &b->bp, MAP_FREE);
		if (err != 0) {
			return err;
		}
	}
	/* at least one block a txg, so that the tail always says oldest_txg of its root */
	while (cap < job->recs.count || list_empty(&job->blocks)) {
		uint32_t len = maplog_block_len(job->recs.count + LOG_COPIES - cap);

		err = job_alloc_block(s, job, len, &len);
		if (err != 0) {
			return err;
		}
		cap += maplog_block_cap(len);
	}
	rec_list_sort(&job->recs);
	return 0;
}

static int
block_write_one(struct space *s, struct log_job *job, struct space_log_block *b, uint32_t from)
{
	struct maplog_header h = {
	    .magic = le64_of(MAPLOG_MAGIC),
	    .txg = le64_of(job->txg),
	    .oldest_txg = le64_of(job->oldest),
	    .pool_guid = s->p->v.pool_guid,
	    .prev = job->tail,
	};
	struct map_record *raw;
	struct bp_prop prop;
	struct iobuf *buf;
	int err = bp_decode(&b->bp, s->set_count, &prop);

	ASSERT(err == 0);
	b->room = maplog_block_cap(prop.logical_bytes);
	b->count = MIN(b->room, job->recs.count - from);
	err = iobuf_alloc(prop.logical_bytes, ARENA_SYNC, &buf);
	if (err != 0) {
		return err;
	}
	h.count = le64_of(b->count);
	memset(buf->data, 0, prop.logical_bytes);
	memcpy(buf->data, &h, sizeof(h));
	raw = (struct map_record *)(void *)(buf->data + sizeof(h));
	for (uint32_t i = 0; i < b->count; i++) {
		rec_encode(&job->recs.items[from + i], &raw[i]);
	}
	err = s->store->log_write(s, job->txg, buf, prop.logical_bytes, &b->bp);
	iobuf_unref(buf);
	job->tail = b->bp;
	return err;
}

static int
job_write(struct space *s, struct log_job *job)
{
	uint32_t from = 0;

	job->tail = s->log_tail;
	list_for_each(l, &job->blocks)
	{
		struct space_log_block *b = list_entry(l, struct space_log_block, link);
		int err = block_write_one(s, job, b, from);

		if (err != 0) {
			return err;
		}
		from += b->count;
		fiber_maybe_yield();
	}
	ASSERT(from == job->recs.count);
	return 0;
}

static void
job_undo(struct space *s, struct log_job *job)
{
	list_for_each_safe(l, tmp, &job->blocks)
	{
		struct space_log_block *b = list_entry(l, struct space_log_block, link);

		for (uint32_t i = 0; i < bp_copies(&b->bp); i++) {
			space_unalloc(s, &b->bp.addr[i]);
		}
		mem_free(b);
	}
	rec_list_free(&job->recs);
}

/* ---- taking a written txg into memory ---- */

/* Room in the segments' pending and the batch of frees: the last thing that can fail. */
static int
apply_prepare(struct space *s, const struct log_job *job, struct space_batch **out)
{
	struct space_batch *b = mem_zalloc(sizeof(*b));
	uint32_t frees = 0;
	int err = b != NULL ? 0 : -ENOMEM;

	for (uint32_t i = 0; i < job->recs.count; i++) {
		const struct space_rec *r = &job->recs.items[i];

		space_seg_of(s, r->set, r->sector)->incoming++;
		frees += r->op == MAP_FREE;
	}
	for (uint32_t i = 0; i < job->recs.count; i++) {
		struct space_seg *seg =
		    space_seg_of(s, job->recs.items[i].set, job->recs.items[i].sector);

		if (seg->incoming > 0 && err == 0) {
			struct rec_list grown = {0};

			/* grown aside: a loader may be copying the old one */
			if (seg->pending.cap - seg->pending.count < seg->incoming) {
				err = rec_list_reserve(&grown, seg->pending.count + seg->incoming);
			}
			if (grown.items != NULL) {
				struct space_rec *old = seg->pending.items;

				spin_lock(&seg->lock);
				if (seg->pending.count > 0) {
					memcpy(grown.items, old, seg->pending.count * sizeof(*old));
				}
				seg->pending.items = grown.items;
				seg->pending.cap = grown.cap;
				spin_unlock(&seg->lock);
				mem_free(old);
			}
		}
		seg->incoming = 0;
	}
	if (err == 0 && frees > 0) {
		b->ranges = mem_zalloc_array(frees, sizeof(*b->ranges));
		err = b->ranges != NULL ? 0 : -ENOMEM;
	}
	if (err != 0) {
		mem_free(b);
		return err;
	}
	*out = b;
	return 0;
}

static void
apply(struct space *s, struct log_job *job, struct space_batch *b)
{
	b->txg = job->txg;
	for (uint32_t i = 0; i < job->recs.count; i++) {
		const struct space_rec *r = &job->recs.items[i];
		struct space_seg *seg = space_seg_of(s, r->set, r->sector);

		spin_lock(&seg->lock);
		seg->pending.items[seg->pending.count++] = *r;
		seg->change++;
		spin_unlock(&seg->lock);
		if (r->op == MAP_FREE) {
			b->ranges[b->count++] = (struct space_range){
			    .sector = r->sector, .set = r->set, .asize = r->asize};
			b->sectors += r->asize;
		}
		if (i % 256 == 255) {
			fiber_maybe_yield();
		}
	}
	list_push_back(&s->batches, &b->link);
	/* the log's own frees were not counted by space_free */
	list_for_each_safe(l, tmp, &s->log_blocks)
	{
		struct space_log_block *old = list_entry(l, struct space_log_block, link);

		if (old->txg >= job->oldest) {
			break;
		}
		s->deferred += bp_sectors(&old->bp);
		s->log_records -= old->count;
		s->log_room -= old->room;
		list_remove(&old->link);
		mem_free(old);
	}
	list_for_each(l, &job->blocks)
	{
		s->log_records += list_entry(l, struct space_log_block, link)->count;
		s->log_room += list_entry(l, struct space_log_block, link)->room;
	}
	list_splice_back(&s->log_blocks, &job->blocks);
	s->log_tail = job->tail;
	rec_list_free(&s->written);
	s->written = job->recs;
	s->txg_recs.count = 0;
}

int
space_sync_log(struct space *s, uint64_t txg, struct bp *out_tail)
{
	struct log_job job = {.txg = txg};
	struct space_batch *batch = NULL;
	int err;

	list_init(&job.blocks);
	err = gather(s, txg);
	if (err == 0) {
		err = job_prepare(s, &job);
	}
	if (err == 0) {
		err = apply_prepare(s, &job, &batch);
	}
	if (err == 0) {
		err = job_write(s, &job);
	}
	if (err != 0) {
		job_undo(s, &job);
		if (batch != NULL) {
			mem_free(batch->ranges);
			mem_free(batch);
		}
		return err;
	}
	apply(s, &job, batch);
	*out_tail = s->log_tail;
	return 0;
}

void
space_fill_uber(struct space *s, uint64_t txg, struct uberblock *ub)
{
	uint64_t live = s->used - s->deferred, deferred = 0;

	/* what an import of this root will hold back: older frees wait only for readers, who don't
	 * survive */
	list_for_each(l, &s->batches)
	{
		const struct space_batch *b = list_entry(l, struct space_batch, link);

		if (b->txg + 1 >= txg) {
			deferred += b->sectors;
		}
	}
	ub->maplog = s->log_tail;
	ub->used_sectors = le64_of(live + deferred);
	ub->deferred_sectors = le64_of(deferred);
}
