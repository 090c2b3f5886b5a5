/* vfio.h - the engine's side of NVMe drives on VFIO; see vfio.c. */
#ifndef AGATE_ADMIN_VFIO_H
#define AGATE_ADMIN_VFIO_H

#include "admin/admin_int.h"

/* Brings up what vfio-pci has and, with the setting vfio, binds labelled drives first. */
void vfio_start(struct adm *a) MAY_PARK;
void vfio_stop(struct adm *a) MAY_PARK;
/* Has an NVMe drive come or gone since the last refresh? Cheap. lock shared. */
bool vfio_changed(struct adm *a) MAY_PARK;
/* Lets go of controllers that have died, and takes what has come by the policy of vfio_start, so that drives_scan shows
 * it. lock exclusively. */
void vfio_refresh(struct adm *a) MAY_PARK;
/* A function that vfio-pci has. 0 or -errno, with a reason (static, or NULL). */
int vfio_attach(struct adm *a, const char *address, const char **out_why) WARN_UNUSED MAY_PARK;
void vfio_give_back(struct adm *a, const char *address) MAY_PARK; /* to the kernel */
void vfio_detach(struct adm *a, struct adm_ctrl *ac) MAY_PARK;  /* no drive of it is open */
void vfio_drop_dead(struct adm *a) MAY_PARK;
struct adm_ctrl *vfio_find(struct adm *a, const char *address); /* NULL */
/* path: as kb_path of such a drive, "pci:0000:05:00.0/1". 0; -ENOENT; as kb_nvme_open. */
int vfio_open(struct adm *a, const char *path, struct kb_drive **out) WARN_UNUSED MAY_PARK;
/* The machine's NVMe controllers, an array to mem_free; returns how many. */
uint32_t vfio_functions(struct kb_pci **out) MAY_PARK;
/* Why the kernel drives this drive; "" when it is no NVMe drive. Lives as long as functions. */
const char *vfio_note(const struct kb_pci *functions, uint32_t count, const char *path);
void vfio_scan(
    struct adm *a, void (*found)(void *arg, const struct kb_found *f), void *arg) MAY_PARK;

#endif
