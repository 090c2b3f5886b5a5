/*
 * block.c - from a block pointer to verified contents: any of its copies, gang or not,
 * decompressed. Blocks of metadata are kept, for the same few are asked for again and again.
 */
#include "dump/dump.h"

#define GANG_DEPTH_MAX 8u
#define GANG_CHILDREN 30u
#define CACHE_SLOTS 256u
#define CACHE_BLOCK_MAX 32768u

struct cache_slot {
	struct dump_addr addr;
	uint64_t phys_birth;
	uint32_t len;
	uint8_t *bytes;
};
struct dump_cache {
	uint32_t next;
	struct cache_slot slot[CACHE_SLOTS];
};

/* ---- cache ---- */

int
dump_cache_make(struct dump_pool *p)
{
	p->cache = mem_zalloc(sizeof(*p->cache));
	return p->cache != NULL ? 0 : -ENOMEM;
}

void
dump_cache_free(struct dump_pool *p)
{
	for (uint32_t i = 0; p->cache != NULL && i < CACHE_SLOTS; i++) {
		mem_free(p->cache->slot[i].bytes);
	}
	mem_free(p->cache);
	p->cache = NULL;
}

static bool
cache_get(const struct dump_pool *p, const struct dump_bp *bp, uint8_t *out)
{
	for (uint32_t i = 0; i < CACHE_SLOTS; i++) {
		const struct cache_slot *s = &p->cache->slot[i];

		if (s->bytes != NULL && s->len == bp->logical && s->phys_birth == bp->phys_birth &&
		    s->addr.set == bp->addr[0].set && s->addr.sector == bp->addr[0].sector) {
			memcpy(out, s->bytes, s->len);
			return true;
		}
	}
	return false;
}

static void
cache_put(struct dump_pool *p, const struct dump_bp *bp, const uint8_t *bytes)
{
	struct cache_slot *s = &p->cache->slot[p->cache->next++ % CACHE_SLOTS];

	mem_free(s->bytes);
	*s = (struct cache_slot){bp->addr[0], bp->phys_birth, bp->logical, mem_zalloc(bp->logical)};
	if (s->bytes != NULL) {
		memcpy(s->bytes, bytes, bp->logical);
	}
}

/* ---- one address ---- */

struct want {
	uint32_t kind, stored;
	const uint8_t *cksum;
};

static bool
stored_ok(const void *arg, const uint8_t *data, uint32_t len)
{
	const struct want *w = arg;
	uint8_t sum[32];

	if (w->stored > len) {
		return false;
	}
	dump_cksum(w->kind, data, w->stored, sum);
	return memcmp(sum, w->cksum, sizeof(sum)) == 0;
}

struct want_gang {
	const struct dump_pool *p;
	const struct dump_addr *addr;
	uint64_t txg;
};

/* A header that lies here by mistake, or from an earlier use of the place, isn't this one. */
static bool
gang_ok(const void *arg, const uint8_t *b, uint32_t len)
{
	const struct want_gang *w = arg;

	return len == SECTOR && memcmp(b, "1AGTGANG", 8) == 0 && b64(b, 0x08) == w->txg &&
	       b64(b, 0x28) == w->addr->sector && b16(b, 0x30) == w->addr->set &&
	       memcmp(b + 0x18, w->p->config.pool_guid, GUID_LEN) == 0 &&
	       dump_self_cksum_ok(b, SECTOR, 0xff0);
}

static int addr_read(struct dump_pool *p, const struct dump_addr *a, uint64_t txg, uint32_t len,
    const struct want *want, uint8_t *out, uint32_t depth);

static int
gang_read(struct dump_pool *p, const uint8_t *header, uint32_t len, uint8_t *out, uint32_t depth)
{
	uint32_t done = 0, count = b32(header, 0x10);

	if (count == 0 || count > GANG_CHILDREN || b32(header, 0x14) != len) {
		return -ERR_CORRUPT;
	}
	for (uint32_t i = 0; i < count; i++) {
		struct dump_bp child;
		int err;

		if (dump_bp_decode(header + 0x80 + i * 128, p->config.set_count, &child) != NULL ||
		    child.hole || child.embedded || child.copies != 1 ||
		    child.stored != child.logical || child.stored % SECTOR != 0 ||
		    child.stored > len - done) {
			return -ERR_CORRUPT;
		}
		struct want want = {child.cksum_kind, child.stored, child.cksum};
		err = addr_read(p, &child.addr[0], child.phys_birth, child.stored, &want,
		    out + done, depth + 1);
		if (err != 0) {
			return err;
		}
		done += child.stored;
	}
	return done == len ? 0 : -ERR_CORRUPT;
}

/* len bytes (sectors) at one address; txg: its phys_birth. */
static int
addr_read(struct dump_pool *p, const struct dump_addr *a, uint64_t txg, uint32_t len,
    const struct want *want, uint8_t *out, uint32_t depth)
{
	const struct dump_set *s = &p->config.sets[a->set];
	struct want_gang gang = {p, a, txg};
	bool damaged;
	uint8_t *header;
	int err;

	if (!a->gang) {
		err = dump_stripe_read(s, a->sector, len, out, stored_ok, want, &damaged);
		p->repaired += damaged && err == 0;
		return err;
	}
	if (depth == GANG_DEPTH_MAX) {
		return -ERR_CORRUPT;
	}
	p->gangs++;
	header = mem_zalloc(SECTOR);
	if (header == NULL) {
		return -ENOMEM;
	}
	err = dump_stripe_read(s, a->sector, SECTOR, header, gang_ok, &gang, &damaged);
	p->repaired += damaged && err == 0;
	err = err == 0 ? gang_read(p, header, len, out, depth) : err;
	mem_free(header);
	return err == 0 && !stored_ok(want, out, len) ? -ERR_CKSUM : err;
}

/* ---- the block ---- */

static int
stored_read(struct dump_pool *p, const struct dump_bp *bp, uint8_t *out)
{
	struct want want = {bp->cksum_kind, bp->stored, bp->cksum};
	int err = -EIO;

	for (uint32_t i = 0; i < bp->copies && err != 0; i++) {
		err = addr_read(
		    p, &bp->addr[i], bp->phys_birth, ALIGN_UP(bp->stored, SECTOR), &want, out, 0);
		p->repaired += err == 0 && i > 0;
	}
	return err;
}

static int
compressed_read(struct dump_pool *p, const struct dump_bp *bp, uint8_t *out)
{
	uint8_t *stored = mem_zalloc(ALIGN_UP(bp->stored, SECTOR));
	int err = stored != NULL ? stored_read(p, bp, stored) : -ENOMEM;

	if (err == 0) {
		err = dump_expand(bp->compress, stored, bp->stored, out, bp->logical);
	}
	mem_free(stored);
	return err;
}

int
dump_block_read(struct dump_pool *p, const struct dump_bp *bp, uint8_t *out)
{
	bool keep = !bp->embedded && bp->logical <= CACHE_BLOCK_MAX &&
		    (bp->level > 0 || bp->type != TYPE_FILE);
	int err;

	if (bp->hole) {
		return 0;
	}
	if (bp->embedded) {
		return dump_expand(
		    bp->compress, bp->payload, sizeof(bp->payload), out, bp->logical);
	}
	if (keep && cache_get(p, bp, out)) {
		return 0;
	}
	err = bp->stored < bp->logical ? compressed_read(p, bp, out) : stored_read(p, bp, out);
	if (err == 0 && keep) {
		cache_put(p, bp, out);
	}
	return err;
}
