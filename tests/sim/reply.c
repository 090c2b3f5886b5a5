/*
 * reply.c - what a reply means to the model. What a call should give was known when it was sent
 * (m_op.expect), since nothing it is about can have changed meanwhile.
 */
#include "tests/sim/sim.h"

static bool
setattr_grows(const struct m_op *op)
{
	return op->change.set_size && op->change.size > op->node->now.bytes.size;
}

/* Growth may find no space; what frees or changes no size, and COMMIT, may not. */
static bool
refusal_is_legal(const struct m_op *op, nfsstat3 status, bool limited)
{
	bool grows = op->proc != NFSC_REMOVE && op->proc != NFSC_RMDIR && op->proc != NFSC_COMMIT &&
		     (op->proc != NFSC_SETATTR || setattr_grows(op));
	bool full = status == NFS3ERR_NOSPC || (status == NFS3ERR_DQUOT && limited);
	return status == NFS3ERR_JUKEBOX || (full && grows);
}

/* Status as expected? */
static enum sim_verdict
judge(struct sim *s, const struct m_op *op, nfsstat3 status)
{
	if (status == op->expect) {
		return status == NFS3_OK ? SIM_DONE : SIM_REFUSED;
	}
	if (refusal_is_legal(op, status, s->machine.limit != NULL)) {
		return SIM_REFUSED;
	}
	sim_wrong(s, "%s '%s' answered %d, expected %d (xid %u)", sim_proc(op),
	    op->name != NULL ? op->name->text : "", status, op->expect, op->call_xid);
	return SIM_BAD;
}

static void
take_times(struct m_change *c, const post_op_attr *a)
{
	c->times_known = a->attributes_follow;
	if (a->attributes_follow) {
		c->mtime_after = a->post_op_attr_u.attributes.mtime;
		c->ctime_after = a->post_op_attr_u.attributes.ctime;
	}
}

static bool
check_verf(struct sim *s, const char verf[8])
{
	if (!s->has_verf) {
		s->has_verf = true;
		memcpy(s->verf, verf, 8);
		for (unsigned i = 0; i < s->life && i < SIM_LIVES_MAX; i++) {
			if (memcmp(s->old_verfs[i], verf, 8) == 0) {
				sim_wrong(s, "the write verifier is that of life %u", i);
			}
		}
		memcpy(s->old_verfs[s->life % SIM_LIVES_MAX], verf, 8);
	}
	if (memcmp(s->verf, verf, 8) != 0) {
		sim_wrong(s, "the write verifier changed while running");
		return false;
	}
	return true;
}

static enum sim_verdict
reply_new(struct sim *s, struct m_op *op, const NEW3res *res)
{
	enum sim_verdict v = judge(s, op, res->status);
	if (v != SIM_DONE) {
		return v;
	}
	const NEW3resok *ok = &res->NEW3res_u.resok;
	struct rig_fh fh = {0};
	if (!ok->obj.handle_follows || !ok->obj_attributes.attributes_follow) {
		sim_wrong(s, "%s gave no handle or no attributes", sim_proc(op));
		return SIM_BAD;
	}
	const nfs_fh3 *h = &ok->obj.post_op_fh3_u.handle;
	fh.len = h->data.data_len;
	memcpy(fh.bytes, h->data.data_val, fh.len);
	const struct m_node *old = op->name->node;
	uint64_t fileid = ok->obj_attributes.post_op_attr_u.attributes.fileid;
	if (old != NULL && old->fileid != fileid) {
		sim_wrong(s, "'%s' was object %llx and is now %llx", op->name->text,
		    (unsigned long long)old->fileid, (unsigned long long)fileid);
		return SIM_BAD;
	}
	take_times(&op->change, &ok->obj_attributes);
	model_op_apply(&s->m, op, &fh, fileid, true);
	return SIM_DONE;
}

static enum sim_verdict
reply_status(struct sim *s, struct m_op *op, nfsstat3 status)
{
	enum sim_verdict v = judge(s, op, status);
	if (v == SIM_DONE) {
		model_op_apply(&s->m, op, NULL, 0, true);
	}
	return v;
}

static enum sim_verdict
reply_setattr(struct sim *s, struct m_op *op, const SETATTR3res *res)
{
	take_times(&op->change, &res->wcc.after);
	return reply_status(s, op, res->status);
}

static enum sim_verdict
reply_write(struct sim *s, struct m_op *op, const WRITE3res *res)
{
	enum sim_verdict v = judge(s, op, res->status);
	if (v != SIM_DONE) {
		return v;
	}
	const WRITE3resok *ok = &res->WRITE3res_u.resok;
	bool always = strcmp(s->machine.sync, "always") == 0;
	if (ok->count != op->change.len || ok->committed < op->stable ||
	    (always && ok->committed == UNSTABLE)) {
		sim_wrong(s, "WRITE of %u bytes, stable %d, answered %u bytes, committed %d",
		    op->change.len, op->stable, ok->count, ok->committed);
		return SIM_BAD;
	}
	if (!check_verf(s, ok->verf)) {
		return SIM_BAD;
	}
	take_times(&op->change, &ok->file_wcc.after);
	if (op->change.len > 0) {
		model_op_apply(&s->m, op, NULL, 0, ok->committed != UNSTABLE);
	}
	return SIM_DONE;
}

static enum sim_verdict
reply_commit(struct sim *s, struct m_op *op, const COMMIT3res *res)
{
	enum sim_verdict v = judge(s, op, res->status);
	if (v == SIM_DONE && check_verf(s, res->COMMIT3res_u.resok.verf)) {
		model_settle(op->node);
	}
	return v;
}

union any_res {
	SETATTR3res setattr;
	WRITE3res write;
	COMMIT3res commit;
	NEW3res made;
	REMOVE3res removed;
	RENAME3res renamed;
	LINK3res linked;
};

static enum sim_verdict
reply_body(struct sim *s, struct m_op *op, const union any_res *res)
{
	switch ((int)op->proc) {
	case NFSC_SETATTR:
		return reply_setattr(s, op, &res->setattr);
	case NFSC_WRITE:
		return reply_write(s, op, &res->write);
	case NFSC_COMMIT:
		return reply_commit(s, op, &res->commit);
	case NFSC_REMOVE:
	case NFSC_RMDIR:
		return reply_status(s, op, res->removed.status);
	case NFSC_RENAME:
		return reply_status(s, op, res->renamed.status);
	case NFSC_LINK:
		return reply_status(s, op, res->linked.status);
	default:
		return reply_new(s, op, &res->made);
	}
}

enum sim_verdict
sim_reply(struct sim *s, struct nfsc *c, struct m_op *op, const struct nfsc_msg *reply)
{
	union any_res res;
	int err = nfsc_decode(c, reply, NFSC_PROG_NFS, op->proc, &res);
	if (err != 0) {
		sim_wrong(
		    s, "the reply to procedure %d doesn't decode: %s", op->proc, err_str(err));
		return SIM_BAD;
	}
	enum sim_verdict v = reply_body(s, op, &res);
	sim_say_op(s, op, v == SIM_DONE ? "done" : "refused");
	nfsc_free(op->proc, &res);
	return v;
}
