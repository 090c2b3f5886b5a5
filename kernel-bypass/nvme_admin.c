/*
 * nvme_admin.c - the admin queue. The keeper alone uses it, one command at a time beside the
 * standing requests for events, and waits by looking: at first often, then every millisecond, or
 * when the interrupt wakes it.
 */
#include "kernel-bypass/nvme.h"

#define ADMIN_NAP_NS_MIN (20 * NSEC_PER_USEC)
#define ADMIN_NAP_NS_MAX (1 * NSEC_PER_MSEC)

void
nvme_admin_reset(struct nvme_ctrl *c)
{
	struct nvme_admin *a = &c->admin;

	memset((void *)(uintptr_t)a->cq, 0, NVME_ADMIN_ENTRIES * sizeof(*a->cq));
	a->sq_tail = a->cq_head = 0;
	a->phase = 1;
	a->wait_cid = 0;
	memset(a->aer_cid, 0, sizeof(a->aer_cid));
}

/* These are always rung, but their shadows should say the same. */
static void
admin_ring(struct nvme_ctrl *c, uint32_t n, uint32_t value)
{
	atomic_thread_fence(memory_order_release);
	if (c->shadowed) {
		*(volatile uint32_t *)(void *)(c->admin.shadows + n * c->stride) = htole32(value);
		atomic_thread_fence(memory_order_release);
	}
	c->dev->ops->write32(c->dev, NVS_REG_DOORBELLS + n * c->stride, value);
}

/* Returns the command's identifier, never 0. */
static uint16_t
admin_send(struct nvme_ctrl *c, struct nvs_sqe *sqe)
{
	struct nvme_admin *a = &c->admin;

	a->generation = (uint16_t)(a->generation == UINT16_MAX ? 1 : a->generation + 1);
	sqe->cid = le16_of(a->generation);
	memcpy(&a->sq[a->sq_tail], sqe, sizeof(*sqe));
	a->sq_tail = (a->sq_tail + 1) % NVME_ADMIN_ENTRIES;
	admin_ring(c, 0, a->sq_tail);
	return a->generation;
}

/* ---- events ---- */

/* The log has to be read, or the controller doesn't tell of such an event again. */
static void
admin_event(struct nvme_ctrl *c, uint32_t dw0)
{
	c->count.events++;
	c->event_type = NVS_AER_TYPE(dw0);
	c->event_info = NVS_AER_INFO(dw0);
	c->event_log = (uint8_t)NVS_AER_LOG(dw0);
	nvme_want(c, NVME_WANT_EVENTS);
}

static bool
admin_is_aer(struct nvme_ctrl *c, uint16_t cid, const struct nvs_cqe *cqe)
{
	struct nvme_admin *a = &c->admin;

	for (unsigned i = 0; i < NVME_AERS; i++) {
		if (cid == 0 || a->aer_cid[i] != cid) {
			continue;
		}
		a->aer_cid[i] = 0;
		if (NVS_STATUS_CODE(le16_get(cqe->status)) == NVS_SC_OK) {
			admin_event(c, le32_get(cqe->dw0));
		} else {
			c->id.aers = 0; /* it doesn't want so many: ask for no more */
		}
		return true;
	}
	return false;
}

static void
admin_completion(struct nvme_ctrl *c, const struct nvs_cqe *cqe)
{
	struct nvme_admin *a = &c->admin;
	uint16_t cid = le16_get(cqe->cid);

	if (le16_get(cqe->sqid) == 0 && cid != 0 && cid == a->wait_cid) {
		a->wait_cid = 0;
		a->wait_cqe = *cqe;
		a->wait_done = true;
	} else if (le16_get(cqe->sqid) != 0 || !admin_is_aer(c, cid, cqe)) {
		c->count.offences++;
		c->admin_offences++;
		if (c->admin_offences == NVME_OFFENCES_MAX) {
			nvme_want(c, NVME_WANT_RESET);
		}
	}
}

static void
admin_reap(struct nvme_ctrl *c)
{
	struct nvme_admin *a = &c->admin;
	unsigned count = 0;

	while (count < NVME_ADMIN_ENTRIES) {
		volatile struct nvs_cqe *e = &a->cq[a->cq_head];
		uint16_t status = le16toh(*(volatile uint16_t *)(volatile void *)&e->status);
		struct nvs_cqe copy;
		if (NVS_STATUS_PHASE(status) != a->phase) {
			break;
		}
		atomic_thread_fence(memory_order_acquire);
		memcpy(&copy, (const void *)(uintptr_t)e, sizeof(copy));
		copy.status = le16_of(status);
		a->cq_head = (a->cq_head + 1) % NVME_ADMIN_ENTRIES;
		a->phase = a->cq_head == 0 ? a->phase ^ 1 : a->phase;
		count++;
		admin_completion(c, &copy);
	}
	if (count > 0) {
		admin_ring(c, 1, a->cq_head);
	}
}

void
nvme_admin_events(struct nvme_ctrl *c)
{
	admin_reap(c);
	for (unsigned i = 0; i < c->id.aers && i < NVME_AERS; i++) {
		struct nvs_sqe sqe = {.opcode = NVS_ADM_ASYNC_EVENT};
		if (c->admin.aer_cid[i] == 0) {
			c->admin.aer_cid[i] = admin_send(c, &sqe);
		}
	}
}

/* ---- commands ---- */

static int
admin_wait(struct nvme_ctrl *c, uint64_t deadline_ns)
{
	uint64_t nap_ns = ADMIN_NAP_NS_MIN;

	for (;;) {
		admin_reap(c);
		if (c->admin.wait_done) {
			return 0;
		}
		uint64_t now_ns = rt_now_ns();
		bool absent = nap_ns == ADMIN_NAP_NS_MAX && nvme_is_absent(c);
		if (absent || now_ns >= deadline_ns) {
			c->admin.wait_cid = 0;
			return absent ? -ERR_GONE : -ETIMEDOUT;
		}
		(void)fiber_park_until(MIN(deadline_ns, now_ns + nap_ns));
		nap_ns = MIN(nap_ns * 2, ADMIN_NAP_NS_MAX);
	}
}

int
nvme_admin_call(struct nvme_ctrl *c, struct nvs_sqe *sqe, uint32_t *out_dw0)
{
	struct nvme_admin *a = &c->admin;

	a->wait_done = false;
	a->wait_cid = admin_send(c, sqe);
	int err = admin_wait(c, rt_now_ns() + NVME_ADMIN_NS);
	if (err != 0) {
		return err;
	}
	c->admin_status = NVS_STATUS_CODE(le16_get(a->wait_cqe.status));
	if (c->admin_status != NVS_SC_OK) {
		return -EIO;
	}
	if (out_dw0 != NULL) {
		*out_dw0 = le32_get(a->wait_cqe.dw0);
	}
	return 0;
}

/* The answer is copied: the controller could change what it wrote while we look at it. */
static int
admin_call_data(struct nvme_ctrl *c, struct nvs_sqe *sqe)
{
	struct nvme_admin *a = &c->admin;

	memset(a->data, 0, NVS_PAGE_BYTES);
	int err = nvme_admin_call(c, sqe, NULL);
	if (err == 0) {
		memcpy(a->page, a->data, NVS_PAGE_BYTES);
	}
	return err;
}

int
nvme_admin_identify(struct nvme_ctrl *c, uint32_t cns, uint32_t nsid)
{
	struct nvs_sqe sqe = {
	    .opcode = NVS_ADM_IDENTIFY,
	    .nsid = le32_of(nsid),
	    .dptr.prp = {le64_of(c->admin.data_iova)},
	    .cdw10 = le32_of(cns),
	};

	return admin_call_data(c, &sqe);
}

int
nvme_admin_log(struct nvme_ctrl *c, uint8_t log, uint32_t len_bytes)
{
	uint32_t dwords = len_bytes / 4 - 1;
	struct nvs_sqe sqe = {
	    .opcode = NVS_ADM_GET_LOG,
	    .nsid = le32_of(NVS_NSID_ALL),
	    .dptr.prp = {le64_of(c->admin.data_iova)},
	    .cdw10 = le32_of((dwords & 0xffff) << 16 | log),
	    .cdw11 = le32_of(dwords >> 16),
	};

	ASSERT(len_bytes <= NVS_PAGE_BYTES);
	return admin_call_data(c, &sqe);
}

int
nvme_admin_feature(struct nvme_ctrl *c, uint8_t feature, uint32_t value, uint32_t *out_dw0)
{
	struct nvs_sqe sqe = {
	    .opcode = NVS_ADM_SET_FEATURES,
	    .cdw10 = le32_of(feature),
	    .cdw11 = le32_of(value),
	};

	return nvme_admin_call(c, &sqe, out_dw0);
}

int
nvme_admin_get_feature(struct nvme_ctrl *c, uint8_t feature, uint32_t *out_dw0)
{
	struct nvs_sqe sqe = {.opcode = NVS_ADM_GET_FEATURES, .cdw10 = le32_of(feature)};

	return nvme_admin_call(c, &sqe, out_dw0);
}

int
nvme_admin_shadow_bells(struct nvme_ctrl *c)
{
	uint64_t iova = c->admin.data_iova + NVS_PAGE_BYTES;
	struct nvs_sqe sqe = {
	    .opcode = NVS_ADM_DOORBELL_BUFFER,
	    .dptr.prp = {le64_of(iova), le64_of(iova + NVS_PAGE_BYTES)},
	};

	memset(c->admin.shadows, 0, (size_t)2 * NVS_PAGE_BYTES);
	return nvme_admin_call(c, &sqe, NULL);
}

/* The submission queue first: while it is there, its completion queue can't go. */
int
nvme_admin_delete_queues(struct nvme_ctrl *c, const struct nvme_qpair *qp)
{
	struct nvs_sqe sq = {.opcode = NVS_ADM_DELETE_SQ, .cdw10 = le32_of(qp->id)};
	struct nvs_sqe cq = {.opcode = NVS_ADM_DELETE_CQ, .cdw10 = le32_of(qp->id)};

	int err = nvme_admin_call(c, &sq, NULL);
	return err != 0 ? err : nvme_admin_call(c, &cq, NULL);
}

int
nvme_admin_create_queues(struct nvme_ctrl *c, const struct nvme_qpair *qp)
{
	uint32_t size_id = (qp->entries - 1) << 16 | qp->id;
	uint32_t irq = qp->irq_is_open ? NVS_CQ_INTERRUPTS : 0;
	struct nvs_sqe cq = {
	    .opcode = NVS_ADM_CREATE_CQ,
	    .dptr.prp = {le64_of(qp->cq_iova)},
	    .cdw10 = le32_of(size_id),
	    .cdw11 = le32_of(qp->vector << 16 | irq | NVS_QUEUE_CONTIGUOUS),
	};
	struct nvs_sqe sq = {
	    .opcode = NVS_ADM_CREATE_SQ,
	    .dptr.prp = {le64_of(qp->sq_iova)},
	    .cdw10 = le32_of(size_id),
	    .cdw11 = le32_of((uint32_t)qp->id << 16 | NVS_QUEUE_CONTIGUOUS),
	};

	int err = nvme_admin_call(c, &cq, NULL);
	return err != 0 ? err : nvme_admin_call(c, &sq, NULL);
}

/* Whether it helped shows at the command itself. */
void
nvme_admin_abort(struct nvme_ctrl *c, uint16_t sqid, uint16_t cid)
{
	struct nvs_sqe sqe = {
	    .opcode = NVS_ADM_ABORT,
	    .cdw10 = le32_of((uint32_t)cid << 16 | sqid),
	};

	c->count.aborts++;
	if (nvme_admin_call(c, &sqe, NULL) == -ETIMEDOUT) {
		nvme_want(c, NVME_WANT_RESET);
	}
}
