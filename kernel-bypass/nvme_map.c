/*
 * nvme_map.c - the data pointer of a command: PRP entries or SGL descriptors for a piece of a
 * request's segments. Pure: no state, no device.
 *
 * PRP: only the first entry may start inside a page, only the last may end inside one. So a command
 * ends where two pieces of memory don't meet on page boundaries; the next command goes on there.
 * SGL: pieces of any shape, joined when they touch.
 */
#include "kernel-bypass/nvme.h"

/* A run of memory that the device sees as one. */
struct run {
	uint64_t iova;
	uint64_t len_bytes;
};

/* The next run from at on, no longer than max_bytes; moves at behind it. False: outside the arena.
 */
static bool
run_next(const struct nvme_map_in *in, struct nvme_cursor *at, uint64_t max_bytes, struct run *out)
{
	const struct iovec *v = &in->iov[at->seg];
	uintptr_t va = (uintptr_t)v->iov_base + at->seg_off_bytes;
	uint64_t len = MIN((uint64_t)v->iov_len - at->seg_off_bytes, max_bytes);

	if (va < in->arena_va || va - in->arena_va > in->arena_bytes ||
	    len > in->arena_bytes - (va - in->arena_va)) {
		return false;
	}
	out->iova = in->arena_iova + (va - in->arena_va);
	out->len_bytes = len;
	at->done_bytes += len;
	at->seg_off_bytes += (uint32_t)len;
	if (at->seg_off_bytes == v->iov_len) {
		at->seg++;
		at->seg_off_bytes = 0;
	}
	return true;
}

static void
cursor_back(const struct nvme_map_in *in, struct nvme_cursor *at, uint64_t len)
{
	at->done_bytes -= len;
	while (len > at->seg_off_bytes) {
		len -= at->seg_off_bytes;
		at->seg--;
		at->seg_off_bytes = (uint32_t)in->iov[at->seg].iov_len;
	}
	at->seg_off_bytes -= (uint32_t)len;
}

/* ---- PRP ---- */

struct prps {
	uint64_t first, second; /* second: the second entry, valid when count is 2 */
	unsigned count;
	struct le64 *list; /* entries from the second on */
};

static void
prp_add(struct prps *p, uint64_t iova)
{
	if (p->count == 0) {
		p->first = iova;
	} else {
		p->second = p->count == 1 ? iova : p->second;
		p->list[p->count - 1] = le64_of(iova);
	}
	p->count++;
}

/* Bytes of the run that fit into the entries that are left. */
static uint64_t
prp_add_run(struct prps *p, const struct run *r)
{
	uint64_t done = 0;

	while (done < r->len_bytes && p->count < NVME_PRPS_MAX) {
		uint64_t iova = r->iova + done;
		prp_add(p, iova);
		done += MIN(NVS_PAGE_BYTES - iova % NVS_PAGE_BYTES, r->len_bytes - done);
	}
	return done;
}

static int64_t
map_prp(const struct nvme_map_in *in, struct nvme_cursor *at, struct nvs_sqe *sqe)
{
	struct prps p = {.list = (struct le64 *)(void *)in->list};
	uint64_t total = 0;
	bool open_end = true; /* the last piece ended on a page boundary, or there was none */

	while (total < in->limit_bytes && at->seg < in->seg_count && open_end) {
		struct nvme_cursor before = *at;
		struct run r;
		if (!run_next(in, at, in->limit_bytes - total, &r)) {
			return -EFAULT;
		}
		if (total != 0 && r.iova % NVS_PAGE_BYTES != 0) {
			*at = before;
			break;
		}
		uint64_t taken = prp_add_run(&p, &r);
		cursor_back(in, at, r.len_bytes - taken);
		total += taken;
		open_end = taken == r.len_bytes && (r.iova + taken) % NVS_PAGE_BYTES == 0;
	}
	sqe->flags = 0;
	sqe->dptr.prp[0] = le64_of(p.first);
	sqe->dptr.prp[1] = le64_of(p.count < 2 ? 0 : p.count == 2 ? p.second : in->list_iova);
	return (int64_t)total;
}

/* ---- SGL ---- */

static int64_t
map_sgl(const struct nvme_map_in *in, struct nvme_cursor *at, struct nvs_sqe *sqe)
{
	struct nvs_sgl *list = (struct nvs_sgl *)(void *)in->list;
	struct nvs_sgl last = {.id = NVS_SGL_DATA};
	uint64_t total = 0;
	uint32_t count = 0;
	struct run joined = {0};

	while (total < in->limit_bytes && at->seg < in->seg_count) {
		struct nvme_cursor before = *at;
		struct run r;
		if (!run_next(in, at, in->limit_bytes - total, &r)) {
			return -EFAULT;
		}
		if (count > 0 && joined.iova + joined.len_bytes == r.iova) {
			joined.len_bytes += r.len_bytes;
		} else if (count == NVME_SGLS_MAX) {
			*at = before;
			break;
		} else {
			joined = r;
			count++;
		}
		total += r.len_bytes;
		last.addr = le64_of(joined.iova);
		last.len_bytes = le32_of((uint32_t)joined.len_bytes);
		memcpy(&list[count - 1], &last, sizeof(last));
	}
	sqe->flags = NVS_SQE_SGL;
	sqe->dptr.sgl = last;
	if (count > 1) {
		sqe->dptr.sgl.addr = le64_of(in->list_iova);
		sqe->dptr.sgl.len_bytes = le32_of(count * (uint32_t)sizeof(struct nvs_sgl));
		sqe->dptr.sgl.id = NVS_SGL_LAST_SEGMENT;
	}
	return (int64_t)total;
}

int64_t
nvme_map(const struct nvme_map_in *in, struct nvme_cursor *at, struct nvs_sqe *sqe)
{
	struct nvme_map_in whole = *in;
	struct nvme_cursor start = *at;
	int64_t total = in->sgl ? map_sgl(in, at, sqe) : map_prp(in, at, sqe);

	if (total < 0 || total % in->block_bytes == 0) {
		return total != 0 ? total : -EINVAL;
	}
	/* A command is of whole blocks; what is over goes with the next one. */
	whole.limit_bytes = (uint32_t)(total - total % in->block_bytes);
	if (whole.limit_bytes == 0) {
		return -EINVAL;
	}
	*at = start;
	return in->sgl ? map_sgl(&whole, at, sqe) : map_prp(&whole, at, sqe);
}
