/*
 * net_sim.h - knobs of the simulated network, for tests. They hold until the runtime ends.
 */
#ifndef AGATE_BASE_NET_SIM_H
#define AGATE_BASE_NET_SIM_H

#include "base/compiler.h"

/* Datagrams lost and duplicated from now on, in percent of those sent. Default: none. */
void net_sim_set_udp_faults(unsigned lost_percent, unsigned dup_percent);
/* The address later connects and datagrams come from; numeric. Default 127.0.0.1. 0 or -EINVAL. */
int net_sim_set_client(const char *host) WARN_UNUSED;
/* What later connects to a unix socket show as their credentials. Default 0, 0, 1. */
void net_sim_set_cred(unsigned uid, unsigned gid, int pid);

#endif
