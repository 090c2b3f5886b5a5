/* drives.c - pools of several kinds, one by the seed; drives that vanish and return; what fills a
 * pool. */
#include "tests/histories/history.h"
#include "tests/lib/pool_bytes.h"

#define HEAL_NS_MAX (600 * NSEC_PER_SEC)
#define FILL_CHUNKS 220u
#define FILL_ROOM (6 * MIB) /* left for the rest */

static const struct layout layouts[] = {
    {RAIDZ_KIND_PARITY, 1, 7, 1, 1, 64 * MIB, false, HK_RAIDZ1},
    {RAIDZ_KIND_PARITY, 2, 6, 1, 2, 64 * MIB, false, HK_RAIDZ2},
    {RAIDZ_KIND_MIRROR, 0, 2, 2, 1, 96 * MIB, false, HK_MIRROR},
    {RAIDZ_KIND_PARITY, 1, 3, 1, 1, 64 * MIB, true, HK_FULL},
};

static bool gone[RIG_DRIVES_MAX];    /* vanished, or not opened in this life */
static bool unclean[RIG_DRIVES_MAX]; /* may lack something */
static uint64_t fill_number;

void
layout_choose(void)
{
	/* the whole of it is compared at each cut: no large blocks then */
	hs.layout = &layouts[hs.spec->seed % (hs.spec->every_cut > 0 ? 3 : ARRAY_LEN(layouts))];
	history_count(hs.layout->counted);
}

void
drives_make(void)
{
	memset(gone, 0, sizeof(gone));
	memset(unclean, 0, sizeof(unclean));
	fill_number = 0;
	rig_make(&hs.rig, hs.layout->width * hs.layout->sets, hs.layout->drive_bytes);
}

static bool
are_clean(void)
{
	for (uint32_t i = 0; i < hs.rig.count; i++) {
		if (gone[i] || unclean[i]) {
			return false;
		}
	}
	return true;
}

/* Those that were gone are back, or not; or one is missing that was there. */
void
drives_open(void)
{
	bool may = hs.created && !hs.spec->real && hs.layout->tolerates > 0 && are_clean() &&
		   history_rnd(8) == 0;
	uint32_t missing = may ? (uint32_t)history_rnd(hs.rig.count) : UINT32_MAX;

	for (uint32_t i = 0; i < hs.rig.count; i++) {
		if (gone[i] && history_rnd(4) != 0) {
			gone[i] = false;
		}
		gone[i] = gone[i] || i == missing;
		unclean[i] = unclean[i] || gone[i];
		kb_sim_return(hs.rig.media[i]);
		hs.rig.drives[i] = NULL;
		if (!gone[i]) {
			int err = kb_sim_open(hs.rig.media[i], &hs.rig.drives[i]);

			ASSERT(err == 0);
		} else {
			history_count(HK_DRIVE_MISSING);
		}
	}
}

/* The life has ended. */
void
drives_forget(void)
{
	memset(hs.rig.drives, 0, sizeof(hs.rig.drives));
}

static void
drive_vanish(uint32_t i)
{
	kb_sim_vanish(hs.rig.media[i]);
	gone[i] = unclean[i] = true;
	history_count(HK_DRIVE_GONE);
}

static void
drive_return(uint32_t i)
{
	int err;

	kb_sim_return(hs.rig.media[i]);
	err = kb_sim_open(hs.rig.media[i], &hs.rig.drives[i]);
	ASSERT(err == 0);
	err = pool_drive_return(hs.pool, hs.rig.drives[i]);
	if (err == -EBUSY) { /* nobody has noticed yet that it was away */
		pool_drives_look(hs.pool);
		err = pool_drive_return(hs.pool, hs.rig.drives[i]);
	}
	if (err != 0) {
		fprintf(stderr, "return of drive %u: %s\n", i, err_str(err));
	}
	ASSERT(err == 0);
	gone[i] = false;
	history_count(HK_DRIVE_BACK);
}

/* No drive lacks anything as the pool sees it? */
static bool
pool_is_whole(void)
{
	struct pool_scan_status scan;

	for (uint32_t i = 0; i < hs.rig.count; i++) {
		if (gone[i]) {
			return false;
		}
	}
	for (uint32_t i = 0; i < hs.pool->v.drive_count; i++) {
		if (hs.pool->v.drives[i].dirty_from != 0 ||
		    hs.pool->v.drives[i].state != DRIVE_STATE_ONLINE) {
			return false;
		}
	}
	pool_get_scan(hs.pool, &scan);
	return scan.state != SCAN_RUNNING && scan.state != SCAN_PAUSED;
}

void
drives_heal(void)
{
	uint64_t until = rt_now_ns() + HEAL_NS_MAX;

	if (are_clean()) {
		return;
	}
	for (uint32_t i = 0; i < hs.rig.count; i++) {
		if (gone[i]) {
			drive_return(i);
		}
	}
	while (!pool_is_whole()) {
		ASSERT(rt_now_ns() < until);
		fiber_sleep(20 * NSEC_PER_MSEC);
	}
	memset(unclean, 0, sizeof(unclean));
}

void
step_drives(void)
{
	uint32_t bad = 0, i = (uint32_t)history_rnd(hs.rig.count);

	if (hs.spec->real || hs.spec->every_cut > 0 || hs.layout->tolerates == 0) {
		return;
	}
	for (uint32_t k = 0; k < hs.rig.count; k++) {
		bad += gone[k] || unclean[k];
		if (gone[k] && history_rnd(60) == 0) {
			drive_return(k);
		}
	}
	if (bad < hs.layout->tolerates && !gone[i] && !unclean[i] && history_rnd(400) == 0) {
		drive_vanish(i);
	}
	if (bad > 0 && pool_is_whole()) {
		memset(unclean, 0, sizeof(unclean));
	}
}

/* ---- a pool that is nearly full ---- */

/* A MiB more, or one less. */
static int
fill_change(struct pool_ds *ds, bool more)
{
	static uint8_t data[MIB];
	struct pool_need need = {
	    .dirty_bytes = 2 * MIB, .frees = !more, .grow_bytes = more ? MIB : 0};
	uint64_t at = history_rnd(FILL_CHUNKS) * MIB;
	struct iovec iov = {data, sizeof(data)};
	struct pool_obj *o;
	struct pool_tx *tx;
	int err = pool_obj_hold(ds, fill_number, 0, &o);

	ASSERT(err == 0);
	if (data[0] == 0) {
		bytes_pattern(data, sizeof(data), 7);
	}
	err = pool_tx_begin(ds, &need, &tx);
	if (err == 0) {
		err = more ? pool_write(tx, o, at, &iov, 1) : pool_free_range(tx, o, at, MIB);
		ASSERT(err == 0);
		pool_tx_end(tx);
	}
	pool_obj_release(o);
	return err;
}

static void
fill_begin(void)
{
	struct pool_need need = {.dirty_bytes = MIB};
	struct pool_ds_info info = {.available_bytes = UINT64_MAX};
	struct pool_obj *o;
	struct pool_ds *ds;
	struct pool_tx *tx;
	int err = pool_ds_create(hs.pool, "tank/fill", &ds);

	ASSERT(err == 0);
	err = pool_tx_begin(ds, &need, &tx);
	ASSERT(err == 0);
	err = pool_obj_create(tx, ds, OBJ_FILE, MIB, 0, 0, &o);
	ASSERT(err == 0);
	pool_tx_end(tx);
	fill_number = pool_obj_number(o);
	pool_obj_release(o);
	while (err == 0 && info.available_bytes > FILL_ROOM) {
		err = fill_change(ds, true);
		if (history_rnd(8) == 0) {
			int sync_err = pool_sync(hs.pool);

			ASSERT(sync_err == 0);
			pool_ds_get_info(ds, &info);
		}
	}
	for (unsigned i = 0; i < 3; i++) { /* nothing may take back the object */
		err = pool_sync(hs.pool);
		ASSERT(err == 0);
	}
	pool_ds_close(ds);
}

void
filler_step(void)
{
	struct pool_ds_info info;
	struct pool_ds *ds;
	int err;

	if (fill_number == 0) {
		return;
	}
	err = pool_ds_open(hs.pool, "tank/fill", &ds);
	ASSERT(err == 0);
	pool_ds_get_info(ds, &info);
	err = fill_change(ds, history_rnd(4) == 0 || info.available_bytes > FILL_ROOM / 2);
	ASSERT(err == 0 || err == -ENOSPC);
	pool_ds_close(ds);
}

/* ---- a new pool ---- */

void
pool_make(void)
{
	struct pool_set_spec sets[4];
	struct pool_create_spec spec = {.name = "tank",
	    .sets = sets,
	    .set_count = hs.layout->sets,
	    .host_name = "here",
	    .host_id = 1};
	struct pool_ds *ds;
	char why[200];
	int err;

	for (uint32_t i = 0; i < hs.layout->sets; i++) {
		sets[i] = (struct pool_set_spec){hs.layout->kind, hs.layout->parity,
		    hs.layout->width, hs.rig.drives + i * hs.layout->width};
	}
	err = pool_create(&spec, &hs.pool, why, sizeof(why));
	if (err != 0) {
		fprintf(stderr, "create: %s: %s\n", err_str(err), why);
	}
	ASSERT(err == 0);
	hs.pool_guid = pool_guid(hs.pool);
	if (hs.old) {
		accounts_none();
	}
	for (uint32_t i = 0; i < 2; i++) {
		err = pool_ds_create(hs.pool, hs.heads[i].path, &ds);
		ASSERT(err == 0);
		pool_ds_close(ds);
		head_identify(&hs.heads[i]);
		history_begin(&hs.heads[i]);
		hs.heads[i].exists = true;
	}
	if (hs.layout->full) {
		fill_begin();
	}
	hs.created = true;
}
