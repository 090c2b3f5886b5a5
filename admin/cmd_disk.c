/*
 * cmd_disk.c - disk bind, unbind, health: which driver an NVMe drive has, and how it is. A drive
 * moves with its whole controller, so all namespaces are looked at, and only while no pool has one
 * of them.
 */
#include <stdio.h>
#include "admin/vfio.h"

struct disk_find {
	const char *name;
	struct kb_pci *pci;
	int err;
};

static void
disk_find_run(void *arg)
{
	struct disk_find *f = arg;
	f->err = kb_pci_find(f->name, f->pci);
}

/* By anything that names a drive, or by PCI address. */
static int
disk_find(struct adm *a, const char *name, struct kb_pci *out, struct adm_error *e)
{
	struct kb_found *found = mem_zalloc(sizeof(*found));
	struct disk_find f = {.name = name, .pci = out};
	if (found == NULL) {
		return adm_fail(e, ENOMEM, "out of memory");
	}
	if (!kb_pci_is_address(name)) {
		f.err = drives_resolve(a, name, found);
		f.name = found->info.path;
	}
	if (f.err == 0) {
		offload(disk_find_run, &f);
		if (f.err != 0 && !kb_pci_is_address(name)) {
			f.err = -ENOTBLK;
		}
	}
	mem_free(found);
	if (f.err == 0) {
		return 0;
	}
	adm_fail_next(e, "'disk list' shows the drives of this machine.");
	if (f.err == -ENOTBLK) {
		return adm_fail(
		    e, EINVAL, "'%.200s' is no NVMe drive: it stays with the kernel", name);
	}
	return adm_fail(e, f.err, "there is no drive '%.200s'", name);
}

/* ---- bind ---- */

struct disk_check {
	struct adm *a;
	const struct kb_pci *pci;
	bool force;
	struct adm_error *e;
	int err;
};

static void
disk_check_one(void *arg, const struct kb_found *f)
{
	struct disk_check *c = arg;
	const char *pool = NULL;
	if (c->err != 0 || !kb_pci_has(c->pci, f->info.path)) {
		return;
	}
	if (drives_in_service(c->a, f->info.id, &pool)) {
		adm_fail_next(c->e, "'pool export %s' first.", pool);
		c->err =
		    adm_fail(c->e, EBUSY, "drive %s is in use by pool '%s'", f->info.path, pool);
	} else if (f->used_by[0] != '\0' && !c->force) {
		adm_fail_next(c->e, "If nobody needs what is on it, add -f.");
		c->err =
		    adm_fail(c->e, EBUSY, "drive %s is not ours: %s", f->info.path, f->used_by);
	}
}

static int
disk_check(struct adm *a, const struct kb_pci *p, bool force, struct adm_error *e)
{
	struct disk_check c = {.a = a, .pci = p, .force = force, .e = e};
	int err = kb_scan(NULL, disk_check_one, &c);
	return err != 0 ? adm_fail(e, err, "the drives can't be listed: %s", err_str(err)) : c.err;
}

static json_t *
disk_answer(const char *address, const char *driver)
{
	return json_pack("{s:s, s:s}", "address", address, "driver", driver);
}

static int
disk_bind(struct adm *a, json_t *args, json_t **out, struct adm_error *e)
{
	const char *name = adm_arg_string(args, "drive", e);
	const char *why = NULL;
	struct kb_pci p;
	char text[160];
	int err = name == NULL ? -EINVAL : disk_find(a, name, &p, e);
	if (err != 0) {
		return err;
	}
	vfio_drop_dead(a);
	if (vfio_find(a, p.address) != NULL) {
		*out = disk_answer(p.address, "nvme");
		return 0;
	}
	err = disk_check(a, &p, adm_arg_flag(args, "force"), e);
	if (err != 0) {
		return err;
	}
	err = parent_bind(a, p.address, true, text, sizeof(text));
	if (err != 0) {
		adm_fail_untouched(e, "The kernel still drives it.");
		return adm_fail(e, err, "drive '%.100s' can't be bound: %s", name, text);
	}
	err = vfio_attach(a, p.address, &why);
	if (err != 0) {
		vfio_give_back(a, p.address);
		adm_fail_untouched(e, "It was given back to the kernel.");
		return adm_fail(e, err, "drive '%.100s' can't be driven: %s (%s)", name,
		    why != NULL ? why : "", err_str(err));
	}
	*out = disk_answer(p.address, "nvme");
	return 0;
}

static int
disk_unbind(struct adm *a, json_t *args, json_t **out, struct adm_error *e)
{
	const char *name = adm_arg_string(args, "drive", e);
	struct kb_pci p;
	char text[160];
	int err = name == NULL ? -EINVAL : disk_find(a, name, &p, e);
	if (err != 0) {
		return err;
	}
	vfio_drop_dead(a);
	struct adm_ctrl *ac = vfio_find(a, p.address);
	if (ac != NULL && kb_nvme_in_use(ac->ctrl)) {
		adm_fail_next(e, "'pool export' first.");
		return adm_fail(e, EBUSY, "drive '%.100s' is in use by a pool", name);
	}
	if (ac != NULL) {
		vfio_detach(a, ac);
	}
	err = parent_bind(a, p.address, false, text, sizeof(text));
	if (err != 0) {
		return adm_fail(e, err, "drive '%.100s' can't be given back: %s", name, text);
	}
	*out = disk_answer(p.address, "kernel");
	return 0;
}

/* ---- health ---- */

static json_t *
disk_health_warnings(const struct kb_health *h)
{
	json_t *list = json_array();
	const struct {
		bool on;
		const char *text;
	} all[] = {{h->spare_low, "spare blocks running out"}, {h->too_hot, "temperature"},
	    {h->degraded, "reliability degraded"}, {h->read_only, "read-only"},
	    {h->backup_failed, "power-loss protection failed"}};
	for (size_t i = 0; i < ARRAY_LEN(all); i++) {
		if (all[i].on) {
			json_array_append_new(list, json_string(all[i].text));
		}
	}
	return list;
}

static json_t *
disk_health_one(const struct kb_info *info, const struct kb_health *h)
{
	return json_pack("{s:o, s:o, s:o, s:i, s:i, s:i, s:I, s:I, s:I, s:I, s:I, s:I, s:o}",
	    "path", adm_text(info->path), "serial", adm_text(info->serial), "firmware",
	    adm_text(h->firmware), "temperature", h->temperature_c, "used", (int)h->used_percent,
	    "spare", (int)h->spare_percent, "read",
	    (json_int_t)MIN(h->read_bytes, (uint64_t)INT64_MAX), "written",
	    (json_int_t)MIN(h->written_bytes, (uint64_t)INT64_MAX), "hours",
	    (json_int_t)MIN(h->power_on_hours, (uint64_t)INT64_MAX), "media_errors",
	    (json_int_t)MIN(h->media_errors, (uint64_t)INT64_MAX), "unsafe_shutdowns",
	    (json_int_t)MIN(h->unsafe_shutdowns, (uint64_t)INT64_MAX), "power_cycles",
	    (json_int_t)MIN(h->power_cycles, (uint64_t)INT64_MAX), "warnings",
	    disk_health_warnings(h));
}

/* Of the drives that the engine drives itself. */
static int
disk_health(struct adm *a, json_t *args, json_t **out, struct adm_error *e)
{
	json_t *list = json_array();
	(void)args;
	for (uint32_t i = 0; i < a->ctrl_count; i++) {
		struct kb_health h;
		struct kb_info info;
		int err = kb_nvme_hold_health(a->ctrls[i].ctrl, &h);
		if (!kb_nvme_info(a->ctrls[i].ctrl, 0, &info)) {
			snprintf(info.path, sizeof(info.path), "pci:%s", a->ctrls[i].address);
		}
		json_array_append_new(list,
		    err == 0 ? disk_health_one(&info, &h)
			     : json_pack("{s:o, s:o, s:[s]}", "path", adm_text(info.path), "serial",
				   adm_text(info.serial), "warnings", err_str(err)));
	}
	(void)e;
	*out = list;
	return 0;
}

const struct adm_command adm_disk_commands[] = {
    {"disk bind", disk_bind, ADM_CHANGE},
    {"disk unbind", disk_unbind, ADM_CHANGE},
    {"disk health", disk_health, ADM_LOOK_PRIVILEGED},
    {NULL, NULL, ADM_LOOK},
};
