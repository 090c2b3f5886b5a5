/*
 * raidz_mirror.c - blocks of a mirror: every column is the whole block, so a column is right or it
 * is not, and the first that verify approves is the answer. ONLINE copies are asked first,
 * beginning with one that depends on the address, so that reads spread; STALE ones last.
 *
 * The invariants of raidz_repair.c hold here too.
 */
#include "raidz/raidz_int.h"

#define SPREAD_SHIFT 8 /* neighbouring MiBs lie on different drives */

/* The n-th copy to ask, or none (0) after the last; a column mask. */
static uint32_t
copy_at(const struct raidz_job *j, uint32_t n)
{
	uint32_t width = j->map.col_count;
	uint32_t start = (uint32_t)((j->map.col[0].drive_sector >> SPREAD_SHIFT) % width);
	bool second_pass = n >= width;
	uint32_t bit = 1u << ((start + n) % width);
	return bit & (second_pass ? j->stale : j->online) & ~j->lost;
}

/* Gives the job's data a buffer that no late drive can write to. */
static int
data_exchange(struct raidz_job *j)
{
	uint32_t len = raidz_job_fresh_len(j);
	struct iobuf *fresh;
	int err = raidz_bufs_get(j, &len, 1, &fresh);
	if (err == 0) {
		raidz_job_exchange(j, fresh);
	}
	return err;
}

/* Asks copy after copy. out_good: the one that is in *buf now; out_wrong: read, but not the data.
 */
static int
good_copy_find(struct raidz_job *j, uint32_t *out_good, uint32_t *out_wrong)
{
	bool tried = false;
	*out_wrong = 0;
	for (uint32_t n = 0; n < 2 * j->map.col_count; n++) {
		uint32_t copy = copy_at(j, n);
		if (copy == 0) {
			continue;
		}
		int err = data_exchange(j);
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
	int err = data_exchange(j); /* what the caller gets back is safe from late drives */
	return err != 0 ? err : tried ? -ERR_CKSUM : -EIO;
}

/* Compares all ONLINE copies that weren't looked at with the good one. Returns those that differ.
 */
static uint32_t
copies_compare(struct raidz_job *j, uint32_t seen, struct raidz_place spare)
{
	uint32_t wrong = 0;
	const uint8_t *good = (*j->buf)->data + j->off_bytes;
	for (uint32_t c = 0; c < j->map.col_count; c++) {
		uint32_t copy = j->online & ~j->lost & ~seen & (1u << c);
		if (copy == 0) {
			continue;
		}
		j->place[c] = spare;
		bool usable = raidz_job_read(j, copy);
		if ((j->have & copy) != 0 && memcmp(good, raidz_job_mem(j, c), j->len_bytes) != 0) {
			wrong |= copy;
		}
		if (!usable) {
			break; /* a late drive may write into spare */
		}
	}
	raidz_job_place_data(j);
	return wrong;
}

/* After the good copy was found: compare (scrub), count, rewrite. */
static int
mirror_repair(struct raidz_job *j, uint32_t good, uint32_t wrong)
{
	bool writable = !j->cols.readonly;
	if (!j->scrub && (wrong | j->failed) == 0) {
		return 0;
	}
	struct iobuf *side[2]; /* for comparing, for reading back */
	uint32_t lens[2] = {j->scrub ? j->len_bytes : 0, j->len_bytes};
	int err = raidz_bufs_get(j, lens, 2, side);
	if (err != 0) {
		return j->scrub ? err
				: 0; /* a read has its data; the repair can wait for a scrub */
	}
	if (j->scrub) {
		struct raidz_place spare = {.buf = side[0]};
		wrong |= copies_compare(j, good | wrong | j->failed, spare);
	}
	j->report.cksum_bad |= raidz_job_drives(j, wrong & j->online);
	uint32_t rewrite = (wrong | j->failed) & j->online;
	rewrite |= j->scrub ? j->stale : 0;
	if (writable) {
		raidz_job_rewrite(j, rewrite & ~j->lost, (struct raidz_place){.buf = side[1]});
	}
	raidz_bufs_put(side, 2);
	return 0;
}

int
raidz_mirror_run(struct raidz_job *j, uint32_t attempts)
{
	uint32_t good = 0;
	uint32_t wrong = 0;
	int err;
	do {
		j->have = 0;
		j->failed = 0;
		err = good_copy_find(j, &good, &wrong);
	} while ((err == -EIO || err == -ERR_CKSUM) && --attempts > 0);
	return err != 0 ? err : mirror_repair(j, good, wrong);
}
