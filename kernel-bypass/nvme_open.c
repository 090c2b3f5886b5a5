/*
 * nvme_open.c - a controller's structures and memory: made on opening, before its keeper starts,
 * and the wait for its end on closing.
 */
#include <stdio.h>
#include "kernel-bypass/nvme.h"

/* The n-th doorbell, and its place in the page of shadows, if there is one. */
static void
bell_set_up(const struct nvme_ctrl *c, struct nvme_bell *b, uint32_t n)
{
	const struct nvme_dev *dev = c->dev;
	uint32_t at = n * c->stride;

	b->off = NVS_REG_DOORBELLS + at;
	if (dev->doorbells != NULL && at + c->stride <= dev->doorbell_bytes) {
		b->reg = (volatile uint32_t *)(volatile void *)(dev->doorbells + at);
	}
	if (at + c->stride <= NVS_PAGE_BYTES) {
		b->shadow = (volatile uint32_t *)(void *)(c->admin.shadows + at);
		b->event = (volatile uint32_t *)(void *)(c->admin.shadows + NVS_PAGE_BYTES + at);
	}
}

static void
qpair_set_up(struct nvme_ctrl *c, unsigned i)
{
	struct nvme_qpair *qp = &c->qps[i];
	size_t sq_bytes = ALIGN_UP(c->entries * sizeof(struct nvs_sqe), (size_t)NVS_PAGE_BYTES);
	size_t cq_bytes = ALIGN_UP(c->entries * sizeof(struct nvs_cqe), (size_t)NVS_PAGE_BYTES);

	qp->ctrl = c;
	qp->reactor = i;
	qp->id = (uint16_t)(i + 1);
	qp->entries = c->entries;
	qp->sq = (struct nvs_sqe *)(void *)qp->dma.va;
	qp->cq = (volatile struct nvs_cqe *)(volatile void *)(qp->dma.va + sq_bytes);
	qp->lists = qp->dma.va + sq_bytes + cq_bytes;
	qp->sq_iova = qp->dma.iova;
	qp->cq_iova = qp->dma.iova + sq_bytes;
	qp->lists_iova = qp->cq_iova + cq_bytes;
	bell_set_up(c, &qp->sq_bell, 2u * qp->id);
	bell_set_up(c, &qp->cq_bell, 2u * qp->id + 1);
	nvme_qpair_init(qp);
}

/* Blocking: memory is mapped. */
static void
ctrl_alloc_run(void *arg)
{
	struct nvme_ctrl *c = arg;
	const struct nvme_dev_ops *ops = c->dev->ops;
	size_t len = ALIGN_UP(c->entries * sizeof(struct nvs_sqe), (size_t)NVS_PAGE_BYTES) +
		     ALIGN_UP(c->entries * sizeof(struct nvs_cqe), (size_t)NVS_PAGE_BYTES) +
		     ALIGN_UP((size_t)c->entries * NVME_LIST_BYTES, (size_t)NVS_PAGE_BYTES);

	c->open_err = ops->dma_alloc(c->dev, 5 * NVS_PAGE_BYTES, &c->admin.dma);
	for (unsigned i = 0; c->open_err == 0 && i < c->qp_count; i++) {
		c->open_err = ops->dma_alloc(c->dev, len, &c->qps[i].dma);
	}
}

static int
ctrl_set_up(struct nvme_ctrl *c)
{
	c->cap = c->dev->ops->read64(c->dev, NVS_REG_CAP);
	if (c->cap == UINT64_MAX) {
		return -ERR_GONE;
	}
	c->quirks = nvme_quirks(c->dev->vendor, c->dev->device);
	c->ready_ms = (NVS_CAP_TO(c->cap) + 1) * 500;
	c->stride = 4u << NVS_CAP_DSTRD(c->cap);
	c->entries = MIN(NVS_CAP_MQES(c->cap) + 1, NVME_ENTRIES);
	c->entries = MAX(c->entries, 2u);
	c->qps = mem_zalloc_array(c->qp_count, sizeof(*c->qps));
	if (c->qps == NULL) {
		return -ENOMEM;
	}
	offload(ctrl_alloc_run, c);
	if (c->open_err != 0) {
		return c->open_err;
	}
	c->admin.sq = (struct nvs_sqe *)(void *)c->admin.dma.va;
	c->admin.cq =
	    (volatile struct nvs_cqe *)(volatile void *)(c->admin.dma.va + NVS_PAGE_BYTES);
	c->admin.data = c->admin.dma.va + (size_t)2 * NVS_PAGE_BYTES;
	c->admin.data_iova = c->admin.dma.iova + (uint64_t)2 * NVS_PAGE_BYTES;
	c->admin.shadows = c->admin.data + NVS_PAGE_BYTES;
	for (unsigned i = 0; i < c->qp_count; i++) {
		qpair_set_up(c, i);
	}
	return 0;
}

static void
dev_close_run(void *arg)
{
	struct nvme_dev *dev = arg;

	dev->ops->close(dev);
}

int
nvme_ctrl_open(struct nvme_dev *dev, struct nvme_ctrl **out)
{
	struct nvme_ctrl *c = mem_zalloc(sizeof(*c));

	if (c == NULL) {
		offload(dev_close_run, dev);
		return -ENOMEM;
	}
	c->dev = dev;
	snprintf(c->name, sizeof(c->name), "%s", dev->name);
	c->home = rt_reactor_self();
	c->qp_count = rt_reactor_count();
	wg_init(&c->round);
	wg_init(&c->opened);
	wg_init(&c->health_done);
	mutex_init(&c->health_lock, RANK_KB);
	spin_init(&c->guard);
	list_init(&c->drives);
	int err = ctrl_set_up(c);
	if (err != 0) {
		nvme_ctrl_free(c);
		return err;
	}
	wg_add(&c->opened, 1);
	fiber_spawn_wait(c->home, FIBER_REQUEST, "nvme-keeper", nvme_keeper_main, c);
	wg_wait(&c->opened);
	err = c->open_err;
	if (err != 0) {
		nvme_ctrl_close(c);
		return err;
	}
	*out = c;
	return 0;
}

struct close_wait {
	struct rt_msg msg;
	struct waitgroup done;
};

static void
close_done(struct rt_msg *m)
{
	wg_done(&container_of(m, struct close_wait, msg)->done);
}

void
nvme_ctrl_close(struct nvme_ctrl *c)
{
	struct close_wait w = {.msg.fn = close_done};

	wg_init(&w.done);
	wg_add(&w.done, 1);
	nvme_ctrl_stop_then(c, &w.msg);
	wg_wait(&w.done);
}
