/* option.c - values of options. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include "cli/option.h"

bool
option_size(const char *text, uint64_t *out)
{
	static const char units[] = "KMGT";
	char *end;
	unsigned shift = 0;
	errno = 0;
	unsigned long long n = strtoull(text, &end, 10);
	if (text[0] < '0' || text[0] > '9' || errno != 0) {
		return false;
	}
	if (*end != '\0') {
		char upper = (char)(*end >= 'a' && *end <= 'z' ? *end - 'a' + 'A' : *end);
		const char *unit = strchr(units, upper);
		if (unit == NULL || end[1] != '\0') {
			return false;
		}
		shift = 10u * (unsigned)(unit - units + 1);
	}
	if (n > (UINT64_MAX >> 1) >> shift) {
		return false;
	}
	*out = (uint64_t)n << shift;
	return true;
}

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
