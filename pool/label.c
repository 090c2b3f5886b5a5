/*
 * label.c - four labels a drive: whose it is, and the configuration. Written in two pairs, even
 * ones first, so that at any instant one pair is whole. A label says where it lies and whose it is:
 * a copy on another drive or place doesn't decode.
 */
#include <stdio.h>

#include "pool/label.h"
#include "pool/pool_int.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

uint64_t
label_offset(uint64_t region_bytes, unsigned index)
{
	uint64_t in = (uint64_t)index * LABEL_BYTES;

	if (index >= LABEL_COUNT / 2) {
		in = region_bytes - LABEL_BACK_BYTES +
		     (uint64_t)(index - LABEL_COUNT / 2) * LABEL_BYTES;
	}
	return KB_POOL_START + in;
}

/* As if the field itself were zero. */
static void
self_cksum_compute(const void *bytes, uint32_t len, uint32_t at, uint8_t out[16])
{
	static const uint8_t zero[16];
	const uint8_t *b = bytes;
	XXH3_state_t state;
	XXH128_canonical_t c;

	(void)XXH3_128bits_reset(&state);
	(void)XXH3_128bits_update(&state, b, at);
	(void)XXH3_128bits_update(&state, zero, sizeof(zero));
	(void)XXH3_128bits_update(&state, b + at + sizeof(zero), len - at - sizeof(zero));
	XXH128_canonicalFromHash(&c, XXH3_128bits_digest(&state));
	memcpy(out, c.digest, 16);
}

void
self_cksum_set(void *bytes, uint32_t len, uint32_t at)
{
	uint8_t sum[16];

	self_cksum_compute(bytes, len, at, sum);
	memcpy((uint8_t *)bytes + at, sum, sizeof(sum));
}

bool
self_cksum_ok(const void *bytes, uint32_t len, uint32_t at)
{
	uint8_t sum[16];

	self_cksum_compute(bytes, len, at, sum);
	return memcmp((const uint8_t *)bytes + at, sum, sizeof(sum)) == 0;
}

void
label_encode(const struct vdevs *v, const struct vdev_drive *d, unsigned index, uint64_t config_txg,
    uint32_t config_len, uint8_t *out)
{
	struct label_header *h = (struct label_header *)(void *)out;
	uint8_t sum[32] = {0};
	bool spare = d->role == DRIVE_ROLE_SPARE;

	if (!spare) {
		cksum_compute(BP_CKSUM_XXH3, out + LABEL_CONFIG_OFF, config_len, sum);
	}
	memset(h, 0, sizeof(*h));
	h->magic = le64_of(LABEL_MAGIC);
	h->version = le32_of(POOL_FORMAT_VERSION);
	h->label_index = le32_of(index);
	h->own_offset = le64_of(label_offset(d->region_bytes, index));
	h->region_bytes = le64_of(d->region_bytes);
	h->drive_guid = d->guid;
	h->role = le32_of(d->role);
	h->set_index = le32_of(d->set_index);
	h->column = le32_of(d->column);
	h->config_txg = le64_of(config_txg);
	if (!spare) {
		h->pool_guid = v->pool_guid;
		h->config_bytes = le32_of(config_len);
		memcpy(&h->config_cksum, sum, sizeof(h->config_cksum));
	}
	self_cksum_set(h, sizeof(*h), offsetof(struct label_header, cksum));
}

int
label_decode(
    const uint8_t *bytes, uint32_t len, uint64_t own_offset, unsigned index, struct label *out)
{
	const struct label_header *h = (const struct label_header *)(const void *)bytes;
	uint32_t config_bytes, role;
	uint8_t sum[32];

	if (len < sizeof(*h) || le64_get(h->magic) != LABEL_MAGIC) {
		return -ENOENT;
	}
	if (!self_cksum_ok(h, sizeof(*h), offsetof(struct label_header, cksum))) {
		return -ERR_CORRUPT;
	}
	if (le32_get(h->version) != POOL_FORMAT_VERSION) {
		return -ERR_FEATURE;
	}
	config_bytes = le32_get(h->config_bytes);
	role = le32_get(h->role);
	if (le64_get(h->own_offset) != own_offset || le32_get(h->label_index) != index ||
	    role < DRIVE_ROLE_DATA || role > DRIVE_ROLE_SPARE || guid_is_zero(&h->drive_guid) ||
	    le64_get(h->region_bytes) > (uint64_t)1 << 62 ||
	    le64_get(h->region_bytes) < LABEL_FRONT_BYTES + LABEL_BACK_BYTES ||
	    label_offset(le64_get(h->region_bytes), index) != own_offset ||
	    le64_get(h->config_txg) > CONFIG_TXG_MAX || config_bytes > LABEL_CONFIG_BYTES_MAX ||
	    config_bytes > len - LABEL_CONFIG_OFF ||
	    (config_bytes == 0) != (role == DRIVE_ROLE_SPARE)) {
		return -ERR_CORRUPT;
	}
	if (config_bytes > 0) {
		cksum_compute(BP_CKSUM_XXH3, bytes + LABEL_CONFIG_OFF, config_bytes, sum);
		if (memcmp(sum, &h->config_cksum, sizeof(h->config_cksum)) != 0) {
			return -ERR_CORRUPT;
		}
	}
	*out = (struct label){
	    .pool_guid = h->pool_guid,
	    .drive_guid = h->drive_guid,
	    .role = (enum drive_role)role,
	    .set_index = le32_get(h->set_index),
	    .column = le32_get(h->column),
	    .config_bytes = config_bytes,
	    .config_txg = le64_get(h->config_txg),
	    .region_bytes = le64_get(h->region_bytes),
	    .claim_txg = le64_get(h->claim_txg),
	};
	return 0;
}

/* ---- what a drive says of itself ---- */

/* Reads label `index` and looks at its ring. Errors of the drive are remembered only if nothing
 * else is found. */
static int
probe_label(struct probe *pr, struct iobuf *buf, unsigned index)
{
	uint64_t off = label_offset(pr->region_bytes, index);
	int err = kb_read(pr->kb, off, buf, LABEL_BYTES);

	if (err != 0) {
		return err;
	}
	err = label_decode(buf->data, LABEL_UBER_OFF, off, index, &pr->label[index]);
	if (err != 0) {
		return err;
	}
	pr->valid[index] = true;
	pr->config_max = MAX(pr->config_max, pr->label[index].config_txg);
	if (guid_is_zero(&pr->id.drive_guid)) {
		pr->id = pr->label[index];
	}
	uber_scan_ring(buf->data + LABEL_UBER_OFF, off + LABEL_UBER_OFF, &pr->id.pool_guid,
	    &pr->id.drive_guid, NULL, pr->uber, &pr->has_uber);
	return 0;
}

int
probe_drive(struct kb_drive *kb, struct probe *out)
{
	struct probe pr = {.kb = kb, .region_bytes = kb_pool_bytes(kb_size(kb))};
	struct iobuf *buf;
	int err, worst = -ENOENT;

	if (pr.region_bytes < LABEL_FRONT_BYTES + LABEL_BACK_BYTES) {
		return -ENOENT;
	}
	err = iobuf_alloc(LABEL_BYTES, ARENA_REPAIR, &buf);
	if (err != 0) {
		return err;
	}
	pr.uber = mem_zalloc(sizeof(*pr.uber));
	if (pr.uber == NULL) {
		iobuf_unref(buf);
		return -ENOMEM;
	}
	for (unsigned i = 0; i < LABEL_COUNT; i++) {
		err = probe_label(&pr, buf, i);
		if (err != 0 && worst == -ENOENT) {
			worst = err;
		}
		/* an image on a larger drive: the region ends where its label says */
		if (err == 0 && pr.label[i].region_bytes < pr.region_bytes) {
			pr.region_bytes = pr.label[i].region_bytes;
		}
	}
	iobuf_unref(buf);
	if (guid_is_zero(&pr.id.drive_guid)) {
		mem_free(pr.uber);
		return worst;
	}
	pr.region_bytes = pr.id.region_bytes;
	*out = pr;
	return 0;
}

void
probe_free(struct probe *pr)
{
	mem_free(pr->uber);
	pr->uber = NULL;
}

/* What would be lost with labels pair, pair + 2. */
static unsigned
pair_worth(const struct probe *pr, unsigned pair, uint64_t config_txg)
{
	unsigned worth = 0;

	for (unsigned k = pair; k < LABEL_COUNT; k += 2) {
		if (pr->valid[k]) {
			worth += pr->label[k].config_txg == config_txg ? 3 : 1;
		}
	}
	return worth;
}

unsigned
probe_label_pair(const struct probe *pr, uint64_t config_txg)
{
	return pair_worth(pr, 0, config_txg) > pair_worth(pr, 1, config_txg) &&
		       !DELIBERATE_BUG("pool-labels-even-first")
		   ? 1
		   : 0;
}

/* Name and size of the pool from a drive's own configuration. */
static int
probe_config(const struct probe *pr, struct pool_label_info *out)
{
	struct vdevs *v;
	struct iobuf *buf;
	int err = -ERR_CORRUPT;

	for (unsigned i = 0; i < LABEL_COUNT && err != 0; i++) {
		if (!pr->valid[i] || pr->label[i].config_txg != pr->config_max) {
			continue;
		}
		err = iobuf_alloc(LABEL_BYTES, ARENA_REPAIR, &buf);
		if (err != 0) {
			return err;
		}
		v = mem_zalloc(sizeof(*v));
		err = v != NULL
			  ? kb_read(pr->kb, label_offset(pr->region_bytes, i), buf, LABEL_UBER_OFF)
			  : -ENOMEM;
		if (err == 0) {
			err = config_decode(
			    buf->data + LABEL_CONFIG_OFF, pr->label[i].config_bytes, v);
		}
		if (err == 0) {
			(void)snprintf(out->pool_name, sizeof(out->pool_name), "%s", v->name);
			out->drive_count = v->drive_count;
			out->member_count = 0;
			for (uint32_t k = 0; k < v->drive_count; k++) {
				enum drive_role role = v->drives[k].role;
				out->member_count +=
				    role == DRIVE_ROLE_DATA || role == DRIVE_ROLE_LOG;
			}
			mem_free(v->sets);
			mem_free(v->drives);
		}
		mem_free(v);
		iobuf_unref(buf);
	}
	return err;
}

int
pool_label_probe(struct kb_drive *d, struct pool_label_info *out)
{
	struct pool_label_info info = {0};
	struct probe pr;
	int err = probe_drive(d, &pr);

	if (err != 0) {
		return err;
	}
	info.pool_guid = pr.id.pool_guid;
	info.drive_guid = pr.id.drive_guid;
	info.role = pr.id.role;
	info.set_index = pr.id.set_index;
	info.column = pr.id.column;
	info.config_txg = pr.config_max;
	if (pr.id.role != DRIVE_ROLE_SPARE) {
		err = probe_config(&pr, &info);
	}
	if (pr.has_uber) {
		info.timeline = le64_get(pr.uber->timeline);
		info.txg = le64_get(pr.uber->txg);
		info.best_time_ns = le64_get(pr.uber->time);
		info.clean = (le32_get(pr.uber->flags) & UBER_CLEAN) != 0;
		info.host_id = le64_get(pr.uber->host_id);
		memcpy(info.host_name, pr.uber->host_name, sizeof(info.host_name) - 1);
	}
	probe_free(&pr);
	if (err == 0) {
		*out = info;
	}
	return err;
}
