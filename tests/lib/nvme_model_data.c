/*
 * nvme_model_data.c - the medium and the data pointers: PRP lists and SGLs walked as the
 * specification says, the volatile cache with flush, FUA and power cuts.
 */
#include "tests/lib/nvme_model_int.h"

/* ---- the medium ---- */

static struct model_page *
page_of(struct model_ns *ns, uint64_t off, bool make)
{
	struct model_page **p = &ns->pages[off / MODEL_PAGE];

	if (*p == NULL && make) {
		*p = mem_zalloc_lasting(sizeof(**p));
		ASSERT(*p != NULL);
	}
	return *p;
}

static void
ns_read(struct model_ns *ns, uint64_t off, uint8_t *buf, uint64_t len)
{
	for (uint64_t done = 0; done < len;) {
		uint64_t in = (off + done) % MODEL_PAGE;
		uint64_t n = MIN(MODEL_PAGE - in, len - done);
		const struct model_page *p = page_of(ns, off + done, false);
		if (p != NULL) {
			memcpy(buf + done, p->now + in, n);
		} else {
			memset(buf + done, 0, n);
		}
		done += n;
	}
}

static void
ns_write(struct model_ns *ns, uint64_t off, const uint8_t *buf, uint64_t len, bool durable)
{
	for (uint64_t done = 0; done < len;) {
		uint64_t in = (off + done) % MODEL_PAGE;
		uint64_t n = MIN(MODEL_PAGE - in, len - done);
		struct model_page *p = page_of(ns, off + done, true);
		if (buf != NULL) {
			memcpy(p->now + in, buf + done, n);
		} else {
			memset(p->now + in, 0, n);
		}
		if (durable) {
			memcpy(p->durable + in, p->now + in, n);
		} else {
			p->dirty = true;
		}
		done += n;
	}
}

void
model_flush(struct nvme_model *m)
{
	for (unsigned i = 0; i < m->opt.namespaces; i++) {
		for (uint64_t at = 0; at < m->ns[i].page_count; at++) {
			struct model_page *p = m->ns[i].pages[at];
			if (p != NULL && p->dirty) {
				memcpy(p->durable, p->now, MODEL_PAGE);
				p->dirty = false;
			}
		}
	}
}

void
nvme_model_power_cut(struct nvme_model *m, uint64_t seed)
{
	m->open = false;
	list_init(&m->commands);
	list_init(&m->held);
	for (unsigned i = 0; i < m->opt.namespaces; i++) {
		for (uint64_t at = 0; at < m->ns[i].page_count; at++) {
			struct model_page *p = m->ns[i].pages[at];
			seed = seed * 6364136223846793005u + 1442695040888963407u;
			if (p == NULL || !p->dirty) {
				continue;
			}
			if (seed >> 63 != 0) {
				memcpy(p->durable, p->now, MODEL_PAGE);
			} else {
				memcpy(p->now, p->durable, MODEL_PAGE);
			}
			p->dirty = false;
		}
	}
}

void
nvme_model_peek(struct nvme_model *m, unsigned ns, uint64_t off_bytes, void *out, uint32_t len)
{
	ns_read(&m->ns[ns], off_bytes, out, len);
}

/* ---- data pointers ---- */

/* One piece of memory. */
static bool
copy_piece(struct nvme_model *m, uint64_t iova, uint8_t *buf, uint64_t len, bool to_host)
{
	uint8_t *host = model_reach(m, iova, len);

	if (host == NULL) {
		return false;
	}
	/* One that lies says "done" before it is, and gets at buffers that were let go. That is its
	 * own fault, and in the arena no IOMMU sees it; an honest one must never do so. */
	if (m->faults.change != NULL && MODEL_IS_FREE(host, len)) {
		return true;
	}
	memcpy(to_host ? host : buf, to_host ? buf : host, len);
	return true;
}

/* The pages behind the first: one in PRP2, or a list that PRP2 points to, whose last entry in a
 * page points to the next list when more entries are needed. */
static uint16_t
copy_prp_rest(struct nvme_model *m, uint64_t prp2, uint8_t *buf, uint64_t len, bool to_host)
{
	if (prp2 == 0 || prp2 % 4 != 0) {
		return 0x13;
	}
	if (len <= MODEL_PAGE) {
		if (prp2 % MODEL_PAGE != 0) {
			return 0x13;
		}
		return copy_piece(m, prp2, buf, len, to_host) ? NVS_SC_OK : NVS_SC_TRANSFER;
	}
	m->count.prp_lists++;
	for (uint64_t list = prp2; len > 0; list += 8) {
		struct le64 *raw = model_reach(m, list, 8);
		if (raw == NULL) {
			return NVS_SC_TRANSFER;
		}
		uint64_t entry = le64_get(*raw);
		if (list % MODEL_PAGE == MODEL_PAGE - 8 && len > MODEL_PAGE) {
			list = entry - 8;
			continue;
		}
		if (entry % MODEL_PAGE != 0) {
			return 0x13;
		}
		uint64_t n = MIN((uint64_t)MODEL_PAGE, len);
		if (!copy_piece(m, entry, buf, n, to_host)) {
			return NVS_SC_TRANSFER;
		}
		buf += n;
		len -= n;
	}
	return NVS_SC_OK;
}

static uint16_t
copy_prp(struct nvme_model *m, const struct nvs_sqe *sqe, uint8_t *buf, uint64_t len, bool to_host)
{
	uint64_t prp1 = le64_get(sqe->dptr.prp[0]);
	uint64_t n = MIN(MODEL_PAGE - prp1 % MODEL_PAGE, len);

	if (prp1 % 4 != 0) {
		return 0x13;
	}
	if (!copy_piece(m, prp1, buf, n, to_host)) {
		return NVS_SC_TRANSFER;
	}
	return n == len ? NVS_SC_OK
			: copy_prp_rest(m, le64_get(sqe->dptr.prp[1]), buf + n, len - n, to_host);
}

static uint16_t
copy_sgl(struct nvme_model *m, const struct nvs_sqe *sqe, uint8_t *buf, uint64_t len, bool to_host)
{
	struct nvs_sgl one = sqe->dptr.sgl;
	const struct nvs_sgl *list = &one;
	uint32_t count = 1;

	if (!m->opt.sgl) {
		return NVS_SC_INVALID_FIELD;
	}
	if (one.id == NVS_SGL_LAST_SEGMENT) {
		uint32_t bytes = le32_get(one.len_bytes);
		count = bytes / (uint32_t)sizeof(one);
		list = model_reach(m, le64_get(one.addr), bytes);
		if (list == NULL || bytes == 0 || bytes % sizeof(one) != 0) {
			return NVS_SC_SGL_INVALID;
		}
		m->count.sgl_lists++;
	}
	for (uint32_t i = 0; i < count; i++) {
		uint64_t n = le32_get(list[i].len_bytes);
		if (list[i].id != NVS_SGL_DATA || n > len) {
			return NVS_SC_SGL_INVALID;
		}
		if (!copy_piece(m, le64_get(list[i].addr), buf, n, to_host)) {
			return NVS_SC_TRANSFER;
		}
		buf += n;
		len -= n;
	}
	return len == 0 ? NVS_SC_OK : 0x0f; /* data SGL length invalid */
}

uint16_t
model_copy(
    struct nvme_model *m, const struct nvs_sqe *sqe, uint8_t *buf, uint64_t len, bool to_host)
{
	uint16_t code = (sqe->flags & NVS_SQE_SGL) != 0 ? copy_sgl(m, sqe, buf, len, to_host)
							: copy_prp(m, sqe, buf, len, to_host);

	m->count.protocol_errors += code != NVS_SC_OK && !m->cut_off;
	return code;
}

/* ---- I/O commands ---- */

static void
count_rw(struct nvme_model *m, uint64_t lba, uint64_t blocks, bool write, bool fua)
{
	m->count.writes += write;
	m->count.reads += !write;
	m->count.fua_writes += write && fua;
	m->count.bytes_max = MAX(m->count.bytes_max, blocks << m->opt.block_shift);
	if (m->opt.noiob != 0 && lba / m->opt.noiob != (lba + blocks - 1) / m->opt.noiob) {
		m->count.crossings++;
	}
}

static uint16_t
io_rw(struct nvme_model *m, struct model_ns *ns, const struct nvs_sqe *sqe)
{
	bool write = sqe->opcode == NVS_IO_WRITE;
	uint32_t dw12 = le32_get(sqe->cdw12);
	uint64_t lba = le32_get(sqe->cdw10) | (uint64_t)le32_get(sqe->cdw11) << 32;
	uint64_t blocks = (dw12 & 0xffff) + 1;
	uint64_t len = blocks << m->opt.block_shift;
	bool fua = (dw12 & NVS_IO_FUA) != 0 && !m->opt.ignores_fua;

	if (lba > ns->blocks || blocks > ns->blocks - lba) {
		m->count.protocol_errors++;
		return NVS_SC_LBA_RANGE;
	}
	if (m->opt.mdts != 0 && len > (uint64_t)MODEL_PAGE << m->opt.mdts) {
		m->count.protocol_errors++;
		return NVS_SC_INVALID_FIELD;
	}
	count_rw(m, lba, blocks, write, fua);
	uint8_t *buf = mem_zalloc(len);
	ASSERT(buf != NULL);
	if (!write) {
		ns_read(ns, lba << m->opt.block_shift, buf, len);
	}
	uint16_t code = model_copy(m, sqe, buf, len, !write);
	if (write && code == NVS_SC_OK) {
		ns_write(ns, lba << m->opt.block_shift, buf, len, fua || !m->cache_on);
	}
	mem_free(buf);
	return code;
}

static uint16_t
io_dsm(struct nvme_model *m, struct model_ns *ns, const struct nvs_sqe *sqe)
{
	const struct nvs_dsm_range *ranges = (const struct nvs_dsm_range *)(const void *)m->page;
	uint32_t count = (le32_get(sqe->cdw10) & 0xff) + 1;

	uint16_t code = model_copy(m, sqe, m->page, count * sizeof(ranges[0]), false);
	for (uint32_t i = 0; code == NVS_SC_OK && i < count; i++) {
		uint64_t lba = le64_get(ranges[i].lba);
		uint64_t blocks = le32_get(ranges[i].blocks);
		if (lba > ns->blocks || blocks > ns->blocks - lba) {
			m->count.protocol_errors++;
			return NVS_SC_LBA_RANGE;
		}
		ns_write(ns, lba << m->opt.block_shift, NULL, blocks << m->opt.block_shift, false);
	}
	m->count.discards++;
	return code;
}

uint16_t
model_io(struct nvme_model *m, const struct nvs_sqe *sqe)
{
	uint32_t nsid = le32_get(sqe->nsid);

	if (nsid == 0 || nsid > m->opt.namespaces || m->ns[nsid - 1].blocks == 0) {
		return NVS_SC_INVALID_NS;
	}
	switch (sqe->opcode) {
	case NVS_IO_READ:
	case NVS_IO_WRITE:
		return io_rw(m, &m->ns[nsid - 1], sqe);
	case NVS_IO_DSM:
		return io_dsm(m, &m->ns[nsid - 1], sqe);
	case NVS_IO_FLUSH:
		m->count.flushes++;
		model_flush(m);
		return NVS_SC_OK;
	default:
		m->count.protocol_errors++;
		return NVS_SC_INVALID_OPCODE;
	}
}
