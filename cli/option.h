/* option.h - values of options. */
#ifndef AGATE_CLI_OPTION_H
#define AGATE_CLI_OPTION_H

#include <stdbool.h>
#include <stdint.h>

/* "25G", "512M", "4096" */
bool option_size(const char *text, uint64_t *out);

#endif
