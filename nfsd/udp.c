/*
 * udp.c - MOUNT and port mapper over datagrams: one fiber a port, one request at a time. A reply
 * that doesn't fit one datagram is not sent; the client asks again over TCP.
 */
#include "nfsd/nfsd_int.h"

#define UDP_REPLY_MAX 8192u

static void
udp_answer(struct listener *l, struct iobuf *buf, uint32_t len, const struct net_addr *from)
{
	struct request *r = request_new(l->n, buf, buf->data, len);
	if (r == NULL) {
		return;
	}
	r->peer = *from;
	r->udp = l->udp;
	r->programs = l->programs & ~(unsigned)SERVE_NFS;
	if (request_run(r)) {
		uint8_t *start = r->head + 4; /* no record mark in a datagram */
		uint32_t bytes = (uint32_t)(r->out.pos - start);
		if (bytes <= UDP_REPLY_MAX && net_udp_send(l->udp, start, bytes, from) < 0) {
			log_limited(LOG_DEBUG, "udp-reply-not-sent bytes=%u", bytes);
		}
	}
	request_free(r);
}

void
udp_serve(void *listener)
{
	struct listener *l = listener;
	for (;;) {
		struct iobuf *buf;
		struct net_addr from;
		if (iobuf_alloc(IOBUF_BYTES_MIN, ARENA_RECV, &buf) != 0) {
			break;
		}
		int64_t got = net_udp_recv(l->udp, buf->data, buf->cap_bytes, &from);
		if (got > 0) {
			udp_answer(l, buf, (uint32_t)got, &from);
		}
		iobuf_unref(buf);
		if (got == -ECANCELED) {
			break;
		}
		if (got < 0) {
			fiber_sleep(10 * NSEC_PER_MSEC);
		}
		fiber_maybe_yield();
	}
	wg_done(&l->n->fibers);
}
