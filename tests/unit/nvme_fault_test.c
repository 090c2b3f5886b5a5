/*
 * nvme_fault_test.c - the NVMe driver when the controller hangs, errs, dies, vanishes or lies:
 * every request gets its status in time, buffers stay ours for as long as the controller may touch
 * them, and what can go on goes on.
 */
#include "tests/lib/nvme_rig.h"

#define LOAD_IOS 48u

/* Many writes at once, of one page each, each from a buffer of its own. */
struct load {
	struct kb_io io[LOAD_IOS];
	struct kb_seg seg[LOAD_IOS];
	struct iobuf *buf[LOAD_IOS];
	struct kb_group g;
};

static struct load load;

static void
load_submit(struct kb_drive *d, uint64_t seed)
{
	kb_group_init(&load.g);
	for (unsigned i = 0; i < LOAD_IOS; i++) {
		load.buf[i] = rig_buf(RIG_PAGE);
		rig_fill(load.buf[i]->data, RIG_PAGE, seed + i);
		load.seg[i] = (struct kb_seg){load.buf[i], 0, RIG_PAGE};
		load.io[i] = (struct kb_io){.op = KB_WRITE,
		    .off_bytes = (uint64_t)i * RIG_PAGE,
		    .segs = &load.seg[i],
		    .seg_count = 1};
		kb_submit(d, &load.io[i], &load.g, 0);
	}
}

static unsigned
load_wait(int status)
{
	unsigned count = 0;

	kb_group_wait(&load.g);
	for (unsigned i = 0; i < LOAD_IOS; i++) {
		count += load.io[i].status == status;
	}
	return count;
}

static unsigned
load_held(void)
{
	unsigned held = 0;

	for (unsigned i = 0; i < LOAD_IOS; i++) {
		held += atomic_load(&load.buf[i]->refs) > 1;
	}
	return held;
}

static void
load_free(void)
{
	for (unsigned i = 0; i < LOAD_IOS; i++) {
		iobuf_unref(load.buf[i]);
	}
}

static struct kb_nvme_counters
counters(struct nvme_rig *r)
{
	struct kb_nvme_counters c;

	kb_nvme_get_counters(r->d[0], &c);
	return c;
}

/* ---- hanging commands ---- */

static void
life_hang_abort(struct nvme_rig *r)
{
	rig_open(r);
	r->faults.hang = 1000000;
	rig_fault(r);
	uint64_t start_ns = rt_now_ns();
	CU_ASSERT(rig_write(r->d[0], 1, 1, 0) == -ETIMEDOUT);
	CU_ASSERT(rt_now_ns() - start_ns < 2100 * NSEC_PER_MSEC);
	r->faults.hang = 0;
	rig_fault(r);
	fiber_sleep(50 * NSEC_PER_MSEC);
	CU_ASSERT(kb_late_writes(r->d[0]) == 0); /* the abort ended it */
	CU_ASSERT(counters(r).aborts == 1 && counters(r).resets == 0);
	CU_ASSERT(rig_count(r).aborted == 1);
	CU_ASSERT(rig_write(r->d[0], 1, 2, 0) == 0 && rig_check(r->d[0], 1, 2) == 0);
	rig_close(r);
}

/* The abort doesn't help; the reset does, and ends the quarantine. */
static void
life_hang_reset(struct nvme_rig *r)
{
	rig_open(r);
	r->faults.hang = 300000;
	r->faults.aborts_fail = true;
	rig_fault(r);
	load_submit(r->d[0], 1);
	unsigned late = load_wait(-ETIMEDOUT);
	CU_ASSERT(late > 0 && late < LOAD_IOS);
	CU_ASSERT(load_wait(0) == LOAD_IOS - late);
	CU_ASSERT(kb_late_writes(r->d[0]) == late && load_held() == late);
	r->faults.hang = 0;
	rig_fault(r);
	fiber_sleep(3 * NSEC_PER_SEC);
	CU_ASSERT(kb_late_writes(r->d[0]) == 0 && load_held() == 0);
	CU_ASSERT(counters(r).resets == 1 && rig_count(r).enables == 2);
	load_free();
	load_submit(r->d[0], 5);
	CU_ASSERT(load_wait(0) == LOAD_IOS);
	load_free();
	rig_close(r);
}

/* Answers after the deadline, before the reset: the request ends then, nothing is reset. */
static void
life_late(struct nvme_rig *r)
{
	rig_open(r);
	r->faults.late = 1000000;
	r->faults.late_ns = 2500 * NSEC_PER_MSEC;
	r->faults.aborts_fail = true;
	rig_fault(r);
	load_submit(r->d[0], 1);
	CU_ASSERT(load_wait(-ETIMEDOUT) == LOAD_IOS);
	CU_ASSERT(kb_late_writes(r->d[0]) == LOAD_IOS && load_held() == LOAD_IOS);
	fiber_sleep(600 * NSEC_PER_MSEC);
	CU_ASSERT(kb_late_writes(r->d[0]) == 0 && load_held() == 0);
	CU_ASSERT(counters(r).resets == 0);
	load_free();
	r->faults.late = 0;
	rig_fault(r);
	CU_ASSERT(rig_check(r->d[0], 3, 4) == 0); /* late, but it happened */
	rig_close(r);
}

/* Closing with something late: the reset ends it, and everything is given back. */
static void
life_close_late(struct nvme_rig *r)
{
	rig_open(r);
	r->faults.hang = 1000000;
	r->faults.aborts_fail = true;
	rig_fault(r);
	load_submit(r->d[0], 1);
	CU_ASSERT(load_wait(-ETIMEDOUT) == LOAD_IOS);
	kb_close(r->d[0]);
	fiber_sleep(100 * NSEC_PER_MSEC);
	CU_ASSERT(load_held() == 0);
	CU_ASSERT(rig_count(r).memory_maps == 0);
	load_free();
}

/* More than fits waits in our queue, and is taken back from there at its deadline. */
static void
life_queue_full(struct nvme_rig *r)
{
	rig_open(r);
	r->faults.hang = 1000000;
	rig_fault(r);
	load_submit(r->d[0], 1);
	CU_ASSERT(load_wait(-ETIMEDOUT) == LOAD_IOS);
	r->faults.hang = 0;
	rig_fault(r);
	fiber_sleep(100 * NSEC_PER_MSEC);
	CU_ASSERT(kb_late_writes(r->d[0]) == 0 && load_held() == 0);
	CU_ASSERT(counters(r).aborts == 3 && counters(r).resets == 0);
	load_free();
	rig_close(r);
}

static void
test_hang(void)
{
	struct nvme_rig r = {.opt = rig_options()};

	for (uint64_t seed = 1; seed <= 8; seed++) {
		rig_live(&r, seed, life_hang_abort);
		r.faults = (struct nvme_model_faults){0};
		rig_live(&r, seed, life_hang_reset);
		r.faults = (struct nvme_model_faults){0};
		rig_live(&r, seed, life_late);
		r.faults = (struct nvme_model_faults){0};
		rig_live(&r, seed, life_close_late);
		r.faults = (struct nvme_model_faults){0};
	}
	r.opt.mqes = 3;
	rig_live(&r, 50, life_queue_full);
}

/* ---- status ---- */

static void
life_status(struct nvme_rig *r)
{
	static const struct {
		uint16_t code;
		int err;
	} kinds[] = {{NVS_SC_UNRECOVERED_READ, -ENODATA}, {NVS_SC_WRITE_FAULT, -ENODATA},
	    {NVS_SC_INVALID_FIELD, -EIO}, {NVS_SC_READ_ONLY, -EIO}, {0x7ff, -EIO}, {0x2c0, -EIO},
	    {NVS_SC_GUARD, -ENODATA}, {NVS_SC_LBA_RANGE, -EIO}};

	rig_open(r);
	r->faults.error = 1000000;
	for (size_t i = 0; i < ARRAY_LEN(kinds); i++) {
		r->faults.error_code = kinds[i].code;
		rig_fault(r);
		CU_ASSERT(rig_write(r->d[0], 1, 1, 0) == kinds[i].err);
		CU_ASSERT(kb_flush(r->d[0]) == kinds[i].err);
	}
	/* what may pass is tried again, unless the controller says not to */
	r->faults.error_code = NVS_SC_NS_NOT_READY;
	r->faults.error_final = true;
	rig_fault(r);
	CU_ASSERT(rig_write(r->d[0], 1, 1, 0) == -EIO);
	r->faults.error_final = false;
	r->faults.error = 200000;
	rig_fault(r);
	unsigned failed = 0;
	for (uint64_t i = 0; i < 100; i++) {
		failed += rig_write(r->d[0], i, i, 0) != 0;
	}
	CU_ASSERT(failed <= 4); /* 0.2 to the fourth */
	r->faults.error = 0;
	rig_fault(r);
	CU_ASSERT(rig_write(r->d[0], 1, 9, 0) == 0 && rig_check(r->d[0], 1, 9) == 0);
	CU_ASSERT(counters(r).resets == 0);
	rig_close(r);
}

/* One command of a large request fails: the request fails once, when all have come back. */
static void
life_part_fails(struct nvme_rig *r)
{
	struct iobuf *b = rig_buf(IOBUF_BYTES_MAX);

	rig_open(r);
	r->faults.error = 100000;
	r->faults.error_code = NVS_SC_WRITE_FAULT;
	rig_fault(r);
	for (unsigned i = 0; i < 20; i++) {
		int err = kb_write(r->d[0], 0, b, IOBUF_BYTES_MAX, 0);
		CU_ASSERT(err == 0 || err == -ENODATA);
		r->number += err != 0;
		CU_ASSERT(atomic_load(&b->refs) == 1);
	}
	CU_ASSERT(r->number > 0);
	iobuf_unref(b);
	rig_close(r);
}

static void
test_status(void)
{
	struct nvme_rig r = {.opt = rig_options()};

	rig_live(&r, 1, life_status);
	r.faults = (struct nvme_model_faults){0};
	rig_live(&r, 2, life_part_fails);
}

/* ---- resets under load ---- */

static void
life_fatal(struct nvme_rig *r)
{
	rig_open(r);
	r->faults.latency_ns_min = 2 * NSEC_PER_SEC;
	r->faults.latency_ns_max = 2 * NSEC_PER_SEC;
	rig_fault(r);
	load_submit(r->d[0], 7);
	fiber_sleep(1 * NSEC_PER_MSEC); /* the controller has them now */
	nvme_model_fatal(r->model);
	r->faults.latency_ns_max = 0;
	rig_fault(r);
	CU_ASSERT(load_wait(0) == LOAD_IOS); /* sent again: nobody noticed */
	CU_ASSERT(counters(r).resets == 1 && counters(r).requeued > 0);
	for (unsigned i = 0; i < LOAD_IOS; i++) {
		CU_ASSERT(rig_check(r->d[0], i, 7 + i) == 0);
	}
	load_free();
	rig_close(r);
}

/* Again and again: after so many it is given up. */
static void
life_fatal_often(struct nvme_rig *r)
{
	unsigned works = 0;

	rig_open(r);
	for (unsigned i = 0; i < 12; i++) {
		nvme_model_fatal(r->model);
		fiber_sleep(1500 * NSEC_PER_MSEC);
		works += rig_write(r->d[0], 1, i, 0) == 0;
	}
	CU_ASSERT(works == 5 && kb_is_gone(r->d[0]));
	rig_close(r);
}

/* It doesn't turn off: its function is reset; if that fails, it is cut off from memory. */
static void
life_never_off(struct nvme_rig *r)
{
	rig_open(r);
	r->faults.never_off = true;
	r->faults.latency_ns_min = r->faults.latency_ns_max = 10 * NSEC_PER_SEC;
	r->faults.no_function_reset = r->number == 1;
	rig_fault(r);
	load_submit(r->d[0], 7);
	fiber_sleep(1 * NSEC_PER_MSEC);
	r->faults.latency_ns_max = 0;
	rig_fault(r);
	nvme_model_fatal(r->model);
	unsigned gone = load_wait(-ERR_GONE);
	unsigned late = load_wait(-ETIMEDOUT);
	CU_ASSERT(gone + late == LOAD_IOS); /* it takes longer than their deadline */
	fiber_sleep(20 * NSEC_PER_SEC);
	CU_ASSERT(load_held() == 0 && kb_late_writes(r->d[0]) == 0);
	CU_ASSERT(rig_count(r).function_resets >= 1 || rig_count(r).dma_stops >= 1);
	r->faults = (struct nvme_model_faults){0};
	rig_fault(r);
	CU_ASSERT(kb_is_gone(r->d[0]) == (r->number == 1));
	load_free();
	rig_close(r);
}

/* Nothing stops it: what it has stays in quarantine, for ever. */
static void
life_unstoppable(struct nvme_rig *r)
{
	rig_open(r);
	r->faults.never_off = r->faults.no_function_reset = r->faults.no_dma_stop = true;
	r->faults.hang = 1000000;
	rig_fault(r);
	load_submit(r->d[0], 7);
	fiber_sleep(1 * NSEC_PER_MSEC);
	nvme_model_fatal(r->model);
	CU_ASSERT(load_wait(-ETIMEDOUT) == LOAD_IOS);
	fiber_sleep(20 * NSEC_PER_SEC);
	CU_ASSERT(load_held() == LOAD_IOS && kb_late_writes(r->d[0]) == LOAD_IOS);
	CU_ASSERT(kb_is_gone(r->d[0]));
	CU_ASSERT(rig_write(r->d[0], 1, 1, 0) == -ERR_GONE);
	kb_close(r->d[0]); /* returns, though nothing is given back */
	CU_ASSERT(load_held() == LOAD_IOS);
	fiber_sleep(1 * NSEC_PER_SEC);
	rt_sim_crash(); /* the end of the process takes all */
}

static void
test_reset(void)
{
	struct nvme_rig r = {.opt = rig_options()};

	for (uint64_t seed = 1; seed <= 8; seed++) {
		r.faults = (struct nvme_model_faults){0};
		rig_live(&r, seed, life_fatal);
	}
	rig_live(&r, 20, life_fatal_often);
	for (r.number = 0; r.number < 2; r.number++) {
		r.faults = (struct nvme_model_faults){0};
		rig_live(&r, 21 + r.number, life_never_off);
	}
	r.faults = (struct nvme_model_faults){0};
	r.model = nvme_model_create(&r.opt);
	CU_ASSERT(rig_run(&r, 23, life_unstoppable) == -ERR_CRASHED);
	nvme_model_power_cut(r.model, 23);
	nvme_model_destroy(r.model);
}

/* ---- vanishing, and being asked to go ---- */

static void
life_vanish(struct nvme_rig *r)
{
	rig_open(r);
	r->faults.latency_ns_min = r->faults.latency_ns_max = 5 * NSEC_PER_SEC;
	rig_fault(r);
	load_submit(r->d[0], 7);
	fiber_sleep(1 * NSEC_PER_MSEC);
	nvme_model_vanish(r->model);
	uint64_t start_ns = rt_now_ns();
	CU_ASSERT(load_wait(-ERR_GONE) == LOAD_IOS);
	CU_ASSERT(rt_now_ns() - start_ns < 1100 * NSEC_PER_MSEC);
	CU_ASSERT(kb_is_gone(r->d[0]) && load_held() == 0);
	fiber_sleep(10 * NSEC_PER_MSEC);
	CU_ASSERT(rig_count(r).memory_maps == 0); /* given back, with the drive still open */
	CU_ASSERT(rig_write(r->d[0], 1, 1, 0) == -ERR_GONE);
	load_free();
	rig_close(r);
	nvme_model_return(r->model);
	r->faults = (struct nvme_model_faults){0};
	rig_fault(r);
	rig_open(r);
	CU_ASSERT(rig_write(r->d[0], 1, 1, 0) == 0);
	rig_close(r);
}

/* Somebody resets its function: it seems to be absent for a moment, then it is off. */
static void
life_blink(struct nvme_rig *r)
{
	rig_open(r);
	r->faults.latency_ns_min = r->faults.latency_ns_max = 1500 * NSEC_PER_MSEC;
	rig_fault(r);
	load_submit(r->d[0], 7);
	fiber_sleep(1 * NSEC_PER_MSEC); /* the controller has them now */
	r->faults = (struct nvme_model_faults){0};
	rig_fault(r);
	fiber_sleep(900 * NSEC_PER_MSEC + rt_random_u64() % (100 * NSEC_PER_MSEC));
	nvme_model_vanish(r->model);
	fiber_sleep(150 * NSEC_PER_MSEC);
	nvme_model_return(r->model);
	nvme_model_reset(r->model);
	CU_ASSERT(load_wait(0) == LOAD_IOS);
	CU_ASSERT(!kb_is_gone(r->d[0]) && counters(r).resets >= 1);
	for (unsigned i = 0; i < LOAD_IOS; i++) {
		CU_ASSERT(rig_check(r->d[0], i, 7 + i) == 0);
	}
	load_free();
	rig_close(r);
}

static void
life_release(struct nvme_rig *r)
{
	rig_open(r);
	CU_ASSERT(rig_write(r->d[0], 1, 1, 0) == 0);
	nvme_model_ask_release(r->model);
	fiber_sleep(200 * NSEC_PER_MSEC);
	CU_ASSERT(kb_is_gone(r->d[0]) && rig_count(r).shutdowns == 1);
	CU_ASSERT(rig_count(r).memory_maps == 0);
	CU_ASSERT(rig_write(r->d[0], 1, 1, 0) == -ERR_GONE);
	rig_close(r);
}

static void
test_gone(void)
{
	struct nvme_rig r = {.opt = rig_options()};

	for (uint64_t seed = 1; seed <= 8; seed++) {
		r.faults = (struct nvme_model_faults){0};
		rig_live(&r, seed, life_vanish);
	}
	rig_live(&r, 9, life_release);
	for (uint64_t seed = 10; seed < 18; seed++) {
		rig_live(&r, seed, life_blink);
	}
}

/* ---- the admin queue hangs ---- */

static void
life_admin_hangs(struct nvme_rig *r)
{
	struct kb_health h;

	rig_open(r);
	r->faults.admin_hangs = true;
	rig_fault(r);
	CU_ASSERT(kb_nvme_health(r->d[0], &h) == -ETIMEDOUT);
	r->faults.admin_hangs = false;
	rig_fault(r);
	fiber_sleep(1 * NSEC_PER_SEC);
	CU_ASSERT(counters(r).resets == 1 && !kb_is_gone(r->d[0]));
	CU_ASSERT(kb_nvme_health(r->d[0], &h) == 0);
	CU_ASSERT(rig_write(r->d[0], 1, 1, 0) == 0);
	rig_close(r);
}

static void
test_admin_hangs(void)
{
	struct nvme_rig r = {.opt = rig_options()};

	rig_live(&r, 1, life_admin_hangs);
}

/* ---- lies ---- */

static void
lie(void *arg, enum nvme_model_what what, void *bytes, size_t len)
{
	const struct nvme_rig *r = arg;
	struct nvs_cqe *cqe = bytes;

	if (what != MODEL_COMPLETION || le16_get(cqe->sqid) == 0 || rt_random_u64() % 20 != 0) {
		return;
	}
	ASSERT(len == sizeof(*cqe));
	switch (r->number) {
	case 0:
		cqe->cid = le16_of((uint16_t)rt_random_u64());
		break;
	case 1:
		cqe->sqhd = le16_of((uint16_t)(128 + rt_random_u64() % 60000));
		break;
	case 2:
		cqe->sqid = le16_of((uint16_t)(le16_get(cqe->sqid) + 1));
		break;
	case 3:
		cqe->cid = le16_of((uint16_t)(le16_get(cqe->cid) ^ 0x100)); /* an older one */
		break;
	}
}

static void
life_lies(struct nvme_rig *r)
{
	rig_open(r);
	r->faults.change = lie;
	r->faults.change_arg = r;
	rig_fault(r);
	for (unsigned round = 0; round < 6; round++) {
		load_submit(r->d[0], round);
		unsigned known =
		    load_wait(0) + load_wait(-ETIMEDOUT) + load_wait(-EIO) + load_wait(-ERR_GONE);
		CU_ASSERT(known == LOAD_IOS);
		load_free();
	}
	CU_ASSERT(counters(r).offences > 0);
	r->faults = (struct nvme_model_faults){0};
	rig_fault(r);
	fiber_sleep(20 * NSEC_PER_SEC);
	CU_ASSERT(kb_late_writes(r->d[0]) == 0);
	CU_ASSERT(rig_write(r->d[0], 1, 1, 0) == (kb_is_gone(r->d[0]) ? -ERR_GONE : 0));
	rig_close(r);
}

/* Each completion comes twice now and then: the second is an offence, or, when its slot is in use
 * again, of an older generation. */
static void
life_double(struct nvme_rig *r)
{
	rig_open(r);
	r->faults.double_answer = 50000;
	rig_fault(r);
	for (uint64_t i = 0; i < 300; i++) {
		int err = rig_write(r->d[0], i % 50, i, 0);
		CU_ASSERT(err == 0 && rig_check(r->d[0], i % 50, i) == 0);
	}
	CU_ASSERT(counters(r).offences > 0 && counters(r).resets > 0);
	rig_close(r);
}

/* A torrent of completions with the right phase and nothing behind them. */
static void
flood(void *arg, enum nvme_model_what what, void *bytes, size_t len)
{
	struct nvs_cqe *cqe = bytes;

	(void)arg;
	(void)len;
	if (what == MODEL_RAW && rt_random_u64() % 3 == 0) {
		cqe->status = le16_of((uint16_t)(le16_get(cqe->status) ^ 1));
	}
}

static void
life_phase(struct nvme_rig *r)
{
	rig_open(r);
	r->faults.change = flood;
	r->faults.double_answer = 300000;
	rig_fault(r);
	for (unsigned round = 0; round < 4; round++) {
		load_submit(r->d[0], round);
		kb_group_wait(&load.g);
		load_free();
	}
	r->faults = (struct nvme_model_faults){0};
	rig_fault(r);
	fiber_sleep(20 * NSEC_PER_SEC);
	CU_ASSERT(kb_late_writes(r->d[0]) == 0);
	rig_close(r);
}

static void
test_lies(void)
{
	struct nvme_rig r = {.opt = rig_options()};

	for (r.number = 0; r.number < 4; r.number++) {
		for (uint64_t seed = 1; seed <= 5; seed++) {
			r.faults = (struct nvme_model_faults){0};
			rig_live(&r, seed, life_lies);
		}
	}
	for (uint64_t seed = 1; seed <= 5; seed++) {
		r.faults = (struct nvme_model_faults){0};
		rig_live(&r, seed, life_double);
		r.faults = (struct nvme_model_faults){0};
		rig_live(&r, seed, life_phase);
	}
}

/* ---- absurd identify data ---- */

static void
absurd(void *arg, enum nvme_model_what what, void *bytes, size_t len)
{
	const struct nvme_rig *r = arg;
	struct nvs_id_ctrl *ctrl = bytes;
	struct nvs_id_ns *ns = bytes;
	bool is_ctrl = what == MODEL_IDENTIFY && ctrl->sqes == 0x66;
	bool is_ns = what == MODEL_IDENTIFY && ns->lbaf[0].ds == 9 && ns->lbaf[1].ds == 12;

	ASSERT(what != MODEL_IDENTIFY || len == 4096);
	if (is_ctrl && r->number == 0) {
		ctrl->sqes = 0x44;
	} else if (is_ctrl && r->number == 1) {
		ctrl->nn = le32_of(0);
	} else if (is_ns && r->number == 2) {
		ns->nsze = le64_of(UINT64_MAX);
	} else if (is_ns && r->number == 3) {
		ns->flbas = 0x0f;
	} else if (is_ns && r->number == 4) {
		ns->lbaf[0].ds = ns->lbaf[1].ds = 63;
	} else if (is_ns && r->number == 5) {
		ns->lbaf[0].ms = ns->lbaf[1].ms = le16_of(8);
	} else if (is_ns && r->number == 6) {
		ns->nsattr = NVS_NSATTR_READ_ONLY;
	} else if (what == MODEL_IDENTIFY && !is_ctrl && !is_ns && r->number == 7) {
		memset(bytes, 0xff, len); /* the list of namespaces */
	}
}

static void
life_absurd(struct nvme_rig *r)
{
	int err = rig_try_open(r);

	CU_ASSERT(err == (r->number < 2 || r->number == 7 ? -EINVAL : -ENODEV));
	CU_ASSERT(rig_count(r).memory_maps == 0);
}

static void
test_absurd(void)
{
	struct nvme_rig r = {.opt = rig_options()};

	for (r.number = 0; r.number < 8; r.number++) {
		r.faults = (struct nvme_model_faults){.change = absurd, .change_arg = &r};
		r.model = nvme_model_create(&r.opt);
		nvme_model_set_faults(r.model, &r.faults);
		CU_ASSERT(rig_run(&r, 1, life_absurd) == 0);
		nvme_model_destroy(r.model);
	}
}

/* ---- everything at once ---- */

static void
chaos_faults(struct nvme_rig *r)
{
	struct nvme_model_faults *f = &r->faults;

	*f = (struct nvme_model_faults){0};
	f->error = rt_random_u64() % 3 == 0 ? 50000 : 0;
	f->error_code = rt_random_u64() % 2 == 0 ? NVS_SC_INTERNAL : NVS_SC_UNRECOVERED_READ;
	f->hang = rt_random_u64() % 4 == 0 ? 20000 : 0;
	f->late = rt_random_u64() % 4 == 0 ? 20000 : 0;
	f->late_ns = 1500 * NSEC_PER_MSEC + rt_random_u64() % (2 * NSEC_PER_SEC);
	f->lost_answer = rt_random_u64() % 4 == 0 ? 10000 : 0;
	f->aborts_fail = rt_random_u64() % 2 == 0;
	rig_fault(r);
	if (rt_random_u64() % 5 == 0) {
		nvme_model_fatal(r->model);
	}
}

/* What was acknowledged is what is read: an own range per fiber, a model of it in memory. */
static void
chaos_fiber(void *arg)
{
	struct nvme_rig *r = arg;
	uint64_t base = 100 + 40 * rt_reactor_self();
	uint64_t seeds[16] = {0};
	bool unknown[16] = {0};

	for (unsigned i = 0; i < 120; i++) {
		unsigned at = (unsigned)(rt_random_u64() % 16);
		uint64_t seed = rt_random_u64() | 1;
		int err = rig_write(r->d[0], base + at, seed, 0);
		UNIT_CHECK(err == 0 || err == -EIO || err == -ENODATA || err == -ETIMEDOUT ||
			   err == -ERR_GONE);
		seeds[at] = seed;
		unknown[at] = err != 0;
		/* after a timeout an older write may still come: wait, as the pool does */
		while (kb_late_writes(r->d[0]) != 0) {
			fiber_sleep(100 * NSEC_PER_MSEC);
		}
		at = (unsigned)(rt_random_u64() % 16);
		if (seeds[at] != 0 && !unknown[at]) {
			UNIT_CHECK(rig_check(r->d[0], base + at, seeds[at]) != -ERR_CKSUM);
		}
	}
	wg_done((struct waitgroup *)(uintptr_t)r->number);
}

static void
life_chaos(struct nvme_rig *r)
{
	struct waitgroup done;

	rig_open(r);
	wg_init(&done);
	wg_add(&done, 2);
	r->number = (uintptr_t)&done;
	fiber_spawn_wait(0, FIBER_REQUEST, "chaos", chaos_fiber, r);
	fiber_spawn_wait(1, FIBER_REQUEST, "chaos", chaos_fiber, r);
	while (wg_wait_until(&done, rt_now_ns() + 3 * NSEC_PER_SEC) != 0) {
		chaos_faults(r);
	}
	r->faults = (struct nvme_model_faults){0};
	rig_fault(r);
	fiber_sleep(20 * NSEC_PER_SEC);
	CU_ASSERT(kb_late_writes(r->d[0]) == 0);
	rig_close(r);
}

static void
test_chaos(void)
{
	struct nvme_rig r = {.opt = rig_options()};
	uint64_t seed = unit_seed(1);

	for (unsigned i = 0; i < 25; i++) {
		bug_set_buggify(i % 2 == 0 ? 0 : 30);
		r.faults = (struct nvme_model_faults){0};
		r.opt.shadow_bells = i % 3 == 0;
		rig_live(&r, seed + i, life_chaos);
	}
	bug_set_buggify(0);
}

int
main(int argc, char **argv)
{
	static const struct unit_test tests[] = {
	    {"hang", test_hang},
	    {"status", test_status},
	    {"reset", test_reset},
	    {"gone", test_gone},
	    {"admin hangs", test_admin_hangs},
	    {"lies", test_lies},
	    {"absurd", test_absurd},
	    {"chaos", test_chaos},
	};
	return unit_main("nvme_fault", tests, ARRAY_LEN(tests), argc, argv);
}
