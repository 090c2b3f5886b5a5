/* net_udp.c - real datagram sockets. Waiting and closing: net_conn.c. */
#include "base/net_int.h"

#include <errno.h>
#include <sys/epoll.h>
#include <unistd.h>
#include "base/mem.h"

struct fd_udp {
	struct net_udp udp;
	struct rt_fdwatch watch; /* [r] */
	int family;              /* [c] */
	bool watched;            /* [r] */
	bool ready;              /* [r] */
};

static struct fd_udp *
fd_udp_of(struct net_udp *u)
{
	return container_of(u, struct fd_udp, udp);
}

static void
fd_udp_ready(struct rt_fdwatch *w, uint32_t events)
{
	struct fd_udp *f = container_of(w, struct fd_udp, watch);

	(void)events;
	f->ready = true;
	net_waiter_wake(&f->udp.receiver);
}

static int
fd_udp_bind(struct net_udp *u)
{
	struct fd_udp *f = fd_udp_of(u);
	int err;

	f->ready = true;
	f->watch.events = (uint32_t)(EPOLLIN | EPOLLET);
	f->watch.ready = fd_udp_ready;
	err = rt_fdwatch_add(&f->watch);
	f->watched = err == 0;
	return err;
}

static int64_t
fd_udp_try_recv(
    struct net_udp *u, void *buf, uint32_t len, struct net_addr *out_from, uint64_t *out_retry_ns)
{
	struct fd_udp *f = fd_udp_of(u);

	(void)out_retry_ns;
	while (f->ready && !atomic_load(&u->closed)) {
		struct sockaddr_storage ss;
		socklen_t ss_len = sizeof(ss);
		ssize_t n = recvfrom(f->watch.fd, buf, len, 0, (struct sockaddr *)&ss, &ss_len);

		if (n < 0 && errno == EAGAIN) {
			f->ready = false;
		} else if (n >= 0 && net_addr_decode(&ss, ss_len, out_from) == 0) {
			return n;
		}
		/* Other errors are news about some datagram sent earlier, fetched by the call. */
	}
	return -EAGAIN;
}

static int64_t
fd_udp_send(struct net_udp *u, const void *buf, uint32_t len, const struct net_addr *to)
{
	struct fd_udp *f = fd_udp_of(u);
	struct sockaddr_storage ss;
	socklen_t ss_len;
	ssize_t n;
	int err;

	err = net_addr_encode(to, f->family, &ss, &ss_len);
	if (err != 0) {
		return err;
	}
	do {
		n = sendto(
		    f->watch.fd, buf, len, MSG_NOSIGNAL, (const struct sockaddr *)&ss, ss_len);
	} while (n < 0 && errno == EINTR);
	return n < 0 ? -errno : n;
}

static void
fd_udp_stop(struct net_udp *u)
{
	(void)u; /* the flag and the wake-up are enough */
}

static void
fd_udp_unbind(struct net_udp *u)
{
	struct fd_udp *f = fd_udp_of(u);

	if (f->watched) {
		rt_fdwatch_remove(&f->watch);
		f->watched = false;
	}
	close(f->watch.fd);
	f->watch.fd = -1;
}

static void
fd_udp_free(struct net_udp *u)
{
	struct fd_udp *f = fd_udp_of(u);

	if (f->watch.fd >= 0) {
		close(f->watch.fd);
	}
	mem_free(f);
}

static const struct net_udp_ops fd_udp_ops = {
    .bind = fd_udp_bind,
    .try_recv = fd_udp_try_recv,
    .send = fd_udp_send,
    .stop = fd_udp_stop,
    .unbind = fd_udp_unbind,
    .free = fd_udp_free,
};

int
net_udp_open(const char *host, uint16_t port, struct net_udp **out)
{
	struct sockaddr_storage ss = {0};
	socklen_t len = sizeof(ss);
	struct fd_udp *f;
	int err, fd;

	if (rt_is_sim()) {
		return net_sim_udp_open(host, port, out);
	}
	fd = net_socket_bound(host, port, SOCK_DGRAM);
	if (fd < 0) {
		return fd;
	}
	f = mem_zalloc(sizeof(*f));
	if (f == NULL) {
		err = -ENOMEM;
		goto close_fd;
	}
	net_udp_init(&f->udp, &fd_udp_ops);
	if (getsockname(fd, (struct sockaddr *)&ss, &len) != 0) {
		err = -errno;
		goto free_udp;
	}
	err = net_addr_decode(&ss, len, &f->udp.addr);
	if (err != 0) {
		goto free_udp;
	}
	f->family = ss.ss_family;
	f->watch.fd = fd;
	*out = &f->udp;
	return 0;

free_udp:
	mem_free(f);
close_fd:
	close(fd);
	return err;
}
