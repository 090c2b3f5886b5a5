/* shell.c - the interactive shell: history, completion of nouns and verbs. */
#include <histedit.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>
#include "cli/cli.h"

#define HISTORY_LINES 500
#define PROMPT "agate> "
#define WAIT_STEPS 300 /* a minute */

static char *
shell_prompt(EditLine *el)
{
	static char prompt[] = PROMPT;
	(void)el;
	return prompt;
}

/* What could stand at the cursor: nouns first, then the noun's verbs. */
static void
shell_candidates(const char *noun, const char *start, json_t *out)
{
	for (const struct cli_verb *v = cli_verbs; v->noun != NULL; v++) {
		const char *word = noun == NULL ? v->noun : v->verb;
		if ((noun != NULL && strcmp(noun, v->noun) != 0) ||
		    strncmp(word, start, strlen(start)) != 0) {
			continue;
		}
		json_object_set_new(out, word, json_true());
	}
}

static size_t
shell_common(json_t *set)
{
	const char *key, *first = NULL;
	json_t *value;
	size_t common = 0;
	json_object_foreach(set, key, value)
	{
		if (first == NULL) {
			first = key;
			common = strlen(key);
		}
		size_t n = 0;
		while (n < common && key[n] == first[n]) {
			n++;
		}
		common = n;
	}
	return common;
}

static unsigned char
shell_complete(EditLine *el, int ch)
{
	const LineInfo *info = el_line(el);
	char line[256], *words[3] = {NULL, NULL, NULL};
	size_t len = (size_t)(info->cursor - info->buffer);
	(void)ch;
	if (len >= sizeof(line)) {
		return CC_ERROR;
	}
	memcpy(line, info->buffer, len);
	line[len] = '\0';
	bool fresh = len == 0 || line[len - 1] == ' ';
	int count = words_split(line, words, 3);
	int position = count - (fresh ? 0 : 1);
	if (count < 0 || position > 1) {
		return CC_ERROR;
	}
	const char *start = fresh ? "" : words[count - 1];
	json_t *set = json_object();
	shell_candidates(position == 0 ? NULL : words[0], start, set);
	unsigned char result = CC_ERROR;
	if (json_object_size(set) > 0) {
		const char *first = json_object_iter_key(json_object_iter(set));
		char add[64];
		size_t common = shell_common(set), typed = strlen(start);
		snprintf(add, sizeof(add), "%.*s%s", (int)(common - typed), first + typed,
		    json_object_size(set) == 1 ? " " : "");
		if (add[0] != '\0') {
			el_insertstr(el, add);
			result = CC_REFRESH;
		} else {
			const char *key;
			json_t *value;
			putchar('\n');
			json_object_foreach(set, key, value)
			{
				printf("%s  ", key);
			}
			putchar('\n');
			result = CC_REDISPLAY;
		}
	}
	json_decref(set);
	return result;
}

/* False: time to leave. status is set when there was a command. */
static bool
shell_line(const char *text, int *status)
{
	char *words[CLI_WORDS_MAX];
	char *line = strdup(text);
	bool go_on = true;
	if (line == NULL) {
		return false;
	}
	int count = words_split(line, words, CLI_WORDS_MAX);
	if (count < 0) {
		fprintf(stderr, "agate: %s\n       Nothing was changed.\n",
		    count == WORDS_OPEN_QUOTE ? "a quote is open" : "too many words");
		*status = CLI_USAGE;
	} else if (count > 0 && (strcmp(words[0], "exit") == 0 || strcmp(words[0], "quit") == 0)) {
		go_on = false;
	} else if (count > 0) {
		*status = cli_run_words(count, words);
	}
	free(line);
	return go_on;
}

static int
shell_script(void)
{
	char *line = NULL;
	size_t cap = 0;
	int worst = CLI_OK;
	bool go_on = true;
	while (go_on && getline(&line, &cap, stdin) > 0) {
		int status = CLI_OK;
		go_on = shell_line(line, &status);
		worst = status > worst ? status : worst;
	}
	free(line);
	return worst;
}

static void
shell_interrupted(int signal_number)
{
	(void)signal_number; /* ends the sleep, nothing else */
}

/* At a boot the console is there before the daemon, which takes up the pools first. */
static void
shell_wait(void)
{
	struct sigaction old, stop = {.sa_handler = shell_interrupted};
	const struct timespec step = {.tv_nsec = 200000000};
	bool waiting = !client_reaches();
	if (!waiting) {
		return;
	}
	puts("Waiting for agated, which is taking up the pools. Ctrl-C: don't wait.");
	sigaction(SIGINT, &stop, &old);
	for (int i = 0; waiting && i < WAIT_STEPS; i++) {
		waiting = nanosleep(&step, NULL) == 0 && !client_reaches();
	}
	sigaction(SIGINT, &old, NULL);
}

static void
shell_greet(void)
{
	json_t *status;
	puts("Agate. 'help' lists the commands, 'exit' leaves.");
	shell_wait();
	if (client_call("system status", json_object(), &status) == CLI_OK &&
	    json_integer_value(json_object_get(status, "pools")) == 0) {
		puts("No pool is in service: 'disk list' shows the drives, 'pool import' the pools "
		     "on them, 'help pool create' how to make one.");
	}
	json_decref(status);
}

int
shell_run(void)
{
	if (!isatty(STDIN_FILENO)) {
		return shell_script();
	}
	EditLine *el = el_init("agate", stdin, stdout, stderr);
	History *past = history_init();
	HistEvent event;
	int status = CLI_OK, len;
	if (el == NULL || past == NULL) {
		return shell_script();
	}
	history(past, &event, H_SETSIZE, HISTORY_LINES);
	el_set(el, EL_PROMPT, shell_prompt);
	el_set(el, EL_EDITOR, "emacs");
	el_set(el, EL_HIST, history, past);
	el_set(el, EL_ADDFN, "agate-complete", "complete a word", shell_complete);
	el_set(el, EL_BIND, "^I", "agate-complete", NULL);
	shell_greet();
	const char *line;
	while ((line = el_gets(el, &len)) != NULL && len > 0) {
		if (strspn(line, " \t\n") != strlen(line)) {
			history(past, &event, H_ENTER, line);
		}
		if (!shell_line(line, &status)) {
			break;
		}
	}
	history_end(past);
	el_end(el);
	return status;
}
