/* share_rules.c - a share's properties: checking them, and compiling them into nfsd's rules. */
#include <stdio.h>
#include <stdlib.h>
#include "admin/shares.h"

#define CLIENTS_MAX 8192u
#define CLIENT_TEXT_MAX 63u

json_t *
share_find(struct adm_pool *ap, const char *path)
{
	size_t i;
	json_t *share;
	json_array_foreach(json_object_get(ap->shares, "shares"), i, share)
	{
		const char *have = json_string_value(json_object_get(share, "path"));
		if (have != NULL && strcmp(have, path) == 0) {
			return share;
		}
	}
	return NULL;
}

static uint32_t
clients_count(const char *list)
{
	uint32_t n = list[0] != '\0' ? 1 : 0;
	for (const char *p = list; *p != '\0'; p++) {
		n += *p == ',';
	}
	return n;
}

/* Parses a list of clients into rules; each bad token rejects the whole. */
static int
clients_parse(const char *list, bool readonly, enum nfsd_squash squash, struct nfsd_rule *out,
    uint32_t *count, struct adm_error *e)
{
	const char *at = list;
	while (*at != '\0') {
		char token[CLIENT_TEXT_MAX + 1], why[192];
		size_t len = strcspn(at, ",");
		if (len == 0 || len > CLIENT_TEXT_MAX || (at[len] == ',' && at[len + 1] == '\0')) {
			return adm_fail(e, EINVAL,
			    "the list of clients '%.80s' has an empty or overlong entry", list);
		}
		memcpy(token, at, len);
		token[len] = '\0';
		struct nfsd_rule rule = {.readonly = readonly, .squash = squash};
		if (nfsd_rule_parse(token, &rule, why, sizeof(why)) != 0) {
			return adm_fail(e, EINVAL, "%s", why);
		}
		out[(*count)++] = rule;
		at += len + (at[len] == ',' ? 1 : 0);
	}
	return 0;
}

static const struct {
	const char *name;
	enum nfsd_squash squash;
} squashes[] = {{"root_squash", NFSD_ROOT_SQUASH}, {"no_root_squash", NFSD_NO_ROOT_SQUASH},
    {"all_squash", NFSD_ALL_SQUASH}};

static int
squash_parse(const char *text, enum nfsd_squash *out, struct adm_error *e)
{
	for (size_t i = 0; i < ARRAY_LEN(squashes); i++) {
		if (strcmp(squashes[i].name, text) == 0) {
			*out = squashes[i].squash;
			return 0;
		}
	}
	return adm_fail(
	    e, EINVAL, "squash is root_squash, no_root_squash or all_squash, not '%.60s'", text);
}

static const char *
share_text(json_t *share, const char *key)
{
	const char *s = json_string_value(json_object_get(share, key));
	return s != NULL ? s : "";
}

int
share_compile(json_t *share, struct nfsd_export *out, struct adm_error *e)
{
	const char *rw = share_text(share, "rw"), *ro = share_text(share, "ro");
	uint32_t count = clients_count(rw) + clients_count(ro);
	enum nfsd_squash squash;
	*out = (struct nfsd_export){0};
	if (count == 0) {
		adm_fail_next(
		    e, "Say who may use it: rw=10.0.0.0/24, ro=10.0.1.5, or rw=* for everyone.");
		return adm_fail(e, EINVAL, "a share needs clients");
	}
	if (count > CLIENTS_MAX) {
		return adm_fail(e, EINVAL, "%u clients; at most %u", count, CLIENTS_MAX);
	}
	int err = squash_parse(share_text(share, "squash"), &squash, e);
	if (err != 0) {
		return err;
	}
	out->rules = mem_zalloc_array(count, sizeof(*out->rules));
	if (out->rules == NULL) {
		return adm_fail(e, ENOMEM, "out of memory");
	}
	err = clients_parse(rw, false, squash, out->rules, &out->rule_count, e);
	if (err == 0) {
		err = clients_parse(ro, true, squash, out->rules, &out->rule_count, e);
	}
	if (err != 0) {
		mem_free(out->rules);
		out->rules = NULL;
		return err;
	}
	out->share_id = (uint32_t)json_integer_value(json_object_get(share, "id"));
	out->anon_uid = (uint32_t)json_integer_value(json_object_get(share, "anonuid"));
	out->anon_gid = (uint32_t)json_integer_value(json_object_get(share, "anongid"));
	out->insecure = json_is_true(json_object_get(share, "insecure"));
	snprintf(out->path, sizeof(out->path), "%s", share_text(share, "path"));
	snprintf(out->dataset, sizeof(out->dataset), "%s", share_text(share, "dataset"));
	snprintf(out->subdir, sizeof(out->subdir), "%s", share_text(share, "subdir"));
	return 0;
}

static int
share_apply_id(json_t *share, const char *key, const char *value, struct adm_error *e)
{
	char *end;
	errno = 0;
	unsigned long long n = strtoull(value, &end, 10);
	if (value[0] < '0' || value[0] > '9' || errno != 0 || *end != '\0' || n > UINT32_MAX - 1) {
		return adm_fail(
		    e, EINVAL, "%s is a number up to %u, not '%.60s'", key, UINT32_MAX - 1, value);
	}
	json_object_set_new(share, key, json_integer((json_int_t)n));
	return 0;
}

int
share_apply(json_t *share, const char *prop, struct adm_error *e)
{
	char key[16];
	size_t len = strcspn(prop, "=");
	if (prop[len] != '=' || len == 0 || len >= sizeof(key)) {
		return adm_fail(e, EINVAL, "'%.80s' isn't name=value", prop);
	}
	memcpy(key, prop, len);
	key[len] = '\0';
	const char *value = prop + len + 1;
	enum nfsd_squash squash;
	if (strcmp(key, "rw") == 0 || strcmp(key, "ro") == 0) {
		json_object_set_new(share, key, json_string(value));
		return json_object_get(share, key) != NULL
			   ? 0
			   : adm_fail(e, EINVAL, "%s isn't text", key);
	}
	if (strcmp(key, "squash") == 0) {
		int err = squash_parse(value, &squash, e);
		if (err == 0) {
			json_object_set_new(share, key, json_string(value));
		}
		return err;
	}
	if (strcmp(key, "anonuid") == 0 || strcmp(key, "anongid") == 0) {
		return share_apply_id(share, key, value, e);
	}
	if (strcmp(key, "insecure") == 0 &&
	    (strcmp(value, "on") == 0 || strcmp(value, "off") == 0)) {
		json_object_set_new(share, key, json_boolean(strcmp(value, "on") == 0));
		return 0;
	}
	adm_fail_next(e, "A share has rw=, ro=, squash=, anonuid=, anongid=, insecure=on|off.");
	return adm_fail(e, EINVAL, "'%.80s' is no property of a share", prop);
}
