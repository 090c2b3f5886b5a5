/*
 * net.h - stream and datagram sockets for fibers. Real sockets over epoll, or, in the simulation, a
 * network inside the process with the same calls (seeded delays, resets on crash). Not part of
 * base.h: only nfsd/, admin/ and tests include it.
 */
#ifndef AGATE_BASE_NET_H
#define AGATE_BASE_NET_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/uio.h>
#include "base/rt.h"

struct net_listener;
struct net_conn;
struct net_udp;

struct net_addr {
	uint8_t ip[16]; /* IPv6, or IPv4-mapped (::ffff:a.b.c.d) */
	uint16_t port;  /* host order */
	uint32_t scope; /* IPv6 link-local interface, else 0 */
};

#define NET_ADDR_TEXT_MAX 72 /* "[address%scope]:port" and its NUL */
/* host: numeric IPv4 or IPv6 address, "%interface" allowed after a link-local one; NULL is the IPv6
 * wildcard. 0; -EINVAL when it is no such thing. */
int net_addr_parse(const char *host, uint16_t port, struct net_addr *out) WARN_UNUSED;
/* "192.0.2.1:111" or "[2001:db8::1]:111"; returns buf. */
const char *net_addr_format(const struct net_addr *a, char buf[NET_ADDR_TEXT_MAX]);
uint32_t net_ip_hash(const uint8_t ip[16]); /* all bits of it depend on all of ip; without a key */
bool net_addr_is_v4(const struct net_addr *a); /* the last four bytes of ip are it */

/* host: numeric IPv4 or IPv6 address, or NULL for any. port 0: the system chooses (see net_listener_addr).
 * 0; -EADDRINUSE, -EACCES, -EINVAL and other errno of socket(2), bind(2). */
int net_listen(const char *host, uint16_t port, struct net_listener **out) WARN_UNUSED;
int net_listen_fd(int fd, struct net_listener **out) WARN_UNUSED; /* a bound, listening fd; owned afterwards */
int net_listen_unix(const char *path, unsigned mode, struct net_listener **out) WARN_UNUSED; /* replaces a dead socket */
void net_listener_addr(const struct net_listener *l, struct net_addr *out);
/* One acceptor, on the reactor of its first call; what it returns may be used on any reactor. 0;
 * -ECANCELED after net_listener_close; -ENOMEM (a connection was dropped). */
int net_accept(struct net_listener *l, struct net_conn **out) WARN_UNUSED MAY_PARK;
/* From any reactor. The port is free at once; l stays valid (for -ECANCELED) until the runtime ends. */
void net_listener_close(struct net_listener *l);

/* 0; -ECONNREFUSED, -ETIMEDOUT, -EHOSTUNREACH, -EINVAL and other errno of connect(2). */
int net_connect(const char *host, uint16_t port, uint64_t deadline_ns, struct net_conn **out) WARN_UNUSED MAY_PARK;
int net_connect_unix(const char *path, struct net_conn **out) WARN_UNUSED MAY_PARK;
/* A new connection is bound to no reactor until its first use; the reactor that uses it first keeps it. */
void net_peer(const struct net_conn *c, struct net_addr *out);
void net_local(const struct net_conn *c, struct net_addr *out); /* our end; all zero when it can't be told */
int net_peer_cred(const struct net_conn *c, uint32_t *out_uid, uint32_t *out_gid, int32_t *out_pid) WARN_UNUSED; /* unix only */

/* Bytes read (1..len), 0 at end of stream, -EAGAIN (try), -ETIMEDOUT, -ECONNRESET, -ECANCELED after shutdown. */
int64_t net_try_read(struct net_conn *c, void *buf, uint32_t len) WARN_UNUSED;
int64_t net_read(struct net_conn *c, void *buf, uint32_t len, uint64_t deadline_ns) WARN_UNUSED MAY_PARK;
/* Writes all of iov (which it may modify) or fails: 0, -EPIPE (also after shutdown), -ECONNRESET,
 * -ETIMEDOUT. One reader and one writer at a time. */
int net_writev(struct net_conn *c, struct iovec *iov, int iov_count, uint64_t deadline_ns) WARN_UNUSED MAY_PARK;
/* An idle connection has no fiber: fn(arg) is called once, on the owning reactor's loop (it normally
 * spawns a fiber), when there is something to read, the peer has gone or net_conn_shutdown was called.
 * If so already, fn runs inside the call. fn NULL takes the request back. */
void net_conn_on_readable(struct net_conn *c, void (*fn)(void *arg), void *arg);
void net_conn_shutdown(struct net_conn *c); /* wakes all that wait on it; any reactor */
/* Frees it; nobody may be using it. From any reactor. A peer that sent what was never read sees a reset. */
void net_conn_close(struct net_conn *c);

int net_udp_open(const char *host, uint16_t port, struct net_udp **out) WARN_UNUSED;
/* Bytes received; what doesn't fit into len is cut off. -ECANCELED after net_udp_close; other
 * errno of recvmsg(2) when they don't stop. One receiver. */
int64_t net_udp_recv(struct net_udp *u, void *buf, uint32_t len, struct net_addr *out_from) WARN_UNUSED MAY_PARK;
/* From any reactor. Sent by the receiving fiber to where the last datagram came from, it leaves from
 * the address that one was sent to. len; -EAGAIN when the socket is full; -EMSGSIZE and other errno of sendto(2). */
int64_t net_udp_send(struct net_udp *u, const void *buf, uint32_t len, const struct net_addr *to) WARN_UNUSED;
/* By the receiving fiber: the address that the last datagram was sent to, when it is known. */
bool net_udp_last_local(const struct net_udp *u, struct net_addr *out);
void net_udp_addr(const struct net_udp *u, struct net_addr *out);
/* From any reactor. A waiting or later recv returns -ECANCELED; u stays valid for that until the runtime ends. */
void net_udp_close(struct net_udp *u);

#endif
