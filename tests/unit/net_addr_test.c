/* Addresses and datagrams, in both runtimes through the same calls. */
#include <netinet/in.h>
#include "base/net_int.h"
#include "base/net_sim.h"
#include "tests/lib/net_pair.h"

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

int
main(int argc, char **argv)
{
	static const struct unit_test tests[] = {
	    {"addr_text", test_addr_text},
	    {"addr_sockaddr", test_addr_sockaddr},
	    {"addr_random", test_addr_random},
	    {"udp", test_udp},
	    {"udp_reply", test_udp_reply},
	};

	return unit_main("net_addr", tests, ARRAY_LEN(tests), argc, argv);
}
