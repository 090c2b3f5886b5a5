/*
 * net_fd.c - connections and listeners over real file descriptors.
 *
 * Edge-triggered epoll reports a change once, so the last state is kept in two flags: `readable`
 * and `writable` are true when the kernel may have something for us, and only a call that came back
 * empty-handed (EAGAIN) clears them. A read that returned less than was asked for has drained the
 * socket too, unless the peer has closed: then the end of the stream is still to be fetched and
 * there may be no further edge for it.
 */
#include "base/net_int.h"

#include <errno.h>
#include <limits.h>
#include <stddef.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/un.h>
#include <unistd.h>
#include "base/check.h"
#include "base/log.h"
#include "base/mem.h"

#define ACCEPT_PAUSE_NS (50 * NSEC_PER_MSEC)
#define EPOLL_GONE ((uint32_t)(EPOLLRDHUP | EPOLLHUP | EPOLLERR))

/* ---- connections ---- */

struct fd_conn {
	struct net_conn conn;
	struct net_fd sock;
	bool unix_domain;        /* [c] */
	bool readable, writable; /* [r] */
	bool gone;               /* [r] the peer has closed or the connection is broken */
};

static struct fd_conn *
fd_conn_of(struct net_conn *c)
{
	return container_of(c, struct fd_conn, conn);
}

static void
fd_conn_ready(struct rt_fdwatch *w, uint32_t events)
{
	struct fd_conn *f = container_of(w, struct fd_conn, sock.watch);
	bool gone = (events & EPOLL_GONE) != 0;
	bool readable = gone || (events & (uint32_t)EPOLLIN) != 0;
	bool writable = (events & (uint32_t)(EPOLLOUT | EPOLLHUP | EPOLLERR)) != 0;

	f->gone |= gone;
	f->readable |= readable;
	f->writable |= writable;
	net_conn_event(&f->conn, readable, writable);
}

static int
fd_conn_bind(struct net_conn *c)
{
	struct fd_conn *f = fd_conn_of(c);

	f->readable = f->writable = true;
	return net_fd_watch(
	    &f->sock, (uint32_t)(EPOLLIN | EPOLLOUT | EPOLLRDHUP | EPOLLET), fd_conn_ready);
}

/* Everything that ends a stream is a reset to the caller, also a route that vanished. */
static int
stream_error(int e)
{
	return e == EPIPE ? -EPIPE : -ECONNRESET;
}

static int64_t
fd_conn_try_read(struct net_conn *c, void *buf, uint32_t len)
{
	struct fd_conn *f = fd_conn_of(c);
	ssize_t n;

	if (!f->readable) {
		return -EAGAIN;
	}
	do {
		n = recv(f->sock.watch.fd, buf, len, 0);
	} while (n < 0 && errno == EINTR);
	if (n < 0 && errno != EAGAIN) {
		return stream_error(errno);
	}
	if (n < 0 || ((size_t)n < len && !f->gone)) {
		f->readable = false;
	}
	if (n == 0 && len > 0) {
		f->readable = true; /* the end stays the end */
	}
	return n < 0 ? -EAGAIN : n;
}

static int64_t
fd_conn_try_writev(struct net_conn *c, struct iovec *iov, int iov_count)
{
	struct fd_conn *f = fd_conn_of(c);
	struct msghdr msg = {.msg_iov = iov, .msg_iovlen = (size_t)MIN(iov_count, IOV_MAX)};
	ssize_t n;

	if (!f->writable) {
		return -EAGAIN;
	}
	do {
		n = sendmsg(f->sock.watch.fd, &msg, MSG_NOSIGNAL);
	} while (n < 0 && errno == EINTR);
	if (n < 0 && errno == EAGAIN) {
		f->writable = false;
		return -EAGAIN;
	}
	return n < 0 ? stream_error(errno) : n;
}

static bool
fd_conn_readable(struct net_conn *c)
{
	struct fd_conn *f = fd_conn_of(c);
	uint8_t byte;
	ssize_t n;

	if (!f->readable) {
		return false;
	}
	n = recv(f->sock.watch.fd, &byte, 1, MSG_PEEK);
	f->readable = n >= 0 || errno != EAGAIN;
	return f->readable;
}

static void
fd_conn_shutdown(struct net_conn *c)
{
	/* Fails when the peer was faster; then its event has told the owner already. */
	(void)shutdown(fd_conn_of(c)->sock.watch.fd, SHUT_RDWR);
}

static void
fd_conn_free(struct net_conn *c)
{
	struct fd_conn *f = fd_conn_of(c);

	net_fd_close(&f->sock);
	mem_free(f);
}

static int
fd_conn_peer_cred(const struct net_conn *c, uint32_t *out_uid, uint32_t *out_gid, int32_t *out_pid)
{
	const struct fd_conn *f =
	    (const struct fd_conn *)(const void *)((const char *)c -
						   offsetof(struct fd_conn, conn));
	struct ucred cred;
	socklen_t len = sizeof(cred);

	if (!f->unix_domain) {
		return -EOPNOTSUPP;
	}
	if (getsockopt(f->sock.watch.fd, SOL_SOCKET, SO_PEERCRED, &cred, &len) != 0) {
		return -errno;
	}
	*out_uid = cred.uid;
	*out_gid = cred.gid;
	*out_pid = cred.pid;
	return 0;
}

static const struct net_conn_ops fd_conn_ops = {
    .bind = fd_conn_bind,
    .try_read = fd_conn_try_read,
    .try_writev = fd_conn_try_writev,
    .readable = fd_conn_readable,
    .shutdown = fd_conn_shutdown,
    .free = fd_conn_free,
    .peer_cred = fd_conn_peer_cred,
};

int
net_fd_conn(int fd, bool unix_domain, const struct net_addr *peer, struct net_conn **out)
{
	struct fd_conn *f = mem_zalloc(sizeof(*f));
	int family;

	if (f == NULL) {
		close(fd);
		return -ENOMEM;
	}
	net_conn_init(&f->conn, &fd_conn_ops);
	f->conn.peer = *peer;
	f->unix_domain = unix_domain;
	if (net_fd_local(fd, &family, &f->conn.local) != 0) {
		f->conn.local = (struct net_addr){0}; /* only told to others, never relied on */
	}
	f->sock.watch.fd = fd;
	*out = &f->conn;
	return 0;
}

/* ---- connecting: a watch of its own, so that the connection is unbound when it is handed out ----
 */

struct fd_connect {
	struct rt_fdwatch watch;
	struct net_waiter waiter;
	atomic_bool done;
};

static void
fd_connect_ready(struct rt_fdwatch *w, uint32_t events)
{
	struct fd_connect *fc = container_of(w, struct fd_connect, watch);

	if ((events & (uint32_t)(EPOLLOUT | EPOLLHUP | EPOLLERR)) != 0) {
		atomic_store(&fc->done, true);
		net_waiter_wake(&fc->waiter);
	}
}

static int
fd_connect_outcome(int fd)
{
	int err = 0;
	socklen_t len = sizeof(err);

	if (getsockopt(fd, SOL_SOCKET, SO_ERROR, &err, &len) != 0) {
		return -errno;
	}
	return -err;
}

int
net_fd_connect_wait(int fd, uint64_t deadline_ns)
{
	struct fd_connect fc = {.watch = {.fd = fd, .events = (uint32_t)(EPOLLOUT | EPOLLET)}};
	int err;

	fc.watch.ready = fd_connect_ready;
	net_waiter_init(&fc.waiter);
	atomic_init(&fc.done, false);
	err = rt_fdwatch_add(&fc.watch);
	if (err != 0) {
		return err;
	}
	while (err == 0 && !atomic_load(&fc.done)) {
		err = net_waiter_park(&fc.waiter, &fc.done, deadline_ns);
	}
	rt_fdwatch_remove(&fc.watch);
	return atomic_load(&fc.done) ? fd_connect_outcome(fd) : err;
}

/* ---- listeners ---- */

struct fd_listener {
	struct net_listener listener;
	struct net_fd sock;
	bool ready;       /* [r] */
	bool unix_domain; /* [c] */
	char path[sizeof(
	    ((struct sockaddr_un *)0)->sun_path)]; /* [c] to remove on close; or empty */
};

static struct fd_listener *
fd_listener_of(struct net_listener *l)
{
	return container_of(l, struct fd_listener, listener);
}

static void
fd_listener_ready(struct rt_fdwatch *w, uint32_t events)
{
	struct fd_listener *f = container_of(w, struct fd_listener, sock.watch);

	(void)events;
	f->ready = true;
	net_waiter_wake(&f->listener.acceptor);
}

static int
fd_listener_bind(struct net_listener *l)
{
	struct fd_listener *f = fd_listener_of(l);

	f->ready = true;
	return net_fd_watch(&f->sock, (uint32_t)(EPOLLIN | EPOLLET), fd_listener_ready);
}

/* Short of descriptors or memory: the connection stays in the backlog and nothing will tell when
 * there is room again, so it is tried again after a pause. */
static int
accept_failed(struct fd_listener *f, int e)
{
	switch (e) {
	case EAGAIN:
		f->ready = false;
		return -EAGAIN;
	case EMFILE:
	case ENFILE:
	case ENOBUFS:
	case ENOMEM:
		log_limited(
		    LOG_WARN, "net_accept_short errno=%d port=%u", e, f->listener.addr.port);
		fiber_sleep(ACCEPT_PAUSE_NS);
		return 0;
	case EBADF:
	case ENOTSOCK:
	case EOPNOTSUPP:
	case EINVAL: /* what shutdown does to a listening socket */
		f->ready = false;
		return atomic_load(&f->listener.closed) ? -ECANCELED : -e;
	default: /* this one connection failed before it was accepted */
		return 0;
	}
}

static int
fd_listener_try_accept(struct net_listener *l, struct net_conn **out)
{
	struct fd_listener *f = fd_listener_of(l);
	struct net_addr peer = {0};
	struct sockaddr_storage ss;
	socklen_t len;
	int fd;

	while (f->ready && !atomic_load(&l->closed)) {
		int err;

		len = sizeof(ss);
		fd = accept4(
		    f->sock.watch.fd, (struct sockaddr *)&ss, &len, SOCK_NONBLOCK | SOCK_CLOEXEC);
		if (fd < 0) {
			err = accept_failed(f, errno);
			if (err != 0) {
				return err;
			}
			continue;
		}
		if (!f->unix_domain && net_addr_decode(&ss, len, &peer) != 0) {
			close(fd);
			continue;
		}
		if (!f->unix_domain) {
			net_tcp_tune(fd);
		}
		return net_fd_conn(fd, f->unix_domain, &peer, out);
	}
	return -EAGAIN;
}

static void
fd_listener_stop(struct net_listener *l)
{
	struct fd_listener *f = fd_listener_of(l);

	/* Frees the port and refuses who is in the backlog; the descriptor itself is the owner's.
	 */
	(void)shutdown(f->sock.watch.fd, SHUT_RDWR);
	if (f->path[0] != '\0') {
		(void)unlink(f->path);
	}
}

static void
fd_listener_unbind(struct net_listener *l)
{
	net_fd_close(&fd_listener_of(l)->sock);
}

/* The descriptor is still there when the runtime ended before the owner came to it. */
static void
fd_listener_free(struct net_listener *l)
{
	net_fd_close(&fd_listener_of(l)->sock);
	mem_free(fd_listener_of(l));
}

static const struct net_listener_ops fd_listener_ops = {
    .bind = fd_listener_bind,
    .try_accept = fd_listener_try_accept,
    .stop = fd_listener_stop,
    .unbind = fd_listener_unbind,
    .free = fd_listener_free,
};

int
net_fd_listener(int fd, const char *path, struct net_listener **out)
{
	struct fd_listener *f = mem_zalloc(sizeof(*f));
	int family, err = -ENOMEM;

	if (f == NULL) {
		goto close_fd;
	}
	net_listener_init(&f->listener, &fd_listener_ops);
	err = net_fd_local(fd, &family, &f->listener.addr);
	if (err == 0 && listen(fd, NET_BACKLOG) != 0) {
		err = -errno;
	}
	if (err != 0) {
		goto free_listener;
	}
	f->unix_domain = family == AF_UNIX;
	if (path != NULL) {
		ASSERT(strlen(path) < sizeof(f->path));
		strcpy(f->path, path);
	}
	f->sock.watch.fd = fd;
	*out = &f->listener;
	return 0;

free_listener:
	mem_free(f);
close_fd:
	if (path != NULL) {
		(void)unlink(path);
	}
	close(fd);
	return err;
}
