/* durable_model.c - what a file may look like after its worker's notes. */
#include "tests/system/durable.h"

#define NOTE_MAGIC 0x45544f4eu

static bool always;

void
model_set_always(bool yes)
{
	always = yes;
}

static uint64_t
mix(uint64_t x)
{
	x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ull;
	x = (x ^ (x >> 27)) * 0x94d049bb133111ebull;
	return x ^ (x >> 31);
}

static uint64_t
note_sum(const struct note *n)
{
	return mix(
	    n->magic +
	    mix(n->kind + mix(n->op + mix(n->slot + mix(n->a + mix(n->b + mix(n->version + 1)))))));
}

void
note_seal(struct note *n)
{
	n->magic = NOTE_MAGIC;
	n->sum = note_sum(n);
}

bool
note_good(const struct note *n)
{
	return n->magic == NOTE_MAGIC && n->sum == note_sum(n) && n->slot < SLOTS;
}

void
path_dir(char *out, size_t len, const char *dir, unsigned worker)
{
	snprintf(out, len, "%s-w%u", dir, worker);
}

void
path_file(char *out, size_t len, const char *dir, unsigned worker, unsigned slot, uint32_t name)
{
	snprintf(out, len, "%s-w%u/slot %u name %u", dir, worker, slot, name);
}

void
cell_fill(uint8_t *out, unsigned worker, uint32_t cell, uint64_t version)
{
	uint64_t x = mix(version + mix(cell + mix(worker + 1)));
	for (uint32_t i = 0; i < CELL_BYTES / 8; i++) {
		uint64_t word = i == 0 ? version : i == 1 ? ((uint64_t)worker << 32) | cell : x;
		memcpy(out + (size_t)i * 8, &word, 8);
		x = x * 6364136223846793005ull + 1442695040888963407ull;
	}
}

uint64_t
cell_version(const uint8_t *data, unsigned worker, uint32_t cell)
{
	static const uint8_t zeros[CELL_BYTES];
	uint8_t right[CELL_BYTES];
	uint64_t version;
	if (memcmp(data, zeros, CELL_BYTES) == 0) {
		return 0;
	}
	memcpy(&version, data, 8);
	cell_fill(right, worker, cell, version);
	return memcmp(data, right, CELL_BYTES) == 0 ? version : UINT64_MAX;
}

/* ---- sets of right answers ---- */

static void
choose(struct choices *c, uint64_t only)
{
	c->of[0] = only;
	c->count = 1;
}

static void
choose_also(struct choices *c, uint64_t value)
{
	for (uint32_t i = 0; i < c->count; i++) {
		if (c->of[i] == value) {
			/* the newest is last */
			memmove(&c->of[i], &c->of[i + 1], (c->count - i - 1) * sizeof(c->of[0]));
			c->of[c->count - 1] = value;
			return;
		}
	}
	if (c->count == CHOICES_MAX) {
		die("durable: too many possibilities for one cell");
	}
	c->of[c->count++] = value;
}

static uint64_t
newest(const struct choices *c)
{
	return c->of[c->count - 1];
}

static void
file_create(struct file *f, uint32_t name)
{
	*f = (struct file){.exists = true, .name = name};
	choose(&f->cells_count, 0);
	for (uint32_t i = 0; i < CELLS_MAX; i++) {
		choose(&f->cell[i], 0);
	}
}

static void
file_write(struct file *f, const struct note *n, bool stable)
{
	uint64_t end = n->a + n->b;
	for (uint32_t i = 0; i < n->b; i++) {
		if (stable) {
			choose(&f->cell[n->a + i], n->version + i);
		} else {
			choose_also(&f->cell[n->a + i], n->version + i);
		}
	}
	if (!stable) {
		choose_also(&f->cells_count, MAX(newest(&f->cells_count), end));
		f->uncommitted++;
		return;
	}
	struct choices old = f->cells_count;
	f->cells_count.count = 0;
	for (uint32_t i = 0; i < old.count; i++) {
		choose_also(&f->cells_count, MAX(old.of[i], end));
	}
}

static void
file_commit(struct file *f)
{
	choose(&f->cells_count, newest(&f->cells_count));
	for (uint32_t i = 0; i < CELLS_MAX; i++) {
		choose(&f->cell[i], newest(&f->cell[i]));
	}
	f->uncommitted = 0;
}

static void
file_truncate(struct file *f, uint32_t cells)
{
	choose(&f->cells_count, cells);
	for (uint32_t i = cells; i < CELLS_MAX; i++) {
		choose(&f->cell[i], 0);
	}
}

void
model_apply(struct model *m, const struct note *n)
{
	struct file *f = &m->file[n->slot];
	switch ((enum durable_op)n->op) {
	case OP_CREATE:
		file_create(f, n->a);
		break;
	case OP_WRITE:
	case OP_WRITE_SYNC:
		file_write(f, n, n->op == OP_WRITE_SYNC || always);
		break;
	case OP_COMMIT:
		file_commit(f);
		break;
	case OP_TRUNCATE:
		file_truncate(f, n->a);
		break;
	case OP_RENAME:
		f->name = n->a;
		break;
	case OP_REPLACE: {
		uint32_t name = m->file[n->a].name;
		m->file[n->a] = *f;
		m->file[n->a].name = name;
		f->exists = false;
		break;
	}
	case OP_UNLINK:
		f->exists = false;
		break;
	}
}

bool
model_blur(struct model *m, const struct note *n)
{
	struct file *f = &m->file[n->slot];
	switch ((enum durable_op)n->op) {
	case OP_WRITE:
	case OP_WRITE_SYNC:
		file_write(f, n, false);
		return true;
	case OP_COMMIT:
		return true; /* what may or may not be there already */
	case OP_TRUNCATE:
	case OP_CREATE:
	case OP_RENAME:
	case OP_REPLACE:
	case OP_UNLINK:
		return false;
	}
	return false;
}
