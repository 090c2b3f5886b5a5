/* nvme_rig.h - what the tests of the NVMe driver share: one life of a machine with one model. */
#ifndef AGATE_TESTS_NVME_RIG_H
#define AGATE_TESTS_NVME_RIG_H

#include "base/base.h"
#include "kernel-bypass/kb_nvme.h"
#include "tests/lib/nvme_model.h"
#include "tests/lib/unit.h"

#define RIG_BYTES (64 * MIB)
#define RIG_PAGE SECTOR_BYTES

struct nvme_rig {
	struct nvme_model *model;
	struct nvme_model_options opt;
	struct nvme_model_faults faults;
	void (*fn)(struct nvme_rig *r);
	uint64_t number; /* of the test's own */
	struct kb_drive *d[4];
	unsigned drives;
};

static inline struct nvme_model_options
rig_options(void)
{
	return (struct nvme_model_options){
	    .serial = "MODEL0001",
	    .bytes = RIG_BYTES,
	    .block_shift = 12,
	    .namespaces = 1,
	    .volatile_cache = true,
	    .sgl = true,
	    .mdts = 5, /* 128 KiB */
	};
}

static inline void
rig_main(void *arg)
{
	struct nvme_rig *r = arg;
	r->fn(r);
}

static inline int
rig_run(struct nvme_rig *r, uint64_t seed, void (*fn)(struct nvme_rig *r))
{
	struct rt_options opt = {.reactors = 2, .sim = true, .seed = seed, .arena_bytes = 32 * MIB};
	r->fn = fn;
	return rt_run(&opt, rig_main, r);
}

/* One life of a new model, with the options of r. */
static inline void
rig_live(struct nvme_rig *r, uint64_t seed, void (*fn)(struct nvme_rig *r))
{
	struct nvme_model_counters c;

	r->model = nvme_model_create(&r->opt);
	log_set_level(getenv("AGATE_LOG") != NULL ? LOG_DEBUG : LOG_ERROR + 1);
	CU_ASSERT(rig_run(r, seed, fn) == 0);
	nvme_model_get_counters(r->model, &c);
	CU_ASSERT(c.iommu_faults == 0 && c.protocol_errors == 0);
	nvme_model_destroy(r->model);
}

static inline struct nvme_model_counters
rig_count(struct nvme_rig *r)
{
	struct nvme_model_counters c;
	nvme_model_get_counters(r->model, &c);
	return c;
}

static inline int
rig_try_open(struct nvme_rig *r)
{
	return kb_nvme_open_dev(nvme_model_open(r->model), r->d, 4, &r->drives);
}

static inline void
rig_open(struct nvme_rig *r)
{
	ASSERT(rig_try_open(r) == 0);
}

static inline void
rig_close(struct nvme_rig *r)
{
	for (unsigned i = 0; i < r->drives; i++) {
		kb_close(r->d[i]);
	}
	ASSERT(rig_count(r).memory_maps == 0); /* all given back */
}

static inline void
rig_fault(struct nvme_rig *r)
{
	nvme_model_set_faults(r->model, &r->faults);
}

static inline struct iobuf *
rig_buf(uint32_t len)
{
	struct iobuf *b = NULL;
	ASSERT(iobuf_alloc(len, ARENA_SYNC, &b) == 0);
	return b;
}

static inline void
rig_fill(uint8_t *p, size_t len, uint64_t seed)
{
	uint64_t x = seed * 0x9e3779b97f4a7c15u + 1;
	for (size_t i = 0; i < len; i += 8) {
		x ^= x << 13;
		x ^= x >> 7;
		x ^= x << 17;
		memcpy(p + i, &x, 8);
	}
}

static inline int
rig_write(struct kb_drive *d, uint64_t sector, uint64_t seed, uint32_t flags)
{
	struct iobuf *b = rig_buf(RIG_PAGE);
	rig_fill(b->data, RIG_PAGE, seed);
	int err = kb_write(d, sector * RIG_PAGE, b, RIG_PAGE, flags);
	iobuf_unref(b);
	return err;
}

/* 0 when the sector holds what rig_write wrote with this seed. */
static inline int
rig_check(struct kb_drive *d, uint64_t sector, uint64_t seed)
{
	struct iobuf *b = rig_buf(RIG_PAGE);
	uint8_t want[RIG_PAGE / 4];
	int err = kb_read(d, sector * RIG_PAGE, b, RIG_PAGE);
	rig_fill(want, sizeof(want), seed);
	if (err == 0 && memcmp(want, b->data, sizeof(want)) != 0) {
		err = -ERR_CKSUM;
	}
	iobuf_unref(b);
	return err;
}

#endif
