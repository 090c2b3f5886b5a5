/* Sockets: addresses, streams, listeners, datagrams, in both runtimes through the same calls. */
#include <fcntl.h>
#include <netinet/in.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>
#include "base/base.h"
#include "base/net_int.h"
#include "base/net_sim.h"
#include "tests/lib/unit.h"

#define SOON (rt_now_ns() + 20 * NSEC_PER_SEC)
#define TURNS 6u

/* Turn 0 is real, on several threads; the others are seeds of the simulation. Nothing may leak. */
static int
run_turn(unsigned turn, uint64_t seed, fiber_fn *fn, void *arg)
{
	struct rt_options opt = unit_rt(turn > 0, turn == 0 ? 3 : 1 + turn % 4, seed + turn);
	uint64_t live = mem_live_count();
	int err = rt_run(&opt, fn, arg);

	CU_ASSERT(mem_live_count() == live);
	return err;
}

static unsigned
other_reactor(void)
{
	return rt_reactor_count() - 1;
}

static uint16_t
port_of(const struct net_listener *l)
{
	struct net_addr a;

	net_listener_addr(l, &a);
	return a.port;
}

/* A pair over loopback; the caller accepts by itself, so it is fiber and acceptor at once. */
static void
pair(struct net_listener *l, struct net_conn **out_client, struct net_conn **out_server)
{
	CU_ASSERT_FATAL(net_connect("127.0.0.1", port_of(l), SOON, out_client) == 0);
	CU_ASSERT_FATAL(net_accept(l, out_server) == 0);
}

static int
write_all(struct net_conn *c, const void *buf, size_t len, uint64_t deadline_ns)
{
	union {
		const void *in;
		void *out;
	} u = {.in = buf};
	struct iovec iov = {.iov_base = u.out, .iov_len = len};

	return net_writev(c, &iov, 1, deadline_ns);
}

/* Reads until len bytes or the end; returns how many. */
static int64_t
read_all(struct net_conn *c, uint8_t *buf, uint32_t len)
{
	uint32_t got = 0;

	while (got < len) {
		int64_t n = net_read(c, buf + got, len - got, SOON);

		if (n < 0) {
			return n;
		}
		if (n == 0) {
			break;
		}
		got += (uint32_t)n;
	}
	return got;
}

/* ---- addresses ---- */

static void
test_addr_text(void)
{
	static const struct {
		const char *host, *text;
	} good[] = {
	    {"192.0.2.1", "192.0.2.1:2049"},
	    {"0.0.0.0", "0.0.0.0:2049"},
	    {"255.255.255.255", "255.255.255.255:2049"},
	    {"::ffff:192.0.2.1", "192.0.2.1:2049"},
	    {"2001:DB8::1", "[2001:db8::1]:2049"},
	    {"::", "[::]:2049"},
	    {NULL, "[::]:2049"},
	    {"fe80::1%7", "[fe80::1%7]:2049"},
	    {"ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff",
		"[ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff]:2049"},
	};
	static const char *const bad[] = {"", "localhost", "1.2.3", "1.2.3.4.5", "256.1.1.1",
	    ":::", "1.2.3.4%1", "2001:db8::1%1", "fe80::1%", "fe80::1%0", "fe80::1%nosuchif0",
	    "fe80::1%99999999999", " ::1",
	    "ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff"};
	struct net_addr a, untouched = {.port = 77};
	char buf[NET_ADDR_TEXT_MAX];

	for (unsigned i = 0; i < ARRAY_LEN(good); i++) {
		CU_ASSERT(net_addr_parse(good[i].host, 2049, &a) == 0);
		CU_ASSERT_STRING_EQUAL(net_addr_format(&a, buf), good[i].text);
	}
	for (unsigned i = 0; i < ARRAY_LEN(bad); i++) {
		CU_ASSERT(net_addr_parse(bad[i], 1, &untouched) == -EINVAL);
	}
	CU_ASSERT(untouched.port == 77);
	memset(&a, 0xff, sizeof(a));
	a.ip[0] = 0xfe;
	CU_ASSERT(strlen(net_addr_format(&a, buf)) < sizeof(buf));
	CU_ASSERT(net_addr_parse("fe80::1%lo", 1, &a) == 0 && a.scope > 0);
}

static void
test_addr_sockaddr(void)
{
	struct sockaddr_in in4 = {.sin_family = AF_INET, .sin_port = htons(111)};
	struct sockaddr_storage ss = {0};
	struct net_addr a, b, v6;
	char buf[NET_ADDR_TEXT_MAX];
	socklen_t len;

	in4.sin_addr.s_addr = htonl(0xc0000201);
	memcpy(&ss, &in4, sizeof(in4));
	CU_ASSERT(net_addr_decode(&ss, sizeof(in4), &a) == 0);
	CU_ASSERT_STRING_EQUAL(net_addr_format(&a, buf), "192.0.2.1:111");
	CU_ASSERT(net_addr_is_v4(&a));
	/* The same host seen through a dual-stack socket is the same address. */
	CU_ASSERT(net_addr_encode(&a, AF_INET6, &ss, &len) == 0);
	CU_ASSERT(net_addr_decode(&ss, len, &b) == 0);
	CU_ASSERT(memcmp(a.ip, b.ip, 16) == 0 && a.port == b.port && b.scope == 0);
	CU_ASSERT(net_addr_encode(&a, AF_INET, &ss, &len) == 0);
	CU_ASSERT(memcmp(&ss, &in4, sizeof(in4)) == 0);
	CU_ASSERT(net_addr_parse("2001:db8::1", 1, &v6) == 0);
	CU_ASSERT(!net_addr_is_v4(&v6));
	CU_ASSERT(net_addr_encode(&v6, AF_INET, &ss, &len) == -EAFNOSUPPORT);
	/* Too short, or another family. */
	CU_ASSERT(net_addr_decode(&ss, sizeof(in4) - 1, &a) == -EAFNOSUPPORT);
	ss.ss_family = AF_INET6;
	CU_ASSERT(net_addr_decode(&ss, sizeof(in4), &a) == -EAFNOSUPPORT);
	ss.ss_family = AF_UNIX;
	CU_ASSERT(net_addr_decode(&ss, sizeof(ss), &a) == -EAFNOSUPPORT);
}

static void
test_addr_random(void)
{
	unsigned state = 1;

	for (unsigned i = 0; i < 20000; i++) {
		struct sockaddr_storage ss;
		struct net_addr a = {0}, b;
		socklen_t len;
		char text[40];

		for (unsigned n = 0; n < 16; n++) {
			a.ip[n] = (uint8_t)((state = state * 1103515245 + 12345) >> 16);
		}
		a.port = (uint16_t)(state >> 8);
		CU_ASSERT(net_addr_encode(&a, AF_INET6, &ss, &len) == 0);
		CU_ASSERT(net_addr_decode(&ss, len, &b) == 0);
		CU_ASSERT(memcmp(&a.ip, &b.ip, 16) == 0 && a.port == b.port);
		/* Junk is refused or parsed, within bounds. */
		memcpy(text, &ss, sizeof(text));
		text[state % sizeof(text)] = '\0';
		text[sizeof(text) - 1] = '\0';
		(void)!net_addr_parse(text, 1, &b);
	}
}

/* ---- echo: one acceptor, connections on all reactors, content compared ---- */

#define ECHO_CLIENTS 12u
#define ECHO_BYTES (300u << 10)

struct echo {
	struct net_listener *l;
	const char *path;
	struct waitgroup servers, clients;
	unsigned next_reactor;
	unsigned wrong;
};

struct echo_server {
	struct echo *e;
	struct net_conn *c;
};

static void
echo_server_fiber(void *arg)
{
	struct echo_server *s = arg;
	uint8_t *buf = mem_zalloc(70000);
	int64_t n;

	CU_ASSERT_FATAL(buf != NULL);
	while ((n = net_read(s->c, buf, (uint32_t)(1 + rt_random_u64() % 70000), SOON)) > 0) {
		CU_ASSERT(write_all(s->c, buf, (size_t)n, SOON) == 0);
	}
	CU_ASSERT(n == 0);
	net_conn_close(s->c);
	mem_free(buf);
	wg_done(&s->e->servers);
	mem_free(s);
}

static void
echo_acceptor(void *arg)
{
	struct echo *e = arg;
	struct net_conn *c;
	int err;

	while ((err = net_accept(e->l, &c)) == 0) {
		struct echo_server *s = mem_zalloc(sizeof(*s));

		CU_ASSERT_FATAL(s != NULL);
		*s = (struct echo_server){.e = e, .c = c};
		wg_add(&e->servers, 1);
		fiber_spawn_wait(e->next_reactor++ % rt_reactor_count(), FIBER_REQUEST, "echo",
		    echo_server_fiber, s);
	}
	CU_ASSERT(err == -ECANCELED);
	CU_ASSERT(net_accept(e->l, &c) == -ECANCELED);
	wg_done(&e->servers);
}

struct echo_stream {
	struct net_conn *c;
	uint8_t *bytes;
	struct waitgroup wrote;
};

/* In pieces of random number and size, some of them empty, more of them than IOV_MAX. */
static void
echo_writer(void *arg)
{
	struct echo_stream *s = arg;
	struct iovec *iov = mem_zalloc_array(3000, sizeof(*iov));
	uint32_t at = 0;

	CU_ASSERT_FATAL(iov != NULL);
	while (at < ECHO_BYTES) {
		int count = (int)(rt_random_u64() % 3000);

		for (int i = 0; i < count; i++) {
			uint32_t n = (uint32_t)(rt_random_u64() % (count > 100 ? 60 : 9000));

			n = MIN(n, ECHO_BYTES - at);
			iov[i] = (struct iovec){.iov_base = s->bytes + at, .iov_len = n};
			at += n;
		}
		CU_ASSERT(net_writev(s->c, iov, count, SOON) == 0);
	}
	mem_free(iov);
	wg_done(&s->wrote);
}

static void
echo_client(void *arg)
{
	struct echo *e = arg;
	struct echo_stream s = {.bytes = mem_zalloc(ECHO_BYTES)};
	uint8_t *back = mem_zalloc(ECHO_BYTES);
	int err = e->path != NULL ? net_connect_unix(e->path, &s.c)
				  : net_connect("127.0.0.1", port_of(e->l), SOON, &s.c);

	CU_ASSERT_FATAL(err == 0 && s.bytes != NULL && back != NULL);
	rt_random_bytes(s.bytes, ECHO_BYTES);
	wg_init(&s.wrote);
	wg_add(&s.wrote, 1);
	fiber_spawn_wait(rt_reactor_self(), FIBER_REPAIR, "echo_writer", echo_writer, &s);
	CU_ASSERT(read_all(s.c, back, ECHO_BYTES) == ECHO_BYTES);
	wg_wait(&s.wrote);
	if (memcmp(s.bytes, back, ECHO_BYTES) != 0) {
		__atomic_fetch_add(&e->wrong, 1, __ATOMIC_RELAXED);
	}
	net_conn_close(s.c);
	mem_free(s.bytes);
	mem_free(back);
	wg_done(&e->clients);
}

static void
echo_main(void *arg)
{
	struct echo *e = arg;

	if (e->path != NULL) {
		CU_ASSERT_FATAL(net_listen_unix(e->path, 0600, &e->l) == 0);
	} else {
		CU_ASSERT_FATAL(net_listen(NULL, 0, &e->l) == 0);
	}
	wg_init(&e->servers);
	wg_init(&e->clients);
	wg_add(&e->servers, 1);
	wg_add(&e->clients, ECHO_CLIENTS);
	fiber_spawn_wait(other_reactor(), FIBER_ADMIN, "acceptor", echo_acceptor, e);
	for (unsigned i = 0; i < ECHO_CLIENTS; i++) {
		fiber_spawn_wait(i % rt_reactor_count(), FIBER_ADMIN, "client", echo_client, e);
	}
	wg_wait(&e->clients);
	net_listener_close(e->l);
	wg_wait(&e->servers);
	CU_ASSERT(e->wrong == 0);
}

static void
test_echo_tcp(void)
{
	uint64_t seed = unit_seed(100);

	for (unsigned turn = 0; turn < TURNS; turn++) {
		struct echo e = {0};

		CU_ASSERT(run_turn(turn, seed, echo_main, &e) == 0);
	}
}

/* With all rare paths on. */
static void
test_echo_buggify(void)
{
	uint64_t seed = unit_seed(300);

	bug_set_buggify(100);
	for (unsigned turn = 1; turn < TURNS; turn++) {
		struct echo e = {0};

		CU_ASSERT(run_turn(turn, seed, echo_main, &e) == 0);
	}
	bug_set_buggify(0);
}

static void
test_echo_unix(void)
{
	uint64_t seed = unit_seed(200);
	char path[64];

	snprintf(path, sizeof(path), "/tmp/agate-net-test-%d", getpid());
	for (unsigned turn = 0; turn < TURNS; turn++) {
		struct echo e = {.path = path};

		CU_ASSERT(run_turn(turn, seed, echo_main, &e) == 0);
		CU_ASSERT(access(path, F_OK) != 0);
	}
}

/* ---- unix details ---- */

static void
unix_main(void *arg)
{
	char *path = arg;
	struct net_listener *l, *second;
	struct net_conn *c, *s;
	struct stat st;
	uint32_t uid, gid;
	int32_t pid;

	CU_ASSERT_FATAL(net_listen_unix(path, 0620, &l) == 0);
	CU_ASSERT(net_listen_unix(path, 0620, &second) == -EADDRINUSE);
	CU_ASSERT_FATAL(net_connect_unix(path, &c) == 0);
	CU_ASSERT_FATAL(net_accept(l, &s) == 0);
	CU_ASSERT(net_peer_cred(s, &uid, &gid, &pid) == 0);
	if (!rt_is_sim()) {
		CU_ASSERT(stat(path, &st) == 0 && (st.st_mode & 07777) == 0620);
		CU_ASSERT(uid == getuid() && gid == getgid() && pid == getpid());
	} else {
		CU_ASSERT(uid == 0 && gid == 0 && pid == 1);
	}
	net_conn_close(c);
	net_conn_close(s);
	net_listener_close(l);
	CU_ASSERT(net_connect_unix(path, &c) < 0);
	CU_ASSERT_FATAL(net_listen(NULL, 0, &l) == 0);
	pair(l, &c, &s);
	CU_ASSERT(net_peer_cred(s, &uid, &gid, &pid) == -EOPNOTSUPP);
	net_conn_close(c);
	net_conn_close(s);
	net_listener_close(l);
}

/* What a dead process left is replaced; an ordinary file is not. */
static void
unix_dead_main(void *arg)
{
	char *path = arg;
	struct sockaddr_un un = {.sun_family = AF_UNIX};
	int fd = socket(AF_UNIX, SOCK_STREAM, 0);
	struct net_listener *l;
	char longer[200];

	snprintf(un.sun_path, sizeof(un.sun_path), "%s", path);
	CU_ASSERT_FATAL(bind(fd, (struct sockaddr *)&un, sizeof(un)) == 0 && listen(fd, 1) == 0);
	CU_ASSERT(net_listen_unix(path, 0600, &l) == -EADDRINUSE);
	close(fd);
	CU_ASSERT_FATAL(net_listen_unix(path, 0600, &l) == 0);
	net_listener_close(l);
	fd = open(path, O_CREAT | O_WRONLY, 0600);
	CU_ASSERT_FATAL(fd >= 0);
	CU_ASSERT(net_listen_unix(path, 0600, &l) == -EADDRINUSE);
	CU_ASSERT(unlink(path) == 0);
	close(fd);
	memset(longer, 'x', sizeof(longer));
	longer[sizeof(longer) - 1] = '\0';
	CU_ASSERT(net_listen_unix(longer, 0600, &l) == -EINVAL);
}

static void
test_unix(void)
{
	char path[64];

	snprintf(path, sizeof(path), "/tmp/agate-net-test-%d", getpid());
	for (unsigned turn = 0; turn < 3; turn++) {
		CU_ASSERT(run_turn(turn, 1, unix_main, path) == 0);
	}
	CU_ASSERT(run_turn(0, 1, unix_dead_main, path) == 0);
}

/* ---- deadlines and refusals ---- */

static void
deadlines_main(void *arg)
{
	struct net_listener *l;
	struct net_conn *c, *s;
	uint16_t port;
	uint8_t byte, *big = mem_zalloc(1 << 20);
	int err = 0;

	(void)arg;
	CU_ASSERT_FATAL(big != NULL && net_listen("127.0.0.1", 0, &l) == 0);
	port = port_of(l);
	CU_ASSERT(net_listen("127.0.0.1", port, &(struct net_listener *){NULL}) == -EADDRINUSE);
	pair(l, &c, &s);
	CU_ASSERT(net_try_read(s, &byte, 1) == -EAGAIN);
	CU_ASSERT(net_read(s, &byte, 1, rt_now_ns() + 5 * NSEC_PER_MSEC) == -ETIMEDOUT);
	CU_ASSERT(net_read(s, &byte, 1, 0) == -ETIMEDOUT);
	for (unsigned i = 0; i < 64 && err == 0; i++) {
		err = write_all(c, big, 1 << 20, rt_now_ns() + 50 * NSEC_PER_MSEC);
	}
	CU_ASSERT(err == -ETIMEDOUT);
	net_conn_close(c);
	net_conn_close(s);
	net_listener_close(l);
	CU_ASSERT(net_connect("127.0.0.1", port, SOON, &c) == -ECONNREFUSED);
	CU_ASSERT(net_connect("nohost", port, SOON, &c) == -EINVAL);
	CU_ASSERT(net_connect(NULL, port, SOON, &c) == -EINVAL);
	CU_ASSERT(net_listen("nohost", port, &l) == -EINVAL);
	/* The port is free at once, although connections of it are in their last state. */
	CU_ASSERT_FATAL(net_listen("127.0.0.1", port, &l) == 0);
	net_listener_close(l);
	mem_free(big);
}

static void
test_deadlines(void)
{
	for (unsigned turn = 0; turn < TURNS; turn++) {
		CU_ASSERT(run_turn(turn, 300, deadlines_main, NULL) == 0);
	}
}

/* ---- how a stream ends ---- */

static void
ends_main(void *arg)
{
	struct net_listener *l;
	struct net_conn *c, *s;
	uint8_t buf[100];
	int64_t n;
	int err = 0;

	(void)arg;
	CU_ASSERT_FATAL(net_listen(NULL, 0, &l) == 0);
	/* What was written before a clean close arrives, then the end, again and again. */
	pair(l, &c, &s);
	CU_ASSERT(write_all(c, "hello", 5, SOON) == 0);
	net_conn_close(c);
	CU_ASSERT(read_all(s, buf, sizeof(buf)) == 5 && memcmp(buf, "hello", 5) == 0);
	CU_ASSERT(net_read(s, buf, 1, SOON) == 0);
	CU_ASSERT(net_try_read(s, buf, 1) == 0);
	/* Writing to who has gone fails before long. */
	for (unsigned i = 0; i < 100 && err == 0; i++) {
		err = write_all(s, buf, sizeof(buf), SOON);
		fiber_sleep(NSEC_PER_MSEC);
	}
	CU_ASSERT(err == -EPIPE || err == -ECONNRESET);
	net_conn_close(s);
	/* Closing on unread bytes resets. */
	pair(l, &c, &s);
	CU_ASSERT(write_all(c, "hello", 5, SOON) == 0);
	CU_ASSERT(net_read(s, buf, 1, SOON) == 1);
	net_conn_close(s);
	n = net_read(c, buf, 1, SOON);
	CU_ASSERT(n == -ECONNRESET || n == 0);
	net_conn_close(c);
	/* A connection that nobody accepted is reset with its listener. */
	CU_ASSERT_FATAL(net_connect("127.0.0.1", port_of(l), SOON, &c) == 0);
	net_listener_close(l);
	n = net_read(c, buf, 1, SOON);
	CU_ASSERT(n == -ECONNRESET || n == 0);
	net_conn_close(c);
}

static void
test_ends(void)
{
	for (unsigned turn = 0; turn < TURNS; turn++) {
		CU_ASSERT(run_turn(turn, 400, ends_main, NULL) == 0);
	}
}

/* ---- shutdown from another reactor ---- */

struct shut {
	struct net_conn *reading, *writing, *idle;
	struct waitgroup wg;
	atomic_uint waiting;
	uint8_t *big;
};

static void
shut_reader(void *arg)
{
	struct shut *t = arg;
	uint8_t byte;

	atomic_fetch_add(&t->waiting, 1);
	CU_ASSERT(net_read(t->reading, &byte, 1, RT_FOREVER) == -ECANCELED);
	CU_ASSERT(net_try_read(t->reading, &byte, 1) == -ECANCELED);
	net_conn_close(t->reading);
	wg_done(&t->wg);
}

static void
shut_writer(void *arg)
{
	struct shut *t = arg;
	int err = 0;

	atomic_fetch_add(&t->waiting, 1);
	while (err == 0) {
		err = write_all(t->writing, t->big, 1 << 20, RT_FOREVER);
	}
	CU_ASSERT(err == -EPIPE);
	net_conn_close(t->writing);
	wg_done(&t->wg);
}

static void
shut_idle_told(void *arg)
{
	struct shut *t = arg;
	uint8_t byte;

	CU_ASSERT(rt_reactor_self() == 0);
	CU_ASSERT(net_try_read(t->idle, &byte, 1) == -ECANCELED);
	wg_done(&t->wg);
}

static void
shut_from_afar(void *arg)
{
	struct shut *t = arg;

	while (atomic_load(&t->waiting) < 2) {
		fiber_sleep(NSEC_PER_MSEC);
	}
	fiber_sleep(3 * NSEC_PER_MSEC);
	net_conn_shutdown(t->reading);
	net_conn_shutdown(t->writing);
	net_conn_shutdown(t->idle);
	net_conn_shutdown(t->idle);
	wg_done(&t->wg);
}

static void
shut_main(void *arg)
{
	struct shut t = {.big = mem_zalloc(1 << 20)};
	struct net_conn *far[3];
	struct net_listener *l;

	(void)arg;
	CU_ASSERT_FATAL(net_listen(NULL, 0, &l) == 0);
	pair(l, &t.reading, &far[0]);
	pair(l, &t.writing, &far[1]);
	pair(l, &t.idle, &far[2]);
	wg_init(&t.wg);
	wg_add(&t.wg, 4);
	net_conn_on_readable(t.idle, shut_idle_told, &t);
	fiber_spawn_wait(other_reactor(), FIBER_REQUEST, "reader", shut_reader, &t);
	fiber_spawn_wait(other_reactor(), FIBER_REQUEST, "writer", shut_writer, &t);
	fiber_spawn_wait(0, FIBER_REQUEST, "shutter", shut_from_afar, &t);
	wg_wait(&t.wg);
	net_conn_close(t.idle);
	for (unsigned i = 0; i < ARRAY_LEN(far); i++) {
		net_conn_close(far[i]);
	}
	net_listener_close(l);
	mem_free(t.big);
}

static void
test_shutdown(void)
{
	for (unsigned turn = 0; turn < TURNS; turn++) {
		CU_ASSERT(run_turn(turn, 500, shut_main, NULL) == 0);
	}
}

/* ---- closing on one reactor what another one owns ---- */

static void
own_fiber(void *arg)
{
	struct net_conn *c = arg;
	uint8_t byte;

	CU_ASSERT(net_try_read(c, &byte, 1) == -EAGAIN);
}

static void
close_afar_main(void *arg)
{
	struct net_conn *c, *s;
	struct net_listener *l;
	uint8_t byte;
	int64_t n;

	(void)arg;
	CU_ASSERT_FATAL(net_listen(NULL, 0, &l) == 0);
	for (unsigned i = 0; i < 50; i++) {
		pair(l, &c, &s);
		fiber_spawn_wait(other_reactor(), FIBER_REQUEST, "owner", own_fiber, s);
		fiber_sleep(NSEC_PER_MSEC);
		if (i % 2 == 0) {
			net_conn_shutdown(s);
		}
		net_conn_close(s);
		n = net_read(c, &byte, 1, SOON);
		CU_ASSERT(n == 0 || n == -ECONNRESET);
		net_conn_close(c);
	}
	net_listener_close(l);
}

static void
test_close_afar(void)
{
	for (unsigned turn = 0; turn < TURNS; turn++) {
		CU_ASSERT(run_turn(turn, 600, close_afar_main, NULL) == 0);
	}
}

/* ---- a storm: connections that come, talk, vanish and are shut down from anywhere ---- */

#define STORM_CLIENTS 20u
#define STORM_ROUNDS 25u
#define STORM_SLOTS 1024u

struct storm {
	struct net_listener *l;
	struct mutex mu;
	struct net_conn *alive[STORM_SLOTS]; /* [mu] a connection in it may be shut down */
	unsigned slots;
	struct waitgroup clients, servers;
	atomic_bool calm;
};

struct storm_server {
	struct storm *s;
	struct net_conn *c;
	unsigned slot;
};

static void
storm_server_fiber(void *arg)
{
	struct storm_server *ss = arg;
	struct storm *s = ss->s;
	uint8_t buf[1000];

	for (;;) {
		int64_t n = net_read(ss->c, buf, sizeof(buf), SOON);

		if (n <= 0 || write_all(ss->c, buf, (size_t)n, SOON) != 0) {
			break;
		}
	}
	mutex_lock(&s->mu);
	s->alive[ss->slot] = NULL;
	mutex_unlock(&s->mu);
	net_conn_close(ss->c);
	wg_done(&s->servers);
	mem_free(ss);
}

/* On the loop of the owner: the first bytes are there, or it was shut down. */
static void
storm_server_told(void *arg)
{
	if (fiber_spawn(rt_reactor_self(), FIBER_REQUEST, "server", storm_server_fiber, arg) != 0) {
		CU_FAIL("no fiber");
	}
}

static void
storm_adopt(void *arg)
{
	struct storm_server *ss = arg;

	net_conn_on_readable(ss->c, storm_server_told, ss);
}

static void
storm_acceptor(void *arg)
{
	struct storm *s = arg;
	struct net_conn *c;

	while (net_accept(s->l, &c) == 0) {
		struct storm_server *ss = mem_zalloc(sizeof(*ss));

		CU_ASSERT_FATAL(ss != NULL && s->slots < STORM_SLOTS);
		*ss = (struct storm_server){.s = s, .c = c, .slot = s->slots++};
		mutex_lock(&s->mu);
		s->alive[ss->slot] = c;
		mutex_unlock(&s->mu);
		wg_add(&s->servers, 1);
		fiber_spawn_wait(
		    ss->slot % rt_reactor_count(), FIBER_REQUEST, "adopt", storm_adopt, ss);
	}
	wg_done(&s->servers);
}

static void
storm_client(void *arg)
{
	struct storm *s = arg;
	uint8_t buf[1500] = {0};

	for (unsigned round = 0; round < STORM_ROUNDS; round++) {
		struct net_conn *c;
		int64_t n = 1;

		if (net_connect("127.0.0.1", port_of(s->l), SOON, &c) != 0) {
			continue;
		}
		for (unsigned i = 0; i < rt_random_u64() % 8 && n > 0; i++) {
			n = write_all(c, buf, 1 + rt_random_u64() % sizeof(buf), SOON);
			n = n == 0 ? net_read(c, buf, sizeof(buf), SOON) : n;
		}
		CU_ASSERT(n >= 0 || n == -ECONNRESET || n == -EPIPE);
		if (round % 3 == 0) {
			net_conn_shutdown(c);
		}
		net_conn_close(c);
	}
	wg_done(&s->clients);
}

static void
storm_killer(void *arg)
{
	struct storm *s = arg;

	while (!atomic_load(&s->calm)) {
		unsigned slot = (unsigned)(rt_random_u64() % STORM_SLOTS);

		mutex_lock(&s->mu);
		if (s->alive[slot] != NULL) {
			net_conn_shutdown(s->alive[slot]);
		}
		mutex_unlock(&s->mu);
		fiber_sleep(20 * NSEC_PER_USEC);
	}
	wg_done(&s->servers);
}

static void
storm_main(void *arg)
{
	struct storm *s = arg;

	CU_ASSERT_FATAL(net_listen(NULL, 0, &s->l) == 0);
	mutex_init(&s->mu, RANK_NFSD_CONN);
	wg_init(&s->clients);
	wg_init(&s->servers);
	wg_add(&s->clients, STORM_CLIENTS);
	wg_add(&s->servers, 2);
	fiber_spawn_wait(0, FIBER_ADMIN, "acceptor", storm_acceptor, s);
	fiber_spawn_wait(other_reactor(), FIBER_ADMIN, "killer", storm_killer, s);
	for (unsigned i = 0; i < STORM_CLIENTS; i++) {
		fiber_spawn_wait(i % rt_reactor_count(), FIBER_REPAIR, "client", storm_client, s);
	}
	wg_wait(&s->clients);
	net_listener_close(s->l);
	atomic_store(&s->calm, true);
	wg_wait(&s->servers);
}

static void
test_storm(void)
{
	static struct storm s;
	uint64_t seed = unit_seed(650);

	for (unsigned turn = 0; turn < 2 * TURNS; turn++) {
		memset(&s, 0, sizeof(s));
		CU_ASSERT(run_turn(turn % TURNS, seed + turn, storm_main, &s) == 0);
	}
}

/* ---- idle connections ---- */

static void
count_up(void *arg)
{
	unsigned *count = arg;

	(*count)++;
}

static void
idle_main(void *arg)
{
	struct net_conn *c, *s;
	struct net_listener *l;
	unsigned told = 0;
	uint8_t buf[8];

	(void)arg;
	CU_ASSERT_FATAL(net_listen(NULL, 0, &l) == 0);
	pair(l, &c, &s);
	net_conn_on_readable(s, count_up, &told);
	fiber_sleep(50 * NSEC_PER_MSEC);
	CU_ASSERT(told == 0);
	CU_ASSERT(write_all(c, "a", 1, SOON) == 0);
	while (told == 0) {
		fiber_sleep(NSEC_PER_MSEC);
	}
	CU_ASSERT(write_all(c, "b", 1, SOON) == 0);
	fiber_sleep(50 * NSEC_PER_MSEC);
	CU_ASSERT(told == 1); /* once */
	net_conn_on_readable(s, count_up, &told);
	CU_ASSERT(told == 2); /* at once: there is something */
	CU_ASSERT(read_all(s, buf, 2) == 2);
	net_conn_on_readable(s, count_up, &told);
	net_conn_on_readable(s, NULL, NULL); /* taken back */
	CU_ASSERT(write_all(c, "c", 1, SOON) == 0);
	CU_ASSERT(read_all(s, buf, 1) == 1);
	fiber_sleep(50 * NSEC_PER_MSEC);
	CU_ASSERT(told == 2);
	/* Bytes and the end in one event: the short read must not hide the end. */
	net_conn_on_readable(s, count_up, &told);
	CU_ASSERT(write_all(c, "d", 1, SOON) == 0);
	net_conn_close(c);
	while (told == 2) {
		fiber_sleep(NSEC_PER_MSEC);
	}
	fiber_sleep(50 * NSEC_PER_MSEC);
	CU_ASSERT(read_all(s, buf, sizeof(buf)) == 1);
	CU_ASSERT(net_try_read(s, buf, 1) == 0);
	net_conn_on_readable(s, count_up, &told);
	CU_ASSERT(told == 4);
	net_conn_close(s);
	net_listener_close(l);
}

static void
test_idle(void)
{
	for (unsigned turn = 0; turn < TURNS; turn++) {
		CU_ASSERT(run_turn(turn, 700, idle_main, NULL) == 0);
	}
}

/* ---- a descriptor from the parent ---- */

static void
listen_fd_main(void *arg)
{
	struct sockaddr_in in4 = {.sin_family = AF_INET};
	int fd = socket(AF_INET, SOCK_STREAM, 0);
	struct net_conn *c, *s;
	struct net_listener *l;
	struct net_addr peer;
	uint8_t byte;

	(void)arg;
	in4.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	CU_ASSERT_FATAL(bind(fd, (struct sockaddr *)&in4, sizeof(in4)) == 0 && listen(fd, 5) == 0);
	CU_ASSERT_FATAL(net_listen_fd(fd, &l) == 0);
	pair(l, &c, &s);
	CU_ASSERT(write_all(c, "x", 1, SOON) == 0);
	CU_ASSERT(net_read(s, &byte, 1, SOON) == 1 && byte == 'x');
	net_peer(s, &peer);
	CU_ASSERT(net_addr_is_v4(&peer) && peer.ip[12] == 127 && peer.port != 0);
	net_conn_close(c);
	net_conn_close(s);
	net_listener_close(l);
	CU_ASSERT(net_listen_fd(-1, &l) == -EBADF);
	CU_ASSERT(net_listen_fd(socket(AF_INET, SOCK_STREAM, 0), &l) == -EINVAL);
}

static void
test_listen_fd(void)
{
	CU_ASSERT(run_turn(0, 800, listen_fd_main, NULL) == 0);
}

/* ---- datagrams ---- */

#define UDP_COUNT 300u

struct udp {
	struct net_udp *server, *client;
	struct waitgroup wg;
	unsigned seen[UDP_COUNT];
	bool faults;
};

static void
udp_server(void *arg)
{
	struct udp *t = arg;
	struct net_addr from;
	uint8_t buf[64];
	int64_t n;

	while ((n = net_udp_recv(t->server, buf, sizeof(buf), &from)) >= 0) {
		CU_ASSERT(net_addr_is_v4(&from));
		CU_ASSERT(net_udp_send(t->server, buf, (uint32_t)n, &from) == n);
	}
	CU_ASSERT(n == -ECANCELED);
	CU_ASSERT(net_udp_recv(t->server, buf, sizeof(buf), &from) == -ECANCELED);
	wg_done(&t->wg);
}

static void
udp_client(void *arg)
{
	struct udp *t = arg;
	struct net_addr from;
	uint32_t number;
	int64_t n;

	while ((n = net_udp_recv(t->client, &number, sizeof(number), &from)) >= 0) {
		CU_ASSERT_FATAL(n == sizeof(number) && number < UDP_COUNT);
		t->seen[number]++;
	}
	CU_ASSERT(n == -ECANCELED);
	wg_done(&t->wg);
}

static void
udp_main(void *arg)
{
	struct udp *t = arg;
	struct net_addr to, self;
	unsigned lost = 0, twice = 0;

	CU_ASSERT_FATAL(net_udp_open(NULL, 0, &t->server) == 0);
	CU_ASSERT_FATAL(net_udp_open("127.0.0.1", 0, &t->client) == 0);
	if (t->faults) {
		net_sim_set_udp_faults(20, 20);
	}
	net_udp_addr(t->server, &self);
	CU_ASSERT_FATAL(net_addr_parse("127.0.0.1", self.port, &to) == 0);
	wg_init(&t->wg);
	wg_add(&t->wg, 2);
	fiber_spawn_wait(other_reactor(), FIBER_REQUEST, "server", udp_server, t);
	fiber_spawn_wait(0, FIBER_REQUEST, "client", udp_client, t);
	for (uint32_t i = 0; i < UDP_COUNT; i++) {
		CU_ASSERT(net_udp_send(t->client, &i, sizeof(i), &to) == sizeof(i));
		if (i % 20 == 0) {
			fiber_sleep(50 * NSEC_PER_MSEC);
		}
	}
	fiber_sleep(200 * NSEC_PER_MSEC);
	net_udp_close(t->server);
	net_udp_close(t->client);
	CU_ASSERT(net_udp_send(t->client, "x", 1, &to) == -ECANCELED);
	wg_wait(&t->wg);
	for (unsigned i = 0; i < UDP_COUNT; i++) {
		lost += t->seen[i] == 0;
		twice += t->seen[i] > 1;
	}
	if (t->faults) {
		CU_ASSERT(lost > 10 && lost < UDP_COUNT - 100 && twice > 10);
	} else {
		CU_ASSERT(lost == 0 && twice == 0);
	}
	/* The port is free at once. */
	CU_ASSERT_FATAL(net_udp_open(NULL, self.port, &t->server) == 0);
	CU_ASSERT(net_udp_open(NULL, self.port, &t->client) == -EADDRINUSE);
	net_udp_close(t->server);
}

static void
test_udp(void)
{
	for (unsigned turn = 0; turn < TURNS; turn++) {
		struct udp t = {0};

		CU_ASSERT(run_turn(turn, 900, udp_main, &t) == 0);
	}
	for (unsigned turn = 1; turn < TURNS; turn++) {
		struct udp t = {.faults = true};

		CU_ASSERT(run_turn(turn, 900, udp_main, &t) == 0);
	}
}

/* An answer comes from the address that was asked. */
static void
udp_reply_main(void *arg)
{
	static const char *const servers[] = {NULL, "0.0.0.0"};
	struct net_addr to, from, self;
	char buf[8];

	(void)arg;
	for (unsigned i = 0; i < ARRAY_LEN(servers); i++) {
		struct net_udp *server, *client;

		CU_ASSERT_FATAL(net_udp_open(servers[i], 0, &server) == 0);
		CU_ASSERT_FATAL(net_udp_open("127.0.0.1", 0, &client) == 0);
		net_udp_addr(server, &self);
		CU_ASSERT_FATAL(net_addr_parse("127.9.9.9", self.port, &to) == 0);
		CU_ASSERT(net_udp_send(client, "ask", 3, &to) == 3);
		CU_ASSERT(net_udp_recv(server, buf, sizeof(buf), &from) == 3);
		CU_ASSERT(net_udp_send(server, "answer", 6, &from) == 6);
		CU_ASSERT(net_udp_recv(client, buf, sizeof(buf), &from) == 6);
		CU_ASSERT(memcmp(from.ip, to.ip, sizeof(to.ip)) == 0 && from.port == to.port);
		net_udp_close(server);
		net_udp_close(client);
	}
}

static void
test_udp_reply(void)
{
	for (unsigned turn = 0; turn < TURNS; turn++) {
		CU_ASSERT(run_turn(turn, 950, udp_reply_main, NULL) == 0);
	}
}

/* ---- only in the simulation ---- */

static void
knobs_main(void *arg)
{
	struct net_listener *l, *specific, *second;
	struct net_conn *c, *s;
	struct net_addr peer;
	char text[NET_ADDR_TEXT_MAX];

	(void)arg;
	CU_ASSERT_FATAL(net_listen("192.0.2.9", 2049, &specific) == 0);
	CU_ASSERT_FATAL(net_listen("0.0.0.0", 111, &l) == 0);
	CU_ASSERT(net_listen_fd(0, &second) < 0);
	CU_ASSERT(net_sim_set_client("junk") == -EINVAL);
	CU_ASSERT(net_sim_set_client("198.51.100.7") == 0);
	CU_ASSERT(net_connect("192.0.2.8", 2049, SOON, &c) == -ECONNREFUSED);
	CU_ASSERT(net_connect("2001:db8::1", 111, SOON, &c) == -ECONNREFUSED);
	CU_ASSERT_FATAL(net_connect("192.0.2.9", 2049, SOON, &c) == 0);
	CU_ASSERT_FATAL(net_accept(specific, &s) == 0);
	net_peer(s, &peer);
	CU_ASSERT(strncmp(net_addr_format(&peer, text), "198.51.100.7:", 13) == 0);
	net_peer(c, &peer);
	CU_ASSERT_STRING_EQUAL(net_addr_format(&peer, text), "192.0.2.9:2049");
	net_conn_close(c);
	net_conn_close(s);
	net_listener_close(specific);
	net_listener_close(l);
}

static void
test_sim_knobs(void)
{
	CU_ASSERT(run_turn(1, 1, knobs_main, NULL) == 0);
}

static void
trace_main(void *arg)
{
	uint64_t *out = arg;
	struct echo e = {0};

	echo_main(&e);
	*out = rt_sim_trace();
}

static void
test_sim_repeats(void)
{
	uint64_t trace[3];

	CU_ASSERT(run_turn(1, 1000, trace_main, &trace[0]) == 0);
	CU_ASSERT(run_turn(1, 1000, trace_main, &trace[1]) == 0);
	CU_ASSERT(run_turn(1, 1001, trace_main, &trace[2]) == 0);
	CU_ASSERT(trace[0] == trace[1]);
	CU_ASSERT(trace[0] != trace[2]);
}

static void
power_cutter(void *arg)
{
	uint64_t *after_ns = arg;

	fiber_sleep(*after_ns);
	rt_sim_crash();
}

static void
crash_main(void *arg)
{
	static struct echo e;

	e = (struct echo){0};
	fiber_spawn_wait(0, FIBER_ADMIN, "power", power_cutter, arg);
	echo_main(&e);
	fiber_sleep(NSEC_PER_SEC);
}

static void
test_sim_crash(void)
{
	for (uint64_t after_ns = 1; after_ns < NSEC_PER_SEC; after_ns *= 7) {
		struct echo e = {0};

		CU_ASSERT(run_turn(1, after_ns, crash_main, &after_ns) == -ERR_CRASHED);
		CU_ASSERT(run_turn(1, after_ns, echo_main, &e) == 0);
	}
}

/* Every allocation fails once: an error comes back, nothing leaks, nothing hangs. */
static void
no_memory_main(void *arg)
{
	const uint64_t *n = arg;
	struct net_listener *l = NULL;
	struct net_conn *c = NULL, *s = NULL;
	struct net_udp *u = NULL;
	int err;

	mem_fail_at(*n, false);
	err = net_listen(NULL, 4000, &l);
	if (err == 0) {
		err = net_connect("127.0.0.1", 4000, SOON, &c);
	}
	if (err == 0) {
		err = net_accept(l, &s);
	}
	if (err == 0) {
		err = net_udp_open(NULL, 4000, &u);
	}
	mem_fail_at(0, false);
	CU_ASSERT(err == 0 || err == -ENOMEM);
	if (c != NULL) {
		net_conn_close(c);
	}
	if (s != NULL) {
		net_conn_close(s);
	}
	if (l != NULL) {
		net_listener_close(l);
	}
	if (u != NULL) {
		net_udp_close(u);
	}
}

static void
test_no_memory(void)
{
	for (unsigned turn = 0; turn < 3; turn++) {
		for (uint64_t n = 1; n < 10; n++) {
			CU_ASSERT(run_turn(turn, n, no_memory_main, &n) == 0);
		}
	}
}

int
main(int argc, char **argv)
{
	static const struct unit_test tests[] = {
	    {"addr_text", test_addr_text},
	    {"addr_sockaddr", test_addr_sockaddr},
	    {"addr_random", test_addr_random},
	    {"echo_tcp", test_echo_tcp},
	    {"echo_buggify", test_echo_buggify},
	    {"echo_unix", test_echo_unix},
	    {"unix", test_unix},
	    {"deadlines", test_deadlines},
	    {"ends", test_ends},
	    {"shutdown", test_shutdown},
	    {"close_afar", test_close_afar},
	    {"storm", test_storm},
	    {"idle", test_idle},
	    {"listen_fd", test_listen_fd},
	    {"udp", test_udp},
	    {"udp_reply", test_udp_reply},
	    {"sim_knobs", test_sim_knobs},
	    {"sim_repeats", test_sim_repeats},
	    {"sim_crash", test_sim_crash},
	    {"no_memory", test_no_memory},
	};

	return unit_main("net", tests, ARRAY_LEN(tests), argc, argv);
}
