/*
 * config.c - the configuration: which sets and drives a pool has, the same bytes on every drive.
 * Decoding trusts nothing: counts before sizes, sizes before contents, every index in range, every
 * column of every set named exactly once.
 */
#include "pool/label.h"
#include "pool/pool_int.h"

bool
guid_equal(const struct guid *a, const struct guid *b)
{
	return memcmp(a, b, sizeof(*a)) == 0;
}

bool
guid_is_zero(const struct guid *g)
{
	const struct guid zero = {{0}};

	return guid_equal(g, &zero);
}

static void
set_encode(const struct vdev_set *set, struct config_set *out)
{
	*out = (struct config_set){
	    .guid = set->guid,
	    .kind = le32_of(set->cfg.kind),
	    .width = le32_of(set->cfg.width),
	    .parity = le32_of(set->cfg.parity),
	    .base_bytes = le64_of(set->cfg.base_bytes),
	    .column_bytes = le64_of(set->cfg.column_bytes),
	    .segment_sectors = le64_of(set->segment_sectors),
	    .segment_count = le64_of(set->segment_count),
	};
}

static void
drive_encode(const struct vdev_drive *d, struct config_drive *out)
{
	*out = (struct config_drive){
	    .guid = d->guid,
	    .role = le32_of(d->role),
	    .set_index = le32_of(d->set_index),
	    .column = le32_of(d->column),
	    .state = le32_of(d->state),
	    .region_bytes = le64_of(d->region_bytes),
	    .dirty_from = le64_of(d->dirty_from),
	    .dirty_to = le64_of(d->dirty_to),
	    .flags = le32_of((d->ring_stale ? CONFIG_DRIVE_RING_STALE : 0) |
			     (d->in_pass ? CONFIG_DRIVE_IN_PASS : 0) |
			     (d->was_spare ? CONFIG_DRIVE_WAS_SPARE : 0) |
			     (d->twin ? CONFIG_DRIVE_TWIN : 0) |
			     (d->until_import ? CONFIG_DRIVE_UNTIL_IMPORT : 0)),
	};
	memcpy(out->id, d->id, MIN(strlen(d->id), sizeof(out->id) - 1));
	memcpy(out->path, d->path, MIN(strlen(d->path), sizeof(out->path) - 1));
}

/* Entries that were given up aren't on drives. */
static uint32_t
count_roles(const struct vdevs *v, enum drive_role first, enum drive_role last)
{
	uint32_t count = 0;

	for (uint32_t i = 0; i < v->drive_count; i++) {
		count += v->drives[i].role >= first && v->drives[i].role <= last;
	}
	return count;
}

static uint32_t
count_twins(const struct vdevs *v)
{
	uint32_t count = 0;

	for (uint32_t i = 0; i < v->drive_count; i++) {
		count += v->drives[i].role == DRIVE_ROLE_DATA && v->drives[i].twin;
	}
	return count;
}

int
config_encode(
    const struct vdevs *v, uint64_t config_txg, void *out, uint32_t cap, uint32_t *out_len)
{
	uint32_t drive_count = count_roles(v, DRIVE_ROLE_DATA, DRIVE_ROLE_SPARE);
	uint64_t len = sizeof(struct config_header) +
		       (uint64_t)v->set_count * sizeof(struct config_set) +
		       (uint64_t)drive_count * sizeof(struct config_drive);
	struct config_header h = {
	    .magic = le64_of(CONFIG_MAGIC),
	    .version = le32_of(POOL_FORMAT_VERSION),
	    .set_count = le32_of(v->set_count),
	    .drive_count = le32_of(drive_count),
	    .log_sides = le32_of(count_roles(v, DRIVE_ROLE_LOG, DRIVE_ROLE_LOG)),
	    .pool_guid = v->pool_guid,
	    .log_guid = v->log_guid,
	    .ring_guid = v->ring_guid,
	    .config_txg = le64_of(config_txg),
	    .create_time = le64_of(v->create_time),
	    .ring_bytes = le64_of(v->ring_bytes),
	    .log_bytes = le64_of(v->log_bytes),
	    .feat_compat = le64_of(v->feat_compat),
	    .feat_rocompat = le64_of(v->feat_rocompat),
	    .feat_incompat = le64_of((v->feat_incompat & ~(uint64_t)FEATURE_IN_TWINS) |
				     (count_twins(v) > 0 ? FEATURE_IN_TWINS : 0)),
	};
	uint8_t *to = out;

	if (len > cap) {
		return -ENOSPC;
	}
	memcpy(h.name, v->name, strlen(v->name));
	memcpy(to, &h, sizeof(h));
	to += sizeof(h);
	for (uint32_t i = 0; i < v->set_count; i++, to += sizeof(struct config_set)) {
		struct config_set set;

		set_encode(&v->sets[i], &set);
		memcpy(to, &set, sizeof(set));
	}
	for (uint32_t i = 0; i < v->drive_count; i++) {
		struct config_drive d;

		if (v->drives[i].role != 0) {
			drive_encode(&v->drives[i], &d);
			memcpy(to, &d, sizeof(d));
			to += sizeof(d);
		}
	}
	*out_len = (uint32_t)len;
	return 0;
}

/* ---- decoding ---- */

static int
text_decode(const uint8_t *bytes, size_t len, char *out, size_t cap)
{
	size_t n = strnlen((const char *)bytes, len);

	if (n >= len || n >= cap) {
		return -ERR_CORRUPT;
	}
	memcpy(out, bytes, n + 1);
	return 0;
}

static bool
set_is_sane(const struct vdev_set *set, uint64_t ring_bytes, uint32_t index)
{
	const struct raidz_config *c = &set->cfg;
	uint64_t granule, capacity;

	if (c->kind == RAIDZ_KIND_PARITY) {
		if (c->width < 3 || c->width > RAIDZ_WIDTH_MAX || c->parity < 1 ||
		    c->parity > RAIDZ_PARITY_MAX || c->parity >= c->width - 1) {
			return false;
		}
	} else if (c->kind != RAIDZ_KIND_MIRROR || c->width < 1 || c->width > RAIDZ_WIDTH_MAX) {
		return false;
	}
	if (c->base_bytes != KB_POOL_START + LABEL_FRONT_BYTES + (index == 0 ? ring_bytes : 0) ||
	    c->column_bytes == 0 || c->column_bytes % SECTOR_BYTES != 0 ||
	    c->column_bytes > (uint64_t)1 << 60) {
		return false;
	}
	granule = c->kind == RAIDZ_KIND_PARITY ? c->parity + 1 : 1;
	capacity = raidz_capacity_sectors(c);
	capacity -= capacity % granule;
	return set->segment_sectors > 0 && set->segment_sectors % granule == 0 &&
	       set->segment_count == DIV_UP(capacity, set->segment_sectors) &&
	       set->segment_count * sizeof(struct segment_entry) <= SEGMENT_TABLE_BYTES &&
	       set->segment_sectors / granule * sizeof(struct map_record) <= SEGMENT_MAP_BYTES_MAX;
}

static int
set_decode(const struct config_set *raw, uint64_t ring_bytes, uint32_t index, struct vdev_set *out)
{
	*out = (struct vdev_set){
	    .guid = raw->guid,
	    .cfg =
		{
		    .kind = (enum raidz_kind)le32_get(raw->kind),
		    .width = le32_get(raw->width),
		    .parity = le32_get(raw->parity),
		    .base_bytes = le64_get(raw->base_bytes),
		    .column_bytes = le64_get(raw->column_bytes),
		},
	    .segment_sectors = le64_get(raw->segment_sectors),
	    .segment_count = le64_get(raw->segment_count),
	};
	if (le32_get(raw->flags) != 0) {
		return -ERR_FEATURE;
	}
	return set_is_sane(out, ring_bytes, index) ? 0 : -ERR_CORRUPT;
}

/* Does the drive's region hold what its role puts on it? */
static bool
drive_is_sane(const struct vdevs *v, const struct vdev_drive *d)
{
	uint64_t need = LABEL_FRONT_BYTES + LABEL_BACK_BYTES;

	if (d->state < DRIVE_STATE_ONLINE || d->state > DRIVE_STATE_REMOVED ||
	    guid_is_zero(&d->guid) || d->region_bytes % SECTOR_BYTES != 0 ||
	    d->region_bytes > (uint64_t)1 << 62 || (d->dirty_from == 0 && d->dirty_to != 0) ||
	    d->dirty_from > d->dirty_to) {
		return false;
	}
	switch (d->role) {
	case DRIVE_ROLE_DATA:
		if (d->set_index >= v->set_count || d->column >= v->sets[d->set_index].cfg.width) {
			return false;
		}
		need += v->sets[d->set_index].cfg.base_bytes - KB_POOL_START - LABEL_FRONT_BYTES +
			v->sets[d->set_index].cfg.column_bytes;
		break;
	case DRIVE_ROLE_LOG:
		if (d->column >= ILOG_SIDES_MAX || v->log_bytes > (uint64_t)1 << 60) {
			return false;
		}
		need += v->log_bytes;
		break;
	case DRIVE_ROLE_SPARE:
		break;
	}
	return d->region_bytes >= need;
}

static int
drive_decode(const struct config_drive *raw, const struct vdevs *v, struct vdev_drive *d)
{
	uint32_t role = le32_get(raw->role), state = le32_get(raw->state);

	if (role < DRIVE_ROLE_DATA || role > DRIVE_ROLE_SPARE) {
		return -ERR_CORRUPT;
	}
	d->guid = raw->guid;
	d->role = (enum drive_role)role;
	d->state = (enum drive_state)state;
	d->set_index = le32_get(raw->set_index);
	d->column = le32_get(raw->column);
	d->region_bytes = le64_get(raw->region_bytes);
	d->dirty_from = le64_get(raw->dirty_from);
	d->dirty_to = le64_get(raw->dirty_to);
	d->ring_stale = (le32_get(raw->flags) & CONFIG_DRIVE_RING_STALE) != 0;
	d->in_pass = (le32_get(raw->flags) & CONFIG_DRIVE_IN_PASS) != 0;
	d->twin = (le32_get(raw->flags) & CONFIG_DRIVE_TWIN) != 0;
	d->was_spare = (le32_get(raw->flags) & CONFIG_DRIVE_WAS_SPARE) != 0;
	d->until_import = (le32_get(raw->flags) & CONFIG_DRIVE_UNTIL_IMPORT) != 0;
	if (text_decode(raw->id, sizeof(raw->id), d->id, sizeof(d->id)) != 0 ||
	    text_decode(raw->path, sizeof(raw->path), d->path, sizeof(d->path)) != 0) {
		return -ERR_CORRUPT;
	}
	return drive_is_sane(v, d) ? 0 : -ERR_CORRUPT;
}

/* Every column of every set, every log side, and every guid exactly once. */
static int
check_relations(const struct vdevs *v, uint32_t log_sides)
{
	uint32_t data = 0, columns = 0, sides = 0;

	for (uint32_t i = 0; i < v->drive_count; i++) {
		const struct vdev_drive *a = &v->drives[i];

		data += a->role == DRIVE_ROLE_DATA && !a->twin;
		if (a->twin &&
		    (a->role != DRIVE_ROLE_DATA || (v->feat_incompat & FEATURE_IN_TWINS) == 0)) {
			return -ERR_CORRUPT;
		}
		sides += a->role == DRIVE_ROLE_LOG;
		for (uint32_t k = 0; k < i; k++) {
			const struct vdev_drive *b = &v->drives[k];

			if (guid_equal(&a->guid, &b->guid) ||
			    (a->role == b->role && a->role != DRIVE_ROLE_SPARE &&
				a->set_index == b->set_index && a->column == b->column &&
				a->twin == b->twin)) {
				return -ERR_CORRUPT;
			}
		}
	}
	for (uint32_t i = 0; i < v->set_count; i++) {
		columns += v->sets[i].cfg.width;
	}
	return data == columns && sides == log_sides && sides <= ILOG_SIDES_MAX &&
		       (sides == 0 || v->log_bytes >= ILOG_REGION_BYTES_MIN)
		   ? 0
		   : -ERR_CORRUPT;
}

static int
header_decode(const void *bytes, uint32_t len, struct vdevs *v, uint32_t *out_sides)
{
	const struct config_header *h = bytes;

	if (len < sizeof(*h) || le64_get(h->magic) != CONFIG_MAGIC) {
		return -ERR_CORRUPT;
	}
	/* before anything else is judged: a feature may allow what is impossible without it */
	if (le32_get(h->version) != POOL_FORMAT_VERSION ||
	    (le64_get(h->feat_incompat) & ~FEATURES_INCOMPAT) != 0) {
		return -ERR_FEATURE;
	}
	v->set_count = le32_get(h->set_count);
	v->drive_count = le32_get(h->drive_count);
	v->pool_guid = h->pool_guid;
	v->log_guid = h->log_guid;
	v->ring_guid = h->ring_guid;
	v->config_txg = le64_get(h->config_txg);
	v->create_time = le64_get(h->create_time);
	v->ring_bytes = le64_get(h->ring_bytes);
	v->log_bytes = le64_get(h->log_bytes);
	v->feat_compat = le64_get(h->feat_compat);
	v->feat_rocompat = le64_get(h->feat_rocompat);
	v->feat_incompat = le64_get(h->feat_incompat);
	*out_sides = le32_get(h->log_sides);
	if (v->set_count == 0 || v->set_count > POOL_SETS_MAX || v->drive_count == 0 ||
	    v->drive_count > VDEV_DRIVES_MAX || v->config_txg == 0 || guid_is_zero(&v->pool_guid) ||
	    v->ring_bytes < ILOG_REGION_BYTES_MIN || v->ring_bytes > (uint64_t)1 << 50 ||
	    v->ring_bytes % SECTOR_BYTES != 0 || v->log_bytes % SECTOR_BYTES != 0 ||
	    len != sizeof(*h) + v->set_count * sizeof(struct config_set) +
		       v->drive_count * sizeof(struct config_drive)) {
		return -ERR_CORRUPT;
	}
	return text_decode(h->name, sizeof(h->name), v->name, sizeof(v->name));
}

int
config_decode(const void *bytes, uint32_t len, struct vdevs *out)
{
	const struct config_set *sets;
	const struct config_drive *drives;
	struct vdevs v = {0};
	uint32_t sides;
	int err = header_decode(bytes, len, &v, &sides);

	if (err != 0) {
		return err;
	}
	v.sets = mem_zalloc_array(POOL_SETS_MAX, sizeof(*v.sets));
	v.drives = mem_zalloc_array(VDEV_DRIVES_MAX, sizeof(*v.drives));
	if (v.sets == NULL || v.drives == NULL) {
		err = -ENOMEM;
		goto fail;
	}
	sets = (const struct config_set *)(const void *)((const uint8_t *)bytes +
							 sizeof(struct config_header));
	drives = (const struct config_drive *)(const void *)(sets + v.set_count);
	for (uint32_t i = 0; err == 0 && i < v.set_count; i++) {
		err = set_decode(&sets[i], v.ring_bytes, i, &v.sets[i]);
	}
	for (uint32_t i = 0; err == 0 && i < v.drive_count; i++) {
		err = drive_decode(&drives[i], &v, &v.drives[i]);
	}
	if (err == 0) {
		err = check_relations(&v, sides);
	}
	if (err != 0) {
		goto fail;
	}
	v.pass_sum = vdev_pass_sum(&v);
	*out = v;
	return 0;
fail:
	mem_free(v.sets);
	mem_free(v.drives);
	return err;
}
