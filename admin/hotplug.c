/*
 * hotplug.c - drives that vanish and come back while pools are in service.
 *
 * The directory where they appear (/dev, or the one of images) is watched. When it changes, every
 * pool asks its drives whether they are there, and what no pool in service has is looked at: a
 * drive whose label a pool misses returns to it; an empty one in the place of a lost one replaces
 * it, where autoreplace says so. Drives without a file there (NVMe drives of our own) are looked
 * for every few seconds while a pool misses one.
 */
#include <stdio.h>
#include <sys/epoll.h>
#include <sys/inotify.h>
#include <unistd.h>
#include "admin/admin_int.h"

struct adm_watch {
	struct rt_fdwatch fd;
	struct adm *a;
	atomic_bool changed;
};

static void
watch_ready(struct rt_fdwatch *w, uint32_t events)
{
	struct adm_watch *watch = container_of(w, struct adm_watch, fd);
	char buf[1024];
	(void)events;
	/* what changed doesn't matter: everything is looked at */
	while (read(w->fd, buf, sizeof(buf)) > 0) {
		atomic_store(&watch->changed, true);
	}
}

int
hotplug_watch(struct adm *a)
{
	struct adm_watch *w = mem_zalloc(sizeof(*w));
	const char *dir = a->cfg->drives_dir[0] != '\0' ? a->cfg->drives_dir : "/dev";
	if (w == NULL) {
		return -ENOMEM;
	}
	w->fd = (struct rt_fdwatch){
	    .fd = inotify_init1(IN_NONBLOCK | IN_CLOEXEC), .events = EPOLLIN, .ready = watch_ready};
	int err = w->fd.fd < 0 ? -errno : 0;
	if (err == 0 &&
	    inotify_add_watch(w->fd.fd, dir,
		IN_CREATE | IN_DELETE | IN_MOVED_FROM | IN_MOVED_TO | IN_CLOSE_WRITE) < 0) {
		err = -errno;
	}
	if (err == 0) {
		err = rt_fdwatch_add(&w->fd);
	}
	if (err != 0) {
		if (w->fd.fd >= 0) {
			close(w->fd.fd);
		}
		mem_free(w);
		return err;
	}
	a->watch = w;
	return 0;
}

void
hotplug_unwatch(struct adm *a)
{
	if (a->watch != NULL) {
		rt_fdwatch_remove(&a->watch->fd);
		close(a->watch->fd.fd);
		mem_free(a->watch);
		a->watch = NULL;
	}
}

bool
hotplug_changed(struct adm *a)
{
	return a->watch != NULL && atomic_exchange(&a->watch->changed, false);
}

void
hotplug_poke(struct adm *a)
{
	if (a->watch != NULL) {
		atomic_store(&a->watch->changed, true);
	}
}

static bool
member_is_missing(const struct pool_drive_status *d)
{
	return !d->present && d->state != DRIVE_STATE_OFFLINE;
}

bool
hotplug_is_missing(struct adm *a)
{
	bool missing = false;
	for (uint32_t p = 0; p < a->pool_count; p++) {
		struct pool_status st;
		if (pool_get_status(a->pools[p].pool, &st) != 0) {
			continue;
		}
		for (uint32_t i = 0; i < st.drive_count; i++) {
			missing = missing || member_is_missing(&st.drives[i]);
		}
		pool_status_free(&st);
	}
	return missing;
}

/* ---- one drive that no pool in service has ---- */

static bool
guid_same(const struct guid *x, const struct guid *y)
{
	return memcmp(x, y, sizeof(*x)) == 0;
}

/* A member that the pool misses, as the label says. */
static bool
pool_misses(struct pool *p, const struct pool_label_info *label)
{
	struct pool_status st;
	bool misses = false;
	if (pool_get_status(p, &st) != 0) {
		return false;
	}
	for (uint32_t i = 0; i < st.drive_count; i++) {
		const struct pool_drive_status *d = &st.drives[i];
		misses = misses || (guid_same(&d->guid, &label->drive_guid) && !d->present);
	}
	pool_status_free(&st);
	return misses;
}

/* Each pool that misses it has it opened for itself: spares are shared. */
static void
give_back(struct adm *a, const char *path, const struct pool_label_info *label)
{
	for (uint32_t i = 0; i < a->pool_count; i++) {
		struct pool *p = a->pools[i].pool;
		struct kb_drive *d;
		if (!pool_misses(p, label) || drives_open_path(a, path, &d) != 0) {
			continue;
		}
		int err = pool_drive_return(p, d);
		if (err != 0) {
			log_warn("drive-not-taken-back pool=%s path=%s reason=%s", pool_name(p),
			    path, err_str(err));
			kb_close(d);
		}
	}
}

/* The data drive that the pool misses at this place. */
static bool
lost_at(struct pool *p, const char *path, struct guid *out)
{
	struct pool_status st;
	bool found = false;
	if (pool_get_status(p, &st) != 0) {
		return false;
	}
	for (uint32_t i = 0; i < st.drive_count; i++) {
		const struct pool_drive_status *d = &st.drives[i];
		if (d->role == DRIVE_ROLE_DATA && !d->twin && !d->present &&
		    strcmp(d->path, path) == 0) {
			*out = d->guid;
			found = true;
		}
	}
	pool_status_free(&st);
	return found;
}

/* True: the pool owns d. */
static bool
autoreplace(struct adm *a, struct kb_drive *d)
{
	for (uint32_t i = 0; i < a->pool_count; i++) {
		struct adm_pool *ap = &a->pools[i];
		char why[256];
		struct guid lost;
		if (!props_is(ap, "autoreplace", "on") || !lost_at(ap->pool, kb_path(d), &lost)) {
			continue;
		}
		int err = kb_claim(d, false);
		err = err != 0 ? err : pool_drive_replace(ap->pool, &lost, d, why, sizeof(why));
		if (err == 0) {
			diary_add(ap, DIARY_HISTORY, "agated", "pool replace",
			    "autoreplace: an empty drive in a lost one's place");
			return true;
		}
		log_warn("drive-not-replaced pool=%s path=%s reason=%s", pool_name(ap->pool),
		    kb_path(d), err_str(err));
	}
	return false;
}

static void
look_at(struct adm *a, const struct kb_found *f)
{
	struct pool_label_info label;
	enum kb_content content;
	char what[128];
	struct kb_drive *d;
	if (f->used_by[0] != '\0' || drives_in_service(a, f->info.id, NULL) ||
	    drives_open_path(a, f->info.path, &d) != 0) {
		return;
	}
	int err = pool_label_probe(d, &label);
	if (err == -ENOENT && kb_gpt_probe(d, &content, what, sizeof(what)) == 0 &&
	    content == KB_CONTENT_BLANK && autoreplace(a, d)) {
		return;
	}
	kb_close(d);
	if (err == 0) {
		give_back(a, f->info.path, &label);
	}
}

void
hotplug_take(struct adm *a)
{
	struct drive_list l;
	int err = drives_scan(a, &l);
	if (err != 0) {
		log_warn("drives-not-scanned reason=%s", err_str(err));
		return;
	}
	for (uint32_t i = 0; i < l.count; i++) {
		look_at(a, &l.found[i]);
	}
	mem_free(l.found);
}
