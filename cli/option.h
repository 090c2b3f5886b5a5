/* option.h - values of options. */
#ifndef AGATE_CLI_OPTION_H
#define AGATE_CLI_OPTION_H

#include <stdbool.h>
#include <stdint.h>

/* "25G", "512M", "4096" */
bool option_size(const char *text, uint64_t *out);
/* "name=12" with this name (the '=' included) and a number from 1 to max. */
bool option_count(const char *option, const char *name, unsigned max, unsigned *out);

#endif
