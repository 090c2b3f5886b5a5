/*
 * notes.c - what the owner wants to know again after a crash, beside the objects: opaque notes, the
 * newest of them (the file system's: replies to calls that a client may send again).
 *
 * A note belongs to a transaction and is durable exactly when its effect is, since the txg's root
 * has both. Taking one is a copy into a buffer of its reactor and txg: no lock, because only fibers
 * of that reactor touch the buffer while they hold the txg, and the syncing fiber afterwards. A
 * buffer is two halves filled in turn, so it never holds less than the newest half of what it
 * could. The buffers of all reactors together are as large as the object, on the drives, that the
 * syncing fiber copies them to: a ring of REPLIES_BLOCKS blocks. The block being filled is kept in
 * memory and written whole with each txg that adds to it, so nothing is read for it.
 *
 * Notes are a comfort: without memory one is lost, and a block of them that can't be read is passed
 * over. None of that fails a transaction or an import.
 */
#include "pool/notes.h"

#define HALF_BYTES_MIN 4096u
#define ENTRY_BYTES(len) ((uint32_t)sizeof(struct reply_entry) + ALIGN_UP((uint32_t)(len), 4u))

struct note_buf {
	uint8_t *half[2]; /* entries, as in a block */
	uint32_t used[2];
	unsigned newest;
};

struct notes {
	struct note_buf *bufs; /* by reactor and TXG_SLOT */
	uint32_t half_bytes;
	/* the syncing fiber; before that, whoever imports */
	uint8_t *block; /* being filled */
	uint32_t used;  /* of it, header included; 0 = not begun */
	uint64_t seq;   /* of it, or of the one before */
};

/* ---- life ---- */

int
notes_open(struct pool *p)
{
	struct notes *n = mem_zalloc(sizeof(*n));
	uint32_t all = REPLIES_BLOCKS * REPLIES_BLOCK_BYTES;

	if (n == NULL) {
		return -ENOMEM;
	}
	p->notes = n;
	n->half_bytes = MAX(all / 2 / rt_reactor_count() & ~3u, HALF_BYTES_MIN);
	n->bufs = mem_zalloc_array((size_t)rt_reactor_count() * TXG_SLOTS, sizeof(*n->bufs));
	n->block = mem_zalloc(REPLIES_BLOCK_BYTES);
	return n->bufs != NULL && n->block != NULL ? 0 : -ENOMEM;
}

void
notes_close(struct pool *p)
{
	struct notes *n = p->notes;

	if (n == NULL) {
		return;
	}
	for (unsigned i = 0; n->bufs != NULL && i < rt_reactor_count() * TXG_SLOTS; i++) {
		mem_free(n->bufs[i].half[0]);
		mem_free(n->bufs[i].half[1]);
	}
	mem_free(n->bufs);
	mem_free(n->block);
	mem_free(n);
	p->notes = NULL;
}

/* ---- taking notes ---- */

void
pool_tx_note(struct pool_tx *tx, const void *data, uint32_t len)
{
	struct notes *n = tx->p->notes;
	struct note_buf *b = &n->bufs[tx->reactor * TXG_SLOTS + TXG_SLOT(tx->txg)];
	uint32_t bytes = ENTRY_BYTES(len);
	struct reply_entry head = {.len_bytes = le16_of((uint16_t)len)};

	ASSERT(rt_reactor_self() == tx->reactor);
	if (len == 0 || len > POOL_NOTE_MAX) {
		return;
	}
	if (b->used[b->newest] + bytes > n->half_bytes) {
		b->newest ^= 1;
		b->used[b->newest] = 0;
	}
	if (b->half[b->newest] == NULL) {
		b->half[b->newest] = mem_zalloc(n->half_bytes);
		if (b->half[b->newest] == NULL) {
			return;
		}
	}
	uint8_t *at = b->half[b->newest] + b->used[b->newest];
	memset(at + bytes - 4, 0, 4); /* the padding */
	memcpy(at, &head, sizeof(head));
	memcpy(at + sizeof(head), data, len);
	b->used[b->newest] += bytes;
}

/* ---- the syncing fiber ---- */

static bool
is_replies(const struct pool_obj *o)
{
	return pool_obj_type(o) == OBJ_REPLIES && pool_obj_block_bytes(o) == REPLIES_BLOCK_BYTES;
}

static int
replies_object(struct pool *p, struct pool_tx *tx, struct pool_obj **out)
{
	struct datasets *d = p->datasets;
	uint64_t number = le64_get(d->phys.replies_object);
	int err;

	if (number != 0 && pool_obj_hold(d->mos, number, 0, out) == 0) {
		if (is_replies(*out)) {
			return 0;
		}
		pool_obj_release(*out);
	}
	err = pool_obj_create(tx, d->mos, OBJ_REPLIES, REPLIES_BLOCK_BYTES, 0, 0, out);
	if (err == 0) {
		mutex_lock(&d->lock);
		d->phys.replies_object = le64_of(pool_obj_number(*out));
		d->phys_dirty = true;
		mutex_unlock(&d->lock);
	}
	return err;
}

static int
tail_write(struct notes *n, struct pool_tx *tx, struct pool_obj *o)
{
	struct replies_header head = {.magic = le64_of(REPLIES_MAGIC),
	    .seq = le64_of(n->seq),
	    .txg = le64_of(tx->txg),
	    .used_bytes = le32_of(n->used)};
	struct iovec iov = {n->block, REPLIES_BLOCK_BYTES};

	memcpy(n->block, &head, sizeof(head));
	return pool_write(tx, o, n->seq % REPLIES_BLOCKS * REPLIES_BLOCK_BYTES, &iov, 1);
}

static void
tail_begin(struct notes *n)
{
	memset(n->block, 0, REPLIES_BLOCK_BYTES);
	n->used = sizeof(struct replies_header);
	n->seq++;
}

static int
entries_copy(
    struct notes *n, struct pool_tx *tx, struct pool_obj *o, const uint8_t *from, uint32_t len)
{
	uint32_t at = 0;
	int err = 0;

	while (at < len && err == 0) {
		struct reply_entry e;
		uint32_t bytes;

		memcpy(&e, from + at, sizeof(e));
		bytes = ENTRY_BYTES(le16_get(e.len_bytes));
		if (n->used != 0 && n->used + bytes > REPLIES_BLOCK_BYTES) {
			err = tail_write(n, tx, o);
			n->used = 0;
		}
		if (n->used == 0) {
			tail_begin(n);
		}
		memcpy(n->block + n->used, from + at, bytes);
		n->used += bytes;
		at += bytes;
	}
	return err;
}

static bool
txg_has_notes(const struct notes *n, uint64_t txg)
{
	for (unsigned r = 0; r < rt_reactor_count(); r++) {
		const struct note_buf *b = &n->bufs[r * TXG_SLOTS + TXG_SLOT(txg)];

		if (b->used[0] + b->used[1] > 0) {
			return true;
		}
	}
	return false;
}

int
notes_sync(struct pool *p, struct pool_tx *tx)
{
	struct notes *n = p->notes;
	struct pool_obj *o;
	int err;

	if (!txg_has_notes(n, tx->txg) || DELIBERATE_BUG("pool-notes-dropped")) {
		return 0;
	}
	err = replies_object(p, tx, &o);
	if (err != 0) {
		return err;
	}
	for (unsigned r = 0; r < rt_reactor_count(); r++) {
		struct note_buf *b = &n->bufs[r * TXG_SLOTS + TXG_SLOT(tx->txg)];

		for (unsigned i = 1; i <= 2 && err == 0; i++) {
			unsigned h = (b->newest + i) & 1; /* the older one first */

			err = entries_copy(n, tx, o, b->half[h], b->used[h]);
		}
		b->used[0] = b->used[1] = 0;
	}
	err = err != 0 || n->used == 0 ? err : tail_write(n, tx, o);
	pool_obj_release(o);
	return err;
}

/* ---- after an import ---- */

/* Is this the block of place i? Its sequence number, or 0. */
static uint64_t
block_decode(const uint8_t *block, uint32_t i, uint32_t *out_used)
{
	struct replies_header head;
	uint64_t seq;
	uint32_t used;

	memcpy(&head, block, sizeof(head));
	seq = le64_get(head.seq);
	used = le32_get(head.used_bytes);
	if (le64_get(head.magic) != REPLIES_MAGIC || seq % REPLIES_BLOCKS != i ||
	    used < sizeof(head) || used > REPLIES_BLOCK_BYTES) {
		return 0;
	}
	*out_used = used;
	return seq;
}

static void
block_each(const uint8_t *block, uint32_t used, pool_note_fn *fn, void *arg)
{
	uint32_t at = sizeof(struct replies_header);

	while (at + sizeof(struct reply_entry) <= used) {
		struct reply_entry e;
		uint32_t len;

		memcpy(&e, block + at, sizeof(e));
		len = le16_get(e.len_bytes);
		if (len == 0 || len > POOL_NOTE_MAX || ENTRY_BYTES(len) > used - at) {
			return;
		}
		fn(arg, block + at + sizeof(e), len);
		at += ENTRY_BYTES(len);
	}
}

/* The whole object and what each block is (0: nothing). False: there is none, or no memory. */
static bool
replies_read(struct pool *p, uint8_t **out, uint64_t seq[REPLIES_BLOCKS], uint32_t used[])
{
	uint64_t number = le64_get(p->datasets->phys.replies_object);
	uint8_t *bytes = NULL;
	struct pool_obj *o;

	if (number == 0 || pool_obj_hold(p->datasets->mos, number, 0, &o) != 0) {
		return false;
	}
	if (is_replies(o)) {
		bytes = mem_zalloc(REPLIES_BLOCKS * REPLIES_BLOCK_BYTES);
	}
	for (uint32_t i = 0; bytes != NULL && i < REPLIES_BLOCKS; i++) {
		uint8_t *block = bytes + (size_t)i * REPLIES_BLOCK_BYTES;
		int err = obj_bytes_read(
		    o, (uint64_t)i * REPLIES_BLOCK_BYTES, REPLIES_BLOCK_BYTES, block);

		seq[i] = err == 0 ? block_decode(block, i, &used[i]) : 0;
		if (err != 0) {
			log_warn(
			    "replies_unreadable pool=%s block=%u err=%s", p->name, i, err_str(err));
		}
	}
	pool_obj_release(o);
	*out = bytes;
	return bytes != NULL;
}

/* The place of the oldest block newer than last; REPLIES_BLOCKS: none. */
static uint32_t
block_after(const uint64_t seq[REPLIES_BLOCKS], uint64_t last)
{
	uint32_t best = REPLIES_BLOCKS;

	for (uint32_t i = 0; i < REPLIES_BLOCKS; i++) {
		if (seq[i] > last && (best == REPLIES_BLOCKS || seq[i] < seq[best])) {
			best = i;
		}
	}
	return best;
}

void
pool_notes_each(struct pool *p, pool_note_fn *fn, void *arg)
{
	uint64_t seq[REPLIES_BLOCKS], last = 0;
	uint32_t used[REPLIES_BLOCKS], next;
	uint8_t *bytes;

	if (!replies_read(p, &bytes, seq, used)) {
		return;
	}
	while ((next = block_after(seq, last)) < REPLIES_BLOCKS) {
		block_each(bytes + (size_t)next * REPLIES_BLOCK_BYTES, used[next], fn, arg);
		last = seq[next];
	}
	mem_free(bytes);
}

void
notes_load(struct pool *p)
{
	uint64_t seq[REPLIES_BLOCKS];
	uint32_t used[REPLIES_BLOCKS];
	uint8_t *bytes;

	if (!replies_read(p, &bytes, seq, used)) {
		return;
	}
	for (uint32_t i = 0; i < REPLIES_BLOCKS; i++) {
		p->notes->seq = MAX(p->notes->seq, seq[i]);
	}
	/* one that can't be read now may be newer: it shall be older than all that follow */
	p->notes->seq += REPLIES_BLOCKS;
	mem_free(bytes);
}
