/* agate.c - main(): one command from the arguments, or the shell. */
#include <stdio.h>
#include <string.h>
#include "cli/cli.h"

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
