/*
 * pool_space_test.c - the allocator against a model that knows, for each sector, whether it is live
 * and when it was freed. Random txgs of allocations and frees on several reactors, readers that
 * linger, folding and failing log writes at random; reload from the newest root or one of the two
 * before it at random points. The store is memory: one snapshot of the maps for each root, log
 * blocks by address.
 */
#include <inttypes.h>

#include "pool/pool_int.h"
#include "pool/space_int.h"
#include "tests/lib/unit.h"

#define ROOTS 4u /* roots kept: the newest and those that may be fallen back to */
#define BLOCKS_MAX 20000u
#define READERS_MAX 6u

struct block {
	struct bp bp;
	uint64_t freed_txg; /* 0: live */
};

struct model_root {
	uint64_t txg;
	struct uberblock ub;
	struct segment_entry *table[2];
	struct map_record **map[2]; /* per segment */
	struct block *blocks;
	uint32_t block_count;
};

struct reader {
	uint64_t token, began; /* committed txg when it entered */
	bool active;
};

static struct {
	struct pool p;
	struct vdev_set sets[2];
	struct space *s;
	struct model_root cur; /* being changed; its maps are what the syncing txg writes */
	struct model_root roots[ROOTS]; /* [txg % ROOTS] */
	struct block blocks[BLOCKS_MAX];
	uint64_t *freed[2]; /* per sector: txg of the last free; 0 never, UINT64_MAX live */
	struct iobuf_copy {
		uint64_t birth;
		uint8_t *data;
	} * log[2]; /* per sector: a log block that begins there */
	struct reader readers[READERS_MAX];
	uint64_t rng, txg, ticks;
	uint32_t log_fail; /* chance in 100 that a log write fails */
	bool wrong;
	uint64_t allocs, frees, reloads, folds, nospc;
} t;

static uint64_t
rnd(uint64_t below)
{
	t.rng ^= t.rng << 13;
	t.rng ^= t.rng >> 7;
	t.rng ^= t.rng << 17;
	return t.rng % below;
}

static void
complain(const char *what, uint64_t a, uint64_t b)
{
	if (!t.wrong) {
		printf("\n    txg %" PRIu64 ": %s (%" PRIu64 ", %" PRIu64 ")\n", t.txg, what, a, b);
	}
	t.wrong = true;
	UNIT_CHECK(!"the model and the allocator differ");
}

/* ---- the store in memory ---- */

static const struct model_root *
root_of(const struct bp *mos_root)
{
	uint64_t txg = le64_get(mos_root->birth);

	ASSERT(t.roots[txg % ROOTS].txg == txg);
	return &t.roots[txg % ROOTS];
}

static int
mem_attach(struct space *s UNUSED, const struct bp *mos_root UNUSED)
{
	return 0;
}

static int
mem_map_read(struct space *s UNUSED, const struct bp *mos_root, uint32_t set, uint64_t off,
    void *out, uint64_t len)
{
	const struct model_root *r = root_of(mos_root);

	fiber_yield();
	if (off < SEGMENT_TABLE_BYTES) {
		memcpy(out, (const uint8_t *)r->table[set] + off, len);
		return 0;
	}
	off -= SEGMENT_TABLE_BYTES;
	memcpy(out,
	    (const uint8_t *)r->map[set][off / SEGMENT_MAP_BYTES_MAX] + off % SEGMENT_MAP_BYTES_MAX,
	    len);
	return 0;
}

static int
mem_map_write(struct space *s UNUSED, struct pool_tx *tx UNUSED, uint32_t set, uint64_t off,
    const void *data, uint64_t len)
{
	fiber_yield();
	if (off < SEGMENT_TABLE_BYTES) {
		memcpy((uint8_t *)t.cur.table[set] + off, data, len);
		t.folds++;
		return 0;
	}
	off -= SEGMENT_TABLE_BYTES;
	ASSERT(off % SEGMENT_MAP_BYTES_MAX == 0);
	free(t.cur.map[set][off / SEGMENT_MAP_BYTES_MAX]);
	t.cur.map[set][off / SEGMENT_MAP_BYTES_MAX] = malloc(len + 1);
	memcpy(t.cur.map[set][off / SEGMENT_MAP_BYTES_MAX], data, len);
	return 0;
}

static int
mem_map_drop(struct space *s UNUSED, struct pool_tx *tx UNUSED, uint32_t set UNUSED,
    uint64_t off UNUSED, uint64_t len UNUSED)
{
	return 0;
}

static int
mem_log_write(struct space *s UNUSED, uint64_t txg, struct iobuf *buf, uint32_t len, struct bp *bp)
{
	fiber_yield();
	if (rnd(100) < t.log_fail) {
		return -EIO;
	}
	for (uint32_t i = 0; i < bp_copies(bp); i++) {
		struct iobuf_copy *c =
		    &t.log[bp_addr_set(&bp->addr[i])][bp_addr_sector(&bp->addr[i])];

		free(c->data);
		c->data = malloc(len);
		memcpy(c->data, buf->data, len);
		c->birth = txg;
	}
	return 0;
}

static int
mem_log_read(struct space *s UNUSED, const struct bp *bp, struct iobuf **out)
{
	struct iobuf_copy *c = &t.log[bp_addr_set(&bp->addr[0])][bp_addr_sector(&bp->addr[0])];
	struct bp_prop prop;
	struct iobuf *buf;
	int err = bp_decode(bp, 2, &prop);

	ASSERT(err == 0);
	if (c->birth != le64_get(bp->phys_birth)) {
		complain("a log block that a root needs was overwritten", c->birth,
		    le64_get(bp->phys_birth));
		return -EIO;
	}
	err = iobuf_alloc(prop.logical_bytes, ARENA_SYNC, &buf);
	ASSERT(err == 0);
	memcpy(buf->data, c->data, prop.logical_bytes);
	*out = buf;
	return 0;
}

static uint64_t
mem_tx_txg(const struct pool_tx *tx UNUSED)
{
	return t.txg;
}

/* The allocator's own name: the store of real pools isn't linked into this test. */
const struct space_store space_store_pool = {
    .attach = mem_attach,
    .map_read = mem_map_read,
    .map_write = mem_map_write,
    .map_drop = mem_map_drop,
    .log_write = mem_log_write,
    .log_read = mem_log_read,
    .tx_txg = mem_tx_txg,
};

/* ---- snapshots of the model ---- */

static void
root_drop(struct model_root *r)
{
	for (uint32_t i = 0; i < t.p.v.set_count; i++) {
		for (uint64_t k = 0; r->map[i] != NULL && k < t.sets[i].segment_count; k++) {
			free(r->map[i][k]);
		}
		free(r->map[i]);
		free(r->table[i]);
	}
	free(r->blocks);
	memset(r, 0, sizeof(*r));
}

static void
root_copy(struct model_root *to, const struct model_root *from)
{
	root_drop(to);
	to->txg = from->txg;
	to->ub = from->ub;
	for (uint32_t i = 0; i < t.p.v.set_count; i++) {
		uint64_t segs = t.sets[i].segment_count;

		to->table[i] = malloc(segs * sizeof(struct segment_entry));
		memcpy(to->table[i], from->table[i], segs * sizeof(struct segment_entry));
		to->map[i] = calloc(segs, sizeof(*to->map[i]));
		for (uint64_t k = 0; k < segs; k++) {
			uint64_t len =
			    le32_get(from->table[i][k].records) * sizeof(struct map_record);

			to->map[i][k] = malloc(len + 1);
			if (len > 0) {
				memcpy(to->map[i][k], from->map[i][k], len);
			}
		}
	}
	to->block_count = from->block_count;
	to->blocks = malloc((from->block_count + 1) * sizeof(*to->blocks));
	memcpy(to->blocks, from->blocks, from->block_count * sizeof(*to->blocks));
}

static void
mark(const struct bp *bp, uint64_t value)
{
	for (uint32_t i = 0; i < bp_copies(bp); i++) {
		for (uint32_t k = 0; k < bp_addr_asize(&bp->addr[i]); k++) {
			t.freed[bp_addr_set(&bp->addr[i])][bp_addr_sector(&bp->addr[i]) + k] =
			    value;
		}
	}
}

/* Rebuilds what is known per sector from the block list of a root. */
static void
marks_rebuild(void)
{
	for (uint32_t i = 0; i < t.p.v.set_count; i++) {
		memset(t.freed[i], 0, raidz_capacity_sectors(&t.sets[i].cfg) * sizeof(uint64_t));
	}
	for (uint32_t i = 0; i < t.cur.block_count; i++) {
		mark(&t.cur.blocks[i].bp,
		    t.cur.blocks[i].freed_txg != 0 ? t.cur.blocks[i].freed_txg : UINT64_MAX);
	}
}

/* ---- random work ---- */

static bool
reuse_is_legal(uint64_t freed)
{
	if (freed == 0) {
		return true;
	}
	if (freed == UINT64_MAX || freed + 2 > t.txg - 1) {
		return false;
	}
	for (uint32_t i = 0; i < READERS_MAX; i++) {
		if (t.readers[i].active && t.readers[i].began < freed) {
			return false;
		}
	}
	return true;
}

static bool
check_alloc(const struct bp_addr *a, uint32_t len)
{
	uint32_t set = bp_addr_set(a), asize = bp_addr_asize(a);

	if (asize != raidz_alloc_sectors(&t.sets[set].cfg, len) ||
	    bp_addr_sector(a) + asize > raidz_capacity_sectors(&t.sets[set].cfg)) {
		complain("wrong run", bp_addr_sector(a), asize);
		return false;
	}
	for (uint32_t k = 0; k < asize; k++) {
		uint64_t *freed = &t.freed[set][bp_addr_sector(a) + k];

		if (!reuse_is_legal(*freed)) {
			complain("allocated too early or twice: sector, freed in",
			    bp_addr_sector(a) + k, *freed);
			return false;
		}
	}
	return true;
}

static void
one_alloc(void)
{
	uint32_t len = (uint32_t)(rnd(8) == 0 ? 1 + rnd(64) : 1 + rnd(8)) * SECTOR_BYTES;
	struct bp_prop prop = {
	    .stored_bytes = len, .logical_bytes = len, .cksum = BP_CKSUM_XXH3, .type = OBJ_FILE};
	uint32_t copies = rnd(4) == 0 ? 3 : 1;
	uint64_t need = (uint64_t)copies * len / SECTOR_BYTES * 3, avoid = 0;
	struct bp bp = {0};
	int err = space_reserve(t.s, &(struct space_ask){.sectors = need});

	/* as a transaction would: the reserve is for the log and the maps */
	if (err != 0) {
		t.nospc++;
		return;
	}
	space_unreserve(t.s, need);
	for (uint32_t i = 0; i < copies; i++) {
		err = space_alloc(
		    t.s, t.txg, rnd(3) == 0 ? SPACE_META : SPACE_DATA, len, avoid, &bp.addr[i]);

		if (err != 0) {
			t.nospc++;
			break;
		}
		if (!check_alloc(&bp.addr[i], len)) {
			return;
		}
		avoid |= (uint64_t)1 << bp_addr_set(&bp.addr[i]);
		/* known to be taken from here on, also by fibers that run while this one loads a
		 * segment */
		for (uint32_t k = 0; k < bp_addr_asize(&bp.addr[i]); k++) {
			t.freed[bp_addr_set(&bp.addr[i])][bp_addr_sector(&bp.addr[i]) + k] =
			    UINT64_MAX;
		}
	}
	if (bp_copies(&bp) == 0) {
		return;
	}
	if (rnd(10) == 0) { /* the write failed */
		for (uint32_t i = 0; i < bp_copies(&bp); i++) {
			space_unalloc(t.s, &bp.addr[i]);
		}
		mark(&bp, 0);
		return;
	}
	bp_set_prop(&bp, &prop);
	bp.birth = bp.phys_birth = le64_of(t.txg);
	memset(bp.cksum, (int)(t.txg & 255), sizeof(bp.cksum));
	space_record_alloc(t.s, t.txg, &bp);
	t.allocs++;
	ASSERT(t.cur.block_count < BLOCKS_MAX);
	t.cur.blocks[t.cur.block_count++] = (struct block){.bp = bp};
}

static void
one_free(void)
{
	struct bp_prop prop;
	struct block *b;

	if (t.cur.block_count == 0) {
		return;
	}
	b = &t.cur.blocks[rnd(t.cur.block_count)];
	if (b->freed_txg != 0 || le64_get(b->bp.birth) == t.txg ||
	    bp_decode(&b->bp, 2, &prop) != 0 || prop.type == OBJ_MAPLOG) {
		return;
	}
	space_free(t.s, t.txg, &b->bp);
	b->freed_txg = t.txg;
	mark(&b->bp, t.txg);
	t.frees++;
}

struct work {
	struct waitgroup *wg;
	uint32_t allocs, frees;
};

static void
worker(void *arg)
{
	struct work *w = arg;

	while (w->allocs > 0 || w->frees > 0) {
		if (w->frees > 0 && rnd(w->allocs + w->frees) < w->frees) {
			w->frees--;
			one_free();
		} else if (w->allocs > 0) {
			w->allocs--;
			one_alloc();
		}
		if (rnd(8) == 0) {
			fiber_yield();
		}
	}
	wg_done(w->wg);
}

static void
readers_move(void)
{
	for (uint32_t i = 0; i < READERS_MAX; i++) {
		struct reader *r = &t.readers[i];

		if (r->active && rnd(4) == 0) {
			space_read_exit(t.s, r->token);
			r->active = false;
		} else if (!r->active && rnd(6) == 0) {
			r->token = space_read_enter(t.s);
			r->began = t.txg - 1;
			r->active = true;
		}
	}
}

/* Forgets blocks that were freed so long ago that no root can tell. */
static void
blocks_compact(void)
{
	uint32_t kept = 0;

	for (uint32_t i = 0; i < t.cur.block_count; i++) {
		if (t.cur.blocks[i].freed_txg == 0 || t.cur.blocks[i].freed_txg + 16 > t.txg) {
			t.cur.blocks[kept++] = t.cur.blocks[i];
		}
	}
	t.cur.block_count = kept;
}

/* The log's own blocks come and go inside the allocator: learn of them from its list. */
static void
learn_log_blocks(void)
{
	for (uint32_t i = 0; i < t.cur.block_count; i++) {
		struct block *b = &t.cur.blocks[i];
		struct bp_prop prop;
		bool there = false;

		if (b->freed_txg != 0 || bp_decode(&b->bp, 2, &prop) != 0 ||
		    prop.type != OBJ_MAPLOG) {
			continue;
		}
		list_for_each(l, &t.s->log_blocks)
		{
			there |= memcmp(&list_entry(l, struct space_log_block, link)->bp.addr[0],
				     &b->bp.addr[0], sizeof(b->bp.addr[0])) == 0;
		}
		if (!there) {
			b->freed_txg = t.txg;
			mark(&b->bp, t.txg);
		}
	}
	list_for_each(l, &t.s->log_blocks)
	{
		struct space_log_block *lb = list_entry(l, struct space_log_block, link);

		if (lb->txg == t.txg) {
			struct bp_prop prop;
			int err = bp_decode(&lb->bp, 2, &prop);

			ASSERT(err == 0);
			for (uint32_t i = 0; i < bp_copies(&lb->bp); i++) {
				(void)check_alloc(&lb->bp.addr[i], prop.stored_bytes);
			}
			mark(&lb->bp, UINT64_MAX);
			t.cur.blocks[t.cur.block_count++] = (struct block){.bp = lb->bp};
		}
	}
}

static uint64_t
live_sectors(void)
{
	uint64_t sum = 0;

	for (uint32_t i = 0; i < t.cur.block_count; i++) {
		sum += t.cur.blocks[i].freed_txg == 0 ? bp_sectors(&t.cur.blocks[i].bp) : 0;
	}
	return sum;
}

static int
seen_block(void *arg, const struct map_record *r)
{
	uint64_t *sum = arg;

	*sum += le16_get(r->asize);
	for (uint32_t k = 0; k < le16_get(r->asize); k++) {
		if (t.freed[le16_get(r->set)][le64_get(r->sector) + k] != UINT64_MAX) {
			complain("a free sector is in the map", le64_get(r->sector) + k,
			    le16_get(r->set));
			return -EIO;
		}
	}
	return 0;
}

/* Figures, and now and then every block. */
static void
check_state(bool every_block)
{
	struct space_info info;
	uint64_t live = live_sectors(), seen = 0, sets = 0;
	int err;

	space_get_info(t.s, &info);
	if (info.used_sectors - info.deferred_sectors != live) {
		complain("used - deferred isn't what is live",
		    info.used_sectors - info.deferred_sectors, live);
	}
	for (uint32_t i = 0; i < t.s->set_count; i++) {
		uint64_t segs = 0;

		for (uint32_t k = 0; k < t.s->sets[i].seg_count; k++) {
			segs += t.s->sets[i].segs[k].used;
		}
		if (segs != t.s->sets[i].used) {
			complain("segments don't add up", segs, t.s->sets[i].used);
		}
		sets += segs;
	}
	if (sets != info.used_sectors) {
		complain("sets don't add up", sets, info.used_sectors);
	}
	if (every_block) {
		err = space_each_block(t.s, seen_block, &seen);
		if (err != 0 || seen != live) {
			complain("a walk of the maps gives something else", seen, live);
		}
	}
}

static void
sync_txg(void)
{
	struct work works[8];
	struct waitgroup wg;
	uint64_t frees = rnd(80), allocs = rnd(120);
	int err;

	wg_init(&wg);
	for (uint32_t i = 0; i < 8; i++) {
		works[i] = (struct work){&wg, (uint32_t)(allocs / 8), (uint32_t)(frees / 8)};
		wg_add(&wg, 1);
		fiber_spawn_wait(
		    i % rt_reactor_count(), FIBER_SYNC, "test-worker", worker, &works[i]);
	}
	wg_wait(&wg);
	err = space_sync_fold(t.s, NULL);
	ASSERT(err == 0);
	/* the first test of a failing log: the state is as before, and a repetition succeeds */
	do {
		struct bp tail;

		err = space_sync_log(t.s, t.txg, &tail);
	} while (err == -EIO);
	if (err != 0) {
		complain("the log can't be written", t.txg, (uint64_t)-err);
		return;
	}
	learn_log_blocks();
	t.cur.txg = t.txg;
	memset(&t.cur.ub, 0, sizeof(t.cur.ub));
	t.cur.ub.txg = le64_of(t.txg);
	t.cur.ub.root.birth = le64_of(t.txg);
	t.cur.ub.root.addr[0] = bp_addr_make(0, 2, 0, false);
	space_fill_uber(t.s, t.txg, &t.cur.ub);
	blocks_compact();
	root_copy(&t.roots[t.txg % ROOTS], &t.cur);
	t.p.ub = t.cur.ub;
	space_committed(t.s, t.txg);
	t.txg++;
}

static void
reload(void)
{
	uint64_t back = t.txg > 4 ? rnd(3) : 0;
	const struct model_root *r = &t.roots[(t.txg - 1 - back) % ROOTS];
	struct block *blocks = t.cur.blocks;
	int err;

	for (uint32_t i = 0; i < READERS_MAX; i++) {
		if (t.readers[i].active) {
			space_read_exit(t.s, t.readers[i].token);
			t.readers[i].active = false;
		}
	}
	space_destroy(t.s);
	t.cur.blocks = NULL;
	root_copy(&t.cur, r);
	memcpy(blocks, t.cur.blocks, t.cur.block_count * sizeof(*blocks));
	free(t.cur.blocks);
	t.cur.blocks = blocks;
	t.txg = r->txg + 1;
	t.p.ub = r->ub;
	marks_rebuild();
	err = space_load(&t.p, &r->ub, &t.s);
	if (err != 0) {
		complain("a root can't be loaded", r->txg, (uint64_t)-err);
	}
	t.reloads++;
}

/* ---- set-up ---- */

static void
make_sets(unsigned shape)
{
	static const struct raidz_config shapes[3] = {
	    {.kind = RAIDZ_KIND_PARITY, .width = 7, .parity = 1, .column_bytes = 6 * MIB},
	    {.kind = RAIDZ_KIND_MIRROR, .width = 2, .column_bytes = 24 * MIB},
	    {.kind = RAIDZ_KIND_PARITY,
		.width = 5,
		.parity = 2,
		.column_bytes = 8 * MIB + 3 * SECTOR_BYTES},
	};

	memset(&t.p, 0, sizeof(t.p));
	t.p.v.sets = t.sets;
	t.p.v.set_count = shape == 3 ? 2 : 1;
	for (uint32_t i = 0; i < t.p.v.set_count; i++) {
		struct vdev_set *set = &t.sets[i];
		uint64_t capacity, granule;

		memset(set, 0, sizeof(*set));
		set->cfg = shapes[(shape + i) % 3];
		granule = set->cfg.parity + 1;
		capacity = raidz_capacity_sectors(&set->cfg);
		set->segment_sectors = capacity / 9 / granule * granule;
		set->segment_count = DIV_UP(capacity - capacity % granule, set->segment_sectors);
		t.freed[i] = calloc(capacity, sizeof(uint64_t));
		t.log[i] = calloc(capacity, sizeof(*t.log[i]));
		t.cur.table[i] = calloc(set->segment_count, sizeof(struct segment_entry));
		t.cur.map[i] = calloc(set->segment_count, sizeof(*t.cur.map[i]));
	}
	t.cur.blocks = t.blocks;
	t.cur.block_count = 0;
}

static void
drop_sets(void)
{
	for (uint32_t i = 0; i < t.p.v.set_count; i++) {
		for (uint64_t k = 0; k < raidz_capacity_sectors(&t.sets[i].cfg); k++) {
			free(t.log[i][k].data);
		}
		free(t.log[i]);
		free(t.freed[i]);
	}
	t.cur.blocks = NULL;
	root_drop(&t.cur);
	for (uint32_t i = 0; i < ROOTS; i++) {
		root_drop(&t.roots[i]);
	}
}

static void
run(void *arg)
{
	unsigned shape = *(unsigned *)arg;
	int err;

	make_sets(shape);
	t.txg = 1;
	err = space_create(&t.p, &t.s);
	ASSERT(err == 0);
	t.s->log_limit = 200 + rnd(800);
	for (unsigned i = 0; i < 150 && !t.wrong; i++) {
		readers_move();
		sync_txg();
		if (!t.wrong) {
			check_state(rnd(10) == 0);
		}
		if (!t.wrong && rnd(12) == 0) {
			uint64_t limit = t.s->log_limit;

			reload();
			if (!t.wrong) {
				t.s->log_limit = limit;
				check_state(true);
			}
		}
	}
	for (uint32_t i = 0; i < READERS_MAX; i++) {
		if (t.readers[i].active) {
			space_read_exit(t.s, t.readers[i].token);
		}
	}
	memset(t.readers, 0, sizeof(t.readers));
	if (!t.wrong) {
		space_destroy(t.s);
	}
	drop_sets();
}

static void
run_shape(unsigned shape, uint64_t seed, uint32_t log_fail)
{
	struct rt_options opt = unit_rt(true, 3, seed);

	t.rng = seed * 0x9e3779b97f4a7c15ull + 1;
	t.log_fail = log_fail;
	t.wrong = false;
	CU_ASSERT_EQUAL(rt_run(&opt, run, &shape), 0);
}

static void
test_model(void)
{
	uint64_t seed = unit_seed(1);

	for (uint64_t i = 0; i < 12 && !t.wrong; i++) {
		run_shape((unsigned)(i % 4), seed + i, i % 3 == 0 ? 20 : 0);
	}
	printf("allocs %" PRIu64 " frees %" PRIu64 " reloads %" PRIu64 " folds %" PRIu64
	       " nospc %" PRIu64 " ",
	    t.allocs, t.frees, t.reloads, t.folds, t.nospc);
	CU_ASSERT(t.reloads > 20);
	CU_ASSERT(t.folds > 20);
}

static void
test_buggified(void)
{
	uint64_t seed = unit_seed(100);

	bug_set_buggify(60);
	for (uint64_t i = 0; i < 6 && !t.wrong; i++) {
		run_shape((unsigned)(i % 4), seed + i, 5);
	}
	bug_set_buggify(0);
}

#ifdef AGATE_DEBUG
static void
bug_run(void)
{
	uint64_t seed = unit_seed(200);

	for (uint64_t i = 0; i < 4 && !t.wrong; i++) {
		run_shape((unsigned)(i % 4), seed + i, 0);
	}
	_exit(t.wrong ? EXIT_FAILURE : EXIT_SUCCESS);
}

static void
bug_early_reuse(void)
{
	bug_set_deliberate("pool-early-reuse");
	bug_run();
}

static void
bug_reuse_under_reader(void)
{
	bug_set_deliberate("pool-reuse-under-reader");
	bug_run();
}

/* The model is able to notice. */
static void
test_bugs_are_seen(void)
{
	CU_ASSERT(unit_dies(bug_early_reuse, NULL));
	CU_ASSERT(unit_dies(bug_reuse_under_reader, NULL));
}
#endif

static void
test_bits(void)
{
	uint64_t seed = unit_seed(7), bits[8];
	bool model[512];

	t.rng = seed * 77 + 1;
	for (unsigned round = 0; round < 2000; round++) {
		uint32_t nbits = 1 + (uint32_t)rnd(512), want = 1 + (uint32_t)rnd(40),
			 cursor = (uint32_t)rnd(nbits);
		uint32_t longest = 0, run = 0, smallest = UINT32_MAX, at = 0, max = 0;
		bool best = rnd(2) == 0;
		int err;

		memset(bits, 0xff, sizeof(bits));
		for (uint32_t i = 0; i < nbits; i++) {
			model[i] = i > 0 && rnd(16) != 0 ? model[i - 1] : rnd(2) == 0;
			if (!model[i]) {
				bits_clear(bits, i, 1);
			}
		}
		for (uint32_t i = 0; i <= nbits; i++) {
			if (i < nbits && !model[i]) {
				run++;
				continue;
			}
			longest = MAX(longest, run);
			if (run >= want) {
				smallest = MIN(smallest, run);
			}
			run = 0;
		}
		err = bits_find(bits, nbits, cursor, want, best, &at, &max);
		if (longest < want) {
			CU_ASSERT_EQUAL(err, -ENOSPC);
			CU_ASSERT(max == longest);
			continue;
		}
		CU_ASSERT_EQUAL(err, 0);
		for (uint32_t i = 0; i < want; i++) {
			CU_ASSERT(at + i < nbits && !model[at + i]);
		}
		if (best) {
			uint32_t end = at;

			while (end < nbits && !model[end]) {
				end++;
			}
			CU_ASSERT_EQUAL(end - at, smallest);
		}
	}
}

int
main(int argc, char **argv)
{
	static const struct unit_test tests[] = {
	    {"bits", test_bits},
	    {"model", test_model},
	    {"buggified", test_buggified},
#ifdef AGATE_DEBUG
	    {"bugs_are_seen", test_bugs_are_seen},
#endif
	};

	return unit_main("pool_space", tests, ARRAY_LEN(tests), argc, argv);
}
