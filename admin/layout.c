/* layout.c - the drives of a request: sets, log, spares; opened, and nobody's. */
#include <stdio.h>
#include "admin/layout.h"

void
layout_close(struct layout *c)
{
	for (uint32_t s = 0; s < LAYOUT_SETS_MAX; s++) {
		for (uint32_t i = 0; i < c->sets[s].width; i++) {
			kb_close(c->set_drives[s][i]);
		}
	}
	for (uint32_t i = 0; i < c->spec.log_count; i++) {
		kb_close(c->logs[i]);
	}
	for (uint32_t i = 0; i < c->spec.spare_count; i++) {
		kb_close(c->spares[i]);
	}
}

/* Opens the drives of one list. *out_count grows with each that is open, so that layout_close
 * knows. */
static int
layout_open(struct adm *a, const struct layout *c, json_t *names, struct kb_drive **out,
    uint32_t *out_count, struct adm_error *e)
{
	size_t i;
	json_t *name;
	uint32_t max = out == c->logs     ? LAYOUT_LOGS_MAX
		       : out == c->spares ? LAYOUT_SPARES_MAX
					  : RAIDZ_WIDTH_MAX;
	if (json_array_size(names) > max) {
		return adm_fail(e, EINVAL, "%zu drives in one group; there can be at most %u",
		    json_array_size(names), max);
	}
	json_array_foreach(names, i, name)
	{
		const char *text = json_string_value(name);
		if (text == NULL) {
			return adm_fail(e, EINVAL, "a drive's name is missing");
		}
		int err = drives_open(a, text, c->force, &out[i], e);
		if (err != 0) {
			return err;
		}
		*out_count = (uint32_t)i + 1;
	}
	return 0;
}

static int
layout_bad_kind(const char *kind, struct adm_error *e)
{
	return adm_fail(e, EINVAL,
	    "'%.60s' is no kind of set; there are raidz1, raidz2, raidz3, mirror",
	    kind != NULL ? kind : "");
}

static int
layout_set(struct adm *a, struct layout *c, json_t *set, struct adm_error *e)
{
	const char *kind = json_string_value(json_object_get(set, "kind"));
	struct pool_set_spec *s = &c->sets[c->spec.set_count];
	s->drives = c->set_drives[c->spec.set_count];
	c->spec.set_count++;
	if (kind != NULL && strncmp(kind, "raidz", 5) == 0) {
		s->kind = RAIDZ_KIND_PARITY;
		s->parity = kind[5] == '\0' ? 1 : (uint32_t)(kind[5] - '0');
		if (s->parity < 1 || s->parity > RAIDZ_PARITY_MAX ||
		    (kind[5] != '\0' && kind[6] != '\0')) {
			return layout_bad_kind(kind, e);
		}
	} else if (kind != NULL && (strcmp(kind, "mirror") == 0 || strcmp(kind, "single") == 0)) {
		s->kind = RAIDZ_KIND_MIRROR;
	} else {
		return layout_bad_kind(kind, e);
	}
	size_t width = json_array_size(json_object_get(set, "drives"));
	if (kind[0] == 's' ? width != 1 : width == 0) {
		return adm_fail(e, EINVAL, "a %s set of %zu drives can't be", kind, width);
	}
	return layout_open(a, c, json_object_get(set, "drives"), s->drives, &s->width, e);
}

int
layout_parse(struct adm *a, json_t *args, struct layout *c, struct adm_error *e)
{
	json_t *sets = json_object_get(args, "sets");
	size_t i;
	json_t *set;
	if (json_array_size(sets) > LAYOUT_SETS_MAX) {
		return adm_fail(e, EINVAL, "a pool has 1 to %u sets of drives", LAYOUT_SETS_MAX);
	}
	c->spec.sets = c->sets;
	c->spec.logs = c->logs;
	c->spec.spares = c->spares;
	json_int_t log_bytes = json_integer_value(json_object_get(args, "log_bytes"));
	if (log_bytes < 0) {
		return adm_fail(e, EINVAL, "a log of %lld bytes can't be", (long long)log_bytes);
	}
	c->spec.log_bytes = (uint64_t)log_bytes;
	c->force = adm_arg_flag(args, "force");
	c->spec.host_name = a->host_name;
	c->spec.host_id = a->host_id;
	json_array_foreach(sets, i, set)
	{
		int err = layout_set(a, c, set, e);
		if (err != 0) {
			return err;
		}
	}
	int err = layout_open(a, c, json_object_get(args, "logs"), c->logs, &c->spec.log_count, e);
	if (err == 0) {
		err = layout_open(
		    a, c, json_object_get(args, "spares"), c->spares, &c->spec.spare_count, e);
	}
	return err;
}

int
layout_check_drives(struct adm *a, const struct layout *c, struct adm_error *e)
{
	int err = 0;
	for (uint32_t s = 0; s < c->spec.set_count; s++) {
		for (uint32_t i = 0; err == 0 && i < c->sets[s].width; i++) {
			err = drives_check_free(a, c->set_drives[s][i], false, c->force, e);
		}
	}
	for (uint32_t i = 0; err == 0 && i < c->spec.log_count; i++) {
		err = drives_check_free(a, c->logs[i], false, c->force, e);
	}
	for (uint32_t i = 0; err == 0 && i < c->spec.spare_count; i++) {
		err = drives_check_free(a, c->spares[i], true, c->force, e);
	}
	return err;
}

void
layout_log_warning(const struct kb_drive *d, char *out, size_t len)
{
	bool volatile_cache;
	(void)kb_physical(d, &volatile_cache);
	out[0] = '\0';
	if (volatile_cache) {
		snprintf(out, len,
		    "log drive %.160s has a write cache that a power cut empties: every record "
		    "waits "
		    "for its medium, which is safe but slow; one with power-loss protection "
		    "answers "
		    "at once",
		    kb_path(d));
	}
}

void
layout_replace_warning(uint32_t old_physical_bytes, const struct kb_drive *d, char *out, size_t len)
{
	bool volatile_cache;
	uint32_t physical = kb_physical(d, &volatile_cache);
	out[0] = '\0';
	if (physical > MAX(old_physical_bytes, SECTOR_BYTES)) {
		snprintf(out, len,
		    "drive %.160s writes %u KiB at a time, the one it replaces less: small writes "
		    "cost it more",
		    kb_path(d), physical / 1024);
	}
}

/* One set: what of each drive is used, and what of the larger ones isn't. */
static json_t *
set_json(const struct pool_set_spec *s, json_t *warnings)
{
	uint64_t least = UINT64_MAX, sum = 0;
	uint32_t physical = 0;
	bool ignored;
	for (uint32_t i = 0; i < s->width; i++) {
		uint32_t one = kb_physical(s->drives[i], &ignored);
		least = MIN(least, kb_pool_bytes(kb_size(s->drives[i])));
		sum += kb_size(s->drives[i]);
		physical = MAX(physical, one);
		if (one > SECTOR_BYTES) {
			json_array_append_new(warnings,
			    json_sprintf("drive %s writes %u KiB at a time: writes of less cost it "
					 "more; keep recordsize at %u or above",
				kb_path(s->drives[i]), one / 1024,
				one * MAX(s->width - s->parity, 1u)));
		}
	}
	const char *kind = s->kind == RAIDZ_KIND_PARITY ? "raidz"
			   : s->width == 1              ? "single"
							: "mirror";
	return json_pack("{s:s, s:i, s:i, s:I, s:I, s:i}", "kind", kind, "parity", (int)s->parity,
	    "width", (int)s->width, "drive_bytes", (json_int_t)least, "unused_bytes",
	    (json_int_t)(sum - least * s->width), "sector", (int)physical);
}

json_t *
layout_plan_json(const struct pool_plan *plan, const struct layout *l)
{
	json_t *sets = json_array(), *warnings = json_array();
	char text[400];
	for (uint32_t i = 0; i < l->spec.set_count; i++) {
		json_array_append_new(sets, set_json(&l->sets[i], warnings));
	}
	for (uint32_t i = 0; i < l->spec.log_count; i++) {
		layout_log_warning(l->logs[i], text, sizeof(text));
		if (text[0] != '\0') {
			json_array_append_new(warnings, adm_text(text));
		}
	}
	return json_pack("{s:I, s:I, s:I, s:i, s:i, s:o, s:o}", "raw", (json_int_t)plan->raw_bytes,
	    "usable", (json_int_t)plan->usable_bytes, "log", (json_int_t)plan->log_ring_bytes,
	    "small_record_percent", (int)plan->small_record_percent, "tolerates",
	    (int)plan->tolerates, "layout", sets, "warnings", warnings);
}
