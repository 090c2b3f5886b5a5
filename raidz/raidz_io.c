/*
 * raidz_io.c - one block under way: its columns' memory, their I/O, and the side buffers.
 *
 * A drive that misses its deadline on a read may write into the buffer at any later time. Such a
 * buffer must not be what we verify and hand out. So the buffer is given up at once (kb keeps its
 * own reference for as long as the drive may touch it), the drive is lost for this job, and the
 * round starts again with fresh buffers.
 */
#include "raidz/raidz_int.h"

#define MEMORY_WAIT_NS (2 * NSEC_PER_SEC)
#define MEMORY_POLL_NS NSEC_PER_MSEC

static uint32_t
columns_of(const struct raidz_map *m, uint32_t drives)
{
	uint32_t out = 0;
	for (uint32_t c = 0; c < m->col_count; c++) {
		out |= ((drives >> m->col[c].drive) & 1) << c;
	}
	return out;
}

void
raidz_job_init(struct raidz_job *j, struct raidz_group *rg, uint64_t sector, uint32_t len)
{
	*j = (struct raidz_job){.rg = rg, .len_bytes = len};
	raidz_enter(rg, &j->cols);
	for (uint32_t c = 0; c < j->cols.cfg.width; c++) {
		if (j->cols.drive[c] == NULL && j->cols.twin[c] != NULL) {
			/* better than nothing: what is read is verified */
			j->cols.drive[c] = j->cols.twin[c];
			j->cols.twin[c] = NULL;
			j->cols.stand_ins |= 1u << c;
			j->cols.stale |= 1u << c;
		}
	}
	raidz_map_block(&j->cols.cfg, sector, len, &j->map);
	j->online = columns_of(&j->map, j->cols.online);
	j->stale = columns_of(&j->map, j->cols.stale);
	j->sit_out = columns_of(&j->map, j->cols.sit_out);
}

uint32_t
raidz_job_drives(const struct raidz_job *j, uint32_t columns)
{
	uint32_t out = 0;
	for (uint32_t c = 0; c < j->map.col_count; c++) {
		uint32_t drive = j->map.col[c].drive;
		uint32_t bit = ((columns >> c) & 1) << drive;
		out |= (j->cols.stand_ins >> drive & 1) != 0 ? bit << RAIDZ_TWIN : bit;
	}
	return out;
}

uint8_t *
raidz_job_mem(const struct raidz_job *j, uint32_t column)
{
	return j->place[column].buf->data + j->place[column].off_bytes;
}

void
raidz_job_place_data(struct raidz_job *j)
{
	for (uint32_t c = j->map.parity; c < j->map.col_count; c++) {
		j->place[c] = (struct raidz_place){
		    .buf = *j->buf,
		    .off_bytes = j->off_bytes + j->map.col[c].data_off_bytes,
		};
	}
}

void
raidz_job_io(struct raidz_job *j, enum kb_op op, uint32_t mask, struct raidz_result *out)
{
	struct kb_io io[RAIDZ_WIDTH_MAX];
	struct kb_seg seg[RAIDZ_WIDTH_MAX];
	struct kb_group group;
	const struct raidz_map *m = &j->map;

	*out = (struct raidz_result){0};
	kb_group_init(&group);
	for (uint32_t c = 0; c < m->col_count; c++) {
		if ((mask & (1u << c)) == 0) {
			continue;
		}
		seg[c] = (struct kb_seg){.buf = j->place[c].buf,
		    .off_bytes = j->place[c].off_bytes,
		    .len_bytes = m->col[c].rows * SECTOR_BYTES};
		io[c] = (struct kb_io){.op = op,
		    .off_bytes = j->rg->cfg.base_bytes + (m->col[c].drive_sector << SECTOR_SHIFT),
		    .segs = &seg[c],
		    .seg_count = 1};
		kb_submit(j->cols.drive[m->col[c].drive], &io[c], &group, 0);
	}
	kb_group_wait(&group);
	for (uint32_t c = 0; c < m->col_count; c++) {
		uint32_t bit = mask & (1u << c);
		int status = bit != 0 ? io[c].status : 0;
		out->ok |= status == 0 ? bit : 0;
		out->failed |= status != 0 ? bit : 0;
		out->lost |= status == -ETIMEDOUT || status == -ERR_GONE ? bit : 0;
		out->late |= status == -ETIMEDOUT ? bit : 0;
	}
}

void
raidz_job_write_twins(struct raidz_job *j)
{
	struct kb_io io[RAIDZ_WIDTH_MAX];
	struct kb_seg seg[RAIDZ_WIDTH_MAX];
	struct kb_group group;
	const struct raidz_map *m = &j->map;

	if (j->cols.twins == 0 || j->cols.readonly || !j->scrub) {
		return;
	}
	kb_group_init(&group);
	for (uint32_t c = 0; c < m->col_count; c++) {
		struct kb_drive *twin = j->cols.twin[m->col[c].drive];
		if (twin != NULL) {
			seg[c] = (struct kb_seg){.buf = j->place[c].buf,
			    .off_bytes = j->place[c].off_bytes,
			    .len_bytes = m->col[c].rows * SECTOR_BYTES};
			io[c] = (struct kb_io){.op = KB_WRITE,
			    .off_bytes =
				j->cols.cfg.base_bytes + (m->col[c].drive_sector << SECTOR_SHIFT),
			    .segs = &seg[c],
			    .seg_count = 1};
			kb_submit(twin, &io[c], &group, 0);
		}
	}
	kb_group_wait(&group);
	for (uint32_t c = 0; c < m->col_count; c++) {
		uint32_t bit = 1u << RAIDZ_TWIN << m->col[c].drive;
		if (j->cols.twin[m->col[c].drive] == NULL) {
			continue;
		}
		j->report.rewritten |= io[c].status == 0 ? bit : 0;
		j->report.unwritten |= io[c].status != 0 ? bit : 0;
		j->report.late |= io[c].status == -ETIMEDOUT ? bit : 0;
	}
}

bool
raidz_job_read(struct raidz_job *j, uint32_t mask)
{
	struct raidz_result r;
	raidz_job_io(j, KB_READ, mask, &r);
	j->have = (j->have & ~mask) | r.ok;
	j->failed = (j->failed & ~mask) | r.failed;
	j->lost |= r.lost;
	j->report.io_error |= raidz_job_drives(j, r.failed);
	if (r.late != 0) {
		j->poisoned = true;
	}
	return r.late == 0;
}

bool
raidz_job_verify(struct raidz_job *j)
{
	j->tries++;
	return j->verify(j->verify_arg, (*j->buf)->data + j->off_bytes, j->len_bytes);
}

void
raidz_space_put(struct raidz_space *s)
{
	for (uint32_t i = 0; i < RAIDZ_REGIONS_MAX; i++) {
		iobuf_unref(s->buf[i]);
	}
	*s = (struct raidz_space){0};
}

/* A buffer for each region; waits for the first only. */
static int
space_try_get(struct raidz_space *s, const uint32_t *lens, uint32_t count)
{
	for (uint32_t i = 0; i < count; i++) {
		int err = i == 0 ? iobuf_alloc(lens[i], ARENA_REPAIR, &s->buf[i])
				 : iobuf_try_alloc(lens[i], ARENA_REPAIR, &s->buf[i]);
		if (err != 0) {
			s->buf[i] = NULL;
			raidz_space_put(s);
			return err;
		}
		s->at[i] = (struct raidz_place){.buf = s->buf[i]};
	}
	return 0;
}

int
raidz_space_get(struct raidz_space *s, const uint32_t *lens, uint32_t count)
{
	uint64_t deadline = rt_now_ns() + MEMORY_WAIT_NS;
	uint32_t sum = 0;
	*s = (struct raidz_space){0};
	ASSERT(count <= RAIDZ_REGIONS_MAX);
	for (uint32_t i = 0; i < count; i++) {
		s->at[i].off_bytes = sum;
		sum += lens[i];
	}
	if (sum <= IOBUF_BYTES_MAX) {
		int err = iobuf_alloc(sum, ARENA_REPAIR, &s->buf[0]);
		for (uint32_t i = 0; i < count && err == 0; i++) {
			s->at[i].buf = s->buf[0];
		}
		return err;
	}
	for (;;) {
		int err = space_try_get(s, lens, count);
		if (err != -ENOMEM || rt_now_ns() >= deadline) {
			return err;
		}
		fiber_sleep(MEMORY_POLL_NS);
	}
}

int
raidz_job_exchange(struct raidz_job *j)
{
	uint64_t deadline = rt_now_ns() + MEMORY_WAIT_NS;
	struct iobuf *old = *j->buf;
	struct iobuf *fresh;
	while (j->poisoned) {
		int err = iobuf_try_alloc(old->cap_bytes, (enum arena_use)old->use, &fresh);
		if (err == 0) {
			*j->buf = fresh;
			iobuf_unref(old);
			j->poisoned = false;
		} else if (err != -ENOMEM || rt_now_ns() >= deadline) {
			return err;
		} else {
			fiber_sleep(MEMORY_POLL_NS);
		}
	}
	return 0;
}
