/* conn_int.h - a connection, for conn.c and conn_limits.c only. */
#ifndef AGATE_NFSD_CONN_INT_H
#define AGATE_NFSD_CONN_INT_H

#include "nfsd/nfsd_int.h"

#define CONN_PARTIAL_MAX_NS (20 * NSEC_PER_SEC) /* a record must arrive whole within this */

struct conn {
	struct list link; /* nfsd->conns, under conns_guard */
	struct nfsd *n;
	struct net_conn *net;
	struct net_addr peer;
	unsigned programs, reactor;
	unsigned peer_slot;     /* [c] nfsd->peer_conns[] that counts it */
	atomic_bool giving_way; /* to be gone soon: wait for nothing more */
	struct rt_timer retry;
	uint32_t refs;           /* [r] */
	uint32_t inflight;       /* [r] requests that run or wait to be sent */
	bool dead, sending;      /* [r] */
	struct fiber *throttled; /* [r] the reader, while inflight is at its limit */
	struct sem pins;         /* bytes that may still be lent to the socket */
	struct list outq;        /* [r] finished requests */
	struct iobuf *rx;        /* [r] bytes rx_pos..rx_len are unread; NULL when empty */
	uint32_t rx_pos, rx_len;
	struct iobuf *frag; /* [r] a record that came in several fragments so far, or NULL */
	uint32_t frag_len;
	atomic_ullong last_ns,
	    partial_since_ns; /* since when a record has been incomplete; 0 = none */
	atomic_ullong calls, bytes_in, bytes_out;
};

/* One more or one less of them. conns_guard held. */
void conn_count_peer(struct nfsd *n, unsigned slot, int by);
/* Whether there is, or will be made, a place for one more connection of that peer_slot. conns_guard
 * held. */
bool conn_make_room(struct nfsd *n, unsigned slot);

#endif
