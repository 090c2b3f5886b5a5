/*
 * request.c - nothing in the bytes of a request is trusted: length is bounded by the session, depth
 * here, before the parser recurses; shape by adm_request_decode; values by each command.
 */
#include "admin/request.h"

static const struct {
	int err;
	const char *name;
} own_codes[] = {{ERR_CKSUM, "ERR_CKSUM"}, {ERR_CORRUPT, "ERR_CORRUPT"},
    {ERR_DEGRADED, "ERR_DEGRADED"}, {ERR_SUSPENDED, "ERR_SUSPENDED"}, {ERR_GONE, "ERR_GONE"},
    {ERR_FEATURE, "ERR_FEATURE"}, {ERR_ACTIVE, "ERR_ACTIVE"}};

/* For programs: the name of the error number. */
static const char *
answer_code(int err)
{
	for (size_t i = 0; i < ARRAY_LEN(own_codes); i++) {
		if (own_codes[i].err == err) {
			return own_codes[i].name;
		}
	}
	const char *name = strerrorname_np(err);
	return name != NULL ? name : "EIO";
}

/* Depth of nesting; brackets in strings don't count. An unfinished string is the parser's business.
 */
static uint32_t
request_depth(const char *line, size_t len)
{
	uint32_t depth = 0, deepest = 0;
	bool in_string = false;
	for (size_t i = 0; i < len; i++) {
		char c = line[i];
		if (in_string) {
			i += c == '\\' ? 1 : 0;
			in_string = c != '"';
		} else if (c == '"') {
			in_string = true;
		} else if (c == '[' || c == '{') {
			depth++;
			deepest = MAX(deepest, depth);
		} else if ((c == ']' || c == '}') && depth > 0) {
			depth--;
		}
	}
	return deepest;
}

static int
request_shape(struct adm_request *r, struct adm_error *e)
{
	json_t *args = json_object_get(r->root, "args");
	json_t *version = json_object_get(r->root, "v");
	r->cmd = json_string_value(json_object_get(r->root, "cmd"));
	if (r->cmd == NULL || (args != NULL && !json_is_object(args))) {
		return adm_fail(
		    e, EINVAL, "that is no request: it needs \"cmd\" and an object \"args\"");
	}
	if (json_integer_value(version) != AGATE_PROTOCOL_VERSION) {
		return adm_fail(e, EPROTO, "this daemon speaks version %d of the protocol",
		    AGATE_PROTOCOL_VERSION);
	}
	r->args = args != NULL ? json_incref(args) : json_object();
	return r->args != NULL ? 0 : adm_fail(e, ENOMEM, "out of memory");
}

int
adm_request_decode(const char *line, size_t len, struct adm_request *out, struct adm_error *e)
{
	struct adm_request r = {0};
	json_error_t where;
	if (request_depth(line, len) > REQUEST_DEPTH_MAX) {
		return adm_fail(e, EINVAL, "that is no request: it is nested too deeply");
	}
	r.root = json_loadb(line, len, JSON_REJECT_DUPLICATES, &where);
	if (r.root == NULL) {
		return adm_fail(e, EINVAL, "that is no JSON object: %s", where.text);
	}
	int err = json_is_object(r.root) ? request_shape(&r, e)
					 : adm_fail(e, EINVAL, "that is no JSON object");
	if (err != 0) {
		adm_request_free(&r);
		return err;
	}
	*out = r;
	return 0;
}

void
adm_request_free(struct adm_request *r)
{
	json_decref(r->args);
	json_decref(r->root);
	*r = (struct adm_request){0};
}

json_t *
adm_answer(int err, json_t *result, const struct adm_error *e)
{
	if (err == 0) {
		return json_pack(
		    "{s:i, s:b, s:o*}", "v", AGATE_PROTOCOL_VERSION, "ok", 1, "result", result);
	}
	json_decref(result);
	return json_pack("{s:i, s:b, s:{s:i, s:s, s:o, s:o, s:o}}", "v", AGATE_PROTOCOL_VERSION,
	    "ok", 0, "error", "number", e->code, "code", answer_code(e->code), "message",
	    adm_text(e->message), "untouched", adm_text(e->untouched), "next", adm_text(e->next));
}

char *
adm_answer_text(json_t *answer)
{
	char *text = answer != NULL ? json_dumps(answer, JSON_COMPACT | JSON_ENSURE_ASCII) : NULL;
	json_decref(answer);
	return text;
}

void
adm_use_mem(void)
{
	json_set_alloc_funcs(mem_zalloc, mem_free);
}
