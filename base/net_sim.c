/*
 * net_sim.c - the simulated network: who listens where, and connecting. Everything happens on one
 * thread, so there are no locks; what is random comes from the seed. Streams: net_sim_conn.c.
 */
#include "base/net_sim_int.h"

#include <errno.h>
#include <string.h>
#include "base/mem.h"

#define SIM_BACKLOG 64u
#define SIM_PORT_FIRST 49152u

struct sim_listener {
	struct net_listener listener;
	struct list link;                    /* in the network's list, until stopped */
	struct net_conn *queue[SIM_BACKLOG]; /* not accepted yet; a ring */
	unsigned queue_head, queued;
	char *path; /* NULL: by port */
};

/* The current life's network. A power cut drops what it points to; net_destroy forgets it. */
static struct sim_net *sim_net;

/* ---- the network ---- */

struct sim_net *
sim_net_get(void)
{
	struct sim_net *n = sim_net;

	if (n == NULL) {
		n = mem_zalloc(sizeof(*n));
		if (n == NULL) {
			return NULL;
		}
		list_init(&n->listeners);
		list_init(&n->sockets);
		n->client.ip[10] = n->client.ip[11] = 0xff;
		n->client.ip[12] = 127;
		n->client.ip[15] = 1;
		n->pid = 1;
		n->next_port = SIM_PORT_FIRST;
		sim_net = n;
	}
	return n;
}

void
net_sim_forget(bool power_cut)
{
	if (!power_cut) {
		mem_free(sim_net);
	}
	sim_net = NULL;
}

uint16_t
sim_net_port(struct sim_net *n)
{
	uint16_t port = n->next_port;

	n->next_port = port == UINT16_MAX ? SIM_PORT_FIRST : (uint16_t)(port + 1);
	return port;
}

uint64_t
sim_net_delay_ns(void)
{
	uint64_t r = rt_random_u64();

	if (r % 32 == 0) {
		return (r >> 8) % (20 * NSEC_PER_MSEC);
	}
	return (r >> 8) % (200 * NSEC_PER_USEC);
}

bool
sim_net_matches(const struct net_addr *at, const struct net_addr *dst)
{
	static const uint8_t any6[16];
	static const uint8_t any4[16] = {[10] = 0xff, [11] = 0xff};

	if (at->port != dst->port) {
		return false;
	}
	return memcmp(at->ip, any6, 16) == 0 || memcmp(at->ip, dst->ip, 16) == 0 ||
	       (memcmp(at->ip, any4, 16) == 0 && net_addr_is_v4(dst));
}

int
net_sim_set_client(const char *host)
{
	struct sim_net *n = sim_net_get();

	return n == NULL ? -ENOMEM : net_addr_parse(host, 0, &n->client);
}

void
net_sim_set_cred(unsigned uid, unsigned gid, int pid)
{
	struct sim_net *n = sim_net_get();

	if (n != NULL) {
		n->uid = uid;
		n->gid = gid;
		n->pid = pid;
	}
}

/* ---- listeners ---- */

static struct sim_listener *
sim_listener_of(struct net_listener *l)
{
	return container_of(l, struct sim_listener, listener);
}

static int
sim_listener_bind(struct net_listener *l)
{
	(void)l;
	return 0;
}

static int
sim_listener_try_accept(struct net_listener *l, struct net_conn **out)
{
	struct sim_listener *sl = sim_listener_of(l);

	if (sl->queued == 0) {
		return -EAGAIN;
	}
	*out = sl->queue[sl->queue_head];
	sl->queue_head = (sl->queue_head + 1) % SIM_BACKLOG;
	sl->queued--;
	return 0;
}

static void
sim_listener_stop(struct net_listener *l)
{
	struct sim_listener *sl = sim_listener_of(l);
	struct net_conn *c;

	list_remove(&sl->link);
	while (sim_listener_try_accept(l, &c) == 0) {
		sim_conn_refuse(c);
	}
}

static void
sim_listener_unbind(struct net_listener *l)
{
	(void)l; /* nothing is tied to the reactor */
}

static void
sim_listener_free(struct net_listener *l)
{
	struct sim_listener *sl = sim_listener_of(l);

	mem_free(sl->path);
	mem_free(sl);
}

static const struct net_listener_ops sim_listener_ops = {
    .bind = sim_listener_bind,
    .try_accept = sim_listener_try_accept,
    .stop = sim_listener_stop,
    .unbind = sim_listener_unbind,
    .free = sim_listener_free,
};

/* dst NULL: by path. */
static struct sim_listener *
sim_listener_find(struct sim_net *n, const struct net_addr *dst, const char *path)
{
	list_for_each(item, &n->listeners)
	{
		struct sim_listener *sl = list_entry(item, struct sim_listener, link);
		bool match = dst != NULL
				 ? sl->path == NULL && sim_net_matches(&sl->listener.addr, dst)
				 : sl->path != NULL && strcmp(sl->path, path) == 0;

		if (match) {
			return sl;
		}
	}
	return NULL;
}

static struct sim_listener *
sim_listener_new(struct sim_net *n)
{
	struct sim_listener *sl = mem_zalloc(sizeof(*sl));

	if (sl != NULL) {
		net_listener_init(&sl->listener, &sim_listener_ops);
		list_push_back(&n->listeners, &sl->link);
	}
	return sl;
}

int
net_sim_listen(const char *host, uint16_t port, struct net_listener **out)
{
	struct sim_net *n = sim_net_get();
	struct sim_listener *sl;
	struct net_addr a;
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
	if (sim_listener_find(n, &a, NULL) != NULL) {
		return -EADDRINUSE;
	}
	sl = sim_listener_new(n);
	if (sl == NULL) {
		return -ENOMEM;
	}
	sl->listener.addr = a;
	*out = &sl->listener;
	return 0;
}

int
net_sim_listen_unix(const char *path, struct net_listener **out)
{
	struct sim_net *n = sim_net_get();
	struct sim_listener *sl;
	char *copy;

	if (n == NULL) {
		return -ENOMEM;
	}
	if (sim_listener_find(n, NULL, path) != NULL) {
		return -EADDRINUSE;
	}
	copy = mem_strdup(path);
	if (copy == NULL) {
		return -ENOMEM;
	}
	sl = sim_listener_new(n);
	if (sl == NULL) {
		mem_free(copy);
		return -ENOMEM;
	}
	sl->path = copy;
	*out = &sl->listener;
	return 0;
}

/* ---- connecting ---- */

static int
sim_connect_to(
    struct sim_net *n, struct sim_listener *sl, const struct net_addr *dst, struct net_conn **out)
{
	struct sim_pair pair = {.unix_domain = dst == NULL};
	struct net_conn *far;
	int err;

	if (dst != NULL) {
		pair.near_peer = *dst;
		pair.far_peer = n->client;
		pair.far_peer.port = sim_net_port(n);
	}
	err = sim_conn_pair(n, &pair, out, &far);
	if (err != 0) {
		return err;
	}
	sl->queue[(sl->queue_head + sl->queued++) % SIM_BACKLOG] = far;
	net_waiter_wake(&sl->listener.acceptor);
	return 0;
}

/* The listener is looked up after the delay, and again while its backlog is full. */
static int
sim_connect(
    const struct net_addr *dst, const char *path, uint64_t deadline_ns, struct net_conn **out)
{
	struct sim_net *n = sim_net_get();

	if (n == NULL) {
		return -ENOMEM;
	}
	for (;;) {
		uint64_t arrives_ns = rt_now_ns() + sim_net_delay_ns();
		struct sim_listener *sl;

		fiber_sleep_until(MIN(arrives_ns, deadline_ns));
		if (rt_now_ns() >= deadline_ns) {
			return -ETIMEDOUT;
		}
		sl = sim_listener_find(n, dst, path);
		if (sl == NULL) {
			return -ECONNREFUSED;
		}
		if (sl->queued < SIM_BACKLOG) {
			return sim_connect_to(n, sl, dst, out);
		}
	}
}

int
net_sim_connect(const char *host, uint16_t port, uint64_t deadline_ns, struct net_conn **out)
{
	struct net_addr dst;
	int err = host == NULL ? -EINVAL : net_addr_parse(host, port, &dst);

	return err != 0 ? err : sim_connect(&dst, NULL, deadline_ns, out);
}

int
net_sim_connect_unix(const char *path, struct net_conn **out)
{
	return sim_connect(NULL, path, rt_now_ns() + NET_UNIX_CONNECT_NS, out);
}
