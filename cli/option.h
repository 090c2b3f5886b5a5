/* option.h - values of options. */
#ifndef AGATE_CLI_OPTION_H
#define AGATE_CLI_OPTION_H

#include <stdbool.h>
#include <stdint.h>

/* "name=12" with this name (the '=' included) and a number from 1 to max. */
bool option_count(const char *option, const char *name, unsigned max, unsigned *out);

#endif
