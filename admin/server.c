/*
 * server.c - the command socket: one fiber a session, one line a request. Input is bounded; a line
 * that is no request gets an error, one that is too long ends the session.
 */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>
#include "admin/admin_int.h"

#define SESSIONS_MAX 12u
#define SESSION_IDLE_NS (3600 * NSEC_PER_SEC)
#define SESSION_SEND_NS (30 * NSEC_PER_SEC)
#define LINE_BYTES_FIRST 4096u

struct session {
	struct list link; /* adm->session_list */
	struct adm *a;
	struct net_conn *conn;
	bool administrator;
	char *line;
	uint32_t cap, len;
};

int
adm_fail(struct adm_error *e, int err, const char *fmt, ...)
{
	va_list ap;
	e->code = err < 0 ? -err : err;
	va_start(ap, fmt);
	vsnprintf(e->message, sizeof(e->message), fmt, ap);
	va_end(ap);
	return -e->code;
}

void
adm_fail_untouched(struct adm_error *e, const char *fmt, ...)
{
	va_list ap;
	va_start(ap, fmt);
	vsnprintf(e->untouched, sizeof(e->untouched), fmt, ap);
	va_end(ap);
}

void
adm_fail_next(struct adm_error *e, const char *fmt, ...)
{
	va_list ap;
	va_start(ap, fmt);
	vsnprintf(e->next, sizeof(e->next), fmt, ap);
	va_end(ap);
}

static const struct adm_command *
server_find(const char *name)
{
	const struct adm_command *const tables[] = {
	    adm_pool_commands, adm_fs_commands, adm_share_commands, adm_system_commands};
	for (size_t t = 0; t < ARRAY_LEN(tables); t++) {
		for (const struct adm_command *c = tables[t]; c->name != NULL; c++) {
			if (strcmp(c->name, name) == 0) {
				return c;
			}
		}
	}
	return NULL;
}

static int
server_execute(struct session *s, json_t *request, json_t **out, struct adm_error *e)
{
	const char *name = json_string_value(json_object_get(request, "cmd"));
	json_t *args = json_object_get(request, "args");
	if (name == NULL || (args != NULL && !json_is_object(args))) {
		return adm_fail(
		    e, EINVAL, "that is no request: it needs \"cmd\" and an object \"args\"");
	}
	const struct adm_command *c = server_find(name);
	if (c == NULL) {
		return adm_fail(e, ENOSYS, "there is no command '%s'", name);
	}
	if (c->changes && !s->administrator) {
		adm_fail_untouched(e, "Nothing was changed.");
		return adm_fail(e, EPERM, "'%s' is for administrators", name);
	}
	json_t *empty = args == NULL ? json_object() : NULL;
	mutex_lock(&s->a->lock);
	int err = c->run(s->a, args != NULL ? args : empty, out, e);
	mutex_unlock(&s->a->lock);
	json_decref(empty);
	return err;
}

static json_t *
server_answer(struct session *s, const char *line, size_t len)
{
	struct adm_error e = {0};
	json_error_t where;
	json_t *result = NULL;
	json_t *request = json_loadb(line, len, JSON_REJECT_DUPLICATES, &where);
	int err;
	if (!json_is_object(request)) {
		err = adm_fail(&e, EINVAL, "that is no JSON object: %s", where.text);
	} else {
		err = server_execute(s, request, &result, &e);
	}
	json_decref(request);
	if (err == 0) {
		return json_pack(
		    "{s:i, s:b, s:o*}", "v", AGATE_PROTOCOL_VERSION, "ok", 1, "result", result);
	}
	json_decref(result);
	return json_pack("{s:i, s:b, s:{s:i, s:s, s:s, s:s, s:s}}", "v", AGATE_PROTOCOL_VERSION,
	    "ok", 0, "error", "number", e.code, "code", err_str(e.code), "message", e.message,
	    "untouched", e.untouched, "next", e.next);
}

static int
session_reply(struct session *s, json_t *answer)
{
	char *text = answer != NULL ? json_dumps(answer, JSON_COMPACT | JSON_ENSURE_ASCII) : NULL;
	json_decref(answer);
	if (text == NULL) {
		return -ENOMEM;
	}
	char newline = '\n';
	struct iovec iov[2] = {{text, strlen(text)}, {&newline, 1}};
	int err = net_writev(s->conn, iov, 2, rt_now_ns() + SESSION_SEND_NS);
	free(text);
	return err;
}

/* Answers every whole line that has come. */
static int
session_lines(struct session *s)
{
	int err = 0;
	char *start = s->line;
	char *end;
	while (
	    err == 0 && (end = memchr(start, '\n', s->len - (size_t)(start - s->line))) != NULL) {
		err = session_reply(s, server_answer(s, start, (size_t)(end - start)));
		start = end + 1;
	}
	s->len -= (uint32_t)(start - s->line);
	memmove(s->line, start, s->len);
	return err;
}

static int
session_grow(struct session *s)
{
	uint32_t cap = MAX(s->cap * 2, LINE_BYTES_FIRST);
	if (s->len < s->cap) {
		return 0;
	}
	if (cap > AGATE_MESSAGE_BYTES_MAX) {
		return -EMSGSIZE;
	}
	char *larger = mem_realloc(s->line, cap);
	if (larger == NULL) {
		return -ENOMEM;
	}
	s->line = larger;
	s->cap = cap;
	return 0;
}

static void
session_run(void *arg)
{
	struct session *s = arg;
	uint32_t uid, gid;
	int32_t pid;
	if (net_peer_cred(s->conn, &uid, &gid, &pid) == 0) {
		s->administrator = uid == 0 || uid == (uint32_t)geteuid();
	}
	int err = 0;
	while (err == 0) {
		err = session_grow(s);
		if (err != 0) {
			break;
		}
		int64_t got = net_read(
		    s->conn, s->line + s->len, s->cap - s->len, rt_now_ns() + SESSION_IDLE_NS);
		if (got <= 0) {
			break;
		}
		s->len += (uint32_t)got;
		err = session_lines(s);
	}
	struct adm *a = s->a;
	spin_lock(&a->session_guard);
	list_remove(&s->link);
	a->session_count--;
	spin_unlock(&a->session_guard);
	net_conn_close(s->conn);
	mem_free(s->line);
	mem_free(s);
	wg_done(&a->sessions);
}

static void
server_begin(struct adm *a, struct net_conn *conn)
{
	struct session *s = mem_zalloc(sizeof(*s));
	bool full = s == NULL;
	spin_lock(&a->session_guard);
	full = full || a->session_count >= SESSIONS_MAX;
	if (!full) {
		s->a = a;
		s->conn = conn;
		a->session_count++;
		list_push_back(&a->session_list, &s->link);
		wg_add(&a->sessions, 1);
	}
	spin_unlock(&a->session_guard);
	if (full) {
		mem_free(s);
		net_conn_close(conn);
		return;
	}
	fiber_spawn_wait(0, FIBER_ADMIN, "admin-session", session_run, s);
}

static void
server_accept(void *arg)
{
	struct adm *a = arg;
	struct net_conn *conn;
	int err;
	while ((err = net_accept(a->socket, &conn)) != -ECANCELED) {
		if (err == 0) {
			server_begin(a, conn);
		}
	}
	wg_done(&a->sessions);
}

int
server_start(struct adm *a)
{
	int err = net_listen_unix(a->cfg->socket, 0666, &a->socket);
	if (err != 0) {
		return err;
	}
	wg_add(&a->sessions, 1);
	fiber_spawn_wait(0, FIBER_ADMIN, "admin-accept", server_accept, a);
	return 0;
}

void
server_stop(struct adm *a)
{
	net_listener_close(a->socket);
	spin_lock(&a->session_guard);
	list_for_each(item, &a->session_list)
	{
		net_conn_shutdown(list_entry(item, struct session, link)->conn);
	}
	spin_unlock(&a->session_guard);
	wg_wait(&a->sessions);
}
