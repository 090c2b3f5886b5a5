/* verbs_system.c - disk and system verbs. */
#include <stdio.h>
#include "cli/cli.h"

/* What fails on purpose is said where the drive is looked for. */
static void
disk_list_notes(json_t *rows)
{
	size_t i;
	json_t *row;
	json_array_foreach(rows, i, row)
	{
		const char *fault = json_string_value(json_object_get(row, "injected"));
		if (fault != NULL && fault[0] != '\0') {
			json_object_set_new(row, "note", json_sprintf("ON PURPOSE: %s", fault));
		}
	}
}

int
verb_disk_list(const struct cli_verb *v, const struct cli_args *a)
{
	static const struct column columns[] = {{"DRIVE", "path", COLUMN_TEXT},
	    {"SIZE", "size", COLUMN_SIZE}, {"MODEL", "model", COLUMN_TEXT},
	    {"SERIAL", "serial", COLUMN_TEXT}, {"DRIVER", "driver", COLUMN_TEXT},
	    {"USE", "use", COLUMN_TEXT}, {"NOTE", "note", COLUMN_TEXT},
	    {"SECTOR", "sector", COLUMN_SIZE}}; /* last: scripts count columns */
	json_t *result;
	int status = client_call("disk list", json_object(), &result);
	if (status == CLI_OK && !print_json(a, v, result)) {
		disk_list_notes(result);
		print_table(a, result, columns, sizeof(columns) / sizeof(columns[0]));
	}
	json_decref(result);
	return status;
}

static long long
number(json_t *o, const char *key)
{
	return (long long)json_integer_value(json_object_get(o, key));
}

/* -H: every fact as name, tab, value. */
static void
status_bare(json_t *r)
{
	const char *key;
	json_t *value;
	json_object_foreach(r, key, value)
	{
		if (json_is_string(value)) {
			printf("%s\t%s\n", key, json_string_value(value));
		} else if (json_is_boolean(value)) {
			printf("%s\t%s\n", key, json_is_true(value) ? "yes" : "no");
		} else {
			printf("%s\t%lld\n", key, (long long)json_integer_value(value));
		}
	}
}

static void
status_text(const struct cli_args *a, json_t *r)
{
	char memory[32], used[32];
	print_size((uint64_t)number(r, "memory"), a->exact, memory, sizeof(memory));
	print_size((uint64_t)number(r, "memory_used"), a->exact, used, sizeof(used));
	printf("host         %s\nengine       pid %lld, up %lld s, %lld reactors%s\n",
	    json_string_value(json_object_get(r, "host")), number(r, "pid"), number(r, "uptime_s"),
	    number(r, "reactors"),
	    json_is_true(json_object_get(r, "safe_mode"))
		? ", SAFE MODE: it crashed repeatedly, no pool was imported"
		: "");
	printf("ports        nfs %lld, mount %lld, portmapper %lld\n", number(r, "nfs_port"),
	    number(r, "mount_port"), number(r, "portmap_port"));
	printf(
	    "pools        %lld\nconnections  %lld\nnfs calls    %lld\nmemory       %s, %s in use\n",
	    number(r, "pools"), number(r, "connections"), number(r, "nfs_calls"), memory, used);
}

int
verb_system_status(const struct cli_verb *v, const struct cli_args *a)
{
	json_t *r;
	int status = client_call("system status", json_object(), &r);
	if (status == CLI_OK && !print_json(a, v, r)) {
		if (a->bare) {
			status_bare(r);
		} else {
			status_text(a, r);
		}
	}
	json_decref(r);
	return status;
}
