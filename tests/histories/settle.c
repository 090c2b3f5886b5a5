/*
 * settle.c - after an import: which of what was under way has landed, as a whole; what the model
 * must forget when the pool went back to an older root.
 */
#include "tests/histories/history.h"

static bool
path_exists(const char *path)
{
	struct pool_ds *ds;
	int err = pool_ds_open(hs.pool, path, &ds);

	if (err == 0) {
		pool_ds_close(ds);
	}
	return err == 0;
}

/* Is there another dataset at h's place than the one that h was? */
static bool
is_new(const struct head *h)
{
	struct pool_ds *ds;
	bool is = false;

	if (pool_ds_open(hs.pool, h->path, &ds) == 0) {
		is = pool_ds_guid(ds) != h->guid;
		pool_ds_close(ds);
	}
	return is;
}

/* What was under way may have landed or not; as a whole. */
static void
settle_create(void)
{
	uint32_t there = 0;

	for (uint32_t i = 0; i < hs.adm.count; i++) {
		char full[DATASET_NAME_MAX + 1];
		struct pool_snap_info info;
		bool known = false;

		(void)snprintf(
		    full, sizeof(full), "%s@%s", hs.heads[hs.adm.heads[i]].path, hs.adm.name);
		if (pool_snap_get(hs.pool, full, 0, &info) != 0) {
			continue;
		}
		there++;
		for (uint32_t k = 0; k < HISTORY_SNAPS; k++) {
			known = known || (hs.snaps[k].exists && hs.snaps[k].guid == info.guid);
		}
		if (!known) {
			snap_learn(&hs.heads[hs.adm.heads[i]], full);
		}
	}
	ASSERT(there == 0 || there == hs.adm.count);
}

static void
settle_destroy(void)
{
	uint32_t there = 0;

	for (uint32_t i = 0; i < hs.adm.count; i++) {
		char full[DATASET_NAME_MAX + 1];

		there += snap_full_name(hs.snaps[hs.adm.snaps[i]].guid, full);
	}
	ASSERT(there == 0 || there == hs.adm.count);
	for (uint32_t i = 0; i < hs.adm.count && there == 0; i++) {
		hs.snaps[hs.adm.snaps[i]].exists = false;
	}
}

static void
settle_rollback(void)
{
	struct head *h = &hs.heads[hs.adm.head];
	struct head *kept = hs.adm.kept < HISTORY_HEADS ? &hs.heads[hs.adm.kept] : NULL;
	struct pool_ds *ds = head_open(h);
	bool done = pool_ds_incarnation(ds) != h->incarnation;

	pool_ds_close(ds);
	if (kept != NULL) {
		ASSERT(is_new(kept) == done || kept->exists);
		if (done && !kept->exists) {
			memcpy(kept->history, h->history, sizeof(kept->history));
			kept->count = h->count;
			kept->exists = true;
			head_identify(kept);
		}
	}
	if (done) {
		memcpy(h->now, hs.snaps[hs.adm.snap].o, sizeof(h->now));
		history_begin(h);
		head_identify(h);
	}
}

/* Where the datasets are that a rename had moved, or was about to. */
void
heads_find(void)
{
	for (uint32_t i = 0; i < HISTORY_HEADS; i++) {
		struct pool_ds_info info;
		struct pool_ds *ds;

		if (hs.heads[i].guid != 0 &&
		    pool_ds_open_guid(hs.pool, hs.heads[i].guid, &ds) == 0) {
			pool_ds_get_info(ds, &info);
			(void)snprintf(
			    hs.heads[i].path, sizeof(hs.heads[i].path), "%.60s", info.path);
			pool_ds_close(ds);
		}
	}
}

void
settle(void)
{
	bool there;

	switch (hs.adm.kind) {
	case ADM_CREATE:
		settle_create();
		break;
	case ADM_DESTROY:
		settle_destroy();
		break;
	case ADM_CLONE:
		there = is_new(&hs.heads[hs.adm.head]) || hs.heads[hs.adm.head].exists;
		if (there && !hs.heads[hs.adm.head].exists) {
			memcpy(hs.heads[hs.adm.head].now, hs.snaps[hs.adm.snap].o,
			    sizeof(hs.heads[0].now));
			history_begin(&hs.heads[hs.adm.head]);
			head_identify(&hs.heads[hs.adm.head]);
		}
		hs.heads[hs.adm.head].exists = there;
		break;
	case ADM_ROLLBACK:
		if (hs.adm.started) {
			settle_rollback();
		}
		break;
	case ADM_GONE:
		settle_destroy();
		hs.heads[hs.adm.head].exists = path_exists(hs.heads[hs.adm.head].path);
		break;
	case ADM_RENAME: /* heads_find */
	case ADM_PROMOTE:
	case ADM_NONE:
		break;
	}
	memset(&hs.adm, 0, sizeof(hs.adm));
}

/* Is it one that was destroyed in a txg that is no more? */
static int
revive(void *arg UNUSED, const struct pool_snap_info *i)
{
	for (uint32_t k = 0; k < HISTORY_SNAPS; k++) {
		if (hs.snaps[k].guid == i->guid) {
			hs.snaps[k].exists = true;
		}
	}
	return 0;
}

/* Back to an older root: what isn't waited for until two later ones are committed (destroying
 * snapshots and datasets) is as it was then. */
void
go_back(uint64_t txg)
{
	for (uint32_t i = 0; i < HISTORY_SNAPS; i++) {
		ASSERT(!hs.snaps[i].exists || hs.snaps[i].create_txg <= txg);
	}
	for (uint32_t i = 0; i < HISTORY_HEADS; i++) {
		struct pool_ds *ds;

		if (!hs.heads[i].exists && hs.heads[i].guid != 0 &&
		    pool_ds_open_guid(hs.pool, hs.heads[i].guid, &ds) == 0) {
			hs.heads[i].exists = true;
			pool_ds_close(ds);
		}
		if (hs.heads[i].exists) {
			int err = pool_snap_each(hs.pool, hs.heads[i].path, 0, revive, NULL);

			ASSERT(err == 0);
		}
	}
	history_count(HK_BACK);
}
