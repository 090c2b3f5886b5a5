/*
 * space_admit.c - may somebody begin to write, and what is left. The reserve is what writers leave
 * free, so that removing, syncing and replay can go on in a full pool.
 *
 * It is the larger of a share of the pool and three times the metadata of the worst txg, since that
 * much may be allocated before the first of three txgs gives back what it replaced. The worst txg
 * is forgotten by and by (space_committed): a large removal raises the reserve while it lasts.
 *
 * What a snapshot has, too, costs something to remove and gives nothing back: 128 bytes for each
 * block, in two copies of deadlists of which 128 pointers fit into a sector, so 1.6 % of a pool
 * full of blocks of one sector. That must fit into what removing may use of the reserve, and what
 * sorting such a list takes when the snapshot is destroyed, as much again, into the rest. Between
 * the two there is room for administrative changes. And a new copy of every block of the object
 * tables and directories, whose old one the snapshot keeps: the tables of all datasets tell how
 * much that may be (space_rewrite_set), and in a pool of small files it is the most.
 *
 * What was freed comes back when two later txgs are committed. busy_txg is the newest one that is
 * worth waiting for; txgs behind it free their predecessor's root and log, and nothing else.
 */
#include "pool/pool_int.h"
#include "pool/space_int.h"

#define OVERHEAD_SHARE 256u
#define OVERHEAD_STEPS 1024u
#define OVERHEAD_STEP_MIN ((uint64_t)256)

static uint64_t
reserve_min(const struct space *s)
{
	return MIN(space_reserve_of(s->total), s->total / 4);
}

/* What removing and administrative changes leave of the reserve. */
static uint64_t
keep_frees(const struct space *s)
{
	return reserve_min(s) / 16 * 7;
}

static uint64_t
keep_admin(const struct space *s)
{
	return reserve_min(s) / 16 * 5;
}

/* What it falls to when nothing happens. */
static uint64_t
reserve_idle(const struct space *s)
{
	return MIN(MAX(reserve_min(s), keep_frees(s) + s->rewrite), s->total / 4);
}

static uint64_t
reserve_sectors(const struct space *s)
{
	return MIN(MAX(reserve_idle(s), 3 * (uint64_t)s->meta_worst), s->total / 4);
}

/* A sector of data each (block_spare), and for directories, deadlists and what is above them three
 * quarters of that. */
void
space_rewrite_set(struct space *s, uint64_t blocks, unsigned copies)
{
	s->rewrite = blocks * copies * space_sectors_for(s->p, SECTOR_BYTES, SECTOR_BYTES) * 7 / 4;
}

void
space_get_info(struct space *s, struct space_info *out)
{
	*out = (struct space_info){
	    .total_sectors = s->total,
	    .used_sectors = s->used,
	    .deferred_sectors = s->deferred,
	    .release_sectors = s->release,
	    .reserve_sectors = reserve_sectors(s),
	    .reserve_min_sectors = reserve_min(s),
	    .overhead_sectors = s->overhead,
	};
}

static uint64_t
keep_sectors(const struct space *s, const struct space_ask *ask)
{
	switch (ask->level) {
	case SPACE_GROWS:
		return reserve_sectors(s) + ask->blocked;
	case SPACE_FREES:
		return keep_frees(s);
	case SPACE_ADMIN:
		return keep_admin(s);
	case SPACE_ALL:
		break;
	}
	return 0;
}

int
space_reserve(struct space *s, const struct space_ask *ask)
{
	uint64_t keep = keep_sectors(s, ask);
	uint64_t reserved = atomic_fetch_add(&s->reserved, ask->sectors) + ask->sectors;

	if (s->used + reserved + keep > s->total) {
		atomic_fetch_sub(&s->reserved, ask->sectors);
		return -ENOSPC;
	}
	return 0;
}

void
space_reserve_anyway(struct space *s, uint64_t sectors)
{
	atomic_fetch_add(&s->reserved, sectors);
}

void
space_unreserve(struct space *s, uint64_t sectors)
{
	uint64_t before = atomic_fetch_sub(&s->reserved, sectors);

	ASSERT(before >= sectors);
}

bool
space_is_only_promised(const struct space *s, const struct space_ask *ask)
{
	return s->used + ask->sectors + keep_sectors(s, ask) <= s->total;
}

bool
space_is_coming(const struct space *s, const struct space_ask *ask, uint64_t freeing_sectors)
{
	uint64_t back = s->release + freeing_sectors;
	uint64_t keep =
	    ask->level == SPACE_GROWS ? reserve_idle(s) + ask->blocked : keep_sectors(s, ask);

	return (back > 0 || space_is_settling(s)) &&
	       s->used + ask->sectors + keep <= s->total + back;
}

void
space_note_placed(struct space *s, uint64_t txg, uint64_t plain, uint64_t sectors)
{
	atomic_fetch_add(&s->placed_plain[txg % SPACE_TXG_SLOTS], plain);
	atomic_fetch_add(&s->placed[txg % SPACE_TXG_SLOTS], sectors);
}

uint64_t
space_in_pieces(const struct space *s, uint64_t sectors)
{
	return sectors * s->gang_percent / 100;
}

void
space_note_busy(struct space *s, uint64_t txg)
{
	s->busy_txg = txg;
}

/* Only while a reader doesn't hold things up: then empty txgs would use up space that none gives
 * back. */
bool
space_is_settling(const struct space *s)
{
	bool deferred = s->release > 0 && s->committed_txg < s->busy_txg + 2;
	bool reserve_falls =
	    3 * s->meta_worst > reserve_idle(s) && s->meta_worst > 2 * s->meta_last;

	return !s->held && (deferred || reserve_falls) && !DELIBERATE_BUG("pool-never-settles");
}

bool
space_is_held(const struct space *s)
{
	return s->held;
}

bool
space_is_tight(const struct space *s)
{
	return s->used + reserve_idle(s) > s->total;
}

bool
space_may_force(const struct space *s)
{
	return s->used + reserve_min(s) / 4 <= s->total;
}

static uint64_t
overhead_step(uint64_t total)
{
	return MAX(total / OVERHEAD_STEPS, OVERHEAD_STEP_MIN);
}

/* In a large pool the map log is nothing. In a small one it is most of it, and grows to its limit
 * whatever is written: it counts from the start, or else every pool would become smaller. */
uint64_t
space_overhead_of(const struct vdevs *v, uint32_t first_set, uint64_t total)
{
	uint64_t segments = 0, step = overhead_step(total);

	for (uint32_t i = first_set; i < v->set_count; i++) {
		segments += v->sets[i].segment_count;
	}
	return MAX(MAX(2 * step, total / OVERHEAD_SHARE), maplog_full_sectors(v, segments) + step);
}

/* At least what a pool of large files needs; up at once, down only when it is far too high. */
void
space_overhead_set(struct space *s, uint64_t sectors)
{
	uint64_t step = overhead_step(s->total);
	uint64_t shown = (DIV_UP(sectors, step) + 1) * step;

	shown = MAX(shown, space_overhead_of(&s->p->v, 0, s->total));
	if (sectors > s->overhead || shown + 2 * step <= s->overhead || s->overhead == 0) {
		s->overhead = shown;
	}
}
