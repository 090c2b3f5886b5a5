/*
 * model.c - the model's past, and whether the pool agrees.
 *
 * A snapshot is compared in two ways. Its root block's pointer, which has a checksum of all that is
 * below, must be what it was when it was made: for all snapshots, whenever a txg was committed.
 * check() verifies that tree down to each block on each drive. And what readers see of it, through
 * the cache, is hashed page by page: one object of one snapshot at every step, all after a crash.
 */
#define XXH_INLINE_ALL
#include <xxhash.h>

#include "pool/check_int.h"
#include "pool/snap.h"
#include "tests/histories/history.h"
#include "tests/lib/pool_bytes.h"

#define SEG1_AT (((uint64_t)300 << 20) - HISTORY_SEG_BYTES / 2)
#define SCRATCHES 8u /* more than fibers compare at a time */

struct history hs;
const uint64_t history_seg_at[2] = {0, SEG1_AT};
const char *const history_kind_names[HISTORY_KIND_COUNT] = {
#define HISTORY_TEXT(name, text) text,
    HISTORY_KINDS(HISTORY_TEXT)
#undef HISTORY_TEXT
};

uint64_t
history_rnd(uint64_t below)
{
	return bytes_rnd(&hs.rng, below);
}

bool
history_trace(void)
{
	return getenv("AGATE_TRACE") != NULL;
}

/* ---- the past ---- */

void
history_push(struct head *h, uint64_t txg)
{
	struct entry *e;

	if (h->count > 0 && h->history[h->count - 1].txg == txg) {
		h->count--; /* only the last of a txg can be seen */
	}
	if (h->count == HISTORY_TXGS) { /* nobody asks for the older half any more */
		h->count = HISTORY_TXGS / 2;
		memmove(h->history, h->history + h->count, h->count * sizeof(*h->history));
	}
	e = &h->history[h->count++];
	e->txg = txg;
	memcpy(e->o, h->now, sizeof(e->o));
}

const struct ostate *
history_at(const struct head *h, uint64_t txg)
{
	for (uint32_t i = h->count; i > 0; i--) {
		if (h->history[i - 1].txg <= txg) {
			return h->history[i - 1].o;
		}
	}
	ASSERT(!"no state so old");
	return NULL;
}

void
history_begin(struct head *h)
{
	h->count = 0;
	history_push(h, 0);
}

/* ---- hashes ---- */

static uint64_t
page_hash(const uint8_t *page)
{
	static const uint8_t zeros[SECTOR_BYTES];

	return XXH3_64bits(page != NULL ? page : zeros, SECTOR_BYTES);
}

static uint64_t
zero_hash(void)
{
	static uint64_t hash;

	if (hash == 0) {
		hash = page_hash(NULL);
	}
	return hash;
}

void
bytes_clear(struct bytes *b)
{
	memset(b, 0, sizeof(*b));
	for (uint32_t i = 0; i < 2 * HISTORY_PAGES; i++) {
		b->page[i / HISTORY_PAGES][i % HISTORY_PAGES] = zero_hash();
	}
}

void
bytes_touch(struct bytes *b, unsigned seg, uint64_t at, uint64_t len)
{
	for (uint64_t i = at / SECTOR_BYTES; i * SECTOR_BYTES < at + len; i++) {
		b->page[seg][i] = page_hash(b->seg[seg] + i * SECTOR_BYTES);
	}
}

uint64_t
bytes_hash(const struct bytes *b)
{
	uint64_t h = XXH3_64bits_withSeed(b->bonus, sizeof(b->bonus), 7);

	h = XXH3_64bits_withSeed(b->inl, b->inline_len, h + b->inline_len);
	return XXH3_64bits_withSeed(b->page, sizeof(b->page), h);
}

/* ---- reading ---- */

struct page_reader {
	struct bytes *b;
	unsigned seg;
	bool copy;
};

/* Pieces begin and end at sectors, since records and what is read do. */
static void
take_pages(void *arg, uint32_t at, const uint8_t *data, uint32_t n)
{
	struct page_reader *r = arg;

	ASSERT(at % SECTOR_BYTES == 0 && n % SECTOR_BYTES == 0);
	for (uint32_t i = 0; i < n; i += SECTOR_BYTES) {
		r->b->page[r->seg][(at + i) / SECTOR_BYTES] =
		    data == NULL ? zero_hash() : page_hash(data + i);
	}
	if (r->copy) {
		bytes_copy(r->b->seg[r->seg], at, data, n);
	}
}

/* false: it isn't there. Without copy only the hashes of b's pages are set. */
static bool
read_bytes(struct pool_ds *ds, const struct ostate *want, bool copy, struct bytes *b)
{
	struct pool_obj *o;
	int err = pool_obj_hold(ds, want->number, want->generation, &o);

	if (err == -ENOENT || err == -ESTALE) {
		return false;
	}
	ASSERT(err == 0);
	memset(b, 0, offsetof(struct bytes, page));
	memcpy(b->bonus, pool_obj_bonus(o), sizeof(b->bonus));
	if (pool_obj_inline_get(o, b->inl, sizeof(b->inl), &b->inline_len) != 0) {
		b->inline_len = 0;
	}
	for (unsigned i = 0; i < 2; i++) {
		struct page_reader r = {b, i, copy};

		bytes_read(o, history_seg_at[i], HISTORY_SEG_BYTES, take_pages, &r);
	}
	pool_obj_release(o);
	return true;
}

bool
object_matches(struct pool_ds *ds, const struct ostate *want, struct bytes *out)
{
	static struct bytes scratch[SCRATCHES]; /* who is cut off leaves nothing behind */
	static uint32_t turn;
	struct bytes *b = out != NULL ? out : &scratch[turn++ % SCRATCHES];

	history_count(HK_COMPARE);
	if (want->number == 0) {
		bytes_clear(b);
		return true;
	}
	return read_bytes(ds, want, out != NULL, b) && bytes_hash(b) == want->hash;
}

struct pool_ds *
head_open(const struct head *h)
{
	struct pool_ds *ds;
	int err = pool_ds_open(hs.pool, h->path, &ds);

	if (err != 0) {
		fprintf(stderr, "life %llu: %s: %s\n", (unsigned long long)hs.life, h->path,
		    err_str(err));
	}
	ASSERT(err == 0);
	return ds;
}

void
head_identify(struct head *h)
{
	struct pool_ds *ds = head_open(h);

	h->guid = pool_ds_guid(ds);
	h->incarnation = pool_ds_incarnation(ds);
	pool_ds_close(ds);
}

static void
snap_compare_one(const struct msnap *s, struct pool_ds *ds, uint32_t k, struct bytes *b)
{
	bool ok = object_matches(ds, &s->o[k], b);

	if (!ok) {
		fprintf(stderr, "life %llu snapshot %llx object %u number %llu differs\n",
		    (unsigned long long)hs.life, (unsigned long long)s->guid, k,
		    (unsigned long long)s->o[k].number);
	}
	ASSERT(ok);
}

static struct pool_ds *
snap_open(const struct msnap *s)
{
	struct pool_ds *ds;
	int err = pool_snap_open_guid(hs.pool, 0, s->guid, &ds);

	if (err != 0) {
		fprintf(stderr, "life %llu snapshot %llx: %s\n", (unsigned long long)hs.life,
		    (unsigned long long)s->guid, err_str(err));
	}
	ASSERT(err == 0);
	return ds;
}

void
snap_compare(const struct msnap *s, struct bytes *b)
{
	struct pool_ds *ds = snap_open(s);

	accounts_compare(ds);
	for (uint32_t k = 0; k < HISTORY_OBJS; k++) {
		snap_compare_one(s, ds, k, b != NULL ? &b[k] : NULL);
	}
	pool_ds_close(ds);
}

/* ---- comparing ---- */

static bool
is_being_destroyed(uint32_t snap)
{
	bool may = hs.adm.running && (hs.adm.kind == ADM_DESTROY || hs.adm.kind == ADM_GONE);

	for (uint32_t i = 0; may && i < hs.adm.count; i++) {
		if (hs.adm.snaps[i] == snap) {
			return true;
		}
	}
	return false;
}

static void
roots_compare(void)
{
	mutex_lock(&hs.pool->datasets->lock);
	for (uint32_t i = 0; i < HISTORY_SNAPS; i++) {
		const struct msnap *s = &hs.snaps[i];
		const struct snap *there;
		bool same;

		if (!s->exists || is_being_destroyed(i)) {
			continue;
		}
		there = snap_find_guid(hs.pool, s->guid);
		same = there != NULL && memcmp(&there->root, &s->root, sizeof(s->root)) == 0;
		if (!same) {
			fprintf(stderr, "life %llu snapshot %llx: another root\n",
			    (unsigned long long)hs.life, (unsigned long long)s->guid);
		}
		ASSERT(same);
		history_count(HK_ROOTS);
	}
	mutex_unlock(&hs.pool->datasets->lock);
}

/* While a rollback is under way, who opens the dataset anew has the snapshot's contents at once. */
static void
rollback_compare(void)
{
	const struct head *h = &hs.heads[hs.adm.head];
	uint32_t k = hs.rolling % HISTORY_OBJS;
	struct pool_ds *ds = head_open(h);

	if (pool_ds_incarnation(ds) != h->incarnation) {
		snap_compare_one(&hs.snaps[hs.adm.snap], ds, k, NULL);
		history_count(HK_ROLLING_BACK);
	}
	pool_ds_close(ds);
}

void
compare_some(void)
{
	roots_compare();
	if (hs.adm.running && hs.adm.kind == ADM_ROLLBACK && hs.adm.started) {
		rollback_compare();
	}
	for (uint32_t i = 0; i < HISTORY_SNAPS; i++) {
		uint32_t at = hs.rolling++ % (HISTORY_SNAPS * HISTORY_OBJS);
		uint32_t snap = at % HISTORY_SNAPS;

		if (hs.snaps[snap].exists && !is_being_destroyed(snap)) {
			struct pool_ds *ds = snap_open(&hs.snaps[snap]);

			snap_compare_one(&hs.snaps[snap], ds, at / HISTORY_SNAPS, NULL);
			pool_ds_close(ds);
			return;
		}
	}
}

static int
count_snap(void *arg, const struct pool_snap_info *i)
{
	for (uint32_t k = 0; k < HISTORY_SNAPS; k++) {
		if (hs.snaps[k].exists && hs.snaps[k].guid == i->guid) {
			ASSERT(hs.snaps[k].holds == i->holds);
			(*(uint32_t *)arg)++;
			return 0;
		}
	}
	ASSERT(!"a snapshot that isn't in the model");
	return 0;
}

static void
compare_head(const struct head *h)
{
	struct pool_ds *ds = head_open(h);

	for (uint32_t k = 0; k < HISTORY_OBJS; k++) {
		bool ok = object_matches(ds, &h->now[k], NULL);

		if (!ok) {
			fprintf(stderr, "life %llu dataset %s object %u number %llu differs\n",
			    (unsigned long long)hs.life, h->path, k,
			    (unsigned long long)h->now[k].number);
		}
		ASSERT(ok);
	}
	pool_ds_close(ds);
}

void
compare_all(void)
{
	uint32_t count = 0, want = 0;

	for (uint32_t i = 0; i < HISTORY_HEADS; i++) {
		if (hs.heads[i].exists) {
			int err = pool_snap_each(hs.pool, hs.heads[i].path, 0, count_snap, &count);

			ASSERT(err == 0);
			compare_head(&hs.heads[i]);
		}
	}
	roots_compare();
	for (uint32_t i = 0; i < HISTORY_SNAPS; i++) {
		if (hs.snaps[i].exists) {
			want++;
			snap_compare(&hs.snaps[i], NULL);
		}
	}
	ASSERT(count == want);
}

static void
problem(void *arg UNUSED, const char *what)
{
	fprintf(stderr, "check: %s\n", what);
}

void
check(bool contents)
{
	uint64_t problems = 0;
	int err = check_pool(hs.pool, contents, problem, NULL, &problems);

	ASSERT(err == 0);
	ASSERT(problems == 0);
	history_count(contents ? HK_CHECK_ALL : HK_CHECK);
}
