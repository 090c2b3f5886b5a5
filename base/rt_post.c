/*
 * rt_post.c - messages between reactors. The inbox is a stack that anybody pushes on and only the
 * owner empties, all at once; turned round it is first come, first served.
 *
 * Sleep protocol (both sides sequentially consistent): the owner says "sleeping", then looks at the
 * inbox once more; a poster pushes, then looks at "sleeping". One of them sees the other. Only the
 * poster that takes the flag away writes to the eventfd, so that a burst costs one system call.
 */
#include <unistd.h>
#include "base/check.h"
#include "base/rt_int.h"

void
reactor_kick(struct reactor *r)
{
	uint64_t one = 1;
	ssize_t n = write(r->event_fd, &one, sizeof(one));
	/* EAGAIN: the counter is full, which wakes as well. */
	ASSERT(n == (ssize_t)sizeof(one) || errno == EAGAIN);
}

void
rt_post(unsigned reactor, struct rt_msg *m)
{
	ASSERT(reactor < rt.count);
	struct reactor *r = &rt.reactors[reactor];
	struct rt_msg *head = atomic_load_explicit(&r->inbox, memory_order_relaxed);
	do {
		m->next = head;
	} while (!atomic_compare_exchange_weak(&r->inbox, &head, m));
	if (atomic_load(&r->sleeping) && atomic_exchange(&r->sleeping, false)) {
		reactor_kick(r);
	}
}

bool
inbox_empty(struct reactor *r)
{
	return atomic_load(&r->inbox) == NULL;
}

unsigned
inbox_run(struct reactor *r)
{
	if (atomic_load_explicit(&r->inbox, memory_order_relaxed) == NULL) {
		return 0;
	}
	struct rt_msg *newest = atomic_exchange(&r->inbox, NULL);
	struct rt_msg *oldest = NULL;
	while (newest != NULL) {
		struct rt_msg *next = newest->next;
		newest->next = oldest;
		oldest = newest;
		newest = next;
	}
	unsigned count = 0;
	while (oldest != NULL) {
		struct rt_msg *m = oldest;
		oldest = m->next; /* m is its owner's again once fn has been called */
		m->fn(m);
		count++;
	}
	return count;
}
