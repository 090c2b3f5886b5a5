/*
 * net_int.h - private to base/: what the real and the simulated sockets share. Theory: net_conn.c.
 */
#ifndef AGATE_BASE_NET_INT_H
#define AGATE_BASE_NET_INT_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/socket.h>
#include "base/net.h"
#include "base/rt.h"
#include "base/sync.h"

#define NET_UNBOUND (-1)
#define NET_BACKLOG 512
#define NET_UNIX_CONNECT_NS (5 * NSEC_PER_SEC) /* how long a full backlog is waited for */

/* A place where one fiber waits. */
struct net_waiter {
	struct spin guard;
	struct fiber *fiber; /* [guard] */
};
void net_waiter_init(struct net_waiter *w);
/* Parks until woken, until the deadline or, when *stop is or becomes set, not at all. 0 or
 * -ETIMEDOUT. */
int net_waiter_park(
    struct net_waiter *w, const atomic_bool *stop, uint64_t deadline_ns) WARN_UNUSED MAY_PARK;
void net_waiter_wake(struct net_waiter *w); /* any thread */

/* A listener or datagram socket that was closed: freed when the runtime ends, since its fiber may
 * still be on its way into a call that has to answer -ECANCELED. */
struct net_grave {
	struct net_grave *next;
	void (*release)(struct net_grave *g);
};
void net_bury(struct net_grave *g, void (*release)(struct net_grave *g));

/* ---- streams ---- */

struct net_conn_ops {
	/* All but shutdown run on the owning reactor (free of an unbound one: anywhere). */
	int (*bind)(struct net_conn *c); /* start watching; 0 or negative errno */
	int64_t (*try_read)(struct net_conn *c, void *buf, uint32_t len);
	int64_t (*try_writev)(
	    struct net_conn *c, struct iovec *iov, int iov_count); /* bytes, -EAGAIN, ... */
	bool (*readable)(struct net_conn *c); /* false: net_conn_event will tell */
	void (*shutdown)(struct net_conn *c);
	void (*free)(struct net_conn *c);
	int (*peer_cred)(
	    const struct net_conn *c, uint32_t *out_uid, uint32_t *out_gid, int32_t *out_pid);
};

struct net_conn {
	const struct net_conn_ops *ops; /* [c] */
	struct net_addr peer, local;    /* [c] */
	atomic_int reactor;             /* owner, or NET_UNBOUND before the first use */
	atomic_bool shut;
	atomic_uint shutters; /* inside net_conn_shutdown now */
	struct net_waiter reader, writer;
	void (*readable_fn)(void *arg); /* [r] */
	void *readable_arg;             /* [r] */
	struct rt_msg close_msg;
};
void net_conn_init(struct net_conn *c, const struct net_conn_ops *ops);
/* The backend saw something, on the owning reactor. c may be gone afterwards. */
void net_conn_event(struct net_conn *c, bool readable, bool writable);

struct net_listener_ops {
	int (*bind)(struct net_listener *l);
	int (*try_accept)(struct net_listener *l, struct net_conn **out); /* 0, -EAGAIN or worse */
	void (*stop)(struct net_listener *l);   /* at once, from any reactor: no more connections */
	void (*unbind)(struct net_listener *l); /* on the owning reactor */
	void (*free)(struct net_listener *l);   /* at the end of the runtime */
};

struct net_listener {
	const struct net_listener_ops *ops; /* [c] */
	struct net_addr addr;               /* [c] */
	atomic_int reactor;
	atomic_bool closed;
	struct net_waiter acceptor;
	struct rt_msg unbind_msg;
	struct net_grave grave;
};
void net_listener_init(struct net_listener *l, const struct net_listener_ops *ops);

/* ---- datagrams ---- */

struct net_udp_ops {
	int (*bind)(struct net_udp *u);
	/* Fills in out_from and, if it can, last_local. -EAGAIN: the backend wakes the receiver, or
	 * it looks again at *out_retry_ns. */
	int64_t (*try_recv)(struct net_udp *u, struct iovec into, struct net_addr *out_from,
	    uint64_t *out_retry_ns);
	/* from: the local address to send from, of which the port is ignored; NULL: any. */
	int64_t (*send)(struct net_udp *u, struct iovec what, const struct net_addr *to,
	    const struct net_addr *from);
	void (*stop)(struct net_udp *u);
	void (*unbind)(struct net_udp *u);
	void (*free)(struct net_udp *u);
};

struct net_udp {
	const struct net_udp_ops *ops; /* [c] */
	struct net_addr addr;          /* [c] */
	struct net_addr last_from;     /* [r] who sent what was received last, */
	struct net_addr last_local;    /* [r] and to which address of ours */
	bool local_known;              /* [r] */
	atomic_int reactor;
	atomic_bool closed;
	atomic_uint senders; /* inside send now; the descriptor is closed when there is none */
	struct net_waiter receiver;
	struct rt_msg unbind_msg;
	struct net_grave grave;
};
void net_udp_init(struct net_udp *u, const struct net_udp_ops *ops);

/* ---- addresses and file descriptors ---- */

/* Decodes what the kernel handed out; -EAFNOSUPPORT for what is neither IPv4 nor IPv6. */
int net_addr_decode(
    const struct sockaddr_storage *ss, socklen_t len, struct net_addr *out) WARN_UNUSED;
/* For the socket's family: a socket of AF_INET takes IPv4 only. -EAFNOSUPPORT. */
int net_addr_encode(const struct net_addr *a, int family, struct sockaddr_storage *out,
    socklen_t *out_len) WARN_UNUSED;
/* No delay of small replies; a peer that vanished is noticed within some minutes. */
void net_tcp_tune(int fd);
/* Opens, configures and binds a socket for host (see net_listen); returns the fd, or a negative
 * errno. */
int net_socket_bound(const char *host, uint16_t port, int type) WARN_UNUSED;

/* A descriptor and its watch, in whatever owns it. */
struct net_fd {
	struct rt_fdwatch watch; /* [r]; fd -1: closed */
	bool watched;            /* [r] */
};
int net_fd_watch(struct net_fd *f, uint32_t events,
    void (*ready)(struct rt_fdwatch *w, uint32_t events)) WARN_UNUSED;
/* Ends the watch and closes; once is enough. On the owning reactor, or when the runtime has ended. */
void net_fd_close(struct net_fd *f);
/* What fd is bound to; out is left alone for AF_UNIX. */
int net_fd_local(int fd, int *out_family, struct net_addr *out) WARN_UNUSED;

/* A connection over fd, which it owns afterwards, also on failure. 0 or -ENOMEM. */
int net_fd_conn(
    int fd, bool unix_domain, const struct net_addr *peer, struct net_conn **out) WARN_UNUSED;
/* Parks until a connect in progress on fd has an outcome. 0 or a negative errno. */
int net_fd_connect_wait(int fd, uint64_t deadline_ns) WARN_UNUSED MAY_PARK;
/* Listens on the bound fd. path: of a unix socket, removed on close; NULL else. Both are owned
 * afterwards, also on failure. */
int net_fd_listener(int fd, const char *path, struct net_listener **out) WARN_UNUSED;

/* ---- the simulated network ---- */
int net_sim_listen(const char *host, uint16_t port, struct net_listener **out) WARN_UNUSED;
int net_sim_listen_unix(const char *path, struct net_listener **out) WARN_UNUSED;
int net_sim_connect(const char *host, uint16_t port, uint64_t deadline_ns,
    struct net_conn **out) WARN_UNUSED MAY_PARK;
int net_sim_connect_unix(const char *path, struct net_conn **out) WARN_UNUSED MAY_PARK;
int net_sim_udp_open(const char *host, uint16_t port, struct net_udp **out) WARN_UNUSED;
void net_sim_forget(bool power_cut);

/* ---- for rt_run ---- */
void net_create(void);
/* power_cut: the memory of this life has gone or will go by itself; only forget it. */
void net_destroy(bool power_cut);

#endif
