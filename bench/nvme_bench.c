/*
 * nvme_bench.c - 4 KiB reads and writes of one NVMe drive, three ways: a bare polled loop over the
 * device's registers (what the hardware gives), a drive of kb.h on the VFIO driver, and a drive of
 * kb.h on the kernel (libaio). Every read is verified: each sector carries its own number.
 *
 *   nvme_bench bare|vfio 0000:05:00.0 [SECONDS [DEPTH]]
 *   nvme_bench aio /dev/nvme0n1 [SECONDS [DEPTH]]
 *   nvme_bench soft OPERATIONS [- [DEPTH]]
 *
 * soft: a controller in this process that answers at once (nvme_soft.h), to count the driver's
 * instructions. It writes the first 64 MiB of the drive. Prints operations per second and per
 * second of CPU time.
 */
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/utsname.h>
#include "base/base.h"
#include "bench/nvme_soft.h"
#include "kernel-bypass/kb_nvme.h"
#include "kernel-bypass/nvme_dev.h"
#include "kernel-bypass/nvme_spec.h"

#define SPAN_SECTORS 16384u
#define DEPTH_MAX 64u
#define BARE_ENTRIES 128u
#define ADMIN_ENTRIES 16u

struct bench {
	const char *mode, *name;
	uint64_t seconds;
	unsigned depth;
	bool write;
	uint64_t until_ns, ops, wrong, errors;
	uint64_t ops_max; /* 0: as many as the time allows */
	struct kb_drive *d;
	struct waitgroup done;
	int rc;
};

static uint64_t
cpu_ns(void)
{
	struct rusage u;

	getrusage(RUSAGE_SELF, &u);
	return ((uint64_t)u.ru_utime.tv_sec + (uint64_t)u.ru_stime.tv_sec) * NSEC_PER_SEC +
	       ((uint64_t)u.ru_utime.tv_usec + (uint64_t)u.ru_stime.tv_usec) * NSEC_PER_USEC;
}

static uint64_t
next(uint64_t *state)
{
	*state ^= *state << 13;
	*state ^= *state >> 7;
	*state ^= *state << 17;
	return *state;
}

static void
mark(uint8_t *page, uint64_t sector)
{
	memcpy(page, &sector, 8);
	memcpy(page + SECTOR_BYTES - 8, &sector, 8);
}

static bool
is_marked(const uint8_t *page, uint64_t sector)
{
	return memcmp(page, &sector, 8) == 0 && memcmp(page + SECTOR_BYTES - 8, &sector, 8) == 0;
}

static void
report(const struct bench *b, uint64_t ns, uint64_t cpu)
{
	printf(
	    "%-4s %-5s depth %2u: %8.0f op/s %8.0f op/cpu-s  %llu ops, %llu wrong, %llu errors\n",
	    b->mode, b->write ? "write" : "read", b->depth, (double)b->ops * 1e9 / (double)ns,
	    (double)b->ops * 1e9 / (double)MAX(cpu, (uint64_t)1), (unsigned long long)b->ops,
	    (unsigned long long)b->wrong, (unsigned long long)b->errors);
	fflush(stdout);
}

/* ---- drives of kb.h: as many fibers as deep ---- */

static void
kb_fiber(void *arg)
{
	struct bench *b = arg;
	uint64_t state = rt_random_u64() | 1;
	struct iobuf *buf;

	ASSERT(iobuf_alloc(SECTOR_BYTES, ARENA_SYNC, &buf) == 0);
	while (b->ops_max != 0 ? b->ops < b->ops_max : rt_now_ns() < b->until_ns) {
		uint64_t sector = next(&state) % SPAN_SECTORS;
		int err;
		if (b->write) {
			mark(buf->data, sector);
			err = kb_write(b->d, sector * SECTOR_BYTES, buf, SECTOR_BYTES, 0);
		} else {
			err = kb_read(b->d, sector * SECTOR_BYTES, buf, SECTOR_BYTES);
			b->wrong += err == 0 && !is_marked(buf->data, sector);
		}
		b->errors += err != 0;
		b->ops++;
	}
	iobuf_unref(buf);
	wg_done(&b->done);
}

static void
kb_fill(struct bench *b)
{
	struct iobuf *buf;

	ASSERT(iobuf_alloc(64 * SECTOR_BYTES, ARENA_SYNC, &buf) == 0);
	for (uint64_t at = 0; at < SPAN_SECTORS; at += 64) {
		for (uint64_t i = 0; i < 64; i++) {
			mark(buf->data + i * SECTOR_BYTES, at + i);
		}
		b->errors += kb_write(b->d, at * SECTOR_BYTES, buf, 64 * SECTOR_BYTES, 0) != 0;
	}
	iobuf_unref(buf);
}

static void
kb_round(struct bench *b, bool write)
{
	uint64_t cpu = cpu_ns();
	uint64_t start_ns = rt_now_ns();

	b->write = write;
	b->ops = b->wrong = 0;
	b->until_ns = start_ns + b->seconds * NSEC_PER_SEC;
	wg_init(&b->done);
	wg_add(&b->done, b->depth);
	for (unsigned i = 0; i < b->depth; i++) {
		fiber_spawn_wait(0, FIBER_REQUEST, "bench", kb_fiber, b);
	}
	wg_wait(&b->done);
	report(b, rt_now_ns() - start_ns, cpu_ns() - cpu);
	b->rc |= b->wrong != 0 || b->errors != 0;
}

static void
kb_both(struct bench *b)
{
	kb_fill(b);
	kb_round(b, false);
	kb_round(b, true);
	kb_round(b, false);
	kb_close(b->d);
}

/* ---- the bare loop: no driver at all ---- */

struct bare {
	struct nvme_dev *dev;
	struct nvme_dma admin, io, data;
	struct nvs_sqe *sq;
	volatile struct nvs_cqe *cq;
	uint32_t tail, head, stride;
	uint16_t phase;
	uint64_t sector_of[DEPTH_MAX];
	uint64_t fill; /* below SPAN_SECTORS: in order from here, until all are written */
};

static void
bare_bell(struct bare *r, uint32_t index, uint32_t value)
{
	atomic_thread_fence(memory_order_release);
	*(volatile uint32_t *)(volatile void *)(r->dev->doorbells + index * r->stride) = value;
}

/* One admin command, and its completion; the n-th of them. */
static bool
bare_admin(struct bare *r, struct nvs_sqe sqe, uint32_t n)
{
	struct nvs_sqe *sq = (struct nvs_sqe *)(void *)r->admin.va;
	volatile struct nvs_cqe *cq =
	    (volatile struct nvs_cqe *)(volatile void *)(r->admin.va + NVS_PAGE_BYTES);
	volatile uint16_t *status = (volatile uint16_t *)(volatile void *)&cq[n].status;

	sq[n] = sqe;
	bare_bell(r, 0, n + 1);
	while ((*status & 1) == 0) {
		fiber_yield();
	}
	bare_bell(r, 1, n + 1);
	return NVS_STATUS_CODE(*status) == NVS_SC_OK;
}

static bool
bare_wait_ready(struct bare *r, bool ready)
{
	uint64_t until_ns = rt_now_ns() + 10 * NSEC_PER_SEC;

	while (((r->dev->ops->read32(r->dev, NVS_REG_CSTS) & NVS_CSTS_RDY) != 0) != ready) {
		if (rt_now_ns() > until_ns) {
			return false;
		}
		fiber_sleep(NSEC_PER_MSEC);
	}
	return true;
}

static bool
bare_start(struct bare *r)
{
	const struct nvme_dev_ops *ops = r->dev->ops;
	uint32_t size = (BARE_ENTRIES - 1) << 16 | 1;
	struct nvs_sqe cq = {.opcode = NVS_ADM_CREATE_CQ,
	    .cdw10 = le32_of(size),
	    .cdw11 = le32_of(NVS_QUEUE_CONTIGUOUS)};
	struct nvs_sqe sq = {.opcode = NVS_ADM_CREATE_SQ,
	    .cdw10 = le32_of(size),
	    .cdw11 = le32_of(1 << 16 | NVS_QUEUE_CONTIGUOUS)};

	if (ops->dma_alloc(r->dev, 2 * NVS_PAGE_BYTES, &r->admin) != 0 ||
	    ops->dma_alloc(r->dev, 4 * NVS_PAGE_BYTES, &r->io) != 0 ||
	    ops->dma_alloc(r->dev, DEPTH_MAX * NVS_PAGE_BYTES, &r->data) != 0) {
		return false;
	}
	r->stride = 4u << NVS_CAP_DSTRD(ops->read64(r->dev, NVS_REG_CAP));
	ops->write32(r->dev, NVS_REG_CC, 0);
	if (!bare_wait_ready(r, false)) {
		return false;
	}
	ops->write32(r->dev, NVS_REG_AQA, (ADMIN_ENTRIES - 1) << 16 | (ADMIN_ENTRIES - 1));
	ops->write64(r->dev, NVS_REG_ASQ, r->admin.iova);
	ops->write64(r->dev, NVS_REG_ACQ, r->admin.iova + NVS_PAGE_BYTES);
	ops->write32(r->dev, NVS_REG_CC, NVS_CC_IOCQES | NVS_CC_IOSQES | NVS_CC_EN);
	if (!bare_wait_ready(r, true)) {
		return false;
	}
	cq.dptr.prp[0] = le64_of(r->io.iova + (uint64_t)2 * NVS_PAGE_BYTES);
	sq.dptr.prp[0] = le64_of(r->io.iova);
	r->sq = (struct nvs_sqe *)(void *)r->io.va;
	r->cq = (volatile struct nvs_cqe *)(volatile void *)(r->io.va + (size_t)2 * NVS_PAGE_BYTES);
	r->phase = 1;
	return bare_admin(r, cq, 0) && bare_admin(r, sq, 1);
}

static void
bare_send(struct bare *r, unsigned slot, uint64_t sector, bool write, unsigned shift)
{
	uint64_t lba = sector << (SECTOR_SHIFT - shift);
	struct nvs_sqe sqe = {
	    .opcode = write ? NVS_IO_WRITE : NVS_IO_READ,
	    .cid = le16_of((uint16_t)slot),
	    .nsid = le32_of(1),
	    .dptr.prp = {le64_of(r->data.iova + (uint64_t)slot * NVS_PAGE_BYTES)},
	    .cdw10 = le32_of((uint32_t)lba),
	    .cdw12 = le32_of((1u << (SECTOR_SHIFT - shift)) - 1),
	};

	r->sector_of[slot] = sector;
	r->sq[r->tail] = sqe;
	r->tail = (r->tail + 1) % BARE_ENTRIES;
}

static uint64_t
bare_sector(struct bare *r, uint64_t *state)
{
	return r->fill < SPAN_SECTORS ? r->fill++ : next(state) % SPAN_SECTORS;
}

static void
bare_loop(struct bare *r, struct bench *b, unsigned shift)
{
	uint64_t state = 88172645463325252u;
	unsigned flying = 0;
	uint64_t cpu = cpu_ns();
	uint64_t start_ns = rt_now_ns();

	b->ops = b->wrong = b->errors = 0;
	b->until_ns = start_ns + b->seconds * NSEC_PER_SEC;
	for (; flying < b->depth; flying++) {
		uint64_t sector = bare_sector(r, &state);
		mark(r->data.va + (size_t)flying * NVS_PAGE_BYTES, sector);
		bare_send(r, flying, sector, b->write, shift);
	}
	bare_bell(r, 2, r->tail);
	bool more = true;
	while (flying > 0) {
		unsigned seen = 0;
		for (;;) {
			volatile struct nvs_cqe *e = &r->cq[r->head];
			uint16_t status = *(volatile uint16_t *)(volatile void *)&e->status;
			if ((status & 1) != r->phase) {
				break;
			}
			atomic_thread_fence(memory_order_acquire);
			unsigned slot = e->cid.b[0];
			uint8_t *page = r->data.va + (size_t)slot * NVS_PAGE_BYTES;
			b->errors += NVS_STATUS_CODE(status) != NVS_SC_OK;
			b->wrong += !b->write && !is_marked(page, r->sector_of[slot]);
			b->ops++;
			seen++;
			r->head = (r->head + 1) % BARE_ENTRIES;
			r->phase ^= r->head == 0;
			if (!more) {
				flying--;
				continue;
			}
			uint64_t sector = bare_sector(r, &state);
			if (b->write) {
				mark(page, sector);
			}
			bare_send(r, slot, sector, b->write, shift);
		}
		if (seen > 0) {
			bare_bell(r, 3, r->head);
			bare_bell(r, 2, r->tail);
			more = rt_now_ns() < b->until_ns || r->fill < SPAN_SECTORS;
		}
	}
	report(b, rt_now_ns() - start_ns, cpu_ns() - cpu);
	b->rc |= b->wrong != 0 || b->errors != 0;
}

/* The block size is asked for with one more admin command. */
static void
bare_run(struct bench *b, struct nvme_dev *dev)
{
	struct bare r = {.dev = dev};
	struct nvs_sqe id = {.opcode = NVS_ADM_IDENTIFY, .nsid = le32_of(1)};

	if (!bare_start(&r)) {
		fprintf(stderr, "nvme_bench: the controller does not start\n");
		b->rc = 1;
		return;
	}
	id.dptr.prp[0] = le64_of(r.data.iova);
	bool ok = bare_admin(&r, id, 2);
	const struct nvs_id_ns *ns = (const struct nvs_id_ns *)(const void *)r.data.va;
	unsigned shift = ns->lbaf[NVS_FLBAS_INDEX(ns->flbas)].ds;
	if (!ok || (shift != 9 && shift != 12)) {
		fprintf(stderr, "nvme_bench: no namespace 1 of 512 or 4096 bytes\n");
		b->rc = 1;
		return;
	}
	b->write = true;
	bare_loop(&r, b, shift); /* fills */
	b->write = false;
	bare_loop(&r, b, shift);
	b->write = true;
	bare_loop(&r, b, shift);
	dev->ops->write32(dev, NVS_REG_CC, 0);
	(void)bare_wait_ready(&r, false);
	dev->ops->dma_free(dev, &r.data);
	dev->ops->dma_free(dev, &r.io);
	dev->ops->dma_free(dev, &r.admin);
}

/* ---- */

static void
bench_vfio(struct bench *b)
{
	struct nvme_dev *dev;
	struct kb_vfio *v;
	const char *why = NULL;
	unsigned count;

	int err = kb_vfio_open(-1, &v);
	if (err == 0) {
		err = kb_vfio_open_dev(v, b->name, -1, &dev, &why);
		kb_vfio_close(v);
	}
	if (err == 0 && strcmp(b->mode, "bare") == 0) {
		bare_run(b, dev);
		dev->ops->close(dev);
		return;
	}
	if (err == 0) {
		err = kb_nvme_open_dev(dev, &b->d, 1, &count);
	}
	if (err != 0) {
		fprintf(stderr, "nvme_bench: %s: %s (%s)\n", b->name, err_str(err),
		    why != NULL ? why : "");
		b->rc = 1;
		return;
	}
	struct kb_health h;
	if (kb_nvme_health(b->d, &h) == 0) {
		printf("%s: %d degrees, %u %% used\n", kb_id(b->d), h.temperature_c,
		    (unsigned)h.used_percent);
	}
	kb_both(b);
}

/* Operations are counted here, not seconds, so that instructions can be compared from run to run.
 */
static void
bench_soft(struct bench *b)
{
	struct nvme_dev *dev = nvme_soft_open((uint64_t)SPAN_SECTORS * SECTOR_BYTES);
	unsigned count;

	if (dev == NULL || kb_nvme_open_dev(dev, &b->d, 1, &count) != 0) {
		fprintf(stderr, "nvme_bench: the controller does not start\n");
		b->rc = 1;
		return;
	}
	b->ops_max = strtoull(b->name, NULL, 10);
	kb_both(b);
}

static void
bench_main(void *arg)
{
	struct bench *b = arg;

	if (strcmp(b->mode, "soft") == 0) {
		bench_soft(b);
		return;
	}
	if (strcmp(b->mode, "aio") != 0) {
		bench_vfio(b);
		return;
	}
	int err = kb_open(b->name, -1, true, &b->d);
	if (err != 0) {
		fprintf(stderr, "nvme_bench: %s: %s\n", b->name, err_str(err));
		b->rc = 1;
		return;
	}
	kb_both(b);
}

int
main(int argc, char **argv)
{
	struct rt_options opt = {.reactors = 1, .arena_bytes = 32 * MIB, .helpers = 2};
	struct bench b = {.seconds = 3, .depth = 32};
	struct utsname u;

	if (argc < 3) {
		fprintf(stderr, "usage: nvme_bench bare|vfio|aio DEVICE [SECONDS [DEPTH]] | soft "
				"OPERATIONS [- [DEPTH]]\n");
		return 2;
	}
	b.mode = argv[1];
	b.name = argv[2];
	b.seconds = argc > 3 ? strtoull(argv[3], NULL, 10) : b.seconds;
	b.depth = argc > 4 ? (unsigned)strtoul(argv[4], NULL, 10) : b.depth;
	b.depth = MIN(MAX(b.depth, 1u), DEPTH_MAX);
	if (uname(&u) == 0) {
		printf("%s %s %s, one reactor\n", u.sysname, u.release, u.machine);
	}
	int err = rt_run(&opt, bench_main, &b);
	return err != 0 || b.rc != 0;
}
