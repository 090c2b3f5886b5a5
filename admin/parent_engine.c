/* parent_engine.c - the engine's end of the conversation with its parent. Blocking, so on helper
 * threads. */
#include <stdio.h>
#include "admin/admin_int.h"
#include "admin/parent.h"

struct parent_call {
	int sock;
	bool wants_answer;
	struct parent_msg msg;
	int fd, err;
};

static void
parent_call_run(void *arg)
{
	struct parent_call *c = arg;
	c->err = parent_send(c->sock, &c->msg, -1);
	if (c->err == 0 && c->wants_answer) {
		c->err = parent_recv(c->sock, &c->msg, &c->fd);
	}
}

static int
parent_call(struct adm *a, struct parent_call *c)
{
	c->sock = a->parent_fd;
	c->fd = -1;
	mutex_lock(&a->parent_lock);
	offload(parent_call_run, c);
	mutex_unlock(&a->parent_lock);
	return c->err;
}

int
parent_open(struct adm *a, const char *path, int *out_fd)
{
	struct parent_call *c = mem_zalloc(sizeof(*c));
	if (c == NULL) {
		return -ENOMEM;
	}
	int err = -ENAMETOOLONG;
	if (strlen(path) < sizeof(c->msg.path)) {
		c->wants_answer = true;
		c->msg.kind = PARENT_OPEN;
		memcpy(c->msg.path, path, strlen(path) + 1);
		err = parent_call(a, c);
	}
	if (err == 0 && c->msg.kind != PARENT_OPENED) {
		err = -EPROTO;
	}
	if (err == 0) {
		err = c->msg.err;
	}
	if (err == 0 && c->fd < 0) {
		err = -EPROTO;
	}
	if (err == 0) {
		*out_fd = c->fd;
	}
	mem_free(c);
	return err;
}

int
parent_bind(struct adm *a, const char *address, bool to_vfio, char *why, size_t why_len)
{
	struct parent_call *c = mem_zalloc(sizeof(*c));
	why[0] = '\0';
	if (c == NULL) {
		return -ENOMEM;
	}
	c->wants_answer = true;
	c->msg.kind = to_vfio ? PARENT_BIND : PARENT_UNBIND;
	snprintf(c->msg.path, sizeof(c->msg.path), "%s", address);
	int err = parent_call(a, c);
	if (err == 0 && c->msg.kind != PARENT_DONE) {
		err = -EPROTO;
	}
	if (err == 0) {
		err = c->msg.err;
		snprintf(why, why_len, "%.150s", c->msg.path);
	}
	mem_free(c);
	return err;
}

void
parent_ready(struct adm *a)
{
	struct parent_call *c = mem_zalloc(sizeof(*c));
	if (c == NULL) {
		return;
	}
	c->msg.kind = PARENT_READY;
	if (parent_call(a, c) != 0) {
		log_warn("parent-not-told reason=%s", err_str(c->err));
	}
	mem_free(c);
}
