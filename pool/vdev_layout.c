/*
 * vdev_layout.c - where things go on the drives of new sets: segments, rings, columns. In memory
 * only.
 */
#include <stdio.h>

#include "pool/label.h"
#include "pool/pool_int.h"

#define SEGMENTS_AIM 256u
#define SEGMENTS_MIN 8u
#define SEGMENT_SECTORS_MIN (16 * MIB / SECTOR_BYTES)
#define SEGMENT_SECTORS_MAX (4 * GIB / SECTOR_BYTES)
#define SEGMENTS_MAX (SEGMENT_TABLE_BYTES / sizeof(struct segment_entry))
#define MAP_RECORDS_MAX (SEGMENT_MAP_BYTES_MAX / sizeof(struct map_record))
#define RING_SHARE 32u
#define RING_BYTES_MAX (1 * GIB)

/* ---- layout ---- */

static uint64_t
set_granule(const struct raidz_config *cfg)
{
	return cfg->kind == RAIDZ_KIND_PARITY ? cfg->parity + 1 : 1;
}

/* About 256 segments of 16 MiB to 4 GiB, at least 8, whole rows each. */
static int
layout_segments(struct vdev_set *set)
{
	uint64_t granule = set_granule(&set->cfg);
	uint64_t row = granule * (set->cfg.kind == RAIDZ_KIND_PARITY ? set->cfg.width : 1);
	uint64_t capacity = raidz_capacity_sectors(&set->cfg);
	uint64_t seg = capacity / SEGMENTS_AIM;

	capacity -= capacity % granule;
	seg = MIN(MAX(seg, SEGMENT_SECTORS_MIN), SEGMENT_SECTORS_MAX);
	seg = MIN(seg, capacity / SEGMENTS_MIN);
	seg = MAX(seg, DIV_UP(capacity, SEGMENTS_MAX));
	/* down on small sets, up on those that have as many segments as there can be */
	seg = seg > SEGMENT_SECTORS_MAX ? DIV_UP(seg, row) * row : seg - seg % row;
	if (seg == 0 || seg / granule > MAP_RECORDS_MAX) {
		return -EINVAL;
	}
	set->segment_sectors = seg;
	set->segment_count = DIV_UP(capacity, seg);
	return 0;
}

static uint64_t
smallest_region(struct kb_drive *const *drives, uint32_t count)
{
	uint64_t least = UINT64_MAX;

	for (uint32_t i = 0; i < count; i++) {
		least = MIN(least, kb_pool_bytes(kb_size(drives[i])));
	}
	return least;
}

uint64_t
vdev_region_need(const struct vdev_set *set)
{
	return set->cfg.base_bytes - KB_POOL_START + set->cfg.column_bytes + LABEL_BACK_BYTES;
}

int
vdev_layout_set(struct vdevs *v, const struct pool_set_spec *spec, uint32_t index)
{
	struct vdev_set *set = &v->sets[index];
	uint64_t region = smallest_region(spec->drives, spec->width);
	uint64_t column = region - LABEL_FRONT_BYTES - LABEL_BACK_BYTES;

	if (index == 0) {
		uint64_t ring = column / RING_SHARE / LABEL_BYTES * LABEL_BYTES;

		v->ring_bytes = MIN(MAX(ring, ILOG_REGION_BYTES_MIN), RING_BYTES_MAX);
		column -= v->ring_bytes;
	}
	rt_random_bytes(&set->guid, sizeof(set->guid));
	set->cfg = (struct raidz_config){
	    .kind = spec->kind,
	    .width = spec->width,
	    .parity = spec->kind == RAIDZ_KIND_PARITY ? spec->parity : 0,
	    .base_bytes = KB_POOL_START + LABEL_FRONT_BYTES + (index == 0 ? v->ring_bytes : 0),
	    .column_bytes = column,
	};
	return layout_segments(set);
}

bool
vdev_layout_drive(
    struct vdevs *v, struct kb_drive *kb, enum drive_role role, uint32_t set_index, uint32_t column)
{
	struct vdev_drive *d = vdev_entry_new(v);

	if (d == NULL) {
		return false;
	}
	rt_random_bytes(&d->guid, sizeof(d->guid));
	d->kb = kb;
	d->set_index = set_index;
	d->column = column;
	d->state = DRIVE_STATE_ONLINE;
	d->region_bytes = kb_pool_bytes(kb_size(kb));
	(void)snprintf(d->id, sizeof(d->id), "%s", kb_id(kb));
	(void)snprintf(d->path, sizeof(d->path), "%s", kb_path(kb));
	d->role = role; /* from here on others see it */
	return true;
}

static void
layout_drives(struct vdevs *v, const struct pool_create_spec *spec)
{
	for (uint32_t i = 0; i < spec->set_count; i++) {
		for (uint32_t c = 0; c < spec->sets[i].width; c++) {
			(void)vdev_layout_drive(v, spec->sets[i].drives[c], DRIVE_ROLE_DATA, i, c);
		}
	}
	for (uint32_t i = 0; i < spec->log_count; i++) {
		(void)vdev_layout_drive(v, spec->logs[i], DRIVE_ROLE_LOG, 0, i);
	}
	for (uint32_t i = 0; i < spec->spare_count; i++) {
		(void)vdev_layout_drive(v, spec->spares[i], DRIVE_ROLE_SPARE, 0, 0);
	}
}

int
vdev_layout(const struct pool_create_spec *spec, struct vdevs *out, char *why, size_t why_len)
{
	struct vdevs v = {0};
	uint32_t drives = spec->log_count + spec->spare_count;
	int err = plan_check(spec, why, why_len);

	if (err != 0) {
		return err;
	}
	for (uint32_t i = 0; i < spec->set_count; i++) {
		drives += spec->sets[i].width;
	}
	if (drives > VDEV_DRIVES_MAX) {
		(void)snprintf(why, why_len, "a pool has at most %u drives", VDEV_DRIVES_MAX);
		return -EINVAL;
	}
	v.sets = mem_zalloc_array(POOL_SETS_MAX, sizeof(*v.sets));
	v.drives = mem_zalloc_array(VDEV_DRIVES_MAX, sizeof(*v.drives));
	if (v.sets == NULL || v.drives == NULL) {
		vdev_free(&v, false);
		return -ENOMEM;
	}
	v.set_count = spec->set_count;
	for (uint32_t i = 0; i < spec->set_count; i++) {
		err = vdev_layout_set(&v, &spec->sets[i], i);
		if (err != 0) {
			(void)snprintf(why, why_len, "set %u is too large", i);
			vdev_free(&v, false);
			return err;
		}
	}
	layout_drives(&v, spec);
	rt_random_bytes(&v.pool_guid, sizeof(v.pool_guid));
	rt_random_bytes(&v.ring_guid, sizeof(v.ring_guid));
	if (spec->log_count > 0) {
		uint64_t room = smallest_region(spec->logs, spec->log_count) - LABEL_FRONT_BYTES -
				LABEL_BACK_BYTES;

		rt_random_bytes(&v.log_guid, sizeof(v.log_guid));
		v.log_bytes =
		    spec->log_bytes == 0 ? room : ALIGN_DOWN(spec->log_bytes, LABEL_BYTES);
	}
	v.create_time = rt_wall_ns() / NSEC_PER_SEC;
	(void)snprintf(v.name, sizeof(v.name), "%s", spec->name);
	*out = v;
	return 0;
}
