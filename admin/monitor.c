/*
 * monitor.c - what the daemon does for pools in service by itself: keeps their events, scrubs them
 * when it is time. One fiber; it holds adm->lock shared while it works, so that commands that look
 * go on beside it.
 */
#include <stdio.h>
#include "admin/admin_int.h"

#define LOOK_NS NSEC_PER_SEC
#define SCRUB_LOOK_S 60u /* how often it is asked whether a scrub is due */
#define DAY_S ((int64_t)24 * 3600)

struct adm_monitor {
	struct adm *a;
	struct mutex mu; /* RANK_LEAF */
	struct cond wake;
	bool stop, woken;
	uint64_t scrub_looked_ns;
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

/* ---- the fiber ---- */

static void
monitor_look(struct adm_monitor *m)
{
	struct adm *a = m->a;
	bool scrubs = m->scrub_looked_ns == 0 ||
		      rt_now_ns() - m->scrub_looked_ns >= SCRUB_LOOK_S * NSEC_PER_SEC;
	rwlock_rdlock(&a->lock);
	for (uint32_t i = 0; i < a->pool_count; i++) {
		struct adm_pool *ap = &a->pools[i];
		if (scrubs) {
			mutex_lock(&a->drives_lock);
			scrub_look(ap);
			mutex_unlock(&a->drives_lock);
		}
		diary_gather(ap);
		diary_store(ap);
	}
	rwlock_rdunlock(&a->lock);
	if (scrubs) {
		m->scrub_looked_ns = rt_now_ns();
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
	a->monitor = NULL;
	mem_free(m);
}
