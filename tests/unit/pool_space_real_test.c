/*
 * pool_space_real_test.c - the allocator on real threads: fibers of several reactors allocate and
 * free while readers come and go, then one of them commits; no sector has two owners, and the
 * figures add up. Also prints what an allocation costs. Under the thread sanitizer this is the
 * proof of the lock-free parts.
 */
#include <inttypes.h>

#include "pool/pool_int.h"
#include "pool/space_int.h"
#include "tests/lib/unit.h"

#define WORKERS 12u
#define TXGS 60u
#define MINE_MAX 600u

static struct {
	struct pool p;
	struct vdev_set set;
	struct space *s;
	atomic_uchar *owner; /* per set sector */
	atomic_ullong allocs, ns;
	atomic_uint wrong;
	uint64_t txg;
} t;

struct worker {
	struct waitgroup *wg;
	struct bp mine[MINE_MAX];
	uint32_t count;
	uint64_t rng;
};

static int
nop_attach(struct space *s UNUSED, const struct bp *r UNUSED)
{
	return 0;
}

/* Nothing is ever folded here: an empty map. */
static int
nop_map_read(struct space *s UNUSED, const struct bp *r UNUSED, uint32_t set UNUSED,
    uint64_t off UNUSED, void *out, uint64_t len)
{
	memset(out, 0, len);
	return 0;
}

static int
nop_map_write(struct space *s UNUSED, struct pool_tx *tx UNUSED, uint32_t set UNUSED,
    uint64_t off UNUSED, const void *data UNUSED, uint64_t len UNUSED)
{
	return 0;
}

static int
nop_map_drop(struct space *s UNUSED, struct pool_tx *tx UNUSED, uint32_t set UNUSED,
    uint64_t off UNUSED, uint64_t len UNUSED)
{
	return 0;
}

static int
nop_log_write(struct space *s UNUSED, uint64_t txg UNUSED, struct iobuf *buf UNUSED,
    uint32_t len UNUSED, struct bp *bp UNUSED)
{
	return 0;
}

static int
nop_log_read(struct space *s UNUSED, const struct bp *bp UNUSED, struct iobuf **out UNUSED)
{
	return -EIO;
}

static uint64_t
nop_tx_txg(const struct pool_tx *tx UNUSED)
{
	return t.txg;
}

const struct space_store space_store_pool = {
    .attach = nop_attach,
    .map_read = nop_map_read,
    .map_write = nop_map_write,
    .map_drop = nop_map_drop,
    .log_write = nop_log_write,
    .log_read = nop_log_read,
    .tx_txg = nop_tx_txg,
};

static uint64_t
rnd(struct worker *w, uint64_t below)
{
	w->rng ^= w->rng << 13;
	w->rng ^= w->rng >> 7;
	w->rng ^= w->rng << 17;
	return w->rng % below;
}

static void
own(const struct bp *bp, bool take)
{
	for (uint32_t k = 0; k < bp_addr_asize(&bp->addr[0]); k++) {
		unsigned char was =
		    atomic_exchange(&t.owner[bp_addr_sector(&bp->addr[0]) + k], take);

		t.wrong += was == (unsigned char)take;
	}
}

static void
alloc_one(struct worker *w)
{
	uint32_t len = (uint32_t)(1 + rnd(w, 32)) * SECTOR_BYTES;
	struct bp_prop prop = {
	    .stored_bytes = len, .logical_bytes = len, .cksum = BP_CKSUM_XXH3, .type = OBJ_FILE};
	uint64_t began = rt_now_ns();
	struct bp bp = {0};

	if (space_alloc(
		t.s, t.txg, rnd(w, 4) == 0 ? SPACE_META : SPACE_DATA, len, 0, &bp.addr[0]) != 0) {
		return;
	}
	t.ns += rt_now_ns() - began;
	t.allocs++;
	own(&bp, true);
	if (rnd(w, 20) == 0) {
		own(&bp, false);
		space_unalloc(t.s, &bp.addr[0]);
		return;
	}
	bp_set_prop(&bp, &prop);
	bp.birth = bp.phys_birth = le64_of(t.txg);
	space_record_alloc(t.s, t.txg, &bp);
	w->mine[w->count++] = bp;
}

static void
work(void *arg)
{
	struct worker *w = arg;

	for (unsigned i = 0; i < 150; i++) {
		uint64_t token = space_read_enter(t.s);

		if (w->count < MINE_MAX && rnd(w, 5) < 3) {
			alloc_one(w);
		} else if (w->count > 0) {
			uint32_t k = (uint32_t)rnd(w, w->count);

			/* born in this txg: it may not be freed in the same one */
			if (le64_get(w->mine[k].birth) < t.txg) {
				own(&w->mine[k], false);
				space_free(t.s, t.txg, &w->mine[k]);
				w->mine[k] = w->mine[--w->count];
			}
		}
		if (rnd(w, 8) == 0) {
			fiber_yield();
		}
		space_read_exit(t.s, token);
	}
	wg_done(w->wg);
}

static void
run(void *arg UNUSED)
{
	struct worker *workers = calloc(WORKERS, sizeof(*workers));
	uint64_t capacity, live = 0;
	void *owner;
	struct space_info info;
	struct waitgroup wg;
	int err;

	t.set.cfg = (struct raidz_config){
	    .kind = RAIDZ_KIND_PARITY, .width = 7, .parity = 1, .column_bytes = 256 * MIB};
	capacity = raidz_capacity_sectors(&t.set.cfg);
	t.set.segment_sectors = capacity / 40 / 14 * 14;
	t.set.segment_count = DIV_UP(capacity, t.set.segment_sectors);
	t.p.v.sets = &t.set;
	t.p.v.set_count = 1;
	t.owner = calloc(capacity, sizeof(*t.owner));
	err = space_create(&t.p, &t.s);
	ASSERT(err == 0);
	t.s->log_limit = UINT64_MAX / 8;
	for (unsigned i = 0; i < WORKERS; i++) {
		workers[i].rng = i * 77 + 1;
		workers[i].wg = &wg;
	}
	for (t.txg = 1; t.txg <= TXGS; t.txg++) {
		struct bp tail;

		wg_init(&wg);
		wg_add(&wg, WORKERS);
		for (unsigned i = 0; i < WORKERS; i++) {
			fiber_spawn_wait(
			    i % rt_reactor_count(), FIBER_SYNC, "test-worker", work, &workers[i]);
		}
		wg_wait(&wg);
		err = space_sync_log(t.s, t.txg, &tail);
		ASSERT(err == 0);
		space_committed(t.s, t.txg);
	}
	for (unsigned i = 0; i < WORKERS; i++) {
		for (uint32_t k = 0; k < workers[i].count; k++) {
			live += bp_sectors(&workers[i].mine[k]);
		}
	}
	list_for_each(l, &t.s->log_blocks)
	{
		live += bp_sectors(&list_entry(l, struct space_log_block, link)->bp);
	}
	space_get_info(t.s, &info);
	UNIT_CHECK(info.used_sectors - info.deferred_sectors == live);
	space_destroy(t.s);
	memcpy(&owner, &t.owner, sizeof(owner));
	free(owner);
	free(workers);
}

static void
test_threads(void)
{
	struct rt_options opt = unit_rt(false, 4, 0);

	CU_ASSERT_EQUAL(rt_run(&opt, run, NULL), 0);
	CU_ASSERT_EQUAL(t.wrong, 0);
	printf("%" PRIu64 " allocations, %" PRIu64 " ns each ", (uint64_t)t.allocs,
	    (uint64_t)t.ns / MAX((uint64_t)t.allocs, (uint64_t)1));
	CU_ASSERT(t.allocs > 10000);
}

int
main(int argc, char **argv)
{
	static const struct unit_test tests[] = {{"threads", test_threads}};

	return unit_main("pool_space_real", tests, ARRAY_LEN(tests), argc, argv);
}
