/*
 * op.c - what all changing operations have in common.
 *
 * begin a transaction, lock, [the operation checks, changes, logs], unlock, end, wait for the log.
 * Because the transaction is begun before the locks, two operations may lock an object in the other
 * order than their txgs have: one that is in txg N could find an object that N + 1 has changed
 * already, and what it then wrote into N would stand on something that isn't in N. So every node
 * remembers the newest txg that changed it, and who comes with an older one lets go and begins
 * again; the open txg is never older than one handed out before, so the second try meets newer
 * changes only if others overtook it again. The same holds for the shape of the tree of directories
 * (tree_txg). Hence: along one object, the order of txgs, of changes and of log records is one
 * order. Replay and the pool's per-txg buffers rely on it.
 *
 * Lock order: tree_lock of the dataset, then nodes by ascending object number.
 */
#include "fs/fs_int.h"

#define BEGIN_TRIES_MAX 10000u

struct fs_time
fs_time_now(void)
{
	uint64_t ns = rt_wall_ns();
	return (struct fs_time){
	    .sec = (int64_t)(ns / NSEC_PER_SEC), .nsec = (uint32_t)(ns % NSEC_PER_SEC)};
}

int
fs_time_cmp(const struct fs_time *a, const struct fs_time *b)
{
	if (a->sec != b->sec) {
		return a->sec < b->sec ? -1 : 1;
	}
	return a->nsec == b->nsec ? 0 : a->nsec < b->nsec ? -1 : 1;
}

static void
op_add_node(struct fs_op *op, struct fs_node *n)
{
	uint32_t i = op->node_count;
	while (i > 0 && fs_node_object(op->nodes[i - 1]) > fs_node_object(n)) {
		i--;
	}
	if (i > 0 && op->nodes[i - 1] == n) {
		return;
	}
	ASSERT(op->node_count < FS_OP_NODES_MAX);
	memmove(&op->nodes[i + 1], &op->nodes[i], (op->node_count - i) * sizeof(op->nodes[0]));
	op->nodes[i] = n;
	op->node_count++;
}

static void
op_lock(struct fs_op *op)
{
	if (op->tree) {
		mutex_lock(&op->ds->tree_lock);
	}
	for (uint32_t i = 0; i < op->node_count; i++) {
		if (i == 0) {
			rwlock_wrlock(&op->nodes[i]->lock);
		} else {
			rwlock_wrlock_nested(&op->nodes[i]->lock);
		}
	}
}

void
fs_op_unlock(struct fs_op *op)
{
	for (uint32_t i = op->node_count; i-- > 0;) {
		rwlock_wrunlock(&op->nodes[i]->lock);
	}
	op->node_count = 0;
	if (op->tree) {
		mutex_unlock(&op->ds->tree_lock);
		op->tree = false;
	}
}

static bool
op_overtaken(const struct fs_op *op)
{
	if (DELIBERATE_BUG("fs-txg-order-ignored")) {
		return false;
	}
	uint64_t txg = pool_tx_txg(op->tx);
	for (uint32_t i = 0; i < op->node_count; i++) {
		if (op->nodes[i]->txg_last > txg) {
			return true;
		}
	}
	return op->tree && op->ds->tree_txg > txg;
}

/* Later than the ctime of everything locked, so that a ctime always advances. */
static void
op_stamp(struct fs_op *op)
{
	op->now = fs_time_now();
	for (uint32_t i = 0; i < op->node_count; i++) {
		const struct fs_time *c = &op->nodes[i]->ino.ctime;
		if (fs_time_cmp(&op->now, c) <= 0) {
			op->now = *c;
			op->now.nsec++;
			if (op->now.nsec > NSEC_MAX) {
				op->now.nsec = 0;
				op->now.sec++;
			}
		}
	}
}

int
fs_op_start(
    struct fs_op *op, const struct pool_need *need, struct fs_node *const *nodes, uint32_t count)
{
	bool tree = op->tree;
	op->tree = false;
	if (fs_ds_is_readonly(op->ds)) {
		return -EROFS;
	}
	for (uint32_t tries = 0; tries < BEGIN_TRIES_MAX; tries++) {
		int err = pool_tx_begin(op->ds->pds, need, &op->tx);
		if (err != 0) {
			return err;
		}
		for (uint32_t i = 0; i < count; i++) {
			if (nodes[i] != NULL) {
				op_add_node(op, nodes[i]);
			}
		}
		op->tree = tree;
		op_lock(op);
		if (!op_overtaken(op)) {
			op_stamp(op);
			return node_is_stale(nodes[0]) ? fs_op_finish(op, -ESTALE) : 0;
		}
		fs_op_unlock(op);
		pool_tx_end(op->tx);
	}
	return -EAGAIN;
}

int
fs_op_finish(struct fs_op *op, int err)
{
	fs_op_unlock(op);
	pool_tx_end(op->tx);
	op->tx = NULL;
	if (err == 0 && op->wait && !DELIBERATE_BUG("fs-ack-before-commit")) {
		err = pool_commit(op->ds->fp->pool, &op->commit);
	}
	return err;
}

void
fs_op_touch(const struct fs_op *op, struct fs_node *n, bool mtime)
{
	n->ino.ctime = op->now;
	if (mtime) {
		n->ino.mtime = op->now;
	}
	n->ino.change++;
}

void
wcc_before(struct fs_wcc *w, const struct fs_node *n)
{
	w->has_before = true;
	w->before_size = n->ino.size;
	w->before_mtime = n->ino.mtime;
	w->before_ctime = n->ino.ctime;
}

void
wcc_after(struct fs_wcc *w, struct fs_node *n)
{
	w->has_after = true;
	fs_getattr(n, &w->after);
}
