/*
 * arena_net.c - what I/O buffers and loopback connections cost on this machine. Never part of make
 * check.
 */
#include <stdio.h>
#include <stdlib.h>
#include "base/base.h"
#include "base/net.h"

#define ALLOC_ROUNDS 1000000u
#define PING_ROUNDS 30000u
#define STREAM_BYTES ((uint64_t)2 << 30)
#define STREAM_CHUNK (1u << 20)

struct run {
	struct waitgroup wg;
	struct net_listener *l;
	struct net_conn *server;
	enum arena_use use;
	uint32_t len;
	uint8_t *chunk;
};

static void
report(const char *what, uint64_t begin_ns, uint64_t ops)
{
	printf("%-48s %9.1f ns\n", what, (double)(rt_now_ns() - begin_ns) / (double)ops);
}

static void
must(int err)
{
	if (err != 0) {
		fprintf(stderr, "error %d (%s)\n", err, err_str(err));
		exit(1);
	}
}

static void
alloc_fiber(void *arg)
{
	struct run *r = arg;
	struct iobuf *b[4];

	for (uint32_t i = 0; i < ALLOC_ROUNDS / 4; i++) {
		for (unsigned n = 0; n < 4; n++) {
			must(iobuf_alloc(r->len, r->use, &b[n]));
		}
		for (unsigned n = 0; n < 4; n++) {
			iobuf_unref(b[n]);
		}
	}
	wg_done(&r->wg);
}

static void
bench_alloc(const char *what, uint32_t len, enum arena_use use, unsigned fibers)
{
	struct run r = {.len = len, .use = use};
	uint64_t begin = rt_now_ns();

	wg_init(&r.wg);
	wg_add(&r.wg, fibers);
	for (unsigned i = 0; i < fibers; i++) {
		fiber_spawn_wait(i % rt_reactor_count(), FIBER_REQUEST, "alloc", alloc_fiber, &r);
	}
	wg_wait(&r.wg);
	report(what, begin, ALLOC_ROUNDS);
}

static int
send_bytes(struct net_conn *c, uint8_t *buf, uint32_t len)
{
	struct iovec iov = {.iov_base = buf, .iov_len = len};

	return net_writev(c, &iov, 1, RT_FOREVER);
}

static void
echo_fiber(void *arg)
{
	struct run *r = arg;
	uint8_t buf[128];
	int64_t n;

	while ((n = net_read(r->server, buf, sizeof(buf), RT_FOREVER)) > 0) {
		must(send_bytes(r->server, buf, (uint32_t)n));
	}
	net_conn_close(r->server);
	wg_done(&r->wg);
}

static void
sink_fiber(void *arg)
{
	struct run *r = arg;
	uint8_t *buf = mem_zalloc(STREAM_CHUNK);

	while (buf != NULL && net_read(r->server, buf, STREAM_CHUNK, RT_FOREVER) > 0) {
		continue;
	}
	mem_free(buf);
	net_conn_close(r->server);
	wg_done(&r->wg);
}

static struct net_conn *
connect_to(struct run *r, unsigned reactor, fiber_fn *server)
{
	struct net_conn *c;
	struct net_addr a;

	net_listener_addr(r->l, &a);
	must(net_connect("127.0.0.1", a.port, RT_FOREVER, &c));
	must(net_accept(r->l, &r->server));
	wg_init(&r->wg);
	wg_add(&r->wg, 1);
	fiber_spawn_wait(reactor, FIBER_REQUEST, "server", server, r);
	return c;
}

static void
bench_ping(struct run *r, const char *what, unsigned reactor)
{
	struct net_conn *c = connect_to(r, reactor, echo_fiber);
	uint64_t begin = rt_now_ns();
	uint8_t buf[128] = {0};

	for (uint32_t i = 0; i < PING_ROUNDS; i++) {
		uint32_t got = 0;

		must(send_bytes(c, buf, sizeof(buf)));
		while (got < sizeof(buf)) {
			int64_t n = net_read(c, buf, (uint32_t)sizeof(buf) - got, RT_FOREVER);

			must(n > 0 ? 0 : (int)n);
			got += (uint32_t)n;
		}
	}
	report(what, begin, PING_ROUNDS);
	net_conn_close(c);
	wg_wait(&r->wg);
}

static void
bench_stream(struct run *r)
{
	struct net_conn *c = connect_to(r, rt_reactor_count() - 1, sink_fiber);
	uint64_t begin = rt_now_ns();

	for (uint64_t sent = 0; sent < STREAM_BYTES; sent += STREAM_CHUNK) {
		must(send_bytes(c, r->chunk, STREAM_CHUNK));
	}
	net_conn_close(c);
	wg_wait(&r->wg);
	printf("%-48s %9.2f GB/s\n", "stream over loopback TCP, 1 MiB writes",
	    (double)STREAM_BYTES / (double)(rt_now_ns() - begin));
}

static void
bench_main(void *arg)
{
	struct run r = {.chunk = mem_zalloc(STREAM_CHUNK)};

	(void)arg;
	bench_alloc("4 KiB buffer, alloc + unref", 4096, ARENA_RECV, 1);
	bench_alloc("128 KiB buffer, alloc + unref", 128 << 10, ARENA_RECV, 1);
	bench_alloc("1 MiB buffer (no front cache), alloc + unref", 1 << 20, ARENA_RECV, 1);
	bench_alloc("4 KiB buffer, two reactors, each", 4096, ARENA_RECV, 2);
	bench_alloc("1 MiB buffer, two reactors, each", 1 << 20, ARENA_RECV, 2);
	must(net_listen(NULL, 0, &r.l));
	bench_ping(&r, "TCP request and reply, same reactor", 0);
	bench_ping(&r, "TCP request and reply, other reactor", rt_reactor_count() - 1);
	bench_stream(&r);
	net_listener_close(r.l);
	mem_free(r.chunk);
}

int
main(void)
{
	struct rt_options opt = {.reactors = 2, .arena_bytes = (size_t)512 << 20};

	printf("2 reactors, 512 MiB arena\n");
	must(rt_run(&opt, bench_main, NULL));
	return 0;
}
