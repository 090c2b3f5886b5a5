/*
 * log.h - one line per event: `event key=value ...` with ids (pool, drive, txg, seq), no secrets.
 * Facts of the data path are counters, not lines. Lines go to a sink (stderr unless set) and never
 * block a reactor: when the sink is full, lines are dropped and counted.
 */
#ifndef AGATE_BASE_LOG_H
#define AGATE_BASE_LOG_H

#include <stdbool.h>
#include "base/compiler.h"

enum log_level { LOG_DEBUG, LOG_INFO, LOG_NOTICE, LOG_WARN, LOG_ERROR };

void log_line(enum log_level level, const char *fmt, ...) PRINTF_LIKE(2, 3);
/* Lines below level are not formatted at all. Default LOG_INFO; in the simulation LOG_WARN. */
void log_set_level(enum log_level level);
/* Whether a line of this level would be formatted: for facts that are dear to gather. */
bool log_enabled(enum log_level level);
/* fd to write to, set non-blocking by the caller; -1 = nowhere. */
void log_set_fd(int fd);

#define log_debug(...) log_line(LOG_DEBUG, __VA_ARGS__)
#define log_info(...) log_line(LOG_INFO, __VA_ARGS__)
#define log_notice(...) log_line(LOG_NOTICE, __VA_ARGS__)
#define log_warn(...) log_line(LOG_WARN, __VA_ARGS__)
#define log_error(...) log_line(LOG_ERROR, __VA_ARGS__)

#endif
