/*
 * nvme_pool_test.c - a pool with double parity on NVMe drives, each a software controller; one of
 * them has two namespaces. Whatever one controller does while the pool is written: nobody sees an
 * error, what was synced is there, the drive's state is what it should be, and it is whole again
 * after its return.
 */
#include "kernel-bypass/kb_nvme.h"
#include "tests/lib/nvme_model.h"
#include "tests/unit/pool_files.h"

#define MODELS 6u
#define DRIVE_BYTES (128 * MIB)

static const struct shape shape = {7, 1, 0, 2, RAIDZ_KIND_PARITY};
static struct nvme_model *models[MODELS];

struct fault {
	const char *name;
	void (*begin)(struct nvme_model *m);
	void (*end)(struct nvme_model *m);
	unsigned victim;        /* of the models */
	enum drive_state state; /* while it lasts */
	bool reopen;            /* its controller has to be opened again */
};

/* ---- faults ---- */

static void
errors(struct nvme_model *m, uint16_t code)
{
	struct nvme_model_faults f = {.error = 1000000, .error_code = code};

	nvme_model_set_faults(m, &f);
}

static void
write_fault(struct nvme_model *m)
{
	errors(m, NVS_SC_WRITE_FAULT);
}

static void
internal_error(struct nvme_model *m) /* one that is tried again */
{
	errors(m, NVS_SC_INTERNAL);
}

static void
out_of_range(struct nvme_model *m)
{
	errors(m, NVS_SC_LBA_RANGE);
}

static void
hang(struct nvme_model *m)
{
	struct nvme_model_faults f = {.hang = 1000000};

	nvme_model_set_faults(m, &f);
}

static void
hang_for_good(struct nvme_model *m) /* only a reset ends it */
{
	struct nvme_model_faults f = {.hang = 1000000, .aborts_fail = true};

	nvme_model_set_faults(m, &f);
}

static void
late(struct nvme_model *m) /* answers after the deadline */
{
	struct nvme_model_faults f = {.late = 1000000, .late_ns = 2500 * NSEC_PER_MSEC};

	nvme_model_set_faults(m, &f);
}

static void
read_errors_rare(struct nvme_model *m)
{
	struct nvme_model_faults f = {.error = 20000, .error_code = NVS_SC_INTERNAL};

	nvme_model_set_faults(m, &f);
}

static void
well(struct nvme_model *m)
{
	struct nvme_model_faults f = {0};

	nvme_model_set_faults(m, &f);
}

static void
nothing(struct nvme_model *m)
{
	(void)m;
}

static const struct fault faults[] = {
    {"vanishes", nvme_model_vanish, nvme_model_return, 1, DRIVE_STATE_REMOVED, true},
    {"vanishes with two", nvme_model_vanish, nvme_model_return, 5, DRIVE_STATE_REMOVED, true},
    {"is asked for", nvme_model_ask_release, nothing, 2, DRIVE_STATE_REMOVED, true},
    {"write fault", write_fault, well, 3, DRIVE_STATE_FAULTED, false},
    {"internal error", internal_error, well, 0, DRIVE_STATE_FAULTED, false},
    {"out of range", out_of_range, well, 4, DRIVE_STATE_FAULTED, false},
    {"hangs", hang, well, 1, DRIVE_STATE_FAULTED, false},
    {"hangs for good", hang_for_good, well, 5, DRIVE_STATE_FAULTED, false},
    {"answers late", late, well, 2, DRIVE_STATE_FAULTED, false},
    {"now and then an error", read_errors_rare, well, 3, DRIVE_STATE_ONLINE, false},
    {"is fatal", nvme_model_fatal, nothing, 4, DRIVE_STATE_ONLINE, false},
    {"is reset", nvme_model_reset, nothing, 5, DRIVE_STATE_ONLINE, false},
};

/* ---- the pool ---- */

/* The first drive of a model; each has one but the last. */
static unsigned
drives_of(unsigned model)
{
	return model == MODELS - 1 ? 2 : 1;
}

static void
open_model(unsigned i)
{
	unsigned count = 0;
	int err =
	    kb_nvme_open_dev(nvme_model_open(models[i]), &rig.drives[i], drives_of(i), &count);

	ASSERT(err == 0 && count == drives_of(i));
}

struct begin {
	const struct fault *f;
	struct waitgroup done;
};

static void
begin_fiber(void *arg)
{
	struct begin *b = arg;

	fiber_sleep(rt_random_u64() % (30 * NSEC_PER_MSEC));
	b->f->begin(models[b->f->victim]);
	wg_done(&b->done);
}

static void
write_some(struct pool *p)
{
	for (uint32_t i = 0; i < 4; i++) {
		int err = write_file(p, 150000, want.count + 1);
		UNIT_CHECK(err == 0);
		err = pool_sync(p);
		UNIT_CHECK(err == 0);
	}
}

static void
check_states(struct pool *p, const struct fault *f, enum drive_state state)
{
	struct pool_status st;
	int err = pool_get_status(p, &st);

	UNIT_CHECK(err == 0);
	for (uint32_t i = 0; i < 7; i++) {
		bool victim = i >= f->victim && i < f->victim + drives_of(f->victim);
		enum drive_state should_be = victim ? state : DRIVE_STATE_ONLINE;
		if (st.drives[i].state != should_be) {
			printf("\n    %s: drive %u is %d, not %d\n", f->name, i,
			    (int)st.drives[i].state, (int)should_be);
		}
		UNIT_CHECK(st.drives[i].state == should_be);
	}
	UNIT_CHECK((st.health == POOL_DEGRADED) == (state != DRIVE_STATE_ONLINE));
	pool_status_free(&st);
}

static void
take_back(struct pool *p, const struct fault *f)
{
	if (f->reopen) {
		open_model(f->victim);
		for (unsigned i = 0; i < drives_of(f->victim); i++) {
			int err = pool_drive_return(p, rig.drives[f->victim + i]);
			UNIT_CHECK(err == 0);
		}
	} else if (f->state != DRIVE_STATE_ONLINE) {
		int err = pool_drive_clear(p, NULL);
		UNIT_CHECK(err == 0);
	}
}

static void
run_fault(void *arg)
{
	struct begin b = {.f = arg};
	const struct fault *f = b.f;

	for (unsigned i = 0; i < MODELS; i++) {
		open_model(i);
	}
	struct pool *p = make_pool(&shape, "tank");
	write_some(p);
	wg_init(&b.done);
	wg_add(&b.done, 1);
	fiber_spawn_wait(1, FIBER_REQUEST, "fault", begin_fiber, &b);
	write_some(p);
	wg_wait(&b.done);
	write_some(p);
	fiber_sleep(8 * NSEC_PER_SEC); /* what is late ends; who is reset starts again */
	check_files(p);
	check_states(p, f, f->state);
	f->end(models[f->victim]);
	take_back(p, f);
	write_some(p);
	if (f->state != DRIVE_STATE_ONLINE) {
		(void)wait_scan(p);
	}
	check_states(p, f, DRIVE_STATE_ONLINE);
	check_files(p);
	check_pool(p);
	int err = pool_export(p);
	UNIT_CHECK(err == 0);
	fiber_sleep(3 * NSEC_PER_SEC); /* closing waits for no late request; a reset ends those */
}

static void
test_faults(void)
{
	uint64_t seed = unit_seed(1);

	for (size_t i = 0; i < ARRAY_LEN(faults); i++) {
		for (unsigned m = 0; m < MODELS; m++) {
			char serial[16];
			(void)snprintf(serial, sizeof(serial), "POOL%u", m);
			struct nvme_model_options opt = {.serial = serial,
			    .bytes = DRIVE_BYTES,
			    .block_shift = m % 2 == 0 ? 9 : 12,
			    .namespaces = drives_of(m),
			    .volatile_cache = true,
			    .sgl = m % 3 == 0,
			    .shadow_bells = m % 2 != 0,
			    .mdts = 5};
			models[m] = nvme_model_create(&opt);
		}
		struct fault f = faults[i];
		in_sim(run_fault, &f, seed + i);
		for (unsigned m = 0; m < MODELS; m++) {
			struct nvme_model_counters c;
			nvme_model_get_counters(models[m], &c);
			CU_ASSERT(c.iommu_faults == 0 && c.protocol_errors == 0);
			CU_ASSERT(c.memory_maps == 0);
			nvme_model_destroy(models[m]);
		}
	}
}

int
main(int argc, char **argv)
{
	static const struct unit_test tests[] = {{"faults", test_faults}};

	return unit_main("nvme_pool", tests, ARRAY_LEN(tests), argc, argv);
}
