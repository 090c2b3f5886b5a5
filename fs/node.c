/*
 * node.c - held inodes. A node is the owner companion of a pool object: it lives as long as the
 * object is in memory, and a reference to one is a hold of the other.
 *
 * The inode (ino) is changed under the node's exclusive lock only. What GETATTR, ACCESS and
 * permission checks need is published as a copy in words under a sequence count, so that they take
 * no lock: a reader copies and looks again whether the count is still the same and even. The writer
 * never parks between the two increments.
 *
 * ds is set anew when the pool's file systems were closed and opened again while the object stayed
 * in memory.
 */
#include "fs/fs_int.h"

static void
publish(struct fs_node *n)
{
	const struct fs_inode *i = &n->ino;
	struct fs_ds *ds = atomic_load_explicit(&n->ds, memory_order_relaxed);
	struct fs_attr a;
	memset(&a, 0, sizeof(a));
	a.type = i->type;
	a.mode = i->mode;
	a.nlink = i->nlink;
	a.uid = i->uid;
	a.gid = i->gid;
	a.size = i->size;
	a.rdev_major = i->rdev_major;
	a.rdev_minor = i->rdev_minor;
	a.fsid = ds->fsid;
	a.object = pool_obj_number(n->obj);
	a.generation = pool_obj_generation(n->obj);
	a.change = i->change;
	a.atime = i->atime;
	a.mtime = i->mtime;
	a.ctime = i->ctime;
	a.btime = i->btime;
	uint64_t words[FS_ATTR_WORDS];
	memcpy(words, &a, sizeof(a));
	unsigned seq = atomic_load_explicit(&n->seq, memory_order_relaxed);
	atomic_store_explicit(&n->seq, seq + 1, memory_order_relaxed);
	atomic_thread_fence(memory_order_release);
	for (size_t w = 0; w < FS_ATTR_WORDS; w++) {
		atomic_store_explicit(&n->pub[w], words[w], memory_order_relaxed);
	}
	atomic_store_explicit(&n->seq, seq + 2, memory_order_release);
	atomic_store_explicit(&n->parent, i->parent, memory_order_relaxed);
}

void
fs_getattr(struct fs_node *n, struct fs_attr *out)
{
	uint64_t words[FS_ATTR_WORDS];
	unsigned before, after;
	do {
		before = atomic_load_explicit(&n->seq, memory_order_acquire);
		for (size_t w = 0; w < FS_ATTR_WORDS; w++) {
			words[w] = atomic_load_explicit(&n->pub[w], memory_order_relaxed);
		}
		atomic_thread_fence(memory_order_acquire);
		after = atomic_load_explicit(&n->seq, memory_order_relaxed);
	} while (before != after || (before & 1) != 0);
	memcpy(out, words, sizeof(*out));
	out->used_bytes = pool_obj_used_bytes(n->obj);
}

static void
node_drop(void *owner)
{
	mem_free(owner);
}

static struct fs_node *
node_alloc(struct fs_ds *ds, struct pool_obj *obj, const struct fs_inode *ino)
{
	struct fs_node *n = mem_zalloc(sizeof(*n));
	if (n == NULL) {
		return NULL;
	}
	n->magic = FS_NODE_MAGIC;
	n->obj = obj;
	atomic_init(&n->ds, ds);
	rwlock_init(&n->lock, RANK_FS_INODE);
	n->ino = *ino;
	publish(n);
	return n;
}

int
node_make(struct fs_ds *ds, struct pool_obj *obj, const struct fs_inode *ino, struct fs_node **out)
{
	struct fs_node *n = node_alloc(ds, obj, ino);
	if (n == NULL) {
		return -ENOMEM;
	}
	struct fs_node *set = pool_obj_set_owner(obj, n, node_drop);
	ASSERT(set == n);
	*out = n;
	return 0;
}

/* Takes over the caller's hold of obj on success. Somebody may do the same at this moment: the
 * first one's node counts, and bytes read while that one changed them already don't. */
int
node_adopt(struct fs_ds *ds, struct pool_obj *obj, struct fs_node **out)
{
	struct fs_node *n = pool_obj_owner(obj);
	if (n == NULL) {
		struct fs_inode ino;
		int err = inode_decode(pool_obj_bonus(obj), pool_obj_type(obj), &ino);
		struct fs_node *mine = err == 0 ? node_alloc(ds, obj, &ino) : NULL;
		if (mine != NULL) {
			n = pool_obj_set_owner(obj, mine, node_drop);
			if (n != mine) {
				mem_free(mine);
			}
		} else {
			n = pool_obj_owner(obj);
		}
		if (n == NULL) {
			return err == 0 ? -ENOMEM : err;
		}
	}
	ASSERT(n->magic == FS_NODE_MAGIC);
	if (unlikely(atomic_load_explicit(&n->ds, memory_order_relaxed) != ds)) {
		atomic_store_explicit(&n->ds, ds, memory_order_relaxed);
	}
	*out = n;
	return 0;
}

int
fs_node_get(struct fs_ds *ds, uint64_t object, uint64_t generation, struct fs_node **out)
{
	if (unlikely(object == 0 || atomic_load_explicit(&ds->gone, memory_order_relaxed))) {
		return -ESTALE;
	}
	struct pool_obj *obj;
	int err = pool_obj_hold(ds->pds, object, generation, &obj);
	if (err != 0) {
		return err == -ENOENT ? -ESTALE : err;
	}
	/* A forged handle may name what isn't ours: the unlinked set. */
	err = pool_obj_type(obj) >= OBJ_FILE && pool_obj_type(obj) <= OBJ_SPECIAL
		  ? node_adopt(ds, obj, out)
		  : -ESTALE;
	if (err != 0) {
		pool_obj_release(obj);
	}
	return err;
}

int
fs_root(struct fs_ds *ds, struct fs_node **out)
{
	return fs_node_get(ds, ds->root_object, 0, out);
}

void
fs_node_put(struct fs_node *n)
{
	if (n != NULL) {
		pool_obj_release(n->obj);
	}
}

struct fs_node *
node_ref(struct fs_node *n)
{
	pool_obj_ref(n->obj);
	return n;
}

uint64_t
fs_node_object(const struct fs_node *n)
{
	return pool_obj_number(n->obj);
}

uint64_t
fs_node_generation(const struct fs_node *n)
{
	return pool_obj_generation(n->obj);
}

struct fs_ds *
fs_node_ds(const struct fs_node *n)
{
	return atomic_load_explicit(&n->ds, memory_order_relaxed);
}

bool
fs_is_root(const struct fs_node *n)
{
	return fs_node_object(n) == fs_node_ds(n)->root_object;
}

bool
node_is_stale(const struct fs_node *n)
{
	return pool_obj_is_stale(n->obj) ||
	       atomic_load_explicit(&fs_node_ds(n)->gone, memory_order_relaxed);
}

void
node_seen_in(struct fs_node *n, const struct fs_node *dir)
{
	uint64_t object = fs_node_object(dir);
	if (atomic_load_explicit(&n->parent_seen, memory_order_relaxed) != object) {
		atomic_store_explicit(&n->parent_seen, object, memory_order_relaxed);
	}
}

void
node_left_dir(struct fs_node *n, const struct fs_node *dir)
{
	if (atomic_load_explicit(&n->parent_seen, memory_order_relaxed) == fs_node_object(dir)) {
		atomic_store_explicit(&n->parent_seen, 0, memory_order_relaxed);
	}
}

void
node_store(struct pool_tx *tx, struct fs_node *n)
{
	uint64_t txg = pool_tx_txg(tx);
	ASSERT(txg >= n->txg_last);
	n->txg_last = txg;
	inode_encode(&n->ino, pool_obj_bonus_dirty(tx, n->obj));
	publish(n);
}

#define WALK_MAX 100000u

/* One step up: 0 and the parent's node, -ENOENT when it isn't known. */
static int
walk_up(struct fs_node *n, uint64_t parent, struct fs_node **out)
{
	struct fs_ds *ds = fs_node_ds(n);
	int err = parent == 0 ? -ENOENT : fs_node_get(ds, parent, 0, out);
	return err == -ESTALE ? -ENOENT : err;
}

static int
is_below_dir(struct fs_node *dir, uint64_t top, bool *out)
{
	struct fs_ds *ds = fs_node_ds(dir);
	struct fs_node *at = node_ref(dir);
	int err = 0;
	bool found = false;
	for (uint32_t step = 0; step < WALK_MAX && err == 0; step++) {
		uint64_t object = fs_node_object(at);
		found = object == top;
		if (found || object == ds->root_object) {
			break;
		}
		struct fs_node *up;
		err = walk_up(at, atomic_load_explicit(&at->parent, memory_order_relaxed), &up);
		if (err == 0) {
			fs_node_put(at);
			at = up;
		}
	}
	fs_node_put(at);
	if (err == 0 || err == -ENOENT) {
		*out = found;
		err = 0;
	}
	return err;
}

int
fs_node_is_below(struct fs_node *n, uint64_t top_object, bool *out)
{
	if (fs_node_object(n) == top_object) {
		*out = true;
		return 0;
	}
	uint64_t from[2] = {atomic_load_explicit(&n->parent, memory_order_relaxed),
	    atomic_load_explicit(&n->parent_seen, memory_order_relaxed)};
	bool below = false;
	for (unsigned i = 0; i < 2 && !below; i++) {
		struct fs_node *dir;
		int err = i == 1 && from[1] == from[0] ? -ENOENT : walk_up(n, from[i], &dir);
		if (err == -ENOENT) {
			continue;
		}
		if (err == 0) {
			err = is_below_dir(dir, top_object, &below);
			fs_node_put(dir);
		}
		if (err != 0) {
			return err;
		}
	}
	*out = below;
	return 0;
}
