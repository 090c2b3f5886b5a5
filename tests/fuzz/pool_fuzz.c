/*
 * pool_fuzz.c - the decoders of pool/ against anything a drive may hold: labels, configurations,
 * uberblocks, map records, block pointers. The first byte chooses which, and whether checksums are
 * put right, so that what lies behind them is reached too. What decodes must encode to something
 * that decodes to the same.
 *
 * Built by --enable-fuzz as a libFuzzer target; in make check, POOL_FUZZ_JUNK gives it a main of
 * its own that feeds junk, and good bytes with a few changed, from a fixed seed.
 */
#include <stdio.h>
#include <stdlib.h>

#include "pool/label.h"
#include "pool/pool_int.h"
#include "pool/space_int.h"

#define LABEL_BYTES_USED (LABEL_CONFIG_OFF + 16384u)

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const struct guid pool = {{1, 2, 3}};
static const uint64_t slot_offset = KB_POOL_START + LABEL_UBER_OFF + 5 * UBER_BYTES;

static void
require(bool ok, const char *what)
{
	if (!ok) {
		fprintf(stderr, "pool_fuzz: %s\n", what);
		abort();
	}
}

static void
fuzz_config(const uint8_t *data, size_t size)
{
	static uint8_t again[LABEL_CONFIG_BYTES_MAX];
	struct vdevs *v = calloc(2, sizeof(*v));
	uint32_t len;

	if (config_decode(data, (uint32_t)size, &v[0]) == 0) {
		for (uint32_t i = 0; i < v->drive_count; i++) {
			require(v->drives[i].role != DRIVE_ROLE_DATA ||
				    v->drives[i].column < v->sets[v->drives[i].set_index].cfg.width,
			    "a column out of its set");
		}
		require(config_encode(&v[0], v->config_txg, again, sizeof(again), &len) == 0 &&
			    config_decode(again, len, &v[1]) == 0 &&
			    v[0].drive_count == v[1].drive_count,
		    "a configuration that came from us");
		mem_free(v[1].sets);
		mem_free(v[1].drives);
		mem_free(v[0].sets);
		mem_free(v[0].drives);
	}
	free(v);
}

static void
fuzz_label(const uint8_t *data, size_t size, bool right)
{
	static uint8_t bytes[LABEL_BYTES_USED];
	struct label_header *h = (struct label_header *)(void *)bytes;
	struct label l;
	uint8_t sum[32];

	memset(bytes, 0, sizeof(bytes));
	memcpy(bytes, data, MIN(size, sizeof(bytes)));
	if (right) {
		uint32_t len = le32_get(h->config_bytes);

		h->magic = le64_of(LABEL_MAGIC);
		h->version = le32_of(POOL_FORMAT_VERSION);
		if (len > 0 && len <= sizeof(bytes) - LABEL_CONFIG_OFF) {
			cksum_compute(BP_CKSUM_XXH3, bytes + LABEL_CONFIG_OFF, len, sum);
			memcpy(&h->config_cksum, sum, sizeof(h->config_cksum));
		}
		self_cksum_set(h, sizeof(*h), offsetof(struct label_header, cksum));
	}
	for (unsigned i = 0; i < LABEL_COUNT; i++) {
		if (label_decode(bytes, sizeof(bytes), label_offset(128 * MIB, i), i, &l) == 0) {
			require(l.config_bytes <= sizeof(bytes) - LABEL_CONFIG_OFF &&
				    l.region_bytes >= LABEL_FRONT_BYTES + LABEL_BACK_BYTES,
			    "a label out of bounds");
			fuzz_config(bytes + LABEL_CONFIG_OFF, l.config_bytes);
		}
	}
}

static void
fuzz_uber(const uint8_t *data, size_t size, bool right)
{
	static struct uberblock ub, out;

	memset(&ub, 0, sizeof(ub));
	memcpy(&ub, data, MIN(size, sizeof(ub)));
	if (right) {
		ub.magic = le64_of(UBER_MAGIC);
		ub.version = le32_of(POOL_FORMAT_VERSION);
		ub.pool_guid = pool;
		ub.own_offset = le64_of(slot_offset);
		self_cksum_set(&ub, sizeof(ub), offsetof(struct uberblock, cksum));
	}
	if (uber_decode(&ub, slot_offset, &pool, &out) == 0) {
		struct bp_prop prop;

		require(!bp_is_hole(&out.root) && bp_decode(&out.root, POOL_SETS_MAX, &prop) == 0 &&
			    memchr(out.host_name, 0, sizeof(out.host_name)) != NULL,
		    "an uberblock that can't be followed");
	}
}

static void
fuzz_record(const uint8_t *data, size_t size)
{
	static struct space_set set = {
	    .granule = 2, .seg_count = 8, .seg_sectors = 1000, .sectors = 7998};
	static struct space s = {.set_count = 1, .sets = &set};
	struct map_record raw = {0}, again;
	struct space_rec r;

	memcpy(&raw, data, MIN(size, sizeof(raw)));
	if (rec_decode(&s, &raw, &r) == 0) {
		require(r.set == 0 && r.sector + r.asize <= set.sectors && r.sector % 2 == 0,
		    "a record out of its set");
		rec_encode(&r, &again);
		require(memcmp(&raw, &again, sizeof(raw)) == 0, "a record that changes");
	}
}

static void
fuzz_bp(const uint8_t *data, size_t size)
{
	struct bp bp = {0};
	struct bp_prop prop;
	uint8_t payload[BP_EMBEDDED_MAX];

	memcpy(&bp, data, MIN(size, sizeof(bp)));
	if (bp_decode(&bp, 3, &prop) == 0) {
		for (uint32_t i = 0; i < bp_copies(&bp); i++) {
			require(bp_addr_set(&bp.addr[i]) < 3 && bp_addr_asize(&bp.addr[i]) > 0,
			    "an address of no set");
		}
		require(!prop.embedded || bp_get_embedded(&bp, payload) <= sizeof(payload),
		    "too much embedded");
	}
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	if (size == 0) {
		return 0;
	}
	switch (data[0] & 7) {
	case 0:
		fuzz_label(data + 1, size - 1, (data[0] & 8) != 0);
		break;
	case 1:
		fuzz_config(data + 1, size - 1);
		break;
	case 2:
		fuzz_uber(data + 1, size - 1, (data[0] & 8) != 0);
		break;
	case 3:
		fuzz_record(data + 1, size - 1);
		break;
	default:
		fuzz_bp(data + 1, size - 1);
		break;
	}
	return 0;
}

#ifdef POOL_FUZZ_JUNK
static uint64_t rng = 88172645463325252ull;

static uint32_t
rnd(uint32_t below)
{
	rng ^= rng << 13;
	rng ^= rng >> 7;
	rng ^= rng << 17;
	return (uint32_t)(rng % below);
}

/* A small pool's configuration, so that most of a changed one is still sound. */
static uint32_t
good_config(uint8_t *out, uint32_t cap)
{
	static struct vdev_set set = {
	    .cfg = {.kind = RAIDZ_KIND_PARITY,
		.width = 3,
		.parity = 1,
		.base_bytes = KB_POOL_START + LABEL_FRONT_BYTES + ILOG_REGION_BYTES_MIN,
		.column_bytes = 40 * MIB},
	    .segment_sectors = 3840,
	    .segment_count = 8,
	};
	static struct vdev_drive drives[4];
	static struct vdevs v = {.sets = &set,
	    .set_count = 1,
	    .drives = drives,
	    .drive_count = 4,
	    .config_txg = 7,
	    .ring_bytes = ILOG_REGION_BYTES_MIN,
	    .log_bytes = ILOG_REGION_BYTES_MIN,
	    .name = "tank"};
	uint32_t len = 0;

	v.pool_guid = pool;
	for (uint32_t i = 0; i < 4; i++) {
		drives[i] = (struct vdev_drive){
		    .guid = {{(uint8_t)(i + 1)}},
		    .role = i < 3 ? DRIVE_ROLE_DATA : DRIVE_ROLE_LOG,
		    .column = i % 3,
		    .state = DRIVE_STATE_ONLINE,
		    .region_bytes = 62 * MIB,
		    .id = "id",
		    .path = "path",
		};
	}
	require(config_encode(&v, 7, out, cap, &len) == 0, "a good configuration");
	fuzz_config(out, len);
	return len;
}

int
main(void)
{
	static uint8_t bytes[20000], config[8192];
	uint32_t config_len = good_config(config, sizeof(config));

	for (unsigned i = 0; i < 200000; i++) {
		uint32_t len = 1 + rnd(i % 16 == 0 ? sizeof(bytes) : 300);

		if (i % 2 == 0) {
			bytes[0] = 1;
			memcpy(bytes + 1, config, config_len);
			len = config_len + 1;
			for (uint32_t k = rnd(5); k > 0; k--) {
				bytes[1 + rnd(config_len)] = (uint8_t)rnd(256);
			}
		} else {
			for (uint32_t k = 0; k < len; k++) {
				bytes[k] = rnd(3) == 0 ? (uint8_t)rnd(256) : (uint8_t)rnd(4);
			}
		}
		(void)LLVMFuzzerTestOneInput(bytes, len);
	}
	return EXIT_SUCCESS;
}
#endif
