/*
 * kb_gpt.c - the partition table of a drive of ours: protective MBR, primary GPT, backup GPT. The
 * first and the last MiB of a drive belong to it wholly, and are written and cleared as a whole, so
 * that no remains of an earlier owner make other tools guess.
 *
 * The table counts in the drive's logical sectors (512 or 4096), as everybody else on the machine
 * does; image files count in 512. A reader tries both.
 *
 * The backup is written first and made durable, then the primary: cut between the two, the drive
 * still has one whole table. A reader takes the backup when the primary contradicts itself.
 */
#include <stdio.h>
#include "kernel-bypass/kb_gpt_format.h"
#include "kernel-bypass/kb_int.h"

#define EDGE_BYTES KB_EDGE_BYTES
#define SMALL_DRIVE_BYTES (16 * GIB)

static const uint8_t type_agate[16] = GPT_TYPE_AGATE;

uint64_t
kb_pool_bytes(uint64_t size_bytes)
{
	uint64_t unit = size_bytes < SMALL_DRIVE_BYTES ? MIB : 256 * MIB;

	if (size_bytes < 2 * EDGE_BYTES) {
		return 0;
	}
	return ALIGN_DOWN(size_bytes - 2 * EDGE_BYTES, unit);
}

uint64_t
kb_bytes_for_pool(uint64_t pool_bytes)
{
	uint64_t size = ALIGN_UP(pool_bytes, MIB) + 2 * EDGE_BYTES;

	return size < SMALL_DRIVE_BYTES ? size : ALIGN_UP(pool_bytes, 256 * MIB) + 2 * EDGE_BYTES;
}

/* CRC-32 of IEEE 802.3. A table is read once in a drive's life: no speed needed. */
static uint32_t
crc32_of(const void *data, size_t len)
{
	const uint8_t *p = data;
	uint32_t crc = UINT32_MAX;

	for (size_t i = 0; i < len; i++) {
		crc ^= p[i];
		for (int bit = 0; bit < 8; bit++) {
			crc = (crc >> 1) ^ (0xedb88320u & (0u - (crc & 1u)));
		}
	}
	return ~crc;
}

/* ---- encode ---- */

struct gpt_plan {
	uint32_t lba_bytes;
	uint64_t size_bytes;
	uint64_t last_lba;
	uint64_t entries_lbas;
	uint8_t disk_guid[16];
	struct gpt_entry entry;
};

static void
plan_name(struct gpt_entry *e, const char *name)
{
	for (size_t i = 0; i < ARRAY_LEN(e->name) - 1 && name[i] != '\0'; i++) {
		unsigned char c = (unsigned char)name[i];
		e->name[i] = le16_of(c < 0x80 ? c : '_');
	}
}

static void
plan_make(struct gpt_plan *p, const struct kb_drive *d, const uint8_t guid[16], const char *name)
{
	uint64_t pool_bytes = kb_pool_bytes(d->info.size_bytes);

	memset(p, 0, sizeof(*p));
	p->lba_bytes = d->info.logical_sector_bytes;
	p->size_bytes = d->info.size_bytes;
	p->last_lba = p->size_bytes / p->lba_bytes - 1;
	p->entries_lbas = GPT_ENTRIES_BYTES / p->lba_bytes;
	rt_random_bytes(p->disk_guid, sizeof(p->disk_guid));
	p->disk_guid[7] = (uint8_t)((p->disk_guid[7] & 0x0f) | 0x40); /* version 4 */
	p->disk_guid[8] = (uint8_t)((p->disk_guid[8] & 0x3f) | 0x80); /* RFC 4122 */
	memcpy(p->entry.type, type_agate, sizeof(type_agate));
	memcpy(p->entry.guid, guid, sizeof(p->entry.guid));
	p->entry.first_lba = le64_of(KB_POOL_START / p->lba_bytes);
	p->entry.last_lba = le64_of((KB_POOL_START + pool_bytes) / p->lba_bytes - 1);
	plan_name(&p->entry, name);
}

static void
encode_mbr(const struct gpt_plan *p, uint8_t *at)
{
	struct mbr m;

	memset(&m, 0, sizeof(m));
	m.parts[0].first[1] = 2; /* sector 2 of cylinder 0, head 0: block 1 */
	m.parts[0].type = MBR_TYPE_GPT;
	memset(m.parts[0].last, 0xff, sizeof(m.parts[0].last));
	m.parts[0].first_lba = le32_of(1);
	m.parts[0].lba_count = le32_of((uint32_t)MIN(p->last_lba, (uint64_t)UINT32_MAX));
	m.signature[0] = 0x55;
	m.signature[1] = 0xaa;
	memcpy(at, &m, sizeof(m));
}

/* Header and entries of one copy. edge: the MiB it lies in, which starts at edge_bytes of the
 * drive. */
static void
encode_table(const struct gpt_plan *p, uint8_t *edge, uint64_t edge_bytes, bool backup)
{
	uint64_t my_lba = backup ? p->last_lba : 1;
	uint64_t entries_lba = backup ? p->last_lba - p->entries_lbas : 2;
	uint8_t *entries = edge + (entries_lba * p->lba_bytes - edge_bytes);
	struct gpt_header h;

	memcpy(entries, &p->entry, sizeof(p->entry));
	memset(&h, 0, sizeof(h));
	memcpy(h.signature, GPT_SIGNATURE, sizeof(h.signature));
	h.revision = le32_of(GPT_REVISION);
	h.header_bytes = le32_of(GPT_HEADER_BYTES);
	h.my_lba = le64_of(my_lba);
	h.other_lba = le64_of(backup ? 1 : p->last_lba);
	h.first_usable = le64_of(2 + p->entries_lbas);
	h.last_usable = le64_of(p->last_lba - p->entries_lbas - 1);
	memcpy(h.disk_guid, p->disk_guid, sizeof(h.disk_guid));
	h.entries_lba = le64_of(entries_lba);
	h.entry_count = le32_of(GPT_ENTRIES);
	h.entry_bytes = le32_of(GPT_ENTRY_BYTES);
	h.entries_crc = le32_of(crc32_of(entries, GPT_ENTRIES_BYTES));
	h.header_crc = le32_of(crc32_of(&h, sizeof(h)));
	memcpy(edge + (my_lba * p->lba_bytes - edge_bytes), &h, sizeof(h));
}

/* ---- decode ---- */

/* True, and *h, when the header at off of the edge is whole and its entries lie, whole, in the same
 * edge. */
static bool
decode_header(const uint8_t *edge, uint64_t edge_bytes, uint64_t my_lba, uint32_t lba_bytes,
    struct gpt_header *h)
{
	struct gpt_header zeroed;

	memcpy(h, edge + (my_lba * lba_bytes - edge_bytes), sizeof(*h));
	zeroed = *h;
	zeroed.header_crc = le32_of(0);
	if (memcmp(h->signature, GPT_SIGNATURE, sizeof(h->signature)) != 0 ||
	    le32_get(h->header_bytes) != GPT_HEADER_BYTES || le64_get(h->my_lba) != my_lba ||
	    le32_get(h->header_crc) != crc32_of(&zeroed, sizeof(zeroed))) {
		return false;
	}
	uint64_t lba = le64_get(h->entries_lba);
	uint64_t bytes = (uint64_t)le32_get(h->entry_count) * GPT_ENTRY_BYTES;
	if (le32_get(h->entry_bytes) != GPT_ENTRY_BYTES || bytes > EDGE_BYTES ||
	    lba > UINT64_MAX / lba_bytes || lba * lba_bytes < edge_bytes ||
	    lba * lba_bytes - edge_bytes > EDGE_BYTES - bytes) {
		return false;
	}
	const uint8_t *entries = edge + (lba * lba_bytes - edge_bytes);
	return le32_get(h->entries_crc) == crc32_of(entries, (size_t)bytes);
}

static bool
decode_is_ours(
    const struct gpt_header *h, const uint8_t *edge, uint64_t edge_bytes, uint32_t lba_bytes)
{
	const uint8_t *entries = edge + (le64_get(h->entries_lba) * lba_bytes - edge_bytes);

	for (uint32_t i = 0; i < le32_get(h->entry_count); i++) {
		struct gpt_entry e;
		memcpy(&e, entries + i * GPT_ENTRY_BYTES, sizeof(e));
		if (memcmp(e.type, type_agate, sizeof(e.type)) == 0 &&
		    le64_get(e.first_lba) == KB_POOL_START / lba_bytes) {
			return true;
		}
	}
	return false;
}

enum kb_gpt_look
kb_gpt_look(const struct kb_edges *e)
{
	static const uint32_t sizes[] = {512, 4096};
	enum kb_gpt_look found = KB_GPT_NONE;
	uint64_t tail_bytes = e->size_bytes - EDGE_BYTES;
	struct gpt_header h;

	for (size_t i = 0; i < ARRAY_LEN(sizes); i++) {
		uint64_t last_lba = e->size_bytes / sizes[i] - 1;
		if (decode_header(e->head, 0, 1, sizes[i], &h)) {
			return decode_is_ours(&h, e->head, 0, sizes[i]) ? KB_GPT_OURS
									: KB_GPT_FOREIGN;
		}
		if (decode_header(e->tail, tail_bytes, last_lba, sizes[i], &h)) {
			found = decode_is_ours(&h, e->tail, tail_bytes, sizes[i]) ? KB_GPT_OURS
										  : KB_GPT_FOREIGN;
		}
	}
	return found;
}

/* ---- drives ---- */

static int
check_size(const struct kb_drive *d)
{
	return kb_pool_bytes(d->info.size_bytes) == 0 ? -EINVAL : 0;
}

int
kb_gpt_write(struct kb_drive *d, const uint8_t part_guid[16], const char *part_name)
{
	uint64_t tail_bytes = d->info.size_bytes - EDGE_BYTES;
	struct gpt_plan plan;
	struct iobuf *edge;
	int err = check_size(d);

	if (err == 0) {
		err = iobuf_alloc(EDGE_BYTES, ARENA_REPAIR, &edge);
	}
	if (err != 0) {
		return err;
	}
	plan_make(&plan, d, part_guid, part_name);
	memset(edge->data, 0, EDGE_BYTES);
	encode_table(&plan, edge->data, tail_bytes, true);
	err = kb_write(d, tail_bytes, edge, EDGE_BYTES, KB_FUA);
	if (err != 0) {
		goto unref;
	}
	memset(edge->data, 0, EDGE_BYTES);
	encode_mbr(&plan, edge->data);
	encode_table(&plan, edge->data, 0, false);
	err = kb_write(d, 0, edge, EDGE_BYTES, KB_FUA);
unref:
	iobuf_unref(edge);
	return err;
}

int
kb_gpt_clear(struct kb_drive *d)
{
	struct iobuf *edge;
	int err = check_size(d);

	if (err == 0) {
		err = iobuf_alloc(EDGE_BYTES, ARENA_REPAIR, &edge);
	}
	if (err != 0) {
		return err;
	}
	memset(edge->data, 0, EDGE_BYTES);
	err = kb_write(d, 0, edge, EDGE_BYTES, KB_FUA);
	if (err == 0) {
		err = kb_write(d, d->info.size_bytes - EDGE_BYTES, edge, EDGE_BYTES, KB_FUA);
	}
	iobuf_unref(edge);
	return err;
}

int
kb_gpt_probe(struct kb_drive *d, enum kb_content *out, char *out_what, size_t what_len)
{
	uint64_t tail_bytes = d->info.size_bytes - EDGE_BYTES;
	struct iobuf *head;
	struct iobuf *tail;
	int err = check_size(d);

	if (err == 0) {
		err = iobuf_alloc(EDGE_BYTES, ARENA_REPAIR, &head);
	}
	if (err != 0) {
		return err;
	}
	err = iobuf_alloc(EDGE_BYTES, ARENA_REPAIR, &tail);
	if (err != 0) {
		goto unref_head;
	}
	err = kb_read(d, 0, head, EDGE_BYTES);
	if (err == 0) {
		err = kb_read(d, tail_bytes, tail, EDGE_BYTES);
	}
	if (err == 0) {
		struct kb_edges e = {head->data, tail->data, d->info.size_bytes};
		*out = kb_content_of(&e, out_what, what_len);
	}
	iobuf_unref(tail);
unref_head:
	iobuf_unref(head);
	return err;
}
