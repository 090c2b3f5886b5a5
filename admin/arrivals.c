/*
 * arrivals.c - pools whose drives turn up while the daemon runs: slow enumeration, drives plugged
 * in, image files copied into their folder. A look compares names and sizes of what is there with
 * the last look. After a change, pools with all their drives are taken up at once; one that could
 * serve without some of them waits until nothing has come for SETTLE_NS, since each drive that is
 * left out has to be brought up to date later.
 */
#include <dirent.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <xxhash.h>
#include "admin/admin_int.h"

#define LOOK_NS (2 * NSEC_PER_SEC)
#define SETTLE_NS (10 * NSEC_PER_SEC)
#define BLOCK_DEVICES "/sys/block"

struct census {
	const char *dir;
	bool files; /* image files, else block devices */
	uint64_t sum;
};

static uint64_t
census_device_size(const char *name)
{
	char path[512];
	unsigned long long sectors = 0;
	(void)snprintf(path, sizeof(path), BLOCK_DEVICES "/%s/size", name);
	FILE *f = fopen(path, "re");
	if (f != NULL) {
		if (fscanf(f, "%llu", &sectors) != 1) {
			sectors = 0;
		}
		(void)fclose(f);
	}
	return sectors;
}

/* Could it be a drive? Other files of the folder may change all the time. */
static bool
census_counts(const struct census *c, const char *name)
{
	const char *end = strrchr(name, '.');
	if (c->files) {
		return end != NULL && (strcmp(end, ".img") == 0 || strcmp(end, ".raw") == 0);
	}
	return name[0] != '.' && strncmp(name, "loop", 4) != 0 && strncmp(name, "ram", 3) != 0;
}

/* On a helper thread. The order of a folder says nothing, so the entries are added up. */
static void
census_take(void *arg)
{
	struct census *c = arg;
	DIR *d = opendir(c->dir);
	const struct dirent *entry;
	c->sum = 0;
	while (d != NULL && (entry = readdir(d)) != NULL) {
		struct stat st;
		uint64_t size = 0;
		if (!census_counts(c, entry->d_name)) {
			continue;
		}
		if (!c->files) {
			size = census_device_size(entry->d_name);
		} else if (fstatat(dirfd(d), entry->d_name, &st, 0) == 0) {
			size = (uint64_t)st.st_size;
		}
		c->sum += XXH3_64bits_withSeed(entry->d_name, strlen(entry->d_name), size);
	}
	if (d != NULL) {
		(void)closedir(d);
	}
}

static uint64_t
census(struct adm *a)
{
	bool files = a->cfg->drives_dir[0] != '\0';
	struct census c = {.dir = files ? a->cfg->drives_dir : BLOCK_DEVICES, .files = files};
	offload(census_take, &c);
	return c.sum;
}

void
arrivals_begin(struct adm *a)
{
	a->arrivals.drives = census(a);
}

void
arrivals_expect(struct adm *a)
{
	atomic_store(&a->arrivals.anew, true);
}

void
arrivals_look(struct adm *a)
{
	struct adm_arrivals *r = &a->arrivals;
	uint64_t now = rt_now_ns();
	if (!a->cfg->import_auto || a->safe_mode || now - r->looked_ns < LOOK_NS) {
		return;
	}
	r->looked_ns = now;
	uint64_t drives = census(a);
	if (drives != r->drives || atomic_exchange(&r->anew, false)) {
		r->drives = drives;
		r->changed_ns = now;
	}
	if (r->changed_ns == 0) {
		return;
	}
	bool settled = now - r->changed_ns >= SETTLE_NS;
	rwlock_wrlock(&a->lock);
	imports_auto(a, settled ? IMPORTS_SETTLED : IMPORTS_COMPLETE);
	rwlock_wrunlock(&a->lock);
	if (settled) {
		r->changed_ns = 0;
	}
}
