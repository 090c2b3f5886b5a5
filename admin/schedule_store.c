/*
 * schedule_store.c - the schedules of a pool: kept in it as one blob, changed by commands. The list
 * in memory is what the blob holds, but for what the last runs did, which is written when it can
 * be.
 */
#include <stdio.h>
#include "admin/schedule.h"

#define SCHED_BLOB "schedules"

static int
sched_compare(const struct sched *s, const char *path, enum sched_every every)
{
	int order = strcmp(s->path, path);
	return order != 0 ? order : (int)s->every - (int)every;
}

struct sched *
sched_find(struct adm_sched *t, const char *path, enum sched_every every)
{
	for (uint32_t i = 0; i < t->count; i++) {
		if (sched_compare(&t->v[i], path, every) == 0) {
			return &t->v[i];
		}
	}
	return NULL;
}

/* In its place in the order. */
int
sched_insert(struct adm_sched *t, const struct sched *s)
{
	struct sched *v = mem_realloc(t->v, (t->count + 1) * sizeof(*v));
	if (v == NULL) {
		return -ENOMEM;
	}
	uint32_t at = t->count;
	while (at > 0 && sched_compare(&v[at - 1], s->path, s->every) > 0) {
		v[at] = v[at - 1];
		at--;
	}
	v[at] = *s;
	t->v = v;
	t->count++;
	return 0;
}

void
sched_take_out(struct adm_sched *t, uint32_t at)
{
	memmove(&t->v[at], &t->v[at + 1], (t->count - at - 1) * sizeof(t->v[0]));
	t->count--;
}

/* ---- the blob ---- */

json_t *
sched_json(const struct sched *s)
{
	return json_pack("{s:s, s:s, s:i, s:b, s:b, s:I}", "path", s->path, "every",
	    sched_every_name(s->every), "keep", (int)s->keep, "recursive", s->recursive, "paused",
	    s->paused, "last", (json_int_t)s->last);
}

/* Nothing of the blob is trusted. */
static bool
sched_decode(json_t *o, struct sched *out)
{
	const char *path = json_string_value(json_object_get(o, "path"));
	const char *every = json_string_value(json_object_get(o, "every"));
	json_int_t keep = json_integer_value(json_object_get(o, "keep"));
	*out = (struct sched){.recursive = json_is_true(json_object_get(o, "recursive")),
	    .paused = json_is_true(json_object_get(o, "paused")),
	    .last = json_integer_value(json_object_get(o, "last"))};
	if (path == NULL || strlen(path) > DATASET_NAME_MAX || every == NULL ||
	    !sched_every_parse(every, &out->every) || keep < 1 || keep > SCHED_KEEP_MAX) {
		return false;
	}
	out->keep = (uint32_t)keep;
	(void)snprintf(out->path, sizeof(out->path), "%s", path);
	return true;
}

int
sched_store(struct adm_pool *ap)
{
	json_t *list = json_array();
	for (uint32_t i = 0; i < ap->sched->count; i++) {
		json_array_append_new(list, sched_json(&ap->sched->v[i]));
	}
	json_t *root = json_pack("{s:i, s:o}", "version", 1, "schedules", list);
	char *text = root != NULL ? json_dumps(root, JSON_COMPACT) : NULL;
	int err = text == NULL ? -ENOMEM
			       : pool_blob_put(ap->pool, SCHED_BLOB, text, (uint32_t)strlen(text));
	mem_free(text);
	json_decref(root);
	if (err == 0) {
		ap->sched->dirty = false;
	}
	return err;
}

int
sched_load(struct adm_pool *ap, struct adm_error *e)
{
	void *data;
	uint32_t len;
	size_t i;
	json_t *o;
	ap->sched = mem_zalloc(sizeof(*ap->sched));
	if (ap->sched == NULL) {
		return adm_fail(e, ENOMEM, "out of memory");
	}
	mutex_init(&ap->sched->lock, RANK_ADMIN_DRIVES);
	int err = pool_blob_get(ap->pool, SCHED_BLOB, &data, &len);
	if (err != 0) {
		return err == -ENOENT ? 0
				      : adm_fail(e, err, "the schedules of '%s' can't be read: %s",
					    pool_name(ap->pool), err_str(err));
	}
	json_t *root = json_loadb(data, len, 0, NULL);
	mem_free(data);
	bool good = json_is_array(json_object_get(root, "schedules"));
	json_array_foreach(json_object_get(root, "schedules"), i, o)
	{
		struct sched s;
		good = sched_decode(o, &s) && i < SCHED_MAX && good;
		if (good && sched_find(ap->sched, s.path, s.every) == NULL) {
			good = sched_insert(ap->sched, &s) == 0;
		}
	}
	json_decref(root);
	return good ? 0
		    : adm_fail(e, ERR_CORRUPT, "the list of schedules of '%s' is damaged",
			  pool_name(ap->pool));
}

void
sched_free(struct adm_pool *ap)
{
	if (ap->sched != NULL) {
		mem_free(ap->sched->v);
		mem_free(ap->sched);
		ap->sched = NULL;
	}
}

/* ---- what happens to filesystems ---- */

static bool
sched_is_of(const struct sched *s, const char *path)
{
	size_t len = strlen(path);
	return strncmp(s->path, path, len) == 0 && (s->path[len] == '\0' || s->path[len] == '/');
}

uint32_t
sched_count(struct adm_pool *ap, const char *path)
{
	struct adm_sched *t = ap->sched;
	uint32_t count = 0;
	if (t == NULL) {
		return 0;
	}
	mutex_lock(&t->lock);
	for (uint32_t i = 0; i < t->count; i++) {
		count += sched_is_of(&t->v[i], path);
	}
	mutex_unlock(&t->lock);
	return count;
}

/* path and what is below it is named otherwise, or gone (to NULL). */
void
sched_follow(struct adm_pool *ap, const char *path, const char *to)
{
	struct adm_sched *t = ap->sched;
	size_t len = strlen(path);
	if (t == NULL) {
		return;
	}
	mutex_lock(&t->lock);
	for (uint32_t i = t->count; i-- > 0;) {
		struct sched s = t->v[i];
		if (!sched_is_of(&s, path)) {
			continue;
		}
		t->dirty = true;
		if (to == NULL) {
			sched_take_out(t, i);
			continue;
		}
		char rest[DATASET_NAME_MAX + 1];
		memcpy(rest, s.path + len, sizeof(rest) - len);
		(void)snprintf(t->v[i].path, sizeof(t->v[i].path), "%s%s", to, rest);
	}
	int err = t->dirty ? sched_store(ap) : 0;
	if (err != 0) {
		log_warn(
		    "schedules-not-stored pool=%s error=%s", pool_name(ap->pool), err_str(err));
	}
	mutex_unlock(&t->lock);
}
