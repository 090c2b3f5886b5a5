/* How streams and listeners end: deadlines, closing, shutdown from other reactors, storms. */
#include "tests/lib/net_pair.h"

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

int
main(int argc, char **argv)
{
	static const struct unit_test tests[] = {
	    {"deadlines", test_deadlines},
	    {"ends", test_ends},
	    {"shutdown", test_shutdown},
	    {"close_afar", test_close_afar},
	    {"storm", test_storm},
	};

	return unit_main("net_end", tests, ARRAY_LEN(tests), argc, argv);
}
