/*
 * net_sim_conn.c - the simulated network: streams.
 *
 * A connection is two sim_conn that know each other (`other` is NULL once the far end was freed).
 * Bytes written go into the far end's inbox: a ring of random capacity, whose content is a sequence
 * of segments, each with the time at which it arrives (never before the one ahead of it). After the
 * last one may come an end of stream, or instead of everything a reset. Reads are short at random.
 *
 * Events reach an end on its own reactor: whoever changes the state of an end kicks it (a message);
 * the kick looks at what has arrived, reports it, and otherwise arms the timer for the next
 * arrival. An end that is bound to no reactor yet needs no kick: binding looks for itself. A
 * message under way holds the memory: closing an end that has been kicked leaves the freeing to the
 * kick.
 *
 * How an end goes: shutdown is an end of stream or a reset, by chance, as on a real network;
 * closing with unread bytes in the inbox is a reset, else an end of stream.
 */
#include "base/net_sim_int.h"

#include <errno.h>
#include <string.h>
#include "base/bug.h"
#include "base/check.h"
#include "base/mem.h"

#define SEGMENTS_MAX 32u

struct sim_segment {
	uint32_t len;
	uint64_t due_ns;
};

struct sim_conn {
	struct net_conn conn;
	struct sim_conn *other;
	uint8_t *ring;
	uint32_t cap_bytes, head, len_bytes;
	struct sim_segment segment[SEGMENTS_MAX]; /* a ring too */
	uint32_t segment_head, segment_count;
	uint64_t last_due_ns;
	bool fin, reset; /* after / instead of what is in the ring */
	uint64_t fin_due_ns;
	struct rt_msg kick;
	bool kicked, closed;
	struct rt_timer timer;
	bool timer_armed;
	bool unix_domain;
	uint32_t uid, gid;
	int32_t pid;
};

/* ---- events ---- */

static struct sim_conn *
sim_conn_of(struct net_conn *c)
{
	return container_of(c, struct sim_conn, conn);
}

/* Bytes that have arrived. */
static uint32_t
inbox_arrived(const struct sim_conn *s)
{
	uint64_t now = rt_now_ns();
	uint32_t sum = 0;

	for (uint32_t i = 0; i < s->segment_count; i++) {
		const struct sim_segment *g = &s->segment[(s->segment_head + i) % SEGMENTS_MAX];

		if (g->due_ns > now) {
			break;
		}
		sum += g->len;
	}
	return sum;
}

static bool
inbox_ended(const struct sim_conn *s)
{
	return s->fin && s->len_bytes == 0 && s->fin_due_ns <= rt_now_ns();
}

static void sim_conn_timer(struct rt_timer *t);

/* Runs on the owner: the timer is set for the next thing that is still under way. */
static void
inbox_expect(struct sim_conn *s)
{
	uint64_t due_ns;

	if (s->timer_armed || s->reset) {
		return;
	}
	if (s->segment_count > 0) {
		due_ns = s->segment[s->segment_head].due_ns;
	} else if (s->fin) {
		due_ns = s->fin_due_ns;
	} else {
		return;
	}
	s->timer_armed = true;
	rt_timer_arm(&s->timer, due_ns, sim_conn_timer);
}

static bool
sim_conn_readable(struct net_conn *c)
{
	struct sim_conn *s = sim_conn_of(c);

	if (s->reset || inbox_arrived(s) > 0 || inbox_ended(s)) {
		return true;
	}
	inbox_expect(s);
	return false;
}

static bool
sim_conn_writable(const struct sim_conn *s)
{
	return s->reset || s->other == NULL || s->other->len_bytes < s->other->cap_bytes;
}

static void
sim_conn_look(struct sim_conn *s)
{
	bool readable = sim_conn_readable(&s->conn) || atomic_load(&s->conn.shut);

	net_conn_event(&s->conn, readable, sim_conn_writable(s));
}

static void
sim_conn_timer(struct rt_timer *t)
{
	struct sim_conn *s = container_of(t, struct sim_conn, timer);

	s->timer_armed = false;
	sim_conn_look(s);
}

static void
sim_conn_drop(struct sim_conn *s)
{
	mem_free(s->ring);
	mem_free(s);
}

static void
sim_conn_kicked(struct rt_msg *m)
{
	struct sim_conn *s = container_of(m, struct sim_conn, kick);

	s->kicked = false;
	if (s->closed) {
		sim_conn_drop(s);
		return;
	}
	sim_conn_look(s);
}

static void
sim_conn_kick(struct sim_conn *s)
{
	int reactor = atomic_load(&s->conn.reactor);

	if (s->kicked || reactor == NET_UNBOUND) {
		return;
	}
	s->kicked = true;
	s->kick.fn = sim_conn_kicked;
	rt_post((unsigned)reactor, &s->kick);
}

/* ---- the calls of a connection ---- */

static int
sim_conn_bind(struct net_conn *c)
{
	(void)c;
	return 0;
}

static void
inbox_take(struct sim_conn *s, uint8_t *out, uint32_t n)
{
	uint32_t first = MIN(n, s->cap_bytes - s->head);

	memcpy(out, s->ring + s->head, first);
	memcpy(out + first, s->ring, n - first);
	s->head = (s->head + n) % s->cap_bytes;
	s->len_bytes -= n;
	while (n > 0) {
		struct sim_segment *g = &s->segment[s->segment_head];
		uint32_t part = MIN(n, g->len);

		g->len -= part;
		n -= part;
		if (g->len == 0) {
			s->segment_head = (s->segment_head + 1) % SEGMENTS_MAX;
			s->segment_count--;
		}
	}
}

static int64_t
sim_conn_try_read(struct net_conn *c, void *buf, uint32_t len)
{
	struct sim_conn *s = sim_conn_of(c);
	uint32_t n = inbox_arrived(s);
	uint64_t r;

	if (s->reset) {
		return -ECONNRESET;
	}
	if (n == 0 || len == 0) {
		if (inbox_ended(s) || len == 0) {
			return 0;
		}
		inbox_expect(s);
		return -EAGAIN;
	}
	n = BUGGIFY("net_one_byte_reads") ? 1 : MIN(n, len);
	r = rt_random_u64();
	if (r % 8 == 0) {
		n = 1 + (uint32_t)((r >> 8) % n);
	}
	inbox_take(s, buf, n);
	if (s->other != NULL) {
		sim_conn_kick(s->other);
	}
	return n;
}

static void
inbox_append(struct sim_conn *s, const uint8_t *bytes, uint32_t n)
{
	uint32_t tail = (s->head + s->len_bytes) % s->cap_bytes;
	uint32_t first = MIN(n, s->cap_bytes - tail);

	memcpy(s->ring + tail, bytes, first);
	memcpy(s->ring, bytes + first, n - first);
	s->len_bytes += n;
}

/* Notes that the last n bytes arrive some time later; with all segments in use they join the last.
 */
static void
inbox_stamp(struct sim_conn *s, uint32_t n)
{
	struct sim_segment *g;

	s->last_due_ns = MAX(s->last_due_ns, rt_now_ns() + sim_net_delay_ns());
	if (s->segment_count == SEGMENTS_MAX) {
		g = &s->segment[(s->segment_head + SEGMENTS_MAX - 1) % SEGMENTS_MAX];
		g->len += n;
	} else {
		g = &s->segment[(s->segment_head + s->segment_count) % SEGMENTS_MAX];
		g->len = n;
		s->segment_count++;
	}
	g->due_ns = s->last_due_ns;
}

static int64_t
sim_conn_try_writev(struct net_conn *c, struct iovec *iov, int iov_count)
{
	struct sim_conn *s = sim_conn_of(c), *far = s->other;
	uint32_t sum = 0;

	if (s->reset) {
		return -ECONNRESET;
	}
	if (far == NULL) {
		return -EPIPE;
	}
	if (atomic_load(&far->conn.shut)) {
		s->reset = true;
		return -ECONNRESET;
	}
	for (int i = 0; i < iov_count && far->len_bytes < far->cap_bytes; i++) {
		uint32_t room = far->cap_bytes - far->len_bytes;
		uint32_t n = (uint32_t)MIN(iov[i].iov_len, room);

		inbox_append(far, iov[i].iov_base, n);
		sum += n;
	}
	if (sum == 0) {
		return -EAGAIN;
	}
	inbox_stamp(far, sum);
	sim_conn_kick(far);
	return sum;
}

static void
sim_conn_reset(struct sim_conn *s)
{
	s->reset = true;
	s->len_bytes = s->segment_count = s->head = 0;
	sim_conn_kick(s);
}

static void
sim_conn_fin(struct sim_conn *s)
{
	s->fin = true;
	s->fin_due_ns = MAX(s->last_due_ns, rt_now_ns() + sim_net_delay_ns());
	sim_conn_kick(s);
}

static void
sim_conn_shutdown(struct net_conn *c)
{
	struct sim_conn *s = sim_conn_of(c);

	sim_conn_kick(s);
	if (s->other == NULL) {
		return;
	}
	if (rt_random_u64() % 2 == 0) {
		sim_conn_reset(s->other);
	} else {
		sim_conn_fin(s->other);
	}
}

static void
sim_conn_detach(struct sim_conn *s)
{
	struct sim_conn *far = s->other;

	if (far == NULL) {
		return;
	}
	far->other = NULL;
	s->other = NULL;
	if (s->len_bytes > 0) {
		sim_conn_reset(far);
	} else if (!far->fin) {
		sim_conn_fin(far);
	}
	sim_conn_kick(far);
}

static void
sim_conn_free(struct net_conn *c)
{
	struct sim_conn *s = sim_conn_of(c);

	sim_conn_detach(s);
	if (s->timer_armed) {
		(void)rt_timer_cancel(&s->timer);
	}
	s->closed = true;
	if (!s->kicked) {
		sim_conn_drop(s);
	}
}

static int
sim_conn_peer_cred(const struct net_conn *c, uint32_t *out_uid, uint32_t *out_gid, int32_t *out_pid)
{
	const struct sim_conn *s =
	    (const struct sim_conn *)(const void *)((const char *)c -
						    offsetof(struct sim_conn, conn));

	if (!s->unix_domain) {
		return -EOPNOTSUPP;
	}
	*out_uid = s->uid;
	*out_gid = s->gid;
	*out_pid = s->pid;
	return 0;
}

static const struct net_conn_ops sim_conn_ops = {
    .bind = sim_conn_bind,
    .try_read = sim_conn_try_read,
    .try_writev = sim_conn_try_writev,
    .readable = sim_conn_readable,
    .shutdown = sim_conn_shutdown,
    .free = sim_conn_free,
    .peer_cred = sim_conn_peer_cred,
};

static struct sim_conn *
sim_conn_new(const struct sim_net *n, const struct net_addr *peer, bool unix_domain)
{
	struct sim_conn *s = mem_zalloc(sizeof(*s));

	if (s == NULL) {
		return NULL;
	}
	s->cap_bytes = 4096u << (rt_random_u64() % 7);
	s->ring = mem_zalloc(s->cap_bytes);
	if (s->ring == NULL) {
		mem_free(s);
		return NULL;
	}
	net_conn_init(&s->conn, &sim_conn_ops);
	s->conn.peer = *peer;
	s->unix_domain = unix_domain;
	s->uid = n->uid;
	s->gid = n->gid;
	s->pid = n->pid;
	return s;
}

int
sim_conn_pair(const struct sim_net *n, const struct sim_pair *p, struct net_conn **out_near,
    struct net_conn **out_far)
{
	struct sim_conn *near = sim_conn_new(n, &p->near_peer, p->unix_domain);
	struct sim_conn *far;

	if (near == NULL) {
		return -ENOMEM;
	}
	far = sim_conn_new(n, &p->far_peer, p->unix_domain);
	if (far == NULL) {
		sim_conn_drop(near);
		return -ENOMEM;
	}
	near->other = far;
	far->other = near;
	near->conn.local = p->far_peer;
	far->conn.local = p->near_peer;
	*out_near = &near->conn;
	*out_far = &far->conn;
	return 0;
}

void
sim_conn_refuse(struct net_conn *c)
{
	struct sim_conn *s = sim_conn_of(c);

	if (s->other != NULL) {
		sim_conn_reset(s->other);
	}
	sim_conn_free(c);
}
