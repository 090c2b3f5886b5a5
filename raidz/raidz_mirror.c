/*
 * raidz_mirror.c - blocks of a mirror: every column is the whole block, so a column is right or it
 * is not, and the first that verify approves is the answer. ONLINE copies are asked first,
 * beginning with one that depends on the address, so that reads spread; STALE ones last.
 *
 * The invariants of raidz_repair.c hold here too.
 */
#include "raidz/raidz_int.h"

#define COPY_PASSES 3  /* those that sit out for being slow, and then the STALE ones, come last */
#define SPREAD_SHIFT 8 /* neighbouring MiBs lie on different drives */

/* The n-th copy to ask, or none (0) after the last; a column mask. */
static uint32_t
copy_at(const struct raidz_job *j, uint32_t n)
{
	uint32_t width = j->map.col_count;
	uint32_t start = (uint32_t)((j->map.col[0].drive_sector >> SPREAD_SHIFT) % width);
	uint32_t bit = 1u << ((start + n) % width);
	const uint32_t passes[COPY_PASSES] = {j->online & ~j->sit_out, j->sit_out, j->stale};
	return bit & passes[n / width] & ~j->lost;
}

/* A scrub keeps the block and the copy that it compares with in its side memory. */
struct mirror {
	struct raidz_job *j;
	struct raidz_space space;
	struct raidz_place spare; /* for comparing and reading back */
};

/* Gives the data a buffer that no late drive can write to. */
static int
data_prepare(struct mirror *m)
{
	struct raidz_job *j = m->j;
	uint32_t lens[2] = {j->len_bytes, j->len_bytes};
	int err;
	if (!j->scrub) {
		err = raidz_job_exchange(j);
	} else if (m->spare.buf == NULL || j->poisoned) {
		raidz_space_put(&m->space);
		m->spare.buf = NULL;
		err = raidz_space_get(&m->space, lens, 2);
		*j->buf = m->space.at[0].buf;
		m->spare = m->space.at[1];
		j->poisoned = false;
	} else {
		err = 0;
	}
	if (err == 0) {
		raidz_job_place_data(j);
	}
	return err;
}

/* Asks copy after copy. out_good: the one that is in *buf now; out_wrong: read, but not the data.
 */
static int
good_copy_find(struct mirror *m, uint32_t *out_good, uint32_t *out_wrong)
{
	struct raidz_job *j = m->j;
	bool tried = false;
	*out_wrong = 0;
	for (uint32_t n = 0; n < COPY_PASSES * j->map.col_count; n++) {
		uint32_t copy = copy_at(j, n);
		if (copy == 0) {
			continue;
		}
		int err = data_prepare(m);
		if (err != 0) {
			return err;
		}
		if (!raidz_job_read(j, copy) || (j->have & copy) == 0) {
			continue;
		}
		tried = true;
		if (raidz_job_verify(j)) {
			*out_good = copy;
			return 0;
		}
		*out_wrong |= copy;
	}
	int err = data_prepare(m); /* what the caller gets back is safe from late drives */
	return err != 0 ? err : tried ? -ERR_CKSUM : -EIO;
}

/* Compares the ONLINE copies that weren't looked at with the good one. Adds to *wrong those that
 * differ. False: a drive was late and may write into the spare memory now. */
static bool
copies_compare(struct mirror *m, uint32_t seen, uint32_t *wrong)
{
	struct raidz_job *j = m->j;
	const uint8_t *good = (*j->buf)->data + j->off_bytes;
	bool usable = true;
	for (uint32_t c = 0; c < j->map.col_count && usable; c++) {
		uint32_t copy = j->online & ~j->lost & ~seen & (1u << c);
		if (copy == 0) {
			continue;
		}
		j->place[c] = m->spare;
		usable = raidz_job_read(j, copy);
		if ((j->have & copy) != 0 && memcmp(good, raidz_job_mem(j, c), j->len_bytes) != 0) {
			*wrong |= copy;
		}
	}
	raidz_job_place_data(j);
	return usable;
}

/* After the good copy was found: compare (scrub), count, rewrite. */
static void
mirror_repair(struct mirror *m, uint32_t good, uint32_t wrong)
{
	struct raidz_job *j = m->j;
	bool rewrite = !j->cols.readonly;
	if (j->scrub) {
		rewrite &= copies_compare(m, good | wrong | j->failed, &wrong);
	}
	uint32_t columns = (wrong | j->failed) & j->online;
	columns |= j->scrub ? j->stale : 0;
	columns &= ~j->lost;
	j->report.cksum_bad |= raidz_job_drives(j, wrong & j->online);
	raidz_job_write_twins(j);
	if (columns == 0 || !rewrite) {
		return;
	}
	if (!j->scrub) {
		/* The data is there; without memory for reading back the repair waits for a scrub.
		 */
		if (raidz_space_get(&m->space, &j->len_bytes, 1) != 0) {
			return;
		}
		m->spare = m->space.at[0];
	}
	raidz_job_rewrite(j, columns, m->spare);
}

int
raidz_mirror_run(struct raidz_job *j, uint32_t attempts)
{
	struct mirror m = {.j = j};
	uint32_t good = 0;
	uint32_t wrong = 0;
	int err;
	do {
		j->have = 0;
		j->failed = 0;
		err = good_copy_find(&m, &good, &wrong);
	} while ((err == -EIO || err == -ERR_CKSUM) && --attempts > 0);
	if (err == 0) {
		mirror_repair(&m, good, wrong);
	}
	raidz_space_put(&m.space);
	return err;
}
