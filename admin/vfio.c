/*
 * vfio.c - NVMe controllers that the engine drives itself. Each function that vfio-pci has is
 * brought up at start and stays up ("held") until it is unbound or the engine ends, whether its
 * drives are in use or not; so looking at them costs nothing. The descriptors come from the parent,
 * which keeps none.
 *
 * The list is under adm->lock: changed only with the lock held exclusively, or before and after
 * serving.
 */
#include <stdio.h>
#include "admin/vfio.h"
#include "admin/parent.h"

/* ---- attach and detach ---- */

static int
vfio_container(struct adm *a)
{
	int fd;
	if (a->vfio != NULL) {
		return 0;
	}
	int err = parent_open(a, "/dev/vfio/vfio", &fd);
	return err != 0 ? err : kb_vfio_open(fd, &a->vfio);
}

int
vfio_attach(struct adm *a, const char *address, const char **out_why)
{
	char path[32];
	struct nvme_dev *dev;
	int fd;
	*out_why = "there is no VFIO";
	if (a->ctrl_count == ADM_CTRLS_MAX) {
		*out_why = "there are too many";
		return -ENOSPC;
	}
	int err = vfio_container(a);
	if (err != 0) {
		return err;
	}
	snprintf(path, sizeof(path), "pci:%.12s", address);
	*out_why = "its IOMMU group can't be opened";
	err = parent_open(a, path, &fd);
	if (err != 0) {
		return err;
	}
	err = kb_vfio_open_dev(a->vfio, address, fd, &dev, out_why);
	if (err != 0) {
		return err;
	}
	struct adm_ctrl *ac = &a->ctrls[a->ctrl_count];
	*out_why = "its controller does not start";
	err = kb_nvme_hold(dev, &ac->ctrl);
	if (err == 0) {
		snprintf(ac->address, sizeof(ac->address), "%s", address);
		a->ctrl_count++;
		*out_why = NULL;
	}
	return err;
}

void
vfio_give_back(struct adm *a, const char *address)
{
	char why[160];
	if (parent_bind(a, address, false, why, sizeof(why)) != 0) {
		log_error("nvme-not-given-back device=%s reason=\"%s\"", address, why);
	}
}

struct adm_ctrl *
vfio_find(struct adm *a, const char *address)
{
	for (uint32_t i = 0; i < a->ctrl_count; i++) {
		if (strcmp(a->ctrls[i].address, address) == 0) {
			return &a->ctrls[i];
		}
	}
	return NULL;
}

/* Those that have died are given back already; drives that are still open on them are gone. */
void
vfio_drop_dead(struct adm *a)
{
	for (uint32_t i = a->ctrl_count; i > 0; i--) {
		if (kb_nvme_is_dead(a->ctrls[i - 1].ctrl)) {
			vfio_detach(a, &a->ctrls[i - 1]);
		}
	}
}

void
vfio_detach(struct adm *a, struct adm_ctrl *ac)
{
	kb_nvme_release(ac->ctrl);
	*ac = a->ctrls[--a->ctrl_count];
}

/* ---- its drives ---- */

int
vfio_open(struct adm *a, const char *path, struct kb_drive **out)
{
	struct kb_info info;
	for (uint32_t i = 0; i < a->ctrl_count; i++) {
		unsigned count = kb_nvme_namespaces(a->ctrls[i].ctrl);
		for (unsigned place = 0; place < count; place++) {
			if (kb_nvme_info(a->ctrls[i].ctrl, place, &info) &&
			    strcmp(info.path, path) == 0) {
				return kb_nvme_open(a->ctrls[i].ctrl, place, out);
			}
		}
	}
	return -ENOENT;
}

/* Whose is what is on it? Not asked of drives that a pool has. */
static void
vfio_look(struct adm *a, struct nvme_ctrl *ctrl, unsigned place, struct kb_found *f)
{
	enum kb_content content;
	struct kb_drive *d;
	char what[sizeof(f->used_by)];
	if (drives_in_service(a, f->info.id, NULL) || kb_nvme_open(ctrl, place, &d) != 0) {
		return;
	}
	int err = kb_gpt_probe(d, &content, what, sizeof(what));
	kb_close(d);
	if (err != 0) {
		snprintf(f->used_by, sizeof(f->used_by), "cannot be read");
	} else if (content == KB_CONTENT_FOREIGN) {
		memcpy(f->used_by, what, sizeof(f->used_by));
	}
}

void
vfio_scan(struct adm *a, void (*found)(void *arg, const struct kb_found *f), void *arg)
{
	struct kb_found *f = mem_zalloc(sizeof(*f));
	for (uint32_t i = 0; f != NULL && i < a->ctrl_count; i++) {
		struct nvme_ctrl *ctrl = a->ctrls[i].ctrl;
		unsigned count = kb_nvme_is_dead(ctrl) ? 0 : kb_nvme_namespaces(ctrl);
		for (unsigned place = 0; place < count; place++) {
			memset(f, 0, sizeof(*f));
			if (kb_nvme_info(ctrl, place, &f->info)) {
				vfio_look(a, ctrl, place, f);
				found(arg, f);
			}
		}
	}
	mem_free(f);
}

/* ---- start, changes and stop ---- */

struct vfio_list {
	struct kb_pci *items;
	uint32_t count;
	int err;
};

static void
vfio_collect(void *arg, const struct kb_pci *p)
{
	struct vfio_list *l = arg;
	if (l->count < ADM_CTRLS_MAX) {
		l->items[l->count++] = *p;
	}
}

static void
vfio_scan_run(void *arg)
{
	struct vfio_list *l = arg;
	l->err = kb_pci_scan(vfio_collect, l);
}

/* May it go to VFIO by itself: is everything on it ours? */
static bool
vfio_is_labelled(struct adm *a, const struct kb_pci *p)
{
	char path[80];
	char blocks[sizeof(p->blocks)];
	char *save = NULL;
	bool all = p->blocks[0] != '\0';
	memcpy(blocks, p->blocks, sizeof(blocks));
	for (char *b = strtok_r(blocks, " ", &save); b != NULL && all;
	     b = strtok_r(NULL, " ", &save)) {
		struct pool_label_info label;
		struct kb_drive *d;
		snprintf(path, sizeof(path), "/dev/%.64s", b);
		all = drives_open_path(a, path, &d) == 0;
		if (all) {
			all = pool_label_probe(d, &label) == 0;
			kb_close(d);
		}
	}
	return all;
}

/* What goes wrong here leaves the drive with the kernel, and says why. */
static void
vfio_start_one(struct adm *a, const struct kb_pci *p)
{
	const char *why = p->why_not;
	char text[160] = "";
	int err = 0;
	if (!p->at_vfio) {
		if (!a->cfg->vfio || !vfio_is_labelled(a, p)) {
			return;
		}
		err = p->why_not[0] != '\0' ? -EBUSY
					    : parent_bind(a, p->address, true, text, sizeof(text));
		why = text[0] != '\0' ? text : why;
	}
	if (err == 0) {
		err = vfio_attach(a, p->address, &why);
		if (err != 0 && !p->at_vfio) {
			vfio_give_back(a, p->address);
		}
	}
	if (err != 0) {
		log_warn("nvme-not-driven device=%s reason=\"%s\" error=%s fallback=kernel",
		    p->address, why != NULL ? why : "", err_str(err));
	}
}

uint32_t
vfio_functions(struct kb_pci **out)
{
	struct vfio_list l = {.items = mem_zalloc_array(ADM_CTRLS_MAX, sizeof(struct kb_pci))};
	if (l.items != NULL) {
		offload(vfio_scan_run, &l);
	}
	*out = l.items;
	return l.err == 0 ? l.count : 0;
}

const char *
vfio_note(const struct kb_pci *functions, uint32_t count, const char *path)
{
	for (uint32_t i = 0; i < count; i++) {
		const struct kb_pci *p = &functions[i];
		if (kb_pci_has(p, path)) {
			return p->why_not[0] != '\0' ? p->why_not : "can be bound";
		}
	}
	return "";
}

/* held_too: also those that vfio-pci has already. */
static void
vfio_take(struct adm *a, bool held_too)
{
	struct kb_pci *functions;
	uint32_t count = vfio_functions(&functions);
	for (uint32_t i = 0; i < count; i++) {
		if (held_too || !functions[i].at_vfio) {
			vfio_start_one(a, &functions[i]);
		}
	}
	mem_free(functions);
}

void
vfio_start(struct adm *a)
{
	if (a->cfg->drives_dir[0] == '\0') {
		vfio_take(a, true);
	}
}

static void
vfio_devices_run(void *arg)
{
	*(uint64_t *)arg = kb_nvme_devices();
}

bool
vfio_changed(struct adm *a)
{
	uint64_t devices;
	bool dead = false;
	if (a->cfg->drives_dir[0] != '\0') {
		return false;
	}
	offload(vfio_devices_run, &devices);
	for (uint32_t i = 0; i < a->ctrl_count; i++) {
		dead = dead || kb_nvme_is_dead(a->ctrls[i].ctrl);
	}
	return a->nvme_devices != devices || dead;
}

void
vfio_refresh(struct adm *a)
{
	offload(vfio_devices_run, &a->nvme_devices);
	vfio_drop_dead(a);
	/* one that has died stays where it is: it would die again; what comes is with the kernel
	 * first */
	vfio_take(a, false);
}

void
vfio_stop(struct adm *a)
{
	while (a->ctrl_count > 0) {
		vfio_detach(a, &a->ctrls[a->ctrl_count - 1]);
	}
	if (a->vfio != NULL) {
		kb_vfio_close(a->vfio);
		a->vfio = NULL;
	}
}
