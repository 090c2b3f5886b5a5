/*
 * drives.c - names of drives to open drives. Descriptors come from the parent; what is mounted,
 * swapped on or part of something else is refused by kb_open and kb_scan.
 */
#include <stdio.h>
#include <unistd.h>
#include "admin/vfio.h"

#define DRIVES_MAX 1024u

static void
drives_collect(void *arg, const struct kb_found *f)
{
	struct drive_list *l = arg;
	if (l->count == DRIVES_MAX) {
		return;
	}
	struct kb_found *larger = mem_realloc(l->found, (l->count + 1) * sizeof(*larger));
	if (larger == NULL) {
		l->no_memory = true;
		return;
	}
	l->found = larger;
	l->found[l->count++] = *f;
}

int
drives_scan(struct adm *a, struct drive_list *out)
{
	*out = (struct drive_list){0};
	const char *dir = a->cfg->drives_dir[0] != '\0' ? a->cfg->drives_dir : NULL;
	int err = kb_scan(dir, drives_collect, out);
	if (err == 0 && dir == NULL) {
		vfio_scan(a, drives_collect, out);
	}
	if (err == 0 && out->no_memory) {
		err = -ENOMEM;
	}
	if (err != 0) {
		mem_free(out->found);
		*out = (struct drive_list){0};
	}
	return err;
}

int
drives_open_path(struct adm *a, const char *path, struct kb_drive **out)
{
	int fd, err;
	if (strncmp(path, "pci:", 4) == 0) {
		err = vfio_open(a, path, out);
	} else {
		err = parent_open(a, path, &fd);
		err = err != 0 ? err : kb_open(path, fd, true, out);
	}
	return err != 0 ? err : inject_open(a, *out);
}

int
drives_match(const struct kb_info *info, const char *name)
{
	const char *base = strrchr(info->path, '/');
	base = base != NULL ? base + 1 : info->path;
	size_t stem = strcspn(base, ".");
	if (strcmp(info->path, name) == 0 || strcmp(base, name) == 0 ||
	    strcmp(info->serial, name) == 0 || strcmp(info->id, name) == 0) {
		return 2;
	}
	return strlen(name) == stem && strncmp(base, name, stem) == 0 ? 1 : 0;
}

/* A path, a file of the image directory, a device, a serial or a WWN. found->info.path is where it
 * is; a path that no scan shows is taken as it stands. -ENOTUNIQ: fits several. */
int
drives_resolve(struct adm *a, const char *name, struct kb_found *found)
{
	struct drive_list l;
	int best = 0, err = drives_scan(a, &l);
	if (err != 0) {
		return err;
	}
	err = -ENOENT;
	for (uint32_t i = 0; i < l.count; i++) {
		int match = drives_match(&l.found[i].info, name);
		if (match > best) {
			best = match;
			*found = l.found[i];
			err = 0;
		} else if (match != 0 && match == best) {
			err = -ENOTUNIQ;
		}
	}
	mem_free(l.found);
	if (err == -ENOENT && name[0] == '/') {
		*found = (struct kb_found){0};
		int n = snprintf(found->info.path, sizeof(found->info.path), "%s", name);
		err = n < (int)sizeof(found->info.path) ? 0 : -ENAMETOOLONG;
	}
	return err;
}

/* A device that no scan shows is a partition, or a part of something else. */
static int
drives_open_found(struct adm *a, const char *name, const struct kb_found *f, bool force,
    struct kb_drive **out, struct adm_error *e)
{
	struct kb_info info;
	if (f->used_by[0] != '\0' && !force) {
		adm_fail_next(e, "If nobody needs what is on it, add -f.");
		return adm_fail(e, EBUSY, "drive '%.200s' is in use: %s", name, f->used_by);
	}
	int err = drives_open_path(a, f->info.path, out);
	if (err != 0) {
		return err;
	}
	kb_get_info(*out, &info);
	if (f->info.size_bytes == 0 && info.backend != KB_BACKEND_FILE) {
		kb_close(*out);
		*out = NULL;
		return -ENOTBLK;
	}
	return 0;
}

int
drives_open(struct adm *a, const char *name, bool force, struct kb_drive **out, struct adm_error *e)
{
	struct kb_found *f = mem_zalloc(sizeof(*f));
	if (f == NULL) {
		return adm_fail(e, ENOMEM, "out of memory");
	}
	int err = drives_resolve(a, name, f);
	if (err == 0) {
		err = drives_open_found(a, name, f, force, out, e);
	}
	mem_free(f);
	if (err == 0 || e->code != 0) {
		return err;
	}
	adm_fail_next(e, "'disk list' shows the drives of this machine.");
	switch (err) {
	case -ENOENT:
		return adm_fail(e, err, "there is no drive '%.200s'", name);
	case -ENOTUNIQ:
		return adm_fail(e, err, "several drives are named '%.200s'", name);
	case -ENOTBLK:
		return adm_fail(e, err, "'%.200s' is no whole drive of this machine", name);
	default:
		return adm_fail(e, err, "drive '%.200s' can't be opened: %s", name, err_str(err));
	}
}

int
drives_open_all(struct adm *a, struct kb_drive ***out, uint32_t *out_count)
{
	struct drive_list l;
	int err = drives_scan(a, &l);
	if (err != 0) {
		return err;
	}
	struct kb_drive **drives = mem_zalloc_array(MAX(l.count, 1u), sizeof(struct kb_drive *));
	uint32_t count = 0;
	for (uint32_t i = 0; drives != NULL && i < l.count; i++) {
		if (l.found[i].used_by[0] != '\0' ||
		    drives_in_service(a, l.found[i].info.id, NULL)) {
			continue;
		}
		int one = drives_open_path(a, l.found[i].info.path, &drives[count]);
		if (one == 0) {
			count++;
		} else {
			log_warn("drive-not-opened path=%s reason=%s", l.found[i].info.path,
			    err_str(one));
		}
	}
	mem_free(l.found);
	if (drives == NULL) {
		return -ENOMEM;
	}
	*out = drives;
	*out_count = count;
	return 0;
}

/* Spares don't count: pools share them. */
bool
drives_in_service(struct adm *a, const char *id, const char **out_pool)
{
	for (uint32_t p = 0; p < a->pool_count; p++) {
		struct pool_status st;
		bool found = false;
		if (pool_get_status(a->pools[p].pool, &st) != 0) {
			continue;
		}
		for (uint32_t i = 0; i < st.drive_count; i++) {
			found = found ||
				(st.drives[i].present && st.drives[i].role != DRIVE_ROLE_SPARE &&
				    strcmp(st.drives[i].id, id) == 0);
		}
		pool_status_free(&st);
		if (found) {
			if (out_pool != NULL) {
				*out_pool = pool_name(a->pools[p].pool);
			}
			return true;
		}
	}
	return false;
}

/* Is it a spare of a pool in service? */
static bool
drives_is_spare(struct adm *a, const char *id)
{
	for (uint32_t p = 0; p < a->pool_count; p++) {
		struct pool_status st;
		bool found = false;
		if (pool_get_status(a->pools[p].pool, &st) != 0) {
			continue;
		}
		for (uint32_t i = 0; i < st.drive_count && !found; i++) {
			found = st.drives[i].role == DRIVE_ROLE_SPARE &&
				strcmp(st.drives[i].id, id) == 0;
		}
		pool_status_free(&st);
		if (found) {
			return true;
		}
	}
	return false;
}

/* What is on it, and may it go? */
static int
drives_check_content(struct kb_drive *d, bool as_spare, bool force, struct adm_error *e)
{
	enum kb_content content;
	char what[128];
	struct pool_label_info label;
	int err = kb_gpt_probe(d, &content, what, sizeof(what));
	if (err != 0) {
		return adm_fail(e, err, "drive %s can't be read: %s", kb_path(d), err_str(err));
	}
	if (force) {
		return 0;
	}
	if (content == KB_CONTENT_FOREIGN) {
		adm_fail_next(e, "If nobody needs what is on it, add -f.");
		return adm_fail(e, EEXIST, "drive %s isn't empty: %s", kb_path(d), what);
	}
	if (content != KB_CONTENT_OURS || pool_label_probe(d, &label) != 0) {
		return 0;
	}
	if (label.role == DRIVE_ROLE_SPARE && !as_spare) {
		adm_fail_next(e, "If no pool counts on it, add -f.");
		return adm_fail(e, EEXIST, "drive %s is a spare", kb_path(d));
	}
	if (label.role != DRIVE_ROLE_SPARE) {
		adm_fail_next(e, "'pool import' lists it; if nobody needs it, add -f.");
		return adm_fail(
		    e, EEXIST, "drive %s belongs to pool '%s'", kb_path(d), label.pool_name);
	}
	return 0;
}

int
drives_check_free(struct adm *a, struct kb_drive *d, bool as_spare, bool force, struct adm_error *e)
{
	const char *pool = NULL;
	if (drives_in_service(a, kb_id(d), &pool)) {
		return adm_fail(e, EBUSY, "drive %s is in use by pool '%s'", kb_path(d), pool);
	}
	if (!as_spare && drives_is_spare(a, kb_id(d))) {
		return adm_fail(e, EBUSY, "drive %s is a spare of a pool in service", kb_path(d));
	}
	return drives_check_content(d, as_spare, force, e);
}

/* ---- disk list ---- */

static const char *
drives_backend_name(enum kb_backend b)
{
	switch (b) {
	case KB_BACKEND_AIO:
		return "kernel";
	case KB_BACKEND_FILE:
		return "file";
	case KB_BACKEND_SIM:
		return "simulated";
	case KB_BACKEND_NVME:
		return "nvme";
	}
	return "unknown";
}

/* What a drive that no pool in service has is used for. */
static void
drives_describe(struct adm *a, const struct kb_found *f, char *out, size_t len)
{
	struct kb_drive *d;
	struct pool_label_info label;
	enum kb_content content;
	char what[128];
	if (f->used_by[0] != '\0') {
		snprintf(out, len, "%s", f->used_by);
		return;
	}
	out[0] = '\0';
	if (drives_open_path(a, f->info.path, &d) != 0) {
		snprintf(out, len, "can't be opened");
		return;
	}
	if (kb_gpt_probe(d, &content, what, sizeof(what)) != 0) {
		snprintf(out, len, "can't be read");
	} else if (content == KB_CONTENT_FOREIGN) {
		snprintf(out, len, "%s", what);
	} else if (pool_label_probe(d, &label) == 0) {
		if (label.role == DRIVE_ROLE_SPARE) {
			snprintf(out, len, "spare");
		} else {
			snprintf(out, len, "pool %s, not imported", label.pool_name);
		}
	}
	kb_close(d);
}

static int
disk_list(struct adm *a, json_t *args, json_t **out, struct adm_error *e)
{
	struct drive_list l;
	(void)args;
	int err = drives_scan(a, &l);
	if (err != 0) {
		return adm_fail(e, err, "the drives can't be listed: %s", err_str(err));
	}
	json_t *list = json_array();
	struct kb_pci *functions;
	uint32_t function_count = vfio_functions(&functions);
	for (uint32_t i = 0; i < l.count; i++) {
		const struct kb_info *info = &l.found[i].info;
		const char *pool = NULL;
		char use[160], fault[160] = "";
		if (drives_in_service(a, info->id, &pool)) {
			snprintf(use, sizeof(use), "pool %s", pool);
		} else if (drives_is_spare(a, info->id)) {
			snprintf(use, sizeof(use), "spare");
		} else {
			drives_describe(a, &l.found[i], use, sizeof(use));
		}
		(void)inject_text(a, info->id, fault, sizeof(fault));
		json_array_append_new(list,
		    json_pack("{s:o, s:o, s:o, s:o, s:I, s:i, s:s, s:b, s:o, s:o, s:s}", "path",
			adm_text(info->path), "id", adm_text(info->id), "model",
			adm_text(info->model), "serial", adm_text(info->serial), "size",
			(json_int_t)info->size_bytes, "sector", (int)info->physical_sector_bytes,
			"driver", drives_backend_name(info->backend), "volatile_cache",
			info->volatile_cache, "use", adm_text(use), "note",
			adm_text(vfio_note(functions, function_count, info->path)), "injected",
			fault));
		json_object_set_new(json_array_get(list, json_array_size(list) - 1), "optimal",
		    json_integer(info->optimal_io_bytes));
		json_object_set_new(json_array_get(list, json_array_size(list) - 1),
		    "logical_sector", json_integer(info->logical_sector_bytes));
	}
	mem_free(functions);
	mem_free(l.found);
	*out = list;
	return 0;
}

/* ---- system ---- */

static int
system_status(struct adm *a, json_t *args, json_t **out, struct adm_error *e)
{
	uint16_t nfs, mount, portmap;
	struct nfsd_counters c;
	struct arena_info arena;
	(void)args;
	(void)e;
	nfsd_ports(a->nfsd, &nfs, &mount, &portmap);
	nfsd_get_counters(a->nfsd, &c);
	arena_get_info(&arena);
	uint64_t calls = 0, used = 0;
	for (size_t i = 0; i < ARRAY_LEN(c.proc_calls); i++) {
		calls += c.proc_calls[i];
	}
	for (unsigned i = 0; i < ARENA_USES; i++) {
		used += arena.used_bytes[i];
	}
	*out = json_pack("{s:s, s:i, s:I, s:b, s:i, s:i, s:i, s:i, s:I, s:I, s:I, s:I, s:I, s:i}",
	    "host", a->host_name, "pid", (int)getpid(), "uptime_s",
	    (json_int_t)((rt_now_ns() - a->started_ns) / NSEC_PER_SEC), "safe_mode", a->safe_mode,
	    "nfs_port", nfs, "mount_port", mount, "portmap_port", portmap, "pools",
	    (int)a->pool_count, "connections", (json_int_t)c.connections, "nfs_calls",
	    (json_int_t)calls, "duplicate_hits", (json_int_t)c.drc_hits, "memory",
	    (json_int_t)arena.size_bytes, "memory_used", (json_int_t)used, "reactors",
	    (int)rt_reactor_count());
	return 0;
}

const struct adm_command adm_system_commands[] = {
    {"disk list", disk_list, ADM_LOOK_PRIVILEGED},
    {"system status", system_status, ADM_LOOK},
    {NULL, NULL, ADM_LOOK},
};
