/*
 * Junk: agate-dump on a golden image whose bytes are changed at random between a drive and the
 * checksums (labels, uberblocks, batches of the log: their checksums are made to agree), and
 * between the checksums and the decoders (everything else). Nothing may crash, read out of bounds
 * or go on for ever; the sanitizers look on (ASAN_OPTIONS=log_path=FILE keeps what they say: stderr
 * is hushed). What comes out doesn't matter.
 */
#include <ftw.h>
#include <sys/stat.h>

#include "base/check.h"
#include "dump/dump.h"
#include "tests/lib/dump_text.h"
#include "tests/lib/golden.h"
#include "tests/lib/unit.h"

#define ROUNDS 40u
#define EXTRACTS 8u
#define DECODES 100000u

static uint64_t rng;
static uint32_t block_chance, drive_chance; /* of 1000 */
static bool believe;                        /* self checksums agree */

static uint64_t
rnd(uint64_t below)
{
	rng ^= rng << 13;
	rng ^= rng >> 7;
	rng ^= rng << 17;
	return rng % below;
}

/* A few bytes, mostly where structures have their fields; or a number that is at an edge. */
static void
spoil(uint8_t *b, uint64_t len)
{
	static const uint64_t edges[] = {
	    0, 1, UINT64_MAX, INT64_MAX, (uint64_t)1 << 63, 4096, 65536};

	for (uint64_t n = 1 + rnd(3); n > 0 && len >= 8; n--) {
		uint64_t at = rnd(2) == 0 ? rnd(len - 7) : rnd(MIN(len - 7, (uint64_t)0x280));

		if (rnd(2) == 0) {
			b[at] = (uint8_t)rnd(256);
		} else {
			memcpy(b + (at & ~(uint64_t)7), &edges[rnd(ARRAY_LEN(edges))], 8);
		}
	}
}

int __real_dump_block_read(struct dump_pool *p, const struct dump_bp *bp, uint8_t *out);
int __wrap_dump_block_read(struct dump_pool *p, const struct dump_bp *bp, uint8_t *out);
int __real_dump_drive_read(const struct dump_drive *d, uint64_t off, void *out, uint64_t len);
int __wrap_dump_drive_read(const struct dump_drive *d, uint64_t off, void *out, uint64_t len);
bool __real_dump_self_cksum_ok(const uint8_t *bytes, uint64_t len, uint32_t at);
bool __wrap_dump_self_cksum_ok(const uint8_t *bytes, uint64_t len, uint32_t at);

int
__wrap_dump_block_read(struct dump_pool *p, const struct dump_bp *bp, uint8_t *out)
{
	int err = __real_dump_block_read(p, bp, out);

	if (err == 0 && rnd(1000) < block_chance) {
		spoil(out, bp->logical);
	}
	return err;
}

int
__wrap_dump_drive_read(const struct dump_drive *d, uint64_t off, void *out, uint64_t len)
{
	int err = __real_dump_drive_read(d, off, out, len);

	if (err == 0 && rnd(1000) < drive_chance) {
		spoil(out, len);
	}
	return err;
}

bool
__wrap_dump_self_cksum_ok(const uint8_t *bytes, uint64_t len, uint32_t at)
{
	return believe || __real_dump_self_cksum_ok(bytes, len, at);
}

static char *paths[16];

static void
rounds(uint32_t count)
{
	for (uint32_t i = 0; i < count; i++) {
		dump_text_everything(paths, 9, rnd(2) == 0 ? "golden" : "golden/small");
	}
}

static int
remove_one(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
	(void)st;
	(void)type;
	(void)ftw;
	return remove(path);
}

static void
extracts(void)
{
	for (uint32_t i = 0; i < EXTRACTS; i++) {
		dump_text_extract(paths, 9, "golden", "", "out");
		(void)nftw("out", remove_one, 16, FTW_DEPTH | FTW_PHYS);
	}
}

static void
test_images(void)
{
	static char names[16][16];
	char dir[GOLDEN_DIR];

	rng = unit_seed(1) * 2 + 1;
	golden_unpack(&goldens[0], dir);
	for (uint32_t i = 0; i < goldens[0].drives; i++) {
		(void)snprintf(names[i], sizeof(names[i]), "d%u.img", i);
		paths[i] = names[i];
	}
	for (uint32_t chance = 5; chance <= 200; chance *= 6) {
		block_chance = chance;
		rounds(ROUNDS);
		extracts();
	}
	block_chance = 0;
	believe = true;
	for (uint32_t chance = 2; chance <= 300; chance *= 5) {
		drive_chance = chance;
		rounds(ROUNDS);
	}
	drive_chance = 0;
	believe = false;
	golden_clean_up(&goldens[0], dir);
	CU_ASSERT(mem_live_count() == 0);
}

/* ---- decoders on their own ---- */

static void
decode_all(const uint8_t *b, uint64_t len)
{
	static struct dump_config config;
	static const uint8_t guid[GUID_LEN];
	struct dump_label label;
	struct dump_uber uber;
	struct dump_bp bp;
	struct dump_slot slot;
	struct dump_inode inode;
	struct dump_batch batch;
	uint8_t out[4096];

	(void)dump_label_decode(b, b64(b, 0x10), b[0x0c] & 3, &label);
	(void)dump_uber_decode(b, b64(b, 0x40), b[0x28] & 127, NULL, NULL, &uber);
	if (dump_config_decode(b, (uint32_t)rnd(len), &config) == NULL) {
		dump_config_free(&config);
	}
	(void)dump_bp_decode(b, SETS_MAX, &bp);
	(void)dump_slot_decode(b, SETS_MAX, &slot);
	(void)dump_inode_decode(b, TYPE_FILE + (uint32_t)rnd(5), &inode);
	(void)dump_node_check(b, (uint32_t)rnd(3), b64(b, 8), b64(b, 0x10), b64(b, 0x18));
	if (dump_batch_decode(b, len, b64(b, 0x18), guid, b64(b, 0x28), &batch) == NULL) {
		CU_ASSERT(batch.len <= len);
	}
	int err = dump_expand(
	    1 + (uint32_t)rnd(2), b, (uint32_t)rnd(4096), out, 1 + (uint32_t)rnd(sizeof(out)));
	CU_ASSERT(err == 0 || err == -ERR_CORRUPT);
}

static void
test_decoders(void)
{
	static uint8_t bytes[LABEL_SIZE];
	static const char *const magics[] = {
	    "1AGTABEL", "1AGTUBER", "1AGTCONG", "ILOG\1\0\0\0", "AGDF", "AGDI"};

	rng = unit_seed(2) * 2 + 1;
	believe = true;
	for (uint32_t i = 0; i < DECODES; i++) {
		/* half zeros, half junk, so that some of it passes for something */
		memset(bytes, 0, 1024);
		for (uint64_t n = rnd(256); n > 0; n--) {
			bytes[rnd(1024)] = (uint8_t)rnd(rnd(2) == 0 ? 256 : 4);
		}
		const char *magic = magics[rnd(ARRAY_LEN(magics))];
		memcpy(bytes, magic, strlen(magic));
		bytes[8] = rnd(8) != 0;
		decode_all(bytes, sizeof(bytes));
	}
	believe = false;
	CU_ASSERT(mem_live_count() == 0);
}

int
main(int argc, char **argv)
{
	static const struct unit_test tests[] = {
	    {"decoders", test_decoders},
	    {"images", test_images},
	};

	return unit_main("dump_junk", tests, ARRAY_LEN(tests), argc, argv);
}
