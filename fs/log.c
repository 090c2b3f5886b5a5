/*
 * log.c - log records: encoding, and the one decoder.
 *
 * One operation is one record. It names everything that redoing it needs: object numbers,
 * generations and directory keys as they were chosen, and after-images of all inodes it changed
 * (times, counts, size, change counter). The shape of a directory's tree isn't in it; replay makes
 * its own. The reply goes along, so that a retransmission after a crash is answered as before; and,
 * since the record is gone when the root has the change, as a note of the transaction too.
 *
 * The objects whose images a record holds are named to the pool, so that what is deferred of them
 * (UNSTABLE writes) enters the log first: an after-image includes the effect of all earlier
 * operations on that object. An object that the operation frees isn't named; what is deferred of it
 * needn't be redone.
 */
#include "fs/fs_int.h"

struct log_head {
	struct log_phys phys;
	struct log_inode_phys inode[LOG_INODES_MAX];
};

static void
encode_inode(const struct fs_node *n, struct log_inode_phys *out)
{
	struct inode_phys full;
	inode_encode(&n->ino, &full);
	out->object = le64_of(fs_node_object(n));
	out->generation = le64_of(fs_node_generation(n));
	memcpy(out->attr, &full, INODE_LOGGED_BYTES);
}

static void
encode_head(const struct fs_op *op, const struct log_rec *r, struct log_head *h, uint32_t reply_len)
{
	uint32_t steps = r->steps;
	struct log_phys *p = &h->phys;
	memset(p, 0, sizeof(*p));
	const struct fs_origin *o = op->req->origin;
	if (o != NULL) {
		steps |= LOG_STEP_ORIGIN;
		memcpy(p->addr, o->addr, sizeof(p->addr));
		p->xid = le32_of(o->xid);
		p->prog = le32_of(o->prog);
		p->vers = le32_of(o->vers);
		p->proc = le32_of(o->proc);
		memcpy(p->arg_hash, o->arg_hash, sizeof(p->arg_hash));
	}
	p->version = LOG_VERSION;
	p->op = (uint8_t)r->op;
	p->steps = le16_of((uint16_t)steps);
	p->name_len = le16_of((uint16_t)r->name_len);
	p->name2_len = le16_of((uint16_t)r->name2_len);
	p->reply_len = le16_of((uint16_t)reply_len);
	p->inode_count = (uint8_t)r->node_count;
	p->type = (uint8_t)r->type;
	p->data_len = le32_of(r->data_len);
	p->dir = le64_of(r->dir);
	p->key = le64_of(r->key);
	p->dir2 = le64_of(r->dir2);
	p->key2 = le64_of(r->key2);
	p->object = le64_of(r->object);
	p->generation = le64_of(r->generation);
	p->gone = le64_of(r->gone);
	p->gone_gen = le64_of(r->gone_gen);
	p->off = le64_of(r->off);
	p->block_bytes = le32_of(r->block_bytes);
	for (uint32_t i = 0; i < r->node_count; i++) {
		encode_inode(r->nodes[i], &h->inode[i]);
	}
}

static void
iov_add(struct iovec *iov, uint32_t *count, const void *data, size_t len)
{
	if (len > 0) {
		iov[*count].iov_base = (void *)(uintptr_t)data;
		iov[(*count)++].iov_len = len;
	}
}

static uint32_t
encode_reply(const struct fs_op *op, uint8_t *out)
{
	if (op->req->reply == NULL) {
		return 0;
	}
	uint32_t len = op->req->reply(op->req->reply_arg, op->res, out, FS_REPLY_MAX);
	ASSERT(len <= FS_REPLY_MAX);
	return op->req->origin == NULL ? 0 : len;
}

void
log_note_reply(struct pool_tx *tx, const struct fs_origin *o, const void *reply, uint32_t len)
{
	struct {
		struct reply_phys phys;
		uint8_t reply[FS_REPLY_MAX];
	} note;
	STATIC_ASSERT(sizeof(note) <= POOL_NOTE_MAX);
	if (o == NULL || len == 0 || len > FS_REPLY_MAX) {
		return;
	}
	note.phys = (struct reply_phys){.version = REPLY_VERSION,
	    .reply_len = le16_of((uint16_t)len),
	    .xid = le32_of(o->xid),
	    .prog = le32_of(o->prog),
	    .vers = le32_of(o->vers),
	    .proc = le32_of(o->proc)};
	memcpy(note.phys.addr, o->addr, sizeof(note.phys.addr));
	memcpy(note.phys.arg_hash, o->arg_hash, sizeof(note.phys.arg_hash));
	memcpy(note.reply, reply, len);
	pool_tx_note(tx, &note, (uint32_t)sizeof(note.phys) + len);
}

void
log_queue(struct fs_op *op, const struct log_rec *r)
{
	struct log_head head;
	uint8_t reply[FS_REPLY_MAX];
	uint32_t reply_len = encode_reply(op, reply);
	encode_head(op, r, &head, reply_len);
	log_note_reply(op->tx, op->req->origin, reply, reply_len);
	/* names and pieces of data never come together in numbers that would need more than four */
	struct iovec iov[6];
	uint32_t count = 0;
	iov_add(iov, &count, &head, sizeof(head.phys) + r->node_count * sizeof(head.inode[0]));
	iov_add(iov, &count, r->name, r->name_len);
	iov_add(iov, &count, r->name2, r->name2_len);
	iov_add(iov, &count, reply, reply_len);
	for (uint32_t i = 0; i < r->iov_count; i++) {
		iov_add(iov, &count, r->iov[i].iov_base, r->iov[i].iov_len);
	}
	ASSERT(count <= 4);
	struct pool_log_rec rec = {.type = (uint16_t)r->op,
	    .object = fs_node_object(r->nodes[0]),
	    .generation = fs_node_generation(r->nodes[0]),
	    .head = iov,
	    .head_count = count,
	    .data = r->buf,
	    .data_off = r->buf_off,
	    .data_len = r->buf != NULL ? r->data_len : 0};
	if (r->defer) {
		pool_log_defer(op->tx, r->nodes[0]->obj, &rec);
		return;
	}
	struct pool_obj *objs[LOG_INODES_MAX];
	for (uint32_t i = 0; i < r->node_count; i++) {
		objs[i] = r->nodes[i]->obj;
	}
	uint32_t named = DELIBERATE_BUG("fs-log-object-missing") ? 1 : r->node_count;
	if (DELIBERATE_BUG("fs-log-after-unlock")) {
		fs_op_unlock(op);
		fiber_yield();
	}
	pool_log(op->tx, objs, named, &rec, &op->commit);
	op->wait = atomic_load_explicit(&op->ds->sync, memory_order_relaxed) != FS_SYNC_DISABLED;
}

/* ---- decoding ---- */

int
log_decode_reply(const void *note, uint32_t len, struct fs_origin *out, const uint8_t **out_reply,
    uint32_t *out_len)
{
	struct reply_phys p;
	if (len < sizeof(p)) {
		return -ERR_CORRUPT;
	}
	memcpy(&p, note, sizeof(p));
	uint32_t reply_len = le16_get(p.reply_len);
	if (p.version != REPLY_VERSION || reply_len == 0 || reply_len > FS_REPLY_MAX ||
	    sizeof(p) + reply_len != len) {
		return -ERR_CORRUPT;
	}
	*out = (struct fs_origin){.xid = le32_get(p.xid),
	    .prog = le32_get(p.prog),
	    .vers = le32_get(p.vers),
	    .proc = le32_get(p.proc)};
	memcpy(out->addr, p.addr, sizeof(out->addr));
	memcpy(out->arg_hash, p.arg_hash, sizeof(out->arg_hash));
	*out_reply = (const uint8_t *)note + sizeof(p);
	*out_len = reply_len;
	return 0;
}

static bool
steps_valid(const struct log_phys *p, uint32_t steps)
{
	bool ok = (steps & ~LOG_STEPS_ALL) == 0;
	if ((steps & LOG_STEP_REMOVE) != 0) {
		ok = ok && le16_get(p->name_len) > 0 && le64_get(p->dir) != 0 &&
		     le64_get(p->key) != 0;
	}
	if ((steps & (LOG_STEP_INSERT | LOG_STEP_REPLACE)) != 0) {
		ok = ok && le16_get(p->name2_len) > 0 && le64_get(p->dir2) != 0 &&
		     le64_get(p->key2) != 0 && le64_get(p->object) != 0;
	}
	if ((steps & (LOG_STEP_CREATE | LOG_STEP_TRUNCATE | LOG_STEP_DATA)) != 0) {
		ok = ok && le64_get(p->object) != 0;
	}
	if ((steps & LOG_STEP_CREATE) != 0) {
		uint32_t bytes = le32_get(p->block_bytes);
		ok = ok && bytes >= 4096 && bytes <= MIB && (bytes & (bytes - 1)) == 0 &&
		     p->type >= FS_REG && p->type <= FS_FIFO;
	}
	if ((steps & LOG_STEP_DESTROY) != 0) {
		ok = ok && le64_get(p->gone) != 0;
	}
	return ok && ((steps & LOG_STEP_DATA) != 0 || le32_get(p->data_len) == 0);
}

int
log_decode(const void *payload, uint32_t len, uint16_t type, struct log_decoded *out)
{
	struct log_decoded d = {0};
	if (len < sizeof(d.phys)) {
		return -ERR_CORRUPT;
	}
	memcpy(&d.phys, payload, sizeof(d.phys));
	const struct log_phys *p = &d.phys;
	d.steps = le16_get(p->steps);
	d.name_len = le16_get(p->name_len);
	d.name2_len = le16_get(p->name2_len);
	d.reply_len = le16_get(p->reply_len);
	d.data_len = le32_get(p->data_len);
	d.inode_count = p->inode_count;
	if (p->version != LOG_VERSION || p->op != type || type < LOG_OP_CREATE ||
	    type > LOG_OP_WRITE || d.inode_count == 0 || d.inode_count > LOG_INODES_MAX ||
	    d.name_len > FS_NAME_MAX || d.name2_len > FS_NAME_MAX || d.reply_len > FS_REPLY_MAX ||
	    d.data_len > FS_IO_BYTES_MAX || !steps_valid(p, d.steps)) {
		return -ERR_CORRUPT;
	}
	uint32_t inodes = d.inode_count * (uint32_t)sizeof(struct log_inode_phys);
	if (sizeof(*p) + inodes + d.name_len + d.name2_len + d.reply_len + d.data_len != len) {
		return -ERR_CORRUPT;
	}
	const uint8_t *at = (const uint8_t *)payload + sizeof(*p);
	d.inodes = at;
	at += inodes;
	d.name = (const char *)at;
	at += d.name_len;
	d.name2 = (const char *)at;
	at += d.name2_len;
	d.reply = at;
	d.data = at + d.reply_len;
	*out = d;
	return 0;
}
