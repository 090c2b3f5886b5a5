/*
 * scan.c - scrub and resilver: one fiber a pool goes through the segments of all sets, in order,
 * and has every block of their maps verified on every column and rewritten where wrong or stale
 * (raidz_scrub_block). It needs no tree: the maps record whole blocks with their checksums.
 *
 * Progress is one number, the next segment. It is in every uberblock, the heartbeat's too, so that
 * an import goes on there. A segment is done again when the power went in the middle of it; it
 * counts as done when what was rewritten has been flushed, since uberblocks and labels that say
 * so are written at any moment.
 *
 * A resilver looks at blocks born in the dirty range of a drive that it fills. It fills those that
 * were stale when it began (in_pass, durable in the configuration); drives that become stale
 * meanwhile have to wait for the next one, so that its progress never goes back. One of its drives
 * that fails leaves it. At the end the drives that every block could be written to are clean, in
 * the labels before anything relies on it. Which drives and ranges an uberblock's progress is about
 * is hashed into dirty_sum; an import whose configuration says otherwise begins again. Blocks of
 * the map log have no checksum in their records; they are taken from the chain.
 *
 * States: NEVER/DONE/CANCELLED -> RUNNING by pool_scan or a stale drive (scan_poke); RUNNING <->
 * PAUSED by pool_scan; RUNNING -> DONE at the end, -> CANCELLED by pool_scan. Only the fiber
 * advances `next`.
 */
#include "pool/event.h"
#include "pool/label.h"
#include "pool/logdev.h"
#include "pool/pair.h"
#include "pool/pool_log.h"
#include "pool/scan_int.h"
#include "pool/space_int.h"

#define RETRY_NS NSEC_PER_SEC
#define TRY_AGAIN_NS (60 * NSEC_PER_SEC) /* drives that couldn't be given everything */

/* ---- who is stale ---- */

static bool
is_stale(const struct vdev_drive *d)
{
	return d->role == DRIVE_ROLE_DATA && d->kb != NULL && d->state == DRIVE_STATE_ONLINE &&
	       d->dirty_from != 0;
}

/* Does a drive of this set that is being filled lack blocks born then? */
static bool
is_lacking(const struct vdevs *v, uint32_t set, uint64_t birth)
{
	for (uint32_t i = 0; i < v->drive_count; i++) {
		const struct vdev_drive *d = &v->drives[i];

		if (d->in_pass && is_stale(d) && d->set_index == set && d->dirty_from <= birth &&
		    birth <= d->dirty_to) {
			return true;
		}
	}
	return false;
}

/* Columns of a set that are being filled, as a mask. */
static uint32_t
columns_filled(const struct vdevs *v, uint32_t set)
{
	uint32_t mask = 0;

	for (uint32_t i = 0; i < v->drive_count; i++) {
		const struct vdev_drive *d = &v->drives[i];

		if (d->in_pass && is_stale(d) && d->set_index == set) {
			mask |= vdev_bit(d);
		}
	}
	return mask;
}

/* ---- what is to be done ---- */

/* Everybody who is stale now. Under config_lock. */
static void
resilver_begin(struct scan *sc)
{
	struct vdevs *v = &sc->p->v;
	uint32_t count = 0;

	for (uint32_t i = 0; i < v->drive_count; i++) {
		v->drives[i].in_pass = is_stale(&v->drives[i]);
		count += v->drives[i].in_pass;
	}
	mutex_lock(&sc->mu);
	sc->at = (struct progress){
	    .kind = SCAN_RESILVER,
	    .state = SCAN_RUNNING,
	    .started = rt_wall_ns() / NSEC_PER_SEC,
	};
	mutex_unlock(&sc->mu);
	log_notice("resilver.begin pool=%s drives=%u", sc->p->name, count);
	events_add(v->events, POOL_EVENT_INFO, "resilver.begin",
	    "%u drive%s being brought up to date", count, count == 1 ? " is" : "s are");
	if (log_membership_write(sc->p) != 0) {
		atomic_store(
		    &sc->p->config_dirty, true); /* until it is durable, an import begins anew */
	}
}

/* A resilver when somebody is stale; else what was running. Under config_lock. True: go on. */
static bool
choose(struct scan *sc)
{
	const struct vdevs *v = &sc->p->v;
	uint32_t stale = 0, filled = 0;
	bool begin, run;

	for (uint32_t i = 0; i < v->drive_count; i++) {
		stale += is_stale(&v->drives[i]);
		filled += is_stale(&v->drives[i]) && v->drives[i].in_pass;
	}
	mutex_lock(&sc->mu);
	begin = sc->open && !sc->stop && stale > 0 &&
		(sc->at.kind != SCAN_RESILVER || !progress_is_active(&sc->at) || filled == 0);
	if (!begin && sc->at.kind == SCAN_RESILVER && progress_is_active(&sc->at) && stale == 0 &&
	    sc->open) {
		/* its drives have gone: there is nobody left to be filled */
		sc->at.state = SCAN_CANCELLED;
		sc->at.ended = rt_wall_ns() / NSEC_PER_SEC;
	}
	mutex_unlock(&sc->mu);
	if (begin) {
		resilver_begin(sc);
	}
	mutex_lock(&sc->mu);
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
note_bad(struct scan *sc, uint32_t set, uint64_t sector)
{
	atomic_fetch_add(&sc->p->data_errors, 1);
	log_error("scan.block_bad pool=%s set=%u sector=%llu", sc->p->name, set,
	    (unsigned long long)sector);
	if (sc->bad_count < SCAN_BAD_MAX) {
		sc->bad[sc->bad_count++] = (struct damage_addr){sector, set};
	}
}

static void
note_block(struct scan *sc, const struct space_rec *rec, int err, const struct raidz_report *r)
{
	uint32_t set = rec->set, asize = rec->asize;
	uint32_t unwritten = r->unwritten;

	if (err == -ERR_CKSUM && !is_whole(sc->p, set)) {
		err = -EIO;
	}
	if (sc->at.kind == SCAN_RESILVER) {
		unwritten &= columns_filled(&sc->p->v, set); /* others aren't judged by this pass */
	}
	mutex_lock(&sc->mu);
	sc->at.examined += asize;
	pace_block(sc, asize);
	sc->at.repaired += r->cksum_bad != 0 && r->rewritten != 0;
	sc->wrote = sc->wrote || r->rewritten != 0;
	sc->at.errors += err == -ERR_CKSUM;
	/* what nothing verifies no drive can be given; what couldn't be read or written now may be
	 * later */
	sc->at.unreached += (err != 0 && err != -ERR_CKSUM) || (err == 0 && unwritten != 0);
	mutex_unlock(&sc->mu);
	if (err == -ERR_CKSUM) {
		note_bad(sc, set, rec->sector);
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
		    (kind == SCAN_RESILVER && !is_lacking(&p->v, seg->set, r->birth)) ||
		    (i % 4 == 3 && DELIBERATE_BUG("pool-resilver-skips"))) {
			continue;
		}
		if (is_cut_short(sc)) {
			err = -ECANCELED;
			break;
		}
		one = space_verify_record(p, r, &report);
		note_block(sc, r, one, &report);
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

			struct space_rec rec = {
			    .set = bp_addr_set(&b->bp.addr[0]),
			    .sector = bp_addr_sector(&b->bp.addr[0]),
			    .asize = (uint16_t)bp_sectors(&b->bp),
			};

			note_block(sc, &rec, one, &report);
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

	if (at->kind != SCAN_RESILVER) {
		return;
	}
	for (uint32_t i = 0; i < p->v.drive_count; i++) {
		struct vdev_drive *d = &p->v.drives[i];

		if (is_stale(d) && d->in_pass && at->unreached == 0) {
			vdev_drive_clean(&p->v, d);
			events_add(p->v.events, POOL_EVENT_INFO, "drive.whole",
			    "%s has everything again", d->path);
			changed = true;
		}
		d->in_pass = false;
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
	bool renewed = DELIBERATE_BUG("pool-resilver-log-left");

	mutex_lock(&p->config_lock);
	mutex_lock(&sc->mu);
	sc->at.state = SCAN_DONE;
	sc->at.ended = rt_wall_ns() / NSEC_PER_SEC;
	sc->poked |= sc->at.unreached == 0; /* somebody may have become stale meanwhile */
	at = sc->at;
	mutex_unlock(&sc->mu);
	settle_drives(sc, &at);
	if (at.kind == SCAN_RESILVER) {
		/* who is whole again may be a side of the log again */
		(void)!logdev_renew_without(p, NULL, log_sides_wanted(p), &renewed);
	}
	mutex_unlock(&p->config_lock);
	log_notice("scan.end pool=%s kind=%s repaired=%llu errors=%llu unreached=%llu", p->name,
	    at.kind == SCAN_SCRUB ? "scrub" : "resilver", (unsigned long long)at.repaired,
	    (unsigned long long)at.errors, (unsigned long long)at.unreached);
	events_add(p->v.events, at.errors + at.unreached > 0 ? POOL_EVENT_WARNING : POOL_EVENT_INFO,
	    at.kind == SCAN_SCRUB ? "scrub.end" : "resilver.end",
	    "%llu blocks repaired, %llu that nothing could repair, %llu that could not be reached",
	    (unsigned long long)at.repaired, (unsigned long long)at.errors,
	    (unsigned long long)at.unreached);
}

/* Blocks of the dirty range are in the maps when the last txg of it is committed. */
static bool
range_is_committed(struct pool *p)
{
	bool ok = true;

	mutex_lock(&p->config_lock);
	for (uint32_t i = 0; i < p->v.drive_count; i++) {
		const struct vdev_drive *d = &p->v.drives[i];

		ok = ok && (!is_stale(d) || !d->in_pass || d->dirty_to <= p->v.committed_txg);
	}
	mutex_unlock(&p->config_lock);
	return ok;
}

/* ---- how much there is to do ---- */

/* Sectors of a segment that a resilver must look at. */
static uint64_t
work_of(struct scan *sc, struct space_seg *seg)
{
	struct pool *p = sc->p;
	struct rec_list image = {0};
	uint64_t token = space_read_enter(p->space);
	uint64_t work = 0;
	int err = seg_image_now(p->space, seg, &image);

	for (uint32_t i = 0; err == 0 && i < image.count; i++) {
		if (is_lacking(&p->v, seg->set, image.items[i].birth)) {
			work += image.items[i].asize;
		}
	}
	space_read_exit(p->space, token);
	rec_list_free(&image);
	return err == 0 ? work : MAX((uint64_t)seg->used, 1u);
}

/* Does every drive that is being filled lack everything? Then the maps needn't be read twice. */
static bool
lacks_all(struct pool *p)
{
	bool all = true;

	mutex_lock(&p->config_lock);
	for (uint32_t i = 0; i < p->v.drive_count; i++) {
		const struct vdev_drive *d = &p->v.drives[i];

		all = all && (!is_stale(d) || !d->in_pass || d->dirty_from <= 1);
	}
	mutex_unlock(&p->config_lock);
	return all;
}

/* What is left to do from segment `next` on. A resilver does not go to segments without work: what
 * is written from now on reaches the drives anyway. */
static void
measure(struct scan *sc, uint64_t next, enum scan_kind kind)
{
	struct space *s = sc->p->space;
	uint64_t count = s->seg_count;
	uint64_t *work = mem_zalloc_array(count, sizeof(*work));
	bool all = kind == SCAN_SCRUB || lacks_all(sc->p);

	for (uint64_t i = next; work != NULL && i < count; i++) {
		struct space_seg *seg = s->segs_all[i];

		if (seg->used != 0) {
			work[i] = all ? (uint64_t)seg->used : work_of(sc, seg);
		}
		fiber_maybe_yield();
		if (is_cut_short(sc)) {
			break;
		}
	}
	pace_begin(sc, work, count, next);
}

static bool
has_work(struct scan *sc, uint64_t index, enum scan_kind kind)
{
	return kind == SCAN_SCRUB || sc->pace.work == NULL || index >= sc->pace.count ||
	       sc->pace.work[index] != 0 || BUGGIFY("pool-scan-all");
}

static int
step(struct scan *sc, uint64_t next, enum scan_kind kind)
{
	struct space *s = sc->p->space;

	if (next == s->seg_count) {
		return scan_chain(sc);
	}
	return has_work(sc, next, kind) ? scan_segment(sc, s->segs_all[next], kind) : 0;
}

/* What was rewritten is durable before any uberblock or label says that the segment is done. */
static int
flush_rewritten(struct scan *sc)
{
	struct pool *p = sc->p;
	bool lost = false;
	int err;

	if (!sc->wrote || DELIBERATE_BUG("pool-resilver-unflushed")) {
		return 0;
	}
	mutex_lock(&p->config_lock);
	err = vdev_flush_all(&p->v, &lost);
	mutex_unlock(&p->config_lock);
	if (lost) {
		atomic_store(&p->config_dirty, true);
	}
	sc->wrote = err != 0;
	return err;
}

static void
run(struct scan *sc)
{
	struct space *s = sc->p->space;
	enum scan_kind kind;
	uint64_t next;
	bool measured = false;

	while (goes_on(sc, &next, &kind)) {
		int err;

		if (kind == SCAN_RESILVER && !range_is_committed(sc->p) && pool_sync(sc->p) != 0) {
			fiber_sleep(RETRY_NS);
			continue;
		}
		if (!measured) {
			sc->bad_count = 0;
			measure(sc, next, kind);
			measured = true;
		}
		if (next > s->seg_count) {
			finish(sc);
			if (sc->bad_count > 0) {
				damage_name(sc->p, sc->bad, sc->bad_count);
			}
			break;
		}
		err = step(sc, next, kind);
		if (err == -ECANCELED) {
			break;
		}
		err = err != 0 ? err : flush_rewritten(sc);
		if (err != 0 || sc->p->suspended) {
			fiber_sleep(RETRY_NS);
			continue;
		}
		mutex_lock(&sc->mu);
		/* stopped and begun anew meanwhile? */
		if (sc->at.next == next && sc->at.kind == kind) {
			sc->at.next++;
			pace_segment(sc, next);
		}
		mutex_unlock(&sc->mu);
	}
	pace_end(sc);
}

/* Not before replay is over: the ring that is replayed may be on a drive that a pair would give up.
 */
static bool
may_change(struct scan *sc)
{
	bool may;

	mutex_lock(&sc->mu);
	may = sc->open && !sc->stop;
	mutex_unlock(&sc->mu);
	return may;
}

void
scan_main(void *arg)
{
	struct scan *sc = arg;
	bool stop = false;

	while (!stop) {
		bool runnable, again;

		mutex_lock(&sc->p->config_lock);
		runnable = choose(sc);
		mutex_unlock(&sc->p->config_lock);
		if (runnable) {
			run(sc);
		}
		again = may_change(sc) && pairs_finish(sc->p);
		mutex_lock(&sc->mu);
		/* scan_poke and scan_stop end this wait; a resilver that couldn't reach all tries
		 * again */
		while (!sc->stop && !sc->poked) {
			if (!again && (sc->at.kind != SCAN_RESILVER || sc->at.state != SCAN_DONE ||
					  sc->at.unreached == 0)) {
				cond_wait(&sc->wake, &sc->mu);
			} else if (cond_wait_until(
				       &sc->wake, &sc->mu, rt_now_ns() + TRY_AGAIN_NS) != 0) {
				break;
			}
		}
		sc->poked = false;
		stop = sc->stop;
		mutex_unlock(&sc->mu);
	}
	wg_done(&sc->done);
}
