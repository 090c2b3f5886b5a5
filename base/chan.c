/*
 * chan.c - a bounded channel of pointers. Invariants under the guard: receivers wait only while it
 * is empty, senders only while it is full, nobody once it is closed. A sender hands straight to a
 * waiting receiver; a receiver that makes room lets the first waiting sender's item in, so that
 * order is kept.
 */
#include "base/check.h"
#include "base/mem.h"
#include "base/rt_int.h"
#include "base/sync_int.h"

int
chan_init(struct chan *c, uint32_t cap)
{
	ASSERT(cap > 0);
	void **slots = mem_zalloc_array(cap, sizeof(*slots));
	if (slots == NULL) {
		return -ENOMEM;
	}
	spin_init(&c->guard);
	c->slots = slots;
	c->cap = cap;
	c->head = 0;
	c->len = 0;
	c->closed = false;
	list_init(&c->senders);
	list_init(&c->receivers);
	return 0;
}

void
chan_destroy(struct chan *c)
{
	ASSERT(list_empty(&c->senders) && list_empty(&c->receivers));
	mem_free(c->slots);
	c->slots = NULL;
}

static void
chan_push(struct chan *c, void *item)
{
	ASSERT(c->len < c->cap);
	c->slots[(uint32_t)(((uint64_t)c->head + c->len) % c->cap)] = item;
	c->len++;
}

/* -EAGAIN when full. */
static int
chan_send_locked(struct chan *c, void *item)
{
	if (c->closed) {
		return -EPIPE;
	}
	struct waiter *receiver = waiter_first(&c->receivers);
	if (receiver != NULL) {
		receiver->item = item;
		waiter_grant(receiver);
		return 0;
	}
	if (c->len == c->cap) {
		return -EAGAIN;
	}
	chan_push(c, item);
	return 0;
}

int
chan_try_send(struct chan *c, void *item)
{
	spin_lock(&c->guard);
	int err = chan_send_locked(c, item);
	spin_unlock(&c->guard);
	return err;
}

int
chan_send(struct chan *c, void *item)
{
	spin_lock(&c->guard);
	int err = chan_send_locked(c, item);
	if (err == -EAGAIN) {
		struct waiter w;
		waiter_init(&w);
		w.item = item;
		list_push_back(&c->senders, &w.link);
		waiter_park(&c->guard, &w);
		err = w.refused ? -EPIPE : 0;
	}
	spin_unlock(&c->guard);
	return err;
}

static void *
chan_pop(struct chan *c)
{
	void *item = c->slots[c->head];
	c->head = c->head + 1 == c->cap ? 0 : c->head + 1;
	c->len--;
	struct waiter *sender = waiter_first(&c->senders);
	if (sender != NULL) {
		chan_push(c, sender->item);
		waiter_grant(sender);
	}
	return item;
}

int
chan_recv(struct chan *c, void **out_item)
{
	int err = 0;
	spin_lock(&c->guard);
	if (c->len > 0) {
		*out_item = chan_pop(c);
	} else if (c->closed) {
		err = -EPIPE;
	} else {
		struct waiter w;
		waiter_init(&w);
		list_push_back(&c->receivers, &w.link);
		waiter_park(&c->guard, &w);
		err = w.refused ? -EPIPE : 0;
		if (err == 0) {
			*out_item = w.item;
		}
	}
	spin_unlock(&c->guard);
	return err;
}

static void
chan_refuse_all(struct list *waiters)
{
	struct waiter *w;
	while ((w = waiter_first(waiters)) != NULL) {
		w->refused = true;
		waiter_grant(w);
	}
}

void
chan_close(struct chan *c)
{
	spin_lock(&c->guard);
	c->closed = true;
	chan_refuse_all(&c->senders);
	chan_refuse_all(&c->receivers);
	spin_unlock(&c->guard);
}
