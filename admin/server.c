/*
 * server.c - the command socket: one fiber a session, one line a request. Input is bounded; a line
 * that is no request gets an error, one that is too long ends the session.
 */
#include <pwd.h>
#include <stdio.h>
#include <unistd.h>
#include "admin/request.h"

#define SESSIONS_MAX 12u
#define GUESTS_MAX 6u /* of them not administrators', so that these are never locked out */
#define SESSION_IDLE_NS (3600 * NSEC_PER_SEC)
#define SESSION_SEND_NS (30 * NSEC_PER_SEC)
#define LINE_BYTES_FIRST 4096u
#define GUEST_LINE_BYTES_MAX (64u << 10)
#define DECODE_INLINE_BYTES 4096u /* longer requests are decoded on a helper thread */

struct session {
	struct list link; /* adm->session_list */
	struct adm *a;
	struct net_conn *conn;
	bool administrator;
	uint32_t uid;
	uint64_t number;
	char *line;
	uint32_t cap, len;
};

static const struct adm_command *
server_find(const char *name)
{
	const struct adm_command *const tables[] = {adm_pool_commands, adm_drive_commands,
	    adm_fs_commands, adm_snap_commands, adm_sched_commands, adm_share_commands,
	    adm_system_commands, adm_disk_commands, adm_inject_commands};
	for (size_t t = 0; t < ARRAY_LEN(tables); t++) {
		for (const struct adm_command *c = tables[t]; c->name != NULL; c++) {
			if (strcmp(c->name, name) == 0) {
				return c;
			}
		}
	}
	return NULL;
}

/* Commands that only look run side by side; one that changes something runs alone. */
static int
server_run(
    struct adm *a, const struct adm_command *c, json_t *args, json_t **out, struct adm_error *e)
{
	int err;
	if (c->need == ADM_CHANGE) {
		rwlock_wrlock(&a->lock);
		err = c->run(a, args, out, e);
		rwlock_wrunlock(&a->lock);
	} else if (c->need == ADM_DRIVES) {
		rwlock_rdlock(&a->lock);
		mutex_lock(&a->drives_lock);
		err = c->run(a, args, out, e);
		mutex_unlock(&a->drives_lock);
		rwlock_rdunlock(&a->lock);
	} else {
		rwlock_rdlock(&a->lock);
		err = c->run(a, args, out, e);
		rwlock_rdunlock(&a->lock);
	}
	return err;
}

/* ---- history ---- */

struct user_name {
	uint32_t uid;
	char name[64];
	char buf[4096];
};

/* Asks the system, which may have to ask a server. */
static void
user_look_up(void *arg)
{
	struct user_name *u = arg;
	struct passwd pw, *found = NULL;
	if (getpwuid_r(u->uid, &pw, u->buf, sizeof(u->buf), &found) == 0 && found != NULL) {
		snprintf(u->name, sizeof(u->name), "%s", pw.pw_name);
	} else {
		snprintf(u->name, sizeof(u->name), "uid %u", u->uid);
	}
}

/* The pool that a request is about: named outright, or the first part of a path. */
static struct adm_pool *
request_pool(struct adm *a, json_t *args)
{
	static const char *const keys[] = {"new_name", "pool", "name", "path", "dataset"};
	for (size_t i = 0; i < ARRAY_LEN(keys); i++) {
		const char *text = json_string_value(json_object_get(args, keys[i]));
		text = text != NULL && text[0] == '/' ? text + 1 : text;
		struct adm_pool *ap =
		    text != NULL ? adm_find_pool(a, text, strcspn(text, "/@")) : NULL;
		if (ap != NULL) {
			return ap;
		}
	}
	return NULL;
}

/* What was done, by whom: as it was typed, if the client says; what it says is shown as its words.
 */
static void
server_note(struct session *s, const struct adm_command *c, const struct adm_request *r)
{
	struct user_name *u = mem_zalloc(sizeof(*u));
	const char *line = json_string_value(json_object_get(r->root, "line"));
	char *args = line == NULL ? json_dumps(r->args, JSON_COMPACT | JSON_ENSURE_ASCII) : NULL;
	if (u != NULL) {
		u->uid = s->uid;
		offload(user_look_up, u);
	}
	rwlock_rdlock(&s->a->lock);
	struct adm_pool *ap = request_pool(s->a, r->args);
	if (ap != NULL) {
		diary_add(ap, DIARY_HISTORY, u != NULL ? u->name : "?", c->name,
		    line != NULL   ? line
		    : args != NULL ? args
				   : "");
	}
	rwlock_rdunlock(&s->a->lock);
	mem_free(args);
	mem_free(u);
	monitor_wake(s->a);
}

static int
server_execute(struct session *s, const struct adm_request *r, json_t **out, struct adm_error *e)
{
	const struct adm_command *c = server_find(r->cmd);
	adm_fail_untouched(
	    e, "Nothing was changed."); /* a command says it better, or takes it back */
	if (c == NULL) {
		return adm_fail(e, ENOSYS, "there is no command '%.100s'", r->cmd);
	}
	if (c->need != ADM_LOOK && !s->administrator) {
		return adm_fail(e, EPERM, "'%s' is for administrators", c->name);
	}
	/* whatever the request has there */
	int err =
	    json_object_set_new(r->args, ADM_ARG_SESSION, json_integer((json_int_t)s->number)) != 0
		? adm_fail(e, ENOMEM, "out of memory")
		: server_run(s->a, c, r->args, out, e);
	if (err == 0 && (c->need == ADM_CHANGE || c->need == ADM_DRIVES) &&
	    !adm_arg_flag(r->args, "dry_run")) {
		server_note(s, c, r);
	}
	return err;
}

struct decoding {
	const char *line;
	size_t len;
	struct adm_request *request;
	struct adm_error *e;
	int err;
};

static void
server_decode(void *arg)
{
	struct decoding *d = arg;
	d->err = adm_request_decode(d->line, d->len, d->request, d->e);
}

static json_t *
server_answer(struct session *s, const char *line, size_t len)
{
	struct adm_error e = {0};
	struct adm_request request = {0};
	json_t *result = NULL;
	struct decoding d = {line, len, &request, &e, 0};
	if (len > DECODE_INLINE_BYTES) {
		offload(server_decode, &d);
	} else {
		server_decode(&d);
	}
	int err = d.err;
	if (err == 0) {
		err = server_execute(s, &request, &result, &e);
		adm_request_free(&request);
	}
	return adm_answer(err, result, &e);
}

static int
session_reply(struct session *s, json_t *answer)
{
	char *text = adm_answer_text(answer);
	if (text == NULL) {
		return -ENOMEM;
	}
	char newline = '\n';
	struct iovec iov[2] = {{text, strlen(text)}, {&newline, 1}};
	int err = net_writev(s->conn, iov, 2, rt_now_ns() + SESSION_SEND_NS);
	mem_free(text);
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
		fiber_maybe_yield();
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
	if (cap > (s->administrator ? AGATE_REQUEST_BYTES_MAX : GUEST_LINE_BYTES_MAX)) {
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
	diff_session_ends(a, s->number);
	spin_lock(&a->session_guard);
	list_remove(&s->link);
	a->session_count--;
	a->guest_count -= !s->administrator;
	spin_unlock(&a->session_guard);
	net_conn_close(s->conn);
	mem_free(s->line);
	mem_free(s);
	wg_done(&a->sessions);
}

static bool
server_is_administrator(const struct net_conn *conn, uint32_t *out_uid)
{
	uint32_t gid;
	int32_t pid;
	return net_peer_cred(conn, out_uid, &gid, &pid) == 0 &&
	       (*out_uid == 0 || *out_uid == (uint32_t)geteuid());
}

static void
server_begin(struct adm *a, struct net_conn *conn)
{
	struct session *s = mem_zalloc(sizeof(*s));
	bool full = s == NULL;
	if (s != NULL) {
		s->a = a;
		s->conn = conn;
		s->administrator = server_is_administrator(conn, &s->uid);
		spin_lock(&a->session_guard);
		full = a->session_count >= SESSIONS_MAX ||
		       (!s->administrator && a->guest_count >= GUESTS_MAX);
		if (!full) {
			s->number = ++a->session_last;
			a->session_count++;
			a->guest_count += !s->administrator;
			list_push_back(&a->session_list, &s->link);
			wg_add(&a->sessions, 1);
		}
		spin_unlock(&a->session_guard);
	}
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
			fiber_maybe_yield();
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
