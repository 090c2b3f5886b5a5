/*
 * raidz_repair.c - get a parity block back from what the drives still give, and repair what is
 * wrong.
 *
 * A round starts with empty hands and reads in stages, each only if the ones before did not
 * suffice: 0. the data columns that are ONLINE and don't sit out for being slow, and one parity
 * column for each that isn't (a scrub: all ONLINE);
 *   1. all ONLINE columns; up to here one that sits out, being slow, counts as if it couldn't be
 * read;
 *   2. the STALE ones too, as if they were good: verify will tell.
 * After each stage it tries what the columns at hand can mean, by number of data columns taken as
 * bad: first only those that could not be read, then any one more, any two more, up to the number
 * of parity columns at hand. For each such set every choice of as many parity columns is tried,
 * because a parity column may lie as well. These are all different ways to read the block: with k
 * data and p parity columns the sum over e of C(k,e)*C(p,e), 560 at the widest (k 13, p 3) and 16
 * on a 15+1 set.
 *
 * Invariants
 * - A candidate is judged in place, in the buffer the caller gets; before, the columns to be
 * replaced are saved, and when verify says no they are put back. So *buf is what verify approved,
 * or what the drives gave, never a mixture.
 * - Nothing is written before verify has approved the whole block. What is written then is that
 * memory itself, or parity made from it. It counts as rewritten when it reads back the same.
 * - A drive that missed a deadline or has gone is not asked again in this job, and not rewritten.
 *
 * A round that ends without success is repeated once when the job allows it: bits may flip on the
 * way from the drive as well as on it.
 */
#include "raidz/raidz_int.h"

struct round {
	struct raidz_job *j;
	struct raidz_space space;
	struct raidz_place *parity; /* what the drives gave; [map.parity], in space */
	struct raidz_place *saved;  /* replaced columns, then the right parity; likewise */
	uint32_t replaced;          /* data columns that the accepted candidate replaced */
	bool tried;                 /* there was at least one candidate */
};

static uint32_t
bits_in(uint32_t mask)
{
	return (uint32_t)__builtin_popcount(mask);
}

static uint8_t *
saved_mem(const struct round *r, uint32_t i)
{
	return r->saved[i].buf->data + r->saved[i].off_bytes;
}

static size_t
column_bytes(const struct raidz_job *j, uint32_t c)
{
	return (size_t)j->map.col[c].rows * SECTOR_BYTES;
}

/* Copies the columns between their places and the saved slots, in ascending order. */
static void
columns_copy(const struct round *r, uint32_t columns, bool save)
{
	uint32_t slot = 0;
	for (uint32_t c = 0; c < r->j->map.col_count; c++) {
		if ((columns & (1u << c)) == 0) {
			continue;
		}
		uint8_t *mem = raidz_job_mem(r->j, c);
		uint8_t *saved = saved_mem(r, slot++);
		memcpy(save ? saved : mem, save ? mem : saved, column_bytes(r->j, c));
	}
}

static bool
candidate_try(struct round *r, uint32_t replace, uint32_t use)
{
	struct raidz_job *j = r->j;
	uint8_t *mem[RAIDZ_WIDTH_MAX];
	uint32_t known = replace & j->have;
	for (uint32_t c = 0; c < j->map.col_count; c++) {
		mem[c] = raidz_job_mem(j, c);
	}
	fiber_maybe_yield();
	r->tried = true;
	columns_copy(r, known, true);
	stripe_rebuild(&j->map, mem, replace, use);
	if (raidz_job_verify(j)) {
		r->replaced = replace;
		return true;
	}
	columns_copy(r, known, false);
	return false;
}

/* Every choice of parity columns for one set of data columns. */
static bool
candidates_of_set(struct round *r, uint32_t replace)
{
	struct raidz_job *j = r->j;
	uint32_t parity = j->have & raidz_map_parity_mask(&j->map);
	uint32_t use = 0;
	do {
		if (bits_in(use) == bits_in(replace) && j->tries < RAIDZ_TRIES_MAX &&
		    candidate_try(r, replace, use)) {
			return true;
		}
		use = (use - parity) & parity; /* the next subset of parity */
	} while (use != 0);
	return false;
}

/* Every candidate, by the number of columns it takes as bad. */
static bool
candidates_try(struct round *r)
{
	struct raidz_job *j = r->j;
	uint32_t data = raidz_map_data_mask(&j->map);
	uint32_t unknown = data & ~j->have;
	uint32_t known = data & j->have;
	uint32_t most = bits_in(j->have & raidz_map_parity_mask(&j->map));
	for (uint32_t n = bits_in(unknown); n <= most; n++) {
		uint32_t more = 0;
		do {
			if (bits_in(unknown | more) == n && candidates_of_set(r, unknown | more)) {
				return true;
			}
			more = (more - known) & known; /* the next subset of known */
		} while (more != 0);
	}
	return false;
}

/* Which ONLINE columns did not give what the approved data says; the places of the parity columns
 * become those of the right parity. */
static uint32_t
wrong_columns(struct round *r)
{
	struct raidz_job *j = r->j;
	uint32_t wrong = 0;
	uint32_t slot = 0;
	for (uint32_t c = j->map.parity; c < j->map.col_count; c++) {
		if ((r->replaced & j->have & (1u << c)) != 0 &&
		    memcmp(saved_mem(r, slot++), raidz_job_mem(j, c), column_bytes(j, c)) != 0) {
			wrong |= 1u << c;
		}
	}
	uint8_t *mem[RAIDZ_WIDTH_MAX];
	for (uint32_t c = 0; c < j->map.col_count; c++) {
		mem[c] = c < j->map.parity ? saved_mem(r, c) : raidz_job_mem(j, c);
	}
	stripe_gen(&j->map, mem);
	for (uint32_t c = 0; c < j->map.parity; c++) {
		if ((j->have & (1u << c)) != 0 &&
		    memcmp(mem[c], raidz_job_mem(j, c), column_bytes(j, c)) != 0) {
			wrong |= 1u << c;
		}
		j->place[c] = r->saved[c];
	}
	return wrong & j->online;
}

void
raidz_job_rewrite(struct raidz_job *j, uint32_t columns, struct raidz_place spare)
{
	struct raidz_result w;
	if (columns == 0) {
		return;
	}
	raidz_job_io(j, KB_WRITE, columns, &w);
	uint32_t good = w.ok & j->stale;
	bool spare_usable = true;
	for (uint32_t c = 0; c < j->map.col_count && spare_usable; c++) {
		uint32_t bit = w.ok & ~j->stale & (1u << c);
		if (bit == 0) {
			continue;
		}
		struct raidz_result back;
		struct raidz_place source = j->place[c];
		const uint8_t *want = raidz_job_mem(j, c);
		j->place[c] = spare;
		raidz_job_io(j, KB_READ, bit, &back);
		if (back.ok != 0 && memcmp(want, raidz_job_mem(j, c), column_bytes(j, c)) == 0) {
			good |= bit;
		}
		spare_usable = back.late == 0;
		j->place[c] = source;
	}
	j->report.rewritten |= raidz_job_drives(j, good);
	j->report.unwritten |= raidz_job_drives(j, columns & ~good);
	j->report.late |= raidz_job_drives(j, w.late);
}

static void
round_repair(struct round *r)
{
	struct raidz_job *j = r->j;
	bool damage = (j->failed | r->replaced) != 0;
	bool parity_seen = (j->have & raidz_map_parity_mask(&j->map)) != 0;
	if (!damage && !parity_seen && !j->scrub) {
		return;
	}
	uint32_t wrong = wrong_columns(r);
	j->report.cksum_bad |= raidz_job_drives(j, wrong);
	if (j->cols.readonly) {
		return;
	}
	uint32_t rewrite = (wrong | (j->failed & j->online)) & ~j->lost;
	rewrite |= j->scrub ? j->stale & ~j->lost : 0;
	raidz_job_rewrite(j, rewrite, r->parity[0]);
	raidz_job_write_twins(j);
}

/* The columns of each stage. */
static uint32_t
stage_columns(const struct raidz_job *j, uint32_t stage)
{
	uint32_t online = j->online & ~j->lost;
	uint32_t stale = j->stale & ~j->lost;
	uint32_t data = raidz_map_data_mask(&j->map);
	if (stage == 2) {
		return online | stale;
	}
	if (j->scrub && DELIBERATE_BUG("raidz-sit-out-unscrubbed")) {
		return online & ~j->sit_out;
	}
	if (stage == 1 || j->scrub) {
		return online;
	}
	uint32_t quick = online & ~j->sit_out;
	uint32_t absent = bits_in(data & ~quick);
	uint32_t out = quick & data;
	for (uint32_t c = 0; c < j->map.parity && absent > 0; c++) {
		if ((quick & (1u << c)) != 0) {
			out |= 1u << c;
			absent--;
		}
	}
	return out;
}

/* 0; -EAGAIN a drive was late, start again without it; -EIO; -ERR_CKSUM. */
static int
round_run(struct round *r)
{
	struct raidz_job *j = r->j;
	j->have = 0;
	j->failed = 0;
	for (uint32_t stage = 0; stage < 3; stage++) {
		uint32_t columns = stage_columns(j, stage) & ~(j->have | j->failed);
		if (columns == 0) {
			continue;
		}
		if (!raidz_job_read(j, columns)) {
			return -EAGAIN;
		}
		if (candidates_try(r)) {
			round_repair(r);
			return 0;
		}
	}
	return r->tried ? -ERR_CKSUM : -EIO;
}

static int
round_start(struct raidz_job *j)
{
	struct round r = {.j = j};
	uint32_t p = j->map.parity;
	uint32_t lens[RAIDZ_REGIONS_MAX];
	uint32_t count = 0;
	int err = j->scrub ? 0 : raidz_job_exchange(j);
	if (err != 0) {
		return err;
	}
	if (j->scrub) {
		lens[count++] = j->len_bytes;
	}
	r.parity = r.space.at + count;
	r.saved = r.parity + p;
	for (uint32_t i = 0; i < 2 * p; i++) {
		lens[count++] = j->map.rows * SECTOR_BYTES;
	}
	err = raidz_space_get(&r.space, lens, count);
	if (err != 0) {
		return err;
	}
	if (j->scrub) {
		*j->buf = r.space.at[0].buf;
	}
	raidz_job_place_data(j);
	for (uint32_t c = 0; c < p; c++) {
		j->place[c] = r.parity[c];
	}
	err = round_run(&r);
	raidz_space_put(&r.space);
	return err;
}

int
raidz_parity_run(struct raidz_job *j, uint32_t attempts)
{
	for (;;) {
		int err = round_start(j);
		if (err == -EAGAIN) {
			continue; /* one drive fewer each time */
		}
		if (err == 0 || err == -ENOMEM || --attempts == 0) {
			return err;
		}
	}
}
