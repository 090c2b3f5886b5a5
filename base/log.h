/*
 * log.h - one line per event: `event key=value ...` with ids (pool, drive, txg, seq), no secrets.
 * Facts of the data path are counters, not lines. Lines go to a sink (stderr unless set) and never
 * block a reactor: when the sink is full, lines are dropped and counted.
 */
#ifndef AGATE_BASE_LOG_H
#define AGATE_BASE_LOG_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include "base/compiler.h"

enum log_level { LOG_DEBUG, LOG_INFO, LOG_NOTICE, LOG_WARN, LOG_ERROR };

void log_line(enum log_level level, const char *fmt, ...) PRINTF_LIKE(2, 3);
/*
 * log_limited - for what somebody outside can cause as often as he likes. Each place in the code may log
 * LOG_BURST lines within LOG_BURST_NS; what is left out is counted, and the next line that is let through
 * says how many those were. No limit in the simulation.
 */
#define LOG_BURST 10u
#define LOG_BURST_NS (10 * NSEC_PER_SEC)
struct log_limit {
	_Atomic uint64_t window_ns; /* when the window began */
	atomic_uint used, skipped;  /* lines within it; lines left out since the last one */
};
/* Whether a line may go out now; *out_skipped: how many didn't before it. */
bool log_limit_pass(struct log_limit *l, uint64_t now_ns, unsigned *out_skipped);
void log_line_limited(struct log_limit *l, enum log_level level, const char *fmt, ...) PRINTF_LIKE(3, 4);
#define log_limited(level, ...) \
	do { \
		static struct log_limit log_limit_here; \
		log_line_limited(&log_limit_here, level, __VA_ARGS__); \
	} while (0)
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
