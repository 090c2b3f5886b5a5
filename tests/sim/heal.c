/*
 * heal.c - after all that went wrong: everything is put back, brought up to date and scrubbed. Then
 * the pool must be whole, a scrub find nothing, and in one more life (the proof) everything must be
 * there though as many drives are missing as the layout survives: so each column is right.
 */
#include "tests/sim/sim.h"

#define HEAL_NS_MAX (1200 * NSEC_PER_SEC)
#define SETS_MAX 4u

struct kb_drive *
sim_open_medium(struct sim *s, int medium)
{
	struct kb_drive *d = NULL;
	int err = kb_sim_open(s->machine.media[medium], &d);
	if (err != 0) {
		sim_wrong(s, "medium %d doesn't open: %s", medium, err_str(err));
	}
	return d;
}

/* What a command may answer without anything being wrong. */
static bool
is_refusal(int err)
{
	return err == 0 || err == -EBUSY || err == -ENOENT || err == -ENODEV || err == -EINVAL ||
	       err == -ENOSPC || err == -ETIMEDOUT || err == -EAGAIN;
}

void
sim_judge(struct sim *s, const char *what, int medium, int err)
{
	sim_say(s, "operator: %s %d: %s", what, medium, err_str(err));
	s->stats.operations++;
	if (!is_refusal(err)) {
		sim_wrong(s, "%s of medium %d: %s", what, medium, err_str(err));
	}
}

bool
sim_put_back(struct sim *s, uint32_t medium)
{
	kb_sim_return(s->machine.media[medium]);
	s->machine.gone[medium] = false;
	struct kb_drive *d = sim_open_medium(s, (int)medium);
	if (d == NULL) {
		return false;
	}
	int err = pool_drive_return(s->pool, d);
	sim_judge(s, "puts back", (int)medium, err);
	if (err != 0) {
		kb_close(d);
	}
	return err == 0;
}

/* Everybody there, on line and up to date? Puts right what a hand can. */
static bool
is_whole(struct sim *s)
{
	struct pool_status st;
	struct pool_scan_status scan;
	bool whole = true;
	if (pool_get_status(s->pool, &st) != 0) {
		return false;
	}
	for (uint32_t i = 0; i < st.drive_count; i++) {
		const struct pool_drive_status *d = &st.drives[i];
		if (d->role == DRIVE_ROLE_SPARE) {
			continue;
		}
		whole = whole && !sim_is_unwell(d) && !d->twin;
		if (d->role == DRIVE_ROLE_DATA && d->present && d->state != DRIVE_STATE_ONLINE) {
			sim_judge(s, "online", sim_medium_of(s, d->path),
			    pool_drive_online(s->pool, &d->guid));
		}
	}
	pool_status_free(&st);
	pool_get_scan(s->pool, &scan);
	if (scan.state == SCAN_PAUSED) {
		sim_judge(s, "resume", -1, pool_scan(s->pool, POOL_SCAN_RESUME));
	}
	return whole && scan.state != SCAN_RUNNING && scan.state != SCAN_PAUSED;
}

static bool
wait_whole(struct sim *s, const char *what)
{
	uint64_t until = rt_now_ns() + HEAL_NS_MAX;
	while (!is_whole(s)) {
		if (rt_now_ns() >= until || sim_bad(s)) {
			struct pool_status st;
			if (pool_get_status(s->pool, &st) == 0) {
				sim_wrong(s, "%s: not whole after all this time: %s", what, st.why);
				pool_status_free(&st);
			}
			return false;
		}
		fiber_sleep(NSEC_PER_SEC);
	}
	return true;
}

static bool
scrub(struct sim *s, struct pool_scan_status *out)
{
	sim_judge(s, "scrub", -1, pool_scan(s->pool, POOL_SCAN_START));
	fiber_sleep(NSEC_PER_MSEC);
	if (!wait_whole(s, "scrub")) {
		return false;
	}
	pool_get_scan(s->pool, out);
	sim_say(s, "scrub: repaired %llu, errors %llu, unreached %llu",
	    (unsigned long long)out->repaired, (unsigned long long)out->errors,
	    (unsigned long long)out->unreached);
	if (out->kind != SCAN_SCRUB || out->errors != 0 || out->unreached != 0) {
		sim_wrong(s, "a scrub couldn't repair %llu blocks and couldn't reach %llu",
		    (unsigned long long)out->errors, (unsigned long long)out->unreached);
		return false;
	}
	return true;
}

/* Errors were forgotten before the last scrub: nobody may have made new ones. */
static void
check_drives(struct sim *s)
{
	struct pool_status st;
	if (pool_get_status(s->pool, &st) != 0) {
		return;
	}
	if (st.health != POOL_ONLINE) {
		sim_wrong(s, "after healing it isn't on line: %s", st.why);
	}
	for (uint32_t i = 0; i < st.drive_count; i++) {
		const struct pool_drive_status *d = &st.drives[i];
		if ((d->role != DRIVE_ROLE_SPARE && sim_is_unwell(d)) ||
		    d->read_errors + d->write_errors + d->cksum_errors != 0) {
			sim_wrong(s, "after healing %s is in state %d with %llu errors", d->path,
			    (int)d->state,
			    (unsigned long long)(d->read_errors + d->write_errors +
						 d->cksum_errors));
		}
	}
	pool_status_free(&st);
}

/* A drive that hung is mended, but may take its time to answer. */
static void
clear_all(struct sim *s)
{
	int err = pool_drive_clear(s->pool, NULL);
	for (uint32_t i = 0; err == -EAGAIN && i < 60; i++) {
		fiber_sleep(NSEC_PER_SEC);
		err = pool_drive_clear(s->pool, NULL);
	}
	sim_judge(s, "clear", -1, err);
}

static void
heal(struct sim *s)
{
	struct pool_scan_status scan;
	bool lied = sim_atlas_has_lied(s);
	for (uint32_t i = 0; i < s->machine.media_count; i++) {
		if (s->machine.gone[i]) {
			(void)sim_put_back(s, i);
		}
	}
	clear_all(s);
	if (!wait_whole(s, "resilver") || (lied && !scrub(s, &scan))) {
		return;
	}
	clear_all(s);
	if (!scrub(s, &scan)) {
		return;
	}
	if (scan.repaired != 0) {
		sim_wrong(s, "after healing a scrub repaired %llu blocks",
		    (unsigned long long)scan.repaired);
	}
	check_drives(s);
}

/* ---- the proof ---- */

static uint32_t
may_be_missing(const struct pool_status *st, uint32_t set)
{
	const struct config_set *cfg = &st->sets[set];
	return le32_get(cfg->kind) == RAIDZ_KIND_MIRROR ? le32_get(cfg->width) - 1
							: le32_get(cfg->parity);
}

/* Of each set as many as it tolerates, as if cards were drawn; of the log's drives, any. */
static void
draw_missing(struct sim *s, const struct pool_status *st)
{
	uint32_t drawn[SETS_MAX] = {0}, seen[SETS_MAX] = {0};
	for (uint32_t i = 0; i < st->drive_count; i++) {
		const struct pool_drive_status *d = &st->drives[i];
		int medium = sim_medium_of(s, d->path);
		if (medium < 0 || d->role == DRIVE_ROLE_SPARE) {
			continue;
		}
		if (d->role == DRIVE_ROLE_LOG) {
			s->machine.missing[medium] = m_chance(&s->rng, 40);
			continue;
		}
		uint32_t set = d->set_index;
		ASSERT(set < SETS_MAX);
		uint32_t left = le32_get(st->sets[set].width) - seen[set]++;
		if (m_below(&s->rng, left) < may_be_missing(st, set) - drawn[set]) {
			s->machine.missing[medium] = true;
			drawn[set]++;
		}
	}
}

static void
draw_proof(struct sim *s)
{
	struct pool_status st;
	if (pool_get_status(s->pool, &st) == 0) {
		draw_missing(s, &st);
		pool_status_free(&st);
	}
}

void
sim_heal(struct sim *s)
{
	if (s->faults || s->operator) {
		heal(s);
	}
	if (!sim_bad(s)) {
		draw_proof(s);
	}
}
