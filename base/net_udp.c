/*
 * net_udp.c - real datagram sockets. Waiting and closing: net_conn.c. Each datagram is received
 * with the address it was sent to (a control message), so that an answer can leave from there.
 */
#include "base/net_int.h"

#include <errno.h>
#include <netinet/in.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>
#include "base/mem.h"

#define ERRORS_MAX 16u

struct fd_udp {
	struct net_udp udp;
	struct net_fd sock;
	int family; /* [c] */
	bool ready; /* [r] */
};

static struct fd_udp *
fd_udp_of(struct net_udp *u)
{
	return container_of(u, struct fd_udp, udp);
}

static void
fd_udp_ready(struct rt_fdwatch *w, uint32_t events)
{
	struct fd_udp *f = container_of(w, struct fd_udp, sock.watch);

	(void)events;
	f->ready = true;
	net_waiter_wake(&f->udp.receiver);
}

static int
fd_udp_bind(struct net_udp *u)
{
	struct fd_udp *f = fd_udp_of(u);

	f->ready = true;
	return net_fd_watch(&f->sock, (uint32_t)(EPOLLIN | EPOLLET), fd_udp_ready);
}

/* Room for one control message of either kind, aligned as it must be. */
union udp_control {
	struct cmsghdr align;
	uint8_t bytes[CMSG_SPACE(sizeof(struct in6_pktinfo))];
};

static void
control_decode(struct msghdr *msg, struct net_udp *u)
{
	struct sockaddr_storage ss = {0};
	struct sockaddr_in in4 = {.sin_family = AF_INET};
	struct sockaddr_in6 in6 = {.sin6_family = AF_INET6};
	struct cmsghdr *c = CMSG_FIRSTHDR(msg);
	struct in6_pktinfo info6;
	struct in_pktinfo info4;
	socklen_t len = 0;

	if (c == NULL) {
		return;
	}
	if (c->cmsg_level == IPPROTO_IPV6 && c->cmsg_type == IPV6_PKTINFO) {
		memcpy(&info6, CMSG_DATA(c), sizeof(info6));
		in6.sin6_addr = info6.ipi6_addr;
		in6.sin6_scope_id = info6.ipi6_ifindex;
		memcpy(&ss, &in6, sizeof(in6));
		len = sizeof(in6);
	} else if (c->cmsg_level == IPPROTO_IP && c->cmsg_type == IP_PKTINFO) {
		memcpy(&info4, CMSG_DATA(c), sizeof(info4));
		in4.sin_addr = info4.ipi_spec_dst;
		memcpy(&ss, &in4, sizeof(in4));
		len = sizeof(in4);
	}
	u->local_known = net_addr_decode(&ss, len, &u->last_local) == 0;
}

static void
control_encode(
    union udp_control *control, struct msghdr *msg, int family, const struct net_addr *from)
{
	struct in6_pktinfo info6 = {.ipi6_ifindex = from->scope};
	struct in_pktinfo info4 = {0};
	struct cmsghdr *c = &control->align;

	memset(control, 0, sizeof(*control));
	if (family == AF_INET6) {
		memcpy(&info6.ipi6_addr, from->ip, 16);
		c->cmsg_level = IPPROTO_IPV6;
		c->cmsg_type = IPV6_PKTINFO;
		c->cmsg_len = CMSG_LEN(sizeof(info6));
		memcpy(CMSG_DATA(c), &info6, sizeof(info6));
		msg->msg_controllen = CMSG_SPACE(sizeof(info6));
	} else {
		memcpy(&info4.ipi_spec_dst, from->ip + 12, 4);
		c->cmsg_level = IPPROTO_IP;
		c->cmsg_type = IP_PKTINFO;
		c->cmsg_len = CMSG_LEN(sizeof(info4));
		memcpy(CMSG_DATA(c), &info4, sizeof(info4));
		msg->msg_controllen = CMSG_SPACE(sizeof(info4));
	}
	msg->msg_control = control;
}

static int64_t
fd_udp_try_recv(
    struct net_udp *u, struct iovec into, struct net_addr *out_from, uint64_t *out_retry_ns)
{
	struct fd_udp *f = fd_udp_of(u);

	unsigned errors = 0;

	(void)out_retry_ns;
	while (f->ready && !atomic_load(&u->closed)) {
		struct sockaddr_storage ss;
		union udp_control control;
		struct msghdr msg = {
		    .msg_name = &ss,
		    .msg_namelen = sizeof(ss),
		    .msg_iov = &into,
		    .msg_iovlen = 1,
		    .msg_control = &control,
		    .msg_controllen = sizeof(control),
		};
		ssize_t n = recvmsg(f->sock.watch.fd, &msg, 0);

		if (n < 0 && errno == EAGAIN) {
			f->ready = false;
		} else if (n >= 0 && net_addr_decode(&ss, msg.msg_namelen, out_from) == 0) {
			control_decode(&msg, u);
			return n;
		} else if (n < 0 && ++errors > ERRORS_MAX) {
			return -errno;
		}
		/* An error is, as a rule, news about a datagram sent earlier: the call fetched it.
		 */
	}
	return -EAGAIN;
}

static int64_t
fd_udp_send(
    struct net_udp *u, struct iovec what, const struct net_addr *to, const struct net_addr *from)
{
	struct fd_udp *f = fd_udp_of(u);
	struct sockaddr_storage ss;
	union udp_control control;
	struct msghdr msg = {.msg_name = &ss, .msg_iov = &what, .msg_iovlen = 1};
	ssize_t n;
	int err;

	err = net_addr_encode(to, f->family, &ss, &msg.msg_namelen);
	if (err != 0) {
		return err;
	}
	if (from != NULL) {
		control_encode(&control, &msg, f->family, from);
	}
	do {
		n = sendmsg(f->sock.watch.fd, &msg, MSG_NOSIGNAL);
	} while (n < 0 && errno == EINTR);
	if (n < 0 && from != NULL && errno != EAGAIN) {
		/* What was asked was a broadcast address, or is ours no longer: any will do. */
		return fd_udp_send(u, what, to, NULL);
	}
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
	net_fd_close(&fd_udp_of(u)->sock);
}

static void
fd_udp_free(struct net_udp *u)
{
	net_fd_close(&fd_udp_of(u)->sock);
	mem_free(fd_udp_of(u));
}

static const struct net_udp_ops fd_udp_ops = {
    .bind = fd_udp_bind,
    .try_recv = fd_udp_try_recv,
    .send = fd_udp_send,
    .stop = fd_udp_stop,
    .unbind = fd_udp_unbind,
    .free = fd_udp_free,
};

/* Where it fails, answers leave from the address the kernel prefers. */
static void
want_local_addr(int fd, int family)
{
	int on = 1;

	if (family == AF_INET6) {
		(void)setsockopt(fd, IPPROTO_IPV6, IPV6_RECVPKTINFO, &on, sizeof(on));
	} else {
		(void)setsockopt(fd, IPPROTO_IP, IP_PKTINFO, &on, sizeof(on));
	}
}

int
net_udp_open(const char *host, uint16_t port, struct net_udp **out)
{
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
	err = net_fd_local(fd, &f->family, &f->udp.addr);
	if (err != 0) {
		goto free_udp;
	}
	want_local_addr(fd, f->family);
	f->sock.watch.fd = fd;
	*out = &f->udp;
	return 0;

free_udp:
	mem_free(f);
close_fd:
	close(fd);
	return err;
}
