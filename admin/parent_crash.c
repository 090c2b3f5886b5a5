/* parent_crash.c - when to stop restarting an engine that dies: CRASHES_MAX deaths within
 * CRASH_WINDOW_S. */
#include "admin/parent.h"

bool
parent_note_crash(struct parent_crashes *c, time_t now_s)
{
	c->at_s[c->count % CRASHES_MAX] = now_s;
	c->count++;
	time_t oldest = c->at_s[c->count % CRASHES_MAX]; /* of the last CRASHES_MAX */
	return c->count >= CRASHES_MAX && now_s - oldest < CRASH_WINDOW_S;
}
