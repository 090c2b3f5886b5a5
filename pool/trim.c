/*
 * trim.c - telling the drives what is free: all of it by command, or by itself what was freed. One
 * fiber a pool goes through the segments; what may be discarded, and that nobody allocates it
 * meanwhile, is space_trim.c's.
 *
 * Only one discard is under way in a pool at a time, of CHUNK_BYTES of each drive of a set. When
 * something else was asked of these drives since the last one, the next waits for BUSY_NS; so
 * clients feel little of it. A drive that doesn't answer in time may do it at any later time: until
 * it has, the range stays nobody's, and when it takes too long the trim is paused and the range
 * given up.
 *
 * States: as of a scan. NEVER/DONE/CANCELLED/PAUSED -> RUNNING and back by pool_trim; RUNNING ->
 * DONE at the end, -> PAUSED when a drive doesn't answer. How far it is is in the blob "trim" every
 * STORE_NS, and goes on from there after an import; a segment done twice does no harm.
 */
#include "pool/trim.h"

#include "pool/drive.h"
#include "pool/event.h"
#include "pool/label.h"
#include "pool/scan.h"

#define CHUNK_BYTES ((uint64_t)16 << 20)
#define BUSY_NS (50 * NSEC_PER_MSEC)
#define LATE_NS (10 * NSEC_PER_SEC)
#define LATE_LOOK_NS (10 * NSEC_PER_MSEC)
#define STORE_NS (30 * NSEC_PER_SEC)
#define LOOK_NS (5 * NSEC_PER_SEC)
#define WAIT_NS (100 * NSEC_PER_MSEC) /* between txgs that are only made to be ready */
#define TRIM_VERSION 1u
#define TRIM_BLOB "trim"

struct trim_run {
	enum trim_state state;
	uint64_t next, trimmed, fresh; /* sectors */
	uint64_t started, ended, bytes_per_s;
	struct guid drive;
};

struct trim {
	struct pool *p;
	struct mutex mu; /* RANK_LEAF; all below but what is the fiber's */
	struct cond wake;
	bool stop, taken_up, store, automatic;
	struct trim_run run;
	uint64_t auto_bytes_per_s, auto_sectors;
	uint32_t without; /* drives that don't understand it, when it was begun */
	bool waiting;
	struct waitgroup done;
	/* the fiber's */
	bool by_itself; /* what is being done now */
	uint64_t ios[POOL_SETS_MAX], stored_ns;
	uint32_t auto_next;
};

/* ---- on drives ---- */

static void
run_encode(const struct trim_run *r, struct trim_phys *out)
{
	*out = (struct trim_phys){
	    .version = le32_of(TRIM_VERSION),
	    .state = le32_of(r->state),
	    .next = le64_of(r->next),
	    .trimmed_sectors = le64_of(r->trimmed),
	    .fresh_sectors = le64_of(r->fresh),
	    .started = le64_of(r->started),
	    .ended = le64_of(r->ended),
	    .bytes_per_s = le64_of(r->bytes_per_s),
	    .drive = r->drive,
	};
}

/* What another version has written is as if there had been nothing. */
static void
run_decode(const void *data, uint32_t len, struct trim_run *out)
{
	struct trim_phys raw;

	*out = (struct trim_run){0};
	if (len != sizeof(raw)) {
		return;
	}
	memcpy(&raw, data, sizeof(raw));
	if (le32_get(raw.version) != TRIM_VERSION || le32_get(raw.state) > TRIM_CANCELLED) {
		return;
	}
	*out = (struct trim_run){
	    .state = (enum trim_state)le32_get(raw.state),
	    .next = le64_get(raw.next),
	    .trimmed = le64_get(raw.trimmed_sectors),
	    .fresh = le64_get(raw.fresh_sectors),
	    .started = le64_get(raw.started),
	    .ended = le64_get(raw.ended),
	    .bytes_per_s = le64_get(raw.bytes_per_s),
	    .drive = raw.drive,
	};
}

static void
take_up(struct trim *t)
{
	struct trim_run run = {0};
	uint32_t len;
	void *data;

	if (pool_blob_get(t->p, TRIM_BLOB, &data, &len) == 0) {
		run_decode(data, len, &run);
		mem_free(data);
	}
	mutex_lock(&t->mu);
	if (t->run.state == TRIM_NEVER) {
		t->run = run;
	}
	t->taken_up = true;
	mutex_unlock(&t->mu);
}

static void
run_store(struct trim *t)
{
	struct trim_phys raw;
	int err;

	mutex_lock(&t->mu);
	run_encode(&t->run, &raw);
	t->store = false;
	mutex_unlock(&t->mu);
	t->stored_ns = rt_now_ns();
	err = pool_blob_put(t->p, TRIM_BLOB, &raw, sizeof(raw));
	if (err != 0) {
		log_warn("trim.not_stored pool=%s error=%s", t->p->name, err_str(err));
	}
}

/* ---- one discard ---- */

static bool
goes_on(struct trim *t)
{
	bool on;

	mutex_lock(&t->mu);
	on = !t->stop && (t->by_itself ? t->automatic && t->run.state != TRIM_RUNNING
				       : t->run.state == TRIM_RUNNING);
	mutex_unlock(&t->mu);
	return on && !atomic_load(&t->p->suspended);
}

/* Until the time is over, or there is a reason to look up. */
static void
pause_for(struct trim *t, uint64_t ns)
{
	uint64_t until = rt_now_ns() + ns;

	mutex_lock(&t->mu);
	t->waiting = true;
	while (!t->stop && rt_now_ns() < until &&
	       cond_wait_until(&t->wake, &t->mu, until) != -ETIMEDOUT) {
		if (!t->by_itself && t->run.state != TRIM_RUNNING) {
			break;
		}
	}
	t->waiting = false;
	mutex_unlock(&t->mu);
}

static bool
discards(const struct vdev_drive *d)
{
	return d->kb != NULL && kb_discards(d->kb);
}

/* Columns of the set that are meant and understand it. out_ios: what was asked of its drives so
 * far. */
static uint32_t
columns_meant(struct trim *t, uint32_t set, uint64_t *out_ios)
{
	struct pool *p = t->p;
	struct guid only;
	uint32_t mask = 0;
	bool all;

	*out_ios = 0;
	mutex_lock(&t->mu);
	only = t->run.drive;
	mutex_unlock(&t->mu);
	all = t->by_itself || guid_is_zero(&only);
	mutex_lock(&p->config_lock);
	for (uint32_t i = 0; i < p->v.drive_count; i++) {
		const struct vdev_drive *d = &p->v.drives[i];
		struct kb_counters c;

		if (d->role != DRIVE_ROLE_DATA || d->set_index != set || !discards(d)) {
			continue;
		}
		kb_get_counters(d->kb, &c);
		*out_ios += c.reads + c.writes;
		mask |= all || guid_equal(&d->guid, &only) ? 1u << d->column : 0;
	}
	mutex_unlock(&p->config_lock);
	return mask;
}

/* Do drives of the mask have something that they were told and may do yet? */
static bool
is_late(struct pool *p, uint32_t set, uint32_t columns)
{
	bool late = false;

	mutex_lock(&p->config_lock);
	for (uint32_t c = 0; c < p->v.sets[set].cfg.width; c++) {
		const struct vdev_drive *d = vdev_column(&p->v, set, c);

		late = late || ((columns >> c & 1) != 0 && d != NULL && d->kb != NULL &&
				   kb_late_writes(d->kb) != 0);
	}
	mutex_unlock(&p->config_lock);
	return late;
}

static int
late_wait(struct trim *t, uint32_t set, uint32_t late)
{
	uint64_t until = rt_now_ns() + LATE_NS;

	while (late != 0 && is_late(t->p, set, late)) {
		if (rt_now_ns() >= until) {
			return SPACE_TRIM_LOST;
		}
		fiber_sleep(LATE_LOOK_NS);
	}
	return 0;
}

static int
discard(void *arg, uint32_t set, uint64_t sector, uint64_t sectors)
{
	struct trim *t = arg;
	struct vdev_set *vs = &t->p->v.sets[set];
	uint64_t ios, rate, bytes, began = rt_now_ns();
	uint32_t late = 0, meant = columns_meant(t, set, &ios);
	int err;

	if (!goes_on(t)) {
		return -ECANCELED;
	}
	if (ios != t->ios[set] && t->ios[set] != 0) {
		pause_for(t, BUSY_NS);
	}
	(void)raidz_discard(vs->rg, sector, sectors, meant, &late);
	err = late_wait(t, set, late);
	(void)columns_meant(t, set, &t->ios[set]);
	bytes = vs->cfg.kind == RAIDZ_KIND_MIRROR ? sectors : sectors / vs->cfg.width;
	bytes *= SECTOR_BYTES;
	mutex_lock(&t->mu);
	rate = t->by_itself ? t->auto_bytes_per_s : t->run.bytes_per_s;
	*(t->by_itself ? &t->auto_sectors : &t->run.trimmed) += sectors;
	mutex_unlock(&t->mu);
	if (err == 0 && rate != 0) {
		uint64_t due = began + bytes * NSEC_PER_MSEC / MAX(rate / 1000, (uint64_t)1);

		if (due > rt_now_ns()) {
			pause_for(t, due - rt_now_ns());
		}
	}
	return err;
}

static int
segment(struct trim *t, uint32_t index, uint64_t *out_fresh)
{
	uint64_t rate = t->by_itself ? t->auto_bytes_per_s : t->run.bytes_per_s;
	uint64_t chunk = rate != 0 ? MIN(MAX(rate / 4, 64 * KIB), CHUNK_BYTES) : CHUNK_BYTES;
	struct space_trim how = {
	    .column_sectors = chunk / SECTOR_BYTES, .discard = discard, .arg = t};

	return space_trim_segment(t->p->space, index, &how, out_fresh);
}

/* ---- the fiber ---- */

static void
run_end(struct trim *t, enum trim_state state, const char *why)
{
	mutex_lock(&t->mu);
	t->run.state = state;
	t->run.ended = rt_wall_ns() / NSEC_PER_SEC;
	mutex_unlock(&t->mu);
	events_add(t->p->v.events, state == TRIM_DONE ? POOL_EVENT_INFO : POOL_EVENT_WARNING,
	    state == TRIM_DONE ? "trim.end" : "trim.stopped", "%s", why);
	run_store(t);
}

/* The next segment of the run that was asked for. */
static void
step_asked(struct trim *t)
{
	uint32_t count = space_segment_count(t->p->space);
	uint64_t next = t->run.next, fresh;
	int err;

	t->by_itself = false;
	if (next >= count) {
		run_end(t, TRIM_DONE, "the drives have been told what is free");
		return;
	}
	if (!space_trim_is_ready(t->p->space)) {
		/* an idle pool has to be taken on by as many txgs; who is at work makes them anyway
		 */
		(void)!pool_sync(t->p); /* if it was in vain the next time tells */
		pause_for(t, WAIT_NS);
		return;
	}
	err = segment(t, (uint32_t)next, &fresh);
	if (err == SPACE_TRIM_LOST) {
		run_end(t, TRIM_PAUSED,
		    "a drive doesn't answer: the trim is paused, and what it was told to discard "
		    "isn't "
		    "used until the pool is imported again");
		return;
	}
	if (err == -EBUSY || err == -ENOMEM) {
		pause_for(t, LOOK_NS);
		return;
	}
	mutex_lock(&t->mu);
	if (err != -ECANCELED && t->run.next == next) {
		t->run.next = next + 1; /* one whose map can't be read is passed over */
		t->run.fresh += fresh;
	}
	mutex_unlock(&t->mu);
	if (rt_now_ns() - t->stored_ns >= STORE_NS) {
		run_store(t);
	}
}

/* True: there was something to do. */
static bool
step_by_itself(struct trim *t)
{
	uint32_t index = space_trim_next(t->p->space, t->auto_next);
	uint64_t fresh;
	int err;

	t->by_itself = true;
	if (index == UINT32_MAX || !space_trim_is_ready(t->p->space)) {
		return false;
	}
	t->auto_next = index + 1;
	err = segment(t, index, &fresh);
	if (err == SPACE_TRIM_LOST) {
		mutex_lock(&t->mu);
		t->automatic = false; /* until it is set again */
		mutex_unlock(&t->mu);
		events_add(t->p->v.events, POOL_EVENT_WARNING, "trim.stopped",
		    "a drive doesn't answer: autotrim rests until the pool is imported again");
	}
	/* what is too fresh is left to a later round */
	return err == 0 && fresh == 0;
}

static void
trim_main(void *arg)
{
	struct trim *t = arg;

	for (;;) {
		bool stop, asked, automatic, store, busy = false;

		mutex_lock(&t->mu);
		stop = t->stop;
		asked = t->taken_up && t->run.state == TRIM_RUNNING;
		automatic = t->taken_up && t->automatic;
		store = t->store;
		mutex_unlock(&t->mu);
		if (stop) {
			break;
		}
		if (!t->taken_up && scan_is_open(t->p)) {
			take_up(t);
			continue;
		}
		if (store) {
			run_store(t);
		} else if (asked && !atomic_load(&t->p->suspended)) {
			step_asked(t);
			busy = true;
		} else if (automatic && !atomic_load(&t->p->suspended)) {
			busy = step_by_itself(t);
		}
		mutex_lock(&t->mu);
		if (!busy && !t->store && !t->stop) {
			/* the time-out is a look of its own */
			(void)cond_wait_until(&t->wake, &t->mu, rt_now_ns() + LOOK_NS);
		}
		mutex_unlock(&t->mu);
	}
	wg_done(&t->done);
}

int
trim_start(struct pool *p)
{
	struct trim *t = mem_zalloc(sizeof(*t));

	if (t == NULL) {
		return -ENOMEM;
	}
	t->p = p;
	mutex_init(&t->mu, RANK_LEAF);
	cond_init(&t->wake);
	wg_init(&t->done);
	wg_add(&t->done, 1);
	p->trim = t;
	fiber_spawn_wait(rt_reactor_self(), FIBER_REPAIR, "pool-trim", trim_main, t);
	return 0;
}

void
trim_stop(struct pool *p)
{
	struct trim *t = p->trim;

	if (t == NULL) {
		return;
	}
	mutex_lock(&t->mu);
	t->stop = true;
	cond_broadcast(&t->wake);
	mutex_unlock(&t->mu);
	wg_wait(&t->done);
	if (t->taken_up && t->run.state == TRIM_RUNNING && !atomic_load(&p->suspended)) {
		run_store(t);
	}
}

void
trim_free(struct pool *p)
{
	mem_free(p->trim);
	p->trim = NULL;
}

/* ---- the calls ---- */

/* Data drives that understand it, and those that don't. */
static void
count_drives(struct pool *p, const struct guid *only, uint32_t *out_with, uint32_t *out_without)
{
	*out_with = *out_without = 0;
	mutex_lock(&p->config_lock);
	for (uint32_t i = 0; i < p->v.drive_count; i++) {
		const struct vdev_drive *d = &p->v.drives[i];

		if (d->role == DRIVE_ROLE_DATA && d->kb != NULL &&
		    (only == NULL || guid_equal(&d->guid, only))) {
			*(discards(d) ? out_with : out_without) += 1;
		}
	}
	mutex_unlock(&p->config_lock);
}

/* Under mu. */
static int
run_begin(struct trim *t, const struct guid *drive, uint64_t bytes_per_s)
{
	if (t->run.state == TRIM_RUNNING) {
		return -EBUSY;
	}
	if (t->run.state == TRIM_PAUSED && drive == NULL) {
		t->run.state = TRIM_RUNNING;
		t->run.bytes_per_s = bytes_per_s != 0 ? bytes_per_s : t->run.bytes_per_s;
		return 0;
	}
	t->run = (struct trim_run){
	    .state = TRIM_RUNNING,
	    .started = rt_wall_ns() / NSEC_PER_SEC,
	    .bytes_per_s = bytes_per_s,
	    .drive = drive != NULL ? *drive : (struct guid){{0}},
	};
	events_add(
	    t->p->v.events, POOL_EVENT_INFO, "trim.begin", "the drives are told what is free");
	return 0;
}

int
pool_trim(
    struct pool *p, enum pool_trim_action action, const struct guid *drive, uint64_t bytes_per_s)
{
	struct trim *t = p->trim;
	uint32_t with, without;
	int err = 0;

	if (p->readonly || t == NULL) {
		return -EROFS;
	}
	if (p->suspended) {
		return -ERR_SUSPENDED;
	}
	count_drives(p, drive, &with, &without);
	if (action == POOL_TRIM_START && with == 0) {
		return without > 0 ? -EOPNOTSUPP : -ENOENT;
	}
	mutex_lock(&t->mu);
	if (action == POOL_TRIM_START) {
		err = run_begin(t, drive, bytes_per_s);
		t->without = without;
	} else if (t->run.state != TRIM_RUNNING &&
		   (action == POOL_TRIM_PAUSE || t->run.state != TRIM_PAUSED)) {
		err = -ENOENT;
	} else {
		t->run.state = action == POOL_TRIM_PAUSE ? TRIM_PAUSED : TRIM_CANCELLED;
		t->run.ended = rt_wall_ns() / NSEC_PER_SEC;
	}
	t->store = t->store || err == 0;
	cond_broadcast(&t->wake);
	mutex_unlock(&t->mu);
	return err;
}

void
pool_set_autotrim(struct pool *p, bool on, uint64_t bytes_per_s)
{
	struct trim *t = p->trim;

	if (t == NULL) {
		return;
	}
	mutex_lock(&t->mu);
	t->automatic = on;
	t->auto_bytes_per_s = bytes_per_s;
	cond_broadcast(&t->wake);
	mutex_unlock(&t->mu);
}

void
pool_get_trim(struct pool *p, struct pool_trim_status *out)
{
	struct trim *t = p->trim;
	uint64_t count = MAX(space_segment_count(p->space), 1u);

	*out = (struct pool_trim_status){0};
	if (t == NULL) {
		return;
	}
	mutex_lock(&t->mu);
	out->drives_without = t->without;
	out->state = t->run.state;
	out->percent = (uint32_t)(MIN(t->run.next, count) * 100 / count);
	out->trimmed_bytes = t->run.trimmed * SECTOR_BYTES;
	out->fresh_bytes = t->run.fresh * SECTOR_BYTES;
	out->started = t->run.started;
	out->ended = t->run.state == TRIM_RUNNING ? 0 : t->run.ended;
	out->bytes_per_s = t->run.bytes_per_s;
	out->auto_bytes = t->auto_sectors * SECTOR_BYTES;
	out->drive = t->run.drive;
	out->waiting = t->run.state == TRIM_RUNNING && t->waiting;
	mutex_unlock(&t->mu);
}
