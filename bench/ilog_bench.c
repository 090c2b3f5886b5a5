/*
 * ilog_bench.c - what a commit costs: fibers that append one record and commit it, over two sides
 * in memory (/dev/shm), so that the log itself is measured and not a drive. Or give it two paths.
 * Prints for each case: time a commit as its fiber sees it, commits a second, records a batch.
 */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>
#include "intentlog/ilog.h"

#define RING ((uint64_t)64 << 20)

struct bench {
	const char *paths[2];
	struct ilog *log;
	struct waitgroup wg;
	uint32_t len, count;
};

static uint8_t data[1u << 20];

static void
must(int err, const char *what)
{
	if (err != 0) {
		fprintf(stderr, "ilog_bench: %s: %s\n", what, err_str(err));
		exit(EXIT_FAILURE);
	}
}

static void
committer(void *arg)
{
	struct bench *b = arg;
	const struct ilog_seg seg = {data, b->len};

	for (uint32_t i = 0; i < b->count; i++) {
		struct ilog_record rec = {.type = 1, .txg = 1, .len_bytes = b->len};
		struct ilog_reservation r;

		must(ilog_reserve(b->log, b->len, 1, RT_FOREVER, &r), "reserve");
		must(ilog_append(b->log, &r, &rec, &seg, 1), "append");
		ilog_unreserve(b->log, &r);
		must(ilog_commit(b->log, rec.seq), "commit");
	}
	wg_done(&b->wg);
}

static void
run(struct bench *b, struct ilog_config *cfg, unsigned fibers, uint32_t len, uint32_t total)
{
	struct ilog_info info;
	uint64_t begin_ns, ns;

	cfg->epoch++;
	must(ilog_create(cfg, &b->log), "create");
	ilog_trim(b->log, 1); /* everything may go at once */
	b->len = len;
	b->count = total / fibers;
	wg_init(&b->wg);
	wg_add(&b->wg, fibers);
	begin_ns = rt_now_ns();
	for (unsigned i = 0; i < fibers; i++) {
		fiber_spawn_wait(i % rt_reactor_count(), FIBER_REQUEST, "committer", committer, b);
	}
	wg_wait(&b->wg);
	ns = rt_now_ns() - begin_ns;
	ilog_get_info(b->log, &info);
	printf("%4u fibers %8u bytes: %9.2f us a commit %10.0f commits/s %7.1f records a batch\n",
	    fibers, len, (double)info.commit_ns_total / (double)MAX(info.commits, 1) / 1e3,
	    (double)info.records * 1e9 / (double)ns, (double)info.records / (double)info.batches);
	ilog_destroy(b->log);
}

static void
bench_main(void *arg)
{
	struct bench *b = arg;
	struct ilog_config cfg = {.side_count = 2, .region_bytes = RING, .guid = "bench"};

	for (unsigned s = 0; s < 2; s++) {
		must(kb_open(b->paths[s], -1, true, &cfg.sides[s].drive), b->paths[s]);
	}
	run(b, &cfg, 1, 200, 200000);
	run(b, &cfg, 4, 200, 200000);
	run(b, &cfg, 64, 200, 400000);
	run(b, &cfg, 512, 200, 400000);
	run(b, &cfg, 1, 4096, 100000);
	run(b, &cfg, 8, 65536, 40000);
	run(b, &cfg, 8, 1u << 20, 4000);
	for (unsigned s = 0; s < 2; s++) {
		kb_close(cfg.sides[s].drive);
	}
}

int
main(int argc, char **argv)
{
	static char images[2][32];
	struct rt_options opt = {.reactors = 2, .arena_bytes = (size_t)512 << 20};
	struct bench b = {.len = 0};
	int err;

	for (unsigned s = 0; s < 2; s++) {
		int fd;

		if (argc == 3) {
			b.paths[s] = argv[1 + s];
			continue;
		}
		snprintf(images[s], sizeof(images[s]), "/dev/shm/ilog_bench.XXXXXX");
		fd = mkstemp(images[s]);
		must(fd < 0 || ftruncate(fd, (off_t)RING) != 0 ? -errno : 0, images[s]);
		close(fd);
		b.paths[s] = images[s];
	}
	err = rt_run(&opt, bench_main, &b);
	for (unsigned s = 0; s < 2 && argc != 3; s++) {
		unlink(images[s]);
	}
	return err == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
