/*
 * raidz_read.c - reading and scrubbing one block. When all is well a read is one I/O for each data
 * column, straight into the caller's buffer, and one call of verify; no memory is allocated. All
 * else is raidz_repair.c and raidz_mirror.c.
 */
#include "raidz/raidz_int.h"

/* All data columns at once. True when the data is right. */
static bool
read_undamaged(struct raidz_job *j)
{
	raidz_job_place_data(j);
	return raidz_job_read(j, raidz_map_data_mask(&j->map)) && j->failed == 0 &&
	       raidz_job_verify(j);
}

static int
read_parity(struct raidz_job *j)
{
	uint32_t data = raidz_map_data_mask(&j->map);
	bool whole = (data & ~(j->online & ~j->sit_out)) == 0;
	if (whole && read_undamaged(j)) {
		return 0;
	}
	return raidz_parity_run(j, whole ? 1 : 2);
}

int
raidz_read(struct raidz_group *rg, uint64_t sector, uint32_t len_bytes, struct iobuf **buf,
    uint32_t off_bytes, raidz_verify_fn *verify, void *verify_arg, struct raidz_report *out_report)
{
	struct raidz_job j;
	struct raidz_config cfg = raidz_cfg_now(rg);
	if (!raidz_block_fits(&cfg, sector, len_bytes) || off_bytes % SECTOR_BYTES != 0 ||
	    off_bytes > (*buf)->cap_bytes || len_bytes > (*buf)->cap_bytes - off_bytes) {
		return -EINVAL;
	}
	raidz_job_init(&j, rg, sector, len_bytes);
	j.buf = buf;
	j.off_bytes = off_bytes;
	j.verify = verify;
	j.verify_arg = verify_arg;
	int err = rg->cfg.kind == RAIDZ_KIND_MIRROR ? raidz_mirror_run(&j, 2) : read_parity(&j);
	raidz_leave(rg, &j.cols);
	*out_report = j.report;
	return err;
}

int
raidz_scrub_block(struct raidz_group *rg, uint64_t sector, uint32_t len_bytes,
    raidz_verify_fn *verify, void *verify_arg, struct raidz_report *out_report)
{
	struct raidz_job j;
	struct iobuf *data = NULL; /* side memory, gone by the time we return */
	struct raidz_config cfg = raidz_cfg_now(rg);
	if (!raidz_block_fits(&cfg, sector, len_bytes)) {
		return -EINVAL;
	}
	raidz_job_init(&j, rg, sector, len_bytes);
	j.buf = &data;
	j.scrub = true;
	j.verify = verify;
	j.verify_arg = verify_arg;
	int err =
	    rg->cfg.kind == RAIDZ_KIND_MIRROR ? raidz_mirror_run(&j, 2) : raidz_parity_run(&j, 2);
	raidz_leave(rg, &j.cols);
	*out_report = j.report;
	return err;
}
