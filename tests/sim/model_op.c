/* model_op.c - calls in flight: what they hold, and what they do to the model when they happen. */
#include <stdlib.h>
#include "tests/sim/model_int.h"

#define DONE_MAX 64u

struct m_op *
model_op_new(struct model *m, enum nfsc_proc proc, uint32_t client)
{
	struct m_op *op = calloc(1, sizeof(*op));
	ASSERT(op != NULL);
	op->proc = proc;
	op->client = client;
	list_push_back(&m->inflight, &op->link);
	return op;
}

bool
model_hold(struct m_op *op, struct m_node *n, bool alone)
{
	if (n->holder == op) {
		return !alone || n->alone;
	}
	bool quiet = alone || n->type != NF3DIR;
	if (n->holder != NULL || (quiet && n->users > 0)) {
		return false;
	}
	for (unsigned i = 0; i < M_OP_NODES; i++) {
		if (op->held[i] == NULL) {
			op->held[i] = n;
			n->holder = op;
			n->alone = alone;
			return true;
		}
	}
	return false;
}

bool
model_use(struct m_op *op, struct m_node *dir)
{
	if (dir->holder != NULL && (dir->alone || dir->type != NF3DIR)) {
		return false;
	}
	for (unsigned i = 0; i < M_OP_NODES; i++) {
		if (op->used[i] == NULL) {
			op->used[i] = dir;
			dir->users++;
			return true;
		}
	}
	return false;
}

bool
model_hold_name(struct model *m, struct m_op *op, struct m_name *name, bool second)
{
	if (name->holder != NULL) {
		return false;
	}
	name->holder = op;
	name->touched = ++m->clock;
	*(second ? &op->name2 : &op->name) = name;
	return true;
}

bool
model_hold_rename(struct model *m, struct m_op *op)
{
	if (m->renamer != NULL) {
		return false;
	}
	m->renamer = op;
	op->holds_rename = true;
	return true;
}

static void
op_let_go(struct model *m, struct m_op *op)
{
	for (unsigned i = 0; i < M_OP_NODES; i++) {
		if (op->held[i] != NULL) {
			op->held[i]->holder = NULL;
			op->held[i]->alone = false;
			op->held[i] = NULL;
		}
		if (op->used[i] != NULL) {
			op->used[i]->users--;
			op->used[i] = NULL;
		}
	}
	if (op->name != NULL && op->name->holder == op) {
		op->name->holder = NULL;
	}
	if (op->name2 != NULL && op->name2->holder == op) {
		op->name2->holder = NULL;
	}
	if (op->holds_rename) {
		m->renamer = NULL;
		op->holds_rename = false;
	}
}

static void
op_free(struct m_op *op)
{
	list_remove(&op->link);
	free(op->call);
	free(op->reply);
	free(op->target);
	free(op);
}

void
model_op_end(struct model *m, struct m_op *op, bool keep)
{
	op_let_go(m, op);
	if (!keep) {
		op_free(op);
		return;
	}
	list_remove(&op->link);
	list_push_back(&m->done, &op->link);
	if (++m->done_count > DONE_MAX) {
		op_free(list_first(&m->done, struct m_op, link));
		m->done_count--;
	}
}

bool
model_op_is_last(const struct m_op *op)
{
	const struct m_name *names[] = {op->name, op->name2};
	for (unsigned i = 0; i < ARRAY_LEN(names); i++) {
		if (names[i] != NULL &&
		    (names[i]->touched != op->clock || names[i]->holder != NULL ||
			names[i]->dir->nlink == 0)) {
			return false;
		}
	}
	return op->node == NULL || (op->node->touched == op->clock && op->node->holder == NULL);
}

/* ---- happening ---- */

static void
apply_create(struct model *m, struct m_op *op, const struct rig_fh *fh, uint64_t fileid)
{
	struct m_node *n = op->name->node;
	bool made = n == NULL;
	if (made) {
		n = model_node_new(m, op->type);
		n->fh = *fh;
		n->fileid = fileid;
		n->target = op->target;
		op->target = NULL;
		if (n->type == NF3DIR) {
			n->up = op->name->dir;
			n->up->subdirs++;
		}
		n->nlink = 1;
		op->name->node = n;
	}
	op->node = n;
	if (made || op->change.set_size) {
		model_change(m, n, &op->change, true);
	}
}

static void
touch_unknown(struct m_node *n)
{
	n->now.times_known = n->base.times_known = false;
}

static void
apply_remove(struct model *m, struct m_op *op, bool durable)
{
	struct m_node *n = op->name->node;
	op->name->node = NULL;
	if (durable) {
		model_settle(n);
	}
	touch_unknown(n);
	n->touched = m->clock;
	model_unlinked(m, n);
}

static void
apply_rename(struct model *m, struct m_op *op, bool durable)
{
	struct m_node *n = op->node, *old = op->name2->node;
	if (old == n) {
		return; /* two names of one file: nothing happens */
	}
	op->name->node = NULL;
	op->name2->node = n;
	if (durable) {
		model_settle(n);
	}
	touch_unknown(n);
	n->touched = m->clock;
	if (old != NULL) {
		if (durable) {
			model_settle(old);
		}
		touch_unknown(old);
		old->touched = m->clock;
		model_unlinked(m, old);
	}
	if (n->type == NF3DIR) {
		n->up->subdirs--;
		n->up = op->name2->dir;
		n->up->subdirs++;
	}
}

static void
apply_link(struct model *m, struct m_op *op, bool durable)
{
	op->name->node = op->node;
	op->node->nlink++;
	if (durable) {
		model_settle(op->node);
	}
	touch_unknown(op->node);
	op->node->touched = m->clock;
}

void
model_op_apply(
    struct model *m, struct m_op *op, const struct rig_fh *fh, uint64_t fileid, bool durable)
{
	op->clock = ++m->clock;
	if (op->name != NULL) {
		op->name->touched = op->clock;
	}
	if (op->name2 != NULL) {
		op->name2->touched = op->clock;
	}
	switch ((int)op->proc) {
	case NFSC_CREATE:
	case NFSC_MKDIR:
	case NFSC_SYMLINK:
	case NFSC_MKNOD:
		apply_create(m, op, fh, fileid);
		break;
	case NFSC_REMOVE:
	case NFSC_RMDIR:
		apply_remove(m, op, durable);
		break;
	case NFSC_RENAME:
		apply_rename(m, op, durable);
		break;
	case NFSC_LINK:
		apply_link(m, op, durable);
		break;
	default:
		model_change(m, op->node, &op->change, durable);
		break;
	}
}
