/*
 * monitor.c - what the daemon does by itself: takes up pools whose drives have arrived
 * (arrivals.c), takes back drives that return (hotplug.c), imports pools anew that can't go on
 * otherwise, keeps their events, scrubs them when it is time. One fiber; it holds adm->lock shared
 * while it works, so that commands that look go on beside it, and exclusive for an import.
 */
#include <stdio.h>
#include "admin/schedule.h"
#include "admin/vfio.h"

#define LOOK_NS \
	(200 * NSEC_PER_MSEC) /* how soon a change of drives is noticed; nothing is read then */
#define MISSING_LOOK_NS (5 * NSEC_PER_SEC)
#define REIMPORT_AGAIN_NS (15 * NSEC_PER_SEC)
#define SCRUB_LOOK_S 60u /* how often it is asked whether a scrub is due */
#define DAY_S ((int64_t)24 * 3600)

struct adm_monitor {
	struct adm *a;
	struct mutex mu; /* RANK_LEAF */
	struct cond wake;
	bool stop, woken;
	uint64_t scrub_looked_ns, missing_looked_ns, reimported_ns;
	struct waitgroup done;
};

/* ---- scrubs ---- */

static int64_t
scrub_period_s(const struct adm_pool *ap)
{
	const char *scrub = props_get(ap, "scrub");
	return strcmp(scrub, "monthly") == 0  ? 30 * DAY_S
	       : strcmp(scrub, "weekly") == 0 ? 7 * DAY_S
					      : 0;
}

/* The end of the last scrub is kept, since a resilver takes its place in the pool. A pool that was
 * never scrubbed begins to count when it is first seen. */
static void
scrub_look(struct adm_pool *ap)
{
	int64_t now = (int64_t)(rt_wall_ns() / NSEC_PER_SEC), period = scrub_period_s(ap);
	int64_t last = props_fact(ap, "last_scrub");
	struct pool_scan_status st;
	pool_get_scan(ap->pool, &st);
	bool ended = st.kind == SCAN_SCRUB && (st.state == SCAN_DONE || st.state == SCAN_CANCELLED);
	if (pool_is_readonly(ap->pool) || pool_is_suspended(ap->pool)) {
		return;
	}
	if (last == 0 || (ended && (int64_t)st.ended > last)) {
		last = ended ? (int64_t)st.ended : now;
		int err = props_fact_store(ap, "last_scrub", last);
		if (err != 0) {
			log_warn("scrub-time-not-stored pool=%s reason=%s", pool_name(ap->pool),
			    err_str(err));
			return;
		}
	}
	bool idle = st.state == SCAN_NEVER || st.state == SCAN_DONE || st.state == SCAN_CANCELLED;
	if (period != 0 && idle && now - last >= period &&
	    pool_scan(ap->pool, POOL_SCAN_START) == 0) {
		log_notice("scrub-begun pool=%s reason=schedule", pool_name(ap->pool));
		diary_add(ap, DIARY_HISTORY, "agated", "pool scrub", "it was time");
	}
}

/* ---- drives ---- */

static void
drives_look(struct adm_monitor *m)
{
	struct adm *a = m->a;
	bool changed = hotplug_changed(a);
	if (changed) {
		for (uint32_t i = 0; i < a->pool_count; i++) {
			pool_drives_look(a->pools[i].pool);
		}
	}
	if (changed || rt_now_ns() - m->missing_looked_ns >= MISSING_LOOK_NS) {
		m->missing_looked_ns = rt_now_ns();
		/* an NVMe drive that has come just now is for the policy first */
		if (hotplug_is_missing(a) && !vfio_changed(a)) {
			mutex_lock(&a->drives_lock);
			hotplug_take(a);
			mutex_unlock(&a->drives_lock);
		}
	}
}

/* ---- pools that only an import helps ---- */

/* Suspended for good, though no set misses more drives than it can. */
static bool
needs_import(struct pool *p)
{
	struct pool_status st;
	if (!pool_is_suspended(p) || pool_get_status(p, &st) != 0) {
		return false;
	}
	bool needs = st.reimport;
	for (uint32_t s = 0; s < st.set_count; s++) {
		uint32_t missing = 0;
		for (uint32_t i = 0; i < st.drive_count; i++) {
			const struct pool_drive_status *d = &st.drives[i];
			missing += d->role == DRIVE_ROLE_DATA && !d->twin && d->set_index == s &&
				   !d->present;
		}
		uint32_t parity = le32_get(st.sets[s].parity), width = le32_get(st.sets[s].width);
		bool mirror = le32_get(st.sets[s].kind) == RAIDZ_KIND_MIRROR;
		needs = needs && missing <= (mirror ? width - 1 : parity);
	}
	pool_status_free(&st);
	return needs;
}

/* Its clients are told to ask again meanwhile; what was acknowledged as stable is replayed. */
static void
import_anew(struct adm *a, struct adm_pool *ap)
{
	struct adm_error e = {0};
	struct guid guid = pool_guid(ap->pool);
	json_t *out = NULL;
	char text[33];
	adm_guid_text(&guid, text);
	json_t *args = json_pack("{s:s}", "pool", text);
	log_notice("pool-import-anew pool=%s", pool_name(ap->pool));
	nfsd_pools_changing(a->nfsd, true);
	/* it can't be closed cleanly, which is the reason for all this */
	(void)adm_pool_close(a, ap, pool_export, &e);
	int err = imports_run(a, args, &out, &e);
	nfsd_pools_changing(a->nfsd, false);
	if (err != 0) {
		log_error("pool-not-imported guid=%s reason=\"%s\"", text, e.message);
	} else {
		for (uint32_t i = 0; i < a->pool_count; i++) {
			struct guid now = pool_guid(a->pools[i].pool);
			if (memcmp(&now, &guid, sizeof(now)) == 0) {
				diary_add(&a->pools[i], DIARY_HISTORY, "agated", "pool import",
				    "export and import: drives that vanished had lost blocks");
			}
		}
	}
	json_decref(args);
	json_decref(out);
}

static void
imports_look(struct adm_monitor *m)
{
	struct adm *a = m->a;
	if (m->reimported_ns != 0 && rt_now_ns() - m->reimported_ns < REIMPORT_AGAIN_NS) {
		return;
	}
	rwlock_wrlock(&a->lock);
	for (uint32_t i = 0; i < a->pool_count; i++) {
		if (needs_import(a->pools[i].pool)) {
			m->reimported_ns = rt_now_ns();
			import_anew(a, &a->pools[i]);
			break; /* the list has changed */
		}
	}
	rwlock_wrunlock(&a->lock);
}

/* ---- snapshots ---- */

static void
sched_note(void *arg, const char *text)
{
	struct adm_pool *ap = arg;
	log_notice("schedule pool=%s what=\"%s\"", pool_name(ap->pool), text);
	diary_add(ap, DIARY_HISTORY, "agated", "fs snapshot", text);
}

/* ---- larger drives ---- */

static void
expand_look(struct adm *a, struct adm_pool *ap)
{
	char why[200];
	if (!props_is(ap, "autoexpand", "on") || pool_is_readonly(ap->pool) ||
	    pool_is_suspended(ap->pool) || pool_expandable_bytes(ap->pool) == 0) {
		return;
	}
	mutex_lock(&a->drives_lock);
	int err = pool_expand(ap->pool, NULL, why, sizeof(why));
	mutex_unlock(&a->drives_lock);
	if (err == 0) {
		diary_add(ap, DIARY_HISTORY, "agated", "pool online",
		    "online -e: autoexpand, all drives of a set are larger");
	}
}

/* ---- the fiber ---- */

/* An NVMe drive that has been plugged in goes to the driver that the policy says, before it is
 * looked at. */
static void
monitor_look_at_nvme(struct adm *a)
{
	rwlock_rdlock(&a->lock);
	bool changed = vfio_changed(a);
	rwlock_rdunlock(&a->lock);
	if (changed) {
		rwlock_wrlock(&a->lock);
		vfio_refresh(a);
		rwlock_wrunlock(&a->lock);
	}
}

static void
monitor_look(struct adm_monitor *m)
{
	struct adm *a = m->a;
	bool suspended = false;
	monitor_look_at_nvme(a);
	bool scrubs = m->scrub_looked_ns == 0 ||
		      rt_now_ns() - m->scrub_looked_ns >= SCRUB_LOOK_S * NSEC_PER_SEC;
	rwlock_rdlock(&a->lock);
	inject_look(a);
	drives_look(m);
	for (uint32_t i = 0; i < a->pool_count; i++) {
		struct adm_pool *ap = &a->pools[i];
		if (scrubs) {
			mutex_lock(&a->drives_lock);
			scrub_look(ap);
			mutex_unlock(&a->drives_lock);
		}
		expand_look(a, ap);
		diff_look(a, ap);
		trash_look(ap);
		sched_run(ap, (int64_t)(rt_wall_ns() / NSEC_PER_SEC), sched_note, ap);
		diary_gather(ap);
		diary_store(ap);
		damages_look(ap);
		suspended = suspended || needs_import(ap->pool);
	}
	rwlock_rdunlock(&a->lock);
	if (scrubs) {
		m->scrub_looked_ns = rt_now_ns();
	}
	if (suspended) {
		imports_look(m);
	}
}

static void
monitor_main(void *arg)
{
	struct adm_monitor *m = arg;
	mutex_lock(&m->mu);
	while (!m->stop) {
		if (!m->woken) {
			/* woken early when there is something; the time-out is a look of its own */
			(void)cond_wait_until(&m->wake, &m->mu, rt_now_ns() + LOOK_NS);
		}
		m->woken = false;
		bool stop = m->stop;
		mutex_unlock(&m->mu);
		if (!stop) {
			arrivals_look(m->a);
			monitor_look(m);
		}
		mutex_lock(&m->mu);
	}
	mutex_unlock(&m->mu);
	wg_done(&m->done);
}

int
monitor_start(struct adm *a)
{
	struct adm_monitor *m = mem_zalloc(sizeof(*m));
	if (m == NULL) {
		return -ENOMEM;
	}
	m->a = a;
	mutex_init(&m->mu, RANK_LEAF);
	cond_init(&m->wake);
	wg_init(&m->done);
	wg_add(&m->done, 1);
	a->monitor = m;
	int err = hotplug_watch(a);
	if (err != 0) {
		log_warn("drives-not-watched reason=%s",
		    err_str(err)); /* then they are found every few seconds */
	}
	fiber_spawn_wait(0, FIBER_ADMIN, "admin-monitor", monitor_main, m);
	return 0;
}

void
monitor_wake(struct adm *a)
{
	struct adm_monitor *m = a->monitor;
	if (m == NULL) {
		return;
	}
	mutex_lock(&m->mu);
	m->woken = true;
	cond_broadcast(&m->wake);
	mutex_unlock(&m->mu);
}

void
monitor_stop(struct adm *a)
{
	struct adm_monitor *m = a->monitor;
	if (m == NULL) {
		return;
	}
	mutex_lock(&m->mu);
	m->stop = true;
	cond_broadcast(&m->wake);
	mutex_unlock(&m->mu);
	wg_wait(&m->done);
	hotplug_unwatch(a);
	a->monitor = NULL;
	mem_free(m);
}
