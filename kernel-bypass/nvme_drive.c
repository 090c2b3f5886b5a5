/*
 * nvme_drive.c - a namespace as a drive of kb.h, and the calls of kb_nvme.h. The drives of a
 * controller share its queue pairs. The controller is shut down by the last lane of its last drive:
 * that lane is stopped only when the controller has been, so that kb_close waits for it.
 */
#include <stdio.h>
#include "kernel-bypass/nvme.h"

#define DRIVE_TIMEOUT_MS 2000u
#define STRIPE_QUIRK_BYTES (128 * KIB)

static struct nvme_drive *
nvme_drive_of(struct kb_drive *d)
{
	return container_of(d, struct nvme_drive, drive);
}

static struct nvme_qpair *
qpair_of(const struct kb_req *req)
{
	return container_of(req->lane, struct nvme_lane, lane)->qp;
}

/* ---- the table of functions ---- */

static void
nvme_start(struct kb_req *req)
{
	const struct nvme_drive *d = nvme_drive_of(req->lane->drive);

	if (req->op == KB_FLUSH && !nvme_drive_needs_flush(d)) {
		kb_req_complete(req, 0);
	} else if (req->op == KB_DISCARD && !d->dsm) {
		kb_req_complete(req, 0); /* a hint that it doesn't understand */
	} else {
		nvme_qpair_start(qpair_of(req), container_of(req, struct nvme_req, req));
	}
}

static bool
nvme_cancel(struct kb_req *req)
{
	return nvme_qpair_cancel(qpair_of(req), container_of(req, struct nvme_req, req));
}

static void
nvme_closing(struct kb_drive *d)
{
	struct nvme_ctrl *c = nvme_drive_of(d)->ctrl;

	atomic_fetch_add(&c->closing, 1);
	nvme_want(c, NVME_WANT_LEAVE);
}

/* On closing: late requests end by a reset of the controller. */
static void
nvme_reset(struct kb_lane *lane)
{
	if (!list_empty(&lane->late)) {
		nvme_want(nvme_drive_of(lane->drive)->ctrl, NVME_WANT_RESET);
	}
}

static void
lane_stop_msg(struct rt_msg *m)
{
	kb_lane_stopped(&container_of(m, struct nvme_lane, stop_msg)->lane);
}

/* True: no drive of the controller is open any more. */
static bool
drive_leave(struct nvme_drive *d)
{
	struct nvme_ctrl *c = d->ctrl;

	spin_lock(&c->guard);
	list_remove(&d->link);
	bool last = --c->drive_count == 0;
	atomic_fetch_sub(&c->closing, 1);
	spin_unlock(&c->guard);
	return last;
}

static void
nvme_lane_stop(struct kb_lane *lane)
{
	struct nvme_drive *d = nvme_drive_of(lane->drive);
	struct nvme_lane *nl = container_of(lane, struct nvme_lane, lane);

	if (atomic_fetch_sub(&d->lanes_left, 1) == 1 && drive_leave(d)) {
		nl->stop_msg.fn = lane_stop_msg;
		nvme_ctrl_stop_then(d->ctrl, &nl->stop_msg);
	} else {
		kb_lane_stopped(lane);
	}
}

static const struct kb_ops nvme_ops = {
    .drive_bytes = sizeof(struct nvme_drive),
    .lane_bytes = sizeof(struct nvme_lane),
    .req_bytes = sizeof(struct nvme_req),
    .start = nvme_start,
    .cancel = nvme_cancel,
    .closing = nvme_closing,
    .reset = nvme_reset,
    .lane_stop = nvme_lane_stop,
};

/* ---- open ---- */

static void
drive_fill_info(
    const char *device, const struct nvme_id *id, const struct nvme_ns *ns, struct kb_info *info)
{
	snprintf(info->path, sizeof(info->path), "pci:%s/%u", device, ns->nsid);
	snprintf(info->id, sizeof(info->id), "wwn:%.110s", ns->wwn);
	snprintf(info->model, sizeof(info->model), "%s", id->model);
	snprintf(info->serial, sizeof(info->serial), "%s", id->serial);
	info->backend = KB_BACKEND_NVME;
	info->size_bytes = ALIGN_DOWN(ns->blocks << ns->block_shift, (uint64_t)SECTOR_BYTES);
	info->physical_sector_bytes = MAX(1u << ns->block_shift, SECTOR_BYTES);
	info->logical_sector_bytes = 1u << ns->block_shift;
	info->volatile_cache = id->volatile_cache;
	info->discard = id->dsm;
	info->timeout_ms = DRIVE_TIMEOUT_MS;
}

/* What the keeper knows, at one moment; false: there is no such place. */
static bool
ctrl_look_at(struct nvme_ctrl *c, unsigned place, struct nvme_id *id, struct nvme_ns *ns)
{
	spin_lock(&c->guard);
	bool ok = place < c->ns_count;
	*id = c->id;
	*ns = c->ns[ok ? place : 0];
	spin_unlock(&c->guard);
	return ok;
}

static void
drive_set_up(struct nvme_drive *d, struct nvme_ctrl *c, const struct nvme_id *id)
{
	struct kb_drive *kd = &d->drive;

	d->ctrl = c;
	d->limit_bytes = id->max_xfer_bytes;
	d->dsm = id->dsm;
	d->sgl = id->sgl && (c->quirks & NVME_QUIRK_NO_SGL) == 0;
	atomic_init(&d->flush_needed, id->volatile_cache);
	d->ignores_fua = (c->quirks & NVME_QUIRK_NO_FUA) != 0;
	if (d->ns.boundary_bytes == 0 && (c->quirks & NVME_QUIRK_STRIPE_128K) != 0) {
		d->ns.boundary_bytes = STRIPE_QUIRK_BYTES;
	}
	atomic_init(&d->lanes_left, kd->lane_count);
	for (unsigned r = 0; r < kd->lane_count; r++) {
		container_of(kb_lane_at(kd, r), struct nvme_lane, lane)->qp = &c->qps[r];
	}
}

int
kb_nvme_open(struct nvme_ctrl *c, unsigned place, struct kb_drive **out)
{
	struct kb_info info = {0};
	struct nvme_id id;
	struct nvme_ns ns;
	struct kb_drive *kd;

	if (!ctrl_look_at(c, place, &id, &ns)) {
		return -ENOENT;
	}
	drive_fill_info(c->name, &id, &ns, &info);
	int err = kb_drive_create(&nvme_ops, &info, &kd);
	if (err != 0) {
		return err;
	}
	struct nvme_drive *d = nvme_drive_of(kd);
	d->ns = ns;
	drive_set_up(d, c, &id);
	spin_lock(&c->guard);
	list_push_back(&c->drives, &d->link);
	c->drive_count++;
	spin_unlock(&c->guard);
	if (kb_nvme_is_dead(c)) { /* before it knew of this drive */
		kb_drive_set_gone(kd);
	}
	*out = kd;
	return 0;
}

/* ---- controllers that are held ---- */

int
kb_nvme_hold(struct nvme_dev *dev, struct nvme_ctrl **out)
{
	int err = nvme_ctrl_open(dev, out);

	if (err == 0) {
		(*out)->drive_count = 1;
	}
	return err;
}

unsigned
kb_nvme_namespaces(struct nvme_ctrl *c)
{
	spin_lock(&c->guard);
	unsigned count = c->ns_count;
	spin_unlock(&c->guard);
	return count;
}

bool
kb_nvme_info(struct nvme_ctrl *c, unsigned place, struct kb_info *out)
{
	struct nvme_id id;
	struct nvme_ns ns;

	memset(out, 0, sizeof(*out));
	if (!ctrl_look_at(c, place, &id, &ns)) {
		return false;
	}
	drive_fill_info(c->name, &id, &ns, out);
	return true;
}

bool
kb_nvme_is_dead(struct nvme_ctrl *c)
{
	return atomic_load(&c->state) >= NVME_DEAD;
}

bool
kb_nvme_in_use(struct nvme_ctrl *c)
{
	spin_lock(&c->guard);
	bool in_use = c->drive_count > 1;
	spin_unlock(&c->guard);
	return in_use;
}

void
kb_nvme_release(struct nvme_ctrl *c)
{
	spin_lock(&c->guard);
	bool last = --c->drive_count == 0;
	if (!last) {
		nvme_want(c, NVME_WANT_LEAVE);
	}
	spin_unlock(&c->guard);
	if (last) {
		nvme_ctrl_close(c);
	}
}

int
kb_nvme_open_dev(struct nvme_dev *dev, struct kb_drive **out, unsigned max, unsigned *out_count)
{
	struct nvme_ctrl *c;
	unsigned count = 0;

	int err = kb_nvme_hold(dev, &c);
	if (err != 0) {
		return err;
	}
	unsigned want = MIN(kb_nvme_namespaces(c), max);
	while (err == 0 && count < want) {
		err = kb_nvme_open(c, count, &out[count]);
		count += err == 0;
	}
	while (err != 0 && count > 0) {
		kb_close(out[--count]);
	}
	kb_nvme_release(c); /* from here on the drives keep it */
	if (err == 0 && count == 0) {
		err = -ENODEV;
	}
	*out_count = count;
	return err;
}

/* ---- when namespaces change ---- */

static bool
ns_is_the_same(const struct nvme_ns *old, const struct nvme_ns *new)
{
	return old->nsid == new->nsid &&
	       old->block_shift ==
		   new->block_shift &&new->blocks >= old->blocks &&strcmp(old->wwn, new->wwn) == 0;
}

void
nvme_drives_check(struct nvme_ctrl *c)
{
	spin_lock(&c->guard);
	list_for_each(l, &c->drives)
	{
		struct nvme_drive *d = list_entry(l, struct nvme_drive, link);
		bool found = false;
		if (c->id.volatile_cache) { /* back to its default, perhaps */
			atomic_store(&d->flush_needed, true);
		}
		for (unsigned i = 0; i < c->ns_count; i++) {
			found = found || ns_is_the_same(&d->ns, &c->ns[i]);
		}
		if (!found && !kb_is_gone(&d->drive)) {
			kb_drive_set_gone(&d->drive);
			log_error("nvme_namespace_gone drive=%s", d->drive.info.path);
		}
	}
	spin_unlock(&c->guard);
}

void
nvme_drives_gone(struct nvme_ctrl *c)
{
	spin_lock(&c->guard);
	list_for_each(l, &c->drives)
	{
		kb_drive_set_gone(&list_entry(l, struct nvme_drive, link)->drive);
	}
	spin_unlock(&c->guard);
}

/* ---- health ---- */

int
kb_nvme_hold_health(struct nvme_ctrl *c, struct kb_health *out)
{
	mutex_lock(&c->health_lock);
	wg_add(&c->health_done, 1);
	nvme_want(c, NVME_WANT_HEALTH);
	wg_wait(&c->health_done);
	int err = c->health_err;
	if (err == 0) {
		*out = c->health;
	}
	mutex_unlock(&c->health_lock);
	return err;
}

int
kb_nvme_health(struct kb_drive *d, struct kb_health *out)
{
	if (d->info.backend != KB_BACKEND_NVME) {
		return -EOPNOTSUPP;
	}
	return kb_nvme_hold_health(nvme_drive_of(d)->ctrl, out);
}

void
kb_nvme_get_counters(const struct kb_drive *d, struct kb_nvme_counters *out)
{
	struct nvme_ctrl *c = nvme_drive_of(kb_lane_at(d, 0)->drive)->ctrl;

	*out = (struct kb_nvme_counters){
	    .resets = c->count.resets,
	    .aborts = c->count.aborts,
	    .events = c->count.events,
	    .offences = c->count.offences,
	};
	for (unsigned i = 0; i < c->qp_count; i++) {
		out->offences += c->qps[i].offence_count;
		out->requeued += c->qps[i].requeue_count;
	}
}
