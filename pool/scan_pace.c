/*
 * scan_pace.c - how much of a scan is done and how long it will take.
 *
 * Work is counted in sectors and in blocks, as small ones take longer than their size says. What a
 * run has to look at is measured by the segment maps whenever one begins or goes on, and corrected
 * for each segment when its turn comes.
 *
 * Percent: what was shown when this run began, and of the rest as much as this run has done of its
 * work. It is kept (shown, in the uberblock) and never lowered, whatever is measured anew.
 *
 * Time left: the work that is left, at the pace of the last minute. How many sectors going to a
 * block is worth is learned from what blocks of different sizes took (a line through them); the
 * pace says what else there is to know, such as how many are under way at once.
 */
#include "pool/scan_int.h"

#define PACE_NS_MIN (500 * NSEC_PER_MSEC) /* nothing is told before */
#define WINDOW_NS (60 * NSEC_PER_SEC)
#define SAMPLE_NS (WINDOW_NS / (PACE_SAMPLES - 2))
#define SHOWN_BLOCK_SECTORS 32.0 /* for the percent: fixed, so that it grows evenly */
#define BLOCK_SECTORS 64.0       /* as long as nothing has been learned */
#define BLOCK_SECTORS_MAX 4096.0
#define LEARN_MIN 32.0
#define LEARN_MAX 4096.0 /* then what was before counts half */

static double
cost(const struct pace_work *w, double each)
{
	return (double)w->sectors + each * (double)w->blocks;
}

static void
work_add(struct pace_work *to, const struct pace_work *w)
{
	to->sectors += w->sectors;
	to->blocks += w->blocks;
}

static void
work_take(struct pace_work *from, const struct pace_work *w)
{
	from->sectors -= MIN(from->sectors, w->sectors);
	from->blocks -= MIN(from->blocks, w->blocks);
}

/* Before this version only the number of the segment was kept. */
static uint64_t
shown_by_next(const struct progress *at, uint64_t segments)
{
	return MIN(at->next, segments) * SHOWN_MAX / (segments + 1);
}

void
pace_begin(struct scan *sc, struct pace_work *work, uint64_t count, uint64_t next)
{
	struct pace_work left = {0}, *old;
	struct scan_pace *pace = &sc->pace;
	uint64_t now = rt_now_ns();

	for (uint64_t i = next; work != NULL && i < count; i++) {
		work_add(&left, &work[i]);
	}
	mutex_lock(&sc->mu);
	old = pace->work;
	if (sc->at.shown == 0) {
		sc->at.shown = shown_by_next(&sc->at, count - 1);
	}
	*pace = (struct scan_pace){
	    .work = work,
	    .count = count,
	    .left = left,
	    .at = UINT64_MAX,
	    .base = MIN(sc->at.shown, SHOWN_MAX - 1),
	    .began_ns = now,
	    .samples = {{.at_ns = now}},
	    .sample_count = 1,
	};
	mutex_unlock(&sc->mu);
	mem_free(old);
}

static void
show(struct scan *sc)
{
	const struct scan_pace *pace = &sc->pace;
	double done = cost(&pace->done, SHOWN_BLOCK_SECTORS);
	double left = cost(&pace->left, SHOWN_BLOCK_SECTORS);
	uint64_t shown = pace->base;

	if (pace->work == NULL) {
		shown = shown_by_next(&sc->at, pace->count - 1);
	} else if (done > 0) {
		shown += (uint64_t)((double)(SHOWN_MAX - 1 - pace->base) * done / (done + left));
	}
	sc->at.shown = MAX(sc->at.shown, MIN(shown, SHOWN_MAX - 1));
}

static void
learn(struct scan_pace *pace, double sectors, double us)
{
	if (pace->n >= LEARN_MAX) {
		pace->n /= 2;
		pace->s /= 2;
		pace->t /= 2;
		pace->ss /= 2;
		pace->st /= 2;
	}
	pace->n += 1;
	pace->s += sectors;
	pace->t += us;
	pace->ss += sectors * sectors;
	pace->st += sectors * us;
}

/* How many sectors going to a block is worth: where the line meets no sectors, by its slope. */
static double
learned_block(const struct scan_pace *pace)
{
	double spread = pace->n * pace->ss - pace->s * pace->s;
	double slope, base;

	if (pace->n < LEARN_MIN || spread < pace->s * pace->s / 1000) {
		return BLOCK_SECTORS; /* all were of one size */
	}
	slope = (pace->n * pace->st - pace->s * pace->t) / spread;
	base = (pace->t - slope * pace->s) / pace->n;
	if (base <= 0) {
		return 0;
	}
	return base < slope * BLOCK_SECTORS_MAX ? base / slope : BLOCK_SECTORS_MAX;
}

static void
sample(struct scan_pace *pace)
{
	uint64_t now = rt_now_ns();

	if (now - pace->samples[(pace->sample_count - 1) % PACE_SAMPLES].at_ns >= SAMPLE_NS) {
		pace->samples[pace->sample_count++ % PACE_SAMPLES] =
		    (struct pace_sample){now, pace->done};
	}
}

void
pace_entry(struct scan *sc, uint64_t index, struct pace_work work)
{
	struct scan_pace *pace = &sc->pace;

	if (pace->work == NULL || index >= pace->count) {
		return;
	}
	/* a second time when it couldn't be done the first time */
	work_take(&pace->left, pace->at == index ? &pace->at_left : &pace->work[index]);
	work_add(&pace->left, &work);
	pace->work[index] = work;
	pace->at = index;
	pace->at_left = work;
}

void
pace_block(struct scan *sc, uint64_t sectors, uint64_t ns)
{
	struct scan_pace *pace = &sc->pace;
	struct pace_work block = {sectors, 1};

	work_take(&pace->at_left, &block);
	work_take(&pace->left, &block);
	work_add(&pace->done, &block);
	learn(pace, (double)sectors, (double)ns / NSEC_PER_USEC);
	sample(pace);
	show(sc);
}

void
pace_entry_done(struct scan *sc, uint64_t index)
{
	struct scan_pace *pace = &sc->pace;

	if (pace->at == index) {
		work_take(&pace->left, &pace->at_left);
		pace->at_left = (struct pace_work){0};
	}
	show(sc);
}

void
pace_end(struct scan *sc)
{
	sc->pace.began_ns = 0;
}

/* The oldest sample of the window; the run's first while it is young. */
static const struct pace_sample *
oldest(const struct scan_pace *pace, uint64_t now)
{
	uint32_t n = pace->sample_count, i = n > PACE_SAMPLES ? n - PACE_SAMPLES : 0;

	while (i + 1 < n && now - pace->samples[i % PACE_SAMPLES].at_ns > WINDOW_NS + SAMPLE_NS) {
		i++;
	}
	return &pace->samples[i % PACE_SAMPLES];
}

void
pace_tell(const struct scan *sc, struct pool_scan_status *out)
{
	const struct scan_pace *pace = &sc->pace;
	const struct pace_sample *from;
	struct pace_work lately = pace->done;
	double each = learned_block(pace), ms;
	uint64_t now = rt_now_ns();

	out->left_s = UINT64_MAX;
	if (pace->began_ns == 0 || pace->work == NULL || sc->at.state != SCAN_RUNNING ||
	    now - pace->began_ns < PACE_NS_MIN) {
		return;
	}
	from = oldest(pace, now);
	work_take(&lately, &from->done);
	ms = (double)(now - from->at_ns) / NSEC_PER_MSEC;
	if (ms < 1 || lately.blocks == 0) {
		return;
	}
	out->bytes_per_s = (uint64_t)((double)(lately.sectors * SECTOR_BYTES) / ms * 1000);
	out->left_s = (uint64_t)(cost(&pace->left, each) / cost(&lately, each) * ms / 1000.0 + 0.5);
}
