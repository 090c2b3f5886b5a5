/*
 * cmd_space.c - the map log and the segment maps, added up and compared with what the uberblock
 * says.
 *
 * In use below a root = for each segment, its map, then the map log's records of later txgs; and
 * what the last two txgs freed counts as used until it may be reused.
 */
#include "dump/dump.h"

#define MAPLOG_HEADER 0x100u
#define RECORD 64u
#define MAPLOG_MAX 65536u
#define CHAIN_MAX (1u << 20)
#define ENTRY 32u
#define MOS_POOL_OBJECT 2u
enum { OP_ALLOC = 1, OP_FREE = 2 };

struct segment {
	uint64_t folded_txg, used;
	uint32_t records;
};

struct space {
	struct dump_pool *p;
	struct segment *seg[SETS_MAX];
	uint64_t blocks, records, deferred;
};

/* ---- segment tables ---- */

static int
table_read(struct space *s, const struct dump_objset *mos, const uint8_t *phys, uint32_t set)
{
	uint64_t count = s->p->config.sets[set].segment_count;
	struct dump_slot slot;
	int err = dump_slot_read(s->p, mos, b64(phys, 0x200 + set * 8), &slot);

	if (err == 0 && slot.type != TYPE_SEGMENTS) {
		err = -ERR_CORRUPT;
	}
	s->seg[set] = err == 0 ? mem_zalloc_array(count, sizeof(struct segment)) : NULL;
	if (err == 0 && s->seg[set] == NULL) {
		err = -ENOMEM;
	}
	for (uint64_t i = 0; err == 0 && i < count; i++) {
		uint8_t b[ENTRY];

		err = dump_object_read(s->p, &slot, i * ENTRY, b, sizeof(b));
		if (err == 0) {
			s->seg[set][i] = (struct segment){b64(b, 0), b64(b, 0x10), b32(b, 8)};
		}
	}
	return err;
}

static int
tables_read(struct space *s)
{
	struct dump_objset mos;
	struct dump_slot slot;
	uint8_t *phys = mem_zalloc(SECTOR);
	int err = phys != NULL ? dump_mos(s->p, &mos) : -ENOMEM;

	if (err == 0) {
		err = dump_slot_read(s->p, &mos, MOS_POOL_OBJECT, &slot);
	}
	if (err == 0) {
		err = dump_object_read(s->p, &slot, 0, phys, SECTOR);
	}
	if (err == 0 && memcmp(phys, "1AGTPOOL", 8) != 0) {
		err = -ERR_CORRUPT;
	}
	for (uint32_t i = 0; err == 0 && i < s->p->config.set_count; i++) {
		err = table_read(s, &mos, phys, i);
	}
	mem_free(phys);
	return err;
}

/* ---- map log ---- */

const char *
dump_record_decode(const uint8_t *b, const struct dump_config *c, struct dump_record *out)
{
	struct dump_record r = {
	    .op = b[0],
	    .cksum_kind = b[1],
	    .set = b16(b, 2),
	    .asize = b16(b, 4),
	    .stored = (b16(b, 6) + 1u) * 512u,
	    .sector = b64(b, 8),
	    .birth = b64(b, 0x10),
	    .txg = b64(b, 0x18),
	};
	const struct dump_set *s;
	uint64_t granule;

	if ((r.op != OP_ALLOC && r.op != OP_FREE) || r.set >= c->set_count || r.asize == 0 ||
	    r.cksum_kind > CKSUM_BLAKE2B || r.txg == 0 || r.birth > r.txg) {
		return "impossible values";
	}
	s = &c->sets[r.set];
	granule = s->kind == KIND_PARITY ? s->parity + 1 : 1;
	if (r.sector >= s->capacity_sectors || r.asize > s->capacity_sectors - r.sector ||
	    r.sector % granule != 0 || r.asize % granule != 0 ||
	    r.sector / s->segment_sectors != (r.sector + r.asize - 1) / s->segment_sectors ||
	    r.sector / s->segment_sectors >= s->segment_count) {
		return "an impossible place";
	}
	*out = r;
	return NULL;
}

static void
record_show(const struct dump_record *r)
{
	(void)printf("  txg %llu %s %u:%llu:%u stored %u birth %llu\n", (unsigned long long)r->txg,
	    r->op == OP_ALLOC ? "alloc" : "free", r->set, (unsigned long long)r->sector, r->asize,
	    r->stored, (unsigned long long)r->birth);
}

static int
record_count(struct space *s, const uint8_t *b, uint64_t txg)
{
	struct dump_record r;
	const char *why = dump_record_decode(b, &s->p->config, &r);
	struct segment *seg;

	if (why == NULL && r.txg != txg) {
		why = "of another txg than its block";
	}
	if (why != NULL) {
		out_error("map log: a record of txg %llu: %s", (unsigned long long)txg, why);
		return -ERR_CORRUPT;
	}
	if (s->p->verbose) {
		record_show(&r);
	}
	s->records++;
	seg = &s->seg[r.set][r.sector / s->p->config.sets[r.set].segment_sectors];
	if (r.txg > seg->folded_txg) {
		seg->used += r.op == OP_ALLOC ? (uint64_t)r.asize : -(uint64_t)r.asize;
	}
	if (r.op == OP_FREE && r.txg + 2 > s->p->uber.txg) {
		s->deferred += r.asize;
	}
	return 0;
}

const char *
dump_maplog_check(
    const uint8_t *b, uint32_t len, const struct dump_bp *bp, const struct dump_config *c)
{
	if (memcmp(b, "1AGTPLOG", 8) != 0 || memcmp(b + 0x20, c->pool_guid, GUID_LEN) != 0) {
		return "no block of this pool's map log";
	}
	if (b64(b, 0x08) != bp->phys_birth || b64(b, 0x18) > b64(b, 0x08) ||
	    b64(b, 0x10) > (len - MAPLOG_HEADER) / RECORD) {
		return "impossible values";
	}
	return NULL;
}

/* One block; *bp becomes the one before it. */
static int
block_count(struct space *s, struct dump_bp *bp, uint8_t *buf)
{
	uint32_t len = bp->logical;
	uint64_t txg = bp->phys_birth, count;
	const char *why = NULL;
	int err = bp->type != TYPE_MAPLOG || len < SECTOR || len > MAPLOG_MAX
		      ? -ERR_CORRUPT
		      : dump_block_read(s->p, bp, buf);

	if (err == 0) {
		why = dump_maplog_check(buf, len, bp, &s->p->config);
	}
	if (err != 0 || why != NULL) {
		out_error("map log: the block of txg %llu: %s", (unsigned long long)txg,
		    why != NULL ? why : err_str(err));
		return -ERR_CORRUPT;
	}
	count = b64(buf, 0x10);
	(void)printf("map log: txg %llu, %llu records, ", (unsigned long long)txg,
	    (unsigned long long)count);
	dump_bp_show(stdout, bp);
	(void)putchar('\n');
	for (uint64_t i = count; err == 0 && i > 0; i--) {
		err = record_count(s, buf + MAPLOG_HEADER + (i - 1) * RECORD, txg);
	}
	s->blocks++;
	if (err == 0 && dump_bp_decode(buf + 0x80, s->p->config.set_count, bp) != NULL) {
		err = -ERR_CORRUPT;
	}
	return err;
}

static int
chain_read(struct space *s)
{
	uint8_t *buf = mem_zalloc(MAPLOG_MAX);
	uint64_t oldest = 0, newer = UINT64_MAX;
	struct dump_bp bp;
	int err = buf != NULL ? 0 : -ENOMEM;

	if (err == 0 && dump_bp_decode(s->p->uber.maplog, s->p->config.set_count, &bp) != NULL) {
		err = -ERR_CORRUPT;
	}
	while (err == 0 && !bp.hole && bp.phys_birth >= oldest) {
		if (bp.phys_birth > newer || s->blocks >= CHAIN_MAX) {
			err = -ERR_CORRUPT;
			break;
		}
		newer = bp.phys_birth;
		err = block_count(s, &bp, buf);
		oldest = s->blocks == 1 ? b64(buf, 0x18) : oldest;
	}
	mem_free(buf);
	return err;
}

/* ---- figures ---- */

static uint64_t
set_show(const struct space *s, uint32_t set)
{
	const struct dump_set *cfg = &s->p->config.sets[set];
	uint64_t used = 0, records = 0, touched = 0;

	for (uint64_t i = 0; i < cfg->segment_count; i++) {
		const struct segment *seg = &s->seg[set][i];

		used += seg->used;
		records += seg->records;
		touched += seg->used > 0;
		if (s->p->verbose && (seg->used > 0 || seg->folded_txg > 0)) {
			(void)printf(
			    "  segment %llu: %llu sectors, map of txg %llu with %u blocks\n",
			    (unsigned long long)i, (unsigned long long)seg->used,
			    (unsigned long long)seg->folded_txg, seg->records);
		}
	}
	(void)printf("set %u: %llu of %llu sectors in use, in %llu of %llu segments; %llu blocks "
		     "in their maps\n",
	    set, (unsigned long long)used, (unsigned long long)cfg->capacity_sectors,
	    (unsigned long long)touched, (unsigned long long)cfg->segment_count,
	    (unsigned long long)records);
	return used;
}

int
cmd_space(struct dump_pool *p)
{
	struct space s = {.p = p};
	uint64_t used = 0;
	int err = tables_read(&s);

	if (err == 0) {
		err = chain_read(&s);
	}
	for (uint32_t i = 0; err == 0 && i < p->config.set_count; i++) {
		used += set_show(&s, i);
	}
	if (err == 0) {
		(void)printf("map log: %llu blocks, %llu records; deferred %llu sectors\n",
		    (unsigned long long)s.blocks, (unsigned long long)s.records,
		    (unsigned long long)s.deferred);
		if (used + s.deferred != p->uber.used_sectors ||
		    s.deferred != p->uber.deferred_sectors) {
			out_error("the uberblock says %llu sectors used and %llu deferred; the "
				  "maps say %llu and %llu",
			    (unsigned long long)p->uber.used_sectors,
			    (unsigned long long)p->uber.deferred_sectors,
			    (unsigned long long)(used + s.deferred),
			    (unsigned long long)s.deferred);
		}
	} else {
		out_error("space: %s", err_str(err));
	}
	for (uint32_t i = 0; i < SETS_MAX; i++) {
		mem_free(s.seg[i]);
	}
	return err != 0;
}
