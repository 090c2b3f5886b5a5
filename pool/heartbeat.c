/*
 * heartbeat.c - show other hosts that the pool is in use, also when nothing is written: every
 * HEARTBEAT_NS the newest uberblock goes to a few drives with its heartbeat one higher (to all, when
 * a scan has got on). An import
 * by another host looks twice, HEARTBEAT_WAIT_NS apart, and refuses when something has moved.
 */
#include "pool/heartbeat.h"
#include "pool/drive.h"
#include "pool/health.h"
#include "pool/logdev.h"
#include "pool/pool_int.h"
#include "pool/scan.h"

struct heartbeat {
	struct pool *p;
	struct mutex mu;
	struct cond wake;
	bool stop;
	struct waitgroup done;
};

static void
beat(struct pool *p)
{
	int err;

	mutex_lock(&p->config_lock);
	if (!p->suspended && le64_get(p->ub.txg) != 0 &&
	    (le32_get(p->ub.flags) & UBER_CLEAN) == 0 && !scan_progress_write(p)) {
		p->ub.heartbeat = le64_of(le64_get(p->ub.heartbeat) + 1);
		err = uber_heartbeat(&p->v, &p->ub);
		if (err != 0) {
			log_warn("heartbeat.failed pool=%s error=%s", p->name, err_str(err));
		}
	}
	mutex_unlock(&p->config_lock);
}

static void
heartbeat_main(void *arg)
{
	struct heartbeat *h = arg;

	uint64_t beat_ns = rt_now_ns() + HEARTBEAT_NS;

	for (;;) {
		bool stop;

		mutex_lock(&h->mu);
		if (!h->stop) {
			/* woken early only to stop; the time-out is the point */
			(void)cond_wait_until(&h->wake, &h->mu, rt_now_ns() + HEALTH_NS);
		}
		stop = h->stop;
		mutex_unlock(&h->mu);
		if (stop) {
			break;
		}
		health_look(h->p);
		if (rt_now_ns() < beat_ns) {
			continue;
		}
		beat_ns = rt_now_ns() + HEARTBEAT_NS;
		beat(h->p);
		pool_drives_look(h->p);
		spare_look(h->p);
		logdev_look(h->p);
		retired_look(h->p);
	}
	wg_done(&h->done);
}

int
heartbeat_start(struct pool *p)
{
	struct heartbeat *h = mem_zalloc(sizeof(*h));

	if (h == NULL) {
		return -ENOMEM;
	}
	h->p = p;
	mutex_init(&h->mu, RANK_LEAF);
	cond_init(&h->wake);
	wg_init(&h->done);
	wg_add(&h->done, 1);
	p->heartbeat = h;
	fiber_spawn_wait(rt_reactor_self(), FIBER_ADMIN, "pool-heartbeat", heartbeat_main, h);
	return 0;
}

void
heartbeat_stop(struct pool *p)
{
	struct heartbeat *h = p->heartbeat;

	if (h == NULL) {
		return;
	}
	mutex_lock(&h->mu);
	h->stop = true;
	cond_broadcast(&h->wake);
	mutex_unlock(&h->mu);
	wg_wait(&h->done);
	p->heartbeat = NULL;
	mem_free(h);
}
