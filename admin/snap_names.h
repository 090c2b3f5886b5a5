/* snap_names.h - lists of names of snapshots. Private to admin/. */
#ifndef AGATE_ADMIN_SNAP_NAMES_H
#define AGATE_ADMIN_SNAP_NAMES_H

#include "admin/admin_int.h"

struct snap_names {
	char **v; /* each in memory of its own */
	uint32_t count, cap;
	bool no_memory;
};
void snap_names_add_text(struct snap_names *n, const char *text);
bool snap_name_is_hidden(const char *name); /* of "path@snap" */
void snap_names_add(struct snap_names *n, const char *path, const char *snap);
void snap_names_free(struct snap_names *n);
json_t *snap_names_json(const struct snap_names *n);

/* "path@snap": is it of that shape? What is in front of the @ goes to path. */
bool snap_name_split(const char *name, char path[DATASET_NAME_MAX + 1], const char **out_snap);
/* All snapshots of path, hidden ones too; from the one behind after ("path@snap") on, unless that is NULL. only_hidden: without those that are seen. */
int snap_names_of(struct adm_pool *ap, const char *path, const char *after, bool only_hidden, struct snap_names *out);
/* Hidden snapshots of the pool whose names begin so; nothing is read when there are none. */
int snap_names_hidden(struct adm_pool *ap, const char *prefix, struct snap_names *out);
/* path@snap, and with recursive the same of everything below. */
int snap_names_each_below(struct adm_pool *ap, const char *name, bool recursive,
    struct snap_names *out, struct adm_error *e);
/*
 * Those that "path@A,B%C,%D,E%" means: A; all from B to C, in the order they were taken; all up to
 * D; all from E on. recursive: the same names of everything below, as far as they exist there.
 */
int snap_names_expand(struct adm_pool *ap, const char *spec, bool recursive, struct snap_names *out,
    struct adm_error *e) MAY_PARK;
/* The same of those that were destroyed and can be had back, by the names they had. */
int snap_names_expand_destroyed(struct adm_pool *ap, const char *spec, bool recursive, struct snap_names *out,
    struct adm_error *e) MAY_PARK;

#endif
