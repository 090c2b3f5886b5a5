/*
 * admin.c - operations on datasets and snapshots, in a fiber beside the one that changes objects;
 * one at a time.
 *
 * What the model learns of an operation it learns when that returns; what a crash left of it,
 * settle.c finds out. Each may be refused for want of space, then nothing has changed.
 */
#include "pool/snap.h"
#include "tests/histories/history.h"

/* The one that has been unused for longest. */
static struct msnap *
snap_slot(void)
{
	for (uint32_t i = 0; i < HISTORY_SNAPS; i++) {
		struct msnap *s = &hs.snaps[hs.snap_next++ % HISTORY_SNAPS];

		if (!s->exists) {
			return s;
		}
	}
	return NULL;
}

bool
snap_full_name(uint64_t guid, char out[DATASET_NAME_MAX + 1])
{
	struct pool_ds_info info;
	struct pool_ds *ds;

	if (pool_snap_open_guid(hs.pool, 0, guid, &ds) != 0) {
		return false;
	}
	pool_ds_get_info(ds, &info);
	memcpy(out, info.path, sizeof(info.path));
	pool_ds_close(ds);
	return true;
}

/* What the model knows of a snapshot that has just been made, or is found after a crash. */
void
snap_learn(const struct head *h, const char *full)
{
	struct msnap *s = snap_slot();
	struct pool_snap_info info;
	int err = pool_snap_get(hs.pool, full, 0, &info);

	ASSERT(err == 0 && s != NULL);
	memset(s, 0, sizeof(*s));
	memcpy(s->o, history_at(h, info.create_txg), sizeof(s->o));
	s->guid = info.guid;
	s->create_txg = info.create_txg;
	mutex_lock(&hs.pool->datasets->lock);
	s->root = snap_find_guid(hs.pool, s->guid)->root;
	mutex_unlock(&hs.pool->datasets->lock);
	s->exists = true;
	history_count(HK_SNAP);
	if (history_trace()) {
		fprintf(stderr, "  snapshot %s %llx txg %llu\n", full, (unsigned long long)s->guid,
		    (unsigned long long)info.create_txg);
	}
}

static bool
refused(int err)
{
	if (err == -ENOSPC) {
		history_count(HK_NO_SPACE);
	}
	return err == -ENOSPC;
}

static void
adm_create(void)
{
	char full[HISTORY_HEADS][DATASET_NAME_MAX + 1];
	const char *names[HISTORY_HEADS];
	uint32_t bad = 0;
	int err;

	for (uint32_t i = 0; i < hs.adm.count; i++) {
		(void)snprintf(
		    full[i], sizeof(full[i]), "%s@%s", hs.heads[hs.adm.heads[i]].path, hs.adm.name);
		names[i] = full[i];
	}
	err = pool_snap_create(hs.pool, names, hs.adm.count, &bad);
	if (refused(err)) {
		return;
	}
	ASSERT(err == 0);
	for (uint32_t i = 0; i < hs.adm.count; i++) {
		snap_learn(&hs.heads[hs.adm.heads[i]], full[i]);
	}
}

/* Those that hs.adm lists; none of them may be held or have clones. */
static int
snaps_destroy(void)
{
	static char full[HISTORY_SNAPS][DATASET_NAME_MAX + 1]; /* one operation at a time */
	const char *names[HISTORY_SNAPS];
	uint64_t reclaim = 0;
	uint32_t bad = 0;
	int err = 0;

	for (uint32_t i = 0; i < hs.adm.count; i++) {
		bool there = snap_full_name(hs.snaps[hs.adm.snaps[i]].guid, full[i]);

		ASSERT(there);
		names[i] = full[i];
	}
	if (history_rnd(4) == 0) {
		err = pool_snap_reclaim(hs.pool, names, hs.adm.count, &reclaim);
		ASSERT(err == 0 || err == -ENOSPC);
	}
	err = pool_snap_destroy(hs.pool, names, hs.adm.count, &bad);
	ASSERT(err == 0 || err == -EBUSY || err == -ENOSPC);
	for (uint32_t i = 0; i < hs.adm.count && err == 0; i++) {
		hs.snaps[hs.adm.snaps[i]].exists = false;
		history_count(HK_SNAP_DESTROY);
	}
	return err;
}

/* The head's contents are the snapshot's. */
static void
head_becomes(struct head *h, const struct msnap *s)
{
	memcpy(h->now, s->o, sizeof(h->now));
	snap_compare(s, h->b);
	history_begin(h);
}

static void
adm_clone(void)
{
	struct head *h = &hs.heads[hs.adm.head];
	char full[DATASET_NAME_MAX + 1];
	struct pool_ds *ds;
	bool there = snap_full_name(hs.snaps[hs.adm.snap].guid, full);
	int err;

	ASSERT(there);
	err = pool_ds_clone(hs.pool, full, h->path, &ds);
	if (refused(err)) {
		return;
	}
	ASSERT(err == 0);
	pool_ds_close(ds);
	head_becomes(h, &hs.snaps[hs.adm.snap]);
	head_identify(h);
	h->exists = true;
	history_count(HK_CLONE);
}

static void
adm_rollback(void)
{
	struct head *h = &hs.heads[hs.adm.head],
		    *kept = hs.adm.kept < HISTORY_HEADS ? &hs.heads[hs.adm.kept] : NULL;
	char full[DATASET_NAME_MAX + 1];
	bool there = snap_full_name(hs.snaps[hs.adm.snap].guid, full);
	int err;

	ASSERT(there);
	hs.adm.started = true;
	err = pool_ds_rollback(hs.pool, full, kept != NULL ? kept->path : NULL);
	if (err == -EBUSY) {
		return; /* not the newest */
	}
	if (refused(err)) {
		return;
	}
	ASSERT(err == 0);
	if (kept != NULL) {
		memcpy(kept->now, h->now, sizeof(kept->now));
		memcpy(kept->b, h->b, sizeof(kept->b));
		history_begin(kept);
		head_identify(kept);
		kept->top_number = h->top_number;
		kept->exists = true;
	}
	head_becomes(h, &hs.snaps[hs.adm.snap]);
	head_identify(h);
	history_count(kept != NULL ? HK_ROLLBACK_KEPT : HK_ROLLBACK);
}

static void
adm_promote(void)
{
	char why[200] = "";
	int err = pool_ds_promote(hs.pool, hs.heads[hs.adm.head].path, why, sizeof(why));

	ASSERT(err == 0 || err == -EINVAL || refused(err));
	hs.counts->kind[HK_PROMOTE] += err == 0;
}

/* With its snapshots, if nobody needs these. */
static void
adm_gone(void)
{
	struct head *h = &hs.heads[hs.adm.head];
	int err = hs.adm.count > 0 ? snaps_destroy() : 0;

	if (err == 0) {
		err = pool_ds_destroy(hs.pool, h->path);
	}
	ASSERT(err == 0 || err == -EBUSY || refused(err));
	h->exists = err != 0;
	hs.counts->kind[HK_DS_DESTROY] += err == 0;
}

/* Also how a dataset is put into the bin and taken out of it. */
static void
adm_rename(void)
{
	struct head *h = &hs.heads[hs.adm.head];
	int err = pool_ds_rename(hs.pool, h->path, hs.adm.name);

	if (refused(err)) {
		return;
	}
	ASSERT(err == 0);
	memcpy(h->path, hs.adm.name, sizeof(h->path));
	history_count(HK_DS_RENAME);
}

static void
adm_trace(const char *what)
{
	if (history_trace()) {
		fprintf(stderr,
		    "%llu %s kind %u head %u kept %u snap %llx name %s count %u txg %llu\n",
		    (unsigned long long)hs.life, what, hs.adm.kind, hs.adm.head, hs.adm.kept,
		    hs.adm.snap < HISTORY_SNAPS ? (unsigned long long)hs.snaps[hs.adm.snap].guid
						: 0,
		    hs.adm.name, hs.adm.count, (unsigned long long)txg_open(hs.pool->txgs));
		for (uint32_t i = 0; i < hs.adm.count && hs.adm.kind == ADM_DESTROY; i++) {
			fprintf(
			    stderr, "  %llx\n", (unsigned long long)hs.snaps[hs.adm.snaps[i]].guid);
		}
	}
}

static void
adm_fiber(void *arg UNUSED)
{
	adm_trace("begin");
	switch (hs.adm.kind) {
	case ADM_CREATE:
		adm_create();
		break;
	case ADM_DESTROY:
		(void)snaps_destroy();
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
	case ADM_RENAME:
		adm_rename();
		break;
	case ADM_NONE:
		break;
	}
	adm_trace("end");
	if (hs.adm.head < HISTORY_HEADS) {
		hs.heads[hs.adm.head].busy = false;
	}
	hs.adm.kind = ADM_NONE;
	hs.adm.running = false;
}

uint32_t
pick_head(bool exists)
{
	uint32_t first = (uint32_t)history_rnd(HISTORY_HEADS);

	for (uint32_t i = 0; i < HISTORY_HEADS; i++) {
		uint32_t k = (first + i) % HISTORY_HEADS;

		if (hs.heads[k].exists == exists && !hs.heads[k].busy) {
			return k;
		}
	}
	return HISTORY_HEADS;
}

uint32_t
pick_snap(void)
{
	uint32_t first = (uint32_t)history_rnd(HISTORY_SNAPS);

	for (uint32_t i = 0; i < HISTORY_SNAPS; i++) {
		uint32_t k = (first + i) % HISTORY_SNAPS;

		if (hs.snaps[k].exists) {
			return k;
		}
	}
	return HISTORY_SNAPS;
}

static uint32_t
snap_count(void)
{
	uint32_t n = 0;

	for (uint32_t i = 0; i < HISTORY_SNAPS; i++) {
		n += hs.snaps[i].exists;
	}
	return n;
}

static bool
choose_create(void)
{
	uint32_t want = 1 + (uint32_t)history_rnd(HISTORY_HEADS);

	if (snap_count() + HISTORY_HEADS > HISTORY_SNAPS) {
		return false;
	}
	hs.adm.kind = ADM_CREATE;
	hs.adm.head = HISTORY_HEADS;
	(void)snprintf(hs.adm.name, sizeof(hs.adm.name), "s%u", hs.name_count++);
	for (uint32_t i = 0; i < HISTORY_HEADS && hs.adm.count < want; i++) {
		if (hs.heads[i].exists && (want == HISTORY_HEADS || history_rnd(2) == 0)) {
			hs.adm.heads[hs.adm.count++] = i;
		}
	}
	return hs.adm.count > 0;
}

static bool
choose_destroy(void)
{
	uint32_t want = 1 + (uint32_t)history_rnd(history_rnd(3) == 0 ? 8 : 2);

	hs.adm.kind = ADM_DESTROY;
	hs.adm.head = HISTORY_HEADS;
	for (uint32_t i = 0; i < HISTORY_SNAPS && hs.adm.count < want; i++) {
		if (hs.snaps[i].exists && history_rnd(snap_count()) < want) {
			hs.adm.snaps[hs.adm.count++] = i;
		}
	}
	return hs.adm.count > 0;
}

/* The dataset whose path begins the snapshot's. */
static uint32_t
head_of_snap(uint32_t snap)
{
	char full[DATASET_NAME_MAX + 1];

	if (!snap_full_name(hs.snaps[snap].guid, full)) {
		return HISTORY_HEADS;
	}
	*strchr(full, '@') = '\0';
	for (uint32_t i = 0; i < HISTORY_HEADS; i++) {
		if (hs.heads[i].exists && strcmp(hs.heads[i].path, full) == 0) {
			return i;
		}
	}
	return HISTORY_HEADS;
}

/* Not when everything else would be gone. */
static bool
choose_gone(void)
{
	uint32_t count = 0;

	hs.adm.kind = ADM_GONE;
	for (uint32_t i = 0; i < HISTORY_HEADS; i++) {
		count += hs.heads[i].exists;
	}
	hs.adm.head = count > 2 ? pick_head(true) : HISTORY_HEADS;
	if (hs.adm.head == HISTORY_HEADS) {
		return false;
	}
	hs.heads[hs.adm.head].busy = true;
	for (uint32_t i = 0; i < HISTORY_SNAPS; i++) {
		if (hs.snaps[i].exists && head_of_snap(i) == hs.adm.head) {
			hs.adm.snaps[hs.adm.count++] = i;
		}
	}
	return true;
}

static bool
choose_roles(void)
{
	hs.adm.snap = pick_snap();
	switch (history_rnd(8)) {
	case 0:
		hs.adm.kind = ADM_CLONE;
		hs.adm.head = pick_head(false);
		return hs.adm.snap < HISTORY_SNAPS && hs.adm.head < HISTORY_HEADS;
	case 1:
		hs.adm.kind = ADM_PROMOTE;
		hs.adm.head = pick_head(true);
		return hs.adm.head < HISTORY_HEADS;
	case 2:
		return choose_gone();
	case 3:
		hs.adm.kind = ADM_RENAME;
		hs.adm.head = pick_head(true);
		if (hs.adm.head < HISTORY_HEADS) {
			hs.heads[hs.adm.head].busy = true;
			(void)snprintf(hs.adm.name, sizeof(hs.adm.name), "tank/%c%u",
			    (char)('a' + hs.adm.head), hs.name_count++ % 3);
		}
		return hs.adm.head < HISTORY_HEADS;
	default:
		hs.adm.kind = ADM_ROLLBACK;
		hs.adm.head =
		    hs.adm.snap < HISTORY_SNAPS ? head_of_snap(hs.adm.snap) : HISTORY_HEADS;
		hs.adm.kept = history_rnd(3) == 0 ? pick_head(false) : HISTORY_HEADS;
		if (hs.adm.head < HISTORY_HEADS) {
			hs.heads[hs.adm.head].busy = true;
		}
		return hs.adm.head < HISTORY_HEADS;
	}
}

void
step_admin(void)
{
	bool ok;

	memset(&hs.adm, 0, sizeof(hs.adm));
	hs.adm.kept = HISTORY_HEADS;
	switch (history_rnd(4)) {
	case 0:
		ok = choose_create();
		break;
	case 1:
		ok = snap_count() > 10 || history_rnd(3) == 0 ? choose_destroy() : choose_create();
		break;
	default:
		ok = choose_roles();
		break;
	}
	if (!ok) {
		if (hs.adm.head < HISTORY_HEADS) {
			hs.heads[hs.adm.head].busy = false;
		}
		hs.adm.kind = ADM_NONE;
		return;
	}
	hs.adm.running = true;
	/* the model is for one thread at a time */
	fiber_spawn_wait(
	    hs.spec->real || history_rnd(2) == 0 ? 0 : 1, FIBER_REQUEST, "admin", adm_fiber, NULL);
}

/* ---- tags and names, at once ---- */

void
step_tag(void)
{
	uint32_t k = pick_snap();
	char full[DATASET_NAME_MAX + 1], name[16];
	int err;

	if (k == HISTORY_SNAPS || !snap_full_name(hs.snaps[k].guid, full)) {
		return;
	}
	if (hs.snaps[k].holds > 0) {
		err = pool_snap_release(hs.pool, full, "keep");
		ASSERT(err == 0 || refused(err));
		hs.snaps[k].holds = err != 0;
	} else if (history_rnd(2) == 0) {
		err = pool_snap_hold(hs.pool, full, "keep");
		ASSERT(err == 0 || refused(err));
		hs.snaps[k].holds = err == 0;
		history_count(HK_HOLD);
	} else {
		(void)snprintf(name, sizeof(name), "s%u", hs.name_count++);
		err = pool_snap_rename(hs.pool, full, name);
		ASSERT(err == 0 || refused(err));
		history_count(HK_SNAP_RENAME);
	}
}

void
admin_wait(void)
{
	while (hs.adm.running) {
		fiber_sleep(NSEC_PER_MSEC);
	}
}
