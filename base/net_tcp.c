/* net_tcp.c - opening TCP sockets: listening, connecting, and the options all of them get. */
#include "base/net_int.h"

#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <unistd.h>

#define KEEPALIVE_IDLE_S 60
#define KEEPALIVE_INTERVAL_S 15
#define KEEPALIVE_COUNT 6

static void
set_int(int fd, int level, int option, int value)
{
	/* Only tuning: a kernel that lacks one of them still carries the data. */
	(void)setsockopt(fd, level, option, &value, sizeof(value));
}

void
net_tcp_tune(int fd)
{
	set_int(fd, IPPROTO_TCP, TCP_NODELAY, 1);
	set_int(fd, SOL_SOCKET, SO_KEEPALIVE, 1);
	set_int(fd, IPPROTO_TCP, TCP_KEEPIDLE, KEEPALIVE_IDLE_S);
	set_int(fd, IPPROTO_TCP, TCP_KEEPINTVL, KEEPALIVE_INTERVAL_S);
	set_int(fd, IPPROTO_TCP, TCP_KEEPCNT, KEEPALIVE_COUNT);
}

/* No host: one IPv6 socket that serves IPv4 too, or IPv4 alone where the kernel has no IPv6. An
 * explicit "::" is IPv6 only, so that it may stand beside "0.0.0.0". */
static int
socket_for(const char *host, const struct net_addr *a, int type, int *out_family)
{
	int flags = SOCK_NONBLOCK | SOCK_CLOEXEC;
	int v6only = host != NULL;
	int fd;

	if (!net_addr_is_v4(a)) {
		fd = socket(AF_INET6, type | flags, 0);
		if (fd >= 0) {
			set_int(fd, IPPROTO_IPV6, IPV6_V6ONLY, v6only);
			*out_family = AF_INET6;
			return fd;
		}
		if (errno != EAFNOSUPPORT || host != NULL) {
			return -errno;
		}
	}
	*out_family = AF_INET;
	fd = socket(AF_INET, type | flags, 0);
	return fd >= 0 ? fd : -errno;
}

int
net_socket_bound(const char *host, uint16_t port, int type)
{
	struct net_addr a;
	struct sockaddr_storage ss;
	socklen_t len;
	int err, fd, family;

	err = net_addr_parse(host, port, &a);
	if (err != 0) {
		return err;
	}
	fd = socket_for(host, &a, type, &family);
	if (fd < 0) {
		return fd;
	}
	if (family == AF_INET && !net_addr_is_v4(&a)) {
		/* the fallback: the IPv4 wildcard instead of the IPv6 one */
		err = net_addr_parse("0.0.0.0", port, &a);
	}
	if (err == 0) {
		err = net_addr_encode(&a, family, &ss, &len);
	}
	if (err != 0) {
		goto close_fd;
	}
	if (type == SOCK_STREAM) {
		set_int(fd, SOL_SOCKET, SO_REUSEADDR, 1);
	}
	if (bind(fd, (const struct sockaddr *)&ss, len) != 0) {
		err = -errno;
		goto close_fd;
	}
	return fd;

close_fd:
	close(fd);
	return err;
}

int
net_listen(const char *host, uint16_t port, struct net_listener **out)
{
	int fd;

	if (rt_is_sim()) {
		return net_sim_listen(host, port, out);
	}
	fd = net_socket_bound(host, port, SOCK_STREAM);
	return fd < 0 ? fd : net_fd_listener(fd, NULL, out);
}

int
net_connect(const char *host, uint16_t port, uint64_t deadline_ns, struct net_conn **out)
{
	struct net_addr a;
	struct sockaddr_storage ss;
	socklen_t len;
	int err, fd, family;

	if (rt_is_sim()) {
		return net_sim_connect(host, port, deadline_ns, out);
	}
	err = host == NULL ? -EINVAL : net_addr_parse(host, port, &a);
	if (err != 0) {
		return err;
	}
	fd = socket_for(host, &a, SOCK_STREAM, &family);
	if (fd < 0) {
		return fd;
	}
	err = net_addr_encode(&a, family, &ss, &len);
	if (err == 0 && connect(fd, (const struct sockaddr *)&ss, len) != 0) {
		err = errno == EINPROGRESS ? net_fd_connect_wait(fd, deadline_ns) : -errno;
	}
	if (err != 0) {
		close(fd);
		return err;
	}
	net_tcp_tune(fd);
	return net_fd_conn(fd, false, &a, out);
}
