/*
 * damages.c - damaged files by name. The pool knows which blocks of which objects nothing can
 * repair; here they get paths, are kept in the pool (a blob of numbers), looked at again from time
 * to time, and forgotten when the file is gone or was restored.
 */
#include <stdio.h>
#include "admin/admin_int.h"

#define DAMAGES_BLOB "damages"
#define DAMAGES_MAX 256u
#define PATH_BYTES_MAX 4096u
#define LOOK_AGAIN_NS (10 * NSEC_PER_SEC)

struct adm_damages {
	uint64_t changes;   /* of the pool's list when it was last looked at */
	uint64_t looked_ns; /* 0: never */
	json_t *files;      /* [{path, blocks}], for the status */
	json_t *stored;     /* what the blob holds */
};

int
damages_load(struct adm_pool *ap)
{
	struct adm_damages *d = mem_zalloc(sizeof(*d));
	void *data;
	uint32_t len;
	size_t i;
	json_t *entry;
	if (d == NULL) {
		return -ENOMEM;
	}
	ap->damages = d;
	d->files = json_array();
	if (pool_blob_get(ap->pool, DAMAGES_BLOB, &data, &len) != 0) {
		return 0;
	}
	d->stored = json_loadb(data, len, 0, NULL);
	mem_free(data);
	json_array_foreach(d->stored, i, entry)
	{
		struct pool_damage one = {(uint64_t)json_integer_value(json_array_get(entry, 0)),
		    (uint64_t)json_integer_value(json_array_get(entry, 1)),
		    (uint64_t)json_integer_value(json_array_get(entry, 2))};
		pool_damage_add(ap->pool, &one);
	}
	return 0;
}

void
damages_free(struct adm_damages *d)
{
	if (d != NULL) {
		json_decref(d->files);
		json_decref(d->stored);
		mem_free(d);
	}
}

json_t *
damages_json(const struct adm_pool *ap)
{
	return ap->damages != NULL ? json_incref(ap->damages->files) : json_array();
}

/* Gone, written anew, or readable for another reason. Of what can't be asked now nothing is said.
 */
static bool
is_well(struct adm_pool *ap, const struct pool_damage *one)
{
	struct pool_slice slice;
	struct pool_ds *ds;
	struct pool_obj *o;
	uint32_t count = 0;
	if (one->dataset == 0 || one->object == 0) {
		return false;
	}
	int err = pool_ds_open_guid(ap->pool, one->dataset, &ds);
	if (err != 0) {
		return err == -ENOENT;
	}
	err = pool_obj_hold(ds, one->object, 0, &o);
	if (err == 0) {
		err = pool_read(o, one->block * pool_obj_block_bytes(o), 1, &slice, 1, &count);
		if (err == 0 && count > 0) {
			iobuf_unref(slice.buf);
		}
		pool_obj_release(o);
	}
	pool_ds_close(ds);
	return err == 0 || err == -ENOENT || err == -ESTALE;
}

/* A path, or what there is to say instead. */
static void
describe(struct adm_pool *ap, const struct pool_damage *one, char *out, size_t len)
{
	int err = -ENOENT;
	if (one->dataset != 0 && one->object != 0) {
		err = fs_object_path(ap->fp, one->dataset, one->object, out, len);
	}
	if (err == 0) {
		return;
	}
	struct pool_ds_info info = {.path = "?"};
	struct pool_ds *ds;
	if (one->dataset != 0 && pool_ds_open_guid(ap->pool, one->dataset, &ds) == 0) {
		pool_ds_get_info(ds, &info);
		pool_ds_close(ds);
	}
	if (one->dataset == 0) {
		snprintf(out, len, "(the pool's own data)");
	} else if (one->object == 0) {
		snprintf(out, len, "/%s: (its table of files)", info.path);
	} else {
		snprintf(
		    out, len, "/%s: (object %llu)", info.path, (unsigned long long)one->object);
	}
}

static void
files_add(json_t *files, const char *path)
{
	size_t i;
	json_t *file;
	json_array_foreach(files, i, file)
	{
		json_t *blocks = json_object_get(file, "blocks");
		const char *have = json_string_value(json_object_get(file, "path"));
		if (have != NULL && strcmp(have, path) == 0) {
			json_integer_set(blocks, json_integer_value(blocks) + 1);
			return;
		}
	}
	json_array_append_new(files, json_pack("{s:o, s:i}", "path", adm_text(path), "blocks", 1));
}

static void
damages_store(struct adm_pool *ap, json_t *list)
{
	char *text = json_dumps(list, JSON_COMPACT);
	bool none = json_array_size(list) == 0;
	int err = text != NULL ? pool_blob_put(ap->pool, DAMAGES_BLOB, text,
				     none ? 0 : (uint32_t)strlen(text))
			       : -ENOMEM;
	mem_free(text);
	if (err != 0) {
		log_warn("damages-not-stored pool=%s reason=%s", pool_name(ap->pool), err_str(err));
		return;
	}
	json_decref(ap->damages->stored);
	ap->damages->stored = json_incref(list);
}

static void
damages_make(struct adm_pool *ap, struct pool_damage *list, uint32_t count, char *path)
{
	json_t *files = json_array(), *numbers = json_array();
	for (uint32_t i = 0; i < count; i++) {
		if (is_well(ap, &list[i])) {
			pool_damage_forget(ap->pool, &list[i]);
			continue;
		}
		describe(ap, &list[i], path, PATH_BYTES_MAX);
		files_add(files, path);
		json_array_append_new(
		    numbers, json_pack("[I, I, I]", (json_int_t)list[i].dataset,
				 (json_int_t)list[i].object, (json_int_t)list[i].block));
	}
	json_decref(ap->damages->files);
	ap->damages->files = files;
	if (!json_equal(numbers, ap->damages->stored) &&
	    (json_array_size(numbers) > 0 || json_array_size(ap->damages->stored) > 0)) {
		damages_store(ap, numbers);
	}
	json_decref(numbers);
}

void
damages_look(struct adm_pool *ap)
{
	struct adm_damages *d = ap->damages;
	struct pool_damage *list;
	uint64_t changes;
	if (d == NULL || pool_is_suspended(ap->pool) || pool_is_readonly(ap->pool)) {
		return;
	}
	list = mem_zalloc_array(DAMAGES_MAX, sizeof(*list));
	char *path = mem_zalloc(PATH_BYTES_MAX);
	uint32_t count = list != NULL && path != NULL
			     ? pool_damage_get(ap->pool, list, DAMAGES_MAX, &changes)
			     : 0;
	bool due = count > 0 && rt_now_ns() - d->looked_ns >= LOOK_AGAIN_NS;
	if (list != NULL && path != NULL && (changes != d->changes || due)) {
		damages_make(ap, list, count, path);
		(void)pool_damage_get(ap->pool, list, DAMAGES_MAX, &d->changes);
		d->looked_ns = rt_now_ns();
	}
	mem_free(list);
	mem_free(path);
}
