/*
 * status.c - how a pool is, from memory alone. It takes config_lock only if nobody has it: what it
 * shows of the drives may otherwise be a moment old, but a status never waits for a drive.
 */
#include <stdio.h>

#include "pool/figures.h"
#include "pool/pool_int.h"

static void
status_drive(const struct vdev_drive *d, bool locked, struct pool_drive_status *out)
{
	uint64_t sit_until = d->sit_until_ns, now = rt_now_ns();

	out->guid = d->guid;
	(void)snprintf(out->path, sizeof(out->path), "%s", d->path);
	(void)snprintf(out->id, sizeof(out->id), "%s", d->id);
	out->role = d->role;
	out->set_index = d->set_index;
	out->column = d->column;
	out->state = d->state;
	/* without the lock the drive may be closed under us */
	out->present = d->kb != NULL && (!locked || !kb_is_gone(d->kb));
	out->stale = d->dirty_from != 0;
	out->resilvering = d->in_pass;
	out->claimed = d->claimed;
	out->twin = d->twin;
	out->until_import = d->until_import;
	out->out_since = d->out_wall_s;
	out->read_errors = d->read_errors;
	out->write_errors = d->write_errors;
	out->cksum_errors = d->cksum_errors;
	out->repaired = d->repaired;
	if (locked && d->kb != NULL) {
		out->physical_sector_bytes = kb_physical(d->kb, &out->volatile_cache);
	}
	out->slow_ios = d->slow_ios;
	out->degraded = d->degraded;
	out->degraded_since = d->degraded != DRIVE_WELL ? d->degraded_s : 0;
	out->sits_out_s = sit_until > now ? (uint32_t)((sit_until - now) / NSEC_PER_SEC + 1) : 0;
	out->sit_outs = d->sit_outs;
	out->read_us = d->read_us;
	out->siblings_read_us = d->siblings_us;
}

static void
status_set(const struct vdev_set *s, struct config_set *out)
{
	*out = (struct config_set){
	    .guid = s->guid,
	    .kind = le32_of(s->cfg.kind),
	    .width = le32_of(s->cfg.width),
	    .parity = le32_of(s->cfg.parity),
	    .base_bytes = le64_of(s->cfg.base_bytes),
	    .column_bytes = le64_of(s->cfg.column_bytes),
	    .segment_sectors = le64_of(s->segment_sectors),
	    .segment_count = le64_of(s->segment_count),
	};
}

/* Who needs somebody. */
struct census {
	uint32_t out, stale, degraded;
	const char *first, *ill; /* of those out or stale; of the degraded */
	const char *twin;        /* that is out */
};

static void
status_census(const struct pool *p, struct census *c)
{
	*c = (struct census){0};
	for (uint32_t i = 0; i < p->v.drive_count; i++) {
		const struct vdev_drive *d = &p->v.drives[i];
		bool bad;

		if (d->role != DRIVE_ROLE_DATA && d->role != DRIVE_ROLE_LOG) {
			continue;
		}
		bad = d->kb == NULL || d->state != DRIVE_STATE_ONLINE;
		if (d->role == DRIVE_ROLE_DATA && d->twin) {
			c->twin = bad ? d->path : c->twin; /* nothing depends on it */
			continue;
		}
		c->out += bad;
		c->stale += !bad && d->dirty_from != 0;
		if (!bad && d->degraded != DRIVE_WELL) {
			c->ill = c->degraded++ == 0 ? d->path : c->ill;
		}
		if (c->first == NULL && (bad || d->dirty_from != 0)) {
			c->first = d->path;
		}
	}
}

static void
status_health(struct pool *p, struct pool_status *out)
{
	struct census c;

	status_census(p, &c);
	out->health = POOL_ONLINE;
	if (p->suspended && p->txg_lost) {
		out->health = POOL_SUSPENDED;
		out->reimport = true;
		(void)snprintf(out->why, sizeof(out->why),
		    "drives that vanished have lost blocks they had not flushed: export and import "
		    "the pool; "
		    "what was acknowledged as stable is replayed");
	} else if (p->suspended && p->txg_err != 0) {
		out->health = POOL_SUSPENDED;
		out->reimport = true;
		(void)snprintf(out->why, sizeof(out->why),
		    "what changed could not be written (%s): export and import the pool; what was "
		    "acknowledged as stable is replayed",
		    err_str(p->txg_err));
	} else if (p->suspended && c.out == 0) {
		out->health = POOL_SUSPENDED;
		(void)snprintf(out->why, sizeof(out->why),
		    "too many drives refuse what is written: nothing is written until they take it "
		    "again; look at their errors below");
	} else if (p->suspended) {
		out->health = POOL_SUSPENDED;
		(void)snprintf(out->why, sizeof(out->why),
		    "too many drives are gone (%u out, first %.80s): nothing is written until they "
		    "return; reconnect them",
		    c.out, c.first);
	} else if (c.out > 0) {
		out->health = POOL_DEGRADED;
		(void)snprintf(out->why, sizeof(out->why),
		    "%u drive(s) out, first %.80s: data is safe with less redundancy; reconnect or "
		    "replace it",
		    c.out, c.first);
	} else if (c.stale > 0) {
		out->health = POOL_DEGRADED;
		(void)snprintf(out->why, sizeof(out->why),
		    "%u drive(s) lack what was written while they were away, first %.80s: they "
		    "must be resilvered",
		    c.stale, c.first);
	} else if (c.degraded > 0) {
		out->health = POOL_DEGRADED;
		(void)snprintf(out->why, sizeof(out->why),
		    "%u drive(s) had more errors than the pool's thresholds, first %.80s: data is "
		    "safe; "
		    "replace it, a spare does so by itself",
		    c.degraded, c.ill);
	} else if (c.twin != NULL) {
		(void)snprintf(out->why, sizeof(out->why),
		    "%.120s, which is to replace another drive, is out; that one goes on", c.twin);
	} else if (p->data_errors > 0) {
		(void)snprintf(out->why, sizeof(out->why),
		    "%llu block(s) could not be read with a right checksum; restore the files "
		    "concerned",
		    (unsigned long long)p->data_errors);
	}
}

int
pool_get_status(struct pool *p, struct pool_status *out)
{
	struct pool_status s = {
	    .guid = p->v.pool_guid,
	    .set_count = p->v.set_count,
	    .drive_count = p->v.drive_count,
	    .data_errors = p->data_errors,
	};
	bool locked = mutex_trylock(&p->config_lock);

	s.sets = mem_zalloc_array(s.set_count, sizeof(*s.sets));
	s.drives = mem_zalloc_array(s.drive_count, sizeof(*s.drives));
	if (s.sets != NULL && s.drives != NULL) {
		(void)snprintf(s.name, sizeof(s.name), "%s", p->name);
		for (uint32_t i = 0; i < s.set_count; i++) {
			status_set(&p->v.sets[i], &s.sets[i]);
		}
		uint32_t entries = s.drive_count;

		s.drive_count = 0;
		for (uint32_t i = 0; i < entries; i++) {
			if (p->v.drives[i].role != 0) {
				status_drive(&p->v.drives[i], locked, &s.drives[s.drive_count++]);
			}
		}
		status_health(p, &s);
		s.txg = p->v.committed_txg;
	}
	if (locked) {
		mutex_unlock(&p->config_lock);
	}
	if (s.sets == NULL || s.drives == NULL) {
		pool_status_free(&s);
		return -ENOMEM;
	}
	figures_status(p, &s);
	pool_log_figures(p, &s.log_ring_bytes, &s.log_used_bytes, &s.log_in_pool);
	*out = s;
	return 0;
}

void
pool_status_free(struct pool_status *s)
{
	mem_free(s->sets);
	mem_free(s->drives);
	s->sets = NULL;
	s->drives = NULL;
}
