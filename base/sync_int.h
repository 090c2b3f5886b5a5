/*
 * sync_int.h - private to base/: what all waits between fibers share.
 *
 * A waiter lives on the stack of the fiber that waits. Everything in it is protected by the guard
 * of what it waits for: who grants sets granted and takes it off the list under the guard; the
 * fiber looks at granted under the guard before it leaves the frame. So the granter may use the
 * waiter until it lets go of the guard, and not a moment longer; the fiber itself never goes away.
 */
#ifndef AGATE_BASE_SYNC_INT_H
#define AGATE_BASE_SYNC_INT_H

#include <stdbool.h>
#include <stdint.h>
#include "base/list.h"
#include "base/sync.h"

struct waiter {
	struct list link;
	struct fiber *fiber;
	uint64_t units; /* semaphore: how many it wants */
	void *item;     /* channel: what it sends or has been given */
	bool exclusive; /* rwlock: a writer */
	bool granted;
	bool refused; /* channel: closed while it waited */
};

void waiter_init(struct waiter *w);
/* guard is held at entry and at return. */
void waiter_park(struct spin *guard, struct waiter *w);
/* 0 granted; -ETIMEDOUT: not granted by then, and taken off the list. */
int waiter_park_until(struct spin *guard, struct waiter *w, uint64_t deadline_ns) WARN_UNUSED;
struct waiter *waiter_first(const struct list *l); /* NULL when there is none */
/* Takes w off its list and wakes its fiber; under the guard. */
void waiter_grant(struct waiter *w);

/* Lock ranks (debug): before the lock is taken, once it is held, when it is let go. */
void rank_check(const void *lock, unsigned rank, bool nested);
void rank_push(const void *lock, unsigned rank);
void rank_pop(const void *lock);

#endif
