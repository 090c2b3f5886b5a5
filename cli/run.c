/*
 * run.c - one command: its words against the table of verbs, then the verb. Everything is checked
 * before anything is sent.
 */
#include <stdio.h>
#include <string.h>
#include "cli/cli.h"

int
cli_usage_error(const struct cli_verb *v, const char *what, const char *word)
{
	fprintf(stderr, "agate: %s", what);
	if (word != NULL) {
		fputs(": ", stderr);
		print_safe_to(stderr, word);
	}
	fprintf(stderr, "\n       Nothing was changed.\nusage: agate %s %s %s\n", v->noun, v->verb,
	    v->synopsis);
	return CLI_USAGE;
}

/* What other systems call otherwise. NULL: nothing is known. */
static const char *
cli_instead(const char *noun, const char *verb)
{
	static const struct {
		const char *noun, *verb, *text;
	} all[] = {
	    {"fs", "inherit", "fs set PROPERTY= PATH   inherits it again."},
	    {"fs", "snap", "fs snapshot PATH@SNAPSHOT"},
	    {"fs", "mount", "share create /PATH   serves a filesystem; clients mount that."},
	    {"fs", "unmount", "share remove /PATH   stops serving it."},
	    {"fs", "share", "share create /PATH"},
	    {"fs", "unshare", "share remove /PATH"},
	};
	for (size_t i = 0; verb != NULL && i < sizeof(all) / sizeof(all[0]); i++) {
		if (strcmp(all[i].noun, noun) == 0 && strcmp(all[i].verb, verb) == 0) {
			return all[i].text;
		}
	}
	return NULL;
}

/* A verb where a noun belongs: which nouns have it. */
static void
cli_say_nouns(const char *word)
{
	bool some = false;
	for (const struct cli_verb *v = cli_verbs; v->noun != NULL; v++) {
		if (strcmp(v->verb, word) == 0) {
			fprintf(stderr, "%s'%s %s'", some ? ", " : "       There is ", v->noun,
			    v->verb);
			some = true;
		}
	}
	fputs(some ? ".\n" : "", stderr);
}

static void
cli_no_command(const char *noun, const char *verb)
{
	const char *instead = cli_instead(noun, verb);
	fputs("agate: there is no command '", stderr);
	print_safe_to(stderr, noun);
	if (verb != NULL) {
		putc(' ', stderr);
		print_safe_to(stderr, verb);
	}
	fputs("'\n       Nothing was changed.\n", stderr);
	if (instead != NULL) {
		fprintf(stderr, "       %s\n", instead);
	} else {
		cli_say_nouns(noun);
		fputs("       'help' lists the commands.\n", stderr);
	}
}

/* "spare" of "spare add" */
static bool
cli_begins(const char *verb, const char *word)
{
	size_t len = strlen(word);
	return strncmp(verb, word, len) == 0 && verb[len] == ' ';
}

int
cli_help(const char *noun, const char *verb)
{
	int shown = 0;
	for (const struct cli_verb *v = cli_verbs; v->noun != NULL; v++) {
		if ((noun != NULL && strcmp(noun, v->noun) != 0) ||
		    (verb != NULL && strcmp(verb, v->verb) != 0 && !cli_begins(v->verb, verb))) {
			continue;
		}
		printf("%s %s %s\n", v->noun, v->verb, v->synopsis);
		if (noun != NULL) {
			printf("  %s\n", v->help + (strncmp(v->help, "  ", 2) == 0 ? 2 : 0));
		}
		shown++;
	}
	if (shown == 0) {
		cli_no_command(noun, verb);
		return CLI_USAGE;
	}
	if (noun == NULL) {
		puts("\nhelp NOUN [VERB] tells more. -H: tab-separated, -p: exact numbers, -j: "
		     "JSON, -n: dry run.");
	}
	return CLI_OK;
}

/* A verb may be two words: "spare add". */
static const struct cli_verb *
cli_find(int argc, char **argv)
{
	char two[64] = "";
	if (argc > 2) {
		snprintf(two, sizeof(two), "%.20s %.20s", argv[1], argv[2]);
	}
	for (const struct cli_verb *v = cli_verbs; v->noun != NULL; v++) {
		if (strcmp(v->noun, argv[0]) == 0 &&
		    (strcmp(v->verb, argv[1]) == 0 || strcmp(v->verb, two) == 0)) {
			return v;
		}
	}
	return NULL;
}

static void
cli_set_flag(struct cli_args *a, char letter)
{
	static const struct {
		char letter;
		size_t offset;
	} flags[] = {
	    {'H', offsetof(struct cli_args, bare)},
	    {'p', offsetof(struct cli_args, exact)},
	    {'j', offsetof(struct cli_args, json)},
	    {'n', offsetof(struct cli_args, dry_run)},
	    {'f', offsetof(struct cli_args, force)},
	    {'y', offsetof(struct cli_args, yes)},
	    {'r', offsetof(struct cli_args, recursive)},
	    {'R', offsetof(struct cli_args, readonly)},
	    {'s', offsetof(struct cli_args, stop)},
	    {'e', offsetof(struct cli_args, expand)},
	    {'t', offsetof(struct cli_args, temporary)},
	    {'v', offsetof(struct cli_args, verbose)},
	};
	for (size_t i = 0; i < sizeof(flags) / sizeof(flags[0]); i++) {
		if (flags[i].letter == letter) {
			*(bool *)((char *)a + flags[i].offset) = true;
			return;
		}
	}
	a->values[letter - 'A'] = ""; /* cli_value tells that it was given */
}

const char *
cli_value(const struct cli_args *a, char letter)
{
	return a->values[letter - 'A'];
}

static const struct {
	const char *name;
	char letter;
} long_options[] = {{"--yes", 'y'}, {"--keep-as", 'k'}, {"--error", 'e'}, {"--status", 'S'},
    {"--corrupt", 'C'}, {"--slow", 'm'}, {"--hang", 'w'}, {"--gone", 'G'}, {"--rate", 'N'},
    {"--count", 'c'}, {"--range", 'g'}, {"--clear", 'x'}};

/* The letters of a word that starts with '-'; a long option is one. NULL: there is no such one. */
static const char *
cli_letters(const char *word, char one[2])
{
	if (strncmp(word, "--", 2) != 0) {
		return word + 1;
	}
	for (size_t i = 0; i < sizeof(long_options) / sizeof(long_options[0]); i++) {
		if (strcmp(word, long_options[i].name) == 0) {
			one[0] = long_options[i].letter;
			return one;
		}
	}
	return NULL;
}

/* Takes what is behind the letter, or the next word. */
static const char *
cli_take_value(const char *letter, char **argv, int *at, int argc)
{
	return letter[1] != '\0' ? letter + 1 : *at + 1 < argc ? argv[++*at] : "";
}

/* One word that starts with '-'. Takes the next one for a value. */
static int
cli_option(const struct cli_verb *v, struct cli_args *a, char **argv, int *at, int argc)
{
	const char *word = argv[*at];
	char one[2] = "";
	if (strcmp(word, "--help") == 0 || strcmp(word, "-h") == 0) {
		cli_help(v->noun, v->verb);
		return -1;
	}
	const char *p = cli_letters(word, one);
	if (p == NULL) {
		return cli_usage_error(v, "no such option here", word);
	}
	for (; *p != '\0'; p++) {
		const char *known = *p != ':' ? strchr(v->flags, *p) : NULL;
		if (known == NULL) {
			return cli_usage_error(v, "no such option here", word);
		}
		if (known[1] == ':') {
			const char *given = cli_take_value(p, argv, at, argc);
			if (given[0] == '\0') {
				return cli_usage_error(v, "an option's value is missing", word);
			}
			a->values[*p - 'A'] = given;
			break;
		}
		if (*p != 'o') {
			cli_set_flag(a, *p);
			continue;
		}
		const char *value = cli_take_value(p, argv, at, argc);
		if (strchr(value, '=') == NULL) {
			return cli_usage_error(v, "-o takes name=value", NULL);
		}
		if (a->option_count == CLI_OPTIONS_MAX) {
			return cli_usage_error(v, "too many options", NULL);
		}
		a->options[a->option_count++] = value;
		break;
	}
	return CLI_OK;
}

/* Requests are JSON, which is UTF-8: other words could only be sent mangled. */
static int
cli_check_text(const struct cli_verb *v, int argc, char **argv)
{
	for (int i = 0; i < argc; i++) {
		json_t *text = json_string(argv[i]);
		json_decref(text);
		if (text == NULL) {
			return cli_usage_error(v, "a word isn't text (UTF-8)", NULL);
		}
	}
	return CLI_OK;
}

static int
cli_parse(const struct cli_verb *v, int argc, char **argv, struct cli_args *a)
{
	bool only_words = false;
	if (cli_check_text(v, argc, argv) != CLI_OK) {
		return CLI_USAGE;
	}
	for (int i = 0; i < argc; i++) {
		if (!only_words && strcmp(argv[i], "--") == 0) {
			only_words = true;
		} else if (!only_words && argv[i][0] == '-' && argv[i][1] != '\0') {
			int status = cli_option(v, a, argv, &i, argc);
			if (status != CLI_OK) {
				return status;
			}
		} else if (a->word_count == CLI_WORDS_MAX) {
			return cli_usage_error(v, "too many words", NULL);
		} else {
			a->words[a->word_count++] = argv[i];
		}
	}
	if (a->word_count < v->words_min) {
		return cli_usage_error(v, "something is missing", NULL);
	}
	if (a->word_count > v->words_max) {
		return cli_usage_error(v, "one word too many", a->words[v->words_max]);
	}
	return CLI_OK;
}

int
cli_run_words(int argc, char **argv)
{
	if (argc == 0) {
		return CLI_OK;
	}
	if (strcmp(argv[0], "help") == 0) {
		char verb[64] = "";
		for (int i = 2; i < argc && i < 4; i++) {
			size_t len = strlen(verb);
			snprintf(
			    verb + len, sizeof(verb) - len, "%s%.20s", i > 2 ? " " : "", argv[i]);
		}
		return cli_help(argc > 1 ? argv[1] : NULL, argc > 2 ? verb : NULL);
	}
	if (argc == 1) {
		/* a noun alone: what it offers */
		cli_help(argv[0], NULL);
		return CLI_USAGE;
	}
	const struct cli_verb *v = cli_find(argc, argv);
	if (v == NULL) {
		cli_no_command(argv[0], argv[1]);
		return CLI_USAGE;
	}
	struct cli_args a = {0};
	int more = strchr(v->verb, ' ') != NULL ? 3 : 2;
	int status = cli_parse(v, argc - more, argv + more, &a);
	if (status != CLI_OK) {
		return status < 0 ? CLI_OK : status;
	}
	client_set_line(argc, argv);
	return v->run(v, &a);
}
