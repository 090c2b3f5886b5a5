/*
 * replay.c - redoing what the log holds and the root lacks.
 *
 * The pool delivers the records in the order in which they were logged, leaves out those whose txg
 * the root already has, and commits progress together with the effect; so a record is redone
 * exactly on the state it was made on (seen from its objects) and must succeed. What doesn't fit
 * means damage or a fault of ours: it is logged and ends the replay. One exception: a deferred
 * WRITE can enter the log behind the removal of its file, when a COMMIT meets the removal. It finds
 * the object gone, and nobody can miss it.
 *
 * Replies go to whoever opened the pool, oldest first: the notes that the root has, those of the
 * records that are in the root, those of what was redone, which also becomes a note again.
 *
 * Steps in order: create, truncate, data, remove, insert or replace, destroy; then the
 * after-images.
 */
#include "fs/dir.h"

#define REPLAY_DIRTY_BYTES (16u * OBJ_DIRTY_BYTES)

struct replay {
	struct fs_pool *fp;
	struct fs_ds *ds;
	const struct log_decoded *d;
	struct pool_tx *tx;
	struct fs_node *nodes[LOG_INODES_MAX]; /* as the images of the record */
};

static const struct log_inode_phys *
image_at(const struct replay *r, uint32_t i)
{
	return (const struct log_inode_phys *)(r->d->inodes + i * sizeof(struct log_inode_phys));
}

/* The node of an object that the record names, or NULL. */
static struct fs_node *
node_of(const struct replay *r, struct le64 object)
{
	for (uint32_t i = 0; i < r->d->inode_count; i++) {
		if (r->nodes[i] != NULL && fs_node_object(r->nodes[i]) == le64_get(object)) {
			return r->nodes[i];
		}
	}
	return NULL;
}

static void
image_apply(const struct log_inode_phys *img, struct fs_inode *ino, int *err)
{
	struct inode_phys p;
	inode_encode(ino, &p);
	memcpy(&p, img->attr, INODE_LOGGED_BYTES);
	struct fs_inode out;
	*err = inode_decode(&p, inode_object_type((enum fs_type)p.type), &out);
	if (*err == 0) {
		*ino = out;
	}
}

static int
replay_create(struct replay *r, uint32_t i)
{
	const struct log_inode_phys *img = image_at(r, i);
	uint64_t generation = le64_get(img->generation);
	if (DELIBERATE_BUG("fs-replay-new-generation")) {
		generation++;
	}
	struct fs_inode ino = {.nlink = 1, .type = FS_REG};
	int err;
	image_apply(img, &ino, &err);
	if (err != 0) {
		return err;
	}
	struct pool_obj *obj;
	err = pool_obj_create(r->tx, r->ds->pds, inode_object_type(ino.type),
	    le32_get(r->d->phys.block_bytes), le64_get(img->object), generation, &obj);
	if (err != 0) {
		return err;
	}
	ino.size = 0; /* what the data step writes may go inline */
	err = node_make(r->ds, obj, &ino, &r->nodes[i]);
	if (err != 0) {
		pool_obj_destroy(r->tx, obj);
		pool_obj_release(obj);
	}
	return err;
}

static int
replay_nodes(struct replay *r)
{
	for (uint32_t i = 0; i < r->d->inode_count; i++) {
		const struct log_inode_phys *img = image_at(r, i);
		bool create = (r->d->steps & LOG_STEP_CREATE) != 0 &&
			      le64_get(img->object) == le64_get(r->d->phys.object);
		int err = create ? replay_create(r, i)
				 : fs_node_get(r->ds, le64_get(img->object),
				       le64_get(img->generation), &r->nodes[i]);
		if (err != 0) {
			return err;
		}
	}
	return 0;
}

static int
replay_contents(struct replay *r)
{
	const struct log_phys *p = &r->d->phys;
	uint32_t steps = r->d->steps;
	if ((steps & (LOG_STEP_TRUNCATE | LOG_STEP_DATA)) == 0) {
		return 0;
	}
	struct fs_node *n = node_of(r, p->object);
	if (n == NULL || n->ino.type == FS_DIR) {
		return -ERR_CORRUPT;
	}
	int err = 0;
	if ((steps & LOG_STEP_TRUNCATE) != 0) {
		err = file_truncate(r->tx, n, le64_get(p->off));
	}
	if (err == 0 && (steps & LOG_STEP_DATA) != 0) {
		struct iovec iov = {
		    .iov_base = (void *)(uintptr_t)r->d->data, .iov_len = r->d->data_len};
		err = file_write(r->tx, n, le64_get(p->off), &iov, 1, r->d->data_len);
	}
	return err;
}

static int
replay_remove(struct replay *r)
{
	struct fs_node *dir = node_of(r, r->d->phys.dir);
	uint64_t key = le64_get(r->d->phys.key);
	struct dir_path path;
	int err = dir == NULL || dir->ino.type != FS_DIR ? -ERR_CORRUPT
							 : dir_remove_prepare(dir, key, &path);
	if (err == 0) {
		dir_remove_apply(r->tx, dir, &path, key, true);
		dir_path_release(&path);
	}
	return err;
}

static int
replay_insert(struct replay *r)
{
	const struct log_phys *p = &r->d->phys;
	struct fs_node *dir = node_of(r, p->dir2);
	struct fs_node *child = node_of(r, p->object);
	if (dir == NULL || dir->ino.type != FS_DIR || child == NULL) {
		return -ERR_CORRUPT;
	}
	struct fs_name name;
	name_init(r->ds, r->d->name2, r->d->name2_len, &name);
	struct dir_ent e = {.key = le64_get(p->key2),
	    .object = fs_node_object(child),
	    .generation = fs_node_generation(child),
	    .type = child->ino.type};
	if (e.key < name.key || e.key - name.key > DIR_PROBE_MAX) {
		return -ERR_CORRUPT;
	}
	struct dir_path path;
	if ((r->d->steps & LOG_STEP_REPLACE) != 0) {
		int err = dir_replace_prepare(dir, e.key, &path);
		if (err == 0) {
			dir_replace_apply(r->tx, dir, &path, &e);
			dir_path_release(&path);
		}
		return err;
	}
	uint64_t key;
	int err = dir_insert_prepare(dir, &name, e.key, &path, &key);
	if (err == 0) {
		dir_insert_apply(r->tx, dir, &path, &e, &name);
		dir_path_release(&path);
	}
	return err;
}

static int
replay_destroy(struct replay *r)
{
	struct pool_obj *obj;
	int err = pool_obj_hold(
	    r->ds->pds, le64_get(r->d->phys.gone), le64_get(r->d->phys.gone_gen), &obj);
	if (err == 0) {
		pool_obj_destroy(r->tx, obj);
		pool_obj_release(obj);
	}
	return err;
}

static int
replay_images(struct replay *r)
{
	for (uint32_t i = 0; i < r->d->inode_count; i++) {
		int err;
		image_apply(image_at(r, i), &r->nodes[i]->ino, &err);
		if (err != 0) {
			return err;
		}
		node_store(r->tx, r->nodes[i]);
	}
	return 0;
}

static int
replay_steps(struct replay *r)
{
	uint32_t steps = r->d->steps;
	int err = replay_nodes(r);
	if (err == 0) {
		err = replay_contents(r);
	}
	if (err == 0 && (steps & LOG_STEP_REMOVE) != 0) {
		err = replay_remove(r);
	}
	if (err == 0 && (steps & (LOG_STEP_INSERT | LOG_STEP_REPLACE)) != 0) {
		err = replay_insert(r);
	}
	if (err == 0 && (steps & LOG_STEP_DESTROY) != 0) {
		err = replay_destroy(r);
	}
	return err == 0 ? replay_images(r) : err;
}

/* Who asked for it and what was answered; false: nobody can ask again. */
static bool
record_origin(const struct log_decoded *d, struct fs_origin *out)
{
	const struct log_phys *p = &d->phys;
	if ((d->steps & LOG_STEP_ORIGIN) == 0 || d->reply_len == 0) {
		return false;
	}
	*out = (struct fs_origin){.xid = le32_get(p->xid),
	    .prog = le32_get(p->prog),
	    .vers = le32_get(p->vers),
	    .proc = le32_get(p->proc)};
	memcpy(out->addr, p->addr, sizeof(out->addr));
	memcpy(out->arg_hash, p->arg_hash, sizeof(out->arg_hash));
	return true;
}

static int
replay_in_tx(struct fs_pool *fp, struct fs_ds *ds, const struct log_decoded *d)
{
	struct replay r = {.fp = fp, .ds = ds, .d = d};
	struct pool_need need = {
	    .dirty_bytes = REPLAY_DIRTY_BYTES + 2 * d->data_len, .frees = true};
	struct fs_origin origin;
	int err = pool_tx_begin_replay(ds->pds, &need, &r.tx);
	if (err != 0) {
		return err;
	}
	err = replay_steps(&r);
	for (uint32_t i = 0; i < d->inode_count; i++) {
		fs_node_put(r.nodes[i]);
	}
	if (err == 0 && record_origin(d, &origin) && !DELIBERATE_BUG("fs-replay-reply-unnoted")) {
		log_note_reply(r.tx, &origin, d->reply, d->reply_len);
	}
	pool_tx_end(r.tx);
	return err;
}

static void
report_reply(struct fs_pool *fp, const struct log_decoded *d)
{
	struct fs_origin origin;
	if (fp->found != NULL && record_origin(d, &origin)) {
		fp->found(fp->found_arg, &origin, d->reply, d->reply_len);
	}
}

static int
deliver_failed(const struct pool_record *rec, int err)
{
	log_error("fs-replay-failed ds=%016llx seq=%llu txg=%llu type=%u object=%llu error=%s",
	    (unsigned long long)rec->dataset, (unsigned long long)rec->seq,
	    (unsigned long long)rec->txg, rec->type, (unsigned long long)rec->object, err_str(err));
	return err;
}

static int
deliver(void *arg, const struct pool_record *rec)
{
	struct fs_pool *fp = arg;
	struct log_decoded d;
	int err = log_decode(rec->payload, rec->len_bytes, rec->type, &d);
	if (rec->in_root) {
		if (err == 0) {
			report_reply(fp, &d);
		}
		return 0;
	}
	struct fs_ds *ds = fs_ds_find(fp, rec->dataset);
	if (ds == NULL || pool_ds_incarnation(ds->pds) != rec->incarnation) {
		return 0; /* destroyed or rolled back since; its records went with it */
	}
	if (err == 0) {
		err = replay_in_tx(fp, ds, &d);
		if (rec->type == LOG_OP_WRITE && (err == -ESTALE || err == -ENOENT)) {
			err = 0;
		}
	}
	if (err != 0) {
		return deliver_failed(rec, err);
	}
	report_reply(fp, &d);
	return 0;
}

/* A note of the root. */
static void
note_found(void *arg, const void *data, uint32_t len)
{
	struct fs_pool *fp = arg;
	struct fs_origin origin;
	const uint8_t *reply;
	uint32_t reply_len;
	if (log_decode_reply(data, len, &origin, &reply, &reply_len) == 0) {
		fp->found(fp->found_arg, &origin, reply, reply_len);
	}
}

void
fs_replay_notes(struct fs_pool *fp)
{
	if (fp->found != NULL) {
		pool_notes_each(fp->pool, note_found, fp);
	}
}

int
fs_replay(struct fs_pool *fp)
{
	struct pool_replay_result result = {0};
	int err = pool_replay(fp->pool, deliver, fp, &result);
	if (err == 0 && result.delivered > 0) {
		log_notice("fs-replayed pool=%s records=%llu skipped=%llu", pool_name(fp->pool),
		    (unsigned long long)result.delivered, (unsigned long long)result.skipped);
	}
	return err;
}
