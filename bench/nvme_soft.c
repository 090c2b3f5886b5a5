/*
 * nvme_soft.c - doorbells are a page of memory that a poller looks at, one turn after the driver
 * has written them. Addresses are pointers. It knows the commands that the driver sends to a
 * healthy drive, and no failure.
 */
#include "bench/nvme_soft.h"
#include <stdio.h>
#include <stdlib.h>
#include "kernel-bypass/nvme_spec.h"

#define SOFT_QUEUES 2u /* admin, and one for I/O */

struct soft_queue {
	const struct nvs_sqe *sq;
	volatile struct nvs_cqe *cq;
	uint32_t sq_entries, cq_entries, head, tail;
	uint16_t phase;
};

struct soft {
	struct nvme_dev dev;
	struct rt_poller poller;
	struct soft_queue q[SOFT_QUEUES];
	_Alignas(64) volatile uint32_t bells[1024];
	uint32_t cc, aqa;
	uint64_t asq, acq, bytes;
	uint8_t *medium;
};

static struct soft *
soft_of(struct nvme_dev *dev)
{
	return container_of(dev, struct soft, dev);
}

static void *
at(uint64_t iova)
{
	return (void *)(uintptr_t)iova; // NOLINT
}

static void
identify(struct soft *s, const struct nvs_sqe *sqe)
{
	uint8_t *page = at(le64_get(sqe->dptr.prp[0]));
	uint32_t cns = le32_get(sqe->cdw10) & 0xff;

	memset(page, 0, NVS_PAGE_BYTES);
	if (cns == NVS_CNS_CONTROLLER) {
		struct nvs_id_ctrl *id = (struct nvs_id_ctrl *)(void *)page;
		memcpy(id->sn, "SOFT", 4);
		id->sqes = 0x66;
		id->cqes = 0x44;
		id->nn = le32_of(1);
	} else if (cns == NVS_CNS_NAMESPACE) {
		struct nvs_id_ns *ns = (struct nvs_id_ns *)(void *)page;
		ns->nsze = le64_of(s->bytes >> SECTOR_SHIFT);
		ns->lbaf[0].ds = SECTOR_SHIFT;
	} else if (cns == NVS_CNS_NS_LIST) {
		*(struct le32 *)(void *)page = le32_of(1);
	}
}

static void
create(struct soft *s, const struct nvs_sqe *sqe, bool is_cq)
{
	struct soft_queue *q = &s->q[1];
	void *memory = at(le64_get(sqe->dptr.prp[0]));
	uint32_t entries = (le32_get(sqe->cdw10) >> 16) + 1;

	if (is_cq) {
		q->cq = memory;
		q->cq_entries = entries;
		q->tail = 0;
		q->phase = 1;
	} else {
		q->sq = memory;
		q->sq_entries = entries;
		q->head = 0;
	}
}

static void
admin(struct soft *s, const struct nvs_sqe *sqe)
{
	switch (sqe->opcode) {
	case NVS_ADM_IDENTIFY:
		identify(s, sqe);
		break;
	case NVS_ADM_CREATE_CQ:
	case NVS_ADM_CREATE_SQ:
		create(s, sqe, sqe->opcode == NVS_ADM_CREATE_CQ);
		break;
	case NVS_ADM_GET_LOG:
		memset(at(le64_get(sqe->dptr.prp[0])), 0, 512);
		break;
	default:
		break;
	}
}

static void
io(struct soft *s, const struct nvs_sqe *sqe)
{
	uint32_t blocks = (le32_get(sqe->cdw12) & 0xffff) + 1;
	uint8_t *medium = s->medium + ((uint64_t)le32_get(sqe->cdw10) << SECTOR_SHIFT);
	uint64_t prp2 = le64_get(sqe->dptr.prp[1]);
	const struct le64 *list = at(prp2);

	for (uint32_t i = 0; i < blocks; i++) {
		uint64_t prp = i == 0       ? le64_get(sqe->dptr.prp[0])
			       : blocks > 2 ? le64_get(list[i - 1])
					    : prp2;
		if (sqe->opcode == NVS_IO_READ) {
			memcpy(at(prp), medium, SECTOR_BYTES);
		} else if (sqe->opcode == NVS_IO_WRITE) {
			memcpy(medium, at(prp), SECTOR_BYTES);
		}
		medium += SECTOR_BYTES;
	}
}

static void
answer(struct soft_queue *q, uint16_t id, uint16_t cid)
{
	volatile struct nvs_cqe *e = &q->cq[q->tail];

	*(volatile uint32_t *)(volatile void *)&e->dw0 = id == 0 ? 0xffffu << 16 | 0xffffu : 0;
	*(volatile uint32_t *)(volatile void *)&e->sqhd = (uint32_t)id << 16 | q->head;
	*(volatile uint32_t *)(volatile void *)&e->cid = (uint32_t)q->phase << 16 | cid;
	if (++q->tail == q->cq_entries) {
		q->tail = 0;
		q->phase ^= 1;
	}
}

static unsigned
queue_serve(struct soft *s, uint16_t id)
{
	struct soft_queue *q = &s->q[id];
	uint32_t tail = s->bells[2 * id];
	unsigned count = 0;

	for (; q->sq != NULL && q->head != tail; count++) {
		const struct nvs_sqe *sqe = &q->sq[q->head];
		q->head = q->head + 1 == q->sq_entries ? 0 : q->head + 1;
		if (id != 0) {
			io(s, sqe);
		} else if (sqe->opcode == NVS_ADM_ASYNC_EVENT) {
			continue;
		} else {
			admin(s, sqe);
		}
		answer(q, id, le16_get(sqe->cid));
	}
	return count;
}

static unsigned
soft_poll(struct rt_poller *p)
{
	struct soft *s = container_of(p, struct soft, poller);

	return queue_serve(s, 0) + queue_serve(s, 1);
}

static bool
soft_wants_poll(struct rt_poller *p)
{
	(void)p;
	return false;
}

static uint32_t
soft_read32(struct nvme_dev *dev, uint32_t off)
{
	const struct soft *s = soft_of(dev);

	return off == NVS_REG_CC ? s->cc : off == NVS_REG_CSTS ? s->cc & NVS_CC_EN : 0;
}

static uint64_t
soft_read64(struct nvme_dev *dev, uint32_t off)
{
	(void)dev;
	return off == NVS_REG_CAP ? 1023 | (uint64_t)4 << 24 | (uint64_t)1 << 37 : 0;
}

static void
soft_write32(struct nvme_dev *dev, uint32_t off, uint32_t value)
{
	struct soft *s = soft_of(dev);

	if (off >= NVS_REG_DOORBELLS) {
		s->bells[(off - NVS_REG_DOORBELLS) / 4] = value;
	} else if (off == NVS_REG_AQA) {
		s->aqa = value;
	} else if (off == NVS_REG_CC) {
		if ((value & ~s->cc & NVS_CC_EN) != 0) {
			memset(s->q, 0, sizeof(s->q));
			s->q[0] = (struct soft_queue){.sq = at(s->asq),
			    .cq = at(s->acq),
			    .sq_entries = (s->aqa & 0xfff) + 1,
			    .cq_entries = (s->aqa >> 16) + 1,
			    .phase = 1};
			s->bells[0] = s->bells[2] = 0;
		}
		s->cc = value;
	}
}

static void
soft_write64(struct nvme_dev *dev, uint32_t off, uint64_t value)
{
	*(off == NVS_REG_ASQ ? &soft_of(dev)->asq : &soft_of(dev)->acq) = value;
}

static int
soft_dma_alloc(struct nvme_dev *dev, size_t len_bytes, struct nvme_dma *out)
{
	(void)dev;
	out->va = aligned_alloc(NVS_PAGE_BYTES, len_bytes);
	if (out->va == NULL) {
		return -ENOMEM;
	}
	memset(out->va, 0, len_bytes);
	out->iova = (uintptr_t)out->va;
	out->len_bytes = len_bytes;
	return 0;
}

static void
soft_dma_free(struct nvme_dev *dev, struct nvme_dma *dma)
{
	(void)dev;
	free(dma->va);
	dma->va = NULL;
}

static int
soft_irq_open(struct nvme_dev *dev, uint32_t vector, struct nvme_irq *irq)
{
	(void)dev;
	(void)vector;
	(void)irq;
	return -ENOTSUP;
}

static int
soft_reset(struct nvme_dev *dev)
{
	soft_of(dev)->cc = 0;
	return 0;
}

static void
soft_close(struct nvme_dev *dev)
{
	/* the poller is still on its reactor, so the memory stays */
	(void)dev;
}

static const struct nvme_dev_ops soft_ops = {
    .read32 = soft_read32,
    .read64 = soft_read64,
    .write32 = soft_write32,
    .write64 = soft_write64,
    .dma_alloc = soft_dma_alloc,
    .dma_free = soft_dma_free,
    .irq_open = soft_irq_open,
    .function_reset = soft_reset,
    .dma_stop = soft_reset,
    .close = soft_close,
};

struct nvme_dev *
nvme_soft_open(uint64_t bytes)
{
	struct soft *s = mem_zalloc(sizeof(*s));
	struct arena_info arena;

	if (s == NULL) {
		return NULL;
	}
	arena_get_info(&arena);
	s->bytes = bytes;
	s->medium = mem_zalloc(bytes);
	if (s->medium == NULL) {
		mem_free(s);
		return NULL;
	}
	s->dev = (struct nvme_dev){
	    .ops = &soft_ops,
	    .doorbells = (volatile uint8_t *)s->bells,
	    .doorbell_bytes = sizeof(s->bells),
	    .arena_va = (uintptr_t)arena.base,
	    .arena_bytes = arena.size_bytes,
	    .arena_iova = (uintptr_t)arena.base,
	    .name = "soft",
	};
	s->poller.poll = soft_poll;
	s->poller.wants_poll = soft_wants_poll;
	rt_poller_add(&s->poller);
	return &s->dev;
}
