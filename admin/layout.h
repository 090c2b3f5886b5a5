/* layout.h - the drives that a request names, for pool create and pool add. */
#ifndef AGATE_ADMIN_LAYOUT_H
#define AGATE_ADMIN_LAYOUT_H

#include "admin/admin_int.h"

#define LAYOUT_SETS_MAX 32u
#define LAYOUT_SPARES_MAX 32u
#define LAYOUT_LOGS_MAX 4u

/* Owns the drives until a pool takes them. */
struct layout {
	struct pool_create_spec spec; /* all but the name */
	struct pool_set_spec sets[LAYOUT_SETS_MAX];
	struct kb_drive *set_drives[LAYOUT_SETS_MAX][RAIDZ_WIDTH_MAX];
	struct kb_drive *logs[LAYOUT_LOGS_MAX];
	struct kb_drive *spares[LAYOUT_SPARES_MAX];
	bool force;
};

/* "sets", "logs", "spares", "log_bytes", "force" of args; opens the drives. l is zeroed. layout_close also on failure. */
int layout_parse(struct adm *a, json_t *args, struct layout *l, struct adm_error *e) MAY_PARK;
void layout_close(struct layout *l) MAY_PARK;
/* May they be used? */
int layout_check_drives(struct adm *a, const struct layout *l, struct adm_error *e) MAY_PARK;
/* What the layout gives, what of its drives is used, and what is to be said against it. Before a pool owns the drives. */
json_t *layout_plan_json(const struct pool_plan *plan, const struct layout *l);
/* As a new log drive, or as another drive's place: a sentence against it, or "". */
void layout_log_warning(const struct kb_drive *d, char *out, size_t len);
void layout_replace_warning(uint32_t old_physical_bytes, const struct kb_drive *d, char *out, size_t len);

#endif
