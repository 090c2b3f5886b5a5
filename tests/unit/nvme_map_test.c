/*
 * nvme_map_test.c - data pointers: what a command's PRP entries or SGL descriptors say, walked byte
 * by byte, is exactly the request's memory, in every case of alignment, length and limit.
 */
#include <stdlib.h>
#include "kernel-bypass/nvme.h"
#include "tests/lib/unit.h"

#define ARENA_LEN (4u << 20)
#define IOVA 0x7000000000ull
#define LIST_IOVA 0x1234500c00ull /* the last quarter of a page */

static _Alignas(4096) uint8_t arena[ARENA_LEN];
static _Alignas(4096) uint8_t list[NVME_LIST_BYTES];
static uint64_t state;

static uint64_t
draw(uint64_t n)
{
	state ^= state << 13;
	state ^= state >> 7;
	state ^= state << 17;
	return state % n;
}

/* ---- what a device would do ---- */

static uint64_t touched[NVME_XFER_BYTES_MAX * 2 / 4]; /* iova of every fourth byte, in order */

static bool
walk_piece(uint64_t iova, uint64_t len, uint64_t *at)
{
	for (uint64_t i = 0; i < len; i += 4) {
		if (*at == ARRAY_LEN(touched)) {
			return false;
		}
		touched[(*at)++] = iova + i;
	}
	return true;
}

static uint64_t
list_entry_at(uint64_t iova)
{
	struct le64 raw;
	ASSERT(iova >= LIST_IOVA && iova + 8 <= LIST_IOVA + NVME_LIST_BYTES);
	memcpy(&raw, list + (iova - LIST_IOVA), sizeof(raw));
	return le64_get(raw);
}

static bool
walk_prp(const struct nvs_sqe *sqe, uint64_t len)
{
	uint64_t prp1 = le64_get(sqe->dptr.prp[0]);
	uint64_t prp2 = le64_get(sqe->dptr.prp[1]);
	uint64_t at = 0;
	uint64_t n = MIN(4096 - prp1 % 4096, len);

	if (!walk_piece(prp1, n, &at)) {
		return false;
	}
	len -= n;
	if (len > 0 && len <= 4096) {
		return prp2 % 4096 == 0 && walk_piece(prp2, len, &at);
	}
	for (uint64_t e = prp2; len > 0; e += 8) {
		n = MIN((uint64_t)4096, len);
		if (list_entry_at(e) % 4096 != 0 || !walk_piece(list_entry_at(e), n, &at)) {
			return false;
		}
		len -= n;
	}
	return true;
}

static bool
walk_sgl(const struct nvs_sqe *sqe, uint64_t len)
{
	struct nvs_sgl one = sqe->dptr.sgl;
	uint32_t count = 1;
	uint64_t at = 0;

	if (one.id == NVS_SGL_LAST_SEGMENT) {
		count = le32_get(one.len_bytes) / 16;
		if (le64_get(one.addr) != LIST_IOVA || count > NVME_SGLS_MAX) {
			return false;
		}
	}
	for (uint32_t i = 0; i < count; i++) {
		struct nvs_sgl d = one;
		if (one.id == NVS_SGL_LAST_SEGMENT) {
			memcpy(&d, list + i * 16, 16);
		}
		if (d.id != NVS_SGL_DATA || le32_get(d.len_bytes) > len ||
		    !walk_piece(le64_get(d.addr), le32_get(d.len_bytes), &at)) {
			return false;
		}
		len -= le32_get(d.len_bytes);
	}
	return len == 0;
}

/* Does what was touched agree with the segments from start on? */
static bool
agrees(const struct nvme_map_in *in, struct nvme_cursor at, uint64_t len)
{
	for (uint64_t i = 0; i < len; i += 4) {
		uintptr_t va = (uintptr_t)in->iov[at.seg].iov_base + at.seg_off_bytes;
		if (touched[i / 4] != IOVA + (va - (uintptr_t)arena)) {
			return false;
		}
		at.seg_off_bytes += 4;
		if (at.seg_off_bytes == in->iov[at.seg].iov_len) {
			at.seg++;
			at.seg_off_bytes = 0;
		}
	}
	return true;
}

/* Maps a whole request command by command; returns how many, or 0 when one can't be said. */
static unsigned
map_all(struct nvme_map_in *in, uint64_t total)
{
	struct nvme_cursor at = {0};
	unsigned commands = 0;
	uint32_t limit = in->limit_bytes;

	while (at.done_bytes < total) {
		struct nvme_cursor before = at;
		struct nvs_sqe sqe = {0};
		in->limit_bytes = (uint32_t)MIN((uint64_t)limit, total - at.done_bytes);
		int64_t len = nvme_map(in, &at, &sqe);
		if (len == -EINVAL) {
			return 0;
		}
		UNIT_CHECK(len > 0 && len <= in->limit_bytes && len % in->block_bytes == 0);
		UNIT_CHECK(at.done_bytes == before.done_bytes + (uint64_t)len);
		UNIT_CHECK(((sqe.flags & NVS_SQE_SGL) != 0) == in->sgl);
		UNIT_CHECK(in->sgl ? walk_sgl(&sqe, (uint64_t)len) : walk_prp(&sqe, (uint64_t)len));
		UNIT_CHECK(agrees(in, before, (uint64_t)len));
		commands++;
		if (len <= 0) {
			break;
		}
	}
	UNIT_CHECK(at.seg == in->seg_count && at.seg_off_bytes == 0);
	return commands;
}

static struct nvme_map_in
map_in(const struct iovec *iov, uint32_t count, bool sgl)
{
	return (struct nvme_map_in){
	    .iov = iov,
	    .seg_count = count,
	    .arena_va = (uintptr_t)arena,
	    .arena_bytes = ARENA_LEN,
	    .arena_iova = IOVA,
	    .limit_bytes = NVME_XFER_BYTES_MAX,
	    .block_bytes = 512,
	    .list = list,
	    .list_iova = LIST_IOVA,
	    .sgl = sgl,
	};
}

/* One piece of memory: all offsets inside a page by 512 bytes, all lengths around the edges. */
static void
test_one_piece(void)
{
	for (unsigned sgl = 0; sgl < 2; sgl++) {
		for (uint32_t off = 0; off < 4096; off += 512) {
			for (uint32_t len = 512; len <= 5 * 4096; len += 512) {
				struct iovec v = {arena + off, len};
				struct nvme_map_in in = map_in(&v, 1, sgl != 0);
				CU_ASSERT(map_all(&in, len) == 1);
			}
		}
		for (uint32_t off = 0; off < 4096; off += 512) {
			struct iovec v = {arena + off, NVME_XFER_BYTES_MAX};
			struct nvme_map_in in = map_in(&v, 1, sgl != 0);
			CU_ASSERT(map_all(&in, v.iov_len) == 1);
		}
	}
}

static uint64_t
random_segs(struct iovec *iov, uint32_t count, uint32_t unit)
{
	uint64_t total = 0;
	for (uint32_t i = 0; i < count; i++) {
		iov[i].iov_len = (1 + draw(65536 / unit)) * unit;
		iov[i].iov_base = arena + draw((ARENA_LEN - iov[i].iov_len) / unit + 1) * unit;
		if (i > 0 && draw(4) == 0 && /* touching the one before */
		    (uint8_t *)iov[i - 1].iov_base + iov[i - 1].iov_len + iov[i].iov_len <=
			arena + ARENA_LEN) {
			iov[i].iov_base = (uint8_t *)iov[i - 1].iov_base + iov[i - 1].iov_len;
		}
		total += iov[i].iov_len;
	}
	return total;
}

/* What the room's users send: whole sectors. Always possible, with any limit. */
static void
test_sectors(void)
{
	struct iovec iov[KB_SEGS_MAX];

	state = unit_seed(4711) | 1;
	for (unsigned round = 0; round < 3000; round++) {
		uint32_t count = 1 + (uint32_t)draw(KB_SEGS_MAX);
		uint64_t total = random_segs(iov, count, SECTOR_BYTES);
		struct nvme_map_in in = map_in(iov, count, draw(2) != 0);
		in.block_bytes = draw(2) != 0 ? 512 : 4096;
		in.limit_bytes = (1 + (uint32_t)draw(128)) * 4096;
		CU_ASSERT(map_all(&in, total) > 0);
	}
}

/* Anything in 4 bytes: right, or refused. An SGL refuses only what its descriptors are too few for.
 */
static void
test_odd_pieces(void)
{
	struct iovec iov[KB_SEGS_MAX];
	unsigned said = 0;

	state = unit_seed(42) | 1;
	for (unsigned round = 0; round < 3000; round++) {
		uint32_t count = 1 + (uint32_t)draw(8);
		uint64_t total = random_segs(iov, count, 4);
		uint64_t over = total % 512;
		while (over >= iov[count - 1].iov_len) {
			total -= iov[count - 1].iov_len;
			over = total % 512;
			count--;
			if (count == 0) {
				break;
			}
		}
		if (count == 0) {
			continue;
		}
		iov[count - 1].iov_len -= over;
		total -= over;
		struct nvme_map_in in = map_in(iov, count, draw(2) != 0);
		unsigned commands = map_all(&in, total);
		CU_ASSERT(!in.sgl || commands > 0);
		said += commands > 0;
	}
	CU_ASSERT(said > 1500);
}

static void
test_outside(void)
{
	struct nvme_cursor at = {0};
	struct nvs_sqe sqe;
	struct iovec v = {arena + ARENA_LEN - 4096, 8192};
	struct nvme_map_in in = map_in(&v, 1, false);

	CU_ASSERT(nvme_map(&in, &at, &sqe) == -EFAULT);
	in.sgl = true;
	CU_ASSERT(nvme_map(&in, &at, &sqe) == -EFAULT);
	v.iov_base = (void *)((uintptr_t)arena - 4096);
	CU_ASSERT(nvme_map(&in, &at, &sqe) == -EFAULT);
	CU_ASSERT(at.done_bytes == 0);
}

int
main(int argc, char **argv)
{
	static const struct unit_test tests[] = {
	    {"one piece", test_one_piece},
	    {"sectors", test_sectors},
	    {"odd pieces", test_odd_pieces},
	    {"outside the arena", test_outside},
	};
	return unit_main("nvme_map", tests, ARRAY_LEN(tests), argc, argv);
}
