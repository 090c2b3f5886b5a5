/*
 * load.c - the clients: each a fiber with a connection, drawing one call after the other. What to
 * do: load_pick.c. What a reply means: reply.c.
 *
 * A call is encoded once; its bytes are kept by the model, so that they can be sent again, in this
 * life or the next.
 */
#include <stdlib.h>
#include "tests/sim/load.h"

#define RESEND_PERCENT 8u
#define LOSE_REPLY_PERCENT 4u
#define PAUSE_PERCENT 20u
#define PAUSE_NS_MAX (3 * NSEC_PER_MSEC)

void
sim_client_init(struct sim *s, struct nfsc *c, uint32_t client)
{
	nfsc_init(c, "127.0.0.1", s->nfs_port);
	snprintf(c->from, sizeof(c->from), "10.0.0.%u", client + 1);
	/* no xid twice, not even in another life */
	c->next_xid = (client << 24) + (s->life << 20) + 1;
	c->timeout_ns = 100 * NSEC_PER_SEC;
	c->jukebox_tries = 1000;
}

int
sim_client_connect(struct sim *s, struct nfsc *c)
{
	mutex_lock(&s->connecting);
	int err = nfsc_connect(c);
	mutex_unlock(&s->connecting);
	return err;
}

void
sim_keep_reply(struct m_op *op, const struct nfsc_msg *reply)
{
	free(op->reply);
	op->reply = malloc(reply->len);
	ASSERT(op->reply != NULL);
	memcpy(op->reply, reply->bytes, reply->len);
	op->reply_len = reply->len;
}

bool
load_encode(struct sim_client *cl, struct m_op *op, const void *args)
{
	struct nfsc_msg m;
	if (nfsc_encode(&cl->c, NFSC_PROG_NFS, 3, op->proc, args, &m) != 0) {
		sim_wrong(cl->s, "a call of procedure %d can't be encoded", op->proc);
		return false;
	}
	op->call = malloc(m.len);
	ASSERT(op->call != NULL);
	memcpy(op->call, m.bytes, m.len);
	op->call_len = m.len;
	op->call_xid = cl->c.xid;
	op->life = cl->s->life;
	nfsc_msg_free(&m);
	return true;
}

/* Not idempotent: the server remembers the reply. */
bool
load_is_cached(enum nfsc_proc proc)
{
	switch ((int)proc) {
	case NFSC_SETATTR:
	case NFSC_CREATE:
	case NFSC_MKDIR:
	case NFSC_SYMLINK:
	case NFSC_MKNOD:
	case NFSC_REMOVE:
	case NFSC_RMDIR:
	case NFSC_RENAME:
	case NFSC_LINK:
		return true;
	default:
		return false;
	}
}

/* Sends the call and takes its reply; without faults a connection never breaks. */
static bool
load_transact(struct sim_client *cl, const struct m_op *op, struct nfsc_msg *reply)
{
	struct nfsc_msg m = {.bytes = op->call, .len = op->call_len};
	int err = cl->c.conn == NULL ? sim_client_connect(cl->s, &cl->c) : 0;
	if (err == 0) {
		err = nfsc_transact(&cl->c, &m, reply);
	}
	if (err != 0) {
		sim_wrong(cl->s, "client %u: no reply to procedure %d: %s", cl->index, op->proc,
		    err_str(err));
	}
	return err == 0;
}

/* The client gives up on the first reply and asks again by another port. */
static void
load_lose_reply(struct sim_client *cl, const struct m_op *op)
{
	struct nfsc_msg m = {.bytes = op->call, .len = op->call_len};
	if (cl->c.conn == NULL && sim_client_connect(cl->s, &cl->c) != 0) {
		return;
	}
	if (nfsc_send(&cl->c, &m) != 0) {
		sim_wrong(cl->s, "client %u: can't send", cl->index);
	}
	fiber_sleep(m_rand(&cl->rng) % (2 * NSEC_PER_MSEC));
	nfsc_disconnect(&cl->c);
	cl->s->stats.resent++;
}

static void
load_resend(struct sim_client *cl, const struct m_op *op)
{
	struct nfsc_msg again;
	if (m_chance(&cl->rng, 50)) {
		nfsc_disconnect(&cl->c);
	}
	if (!load_transact(cl, op, &again)) {
		return;
	}
	cl->s->stats.resent++;
	if (again.len != op->reply_len || memcmp(again.bytes, op->reply, again.len) != 0) {
		sim_wrong(
		    cl->s, "client %u: %s sent again got another reply", cl->index, sim_proc(op));
	}
	nfsc_msg_free(&again);
}

/* From the call to the model. */
void
load_run(struct sim_client *cl, struct m_op *op)
{
	struct sim *s = cl->s;
	struct nfsc_msg reply;
	bool cached = load_is_cached(op->proc);
	s->stats.calls++;
	sim_say_op(s, op, "sends");
	if (cached && m_chance(&cl->rng, LOSE_REPLY_PERCENT)) {
		load_lose_reply(cl, op);
	}
	if (!load_transact(cl, op, &reply)) {
		return; /* it stays in flight: nobody knows */
	}
	sim_keep_reply(op, &reply);
	if (cached && m_chance(&cl->rng, RESEND_PERCENT)) {
		load_resend(cl, op);
	}
	enum sim_verdict v = sim_reply(s, &cl->c, op, &reply);
	nfsc_msg_free(&reply);
	model_op_end(&s->m, op, v == SIM_DONE && cached);
}

static void
load_client(void *arg)
{
	struct sim_client *cl = arg;
	struct sim *s = cl->s;
	while (!s->stopping && !sim_bad(s)) {
		load_step(cl);
		if (m_chance(&cl->rng, PAUSE_PERCENT)) {
			fiber_sleep(m_rand(&cl->rng) % PAUSE_NS_MAX);
		}
		fiber_yield();
	}
	nfsc_disconnect(&cl->c);
	mem_free(cl);
	wg_done(&s->fibers);
}

static void
load_syncer(void *arg)
{
	struct sim *s = arg;
	while (!s->stopping) {
		fiber_sleep(s->plan.sync_every_ns / 2 + rt_random_u64() % s->plan.sync_every_ns);
		if (s->stopping) {
			break;
		}
		int err = pool_sync(s->pool);
		if (err != 0) {
			sim_wrong(s, "pool_sync: %s", err_str(err));
		}
		s->syncs++;
	}
	wg_done(&s->fibers);
}

void
sim_load_start(struct sim *s)
{
	for (uint32_t i = 0; i < s->plan.clients; i++) {
		struct sim_client *cl = mem_zalloc(sizeof(*cl));
		ASSERT(cl != NULL);
		cl->s = s;
		cl->index = i;
		cl->rng.state = m_rand(&s->rng);
		sim_client_init(s, &cl->c, i);
		wg_add(&s->fibers, 1);
		fiber_spawn_wait(
		    i % rt_reactor_count(), FIBER_REQUEST, "sim-client", load_client, cl);
	}
	if (s->plan.sync_every_ns > 0) {
		wg_add(&s->fibers, 1);
		fiber_spawn_wait(0, FIBER_ADMIN, "sim-syncer", load_syncer, s);
	}
}
