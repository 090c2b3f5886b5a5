/*
 * nvme_test.c - the NVMe driver over the software model: bringing up, identity, I/O of every shape,
 * the rules of flush and FUA, formats, namespaces, health, shutdown. Faults are in
 * nvme_fault_test.c.
 */
#include "kernel-bypass/nvme.h"
#include "tests/lib/nvme_rig.h"

/* ---- bringing up ---- */

static void
life_bring_up(struct nvme_rig *r)
{
	struct kb_info info;

	rig_open(r);
	CU_ASSERT(r->drives == 1);
	kb_get_info(r->d[0], &info);
	CU_ASSERT(info.backend == KB_BACKEND_NVME);
	CU_ASSERT(info.size_bytes == RIG_BYTES && info.timeout_ms == 2000);
	CU_ASSERT(info.volatile_cache == r->opt.volatile_cache && info.discard);
	CU_ASSERT_STRING_EQUAL(info.serial, "MODEL0001");
	CU_ASSERT_STRING_EQUAL(info.model, "Software model");
	CU_ASSERT_STRING_EQUAL(info.path, "pci:model:MODEL0001/1");
	CU_ASSERT_STRING_EQUAL(info.id, "wwn:eui.4d4f44454c3030303100000000000001");
	CU_ASSERT(info.logical_sector_bytes == 1u << r->opt.block_shift);
	rig_close(r);
	CU_ASSERT(rig_count(r).shutdowns == 1 && rig_count(r).enables == 1);
	rig_open(r); /* and again */
	rig_close(r);
	CU_ASSERT(rig_count(r).shutdowns == 2);
}

static void
test_bring_up(void)
{
	struct nvme_rig r = {.opt = rig_options()};

	for (uint64_t seed = 1; seed <= 20; seed++) {
		rig_live(&r, seed, life_bring_up);
	}
	r.opt.block_shift = 9;
	r.opt.stride = 2;
	r.opt.no_interrupts = true;
	rig_live(&r, 21, life_bring_up);
	r.opt.mqes = 1;
	rig_live(&r, 22, life_bring_up);
}

static void
life_bogus_wwn(struct nvme_rig *r)
{
	rig_open(r);
	/* vendor, serial and model in hexadecimal, namespace: as Linux makes it up */
	CU_ASSERT_STRING_EQUAL(kb_id(r->d[0]),
	    "wwn:nvme.1b36-4d4f44454c30303031-536f667477617265206d6f64656c-00000001");
	rig_close(r);
}

static void
life_few_queues(struct nvme_rig *r)
{
	CU_ASSERT(rig_try_open(r) == -ENOSPC);
	CU_ASSERT(rig_count(r).memory_maps == 0);
}

static void
life_never_ready(struct nvme_rig *r)
{
	r->faults.never_ready = true;
	rig_fault(r);
	CU_ASSERT(rig_try_open(r) == -ETIMEDOUT);
	CU_ASSERT(rig_count(r).memory_maps == 0);
	r->faults = (struct nvme_model_faults){.admin_hangs = true};
	rig_fault(r);
	CU_ASSERT(rig_try_open(r) == -ETIMEDOUT);
	CU_ASSERT(rig_count(r).memory_maps == 0);
	nvme_model_vanish(r->model);
	CU_ASSERT(rig_try_open(r) == -ERR_GONE);
	nvme_model_return(r->model);
	r->faults.admin_hangs = false;
	rig_fault(r);
	rig_open(r);
	rig_close(r);
}

static void
test_bring_up_fails(void)
{
	struct nvme_rig r = {.opt = rig_options()};

	r.opt.queues = 1;
	rig_live(&r, 1, life_few_queues);
	r.opt.queues = 2;
	rig_live(&r, 2, life_never_ready);
	r.opt.vendor = 0x1b36;
	r.opt.device = 0x0010;
	rig_live(&r, 3, life_bogus_wwn);
}

/* ---- I/O of every shape ---- */

#define SHAPE_ROUNDS 40u
#define SHAPE_FIBERS 6u
#define SHAPE_SECTORS 1024u /* each fiber's part of the drive */

struct shape {
	struct kb_drive *d;
	struct waitgroup done;
	_Atomic unsigned next;
};

/* A write of several buffers at odd places in them, read back through others. */
static void
shape_round(struct shape *s, uint64_t base, struct iobuf *bufs[4], struct iobuf *back)
{
	struct kb_seg segs[16];
	struct kb_group g;
	uint32_t count = 1 + (uint32_t)(rt_random_u64() % 16);
	uint32_t total = 0;

	for (uint32_t i = 0; i < count; i++) {
		uint32_t pages = 1 + (uint32_t)(rt_random_u64() % 12);
		uint32_t first = (uint32_t)(rt_random_u64() % (64 - pages));
		segs[i] = (struct kb_seg){bufs[i % 4], first * RIG_PAGE, pages * RIG_PAGE};
		total += pages * RIG_PAGE;
	}
	uint64_t at = base + rt_random_u64() % (SHAPE_SECTORS - total / RIG_PAGE);
	struct kb_seg all = {back, 0, total};
	struct kb_io w = {
	    .op = KB_WRITE, .off_bytes = at * RIG_PAGE, .segs = segs, .seg_count = count};
	struct kb_io rd = {.op = KB_READ, .off_bytes = at * RIG_PAGE, .segs = &all, .seg_count = 1};
	kb_group_init(&g);
	kb_submit(s->d, &w, &g, 0);
	kb_group_wait(&g);
	memset(back->data, 0xee, total);
	kb_submit(s->d, &rd, &g, 0);
	kb_group_wait(&g);
	UNIT_CHECK(w.status == 0 && rd.status == 0);
	for (uint32_t i = 0, off = 0; i < count; off += segs[i].len_bytes, i++) {
		UNIT_CHECK(memcmp(back->data + off, segs[i].buf->data + segs[i].off_bytes,
			       segs[i].len_bytes) == 0);
	}
}

static void
shape_fiber(void *arg)
{
	struct shape *s = arg;
	uint64_t base = atomic_fetch_add(&s->next, 1) * SHAPE_SECTORS;
	uint32_t lens[5] = {64 * RIG_PAGE, 64 * RIG_PAGE, 64 * RIG_PAGE, 64 * RIG_PAGE, 1u << 20};
	struct iobuf *bufs[5];

	ASSERT(iobuf_alloc_many(lens, 5, ARENA_CACHE, bufs) == 0);
	for (unsigned i = 0; i < 4; i++) {
		rig_fill(bufs[i]->data, 64 * RIG_PAGE, base + i);
	}
	for (unsigned i = 0; i < SHAPE_ROUNDS; i++) {
		shape_round(s, base, bufs, bufs[4]);
	}
	for (unsigned i = 0; i < 5; i++) {
		iobuf_unref(bufs[i]);
	}
	wg_done(&s->done);
}

static void
life_shapes(struct nvme_rig *r)
{
	rig_open(r);
	for (unsigned i = 0; i < r->drives; i++) {
		struct shape s = {.d = r->d[i]};
		wg_init(&s.done);
		wg_add(&s.done, SHAPE_FIBERS);
		for (unsigned f = 0; f < SHAPE_FIBERS; f++) {
			fiber_spawn_wait(f % 2, FIBER_REQUEST, "shape", shape_fiber, &s);
		}
		wg_wait(&s.done);
	}
	if (r->opt.noiob != 0) {
		CU_ASSERT(rig_count(r).crossings == 0);
	}
	CU_ASSERT(r->opt.mdts == 0 || rig_count(r).bytes_max <= (uint64_t)4096 << r->opt.mdts);
	CU_ASSERT((rig_count(r).sgl_lists > 0) == r->opt.sgl);
	CU_ASSERT((rig_count(r).prp_lists > 0) == !r->opt.sgl);
	rig_close(r);
}

static void
test_shapes(void)
{
	struct nvme_rig r = {.opt = rig_options()};
	uint64_t seed = unit_seed(100);

	rig_live(&r, seed, life_shapes);
	r.opt.sgl = false;
	rig_live(&r, seed + 1, life_shapes);
	r.opt.mdts = 3;
	r.opt.block_shift = 9;
	r.opt.noiob = 256; /* 128 KiB */
	rig_live(&r, seed + 2, life_shapes);
	r.opt.sgl = true;
	r.opt.mdts = 0;
	r.opt.mqes = 3; /* hardly any slots */
	r.opt.namespaces = 2;
	r.opt.no_interrupts = true;
	rig_live(&r, seed + 3, life_shapes);
}

/* One large request, of the longest length there is. */
static void
life_large(struct nvme_rig *r)
{
	struct iobuf *bufs[2];
	uint32_t lens[2] = {IOBUF_BYTES_MAX, IOBUF_BYTES_MAX};
	struct kb_seg segs[2];
	struct kb_group g;

	rig_open(r);
	ASSERT(iobuf_alloc_many(lens, 2, ARENA_CACHE, bufs) == 0);
	for (unsigned i = 0; i < 2; i++) {
		rig_fill(bufs[i]->data, IOBUF_BYTES_MAX, i);
		segs[i] = (struct kb_seg){bufs[i], 0, IOBUF_BYTES_MAX};
	}
	struct kb_io io = {
	    .op = KB_WRITE, .flags = KB_FUA, .off_bytes = 8 * MIB, .segs = segs, .seg_count = 2};
	kb_group_init(&g);
	kb_submit(r->d[0], &io, &g, 0);
	kb_group_wait(&g);
	CU_ASSERT(io.status == 0);
	CU_ASSERT(rig_count(r).fua_writes == KB_IO_BYTES_MAX >> 17);
	io.op = KB_READ;
	io.flags = 0;
	memset(bufs[0]->data, 0, IOBUF_BYTES_MAX);
	memset(bufs[1]->data, 0, IOBUF_BYTES_MAX);
	kb_submit(r->d[0], &io, &g, 0);
	kb_group_wait(&g);
	CU_ASSERT(io.status == 0);
	struct iobuf *want;
	ASSERT(iobuf_alloc(IOBUF_BYTES_MAX, ARENA_DIRTY, &want) == 0);
	for (unsigned i = 0; i < 2; i++) {
		rig_fill(want->data, IOBUF_BYTES_MAX, i);
		CU_ASSERT(memcmp(want->data, bufs[i]->data, IOBUF_BYTES_MAX) == 0);
		iobuf_unref(bufs[i]);
	}
	iobuf_unref(want);
	rig_close(r);
}

static void
test_large(void)
{
	struct nvme_rig r = {.opt = rig_options()};

	rig_live(&r, 5, life_large);
}

/* ---- flush, FUA, discard ---- */

static void
life_flush(struct nvme_rig *r)
{
	rig_open(r);
	CU_ASSERT(rig_write(r->d[0], 1, 1, 0) == 0);
	CU_ASSERT(rig_write(r->d[0], 2, 2, KB_FUA) == 0);
	CU_ASSERT(kb_flush(r->d[0]) == 0);
	struct nvme_model_counters c = rig_count(r);
	CU_ASSERT(c.flushes == r->opt.volatile_cache);
	CU_ASSERT(c.fua_writes == r->opt.volatile_cache);
	CU_ASSERT(kb_discard(r->d[0], 1 * MIB, 8 * MIB) == 0);
	CU_ASSERT(rig_count(r).discards == !r->opt.no_dsm);
	CU_ASSERT(rig_check(r->d[0], 1, 1) == 0 && rig_check(r->d[0], 2, 2) == 0);
	rig_close(r);
}

static void
test_flush(void)
{
	struct nvme_rig r = {.opt = rig_options()};

	rig_live(&r, 1, life_flush);
	r.opt.volatile_cache = false;
	r.opt.no_dsm = true;
	rig_live(&r, 2, life_flush);
}

/* What was flushed or written through survives a power cut; the rest is old or new. */
static void
life_until_cut(struct nvme_rig *r)
{
	rig_open(r);
	for (uint64_t i = 0; i < 64; i++) {
		CU_ASSERT(rig_write(r->d[0], i, 1000 + i, 0) == 0);
	}
	CU_ASSERT(kb_flush(r->d[0]) == 0);
	for (uint64_t i = 0; i < 64; i++) {
		CU_ASSERT(rig_write(r->d[0], i, 2000 + i, i % 2 == 0 ? KB_FUA : 0) == 0);
	}
	rt_sim_crash();
}

static void
life_after_cut(struct nvme_rig *r)
{
	rig_open(r);
	for (uint64_t i = 0; i < 64; i++) {
		int as_new = rig_check(r->d[0], i, 2000 + i);
		if (i % 2 == 0) {
			CU_ASSERT(as_new == 0);
		} else {
			CU_ASSERT(as_new == 0 || rig_check(r->d[0], i, 1000 + i) == 0);
			r->number += as_new != 0;
		}
	}
	rig_close(r);
}

static void
test_power_cut(void)
{
	struct nvme_rig r = {.opt = rig_options()};

	for (uint64_t seed = 1; seed <= 5; seed++) {
		r.model = nvme_model_create(&r.opt);
		CU_ASSERT(rig_run(&r, seed, life_until_cut) == -ERR_CRASHED);
		nvme_model_power_cut(r.model, seed);
		CU_ASSERT(rig_run(&r, seed, life_after_cut) == 0);
		nvme_model_destroy(r.model);
	}
	CU_ASSERT(r.number > 0);  /* something was lost: the cut cuts */
	r.opt.ignores_fua = true; /* as QEMU's does: then a flush makes up for it */
	r.opt.vendor = 0x1b36;
	r.opt.device = 0x0010;
	for (uint64_t seed = 1; seed <= 5; seed++) {
		r.model = nvme_model_create(&r.opt);
		CU_ASSERT(rig_run(&r, seed, life_until_cut) == -ERR_CRASHED);
		nvme_model_power_cut(r.model, seed);
		CU_ASSERT(rig_run(&r, seed, life_after_cut) == 0);
		nvme_model_destroy(r.model);
	}
}

/* ---- namespaces ---- */

static void
life_two_namespaces(struct nvme_rig *r)
{
	rig_open(r);
	CU_ASSERT(r->drives == 2);
	CU_ASSERT(strcmp(kb_id(r->d[0]), kb_id(r->d[1])) != 0);
	CU_ASSERT(rig_write(r->d[0], 7, 70, 0) == 0);
	CU_ASSERT(rig_write(r->d[1], 7, 71, 0) == 0);
	CU_ASSERT(rig_check(r->d[0], 7, 70) == 0 && rig_check(r->d[1], 7, 71) == 0);
	/* the first goes, the second works on */
	kb_close(r->d[0]);
	CU_ASSERT(rig_check(r->d[1], 7, 71) == 0);
	CU_ASSERT(rig_count(r).shutdowns == 0);
	kb_close(r->d[1]);
	CU_ASSERT(rig_count(r).shutdowns == 1 && rig_count(r).memory_maps == 0);
}

/* A namespace that is deleted, or shrinks, is gone; the other stays. */
static void
life_namespace_deleted(struct nvme_rig *r)
{
	rig_open(r);
	nvme_model_set_size(r->model, 0, r->number);
	nvme_model_event(r->model, NVS_AER_NOTICE | NVS_LOG_NS_CHANGED << 16);
	fiber_sleep(100 * NSEC_PER_MSEC);
	CU_ASSERT(kb_is_gone(r->d[0]) && !kb_is_gone(r->d[1]));
	CU_ASSERT(rig_write(r->d[0], 1, 1, 0) == -ERR_GONE);
	CU_ASSERT(rig_write(r->d[1], 1, 1, 0) == 0);
	rig_close(r);
}

/* Deleted without a word: the status says it. */
static void
life_namespace_silently(struct nvme_rig *r)
{
	rig_open(r);
	nvme_model_set_size(r->model, 0, 0);
	CU_ASSERT(rig_write(r->d[0], 1, 1, 0) == -ERR_GONE);
	CU_ASSERT(kb_is_gone(r->d[0]) && !kb_is_gone(r->d[1]));
	rig_close(r);
}

static void
test_namespaces(void)
{
	struct nvme_rig r = {.opt = rig_options()};

	r.opt.namespaces = 2;
	rig_live(&r, 1, life_two_namespaces);
	rig_live(&r, 2, life_namespace_deleted);
	r.number = 100;
	rig_live(&r, 3, life_namespace_deleted);
	rig_live(&r, 4, life_namespace_silently);
}

/* A held controller stays up while its drives come and go. */
static void
life_hold(struct nvme_rig *r)
{
	struct nvme_ctrl *c;
	struct kb_drive *d[3];
	struct kb_info info;
	struct kb_health h;

	CU_ASSERT(kb_nvme_hold(nvme_model_open(r->model), &c) == 0);
	CU_ASSERT(kb_nvme_namespaces(c) == 2 && !kb_nvme_in_use(c) && !kb_nvme_is_dead(c));
	CU_ASSERT(kb_nvme_info(c, 1, &info) && !kb_nvme_info(c, 2, &info));
	CU_ASSERT(kb_nvme_open(c, 2, &d[0]) == -ENOENT);
	for (unsigned i = 0; i < 3; i++) {
		CU_ASSERT(kb_nvme_open(c, i % 2, &d[i]) == 0);
	}
	CU_ASSERT(strcmp(kb_id(d[0]), kb_id(d[2])) == 0); /* one namespace, opened twice */
	CU_ASSERT(rig_write(d[0], 1, 5, 0) == 0 && rig_check(d[2], 1, 5) == 0);
	CU_ASSERT(kb_nvme_in_use(c));
	for (unsigned i = 0; i < 3; i++) {
		kb_close(d[i]);
	}
	CU_ASSERT(!kb_nvme_in_use(c) && rig_count(r).shutdowns == 0);
	CU_ASSERT(kb_nvme_hold_health(c, &h) == 0 && h.temperature_c == 35);
	CU_ASSERT(kb_nvme_open(c, 0, &d[0]) == 0);
	if (r->number == 0) {
		kb_close(d[0]);
		kb_nvme_release(c);
	} else { /* let go first: the drive keeps it */
		kb_nvme_release(c);
		CU_ASSERT(rig_check(d[0], 1, 5) == 0 && rig_count(r).shutdowns == 0);
		kb_close(d[0]);
	}
	CU_ASSERT(rig_count(r).shutdowns == 1 && rig_count(r).memory_maps == 0);
}

/* It vanishes while nobody has a drive of it open. */
static void
life_hold_vanish(struct nvme_rig *r)
{
	struct nvme_ctrl *c;
	struct kb_drive *d;
	struct kb_health h;

	CU_ASSERT(kb_nvme_hold(nvme_model_open(r->model), &c) == 0);
	nvme_model_vanish(r->model);
	fiber_sleep(1100 * NSEC_PER_MSEC);
	CU_ASSERT(kb_nvme_is_dead(c));
	CU_ASSERT(kb_nvme_open(c, 0, &d) == 0);
	CU_ASSERT(kb_is_gone(d) && rig_write(d, 1, 1, 0) == -ERR_GONE);
	kb_close(d);
	CU_ASSERT(kb_nvme_hold_health(c, &h) == -ERR_GONE);
	kb_nvme_release(c);
	CU_ASSERT(rig_count(r).memory_maps == 0);
}

static void
test_hold(void)
{
	struct nvme_rig r = {.opt = rig_options()};

	r.opt.namespaces = 2;
	for (uint64_t seed = 1; seed <= 10; seed++) {
		r.number = seed % 2;
		rig_live(&r, seed, life_hold);
		rig_live(&r, seed, life_hold_vanish);
	}
}

static void
test_address(void)
{
	static const char *const wrong[] = {"", "0000:05:00", "0000:05:00.8", "0000:05:00.0 ",
	    "0000:05:00.00", "0000-05:00.0", "0000:05:0G.0", "../..:05:00.0", "0000:05:00.0/../x",
	    "0000:0A:00.0", "pci:0000:05:00.0"};

	CU_ASSERT(kb_pci_is_address("0000:05:00.0") && kb_pci_is_address("ffff:fe:1f.7"));
	for (size_t i = 0; i < ARRAY_LEN(wrong); i++) {
		CU_ASSERT(!kb_pci_is_address(wrong[i]));
	}
	struct kb_pci p;
	CU_ASSERT(kb_pci_look("fffe:fe:1f.7", &p) == -ENOENT);
	CU_ASSERT(kb_pci_look("../../etc", &p) == -EINVAL);
}

/* ---- health and events ---- */

static void
life_health(struct nvme_rig *r)
{
	struct nvs_log_health raw = {.temperature = {0x40, 0x01},
	    .spare = 3,
	    .spare_threshold = 10,
	    .used = 107,
	    .critical = NVS_CRIT_SPARE,
	    .units_written = {0xe8, 0x03},
	    .power_hours = {[15] = 1},
	    .media_errors = {5}};
	struct kb_nvme_counters c;
	struct kb_health h;

	rig_open(r);
	CU_ASSERT(kb_nvme_health(r->d[0], &h) == 0);
	CU_ASSERT(h.temperature_c == 35 && h.spare_percent == 100 && !h.spare_low);
	nvme_model_set_health(r->model, &raw);
	nvme_model_event(r->model, NVS_AER_HEALTH | 2u << 8 | NVS_LOG_HEALTH << 16);
	fiber_sleep(100 * NSEC_PER_MSEC);
	CU_ASSERT(kb_nvme_health(r->d[0], &h) == 0);
	CU_ASSERT(h.temperature_c == 47 && h.spare_percent == 3 && h.used_percent == 107);
	CU_ASSERT(h.spare_low && !h.too_hot && h.media_errors == 5);
	CU_ASSERT(h.written_bytes == 512000000 && h.power_on_hours == UINT64_MAX);
	CU_ASSERT_STRING_EQUAL(h.firmware, "1.0");
	kb_nvme_get_counters(r->d[0], &c);
	CU_ASSERT(c.events == 1 && c.resets == 0 && c.offences == 0);
	for (unsigned i = 0; i < 20; i++) { /* more than fit at once */
		nvme_model_event(r->model, NVS_AER_HEALTH | 1u << 8 | NVS_LOG_HEALTH << 16);
		fiber_sleep(20 * NSEC_PER_MSEC);
	}
	kb_nvme_get_counters(r->d[0], &c);
	CU_ASSERT(c.events > 5 && c.offences == 0);
	rig_close(r);
}

static void
test_health(void)
{
	struct nvme_rig r = {.opt = rig_options()};

	rig_live(&r, 9, life_health);
}

/* ---- polling and sleeping ---- */

static void
life_slow(struct nvme_rig *r)
{
	rig_open(r);
	r->faults = (struct nvme_model_faults){
	    .latency_ns_min = 20 * NSEC_PER_MSEC, .latency_ns_max = 20 * NSEC_PER_MSEC};
	rig_fault(r);
	uint64_t before = rig_count(r).interrupts;
	for (uint64_t i = 0; i < 40; i++) {
		uint64_t start_ns = rt_now_ns();
		CU_ASSERT(rig_write(r->d[0], i, i, 0) == 0);
		/* an answer that nobody waited for would be found by the keeper's heartbeat only */
		CU_ASSERT(rt_now_ns() - start_ns < 23 * NSEC_PER_MSEC);
	}
	CU_ASSERT((rig_count(r).interrupts > before) == !r->opt.no_interrupts);
	r->faults.latency_ns_min = r->faults.latency_ns_max = 10 * NSEC_PER_USEC;
	rig_fault(r);
	for (uint64_t i = 0; i < 300; i++) {
		CU_ASSERT(rig_write(r->d[0], i, i, 0) == 0);
	}
	before = rig_count(r).interrupts;
	for (uint64_t i = 0; i < 100; i++) {
		CU_ASSERT(rig_write(r->d[0], i, i, 0) == 0);
	}
	CU_ASSERT(rig_count(r).interrupts == before); /* busy again: polled */
	rig_close(r);
}

/* The reactor may not sleep between the last look and the interrupt's being let through. */
static void
life_wants_poll(struct nvme_rig *r)
{
	struct nvme_qpair *qp = mem_zalloc(sizeof(*qp));

	(void)r;
	ASSERT(qp != NULL);
	fiber_sleep(1 * NSEC_PER_SEC); /* nothing has come for long */
	CU_ASSERT(!nvme_qpair_wants_poll(&qp->poller));
	qp->busy_count = 1;
	qp->irq_is_open = true;
	CU_ASSERT(nvme_qpair_wants_poll(&qp->poller));
	qp->irq_on = true;
	CU_ASSERT(!nvme_qpair_wants_poll(&qp->poller));
	qp->sq_tail = 1;
	CU_ASSERT(nvme_qpair_wants_poll(&qp->poller));
	mem_free(qp);
}

static void
test_idle(void)
{
	struct nvme_rig r = {.opt = rig_options()};

	rig_live(&r, 3, life_slow);
	rig_live(&r, 3, life_wants_poll);
	r.opt.no_interrupts = true;
	rig_live(&r, 4, life_slow);
}

static void
test_same_seed(void)
{
	struct nvme_rig r = {.opt = rig_options()};

	rig_live(&r, 77, life_shapes);
	uint64_t first = rt_sim_trace();
	rig_live(&r, 77, life_shapes);
	CU_ASSERT(rt_sim_trace() == first);
}

int
main(int argc, char **argv)
{
	static const struct unit_test tests[] = {
	    {"bring up", test_bring_up},
	    {"bring up fails", test_bring_up_fails},
	    {"shapes", test_shapes},
	    {"large", test_large},
	    {"flush", test_flush},
	    {"power cut", test_power_cut},
	    {"namespaces", test_namespaces},
	    {"hold", test_hold},
	    {"address", test_address},
	    {"health", test_health},
	    {"idle", test_idle},
	    {"same seed", test_same_seed},
	};
	return unit_main("nvme", tests, ARRAY_LEN(tests), argc, argv);
}
