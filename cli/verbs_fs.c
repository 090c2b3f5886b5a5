/* verbs_fs.c - fs and share verbs. */
#include <stdio.h>
#include <string.h>
#include "cli/cli.h"

json_t *
options_array(const struct cli_args *a)
{
	json_t *list = json_array();
	for (size_t i = 0; i < a->option_count; i++) {
		json_array_append_new(list, json_string(a->options[i]));
	}
	return list;
}

int
call_and_say(const struct cli_verb *v, const struct cli_args *a, json_t *args, const char *done,
    const char *name)
{
	char cmd[64];
	json_t *result;
	snprintf(cmd, sizeof(cmd), "%s %s", v->noun, v->verb);
	int status = client_call(cmd, args, &result);
	if (status == CLI_OK && !print_json(a, v, result)) {
		printf("%s '%s'\n", done, name);
	}
	json_decref(result);
	return status;
}

int
verb_fs_create(const struct cli_verb *v, const struct cli_args *a)
{
	return call_and_say(v, a,
	    json_pack("{s:s, s:o}", "name", a->words[0], "props", options_array(a)), "created",
	    a->words[0]);
}

/* "a,b,c" to an array; "all" to an empty one. NULL: a user or group isn't known; it has been said.
 */
static json_t *
split_properties(const struct cli_verb *v, const char *text)
{
	json_t *list = json_array();
	if (strcmp(text, "all") == 0) {
		return list;
	}
	while (*text != '\0') {
		size_t len = strcspn(text, ",");
		char given[320], prop[320];
		snprintf(given, sizeof(given), "%.*s", (int)len, text);
		if (!account_name_resolve(v, given, prop, sizeof(prop))) {
			json_decref(list);
			return NULL;
		}
		json_array_append_new(list, json_string(prop));
		text += len + (text[len] == ',' ? 1 : 0);
	}
	return list;
}

/* One row per filesystem and property, as zfs get shows it. */
static json_t *
get_rows(json_t *result, bool exact)
{
	json_t *rows = json_array(), *fs, *prop;
	size_t i, k;
	json_array_foreach(result, i, fs)
	{
		json_array_foreach(json_object_get(fs, "props"), k, prop)
		{
			json_t *row = json_deep_copy(prop);
			json_t *number = json_object_get(prop, "number");
			json_t *from = json_object_get(prop, "from");
			char text[320];
			json_object_set(row, "fs", json_object_get(fs, "name"));
			if (exact && number != NULL) {
				snprintf(text, sizeof(text), "%lld",
				    (long long)json_integer_value(number));
				json_object_set_new(row, "value", json_string(text));
			}
			if (from != NULL) {
				snprintf(text, sizeof(text), "inherited from %s",
				    json_string_value(from));
				json_object_set_new(row, "source", json_string(text));
			}
			json_array_append_new(rows, row);
		}
	}
	return rows;
}

int
verb_fs_get(const struct cli_verb *v, const struct cli_args *a)
{
	static const struct column columns[] = {{"NAME", "fs", COLUMN_TEXT},
	    {"PROPERTY", "name", COLUMN_TEXT}, {"VALUE", "value", COLUMN_TEXT},
	    {"SOURCE", "source", COLUMN_TEXT}};
	json_t *result;
	const char *type = list_type(v, a, "");
	json_t *props = type != NULL ? split_properties(v, a->words[0]) : NULL;
	if (props == NULL) {
		return CLI_USAGE;
	}
	json_t *args = json_pack("{s:s, s:b, s:o, s:s}", "name", a->words[1], "recursive",
	    a->recursive, "props", props, "type", type);
	int status = client_call("fs get", args, &result);
	if (status == CLI_OK && !print_json(a, v, result)) {
		json_t *rows = get_rows(result, a->exact);
		print_table(a, rows, columns, sizeof(columns) / sizeof(columns[0]));
		json_decref(rows);
	}
	json_decref(result);
	return status;
}

int
verb_fs_set(const struct cli_verb *v, const struct cli_args *a)
{
	const char *equals = strchr(a->words[0], '=');
	if (equals == NULL || equals == a->words[0]) {
		return cli_usage_error(v, "that isn't PROPERTY=VALUE", a->words[0]);
	}
	char given[320], prop[320];
	snprintf(given, sizeof(given), "%.*s", (int)(equals - a->words[0]), a->words[0]);
	if (!account_name_resolve(v, given, prop, sizeof(prop))) {
		return CLI_USAGE;
	}
	json_t *args = json_pack("{s:s, s:s}", "name", a->words[1], "prop", prop);
	if (equals[1] != '\0') {
		json_object_set_new(args, "value", json_string(equals + 1));
	}
	return call_and_say(v, a, args, "set on", a->words[1]);
}

int
verb_share_create(const struct cli_verb *v, const struct cli_args *a)
{
	return call_and_say(v, a,
	    json_pack("{s:s, s:o}", "path", a->words[0], "props", options_array(a)), "shared",
	    a->words[0]);
}

int
verb_share_set(const struct cli_verb *v, const struct cli_args *a)
{
	if (a->option_count == 0) {
		return cli_usage_error(v, "nothing to set: give -o", NULL);
	}
	return call_and_say(v, a,
	    json_pack("{s:s, s:o}", "path", a->words[0], "props", options_array(a)), "changed",
	    a->words[0]);
}

int
verb_share_remove(const struct cli_verb *v, const struct cli_args *a)
{
	return call_and_say(
	    v, a, json_pack("{s:s}", "path", a->words[0]), "no longer shared", a->words[0]);
}

int
verb_share_list(const struct cli_verb *v, const struct cli_args *a)
{
	static const struct column columns[] = {{"PATH", "path", COLUMN_TEXT},
	    {"FILESYSTEM", "dataset", COLUMN_TEXT}, {"RW", "rw", COLUMN_TEXT},
	    {"RO", "ro", COLUMN_TEXT}, {"SQUASH", "squash", COLUMN_TEXT},
	    {"INSECURE", "insecure", COLUMN_FLAG}};
	json_t *result;
	int status = client_call("share list", json_object(), &result);
	if (status == CLI_OK && !print_json(a, v, result)) {
		if (json_array_size(result) == 0 && !a->bare) {
			puts("no shares");
		} else {
			print_table(a, result, columns, sizeof(columns) / sizeof(columns[0]));
		}
	}
	json_decref(result);
	return status;
}
