/* raidz_rig.c - see raidz_rig.h. */
#include "tests/unit/raidz_rig.h"

#include <CUnit/Basic.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

uint64_t
rig_random(uint64_t *state)
{
	*state += 0x9e3779b97f4a7c15u;
	uint64_t z = *state;
	z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
	z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
	return z ^ (z >> 31);
}

void
rig_open(struct rig *r, uint32_t width, uint32_t parity)
{
	*r = (struct rig){.cfg = {.kind = parity > 0 ? RAIDZ_KIND_PARITY : RAIDZ_KIND_MIRROR,
			      .width = width,
			      .parity = parity,
			      .base_bytes = RIG_BASE_BYTES,
			      .column_bytes = RIG_COLUMN_BYTES}};
	int err = raidz_group_create(&r->cfg, &r->rg);
	ASSERT(err == 0);
	for (uint32_t c = 0; c < width; c++) {
		char name[16];
		snprintf(name, sizeof(name), "d%u", c);
		r->medium[c] = kb_sim_medium_create(name, RIG_BASE_BYTES + RIG_COLUMN_BYTES);
		ASSERT(r->medium[c] != NULL);
		err = kb_sim_open(r->medium[c], &r->drive[c]);
		ASSERT(err == 0);
		raidz_group_set_column(r->rg, c, r->drive[c], RAIDZ_COL_ONLINE);
	}
}

void
rig_close(struct rig *r)
{
	raidz_group_destroy(r->rg);
	for (uint32_t c = 0; c < r->cfg.width; c++) {
		kb_close(r->drive[c]);
		kb_sim_medium_destroy(r->medium[c]);
	}
}

void
rig_block_init(struct rig *r, struct rig_block *b, uint64_t sector, uint32_t len, uint64_t seed)
{
	*b = (struct rig_block){.sector = sector, .len_bytes = len, .want = malloc(len)};
	ASSERT(b->want != NULL);
	for (uint32_t i = 0; i < len; i += 8) {
		uint64_t v = rig_random(&seed);
		memcpy(b->want + i, &v, 8);
	}
	raidz_map_block(&r->cfg, sector, len, &b->map);
}

void
rig_block_done(struct rig_block *b)
{
	free(b->want);
}

bool
rig_verify(void *arg, const uint8_t *data, uint32_t len_bytes)
{
	struct rig_block *b = arg;
	b->verify_calls++;
	ASSERT(len_bytes == b->len_bytes);
	return memcmp(data, b->want, len_bytes) == 0;
}

int
rig_write(struct rig *r, struct rig_block *b, struct raidz_report *out)
{
	struct iobuf *buf;
	int err = iobuf_alloc(b->len_bytes, ARENA_SYNC, &buf);
	ASSERT(err == 0);
	memcpy(buf->data, b->want, b->len_bytes);
	struct raidz_block blk = {.sector = b->sector, .len_bytes = b->len_bytes, .buf = buf};
	err = raidz_write(r->rg, &blk, 1, ARENA_SYNC);
	ASSERT((err == 0) == (blk.status == 0 || blk.status == -ERR_DEGRADED));
	iobuf_unref(buf);
	*out = blk.report;
	return blk.status;
}

int
rig_read(struct rig *r, struct rig_block *b, struct raidz_report *out)
{
	struct iobuf *buf;
	const uint32_t off = SECTOR_BYTES; /* not at the start, on purpose */
	int err = iobuf_alloc(off + b->len_bytes, ARENA_CACHE, &buf);
	ASSERT(err == 0);
	b->verify_calls = 0;
	memset(buf->data, 0x3c, buf->cap_bytes);
	*out = (struct raidz_report){0};
	err = raidz_read(r->rg, b->sector, b->len_bytes, &buf, off, rig_verify, b, out);
	ASSERT(buf->use == ARENA_CACHE);
	if (err == 0 && memcmp(buf->data + off, b->want, b->len_bytes) != 0) {
		err = -EBADMSG;
	}
	iobuf_unref(buf);
	return err;
}

int
rig_scrub(struct rig *r, struct rig_block *b, struct raidz_report *out)
{
	b->verify_calls = 0;
	*out = (struct raidz_report){0};
	return raidz_scrub_block(r->rg, b->sector, b->len_bytes, rig_verify, b, out);
}

bool
rig_rot(struct rig *r, const struct rig_block *b, uint32_t drive, uint64_t seed)
{
	for (uint32_t c = 0; c < b->map.col_count; c++) {
		if (b->map.col[c].drive == drive) {
			kb_sim_rot_range(r->medium[drive],
			    RIG_BASE_BYTES + b->map.col[c].drive_sector * SECTOR_BYTES,
			    (uint64_t)b->map.col[c].rows * SECTOR_BYTES, seed);
			return true;
		}
	}
	return false;
}

uint8_t *
rig_snapshot(struct rig *r, const struct rig_block *b, size_t *out_len)
{
	size_t len = 0;
	for (uint32_t c = 0; c < b->map.col_count; c++) {
		len += (size_t)b->map.col[c].rows * SECTOR_BYTES;
	}
	uint8_t *out = malloc(len);
	ASSERT(out != NULL);
	*out_len = len;
	len = 0;
	for (uint32_t c = 0; c < b->map.col_count; c++) {
		const struct raidz_map_col *col = &b->map.col[c];
		kb_sim_peek(r->medium[col->drive],
		    RIG_BASE_BYTES + col->drive_sector * SECTOR_BYTES, out + len,
		    col->rows * SECTOR_BYTES);
		len += (size_t)col->rows * SECTOR_BYTES;
	}
	return out;
}

uint32_t
rig_drives(const struct rig_block *b)
{
	uint32_t out = 0;
	for (uint32_t c = 0; c < b->map.col_count; c++) {
		out |= 1u << b->map.col[c].drive;
	}
	return out;
}

void
rig_faults_set(struct rig *r, uint32_t drive, struct kb_sim_faults f)
{
	kb_sim_set_faults(r->medium[drive], &f);
}

void
rig_column_set(struct rig *r, uint32_t col, enum raidz_col_state state)
{
	raidz_group_set_column(r->rg, col, r->drive[col], state);
}

/* Both are given by drive mask. */
bool
rig_same(uint32_t got, uint32_t want)
{
	if (got != want) {
		printf("mask %#x, expected %#x\n", got, want);
	}
	return got == want;
}

uint64_t
rig_count_io(struct rig *r, bool writes)
{
	uint64_t n = 0;
	for (uint32_t c = 0; c < r->cfg.width; c++) {
		struct kb_counters k;
		kb_get_counters(r->drive[c], &k);
		n += writes ? k.writes : k.reads;
	}
	return n;
}

void
rig_sim(uint64_t seed, fiber_fn *fn, void *arg)
{
	struct rt_options opt = {
	    .reactors = 2, .sim = true, .seed = seed, .arena_bytes = 256 << 20};
	CU_ASSERT_EQUAL(rt_run(&opt, fn, arg), 0);
}

unsigned
rig_run_scenarios(const struct rig_scenario *list, size_t count, uint64_t seed)
{
	unsigned failed = 0;
	for (size_t i = 0; i < count; i++) {
		unsigned before = CU_get_number_of_failures();
		rig_sim(seed + i, list[i].fn, NULL);
		if (CU_get_number_of_failures() != before) {
			printf("scenario %s, seed %" PRIu64 "\n", list[i].name, seed + i);
			failed++;
		}
	}
	return failed;
}
