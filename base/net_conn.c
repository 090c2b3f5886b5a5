/*
 * net_conn.c - the part of streams, listeners and datagram sockets that real and simulated ones
 * share: who waits, who is woken, who owns. The backends (net_fd.c, net_udp.c, net_sim*.c) offer
 * calls that don't wait for the peer, and report events; that waiting is here.
 *
 * A connection is bound to the reactor that uses it first: its reads, writes and events happen on
 * that reactor's thread only, so that no event can slip in between "nothing there" and the park,
 * and none of this needs a lock. The exception is net_conn_shutdown, which may come from anywhere:
 * it sets `shut`, then wakes. A waiter announces itself under the waiter's guard first and looks at
 * `shut` afterwards, so one of the two sees the other. A waiter leaves under the guard as well, so
 * that nobody wakes a fiber that has ended.
 *
 * Freeing. net_conn_close waits out a shutdown that is just returning, and runs on the owning
 * reactor, or is posted there. Listeners and datagram sockets have a fiber that may be between two
 * calls when they are closed: they stop at once, but their memory waits in the graveyard for the
 * end of the runtime. They are few.
 */
#include "base/net_int.h"

#include <errno.h>
#include <string.h>
#include "base/check.h"
#include "base/mem.h"
#include "base/rt_int.h"

/* What lives as long as the runtime. */
static struct {
	struct spin guard;
	struct net_grave *graves; /* [guard] */
} net_life;

/* ---- waiting ---- */

void
net_waiter_init(struct net_waiter *w)
{
	spin_init(&w->guard);
	w->fiber = NULL;
}

int
net_waiter_park(struct net_waiter *w, const atomic_bool *stop, uint64_t deadline_ns)
{
	int err = 0;

	spin_lock(&w->guard);
	ASSERT(w->fiber == NULL);
	w->fiber = fiber_self();
	ASSERT(w->fiber != NULL);
	spin_unlock(&w->guard);
	if (!atomic_load(stop)) {
		err = fiber_park_until(deadline_ns);
	}
	spin_lock(&w->guard);
	w->fiber = NULL;
	spin_unlock(&w->guard);
	return err;
}

void
net_waiter_wake(struct net_waiter *w)
{
	spin_lock(&w->guard);
	if (w->fiber != NULL) {
		fiber_wake(w->fiber);
	}
	spin_unlock(&w->guard);
}

/* Whose an object is; the current reactor becomes the owner of one that had none. */
enum bound { BOUND_FIRST, BOUND_MINE, BOUND_OTHER };

static enum bound
bind_reactor(atomic_int *reactor)
{
	int owner = NET_UNBOUND, self;

	ASSERT(rt_cur != NULL); /* helper threads have no sockets */
	self = (int)rt_cur->id;
	if (atomic_compare_exchange_strong(reactor, &owner, self)) {
		return BOUND_FIRST;
	}
	return owner == self ? BOUND_MINE : BOUND_OTHER;
}

/* ---- the runtime's life ---- */

void
net_bury(struct net_grave *g, void (*release)(struct net_grave *g))
{
	g->release = release;
	spin_lock(&net_life.guard);
	g->next = net_life.graves;
	net_life.graves = g;
	spin_unlock(&net_life.guard);
}

void
net_create(void)
{
	spin_init(&net_life.guard);
	net_life.graves = NULL;
}

void
net_destroy(bool power_cut)
{
	struct net_grave *g = power_cut ? NULL : net_life.graves;

	net_life.graves = NULL;
	while (g != NULL) {
		struct net_grave *next = g->next;

		g->release(g);
		g = next;
	}
	net_sim_forget(power_cut);
}

/* ---- streams ---- */

void
net_conn_init(struct net_conn *c, const struct net_conn_ops *ops)
{
	c->ops = ops;
	atomic_init(&c->reactor, NET_UNBOUND);
	atomic_init(&c->shut, false);
	atomic_init(&c->shutters, 0);
	net_waiter_init(&c->reader);
	net_waiter_init(&c->writer);
}

/* Called first by everything that uses c. */
static int
conn_use(struct net_conn *c)
{
	enum bound bound = bind_reactor(&c->reactor);
	int err;

	if (likely(bound == BOUND_MINE)) {
		return 0;
	}
	ASSERT(bound == BOUND_FIRST);
	err = c->ops->bind(c);
	if (err != 0) {
		atomic_store(&c->reactor, NET_UNBOUND);
	}
	return err;
}

void
net_conn_event(struct net_conn *c, bool readable, bool writable)
{
	void (*fn)(void *arg) = c->readable_fn;
	void *arg = c->readable_arg;

	if (writable) {
		net_waiter_wake(&c->writer);
	}
	if (!readable) {
		return;
	}
	net_waiter_wake(&c->reader);
	if (fn != NULL) {
		c->readable_fn = NULL;
		fn(arg);
	}
}

void
net_peer(const struct net_conn *c, struct net_addr *out)
{
	*out = c->peer;
}

void
net_local(const struct net_conn *c, struct net_addr *out)
{
	*out = c->local;
}

int
net_peer_cred(const struct net_conn *c, uint32_t *out_uid, uint32_t *out_gid, int32_t *out_pid)
{
	return c->ops->peer_cred(c, out_uid, out_gid, out_pid);
}

int64_t
net_try_read(struct net_conn *c, void *buf, uint32_t len)
{
	int err = conn_use(c);

	if (err != 0) {
		return err;
	}
	return atomic_load(&c->shut) ? -ECANCELED : c->ops->try_read(c, buf, len);
}

int64_t
net_read(struct net_conn *c, void *buf, uint32_t len, uint64_t deadline_ns)
{
	int64_t n = net_try_read(c, buf, len);

	while (n == -EAGAIN) {
		int err = net_waiter_park(&c->reader, &c->shut, deadline_ns);

		n = net_try_read(c, buf, len);
		if (n == -EAGAIN && err != 0) {
			return err;
		}
	}
	return n;
}

/* Drops the first n bytes of what is left to write. */
static void
iov_advance(struct iovec **iov, int *iov_count, size_t n)
{
	while (*iov_count > 0 && n >= (*iov)->iov_len) {
		n -= (*iov)->iov_len;
		(*iov)++;
		(*iov_count)--;
	}
	if (n > 0) {
		ASSERT(*iov_count > 0);
		(*iov)->iov_base = (uint8_t *)(*iov)->iov_base + n;
		(*iov)->iov_len -= n;
	}
}

int
net_writev(struct net_conn *c, struct iovec *iov, int iov_count, uint64_t deadline_ns)
{
	int err = conn_use(c);

	if (err != 0) {
		return err;
	}
	iov_advance(&iov, &iov_count, 0);
	while (iov_count > 0) {
		int64_t n = atomic_load(&c->shut) ? -EPIPE : c->ops->try_writev(c, iov, iov_count);

		if (n >= 0) {
			iov_advance(&iov, &iov_count, (size_t)n);
			continue;
		}
		if (n != -EAGAIN) {
			return (int)n;
		}
		if (err != 0) {
			return err;
		}
		err = net_waiter_park(&c->writer, &c->shut, deadline_ns);
	}
	return 0;
}

void
net_conn_on_readable(struct net_conn *c, void (*fn)(void *arg), void *arg)
{
	int err = conn_use(c);

	/* An event that comes from here on finds the function; before, it changed what readable()
	 * says. When watching failed, fn learns the reason from its read. */
	c->readable_arg = arg;
	c->readable_fn = fn;
	if (fn != NULL && (err != 0 || atomic_load(&c->shut) || c->ops->readable(c))) {
		c->readable_fn = NULL;
		fn(arg);
	}
}

void
net_conn_shutdown(struct net_conn *c)
{
	atomic_fetch_add(&c->shutters, 1);
	if (!atomic_exchange(&c->shut, true)) {
		c->ops->shutdown(c);
		net_waiter_wake(&c->reader);
		net_waiter_wake(&c->writer);
	}
	atomic_fetch_sub(&c->shutters, 1);
}

static void
conn_close_posted(struct rt_msg *m)
{
	struct net_conn *c = container_of(m, struct net_conn, close_msg);

	c->ops->free(c);
}

void
net_conn_close(struct net_conn *c)
{
	/* Whom a shutdown wakes may be here before the one that woke it has left. */
	while (atomic_load(&c->shutters) > 0) {
		cpu_relax();
	}
	ASSERT(c->reader.fiber == NULL && c->writer.fiber == NULL);
	if (bind_reactor(&c->reactor) != BOUND_OTHER) {
		c->ops->free(c);
		return;
	}
	c->close_msg.fn = conn_close_posted;
	rt_post((unsigned)atomic_load(&c->reactor), &c->close_msg);
}

/* ---- listeners ---- */

void
net_listener_init(struct net_listener *l, const struct net_listener_ops *ops)
{
	l->ops = ops;
	atomic_init(&l->reactor, NET_UNBOUND);
	atomic_init(&l->closed, false);
	net_waiter_init(&l->acceptor);
}

void
net_listener_addr(const struct net_listener *l, struct net_addr *out)
{
	*out = l->addr;
}

static int
listener_use(struct net_listener *l)
{
	enum bound bound = bind_reactor(&l->reactor);
	int err = 0;

	if (bound == BOUND_FIRST) {
		err = l->ops->bind(l);
		if (err != 0) {
			atomic_store(&l->reactor, NET_UNBOUND);
		}
	} else if (bound == BOUND_OTHER) {
		ASSERT(atomic_load(&l->closed));
		err = -ECANCELED;
	}
	return err;
}

int
net_accept(struct net_listener *l, struct net_conn **out)
{
	int err = atomic_load(&l->closed) ? -ECANCELED : listener_use(l);

	if (err != 0) {
		return err;
	}
	for (;;) {
		if (atomic_load(&l->closed)) {
			return -ECANCELED;
		}
		err = l->ops->try_accept(l, out);
		if (err != -EAGAIN) {
			return err;
		}
		(void)!net_waiter_park(&l->acceptor, &l->closed, RT_FOREVER);
	}
}

static void
listener_unbind_posted(struct rt_msg *m)
{
	struct net_listener *l = container_of(m, struct net_listener, unbind_msg);

	l->ops->unbind(l);
}

static void
listener_release(struct net_grave *g)
{
	struct net_listener *l = container_of(g, struct net_listener, grave);

	l->ops->free(l);
}

void
net_listener_close(struct net_listener *l)
{
	bool before = atomic_exchange(&l->closed, true);

	ASSERT(!before);
	l->ops->stop(l);
	net_waiter_wake(&l->acceptor);
	if (bind_reactor(&l->reactor) != BOUND_OTHER) {
		l->ops->unbind(l);
	} else {
		l->unbind_msg.fn = listener_unbind_posted;
		rt_post((unsigned)atomic_load(&l->reactor), &l->unbind_msg);
	}
	net_bury(&l->grave, listener_release);
}

/* ---- datagrams ---- */

void
net_udp_init(struct net_udp *u, const struct net_udp_ops *ops)
{
	u->ops = ops;
	atomic_init(&u->reactor, NET_UNBOUND);
	atomic_init(&u->closed, false);
	atomic_init(&u->senders, 0);
	net_waiter_init(&u->receiver);
}

void
net_udp_addr(const struct net_udp *u, struct net_addr *out)
{
	*out = u->addr;
}

static int
udp_use(struct net_udp *u)
{
	enum bound bound = bind_reactor(&u->reactor);
	int err = 0;

	if (bound == BOUND_FIRST) {
		err = u->ops->bind(u);
		if (err != 0) {
			atomic_store(&u->reactor, NET_UNBOUND);
		}
	} else if (bound == BOUND_OTHER) {
		ASSERT(atomic_load(&u->closed));
		err = -ECANCELED;
	}
	return err;
}

int64_t
net_udp_recv(struct net_udp *u, void *buf, uint32_t len, struct net_addr *out_from)
{
	int err = atomic_load(&u->closed) ? -ECANCELED : udp_use(u);

	if (err != 0) {
		return err;
	}
	for (;;) {
		uint64_t retry_ns = RT_FOREVER;
		int64_t n;

		if (atomic_load(&u->closed)) {
			return -ECANCELED;
		}
		u->local_known = false;
		n = u->ops->try_recv(
		    u, (struct iovec){.iov_base = buf, .iov_len = len}, out_from, &retry_ns);
		if (n >= 0) {
			u->last_from = *out_from;
		}
		if (n != -EAGAIN) {
			return n;
		}
		(void)!net_waiter_park(&u->receiver, &u->closed, retry_ns);
	}
}

/* A machine with several addresses must answer from the one that was asked: clients drop other
 * answers. So what goes back to where the last datagram came from leaves from where that one
 * arrived. */
static const struct net_addr *
udp_reply_from(const struct net_udp *u, const struct net_addr *to)
{
	const struct net_addr *last = &u->last_from;
	bool reply = rt_cur != NULL && atomic_load(&u->reactor) == (int)rt_cur->id &&
		     u->local_known && memcmp(to->ip, last->ip, sizeof(to->ip)) == 0 &&
		     to->port == last->port && to->scope == last->scope;

	return reply ? &u->last_local : NULL;
}

bool
net_udp_last_local(const struct net_udp *u, struct net_addr *out)
{
	if (u->local_known) {
		*out = u->last_local;
		out->port = u->addr.port;
	}
	return u->local_known;
}

int64_t
net_udp_send(struct net_udp *u, const void *buf, uint32_t len, const struct net_addr *to)
{
	/* An iovec is not const, but nobody writes through this one. */
	union {
		const void *in;
		void *out;
	} bytes = {.in = buf};
	int64_t n = -ECANCELED;

	atomic_fetch_add(&u->senders, 1);
	if (!atomic_load(&u->closed)) {
		n = u->ops->send(u, (struct iovec){.iov_base = bytes.out, .iov_len = len}, to,
		    udp_reply_from(u, to));
	}
	atomic_fetch_sub(&u->senders, 1);
	return n;
}

/* A send on another reactor may be under way; it doesn't wait, so neither does this for long. */
static void
udp_unbind(struct net_udp *u)
{
	while (atomic_load(&u->senders) > 0) {
		cpu_relax();
	}
	u->ops->unbind(u);
}

static void
udp_unbind_posted(struct rt_msg *m)
{
	udp_unbind(container_of(m, struct net_udp, unbind_msg));
}

static void
udp_release(struct net_grave *g)
{
	struct net_udp *u = container_of(g, struct net_udp, grave);

	u->ops->free(u);
}

void
net_udp_close(struct net_udp *u)
{
	bool before = atomic_exchange(&u->closed, true);

	ASSERT(!before);
	u->ops->stop(u);
	net_waiter_wake(&u->receiver);
	if (bind_reactor(&u->reactor) != BOUND_OTHER) {
		udp_unbind(u);
	} else {
		u->unbind_msg.fn = udp_unbind_posted;
		rt_post((unsigned)atomic_load(&u->reactor), &u->unbind_msg);
	}
	net_bury(&u->grave, udp_release);
}
