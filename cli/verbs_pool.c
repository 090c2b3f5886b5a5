/* verbs_pool.c - pool verbs. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "cli/cli.h"
#include "cli/option.h"
#include "base/size.h"

#define REWIND_MAX 64

static bool
is_set_kind(const char *word)
{
	static const char *const kinds[] = {"raidz", "raidz1", "raidz2", "raidz3", "mirror"};
	for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++) {
		if (strcmp(word, kinds[i]) == 0) {
			return true;
		}
	}
	return false;
}

static bool
is_group(const char *word)
{
	return is_set_kind(word) || strcmp(word, "log") == 0 || strcmp(word, "spare") == 0;
}

/* Drives before any kind is named: each is a set of its own. */
static bool
create_singles(const char *word, json_t *sets)
{
	json_t *names = json_array(), *name;
	size_t i;
	bool good = words_expand(word, names);
	json_array_foreach(names, i, name)
	{
		json_array_append_new(
		    sets, json_pack("{s:s, s:[O]}", "kind", "single", "drives", name));
	}
	json_decref(names);
	return good;
}

/* The words behind the pool's name, as in zpool: kinds open a set, "log" and "spare" their lists.
 */
static int
create_layout(const struct cli_verb *v, const struct cli_args *a, json_t *args)
{
	json_t *sets = json_array(), *logs = json_array(), *spares = json_array();
	json_t *into = NULL; /* NULL: a drive here is a set of its own */
	json_object_set_new(args, "sets", sets);
	json_object_set_new(args, "logs", logs);
	json_object_set_new(args, "spares", spares);
	for (size_t i = 1; i < a->word_count; i++) {
		const char *word = a->words[i];
		if (strcmp(word, "log") == 0) {
			into = logs;
		} else if (strcmp(word, "spare") == 0) {
			into = spares;
		} else if (into == logs && strcmp(word, "mirror") == 0) {
			continue; /* several log drives are always mirrored */
		} else if (is_set_kind(word)) {
			if (i + 1 == a->word_count || is_group(a->words[i + 1])) {
				return cli_usage_error(v, "a set without drives", word);
			}
			json_t *set = json_pack("{s:s, s:[]}", "kind", word, "drives");
			json_array_append_new(sets, set);
			into = json_object_get(set, "drives");
		} else if (into != NULL) {
			if (!words_expand(word, into)) {
				return cli_usage_error(v, "that is no range of names", word);
			}
		} else if (!create_singles(word, sets)) {
			return cli_usage_error(v, "that is no range of names", word);
		}
	}
	return CLI_OK;
}

static int
create_options(const struct cli_verb *v, const struct cli_args *a, json_t *args)
{
	for (size_t i = 0; i < a->option_count; i++) {
		uint64_t bytes;
		if (strncmp(a->options[i], "logsize=", 8) != 0) {
			return cli_usage_error(v, "a pool takes logsize=SIZE", a->options[i]);
		}
		if (size_parse(a->options[i] + 8, &bytes) != 0) {
			return cli_usage_error(v, "that is no size", a->options[i] + 8);
		}
		json_object_set_new(args, "log_bytes", json_integer((json_int_t)bytes));
	}
	return CLI_OK;
}

/* What the layout gives, and what is to be said against it. */
static void
layout_warnings(json_t *warnings)
{
	size_t i;
	json_t *warning;
	json_array_foreach(warnings, i, warning)
	{
		fputs("warning: ", stdout);
		print_safe(json_string_value(warning));
		putchar('\n');
	}
}

static void
layout_sets(json_t *sets)
{
	size_t i;
	json_t *set;
	json_array_foreach(sets, i, set)
	{
		const char *kind = json_string_value(json_object_get(set, "kind"));
		int parity = (int)json_integer_value(json_object_get(set, "parity"));
		char each[32], unused[32], sector[32], number[16] = "";
		print_size((uint64_t)json_integer_value(json_object_get(set, "drive_bytes")), false,
		    each, sizeof(each));
		print_size((uint64_t)json_integer_value(json_object_get(set, "unused_bytes")),
		    false, unused, sizeof(unused));
		print_size((uint64_t)json_integer_value(json_object_get(set, "sector")), false,
		    sector, sizeof(sector));
		if (parity > 0) {
			snprintf(number, sizeof(number), "%d", parity);
		}
		printf("  %s%s-%zu: %d drives, of each %s is used, %s of all isn't; physical "
		       "blocks of %s\n",
		    kind, number, i, (int)json_integer_value(json_object_get(set, "width")), each,
		    unused, sector);
	}
}

static void
layout_show(const char *done, const char *name, json_t *result)
{
	char usable[32], raw[32], log[32];
	print_size((uint64_t)json_integer_value(json_object_get(result, "usable")), false, usable,
	    sizeof(usable));
	print_size(
	    (uint64_t)json_integer_value(json_object_get(result, "raw")), false, raw, sizeof(raw));
	print_size(
	    (uint64_t)json_integer_value(json_object_get(result, "log")), false, log, sizeof(log));
	printf("%s '%s': %s usable of %s raw", done, name, usable, raw);
	if (json_integer_value(json_object_get(result, "log")) > 0) {
		printf(", %s of intent log", log);
	}
	putchar('\n');
	if (strncmp(done, "would", 5) == 0) {
		layout_sets(json_object_get(result, "layout"));
	}
	layout_warnings(json_object_get(result, "warnings"));
	int small = (int)json_integer_value(json_object_get(result, "small_record_percent"));
	if (small > 160) {
		printf("note: on these sets an 8K record takes %d%% of its size; keep recordsize "
		       "at 32K or more where you can\n",
		    small);
	}
	json_t *tolerates = json_object_get(result, "tolerates");
	if (json_is_integer(tolerates) && json_integer_value(tolerates) == 0) {
		puts("warning: these sets have no redundancy: whatever one drive loses is lost, "
		     "and without it the "
		     "whole pool can't be used");
	}
}

int
verb_pool_create(const struct cli_verb *v, const struct cli_args *a)
{
	json_t *args = json_pack(
	    "{s:s, s:b, s:b}", "name", a->words[0], "dry_run", a->dry_run, "force", a->force);
	json_t *result;
	int status = create_layout(v, a, args);
	if (status == CLI_OK && json_array_size(json_object_get(args, "sets")) == 0) {
		status = cli_usage_error(v, "no drives for data", NULL);
	}
	if (status == CLI_OK) {
		status = create_options(v, a, args);
	}
	if (status != CLI_OK) {
		json_decref(args);
		return status;
	}
	status = client_call("pool create", args, &result);
	if (status != CLI_OK || print_json(a, v, result)) {
		json_decref(result);
		return status;
	}
	layout_show(a->dry_run ? "would create" : "created", a->words[0], result);
	json_decref(result);
	return CLI_OK;
}

int
verb_pool_add(const struct cli_verb *v, const struct cli_args *a)
{
	json_t *args = json_pack(
	    "{s:s, s:b, s:b}", "pool", a->words[0], "dry_run", a->dry_run, "force", a->force);
	json_t *result;
	int status = create_layout(v, a, args);
	if (status == CLI_OK) {
		status = create_options(v, a, args);
	}
	if (status != CLI_OK) {
		json_decref(args);
		return status;
	}
	status = client_call("pool add", args, &result);
	if (status == CLI_OK && !print_json(a, v, result)) {
		if (json_integer_value(json_object_get(result, "raw")) > 0) {
			layout_show(a->dry_run ? "would add to" : "added to", a->words[0], result);
		} else {
			puts(a->dry_run ? "would be added" : "added");
			layout_warnings(json_object_get(result, "warnings"));
		}
	}
	json_decref(result);
	return status;
}

int
verb_pool_destroy(const struct cli_verb *v, const struct cli_args *a)
{
	json_t *result;
	if (!a->dry_run && !confirm_destroy(a, "pool", a->words[0])) {
		return CLI_FAILED;
	}
	int status = client_call("pool destroy",
	    json_pack("{s:s, s:b}", "pool", a->words[0], "dry_run", a->dry_run), &result);
	if (status != CLI_OK || print_json(a, v, result)) {
		json_decref(result);
		return status;
	}
	if (a->dry_run) {
		char used[32];
		print_size((uint64_t)json_integer_value(json_object_get(result, "used")), false,
		    used, sizeof(used));
		printf("would destroy '%s': %s on %d drives, %d shares\n", a->words[0], used,
		    (int)json_integer_value(json_object_get(result, "drives")),
		    (int)json_integer_value(json_object_get(result, "shares")));
	} else {
		printf("destroyed '%s'\n", a->words[0]);
	}
	json_decref(result);
	return CLI_OK;
}

static json_t *
pool_args(const struct cli_args *a)
{
	return a->word_count > 0 ? json_pack("{s:s}", "pool", a->words[0]) : json_object();
}

int
verb_pool_list(const struct cli_verb *v, const struct cli_args *a)
{
	static const struct column columns[] = {{"NAME", "name", COLUMN_TEXT},
	    {"USABLE", "usable", COLUMN_SIZE}, {"FREE", "free", COLUMN_SIZE},
	    {"RAW", "raw", COLUMN_SIZE}, {"RAWUSED", "raw_used", COLUMN_SIZE},
	    {"LOG", "log", COLUMN_SIZE}, {"HEALTH", "health", COLUMN_TEXT},
	    {"EXPANDSZ", "expandable", COLUMN_SIZE}};
	json_t *result;
	int status = client_call("pool list", pool_args(a), &result);
	if (status == CLI_OK && !print_json(a, v, result)) {
		if (json_array_size(result) == 0 && !a->bare) {
			puts("no pools in service");
		} else {
			print_table(a, result, columns, sizeof(columns) / sizeof(columns[0]));
		}
	}
	json_decref(result);
	return status;
}

static const char *
text_of(json_t *o, const char *key)
{
	const char *s = json_string_value(json_object_get(o, key));
	return s != NULL ? s : "";
}

static long long
number_of(json_t *o, const char *key)
{
	return (long long)json_integer_value(json_object_get(o, key));
}

static void
status_drives(json_t *drives, int indent)
{
	size_t i;
	json_t *d;
	json_array_foreach(drives, i, d)
	{
		char since[32] = "";
		long long when = number_of(d, "out_since");
		when = when > 0 ? when : number_of(d, "degraded_since");
		if (when > 0) {
			print_time((uint64_t)when, since, sizeof(since));
		}
		printf("%*s", indent, "");
		print_padded(text_of(d, "path"), 44 - indent);
		printf(" %-9s %6lld %6lld %6lld %6lld %8lld", text_of(d, "state"),
		    number_of(d, "read_errors"), number_of(d, "write_errors"),
		    number_of(d, "cksum_errors"), number_of(d, "slow_ios"),
		    number_of(d, "repaired"));
		printf("%s%s%s%s", since[0] != '\0' ? "  since " : "", since,
		    text_of(d, "note")[0] != '\0' ? "  " : "", text_of(d, "note"));
		if (text_of(d, "injected")[0] != '\0') {
			printf("  ON PURPOSE: %s", text_of(d, "injected"));
		}
		putchar('\n');
	}
}

static void
status_line(const char *lead, const char *text)
{
	if (text[0] != '\0') {
		printf("%s", lead);
		print_safe(text);
		putchar('\n');
	}
}

/* "scrub running, 42%, 1.20G of 3.00G verified at 800M/s, 00:02:11 to go" */
static void
status_scan(json_t *scan)
{
	const char *state = text_of(scan, "state"), *kind = text_of(scan, "kind");
	char when[32], examined[32], total[32], rate[32];
	if (strcmp(state, "never") == 0 || state[0] == '\0') {
		return;
	}
	print_size((uint64_t)number_of(scan, "examined"), false, examined, sizeof(examined));
	print_size((uint64_t)number_of(scan, "total"), false, total, sizeof(total));
	print_size((uint64_t)number_of(scan, "bytes_per_s"), false, rate, sizeof(rate));
	if (strcmp(state, "running") != 0 && strcmp(state, "paused") != 0) {
		print_time((uint64_t)number_of(scan, "ended"), when, sizeof(when));
		printf(
		    "  scan: %s %s at %s: %lld blocks repaired, %lld that nothing could repair\n",
		    kind, state, when, number_of(scan, "repaired"), number_of(scan, "errors"));
		return;
	}
	printf(
	    "  scan: %s %s, %lld%%, %s of %s looked at, %lld blocks repaired, %lld beyond repair",
	    kind, state, number_of(scan, "percent"), examined, total, number_of(scan, "repaired"),
	    number_of(scan, "errors"));
	if (json_object_get(scan, "left_s") != NULL) {
		long long left = number_of(scan, "left_s");
		printf(", %s/s, %lld:%02lld:%02lld to go", rate, left / 3600, left / 60 % 60,
		    left % 60);
	}
	putchar('\n');
}

static void
status_trim(json_t *trim)
{
	const char *state = text_of(trim, "state");
	char when[32], trimmed[32], fresh[32];
	print_size((uint64_t)number_of(trim, "trimmed"), false, trimmed, sizeof(trimmed));
	print_size((uint64_t)number_of(trim, "fresh"), false, fresh, sizeof(fresh));
	if (strcmp(state, "running") == 0 || strcmp(state, "paused") == 0) {
		printf("  trim: %s, %lld%%, %s%s\n", state, number_of(trim, "percent"), trimmed,
		    json_is_true(json_object_get(trim, "waiting")) ? ", letting others go first"
								   : "");
	} else if (strcmp(state, "done") == 0 || strcmp(state, "cancelled") == 0) {
		print_time((uint64_t)number_of(trim, "ended"), when, sizeof(when));
		printf("  trim: %s at %s: %s, %s passed over that was free only lately\n", state,
		    when, trimmed, fresh);
	}
	if (number_of(trim, "automatic") > 0) {
		print_size((uint64_t)number_of(trim, "automatic"), false, trimmed, sizeof(trimmed));
		printf("  trim: %s by itself since the import\n", trimmed);
	}
}

/* Restoring a file, or removing it, takes it off the list. */
static void
status_damaged(json_t *files)
{
	size_t i;
	json_t *file;
	if (json_array_size(files) > 0) {
		puts("damaged: restore these from a copy, or remove them");
	}
	json_array_foreach(files, i, file)
	{
		printf("  ");
		print_safe(text_of(file, "path"));
		printf("  (%lld block%s)\n", number_of(file, "blocks"),
		    number_of(file, "blocks") == 1 ? "" : "s");
	}
}

static void
status_one(json_t *p)
{
	size_t i;
	json_t *set;
	printf("  pool: %s\nhealth: %s\n", text_of(p, "name"), text_of(p, "health"));
	status_line("   why: ", text_of(p, "why"));
	status_line("action: ", text_of(p, "action"));
	status_scan(json_object_get(p, "scan"));
	status_trim(json_object_get(p, "trim"));
	printf("\n  %-42s %-9s %6s %6s %6s %6s %8s\n", "NAME", "STATE", "READ", "WRITE", "CKSUM",
	    "SLOW", "REPAIRED");
	json_array_foreach(json_object_get(p, "sets"), i, set)
	{
		printf("  %s-%zu\n", text_of(set, "kind"), i);
		status_drives(json_object_get(set, "drives"), 4);
	}
	if (json_array_size(json_object_get(p, "logs")) > 0) {
		puts("  log");
		status_drives(json_object_get(p, "logs"), 4);
	}
	if (json_array_size(json_object_get(p, "spares")) > 0) {
		puts("  spare");
		status_drives(json_object_get(p, "spares"), 4);
	}
	printf("\nerrors: %lld blocks that nothing could repair\n", number_of(p, "data_errors"));
	status_damaged(json_object_get(p, "damaged"));
	if (json_is_true(json_object_get(p, "log_in_pool"))) {
		puts("  note: the intent log is on the pool's own drives");
	}
}

int
verb_pool_status(const struct cli_verb *v, const struct cli_args *a)
{
	json_t *result, *p;
	size_t i;
	int status = client_call("pool status", pool_args(a), &result);
	if (status == CLI_OK && !print_json(a, v, result)) {
		if (json_array_size(result) == 0) {
			puts("no pools in service");
		}
		json_array_foreach(result, i, p)
		{
			if (i > 0) {
				putchar('\n');
			}
			status_one(p);
		}
	}
	json_decref(result);
	return status;
}

int
verb_pool_export(const struct cli_verb *v, const struct cli_args *a)
{
	json_t *result;
	json_t *args = pool_args(a);
	json_object_set_new(args, "force", json_boolean(a->force));
	int status = client_call("pool export", args, &result);
	if (status == CLI_OK && !print_json(a, v, result)) {
		printf("exported '%s'\n", a->words[0]);
	}
	json_decref(result);
	return status;
}

static int
import_show(const struct cli_verb *v, const struct cli_args *a)
{
	static const struct column columns[] = {{"NAME", "name", COLUMN_TEXT},
	    {"GUID", "guid", COLUMN_TEXT}, {"SEEN", "drives_seen", COLUMN_COUNT},
	    {"DRIVES", "drives", COLUMN_COUNT}, {"CLEAN", "clean", COLUMN_FLAG},
	    {"HOST", "host", COLUMN_TEXT}, {"LAST USED", "last_used", COLUMN_TIME}};
	json_t *result;
	int status = client_call("pool import", json_object(), &result);
	if (status == CLI_OK && !print_json(a, v, result)) {
		if (json_array_size(result) == 0 && !a->bare) {
			puts("no pools to import");
		} else {
			print_table(a, result, columns, sizeof(columns) / sizeof(columns[0]));
		}
	}
	json_decref(result);
	return status;
}

int
verb_pool_import(const struct cli_verb *v, const struct cli_args *a)
{
	json_t *result;
	if (a->word_count == 0) {
		return import_show(v, a);
	}
	json_t *args = json_pack(
	    "{s:s, s:b, s:b}", "pool", a->words[0], "readonly", a->readonly, "force", a->force);
	if (a->word_count > 1) {
		json_object_set_new(args, "new_name", json_string(a->words[1]));
	}
	for (size_t i = 0; i < a->option_count; i++) {
		unsigned rewind;
		if (strcmp(a->options[i], "missing_log=on") == 0) {
			json_object_set_new(args, "missing_log", json_true());
		} else if (option_count(a->options[i], "rewind=", REWIND_MAX, &rewind)) {
			json_object_set_new(args, "rewind", json_integer(rewind));
		} else {
			json_decref(args);
			return cli_usage_error(
			    v, "an import takes missing_log=on and rewind=1..64", a->options[i]);
		}
	}
	int status = client_call("pool import", args, &result);
	if (status == CLI_OK && !print_json(a, v, result)) {
		const char *note = json_string_value(json_object_get(result, "note"));
		printf("imported '%s'\n", a->words[a->word_count - 1]);
		if (note != NULL && note[0] != '\0') {
			printf("note: %s\n", note);
		}
	}
	json_decref(result);
	return status;
}

int
verb_pool_check(const struct cli_verb *v, const struct cli_args *a)
{
	json_t *result, *problem;
	size_t i;
	int status = client_call("pool check", pool_args(a), &result);
	if (status != CLI_OK) {
		return status;
	}
	long long problems = (long long)json_integer_value(json_object_get(result, "problems"));
	if (!print_json(a, v, result)) {
		json_array_foreach(json_object_get(result, "list"), i, problem)
		{
			print_safe(json_is_string(problem) ? json_string_value(problem) : "?");
			putchar('\n');
		}
		printf("%s: %lld problems\n", a->words[0], problems);
	}
	json_decref(result);
	return problems == 0 ? CLI_OK : CLI_FAILED;
}
