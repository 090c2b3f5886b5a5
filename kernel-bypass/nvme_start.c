/*
 * nvme_start.c - how a controller is brought up and stopped: straight steps, each with a name and a
 * deadline. The first that fails ends it, and its name and reason are kept in c->why. The keeper
 * runs them, at the first start and after every reset alike.
 */
#include "kernel-bypass/nvme.h"

#define REG_NAP_NS (500 * NSEC_PER_USEC)
#define DELAY_READY_NS (2 * NSEC_PER_SEC)

struct nvme_step {
	const char *name;
	int (*run)(struct nvme_ctrl *c, uint64_t deadline_ns);
	uint32_t limit_ms; /* 0: what the controller says it needs to become ready */
};

static int
fail(struct nvme_ctrl *c, int err, const char *why)
{
	c->why = why;
	return err;
}

bool
nvme_is_absent(struct nvme_ctrl *c)
{
	for (unsigned i = 0; c->dev->ops->read32(c->dev, NVS_REG_CSTS) == NVS_ALL_ONES32; i++) {
		if (i == NVME_ABSENT_TRIES) {
			return true;
		}
		fiber_sleep(NVME_ABSENT_NS);
	}
	return false;
}

/* Until CSTS.RDY is as wanted. */
static int
wait_ready(struct nvme_ctrl *c, bool ready, uint64_t deadline_ns)
{
	for (;;) {
		uint32_t csts = c->dev->ops->read32(c->dev, NVS_REG_CSTS);
		if (csts == NVS_ALL_ONES32) {
			if (nvme_is_absent(c)) {
				return fail(c, -ERR_GONE, "it is not there");
			}
			continue;
		}
		if (((csts & NVS_CSTS_RDY) != 0) == ready) {
			return 0;
		}
		if (ready && (csts & NVS_CSTS_CFS) != 0) {
			return fail(c, -EIO, "fatal controller status");
		}
		if (ready && (c->dev->ops->read32(c->dev, NVS_REG_CC) & NVS_CC_EN) == 0) {
			return fail(c, -EAGAIN, "somebody has reset it");
		}
		if (rt_now_ns() >= deadline_ns) {
			return fail(c, -ETIMEDOUT, "not ready in time");
		}
		fiber_sleep(REG_NAP_NS);
	}
}

static int
step_disable(struct nvme_ctrl *c, uint64_t deadline_ns)
{
	if (nvme_is_absent(c)) {
		return fail(c, -ERR_GONE, "it is not there");
	}
	uint32_t cc = c->dev->ops->read32(c->dev, NVS_REG_CC);
	uint32_t csts = c->dev->ops->read32(c->dev, NVS_REG_CSTS);
	if ((cc & NVS_CC_EN) != 0) {
		/* turning it off while it turns on is not allowed; a fatal one never gets ready */
		if ((csts & (NVS_CSTS_RDY | NVS_CSTS_CFS)) == 0) {
			(void)wait_ready(c, true, deadline_ns);
		}
		c->dev->ops->write32(c->dev, NVS_REG_CC, cc & ~(NVS_CC_EN | NVS_CC_SHN_MASK));
		if ((c->quirks & NVME_QUIRK_DELAY_READY) != 0) {
			fiber_sleep(DELAY_READY_NS);
		}
	}
	return wait_ready(c, false, MAX(deadline_ns, rt_now_ns() + c->ready_ms * NSEC_PER_MSEC));
}

static int
step_capabilities(struct nvme_ctrl *c, uint64_t deadline_ns)
{
	uint32_t last = 2 * c->qp_count + 1; /* the last doorbell */

	(void)deadline_ns;
	if (!NVS_CAP_CSS_NVM(c->cap)) {
		return fail(c, -EINVAL, "it does not know the NVM command set");
	}
	if (NVS_CAP_MPSMIN(c->cap) != 0) {
		return fail(c, -EINVAL, "it wants pages larger than 4096 bytes");
	}
	if (NVS_CAP_MQES(c->cap) < 1) {
		return fail(c, -EINVAL, "its queues are too short");
	}
	if (((uint64_t)last + 1) * c->stride > c->dev->doorbell_bytes) {
		return fail(c, -EINVAL, "its doorbells are outside its registers");
	}
	return 0;
}

static int
step_enable(struct nvme_ctrl *c, uint64_t deadline_ns)
{
	const struct nvme_dev_ops *ops = c->dev->ops;
	uint32_t size = NVME_ADMIN_ENTRIES - 1;
	uint32_t css = NVS_CAP_CSS_IOCS(c->cap) ? NVS_CC_CSS_ALL : 0;

	nvme_admin_reset(c);
	c->shadowed = false;
	c->admin_offences = 0;
	ops->write32(c->dev, NVS_REG_AQA, size << 16 | size);
	ops->write64(c->dev, NVS_REG_ASQ, c->admin.dma.iova);
	ops->write64(c->dev, NVS_REG_ACQ, c->admin.dma.iova + NVS_PAGE_BYTES);
	ops->write32(c->dev, NVS_REG_CC, NVS_CC_IOCQES | NVS_CC_IOSQES | css | NVS_CC_EN);
	return wait_ready(c, true, deadline_ns);
}

static int
step_identify(struct nvme_ctrl *c, uint64_t deadline_ns)
{
	struct nvme_id id;

	(void)deadline_ns;
	int err = nvme_admin_identify(c, NVS_CNS_CONTROLLER, 0);
	if (err != 0) {
		return fail(c, err, "it did not identify itself");
	}
	err =
	    nvme_decode_ctrl((const struct nvs_id_ctrl *)(const void *)c->admin.page, &id, &c->why);
	if (err != 0) {
		return err;
	}
	if (c->id.serial[0] != '\0' &&
	    (strcmp(id.serial, c->id.serial) != 0 || strcmp(id.model, c->id.model) != 0)) {
		return fail(c, -ERR_GONE, "another drive is in its place");
	}
	spin_lock(&c->guard);
	c->id = id;
	spin_unlock(&c->guard);
	return 0;
}

/* A cache that is turned off needs no flushes. */
static int
step_write_cache(struct nvme_ctrl *c, uint64_t deadline_ns)
{
	uint32_t enabled = 1;

	(void)deadline_ns;
	if (!c->id.volatile_cache) {
		return 0;
	}
	int err = nvme_admin_get_feature(c, NVS_FEAT_WRITE_CACHE, &enabled);
	if (err != 0 && err != -EIO) {
		return fail(c, err, "it did not say whether its cache is on");
	}
	spin_lock(&c->guard);
	c->id.volatile_cache = (enabled & 1) != 0;
	spin_unlock(&c->guard);
	return 0;
}

/* Only what is emulated knows this: a write to a doorbell is dear there. */
static int
step_shadow_bells(struct nvme_ctrl *c, uint64_t deadline_ns)
{
	const struct nvme_qpair *last = &c->qps[c->qp_count - 1];

	(void)deadline_ns;
	if (!c->id.shadow_bells || (c->quirks & NVME_QUIRK_NO_SHADOW) != 0 ||
	    last->cq_bell.shadow == NULL) {
		return 0;
	}
	int err = nvme_admin_shadow_bells(c);
	c->shadowed = err == 0;
	return err == 0 || err == -EIO ? 0
				       : fail(c, err, "it did not answer about shadow doorbells");
}

static int
step_queue_count(struct nvme_ctrl *c, uint64_t deadline_ns)
{
	uint32_t ask = c->qp_count - 1;
	uint32_t got = 0;

	(void)deadline_ns;
	int err = nvme_admin_feature(c, NVS_FEAT_QUEUES, ask << 16 | ask, &got);
	if (err != 0) {
		return fail(c, err, "it did not say how many queues it has");
	}
	if ((got & 0xffff) < ask || got >> 16 < ask) {
		return fail(c, -ENOSPC, "it has fewer queues than there are reactors");
	}
	return 0;
}

static int
step_create_queues(struct nvme_ctrl *c, uint64_t deadline_ns)
{
	for (unsigned i = 0; i < c->qp_count; i++) {
		int err = nvme_admin_create_queues(c, &c->qps[i]);
		if (err == 0 && rt_now_ns() >= deadline_ns) {
			err = -ETIMEDOUT;
		}
		if (err != 0) {
			return fail(c, err, "a queue could not be created");
		}
	}
	return 0;
}

/* An identifier list is optional; without it the older fields serve. */
static void
ns_identify(struct nvme_ctrl *c, struct nvme_ns *ns, const struct nvs_id_ns *raw)
{
	bool has_descs = nvme_admin_identify(c, NVS_CNS_NS_DESCS, ns->nsid) == 0;

	nvme_decode_wwn(&c->id, raw, has_descs ? c->admin.page : NULL,
	    (c->quirks & NVME_QUIRK_BOGUS_WWN) == 0, ns);
}

static int
ns_add(struct nvme_ctrl *c, uint32_t nsid)
{
	struct nvme_ns *ns = &c->found[c->found_count];
	const char *why = NULL;
	struct nvs_id_ns *raw = mem_zalloc(sizeof(*raw));

	if (raw == NULL) {
		return -ENOMEM;
	}
	int err = nvme_admin_identify(c, NVS_CNS_NAMESPACE, nsid);
	if (err == 0) {
		memcpy(raw, c->admin.page, sizeof(*raw));
		if (nvme_decode_ns(raw, nsid, ns, &why) == 0) {
			c->found_count++;
			ns_identify(c, ns, raw);
		} else {
			log_notice("nvme_namespace_unusable device=%s nsid=%u reason=\"%s\"",
			    c->name, nsid, why);
		}
	}
	mem_free(raw);
	return err == -EIO ? 0 : err; /* refused: there is no such namespace, or not any more */
}

static int
step_namespaces(struct nvme_ctrl *c, uint64_t deadline_ns)
{
	struct le32 list[NVME_NAMESPACES_MAX];

	c->found_count = 0;
	int err = nvme_admin_identify(c, NVS_CNS_NS_LIST, 0);
	if (err == 0) {
		memcpy(list, c->admin.page, sizeof(list));
	} else if (err == -EIO) { /* NVMe 1.0 has no such list */
		for (uint32_t i = 0; i < NVME_NAMESPACES_MAX; i++) {
			list[i] = le32_of(i < c->id.namespaces ? i + 1 : 0);
		}
		err = 0;
	}
	for (uint32_t i = 0, last = 0; err == 0 && i < NVME_NAMESPACES_MAX; i++) {
		uint32_t nsid = le32_get(list[i]);
		if (nsid == 0) {
			break;
		}
		/* ascending: no namespace twice */
		if (nsid <= last || nsid == NVS_NSID_ALL || rt_now_ns() >= deadline_ns) {
			return fail(c, -EINVAL, "its list of namespaces makes no sense");
		}
		last = nsid;
		err = ns_add(c, nsid);
	}
	if (err != 0) {
		return fail(c, err, "a namespace did not identify itself");
	}
	spin_lock(&c->guard);
	memcpy(c->ns, c->found, sizeof(c->ns));
	c->ns_count = c->found_count;
	spin_unlock(&c->guard);
	return 0;
}

static int
step_events(struct nvme_ctrl *c, uint64_t deadline_ns)
{
	(void)deadline_ns;
	int err = nvme_admin_feature(c, NVS_FEAT_EVENTS, c->id.events, NULL);
	if (err != 0 && err != -EIO) {
		return fail(c, err, "it did not answer about events");
	}
	nvme_admin_events(c);
	return 0;
}

static const struct nvme_step start_steps[] = {
    {"disable", step_disable, 0},
    {"capabilities", step_capabilities, 0},
    {"enable", step_enable, 0},
    {"identify", step_identify, 10000},
    {"write-cache", step_write_cache, 10000},
    {"shadow-doorbells", step_shadow_bells, 10000},
    {"queue-count", step_queue_count, 10000},
    {"create-queues", step_create_queues, 30000},
    {"namespaces", step_namespaces, 60000},
    {"events", step_events, 10000},
};

static int
start_once(struct nvme_ctrl *c)
{
	c->why = NULL;
	for (size_t i = 0; i < ARRAY_LEN(start_steps); i++) {
		const struct nvme_step *s = &start_steps[i];
		uint32_t ms = s->limit_ms != 0 ? s->limit_ms : c->ready_ms;
		int err = s->run(c, rt_now_ns() + ms * NSEC_PER_MSEC);
		if (err != 0) {
			log_warn("nvme_step_failed device=%s step=%s error=%s reason=\"%s\"",
			    c->name, s->name, err_str(err), c->why != NULL ? c->why : "");
			return err;
		}
	}
	return 0;
}

/* Once more when something went wrong; and a few times while somebody else resets it. */
int
nvme_run_start(struct nvme_ctrl *c)
{
	for (unsigned tries = 1;; tries++) {
		int err = start_once(c);
		if (err == 0 || err == -ERR_GONE || err == -ENOSPC || err == -EINVAL) {
			return err;
		}
		if (tries == (err == -EAGAIN ? NVME_START_TRIES : 2u)) {
			return err == -EAGAIN ? -EIO : err;
		}
		fiber_sleep(NVME_ABSENT_NS);
	}
}

int
nvme_run_namespaces(struct nvme_ctrl *c)
{
	return step_namespaces(c, rt_now_ns() + NVME_ADMIN_NS);
}

/* ---- the other way ---- */

struct dev_call {
	struct nvme_dev *dev;
	int (*op)(struct nvme_dev *dev);
	int err;
};

static void
dev_call_run(void *arg)
{
	struct dev_call *call = arg;

	call->err = call->op(call->dev);
}

static int
dev_call(struct nvme_ctrl *c, int (*op)(struct nvme_dev *dev))
{
	struct dev_call call = {.dev = c->dev, .op = op};

	offload(dev_call_run, &call);
	return call.err;
}

int
nvme_cut_off(struct nvme_ctrl *c)
{
	if (dev_call(c, c->dev->ops->function_reset) == 0) {
		return 0;
	}
	log_error("nvme_cut_off device=%s", c->name);
	return dev_call(c, c->dev->ops->dma_stop) == 0 ? 0 : -EIO;
}

int
nvme_quiesce(struct nvme_ctrl *c)
{
	int err = step_disable(c, rt_now_ns() + c->ready_ms * NSEC_PER_MSEC);

	if (err == 0 || err == -ERR_GONE) {
		return 0; /* what is not there doesn't write to memory */
	}
	log_warn("nvme_function_reset device=%s reason=\"%s\"", c->name, c->why);
	return nvme_cut_off(c);
}

/* Queues go before a shutdown (B 3.6.1). One that doesn't answer is shut down all the same. */
static void
queues_delete(struct nvme_ctrl *c)
{
	for (unsigned i = 0; i < c->qp_count; i++) {
		int err = nvme_admin_delete_queues(c, &c->qps[i]);
		if (err != 0) {
			log_notice("nvme_queue_not_deleted device=%s queue=%u error=%s", c->name,
			    c->qps[i].id, err_str(err));
			return;
		}
	}
}

void
nvme_shutdown(struct nvme_ctrl *c)
{
	uint32_t csts;

	if (nvme_is_absent(c)) {
		return;
	}
	uint32_t cc = c->dev->ops->read32(c->dev, NVS_REG_CC);
	if ((cc & NVS_CC_EN) == 0) {
		return;
	}
	queues_delete(c);
	uint64_t deadline_ns = rt_now_ns() + c->id.shutdown_ms * NSEC_PER_MSEC;
	c->dev->ops->write32(c->dev, NVS_REG_CC, (cc & ~NVS_CC_SHN_MASK) | NVS_CC_SHN_NORMAL);
	do {
		fiber_sleep(REG_NAP_NS);
		csts = c->dev->ops->read32(c->dev, NVS_REG_CSTS);
	} while (csts != NVS_ALL_ONES32 && NVS_CSTS_SHST(csts) != NVS_SHST_DONE &&
		 rt_now_ns() < deadline_ns);
	if (csts != NVS_ALL_ONES32 && NVS_CSTS_SHST(csts) != NVS_SHST_DONE) {
		log_warn("nvme_shutdown_slow device=%s", c->name);
	}
}
