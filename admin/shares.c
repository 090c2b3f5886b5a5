/*
 * shares.c - the shares of a pool. They live in the pool, in one blob, and travel with its drives.
 * The list in memory is what the blob holds; a change is stored before it is published.
 */
#include <stdio.h>
#include "admin/shares.h"

#define SHARES_BLOB "shares"
#define SHARES_MAX 8192u
#define ANON_ID 65534

/* Puts the pool's name of now in front of what is named by a path. */
static int
share_rename_pool(json_t *share, const char *key, const char *pool)
{
	const char *old = json_string_value(json_object_get(share, key));
	if (old == NULL) {
		return 0;
	}
	const char *slash = old[0] == '/' ? "/" : "";
	const char *rest = strchr(old + strlen(slash), '/');
	json_t *text = json_sprintf("%s%s%s", slash, pool, rest != NULL ? rest : "");
	return text != NULL ? json_object_set_new(share, key, text) : -ENOMEM;
}

/* A pool may be imported under another name: its shares come along. */
static int
shares_rename_pool(json_t *shares, const char *pool)
{
	size_t i;
	json_t *share;
	int err = 0;
	json_array_foreach(json_object_get(shares, "shares"), i, share)
	{
		err = err != 0 ? err : share_rename_pool(share, "path", pool);
		err = err != 0 ? err : share_rename_pool(share, "dataset", pool);
	}
	return err;
}

int
shares_load(struct adm *a, struct adm_pool *ap, struct adm_error *e)
{
	void *data;
	uint32_t len;
	(void)a;
	int err = pool_blob_get(ap->pool, SHARES_BLOB, &data, &len);
	if (err == -ENOENT) {
		ap->shares = json_pack("{s:i, s:i, s:[]}", "version", 1, "next_id", 1, "shares");
		return 0;
	}
	if (err != 0) {
		return adm_fail(e, err, "the shares of '%s' can't be read: %s", pool_name(ap->pool),
		    err_str(err));
	}
	ap->shares = json_loadb(data, len, 0, NULL);
	mem_free(data);
	if (!json_is_array(json_object_get(ap->shares, "shares"))) {
		json_decref(ap->shares);
		ap->shares = NULL;
		return adm_fail(
		    e, ERR_CORRUPT, "the share list of '%s' is damaged", pool_name(ap->pool));
	}
	if (shares_rename_pool(ap->shares, pool_name(ap->pool)) != 0) {
		json_decref(ap->shares);
		ap->shares = NULL;
		return adm_fail(e, ENOMEM, "out of memory");
	}
	return 0;
}

int
shares_store(struct adm *a, struct adm_pool *ap, struct adm_error *e)
{
	(void)a;
	char *text = json_dumps(ap->shares, JSON_COMPACT);
	if (text == NULL) {
		return adm_fail(e, ENOMEM, "out of memory");
	}
	int err = pool_blob_put(ap->pool, SHARES_BLOB, text, (uint32_t)strlen(text));
	mem_free(text);
	return err != 0 ? adm_fail(e, err, "the shares could not be stored: %s", err_str(err)) : 0;
}

static void
exports_free(struct nfsd_export *list, uint32_t count)
{
	for (uint32_t i = 0; i < count; i++) {
		mem_free(list[i].rules);
	}
	mem_free(list);
}

int
shares_publish(struct adm *a, struct adm_error *e)
{
	size_t total = 0;
	uint32_t count = 0;
	for (uint32_t i = 0; i < a->pool_count; i++) {
		total += json_array_size(json_object_get(a->pools[i].shares, "shares"));
	}
	struct nfsd_export *list = mem_zalloc_array(MAX(total, (size_t)1), sizeof(*list));
	if (list == NULL) {
		return adm_fail(e, ENOMEM, "out of memory");
	}
	for (uint32_t i = 0; i < a->pool_count; i++) {
		size_t k;
		json_t *share;
		json_array_foreach(json_object_get(a->pools[i].shares, "shares"), k, share)
		{
			struct adm_error bad = {0};
			if (share_compile(share, &list[count], &bad) == 0) {
				count++;
			} else {
				log_error("share-not-served pool=%s reason=\"%s\"",
				    pool_name(a->pools[i].pool), bad.message);
			}
		}
	}
	int err = nfsd_publish(a->nfsd, list, count);
	exports_free(list, count);
	return err != 0 ? adm_fail(e, err, "the shares could not be published: %s", err_str(err))
			: 0;
}

/* "/tank/share": one slash in front of each part, none behind, nothing odd. */
static bool
share_path_good(const char *path)
{
	size_t len = strlen(path);
	return path[0] == '/' && len > 1 && len <= 1024 && path[len - 1] != '/' &&
	       strstr(path, "//") == NULL && strstr(path, "/./") == NULL &&
	       strstr(path, "/../") == NULL && strcmp(path + len - 2, "/.") != 0 &&
	       (len < 3 || strcmp(path + len - 3, "/..") != 0);
}

/* Cuts the path at the longest dataset that exists: dataset[] and the rest behind it. */
static int
share_split(struct adm_pool *ap, const char *path, char *dataset, size_t len, const char **out_rest)
{
	size_t end = strlen(path + 1);
	while (end > 0) {
		struct fs_ds *ds;
		if (end < len && end <= DATASET_NAME_MAX) {
			memcpy(dataset, path + 1, end);
			dataset[end] = '\0';
			if (fs_ds_open(ap->fp, dataset, &ds) == 0) {
				fs_ds_close(ds);
				*out_rest = path + 1 + end;
				return 0;
			}
		}
		while (end > 0 && path[end] != '/') {
			end--;
		}
		end = end > 0 ? end - 1 : 0;
	}
	return -ENOENT;
}

/* Is rest ("/a/b") a directory of the dataset? */
static bool
share_is_directory(struct adm_pool *ap, const char *dataset, const char *rest)
{
	static const struct fs_cred root_cred = {0};
	struct fs_ds *ds;
	struct fs_node *node;
	struct fs_attr attr;
	if (fs_ds_open(ap->fp, dataset, &ds) != 0) {
		return false;
	}
	int err = fs_root(ds, &node);
	while (err == 0 && *rest == '/') {
		struct fs_node *next = NULL;
		size_t len = strcspn(rest + 1, "/");
		err = fs_lookup(node, &root_cred, rest + 1, (uint32_t)len, &next);
		fs_node_put(node);
		node = next;
		rest += 1 + len;
	}
	if (err == 0) {
		fs_getattr(node, &attr);
		fs_node_put(node);
	}
	fs_ds_close(ds);
	return err == 0 && attr.type == FS_DIR;
}

/* Finds or makes what the path names: a dataset, a directory in one, or a new dataset below an
 * existing one. */
static int
share_place(struct adm_pool *ap, const char *path, json_t *share, struct adm_error *e)
{
	char dataset[DATASET_NAME_MAX + 1], why[256] = "";
	const char *rest = "";
	int err = share_split(ap, path, dataset, sizeof(dataset), &rest);
	if (err != 0) {
		return adm_fail(e, err, "'%.100s' is not below a pool in service", path);
	}
	const char *subdir = "";
	if (*rest != '\0' && share_is_directory(ap, dataset, rest)) {
		subdir = rest + 1;
	} else if (*rest != '\0') {
		err = fs_ds_create(ap->fp, path + 1, NULL, 0, why, sizeof(why));
		if (err != 0) {
			return adm_fail(e, err, "the filesystem '%.100s' can't be created: %s",
			    path + 1, why[0] != '\0' ? why : err_str(err));
		}
		snprintf(dataset, sizeof(dataset), "%s", path + 1);
	}
	json_object_set_new(share, "dataset", json_string(dataset));
	json_object_set_new(share, "subdir", json_string(subdir));
	return 0;
}

static int
share_apply_all(json_t *share, json_t *props, struct adm_error *e)
{
	size_t i;
	json_t *prop;
	json_array_foreach(props, i, prop)
	{
		int err =
		    share_apply(share, json_is_string(prop) ? json_string_value(prop) : "", e);
		if (err != 0) {
			return err;
		}
	}
	struct nfsd_export *compiled = mem_zalloc(sizeof(*compiled));
	if (compiled == NULL) {
		return adm_fail(e, ENOMEM, "out of memory");
	}
	int err = share_compile(share, compiled, e);
	mem_free(compiled->rules);
	mem_free(compiled);
	return err;
}

static struct adm_pool *
share_pool(struct adm *a, const char *path, struct adm_error *e)
{
	if (!share_path_good(path)) {
		adm_fail_next(e, "A share is named by its path: /tank/home");
		adm_fail(e, EINVAL, "'%.100s' is no path of a share", path);
		return NULL;
	}
	return adm_pool_of(a, path + 1, e);
}

/* The list with change made to it is stored; on failure the list is as before. */
static int
share_commit(struct adm *a, struct adm_pool *ap, json_t *before, struct adm_error *e)
{
	int err = shares_store(a, ap, e);
	if (err == 0) {
		err = shares_publish(a, e);
	}
	if (err != 0) {
		json_decref(ap->shares);
		ap->shares = before;
		return err;
	}
	json_decref(before);
	return 0;
}

static int
share_cmd_create(struct adm *a, json_t *args, json_t **out, struct adm_error *e)
{
	const char *path = adm_arg_string(args, "path", e);
	struct adm_pool *ap = path != NULL ? share_pool(a, path, e) : NULL;
	(void)out;
	adm_fail_untouched(e, "No share was created.");
	if (ap == NULL) {
		return -e->code;
	}
	if (ap->shares == NULL) {
		return adm_fail(
		    e, ERR_CORRUPT, "the share list of '%s' is damaged", pool_name(ap->pool));
	}
	if (share_find(ap, path) != NULL) {
		adm_fail_next(e, "'share set %.100s ...' changes it.", path);
		return adm_fail(e, EEXIST, "there is a share %.200s", path);
	}
	if (json_array_size(json_object_get(ap->shares, "shares")) >= SHARES_MAX) {
		return adm_fail(e, ENOSPC, "a pool has at most %u shares", SHARES_MAX);
	}
	json_int_t id = json_integer_value(json_object_get(ap->shares, "next_id"));
	json_t *share = json_pack("{s:I, s:s, s:s, s:s, s:s, s:s, s:s, s:i, s:i, s:b}", "id", id,
	    "path", path, "dataset", "", "subdir", "", "rw", "", "ro", "", "squash", "root_squash",
	    "anonuid", ANON_ID, "anongid", ANON_ID, "insecure", 0);
	if (share == NULL) {
		return adm_fail(e, EINVAL, "the path isn't text");
	}
	int err = share_apply_all(share, json_object_get(args, "props"), e);
	if (err == 0) {
		err = share_place(ap, path, share, e);
	}
	if (err != 0) {
		json_decref(share);
		return err;
	}
	json_t *before = json_deep_copy(ap->shares);
	json_array_append_new(json_object_get(ap->shares, "shares"), share);
	json_object_set_new(ap->shares, "next_id", json_integer(id + 1));
	return share_commit(a, ap, before, e);
}

static json_t *
share_arg(struct adm *a, json_t *args, struct adm_pool **out_pool, struct adm_error *e)
{
	const char *path = adm_arg_string(args, "path", e);
	adm_fail_untouched(e, "Nothing was changed.");
	*out_pool = path != NULL ? share_pool(a, path, e) : NULL;
	json_t *share = *out_pool != NULL ? share_find(*out_pool, path) : NULL;
	if (*out_pool != NULL && share == NULL) {
		adm_fail_next(e, "'share list' shows the shares.");
		adm_fail(e, ENOENT, "there is no share %.200s", path);
	}
	return share;
}

static int
share_cmd_set(struct adm *a, json_t *args, json_t **out, struct adm_error *e)
{
	struct adm_pool *ap;
	json_t *share = share_arg(a, args, &ap, e);
	(void)out;
	if (share == NULL) {
		return -e->code;
	}
	json_t *changed = json_deep_copy(share);
	int err = share_apply_all(changed, json_object_get(args, "props"), e);
	if (err != 0) {
		json_decref(changed);
		return err;
	}
	json_t *before = json_deep_copy(ap->shares);
	json_object_update(share, changed);
	json_decref(changed);
	return share_commit(a, ap, before, e);
}

static int
share_cmd_remove(struct adm *a, json_t *args, json_t **out, struct adm_error *e)
{
	struct adm_pool *ap;
	json_t *share = share_arg(a, args, &ap, e);
	(void)out;
	if (share == NULL) {
		return -e->code;
	}
	json_t *before = json_deep_copy(ap->shares);
	json_t *list = json_object_get(ap->shares, "shares");
	for (size_t i = 0; i < json_array_size(list); i++) {
		if (json_array_get(list, i) == share) {
			json_array_remove(list, i);
			break;
		}
	}
	return share_commit(a, ap, before, e);
}

static int
share_cmd_list(struct adm *a, json_t *args, json_t **out, struct adm_error *e)
{
	json_t *list = json_array();
	(void)args;
	(void)e;
	for (uint32_t i = 0; i < a->pool_count; i++) {
		json_t *copy = json_deep_copy(json_object_get(a->pools[i].shares, "shares"));
		json_array_extend(list, copy);
		json_decref(copy);
	}
	*out = list;
	return 0;
}

const struct adm_command adm_share_commands[] = {
    {"share create", share_cmd_create, ADM_CHANGE},
    {"share set", share_cmd_set, ADM_CHANGE},
    {"share remove", share_cmd_remove, ADM_CHANGE},
    {"share list", share_cmd_list, ADM_LOOK},
    {NULL, NULL, ADM_LOOK},
};
