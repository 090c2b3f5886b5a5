/*
 * durable.h - the durability checker: clients that note every change before they ask for it and
 * every acknowledgement after it came, and a check that plays those notes and compares.
 *
 * A worker has a directory, some slots in it, and one file at most in each. A file is a row of
 * cells of 4 KiB; each cell says who wrote it and as which version. At most one change of a worker
 * is under way, so that for every name, size and cell the set of right answers is known: usually
 * one, more for data written UNSTABLE and not committed, and for the one change that was never
 * answered.
 *
 * LOST: what was acknowledged isn't there. WRONG: what no order of events explains.
 */
#ifndef AGATE_TESTS_DURABLE_H
#define AGATE_TESTS_DURABLE_H

#include <stdbool.h>
#include <stdint.h>
#include "tests/lib/libnfs_client.h"

#define CELL_BYTES 4096u
#define CELLS_MAX 24u
#define SLOTS 16u
#define CHOICES_MAX 12u
#define WRITE_CELLS_MAX 4u
#define UNCOMMITTED_MAX 4u /* UNSTABLE writes of a file before it is committed */

enum durable_op {
	OP_CREATE = 1,
	OP_WRITE,
	OP_WRITE_SYNC,
	OP_COMMIT,
	OP_TRUNCATE,
	OP_RENAME,
	OP_REPLACE,
	OP_UNLINK
};
enum durable_kind { KIND_INTENT = 1, KIND_ACK };

/* One line of a journal. */
struct note {
	uint32_t magic;
	uint8_t kind, op;
	uint16_t slot;
	uint32_t a;       /* CREATE, RENAME: number of the name; WRITE: first cell; TRUNCATE: cells;
			     REPLACE: target slot */
	uint32_t b;       /* WRITE: cells */
	uint64_t version; /* WRITE: of the first cell; the next ones count on */
	uint64_t sum;
};

struct choices {
	uint64_t of[CHOICES_MAX];
	uint32_t count;
};
struct file {
	bool exists;
	uint32_t name;
	struct choices cells_count;     /* sizes, in cells */
	struct choices cell[CELLS_MAX]; /* versions; 0 = zeros */
	uint32_t uncommitted;
};
struct model {
	struct file file[SLOTS];
};

/* Data written UNSTABLE is durable when it is acknowledged, as with sync=always. */
void model_set_always(bool yes);
/* The state after n. */
void model_apply(struct model *m, const struct note *n);
/* Both outcomes of n are right from here on, where the model can say so: data and sizes. False: it
 * can't (names), and the caller has to try both. */
bool model_blur(struct model *m, const struct note *n);

void note_seal(struct note *n);
bool note_good(const struct note *n);

void path_dir(char *out, size_t len, const char *dir, unsigned worker);
void path_file(
    char *out, size_t len, const char *dir, unsigned worker, unsigned slot, uint32_t name);
void cell_fill(uint8_t *out, unsigned worker, uint32_t cell, uint64_t version);
/* The version a cell says; 0 zeros; UINT64_MAX garbage, or another worker's or cell's. */
uint64_t cell_version(const uint8_t *data, unsigned worker, uint32_t cell);

struct verdict {
	uint64_t begun, acknowledged, lost, wrong;
};
/* Plays a worker's journal into m. True: pending is the change that was never answered. */
bool journal_play(
    const char *journal, unsigned worker, struct model *m, struct note *pending, struct verdict *v);
void check_worker(struct nfs_context *nfs, const char *journal, const char *dir, unsigned worker,
    struct verdict *v);

/* Changes something of worker 0 without a note; kind is one of tamper_kind's. */
void tamper(struct nfs_context *nfs, const char *journal, const char *dir, const char *kind);
const char *tamper_kind(unsigned index); /* NULL behind the last */

#endif
