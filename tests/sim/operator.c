/*
 * operator.c - somebody works on the machine while it serves: pulls drives out and puts them back,
 * takes them off and on line, replaces them, changes the log's drives and the spares, adds a set,
 * scrubs. An atlas keeps what is away or behind of each set within what it survives: then no client
 * may notice, nothing may be lost, and no command may fail but for being refused.
 *
 * In the last life everything is put back and brought up to date; then the pool must be whole and a
 * scrub find nothing.
 */
#include "tests/sim/sim.h"

#define ACT_NS_MAX (60 * NSEC_PER_MSEC)
#define HEAL_NS_MAX (1200 * NSEC_PER_SEC)
#define BLANK_MEDIA 3u

void
sim_operator_draw(struct sim *s)
{
	struct sim_machine *mc = &s->machine;
	if (mc->fill) {
		return;
	}
	if (mc->kind == RAIDZ_KIND_PARITY && m_chance(&s->rng, 20)) {
		mc->kind = RAIDZ_KIND_MIRROR;
		mc->width = 1 + m_below(&s->rng, 3);
		mc->parity = 0;
	}
	if (mc->kind == RAIDZ_KIND_PARITY && m_chance(&s->rng, 50)) {
		mc->parity = 1 + m_below(&s->rng, 3);
		mc->width = MAX(mc->width, mc->parity + 2);
	}
	mc->sets = 1;
	mc->extra = BLANK_MEDIA + (m_chance(&s->rng, 40) ? mc->width : 0);
}

/* ---- who is who ---- */

static int
medium_of(const struct sim *s, const char *path)
{
	const char *name = strrchr(path, '/');
	for (uint32_t i = 0; i < s->machine.media_count; i++) {
		if (name != NULL && strcmp(s->machine.name[i], name + 1) == 0) {
			return (int)i;
		}
	}
	return -1;
}

static bool
is_unwell(const struct pool_drive_status *d)
{
	return !d->present || d->stale || d->state != DRIVE_STATE_ONLINE;
}

/* May one more drive of the set, or of the log, be away? */
static bool
atlas_allows(const struct pool_status *st, const struct pool_drive_status *d)
{
	uint32_t unwell = 0, sides = 0, may;
	if (is_unwell(d)) {
		return d->twin; /* nobody depends on it */
	}
	for (uint32_t i = 0; i < st->drive_count; i++) {
		const struct pool_drive_status *o = &st->drives[i];
		if (o->role == d->role &&
		    (o->role != DRIVE_ROLE_DATA || (o->set_index == d->set_index && !o->twin))) {
			unwell += is_unwell(o);
			sides++;
		}
	}
	if (d->role == DRIVE_ROLE_LOG) {
		may = sides - 1;
	} else {
		const struct config_set *set = &st->sets[d->set_index];
		may = le32_get(set->kind) == RAIDZ_KIND_MIRROR ? le32_get(set->width) - 1
							       : le32_get(set->parity);
	}
	return unwell < may;
}

/* A random member; its medium in *out_medium. The status is the caller's to free. */
static const struct pool_drive_status *
pick_member(struct sim *s, const struct pool_status *st, enum drive_role role, int *out_medium)
{
	uint32_t from = m_below(&s->rng, MAX(st->drive_count, 1u));
	for (uint32_t i = 0; i < st->drive_count; i++) {
		const struct pool_drive_status *d = &st->drives[(from + i) % st->drive_count];
		if (d->role == role) {
			*out_medium = medium_of(s, d->path);
			return *out_medium >= 0 ? d : NULL;
		}
	}
	return NULL;
}

/* A medium that is no member and there; large enough for data when wanted. */
static int
pick_blank(struct sim *s, const struct pool_status *st)
{
	for (uint32_t i = 0; i < s->machine.media_count; i++) {
		bool member = s->machine.gone[i] || s->machine.small[i];
		for (uint32_t k = 0; k < st->drive_count && !member; k++) {
			member = medium_of(s, st->drives[k].path) == (int)i;
		}
		if (!member) {
			return (int)i;
		}
	}
	return -1;
}

static struct kb_drive *
open_medium(struct sim *s, int medium)
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
	       err == -ENOSPC || err == -ETIMEDOUT;
}

static void
judge(struct sim *s, const char *what, int medium, int err)
{
	sim_say(s, "operator: %s %d: %s", what, medium, err_str(err));
	s->stats.operations++;
	if (!is_refusal(err)) {
		sim_wrong(s, "%s of medium %d: %s", what, medium, err_str(err));
	}
}

/* ---- what is done ---- */

static void
do_pull(struct sim *s, const struct pool_status *st)
{
	int medium;
	enum drive_role role = m_chance(&s->rng, 75) ? DRIVE_ROLE_DATA : DRIVE_ROLE_LOG;
	const struct pool_drive_status *d = pick_member(s, st, role, &medium);
	if (d == NULL || !atlas_allows(st, d) || s->machine.gone[medium]) {
		return;
	}
	sim_say(s, "operator: pulls %d", medium);
	s->machine.gone[medium] = true;
	s->stats.operations++;
	kb_sim_vanish(s->machine.media[medium]);
	if (m_chance(&s->rng, 50)) {
		pool_drives_look(s->pool);
	}
}

static void
put_back(struct sim *s, uint32_t medium)
{
	kb_sim_return(s->machine.media[medium]);
	s->machine.gone[medium] = false;
	struct kb_drive *d = open_medium(s, (int)medium);
	if (d == NULL) {
		return;
	}
	int err = pool_drive_return(s->pool, d);
	judge(s, "puts back", (int)medium, err);
	if (err != 0) {
		kb_close(d);
	}
}

static void
do_put_back(struct sim *s, const struct pool_status *st)
{
	(void)st;
	for (uint32_t i = 0; i < s->machine.media_count; i++) {
		if (s->machine.gone[i] && m_chance(&s->rng, 60)) {
			put_back(s, i);
			return;
		}
	}
}

static void
do_offline(struct sim *s, const struct pool_status *st)
{
	int medium;
	const struct pool_drive_status *d = pick_member(s, st, DRIVE_ROLE_DATA, &medium);
	if (d != NULL && d->state == DRIVE_STATE_OFFLINE) {
		judge(s, "online", medium, pool_drive_online(s->pool, &d->guid));
	} else if (d != NULL && atlas_allows(st, d)) {
		judge(s, "offline", medium,
		    pool_drive_offline(s->pool, &d->guid, m_chance(&s->rng, 50)));
	}
}

static void
do_replace(struct sim *s, const struct pool_status *st)
{
	int medium, blank = pick_blank(s, st);
	enum drive_role role = m_chance(&s->rng, 70) ? DRIVE_ROLE_DATA : DRIVE_ROLE_LOG;
	const struct pool_drive_status *d = pick_member(s, st, role, &medium);
	char why[200];
	/* a data drive that is well is in use until the new one is filled, one that is away is
	 * replaced as it is: that makes nothing worse */
	if (d == NULL || blank < 0 ||
	    (!is_unwell(d) && d->role == DRIVE_ROLE_LOG && !atlas_allows(st, d))) {
		return;
	}
	struct kb_drive *new_drive = open_medium(s, blank);
	if (new_drive == NULL) {
		return;
	}
	int err = pool_drive_replace(s->pool, &d->guid, new_drive, why, sizeof(why));
	judge(s, "replaces", medium, err);
	if (err != 0) {
		kb_close(new_drive);
	}
}

static void
do_log(struct sim *s, const struct pool_status *st)
{
	int medium, blank = pick_blank(s, st);
	const struct pool_drive_status *d = pick_member(s, st, DRIVE_ROLE_LOG, &medium);
	char why[200];
	if (d != NULL && m_chance(&s->rng, 50)) {
		judge(s, "removes log", medium, pool_log_remove(s->pool, &d->guid));
	} else if (blank >= 0) {
		struct kb_drive *new_drive = open_medium(s, blank);
		int err = pool_log_add(s->pool, new_drive, 4 * MIB, why, sizeof(why));
		judge(s, "adds log", blank, err);
		if (err != 0) {
			kb_close(new_drive);
		}
	}
}

static void
do_spare(struct sim *s, const struct pool_status *st)
{
	int medium, blank = pick_blank(s, st);
	const struct pool_drive_status *d = pick_member(s, st, DRIVE_ROLE_SPARE, &medium);
	char why[200];
	if (d != NULL) {
		judge(s, "removes spare", medium, pool_spare_remove(s->pool, &d->guid));
	} else if (blank >= 0) {
		struct kb_drive *new_drive = open_medium(s, blank);
		int err = pool_spare_add(s->pool, new_drive, why, sizeof(why));
		judge(s, "adds spare", blank, err);
		if (err != 0) {
			kb_close(new_drive);
		}
	}
}

/* A side more or less, where there are mirrors. */
static void
do_attach(struct sim *s, const struct pool_status *st)
{
	int medium, blank = pick_blank(s, st);
	const struct pool_drive_status *d = pick_member(s, st, DRIVE_ROLE_DATA, &medium);
	char why[200];
	if (d == NULL || (s->machine.kind != RAIDZ_KIND_MIRROR && !d->twin)) {
		return;
	}
	if (m_chance(&s->rng, 50)) {
		judge(
		    s, "detaches", medium, pool_drive_detach(s->pool, &d->guid, why, sizeof(why)));
	} else if (blank >= 0) {
		struct kb_drive *new_drive = open_medium(s, blank);
		int err = new_drive != NULL
			      ? pool_drive_attach(s->pool, &d->guid, new_drive, why, sizeof(why))
			      : -ENODEV;
		judge(s, "attaches", blank, err);
		if (err != 0 && new_drive != NULL) {
			kb_close(new_drive);
		}
	}
}

static void
do_expand(struct sim *s, const struct pool_status *st)
{
	char why[200];
	(void)st;
	if (pool_expandable_bytes(s->pool) > 0) {
		judge(s, "expands", -1, pool_expand(s->pool, NULL, why, sizeof(why)));
	}
}

/* Once, when there are media enough. */
static void
do_add(struct sim *s, const struct pool_status *st)
{
	struct sim_machine *mc = &s->machine;
	struct kb_drive *drives[RAIDZ_WIDTH_MAX];
	struct pool_set_spec set = {
	    .kind = mc->kind, .parity = mc->parity, .width = mc->width, .drives = drives};
	struct pool_add_spec spec = {.sets = &set, .set_count = 1};
	struct pool_plan plan;
	uint32_t first = mc->media_count - mc->width, opened = 0;
	char why[200];
	if (st->set_count != 1 || mc->extra < BLANK_MEDIA + mc->width) {
		return;
	}
	for (; opened < mc->width; opened++) {
		bool member = mc->gone[first + opened];
		for (uint32_t k = 0; k < st->drive_count; k++) {
			member =
			    member || medium_of(s, st->drives[k].path) == (int)(first + opened);
		}
		drives[opened] = member ? NULL : open_medium(s, (int)(first + opened));
		if (drives[opened] == NULL) {
			break;
		}
	}
	int err = opened == mc->width ? pool_add(s->pool, &spec, &plan, why, sizeof(why)) : -EBUSY;
	judge(s, "adds a set at", (int)first, err);
	for (uint32_t i = 0; err != 0 && i < opened; i++) {
		kb_close(drives[i]);
	}
}

static void
do_scrub(struct sim *s, const struct pool_status *st)
{
	static const enum pool_scan_action actions[] = {
	    POOL_SCAN_START, POOL_SCAN_START, POOL_SCAN_PAUSE, POOL_SCAN_RESUME, POOL_SCAN_STOP};
	(void)st;
	judge(s, "scrub", -1, pool_scan(s->pool, actions[m_below(&s->rng, ARRAY_LEN(actions))]));
}

static void
operate(void *sim)
{
	static void (*const acts[])(struct sim * s, const struct pool_status *st) = {do_pull,
	    do_pull, do_put_back, do_put_back, do_put_back, do_offline, do_offline, do_replace,
	    do_log, do_spare, do_attach, do_attach, do_expand, do_add, do_scrub};
	struct sim *s = sim;
	while (!s->stopping && !sim_bad(s)) {
		struct pool_status st;
		fiber_sleep(1 + m_rand(&s->rng) % ACT_NS_MAX);
		if (s->stopping || pool_get_status(s->pool, &st) != 0) {
			continue;
		}
		acts[m_below(&s->rng, ARRAY_LEN(acts))](s, &st);
		pool_status_free(&st);
	}
	wg_done(&s->fibers);
}

void
sim_operator_start(struct sim *s)
{
	if (s->machine.extra > 0) {
		wg_add(&s->fibers, 1);
		fiber_spawn_wait(0, FIBER_ADMIN, "sim-operator", operate, s);
	}
}

/* ---- healing ---- */

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
		whole = whole && !is_unwell(d) && !d->twin;
		if (d->role == DRIVE_ROLE_DATA && d->present && d->state != DRIVE_STATE_ONLINE) {
			judge(s, "online", medium_of(s, d->path),
			    pool_drive_online(s->pool, &d->guid));
		}
	}
	pool_status_free(&st);
	pool_get_scan(s->pool, &scan);
	if (scan.state == SCAN_PAUSED) {
		judge(s, "resume", -1, pool_scan(s->pool, POOL_SCAN_RESUME));
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

void
sim_operator_heal(struct sim *s)
{
	struct pool_scan_status scan;
	if (s->machine.extra == 0) {
		return;
	}
	for (uint32_t i = 0; i < s->machine.media_count; i++) {
		if (s->machine.gone[i]) {
			put_back(s, i);
		}
	}
	if (!wait_whole(s, "resilver")) {
		return;
	}
	judge(s, "scrub", -1, pool_scan(s->pool, POOL_SCAN_START));
	fiber_sleep(NSEC_PER_MSEC);
	if (wait_whole(s, "scrub")) {
		pool_get_scan(s->pool, &scan);
		if (scan.kind != SCAN_SCRUB || scan.errors != 0 || scan.repaired != 0) {
			sim_wrong(s, "after healing a scrub repaired %llu blocks and couldn't %llu",
			    (unsigned long long)scan.repaired, (unsigned long long)scan.errors);
		}
	}
}
