/*
 * cli.h - agate, the command line and the appliance's shell. A verb is one row of a table; it turns
 * its words into one request, and the answer into a table, tab-separated lines (-H) or JSON (-j).
 *
 * Exit status: 0 done; 1 refused or failed; 2 wrong usage; 3 the daemon can't be reached.
 */
#ifndef AGATE_CLI_H
#define AGATE_CLI_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

enum { CLI_OK = 0, CLI_FAILED = 1, CLI_USAGE = 2, CLI_UNREACHABLE = 3 };
#define CLI_WORDS_MAX 1024
#define CLI_OPTIONS_MAX 64

struct cli_args {
	bool bare, exact, json;                        /* -H -p -j */
	bool dry_run, force, yes, recursive, readonly; /* -n -f -y -r -R */
	bool stop, temporary, verbose, expand;         /* -s -t -v -e */
	const char *options[CLI_OPTIONS_MAX];          /* -o NAME=VALUE */
	const char *values['z' - 'A' + 1];             /* of other letters; see cli_value */
	size_t option_count;
	const char *words[CLI_WORDS_MAX]; /* positional */
	size_t word_count;
};

struct cli_verb {
	const char *noun, *verb;
	const char *flags; /* letters it takes, of "HpjnfyrRostve"; a ':' behind one: with a value */
	size_t words_min, words_max;
	const char *synopsis; /* behind "noun verb" */
	const char *help;     /* a few lines, with an example */
	int (*run)(const struct cli_verb *v, const struct cli_args *a);
};
extern const struct cli_verb cli_verbs[]; /* verbs.c; ends with noun NULL */

/* run.c */
int cli_run_words(int argc, char **argv); /* one command: noun verb words... */
int cli_usage_error(const struct cli_verb *v, const char *what, const char *word);
int cli_help(const char *noun, const char *verb);

/* The value of an option that its verb's flags give a ':', "" of one of the other letters; NULL: not given. */
const char *cli_value(const struct cli_args *a, char letter);

/* client.c */
/* Sends cmd and args (stolen). On success *out is a new reference (maybe JSON null). Prints the
 * error otherwise. Exit status. */
int client_call(const char *cmd, json_t *args, json_t **out);
/* The same for a conversation of several requests. */
struct client {
	int fd;
	FILE *in; /* of fd, which it closes */
};
int client_open(struct client *c);
int client_ask(struct client *c, const char *cmd, json_t *args, json_t **out);
void client_close(struct client *c);
/* Does a daemon listen? */
bool client_reaches(void);
/* What was typed, for the history of the pool; borrowed until the next one. */
void client_set_line(int argc, char **argv);

/* print.c */
struct column {
	const char *title;
	const char *key;
	enum { COLUMN_TEXT, COLUMN_SIZE, COLUMN_COUNT, COLUMN_FLAG, COLUMN_TIME } kind;
};
void print_table(
    const struct cli_args *a, json_t *rows, const struct column *columns, size_t count);
/* True when -j was given: printed, nothing more to do. */
bool print_json(const struct cli_args *a, const struct cli_verb *v, json_t *result);
void print_size(uint64_t bytes, bool exact, char *out, size_t len); /* "1.50G" or all digits */
void print_time(uint64_t when_s, char *out, size_t len);            /* local time */
/* A name from outside, safe for a terminal: control bytes become '?'. */
void print_safe(const char *s);
void print_safe_to(FILE *to, const char *s);
void print_padded(const char *s, int width); /* the same, with blanks behind up to width letters */

/* confirm.c */
/* On a terminal: the user must type name. Otherwise: only with -y or -f. */
bool confirm_destroy(const struct cli_args *a, const char *what, const char *name);
/* The same, in other words: "This <what>." */
bool confirm_loss(const struct cli_args *a, const char *what, const char *name);

/* shell.c */
int shell_run(void);

/* words.c */
/* Splits a line into words (quotes, backslashes, a comment behind '#'), in place; how many, or: */
enum { WORDS_OPEN_QUOTE = -1, WORDS_TOO_MANY = -2 };
int words_split(char *line, char **out, int max);
/* "nvme[0-6]n1" -> seven names, "d[00-11]" -> twelve of two digits; several ranges multiply. Adds
 * to list; false when it isn't a good range or too many. */
bool words_expand(const char *word, json_t *list);

/* verbs_list.c: a new array in the order of a column */
json_t *list_sorted(json_t *rows, const struct column *by, bool down);
/* filesystem, snapshot or all, or the one of others that -t names, else by the last word; NULL: neither, it has been said. */
const char *list_type(const struct cli_verb *v, const struct cli_args *a, const char *others);

/* verbs_accounts.c: names of users and groups in names of properties */
bool account_name_resolve(const struct cli_verb *v, const char *prop, char *out, size_t len);

/* verbs_fs.c, for others like these */
json_t *options_array(const struct cli_args *a); /* of -o */
/* Calls, and says done: nothing else to show. */
int call_and_say(const struct cli_verb *v, const struct cli_args *a, json_t *args, const char *done,
    const char *name);

/* verbs */
int verb_pool_create(const struct cli_verb *v, const struct cli_args *a);
int verb_pool_destroy(const struct cli_verb *v, const struct cli_args *a);
int verb_pool_list(const struct cli_verb *v, const struct cli_args *a);
int verb_pool_status(const struct cli_verb *v, const struct cli_args *a);
int verb_pool_export(const struct cli_verb *v, const struct cli_args *a);
int verb_pool_import(const struct cli_verb *v, const struct cli_args *a);
int verb_pool_check(const struct cli_verb *v, const struct cli_args *a);
int verb_pool_add(const struct cli_verb *v, const struct cli_args *a);
int verb_pool_remove(const struct cli_verb *v, const struct cli_args *a);
int verb_pool_scrub(const struct cli_verb *v, const struct cli_args *a);
int verb_pool_trim(const struct cli_verb *v, const struct cli_args *a);
int verb_pool_offline(const struct cli_verb *v, const struct cli_args *a);
int verb_pool_online(const struct cli_verb *v, const struct cli_args *a);
int verb_pool_attach(const struct cli_verb *v, const struct cli_args *a);
int verb_pool_detach(const struct cli_verb *v, const struct cli_args *a);
int verb_pool_replace(const struct cli_verb *v, const struct cli_args *a);
int verb_pool_clear(const struct cli_verb *v, const struct cli_args *a);
int verb_pool_spare_add(const struct cli_verb *v, const struct cli_args *a);
int verb_pool_spare_remove(const struct cli_verb *v, const struct cli_args *a);
int verb_pool_get(const struct cli_verb *v, const struct cli_args *a);
int verb_pool_set(const struct cli_verb *v, const struct cli_args *a);
int verb_pool_history(const struct cli_verb *v, const struct cli_args *a);
int verb_pool_events(const struct cli_verb *v, const struct cli_args *a);
int verb_fs_create(const struct cli_verb *v, const struct cli_args *a);
int verb_fs_destroy(const struct cli_verb *v, const struct cli_args *a);
int verb_fs_list(const struct cli_verb *v, const struct cli_args *a);
int verb_fs_snapshot(const struct cli_verb *v, const struct cli_args *a);
int verb_fs_diff(const struct cli_verb *v, const struct cli_args *a);
int verb_fs_undestroy(const struct cli_verb *v, const struct cli_args *a);
int verb_fs_rename(const struct cli_verb *v, const struct cli_args *a);
int verb_fs_hold(const struct cli_verb *v, const struct cli_args *a);
int verb_fs_release(const struct cli_verb *v, const struct cli_args *a);
int verb_fs_holds(const struct cli_verb *v, const struct cli_args *a);
int verb_fs_rollback(const struct cli_verb *v, const struct cli_args *a);
int verb_fs_clone(const struct cli_verb *v, const struct cli_args *a);
int verb_fs_promote(const struct cli_verb *v, const struct cli_args *a);
int verb_schedule_create(const struct cli_verb *v, const struct cli_args *a);
int verb_schedule_list(const struct cli_verb *v, const struct cli_args *a);
int verb_schedule_change(const struct cli_verb *v, const struct cli_args *a);
int verb_pool_upgrade(const struct cli_verb *v, const struct cli_args *a);
int verb_fs_space(const struct cli_verb *v, const struct cli_args *a);
int verb_fs_get(const struct cli_verb *v, const struct cli_args *a);
int verb_fs_set(const struct cli_verb *v, const struct cli_args *a);
int verb_share_create(const struct cli_verb *v, const struct cli_args *a);
int verb_share_set(const struct cli_verb *v, const struct cli_args *a);
int verb_share_remove(const struct cli_verb *v, const struct cli_args *a);
int verb_share_list(const struct cli_verb *v, const struct cli_args *a);
int verb_disk_list(const struct cli_verb *v, const struct cli_args *a);
int verb_disk_bind(const struct cli_verb *v, const struct cli_args *a);
int verb_disk_unbind(const struct cli_verb *v, const struct cli_args *a);
int verb_disk_health(const struct cli_verb *v, const struct cli_args *a);
int verb_disk_inject(const struct cli_verb *v, const struct cli_args *a);
int verb_system_status(const struct cli_verb *v, const struct cli_args *a);

#endif
