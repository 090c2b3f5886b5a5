/* words.c - lines to words, and ranges of names to names. */
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "cli/cli.h"

#define RANGE_MAX 1024
#define NAME_MAX_BYTES 512

int
words_split(char *line, char **out, int max)
{
	int count = 0;
	char *from = line;
	for (;;) {
		while (*from == ' ' || *from == '\t' || *from == '\n') {
			from++;
		}
		if (*from == '\0' || *from == '#') {
			return count;
		}
		if (count == max) {
			return WORDS_TOO_MANY;
		}
		char quote = '\0';
		char *to = from;
		out[count++] = to;
		while (*from != '\0' && (quote != '\0' || strchr(" \t\n", *from) == NULL)) {
			if (*from == '\\' && from[1] != '\0' && quote != '\'') {
				from++;
				*to++ = *from++;
			} else if (quote == '\0' && (*from == '"' || *from == '\'')) {
				quote = *from++;
			} else if (quote != '\0' && *from == quote) {
				quote = '\0';
				from++;
			} else {
				*to++ = *from++;
			}
		}
		if (quote != '\0') {
			return WORDS_OPEN_QUOTE;
		}
		bool end = *from == '\0';
		from += end ? 0 : 1;
		*to = '\0';
		if (end) {
			return count;
		}
	}
}

/* "[003-120]": first, last, and how many digits; false when it is no range. end: behind the ']'. */
static bool
words_range(const char *open, unsigned long *first, unsigned long *last, int *digits, char **end)
{
	char *dash, *close;
	if (!isdigit((unsigned char)open[1])) {
		return false;
	}
	*first = strtoul(open + 1, &dash, 10);
	if (*dash != '-' || !isdigit((unsigned char)dash[1])) {
		return false;
	}
	*last = strtoul(dash + 1, &close, 10);
	*digits = open[1] == '0' ? (int)(dash - open - 1) : 1;
	*end = close + 1;
	return *close == ']' && *last >= *first && *last - *first < RANGE_MAX;
}

bool
words_expand(const char *word, json_t *list)
{
	const char *open = strchr(word, '[');
	char name[NAME_MAX_BYTES], *rest;
	unsigned long first, last;
	int digits;
	if (open == NULL) {
		return json_array_size(list) < RANGE_MAX &&
		       json_array_append_new(list, json_string(word)) == 0;
	}
	if (!words_range(open, &first, &last, &digits, &rest)) {
		return false;
	}
	for (unsigned long n = first; n <= last; n++) {
		int len = snprintf(
		    name, sizeof(name), "%.*s%0*lu%s", (int)(open - word), word, digits, n, rest);
		if (len >= (int)sizeof(name) || !words_expand(name, list)) {
			return false;
		}
	}
	return true;
}
