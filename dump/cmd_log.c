/*
 * cmd_log.c - the intent log: the batches from where the root says, up to the first hole, as a
 * replay would see them. Any side's copy of a batch will do.
 */
#include "dump/dump.h"

#define BATCH_HEADER 128u
#define RECORD_HEADER 64u
#define PAYLOAD_MAX ((1u << 20) + 4096u)
#define BATCH_MAX (PAYLOAD_MAX + SECTOR)
#define SIDES_MAX WIDTH_MAX
#define FS_RECORD 0x90u
#define FS_INODE 0x88u

struct ring {
	const struct dump_drive *side[SIDES_MAX];
	uint32_t side_count;
	uint64_t bytes;
	const uint8_t *guid;
	const char *name;
};

/* ---- which ring ---- */

/* A drive that was out for a part of the epoch has a part of the log only. */
static void
ring_add(struct ring *r, const struct dump_member *m)
{
	bool partial = m->role == ROLE_LOG ? m->dirty_from != 0 : m->ring_stale;

	if (m->drive != NULL && !partial && r->side_count < SIDES_MAX) {
		r->side[r->side_count++] = m->drive;
	}
}

/* Which columns of set 0 a ring in the pool has been given isn't written anywhere: any that has the
 * batch will do. */
static bool
ring_find(const struct dump_pool *p, struct ring *r)
{
	const struct dump_config *c = &p->config;
	bool in_pool = memcmp(p->uber.log_guid, c->ring_guid, GUID_LEN) == 0;

	*r = (struct ring){
	    .guid = p->uber.log_guid,
	    .name = in_pool ? "in the pool" : "on the log drives",
	    .bytes = in_pool ? c->ring_bytes : c->log_bytes,
	};
	for (uint32_t i = 0; i < c->member_count; i++) {
		const struct dump_member *m = &c->members[i];

		if (in_pool ? m->role == ROLE_DATA && m->set == 0 : m->role == ROLE_LOG) {
			ring_add(r, m);
		}
	}
	return !bytes_are_zero(r->guid, GUID_LEN) &&
	       (in_pool || memcmp(r->guid, c->log_guid, GUID_LEN) == 0);
}

/* ---- one batch ---- */

const char *
dump_batch_decode(const uint8_t *b, uint64_t have, uint64_t epoch, const uint8_t guid[GUID_LEN],
    uint64_t off, struct dump_batch *out)
{
	struct dump_batch h = {
	    .seq = b64(b, 0x20),
	    .off = off,
	    .len = b32(b, 0x30),
	    .record_count = b32(b, 0x34),
	    .min_txg = b64(b, 0x38),
	    .max_txg = b64(b, 0x40),
	    .first_seq = b64(b, 0x48),
	};

	if (memcmp(b, "ILOG", 4) != 0 || b16(b, 0x04) != 1 || b16(b, 0x06) != 0) {
		return "no batch";
	}
	if (memcmp(b + 0x08, guid, GUID_LEN) != 0 || b64(b, 0x18) != epoch || b64(b, 0x28) != off) {
		return "of another ring, epoch or place";
	}
	if (h.len == 0 || h.len % SECTOR != 0 || h.len > BATCH_MAX || h.seq == 0 ||
	    h.record_count == 0 || h.record_count > h.len / RECORD_HEADER) {
		return "impossible values";
	}
	if (h.len > have) {
		return "longer than the ring";
	}
	if (!dump_self_cksum_ok(b, h.len, 0x70)) {
		return "wrong checksum";
	}
	memcpy(h.prev_cksum, b + 0x60, sizeof(h.prev_cksum));
	memcpy(h.cksum, b + 0x70, sizeof(h.cksum));
	*out = h;
	return NULL;
}

/* The batch `seq` at off on any side, behind one with the checksum prev (NULL: not known). */
static bool
batch_read(const struct ring *r, uint64_t epoch, uint64_t seq, uint64_t off, const uint8_t *prev,
    uint8_t *buf, struct dump_batch *out)
{
	uint64_t have = MIN((uint64_t)BATCH_MAX, r->bytes - off);

	for (uint32_t i = 0; i < r->side_count; i++) {
		uint64_t at = REGION_START + 2 * (uint64_t)LABEL_SIZE + off;

		if (dump_drive_read(r->side[i], at, buf, have) == 0 &&
		    dump_batch_decode(buf, have, epoch, r->guid, off, out) == NULL &&
		    out->seq == seq &&
		    (prev == NULL || memcmp(prev, out->prev_cksum, sizeof(out->prev_cksum)) == 0)) {
			return true;
		}
	}
	return false;
}

/* ---- records ---- */

static const char *
fs_op_name(uint32_t op)
{
	static const char *const names[] = {
	    "?", "create", "remove", "rename", "link", "setattr", "write"};

	return op < ARRAY_LEN(names) ? names[op] : "?";
}

/* What the file system says in a record, if it parses. */
static void
fs_show(const uint8_t *b, uint32_t len)
{
	uint32_t name_len, name2_len, inodes;
	uint64_t names_at;

	if (len < FS_RECORD || b[0] != 1) {
		return;
	}
	name_len = b16(b, 0x04);
	name2_len = b16(b, 0x06);
	inodes = b[0x0a];
	names_at = FS_RECORD + (uint64_t)inodes * FS_INODE;
	if (names_at + name_len + name2_len > len) {
		return;
	}
	(void)printf(" %s steps=0x%02x object=%llu off=%llu data=%u inodes=%u", fs_op_name(b[1]),
	    b16(b, 0x02), (unsigned long long)b64(b, 0x30), (unsigned long long)b64(b, 0x50),
	    b32(b, 0x0c), inodes);
	if (name_len > 0) {
		(void)printf(" dir=%llu name=", (unsigned long long)b64(b, 0x10));
		out_text(stdout, b + names_at, name_len);
	}
	if (name2_len > 0) {
		(void)printf(" dir2=%llu name2=", (unsigned long long)b64(b, 0x20));
		out_text(stdout, b + names_at + name_len, name2_len);
	}
}

static void
record_show(const uint8_t *b, bool in_root)
{
	uint32_t payload = b32(b, 0);

	(void)printf(
	    "  record %llu txg %llu type %u dataset %016llx.%llu object %llu.%llu %u bytes%s:",
	    (unsigned long long)b64(b, 0x08), (unsigned long long)b64(b, 0x10), b16(b, 0x04),
	    (unsigned long long)b64(b, 0x18), (unsigned long long)b64(b, 0x20),
	    (unsigned long long)b64(b, 0x28), (unsigned long long)b64(b, 0x30), payload,
	    in_root ? " (in the root)" : "");
	fs_show(b + RECORD_HEADER, payload);
	(void)putchar('\n');
}

const char *
dump_records_walk(
    const uint8_t *buf, const struct dump_batch *h, const struct dump_uber *u, bool all)
{
	uint32_t at = BATCH_HEADER;

	for (uint32_t i = 0; i < h->record_count; i++) {
		const uint8_t *b = buf + at;
		uint32_t payload;
		bool in_root;

		if (h->len - at < RECORD_HEADER) {
			return "records beyond the end";
		}
		payload = b32(b, 0);
		if (payload > PAYLOAD_MAX || ALIGN_UP(payload, 8u) > h->len - at - RECORD_HEADER) {
			return "a record beyond the end";
		}
		if (b64(b, 0x08) != h->first_seq + i || b16(b, 0x04) == 0) {
			return "an impossible record";
		}
		in_root = b64(b, 0x10) <= u->log_floor || b64(b, 0x08) <= u->log_replayed;
		if (all || !in_root) {
			record_show(b, in_root);
		}
		at += RECORD_HEADER + ALIGN_UP(payload, 8u);
	}
	return NULL;
}

/* ---- the whole ---- */

static uint64_t
batches_show(const struct dump_pool *p, const struct ring *r, uint8_t *buf)
{
	uint64_t off = p->uber.log_off, seq = p->uber.log_batch, count = 0;
	uint8_t prev[16] = {0};
	bool prev_known = seq == 1;

	for (;;) {
		const uint8_t *want = prev_known ? prev : NULL;
		struct dump_batch h;
		const char *why;

		/* what doesn't fit behind the last one starts at 0 */
		if ((off >= r->bytes ||
			!batch_read(r, p->uber.log_epoch, seq, off, want, buf, &h)) &&
		    (off == 0 || (off < r->bytes && r->bytes - off >= BATCH_MAX) ||
			!batch_read(r, p->uber.log_epoch, seq, 0, want, buf, &h))) {
			return count;
		}
		(void)printf("batch %llu at %llu: %u bytes, %u records, txgs %llu..%llu\n",
		    (unsigned long long)h.seq, (unsigned long long)h.off, h.len, h.record_count,
		    (unsigned long long)h.min_txg, (unsigned long long)h.max_txg);
		why = dump_records_walk(buf, &h, &p->uber, p->verbose);
		if (why != NULL) {
			out_error("batch %llu: %s", (unsigned long long)h.seq, why);
			return count;
		}
		memcpy(prev, h.cksum, sizeof(prev));
		prev_known = true;
		off = h.off + h.len;
		seq++;
		count++;
	}
}

int
cmd_log(struct dump_pool *p)
{
	const struct dump_uber *u = &p->uber;
	struct ring r;
	uint8_t *buf;

	if ((u->flags & UBER_CLEAN_FLAG) != 0) {
		(void)printf("the pool was exported cleanly: everything is in the root\n");
	}
	if (!ring_find(p, &r) || u->log_batch == 0) {
		(void)printf("the root names no log\n");
		return 0;
	}
	(void)printf("log %s, %llu bytes, %u sides here: epoch %llu, from batch %llu at %llu; the "
		     "root has txgs up to "
		     "%llu",
	    r.name, (unsigned long long)r.bytes, r.side_count, (unsigned long long)u->log_epoch,
	    (unsigned long long)u->log_batch, (unsigned long long)u->log_off,
	    (unsigned long long)u->log_floor);
	(void)printf(u->log_replayed != 0 ? " and records up to %llu\n" : "\n",
	    (unsigned long long)u->log_replayed);
	if (r.bytes == 0 || u->log_off >= r.bytes || u->log_off % SECTOR != 0) {
		out_error("an impossible position");
		return 1;
	}
	buf = mem_zalloc(BATCH_MAX);
	if (buf == NULL) {
		return 1;
	}
	(void)printf("%llu batches\n", (unsigned long long)batches_show(p, &r, buf));
	mem_free(buf);
	return 0;
}
