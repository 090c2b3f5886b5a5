/* net_sock.c - what connections, listeners and datagram sockets over real descriptors share: being
 * watched by the owning reactor, and knowing their own address. */
#include "base/net_int.h"

#include <errno.h>
#include <unistd.h>

int
net_fd_watch(
    struct net_fd *f, uint32_t events, void (*ready)(struct rt_fdwatch *w, uint32_t events))
{
	int err;

	f->watch.events = events;
	f->watch.ready = ready;
	err = rt_fdwatch_add(&f->watch);
	f->watched = err == 0;
	return err;
}

void
net_fd_close(struct net_fd *f)
{
	if (f->watched) {
		rt_fdwatch_remove(&f->watch);
		f->watched = false;
	}
	if (f->watch.fd >= 0) {
		close(f->watch.fd);
		f->watch.fd = -1;
	}
}

int
net_fd_local(int fd, int *out_family, struct net_addr *out)
{
	struct sockaddr_storage ss = {0};
	socklen_t len = sizeof(ss);

	if (getsockname(fd, (struct sockaddr *)&ss, &len) != 0) {
		return -errno;
	}
	*out_family = ss.ss_family;
	return ss.ss_family == AF_UNIX ? 0 : net_addr_decode(&ss, len, out);
}
