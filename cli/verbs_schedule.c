/* verbs_schedule.c - snapshots by the clock. */
#include <stdio.h>
#include <string.h>
#include "cli/cli.h"
#include "cli/option.h"

int
verb_schedule_create(const struct cli_verb *v, const struct cli_args *a)
{
	json_t *args = json_pack("{s:s, s:s, s:b}", "every", a->words[0], "name", a->words[1],
	    "recursive", a->recursive);
	for (size_t i = 0; i < a->option_count; i++) {
		unsigned keep;
		if (!option_count(a->options[i], "keep=", 10000, &keep)) {
			json_decref(args);
			return cli_usage_error(
			    v, "-o takes keep=N, from 1 to 10000", a->options[i]);
		}
		json_object_set_new(args, "keep", json_integer((json_int_t)keep));
	}
	return call_and_say(v, a, args, "scheduled", a->words[1]);
}

int
verb_schedule_change(const struct cli_verb *v, const struct cli_args *a)
{
	static const struct {
		const char *verb, *done;
	} words[] = {{"remove", "removed"}, {"pause", "paused"}, {"resume", "resumed"}};
	const char *done = "";
	if (a->word_count == 1) {
		return cli_usage_error(v, "something is missing", NULL);
	}
	for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++) {
		done = strcmp(words[i].verb, v->verb) == 0 ? words[i].done : done;
	}
	if (a->word_count == 0) {
		return call_and_say(v, a, json_object(), done, "all");
	}
	return call_and_say(v, a,
	    json_pack("{s:s, s:s}", "every", a->words[0], "name", a->words[1]), done, a->words[1]);
}

int
verb_schedule_list(const struct cli_verb *v, const struct cli_args *a)
{
	static const struct column columns[] = {{"FILESYSTEM", "path", COLUMN_TEXT},
	    {"TIME", "every", COLUMN_TEXT}, {"KEEP", "keep", COLUMN_COUNT},
	    {"BELOW", "recursive", COLUMN_FLAG}, {"LAST", "last", COLUMN_TIME},
	    {"NEXT", "next", COLUMN_TIME}, {"STATE", "state", COLUMN_TEXT}};
	json_t *result;
	int status = client_call("schedule list", json_object(), &result);
	if (status == CLI_OK && !print_json(a, v, result)) {
		if (json_array_size(result) == 0 && !a->bare) {
			puts("no schedules");
		} else {
			print_table(a, result, columns, sizeof(columns) / sizeof(columns[0]));
		}
	}
	json_decref(result);
	return status;
}
