/* drc.h - the duplicate-request cache (RFC 1813 4.5). Private to nfsd/. */
#ifndef AGATE_NFSD_DRC_H
#define AGATE_NFSD_DRC_H

#include "fs/fs.h"

struct drc;
struct drc_entry;

int drc_create(uint32_t entries_max, struct drc **out) WARN_UNUSED;
void drc_destroy(struct drc *d);

/*
 * drc_begin - has this call been seen? NULL and *out_len > 0: yes, its reply body is in out (waited
 * for while the first copy was running). Otherwise it is new: end the returned entry with drc_end.
 * NULL and *out_len == 0: the cache is full of calls in progress; run it uncached. May park.
 */
struct drc_entry *drc_begin(struct drc *d, const struct fs_origin *key, uint8_t out[FS_REPLY_MAX],
    uint32_t *out_len) MAY_PARK;
/* Remember the reply, or with len 0 forget that the call was ever seen (it may be tried again). */
void drc_end(struct drc *d, struct drc_entry *e, const void *reply, uint32_t len) MAY_PARK;
/* A reply found in a pool, after a crash perhaps. A later one for the same key counts. */
void drc_restore(void *drc, const struct fs_origin *key, const void *reply, uint32_t len) MAY_PARK;

#endif
