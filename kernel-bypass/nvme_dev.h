/*
 * nvme_dev.h - what the driver needs of a device: registers, memory that the device can reach,
 * interrupts and the means to stop it. Two implementations: nvme_vfio.c (a PCI function held
 * through VFIO) and the software controller of tests/lib/nvme_model.c.
 *
 * Addresses the device sees (iova) are not pointers: the arena lies at arena_iova, as one piece.
 */
#ifndef AGATE_KERNEL_BYPASS_NVME_DEV_H
#define AGATE_KERNEL_BYPASS_NVME_DEV_H

#include "base/base.h"

struct nvme_dev;

/* Someone who wants to know of an interrupt; fn runs on the loop of the reactor that opened it. */
struct nvme_irq {
	void (*fn)(struct nvme_irq *irq);
};

#define NVME_VECTOR_RELEASE UINT32_MAX /* not the device's: the kernel wants the device back */

/* Memory of queues, shared with the device. */
struct nvme_dma {
	uint8_t *va; /* page-aligned; NULL: none */
	uint64_t iova;
	size_t len_bytes;
};

struct nvme_dev_ops {
	uint32_t (*read32)(struct nvme_dev *dev, uint32_t off_bytes);
	uint64_t (*read64)(struct nvme_dev *dev, uint32_t off_bytes);
	void (*write32)(struct nvme_dev *dev, uint32_t off_bytes, uint32_t value);
	void (*write64)(struct nvme_dev *dev, uint32_t off_bytes, uint64_t value);
	/* Zeroed memory; len_bytes is a multiple of the page. 0; -ENOMEM. Blocks. */
	int (*dma_alloc)(struct nvme_dev *dev, size_t len_bytes, struct nvme_dma *out);
	void (*dma_free)(struct nvme_dev *dev, struct nvme_dma *dma); /* Blocks. */
	/* Be told of a vector, on this reactor, until closed on the same one. 0 or -errno. */
	int (*irq_open)(struct nvme_dev *dev, uint32_t vector, struct nvme_irq *irq);
	void (*irq_close)(struct nvme_dev *dev, uint32_t vector);
	/* Let an interrupt through (what was held back comes at once) or hold it back. Same
	 * reactor. */
	void (*irq_pass)(struct nvme_dev *dev, uint32_t vector, bool on);
	/* Function-level reset. 0; -errno: there is none, or it failed. Blocks. */
	int (*function_reset)(struct nvme_dev *dev);
	/* The last resort: cut the device off from memory. 0: it certainly can't reach memory any
	 * more. Blocks. */
	int (*dma_stop)(struct nvme_dev *dev);
	/* Gives everything back; dev is gone. Blocks. */
	void (*close)(struct nvme_dev *dev);
};

struct nvme_dev {
	const struct nvme_dev_ops *ops; /* [c] */
	volatile uint8_t *doorbells;    /* [c] mapped; NULL: through write32 */
	uint32_t doorbell_bytes;        /* [c] room for doorbells, mapped or not */
	uintptr_t arena_va;             /* [c] */
	uint64_t arena_bytes;           /* [c] */
	uint64_t arena_iova;            /* [c] */
	unsigned vectors;               /* [c] interrupts, 0 = none */
	uint16_t vendor, device;        /* [c] PCI */
	char name[32];                  /* [c] for people: 0000:05:00.0 */
};

#endif
