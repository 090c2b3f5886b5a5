/*
 * assemble.c - from drives to one pool: the root, the configuration that counts for it, and which
 * drive is which column.
 *
 * The newest uberblock of all data drives of the pool names a configuration by number; the labels
 * that have that one are used, or, when none has, those with the next greater one. An older root is
 * read with the newest configuration: sets and columns never change their place.
 */
#include "dump/dump.h"

/* ---- which pool ---- */

static bool
is_hex_of(const char *text, const uint8_t guid[GUID_LEN])
{
	char hex[2 * GUID_LEN + 1];

	for (unsigned i = 0; i < GUID_LEN; i++) {
		(void)snprintf(hex + 2 * i, 3, "%02x", guid[i]);
	}
	return strcmp(text, hex) == 0;
}

/* The configuration of label `index`. */
static const char *
config_of(const struct dump_drive *d, unsigned index, uint8_t *buf, struct dump_config *out)
{
	const struct dump_label *l = &d->label[index];

	if (dump_drive_read(d, dump_label_offset(d->region_bytes, index) + CONFIG_AT, buf,
		l->config_bytes) != 0) {
		return "can't be read";
	}
	return dump_config_decode(buf, l->config_bytes, out);
}

static bool
name_matches(const struct dump_drive *d, const char *which, uint8_t *buf)
{
	for (unsigned i = 0; i < LABELS; i++) {
		struct dump_config *c;
		bool same = false;

		if (d->label[i].why != NULL || d->label[i].config_bytes == 0) {
			continue;
		}
		c = mem_zalloc(sizeof(*c));
		if (c != NULL && config_of(d, i, buf, c) == NULL) {
			same = strcmp(c->name, which) == 0;
			dump_config_free(c);
		}
		mem_free(c);
		if (same) {
			return true;
		}
	}
	return false;
}

static const struct dump_label *
label_of(const struct dump_drive *d)
{
	return d->id < 0 ? NULL : &d->label[d->id];
}

static int
guid_choose(const struct dump_drive *drives, uint32_t count, const char *which, uint8_t *buf,
    uint8_t guid[GUID_LEN])
{
	bool found = false;

	for (uint32_t i = 0; i < count; i++) {
		const struct dump_label *l = label_of(&drives[i]);

		if (l == NULL || l->role == ROLE_SPARE ||
		    (which != NULL && !is_hex_of(which, l->pool_guid) &&
			!name_matches(&drives[i], which, buf))) {
			continue;
		}
		if (found && memcmp(guid, l->pool_guid, GUID_LEN) != 0) {
			out_error("the drives belong to several pools: say which with -p");
			return -EINVAL;
		}
		memcpy(guid, l->pool_guid, GUID_LEN);
		found = true;
	}
	if (!found) {
		out_error(which == NULL ? "none of the drives has a valid label of a pool"
					: "none of the drives has a label of that pool");
	}
	return found ? 0 : -ENOENT;
}

static bool
belongs(const struct dump_drive *d, const uint8_t guid[GUID_LEN])
{
	const struct dump_label *l = label_of(d);

	return l != NULL && l->role != ROLE_SPARE && memcmp(l->pool_guid, guid, GUID_LEN) == 0;
}

/* ---- which root ---- */

static void
uber_search(
    const struct dump_drive *d, uint64_t txg, uint8_t *ring, struct dump_uber *best, bool *found)
{
	for (unsigned k = 0; k < LABELS; k++) {
		uint64_t off = dump_label_offset(d->region_bytes, k) + UBER_AT;
		const struct dump_label *l = label_of(d);

		if (dump_drive_read(d, off, ring, UBER_COUNT * UBER_SIZE) != 0) {
			continue;
		}
		for (unsigned i = 0; i < UBER_COUNT; i++) {
			struct dump_uber u;

			if (dump_uber_decode(ring + i * UBER_SIZE, off + i * UBER_SIZE, i,
				l->pool_guid, l->drive_guid, &u) == NULL &&
			    (txg == 0 || u.txg == txg) &&
			    (!*found || dump_uber_cmp(&u, best) > 0)) {
				*best = u;
				*found = true;
			}
		}
	}
}

static bool
uber_find(const struct dump_pool *p, const uint8_t guid[GUID_LEN], uint64_t txg, uint8_t *buf,
    struct dump_uber *out)
{
	bool found = false;

	for (uint32_t i = 0; i < p->drive_count; i++) {
		const struct dump_label *label = label_of(&p->drives[i]);

		if (belongs(&p->drives[i], guid) && label != NULL && label->role == ROLE_DATA) {
			uber_search(&p->drives[i], txg, buf, out, &found);
		}
	}
	return found;
}

/* ---- which configuration ---- */

/* The configuration with the smallest number from `least` on. */
static bool
config_next(const struct dump_pool *p, const uint8_t guid[GUID_LEN], uint64_t least, uint8_t *buf,
    struct dump_config *out)
{
	uint64_t best = 0;

	for (;;) {
		const struct dump_drive *from = NULL;
		const char *why;
		unsigned index = 0;

		best = 0;
		for (uint32_t i = 0; i < p->drive_count * LABELS; i++) {
			const struct dump_drive *d = &p->drives[i / LABELS];
			const struct dump_label *l = &d->label[i % LABELS];

			if (belongs(d, guid) && l->why == NULL && l->config_bytes > 0 &&
			    l->config_txg >= least && (best == 0 || l->config_txg < best)) {
				best = l->config_txg;
				from = d;
				index = i % LABELS;
			}
		}
		if (from == NULL) {
			return false;
		}
		why = config_of(from, index, buf, out);
		if (why == NULL) {
			return true;
		}
		out_error("%s: configuration %llu isn't valid: %s", from->path,
		    (unsigned long long)best, why);
		least = best + 1;
	}
}

/* ---- which drive ---- */

/* Of two drives with one guid (a copy was made) the first is taken. */
static const struct dump_drive *
drive_of(const struct dump_pool *p, const struct dump_member *m)
{
	const struct dump_drive *found = NULL;

	for (uint32_t i = 0; i < p->drive_count; i++) {
		const struct dump_label *l = label_of(&p->drives[i]);

		if (l == NULL || memcmp(l->drive_guid, m->guid, GUID_LEN) != 0) {
			continue;
		}
		if (found != NULL) {
			out_note("%s and %s are the same drive", found->path, p->drives[i].path);
			continue;
		}
		found = &p->drives[i];
	}
	return found;
}

static void
members_find(struct dump_pool *p)
{
	for (uint32_t i = 0; i < p->config.member_count; i++) {
		struct dump_member *m = &p->config.members[i];

		m->drive = drive_of(p, m);
		if (m->role == ROLE_DATA && !m->twin) {
			p->config.sets[m->set].column[m->column] = m->drive;
			p->config.sets[m->set].stale[m->column] = m->dirty_from != 0;
		}
	}
}

static void
say_missing(const struct dump_config *c)
{
	for (uint32_t i = 0; i < c->member_count; i++) {
		const struct dump_member *m = &c->members[i];

		if (m->drive == NULL && m->role == ROLE_DATA && !m->twin) {
			out_note(
			    "set %u column %u is missing (was %s)", m->set, m->column, m->path);
		}
	}
}

static int
assemble(struct dump_pool *p, const char *which, uint64_t txg, uint8_t *buf)
{
	struct dump_uber newest;
	uint8_t guid[GUID_LEN];
	int err = guid_choose(p->drives, p->drive_count, which, buf, guid);

	if (err != 0) {
		return err;
	}
	if (!uber_find(p, guid, 0, buf, &newest)) {
		out_error("no data drive has a valid root of the pool");
		return -ENOENT;
	}
	p->uber = newest;
	if (txg != 0 && !uber_find(p, guid, txg, buf, &p->uber)) {
		out_error("no drive has a root of txg %llu; `labels` lists them",
		    (unsigned long long)txg);
		return -ENOENT;
	}
	if (!config_next(p, guid, newest.config_txg, buf, &p->config)) {
		out_error("no label has a valid configuration as new as the newest root");
		return -ENOENT;
	}
	for (uint32_t i = 0; i < p->config.set_count; i++) {
		p->capacity_sectors += p->config.sets[i].capacity_sectors;
	}
	members_find(p);
	say_missing(&p->config);
	return 0;
}

int
dump_pool_open(struct dump_drive *drives, uint32_t count, const char *which, uint64_t txg,
    struct dump_pool *out)
{
	uint8_t *buf = mem_zalloc(UBER_COUNT * UBER_SIZE);
	int err;

	memset(out, 0, sizeof(*out));
	out->drives = drives;
	out->drive_count = count;
	if (buf == NULL) {
		return -ENOMEM;
	}
	STATIC_ASSERT(UBER_COUNT * UBER_SIZE >= CONFIG_MAX);
	err = assemble(out, which, txg, buf);
	mem_free(buf);
	if (err == 0) {
		err = dump_cache_make(out);
		if (err != 0) {
			dump_config_free(&out->config);
		}
	}
	return err;
}

void
dump_pool_close(struct dump_pool *p)
{
	dump_cache_free(p);
	dump_config_free(&p->config);
}
