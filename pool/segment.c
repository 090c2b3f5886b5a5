/*
 * segment.c - the maps of segments: record lists, the image of a segment below a root, loading a
 * bitmap. Writing them is fold.c's.
 *
 * The image of a segment = its map below some root, and the changes later than the map's
 * folded_txg. A sector is allocated and freed in turns, and nothing freed in a txg is allocated
 * again in the same one. So for each start sector the last record by (txg, ALLOC before FREE) tells
 * whether a block is there.
 *
 * Loading reads the committed root without any lock while the sync fiber goes on; before the bitmap
 * is published it looks whether the segment has changed meanwhile (seg->change), and if so begins
 * again.
 */
#include <stdlib.h>

#include "pool/pool_int.h"
#include "pool/space_int.h"
#include "pool/rooted.h"

#define LOAD_TRIES_MAX 16u
#define LOAD_RETRY_NS (200 * NSEC_PER_MSEC)
#define SORT_INLINE_MAX 1024u

/* ---- record lists ---- */

int
rec_list_reserve(struct rec_list *l, uint32_t more)
{
	uint32_t cap = MAX(l->cap, 64u);
	struct space_rec *items;

	if (l->cap - l->count >= more) {
		return 0;
	}
	while (cap - l->count < more) {
		if (cap > UINT32_MAX / 2) {
			return -ENOMEM;
		}
		cap *= 2;
	}
	items = mem_realloc(l->items, (size_t)cap * sizeof(*items));
	if (items == NULL) {
		return -ENOMEM;
	}
	l->items = items;
	l->cap = cap;
	return 0;
}

struct space_rec *
rec_list_push(struct rec_list *l)
{
	return rec_list_reserve(l, 1) == 0 ? &l->items[l->count++] : NULL;
}

void
rec_list_free(struct rec_list *l)
{
	mem_free(l->items);
	*l = (struct rec_list){0};
}

static int
rec_cmp(const void *va, const void *vb)
{
	const struct space_rec *a = va, *b = vb;

	if (a->set != b->set) {
		return a->set < b->set ? -1 : 1;
	}
	if (a->sector != b->sector) {
		return a->sector < b->sector ? -1 : 1;
	}
	if (a->txg != b->txg) {
		return a->txg < b->txg ? -1 : 1;
	}
	return (int)a->op - (int)b->op;
}

static void
sort_offloaded(void *arg)
{
	struct rec_list *l = arg;

	qsort(l->items, l->count, sizeof(*l->items), rec_cmp);
}

void
rec_list_sort(struct rec_list *l)
{
	if (l->count > SORT_INLINE_MAX) {
		offload(sort_offloaded, l);
	} else if (l->count > 1) {
		sort_offloaded(l);
	}
}

void
rec_encode(const struct space_rec *r, struct map_record *out)
{
	*out = (struct map_record){
	    .op = r->op,
	    .cksum_kind = r->cksum_kind,
	    .set = le16_of(r->set),
	    .asize = le16_of(r->asize),
	    .psize = le16_of(r->psize),
	    .sector = le64_of(r->sector),
	    .birth = le64_of(r->birth),
	    .txg = le64_of(r->txg),
	};
	memcpy(out->cksum, r->cksum, sizeof(out->cksum));
}

int
rec_decode(const struct space *s, const struct map_record *raw, struct space_rec *out)
{
	struct space_rec r = {
	    .op = raw->op,
	    .cksum_kind = raw->cksum_kind,
	    .set = le16_get(raw->set),
	    .asize = le16_get(raw->asize),
	    .psize = le16_get(raw->psize),
	    .sector = le64_get(raw->sector),
	    .birth = le64_get(raw->birth),
	    .txg = le64_get(raw->txg),
	};
	const struct space_set *set;
	uint64_t in;

	if ((r.op != MAP_ALLOC && r.op != MAP_FREE) || r.set >= s->set_count || r.asize == 0 ||
	    r.cksum_kind > BP_CKSUM_BLAKE2B || r.txg == 0 || r.birth > r.txg) {
		return -ERR_CORRUPT;
	}
	set = &s->sets[r.set];
	if (r.sector >= set->sectors || r.asize > set->sectors - r.sector ||
	    r.sector % set->granule != 0 || r.asize % set->granule != 0) {
		return -ERR_CORRUPT;
	}
	in = r.sector % set->seg_sectors;
	if (r.asize > set->seg_sectors - in) {
		return -ERR_CORRUPT;
	}
	memcpy(r.cksum, raw->cksum, sizeof(r.cksum));
	*out = r;
	return 0;
}

/* ---- images ---- */

struct space_seg *
space_seg_of(struct space *s, uint32_t set, uint64_t sector)
{
	ASSERT(set < s->set_count);
	ASSERT(sector < s->sets[set].sectors);
	return &s->sets[set].segs[sector / s->sets[set].seg_sectors];
}

int
seg_entry_check(const struct space_seg *seg, const struct segment_entry *e)
{
	uint64_t records = le32_get(e->records);

	return records * sizeof(struct map_record) > SEGMENT_MAP_BYTES_MAX ||
		       le64_get(e->used_sectors) > seg->sectors
		   ? -ERR_CORRUPT
		   : 0;
}

int
seg_entry_read(struct space *s, const struct bp *mos_root, uint32_t set, uint32_t index,
    struct segment_entry *out)
{
	int err;

	if (bp_is_hole(mos_root)) {
		memset(out, 0, sizeof(*out));
		return 0;
	}
	err =
	    s->store->map_read(s, mos_root, set, (uint64_t)index * sizeof(*out), out, sizeof(*out));
	if (err != 0) {
		return err;
	}
	return seg_entry_check(&s->sets[set].segs[index], out);
}

/* The map itself, decoded and appended to out. */
static int
map_read(struct space *s, const struct bp *mos_root, const struct space_seg *seg, uint32_t records,
    struct rec_list *out)
{
	uint32_t chunk = (uint32_t)(MAP_IO_BYTES / sizeof(struct map_record));
	struct map_record *raw;
	int err = rec_list_reserve(out, records);

	if (err != 0 || records == 0) {
		return err;
	}
	raw = mem_zalloc_array(MIN(records, chunk), sizeof(*raw));
	if (raw == NULL) {
		return -ENOMEM;
	}
	for (uint32_t done = 0; err == 0 && done < records;) {
		uint32_t part = MIN(records - done, chunk);

		err = s->store->map_read(s, mos_root, seg->set,
		    SEGMENT_MAP_OFF(seg->index) + (uint64_t)done * sizeof(*raw), raw,
		    (uint64_t)part * sizeof(*raw));
		for (uint32_t i = 0; err == 0 && i < part; i++) {
			err = rec_decode(s, &raw[i], &out->items[out->count++]);
		}
		done += part;
		fiber_maybe_yield();
	}
	mem_free(raw);
	return err;
}

/* Keeps the last record of each start sector if it is an ALLOC; what is left may not overlap. */
static int
image_settle(const struct space_seg *seg, struct rec_list *l)
{
	uint64_t end = seg->start;
	uint32_t kept = 0;

	for (uint32_t i = 0; i < l->count; i++) {
		const struct space_rec *r = &l->items[i];

		if (r->set != seg->set || r->sector < seg->start ||
		    r->sector + r->asize > seg->start + seg->sectors) {
			return -ERR_CORRUPT;
		}
		if ((i + 1 < l->count && l->items[i + 1].sector == r->sector) ||
		    r->op != MAP_ALLOC) {
			continue;
		}
		if (r->sector < end) {
			return -ERR_CORRUPT;
		}
		end = r->sector + r->asize;
		l->items[kept++] = *r;
	}
	l->count = kept;
	return 0;
}

int
seg_image(struct space *s, const struct bp *mos_root, const struct space_seg *seg,
    const struct rec_list *changes, struct rec_list *out, uint64_t *out_folded)
{
	struct rec_list l = {0};
	struct segment_entry e;
	uint64_t folded;
	int err = seg_entry_read(s, mos_root, seg->set, seg->index, &e);

	if (err != 0) {
		return err;
	}
	folded = le64_get(e.folded_txg);
	err = map_read(s, mos_root, seg, le32_get(e.records), &l);
	if (err == 0) {
		err = rec_list_reserve(&l, changes->count);
	}
	for (uint32_t i = 0; err == 0 && i < changes->count; i++) {
		if (changes->items[i].txg > folded) {
			l.items[l.count++] = changes->items[i];
		}
	}
	if (err == 0) {
		rec_list_sort(&l);
		err = image_settle(seg, &l);
	}
	if (err != 0) {
		rec_list_free(&l);
		return err;
	}
	*out = l;
	*out_folded = folded;
	return 0;
}

void
space_root_get(struct space *s, struct bp *out)
{
	spin_lock(&s->root_lock);
	*out = s->root;
	spin_unlock(&s->root_lock);
}

/* A consistent copy of what the sync fiber changes. */
static int
pending_copy(
    struct space_seg *seg, struct rec_list *out, uint64_t *out_change, uint64_t *out_released)
{
	uint32_t count = 0;
	int err = 0;

	for (;;) {
		err = rec_list_reserve(out, count);
		if (err != 0) {
			return err;
		}
		spin_lock(&seg->lock);
		count = seg->pending.count;
		if (count <= out->cap) {
			if (count > 0) {
				memcpy(out->items, seg->pending.items, count * sizeof(*out->items));
			}
			out->count = count;
			*out_change = seg->change;
			*out_released = seg->released_txg;
			spin_unlock(&seg->lock);
			return 0;
		}
		spin_unlock(&seg->lock);
	}
}

/* ---- loading ---- */

static void
bits_of_image(const struct space *s, const struct space_seg *seg, const struct rec_list *image,
    const struct rec_list *pending, uint64_t released, uint64_t *bits)
{
	uint32_t granule = s->sets[seg->set].granule;

	for (uint32_t i = 0; i < image->count; i++) {
		const struct space_rec *r = &image->items[i];

		bits_set(bits, (uint32_t)((r->sector - seg->start) / granule), r->asize / granule);
	}
	for (uint32_t i = 0; i < pending->count; i++) {
		const struct space_rec *r = &pending->items[i];

		if (r->op == MAP_FREE && r->txg > released) {
			bits_set(bits, (uint32_t)((r->sector - seg->start) / granule),
			    r->asize / granule);
		}
	}
}

static uint64_t
bits_count(const uint64_t *bits, uint64_t words)
{
	uint64_t count = 0;

	for (uint64_t i = 0; i < words; i++) {
		count += (uint64_t)__builtin_popcountll(bits[i]);
	}
	return count;
}

/* One try. -ESTALE: the segment changed meanwhile. */
static int
load_once(struct space *s, struct space_seg *seg)
{
	uint32_t granule = s->sets[seg->set].granule;
	uint64_t words = DIV_UP(seg->sectors / granule, 64);
	uint64_t *bits = mem_zalloc_array(words, sizeof(*bits));
	struct rec_list pending = {0}, image = {0};
	uint64_t change, released, folded, used;
	struct bp root;
	int err = -ENOMEM;

	if (bits == NULL) {
		return err;
	}
	err = pending_copy(seg, &pending, &change, &released);
	if (err == 0) {
		space_root_get(s, &root);
		err = seg_image(s, &root, seg, &pending, &image, &folded);
	}
	if (err == 0) {
		bits_of_image(s, seg, &image, &pending, released, bits);
		used = bits_count(bits, words) * granule;
		spin_lock(&seg->lock);
		if (seg->change != change) {
			err = -ESTALE;
		} else if (folded != seg->folded_txg || used != seg->used) {
			err = -ERR_CORRUPT;
		} else {
			seg->bits = bits;
			bits = NULL;
			seg->run_max = (unsigned)(seg->sectors / granule);
			seg->state = SEG_LOADED;
		}
		spin_unlock(&seg->lock);
	}
	rec_list_free(&pending);
	rec_list_free(&image);
	mem_free(bits);
	return err;
}

int
seg_bits_now(struct space *s, struct space_seg *seg, uint64_t *bits)
{
	uint64_t words = DIV_UP(seg->sectors / s->sets[seg->set].granule, 64);
	uint64_t token = space_read_enter(s);
	int err = -ESTALE;

	for (unsigned i = 0; i < LOAD_TRIES_MAX && err == -ESTALE; i++) {
		struct rec_list pending = {0}, image = {0};
		uint64_t change, released, folded;
		struct bp root;

		err = pending_copy(seg, &pending, &change, &released);
		if (err == 0) {
			space_root_get(s, &root);
			err = seg_image(s, &root, seg, &pending, &image, &folded);
		}
		if (err == 0) {
			memset(bits, 0, words * sizeof(*bits));
			bits_of_image(s, seg, &image, &pending, released, bits);
			spin_lock(&seg->lock);
			if (seg->change != change) {
				err = -ESTALE;
			} else if (bits_count(bits, words) * s->sets[seg->set].granule !=
				   seg->used) {
				err = -ERR_CORRUPT;
			}
			spin_unlock(&seg->lock);
		}
		rec_list_free(&pending);
		rec_list_free(&image);
	}
	space_read_exit(s, token);
	return err;
}

/* Does a set lack more drives than it tolerates, those counted that nobody has declared out? */
static bool
drives_are_gone(const struct vdevs *v)
{
	for (uint32_t i = 0; i < v->set_count; i++) {
		uint32_t gone = 0, blank = vdev_blank(v, i);

		for (uint32_t k = 0; k < v->drive_count; k++) {
			const struct vdev_drive *d = &v->drives[k];

			gone += d->role == DRIVE_ROLE_DATA && !d->twin && d->set_index == i &&
				(d->kb == NULL || d->state != DRIVE_STATE_ONLINE ||
				    kb_is_gone(d->kb) || (blank >> d->column & 1) != 0);
		}
		if (gone > raidz_tolerates(&v->sets[i].cfg)) {
			return true;
		}
	}
	return false;
}

/* A map that can't be read while drives are away isn't bad: whoever allocates waits for them, like
 * any writer. */
static bool
load_again(struct space *s, int err, unsigned tries)
{
	bool gone;

	if ((err != -EIO && err != -ERR_CKSUM) || atomic_load(&s->p->closing)) {
		return false;
	}
	mutex_lock(&s->p->config_lock);
	gone = drives_are_gone(&s->p->v);
	mutex_unlock(&s->p->config_lock);
	if (!gone && tries >= LOAD_TRIES_MAX) {
		return false;
	}
	fiber_sleep(LOAD_RETRY_NS);
	return true;
}

int
seg_load(struct space *s, struct space_seg *seg)
{
	uint64_t token;
	int err = -ESTALE;

	spin_lock(&seg->lock);
	if (seg->state != SEG_UNLOADED) {
		bool loading = seg->state == SEG_LOADING;

		spin_unlock(&seg->lock);
		return loading ? -EAGAIN : 0;
	}
	seg->state = SEG_LOADING;
	spin_unlock(&seg->lock);

	for (unsigned tries = 0;; tries++) {
		token = space_read_enter(s);
		err = -ESTALE;
		for (unsigned i = 0; i < LOAD_TRIES_MAX && err == -ESTALE; i++) {
			err = load_once(s, seg);
		}
		space_read_exit(s, token);
		if (!load_again(s, err, tries)) {
			break;
		}
	}
	if (err != 0) {
		bool bad = err != -ENOMEM && err != -ESTALE && !atomic_load(&s->p->closing);

		if (bad) {
			log_error("space.segment_unusable set=%u segment=%u error=%s", seg->set,
			    seg->index, err_str(err));
		}
		spin_lock(&seg->lock);
		seg->state = bad ? SEG_BAD : SEG_UNLOADED;
		spin_unlock(&seg->lock);
	}
	mutex_lock(&s->load_lock);
	cond_broadcast(&s->load_done);
	mutex_unlock(&s->load_lock);
	return err;
}

void
seg_load_wait(struct space *s, struct space_seg *seg)
{
	atomic_fetch_add(&s->load_waiters, 1);
	mutex_lock(&s->load_lock);
	while (seg->state == SEG_LOADING) {
		cond_wait(&s->load_done, &s->load_lock);
	}
	mutex_unlock(&s->load_lock);
	atomic_fetch_sub(&s->load_waiters, 1);
}

void
seg_trim(struct space *s, struct space_seg *seg)
{
	uint64_t keep_after = MIN(seg->folded_txg, s->released_txg);
	struct rec_list *l = &seg->pending;
	uint32_t drop = 0;

	while (drop < l->count && l->items[drop].txg <= keep_after) {
		drop++;
	}
	if (drop == 0) {
		return;
	}
	spin_lock(&seg->lock);
	memmove(l->items, l->items + drop, (l->count - drop) * sizeof(*l->items));
	l->count -= drop;
	seg->unfolded_from -= MIN(seg->unfolded_from, drop);
	seg->change++;
	spin_unlock(&seg->lock);
	if (l->count == 0) {
		rec_list_free(l);
	}
}

/* ---- every block, for check and scrub ---- */

int
seg_image_now(struct space *s, struct space_seg *seg, struct rec_list *out)
{
	struct rec_list pending = {0};
	int err = -ESTALE;

	for (unsigned i = 0; i < LOAD_TRIES_MAX && err == -ESTALE; i++) {
		uint64_t change, released, folded;
		struct bp root;

		err = pending_copy(seg, &pending, &change, &released);
		if (err == 0) {
			space_root_get(s, &root);
			err = seg_image(s, &root, seg, &pending, out, &folded);
		}
		if (err == 0 && seg->change != change) {
			rec_list_free(out);
			err = -ESTALE;
		}
	}
	rec_list_free(&pending);
	return err;
}

static int
each_of_segment(struct space *s, struct space_seg *seg,
    int (*each)(void *arg, const struct map_record *r), void *arg)
{
	struct rec_list image = {0};
	uint64_t token = space_read_enter(s);
	int err = seg_image_now(s, seg, &image);

	/* the blocks are the caller's to read: a block freed meanwhile stays as it is until we
	 * leave
	 */
	for (uint32_t i = 0; err == 0 && i < image.count; i++) {
		struct map_record raw;

		rec_encode(&image.items[i], &raw);
		err = each(arg, &raw);
		fiber_maybe_yield();
	}
	space_read_exit(s, token);
	rec_list_free(&image);
	return err;
}

int
space_each_block(struct space *s, int (*each)(void *arg, const struct map_record *r), void *arg)
{
	for (uint32_t i = 0; i < s->set_count; i++) {
		for (uint32_t k = 0; k < s->sets[i].seg_count; k++) {
			int err = each_of_segment(s, &s->sets[i].segs[k], each, arg);

			if (err != 0) {
				return err;
			}
		}
	}
	return 0;
}
