/*
 * ilog_fuzz.c - the decoder of batches against anything a drive may hold. The first byte chooses
 * how much of the header is put right (identity, lengths, checksum), so that the walk over the
 * records is reached too. What is accepted must be in bounds, in order, and the same when decoded
 * again.
 *
 * Built by --enable-fuzz as a libFuzzer target; in make check, ILOG_FUZZ_JUNK gives it a main of
 * its own that feeds junk, and good batches with a few bytes changed, from fixed seeds.
 */
#include <stdio.h>
#include <stdlib.h>
#include "intentlog/ilog_int.h"

#define FUZZ_BYTES_MAX (64u << 10)

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const uint8_t guid[16] = "fuzzed log ring";

static void
require(bool ok, const char *what)
{
	if (!ok) {
		fprintf(stderr, "ilog_fuzz: %s\n", what);
		abort();
	}
}

static void
put_right(uint8_t *buf, uint32_t len, uint8_t how)
{
	struct ilog_batch_header h;
	struct iobuf whole = {.data = buf, .cap_bytes = len};
	const struct kb_seg seg = {.buf = &whole, .len_bytes = len};

	memcpy(&h, buf, sizeof(h));
	if ((how & 1) != 0) {
		h.magic = le32_of(ILOG_BATCH_MAGIC);
		h.version = le16_of(ILOG_FORMAT_VERSION);
		h.flags = le16_of(0);
		memcpy(h.guid, guid, sizeof(guid));
		h.epoch = le64_of(1);
		h.batch_seq = le64_of(1);
		h.off_bytes = le64_of(0);
		memset(&h.prev_cksum, 0, sizeof(h.prev_cksum));
	}
	if ((how & 2) != 0) {
		h.len_bytes = le32_of(len);
		h.tail_batch = le64_of(1);
		h.durable_batch = le64_of(0);
		h.first_seq = le64_of(1);
		h.record_count = le32_of(1 + le32_get(h.record_count) % 4);
	}
	if ((how & 4) != 0) {
		memset(&h.cksum, 0, sizeof(h.cksum));
		memcpy(buf, &h, sizeof(h));
		ilog_cksum_chunks(&seg, 1, &h.cksum);
	}
	memcpy(buf, &h, sizeof(h));
}

static void
check_accepted(const uint8_t *buf, uint32_t len, const struct ilog_batch_info *info)
{
	uint32_t pos = ILOG_BATCH_HEADER_BYTES;

	require(info->len_bytes <= len && info->record_count > 0, "a batch longer than its bytes");
	for (uint32_t i = 0; i < info->record_count; i++) {
		struct ilog_record rec;
		const void *payload;
		const uint8_t *at;

		require(ilog_record_decode(buf, info->len_bytes, &pos, &rec, &payload) == 0,
		    "a record of a good batch is bad");
		at = payload;
		require(at >= buf && at + rec.len_bytes <= buf + info->len_bytes, "out of bounds");
		require(rec.seq == info->first_seq + i && rec.type != 0, "out of order");
		require(rec.txg >= info->min_txg && rec.txg <= info->max_txg, "txg out of range");
	}
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static const struct ilog_cksum zero;
	const struct ilog_expect want = {
	    .guid = guid, .epoch = 1, .batch_seq = 1, .prev_cksum = &zero};
	struct ilog_batch_info info, again;
	uint32_t len = (uint32_t)MIN(size, (size_t)FUZZ_BYTES_MAX);
	uint8_t *buf;
	uint32_t pos = 0;
	int err;

	if (len < 1 + ILOG_BATCH_HEADER_BYTES) {
		return 0;
	}
	len--;
	buf = malloc(len); /* exactly as long, so that a sanitizer sees the end */
	require(buf != NULL, "no memory");
	memcpy(buf, data + 1, len);
	put_right(buf, len, data[0]);
	err = ilog_batch_decode(buf, len, &want, &info);
	require(err == 0 || err == -ERR_CORRUPT || err == -ERR_TOOSMALL, "an unknown error");
	if (err == 0) {
		check_accepted(buf, len, &info);
		require(ilog_batch_decode(buf, len, &want, &again) == 0 &&
			    again.len_bytes == info.len_bytes,
		    "not the same again");
	}
	for (;;) {
		struct ilog_record rec;
		const void *payload;

		if (ilog_record_decode(buf, len, &pos, &rec, &payload) != 0) {
			break;
		}
		require(pos <= len, "walked out");
	}
	free(buf);
	return 0;
}

#ifdef ILOG_FUZZ_JUNK
static uint64_t
next(uint64_t *state)
{
	*state ^= *state << 13;
	*state ^= *state >> 7;
	*state ^= *state << 17;
	return *state;
}

/* A batch of three records that decodes, but for what put_right adds. Returns its length and the
 * choice before it. */
static uint32_t
good_batch(uint8_t *out, uint64_t *state)
{
	uint32_t pos = ILOG_BATCH_HEADER_BYTES;
	struct ilog_batch_header h = {.record_count = le32_of(2)}; /* put_right makes it 3 */

	memset(out, 0, 1 + 2 * SECTOR_BYTES);
	out[0] = 7;
	for (uint64_t i = 1; i <= 3; i++) {
		struct ilog_record_header r = {
		    .len_bytes = le32_of((uint32_t)(next(state) % 900)),
		    .type = le16_of(1),
		    .seq = le64_of(i),
		    .txg = le64_of(4 + i),
		};

		memcpy(out + 1 + pos, &r, sizeof(r));
		pos += ilog_record_bytes(le32_get(r.len_bytes));
	}
	h.min_txg = le64_of(5);
	h.max_txg = le64_of(7);
	memcpy(out + 1, &h, sizeof(h));
	return ALIGN_UP(pos, SECTOR_BYTES);
}

int
main(void)
{
	static uint8_t buf[1 + 2 * SECTOR_BYTES];
	uint64_t state = 0x243f6a8885a308d3ull;

	for (unsigned i = 0; i < 40000; i++) {
		uint32_t len = good_batch(buf, &state);
		bool untouched = i % 12 == 9; /* neither junk nor changed */

		if (i % 4 == 0) {
			for (uint32_t at = 0; at <= len; at++) {
				buf[at] = (uint8_t)next(&state);
			}
		}
		for (uint64_t n = i % 3; n > 0; n--) {
			buf[next(&state) % (ILOG_BATCH_HEADER_BYTES * 4)] = (uint8_t)next(&state);
		}
		if (i % 16 == 5 && !untouched) {
			len = (uint32_t)(next(&state) % len);
		}
		(void)LLVMFuzzerTestOneInput(buf, len + 1);
		if (untouched) {
			struct ilog_batch_info info;
			struct ilog_expect want = {.guid = guid, .epoch = 1, .batch_seq = 1};

			put_right(buf + 1, len, 7);
			require(ilog_batch_decode(buf + 1, len, &want, &info) == 0 &&
				    info.record_count == 3,
			    "a good batch was refused");
		}
	}
	return 0;
}
#endif
