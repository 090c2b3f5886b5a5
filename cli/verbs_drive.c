/* verbs_drive.c - pool verbs about the drives of a pool in service, its settings, its history. */
#include <stdio.h>
#include <string.h>
#include "base/size.h"
#include "cli/cli.h"

static int
act(const struct cli_verb *v, const struct cli_args *a, const char *cmd, json_t *args,
    const char *done)
{
	json_t *result;
	int status = client_call(cmd, args, &result);
	if (status == CLI_OK && !print_json(a, v, result)) {
		puts(done);
	}
	json_decref(result);
	return status;
}

/* -p and -r mean something else elsewhere; here they are what they are in zpool scrub. */
int
verb_pool_scrub(const struct cli_verb *v, const struct cli_args *a)
{
	if (a->exact + a->recursive + a->stop > 1) {
		return cli_usage_error(v, "one of -p, -r and -s", NULL);
	}
	const char *action = a->exact       ? "pause"
			     : a->recursive ? "resume"
			     : a->stop      ? "stop"
					    : "start";
	return act(v, a, "pool scrub",
	    json_pack("{s:s, s:s}", "pool", a->words[0], "action", action),
	    a->exact       ? "paused"
	    : a->recursive ? "goes on"
	    : a->stop      ? "stopped"
			   : "started; 'pool status' shows how far it is");
}

int
verb_pool_trim(const struct cli_verb *v, const struct cli_args *a)
{
	const char *rate = cli_value(a, 'N');
	bool cancel = cli_value(a, 'c') != NULL, act_only = a->stop || cancel;
	json_t *result;
	uint64_t bytes;
	if (a->stop && cancel) {
		return cli_usage_error(v, "one of -s and -c", NULL);
	}
	if (act_only && (a->word_count > 1 || rate != NULL)) {
		return cli_usage_error(v, "-s and -c are for all of the pool", NULL);
	}
	if (rate != NULL && (size_parse(rate, &bytes) != 0 || bytes == 0)) {
		return cli_usage_error(v, "--rate takes bytes a second", rate);
	}
	json_t *args = json_pack("{s:s, s:s, s:s*}", "pool", a->words[0], "action",
	    a->stop  ? "pause"
	    : cancel ? "cancel"
		     : "start",
	    "drive", a->word_count > 1 ? a->words[1] : NULL);
	if (rate != NULL) {
		json_object_set_new(args, "rate", json_integer((json_int_t)bytes));
	}
	int status = client_call("pool trim", args, &result);
	if (status == CLI_OK && !print_json(a, v, result)) {
		long long without =
		    (long long)json_integer_value(json_object_get(result, "drives_without"));
		puts(a->stop  ? "paused"
		     : cancel ? "cancelled"
			      : "started; 'pool status' shows how far it is");
		if (!act_only && without > 0) {
			printf(
			    "note: %lld drives can't be told what is free, and are passed over\n",
			    without);
		}
	}
	json_decref(result);
	return status;
}

static json_t *
drive_args(const struct cli_args *a)
{
	return json_pack(
	    "{s:s, s:s*}", "pool", a->words[0], "drive", a->word_count > 1 ? a->words[1] : NULL);
}

int
verb_pool_offline(const struct cli_verb *v, const struct cli_args *a)
{
	json_t *args = drive_args(a);
	json_object_set_new(args, "until_import", json_boolean(a->temporary));
	return act(
	    v, a, "pool offline", args, a->temporary ? "offline until the next import" : "offline");
}

int
verb_pool_online(const struct cli_verb *v, const struct cli_args *a)
{
	json_t *args = drive_args(a);
	json_object_set_new(args, "expand", json_boolean(a->expand));
	return act(v, a, "pool online", args,
	    a->expand ? "online; its set has grown" : "online; it is brought up to date by itself");
}

int
verb_pool_clear(const struct cli_verb *v, const struct cli_args *a)
{
	return act(v, a, "pool clear", drive_args(a), "cleared");
}

int
verb_pool_replace(const struct cli_verb *v, const struct cli_args *a)
{
	json_t *args = drive_args(a);
	json_object_set_new(args, "force", json_boolean(a->force));
	if (a->word_count > 2) {
		json_object_set_new(args, "new", json_string(a->words[2]));
	}
	json_t *result;
	int status = client_call("pool replace", args, &result);
	if (status == CLI_OK && !print_json(a, v, result)) {
		const char *warning = json_string_value(json_object_get(result, "warning"));
		puts("it takes the place; 'pool status' shows how far it has been filled");
		if (warning != NULL && warning[0] != '\0') {
			fputs("warning: ", stdout);
			print_safe(warning);
			putchar('\n');
		}
	}
	json_decref(result);
	return status;
}

int
verb_pool_attach(const struct cli_verb *v, const struct cli_args *a)
{
	json_t *args = drive_args(a);
	json_object_set_new(args, "force", json_boolean(a->force));
	json_object_set_new(args, "new", json_string(a->words[2]));
	return act(
	    v, a, "pool attach", args, "attached; 'pool status' shows how far it has been filled");
}

int
verb_pool_detach(const struct cli_verb *v, const struct cli_args *a)
{
	return act(v, a, "pool detach", drive_args(a), "detached");
}

int
verb_pool_remove(const struct cli_verb *v, const struct cli_args *a)
{
	return act(v, a, "pool remove", drive_args(a), "removed");
}

int
verb_pool_spare_add(const struct cli_verb *v, const struct cli_args *a)
{
	json_t *args = drive_args(a);
	json_object_set_new(args, "force", json_boolean(a->force));
	return act(v, a, "pool spare add", args, "added");
}

int
verb_pool_spare_remove(const struct cli_verb *v, const struct cli_args *a)
{
	return act(v, a, "pool spare remove", drive_args(a), "removed");
}

int
verb_pool_set(const struct cli_verb *v, const struct cli_args *a)
{
	char name[64];
	const char *value = strchr(a->words[0], '=');
	size_t len = value != NULL ? (size_t)(value - a->words[0]) : 0;
	if (len == 0 || len >= sizeof(name)) {
		return cli_usage_error(v, "that is no PROPERTY=VALUE", a->words[0]);
	}
	memcpy(name, a->words[0], len);
	name[len] = '\0';
	return act(v, a, "pool set",
	    json_pack("{s:s, s:s, s:s}", "pool", a->words[1], "property", name, "value", value + 1),
	    "set");
}

static int
show(const struct cli_verb *v, const struct cli_args *a, const char *cmd, json_t *args,
    const struct column *columns, size_t count)
{
	json_t *result;
	int status = client_call(cmd, args, &result);
	if (status == CLI_OK && !print_json(a, v, result)) {
		print_table(a, result, columns, count);
	}
	json_decref(result);
	return status;
}

int
verb_pool_get(const struct cli_verb *v, const struct cli_args *a)
{
	static const struct column columns[] = {{"POOL", "pool", COLUMN_TEXT},
	    {"PROPERTY", "property", COLUMN_TEXT}, {"VALUE", "value", COLUMN_TEXT},
	    {"SOURCE", "source", COLUMN_TEXT}};
	return show(v, a, "pool get",
	    json_pack("{s:s, s:s}", "property", a->words[0], "pool", a->words[1]), columns,
	    sizeof(columns) / sizeof(columns[0]));
}

int
verb_pool_history(const struct cli_verb *v, const struct cli_args *a)
{
	static const struct column columns[] = {{"TIME", "time", COLUMN_TIME},
	    {"POOL", "pool", COLUMN_TEXT}, {"USER", "who", COLUMN_TEXT},
	    {"COMMAND", "text", COLUMN_TEXT}};
	return show(v, a, "pool history",
	    a->word_count > 0 ? json_pack("{s:s}", "pool", a->words[0]) : json_object(), columns,
	    sizeof(columns) / sizeof(columns[0]));
}

int
verb_pool_events(const struct cli_verb *v, const struct cli_args *a)
{
	static const struct column columns[] = {{"TIME", "time", COLUMN_TIME},
	    {"POOL", "pool", COLUMN_TEXT}, {"LEVEL", "who", COLUMN_TEXT},
	    {"EVENT", "what", COLUMN_TEXT}, {"WHAT HAPPENED", "text", COLUMN_TEXT}};
	return show(v, a, "pool events",
	    a->word_count > 0 ? json_pack("{s:s}", "pool", a->words[0]) : json_object(), columns,
	    sizeof(columns) / sizeof(columns[0]));
}
