/* base.h - everything the other rooms may use of base/. See base/README.md. */
#ifndef AGATE_BASE_H
#define AGATE_BASE_H

#include <errno.h>
#include <limits.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "base/compiler.h"
#include "base/err.h"
#include "base/check.h"
#include "base/le.h"
#include "base/list.h"
#include "base/mem.h"
#include "base/log.h"
#include "base/rt.h"
#include "base/sync.h"
#include "base/arena.h"
#include "base/bug.h"

#endif
