/* durable_check.c - plays a worker's journal and compares its directory with the model. */
#include <fcntl.h>
#include <unistd.h>
#include "tests/system/durable.h"

struct check {
	struct nfs_context *nfs;
	const char *dir;
	unsigned worker;
	bool quiet; /* trying an outcome: count, don't tell */
	struct verdict *v;
};

static void complain(struct check *c, bool lost, const char *fmt, ...) PRINTF_LIKE(3, 4);
static void
complain(struct check *c, bool lost, const char *fmt, ...)
{
	va_list ap;
	if (lost) {
		c->v->lost++;
	} else {
		c->v->wrong++;
	}
	if (!c->quiet) {
		printf("%s: worker %u: ", lost ? "LOST" : "WRONG", c->worker);
		va_start(ap, fmt);
		vprintf(fmt, ap);
		va_end(ap);
		putchar('\n');
	}
}

static bool
among(const struct choices *set, uint64_t value)
{
	for (uint32_t i = 0; i < set->count; i++) {
		if (set->of[i] == value) {
			return true;
		}
	}
	return false;
}

static bool
older_than_all(const struct choices *set, uint64_t value)
{
	for (uint32_t i = 0; i < set->count; i++) {
		if (value >= set->of[i]) {
			return false;
		}
	}
	return true;
}

static void
check_cells(struct check *c, const struct file *f, const char *path, uint64_t cells)
{
	static uint8_t data[CELLS_MAX * CELL_BYTES];
	struct nfsfh *fh;
	client_must(c->nfs, nfs_open(c->nfs, path, O_RDONLY, &fh), "open", path);
	for (uint64_t at = 0; at < cells * CELL_BYTES;) {
		int n = nfs_pread(c->nfs, fh, at, cells * CELL_BYTES - at, data + at);
		client_must(c->nfs, n, "read", path);
		if (n == 0) {
			die("%s is shorter than it said", path);
		}
		at += (uint64_t)n;
	}
	client_must(c->nfs, nfs_close(c->nfs, fh), "close", path);
	for (uint32_t i = 0; i < cells; i++) {
		uint64_t version = cell_version(data + (size_t)i * CELL_BYTES, c->worker, i);
		if (!among(&f->cell[i], version)) {
			complain(c, version != UINT64_MAX && older_than_all(&f->cell[i], version),
			    "%s: cell %u has version %lld; the newest acknowledged one is %llu",
			    path, i, (long long)version, (unsigned long long)f->cell[i].of[0]);
		}
	}
}

static void
check_file(struct check *c, const struct model *m, unsigned slot)
{
	const struct file *f = &m->file[slot];
	struct nfs_stat_64 st;
	char path[512];
	if (!f->exists) {
		return; /* the listing shows names that shouldn't be */
	}
	path_file(path, sizeof(path), c->dir, c->worker, slot, f->name);
	int err = nfs_lstat64(c->nfs, path, &st);
	if (err == -ENOENT) {
		complain(c, true, "%s isn't there", path);
		return;
	}
	client_must(c->nfs, err, "lstat", path);
	uint64_t cells = st.nfs_size / CELL_BYTES;
	if (st.nfs_size % CELL_BYTES != 0 || cells > CELLS_MAX || !among(&f->cells_count, cells)) {
		complain(c, older_than_all(&f->cells_count, cells),
		    "%s: %llu bytes; expected %llu cells", path, (unsigned long long)st.nfs_size,
		    (unsigned long long)f->cells_count.of[0]);
		return;
	}
	check_cells(c, f, path, cells);
}

static bool
model_has(const struct model *m, unsigned slot, uint32_t name)
{
	return slot < SLOTS && m->file[slot].exists && m->file[slot].name == name;
}

/* Every name listed belongs there, and comes once. */
static void
check_names(struct check *c, const struct model *m)
{
	char path[512];
	struct nfsdir *dir;
	struct nfsdirent *e;
	unsigned seen[SLOTS] = {0};
	path_dir(path, sizeof(path), c->dir, c->worker);
	client_must(c->nfs, nfs_opendir(c->nfs, path, &dir), "opendir", path);
	while ((e = nfs_readdir(c->nfs, dir)) != NULL) {
		unsigned slot, name;
		if (strcmp(e->name, ".") == 0 || strcmp(e->name, "..") == 0) {
			continue;
		}
		if (sscanf(e->name, "slot %u name %u", &slot, &name) != 2) {
			complain(c, false, "%s: '%s' was never made", path, e->name);
		} else if (!model_has(m, slot, name)) {
			complain(c, true, "%s: '%s' should be gone", path, e->name);
		} else if (seen[slot]++ != 0) {
			complain(c, false, "%s: '%s' is listed twice", path, e->name);
		}
	}
	nfs_closedir(c->nfs, dir);
	for (unsigned i = 0; i < SLOTS; i++) {
		if (m->file[i].exists && seen[i] == 0) {
			complain(c, true, "%s: slot %u isn't listed", path, i);
		}
	}
}

static void
check_model(struct check *c, const struct model *m)
{
	for (unsigned i = 0; i < SLOTS; i++) {
		check_file(c, m, i);
	}
	check_names(c, m);
}

static bool
holds(struct check *c, const struct model *m)
{
	struct verdict before = *c->v, after;
	c->quiet = true;
	check_model(c, m);
	c->quiet = false;
	after = *c->v;
	*c->v = before;
	return after.lost == before.lost && after.wrong == before.wrong;
}

bool
journal_play(
    const char *journal, unsigned worker, struct model *m, struct note *pending, struct verdict *v)
{
	char path[512];
	struct note n;
	bool open = false;
	snprintf(path, sizeof(path), "%s.%u", journal, worker);
	FILE *f = fopen(path, "re");
	if (f == NULL) {
		die("%s: %s", path, strerror(errno));
	}
	memset(m, 0, sizeof(*m));
	while (fread(&n, sizeof(n), 1, f) == 1) {
		if (!note_good(&n) || (n.kind == KIND_ACK) != open) {
			die("%s: no journal", path);
		}
		open = n.kind == KIND_INTENT;
		if (open) {
			v->begun++;
			*pending = n;
		} else {
			model_apply(m, pending);
			v->acknowledged++;
		}
	}
	fclose(f);
	return open;
}

void
check_worker(struct nfs_context *nfs, const char *journal, const char *dir, unsigned worker,
    struct verdict *v)
{
	static struct model m, after;
	struct note pending;
	struct check c = {nfs, dir, worker, false, v};
	if (journal_play(journal, worker, &m, &pending, v) && !model_blur(&m, &pending)) {
		after = m;
		model_apply(&after, &pending);
		if (holds(&c, &after)) {
			return;
		}
	}
	check_model(&c, &m);
}
