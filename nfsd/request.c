/*
 * request.c - one RPC call from message to reply: decode, choose the program, run it, frame the
 * reply.
 */
#include "nfsd/nfsd_int.h"

struct program {
	uint32_t number, version_low, version_high;
	unsigned served_by; /* SERVE_* */
	void (*run)(struct request *r);
};

static const struct program programs[] = {
    {100003, 3, 3, SERVE_NFS, nfs3_run},
    {100005, 1, 3, SERVE_MOUNT, mount_run},
    {100000, 2, 4, SERVE_PORTMAP, portmap_run},
};

static void
request_head(struct request *r, uint8_t *start, uint8_t *end)
{
	r->head = start;
	r->out = (struct xdr_out){.pos = start, .end = end};
}

struct request *
request_new(struct nfsd *n, struct iobuf *rx, const uint8_t *msg, uint32_t len)
{
	struct iobuf *self;
	if (iobuf_alloc(4096, ARENA_SEND, &self) != 0) {
		return NULL;
	}
	struct request *r = (struct request *)(void *)self->data;
	memset(r, 0, offsetof(struct request, slices_inline));
	r->slice_pad = 0;
	r->table = NULL;
	list_init(&r->link);
	r->n = n;
	r->self = self;
	r->rx = iobuf_ref(rx);
	r->msg = msg;
	r->msg_len = len;
	r->slices = r->slices_inline;
	request_head(r, self->data + ALIGN_UP(sizeof(*r), (size_t)8), self->data + self->cap_bytes);
	return r;
}

void
request_free(struct request *r)
{
	for (uint32_t i = 0; i < r->slice_count; i++) {
		iobuf_unref(r->slices[i].buf);
	}
	iobuf_unref(r->slice_buf);
	iobuf_unref(r->big);
	iobuf_unref(r->rx);
	iobuf_unref(r->self);
}

int
request_grow(struct request *r, uint32_t body_bytes)
{
	uint32_t done = (uint32_t)(r->out.pos - r->head);
	if (body_bytes <= (size_t)(r->out.end - r->out.pos)) {
		return 0;
	}
	ASSERT(r->big == NULL);
	/* Half of the budget is for requests themselves. */
	struct arena_info info;
	arena_get_info(&info);
	if (info.used_bytes[ARENA_SEND] > info.budget_bytes[ARENA_SEND] / 2) {
		return -ENOMEM;
	}
	/* Waiting here, with a buffer of the same budget in hand, could wait for ever: the client
	 * tries again. */
	int err = iobuf_try_alloc(done + body_bytes, ARENA_SEND, &r->big);
	if (err != 0) {
		r->big = NULL;
		return err;
	}
	memcpy(r->big->data, r->head, done);
	request_head(r, r->big->data, r->big->data + done + body_bytes);
	r->out.pos += done;
	return 0;
}

static void
request_restart(struct request *r)
{
	r->out.pos = r->head;
	r->out.full = false;
	for (uint32_t i = 0; i < r->slice_count; i++) {
		iobuf_unref(r->slices[i].buf);
	}
	r->slice_count = 0;
	r->slice_bytes = 0;
	r->slice_pad = 0;
}

static void
request_call_program(struct request *r)
{
	for (size_t i = 0; i < ARRAY_LEN(programs); i++) {
		const struct program *p = &programs[i];
		if (p->number != r->call.prog || (r->programs & p->served_by) == 0) {
			continue;
		}
		if (r->call.vers < p->version_low || r->call.vers > p->version_high) {
			rpc_put_prog_mismatch(
			    &r->out, r->call.xid, p->version_low, p->version_high);
			return;
		}
		rpc_put_accepted(&r->out, r->call.xid, RPC_SUCCESS);
		r->accept = RPC_SUCCESS;
		p->run(r);
		if (r->out.full) {
			r->accept = RPC_SYSTEM_ERR;
		}
		if (r->accept != RPC_SUCCESS) {
			request_restart(r);
			rpc_put_accepted(&r->out, r->call.xid, r->accept);
		}
		return;
	}
	rpc_put_accepted(&r->out, r->call.xid, RPC_PROG_UNAVAIL);
}

bool
request_run(struct request *r)
{
	enum rpc_auth_stat auth = RPC_AUTH_OK;
	enum rpc_decode how = rpc_decode_call(r->msg, r->msg_len, &r->call, &auth);
	if (how != RPC_DECODE_OK) {
		atomic_fetch_add_explicit(&r->n->bad_rpc, 1, memory_order_relaxed);
	}
	switch (how) {
	case RPC_DECODE_DROP:
		return false;
	case RPC_DECODE_RPC_MISMATCH:
		rpc_put_rpc_mismatch(&r->out, r->call.xid);
		break;
	case RPC_DECODE_AUTH_ERROR:
		rpc_put_auth_error(&r->out, r->call.xid, auth);
		break;
	case RPC_DECODE_OK:
		request_call_program(r);
		break;
	}
	uint32_t message = (uint32_t)(r->out.pos - r->head) - 4 + r->slice_bytes + r->slice_pad;
	rpc_put_mark(r->head, message);
	return true;
}
