/* request.h - one line of the command socket to a request, and an outcome to an answer. Private to
 * admin/. */
#ifndef AGATE_ADMIN_REQUEST_H
#define AGATE_ADMIN_REQUEST_H

#include "admin/admin_int.h"

struct adm_request {
	json_t *root;    /* owned */
	const char *cmd; /* in root */
	json_t *args;    /* owned; always an object */
};

/* Objects and arrays within each other. Everything that walks JSON recurses, on a fiber's stack. */
#define REQUEST_DEPTH_MAX 8u

/* Any bytes; -EINVAL with e filled in, -ENOMEM. adm_request_free after 0. */
int adm_request_decode(
    const char *line, size_t len, struct adm_request *out, struct adm_error *e) WARN_UNUSED;
void adm_request_free(struct adm_request *r);

/* err 0: the result (stolen, may be NULL); else the error. NULL: no memory. */
json_t *adm_answer(int err, json_t *result, const struct adm_error *e);
/* The answer's text, without a newline; for mem_free. Steals answer. */
char *adm_answer_text(json_t *answer) WARN_UNUSED;

/* Makes jansson allocate through mem.h. Before any other use of it. */
void adm_use_mem(void);

#endif
