/* objects.c - one transaction on one object, in the pool and in the model. */
#include "tests/histories/history.h"
#include "tests/lib/pool_bytes.h"

#define INODE_DIRTY_BYTES (256u * 1024)

static bool
has_blocks(const struct bytes *b)
{
	return !bytes_are_zero(b->seg[0], sizeof(b->seg));
}

static void
do_write(struct pool_tx *tx, struct pool_obj *o, struct bytes *b)
{
	uint32_t len = history_rnd(2) == 0 ? 1 + (uint32_t)history_rnd(5000)
					   : 1 + (uint32_t)history_rnd(HISTORY_SEG_BYTES / 2);
	uint64_t at = history_rnd(HISTORY_SEG_BYTES - len) &
		      (history_rnd(2) == 0 ? ~(uint64_t)4095 : ~(uint64_t)0);
	unsigned seg = history_rnd(3) == 0;
	struct iovec iov;
	int err;

	bytes_pattern(b->seg[seg] + at, len, history_rnd(UINT32_MAX));
	bytes_touch(b, seg, at, len);
	b->inline_len = 0;
	memset(b->inl, 0, sizeof(b->inl));
	iov = (struct iovec){b->seg[seg] + at, len};
	pool_obj_inline_clear(tx, o);
	err = pool_write(tx, o, history_seg_at[seg] + at, &iov, 1);
	ASSERT(err == 0);
	history_count(HK_WRITE);
}

static void
do_free(struct pool_tx *tx, struct pool_obj *o, struct bytes *b)
{
	uint64_t off = history_rnd(3) == 0   ? history_seg_at[1] + history_rnd(HISTORY_SEG_BYTES)
		       : history_rnd(2) == 0 ? history_rnd(HISTORY_SEG_BYTES)
					     : 0;
	bool end = history_rnd(3) == 0;
	uint64_t len = end ? UINT64_MAX : 1 + history_rnd(HISTORY_SEG_BYTES);
	int err = pool_free_range(tx, o, off, len);

	ASSERT(err == 0);
	for (unsigned i = 0; i < 2; i++) {
		bytes_part_free(b->seg[i], history_seg_at[i], HISTORY_SEG_BYTES, off, len);
		bytes_touch(b, i, 0, HISTORY_SEG_BYTES);
	}
	history_count(end ? HK_TRUNCATE : HK_HOLE);
}

static bool
do_inline(struct pool_tx *tx, struct pool_obj *o, struct bytes *b)
{
	if (has_blocks(b)) {
		return false;
	}
	bytes_pattern(b->inl, OBJECT_INLINE_MAX, history_rnd(UINT32_MAX));
	if (pool_obj_inline_set(tx, o, b->inl, OBJECT_INLINE_MAX) == 0) {
		b->inline_len = OBJECT_INLINE_MAX;
		history_count(HK_INLINE);
		return true;
	}
	memset(b->inl, 0, sizeof(b->inl));
	return false;
}

/* To somebody else, of a few. */
static void
give(struct pool_tx *tx, struct pool_obj *o, struct bytes *b)
{
	static const uint32_t who[] = {0, 7, 255, 256, 70000, 4294967294u};

	b->bonus[0] = (uint32_t)history_rnd(UINT32_MAX);
	b->bonus[1] = who[history_rnd(ARRAY_LEN(who))];
	b->bonus[2] = who[history_rnd(ARRAY_LEN(who))];
	memcpy(pool_obj_bonus_dirty(tx, o), b->bonus, sizeof(b->bonus));
	history_count(HK_BONUS);
}

static void
do_change(struct pool_tx *tx, struct pool_obj *o, struct bytes *b, uint64_t what)
{
	switch (what) {
	case 0:
		give(tx, o, b);
		return;
	case 1:
	case 2:
		do_free(tx, o, b);
		return;
	case 3:
		if (do_inline(tx, o, b)) {
			return;
		}
		break;
	default:
		break;
	}
	do_write(tx, o, b);
}

static void
change_policy(struct pool_ds *ds)
{
	struct pool_ds_policy policy = {
	    .compress = history_rnd(2) == 0 ? BP_COMPRESS_LZ4 : BP_COMPRESS_OFF,
	    .zstd_level = 1,
	    .cksum = history_rnd(4) != 0 ? BP_CKSUM_XXH3 : BP_CKSUM_BLAKE2B,
	    .record_bytes = 4096u << history_rnd(9)};

	if (history_rnd(4) == 0) {
		policy.compress = BP_COMPRESS_ZSTD;
	}
	pool_ds_set_policy(ds, &policy);
	history_count(HK_COMPRESS);
}

/* Records of a new object: 4 KiB to 1 MiB, the large ones seldom, since they cost. */
static uint32_t
record_choose(void)
{
	static const uint32_t sizes[] = {4096, 4096, 16384, 16384, 32768, 65536, 131072, 131072};
	static uint32_t last;
	uint32_t size = history_rnd(20) == 0 ? (uint32_t)MIB >> history_rnd(2)
					     : sizes[history_rnd(ARRAY_LEN(sizes))];

	if (size == MIB) {
		history_count(HK_MIB_RECORDS);
	}
	if (size != last) {
		history_count(HK_RECORD_SIZE);
	}
	last = size;
	return size;
}

static void
object_make(
    struct head *h, struct pool_ds *ds, struct pool_tx *tx, uint32_t k, struct pool_obj **out)
{
	struct ostate *s = &h->now[k];
	int err = pool_obj_create(tx, ds, OBJ_FILE, record_choose(), 0, 0, out);

	ASSERT(err == 0);
	s->number = pool_obj_number(*out);
	s->generation = pool_obj_generation(*out);
	if (s->number <= h->top_number) {
		history_count(HK_REUSE);
	}
	h->top_number = MAX(h->top_number, s->number);
	bytes_clear(&h->b[k]);
	give(tx, *out, &h->b[k]);
	do_write(tx, *out, &h->b[k]);
	history_count(HK_OBJ_CREATE);
}

static void
object_hold(const struct head *h, struct pool_ds *ds, uint32_t k, struct pool_obj **out)
{
	const struct ostate *s = &h->now[k];
	int err = pool_obj_hold(ds, s->number, s->generation, out);

	if (err != 0) {
		fprintf(stderr, "life %llu %s object %u number %llu: %s\n",
		    (unsigned long long)hs.life, h->path, k, (unsigned long long)s->number,
		    err_str(err));
	}
	ASSERT(err == 0);
}

/* false: there is no room for it. What frees is never refused by a quota. */
static bool
step_begin(struct pool_ds *ds, bool frees, uint32_t record, struct pool_tx **out)
{
	struct pool_need need = {.dirty_bytes = INODE_DIRTY_BYTES + 2 * record,
	    .frees = frees,
	    .grow_bytes = frees ? 0 : 64 * KIB + 2 * record};
	int err = pool_tx_begin(ds, &need, out);

	if (err == -ENOSPC) {
		history_count(HK_NO_SPACE);
	} else if (err == -EDQUOT) {
		history_count(HK_NO_QUOTA);
		ASSERT(!frees);
	} else {
		ASSERT(err == 0);
	}
	return err == 0;
}

void
step_object(struct head *h)
{
	uint32_t k = (uint32_t)history_rnd(HISTORY_OBJS);
	struct ostate *s = &h->now[k];
	uint64_t what = history_rnd(15) == 0 ? 99 : history_rnd(10);
	bool makes = s->number == 0, frees = !makes && (what < 3 || what == 99);
	struct pool_ds *ds = head_open(h);
	struct pool_obj *o = NULL;
	struct pool_tx *tx;

	if (!makes) {
		object_hold(h, ds, k, &o);
	}
	if (!step_begin(ds, frees, makes ? (uint32_t)MIB : pool_obj_block_bytes(o), &tx)) {
		if (o != NULL) {
			pool_obj_release(o);
		}
		pool_ds_close(ds);
		return;
	}
	if (makes) {
		object_make(h, ds, tx, k, &o);
	} else if (what == 99) {
		pool_obj_destroy(tx, o);
		s->number = 0;
		history_count(HK_OBJ_DESTROY);
	} else {
		do_change(tx, o, &h->b[k], what);
	}
	s->hash = bytes_hash(&h->b[k]);
	pool_obj_release(o);
	history_push(h, pool_tx_txg(tx));
	pool_tx_end(tx);
	if (history_rnd(30) == 0) {
		change_policy(ds);
	}
	pool_ds_close(ds);
	hs.counts->steps++;
}

/* Quotas and reservations around what is used now. */
void
step_limits(void)
{
	uint32_t i = pick_head(true);
	struct pool_limits l = {0};
	struct pool_ds_info info;
	struct pool_ds *ds;
	int err;

	if (i == HISTORY_HEADS) {
		return;
	}
	ds = head_open(&hs.heads[i]);
	pool_ds_get_info(ds, &info);
	if (history_rnd(2) == 0) {
		l.quota = history_rnd(3) == 0 ? info.used_bytes / 2 + 1
					      : info.used_bytes + 1 + history_rnd(2 * MIB);
	}
	if (history_rnd(2) == 0) {
		l.refquota = info.referenced_bytes + 1 + history_rnd(MIB);
	}
	if (history_rnd(4) == 0) {
		l.reservation = history_rnd(2 * MIB);
		l.refreservation = history_rnd(MIB);
	}
	if (history_rnd(2) == 0) {
		l = (struct pool_limits){0};
	}
	err = pool_ds_set_limits(ds, &l);
	ASSERT(err == 0 || err == -ENOSPC || err == -EINVAL);
	pool_ds_close(ds);
	if (err == 0) {
		history_count(HK_LIMITS);
	}
}
