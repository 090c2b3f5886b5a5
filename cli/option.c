/* option.c - values of options. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include "cli/option.h"

bool
option_count(const char *option, const char *name, unsigned max, unsigned *out)
{
	const char *text = option + strlen(name);
	char *end;
	if (strncmp(option, name, strlen(name)) != 0 || *text < '0' || *text > '9') {
		return false;
	}
	errno = 0;
	unsigned long n = strtoul(text, &end, 10);
	if (errno != 0 || *end != '\0' || n < 1 || n > max) {
		return false;
	}
	*out = (unsigned)n;
	return true;
}
