/* fakepool_snap.c - snapshots and clones of the pool without drives: whole copies, made while no
 * transaction is open. */
#include <stdio.h>
#include "tests/lib/fakepool_int.h"

static void
quiet_begin(struct pool *p)
{
	while (p->quiet) {
		fiber_yield();
	}
	p->quiet = true;
	while (p->live_tx > 0) {
		fiber_yield();
	}
	p->txg++;
}

static void
quiet_end(struct pool *p)
{
	p->quiet = false;
	fake_park(p);
}

static void
list_changed(struct pool_ds *head)
{
	head->list_seq++;
	head->list_ns = MAX(head->list_ns + 1, rt_wall_ns());
}

static struct pool_ds *
snap_of(struct pool *p, const struct pool_ds *head, const char *snap)
{
	list_for_each(it, &p->snaps)
	{
		struct pool_ds *ds = list_entry(it, struct pool_ds, link);
		if (!ds->destroyed && ds->head == head && strcmp(ds->snap, snap) == 0) {
			return ds;
		}
	}
	return NULL;
}

static struct pool_ds *
head_of(struct pool *p, const char *name)
{
	char path[DATASET_NAME_MAX + 1];
	(void)snprintf(path, sizeof(path), "%.*s", (int)strcspn(name, "@"), name);
	return fake_ds_find(p, path);
}

static struct pool_ds *
snap_find(struct pool *p, const char *name)
{
	const char *at = strchr(name, '@');
	struct pool_ds *head = at != NULL ? head_of(p, name) : NULL;
	return head != NULL ? snap_of(p, head, at + 1) : NULL;
}

static uint32_t
clones_of(struct pool *p, const struct pool_ds *snap)
{
	uint32_t n = 0;
	list_for_each(it, &p->datasets)
	{
		const struct pool_ds *ds = list_entry(it, struct pool_ds, link);
		n += !ds->destroyed && ds->origin_guid == snap->snap_guid;
	}
	return n;
}

static int
create_check(struct pool *p, const char *name)
{
	const char *at = strchr(name, '@');
	if (at == NULL || at[1] == 0 || strpbrk(at + 1, "@/") != NULL) {
		return -EINVAL;
	}
	return head_of(p, name) == NULL ? -ENOENT : snap_find(p, name) != NULL ? -EEXIST : 0;
}

static void
snap_make(struct pool *p, struct pool_ds *head, const char *snap)
{
	struct pool_ds *ds = fake_ds_make(p, head->path, head->guid);
	fake_ds_copy(ds, head);
	ds->head = head;
	ds->snap_guid = p->next_guid++;
	ds->create_txg = p->txg;
	(void)snprintf(ds->snap, sizeof(ds->snap), "%s", snap);
	list_push_back(&p->snaps, &ds->link);
	list_changed(head);
}

int
pool_snap_create(struct pool *p, const char *const *names, uint32_t count, uint32_t *out_bad)
{
	quiet_begin(p);
	int err = 0;
	for (uint32_t i = 0; err == 0 && i < count; i++) {
		err = create_check(p, names[i]);
		*out_bad = i;
	}
	for (uint32_t i = 0; err == 0 && i < count; i++) {
		snap_make(p, head_of(p, names[i]), strchr(names[i], '@') + 1);
	}
	quiet_end(p);
	return err;
}

int
pool_snap_destroy(struct pool *p, const char *const *names, uint32_t count, uint32_t *out_bad)
{
	for (uint32_t i = 0; i < count; i++) {
		struct pool_ds *ds = snap_find(p, names[i]);
		*out_bad = i;
		if (ds == NULL) {
			return -ENOENT;
		}
		if (ds->hold_count > 0 || clones_of(p, ds) > 0) {
			return -EBUSY;
		}
	}
	for (uint32_t i = 0; i < count; i++) {
		struct pool_ds *ds = snap_find(p, names[i]);
		ds->destroyed = true;
		list_changed(ds->head);
	}
	fake_park(p);
	return 0;
}

int
pool_snap_rename(struct pool *p, const char *name, const char *new_name)
{
	struct pool_ds *ds = snap_find(p, name);
	if (ds == NULL) {
		return -ENOENT;
	}
	if (snap_of(p, ds->head, new_name) != NULL) {
		return -EEXIST;
	}
	(void)snprintf(ds->snap, sizeof(ds->snap), "%s", new_name);
	list_changed(ds->head);
	return 0;
}

int
pool_snap_rename_all(struct pool *p, const char *const *names, const char *const *new_names,
    uint32_t count, bool held, uint32_t *out_bad)
{
	int err = 0;
	for (uint32_t i = 0; err == 0 && i < count; i++) {
		const struct pool_ds *ds = snap_find(p, names[i]);
		bool busy = ds != NULL && held && (ds->hold_count > 0 || clones_of(p, ds) > 0);
		*out_bad = i;
		err = busy ? -EBUSY : pool_snap_rename(p, names[i], new_names[i]);
	}
	return err;
}

int
pool_snap_open(struct pool *p, const char *name, struct pool_ds **out)
{
	fake_park(p);
	struct pool_ds *ds = snap_find(p, name);
	if (ds != NULL) {
		*out = pool_ds_ref(ds);
	}
	return ds != NULL ? 0 : -ENOENT;
}

int
pool_snap_open_guid(struct pool *p, uint64_t ds_guid, uint64_t snap_guid, struct pool_ds **out)
{
	fake_park(p);
	list_for_each(it, &p->snaps)
	{
		struct pool_ds *ds = list_entry(it, struct pool_ds, link);
		if (!ds->destroyed && ds->snap_guid == snap_guid &&
		    (ds_guid == 0 || ds->guid == ds_guid)) {
			*out = pool_ds_ref(ds);
			return 0;
		}
	}
	return -ENOENT;
}

uint64_t
pool_ds_snap_guid(const struct pool_ds *ds)
{
	return ds->snap_guid;
}

uint64_t
pool_snap_list_seq(struct pool_ds *ds, uint64_t *out_time)
{
	*out_time = ds->list_ns;
	return ds->list_seq;
}

static void
snap_info(struct pool *p, const struct pool_ds *ds, struct pool_snap_info *out)
{
	memset(out, 0, sizeof(*out));
	memcpy(out->name, ds->snap, sizeof(out->name));
	out->guid = ds->snap_guid;
	out->create_txg = ds->create_txg;
	out->create_time = 1700000000 + ds->create_txg;
	out->referenced_bytes = 2 * MIB;
	out->holds = ds->hold_count;
	out->clones = clones_of(p, ds);
}

int
pool_snap_get(struct pool *p, const char *name, uint32_t flags, struct pool_snap_info *out)
{
	(void)flags;
	struct pool_ds *ds = snap_find(p, name);
	if (ds == NULL) {
		return -ENOENT;
	}
	snap_info(p, ds, out);
	return 0;
}

struct which {
	uint64_t txg;
	uint32_t max, flags;
};

static int
snap_each(struct pool *p, const char *path, struct which w,
    int (*each)(void *arg, const struct pool_snap_info *s), void *arg)
{
	struct pool_ds *head = fake_ds_find(p, path);
	if (head == NULL) {
		return -ENOENT;
	}
	list_for_each(it, &p->snaps)
	{
		struct pool_ds *ds = list_entry(it, struct pool_ds, link);
		struct pool_snap_info info;
		if (ds->destroyed || ds->head != head ||
		    ((w.flags & POOL_SNAP_HIDDEN) == 0 && pool_snap_is_hidden(ds->snap))) {
			continue;
		}
		snap_info(p, ds, &info);
		if (info.create_txg <= w.txg) {
			continue;
		}
		if (w.max-- == 0) {
			break;
		}
		int err = each(arg, &info);
		if (err != 0) {
			return err;
		}
	}
	return 0;
}

int
pool_snap_each_after(struct pool *p, const char *path, uint64_t txg, uint32_t max,
    int (*each)(void *arg, const struct pool_snap_info *s), void *arg)
{
	return snap_each(p, path, (struct which){.txg = txg, .max = max}, each, arg);
}

int
pool_snap_each(struct pool *p, const char *path, uint32_t flags,
    int (*each)(void *arg, const struct pool_snap_info *s), void *arg)
{
	return snap_each(p, path, (struct which){.max = UINT32_MAX, .flags = flags}, each, arg);
}

static int
hold_index(const struct pool_ds *ds, const char *tag)
{
	for (uint32_t i = 0; i < ds->hold_count; i++) {
		if (strcmp(ds->holds[i], tag) == 0) {
			return (int)i;
		}
	}
	return -1;
}

int
pool_snap_hold(struct pool *p, const char *name, const char *tag)
{
	struct pool_ds *ds = snap_find(p, name);
	if (ds == NULL || hold_index(ds, tag) >= 0) {
		return ds == NULL ? -ENOENT : -EEXIST;
	}
	ASSERT(ds->hold_count < ARRAY_LEN(ds->holds));
	(void)snprintf(ds->holds[ds->hold_count++], sizeof(ds->holds[0]), "%s", tag);
	return 0;
}

int
pool_snap_release(struct pool *p, const char *name, const char *tag)
{
	struct pool_ds *ds = snap_find(p, name);
	int at = ds != NULL ? hold_index(ds, tag) : -1;
	if (at < 0) {
		return -ENOENT;
	}
	memcpy(ds->holds[at], ds->holds[--ds->hold_count], sizeof(ds->holds[0]));
	return 0;
}

uint32_t
pool_snap_hidden_count(struct pool *p)
{
	uint32_t count = 0;
	list_for_each(it, &p->snaps)
	{
		const struct pool_ds *ds = list_entry(it, struct pool_ds, link);
		count += !ds->destroyed && pool_snap_is_hidden(ds->snap);
	}
	return count;
}

/* ---- clones and going back ---- */

int
pool_ds_clone(struct pool *p, const char *snap, const char *path, struct pool_ds **out)
{
	struct pool_ds *from = snap_find(p, snap), *ds;
	if (from == NULL) {
		return -ENOENT;
	}
	int err = pool_ds_create(p, path, &ds);
	if (err != 0) {
		return err;
	}
	fake_ds_copy(ds, from);
	ds->prop_count = 0;
	ds->origin_guid = from->snap_guid;
	fake_park(p);
	*out = ds;
	return 0;
}

int
pool_ds_promote(struct pool *p, const char *path, char *why, size_t why_len)
{
	struct pool_ds *ds = fake_ds_find(p, path), *origin = NULL;
	list_for_each(it, &p->snaps)
	{
		struct pool_ds *snap = list_entry(it, struct pool_ds, link);
		if (ds != NULL && !snap->destroyed && ds->origin_guid == snap->snap_guid) {
			origin = snap;
		}
	}
	if (origin == NULL) {
		(void)snprintf(why, why_len, "it isn't a clone");
		return ds == NULL ? -ENOENT : -EINVAL;
	}
	struct pool_ds *other = origin->head;
	ds->origin_guid = other->origin_guid;
	other->origin_guid = origin->snap_guid;
	list_for_each(it, &p->snaps)
	{
		struct pool_ds *snap = list_entry(it, struct pool_ds, link);
		if (snap->head == other && snap->create_txg <= origin->create_txg) {
			snap->head = ds;
			snap->guid = ds->guid;
		}
	}
	list_changed(ds);
	list_changed(other);
	return 0;
}

static bool
is_newest(struct pool *p, const struct pool_ds *snap)
{
	list_for_each(it, &p->snaps)
	{
		const struct pool_ds *ds = list_entry(it, struct pool_ds, link);
		if (!ds->destroyed && ds->head == snap->head && ds->create_txg > snap->create_txg) {
			return false;
		}
	}
	return true;
}

/* Snapshots of the old one are those of the new one. */
static void
snaps_follow(struct pool *p, const struct pool_ds *old, struct pool_ds *ds)
{
	list_for_each(it, &p->snaps)
	{
		struct pool_ds *snap = list_entry(it, struct pool_ds, link);
		snap->head = snap->head == old ? ds : snap->head;
	}
}

int
pool_ds_rollback(struct pool *p, const char *snap, const char *keep_as)
{
	struct pool_ds *from = snap_find(p, snap), *kept;
	if (from == NULL || !is_newest(p, from)) {
		return from == NULL ? -ENOENT : -EBUSY;
	}
	struct pool_ds *old = from->head;
	quiet_begin(p);
	int err = 0;
	if (keep_as != NULL) {
		err = pool_ds_create(p, keep_as, &kept);
		if (err == 0) {
			fake_ds_copy(kept, old);
			kept->prop_count = 0;
			kept->origin_guid = from->snap_guid;
			pool_ds_close(kept);
		}
	}
	if (err == 0) {
		struct pool_ds *ds = fake_ds_make(p, old->path, old->guid);
		fake_ds_copy(ds, from);
		memcpy(ds->props, old->props, sizeof(ds->props));
		ds->prop_count = old->prop_count;
		/* a number that was used since the snapshot gets a generation never seen */
		for (uint64_t i = 0; i < MIN(old->slot_cap, ds->slot_cap); i++) {
			ds->generations[i] = MAX(old->generations[i], ds->generations[i]);
		}
		ds->incarnation = old->incarnation + 1;
		ds->list_seq = old->list_seq;
		ds->list_ns = old->list_ns;
		ds->origin_guid = old->origin_guid;
		/* the same place in the order of paths */
		list_push_back(&old->link, &ds->link);
		old->destroyed = true;
		snaps_follow(p, old, ds);
		list_changed(ds);
	}
	quiet_end(p);
	if (err == 0 && !p->no_parking) {
		fiber_sleep(rt_random_u64() % (5 * NSEC_PER_MSEC)); /* the txgs it waits for */
	}
	return err;
}

/* ---- a copy of the pool ---- */

void
fake_snaps_clone(struct pool *to, struct pool *from)
{
	list_for_each(it, &from->snaps)
	{
		const struct pool_ds *ds = list_entry(it, struct pool_ds, link);
		if (ds->destroyed || ds->head->destroyed) {
			continue;
		}
		struct pool_ds *copy = fake_ds_make(to, ds->path, ds->guid);
		fake_ds_copy(copy, ds);
		copy->head = fake_ds_find(to, ds->head->path);
		copy->snap_guid = ds->snap_guid;
		copy->create_txg = ds->create_txg;
		memcpy(copy->snap, ds->snap, sizeof(copy->snap));
		list_push_back(&to->snaps, &copy->link);
	}
}
