/*
 * operator.c - somebody works on the machine while it serves: pulls drives out and puts them back,
 * takes them off and on line, replaces them, changes the log's drives and the spares, adds a set,
 * scrubs; with --faults drives also fall ill and are mended. The atlas keeps what is wrong within
 * what the layout survives: then no client may notice, nothing may be lost, the pool is never
 * suspended, and no command may fail but for being refused. heal.c has the end of it.
 */
#include "tests/sim/sim.h"

#define ACT_NS_MAX (60 * NSEC_PER_MSEC)
#define BUSY_ACT_NS_MAX (20 * NSEC_PER_MSEC) /* with illnesses there is more to do */
#define MEND_NS_MAX (400 * NSEC_PER_MSEC)
#define BLANK_MEDIA 3u
#define ILL_PERCENT 40u
#define FIRST_ILL_MAX 4u

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
	mc->sets = s->faults ? mc->sets : 1;
	mc->extra = BLANK_MEDIA + (m_chance(&s->rng, 40) ? mc->width : 0);
}

/* ---- who is who ---- */

/* A random member; its medium in *out_medium. The status is the caller's to free. */
static const struct pool_drive_status *
pick_member(struct sim *s, const struct pool_status *st, enum drive_role role, int *out_medium)
{
	uint32_t from = m_below(&s->rng, MAX(st->drive_count, 1u));
	for (uint32_t i = 0; i < st->drive_count; i++) {
		const struct pool_drive_status *d = &st->drives[(from + i) % st->drive_count];
		if (d->role == role) {
			*out_medium = sim_medium_of(s, d->path);
			return *out_medium >= 0 ? d : NULL;
		}
	}
	return NULL;
}

static bool
is_member(const struct sim *s, const struct pool_status *st, uint32_t medium)
{
	for (uint32_t i = 0; i < st->drive_count; i++) {
		if (sim_medium_of(s, st->drives[i].path) == (int)medium) {
			return true;
		}
	}
	return false;
}

/* A medium that is no member and there; large enough for data when wanted. */
static int
pick_blank(struct sim *s, const struct pool_status *st)
{
	for (uint32_t i = 0; i < s->machine.media_count; i++) {
		bool taken = s->machine.gone[i] || s->machine.small[i] || s->ill[i].ill ||
			     is_member(s, st, i);
		if (!taken) {
			sim_atlas_blank(s, (int)i);
			return (int)i;
		}
	}
	return -1;
}

/* ---- what is done ---- */

static void
do_pull(struct sim *s, const struct pool_status *st)
{
	int medium;
	enum drive_role role = m_chance(&s->rng, 75) ? DRIVE_ROLE_DATA : DRIVE_ROLE_LOG;
	const struct pool_drive_status *d = pick_member(s, st, role, &medium);
	if (d == NULL || !sim_atlas_allows(s, st, d) || s->machine.gone[medium]) {
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
do_put_back(struct sim *s, const struct pool_status *st)
{
	(void)st;
	for (uint32_t i = 0; i < s->machine.media_count; i++) {
		if (s->machine.gone[i] && m_chance(&s->rng, 60)) {
			(void)sim_put_back(s, i);
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
		sim_judge(s, "online", medium, pool_drive_online(s->pool, &d->guid));
	} else if (d != NULL && sim_atlas_allows(s, st, d)) {
		sim_judge(s, "offline", medium,
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
	    (!sim_is_unwell(d) && d->role == DRIVE_ROLE_LOG && !sim_atlas_allows(s, st, d))) {
		return;
	}
	struct kb_drive *new_drive = sim_open_medium(s, blank);
	if (new_drive == NULL) {
		return;
	}
	int err = pool_drive_replace(s->pool, &d->guid, new_drive, why, sizeof(why));
	sim_judge(s, "replaces", medium, err);
	if (err != 0) {
		kb_close(new_drive);
	} else if (s->ill[medium].ill) {
		sim_make_well(s, (uint32_t)medium); /* whoever took it out has it mended */
	}
}

/* When d, a log drive or a side of a mirror, goes for good: is there none left of its kind, or one
 * at least that can be relied on? */
static bool
side_can_go(const struct sim *s, const struct pool_status *st, const struct pool_drive_status *d)
{
	uint32_t others = 0, reliable = 0;
	for (uint32_t i = 0; i < st->drive_count; i++) {
		const struct pool_drive_status *o = &st->drives[i];
		if (o->role == d->role && o->set_index == d->set_index && o != d && !o->twin) {
			others++;
			reliable += !sim_atlas_has(s, o);
		}
	}
	return d->twin || others == 0 || reliable > 0;
}

static void
do_log(struct sim *s, const struct pool_status *st)
{
	int medium, blank = pick_blank(s, st);
	const struct pool_drive_status *d = pick_member(s, st, DRIVE_ROLE_LOG, &medium);
	char why[200];
	if (d != NULL && m_chance(&s->rng, 50)) {
		if (!side_can_go(s, st, d)) {
			return;
		}
		sim_judge(s, "removes log", medium, pool_log_remove(s->pool, &d->guid));
	} else if (blank >= 0) {
		struct kb_drive *new_drive = sim_open_medium(s, blank);
		int err = pool_log_add(s->pool, new_drive, 4 * MIB, why, sizeof(why));
		sim_judge(s, "adds log", blank, err);
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
		sim_judge(s, "removes spare", medium, pool_spare_remove(s->pool, &d->guid));
	} else if (blank >= 0) {
		struct kb_drive *new_drive = sim_open_medium(s, blank);
		int err = pool_spare_add(s->pool, new_drive, why, sizeof(why));
		sim_judge(s, "adds spare", blank, err);
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
		if (!side_can_go(s, st, d)) {
			return;
		}
		sim_judge(
		    s, "detaches", medium, pool_drive_detach(s->pool, &d->guid, why, sizeof(why)));
	} else if (blank >= 0) {
		struct kb_drive *new_drive = sim_open_medium(s, blank);
		int err = new_drive != NULL
			      ? pool_drive_attach(s->pool, &d->guid, new_drive, why, sizeof(why))
			      : -ENODEV;
		sim_judge(s, "attaches", blank, err);
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
		sim_judge(s, "expands", -1, pool_expand(s->pool, NULL, why, sizeof(why)));
	}
}

/* A new drive that is ill may fail at being prepared: then nothing may have changed. */
static void
judge_add(struct sim *s, uint32_t first, uint32_t ill, int err)
{
	struct pool_status now;
	if (err == -EIO && ill > 0 && pool_get_status(s->pool, &now) == 0) {
		bool changed = now.set_count != 1;
		for (uint32_t i = first; i < s->machine.media_count; i++) {
			changed = changed || is_member(s, &now, i);
		}
		pool_status_free(&now);
		err = changed ? err : -ENODEV;
	}
	sim_judge(s, "adds a set at", (int)first, err);
}

/* Once, when there are media enough. Of those that are ill no more than the set survives. */
static void
do_add(struct sim *s, const struct pool_status *st)
{
	struct sim_machine *mc = &s->machine;
	struct kb_drive *drives[RAIDZ_WIDTH_MAX];
	struct pool_set_spec set = {
	    .kind = mc->kind, .parity = mc->parity, .width = mc->width, .drives = drives};
	struct pool_add_spec spec = {.sets = &set, .set_count = 1};
	struct pool_plan plan;
	uint32_t first = mc->media_count - mc->width, opened = 0, ill = 0;
	char why[200];
	if (st->set_count != 1 || mc->extra < BLANK_MEDIA + mc->width) {
		return;
	}
	for (uint32_t i = first; i < mc->media_count; i++) {
		ill += s->ill[i].ill;
	}
	if (ill > (mc->kind == RAIDZ_KIND_MIRROR ? mc->width - 1 : mc->parity)) {
		return;
	}
	for (; opened < mc->width; opened++) {
		bool taken = mc->gone[first + opened] || is_member(s, st, first + opened);
		drives[opened] = taken ? NULL : sim_open_medium(s, (int)(first + opened));
		if (drives[opened] == NULL) {
			break;
		}
	}
	int err = opened == mc->width ? pool_add(s->pool, &spec, &plan, why, sizeof(why)) : -EBUSY;
	judge_add(s, first, ill, err);
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
	enum pool_scan_action action = actions[m_below(&s->rng, ARRAY_LEN(actions))];
	int err = pool_scan(s->pool, action);
	sim_judge(s, "scrub", -1, err);
	if (err == 0 && (action == POOL_SCAN_START || action == POOL_SCAN_STOP)) {
		sim_atlas_scrub(s, action == POOL_SCAN_START);
	}
}

/* ---- illnesses ---- */

static void
do_ill(struct sim *s, const struct pool_status *st)
{
	int medium;
	enum drive_role role = m_chance(&s->rng, 80) ? DRIVE_ROLE_DATA : DRIVE_ROLE_LOG;
	const struct pool_drive_status *d = pick_member(s, st, role, &medium);
	if (d != NULL && !s->machine.gone[medium] && sim_atlas_allows(s, st, d)) {
		sim_make_ill(s, (uint32_t)medium);
	}
}

static void
do_well(struct sim *s, const struct pool_status *st)
{
	(void)st;
	for (uint32_t i = 0; i < s->machine.media_count; i++) {
		if (s->ill[i].ill && m_chance(&s->rng, 50)) {
			sim_make_well(s, i);
		}
	}
}

static void
do_clear(struct sim *s, const struct pool_status *st)
{
	(void)st;
	sim_judge(s, "clear", -1, pool_drive_clear(s->pool, NULL));
}

/* All of it: everybody well, taken back, and what lied is scrubbed, for some time. */
static void
do_mend(struct sim *s, const struct pool_status *st)
{
	uint64_t until = rt_now_ns() + MEND_NS_MAX;
	for (uint32_t i = 0; i < s->machine.media_count; i++) {
		if (s->ill[i].ill) {
			sim_make_well(s, i);
		}
	}
	do_clear(s, st);
	while (!s->stopping && !sim_bad(s) && sim_atlas_has_lied(s) && rt_now_ns() < until) {
		struct pool_status now;
		struct pool_scan_status scan;
		pool_get_scan(s->pool, &scan);
		if (scan.state != SCAN_RUNNING && pool_scan(s->pool, POOL_SCAN_START) == 0) {
			sim_say(s, "operator: scrubs to mend");
			sim_atlas_scrub(s, true);
		}
		fiber_sleep(5 * NSEC_PER_MSEC);
		if (pool_get_status(s->pool, &now) == 0) {
			sim_atlas_look(s, &now);
			pool_status_free(&now);
		}
	}
}

typedef void act_fn(struct sim *s, const struct pool_status *st);

static act_fn *
pick_act(struct sim *s)
{
	static act_fn *const acts[] = {do_pull, do_pull, do_put_back, do_put_back, do_put_back,
	    do_offline, do_offline, do_replace, do_log, do_spare, do_attach, do_attach, do_expand,
	    do_add, do_scrub};
	static act_fn *const ills[] = {
	    do_ill, do_ill, do_ill, do_ill, do_ill, do_well, do_clear, do_mend};
	if (s->faults && m_chance(&s->rng, ILL_PERCENT)) {
		return ills[m_below(&s->rng, ARRAY_LEN(ills))];
	}
	return acts[m_below(&s->rng, ARRAY_LEN(acts))];
}

/* Most lives begin with illnesses. */
static void
fall_ill(struct sim *s)
{
	for (unsigned i = 0; s->faults && i < FIRST_ILL_MAX && m_chance(&s->rng, 70); i++) {
		struct pool_status st;
		if (pool_get_status(s->pool, &st) == 0) {
			sim_atlas_look(s, &st);
			do_ill(s, &st);
			pool_status_free(&st);
		}
	}
}

static void
operate(void *sim)
{
	struct sim *s = sim;
	uint64_t pause_ns_max = s->faults ? BUSY_ACT_NS_MAX : ACT_NS_MAX;
	fall_ill(s);
	while (!s->stopping && !sim_bad(s)) {
		struct pool_status st;
		fiber_sleep(1 + m_rand(&s->rng) % pause_ns_max);
		if (s->stopping || pool_get_status(s->pool, &st) != 0) {
			continue;
		}
		sim_atlas_look(s, &st);
		if (st.health == POOL_SUSPENDED) {
			sim_wrong(
			    s, "suspended, though the layout survives what is wrong: %s", st.why);
		}
		pick_act(s)(s, &st);
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
