/*
 * nfsload.c - a simple load over NFS, through libnfs: so many clients, each with one call under
 * way; operations a second, latency, and what the server's processor pays for each.
 *
 *   nfsload URL OPERATION CLIENTS SECONDS [SERVER-PID]
 *
 * OPERATION: getattr; read SIZE and write SIZE at random places of a file of 64 MiB of the client's
 * own (write: durable in the reply; unstable: committed once at the end); create (and remove).
 * Sizes: read4k, read128k, write4k, write64k, unstable64k, mixed (half getattr, a third read4k, the
 * rest write4k).
 */
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
#include "bench/server_cost.h"
#include "tests/lib/libnfs_client.h"

#define FILE_BYTES (64u << 20)
#define IO_BYTES_MAX (128u << 10)
#define BUCKETS 512u /* 8 a doubling, from 1 us */
#define CLIENTS_MAX 256u

enum operation { GETATTR, READ, WRITE, UNSTABLE, CREATE, MIXED };
static const struct load {
	const char *name;
	enum operation op;
	uint32_t bytes;
} loads[] = {{"getattr", GETATTR, 0}, {"read4k", READ, 4u << 10}, {"read128k", READ, 128u << 10},
    {"write4k", WRITE, 4u << 10}, {"write64k", WRITE, 64u << 10},
    {"unstable64k", UNSTABLE, 64u << 10}, {"create", CREATE, 0}, {"mixed", MIXED, 4u << 10}};

/* What one client found; shared with its parent. */
struct result {
	uint64_t operations;
	uint64_t nanoseconds; /* sum of latencies */
	uint32_t bucket[BUCKETS];
};

struct client {
	struct nfs_context *nfs;
	struct nfsfh *fh;
	const struct load *load;
	unsigned number;
	uint64_t random, made;
	struct result *result;
};

static uint64_t
now_ns(void)
{
	struct timespec ts;
	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec;
}

static uint64_t
next(struct client *c)
{
	c->random ^= c->random << 13;
	c->random ^= c->random >> 7;
	c->random ^= c->random << 17;
	return c->random >> 8;
}

static unsigned
bucket_of(uint64_t ns)
{
	uint64_t us = ns / 1000;
	unsigned shift = 0;
	while (us >> shift >= 16) {
		shift++;
	}
	unsigned b = us < 8 ? (unsigned)us : shift * 8 + (unsigned)(us >> shift);
	return MIN(b, BUCKETS - 1);
}

/* The upper end of a bucket, in microseconds. */
static double
bucket_us(unsigned b)
{
	if (b < 16) {
		return b + 1;
	}
	unsigned shift = b / 8 - 1;
	return (double)(((uint64_t)(b - shift * 8) + 1) << shift);
}

static void
one_create(struct client *c)
{
	char path[64];
	struct nfsfh *fh;
	snprintf(path, sizeof(path), "load-%u-%llu", c->number, (unsigned long long)c->made++);
	client_must(c->nfs, nfs_creat(c->nfs, path, 0644, &fh), "create", path);
	client_must(c->nfs, nfs_close(c->nfs, fh), "close", path);
	client_must(c->nfs, nfs_unlink(c->nfs, path), "remove", path);
}

static void
one(struct client *c)
{
	static char data[IO_BYTES_MAX];
	struct nfs_stat_64 st;
	enum operation op = c->load->op;
	uint32_t bytes = c->load->bytes;
	uint64_t at = bytes != 0 ? next(c) % (FILE_BYTES / bytes) * bytes : 0;
	if (op == MIXED) {
		uint64_t dice = next(c) % 6;
		op = dice < 3 ? GETATTR : dice < 5 ? READ : WRITE;
	}
	switch (op) {
	case GETATTR:
		client_must(c->nfs, nfs_fstat64(c->nfs, c->fh, &st), "getattr", c->load->name);
		break;
	case READ:
		client_must(
		    c->nfs, nfs_pread(c->nfs, c->fh, at, bytes, data), "read", c->load->name);
		break;
	case WRITE:
	case UNSTABLE:
		memcpy(data, &at, sizeof(at));
		client_must(
		    c->nfs, nfs_pwrite(c->nfs, c->fh, at, bytes, data), "write", c->load->name);
		break;
	case CREATE:
		one_create(c);
		break;
	case MIXED:
		break;
	}
}

/* Two blocks of the file must not be alike, and it should compress about as well as files do. */
static void
fill(struct client *c, const char *path)
{
	static char data[IO_BYTES_MAX];
	for (uint64_t at = 0; at < FILE_BYTES; at += sizeof(data)) {
		for (size_t i = 0; i < sizeof(data); i += 16) {
			uint64_t word = next(c);
			memcpy(data + i, &word, sizeof(word));
		}
		client_must(
		    c->nfs, nfs_pwrite(c->nfs, c->fh, at, sizeof(data), data), "write", path);
	}
	client_must(c->nfs, nfs_fsync(c->nfs, c->fh), "commit", path);
}

static void NORETURN
run_client(struct client *c, const char *url, int ready, int go, double seconds)
{
	char path[64], byte = 0;
	c->nfs = client_mount(url);
	c->random = (c->number + 1) * 0x9e3779b97f4a7c15ull;
	snprintf(path, sizeof(path), "load-%u", c->number);
	int stable = c->load->op == UNSTABLE ? 0 : O_SYNC;
	client_must(c->nfs, nfs_open2(c->nfs, path, O_RDWR | O_CREAT, 0644, &c->fh), "open", path);
	if (c->load->bytes != 0) {
		fill(c, path);
	}
	client_must(c->nfs, nfs_close(c->nfs, c->fh), "close", path);
	client_must(c->nfs, nfs_open(c->nfs, path, O_RDWR | stable, &c->fh), "open", path);
	if (write(ready, &byte, 1) != 1 || read(go, &byte, 1) != 1) {
		die("the start was missed");
	}
	uint64_t start = now_ns(), end = start + (uint64_t)(seconds * 1e9), before = start;
	while (before < end) {
		one(c);
		uint64_t after = now_ns();
		c->result->operations++;
		c->result->nanoseconds += after - before;
		c->result->bucket[bucket_of(after - before)]++;
		before = after;
	}
	client_must(c->nfs, nfs_close(c->nfs, c->fh), "close", path);
	client_must(c->nfs, nfs_unlink(c->nfs, path), "remove", path);
	_exit(EXIT_SUCCESS);
}

static double
percentile(const struct result *r, double part)
{
	uint64_t seen = 0;
	for (unsigned b = 0; b < BUCKETS; b++) {
		seen += r->bucket[b];
		if ((double)seen >= part * (double)r->operations) {
			return bucket_us(b);
		}
	}
	return 0;
}

static void
report(const struct load *load, unsigned clients, const struct result *r, double seconds,
    const struct server_cost *server)
{
	printf(
	    "%-12s %3u clients  %9.0f ops/s", load->name, clients, (double)r->operations / seconds);
	if (load->bytes != 0 && load->op != MIXED) {
		printf("  %7.1f MiB/s", (double)r->operations * load->bytes / seconds / 1048576);
	}
	printf("  mean %.0f us  p50 %.0f  p99 %.0f  p99.9 %.0f us",
	    (double)r->nanoseconds / 1000 / (double)r->operations, percentile(r, 0.5),
	    percentile(r, 0.99), percentile(r, 0.999));
	if (server->cpu_us > 0) {
		printf("  server %.1f us/op", server->cpu_us / (double)r->operations);
	}
	if (server->instructions > 0) {
		printf(
		    "  %.0f instructions/op", (double)server->instructions / (double)r->operations);
	}
	putchar('\n');
}

static void NORETURN usage(void);
static void NORETURN
usage(void)
{
	fprintf(stderr, "usage: nfsload URL OPERATION CLIENTS SECONDS [SERVER-PID]\noperations:");
	for (size_t i = 0; i < ARRAY_LEN(loads); i++) {
		fprintf(stderr, " %s", loads[i].name);
	}
	die(" ");
}

static const struct load *
find_load(const char *name)
{
	for (size_t i = 0; i < ARRAY_LEN(loads); i++) {
		if (strcmp(loads[i].name, name) == 0) {
			return &loads[i];
		}
	}
	usage();
}

static void
start_clients(const struct load *load, const char *url, unsigned clients, double seconds,
    struct result *results, int *out_go)
{
	int ready[2], go[2];
	char byte;
	if (pipe(ready) != 0 || pipe(go) != 0) {
		die("%s", strerror(errno));
	}
	for (unsigned i = 0; i < clients; i++) {
		if (fork() == 0) {
			static struct client c;
			c = (struct client){.load = load, .number = i, .result = &results[i]};
			run_client(&c, url, ready[1], go[0], seconds);
		}
	}
	for (unsigned i = 0; i < clients; i++) {
		if (read(ready[0], &byte, 1) != 1) {
			die("a client is missing");
		}
	}
	*out_go = go[1];
}

static void
gather(const struct result *results, unsigned clients, struct result *all)
{
	for (unsigned i = 0; i < clients; i++) {
		int status;
		if (wait(&status) < 0 || status != 0) {
			die("a client failed");
		}
	}
	for (unsigned i = 0; i < clients; i++) {
		all->operations += results[i].operations;
		all->nanoseconds += results[i].nanoseconds;
		for (unsigned b = 0; b < BUCKETS; b++) {
			all->bucket[b] += results[i].bucket[b];
		}
	}
	if (all->operations == 0) {
		die("nothing was done");
	}
}

int
main(int argc, char **argv)
{
	static const char bytes[CLIENTS_MAX];
	static struct result all;
	int go;
	if (argc < 5) {
		usage();
	}
	const struct load *load = find_load(argv[2]);
	unsigned clients = (unsigned)strtoul(argv[3], NULL, 10);
	double seconds = strtod(argv[4], NULL);
	if (clients < 1 || clients > CLIENTS_MAX || seconds <= 0) {
		usage();
	}
	struct result *results = mmap(NULL, clients * sizeof(*results), PROT_READ | PROT_WRITE,
	    MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (results == MAP_FAILED) {
		die("%s", strerror(errno));
	}
	start_clients(load, argv[1], clients, seconds, results, &go);
	struct server_cost server = {0};
	if (argc > 5) {
		server_cost_begin(&server, argv[5]);
	}
	uint64_t start = now_ns();
	if (write(go, bytes, clients) != (ssize_t)clients) {
		die("%s", strerror(errno));
	}
	struct timespec rest = {(time_t)seconds, (long)((seconds - (double)(time_t)seconds) * 1e9)};
	nanosleep(&rest, NULL);
	double took = (double)(now_ns() - start) / 1e9;
	if (argc > 5) {
		server_cost_end(&server);
	}
	gather(results, clients, &all);
	report(load, clients, &all, took, &server);
	return EXIT_SUCCESS;
}
