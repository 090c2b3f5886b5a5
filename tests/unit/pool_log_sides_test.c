/*
 * pool_log_sides_test.c - the log on the pool's own drives is never only on drives that an import
 * wouldn't look at. Each story ends with a record that is acknowledged and a power cut; some drives
 * are gone for good then. The import must have the record, in the root or in the log. Each story
 * needs one guard: without that alone the record is lost.
 */
#include "tests/unit/pool_members.h"

static const struct shape single = {1, 1, 0, 0, RAIDZ_KIND_MIRROR};
static const struct shape five_sides = {5, 1, 0, 0, RAIDZ_KIND_MIRROR};

struct story {
	const char *bug; /* switches off what the story is about */
	const struct shape *shape;
	void (*tell)(struct pool *p);
	uint32_t gone; /* drives that aren't there afterwards, as a mask */
};

struct run {
	const struct story *story;
	bool found; /* out */
};

static struct {
	uint64_t object;
	bool found;
	bool by_ring; /* the last one was acknowledged by it */
} record;

static struct guid
column_guid(struct pool *p, uint32_t column)
{
	return vdev_column(&p->v, 0, column)->guid;
}

static void
acknowledge(struct pool *p)
{
	struct pool_need need = {.dirty_bytes = 64u << 10, .log_bytes = 1, .log_records = 1};
	char byte = 1;
	struct iovec head = {&byte, 1};
	struct pool_log_rec rec = {.type = 1, .head = &head, .head_count = 1};
	struct pool_commit c;
	struct pool_obj *o;
	struct pool_tx *tx;
	struct pool_ds *ds;
	int err = pool_ds_open(p, pool_name(p), &ds);

	ASSERT(err == 0);
	err = pool_tx_begin(ds, &need, &tx);
	ASSERT(err == 0);
	err = pool_obj_create(tx, ds, OBJ_FILE, RECORD_BYTES, 0, 0, &o);
	ASSERT(err == 0);
	rec.object = pool_obj_number(o);
	pool_log(tx, &o, 1, &rec, &c);
	pool_tx_end(tx);
	pool_obj_release(o);
	pool_ds_close(ds);
	err = pool_commit(p, &c);
	UNIT_CHECK(err == 0);
	record.object = rec.object;
	record.by_ring = c.seq != 0;
}

static void
settle(struct pool *p)
{
	for (unsigned i = 0; i < 8; i++) {
		sync_pool(p);
		fiber_sleep(NSEC_PER_MSEC);
	}
}

static void
offline(struct pool *p, uint32_t column)
{
	struct guid g = column_guid(p, column);
	int err = pool_drive_offline(p, &g, false);

	UNIT_CHECK(err == 0);
}

/* It is a side of the ring still, and is no good as one. */
static void
return_stale(struct pool *p, uint32_t column)
{
	struct guid g = column_guid(p, column);
	int err;

	offline(p, column);
	err = pool_drive_online(p, &g);
	UNIT_CHECK(err == 0);
	for (unsigned i = 0; i < 100 && pool_scan(p, POOL_SCAN_PAUSE) != 0; i++) {
		fiber_sleep(NSEC_PER_MSEC / 10);
	}
	UNIT_CHECK(vdev_column(&p->v, 0, column)->ring_stale);
}

/* ---- stories ---- */

/* The ring loses its last good side, and could go on on the other one. */
static void
tell_last_side_lost(struct pool *p)
{
	return_stale(p, 1);
	kb_sim_vanish(rig.media[0]);
	acknowledge(p);
}

/* The last good side is out for a write that isn't the ring's: the ring reaches both still. */
static void
tell_last_side_out(struct pool *p)
{
	return_stale(p, 1);
	kb_sim_set_faults(rig.media[0], &(struct kb_sim_faults){.write_error = 1000000});
	fill_pool(p, 1, 500);
	sync_pool(p);
	kb_sim_set_faults(rig.media[0], &(struct kb_sim_faults){0});
	UNIT_CHECK(vdev_column(&p->v, 0, 0)->state == DRIVE_STATE_FAULTED);
	settle(p);
	acknowledge(p);
}

/* One side after the other; the drive that is left was never one. */
static void
tell_offline(struct pool *p)
{
	for (uint32_t c = 0; c < 3; c++) {
		offline(p, c);
	}
	settle(p);
	acknowledge(p);
	offline(p, 3);
}

static int
replace(struct pool *p, uint32_t column, uint32_t medium)
{
	struct guid old = column_guid(p, column);
	char why[200];
	int err = pool_drive_replace(p, &old, rig.drives[medium], why, sizeof(why));

	if (err == 0) {
		rig.drives[medium] = NULL; /* the pool's */
	} else {
		printf("\n    replace: %s (%s)\n", err_str(err), why);
	}
	return err;
}

/* The same with the last one replaced that vanishes: it has to do for the record until then. */
static void
tell_replace_last(struct pool *p)
{
	int err;

	for (uint32_t c = 0; c < 3; c++) {
		offline(p, c);
	}
	settle(p);
	acknowledge(p);
	kb_sim_vanish(rig.media[3]);
	err = replace(p, 3, 7);
	UNIT_CHECK(err == 0);
}

static void
wait_whole(struct pool *p)
{
	for (unsigned i = 0; i < 600 && vdev_lacking(&p->v, 0) > 0; i++) {
		fiber_sleep(NSEC_PER_SEC / 10);
	}
	UNIT_CHECK(vdev_lacking(&p->v, 0) == 0);
	fiber_sleep(NSEC_PER_SEC);
	settle(p);
}

/* The power goes as soon as the pair's end is durable. */
static void
cut_after_pair(void *arg)
{
	struct pool *p = arg;
	uint64_t config_txg = p->v.config_txg;

	while (vdev_twin(&p->v, 0, 0) != NULL || p->v.config_txg == config_txg) {
		config_txg = vdev_twin(&p->v, 0, 0) != NULL ? p->v.config_txg : config_txg;
		fiber_sleep(5 * NSEC_PER_USEC);
	}
	rt_sim_crash();
}

/* A side of the ring has been replaced; at that moment the power goes, and with it another drive.
 */
static void
tell_pair(struct pool *p)
{
	int err = replace(p, 0, 7);

	UNIT_CHECK(err == 0);
	UNIT_CHECK(vdev_twin(&p->v, 0, 0) != NULL);
	fiber_spawn_wait(0, FIBER_ADMIN, "test-cut", cut_after_pair, p);
	for (unsigned i = 0; i < 10000; i++) {
		acknowledge(p);
	}
	UNIT_CHECK(false);
}

/* A side of the ring was away and has everything again; then one drive goes for good. */
static void
tell_resilver(struct pool *p)
{
	kb_sim_vanish(rig.media[1]);
	acknowledge(p);
	settle(p);
	give_back(p, 1);
	wait_whole(p);
	acknowledge(p);
}

static const struct story stories[] = {
    {"pool-log-any-side-counts", &one_set, tell_last_side_lost, 0},
    {"pool-log-sides-unseen", &one_set, tell_last_side_out, 0},
    {"pool-offline-with-the-log", &five_sides, tell_offline, 0},
    {"pool-replace-with-the-log", &five_sides, tell_replace_last, 0},
    {"pool-pair-log-left", &one_set, tell_pair, 1u << 1},
    {"pool-pair-log-left", &single, tell_pair, 0},
    {"pool-resilver-log-left", &one_set, tell_resilver, 1u << 0},
};

/* ---- before and after the power cut ---- */

static void
run_story(void *arg)
{
	const struct run *r = arg;
	struct pool *p;

	rig_open(&rig);
	p = make(r->story->shape);
	fill_pool(p, 20, 1);
	settle(p);
	r->story->tell(p);
	UNIT_CHECK(record.by_ring); /* else what the story is about wasn't asked for */
	rt_sim_crash();
}

static int
look_at_record(void *arg UNUSED, const struct pool_record *rec)
{
	record.found = record.found || rec->object == record.object;
	return 0;
}

static bool
root_has_record(struct pool *p)
{
	struct pool_ds *ds;
	struct pool_obj *o;
	int err = pool_ds_open(p, pool_name(p), &ds);

	ASSERT(err == 0);
	err = pool_obj_hold(ds, record.object, 0, &o);
	if (err == 0) {
		pool_obj_release(o);
	}
	pool_ds_close(ds);
	return err == 0;
}

static void
run_import(void *arg)
{
	struct run *r = arg;
	struct kb_drive *drives[RIG_DRIVES_MAX];
	struct pool_import_spec spec = {
	    .pool_guid = want.guid, .drives = drives, .host_name = "here", .host_id = 1};
	struct pool_import_result result;
	struct pool_replay_result replayed;
	struct pool *p;
	int err;

	rig_open(&rig);
	for (uint32_t i = 0; i < rig.count; i++) {
		if ((r->story->gone >> i & 1) == 0) {
			drives[spec.drive_count++] = rig.drives[i];
		}
	}
	memset(&result, 0, sizeof(result));
	err = pool_import(&spec, &p, &result);
	UNIT_CHECK(err == 0);
	if (err == 0) {
		record.found = root_has_record(p);
		err = pool_replay(p, look_at_record, NULL, &replayed);
		UNIT_CHECK(err == 0);
		r->found = record.found;
	}
	rt_sim_crash();
}

static bool
loses(const struct story *story, uint64_t seed)
{
	struct rt_options opt = sim_options(seed);
	struct run r = {.story = story};
	int err;

	rng = seed * 2 + 1;
	rig_make(&rig, 8, 128 * MIB);
	err = rt_run(&opt, run_story, &r);
	CU_ASSERT_EQUAL(err, -ERR_CRASHED);
	for (uint32_t i = 0; i < rig.count; i++) {
		kb_sim_return(rig.media[i]);
	}
	rig_power_cut(&rig, seed);
	err = rt_run(&opt, run_import, &r);
	CU_ASSERT_EQUAL(err, -ERR_CRASHED);
	rig_unmake(&rig);
	return !r.found;
}

static void
test_stories(void)
{
	uint64_t seed = unit_seed(1);

	for (unsigned s = 0; s < ARRAY_LEN(stories); s++) {
		for (unsigned i = 0; i < 4; i++) {
			bool lost = loses(&stories[s], seed + i);

			if (lost) {
				printf("\n    lost with %s\n", stories[s].bug);
			}
			CU_ASSERT(!lost);
		}
	}
}

#ifdef AGATE_DEBUG
static void
test_bugs_are_seen(void)
{
	for (unsigned s = 0; s < ARRAY_LEN(stories); s++) {
		bool lost = false;

		bug_set_deliberate(stories[s].bug);
		for (unsigned i = 0; i < 4 && !lost; i++) {
			lost = loses(&stories[s], 5 + i);
		}
		bug_set_deliberate(NULL);
		if (!lost) {
			printf("\n    %s isn't noticed\n", stories[s].bug);
		}
		CU_ASSERT(lost);
	}
}
#endif

int
main(int argc, char **argv)
{
	static const struct unit_test tests[] = {
	    {"stories", test_stories},
#ifdef AGATE_DEBUG
	    {"bugs_are_seen", test_bugs_are_seen},
#endif
	};

	return unit_main("pool_log_sides", tests, ARRAY_LEN(tests), argc, argv);
}
