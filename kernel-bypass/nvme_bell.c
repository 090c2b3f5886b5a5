/*
 * nvme_bell.c - the doorbells of a queue pair: when the controller is told of new commands, and
 * when it gets its completion entries back.
 *
 * New commands are told at the end of a turn, or eight at a time, so that the controller works
 * while we write more. An emulated controller looks for its doorbells in memory for as long as it
 * works (shadow doorbells). It is rung only when it has done all it knows of, since who rings one
 * that is at work waits until its emulator has a moment: measured under QEMU's TCG, 200 us instead
 * of 9.
 *
 * Invariant: what was written and not told is told within NVME_HOLD_NS and a nap, or when the
 * controller has answered all it knew of. said of a bell is behind what memory says only while the
 * bell has yet to be rung.
 */
#include "kernel-bypass/nvme.h"

/*
 * What the controller will fetch must be in memory before its doorbell is. The value goes into
 * memory; true: the doorbell must be rung as well. The controller says until where it has looked,
 * then looks once more; we write, then look what it said: one of us sees the other. said: what it
 * knew for sure before.
 */
static bool
bell_shadow(struct nvme_bell *b, uint32_t value)
{
	atomic_thread_fence(memory_order_release);
	*b->shadow = htole32(value);
	atomic_thread_fence(memory_order_seq_cst);
	uint32_t event = le32toh(*b->event);
	return (uint16_t)(value - event - 1) < (uint16_t)(value - b->said);
}

static void
bell_ring(const struct nvme_qpair *qp, struct nvme_bell *b, uint32_t value)
{
	atomic_thread_fence(memory_order_release);
	if (b->reg != NULL) {
		*b->reg = htole32(value);
	} else {
		qp->ctrl->dev->ops->write32(qp->ctrl->dev, b->off, value);
	}
	b->said = value;
}

/* Commands in the queue that the controller need not notice. */
static uint32_t
qpair_untold(const struct nvme_qpair *qp)
{
	uint32_t untold = qp->sq_tail - qp->sq_bell.said;

	return qp->sq_tail < qp->sq_bell.said ? untold + qp->entries : untold;
}

/* Commands that it knows of and has not answered, as far as we have seen. (It may answer others.)
 */
uint32_t
nvme_qpair_told(const struct nvme_qpair *qp)
{
	uint32_t untold = qpair_untold(qp);

	return qp->busy_count > untold ? qp->busy_count - untold : 0;
}

/* The last of so many answers is there, seen or not. */
static bool
qpair_has_answered(const struct nvme_qpair *qp, uint32_t count)
{
	uint32_t last = qp->cq_head + count - 1;
	bool wraps = last >= qp->entries;
	const volatile struct nvs_cqe *e = &qp->cq[wraps ? last - qp->entries : last];
	uint16_t status = le16toh(*(const volatile uint16_t *)(const volatile void *)&e->status);

	return NVS_STATUS_PHASE(status) == (qp->phase ^ wraps);
}

/*
 * Who rings an emulated controller waits until its emulator has a moment, and while it is at work
 * it hasn't. So the doorbell waits until it has done all it knows of; but not for ever, and not
 * when that is little.
 */
static bool
qpair_ring_can_wait(const struct nvme_qpair *qp)
{
	uint32_t told = nvme_qpair_told(qp);

	return told >= NVME_HOLD_TOLD && !qpair_has_answered(qp, told) &&
	       rt_turn_ns() - qp->untold_ns < NVME_HOLD_NS;
}

static uint32_t
qpair_unacked(const struct nvme_qpair *qp)
{
	uint32_t seen = qp->cq_head - qp->cq_bell.said;

	return qp->cq_head < qp->cq_bell.said ? seen + qp->entries : seen;
}

/* Gives the controller its completion entries back. */
void
nvme_qpair_ack(struct nvme_qpair *qp)
{
	if (qp->cq_bell.said == qp->cq_head) {
		return;
	}
	if (!qp->shadowed || bell_shadow(&qp->cq_bell, qp->cq_head)) {
		bell_ring(qp, &qp->cq_bell, qp->cq_head);
	}
	qp->cq_bell.said = qp->cq_head;
}

/* The same, when it has to be: there is hardly room for the answers to all that is out, or it
 * should interrupt for the next one. */
void
nvme_qpair_ack_if_due(struct nvme_qpair *qp)
{
	if (qp->irq_on || qpair_unacked(qp) + qp->busy_count + NVME_ACK_SPARE >= qp->entries) {
		nvme_qpair_ack(qp);
	}
}

void
nvme_qpair_ring(struct nvme_qpair *qp)
{
	if (qp->sq_bell.said == qp->sq_tail) {
		return;
	}
	bool ring = !qp->shadowed || bell_shadow(&qp->sq_bell, qp->sq_tail);
	if (!ring) {
		qp->sq_bell.said = qp->sq_tail; /* it is looking */
	} else if (!qp->shadowed || !qpair_ring_can_wait(qp)) {
		if (qp->shadowed && qpair_unacked(qp) >= NVME_ACK_SPARE) {
			nvme_qpair_ack(qp); /* now it has a moment */
		}
		bell_ring(qp, &qp->sq_bell, qp->sq_tail);
	}
}

/* A command has been written. When some have come together the controller works on them while we
 * write more; the last of a turn are told by the poller. */
void
nvme_qpair_advance(struct nvme_qpair *qp)
{
	if (qp->sq_bell.said == qp->sq_tail) {
		qp->untold_ns = rt_turn_ns();
	}
	qp->sq_tail = qp->sq_tail + 1 == qp->entries ? 0 : qp->sq_tail + 1;
	if (qpair_untold(qp) % NVME_RING_MAX == 0) {
		nvme_qpair_ring(qp);
	}
}
