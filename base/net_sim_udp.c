/*
 * net_sim_udp.c - the simulated network: datagrams. Each arrives after a delay of its own, so they
 * overtake each other; a full inbox loses what comes. On request some are lost or come twice.
 */
#include "base/net_sim_int.h"

#include <errno.h>
#include <string.h>
#include "base/check.h"
#include "base/mem.h"

#define INBOX_MAX 256u
#define DATAGRAM_BYTES_MAX 65507u

struct sim_datagram {
	struct list link;
	struct net_addr from, to;
	uint64_t due_ns;
	uint32_t len_bytes;
	uint8_t data[];
};

struct sim_udp {
	struct net_udp udp;
	struct list link;
	struct list inbox;
	unsigned inbox_count;
};

static struct sim_udp *
sim_udp_of(struct net_udp *u)
{
	return container_of(u, struct sim_udp, udp);
}

void
net_sim_set_udp_faults(unsigned lost_percent, unsigned dup_percent)
{
	struct sim_net *n = sim_net_get();

	if (n != NULL) {
		n->lost_percent = lost_percent;
		n->dup_percent = dup_percent;
	}
}

static struct sim_datagram *
inbox_earliest(struct sim_udp *s)
{
	struct sim_datagram *best = NULL;

	list_for_each(item, &s->inbox)
	{
		struct sim_datagram *d = list_entry(item, struct sim_datagram, link);

		if (best == NULL || d->due_ns < best->due_ns) {
			best = d;
		}
	}
	return best;
}

static int
sim_udp_bind(struct net_udp *u)
{
	(void)u;
	return 0;
}

static int64_t
sim_udp_try_recv(
    struct net_udp *u, struct iovec into, struct net_addr *out_from, uint64_t *out_retry_ns)
{
	struct sim_udp *s = sim_udp_of(u);
	struct sim_datagram *d = inbox_earliest(s);
	uint32_t n;

	if (d == NULL) {
		return -EAGAIN;
	}
	if (d->due_ns > rt_now_ns()) {
		*out_retry_ns = d->due_ns;
		return -EAGAIN;
	}
	n = (uint32_t)MIN(into.iov_len, d->len_bytes);
	memcpy(into.iov_base, d->data, n);
	*out_from = d->from;
	u->last_local = d->to;
	u->local_known = true;
	list_remove(&d->link);
	s->inbox_count--;
	mem_free(d);
	return n;
}

/* No memory is a lost datagram. */
static void
sim_udp_deliver(
    struct sim_udp *far, struct iovec what, const struct net_addr *to, const struct net_addr *from)
{
	struct sim_datagram *d;

	if (far->inbox_count >= INBOX_MAX) {
		return;
	}
	d = mem_zalloc(sizeof(*d) + what.iov_len);
	if (d == NULL) {
		return;
	}
	d->from = *from;
	d->to = *to;
	d->due_ns = rt_now_ns() + sim_net_delay_ns();
	d->len_bytes = (uint32_t)what.iov_len;
	memcpy(d->data, what.iov_base, what.iov_len);
	list_push_back(&far->inbox, &d->link);
	far->inbox_count++;
	net_waiter_wake(&far->udp.receiver);
}

static struct sim_udp *
sim_udp_find(struct sim_net *n, const struct net_addr *dst)
{
	list_for_each(item, &n->sockets)
	{
		struct sim_udp *s = list_entry(item, struct sim_udp, link);

		if (sim_net_matches(&s->udp.addr, dst)) {
			return s;
		}
	}
	return NULL;
}

static int64_t
sim_udp_send(
    struct net_udp *u, struct iovec what, const struct net_addr *to, const struct net_addr *from)
{
	struct sim_net *n = sim_net_get();
	struct sim_udp *far = sim_udp_find(n, to);
	struct net_addr src = from != NULL ? *from : n->client;
	uint64_t r = rt_random_u64();

	if (what.iov_len > DATAGRAM_BYTES_MAX) {
		return -EMSGSIZE;
	}
	src.port = u->addr.port;
	if (far == NULL || r % 100 < n->lost_percent) {
		return (int64_t)what.iov_len;
	}
	sim_udp_deliver(far, what, to, &src);
	if ((r >> 32) % 100 < n->dup_percent) {
		sim_udp_deliver(far, what, to, &src);
	}
	return (int64_t)what.iov_len;
}

static void
sim_udp_stop(struct net_udp *u)
{
	struct sim_udp *s = sim_udp_of(u);

	list_remove(&s->link);
	list_for_each_safe(item, tmp, &s->inbox)
	{
		struct sim_datagram *d = list_entry(item, struct sim_datagram, link);

		list_remove(&d->link);
		mem_free(d);
	}
	s->inbox_count = 0;
}

static void
sim_udp_unbind(struct net_udp *u)
{
	(void)u; /* nothing is tied to the reactor */
}

static void
sim_udp_free(struct net_udp *u)
{
	mem_free(sim_udp_of(u));
}

static const struct net_udp_ops sim_udp_ops = {
    .bind = sim_udp_bind,
    .try_recv = sim_udp_try_recv,
    .send = sim_udp_send,
    .stop = sim_udp_stop,
    .unbind = sim_udp_unbind,
    .free = sim_udp_free,
};

int
net_sim_udp_open(const char *host, uint16_t port, struct net_udp **out)
{
	struct sim_net *n = sim_net_get();
	struct net_addr a;
	struct sim_udp *s;
	int err;

	err = net_addr_parse(host, port, &a);
	if (err != 0) {
		return err;
	}
	if (n == NULL) {
		return -ENOMEM;
	}
	if (a.port == 0) {
		a.port = sim_net_port(n);
	}
	if (sim_udp_find(n, &a) != NULL) {
		return -EADDRINUSE;
	}
	s = mem_zalloc(sizeof(*s));
	if (s == NULL) {
		return -ENOMEM;
	}
	net_udp_init(&s->udp, &sim_udp_ops);
	s->udp.addr = a;
	list_init(&s->inbox);
	list_push_back(&n->sockets, &s->link);
	*out = &s->udp;
	return 0;
}
