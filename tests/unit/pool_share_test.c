/*
 * pool_share_test.c - many who want one uncached block at the same time: the drives are read once,
 * everybody gets the data, or the error; and an error isn't remembered.
 */
#include "pool/block_int.h"
#include "pool/block_share.h"
#include "pool/object.h"
#include "tests/unit/pool_rig.h"

#define DRIVE_BYTES (96 * MIB)
#define BLOCK (64 * KIB)
#define READERS 24u
#define ROUNDS 12u

static struct pool_rig rig;
static struct pool *pool;
static struct pool_ds *ds;
static struct pool_obj *obj;
static uint8_t data[BLOCK];

/* ---- a pool with one block ---- */

static void
block_make(void)
{
	struct pool_need need = {.dirty_bytes = 2 * MIB};
	struct iovec iov = {data, sizeof(data)};
	struct pool_tx *tx;
	int err = pool_tx_begin(ds, &need, &tx);

	ASSERT(err == 0);
	for (uint32_t i = 0; i < BLOCK; i++) {
		data[i] = (uint8_t)(i * 2654435761u >> 13);
	}
	err = pool_obj_create(tx, ds, OBJ_FILE, BLOCK, 0, 0, &obj);
	ASSERT(err == 0);
	err = pool_write(tx, obj, 0, &iov, 1);
	ASSERT(err == 0);
	pool_tx_end(tx);
	err = pool_sync(pool);
	ASSERT(err == 0);
}

static struct bp
block_where(void)
{
	struct bp bp;
	int err = tree_lookup(pool, &obj->tree, 0, 0, NULL, &bp);

	ASSERT(err == 0 && !bp_is_hole(&bp));
	return bp;
}

static uint64_t
drive_reads(void)
{
	uint64_t sum = 0;

	for (uint32_t i = 0; i < rig.count; i++) {
		struct kb_counters c;

		kb_get_counters(pool->v.drives[i].kb, &c);
		sum += c.reads;
	}
	return sum;
}

/* ---- readers ---- */

struct crowd {
	struct bp bp;
	struct waitgroup wg;
	int want_err;
	atomic_uint good, bad;
};

static void
reader(void *arg)
{
	struct crowd *c = arg;
	uint64_t token = space_read_enter(pool->space);
	struct iobuf *buf = NULL;
	int err;

	fiber_sleep(rt_random_u64() % (30 * NSEC_PER_USEC));
	err = block_read(pool, &c->bp, 0, &buf);
	space_read_exit(pool->space, token);
	if (err == c->want_err && (err != 0 || memcmp(buf->data, data, BLOCK) == 0)) {
		atomic_fetch_add(&c->good, 1);
	} else {
		atomic_fetch_add(&c->bad, 1);
	}
	iobuf_unref(buf);
	wg_done(&c->wg);
}

/* Uncached, then read by so many at once; returns how many reads the drives saw. */
static uint64_t
read_by(const struct bp *bp, uint32_t readers, int want_err)
{
	struct crowd c = {.bp = *bp, .want_err = want_err};
	struct cache_key key = block_cache_key(pool, bp);
	uint64_t before = drive_reads();

	cache_drop(pool->cache, &key);
	wg_init(&c.wg);
	wg_add(&c.wg, readers);
	for (uint32_t i = 0; i < readers; i++) {
		fiber_spawn_wait(i % rt_reactor_count(), FIBER_REQUEST, "reader", reader, &c);
	}
	wg_wait(&c.wg);
	CU_ASSERT_EQUAL(atomic_load(&c.good), readers);
	CU_ASSERT_EQUAL(atomic_load(&c.bad), 0);
	return drive_reads() - before;
}

static void
run_data(void)
{
	struct bp bp = block_where();
	uint64_t alone = read_by(&bp, 1, 0);

	CU_ASSERT(alone > 0);
	for (uint32_t i = 0; i < ROUNDS; i++) {
		CU_ASSERT_EQUAL(read_by(&bp, READERS, 0), alone);
	}
}

/* Every combination is tried once for all of them; the next to come tries again. */
static void
run_error(void)
{
	struct bp bp = block_where(), wrong = bp;
	uint64_t errors = atomic_load(&pool->data_errors);
	uint64_t alone;

	wrong.cksum[3] ^= 1;
	alone = read_by(&wrong, 1, -ERR_CKSUM);
	CU_ASSERT_EQUAL(atomic_load(&pool->data_errors), errors + 1);
	CU_ASSERT(read_by(&wrong, READERS, -ERR_CKSUM) >= alone);
	CU_ASSERT(atomic_load(&pool->data_errors) > errors + 1);
	CU_ASSERT(atomic_load(&pool->data_errors) < errors + 1 + READERS);
	(void)read_by(&bp, READERS, 0);
}

static void
run_on_pool(void *run)
{
	struct pool_set_spec set = {RAIDZ_KIND_PARITY, 1, 4, rig.drives};
	struct pool_create_spec spec = {
	    .name = "tank", .sets = &set, .set_count = 1, .host_name = "here", .host_id = 1};
	char why[200];
	int err;

	rig_open(&rig);
	err = pool_create(&spec, &pool, why, sizeof(why));
	ASSERT(err == 0);
	err = pool_ds_open(pool, "tank", &ds);
	ASSERT(err == 0);
	block_make();
	(*(void (**)(void))run)();
	pool_obj_release(obj);
	pool_ds_close(ds);
	err = pool_export(pool);
	ASSERT(err == 0);
	memset(rig.drives, 0, sizeof(rig.drives));
}

static void
in_sim(void (*run)(void))
{
	for (uint64_t seed = 1; seed <= 8; seed++) {
		struct rt_options opt = unit_rt(true, 3, unit_seed(seed));

		opt.arena_bytes = 64 * MIB;
		log_set_fd(-1); /* failed reads are what is tested */
		rig_make(&rig, 4, DRIVE_BYTES);
		CU_ASSERT_EQUAL(rt_run(&opt, run_on_pool, &run), 0);
		rig_unmake(&rig);
	}
}

static void
test_data(void)
{
	in_sim(run_data);
}

static void
test_error(void)
{
	in_sim(run_error);
}

/* ---- the table alone, on real reactors ---- */

struct hammer {
	struct shares *shares;
	struct waitgroup wg;
	struct iobuf *buf[4];
	atomic_uint reading[4], twice, wrong;
};

/* Owners succeed or fail in turn; nobody is to get what another key's owner has. */
static void
hammer_one(struct hammer *h, unsigned k, unsigned turn)
{
	struct cache_key key = {.owner = 1, .set = 0, .sector = k, .birth = 5};
	struct iobuf *got = NULL;
	bool mine;
	struct shared_read *r = share_join(h->shares, &key, &mine);

	ASSERT(r != NULL);
	if (!mine) {
		int err = share_await(r, &got);

		if (err != -EIO && (err != 0 || got != h->buf[k])) {
			atomic_fetch_add(&h->wrong, 1);
		}
		iobuf_unref(got);
		return;
	}
	if (atomic_fetch_add(&h->reading[k], 1) != 0) {
		atomic_fetch_add(&h->twice, 1);
	}
	if (turn % 3 == 0) {
		fiber_yield();
	}
	atomic_fetch_sub(&h->reading[k], 1);
	share_finish(h->shares, r, turn % 2 == 0 ? 0 : -EIO, turn % 2 == 0 ? h->buf[k] : NULL);
}

static void
hammer_fiber(void *arg)
{
	struct hammer *h = arg;

	for (unsigned i = 0; i < 2000; i++) {
		hammer_one(h, (unsigned)(rt_random_u64() % 4), i);
	}
	wg_done(&h->wg);
}

static void
run_hammer(void *arg UNUSED)
{
	struct hammer h = {0};
	int err = shares_open(&h.shares);

	ASSERT(err == 0);
	for (unsigned k = 0; k < 4; k++) {
		err = iobuf_alloc(IOBUF_BYTES_MIN, ARENA_CACHE, &h.buf[k]);
		ASSERT(err == 0);
	}
	wg_init(&h.wg);
	wg_add(&h.wg, 16);
	for (unsigned i = 0; i < 16; i++) {
		fiber_spawn_wait(i % rt_reactor_count(), FIBER_REQUEST, "hammer", hammer_fiber, &h);
	}
	wg_wait(&h.wg);
	CU_ASSERT_EQUAL(atomic_load(&h.twice), 0);
	CU_ASSERT_EQUAL(atomic_load(&h.wrong), 0);
	for (unsigned k = 0; k < 4; k++) {
		CU_ASSERT_EQUAL(atomic_load(&h.buf[k]->refs), 1);
		iobuf_unref(h.buf[k]);
	}
	shares_close(h.shares);
}

static void
test_hammer(void)
{
	struct rt_options opt = unit_rt(false, 2, unit_seed(1));

	CU_ASSERT_EQUAL(rt_run(&opt, run_hammer, NULL), 0);
}

static const struct unit_test tests[] = {
    {"one read, data for all", test_data},
    {"one failure, an error for all", test_error},
    {"the table on real reactors", test_hammer},
};

int
main(int argc, char **argv)
{
	return unit_main("pool_share", tests, ARRAY_LEN(tests), argc, argv);
}
