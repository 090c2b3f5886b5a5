/* size.c - the one parser of sizes: command line, configuration file, properties. */
#include "base/size.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

int
size_parse(const char *text, uint64_t *out)
{
	static const char units[] = "KMGTPE";
	unsigned shift = 0;
	char *end;

	if (text[0] < '0' || text[0] > '9') {
		return -EINVAL;
	}
	errno = 0;
	unsigned long long n = strtoull(text, &end, 10);
	if (errno != 0) {
		return -EINVAL;
	}
	if (*end != '\0') {
		char upper = (char)(*end >= 'a' && *end <= 'z' ? *end - 'a' + 'A' : *end);
		const char *unit = strchr(units, upper);

		if (unit == NULL ||
		    (end[1] != '\0' && strcmp(end + 1, "B") != 0 && strcmp(end + 1, "iB") != 0)) {
			return -EINVAL;
		}
		shift = 10u * (unsigned)(unit - units + 1);
	}
	if (n > (UINT64_MAX >> 1) >> shift) {
		return -EINVAL;
	}
	*out = (uint64_t)n << shift;
	return 0;
}
