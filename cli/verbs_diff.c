/* verbs_diff.c - fs diff: changes are printed as they come, so their number doesn't matter. */
#include <stdio.h>
#include <string.h>
#include "cli/cli.h"

static const char *
row_text(json_t *row, const char *key, const char *otherwise)
{
	const char *text = json_string_value(json_object_get(row, key));
	return text != NULL ? text : otherwise;
}

/* "M  /path (+1)", "R  /old -> /new" */
static void
print_change(json_t *row)
{
	const char *what = row_text(row, "change", "?"), *old = row_text(row, "old_path", NULL);
	json_int_t links = json_integer_value(json_object_get(row, "links"));
	bool dir = strcmp(row_text(row, "type", ""), "directory") == 0;
	char unknown[64];
	snprintf(unknown, sizeof(unknown), "(a name of object %lld isn't known)",
	    (long long)json_integer_value(json_object_get(row, "object")));
	printf("%s  ", what);
	if (old != NULL) {
		print_safe(old);
		fputs(" -> ", stdout);
	}
	const char *path = row_text(row, "path", unknown);
	print_safe(path);
	fputs(dir && path[1] != '\0' ? "/" : "", stdout);
	if (links != 0) {
		printf(" (%+lld)", (long long)links);
	}
	putchar('\n');
}

static void
print_changes(const struct cli_args *a, json_t *rows, bool *first)
{
	static const struct column columns[] = {{"CHANGE", "change", COLUMN_TEXT},
	    {"TYPE", "type", COLUMN_TEXT}, {"PATH", "path", COLUMN_TEXT},
	    {"OLDPATH", "old_path", COLUMN_TEXT}, {"LINKS", "links", COLUMN_TEXT}};
	json_t *row;
	size_t i;
	json_array_foreach(rows, i, row)
	{
		if (a->json) {
			fputs(*first ? "\n  " : ",\n  ", stdout);
			json_dumpf(row, stdout, JSON_COMPACT);
		} else if (a->bare) {
			char links[32] = "-";
			json_int_t n = json_integer_value(json_object_get(row, "links"));
			if (n != 0) {
				snprintf(links, sizeof(links), "%+lld", (long long)n);
			}
			json_object_set_new(row, "links", json_string(links));
		} else {
			print_change(row);
		}
		*first = false;
	}
	if (a->bare && !a->json) {
		print_table(a, rows, columns, sizeof(columns) / sizeof(columns[0]));
	}
}

int
verb_fs_diff(const struct cli_verb *v, const struct cli_args *a)
{
	json_t *args = json_pack("{s:s}", "name", a->words[0]), *result;
	struct client c;
	bool first = true, done = false;
	if (a->word_count > 1) {
		json_object_set_new(args, "to", json_string(a->words[1]));
	}
	int status = client_open(&c);
	if (status != CLI_OK) {
		json_decref(args);
		return status;
	}
	status = client_ask(&c, "fs diff", args, &result);
	if (status == CLI_OK && a->json) {
		printf("{\"schema\": 1, \"command\": \"%s %s\", \"result\": [", v->noun, v->verb);
	}
	bool begun = status == CLI_OK;
	while (status == CLI_OK) {
		print_changes(a, json_object_get(result, "changes"), &first);
		done = json_is_true(json_object_get(result, "done"));
		json_decref(result);
		result = NULL;
		if (done || ferror(stdout)) {
			break;
		}
		status = client_ask(&c, "fs diff", json_pack("{s:b}", "more", 1), &result);
	}
	json_decref(result);
	client_close(&c);
	if (begun && a->json) {
		printf("%s], \"complete\": %s}\n", first ? "" : "\n", done ? "true" : "false");
	} else if (begun && first && done && !a->bare) {
		puts("no difference");
	}
	return status == CLI_OK && !done ? CLI_FAILED : status;
}
