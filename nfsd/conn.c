/*
 * conn.c - one TCP connection: records in, requests run side by side, replies out.
 *
 * Invariants
 *  1. Everything of a connection happens on its one reactor; between two parks its fields are ours.
 *  2. An idle connection has no fiber and no buffer. Readable -> a reader fiber, which ends when
 * the socket is empty. Never two readers: the next one is armed by the last.
 *  3. refs counts the reader (or the armed wait) and the requests that run; the last one frees.
 *  4. A request keeps the receive buffer that holds its message. The reader never moves bytes of a
 *     buffer that a request holds.
 *  5. Replies go out in whole records; one fiber at a time sends, the others queue. The sender
 * first lets the other fibers of the reactor run, so that one system call carries many replies.
 *  6. A record longer than CONN_RECORD_MAX, by one fragment or by many, closes the connection
 * before it is buffered.
 */
#include "nfsd/conn_int.h"

#define CONN_RX_BYTES 65536u
#define CONN_SEND_MAX_NS (30 * NSEC_PER_SEC) /* a client that doesn't read is cut off */
#define CONN_SEND_IOVECS 64
#define CONN_PIN_MAX (4u << 20) /* bytes of READ replies on their way to one client */
#define CONN_ALLOC_RETRY_NS (10 * NSEC_PER_MSEC)
#define RPC_LAST_FRAGMENT 0x80000000u
#define SPAWN_RETRY_NS NSEC_PER_MSEC

static void conn_arm(struct conn *c);

static void
conn_put(struct conn *c)
{
	if (--c->refs > 0) {
		return;
	}
	struct nfsd *n = c->n;
	spin_lock(&n->conns_guard);
	list_remove(&c->link);
	n->conn_count--;
	n->reactor_conns[c->reactor]--;
	conn_count_peer(n, c->peer_slot, -1);
	spin_unlock(&n->conns_guard);
	iobuf_unref(c->rx);
	iobuf_unref(c->frag);
	net_conn_close(c->net);
	mem_free(c);
	wg_done(&n->fibers);
}

static void
conn_fail(struct conn *c)
{
	if (!c->dead) {
		c->dead = true;
		net_conn_shutdown(c->net);
	}
}

/* ---- replies ---- */

static void
conn_request_done(struct conn *c, struct request *r)
{
	sem_give(&c->pins, r->pinned_bytes);
	request_free(r);
	c->inflight--;
	if (c->throttled != NULL) {
		fiber_wake(c->throttled);
	}
	conn_put(c);
}

static const uint8_t zeros[65536];

/* Appends the iovecs of one reply; returns how many, 0 when they don't fit. */
static int
conn_reply_iov(const struct request *r, struct iovec *iov, int room)
{
	int used = 0;
	if (room < 1) {
		return 0;
	}
	iov[used++] = (struct iovec){r->head, (size_t)(r->out.pos - r->head)};
	for (uint32_t i = 0; i < r->slice_count; i++) {
		const struct pool_slice *s = &r->slices[i];
		uint32_t left = s->len_bytes;
		while (left > 0) {
			uint32_t step = s->buf != NULL ? left : MIN(left, (uint32_t)sizeof(zeros));
			if (used == room) {
				return 0;
			}
			const uint8_t *from = s->buf != NULL ? s->buf->data + s->off_bytes : zeros;
			iov[used++] = (struct iovec){(void *)(uintptr_t)from, step};
			left -= step;
		}
	}
	if (r->slice_pad > 0) {
		if (used == room) {
			return 0;
		}
		iov[used++] = (struct iovec){(void *)(uintptr_t)zeros, r->slice_pad};
	}
	return used;
}

/* A READ of very many slices doesn't fit the batch's array; it goes out alone, piece by piece. */
static int
conn_send_alone(struct conn *c, const struct request *r, struct iovec *iov)
{
	struct request part = {.head = r->head, .out = r->out};
	uint32_t sent = 0;
	do {
		uint32_t count = MIN(r->slice_count - sent, (uint32_t)CONN_SEND_IOVECS / 4);
		part.slices = r->slices + sent;
		part.slice_count = count;
		sent += count;
		part.slice_pad = sent == r->slice_count ? r->slice_pad : 0;
		int used = conn_reply_iov(&part, iov, CONN_SEND_IOVECS);
		int first = part.head == part.out.pos ? 1 : 0;
		int err =
		    net_writev(c->net, iov + first, used - first, rt_now_ns() + CONN_SEND_MAX_NS);
		if (err != 0) {
			return err;
		}
		part.head = part.out.pos;
	} while (sent < r->slice_count);
	return 0;
}

/* Sends what is queued, as many replies per call as fit. */
static void
conn_send_batch(struct conn *c, struct iovec *iov)
{
	struct list batch;
	list_init(&batch);
	int used = 0, err = 0;
	while (!list_empty(&c->outq)) {
		struct request *r = list_first(&c->outq, struct request, link);
		int more = conn_reply_iov(r, iov + used, CONN_SEND_IOVECS - used);
		if (more == 0 && used > 0) {
			break;
		}
		list_remove(&r->link);
		list_push_back(&batch, &r->link);
		if (more == 0) {
			err = c->dead ? 0 : conn_send_alone(c, r, iov);
			break;
		}
		used += more;
	}
	if (used > 0 && !c->dead) {
		uint64_t bytes = 0;
		for (int i = 0; i < used; i++) {
			bytes += iov[i].iov_len;
		}
		err = net_writev(c->net, iov, used, rt_now_ns() + CONN_SEND_MAX_NS);
		atomic_fetch_add_explicit(&c->n->bytes_out, bytes, memory_order_relaxed);
		atomic_fetch_add_explicit(&c->bytes_out, bytes, memory_order_relaxed);
	}
	if (err != 0) {
		conn_fail(c);
	}
	list_for_each_safe(item, tmp, &batch)
	{
		list_remove(item);
		conn_request_done(c, list_entry(item, struct request, link));
	}
}

static void
conn_send(struct conn *c, struct request *r)
{
	list_push_back(&c->outq, &r->link);
	if (c->sending) {
		return;
	}
	c->sending = true;
	struct iovec iov[CONN_SEND_IOVECS];
	fiber_yield();
	c->refs++;
	while (!list_empty(&c->outq)) {
		conn_send_batch(c, iov);
	}
	c->sending = false;
	conn_put(c);
}

static void
conn_request(void *arg)
{
	struct request *r = arg;
	struct conn *c = r->conn;
	if (c->dead || !request_run(r)) {
		conn_fail(c);
		conn_request_done(c, r);
		return;
	}
	conn_send(c, r);
}

/* ---- records ---- */

void
conn_pin(struct request *r, uint32_t bytes)
{
	/* a call that runs again has what it needs already */
	if (r->conn != NULL && bytes > r->pinned_bytes) {
		/* ended by this connection's replies: each is sent or fails within CONN_SEND_MAX_NS
		 */
		sem_take(&r->conn->pins, bytes - r->pinned_bytes);
		r->pinned_bytes = bytes;
	}
}

void
conn_local(const struct conn *c, struct net_addr *out)
{
	net_local(c->net, out);
}

/* How many requests a connection may have running: its part of its client's part of what there is
 * room for. Who has many connections divides what is his among them, and leaves the others theirs.
 */
static uint32_t
conn_share(const struct conn *c)
{
	struct nfsd *n = c->n;
	uint32_t peers = atomic_load_explicit(&n->peers_used, memory_order_relaxed);
	uint32_t own = atomic_load_explicit(&n->peer_conns[c->peer_slot], memory_order_relaxed);
	uint32_t share = n->requests_max / MAX(peers, 1u) / MAX(own, 1u);
	return MIN(MAX(share, 2u), CONN_INFLIGHT_MAX);
}

static int
conn_start_request(struct conn *c, struct iobuf *buf, const uint8_t *msg, uint32_t len)
{
	struct request *r = request_new(c->n, buf, msg, len);
	if (r == NULL) {
		return -ENOMEM;
	}
	atomic_store_explicit(&c->partial_since_ns, 0, memory_order_relaxed);
	r->conn = c;
	r->peer = c->peer;
	r->programs = c->programs;
	c->refs++;
	c->inflight++;
	atomic_fetch_add_explicit(&c->calls, 1, memory_order_relaxed);
	fiber_spawn_wait(c->reactor, FIBER_REQUEST, "nfs-request", conn_request, r);
	while (c->inflight >= conn_share(c) && !c->dead) {
		c->throttled = fiber_self();
		fiber_park();
		c->throttled = NULL;
	}
	return 0;
}

/* A quarter of the receive budget is kept for small records: large ones that never arrive whole
 * must not keep everybody else from being heard. One large record is always let in. */
static bool
conn_large_fits(uint32_t len)
{
	struct arena_info info;
	arena_get_info(&info);
	uint64_t used = info.used_bytes[ARENA_RECV], budget = info.budget_bytes[ARENA_RECV];
	return used + 2 * (uint64_t)len <= budget / 4 * 3 || used <= budget / 4;
}

/* A connection that holds a buffer doesn't wait for another without end: two such could wait for
 * each other. */
static int
conn_alloc(struct conn *c, uint32_t len, struct iobuf **out)
{
	uint64_t now = rt_now_ns(), deadline = now + CONN_PARTIAL_MAX_NS;
	bool large = len > CONN_RX_BYTES;
	if (c->rx == NULL && c->frag == NULL && !large) {
		return iobuf_alloc(len, ARENA_RECV, out);
	}
	if (atomic_load(&c->partial_since_ns) == 0) {
		atomic_store(&c->partial_since_ns, now);
	}
	int err = -ENOMEM;
	while (
	    err == -ENOMEM && !c->dead && !atomic_load(&c->giving_way) && rt_now_ns() < deadline) {
		if (!large || conn_large_fits(len)) {
			err = iobuf_try_alloc(len, ARENA_RECV, out);
		}
		if (err == -ENOMEM) {
			fiber_sleep(CONN_ALLOC_RETRY_NS);
		}
	}
	return err;
}

/* Makes room in rx for need bytes from rx_pos on, keeping what is unread. */
static int
conn_rx_room(struct conn *c, uint32_t need)
{
	uint32_t unread = c->rx_len - c->rx_pos;
	if (c->rx != NULL && c->rx->cap_bytes - c->rx_pos >= need && c->rx_len < c->rx->cap_bytes) {
		return 0;
	}
	if (c->rx != NULL && atomic_load(&c->rx->refs) == 1 && c->rx->cap_bytes >= need &&
	    c->rx_pos > 0) {
		memmove(c->rx->data, c->rx->data + c->rx_pos, unread);
	} else {
		struct iobuf *fresh;
		int err = conn_alloc(c, MAX(need, CONN_RX_BYTES), &fresh);
		if (err != 0) {
			return err;
		}
		if (unread > 0) {
			memcpy(fresh->data, c->rx->data + c->rx_pos, unread);
		}
		iobuf_unref(c->rx);
		c->rx = fresh;
	}
	c->rx_pos = 0;
	c->rx_len = unread;
	return 0;
}

/* A fragment that isn't a whole record by itself: its bytes move to the assembly buffer. */
static int
conn_take_fragment(struct conn *c, uint32_t len, bool last)
{
	if (c->frag == NULL || c->frag->cap_bytes < c->frag_len + len) {
		struct iobuf *larger;
		int err = conn_alloc(c, MAX(c->frag_len + len, IOBUF_BYTES_MIN), &larger);
		if (err != 0) {
			return err;
		}
		if (c->frag != NULL) {
			memcpy(larger->data, c->frag->data, c->frag_len);
			iobuf_unref(c->frag);
		}
		c->frag = larger;
	}
	memcpy(c->frag->data + c->frag_len, c->rx->data + c->rx_pos + 4, len);
	c->frag_len += len;
	c->rx_pos += 4 + len;
	if (!last) {
		return 0;
	}
	struct iobuf *whole = c->frag;
	uint32_t whole_len = c->frag_len;
	c->frag = NULL;
	c->frag_len = 0;
	int err = conn_start_request(c, whole, whole->data, whole_len);
	iobuf_unref(whole);
	return err;
}

/* Starts every whole record that is in rx. need: bytes from rx_pos on that the next one wants. */
static int
conn_parse(struct conn *c, uint32_t *out_need)
{
	for (;;) {
		uint32_t unread = c->rx_len - c->rx_pos;
		*out_need = 4;
		if (unread < 4 || c->dead) {
			return 0;
		}
		const uint8_t *at = c->rx->data + c->rx_pos;
		uint32_t mark = xdr_load32(at);
		uint32_t len = mark & ~RPC_LAST_FRAGMENT;
		bool last = (mark & RPC_LAST_FRAGMENT) != 0;
		if (len > CONN_RECORD_MAX - c->frag_len) {
			log_limited(LOG_INFO, "rpc-record-too-long bytes=%u", len);
			return -EMSGSIZE;
		}
		*out_need = 4 + len;
		if (unread < 4 + len) {
			return 0;
		}
		int err;
		if (last && c->frag == NULL) {
			c->rx_pos += 4 + len;
			err = conn_start_request(c, c->rx, at + 4, len);
		} else {
			err = conn_take_fragment(c, len, last);
		}
		if (err != 0) {
			return err;
		}
	}
}

/* Nothing more to read now: an idle connection gives its buffer back, a partial record keeps a
 * small one. */
static int
conn_go_idle(struct conn *c)
{
	uint32_t unread = c->rx_len - c->rx_pos;
	bool partial = unread > 0 || c->frag != NULL;
	if (unread == 0) {
		iobuf_unref(c->rx);
		c->rx = NULL;
		c->rx_pos = c->rx_len = 0;
	} else if (unread <= IOBUF_BYTES_MIN && c->rx->cap_bytes > IOBUF_BYTES_MIN) {
		struct iobuf *small;
		int err = conn_alloc(c, IOBUF_BYTES_MIN, &small);
		if (err != 0) {
			return err;
		}
		memcpy(small->data, c->rx->data + c->rx_pos, unread);
		iobuf_unref(c->rx);
		c->rx = small;
		c->rx_pos = 0;
		c->rx_len = unread;
	}
	if (!partial) {
		atomic_store(&c->partial_since_ns, 0);
	} else if (atomic_load(&c->partial_since_ns) == 0) {
		atomic_store(&c->partial_since_ns, rt_now_ns());
	}
	return 0;
}

/* 0: the socket is empty for now. */
static int
conn_read_all(struct conn *c)
{
	uint32_t need = 4;
	int err = conn_parse(c, &need);
	while (err == 0 && !c->dead) {
		err = conn_rx_room(c, need);
		if (err != 0) {
			break;
		}
		int64_t got =
		    net_try_read(c->net, c->rx->data + c->rx_len, c->rx->cap_bytes - c->rx_len);
		if (got == -EAGAIN) {
			return 0;
		}
		if (got <= 0) {
			return got == 0 ? -ECONNRESET : (int)got;
		}
		c->rx_len += (uint32_t)got;
		atomic_store_explicit(&c->last_ns, rt_now_ns(), memory_order_relaxed);
		atomic_fetch_add_explicit(&c->n->bytes_in, (uint64_t)got, memory_order_relaxed);
		atomic_fetch_add_explicit(&c->bytes_in, (uint64_t)got, memory_order_relaxed);
		err = conn_parse(c, &need);
		/* who sends without a pause has company on this reactor */
		fiber_maybe_yield();
	}
	return c->dead ? -ECANCELED : err;
}

static void
conn_reader(void *arg)
{
	struct conn *c = arg;
	int err = conn_read_all(c);
	if (err == 0) {
		err = conn_go_idle(c);
	}
	if (err != 0) {
		conn_fail(c);
		conn_put(c);
		return;
	}
	conn_arm(c);
}

static void
conn_retry(struct rt_timer *t)
{
	conn_arm(container_of(t, struct conn, retry));
}

static void
conn_readable(void *arg)
{
	struct conn *c = arg;
	if (fiber_spawn(c->reactor, FIBER_REQUEST, "nfs-reader", conn_reader, c) != 0) {
		rt_timer_arm(&c->retry, rt_now_ns() + SPAWN_RETRY_NS, conn_retry);
	}
}

static void
conn_arm(struct conn *c)
{
	net_conn_on_readable(c->net, conn_readable, c);
}

/* ---- coming and going ---- */

static void
conn_begin(void *arg)
{
	struct conn *c = arg;
	conn_reader(c);
}

static unsigned
conn_least_loaded(const struct nfsd *n)
{
	unsigned best = 0;
	for (unsigned i = 1; i < rt_reactor_count(); i++) {
		if (n->reactor_conns[i] < n->reactor_conns[best]) {
			best = i;
		}
	}
	return best;
}

void
conn_accept(struct listener *l, struct net_conn *net)
{
	struct nfsd *n = l->n;
	struct conn *c = mem_zalloc(sizeof(*c));
	if (c == NULL) {
		net_conn_close(net);
		return;
	}
	c->n = n;
	c->net = net;
	c->programs = l->programs;
	c->refs = 1;
	list_init(&c->link);
	list_init(&c->outq);
	sem_init_units(&c->pins, CONN_PIN_MAX);
	net_peer(net, &c->peer);
	c->peer_slot = net_ip_hash(c->peer.ip) % CONN_PEERS;
	atomic_init(&c->last_ns, rt_now_ns());
	spin_lock(&n->conns_guard);
	bool full = atomic_load(&n->stopping) || !conn_make_room(n, c->peer_slot);
	if (!full) {
		c->reactor = conn_least_loaded(n);
		n->reactor_conns[c->reactor]++;
		conn_count_peer(n, c->peer_slot, 1);
		n->conn_count++;
		list_push_back(&n->conns, &c->link);
		wg_add(&n->fibers, 1);
	}
	spin_unlock(&n->conns_guard);
	if (full) {
		net_conn_close(net);
		mem_free(c);
		return;
	}
	atomic_fetch_add_explicit(&n->connections_total, 1, memory_order_relaxed);
	fiber_spawn_wait(c->reactor, FIBER_REQUEST, "nfs-conn", conn_begin, c);
}
