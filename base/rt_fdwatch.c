/*
 * rt_fdwatch.c - epoll. Each reactor has its own set; the eventfd that ends its sleep is in it with
 * no watch attached. A watch may be removed while its event waits further down in the batch being
 * handled: it is struck out there, so that ready() never sees a watch its owner has let go.
 */
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>
#include "base/check.h"
#include "base/rt_int.h"

int
reactor_open(struct reactor *r)
{
	r->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
	if (r->epoll_fd < 0) {
		return -errno;
	}
	r->event_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (r->event_fd < 0) {
		return -errno;
	}
	struct epoll_event event = {.events = EPOLLIN | EPOLLET, .data.ptr = NULL};
	return epoll_ctl(r->epoll_fd, EPOLL_CTL_ADD, r->event_fd, &event) == 0 ? 0 : -errno;
}

void
reactor_close(struct reactor *r)
{
	if (r->event_fd >= 0) {
		close(r->event_fd);
	}
	if (r->epoll_fd >= 0) {
		close(r->epoll_fd);
	}
}

int
rt_fdwatch_add(struct rt_fdwatch *w)
{
	ASSERT(!rt.sim);
	w->reactor = rt_cur->id;
	struct epoll_event event = {.events = w->events | EPOLLET, .data.ptr = w};
	return epoll_ctl(rt_cur->epoll_fd, EPOLL_CTL_ADD, w->fd, &event) == 0 ? 0 : -errno;
}

void
rt_fdwatch_remove(struct rt_fdwatch *w)
{
	struct reactor *r = rt_cur;
	ASSERT(w->reactor == r->id);
	/* Fails only for a descriptor that was closed, which took it out of the set already. */
	(void)epoll_ctl(r->epoll_fd, EPOLL_CTL_DEL, w->fd, NULL);
	for (int i = r->event_next; i < r->event_count; i++) {
		if (r->events[i].data.ptr == w) {
			r->events[i].data.ptr = NULL;
		}
	}
}

static int
reactor_epoll(struct reactor *r, struct epoll_event *events, uint64_t timeout_ns)
{
	struct timespec timeout = {
	    .tv_sec = (time_t)(timeout_ns / NSEC_PER_SEC),
	    .tv_nsec = (long)(timeout_ns % NSEC_PER_SEC),
	};
	const struct timespec *limit = timeout_ns == RT_FOREVER ? NULL : &timeout;
	int n = epoll_pwait2(r->epoll_fd, events, RT_EVENTS_PER_POLL, limit, NULL);
	ASSERT(n >= 0 || errno == EINTR);
	return MAX(n, 0);
}

unsigned
reactor_events(struct reactor *r, uint64_t timeout_ns)
{
	struct epoll_event events[RT_EVENTS_PER_POLL];
	int n = reactor_epoll(r, events, timeout_ns);
	atomic_store(&r->sleeping, false);
	r->events = events;
	r->event_count = n;
	for (r->event_next = 0; r->event_next < r->event_count;) {
		struct epoll_event *event = &events[r->event_next++];
		struct rt_fdwatch *w = event->data.ptr;
		if (w != NULL) {
			w->ready(w, event->events);
		}
	}
	r->events = NULL;
	r->event_count = 0;
	return (unsigned)n;
}
