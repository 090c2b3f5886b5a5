/* net_unix.c - local stream sockets by path, and listening descriptors that a parent handed over.
 */
#include "base/net_int.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

static int
unix_addr(const char *path, struct sockaddr_un *out)
{
	*out = (struct sockaddr_un){.sun_family = AF_UNIX};
	if (path[0] == '\0' || strlen(path) >= sizeof(out->sun_path)) {
		return -EINVAL;
	}
	strcpy(out->sun_path, path);
	return 0;
}

static int
unix_socket(void)
{
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);

	return fd >= 0 ? fd : -errno;
}

/* A socket in the file system that nobody listens on was left by a process that died. */
static bool
is_dead_socket(const struct sockaddr_un *un)
{
	struct stat st;
	bool dead;
	int fd;

	if (lstat(un->sun_path, &st) != 0 || !S_ISSOCK(st.st_mode)) {
		return false;
	}
	fd = unix_socket();
	if (fd < 0) {
		return false;
	}
	dead = connect(fd, (const struct sockaddr *)un, sizeof(*un)) != 0 && errno == ECONNREFUSED;
	close(fd);
	return dead;
}

static int
unix_bind(int fd, const struct sockaddr_un *un)
{
	if (bind(fd, (const struct sockaddr *)un, sizeof(*un)) == 0) {
		return 0;
	}
	if (errno != EADDRINUSE || !is_dead_socket(un)) {
		return -errno;
	}
	if (unlink(un->sun_path) != 0 || bind(fd, (const struct sockaddr *)un, sizeof(*un)) != 0) {
		return -errno;
	}
	return 0;
}

int
net_listen_unix(const char *path, unsigned mode, struct net_listener **out)
{
	struct sockaddr_un un;
	int err, fd;

	if (rt_is_sim()) {
		return net_sim_listen_unix(path, out);
	}
	err = unix_addr(path, &un);
	if (err != 0) {
		return err;
	}
	fd = unix_socket();
	if (fd < 0) {
		return fd;
	}
	err = unix_bind(fd, &un);
	if (err != 0) {
		close(fd);
		return err;
	}
	/* The mode comes before listen: nobody can have connected under a wider one. */
	if (chmod(path, (mode_t)mode) != 0) {
		err = -errno;
		(void)unlink(path);
		close(fd);
		return err;
	}
	return net_fd_listener(fd, path, out);
}

int
net_listen_fd(int fd, struct net_listener **out)
{
	int flags = fcntl(fd, F_GETFL);
	int listening = 0, err;
	socklen_t len = sizeof(listening);

	if (flags < 0) {
		return -EBADF;
	}
	if (getsockopt(fd, SOL_SOCKET, SO_ACCEPTCONN, &listening, &len) != 0 || !listening ||
	    rt_is_sim()) {
		close(fd);
		return -EINVAL;
	}
	if (fcntl(fd, F_SETFL, flags | O_NONBLOCK) != 0 || fcntl(fd, F_SETFD, FD_CLOEXEC) != 0) {
		err = -errno;
		close(fd);
		return err;
	}
	return net_fd_listener(fd, NULL, out);
}

/* A full backlog answers EAGAIN and no event tells when it has room: ask again until some limit. */
static int
unix_connect(int fd, const struct sockaddr_un *un)
{
	uint64_t give_up_ns = rt_now_ns() + NET_UNIX_CONNECT_NS;

	while (connect(fd, (const struct sockaddr *)un, sizeof(*un)) != 0) {
		if (errno != EAGAIN && errno != EINTR) {
			return -errno;
		}
		if (rt_now_ns() >= give_up_ns) {
			return -ETIMEDOUT;
		}
		fiber_sleep(NSEC_PER_MSEC);
	}
	return 0;
}

int
net_connect_unix(const char *path, struct net_conn **out)
{
	struct net_addr nobody = {0};
	struct sockaddr_un un;
	int err, fd;

	if (rt_is_sim()) {
		return net_sim_connect_unix(path, out);
	}
	err = unix_addr(path, &un);
	if (err != 0) {
		return err;
	}
	fd = unix_socket();
	if (fd < 0) {
		return fd;
	}
	err = unix_connect(fd, &un);
	if (err != 0) {
		close(fd);
		return err;
	}
	return net_fd_conn(fd, true, &nobody, out);
}
