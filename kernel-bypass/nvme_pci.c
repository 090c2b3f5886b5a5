/*
 * nvme_pci.c - NVMe controllers as PCI functions, in sysfs: which there are, who drives them,
 * whether VFIO could, and changing that. Everything blocks; callers are on helper threads or in the
 * privileged parent. Changing needs root.
 *
 * A function goes to VFIO only when its IOMMU group is wholly ours: everything else in the group is
 * a bridge, has no driver, or is at VFIO as well. And never when the kernel uses one of its
 * namespaces.
 */
#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>
#include <xxhash.h>
#include "kernel-bypass/kb_int.h"
#include "kernel-bypass/kb_nvme.h"

#define PCI_DEVICES "/sys/bus/pci/devices"
#define PCI_CLASS_NVME 0x010802u
#define PCI_CLASS_BRIDGE 0x06u
#define VFIO_DRIVER "vfio-pci"
#define KERNEL_DRIVER "nvme"
#define REBIND_WAIT_MS 3000u

/* 0000:05:00.0, and nothing else: it becomes part of paths. */
bool
kb_pci_is_address(const char *s)
{
	static const char shape[] = "hhhh:hh:hh.d";

	for (size_t i = 0; i < sizeof(shape) - 1; i++) {
		bool hex = (s[i] >= '0' && s[i] <= '9') || (s[i] >= 'a' && s[i] <= 'f');
		bool ok = shape[i] == 'h'   ? hex
			  : shape[i] == 'd' ? s[i] >= '0' && s[i] <= '7'
					    : s[i] == shape[i];
		if (!ok) {
			return false;
		}
	}
	return s[sizeof(shape) - 1] == '\0';
}

/* The last part of what the link dir/name points to; false: there is none. */
static bool
link_tail(const char *dir, const char *name, char *out, size_t out_len)
{
	char path[300];
	char target[512];

	out[0] = '\0';
	snprintf(path, sizeof(path), "%s/%s", dir, name);
	ssize_t n = readlink(path, target, sizeof(target) - 1);
	if (n <= 0) {
		return false;
	}
	target[n] = '\0';
	const char *tail = strrchr(target, '/');
	tail = tail != NULL ? tail + 1 : target;
	size_t len = strlen(tail);
	if (len >= out_len) {
		return false;
	}
	memcpy(out, tail, len + 1);
	return true;
}

static uint32_t
sys_hex(const char *dir, const char *name)
{
	char text[32];

	return kb_sysfs_read(dir, name, text, sizeof(text)) ? (uint32_t)strtoul(text, NULL, 16) : 0;
}

static void
pci_dir(const char *address, char *out, size_t out_len)
{
	snprintf(out, out_len, PCI_DEVICES "/%.16s", address);
}

int
kb_pci_group(const char *address)
{
	char dir[128];
	char text[64];

	pci_dir(address, dir, sizeof(dir));
	return link_tail(dir, "iommu_group", text, sizeof(text)) ? atoi(text) : -1;
}

/* ---- is the group ours? ---- */

static void
check_member(const char *address, const char *self, char *out_why, size_t why_len)
{
	char dir[128];
	char driver[64];

	pci_dir(address, dir, sizeof(dir));
	if (strcmp(address, self) == 0 || sys_hex(dir, "class") >> 16 == PCI_CLASS_BRIDGE) {
		return;
	}
	if (link_tail(dir, "driver", driver, sizeof(driver)) && strcmp(driver, VFIO_DRIVER) != 0) {
		snprintf(out_why, why_len, "shares its IOMMU group with %.16s (driver %.40s)",
		    address, driver);
	}
}

static void
check_group(const char *address, char *out_why, size_t why_len)
{
	char dir[160];

	snprintf(dir, sizeof(dir), PCI_DEVICES "/%.16s/iommu_group/devices", address);
	DIR *d = opendir(dir);
	if (d == NULL) {
		snprintf(out_why, why_len, "no IOMMU (is it on in firmware and kernel?)");
		return;
	}
	for (struct dirent *e = readdir(d); e != NULL && out_why[0] == '\0'; e = readdir(d)) {
		if (e->d_name[0] != '.') {
			check_member(e->d_name, address, out_why, why_len);
		}
	}
	closedir(d);
}

/* ---- block devices of the kernel's driver ---- */

/* nvme0n1 itself, or nvme0c1n1, a path to nvme0n1. */
static bool
block_name(const char *entry, char *out, size_t out_len)
{
	unsigned ctrl, path, ns;
	int end = 0;

	if (sscanf(entry, "nvme%un%u%n", &ctrl, &ns, &end) == 2 && entry[end] == '\0') {
		snprintf(out, out_len, "nvme%un%u", ctrl, ns);
		return true;
	}
	if (sscanf(entry, "nvme%uc%un%u%n", &ctrl, &path, &ns, &end) == 3 && entry[end] == '\0') {
		snprintf(out, out_len, "nvme%un%u", ctrl, ns);
		return true;
	}
	return false;
}

/* Calls each(name) for the namespaces' devices of a function, until it returns false. */
static void
each_block(const char *address, bool (*each)(void *arg, const char *name), void *arg)
{
	char dir[160];
	char sub[200];
	char name[64];
	bool go_on = true;

	snprintf(dir, sizeof(dir), PCI_DEVICES "/%.16s/nvme", address);
	DIR *d = opendir(dir);
	if (d == NULL) {
		return;
	}
	for (struct dirent *c = readdir(d); c != NULL && go_on; c = readdir(d)) {
		snprintf(sub, sizeof(sub), "%.150s/%.32s", dir, c->d_name);
		DIR *n = c->d_name[0] != '.' ? opendir(sub) : NULL;
		for (struct dirent *e = n != NULL ? readdir(n) : NULL; e != NULL && go_on;
		     e = readdir(n)) {
			if (block_name(e->d_name, name, sizeof(name))) {
				go_on = each(arg, name);
			}
		}
		if (n != NULL) {
			closedir(n);
		}
	}
	closedir(d);
}

static bool
note_block(void *arg, const char *name)
{
	struct kb_pci *p = arg;
	size_t len = strlen(p->blocks);

	snprintf(p->blocks + len, sizeof(p->blocks) - len, "%s%s", len > 0 ? " " : "", name);
	return true;
}

/* Mounted, swapped to, part of something: the kernel holds it, and then an exclusive open fails. */
static bool
note_busy(void *arg, const char *name)
{
	struct kb_pci *p = arg;
	char path[96];

	snprintf(path, sizeof(path), "/dev/%s", name);
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_EXCL);
	if (fd >= 0) {
		close(fd);
	} else if (errno == EBUSY) {
		snprintf(p->why_not, sizeof(p->why_not), "%s is in use", name);
	}
	return p->why_not[0] == '\0';
}

/* ---- looking ---- */

int
kb_pci_look(const char *address, struct kb_pci *out)
{
	char dir[128];

	if (!kb_pci_is_address(address)) {
		return -EINVAL;
	}
	memset(out, 0, sizeof(*out));
	pci_dir(address, dir, sizeof(dir));
	if (sys_hex(dir, "class") != PCI_CLASS_NVME) {
		return access(dir, F_OK) == 0 ? -EINVAL : -ENOENT;
	}
	snprintf(out->address, sizeof(out->address), "%s", address);
	out->vendor = (uint16_t)sys_hex(dir, "vendor");
	out->device = (uint16_t)sys_hex(dir, "device");
	out->group = kb_pci_group(address);
	link_tail(dir, "driver", out->driver, sizeof(out->driver));
	out->at_vfio = strcmp(out->driver, VFIO_DRIVER) == 0;
	each_block(address, note_block, out);
	check_group(address, out->why_not, sizeof(out->why_not));
	if (out->why_not[0] == '\0') {
		each_block(address, note_busy, out);
	}
	return 0;
}

int
kb_pci_scan(void (*found)(void *arg, const struct kb_pci *p), void *arg)
{
	struct kb_pci p;
	DIR *d = opendir(PCI_DEVICES);

	if (d == NULL) {
		return errno == ENOENT ? 0 : -errno; /* a machine without PCI */
	}
	for (struct dirent *e = readdir(d); e != NULL; e = readdir(d)) {
		if (kb_pci_look(e->d_name, &p) == 0) {
			found(arg, &p);
		}
	}
	closedir(d);
	return 0;
}

/* The order in which a directory tells its entries doesn't matter. */
uint64_t
kb_nvme_devices(void)
{
	DIR *d = opendir("/sys/block");
	uint64_t sum = 1;

	for (struct dirent *e = d != NULL ? readdir(d) : NULL; e != NULL; e = readdir(d)) {
		if (strncmp(e->d_name, "nvme", 4) == 0) {
			sum += XXH3_64bits(e->d_name, strlen(e->d_name));
		}
	}
	if (d != NULL) {
		closedir(d);
	}
	return sum;
}

bool
kb_pci_has(const struct kb_pci *p, const char *name)
{
	name = strncmp(name, "/dev/", 5) == 0 ? name + 5 : name;
	size_t len = strlen(name);

	for (const char *s = p->blocks; len > 0 && (s = strstr(s, name)) != NULL; s += len) {
		if ((s == p->blocks || s[-1] == ' ') && (s[len] == ' ' || s[len] == '\0')) {
			return true;
		}
	}
	return false;
}

struct find {
	const char *name;
	struct kb_pci *out;
	bool found;
};

static void
find_one(void *arg, const struct kb_pci *p)
{
	struct find *f = arg;

	if (!f->found && kb_pci_has(p, f->name)) {
		*f->out = *p;
		f->found = true;
	}
}

int
kb_pci_find(const char *name, struct kb_pci *out)
{
	struct find f = {.name = name, .out = out};

	if (strncmp(name, "pci:", 4) == 0) { /* as kb_path says it, with or without a namespace */
		char address[16];
		snprintf(address, sizeof(address), "%.12s", name + 4);
		return kb_pci_look(address, out);
	}
	if (kb_pci_is_address(name)) {
		return kb_pci_look(name, out);
	}
	int err = kb_pci_scan(find_one, &f);
	return err != 0 ? err : f.found ? 0 : -ENOENT;
}

/* ---- changing ---- */

static int
sys_write(const char *dir, const char *name, const char *text)
{
	char path[256];
	int err = 0;

	snprintf(path, sizeof(path), "%s/%s", dir, name);
	int fd = open(path, O_WRONLY | O_CLOEXEC);
	if (fd < 0) {
		return -errno;
	}
	if (write(fd, text, strlen(text)) < 0) {
		err = -errno;
	}
	close(fd);
	return err;
}

/* The driver's probe may take its time. */
static bool
wait_driver(const char *dir, const char *want)
{
	char driver[64];

	for (unsigned ms = 0; ms < REBIND_WAIT_MS; ms += 10) {
		if (link_tail(dir, "driver", driver, sizeof(driver)) && strcmp(driver, want) == 0) {
			return true;
		}
		usleep(10000);
	}
	return false;
}

static int
rebind(const char *address, const char *override, const char *want)
{
	char dir[128];
	char driver[64];

	pci_dir(address, dir, sizeof(dir));
	int err = sys_write(dir, "driver_override", override);
	if (err == 0 && link_tail(dir, "driver", driver, sizeof(driver)) &&
	    strcmp(driver, want) != 0) {
		err = sys_write(dir, "driver/unbind", address);
	}
	if (err == 0) {
		err = sys_write("/sys/bus/pci", "drivers_probe", address);
	}
	if (err == 0 && !wait_driver(dir, want)) {
		err = -ENODEV;
	}
	return err;
}

int
kb_pci_bind(const char *address, bool to_vfio, char *out_why, size_t why_len)
{
	struct kb_pci p;
	int err = kb_pci_look(address, &p);

	out_why[0] = '\0';
	if (err != 0) {
		snprintf(out_why, why_len, "%s is no NVMe controller", address);
		return err;
	}
	if (p.at_vfio == to_vfio && p.driver[0] != '\0') {
		return 0;
	}
	if (!to_vfio) {
		err = rebind(address, "\n", KERNEL_DRIVER);
		if (err != 0) {
			snprintf(out_why, why_len, "the kernel's driver does not take it: %s",
			    err_str(err));
		}
		return err;
	}
	if (p.why_not[0] != '\0') {
		snprintf(out_why, why_len, "%s", p.why_not);
		return p.group < 0 ? -ENOTSUP : -EBUSY;
	}
	if (access("/sys/bus/pci/drivers/" VFIO_DRIVER, F_OK) != 0) {
		snprintf(out_why, why_len, "the module vfio-pci is not loaded");
		return -ENOTSUP;
	}
	err = rebind(address, VFIO_DRIVER "\n", VFIO_DRIVER);
	if (err != 0) {
		snprintf(out_why, why_len, "vfio-pci does not take it: %s", err_str(err));
		(void)rebind(address, "\n", KERNEL_DRIVER); /* as it was, so far as that goes */
	}
	return err;
}
