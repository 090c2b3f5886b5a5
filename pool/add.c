/*
 * add.c - more sets for a pool in service.
 *
 * First the drives: partition table, no labels. Then, under config_lock, the set and its drives are
 * members: in memory, and with the next configuration on all labels. From there on an import finds
 * the set. Nothing is allocated on it before the syncing fiber has made its segment object
 * (space_grow), in the txg that makes it known to roots. So a crash anywhere between leaves a set
 * that no root knows: the first txg after the import takes it up.
 *
 * shape_mu: one add at a time, and none while the pool is checked, which counts segments.
 */
#include <stdio.h>

#include "pool/drive.h"
#include "pool/event.h"
#include "pool/pool_int.h"
#include "pool/pool_log.h"

static bool
is_like(const struct raidz_config *have, const struct pool_set_spec *set)
{
	return have->kind == set->kind && have->width == set->width &&
	       (set->kind == RAIDZ_KIND_MIRROR || have->parity == set->parity);
}

static bool
is_named_twice(const struct pool_add_spec *spec, uint32_t set, uint32_t drive)
{
	const char *id = kb_id(spec->sets[set].drives[drive]);

	for (uint32_t s = 0; s <= set; s++) {
		for (uint32_t i = 0; i < (s == set ? drive : spec->sets[s].width); i++) {
			if (strcmp(kb_id(spec->sets[s].drives[i]), id) == 0) {
				return true;
			}
		}
	}
	return false;
}

static int
check_sets(const struct pool *p, const struct pool_add_spec *spec, char *why, size_t why_len)
{
	if (spec->set_count == 0 || spec->set_count > POOL_SETS_MAX - p->v.set_count) {
		(void)snprintf(why, why_len, "a pool has at most %u sets", POOL_SETS_MAX);
		return -ENOSPC;
	}
	for (uint32_t i = 0; i < spec->set_count; i++) {
		const struct pool_set_spec *set = &spec->sets[i];
		int err = plan_check_set(set, p->v.set_count + i, why, why_len);

		if (err != 0) {
			return err;
		}
		for (uint32_t k = 0; k < set->width; k++) {
			if (is_named_twice(spec, i, k)) {
				(void)snprintf(
				    why, why_len, "%s is named twice", kb_path(set->drives[k]));
				return -EINVAL;
			}
		}
		if (!spec->mixed && !is_like(&p->v.sets[0].cfg, set)) {
			(void)snprintf(why, why_len,
			    "set %u differs in kind, parity or width from those there are; the "
			    "weakest decides what "
			    "the pool survives",
			    p->v.set_count + i);
			return -EINVAL;
		}
	}
	return 0;
}

/* The pool as it will be, in memory of its own; without events and groups. */
static int
layout_copy(const struct vdevs *v, const struct pool_add_spec *spec, struct vdevs *out, char *why,
    size_t why_len)
{
	struct vdevs copy = {.set_count = v->set_count, .ring_bytes = v->ring_bytes};
	int err = 0;

	copy.sets = mem_zalloc_array(POOL_SETS_MAX, sizeof(*copy.sets));
	if (copy.sets == NULL) {
		return -ENOMEM;
	}
	for (uint32_t i = 0; i < v->set_count; i++) {
		copy.sets[i].cfg = v->sets[i].cfg;
	}
	for (uint32_t i = 0; err == 0 && i < spec->set_count; i++) {
		err = vdev_layout_set(&copy, &spec->sets[i], copy.set_count);
		copy.set_count++;
	}
	if (err != 0) {
		(void)snprintf(why, why_len, "set %u is too large", copy.set_count - 1);
		mem_free(copy.sets);
		return err;
	}
	*out = copy;
	return 0;
}

/* Whatever is on them goes. */
static int
prepare_drives(const struct pool_add_spec *spec, char *why, size_t why_len)
{
	for (uint32_t i = 0; i < spec->set_count; i++) {
		for (uint32_t k = 0; k < spec->sets[i].width; k++) {
			struct kb_drive *d = spec->sets[i].drives[k];
			struct guid guid;
			int err = kb_claim(d, false);

			rt_random_bytes(&guid, sizeof(guid));
			err = err != 0 ? err : drive_wipe(d, &guid, kb_pool_bytes(kb_size(d)));
			if (err != 0) {
				(void)snprintf(why, why_len, "%s can't be written: %s", kb_path(d),
				    err_str(err));
				return err;
			}
		}
	}
	return 0;
}

static uint32_t
free_entries(const struct vdevs *v)
{
	uint32_t count = VDEV_DRIVES_MAX - v->drive_count;

	for (uint32_t i = 0; i < v->drive_count; i++) {
		count += v->drives[i].role == 0;
	}
	return count;
}

/* Groups for all of them, which nobody knows yet. */
static int
groups_open(struct vdevs *v, const struct pool_add_spec *spec, const struct vdevs *planned)
{
	uint32_t first = v->set_count, made = 0;
	int err = 0;

	while (err == 0 && made < spec->set_count) {
		v->sets[first + made] = planned->sets[first + made];
		err = vdev_open_set(v, first + made);
		made += err == 0;
	}
	while (err != 0 && made > 0) {
		made--;
		raidz_group_destroy(v->sets[first + made].rg);
		v->sets[first + made].rg = NULL;
	}
	return err;
}

/* The sets are members when this is 0, or none of them. Under config_lock. */
static int
join(struct pool *p, const struct pool_add_spec *spec, const struct vdevs *planned)
{
	struct vdevs *v = &p->v;
	uint32_t drives = 0;
	int err;

	for (uint32_t i = 0; i < spec->set_count; i++) {
		drives += spec->sets[i].width;
	}
	if (drives > free_entries(v)) {
		return -ENOSPC;
	}
	err = groups_open(v, spec, planned);
	if (err != 0) {
		return err;
	}
	for (uint32_t i = 0; i < spec->set_count; i++) {
		uint32_t index = v->set_count;

		for (uint32_t k = 0; k < spec->sets[i].width; k++) {
			bool made = vdev_layout_drive(
			    v, spec->sets[i].drives[k], DRIVE_ROLE_DATA, index, k);

			ASSERT(made);
			raidz_group_set_column(
			    v->sets[index].rg, k, spec->sets[i].drives[k], RAIDZ_COL_ONLINE);
		}
		__atomic_store_n(&v->set_count, index + 1, __ATOMIC_RELEASE);
	}
	if (log_membership_write(p) != 0) {
		atomic_store(&p->config_dirty, true); /* the next commit takes it along */
	}
	events_add(v->events, POOL_EVENT_INFO, "pool.grown", "%u set%s of drives joined",
	    spec->set_count, spec->set_count == 1 ? "" : "s");
	return 0;
}

static int
add_locked(struct pool *p, const struct pool_add_spec *spec, struct pool_plan *plan, char *why,
    size_t why_len)
{
	struct vdevs planned;
	int err = check_sets(p, spec, why, why_len);

	err = err != 0 ? err : layout_copy(&p->v, spec, &planned, why, why_len);
	if (err != 0) {
		return err;
	}
	plan_figures(&planned, p->v.set_count, plan);
	if (!spec->dry_run) {
		err = prepare_drives(spec, why, why_len);
	}
	if (err == 0 && !spec->dry_run) {
		mutex_lock(&p->config_lock);
		err = p->suspended ? -ERR_SUSPENDED : join(p, spec, &planned);
		mutex_unlock(&p->config_lock);
	}
	mem_free(planned.sets);
	if (err == 0 && !spec->dry_run) {
		/* in use when it is in a root; a pool that is suspended meanwhile takes it up later
		 */
		(void)!pool_sync(p);
	}
	return err;
}

int
pool_add(struct pool *p, const struct pool_add_spec *spec, struct pool_plan *out_plan,
    char *out_why, size_t why_len)
{
	int err;

	if (why_len > 0) {
		out_why[0] = 0;
	}
	if (p->readonly || p->suspended) {
		return p->readonly ? -EROFS : -ERR_SUSPENDED;
	}
	if (!mutex_trylock(&p->shape_mu)) {
		(void)snprintf(out_why, why_len, "the pool is being checked, or grown, just now");
		return -EBUSY;
	}
	err = add_locked(p, spec, out_plan, out_why, why_len);
	mutex_unlock(&p->shape_mu);
	return err;
}
