/*
 * rt_timer.c - timers in a binary heap, ordered by deadline, then by arming order. A reactor has
 * its own heap; in the simulation all share that of reactor 0, so that they fire in one exact
 * order. The heap's array is reserved address space and can't fail to grow.
 */
#include "base/check.h"
#include "base/rt_int.h"

int
timers_start(struct timer_heap *h)
{
	h->slots = rt_map(RT_TIMERS_MAX * sizeof(*h->slots));
	h->len = 0;
	h->next_order = 0;
	return h->slots != NULL ? 0 : -ENOMEM;
}

void
timers_stop(struct timer_heap *h)
{
	rt_unmap(h->slots, RT_TIMERS_MAX * sizeof(*h->slots));
	h->slots = NULL;
}

struct timer_heap *
timers_of(struct reactor *r)
{
	return rt.sim ? &rt.reactors[0].timers : &r->timers;
}

uint64_t
timers_next(const struct timer_heap *h)
{
	return h->len > 0 ? h->slots[1]->deadline_ns : RT_FOREVER;
}

static bool
timer_before(const struct rt_timer *a, const struct rt_timer *b)
{
	return a->deadline_ns != b->deadline_ns ? a->deadline_ns < b->deadline_ns
						: a->order < b->order;
}

static void
timer_put(struct timer_heap *h, uint32_t at, struct rt_timer *t)
{
	h->slots[at] = t;
	t->heap_index = at;
}

static void
timer_sift_up(struct timer_heap *h, struct rt_timer *t)
{
	uint32_t at = t->heap_index;
	while (at > 1 && timer_before(t, h->slots[at / 2])) {
		timer_put(h, at, h->slots[at / 2]);
		at /= 2;
	}
	timer_put(h, at, t);
}

static void
timer_sift_down(struct timer_heap *h, struct rt_timer *t)
{
	uint32_t at = t->heap_index;
	for (;;) {
		uint32_t child = at * 2;
		if (child > h->len) {
			break;
		}
		if (child < h->len && timer_before(h->slots[child + 1], h->slots[child])) {
			child++;
		}
		if (!timer_before(h->slots[child], t)) {
			break;
		}
		timer_put(h, at, h->slots[child]);
		at = child;
	}
	timer_put(h, at, t);
}

static void
timer_take(struct timer_heap *h, struct rt_timer *t)
{
	struct rt_timer *last = h->slots[h->len];
	uint32_t at = t->heap_index;
	ASSERT(at <= h->len && h->slots[at] == t);
	h->len--;
	t->heap_index = 0;
	if (last != t) {
		timer_put(h, at, last);
		timer_sift_up(h, last);
		timer_sift_down(h, last);
	}
}

void
rt_timer_arm(struct rt_timer *t, uint64_t deadline_ns, void (*fn)(struct rt_timer *))
{
	struct reactor *r = rt_cur;
	struct timer_heap *h = timers_of(r);
	if (t->heap_index != 0) {
		ASSERT(t->reactor == r->id);
		timer_take(h, t);
	}
	ASSERT(h->len + 1 < RT_TIMERS_MAX);
	t->deadline_ns = deadline_ns;
	t->fn = fn;
	t->reactor = r->id;
	t->order = h->next_order++;
	h->len++;
	timer_put(h, h->len, t);
	timer_sift_up(h, t);
}

bool
rt_timer_cancel(struct rt_timer *t)
{
	if (t->heap_index == 0) {
		return false;
	}
	ASSERT(t->reactor == rt_cur->id);
	timer_take(timers_of(rt_cur), t);
	return true;
}

struct rt_timer *
timers_pop_due(struct timer_heap *h, uint64_t now_ns, uint64_t before_order)
{
	if (h->len == 0) {
		return NULL;
	}
	struct rt_timer *t = h->slots[1];
	if (t->deadline_ns > now_ns || t->order >= before_order) {
		return NULL;
	}
	timer_take(h, t);
	return t;
}
