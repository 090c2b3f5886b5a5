/*
 * create.c - make a pool. Partition tables and labels first, then the engine commits txg 1: its
 * uberblock is what makes the pool exist. A crash before leaves drives whose labels no root backs;
 * import says so, and another create may take them.
 */
#include <stdio.h>

#include "pool/damage.h"
#include "pool/event.h"
#include "pool/health.h"
#include "pool/heartbeat.h"
#include "pool/label.h"
#include "pool/pool_int.h"
#include "pool/scan.h"
#include "pool/trim.h"

/* Nothing on the drive may look like ours before the labels are written, least of all uberblocks of
 * an earlier pool. */
static int
wipe_drive(struct vdev_drive *d, struct iobuf *zero)
{
	int err = kb_gpt_write(d->kb, d->guid.b, "agate");

	for (unsigned k = 0; err == 0 && k < LABEL_COUNT; k++) {
		err = kb_write(d->kb, label_offset(d->region_bytes, k), zero, LABEL_BYTES, 0);
	}
	return err == 0 ? kb_flush(d->kb) : err;
}

/* A spare that waits for any pool keeps its identity, by which the pools that list it find it. */
static bool
keep_spare(struct vdev_drive *d)
{
	struct pool_label_info have;

	if (d->role != DRIVE_ROLE_SPARE || pool_label_probe(d->kb, &have) != 0 ||
	    have.role != DRIVE_ROLE_SPARE) {
		return false;
	}
	d->guid = have.drive_guid;
	return true;
}

static int
wipe_drives(struct vdevs *v, char *why, size_t why_len)
{
	struct iobuf *zero;
	int err = iobuf_alloc(LABEL_BYTES, ARENA_SYNC, &zero);

	if (err != 0) {
		return err;
	}
	memset(zero->data, 0, LABEL_BYTES);
	for (uint32_t i = 0; err == 0 && i < v->drive_count; i++) {
		if (keep_spare(&v->drives[i])) {
			continue;
		}
		err = wipe_drive(&v->drives[i], zero);
		if (err != 0) {
			(void)snprintf(why, why_len, "%s can't be written: %s", v->drives[i].path,
			    err_str(-err));
		}
	}
	iobuf_unref(zero);
	return err;
}

/* A pool begins whole: no drive may have failed while it was made. */
static int
check_whole(const struct vdevs *v, char *why, size_t why_len)
{
	for (uint32_t i = 0; i < v->drive_count; i++) {
		if (v->drives[i].state != DRIVE_STATE_ONLINE) {
			(void)snprintf(
			    why, why_len, "%s failed while the pool was made", v->drives[i].path);
			return -EIO;
		}
	}
	return 0;
}

struct pool *
pool_alloc(const char *host_name, uint64_t host_id)
{
	struct pool *p = mem_zalloc(sizeof(*p));

	if (p == NULL || damage_open(&p->damage) != 0) {
		mem_free(p);
		return NULL;
	}
	if (health_open(p) != 0) {
		pool_free(p);
		return NULL;
	}
	mutex_init(&p->config_lock, RANK_POOL_CONFIG);
	mutex_init(&p->spare_mu, RANK_POOL_SPARE);
	mutex_init(&p->logdev_mu, RANK_POOL_SPARE);
	mutex_init(&p->shape_mu, RANK_POOL_SHAPE);
	mutex_init(&p->gang_lock, RANK_POOL_CACHE);
	p->host_id = host_id;
	(void)snprintf(
	    p->host_name, sizeof(p->host_name), "%s", host_name != NULL ? host_name : "");
	return p;
}

void
pool_free(struct pool *p)
{
	damage_close(p->damage);
	health_close(p);
	mem_free(p);
}

int
pool_start_fibers(struct pool *p)
{
	int err = scan_start(p);

	if (err == 0) {
		err = trim_start(p);
	}
	if (err == 0) {
		err = heartbeat_start(p);
	}
	if (err != 0) {
		trim_stop(p);
		trim_free(p);
		scan_stop(p);
	}
	return err;
}

int
pool_create(const struct pool_create_spec *spec, struct pool **out, char *out_why, size_t why_len)
{
	struct pool *p = pool_alloc(spec->host_name, spec->host_id);
	int err;

	if (p == NULL) {
		return -ENOMEM;
	}
	if (why_len > 0) {
		out_why[0] = 0;
	}
	err = vdev_layout(spec, &p->v, out_why, why_len);
	if (err != 0) {
		goto free_pool;
	}
	err = events_open(&p->v.events);
	if (err != 0) {
		vdev_free(&p->v, false);
		goto free_pool;
	}
	p->v.feat_rocompat = FEATURES_ROCOMPAT; /* a new pool has all that we know */
	(void)snprintf(p->name, sizeof(p->name), "%s", spec->name);
	p->v.feat_rocompat = FEATURES_ROCOMPAT; /* a new pool has all that we know */
	p->timeline = 1;
	p->ub.pool_guid = p->v.pool_guid;
	p->ub.timeline = le64_of(p->timeline);
	err = vdev_claim(&p->v, false, out_why, why_len);
	if (err != 0) {
		vdev_free(&p->v, false);
		goto free_pool;
	}
	err = wipe_drives(&p->v, out_why, why_len);
	if (err == 0) {
		err = vdev_open_groups(&p->v, false);
	}
	if (err == 0) {
		vdev_log_reserve(&p->v);
		err = vdev_write_labels(&p->v, 1);
	}
	if (err == 0) {
		err = check_whole(&p->v, out_why, why_len);
	}
	if (err == 0) {
		err = pool_engine_create(p);
	}
	if (err != 0) {
		goto erase;
	}
	err = pool_start_fibers(p);
	if (err != 0) {
		/* not clean: what is erased next need not be */
		(void)pool_engine_close(p, false);
		scan_free(p);
		goto erase;
	}
	scan_poke(p);
	log_info(
	    "pool.create name=%s sets=%u drives=%u", p->name, p->v.set_count, p->v.drive_count);
	*out = p;
	return 0;
erase:
	/* best effort: without a root the labels mean nothing */
	if (vdev_erase_labels(&p->v) != 0) {
		log_warn("pool.create_leftovers name=%s", p->name);
	}
	vdev_free(&p->v, false);
free_pool:
	if (why_len > 0 && out_why[0] == 0) {
		(void)snprintf(out_why, why_len, "%s", err_str(-err));
	}
	pool_free(p);
	return err;
}
