/*
 * life.c - a history: lives of one pool, from power on to a power cut or an export, until its steps
 * are done.
 *
 * The cut is before the n-th write to any drive, n drawn from the seed: writes of a txg, of labels,
 * of replay, of what frees in the background, of a resilver. every_cut leaves nothing to chance: at
 * each write the process forks; the child cuts the power there, takes the pool up, and must find
 * everything right; some of the children do the same with each write of that.
 */
#include <malloc.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/histories/history.h"
#include "tests/lib/pool_bytes.h"

#define CHECK_ONE_IN 16u    /* of the txgs that a step finds committed */
#define CONTENTS_ONE_IN 10u /* of these */
#define STEPS_AFTER_CUT 3u  /* every_cut: of a child */
#define CHILD_SECONDS 120u

static void
head_resume(struct head *h, uint64_t txg)
{
	struct pool_ds *ds = head_open(h);

	ASSERT(pool_ds_guid(ds) == h->guid);
	memcpy(h->now, history_at(h, txg), sizeof(h->now));
	for (uint32_t k = 0; k < HISTORY_OBJS; k++) {
		bool ok = object_matches(ds, &h->now[k], &h->b[k]);

		if (!ok) {
			fprintf(stderr, "life %llu dataset %s object %u differs, root %llu\n",
			    (unsigned long long)hs.life, h->path, k, (unsigned long long)txg);
		}
		ASSERT(ok);
	}
	pool_ds_close(ds);
	h->busy = false;
	history_begin(h);
}

/* A tag or a name may have been on its way. */
static int
learn_holds(void *arg UNUSED, const struct pool_snap_info *i)
{
	for (uint32_t k = 0; k < HISTORY_SNAPS; k++) {
		if (hs.snaps[k].exists && hs.snaps[k].guid == i->guid) {
			hs.snaps[k].holds = i->holds;
		}
	}
	return 0;
}

static int
redo(void *arg UNUSED, const struct pool_record *rec UNUSED)
{
	return 0;
}

static uint64_t
import(void)
{
	struct pool_import_spec spec = {
	    .pool_guid = hs.pool_guid, .host_name = "here", .host_id = 1};
	struct kb_drive *drives[RIG_DRIVES_MAX];
	struct pool_import_result result = {0};
	int err;

	for (uint32_t i = 0; i < hs.rig.count; i++) {
		if (hs.rig.drives[i] != NULL) {
			drives[spec.drive_count++] = hs.rig.drives[i];
		}
	}
	spec.drives = drives;
	spec.rewind_txgs = hs.went_back ? 1 + (uint32_t)history_rnd(2) : 0;
	err = pool_import(&spec, &hs.pool, &result);
	if (err != 0) {
		fprintf(stderr, "life %llu import: %s: %s\n", (unsigned long long)hs.life,
		    err_str(err), result.why);
	}
	ASSERT(err == 0);
	return result.txg;
}

static void
pool_take_up(void)
{
	uint64_t txg = import();
	struct pool_replay_result rr;
	int err;

	heads_find();
	settle();
	if (hs.went_back) {
		go_back(txg);
	}
	for (uint32_t i = 0; i < HISTORY_HEADS; i++) {
		if (hs.heads[i].exists) {
			head_resume(&hs.heads[i], txg);
			err = pool_snap_each(hs.pool, hs.heads[i].path, 0, learn_holds, NULL);
			ASSERT(err == 0);
		}
	}
	err = pool_replay(hs.pool, redo, NULL, &rr);
	ASSERT(err == 0);
	check(false);
	compare_all();
}

/* ---- steps ---- */

static void
check_more(void)
{
	if (history_rnd(CONTENTS_ONE_IN) == 0) {
		drives_heal(); /* what a drive lacks is no news */
		check(true);
	} else {
		check(false);
	}
}

/* What doesn't happen at each step. */
static void
step_seldom(void)
{
	int err;

	if (history_rnd(20) == 0) {
		err = history_rnd(2) == 0 ? pool_sync(hs.pool) : 0;
		ASSERT(err == 0);
		fiber_sleep(history_rnd(20 * NSEC_PER_MSEC));
	}
	if (!hs.adm.running && history_rnd(40) == 0) {
		step_tag();
	}
	if (history_rnd(60) == 0) {
		step_limits();
	}
	if (history_rnd(20) == 0) {
		filler_step();
	}
	if (history_rnd(1000) == 0) {
		admin_wait();
		compare_all();
	}
	step_upgrade();
	step_drives();
}

static void
steps(void)
{
	while (hs.steps_left > 0) {
		uint32_t h = pick_head(true);
		uint64_t txg = txg_open(hs.pool->txgs);

		hs.steps_left--;
		if (h < HISTORY_HEADS) {
			step_object(&hs.heads[h]);
		}
		if (!hs.adm.running && history_rnd(8) == 0) {
			step_admin();
		}
		if (hs.adm.running) {
			fiber_sleep(history_rnd(3 * NSEC_PER_MSEC));
		}
		compare_some();
		step_seldom();
		if (txg != hs.checked_txg && history_rnd(CHECK_ONE_IN) == 0) {
			check_more();
			hs.checked_txg = txg;
		}
	}
}

/* ---- a life ---- */

static uint64_t
cut_choose(void)
{
	static const uint64_t spans[] = {100, 1000, 5000, 20000};

	return 1 + history_rnd(spans[history_rnd(ARRAY_LEN(spans))]);
}

static void
life_main(void *arg UNUSED)
{
	bool cuts = !hs.spec->real && hs.spec->every_cut == 0;
	int err;

	drives_open();
	/* back by two at most, from what was served last */
	hs.went_back = hs.created && cuts && hs.served && history_rnd(4) == 0;
	hs.served = false;
	hs.taking_up = true;
	if (hs.created && cuts && !hs.went_back && history_rnd(3) == 0) {
		kb_sim_crash_after_writes(1 + history_rnd(400)); /* in the middle of taking up */
	}
	if (hs.created) {
		pool_take_up();
	} else {
		pool_make();
	}
	hs.served = true;
	hs.taking_up = false;
	kb_sim_crash_after_writes(!cuts || history_rnd(6) == 0 ? 0 : cut_choose());
	steps();
	admin_wait();
	drives_heal();
	err = pool_sync(hs.pool);
	ASSERT(err == 0);
	check(true);
	compare_all();
	hs.counts->kind[HK_GANG] += atomic_load(&hs.pool->gangs);
	err = pool_export(hs.pool);
	ASSERT(err == 0);
	history_count(HK_EXPORT);
	drives_forget();
	kb_sim_crash_after_writes(0);
}

/* ---- cuts at every write ---- */

/* In the child true: the power is cut before this write. */
static bool
cut_here(void *arg)
{
	static bool nested;
	struct history_spec *spec = arg;
	int status = 0;
	pid_t pid;

	if (!hs.created || (nested && !hs.taking_up)) {
		return false;
	}
	fflush(NULL);
	spec->cuts++;
	pid = fork();
	ASSERT(pid >= 0);
	if (pid == 0) {
		hs.steps_left = STEPS_AFTER_CUT;
		if (nested || spec->cuts % spec->every_cut != 0) {
			kb_sim_before_write(NULL, NULL); /* the pool lives on undisturbed */
		}
		nested = true;
		spec->cuts = spec->bad = 0;
		alarm(CHILD_SECONDS);
		return true;
	}
	if (waitpid(pid, &status, 0) != pid || status != 0) {
		fprintf(stderr, "seed %llu: wrong after a cut before write %u\n",
		    (unsigned long long)spec->seed, spec->cuts);
		spec->bad++;
	}
	return false;
}

/* ---- a history ---- */

static void
history_start(struct history_spec *spec)
{
	static struct history_counts nobody;

	memset(&hs, 0, sizeof(hs));
	hs.spec = spec;
	hs.counts = spec->counts != NULL ? spec->counts : &nobody;
	hs.rng = bytes_rnd_begin(spec->seed);
	for (uint32_t i = 0; i < HISTORY_HEADS; i++) {
		(void)snprintf(
		    hs.heads[i].path, sizeof(hs.heads[i].path), "tank/%c", (char)('a' + i));
	}
	hs.steps_left = spec->steps;
	hs.old = spec->seed / 5 % 3 == 0;
	layout_choose();
	drives_make();
	/* the heap is not to be given back and fetched again at each turn */
	(void)mallopt(M_TRIM_THRESHOLD, 512 << 20);
	(void)mallopt(M_MMAP_THRESHOLD, 256 << 20);
	log_set_level(getenv("AGATE_LOG") != NULL ? LOG_DEBUG : LOG_ERROR);
}

void
history_run(struct history_spec *spec)
{
	uint64_t writes = kb_sim_write_count();
	pid_t self = getpid();

	history_start(spec);
	if (spec->every_cut > 0) {
		kb_sim_before_write(cut_here, spec);
	}
	for (hs.life = 0; hs.steps_left > 0; hs.life++) {
		struct rt_options opt =
		    unit_rt(!spec->real, spec->real ? 3 : 2, spec->seed * 1000 + hs.life);
		int err;

		opt.arena_bytes = spec->every_cut > 0 ? 40 * MIB : 96 * MIB; /* forks copy it */
		bug_set_buggify(spec->buggify);
		if (getenv("AGATE_BUGS") != NULL) {
			bug_set_deliberate(getenv("AGATE_BUGS"));
		}
		err = rt_run(&opt, life_main, NULL);
		kb_sim_crash_after_writes(0);
		ASSERT(err == 0 || err == -ERR_CRASHED);
		if (err == -ERR_CRASHED) {
			rig_power_cut(&hs.rig, spec->seed + hs.life);
			history_count(hs.taking_up ? HK_CUT_TAKE_UP : HK_CUT);
		}
	}
	kb_sim_before_write(NULL, NULL);
	bug_set_buggify(0);
	if (spec->every_cut > 0 && getpid() != self) {
		_exit(spec->bad == 0 ? EXIT_SUCCESS : EXIT_FAILURE);
	}
	rig_unmake(&hs.rig);
	hs.counts->writes += kb_sim_write_count() - writes;
}
