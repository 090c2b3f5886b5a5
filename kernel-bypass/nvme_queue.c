/*
 * nvme_queue.c - the I/O queue pair of one reactor: requests become commands, completions end them.
 * States of a slot and the invariants are told in nvme.h.
 *
 * A request is sent as one or more commands, as many as are free; what is left of it stays at the
 * head of the waiting list. It ends when nothing of it is flying and all has been sent, or
 * something has failed.
 *
 * Controller and reactor work at the same time: a turn takes few answers and lets the fibers that
 * waited for them run. When their commands are told is in nvme_bell.c.
 *
 * Polling and sleeping: while commands are out the poller is on the reactor. It asks for turns,
 * with many commands out after naps (nvme_qpair_nap_ns), until nothing has come for NVME_POLL_NS;
 * then it lets the interrupt through, and the reactor may sleep. After NVME_IRQ_EVENTS completions
 * the interrupt is held back again. Letting through and holding back are system calls; a queue that
 * is kept busy never makes one.
 */
#include "kernel-bypass/nvme.h"

static struct nvme_drive *
drive_of(const struct nvme_req *nr)
{
	return container_of(nr->req.lane->drive, struct nvme_drive, drive);
}

/* ---- the end of a request ---- */

void
nvme_req_begin(struct nvme_req *nr)
{
	memset(&nr->at, 0, sizeof(nr->at));
	nr->flying = 0;
	nr->status = 0;
	nr->flush_sent = false;
	nr->stop = false;
	nr->retry = false;
}

/* Nothing of it is flying and no more will be sent. */
static void
req_end(struct nvme_qpair *qp, struct nvme_req *nr)
{
	list_remove(&nr->wait_link);
	if (nr->retry && nr->req.io != NULL && nr->tries < NVME_TRIES_MAX && !qp->dead) {
		nr->tries++;
		nvme_req_begin(nr);
		list_push_back(&qp->delayed, &nr->wait_link);
		nvme_qpair_arm(qp, rt_now_ns() + NVME_RETRY_NS);
		return;
	}
	kb_req_complete(&nr->req, nr->status);
}

static void
req_fail(struct nvme_req *nr, int status, bool retry)
{
	if (nr->status == 0) {
		nr->status = status;
		nr->retry = retry;
	}
	nr->stop = true;
}

/* ---- commands ---- */

static struct nvme_slot *
slot_take(struct nvme_qpair *qp, struct nvme_req *nr, unsigned *out_index)
{
	unsigned i = qp->free[--qp->free_count];
	struct nvme_slot *s = &qp->slots[i];

	qp->generation = (uint16_t)((qp->generation + 1) & 0xff);
	s->req = nr;
	s->expired_ns = 0;
	atomic_store_explicit(
	    &s->cid, (uint16_t)((uint32_t)qp->generation << 8 | i), memory_order_relaxed);
	qp->busy_count++;
	*out_index = i;
	return s;
}

void
nvme_slot_give(struct nvme_qpair *qp, unsigned i)
{
	struct nvme_slot *s = &qp->slots[i];

	qp->expired_count -= s->expired_ns != 0;
	s->expired_ns = 0;
	s->req = NULL;
	qp->busy_count--;
	qp->free[qp->free_count++] = (uint8_t)i;
}

/* Nearly all there are: one piece of memory, of one or two pages from the start of a page on, for
 * one command. False: not of that kind. */
static bool
fill_plain(const struct nvme_drive *d, struct nvme_req *nr, struct nvs_sqe *sqe)
{
	const struct nvme_dev *dev = d->ctrl->dev;
	uintptr_t off = (uintptr_t)nr->req.iov[0].iov_base - dev->arena_va;
	uint64_t len = nr->req.len_bytes;

	if (nr->req.seg_count != 1 || nr->at.done_bytes != 0 || len > 2 * NVS_PAGE_BYTES ||
	    len > d->limit_bytes || d->ns.boundary_bytes != 0 || off > dev->arena_bytes ||
	    len > dev->arena_bytes - off || (dev->arena_iova + off) % NVS_PAGE_BYTES != 0) {
		return false;
	}
	sqe->dptr.prp[0] = le64_of(dev->arena_iova + off);
	if (len > NVS_PAGE_BYTES) {
		sqe->dptr.prp[1] = le64_of(dev->arena_iova + off + NVS_PAGE_BYTES);
	}
	nr->at.done_bytes = len;
	return true;
}

static int64_t
fill_pieces(struct nvme_qpair *qp, struct nvme_req *nr, unsigned slot, struct nvs_sqe *sqe)
{
	const struct nvme_drive *d = drive_of(nr);
	const struct nvme_dev *dev = qp->ctrl->dev;
	uint64_t off = nr->req.off_bytes + nr->at.done_bytes;
	uint64_t left = nr->req.len_bytes - nr->at.done_bytes;
	struct nvme_map_in in = {
	    .iov = nr->req.iov,
	    .seg_count = nr->req.seg_count,
	    .arena_va = dev->arena_va,
	    .arena_bytes = dev->arena_bytes,
	    .arena_iova = dev->arena_iova,
	    .limit_bytes = (uint32_t)MIN(left, (uint64_t)d->limit_bytes),
	    .block_bytes = 1u << d->ns.block_shift,
	    .list = qp->lists + slot * NVME_LIST_BYTES,
	    .list_iova = qp->lists_iova + slot * NVME_LIST_BYTES,
	};

	if (d->ns.boundary_bytes != 0) {
		uint64_t to_boundary = d->ns.boundary_bytes - off % d->ns.boundary_bytes;
		in.limit_bytes = (uint32_t)MIN(in.limit_bytes, to_boundary);
	}
	in.sgl = d->sgl && in.limit_bytes > 2 * NVS_PAGE_BYTES;
	return nvme_map(&in, &nr->at, sqe);
}

static int64_t
fill_data(struct nvme_qpair *qp, struct nvme_req *nr, unsigned slot, struct nvs_sqe *sqe)
{
	const struct nvme_drive *d = drive_of(nr);
	uint64_t off = nr->req.off_bytes + nr->at.done_bytes;
	int64_t len = (int64_t)nr->req.len_bytes;

	if (!fill_plain(d, nr, sqe)) {
		len = fill_pieces(qp, nr, slot, sqe);
	}
	if (len < 0) {
		return len;
	}
	uint64_t lba = off >> d->ns.block_shift;
	uint32_t blocks = (uint32_t)(len >> d->ns.block_shift);
	bool fua =
	    (nr->req.flags & KB_FUA) != 0 && nr->req.op == KB_WRITE && nvme_drive_needs_flush(d);
	sqe->opcode = nr->req.op == KB_WRITE ? NVS_IO_WRITE : NVS_IO_READ;
	sqe->cdw10 = le32_of((uint32_t)lba);
	sqe->cdw11 = le32_of((uint32_t)(lba >> 32));
	sqe->cdw12 = le32_of((blocks - 1) | (fua ? NVS_IO_FUA : 0));
	return len;
}

/* All of a discard that one command can tell: ranges of at most 2^32 - 1 blocks. */
static int64_t
fill_discard(struct nvme_qpair *qp, struct nvme_req *nr, unsigned slot, struct nvs_sqe *sqe)
{
	const struct nvme_drive *d = drive_of(nr);
	uint8_t *list = qp->lists + slot * NVME_LIST_BYTES;
	uint64_t lba = (nr->req.off_bytes + nr->at.done_bytes) >> d->ns.block_shift;
	uint64_t left = (nr->req.len_bytes - nr->at.done_bytes) >> d->ns.block_shift;
	uint64_t done = 0;
	uint32_t count = 0;

	while (left > 0 && count < NVME_LIST_BYTES / sizeof(struct nvs_dsm_range)) {
		uint32_t blocks = (uint32_t)MIN(left, (uint64_t)UINT32_MAX);
		struct nvs_dsm_range r = {.blocks = le32_of(blocks), .lba = le64_of(lba + done)};
		memcpy(list + count * sizeof(r), &r, sizeof(r));
		count++;
		done += blocks;
		left -= blocks;
	}
	sqe->opcode = NVS_IO_DSM;
	sqe->dptr.prp[0] = le64_of(qp->lists_iova + slot * NVME_LIST_BYTES);
	sqe->cdw10 = le32_of(count - 1);
	sqe->cdw11 = le32_of(NVS_DSM_DEALLOCATE);
	nr->at.done_bytes += done << d->ns.block_shift;
	return (int64_t)(done << d->ns.block_shift);
}

/* A flush, or the one behind a write on a controller that ignores FUA: when all of it is done. */
static bool
req_wants_flush_now(const struct nvme_req *nr)
{
	if (nr->req.op == KB_FLUSH) {
		return !nr->flush_sent;
	}
	return nr->req.op == KB_WRITE && drive_of(nr)->ignores_fua && !nr->flush_sent &&
	       nr->flying == 0 && nr->at.done_bytes == nr->req.len_bytes &&
	       nvme_drive_needs_flush(drive_of(nr));
}

static inline bool
req_wants_flush(const struct nvme_req *nr)
{
	return unlikely(nr->req.op == KB_FLUSH || (nr->req.flags & KB_FUA) != 0) &&
	       req_wants_flush_now(nr);
}

static bool
req_is_sent(const struct nvme_req *nr)
{
	return nr->stop || (nr->at.done_bytes == nr->req.len_bytes && !req_wants_flush(nr));
}

/* One command of the request into the queue. False: it can't be said as a command. */
static bool
qpair_send_one(struct nvme_qpair *qp, struct nvme_req *nr)
{
	struct nvs_sqe sqe = {.nsid = le32_of(drive_of(nr)->ns.nsid)};
	int64_t len = 0;
	unsigned slot;

	struct nvme_slot *s = slot_take(qp, nr, &slot);
	if (req_wants_flush(nr)) {
		sqe.opcode = NVS_IO_FLUSH;
		nr->flush_sent = true;
	} else if (nr->req.op == KB_DISCARD) {
		len = fill_discard(qp, nr, slot, &sqe);
	} else {
		len = fill_data(qp, nr, slot, &sqe);
	}
	if (len < 0) {
		nvme_slot_give(qp, slot);
		log_error("nvme_bad_request drive=%s error=%s", nr->req.lane->drive->info.path,
		    err_str((int)len));
		return false;
	}
	sqe.cid = le16_of(atomic_load_explicit(&s->cid, memory_order_relaxed));
	memcpy(&qp->sq[qp->sq_tail], &sqe, sizeof(sqe));
	nr->flying++;
	nvme_qpair_advance(qp);
	return true;
}

/* Sends of it what there are slots for; false: there were too few. It may have ended. */
static bool
qpair_send(struct nvme_qpair *qp, struct nvme_req *nr)
{
	while (!req_is_sent(nr) && qp->free_count > 0) {
		if (!qpair_send_one(qp, nr)) {
			req_fail(nr, -EIO, false);
		}
	}
	if (!req_is_sent(nr)) {
		return false;
	}
	list_remove(&nr->wait_link);
	if (nr->flying == 0) {
		req_end(qp, nr);
	}
	return true;
}

void
nvme_qpair_fill(struct nvme_qpair *qp)
{
	while (!qp->frozen && qp->free_count > 0 && !list_empty(&qp->waiting)) {
		(void)qpair_send(qp, list_first(&qp->waiting, struct nvme_req, wait_link));
	}
}

/* A new request; it waits in line, unless there is none. */
void
nvme_qpair_add(struct nvme_qpair *qp, struct nvme_req *nr)
{
	bool wait = qp->frozen || qp->free_count == 0 || !list_empty(&qp->waiting);

	if (wait || !qpair_send(qp, nr)) {
		list_push_back(&qp->waiting, &nr->wait_link);
	}
}

/* ---- completions ---- */

/* Something that no working controller does. */
static void
qpair_offence(struct nvme_qpair *qp, const char *what, uint32_t value)
{
	qp->offences++;
	qp->offence_count++;
	if (qp->offences == 1 || qp->offences == NVME_OFFENCES_MAX) {
		log_warn("nvme_offence device=%s queue=%u what=%s value=0x%x", qp->ctrl->name,
		    qp->id, what, value);
	}
	if (qp->offences == NVME_OFFENCES_MAX) {
		nvme_want(qp->ctrl, NVME_WANT_RESET);
	}
}

static void
qpair_command_done(struct nvme_qpair *qp, struct nvme_req *nr, uint32_t raw_status)
{
	uint32_t code = NVS_STATUS_CODE(raw_status);

	nr->flying--;
	if (unlikely(code != NVS_SC_OK)) {
		int err = nvme_status_errno(code);
		req_fail(nr, err, nvme_status_retry(raw_status));
		if (nr->req.io != NULL) {
			log_debug("nvme_status drive=%s op=%d code=0x%x text=\"%s\"",
			    nr->req.lane->drive->info.path, (int)nr->req.op, code,
			    nvme_status_text(code));
		}
		if (err == -ERR_GONE) {
			kb_drive_set_gone(nr->req.lane->drive);
		}
	}
	if (nr->flying > 0) {
		return;
	}
	if (req_is_sent(nr)) {
		req_end(qp, nr);
	} else if (list_empty(&nr->wait_link)) { /* its flush is still to come */
		list_push_back(&qp->waiting, &nr->wait_link);
	}
}

static void
qpair_completion(struct nvme_qpair *qp, const struct nvs_cqe *cqe)
{
	uint16_t cid = le16_get(cqe->cid);
	unsigned i = cid & 0xff;

	if (unlikely(le16_get(cqe->sqid) != qp->id || le16_get(cqe->sqhd) >= qp->entries)) {
		qpair_offence(
		    qp, "queue", (uint32_t)le16_get(cqe->sqid) << 16 | le16_get(cqe->sqhd));
		return;
	}
	if (unlikely(i >= qp->entries || qp->slots[i].req == NULL ||
		     atomic_load_explicit(&qp->slots[i].cid, memory_order_relaxed) != cid)) {
		qpair_offence(qp, "command", cid);
		return;
	}
	struct nvme_req *nr = qp->slots[i].req;
	qp->last_ns = nr->req.start_ns;
	nvme_slot_give(qp, i);
	qpair_command_done(qp, nr, le16_get(cqe->status));
}

/* At most so many, so that a controller that never stops answering doesn't keep us. */
unsigned
nvme_qpair_reap(struct nvme_qpair *qp, unsigned max)
{
	unsigned count = 0;

	while (count < max) {
		volatile struct nvs_cqe *e = &qp->cq[qp->cq_head];
		uint16_t status = le16toh(*(volatile uint16_t *)(volatile void *)&e->status);
		struct nvs_cqe copy;
		if (NVS_STATUS_PHASE(status) != qp->phase) {
			break;
		}
		atomic_thread_fence(memory_order_acquire);
		memcpy(&copy, (const void *)(uintptr_t)e, sizeof(copy));
		copy.status = le16_of(status);
		qp->cq_head++;
		if (qp->cq_head == qp->entries) {
			qp->cq_head = 0;
			qp->phase ^= 1;
		}
		count++;
		qpair_completion(qp, &copy);
	}
	return count;
}

/* ---- polling and sleeping ---- */

static void
qpair_irq_pass(struct nvme_qpair *qp, bool on)
{
	qp->irq_on = on;
	qp->irq_events = 0;
	qp->ctrl->dev->ops->irq_pass(qp->ctrl->dev, qp->vector, on);
}

static void
qpair_saw(struct nvme_qpair *qp, unsigned events)
{
	qp->event_ns = rt_turn_ns();
	uint64_t answer_ns = MIN(qp->event_ns - qp->last_ns, NVME_ANSWER_NS_MAX);
	qp->answer_ns = (7 * qp->answer_ns + answer_ns) / 8;
	qp->irq_events += events;
	if (qp->irq_on && qp->irq_events > NVME_IRQ_EVENTS) {
		qpair_irq_pass(qp, false);
	}
}

/* Silent for long: the interrupt wakes us, or, where there is none, the timer now and then. */
static void
qpair_leave_polling(struct nvme_qpair *qp)
{
	if (qp->irq_is_open) {
		qpair_irq_pass(qp, true);
	} else {
		nvme_qpair_arm(qp, rt_turn_ns() + NVME_NAP_NS);
	}
}

unsigned
nvme_qpair_poll(struct rt_poller *p)
{
	struct nvme_qpair *qp = container_of(p, struct nvme_qpair, poller);

	/* few in a turn, so that the controller has new commands soon after */
	unsigned events = nvme_qpair_reap(qp, NVME_REAP_MAX);
	nvme_qpair_ack_if_due(qp);
	nvme_qpair_ring(qp);
	if (events > 0) {
		nvme_qpair_fill(qp);
		qpair_saw(qp, events);
	} else if (qp->busy_count == 0 && (list_empty(&qp->waiting) || qp->frozen)) {
		nvme_qpair_ack(qp);
		rt_poller_remove(p);
	} else if (!qp->irq_on && rt_turn_ns() - qp->event_ns >= NVME_POLL_NS) {
		nvme_qpair_ack(qp);
		qpair_leave_polling(qp);
	}
	return events;
}

/* As long as something is out and neither interrupt nor timer would tell of it: time passes between
 * poll and here, so what poll has not done yet must not be taken for done. */
bool
nvme_qpair_wants_poll(struct rt_poller *p)
{
	struct nvme_qpair *qp = container_of(p, struct nvme_qpair, poller);

	if (qp->dead) { /* what is still out may come, or never */
		return false;
	}
	bool woken = qp->irq_on || (!qp->irq_is_open && qp->timer.heap_index != 0);
	return qp->sq_bell.said != qp->sq_tail || (qp->busy_count > 0 && !woken) ||
	       rt_turn_ns() - qp->event_ns < NVME_POLL_NS;
}

/* With many commands out a look may be late by a part of what they take anyway: the controller has
 * others to go on with, and the look finds several. */
uint64_t
nvme_qpair_nap_ns(struct rt_poller *p)
{
	struct nvme_qpair *qp = container_of(p, struct nvme_qpair, poller);

	return nvme_qpair_told(qp) < NVME_DOZE_TOLD ? 0 : qp->answer_ns / NVME_DOZE_PART;
}

void
nvme_qpair_irq(struct nvme_irq *irq)
{
	struct nvme_qpair *qp = container_of(irq, struct nvme_qpair, irq);
	unsigned events = nvme_qpair_reap(qp, qp->entries);

	if (events > 0) {
		nvme_qpair_ack(qp);
		nvme_qpair_fill(qp);
		nvme_qpair_ring(qp);
		qpair_saw(qp, events);
	}
}
