/*
 * net_pair.h - what the tests of sockets share: each runs as turn 0 on real reactors and as further
 * turns on seeds of the simulation, through the same calls.
 */
#ifndef AGATE_TESTS_NET_PAIR_H
#define AGATE_TESTS_NET_PAIR_H

#include "base/base.h"
#include "base/net.h"
#include "tests/lib/unit.h"

#define SOON (rt_now_ns() + 20 * NSEC_PER_SEC)
#define TURNS 6u

/* Turn 0 is real, on several threads; the others are seeds of the simulation. Nothing may leak. */
static inline int
run_turn(unsigned turn, uint64_t seed, fiber_fn *fn, void *arg)
{
	struct rt_options opt = unit_rt(turn > 0, turn == 0 ? 3 : 1 + turn % 4, seed + turn);
	uint64_t live = mem_live_count();
	int err = rt_run(&opt, fn, arg);

	CU_ASSERT(mem_live_count() == live);
	return err;
}

static inline unsigned
other_reactor(void)
{
	return rt_reactor_count() - 1;
}

static inline uint16_t
port_of(const struct net_listener *l)
{
	struct net_addr a;

	net_listener_addr(l, &a);
	return a.port;
}

/* A pair over loopback; the caller accepts by itself, so it is fiber and acceptor at once. */
static inline void
pair(struct net_listener *l, struct net_conn **out_client, struct net_conn **out_server)
{
	CU_ASSERT_FATAL(net_connect("127.0.0.1", port_of(l), SOON, out_client) == 0);
	CU_ASSERT_FATAL(net_accept(l, out_server) == 0);
}

static inline int
write_all(struct net_conn *c, const void *buf, size_t len, uint64_t deadline_ns)
{
	union {
		const void *in;
		void *out;
	} u = {.in = buf};
	struct iovec iov = {.iov_base = u.out, .iov_len = len};

	return net_writev(c, &iov, 1, deadline_ns);
}

/* Reads until len bytes or the end; returns how many. */
static inline int64_t
read_all(struct net_conn *c, uint8_t *buf, uint32_t len)
{
	uint32_t got = 0;

	while (got < len) {
		int64_t n = net_read(c, buf + got, len - got, SOON);

		if (n < 0) {
			return n;
		}
		if (n == 0) {
			break;
		}
		got += (uint32_t)n;
	}
	return got;
}

#endif
