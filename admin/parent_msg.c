/* parent_msg.c - messages between parent and engine. */
#include <sys/socket.h>
#include <unistd.h>
#include "admin/parent.h"

union parent_control {
	struct cmsghdr head;
	char bytes[CMSG_SPACE(sizeof(int))];
};

int
parent_send(int sock, const struct parent_msg *m, int fd)
{
	struct iovec iov = {(void *)(uintptr_t)m, sizeof(*m)};
	union parent_control control = {0};
	struct msghdr msg = {.msg_iov = &iov, .msg_iovlen = 1};
	if (fd >= 0) {
		msg.msg_control = &control;
		msg.msg_controllen = sizeof(control);
		struct cmsghdr *c = CMSG_FIRSTHDR(&msg);
		c->cmsg_level = SOL_SOCKET;
		c->cmsg_type = SCM_RIGHTS;
		c->cmsg_len = CMSG_LEN(sizeof(int));
		memcpy(CMSG_DATA(c), &fd, sizeof(int));
	}
	ssize_t sent;
	do {
		sent = sendmsg(sock, &msg, MSG_NOSIGNAL);
	} while (sent < 0 && errno == EINTR);
	return sent < 0 ? -errno : 0;
}

int
parent_recv(int sock, struct parent_msg *m, int *out_fd)
{
	struct iovec iov = {m, sizeof(*m)};
	union parent_control control = {0};
	struct msghdr msg = {.msg_iov = &iov,
	    .msg_iovlen = 1,
	    .msg_control = &control,
	    .msg_controllen = sizeof(control)};
	ssize_t got;
	*out_fd = -1;
	do {
		got = recvmsg(sock, &msg, MSG_CMSG_CLOEXEC);
	} while (got < 0 && errno == EINTR);
	if (got < 0) {
		return -errno;
	}
	struct cmsghdr *c = CMSG_FIRSTHDR(&msg);
	if (c != NULL && c->cmsg_level == SOL_SOCKET && c->cmsg_type == SCM_RIGHTS) {
		memcpy(out_fd, CMSG_DATA(c), sizeof(int));
	}
	if (got != (ssize_t)sizeof(*m)) {
		if (*out_fd >= 0) {
			close(*out_fd);
			*out_fd = -1;
		}
		return got == 0 ? -EPIPE : -EPROTO;
	}
	m->path[sizeof(m->path) - 1] = '\0';
	return 0;
}
