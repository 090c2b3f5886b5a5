/*
 * nvme_vfio.c - a PCI function held through VFIO, behind nvme_dev.h.
 *
 * One container for the process: its IOMMU domain holds the arena, mapped once, and the queues of
 * all devices. Addresses that devices see are chosen here, inside what the IOMMU allows: the arena
 * first, then queue memory, each piece at a new place, never used again, so that a stale address of
 * a closed device hits nothing.
 *
 * Whoever holds the device's descriptor can let it write to memory, so nobody else has it: when the
 * process dies the kernel closes it, takes the device's bus mastering away and resets it.
 *
 * Interrupts: MSI-X, one eventfd a vector. Holding a vector back takes its eventfd away, and the
 * kernel masks it; what happens meanwhile is pending in the device and comes when it is let
 * through.
 */
#include <fcntl.h>
#include <linux/pci_regs.h>
#include <linux/vfio.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <unistd.h>
#include "kernel-bypass/nvme.h"

#define VFIO_VECTORS_MAX 65u
#define VFIO_IOVA_FIRST (4 * GIB) /* above the windows of interrupts and of old devices */

struct kb_vfio {
	int fd;                       /* [c] */
	atomic_uint users;            /* devices, and who opened it */
	struct mutex lock;            /* RANK_KB: the first attachment, and iova_next */
	bool ready;                   /* under lock: IOMMU set, arena mapped */
	struct arena_info arena;      /* [c] once ready */
	uint64_t arena_iova;          /* [c] once ready */
	uint64_t iova_next, iova_end; /* under lock */
};

struct vfio_vector {
	struct rt_fdwatch watch;
	int fd;
	struct nvme_irq *irq;
};

struct vfio_dev {
	struct nvme_dev dev;
	struct kb_vfio *vfio;
	int fd, group_fd;
	uint8_t *regs;
	size_t regs_bytes;
	uint64_t config_off; /* of PCI configuration space in fd */
	struct vfio_vector vectors[VFIO_VECTORS_MAX], release;
};

static struct vfio_dev *
vfio_of(struct nvme_dev *dev)
{
	return container_of(dev, struct vfio_dev, dev);
}

/* ---- registers ---- */

static uint32_t
vfio_read32(struct nvme_dev *dev, uint32_t off)
{
	return le32toh(*(volatile uint32_t *)(volatile void *)(vfio_of(dev)->regs + off));
}

static uint64_t
vfio_read64(struct nvme_dev *dev, uint32_t off)
{
	return le64toh(*(volatile uint64_t *)(volatile void *)(vfio_of(dev)->regs + off));
}

static void
vfio_write32(struct nvme_dev *dev, uint32_t off, uint32_t value)
{
	*(volatile uint32_t *)(volatile void *)(vfio_of(dev)->regs + off) = htole32(value);
}

static void
vfio_write64(struct nvme_dev *dev, uint32_t off, uint64_t value)
{
	*(volatile uint64_t *)(volatile void *)(vfio_of(dev)->regs + off) = htole64(value);
}

/* ---- memory ---- */

static int
vfio_map(struct kb_vfio *v, const void *va, size_t len, uint64_t iova)
{
	struct vfio_iommu_type1_dma_map map = {
	    .argsz = sizeof(map),
	    .flags = VFIO_DMA_MAP_FLAG_READ | VFIO_DMA_MAP_FLAG_WRITE,
	    .vaddr = (uintptr_t)va,
	    .iova = iova,
	    .size = len,
	};

	return ioctl(v->fd, VFIO_IOMMU_MAP_DMA, &map) == 0 ? 0 : -errno;
}

/* On helper threads only, one at a time by the keeper; several keepers share iova_next. */
static int
vfio_dma_alloc(struct nvme_dev *dev, size_t len_bytes, struct nvme_dma *out)
{
	struct kb_vfio *v = vfio_of(dev)->vfio;
	void *va =
	    mmap(NULL, len_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (va == MAP_FAILED) {
		return -ENOMEM;
	}
	uint64_t iova = __atomic_fetch_add(&v->iova_next, len_bytes, __ATOMIC_RELAXED);
	int err = iova + len_bytes > v->iova_end ? -ENOMEM : vfio_map(v, va, len_bytes, iova);
	if (err != 0) {
		munmap(va, len_bytes);
		return err;
	}
	*out = (struct nvme_dma){.va = va, .iova = iova, .len_bytes = len_bytes};
	return 0;
}

static void
vfio_dma_free(struct nvme_dev *dev, struct nvme_dma *dma)
{
	struct vfio_iommu_type1_dma_unmap unmap = {
	    .argsz = sizeof(unmap), .iova = dma->iova, .size = dma->len_bytes};

	/* if it stays mapped, the memory must stay too */
	if (ioctl(vfio_of(dev)->vfio->fd, VFIO_IOMMU_UNMAP_DMA, &unmap) == 0) {
		munmap(dma->va, dma->len_bytes);
	}
	dma->va = NULL;
}

/* ---- interrupts ---- */

static int
vfio_set_irq(struct vfio_dev *vd, uint32_t index, uint32_t start, uint32_t count, const int *fds)
{
	size_t len = sizeof(struct vfio_irq_set) + count * sizeof(int);
	_Alignas(struct vfio_irq_set)
	    uint8_t buf[sizeof(struct vfio_irq_set) + VFIO_VECTORS_MAX * sizeof(int)] = {0};
	struct vfio_irq_set *set = (struct vfio_irq_set *)(void *)buf;

	set->argsz = (uint32_t)len;
	set->flags = VFIO_IRQ_SET_ACTION_TRIGGER |
		     (count > 0 ? VFIO_IRQ_SET_DATA_EVENTFD : VFIO_IRQ_SET_DATA_NONE);
	set->index = index;
	set->start = start;
	set->count = count;
	memcpy(set->data, fds, count * sizeof(int));
	return ioctl(vd->fd, VFIO_DEVICE_SET_IRQS, set) == 0 ? 0 : -errno;
}

static struct vfio_vector *
vector_of(struct vfio_dev *vd, uint32_t vector)
{
	return vector == NVME_VECTOR_RELEASE ? &vd->release : &vd->vectors[vector];
}

static void
vector_ready(struct rt_fdwatch *w, uint32_t events)
{
	struct vfio_vector *v = container_of(w, struct vfio_vector, watch);

	(void)events;
	v->irq->fn(v->irq);
}

static int
vfio_irq_open(struct nvme_dev *dev, uint32_t vector, struct nvme_irq *irq)
{
	struct vfio_vector *v = vector_of(vfio_of(dev), vector);

	if (v->fd < 0) {
		return -ENOTSUP;
	}
	v->irq = irq;
	v->watch.fd = v->fd;
	v->watch.events = EPOLLIN;
	v->watch.ready = vector_ready;
	return rt_fdwatch_add(&v->watch);
}

static void
vfio_irq_close(struct nvme_dev *dev, uint32_t vector)
{
	rt_fdwatch_remove(&vector_of(vfio_of(dev), vector)->watch);
}

static void
vfio_irq_pass(struct nvme_dev *dev, uint32_t vector, bool on)
{
	struct vfio_dev *vd = vfio_of(dev);
	int fd = on ? vd->vectors[vector].fd : -1;

	/* if it fails, the timers of the requests still bring us back */
	if (vfio_set_irq(vd, VFIO_PCI_MSIX_IRQ_INDEX, vector, 1, &fd) != 0) {
		log_warn("nvme_irq_failed device=%s vector=%u", dev->name, vector);
	}
}

static int
vfio_open_irqs(struct vfio_dev *vd)
{
	struct vfio_irq_info msix = {.argsz = sizeof(msix), .index = VFIO_PCI_MSIX_IRQ_INDEX};
	struct vfio_irq_info req = {.argsz = sizeof(req), .index = VFIO_PCI_REQ_IRQ_INDEX};
	int fds[VFIO_VECTORS_MAX];

	if (ioctl(vd->fd, VFIO_DEVICE_GET_IRQ_INFO, &msix) == 0 &&
	    (msix.flags & VFIO_IRQ_INFO_EVENTFD) != 0) {
		vd->dev.vectors = MIN(MIN(msix.count, rt_reactor_count() + 1), VFIO_VECTORS_MAX);
	}
	for (unsigned i = 0; i < vd->dev.vectors; i++) {
		vd->vectors[i].fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
		if (vd->vectors[i].fd < 0) {
			return -errno;
		}
		fds[i] = i == 0 ? vd->vectors[0].fd : -1; /* the others are held back at first */
	}
	if (vd->dev.vectors > 0 &&
	    vfio_set_irq(vd, VFIO_PCI_MSIX_IRQ_INDEX, 0, vd->dev.vectors, fds) != 0) {
		vd->dev.vectors = 0;
	}
	if (ioctl(vd->fd, VFIO_DEVICE_GET_IRQ_INFO, &req) != 0 || req.count == 0) {
		return 0;
	}
	vd->release.fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (vd->release.fd >= 0) {
		return vfio_set_irq(vd, VFIO_PCI_REQ_IRQ_INDEX, 0, 1, &vd->release.fd);
	}
	return -errno;
}

static void
vfio_close_irqs(struct vfio_dev *vd)
{
	if (vd->fd >= 0) {
		(void)vfio_set_irq(vd, VFIO_PCI_MSIX_IRQ_INDEX, 0, 0, NULL);
		(void)vfio_set_irq(vd, VFIO_PCI_REQ_IRQ_INDEX, 0, 0, NULL);
	}
	for (unsigned i = 0; i < VFIO_VECTORS_MAX; i++) {
		if (vd->vectors[i].fd >= 0) {
			close(vd->vectors[i].fd);
		}
	}
	if (vd->release.fd >= 0) {
		close(vd->release.fd);
	}
}

/* ---- the function ---- */

/* Sets or clears bits of the PCI command register; true when they are so afterwards. */
static bool
vfio_command(struct vfio_dev *vd, uint16_t bits, bool on)
{
	off_t at = (off_t)(vd->config_off + PCI_COMMAND);
	uint16_t command;

	if (pread(vd->fd, &command, sizeof(command), at) != sizeof(command)) {
		return false;
	}
	command = on ? command | bits : command & (uint16_t)~bits;
	if (pwrite(vd->fd, &command, sizeof(command), at) != sizeof(command) ||
	    pread(vd->fd, &command, sizeof(command), at) != sizeof(command)) {
		return false;
	}
	return (command & bits) == (on ? bits : 0);
}

static int
vfio_function_reset(struct nvme_dev *dev)
{
	struct vfio_dev *vd = vfio_of(dev);

	if (ioctl(vd->fd, VFIO_DEVICE_RESET) != 0) {
		return -errno;
	}
	return vfio_command(vd, PCI_COMMAND_MEMORY | PCI_COMMAND_MASTER, true) ? 0 : -EIO;
}

static int
vfio_dma_stop(struct nvme_dev *dev)
{
	return vfio_command(vfio_of(dev), PCI_COMMAND_MASTER, false) ? 0 : -EIO;
}

static void
vfio_dev_free(struct vfio_dev *vd)
{
	vfio_close_irqs(vd);
	if (vd->regs != NULL) {
		munmap(vd->regs, vd->regs_bytes);
	}
	if (vd->fd >= 0) {
		(void)vfio_command(vd, PCI_COMMAND_MASTER, false);
		close(vd->fd);
	}
	if (vd->group_fd >= 0) {
		close(vd->group_fd);
	}
	kb_vfio_close(vd->vfio);
	mem_free(vd);
}

static void
vfio_close(struct nvme_dev *dev)
{
	vfio_dev_free(vfio_of(dev));
}

static const struct nvme_dev_ops vfio_ops = {
    .read32 = vfio_read32,
    .read64 = vfio_read64,
    .write32 = vfio_write32,
    .write64 = vfio_write64,
    .dma_alloc = vfio_dma_alloc,
    .dma_free = vfio_dma_free,
    .irq_open = vfio_irq_open,
    .irq_close = vfio_irq_close,
    .irq_pass = vfio_irq_pass,
    .function_reset = vfio_function_reset,
    .dma_stop = vfio_dma_stop,
    .close = vfio_close,
};

/* ---- the container ---- */

static void
vfio_open_run(void *arg)
{
	struct kb_vfio *v = arg;

	if (v->fd < 0) {
		v->fd = open("/dev/vfio/vfio", O_RDWR | O_CLOEXEC);
	}
}

int
kb_vfio_open(int fd, struct kb_vfio **out)
{
	struct kb_vfio *v = mem_zalloc(sizeof(*v));

	if (v == NULL) {
		return -ENOMEM;
	}
	v->fd = fd;
	atomic_init(&v->users, 1);
	mutex_init(&v->lock, RANK_KB);
	offload(vfio_open_run, v);
	if (v->fd < 0 || ioctl(v->fd, VFIO_GET_API_VERSION) != VFIO_API_VERSION ||
	    ioctl(v->fd, VFIO_CHECK_EXTENSION, VFIO_TYPE1v2_IOMMU) <= 0) {
		kb_vfio_close(v);
		return -ENOTSUP;
	}
	*out = v;
	return 0;
}

void
kb_vfio_close(struct kb_vfio *v)
{
	if (atomic_fetch_sub(&v->users, 1) == 1) {
		if (v->fd >= 0) {
			close(v->fd);
		}
		mem_free(v);
	}
}

/* Where there is room for the arena and as much again, in what the IOMMU can say. */
static bool
iova_pick(struct kb_vfio *v, const struct vfio_iommu_type1_info_cap_iova_range *cap)
{
	for (uint32_t i = 0; i < cap->nr_iovas; i++) {
		uint64_t start = MAX(cap->iova_ranges[i].start, VFIO_IOVA_FIRST);
		uint64_t end = cap->iova_ranges[i].end;
		start = ALIGN_UP(start, 2 * MIB);
		if (start < end && end - start >= v->arena.size_bytes + GIB) {
			v->arena_iova = start;
			v->iova_next = start + v->arena.size_bytes;
			v->iova_end = end;
			return true;
		}
	}
	return false;
}

static int
iova_choose(struct kb_vfio *v)
{
	_Alignas(8) uint8_t buf[1024] = {0};
	struct vfio_iommu_type1_info *info = (struct vfio_iommu_type1_info *)(void *)buf;

	info->argsz = sizeof(buf);
	if (ioctl(v->fd, VFIO_IOMMU_GET_INFO, info) != 0) {
		return -errno;
	}
	uint32_t at = (info->flags & VFIO_IOMMU_INFO_CAPS) != 0 ? info->cap_offset : 0;
	while (at != 0 && at <= sizeof(buf) - sizeof(struct vfio_info_cap_header)) {
		const struct vfio_info_cap_header *h = (const void *)(buf + at);
		const struct vfio_iommu_type1_info_cap_iova_range *cap = (const void *)h;
		if (h->id == VFIO_IOMMU_TYPE1_INFO_CAP_IOVA_RANGE &&
		    at + sizeof(*cap) + cap->nr_iovas * sizeof(cap->iova_ranges[0]) <=
			sizeof(buf)) {
			return iova_pick(v, cap) ? 0 : -ENOSPC;
		}
		at = h->next;
	}
	return -ENOTSUP;
}

/* The IOMMU can be set, and memory mapped, once a first group is in the container. */
static int
vfio_make_ready(struct kb_vfio *v)
{
	if (v->ready) {
		return 0;
	}
	if (ioctl(v->fd, VFIO_SET_IOMMU, VFIO_TYPE1v2_IOMMU) != 0) {
		return -errno;
	}
	arena_get_info(&v->arena);
	int err = iova_choose(v);
	if (err == 0) {
		err = vfio_map(v, v->arena.base, v->arena.size_bytes, v->arena_iova);
	}
	v->ready = err == 0;
	return err;
}

/* ---- opening a device ---- */

struct dev_open {
	struct vfio_dev *vd;
	const char *address;
	int group_fd;
	int err;
	const char *why;
};

static int
open_fail(struct dev_open *o, int err, const char *why)
{
	o->why = why;
	return err;
}

static int
open_group(struct dev_open *o)
{
	struct vfio_group_status st = {.argsz = sizeof(st)};
	struct vfio_dev *vd = o->vd;
	char path[64];

	vd->group_fd = o->group_fd;
	if (vd->group_fd < 0) {
		int group = kb_pci_group(o->address);
		if (group < 0) {
			return open_fail(o, -ENOTSUP, "it is in no IOMMU group");
		}
		snprintf(path, sizeof(path), "/dev/vfio/%d", group);
		vd->group_fd = open(path, O_RDWR | O_CLOEXEC);
	}
	if (vd->group_fd < 0) {
		return open_fail(o, -errno, "its group can't be opened");
	}
	if (ioctl(vd->group_fd, VFIO_GROUP_GET_STATUS, &st) != 0 ||
	    (st.flags & VFIO_GROUP_FLAGS_VIABLE) == 0) {
		return open_fail(o, -EBUSY, "another device of its group belongs to the kernel");
	}
	if (ioctl(vd->group_fd, VFIO_GROUP_SET_CONTAINER, &vd->vfio->fd) != 0) {
		return open_fail(o, -errno, "its group is in use");
	}
	int err = vfio_make_ready(vd->vfio);
	return err != 0 ? open_fail(o, err, "the arena can't be mapped (locked memory limit?)") : 0;
}

static int
open_regions(struct dev_open *o)
{
	struct vfio_dev *vd = o->vd;
	struct vfio_region_info bar = {.argsz = sizeof(bar), .index = VFIO_PCI_BAR0_REGION_INDEX};
	struct vfio_region_info config = {
	    .argsz = sizeof(config), .index = VFIO_PCI_CONFIG_REGION_INDEX};
	uint16_t ids[2];

	if (ioctl(vd->fd, VFIO_DEVICE_GET_REGION_INFO, &bar) != 0 ||
	    ioctl(vd->fd, VFIO_DEVICE_GET_REGION_INFO, &config) != 0) {
		return open_fail(o, -errno, "its regions are not told");
	}
	vd->config_off = config.offset;
	if (pread(vd->fd, ids, sizeof(ids), (off_t)config.offset) != sizeof(ids) ||
	    !vfio_command(vd, PCI_COMMAND_MEMORY | PCI_COMMAND_MASTER, true)) {
		return open_fail(o, -EIO, "it doesn't let itself be configured");
	}
	vd->dev.vendor = le16toh(ids[0]);
	vd->dev.device = le16toh(ids[1]);
	/* registers and doorbells: 64 queues at the usual stride fit into two pages */
	vd->regs_bytes = MIN((size_t)bar.size, (size_t)8 * NVS_PAGE_BYTES);
	if (vd->regs_bytes < 2 * NVS_PAGE_BYTES || (bar.flags & VFIO_REGION_INFO_FLAG_MMAP) == 0) {
		return open_fail(o, -EINVAL, "its registers can't be mapped");
	}
	void *p = mmap(
	    NULL, vd->regs_bytes, PROT_READ | PROT_WRITE, MAP_SHARED, vd->fd, (off_t)bar.offset);
	if (p == MAP_FAILED) {
		return open_fail(o, -errno, "its registers can't be mapped");
	}
	vd->regs = p;
	return 0;
}

static void
dev_open_run(void *arg)
{
	struct dev_open *o = arg;
	struct vfio_dev *vd = o->vd;

	o->err = open_group(o);
	if (o->err != 0) {
		return;
	}
	vd->fd = ioctl(vd->group_fd, VFIO_GROUP_GET_DEVICE_FD, o->address);
	if (vd->fd < 0) {
		o->err = open_fail(o, -errno, "it is in use");
		return;
	}
	o->err = open_regions(o);
	if (o->err == 0) {
		o->err = vfio_open_irqs(vd);
	}
}

static void
dev_free_run(void *arg)
{
	vfio_dev_free(arg);
}

int
kb_vfio_open_dev(struct kb_vfio *v, const char *address, int group_fd, struct nvme_dev **out,
    const char **out_why)
{
	struct vfio_dev *vd = mem_zalloc(sizeof(*vd));
	struct dev_open o = {.vd = vd, .address = address, .group_fd = group_fd};

	*out_why = NULL;
	if (vd == NULL) {
		if (group_fd >= 0) {
			kb_close_fd(group_fd);
		}
		return -ENOMEM;
	}
	atomic_fetch_add(&v->users, 1);
	vd->vfio = v;
	vd->fd = vd->group_fd = vd->release.fd = -1;
	for (unsigned i = 0; i < VFIO_VECTORS_MAX; i++) {
		vd->vectors[i].fd = -1;
	}
	mutex_lock(&v->lock);
	offload(dev_open_run, &o);
	mutex_unlock(&v->lock);
	if (o.err != 0) {
		offload(dev_free_run, vd);
		*out_why = o.why;
		return o.err;
	}
	vd->dev.ops = &vfio_ops;
	vd->dev.doorbells = vd->regs + NVS_REG_DOORBELLS;
	vd->dev.doorbell_bytes = (uint32_t)vd->regs_bytes - NVS_REG_DOORBELLS;
	vd->dev.arena_va = (uintptr_t)v->arena.base;
	vd->dev.arena_bytes = v->arena.size_bytes;
	vd->dev.arena_iova = v->arena_iova;
	snprintf(vd->dev.name, sizeof(vd->dev.name), "%s", address);
	*out = &vd->dev;
	return 0;
}
