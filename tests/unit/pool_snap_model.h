/*
 * pool_snap_model.h - what pool_snap_model_test.c knows of datasets and snapshots, and how it
 * compares that with the pool and changes objects in both.
 */
#ifndef AGATE_TESTS_POOL_SNAP_MODEL_H
#define AGATE_TESTS_POOL_SNAP_MODEL_H

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "pool/object.h"
#include "tests/unit/pool_rig.h"

#define DRIVE_BYTES (160 * MIB)
#define OBJS 5u
#define HEADS 5u
#define SNAPS 40u
#define SEG_BYTES (80u * 1024)
#define FAR ((uint64_t)300 << 20)
#define HISTORY 4096u

/* What an object is, for comparing. */
struct ostate {
	uint64_t number, generation; /* 0: doesn't exist */
	uint64_t hash;
};

struct entry {
	uint64_t txg;
	struct ostate o[OBJS];
};

struct bytes {
	uint32_t bonus[4]; /* with user and group at 1 and 2 */
	uint32_t inline_len;
	uint8_t inl[OBJECT_INLINE_MAX];
	uint8_t seg[2][SEG_BYTES];
};

struct head {
	bool exists, busy;
	char path[64];
	uint64_t guid, incarnation;
	struct ostate now[OBJS];
	struct bytes b[OBJS];
	struct entry history[HISTORY];
	uint32_t count;
};

struct msnap {
	bool exists; /* else what it was, should the pool go back to an older root */
	uint64_t guid, create_txg;
	uint32_t holds;
	struct ostate o[OBJS];
};

enum admin_kind {
	ADM_NONE,
	ADM_CREATE,
	ADM_DESTROY,
	ADM_CLONE,
	ADM_PROMOTE,
	ADM_ROLLBACK,
	ADM_GONE
};
struct admin {
	enum admin_kind kind;
	bool running;
	uint32_t head;                /* clone: where to; rollback, promote, gone: whom */
	uint32_t kept;                /* rollback: where to; HEADS: nowhere */
	uint32_t snap;                /* clone, rollback */
	uint32_t heads[HEADS], count; /* create: of whom */
	uint32_t snaps[8];            /* destroy */
	char name[16];                /* create */
	bool started;
};

static struct pool_rig rig;
static struct head heads[HEADS];
static struct msnap snaps[SNAPS];
static struct admin adm;
static struct pool *pool;
static uint64_t rng;
static bool created, real, served, went_back, old; /* old: made without accounts */
static uint32_t steps_left, name_count, snap_next;
static uint64_t life, ops, compared, checks, made, destroyed, cloned, promoted, rolled, cuts,
    rewound, accounted, upgraded;

static uint64_t
rnd(uint64_t below)
{
	rng ^= rng << 13;
	rng ^= rng >> 7;
	rng ^= rng << 17;
	return rng % below;
}

static void
pattern(uint8_t *out, uint32_t len, uint64_t seed)
{
	uint64_t x = seed | 1;

	for (uint32_t i = 0; i < len; i++) {
		if (seed % 3 != 0 || i % 8 == 0) { /* a third of it compresses */
			x = x * 6364136223846793005ull + 1442695040888963407ull;
		}
		out[i] = (uint8_t)(x >> 56);
	}
}

static uint64_t
bytes_hash(const struct bytes *b)
{
	uint64_t h = XXH3_64bits_withSeed(b->bonus, sizeof(b->bonus), 7);

	h = XXH3_64bits_withSeed(b->inl, b->inline_len, h + b->inline_len);
	return XXH3_64bits_withSeed(b->seg, sizeof(b->seg), h);
}

/* ---- the model's past ---- */

static void
history_push(struct head *h, uint64_t txg)
{
	struct entry *e;

	if (h->count > 0 && h->history[h->count - 1].txg == txg) {
		h->count--; /* only the last of a txg can be seen */
	}
	ASSERT(h->count < HISTORY);
	e = &h->history[h->count++];
	e->txg = txg;
	memcpy(e->o, h->now, sizeof(e->o));
}

static const struct ostate *
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

static void
history_begin(struct head *h)
{
	h->count = 0;
	history_push(h, 0);
}

/* ---- reading ---- */

static void
read_range(struct pool_obj *o, uint64_t off, uint8_t *out, uint32_t len)
{
	struct pool_slice *s = mem_zalloc_array(POOL_READ_SLICES_MAX, sizeof(*s));
	uint32_t count;
	int err;

	ASSERT(s != NULL);
	err = pool_read(o, off, len, s, POOL_READ_SLICES_MAX, &count);
	ASSERT(err == 0);
	for (uint32_t i = 0; i < count; i++) {
		if (s[i].buf != NULL) {
			memcpy(out, s[i].buf->data + s[i].off_bytes, s[i].len_bytes);
		} else {
			memset(out, 0, s[i].len_bytes);
		}
		out += s[i].len_bytes;
		iobuf_unref(s[i].buf);
		len -= s[i].len_bytes;
	}
	ASSERT(len == 0);
	mem_free(s);
}

/* false: it isn't there. */
static bool
read_bytes(struct pool_ds *ds, const struct ostate *want, struct bytes *out)
{
	struct pool_obj *o;
	int err = pool_obj_hold(ds, want->number, want->generation, &o);

	memset(out, 0, sizeof(*out));
	if (err == -ENOENT || err == -ESTALE) {
		return false;
	}
	ASSERT(err == 0);
	memcpy(out->bonus, pool_obj_bonus(o), sizeof(out->bonus));
	if (pool_obj_inline_get(o, out->inl, sizeof(out->inl), &out->inline_len) != 0) {
		out->inline_len = 0;
	}
	read_range(o, 0, out->seg[0], SEG_BYTES);
	read_range(o, FAR, out->seg[1], SEG_BYTES);
	pool_obj_release(o);
	return true;
}

/* Is object k of ds as the model says? Its bytes go to out. */
static bool
object_matches(struct pool_ds *ds, const struct ostate *want, struct bytes *out)
{
	compared++;
	if (want->number == 0) {
		memset(out, 0, sizeof(*out));
		return true;
	}
	return read_bytes(ds, want, out) && bytes_hash(out) == want->hash;
}

static struct pool_ds *
head_open(const struct head *h)
{
	struct pool_ds *ds;
	int err = pool_ds_open(pool, h->path, &ds);

	ASSERT(err == 0);
	return ds;
}

/* ---- accounts ---- */

#define WHO_MAX 8u
struct sums {
	uint32_t id[WHO_MAX], count;
	uint64_t sectors[WHO_MAX], objects[WHO_MAX];
};

static void
sums_add(struct sums *s, uint32_t id, uint64_t sectors)
{
	uint32_t i = 0;

	while (i < s->count && s->id[i] != id) {
		i++;
	}
	ASSERT(i < WHO_MAX);
	s->count = MAX(s->count, i + 1);
	s->id[i] = id;
	s->sectors[i] += sectors;
	s->objects[i]++;
}

struct accounts_look {
	struct sums want;
	uint32_t found;
};

static int
accounts_match(void *arg, const struct pool_account *a)
{
	struct accounts_look *l = arg;

	for (uint32_t i = 0; i < l->want.count; i++) {
		if (l->want.id[i] == a->id) {
			ASSERT(a->objects == l->want.objects[i]);
			ASSERT(a->bytes == space_data_bytes(pool, l->want.sectors[i]));
			l->found++;
			return 0;
		}
	}
	ASSERT(!"an account of nobody");
	return -EIO;
}

/* The accounts of what nobody changes are those of its slots. */
static void
accounts_compare(struct pool_ds *ds)
{
	struct accounts_look look[2] = {0};
	unsigned percent;

	if (pool_accounts_state(ds, &percent) != 0) {
		return;
	}
	for (uint64_t n = 1; n < ds->next_object; n++) {
		struct object_slot slot;
		int err = obj_slot_read(ds, n, &slot);
		uint32_t bonus[3];

		ASSERT(err == 0 || err == -ENOENT);
		memcpy(bonus, slot.bonus, sizeof(bonus));
		if (err == 0 && slot.type >= OBJ_FILE) {
			sums_add(&look[0].want, bonus[1], le64_get(slot.used_sectors));
			sums_add(&look[1].want, bonus[2], le64_get(slot.used_sectors));
		}
	}
	for (unsigned k = 0; k < 2; k++) {
		int err =
		    pool_accounts_each(ds, (enum pool_account_kind)k, accounts_match, &look[k]);

		ASSERT(err == 0 && look[k].found == look[k].want.count);
	}
	accounted++;
}

/* All or one of the objects of a snapshot; the bytes to b (OBJS of them), if wanted. */
static void
snap_compare(const struct msnap *s, uint32_t only, struct bytes *b)
{
	struct bytes *scratch =
	    malloc(sizeof(*scratch)); /* plain: a cut leaks it, to the test only */
	struct pool_ds *ds;
	int err = pool_snap_open_guid(pool, 0, s->guid, &ds);

	ASSERT(err == 0 && scratch != NULL);
	accounts_compare(ds);
	for (uint32_t k = 0; k < OBJS; k++) {
		bool ok;

		if (only < OBJS && k != only) {
			continue;
		}
		ok = object_matches(ds, &s->o[k], b != NULL ? &b[k] : scratch);
		if (!ok) {
			fprintf(stderr, "life %llu snapshot %llx object %u number %llu differs\n",
			    (unsigned long long)life, (unsigned long long)s->guid, k,
			    (unsigned long long)s->o[k].number);
		}
		ASSERT(ok);
	}
	pool_ds_close(ds);
	free(scratch);
}

static void
problem(void *arg UNUSED, const char *what)
{
	fprintf(stderr, "check: %s\n", what);
}

static void
check(void)
{
	uint64_t problems = 0;
	int err = pool_check(pool, problem, NULL, &problems);

	ASSERT(err == 0);
	ASSERT(problems == 0);
	checks++;
}

static int
count_snap(void *arg, const struct pool_snap_info *i)
{
	for (uint32_t k = 0; k < SNAPS; k++) {
		if (snaps[k].exists && snaps[k].guid == i->guid) {
			ASSERT(snaps[k].holds == i->holds);
			(*(uint32_t *)arg)++;
			return 0;
		}
	}
	ASSERT(!"a snapshot that isn't in the model");
	return 0;
}

/* Exactly the snapshots of the model are there; everything is as it says. No operation is running.
 */
static void
compare_all(void)
{
	uint32_t count = 0, want = 0;

	for (uint32_t i = 0; i < HEADS; i++) {
		if (heads[i].exists) {
			int err = pool_snap_each(pool, heads[i].path, 0, count_snap, &count);

			ASSERT(err == 0);
		}
	}
	for (uint32_t i = 0; i < SNAPS; i++) {
		if (snaps[i].exists) {
			want++;
			snap_compare(&snaps[i], OBJS, NULL);
		}
	}
	ASSERT(count == want);
	for (uint32_t i = 0; i < HEADS; i++) {
		struct pool_ds *ds = heads[i].exists ? head_open(&heads[i]) : NULL;

		for (uint32_t k = 0; k < OBJS && ds != NULL; k++) {
			struct bytes *b = malloc(sizeof(*b));
			bool ok = object_matches(ds, &heads[i].now[k], b);

			ASSERT(ok);
			free(b);
		}
		if (ds != NULL) {
			pool_ds_close(ds);
		}
	}
}

/* ---- changing objects ---- */

static void
model_free(struct bytes *b, uint64_t off, uint64_t len)
{
	uint64_t end = len == UINT64_MAX ? UINT64_MAX : off + len;

	for (unsigned i = 0; i < 2; i++) {
		uint64_t base = i * FAR;
		uint64_t from = MAX(off, base), to = MIN(end, base + SEG_BYTES);

		if (from < to) {
			memset(b->seg[i] + (from - base), 0, to - from);
		}
	}
}

static bool
has_blocks(const struct bytes *b)
{
	const uint8_t *all = b->seg[0];

	return all[0] != 0 || memcmp(all, all + 1, sizeof(b->seg) - 1) != 0;
}

static void
do_write(struct pool_tx *tx, struct pool_obj *o, struct bytes *b)
{
	uint32_t len = rnd(2) == 0 ? 1 + (uint32_t)rnd(5000) : 1 + (uint32_t)rnd(SEG_BYTES / 2);
	uint64_t at = rnd(SEG_BYTES - len) & (rnd(2) == 0 ? ~(uint64_t)4095 : ~(uint64_t)0);
	unsigned seg = rnd(3) == 0;
	struct iovec iov;
	int err;

	pattern(b->seg[seg] + at, len, rnd(UINT32_MAX));
	b->inline_len = 0;
	memset(b->inl, 0, sizeof(b->inl));
	iov = (struct iovec){b->seg[seg] + at, len};
	pool_obj_inline_clear(tx, o);
	err = pool_write(tx, o, at + seg * FAR, &iov, 1);
	ASSERT(err == 0);
}

/* To somebody else, of a few. */
static void
give(struct pool_tx *tx, struct pool_obj *o, struct bytes *b)
{
	static const uint32_t who[] = {0, 7, 255, 256, 70000, 4294967294u};

	b->bonus[0] = (uint32_t)rnd(UINT32_MAX);
	b->bonus[1] = who[rnd(ARRAY_LEN(who))];
	b->bonus[2] = who[rnd(ARRAY_LEN(who))];
	memcpy(pool_obj_bonus_dirty(tx, o), b->bonus, sizeof(b->bonus));
}

static void
do_change(struct pool_tx *tx, struct pool_obj *o, struct bytes *b)
{
	uint64_t off, len;
	int err;

	switch (rnd(10)) {
	case 0:
		give(tx, o, b);
		return;
	case 1:
	case 2:
		off = rnd(3) == 0 ? FAR + rnd(SEG_BYTES) : rnd(2) == 0 ? rnd(SEG_BYTES) : 0;
		len = rnd(3) == 0 ? UINT64_MAX : rnd(SEG_BYTES);
		err = pool_free_range(tx, o, off, len);
		ASSERT(err == 0);
		model_free(b, off, len);
		return;
	case 3:
		if (has_blocks(b)) {
			break;
		}
		pattern(b->inl, 1 + (uint32_t)rnd(OBJECT_INLINE_MAX - 1), rnd(UINT32_MAX));
		if (pool_obj_inline_set(tx, o, b->inl, OBJECT_INLINE_MAX) == 0) {
			b->inline_len = OBJECT_INLINE_MAX;
			return;
		}
		memset(b->inl, 0, sizeof(b->inl));
		break;
	}
	do_write(tx, o, b);
}

static void
change_policy(struct pool_ds *ds)
{
	struct pool_ds_policy policy = {.compress = rnd(2) == 0 ? BP_COMPRESS_LZ4 : BP_COMPRESS_OFF,
	    .zstd_level = 1,
	    .cksum = rnd(2) == 0 ? BP_CKSUM_XXH3 : BP_CKSUM_BLAKE2B,
	    .record_bytes = 16384u << rnd(4)};

	pool_ds_set_policy(ds, &policy);
}

/* One transaction on one object of one dataset. */
static void
step_object(struct head *h)
{
	static const uint32_t sizes[] = {4096, 16384, 131072};
	struct pool_need need = {.dirty_bytes = 256 * 1024, .frees = true};
	uint32_t k = (uint32_t)rnd(OBJS);
	struct ostate *s = &h->now[k];
	struct bytes *b = &h->b[k];
	struct pool_ds *ds = head_open(h);
	struct pool_obj *o = NULL;
	struct pool_tx *tx;
	int err = pool_tx_begin(ds, &need, &tx);

	ASSERT(err == 0 || err == -ENOSPC);
	if (err != 0) {
		pool_ds_close(ds);
		return;
	}
	if (s->number == 0) {
		err = pool_obj_create(tx, ds, OBJ_FILE, sizes[rnd(3)], 0, 0, &o);
		ASSERT(err == 0);
		s->number = pool_obj_number(o);
		s->generation = pool_obj_generation(o);
		memset(b, 0, sizeof(*b));
		give(tx, o, b);
		do_write(tx, o, b);
	} else {
		err = pool_obj_hold(ds, s->number, s->generation, &o);
		if (err != 0) {
			fprintf(stderr, "life %llu %s object %u number %llu: %s\n",
			    (unsigned long long)life, h->path, k, (unsigned long long)s->number,
			    err_str(err));
		}
		ASSERT(err == 0);
		if (rnd(15) == 0) {
			pool_obj_destroy(tx, o);
			s->number = 0;
		} else {
			do_change(tx, o, b);
		}
	}
	s->hash = bytes_hash(b);
	pool_obj_release(o);
	history_push(h, pool_tx_txg(tx));
	pool_tx_end(tx);
	if (rnd(30) == 0) {
		change_policy(ds);
	}
	pool_ds_close(ds);
	ops++;
}

#endif
