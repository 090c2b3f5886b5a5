/*
 * nvme_model.c - the model's life: registers, queues, interrupts, the IOMMU. A command is fetched
 * when the doorbell rings and has its effect, and its completion, when its timer fires.
 */
#include <stdio.h>
#include <stdlib.h>
#include "tests/lib/nvme_model_int.h"

static struct nvme_model *
model_of(struct nvme_dev *dev)
{
	return container_of(dev, struct nvme_model, dev);
}

bool
model_chance(uint32_t millionths)
{
	return millionths != 0 && rt_random_u64() % 1000000 < millionths;
}

void
model_change(struct nvme_model *m, enum nvme_model_what what, void *bytes, size_t len)
{
	if (m->faults.change != NULL) {
		m->faults.change(m->faults.change_arg, what, bytes, len);
	}
}

/* ---- the IOMMU ---- */

void *
model_reach(struct nvme_model *m, uint64_t iova, uint64_t len)
{
	const struct nvme_dev *dev = &m->dev;

	if (m->cut_off) {
		return NULL;
	}
	if (iova >= dev->arena_iova && iova - dev->arena_iova <= dev->arena_bytes &&
	    len <= dev->arena_bytes - (iova - dev->arena_iova)) {
		return (uint8_t *)dev->arena_va + (iova - dev->arena_iova);
	}
	for (unsigned i = 0; i < MODEL_MAPS; i++) {
		const struct nvme_dma *d = &m->maps[i];
		if (d->va != NULL && iova >= d->iova && iova - d->iova <= d->len_bytes &&
		    len <= d->len_bytes - (iova - d->iova)) {
			return d->va + (iova - d->iova);
		}
	}
	m->count.iommu_faults++;
	return NULL;
}

static int
model_dma_alloc(struct nvme_dev *dev, size_t len_bytes, struct nvme_dma *out)
{
	struct nvme_model *m = model_of(dev);

	for (unsigned i = 0; i < MODEL_MAPS; i++) {
		struct nvme_dma *d = &m->maps[i];
		if (d->va != NULL) {
			continue;
		}
		d->va = aligned_alloc(MODEL_PAGE, len_bytes);
		if (d->va == NULL) {
			return -ENOMEM;
		}
		memset(d->va, 0, len_bytes);
		d->len_bytes = len_bytes;
		d->iova = m->next_iova;
		m->next_iova += len_bytes + MODEL_PAGE; /* a hole behind, to catch an overrun */
		m->count.memory_maps++;
		*out = *d;
		return 0;
	}
	return -ENOMEM;
}

static void
model_dma_free(struct nvme_dev *dev, struct nvme_dma *dma)
{
	struct nvme_model *m = model_of(dev);

	for (unsigned i = 0; i < MODEL_MAPS; i++) {
		if (m->maps[i].va == dma->va && dma->va != NULL) {
			free(dma->va);
			memset(&m->maps[i], 0, sizeof(m->maps[i]));
			m->count.memory_maps--;
		}
	}
	dma->va = NULL;
}

/* ---- interrupts ---- */

static void
vector_msg(struct rt_msg *msg)
{
	struct model_vector *v = container_of(msg, struct model_vector, msg);

	v->posted = false;
	if (v->irq != NULL) {
		v->irq->fn(v->irq);
	}
}

static void
vector_raise(struct nvme_model *m, struct model_vector *v)
{
	if (!v->passes || v->irq == NULL) {
		v->pending = true;
		return;
	}
	v->pending = false;
	m->count.interrupts++;
	if (!v->posted) {
		v->posted = true;
		v->msg.fn = vector_msg;
		rt_post(v->reactor, &v->msg);
	}
}

static struct model_vector *
vector_of(struct nvme_model *m, uint32_t vector)
{
	return vector == NVME_VECTOR_RELEASE ? &m->release : &m->vectors[vector];
}

static int
model_irq_open(struct nvme_dev *dev, uint32_t vector, struct nvme_irq *irq)
{
	struct model_vector *v = vector_of(model_of(dev), vector);

	v->irq = irq;
	v->reactor = rt_reactor_self();
	v->passes = vector == NVME_VECTOR_RELEASE;
	v->pending = false;
	return 0;
}

static void
model_irq_close(struct nvme_dev *dev, uint32_t vector)
{
	struct model_vector *v = vector_of(model_of(dev), vector);

	ASSERT(v->reactor == rt_reactor_self());
	v->irq = NULL;
}

static void
model_irq_pass(struct nvme_dev *dev, uint32_t vector, bool on)
{
	struct model_vector *v = vector_of(model_of(dev), vector);

	v->passes = on;
	if (on && v->pending) {
		vector_raise(model_of(dev), v);
	}
}

/* ---- shadows of doorbells ---- */

/* The place of queue qid's doorbell in a page of shadows; NULL: there is none. */
static struct le32 *
shadow_at(struct nvme_model *m, uint64_t page, unsigned qid, bool is_cq)
{
	uint64_t at = (2 * qid + is_cq) * (uint64_t)(4u << m->opt.stride);

	if (page == 0 || qid == 0 || at + 4 > MODEL_PAGE) {
		return NULL;
	}
	return model_reach(m, page + at, 4);
}

/* "Ring beyond this": then, and only then, it may stop looking. */
static void
shadow_want(struct nvme_model *m, unsigned qid, bool is_cq, uint32_t value)
{
	struct le32 *event = shadow_at(m, m->shadow_events, qid, is_cq);

	if (event != NULL) {
		*event = le32_of(value);
	}
}

static void
shadow_read(struct nvme_model *m, unsigned qid, bool is_cq, uint32_t entries, uint32_t *value)
{
	const struct le32 *shadow = shadow_at(m, m->shadows, qid, is_cq);

	if (shadow == NULL || entries == 0) {
		return;
	}
	if (le32_get(*shadow) >= entries) {
		m->count.protocol_errors++;
	} else {
		*value = le32_get(*shadow);
	}
}

/* ---- completions ---- */

static bool
cq_is_full(struct nvme_model *m, struct model_queue *cq)
{
	unsigned qid = (unsigned)(cq - m->cq);

	if ((cq->tail + 1) % cq->entries == cq->head) {
		shadow_want(m, qid, true, cq->head);
		shadow_read(m, qid, true, cq->entries, &cq->head);
	}
	return (cq->tail + 1) % cq->entries == cq->head;
}

static void
cq_push(struct nvme_model *m, struct model_queue *cq, struct nvs_cqe cqe)
{
	if (cq_is_full(m, cq)) {
		struct model_answer *a = mem_zalloc(sizeof(*a));
		ASSERT(a != NULL);
		*a = (struct model_answer){.cq = cq, .cqe = cqe};
		list_push_back(&m->held, &a->link);
		return;
	}
	model_change(m, MODEL_COMPLETION, &cqe, sizeof(cqe));
	uint16_t status = (uint16_t)(le16_get(cqe.status) & ~1u);
	cqe.status = le16_of((uint16_t)(status | cq->phase));
	model_change(m, MODEL_RAW, &cqe, sizeof(cqe));
	void *at = model_reach(m, cq->iova + cq->tail * sizeof(cqe), sizeof(cqe));
	if (at == NULL) {
		return;
	}
	memcpy(at, &cqe, sizeof(cqe));
	cq->tail++;
	if (cq->tail == cq->entries) {
		cq->tail = 0;
		cq->phase ^= 1;
	}
	if (cq->irq && cq->other < MODEL_QUEUES) {
		vector_raise(m, &m->vectors[cq->other]);
	}
}

void
model_complete(struct nvme_model *m, uint16_t sqid, uint16_t cid, uint16_t code, uint32_t dw0)
{
	struct model_queue *sq = &m->sq[sqid];
	uint16_t dnr = m->faults.error_final && code != 0 ? NVS_STATUS_DNR : 0;
	struct nvs_cqe cqe = {
	    .dw0 = le32_of(dw0),
	    .sqhd = le16_of((uint16_t)sq->head),
	    .sqid = le16_of(sqid),
	    .cid = le16_of(cid),
	    .status = le16_of((uint16_t)(code << 1 | dnr)),
	};
	if (sq->entries == 0 || m->vanished) {
		return;
	}
	cq_push(m, &m->cq[sqid == 0 ? 0 : sq->other], cqe);
	if (sqid != 0 && model_chance(m->faults.double_answer)) {
		cq_push(m, &m->cq[sq->other], cqe);
	}
}

/* What waited for room, as far as there is some. */
static void
held_send(struct nvme_model *m)
{
	list_for_each_safe(l, next, &m->held)
	{
		struct model_answer *a = list_entry(l, struct model_answer, link);
		if (a->cq->entries != 0 && !cq_is_full(m, a->cq)) {
			list_remove(&a->link);
			cq_push(m, a->cq, a->cqe);
			mem_free(a);
		}
	}
}

static void
held_drop(struct nvme_model *m)
{
	while (!list_empty(&m->held)) {
		struct model_answer *a = list_first(&m->held, struct model_answer, link);
		list_remove(&a->link);
		mem_free(a);
	}
}

void
model_events_send(struct nvme_model *m)
{
	while (m->event_count > 0 && m->aer_count > 0) {
		uint16_t cid = m->aer_cid[--m->aer_count];
		model_complete(m, 0, cid, NVS_SC_OK, m->events[--m->event_count]);
	}
}

/* ---- commands ---- */

static void
command_run(struct model_command *c)
{
	struct nvme_model *m = c->m;
	uint16_t cid = le16_get(c->sqe.cid);
	uint16_t code;
	uint32_t dw0 = 0;

	if (c->sqid == 0) {
		if (model_admin(m, &c->sqe, &code, &dw0)) {
			model_complete(m, 0, cid, code, dw0);
		}
		return;
	}
	if (c->aborted) {
		m->count.aborted++;
		model_complete(m, c->sqid, cid, NVS_SC_ABORT_REQUESTED, 0);
		return;
	}
	if (model_chance(m->faults.error)) {
		model_complete(m, c->sqid, cid, m->faults.error_code, 0);
		return;
	}
	code = model_io(m, &c->sqe);
	if (model_chance(m->faults.lost_answer)) {
		c->hung = true; /* done, but nobody knows */
	} else {
		model_complete(m, c->sqid, cid, code, 0);
	}
}

static void
command_free(struct model_command *c)
{
	list_remove(&c->link);
	mem_free(c);
}

static void
command_timer(struct rt_timer *t)
{
	struct model_command *c = container_of(t, struct model_command, timer);

	if (c->life == c->m->life && !c->m->vanished) {
		command_run(c);
	}
	if (!c->hung || c->life != c->m->life) {
		command_free(c);
	}
}

static uint64_t
command_latency(struct nvme_model *m, const struct model_command *c)
{
	uint64_t min = m->faults.latency_ns_max != 0 ? m->faults.latency_ns_min : 5 * NSEC_PER_USEC;
	uint64_t max =
	    m->faults.latency_ns_max != 0 ? m->faults.latency_ns_max : 60 * NSEC_PER_USEC;

	if (c->sqid != 0 && model_chance(m->faults.late)) {
		return m->faults.late_ns;
	}
	return min + rt_random_u64() % (max - min + 1);
}

static void
command_fetch(struct nvme_model *m, uint16_t sqid, const struct nvs_sqe *sqe)
{
	struct model_command *c = mem_zalloc(sizeof(*c));

	ASSERT(c != NULL);
	list_push_back(&m->commands, &c->link);
	c->m = m;
	c->sqe = *sqe;
	c->sqid = sqid;
	c->life = m->life;
	c->hung = sqid == 0 ? m->faults.admin_hangs : model_chance(m->faults.hang);
	if (!c->hung) {
		rt_timer_arm(&c->timer, rt_now_ns() + command_latency(m, c), command_timer);
	}
}

static void look_soon(struct nvme_model *m);

static void
sq_fetch(struct nvme_model *m, uint16_t sqid)
{
	struct model_queue *sq = &m->sq[sqid];

	while (sq->head != sq->tail) {
		struct nvs_sqe sqe;
		void *at = model_reach(m, sq->iova + sq->head * sizeof(sqe), sizeof(sqe));
		if (at == NULL) {
			return;
		}
		memcpy(&sqe, at, sizeof(sqe));
		sq->head = (sq->head + 1) % sq->entries;
		command_fetch(m, sqid, &sqe);
	}
}

static bool
look_once(struct nvme_model *m)
{
	bool found = false;

	for (uint16_t qid = 1; qid < MODEL_QUEUES; qid++) {
		struct model_queue *sq = &m->sq[qid];
		shadow_read(m, qid, false, sq->entries, &sq->tail);
		for (; sq->entries != 0 && sq->head != sq->tail; found = true) {
			m->count.shadow_looks++;
			sq_fetch(m, qid);
		}
	}
	held_send(m);
	return found;
}

/* Busy: looks by itself. Idle: says that it wants to be rung, and looks once more. */
static void
look_timer(struct rt_timer *t)
{
	struct nvme_model *m = container_of(t, struct nvme_model, look_timer);

	if (m->shadows == 0 || m->vanished) {
		return;
	}
	bool found = look_once(m);
	if (!found) {
		for (unsigned qid = 1; qid < MODEL_QUEUES; qid++) {
			shadow_want(m, qid, false, m->sq[qid].tail);
		}
		found = look_once(m);
	}
	if (found) {
		look_soon(m);
	}
}

static void
look_soon(struct nvme_model *m)
{
	/* all reactors ring; the timer is the first one's */
	if (m->shadows != 0 && m->look_timer.heap_index == 0) {
		rt_timer_arm(&m->look_timer, rt_now_ns() + rt_random_u64() % (30 * NSEC_PER_USEC),
		    look_timer);
	}
}

static void
bell_write(struct nvme_model *m, uint32_t off, uint32_t value)
{
	uint32_t index = (off - NVS_REG_DOORBELLS) / (4u << m->opt.stride);
	uint32_t qid = index / 2;
	struct model_queue *q;

	m->count.doorbells++;
	if (qid >= MODEL_QUEUES || (m->csts & NVS_CSTS_RDY) == 0) {
		m->count.protocol_errors += (m->csts & NVS_CSTS_RDY) != 0;
		return;
	}
	q = index % 2 == 0 ? &m->sq[qid] : &m->cq[qid];
	if (value >= q->entries) {
		m->count.protocol_errors++;
	} else if (index % 2 == 0) {
		q->tail = value;
		sq_fetch(m, (uint16_t)qid);
		look_soon(m);
	} else {
		q->head = value;
		held_send(m);
	}
}

/* ---- registers ---- */

static void
model_off(struct nvme_model *m)
{
	m->life++;
	m->csts = 0;
	memset(m->sq, 0, sizeof(m->sq));
	memset(m->cq, 0, sizeof(m->cq));
	list_for_each_safe(l, next, &m->commands)
	{
		struct model_command *c = list_entry(l, struct model_command, link);
		if (c->hung) {
			command_free(c);
		}
	}
	m->aer_count = 0;
	m->event_count = 0;
	m->shadows = m->shadow_events = 0;
	held_drop(m);
}

static void
model_on(struct nvme_model *m)
{
	m->count.enables++;
	m->sq[0] = (struct model_queue){.iova = m->asq, .entries = (m->aqa & 0xfff) + 1};
	m->cq[0] = (struct model_queue){
	    .iova = m->acq, .entries = (m->aqa >> 16 & 0xfff) + 1, .irq = true, .phase = 1};
	m->csts |= NVS_CSTS_RDY;
}

/* CSTS.RDY follows CC.EN with some delay. */
static void
model_turn(struct nvme_model *m)
{
	bool want = (m->cc & NVS_CC_EN) != 0;

	if (rt_now_ns() < m->turn_ns || want == ((m->csts & NVS_CSTS_RDY) != 0)) {
		return;
	}
	if (want && !m->faults.never_ready) {
		model_on(m);
	} else if (!want && !m->faults.never_off) {
		model_off(m);
	}
}

static void
cc_write(struct nvme_model *m, uint32_t value)
{
	if (((m->cc ^ value) & NVS_CC_EN) != 0) {
		m->turn_ns = rt_now_ns() + rt_random_u64() % (3 * NSEC_PER_MSEC);
	}
	if ((value & NVS_CC_SHN_MASK) != 0 && (m->cc & NVS_CC_SHN_MASK) == 0) {
		m->count.shutdowns++;
		model_flush(m);
		m->csts |= NVS_SHST_DONE << 2;
	}
	m->cc = value;
}

static uint32_t
model_read32(struct nvme_dev *dev, uint32_t off)
{
	struct nvme_model *m = model_of(dev);
	uint32_t value = 0;

	if (m->vanished) {
		return NVS_ALL_ONES32;
	}
	model_turn(m);
	if (off == NVS_REG_CSTS) {
		value = m->csts;
	} else if (off == NVS_REG_CC) {
		value = m->cc;
	} else if (off == NVS_REG_VS) {
		value = 0x00010400;
	}
	model_change(m, MODEL_REGISTER, &value, sizeof(value));
	return value;
}

static uint64_t
model_read64(struct nvme_dev *dev, uint32_t off)
{
	struct nvme_model *m = model_of(dev);
	uint64_t value = 0;

	if (m->vanished) {
		return UINT64_MAX;
	}
	if (off == NVS_REG_CAP) {
		value = (m->opt.mqes != 0 ? m->opt.mqes : 1023) | (uint64_t)1 << 16 |
			(uint64_t)4 << 24 | (uint64_t)m->opt.stride << 32 | (uint64_t)1 << 37;
	}
	model_change(m, MODEL_REGISTER, &value, sizeof(value));
	return value;
}

static void
model_write32(struct nvme_dev *dev, uint32_t off, uint32_t value)
{
	struct nvme_model *m = model_of(dev);

	if (m->vanished) {
		return;
	}
	model_turn(m);
	if (off >= NVS_REG_DOORBELLS) {
		bell_write(m, off, value);
	} else if (off == NVS_REG_CC) {
		cc_write(m, value);
	} else if (off == NVS_REG_AQA) {
		m->aqa = value;
	}
}

static void
model_write64(struct nvme_dev *dev, uint32_t off, uint64_t value)
{
	struct nvme_model *m = model_of(dev);

	m->asq = off == NVS_REG_ASQ ? value : m->asq;
	m->acq = off == NVS_REG_ACQ ? value : m->acq;
}

static int
model_function_reset(struct nvme_dev *dev)
{
	struct nvme_model *m = model_of(dev);

	if (m->faults.no_function_reset) {
		return -EIO;
	}
	m->count.function_resets++;
	model_off(m);
	m->cc = 0;
	return 0;
}

static int
model_dma_stop(struct nvme_dev *dev)
{
	struct nvme_model *m = model_of(dev);

	if (m->faults.no_dma_stop) {
		return -EIO;
	}
	m->count.dma_stops++;
	m->cut_off = true;
	return 0;
}

static void
model_close(struct nvme_dev *dev)
{
	model_off(model_of(dev));
	model_of(dev)->open = false;
}

static const struct nvme_dev_ops model_ops = {
    .read32 = model_read32,
    .read64 = model_read64,
    .write32 = model_write32,
    .write64 = model_write64,
    .dma_alloc = model_dma_alloc,
    .dma_free = model_dma_free,
    .irq_open = model_irq_open,
    .irq_close = model_irq_close,
    .irq_pass = model_irq_pass,
    .function_reset = model_function_reset,
    .dma_stop = model_dma_stop,
    .close = model_close,
};

/* ---- for tests ---- */

struct nvme_model *
nvme_model_create(const struct nvme_model_options *opt)
{
	struct nvme_model *m = mem_zalloc_lasting(sizeof(*m));

	ASSERT(m != NULL && opt->namespaces <= MODEL_NAMESPACES);
	m->opt = *opt;
	snprintf(m->serial, sizeof(m->serial), "%s", opt->serial);
	m->opt.queues = opt->queues != 0 ? opt->queues : 16;
	m->next_iova = MODEL_DMA_IOVA;
	m->cache_on = opt->volatile_cache && !opt->cache_off;
	list_init(&m->commands);
	list_init(&m->held);
	m->health.temperature[0] = (273 + 35) & 0xff;
	m->health.temperature[1] = (273 + 35) >> 8;
	m->health.spare = 100;
	m->health.spare_threshold = 10;
	for (unsigned i = 0; i < opt->namespaces; i++) {
		struct model_ns *ns = &m->ns[i];
		ns->blocks = opt->bytes >> opt->block_shift;
		ns->page_count = DIV_UP(opt->bytes, MODEL_PAGE);
		ns->pages = mem_zalloc_lasting(ns->page_count * sizeof(struct model_page *));
		ASSERT(ns->pages != NULL);
	}
	return m;
}

void
nvme_model_destroy(struct nvme_model *m)
{
	for (unsigned i = 0; i < MODEL_NAMESPACES; i++) {
		for (uint64_t p = 0; p < m->ns[i].page_count; p++) {
			mem_free(m->ns[i].pages[p]);
		}
		mem_free(m->ns[i].pages);
	}
	for (unsigned i = 0; i < MODEL_MAPS; i++) {
		free(m->maps[i].va);
	}
	held_drop(m);
	while (!list_empty(&m->commands)) { /* their time never came */
		command_free(list_first(&m->commands, struct model_command, link));
	}
	mem_free(m);
}

/* As the machine finds it after power on: nothing of an earlier life is left but the medium. */
struct nvme_dev *
nvme_model_open(struct nvme_model *m)
{
	struct arena_info arena;

	ASSERT(rt_is_sim() && !m->open);
	arena_get_info(&arena);
	model_off(m);
	memset(m->vectors, 0, sizeof(m->vectors));
	memset(&m->look_timer, 0, sizeof(m->look_timer));
	memset(&m->release, 0, sizeof(m->release));
	for (unsigned i = 0; i < MODEL_MAPS; i++) {
		free(m->maps[i].va);
	}
	memset(m->maps, 0, sizeof(m->maps));
	m->count.memory_maps = 0;
	m->cc = 0;
	m->cut_off = false;
	m->open = true;
	m->dev = (struct nvme_dev){
	    .ops = &model_ops,
	    .doorbell_bytes = MODEL_BELLS_BYTES,
	    .arena_va = (uintptr_t)arena.base,
	    .arena_bytes = arena.size_bytes,
	    .arena_iova = MODEL_ARENA_IOVA,
	    .vectors = m->opt.no_interrupts ? 0 : MODEL_QUEUES,
	    .vendor = m->opt.vendor,
	    .device = m->opt.device,
	};
	snprintf(m->dev.name, sizeof(m->dev.name), "model:%s", m->serial);
	return &m->dev;
}

void
nvme_model_set_faults(struct nvme_model *m, const struct nvme_model_faults *f)
{
	m->faults = *f;
}

void
nvme_model_get_counters(const struct nvme_model *m, struct nvme_model_counters *out)
{
	*out = m->count;
}

void
nvme_model_vanish(struct nvme_model *m)
{
	m->vanished = true;
}

void
nvme_model_return(struct nvme_model *m)
{
	m->vanished = false;
}

void
nvme_model_fatal(struct nvme_model *m)
{
	m->csts |= NVS_CSTS_CFS;
}

void
nvme_model_reset(struct nvme_model *m)
{
	model_off(m);
	m->cc = 0;
	m->cache_on = m->opt.volatile_cache;
}

void
nvme_model_junk_events(struct nvme_model *m, uint32_t junk)
{
	for (unsigned qid = 1; qid < MODEL_QUEUES; qid++) {
		shadow_want(m, qid, false, junk ^ qid);
		shadow_want(m, qid, true, junk ^ ~qid);
	}
}

void
nvme_model_event(struct nvme_model *m, uint32_t dw0)
{
	if (m->event_count < ARRAY_LEN(m->events)) {
		m->events[m->event_count++] = dw0;
		model_events_send(m);
	}
}

void
nvme_model_ask_release(struct nvme_model *m)
{
	vector_raise(m, &m->release);
}

void
nvme_model_set_size(struct nvme_model *m, unsigned ns, uint64_t blocks)
{
	m->ns[ns].blocks = blocks;
}

void
nvme_model_set_health(struct nvme_model *m, const struct nvs_log_health *h)
{
	m->health = *h;
}

void
nvme_model_release_hung(struct nvme_model *m)
{
	list_for_each_safe(l, next, &m->commands)
	{
		struct model_command *c = list_entry(l, struct model_command, link);
		if (c->hung && c->life == m->life) {
			c->hung = false;
			command_run(c);
			command_free(c);
		}
	}
}
