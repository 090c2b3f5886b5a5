/* event.h - see event.c. Private to pool/. */
#ifndef AGATE_POOL_EVENT_H
#define AGATE_POOL_EVENT_H

#include "pool/pool.h"

struct pool_events;

int events_open(struct pool_events **out) WARN_UNUSED;
void events_close(struct pool_events *e);
/* Never waits. NULL: nobody wants to know (a configuration that is only being looked at). */
void events_add(struct pool_events *e, enum pool_event_level level, const char *name, const char *fmt, ...) PRINTF_LIKE(4, 5);

#endif
