/* confirm.c - the question before data is lost. */
#include <stdio.h>
#include <string.h>
#include <unistd.h>
#include "cli/cli.h"

bool
confirm_destroy(const struct cli_args *a, const char *what, const char *name)
{
	char text[640];
	snprintf(text, sizeof(text), "destroys %s '%s' and all that is in it", what, name);
	return confirm_loss(a, text, name);
}

bool
confirm_loss(const struct cli_args *a, const char *what, const char *name)
{
	char line[1024];
	if (a->yes || a->force) {
		return true;
	}
	if (!isatty(STDIN_FILENO)) {
		fputs("agate: this ", stderr);
		print_safe_to(stderr, what);
		fputs("\n       Nothing was destroyed.\n       Add --yes to do it without being "
		      "asked.\n",
		    stderr);
		return false;
	}
	fputs("This ", stdout);
	print_safe(what);
	fputs(". Type ", stdout);
	print_safe(name);
	fputs(" to go on: ", stdout);
	fflush(stdout);
	if (fgets(line, sizeof(line), stdin) == NULL) {
		line[0] = '\0';
	}
	line[strcspn(line, "\n")] = '\0';
	if (strcmp(line, name) == 0) {
		return true;
	}
	fputs("agate: that isn't '", stderr);
	print_safe_to(stderr, name);
	fputs("'. Nothing was destroyed.\n", stderr);
	return false;
}
