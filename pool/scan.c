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
	    .started = scan_started_now(&sc->at),
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

static bool
is_cut_short(struct scan *sc)
{
	enum scan_kind kind;
	uint64_t next;

	return !goes_on(sc, &next, &kind);
}

/* ---- how much there is to do ---- */

/* Does this scan look at the block of a segment's map? */
static bool
is_wanted(const struct pool *p, const struct space_rec *r, enum scan_kind kind)
{
	return r->cksum_kind != BP_CKSUM_NONE &&
	       (kind == SCAN_SCRUB || is_lacking(&p->v, r->set, r->birth));
}

/* Leaves what this scan looks at. */
static void
image_filter(const struct pool *p, struct rec_list *image, enum scan_kind kind)
{
	uint32_t n = 0;

	for (uint32_t i = 0; i < image->count; i++) {
		if (is_wanted(p, &image->items[i], kind)) {
			image->items[n++] = image->items[i];
		}
	}
	image->count = n;
}

static int
no_record(void *arg UNUSED, const struct space_rec *r UNUSED)
{
	return 0;
}

/* Every copy of a block of the map log, as if it were a block of a segment's map. */
static int
log_block_records(const struct space *s, const struct space_log_block *b, struct rec_list *out)
{
	struct bp_prop prop;
	int err = bp_decode(&b->bp, s->set_count, &prop);

	for (uint32_t i = 0; err == 0 && i < bp_copies(&b->bp); i++) {
		struct space_rec *r = rec_list_push(out);

		if (r == NULL) {
			return -ENOMEM;
		}
		*r = (struct space_rec){
		    .set = bp_addr_set(&b->bp.addr[i]),
		    .sector = bp_addr_sector(&b->bp.addr[i]),
		    .asize = (uint16_t)bp_addr_asize(&b->bp.addr[i]),
		    .psize = (uint16_t)(prop.stored_bytes / BP_SIZE_UNIT - 1),
		    .cksum_kind = (uint8_t)prop.cksum,
		};
		memcpy(r->cksum, b->bp.cksum, sizeof(r->cksum));
	}
	return err;
}

/* The blocks of the map log, from the chain of the committed root. In a read section. */
static int
chain_records(struct scan *sc, struct rec_list *out)
{
	struct pool *p = sc->p;
	struct list blocks;
	struct bp tail;
	int err;

	list_init(&blocks);
	mutex_lock(&p->config_lock);
	tail = p->ub.maplog;
	mutex_unlock(&p->config_lock);
	err = maplog_read(p->space, &tail, no_record, NULL, &blocks);
	list_for_each_safe(l, tmp, &blocks)
	{
		struct space_log_block *b = list_entry(l, struct space_log_block, link);

		err = err != 0 ? err : log_block_records(p->space, b, out);
		list_remove(&b->link);
		mem_free(b);
	}
	return err;
}

/* What the entry of work holds: a segment's blocks, or behind the segments the map log's. In a read
 * section. */
static int
entry_records(struct scan *sc, uint64_t index, enum scan_kind kind, struct rec_list *out)
{
	struct space *s = sc->p->space;
	int err;

	if (index >= s->seg_count) {
		return chain_records(sc, out);
	}
	err = seg_image_now(s, s->segs_all[index], out);
	if (err == 0) {
		image_filter(sc->p, out, kind);
	}
	return err;
}

static struct pace_work
work_of(const struct rec_list *l)
{
	struct pace_work work = {.blocks = l->count};

	for (uint32_t i = 0; i < l->count; i++) {
		work.sectors += l->items[i].asize;
	}
	return work;
}

static struct pace_work
measure_entry(struct scan *sc, uint64_t index, enum scan_kind kind)
{
	struct space *s = sc->p->space;
	struct rec_list l = {0};
	struct pace_work work = {0};
	uint64_t token;

	if (index < s->seg_count && s->segs_all[index]->used == 0) {
		return work;
	}
	token = space_read_enter(s);
	/* one that can't be read is to be gone to, if only to find that again */
	work = entry_records(sc, index, kind, &l) == 0 ? work_of(&l) : (struct pace_work){1, 1};
	space_read_exit(s, token);
	rec_list_free(&l);
	return work;
}

/* What is left to do from segment `next` on, the map log last. A resilver does not go to segments
 * without work: what is written from now on reaches the drives anyway. */
static void
measure(struct scan *sc, uint64_t next, enum scan_kind kind)
{
	struct space *s = sc->p->space;
	uint64_t count = s->seg_count;
	struct pace_work *work = mem_zalloc_array(count + 1, sizeof(*work));

	for (uint64_t i = next; work != NULL && i <= count; i++) {
		work[i] = measure_entry(sc, i, kind);
		fiber_maybe_yield();
		if (is_cut_short(sc)) {
			break;
		}
	}
	pace_begin(sc, work, count + 1, next);
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
note_block(struct scan *sc, const struct space_rec *rec, uint64_t began_ns, int err,
    const struct raidz_report *r)
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
	pace_block(sc, asize, rt_now_ns() - began_ns);
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

static int
scan_records(struct scan *sc, struct rec_list *l)
{
	for (uint32_t i = 0; i < l->count; i++) {
		struct raidz_report report;
		uint64_t began_ns;
		int err;

		if (i % 4 == 3 && DELIBERATE_BUG("pool-resilver-skips")) {
			continue;
		}
		if (is_cut_short(sc)) {
			return -ECANCELED;
		}
		began_ns = rt_now_ns();
		err = space_verify_record(sc->p, &l->items[i], &report);
		note_block(sc, &l->items[i], began_ns, err, &report);
		fiber_maybe_yield();
	}
	return 0;
}

/* A segment whose map can't be read doesn't hold up the others. */
static int
note_map(struct scan *sc, uint64_t index, int err)
{
	const struct space *s = sc->p->space;

	if (index >= s->seg_count || (err != -EIO && err != -ERR_CKSUM && err != -ERR_CORRUPT)) {
		return err;
	}
	log_error("scan.map_unreadable pool=%s set=%u segment=%u error=%s", sc->p->name,
	    s->segs_all[index]->set, s->segs_all[index]->index, err_str(err));
	mutex_lock(&sc->mu);
	sc->at.unreached++;
	mutex_unlock(&sc->mu);
	return 0;
}

static int
scan_entry(struct scan *sc, uint64_t index, enum scan_kind kind)
{
	struct space *s = sc->p->space;
	struct rec_list l = {0};
	uint64_t token = space_read_enter(s);
	int err = entry_records(sc, index, kind, &l);

	if (err == 0) {
		mutex_lock(&sc->mu);
		pace_entry(sc, index, work_of(&l));
		mutex_unlock(&sc->mu);
		err = scan_records(sc, &l);
	} else {
		err = note_map(sc, index, err);
	}
	space_read_exit(s, token);
	rec_list_free(&l);
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
	(void)scan_progress_write(p); /* else the next commit or heartbeat does it */
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

static bool
has_work(struct scan *sc, uint64_t index, enum scan_kind kind)
{
	return kind == SCAN_SCRUB || sc->pace.work == NULL || index >= sc->pace.count - 1 ||
	       sc->pace.work[index].blocks != 0 || BUGGIFY("pool-scan-all");
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
	uint64_t next, measured = 0; /* segments */

	while (goes_on(sc, &next, &kind)) {
		int err;

		if (kind == SCAN_RESILVER && !range_is_committed(sc->p) && pool_sync(sc->p) != 0) {
			fiber_sleep(RETRY_NS);
			continue;
		}
		if (measured != s->seg_count) { /* anew when the pool has grown */
			sc->bad_count = measured == 0 ? 0 : sc->bad_count;
			measured = s->seg_count;
			measure(sc, next, kind);
		}
		if (next > s->seg_count) {
			finish(sc);
			if (sc->bad_count > 0) {
				damage_name(sc->p, sc->bad, sc->bad_count);
			}
			break;
		}
		err = has_work(sc, next, kind) ? scan_entry(sc, next, kind) : 0;
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
			pace_entry_done(sc, next);
		}
		mutex_unlock(&sc->mu);
	}
	mutex_lock(&sc->mu);
	pace_end(sc);
	mutex_unlock(&sc->mu);
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
