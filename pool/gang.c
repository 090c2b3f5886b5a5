/*
 * gang.c - blocks that no free run could hold. A header of one sector names up to GANG_CHILDREN_MAX
 * pieces, in order; any piece may be a gang itself. Each copy of a block gangs for itself.
 *
 * Pieces and header are written and recorded at once, each with a checksum of its own, so that
 * scrub needs not know about gangs; the checksum of the block is over the assembled contents, as of
 * any other.
 */
#include "pool/block_int.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

#define GANG_DEPTH_MAX 8u

/* As if the field itself were zero. */
static void
header_cksum(const struct gang_header *h, struct self_cksum *out)
{
	static const struct self_cksum zero;
	XXH3_state_t state;
	XXH128_canonical_t c;

	(void)XXH3_128bits_reset(&state);
	(void)XXH3_128bits_update(&state, h, offsetof(struct gang_header, cksum));
	(void)XXH3_128bits_update(&state, &zero, sizeof(zero));
	XXH128_canonicalFromHash(&c, XXH3_128bits_digest(&state));
	memcpy(out->b, c.digest, sizeof(out->b));
}

/* The longest run up to len that can be had, halving. */
static int
piece_alloc(struct pool *p, uint64_t txg, enum space_class cls, uint64_t avoid, uint32_t *len,
    struct bp_addr *out)
{
	uint32_t try = *len;

	if (try > SECTOR_BYTES && BUGGIFY("pool-gang-small-pieces")) {
		try = ALIGN_UP(try / 3, SECTOR_BYTES);
	}
	for (;;) {
		int err = space_alloc(p->space, txg, cls, try, avoid, out);

		if (err != -ENOSPC || try == SECTOR_BYTES) {
			*len = try;
			return err;
		}
		try = ALIGN_UP(try / 2, SECTOR_BYTES);
	}
}

static void
piece_fill(struct bp *bp, uint64_t txg, const uint8_t *data, uint32_t len)
{
	struct bp_prop prop = {
	    .stored_bytes = len, .logical_bytes = len, .cksum = BP_CKSUM_XXH3, .type = OBJ_GANG};

	bp_set_prop(bp, &prop);
	bp->birth = le64_of(txg);
	bp->phys_birth = le64_of(txg);
	cksum_compute(prop.cksum, data, len, bp->cksum);
}

static int
extent_write_recorded(struct pool *p, uint64_t txg, const struct extent *e)
{
	uint8_t cksum[32];
	int err = extents_write(p, e, 1);

	if (err == 0) {
		cksum_compute(BP_CKSUM_XXH3, e->buf->data + e->off_bytes, e->len_bytes, cksum);
		block_record(p, txg, &e->addr, e->len_bytes, BP_CKSUM_XXH3, cksum);
	}
	return err;
}

/* One piece of src, written; *src moves on. */
static int
piece_write(struct pool *p, uint64_t txg, struct gang_source *src, enum space_class cls,
    uint64_t avoid, struct bp *out)
{
	uint32_t len = src->len_bytes;
	struct extent e = {.buf = src->buf, .off_bytes = src->off_bytes};
	int err = piece_alloc(p, txg, cls, avoid, &len, &out->addr[0]);

	if (err != 0) {
		return err;
	}
	piece_fill(out, txg, src->buf->data + src->off_bytes, len);
	e.addr = out->addr[0];
	e.len_bytes = len;
	err = extent_write_recorded(p, txg, &e);
	if (err != 0) {
		space_unalloc(p->space, &out->addr[0]);
		return err;
	}
	src->off_bytes += len;
	src->len_bytes -= len;
	return 0;
}

static void
pieces_free(struct pool *p, uint64_t txg, const struct gang_header *h, uint32_t count)
{
	for (uint32_t i = 0; i < count; i++) {
		(void)block_free(p, txg, &h->child[i]);
	}
}

struct gang_place {
	enum space_class cls;
	uint64_t avoid; /* sets */
	uint32_t depth;
};

static int gang_write_depth(struct pool *p, uint64_t txg, const struct gang_source *src,
    const struct gang_place *at, struct bp_addr *out_addr, uint64_t *out_sectors);

/*
 * How much of what is left the next child covers as a gang of its own; 0: it is a piece. Pieces as
 * short as the last one must fit into the slots that are left; else the rest goes to gangs that
 * have their slots full of single sectors if need be: so depth grows with the logarithm of the
 * number of pieces.
 */
static uint32_t
nested_len(uint32_t left, uint32_t slots, uint32_t piece)
{
	uint32_t span = ALIGN_UP(DIV_UP(left, slots), SECTOR_BYTES);

	if (left <= SECTOR_BYTES || DELIBERATE_BUG("pool-gang-chain")) {
		return slots == 1 && left > SECTOR_BYTES ? left : 0;
	}
	if (slots > 1 && (piece == 0 || (uint64_t)piece * slots >= left)) {
		return 0;
	}
	return MIN(left, MAX(span, GANG_CHILDREN_MAX * SECTOR_BYTES));
}

static int
nested_write(struct pool *p, uint64_t txg, struct gang_source *src, uint32_t len,
    const struct gang_place *at, struct bp *out, uint64_t *sectors)
{
	struct gang_source part = {.buf = src->buf, .off_bytes = src->off_bytes, .len_bytes = len};
	struct gang_place below = {at->cls, at->avoid, at->depth + 1};
	int err = gang_write_depth(p, txg, &part, &below, &out->addr[0], sectors);

	if (err == 0) {
		piece_fill(out, txg, src->buf->data + src->off_bytes, len);
		src->off_bytes += len;
		src->len_bytes -= len;
	}
	return err;
}

static int
pieces_write(struct pool *p, uint64_t txg, const struct gang_source *whole,
    const struct gang_place *at, struct gang_header *h, uint64_t *sectors)
{
	struct gang_source src = *whole;
	uint32_t n = 0, piece = 0;
	int err = 0;

	while (src.len_bytes > 0 && err == 0) {
		struct bp child = {0};
		uint32_t left = src.len_bytes;
		uint32_t nested = nested_len(left, GANG_CHILDREN_MAX - n, piece);
		uint64_t more = 0;

		ASSERT(n < GANG_CHILDREN_MAX);
		if (nested > 0) {
			err = nested_write(p, txg, &src, nested, at, &child, &more);
		} else {
			err = piece_write(p, txg, &src, at->cls, at->avoid, &child);
			more = err == 0 ? bp_sectors(&child) : 0;
			piece = left - src.len_bytes;
		}
		if (err == 0) {
			*sectors += more;
			h->child[n++] = child;
		}
	}
	h->child_count = le32_of(n);
	if (err != 0) {
		pieces_free(p, txg, h, n);
	}
	return err;
}

static int
gang_write_depth(struct pool *p, uint64_t txg, const struct gang_source *src,
    const struct gang_place *at, struct bp_addr *out_addr, uint64_t *out_sectors)
{
	struct extent e = {.len_bytes = SECTOR_BYTES};
	struct gang_header *h;
	uint64_t sectors = 0;
	int err;

	if (at->depth == GANG_DEPTH_MAX) {
		return -ENOSPC;
	}
	err = space_alloc(p->space, txg, at->cls, SECTOR_BYTES, at->avoid, &e.addr);
	if (err != 0) {
		return err;
	}
	err = block_sync_buf(SECTOR_BYTES, &e.buf);
	if (err != 0) {
		space_unalloc(p->space, &e.addr);
		return err;
	}
	h = (struct gang_header *)(void *)e.buf->data;
	memset(h, 0, sizeof(*h));
	err = pieces_write(p, txg, src, at, h, &sectors);
	if (err != 0) {
		goto unalloc;
	}
	h->magic = le64_of(GANG_MAGIC);
	h->txg = le64_of(txg);
	h->len_bytes = le32_of(src->len_bytes);
	h->pool_guid = p->v.pool_guid;
	h->own_sector = le64_of(bp_addr_sector(&e.addr));
	h->own_set = le16_of(bp_addr_set(&e.addr));
	header_cksum(h, &h->cksum);
	err = extent_write_recorded(p, txg, &e);
	if (err != 0) {
		pieces_free(p, txg, h, le32_get(h->child_count));
		goto unalloc;
	}
	*out_addr = bp_addr_make(
	    bp_addr_set(&e.addr), bp_addr_asize(&e.addr), bp_addr_sector(&e.addr), true);
	*out_sectors = sectors + bp_addr_asize(&e.addr);
	iobuf_unref(e.buf);
	return 0;
unalloc:
	space_unalloc(p->space, &e.addr);
	iobuf_unref(e.buf);
	return err;
}

int
gang_write(struct pool *p, uint64_t txg, const struct gang_source *src, enum space_class cls,
    uint64_t avoid_sets, struct bp_addr *out_addr, uint64_t *out_sectors)
{
	struct gang_place at = {.cls = cls, .avoid = avoid_sets};

	atomic_fetch_add_explicit(&p->gangs, 1, memory_order_relaxed);
	return gang_write_depth(p, txg, src, &at, out_addr, out_sectors);
}

/* ---- reading ---- */

/* A header that was meant for another place, or that an acknowledged write never replaced, is valid
 * in itself; its children may belong to somebody else by now. */
struct header_want {
	const struct pool *p;
	const struct bp_addr *addr;
	uint64_t birth;
};

static bool
header_ok(void *arg, const uint8_t *data, uint32_t len)
{
	const struct header_want *want = arg;
	const struct gang_header *h = (const struct gang_header *)(const void *)data;
	struct self_cksum sum;

	if (len != sizeof(*h) || le64_get(h->magic) != GANG_MAGIC) {
		return false;
	}
	if (memcmp(&h->pool_guid, &want->p->v.pool_guid, sizeof(h->pool_guid)) != 0) {
		return false;
	}
	if (le64_get(h->txg) != want->birth || le16_get(h->own_set) != bp_addr_set(want->addr) ||
	    le64_get(h->own_sector) != bp_addr_sector(want->addr)) {
		return false;
	}
	header_cksum(h, &sum);
	return memcmp(&sum, &h->cksum, sizeof(sum)) == 0;
}

/* A validated header in a buffer of its own. */
int
gang_header_read(struct pool *p, const struct bp_addr *a, uint64_t birth, struct iobuf **out)
{
	struct header_want want = {p, a, birth};
	struct raidz_report report = {0};
	const struct gang_header *h;
	struct iobuf *buf;
	uint64_t sum = 0;
	int err;

	if (bp_addr_set(a) >= p->v.set_count) {
		return -ERR_CORRUPT;
	}
	err = iobuf_alloc(SECTOR_BYTES, ARENA_REPAIR, &buf);
	if (err != 0) {
		return err;
	}
	err = raidz_read(p->v.sets[bp_addr_set(a)].rg, bp_addr_sector(a), SECTOR_BYTES, &buf, 0,
	    header_ok, &want, &report);
	vdev_count_report(&p->v, bp_addr_set(a), &report);
	if (err != 0) {
		goto fail;
	}
	h = (const struct gang_header *)(const void *)buf->data;
	err = -ERR_CORRUPT;
	if (le32_get(h->child_count) == 0 || le32_get(h->child_count) > GANG_CHILDREN_MAX) {
		goto fail;
	}
	for (uint32_t i = 0; i < le32_get(h->child_count); i++) {
		struct bp_prop prop;

		if (bp_decode(&h->child[i], p->v.set_count, &prop) != 0 || prop.embedded ||
		    bp_copies(&h->child[i]) != 1 || prop.stored_bytes != prop.logical_bytes ||
		    prop.stored_bytes % SECTOR_BYTES != 0) {
			goto fail;
		}
		sum += prop.logical_bytes;
	}
	if (sum != le32_get(h->len_bytes)) {
		goto fail;
	}
	*out = buf;
	return 0;
fail:
	iobuf_unref(buf);
	return err;
}

static int gang_read_locked(struct pool *p, const struct bp_addr *a, uint64_t birth,
    struct iobuf *buf, uint32_t off_bytes, uint32_t len_bytes);

static int
child_read(struct pool *p, const struct bp *child, struct iobuf *buf, uint32_t off, uint32_t len)
{
	struct block_want want = {
	    len, len, BP_CKSUM_XXH3, child->cksum, le64_get(child->phys_birth)};
	struct iobuf *piece;
	int err;

	if (bp_addr_is_gang(&child->addr[0])) {
		err = gang_read_locked(p, &child->addr[0], want.birth, buf, off, len);
		if (err != 0) {
			return err;
		}
		return block_cksum_ok(want.kind, buf->data + off, len, want.cksum) ? 0 : -ERR_CKSUM;
	}
	err = iobuf_alloc(len, ARENA_REPAIR, &piece);
	if (err != 0) {
		return err;
	}
	err = block_read_addr(p, &child->addr[0], &want, &piece);
	if (err == 0) {
		memcpy(buf->data + off, piece->data, len);
	}
	iobuf_unref(piece);
	return err;
}

static int
gang_read_locked(struct pool *p, const struct bp_addr *a, uint64_t birth, struct iobuf *buf,
    uint32_t off_bytes, uint32_t len_bytes)
{
	const struct gang_header *h;
	struct iobuf *hbuf;
	uint32_t done = 0;
	int err = gang_header_read(p, a, birth, &hbuf);

	if (err != 0) {
		return err;
	}
	h = (const struct gang_header *)(const void *)hbuf->data;
	if (le32_get(h->len_bytes) != len_bytes) {
		err = -ERR_CORRUPT;
	}
	for (uint32_t i = 0; err == 0 && i < le32_get(h->child_count); i++) {
		struct bp_prop prop;

		err = bp_decode(&h->child[i], p->v.set_count, &prop);
		if (err == 0) {
			err =
			    child_read(p, &h->child[i], buf, off_bytes + done, prop.logical_bytes);
			done += prop.logical_bytes;
		}
	}
	iobuf_unref(hbuf);
	return err;
}

/* The reader holds a buffer of the cache already and needs more: they come from the repair reserve,
 * for one gang at a time, so that gangs don't wait for each other's. */
int
gang_read(
    struct pool *p, const struct bp_addr *a, uint64_t birth, struct iobuf *buf, uint32_t len_bytes)
{
	int err;

	mutex_lock(&p->gang_lock);
	err = gang_read_locked(p, a, birth, buf, 0, len_bytes);
	mutex_unlock(&p->gang_lock);
	return err;
}

uint64_t
gang_free_children(struct pool *p, uint64_t txg, const struct bp_addr *a, uint64_t birth)
{
	const struct gang_header *h;
	struct iobuf *hbuf;
	uint64_t sectors = 0;
	int err = gang_header_read(p, a, birth, &hbuf);

	if (err != 0) {
		log_error("gang_leaked pool=%s set=%u sector=%llu err=%s", p->name, bp_addr_set(a),
		    (unsigned long long)bp_addr_sector(a), err_str(err));
		return 0;
	}
	h = (const struct gang_header *)(const void *)hbuf->data;
	for (uint32_t i = 0; i < le32_get(h->child_count); i++) {
		sectors += block_free(p, txg, &h->child[i]);
	}
	iobuf_unref(hbuf);
	return sectors;
}
