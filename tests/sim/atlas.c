/*
 * atlas.c - what is wrong with each drive, so that no more goes wrong at once than the layout must
 * survive.
 *
 * A member is *spoken for* when any of these holds:
 *	ill      an illness is on: it may fail, lie, hang or be slow at any moment
 *	lied     it was ill in a way that leaves wrong contents; a scrub that began afterwards
 *hasn't passed over everything yet behind   it was away or lacked something, or was scrubbed just
 *now: an older root that one may fall back to can refer to blocks that were not made good, until
 *COMMITS later ones unwell   by the pool's own status: absent, stale, not on line Of a set at most
 *as many columns are spoken for as it tolerates; of the log at least one side is not. Whoever is
 *spoken for already may be made worse. Damage can't pass from a column to another, so where it lies
 *within the column needs no book-keeping: a column is taken as bad in all blocks.
 *
 * The book is kept over power cuts: what a drive did to its contents stays. A scrub counts only
 * when it began and ended in one life, as an import may take up an older state of it.
 */
#include "tests/sim/sim.h"

#define COMMITS 4u

int
sim_medium_of(const struct sim *s, const char *path)
{
	const char *name = strrchr(path, '/');
	for (uint32_t i = 0; i < s->machine.media_count; i++) {
		if (name != NULL && strcmp(s->machine.name[i], name + 1) == 0) {
			return (int)i;
		}
	}
	return -1;
}

bool
sim_is_unwell(const struct pool_drive_status *d)
{
	return !d->present || d->stale || d->state != DRIVE_STATE_ONLINE;
}

bool
sim_atlas_has(const struct sim *s, const struct pool_drive_status *d)
{
	int medium = sim_medium_of(s, d->path);
	const struct sim_ill *ill = medium >= 0 ? &s->ill[medium] : NULL;
	return sim_is_unwell(d) || ill == NULL || s->machine.gone[medium] || ill->ill ||
	       ill->lied || ill->behind;
}

/* How many members of d's set, or sides of the log, may be spoken for. */
static uint32_t
tolerated(const struct pool_status *st, const struct pool_drive_status *d, uint32_t sides)
{
	if (d->role == DRIVE_ROLE_LOG) {
		return sides - 1;
	}
	const struct config_set *set = &st->sets[d->set_index];
	return le32_get(set->kind) == RAIDZ_KIND_MIRROR ? le32_get(set->width) - 1
							: le32_get(set->parity);
}

/* Of a drive that is being filled to take the place of another only what it lies about matters. */
static bool
column_is_taken(const struct sim *s, const struct pool_status *st,
    const struct pool_drive_status *o, const struct pool_drive_status *d)
{
	bool taken = sim_atlas_has(s, o);
	for (uint32_t i = 0; i < st->drive_count; i++) {
		const struct pool_drive_status *e = &st->drives[i];
		if (e->role != o->role || e->set_index != o->set_index || e->column != o->column) {
			continue;
		}
		int medium = sim_medium_of(s, e->path);
		taken = taken || e == d ||
			(e->twin && medium >= 0 && (s->ill[medium].ill || s->ill[medium].lied));
	}
	return taken;
}

bool
sim_atlas_allows(
    const struct sim *s, const struct pool_status *st, const struct pool_drive_status *d)
{
	uint32_t taken = 0, sides = 0;
	if (d->role != DRIVE_ROLE_DATA && d->role != DRIVE_ROLE_LOG) {
		return false;
	}
	for (uint32_t i = 0; i < st->drive_count; i++) {
		const struct pool_drive_status *o = &st->drives[i];
		if (o->role == d->role && !o->twin &&
		    (o->role != DRIVE_ROLE_DATA || o->set_index == d->set_index)) {
			taken += column_is_taken(s, st, o, d);
			sides++;
		}
	}
	return taken <= tolerated(st, d, sides);
}

void
sim_atlas_ill(struct sim *s, int medium, bool lies)
{
	s->ill[medium].ill = true;
	s->ill[medium].lied = s->ill[medium].lied || lies;
	s->ill[medium].covered = false;
}

void
sim_atlas_well(struct sim *s, int medium)
{
	s->ill[medium].ill = false;
}

void
sim_atlas_blank(struct sim *s, int medium)
{
	s->ill[medium] = (struct sim_ill){0};
}

void
sim_atlas_power_on(struct sim *s)
{
	for (uint32_t i = 0; i < s->machine.media_count; i++) {
		s->ill[i].ill = s->ill[i].covered = false;
		if (s->plan.rewind > 0) {
			s->ill[i].well_txg = 0; /* commits are counted anew on the new timeline */
		}
	}
}

void
sim_atlas_scrub(struct sim *s, bool begins)
{
	for (uint32_t i = 0; i < s->machine.media_count; i++) {
		s->ill[i].covered = begins && s->ill[i].lied && !s->ill[i].ill;
	}
}

static void
take_scrub(struct sim *s)
{
	struct pool_scan_status scan;
	pool_get_scan(s->pool, &scan);
	if (scan.kind == SCAN_SCRUB && (scan.state == SCAN_RUNNING || scan.state == SCAN_PAUSED)) {
		return;
	}
	bool whole = scan.kind == SCAN_SCRUB && scan.state == SCAN_DONE && scan.errors == 0 &&
		     scan.unreached == 0;
	for (uint32_t i = 0; i < s->machine.media_count; i++) {
		struct sim_ill *ill = &s->ill[i];
		if (ill->covered && whole) {
			ill->lied = false;
			ill->behind = true;
			ill->well_txg = 0;
		}
		ill->covered = false;
	}
}

void
sim_atlas_look(struct sim *s, const struct pool_status *st)
{
	for (uint32_t i = 0; i < st->drive_count; i++) {
		int medium = sim_medium_of(s, st->drives[i].path);
		if (medium >= 0 && (sim_is_unwell(&st->drives[i]) || s->machine.gone[medium])) {
			s->ill[medium].covered = false; /* what isn't there isn't scrubbed */
		}
	}
	take_scrub(s);
	for (uint32_t i = 0; i < st->drive_count; i++) {
		int medium = sim_medium_of(s, st->drives[i].path);
		if (medium < 0 || st->drives[i].role == DRIVE_ROLE_SPARE) {
			continue;
		}
		struct sim_ill *ill = &s->ill[medium];
		if (sim_is_unwell(&st->drives[i]) || s->machine.gone[medium]) {
			ill->behind = true;
			ill->well_txg = 0;
		} else if (ill->behind && ill->well_txg == 0) {
			ill->well_txg = st->txg;
		} else if (ill->behind && st->txg >= ill->well_txg + COMMITS) {
			ill->behind = false;
		}
	}
}

bool
sim_atlas_has_lied(const struct sim *s)
{
	bool lied = false;
	for (uint32_t i = 0; i < s->machine.media_count; i++) {
		lied = lied || s->ill[i].lied;
	}
	return lied;
}
