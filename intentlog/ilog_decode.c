/*
 * ilog_decode.c - bytes of a drive -> a validated batch and its records, or an error. Nothing here
 * trusts a length before it has been compared with what is there, and no record is handed out
 * before the checksum of its whole batch has agreed and every record header in it has been walked.
 */
#define XXH_STATIC_LINKING_ONLY /* a hash state on the stack */
#include "base/xxh.h"
#include "intentlog/ilog_int.h"

static void
cksum_finish(const XXH3_state_t *state, struct ilog_cksum *out)
{
	XXH128_canonical_t canonical;

	STATIC_ASSERT(sizeof(canonical) == sizeof(*out));
	XXH128_canonicalFromHash(&canonical, XXH3_128bits_digest(state));
	memcpy(out, &canonical, sizeof(*out));
}

void
ilog_cksum_chunks(const struct kb_seg *segs, uint32_t seg_count, struct ilog_cksum *out)
{
	XXH3_state_t state;

	if (seg_count == 1) {
		XXH128_canonical_t canonical;

		XXH128_canonicalFromHash(
		    &canonical, XXH3_128bits(segs[0].buf->data, segs[0].len_bytes));
		memcpy(out, &canonical, sizeof(*out));
		return;
	}
	(void)XXH3_128bits_reset(&state);
	for (uint32_t i = 0; i < seg_count; i++) {
		(void)XXH3_128bits_update(&state, segs[i].buf->data, segs[i].len_bytes);
	}
	cksum_finish(&state, out);
}

/* The checksum of a batch as it should be: its field counts as zero. */
static void
cksum_batch(const uint8_t *buf, uint32_t len, struct ilog_cksum *out)
{
	static const struct ilog_cksum zero;
	const size_t at = offsetof(struct ilog_batch_header, cksum);
	XXH3_state_t state;

	(void)XXH3_128bits_reset(&state);
	(void)XXH3_128bits_update(&state, buf, at);
	(void)XXH3_128bits_update(&state, &zero, sizeof(zero));
	(void)XXH3_128bits_update(&state, buf + at + sizeof(zero), len - at - sizeof(zero));
	cksum_finish(&state, out);
}

int
ilog_header_decode(const void *buf, const uint8_t guid[16], uint64_t epoch, uint64_t off_bytes,
    struct ilog_batch_info *out)
{
	struct ilog_batch_header h;
	struct ilog_batch_info info;

	memcpy(&h, buf, sizeof(h));
	if (le32_get(h.magic) != ILOG_BATCH_MAGIC || le16_get(h.version) != ILOG_FORMAT_VERSION ||
	    le16_get(h.flags) != 0 || memcmp(h.guid, guid, sizeof(h.guid)) != 0 ||
	    le64_get(h.off_bytes) != off_bytes) {
		return -ERR_CORRUPT;
	}
	if (le64_get(h.epoch) != epoch && !DELIBERATE_BUG("ilog-epoch-unchecked")) {
		return -ERR_CORRUPT;
	}
	info = (struct ilog_batch_info){
	    .batch_seq = le64_get(h.batch_seq),
	    .off_bytes = off_bytes,
	    .first_seq = le64_get(h.first_seq),
	    .min_txg = le64_get(h.min_txg),
	    .max_txg = le64_get(h.max_txg),
	    .tail_batch = le64_get(h.tail_batch),
	    .durable_batch = le64_get(h.durable_batch),
	    .len_bytes = le32_get(h.len_bytes),
	    .record_count = le32_get(h.record_count),
	    .cksum = h.cksum,
	};
	if (info.len_bytes % SECTOR_BYTES != 0 || info.len_bytes == 0 ||
	    info.len_bytes > ILOG_BATCH_BYTES_MAX || info.record_count == 0 ||
	    info.record_count > info.len_bytes / ILOG_RECORD_HEADER_BYTES) {
		return -ERR_CORRUPT;
	}
	if (info.batch_seq == 0 || info.tail_batch == 0 || info.tail_batch > info.batch_seq ||
	    info.durable_batch >= info.batch_seq || info.first_seq == 0 ||
	    info.first_seq > UINT64_MAX - info.record_count || info.min_txg > info.max_txg) {
		return -ERR_CORRUPT;
	}
	*out = info;
	return 0;
}

int
ilog_record_decode(
    const void *buf, uint32_t len, uint32_t *pos, struct ilog_record *out, const void **out_payload)
{
	const uint8_t *at;
	struct ilog_record_header h;
	uint32_t payload_bytes;

	if (*pos > len || len - *pos < ILOG_RECORD_HEADER_BYTES) {
		return -ERR_CORRUPT;
	}
	at = (const uint8_t *)buf + *pos;
	memcpy(&h, at, sizeof(h));
	payload_bytes = le32_get(h.len_bytes);
	if (payload_bytes > ILOG_PAYLOAD_MAX || ilog_record_bytes(payload_bytes) > len - *pos ||
	    le16_get(h.type) == 0 || le64_get(h.reserved) != 0) {
		return -ERR_CORRUPT;
	}
	*out = (struct ilog_record){
	    .type = le16_get(h.type),
	    .flags = le16_get(h.flags),
	    .seq = le64_get(h.seq),
	    .txg = le64_get(h.txg),
	    .dataset = le64_get(h.dataset),
	    .incarnation = le64_get(h.incarnation),
	    .object = le64_get(h.object),
	    .generation = le64_get(h.generation),
	    .len_bytes = payload_bytes,
	};
	*out_payload = at + ILOG_RECORD_HEADER_BYTES;
	*pos += ilog_record_bytes(payload_bytes);
	return 0;
}

/* Every record is in bounds and agrees with the header. */
static int
records_check(const void *buf, const struct ilog_batch_info *info)
{
	uint64_t min_txg = UINT64_MAX, max_txg = 0;
	uint32_t pos = ILOG_BATCH_HEADER_BYTES;

	for (uint32_t i = 0; i < info->record_count; i++) {
		struct ilog_record rec;
		const void *payload;
		int err = ilog_record_decode(buf, info->len_bytes, &pos, &rec, &payload);

		if (err != 0) {
			return err;
		}
		if (rec.seq != info->first_seq + i) {
			return -ERR_CORRUPT;
		}
		min_txg = MIN(min_txg, rec.txg);
		max_txg = MAX(max_txg, rec.txg);
	}
	if (min_txg != info->min_txg || max_txg != info->max_txg ||
	    info->len_bytes - pos >= SECTOR_BYTES) {
		return -ERR_CORRUPT;
	}
	return 0;
}

int
ilog_batch_decode(
    const void *buf, uint64_t len, const struct ilog_expect *want, struct ilog_batch_info *out)
{
	const struct ilog_batch_header *h = buf;
	struct ilog_batch_info info;
	struct ilog_cksum cksum;
	int err;

	if (len < ILOG_BATCH_HEADER_BYTES) {
		return -ERR_TOOSMALL;
	}
	err = ilog_header_decode(buf, want->guid, want->epoch, want->off_bytes, &info);
	if (err != 0) {
		return err;
	}
	if (info.batch_seq != want->batch_seq) {
		return -ERR_CORRUPT;
	}
	if (want->prev_cksum != NULL && !DELIBERATE_BUG("ilog-prev-unchecked") &&
	    memcmp(&h->prev_cksum, want->prev_cksum, sizeof(h->prev_cksum)) != 0) {
		return -ERR_CORRUPT;
	}
	if (info.len_bytes > len) {
		*out = info;
		return -ERR_TOOSMALL;
	}
	cksum_batch(buf, info.len_bytes, &cksum);
	if (memcmp(&cksum, &info.cksum, sizeof(cksum)) != 0) {
		return -ERR_CORRUPT;
	}
	err = records_check(buf, &info);
	if (err != 0) {
		return err;
	}
	*out = info;
	return 0;
}
