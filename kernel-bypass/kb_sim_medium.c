/*
 * kb_sim_medium.c - what a simulated drive keeps: sparse durable sectors, and over them the
 * volatile cache as a list of versions per sector.
 *
 * A sector's durable content and its versions are the set of things it may be after a power cut:
 *
 *     durable <- oldest version <- ... <- newest version (what reads return)
 *
 * A real cache may write back any of them at any time, in any order between sectors, so nothing is
 * ever moved down on its own: the power cut chooses. A flush moves down the newest version that had
 * completed when the flush was submitted, and drops what is older; versions above it stay volatile.
 * FUA moves down its own version.
 *
 * The medium is a piece of the world, not of the program under test: it outlives simulated
 * machines, and neither a power cut nor a test that fails the n-th allocation may touch it. So it
 * is the one place that goes past mem.h to plain calloc; a test machine without memory stops.
 */
#include <stdio.h>
#include <stdlib.h>
#include "kernel-bypass/kb_sim_int.h"

#define CHUNK_SECTORS 256u
#define CHUNK_BYTES ((uint64_t)CHUNK_SECTORS * SECTOR_BYTES)
#define VERSIONS_MAX 6 /* of one sector; more, and the oldest is written back, as a cache may */
#define TEAR_BYTES 512u

struct sim_chunk {
	struct sim_sector sectors[CHUNK_SECTORS];
};

static void *
must_zalloc(size_t len)
{
	void *p = calloc(1, len);
	ASSERT(p != NULL);
	return p;
}

/* Sectors come and go by the million: those that went are kept for the next, with a list through
 * them. */
static uint8_t *
page_copy(struct kb_sim_medium *m, const uint8_t *from)
{
	uint8_t *p = m->spare;

	if (p != NULL) {
		memcpy(&m->spare, p, sizeof(m->spare));
	} else {
		p = malloc(SECTOR_BYTES);
		ASSERT(p != NULL);
	}
	if (from != NULL) {
		memcpy(p, from, SECTOR_BYTES);
	} else {
		memset(p, 0, SECTOR_BYTES);
	}
	return p;
}

static void
page_free(struct kb_sim_medium *m, uint8_t *p)
{
	if (p != NULL) {
		memcpy(p, &m->spare, sizeof(m->spare));
		m->spare = p;
	}
}

static struct sim_version *
version_get(struct kb_sim_medium *m)
{
	struct sim_version *v = m->spare_versions;

	if (v == NULL) {
		return must_zalloc(sizeof(*v));
	}
	m->spare_versions = v->older;
	memset(v, 0, sizeof(*v));
	return v;
}

static void
durable_free(struct kb_sim_medium *m, struct sim_sector *s)
{
	if (s->durable_bytes == SECTOR_BYTES) {
		page_free(m, s->durable);
	} else {
		free(s->durable);
	}
	s->durable = NULL;
	s->durable_bytes = 0;
}

/* data becomes the sector's, without the zeros at its end if they are half of it: so large drives
 * of tests whose data is mostly zeros fit into memory. */
static void
durable_set(struct kb_sim_medium *m, struct sim_sector *s, uint8_t *data)
{
	static const uint8_t zeros[SECTOR_BYTES / 2];
	uint32_t len = SECTOR_BYTES;

	durable_free(m, s);
	if (data == NULL) {
		return;
	}
	if (memcmp(data + sizeof(zeros), zeros, sizeof(zeros)) == 0) {
		for (len = SECTOR_BYTES / 2; len > 0 && data[len - 1] == 0;) {
			len--;
		}
	}
	if (len < SECTOR_BYTES) {
		uint8_t *less = len > 0 ? must_zalloc(len) : NULL;

		if (less != NULL) {
			memcpy(less, data, len);
		}
		page_free(m, data);
		data = less;
	}
	s->durable = data;
	s->durable_bytes = len;
}

static uint8_t *
durable_copy(struct kb_sim_medium *m, const struct sim_sector *s)
{
	uint8_t *page = page_copy(m, NULL);

	if (s->durable != NULL) {
		memcpy(page, s->durable, s->durable_bytes);
	}
	return page;
}

/* splitmix64 */
uint64_t
sim_random(uint64_t *state)
{
	*state += 0x9e3779b97f4a7c15u;
	uint64_t z = *state;
	z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
	z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
	return z ^ (z >> 31);
}

bool
sim_chance(uint64_t *state, uint32_t millionths)
{
	return millionths != 0 && sim_random(state) % 1000000u < millionths;
}

struct kb_sim_medium *
kb_sim_medium_create(const char *name, uint64_t size_bytes)
{
	struct kb_sim_medium *m = calloc(1, sizeof(*m));

	if (m == NULL) {
		return NULL;
	}
	m->size_bytes = ALIGN_DOWN(size_bytes, (uint64_t)SECTOR_BYTES);
	m->chunk_count = DIV_UP(m->size_bytes, CHUNK_BYTES);
	m->chunks = calloc(m->chunk_count, sizeof(struct sim_chunk *));
	if (m->chunks == NULL) {
		free(m);
		return NULL;
	}
	spin_init(&m->guard);
	snprintf(m->name, sizeof(m->name), "%s", name);
	list_init(&m->dirty);
	list_init(&m->drives);
	m->clock = 1;
	m->next_write_id = 1;
	m->faults.latency_ns_min = 20 * NSEC_PER_USEC;
	m->faults.latency_ns_max = 200 * NSEC_PER_USEC;
	return m;
}

static struct sim_sector *
sector_find(struct kb_sim_medium *m, uint64_t sector)
{
	struct sim_chunk *c = m->chunks[sector / CHUNK_SECTORS];
	return c == NULL ? NULL : &c->sectors[sector % CHUNK_SECTORS];
}

static struct sim_sector *
sector_get(struct kb_sim_medium *m, uint64_t sector)
{
	struct sim_chunk **c = &m->chunks[sector / CHUNK_SECTORS];

	if (*c == NULL) {
		*c = must_zalloc(sizeof(**c));
		for (uint32_t i = 0; i < CHUNK_SECTORS; i++) {
			list_init(&(*c)->sectors[i].dirty_link);
		}
	}
	return &(*c)->sectors[sector % CHUNK_SECTORS];
}

static void
versions_free(struct kb_sim_medium *m, struct sim_version *v)
{
	while (v != NULL) {
		struct sim_version *older = v->older;
		page_free(m, v->data);
		v->older = m->spare_versions;
		m->spare_versions = v;
		v = older;
	}
}

static void
sector_note_clean(struct kb_sim_medium *m, struct sim_sector *s)
{
	if (s->versions == NULL && !list_empty(&s->dirty_link)) {
		list_remove(&s->dirty_link);
		m->dirty_count--;
	}
}

/* The version at *at becomes the durable content; those older than it are gone. */
static void
sector_move_down(struct kb_sim_medium *m, struct sim_sector *s, struct sim_version **at)
{
	struct sim_version *v = *at;

	*at = NULL;
	durable_set(m, s, v->data);
	v->data = NULL;
	versions_free(m, v);
	sector_note_clean(m, s);
}

static void
sector_drop_versions(struct kb_sim_medium *m, struct sim_sector *s)
{
	versions_free(m, s->versions);
	s->versions = NULL;
	sector_note_clean(m, s);
}

static void
sector_limit_versions(struct kb_sim_medium *m, struct sim_sector *s)
{
	struct sim_version **at = &s->versions;
	unsigned n = 1;

	while ((*at)->older != NULL) {
		at = &(*at)->older;
		n++;
	}
	if (n > VERSIONS_MAX) {
		sector_move_down(m, s, at);
	}
}

/* data becomes the medium's. */
static void
sector_push(struct kb_sim_medium *m, struct sim_sector *s, uint8_t *data, uint64_t write_id)
{
	struct sim_version *v = version_get(m);

	v->data = data;
	v->write_id = write_id;
	v->older = s->versions;
	s->versions = v;
	if (list_empty(&s->dirty_link)) {
		list_push_back(&m->dirty, &s->dirty_link);
		m->dirty_count++;
	}
	sector_limit_versions(m, s);
}

/* len bytes from at on of what reads return; s NULL: was never written. */
static void
newest_copy(const struct sim_sector *s, size_t at, size_t len, uint8_t *out)
{
	const uint8_t *data = NULL;
	size_t have = 0;

	if (s != NULL && s->versions != NULL) {
		data = s->versions->data;
		have = data != NULL ? SECTOR_BYTES : 0;
	} else if (s != NULL && s->durable != NULL) {
		data = s->durable;
		have = s->durable_bytes;
	}
	have = have > at ? MIN(have - at, len) : 0;
	if (have > 0) {
		memcpy(out, data + at, have);
	}
	memset(out + have, 0, len - have);
}

static void
spares_free(struct kb_sim_medium *m)
{
	while (m->spare != NULL) {
		uint8_t *p = m->spare;
		memcpy(&m->spare, p, sizeof(m->spare));
		free(p);
	}
	while (m->spare_versions != NULL) {
		struct sim_version *v = m->spare_versions;
		m->spare_versions = v->older;
		free(v);
	}
}

void
kb_sim_medium_destroy(struct kb_sim_medium *m)
{
	if (m == NULL) {
		return;
	}
	for (uint64_t i = 0; i < m->chunk_count; i++) {
		for (uint32_t j = 0; m->chunks[i] != NULL && j < CHUNK_SECTORS; j++) {
			versions_free(m, m->chunks[i]->sectors[j].versions);
			durable_free(m, &m->chunks[i]->sectors[j]);
		}
		free(m->chunks[i]);
	}
	spares_free(m);
	free(m->chunks);
	free(m);
}

void
sim_write(struct kb_sim_medium *m, uint64_t off_bytes, const struct iovec *iov, uint32_t iov_count,
    uint64_t write_id)
{
	uint64_t sector = off_bytes >> SECTOR_SHIFT;

	for (uint32_t i = 0; i < iov_count; i++) {
		const uint8_t *from = iov[i].iov_base;
		for (size_t at = 0; at < iov[i].iov_len; at += SECTOR_BYTES) {
			sector_push(m, sector_get(m, sector), page_copy(m, from + at), write_id);
			sector++;
		}
	}
}

/* Anything: the drive doesn't say what discarded sectors read as. */
static uint8_t *
page_junk(struct kb_sim_medium *m)
{
	uint8_t *p = must_zalloc(SECTOR_BYTES);
	for (uint32_t i = 0; i < SECTOR_BYTES; i += sizeof(uint64_t)) {
		uint64_t x = sim_random(&m->prng);
		memcpy(p + i, &x, sizeof(x));
	}
	return p;
}

void
sim_discard(struct kb_sim_medium *m, uint64_t off_bytes, uint64_t len_bytes, uint64_t write_id)
{
	uint64_t sector = off_bytes >> SECTOR_SHIFT;
	uint64_t end = sector + (len_bytes >> SECTOR_SHIFT);

	while (sector < end) {
		struct sim_sector *s = sector_find(m, sector);
		if (s == NULL) {
			sector = (sector / CHUNK_SECTORS + 1) * CHUNK_SECTORS;
			continue;
		}
		if (s->durable != NULL || s->versions != NULL) {
			bool junk = sim_random(&m->prng) % 2 == 0;
			sector_push(m, s, junk ? page_junk(m) : NULL, write_id);
		}
		sector++;
	}
}

static void
sector_complete(struct kb_sim_medium *m, struct sim_sector *s, uint64_t write_id, bool durable)
{
	struct sim_version **at = &s->versions;

	while (*at != NULL && (*at)->write_id != write_id) {
		at = &(*at)->older;
	}
	if (*at == NULL) {
		return; /* written back meanwhile, or overwritten and flushed */
	}
	if (durable) {
		sector_move_down(m, s, at);
	} else {
		(*at)->completed_at = m->clock;
	}
}

void
sim_write_completed(struct kb_sim_medium *m, uint64_t off_bytes, uint64_t len_bytes,
    uint64_t write_id, bool durable)
{
	uint64_t sector = off_bytes >> SECTOR_SHIFT;
	uint64_t end = sector + (len_bytes >> SECTOR_SHIFT);

	m->clock++;
	while (sector < end) {
		struct sim_sector *s = sector_find(m, sector);
		if (s == NULL) {
			sector = (sector / CHUNK_SECTORS + 1) * CHUNK_SECTORS;
			continue;
		}
		sector_complete(m, s, write_id, durable);
		sector++;
	}
}

static void
sector_read(struct kb_sim_medium *m, uint64_t sector, uint8_t *out)
{
	newest_copy(sector_find(m, sector), 0, SECTOR_BYTES, out);
}

void
sim_read(struct kb_sim_medium *m, uint64_t off_bytes, const struct iovec *iov, uint32_t iov_count)
{
	uint64_t sector = off_bytes >> SECTOR_SHIFT;

	for (uint32_t i = 0; i < iov_count; i++) {
		uint8_t *to = iov[i].iov_base;
		for (size_t at = 0; at < iov[i].iov_len; at += SECTOR_BYTES) {
			sector_read(m, sector, to + at);
			sector++;
		}
	}
}

void
sim_flush(struct kb_sim_medium *m, uint64_t upto, uint32_t skip)
{
	list_for_each_safe(l, next, &m->dirty)
	{
		struct sim_sector *s = list_entry(l, struct sim_sector, dirty_link);
		struct sim_version **at = &s->versions;
		while (*at != NULL && ((*at)->completed_at == 0 || (*at)->completed_at > upto)) {
			at = &(*at)->older;
		}
		if (*at != NULL && !sim_chance(&m->prng, skip)) {
			sector_move_down(m, s, at);
		}
	}
}

/* ---- power cut ---- */

/* mix: the page before. */
static uint8_t *
tear(uint8_t *mix, const uint8_t *after, uint64_t *rng)
{
	size_t cut = TEAR_BYTES * (1 + sim_random(rng) % (SECTOR_BYTES / TEAR_BYTES - 1));

	if (after != NULL) {
		memcpy(mix, after, cut);
	} else {
		memset(mix, 0, cut);
	}
	return mix;
}

/* keep: chance in millionths that some version survives; torn: a version is cut through. */
static void
sector_settle(
    struct kb_sim_medium *m, struct sim_sector *s, uint32_t keep, bool torn, uint64_t *rng)
{
	struct sim_version **at = &s->versions;

	if (!sim_chance(rng, keep) && !torn) {
		sector_drop_versions(m, s);
		return;
	}
	/* Mostly the newest, sometimes one before it. */
	while ((*at)->older != NULL && sim_random(rng) % 3 == 0) {
		at = &(*at)->older;
	}
	if (torn) {
		const struct sim_version *older = (*at)->older;
		uint8_t *before = older != NULL ? page_copy(m, older->data) : durable_copy(m, s);
		uint8_t *mix = tear(before, (*at)->data, rng);
		page_free(m, (*at)->data);
		(*at)->data = mix;
	}
	sector_move_down(m, s, at);
	sector_drop_versions(m, s);
}

void
sim_settle(struct kb_sim_medium *m, uint64_t seed)
{
	uint64_t rng = seed;
	uint64_t torn_index = UINT64_MAX;
	uint64_t index = 0;
	/* Sometimes all or nothing, mostly a mixture, more or less of it kept. */
	uint32_t keep = (uint32_t)(sim_random(&rng) % 1250000u);

	if (keep > 1125000u) {
		keep = 0;
	}
	if (m->dirty_count > 0 && sim_random(&rng) % 2 == 0) {
		torn_index = sim_random(&rng) % m->dirty_count;
	}
	while (!list_empty(&m->dirty)) {
		struct sim_sector *s = list_first(&m->dirty, struct sim_sector, dirty_link);
		sector_settle(m, s, keep, index == torn_index, &rng);
		index++;
	}
}

/* ---- damage ---- */

void
sim_flip_bit(struct kb_sim_medium *m, uint64_t off_bytes, uint64_t len_bytes)
{
	uint64_t at = off_bytes + sim_random(&m->prng) % len_bytes;
	struct sim_sector *s = sector_get(m, at >> SECTOR_SHIFT);
	uint8_t bit = (uint8_t)(1u << (sim_random(&m->prng) % 8));

	if (s->versions == NULL) {
		uint8_t *data = durable_copy(m, s);

		data[at % SECTOR_BYTES] ^= bit;
		durable_set(m, s, data);
		return;
	}
	if (s->versions->data == NULL) {
		s->versions->data = page_copy(m, NULL);
	}
	s->versions->data[at % SECTOR_BYTES] ^= bit;
}

void
kb_sim_rot_range(struct kb_sim_medium *m, uint64_t off_bytes, uint64_t len_bytes, uint64_t seed)
{
	uint64_t rng = seed;
	uint64_t end = off_bytes + len_bytes;

	ASSERT(end <= m->size_bytes && end >= off_bytes);
	spin_lock(&m->guard);
	for (uint64_t at = off_bytes; at < end;) {
		struct sim_sector *s = sector_get(m, at >> SECTOR_SHIFT);
		uint8_t *data = page_copy(m, NULL);
		uint64_t stop = MIN(end, ALIGN_DOWN(at, (uint64_t)SECTOR_BYTES) + SECTOR_BYTES);
		newest_copy(s, 0, SECTOR_BYTES, data);
		for (; at < stop; at++) {
			data[at % SECTOR_BYTES] = (uint8_t)sim_random(&rng);
		}
		sector_drop_versions(m, s);
		durable_set(m, s, data);
	}
	spin_unlock(&m->guard);
}

void
kb_sim_peek(struct kb_sim_medium *m, uint64_t off_bytes, void *out, uint32_t len_bytes)
{
	uint8_t *to = out;

	ASSERT(off_bytes <= m->size_bytes && len_bytes <= m->size_bytes - off_bytes);
	spin_lock(&m->guard);
	for (uint64_t at = off_bytes; at < off_bytes + len_bytes;) {
		const struct sim_sector *s = sector_find(m, at >> SECTOR_SHIFT);
		size_t within = at % SECTOR_BYTES;
		size_t n = (size_t)MIN((uint64_t)SECTOR_BYTES - within, off_bytes + len_bytes - at);
		newest_copy(s, within, n, to);
		to += n;
		at += n;
	}
	spin_unlock(&m->guard);
}
