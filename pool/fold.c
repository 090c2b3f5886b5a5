/*
 * fold.c - bring the map log down to its limit: segments whose changes begin earliest get a new
 * map.
 *
 * Folding in txg N writes the image as of N - 1 (N isn't complete yet) to the segment's place in
 * its OBJ_SEGMENTS object, then the table entry. When root N is committed the segment's folded_txg
 * follows (space_committed). What was folded leaves the chain when nothing older is left unfolded.
 */
#include "pool/pool_int.h"
#include "pool/space_int.h"

#define FOLD_SEGMENTS_PER_TXG 16u
#define FOLD_BYTES_PER_TXG ((uint64_t)32 << 20)
#define FOLD_SHARE 16u /* of the free space */

/* Oldest change of seg that no fold has taken in, of txgs before `txg`; 0 = none. */
static uint64_t
oldest_unfolded(const struct space_seg *seg, uint64_t txg)
{
	if (seg->unfolded_from >= seg->pending.count) {
		return 0;
	}
	return seg->pending.items[seg->unfolded_from].txg < txg
		   ? seg->pending.items[seg->unfolded_from].txg
		   : 0;
}

static int
image_write(
    struct space *s, struct pool_tx *tx, const struct space_seg *seg, const struct rec_list *image)
{
	uint32_t chunk = (uint32_t)(MAP_IO_BYTES / sizeof(struct map_record));
	struct map_record *raw = mem_zalloc_array(MIN(MAX(image->count, 1u), chunk), sizeof(*raw));
	int err = 0;

	if (raw == NULL) {
		return -ENOMEM;
	}
	for (uint32_t done = 0; err == 0 && done < image->count;) {
		uint32_t part = MIN(image->count - done, chunk);

		for (uint32_t i = 0; i < part; i++) {
			rec_encode(&image->items[done + i], &raw[i]);
		}
		err = s->store->map_write(s, tx, seg->set,
		    SEGMENT_MAP_OFF(seg->index) + (uint64_t)done * sizeof(*raw), raw,
		    (uint64_t)part * sizeof(*raw));
		done += part;
	}
	mem_free(raw);
	return err;
}

static int
entry_write(struct space *s, struct pool_tx *tx, const struct space_seg *seg,
    const struct rec_list *image, uint64_t folded)
{
	struct segment_entry e = {
	    .folded_txg = le64_of(folded),
	    .records = le32_of(image->count),
	};
	uint64_t used = 0;

	for (uint32_t i = 0; i < image->count; i++) {
		used += image->items[i].asize;
	}
	e.used_sectors = le64_of(used);
	return s->store->map_write(
	    s, tx, seg->set, (uint64_t)seg->index * sizeof(e), &e, sizeof(e));
}

/* What a fold writes: the image as of fold_to. The pool is unchanged when it fails. */
static int
fold_prepare(struct space *s, const struct space_seg *seg, uint64_t fold_to, struct rec_list *out,
    uint64_t *out_old_len)
{
	struct rec_list changes = {0};
	struct segment_entry old;
	uint64_t folded;
	int err = seg_entry_read(s, &s->root, seg->set, seg->index, &old);

	if (err == 0) {
		err = rec_list_reserve(&changes, seg->pending.count);
	}
	for (uint32_t i = 0; err == 0 && i < seg->pending.count; i++) {
		if (seg->pending.items[i].txg <= fold_to) {
			changes.items[changes.count++] = seg->pending.items[i];
		}
	}
	if (err == 0) {
		err = seg_image(s, &s->root, seg, &changes, out, &folded);
	}
	if (err == 0) {
		*out_old_len = (uint64_t)le32_get(old.records) * sizeof(struct map_record);
	}
	rec_list_free(&changes);
	return err;
}

/*
 * A segment whose map can't be read stays unfolded, and the chain long: worse than folding, better
 * than a pool that stops. Once something of a fold has been written, failing it fails the txg.
 */
static int
fold_segment(struct space *s, struct pool_tx *tx, struct space_seg *seg, uint64_t *out_bytes)
{
	uint64_t fold_to = s->store->tx_txg(tx) - 1;
	struct rec_list image = {0};
	uint64_t old_len, new_len;
	int err = fold_prepare(s, seg, fold_to, &image, &old_len);

	if (err != 0) {
		/* what can't be read now may be when drives are back */
		seg->no_fold = err == -ERR_CORRUPT;
		log_error("space.fold_skipped set=%u segment=%u error=%s", seg->set, seg->index,
		    err_str(err));
		return 0;
	}
	err = image_write(s, tx, seg, &image);
	if (err == 0) {
		err = entry_write(s, tx, seg, &image, fold_to);
	}
	new_len = (uint64_t)image.count * sizeof(struct map_record);
	if (err == 0 && new_len < old_len) {
		err = s->store->map_drop(
		    s, tx, seg->set, SEGMENT_MAP_OFF(seg->index) + new_len, old_len - new_len);
	}
	rec_list_free(&image);
	if (err != 0) {
		return err;
	}
	seg->folding_txg = fold_to;
	while (seg->unfolded_from < seg->pending.count &&
	       seg->pending.items[seg->unfolded_from].txg <= fold_to) {
		seg->unfolded_from++;
	}
	*out_bytes += new_len;
	return 0;
}

/* The txg before which everything should be folded, for the chain to come down to its limit; 0: it
 * is short enough. By the room that blocks have: one of few records is as dear as one of many, and
 * a txg without changes writes one, too. From the old end, where little is over the limit. */
static uint64_t
fold_cutoff(const struct space *s)
{
	uint64_t rest = s->log_room, cutoff = 0;

	for (struct list *l = s->log_blocks.next; l != &s->log_blocks && rest > s->log_limit;
	     l = l->next) {
		const struct space_log_block *b = list_entry(l, struct space_log_block, link);

		cutoff = b->txg + 1;
		rest -= b->room;
	}
	return cutoff;
}

/* What a txg's folds may write, but for the first one: a part of what is free, since it is the
 * reserve in a full pool that has to suffice until what they replace comes back. */
static uint64_t
fold_bytes(const struct space *s, uint64_t hurry)
{
	uint64_t free = s->total - MIN(s->used, s->total);

	return MIN(FOLD_BYTES_PER_TXG * hurry, free * SECTOR_BYTES / FOLD_SHARE);
}

int
space_sync_fold(struct space *s, struct pool_tx *tx)
{
	uint64_t txg = s->store->tx_txg(tx);
	uint64_t cutoff = BUGGIFY("space-fold-early") ? txg : fold_cutoff(s);
	/* far behind: hurry, before import takes too long */
	uint64_t hurry = s->log_records > s->log_limit * 4 ? 8 : 1;
	uint64_t bytes = 0, folds = 0, bytes_max = fold_bytes(s, hurry);

	/* from where the last txg stopped, so that every segment has its turn */
	for (uint32_t i = 0; i < s->seg_count && cutoff > 0; i++) {
		struct space_seg *seg = s->segs_all[(s->fold_next + i) % s->seg_count];
		uint64_t oldest = oldest_unfolded(seg, txg);
		int err;

		if (oldest == 0 || oldest >= cutoff || seg->no_fold) {
			continue;
		}
		if (folds >= FOLD_SEGMENTS_PER_TXG * hurry || (folds > 0 && bytes >= bytes_max)) {
			s->fold_next = (s->fold_next + i) % s->seg_count;
			return 0;
		}
		folds++;
		err = fold_segment(s, tx, seg, &bytes);
		if (err != 0) {
			return err;
		}
		fiber_maybe_yield();
	}
	return 0;
}
