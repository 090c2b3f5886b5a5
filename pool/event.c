/*
 * event.c - what happened to a pool lately: drives that went and came, scans, suspensions. A ring
 * in memory that anybody may write to without waiting, under any lock; who wants to keep events
 * longer (admin/) reads it by sequence number, which tells too whether some were missed. A drive
 * that comes and goes must not push out everything else: of one kind only so many a minute are
 * kept, and the first of the next minute says how many weren't.
 */
#include <stdarg.h>
#include <stdio.h>

#include "pool/event.h"
#include "pool/pool_int.h"

#define EVENTS_KEPT 256u
#define NAMES_KEPT 32u
#define BURST 20u /* of one name within BURST_NS; the rest is counted */
#define BURST_NS (60 * NSEC_PER_SEC)

struct burst {
	char name[32];
	uint64_t begun_ns;
	uint32_t count, dropped;
};

struct pool_events {
	struct spin lock;
	struct burst bursts[NAMES_KEPT];
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

/* Under the lock. NULL: there are more names than we expect, whose events aren't limited. */
static struct burst *
burst_of(struct pool_events *e, const char *name)
{
	for (uint32_t i = 0; i < NAMES_KEPT; i++) {
		if (e->bursts[i].name[0] == '\0') {
			(void)snprintf(e->bursts[i].name, sizeof(e->bursts[i].name), "%s", name);
		}
		if (strncmp(e->bursts[i].name, name, sizeof(e->bursts[i].name) - 1) == 0) {
			return &e->bursts[i];
		}
	}
	return NULL;
}

/* Under the lock. False: too many lately. */
static bool
burst_admits(struct pool_events *e, struct pool_event *one)
{
	struct burst *b = burst_of(e, one->name);
	uint64_t now = rt_now_ns();
	size_t len;

	if (b == NULL) {
		return true;
	}
	if (b->count == 0 || now - b->begun_ns > BURST_NS) {
		if (b->dropped != 0) {
			len = strlen(one->text);
			(void)snprintf(one->text + len, sizeof(one->text) - len,
			    " (and %u more before, not kept)", b->dropped);
		}
		b->begun_ns = now;
		b->count = b->dropped = 0;
	}
	if (b->count >= BURST) {
		b->dropped++;
		return false;
	}
	b->count++;
	return true;
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
	if (burst_admits(e, &one)) {
		one.seq = ++e->count;
		e->ring[one.seq % EVENTS_KEPT] = one;
	}
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
