/*
 * raidz_group.c - a group's drives and their states; flush and discard.
 *
 * Drives come and go while I/O runs. Each operation takes one look at the columns when it starts
 * (raidz_enter) and works with that to its end (raidz_leave), so it never sees a drive change in
 * the middle. A column is one word, the drive's pointer with the state in its low bits, so that
 * both are read at once.
 *
 * Quiescing. Whoever closes a drive must know that no operation still has it. Operations are
 * counted on their own reactor (fibers don't migrate), in one of two counters, by the epoch they
 * read. A quiescer flips the epoch, so that newcomers use the other counter, and waits for the old
 * one to reach zero; then it does the same once more. Once isn't enough: an operation may have read
 * the epoch before the flip and counted itself after the old counter was seen zero. It then has the
 * new columns already, but it must be seen by the next quiescer, who would look at the other
 * counter first.
 */
#include "raidz/raidz_int.h"

#define COL_STATE_MASK ((uintptr_t)3)
#define QUIESCE_POLL_NS NSEC_PER_MSEC

int
raidz_group_create(const struct raidz_config *cfg, struct raidz_group **out)
{
	if (!raidz_config_valid(cfg)) {
		return -EINVAL;
	}
	struct raidz_group *rg = mem_zalloc(sizeof(*rg));
	if (rg == NULL) {
		return -ENOMEM;
	}
	rg->cfg = *cfg;
	atomic_init(&rg->width, cfg->width);
	atomic_init(&rg->column_bytes, cfg->column_bytes);
	mutex_init(&rg->quiesce, RANK_RAIDZ);
	for (uint32_t c = 0; c < RAIDZ_WIDTH_MAX; c++) {
		atomic_init(&rg->col[c], (uintptr_t)RAIDZ_COL_MISSING);
	}
	*out = rg;
	return 0;
}

void
raidz_group_destroy(struct raidz_group *rg)
{
	for (uint32_t r = 0; rg != NULL && r < RAIDZ_REACTORS_MAX; r++) {
		ASSERT(atomic_load(&rg->inflight[r].count[0]) == 0);
		ASSERT(atomic_load(&rg->inflight[r].count[1]) == 0);
	}
	mem_free(rg);
}

struct raidz_config
raidz_cfg_now(const struct raidz_group *rg)
{
	struct raidz_config cfg = rg->cfg;

	cfg.width = atomic_load(&rg->width);
	cfg.column_bytes = atomic_load(&rg->column_bytes);
	return cfg;
}

void
raidz_group_set_column(
    struct raidz_group *rg, uint32_t col, struct kb_drive *drive, enum raidz_col_state state)
{
	ASSERT(col < RAIDZ_WIDTH_MAX);
	ASSERT(drive != NULL || state == RAIDZ_COL_MISSING);
	ASSERT(((uintptr_t)drive & COL_STATE_MASK) == 0);
	atomic_store(&rg->col[col], (uintptr_t)drive | (uintptr_t)state);
}

static struct kb_drive *
column_get(const struct raidz_group *rg, uint32_t col, enum raidz_col_state *out_state)
{
	uintptr_t word = atomic_load(&rg->col[col]);
	*out_state = (enum raidz_col_state)(word & COL_STATE_MASK);
	return (struct kb_drive *)(word & ~COL_STATE_MASK);
}

struct kb_drive *
raidz_group_column(const struct raidz_group *rg, uint32_t col, enum raidz_col_state *out_state)
{
	ASSERT(col < RAIDZ_WIDTH_MAX);
	return column_get(rg, col, out_state);
}

void
raidz_group_set_twin(struct raidz_group *rg, uint32_t col, struct kb_drive *twin)
{
	ASSERT(col < RAIDZ_WIDTH_MAX);
	atomic_store(&rg->twin[col], twin);
}

void
raidz_group_set_width(struct raidz_group *rg, uint32_t width)
{
	ASSERT(rg->cfg.kind == RAIDZ_KIND_MIRROR);
	ASSERT(width >= 1 && width <= RAIDZ_WIDTH_MAX);
	atomic_store(&rg->width, width);
}

void
raidz_group_grow(struct raidz_group *rg, uint64_t column_bytes)
{
	ASSERT(column_bytes % SECTOR_BYTES == 0);
	ASSERT(column_bytes >= atomic_load(&rg->column_bytes));
	atomic_store(&rg->column_bytes, column_bytes);
}

const struct raidz_config *
raidz_group_config(const struct raidz_group *rg)
{
	return &rg->cfg;
}

void
raidz_group_set_readonly(struct raidz_group *rg, bool readonly)
{
	atomic_store(&rg->readonly, readonly);
}

void
raidz_group_sit_out(struct raidz_group *rg, uint32_t drives)
{
	atomic_store(&rg->sit_out, drives);
}

/* Those that sit out, if as many can be spared beside those that are missing or stale. */
static uint32_t
sitting_out(struct raidz_group *rg, const struct raidz_cols *cols)
{
	uint32_t sit = atomic_load_explicit(&rg->sit_out, memory_order_relaxed) & cols->online;
	uint32_t lacking = cols->cfg.width - (uint32_t)__builtin_popcount(cols->online);

	return lacking + (uint32_t)__builtin_popcount(sit) <= raidz_tolerates(&cols->cfg) ? sit : 0;
}

void
raidz_enter(struct raidz_group *rg, struct raidz_cols *out)
{
	unsigned self = rt_reactor_self();
	ASSERT(self < RAIDZ_REACTORS_MAX);
	*out = (struct raidz_cols){.epoch = atomic_load(&rg->epoch) & 1};
	atomic_fetch_add(&rg->inflight[self].count[out->epoch], 1);
	out->cfg = raidz_cfg_now(rg);
	out->readonly = atomic_load(&rg->readonly);
	for (uint32_t c = 0; c < out->cfg.width; c++) {
		enum raidz_col_state state;
		struct kb_drive *d = column_get(rg, c, &state);
		out->twin[c] = atomic_load(&rg->twin[c]);
		out->twins |= out->twin[c] != NULL ? 1u << c : 0;
		if (state == RAIDZ_COL_MISSING) {
			continue;
		}
		out->drive[c] = d;
		if (state == RAIDZ_COL_ONLINE && kb_late_writes(d) == 0) {
			out->online |= 1u << c;
		} else {
			out->stale |= 1u << c;
		}
	}
	out->sit_out = sitting_out(rg, out);
}

void
raidz_leave(struct raidz_group *rg, const struct raidz_cols *cols)
{
	atomic_fetch_sub(&rg->inflight[rt_reactor_self()].count[cols->epoch], 1);
}

static bool
epoch_idle(const struct raidz_group *rg, uint32_t epoch)
{
	for (uint32_t r = 0; r < RAIDZ_REACTORS_MAX; r++) {
		if (atomic_load(&rg->inflight[r].count[epoch]) != 0) {
			return false;
		}
	}
	return true;
}

void
raidz_group_quiesce(struct raidz_group *rg)
{
	mutex_lock(&rg->quiesce);
	for (uint32_t flip = 0; flip < 2; flip++) {
		uint32_t old = atomic_fetch_add(&rg->epoch, 1) & 1;
		/* Ends because every I/O has a deadline. */
		while (!epoch_idle(rg, old)) {
			fiber_sleep(QUIESCE_POLL_NS);
		}
	}
	mutex_unlock(&rg->quiesce);
}

/* All drives given, at once; the mask of those that failed. */
static uint32_t
drives_flush(struct kb_drive *const *drives, uint32_t width)
{
	struct kb_io io[RAIDZ_WIDTH_MAX];
	struct kb_group group;
	uint32_t failed = 0;

	kb_group_init(&group);
	for (uint32_t c = 0; c < width; c++) {
		if (drives[c] != NULL) {
			io[c] = (struct kb_io){.op = KB_FLUSH};
			kb_submit(drives[c], &io[c], &group, 0);
		}
	}
	kb_group_wait(&group);
	for (uint32_t c = 0; c < width; c++) {
		if (drives[c] != NULL && io[c].status != 0) {
			failed |= 1u << c;
		}
	}
	return failed;
}

int
raidz_flush(struct raidz_group *rg, uint32_t *out_failed)
{
	struct raidz_cols cols;
	uint32_t failed, missing = 0;

	raidz_enter(rg, &cols);
	failed = drives_flush(cols.drive, cols.cfg.width);
	*out_failed = failed;
	if (cols.twins != 0) {
		*out_failed |= drives_flush(cols.twin, cols.cfg.width) << RAIDZ_TWIN;
	}
	raidz_leave(rg, &cols);
	for (uint32_t c = 0; c < cols.cfg.width; c++) {
		missing += cols.drive[c] == NULL;
	}
	uint32_t lost = missing + (uint32_t)__builtin_popcount(failed);
	return lost <= raidz_tolerates(&cols.cfg) ? 0 : -EIO;
}

uint32_t
raidz_discard(
    struct raidz_group *rg, uint64_t sector, uint64_t count, uint32_t drives, uint32_t *out_late)
{
	struct raidz_config cfg = raidz_cfg_now(rg);
	uint64_t capacity = raidz_capacity_sectors(&cfg);
	uint64_t per_row = cfg.kind == RAIDZ_KIND_MIRROR ? 1 : cfg.width;
	uint32_t done = 0;

	*out_late = 0;
	if (sector > capacity || count > capacity - sector) {
		return 0;
	}
	uint64_t first = DIV_UP(sector, per_row);
	uint64_t end = (sector + count) / per_row;
	struct raidz_cols cols;
	struct kb_io io[RAIDZ_WIDTH_MAX];
	struct kb_group group;

	raidz_enter(rg, &cols);
	kb_group_init(&group);
	if (first >= end || cols.readonly) {
		drives = 0;
	}
	for (uint32_t c = 0; c < cols.cfg.width; c++) {
		if ((drives >> c & 1) == 0 || cols.drive[c] == NULL ||
		    !kb_discards(cols.drive[c])) {
			drives &= ~(1u << c);
			continue;
		}
		io[c] = (struct kb_io){.op = KB_DISCARD,
		    .off_bytes = rg->cfg.base_bytes + (first << SECTOR_SHIFT),
		    .len_bytes = (end - first) << SECTOR_SHIFT};
		kb_submit(cols.drive[c], &io[c], &group, rt_now_ns() + RAIDZ_DISCARD_NS);
	}
	kb_group_wait(&group);
	for (uint32_t c = 0; c < cols.cfg.width; c++) {
		if ((drives >> c & 1) != 0) {
			done |= io[c].status == 0 ? 1u << c : 0;
			*out_late |= io[c].status == -ETIMEDOUT ? 1u << c : 0;
		}
	}
	raidz_leave(rg, &cols);
	return done;
}
