/*
 * event.c - what happened to a pool lately: drives that went and came, scans, suspensions. A ring
 * in memory that anybody may write to without waiting, under any lock; who wants to keep events
 * longer (admin/) reads it by sequence number, which tells too whether some were missed.
 */
#include <stdarg.h>
#include <stdio.h>

#include "pool/event.h"
#include "pool/pool_int.h"

#define EVENTS_KEPT 256u

struct pool_events {
	struct spin lock;
	uint64_t count; /* ever; the newest has this sequence number */
	struct pool_event ring[EVENTS_KEPT];
};

int
events_open(struct pool_events **out)
{
	struct pool_events *e = mem_zalloc(sizeof(*e));

	if (e == NULL) {
		return -ENOMEM;
	}
	spin_init(&e->lock);
	*out = e;
	return 0;
}

void
events_close(struct pool_events *e)
{
	mem_free(e);
}

void
events_add(
    struct pool_events *e, enum pool_event_level level, const char *name, const char *fmt, ...)
{
	struct pool_event one = {.level = level, .time = rt_wall_ns() / NSEC_PER_SEC};
	va_list ap;

	if (e == NULL) {
		return;
	}
	(void)snprintf(one.name, sizeof(one.name), "%s", name);
	va_start(ap, fmt);
	(void)vsnprintf(one.text, sizeof(one.text), fmt, ap);
	va_end(ap);
	spin_lock(&e->lock);
	one.seq = ++e->count;
	e->ring[one.seq % EVENTS_KEPT] = one;
	spin_unlock(&e->lock);
}

uint32_t
pool_events_get(struct pool *p, uint64_t after, struct pool_event *out, uint32_t max)
{
	struct pool_events *e = p->v.events;
	uint32_t n = 0;
	uint64_t seq;

	if (e == NULL) {
		return 0;
	}
	spin_lock(&e->lock);
	seq = after + 1;
	if (e->count > EVENTS_KEPT && seq <= e->count - EVENTS_KEPT) {
		seq = e->count - EVENTS_KEPT + 1;
	}
	for (; n < max && seq <= e->count; seq++) {
		out[n++] = e->ring[seq % EVENTS_KEPT];
	}
	spin_unlock(&e->lock);
	return n;
}
