/* verbs_disk.c - disk bind, unbind and health. */
#include <string.h>
#include "cli/cli.h"

static int
disk_move(const struct cli_verb *v, const struct cli_args *a, const char *cmd)
{
	json_t *result;
	json_t *args = json_pack("{s:s, s:b}", "drive", a->words[0], "force", a->force);
	int status = client_call(cmd, args, &result);
	if (status == CLI_OK && !print_json(a, v, result)) {
		print_safe(json_string_value(json_object_get(result, "address")));
		printf(" is driven by %s\n",
		    strcmp(json_string_value(json_object_get(result, "driver")), "nvme") == 0
			? "us"
			: "the kernel");
	}
	json_decref(result);
	return status;
}

int
verb_disk_bind(const struct cli_verb *v, const struct cli_args *a)
{
	return disk_move(v, a, "disk bind");
}

int
verb_disk_unbind(const struct cli_verb *v, const struct cli_args *a)
{
	return disk_move(v, a, "disk unbind");
}

/* The list of warnings as one text. */
static void
health_flatten(json_t *rows)
{
	size_t i;
	json_t *row;
	json_array_foreach(rows, i, row)
	{
		char text[256] = "";
		size_t n;
		json_t *w;
		json_array_foreach(json_object_get(row, "warnings"), n, w)
		{
			size_t len = strlen(text);
			snprintf(text + len, sizeof(text) - len, "%s%s", n > 0 ? ", " : "",
			    json_string_value(w));
		}
		json_object_set_new(row, "text", json_string(text[0] != '\0' ? text : "ok"));
	}
}

int
verb_disk_health(const struct cli_verb *v, const struct cli_args *a)
{
	static const struct column columns[] = {{"DRIVE", "path", COLUMN_TEXT},
	    {"SERIAL", "serial", COLUMN_TEXT}, {"FIRMWARE", "firmware", COLUMN_TEXT},
	    {"CELSIUS", "temperature", COLUMN_COUNT}, {"USED%", "used", COLUMN_COUNT},
	    {"SPARE%", "spare", COLUMN_COUNT}, {"WRITTEN", "written", COLUMN_SIZE},
	    {"HOURS", "hours", COLUMN_COUNT}, {"ERRORS", "media_errors", COLUMN_COUNT},
	    {"STATE", "text", COLUMN_TEXT}};
	json_t *result;
	int status = client_call("disk health", json_object(), &result);
	if (status == CLI_OK && !print_json(a, v, result)) {
		health_flatten(result);
		print_table(a, result, columns, sizeof(columns) / sizeof(columns[0]));
	}
	json_decref(result);
	return status;
}
