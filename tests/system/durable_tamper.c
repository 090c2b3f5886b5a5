/* durable_tamper.c - changes what a worker left without a note, so that a check has to complain. */
#include <fcntl.h>
#include "tests/system/durable.h"

static const char *const kinds[] = {
    "flip", "older", "zero", "cut", "grow", "remove", "rename", "extra"};

/* A file of certain size with a cell of certain content behind its first: that cell. */
static uint32_t
tamper_victim(const struct model *m, unsigned *out_slot)
{
	for (unsigned i = 0; i < SLOTS; i++) {
		const struct file *f = &m->file[i];
		for (uint32_t k = 1;
		     f->exists && f->cells_count.count == 1 && k < f->cells_count.of[0]; k++) {
			if (f->cell[k].count == 1 && f->cell[k].of[0] > 1) {
				*out_slot = i;
				return k;
			}
		}
	}
	die("no file to tamper with");
}

static void
tamper_cell(struct nfs_context *nfs, const char *path, uint32_t at, const char *kind)
{
	uint8_t cell[CELL_BYTES];
	struct nfsfh *fh;
	client_must(nfs, nfs_open(nfs, path, O_RDWR, &fh), "open", path);
	client_must(
	    nfs, nfs_pread(nfs, fh, (uint64_t)at * CELL_BYTES, CELL_BYTES, cell), "read", path);
	if (strcmp(kind, "flip") == 0) {
		cell[777] ^= 1;
	} else if (strcmp(kind, "older") == 0) {
		cell_fill(cell, 0, at, cell_version(cell, 0, at) - 1);
	} else {
		memset(cell, 0, sizeof(cell));
	}
	client_must(
	    nfs, nfs_pwrite(nfs, fh, (uint64_t)at * CELL_BYTES, CELL_BYTES, cell), "write", path);
	client_must(nfs, nfs_close(nfs, fh), "close", path);
}

void
tamper(struct nfs_context *nfs, const char *journal, const char *dir, const char *kind)
{
	static struct model m;
	char path[512], other[600];
	struct verdict v = {0};
	struct note pending;
	struct nfsfh *fh;
	(void)journal_play(journal, 0, &m, &pending, &v);
	unsigned slot;
	uint32_t cell = tamper_victim(&m, &slot);
	path_file(path, sizeof(path), dir, 0, slot, m.file[slot].name);
	uint64_t bytes = m.file[slot].cells_count.of[0] * CELL_BYTES;
	snprintf(other, sizeof(other), "%s7777", path);
	if (strcmp(kind, "cut") == 0) {
		client_must(nfs, nfs_truncate(nfs, path, bytes - CELL_BYTES), "truncate", path);
	} else if (strcmp(kind, "grow") == 0) {
		client_must(nfs, nfs_truncate(nfs, path, bytes + CELL_BYTES), "truncate", path);
	} else if (strcmp(kind, "remove") == 0) {
		client_must(nfs, nfs_unlink(nfs, path), "unlink", path);
	} else if (strcmp(kind, "rename") == 0) {
		client_must(nfs, nfs_rename(nfs, path, other), "rename", path);
	} else if (strcmp(kind, "extra") == 0) {
		client_must(nfs, nfs_creat(nfs, other, 0644, &fh), "create", other);
		client_must(nfs, nfs_close(nfs, fh), "close", other);
	} else {
		tamper_cell(nfs, path, cell, kind);
	}
}

const char *
tamper_kind(unsigned index)
{
	return index < ARRAY_LEN(kinds) ? kinds[index] : NULL;
}
