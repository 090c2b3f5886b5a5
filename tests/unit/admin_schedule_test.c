/* admin_schedule_test.c - schedules by the simulated clock: slots and names, taking, keeping, what
 * is never destroyed, pauses, downtime, clocks that jump, and that they survive in the pool. */
#include <stdio.h>
#include "admin/request.h"
#include "admin/schedule.h"
#include "tests/lib/fakepool.h"
#include "tests/lib/fs_rig.h"
#include "tests/lib/unit.h"

#define T0 1796056200ll /* 2026-11-30 16:30:00 UTC, a Monday */

static void
test_slots(void)
{
	char name[SCHED_NAME_BYTES];
	static const struct {
		enum sched_every every;
		const char *name;
	} want[] = {{SCHED_15MIN, "auto-15min-2026-11-30_16:30"},
	    {SCHED_HOURLY, "auto-hourly-2026-11-30_16:00"},
	    {SCHED_DAILY, "auto-daily-2026-11-30_00:00"},
	    {SCHED_WEEKLY, "auto-weekly-2026-11-30_00:00"},
	    {SCHED_MONTHLY, "auto-monthly-2026-11-01_00:00"}};
	for (size_t i = 0; i < ARRAY_LEN(want); i++) {
		enum sched_every every = want[i].every, parsed;
		int64_t slot = sched_slot(every, T0);
		sched_name(every, slot, name);
		CU_ASSERT_STRING_EQUAL(name, want[i].name);
		CU_ASSERT(sched_name_is(every, name));
		CU_ASSERT(slot <= T0 && sched_next(every, slot) > T0);
		CU_ASSERT(sched_slot(every, slot) == slot);
		CU_ASSERT(sched_slot(every, sched_next(every, slot) - 1) == slot);
		CU_ASSERT(sched_slot(every, sched_next(every, slot)) == sched_next(every, slot));
		CU_ASSERT(sched_every_parse(sched_every_name(every), &parsed) && parsed == every);
		for (size_t k = 0; k < ARRAY_LEN(want); k++) {
			CU_ASSERT(sched_name_is(want[k].every, name) == (k == i));
		}
	}
	static const char *const own[] = {"auto-hourly-mine", "auto-hourly-",
	    "auto-hourly-2026-11-30_16:0", "auto-hourly-2026-11-30_16:000",
	    "xauto-hourly-2026-11-30_16:00", "auto-hourly-2026-11-30 16:00", ""};
	for (size_t i = 0; i < ARRAY_LEN(own); i++) {
		CU_ASSERT(!sched_name_is(SCHED_HOURLY, own[i]));
	}
	enum sched_every every;
	CU_ASSERT(!sched_every_parse("Hourly", &every) && !sched_every_parse("", &every));
}

/* ---- running ---- */

struct bench {
	struct rig r;
	struct adm_pool ap;
	uint32_t notes;
};

static void
note(void *arg, const char *text)
{
	struct bench *b = arg;
	(void)text;
	b->notes++;
}

static void
bench_open(struct bench *b)
{
	static struct adm_error e;
	memset(b, 0, sizeof(*b));
	rig_open(&b->r);
	b->ap.pool = b->r.pool;
	b->ap.fp = b->r.fp;
	UNIT_CHECK(sched_load(&b->ap, &e) == 0 && b->ap.sched->count == 0);
}

static void
bench_close(struct bench *b)
{
	sched_free(&b->ap);
	rig_close(&b->r);
}

/* As the command does. */
static void
plan(struct bench *b, const char *path, enum sched_every every, uint32_t keep, bool recursive,
    int64_t now)
{
	struct sched *v = mem_realloc(b->ap.sched->v, (b->ap.sched->count + 1) * sizeof(*v));
	struct sched s = {
	    .every = every, .keep = keep, .recursive = recursive, .last = sched_slot(every, now)};
	ASSERT(v != NULL);
	(void)snprintf(s.path, sizeof(s.path), "%s", path);
	b->ap.sched->v = v;
	v[b->ap.sched->count++] = s;
	UNIT_CHECK(sched_store(&b->ap) == 0);
}

struct counted {
	enum sched_every every;
	uint32_t kind, all;
	char first[DATASET_NAME_MAX + 1], last[DATASET_NAME_MAX + 1];
};

static int
count_one(void *arg, const struct pool_snap_info *s)
{
	struct counted *c = arg;
	c->all++;
	if (sched_name_is(c->every, s->name)) {
		memcpy(c->kind++ == 0 ? c->first : c->last, s->name, sizeof(c->last));
	}
	return 0;
}

/* Valid until the next call. */
static const struct counted *
count(struct bench *b, const char *path, enum sched_every every)
{
	static struct counted c;
	c = (struct counted){.every = every};
	UNIT_CHECK(pool_snap_each(b->r.pool, path, 0, count_one, &c) == 0);
	return &c;
}

static void
take(struct bench *b, const char *name)
{
	uint32_t bad;
	UNIT_CHECK(fs_snap_create(b->r.fp, &name, 1, &bad) == 0);
}

static void
day_run(void *arg)
{
	static struct bench b;
	(void)arg;
	bench_open(&b);
	char why[64];
	UNIT_CHECK(fs_ds_create(b.r.fp, "tank/a", NULL, 0, why, sizeof(why)) == 0);
	UNIT_CHECK(fs_ds_create(b.r.fp, "tank/a/b", NULL, 0, why, sizeof(why)) == 0);
	plan(&b, "tank/a", SCHED_HOURLY, 5, true, T0);
	plan(&b, "tank/a/b", SCHED_HOURLY, 7, false, T0);
	plan(&b, "tank/a", SCHED_DAILY, 2, false, T0);
	take(&b, "tank/a@mine");
	take(&b, "tank/a@auto-hourly-mine");
	sched_run(&b.ap, T0 + 10, note, &b);
	UNIT_CHECK(b.notes == 0); /* not in the slot it was made in */
	/* a day and a half, looking each second minute */
	for (int64_t now = T0; now < T0 + 36 * 3600; now += 120) {
		sched_run(&b.ap, now, note, &b);
	}
	UNIT_CHECK(count(&b, "tank/a", SCHED_HOURLY)->kind == 5);
	UNIT_CHECK(
	    count(&b, "tank/a/b", SCHED_HOURLY)->kind == 7); /* the one that keeps most counts */
	UNIT_CHECK(count(&b, "tank/a", SCHED_DAILY)->kind == 2);
	UNIT_CHECK(count(&b, "tank/a", SCHED_DAILY)->all == 5 + 2 + 2);
	UNIT_CHECK(count(&b, "tank", SCHED_HOURLY)->all == 0);
	UNIT_CHECK(
	    strcmp(count(&b, "tank/a", SCHED_HOURLY)->last, "auto-hourly-2026-12-02_04:00") == 0);
	bench_close(&b);
}

static void
keep_run(void *arg)
{
	static struct bench b;
	(void)arg;
	bench_open(&b);
	plan(&b, "tank", SCHED_HOURLY, 3, false, T0);
	for (int i = 1; i <= 3; i++) {
		sched_run(&b.ap, T0 + i * 3600, note, &b);
	}
	/* the two oldest can't go: one is held, one has a clone */
	struct pool_ds *clone;
	UNIT_CHECK(pool_snap_hold(b.r.pool, "tank@auto-hourly-2026-11-30_17:00", "me") == 0);
	UNIT_CHECK(
	    pool_ds_clone(b.r.pool, "tank@auto-hourly-2026-11-30_18:00", "tank/c", &clone) == 0);
	pool_ds_close(clone);
	for (int i = 4; i <= 9; i++) {
		sched_run(&b.ap, T0 + i * 3600, note, &b);
	}
	const struct counted *c = count(&b, "tank", SCHED_HOURLY);
	UNIT_CHECK(c->kind == 5 && strcmp(c->first, "auto-hourly-2026-11-30_17:00") == 0);
	UNIT_CHECK(pool_snap_release(b.r.pool, "tank@auto-hourly-2026-11-30_17:00", "me") == 0);
	sched_run(&b.ap, T0 + 10 * 3600, note, &b);
	UNIT_CHECK(count(&b, "tank", SCHED_HOURLY)->kind == 4);
	bench_close(&b);
}

static void
pause_run(void *arg)
{
	static struct bench b;
	static struct adm_error e;
	(void)arg;
	bench_open(&b);
	plan(&b, "tank", SCHED_HOURLY, 10, false, T0);
	b.ap.sched->v[0].paused = true;
	for (int i = 1; i < 20; i++) {
		sched_run(&b.ap, T0 + i * 3600, note, &b);
	}
	UNIT_CHECK(count(&b, "tank", SCHED_HOURLY)->all == 0);
	b.ap.sched->v[0].paused = false;
	/* once for all that was missed, however often it looks */
	for (int i = 0; i < 30; i++) {
		sched_run(&b.ap, T0 + 20 * 3600 + i, note, &b);
	}
	UNIT_CHECK(count(&b, "tank", SCHED_HOURLY)->all == 1 && b.notes == 1);
	/* another daemon finds it as it was */
	sched_free(&b.ap);
	UNIT_CHECK(sched_load(&b.ap, &e) == 0 && b.ap.sched->count == 1);
	sched_run(&b.ap, T0 + 20 * 3600 + 60, note, &b);
	UNIT_CHECK(count(&b, "tank", SCHED_HOURLY)->all == 1);
	/* the snapshot was taken, but that wasn't written down: it is the same one */
	b.ap.sched->v[0].last = 0;
	sched_run(&b.ap, T0 + 20 * 3600 + 120, note, &b);
	UNIT_CHECK(count(&b, "tank", SCHED_HOURLY)->all == 1);
	/* the clock is set back a little: wait; back by years: follow */
	sched_run(&b.ap, T0 + 19 * 3600, note, &b);
	UNIT_CHECK(count(&b, "tank", SCHED_HOURLY)->all == 1);
	sched_run(&b.ap, T0 - 1000 * 3600, note, &b);
	sched_run(&b.ap, T0 - 999 * 3600, note, &b);
	UNIT_CHECK(count(&b, "tank", SCHED_HOURLY)->all == 2);
	bench_close(&b);
}

static void
follow_run(void *arg)
{
	static struct bench b;
	char why[64];
	(void)arg;
	bench_open(&b);
	UNIT_CHECK(fs_ds_create(b.r.fp, "tank/a", NULL, 0, why, sizeof(why)) == 0);
	plan(&b, "tank/a", SCHED_HOURLY, 3, false, T0);
	plan(&b, "tank/ab", SCHED_HOURLY, 3, false, T0);
	plan(&b, "tank/a/x", SCHED_HOURLY, 3, false, T0);
	sched_follow(&b.ap, "tank/a", "tank/new");
	UNIT_CHECK(sched_find(b.ap.sched, "tank/new", SCHED_HOURLY) != NULL);
	UNIT_CHECK(sched_find(b.ap.sched, "tank/new/x", SCHED_HOURLY) != NULL);
	UNIT_CHECK(sched_find(b.ap.sched, "tank/ab", SCHED_HOURLY) != NULL);
	/* one of a filesystem that isn't there says so, once, and harms no other */
	sched_run(&b.ap, T0 + 3600, note, &b);
	UNIT_CHECK(b.notes == 3);
	sched_run(&b.ap, T0 + 3601, note, &b);
	UNIT_CHECK(b.notes == 3);
	sched_follow(&b.ap, "tank/new", NULL);
	UNIT_CHECK(b.ap.sched->count == 1);
	bench_close(&b);
}

static void
damage_run(void *arg)
{
	static const char *const junk[] = {"", "{", "[]", "{\"schedules\":1}",
	    "{\"schedules\":[{\"path\":\"tank\",\"every\":\"yearly\",\"keep\":1}]}",
	    "{\"schedules\":[{\"path\":\"tank\",\"every\":\"daily\",\"keep\":0}]}",
	    "{\"schedules\":[{\"every\":\"daily\",\"keep\":3}]}"};
	(void)arg;
	for (size_t i = 0; i < ARRAY_LEN(junk); i++) {
		static struct bench b;
		static struct adm_error e;
		bench_open(&b);
		sched_free(&b.ap);
		UNIT_CHECK(
		    pool_blob_put(b.r.pool, "schedules", junk[i], (uint32_t)strlen(junk[i])) == 0);
		int err = sched_load(&b.ap, &e);
		UNIT_CHECK(junk[i][0] == 0 ? err == 0 : err == -ERR_CORRUPT);
		bench_close(&b);
	}
}

static void
run(fiber_fn *fn)
{
	for (unsigned i = 0; i < 3; i++) {
		struct rt_options opt = unit_rt(true, 1, unit_seed(1) + i);
		CU_ASSERT(rt_run(&opt, fn, NULL) == 0);
		CU_ASSERT(mem_live_count() == 0);
	}
}

#define TEST(name) \
	static void test_##name(void) \
	{ \
		run(name##_run); \
	}
TEST(day)
TEST(keep)
TEST(pause)
TEST(follow)
TEST(damage)

int
main(int argc, char **argv)
{
	static const struct unit_test tests[] = {{"slots and names", test_slots},
	    {"a day", test_day}, {"what is kept", test_keep}, {"pauses and clocks", test_pause},
	    {"renamed and destroyed", test_follow}, {"damaged lists", test_damage}};
	adm_use_mem();
	return unit_main("admin_schedule", tests, ARRAY_LEN(tests), argc, argv);
}
