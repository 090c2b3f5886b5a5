/*
 * ilog_real_test.c - the same log on real reactors, for the thread sanitizer above all: appenders
 * of all reactors, trimming beside them, images in memory as sides. Then everything committed is
 * replayed from each side.
 */
#include <fcntl.h>
#include <unistd.h>
#include "tests/lib/ilog_rig.h"

#define REAL_REACTORS 3u
#define REAL_APPENDERS 9u
#define REAL_RECORDS 400u
#define REAL_RING ((uint64_t)16 << 20)

static char paths[2][64];

struct real {
	struct ilog *log;
	struct waitgroup wg, txg_wg;
	atomic_uint_fast64_t txg, acked;
	atomic_bool stop;
	struct ilog_config cfg;
};

struct real_appender {
	struct real *r;
	uint64_t id;
};

static void
real_appender(void *arg)
{
	struct real_appender *a = arg;
	struct real *r = a->r;
	uint8_t *buf = mem_zalloc(64u << 10);
	struct rig_payload p = {.appender = a->id};

	for (uint64_t i = 1; i <= REAL_RECORDS && buf != NULL; i++) {
		uint64_t seq = 0, acked;

		p.counter = i;
		p.txg = atomic_load(&r->txg);
		p.len_bytes = sizeof(p) + (i * 7919 + a->id * 104729) % (i % 10 == 0 ? 60000 : 600);
		CU_ASSERT_EQUAL(rig_append(r->log, &p, buf, &seq), 0);
		if (i % 3 != 0) {
			CU_ASSERT_EQUAL(ilog_commit(r->log, seq), 0);
			acked = atomic_load(&r->acked);
			while (
			    acked < seq && !atomic_compare_exchange_weak(&r->acked, &acked, seq)) {
			}
		}
	}
	mem_free(buf);
	wg_done(&r->wg);
}

static void
real_txg(void *arg)
{
	struct real *r = arg;

	while (!atomic_load(&r->stop)) {
		uint64_t root = atomic_fetch_add(&r->txg, 1);
		struct ilog_position pos;
		struct ilog_info info;

		ilog_tail(r->log, root, &pos);
		ilog_trim(r->log, root > 2 ? root - 2 : 0);
		ilog_get_info(r->log, &info);
		fiber_sleep(NSEC_PER_MSEC);
	}
	wg_done(&r->txg_wg);
}

static void
real_replay(struct real *r, const struct ilog_position *from)
{
	for (uint32_t without = 0; without < 3; without++) {
		struct ilog_config cfg = r->cfg;
		struct rig_seen seen = {.count = 0};
		struct ilog_replay_result res;

		for (unsigned s = 0; s < 2; s++) {
			if ((without & 1u << s) != 0) {
				cfg.sides[s].drive = NULL;
			}
		}
		CU_ASSERT_EQUAL(ilog_replay(&cfg, from, rig_deliver, &seen, &res), 0);
		CU_ASSERT_FALSE(seen.bad);
		CU_ASSERT(seen.last_seq >= atomic_load(&r->acked));
		CU_ASSERT_EQUAL(res.repaired_batches, 0);
		CU_ASSERT_FALSE(res.acked_lost);
	}
}

static void
real_main(void *arg)
{
	struct real *r = arg;
	struct real_appender a[REAL_APPENDERS];
	struct ilog_position from;

	r->cfg = (struct ilog_config){
	    .side_count = 2, .region_bytes = REAL_RING, .guid = "real log ring..", .epoch = 1};
	for (unsigned s = 0; s < 2; s++) {
		CU_ASSERT_EQUAL(kb_open(paths[s], -1, false, &r->cfg.sides[s].drive), 0);
	}
	atomic_store(&r->txg, 1);
	CU_ASSERT_EQUAL(ilog_create(&r->cfg, &r->log), 0);
	wg_init(&r->wg);
	wg_init(&r->txg_wg);
	wg_add(&r->wg, REAL_APPENDERS);
	wg_add(&r->txg_wg, 1);
	fiber_spawn_wait(1 % rt_reactor_count(), FIBER_SYNC, "txg", real_txg, r);
	for (unsigned i = 0; i < REAL_APPENDERS; i++) {
		a[i] = (struct real_appender){.r = r, .id = i + 1};
		fiber_spawn_wait(
		    i % rt_reactor_count(), FIBER_REQUEST, "appender", real_appender, &a[i]);
	}
	wg_wait(&r->wg);
	atomic_store(&r->stop, true);
	wg_wait(&r->txg_wg);
	ilog_tail(r->log, atomic_load(&r->txg) - 3, &from);
	ilog_destroy(r->log);
	real_replay(r, &from);
	for (unsigned s = 0; s < 2; s++) {
		kb_close(r->cfg.sides[s].drive);
	}
}

static void
real(void)
{
	struct rt_options opt = unit_rt(false, REAL_REACTORS, 0);
	struct real r = {.stop = false};

	CU_ASSERT_EQUAL(rt_run(&opt, real_main, &r), 0);
}

static const struct unit_test tests[] = {
    {"real", real},
};

static int
image_create(char *path, size_t len)
{
	int fd;

	snprintf(
	    path, len, "%s/ilog_test.XXXXXX", access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp");
	fd = mkstemp(path);
	if (fd < 0 || ftruncate(fd, (off_t)REAL_RING) != 0) {
		perror(path);
		return EXIT_FAILURE;
	}
	close(fd);
	return EXIT_SUCCESS;
}

int
main(int argc, char **argv)
{
	int status = EXIT_FAILURE;

	if (image_create(paths[0], sizeof(paths[0])) == EXIT_SUCCESS &&
	    image_create(paths[1], sizeof(paths[1])) == EXIT_SUCCESS) {
		status = unit_main("ilog_real", tests, ARRAY_LEN(tests), argc, argv);
	}
	unlink(paths[0]);
	unlink(paths[1]);
	return status;
}
