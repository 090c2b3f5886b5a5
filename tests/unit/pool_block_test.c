/*
 * pool_block_test.c - block pointers (round trips and junk), the cache against a model, codecs, and
 * the block pipeline on a real pool: sizes, compression, embedding, gangs, copies that go bad.
 */
#include "pool/block_int.h"
#include "pool/dataset.h"
#include "tests/unit/pool_rig.h"

#define DRIVE_BYTES (96 * MIB)

static struct pool_rig rig;
static uint64_t rng = 1;

static uint64_t
rnd(uint64_t below)
{
	rng ^= rng << 13;
	rng ^= rng >> 7;
	rng ^= rng << 17;
	return rng % below;
}

static void
in_sim(fiber_fn *fn, uint64_t seed, unsigned buggify)
{
	struct rt_options opt = unit_rt(true, 2, seed);
	int err;

	opt.arena_bytes = 64 * MIB;
	log_set_level(LOG_ERROR + 1);
	bug_set_buggify(buggify);
	err = rt_run(&opt, fn, NULL);
	bug_set_buggify(0);
	log_set_level(LOG_ERROR);
	CU_ASSERT_EQUAL(err, 0);
}

/* ---- block pointers ---- */

static void
test_bp(void)
{
	rng = unit_seed(1) * 2 + 1;
	for (unsigned i = 0; i < 20000; i++) {
		uint32_t logical = (1 + (uint32_t)rnd(256)) * SECTOR_BYTES;
		struct bp_prop in = {
		    .logical_bytes = logical,
		    .stored_bytes = (1 + (uint32_t)rnd(logical / 512)) * 512,
		    .compress = BP_COMPRESS_LZ4,
		    .cksum = rnd(2) != 0 ? BP_CKSUM_XXH3 : BP_CKSUM_BLAKE2B,
		    .type = (uint8_t)rnd(256),
		    .level = (uint8_t)rnd(OBJECT_LEVELS_MAX),
		};
		struct bp_prop out;
		struct bp bp = {0};

		bp.addr[0] = bp_addr_make((uint16_t)rnd(4), 1 + (uint32_t)rnd(65535),
		    rnd((uint64_t)1 << 62), rnd(2) != 0);
		bp_set_prop(&bp, &in);
		CU_ASSERT_EQUAL(bp_decode(&bp, 4, &out), 0);
		CU_ASSERT(memcmp(&in, &out, sizeof(in)) == 0);
		CU_ASSERT(
		    bp_addr_set(&bp.addr[0]) >= 1 ? bp_decode(&bp, 1, &out) == -ERR_CORRUPT : true);
		CU_ASSERT_EQUAL(bp_copies(&bp), 1);
		/* one flipped bit: an error, or something else that is possible; never out of
		 * bounds */
		((uint8_t *)&bp)[rnd(sizeof(bp))] ^= (uint8_t)(1u << rnd(8));
		if (bp_decode(&bp, 4, &out) == 0 && !bp_is_hole(&bp)) {
			CU_ASSERT(out.stored_bytes <= out.logical_bytes &&
				  out.logical_bytes <= RAIDZ_BLOCK_BYTES_MAX);
			CU_ASSERT(out.level < OBJECT_LEVELS_MAX);
		}
	}
}

static void
test_bp_embedded(void)
{
	struct bp_prop in = {.logical_bytes = 4096,
	    .stored_bytes = 512,
	    .compress = BP_COMPRESS_LZ4,
	    .type = OBJ_FILE};
	uint8_t payload[BP_EMBEDDED_MAX], back[BP_EMBEDDED_MAX];
	struct bp_prop out;
	struct bp bp;

	for (uint32_t i = 0; i < sizeof(payload); i++) {
		payload[i] = (uint8_t)(i * 7 + 1);
	}
	CU_ASSERT_EQUAL(bp_set_embedded(&bp, &in, payload, BP_EMBEDDED_MAX + 1, 7), -EINVAL);
	CU_ASSERT_EQUAL(bp_set_embedded(&bp, &in, payload, BP_EMBEDDED_MAX, 7), 0);
	CU_ASSERT(bp_is_embedded(&bp) && !bp_is_hole(&bp));
	CU_ASSERT_EQUAL(bp_copies(&bp), 0);
	CU_ASSERT_EQUAL(bp_sectors(&bp), 0);
	CU_ASSERT_EQUAL(bp_birth(&bp), 7);
	CU_ASSERT_EQUAL(bp_decode(&bp, 1, &out), 0);
	CU_ASSERT(out.embedded && out.logical_bytes == 4096);
	CU_ASSERT_EQUAL(bp_get_embedded(&bp, back), BP_EMBEDDED_MAX);
	CU_ASSERT(memcmp(payload, back, sizeof(payload)) == 0);
}

/* ---- cache ---- */

#define CACHE_KEYS 600u

static void
run_cache(void *arg UNUSED)
{
	static bool put[CACHE_KEYS];
	struct cache_info info;
	struct cache *c, *second;
	uint64_t owner, owner2;
	uint32_t held = 0;
	int err = cache_open(&c, &owner);

	ASSERT(err == 0);
	err = cache_open(&second, &owner2);
	ASSERT(err == 0 && second == c && owner != owner2);
	for (unsigned i = 0; i < 30000; i++) {
		uint32_t k = (uint32_t)rnd(CACHE_KEYS);
		struct cache_key key = {owner, k % 3, k, k / 2};
		struct iobuf *b = cache_get(c, &key);

		if (b != NULL) {
			ASSERT(put[k]);
			ASSERT(memcmp(b->data, &k, sizeof(k)) == 0);
			held++;
			iobuf_unref(b);
			if (rnd(20) == 0) {
				cache_drop(c, &key);
				ASSERT(cache_get(c, &key) == NULL);
			}
			continue;
		}
		err = iobuf_alloc(65536u << rnd(3), ARENA_CACHE, &b); /* makes others give way */
		ASSERT(err == 0);
		memcpy(b->data, &k, sizeof(k));
		put[k] = true;
		cache_put(c, &key, b);
		key.owner = owner2;
		ASSERT(cache_get(c, &key) == NULL);
		iobuf_unref(b);
	}
	ASSERT(held > 1000);
	cache_get_info(c, &info);
	ASSERT(info.hits >= held && info.entries > 10 && info.entries < CACHE_KEYS);
	cache_close(c, owner2);
	cache_close(c, owner);
}

/* A scan of blocks that are asked for once doesn't push out what is asked for again and again. */
static void
run_scan(void *arg UNUSED)
{
	struct cache *c;
	uint64_t owner;
	uint32_t hot = 0;
	int err = cache_open(&c, &owner);

	ASSERT(err == 0);
	for (uint32_t i = 0; i < 4000; i++) {
		struct cache_key key = {owner, 0, 100000 + i, 1};
		struct cache_key often = {owner, 0, i % 20, 1};
		struct iobuf *b;

		err = iobuf_alloc(65536, ARENA_CACHE, &b);
		ASSERT(err == 0);
		cache_put(c, &key, b);
		iobuf_unref(b);
		b = cache_get(c, &often);
		hot += b != NULL;
		if (b == NULL) {
			err = iobuf_alloc(65536, ARENA_CACHE, &b);
			ASSERT(err == 0);
			cache_put(c, &often, b);
		}
		iobuf_unref(b);
	}
	ASSERT(hot > 3800);
	cache_close(c, owner);
}

static void
test_cache(void)
{
	rng = unit_seed(2) * 2 + 1;
	in_sim(run_cache, 2, 0);
	in_sim(run_scan, 2, 0);
}

/* ---- codecs ---- */

static void
run_codec(void *arg UNUSED)
{
	static uint8_t src[MIB], dst[MIB], back[MIB];
	struct codec *c;
	int err = codec_open(&c);

	ASSERT(err == 0);
	for (unsigned i = 0; i < 300; i++) {
		uint32_t len = (1 + (uint32_t)rnd(rnd(8) == 0 ? 256 : 16)) * SECTOR_BYTES;
		enum bp_compress kind = rnd(2) != 0 ? BP_COMPRESS_LZ4 : BP_COMPRESS_ZSTD;
		uint32_t exact = 0, used;

		for (uint32_t k = 0; k < len; k++) {
			src[k] = rnd(4) == 0 ? (uint8_t)rnd(256) : (uint8_t)(k / 64);
		}
		used = codec_compress(c, kind, 1 + (int)rnd(6), src, len, dst, len, &exact);
		if (used == 0) {
			continue;
		}
		ASSERT(used % 512 == 0 && exact <= used && used <= len);
		err = codec_expand(c, kind, dst, used, back, len);
		ASSERT(err == 0 && memcmp(src, back, len) == 0);
		/* junk: an error or some bytes, never out of bounds */
		for (unsigned j = 0; j < 4; j++) {
			dst[rnd(used)] ^= (uint8_t)(1 + rnd(255));
		}
		(void)!codec_expand(c, kind, dst, used, back, len);
		(void)!codec_expand(c, kind, dst, (uint32_t)rnd(used), back, len);
	}
	codec_close(c);
}

static void
test_codec(void)
{
	rng = unit_seed(3) * 2 + 1;
	in_sim(run_codec, 3, 0);
}

/* ---- the pipeline ---- */

static struct pool *
make_pool(void)
{
	struct pool_set_spec sets[2] = {
	    {RAIDZ_KIND_PARITY, 1, 4, rig.drives}, {RAIDZ_KIND_PARITY, 1, 5, rig.drives + 4}};
	struct pool_create_spec spec = {
	    .name = "tank", .sets = sets, .set_count = 2, .host_name = "here", .host_id = 1};
	struct pool *p;
	char why[200];
	int err;

	rig_open(&rig);
	err = pool_create(&spec, &p, why, sizeof(why));
	if (err != 0) {
		fprintf(stderr, "create: %s: %s\n", err_str(err), why);
	}
	ASSERT(err == 0);
	return p;
}

static void
fill(uint8_t *data, uint32_t len, unsigned how)
{
	for (uint32_t i = 0; i < len; i++) {
		data[i] = how == 0   ? 0
			  : how == 1 ? (uint8_t)rnd(256)
			  : how == 2 ? (uint8_t)(i / 900)
				     : 7;
	}
}

static void
block_round(struct pool *p, uint64_t txg, struct iobuf *data)
{
	struct bp bp;
	struct block_write w = {
	    .data = data,
	    .logical_bytes = (1 + (uint32_t)rnd(rnd(4) == 0 ? 256 : 40)) * SECTOR_BYTES,
	    .type = OBJ_FILE,
	    .compress = (enum bp_compress)rnd(3),
	    .zstd_level = 1 + (int)rnd(4),
	    .cksum = rnd(2) != 0 ? BP_CKSUM_XXH3 : BP_CKSUM_BLAKE2B,
	    .copies = (uint8_t)(1 + rnd(3)),
	    .may_embed = rnd(2) != 0,
	    .fill = 1,
	    .out = &bp,
	};
	unsigned how = (unsigned)rnd(4);
	struct iobuf *back;
	uint64_t token, freed;
	struct bp_prop prop;
	int err;

	fill(data->data, w.logical_bytes, how);
	err = block_write(p, txg, &w, 1);
	ASSERT(err == 0);
	ASSERT(bp_decode(&bp, 2, &prop) == 0);
	token = space_read_enter(p->space);
	err = block_read(p, &bp, BLOCK_READ_NOCACHE, &back);
	if (how == 0) {
		ASSERT(bp_is_hole(&bp) && err == -ENOENT);
	} else {
		ASSERT(err == 0 && memcmp(back->data, data->data, w.logical_bytes) == 0);
		iobuf_unref(back);
	}
	space_read_exit(p->space, token);
	freed = block_free(p, txg, &bp);
	ASSERT(freed == w.sectors);
}

static void
run_pipeline(void *arg UNUSED)
{
	struct pool *p = make_pool();
	struct space_info before, after;
	struct iobuf *data;
	uint64_t problems = 1, txg;
	struct pool_tx *tx;
	struct pool_need need = {.dirty_bytes = 4096};
	struct pool_ds *ds;
	int err = pool_ds_open(p, "tank", &ds);

	ASSERT(err == 0);
	err = iobuf_alloc(MIB, ARENA_RECV, &data);
	ASSERT(err == 0);
	space_get_info(p->space, &before);
	for (unsigned round = 0; round < 4; round++) {
		err = pool_tx_begin(ds, &need, &tx); /* keeps the txg open */
		ASSERT(err == 0);
		txg = pool_tx_txg(tx);
		for (unsigned i = 0; i < 60; i++) {
			block_round(p, txg, data);
		}
		pool_tx_end(tx);
		err = pool_sync(p);
		ASSERT(err == 0);
	}
	iobuf_unref(data);
	for (unsigned i = 0; i < 4; i++) {
		err = pool_sync(p);
		ASSERT(err == 0);
	}
	space_get_info(p->space, &after);
	ASSERT(after.used_sectors < before.used_sectors + 2000);
	err = pool_check(p, NULL, NULL, &problems);
	ASSERT(err == 0 && problems == 0);
	pool_ds_close(ds);
	err = pool_export(p);
	ASSERT(err == 0);
	memset(rig.drives, 0, sizeof(rig.drives));
}

static void
test_pipeline(void)
{
	rng = unit_seed(4) * 2 + 1;
	for (unsigned i = 0; i < 3; i++) {
		rig_make(&rig, 9, DRIVE_BYTES);
		in_sim(run_pipeline, 4 + i, i * 40);
		rig_unmake(&rig);
	}
}

static void
rot_copy(struct pool *p, const struct bp_addr *a)
{
	const struct vdev_set *set = &p->v.sets[bp_addr_set(a)];
	uint32_t first = bp_addr_set(a) == 0 ? 0 : 4;
	uint64_t at = bp_addr_sector(a) / set->cfg.width;

	for (uint32_t d = 0; d < set->cfg.width; d++) {
		kb_sim_rot_range(rig.media[first + d], set->cfg.base_bytes + at * SECTOR_BYTES,
		    8 * SECTOR_BYTES, 5);
	}
}

/* One copy of a block is overwritten on all drives of its set: the other copy gives the data, and
 * the first is written again. */
static void
run_bad_copy(void *arg UNUSED)
{
	struct pool *p = make_pool();
	struct pool_need need = {.dirty_bytes = 4096};
	struct block_write w;
	struct iobuf *data, *back;
	struct pool_tx *tx;
	struct pool_ds *ds;
	struct bp bp;
	uint64_t token;
	int err = pool_ds_open(p, "tank", &ds);

	ASSERT(err == 0);
	err = iobuf_alloc(65536, ARENA_RECV, &data);
	ASSERT(err == 0);
	fill(data->data, 65536, 1);
	w = (struct block_write){.data = data,
	    .logical_bytes = 65536,
	    .type = OBJ_DIR,
	    .cksum = BP_CKSUM_XXH3,
	    .copies = 2,
	    .fill = 1,
	    .out = &bp};
	err = pool_tx_begin(ds, &need, &tx);
	ASSERT(err == 0);
	err = block_write(p, pool_tx_txg(tx), &w, 1);
	ASSERT(err == 0);
	ASSERT(bp_addr_set(&bp.addr[0]) != bp_addr_set(&bp.addr[1]));
	for (uint32_t c = 0; c < 2; c++) {
		/* next the other one: by then the first is whole again */
		rot_copy(p, &bp.addr[c]);
		token = space_read_enter(p->space);
		err = block_read(p, &bp, BLOCK_READ_NOCACHE, &back);
		space_read_exit(p->space, token);
		ASSERT(err == 0 && memcmp(back->data, data->data, 65536) == 0);
		iobuf_unref(back);
		ASSERT(atomic_load(&p->data_errors) == 0);
	}
	rot_copy(p, &bp.addr[0]);
	rot_copy(p, &bp.addr[1]);
	token = space_read_enter(p->space);
	err = block_read(p, &bp, BLOCK_READ_NOCACHE, &back);
	space_read_exit(p->space, token);
	ASSERT(err == -ERR_CKSUM);
	ASSERT(atomic_load(&p->data_errors) == 1);
	(void)block_free(p, pool_tx_txg(tx), &bp);
	pool_tx_end(tx);
	iobuf_unref(data);
	pool_ds_close(ds);
	err = pool_export(p);
	ASSERT(err == 0);
	memset(rig.drives, 0, sizeof(rig.drives));
}

static void
test_bad_copy(void)
{
	rig_make(&rig, 9, DRIVE_BYTES);
	in_sim(run_bad_copy, unit_seed(5), 0);
	rig_unmake(&rig);
}

static const struct unit_test tests[] = {
    {"block pointers", test_bp},
    {"embedded block pointers", test_bp_embedded},
    {"cache", test_cache},
    {"codecs", test_codec},
    {"pipeline", test_pipeline},
    {"bad copy", test_bad_copy},
};

int
main(int argc, char **argv)
{
	return unit_main("pool_block", tests, ARRAY_LEN(tests), argc, argv);
}
