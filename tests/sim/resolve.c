/*
 * resolve.c - calls that were unanswered when the power went. First it is seen whether each has
 * happened: wholly or not at all. Then some are sent again, byte for byte, as a client would; they
 * must succeed either way. The last calls answered are sent again too; those that succeeded must
 * get the very answer that they got before.
 */
#include "tests/sim/load.h"

#define RESEND_INFLIGHT_PERCENT 50u
#define RESEND_DONE_PERCENT 30u

enum outcome { HAPPENED, DID_NOT, NEITHER };

/* What a name is now: the fileid, or 0 when there is none. */
static uint64_t
see_name(struct sim *s, struct nfsc *c, const struct m_name *name, struct rig_fh *fh)
{
	fattr3 a;
	uint32_t st = rig_lookup(c, &name->dir->fh, name->text, fh);
	if (st == NFS3ERR_NOENT) {
		return 0;
	}
	if (st == NFS3_OK) {
		st = rig_getattr(c, fh, &a);
	}
	if (st != NFS3_OK) {
		sim_wrong(s, "looking at '%s' in %u answered %u", name->text, name->dir->id, st);
		return 0;
	}
	return a.fileid;
}

static uint64_t
id_of(const struct m_node *n)
{
	return n != NULL ? n->fileid : 0;
}

static enum outcome
outcome_of(uint64_t seen, uint64_t before, uint64_t after)
{
	return seen == after ? HAPPENED : seen == before ? DID_NOT : NEITHER;
}

static enum outcome
rename_outcome(struct sim *s, struct nfsc *c, const struct m_op *op)
{
	struct rig_fh fh;
	uint64_t from = see_name(s, c, op->name, &fh), to = see_name(s, c, op->name2, &fh);
	uint64_t moved = id_of(op->node), old = id_of(op->name2->node);
	if (moved == old) {
		return from == moved && to == moved ? DID_NOT : NEITHER;
	}
	if (from == 0 && to == moved) {
		return HAPPENED;
	}
	return from == moved && to == old ? DID_NOT : NEITHER;
}

/* Has it happened? fh, fileid: of what was created. */
static enum outcome
outcome(
    struct sim *s, struct nfsc *c, const struct m_op *op, struct rig_fh *fh, uint64_t *out_fileid)
{
	uint64_t before = id_of(op->name->node);
	switch ((int)op->proc) {
	case NFSC_REMOVE:
	case NFSC_RMDIR:
		return outcome_of(see_name(s, c, op->name, fh), before, 0);
	case NFSC_LINK:
		return outcome_of(see_name(s, c, op->name, fh), before, id_of(op->node));
	case NFSC_RENAME:
		return rename_outcome(s, c, op);
	default:
		*out_fileid = see_name(s, c, op->name, fh);
		if (before != 0) { /* UNCHECKED on what was there */
			return *out_fileid == before ? DID_NOT : NEITHER;
		}
		return *out_fileid == 0 ? DID_NOT : HAPPENED;
	}
}

/* Attributes and data of one object: the change becomes the last one that may have been kept. */
static void
resolve_change(struct sim *s, struct nfsc *c, struct m_op *op, struct m_node *n)
{
	struct m_rand rng = {m_rand(&s->rng)};
	op->change.times_known = false;
	if (!op->change.write || op->change.len > 0) {
		model_change(&s->m, n, &op->change, false);
	}
	sim_verify_node(s, c, n, &rng);
}

static void
resolve_one(struct sim *s, struct nfsc *c, struct m_op *op)
{
	struct rig_fh fh = {0};
	uint64_t fileid = 0;
	s->stats.inflight++;
	if (op->expect != NFS3_OK || op->proc == NFSC_COMMIT || op->proc == NFSC_GETATTR) {
		return;
	}
	if (op->proc == NFSC_WRITE || op->proc == NFSC_SETATTR) {
		resolve_change(s, c, op, op->node);
		return;
	}
	enum outcome o = outcome(s, c, op, &fh, &fileid);
	sim_say_op(s, op, o == HAPPENED ? "had happened:" : "had not happened:");
	if (o == NEITHER) {
		sim_wrong(s, "%s '%s' has happened in part", sim_proc(op), op->name->text);
	} else if (o == HAPPENED) {
		s->stats.inflight_done++;
		op->change.times_known = false;
		model_op_apply(&s->m, op, &fh, fileid, true);
	} else if (op->proc == NFSC_CREATE && op->name->node != NULL) {
		resolve_change(s, c, op, op->name->node);
	}
}

static bool
send_again(struct sim *s, struct m_op *op, struct nfsc *c, struct nfsc_msg *reply)
{
	sim_client_init(s, c, op->client);
	struct nfsc_msg call = {.bytes = op->call, .len = op->call_len};
	int err = sim_client_connect(s, c);
	if (err == 0) {
		err = nfsc_transact(c, &call, reply);
	}
	nfsc_disconnect(c);
	if (err != 0) {
		sim_wrong(s, "%s sent again: no reply: %s", sim_proc(op), err_str(err));
	}
	s->stats.resent++;
	return err == 0;
}

static uint32_t
status_of(const struct nfsc_msg *reply)
{
	const uint32_t head = 24;
	if (reply->len < head + 4) {
		return RIG_CALL_FAILED;
	}
	uint32_t v;
	memcpy(&v, reply->bytes + head, 4);
	return be32toh(v);
}

/* An unanswered call, after its outcome is known: sent again it must do what was asked. */
static void
resend_inflight(struct sim *s, struct m_op *op, bool happened)
{
	struct nfsc c;
	struct nfsc_msg reply;
	op->resolved = happened; /* if the power goes now, it must be looked at again */
	if (!send_again(s, op, &c, &reply)) {
		return;
	}
	sim_say_op(s, op, "sent again:");
	if (!happened) {
		enum sim_verdict v = sim_reply(s, &c, op, &reply);
		s->stats.resent_same += v == SIM_DONE;
	} else if (status_of(&reply) == NFS3_OK) {
		s->stats.resent_same++;
	} else {
		sim_wrong(s, "%s '%s' had happened; sent again it answered %u (xid %u)",
		    sim_proc(op), op->name != NULL ? op->name->text : "", status_of(&reply),
		    op->call_xid);
	}
	nfsc_msg_free(&reply);
}

/* A call that was answered before the power went, and nothing has touched since. */
static void
resend_done(struct sim *s, const struct m_op *op)
{
	struct nfsc c;
	struct nfsc_msg reply;
	if (!send_again(s, (struct m_op *)(uintptr_t)op, &c, &reply)) {
		return;
	}
	bool same = reply.len == op->reply_len && memcmp(reply.bytes, op->reply, reply.len) == 0;
	s->stats.resent_same += same;
	s->stats.resent_other += !same;
	uint32_t st = status_of(&reply);
	if (!same && op->expect == NFS3_OK) {
		sim_wrong(s, "%s '%s' sent again answered %u, not what it was answered (xid %u)",
		    sim_proc(op), op->name != NULL ? op->name->text : "", st, op->call_xid);
	} else if (!same && st != (uint32_t)op->expect) {
		sim_wrong(s, "%s '%s' sent again answered %u, not %d (xid %u)", sim_proc(op),
		    op->name != NULL ? op->name->text : "", st, op->expect, op->call_xid);
	}
	nfsc_msg_free(&reply);
}

static bool
is_of_attributes(const struct m_op *op)
{
	return op->proc == NFSC_WRITE || op->proc == NFSC_SETATTR;
}

static void
resolve_some(struct sim *s, struct nfsc *c, bool of_attributes)
{
	list_for_each(it, &s->m.inflight)
	{
		struct m_op *op = list_entry(it, struct m_op, link);
		uint64_t clock = s->m.clock;
		if (op->resolved || is_of_attributes(op) != of_attributes) {
			continue; /* resolved: in an earlier life, whose power went as well */
		}
		resolve_one(s, c, op);
		op->resolved = true;
		op->happened = s->m.clock != clock;
		if (sim_bad(s)) {
			return;
		}
	}
}

/* Names first: how many links a directory must have depends on them. */
void
sim_resolve(struct sim *s, struct nfsc *c)
{
	resolve_some(s, c, false);
	if (!sim_bad(s)) {
		resolve_some(s, c, true);
	}
}

static bool
may_resend(const struct m_op *op)
{
	bool unchecked = op->proc == NFSC_CREATE && op->how == UNCHECKED;
	return load_is_cached(op->proc) && op->proc != NFSC_SETATTR && !unchecked &&
	       op->call != NULL;
}

bool
sim_resend(struct sim *s)
{
	uint64_t before = s->stats.resent;
	list_for_each_safe(it, next, &s->m.inflight)
	{
		struct m_op *op = list_entry(it, struct m_op, link);
		if (!sim_bad(s) && !s->went_back && may_resend(op) && op->expect == NFS3_OK &&
		    m_chance(&s->rng, RESEND_INFLIGHT_PERCENT)) {
			resend_inflight(s, op, op->happened);
		}
		model_op_end(&s->m, op, false);
	}
	s->went_back = false;
	list_for_each(it, &s->m.done)
	{
		const struct m_op *op = list_entry(it, struct m_op, link);
		if (!sim_bad(s) && may_resend(op) && model_op_is_last(op) &&
		    m_chance(&s->rng, RESEND_DONE_PERCENT)) {
			resend_done(s, op);
		}
	}
	return s->stats.resent != before;
}
