/*
 * log.c - formats one line on the stack and hands it to the sink with one write, so that lines of
 * several reactors don't mix. The sink never blocks a reactor: it is non-blocking (a pipe or ring
 * of the parent), and a line that doesn't fit is dropped and counted; the next line that gets
 * through is preceded by the count. A budget of lines a second keeps a fault in a loop from
 * drowning everything else; the simulation has none, being exact and short.
 *
 * Line: level, time (monotonic seconds), reactor, then `event key=value ...`. Control characters,
 * which could come from names on the wire, become '?'.
 */
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <unistd.h>
#include "base/log.h"
#include "base/compiler.h"
#include "base/rt.h"
#include "base/rt_int.h"

#define LOG_LINE_BYTES_MAX 1024u
#define LOG_LINES_PER_SEC_MAX 500u

static atomic_int level_min = -1; /* -1: not set, the default applies */
static atomic_int sink_fd = STDERR_FILENO;
static atomic_uint dropped;
static _Atomic uint64_t budget_second;
static atomic_uint budget_used;

static const char *const level_text[] = {
    [LOG_DEBUG] = "debug",
    [LOG_INFO] = "info",
    [LOG_NOTICE] = "notice",
    [LOG_WARN] = "warn",
    [LOG_ERROR] = "error",
};

bool
log_enabled(enum log_level level)
{
	int min = atomic_load_explicit(&level_min, memory_order_relaxed);
	if (min < 0) {
		min = rt_is_sim() ? LOG_WARN : LOG_INFO;
	}
	return (int)level >= min;
}

static bool
log_within_budget(uint64_t now_ns)
{
	if (rt_is_sim()) {
		return true;
	}
	uint64_t second = now_ns / NSEC_PER_SEC;
	if (atomic_exchange(&budget_second, second) != second) {
		atomic_store(&budget_used, 0);
	}
	return atomic_fetch_add(&budget_used, 1) < LOG_LINES_PER_SEC_MAX;
}

static bool
log_write(const char *line, size_t len)
{
	int fd = atomic_load(&sink_fd);
	return fd < 0 || write(fd, line, len) == (ssize_t)len;
}

static void
log_note_dropped(void)
{
	unsigned n = atomic_exchange(&dropped, 0);
	if (n == 0) {
		return;
	}
	char line[64];
	int len = snprintf(line, sizeof(line), "warn log_lines_dropped count=%u\n", n);
	if (!log_write(line, (size_t)len)) {
		atomic_fetch_add(&dropped, n);
	}
}

static void
log_format(enum log_level level, uint64_t now, unsigned skipped, const char *fmt, va_list args)
{
	if (!log_within_budget(now)) {
		atomic_fetch_add(&dropped, 1);
		return;
	}
	char line[LOG_LINE_BYTES_MAX];
	int head = snprintf(line, sizeof(line), "%s %llu.%06u r%u ", level_text[level],
	    (unsigned long long)(now / NSEC_PER_SEC),
	    (unsigned)(now % NSEC_PER_SEC / NSEC_PER_USEC), rt_reactor_self());
	size_t len = (size_t)head;
	int body = vsnprintf(line + len, sizeof(line) - len, fmt, args);
	len = MIN(len + (size_t)MAX(body, 0), sizeof(line) - 1);
	if (skipped > 0) {
		int tail = snprintf(line + len, sizeof(line) - len, " skipped=%u", skipped);
		len = MIN(len + (size_t)MAX(tail, 0), sizeof(line) - 1);
	}
	for (size_t i = 0; i < len; i++) {
		if ((unsigned char)line[i] < ' ' || line[i] == 0x7f) {
			line[i] = '?';
		}
	}
	line[len] = '\n'; /* in place of the terminator */
	log_note_dropped();
	if (!log_write(line, len + 1)) {
		atomic_fetch_add(&dropped, 1);
	}
}

static bool
log_wanted(enum log_level level)
{
	return log_enabled(level) && atomic_load(&sink_fd) >= 0;
}

void
log_line(enum log_level level, const char *fmt, ...)
{
	va_list args;
	if (log_wanted(level)) {
		va_start(args, fmt);
		log_format(level, rt_now_ns(), 0, fmt, args);
		va_end(args);
	}
}

/* Several threads may begin a window at once; then some lines more than LOG_BURST go out, no harm.
 */
bool
log_limit_pass(struct log_limit *l, uint64_t now_ns, unsigned *out_skipped)
{
	uint64_t began = atomic_load(&l->window_ns);
	if (now_ns < began || now_ns - began >= LOG_BURST_NS) {
		atomic_store(&l->window_ns, now_ns);
		atomic_store(&l->used, 0);
	}
	if (atomic_fetch_add(&l->used, 1) >= LOG_BURST) {
		atomic_fetch_add(&l->skipped, 1);
		return false;
	}
	*out_skipped = atomic_exchange(&l->skipped, 0);
	return true;
}

void
log_line_limited(struct log_limit *l, enum log_level level, const char *fmt, ...)
{
	va_list args;
	unsigned skipped = 0;
	uint64_t now = rt_now_ns();
	if (log_wanted(level) && (rt_is_sim() || log_limit_pass(l, now, &skipped))) {
		va_start(args, fmt);
		log_format(level, now, skipped, fmt, args);
		va_end(args);
	}
}

void
log_set_level(enum log_level level)
{
	atomic_store(&level_min, (int)level);
}

void
log_set_fd(int fd)
{
	atomic_store(&sink_fd, fd);
}
