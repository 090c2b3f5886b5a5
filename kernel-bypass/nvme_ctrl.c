/*
 * nvme_ctrl.c - the keeper of a controller: one fiber that waits for something to be wanted of it,
 * does it, and looks after the controller twice a second. States and who moves them: nvme.h.
 *
 * A reset: freeze all queue pairs, make sure that the controller is off, take back what was in
 * flight, start again, thaw. If it doesn't start it is tried once more; then it is dead.
 */
#include <stdio.h>
#include "kernel-bypass/nvme.h"

void
nvme_want(struct nvme_ctrl *c, uint32_t bits)
{
	atomic_fetch_or(&c->want, bits);
	struct fiber *keeper = atomic_load(&c->keeper);
	if (keeper != NULL) {
		fiber_wake(keeper);
	}
}

static enum nvme_state
state_of(struct nvme_ctrl *c)
{
	return (enum nvme_state)atomic_load(&c->state);
}

/* ---- all reactors ---- */

static void
qpair_msg(struct rt_msg *m)
{
	struct nvme_qpair *qp = container_of(m, struct nvme_qpair, msg);
	struct waitgroup *round = &qp->ctrl->round;

	qp->msg_fn(qp);
	wg_done(round);
}

void
nvme_qpairs_each(struct nvme_ctrl *c, void (*fn)(struct nvme_qpair *qp))
{
	wg_add(&c->round, c->qp_count);
	for (unsigned i = 0; i < c->qp_count; i++) {
		c->qps[i].msg_fn = fn;
		c->qps[i].msg.fn = qpair_msg;
		rt_post(i, &c->qps[i].msg);
	}
	wg_wait(&c->round);
}

/* ---- giving back ---- */

static void
ctrl_irqs_close(struct nvme_ctrl *c)
{
	nvme_qpairs_each(c, nvme_qpair_irq_close);
	if (c->irq_is_open) {
		c->dev->ops->irq_close(c->dev, 0);
	}
	if (c->release_is_open) {
		c->dev->ops->irq_close(c->dev, NVME_VECTOR_RELEASE);
	}
}

static void
ctrl_free_run(void *arg)
{
	struct nvme_ctrl *c = arg;
	struct nvme_dev *dev = c->dev;

	for (unsigned i = 0; c->qps != NULL && i < c->qp_count; i++) {
		if (c->qps[i].dma.va != NULL) {
			dev->ops->dma_free(dev, &c->qps[i].dma);
		}
	}
	if (c->admin.dma.va != NULL) {
		dev->ops->dma_free(dev, &c->admin.dma);
	}
	dev->ops->close(dev);
}

/* Interrupts, memory and device; the controller is certainly off. Whoever wants the device back can
 * have it, whether our drives are still open or not. */
static void
ctrl_give_back(struct nvme_ctrl *c)
{
	ctrl_irqs_close(c);
	offload(ctrl_free_run, c);
	c->dev = NULL;
}

/* ---- reset and death ---- */

static void
ctrl_die(struct nvme_ctrl *c, bool quiet, const char *why)
{
	log_error("nvme_dead device=%s serial=%s reason=\"%s\" dma=%s", c->name, c->id.serial, why,
	    quiet ? "stopped" : "unknown");
	atomic_store(&c->state, NVME_DEAD);
	c->abandoned = !quiet;
	nvme_drives_gone(c);
	nvme_qpairs_each(c, quiet ? nvme_qpair_kill : nvme_qpair_abandon);
	if (quiet) {
		ctrl_give_back(c);
	}
}

/* Too many lately? Notes this one. */
static bool
resets_exhausted(struct nvme_ctrl *c)
{
	uint64_t now_ns = rt_now_ns();
	uint64_t *oldest = &c->reset_ns[c->resets % NVME_RESETS_MAX];
	bool too_many = c->resets >= NVME_RESETS_MAX && now_ns - *oldest < NVME_RESETS_NS;

	*oldest = now_ns;
	c->resets++;
	return too_many;
}

static void
ctrl_reset(struct nvme_ctrl *c)
{
	log_warn("nvme_reset device=%s serial=%s", c->name, c->id.serial);
	c->count.resets++;
	atomic_store(&c->state, NVME_RESETTING);
	nvme_qpairs_each(c, nvme_qpair_freeze);
	int off = nvme_quiesce(c);
	if (off != 0 || nvme_is_absent(c)) {
		ctrl_die(c, off == 0, off == 0 ? "it is not there" : "it can't be stopped");
		return;
	}
	nvme_qpairs_each(c, nvme_qpair_reclaim);
	if (resets_exhausted(c)) {
		ctrl_die(c, true, "too many resets");
		return;
	}
	int err = nvme_run_start(c);
	if (err != 0) {
		const char *why = c->why;
		ctrl_die(c, nvme_quiesce(c) == 0, why);
		return;
	}
	nvme_drives_check(c);
	/* those who wanted one more meanwhile meant the time before */
	atomic_fetch_and(&c->want, ~NVME_WANT_RESET);
	atomic_store(&c->state, NVME_LIVE);
	nvme_qpairs_each(c, nvme_qpair_thaw);
}

/* ---- what is wanted ---- */

/* One that isn't answered means a reset, which ends the others as well. */
static bool
aborts_make_sense(struct nvme_ctrl *c)
{
	return state_of(c) == NVME_LIVE && (atomic_load(&c->want) & NVME_WANT_RESET) == 0;
}

static void
ctrl_aborts(struct nvme_ctrl *c)
{
	for (unsigned q = 0; q < c->qp_count; q++) {
		struct nvme_qpair *qp = &c->qps[q];
		for (unsigned w = 0; w < ARRAY_LEN(qp->abort_bits); w++) {
			uint64_t bits = atomic_exchange(&qp->abort_bits[w], 0);
			for (; bits != 0 && aborts_make_sense(c); bits &= bits - 1) {
				unsigned i = w * 64 + (unsigned)__builtin_ctzll(bits);
				nvme_admin_abort(c, qp->id, atomic_load(&qp->slots[i].cid));
			}
		}
	}
}

static int
health_errors(struct nvme_ctrl *c, struct kb_health *h)
{
	unsigned count = NVS_PAGE_BYTES / sizeof(struct nvs_log_error);

	int err = nvme_admin_log(c, NVS_LOG_ERROR, (uint32_t)sizeof(struct nvs_log_error));
	if (err != 0) {
		return err == -EIO ? 0 : err; /* refused: then it has no such log */
	}
	for (unsigned i = 0; i < count; i++) {
		struct nvs_log_error e;
		memcpy(&e, c->admin.page + i * sizeof(e), sizeof(e));
		if (le64_get(e.count) == 0) {
			break;
		}
		if (i == 0) {
			h->last_error_status = NVS_STATUS_CODE(le16_get(e.status));
			h->last_error_lba = le64_get(e.lba);
		}
		h->errors_logged++;
	}
	return 0;
}

static int
health_firmware(struct nvme_ctrl *c, struct kb_health *h)
{
	struct nvs_log_firmware fw;

	snprintf(h->firmware, sizeof(h->firmware), "%s", c->id.firmware);
	int err = nvme_admin_log(c, NVS_LOG_FIRMWARE, sizeof(fw));
	if (err != 0) {
		return err == -EIO ? 0 : err;
	}
	memcpy(&fw, c->admin.page, sizeof(fw));
	unsigned next = fw.active >> 4 & 7u;
	h->firmware_pending = next != 0 && next != (fw.active & 7u);
	return 0;
}

static void
ctrl_health(struct nvme_ctrl *c)
{
	struct kb_health h = {0};
	int err = state_of(c) == NVME_LIVE ? 0 : -ERR_GONE;

	if (err == 0) {
		err = nvme_admin_log(c, NVS_LOG_HEALTH, sizeof(struct nvs_log_health));
	}
	if (err == 0) {
		nvme_decode_health((const struct nvs_log_health *)(const void *)c->admin.page, &h);
		err = health_errors(c, &h);
	}
	if (err == 0) {
		err = health_firmware(c, &h);
	}
	if (err == -ETIMEDOUT) {
		nvme_want(c, NVME_WANT_RESET);
	}
	c->health = h;
	c->health_err = err;
	wg_done(&c->health_done);
}

/* Reading the log lets the controller tell of the next such event. */
static void
ctrl_event(struct nvme_ctrl *c)
{
	log_notice("nvme_event device=%s serial=%s type=%u info=0x%x", c->name, c->id.serial,
	    c->event_type, c->event_info);
	int err = 0;
	if (c->event_log == NVS_LOG_NS_CHANGED) {
		err = nvme_admin_log(c, c->event_log, NVS_PAGE_BYTES);
	} else if (c->event_log != 0) {
		err = nvme_admin_log(c, c->event_log, 512);
	}
	if (err == 0 && c->event_type == NVS_AER_NOTICE &&
	    c->event_info == NVS_AER_NOTICE_NS_CHANGED) {
		err = nvme_run_namespaces(c);
		if (err == 0) {
			nvme_drives_check(c);
		}
	}
	if (err == -ETIMEDOUT) {
		nvme_want(c, NVME_WANT_RESET);
	}
}

/* Twice a second, and whenever something is wanted. */
static void
ctrl_look(struct nvme_ctrl *c)
{
	uint32_t csts = c->dev->ops->read32(c->dev, NVS_REG_CSTS);

	if (csts == NVS_ALL_ONES32 && !nvme_is_absent(c)) {
		csts = c->dev->ops->read32(c->dev, NVS_REG_CSTS);
	}
	if (csts == NVS_ALL_ONES32) {
		ctrl_die(c, true, "it is not there");
	} else if ((csts & (NVS_CSTS_CFS | NVS_CSTS_RDY)) != NVS_CSTS_RDY) {
		/* fatal, or somebody else has reset it */
		nvme_want(c, NVME_WANT_RESET);
	} else {
		nvme_admin_events(c);
	}
}

static void
ctrl_serve(struct nvme_ctrl *c, uint32_t want)
{
	if (state_of(c) == NVME_LIVE) {
		ctrl_look(c);
	}
	if ((want & NVME_WANT_RELEASE) != 0 && state_of(c) == NVME_LIVE) {
		nvme_qpairs_each(c, nvme_qpair_freeze);
		nvme_shutdown(c);
		ctrl_die(c, nvme_quiesce(c) == 0, "the kernel wants it back");
	}
	if ((want & NVME_WANT_RESET) != 0 && state_of(c) == NVME_LIVE) {
		ctrl_reset(c);
	}
	if ((want & NVME_WANT_ABORTS) != 0 && state_of(c) == NVME_LIVE) {
		ctrl_aborts(c);
	}
	if ((want & NVME_WANT_EVENTS) != 0 && state_of(c) == NVME_LIVE) {
		ctrl_event(c);
	}
	if ((want & NVME_WANT_HEALTH) != 0) {
		ctrl_health(c);
	}
}

/* ---- the keeper ---- */

static void
ctrl_irq(struct nvme_irq *irq)
{
	struct fiber *keeper = atomic_load(&container_of(irq, struct nvme_ctrl, irq)->keeper);

	if (keeper != NULL) {
		fiber_wake(keeper);
	}
}

static void
ctrl_release_irq(struct nvme_irq *irq)
{
	nvme_want(container_of(irq, struct nvme_ctrl, release_irq), NVME_WANT_RELEASE);
}

static void
ctrl_irqs_open(struct nvme_ctrl *c)
{
	struct nvme_dev *dev = c->dev;

	c->irq.fn = ctrl_irq;
	c->release_irq.fn = ctrl_release_irq;
	/* without them the keeper still looks twice a second */
	c->irq_is_open = dev->vectors > 0 && dev->ops->irq_open(dev, 0, &c->irq) == 0;
	c->release_is_open = dev->ops->irq_open(dev, NVME_VECTOR_RELEASE, &c->release_irq) == 0;
	if (c->irq_is_open) {
		dev->ops->irq_pass(dev, 0, true);
	}
	nvme_qpairs_each(c, nvme_qpair_irq_open);
}

/* A controller that could not be stopped, and whose drives are all being closed: a last try. True:
 * the keeper has nothing left to do, since requests that never end keep the drives for ever. */
static bool
keeper_may_leave(struct nvme_ctrl *c)
{
	spin_lock(&c->guard);
	bool all = c->drive_count > 0 && atomic_load(&c->closing) == c->drive_count;
	spin_unlock(&c->guard);
	if (!c->abandoned || !all) {
		return false;
	}
	if (nvme_cut_off(c) == 0) {
		c->abandoned = false;
		nvme_qpairs_each(c, nvme_qpair_kill);
		ctrl_give_back(c);
		return false;
	}
	atomic_store(&c->stuck, 0);
	nvme_qpairs_each(c, nvme_qpair_abandon);
	return atomic_load(&c->stuck) > 0;
}

/* Nothing is given back, since the controller may still write to it. */
static void
keeper_leave(struct nvme_ctrl *c)
{
	atomic_store(&c->keeper, NULL);
	ctrl_irqs_close(c);
	spin_lock(&c->guard);
	atomic_store(&c->state, NVME_STOPPED);
	bool asked = (atomic_load(&c->want) & NVME_WANT_STOP) != 0;
	spin_unlock(&c->guard);
	if (asked) {
		rt_post(c->stop_reactor, c->stop_msg);
	}
}

/* False: it leaves, and the controller stays as it is. */
static bool
keeper_loop(struct nvme_ctrl *c)
{
	uint32_t want = 0;

	while ((want & NVME_WANT_STOP) == 0) {
		/* what came while something else was waited for has used up its wake */
		if (atomic_load(&c->want) == 0) {
			(void)fiber_park_until(rt_now_ns() + NVME_HEARTBEAT_NS);
		}
		want = atomic_exchange(&c->want, 0);
		ctrl_serve(c, want);
		if (keeper_may_leave(c)) {
			keeper_leave(c);
			return false;
		}
	}
	return true;
}

void
nvme_ctrl_free(struct nvme_ctrl *c)
{
	if (c->dev != NULL) {
		offload(ctrl_free_run, c);
	}
	mem_free(c->qps);
	mem_free(c);
}

/* False: it may still write to our memory, which then stays. */
static bool
ctrl_turn_off(struct nvme_ctrl *c)
{
	if (c->dev == NULL) {
		return true;
	}
	if (state_of(c) == NVME_LIVE) {
		nvme_qpairs_each(c, nvme_qpair_freeze);
		nvme_shutdown(c);
	}
	bool off = nvme_quiesce(c) == 0;
	nvme_qpairs_each(c, off ? nvme_qpair_kill : nvme_qpair_abandon);
	ctrl_irqs_close(c);
	return off;
}

/* The last lane learns of the end on its own reactor. */
static void
ctrl_stop(struct nvme_ctrl *c)
{
	spin_lock(&c->guard); /* who asked is out of it */
	struct rt_msg *stop = c->stop_msg;
	unsigned reactor = c->stop_reactor;
	spin_unlock(&c->guard);

	atomic_store(&c->keeper, NULL);
	bool off = ctrl_turn_off(c);
	atomic_store(&c->state, NVME_STOPPED);
	if (off) {
		nvme_ctrl_free(c);
	}
	rt_post(reactor, stop);
}

void
nvme_keeper_main(void *arg)
{
	struct nvme_ctrl *c = arg;

	atomic_store(&c->keeper, fiber_self());
	ctrl_irqs_open(c);
	int err = nvme_run_start(c);
	atomic_store(&c->state, err == 0 ? NVME_LIVE : NVME_DEAD);
	if (err == 0) {
		nvme_qpairs_each(c, nvme_qpair_thaw);
	}
	c->open_err = err;
	if (err == 0) {
		log_info("nvme_open device=%s serial=%s model=\"%s\" namespaces=%u queues=%u",
		    c->name, c->id.serial, c->id.model, c->ns_count, c->qp_count);
	}
	wg_done(&c->opened);
	if (keeper_loop(c)) {
		ctrl_stop(c);
	}
}

/* Once the keeper has seen the wish, c may go: it is told, and woken, under the guard. */
void
nvme_ctrl_stop_then(struct nvme_ctrl *c, struct rt_msg *then)
{
	spin_lock(&c->guard);
	bool left = state_of(c) == NVME_STOPPED;
	c->stop_msg = then;
	c->stop_reactor = rt_reactor_self();
	if (!left) {
		nvme_want(c, NVME_WANT_STOP);
	}
	spin_unlock(&c->guard);
	if (left) {
		rt_post(rt_reactor_self(), then);
	}
}
