/*
 * blob.c - named settings that travel with the pool.
 *
 * The directory (MOS object blob_object: an array of struct blob_entry) is held in memory, and so
 * are all contents: they are few and small. put replaces the contents in memory and waits for a
 * txg; the syncing fiber writes changed ones to objects of their own, then the directory.
 */
#include "pool/object.h"

#define BLOB_BYTES_MAX (1u << 20)
#define BLOB_NAME_MAX 63u
#define BLOBS_MAX 4096u

struct blob {
	struct list link;
	char name[BLOB_NAME_MAX + 1];
	uint64_t object; /* 0: none yet */
	uint8_t *data;   /* NULL: removed, or not read yet */
	uint32_t len;
	bool loaded, dirty;
};

/* Under blob_lock. */
static struct blob *
blob_find(struct datasets *d, const char *name)
{
	list_for_each(l, &d->blobs)
	{
		struct blob *b = list_entry(l, struct blob, link);

		if (strcmp(b->name, name) == 0) {
			return b;
		}
	}
	return NULL;
}

static void
blob_free(struct blob *b)
{
	list_remove(&b->link);
	mem_free(b->data);
	mem_free(b);
}

static struct blob *
blob_make(struct datasets *d, const char *name)
{
	struct blob *b = mem_zalloc(sizeof(*b));

	if (b != NULL) {
		memcpy(b->name, name, strlen(name) + 1);
		list_init(&b->link);
		list_push_back(&d->blobs, &b->link);
	}
	return b;
}

/* ---- the calls ---- */

/* Under blob_lock. Takes over copy. */
static int
put_locked(struct datasets *d, const char *name, uint8_t *copy, uint32_t len)
{
	struct blob *b = blob_find(d, name);

	if (b == NULL) {
		b = blob_make(d, name);
		if (b == NULL) {
			return -ENOMEM;
		}
	}
	mem_free(b->data);
	b->data = copy;
	b->len = len;
	b->loaded = true;
	b->dirty = true;
	d->blobs_dirty = true;
	return 0;
}

int
pool_blob_put(struct pool *p, const char *name, const void *data, uint32_t len)
{
	struct datasets *d = p->datasets;
	uint8_t *copy = NULL;
	int err;

	if (name[0] == '\0' || strlen(name) > BLOB_NAME_MAX || len > BLOB_BYTES_MAX) {
		return -EINVAL;
	}
	if (p->readonly) {
		return -EROFS;
	}
	if (atomic_load(&p->suspended)) {
		return -ERR_SUSPENDED;
	}
	if (len > 0) {
		copy = mem_zalloc(len);
		if (copy == NULL) {
			return -ENOMEM;
		}
		memcpy(copy, data, len);
	}
	mutex_lock(&d->blob_lock);
	err = put_locked(d, name, copy, len);
	mutex_unlock(&d->blob_lock);
	if (err != 0) {
		mem_free(copy);
		return err;
	}
	return pool_sync(p);
}

static int
blob_load(struct pool *p, struct blob *b)
{
	struct pool_obj *o;
	uint8_t *data;
	int err;

	if (b->loaded) {
		return 0;
	}
	data = mem_zalloc(MAX(b->len, 1u));
	if (data == NULL) {
		return -ENOMEM;
	}
	err = pool_obj_hold(p->datasets->mos, b->object, 0, &o);
	if (err == 0) {
		err = obj_bytes_read(o, 0, b->len, data);
		pool_obj_release(o);
	}
	if (err != 0) {
		mem_free(data);
		return err;
	}
	b->data = data;
	b->loaded = true;
	return 0;
}

int
pool_blob_get(struct pool *p, const char *name, void **out, uint32_t *out_len)
{
	struct datasets *d = p->datasets;
	struct blob *b;
	uint8_t *copy = NULL;
	int err;

	mutex_lock(&d->blob_lock);
	b = blob_find(d, name);
	err = b == NULL || b->len == 0 ? -ENOENT : blob_load(p, b);
	if (err == 0) {
		copy = mem_zalloc(b->len);
		err = copy == NULL ? -ENOMEM : 0;
	}
	if (err == 0) {
		memcpy(copy, b->data, b->len);
		*out = copy;
		*out_len = b->len;
	}
	mutex_unlock(&d->blob_lock);
	return err;
}

/* ---- life ---- */

static int
entry_open(struct datasets *d, const struct blob_entry *e)
{
	const char *name = (const char *)e->name;
	struct blob *b;

	if (name[0] == '\0') {
		return 0;
	}
	if (memchr(name, 0, sizeof(e->name)) == NULL || le32_get(e->len_bytes) > BLOB_BYTES_MAX ||
	    blob_find(d, name) != NULL) {
		return -ERR_CORRUPT;
	}
	b = blob_make(d, name);
	if (b == NULL) {
		return -ENOMEM;
	}
	b->object = le64_get(e->object);
	b->len = le32_get(e->len_bytes);
	return 0;
}

int
blobs_open(struct pool *p)
{
	struct datasets *d = p->datasets;
	struct blob_entry e;
	struct pool_obj *o;
	uint64_t count;
	int err;

	d->blob_object = le64_get(d->phys.blob_object);
	if (d->blob_object == 0) {
		return 0;
	}
	err = pool_obj_hold(d->mos, d->blob_object, 0, &o);
	if (err != 0) {
		return err == -ENOENT ? -ERR_CORRUPT : err;
	}
	count = le64_get(o->slot.block_count) * (BLOB_BLOCK_BYTES / sizeof(e));
	for (uint64_t i = 0; i < count && i < BLOBS_MAX && err == 0; i++) {
		err = obj_bytes_read(o, i * sizeof(e), sizeof(e), (uint8_t *)&e);
		err = err != 0 ? err : entry_open(d, &e);
	}
	pool_obj_release(o);
	return err;
}

void
blobs_close(struct pool *p)
{
	while (!list_empty(&p->datasets->blobs)) {
		blob_free(list_first(&p->datasets->blobs, struct blob, link));
	}
}

/* ---- the syncing fiber; blob_lock held: a put waits for the drives, but it would wait for the txg
 * anyway ---- */

static int
contents_write(struct pool *p, struct pool_tx *tx, struct blob *b)
{
	struct pool_ds *mos = p->datasets->mos;
	struct iovec iov = {b->data, b->len};
	struct pool_obj *o;
	int err;

	b->dirty = false;
	if (b->object != 0) {
		err = pool_obj_hold(mos, b->object, 0, &o);
		if (err != 0) {
			return err;
		}
		pool_obj_destroy(tx, o);
		pool_obj_release(o);
		b->object = 0;
	}
	if (b->len == 0) {
		return 0;
	}
	err = pool_obj_create(tx, mos, OBJ_BLOB, BLOB_BLOCK_BYTES, 0, 0, &o);
	if (err != 0) {
		return err;
	}
	b->object = pool_obj_number(o);
	err = pool_write(tx, o, 0, &iov, 1);
	pool_obj_release(o);
	return err;
}

static int
directory_open(struct pool *p, struct pool_tx *tx, struct pool_obj **out)
{
	struct datasets *d = p->datasets;
	int err;

	if (d->blob_object != 0) {
		return pool_obj_hold(d->mos, d->blob_object, 0, out);
	}
	err = pool_obj_create(tx, d->mos, OBJ_BLOB, BLOB_BLOCK_BYTES, 0, 0, out);
	if (err == 0) {
		d->blob_object = pool_obj_number(*out);
		d->phys_dirty = true; /* read under d->lock, after us */
	}
	return err;
}

static int
directory_write(struct pool *p, struct pool_tx *tx)
{
	struct blob_entry *v;
	struct pool_obj *o;
	struct iovec iov;
	uint32_t n = 0;
	int err = directory_open(p, tx, &o);

	if (err != 0) {
		return err;
	}
	v = pool_must_alloc(BLOBS_MAX * sizeof(*v));
	list_for_each(l, &p->datasets->blobs)
	{
		struct blob *b = list_entry(l, struct blob, link);

		if (n < BLOBS_MAX) {
			memcpy(v[n].name, b->name, sizeof(v[n].name));
			v[n].object = le64_of(b->object);
			v[n].len_bytes = le32_of(b->len);
			n++;
		}
	}
	err = pool_free_range(tx, o, 0, UINT64_MAX);
	iov = (struct iovec){v, n * sizeof(*v)};
	err = err != 0 ? err : pool_write(tx, o, 0, &iov, 1);
	mem_free(v);
	pool_obj_release(o);
	return err;
}

int
blobs_sync(struct pool *p, struct pool_tx *tx)
{
	struct datasets *d = p->datasets;
	int err = 0;

	mutex_lock(&d->blob_lock);
	if (d->blobs_dirty) {
		d->blobs_dirty = false;
		list_for_each_safe(l, tmp, &d->blobs)
		{
			struct blob *b = list_entry(l, struct blob, link);

			if (err == 0 && b->dirty) {
				err = contents_write(p, tx, b);
			}
			if (err == 0 && b->len == 0) {
				blob_free(b);
			}
		}
		err = err != 0 ? err : directory_write(p, tx);
	}
	mutex_unlock(&d->blob_lock);
	return err;
}
