/*
 * out.c - output. Names, host names and paths come from drives: whatever isn't printable ASCII is
 * shown as \ooo, so that no name can move the cursor, and so that each name has one spelling that
 * can be given back as a PATH.
 */
#include <stdarg.h>
#include <time.h>

#include "dump/dump.h"

static uint64_t error_count;

void
out_text(FILE *to, const void *bytes, size_t len)
{
	const uint8_t *b = bytes;

	for (size_t i = 0; i < len; i++) {
		if (b[i] >= 0x20 && b[i] < 0x7f && b[i] != '\\') {
			(void)fputc(b[i], to);
		} else {
			(void)fprintf(to, "\\%03o", b[i]);
		}
	}
}

static bool
is_octal(char c)
{
	return c >= '0' && c <= '7';
}

void
out_unescape(char *text)
{
	char *to = text;

	for (const char *from = text; *from != '\0'; to++) {
		if (from[0] == '\\' && is_octal(from[1]) && from[1] <= '3' && is_octal(from[2]) &&
		    is_octal(from[3])) {
			*to = (char)((from[1] - '0') << 6 | (from[2] - '0') << 3 | (from[3] - '0'));
			from += 4;
		} else {
			*to = *from++;
		}
	}
	*to = '\0';
}

void
out_hex(FILE *to, const uint8_t *bytes, size_t len)
{
	for (size_t i = 0; i < len; i++) {
		(void)fprintf(to, "%02x", bytes[i]);
	}
}

void
out_guid(FILE *to, const uint8_t guid[GUID_LEN])
{
	out_hex(to, guid, GUID_LEN);
}

void
out_hexdump(FILE *to, const uint8_t *bytes, size_t len)
{
	for (size_t at = 0; at < len; at += 16) {
		size_t n = MIN(len - at, (size_t)16);

		(void)fprintf(to, "%08zx ", at);
		for (size_t i = 0; i < 16; i++) {
			if (i < n) {
				(void)fprintf(to, " %02x", bytes[at + i]);
			} else {
				(void)fputs("   ", to);
			}
		}
		(void)fputs("  ", to);
		for (size_t i = 0; i < n; i++) {
			uint8_t c = bytes[at + i];

			(void)fputc(c >= 0x20 && c < 0x7f ? c : '.', to);
		}
		(void)fputc('\n', to);
	}
}

void
out_time(FILE *to, int64_t sec, uint32_t nsec)
{
	time_t t = (time_t)sec;
	struct tm tm;

	/* years beyond four digits are shown as what they are: numbers */
	if (sec < -62135596800 || sec > 253402300799 || gmtime_r(&t, &tm) == NULL) {
		(void)fprintf(to, "@%lld.%09u", (long long)sec, nsec);
		return;
	}
	(void)fprintf(to, "%04d-%02d-%02dT%02d:%02d:%02d.%09uZ", tm.tm_year + 1900, tm.tm_mon + 1,
	    tm.tm_mday, tm.tm_hour, tm.tm_min, tm.tm_sec, nsec);
}

static void
say(const char *fmt, va_list ap)
{
	char line[1024];
	int n = vsnprintf(line, sizeof(line), fmt, ap);

	(void)fflush(stdout);
	(void)fputs("agate-dump: ", stderr);
	out_text(stderr, line, n < 0 ? 0 : MIN((size_t)n, sizeof(line) - 1));
	(void)fputc('\n', stderr);
}

void
out_error(const char *fmt, ...)
{
	va_list ap;

	error_count++;
	va_start(ap, fmt);
	say(fmt, ap);
	va_end(ap);
}

void
out_note(const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	say(fmt, ap);
	va_end(ap);
}

uint64_t
out_error_count(void)
{
	return error_count;
}
