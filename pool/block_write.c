/*
 * block_write.c - logical blocks become allocated, checksummed extents.
 *
 * A batch goes through in rounds of at most ROUND_BYTES: prepare (zeros -> hole, compress, embed),
 * place (an address per copy, or a gang), write, record. A round holds at most that much of
 * ARENA_SYNC, so that a few writers side by side can't starve each other (see sync.c for how many).
 * A block is recorded in the map log and cached only after it has been written.
 */
#include "pool/block_int.h"

#define POINTERS_HASTE 4
#define SPARE_LEVEL 3 /* of zstd */
#define ROUND_BLOCKS 64u
#define ROUND_BYTES (2u << 20)

struct prep {
	struct block_write *w;
	struct iobuf *stored;  /* compressed copy, owned; NULL: w->data is written as it is */
	uint32_t stored_bytes; /* 512 B steps */
	struct bp bp;
	bool done; /* hole or embedded */
};

static bool
is_zero(const uint8_t *data, uint32_t len)
{
	uint64_t first;

	memcpy(&first, data, sizeof(first));
	return first == 0 && memcmp(data, data + sizeof(first), len - sizeof(first)) == 0;
}

static void
prep_prop(const struct prep *s, struct bp_prop *out)
{
	*out = (struct bp_prop){
	    .stored_bytes = s->stored_bytes,
	    .logical_bytes = s->w->logical_bytes,
	    .compress = s->stored_bytes < s->w->logical_bytes ? s->w->compress : BP_COMPRESS_OFF,
	    .cksum = s->w->cksum,
	    .type = s->w->type,
	    .level = s->w->level,
	};
}

static bool
prep_embed(struct prep *s, uint64_t txg, uint32_t exact)
{
	struct bp_prop prop;

	if (!s->w->may_embed || exact > BP_EMBEDDED_MAX) {
		return false;
	}
	prep_prop(s, &prop);
	if (bp_set_embedded(&s->bp, &prop, s->stored->data, exact, txg) != 0) {
		return false;
	}
	s->bp.fill = le64_of(s->w->fill);
	return true;
}

/* A block of pointers is half checksums, where there is nothing to be found by looking closely: so
 * it takes half the time, and not more room. */
static int
codec_level(const struct block_write *w)
{
	if (w->compress == BP_COMPRESS_LZ4) {
		return w->level > 0 ? POINTERS_HASTE : 1;
	}
	return w->zstd_level;
}

/* Compression must save a sector, or it isn't worth reading back; what embeds saves them all. */
static void
prep_compress(struct pool *p, uint64_t txg, struct prep *s)
{
	struct block_write *w = s->w;
	uint32_t cap =
	    w->logical_bytes > SECTOR_BYTES ? w->logical_bytes - SECTOR_BYTES : BP_SIZE_UNIT;
	uint32_t exact = 0;

	if (w->compress == BP_COMPRESS_OFF || (cap == BP_SIZE_UNIT && !w->may_embed)) {
		return;
	}
	if (block_sync_buf(cap, &s->stored) != 0) {
		return;
	}
	s->stored_bytes = codec_compress(p->codec, w->compress, codec_level(w), w->data->data,
	    w->logical_bytes, s->stored->data, cap, &exact);
	if (s->stored_bytes != 0) {
		s->done = prep_embed(s, txg, exact);
	}
	if (s->stored_bytes == 0 || s->done || w->logical_bytes == SECTOR_BYTES) {
		iobuf_unref(s->stored);
		s->stored = NULL;
		s->stored_bytes = w->logical_bytes;
		return;
	}
	memset(s->stored->data + s->stored_bytes, 0,
	    ALIGN_UP(s->stored_bytes, SECTOR_BYTES) - s->stored_bytes);
}

static void
prep_block(struct pool *p, uint64_t txg, struct block_write *w, struct prep *s)
{
	struct bp_prop prop;
	const uint8_t *bytes;

	ASSERT(w->logical_bytes % SECTOR_BYTES == 0 && w->logical_bytes > 0);
	*s = (struct prep){.w = w, .stored_bytes = w->logical_bytes};
	w->sectors = 0;
	w->status = 0;
	if (w->level == 0 && is_zero(w->data->data, w->logical_bytes)) {
		bp_set_hole(&s->bp, txg);
		s->done = true;
		return;
	}
	prep_compress(p, txg, s);
	if (s->done) {
		return;
	}
	prep_prop(s, &prop);
	bp_set_prop(&s->bp, &prop);
	s->bp.birth = le64_of(txg);
	s->bp.phys_birth = le64_of(txg);
	s->bp.fill = le64_of(w->fill);
	bytes = s->stored != NULL ? s->stored->data : w->data->data;
	cksum_compute(w->cksum, bytes, s->stored_bytes, s->bp.cksum);
}

static uint32_t
prep_len(const struct prep *s)
{
	return ALIGN_UP(s->stored_bytes, SECTOR_BYTES);
}

/* Gives back what was placed for a block that will not be written. */
static void
prep_unplace(struct pool *p, uint64_t txg, struct prep *s)
{
	for (uint32_t i = 0; i < s->w->copies; i++) {
		struct bp_addr *a = &s->bp.addr[i];

		if (bp_addr_asize(a) == 0) {
			continue;
		}
		if (bp_addr_is_gang(a)) {
			struct bp header = {.addr = {*a}};

			(void)gang_free_children(p, txg, a, txg);
			space_free(p->space, txg, &header);
		} else {
			space_unalloc(p->space, a);
		}
		*a = (struct bp_addr){0};
	}
}

static int
prep_place(struct pool *p, uint64_t txg, struct prep *s, struct extent *e, uint32_t *count)
{
	struct block_write *w = s->w;
	enum space_class cls = w->type >= OBJ_FILE && w->level == 0 ? SPACE_DATA : SPACE_META;
	struct gang_source src = {
	    .buf = s->stored != NULL ? s->stored : w->data, .len_bytes = prep_len(s)};
	uint32_t before = *count;
	uint64_t avoid = 0;

	for (uint32_t i = 0; i < w->copies; i++) {
		struct bp_addr *a = &s->bp.addr[i];
		uint64_t sectors = 0;
		int err = block_alloc(p, txg, cls, src.len_bytes, avoid, a);

		if (err == -ENOSPC && src.len_bytes > SECTOR_BYTES) {
			err = gang_write(p, txg, &src, cls, avoid, a, &sectors);
		} else if (err == 0) {
			sectors = bp_addr_asize(a);
			e[(*count)++] = (struct extent){*a, src.buf, 0, src.len_bytes};
		}
		if (err != 0) {
			*a = (struct bp_addr){0};
			*count = before;
			prep_unplace(p, txg, s);
			return err;
		}
		space_note_placed(p->space, txg,
		    raidz_alloc_sectors(&p->v.sets[bp_addr_set(a)].cfg, src.len_bytes), sectors);
		w->sectors += sectors;
		avoid |= (uint64_t)1 << bp_addr_set(a);
	}
	return 0;
}

static void
prep_finish(struct pool *p, uint64_t txg, struct prep *s)
{
	struct cache_key key;

	if (!s->done) {
		for (uint32_t i = 0; i < s->w->copies; i++) {
			if (!bp_addr_is_gang(&s->bp.addr[i])) {
				block_record(p, txg, &s->bp.addr[i], s->stored_bytes, s->w->cksum,
				    s->bp.cksum);
			}
		}
		key = block_cache_key(p, &s->bp);
		cache_put(p->cache, &key, s->w->data);
	}
	*s->w->out = s->bp;
}

static int
round_write(struct pool *p, uint64_t txg, struct prep *preps, uint32_t count)
{
	struct extent *e = pool_must_alloc(3 * ROUND_BLOCKS * sizeof(*e));
	uint32_t extents = 0;
	int first = 0;
	int err;

	for (uint32_t i = 0; i < count; i++) {
		struct prep *s = &preps[i];

		if (!s->done) {
			s->w->status = prep_place(p, txg, s, e, &extents);
			first = first != 0 ? first : s->w->status;
		}
	}
	err = extents_write(p, e, extents);
	for (uint32_t i = 0; i < count; i++) {
		struct prep *s = &preps[i];

		if (s->w->status == 0 && err != 0 && !s->done) {
			s->w->status = err;
			prep_unplace(p, txg, s);
		}
		if (s->w->status == 0) {
			prep_finish(p, txg, s);
		}
		iobuf_unref(s->stored);
	}
	mem_free(e);
	return err != 0 ? err : first;
}

uint8_t
block_spare_copies(const struct pool *p)
{
	return block_sets_are_redundant(p) ? 1 : 2;
}

/* In the reserve a snapshot may keep the old copy of every block of inodes and names that removing
 * rewrites: the new one takes as little as it can. What is pool-wide no snapshot keeps. */
static void
block_spare(struct pool *p, struct block_write *w)
{
	if (w->copies != 2 || w->type == OBJ_OBJSET || !space_is_tight(p->space)) {
		return;
	}
	w->copies = block_spare_copies(p);
	if (w->compress == BP_COMPRESS_LZ4) {
		w->compress = BP_COMPRESS_ZSTD;
		w->zstd_level = SPARE_LEVEL;
	}
}

int
block_write(struct pool *p, uint64_t txg, struct block_write *w, uint32_t count)
{
	struct prep *preps = pool_must_alloc(MIN(count, ROUND_BLOCKS) * sizeof(*preps));
	int first = 0;

	for (uint32_t i = 0; i < count;) {
		uint32_t bytes = 0, n = 0;
		int err;

		while (i < count && n < ROUND_BLOCKS && bytes < ROUND_BYTES) {
			ASSERT(w[i].copies >= 1 && w[i].copies <= 3);
			block_spare(p, &w[i]);
			prep_block(p, txg, &w[i], &preps[n++]);
			bytes += w[i].logical_bytes;
			i++;
			fiber_maybe_yield();
		}
		err = round_write(p, txg, preps, n);
		first = first != 0 ? first : err;
	}
	mem_free(preps);
	return first;
}

int
block_write_at(struct pool *p, uint64_t txg, struct iobuf *data, uint32_t len_bytes, struct bp *bp)
{
	struct bp_prop prop = {
	    .stored_bytes = len_bytes,
	    .logical_bytes = len_bytes,
	    .cksum = BP_CKSUM_XXH3,
	    .type = OBJ_MAPLOG,
	};
	uint32_t copies = bp_copies(bp);
	struct extent e[3];

	bp_set_prop(bp, &prop);
	bp->birth = le64_of(txg);
	bp->phys_birth = le64_of(txg);
	bp->fill = le64_of(1);
	cksum_compute(prop.cksum, data->data, len_bytes, bp->cksum);
	for (uint32_t i = 0; i < copies; i++) {
		e[i] = (struct extent){bp->addr[i], data, 0, len_bytes};
	}
	return extents_write(p, e, copies);
}
