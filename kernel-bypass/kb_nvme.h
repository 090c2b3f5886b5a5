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

/* ---- PCI functions; all of these block, so they are for helper threads and the privileged parent ---- */

struct kb_pci {
	char address[16]; /* 0000:05:00.0 */
	uint16_t vendor, device;
	char driver[32]; /* who has it now; empty: nobody */
	bool at_vfio;
	int group;         /* of the IOMMU; -1: there is none */
	char blocks[128];  /* block devices of the kernel's driver, with blanks between them */
	char why_not[160]; /* why VFIO can't have it; empty: it can */
};

bool kb_pci_is_address(const char *s);
int kb_pci_group(const char *address); /* -1: none */
/* Is the block device name (nvme0n1, with or without /dev/) one of its namespaces? */
bool kb_pci_has(const struct kb_pci *p, const char *name);
/* 0; -ENOENT there is no such function; -EINVAL it is no NVMe controller. */
int kb_pci_look(const char *address, struct kb_pci *out) WARN_UNUSED;
/* Another number when a namespace has come to the kernel's driver or gone from it. Blocks. */
uint64_t kb_nvme_devices(void);
/* By address, by block device (with or without /dev/), or as kb_path names it. */
int kb_pci_find(const char *name, struct kb_pci *out) WARN_UNUSED;
int kb_pci_scan(void (*found)(void *arg, const struct kb_pci *p), void *arg) WARN_UNUSED;
/*
 * Give a function to vfio-pci or back to the kernel's driver. Refused when a namespace is in use by the
 * kernel or the IOMMU group isn't wholly ours. Needs root. 0, also when it is there already;
 * -EBUSY, -ENOTSUP no IOMMU or no vfio-pci, -ENODEV the driver didn't take it, -EACCES; with a sentence in
 * out_why.
 */
int kb_pci_bind(const char *address, bool to_vfio, char *out_why, size_t why_len) WARN_UNUSED;

/* ---- VFIO: one container for all devices of the process; the arena is mapped in it once ---- */

struct kb_vfio;
/* fd: /dev/vfio/vfio, opened (then owned), or -1. 0; -ENOMEM; -ENOTSUP. */
int kb_vfio_open(int fd, struct kb_vfio **out) WARN_UNUSED MAY_PARK;
/* Devices that are open keep it alive. */
void kb_vfio_close(struct kb_vfio *v);
/*
 * A function that vfio-pci has, as a device for kb_nvme_open_dev. group_fd: its group, opened (then owned, also
 * on failure), or -1. 0; -EBUSY; -ENOTSUP; -ENOMEM; other -errno; out_why says more, or is NULL.
 */
int kb_vfio_open_dev(struct kb_vfio *v, const char *address, int group_fd, struct nvme_dev **out,
    const char **out_why) WARN_UNUSED MAY_PARK;

/* ---- drives ---- */

/*
 * kb_nvme_open_dev - bring up the controller of dev, which is taken over (also on failure it is
 * closed), and open its namespaces as drives, at most max. When the last of them is closed the
 * controller is shut down; kb_close waits for that.
 * 0; -ENODEV no usable namespace; -ENOSPC fewer queues than reactors; -EINVAL it contradicts itself;
 * -ETIMEDOUT; -EIO; -ENOMEM; -ERR_GONE.
 */
int kb_nvme_open_dev(struct nvme_dev *dev, struct kb_drive **out, unsigned max, unsigned *out_count)
    WARN_UNUSED MAY_PARK;

/*
 * A controller that stays up whether its drives are open or not, for who opens and closes them often. Its
 * namespaces are opened by their place, from 0.
 */
int kb_nvme_hold(struct nvme_dev *dev, struct nvme_ctrl **out) WARN_UNUSED MAY_PARK;
unsigned kb_nvme_namespaces(struct nvme_ctrl *c);
/* What a drive on it will say of itself; false: there is no such place. */
bool kb_nvme_info(struct nvme_ctrl *c, unsigned place, struct kb_info *out);
/* 0; -ENOENT; -ENOMEM; -ERR_GONE dead. */
int kb_nvme_open(struct nvme_ctrl *c, unsigned place, struct kb_drive **out) WARN_UNUSED MAY_PARK;
bool kb_nvme_is_dead(struct nvme_ctrl *c);
/* Shuts the controller down, now or when its last drive has closed; c is not to be used any more. Waits when
 * none is open. */
void kb_nvme_release(struct nvme_ctrl *c) MAY_PARK;
bool kb_nvme_in_use(struct nvme_ctrl *c); /* drives are open on it */
int kb_nvme_hold_health(struct nvme_ctrl *c, struct kb_health *out) WARN_UNUSED MAY_PARK;

/* Of a drive of KB_BACKEND_NVME; -EOPNOTSUPP of another. -ERR_GONE, -EIO, -ETIMEDOUT. */
int kb_nvme_health(struct kb_drive *d, struct kb_health *out) WARN_UNUSED MAY_PARK;
void kb_nvme_get_counters(const struct kb_drive *d, struct kb_nvme_counters *out);

#endif
