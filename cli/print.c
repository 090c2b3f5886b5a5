/* print.c - tables, tab-separated lines, JSON. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include "cli/cli.h"

#define CELL_MAX 320
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
print_safe(const char *s)
{
	for (; *s != '\0'; s++) {
		unsigned char c = (unsigned char)*s;
		putchar(c < 0x20 || c == 0x7f ? '?' : c);
	}
}

static void
cell_text(const struct cli_args *a, json_t *row, const struct column *c, char out[CELL_MAX])
{
	json_t *v = json_object_get(row, c->key);
	uint64_t n = (uint64_t)json_integer_value(v);
	time_t when = (time_t)n;
	struct tm tm;
	switch (c->kind) {
	case COLUMN_TEXT:
		snprintf(out, CELL_MAX, "%s",
		    json_is_string(v) && json_string_length(v) > 0 ? json_string_value(v) : "-");
		break;
	case COLUMN_SIZE:
		print_size(n, a->exact, out, CELL_MAX);
		break;
	case COLUMN_COUNT:
		snprintf(out, CELL_MAX, "%llu", (unsigned long long)n);
		break;
	case COLUMN_FLAG:
		snprintf(out, CELL_MAX, "%s", json_is_true(v) ? "yes" : "no");
		break;
	case COLUMN_TIME:
		if (a->exact || localtime_r(&when, &tm) == NULL) {
			snprintf(out, CELL_MAX, "%llu", (unsigned long long)n);
		} else {
			strftime(out, CELL_MAX, "%Y-%m-%d %H:%M", &tm);
		}
		break;
	}
	for (char *p = out; *p != '\0'; p++) {
		if ((unsigned char)*p < 0x20 || *p == 0x7f) {
			*p = '?';
		}
	}
}

static bool
column_right(const struct column *c)
{
	return c->kind == COLUMN_SIZE || c->kind == COLUMN_COUNT;
}

void
print_table(const struct cli_args *a, json_t *rows, const struct column *columns, size_t count)
{
	int width[COLUMNS_MAX];
	char cell[CELL_MAX];
	size_t i;
	json_t *row;
	for (size_t c = 0; c < count; c++) {
		width[c] = (int)strlen(columns[c].title);
		json_array_foreach(rows, i, row)
		{
			cell_text(a, row, &columns[c], cell);
			width[c] = (int)strlen(cell) > width[c] ? (int)strlen(cell) : width[c];
		}
	}
	for (size_t c = 0; c < count && !a->bare; c++) {
		const char *end = c + 1 == count ? "\n" : "  ";
		int w = c + 1 == count && !column_right(&columns[c]) ? 0 : width[c];
		printf(column_right(&columns[c]) ? "%*s%s" : "%-*s%s", w, columns[c].title, end);
	}
	json_array_foreach(rows, i, row)
	{
		for (size_t c = 0; c < count; c++) {
			bool last = c + 1 == count;
			cell_text(a, row, &columns[c], cell);
			if (a->bare) {
				printf("%s%s", cell, last ? "\n" : "\t");
			} else {
				int w = last && !column_right(&columns[c]) ? 0 : width[c];
				printf(column_right(&columns[c]) ? "%*s%s" : "%-*s%s", w, cell,
				    last ? "\n" : "  ");
			}
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
