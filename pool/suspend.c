/*
 * suspend.c - a set has lost more drives than it tolerates.
 *
 * Nothing is given up then: the syncing fiber and its workers keep their data, wait and try again,
 * while requests get -ERR_SUSPENDED. No drive is declared out that its set can't spare
 * (vdev_can_spare), so when the drives are back the set is as it was. pool_drive_return takes them
 * back; pool.closing ends the wait without a commit.
 *
 * A drive that went may have lost what its volatile cache held, also of blocks whose write had
 * succeeded. So until the next flush all that was written is remembered (address and buffer), and
 * after a return it is written again before that flush. The list is bounded: when it holds too much
 * memory the drives are flushed early.
 */
#include "pool/suspend.h"

#include "pool/event.h"
#include "pool/txg.h"

#define RETRY_NS (200 * NSEC_PER_MSEC)

struct held {
	struct held *next;
	struct extent e;
};

struct unflushed {
	struct spin lock;
	struct held *head;
	uint64_t bytes;
	struct mutex flush_mu; /* one early flush at a time */
};

/* ---- waiting ---- */

int
pool_suspend_wait(struct pool *p, const char *reason)
{
	if (!atomic_exchange(&p->suspended, true)) {
		log_error("pool_suspended pool=%s reason=%s", p->name, reason);
		events_add(p->v.events, POOL_EVENT_ERROR, "pool.suspended",
		    "more drives are gone than the pool can do without: nothing is written until "
		    "they return");
		if (p->txgs != NULL) {
			txg_wake_all(p->txgs);
		}
	}
	if (atomic_load(&p->closing) && !DELIBERATE_BUG("pool-closing-waits")) {
		return -EIO;
	}
	fiber_sleep(RETRY_NS);
	return 0;
}

void
pool_suspend_for_good(struct pool *p, int err)
{
	atomic_store(&p->txg_err, err);
	atomic_store(&p->suspended, true);
	log_error("pool_suspended pool=%s reason=txg err=%s", p->name, err_str(err));
	events_add(p->v.events, POOL_EVENT_ERROR, "pool.suspended",
	    "what changed could not be written (%s): the pool must be imported anew", err_str(err));
	txg_wake_all(p->txgs);
}

void
pool_set_failmode(struct pool *p, bool fail_now)
{
	atomic_store(&p->fail_now, fail_now);
}

void
pool_resume(struct pool *p)
{
	if (atomic_exchange(&p->suspended, false)) {
		log_notice("pool_resumed pool=%s", p->name);
		events_add(p->v.events, POOL_EVENT_INFO, "pool.resumed",
		    "the drives are back, everything has been written");
	}
}

/* ---- what isn't flushed ---- */

int
unflushed_open(struct pool *p)
{
	struct unflushed *u = mem_zalloc(sizeof(*u));

	if (u == NULL) {
		return -ENOMEM;
	}
	spin_init(&u->lock);
	mutex_init(&u->flush_mu, RANK_POOL_CONFIG);
	p->unflushed = u;
	return 0;
}

static void
held_free(struct held *h)
{
	while (h != NULL) {
		struct held *next = h->next;

		iobuf_unref(h->e.buf);
		mem_free(h);
		h = next;
	}
}

void
unflushed_close(struct pool *p)
{
	if (p->unflushed != NULL) {
		held_free(p->unflushed->head);
		mem_free(p->unflushed);
		p->unflushed = NULL;
	}
}

static struct held *
held_take(struct unflushed *u, uint64_t *out_bytes)
{
	struct held *h;

	spin_lock(&u->lock);
	h = u->head;
	*out_bytes = u->bytes;
	u->head = NULL;
	u->bytes = 0;
	spin_unlock(&u->lock);
	return h;
}

static void
held_put_back(struct unflushed *u, struct held *h, uint64_t bytes)
{
	struct held *last = h;

	if (h == NULL) {
		return;
	}
	while (last->next != NULL) {
		last = last->next;
	}
	spin_lock(&u->lock);
	last->next = u->head;
	u->head = h;
	u->bytes += bytes;
	spin_unlock(&u->lock);
}

static int
held_rewrite(struct pool *p, const struct held *h, bool *out_membership_changed)
{
	for (; h != NULL; h = h->next) {
		struct raidz_block b = {
		    .sector = bp_addr_sector(&h->e.addr),
		    .len_bytes = h->e.len_bytes,
		    .buf = h->e.buf,
		    .off_bytes = h->e.off_bytes,
		};

		uint32_t set = bp_addr_set(&h->e.addr);

		if (raidz_write(p->v.sets[set].rg, &b, 1, ARENA_SYNC) != 0) {
			return -EIO;
		}
		*out_membership_changed |= vdev_twins_out(&p->v, set, b.report.unwritten);
	}
	return 0;
}

int
unflushed_flush(struct pool *p, bool *out_membership_changed)
{
	struct unflushed *u = p->unflushed;
	uint64_t bytes;
	struct held *h = held_take(u, &bytes);
	int err = 0;

	if (atomic_exchange(&p->drive_returned, false) && !DELIBERATE_BUG("pool-return-trusted")) {
		err = held_rewrite(p, h, out_membership_changed);
		if (err != 0) {
			atomic_store(&p->drive_returned, true);
		}
	}
	if (err == 0 && !DELIBERATE_BUG("pool-skip-flush")) {
		err = vdev_flush_all(&p->v, out_membership_changed);
	}
	if (err != 0) {
		held_put_back(u, h, bytes);
		return err;
	}
	held_free(h);
	return 0;
}

static int
flush_early(struct pool *p)
{
	struct unflushed *u = p->unflushed;
	int err = 0;

	for (;;) {
		bool changed = false;

		mutex_lock(&p->config_lock);
		if (u->bytes > cache_keep_bytes(p->cache)) {
			err = unflushed_flush(p, &changed);
		}
		mutex_unlock(&p->config_lock);
		if (changed) {
			atomic_store(&p->config_dirty, true);
		}
		if (err == 0 || pool_suspend_wait(p, "flush") != 0) {
			return err;
		}
		err = 0;
	}
}

/* What was compressed lies in a buffer as large as it was before: it is kept in a smaller one where
 * that saves half, since hundreds of them may be kept. */
static void
held_keep(struct held *h)
{
	struct extent *e = &h->e;
	struct iobuf *small;

	if (e->buf->use == ARENA_SYNC && e->len_bytes <= e->buf->cap_bytes / 2 &&
	    iobuf_try_alloc(e->len_bytes, ARENA_CACHE, &small) == 0) {
		memcpy(small->data, e->buf->data + e->off_bytes, e->len_bytes);
		e->buf = small;
		e->off_bytes = 0;
		return;
	}
	(void)iobuf_ref(e->buf);
	if (e->buf->use == ARENA_SYNC) {
		iobuf_recount(e->buf, ARENA_CACHE); /* the reserve isn't for keeping */
	}
}

int
unflushed_add(struct pool *p, const struct extent *e)
{
	struct unflushed *u = p->unflushed;
	struct held *h = pool_must_alloc(sizeof(*h));
	bool full;

	h->e = *e;
	held_keep(h);
	spin_lock(&u->lock);
	h->next = u->head;
	u->head = h;
	u->bytes += h->e.buf->cap_bytes; /* not what of it is used: that is what memory it takes */
	full = u->bytes > cache_keep_bytes(p->cache) || BUGGIFY("pool-flush-early");
	spin_unlock(&u->lock);
	return full ? flush_early(p) : 0;
}
