/*
 * plan.c - would this make a pool, and what would it give? Every refusal says what to change.
 */
#include <ctype.h>
#include <stdio.h>

#include "pool/pool_int.h"

#define DATA_DRIVE_BYTES_MIN (64 * MIB)
#define LOG_DRIVE_BYTES_MIN (16 * MIB)
#define SPARE_DRIVE_BYTES_MIN DATA_DRIVE_BYTES_MIN
#define SMALL_RECORD_BYTES (8u << 10)

int
plan_check_name(const char *name, char *why, size_t why_len)
{
	size_t len = name != NULL ? strlen(name) : 0;
	bool ok = len > 0 && len <= POOL_NAME_MAX && isalpha((unsigned char)name[0]);

	for (size_t i = 0; ok && i < len; i++) {
		ok = isalnum((unsigned char)name[i]) || strchr("_-.", name[i]) != NULL;
	}
	if (!ok) {
		(void)snprintf(why, why_len,
		    "a pool name has 1 to %u letters, digits, '_', '-' or '.', and starts with a "
		    "letter",
		    POOL_NAME_MAX);
	}
	return ok ? 0 : -EINVAL;
}

static int
check_drive(struct kb_drive *d, uint64_t least, const char *what, char *why, size_t why_len)
{
	if (kb_size(d) < least) {
		(void)snprintf(why, why_len,
		    "%s has %llu bytes; a %s drive needs at least %llu bytes (%llu MiB)",
		    kb_path(d), (unsigned long long)kb_size(d), what, (unsigned long long)least,
		    (unsigned long long)(least / MIB));
		return -EINVAL;
	}
	return 0;
}

int
plan_check_set(const struct pool_set_spec *set, uint32_t index, char *why, size_t why_len)
{
	if (set->kind == RAIDZ_KIND_PARITY &&
	    (set->parity < 1 || set->parity > RAIDZ_PARITY_MAX || set->width < set->parity + 2 ||
		set->width > RAIDZ_WIDTH_MAX)) {
		(void)snprintf(why, why_len,
		    "set %u: a set with %u parity has %u to %u drives, not %u", index, set->parity,
		    set->parity + 2, RAIDZ_WIDTH_MAX, set->width);
		return -EINVAL;
	}
	if (set->kind == RAIDZ_KIND_MIRROR && (set->width < 1 || set->width > RAIDZ_WIDTH_MAX)) {
		(void)snprintf(
		    why, why_len, "set %u: a mirror has 1 to %u drives", index, RAIDZ_WIDTH_MAX);
		return -EINVAL;
	}
	for (uint32_t i = 0; i < set->width; i++) {
		int err = check_drive(set->drives[i], DATA_DRIVE_BYTES_MIN, "pool", why, why_len);

		if (err != 0) {
			return err;
		}
	}
	return 0;
}

static int
check_set(const struct pool_create_spec *spec, uint32_t index, char *why, size_t why_len)
{
	const struct pool_set_spec *set = &spec->sets[index];

	if (set->kind != spec->sets[0].kind || set->parity != spec->sets[0].parity) {
		(void)snprintf(why, why_len,
		    "set %u: all sets of a pool have the same kind and parity; a weaker one would "
		    "decide what the pool survives",
		    index);
		return -EINVAL;
	}
	return plan_check_set(set, index, why, why_len);
}

static int
check_log(const struct pool_create_spec *spec, char *why, size_t why_len)
{
	for (uint32_t i = 0; i < spec->log_count; i++) {
		int err = check_drive(spec->logs[i], LOG_DRIVE_BYTES_MIN, "log", why, why_len);
		uint64_t room;

		if (err != 0) {
			return err;
		}
		room = kb_pool_bytes(kb_size(spec->logs[i])) - LABEL_FRONT_BYTES - LABEL_BACK_BYTES;
		if (spec->log_bytes > room ||
		    (spec->log_bytes != 0 && spec->log_bytes < ILOG_REGION_BYTES_MIN)) {
			(void)snprintf(why, why_len, "a log of %llu bytes: %s takes %llu to %llu",
			    (unsigned long long)spec->log_bytes, kb_path(spec->logs[i]),
			    (unsigned long long)ILOG_REGION_BYTES_MIN, (unsigned long long)room);
			return -EINVAL;
		}
	}
	return 0;
}

/* The n-th drive of the whole spec; NULL behind the last. */
static struct kb_drive *
nth_drive(const struct pool_create_spec *spec, uint32_t n)
{
	for (uint32_t i = 0; i < spec->set_count; i++) {
		if (n < spec->sets[i].width) {
			return spec->sets[i].drives[n];
		}
		n -= spec->sets[i].width;
	}
	if (n < spec->log_count) {
		return spec->logs[n];
	}
	n -= spec->log_count;
	return n < spec->spare_count ? spec->spares[n] : NULL;
}

static int
check_twice(const struct pool_create_spec *spec, char *why, size_t why_len)
{
	struct kb_drive *a, *b;

	for (uint32_t i = 0; (a = nth_drive(spec, i)) != NULL; i++) {
		for (uint32_t k = 0; k < i; k++) {
			b = nth_drive(spec, k);
			if (a == b || strcmp(kb_id(a), kb_id(b)) == 0) {
				(void)snprintf(
				    why, why_len, "%s is named twice (%s)", kb_path(a), kb_id(a));
				return -EINVAL;
			}
		}
	}
	return 0;
}

int
plan_check_spare(struct kb_drive *d, char *why, size_t why_len)
{
	return check_drive(d, SPARE_DRIVE_BYTES_MIN, "spare", why, why_len);
}

int
plan_check(const struct pool_create_spec *spec, char *why, size_t why_len)
{
	int err = plan_check_name(spec->name, why, why_len);

	if (err == 0 && (spec->set_count < 1 || spec->set_count > POOL_SETS_MAX)) {
		(void)snprintf(why, why_len, "a pool has 1 to %u sets", POOL_SETS_MAX);
		return -EINVAL;
	}
	if (err == 0 && spec->log_count > ILOG_SIDES_MAX) {
		(void)snprintf(why, why_len, "a log has at most %u drives", ILOG_SIDES_MAX);
		return -EINVAL;
	}
	for (uint32_t i = 0; err == 0 && i < spec->set_count; i++) {
		err = check_set(spec, i, why, why_len);
	}
	if (err == 0) {
		err = check_log(spec, why, why_len);
	}
	for (uint32_t i = 0; err == 0 && i < spec->spare_count; i++) {
		err = plan_check_spare(spec->spares[i], why, why_len);
	}
	return err != 0 ? err : check_twice(spec, why, why_len);
}

void
plan_figures(const struct vdevs *v, uint32_t first_set, struct pool_plan *out)
{
	uint64_t total = 0;

	*out = (struct pool_plan){.tolerates = UINT32_MAX};
	for (uint32_t i = first_set; i < v->set_count; i++) {
		uint64_t sectors = raidz_capacity_sectors(&v->sets[i].cfg);
		uint32_t small = raidz_alloc_sectors(&v->sets[i].cfg, SMALL_RECORD_BYTES);

		if (v->sets[i].cfg.kind == RAIDZ_KIND_MIRROR) {
			small *= v->sets[i].cfg.width;
		}
		/* as in pool_status: a mirror counts once */
		out->raw_bytes += sectors * SECTOR_BYTES;
		total += sectors;
		out->small_record_percent =
		    MAX(out->small_record_percent, small * SECTOR_BYTES * 100 / SMALL_RECORD_BYTES);
		out->tolerates = MIN(out->tolerates, raidz_tolerates(&v->sets[i].cfg));
	}
	out->usable_bytes = space_geometry_bytes(v,
	    total - MIN(total, space_reserve_of(total) + space_overhead_of(v, first_set, total)));
}

int
pool_plan_create(
    const struct pool_create_spec *spec, struct pool_plan *out, char *out_why, size_t why_len)
{
	struct vdevs v;
	int err = vdev_layout(spec, &v, out_why, why_len);

	if (err != 0) {
		return err;
	}
	plan_figures(&v, 0, out);
	out->log_ring_bytes = vdev_log_ring_bytes(&v, spec->log_count == 0);
	vdev_free(&v, false);
	return 0;
}
