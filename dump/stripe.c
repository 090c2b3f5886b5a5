/*
 * stripe.c - a block of a set: where its columns lie, and its contents with columns missing or
 * wrong.
 *
 * With n data sectors at set sector S, width w, p parities, d = w - p, column c (p parity ones
 * first) begins on drive (S + c) mod w at its sector (S + c) div w and goes on without a gap; a
 * data column has n div d sectors, the first n mod d data columns one more; parity columns are as
 * long as the longest. The contents are the data columns one after the other.
 *
 * Reading: all columns that can be had are read at once (nobody is in a hurry), then every set of
 * at most p columns is tried as the one to be rebuilt, small sets first, until the caller's check
 * agrees. Columns that may be stale are among the first to be suspected.
 */
#include "dump/dump.h"

struct column {
	const struct dump_drive *drive;
	uint64_t off_bytes;
	uint32_t rows, data_off; /* data_off: of a data column, where in the block it begins */
	bool stale, lost;        /* lost: missing or unreadable */
	uint8_t *bytes;
};

struct stripe {
	const struct dump_set *set;
	uint32_t count, parity, len;
	struct column col[WIDTH_MAX];
	uint8_t *memory; /* parity columns, then the data as it was read */
	uint8_t *data;
};

static uint32_t
rows_of(const struct dump_set *s, uint32_t sectors)
{
	return s->kind == KIND_MIRROR ? sectors : DIV_UP(sectors, s->width - s->parity);
}

uint32_t
dump_stripe_asize(const struct dump_set *s, uint32_t len)
{
	uint32_t n = DIV_UP(len, SECTOR);

	if (s->kind == KIND_MIRROR) {
		return n;
	}
	return DIV_UP(n + s->parity * rows_of(s, n), s->parity + 1) * (s->parity + 1);
}

static bool
fits(const struct dump_set *s, uint64_t sector, uint32_t len)
{
	return len > 0 && len % SECTOR == 0 && len <= BLOCK_MAX && sector < s->capacity_sectors &&
	       dump_stripe_asize(s, len) <= s->capacity_sectors - sector;
}

static void
map_mirror(struct stripe *st, uint64_t sector)
{
	st->count = st->set->width;
	for (uint32_t c = 0; c < st->count; c++) {
		st->col[c] = (struct column){
		    .drive = st->set->column[c],
		    .stale = st->set->stale[c],
		    .off_bytes = st->set->base_bytes + sector * SECTOR,
		    .rows = st->len / SECTOR,
		};
	}
}

static void
map_parity(struct stripe *st, uint64_t sector)
{
	const struct dump_set *s = st->set;
	uint32_t n = st->len / SECTOR, d = s->width - s->parity;
	uint32_t full = n / d, tail = n % d, data_off = 0;

	st->parity = s->parity;
	st->count = full > 0 ? s->width : s->parity + tail;
	for (uint32_t c = 0; c < st->count; c++) {
		uint32_t drive = (uint32_t)((sector + c) % s->width);
		bool longer = tail > 0 && c < s->parity + tail;

		st->col[c] = (struct column){
		    .drive = s->column[drive],
		    .stale = s->stale[drive],
		    .off_bytes = s->base_bytes + (sector + c) / s->width * SECTOR,
		    .rows = full + longer,
		    .data_off = data_off,
		};
		data_off += c < s->parity ? 0 : st->col[c].rows * SECTOR;
	}
}

static void
map(struct stripe *st, const struct dump_set *s, uint64_t sector, uint32_t len)
{
	*st = (struct stripe){.set = s, .len = len};
	if (s->kind == KIND_MIRROR) {
		map_mirror(st, sector);
	} else {
		map_parity(st, sector);
	}
}

void
dump_stripe_show(FILE *to, const struct dump_set *s, uint64_t sector, uint32_t len)
{
	struct stripe st;

	map(&st, s, sector, len);
	for (uint32_t c = 0; c < st.count; c++) {
		(void)fprintf(to, "column %2u %-6s sectors %3u at byte %llu of ", c,
		    c < st.parity ? "parity" : "data", st.col[c].rows,
		    (unsigned long long)st.col[c].off_bytes);
		if (st.col[c].drive != NULL) {
			out_text(to, st.col[c].drive->path, strlen(st.col[c].drive->path));
		} else {
			(void)fputs("a missing drive", to);
		}
		(void)fputs(st.col[c].stale ? " (may be stale)\n" : "\n", to);
	}
}

/* ---- rebuilding ---- */

/*
 * Rows [from, from + count) of the data columns in `bad` from the others and the parity columns not
 * in `bad`. st->data holds what was read; out gets the whole rows.
 */
static bool
rows_rebuild(const struct stripe *st, uint32_t bad, uint32_t from, uint32_t count, uint8_t *out)
{
	uint8_t m[PARITY_MAX][PARITY_MAX] = {{0}};
	uint32_t unknown[PARITY_MAX], rows[PARITY_MAX], n = 0, have = 0;
	size_t len = (size_t)count * SECTOR, skip = (size_t)from * SECTOR;

	for (uint32_t c = st->parity; c < st->count; c++) {
		if ((bad >> c & 1) != 0 && st->col[c].rows > from) {
			unknown[n++] = c;
		}
	}
	for (uint32_t r = 0; r < st->parity && have < n; r++) {
		if ((bad >> r & 1) == 0) {
			rows[have++] = r;
		}
	}
	if (have < n) {
		return false;
	}
	for (uint32_t i = 0; i < n * n; i++) {
		m[i / n][i % n] = field_power_of_2(rows[i / n] * (unknown[i % n] - st->parity));
	}
	if (n == 0 || !field_invert(m, n)) {
		return n == 0;
	}
	for (uint32_t i = 0; i < n; i++) {
		uint8_t *to = out + st->col[unknown[i]].data_off + skip;

		memset(to, 0, len);
		for (uint32_t k = 0; k < n; k++) {
			field_add_scaled(to, st->col[rows[k]].bytes + skip, m[i][k], len);
			for (uint32_t c = st->parity; c < st->count; c++) {
				if ((bad >> c & 1) == 0 && st->col[c].rows > from) {
					uint8_t weight =
					    field_power_of_2(rows[k] * (c - st->parity));
					field_add_scaled(to, st->col[c].bytes + skip,
					    field_mul(m[i][k], weight), len);
				}
			}
		}
	}
	return true;
}

/* The whole block into out, without the columns in bad. */
static bool
rebuild(const struct stripe *st, uint32_t bad, uint8_t *out)
{
	uint32_t last = st->col[st->count - 1].rows; /* rows that every column has */
	uint32_t most = st->col[st->parity].rows;

	memcpy(out, st->data, st->len);
	if (last > 0 && !rows_rebuild(st, bad, 0, last, out)) {
		return false;
	}
	return most == last || rows_rebuild(st, bad, last, most - last, out);
}

/* ---- reading ---- */

static uint32_t
bits(uint32_t v)
{
	return (uint32_t)__builtin_popcount(v);
}

static int
columns_read(struct stripe *st, uint32_t *out_lost, uint32_t *out_stale)
{
	size_t parity_len = (size_t)st->parity * st->col[0].rows * SECTOR;

	*out_lost = *out_stale = 0;
	st->memory = mem_zalloc(parity_len + st->len);
	if (st->memory == NULL) {
		return -ENOMEM;
	}
	st->data = st->memory + parity_len;
	for (uint32_t c = 0; c < st->count; c++) {
		struct column *col = &st->col[c];
		size_t len = (size_t)col->rows * SECTOR;

		col->bytes = c < st->parity ? st->memory + c * len : st->data + col->data_off;
		if (col->drive == NULL ||
		    dump_drive_read(col->drive, col->off_bytes, col->bytes, len) != 0) {
			memset(col->bytes, 0, len);
			*out_lost |= 1u << c;
		} else if (col->stale) {
			*out_stale |= 1u << c;
		}
	}
	return 0;
}

/*
 * Tries to do without `size` columns: the lost ones and others. first: these must be among them (or
 * it has been tried before).
 */
static bool
try_without(const struct stripe *st, uint32_t lost, uint32_t size, uint8_t *out,
    dump_verify_fn *verify, const void *arg)
{
	for (uint32_t bad = 0; bad < 1u << st->count; bad++) {
		if (bits(bad) != size || (bad & lost) != lost) {
			continue;
		}
		if (rebuild(st, bad, out) && (verify == NULL || verify(arg, out, st->len))) {
			return true;
		}
	}
	return false;
}

static int
parity_read(
    struct stripe *st, uint8_t *out, dump_verify_fn *verify, const void *arg, bool *out_damaged)
{
	uint32_t lost, stale;
	int err = columns_read(st, &lost, &stale);

	if (err == 0) {
		err = bits(lost) > st->parity ? -EIO : -ERR_CKSUM;
	}
	if (err == -ERR_CKSUM && bits(lost | stale) <= st->parity &&
	    rebuild(st, lost | stale, out) && (verify == NULL || verify(arg, out, st->len))) {
		err = 0;
	}
	for (uint32_t size = bits(lost); err == -ERR_CKSUM && size <= st->parity; size++) {
		bool done = try_without(st, lost, size, out, verify, arg);

		*out_damaged = *out_damaged || lost != 0 || size > 0;
		err = done ? 0 : err;
	}
	*out_damaged = *out_damaged || lost != 0;
	mem_free(st->memory);
	return err;
}

static int
mirror_read(
    struct stripe *st, uint8_t *out, dump_verify_fn *verify, const void *arg, bool *out_damaged)
{
	int err = -EIO;

	for (uint32_t turn = 0; turn < 2; turn++) {
		for (uint32_t c = 0; c < st->count; c++) {
			const struct column *col = &st->col[c];

			if (col->stale != (turn == 1)) {
				continue;
			}
			if (col->drive == NULL ||
			    dump_drive_read(col->drive, col->off_bytes, out, st->len) != 0) {
				*out_damaged = true;
				continue;
			}
			if (verify == NULL || verify(arg, out, st->len)) {
				return 0;
			}
			*out_damaged = true;
			err = -ERR_CKSUM;
		}
	}
	return err;
}

int
dump_stripe_read(const struct dump_set *s, uint64_t sector, uint32_t len, uint8_t *out,
    dump_verify_fn *verify, const void *arg, bool *out_damaged)
{
	struct stripe st;

	*out_damaged = false;
	if (!fits(s, sector, len)) {
		return -EINVAL;
	}
	map(&st, s, sector, len);
	return s->kind == KIND_MIRROR ? mirror_read(&st, out, verify, arg, out_damaged)
				      : parity_read(&st, out, verify, arg, out_damaged);
}
