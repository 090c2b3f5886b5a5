/*
 * nvme_queue_life.c - the rest of a queue pair: its beginning, deadlines and aborts, second tries,
 * and what the keeper does to it around a reset (freeze, reclaim, thaw) or at the end (kill,
 * abandon).
 */
#include "kernel-bypass/nvme.h"

static void
qpair_wake(struct nvme_qpair *qp)
{
	qp->event_ns = rt_turn_ns();
	if (list_empty(&qp->poller.link)) {
		rt_poller_add(&qp->poller);
	}
}

static void
qpair_go_on(struct nvme_qpair *qp)
{
	nvme_qpair_fill(qp);
	if (qp->busy_count > 0) {
		qpair_wake(qp);
	}
}

/* The queues as the controller takes them for new: at the start, phase 0 everywhere. */
static void
qpair_rewind(struct nvme_qpair *qp)
{
	memset((void *)(uintptr_t)qp->cq, 0, qp->entries * sizeof(*qp->cq));
	qp->sq_tail = qp->sq_bell.said = 0;
	qp->cq_head = qp->cq_bell.said = 0;
	qp->shadowed = false;
	qp->phase = 1;
	qp->offences = 0;
}

void
nvme_qpair_init(struct nvme_qpair *qp)
{
	list_init(&qp->waiting);
	list_init(&qp->delayed);
	list_init(&qp->poller.link);
	qp->poller.poll = nvme_qpair_poll;
	qp->poller.wants_poll = nvme_qpair_wants_poll;
	qp->poller.nap_ns = nvme_qpair_nap_ns;
	qp->irq.fn = nvme_qpair_irq;
	qp->frozen = true;
	/* one less than entries: the queue is never full */
	for (unsigned i = 0; i + 1 < qp->entries; i++) {
		qp->free[qp->free_count++] = (uint8_t)(qp->entries - 2 - i);
	}
	qpair_rewind(qp);
}

void
nvme_qpair_start(struct nvme_qpair *qp, struct nvme_req *nr)
{
	list_init(&nr->wait_link);
	nr->tries = 1;
	nvme_req_begin(nr);
	if (qp->dead) {
		kb_req_complete(&nr->req, -ERR_GONE);
		return;
	}
	nvme_qpair_add(qp, nr);
	if (qp->busy_count > 0) {
		qpair_wake(qp);
	}
}

/* ---- deadlines ---- */

static bool
qpair_expired_too_long(const struct nvme_qpair *qp, uint64_t now_ns)
{
	for (unsigned i = 0; i < qp->entries; i++) {
		const struct nvme_slot *s = &qp->slots[i];
		if (s->expired_ns != 0 && now_ns - s->expired_ns >= NVME_ABORT_GRACE_NS) {
			return true;
		}
	}
	return false;
}

static void
qpair_timer(struct rt_timer *t)
{
	struct nvme_qpair *qp = container_of(t, struct nvme_qpair, timer);
	uint64_t now_ns = rt_now_ns();

	if (!list_empty(&qp->delayed)) {
		list_splice_back(&qp->waiting, &qp->delayed);
		qpair_go_on(qp);
	}
	if (!list_empty(&qp->poller.link)) {
		(void)nvme_qpair_poll(&qp->poller);
	}
	if (qp->expired_count == 0 || qp->dead) {
		return;
	}
	if (qpair_expired_too_long(qp, now_ns)) {
		nvme_want(qp->ctrl, NVME_WANT_RESET);
	}
	nvme_qpair_arm(qp, now_ns + NVME_ABORT_GRACE_NS / 2);
}

/* Not later than at_ns. */
void
nvme_qpair_arm(struct nvme_qpair *qp, uint64_t at_ns)
{
	if (qp->timer.heap_index == 0 || qp->timer.deadline_ns > at_ns) {
		rt_timer_arm(&qp->timer, at_ns, qpair_timer);
	}
}

/* Marks its commands and asks the keeper to abort them. */
static void
qpair_expire(struct nvme_qpair *qp, const struct nvme_req *nr)
{
	uint64_t now_ns = rt_now_ns();

	for (unsigned i = 0; i < qp->entries; i++) {
		struct nvme_slot *s = &qp->slots[i];
		if (s->req == nr && s->expired_ns == 0) {
			s->expired_ns = now_ns;
			qp->expired_count++;
			atomic_fetch_or(&qp->abort_bits[i / 64], (uint64_t)1 << i % 64);
		}
	}
	nvme_qpair_arm(qp, now_ns + NVME_ABORT_GRACE_NS);
	nvme_want(qp->ctrl, NVME_WANT_ABORTS);
}

bool
nvme_qpair_cancel(struct nvme_qpair *qp, struct nvme_req *nr)
{
	list_remove(&nr->wait_link);
	nr->stop = true;
	nr->retry = false;
	if (nr->flying == 0) {
		return true;
	}
	if (nr->status == 0) {
		nr->status = -ETIMEDOUT;
	}
	qpair_expire(qp, nr);
	return false;
}

/* ---- around a reset ---- */

void
nvme_qpair_freeze(struct nvme_qpair *qp)
{
	qp->frozen = true;
}

/* All its commands have been taken back. */
static void
req_reclaim(struct nvme_qpair *qp, struct nvme_req *nr)
{
	list_remove(&nr->wait_link);
	if (nr->req.io != NULL && !nr->stop && nr->tries < NVME_TRIES_MAX) {
		nr->tries++;
		qp->requeue_count++;
		nvme_req_begin(nr);
		list_push_back(&qp->waiting, &nr->wait_link);
		return;
	}
	kb_req_complete(&nr->req, nr->status != 0 ? nr->status : -EIO);
}

void
nvme_qpair_reclaim(struct nvme_qpair *qp)
{
	nvme_qpair_reap(qp, qp->entries);
	for (unsigned i = 0; i < qp->entries; i++) {
		struct nvme_req *nr = qp->slots[i].req;
		if (nr == NULL) {
			continue;
		}
		nvme_slot_give(qp, i);
		nr->flying--;
		if (nr->flying == 0) {
			req_reclaim(qp, nr);
		}
	}
	ASSERT(qp->busy_count == 0 && qp->expired_count == 0);
	qpair_rewind(qp);
}

void
nvme_qpair_thaw(struct nvme_qpair *qp)
{
	qp->frozen = false;
	qp->shadowed = qp->ctrl->shadowed;
	qpair_go_on(qp);
}

/* ---- the end ---- */

static void
qpair_end_waiting(struct nvme_qpair *qp)
{
	qp->dead = true;
	list_splice_back(&qp->waiting, &qp->delayed);
	while (!list_empty(&qp->waiting)) {
		struct nvme_req *nr = list_first(&qp->waiting, struct nvme_req, wait_link);
		list_remove(&nr->wait_link);
		if (nr->flying == 0) {
			kb_req_complete(&nr->req, -ERR_GONE);
		} else {
			nr->stop = true;
			nr->status = -ERR_GONE;
		}
	}
}

void
nvme_qpair_kill(struct nvme_qpair *qp)
{
	qp->frozen = true;
	nvme_qpair_reclaim(qp);
	qpair_end_waiting(qp);
	if (!list_empty(&qp->poller.link)) {
		rt_poller_remove(&qp->poller);
	}
	rt_timer_cancel(&qp->timer);
}

void
nvme_qpair_abandon(struct nvme_qpair *qp)
{
	qp->frozen = true;
	qpair_end_waiting(qp);
	rt_timer_cancel(&qp->timer);
	atomic_fetch_add(&qp->ctrl->stuck, qp->busy_count);
}

/* ---- interrupts ---- */

void
nvme_qpair_irq_open(struct nvme_qpair *qp)
{
	const struct nvme_dev *dev = qp->ctrl->dev;

	if (qp->id < dev->vectors && dev->ops->irq_open(qp->ctrl->dev, qp->id, &qp->irq) == 0) {
		qp->vector = qp->id;
		qp->irq_is_open = true;
	}
}

void
nvme_qpair_irq_close(struct nvme_qpair *qp)
{
	if (qp->irq_is_open) {
		qp->irq_is_open = false;
		qp->ctrl->dev->ops->irq_close(qp->ctrl->dev, qp->vector);
	}
}
