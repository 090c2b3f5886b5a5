/*
 * scan_state.c - how far a scan is: in uberblocks, for the administrator, and how long it will
 * take.
 */
#include "pool/event.h"
#include "pool/scan_int.h"
#include "pool/space_int.h"

#define PACE_MS_MIN 500u

/* ---- pace ---- */

void
pace_begin(struct scan *sc, uint64_t *work, uint64_t count, uint64_t next)
{
	uint64_t left = 0, *old;

	for (uint64_t i = next; work != NULL && i < count; i++) {
		left += work[i];
	}
	mutex_lock(&sc->mu);
	old = sc->pace.work;
	sc->pace =
	    (struct scan_pace){.work = work, .count = count, .left = left, .began_ns = rt_now_ns()};
	mutex_unlock(&sc->mu);
	mem_free(old);
}

void
pace_block(struct scan *sc, uint64_t sectors)
{
	sc->pace.segment_done += sectors;
}

void
pace_segment(struct scan *sc, uint64_t index)
{
	struct scan_pace *pace = &sc->pace;

	if (pace->work != NULL && index < pace->count) {
		pace->left -= MIN(pace->work[index], pace->left);
		pace->done += pace->work[index];
	}
	pace->segment_done = 0;
}

void
pace_end(struct scan *sc)
{
	mutex_lock(&sc->mu);
	sc->pace.began_ns = 0;
	mutex_unlock(&sc->mu);
}

/* Under mu. What a segment turned out to hold may differ from what was measured, as the pool is in
 * use. */
static void
pace_tell(const struct scan *sc, struct pool_scan_status *out)
{
	const struct scan_pace *pace = &sc->pace;
	uint64_t run_ms, now = pace->segment_done, done, left;

	out->left_s = UINT64_MAX;
	if (pace->began_ns == 0 || pace->work == NULL || sc->at.state != SCAN_RUNNING) {
		return;
	}
	if (sc->at.next < pace->count) {
		now = MIN(now, pace->work[sc->at.next]);
	}
	done = pace->done + now;
	left = pace->left - MIN(now, pace->left);
	run_ms = (rt_now_ns() - pace->began_ns) / NSEC_PER_MSEC;
	if (run_ms < PACE_MS_MIN || done == 0) {
		return;
	}
	out->bytes_per_s = done * SECTOR_BYTES / run_ms * 1000;
	out->left_s = (uint64_t)((double)left * (double)run_ms / (double)done / 1000.0 + 0.5);
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
	};
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
	if (err == 0 && action == POOL_SCAN_START) {
		events_add(
		    p->v.events, POOL_EVENT_INFO, "scrub.begin", "all blocks are being verified");
	}
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
	    .left_s = UINT64_MAX,
	    .kind = at.kind,
	    .state = at.state,
	    .examined_bytes = at.examined * SECTOR_BYTES,
	    .total_bytes = (info.used_sectors - info.deferred_sectors) * SECTOR_BYTES,
	    .repaired = at.repaired,
	    .errors = at.errors,
	    .unreached = at.unreached,
	    .started = at.started,
	    .ended = at.ended,
	    .percent = at.state == SCAN_DONE
			   ? 100
			   : (uint32_t)(MIN(at.next, (uint64_t)p->space->seg_count) * 100 /
					(p->space->seg_count + 1)),
	};
	if (p->scan != NULL) {
		mutex_lock(&p->scan->mu);
		pace_tell(p->scan, out);
		mutex_unlock(&p->scan->mu);
	}
}
