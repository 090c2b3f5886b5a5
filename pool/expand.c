/*
 * expand.c - a set grows into its drives, when all of them are larger than what it has of each:
 * after they were replaced by larger ones.
 *
 * A set has a column of the same length on each of its drives, from one place on: a longer one
 * moves nothing. Its segments go on behind those there are, in the length they have; what was never
 * written of the segment table says that they are empty. So all that has to be durable before a
 * block is put there is the configuration, and whatever root an import takes up fits it. The
 * syncing fiber takes the segments into use (space_grow). It never shrinks.
 *
 * Not while a drive is being filled: a resilver counts segments.
 */
#include <stdio.h>

#include "pool/drive.h"
#include "pool/event.h"
#include "pool/pool_int.h"
#include "pool/pool_log.h"
#include "pool/space_int.h"

/* What the set could have of each drive, by the smallest. */
static uint64_t
column_possible(const struct vdevs *v, uint32_t index)
{
	uint64_t taken = v->sets[index].cfg.base_bytes - KB_POOL_START + LABEL_BACK_BYTES;
	uint64_t least = UINT64_MAX;

	for (uint32_t i = 0; i < v->drive_count; i++) {
		const struct vdev_drive *d = &v->drives[i];

		if (d->role == DRIVE_ROLE_DATA && d->set_index == index && !d->twin) {
			least = MIN(least, d->region_bytes);
		}
	}
	return least == UINT64_MAX ? 0 : least - MIN(taken, least);
}

/* The columns and segments it would have; false: there is no whole segment to be had. */
static bool
shape_possible(struct pool *p, uint32_t index, struct raidz_config *out, uint64_t *out_segments)
{
	const struct vdev_set *set = &p->v.sets[index];
	const struct space_set *space = &p->space->sets[index];
	uint64_t granule, capacity, count;

	*out = set->cfg;
	if (index >= p->space->set_count || space->segs == NULL) {
		return false;
	}
	granule = space->granule;
	out->column_bytes = MAX(column_possible(&p->v, index), set->cfg.column_bytes);
	out->column_bytes = ALIGN_DOWN(out->column_bytes, (uint64_t)SECTOR_BYTES);
	capacity = raidz_capacity_sectors(out);
	count = (capacity - capacity % granule) / set->segment_sectors; /* whole ones */
	count = MIN(count, (uint64_t)space->seg_room);
	if (count <= set->segment_count) {
		return false;
	}
	capacity = count * set->segment_sectors;
	out->column_bytes =
	    capacity / (out->kind == RAIDZ_KIND_PARITY ? out->width : 1) * SECTOR_BYTES;
	*out_segments = count;
	return true;
}

uint64_t
pool_expandable_bytes(struct pool *p)
{
	uint64_t sum = 0;

	for (uint32_t i = 0; i < p->v.set_count; i++) {
		struct raidz_config cfg;
		uint64_t segments;

		if (shape_possible(p, i, &cfg, &segments)) {
			sum += (raidz_capacity_sectors(&cfg) -
				   raidz_capacity_sectors(&p->v.sets[i].cfg)) *
			       SECTOR_BYTES;
		}
	}
	return sum;
}

static bool
is_filling(const struct vdevs *v)
{
	bool filling = false;

	for (uint32_t i = 0; i < v->drive_count; i++) {
		const struct vdev_drive *d = &v->drives[i];

		filling =
		    filling || (d->role == DRIVE_ROLE_DATA && (d->twin || d->dirty_from != 0));
	}
	return filling;
}

/* Under config_lock. */
static bool
set_expand(struct pool *p, uint32_t index)
{
	struct vdev_set *set = &p->v.sets[index];
	struct raidz_config cfg;
	uint64_t segments;

	if (!shape_possible(p, index, &cfg, &segments)) {
		return false;
	}
	log_notice("pool.expand pool=%s set=%u column_bytes=%llu segments=%llu", p->name, index,
	    (unsigned long long)cfg.column_bytes, (unsigned long long)segments);
	raidz_group_grow(set->rg, cfg.column_bytes);
	__atomic_store_n(&set->cfg.column_bytes, cfg.column_bytes, __ATOMIC_RELEASE);
	__atomic_store_n(&set->segment_count, segments, __ATOMIC_RELEASE);
	return true;
}

/* Under config_lock. */
static int
expand_locked(struct pool *p, const struct guid *drive, char *why, size_t why_len)
{
	const struct vdev_drive *m = drive != NULL ? drive_member(p, drive) : NULL;
	bool grown = false;

	if (drive != NULL && (m == NULL || m->role != DRIVE_ROLE_DATA)) {
		return m == NULL ? -ENOENT : -EINVAL;
	}
	if (p->suspended) {
		return -ERR_SUSPENDED;
	}
	if (is_filling(&p->v)) {
		(void)snprintf(
		    why, why_len, "a drive is out or being filled: when it has everything");
		return -EBUSY;
	}
	for (uint32_t i = 0; i < p->v.set_count; i++) {
		grown |= (m == NULL || m->set_index == i) && set_expand(p, i);
	}
	if (!grown && m != NULL) {
		(void)snprintf(why, why_len,
		    "set %u has %llu bytes of each drive, and its smallest one no more than %llu",
		    m->set_index, (unsigned long long)p->v.sets[m->set_index].cfg.column_bytes,
		    (unsigned long long)column_possible(&p->v, m->set_index));
		return -ENOSPC;
	}
	if (grown && !DELIBERATE_BUG("pool-expand-undurable")) {
		events_add(
		    p->v.events, POOL_EVENT_INFO, "pool.grown", "sets grew into larger drives");
		if (log_membership_write(p) != 0) {
			/* the next commit takes it along, before anything is put there */
			atomic_store(&p->config_dirty, true);
		}
	}
	return 0;
}

int
pool_expand(struct pool *p, const struct guid *drive, char *out_why, size_t why_len)
{
	int err;

	out_why[0] = 0;
	if (p->readonly) {
		return -EROFS;
	}
	if (!mutex_trylock(&p->shape_mu)) {
		(void)snprintf(out_why, why_len, "the pool is being checked, or grown, just now");
		return -EBUSY;
	}
	mutex_lock(&p->config_lock);
	err = expand_locked(p, drive, out_why, why_len);
	mutex_unlock(&p->config_lock);
	mutex_unlock(&p->shape_mu);
	if (err == 0) {
		(void)!pool_sync(p); /* in use when it is in a root */
	}
	return err;
}
