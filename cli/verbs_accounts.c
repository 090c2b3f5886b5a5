/* verbs_accounts.c - fs userspace, fs groupspace; names of users and groups are those of the
 * machine that the command runs on. */
#include <grp.h>
#include <pwd.h>
#include <stdio.h>
#include <string.h>
#include "cli/cli.h"

#define ACCOUNT_COLUMNS_MAX 6

static const struct {
	const char *name;
	struct column column;
} known[] = {
    {"type", {"TYPE", "type", COLUMN_TEXT}},
    {"name", {"NAME", "name", COLUMN_TEXT}},
    {"used", {"USED", "used", COLUMN_SIZE}},
    {"quota", {"QUOTA", "quota", COLUMN_SIZE}},
    {"objused", {"OBJUSED", "objused", COLUMN_COUNT}},
    {"objquota", {"OBJQUOTA", "objquota", COLUMN_COUNT}},
};

static const struct column *
account_column(const char *name, size_t len)
{
	for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++) {
		if (strlen(known[i].name) == len && strncmp(known[i].name, name, len) == 0) {
			return &known[i].column;
		}
	}
	return NULL;
}

static size_t
account_columns(const struct cli_verb *v, const char *text, struct column *out)
{
	size_t count = 0;
	for (;; text++) {
		size_t len = strcspn(text, ",");
		const struct column *c = account_column(text, len);
		if (c == NULL || count == ACCOUNT_COLUMNS_MAX) {
			cli_usage_error(
			    v, c == NULL ? "there is no such column" : "too many columns", text);
			return 0;
		}
		out[count++] = *c;
		text += len;
		if (*text == '\0') {
			return count;
		}
	}
}

/* What there is no quota for is "-"; a number without a name stays one. */
static void
rows_fill(json_t *rows, bool user, bool numeric)
{
	json_t *row;
	size_t i;
	json_array_foreach(rows, i, row)
	{
		json_int_t id = json_integer_value(json_object_get(row, "id"));
		const struct passwd *pw = user && !numeric ? getpwuid((uid_t)id) : NULL;
		const struct group *gr = !user && !numeric ? getgrgid((gid_t)id) : NULL;
		const char *name = pw != NULL ? pw->pw_name : gr != NULL ? gr->gr_name : NULL;
		char number[24];
		snprintf(number, sizeof(number), "%lld", (long long)id);
		json_t *text = json_string(name != NULL ? name : number);
		json_object_set_new(row, "name", text != NULL ? text : json_string(number));
		if (json_object_get(row, "quota") == NULL) {
			json_object_set_new(row, "quota", json_string("-"));
		}
		if (json_object_get(row, "objquota") == NULL) {
			json_object_set_new(row, "objquota", json_string("-"));
		}
	}
}

int
verb_fs_space(const struct cli_verb *v, const struct cli_args *a)
{
	struct column columns[ACCOUNT_COLUMNS_MAX];
	const char *text = cli_value(a, 'o'), *up = cli_value(a, 's'), *down = cli_value(a, 'S');
	const char *by_name = up != NULL ? up : down;
	bool user = strcmp(v->verb, "userspace") == 0;
	size_t count = account_columns(
	    v, text != NULL ? text : "type,name,used,quota,objused,objquota", columns);
	const struct column *by = by_name != NULL ? account_column(by_name, strlen(by_name)) : NULL;
	char cmd[32];
	json_t *result;
	if (count == 0) {
		return CLI_USAGE;
	}
	if (by_name != NULL && by == NULL) {
		return cli_usage_error(v, "there is no such column", by_name);
	}
	snprintf(cmd, sizeof(cmd), "fs %s", v->verb);
	int status = client_call(cmd, json_pack("{s:s}", "name", a->words[0]), &result);
	if (status == CLI_OK && !print_json(a, v, result)) {
		json_t *rows = json_object_get(result, "rows");
		rows_fill(rows, user, a->dry_run);
		json_t *sorted =
		    by != NULL ? list_sorted(rows, by, down != NULL) : json_incref(rows);
		if (!json_is_true(json_object_get(result, "complete"))) {
			fprintf(stderr, "still counting, %d%% done: these figures are too low\n",
			    (int)json_integer_value(json_object_get(result, "percent")));
		}
		print_table(a, sorted, columns, count);
		json_decref(sorted);
	}
	json_decref(result);
	return status;
}

/* "userquota@ann" to "userquota@1000", in out; as it is when there is nothing to look up. False,
 * with the error said: there is nobody of that name. */
bool
account_name_resolve(const struct cli_verb *v, const char *prop, char *out, size_t len)
{
	const char *at = strchr(prop, '@');
	bool user = strncmp(prop, "user", 4) == 0, group = strncmp(prop, "group", 5) == 0;
	unsigned long long id;
	snprintf(out, len, "%s", prop);
	if (at == NULL || at[1] == '\0' || strlen(prop) >= len || (!user && !group) ||
	    strspn(at + 1, "0123456789") == strlen(at + 1)) {
		return true;
	}
	if (user) {
		const struct passwd *pw = getpwnam(at + 1);
		id = pw != NULL ? pw->pw_uid : UINT64_MAX;
	} else {
		const struct group *gr = getgrnam(at + 1);
		id = gr != NULL ? gr->gr_gid : UINT64_MAX;
	}
	if (id == UINT64_MAX) {
		cli_usage_error(v,
		    user ? "this machine knows no such user; give the number"
			 : "this machine knows no such group; give the number",
		    at + 1);
		return false;
	}
	snprintf(out, len, "%.*s@%llu", (int)(at - prop), prop, id);
	return true;
}
