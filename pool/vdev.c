/*
 * vdev.c - sets and their drives in memory: layout of new ones, groups, who is out, the log's
 *sides.
 *
 * A drive's column in its group follows from three facts, here and nowhere else (column_state):
 *	no drive, or state other than ONLINE	MISSING
 *	ONLINE, dirty_from != 0			STALE: written, but read only when nothing else can
 *give the data ONLINE, not dirty			ONLINE dirty_from..dirty_to are the txgs
 *whose blocks the drive may lack; dirty_to = UINT64_MAX while it is out.
 */
#include <stdio.h>

#include "pool/event.h"
#include "pool/label.h"
#include "pool/pool_int.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

void
vdev_free(struct vdevs *v, bool close_drives)
{
	for (uint32_t i = 0; v->sets != NULL && i < v->set_count; i++) {
		if (v->sets[i].rg != NULL) {
			raidz_group_destroy(v->sets[i].rg);
		}
	}
	for (uint32_t i = 0; close_drives && v->drives != NULL && i < v->drive_count; i++) {
		if (v->drives[i].kb != NULL) {
			kb_close(v->drives[i].kb);
		}
	}
	for (uint32_t i = 0; i < v->retired_count; i++) {
		kb_close(v->retired[i].kb);
	}
	mem_free(v->retired);
	mem_free(v->sets);
	mem_free(v->drives);
	events_close(v->events);
	memset(v, 0, sizeof(*v));
}

void
vdev_retire(struct vdevs *v, struct kb_drive *kb)
{
	struct vdev_retired *grown;

	while ((grown = mem_realloc(
		    v->retired, (v->retired_count + 1) * sizeof(struct vdev_retired))) == NULL) {
		fiber_sleep(NSEC_PER_MSEC);
	}
	v->retired = grown;
	v->retired[v->retired_count++] = (struct vdev_retired){kb, rt_now_ns()};
}

/* ---- groups ---- */

static enum raidz_col_state
column_state(const struct vdev_drive *d)
{
	if (d->kb == NULL || d->state != DRIVE_STATE_ONLINE) {
		return RAIDZ_COL_MISSING;
	}
	return d->dirty_from != 0 ? RAIDZ_COL_STALE : RAIDZ_COL_ONLINE;
}

static void
column_follow(struct vdevs *v, const struct vdev_drive *d)
{
	enum raidz_col_state state = column_state(d);

	if (d->role == DRIVE_ROLE_DATA && d->twin && v->sets[d->set_index].rg != NULL) {
		raidz_group_set_twin(
		    v->sets[d->set_index].rg, d->column, state == RAIDZ_COL_MISSING ? NULL : d->kb);
		return;
	}
	if (d->role == DRIVE_ROLE_DATA && v->sets[d->set_index].rg != NULL) {
		raidz_group_set_column(v->sets[d->set_index].rg, d->column,
		    state == RAIDZ_COL_MISSING ? NULL : d->kb, state);
	}
}

int
vdev_claim(struct vdevs *v, bool readonly, char *why, size_t why_len)
{
	for (uint32_t i = 0; i < v->drive_count; i++) {
		struct vdev_drive *d = &v->drives[i];
		int err = 0;

		if (d->kb != NULL && d->role != DRIVE_ROLE_SPARE) {
			err = kb_claim(d->kb, readonly);
		}
		if (err != 0) {
			(void)snprintf(
			    why, why_len, "%s is in use by another process", kb_path(d->kb));
			return err;
		}
	}
	return 0;
}

int
vdev_open_set(struct vdevs *v, uint32_t index)
{
	int err = raidz_group_create(&v->sets[index].cfg, &v->sets[index].rg);

	for (uint32_t i = 0; err == 0 && i < v->drive_count; i++) {
		if (v->drives[i].role == DRIVE_ROLE_DATA && v->drives[i].set_index == index) {
			column_follow(v, &v->drives[i]);
		}
	}
	return err;
}

int
vdev_open_groups(struct vdevs *v, bool readonly)
{
	for (uint32_t i = 0; i < v->set_count; i++) {
		int err = raidz_group_create(&v->sets[i].cfg, &v->sets[i].rg);

		if (err != 0) {
			return err;
		}
		raidz_group_set_readonly(v->sets[i].rg, readonly);
	}
	for (uint32_t i = 0; i < v->drive_count; i++) {
		column_follow(v, &v->drives[i]);
	}
	return 0;
}

static uint32_t
count_columns(const struct vdevs *v, uint32_t set_index, enum raidz_col_state state)
{
	uint32_t count = 0;

	for (uint32_t i = 0; i < v->drive_count; i++) {
		const struct vdev_drive *d = &v->drives[i];

		count += d->role == DRIVE_ROLE_DATA && !d->twin && d->set_index == set_index &&
			 column_state(d) == state;
	}
	return count;
}

uint32_t
vdev_missing(const struct vdevs *v, uint32_t set_index)
{
	return count_columns(v, set_index, RAIDZ_COL_MISSING);
}

uint32_t
vdev_lacking(const struct vdevs *v, uint32_t set_index)
{
	return vdev_missing(v, set_index) + count_columns(v, set_index, RAIDZ_COL_STALE);
}

bool
vdev_can_spare(const struct vdevs *v, uint32_t set_index, uint32_t columns)
{
	const struct raidz_config *cfg = &v->sets[set_index].cfg;
	uint32_t lost = columns & ((1u << cfg->width) - 1);

	lost |= vdev_blank(v, set_index);
	for (uint32_t i = 0; i < v->drive_count; i++) {
		const struct vdev_drive *d = &v->drives[i];

		if (d->role == DRIVE_ROLE_DATA && !d->twin && d->set_index == set_index &&
		    column_state(d) == RAIDZ_COL_MISSING) {
			lost |= 1u << d->column;
		}
	}
	return (uint32_t)__builtin_popcount(lost) <= raidz_tolerates(cfg);
}

uint32_t
vdev_blank(const struct vdevs *v, uint32_t set_index)
{
	uint32_t mask = 0;

	for (uint32_t i = 0; i < v->drive_count; i++) {
		const struct vdev_drive *d = &v->drives[i];

		if (d->role == DRIVE_ROLE_DATA && !d->twin && d->set_index == set_index &&
		    d->dirty_from == 1) {
			mask |= 1u << d->column;
		}
	}
	/* all that a set has, when it was just added: there is nothing to be missed */
	return (uint32_t)__builtin_popcount(mask) <= raidz_tolerates(&v->sets[set_index].cfg) &&
		       !DELIBERATE_BUG("pool-blank-counts")
		   ? mask
		   : 0;
}

int
vdev_enough(const struct vdevs *v)
{
	for (uint32_t i = 0; i < v->set_count; i++) {
		if (vdev_missing(v, i) > raidz_tolerates(&v->sets[i].cfg)) {
			return -EIO;
		}
	}
	return 0;
}

static void
tell_out(struct vdevs *v, const struct vdev_drive *d, uint64_t dirty_from_txg)
{
	const char *how = "failed";

	if (d->state == DRIVE_STATE_OFFLINE) {
		how = "was taken offline";
	} else if (d->state == DRIVE_STATE_REMOVED) {
		how = "has vanished";
	}
	log_warn("drive.out pool=%s path=%s set=%u column=%u state=%d dirty_from=%llu", v->name,
	    d->path, d->set_index, d->column, (int)d->state, (unsigned long long)dirty_from_txg);
	events_add(v->events, POOL_EVENT_WARNING, "drive.out",
	    "%s %s; it lacks what is written from txg %llu on", d->path, how,
	    (unsigned long long)dirty_from_txg);
}

void
vdev_drive_out(
    struct vdevs *v, struct vdev_drive *d, enum drive_state state, uint64_t dirty_from_txg)
{
	if (state == DRIVE_STATE_FAULTED && d->kb != NULL && kb_is_gone(d->kb)) {
		state = DRIVE_STATE_REMOVED;
	}
	if (d->state == state && d->dirty_from != 0 && d->dirty_from <= dirty_from_txg &&
	    d->dirty_to == UINT64_MAX) {
		return;
	}
	d->state = state;
	tell_out(v, d, dirty_from_txg);
	if (d->out_ns == 0) {
		d->out_ns = rt_now_ns();
		d->out_wall_s = rt_wall_ns() / NSEC_PER_SEC;
	}
	if (d->dirty_from == 0 || dirty_from_txg < d->dirty_from) {
		d->dirty_from = dirty_from_txg;
	}
	d->dirty_to = UINT64_MAX;
	d->in_pass = false; /* it lacks more than the resilver that runs knows of */
	d->ring_stale = d->role == DRIVE_ROLE_DATA;
	column_follow(v, d);
}

void
vdev_drive_back(struct vdevs *v, struct vdev_drive *d, uint64_t dirty_to_txg)
{
	d->state = DRIVE_STATE_ONLINE;
	d->out_ns = d->out_wall_s = 0;
	d->until_import = false;
	if (d->dirty_from != 0 && d->dirty_to == UINT64_MAX) {
		/* from here on it gets every write */
		d->dirty_to = MAX(dirty_to_txg, d->dirty_from);
	}
	column_follow(v, d);
}

void
vdev_drive_clean(struct vdevs *v, struct vdev_drive *d)
{
	d->dirty_from = d->dirty_to = 0;
	d->in_pass = false;
	column_follow(v, d);
}

uint64_t
vdev_pass_sum(const struct vdevs *v)
{
	uint64_t sum = 0;

	for (uint32_t i = 0; i < v->drive_count; i++) {
		const struct vdev_drive *d = &v->drives[i];

		if (d->role == DRIVE_ROLE_DATA && d->in_pass && d->dirty_from != 0) {
			sum = XXH3_64bits_withSeed(&d->guid, sizeof(d->guid), sum ^ d->dirty_from);
			sum = (sum ^ d->dirty_to) | 1;
		}
	}
	return sum;
}

struct vdev_drive *
vdev_entry_new(struct vdevs *v)
{
	for (uint32_t i = 0; i < v->drive_count; i++) {
		if (v->drives[i].role == 0) {
			return &v->drives[i];
		}
	}
	return v->drive_count < VDEV_DRIVES_MAX ? &v->drives[v->drive_count++] : NULL;
}

void
vdev_entry_drop(struct vdev_drive *d)
{
	*d = (struct vdev_drive){0};
}

static struct vdev_drive *
drive_at(const struct vdevs *v, uint32_t set_index, uint32_t column, bool twin)
{
	for (uint32_t i = 0; i < v->drive_count; i++) {
		struct vdev_drive *d = &v->drives[i];

		if (d->role == DRIVE_ROLE_DATA && d->set_index == set_index &&
		    d->column == column && d->twin == twin) {
			return d;
		}
	}
	return NULL;
}

struct vdev_drive *
vdev_column(const struct vdevs *v, uint32_t set_index, uint32_t column)
{
	return drive_at(v, set_index, column, false);
}

struct vdev_drive *
vdev_twin(const struct vdevs *v, uint32_t set_index, uint32_t column)
{
	return drive_at(v, set_index, column, true);
}

uint32_t
vdev_bit(const struct vdev_drive *d)
{
	return d->twin ? 1u << RAIDZ_TWIN << d->column : 1u << d->column;
}

bool
vdev_twins_out(struct vdevs *v, uint32_t set_index, uint32_t mask)
{
	bool out = false;

	for (uint32_t i = 0; i < v->drive_count && mask >> RAIDZ_TWIN != 0; i++) {
		struct vdev_drive *d = &v->drives[i];

		if (d->role == DRIVE_ROLE_DATA && d->twin && d->set_index == set_index &&
		    (mask & vdev_bit(d)) != 0 && d->state == DRIVE_STATE_ONLINE) {
			vdev_drive_out(v, d, DRIVE_STATE_FAULTED, v->committed_txg + 1);
			out = true;
		}
	}
	return out;
}

static void
count_report(struct vdev_drive *d, const struct raidz_report *r)
{
	uint32_t bit = vdev_bit(d);

	d->read_errors += (r->io_error & bit) != 0;
	d->write_errors += (r->unwritten & bit) != 0 && column_state(d) != RAIDZ_COL_MISSING;
	d->cksum_errors += (r->cksum_bad & bit) != 0;
	/* what a resilver fills in was never wrong */
	d->repaired += (r->rewritten & bit) != 0 && column_state(d) != RAIDZ_COL_STALE && !d->twin;
}

void
vdev_count_report(struct vdevs *v, uint32_t set_index, const struct raidz_report *r)
{
	if ((r->io_error | r->cksum_bad | r->rewritten | r->unwritten) == 0) {
		return;
	}
	for (uint32_t c = 0; c < v->sets[set_index].cfg.width; c++) {
		struct vdev_drive *d = vdev_column(v, set_index, c);

		if (d != NULL) {
			count_report(d, r);
		}
		d = ((r->io_error | r->unwritten) >> RAIDZ_TWIN >> c & 1) != 0
			? vdev_twin(v, set_index, c)
			: NULL;
		if (d != NULL) {
			count_report(d, r);
		}
	}
}

void
vdev_count_write(struct vdevs *v, uint32_t set_index, const struct raidz_report *r)
{
	struct raidz_report writes = {.unwritten = r->unwritten};

	vdev_count_report(v, set_index, &writes);
}

/* ---- the log's sides ---- */

/*
 * A column that was out in this epoch of the ring, and has been resilvered since, isn't usable for
 * it: ring_stale. In-pool ring: the parity + 1 lowest usable columns of set 0 (at most
 * ILOG_SIDES_MAX). When some of them are lost later, the lowest ones of the rest still include
 * those that are left: replay finds what was written.
 */
static bool
side_add(const struct vdev_drive *d, struct ilog_config *out)
{
	if (d == NULL || column_state(d) != RAIDZ_COL_ONLINE || d->ring_stale ||
	    out->side_count == ILOG_SIDES_MAX) {
		return false;
	}
	out->sides[out->side_count++] = (struct ilog_side){
	    .drive = d->kb,
	    .off_bytes = KB_POOL_START + LABEL_FRONT_BYTES,
	};
	return true;
}

/* A twin that has everything is one more. */
static void
ring_sides(const struct vdevs *v, struct ilog_config *out)
{
	const struct raidz_config *cfg = &v->sets[0].cfg;
	uint32_t want = MIN(raidz_tolerates(cfg) + 1, (uint32_t)ILOG_SIDES_MAX);

	for (uint32_t c = 0; c < cfg->width && out->side_count < want; c++) {
		want += side_add(vdev_twin(v, 0, c), out);
		(void)side_add(vdev_column(v, 0, c), out);
	}
}

/* Log drives: side = column, so that a side keeps its number when another is out. */
static bool
drive_sides(const struct vdevs *v, struct ilog_config *out)
{
	bool usable = false;

	for (uint32_t i = 0; i < v->drive_count; i++) {
		const struct vdev_drive *d = &v->drives[i];

		if (d->role != DRIVE_ROLE_LOG) {
			continue;
		}
		out->side_count = MAX(out->side_count, d->column + 1);
		out->sides[d->column].off_bytes = KB_POOL_START + LABEL_FRONT_BYTES;
		if (column_state(d) == RAIDZ_COL_ONLINE) {
			out->sides[d->column].drive = d->kb;
			usable = true;
		}
	}
	return usable;
}

int
vdev_log_config(struct vdevs *v, bool in_pool, uint64_t epoch, struct ilog_config *out)
{
	struct ilog_config cfg = {
	    .region_bytes = vdev_log_ring_bytes(v, in_pool),
	    .epoch = epoch,
	};

	if (in_pool) {
		memcpy(cfg.guid, v->ring_guid.b, sizeof(cfg.guid));
		ring_sides(v, &cfg);
		if (cfg.side_count == 0) {
			return -ENODEV;
		}
	} else {
		memcpy(cfg.guid, v->log_guid.b, sizeof(cfg.guid));
		if (!drive_sides(v, &cfg)) {
			return -ENODEV;
		}
	}
	*out = cfg;
	return 0;
}

uint64_t
vdev_log_ring_bytes(const struct vdevs *v, bool in_pool)
{
	return in_pool ? v->ring_bytes : v->log_bytes;
}

void
vdev_log_reserve(struct vdevs *v)
{
	struct ilog_config cfg = {0};

	if (!drive_sides(v, &cfg)) {
		return;
	}
	for (uint32_t i = 0; i < cfg.side_count; i++) {
		if (cfg.sides[i].drive != NULL) {
			kb_reserve(cfg.sides[i].drive, cfg.sides[i].off_bytes, v->log_bytes);
		}
	}
}

bool
vdev_log_rejoin(struct vdevs *v)
{
	bool changed = false;

	for (uint32_t i = 0; i < v->drive_count; i++) {
		struct vdev_drive *d = &v->drives[i];

		if (d->role == DRIVE_ROLE_DATA && d->ring_stale &&
		    column_state(d) == RAIDZ_COL_ONLINE) {
			d->ring_stale = false;
			changed = true;
		}
		/* a late write of its former life could still land in the new epoch */
		if (d->role != DRIVE_ROLE_LOG || d->kb == NULL || d->dirty_from == 0 ||
		    d->state == DRIVE_STATE_OFFLINE || kb_is_gone(d->kb) ||
		    kb_late_writes(d->kb) != 0) {
			continue;
		}
		d->state = DRIVE_STATE_ONLINE;
		d->dirty_from = d->dirty_to = 0;
		changed = true;
	}
	return changed;
}
