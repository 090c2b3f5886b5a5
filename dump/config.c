/*
 * config.c - the configuration behind a label's header: which sets and drives a pool has. Every
 * index is checked against what it indexes, and every column of every set is named exactly once.
 */
#include "dump/dump.h"

#define HEADER_SIZE 0x200u
#define SET_SIZE 64u
#define MEMBER_SIZE 0x200u
#define MEMBERS_MAX 960u
#define LOG_SIDES 4u
#define SEGMENTS_MAX 524288u
#define MEMBER_RING_STALE 1u
#define MEMBER_TWIN 16u
#define FEATURE_TWINS 1u

static const char *
set_decode(const uint8_t *b, struct dump_set *s)
{
	*s = (struct dump_set){
	    .kind = b32(b, 0x10),
	    .width = b32(b, 0x14),
	    .parity = b32(b, 0x18),
	    .base_bytes = b64(b, 0x20),
	    .column_bytes = b64(b, 0x28),
	    .segment_sectors = b64(b, 0x30),
	    .segment_count = b64(b, 0x38),
	};
	memcpy(s->guid, b, GUID_LEN);
	if (b32(b, 0x1c) != 0) {
		return "a set with unknown flags";
	}
	if (s->width < 1 || s->width > WIDTH_MAX ||
	    (s->kind == KIND_PARITY && (s->width < 3 || s->parity < 1 || s->parity > PARITY_MAX ||
					   s->parity >= s->width - 1)) ||
	    s->kind > KIND_MIRROR) {
		return "a set of an impossible kind or width";
	}
	if (s->base_bytes % SECTOR != 0 ||
	    s->base_bytes < REGION_START + 2 * (uint64_t)LABEL_SIZE ||
	    s->base_bytes > (uint64_t)1 << 60 || s->column_bytes % SECTOR != 0 ||
	    s->column_bytes == 0 || s->column_bytes > (uint64_t)1 << 60) {
		return "a set with impossible columns";
	}
	s->capacity_sectors = s->column_bytes / SECTOR;
	if (s->kind == KIND_PARITY) {
		s->capacity_sectors *= s->width;
	}
	if (s->segment_sectors == 0 || s->segment_count == 0 || s->segment_count > SEGMENTS_MAX ||
	    s->segment_count > s->capacity_sectors / s->segment_sectors + 1) {
		return "a set with impossible segments";
	}
	return NULL;
}

static const char *
member_decode(const uint8_t *b, const struct dump_config *c, struct dump_member *m)
{
	*m = (struct dump_member){
	    .role = b32(b, 0x10),
	    .set = b32(b, 0x14),
	    .column = b32(b, 0x18),
	    .state = b32(b, 0x1c),
	    .region_bytes = b64(b, 0x20),
	    .dirty_from = b64(b, 0x28),
	    .dirty_to = b64(b, 0x30),
	    .ring_stale = (b32(b, 0x38) & MEMBER_RING_STALE) != 0,
	    .twin = (b32(b, 0x38) & MEMBER_TWIN) != 0,
	};
	memcpy(m->guid, b, GUID_LEN);
	memcpy(m->id, b + 0x80, sizeof(m->id));
	memcpy(m->path, b + 0x100, sizeof(m->path));
	if (m->role < ROLE_DATA || m->role > ROLE_SPARE || m->state < 1 || m->state > 4 ||
	    m->id[sizeof(m->id) - 1] != '\0' || m->path[sizeof(m->path) - 1] != '\0' ||
	    m->region_bytes > (uint64_t)1 << 62) {
		return "a drive with impossible values";
	}
	if (m->role == ROLE_DATA &&
	    (m->set >= c->set_count || m->column >= c->sets[m->set].width ||
		c->sets[m->set].base_bytes - REGION_START + c->sets[m->set].column_bytes +
			2 * (uint64_t)LABEL_SIZE >
		    m->region_bytes)) {
		return "a drive whose column isn't there, or doesn't fit it";
	}
	if (m->role == ROLE_LOG && m->column >= LOG_SIDES) {
		return "too many log sides";
	}
	return NULL;
}

/* Each column once. */
static const char *
columns_check(const struct dump_config *c)
{
	uint32_t want = 0, got = 0, seen[SETS_MAX] = {0};

	for (uint32_t i = 0; i < c->set_count; i++) {
		want += c->sets[i].width;
	}
	for (uint32_t i = 0; i < c->member_count; i++) {
		const struct dump_member *m = &c->members[i];

		if (m->role != ROLE_DATA || m->twin) {
			continue;
		}
		if ((seen[m->set] >> m->column & 1) != 0) {
			return "two drives for one column";
		}
		seen[m->set] |= 1u << m->column;
		got++;
	}
	return got == want ? NULL : "a column without a drive";
}

static const char *
header_decode(const uint8_t *b, uint32_t len, struct dump_config *c)
{
	if (len < HEADER_SIZE || memcmp(b, "1AGTCONG", 8) != 0 || b32(b, 0x08) != 1) {
		return "no configuration of this version";
	}
	c->set_count = b32(b, 0x0c);
	c->member_count = b32(b, 0x10);
	c->config_txg = b64(b, 0x48);
	c->create_time = b64(b, 0x50);
	c->ring_bytes = b64(b, 0x58);
	c->log_bytes = b64(b, 0x60);
	c->feat_compat = b64(b, 0x68);
	c->feat_rocompat = b64(b, 0x70);
	c->feat_incompat = b64(b, 0x78);
	memcpy(c->pool_guid, b + 0x18, GUID_LEN);
	memcpy(c->log_guid, b + 0x28, GUID_LEN);
	memcpy(c->ring_guid, b + 0x38, GUID_LEN);
	memcpy(c->name, b + 0x100, sizeof(c->name));
	if ((c->feat_incompat & ~(uint64_t)FEATURE_TWINS) != 0) {
		return "the pool uses incompatible features that this program doesn't know";
	}
	if (c->set_count == 0 || c->set_count > SETS_MAX || c->member_count == 0 ||
	    c->member_count > MEMBERS_MAX || c->config_txg == 0 ||
	    c->name[sizeof(c->name) - 1] != '\0' || c->ring_bytes % SECTOR != 0 ||
	    c->ring_bytes > (uint64_t)1 << 50 || c->log_bytes % SECTOR != 0 ||
	    c->log_bytes > (uint64_t)1 << 60) {
		return "impossible values";
	}
	if (len != HEADER_SIZE + c->set_count * SET_SIZE + c->member_count * MEMBER_SIZE) {
		return "another length than its counts say";
	}
	return NULL;
}

const char *
dump_config_decode(const uint8_t *b, uint32_t len, struct dump_config *out)
{
	const uint8_t *at = b + HEADER_SIZE;
	const char *why;

	memset(out, 0, sizeof(*out));
	why = header_decode(b, len, out);
	for (uint32_t i = 0; why == NULL && i < out->set_count; i++, at += SET_SIZE) {
		why = set_decode(at, &out->sets[i]);
	}
	if (why != NULL) {
		return why;
	}
	out->members = mem_zalloc_array(out->member_count, sizeof(*out->members));
	if (out->members == NULL) {
		return "no memory";
	}
	for (uint32_t i = 0; why == NULL && i < out->member_count; i++, at += MEMBER_SIZE) {
		why = member_decode(at, out, &out->members[i]);
	}
	why = why == NULL ? columns_check(out) : why;
	if (why != NULL) {
		dump_config_free(out);
	}
	return why;
}

void
dump_config_free(struct dump_config *c)
{
	mem_free(c->members);
	c->members = NULL;
}
