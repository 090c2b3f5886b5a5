/*
 * check.h - assertions. ASSERT: proved, stays on in release; never on bytes from disk, wire or argv.
 * ASSERT_SLOW: dear, only with --enable-debug or a sanitizer.
 */
#ifndef AGATE_BASE_CHECK_H
#define AGATE_BASE_CHECK_H

#include "base/compiler.h"

void check_failed(const char *file, int line, const char *what) NORETURN;

#define ASSERT(cond) (likely(cond) ? (void)0 : check_failed(__FILE__, __LINE__, #cond))
#ifdef AGATE_DEBUG
#define ASSERT_SLOW(cond) ASSERT(cond)
#else
#define ASSERT_SLOW(cond) ((void)sizeof(!(cond)))
#endif

#endif
