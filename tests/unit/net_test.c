/* Streams and listeners: contents, local sockets, idle connections, the simulated network. */
#include <fcntl.h>
#include <netinet/in.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>
#include "base/net_sim.h"
#include "tests/lib/net_pair.h"

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
	    {"echo_tcp", test_echo_tcp},
	    {"echo_buggify", test_echo_buggify},
	    {"echo_unix", test_echo_unix},
	    {"unix", test_unix},
	    {"idle", test_idle},
	    {"listen_fd", test_listen_fd},
	    {"sim_knobs", test_sim_knobs},
	    {"sim_repeats", test_sim_repeats},
	    {"sim_crash", test_sim_crash},
	    {"no_memory", test_no_memory},
	};

	return unit_main("net", tests, ARRAY_LEN(tests), argc, argv);
}
