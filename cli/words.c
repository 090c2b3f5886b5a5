/* words.c - lines to words, and ranges of names to names. */
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
		if (*from == '\0' || *from == '#' || count == max) {
			return count;
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
			return -1;
		}
		bool end = *from == '\0';
		from += end ? 0 : 1;
		*to = '\0';
		if (end) {
			return count;
		}
	}
}

bool
words_expand(const char *word, json_t *list)
{
	const char *open = strchr(word, '[');
	char name[NAME_MAX_BYTES], *end;
	if (open == NULL) {
		return json_array_append_new(list, json_string(word)) == 0;
	}
	unsigned long first = strtoul(open + 1, &end, 10);
	if (end == open + 1 || *end != '-') {
		return false;
	}
	char *second = end + 1;
	unsigned long last = strtoul(second, &end, 10);
	if (end == second || *end != ']' || last < first || last - first >= RANGE_MAX) {
		return false;
	}
	for (unsigned long n = first; n <= last; n++) {
		int len =
		    snprintf(name, sizeof(name), "%.*s%lu%s", (int)(open - word), word, n, end + 1);
		if (len >= (int)sizeof(name) ||
		    json_array_append_new(list, json_string(name)) != 0) {
			return false;
		}
	}
	return true;
}
