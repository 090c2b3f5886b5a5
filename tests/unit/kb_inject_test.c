/*
 * kb_inject_test.c - faults on purpose do to a drive what was asked for, as often and where it was
 * asked for, and nothing else: what the drive holds stays as it was written.
 */
#include "base/base.h"
#include "kernel-bypass/kb_sim.h"
#include "base/bug.h"
#include "tests/lib/kb_sim_life.h"

struct rig {
	struct kb_drive *d;
	struct kb_faults *f;
	struct iobuf *b;
};

static void
arm(struct rig *r, const struct kb_fault_spec *spec)
{
	kb_faults_set(r->f, spec);
	kb_faults_attach(r->d, r->f, true);
}

static uint64_t
hits(struct rig *r, bool *out_spent)
{
	struct kb_fault_spec spec;
	uint64_t n;

	kb_faults_get(r->f, &spec, &n, out_spent);
	return n;
}

static int
read_at(struct rig *r, uint64_t sector)
{
	return kb_read(r->d, sector * PAGE, r->b, PAGE);
}

static unsigned
bits_wrong(struct rig *r, uint8_t fill)
{
	unsigned n = 0;

	for (uint32_t i = 0; i < PAGE; i++) {
		n += (unsigned)__builtin_popcount((unsigned)(r->b->data[i] ^ fill));
	}
	return n;
}

static void
check_errors(struct rig *r)
{
	static const int statuses[] = {-EIO, -ENODATA, -ERR_GONE};
	bool spent;

	for (size_t i = 0; i < ARRAY_LEN(statuses); i++) {
		arm(r, &(struct kb_fault_spec){.errors = 1u << KB_READ, .status = statuses[i]});
		UNIT_CHECK(read_at(r, 5) == statuses[i]);
		UNIT_CHECK(write_fill(r->d, 5, 0x11, 0) == 0);
		UNIT_CHECK(kb_flush(r->d) == 0);
	}
	arm(r, &(struct kb_fault_spec){
		   .errors = 1u << KB_WRITE | 1u << KB_FLUSH, .status = -EIO, .count = 2});
	UNIT_CHECK(write_fill(r->d, 5, 0x22, 0) == -EIO);
	UNIT_CHECK(hits(r, &spent) == 1 && !spent);
	UNIT_CHECK(kb_flush(r->d) == -EIO);
	UNIT_CHECK(hits(r, &spent) == 2 && spent);
	UNIT_CHECK(kb_flush(r->d) == 0);
	UNIT_CHECK(read_at(r, 5) == 0 && bits_wrong(r, 0x11) == 0);
}

static void
check_where_and_how_often(struct rig *r)
{
	unsigned failed = 0;
	bool spent;

	arm(r, &(struct kb_fault_spec){
		   .errors = 7, .status = -EIO, .off_bytes = 6 * PAGE, .len_bytes = 2 * PAGE});
	UNIT_CHECK(read_at(r, 5) == 0);
	UNIT_CHECK(read_at(r, 6) == -EIO);
	UNIT_CHECK(read_at(r, 7) == -EIO);
	UNIT_CHECK(read_at(r, 8) == 0);
	UNIT_CHECK(kb_flush(r->d) == 0);
	UNIT_CHECK(hits(r, &spent) == 2);
	arm(r, &(struct kb_fault_spec){.errors = 1u << KB_READ, .status = -EIO, .one_in = 10});
	for (unsigned i = 0; i < 1000; i++) {
		failed += read_at(r, 5) != 0;
	}
	UNIT_CHECK(failed > 50 && failed < 200);
}

static void
check_corrupt(struct rig *r)
{
	struct iobuf *w = buf_get(PAGE);

	arm(r, &(struct kb_fault_spec){.corrupt = true});
	memset(w->data, 0x33, PAGE);
	UNIT_CHECK(kb_write(r->d, 5 * PAGE, w, PAGE, 0) == 0);
	for (uint32_t i = 0; i < PAGE; i++) {
		UNIT_CHECK(w->data[i] == 0x33);
	}
	UNIT_CHECK(read_at(r, 5) == 0 && bits_wrong(r, 0x33) == 1);
	kb_faults_attach(r->d, r->f, false);
	UNIT_CHECK(read_at(r, 5) == 0 && bits_wrong(r, 0x33) == 0);
	iobuf_unref(w);
}

/* How long a read takes that nothing but the faults makes slow. */
static uint64_t
timed(struct rig *r, int want)
{
	uint64_t begun = rt_now_ns();

	UNIT_CHECK(read_at(r, 5) == want);
	return rt_now_ns() - begun;
}

static void
check_time(struct rig *r, uint64_t timeout_ns)
{
	uint64_t late = kb_late_writes(r->d);
	bool spent;

	arm(r, &(struct kb_fault_spec){.slow_ms = 20});
	UNIT_CHECK(timed(r, 0) >= 20 * NSEC_PER_MSEC);
	arm(r, &(struct kb_fault_spec){.hang_until_ns = rt_now_ns() + 50 * NSEC_PER_MSEC});
	UNIT_CHECK(timed(r, 0) >= 49 * NSEC_PER_MSEC);
	UNIT_CHECK(hits(r, &spent) == 1 && spent);
	if (timeout_ns == 0) {
		return;
	}
	arm(r, &(struct kb_fault_spec){.errors = 1u << KB_READ, .status = -ETIMEDOUT});
	UNIT_CHECK(timed(r, -ETIMEDOUT) >= timeout_ns);
	arm(r, &(struct kb_fault_spec){.hang_until_ns = rt_now_ns() + 3 * timeout_ns});
	UNIT_CHECK(timed(r, -ETIMEDOUT) >= timeout_ns);
	UNIT_CHECK(write_fill(r->d, 9, 0x44, 0) == -ETIMEDOUT);
	UNIT_CHECK(kb_late_writes(r->d) == late); /* it never reached the drive */
}

static void
check_all(struct rig *r, uint64_t timeout_ns)
{
	r->f = kb_faults_create();
	ASSERT(r->f != NULL);
	r->b = buf_get(PAGE);
	for (uint64_t s = 0; s < 10; s++) {
		UNIT_CHECK(write_fill(r->d, s, 0x11, 0) == 0);
	}
	check_errors(r);
	check_where_and_how_often(r);
	check_corrupt(r);
	check_time(r, timeout_ns);
	arm(r, &(struct kb_fault_spec){.gone = true});
	UNIT_CHECK(kb_is_gone(r->d));
	UNIT_CHECK(read_at(r, 5) == -ERR_GONE);
	kb_close(r->d);
	kb_faults_put(r->f);
	iobuf_unref(r->b);
}

static void
sim_life(struct life *l)
{
	struct rig r = {.d = open_medium(l->medium)};
	struct kb_info info;

	kb_get_info(r.d, &info);
	check_all(&r, info.timeout_ms * NSEC_PER_MSEC);
}

/* A drive is closed while what was sent to it is being kept back. */
struct closing {
	struct kb_drive *d;
	int status;
	struct waitgroup done;
};

static void
hung_read(void *arg)
{
	struct closing *c = arg;
	struct iobuf *b = buf_get(PAGE);

	c->status = kb_read(c->d, 0, b, PAGE);
	iobuf_unref(b);
	wg_done(&c->done);
}

static void
close_life(struct life *l)
{
	struct closing c = {.d = open_medium(l->medium)};
	struct kb_faults *f = kb_faults_create();

	ASSERT(f != NULL);
	kb_faults_set(f, &(struct kb_fault_spec){.hang_until_ns = RT_FOREVER - 1});
	kb_faults_attach(c.d, f, true);
	kb_faults_put(f);
	wg_init(&c.done);
	wg_add(&c.done, 1);
	fiber_spawn_wait(0, FIBER_ADMIN, "hung", hung_read, &c);
	fiber_sleep(NSEC_PER_MSEC);
	kb_close(c.d);
	wg_wait(&c.done);
	UNIT_CHECK(c.status == -ETIMEDOUT);
}

static void
test_simulated(void)
{
	for (uint64_t seed = 1; seed <= 3; seed++) {
		struct life l = {.seed = seed, .medium = kb_sim_medium_create("i", MEDIUM_BYTES)};

		CU_ASSERT(live(&l, sim_life) == 0);
		CU_ASSERT(live(&l, close_life) == 0);
		kb_sim_medium_destroy(l.medium);
	}
}

/* Images in memory answer before kb_submit returns, unless a fault keeps them. */
static void
real_main(void *arg)
{
	struct rig r = {0};
	int err = kb_open(arg, -1, true, &r.d);

	UNIT_CHECK(err == 0);
	if (err == 0) {
		check_all(&r, 0);
	}
}

static void
test_real(const char *dir)
{
	struct rt_options opt = unit_rt(false, 2, 1);
	char path[64];
	int fd;

	(void)snprintf(path, sizeof(path), "%s/kb_inject_XXXXXX", dir);
	fd = mkstemp(path);
	CU_ASSERT(fd >= 0 && ftruncate(fd, (off_t)MEDIUM_BYTES) == 0);
	CU_ASSERT(rt_run(&opt, real_main, path) == 0);
	close(fd);
	unlink(path);
}

static void
test_memory(void)
{
	test_real("/dev/shm");
}

static void
test_disk(void)
{
	test_real("/tmp");
}

int
main(int argc, char **argv)
{
	static const struct unit_test tests[] = {
	    {"simulated", test_simulated},
	    {"memory", test_memory},
	    {"disk", test_disk},
	};

	bug_set_deliberate(getenv("AGATE_BUGS"));
	return unit_main("kb_inject", tests, ARRAY_LEN(tests), argc, argv);
}
