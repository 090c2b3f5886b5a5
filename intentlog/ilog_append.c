/*
 * ilog_append.c - records enter the open batch.
 *
 * Under mu a record gets its sequence number, its range of the batch and the memory of that range;
 * the copy happens outside, counted in batch->copying, and never parks in between. Closing a batch
 * stops new ranges; sealing waits for the copiers. So many reactors fill one batch at once, and the
 * order of ranges is the order of sequence numbers is the order of replay.
 *
 * Append waits only for memory: for a slot (all ILOG_SLOTS hold batches on their way) or for
 * buffers of ARENA_LOG. Both come back when batches are acknowledged; before waiting for buffers
 * the open batch is closed, so that nothing this log holds stays without a writer. The reserve must
 * allow each log one batch more than what its neighbours leave open: ILOG_CHUNKS_MAX chunks a log.
 */
#include "intentlog/ilog_int.h"

static struct ilog_batch *
append_open(struct ilog *l)
{
	struct ilog_batch *b = ilog_slot(l, l->next_batch);

	ASSERT_SLOW(b->chunk_count == 0 && list_empty(&b->waiters));
	b->seq = l->next_batch++;
	b->first_rec = l->next_rec;
	b->last_rec = l->next_rec;
	b->min_txg = UINT64_MAX;
	b->max_txg = 0;
	b->charge_bytes = 0;
	b->fill_bytes = ILOG_BATCH_HEADER_BYTES;
	b->record_count = 0;
	b->closed = false;
	b->written = false;
	l->open = b;
	return b;
}

void
ilog_close_open(struct ilog *l)
{
	if (l->open != NULL && l->open->record_count > 0) {
		l->open->closed = true;
		l->open = NULL;
		ilog_wake_leader(l);
	}
}

/* Memory for the batch up to end_bytes; false: there is none now (what was got stays with the
 * batch). */
static bool
append_grow(struct ilog *l, struct ilog_batch *b, uint32_t end_bytes)
{
	while (b->chunk_count * ILOG_CHUNK_BYTES < end_bytes) {
		struct iobuf *buf;

		if (l->spare_count > 0) {
			buf = l->spares[--l->spare_count];
		} else if (iobuf_try_alloc(ILOG_CHUNK_BYTES, ARENA_LOG, &buf) != 0) {
			return false;
		}
		b->segs[b->chunk_count++].buf = buf;
	}
	return true;
}

/* mu is released meanwhile; the buffer goes to the log's spares, not to the caller, so that
 * nobody holds some and waits for more. */
static int
append_wait_memory(struct ilog *l)
{
	struct iobuf *buf;
	int err;

	ilog_close_open(l);
	mutex_unlock(&l->mu);
	err = iobuf_alloc(ILOG_CHUNK_BYTES, ARENA_LOG, &buf);
	mutex_lock(&l->mu);
	if (err == 0 && l->spare_count < ILOG_SPARES_MAX) {
		l->spares[l->spare_count++] = buf;
	} else if (err == 0) {
		iobuf_unref(buf);
	}
	return err;
}

static bool
append_fits(const struct ilog_batch *b, uint32_t rec_bytes)
{
	uint32_t max = ILOG_BATCH_BYTES_MAX;

	if (b->record_count > 0 && BUGGIFY("ilog-tiny-batch")) {
		max = 2 * SECTOR_BYTES;
	}
	return b->record_count == 0 || b->fill_bytes + rec_bytes <= max;
}

/* mu held, released while it waits: an open batch with room and memory for the record. */
static int
append_room(struct ilog *l, uint32_t rec_bytes, struct ilog_batch **out)
{
	for (;;) {
		struct ilog_batch *b = l->open;
		int err;

		if (l->failed) {
			return -EIO;
		}
		if (b != NULL && !append_fits(b, rec_bytes)) {
			ilog_close_open(l);
			continue;
		}
		if (b == NULL && l->next_batch - l->acked.batch_seq >= ILOG_SLOTS) {
			cond_wait(&l->slot_cond, &l->mu);
			continue;
		}
		if (b == NULL) {
			b = append_open(l);
		}
		if (append_grow(l, b, b->fill_bytes + rec_bytes)) {
			*out = b;
			return 0;
		}
		err = append_wait_memory(l);
		if (err != 0) {
			return err;
		}
	}
}

static void
batch_put(struct ilog_batch *b, uint32_t off, const void *src, uint32_t len)
{
	const uint8_t *from = src;

	while (len > 0) {
		uint32_t within = off % ILOG_CHUNK_BYTES;
		uint32_t n = MIN(len, ILOG_CHUNK_BYTES - within);

		memcpy(b->segs[off / ILOG_CHUNK_BYTES].buf->data + within, from, n);
		from += n;
		off += n;
		len -= n;
	}
}

static void
record_put(struct ilog_batch *b, uint32_t off, const struct ilog_record *rec,
    const struct ilog_seg *segs, uint32_t seg_count)
{
	static const uint8_t zeros[ILOG_RECORD_ALIGN];
	struct ilog_record_header h = {
	    .len_bytes = le32_of(rec->len_bytes),
	    .type = le16_of(rec->type),
	    .flags = le16_of(rec->flags),
	    .seq = le64_of(rec->seq),
	    .txg = le64_of(rec->txg),
	    .dataset = le64_of(rec->dataset),
	    .incarnation = le64_of(rec->incarnation),
	    .object = le64_of(rec->object),
	    .generation = le64_of(rec->generation),
	};

	batch_put(b, off, &h, sizeof(h));
	off += (uint32_t)sizeof(h);
	for (uint32_t i = 0; i < seg_count; i++) {
		batch_put(b, off, segs[i].data, segs[i].len_bytes);
		off += segs[i].len_bytes;
	}
	batch_put(b, off, zeros, ALIGN_UP(off, ILOG_RECORD_ALIGN) - off);
}

static int
append_check(const struct ilog_reservation *r, const struct ilog_record *rec,
    const struct ilog_seg *segs, uint32_t seg_count)
{
	uint64_t sum = 0;

	if (seg_count > ILOG_SEGS_MAX || rec->len_bytes > ILOG_PAYLOAD_MAX) {
		return -EMSGSIZE;
	}
	for (uint32_t i = 0; i < seg_count; i++) {
		sum += segs[i].len_bytes;
	}
	if (rec->type == 0 || sum != rec->len_bytes) {
		return -EINVAL;
	}
	return r->bytes < (uint64_t)rec->len_bytes + ILOG_RECORD_COST ? -EMSGSIZE : 0;
}

int
ilog_append(struct ilog *l, struct ilog_reservation *r, struct ilog_record *rec,
    const struct ilog_seg *segs, uint32_t seg_count)
{
	uint32_t rec_bytes = ilog_record_bytes(rec->len_bytes);
	uint64_t charge = (uint64_t)rec->len_bytes + ILOG_RECORD_COST;
	struct ilog_batch *b;
	uint32_t off;
	int err = append_check(r, rec, segs, seg_count);

	if (err != 0) {
		return err;
	}
	mutex_lock(&l->mu);
	err = append_room(l, rec_bytes, &b);
	if (err != 0) {
		mutex_unlock(&l->mu);
		return err;
	}
	off = b->fill_bytes;
	b->fill_bytes += rec_bytes;
	b->record_count++;
	b->charge_bytes += charge;
	r->bytes -= charge;
	b->min_txg = MIN(b->min_txg, rec->txg);
	b->max_txg = MAX(b->max_txg, rec->txg);
	rec->seq = l->next_rec++;
	b->last_rec = rec->seq;
	wg_add(&b->copying, 1);
	if (atomic_load(&l->reserve_waiters) != 0) {
		ilog_close_open(l); /* what is not written can't be trimmed */
	}
	mutex_unlock(&l->mu);

	record_put(b, off, rec, segs, seg_count);
	wg_done(&b->copying);
	atomic_fetch_add_explicit(&l->records, 1, memory_order_relaxed);
	atomic_fetch_add_explicit(&l->record_bytes, rec->len_bytes, memory_order_relaxed);
	return 0;
}
