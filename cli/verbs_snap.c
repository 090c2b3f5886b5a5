/* verbs_snap.c - snapshots: fs snapshot, destroy, rename, hold, release, holds, rollback, clone,
 * promote. */
#include <stdio.h>
#include <string.h>
#include "cli/cli.h"

/* "took 'tank@a'", "took 3 snapshots" */
static void
say_snapshots(const char *done, json_t *names)
{
	size_t count = json_array_size(names);
	if (count == 1) {
		printf("%s '", done);
		print_safe(json_string_value(json_array_get(names, 0)));
		puts("'");
	} else {
		printf("%s %zu snapshots\n", done, count);
	}
}

int
verb_fs_snapshot(const struct cli_verb *v, const struct cli_args *a)
{
	json_t *result;
	int status = client_call("fs snapshot",
	    json_pack("{s:s, s:b}", "name", a->words[0], "recursive", a->recursive), &result);
	if (status == CLI_OK && !print_json(a, v, result)) {
		say_snapshots("took", json_object_get(result, "snapshots"));
	}
	json_decref(result);
	return status;
}

static json_t *
destroy_args(const struct cli_args *a, bool dry_run)
{
	return json_pack(
	    "{s:s, s:b, s:b}", "name", a->words[0], "dry_run", dry_run, "recursive", a->recursive);
}

static void
say_reclaim(json_t *result, bool dry_run, bool name_them)
{
	char bytes[32];
	json_t *names = json_object_get(result, "snapshots"), *name;
	size_t i;
	print_size((uint64_t)json_integer_value(json_object_get(result, "reclaim")), false, bytes,
	    sizeof(bytes));
	if (name_them) {
		json_array_foreach(names, i, name)
		{
			print_safe(json_string_value(name));
			putchar('\n');
		}
	}
	say_snapshots(dry_run ? "would destroy" : "destroyed", names);
	json_int_t undo = json_integer_value(json_object_get(result, "undo_s"));
	if (undo > 0) {
		printf("gives back %s, within %lld hours; until then fs undestroy brings back what "
		       "was destroyed\n",
		    bytes, (long long)undo / 3600);
	} else {
		printf("%s %s\n", dry_run ? "would give back" : "gives back", bytes);
	}
}

static int
destroy_snapshots(const struct cli_verb *v, const struct cli_args *a)
{
	json_t *result;
	bool several = a->recursive || strpbrk(a->words[0], "%,") != NULL;
	char what[640];
	snprintf(what, sizeof(what), "destroys %s '%.500s'",
	    several ? "the snapshots" : "the snapshot", a->words[0]);
	if (!a->dry_run && !confirm_loss(a, what, a->words[0])) {
		return CLI_FAILED;
	}
	int status = client_call("fs destroy", destroy_args(a, a->dry_run), &result);
	if (status == CLI_OK && !print_json(a, v, result)) {
		say_reclaim(result, a->dry_run, a->dry_run || a->verbose);
	}
	json_decref(result);
	return status;
}

int
verb_fs_destroy(const struct cli_verb *v, const struct cli_args *a)
{
	json_t *result;
	if (strchr(a->words[0], '@') != NULL) {
		return destroy_snapshots(v, a);
	}
	if (!a->dry_run && !confirm_destroy(a, "filesystem", a->words[0])) {
		return CLI_FAILED;
	}
	int status = client_call("fs destroy", destroy_args(a, a->dry_run), &result);
	if (status == CLI_OK && !print_json(a, v, result)) {
		char used[32];
		print_size((uint64_t)json_integer_value(json_object_get(result, "used")), false,
		    used, sizeof(used));
		printf("%s '%s': %s in %lld objects\n", a->dry_run ? "would destroy" : "destroyed",
		    a->words[0], used,
		    (long long)json_integer_value(json_object_get(result, "objects")));
		if (json_integer_value(json_object_get(result, "undo_s")) > 0) {
			printf("fs undestroy %s brings it back, within %lld hours\n", a->words[0],
			    (long long)json_integer_value(json_object_get(result, "undo_s")) /
				3600);
		}
	}
	json_decref(result);
	return status;
}

int
verb_fs_rename(const struct cli_verb *v, const struct cli_args *a)
{
	return call_and_say(v, a, json_pack("{s:s, s:s}", "name", a->words[0], "to", a->words[1]),
	    "renamed", a->words[0]);
}

/* Each name of a list on a line of its own. */
static void
say_names(json_t *names)
{
	json_t *name;
	size_t i;
	json_array_foreach(names, i, name)
	{
		print_safe(json_string_value(name));
		putchar('\n');
	}
}

static void
say_back(const struct cli_args *a, json_t *result)
{
	const char *as = json_string_value(json_object_get(result, "as"));
	json_t *snapshots = json_object_get(result, "snapshots");
	const char *lead = a->dry_run ? "would be back" : "back again";
	if (snapshots != NULL) {
		say_names(a->dry_run ? snapshots : NULL);
		say_snapshots(a->dry_run ? "would bring back" : "brought back", snapshots);
		if (as != NULL) {
			fputs("as @", stdout);
			print_safe(as);
			putchar('\n');
		}
		return;
	}
	say_names(a->dry_run ? json_object_get(result, "filesystems") : NULL);
	printf("%s: '", lead);
	print_safe(json_string_value(json_object_get(result, "name")));
	printf("', with %lld schedules; no shares: none was there when it was destroyed\n",
	    (long long)json_integer_value(json_object_get(result, "schedules")));
}

int
verb_fs_undestroy(const struct cli_verb *v, const struct cli_args *a)
{
	json_t *args = json_pack("{s:s, s:b, s:b}", "name", a->words[0], "dry_run", a->dry_run,
	    "recursive", a->recursive);
	json_t *result;
	if (a->word_count > 1) {
		json_object_set_new(args, "to", json_string(a->words[1]));
	}
	int status = client_call("fs undestroy", args, &result);
	if (status == CLI_OK && !print_json(a, v, result)) {
		say_back(a, result);
	}
	json_decref(result);
	return status;
}

int
verb_fs_hold(const struct cli_verb *v, const struct cli_args *a)
{
	return call_and_say(v, a, json_pack("{s:s, s:s}", "tag", a->words[0], "name", a->words[1]),
	    "held", a->words[1]);
}

int
verb_fs_release(const struct cli_verb *v, const struct cli_args *a)
{
	return call_and_say(v, a, json_pack("{s:s, s:s}", "tag", a->words[0], "name", a->words[1]),
	    "released", a->words[1]);
}

int
verb_fs_holds(const struct cli_verb *v, const struct cli_args *a)
{
	static const struct column columns[] = {{"NAME", "name", COLUMN_TEXT},
	    {"TAG", "tag", COLUMN_TEXT}, {"SINCE", "time", COLUMN_TIME}};
	json_t *result;
	int status = client_call("fs holds", json_pack("{s:s}", "name", a->words[0]), &result);
	if (status == CLI_OK && !print_json(a, v, result)) {
		if (json_array_size(result) == 0 && !a->bare) {
			puts("no holds");
		} else {
			print_table(a, result, columns, sizeof(columns) / sizeof(columns[0]));
		}
	}
	json_decref(result);
	return status;
}

int
verb_fs_rollback(const struct cli_verb *v, const struct cli_args *a)
{
	const char *keep = cli_value(a, 'k');
	char what[1024];
	json_t *result;
	if (keep != NULL) {
		snprintf(what, sizeof(what),
		    "makes '%.*s' what it was in '%s'; what it is now becomes '%s'",
		    (int)strcspn(a->words[0], "@"), a->words[0], a->words[0], keep);
	} else {
		snprintf(what, sizeof(what), "discards all changes of '%.*s' since '%s'%s",
		    (int)strcspn(a->words[0], "@"), a->words[0], a->words[0],
		    a->recursive ? ", and all newer snapshots" : "");
	}
	bool lossless = keep != NULL && !a->recursive;
	if (!a->dry_run && !lossless && !confirm_loss(a, what, a->words[0])) {
		return CLI_FAILED;
	}
	json_t *args = json_pack("{s:s, s:b, s:b, s:s*}", "name", a->words[0], "recursive",
	    a->recursive, "dry_run", a->dry_run, "keep_as", keep);
	int status = client_call("fs rollback", args, &result);
	if (status == CLI_OK && !print_json(a, v, result)) {
		json_t *newer = json_object_get(result, "snapshots");
		if (json_array_size(newer) > 0) {
			say_snapshots(a->dry_run ? "would destroy" : "destroyed", newer);
		}
		json_int_t forgotten = json_integer_value(json_object_get(result, "forgotten"));
		if (forgotten > 0) {
			printf("%lld destroyed snapshots %s be had back any more\n",
			    (long long)forgotten, a->dry_run ? "couldn't" : "can't");
		}
		printf("%s to '%s'\n", a->dry_run ? "would roll back" : "rolled back", a->words[0]);
	}
	json_decref(result);
	return status;
}

int
verb_fs_clone(const struct cli_verb *v, const struct cli_args *a)
{
	return call_and_say(v, a,
	    json_pack("{s:s, s:s, s:o}", "name", a->words[0], "to", a->words[1], "props",
		options_array(a)),
	    "created", a->words[1]);
}

int
verb_fs_promote(const struct cli_verb *v, const struct cli_args *a)
{
	return call_and_say(v, a, json_pack("{s:s}", "name", a->words[0]), "promoted", a->words[0]);
}

int
verb_pool_upgrade(const struct cli_verb *v, const struct cli_args *a)
{
	json_t *result;
	int status = client_call("pool upgrade", json_pack("{s:s}", "name", a->words[0]), &result);
	if (status == CLI_OK && !print_json(a, v, result)) {
		bool some = json_integer_value(json_object_get(result, "enabled")) != 0;
		printf(some ? "upgraded '%s'\n" : "'%s' has all features already\n", a->words[0]);
	}
	json_decref(result);
	return status;
}
