/* nfsd_handle_test.c - handles can't be made or changed by a client (RFC
 * 1813 4.2). */
#include "nfsd/export.h"
#include "tests/lib/unit.h"

static struct nfsd_pool pool;
static struct export share;

static void
setup(void)
{
	pool = (struct nfsd_pool){.key_id = 1, .key_count = 1};
	memset(pool.keys[0], 0x5a, 16);
	share.pool = &pool;
	share.dataset_guid = 0x1122334455667788ull;
	share.handle_share = 3;
}

static void
round_trip(void)
{
	uint8_t fh[FH_BYTES];
	struct fh_parts p;
	setup();
	fh_encode(&share, 42, 7, fh);
	CU_ASSERT(FH_BYTES <= 56);
	CU_ASSERT(fh_decode(fh, FH_BYTES, &p) == 0);
	CU_ASSERT(p.object == 42 && p.generation == 7 && p.share == 3 && p.snapshot == 0);
	CU_ASSERT(p.dataset_guid == share.dataset_guid);
	CU_ASSERT(fh_verify(&share, fh) == 0);
}

static void
every_bit(void)
{
	uint8_t fh[FH_BYTES];
	struct fh_parts p;
	setup();
	fh_encode(&share, 42, 7, fh);
	for (unsigned bit = 0; bit < FH_BYTES * 8; bit++) {
		fh[bit / 8] ^= (uint8_t)(1u << bit % 8);
		CU_ASSERT(fh_decode(fh, FH_BYTES, &p) == -ERR_BADHANDLE ||
			  fh_verify(&share, fh) == -ERR_BADHANDLE);
		fh[bit / 8] ^= (uint8_t)(1u << bit % 8);
	}
	CU_ASSERT(fh_verify(&share, fh) == 0);
}

static void
lengths(void)
{
	uint8_t fh[64] = {0};
	struct fh_parts p;
	setup();
	fh_encode(&share, 42, 7, fh);
	for (uint32_t len = 0; len <= 64; len++) {
		CU_ASSERT((fh_decode(fh, len, &p) == 0) == (len == FH_BYTES));
	}
}

/* After a rotation handles of older keys stay good as long as the key is kept. */
static void
rotation(void)
{
	uint8_t fh[FH_BYTES], stranger[FH_BYTES];
	setup();
	fh_encode(&share, 42, 7, fh);
	memcpy(pool.keys[1], pool.keys[0], 16);
	memset(pool.keys[0], 0x77, 16);
	pool.key_id = 2;
	pool.key_count = 2;
	CU_ASSERT(fh_verify(&share, fh) == 0);
	pool.key_count = 1;
	CU_ASSERT(fh_verify(&share, fh) == -ERR_BADHANDLE);
	/* another pool's key */
	pool.key_id = 1;
	memset(pool.keys[0], 0x12, 16);
	fh_encode(&share, 42, 7, stranger);
	setup();
	CU_ASSERT(fh_verify(&share, stranger) == -ERR_BADHANDLE);
}

int
main(int argc, char **argv)
{
	static const struct unit_test tests[] = {{"round_trip", round_trip},
	    {"every_bit", every_bit}, {"lengths", lengths}, {"rotation", rotation}};
	return unit_main("nfsd_handle", tests, ARRAY_LEN(tests), argc, argv);
}
