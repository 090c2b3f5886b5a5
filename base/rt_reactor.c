/*
 * rt_reactor.c - the loop of a real reactor.
 *
 * One turn: messages, due timers, pollers, every fiber that was runnable when its part began, and
 * descriptor events when nothing else was found and nothing is polled for, or when they haven't
 * been looked at for a while.
 *
 * Idle: first it spins for a short time, since sleeping and being woken costs several microseconds,
 * then it sleeps in epoll until the next timer. How long it spins follows what the last sleeps were
 * like: short ones (work came soon) lengthen it, long ones shorten it to almost nothing. While a
 * poller has work outstanding that only polling finds, it spins longer and then naps in short
 * steps; when the poller says how late a look may be without harm, and that is more than a wake-up
 * takes here, it naps so long and doesn't spin first. What a wake-up takes is learnt: by how much
 * naps were longer than asked for.
 */
#include <sys/prctl.h>
#include "base/check.h"
#include "base/rt_int.h"

#define SPIN_NS_MIN (1 * NSEC_PER_USEC)
#define SPIN_NS_MAX (50 * NSEC_PER_USEC)
#define POLL_SPIN_NS (100 * NSEC_PER_USEC)
#define POLL_NAP_NS (20 * NSEC_PER_USEC)
#define NAP_NS_MIN (30 * NSEC_PER_USEC)
#define NAP_LATE_NS_MAX (2 * NSEC_PER_MSEC)
#define NAP_FORGET_NS (1 * NSEC_PER_MSEC)
#define TIMER_SLACK_NS 1000ul
#define EVENTS_EVERY_NS (20 * NSEC_PER_USEC)
#define FIBERS_PER_TURN_MAX 64u
#define STOP_NAP_NS (2 * NSEC_PER_MSEC)
#define STOP_GRACE_NS (5 * NSEC_PER_SEC)

unsigned
reactor_poll_all(struct reactor *r)
{
	unsigned count = 0;
	list_for_each_safe(item, next, &r->pollers)
	{
		struct rt_poller *p = list_entry(item, struct rt_poller, link);
		count += p->poll(p);
	}
	return count;
}

bool
reactor_wants_poll(struct reactor *r)
{
	list_for_each(item, &r->pollers)
	{
		struct rt_poller *p = list_entry(item, struct rt_poller, link);
		if (p->wants_poll(p)) {
			return true;
		}
	}
	return false;
}

/* The same, and how late all of them let themselves be looked at; 0: at once, or nobody knows. */
static bool
reactor_wants_poll_in(struct reactor *r, uint64_t *out_nap_ns)
{
	uint64_t nap_ns = RT_FOREVER;
	bool wants = false;
	list_for_each(item, &r->pollers)
	{
		struct rt_poller *p = list_entry(item, struct rt_poller, link);
		if (p->wants_poll(p)) {
			wants = true;
			nap_ns = MIN(nap_ns, p->nap_ns != NULL ? p->nap_ns(p) : 0);
		}
	}
	*out_nap_ns = nap_ns;
	return wants;
}

void
rt_poller_add(struct rt_poller *p)
{
	list_push_back(&rt_cur->pollers, &p->link);
}

void
rt_poller_remove(struct rt_poller *p)
{
	list_remove(&p->link);
}

static unsigned
reactor_run_timers(struct reactor *r, uint64_t now)
{
	unsigned count = 0;
	struct rt_timer *t;
	/* Those armed meanwhile have their turn next time, even when they are due. */
	uint64_t before = r->timers.next_order;
	while ((t = timers_pop_due(&r->timers, now, before)) != NULL) {
		t->fn(t);
		count++;
	}
	return count;
}

static unsigned
reactor_run_fibers(struct reactor *r)
{
	/* Those queued meanwhile have their turn next time; and not so many that drives wait long.
	 */
	unsigned count = MIN(r->runq_len, FIBERS_PER_TURN_MAX);
	for (unsigned i = 0; i < count; i++) {
		struct fiber *f = list_first(&r->runq, struct fiber, link);
		list_remove(&f->link);
		r->runq_len--;
		fiber_resume(r, f);
	}
	return count;
}

static unsigned
reactor_turn(struct reactor *r)
{
	uint64_t now = rt_now_ns();
	r->turn_ns = now;
	unsigned count = inbox_run(r);
	count += reactor_run_timers(r, now);
	count += reactor_poll_all(r);
	count += reactor_run_fibers(r);
	/* Who spins on a drive's queue doesn't call the system in every turn. */
	if ((count == 0 && list_empty(&r->pollers)) || now - r->polled_at_ns > EVENTS_EVERY_NS) {
		r->polled_at_ns = now;
		count += reactor_events(r, 0);
	}
	return count;
}

/* False: woken before. */
static bool
reactor_sleep(struct reactor *r, uint64_t now, uint64_t timeout_ns)
{
	uint64_t next = timers_next(&r->timers);
	if (next != RT_FOREVER) {
		timeout_ns = MIN(timeout_ns, next > now ? next - now : 0);
	}
	atomic_store(&r->sleeping, true);
	if (!inbox_empty(r)) {
		atomic_store(&r->sleeping, false);
		return false;
	}
	unsigned events = reactor_events(r, timeout_ns);
	r->polled_at_ns = rt_now_ns();
	return events == 0;
}

/* How late naps end, on average. On a machine with more to do than it can, that is long at once; it
 * is forgotten slowly, and tried again. */
static void
reactor_learn_late(struct reactor *r, uint64_t late_ns)
{
	r->nap_late_ns = (7 * r->nap_late_ns + MIN(late_ns, NAP_LATE_NS_MAX)) / 8;
}

/* False: waking up would take too long for that. */
static bool
reactor_nap(struct reactor *r, uint64_t now, uint64_t nap_ns)
{
	if (nap_ns < NAP_NS_MIN || r->nap_late_ns > 3 * nap_ns) {
		if (now - r->napped_at_ns > NAP_FORGET_NS) {
			r->nap_late_ns -= r->nap_late_ns / 256;
			r->napped_at_ns = now;
		}
		return false;
	}
	uint64_t ask_ns = MAX(nap_ns - MIN(nap_ns, r->nap_late_ns), NAP_NS_MIN / 2);
	bool whole = reactor_sleep(r, now, ask_ns);
	r->napped_at_ns = r->polled_at_ns;
	uint64_t slept_ns = r->polled_at_ns - now;
	if (whole && slept_ns > ask_ns) {
		reactor_learn_late(r, slept_ns - ask_ns);
	}
	return true;
}

/* The turn before found nothing, so it was short, and its time will do. */
static void
reactor_idle(struct reactor *r)
{
	uint64_t now = r->turn_ns;
	if (r->idle_since_ns == 0) {
		r->idle_since_ns = now;
	}
	uint64_t idle = now - r->idle_since_ns;
	uint64_t nap_ns;
	bool polling = reactor_wants_poll_in(r, &nap_ns);
	if (polling && reactor_nap(r, now, nap_ns)) {
		return;
	}
	if (idle < (polling ? POLL_SPIN_NS : r->spin_ns)) {
		cpu_relax();
		return;
	}
	uint64_t timeout = polling ? POLL_NAP_NS : RT_FOREVER;
	if (r->id == 0 && rt.main_done) {
		timeout = STOP_NAP_NS;
	}
	(void)reactor_sleep(r, now, timeout);
	uint64_t slept = r->polled_at_ns - now;
	r->spin_ns = slept < SPIN_NS_MAX ? MIN(r->spin_ns * 2, SPIN_NS_MAX)
					 : MAX(r->spin_ns / 2, SPIN_NS_MIN);
}

/* Reactor 0, once main_fn has returned: the others get a moment to run to their ends. */
static bool
reactor_stop_all(uint64_t *stop_asked_ns)
{
	uint64_t now = rt_now_ns();
	if (*stop_asked_ns == 0) {
		*stop_asked_ns = now;
	}
	if (fiber_pools_used() > 0 && now - *stop_asked_ns < STOP_GRACE_NS) {
		return false;
	}
	atomic_store(&rt.stopping, true);
	for (unsigned i = 0; i < rt.count; i++) {
		reactor_kick(&rt.reactors[i]);
	}
	return true;
}

void
reactor_run(struct reactor *r)
{
	uint64_t stop_asked_ns = 0;
	rt_cur = r;
	fiber_ctx_init_loop(&r->loop);
	r->spin_ns = SPIN_NS_MIN;
	/* The default slack of 50 us is longer than a nap. Only a wish. */
	(void)prctl(PR_SET_TIMERSLACK, TIMER_SLACK_NS);
	while (!atomic_load_explicit(&rt.stopping, memory_order_acquire)) {
		if (reactor_turn(r) > 0) {
			r->idle_since_ns = 0;
		} else {
			reactor_idle(r);
		}
		if (r->id == 0 && rt.main_done && reactor_stop_all(&stop_asked_ns)) {
			break;
		}
	}
	rt_cur = NULL;
}
