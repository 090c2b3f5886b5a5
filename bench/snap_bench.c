/*
 * snap_bench.c - what snapshots cost, as ratios within one run: creating the last of many against
 * the first, destroying against what is freed, listing, import, and writing with a thousand
 * snapshots against none. Processor time of the process; drives without latency; one reactor.
 */
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "kernel-bypass/kb_sim.h"
#include "pool/pool.h"

#define DRIVES 7u
#define DRIVE_BYTES (2048 * MIB)
#define BLOCK 16384u
#define FILE_BLOCKS 4096u
#define SOME 200u
#define ROUNDS 15u

static struct kb_sim_medium *media[DRIVES];
static struct kb_drive *drives[DRIVES];
static uint32_t snapshots = 10000;

static void
must(int err, const char *what)
{
	if (err != 0) {
		fprintf(stderr, "%s: %s\n", what, err_str(err));
		exit(EXIT_FAILURE);
	}
}

static double
cpu_us(void)
{
	struct timespec t;

	(void)clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
	return (double)t.tv_sec * 1e6 + (double)t.tv_nsec / 1e3;
}

static int
order(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return x < y ? -1 : x > y;
}

static double
median(double *v, uint32_t n)
{
	qsort(v, n, sizeof(*v), order);
	return v[n / 2];
}

static struct pool_obj *
file_make(struct pool_ds *ds)
{
	struct pool_need need = {.dirty_bytes = 64 * 1024};
	struct pool_obj *o;
	struct pool_tx *tx;

	must(pool_tx_begin(ds, &need, &tx), "begin");
	must(pool_obj_create(tx, ds, OBJ_FILE, BLOCK, 0, 0, &o), "object");
	pool_tx_end(tx);
	return o;
}

static void
block_write(struct pool_ds *ds, struct pool_obj *o, uint64_t block, uint64_t seed)
{
	static uint8_t data[BLOCK];
	struct pool_need need = {.dirty_bytes = BLOCK + 64 * 1024};
	struct iovec iov = {data, sizeof(data)};
	struct pool_tx *tx;

	for (uint32_t i = 0; i < BLOCK / 8; i++) {
		uint64_t v = (seed * 77777 + i) * 0x9e3779b97f4a7c15ull;

		memcpy(data + i * 8, &v, 8);
	}
	must(pool_tx_begin(ds, &need, &tx), "begin");
	must(pool_write(tx, o, block * BLOCK, &iov, 1), "write");
	pool_tx_end(tx);
}

static void
file_write(struct pool *p, struct pool_ds *ds, struct pool_obj *o, uint64_t seed)
{
	for (uint64_t b = 0; b < FILE_BLOCKS; b++) {
		block_write(ds, o, b, seed * FILE_BLOCKS + b);
	}
	must(pool_sync(p), "sync");
}

static void
snap(struct pool *p, const char *prefix, uint32_t i)
{
	char name[64];
	const char *names[] = {name};
	uint32_t bad;

	(void)snprintf(name, sizeof(name), "%s%u", prefix, i);
	must(pool_snap_create(p, names, 1, &bad), name);
}

static double
snap_destroy(struct pool *p, const char *prefix, uint32_t i)
{
	char name[64];
	const char *names[] = {name};
	double start = cpu_us();
	uint32_t bad;

	(void)snprintf(name, sizeof(name), "%s%u", prefix, i);
	must(pool_snap_destroy(p, names, 1, &bad), name);
	while (pool_pending_free_bytes(p) > 0) {
		must(pool_sync(p), "sync");
	}
	return cpu_us() - start;
}

/* ---- writing, with and without a thousand snapshots ---- */

static void
bench_write(struct pool *p)
{
	static double plain[ROUNDS], snapped[ROUNDS];
	double a, b;
	struct pool_ds *none, *many;
	struct pool_obj *o_none, *o_many;

	must(pool_ds_create(p, "bench/none", &none), "create");
	must(pool_ds_create(p, "bench/many", &many), "create");
	o_none = file_make(none);
	o_many = file_make(many);
	file_write(p, none, o_none, 1);
	file_write(p, many, o_many, 1);
	for (uint32_t i = 0; i < 1000; i++) {
		block_write(many, o_many, i * 7 % FILE_BLOCKS, i + 5000);
		snap(p, "bench/many@s", i);
	}
	for (uint32_t r = 0; r < ROUNDS; r++) {
		double start = cpu_us();

		file_write(p, none, o_none, r + 2);
		plain[r] = cpu_us() - start;
		start = cpu_us();
		file_write(p, many, o_many, r + 2);
		snapped[r] = cpu_us() - start;
	}
	/* the first round is the one whose blocks the snapshots keep */
	printf("rewriting %u blocks, first time: %.0f us, with 1000 snapshots %.0f us: %.3f\n",
	    FILE_BLOCKS, plain[0], snapped[0], snapped[0] / plain[0]);
	a = median(plain, ROUNDS);
	b = median(snapped, ROUNDS);
	printf("rewriting %u blocks, median of %u: %.0f us, with 1000 snapshots %.0f us: %.3f\n",
	    FILE_BLOCKS, ROUNDS, a, b, b / a);
	pool_obj_release(o_none);
	pool_obj_release(o_many);
	pool_ds_close(none);
	pool_ds_close(many);
}

/* ---- creating, listing, importing, destroying ---- */

static int
count_one(void *arg, const struct pool_snap_info *s)
{
	(void)s;
	(*(uint32_t *)arg)++;
	return 0;
}

static void
bench_list(struct pool *p)
{
	uint32_t count = 0;
	double start = cpu_us();

	must(pool_snap_each(p, "bench/chain", 0, count_one, &count), "list");
	printf("listing %u snapshots: %.0f us\n", count, cpu_us() - start);
}

/* What the same group costs without a snapshot: it grows older with the pool, too. */
static double
plain_group(struct pool *p, struct pool_ds *ds, struct pool_obj *o, uint32_t i)
{
	double start;

	block_write(ds, o, i % 64, i + 777);
	start = cpu_us();
	must(pool_sync(p), "sync");
	return cpu_us() - start;
}

/* Side by side, at the end: the chain of many and one that has none yet. */
static void
bench_beside(struct pool *p, struct pool_ds *ds, struct pool_obj *o)
{
	static double many[SOME], few[SOME];
	double a, b;
	struct pool_ds *fresh;
	struct pool_obj *of;

	must(pool_ds_create(p, "bench/fresh", &fresh), "create");
	of = file_make(fresh);
	for (uint32_t i = 0; i < 64; i++) {
		block_write(fresh, of, i, i);
	}
	must(pool_sync(p), "sync");
	for (uint32_t i = 0; i < SOME; i++) {
		double start;

		block_write(ds, o, i % 64, i + 99);
		start = cpu_us();
		snap(p, "bench/chain@b", i);
		many[i] = cpu_us() - start;
		block_write(fresh, of, i % 64, i + 99);
		start = cpu_us();
		snap(p, "bench/fresh@b", i);
		few[i] = cpu_us() - start;
	}
	a = median(few, SOME);
	b = median(many, SOME);
	printf("creating, side by side: of a new chain %.0f us each, of that of %u %.0f us: %.3f\n",
	    a, snapshots, b, b / a);
	pool_obj_release(of);
	pool_ds_close(fresh);
}

static void
bench_create(struct pool *p)
{
	static double first[SOME], last[SOME], plain_first[SOME], plain_last[SOME];
	double a, b, c, d;
	struct pool_obj *o;
	struct pool_ds *ds;

	must(pool_ds_create(p, "bench/chain", &ds), "create");
	o = file_make(ds);
	for (uint32_t i = 0; i < snapshots; i++) {
		bool early = i < SOME, late = i >= snapshots - SOME;
		double start, plain = early || late ? plain_group(p, ds, o, i) : 0;

		block_write(ds, o, i % 64, i);
		start = cpu_us();
		snap(p, "bench/chain@s", i);
		if (early) {
			first[i] = cpu_us() - start;
			plain_first[i] = plain;
		} else if (late) {
			last[i - (snapshots - SOME)] = cpu_us() - start;
			plain_last[i - (snapshots - SOME)] = plain;
		}
	}
	a = median(first, SOME);
	b = median(last, SOME);
	c = median(plain_first, SOME);
	d = median(plain_last, SOME);
	printf("creating: the first %u %.0f us each, the last of %u %.0f us: %.3f\n", SOME, a,
	    snapshots, b, b / a);
	printf("a group without one, at the same times: %.0f us, %.0f us: %.3f\n", c, d, d / c);
	printf("what a snapshot adds to a group: %.0f us, %.0f us: %.3f\n", a - c, b - d,
	    (b - d) / (a - c));
	bench_beside(p, ds, o);
	pool_obj_release(o);
	pool_ds_close(ds);
}

static void
bench_destroy(struct pool *p)
{
	static double small[SOME];
	double cost;
	struct pool_obj *o;
	struct pool_ds *ds;

	for (uint32_t i = 0; i < SOME; i++) {
		small[i] = snap_destroy(p, "bench/chain@s", 10 + i * (snapshots / SOME - 1));
	}
	cost = median(small, SOME);
	printf("destroying one of %u that frees a block or two: %.0f us\n", snapshots, cost);
	must(pool_ds_create(p, "bench/big", &ds), "create");
	o = file_make(ds);
	for (uint32_t blocks = FILE_BLOCKS / 16; blocks <= FILE_BLOCKS; blocks *= 4) {
		file_write(p, ds, o, 1);
		snap(p, "bench/big@s", blocks);
		for (uint64_t b = 0; b < blocks; b++) {
			block_write(ds, o, b, b + 99);
		}
		snap(p, "bench/big@t", blocks); /* so that the rest is somebody else's too */
		must(pool_sync(p), "sync");
		cost = snap_destroy(p, "bench/big@s", blocks);
		printf("destroying one that frees %u blocks: %.0f us, %.2f us a block\n", blocks,
		    cost, cost / blocks);
	}
	pool_obj_release(o);
	pool_ds_close(ds);
}

/* All that are left, in one call. */
static int
name_one(void *arg, const struct pool_snap_info *s)
{
	char ***at = arg;
	size_t len = strlen("bench/chain@") + strlen(s->name) + 1;

	**at = malloc(len);
	if (**at == NULL) {
		return -ENOMEM;
	}
	(void)snprintf(**at, len, "bench/chain@%s", s->name);
	(*at)++;
	return 0;
}

static void
bench_destroy_all(struct pool *p)
{
	char **names = calloc(snapshots, sizeof(char *)), **at = names;
	uint64_t ns;
	uint32_t bad;
	double start;

	must(names != NULL ? 0 : -ENOMEM, "names");
	must(pool_snap_each(p, "bench/chain", 0, name_one, &at), "list");
	start = cpu_us();
	ns = rt_now_ns();
	must(pool_snap_destroy(p, (const char *const *)names, (uint32_t)(at - names), &bad), "all");
	printf("destroying %u in one call: %.0f us of processor, returned after %.0f us\n",
	    (uint32_t)(at - names), cpu_us() - start, (double)(rt_now_ns() - ns) / 1000);
	while (at > names) {
		free(*--at);
	}
	free(names);
}

static void
bench_import(struct pool *p)
{
	struct pool_import_spec spec = {
	    .drives = drives, .drive_count = DRIVES, .host_name = "bench", .host_id = 1};
	struct pool_import_result result = {0};
	double start;

	spec.pool_guid = pool_guid(p);
	must(pool_export(p), "export");
	for (uint32_t i = 0; i < DRIVES; i++) {
		must(kb_sim_open(media[i], &drives[i]), "open");
	}
	start = cpu_us();
	must(pool_import(&spec, &p, &result), result.why);
	printf("import with %u snapshots: %.0f us\n", snapshots + 1000, cpu_us() - start);
	bench_list(p);
	bench_destroy_all(p);
	must(pool_export(p), "export");
}

static void
bench_main(void *arg)
{
	struct pool_set_spec set = {RAIDZ_KIND_PARITY, 1, DRIVES, drives};
	struct pool_create_spec spec = {
	    .name = "bench", .sets = &set, .set_count = 1, .host_name = "bench", .host_id = 1};
	struct pool *p;
	char why[256];

	(void)arg;
	for (uint32_t i = 0; i < DRIVES; i++) {
		must(kb_sim_open(media[i], &drives[i]), "open");
	}
	must(pool_create(&spec, &p, why, sizeof(why)), why);
	bench_write(p);
	bench_create(p);
	bench_list(p);
	bench_destroy(p);
	bench_import(p);
}

int
main(int argc, char **argv)
{
	struct rt_options opt = {.reactors = 1, .arena_bytes = (size_t)512 << 20, .seed = 1};
	struct kb_sim_faults fast = {.latency_ns_min = 1000, .latency_ns_max = 2000};

	if (argc > 1) {
		snapshots = (uint32_t)strtoul(argv[1], NULL, 10);
	}
	if (snapshots < 2 * SOME) {
		(void)fprintf(stderr, "usage: snap_bench [SNAPSHOTS (at least %u)]\n", 2 * SOME);
		return EXIT_FAILURE;
	}
	for (uint32_t i = 0; i < DRIVES; i++) {
		char name[16];

		(void)snprintf(name, sizeof(name), "drive%u", i);
		media[i] = kb_sim_medium_create(name, DRIVE_BYTES);
		if (media[i] == NULL) {
			return EXIT_FAILURE;
		}
		kb_sim_set_faults(media[i], &fast);
		kb_sim_set_plp(media[i], true);
	}
	return rt_run(&opt, bench_main, NULL) == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
