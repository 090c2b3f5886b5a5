/*
 * health.c - which drives are ill, and which are slow. A look a second, on the heartbeat's fiber,
 * at counters that others keep: nothing here is in the way of an I/O.
 *
 * Thresholds. A drive's errors are taken down by the second in which they were found. When the
 *newest `count` of a kind lie within `seconds`, the drive is
 *	faulted		I/O errors: out, dirty from the next txg on; spare.c finds a spare for it
 *	degraded	wrong checksums, or slow I/O: still read and written; spare.c replaces it
 *too but only if its set can do without it, and not when several of a set are slow at once, which
 *is the host's fault. pool_drive_clear takes it all back.
 *
 * Slow reads. A block of a set is as slow as the slowest of its columns, so one drive that answers
 * late sets the pace for all. What a read takes each drive, on average since the last comparison,
 *is compared with the median of its siblings: the ratio is used rather than a deviation, since six
 * siblings are too few for one. A drive that is SLOW_RATIO times slower twice running sits out:
 *reads make its columns from the others (raidz_group_sit_out) for a while, after which one
 *comparison is enough to send it back. Writes, scrubs and repairs go to it as ever. At most as many
 *sit out as the set could lose besides those that it lacks; raidz looks at that again for each
 *block.
 *
 * Everything here is under config_lock but the configuration.
 */
#include "pool/health.h"

#include "pool/event.h"
#include "pool/label.h"
#include "pool/pool_log.h"

#define READS_MIN 8u /* fewer say nothing about a drive */
#define COMPARE_AGE_NS \
	(10 * NSEC_PER_SEC) /* what was read before that isn't compared with what comes */
#define SLOW_RATIO 5u
#define SLOW_MORE_NS (300 * NSEC_PER_USEC) /* and by so much: noise isn't slowness */
#define STRIKES 2u
#define SETTLE_NS (3 * NSEC_PER_SEC) /* after a return: what is still found then was before it */
#define TELL_NS (60 * NSEC_PER_SEC) /* a drive's errors are told so often at most */

enum { ILL_IO, ILL_CKSUM, ILL_SLOW, ILLS };

/* The newest errors of one kind, by when they were found. */
struct window {
	uint64_t at_ns[POOL_THRESHOLD_MAX];
	uint64_t count; /* ever */
};

struct drive_health {
	struct guid guid;    /* whose this is */
	struct kb_drive *kb; /* whose counters these are */
	uint64_t seen[ILLS];
	struct window window[ILLS];
	uint64_t told_ns, told_io, told_cksum;
	uint64_t base_reads, base_read_ns, base_at_ns; /* where the comparison begins */
	uint32_t strikes;
};

struct health {
	struct spin lock; /* cfg */
	struct pool_health_config cfg;
	struct drive_health drives[VDEV_DRIVES_MAX]; /* as vdevs.drives */
};

int
health_open(struct pool *p)
{
	struct health *h = mem_zalloc(sizeof(*h));

	if (h == NULL) {
		return -ENOMEM;
	}
	spin_init(&h->lock);
	h->cfg = POOL_HEALTH_DEFAULTS;
	p->health = h;
	return 0;
}

void
health_close(struct pool *p)
{
	mem_free(p->health);
	p->health = NULL;
}

void
pool_set_health(struct pool *p, const struct pool_health_config *cfg)
{
	spin_lock(&p->health->lock);
	p->health->cfg = *cfg;
	spin_unlock(&p->health->lock);
}

void
health_restart(struct pool *p, struct vdev_drive *d)
{
	struct drive_health *dh = &p->health->drives[d - p->v.drives];

	memset(dh->window, 0, sizeof(dh->window));
	dh->seen[ILL_IO] = d->read_errors + d->write_errors;
	dh->seen[ILL_CKSUM] = d->cksum_errors;
	dh->strikes = 0;
}

void
health_forget(struct pool *p, struct vdev_drive *d)
{
	health_restart(p, d);
	atomic_store(&d->slow_ios, 0);
	atomic_store(&d->degraded, DRIVE_WELL);
	atomic_store(&d->sit_until_ns, 0);
}

/* ---- thresholds ---- */

static void
window_add(struct window *w, uint64_t n, uint64_t now)
{
	for (uint64_t i = 0; i < MIN(n, POOL_THRESHOLD_MAX); i++) {
		w->at_ns[w->count++ % POOL_THRESHOLD_MAX] = now;
	}
}

/* Are there count of them within the last seconds? */
static bool
window_has(const struct window *w, uint64_t now, uint32_t count, uint32_t seconds)
{
	if (count == 0 || w->count < count) {
		return false;
	}
	return now - w->at_ns[(w->count - count) % POOL_THRESHOLD_MAX] <= seconds * NSEC_PER_SEC ||
	       DELIBERATE_BUG("health-window-ignored");
}

/* What is new of a counter, which may have been cleared. */
static uint64_t
grown(uint64_t *seen, uint64_t now)
{
	uint64_t more = now > *seen ? now - *seen : 0;

	*seen = now;
	return more;
}

/* The entry's drive is another one, or was opened anew: its counters begin again. */
static struct drive_health *
health_of(struct pool *p, struct vdev_drive *d)
{
	struct drive_health *dh = &p->health->drives[d - p->v.drives];
	struct kb_counters c;

	if (!guid_equal(&dh->guid, &d->guid)) {
		*dh = (struct drive_health){.guid = d->guid}; /* its errors are counted from 0 */
	}
	if (dh->kb != d->kb) {
		kb_get_counters(d->kb, &c);
		dh->kb = d->kb;
		dh->seen[ILL_SLOW] = c.slow;
		dh->base_reads = c.reads;
		dh->base_read_ns = c.read_ns;
		dh->base_at_ns = rt_now_ns();
	}
	return dh;
}

/* The errors since the last time, once in a while. */
static void
tell_errors(struct pool *p, struct vdev_drive *d, struct drive_health *dh)
{
	uint64_t io = d->read_errors + d->write_errors, cksum = d->cksum_errors;
	uint64_t now = rt_now_ns();

	dh->told_io = MIN(dh->told_io, io);
	dh->told_cksum = MIN(dh->told_cksum, cksum);
	if ((io == dh->told_io && cksum == dh->told_cksum) ||
	    (dh->told_ns != 0 && now - dh->told_ns < TELL_NS)) {
		return;
	}
	events_add(p->v.events, POOL_EVENT_WARNING, "drive.errors",
	    "%s: %llu I/O errors, %llu blocks with a wrong checksum", d->path,
	    (unsigned long long)(io - dh->told_io), (unsigned long long)(cksum - dh->told_cksum));
	dh->told_ns = now;
	dh->told_io = io;
	dh->told_cksum = cksum;
}

static const struct pool_threshold *
limit_of(const struct pool_health_config *cfg, unsigned kind)
{
	return kind == ILL_IO ? &cfg->io : kind == ILL_CKSUM ? &cfg->cksum : &cfg->slow;
}

/* Bits of what the drive has had too much of. */
static uint32_t
drive_look(struct pool *p, struct vdev_drive *d, const struct pool_health_config *cfg)
{
	struct drive_health *dh = health_of(p, d);
	uint64_t now = rt_now_ns();
	struct kb_counters c;
	uint64_t slow;
	uint32_t ill = 0;

	if (d->returned_ns != 0 && now - d->returned_ns < SETTLE_NS) {
		health_restart(p, d);
	}
	kb_set_slow(d->kb, cfg->slow_ms * NSEC_PER_MSEC);
	kb_get_counters(d->kb, &c);
	slow = grown(&dh->seen[ILL_SLOW], c.slow);
	atomic_fetch_add(&d->slow_ios, slow);
	tell_errors(p, d, dh);
	window_add(
	    &dh->window[ILL_IO], grown(&dh->seen[ILL_IO], d->read_errors + d->write_errors), now);
	window_add(&dh->window[ILL_CKSUM], grown(&dh->seen[ILL_CKSUM], d->cksum_errors), now);
	window_add(&dh->window[ILL_SLOW], slow, now);
	for (unsigned k = 0; k < ILLS; k++) {
		const struct pool_threshold *limit = limit_of(cfg, k);

		ill |= (uint32_t)window_has(&dh->window[k], now, limit->count, limit->seconds) << k;
	}
	return ill;
}

/* Could its set do without it, others that lack something counted? */
static bool
can_go(const struct pool *p, const struct vdev_drive *d)
{
	return vdev_lacking(&p->v, d->set_index) - (d->dirty_from != 0) <
	       raidz_tolerates(&p->v.sets[d->set_index].cfg);
}

static void
degrade(struct pool *p, struct vdev_drive *d, unsigned how, const char *what,
    const struct pool_threshold *limit)
{
	if (atomic_load(&d->degraded) != DRIVE_WELL) {
		return;
	}
	log_warn("drive.degraded pool=%s path=%s what=\"%s\"", p->name, d->path, what);
	events_add(p->v.events, POOL_EVENT_WARNING, "drive.degraded",
	    "%s had %u %s within %u s: it is used until another takes its place", d->path,
	    limit->count, what, limit->seconds);
	atomic_store(&d->degraded_s, rt_wall_ns() / NSEC_PER_SEC);
	atomic_store(&d->degraded, how);
}

/* True: membership has changed. */
static bool
drive_judge(
    struct pool *p, struct vdev_drive *d, uint32_t ill, const struct pool_health_config *cfg)
{
	if ((ill & (1u << ILL_IO)) != 0 && d->state == DRIVE_STATE_ONLINE && can_go(p, d)) {
		log_warn("drive.faulted pool=%s path=%s reason=threshold", p->name, d->path);
		events_add(p->v.events, POOL_EVENT_ERROR, "drive.faulted",
		    "%s had %u I/O errors within %u s: it isn't used any more", d->path,
		    cfg->io.count, cfg->io.seconds);
		vdev_drive_out(&p->v, d, DRIVE_STATE_FAULTED, p->v.committed_txg + 1);
		return true;
	}
	if ((ill & (1u << ILL_CKSUM)) != 0) {
		degrade(p, d, DRIVE_DEGRADED_CKSUM, "blocks with a wrong checksum", &cfg->cksum);
	} else if ((ill & (1u << ILL_SLOW)) != 0) {
		degrade(p, d, DRIVE_DEGRADED_SLOW, "slow answers", &cfg->slow);
	}
	return false;
}

/* ---- slow reads ---- */

struct sibling {
	struct vdev_drive *d;
	uint64_t mean_ns;
	bool counts; /* it was read often enough */
};

static bool
is_read(const struct vdev_drive *d)
{
	return d != NULL && d->kb != NULL && d->state == DRIVE_STATE_ONLINE && d->dirty_from == 0 &&
	       !kb_is_gone(d->kb);
}

/* What the other siblings take: the middle one. 0: none was read. */
static uint64_t
others_median(const struct sibling *s, uint32_t count, uint32_t without)
{
	uint64_t sorted[RAIDZ_WIDTH_MAX];
	uint32_t n = 0;

	for (uint32_t i = 0; i < count; i++) {
		uint32_t at = n;

		if (i == without || !s[i].counts) {
			continue;
		}
		for (; at > 0 && sorted[at - 1] > s[i].mean_ns; at--) {
			sorted[at] = sorted[at - 1];
		}
		sorted[at] = s[i].mean_ns;
		n++;
	}
	return n > 0 ? sorted[n / 2] : 0;
}

static void
sit_out(
    struct pool *p, struct vdev_drive *d, uint64_t mean_ns, uint64_t others_ns, uint32_t seconds)
{
	atomic_store(&d->read_us, (unsigned)MIN(mean_ns / NSEC_PER_USEC, UINT32_MAX));
	atomic_store(&d->siblings_us, (unsigned)MIN(others_ns / NSEC_PER_USEC, UINT32_MAX));
	atomic_fetch_add(&d->sit_outs, 1);
	atomic_store(&d->sit_until_ns, rt_now_ns() + seconds * NSEC_PER_SEC);
	log_notice("drive.slow pool=%s path=%s read_us=%u siblings_us=%u", p->name, d->path,
	    d->read_us, d->siblings_us);
	events_add(p->v.events, POOL_EVENT_WARNING, "drive.slow",
	    "%s answers reads in %u us, its siblings in %u us: reads do without it for %u s",
	    d->path, d->read_us, d->siblings_us, seconds);
}

/* The mean of each since the comparison began; false: it is too early, nobody was read enough. */
static bool
siblings_measure(struct pool *p, struct sibling *s, uint32_t count)
{
	uint32_t enough = 0;

	for (uint32_t i = 0; i < count; i++) {
		struct drive_health *dh = health_of(p, s[i].d);
		struct kb_counters c;
		uint64_t reads;

		kb_get_counters(s[i].d->kb, &c);
		reads = c.reads - dh->base_reads;
		s[i].counts = reads >= READS_MIN;
		s[i].mean_ns = reads > 0 ? (c.read_ns - dh->base_read_ns) / reads : 0;
		enough += s[i].counts;
	}
	return enough >= 2;
}

static void
siblings_rebase(struct pool *p, const struct sibling *s, uint32_t count)
{
	for (uint32_t i = 0; i < count; i++) {
		struct drive_health *dh = health_of(p, s[i].d);
		struct kb_counters c;

		kb_get_counters(s[i].d->kb, &c);
		dh->base_reads = c.reads;
		dh->base_read_ns = c.read_ns;
		dh->base_at_ns = rt_now_ns();
	}
}

static void
siblings_compare(
    struct pool *p, const struct sibling *s, uint32_t count, uint32_t spare, uint32_t seconds)
{
	for (uint32_t i = 0; i < count; i++) {
		struct drive_health *dh = health_of(p, s[i].d);
		uint64_t others = others_median(s, count, i);

		if (!s[i].counts || others == 0) {
			continue;
		}
		if (s[i].mean_ns < others * SLOW_RATIO || s[i].mean_ns < others + SLOW_MORE_NS) {
			dh->strikes = 0;
		} else if (++dh->strikes >= STRIKES && spare > 0) {
			dh->strikes = STRIKES - 1; /* when it comes back it has to prove itself */
			sit_out(p, s[i].d, s[i].mean_ns, others, seconds);
			spare--;
		}
	}
}

/* Whose time is over is read again. Returns the columns that go on sitting out. */
static uint32_t
sitting(struct pool *p, uint32_t set_index, bool end_all)
{
	uint32_t mask = 0;

	for (uint32_t c = 0; c < p->v.sets[set_index].cfg.width; c++) {
		struct vdev_drive *d = vdev_column(&p->v, set_index, c);
		uint64_t until = d != NULL ? atomic_load(&d->sit_until_ns) : 0;

		if (until == 0) {
			continue;
		}
		if ((rt_now_ns() < until || DELIBERATE_BUG("health-sits-for-ever")) && !end_all &&
		    is_read(d)) {
			mask |= 1u << c;
			continue;
		}
		atomic_store(&d->sit_until_ns, 0);
		health_of(p, d)->base_at_ns = 0; /* old reads tell nothing */
		if (is_read(d)) {
			events_add(p->v.events, POOL_EVENT_INFO, "drive.read_again",
			    "%s is read again, to see whether it is still slow", d->path);
		}
	}
	return mask;
}

static void
reads_look(struct pool *p, uint32_t set_index, const struct pool_health_config *cfg)
{
	struct vdev_set *set = &p->v.sets[set_index];
	uint32_t tolerates = raidz_tolerates(&set->cfg), lacking = vdev_lacking(&p->v, set_index);
	uint32_t sit = sitting(p, set_index, cfg->sit_out_s == 0 || lacking >= tolerates);
	uint32_t gone = lacking + (uint32_t)__builtin_popcount(sit);
	struct sibling s[RAIDZ_WIDTH_MAX];
	uint32_t count = 0;
	bool old = false;

	for (uint32_t c = 0; c < set->cfg.width; c++) {
		struct vdev_drive *d = vdev_column(&p->v, set_index, c);

		if (is_read(d) && ((sit >> c) & 1) == 0) {
			old |= rt_now_ns() - health_of(p, d)->base_at_ns > COMPARE_AGE_NS;
			s[count++] = (struct sibling){.d = d};
		}
	}
	if (siblings_measure(p, s, count) && cfg->sit_out_s != 0 && !old) {
		siblings_compare(
		    p, s, count, tolerates > gone ? tolerates - gone : 0, cfg->sit_out_s);
		siblings_rebase(p, s, count);
	} else if (old) {
		siblings_rebase(p, s, count);
	}
	raidz_group_sit_out(set->rg, sitting(p, set_index, false));
}

/* ---- the look ---- */

/* Several of a set that are slow at once, or nearly, have a slow host: nobody is to blame. */
static bool
others_slow(struct pool *p, const struct vdev_drive *d, const struct pool_threshold *limit)
{
	for (uint32_t c = 0; c < p->v.sets[d->set_index].cfg.width; c++) {
		struct vdev_drive *o = vdev_column(&p->v, d->set_index, c);

		if (o != NULL && o != d && o->kb != NULL &&
		    window_has(&health_of(p, o)->window[ILL_SLOW], rt_now_ns(),
			DIV_UP(limit->count, 2u), limit->seconds)) {
			return true;
		}
	}
	return false;
}

static bool
all_look(struct pool *p, const struct pool_health_config *cfg, uint8_t *ill)
{
	bool changed = false;

	for (uint32_t i = 0; i < p->v.drive_count; i++) {
		struct vdev_drive *d = &p->v.drives[i];

		if ((d->role == DRIVE_ROLE_DATA || d->role == DRIVE_ROLE_LOG) && d->kb != NULL &&
		    !kb_is_gone(d->kb)) {
			ill[i] = (uint8_t)drive_look(p, d, cfg);
		}
	}
	for (uint32_t i = 0; i < p->v.drive_count; i++) {
		struct vdev_drive *d = &p->v.drives[i];

		if (ill[i] == 0 || d->role != DRIVE_ROLE_DATA || d->twin) {
			continue;
		}
		if ((ill[i] & (1u << ILL_SLOW)) != 0 && others_slow(p, d, &cfg->slow)) {
			ill[i] &= (uint8_t) ~(1u << ILL_SLOW);
		}
		changed |= drive_judge(p, d, ill[i], cfg);
	}
	for (uint32_t s = 0; s < p->v.set_count; s++) {
		reads_look(p, s, cfg);
	}
	return changed;
}

void
health_look(struct pool *p)
{
	uint8_t *ill = mem_zalloc(VDEV_DRIVES_MAX);
	struct pool_health_config cfg;

	if (ill == NULL) {
		return; /* the next look is a second away */
	}
	spin_lock(&p->health->lock);
	cfg = p->health->cfg;
	spin_unlock(&p->health->lock);
	mutex_lock(&p->config_lock);
	if (!p->suspended && all_look(p, &cfg, ill) && log_membership_write(p) != 0) {
		atomic_store(&p->config_dirty, true);
	}
	mutex_unlock(&p->config_lock);
	mem_free(ill);
}
