/*
 * snap_api.c - what the rooms above ask of snapshots. What changes chains is a request to the
 * syncing fiber (snap_sync.c); names and holds change in memory and are durable with a txg.
 */
#include <stdio.h>
#include <stdlib.h>

#include "pool/snap.h"

#define TAG_MAX 255u
#define TAGS_BYTES_MAX (64u << 10)
#define SETTLE_LOOK_NS NSEC_PER_MSEC

/* ---- names ---- */

/* "path@name": where the name begins; NULL: it has none. out_path: DATASET_NAME_MAX + 1 bytes. */
static const char *
name_split(const char *full, char *out_path)
{
	const char *at = strchr(full, '@');

	if (at == NULL || strlen(full) > DATASET_NAME_MAX ||
	    !ds_component_is_valid(at + 1, strlen(at + 1))) {
		return NULL;
	}
	memcpy(out_path, full, (size_t)(at - full));
	out_path[at - full] = '\0';
	return at + 1;
}

/* Under the lock. */
static struct snap *
full_find(struct pool *p, const char *full)
{
	char path[DATASET_NAME_MAX + 1];
	const char *name = name_split(full, path);
	struct pool_ds *ds = name != NULL ? ds_path_find(p, path) : NULL;

	return ds != NULL ? snap_find(p, ds, name) : NULL;
}

static int
change_check(struct pool *p, enum space_level level)
{
	int err = ds_admin_check(p, level);

	return err == 0 && !pool_has_snapshots(p) ? -ERR_FEATURE : err;
}

/* -EAGAIN means that a rollback of one of the datasets hasn't landed: soon. */
static bool
settle(struct pool *p, int err)
{
	if (err != -EAGAIN || atomic_load(&p->suspended) || atomic_load(&p->closing)) {
		return false;
	}
	fiber_sleep(SETTLE_LOOK_NS);
	return true;
}

/* ---- creating ---- */

/* Does another item or request make the same one? Under the lock. */
static bool
is_wanted_twice(struct pool *p, const struct snap_req *r, uint32_t i)
{
	for (uint32_t k = 0; k < i; k++) {
		if (r->items[k].ds == r->items[i].ds) {
			return true; /* two of one dataset can't be of one instant */
		}
	}
	list_for_each(l, &p->datasets->requests)
	{
		const struct snap_req *other = list_entry(l, struct snap_req, link);

		for (uint32_t k = 0; other->op == SNAP_CREATE && k < other->count; k++) {
			if (other->items[k].ds == r->items[i].ds &&
			    strcmp(other->items[k].snap->name, r->items[i].snap->name) == 0) {
				return true;
			}
		}
	}
	return false;
}

static int
create_item(struct pool *p, struct snap_req *r, uint32_t i, const char *full)
{
	char path[DATASET_NAME_MAX + 1];
	const char *name = name_split(full, path);
	struct pool_ds *ds = name != NULL ? ds_path_find(p, path) : NULL;
	struct snap_item *item = &r->items[i];

	if (ds == NULL) {
		return name == NULL ? -EINVAL : -ENOENT;
	}
	if (snap_find(p, ds, name) != NULL) {
		return -EEXIST;
	}
	if (ds->not_yet) {
		return -EAGAIN;
	}
	item->ds = pool_ds_ref(ds);
	item->snap = snap_make(name);
	if (item->snap == NULL) {
		return -ENOMEM;
	}
	item->snap->guid = ds_guid_make();
	item->snap->create_time = rt_wall_ns() / NSEC_PER_SEC;
	return is_wanted_twice(p, r, i) ? -EEXIST : 0;
}

static int
create_try(struct pool *p, const char *const *names, uint32_t count, uint32_t *out_bad)
{
	struct snap_req *r = snap_req_make(SNAP_CREATE, count);
	int err = r == NULL ? -ENOMEM : 0;

	if (err != 0) {
		return err;
	}
	mutex_lock(&p->datasets->lock);
	for (uint32_t i = 0; i < count && err == 0; i++) {
		err = create_item(p, r, i, names[i]);
		*out_bad = i;
	}
	if (err == 0) {
		snap_req_queue(p, r);
	}
	mutex_unlock(&p->datasets->lock);
	if (err == 0) {
		err = snap_req_wait(p, r);
	}
	snap_req_close(r);
	return err;
}

int
pool_snap_create(struct pool *p, const char *const *names, uint32_t count, uint32_t *out_bad)
{
	uint32_t bad = 0;
	int err = change_check(p, SPACE_ADMIN);

	if (err != 0 || count == 0) {
		return err;
	}
	do {
		err = create_try(p, names, count, &bad);
	} while (settle(p, err));
	if (err != 0 && out_bad != NULL) {
		*out_bad = bad;
	}
	/* it is in the root committed last, or in one before it */
	err = err != 0 ? err : ds_wait_safe(p, txg_open(p->txgs) - 1);
	return err == -EAGAIN ? -ERR_SUSPENDED : err;
}

/* ---- destroying ---- */

static int
destroy_item(struct pool *p, struct snap_req *r, uint32_t i, const char *full)
{
	struct snap *s = full_find(p, full);

	if (s == NULL) {
		return -ENOENT;
	}
	if (s->holds > 0 || s->clones > 0) {
		return -EBUSY;
	}
	for (uint32_t k = 0; k < i; k++) {
		if (r->items[k].snap == s) {
			return -EINVAL;
		}
	}
	r->items[i].snap = s;
	return 0;
}

int
pool_snap_destroy(struct pool *p, const char *const *names, uint32_t count, uint32_t *out_bad)
{
	struct snap_req *r;
	int err = change_check(p, SPACE_ALL);

	if (err != 0 || count == 0) {
		return err;
	}
	r = snap_req_make(SNAP_DESTROY, count);
	if (r == NULL) {
		return -ENOMEM;
	}
	mutex_lock(&p->datasets->lock);
	for (uint32_t i = 0; i < count && err == 0; i++) {
		err = destroy_item(p, r, i, names[i]);
		if (err != 0 && out_bad != NULL) {
			*out_bad = i;
		}
	}
	for (uint32_t i = 0; i < count && err == 0; i++) {
		snap_vanish(r->items[i].snap);
	}
	if (err == 0) {
		snap_req_queue(p, r);
	}
	mutex_unlock(&p->datasets->lock);
	if (err == 0) {
		err = snap_req_wait(p, r);
	}
	snap_req_close(r);
	return err;
}

/* ---- names and holds ---- */

/* One that has another name now, and what it was called. */
struct renamed {
	struct snap *snap;
	char *was;
};

/* name becomes the snapshot's. What it was called. */
static char *
name_swap(struct pool *p, struct snap *s, char *name)
{
	char *was = s->name;

	snap_unhash(s);
	s->name = name;
	snap_hash(p, s);
	snap_dirty(p, s);
	chain_touch(s->head);
	return was;
}

static int
rename_locked(struct pool *p, const char *full, const char *new_name, struct renamed *out)
{
	struct snap *s = full_find(p, full);
	size_t len = strlen(new_name) + 1;
	char *name;

	if (s == NULL) {
		return -ENOENT;
	}
	if (strcmp(s->name, new_name) == 0) {
		return 0;
	}
	if (snap_find(p, s->head, new_name) != NULL) {
		return -EEXIST; /* another of the same call */
	}
	name = mem_zalloc(len);
	if (name == NULL) {
		return -ENOMEM;
	}
	memcpy(name, new_name, len);
	*out = (struct renamed){s, name_swap(p, s, name)};
	return 0;
}

/* All again what they were called; nothing in it can fail. */
static void
rename_undo(struct pool *p, struct renamed *v, uint32_t count)
{
	while (count-- > 0) {
		if (v[count].snap != NULL) {
			v[count].was = name_swap(p, v[count].snap, v[count].was);
		}
	}
}

int
pool_snap_rename(struct pool *p, const char *name, const char *new_name)
{
	uint32_t bad;

	return pool_snap_rename_all(p, &name, &new_name, 1, false, &bad);
}

/* Under the lock: could the i-th be renamed? */
static int
rename_check(struct pool *p, const char *full, const char *new_name, bool held)
{
	const struct snap *s = full_find(p, full);
	char path[DATASET_NAME_MAX + 1];

	if (!ds_component_is_valid(new_name, strlen(new_name))) {
		return -EINVAL;
	}
	if (s == NULL) {
		return -ENOENT;
	}
	if (held && (s->holds > 0 || s->clones > 0)) {
		return -EBUSY;
	}
	if (ds_path_of(s->head, path) + strlen(new_name) + 1 > DATASET_NAME_MAX) {
		return -EINVAL;
	}
	return strcmp(s->name, new_name) != 0 && snap_find(p, s->head, new_name) != NULL ? -EEXIST
											 : 0;
}

int
pool_snap_rename_all(struct pool *p, const char *const *names, const char *const *new_names,
    uint32_t count, bool held, uint32_t *out_bad)
{
	struct renamed *v = mem_zalloc_array(MAX(count, 1u), sizeof(*v));
	int err = v == NULL ? -ENOMEM : change_check(p, SPACE_ADMIN);

	*out_bad = 0;
	if (err != 0) {
		mem_free(v);
		return err;
	}
	mutex_lock(&p->datasets->lock);
	for (uint32_t i = 0; i < count && err == 0; i++) {
		err = rename_check(p, names[i], new_names[i], held);
		*out_bad = i;
	}
	for (uint32_t i = 0; i < count && err == 0; i++) {
		err = rename_locked(p, names[i], new_names[i], &v[i]);
		*out_bad = i;
	}
	if (err != 0) {
		rename_undo(p, v, count);
	}
	mutex_unlock(&p->datasets->lock);
	for (uint32_t i = 0; i < count; i++) {
		mem_free(v[i].was);
	}
	mem_free(v);
	return err != 0 || count == 0 ? err : pool_sync(p);
}

/* Where tag is or belongs in the list. */
static uint32_t
tag_find(const struct snap *s, const char *tag, bool *found)
{
	uint32_t at = 0;

	*found = false;
	while (at < s->tags_bytes) {
		int order = strcmp(s->tags + at, tag);

		if (order >= 0) {
			*found = order == 0;
			break;
		}
		at += (uint32_t)strlen(s->tags + at) + 1;
		at += (uint32_t)strlen(s->tags + at) + 1;
	}
	return at;
}

static int
tag_add(struct snap *s, const char *tag, uint32_t at)
{
	char time[24];
	uint32_t tag_len = (uint32_t)strlen(tag) + 1, time_len;
	char *fresh;

	(void)snprintf(
	    time, sizeof(time), "%llu", (unsigned long long)(rt_wall_ns() / NSEC_PER_SEC));
	time_len = (uint32_t)strlen(time) + 1;
	if (s->tags_bytes + tag_len + time_len > TAGS_BYTES_MAX) {
		return -ENOSPC;
	}
	fresh = mem_zalloc(s->tags_bytes + tag_len + time_len);
	if (fresh == NULL) {
		return -ENOMEM;
	}
	if (s->tags_bytes > 0) {
		memcpy(fresh, s->tags, at);
		memcpy(fresh + at + tag_len + time_len, s->tags + at, s->tags_bytes - at);
	}
	memcpy(fresh + at, tag, tag_len);
	memcpy(fresh + at + tag_len, time, time_len);
	mem_free(s->tags);
	s->tags = fresh;
	s->tags_bytes += tag_len + time_len;
	s->holds++;
	return 0;
}

static void
tag_remove(struct snap *s, uint32_t at)
{
	uint32_t len = (uint32_t)strlen(s->tags + at) + 1;

	len += (uint32_t)strlen(s->tags + at + len) + 1;
	memmove(s->tags + at, s->tags + at + len, s->tags_bytes - at - len);
	s->tags_bytes -= len;
	s->holds--;
}

static int
tag_change(struct pool *p, const char *name, const char *tag, bool hold)
{
	struct snap *s;
	bool found;
	uint32_t at;
	int err = change_check(p, hold ? SPACE_ADMIN : SPACE_ALL);

	if (err == 0 && (tag[0] == '\0' || strlen(tag) > TAG_MAX)) {
		err = -EINVAL;
	}
	if (err != 0) {
		return err;
	}
	mutex_lock(&p->datasets->lock);
	s = full_find(p, name);
	err = s == NULL ? -ENOENT : 0;
	if (err == 0) {
		at = tag_find(s, tag, &found);
		if (hold) {
			err = found ? -EEXIST : tag_add(s, tag, at);
		} else if (found) {
			tag_remove(s, at);
		} else {
			err = -ENOENT;
		}
	}
	if (err == 0) {
		snap_dirty(p, s);
	}
	mutex_unlock(&p->datasets->lock);
	return err != 0 ? err : pool_sync(p);
}

int
pool_snap_hold(struct pool *p, const char *name, const char *tag)
{
	return tag_change(p, name, tag, true);
}

int
pool_snap_release(struct pool *p, const char *name, const char *tag)
{
	return tag_change(p, name, tag, false);
}

int
pool_snap_holds_each(struct pool *p, const char *name,
    int (*each)(void *arg, const char *tag, uint64_t time), void *arg)
{
	char *copy = NULL;
	uint32_t len = 0;
	struct snap *s;
	int err;

	mutex_lock(&p->datasets->lock);
	s = full_find(p, name);
	err = s == NULL ? -ENOENT : 0;
	if (err == 0) {
		len = s->tags_bytes;
		copy = mem_zalloc(len + 1);
		err = copy == NULL ? -ENOMEM : 0;
	}
	if (err == 0 && len > 0) {
		memcpy(copy, s->tags, len);
	}
	mutex_unlock(&p->datasets->lock);
	for (uint32_t at = 0; err == 0 && at < len;) {
		const char *tag = copy + at;
		const char *time = tag + strlen(tag) + 1;

		err = each(arg, tag, strtoull(time, NULL, 10));
		at += (uint32_t)(strlen(tag) + 1 + strlen(time) + 1);
	}
	mem_free(copy);
	return err;
}

/* ---- asking ---- */

/* Under the lock. */
static void
info_fill(struct pool *p, const struct snap *s, struct pool_snap_info *out)
{
	memset(out, 0, sizeof(*out));
	(void)snprintf(out->name, sizeof(out->name), "%s", s->name);
	out->guid = s->guid;
	out->create_txg = s->create_txg;
	out->create_time = s->create_time;
	out->referenced_bytes = space_data_bytes(p, s->referenced - bp_sectors(&s->root));
	out->written_bytes = space_data_bytes(p, s->written);
	out->logical_bytes = s->data_bytes;
	out->holds = s->holds;
	out->clones = s->clones;
}

struct infos {
	struct pool_snap_info *v;
	uint32_t count;
};

/* Which: taken after txg, at most max. */
struct infos_ask {
	uint64_t txg;
	uint32_t max, flags;
};

/* Under the lock. */
static int
infos_take(
    struct pool *p, const struct pool_ds *head, const struct infos_ask *ask, struct infos *out)
{
	uint32_t first = ask->txg == 0 ? 0 : chain_at(head, ask->txg + 1);
	uint32_t max = MIN(ask->max, head->snap_count - first);

	out->v = mem_zalloc_array(max + 1, sizeof(*out->v));
	if (out->v == NULL) {
		return -ENOMEM;
	}
	for (uint32_t i = first; i < head->snap_count && out->count < max; i++) {
		const struct snap *s = head->snaps[i];

		if (!s->dying &&
		    ((ask->flags & POOL_SNAP_HIDDEN) != 0 || !pool_snap_is_hidden(s->name))) {
			info_fill(p, s, &out->v[out->count++]);
		}
	}
	return 0;
}

static int
infos_add_unique(struct pool *p, struct infos *in)
{
	struct snap_req *r;
	int err;

	if (p->readonly || in->count == 0) {
		return 0; /* sorting would write */
	}
	r = snap_req_make(SNAP_UNIQUE, in->count);
	if (r == NULL) {
		return -ENOMEM;
	}
	for (uint32_t i = 0; i < in->count; i++) {
		r->items[i].guid = in->v[i].guid;
	}
	mutex_lock(&p->datasets->lock);
	snap_req_queue(p, r);
	mutex_unlock(&p->datasets->lock);
	err = snap_req_wait(p, r);
	for (uint32_t i = 0; i < in->count && err == 0; i++) {
		in->v[i].unique_bytes = space_data_bytes(p, r->items[i].sectors);
	}
	snap_req_close(r);
	return err;
}

static int
path_take(struct pool *p, const char *path, const struct infos_ask *ask, struct infos *out)
{
	const struct pool_ds *ds;
	int err;

	mutex_lock(&p->datasets->lock);
	ds = ds_path_find(p, path);
	err = ds == NULL ? -ENOENT : infos_take(p, chain_owner(ds), ask, out);
	mutex_unlock(&p->datasets->lock);
	return err;
}

static int
infos_tell(
    struct infos *in, int err, int (*each)(void *arg, const struct pool_snap_info *s), void *arg)
{
	for (uint32_t i = 0; i < in->count && err == 0; i++) {
		err = each(arg, &in->v[i]);
	}
	mem_free(in->v);
	return err;
}

int
pool_snap_each(struct pool *p, const char *path, uint32_t flags,
    int (*each)(void *arg, const struct pool_snap_info *s), void *arg)
{
	struct infos all = {0};
	struct infos_ask ask = {.max = UINT32_MAX, .flags = flags};
	int err = path_take(p, path, &ask, &all);

	if (err == 0 && (flags & POOL_SNAP_UNIQUE) != 0) {
		err = infos_add_unique(p, &all);
	}
	return infos_tell(&all, err, each, arg);
}

int
pool_snap_each_after(struct pool *p, const char *path, uint64_t txg, uint32_t max,
    int (*each)(void *arg, const struct pool_snap_info *s), void *arg)
{
	struct infos some = {0};
	struct infos_ask ask = {.txg = txg, .max = max};

	return infos_tell(&some, path_take(p, path, &ask, &some), each, arg);
}

int
pool_snap_get(struct pool *p, const char *name, uint32_t flags, struct pool_snap_info *out)
{
	struct infos one = {.v = out, .count = 1};
	struct snap *s;

	mutex_lock(&p->datasets->lock);
	s = full_find(p, name);
	if (s != NULL) {
		info_fill(p, s, out);
	}
	mutex_unlock(&p->datasets->lock);
	if (s == NULL) {
		return -ENOENT;
	}
	return (flags & POOL_SNAP_UNIQUE) != 0 ? infos_add_unique(p, &one) : 0;
}

int
pool_snap_reclaim(struct pool *p, const char *const *names, uint32_t count, uint64_t *out_bytes)
{
	struct snap_req *r = snap_req_make(SNAP_RECLAIM, count);
	int err = r == NULL ? -ENOMEM : 0;

	if (err != 0) {
		return err;
	}
	mutex_lock(&p->datasets->lock);
	for (uint32_t i = 0; i < count && err == 0; i++) {
		struct snap *s = full_find(p, names[i]);

		err = s == NULL ? -ENOENT : 0;
		if (s != NULL) {
			r->items[i].guid = s->guid;
		}
	}
	if (err == 0 && p->readonly) {
		err = -EROFS;
	}
	if (err == 0) {
		snap_req_queue(p, r);
	}
	mutex_unlock(&p->datasets->lock);
	if (err == 0) {
		err = snap_req_wait(p, r);
	}
	if (err == 0) {
		*out_bytes = space_data_bytes(p, r->sectors);
	}
	snap_req_close(r);
	return err;
}

uint64_t
pool_pending_free_bytes(struct pool *p)
{
	return space_data_bytes(p, atomic_load(&p->datasets->mos->pending_sectors));
}

/* ---- features ---- */

uint64_t
pool_features(struct pool *p)
{
	return p->v.feat_rocompat;
}

/* What a pool from before has in its queue isn't counted as pending: so first it is worked off. */
static int
queue_drain(struct pool *p)
{
	struct pool_ds *mos = p->datasets->mos;
	int err = pool_sync(p);

	while (err == 0 && mos->dying_count > 0) {
		err = pool_sync(p);
	}
	return err;
}

int
pool_upgrade(struct pool *p, uint64_t *out_enabled)
{
	uint64_t fresh = FEATURES_ROCOMPAT & ~p->v.feat_rocompat;
	int err = ds_admin_check(p, SPACE_ADMIN);

	*out_enabled = 0;
	if (err != 0 || fresh == 0) {
		return err;
	}
	err = queue_drain(p);
	if (err != 0) {
		return err;
	}
	mutex_lock(&p->config_lock);
	p->v.feat_rocompat |= fresh;
	atomic_store(&p->config_dirty, true);
	mutex_unlock(&p->config_lock);
	/* the labels say so before the first root that relies on it */
	err = ds_wait_safe(p, txg_open(p->txgs));
	if (err == 0) {
		*out_enabled = fresh;
		log_notice(
		    "pool_upgraded pool=%s features=%llx", p->name, (unsigned long long)fresh);
	}
	return err;
}
