/*
 * ilog.h - the intent log: an append-only log of opaque records in a preallocated ring, mirrored over
 * up to four regions of drives. See intentlog/README.md and docs/on-disk-format.md.
 *
 * Promises
 *  1. ilog_commit(seq) returned 0: the record of that seq and all before it are durable on every side
 *     that is not declared out, and replay will deliver them, in seq order, until trimmed.
 *  2. A side is used for replay only if it was never declared out; being declared out is durable (through
 *     the owner's side_lost) before any acknowledgement relies on it.
 *  3. Replay of an epoch delivers a prefix of what was appended in it: it stops at the first hole.
 *  4. Trimming is by txg: a batch may be overwritten once every record in it has txg <= the trimmed one.
 *
 * An epoch is one use of the ring by one import: its batches carry guid, epoch, sequence, their own
 * offset and the checksum of the batch before, so that old laps and old tails never match.
 */
#ifndef AGATE_INTENTLOG_ILOG_H
#define AGATE_INTENTLOG_ILOG_H

#include "base/base.h"
#include "kernel-bypass/kb.h"

#define ILOG_SIDES_MAX 4
#define ILOG_PAYLOAD_MAX ((1u << 20) + 4096u) /* bytes of one record without its header */
#define ILOG_SEGS_MAX 40
#define ILOG_REGION_BYTES_MIN (4u << 20)

struct ilog;

struct ilog_side {
	struct kb_drive *drive; /* NULL: this side is out or absent */
	uint64_t off_bytes;     /* start of the region; sector multiple */
};

struct ilog_config {
	struct ilog_side sides[ILOG_SIDES_MAX];
	uint32_t side_count;
	uint64_t region_bytes; /* same on all sides; >= ILOG_REGION_BYTES_MIN */
	uint8_t guid[16];      /* of this log; not the pool's */
	uint64_t epoch;        /* this import's; greater than any before */
	/*
	 * A write to a side failed or timed out. Called on a fiber of the log, once per side; must make durable that this
	 * side is out before it returns 0. While it runs nothing is acknowledged. May park; must not wait for ilog_commit.
	 * Non-zero: the log fails. Not called for the last side: then the log fails. Not used by ilog_replay.
	 */
	int (*side_lost)(void *arg, unsigned side);
	void *arg;
};

/* What a record says in clear; everything else is payload. */
struct ilog_record {
	uint16_t type;    /* the owner's; 0 is reserved */
	uint16_t flags;
	uint64_t seq;     /* out: given by the log */
	uint64_t txg;
	uint64_t dataset; /* guid */
	uint64_t incarnation;
	uint64_t object;
	uint64_t generation;
	uint32_t len_bytes; /* payload */
};

struct ilog_seg {
	const void *data;
	uint32_t len_bytes;
};

/* Start an empty log in cfg's ring and epoch. Writes nothing until the first commit. -EINVAL, -ENOMEM. */
int ilog_create(const struct ilog_config *cfg, struct ilog **out) WARN_UNUSED MAY_PARK;
/* Nobody may be appending or committing. Does not commit what is not committed. */
void ilog_destroy(struct ilog *l) MAY_PARK;

/*
 * Space is reserved before any lock is taken: ilog_reserve parks while the ring is over 80 % full
 * (until trimmed) and is cancelled by the deadline. payload_bytes is an upper bound of all the records the
 * caller will append under this reservation, record_count their number; what isn't used goes back with ilog_unreserve.
 * 0; -ETIMEDOUT; -EMSGSIZE more than this ring can ever hold; -EIO the log has failed (then nothing is reserved; go
 * on without a log).
 */
struct ilog_reservation {
	uint64_t bytes;
};
int ilog_reserve(struct ilog *l, uint32_t payload_bytes, uint32_t record_count, uint64_t deadline_ns,
    struct ilog_reservation *out) WARN_UNUSED MAY_PARK;
void ilog_unreserve(struct ilog *l, struct ilog_reservation *r);

/*
 * ilog_append - put one record into the batch under construction. Order of append is order of replay.
 * Copies the payload before it returns. Uses up a part of the reservation. Never waits for a drive (may wait for a
 * buffer of the ARENA_LOG reserve). 0 and rec->seq; -EMSGSIZE the record is too large, or larger than what is left of
 * the reservation; -EINVAL type 0 or segments that don't add up to len_bytes; -EIO the log has failed.
 */
int ilog_append(struct ilog *l, struct ilog_reservation *r, struct ilog_record *rec, const struct ilog_seg *segs, uint32_t seg_count) WARN_UNUSED MAY_PARK;

/* Parks until every record with seq <= this one is durable: an idle log writes at once, a busy one batches; up to 8
 * batches are in flight and acknowledged in order. UINT64_MAX: all that has been appended so far. 0; -EIO the log has
 * failed (the owner falls back to the txg). */
int ilog_commit(struct ilog *l, uint64_t seq) WARN_UNUSED MAY_PARK;

/* Every record with txg <= this one is no longer needed, not even by a fall-back root. Any reactor. */
void ilog_trim(struct ilog *l, uint64_t txg);

/*
 * ilog_tail - where replay starts for a root of txg root_txg: at or before the first batch with a record of a later
 * txg. Goes into that root's uberblock, which is written before the trim that its commit allows: what the
 * position names stays in the ring until a later root has taken over, whereas the oldest untrimmed batch may not.
 */
struct ilog_position {
	uint64_t epoch;
	uint64_t batch_seq; /* batch number expected there */
	uint64_t off_bytes; /* within the region */
};
void ilog_tail(struct ilog *l, uint64_t root_txg, struct ilog_position *out);

enum ilog_state { ILOG_OK, ILOG_DEGRADED, ILOG_FAILED };
struct ilog_info {
	enum ilog_state state;
	uint32_t sides_out;       /* mask */
	uint64_t ring_bytes, used_bytes;
	uint64_t batches, records, record_bytes;
	uint64_t commit_ns_total, commits;
};
void ilog_get_info(const struct ilog *l, struct ilog_info *out);
/* Fill in percent, for the owner's policy: over 50 sync a txg, over 80 throttle (ilog_reserve does that itself). */
uint32_t ilog_fill_percent(const struct ilog *l);

/*
 * ilog_replay - read the epoch from.epoch (not cfg.epoch) from that position on and call deliver for each record, in order, until the
 * first hole. The payload is borrowed during the call. A side whose copy is bad is repaired from
 * another, durably, before its records are delivered, so that a repeated replay delivers them again.
 * deliver returning non-zero ends the replay with that value. Does not change the ring but for repairs; may be repeated.
 * from.batch_seq == 0: the position is unknown: the whole ring is searched for the epoch's oldest batch still needed.
 * 0; -EIO no side could be read (out_result says how far); deliver's value; -EINVAL; -ENOMEM.
 */
struct ilog_replay_result {
	uint64_t batches, records, bytes;
	uint64_t last_seq;
	uint64_t repaired_batches;
	uint32_t sides_unrepaired; /* mask: a repair failed; the owner must declare them out before it relies on the rest */
	bool acked_lost;           /* proved: batches that had been acknowledged are missing after last_seq */
};
typedef int ilog_deliver_fn(void *arg, const struct ilog_record *rec, const void *payload);
int ilog_replay(const struct ilog_config *cfg, const struct ilog_position *from, ilog_deliver_fn *deliver, void *arg,
    struct ilog_replay_result *out_result) WARN_UNUSED MAY_PARK;

#endif
