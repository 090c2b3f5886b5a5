/* confirm.c - the question before data is lost. */
#include <stdio.h>
#include <string.h>
#include <unistd.h>
#include "cli/cli.h"

bool
confirm_destroy(const struct cli_args *a, const char *what, const char *name)
{
	char line[512];
	if (a->yes || a->force) {
		return true;
	}
	if (!isatty(STDIN_FILENO)) {
		fprintf(stderr,
		    "agate: this destroys %s '%s' and all that is in it\n"
		    "       Nothing was destroyed.\n       Add --yes to do it without being "
		    "asked.\n",
		    what, name);
		return false;
	}
	printf("This destroys %s '%s' and all that is in it. Type its name to go on: ", what, name);
	fflush(stdout);
	if (fgets(line, sizeof(line), stdin) == NULL) {
		line[0] = '\0';
	}
	line[strcspn(line, "\n")] = '\0';
	if (strcmp(line, name) == 0) {
		return true;
	}
	fprintf(stderr, "agate: that isn't '%s'. Nothing was destroyed.\n", name);
	return false;
}
