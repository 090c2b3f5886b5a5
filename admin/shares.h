/* shares.h - one share as JSON in the pool, and compiled for nfsd. Private to admin/. */
#ifndef AGATE_ADMIN_SHARES_H
#define AGATE_ADMIN_SHARES_H

#include "admin/admin_int.h"

/*
 * A share in the pool's list:
 *   {"id":1, "path":"/tank/share", "dataset":"tank/share", "subdir":"", "rw":"10.0.0.0/24",
 * "ro":"", "squash":"root_squash", "anonuid":65534, "anongid":65534, "insecure":false} rw and ro
 * are lists of clients with commas between; the rw list is looked at first.
 */
json_t *share_find(struct adm_pool *ap, const char *path);
/* "name=value" onto share; checks everything. -EINVAL. */
int share_apply(json_t *share, const char *prop, struct adm_error *e) WARN_UNUSED;
/* -EINVAL: no client at all. out->rules is for mem_free. */
int share_compile(json_t *share, struct nfsd_export *out, struct adm_error *e) WARN_UNUSED;

#endif
