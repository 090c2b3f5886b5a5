/*
 * scan_state.c - how far a scan is: in uberblocks and for the administrator.
 *
 * What is shown of it is what the newest uberblock says on all drives (`written`), so that no power
 * cut takes back what somebody has seen, be it with the loss of a drive; and a scan is shown as
 * done when that can't be lost any more. Commits write it; in between the heartbeat does, and the
 * end of a scan (scan_progress_write).
 */
#include "pool/event.h"
#include "pool/label.h"
#include "pool/pool_log.h"
#include "pool/scan_int.h"
#include "pool/space_int.h"

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
	    .shown = MIN(le64_get(raw->shown), SHOWN_MAX),
	};
}

void
scan_fill_uber(struct pool *p, struct uberblock *ub)
{
	uint64_t sum = vdev_pass_sum(&p->v);
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
	    .dirty_sum = le64_of(at.kind == SCAN_RESILVER ? sum : 0),
	    .shown = le64_of(at.shown),
	};
}

void
scan_written(struct pool *p, const struct uberblock *ub)
{
	if (p->scan != NULL) {
		mutex_lock(&p->scan->mu);
		progress_decode(&ub->scan, &p->scan->written);
		mutex_unlock(&p->scan->mu);
	}
}

/* With labels that say otherwise an import would begin anew: they go first. */
static int
progress_write(struct pool *p, struct uberblock *ub)
{
	bool lost = false;
	int err;

	if (!atomic_load(&p->config_dirty)) {
		err = uber_write(&p->v, ub, &lost);
		if (err == 0) {
			p->ub.heartbeat = ub->heartbeat;
			p->ub.scan = ub->scan;
			scan_written(p, ub);
		}
		if (!lost) {
			return err;
		}
	}
	atomic_store(&p->config_dirty, false);
	err = log_membership_write(p);
	if (err != 0) {
		atomic_store(&p->config_dirty, true);
	}
	return err;
}

bool
scan_progress_write(struct pool *p)
{
	struct uberblock *ub;
	bool wrote = false;

	if (p->scan == NULL || p->suspended || le64_get(p->ub.txg) == 0 ||
	    (le32_get(p->ub.flags) & UBER_CLEAN) != 0) {
		return false;
	}
	ub = pool_must_alloc(sizeof(*ub));
	*ub = p->ub;
	ub->heartbeat = le64_of(le64_get(p->ub.heartbeat) + 1);
	scan_fill_uber(p, ub);
	if (memcmp(&ub->scan, &p->ub.scan, sizeof(ub->scan)) != 0) {
		wrote = progress_write(p, ub) == 0;
	}
	mem_free(ub);
	return wrote;
}

void
scan_take_up(struct pool *p)
{
	struct progress at = {0};

	progress_decode(&p->ub.scan, &at);
	if (at.kind == SCAN_RESILVER && progress_is_active(&at) && at.dirty_sum == p->v.pass_sum) {
		return;
	}
	for (uint32_t i = 0; i < p->v.drive_count; i++) {
		p->v.drives[i].in_pass = false;
	}
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
	sc->written = sc->at;
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
	if (p->scan != NULL) {
		mem_free(p->scan->pace.work);
	}
	mem_free(p->scan);
	p->scan = NULL;
}

bool
scan_is_open(struct pool *p)
{
	bool open;

	if (p->scan == NULL) {
		return false;
	}
	mutex_lock(&p->scan->mu);
	open = p->scan->open;
	mutex_unlock(&p->scan->mu);
	return open;
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
	bool active = progress_is_active(at);

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
		    .started = scan_started_now(at),
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
	if (err == 0 && action == POOL_SCAN_START) {
		events_add(
		    p->v.events, POOL_EVENT_INFO, "scrub.begin", "all blocks are being verified");
	}
	scan_poke(p);
	return err;
}

/* Of a scan that has nothing in an uberblock yet nothing is shown. Under mu. */
static void
show_written(const struct progress *at, const struct progress *written, uint64_t segments,
    struct pool_scan_status *out)
{
	bool same = written->kind == at->kind && written->started == at->started;
	bool done = at->state == SCAN_DONE && same && written->state == SCAN_DONE;
	uint64_t shown = written->shown != 0
			     ? written->shown
			     : MIN(written->next, segments) * SHOWN_MAX / (segments + 1);

	out->state = at->state == SCAN_DONE && !done ? SCAN_RUNNING : at->state;
	out->percent = done ? 100 : same ? (uint32_t)MIN(shown / 100, (uint64_t)99) : 0;
}

void
pool_get_scan(struct pool *p, struct pool_scan_status *out)
{
	struct progress at = {0}, written;
	struct space_info info;

	space_get_info(p->space, &info);
	if (p->scan != NULL) {
		mutex_lock(&p->scan->mu);
		at = p->scan->at;
		written = p->scan->written;
		mutex_unlock(&p->scan->mu);
	} else {
		progress_decode(&p->ub.scan, &at);
		written = at;
	}
	*out = (struct pool_scan_status){
	    .left_s = UINT64_MAX,
	    .kind = at.kind,
	    .examined_bytes = at.examined * SECTOR_BYTES,
	    .total_bytes = (info.used_sectors - info.deferred_sectors) * SECTOR_BYTES,
	    .repaired = at.repaired,
	    .errors = at.errors,
	    .unreached = at.unreached,
	    .started = at.started,
	    .ended = at.ended,
	};
	show_written(&at, &written, p->space->seg_count, out);
	if (p->scan != NULL) {
		mutex_lock(&p->scan->mu);
		pace_tell(p->scan, out);
		mutex_unlock(&p->scan->mu);
	}
}
