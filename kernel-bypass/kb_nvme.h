/*
 * kb_nvme.h - NVMe drives without the kernel's driver: PCI functions and who drives them, opening the
 * namespaces of a controller as drives of kb.h, their health.
 */
#ifndef AGATE_KERNEL_BYPASS_KB_NVME_H
#define AGATE_KERNEL_BYPASS_KB_NVME_H

#include "kernel-bypass/kb.h"

struct nvme_dev;
struct nvme_ctrl;

/* What a drive says of itself. Numbers that a drive gives in 128 bits stop at UINT64_MAX. */
struct kb_health {
	int temperature_c;
	uint8_t spare_percent, spare_threshold_percent;
	uint8_t used_percent; /* of the rated life; 255: 255 or more */
	bool spare_low, too_hot, degraded, read_only, backup_failed; /* critical warnings */
	uint64_t read_bytes, written_bytes, power_on_hours, power_cycles, unsafe_shutdowns;
	uint64_t media_errors, error_log_entries;
	char firmware[16];
	bool firmware_pending; /* another slot becomes active with the next reset */
	unsigned errors_logged; /* entries of the error log that are set, of the first few */
	uint64_t last_error_lba;
	uint32_t last_error_status; /* type << 8 | code; 0 = none */
};

struct kb_nvme_counters {
	uint64_t resets, aborts, events, offences, requeued;
};

/*
 * kb_nvme_open_dev - bring up the controller of dev, which is taken over (also on failure it is
 * closed), and open its namespaces as drives, at most max. When the last of them is closed the
 * controller is shut down; kb_close waits for that.
 * 0; -ENODEV no usable namespace; -ENOSPC fewer queues than reactors; -EINVAL it contradicts itself;
 * -ETIMEDOUT; -EIO; -ENOMEM; -ERR_GONE.
 */
int kb_nvme_open_dev(struct nvme_dev *dev, struct kb_drive **out, unsigned max, unsigned *out_count)
    WARN_UNUSED MAY_PARK;

/* Of a drive of KB_BACKEND_NVME; -EOPNOTSUPP of another. -ERR_GONE, -EIO, -ETIMEDOUT. */
int kb_nvme_health(struct kb_drive *d, struct kb_health *out) WARN_UNUSED MAY_PARK;
void kb_nvme_get_counters(const struct kb_drive *d, struct kb_nvme_counters *out);

#endif
