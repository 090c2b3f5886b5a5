/* verbs_list.c - fs list: which columns, in which order. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "cli/cli.h"

#define LIST_COLUMNS_MAX 16

static const struct {
	const char *name;
	struct column column;
} known[] = {
    {"name", {"NAME", "name", COLUMN_TEXT}},
    {"type", {"TYPE", "type", COLUMN_TEXT}},
    {"used", {"USED", "used", COLUMN_SIZE}},
    {"avail", {"AVAIL", "available", COLUMN_SIZE}},
    {"refer", {"REFER", "referenced", COLUMN_SIZE}},
    {"share", {"SHARE", "share", COLUMN_TEXT}},
    {"creation", {"CREATION", "creation", COLUMN_TIME}},
    {"origin", {"ORIGIN", "origin", COLUMN_TEXT}},
    {"written", {"WRITTEN", "written", COLUMN_SIZE}},
    {"logical", {"LOGICAL", "logical", COLUMN_SIZE}},
    {"usedbydataset", {"USEDDS", "own", COLUMN_SIZE}},
    {"usedbysnapshots", {"USEDSNAP", "snapshots", COLUMN_SIZE}},
    {"usedbychildren", {"USEDCHILD", "children", COLUMN_SIZE}},
    {"snapshots", {"SNAPSHOTS", "snapshot_count", COLUMN_COUNT}},
    {"holds", {"HOLDS", "holds", COLUMN_COUNT}},
    {"clones", {"CLONES", "clones", COLUMN_COUNT}},
    {"destroyed", {"DESTROYED", "destroyed", COLUMN_TIME}},
    {"until", {"UNTIL", "until", COLUMN_TIME}},
    {"path", {"PATH", "path", COLUMN_TEXT}},
    {"guid", {"GUID", "guid", COLUMN_COUNT}},
};

static const struct column *
list_column(const char *name, size_t len)
{
	static const struct {
		const char *other, *name;
	} aliases[] = {{"available", "avail"}, {"referenced", "refer"}, {"logicalused", "logical"}};
	for (size_t i = 0; i < sizeof(aliases) / sizeof(aliases[0]); i++) {
		if (strlen(aliases[i].other) == len && strncmp(aliases[i].other, name, len) == 0) {
			return list_column(aliases[i].name, strlen(aliases[i].name));
		}
	}
	for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++) {
		if (strlen(known[i].name) == len && strncmp(known[i].name, name, len) == 0) {
			return &known[i].column;
		}
	}
	return NULL;
}

/* "name,used": how many, or 0 after an error. */
static size_t
list_columns(const struct cli_verb *v, const char *text, struct column *out)
{
	size_t count = 0;
	for (;; text++) {
		size_t len = strcspn(text, ",");
		const struct column *c = list_column(text, len);
		if (c == NULL || count == LIST_COLUMNS_MAX) {
			char name[64];
			snprintf(name, sizeof(name), "%.*s", (int)(len < 60 ? len : 60), text);
			cli_usage_error(
			    v, c == NULL ? "there is no such column" : "too many columns", name);
			return 0;
		}
		out[count++] = *c;
		text += len;
		if (*text == '\0') {
			return count;
		}
	}
}

static const struct column *sort_by;
static int sort_sign;

static int
list_compare(const void *x, const void *y)
{
	json_t *a = json_object_get(*(json_t *const *)x, sort_by->key);
	json_t *b = json_object_get(*(json_t *const *)y, sort_by->key);
	int order;
	if (sort_by->kind == COLUMN_TEXT) {
		const char *s = json_string_value(a), *t = json_string_value(b);
		order = strcmp(s != NULL ? s : "", t != NULL ? t : "");
	} else {
		json_int_t m = json_integer_value(a), n = json_integer_value(b);
		order = m < n ? -1 : m > n;
	}
	return sort_sign * order;
}

/* A new array in the order asked for. Stable, since equal rows keep to their position. */
json_t *
list_sorted(json_t *rows, const struct column *by, bool down)
{
	size_t count = json_array_size(rows);
	json_t **v = malloc((count + 1) * sizeof(json_t *));
	json_t *out = json_array(), *row;
	size_t i;
	if (v == NULL) {
		json_decref(out);
		return json_incref(rows);
	}
	json_array_foreach(rows, i, row)
	{
		v[i] = row;
	}
	sort_by = by;
	sort_sign = down ? -1 : 1;
	/* glibc's qsort is a merge sort as long as there is memory for it */
	qsort(v, count, sizeof(json_t *), list_compare);
	for (i = 0; i < count; i++) {
		json_array_append(out, v[i]);
	}
	free(v);
	return out;
}

static bool
type_is(const char *word, size_t len, const char *name, const char *brief)
{
	return (strlen(name) == len && strncmp(word, name, len) == 0) ||
	       (strlen(brief) == len && strncmp(word, brief, len) == 0);
}

/* What -t says, which may be a list with commas; NULL after an error. */
const char *
list_type(const struct cli_verb *v, const struct cli_args *a, const char *others)
{
	const char *type = cli_value(a, 't');
	bool filesystems = false, snapshots = false;
	if (type == NULL) {
		bool one = a->word_count > 0 && strchr(a->words[a->word_count - 1], '@') != NULL;
		return one ? "snapshot" : "filesystem";
	}
	if (others[0] != '\0' && strcmp(type, others) == 0) {
		return others;
	}
	for (const char *at = type;; at++) {
		size_t len = strcspn(at, ",");
		bool all = type_is(at, len, "all", "all");
		bool filesystem = all || type_is(at, len, "filesystem", "fs");
		bool snapshot = all || type_is(at, len, "snapshot", "snap");
		if (!filesystem && !snapshot) {
			char what[80];
			snprintf(what, sizeof(what), "-t takes filesystem, snapshot%s%s or all",
			    others[0] != '\0' ? ", " : "", others);
			cli_usage_error(v, what, type);
			return NULL;
		}
		filesystems = filesystems || filesystem;
		snapshots = snapshots || snapshot;
		at += len;
		if (*at == '\0') {
			break;
		}
	}
	return filesystems && snapshots ? "all" : snapshots ? "snapshot" : "filesystem";
}

static bool
list_wants_unique(
    const char *type, const struct column *columns, size_t count, const struct column *by)
{
	bool used = by != NULL && strcmp(by->key, "used") == 0;
	for (size_t i = 0; i < count; i++) {
		used = used || strcmp(columns[i].key, "used") == 0;
	}
	return used && strcmp(type, "filesystem") != 0;
}

/* A filesystem has no holds, a snapshot nothing available... */
static void
list_fill(json_t *rows, const struct column *columns, size_t count)
{
	json_t *row;
	size_t i;
	json_array_foreach(rows, i, row)
	{
		for (size_t c = 0; c < count; c++) {
			if (json_object_get(row, columns[c].key) == NULL) {
				json_object_set_new(row, columns[c].key, json_string("-"));
			}
		}
	}
}

int
verb_fs_list(const struct cli_verb *v, const struct cli_args *a)
{
	struct column columns[LIST_COLUMNS_MAX];
	const char *type = list_type(v, a, "destroyed"), *order = cli_value(a, 's'),
		   *down = cli_value(a, 'S');
	const char *text = cli_value(a, 'o');
	json_t *result;
	if (type == NULL) {
		return CLI_USAGE;
	}
	if (text == NULL) {
		text = strcmp(type, "snapshot") == 0    ? "name,used,refer,creation"
		       : strcmp(type, "destroyed") == 0 ? "name,used,destroyed,until"
		       : strcmp(type, "all") == 0       ? "name,used,avail,refer"
							: "name,used,avail,refer,share";
	}
	size_t count = list_columns(v, text, columns);
	const char *by_name = order != NULL ? order : down;
	const struct column *by = by_name != NULL ? list_column(by_name, strlen(by_name)) : NULL;
	if (count == 0) {
		return CLI_USAGE;
	}
	if (by_name != NULL && by == NULL) {
		return cli_usage_error(v, "there is no such column", by_name);
	}
	json_t *args = json_pack("{s:s, s:b, s:b}", "type", type, "recursive", a->recursive,
	    "unique", a->json || list_wants_unique(type, columns, count, by));
	if (a->word_count > 0) {
		json_object_set_new(args, "name", json_string(a->words[0]));
	}
	int status = client_call("fs list", args, &result);
	if (status == CLI_OK && by != NULL) {
		json_t *sorted = list_sorted(result, by, down != NULL);
		json_decref(result);
		result = sorted;
	}
	if (status == CLI_OK && !print_json(a, v, result)) {
		if (json_array_size(result) == 0 && !a->bare) {
			puts(strcmp(type, "snapshot") == 0    ? "no snapshots"
			     : strcmp(type, "destroyed") == 0 ? "nothing that can be had back"
							      : "no filesystems");
		} else {
			list_fill(result, columns, count);
			print_table(a, result, columns, count);
		}
	}
	json_decref(result);
	return status;
}
