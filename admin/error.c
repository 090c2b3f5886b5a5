/* error.c - what a command says when it fails, and text that is safe to put into an answer. */
#include <stdarg.h>
#include <stdio.h>
#include "admin/admin_int.h"

int
adm_fail(struct adm_error *e, int err, const char *fmt, ...)
{
	va_list ap;
	e->code = err < 0 ? -err : err;
	va_start(ap, fmt);
	vsnprintf(e->message, sizeof(e->message), fmt, ap);
	va_end(ap);
	return -e->code;
}

void
adm_fail_untouched(struct adm_error *e, const char *fmt, ...)
{
	va_list ap;
	va_start(ap, fmt);
	vsnprintf(e->untouched, sizeof(e->untouched), fmt, ap);
	va_end(ap);
}

void
adm_fail_next(struct adm_error *e, const char *fmt, ...)
{
	va_list ap;
	va_start(ap, fmt);
	vsnprintf(e->next, sizeof(e->next), fmt, ap);
	va_end(ap);
}

/* Text from outside (a drive's label, a file's name, a message cut at its limit in the middle of a
 * letter) need not be UTF-8, and JSON takes nothing else: then every byte above 127 becomes '?'. */
json_t *
adm_text(const char *s)
{
	json_t *text = json_string(s);
	if (text != NULL) {
		return text;
	}
	char *copy = mem_strdup(s);
	if (copy == NULL) {
		return NULL;
	}
	for (char *p = copy; *p != '\0'; p++) {
		if ((unsigned char)*p > 0x7f) {
			*p = '?';
		}
	}
	text = json_string(copy);
	mem_free(copy);
	return text;
}
