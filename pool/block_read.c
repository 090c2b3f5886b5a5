/*
 * block_read.c - from a block pointer to verified contents.
 *
 * Nothing leaves here that its checksum didn't agree with. The copies of a block are tried in
 * order; one that is bad beyond what its set can rebuild is written again from the copy that was
 * good (raidz has already repaired what it could). What can't be read at all is counted in
 * data_errors.
 *
 * Of several who want one uncached block at the same time, one reads it (block_share.c). Scrub and
 * check read what is on the drives, each for itself.
 */
#include "pool/block_int.h"
#include "pool/block_share.h"
#include "pool/txg.h"

struct verify_arg {
	enum bp_cksum kind;
	uint32_t stored_bytes;
	const uint8_t *want;
};

bool
block_cksum_ok(enum bp_cksum kind, const void *data, uint32_t len, const uint8_t *want)
{
	uint8_t got[32];

	cksum_compute(kind, data, len, got);
	return memcmp(got, want, sizeof(got)) == 0;
}

static bool
verify_stored(void *arg, const uint8_t *data, uint32_t len)
{
	const struct verify_arg *v = arg;

	return v->stored_bytes <= len && block_cksum_ok(v->kind, data, v->stored_bytes, v->want);
}

int
block_read_addr(
    struct pool *p, const struct bp_addr *a, const struct block_want *want, struct iobuf **buf)
{
	struct verify_arg v = {want->kind, want->stored_bytes, want->cksum};
	struct raidz_report report = {0};
	int err;

	if (bp_addr_is_gang(a)) {
		err = gang_read(p, a, want->birth, *buf, want->len_bytes);
		if (err != 0) {
			return err;
		}
		return verify_stored(&v, (*buf)->data, want->len_bytes) ? 0 : -ERR_CKSUM;
	}
	if (DELIBERATE_BUG("pool-read-unverified")) {
		v.kind = BP_CKSUM_NONE;
		v.want = (const uint8_t[32]){0};
	}
	err = raidz_read(p->v.sets[bp_addr_set(a)].rg, bp_addr_sector(a), want->len_bytes, buf, 0,
	    verify_stored, &v, &report);
	vdev_count_report(&p->v, bp_addr_set(a), &report);
	return err;
}

/* The copy at index i was bad though its drives answered: write it again. */
static void
copy_repair(struct pool *p, const struct bp_addr *a, struct iobuf *buf, uint32_t len_bytes)
{
	struct raidz_block b = {.sector = bp_addr_sector(a), .len_bytes = len_bytes, .buf = buf};

	if (p->readonly || bp_addr_is_gang(a)) {
		return;
	}
	if (raidz_write(p->v.sets[bp_addr_set(a)].rg, &b, 1, ARENA_REPAIR) == 0) {
		log_limited(LOG_NOTICE, "copy_repaired pool=%s set=%u sector=%llu", p->name,
		    bp_addr_set(a), (unsigned long long)bp_addr_sector(a));
	}
}

/* Stored contents into *buf (whole sectors), from the first good copy. */
static int
stored_read(struct pool *p, const struct bp *bp, const struct bp_prop *prop, struct iobuf **buf)
{
	uint32_t len = ALIGN_UP(prop->stored_bytes, SECTOR_BYTES);
	struct block_want want = {
	    len, prop->stored_bytes, prop->cksum, bp->cksum, le64_get(bp->phys_birth)};
	uint32_t copies = bp_copies(bp);
	uint32_t bad = 0;
	int err = -EIO;

	for (uint32_t i = 0; i < copies; i++) {
		int one = block_read_addr(p, &bp->addr[i], &want, buf);

		if (one == 0) {
			memset((*buf)->data + prop->stored_bytes, 0, len - prop->stored_bytes);
			for (uint32_t j = 0; j < i; j++) {
				if ((bad >> j & 1) != 0) {
					copy_repair(p, &bp->addr[j], *buf, len);
				}
			}
			return 0;
		}
		if (one == -ERR_CKSUM) {
			bad |= 1u << i;
			err = -ERR_CKSUM;
		}
	}
	return err;
}

static int
read_embedded(struct pool *p, const struct bp *bp, const struct bp_prop *prop, struct iobuf *buf)
{
	uint8_t payload[BP_EMBEDDED_MAX];
	uint32_t len = bp_get_embedded(bp, payload);

	return codec_expand(p->codec, prop->compress, payload, len, buf->data, prop->logical_bytes);
}

/* Both buffers are taken at once: readers that each hold one could wait for each other for ever. */
static int
read_compressed(struct pool *p, const struct bp *bp, const struct bp_prop *prop, struct iobuf **out)
{
	const uint32_t len[2] = {prop->logical_bytes, ALIGN_UP(prop->stored_bytes, SECTOR_BYTES)};
	struct iobuf *buf[2];
	int err = iobuf_alloc_many(len, 2, ARENA_CACHE, buf);

	if (err != 0) {
		return err;
	}
	err = stored_read(p, bp, prop, &buf[1]);
	if (err == 0) {
		err = codec_expand(p->codec, prop->compress, buf[1]->data, prop->stored_bytes,
		    buf[0]->data, prop->logical_bytes);
	}
	iobuf_unref(buf[1]);
	if (err != 0) {
		iobuf_unref(buf[0]);
		return err;
	}
	*out = buf[0];
	return 0;
}

static int
read_into(struct pool *p, const struct bp *bp, const struct bp_prop *prop, struct iobuf **out)
{
	struct iobuf *buf;
	int err;

	if (!prop->embedded && prop->stored_bytes < prop->logical_bytes) {
		return read_compressed(p, bp, prop, out);
	}
	err = iobuf_alloc(prop->logical_bytes, ARENA_CACHE, &buf);
	if (err != 0) {
		return err;
	}
	err = prop->embedded ? read_embedded(p, bp, prop, buf) : stored_read(p, bp, prop, &buf);
	if (err != 0) {
		iobuf_unref(buf);
		return err;
	}
	*out = buf;
	return 0;
}

static uint32_t
set_columns_away(const struct pool *p, uint32_t set_index)
{
	const struct vdev_set *set = &p->v.sets[set_index];
	uint32_t away = 0, blank = vdev_blank(&p->v, set_index);

	for (uint32_t c = 0; c < set->cfg.width; c++) {
		enum raidz_col_state state;
		struct kb_drive *d = raidz_group_column(set->rg, c, &state);

		away += d == NULL || kb_is_gone(d) || (blank >> c & 1) != 0;
	}
	return away;
}

/* Is more of a set gone than it tolerates? Then the data isn't lost, it is away. */
static bool
set_is_away(const struct pool *p, uint32_t set_index)
{
	return set_columns_away(p, set_index) > raidz_tolerates(&p->v.sets[set_index].cfg);
}

bool
block_sets_are_redundant(const struct pool *p)
{
	bool redundant = true;

	for (uint32_t i = 0; i < p->v.set_count; i++) {
		redundant =
		    redundant && set_columns_away(p, i) < raidz_tolerates(&p->v.sets[i].cfg);
	}
	return redundant;
}

bool
block_sets_are_away(const struct pool *p)
{
	bool away = false;

	for (uint32_t i = 0; i < p->v.set_count; i++) {
		away = away || set_is_away(p, i);
	}
	return away;
}

/* Is the block away with its drives? A pool without enough of them notices at its next commit. */
static bool
block_is_away(struct pool *p, const struct bp *bp)
{
	if (bp_is_embedded(bp) || !set_is_away(p, bp_addr_set(&bp->addr[0]))) {
		return false;
	}
	if (!p->readonly && p->txgs != NULL) {
		txg_want(p->txgs, txg_open(p->txgs));
	}
	return true;
}

struct iobuf *
block_peek(struct pool *p, const struct bp *bp)
{
	struct cache_key key;

	if (bp_copies(bp) == 0) {
		return NULL;
	}
	key = block_cache_key(p, bp);
	return cache_get(p->cache, &key);
}

void
block_forget(struct pool *p, const struct bp *bp)
{
	struct cache_key key;

	if (bp_copies(bp) > 0) {
		key = block_cache_key(p, bp);
		cache_drop(p->cache, &key);
	}
}

static void
count_failed(struct pool *p, const struct bp *bp, int err)
{
	if (err == -ENOMEM) {
		return;
	}
	atomic_fetch_add(&p->data_errors, 1);
	log_limited(LOG_ERROR, "read_failed pool=%s set=%u sector=%llu birth=%llu err=%s", p->name,
	    bp_addr_set(&bp->addr[0]), (unsigned long long)bp_addr_sector(&bp->addr[0]),
	    (unsigned long long)bp_birth(bp), err_str(err));
}

static int
read_alone(struct pool *p, const struct bp *bp, const struct bp_prop *prop, struct iobuf **out)
{
	int err = read_into(p, bp, prop, out);

	if (err == -EIO && block_is_away(p, bp)) {
		return pool_suspended_error(p);
	}
	if (err != 0) {
		count_failed(p, bp, err);
	}
	return err;
}

static int
read_and_keep(struct pool *p, const struct bp *bp, const struct bp_prop *prop, struct iobuf **out)
{
	struct cache_key key = block_cache_key(p, bp);
	int err = read_alone(p, bp, prop, out);

	if (err == 0) {
		cache_put(p->cache, &key, *out);
	}
	return err;
}

static int
read_shared(struct pool *p, const struct bp *bp, const struct bp_prop *prop, struct iobuf **out)
{
	struct cache_key key = block_cache_key(p, bp);
	bool mine;
	struct shared_read *r = share_join(p->shares, &key, &mine);
	struct iobuf *buf;
	int err = 0;

	if (r == NULL) {
		return read_and_keep(p, bp, prop, out);
	}
	if (!mine) {
		return share_await(r, out);
	}
	buf = cache_get_again(p->cache, &key);
	if (buf == NULL) {
		err = read_and_keep(p, bp, prop, &buf);
	}
	share_finish(p->shares, r, err, buf);
	if (err == 0) {
		*out = buf;
	}
	return err;
}

int
block_read(struct pool *p, const struct bp *bp, uint32_t flags, struct iobuf **out)
{
	bool cached = (flags & BLOCK_READ_NOCACHE) == 0;
	struct iobuf *buf;
	struct bp_prop prop;
	int err;

	if (bp_is_hole(bp)) {
		return -ENOENT;
	}
	buf = cached ? block_peek(p, bp) : NULL;
	if (buf != NULL) {
		*out = buf;
		return 0;
	}
	err = bp_decode(bp, p->v.set_count, &prop);
	if (err != 0) {
		count_failed(p, bp, err);
		return err;
	}
	return cached && !prop.embedded ? read_shared(p, bp, &prop, out)
					: read_alone(p, bp, &prop, out);
}
