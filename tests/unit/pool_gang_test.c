/*
 * pool_gang_test.c - gang headers that are valid but not what belongs there: another gang's, or one
 * of an older txg, on one drive of the set (the data comes right) and on all of them (an error; and
 * nothing that the foreign header names is read or freed).
 */
#include "pool/block_int.h"
#include "pool/dataset.h"
#include "tests/unit/pool_rig.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

#define DRIVE_BYTES (96 * MIB)
#define WIDTH 4u
#define LEN 65536u

static struct pool_rig rig;

struct gang {
	struct bp bp;
	uint64_t sectors;
	struct iobuf *data;
	uint8_t header[SECTOR_BYTES];
};

static struct pool *
make_pool(void)
{
	struct pool_set_spec set = {RAIDZ_KIND_PARITY, 1, WIDTH, rig.drives};
	struct pool_create_spec spec = {
	    .name = "tank", .sets = &set, .set_count = 1, .host_name = "here", .host_id = 1};
	struct pool *p;
	char why[200];
	int err;

	rig_open(&rig);
	err = pool_create(&spec, &p, why, sizeof(why));
	ASSERT(err == 0);
	return p;
}

/* The header of one sector has its contents twice: as data, and as parity of that alone. */
static uint64_t
header_place(const struct pool *p, const struct gang *g, uint32_t copy, uint32_t *out_drive)
{
	uint64_t sector = bp_addr_sector(&g->bp.addr[0]) + copy;

	*out_drive = (uint32_t)(sector % WIDTH);
	return p->v.sets[0].cfg.base_bytes + sector / WIDTH * SECTOR_BYTES;
}

static bool
header_is(const struct pool *p, const struct gang *g, uint32_t copy, const uint8_t *want)
{
	static uint8_t found[SECTOR_BYTES];
	uint32_t drive;
	uint64_t at = header_place(p, g, copy, &drive);

	kb_sim_peek(rig.media[drive], at, found, SECTOR_BYTES);
	return memcmp(found, want, SECTOR_BYTES) == 0;
}

static void
header_put(const struct pool *p, const struct gang *g, uint32_t copy, const uint8_t *header)
{
	struct iobuf *buf;
	uint32_t drive;
	uint64_t at = header_place(p, g, copy, &drive);
	int err = iobuf_alloc(SECTOR_BYTES, ARENA_RECV, &buf);

	ASSERT(err == 0);
	memcpy(buf->data, header, SECTOR_BYTES);
	err = kb_write(rig.drives[drive], at, buf, SECTOR_BYTES, 0);
	ASSERT(err == 0);
	iobuf_unref(buf);
}

static void
gang_make(struct pool *p, uint64_t txg, uint8_t seed, struct gang *g)
{
	struct bp_prop prop = {
	    .stored_bytes = LEN, .logical_bytes = LEN, .cksum = BP_CKSUM_XXH3, .type = OBJ_FILE};
	struct gang_source src = {.len_bytes = LEN};
	struct iobuf *h;
	int err = iobuf_alloc(LEN, ARENA_RECV, &g->data);

	ASSERT(err == 0);
	for (uint32_t i = 0; i < LEN; i++) {
		g->data->data[i] = (uint8_t)(seed + i * 31 + i / 4096);
	}
	src.buf = g->data;
	memset(&g->bp, 0, sizeof(g->bp));
	err = gang_write(p, txg, &src, SPACE_DATA, 0, &g->bp.addr[0], &g->sectors);
	ASSERT(err == 0);
	bp_set_prop(&g->bp, &prop);
	g->bp.birth = g->bp.phys_birth = le64_of(txg);
	cksum_compute(BP_CKSUM_XXH3, g->data->data, LEN, g->bp.cksum);
	err = gang_header_read(p, &g->bp.addr[0], txg, &h);
	ASSERT(err == 0);
	memcpy(g->header, h->data, SECTOR_BYTES);
	iobuf_unref(h);
	ASSERT(header_is(p, g, 0, g->header) && header_is(p, g, 1, g->header));
}

static int
gang_look(struct pool *p, const struct gang *g)
{
	uint64_t token = space_read_enter(p->space);
	struct iobuf *back;
	int err = block_read(p, &g->bp, BLOCK_READ_NOCACHE, &back);

	space_read_exit(p->space, token);
	if (err == 0) {
		ASSERT(memcmp(back->data, g->data->data, LEN) == 0);
		iobuf_unref(back);
	}
	return err;
}

/* other: valid in itself, in the place of g's header. */
static void
try_foreign(struct pool *p, uint64_t txg, const struct gang *g, const uint8_t *other)
{
	struct space_info before, after;

	for (uint32_t copy = 0; copy < 2; copy++) {
		header_put(p, g, copy, other);
		CU_ASSERT_EQUAL(gang_look(p, g), 0);
		header_put(p, g, copy, g->header);
	}
	header_put(p, g, 0, other);
	header_put(p, g, 1, other);
	CU_ASSERT_EQUAL(gang_look(p, g), -ERR_CKSUM);
	space_get_info(p->space, &before);
	CU_ASSERT_EQUAL(gang_free_children(p, txg, &g->bp.addr[0], txg), 0);
	space_get_info(p->space, &after);
	CU_ASSERT(before.used_sectors == after.used_sectors &&
		  before.deferred_sectors == after.deferred_sectors);
	CU_ASSERT(
	    header_is(p, g, 0, other) && header_is(p, g, 1, other)); /* nothing to repair with */
	header_put(p, g, 0, g->header);
	header_put(p, g, 1, g->header);
	CU_ASSERT_EQUAL(gang_look(p, g), 0);
}

/* g's own place, another txg, another's children: as if a later write had been lost. */
static void
header_forge(const struct gang *g, const struct gang *children_of, uint8_t out[SECTOR_BYTES])
{
	struct gang_header *h = (struct gang_header *)(void *)out;
	const struct gang_header *own = (const struct gang_header *)(const void *)g->header;
	XXH128_canonical_t c;

	memcpy(out, children_of->header, SECTOR_BYTES);
	h->own_sector = own->own_sector;
	h->own_set = own->own_set;
	h->txg = le64_of(le64_get(own->txg) - 1);
	memset(&h->cksum, 0, sizeof(h->cksum));
	XXH128_canonicalFromHash(&c, XXH3_128bits(out, SECTOR_BYTES));
	memcpy(&h->cksum, c.digest, sizeof(h->cksum));
}

static void
run_foreign(void *arg UNUSED)
{
	static uint8_t forged[SECTOR_BYTES];
	static struct gang a, b;
	struct pool_need need = {.dirty_bytes = 4096};
	struct pool *p = make_pool();
	uint64_t problems = 1, txg;
	struct pool_tx *tx;
	struct pool_ds *ds;
	int err = pool_ds_open(p, "tank", &ds);

	ASSERT(err == 0);
	err = pool_tx_begin(ds, &need, &tx); /* keeps the txg open */
	ASSERT(err == 0);
	txg = pool_tx_txg(tx);
	gang_make(p, txg, 1, &a);
	gang_make(p, txg, 99, &b);
	try_foreign(p, txg, &b, a.header);
	header_forge(&b, &a, forged);
	try_foreign(p, txg, &b, forged);
	/* the forged one is refused for its txg alone: it is what that txg would ask for */
	header_put(p, &b, 0, forged);
	header_put(p, &b, 1, forged);
	struct iobuf *h;
	err = gang_header_read(p, &b.bp.addr[0], txg - 1, &h);
	CU_ASSERT_EQUAL(err, 0);
	if (err == 0) {
		iobuf_unref(h);
	}
	header_put(p, &b, 0, b.header);
	header_put(p, &b, 1, b.header);
	/* a is whole and b too; both go, and nothing is left */
	CU_ASSERT_EQUAL(gang_look(p, &a), 0);
	CU_ASSERT_EQUAL(block_free(p, txg, &b.bp), b.sectors);
	CU_ASSERT_EQUAL(gang_look(p, &a), 0);
	CU_ASSERT_EQUAL(block_free(p, txg, &a.bp), a.sectors);
	iobuf_unref(a.data);
	iobuf_unref(b.data);
	pool_tx_end(tx);
	err = pool_sync(p);
	ASSERT(err == 0);
	err = pool_check(p, NULL, NULL, &problems);
	CU_ASSERT(err == 0 && problems == 0);
	pool_ds_close(ds);
	err = pool_export(p);
	ASSERT(err == 0);
	memset(rig.drives, 0, sizeof(rig.drives));
}

static void
test_foreign(void)
{
	struct rt_options opt = unit_rt(true, 2, unit_seed(1));
	int err;

	opt.arena_bytes = 64 * MIB;
	rig_make(&rig, WIDTH, DRIVE_BYTES);
	log_set_level(LOG_ERROR + 1);
	err = rt_run(&opt, run_foreign, NULL);
	log_set_level(LOG_ERROR);
	CU_ASSERT_EQUAL(err, 0);
	rig_unmake(&rig);
}

static const struct unit_test tests[] = {
    {"headers of another place or txg", test_foreign},
};

int
main(int argc, char **argv)
{
	return unit_main("pool_gang", tests, ARRAY_LEN(tests), argc, argv);
}
