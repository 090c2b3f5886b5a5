/*
 * ilog_int.h - private state of the intent log. The theory is in README.md; who may touch what is
 * in the legend: [c] constant after create, [m] under mu, [a] atomic, [s] only the sealer (whoever
 * set `sealing`), [w] only the fiber that wrote the batch, until it sets `written` under mu.
 */
#ifndef AGATE_INTENTLOG_ILOG_INT_H
#define AGATE_INTENTLOG_ILOG_INT_H

#include "intentlog/ilog_format.h"

#define ILOG_CHUNK_BYTES (64u << 10)
#define ILOG_CHUNKS_MAX DIV_UP(ILOG_BATCH_BYTES_MAX, ILOG_CHUNK_BYTES)
STATIC_ASSERT(ILOG_CHUNKS_MAX <= KB_SEGS_MAX);
STATIC_ASSERT(ILOG_BATCH_BYTES_MAX <= KB_IO_BYTES_MAX);

#define ILOG_IN_FLIGHT_MAX 8u
/* A batch of less than ILOG_SMALL_BYTES starts only while fewer than this are in flight: a busy log
 * gathers. */
#define ILOG_IN_FLIGHT_SMALL 3u
#define ILOG_SMALL_BYTES (32u << 10)
/* After a batch of several records, so many more of one record until commits no longer yield first;
 * and then one commit in so many tries again. */
#define ILOG_GATHER_MAX 8u
#define ILOG_GATHER_PROBE 16u
#define ILOG_SLOTS 16u /* batches open, closed or in flight */
#define ILOG_MARKS_MAX 32u
#define ILOG_SPARES_MAX ILOG_CHUNKS_MAX
#define ILOG_THROTTLE_PERCENT 80u

/* The worst that one record costs in the ring: a batch of its own, header, padding of record and
 * sector. */
#define ILOG_RECORD_COST \
	(ILOG_RECORD_HEADER_BYTES + ILOG_RECORD_ALIGN - 1 + ILOG_BATCH_HEADER_BYTES + \
	    SECTOR_BYTES - 1)

/* A point between two batches. */
struct ilog_cursor {
	uint64_t batch_seq; /* of the batch that starts here */
	uint64_t pos; /* bytes since the epoch began, skipped ends of the ring included; % ring =
			 offset */
	uint64_t net; /* the same without the skipped ends */
};

/* From here on batches hold records of a txg up to this one (until the next mark). */
struct ilog_mark {
	uint64_t txg;
	struct ilog_cursor at;
};

/*
 * Life of a slot: unused -> open (appended to) -> closed (no more records; copiers may be busy) ->
 * sealed (has a place, a checksum, and is with the drives) -> written (every side has answered) ->
 * acknowledged, which is unused again. Slots go through this strictly in order of batch_seq, but
 * for `written`, which may come in any order.
 */
struct ilog_batch {
	uint64_t seq;                 /* [m] */
	uint64_t first_rec, last_rec; /* [m] record seqs */
	uint64_t min_txg, max_txg;    /* [m] until closed */
	uint64_t charge_bytes;        /* [m] taken over from reservations */
	uint32_t fill_bytes;          /* [m] header and records so far */
	uint32_t record_count;        /* [m] */
	uint32_t chunk_count;         /* [m] until closed */
	bool closed;                  /* [m] */
	bool written;                 /* [m] */
	struct waitgroup copying;
	struct list waiters;      /* [m] of ilog_waiter: acknowledged, failed, or "you lead" */
	struct ilog_cursor start; /* [s] */
	uint32_t len_bytes;       /* [s] then constant */
	uint32_t sides;           /* [s] mask it was submitted to */
	struct kb_group group;    /* [w] */
	struct kb_io ios[ILOG_SIDES_MAX];    /* [w] */
	struct kb_seg segs[ILOG_CHUNKS_MAX]; /* buf [m] until closed, lengths [s] */
};

/* On the stack of a fiber that waits for space or a batch. Who wakes it takes it off its list. */
struct ilog_waiter {
	struct list link;
	struct cond cond;
	uint64_t need_bytes; /* reservations only */
	bool woken;
};

static inline void
ilog_waiter_wake(struct ilog_waiter *w)
{
	list_remove(&w->link);
	w->woken = true;
	cond_signal(&w->cond);
}

struct ilog {
	struct ilog_config cfg; /* [c] */
	uint64_t cap_bytes;     /* [c] what reservations may claim */
	struct mutex mu;

	/* space: see ilog_ring.c */
	_Atomic uint64_t claimed_bytes; /* [a] reserved + appended + batches not trimmed */
	atomic_uint reserve_waiters;    /* [a] changes under mu */
	struct list reserve_queue;      /* [m] of ilog_waiter, first come first served */
	struct ilog_cursor head;        /* [m] where the next sealed batch goes (before any skip) */
	struct ilog_cursor acked;       /* [m] end of the last acknowledged batch */
	struct ilog_cursor tail;        /* [m] what is before may be overwritten */
	uint64_t trimmed_txg;           /* [m] */
	struct ilog_mark marks[ILOG_MARKS_MAX]; /* [m] ascending in txg and place */
	uint32_t mark_count;                    /* [m] */

	/* batches */
	struct ilog_batch slots[ILOG_SLOTS];   /* of batch seq % ILOG_SLOTS */
	struct ilog_batch *open;               /* [m] */
	uint64_t next_batch;                   /* [m] seq of the next batch opened */
	uint64_t next_seal;                    /* [m] oldest batch not sealed */
	uint64_t next_rec;                     /* [m] */
	bool sealing;                          /* [m] */
	bool failed;                           /* [m] */
	bool stopping;                         /* [m] */
	struct ilog_cksum prev_cksum;          /* [s] */
	uint32_t sides_out;                    /* [m] */
	uint32_t sides_lost;                   /* [m] out, but not yet durably so */
	struct iobuf *spares[ILOG_SPARES_MAX]; /* [m] */
	uint32_t spare_count;                  /* [m] */
	struct cond slot_cond;                 /* a slot became unused */
	struct cond writer_cond;               /* work for the writer fiber */
	struct cond warden_cond;               /* a side was lost */
	struct waitgroup fibers;

	/* for everybody to read */
	atomic_uint gather;         /* [a] changes under mu; see commit_gather */
	_Atomic uint64_t acked_rec; /* [a] every record up to this one is acknowledged */
	atomic_uint state;          /* [a] enum ilog_state */
	atomic_uint info_out;       /* [a] copy of sides_out */
	_Atomic uint64_t batches, records, record_bytes, commit_ns_total, commits; /* [a] */
};

static inline struct ilog_batch *
ilog_slot(struct ilog *l, uint64_t batch_seq)
{
	return &l->slots[batch_seq % ILOG_SLOTS];
}

static inline uint64_t
ilog_in_flight(const struct ilog *l)
{
	return l->next_seal - l->acked.batch_seq;
}

/* ---- ilog.c ---- */
int ilog_config_check(const struct ilog_config *cfg) WARN_UNUSED;

/* ---- ilog_append.c ---- */
/* mu held, stays held. What was appended so far will be written, even if nobody commits. */
void ilog_close_open(struct ilog *l);

/* ---- ilog_commit.c ---- */
void ilog_batch_free_chunks(struct ilog_batch *b);
/* mu held, stays held. Wake whoever should write next. */
void ilog_wake_leader(struct ilog *l);
/* mu held, stays held. Nothing is acknowledged any more; everybody waiting gets -EIO. */
void ilog_fail(struct ilog *l, const char *why);
void ilog_writer_fiber(void *arg);
void ilog_warden_fiber(void *arg);

/* ---- ilog_ring.c; mu held for all of them ---- */
uint64_t ilog_ring_capacity(uint64_t region_bytes);
/* Give the batch its place; returns its charge's excess to the ring. */
void ilog_ring_place(struct ilog *l, struct ilog_batch *b);
void ilog_ring_advance_tail(struct ilog *l);
/* Without mu. */
void ilog_ring_give(struct ilog *l, uint64_t bytes);
/* Grants what fits to those who wait. */
void ilog_ring_grant(struct ilog *l);

/* ---- ilog_decode.c ---- */
/* What a batch at this place must say. */
struct ilog_expect {
	const uint8_t *guid;
	uint64_t epoch, batch_seq, off_bytes;
	const struct ilog_cksum *prev_cksum; /* NULL: not known */
};
struct ilog_batch_info {
	uint64_t batch_seq, off_bytes, first_seq, min_txg, max_txg, tail_batch, durable_batch;
	uint32_t len_bytes, record_count;
	struct ilog_cksum cksum;
};
/* Header alone: magic, version, guid, epoch, own offset and plausible lengths; the checksum is not
 * looked at. buf holds at least ILOG_BATCH_HEADER_BYTES. 0; -ERR_CORRUPT. */
int ilog_header_decode(const void *buf, const uint8_t guid[16], uint64_t epoch, uint64_t off_bytes,
    struct ilog_batch_info *out) WARN_UNUSED;
/* The whole batch: everything above, batch_seq and previous checksum, its own checksum, every
 * record. 0; -ERR_CORRUPT; -ERR_TOOSMALL len is less than the batch says (and *out has its length).
 */
int ilog_batch_decode(const void *buf, uint64_t len, const struct ilog_expect *want,
    struct ilog_batch_info *out) WARN_UNUSED;
/* Record at *pos (start with ILOG_BATCH_HEADER_BYTES) of the first len bytes of a batch; moves *pos
 * on. 0; -ERR_CORRUPT. */
int ilog_record_decode(const void *buf, uint32_t len, uint32_t *pos, struct ilog_record *out,
    const void **out_payload) WARN_UNUSED;
/* XXH3-128 over chunks; the checksum field must be zero in the first. */
void ilog_cksum_chunks(const struct kb_seg *segs, uint32_t seg_count, struct ilog_cksum *out);

#endif
