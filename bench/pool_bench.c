/*
 * pool_bench.c - what the engine costs on a processor: reads that hit, small writes, creates,
 * sequential writes and reads. Simulated drives without latency on the real runtime, one reactor
 * for the per-operation figures.
 */
#include <stdio.h>
#include <stdlib.h>

#include "kernel-bypass/kb_sim.h"
#include "pool/pool.h"

#define DATA_DRIVES 7u
#define DRIVES (DATA_DRIVES + 1u) /* the last one for the log */
#define DRIVE_BYTES (1024 * MIB)
#define FILES 2000u
#define SMALL 4096u
#define BIG_BYTES (256 * MIB)

static struct kb_sim_medium *media[DRIVES];
static struct kb_drive *drives[DRIVES];
static struct pool_obj *files[FILES];
static uint64_t numbers[FILES], generations[FILES];

static void
must(int err, const char *what)
{
	if (err != 0) {
		fprintf(stderr, "%s: %s\n", what, err_str(err));
		exit(EXIT_FAILURE);
	}
}

static void
report(const char *what, uint64_t start_ns, uint64_t count, const char *unit)
{
	uint64_t ns = rt_now_ns() - start_ns;

	printf("%-40s %10.2f us each  %10.0f %s/s\n", what, (double)ns / 1000.0 / (double)count,
	    (double)count * 1e9 / (double)ns, unit);
}

static struct pool_tx *
begin(struct pool_ds *ds, uint32_t bytes, uint32_t log_bytes)
{
	struct pool_need need = {.dirty_bytes = bytes, .log_bytes = log_bytes, .log_records = 1};
	struct pool_tx *tx;

	must(pool_tx_begin(ds, &need, &tx), "begin");
	return tx;
}

static void
log_it(struct pool_tx *tx, struct pool_obj *o, struct pool_commit *c)
{
	static uint8_t payload[128];
	struct iovec head = {payload, sizeof(payload)};
	struct pool_log_rec rec = {.type = 1,
	    .object = pool_obj_number(o),
	    .generation = pool_obj_generation(o),
	    .head = &head,
	    .head_count = 1};

	pool_log(tx, &o, 1, &rec, c);
}

static void
bench_create(struct pool_ds *ds)
{
	uint64_t start = rt_now_ns();
	struct pool_commit c;

	for (uint32_t i = 0; i < FILES; i++) {
		struct pool_tx *tx = begin(ds, 48 * 1024, 128);

		must(pool_obj_create(tx, ds, OBJ_FILE, 128 * 1024, 0, 0, &files[i]), "create");
		log_it(tx, files[i], &c);
		pool_tx_end(tx);
		numbers[i] = pool_obj_number(files[i]);
		generations[i] = pool_obj_generation(files[i]);
	}
	report("create", start, FILES, "objects");
}

static void
bench_write(struct pool_ds *ds, const char *what)
{
	static uint8_t data[SMALL];
	struct iovec iov = {data, sizeof(data)};
	uint64_t start = rt_now_ns();
	struct pool_commit c;

	for (uint32_t i = 0; i < FILES; i++) {
		struct pool_tx *tx = begin(ds, SMALL + 48 * 1024, 128);

		for (uint32_t k = 0; k < SMALL / 8; k++) {
			uint64_t v = i * 77777u + k * 13u;

			memcpy(data + k * 8, &v, 8);
		}
		must(pool_write(tx, files[i], 0, &iov, 1), "write");
		*(uint8_t *)pool_obj_bonus_dirty(tx, files[i]) = 1;
		log_it(tx, files[i], &c);
		pool_tx_end(tx);
	}
	report(what, start, FILES, "writes");
}

static void
bench_read(struct pool_ds *ds, const char *what)
{
	uint64_t start = rt_now_ns();

	for (uint32_t round = 0; round < 20; round++) {
		for (uint32_t i = 0; i < FILES; i++) {
			struct pool_slice s[2];
			struct pool_obj *o;
			uint32_t n;

			must(pool_obj_hold(ds, numbers[i], generations[i], &o), "hold");
			must(pool_read(o, 0, SMALL, s, 2, &n), "read");
			for (uint32_t k = 0; k < n; k++) {
				iobuf_unref(s[k].buf);
			}
			pool_obj_release(o);
		}
		fiber_yield();
	}
	report(what, start, FILES * 20, "reads");
}

static void
bench_big(struct pool *p, struct pool_ds *ds)
{
	static uint8_t data[1 << 20];
	struct iovec iov = {data, sizeof(data)};
	uint64_t start;
	struct pool_obj *o;
	struct pool_tx *tx = begin(ds, 48 * 1024, 128);
	uint32_t seed = 1;

	must(pool_obj_create(tx, ds, OBJ_FILE, 128 * 1024, 0, 0, &o), "create");
	pool_tx_end(tx);
	for (uint32_t i = 0; i < sizeof(data); i++) {
		seed = seed * 1664525 + 1013904223;
		data[i] = (uint8_t)(seed >> 24);
	}
	start = rt_now_ns();
	for (uint64_t off = 0; off < BIG_BYTES; off += sizeof(data)) {
		tx = begin(ds, sizeof(data) + 48 * 1024, 128);
		must(pool_write(tx, o, off, &iov, 1), "write");
		pool_tx_end(tx);
	}
	must(pool_sync(p), "sync");
	report("sequential write, 1 MiB, with sync", start, BIG_BYTES / sizeof(data), "MiB");
	start = rt_now_ns();
	for (uint64_t off = 0; off < BIG_BYTES; off += sizeof(data)) {
		struct pool_slice s[16];
		uint32_t n;

		must(pool_read(o, off, sizeof(data), s, 16, &n), "read");
		for (uint32_t k = 0; k < n; k++) {
			iobuf_unref(s[k].buf);
		}
	}
	report("sequential read, 1 MiB", start, BIG_BYTES / sizeof(data), "MiB");
	pool_obj_release(o);
}

static void
bench_main(void *arg)
{
	struct pool_set_spec set = {RAIDZ_KIND_PARITY, 1, DATA_DRIVES, drives};
	struct pool_create_spec spec = {.name = "bench",
	    .sets = &set,
	    .set_count = 1,
	    .logs = drives + DATA_DRIVES,
	    .log_count = 1,
	    .host_name = "bench",
	    .host_id = 1};
	struct pool_ds *ds;
	struct pool *p;
	char why[256];

	(void)arg;
	for (uint32_t i = 0; i < DRIVES; i++) {
		must(kb_sim_open(media[i], &drives[i]), "open");
	}
	must(pool_create(&spec, &p, why, sizeof(why)), why);
	must(pool_ds_open(p, "bench", &ds), "dataset");
	bench_create(ds);
	bench_write(ds, "write 4 KiB, new");
	bench_write(ds, "write 4 KiB, again in the same txg");
	bench_read(ds, "read 4 KiB, dirty");
	must(pool_sync(p), "sync");
	bench_write(ds, "write 4 KiB, after a sync");
	must(pool_sync(p), "sync");
	bench_read(ds, "read 4 KiB, clean");
	for (uint32_t i = 0; i < FILES; i++) {
		pool_obj_release(files[i]);
	}
	bench_big(p, ds);
	pool_ds_close(ds);
	must(pool_export(p), "export");
}

int
main(int argc, char **argv)
{
	struct rt_options opt = {.reactors = argc > 1 ? (unsigned)atoi(argv[1]) : 1,
	    .arena_bytes = (size_t)1 << 30,
	    .seed = 1};
	struct kb_sim_faults fast = {.latency_ns_min = 1000, .latency_ns_max = 2000};

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
