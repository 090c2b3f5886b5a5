/*
 * raidz.h - one redundancy group ("set") of drives: parity with variable-width stripes, mirrors, and
 * single drives (a mirror of one). Maps a block to columns, generates parity, reads with the caller's
 * check as the judge, reconstructs, repairs, and reports. It knows nothing of pools.
 *
 * Address space: sectors of 4 KiB, numbered across the set. With parity, set sector s lies on drive
 * s % width at drive sector s / width. A block of n data sectors on a width-w set with p parities is
 * laid column-major: rows = ceil(n / (w - p)); for each row p parity sectors then its data; the first
 * p columns of the block are parity, column c of the block lies on drive (start + c) % width, starting at drive sector
 * (start + c) / width. Data column sizes differ by at most one sector, longer ones first. The
 * allocation is padded to a multiple of p + 1, so that no hole is too small to be used. On a mirror
 * set sector s is sector s of every drive.
 */
#ifndef AGATE_RAIDZ_RAIDZ_H
#define AGATE_RAIDZ_RAIDZ_H

#include "base/base.h"
#include "kernel-bypass/kb.h"

#define RAIDZ_WIDTH_MAX 16
#define RAIDZ_PARITY_MAX 3
#define RAIDZ_BLOCK_BYTES_MAX (1u << 20)

enum raidz_kind { RAIDZ_KIND_PARITY = 0, RAIDZ_KIND_MIRROR = 1 }; /* these numbers are on drives (config_set.kind) */

enum raidz_col_state {
	RAIDZ_COL_ONLINE,  /* read and written */
	RAIDZ_COL_STALE,   /* written, not read (catching up) unless nothing else can give the data */
	RAIDZ_COL_MISSING, /* neither */
};

struct raidz_config {
	enum raidz_kind kind;
	uint32_t width;        /* parity: 3..16; mirror: 1..16 */
	uint32_t parity;       /* parity: 1..3, < width - 1; mirror: ignored */
	uint64_t base_bytes;   /* where column data starts on each drive; sector multiple */
	uint64_t column_bytes; /* usable bytes per drive from there; sector multiple */
};

struct raidz_group;

/* -EINVAL, -ENOMEM. All columns are MISSING at first. */
int raidz_group_create(const struct raidz_config *cfg, struct raidz_group **out) WARN_UNUSED;
void raidz_group_destroy(struct raidz_group *rg); /* no I/O is under way */
/* drive NULL only with MISSING. Takes effect for I/O that starts afterwards. Any reactor. A drive with
 * late writes (kb_late_writes) is treated as STALE while it has them, whatever is set here. */
void raidz_group_set_column(
    struct raidz_group *rg, uint32_t col, struct kb_drive *drive, enum raidz_col_state state);
/* Drives (a mask) that work, but are so slow that reads do better without them: what they hold is made from the others. They are written, scrubbed
 * and repaired like others, and read when nothing else can give the data. Ignored by I/O that has no parity left for it. Any reactor. */
void raidz_group_sit_out(struct raidz_group *rg, uint32_t drives);
/* Waits until all I/O of the group that started before the call has ended: after set_column, and
 * before kb_close of the drive that was taken out. May park. */
void raidz_group_quiesce(struct raidz_group *rg) MAY_PARK;
struct kb_drive *raidz_group_column(
    const struct raidz_group *rg, uint32_t col, enum raidz_col_state *out_state);
/* A second drive of a column, on the way to take the first one's place (NULL: none): every write goes to it as well, scrubs fill it like a
 * STALE column, and it is read when the column has no first drive. Nothing else depends on it: no status becomes worse for it. */
void raidz_group_set_twin(struct raidz_group *rg, uint32_t col, struct kb_drive *twin);
/* Columns of a mirror, 1..16; new ones are MISSING until they are set. Takes effect for I/O that starts afterwards. Any reactor, one at a time. */
void raidz_group_set_width(struct raidz_group *rg, uint32_t width);
/* Columns are longer from now on; never shorter. */
void raidz_group_grow(struct raidz_group *rg, uint64_t column_bytes);
const struct raidz_config *raidz_group_config(const struct raidz_group *rg);
/* Read-only: nothing is written, not even repairs; raidz_write gives -EROFS. */
void raidz_group_set_readonly(struct raidz_group *rg, bool readonly);

/* Pure geometry. */
uint64_t raidz_capacity_sectors(const struct raidz_config *cfg);                /* set sectors */
uint32_t raidz_alloc_sectors(const struct raidz_config *cfg, uint32_t len_bytes); /* set sectors a block of len takes, parity and padding included */
uint32_t raidz_tolerates(const struct raidz_config *cfg);                       /* columns that may be lost */

/* Masks have bit c for drive c of the group, bit RAIDZ_TWIN + c for its twin. */
#define RAIDZ_TWIN 16u
struct raidz_report {
	uint32_t io_error;   /* columns that answered with an error or not in time */
	uint32_t cksum_bad;  /* columns proved wrong by reconstruction */
	uint32_t rewritten;  /* columns whose right content was written back */
	uint32_t unwritten;  /* columns that this write didn't reach: the caller notes the dirty range */
	uint32_t late;       /* columns with a write past its deadline */
};

/* One block of a batch; len_bytes is a sector multiple, <= RAIDZ_BLOCK_BYTES_MAX. */
struct raidz_block {
	uint64_t sector;     /* set sector where its allocation starts */
	uint32_t len_bytes;
	struct iobuf *buf;   /* data from off_bytes on; borrowed for the call */
	uint32_t off_bytes;  /* a sector multiple */
	/* out: 0; -ERR_DEGRADED (readable, columns missing); -EIO (lost: more than the tolerated
	 * columns); -EINVAL (where or how long); -EROFS; -ENOMEM */
	int status;
	struct raidz_report report; /* out */
};

/*
 * raidz_write - write a batch of blocks; columns adjacent on a drive go out as one I/O. Not durable
 * until raidz_flush. Parity buffers come from use (ARENA_SYNC or ARENA_REPAIR). May park.
 * Returns 0 when every block has status 0 or -ERR_DEGRADED, else -EIO.
 */
int raidz_write(struct raidz_group *rg, struct raidz_block *blocks, uint32_t count, enum arena_use use) WARN_UNUSED MAY_PARK;

/* True means "this is the data". Pure; called at most RAIDZ_TRIES_MAX times per read. */
typedef bool raidz_verify_fn(void *arg, const uint8_t *data, uint32_t len_bytes);
#define RAIDZ_TRIES_MAX 1024

/*
 * raidz_read - read one block of len_bytes at set sector into *buf at off_bytes (a sector multiple).
 * Reads the data columns only; when one is missing, fails, or verify says no, reads the rest and tries
 * the possible combinations of up to `parity` bad columns. Columns found wrong are rewritten (repair)
 * unless the group is read-only; nothing is rewritten but what verify has said yes to. *buf holds the
 * data only on 0. May park.
 *
 * *buf may be exchanged for another buffer of the same capacity and use, also on failure: when a drive
 * missed its deadline it may still write into the old one. So nobody else uses *buf during the call,
 * and what it held outside [off_bytes, off_bytes + len_bytes) is lost then. Let go of it on failure.
 * The allocation stays live (not freed and reused) until the call returns, or a repair could hit it.
 *
 * Parity isn't read while the data verifies, so damage to it isn't noticed here: see raidz_scrub_block.
 * 0; -ERR_CKSUM readable but nothing verifies; -EIO more columns failed than can be rebuilt; -EINVAL;
 * -ENOMEM no memory for the reconstruction within two seconds. out_report is filled in except on -EINVAL.
 */
int raidz_read(struct raidz_group *rg, uint64_t sector, uint32_t len_bytes, struct iobuf **buf,
    uint32_t off_bytes, raidz_verify_fn *verify, void *verify_arg,
    struct raidz_report *out_report) WARN_UNUSED MAY_PARK;

/*
 * raidz_scrub_block - read every column of a block, check the data with verify and the parity by
 * recomputation, and rewrite what is wrong. A STALE column isn't looked at but written: that makes this
 * call the step of a resilver too. Memory comes from ARENA_REPAIR. Conditions and errors as raidz_read;
 * out_report->unwritten has the STALE and repaired columns that could not be written.
 */
int raidz_scrub_block(struct raidz_group *rg, uint64_t sector, uint32_t len_bytes,
    raidz_verify_fn *verify, void *verify_arg,
    struct raidz_report *out_report) WARN_UNUSED MAY_PARK;

/* Flush every column that isn't missing. out_failed: columns whose flush failed. 0, or -EIO when more
 * failed (missing ones counted) than the group tolerates. May park. */
int raidz_flush(struct raidz_group *rg, uint32_t *out_failed) WARN_UNUSED MAY_PARK;

/* Discard set sectors [sector, sector + count): whole rows only are passed on, to the drives of the mask that understand it. out_late: drives that didn't
 * answer by the deadline and may do it at any time yet (kb_late_writes). Best effort: the drives that did it. May park. */
#define RAIDZ_DISCARD_NS (10 * NSEC_PER_SEC)
uint32_t raidz_discard(struct raidz_group *rg, uint64_t sector, uint64_t count, uint32_t drives, uint32_t *out_late) MAY_PARK;

#endif
