/*
 * scan.c - scrub and resilver: one fiber a pool goes through the segments of all sets, in order,
 * and has every block of their maps verified on every column and rewritten where wrong or stale
 * (raidz_scrub_block). It needs no tree: the maps record whole blocks with their checksums.
 *
 * Progress is one number, the next segment. It is in every uberblock, the heartbeat's too, so that
 * an import goes on there. A segment is done again when the power went in the middle of it.
 *
 * A resilver looks at blocks born in the dirty range of a stale drive of their set. Whose turn it
 * is (drives and ranges) is hashed into dirty_sum; when that changes, a running resilver begins
 * again. At the end the drives that every block could be written to are clean, in the labels before
 * anything relies on it. Blocks of the map log have no checksum in their records; they are taken
 * from the chain.
 *
 * States: NEVER/DONE/CANCELLED -> RUNNING by pool_scan or a stale drive (scan_poke); RUNNING <->
 * PAUSED by pool_scan; RUNNING -> DONE at the end, -> CANCELLED by pool_scan. Only the fiber
 * advances `next`.
 */
#include "pool/scan.h"
#include "pool/label.h"
#include "pool/pool_int.h"
#include "pool/pool_log.h"
#include "pool/space_int.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

#define RETRY_NS NSEC_PER_SEC

struct progress {
	enum scan_kind kind;
	enum scan_state state;
	uint64_t next, examined, repaired, errors, unreached, started, ended, dirty_sum;
};

struct scan {
	struct pool *p;
	struct mutex mu;
	struct cond wake;
	struct progress at;     /* mu */
	bool open, poked, stop; /* mu */
	struct waitgroup done;
};

/* ---- who is stale ---- */

static bool
is_stale(const struct vdev_drive *d)
{
	return d->role == DRIVE_ROLE_DATA && d->kb != NULL && d->state == DRIVE_STATE_ONLINE &&
	       d->dirty_from != 0;
}

/* 0: nobody. Under config_lock. */
static uint64_t
dirty_sum(const struct vdevs *v)
{
	uint64_t sum = 0;

	for (uint32_t i = 0; i < v->drive_count; i++) {
		const struct vdev_drive *d = &v->drives[i];

		if (is_stale(d)) {
			sum = XXH3_64bits_withSeed(&d->guid, sizeof(d->guid), sum ^ d->dirty_from);
			sum = (sum ^ d->dirty_to) | 1;
		}
	}
	return sum;
}

/* Does a stale drive of this set lack blocks born then? */
static bool
is_lacking(const struct vdevs *v, uint32_t set, uint64_t birth)
{
	for (uint32_t i = 0; i < v->drive_count; i++) {
		const struct vdev_drive *d = &v->drives[i];

		if (is_stale(d) && d->set_index == set && d->dirty_from <= birth &&
		    birth <= d->dirty_to) {
			return true;
		}
	}
	return false;
}

/* ---- what is to be done ---- */

/* A resilver when somebody is stale; else what was running. Under config_lock. True: go on. */
static bool
choose(struct scan *sc)
{
	uint64_t sum = dirty_sum(&sc->p->v);
	bool run;

	mutex_lock(&sc->mu);
	if (sum != 0 && (sc->at.kind != SCAN_RESILVER || sc->at.dirty_sum != sum)) {
		sc->at = (struct progress){
		    .kind = SCAN_RESILVER,
		    .state = SCAN_RUNNING,
		    .started = rt_wall_ns() / NSEC_PER_SEC,
		    .dirty_sum = sum,
		};
		log_notice("resilver.begin pool=%s", sc->p->name);
	}
	run = sc->open && !sc->stop && sc->at.state == SCAN_RUNNING;
	mutex_unlock(&sc->mu);
	return run;
}

static bool
goes_on(struct scan *sc, uint64_t *out_next, enum scan_kind *out_kind)
{
	bool run;

	mutex_lock(&sc->mu);
	run = !sc->stop && sc->at.state == SCAN_RUNNING;
	*out_next = sc->at.next;
	*out_kind = sc->at.kind;
	mutex_unlock(&sc->mu);
	return run;
}

/* ---- one segment ---- */

/* Columns without a drive may be what the block needs: then nothing is proved yet. */
static bool
is_whole(struct pool *p, uint32_t set)
{
	bool whole;

	mutex_lock(&p->config_lock);
	whole = vdev_missing(&p->v, set) == 0;
	mutex_unlock(&p->config_lock);
	return whole;
}

static void
note_block(struct scan *sc, uint32_t set, uint32_t asize, int err, const struct raidz_report *r)
{
	if (err == -ERR_CKSUM && !is_whole(sc->p, set)) {
		err = -EIO;
	}
	mutex_lock(&sc->mu);
	sc->at.examined += asize;
	sc->at.repaired += r->cksum_bad != 0 && r->rewritten != 0;
	sc->at.errors += err == -ERR_CKSUM;
	/* what nothing verifies no drive can be given; what couldn't be read or written now may be
	 * later */
	sc->at.unreached += (err != 0 && err != -ERR_CKSUM) || (err == 0 && r->unwritten != 0);
	mutex_unlock(&sc->mu);
	if (err == -ERR_CKSUM) {
		atomic_fetch_add(&sc->p->data_errors, 1);
		log_error("scan.block_bad pool=%s set=%u error=%s", sc->p->name, set, err_str(err));
	}
}

static bool
is_cut_short(struct scan *sc)
{
	enum scan_kind kind;
	uint64_t next;

	return !goes_on(sc, &next, &kind);
}

static int
scan_segment(struct scan *sc, struct space_seg *seg, enum scan_kind kind)
{
	struct pool *p = sc->p;
	struct rec_list image = {0};
	uint64_t token = space_read_enter(p->space);
	int err = seg_image_now(p->space, seg, &image);

	for (uint32_t i = 0; err == 0 && i < image.count; i++) {
		struct space_rec *r = &image.items[i];
		struct raidz_report report;
		int one;

		if (r->cksum_kind == BP_CKSUM_NONE ||
		    (kind == SCAN_RESILVER && !is_lacking(&p->v, seg->set, r->birth))) {
			continue;
		}
		if (is_cut_short(sc)) {
			err = -ECANCELED;
			break;
		}
		one = space_verify_record(p, r, &report);
		note_block(sc, r->set, r->asize, one, &report);
		fiber_maybe_yield();
	}
	space_read_exit(p->space, token);
	rec_list_free(&image);
	if (err == -EIO || err == -ERR_CKSUM || err == -ERR_CORRUPT) {
		log_error("scan.map_unreadable pool=%s set=%u segment=%u error=%s", p->name,
		    seg->set, seg->index, err_str(err));
		mutex_lock(&sc->mu);
		sc->at.unreached++;
		mutex_unlock(&sc->mu);
		err = 0;
	}
	return err;
}

static int
no_record(void *arg UNUSED, const struct space_rec *r UNUSED)
{
	return 0;
}

/* The blocks of the map log, from the chain of the committed root. */
static int
scan_chain(struct scan *sc)
{
	struct pool *p = sc->p;
	struct list blocks;
	uint64_t token;
	struct bp tail;
	int err;

	list_init(&blocks);
	token = space_read_enter(p->space);
	mutex_lock(&p->config_lock);
	tail = p->ub.maplog;
	mutex_unlock(&p->config_lock);
	err = maplog_read(p->space, &tail, no_record, NULL, &blocks);
	list_for_each_safe(l, tmp, &blocks)
	{
		struct space_log_block *b = list_entry(l, struct space_log_block, link);
		struct raidz_report report = {0};

		if (err == 0) {
			int one = space_verify_log_block(p->space, b, &report);

			note_block(sc, 0, (uint32_t)bp_sectors(&b->bp), one, &report);
		}
		list_remove(&b->link);
		mem_free(b);
	}
	space_read_exit(p->space, token);
	return err;
}

/* ---- the whole ---- */

/* Drives that had everything written to them are clean. Under config_lock. */
static void
settle_drives(struct scan *sc, const struct progress *at)
{
	struct pool *p = sc->p;
	bool changed = false;

	if (at->kind != SCAN_RESILVER || at->unreached > 0 || dirty_sum(&p->v) != at->dirty_sum) {
		return;
	}
	for (uint32_t i = 0; i < p->v.drive_count; i++) {
		if (is_stale(&p->v.drives[i])) {
			vdev_drive_clean(&p->v, &p->v.drives[i]);
			changed = true;
		}
	}
	if (changed && log_membership_write(p) != 0) {
		/* the next commit tries again; until then an import resilvers once more */
		atomic_store(&p->config_dirty, true);
	}
}

static void
finish(struct scan *sc)
{
	struct pool *p = sc->p;
	struct progress at;

	mutex_lock(&p->config_lock);
	mutex_lock(&sc->mu);
	sc->at.state = SCAN_DONE;
	sc->at.ended = rt_wall_ns() / NSEC_PER_SEC;
	at = sc->at;
	mutex_unlock(&sc->mu);
	settle_drives(sc, &at);
	mutex_unlock(&p->config_lock);
	log_notice("scan.end pool=%s kind=%s repaired=%llu errors=%llu unreached=%llu", p->name,
	    at.kind == SCAN_SCRUB ? "scrub" : "resilver", (unsigned long long)at.repaired,
	    (unsigned long long)at.errors, (unsigned long long)at.unreached);
}

/* Blocks of the dirty range are in the maps when the last txg of it is committed. */
static bool
range_is_committed(struct pool *p)
{
	bool ok = true;

	mutex_lock(&p->config_lock);
	for (uint32_t i = 0; i < p->v.drive_count; i++) {
		const struct vdev_drive *d = &p->v.drives[i];

		ok = ok && (!is_stale(d) || d->dirty_to <= p->v.committed_txg);
	}
	mutex_unlock(&p->config_lock);
	return ok;
}

static void
run(struct scan *sc)
{
	struct space *s = sc->p->space;
	enum scan_kind kind;
	uint64_t next;

	while (goes_on(sc, &next, &kind)) {
		int err;

		if (kind == SCAN_RESILVER && !range_is_committed(sc->p) && pool_sync(sc->p) != 0) {
			fiber_sleep(RETRY_NS);
			continue;
		}
		if (next > s->seg_count) {
			finish(sc);
			return;
		}
		err = next < s->seg_count ? scan_segment(sc, s->segs_all[next], kind)
					  : scan_chain(sc);
		if (err == -ECANCELED) {
			return;
		}
		if (err != 0 || sc->p->suspended) {
			fiber_sleep(RETRY_NS);
			continue;
		}
		mutex_lock(&sc->mu);
		/* a drive's return may have begun it anew meanwhile */
		if (sc->at.next == next && sc->at.kind == kind) {
			sc->at.next++;
		}
		mutex_unlock(&sc->mu);
	}
}

static void
scan_main(void *arg)
{
	struct scan *sc = arg;
	bool stop = false;

	while (!stop) {
		bool runnable;

		mutex_lock(&sc->p->config_lock);
		runnable = choose(sc);
		mutex_unlock(&sc->p->config_lock);
		if (runnable) {
			run(sc);
		}
		mutex_lock(&sc->mu);
		/* scan_poke and scan_stop end this wait */
		while (!sc->stop && !sc->poked) {
			cond_wait(&sc->wake, &sc->mu);
		}
		sc->poked = false;
		stop = sc->stop;
		mutex_unlock(&sc->mu);
	}
	wg_done(&sc->done);
}

/* ---- life ---- */

static void
progress_decode(const struct scan_phys *raw, struct progress *out)
{
	uint32_t kind = le32_get(raw->kind), state = le32_get(raw->state);

	if (kind > SCAN_RESILVER || state > SCAN_CANCELLED) {
		return; /* of a later version: as if there had been none */
	}
	*out = (struct progress){
	    .kind = (enum scan_kind)kind,
	    .state = (enum scan_state)state,
	    .next = le64_get(raw->next),
	    .examined = le64_get(raw->examined_sectors),
	    .repaired = le64_get(raw->repaired),
	    .errors = le64_get(raw->errors),
	    .unreached = le64_get(raw->unreached),
	    .started = le64_get(raw->started),
	    .ended = le64_get(raw->ended),
	    .dirty_sum = le64_get(raw->dirty_sum),
	};
}

void
scan_fill_uber(struct pool *p, struct uberblock *ub)
{
	struct progress at;

	if (p->scan == NULL) {
		return;
	}
	mutex_lock(&p->scan->mu);
	at = p->scan->at;
	mutex_unlock(&p->scan->mu);
	ub->scan = (struct scan_phys){
	    .kind = le32_of(at.kind),
	    .state = le32_of(at.state),
	    .next = le64_of(at.next),
	    .examined_sectors = le64_of(at.examined),
	    .repaired = le64_of(at.repaired),
	    .errors = le64_of(at.errors),
	    .unreached = le64_of(at.unreached),
	    .started = le64_of(at.started),
	    .ended = le64_of(at.ended),
	    .dirty_sum = le64_of(at.dirty_sum),
	};
}

int
scan_start(struct pool *p)
{
	struct scan *sc = mem_zalloc(sizeof(*sc));

	if (sc == NULL) {
		return -ENOMEM;
	}
	sc->p = p;
	mutex_init(&sc->mu, RANK_LEAF);
	cond_init(&sc->wake);
	wg_init(&sc->done);
	wg_add(&sc->done, 1);
	progress_decode(&p->ub.scan, &sc->at);
	if (sc->at.kind == SCAN_RESILVER && sc->at.state == SCAN_DONE) {
		sc->at.dirty_sum = 0; /* whoever is stale still has a new chance */
	}
	p->scan = sc;
	fiber_spawn_wait(rt_reactor_self(), FIBER_REPAIR, "pool-scan", scan_main, sc);
	return 0;
}

void
scan_stop(struct pool *p)
{
	struct scan *sc = p->scan;

	if (sc == NULL) {
		return;
	}
	mutex_lock(&sc->mu);
	sc->stop = true;
	cond_broadcast(&sc->wake);
	mutex_unlock(&sc->mu);
	wg_wait(&sc->done);
}

void
scan_free(struct pool *p)
{
	mem_free(p->scan);
	p->scan = NULL;
}

void
scan_poke(struct pool *p)
{
	struct scan *sc = p->scan;

	if (sc == NULL) {
		return;
	}
	mutex_lock(&sc->mu);
	sc->open = sc->poked = true;
	cond_broadcast(&sc->wake);
	mutex_unlock(&sc->mu);
}

/* ---- by the administrator ---- */

static int
act(struct progress *at, enum pool_scan_action action)
{
	bool active = at->state == SCAN_RUNNING || at->state == SCAN_PAUSED;

	if (action != POOL_SCAN_START && !active) {
		return -ENOENT;
	}
	if (active && at->kind == SCAN_RESILVER &&
	    (action == POOL_SCAN_START || action == POOL_SCAN_STOP)) {
		return -EBUSY;
	}
	switch (action) {
	case POOL_SCAN_START:
		*at = (struct progress){
		    .kind = SCAN_SCRUB,
		    .state = SCAN_RUNNING,
		    .started = rt_wall_ns() / NSEC_PER_SEC,
		};
		break;
	case POOL_SCAN_PAUSE:
		at->state = SCAN_PAUSED;
		break;
	case POOL_SCAN_RESUME:
		at->state = SCAN_RUNNING;
		break;
	case POOL_SCAN_STOP:
		at->state = SCAN_CANCELLED;
		at->ended = rt_wall_ns() / NSEC_PER_SEC;
		break;
	}
	return 0;
}

int
pool_scan(struct pool *p, enum pool_scan_action action)
{
	int err;

	if (p->scan == NULL) {
		return -EROFS;
	}
	mutex_lock(&p->scan->mu);
	err = act(&p->scan->at, action);
	mutex_unlock(&p->scan->mu);
	scan_poke(p);
	return err;
}

void
pool_get_scan(struct pool *p, struct pool_scan_status *out)
{
	struct progress at = {0};
	struct space_info info;

	space_get_info(p->space, &info);
	if (p->scan != NULL) {
		mutex_lock(&p->scan->mu);
		at = p->scan->at;
		mutex_unlock(&p->scan->mu);
	} else {
		progress_decode(&p->ub.scan, &at);
	}
	*out = (struct pool_scan_status){
	    .kind = at.kind,
	    .state = at.state,
	    .examined_bytes = at.examined * SECTOR_BYTES,
	    .total_bytes = (info.used_sectors - info.deferred_sectors) * SECTOR_BYTES,
	    .repaired = at.repaired,
	    .errors = at.errors,
	    .started = at.started,
	    .ended = at.ended,
	    .percent = at.state == SCAN_DONE
			   ? 100
			   : (uint32_t)(MIN(at.next, (uint64_t)p->space->seg_count) * 100 /
					(p->space->seg_count + 1)),
	};
}
