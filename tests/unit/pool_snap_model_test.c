/*
 * pool_snap_model_test.c - histories of datasets, snapshots, clones against a model, over many
 * lives of a pool.
 *
 * One fiber changes objects (writes, holes, truncation, destruction with reuse of numbers, changes
 * of record size and compression); beside it at most one administrative operation runs at a time
 * (create, destroy, clone, promote, rollback, destroy of datasets, holds, renames). The model keeps
 * of each dataset what each transaction left, with its txg: so what a snapshot of txg T must hold,
 * and what a root of txg T must hold after the power was cut, is known exactly, object by object.
 * Now and then, and after each import, everything is compared and pool_check must find nothing: its
 * equations make space exact to the sector.
 *
 * AGATE_SNAP_SEEDS=n: n seeds instead of a few; AGATE_SNAP_STEPS=n: steps of a seed.
 */
#include "tests/unit/pool_snap_model.h"

/* ---- administrative operations, in a fiber beside ---- */

/* The one that has been unused for longest. */
static struct msnap *
snap_slot(void)
{
	for (uint32_t i = 0; i < SNAPS; i++) {
		struct msnap *s = &snaps[snap_next++ % SNAPS];

		if (!s->exists) {
			return s;
		}
	}
	return NULL;
}

static bool
snap_full_name(uint64_t guid, char out[DATASET_NAME_MAX + 1])
{
	struct pool_ds_info info;
	struct pool_ds *ds;

	if (pool_snap_open_guid(pool, 0, guid, &ds) != 0) {
		return false;
	}
	pool_ds_get_info(ds, &info);
	memcpy(out, info.path, sizeof(info.path));
	pool_ds_close(ds);
	return true;
}

/* What the model knows of a snapshot that has just been made, or is found after a crash. */
static void
snap_learn(const struct head *h, const char *full)
{
	struct msnap *s = snap_slot();
	struct pool_snap_info info;
	int err = pool_snap_get(pool, full, 0, &info);

	ASSERT(err == 0 && s != NULL);
	memset(s, 0, sizeof(*s));
	memcpy(s->o, history_at(h, info.create_txg), sizeof(s->o));
	s->guid = info.guid;
	s->create_txg = info.create_txg;
	s->exists = true;
	made++;
	if (getenv("AGATE_TRACE") != NULL) {
		fprintf(stderr, "  snapshot %s %llx txg %llu\n", full, (unsigned long long)s->guid,
		    (unsigned long long)info.create_txg);
	}
}

static void
adm_create(void)
{
	char full[HEADS][DATASET_NAME_MAX + 1];
	const char *names[HEADS];
	uint32_t bad = 0;
	int err;

	for (uint32_t i = 0; i < adm.count; i++) {
		(void)snprintf(
		    full[i], sizeof(full[i]), "%s@%s", heads[adm.heads[i]].path, adm.name);
		names[i] = full[i];
	}
	err = pool_snap_create(pool, names, adm.count, &bad);
	ASSERT(err == 0);
	for (uint32_t i = 0; i < adm.count; i++) {
		snap_learn(&heads[adm.heads[i]], full[i]);
	}
}

static void
adm_destroy(void)
{
	static char full[8][DATASET_NAME_MAX + 1]; /* one operation at a time */
	const char *names[8];
	uint64_t reclaim = 0;
	uint32_t bad = 0;
	int err;

	for (uint32_t i = 0; i < adm.count; i++) {
		bool there = snap_full_name(snaps[adm.snaps[i]].guid, full[i]);

		ASSERT(there);
		names[i] = full[i];
	}
	if (rnd(4) == 0) {
		err = pool_snap_reclaim(pool, names, adm.count, &reclaim);
		ASSERT(err == 0);
	}
	err = pool_snap_destroy(pool, names, adm.count, &bad);
	ASSERT(err == 0 || err == -EBUSY);
	for (uint32_t i = 0; i < adm.count && err == 0; i++) {
		snaps[adm.snaps[i]].exists = false;
		destroyed++;
	}
}

/* The head's contents are the snapshot's. */
static void
head_becomes(struct head *h, const struct msnap *s)
{
	memcpy(h->now, s->o, sizeof(h->now));
	snap_compare(s, OBJS, h->b);
	history_begin(h);
}

static void
head_identify(struct head *h)
{
	struct pool_ds *ds = head_open(h);

	h->guid = pool_ds_guid(ds);
	h->incarnation = pool_ds_incarnation(ds);
	pool_ds_close(ds);
}

static void
adm_clone(void)
{
	struct head *h = &heads[adm.head];
	char full[DATASET_NAME_MAX + 1];
	struct pool_ds *ds;
	bool there = snap_full_name(snaps[adm.snap].guid, full);
	int err;

	ASSERT(there);
	err = pool_ds_clone(pool, full, h->path, &ds);
	ASSERT(err == 0);
	pool_ds_close(ds);
	head_becomes(h, &snaps[adm.snap]);
	head_identify(h);
	h->exists = true;
	cloned++;
}

static void
adm_rollback(void)
{
	struct head *h = &heads[adm.head], *kept = adm.kept < HEADS ? &heads[adm.kept] : NULL;
	char full[DATASET_NAME_MAX + 1];
	bool there = snap_full_name(snaps[adm.snap].guid, full);
	int err;

	ASSERT(there);
	adm.started = true;
	err = pool_ds_rollback(pool, full, kept != NULL ? kept->path : NULL);
	if (err == -EBUSY) {
		return; /* not the newest */
	}
	ASSERT(err == 0);
	if (kept != NULL) {
		memcpy(kept->now, h->now, sizeof(kept->now));
		memcpy(kept->b, h->b, sizeof(kept->b));
		history_begin(kept);
		head_identify(kept);
		kept->exists = true;
	}
	head_becomes(h, &snaps[adm.snap]);
	head_identify(h);
	rolled++;
}

static void
adm_promote(void)
{
	char why[200] = "";
	int err = pool_ds_promote(pool, heads[adm.head].path, why, sizeof(why));

	ASSERT(err == 0 || err == -EINVAL);
	promoted += err == 0;
}

static void
adm_gone(void)
{
	int err = pool_ds_destroy(pool, heads[adm.head].path);

	ASSERT(err == 0 || err == -EBUSY);
	heads[adm.head].exists = err != 0;
}

static void
adm_trace(const char *what)
{
	if (getenv("AGATE_TRACE") != NULL) {
		fprintf(stderr,
		    "%llu %s kind %u head %u kept %u snap %llx name %s count %u txg %llu\n",
		    (unsigned long long)life, what, adm.kind, adm.head, adm.kept,
		    adm.snap < SNAPS ? (unsigned long long)snaps[adm.snap].guid : 0, adm.name,
		    adm.count, (unsigned long long)txg_open(pool->txgs));
		for (uint32_t i = 0; i < adm.count && adm.kind == ADM_DESTROY; i++) {
			fprintf(stderr, "  %llx\n", (unsigned long long)snaps[adm.snaps[i]].guid);
		}
	}
}

static void
adm_fiber(void *arg UNUSED)
{
	adm_trace("begin");
	switch (adm.kind) {
	case ADM_CREATE:
		adm_create();
		break;
	case ADM_DESTROY:
		adm_destroy();
		break;
	case ADM_CLONE:
		adm_clone();
		break;
	case ADM_PROMOTE:
		adm_promote();
		break;
	case ADM_ROLLBACK:
		adm_rollback();
		break;
	case ADM_GONE:
		adm_gone();
		break;
	case ADM_NONE:
		break;
	}
	adm_trace("end");
	heads[adm.head].busy = false;
	adm.kind = ADM_NONE;
	adm.running = false;
}

static uint32_t
pick_head(bool exists)
{
	uint32_t first = (uint32_t)rnd(HEADS);

	for (uint32_t i = 0; i < HEADS; i++) {
		uint32_t k = (first + i) % HEADS;

		if (heads[k].exists == exists && !heads[k].busy) {
			return k;
		}
	}
	return HEADS;
}

static uint32_t
pick_snap(void)
{
	uint32_t first = (uint32_t)rnd(SNAPS);

	for (uint32_t i = 0; i < SNAPS; i++) {
		uint32_t k = (first + i) % SNAPS;

		if (snaps[k].exists) {
			return k;
		}
	}
	return SNAPS;
}

static uint32_t
snap_count(void)
{
	uint32_t n = 0;

	for (uint32_t i = 0; i < SNAPS; i++) {
		n += snaps[i].exists;
	}
	return n;
}

static bool
choose_create(void)
{
	uint32_t want = 1 + (uint32_t)rnd(HEADS);

	if (snap_count() + HEADS > SNAPS) {
		return false;
	}
	adm.kind = ADM_CREATE;
	(void)snprintf(adm.name, sizeof(adm.name), "s%u", name_count++);
	for (uint32_t i = 0; i < HEADS && adm.count < want; i++) {
		if (heads[i].exists && (want == HEADS || rnd(2) == 0)) {
			adm.heads[adm.count++] = i;
		}
	}
	return adm.count > 0;
}

static bool
choose_destroy(void)
{
	uint32_t want = 1 + (uint32_t)rnd(rnd(3) == 0 ? 8 : 2);

	adm.kind = ADM_DESTROY;
	for (uint32_t i = 0; i < SNAPS && adm.count < want; i++) {
		if (snaps[i].exists && rnd(snap_count()) < want) {
			adm.snaps[adm.count++] = i;
		}
	}
	return adm.count > 0;
}

/* The dataset whose path begins the snapshot's. */
static uint32_t
head_of_snap(uint32_t snap)
{
	char full[DATASET_NAME_MAX + 1];

	if (!snap_full_name(snaps[snap].guid, full)) {
		return HEADS;
	}
	*strchr(full, '@') = '\0';
	for (uint32_t i = 0; i < HEADS; i++) {
		if (heads[i].exists && strcmp(heads[i].path, full) == 0) {
			return i;
		}
	}
	return HEADS;
}

static bool
choose_roles(void)
{
	adm.snap = pick_snap();
	switch (rnd(5)) {
	case 0:
		adm.kind = ADM_CLONE;
		adm.head = pick_head(false);
		return adm.snap < SNAPS && adm.head < HEADS;
	case 1:
		adm.kind = ADM_PROMOTE;
		adm.head = pick_head(true);
		return true;
	case 2:
		adm.kind = ADM_GONE;
		adm.head = (uint32_t)(1 + rnd(HEADS - 1));
		heads[adm.head].busy = true;
		return heads[adm.head].exists;
	default:
		adm.kind = ADM_ROLLBACK;
		adm.head = adm.snap < SNAPS ? head_of_snap(adm.snap) : HEADS;
		adm.kept = rnd(3) == 0 ? pick_head(false) : HEADS;
		if (adm.head < HEADS) {
			heads[adm.head].busy = true;
		}
		return adm.head < HEADS;
	}
}

static void
step_admin(void)
{
	bool ok;

	memset(&adm, 0, sizeof(adm));
	adm.kept = HEADS;
	switch (rnd(4)) {
	case 0:
		ok = choose_create();
		break;
	case 1:
		ok = snap_count() > 10 || rnd(3) == 0 ? choose_destroy() : choose_create();
		break;
	default:
		ok = choose_roles();
		break;
	}
	if (!ok) {
		if (adm.head < HEADS) {
			heads[adm.head].busy = false;
		}
		adm.kind = ADM_NONE;
		return;
	}
	adm.running = true;
	/* the model is for one thread at a time */
	fiber_spawn_wait(real || rnd(2) == 0 ? 0 : 1, FIBER_REQUEST, "admin", adm_fiber, NULL);
}

/* ---- tags and names, at once ---- */

static void
step_tag(void)
{
	uint32_t k = pick_snap();
	char full[DATASET_NAME_MAX + 1], name[16];
	int err;

	if (k == SNAPS || !snap_full_name(snaps[k].guid, full)) {
		return;
	}
	if (snaps[k].holds > 0) {
		err = pool_snap_release(pool, full, "keep");
		ASSERT(err == 0);
		snaps[k].holds = 0;
	} else if (rnd(2) == 0) {
		err = pool_snap_hold(pool, full, "keep");
		ASSERT(err == 0);
		snaps[k].holds = 1;
	} else {
		(void)snprintf(name, sizeof(name), "s%u", name_count++);
		err = pool_snap_rename(pool, full, name);
		ASSERT(err == 0);
	}
}

/* ---- a life ---- */

static void
pool_make(void)
{
	struct pool_set_spec set = {RAIDZ_KIND_PARITY, 1, 7, rig.drives};
	struct pool_create_spec spec = {
	    .name = "tank", .sets = &set, .set_count = 1, .host_name = "here", .host_id = 1};
	struct pool_ds *ds;
	char why[200];
	int err = pool_create(&spec, &pool, why, sizeof(why));

	ASSERT(err == 0);
	if (old) {
		pool->v.feat_rocompat &= ~(uint64_t)FEATURE_RO_ACCOUNTS;
		atomic_store(&pool->datasets->root->accounts_next, 0);
		atomic_store(&pool->config_dirty, true);
	}
	for (uint32_t i = 0; i < 2; i++) {
		err = pool_ds_create(pool, heads[i].path, &ds);
		ASSERT(err == 0);
		pool_ds_close(ds);
		head_identify(&heads[i]);
		history_begin(&heads[i]);
		heads[i].exists = true;
	}
	created = true;
}

static int
redo(void *arg UNUSED, const struct pool_record *rec UNUSED)
{
	return 0;
}

/* The head is what the root of txg says: its state then, unless a rollback was under way. */
static void
head_resume(struct head *h, uint64_t txg)
{
	struct pool_ds *ds = head_open(h);

	ASSERT(pool_ds_guid(ds) == h->guid);
	memcpy(h->now, history_at(h, txg), sizeof(h->now));
	for (uint32_t k = 0; k < OBJS; k++) {
		bool ok = object_matches(ds, &h->now[k], &h->b[k]);

		if (!ok) {
			fprintf(stderr, "life %llu dataset %s object %u differs, root %llu\n",
			    (unsigned long long)life, h->path, k, (unsigned long long)txg);
		}
		ASSERT(ok);
	}
	pool_ds_close(ds);
	h->busy = false;
	history_begin(h);
}

static bool
path_exists(const char *path)
{
	struct pool_ds *ds;
	int err = pool_ds_open(pool, path, &ds);

	if (err == 0) {
		pool_ds_close(ds);
	}
	return err == 0;
}

/* What was under way may have landed or not; as a whole. */
static void
settle_create(void)
{
	uint32_t there = 0;

	for (uint32_t i = 0; i < adm.count; i++) {
		char full[DATASET_NAME_MAX + 1];
		struct pool_snap_info info;
		bool known = false;

		(void)snprintf(full, sizeof(full), "%s@%s", heads[adm.heads[i]].path, adm.name);
		if (pool_snap_get(pool, full, 0, &info) != 0) {
			continue;
		}
		there++;
		for (uint32_t k = 0; k < SNAPS; k++) {
			known = known || (snaps[k].exists && snaps[k].guid == info.guid);
		}
		if (!known) {
			snap_learn(&heads[adm.heads[i]], full);
		}
	}
	ASSERT(there == 0 || there == adm.count);
}

static void
settle_destroy(void)
{
	uint32_t there = 0;

	for (uint32_t i = 0; i < adm.count; i++) {
		char full[DATASET_NAME_MAX + 1];

		there += snap_full_name(snaps[adm.snaps[i]].guid, full);
	}
	ASSERT(there == 0 || there == adm.count);
	for (uint32_t i = 0; i < adm.count && there == 0; i++) {
		snaps[adm.snaps[i]].exists = false;
	}
}

static void
settle_rollback(uint64_t txg)
{
	struct head *h = &heads[adm.head];
	struct head *kept = adm.kept < HEADS ? &heads[adm.kept] : NULL;
	struct pool_ds *ds = head_open(h);
	bool done = pool_ds_incarnation(ds) != h->incarnation;

	pool_ds_close(ds);
	if (kept != NULL) {
		ASSERT(path_exists(kept->path) == done || kept->exists);
		if (done && !kept->exists) {
			memcpy(kept->history, h->history, sizeof(kept->history));
			kept->count = h->count;
			kept->exists = true;
			head_identify(kept);
		}
	}
	if (done) {
		memcpy(h->now, snaps[adm.snap].o, sizeof(h->now));
		history_begin(h);
		head_identify(h);
	}
	(void)txg;
}

static void
settle(uint64_t txg)
{
	bool there;

	switch (adm.kind) {
	case ADM_CREATE:
		settle_create();
		break;
	case ADM_DESTROY:
		settle_destroy();
		break;
	case ADM_CLONE:
		there = path_exists(heads[adm.head].path);
		if (there && !heads[adm.head].exists) {
			memcpy(heads[adm.head].now, snaps[adm.snap].o, sizeof(heads[0].now));
			history_begin(&heads[adm.head]);
			head_identify(&heads[adm.head]);
		}
		heads[adm.head].exists = there;
		break;
	case ADM_ROLLBACK:
		if (adm.started) {
			settle_rollback(txg);
		}
		break;
	case ADM_GONE:
		heads[adm.head].exists = path_exists(heads[adm.head].path);
		break;
	case ADM_PROMOTE:
	case ADM_NONE:
		break;
	}
	memset(&adm, 0, sizeof(adm));
}

/* A tag or a name may have been on its way. */
static int
learn_holds(void *arg UNUSED, const struct pool_snap_info *i)
{
	for (uint32_t k = 0; k < SNAPS; k++) {
		if (snaps[k].exists && snaps[k].guid == i->guid) {
			snaps[k].holds = i->holds;
		}
	}
	return 0;
}

/* Is it one that was destroyed in a txg that is no more? */
static int
revive(void *arg UNUSED, const struct pool_snap_info *i)
{
	for (uint32_t k = 0; k < SNAPS; k++) {
		if (snaps[k].guid == i->guid) {
			snaps[k].exists = true;
		}
	}
	return 0;
}

/* Back to an older root: what isn't waited for until two later ones are committed (destroying
 * snapshots and datasets) is as it was then. */
static void
go_back(uint64_t txg)
{
	for (uint32_t i = 0; i < SNAPS; i++) {
		ASSERT(!snaps[i].exists || snaps[i].create_txg <= txg);
	}
	for (uint32_t i = 0; i < HEADS; i++) {
		struct pool_ds *ds;

		if (!heads[i].exists && pool_ds_open(pool, heads[i].path, &ds) == 0) {
			heads[i].exists = pool_ds_guid(ds) == heads[i].guid;
			pool_ds_close(ds);
		}
		if (heads[i].exists) {
			int err = pool_snap_each(pool, heads[i].path, 0, revive, NULL);

			ASSERT(err == 0);
		}
	}
	rewound++;
}

static void
pool_take_up(void)
{
	struct pool_import_spec spec = {
	    .drives = rig.drives, .drive_count = rig.count, .host_name = "here", .host_id = 1};
	struct pool_import_result result = {0};
	struct pool_replay_result rr;
	struct pool_label_info info;
	uint64_t txg;
	int err = pool_label_probe(rig.drives[0], &info);

	ASSERT(err == 0);
	spec.pool_guid = info.pool_guid;
	spec.rewind_txgs = went_back ? 1 + (uint32_t)rnd(2) : 0;
	err = pool_import(&spec, &pool, &result);
	if (err != 0) {
		fprintf(stderr, "import: %s: %s\n", err_str(err), result.why);
	}
	ASSERT(err == 0);
	txg = result.txg;
	settle(txg);
	if (went_back) {
		go_back(txg);
	}
	for (uint32_t i = 0; i < HEADS; i++) {
		if (heads[i].exists) {
			head_resume(&heads[i], txg);
			err = pool_snap_each(pool, heads[i].path, 0, learn_holds, NULL);
			ASSERT(err == 0);
		}
	}
	err = pool_replay(pool, redo, NULL, &rr);
	ASSERT(err == 0);
	check();
	compare_all();
}

static void
admin_wait(void)
{
	while (adm.running) {
		fiber_sleep(NSEC_PER_MSEC);
	}
}

static void
step_upgrade(void)
{
	uint64_t fresh = 0;
	int err = pool_upgrade(pool, &fresh);

	ASSERT(err == 0);
	old = false;
	upgraded += fresh == FEATURE_RO_ACCOUNTS;
}

static void
steps(void)
{
	while (steps_left > 0) {
		uint32_t h = pick_head(true);

		steps_left--;
		if (h < HEADS) {
			step_object(&heads[h]);
		}
		if (!adm.running && rnd(8) == 0) {
			step_admin();
		}
		if (rnd(10) == 0) {
			uint32_t k = pick_snap();

			if (k < SNAPS && !(adm.running && adm.kind == ADM_DESTROY)) {
				snap_compare(&snaps[k], (uint32_t)rnd(OBJS), NULL);
			}
		}
		if (adm.running) {
			fiber_sleep(rnd(3 * NSEC_PER_MSEC));
		}
		if (rnd(20) == 0) {
			int err = rnd(2) == 0 ? pool_sync(pool) : 0;

			ASSERT(err == 0);
			fiber_sleep(rnd(20 * NSEC_PER_MSEC));
		}
		if (!adm.running && rnd(40) == 0) {
			step_tag();
		}
		if (rnd(60) == 0) {
			admin_wait();
			check();
		}
		if (old && !adm.running && rnd(100) == 0) {
			step_upgrade();
		}
		if (rnd(200) == 0) {
			admin_wait();
			compare_all();
		}
	}
}

static void
life_main(void *arg UNUSED)
{
	int err;

	rig_open(&rig);
	/* back by two at most, from what was served last */
	went_back = created && !real && served && rnd(4) == 0;
	served = false;
	if (created && !real && !went_back && rnd(3) == 0) {
		kb_sim_crash_after_writes(1 + rnd(400)); /* in the middle of taking up */
	}
	if (created) {
		pool_take_up();
	} else {
		pool_make();
	}
	served = true;
	kb_sim_crash_after_writes(real || rnd(6) == 0 ? 0 : 1 + rnd(rnd(2) == 0 ? 1000 : 10000));
	steps();
	admin_wait();
	err = pool_sync(pool);
	ASSERT(err == 0);
	check();
	compare_all();
	err = pool_export(pool);
	ASSERT(err == 0);
	memset(rig.drives, 0, sizeof(rig.drives));
	kb_sim_crash_after_writes(0);
}

/* One seed: lives until its steps are done. */
static void
history_run(uint64_t seed, uint32_t count, unsigned buggify)
{
	rng = seed * 2654435761u + 88172645463325252ull;
	created = served = false;
	old = seed % 3 == 0;
	memset(&adm, 0, sizeof(adm));
	memset(snaps, 0, sizeof(snaps));
	for (uint32_t i = 0; i < HEADS; i++) {
		memset(&heads[i], 0, sizeof(heads[i]));
		(void)snprintf(heads[i].path, sizeof(heads[i].path), "tank/%c", (char)('a' + i));
	}
	steps_left = count;
	rig_make(&rig, 7, DRIVE_BYTES);
	log_set_level(getenv("AGATE_LOG") != NULL ? LOG_DEBUG : LOG_ERROR);
	for (life = 0; steps_left > 0; life++) {
		struct rt_options opt = unit_rt(!real, real ? 3 : 2, seed * 1000 + life);
		int err;

		opt.arena_bytes = 96 * MIB;
		bug_set_buggify(buggify);
		if (getenv("AGATE_BUGS") != NULL) {
			bug_set_deliberate(getenv("AGATE_BUGS"));
		}
		err = rt_run(&opt, life_main, NULL);
		kb_sim_crash_after_writes(0);
		ASSERT(err == 0 || err == -ERR_CRASHED);
		if (err == -ERR_CRASHED) {
			rig_power_cut(&rig, seed + life);
			cuts++;
		}
	}
	bug_set_buggify(0);
	rig_unmake(&rig);
}

static uint32_t
env_count(const char *name, uint32_t otherwise)
{
	const char *s = getenv(name);

	return s != NULL ? (uint32_t)strtoul(s, NULL, 10) : otherwise;
}

static void
run_seeds(uint64_t first, uint32_t seeds, uint32_t count, unsigned buggify)
{
	ops = compared = checks = made = destroyed = cloned = promoted = rolled = cuts = rewound =
	    accounted = upgraded = 0;
	for (uint64_t s = first; s < first + seeds; s++) {
		if (seeds > 4) {
			printf("\n    seed %llu ", (unsigned long long)s);
			fflush(stdout);
		}
		history_run(s, count, buggify);
	}
	printf("(%llu ops, %llu cuts, %llu times back, %llu snapshots made, %llu destroyed, %llu "
	       "clones, %llu "
	       "promotions, %llu rollbacks, %llu objects compared, %llu checks, %llu snapshots' "
	       "accounts, %llu upgrades) ",
	    (unsigned long long)ops, (unsigned long long)cuts, (unsigned long long)rewound,
	    (unsigned long long)made, (unsigned long long)destroyed, (unsigned long long)cloned,
	    (unsigned long long)promoted, (unsigned long long)rolled, (unsigned long long)compared,
	    (unsigned long long)checks, (unsigned long long)accounted,
	    (unsigned long long)upgraded);
	fflush(stdout);
}

static void
test_histories(void)
{
	run_seeds(
	    unit_seed(1), env_count("AGATE_SNAP_SEEDS", 3), env_count("AGATE_SNAP_STEPS", 400), 0);
}

static void
test_histories_buggify(void)
{
	run_seeds(unit_seed(1001), env_count("AGATE_SNAP_SEEDS", 3),
	    env_count("AGATE_SNAP_STEPS", 400), 25);
}

/* The same on threads, without cuts. */
static void
test_histories_real(void)
{
	real = true;
	run_seeds(unit_seed(2001), 1, 300, 0);
	real = false;
}

#ifdef AGATE_DEBUG
#define BUG_SEEDS 6u

static const char *bug_name;
static uint64_t bug_seed;

static void
bug_child(void)
{
	(void)setenv("AGATE_BUGS", bug_name, 1);
	history_run(bug_seed, 400, 0);
}

/* Each of these bugs shows within a few seeds; else the test wouldn't be worth much. */
static void
test_bugs_are_seen(void)
{
	static const char *const bugs[] = {
	    "snap-free-too-young",
	    "deadlist-bucket-wrong",
	    "snap-destroy-frees-shared",
	    "root-block-double-free",
	    "pool-account-chown-forgotten",
	    "pool-account-walk-skips",
	};

	for (size_t i = 0; i < ARRAY_LEN(bugs); i++) {
		bool noticed = false;

		bug_name = bugs[i];
		for (bug_seed = 1; bug_seed <= BUG_SEEDS && !noticed; bug_seed++) {
			noticed = unit_dies(bug_child, NULL);
		}
		if (!noticed) {
			fprintf(stderr, "not seen: %s\n", bug_name);
		}
		CU_ASSERT(noticed);
	}
}
#endif

static const struct unit_test tests[] = {
    {"histories", test_histories},
    {"histories, rare paths", test_histories_buggify},
    {"threads", test_histories_real},
#ifdef AGATE_DEBUG
    {"bugs are seen", test_bugs_are_seen},
#endif
};

int
main(int argc, char **argv)
{
	return unit_main("pool_snap_model", tests, ARRAY_LEN(tests), argc, argv);
}
