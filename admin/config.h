/* config.h - agated.conf: the machine's settings. Pool settings live in the pools. */
#ifndef AGATE_ADMIN_CONFIG_H
#define AGATE_ADMIN_CONFIG_H

#include "base/base.h"

struct adm_config {
	char listen[64];       /* address for NFS, MOUNT, port mapper; "" = all */
	uint16_t nfs_port;     /* 2049; 0 = any */
	uint16_t mount_port;   /* 20048; 0 = any */
	uint16_t portmap_port; /* 111 */
	bool portmap;          /* on */
	char socket[108];      /* AGATE_SOCKET_DEFAULT */
	char drives_dir[256];  /* image files instead of the machine's drives; "" = the machine's */
	char user[32];         /* the engine's user; "" = stay who we are */
	unsigned reactors;     /* 0 = one per core */
	uint64_t memory_bytes; /* I/O buffers and cache; 0 = half of the machine's memory */
	bool import_auto;      /* on */
	bool vfio;             /* off; on: drives of our pools leave the kernel at start */
	bool debug;
};

void config_defaults(struct adm_config *c);
/* "key = value" lines, # comments. Unknown keys and bad values are errors: -EINVAL with file:line
 * in why. -ENOENT. */
int config_load(const char *path, struct adm_config *c, char *why, size_t why_len) WARN_UNUSED;
/* One "key=value". */
int config_set(struct adm_config *c, const char *key, const char *value, char *why,
    size_t why_len) WARN_UNUSED;

#endif
