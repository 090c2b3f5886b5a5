/*
 * label.c - labels and uberblocks: bytes to struct. Each says where it was meant to be and whose it
 * is; one that is somewhere else, or was torn, isn't valid, and the reason is kept for `labels`.
 */
#include "dump/dump.h"

#define LABEL_MAGIC_TEXT "1AGTABEL" /* the eight bytes as they lie on the drive */
#define UBER_MAGIC_TEXT "1AGTUBER"
#define FORMAT_VERSION 1u

const char *
dump_label_decode(const uint8_t *b, uint64_t own_offset, unsigned index, struct dump_label *out)
{
	struct dump_label l = {0};
	uint8_t sum[32];

	if (memcmp(b, LABEL_MAGIC_TEXT, 8) != 0) {
		return bytes_are_zero(b, SECTOR) ? "empty" : "no label";
	}
	if (!dump_self_cksum_ok(b, SECTOR, 0xff0)) {
		return "wrong checksum";
	}
	if (b32(b, 0x08) != FORMAT_VERSION) {
		return "another version of the format";
	}
	l.region_bytes = b64(b, 0x18);
	l.role = b32(b, 0x40);
	l.set = b32(b, 0x44);
	l.column = b32(b, 0x48);
	l.config_bytes = b32(b, 0x4c);
	l.config_txg = b64(b, 0x50);
	l.claim_txg = b64(b, 0x68);
	memcpy(l.pool_guid, b + 0x20, GUID_LEN);
	memcpy(l.drive_guid, b + 0x30, GUID_LEN);
	if (b32(b, 0x0c) != index || b64(b, 0x10) != own_offset) {
		return "belongs elsewhere";
	}
	if (l.region_bytes > (uint64_t)1 << 62 || l.region_bytes < LABELS * (uint64_t)LABEL_SIZE ||
	    dump_label_offset(l.region_bytes, index) != own_offset) {
		return "impossible region";
	}
	if (l.role < ROLE_DATA || l.role > ROLE_SPARE || bytes_are_zero(l.drive_guid, GUID_LEN)) {
		return "impossible role or guid";
	}
	if (l.config_txg > (uint64_t)1 << 62) {
		return "impossible number of a configuration";
	}
	if (l.config_bytes > CONFIG_MAX || (l.config_bytes == 0) != (l.role == ROLE_SPARE)) {
		return "impossible length of configuration";
	}
	dump_cksum(CKSUM_XXH3, b + CONFIG_AT, l.config_bytes, sum);
	if (l.config_bytes > 0 && memcmp(sum, b + 0x58, 16) != 0) {
		return "wrong checksum of the configuration";
	}
	*out = l;
	return NULL;
}

static const char *
uber_pointers_check(const uint8_t *b)
{
	struct dump_bp bp;

	if (dump_bp_decode(b + 0x100, SETS_MAX, &bp) != NULL || bp.hole || bp.type != TYPE_OBJSET) {
		return "impossible root";
	}
	if (dump_bp_decode(b + 0x180, SETS_MAX, &bp) != NULL || bp.hole || bp.type != TYPE_MAPLOG) {
		return "impossible map log";
	}
	return NULL;
}

static void
uber_fill(const uint8_t *b, struct dump_uber *u)
{
	*u = (struct dump_uber){
	    .flags = b32(b, 0x0c),
	    .timeline = b64(b, 0x20),
	    .txg = b64(b, 0x28),
	    .time_ns = b64(b, 0x30),
	    .config_txg = b64(b, 0x38),
	    .host_id = b64(b, 0x58),
	    .heartbeat = b64(b, 0x60),
	    .log_epoch = b64(b, 0x68),
	    .log_batch = b64(b, 0x80),
	    .log_off = b64(b, 0x88),
	    .log_floor = b64(b, 0x90),
	    .log_replayed = b64(b, 0x98),
	    .used_sectors = b64(b, 0x200),
	    .deferred_sectors = b64(b, 0x208),
	};
	memcpy(u->pool_guid, b + 0x10, GUID_LEN);
	memcpy(u->drive_guid, b + 0x48, GUID_LEN);
	memcpy(u->log_guid, b + 0x70, GUID_LEN);
	memcpy(u->host_name, b + 0xa0, sizeof(u->host_name));
	memcpy(u->root, b + 0x100, 128);
	memcpy(u->maplog, b + 0x180, 128);
}

const char *
dump_uber_decode(const uint8_t *b, uint64_t own_offset, unsigned slot, const uint8_t *pool_guid,
    const uint8_t *drive_guid, struct dump_uber *out)
{
	struct dump_uber u;
	const char *why;

	if (memcmp(b, UBER_MAGIC_TEXT, 8) != 0) {
		return bytes_are_zero(b, UBER_SIZE) ? "empty" : "no uberblock";
	}
	if (!dump_self_cksum_ok(b, UBER_SIZE, 0xff0)) {
		return "wrong checksum";
	}
	if (b32(b, 0x08) != FORMAT_VERSION) {
		return "another version of the format";
	}
	uber_fill(b, &u);
	if (b64(b, 0x40) != own_offset || u.txg % UBER_COUNT != slot) {
		return "belongs elsewhere";
	}
	if ((pool_guid != NULL && memcmp(u.pool_guid, pool_guid, GUID_LEN) != 0) ||
	    (drive_guid != NULL && memcmp(u.drive_guid, drive_guid, GUID_LEN) != 0)) {
		return "of another pool or drive";
	}
	if (u.txg == 0 || u.timeline == 0 || u.host_name[sizeof(u.host_name) - 1] != 0 ||
	    u.deferred_sectors > u.used_sectors) {
		return "impossible values";
	}
	why = uber_pointers_check(b);
	if (why == NULL) {
		*out = u;
	}
	return why;
}

static int
cmp64(uint64_t a, uint64_t b)
{
	return a < b ? -1 : a > b;
}

int
dump_uber_cmp(const struct dump_uber *a, const struct dump_uber *b)
{
	int c = cmp64(a->timeline, b->timeline);

	c = c != 0 ? c : cmp64(a->txg, b->txg);
	c = c != 0 ? c : cmp64(a->config_txg, b->config_txg);
	return c != 0 ? c : cmp64(a->heartbeat, b->heartbeat);
}
