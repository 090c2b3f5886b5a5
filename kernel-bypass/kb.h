/*
 * kb.h - drives: asynchronous read, write, flush and discard with a deadline, over several backends
 * (kernel block devices through libaio and O_DIRECT, image files, simulated drives; the user-space
 * NVMe driver joins behind the same table of functions). Nothing here knows what a pool is.
 *
 * The rule of late I/O: an I/O always gets a status by its deadline. When the drive has not answered
 * by then the status is -ETIMEDOUT, the caller goes on, and the buffers stay referenced (quarantined)
 * until the drive answers or is reset. A drive with a late write may still change under us; it counts
 * as stale until kb_late_writes is 0 again. The caller must not use such a buffer again, only drop its
 * reference: a late read may still write into it, a late write may still read from it.
 *
 * Addresses are bytes from the start of the whole drive, multiples of SECTOR_BYTES, as are lengths.
 */
#ifndef AGATE_KERNEL_BYPASS_KB_H
#define AGATE_KERNEL_BYPASS_KB_H

#include "base/base.h"

struct kb_drive;

enum kb_backend { KB_BACKEND_AIO, KB_BACKEND_FILE, KB_BACKEND_SIM, KB_BACKEND_NVME };

struct kb_info {
	char path[256];    /* how it was opened; for people */
	char id[128];      /* stable identity: WWN, or serial + namespace, or "file:" + path for an image */
	char model[64];
	char serial[64];
	enum kb_backend backend;
	uint64_t size_bytes;            /* rounded down to a sector */
	uint32_t physical_sector_bytes; /* what the drive says, flash at least SECTOR_BYTES; I/O is always in SECTOR_BYTES */
	uint32_t optimal_io_bytes;      /* what it likes best, 0: it doesn't say */
	uint32_t logical_sector_bytes;  /* 512 or 4096: what its partition table counts in */
	bool volatile_cache;            /* has a write cache that a power cut empties */
	bool discard;                   /* understands discard */
	bool rotational;
	uint32_t timeout_ms;            /* default deadline of an I/O: NVMe 2000, others 8000 */
};

enum kb_op { KB_READ, KB_WRITE, KB_FLUSH, KB_DISCARD };
#define KB_FUA 1u      /* write: durable when it completes */
#define KB_SEGS_MAX 64 /* segments of one I/O; the sum of lengths at most KB_IO_BYTES_MAX */
#define KB_IO_BYTES_MAX (4u << 20)

struct kb_seg {
	struct iobuf *buf; /* kb takes its own reference for as long as the drive may touch it */
	uint32_t off_bytes, len_bytes; /* sector multiples */
};

/* One I/O; the caller's (often on its stack) until the group has been waited for. */
struct kb_io {
	enum kb_op op;
	uint32_t flags;
	uint64_t off_bytes;
	uint64_t len_bytes;        /* KB_DISCARD only */
	const struct kb_seg *segs; /* KB_READ, KB_WRITE; borrowed until the group is done */
	uint32_t seg_count;
	/* result, valid after kb_group_wait */
	int status;          /* 0; -EIO; -ETIMEDOUT; -ERR_GONE; -ENODATA medium error; -EINVAL misaligned or
	                        out of range; -EAGAIN KB_DISCARD only: try later */
	uint64_t latency_ns;
	/* private */
	struct kb_group *group;
	struct list link;
	uint64_t start_ns, deadline_ns;
};

/* A set of I/Os that one fiber waits for. */
struct kb_group {
	struct spin guard;
	uint32_t pending;
	struct fiber *waiter;
};

void kb_group_init(struct kb_group *g);
/* Never parks, never completes before it returns (the status is seen only after kb_group_wait).
 * deadline_ns: 0 = now + the drive's timeout. */
void kb_submit(struct kb_drive *d, struct kb_io *io, struct kb_group *g, uint64_t deadline_ns);
/* Parks until every I/O of the group has its status. */
void kb_group_wait(struct kb_group *g) MAY_PARK;

/* One I/O and its wait. Same errors as kb_io.status, and -EINVAL for misaligned or out of range. */
int kb_read(struct kb_drive *d, uint64_t off_bytes, struct iobuf *buf, uint32_t len_bytes) WARN_UNUSED MAY_PARK;
int kb_write(struct kb_drive *d, uint64_t off_bytes, struct iobuf *buf, uint32_t len_bytes, uint32_t flags) WARN_UNUSED MAY_PARK;
int kb_flush(struct kb_drive *d) WARN_UNUSED MAY_PARK;
int kb_discard(struct kb_drive *d, uint64_t off_bytes, uint64_t len_bytes) WARN_UNUSED MAY_PARK;
/* Asks that there be room for the range, so that the first write there is like any other: an image file in memory gets its
 * pages, as far as that leaves others most of what its file system has. A hint; does nothing where a drive has all its room. */
void kb_reserve(struct kb_drive *d, uint64_t off_bytes, uint64_t len_bytes) MAY_PARK;

/*
 * kb_open - open a block device or an image file, by its kind. path is kept for people and for the
 * identity of an image. fd: an open descriptor the drive owns from now on (also on failure it is
 * closed), or -1 to open path here. exclusive: refuse (-EBUSY) a block device that is mounted or held by the kernel.
 * 0; -ENOENT, -EACCES, -EBUSY, -EINVAL (not a drive), -ENOMEM. May park.
 */
int kb_open(const char *path, int fd, bool exclusive, struct kb_drive **out) WARN_UNUSED MAY_PARK;
/*
 * kb_claim - take the drive for ourselves, or (shared) beside others who only read: an advisory lock (flock(2)) that
 * ends when the drive is closed or the process dies. Another agated, or another open of ours, that wants it gets
 * -EBUSY, after two seconds of trying: a lock that somebody takes just to look is no use. Simulated drives have nobody
 * to be taken from. May park.
 */
int kb_claim(struct kb_drive *d, bool shared) WARN_UNUSED MAY_PARK;
/* Lets others claim it, though it stays open: for one that is gone and may come back. */
void kb_unclaim(struct kb_drive *d);
/* Waits (at most the drive's timeout) for outstanding I/O; late I/O keeps its buffers until it ends.
 * Nobody may submit during or after it. */
void kb_close(struct kb_drive *d) MAY_PARK;
void kb_get_info(const struct kb_drive *d, struct kb_info *out);
const char *kb_id(const struct kb_drive *d);
const char *kb_path(const struct kb_drive *d);
uint64_t kb_size(const struct kb_drive *d);
uint32_t kb_physical(const struct kb_drive *d, bool *out_volatile_cache); /* physical_sector_bytes */
bool kb_discards(const struct kb_drive *d); /* it understands discard */
uint64_t kb_late_writes(const struct kb_drive *d); /* writes past their deadline that may still happen */
bool kb_is_gone(const struct kb_drive *d);

struct kb_counters {
	uint64_t reads, writes, flushes, discards, read_bytes, write_bytes, errors, timeouts;
	uint64_t read_ns; /* what all reads took, added up */
	uint64_t slow;    /* reads, writes and flushes that took longer than kb_set_slow says */
};
/* What counts as slow; a second at first. Any fiber. */
void kb_set_slow(struct kb_drive *d, uint64_t ns);
void kb_get_counters(const struct kb_drive *d, struct kb_counters *out);

/*
 * Faults on purpose, above whatever driver the drive has: to see what a pool does, and whether alerts arrive. A drive
 * without them pays one load. They live in memory only. Several descriptors of one drive share one kb_faults.
 */
struct kb_fault_spec {
	uint32_t errors;         /* bits 1 << enum kb_op: these fail */
	int status;              /* how: -EIO, -ENODATA (medium), -ETIMEDOUT (no answer until the deadline), -ERR_GONE */
	bool corrupt;            /* reads return one flipped bit; nothing is ever written wrong */
	bool gone;               /* it has vanished */
	uint32_t slow_ms;        /* every answer takes so much longer */
	uint64_t hang_until_ns;  /* nothing is begun before; 0: no */
	uint32_t one_in;         /* errors, corrupt, slow: one of so many; 0 and 1: all */
	uint64_t count;          /* so many altogether, then no more; 0: no end */
	uint64_t off_bytes, len_bytes; /* only I/O that touches this range of the drive; len 0: all, flushes too */
};
struct kb_faults;
struct kb_faults *kb_faults_create(void); /* harmless so far; one reference. NULL: no memory */
void kb_faults_put(struct kb_faults *f);
void kb_faults_set(struct kb_faults *f, const struct kb_fault_spec *spec);
/* hits: how many I/Os have met a fault since the last set. spent: the count is used up, or the hang is over. */
void kb_faults_get(struct kb_faults *f, struct kb_fault_spec *out, uint64_t *out_hits, bool *out_spent);
/* From now on (armed) or no more. A drive takes its own reference at its first kb_faults, and knows no other afterwards. Any fiber; one at
 * a time for one drive. A spec that is gone makes the descriptor useless for good: -ERR_GONE. */
void kb_faults_attach(struct kb_drive *d, struct kb_faults *f, bool armed);

/*
 * kb_scan - call found() for every drive of this machine that could hold pools: block devices of
 * /sys/block that are not read-only, not loop/ram/dm parts of something else; used_by says why one is in use ("mounted
 * at /", "swap", "partition table of something else") or is empty. Two paths to one WWN are reported once.
 * dir, when not NULL: image files (*.img, *.raw) of that directory instead. May park.
 */
struct kb_found {
	struct kb_info info;
	char used_by[128];
};
int kb_scan(const char *dir, void (*found)(void *arg, const struct kb_found *f), void *arg) WARN_UNUSED MAY_PARK;

/*
 * Whole drives carry a GPT with one partition of our type, from KB_POOL_START to KB_POOL_START +
 * kb_pool_bytes. Image files carry it too, so that an image written to a drive is that drive.
 */
#define KB_POOL_START (1u << 20)
/* Bytes for the pool on a drive of size_bytes: without the first and last MiB, rounded down to 256 MiB
 * (to 1 MiB on drives below 16 GiB), so that a slightly smaller replacement fits. 0 = too small. */
uint64_t kb_pool_bytes(uint64_t size_bytes);
/* The smallest drive that has such a region. */
uint64_t kb_bytes_for_pool(uint64_t pool_bytes);
int kb_gpt_write(struct kb_drive *d, const uint8_t part_guid[16], const char *part_name) WARN_UNUSED MAY_PARK;
int kb_gpt_clear(struct kb_drive *d) WARN_UNUSED MAY_PARK;
/* What is on the drive now: KB_CONTENT_BLANK, our partition, or somebody else's (a text in out_what). */
enum kb_content { KB_CONTENT_BLANK, KB_CONTENT_OURS, KB_CONTENT_FOREIGN };
int kb_gpt_probe(struct kb_drive *d, enum kb_content *out, char *out_what, size_t what_len) WARN_UNUSED MAY_PARK;

#endif
