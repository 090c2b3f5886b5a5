/*
 * parent_vfio.c - what the parent does for NVMe drives on VFIO: opens the container and groups
 * (never the device itself, that only the engine has), binds and unbinds, and looks whether
 * everything is quiet before an engine that died is replaced.
 */
#include <fcntl.h>
#include <linux/pci_regs.h>
#include <stdio.h>
#include <unistd.h>
#include "admin/admin_int.h"
#include "admin/parent.h"

#define QUIET_WAIT_MS 10000u

/* "/dev/vfio/vfio", or "pci:ADDRESS" for the group of an NVMe controller that vfio-pci has: nothing
 * else. */
int
parent_open_vfio(const char *path, int *out_fd)
{
	struct kb_pci p;
	char group[64] = "/dev/vfio/vfio";
	if (strncmp(path, "pci:", 4) == 0) {
		int err = kb_pci_is_address(path + 4) ? kb_pci_look(path + 4, &p) : -EINVAL;
		if (err != 0) {
			return err;
		}
		if (!p.at_vfio || p.group < 0) {
			return -EINVAL;
		}
		snprintf(group, sizeof(group), "/dev/vfio/%d", p.group);
	} else if (strcmp(path, group) != 0) {
		return -EINVAL;
	}
	int fd = open(group, O_RDWR | O_CLOEXEC);
	if (fd < 0) {
		return -errno;
	}
	*out_fd = fd;
	return 0;
}

/* BIND, UNBIND: the address is in path, where the reason goes as well. */
void
parent_bind_vfio(struct parent_msg *m)
{
	char why[160];
	m->err = kb_pci_bind(m->path, m->kind == PARENT_BIND, why, sizeof(why));
	log_notice("nvme-%s device=%.16s result=%s reason=\"%s\"",
	    m->kind == PARENT_BIND ? "bind" : "unbind", m->path, err_str(m->err), why);
	m->kind = PARENT_DONE;
	memcpy(m->path, why, sizeof(why));
}

/* ---- quiet? ---- */

struct quiet {
	bool all;
	unsigned count;
};

/* The kernel takes bus mastering away when the last descriptor of a device closes: without it the
 * controller can't touch memory, whatever state it is in. */
static void
quiet_one(void *arg, const struct kb_pci *p)
{
	struct quiet *q = arg;
	char path[80];
	uint16_t command = PCI_COMMAND_MASTER;
	if (!p->at_vfio) {
		return;
	}
	snprintf(path, sizeof(path), "/sys/bus/pci/devices/%s/config", p->address);
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0 || pread(fd, &command, sizeof(command), PCI_COMMAND) != sizeof(command)) {
		command = PCI_COMMAND_MASTER;
	}
	if (fd >= 0) {
		close(fd);
	}
	q->count++;
	/* all ones: it isn't there any more */
	q->all = q->all && (command == UINT16_MAX || (command & PCI_COMMAND_MASTER) == 0);
}

bool
parent_vfio_quiet(void)
{
	for (unsigned ms = 0; ms < QUIET_WAIT_MS; ms += 100) {
		struct quiet q = {.all = true};
		if (kb_pci_scan(quiet_one, &q) == 0 && q.all) {
			if (q.count > 0) {
				log_notice("nvme-quiet controllers=%u waited_ms=%u", q.count, ms);
			}
			return true;
		}
		usleep(100000);
	}
	log_error("nvme-not-quiet note=a-controller-may-still-write-to-memory");
	return false;
}
