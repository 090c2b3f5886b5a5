/* net_sim_int.h - private to net_sim*.c: the network of one simulated life. */
#ifndef AGATE_BASE_NET_SIM_INT_H
#define AGATE_BASE_NET_SIM_INT_H

#include "base/list.h"
#include "base/net_int.h"
#include "base/net_sim.h"

struct sim_net {
	struct list listeners; /* struct sim_listener */
	struct list sockets;   /* struct sim_udp */
	struct net_addr client;
	uint32_t uid, gid;
	int32_t pid;
	unsigned lost_percent, dup_percent;
	uint16_t next_port;
};

/* The network of this life, made on first use; NULL when there is no memory. */
struct sim_net *sim_net_get(void);
/* The next port for who doesn't care. */
uint16_t sim_net_port(struct sim_net *n);
/* How long bytes are under way: mostly some microseconds, sometimes milliseconds. */
uint64_t sim_net_delay_ns(void);
/* Does something bound to at receive what is sent to dst? */
bool sim_net_matches(const struct net_addr *at, const struct net_addr *dst);

/* What the two ends of a connection see of each other. */
struct sim_pair {
	struct net_addr near_peer, far_peer;
	bool unix_domain;
};
int sim_conn_pair(const struct sim_net *n, const struct sim_pair *p, struct net_conn **out_near,
    struct net_conn **out_far) WARN_UNUSED;
/* Frees an end that nobody has accepted; the other one is reset. */
void sim_conn_refuse(struct net_conn *c);

#endif
