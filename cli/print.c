/* print.c - tables, tab-separated lines, JSON. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include "cli/cli.h"

#define CELL_MAX 64
#define COLUMNS_MAX 16
#define JSON_SCHEMA_VERSION 1

void
print_size(uint64_t bytes, bool exact, char *out, size_t len)
{
	static const char units[] = "BKMGTPE";
	double value = (double)bytes;
	size_t unit = 0;
	if (exact) {
		snprintf(out, len, "%llu", (unsigned long long)bytes);
		return;
	}
	while (value >= 1024 && unit + 1 < sizeof(units) - 1) {
		value /= 1024;
		unit++;
	}
	if (unit == 0) {
		snprintf(out, len, "%lluB", (unsigned long long)bytes);
	} else {
		snprintf(out, len,
		    value < 10    ? "%.2f%c"
		    : value < 100 ? "%.1f%c"
				  : "%.0f%c",
		    value, units[unit]);
	}
}

void
print_safe_to(FILE *to, const char *s)
{
	for (; *s != '\0'; s++) {
		unsigned char c = (unsigned char)*s;
		putc(c < 0x20 || c == 0x7f ? '?' : c, to);
	}
}

void
print_safe(const char *s)
{
	print_safe_to(stdout, s);
}

/* The text of a cell: either in buf, or the row's own string. */
static const char *
cell_text(const struct cli_args *a, json_t *row, const struct column *c, char buf[CELL_MAX])
{
	json_t *v = json_object_get(row, c->key);
	uint64_t n = (uint64_t)json_integer_value(v);
	time_t when = (time_t)n;
	struct tm tm;
	if (json_is_string(v) && strcmp(json_string_value(v), "-") == 0) {
		return "-"; /* has none */
	}
	switch (c->kind) {
	case COLUMN_TEXT:
		return json_is_string(v) && json_string_length(v) > 0 ? json_string_value(v) : "-";
	case COLUMN_SIZE:
		print_size(n, a->exact, buf, CELL_MAX);
		return buf;
	case COLUMN_COUNT:
		snprintf(buf, CELL_MAX, "%llu", (unsigned long long)n);
		return buf;
	case COLUMN_FLAG:
		return json_is_true(v) ? "yes" : "no";
	case COLUMN_TIME:
		if (a->exact || localtime_r(&when, &tm) == NULL) {
			snprintf(buf, CELL_MAX, "%llu", (unsigned long long)n);
		} else {
			strftime(buf, CELL_MAX, "%Y-%m-%d %H:%M", &tm);
		}
		return buf;
	}
	return "";
}

void
print_time(uint64_t when_s, char *out, size_t len)
{
	time_t when = (time_t)when_s;
	struct tm tm;
	if (localtime_r(&when, &tm) == NULL || strftime(out, len, "%Y-%m-%d %H:%M:%S", &tm) == 0) {
		snprintf(out, len, "%llu", (unsigned long long)when_s);
	}
}

static bool
column_right(const struct column *c)
{
	return c->kind == COLUMN_SIZE || c->kind == COLUMN_COUNT;
}

/* Letters, not bytes: what follows a first byte of UTF-8 takes no room. */
static int
text_width(const char *s)
{
	int width = 0;
	for (; *s != '\0'; s++) {
		width += ((unsigned char)*s & 0xc0) != 0x80;
	}
	return width;
}

void
print_padded(const char *s, int width)
{
	int pad = width - text_width(s);
	print_safe(s);
	printf("%*s", pad > 0 ? pad : 0, "");
}

/* Width 0: as it comes, a tab behind it. */
static void
print_cell(const char *text, int width, bool right, bool last)
{
	int pad = width - text_width(text);
	if (right && pad > 0) {
		printf("%*s", pad, "");
	}
	print_safe(text);
	if (last) {
		putchar('\n');
	} else if (width == 0) {
		putchar('\t');
	} else {
		printf("%*s", (right || pad < 0 ? 0 : pad) + 2, "");
	}
}

void
print_table(const struct cli_args *a, json_t *rows, const struct column *columns, size_t count)
{
	int width[COLUMNS_MAX] = {0};
	char buf[CELL_MAX];
	size_t i;
	json_t *row;
	for (size_t c = 0; c < count && !a->bare; c++) {
		width[c] = text_width(columns[c].title);
		json_array_foreach(rows, i, row)
		{
			int w = text_width(cell_text(a, row, &columns[c], buf));
			width[c] = w > width[c] ? w : width[c];
		}
	}
	for (size_t c = 0; c < count && !a->bare; c++) {
		print_cell(columns[c].title, width[c], column_right(&columns[c]), c + 1 == count);
	}
	json_array_foreach(rows, i, row)
	{
		for (size_t c = 0; c < count; c++) {
			print_cell(cell_text(a, row, &columns[c], buf), width[c],
			    column_right(&columns[c]), c + 1 == count);
		}
	}
}

bool
print_json(const struct cli_args *a, const struct cli_verb *v, json_t *result)
{
	char name[64];
	if (!a->json) {
		return false;
	}
	snprintf(name, sizeof(name), "%s %s", v->noun, v->verb);
	json_t *o = json_pack(
	    "{s:i, s:s, s:O}", "schema", JSON_SCHEMA_VERSION, "command", name, "result", result);
	json_dumpf(o, stdout, JSON_INDENT(2));
	putchar('\n');
	json_decref(o);
	return true;
}
