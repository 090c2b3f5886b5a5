/* agate.c - main(): one command from the arguments, or the shell. */
#include <stdio.h>
#include <string.h>
#include "cli/cli.h"

const struct cli_verb cli_verbs[] = {
    {"pool", "create", "njfo", 2, CLI_WORDS_MAX,
	"[-nf] [-o logsize=SIZE] NAME SET... [log DRIVE...] [spare DRIVE...]",
	"SET is raidz1|raidz2|raidz3|mirror followed by drives, or single drives. Names may hold a "
	"range.\n"
	"  pool create tank raidz1 nvme[0-6]n1 log nvme7n1 nvme8n1 spare nvme9n1\n"
	"  -n shows the layout's capacity and writes nothing; -f takes drives that aren't empty.",
	verb_pool_create},
    {"pool", "destroy", "nfyj", 1, 1, "[-n] [--yes] NAME",
	"Ends the pool and forgets its data. -n says what would go.", verb_pool_destroy},
    {"pool", "list", "Hpj", 0, 1, "[-Hpj] [NAME]", "Pools in service, with their capacity.",
	verb_pool_list},
    {"pool", "status", "jp", 0, 1, "[-jp] [NAME]",
	"Health of pools, their sets and drives, and what to do.", verb_pool_status},
    {"pool", "export", "j", 1, 1, "NAME",
	"Takes the pool out of service, cleanly, so that its drives can move.", verb_pool_export},
    {"pool", "import", "HjfRo", 0, 2,
	"[-fR] [-o missing_log=on] [-o rewind=N] [NAME|GUID [NEWNAME]]",
	"Without a name: pools found on drives that aren't in service. -R read-only; -f although "
	"another host used it last.",
	verb_pool_import},
    {"pool", "check", "j", 1, 1, "NAME",
	"Compares everything reachable with the space maps; changes nothing.", verb_pool_check},
    {"fs", "create", "oj", 1, 1, "[-o PROPERTY=VALUE] PATH",
	"  fs create -o compression=zstd tank/home", verb_fs_create},
    {"fs", "destroy", "nfyj", 1, 1, "[-n] [--yes] PATH",
	"Destroys the filesystem. -n says what would go.", verb_fs_destroy},
    {"fs", "list", "Hpj", 0, 1, "[-Hpj] [PATH]", "Filesystems and the space they take.",
	verb_fs_list},
    {"fs", "get", "Hpjr", 2, 2, "[-Hpjr] all|PROPERTY[,PROPERTY] PATH",
	"  fs get compression,recordsize tank/home", verb_fs_get},
    {"fs", "set", "j", 2, 2, "PROPERTY=VALUE PATH",
	"  fs set compression=zstd-3 tank/home\n  fs set compression= tank/home   (inherits again)",
	verb_fs_set},
    {"share", "create", "oj", 1, 1, "[-o rw=CLIENTS] [-o ro=CLIENTS] [-o squash=...] /PATH",
	"Serves a filesystem (made if it isn't there) or a directory of one over NFS.\n"
	"  share create -o rw=10.0.0.0/24 -o ro=10.0.1.5,fd00::/64 /tank/home\n"
	"  Properties: rw, ro, squash=root_squash|no_root_squash|all_squash, anonuid, anongid, "
	"insecure=on|off.",
	verb_share_create},
    {"share", "set", "oj", 1, 1, "-o PROPERTY=VALUE /PATH",
	"Changes a share; clients notice with their next call.", verb_share_set},
    {"share", "remove", "j", 1, 1, "/PATH", "Stops serving it. The data stays.", verb_share_remove},
    {"share", "list", "Hj", 0, 0, "[-Hj]", "Shares and who may use them.", verb_share_list},
    {"disk", "list", "Hpj", 0, 0, "[-Hpj]", "Drives of this machine and what they are used for.",
	verb_disk_list},
    {"system", "status", "Hjp", 0, 0, "[-Hjp]", "The daemon: ports, memory, calls.",
	verb_system_status},
    {NULL, NULL, NULL, 0, 0, NULL, NULL, NULL},
};

int
cli_usage_error(const struct cli_verb *v, const char *what, const char *word)
{
	fprintf(stderr, "agate: %s%s%s\nusage: %s %s %s\n", what, word != NULL ? ": " : "",
	    word != NULL ? word : "", v->noun, v->verb, v->synopsis);
	return CLI_USAGE;
}

int
cli_help(const char *noun, const char *verb)
{
	int shown = 0;
	for (const struct cli_verb *v = cli_verbs; v->noun != NULL; v++) {
		if ((noun != NULL && strcmp(noun, v->noun) != 0) ||
		    (verb != NULL && strcmp(verb, v->verb) != 0)) {
			continue;
		}
		printf("%s %s %s\n", v->noun, v->verb, v->synopsis);
		if (noun != NULL) {
			printf("  %s\n", v->help + (strncmp(v->help, "  ", 2) == 0 ? 2 : 0));
		}
		shown++;
	}
	if (shown == 0) {
		fprintf(stderr, "agate: there is no command '%s%s%s'; 'help' lists them\n", noun,
		    verb != NULL ? " " : "", verb != NULL ? verb : "");
		return CLI_USAGE;
	}
	if (noun == NULL) {
		puts("\nhelp NOUN [VERB] tells more. -H: tab-separated, -p: exact numbers, -j: "
		     "JSON, -n: dry run.");
	}
	return CLI_OK;
}

static const struct cli_verb *
cli_find(const char *noun, const char *verb)
{
	for (const struct cli_verb *v = cli_verbs; v->noun != NULL; v++) {
		if (strcmp(v->noun, noun) == 0 && strcmp(v->verb, verb) == 0) {
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
	};
	for (size_t i = 0; i < sizeof(flags) / sizeof(flags[0]); i++) {
		if (flags[i].letter == letter) {
			*(bool *)((char *)a + flags[i].offset) = true;
		}
	}
}

/* One word that starts with '-'. Takes the next one for -o. */
static int
cli_option(const struct cli_verb *v, struct cli_args *a, char **argv, int *at, int argc)
{
	const char *word = argv[*at];
	if (strcmp(word, "--yes") == 0) {
		word = "-y";
	}
	if (strcmp(word, "--help") == 0 || strcmp(word, "-h") == 0) {
		cli_help(v->noun, v->verb);
		return -1;
	}
	for (const char *p = word + 1; *p != '\0'; p++) {
		if (strchr(v->flags, *p) == NULL) {
			return cli_usage_error(v, "no such option here", word);
		}
		if (*p != 'o') {
			cli_set_flag(a, *p);
			continue;
		}
		if (p[1] != '\0' || *at + 1 >= argc || a->option_count == CLI_OPTIONS_MAX) {
			return cli_usage_error(v, "-o takes name=value", NULL);
		}
		a->options[a->option_count++] = argv[++*at];
	}
	return CLI_OK;
}

static int
cli_parse(const struct cli_verb *v, int argc, char **argv, struct cli_args *a)
{
	bool only_words = false;
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
		return cli_help(argc > 1 ? argv[1] : NULL, argc > 2 ? argv[2] : NULL);
	}
	if (argc == 1) {
		cli_help(argv[0], NULL);
		return CLI_USAGE;
	}
	const struct cli_verb *v = cli_find(argv[0], argv[1]);
	if (v == NULL) {
		fprintf(stderr, "agate: there is no command '%s %s'; 'help' lists them\n", argv[0],
		    argv[1]);
		return CLI_USAGE;
	}
	struct cli_args a = {0};
	int status = cli_parse(v, argc - 2, argv + 2, &a);
	if (status != CLI_OK) {
		return status < 0 ? CLI_OK : status;
	}
	return v->run(v, &a);
}

int
main(int argc, char **argv)
{
	if (argc > 1 && (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0)) {
		return cli_help(NULL, NULL);
	}
	if (argc > 1 && strcmp(argv[1], "--version") == 0) {
		puts("agate " PACKAGE_VERSION);
		return CLI_OK;
	}
	if (argc > 1) {
		return cli_run_words(argc - 1, argv + 1);
	}
	return shell_run();
}
