/*
 * ilog_format.h - the intent log on a drive. A ring is a run of batches and nothing else: which guid,
 * which epoch and where to start is said by the owner's uberblock.
 *
 * A batch is a whole number of sectors and starts on one. It never straddles the end of the ring: one
 * that doesn't fit into what is left starts at offset 0, and what is left is skipped. A batch is a
 * header, record_count records, each padded to 8 bytes, and less than a sector of zeros.
 *
 * tail_batch and durable_batch are the writer's knowledge when it sealed the batch. They are never
 * needed to replay from a known position: the first finds the start when the position is lost, the
 * second proves that a hole swallowed something that had been acknowledged.
 */
#ifndef AGATE_INTENTLOG_ILOG_FORMAT_H
#define AGATE_INTENTLOG_ILOG_FORMAT_H

#include "intentlog/ilog.h"

#define ILOG_BATCH_MAGIC 0x474f4c49u /* "ILOG" in the drive's byte order */
#define ILOG_FORMAT_VERSION 1u
#define ILOG_CKSUM_BYTES 16u
#define ILOG_BATCH_HEADER_BYTES 128u
#define ILOG_RECORD_HEADER_BYTES 64u
#define ILOG_RECORD_ALIGN 8u

struct ilog_cksum {
	uint8_t b[ILOG_CKSUM_BYTES]; /* XXH3-128, canonical (big-endian) form */
};

struct ilog_batch_header {
	struct le32 magic;              /* 0x00 */
	struct le16 version;            /* 0x04 */
	struct le16 flags;              /* 0x06 zero */
	uint8_t guid[16];               /* 0x08 of the ring */
	struct le64 epoch;              /* 0x18 */
	struct le64 batch_seq;          /* 0x20 from 1 in each epoch */
	struct le64 off_bytes;          /* 0x28 own offset within the region */
	struct le32 len_bytes;          /* 0x30 of the whole batch, sector multiple */
	struct le32 record_count;       /* 0x34 at least 1 */
	struct le64 min_txg;            /* 0x38 */
	struct le64 max_txg;            /* 0x40 */
	struct le64 first_seq;          /* 0x48 of the first record; the others follow without a gap */
	struct le64 tail_batch;         /* 0x50 oldest batch still needed when this one was sealed */
	struct le64 durable_batch;      /* 0x58 newest batch acknowledged when this one was sealed */
	struct ilog_cksum prev_cksum;   /* 0x60 of the batch before; zero in batch 1 */
	struct ilog_cksum cksum;        /* 0x70 over the whole batch with this field zero */
};
STATIC_ASSERT(sizeof(struct ilog_batch_header) == ILOG_BATCH_HEADER_BYTES);
STATIC_ASSERT(offsetof(struct ilog_batch_header, magic) == 0x00);
STATIC_ASSERT(offsetof(struct ilog_batch_header, version) == 0x04);
STATIC_ASSERT(offsetof(struct ilog_batch_header, flags) == 0x06);
STATIC_ASSERT(offsetof(struct ilog_batch_header, guid) == 0x08);
STATIC_ASSERT(offsetof(struct ilog_batch_header, epoch) == 0x18);
STATIC_ASSERT(offsetof(struct ilog_batch_header, batch_seq) == 0x20);
STATIC_ASSERT(offsetof(struct ilog_batch_header, off_bytes) == 0x28);
STATIC_ASSERT(offsetof(struct ilog_batch_header, len_bytes) == 0x30);
STATIC_ASSERT(offsetof(struct ilog_batch_header, record_count) == 0x34);
STATIC_ASSERT(offsetof(struct ilog_batch_header, min_txg) == 0x38);
STATIC_ASSERT(offsetof(struct ilog_batch_header, max_txg) == 0x40);
STATIC_ASSERT(offsetof(struct ilog_batch_header, first_seq) == 0x48);
STATIC_ASSERT(offsetof(struct ilog_batch_header, tail_batch) == 0x50);
STATIC_ASSERT(offsetof(struct ilog_batch_header, durable_batch) == 0x58);
STATIC_ASSERT(offsetof(struct ilog_batch_header, prev_cksum) == 0x60);
STATIC_ASSERT(offsetof(struct ilog_batch_header, cksum) == 0x70);

struct ilog_record_header {
	struct le32 len_bytes;   /* 0x00 of the payload that follows, without padding */
	struct le16 type;        /* 0x04 the owner's; never zero */
	struct le16 flags;       /* 0x06 the owner's */
	struct le64 seq;         /* 0x08 */
	struct le64 txg;         /* 0x10 */
	struct le64 dataset;     /* 0x18 */
	struct le64 incarnation; /* 0x20 */
	struct le64 object;      /* 0x28 */
	struct le64 generation;  /* 0x30 */
	struct le64 reserved;    /* 0x38 zero */
};
STATIC_ASSERT(sizeof(struct ilog_record_header) == ILOG_RECORD_HEADER_BYTES);
STATIC_ASSERT(offsetof(struct ilog_record_header, len_bytes) == 0x00);
STATIC_ASSERT(offsetof(struct ilog_record_header, type) == 0x04);
STATIC_ASSERT(offsetof(struct ilog_record_header, flags) == 0x06);
STATIC_ASSERT(offsetof(struct ilog_record_header, seq) == 0x08);
STATIC_ASSERT(offsetof(struct ilog_record_header, txg) == 0x10);
STATIC_ASSERT(offsetof(struct ilog_record_header, dataset) == 0x18);
STATIC_ASSERT(offsetof(struct ilog_record_header, incarnation) == 0x20);
STATIC_ASSERT(offsetof(struct ilog_record_header, object) == 0x28);
STATIC_ASSERT(offsetof(struct ilog_record_header, generation) == 0x30);
STATIC_ASSERT(offsetof(struct ilog_record_header, reserved) == 0x38);

/* Bytes a record takes in a batch. */
static inline uint32_t
ilog_record_bytes(uint32_t payload_bytes)
{
	return ILOG_RECORD_HEADER_BYTES + ALIGN_UP(payload_bytes, ILOG_RECORD_ALIGN);
}

/* A batch is closed before it exceeds this; so a single record of the largest size still has one. */
#define ILOG_BATCH_BYTES_MAX (ILOG_PAYLOAD_MAX + SECTOR_BYTES)
STATIC_ASSERT(ILOG_BATCH_BYTES_MAX % SECTOR_BYTES == 0);
STATIC_ASSERT(ILOG_BATCH_BYTES_MAX >=
    ILOG_BATCH_HEADER_BYTES + ILOG_RECORD_HEADER_BYTES + ILOG_PAYLOAD_MAX);

#endif
