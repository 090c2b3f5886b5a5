/* xxh.h - XXH3, with the widest vector unit that this processor has, chosen at run time. Not part of base.h. */
#ifndef AGATE_BASE_XXH_H
#define AGATE_BASE_XXH_H

#include <xxhash.h>
#if defined(__x86_64__)
#include <xxh_x86dispatch.h> /* from here on the names of XXH3 mean the dispatching ones */
#endif

#endif
