/*
 * kb_scan.c - which drives has this machine, and is one in use? Read from sysfs and /proc on a
 * helper thread into a list; the caller's found() is called afterwards, in its own fiber.
 *
 * A drive counts as used when it or a partition of it is mounted, swapped to, held by another
 * driver (RAID, device mapper), opened exclusively by somebody, or bears foreign data.
 */
#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>
#include "kernel-bypass/kb_int.h"

#define SCAN_DRIVES_MAX 1024u
#define SCAN_PARTS_MAX 64u
#define SCAN_LINE_MAX 512

struct scan {
	const char *dir;
	struct kb_found *found;
	size_t count;
	size_t cap;
	uint8_t *edges; /* room for both */
	int err;
};

/* A drive and its partitions, as device numbers. */
struct dev_set {
	dev_t devs[SCAN_PARTS_MAX];
	size_t count;
};

static const char *const skipped[] = {"loop", "ram", "zram", "dm-", "md", "sr", "fd", "nbd"};

/* ---- in use? ---- */

static bool
dev_set_has(const struct dev_set *s, dev_t dev)
{
	for (size_t i = 0; i < s->count; i++) {
		if (s->devs[i] == dev) {
			return true;
		}
	}
	return false;
}

static void
dev_set_add(struct dev_set *s, const char *dir)
{
	char text[32];
	unsigned maj;
	unsigned min;

	if (s->count < SCAN_PARTS_MAX && kb_sysfs_read(dir, "dev", text, sizeof(text)) &&
	    sscanf(text, "%u:%u", &maj, &min) == 2) {
		s->devs[s->count++] = makedev(maj, min);
	}
}

static bool
path_in_set(const struct dev_set *s, const char *path)
{
	struct stat st;

	return stat(path, &st) == 0 && S_ISBLK(st.st_mode) && dev_set_has(s, st.st_rdev);
}

/* A line: id parent major:minor root mount-point options [fields] - type source options */
static bool
mount_line_matches(const struct dev_set *s, const char *line, char *out_where, size_t len)
{
	unsigned maj;
	unsigned min;
	char where[256];
	char source[256];

	if (sscanf(line, "%*d %*d %u:%u %*s %255s", &maj, &min, where) != 3) {
		return false;
	}
	const char *rest = strstr(line, " - ");
	bool hit = dev_set_has(s, makedev(maj, min));
	if (!hit && rest != NULL && sscanf(rest, " - %*s %255s", source) == 1) {
		hit = source[0] == '/' && path_in_set(s, source);
	}
	if (hit) {
		snprintf(out_where, len, "mounted at %.100s", where);
	}
	return hit;
}

static bool
used_by_mount(const struct dev_set *s, char *out, size_t len)
{
	char line[SCAN_LINE_MAX];
	FILE *f = fopen("/proc/self/mountinfo", "re");
	bool hit = false;

	if (f == NULL) {
		return false;
	}
	while (!hit && fgets(line, sizeof(line), f) != NULL) {
		hit = mount_line_matches(s, line, out, len);
	}
	fclose(f);
	return hit;
}

static bool
used_by_swap(const struct dev_set *s, char *out, size_t len)
{
	char line[SCAN_LINE_MAX];
	char path[256];
	FILE *f = fopen("/proc/swaps", "re");
	bool hit = false;

	if (f == NULL) {
		return false;
	}
	while (!hit && fgets(line, sizeof(line), f) != NULL) {
		hit = sscanf(line, "%255s", path) == 1 && path[0] == '/' && path_in_set(s, path);
	}
	fclose(f);
	if (hit) {
		snprintf(out, len, "swap");
	}
	return hit;
}

static bool
used_by_holder(const char *dir, char *out, size_t len)
{
	char path[320];
	bool hit = false;

	snprintf(path, sizeof(path), "%s/holders", dir);
	DIR *d = opendir(path);
	if (d == NULL) {
		return false;
	}
	for (struct dirent *e = readdir(d); e != NULL && !hit; e = readdir(d)) {
		if (e->d_name[0] != '.') {
			snprintf(out, len, "held by %.100s", e->d_name);
			hit = true;
		}
	}
	closedir(d);
	return hit;
}

/* Collects the device numbers of dir (/sys/block/NAME) and its partitions; true: a partition is
 * held. */
static bool
collect_parts(const char *dir, struct dev_set *s, char *out, size_t len)
{
	char path[320];
	bool held = used_by_holder(dir, out, len);

	dev_set_add(s, dir);
	DIR *d = opendir(dir);
	if (d == NULL) {
		return held;
	}
	for (struct dirent *e = readdir(d); e != NULL; e = readdir(d)) {
		snprintf(path, sizeof(path), "%.60s/%s", dir, e->d_name);
		if (e->d_name[0] == '.' || kb_sysfs_number(path, "partition") == 0) {
			continue;
		}
		dev_set_add(s, path);
		held = held || used_by_holder(path, out, len);
	}
	closedir(d);
	return held;
}

static bool
used_by_system(const char *dir, char *out, size_t len)
{
	struct dev_set devs = {.count = 0};
	bool held = collect_parts(dir, &devs, out, len);

	return held || used_by_mount(&devs, out, len) || used_by_swap(&devs, out, len);
}

/* O_EXCL on a block device fails while the kernel or somebody else holds it or a part of it. */
static bool
can_open_exclusively(const char *path)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_EXCL);

	if (fd >= 0) {
		close(fd);
	}
	return fd >= 0 || errno != EBUSY;
}

static bool
read_fully(int fd, uint8_t *out, uint64_t off_bytes)
{
	for (size_t done = 0; done < KB_EDGE_BYTES;) {
		ssize_t n = pread(fd, out + done, KB_EDGE_BYTES - done, (off_t)(off_bytes + done));
		if (n <= 0) {
			return false;
		}
		done += (size_t)n;
	}
	return true;
}

static void
used_by_content(struct scan *sc, int fd, struct kb_found *f)
{
	struct kb_edges e = {sc->edges, sc->edges + KB_EDGE_BYTES, f->info.size_bytes};
	char what[sizeof(f->used_by)];

	if (kb_pool_bytes(e.size_bytes) == 0) {
		snprintf(f->used_by, sizeof(f->used_by), "too small");
		return;
	}
	if (!read_fully(fd, sc->edges, 0) ||
	    !read_fully(fd, sc->edges + KB_EDGE_BYTES, e.size_bytes - KB_EDGE_BYTES)) {
		snprintf(f->used_by, sizeof(f->used_by), "cannot be read");
		return;
	}
	if (kb_content_of(&e, what, sizeof(what)) == KB_CONTENT_FOREIGN) {
		snprintf(f->used_by, sizeof(f->used_by), "%s", what);
	}
}

/* ---- the list ---- */

static struct kb_found *
scan_add(struct scan *sc)
{
	if (sc->count == sc->cap) {
		size_t cap = sc->cap == 0 ? 16 : sc->cap * 2;
		struct kb_found *grown = mem_realloc(sc->found, cap * sizeof(*grown));
		if (grown == NULL || cap > SCAN_DRIVES_MAX) {
			sc->err = -ENOMEM;
			return NULL;
		}
		sc->found = grown;
		sc->cap = cap;
	}
	memset(&sc->found[sc->count], 0, sizeof(*sc->found));
	return &sc->found[sc->count++];
}

/* Of two paths to one drive the first stays. */
static bool
scan_is_known(const struct scan *sc, const struct kb_found *f)
{
	for (const struct kb_found *other = sc->found; other < f; other++) {
		if (strcmp(other->info.id, f->info.id) == 0) {
			return true;
		}
	}
	return false;
}

/* A new entry of the list for what is open as fd; NULL, and no entry, when it is no drive or known.
 */
static struct kb_found *
scan_enter(struct scan *sc, const char *path, int fd)
{
	struct kb_found *f = scan_add(sc);
	bool in_memory;

	if (f == NULL) {
		return NULL;
	}
	if (kb_look(path, fd, &f->info, &in_memory) != 0 || scan_is_known(sc, f)) {
		sc->count--;
		return NULL;
	}
	return f;
}

/* A drive that the kernel knows, but that can't be opened: named with what is known without. */
static void
scan_enter_closed(struct scan *sc, const char *path, const char *dir, int err)
{
	struct kb_found *f = err == ENXIO || err == ENOMEDIUM ? NULL : scan_add(sc);
	char text[32];
	unsigned maj;
	unsigned min;

	if (f == NULL) {
		return;
	}
	snprintf(f->info.path, sizeof(f->info.path), "%s", path);
	snprintf(f->used_by, sizeof(f->used_by), "cannot be opened: %s", err_str(err));
	f->info.backend = KB_BACKEND_AIO;
	f->info.size_bytes = ALIGN_DOWN(kb_sysfs_number(dir, "size") * 512, (uint64_t)SECTOR_BYTES);
	if (kb_sysfs_read(dir, "dev", text, sizeof(text)) &&
	    sscanf(text, "%u:%u", &maj, &min) == 2) {
		kb_sysfs_identify(makedev(maj, min), &f->info);
	}
	if (scan_is_known(sc, f)) {
		sc->count--;
	}
}

static bool
name_is_skipped(const char *name)
{
	for (size_t i = 0; i < ARRAY_LEN(skipped); i++) {
		if (strncmp(name, skipped[i], strlen(skipped[i])) == 0) {
			return true;
		}
	}
	return name[0] == '.';
}

static void
scan_device(struct scan *sc, const char *name)
{
	char dir[128];
	char path[128];

	snprintf(dir, sizeof(dir), "/sys/block/%.100s", name);
	snprintf(path, sizeof(path), "/dev/%.100s", name);
	if (kb_sysfs_number(dir, "size") == 0 || kb_sysfs_number(dir, "ro") != 0 ||
	    kb_sysfs_number(dir, "hidden") != 0) {
		return;
	}
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	if (fd < 0) {
		scan_enter_closed(sc, path, dir, errno);
		return;
	}
	struct kb_found *f = scan_enter(sc, path, fd);
	if (f != NULL && !used_by_system(dir, f->used_by, sizeof(f->used_by))) {
		used_by_content(sc, fd, f);
	}
	if (f != NULL && f->used_by[0] == '\0' && !can_open_exclusively(path)) {
		snprintf(f->used_by, sizeof(f->used_by), "in use");
	}
	close(fd);
}

static bool
name_is_image(const char *name)
{
	size_t len = strlen(name);

	return name[0] != '.' && len > 4 &&
	       (strcmp(name + len - 4, ".img") == 0 || strcmp(name + len - 4, ".raw") == 0);
}

static void
scan_image(struct scan *sc, const char *name)
{
	char path[256];
	struct stat st;

	if (snprintf(path, sizeof(path), "%s/%s", sc->dir, name) >= (int)sizeof(path) ||
	    stat(path, &st) != 0 || !S_ISREG(st.st_mode)) {
		return;
	}
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	if (fd < 0) {
		return;
	}
	struct kb_found *f = scan_enter(sc, path, fd);
	if (f != NULL) {
		used_by_content(sc, fd, f);
	}
	close(fd);
}

static int
by_name(const struct dirent **a, const struct dirent **b)
{
	return strverscmp((*a)->d_name, (*b)->d_name);
}

static void
scan_blocking(void *arg)
{
	struct scan *sc = arg;
	struct dirent **names;
	int n = scandir(sc->dir != NULL ? sc->dir : "/sys/block", &names, NULL, by_name);

	if (n < 0) {
		sc->err = -errno;
		return;
	}
	for (int i = 0; i < n; i++) {
		const char *name = names[i]->d_name;
		if (sc->dir != NULL && name_is_image(name)) {
			scan_image(sc, name);
		} else if (sc->dir == NULL && !name_is_skipped(name)) {
			scan_device(sc, name);
		}
		free(names[i]);
	}
	free(names);
}

int
kb_scan(const char *dir, void (*found)(void *arg, const struct kb_found *f), void *arg)
{
	struct scan sc = {.dir = dir};

	sc.edges = mem_zalloc(2 * KB_EDGE_BYTES);
	if (sc.edges == NULL) {
		return -ENOMEM;
	}
	offload(scan_blocking, &sc);
	for (size_t i = 0; sc.err == 0 && i < sc.count; i++) {
		found(arg, &sc.found[i]);
	}
	mem_free(sc.found);
	mem_free(sc.edges);
	return sc.err;
}
