/*
 * object_read.c - reading byte ranges: lending what is in memory, fetching what isn't.
 *
 * A block is looked for in the object's dirty list first, then behind the tree. Both and the
 * pending ranges are looked at under obj->lock; the tree found there names the right block for
 * everything that had no entry (dbuf.c, invariant 4).
 */
#include "pool/damage.h"
#include "pool/object.h"

#define READ_FETCH_BYTES_MIN 16384u
#define READ_AHEAD_FACTOR 8u
#define READ_AHEAD_BYTES_MAX (4u << 20)

struct read_cursor {
	struct pool_obj *o;
	struct tree tree; /* copy that leaf belongs to */
	uint64_t tree_seq;
	struct tree_cursor leaf;
};

/*
 * What block holds: a reference and its length when it is in a dirty list; else *out stays NULL and
 * bp says where it is (a hole: nowhere).
 */
static int
block_locate(
    struct read_cursor *c, uint64_t block, struct iobuf **out, uint32_t *out_len, struct bp *bp)
{
	struct pool_obj *o = c->o;
	struct pool_buf *b;

	*out = NULL;
	bp_set_hole(bp, 0);
	spin_lock(&o->lock);
	b = dbuf_find(o, block);
	if (b != NULL && b->newest != NULL) {
		*out = iobuf_ref(b->newest);
		*out_len = b->len_bytes;
		spin_unlock(&o->lock);
		return 0;
	}
	if (obj_range_covers(o, block)) {
		spin_unlock(&o->lock);
		return 0;
	}
	if (c->tree_seq != o->tree_seq) {
		tree_cursor_drop(&c->leaf);
		c->tree = o->tree;
		c->tree_seq = o->tree_seq;
	}
	spin_unlock(&o->lock);
	return tree_lookup(o->ds->p, &c->tree, 0, block, &c->leaf, bp);
}

/* What block holds: a reference and its length, or NULL for a hole. */
static int
read_block(struct read_cursor *c, uint64_t block, struct iobuf **out, uint32_t *out_len)
{
	struct pool *p = c->o->ds->p;
	struct bp_prop prop;
	struct bp bp;
	int err = block_locate(c, block, out, out_len, &bp);

	if (err != 0 || *out != NULL || bp_is_hole(&bp)) {
		return err;
	}
	err = bp_decode(&bp, p->v.set_count, &prop);
	if (err == 0 && prop.logical_bytes > le32_get(c->o->slot.block_bytes)) {
		err = -ERR_CORRUPT;
	}
	if (err == 0) {
		err = block_read(p, &bp, 0, out);
		*out_len = prop.logical_bytes;
	}
	if (err == -EIO || err == -ERR_CKSUM) {
		damage_note(p, c->o->ds->guid, c->o->number, block);
	}
	return err;
}

/* ---- fetching ---- */

/* One block on its way into the cache. */
struct fetch {
	struct pool_obj *o; /* a reference */
	struct bp bp;
	uint64_t token;       /* entered before bp was looked up */
	struct waitgroup *wg; /* of who waits, or of all that nobody waits for */
};

static void
fetch_run(void *arg)
{
	struct fetch *f = arg;
	struct pool *p = f->o->ds->p;
	struct waitgroup *wg = f->wg;
	struct iobuf *buf;

	if (block_read(p, &f->bp, 0, &buf) == 0) {
		iobuf_unref(buf);
	}
	space_read_exit(p->space, f->token);
	pool_obj_release(f->o);
	mem_free(f);
	wg_done(wg);
}

/* Takes over the token when it is true. */
static bool
fetch_start(struct pool_obj *o, const struct bp *bp, uint64_t token, struct waitgroup *wg)
{
	struct fetch *f = mem_zalloc(sizeof(*f));

	if (f == NULL) {
		return false;
	}
	*f = (struct fetch){pool_obj_ref(o), *bp, token, wg};
	wg_add(wg, 1);
	if (fiber_spawn(rt_reactor_self(), FIBER_REQUEST, "pool-fetch", fetch_run, f) != 0) {
		wg_done(wg);
		pool_obj_release(o);
		mem_free(f);
		return false;
	}
	return true;
}

/* Starts a fiber for each block of [from, to) that is neither dirty nor cached. */
static void
blocks_fetch(struct pool_obj *o, uint64_t from, uint64_t to, struct waitgroup *wg)
{
	struct read_cursor c = {.o = o, .tree_seq = UINT64_MAX};
	bool go_on = true;

	for (uint64_t block = from; block < to && go_on; block++) {
		uint64_t token = space_read_enter(o->ds->p->space);
		bool taken = false;
		struct iobuf *buf;
		uint32_t len;
		struct bp bp;

		go_on = block_locate(&c, block, &buf, &len, &bp) == 0;
		if (go_on && buf == NULL && bp_copies(&bp) > 0) {
			buf = block_peek(o->ds->p, &bp);
			taken = buf == NULL && fetch_start(o, &bp, token, wg);
			go_on = buf != NULL || taken;
		}
		if (!taken) {
			space_read_exit(o->ds->p->space, token);
		}
		iobuf_unref(buf);
	}
	tree_cursor_drop(&c.leaf);
}

/*
 * Several blocks are read side by side. A reader who goes on where the last one ended has the next
 * blocks fetched ahead of him, in a window of READ_AHEAD_FACTOR times what he asks for.
 */
static void
read_fetch(struct pool_obj *o, uint64_t off, uint32_t len)
{
	uint32_t bb = le32_get(o->slot.block_bytes);
	uint64_t first = off / bb, end = DIV_UP(off + len, (uint64_t)bb);
	uint64_t next = __atomic_load_n(&o->read_next, __ATOMIC_RELAXED);
	uint64_t ahead = __atomic_load_n(&o->read_ahead, __ATOMIC_RELAXED);
	uint64_t window =
	    MIN((uint64_t)len * READ_AHEAD_FACTOR, (uint64_t)READ_AHEAD_BYTES_MAX) / bb;
	struct waitgroup wg;

	wg_init(&wg);
	if (end - first > 1) {
		blocks_fetch(o, first, end, &wg);
	}
	if (off != 0 && off == next && window > 1 && ahead < end + window / 2) {
		__atomic_store_n(&o->read_ahead, end + window, __ATOMIC_RELAXED);
		blocks_fetch(o, MAX(end, MIN(ahead, end + window)),
		    MIN(end + window, le64_get(o->slot.block_count)), objects_fetches(o->ds->p));
	} else if (off != next) {
		__atomic_store_n(&o->read_ahead, 0, __ATOMIC_RELAXED);
	}
	__atomic_store_n(&o->read_next, off + len, __ATOMIC_RELAXED);
	wg_wait(&wg);
}

/* ---- slices ---- */

/* Appends a slice; zeros join the zeros before them. Takes over the reference. */
static int
slice_add(struct pool_slice *out, uint32_t max, uint32_t *count, struct pool_slice s)
{
	if (s.len_bytes == 0) {
		iobuf_unref(s.buf);
		return 0;
	}
	if (s.buf == NULL && *count > 0 && out[*count - 1].buf == NULL) {
		out[*count - 1].len_bytes += s.len_bytes;
		return 0;
	}
	if (*count == max) {
		iobuf_unref(s.buf);
		return -E2BIG;
	}
	out[(*count)++] = s;
	return 0;
}

static int
read_slices(struct read_cursor *c, uint64_t off, uint32_t len, struct pool_slice *out, uint32_t max,
    uint32_t *count)
{
	uint32_t bb = le32_get(c->o->slot.block_bytes);

	while (len > 0) {
		uint32_t within = (uint32_t)(off & (bb - 1));
		uint32_t n = MIN(len, bb - within);
		uint32_t have = 0;
		struct iobuf *buf;
		int err = read_block(c, off / bb, &buf, &have);

		if (err != 0) {
			return err;
		}
		if (buf != NULL) {
			have = have > within ? MIN(have - within, n) : 0;
			err = slice_add(out, max, count, (struct pool_slice){buf, within, have});
		}
		if (err == 0) {
			err = slice_add(out, max, count, (struct pool_slice){NULL, 0, n - have});
		}
		if (err != 0) {
			return err;
		}
		off += n;
		len -= n;
	}
	return 0;
}

int
pool_read(struct pool_obj *o, uint64_t off, uint32_t len, struct pool_slice *out, uint32_t max,
    uint32_t *out_count)
{
	struct read_cursor c = {.o = o, .tree_seq = UINT64_MAX};
	uint32_t count = 0;
	uint64_t token;
	int err;

	if (pool_obj_is_stale(o)) {
		return -ESTALE;
	}
	if (off + len < off) {
		return -EINVAL;
	}
	token = space_read_enter(o->ds->p->space);
	if (len > READ_FETCH_BYTES_MIN) {
		read_fetch(o, off, len);
	}
	err = read_slices(&c, off, len, out, max, &count);
	space_read_exit(o->ds->p->space, token);
	tree_cursor_drop(&c.leaf);
	if (err != 0) {
		while (count > 0) {
			iobuf_unref(out[--count].buf);
		}
		return err;
	}
	*out_count = count;
	return 0;
}
