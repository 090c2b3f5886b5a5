/* fakepool_blob.c - named blobs of the pool without drives. */
#include <stdio.h>
#include <stdlib.h>
#include "tests/lib/fakepool_int.h"

struct fake_blob {
	struct list link;
	char name[64];
	uint8_t *data;
	uint32_t len;
};

static struct fake_blob *
blob_find(struct pool *p, const char *name)
{
	list_for_each(it, &p->blobs)
	{
		struct fake_blob *b = list_entry(it, struct fake_blob, link);
		if (strcmp(b->name, name) == 0) {
			return b;
		}
	}
	return NULL;
}

static void
blob_free(struct fake_blob *b)
{
	list_remove(&b->link);
	free(b->data);
	free(b);
}

static void
blob_add(struct pool *p, const char *name, const void *data, uint32_t len)
{
	struct fake_blob *b = fake_alloc(sizeof(*b));
	(void)snprintf(b->name, sizeof(b->name), "%s", name);
	b->data = fake_alloc(len);
	memcpy(b->data, data, len);
	b->len = len;
	list_push_back(&p->blobs, &b->link);
}

int
pool_blob_put(struct pool *p, const char *name, const void *data, uint32_t len)
{
	fake_park(p);
	int err = fake_fails(p);
	if (err != 0) {
		return err;
	}
	struct fake_blob *old = blob_find(p, name);
	if (old != NULL) {
		blob_free(old);
	}
	if (len > 0) {
		blob_add(p, name, data, len);
	}
	return 0;
}

int
pool_blob_get(struct pool *p, const char *name, void **out, uint32_t *out_len)
{
	fake_park(p);
	int err = fake_fails(p);
	struct fake_blob *b = blob_find(p, name);
	if (err != 0 || b == NULL) {
		return err != 0 ? err : -ENOENT;
	}
	*out = mem_zalloc(b->len);
	ASSERT(*out != NULL);
	memcpy(*out, b->data, b->len);
	*out_len = b->len;
	return 0;
}

void
fake_blobs_free(struct pool *p)
{
	list_for_each_safe(it, next, &p->blobs)
	{
		blob_free(list_entry(it, struct fake_blob, link));
	}
}

void
fake_blobs_clone(struct pool *to, struct pool *from)
{
	list_for_each(it, &from->blobs)
	{
		const struct fake_blob *b = list_entry(it, struct fake_blob, link);
		blob_add(to, b->name, b->data, b->len);
	}
}
