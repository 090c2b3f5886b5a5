/*
 * nfsd_int.h - the private state of nfsd/.
 *
 * Field legend: [c] constant after start, [r] only the owning reactor, [s] under the guard named,
 * [a] atomic.
 */
#ifndef AGATE_NFSD_INT_H
#define AGATE_NFSD_INT_H

#include "nfsd/nfsd.h"
#include "nfsd/rpc.h"

#define NFSD_WTMAX (1u << 20)
#define CONN_RECORD_MAX \
	(NFSD_WTMAX + 4096u)   /* a WRITE of wtmax, its header and the largest credential */
#define CONN_INFLIGHT_MAX 128u /* requests of one connection that run at once */
#define REQUEST_SLICES_INLINE 24u
#define NFSD_CONN_MAX_DEFAULT 4096u
#define CONN_PEERS 256u

struct conn;
struct drc;
struct export_table;

struct nfsd_pool {
	struct list link;
	struct pool *pool;     /* [c] */
	struct fs_pool *fp;    /* [c] */
	uint8_t key_id;        /* [c] newest handle key */
	uint8_t key_count;     /* [c] */
	uint8_t keys[4][16];   /* [c] */
	uint8_t write_verf[8]; /* [c] new each time the pool is taken up: a pool that was closed
				  while it couldn't sync has lost what was unstable */
};

/* Which programs a port serves. */
enum { SERVE_NFS = 1, SERVE_MOUNT = 2, SERVE_PORTMAP = 4 };

struct listener {
	struct nfsd *n;
	struct net_listener *tcp;
	struct net_udp *udp;
	unsigned programs;
};
#define NFSD_LISTENERS 3

struct nfsd {
	struct nfsd_config cfg;                      /* [c] */
	struct listener listeners[NFSD_LISTENERS];   /* [c] */
	unsigned listener_count;                     /* [c] */
	uint16_t nfs_port, mount_port, portmap_port; /* [c] 0 = not served */
	uint16_t mount_udp, portmap_udp;             /* [c] the same for datagrams */
	struct waitgroup fibers;                     /* acceptors, datagram servers, the sweeper */
	atomic_bool stopping;
	struct drc *drc;

	struct spin conns_guard;
	struct list conns;          /* [s] conns_guard */
	uint32_t conn_count;        /* [s] conns_guard */
	uint32_t reactor_conns[64]; /* [s] conns_guard */
	/* Written under conns_guard, read by anybody. Connections by a hash of the client's
	 * address; how many of these are not 0. */
	atomic_uint peer_conns[CONN_PEERS], peers_used;
	uint32_t requests_max; /* [c] requests that half of the send budget has room for */

	struct mutex config_lock;   /* RANK_NFSD_EXPORTS: pools and publishing */
	struct list pools;          /* under config_lock */
	atomic_uint pools_changing; /* see nfsd_pools_changing */
	struct spin table_guard;
	struct export_table *table;    /* [s] table_guard */
	struct nfsd_export *published; /* under config_lock: what the owner asked for, to recompile
					  when pools change */
	uint32_t published_count;

	struct mount_list *mounts; /* mount.c: who mounted what, for DUMP */

	atomic_ullong proc_calls[22], proc_errors[22];
	atomic_ullong connections_total, bytes_in, bytes_out, drc_hits, bad_rpc;
};

/*
 * One call. It lives at the start of its own arena buffer, which also holds the head of the reply,
 * so that a request costs no heap. A datagram's request has no conn.
 */
struct request {
	struct list link; /* conn->outq */
	struct nfsd *n;
	struct conn *conn;         /* NULL: datagram */
	const struct net_udp *udp; /* of a datagram */
	struct net_addr peer;
	unsigned programs;  /* SERVE_* of the port it came in by */
	struct iobuf *self; /* this buffer */
	struct iobuf *rx;   /* holds the message */
	const uint8_t *msg;
	uint32_t msg_len;
	struct rpc_call call;
	enum rpc_accept_stat accept;
	/* reply */
	struct iobuf *big; /* a larger head (READDIR), or NULL */
	uint8_t *head;     /* record mark first */
	struct xdr_out out;
	struct pool_slice *slices; /* READ data behind the head */
	uint32_t slice_count, slice_bytes;
	struct iobuf *slice_buf; /* holds slices when there are many */
	uint32_t pinned_bytes;   /* of the connection's share of lent buffers */
	struct pool_slice slices_inline[REQUEST_SLICES_INLINE];
	uint8_t slice_pad;
	struct export_table *table; /* held while the request runs, or NULL */
};
#define REQUEST_HEAD_BYTES_MIN 1536u
STATIC_ASSERT(sizeof(struct request) + REQUEST_HEAD_BYTES_MIN <= 4096);

/* request.c */
struct request *request_new(
    struct nfsd *n, struct iobuf *rx, const uint8_t *msg, uint32_t len) MAY_PARK;
void request_free(struct request *r);
/* Decodes and executes; on true r->head .. r->out.pos (and the slices) is the reply; false: no
 * reply, close. */
bool request_run(struct request *r) MAY_PARK;
/* Makes room for a reply body of up to body_bytes. */
int request_grow(struct request *r, uint32_t body_bytes) WARN_UNUSED MAY_PARK;

/* conn.c */
void conn_accept(struct listener *l, struct net_conn *net);
void conn_shutdown_all(struct nfsd *n);
void conn_sweep(struct nfsd *n);   /* closes what has been idle too long */
void conn_relieve(struct nfsd *n); /* closes what keeps receive buffers from others */

/* Waits until the connection may lend so many bytes more to its socket: replies of its own must be
 * sent first. A client that doesn't read pins no more than CONN_PIN_MAX. bytes <= NFSD_WTMAX. */
void conn_pin(struct request *r, uint32_t bytes) MAY_PARK;
/* The address of ours that the call came to. */
void conn_local(const struct conn *c, struct net_addr *out);

/* The programs; each writes its result behind the header in r->out, or sets r->accept. */
void nfs3_run(struct request *r) MAY_PARK;
void mount_run(struct request *r) MAY_PARK;
void portmap_run(struct request *r) MAY_PARK;
int mount_list_create(struct mount_list **out) WARN_UNUSED;
void mount_list_destroy(struct mount_list *m);

/* udp.c */
void udp_serve(void *listener) MAY_PARK;

#endif
