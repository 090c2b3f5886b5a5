/*
 * nvme_hw.c - the NVMe driver on a real or emulated machine with an IOMMU; not part of make check.
 * It needs root, the modules vfio-pci and vfio_iommu_type1, and drives that nobody needs.
 *
 *   nvme_hw list
 *   nvme_hw bind|unbind DEVICE          to vfio-pci, or back to the kernel
 *   nvme_hw load ADDRESS SECONDS FILE   writes and reads; FILE notes what was acknowledged, and
 * survives a kill nvme_hw check ADDRESS FILE          reads it all again; prints "LOST n"
 */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>
#include "base/base.h"
#include "kernel-bypass/kb_nvme.h"

#define FIBERS 16u
#define SECTORS_EACH 64u
#define SECTORS (FIBERS * SECTORS_EACH)

struct hw {
	const char *verb, *address, *file;
	uint64_t until_ns, seconds;
	_Atomic uint64_t *acked; /* generation of each sector */
	struct kb_drive *d;
	struct waitgroup done;
	_Atomic unsigned next;
	_Atomic uint64_t writes, reads, timeouts, errors, gone, wrong;
	int rc;
};

static bool
open_file(struct hw *h)
{
	int fd = open(h->file, O_RDWR | O_CREAT | O_CLOEXEC, 0600);

	if (fd < 0 || ftruncate(fd, SECTORS * 8) != 0) {
		return false;
	}
	h->acked = mmap(NULL, SECTORS * 8, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	close(fd);
	return h->acked != MAP_FAILED;
}

static void
fill(uint8_t *page, uint64_t sector, uint64_t generation)
{
	for (uint32_t i = 0; i < SECTOR_BYTES; i += 16) {
		memcpy(page + i, &sector, 8);
		memcpy(page + i + 8, &generation, 8);
	}
}

/* The generation a page holds, or UINT64_MAX when it isn't whole or another sector's. */
static uint64_t
generation_of(const uint8_t *page, uint64_t sector)
{
	uint64_t generation;

	memcpy(&generation, page + 8, 8);
	for (uint32_t i = 0; i < SECTOR_BYTES; i += 16) {
		if (memcmp(page + i, &sector, 8) != 0 ||
		    memcmp(page + i + 8, &generation, 8) != 0) {
			return UINT64_MAX;
		}
	}
	return generation;
}

static void
count_error(struct hw *h, int err)
{
	h->timeouts += err == -ETIMEDOUT;
	h->gone += err == -ERR_GONE;
	h->errors += err != -ETIMEDOUT && err != -ERR_GONE;
}

/* After an error a sector holds the old or the new generation: both at least what was acknowledged.
 */
static void
load_round(struct hw *h, uint64_t sector, struct iobuf *b, uint64_t *generation)
{
	fill(b->data, sector, ++*generation);
	int err = kb_write(
	    h->d, sector * SECTOR_BYTES, b, SECTOR_BYTES, *generation % 4 == 0 ? 0 : KB_FUA);
	if (err == 0 && *generation % 4 == 0) {
		err = kb_flush(h->d);
	}
	if (err != 0) {
		count_error(h, err);
		return;
	}
	atomic_store(&h->acked[sector], *generation);
	h->writes++;
	err = kb_read(h->d, sector * SECTOR_BYTES, b, SECTOR_BYTES);
	if (err != 0) {
		count_error(h, err);
		return;
	}
	h->reads++;
	h->wrong += generation_of(b->data, sector) != *generation;
}

static void
load_fiber(void *arg)
{
	struct hw *h = arg;
	uint64_t base = atomic_fetch_add(&h->next, 1) * SECTORS_EACH;
	uint64_t generation = 0;
	struct iobuf *b;

	for (uint64_t i = 0; i < SECTORS_EACH; i++) {
		generation = MAX(generation, atomic_load(&h->acked[base + i]));
	}
	generation += 1000; /* above what an interrupted run may have sent */
	ASSERT(iobuf_alloc(SECTOR_BYTES, ARENA_SYNC, &b) == 0);
	while (rt_now_ns() < h->until_ns && !kb_is_gone(h->d)) {
		load_round(h, base + rt_random_u64() % SECTORS_EACH, b, &generation);
		if (kb_late_writes(h->d) != 0) { /* the buffer isn't ours yet */
			iobuf_unref(b);
			ASSERT(iobuf_alloc(SECTOR_BYTES, ARENA_SYNC, &b) == 0);
		}
	}
	iobuf_unref(b);
	wg_done(&h->done);
}

static void
hw_load(struct hw *h)
{
	struct kb_nvme_counters c;

	printf("loading\n");
	fflush(stdout);
	h->until_ns = rt_now_ns() + h->seconds * NSEC_PER_SEC;
	wg_init(&h->done);
	wg_add(&h->done, FIBERS);
	for (unsigned i = 0; i < FIBERS; i++) {
		fiber_spawn_wait(i % rt_reactor_count(), FIBER_REQUEST, "load", load_fiber, h);
	}
	wg_wait(&h->done);
	kb_nvme_get_counters(h->d, &c);
	printf("writes %llu reads %llu wrong %llu timeouts %llu errors %llu gone %llu; resets %llu "
	       "aborts %llu "
	       "offences %llu requeued %llu\n",
	    (unsigned long long)h->writes, (unsigned long long)h->reads,
	    (unsigned long long)h->wrong, (unsigned long long)h->timeouts,
	    (unsigned long long)h->errors, (unsigned long long)h->gone,
	    (unsigned long long)c.resets, (unsigned long long)c.aborts,
	    (unsigned long long)c.offences, (unsigned long long)c.requeued);
	h->rc = h->wrong != 0;
}

static void
hw_check(struct hw *h)
{
	uint64_t lost = 0;
	uint64_t acked = 0;
	struct iobuf *b;

	ASSERT(iobuf_alloc(SECTOR_BYTES, ARENA_SYNC, &b) == 0);
	for (uint64_t s = 0; s < SECTORS; s++) {
		uint64_t want = atomic_load(&h->acked[s]);
		if (want == 0) {
			continue;
		}
		acked++;
		int err = kb_read(h->d, s * SECTOR_BYTES, b, SECTOR_BYTES);
		uint64_t got = err == 0 ? generation_of(b->data, s) : UINT64_MAX;
		lost += got == UINT64_MAX || got < want;
	}
	iobuf_unref(b);
	printf(
	    "acknowledged %llu LOST %llu\n", (unsigned long long)acked, (unsigned long long)lost);
	h->rc = lost != 0;
}

static void
hw_main(void *arg)
{
	struct hw *h = arg;
	struct kb_vfio *v;
	struct nvme_dev *dev;
	struct kb_health health;
	const char *why = NULL;
	unsigned count;

	uint64_t start_ns = rt_now_ns();
	int err = kb_vfio_open(-1, &v);
	if (err == 0) {
		err = kb_vfio_open_dev(v, h->address, -1, &dev, &why);
		kb_vfio_close(v);
	}
	if (err == 0) {
		err = kb_nvme_open_dev(dev, &h->d, 1, &count);
	}
	if (err != 0) {
		printf("%s: %s (%s)\n", h->address, err_str(err), why != NULL ? why : "-");
		h->rc = 1;
		return;
	}
	printf("open %s after %llu ms\n", kb_id(h->d),
	    (unsigned long long)((rt_now_ns() - start_ns) / NSEC_PER_MSEC));
	if (kb_nvme_health(h->d, &health) == 0) {
		printf("health: %d degrees, %u %% used, %u %% spare, firmware %s\n",
		    health.temperature_c, (unsigned)health.used_percent,
		    (unsigned)health.spare_percent, health.firmware);
	}
	if (strcmp(h->verb, "load") == 0) {
		hw_load(h);
	} else {
		hw_check(h);
	}
	kb_close(h->d);
}

static void
list_one(void *arg, const struct kb_pci *p)
{
	(void)arg;
	printf("%s %04x:%04x driver=%s group=%d blocks=\"%s\" why_not=\"%s\"\n", p->address,
	    p->vendor, p->device, p->driver[0] != '\0' ? p->driver : "-", p->group, p->blocks,
	    p->why_not);
}

static int
hw_bind(const char *name, bool to_vfio)
{
	struct kb_pci p;
	char why[160];
	int err = kb_pci_find(name, &p);

	if (err != 0) {
		printf("%s: %s\n", name, err_str(err));
		return 1;
	}
	err = kb_pci_bind(p.address, to_vfio, why, sizeof(why));
	printf("%s: %s %s\n", p.address, err_str(err), why);
	return err != 0;
}

int
main(int argc, char **argv)
{
	struct rt_options opt = {.arena_bytes = 32 * MIB, .helpers = 2};
	struct hw h = {.verb = argc > 1 ? argv[1] : "", .address = argc > 2 ? argv[2] : NULL};

	if (strcmp(h.verb, "list") == 0) {
		return kb_pci_scan(list_one, NULL) != 0;
	}
	if (argc == 3 && (strcmp(h.verb, "bind") == 0 || strcmp(h.verb, "unbind") == 0)) {
		return hw_bind(argv[2], strcmp(h.verb, "bind") == 0);
	}
	if (argc == 5 && strcmp(h.verb, "load") == 0) {
		h.seconds = strtoull(argv[3], NULL, 10);
		h.file = argv[4];
	} else if (argc == 4 && strcmp(h.verb, "check") == 0) {
		h.file = argv[3];
	} else {
		fprintf(stderr, "usage: nvme_hw list | bind DEVICE | unbind DEVICE | load ADDRESS "
				"SECONDS FILE | "
				"check ADDRESS FILE\n");
		return 2;
	}
	if (!open_file(&h)) {
		fprintf(stderr, "nvme_hw: %s: %s\n", h.file, err_str(errno));
		return 1;
	}
	int err = rt_run(&opt, hw_main, &h);
	return err != 0 || h.rc != 0;
}
