/* verbs_inject.c - disk inject: drives that fail on purpose. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include "base/size.h"
#include "cli/cli.h"

/* A whole number, nothing behind it. */
static bool
number(const char *text, json_int_t *out)
{
	char *end;
	errno = 0;
	long long n = strtoll(text, &end, 10);
	*out = n;
	return errno == 0 && *text >= '0' && *text <= '9' && *end == '\0' && n > 0;
}

/* One that is a plain number: NULL, or the option's name when it is none. */
static const char *
take_number(
    const struct cli_args *a, char letter, const char *option, const char *key, json_t *args)
{
	const char *text = cli_value(a, letter);
	json_int_t n;
	if (text == NULL) {
		return NULL;
	}
	if (!number(text, &n)) {
		return option;
	}
	json_object_set_new(args, key, json_integer(n));
	return NULL;
}

/* "1/100" */
static bool
take_rate(const struct cli_args *a, json_t *args)
{
	const char *text = cli_value(a, 'N');
	json_int_t n;
	if (text == NULL) {
		return true;
	}
	if (strncmp(text, "1/", 2) != 0 || !number(text + 2, &n)) {
		return false;
	}
	json_object_set_new(args, "one_in", json_integer(n));
	return true;
}

/* "1G+64K" */
static bool
take_range(const struct cli_args *a, json_t *args)
{
	const char *text = cli_value(a, 'g');
	const char *plus = text != NULL ? strchr(text, '+') : NULL;
	uint64_t off, len;
	char first[32];
	if (text == NULL) {
		return true;
	}
	if (plus == NULL || (size_t)(plus - text) >= sizeof(first)) {
		return false;
	}
	memcpy(first, text, (size_t)(plus - text));
	first[plus - text] = '\0';
	if (size_parse(first, &off) != 0 || size_parse(plus + 1, &len) != 0 || len == 0 ||
	    off > INT64_MAX / 2 || len > INT64_MAX / 2) {
		return false;
	}
	json_object_set_new(args, "offset", json_integer((json_int_t)off));
	json_object_set_new(args, "length", json_integer((json_int_t)len));
	return true;
}

/* The request, or NULL after an error. */
static json_t *
inject_args(const struct cli_verb *v, const struct cli_args *a)
{
	json_t *args = json_pack("{s:s, s:s*, s:s*, s:b, s:b, s:b, s:b}", "drive", a->words[0],
	    "error", cli_value(a, 'e'), "status", cli_value(a, 'S'), "corrupt",
	    cli_value(a, 'C') != NULL, "gone", cli_value(a, 'G') != NULL, "force", a->force,
	    "dry_run", a->dry_run);
	const char *bad = take_number(a, 'm', "--slow takes milliseconds", "slow_ms", args);
	bad = bad != NULL ? bad : take_number(a, 'w', "--hang takes seconds", "hang_s", args);
	bad = bad != NULL ? bad : take_number(a, 'c', "--count takes a number", "count", args);
	bad = bad != NULL            ? bad
	      : !take_rate(a, args)  ? "--rate takes 1/N"
	      : !take_range(a, args) ? "--range takes OFFSET+LENGTH"
				     : NULL;
	if (bad == NULL) {
		return args;
	}
	cli_usage_error(v, bad, NULL);
	json_decref(args);
	return NULL;
}

static int
inject_list(const struct cli_verb *v, const struct cli_args *a)
{
	static const struct column columns[] = {{"DRIVE", "path", COLUMN_TEXT},
	    {"SINCE", "since", COLUMN_TIME}, {"HITS", "hits", COLUMN_COUNT},
	    {"ON PURPOSE", "injected", COLUMN_TEXT}};
	json_t *result;
	int status = client_call("disk inject list", json_object(), &result);
	if (status == CLI_OK && !print_json(a, v, result)) {
		if (json_array_size(result) == 0 && !a->bare) {
			puts("no drive fails on purpose");
		} else {
			print_table(a, result, columns, sizeof(columns) / sizeof(columns[0]));
		}
	}
	json_decref(result);
	return status;
}

static int
inject_clear(const struct cli_verb *v, const struct cli_args *a)
{
	json_t *result;
	int status = client_call(
	    "disk inject clear", json_pack("{s:s}", "drive", cli_value(a, 'x')), &result);
	if (status == CLI_OK && !print_json(a, v, result)) {
		printf("ended on %d drives\n",
		    (int)json_integer_value(json_object_get(result, "cleared")));
	}
	json_decref(result);
	return status;
}

int
verb_disk_inject(const struct cli_verb *v, const struct cli_args *a)
{
	bool list = cli_value(a, 'l') != NULL, clear = cli_value(a, 'x') != NULL;
	json_t *result;
	if (list + clear + (a->word_count == 1) != 1) {
		return cli_usage_error(v, "one of DRIVE, -l and --clear", NULL);
	}
	if (list || clear) {
		return list ? inject_list(v, a) : inject_clear(v, a);
	}
	json_t *args = inject_args(v, a);
	if (args == NULL) {
		return CLI_USAGE;
	}
	if (!a->dry_run && !confirm_loss(a, "makes a drive fail, as if it were ill", a->words[0])) {
		json_decref(args);
		return CLI_FAILED;
	}
	int status = client_call("disk inject", args, &result);
	if (status == CLI_OK && !print_json(a, v, result)) {
		print_safe(json_string_value(json_object_get(result, "path")));
		printf("%s: %s\n", a->dry_run ? " would have" : "",
		    json_string_value(json_object_get(result, "injected")));
	}
	json_decref(result);
	return status;
}
